"""Leave out one comparison at a time, for every alpha."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, dense_rows
from rankwise.core.training_data import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import Cost, PreferenceGraph, pair_targets
from rankwise.graph.query_weights import QueryWeight
from rankwise.rankers.closed_form import normal_equations
from rankwise.rankers.rls.complete_pairs import EPS, TINY
from rankwise.selection.holdouts import EdgesHeldOut
from rankwise.solve.normal_equations import Dual, Spectrum

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

    One comparison is one term of a least-squares sum, so its residual without it is its residual
    over :math:`1 - h_e`, with h its leverage; repeated comparisons are left out one copy at a time.
    Cost: one decomposition and one product of the projected comparisons.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    data : TrainingData
        The comparisons.
    alphas : (n_alphas,)
        The values of alpha.
    cost : {"magnitude", "unit", "relative"}
        As in `PreferenceGraph.from_pairs`.
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        As there; the weight of a query stays that of all its comparisons.

    Notes
    -----
    The squared norm and the other terms of [PTA09] (14) stay; that is why no component of the graph
    need be left out as a whole.
    """
    pairs, margin, weight = pair_targets(data, cost, query_weight)
    graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
    if not space.is_explicit:
        system = Dual.of(graph, space.kernel_matrix(), trusted=space.kernel_is_trusted)
        return _in_coordinates(system, pairs, margin, weight, alphas)
    Z, primal = space.features(), normal_equations(space, graph)
    spectrum = primal.spectrum()
    D = dense_rows(Z[pairs[:, 0]] - Z[pairs[:, 1]]) @ spectrum.vectors
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    predicted = D @ (inverse * (spectrum.vectors.T @ primal.rhs))
    leverage = weight[:, None] * (D**2 @ inverse)
    return _without_edges(spectrum, alphas, margin, predicted, leverage, 1.0 - leverage)


def _in_coordinates(
    system: Dual, pairs: IntArray, margin: FloatArray, weight: FloatArray, alphas: FloatArray
) -> EdgesHeldOut:
    """Work in the coordinates t of each comparison, ``R t = e_winner - e_loser``.

    With S = V diag(s) V' the leverage is ``w sum (V't)^2 s / (s + alpha)``; what is left of 1 is
    summed from positive parts, ``(1 - w t't) + w alpha sum (V't)^2 / (s + alpha)``.
    """
    spectrum = system.spectrum()
    n_pairs, n_items = len(pairs), system.root.to_items(np.zeros((system.root.rank, 1))).shape[0]
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    coef = spectrum.values[:, None] * inverse * (spectrum.vectors.T @ system.rhs)
    predicted, leverage, spare = np.empty((3, n_pairs, len(alphas)))
    for start in range(0, n_pairs, BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        T = spectrum.vectors.T @ system.root.solve(_incidence(pairs[block], n_items))
        w = weight[block, None]
        free = np.maximum(1.0 - w[:, 0] * np.einsum("ij,ij->j", T, T), 0.0)
        spare[block] = free[:, None] + w * ((T**2).T @ (alphas * inverse))
        leverage[block] = w * ((T**2).T @ (spectrum.values[:, None] * inverse))
        predicted[block] = T.T @ coef
    return _without_edges(spectrum, alphas, margin, predicted, leverage, spare)


def _incidence(pairs: IntArray, n_items: int) -> FloatArray:
    M = np.zeros((n_items, len(pairs)))
    M[pairs[:, 0], np.arange(len(pairs))] = 1.0
    M[pairs[:, 1], np.arange(len(pairs))] = -1.0
    return M


def _without_edges(
    spectrum: Spectrum,
    alphas: FloatArray,
    margin: FloatArray,
    predicted: FloatArray,
    leverage: FloatArray,
    spare: FloatArray,
) -> EdgesHeldOut:
    """Turn predictions with each comparison into those without it; ``spare`` is 1 - leverage.

    For alpha above the largest eigenvalue predictions are far below the margins, and the share of
    the comparison itself is taken out of them rather than out of the margin.
    """
    spare = np.maximum(spare, TINY)
    residual = (margin[:, None] - predicted) / spare
    without = (predicted - leverage * margin[:, None]) / spare
    is_large = alphas > spectrum.values[-1]
    differences = np.where(is_large, without, margin[:, None] - residual)
    error = EPS / np.maximum(np.minimum(spectrum.rcond(alphas), spare.min(axis=0)), TINY)
    return EdgesHeldOut(differences.T, error)
