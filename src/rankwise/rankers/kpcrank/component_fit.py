"""Least squares on the first p components, for every p, from one Cholesky factorisation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.namespaces import (
    HOST,
    Array,
    cholesky,
    is_on_host,
    like,
    namespace_of,
    segment_sums,
    solve_triangular,
    to_host,
    zeros,
)
from rankwise.core.queries import TrainingData
from rankwise.core.threads import in_threads, serial_blas
from rankwise.features.components import Components, Solver, find_components
from rankwise.features.function_space import ExplicitSpace, FunctionSpace
from rankwise.features.kernels import Kernel
from rankwise.graph.preference_graph import OutputGraphs, PreferenceGraph
from rankwise.native.holdouts import eliminate_panel
from rankwise.rankers.closed_form import (
    gather_held_out,
    leave_comparisons_out,
    leave_items_out,
)
from rankwise.selection.holdouts import EdgesHeldOut, Folds, HeldOut
from rankwise.selection.refits import CHUNK_BYTES, FoldChunks, FoldedFeatures, sums_of_others
from rankwise.solve.normal_equations import System

PANEL_WIDTH = 32
"""Columns that are eliminated together."""

DEVICE_BYTES = 1 << 30
"""Memory for the Gram matrices of the folds that a device leaves out together."""

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

    gram: Array
    rhs: Array
    size: FloatArray

    @classmethod
    def of(cls, graph: PreferenceGraph, Z: FloatArray) -> Self:
        """Collect the moments of all items of a graph."""
        system = System.primal(graph, Z)  # [TH10] (8): V'KLKV and V'KLs, scaled as in (3)
        size = np.einsum("i,ij,ij->j", graph.laplacian.diagonal(), Z, Z)
        return cls(system.matrix, system.rhs, size)


@final
@dataclass(frozen=True, eq=False)
class NestedSolutions:
    """The scores of some rows by the first p features, fitted without the others, for every p.

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
    def of(
        cls, moments: Moments, rows: FloatArray, alpha: float, panel_width: int = PANEL_WIDTH
    ) -> Self:
        r"""Fit every number of features and apply the fits to rows of features.

        The first p features need only the leading block of the normal equations, and the Cholesky
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
        panel_width : int
            Columns that are eliminated together; it affects only speed.

        Notes
        -----
        [TH10] (8) for every number of components, without the shortcut of its Sect. 4.2.
        """
        return cls.of_each([moments], [rows], alpha, panel_width=panel_width)[0]

    @classmethod
    def of_each(
        cls,
        moments: Sequence[Moments],
        rows: Sequence[Array],
        alpha: float,
        *,
        panel_width: int = PANEL_WIDTH,
    ) -> list[Self]:
        """Do the same for several problems with as many features, all at once on a device."""
        n_features, n_outputs = moments[0].rhs.shape
        size = np.stack([m.size for m in moments]) + alpha
        # the rows of every problem below one another; zeros fill up those of fewer rows
        n_above, most = n_features + n_outputs, max(own.shape[0] for own in rows)
        stack = zeros((len(rows), n_above + most, n_features), moments[0].gram)
        for k, (m, own) in enumerate(zip(moments, rows, strict=True)):
            stack[k, :n_features, :] = m.gram
            stack[k, n_features:n_above, :] = m.rhs.T
            stack[k, n_above : n_above + own.shape[0], :] = own
        entries = namespace_of(stack).reshape(stack, (len(rows), -1))
        entries[:, : n_features**2 : n_features + 1] += alpha  # those on the diagonals
        floor = DEPENDENT * size
        found = None if is_on_host(stack) else _factorise_together(stack, floor)
        if found is None:  # columns that depend on others are dropped one by one
            panels = _as_panels(to_host(stack), panel_width)
            del stack
            pivots = _eliminate(panels, n_features, floor)
            below = panels[:, :, n_features:].transpose(1, 2, 0, 3)
            found = below.reshape(*below.shape[:2], -1)[:, :, :n_features], pivots
        reduced, pivots = found
        left = np.divide(pivots, size, out=np.ones_like(size), where=pivots > 0)
        errors = np.finfo(float).eps / np.minimum.accumulate(left, axis=1)
        ends = (n_outputs + own.shape[0] for own in rows)
        return [
            cls(one[n_outputs:end], one[:n_outputs].T, error)
            for one, error, end in zip(reduced, errors, ends, strict=True)
        ]

    @classmethod
    def fit(cls, graph: PreferenceGraph, Z: FloatArray, rows: FloatArray, alpha: float) -> Self:
        """Fit every number of features Z to a graph and apply the fits to rows of features."""
        return cls.of(Moments.of(graph, Z), rows, alpha)

    def at(self, n_features: int) -> FloatArray:
        """Return the scores by the first features, (n_rows, n_outputs)."""
        return self.parts[:, :n_features] @ self.rhs[:n_features]

    def scores(self) -> FloatArray:
        """Return the scores by the first 1, 2, ... features, (n_features, n_rows, n_outputs)."""
        # [TH10] Sect. 4.2: every number of components
        return np.cumsum(self.parts.T[:, :, None] * self.rhs[:, None, :], axis=0)


def _factorise_together(stack: Array, floor: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return B C^-T and the pivots of each [A; B] of a stack, computed where it is.

    None if a pivot of any of them is not above its floor.
    """
    n_columns = stack.shape[2]
    C = cholesky(stack[:, :n_columns, :])
    if C is None:
        return None
    pivots = to_host(namespace_of(C).linalg.diagonal(C)) ** 2
    if (pivots <= floor).any():
        return None
    return to_host(solve_triangular(C, stack[:, n_columns:, :].mT)).mT, pivots


def _as_panels(stack: FloatArray, width: int) -> FloatArray:
    """Cut matrices, (n_stack, n_rows, n_columns), into panels of columns, the last one padded."""
    n_stack, n_rows, n_columns = stack.shape
    panels = np.zeros((-(-n_columns // width), n_stack, n_rows, width))
    for k, panel in enumerate(panels):
        part = stack[:, :, k * width : (k + 1) * width]
        panel[:, :, : part.shape[2]] = part
    return panels


def _eliminate(panels: FloatArray, n_columns: int, floor: FloatArray) -> FloatArray:
    """Turn rows [A; B] into [C; B C^-T] in place, where A = C C' is the leading square part.

    Rows are stored in panels of a few columns each, (n_panels, n_stack, n_rows, width), so that
    every product is one of contiguous blocks. A column whose pivot is not above its floor is
    determined by the ones before: it is set to zero, with 1 on the diagonal, and takes no further
    part.

    Returns the pivots, the squares of the diagonals of C, (n_stack, n_columns); 0 for columns left
    out.
    """
    n_panels, n_stack, _, width = panels.shape
    pivots = np.zeros((n_stack, n_columns))
    for k in range(n_panels):
        first = k * width
        last = min(first + width, n_columns)
        panel = panels[k]
        for j in range(k):
            above = panels[j, :, first:last]
            panel[:, first:, : last - first] -= panels[j, :, first:] @ above.mT
        for one in range(n_stack):
            eliminate_panel(panel[one], first, last - first, floor[one], pivots[one])
    return pivots


def leave_query_out_components(
    Z: FloatArray, graph: PreferenceGraph, folds: Folds, alpha: float, where: Array = HOST
) -> HeldOut:
    """Return the scores of each fold's items by models without that fold, for every number p.

    This is exact for the ranking function on the first p components; the components themselves are
    those of all items, held out or not. A fold must be a union of whole components of the graph.
    One factorisation per fold serves every p: O(n P^2 + n_folds P^3 / 3) for P components.

    Parameters
    ----------
    Z : (n_items, n_components)
        The components of the items, leading one first.
    graph : PreferenceGraph
        The preferences.
    folds : Folds
        The folds.
    alpha : float
        Regularisation, may be 0.
    where : array
        Where the factorisations are computed, those of many folds at once.

    Returns
    -------
    held_out : HeldOut
        Its first axis is the number of components, from 1.
    """
    problem = FoldedFeatures.of(graph, Z, folds)
    chunk_bytes = CHUNK_BYTES if is_on_host(where) else DEVICE_BYTES
    chunks = FoldChunks.of(problem, n_weights=0, chunk_bytes=chunk_bytes, where=where)
    outside = chunks.totals().of_others()
    # what rounding errors are measured by, of all items outside each fold
    fold = np.where(folds.fold < 0, folds.n_folds, folds.fold)
    degree = graph.laplacian.diagonal()[:, None]
    size = sums_of_others(segment_sums(Z**2, fold, folds.n_folds + 1, degree))
    out = np.full((Z.shape[1], len(Z), as_columns(graph.rhs).shape[1]), np.nan)
    errors = np.zeros((folds.n_folds, Z.shape[1]))
    items, starts = folds.items
    sorted_rows = like(Z[items], where)

    def leave_out(number: int) -> None:
        rest, own = chunks.sums(number).of_others(), chunks.folds[number]
        grams = rest.grams + like(outside.grams[number], where)
        rhs = (rest.rhs + like(outside.rhs[number], where)).mT
        moments = [Moments(grams[k, ...], rhs[k, ...], of) for k, of in enumerate(size[own])]
        rows = [items[starts[q] : starts[q + 1]] for q in range(own.start, own.stop)]
        of_rows = [sorted_rows[starts[q] : starts[q + 1], :] for q in range(own.start, own.stop)]
        found = NestedSolutions.of_each(moments, of_rows, alpha)
        for solutions, chosen in zip(found, rows, strict=True):
            out[:, chosen] = solutions.scores()
        errors[own] = [solutions.errors for solutions in found]

    with serial_blas():
        in_threads(leave_out, len(chunks.folds))
    return HeldOut(out, errors.max(axis=0))


@final
@dataclass(frozen=True, eq=False)
class ComponentFit:
    """Least squares on components: weights and held-out scores for every number of them.

    Build it with `of`.

    Parameters
    ----------
    components : Components
        The leading components, at most as many as requested.
    Z : (n_items, n_components)
        Their values for the items, leading one first.
    data : TrainingData
        The training data.
    options : mapping
        Cost, ties and query weight of the graphs.
    graphs : OutputGraphs
        The preferences.
    alpha : float
        Regularisation, may be 0.
    where : array
        Where folds of queries are left out.
    """

    components: Components
    Z: FloatArray
    data: TrainingData
    options: Mapping[str, Any]
    graphs: OutputGraphs
    alpha: float
    where: Array

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        X: Matrix,
        data: TrainingData,
        n_components: int,
        solver: Solver,
        alpha: float,
        rows: Matrix | None = None,
        **options: Any,
    ) -> Self:
        """Build the graphs and find the components of X; ``rows`` are those of it that compute."""
        graphs = OutputGraphs.of(data, **options)
        components, Z = find_components(kernel, X, n_components, solver, data.weight, rows)
        where = HOST if rows is None or is_on_host(rows) else rows
        return cls(components, Z, data, options, graphs, alpha, where)

    @property
    def numbers(self) -> IntArray:
        """The numbers of components that can be chosen."""
        return np.arange(1, self.components.n_components + 1)

    @property
    def space(self) -> FunctionSpace:
        """The space that the components span."""
        return ExplicitSpace(self.Z, self.components, self.components.base, self.Z)

    def weights(self, n_components: int) -> FloatArray:
        """Return the weights of the first components, 0 for the others, (n, n_outputs)."""
        identity = np.eye(self.Z.shape[1])
        return self.graphs.gather(
            lambda graph: NestedSolutions.fit(graph, self.Z, identity, self.alpha).at(n_components)
        )

    def scores(self, X: Matrix) -> HeldOut:
        """Return the scores of other rows X, for every number of components."""
        rows = self.components.map(X)
        return gather_held_out(self.graphs, lambda graph: self._score(graph, self.Z, rows))

    def leave_out(self, folds: Folds) -> HeldOut:
        """Leave out folds of queries, or of items of one global ranking."""
        if self.data.has_qid:
            return gather_held_out(
                self.graphs,
                lambda graph: leave_query_out_components(
                    self.Z, graph, folds, self.alpha, self.where
                ),
            )
        n_numbers = len(self.numbers)
        return leave_items_out(self.data, folds, n_numbers, self._refit, **self.options)

    def leave_comparisons_out(self, folds: Folds) -> EdgesHeldOut:
        """Leave out folds of comparisons of one global ranking."""
        n_numbers = len(self.numbers)
        return leave_comparisons_out(self.data, folds, n_numbers, self._refit, **self.options)

    def _refit(self, kept: IntArray, out: IntArray, graph: PreferenceGraph) -> HeldOut:
        """Return the scores of some rows by a fit to the graph of others."""
        return self._score(graph, self.Z[kept], self.Z[out])

    def _score(self, graph: PreferenceGraph, Z: FloatArray, rows: FloatArray) -> HeldOut:
        solutions = NestedSolutions.fit(graph, Z, rows, self.alpha)
        return HeldOut(solutions.scores(), solutions.errors)
