"""Ranking measures as values, and their evaluation.

What all measures share is in `value`: grades, rankings, and how ties in the scores count
(`TieRule`). Their definitions are in `graded` (NDCG and its kin), `binary` and `pairwise`.
"""
