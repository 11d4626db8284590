"""Leave out every pair by refitting, for costs and weights without a closed form."""

from typing import Any

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.graph import PreferenceGraph
from rankwise.features.kernels import Precomputed
from rankwise.features.maps import Identity
from rankwise.selection.leave_pair_out import TIE, PairsHeldOut, refuse_endless
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space, dense_rows


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
    refuse_endless(len(y) ** 3 / 2 * float(min(K.shape)) ** 2)
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
    return PairsHeldOut(right, total, _error(space, y, weight, alphas, options))


def _error(
    space: Space,
    y: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray:
    """Estimate the rounding errors of the refits from the spectrum of the whole problem."""
    graph = PreferenceGraph.from_scores(y, sample_weight=weight, **options)
    values = space.system(graph).spectrum().values
    return np.finfo(float).eps * (values[-1] + alphas) / (values[0] + alphas)


def _products(space: Space) -> FloatArray:
    """Return the kernel matrix or the features: what both training and prediction need."""
    if isinstance(space, KernelSpace):
        return space.kernel(space.X, space.X)
    assert isinstance(space, FeatureSpace)
    return dense_rows(space.Z)


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
