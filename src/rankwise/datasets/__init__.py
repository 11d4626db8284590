"""Data that ships with the package."""

from rankwise.datasets.digits import DigitsPart, DigitsQueries, load_digits_queries

__all__ = ["DigitsPart", "DigitsQueries", "load_digits_queries"]
