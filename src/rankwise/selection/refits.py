"""Refits without each fold of explicit features: sums of normal equations, never differences."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self, final

import numpy as np
from scipy.linalg.blas import dgemm

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, as_columns
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import HOST, Array, is_on_host, like, namespace_of, to_host, zeros
from rankwise.core.threads import in_threads, n_threads, serial_blas
from rankwise.graph.laplacian import Picker, Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.native.holdouts import refit_without_each
from rankwise.selection.holdouts import Folds, HeldOut, error_of_pivots
from rankwise.solve.normal_equations import solve_once

VECTOR = 8
"""Grids are filled up to a multiple of this, the doubles of a vector register."""

N_CHUNKS = 16
"""Folds are cut into this many chunks at least: what is formed of a small one stays in cache."""

CHUNK_BYTES = 1 << 24
"""Memory for the Gram matrices and the weights of one chunk of folds."""

KEPT_SUMS = 1 << 22
"""Entries of the sums over each fold that are kept, so as not to form them twice: 32 MB."""

SURELY_VARIED = 1e-6
"""A feature that varies by more than this share of the most varied one is not looked at twice."""

CONSTANT = 1e-12
"""A feature that varies inside queries by less than this share of its size is constant there."""


@final
@dataclass(frozen=True, eq=False)
class Elsewhere:
    """What data stored elsewhere add to the normal equations.

    Parameters
    ----------
    gram : (n_features, n_features)
        ``Z' L Z``.
    moment : (n_features, n_outputs)
        ``Z' r``.
    """

    gram: FloatArray
    moment: FloatArray

    @classmethod
    def nothing(cls, n_features: int, n_outputs: int) -> Self:
        """Return zeros."""
        return cls(np.zeros((n_features, n_features)), np.zeros((n_features, n_outputs)))


def fold_of_components(
    graph: PreferenceGraph, folds: Folds, elsewhere: Elsewhere | None = None
) -> IntArray:
    """Return the fold of each component of a graph; refuse folds of which none can be left out."""
    of_component = folds.of_components(graph.laplacian.component)
    if elsewhere is None and len(np.unique(of_component[of_component >= 0])) < 2:
        raise InvalidInputError(
            "At least two folds must hold preferences, so that one can be left out: got fewer. "
            "Give more queries or validation data; one global ranking needs cv='leave_pair_out'."
        )
    return of_component


@final
@dataclass(frozen=True, eq=False)
class FoldedFeatures:
    """Features in coordinates of the graph, sorted by fold; those of no fold come last."""

    graph: PreferenceGraph
    Z: FloatArray
    folds: Folds
    root: Root
    order: IntArray
    """The coordinates fold by fold."""
    starts: IntArray
    """Where each fold begins among them, and where the last one ends."""
    elsewhere: Elsewhere
    """What no fold holds out, since it lies elsewhere."""

    @classmethod
    def of(
        cls,
        graph: PreferenceGraph,
        Z: FloatArray,
        folds: Folds,
        elsewhere: Elsewhere | None = None,
    ) -> Self:
        """Sort the coordinates of a graph by fold."""
        root, of_component = graph.laplacian.root(), fold_of_components(graph, folds, elsewhere)
        if elsewhere is None:
            elsewhere = Elsewhere.nothing(Z.shape[1], as_columns(graph.rhs).shape[1])
        order, starts = folds.order(of_component[root.component])
        return cls(graph, Z, folds, root, order, starts, elsewhere)

    def leaving_out(self, folds: Folds) -> Self:
        """Return the same features with other folds."""
        return self.of(self.graph, self.Z, folds, self.elsewhere)

    @cached_property
    def targets(self) -> FloatArray:
        """The targets in coordinates, (n_coordinates, n_outputs)."""
        return self.root.solve(as_columns(self.graph.rhs))

    @cached_property
    def _pick(self) -> Picker:
        return self.root.picker(self.Z)

    def rows(self, where: slice) -> FloatArray:
        """Return some rows of H, the features in coordinates, of which no copy is kept."""
        coordinates = self.order[where]
        out = np.empty((len(coordinates), self.Z.shape[1]))
        self._pick(coordinates, out, np.arange(len(out)))
        return out

    def varied(self, squares: FloatArray) -> BoolArray:
        """Return which features vary inside queries; the others are zero up to rounding in H.

        ``squares`` are the sums of squares of the columns of H. Features that vary elsewhere count.
        """
        varied = squares > SURELY_VARIED**2 * squares.max(initial=0.0)
        doubtful = np.flatnonzero(~varied)
        size = np.abs(self.Z[:, doubtful]).max(axis=0, initial=0.0)
        varied[doubtful] = np.sqrt(squares[doubtful]) > CONSTANT * size
        return varied | (np.diagonal(self.elsewhere.gram) > 0)


@final
@dataclass(frozen=True, eq=False)
class FoldSums:
    """Gram matrices H'H and right-hand sides C'H, stacked fold by fold, or of one part."""

    grams: Array
    rhs: Array

    @classmethod
    def of(cls, H: Array, C: Array, starts: IntArray) -> Self:
        """Sum over the rows of each fold, where they are."""
        n_folds, n = len(starts) - 1, H.shape[1]
        grams, rhs = zeros((n_folds, n, n), H), zeros((n_folds, C.shape[1], n), H)
        for q, (first, last) in enumerate(pairwise(starts.tolist())):
            _product(H[first:last, :], H[first:last, :], grams[q, ...])
            _product(C[first:last, :], H[first:last, :], rhs[q, ...])
        return cls(grams, rhs)

    def of_others(self) -> Self:
        """Return for each part the sum of all others."""
        return type(self)(sums_of_others(self.grams), sums_of_others(self.rhs))

    def features(self, chosen: BoolArray) -> Self:
        """Return the sums of some features, without a copy if these are all."""
        if chosen.all():
            return self
        grams = np.ascontiguousarray(self.grams[:, chosen][:, :, chosen])
        return type(self)(grams, np.ascontiguousarray(self.rhs[:, :, chosen]))


def sums_of_others(parts: Array) -> Array:
    """Return for each part, along the first axis, the sum of all others: nothing cancels."""
    sums, numbers = namespace_of(parts).zeros_like(parts), range(parts.shape[0])
    for order in (numbers, reversed(numbers)):  # those before, and those behind
        passed = sums[0, ...] * 0.0
        for q in order:
            sums[q, ...] += passed
            passed += parts[q, ...]
    return sums


def sums_behind(parts: FloatArray, outside: FloatArray) -> FloatArray:
    """Return for each part the sum of all later parts and of what is outside."""
    sums = np.empty_like(parts)
    sums[-1] = outside
    for q in range(len(parts) - 2, -1, -1):
        np.add(sums[q + 1], parts[q + 1], out=sums[q])
    return sums


@final
@dataclass(frozen=True, eq=False)
class FoldChunks:
    """Folds that are left out one by one, in chunks that threads share.

    The sums of the folds are needed twice: first added up, then one by one. They are stored only
    if they are few.
    """

    problem: FoldedFeatures
    folds: list[slice]
    kept: dict[int, FoldSums] | None
    where: Array
    """Where the sums over folds are computed."""

    @classmethod
    def of(
        cls,
        problem: FoldedFeatures,
        n_weights: int,
        chunk_bytes: int = CHUNK_BYTES,
        where: Array = HOST,
    ) -> Self:
        """Cut the folds into chunks, given the number of weights that a fold will need.

        Chunks that may take more memory than usual are as few as that allows.
        """
        n, n_folds = problem.Z.shape[1], problem.folds.n_folds
        n_chunks = max(N_CHUNKS, 4 * n_threads()) if chunk_bytes <= CHUNK_BYTES else 1
        n_bytes = 8 * max(1, n * (2 * n + n_weights))
        size = max(1, min(chunk_bytes // n_bytes, -(-n_folds // n_chunks)))
        chunks = [slice(a, min(a + size, n_folds)) for a in range(0, n_folds, size)]
        keeps = 0 < n_folds * n * (n + problem.targets.shape[1]) <= KEPT_SUMS
        return cls(problem, chunks, {} if keeps else None, where)

    def totals(self) -> FoldSums:
        """Return the sums over each chunk, and last over what no fold holds out."""
        problem = self.problem
        n, n_outputs = problem.Z.shape[1], problem.targets.shape[1]
        n_parts = len(self.folds) + 1
        grams, rhs = np.empty((n_parts, n, n)), np.empty((n_parts, n_outputs, n))

        def total(number: int) -> None:
            where = self._rows(number)
            H = problem.rows(where)
            if self.kept is not None and number < len(self.folds):
                sums = self.kept[number] = self._sums(number, H)
                xp = namespace_of(sums.grams)
                grams[number] = to_host(xp.sum(sums.grams, axis=0))
                rhs[number] = to_host(xp.sum(sums.rhs, axis=0))
                return
            targets = problem.targets[problem.order[where]]
            grams[number], rhs[number] = H.T @ H, targets.T @ H

        with serial_blas():
            in_threads(total, n_parts)
        return FoldSums(grams, rhs)

    def sums(self, number: int) -> FoldSums:
        """Return the sums over each fold of a chunk, to write into."""
        if self.kept is not None:
            return self.kept.pop(number)
        return self._sums(number, self.problem.rows(self._rows(number)))

    def _sums(self, number: int, H: FloatArray) -> FoldSums:
        chunk, starts = self.folds[number], self.problem.starts
        starts = starts[chunk.start : chunk.stop + 1] - starts[chunk.start]
        targets = self.problem.targets[self.problem.order[self._rows(number)]]
        return FoldSums.of(like(H, self.where), like(targets, self.where), starts)

    def _rows(self, number: int) -> slice:
        """Return the coordinates of a chunk or, after the last, those of no fold."""
        starts = self.problem.starts
        if number == len(self.folds):
            return slice(starts[-1], len(self.problem.order))
        return slice(starts[self.folds[number].start], starts[self.folds[number].stop])


def refit_folds(problem: FoldedFeatures, alphas: FloatArray) -> HeldOut:
    """Refit without each fold: prefix and suffix sums, tridiagonal reduction.

    docs/theory/holdouts.rst, eqs. hold-prefix and hold-tridiagonal.
    """
    Z, n_outputs, folds = problem.Z, problem.targets.shape[1], problem.folds
    # the normal equations of each chunk of folds, and of what is never left out
    chunks = FoldChunks.of(problem, n_outputs * len(alphas))
    parts = chunks.totals()
    varied = problem.varied(np.einsum("kii->i", parts.grams))
    parts.grams[-1] += problem.elsewhere.gram
    parts.rhs[-1] += problem.elsewhere.moment.T
    G, b = parts.grams.sum(axis=0), parts.rhs.sum(axis=0).T
    outside = parts.features(varied).of_others()
    # the last alpha is repeated until vector registers are full
    grid = np.pad(alphas, (0, -len(alphas) % VECTOR), mode="edge")
    rows, item_starts = folds.items
    out = np.empty((n_outputs, len(alphas), len(rows)))
    pivot = np.ones((folds.n_folds, len(grid)))

    def refit(number: int) -> None:
        c = chunks.folds[number]
        sums = chunks.sums(number).features(varied)
        behind = sums_behind(sums.grams, outside.grams[number])
        behind_rhs = sums_behind(sums.rhs, outside.rhs[number])
        W = np.empty((*sums.rhs.shape, len(grid)))
        refit_without_each(sums.grams, sums.rhs, behind, behind_rhs, grid, W, pivot[c])
        for q, weights in zip(range(c.start, c.stop), W, strict=True):
            own = slice(item_starts[q], item_starts[q + 1])
            out[:, :, own] = (_columns(Z[rows[own]], varied) @ weights).mT[:, : len(alphas)]

    with serial_blas():
        in_threads(refit, len(chunks.folds))
    error = error_of_pivots(pivot.min(axis=0)[: len(alphas)])

    def solve(alpha: float) -> FloatArray:
        W = np.zeros_like(b)  # features that do not vary get no weight
        W[varied] = solve_once(G[np.ix_(varied, varied)], b[varied], alpha)
        return W

    return HeldOut(folds.spread(out.transpose(1, 2, 0)), error, solve)


def _columns(rows: FloatArray, chosen: BoolArray) -> FloatArray:
    """Return some columns, without a copy if these are all columns."""
    return rows if chosen.all() else np.ascontiguousarray(rows[:, chosen])


def _product(A: Array, B: Array, out: Array) -> None:
    """Fill ``out`` with A' B, all in row order; BLAS is called without NumPy's checks."""
    if not is_on_host(out):
        out[...] = A.T @ B
    elif out.size:
        dgemm(1.0, B.T, A.T, c=out.T, trans_b=True, overwrite_c=True)
