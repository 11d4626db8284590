"""A small HTTP server that re-ranks the items of a query."""
