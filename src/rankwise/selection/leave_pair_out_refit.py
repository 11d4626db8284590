"""Leave out every pair by refitting, for costs and weights without a closed form."""

from typing import Any

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.graph import PreferenceGraph
from rankwise.features.kernels import Precomputed
from rankwise.features.maps import Identity
from rankwise.selection.leave_pair_out import TIE, PairsHeldOut
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space, dense_rows

MOST_OPERATIONS = 1e13
"""Above this many operations, minutes of work, refitting is refused."""


def leave_pair_out_refitted(
    space: Space, y: FloatArray, weight: FloatArray, alphas: FloatArray, **options: Any
) -> PairsHeldOut:
    """Leave out all pairs of different score by fitting what remains: exact, O(n^2) fits.

    Parameters
    ----------
    space, weight, alphas
        As in `pairs_held_out`.
    y : (n_items,)
        Scores.
    **options
        Cost, ties and query weight of the graph.
    """
    K = _products(space)
    _refuse_endless(len(y), K.shape[1])
    right, total = np.zeros((2, len(alphas), len(y), 1))
    for i in range(len(y)):
        for j in range(i):
            if y[i] == y[j]:
                continue
            difference = _difference(space, K, y, weight, alphas, np.array([i, j]), options)
            if difference is None:
                continue
            tied = np.abs(difference) <= TIE * np.abs(y).max()
            credit = np.where(tied, 0.5, (difference > 0) == (y[i] > y[j]))
            right[:, [i, j], 0] += credit[:, None]
            total[:, [i, j], 0] += 1.0
    if not total.any():
        raise InvalidInputError(
            "Leaving out pairs needs at least four items of different scores, so that something is "
            "left to learn from. Give more items."
        )
    return PairsHeldOut(right, total, np.zeros(len(alphas)))


def _products(space: Space) -> FloatArray:
    """Return the kernel matrix or the features: what both training and prediction need."""
    if isinstance(space, KernelSpace):
        return space.kernel(space.X, space.X)
    assert isinstance(space, FeatureSpace)
    return dense_rows(space.Z)


def _refuse_endless(n_items: int, width: int) -> None:
    operations = n_items**2 / 2 * float(min(width, n_items)) ** 2 * n_items
    if operations > MOST_OPERATIONS:
        raise InvalidInputError(
            "Leaving out pairs has no closed form for this cost, these ties or these weights, and "
            f"refitting without each pair of {n_items} items would take too long. "
            "Use cost='magnitude' with ties='keep', or leave out queries."
        )


def _difference(
    space: Space,
    K: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
    pair: IntArray,
    options: dict[str, Any],
) -> FloatArray | None:
    """Return f_i - f_j for every alpha without the pair, None if nothing is left to learn."""
    rest = np.delete(np.arange(len(y)), pair)
    try:
        graph = PreferenceGraph.from_scores(y[rest], sample_weight=weight[rest], **options)
    except NothingToLearnError:
        return None
    some: Space
    if isinstance(space, KernelSpace):
        some = KernelSpace(Precomputed(), K[np.ix_(rest, rest)], Identity())
        rows = K[pair][:, rest]
    else:
        some, rows = FeatureSpace(K[rest], Identity(), Identity()), K[pair]
    solutions = some.system(graph).path(alphas)[:, :, 0]
    return solutions @ (rows[0] - rows[1])
