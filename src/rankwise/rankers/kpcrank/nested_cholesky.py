"""Least squares on the first p features, for every p, from one Cholesky factorisation."""

from dataclasses import dataclass
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.rankers.kpcrank._kernels import eliminate
from rankwise.solve.normal_equations import Primal

PANEL = 32
"""Columns that are eliminated together."""

DEPENDENT = 1e-12
"""A feature with less than this share of its size left over by the features before is dropped."""


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """The normal equations of a graph for ordered features Z; those of disjoint graphs add up.

    Attributes
    ----------
    gram : (n_features, n_features)
        ``Z' L Z``.
    rhs : (n_features, n_outputs)
        ``Z' r``.
    size : (n_features,)
        Squares of each feature weighted by the degrees of the items: what ``gram`` would have on
        its diagonal if the features were not compared inside queries. Rounding errors are
        measured by it.
    """

    gram: FloatArray
    rhs: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, graph: PreferenceGraph, Z: FloatArray) -> Self:
        """Collect the moments of all items of a graph."""
        system = Primal.of(graph, Z)
        size = np.einsum("i,ij,ij->j", graph.laplacian.diagonal(), Z, Z)
        return cls(system.matrix(), system.rhs, size)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.gram + other.gram, self.rhs + other.rhs, self.size + other.size)


@final
@dataclass(frozen=True, eq=False)
class NestedSolutions:
    """What the first p features, fitted without the others, say about some rows, for every p.

    Attributes
    ----------
    parts : (n_rows, n_features)
        ``B C^-T`` for rows B of features and ``Z'LZ + alpha I = C C'``.
    rhs : (n_features, n_outputs)
        ``C^-1 Z'r``.
    errors : (n_features,)
        Estimates of the relative rounding error with the first 1, 2, ... features.
    """

    parts: FloatArray
    rhs: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, moments: Moments, rows: FloatArray, alpha: float) -> Self:
        r"""Fit every number of features and apply the fits to rows of features.

        The first p features need the leading block of the normal equations only, and the Cholesky
        factor of a leading block is the leading block of the factor C. So one factorisation serves
        every p,

        .. math:: f_p = \sum_{k \le p} (B C^{-\top})_k \, (C^{-1} Z^\top r)_k ,

        at O(P^3 / 3 + n_rows P^2) for all P of them. A feature that is constant inside every query,
        or that depends on the ones before it up to rounding errors, gets the weight 0.

        Parameters
        ----------
        moments : Moments
            The normal equations.
        rows : (n_rows, n_features)
            Rows to be scored; the identity matrix gives the weights themselves.
        alpha : float
            Regularisation, may be 0.
        """
        n_features, n_outputs = moments.rhs.shape
        system = moments.gram.copy()
        system.flat[:: n_features + 1] += alpha
        size = moments.size + alpha
        panels = _as_panels([system, moments.rhs.T, rows])
        pivots = eliminate(panels, n_features, DEPENDENT * size)
        below = panels[:, n_features:].transpose(1, 0, 2)
        reduced = below.reshape(len(below), -1)[:, :n_features]
        left = np.divide(pivots, size, out=np.ones(n_features), where=pivots > 0)
        errors = np.finfo(float).eps / np.minimum.accumulate(left)
        return cls(reduced[n_outputs:], reduced[:n_outputs].T, errors)

    def at(self, n_features: int) -> FloatArray:
        """Return the scores by the first features, (n_rows, n_outputs)."""
        return self.parts[:, :n_features] @ self.rhs[:n_features]

    def scores(self) -> FloatArray:
        """Return the scores by the first 1, 2, ... features, (n_features, n_rows, n_outputs)."""
        return np.cumsum(self.parts.T[:, :, None] * self.rhs[:, None, :], axis=0)


def _as_panels(blocks: list[FloatArray]) -> FloatArray:
    """Stack blocks of rows and cut them into panels of columns, the last one padded."""
    n_rows, n_columns = sum(len(block) for block in blocks), blocks[0].shape[1]
    panels = np.zeros((-(-n_columns // PANEL), n_rows, PANEL))
    start = 0
    for block in blocks:
        for k, panel in enumerate(panels):
            columns = block[:, k * PANEL : (k + 1) * PANEL]
            panel[start : start + len(block), : columns.shape[1]] = columns
        start += len(block)
    return panels
