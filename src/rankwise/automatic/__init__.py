"""Rankers that put others together: the recipe for search, and the search over families."""
