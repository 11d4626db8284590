"""Transformers of features that know which rows belong to one query."""
