"""Transformers of features inside queries."""
