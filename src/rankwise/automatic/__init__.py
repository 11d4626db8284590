"""Rankers that combine others: the recipe for search, and the search over families."""
