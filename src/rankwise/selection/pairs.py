"""Choose the form in which pairs of one global ranking are left out."""

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.selection.leave_pair_out import (
    PairsHeldOut,
    leave_pair_out_complete,
    leave_pair_out_graded,
)
from rankwise.selection.leave_pair_out_refit import leave_pair_out_refitted
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space, dense_rows


def pairs_held_out(
    space: Space,
    Y: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
    *,
    cost: str,
    ties: str,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out all pairs of different score, for every alpha and output.

    Parameters
    ----------
    space : Space
        Where the problem is solved.
    Y : (n_items, n_outputs)
        Scores.
    weight : (n_items,)
        Sample weights, above 0.
    alphas : (n_alphas,)
        The values of alpha.
    cost, ties, query_weight
        As in `RankRLS`.

    Notes
    -----
    The closed forms need cost "magnitude" with ties kept or absent, or few grades; unequal weights
    are understood by the former with query_weight "items" only. Anything else is refitted without
    each pair, which is exact as well but takes O(n^2) fits.
    """
    equal = bool(np.all(weight == weight[0]))
    untied = all(len(np.unique(column)) == len(Y) for column in Y.T)
    if cost == "magnitude" and (ties == "keep" or untied) and (equal or query_weight == "items"):
        mus = alphas * _complete_factor(query_weight, weight)
        return leave_pair_out_complete(space, Y, weight, mus)
    if cost != "relative" and ties == "drop" and equal and not untied:
        parts = [
            _graded(space, column, alphas, float(weight[0]), cost, query_weight) for column in Y.T
        ]
    else:
        options = {"cost": cost, "ties": ties, "query_weight": query_weight}
        parts = [leave_pair_out_refitted(space, y, weight, alphas, **options) for y in Y.T]
    return parts[0].beside(parts[1:])


def _complete_factor(query_weight: str, weight: FloatArray) -> float:
    """Return mu / alpha when the cost is written as a weighted scatter around the mean."""
    left = len(weight) - 2
    factors = {"items": 1.0, "pairs": 1 / (left * weight[0]), "equal": weight[0] * (left - 1) / 2}
    return float(factors[query_weight])


def _graded(
    space: Space, y: FloatArray, alphas: FloatArray, weight: float, cost: str, query_weight: str
) -> PairsHeldOut:
    values, level = np.unique(y, return_inverse=True)
    gaps = values[:, None] - values
    targets = np.sign(gaps) if cost == "unit" else gaps

    def strengths(rest: FloatArray) -> FloatArray:
        n_left = rest.sum()
        n_pairs = (n_left**2 - np.sum(rest**2)) / 2
        factors = {"items": n_left / weight, "pairs": weight**-2, "equal": n_pairs}
        return alphas * factors[query_weight]

    return leave_pair_out_graded(_kernel_matrix(space), level, targets, strengths)


def _kernel_matrix(space: Space) -> FloatArray:
    if isinstance(space, KernelSpace):
        return space.kernel(space.X, space.X)
    assert isinstance(space, FeatureSpace)
    Z = dense_rows(space.Z)
    Z = Z - Z.mean(axis=0)
    return Z @ Z.T
