"""Choose the form in which pairs of one global ranking are left out."""

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.selection.leave_pair_out import (
    PairsHeldOut,
    leave_pair_out_complete,
    leave_pair_out_graded,
)
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space


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
        As in `RankRLS`; the relative cost has no closed form.
    """
    if cost == "relative":
        raise InvalidInputError(
            "Leaving out pairs has no closed form for cost='relative': got it. "
            "Use cost='magnitude', or leave out queries."
        )
    n_items = len(Y)
    untied = [len(np.unique(column)) == n_items for column in Y.T]
    if cost == "magnitude" and (ties == "keep" or all(untied)):
        mus = alphas * _complete_factor(query_weight, weight)
        return leave_pair_out_complete(space, Y, weight, mus)
    if not np.all(weight == weight[0]):
        raise InvalidInputError(
            f"Leaving out pairs with cost={cost!r} must have equal sample weights when ties are "
            "dropped: got different ones. Use ties='keep'."
        )
    parts = [_graded(space, column, alphas, float(weight[0]), cost, query_weight) for column in Y.T]
    return parts[0].beside(parts[1:])


def _complete_factor(query_weight: str, weight: FloatArray) -> float:
    """Return mu / alpha when the cost is written as a weighted scatter around the mean."""
    if query_weight == "items":
        return 1.0
    if not np.all(weight == weight[0]):
        raise InvalidInputError(
            f"Leaving out pairs with query_weight={query_weight!r} must have equal sample weights. "
            "Use query_weight='items'."
        )
    left = len(weight) - 2
    per_pair = 1.0 / left if query_weight == "pairs" else (left - 1) / 2.0
    return per_pair / weight[0] if query_weight == "pairs" else per_pair * weight[0]


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
    if sparse.issparse(space.Z):
        return (space.Z @ space.Z.T).toarray()
    Z = space.Z - space.Z.mean(axis=0, dtype=float)
    return Z @ Z.T
