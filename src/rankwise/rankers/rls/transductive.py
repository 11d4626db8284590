"""Score the items of new queries together: the scores with the smallest leave-query-out error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, lstsq
from sklearn.base import clone

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_positive, refuse_huge_rows
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries, TrainingData
from rankwise.features.function_space import smallest_space
from rankwise.features.kernels import Precomputed, as_kernel
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.rankers.closed_form import ALPHA_REMEDY
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.solve.normal_equations import Dual

MOST_ITEMS = 8192
"""Learned from and scored together, since matrices of this order are inverted."""


def transductive_scores(
    ranker: RankRLS,
    X: Any,
    y: ArrayLike,
    qid: ArrayLike,
    X_new: Any,
    qid_new: ArrayLike,
) -> FloatArray:
    r"""Score the items of new queries together with those that have scores.

    The new queries enter the preference graph with unknown scores. The result minimises the
    leave-query-out error over all queries, known and new:

    .. math:: \min_{y_\text{new}} \sum_q \omega_q \sum_{(i, j) \in q}
              \bigl(y_i - y_j - (f^{-q}_i - f^{-q}_j)\bigr)^2

    with :math:`f^{-q}` the ranking function of `RankRLS` without query q. It is linear in the
    scores, so this is one linear least-squares problem; it costs O(n^3) for n items in all.
    ``RankRLS.predict`` is the plain alternative, which ignores the other new items. Which one is
    better depends on the data, so compare the two on queries with known scores.

    Parameters
    ----------
    ranker : RankRLS
        Its alpha, kernel, ties and query weight are used; the cost must be "magnitude". It need
        not be fitted, and is not changed.
    X : (n_items, n_features)
        Items with scores.
    y : (n_items,)
        Their scores.
    qid : (n_items,)
        Their queries.
    X_new : (n_new, n_features)
        Items without scores.
    qid_new : (n_new,)
        Their queries; they are distinct from those of ``qid``, even if ids are equal.

    Returns
    -------
    scores : (n_new,)
        Scores, comparable only within a query; 0 for a query of one item.

    Notes
    -----
    Announced in [PTAB07] Sect. 4 and outlined in its reference [13], which builds a transductive
    RankRLS on the hold-outs of [PTA09] (33).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS, transductive_scores
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=60)
    >>> new = qid >= 8
    >>> scores = transductive_scores(
    ...     RankRLS(), X[~new], y[~new], qid[~new], X[new], qid[new])
    >>> bool(np.corrcoef(scores, X[new, 0] - scores.mean())[0, 1] > 0.5)
    True
    """
    if not isinstance(ranker, RankRLS):
        raise InvalidInputError(f"`ranker` must be a RankRLS: got {type(ranker).__name__}.")
    alpha = check_positive("alpha", ranker.alpha, ALPHA_REMEDY)
    _refuse_settings(ranker)
    checker = clone(ranker)
    known, new = checker._check_rows(X), checker._check_rows(X_new, reset=False)
    refuse_huge_rows(new, "X_new")
    data = TrainingData.of(known.shape[0], y, qid)
    data.single_output("Score one output at a time.")
    if qid is None or qid_new is None:
        raise InvalidInputError("`qid` and `qid_new` must be given: queries are left out in turn.")
    rows = _stacked(known, new)
    _refuse_many(rows.shape[0])
    graph = _joint_graph(ranker, data, Queries.of(qid_new, new.shape[0], "qid_new", "X_new"))
    kernel = as_kernel(ranker.kernel).fitted_to(known)
    space = smallest_space(rows, kernel, None, graph.laplacian.rank())
    system = Dual.of(graph, space.kernel_matrix(), trusted=space.kernel_is_trusted)
    S = system.matrix()
    S.flat[:: len(S) + 1] += alpha
    is_new = _coordinates_of(graph, np.arange(rows.shape[0]) >= data.n_items)
    targets = system.rhs[:, 0].copy()
    query = system.root.component
    targets[is_new] = _best_targets(S, query, targets, is_new)
    return system.root.to_scores(targets[:, None])[data.n_items :, 0]


def _best_targets(S: FloatArray, query: IntArray, targets: FloatArray, is_new: Any) -> FloatArray:
    """Return the targets of the new coordinates for which the left-out residuals are smallest.

    With B the inverse of S + alpha and c the targets, a query U that is left out has the residual
    ``B_UU^-1 (B c)_U``.
    """
    B = cho_solve(cho_factor(S, lower=True, overwrite_a=True), np.eye(len(S)))
    residual = np.empty_like(B)
    for one in np.unique(query):
        U = np.flatnonzero(query == one)
        residual[U] = np.linalg.solve(B[np.ix_(U, U)], B[U])  # [PTA09] (33), in coordinates
    known = residual[:, ~is_new] @ targets[~is_new]
    found: FloatArray = lstsq(residual[:, is_new], -known, lapack_driver="gelsy")[0]
    return found


def _joint_graph(ranker: RankRLS, data: TrainingData, new: Queries) -> PreferenceGraph:
    """Return the graph of known and new queries; in the new ones every two items are joined."""
    index = np.concatenate([data.queries.index, data.queries.n_queries + new.index])
    apart = np.arange(new.n_items, dtype=float)  # no two tied, so that all are joined
    return PreferenceGraph.from_scores(
        np.concatenate([data.scores, apart]),
        index,
        ties=ranker.ties,
        query_weight=ranker.query_weight,
    )


def _coordinates_of(graph: PreferenceGraph, items: Any) -> Any:
    """Return which coordinates belong to components of the given items."""
    component = graph.laplacian.component
    chosen = np.unique(component[items & (component >= 0)])
    return np.isin(graph.laplacian.root().component, chosen)


def _stacked(known: Matrix, new: Matrix) -> Matrix:
    if sparse.issparse(known) or sparse.issparse(new):
        return sparse.vstack([known, new], format="csr")
    return np.vstack([known, new])


def _refuse_settings(ranker: RankRLS) -> None:
    """Refuse what has no meaning for items without scores."""
    if ranker.cost != "magnitude":
        raise InvalidInputError(
            f"Transductive scores must have cost='magnitude': got {ranker.cost!r}. The others "
            "depend on scores that are not known."
        )
    if not isinstance(ranker.query_weight, str):
        raise InvalidInputError(
            f"Transductive scores must have a named `query_weight`: got {ranker.query_weight!r}."
        )
    if ranker.basis is not None or ranker.kernel in ("precomputed", Precomputed()):
        raise InvalidInputError(
            "Transductive scores must have a kernel that is computed from the rows, and no basis: "
            f"got kernel={ranker.kernel!r}, basis={ranker.basis!r}."
        )


def _refuse_many(n_items: int) -> None:
    if n_items > MOST_ITEMS:
        raise InvalidInputError(
            f"At most {MOST_ITEMS:,} items can be scored together with those learned from: got "
            f"{n_items:,}. Score a part of the new queries at a time, or use `predict`."
        )
