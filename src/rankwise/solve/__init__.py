"""Solvers: spectra, normal equations, conjugate gradients, and what iterations share."""
