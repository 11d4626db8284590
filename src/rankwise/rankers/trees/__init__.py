"""Boosted trees over preference graphs."""
