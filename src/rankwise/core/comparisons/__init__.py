"""Comparisons and choices of named items, as people record them."""
