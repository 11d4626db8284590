"""Preference graphs and their Laplacians: cliques, nested cliques, edges."""
