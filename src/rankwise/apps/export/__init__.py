"""Trained rankers in the formats of other engines, each checked against `predict`."""
