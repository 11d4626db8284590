"""The jobs of `rankwise fit`: pairwise, listwise, conditional, automatic, on a cluster."""
