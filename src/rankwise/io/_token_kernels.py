"""Whole numbers in text."""

from typing import Any

import numpy as np
from numba import njit

_U1, _U9 = np.uint64(1), np.uint64(9)
_ZERO, _MINUS = np.uint64(ord("0")), ord("-")
_MAX_DIGITS = 18  # every such number fits in 64 bits


@njit(cache=True)
def parse_integers(text: Any, spans: Any, out: Any) -> Any:
    """Read each span as a whole number; return False when one is not written as Python does.

    ``007`` and ``+7`` are refused, so that different texts never become equal numbers.
    """
    for row in range(len(spans)):
        pos, stop = np.uint64(spans[row, 0]), np.uint64(spans[row, 1])
        negative = pos < stop and text[pos] == _MINUS
        if negative:
            pos += _U1
        n_digits = np.int64(stop) - np.int64(pos)
        if n_digits < 1 or n_digits > _MAX_DIGITS:
            return False
        if np.uint64(text[pos]) == _ZERO and (n_digits > 1 or negative):
            return False
        value: Any = 0
        while pos < stop:
            digit = np.uint64(text[pos]) - _ZERO
            if digit > _U9:
                return False
            value = value * 10 + np.int64(digit)
            pos += _U1
        out[row] = -value if negative else value
    return True
