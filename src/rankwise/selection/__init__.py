"""Closed-form hold-outs and regularisation paths."""
