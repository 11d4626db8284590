"""Svmlight and LETOR files."""
