"""The exact oracle of the reciprocal rank, where the first of several relevant items counts."""

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, njit
from rankwise.rankers.dorm.oracles.assignment_kernels import descending


@njit(cache=True, nogil=True)
def place_first_relevant(
    scores: FloatArray,
    hits: BoolArray,
    decay: FloatArray,
    discounts: FloatArray,
    positions: IntArray,
) -> None:
    """Fill the positions that maximise the score of a ranking less the worth of its first hit.

    If the first k positions hold no relevant item, they hold the k others of the highest scores in
    their order, and all else follows in its order, since any exchange would lower the score. So
    there is one ranking to look at for every k. The next one moves a single item up, past the
    relevant items of higher scores. Costs a sort and O(n_relevant) for each k.

    Parameters
    ----------
    scores : (n_items,)
        g of each item.
    hits : (n_items,)
        Which items are relevant; at least one.
    decay, discounts : (n_items,)
        c and a of each position; neither increases.
    positions : (n_items,), filled
    """
    n_items = len(scores)
    order = np.empty(n_items, np.intp)
    descending(scores, n_items, np.empty((2, n_items), np.uint64), order)
    n_ahead = best_k = k = 0  # relevant items ahead of the other that moves up
    value, best = 0.0, -discounts[0]  # [LS08] eq. (10)
    ahead = np.empty(n_items)
    for rank in range(n_items):
        item = order[rank]
        if hits[item]:
            ahead[n_ahead] = scores[item]
            n_ahead += 1
            continue
        if discounts[k] == discounts[n_items - 1]:
            break
        value += (decay[k] - decay[k + n_ahead]) * scores[item]
        for r in range(n_ahead):
            value += (decay[k + r + 1] - decay[k + r]) * ahead[r]
        k += 1
        if value - discounts[k] > best:
            best, best_k = value - discounts[k], k
    _fill(order, hits, best_k, positions)


@njit(**CALLED_BY_KERNELS)
def _fill(order: IntArray, hits: BoolArray, n_first: int, positions: IntArray) -> None:
    """Place so many items that are not relevant first, and all else behind, each in its order."""
    placed, behind = 0, n_first
    for item in order:
        if not hits[item] and placed < n_first:
            positions[item] = placed
            placed += 1
        else:
            positions[item] = behind
            behind += 1
