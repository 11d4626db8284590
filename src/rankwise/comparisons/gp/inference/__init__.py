"""Gaussian approximations of the posterior: expectation propagation and Laplace."""
