"""Leave out one comparison at a time, for every alpha."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.namespaces import Array, blocks_of, like, namespace_of, take_rows, to_host
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import Cost, PreferenceGraph, QueryWeight, pair_targets
from rankwise.selection.complete_pairs import EPS, TINY
from rankwise.selection.holdouts import EdgesHeldOut
from rankwise.selection.ties import zero_ties
from rankwise.solve.normal_equations import Spectrum, System

BLOCK_PAIRS = 4096
"""Comparisons that are projected together."""


def leave_edge_out(
    space: FunctionSpace,
    data: TrainingData,
    alphas: FloatArray,
    *,
    cost: Cost = "magnitude",
    query_weight: QueryWeight = "items",
) -> EdgesHeldOut:
    r"""Predict each comparison from all the others.

    A comparison is one term of a least-squares sum, so its held-out residual is its residual over
    :math:`1 - h_e`, with the leverage h; repeated comparisons are left out one copy at a time. The
    cost is one decomposition, and O(rank) for each comparison and alpha.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved; it is decomposed where its rows are.
    data : TrainingData
        The comparisons.
    alphas : (n_alphas,)
        The values of alpha.
    cost : {"magnitude", "unit", "relative"}
        As in `PreferenceGraph.from_pairs`.
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        As in `PreferenceGraph.from_pairs`; the weight of a query is always that of all its
        comparisons.

    Notes
    -----
    The squared norm and the other terms of [PTA09] (14) stay, so it is not necessary to leave out
    whole components of the graph.
    """
    pairs, margin, weight = pair_targets(data, cost, query_weight)
    graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
    system, spectrum, differences = _decomposed(space, graph)
    # predictions with each comparison, its leverage, and what that leaves of 1
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    gain = inverse if system.root is None else spectrum.values[:, None] * inverse
    targets = gain * spectrum.projected(system.rhs)
    factors = [like(a, spectrum.vectors) for a in (targets, gain, alphas * inverse)]
    predicted, leverage, spare = np.empty((3, len(pairs), len(alphas)))
    for some in blocks_of(len(pairs), BLOCK_PAIRS):
        D, w = differences(*pairs[some].T), weight[some, None]
        squares = D * D
        predicted[some] = to_host(D @ factors[0])
        leverage[some] = w * to_host(squares @ factors[1])
        spare[some] = 1.0 - leverage[some]
        if system.root is not None:  # in coordinates 1 - h is a sum of positive parts
            norms = to_host(namespace_of(squares).sum(squares, axis=1))
            free = np.maximum(1.0 - w * norms[:, None], 0.0)
            spare[some] = free + w * to_host(squares @ factors[2])  # eq. hold-leverage
    return _without_edges(spectrum, alphas, margin, predicted, leverage, np.maximum(spare, TINY))


def _decomposed(
    space: FunctionSpace, graph: PreferenceGraph
) -> tuple[System, Spectrum, Callable[[IntArray, IntArray], Array]]:
    """Return the normal equations, their spectrum, and comparisons in its eigenvectors.

    The latter is a function of winners and losers, (n_pairs, order).
    """
    if space.is_explicit:
        Z = space.features()
        system = System.primal(graph, Z)
        spectrum = system.spectrum()
        V = spectrum.vectors
        return system, spectrum, lambda i, j: (_rows(Z, i) - _rows(Z, j)) @ V
    K = space.kernel_matrix()
    system = System.dual(graph, K, trusted=space.kernel_is_trusted)
    del K
    spectrum = system.spectrum()
    S = system.scores_of(spectrum.vectors)
    return system, spectrum, lambda i, j: take_rows(S, i) - take_rows(S, j)


def _rows(Z: Matrix, which: IntArray) -> Array:
    return Z[which].toarray() if sparse.issparse(Z) else take_rows(Z, which)


def _without_edges(
    spectrum: Spectrum,
    alphas: FloatArray,
    margin: FloatArray,
    predicted: FloatArray,
    leverage: FloatArray,
    spare: FloatArray,
) -> EdgesHeldOut:
    """Turn predictions with each comparison into those without it; ``spare`` is 1 - leverage.

    For alpha above the largest eigenvalue, predictions are far below the margins, and the
    contribution of the comparison itself is subtracted from them rather than from the margin. Ties
    are measured by the largest number that a difference is formed from.
    """
    residual = (margin[:, None] - predicted) / spare  # eq. hold-edge
    without = (predicted - leverage * margin[:, None]) / spare
    is_large = alphas > spectrum.values[-1]
    differences = np.where(is_large, without, margin[:, None] - residual)
    scale = np.where(is_large, np.abs(predicted).max(axis=0), np.abs(margin).max())
    error = EPS / np.maximum(np.minimum(spectrum.rcond(alphas), spare.min(axis=0)), TINY)
    return EdgesHeldOut(zero_ties(differences, scale, error).T, error)
