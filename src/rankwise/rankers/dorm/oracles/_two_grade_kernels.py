"""The exact oracle of a loss with two grades of gain: a dynamic programme in a narrow band.

A ranking is a chain x_0 = 0, x_1, ...: how many of the first k items are of the higher grade; it
rises by 0 or 1. The value is an L-natural-concave function of the chain, so a chain that is best
among those at most one away from it everywhere is best of all.
"""

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles._sorting_kernels import GradeLists, RankedQuery


@njit(cache=True, nogil=True)
def best_chain(query: RankedQuery, lists: GradeLists, chain: IntArray, positions: IntArray) -> None:
    """Fill the positions of all ranks, searching in a band around a first guess.

    The band moves to the path found in it and doubles until the path keeps clear of its edges.
    Costs O(n_items * width).

    Parameters
    ----------
    query, lists
        With two grades.
    chain : (n_items + 1,), changed
        A first guess, for example from thresholds; becomes the best chain.
    positions : (n_items,), filled
    """
    n_items, n_low = len(query.scores), lists.starts[1]
    for k in range(n_items):
        chain[k + 1] = min(max(chain[k + 1], chain[k]), chain[k] + 1)
    width, clear = 4, False
    while not clear:
        low, high = _band(chain, n_low, width)
        rises = _forward(query, lists, low, high, 2 * width + 1)
        clear = _read_back(rises, low, high, n_low, chain)
        width *= 2
    for k in range(n_items):
        rising = chain[k + 1] > chain[k]
        rank = lists.ranks[n_low + chain[k] if rising else k - chain[k]]
        positions[rank] = k


@njit(cache=True, nogil=True, inline="always")
def _band(chain: IntArray, n_low: int, width: int) -> tuple[IntArray, IntArray]:
    n_high = len(chain) - 1 - n_low
    low, high = np.empty(len(chain), np.intp), np.empty(len(chain), np.intp)
    for k in range(len(chain)):
        low[k] = max(0, k - n_low, chain[k] - width)
        high[k] = min(k, n_high, chain[k] + width)
    return low, high


@njit(cache=True, nogil=True, inline="always")
def _forward(
    query: RankedQuery, lists: GradeLists, low: IntArray, high: IntArray, width: int
) -> NDArray[np.uint8]:
    """Return for each number of items placed, and each x in the band, whether x has just risen."""
    scores, gains, decay, discounts = query
    ranks, n_items, n_low = lists.ranks, len(scores), lists.starts[1]
    values = np.full(n_items - n_low + 2, -np.inf)  # of x in x + 1, so that x - 1 always exists
    values[1] = 0.0
    rises = np.empty((n_items, width), np.uint8)
    for k in range(n_items):
        c, a = decay[k], discounts[k]
        for x in range(high[k + 1], low[k + 1] - 1, -1):
            stay = rise = -np.inf
            if 0 <= k - x < n_low:
                stay = values[x + 1] + c * scores[ranks[k - x]] - a * gains[0]
            if x > 0:
                rise = values[x] + c * scores[ranks[n_low + x - 1]] - a * gains[1]
            values[x + 1] = max(stay, rise)
            rises[k, x - low[k + 1]] = rise > stay
        values[low[k + 1]] = -np.inf  # has left the band
    return rises


@njit(cache=True, nogil=True, inline="always")
def _read_back(
    rises: NDArray[np.uint8], low: IntArray, high: IntArray, n_low: int, chain: IntArray
) -> bool:
    """Fill the best chain in the band and return whether it keeps clear of the band's edges."""
    n_items = len(rises)
    n_high = n_items - n_low
    clear, x = True, n_high
    for k in range(n_items, 0, -1):
        chain[k] = x
        at_low = x == low[k] and x > max(0, k - n_low)
        at_high = x == high[k] and x < min(k, n_high)
        clear = clear and not (at_low or at_high)
        x -= rises[k - 1, x - low[k]]
    return clear
