"""Files: svmlight/LETOR, tables, saved models."""
