"""What the commands do: one function each, grouped by subject."""
