"""Exact loss-augmented rankings."""
