"""An HTML page about rankers and how well they do: one file, nothing loaded from elsewhere."""
