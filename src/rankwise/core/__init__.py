"""The foundation of all other parts: arrays, errors, checks, queries, threads."""
