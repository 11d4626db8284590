"""The rankers, one folder per family, and what every ranker shares."""
