"""The commands and their options, one file each; they import nothing heavy."""
