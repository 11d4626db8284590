"""Solvers: spectra, normal equations, conjugate gradients, and what iterations share.

When an iteration stops, what a callback is told, and why a fit ended are in `iteration`.
"""
