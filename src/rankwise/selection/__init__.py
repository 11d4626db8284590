"""Choosing parameters: folds, paths along a grid, judging by a measure."""
