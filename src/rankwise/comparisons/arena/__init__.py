"""Leaderboards from names alone: who beat whom, with ties, judges and rankings."""
