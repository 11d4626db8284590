"""Ratings as they come in: checked, and turned into what is to be learned from them."""

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.binary import RRMeasure
from rankwise.measures.graded import DiscountedGain
from rankwise.measures.inner_product import InnerProductMeasure
from rankwise.measures.rankings import Judgements
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.factorization.alternating import Ratings
from rankwise.rankers.dorm.objective import Decay, decay_of, find_aim
from rankwise.rankers.dorm.oracles.assignment import plan_assignments


def check_ratings(ratings: Any, n_items: int | None = None) -> Matrix:
    """Return ratings as a CSR array of floats that keeps stored zeros; items in ascending order."""
    if not issparse(ratings) or ratings.ndim != 2:
        raise InvalidInputError(
            "`ratings` must be a sparse matrix of SciPy, users in rows and items in columns, whose "
            f"stored entries are the ratings: got {type(ratings).__name__}. In a dense array a "
            "rating of 0 looks like none; write scipy.sparse.coo_array((values, (users, items)))."
        )
    if n_items is not None and ratings.shape[1] != n_items:
        raise InvalidInputError(
            f"`ratings` must have a column for each item of the fit: there were {n_items}, got "
            f"{ratings.shape[1]}."
        )
    entries = coo_array(ratings)
    users, items = (np.asarray(index, dtype=np.intp) for index in entries.coords)
    order = np.lexsort((items, users))
    users, items = users[order], items[order]
    values = _values(entries.data)[order]
    _refuse_repeated(users, items)
    starts = np.searchsorted(users, np.arange(ratings.shape[0] + 1))
    return csr_array((values, items, starts), shape=ratings.shape)


def _values(data: np.ndarray) -> FloatArray:
    if data.dtype.kind not in "biuf" or not np.isfinite(data).all():
        raise InvalidInputError(
            "`ratings` must hold finite real numbers: got others, such as NaN. Leave out the "
            "entries of items that were not rated."
        )
    return data.astype(np.float64)


def _refuse_repeated(users: IntArray, items: IntArray) -> None:
    same = (users[1:] == users[:-1]) & (items[1:] == items[:-1])
    if same.any():
        at = int(np.argmax(same))
        raise InvalidInputError(
            "`ratings` must hold at most one rating of an item by a user: user "
            f"{users[at]} has several of item {items[at]}. Keep the last one, or their mean."
        )


def rated_by(R: Matrix) -> Queries:
    """Return the ratings as queries, one for each user who has any."""
    sizes = np.diff(R.indptr)
    users = np.flatnonzero(sizes)
    return Queries(users, np.repeat(np.arange(len(users)), sizes[users]))


def trainable(measure: Measure | str) -> Measure:
    """Return a measure that can be trained for."""
    parsed = parse_measure(measure)
    if isinstance(parsed, InnerProductMeasure | RRMeasure):
        return parsed
    raise InvalidInputError(
        "`measure` must add up gains times discounts of positions, as NDCG, DCG, Precision @ k, "
        f"RR, WTA and ERU do: got {parsed!r}, which does not. Train for NDCG, and use {parsed!r} "
        "to choose the settings."
    )


def learn_from(
    R: Matrix, measure: Measure, decay: Decay, bias: FloatArray
) -> tuple[Ratings, IntArray] | None:
    """Return what can be learned, and the rows of the users it can be learned from.

    Left out are users whose rankings are all worth the same: with no rating or one, or with ratings
    that gain alike. None if no user remains.

    Parameters
    ----------
    R : (n_users, n_items)
        Checked ratings.
    measure, decay
        What a ranking is worth, and how its positions count in the score of it.
    bias : (n_items,)
        Preliminary scores of the items, where the measure leaves a choice.
    """
    _refuse_negative(R, measure)
    queries = rated_by(R)
    if queries.n_queries == 0:
        return None
    aim, decays = find_aim(measure, Judgements.of(R.data, queries)), decay_of(decay, queries)
    if not aim.is_open.any():
        return None
    kept = np.flatnonzero(aim.is_open[queries.index])
    aim, items, chosen = aim.take(kept), R.indices[kept].astype(np.intp), queries.take(kept)
    gains = aim.settle(bias[items], chosen.starts)
    plan = plan_assignments(gains, aim.discounts, decays[kept], chosen.starts)
    return Ratings(plan, items), chosen.ids


def _refuse_negative(R: Matrix, measure: Measure) -> None:
    if isinstance(measure, DiscountedGain) and R.nnz and R.data.min() < 0:
        raise InvalidInputError(
            f"`ratings` must not be negative for {measure!r}, where an item gains by its rating: "
            f"the smallest is {R.data.min():g}. Add a constant or round them to grades 0, 1, 2, "
            "..., or take a measure with a neutral vote, such as ERU(neutral=0)."
        )
