"""Conditional ranking: items ranked for each condition, by kernels on pairs of objects."""
