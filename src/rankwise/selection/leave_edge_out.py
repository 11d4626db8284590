"""Leave out one comparison at a time, for every alpha."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, dense_rows
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.namespaces import take_rows
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
    device: Device | None = None,
) -> EdgesHeldOut:
    r"""Predict each comparison from all the others.

    A comparison is one term of a least-squares sum, so its held-out residual is its residual over
    :math:`1 - h_e`, with the leverage h; repeated comparisons are left out one copy at a time. The
    cost is one decomposition, and O(rank) for each comparison and alpha.

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
        As in `PreferenceGraph.from_pairs`; the weight of a query is always that of all its
        comparisons.
    device : Device, optional
        Where to decompose and project.

    Notes
    -----
    The squared norm and the other terms of [PTA09] (14) stay, so it is not necessary to leave out
    whole components of the graph.
    """
    pairs, margin, weight = pair_targets(data, cost, query_weight)
    graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
    projected = (
        _projected_here(space, graph) if device is None else _projected_on(space, graph, device)
    )
    predicted, leverage, spare = projected.of_pairs(pairs, weight, alphas)
    return _without_edges(projected.spectrum, alphas, margin, predicted, leverage, spare)


@final
@dataclass(frozen=True, eq=False)
class _Projected:
    """The comparisons in the eigenvectors of the normal equations, here or on a device.

    Parameters
    ----------
    spectrum : Spectrum
        The decomposition; its vectors may be on the device.
    rhs : (order, 1)
        The right-hand side in the eigenvectors, here.
    differences : function
        Projects comparisons, given by winners and losers: (n_pairs, order).
    in_coordinates : bool
        Whether the unknowns are coordinates of the graph, and not features.
    device : Device, optional
        Where the differences are.
    """

    spectrum: Spectrum
    rhs: FloatArray
    differences: Callable[[IntArray, IntArray], DeviceArray]
    in_coordinates: bool
    device: Device | None = None

    def of_pairs(
        self, pairs: IntArray, weight: FloatArray, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return predictions, leverages and 1 - leverages, each (n_pairs, n_alphas).

        In the coordinates t of a comparison, ``R t = e_winner - e_loser``, and with the matrix
        V diag(s) V', the leverage is ``w sum (V't)^2 s / (s + alpha)``; what is left of 1 is
        summed from positive parts, ``(1 - w t't) + w alpha sum (V't)^2 / (s + alpha)``.
        """
        inverse = 1.0 / (self.spectrum.values[:, None] + alphas)
        gain = self.spectrum.values[:, None] * inverse if self.in_coordinates else inverse
        factors = [self._there(a) for a in (gain * self.rhs, gain, alphas * inverse)]
        predicted, leverage, spare = np.empty((3, len(pairs), len(alphas)))
        for start in range(0, len(pairs), BLOCK_PAIRS):
            some = slice(start, start + BLOCK_PAIRS)
            D, w = self.differences(*pairs[some].T), weight[some, None]
            squares = D * D
            predicted[some] = self._here(D @ factors[0])
            leverage[some] = w * self._here(squares @ factors[1])
            spare[some] = 1.0 - leverage[some]
            if self.in_coordinates:
                free = np.maximum(1.0 - w * self._here(squares.sum(1))[:, None], 0.0)
                spare[some] = free + w * self._here(squares @ factors[2])
        return predicted, leverage, spare

    def _there(self, values: FloatArray) -> DeviceArray:
        return values if self.device is None else self.device.array(values)

    def _here(self, values: DeviceArray) -> FloatArray:
        found: FloatArray = values if self.device is None else self.device.host(values)
        return found


def _projected_here(space: FunctionSpace, graph: PreferenceGraph) -> _Projected:
    if space.is_explicit:
        Z = space.features()
        primal = System.primal(graph, Z)
        spectrum = primal.spectrum()

        def differences(first: IntArray, second: IntArray) -> FloatArray:
            return dense_rows(Z[first] - Z[second]) @ spectrum.vectors

        rhs = spectrum.vectors.T @ primal.rhs
        return _Projected(spectrum, rhs, differences, in_coordinates=False)
    dual = System.dual(graph, space.kernel_matrix(), trusted=space.kernel_is_trusted)
    spectrum = dual.spectrum()
    root = graph.laplacian.root()
    S, rhs = root.to_scores(spectrum.vectors), spectrum.vectors.T @ dual.rhs
    return _Projected(spectrum, rhs, lambda i, j: S[i] - S[j], in_coordinates=True)


def _projected_on(space: FunctionSpace, graph: PreferenceGraph, device: Device) -> _Projected:
    if space.is_explicit:
        Z = device.array(dense_rows(space.features()))
        Z = Z - Z.mean(0)  # differences do not see it, but digits are saved
        system = System.primal(graph, Z)
    else:
        K = space.kernel_matrix(device=device)
        system = System.dual(graph, K, trusted=space.kernel_is_trusted)
        del K
    spectrum = system.spectrum()
    vectors = spectrum.vectors
    S = Z @ vectors if system.root is None else system.root.like(vectors).to_scores(vectors)

    def differences(first: IntArray, second: IntArray) -> DeviceArray:
        return take_rows(S, first) - take_rows(S, second)

    rhs = spectrum.projected(system.rhs)
    return _Projected(spectrum, rhs, differences, system.root is not None, device)


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
    spare = np.maximum(spare, TINY)
    residual = (margin[:, None] - predicted) / spare
    without = (predicted - leverage * margin[:, None]) / spare
    is_large = alphas > spectrum.values[-1]
    differences = np.where(is_large, without, margin[:, None] - residual)
    scale = np.where(is_large, np.abs(predicted).max(axis=0), np.abs(margin).max())
    error = EPS / np.maximum(np.minimum(spectrum.rcond(alphas), spare.min(axis=0)), TINY)
    return EdgesHeldOut(zero_ties(differences, scale, error).T, error)
