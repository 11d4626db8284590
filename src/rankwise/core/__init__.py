"""What every other part stands on: arrays, errors, checks, queries, threads."""
