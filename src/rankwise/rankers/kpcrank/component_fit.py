"""Least squares on the first p components, for every p, from one Cholesky factorisation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import take_rows
from rankwise.core.queries import TrainingData
from rankwise.core.threads import in_threads, n_threads, serial_blas
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
from rankwise.solve.normal_equations import System

PANEL_WIDTH = 32
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
        system = System.primal(graph, Z)  # [TH10] (8): V'KLKV and V'KLs, scaled as in (3)
        size = np.einsum("i,ij,ij->j", graph.laplacian.diagonal(), Z, Z)
        return cls(system.matrix, system.rhs, size)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.gram + other.gram, self.rhs + other.rhs, self.size + other.size)


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
        n_features, n_outputs = moments.rhs.shape
        system = moments.gram.copy()
        system.flat[:: n_features + 1] += alpha
        size = moments.size + alpha
        panels = _as_panels([system, moments.rhs.T, rows], panel_width)
        pivots = _eliminate(panels, n_features, DEPENDENT * size)
        below = panels[:, n_features:].transpose(1, 0, 2)
        reduced = below.reshape(len(below), -1)[:, :n_features]
        left = np.divide(pivots, size, out=np.ones(n_features), where=pivots > 0)
        errors = np.finfo(float).eps / np.minimum.accumulate(left)
        return cls(reduced[n_outputs:], reduced[:n_outputs].T, errors)

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


def _as_panels(blocks: list[FloatArray], width: int) -> FloatArray:
    """Stack blocks of rows and cut them into panels of columns, the last one padded."""
    n_rows, n_columns = sum(len(block) for block in blocks), blocks[0].shape[1]
    panels = np.zeros((-(-n_columns // width), n_rows, width))
    start = 0
    for block in blocks:
        for k, panel in enumerate(panels):
            columns = block[:, k * width : (k + 1) * width]
            panel[start : start + len(block), : columns.shape[1]] = columns
        start += len(block)
    return panels


def _eliminate(panels: FloatArray, n_columns: int, floor: FloatArray) -> FloatArray:
    """Turn rows [A; B] into [C; B C^-T] in place, where A = C C' is the leading square part.

    Rows are stored in panels of a few columns each, (n_panels, n_rows, width), so that every
    product is one of contiguous blocks. A column whose pivot is not above its floor is determined
    by the ones before: it is set to zero, with 1 on the diagonal, and takes no further part.

    Returns the pivots, the squares of the diagonal of C; 0 for columns left out.
    """
    n_panels, _, width = panels.shape
    pivots = np.zeros(n_columns)
    for k in range(n_panels):
        first = k * width
        last = min(first + width, n_columns)
        panel = panels[k]
        for j in range(k):
            panel[first:, : last - first] -= panels[j, first:] @ panels[j, first:last].T
        eliminate_panel(panel, first, last - first, floor, pivots)
    return pivots


FOLD_ENTRIES = 1 << 27
"""Numbers of folds that a device computes with together: 1 GB."""


def leave_query_out_components(
    Z: FloatArray,
    graph: PreferenceGraph,
    folds: Folds,
    alpha: float,
    device: Device | None = None,
    entries: int = FOLD_ENTRIES,
) -> HeldOut:
    """Return the scores of each fold's items by models without that fold, for every number p.

    This is exact for the ranking function on the first p components; the components themselves are
    those of all items, held out or not. A fold must be a union of whole components of the graph.
    One factorisation per fold serves every p: O(n P^2 log n_folds + n_folds P^3 / 3) for P
    components.

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
    device : Device, optional
        Where folds of one size are left out together.
    entries : int
        Numbers that a device computes with together.

    Returns
    -------
    held_out : HeldOut
        Its first axis is the number of components, from 1.
    """
    data = _SortedByFold.of(Z, graph, folds)
    if device is not None:
        return _FoldsOnDevice.of(data, Z, device).leave_out(alpha, entries)
    out = np.full((Z.shape[1], len(Z), data.C.shape[1]), np.nan)
    errors = np.zeros((folds.n_folds, Z.shape[1]))

    def halve(first: int, last: int, outside: Moments) -> None:
        """Score folds first to last by the data outside them; nothing is ever subtracted."""
        if last - first > 1:
            middle = (first + last) // 2
            halve(first, middle, outside + data.moments(middle, last))
            halve(middle, last, outside + data.moments(first, middle))
            return
        rows = data.rows(first)
        if len(rows):
            solutions = NestedSolutions.of(outside, Z[rows], alpha)
            out[:, rows] = solutions.scores()
            errors[first] = solutions.errors

    cuts = np.linspace(0, folds.n_folds, min(folds.n_folds, 4 * n_threads()) + 1).astype(int)
    ranges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    never_out = data.moments(folds.n_folds, folds.n_folds + 1)
    parts = [data.moments(*bounds) for bounds in ranges]

    def task(number: int) -> None:
        others = [part for k, part in enumerate(parts) if k != number]
        halve(*ranges[number], sum(others, start=never_out))

    with serial_blas():
        in_threads(task, len(ranges))
    return HeldOut(out, errors.max(axis=0))


@final
@dataclass(frozen=True, eq=False)
class _SortedByFold:
    """Coordinates of the graph and items, sorted by fold, those of no fold last."""

    H: FloatArray
    C: FloatArray
    starts: IntArray
    squares: FloatArray
    items: IntArray
    item_starts: IntArray

    @classmethod
    def of(cls, Z: FloatArray, graph: PreferenceGraph, folds: Folds) -> Self:
        of_component = folds.of_components(graph.laplacian.component)
        if len(np.unique(of_component[of_component >= 0])) < 2:
            raise InvalidInputError(
                "At least two folds must hold preferences, so that one can be left out: got fewer. "
                "Give more queries, or validation data."
            )
        root = graph.laplacian.root()
        order, starts = folds.order(of_component[root.component])
        items, item_starts = folds.order(folds.fold)
        return cls(
            root.to_coordinates(Z)[order],
            root.solve(as_columns(graph.rhs))[order],
            np.append(starts, len(order)),
            graph.laplacian.diagonal()[items, None] * Z[items] ** 2,
            items,
            np.append(item_starts, len(items)),
        )

    def moments(self, first: int, last: int) -> Moments:
        """Return the moments of folds first to last - 1; fold n_folds is what is never left out."""
        where = slice(self.starts[first], self.starts[last])
        items = slice(self.item_starts[first], self.item_starts[last])
        H = self.H[where]
        return Moments(H.T @ H, H.T @ self.C[where], self.squares[items].sum(axis=0))

    def rows(self, fold: int) -> IntArray:
        """Return the items of a fold."""
        return self.items[self.item_starts[fold] : self.item_starts[fold + 1]]

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.starts) - 2

    def alike(self, most: Callable[[int], int]) -> list[IntArray]:
        """Group folds that have as many coordinates and items, ``most(n_items)`` in a group."""
        sizes = np.stack([np.diff(self.starts), np.diff(self.item_starts)])[:, : self.n_folds]
        kinds, kind = np.unique(sizes, axis=1, return_inverse=True)
        parts = []
        for number, n_items in enumerate(kinds[1].tolist()):
            found = np.flatnonzero(kind.reshape(-1) == number)
            parts += np.array_split(found, -(-len(found) // most(n_items)))
        return parts


@final
@dataclass(frozen=True, eq=False)
class _FoldsOnDevice:
    """Sorted coordinates and items on a device, where folds of one size are left out together."""

    sorted: _SortedByFold
    H: DeviceArray
    C: DeviceArray
    squares: DeviceArray
    Z: DeviceArray
    device: Device

    @classmethod
    def of(cls, data: _SortedByFold, Z: FloatArray, device: Device) -> Self:
        """Bring everything to the device."""
        arrays = data.H, data.C, data.squares, Z[data.items]
        H, C, squares, rows = (device.array(values) for values in arrays)
        return cls(data, H, C, squares, rows, device)

    def leave_out(self, alpha: float, entries: int) -> HeldOut:
        """Return the held-out scores of all folds, some of a size at a time."""
        width, n_outputs = self.Z.shape[1], self.C.shape[1]
        parts = self.sorted.alike(lambda n: max(1, entries // (width * max(width, n * n_outputs))))
        inside = [self._moments(part).joined() for part in parts]
        never_out = self._moments(np.array([self.sorted.n_folds])).joined()
        out = np.full((width, len(self.Z), n_outputs), np.nan)
        error = np.zeros(width)
        for number, part in enumerate(parts):
            others = [moments for k, moments in enumerate(inside) if k != number]
            outside = self._moments(part).of_others(sum(others, start=never_out), self.device)
            error = np.maximum(error, self._score(part, outside, alpha, out))
        return HeldOut(out, error)

    def _moments(self, part: IntArray) -> "_MomentsOfFolds":
        coordinates = _places(self.sorted.starts, part)
        H, C = (self._stacked(values, coordinates) for values in (self.H, self.C))
        squares = self._stacked(self.squares, _places(self.sorted.item_starts, part))
        turned = H.swapaxes(1, 2)
        return _MomentsOfFolds(turned @ H, turned @ C, squares.sum(1))

    def _stacked(self, values: DeviceArray, places: IntArray) -> DeviceArray:
        return take_rows(values, places.ravel()).reshape(*places.shape, values.shape[1])

    def _score(
        self, part: IntArray, outside: "_MomentsOfFolds", alpha: float, out: FloatArray
    ) -> FloatArray:
        """Set the scores of the items of some folds; those that lose digits are fitted here."""
        device, places = self.device, _places(self.sorted.item_starts, part)
        shift = device.array(alpha * np.eye(len(out)))
        factor, pivots = device.factor_blocks(outside.gram + shift)
        size = device.host(outside.size) + alpha
        left = device.host(pivots) / size
        is_safe = (left > DEPENDENT).all(axis=1)
        rows = self._stacked(self.Z, places)
        parts = device.solve_triangular(factor, rows.swapaxes(1, 2))
        rhs = device.solve_triangular(factor, outside.rhs)
        scores = device.host((parts[:, :, :, None] * rhs[:, :, None, :]).cumsum(1))
        items = self.sorted.items[places]
        out[:, items[is_safe]] = scores[is_safe].swapaxes(0, 1)
        errors = np.finfo(float).eps / np.minimum.accumulate(left[is_safe], axis=1)
        found = [*errors, np.zeros(out.shape[0])]
        for k in np.flatnonzero(~is_safe).tolist():
            fold = NestedSolutions.of(outside.of_fold(k, device), device.host(rows[k]), alpha)
            out[:, items[k]] = fold.scores()
            found.append(fold.errors)
        return np.max(found, axis=0)


def _places(starts: IntArray, part: IntArray) -> IntArray:
    """Return where things of folds of one size stand, (n_folds, n_things)."""
    length = int(starts[part[0] + 1] - starts[part[0]])
    return starts[part][:, None] + np.arange(length)


@final
@dataclass(frozen=True, eq=False)
class _MomentsOfFolds:
    """`Moments` of several folds, or of one, on a device."""

    gram: DeviceArray
    rhs: DeviceArray
    size: DeviceArray

    def __add__(self, other: Self) -> Self:
        return type(self)(self.gram + other.gram, self.rhs + other.rhs, self.size + other.size)

    def joined(self) -> Self:
        """Add up the folds."""
        return type(self)(self.gram.sum(0), self.rhs.sum(0), self.size.sum(0))

    def of_others(self, elsewhere: Self, device: Device) -> Self:
        """Return, for each fold, the moments of all others and of what is elsewhere."""
        of = device.sums_of_others
        return type(self)(of(self.gram), of(self.rhs), of(self.size)) + elsewhere

    def of_fold(self, k: int, device: Device) -> Moments:
        """Bring the moments of one fold here."""
        return Moments(*(device.host(a[k]) for a in (self.gram, self.rhs, self.size)))


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
    device : Device, optional
        Where components are found and queries left out.
    """

    components: Components
    Z: FloatArray
    data: TrainingData
    options: Mapping[str, Any]
    graphs: OutputGraphs
    alpha: float
    device: Device | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        X: Matrix,
        data: TrainingData,
        n_components: int,
        solver: Solver,
        alpha: float,
        device: Device | None = None,
        **options: Any,
    ) -> Self:
        """Build the graphs and find the components of rows X, on a device if one is given."""
        graphs = OutputGraphs.of(data, **options)
        components, Z = find_components(kernel, X, n_components, solver, data.weight, device)
        return cls(components, Z, data, options, graphs, alpha, device)

    @property
    def numbers(self) -> IntArray:
        """The numbers of components that can be chosen."""
        return np.arange(1, self.components.n_components + 1)

    @property
    def space(self) -> FunctionSpace:
        """The space that the components span."""
        return ExplicitSpace(self.Z, self.components, self.components.base)

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
                    self.Z, graph, folds, self.alpha, self.device
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
