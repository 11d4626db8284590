"""`rankwise ask`: rank anything by answering "which is better?" in a browser."""
