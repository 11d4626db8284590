"""Rank from comparisons: leaderboards, judges, preference Gaussian processes."""
