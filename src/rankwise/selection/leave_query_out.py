"""Scores of held-out queries for every alpha without refitting, for explicit features."""

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg.blas import dgemm

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, as_columns, dense_rows
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import solve_definite, take_rows
from rankwise.core.threads import in_threads, n_threads, run_parts, serial_blas
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.laplacian import Picker, Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.native.holdouts import refit_without_each
from rankwise.selection.holdouts import Folds, HeldOut, by_alpha, error_of_pivots
from rankwise.selection.leave_query_out_dual import (
    DEVICE_ENTRIES,
    blocks_of_weights,
    leave_folds_out_of_dual,
    solve_in_blocks,
)
from rankwise.solve.normal_equations import (
    Spectrum,
    System,
    solve_once,
    solve_path,
)

Form: TypeAlias = Literal["auto", "refit", "update"]

STORED = 1 << 23
"""Entries of the features in coordinates that are kept: 64 MB."""

VECTOR = 8
"""Grids are filled up to a multiple of this, the doubles of a vector register."""

TURNED_BYTES = 1 << 20
"""Turned coordinates that are formed together, so that they stay in cache."""

TURNED = 1 << 10
"""Rows that are multiplied with eigenvectors at a time, so that no second copy of all is made."""

N_CHUNKS = 16
"""Folds are cut into so many chunks at least: what is formed of a small one stays in cache."""

CHUNK_BYTES = 1 << 24
"""Memory for the Gram matrices and the weights of one chunk of folds."""

KEPT_SUMS = 1 << 22
"""Entries of the sums over each fold that are kept, so as not to form them twice: 32 MB."""

COMPILED_COST = 8.0
"""What an operation of the compiled refits is taken to cost, in operations of BLAS."""

SURELY_VARIED = 1e-6
"""A feature that varies by more than this share of the most varied one is not looked at twice."""

CONSTANT = 1e-12
"""A feature that varies inside queries by less than this share of its size is constant there."""

SAFE_PIVOT = 1e-6
"""Below this pivot the update formula has lost digits and the fold is refitted."""


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


def leave_query_out(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    alphas: FloatArray,
    *,
    form: Form = "auto",
    elsewhere: Elsewhere | None = None,
    device: Device | None = None,
    n_stored: int = STORED,
) -> HeldOut:
    """Return the scores of each fold's items by models without that fold.

    This is exact for every alpha, at the cost of one decomposition, or of small solves per fold. A
    fold must be a union of whole components of the graph.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    graph : PreferenceGraph
        The preferences.
    folds : Folds
        The folds.
    alphas : (n_alphas,)
        The values of alpha.
    form : {"auto", "refit", "update"}
        For explicit features: refit without each fold, remove each fold from the full solution, or
        the cheaper of the two.
    elsewhere : Elsewhere, optional
        The contribution of other data, of which nothing is left out; for explicit features.
    device : Device, optional
        Where the kernel matrix is formed, reduced and decomposed, or explicit features are
        multiplied and all queries of one size left out together.
    n_stored : int
        Number of entries up to which explicit features in coordinates are stored; more are formed
        as needed.

    Notes
    -----
    [PTA09] Sect. 3.3: the scores (32) by (33), in the symmetric form of the reduced problem.
    """
    of_component = folds.of_components(graph.laplacian.component)
    if elsewhere is None and len(np.unique(of_component[of_component >= 0])) < 2:
        raise InvalidInputError(
            "At least two folds must hold preferences, so that one can be left out: got fewer. "
            "Give more queries; one global ranking needs cv='leave_pair_out'."
        )
    if not space.is_explicit:
        return leave_folds_out_of_dual(space, graph, folds, of_component, alphas, device)
    Z = dense_rows(space.features())
    root = graph.laplacian.root()
    order, starts = folds.order(of_component[root.component])
    if form == "auto":
        form = _cheaper_form(Z.shape[1], np.diff(starts), len(alphas))
    leave_out = _refit_folds if form == "refit" else _update_folds
    if elsewhere is None:
        elsewhere = Elsewhere.nothing(Z.shape[1], as_columns(graph.rhs).shape[1])
    problem = _FoldedProblem(graph, Z, root, order, starts, elsewhere, n_stored)
    found = None if device is None else _update_folds_on(problem, folds, alphas, device)
    return leave_out(problem, folds, alphas) if found is None else found


@final
@dataclass(frozen=True, eq=False)
class _FoldedProblem:
    """Features in coordinates of the graph, sorted by fold; those of no fold come last."""

    graph: PreferenceGraph
    Z: FloatArray
    root: Root
    order: IntArray
    """The coordinates fold by fold."""
    starts: IntArray
    """Where each fold begins among them, and where the last one ends."""
    elsewhere: Elsewhere
    """What no fold holds out, since it lies elsewhere."""
    n_stored: int
    """Up to so many entries of H are kept."""

    @cached_property
    def targets(self) -> FloatArray:
        """The targets in coordinates, (n_coordinates, n_outputs)."""
        return self.root.solve(as_columns(self.graph.rhs))[self.order]

    @cached_property
    def _pick(self) -> Picker:
        return self.root.picker(self.Z)

    def rows(self, where: slice) -> FloatArray:
        """Return some rows of H, the features in coordinates; they are stored if they are few."""
        if len(self.order) * self.Z.shape[1] > self.n_stored:
            return self.rows_once(where)
        return self._stored[where]

    def rows_once(self, where: slice) -> FloatArray:
        """Return some rows of H without storing them."""
        coordinates = self.order[where]
        out = np.empty((len(coordinates), self.Z.shape[1]))
        self._pick(coordinates, out, np.arange(len(out)))
        return out

    @cached_property
    def _stored(self) -> FloatArray:
        return self.rows_once(slice(None))

    def varied(self, squares: FloatArray) -> BoolArray:
        """Return which features vary inside queries; the others are zero up to rounding in H.

        ``squares`` are the sums of squares of the columns of H. Features that vary elsewhere count.
        """
        varied = squares > SURELY_VARIED**2 * squares.max(initial=0.0)
        doubtful = np.flatnonzero(~varied)
        size = np.abs(self.Z[:, doubtful]).max(axis=0, initial=0.0)
        varied[doubtful] = np.sqrt(squares[doubtful]) > CONSTANT * size
        return varied | (np.diagonal(self.elsewhere.gram) > 0)


def _cheaper_form(n_features: int, sizes: IntArray, n_alphas: int) -> Form:
    """Compare the operations of a refit per fold with those of the update formula."""
    # Neither form serves alone: in CPU time for 31 alphas updates take 21x longer for 300 queries
    # of 100 items, 46 features, and refits 18x longer for 100 queries of 20 items, 500 features.
    refit = COMPILED_COST * len(sizes) * (2.0 * n_features**3 + 8.0 * n_alphas * n_features**2)
    update = n_alphas * float(np.sum(sizes**2.0 * n_features + COMPILED_COST * sizes**3.0 / 3))
    return "refit" if refit < update + 1e5 * len(sizes) else "update"


def _refit_folds(problem: _FoldedProblem, folds: Folds, alphas: FloatArray) -> HeldOut:
    """Refit without each fold: prefix and suffix sums, tridiagonal reduction.

    docs/theory/holdouts.rst, eqs. hold-prefix and hold-tridiagonal.
    """
    Z, n_outputs = problem.Z, problem.targets.shape[1]
    chunks = _Chunks.of(problem, folds.n_folds, len(alphas))
    parts, rhs = chunks.totals()
    varied = problem.varied(np.einsum("kii->i", parts))
    parts[-1] += problem.elsewhere.gram
    rhs[-1] += problem.elsewhere.moment.T
    G, b = parts.sum(axis=0), rhs.sum(axis=0).T
    if not varied.any():
        return _all_zero(problem, folds, alphas)
    if not varied.all():
        parts, rhs = np.ascontiguousarray(parts[:, varied][:, :, varied]), rhs[:, :, varied]
    rows, item_starts = folds.items
    grid = _filled_up(alphas)
    out = np.empty((n_outputs, len(alphas), len(rows)))
    pivot = np.ones((folds.n_folds, len(grid)))

    def refit(number: int) -> None:
        c = chunks.folds[number]
        items = slice(item_starts[c.start], item_starts[c.stop])
        _refit_chunk(
            chunks.sums(number, varied),
            _FoldSums(_sum_of_others(parts, number), _sum_of_others(rhs, number)),
            _columns(_rows_of(Z, rows, items), varied),
            item_starts[c.start : c.stop + 1] - item_starts[c.start],
            grid,
            out[:, :, items],
            pivot[c],
        )

    with serial_blas():
        in_threads(refit, len(chunks.folds))
    scores = out.transpose(1, 2, 0)
    error = error_of_pivots(pivot.min(axis=0)[: len(alphas)])
    return HeldOut(_spread(scores, rows, len(Z)), error, partial(_solve_varied, G, b, varied))


@final
@dataclass(frozen=True, eq=False)
class _FoldSums:
    """Gram matrices H'H and right-hand sides C'H, stacked fold by fold, or of one part."""

    grams: FloatArray
    rhs: FloatArray

    @classmethod
    def of(cls, H: FloatArray, C: FloatArray, starts: IntArray) -> Self:
        """Sum over the rows of each fold."""
        n_folds, n = len(starts) - 1, H.shape[1]
        grams, rhs = np.empty((n_folds, n, n)), np.empty((n_folds, C.shape[1], n))
        for q, (first, last) in enumerate(pairwise(starts.tolist())):
            _product(H[first:last].T, H[first:last], grams[q])
            _product(C[first:last].T, H[first:last], rhs[q])
        return cls(grams, rhs)


@final
@dataclass(frozen=True, eq=False)
class _Chunks:
    """Folds that are left out one by one, in chunks that threads share.

    The sums of the folds are needed twice: first added up, then one by one. They are stored only
    if they are few.
    """

    problem: _FoldedProblem
    folds: list[slice]
    kept: dict[int, _FoldSums] | None

    @classmethod
    def of(cls, problem: _FoldedProblem, n_folds: int, n_alphas: int) -> Self:
        """Cut the folds into chunks."""
        n, n_outputs = problem.Z.shape[1], problem.targets.shape[1]
        n_chunks = max(N_CHUNKS, 4 * n_threads())
        n_bytes = 8 * max(1, n * (2 * n + n_outputs * n_alphas))
        size = max(1, min(CHUNK_BYTES // n_bytes, -(-n_folds // n_chunks)))
        chunks = [slice(a, min(a + size, n_folds)) for a in range(0, n_folds, size)]
        keeps = 0 < n_folds * n * (n + n_outputs) <= KEPT_SUMS
        return cls(problem, chunks, {} if keeps else None)

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums over each chunk, and last over what no fold holds out."""
        problem = self.problem
        n, n_outputs = problem.Z.shape[1], problem.targets.shape[1]
        n_parts = len(self.folds) + 1
        grams, rhs = np.empty((n_parts, n, n)), np.empty((n_parts, n_outputs, n))

        def total(number: int) -> None:
            if self.kept is not None and number < len(self.folds):
                H = problem.rows_once(self._rows(number))
                sums = self.kept[number] = self._sums(number, H)
                grams[number], rhs[number] = sums.grams.sum(axis=0), sums.rhs.sum(axis=0)
                return
            where = self._rows(number)
            H = problem.rows(where)
            grams[number], rhs[number] = H.T @ H, problem.targets[where].T @ H

        with serial_blas():
            in_threads(total, n_parts)
        return grams, rhs

    def sums(self, number: int, varied: BoolArray) -> _FoldSums:
        """Return the sums over each fold of a chunk, for the features that vary, to write into."""
        if self.kept is not None and varied.all():
            return self.kept.pop(number)
        return self._sums(number, _columns(self.problem.rows(self._rows(number)), varied))

    def _sums(self, number: int, H: FloatArray) -> _FoldSums:
        chunk, starts = self.folds[number], self.problem.starts
        starts = starts[chunk.start : chunk.stop + 1] - starts[chunk.start]
        return _FoldSums.of(H, self.problem.targets[self._rows(number)], starts)

    def _rows(self, number: int) -> slice:
        """Return the coordinates of a chunk or, after the last, those of no fold."""
        starts = self.problem.starts
        if number == len(self.folds):
            return slice(starts[-1], len(self.problem.order))
        return slice(starts[self.folds[number].start], starts[self.folds[number].stop])


def _refit_chunk(
    sums: _FoldSums,
    outside: _FoldSums,
    Z: FloatArray,
    item_starts: IntArray,
    alphas: FloatArray,
    out: FloatArray,
    pivot: FloatArray,
) -> None:
    """Refit without each fold of a chunk, without ever subtracting a Gram matrix.

    What remains without fold q is the sum of the folds before it, those after it and the folds
    outside the chunk.
    """
    n_folds, n_outputs, n = sums.rhs.shape
    n_alphas = len(alphas)
    behind, behind_rhs = (
        _sums_behind(sums.grams, outside.grams),
        _sums_behind(sums.rhs, outside.rhs),
    )
    W = np.empty((n_folds, n_outputs, n, n_alphas))
    refit_without_each(sums.grams, sums.rhs, behind, behind_rhs, alphas, W, pivot)
    for q, (first, last) in enumerate(pairwise(item_starts.tolist())):
        scores = np.empty((last - first, n_alphas))
        for k in range(n_outputs):
            _product(Z[first:last], W[q, k], scores)
            out[k, :, first:last] = scores.T[: out.shape[1]]


def _product(A: FloatArray, B: FloatArray, out: FloatArray) -> None:
    """Fill ``out`` with A B; A is in row or column order, the others in row order."""
    is_transposed = not A.flags.c_contiguous
    dgemm(
        1.0,
        B.T,
        A if is_transposed else A.T,
        c=out.T,
        trans_b=is_transposed,
        overwrite_c=True,
    )


def _sums_behind(parts: FloatArray, outside: FloatArray) -> FloatArray:
    """Return for each part the sum of all later parts and of what is outside."""
    sums = np.empty_like(parts)
    sums[-1] = outside
    for q in range(len(parts) - 2, -1, -1):
        np.add(sums[q + 1], parts[q + 1], out=sums[q])
    return sums


def _all_zero(problem: _FoldedProblem, folds: Folds, alphas: FloatArray) -> HeldOut:
    """Return the scores if no feature varies inside a query: every model is 0."""
    n_items, n_outputs = len(problem.Z), problem.targets.shape[1]
    held_out = folds.fold[None, :, None] >= 0
    zeros = np.zeros((len(alphas), n_items, n_outputs))
    weights = np.zeros((problem.Z.shape[1], n_outputs))
    scores = np.where(held_out, zeros, np.nan)
    return HeldOut(scores, np.zeros(len(alphas)), lambda _: weights)


def _filled_up(alphas: FloatArray) -> FloatArray:
    """Repeat the last alpha until vector registers are full."""
    return np.pad(alphas, (0, -len(alphas) % VECTOR), mode="edge")


def _columns(rows: FloatArray, chosen: BoolArray) -> FloatArray:
    """Return some columns, without a copy if these are all columns."""
    return rows if chosen.all() else np.ascontiguousarray(rows[:, chosen])


def _rows_of(Z: FloatArray, rows: IntArray, where: slice) -> FloatArray:
    """Return ``Z[rows[where]]``, without a copy if these rows are contiguous."""
    some = rows[where]
    if len(some) and np.all(np.diff(some) == 1):
        return Z[some[0] : some[-1] + 1]
    return Z[some]


def _solve_varied(G: FloatArray, b: FloatArray, varied: BoolArray, alpha: float) -> FloatArray:
    """Solve the normal equations of all items; features that do not vary get no weight."""
    W = np.zeros_like(b)
    W[varied] = solve_once(G[np.ix_(varied, varied)], b[varied], alpha)
    return W


def _sum_of_others(parts: FloatArray, number: int) -> FloatArray:
    """Add up all parts but one; nothing is subtracted, so nothing cancels."""
    return parts[:number].sum(axis=0) + parts[number + 1 :].sum(axis=0)


def _update_folds(problem: _FoldedProblem, folds: Folds, alphas: FloatArray) -> HeldOut:
    """Remove each fold from the full solution by an update of the order of the fold.

    docs/theory/holdouts.rst, eq. hold-update.
    """
    C, starts = problem.targets, problem.starts
    grid = _filled_up(alphas)
    n_alphas = len(grid)
    system = System.primal(problem.graph, problem.Z)
    here = system.matrix
    varied = problem.varied(np.diagonal(here))
    G, b = here + problem.elsewhere.gram, system.rhs + problem.elsewhere.moment
    if not varied.any():
        return _all_zero(problem, folds, alphas)
    Z = _columns(problem.Z, varied)
    spectrum = Spectrum.of(G if varied.all() else G[np.ix_(varied, varied)])
    turned = _TurnedRows.of(Z, spectrum.vectors, problem)
    n_outputs = C.shape[1]
    inverse = 1.0 / (spectrum.values[:, None] + grid)
    inverse_columns = np.repeat(inverse, n_outputs, axis=1)
    projected = spectrum.vectors.T @ b[varied]
    W = inverse_columns * np.tile(projected, n_alphas)
    rows, item_starts = folds.items
    out = np.empty((len(rows), n_alphas * n_outputs))
    pivots = np.ones((folds.n_folds, n_alphas))

    def update(_: int, first: int, last: int) -> None:
        H = turned.coordinates(slice(starts[first], starts[last]))
        for q in range(first, last):
            leave_out(q, H[starts[q] - starts[first] : starts[q + 1] - starts[first]])

    def leave_out(q: int, Hq: FloatArray) -> None:
        where = slice(item_starts[q], item_starts[q + 1])
        N = np.eye(len(Hq)) - blocks_of_weights(Hq[None], inverse)[0]
        residual = np.tile(C[starts[q] : starts[q + 1]], n_alphas) - Hq @ W
        r, pivot = solve_in_blocks(N, by_alpha(residual, n_alphas))  # [PTA09] (33)
        held_out = W - inverse_columns * (Hq.T @ _side_by_side(r))
        out[where] = turned.items(rows[where]) @ held_out
        lost = pivot < SAFE_PIVOT
        if lost.any():
            again, pivot[lost] = _refit(problem, q, grid[lost], varied)
            lost_columns = np.repeat(lost, n_outputs)
            out[where, lost_columns] = Z[rows[where]] @ _side_by_side(again)
        pivots[q] = pivot

    with serial_blas():
        run_parts(update, _cut(starts, TURNED_BYTES // (8 * Z.shape[1])))
    error = error_of_pivots(np.minimum(spectrum.rcond(grid), pivots.min(axis=0, initial=1.0)))

    def solve(alpha: float) -> FloatArray:
        weights = np.zeros_like(b)
        weights[varied] = spectrum.solve(b[varied], alpha)
        return weights

    scores = by_alpha(out[:, : len(alphas) * n_outputs], len(alphas))
    return HeldOut(_spread(scores, rows, len(Z)), error[: len(alphas)], solve)


def _update_folds_on(
    problem: _FoldedProblem, folds: Folds, alphas: FloatArray, device: Device
) -> HeldOut | None:
    """Do the same on a device; None if a fold must be refitted to keep its digits."""
    features = _FeaturesThere.of(problem, device)
    if not problem.varied(features.squares).all():
        return None
    rows, item_starts = folds.items
    C0, order, starts = problem.targets, problem.order, problem.starts
    scores = np.full((len(alphas), len(problem.Z), C0.shape[1]), np.nan)
    pivots = np.ones((folds.n_folds, len(alphas)))
    sizes = np.column_stack([np.diff(starts), np.diff(item_starts)])
    for size in np.unique(sizes, axis=0).tolist():
        same = np.flatnonzero((sizes == size).all(axis=1))
        step = max(1, DEVICE_ENTRIES // (max(1, sum(size)) * problem.Z.shape[1]))
        for first in range(0, len(same), step):
            some = same[first : first + step]
            U = starts[some][:, None] + np.arange(size[0])  # the targets are sorted by fold
            members = rows[item_starts[some][:, None] + np.arange(size[1])]
            found, pivots[some] = features.leave_out(order[U], C0[U], members, alphas)
            scores[:, members] = found
    if (pivots < SAFE_PIVOT).any():
        return None
    error = error_of_pivots(np.minimum(features.rcond(alphas), pivots.min(axis=0, initial=1.0)))
    return HeldOut(scores, error, features.solve)


@final
@dataclass(frozen=True, eq=False)
class _FeaturesThere:
    """Features on a device, turned into the eigenvectors of their normal equations.

    ``T`` holds those of the coordinates, ``rows`` those of the items, ``projected`` the rotated
    right-hand side.
    """

    device: Device
    values: FloatArray
    vectors: DeviceArray
    T: DeviceArray
    rows: DeviceArray
    projected: DeviceArray
    squares: FloatArray

    @classmethod
    def of(cls, problem: _FoldedProblem, device: Device) -> Self:
        """Move the features to the device and decompose their normal equations."""
        Z = device.array(problem.Z)
        mean = Z.mean(0)
        centred = Z - mean
        H = problem.root.like(centred).to_coordinates(centred)
        there = device.array(problem.root.solve(as_columns(problem.graph.rhs)))
        b = H.T @ there + device.array(problem.elsewhere.moment)
        G = device.gram(H)
        squares = device.host(G.diagonal())
        values, vectors = device.eigh(G + device.array(problem.elsewhere.gram))
        known = np.maximum(device.host(values), 0.0)
        rows = centred @ vectors + mean @ vectors
        return cls(device, known, vectors, H @ vectors, rows, vectors.T @ b, squares)

    def rcond(self, alphas: FloatArray) -> FloatArray:
        """Return the reciprocal condition number for every alpha."""
        return (self.values[0] + alphas) / (self.values[-1] + alphas)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the features for an alpha."""
        scaled = self.projected / self.device.array(self.values + alpha)[:, None]
        return self.device.host(self.vectors @ scaled)

    def leave_out(
        self, U: IntArray, targets: FloatArray, members: IntArray, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scores of folds of one size, and their smallest pivots.

        Parameters
        ----------
        U, members : (n_folds, size)
            The coordinates and the items of each fold.
        targets : (n_folds, size, n_outputs)
            The targets of the coordinates.
        alphas : (n_alphas,)
            The grid.

        Returns
        -------
        scores : (n_alphas, n_folds, n_items, n_outputs)
        pivots : (n_folds, n_alphas)
        """
        device = self.device
        T, X = (
            take_rows(all_rows, some.ravel()).reshape(*some.shape, len(self.values))
            for all_rows, some in ((self.T, U), (self.rows, members))
        )
        across, there = T.swapaxes(1, 2), device.array(targets)
        identity = device.array(np.eye(U.shape[1]))
        scores = np.empty((len(alphas), *members.shape, targets.shape[2]))
        pivots = np.ones((len(U), len(alphas)))
        for a, alpha in enumerate(alphas.tolist()):
            inverse = device.array(1.0 / (self.values + alpha))
            W = inverse[:, None] * self.projected
            if U.shape[1]:
                N = identity - (T * inverse) @ across
                r, pivot = solve_definite(N, there - T @ W)  # eq. hold-update
                pivots[:, a] = device.host(pivot)
                W = W - inverse[:, None] * (across @ r)
            scores[a] = device.host(X @ W)
        return scores, pivots


@final
@dataclass(frozen=True, eq=False)
class _TurnedRows:
    """The features of the items times eigenvectors, and those of some coordinates as needed.

    The first row of each component is subtracted before the product, and its product is added only
    to the items, so that an offset costs no digits of the coordinates.
    """

    problem: _FoldedProblem
    rows: FloatArray
    offset: FloatArray
    of_item: IntArray

    @classmethod
    def of(cls, Z: FloatArray, vectors: FloatArray, problem: _FoldedProblem) -> Self:
        """Multiply the features with the eigenvectors, some rows at a time."""
        first, of_item = np.unique(problem.graph.laplacian.anchor(), return_inverse=True)
        turned = np.empty((len(Z), vectors.shape[1]))
        for start in range(0, len(Z), TURNED):
            rows = slice(start, start + TURNED)
            np.matmul(Z[rows] - Z[first[of_item[rows]]], vectors, out=turned[rows])
        return cls(problem, turned, Z[first] @ vectors, of_item)

    def items(self, which: IntArray) -> FloatArray:
        """Return the turned features of some items."""
        items: FloatArray = self.rows[which] + self.offset[self.of_item[which]]
        return items

    def coordinates(self, where: slice) -> FloatArray:
        """Return those of the coordinates of some folds."""
        which = self.problem.order[where]
        out = np.empty((len(which), self.rows.shape[1]))
        self._pick(which, out, np.arange(len(which)))
        return out

    @cached_property
    def _pick(self) -> Picker:
        return self.problem.root.picker(self.rows)


def _cut(starts: IntArray, n_rows: int) -> IntArray:
    """Return where to cut folds so that each part has about this many coordinates."""
    cuts = np.searchsorted(starts, np.arange(0, starts[-1] + 1, max(1, n_rows)))
    return np.unique(np.append(cuts, len(starts) - 1))


def _side_by_side(stack: FloatArray) -> FloatArray:
    """Undo `by_alpha`."""
    n_alphas, n_rows, n_outputs = stack.shape
    return stack.transpose(1, 0, 2).reshape(n_rows, n_alphas * n_outputs)


def _refit(
    problem: _FoldedProblem, q: int, alphas: FloatArray, varied: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of models fitted without fold q, and how well posed they were."""
    starts = problem.starts
    H = _columns(problem.rows(slice(None)), varied)
    kept = np.r_[0 : starts[q], starts[q + 1] : len(H)]
    rest = H[kept]
    G = rest.T @ rest + problem.elsewhere.gram[np.ix_(varied, varied)]
    b = rest.T @ problem.targets[kept] + problem.elsewhere.moment[varied]
    largest = np.diagonal(G).max(initial=0.0)
    weights = solve_path(G, b, alphas)
    return weights, alphas / (largest + alphas)


def _spread(values: FloatArray, rows: IntArray, n_items: int) -> FloatArray:
    """Spread values of some rows (second axis) over all items; the others become NaN."""
    if np.array_equal(rows, np.arange(n_items)):
        return values
    out = np.full((values.shape[0], n_items, values.shape[2]), np.nan)
    out[:, rows] = values
    return out
