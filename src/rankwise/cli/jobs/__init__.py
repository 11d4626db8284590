"""What the commands do: a function each, in a file for commands about the same thing."""
