"""Leave out every comparison in turn, for every alpha."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space
from rankwise.solve.normal_equations import Dual
from rankwise.solve.spectra import Spectrum

BLOCK_PAIRS = 4096
"""Comparisons that are projected together."""


def leave_edge_out(
    space: Space,
    graph: PreferenceGraph,
    pairs: IntArray,
    margin: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
) -> EdgesHeldOut:
    r"""Predict each comparison from all the others.

    One comparison is one term of a least-squares sum, so its residual without it is its residual
    over :math:`1 - h_e`, with h its leverage; repeated comparisons are left out one copy at a time.
    Cost: one decomposition and one product of the projected comparisons.

    Parameters
    ----------
    space : Space
        Where the problem is solved.
    graph : PreferenceGraph
        The graph of all comparisons.
    pairs, margin, weight
        The comparisons, as in `PreferenceGraph.from_pairs`.
    alphas : (n_alphas,)
        The values of alpha.
    """
    if isinstance(space, KernelSpace):
        return _in_coordinates(space.system(graph), pairs, margin, weight, alphas)
    assert isinstance(space, FeatureSpace)
    spectrum = space.system(graph).spectrum()
    rhs = space.system(graph).rhs
    D = _differences(space.Z, pairs) @ spectrum.vectors
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    predicted = D @ (inverse * (spectrum.vectors.T @ rhs))
    spare = 1.0 - weight[:, None] * (D**2 @ inverse)
    return _result(spectrum, alphas, margin, predicted, spare)


def _differences(Z: Matrix, pairs: IntArray) -> FloatArray:
    D = Z[pairs[:, 0]] - Z[pairs[:, 1]]
    return D.toarray() if sparse.issparse(D) else np.asarray(D, dtype=float)


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
    coef = spectrum.values[:, None] * inverse * (spectrum.vectors.T @ as_columns(system.rhs))
    predicted, spare = np.empty((2, n_pairs, len(alphas)))
    for start in range(0, n_pairs, BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        T = spectrum.vectors.T @ system.root.solve(_incidence(pairs[block], n_items))
        w = weight[block, None]
        free = np.maximum(1.0 - w[:, 0] * np.einsum("ij,ij->j", T, T), 0.0)
        spare[block] = free[:, None] + w * alphas * ((T**2).T @ inverse)
        predicted[block] = T.T @ coef
    return _result(spectrum, alphas, margin, predicted, spare)


def _incidence(pairs: IntArray, n_items: int) -> FloatArray:
    M = np.zeros((n_items, len(pairs)))
    M[pairs[:, 0], np.arange(len(pairs))] = 1.0
    M[pairs[:, 1], np.arange(len(pairs))] = -1.0
    return M


def _result(
    spectrum: Spectrum,
    alphas: FloatArray,
    margin: FloatArray,
    predicted: FloatArray,
    spare: FloatArray,
) -> EdgesHeldOut:
    residual = (margin[:, None] - predicted) / np.maximum(spare, np.finfo(float).tiny)
    eps = np.finfo(float).eps
    posed = (spectrum.values[0] + alphas) / (spectrum.values[-1] + alphas)
    error = eps / np.maximum(np.minimum(posed, spare.min(axis=0)), np.finfo(float).tiny)
    return EdgesHeldOut((margin[:, None] - residual).T, error)
