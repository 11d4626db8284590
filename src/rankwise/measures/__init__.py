"""Ranking measures as values, and their evaluation."""
