"""What recommendations are worth on ratings set aside, and items that nobody has chosen yet."""

import numpy as np
from scipy.sparse import csr_array

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, Matrix, parts_of
from rankwise.core.queries import Queries
from rankwise.measures.evaluation import Evaluation, evaluate
from rankwise.measures.honest_value import HonestValue
from rankwise.measures.value import Judgements, Measure
from rankwise.rankers.dorm.losses import PositionObjective

PER_CHOSEN = 3
"""Unseen items drawn for each chosen one; more learn hardly better and take longer."""

MOST_SCORES = 20_000_000
"""Most scores of unseen items that one value is measured on; more users are drawn from."""


def users_of(R: Matrix) -> IntArray:
    """Return the user of each rating."""
    return parts_of(R.indptr)


def rated_by(R: Matrix) -> Queries:
    """Return the ratings as queries, one for each user who has any."""
    sizes = np.diff(R.indptr)
    users = np.flatnonzero(sizes)
    return Queries(users, np.repeat(np.arange(len(users)), sizes[users]))


def split_ratings(R: Matrix, share: float, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Return ratings to learn from, and this share of every user's ratings, rounded, set aside."""
    sizes, users = np.diff(R.indptr), users_of(R)
    # a random rank of each rating among those of its user
    order = np.lexsort((rng.random(len(users)), users))
    rank = np.empty(len(users), dtype=np.intp)
    rank[order] = np.arange(len(users)) - R.indptr[:-1][users]
    aside = rank < np.round(share * sizes)[users]
    return _chosen(R, users, ~aside), _chosen(R, users, aside)


def _chosen(R: Matrix, users: IntArray, kept: BoolArray) -> Matrix:
    starts = np.searchsorted(users[kept], np.arange(R.shape[0] + 1))
    return csr_array((R.data[kept], R.indices[kept], starts), shape=R.shape)


def with_unseen(R: Matrix, rng: np.random.Generator) -> Matrix:
    """Return choices with some unseen items of each user, stored as 0.

    As many of them are drawn as `PER_CHOSEN` says, uniformly, with those that coincide dropped.
    """
    n_items, users = R.shape[1], users_of(R)
    drawn = np.repeat(users, PER_CHOSEN) * n_items + rng.integers(
        n_items, size=PER_CHOSEN * len(users)
    )
    chosen = users * n_items + R.indices
    unseen = np.setdiff1d(drawn, chosen)
    code = np.concatenate([chosen, unseen])
    values = np.concatenate([R.data, np.zeros(len(unseen))])
    order = np.argsort(code)
    rows, items = np.divmod(code[order], n_items)
    starts = np.searchsorted(rows, np.arange(R.shape[0] + 1))
    return csr_array((values[order], items, starts), shape=R.shape)


def rated_value(
    measure: Measure, aside: Matrix, U: FloatArray, V: FloatArray, bias: FloatArray
) -> Evaluation | None:
    """Rank the ratings set aside of each user; None if all orders of all users are worth the same.

    Users of whom the measure cannot tell two orders apart have no part in the value.
    """
    queries = rated_by(aside)
    if queries.n_queries == 0:
        return None
    prefers = PositionObjective.of(measure, Judgements.of(aside.data, queries)).has_preference
    kept = prefers[queries.index]
    if not kept.any():
        return None
    users, items = users_of(aside)[kept], aside.indices[kept]
    scores = np.einsum("rk,rk->r", U[users], V[items]) + bias[items]
    return evaluate(aside.data[kept], scores, users, measure)


def chosen_value(
    measure: Measure,
    aside: Matrix,
    known: Matrix,
    factors: tuple[FloatArray, FloatArray, FloatArray],
    rng: np.random.Generator,
) -> Evaluation | None:
    """Rank all items that users have not chosen before, where the choices set aside gain.

    Parameters
    ----------
    measure
        What decides.
    aside, known : (n_users, n_items)
        Choices set aside, and choices learned from.
    factors
        Of users and items, and the bias of the items.
    rng
        Draws some of many users.
    """
    U, V, bias = factors
    users = np.flatnonzero(np.diff(aside.indptr))
    most = max(1, MOST_SCORES // aside.shape[1])
    users = np.sort(rng.permutation(users)[:most])
    if len(users) == 0:
        return None
    # unseen items of each user, with the gain of those that were chosen later
    unseen = known[users].toarray() == 0
    gains, scores = aside[users].toarray()[unseen], (U[users] @ V.T + bias)[unseen]
    return evaluate(gains, scores, np.nonzero(unseen)[0], measure)


def honest_value(measure: Measure, found: Evaluation | None) -> HonestValue:
    """Return the mean over users with its interval; unknown if there are none."""
    if found is None:
        return HonestValue(repr(measure), np.nan, np.nan, np.nan, 0, "users")
    low, high = found.interval()[0].tolist()
    n_users = int(np.count_nonzero(~np.isnan(found.values[:, 0])))
    return HonestValue(repr(measure), float(found.mean[0]), low, high, n_users, "users")
