"""Dense, naive, obviously right versions of everything rankwise computes fast; NumPy only."""

import numpy as np
