"""Values every other part stands on: queries, preference graphs, errors, input checks."""
