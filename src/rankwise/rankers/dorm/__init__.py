"""DORM: direct optimisation of ranking measures."""
