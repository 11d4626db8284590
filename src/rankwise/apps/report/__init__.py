"""An HTML page about rankers and their performance: one file, nothing loaded from elsewhere."""
