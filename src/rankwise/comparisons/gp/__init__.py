"""PreferenceGP: Gaussian processes on comparisons."""
