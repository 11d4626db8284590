"""Preliminary scores, which order the items where the measure leaves their order open."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.graph import PreferenceGraph
from rankwise.core.queries import Queries
from rankwise.inference.rls import Primal
from rankwise.inference.systems import solve_once

SHRINKAGE = 0.1
"""Alpha, as a share of the mean eigenvalue of the normal equations."""

MANY_FEATURES = 1000
"""Beyond so many features the equations are solved by iterations, and less exactly."""


def preliminary_scores(
    Z: Matrix, relevance: FloatArray, queries: Queries, weights: FloatArray
) -> FloatArray:
    """Return the scores of a least-squares ranker with ties kept.

    Its regularisation follows the scale of the features, so that the order of the scores depends
    neither on that scale nor on the number of queries.

    Parameters
    ----------
    Z : (n_items, n_features)
        Query by query.
    relevance : (n_items,)
        What to rank by.
    queries : Queries
        The grouping of the items.
    weights : (n_queries,)
        How much each query counts.
    """
    of_item = queries.spread(weights)
    graph = PreferenceGraph.from_scores(
        relevance, queries.index, ties="keep", sample_weight=of_item
    )
    if Z.shape[1] > MANY_FEATURES:
        return _by_iterations(Z, graph, _within_scatter(Z, queries, of_item))
    system = Primal.of(graph, Z)
    A = system.matrix()
    alpha = _alpha(float(np.trace(A)), Z)
    scores: FloatArray = Z @ solve_once(A, system.rhs, alpha)[:, 0]
    return scores


def _by_iterations(Z: Matrix, graph: PreferenceGraph, total: float) -> FloatArray:
    alpha, n_features = _alpha(total, Z), Z.shape[1]
    operator = LinearOperator(
        (n_features, n_features),
        matvec=lambda w: Z.T @ (graph @ (Z @ w)) + alpha * w,
        dtype=np.float64,
    )
    w, _ = cg(operator, Z.T @ graph.rhs, rtol=1e-3, maxiter=50)
    return np.asarray(Z @ w)


def _alpha(total: float, Z: Matrix) -> float:
    """Return a share of the mean eigenvalue, given their sum; 1 where no feature differs."""
    return SHRINKAGE * total / min(Z.shape) if total > 0.0 else 1.0


def _within_scatter(Z: Matrix, queries: Queries, weight: FloatArray) -> float:
    """Return the weighted sum of squared distances of items to the means of their queries."""
    grouping = csr_array((np.ones(len(weight)), (queries.index, np.arange(len(weight)))))
    sums = grouping @ Z
    squares = weight @ (Z * Z).sum(axis=1)
    return float(squares - (grouping @ weight / queries.sizes**2) @ (sums * sums).sum(axis=1))
