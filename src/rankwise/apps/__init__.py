"""What people touch: the command line, pages, files for other engines, servers, clusters."""
