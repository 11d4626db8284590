"""Randomness at the boundary: scikit-learn's ``random_state`` as a generator."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator that follows scikit-learn's ``random_state``."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
