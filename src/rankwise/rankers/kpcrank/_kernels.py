"""The nested Cholesky factorisation: products of panels, and compiled loops inside a panel."""

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.compile import njit


def eliminate(panels: FloatArray, n_columns: int, floor: FloatArray) -> FloatArray:
    """Turn rows [A; B] into [C; B C^-T] in place, where A = C C' is the leading square part.

    Rows are stored in panels of a few columns each, (n_panels, n_rows, width), so that every
    product is one of contiguous blocks. A column whose pivot is not above its floor is determined
    by the ones before: it is set to zero, with 1 on the diagonal, and takes no further part.

    Returns the pivots, the squares of the diagonal of C; 0 for columns left out.
    """
    n_panels, _, width = panels.shape
    pivots = np.zeros(n_columns)
    for k in range(n_panels):
        first = k * width
        last = min(first + width, n_columns)
        panel = panels[k]
        for j in range(k):
            panel[first:, : last - first] -= panels[j, first:] @ panels[j, first:last].T
        _eliminate_panel(panel, first, last - first, floor, pivots)
    return pivots


@njit(cache=True, nogil=True)
def _eliminate_panel(
    panel: FloatArray, first: int, n_columns: int, floor: FloatArray, pivots: FloatArray
) -> None:
    n_rows = panel.shape[0]
    column = np.empty(n_columns)
    for c in range(n_columns):
        pivot = panel[first + c, c]
        if not pivot > floor[first + c]:
            panel[first + c, c] = 1.0
            for i in range(first + c + 1, n_rows):
                panel[i, c] = 0.0
            continue
        pivots[first + c] = pivot
        root = np.sqrt(pivot)
        panel[first + c, c] = root
        for s in range(c + 1, n_columns):
            column[s] = panel[first + s, c] / root
        for i in range(first + c + 1, n_rows):
            x = panel[i, c] / root
            panel[i, c] = x
            for s in range(c + 1, n_columns):
                panel[i, s] -= x * column[s]
