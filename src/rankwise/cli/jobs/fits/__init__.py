"""The jobs of `rankwise fit`, one file per family."""
