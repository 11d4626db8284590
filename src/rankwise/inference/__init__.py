"""Algorithms: arrays and graphs in, frozen results out."""
