"""Scores of held-out queries for every alpha, without refitting."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf, dpotrs

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, as_columns, dense_rows
from rankwise.core.compile import in_threads, n_threads, serial_blas
from rankwise.core.devices import Device, DeviceArray, memory_of
from rankwise.core.errors import InvalidInputError
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.rankers.rls._kernels import (
    shifted_solutions,
    solve_each,
    tridiagonalise,
    weighted_blocks,
)
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.solve.normal_equations import (
    DeviceSystem,
    Dual,
    Primal,
    Spectrum,
    Tridiagonal,
    solve_once,
)

Form: TypeAlias = Literal["auto", "refit", "update"]

SMALL_BLOCK = 32
"""Up to this order systems are solved by a compiled loop over the grid."""

PRODUCT_BYTES = 1 << 19
"""Products of rows that are formed together, so that they stay in cache."""

STORED = 1 << 23
"""Entries of the features in coordinates that are kept: 64 MB."""

VECTOR = 8
"""Grids are filled up to a multiple of this, the doubles of a vector register."""

TURNED = 1 << 10
"""Rows that are multiplied with eigenvectors at a time, so that no second copy of all is made."""

CHUNK_BYTES = 1 << 24
"""Memory for the Gram matrices of one chunk of folds."""

COMPILED_COST = 8.0
"""What an operation of the compiled refits is taken to cost, in operations of BLAS."""

DEVICE_ENTRIES = 1 << 27
"""Numbers of a device's array that holds rows of eigenvectors: 1 GB."""

DECOMPOSED_MATRICES = 5
"""Kernel matrices that an eigendecomposition takes on a GPU, the workspace of cuSOLVER included."""

DECOMPOSED_SHARE = 0.25
"""Share of a device's memory up to which the kernel is decomposed; beyond, a factor per alpha."""

LARGE_ALPHA = 1e4
"""Above this multiple of the largest eigenvalue, factors of the kernel plus alpha lose digits."""

POWER_STEPS = 20
"""Products with the kernel that estimate its largest eigenvalue."""

SURELY_VARIED = 1e-6
"""A feature that varies by more than this share of the most varied one is not looked at twice."""

CONSTANT = 1e-12
"""A feature that varies inside queries by less than this share of its size is constant there."""

SAFE_PIVOT = 1e-6
"""Below this pivot the update formula has lost digits and the fold is refitted."""


@final
@dataclass(frozen=True, eq=False)
class Elsewhere:
    """What data that lie elsewhere add to the normal equations.

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
    """Return the scores that models without each fold give to the items of that fold.

    Exact, for every alpha, at the price of one decomposition or of small solves per fold. A fold
    must be a union of whole components of the graph.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    graph : PreferenceGraph
        The preferences.
    folds : Folds
        What is held out together.
    alphas : (n_alphas,)
        The values of alpha.
    form : {"auto", "refit", "update"}
        For explicit features: fit anew without each fold, take each fold out of the full solution,
        or the cheaper of the two.
    elsewhere : Elsewhere, optional
        What other data say, of which nothing is left out; for explicit features.
    device : Device, optional
        Where the kernel matrix is formed, reduced and decomposed, or explicit features are
        multiplied and all queries of a size left out together.
    n_stored : int
        Up to so many entries, explicit features in coordinates are kept; more are formed as needed.

    Notes
    -----
    [PTA09] Sect. 3.3: the scores (32) by (33), in the symmetric form of the reduced problem.
    """
    of_component = folds.of_components(graph.laplacian.component)
    if elsewhere is None and len(np.unique(of_component[of_component >= 0])) < 2:
        raise InvalidInputError(
            "Leaving out queries needs preferences in at least two folds, so that something is "
            "left to learn from. Give more queries; one global ranking needs cv='leave_pair_out'."
        )
    if not space.is_explicit:
        return _dual(space, graph, folds, of_component, alphas, device)
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
    def _pick(self) -> Callable[[IntArray], FloatArray]:
        return self.root.picker(self.Z)

    def rows(self, where: slice) -> FloatArray:
        """Return some rows of H, the features in coordinates; few are kept, many are not."""
        if len(self.order) * self.Z.shape[1] > self.n_stored:
            return self._pick(self.order[where])
        return self._stored[where]

    @cached_property
    def _stored(self) -> FloatArray:
        return self._pick(self.order)

    def varied(self, squares: FloatArray) -> BoolArray:
        """Return which features vary inside queries; the others are zero up to rounding in H.

        ``squares`` are the sums of squares of the columns of H. What varies elsewhere varies.
        """
        varied = squares > SURELY_VARIED**2 * squares.max(initial=0.0)
        doubtful = np.flatnonzero(~varied)
        size = np.abs(self.Z[:, doubtful]).max(axis=0, initial=0.0)
        varied[doubtful] = np.sqrt(squares[doubtful]) > CONSTANT * size
        return varied | (np.diagonal(self.elsewhere.gram) > 0)


def _cheaper_form(n_features: int, sizes: IntArray, n_alphas: int) -> Form:
    """Compare the operations of a refit per fold with those of the update formula."""
    refit = COMPILED_COST * len(sizes) * (2.0 * n_features**3 + 8.0 * n_alphas * n_features**2)
    update = n_alphas * float(np.sum(sizes**2.0 * n_features + COMPILED_COST * sizes**3.0 / 3))
    return "refit" if refit < update + 1e5 * len(sizes) else "update"


def _refit_folds(problem: _FoldedProblem, folds: Folds, alphas: FloatArray) -> HeldOut:
    """Refit without each fold: prefix and suffix sums, tridiagonal reduction.

    docs/theory/holdouts.rst, eqs. hold-prefix and hold-tridiagonal.
    """
    Z, C, starts = problem.Z, problem.targets, problem.starts
    n, n_outputs = Z.shape[1], C.shape[1]
    size = max(1, min(CHUNK_BYTES // (16 * max(1, n * n)), -(-folds.n_folds // (4 * n_threads()))))
    chunks = [slice(a, min(a + size, folds.n_folds)) for a in range(0, folds.n_folds, size)]
    bounds = [slice(starts[c.start], starts[c.stop]) for c in chunks]
    bounds.append(slice(starts[-1], len(problem.order)))  # what no fold holds out
    parts, rhs = np.empty((len(bounds), n, n)), np.empty((len(bounds), n, n_outputs))

    def total(number: int) -> None:
        H = problem.rows(bounds[number])
        parts[number], rhs[number] = H.T @ H, H.T @ C[bounds[number]]

    with serial_blas():
        in_threads(total, len(bounds))
    varied = problem.varied(np.einsum("kii->i", parts))
    parts[-1] += problem.elsewhere.gram
    rhs[-1] += problem.elsewhere.moment
    G, b = parts.sum(axis=0), rhs.sum(axis=0)
    if not varied.any():
        return _all_zero(problem, folds, alphas)
    if not varied.all():
        parts, rhs = np.ascontiguousarray(parts[:, varied][:, :, varied]), rhs[:, varied]
        n = parts.shape[1]
    rows, item_starts = folds.items
    grid = _filled_up(alphas)
    out = np.empty((n_outputs, len(alphas), len(rows)))
    pivot = np.ones((folds.n_folds, len(grid)))

    def refit(number: int) -> None:
        c = chunks[number]
        items = slice(item_starts[c.start], item_starts[c.stop])
        _refit_chunk(
            _columns(problem.rows(bounds[number]), varied),
            C[bounds[number]],
            starts[c.start : c.stop + 1] - starts[c.start],
            _sum_of_others(parts, number),
            _sum_of_others(rhs, number),
            _columns(_rows_of(Z, rows, items), varied),
            item_starts[c.start : c.stop + 1] - item_starts[c.start],
            grid,
            out[:, :, items],
            pivot[c],
        )

    with serial_blas():
        in_threads(refit, len(chunks))
    scores = out.transpose(1, 2, 0)
    error = _error(pivot.min(axis=0)[: len(alphas)])
    return HeldOut(_spread(scores, rows, len(Z)), error, partial(_solve_varied, G, b, varied))


def _refit_chunk(
    H: FloatArray,
    C: FloatArray,
    starts: IntArray,
    outside: FloatArray,
    outside_rhs: FloatArray,
    Z: FloatArray,
    item_starts: IntArray,
    alphas: FloatArray,
    out: FloatArray,
    pivot: FloatArray,
) -> None:
    """Refit without each fold of a chunk, without ever subtracting a Gram matrix.

    What remains without fold q is the sum of the folds before it, those behind it and the folds
    outside the chunk.
    """
    n_folds, n, n_outputs, n_alphas = len(starts) - 1, H.shape[1], C.shape[1], len(alphas)
    rows = [slice(a, b) for a, b in pairwise(starts.tolist())]
    G, h = np.empty((n_folds, n, n)), np.empty((n_folds, n, n_outputs))
    for q in range(n_folds):
        _product(H[rows[q]].T, H[rows[q]], G[q])
        _product(H[rows[q]].T, C[rows[q]], h[q])
    rest, rest_rhs = _sums_of_others(G, outside), _sums_of_others(h, outside_rhs)
    V, tau, y = np.empty((n, n)), np.zeros(n), np.empty((n, 1))
    room, pivots = np.empty(max(n, n_alphas)), np.empty((n, n_alphas))
    W = np.empty((n, n_alphas))
    for q, (first, last) in enumerate(pairwise(item_starts.tolist())):
        tridiagonalise(rest[q], V, tau, room)
        scores = np.empty((last - first, n_alphas))
        for k in range(n_outputs):
            y[:, 0] = rest_rhs[q, :, k]
            shifted_solutions(rest[q], V, tau, y, alphas, pivots, room, W, pivot[q])
            _product(Z[first:last], W, scores)
            out[k, :, first:last] = scores.T[: out.shape[1]]


def _product(A: FloatArray, B: FloatArray, out: FloatArray) -> None:
    """Fill ``out`` with A B; A lies row by row or column by column, the others row by row."""
    is_transposed = not A.flags.c_contiguous
    dgemm(
        1.0,
        B.T,
        A if is_transposed else A.T,
        c=out.T,
        trans_b=is_transposed,
        overwrite_c=True,
    )


def _sums_of_others(parts: FloatArray, outside: FloatArray) -> FloatArray:
    """Return for each part the sum of all others; the parts become their running sums."""
    sums = np.empty_like(parts)
    sums[-1] = outside
    for q in range(len(parts) - 2, -1, -1):
        np.add(sums[q + 1], parts[q + 1], out=sums[q])
    for q in range(1, len(parts)):
        np.add(parts[q - 1], parts[q], out=parts[q])
        np.add(parts[q - 1], sums[q], out=sums[q])
    return sums


def _all_zero(problem: _FoldedProblem, folds: Folds, alphas: FloatArray) -> HeldOut:
    """Return the scores where no feature varies inside a query: every model is 0."""
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
    """Return some columns, without a copy where these are all."""
    return rows if chosen.all() else np.ascontiguousarray(rows[:, chosen])


def _rows_of(Z: FloatArray, rows: IntArray, where: slice) -> FloatArray:
    """Return ``Z[rows[where]]``, without a copy where these rows follow each other."""
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
    """Take each fold out of the full solution by an update of its own order.

    docs/theory/holdouts.rst, eq. hold-update.
    """
    C, starts = problem.targets, problem.starts
    grid = _filled_up(alphas)
    n_alphas = len(grid)
    system = Primal.of(problem.graph, problem.Z)
    here = system.matrix()
    varied = problem.varied(np.diagonal(here))
    G, b = here + problem.elsewhere.gram, system.rhs + problem.elsewhere.moment
    if not varied.any():
        return _all_zero(problem, folds, alphas)
    Z = _columns(problem.Z, varied)
    spectrum = Spectrum.of(G if varied.all() else G[np.ix_(varied, varied)])
    turned_rows, turned = _turn(Z, spectrum.vectors, problem)
    n_outputs = C.shape[1]
    inverse = 1.0 / (spectrum.values[:, None] + grid)
    inverse_columns = np.repeat(inverse, n_outputs, axis=1)
    projected = spectrum.vectors.T @ b[varied]
    W = inverse_columns * np.tile(projected, n_alphas)
    rows, item_starts = folds.items
    out = np.empty((len(rows), n_alphas * n_outputs))
    pivots = np.ones((folds.n_folds, n_alphas))

    def update(q: int) -> None:
        Hq = turned[starts[q] : starts[q + 1]]
        where = slice(item_starts[q], item_starts[q + 1])
        N = np.eye(len(Hq)) - _weighted_blocks(Hq, inverse)
        residual = np.tile(C[starts[q] : starts[q + 1]], n_alphas) - Hq @ W
        r, pivot = _solve_blocks(N, _by_alpha(residual, n_alphas))
        held_out = W - inverse_columns * (Hq.T @ _side_by_side(r))
        out[where] = turned_rows[rows[where]] @ held_out
        lost = pivot < SAFE_PIVOT
        if lost.any():
            again, pivot[lost] = _refit(problem, q, grid[lost], varied)
            lost_columns = np.repeat(lost, n_outputs)
            out[where, lost_columns] = Z[rows[where]] @ _side_by_side(again)
        pivots[q] = pivot

    with serial_blas():
        in_threads(update, folds.n_folds)
    error = _error(np.minimum(spectrum.rcond(grid), pivots.min(axis=0, initial=1.0)))

    def solve(alpha: float) -> FloatArray:
        weights = np.zeros_like(b)
        weights[varied] = spectrum.solve(b[varied], alpha)
        return weights

    scores = _by_alpha(out[:, : len(alphas) * n_outputs], len(alphas))
    return HeldOut(_spread(scores, rows, len(Z)), error[: len(alphas)], solve)


def _update_folds_on(
    problem: _FoldedProblem, folds: Folds, alphas: FloatArray, device: Device
) -> HeldOut | None:
    """Do the same on a device; None where a fold must be refitted to keep its digits."""
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
    error = _error(np.minimum(features.rcond(alphas), pivots.min(axis=0, initial=1.0)))
    return HeldOut(scores, error, features.solve)


@final
@dataclass(frozen=True, eq=False)
class _FeaturesThere:
    """Features on a device, turned into the eigenvectors of their normal equations.

    ``T`` are those of the coordinates, ``rows`` those of the items, ``projected`` the turned
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
        """Bring the features to the device and decompose their normal equations."""
        Z = device.array(problem.Z)
        mean = Z.mean(0)
        centred = Z - mean
        H = problem.root.on(device).coordinates(centred)
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
            Of the coordinates.
        alphas : (n_alphas,)
            The grid.

        Returns
        -------
        scores : (n_alphas, n_folds, n_items, n_outputs)
        pivots : (n_folds, n_alphas)
        """
        device = self.device
        T, X = (
            device.take(all_rows, some.ravel()).reshape(*some.shape, len(self.values))
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
                r, pivot = device.solve_blocks(N, there - T @ W)  # eq. hold-update
                pivots[:, a] = device.host(pivot)
                W = W - inverse[:, None] * (across @ r)
            scores[a] = device.host(X @ W)
        return scores, pivots


def _turn(
    Z: FloatArray, vectors: FloatArray, problem: _FoldedProblem
) -> tuple[FloatArray, FloatArray]:
    """Return ``Z @ vectors`` and ``H @ vectors`` for one product of that size.

    The first row of each component is subtracted before, and what becomes of it added after, so
    that an offset costs no digits of H.
    """
    first, of_item = np.unique(problem.graph.laplacian.anchor(), return_inverse=True)
    turned_rows = np.empty((len(Z), vectors.shape[1]))
    blocks = [slice(start, start + TURNED) for start in range(0, len(Z), TURNED)]
    for rows in blocks:
        np.matmul(Z[rows] - Z[first[of_item[rows]]], vectors, out=turned_rows[rows])
    turned, order = problem.root.to_coordinates(turned_rows), problem.order
    if not np.array_equal(order, np.arange(len(turned))):
        turned = turned[order]
    offset = Z[first] @ vectors
    for rows in blocks:
        turned_rows[rows] += offset[of_item[rows]]
    return turned_rows, turned


def _by_alpha(columns: FloatArray, n_alphas: int) -> FloatArray:
    """Return columns of all alphas, each with its outputs, as (n_alphas, n_rows, n_outputs)."""
    shape = len(columns), n_alphas, columns.shape[1] // n_alphas
    return np.ascontiguousarray(columns.reshape(shape).transpose(1, 0, 2))


def _side_by_side(stack: FloatArray) -> FloatArray:
    """Undo `_by_alpha`."""
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
    weights = Tridiagonal.of(G).path(b, alphas)
    return weights, alphas / (largest + alphas)


def _dual(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    of_component: IntArray,
    alphas: FloatArray,
    device: Device | None,
) -> HeldOut:
    """Take each fold out of the dual solution."""
    component = graph.laplacian.component
    alone = _scored_by_kernel(graph, folds)
    if device is None:
        dual: _DualSolution = _HostDualSolution.of(space, graph, alone, alphas)
    elif DECOMPOSED_MATRICES * 8 * graph.n_items**2 <= DECOMPOSED_SHARE * memory_of(device):
        dual = _DeviceDualSolution.of(space, graph, alone, alphas, device)
    else:
        dual = _FactoredDualSolution.of(space, graph, alone, alphas, device)
    order, starts = folds.order(of_component[dual.root.component])
    held_out, of_alone, pivots = dual.leave_out(order, starts, folds.fold[alone])
    out = np.full((len(alphas), graph.n_items, dual.C0.shape[1]), np.nan)
    out[:, alone] = of_alone
    error = _error(np.minimum(dual.rcond(), pivots.min(axis=0, initial=1.0)))
    active = (component >= 0) & (folds.fold >= 0)
    anchors = alone[component[alone] >= 0]
    for a in range(len(alphas)):
        scores = dual.root.to_scores(held_out[a])
        if len(anchors):
            shift = np.zeros((int(component.max()) + 1, scores.shape[1]))
            shift[component[anchors]] = out[a, anchors] - scores[anchors]
            scores += shift[component]
        out[a, active] = scores[active]
    return HeldOut(out, error, dual.solve)


def _scored_by_kernel(graph: PreferenceGraph, folds: Folds) -> IntArray:
    """Return the held-out items whose scores the coordinates do not tell: those in no pair.

    Coordinates know scores up to a constant for each component. Where comparisons leave a query in
    several components, one item of each is scored too, so that the scores of a query compare.
    """
    component, held_out = graph.laplacian.component, folds.fold >= 0
    alone = np.flatnonzero((component < 0) & held_out)
    active = np.flatnonzero((component >= 0) & held_out)
    anchors = active[np.unique(component[active], return_index=True)[1]]
    parts = np.bincount(graph.queries.index[anchors], minlength=graph.queries.n_queries)
    parts += np.bincount(graph.queries.index[alone], minlength=graph.queries.n_queries)
    torn = parts[graph.queries.index[anchors]] > 1
    return np.concatenate([alone, anchors[torn]])


class _DualSolution(ABC):
    """One decomposition of the reduced kernel S, from which every fold is left out.

    With B = (S + alpha)^-1 and c = B c0, the prediction p for the coordinates U of a fold solves
    ``B_UU (c0_U - p) = c_U``. For alpha above the largest eigenvalue the difference would cancel,
    and the same equation is solved as ``(I - H_UU) p = (H c0)_U - H_UU c0_U`` with H = S B.
    """

    root: Root
    C0: FloatArray
    alphas: FloatArray

    @abstractmethod
    def rcond(self) -> FloatArray:
        """Return the reciprocal condition number for every alpha."""

    @abstractmethod
    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the items for an alpha."""

    @abstractmethod
    def leave_out(
        self, order: IntArray, starts: IntArray, fold_of_alone: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return p of all coordinates, the scores by kernel, and the smallest pivots.

        Parameters
        ----------
        order, starts
            The coordinates fold by fold, and where each fold begins.
        fold_of_alone : (n_alone,)
            The fold of each item that is scored by its kernel.

        Returns
        -------
        held_out : (n_alphas, rank, n_outputs)
        of_alone : (n_alphas, n_alone, n_outputs)
        pivots : (n_folds, n_alphas)
        """


def _grid_weights(values: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return the eigenvalues of B, or of H where alpha is large, (order, n_alphas)."""
    inverse = 1.0 / (values[:, None] + alphas)
    return np.where(alphas > values[-1], values[:, None] * inverse, inverse)


@final
@dataclass(frozen=True, eq=False)
class _HostDualSolution(_DualSolution):
    """The decomposition is here, and threads share the folds."""

    spectrum: Spectrum
    root: Root
    C0: FloatArray
    alphas: FloatArray
    alone: FloatArray
    """Kernel of the items that are scored by it, turned into the eigenbasis."""

    @classmethod
    def of(
        cls, space: FunctionSpace, graph: PreferenceGraph, alone: IntArray, alphas: FloatArray
    ) -> Self:
        """Decompose; ``alone`` names items that are to be scored by their kernel."""
        K = space.kernel_matrix()
        of_alone = np.ascontiguousarray(K[:, alone])
        system = Dual.of(graph, K, trusted=space.kernel_is_trusted)
        spectrum, root = system.spectrum(), graph.laplacian.root()
        turned = spectrum.vectors.T @ root.to_coordinates(of_alone)
        return cls(spectrum, root, system.rhs, alphas, turned)

    def rcond(self) -> FloatArray:
        """Return the reciprocal condition number for every alpha."""
        return self.spectrum.rcond(self.alphas)

    @property
    def _is_large(self) -> BoolArray:
        """The alphas for which the hat matrix H is used in place of B."""
        return self.alphas > self.spectrum.values[-1]

    @cached_property
    def _projected(self) -> FloatArray:
        return self.spectrum.vectors.T @ self.C0

    @cached_property
    def _weights(self) -> FloatArray:
        return _grid_weights(self.spectrum.values, self.alphas)

    @cached_property
    def _weighted_targets(self) -> FloatArray:
        """The projected targets times the weights of each alpha, outputs side by side."""
        columns = np.repeat(self._weights, self.C0.shape[1], axis=1)
        return columns * np.tile(self._projected, len(self.alphas))

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the items for an alpha."""
        return self.root.to_items(self.spectrum.solve(self.C0, alpha))

    def leave_out(
        self, order: IntArray, starts: IntArray, fold_of_alone: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Leave out fold by fold."""
        n_folds, n_alphas = len(starts) - 1, len(self.alphas)
        held_out = np.zeros((n_alphas, *self.C0.shape))
        of_alone = np.zeros((n_alphas, len(fold_of_alone), self.C0.shape[1]))
        pivots = np.ones((n_folds, n_alphas))

        def leave_out(q: int) -> None:
            U = order[starts[q] : starts[q + 1]]
            held_out[:, U], pivots[q] = self._predict(U)
            members = np.flatnonzero(fold_of_alone == q)
            if len(members):
                of_alone[:, members] = self._predict_alone(U, held_out[:, U], members)

        with serial_blas():
            in_threads(leave_out, n_folds)
        return held_out, of_alone, pivots

    def _predict(self, U: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return p for every alpha, (n_alphas, len(U), n_outputs), and the smallest pivots."""
        V, large = self.spectrum.vectors[U], self._is_large
        blocks = _weighted_blocks(V, self._weights)
        rhs = _by_alpha(V @ self._weighted_targets, len(self.alphas))
        rhs[large] -= blocks[large] @ self.C0[U]
        blocks[large] = np.eye(len(U)) - blocks[large]
        solution, pivot = _solve_blocks(blocks, rhs)  # [PTA09] (32), (33), in coordinates
        return np.where(large[:, None, None], solution, self.C0[U] - solution), pivot

    def _predict_alone(self, U: IntArray, held_out: FloatArray, members: IntArray) -> FloatArray:
        """Return the scores of items by their kernel, in the model without the coordinates U."""
        gone = self.spectrum.vectors[U].T @ (self.C0[U] - held_out)
        kept = self._projected - gone
        inverse = 1.0 / (self.spectrum.values[:, None] + self.alphas)
        return self.alone[:, members].T @ (inverse.T[:, :, None] * kept)


@final
@dataclass(frozen=True, eq=False)
class _DeviceDualSolution(_DualSolution):
    """The eigenvectors stay on a device, where all folds of a size are left out together."""

    device: Device
    values: FloatArray
    vectors: DeviceArray
    size: float
    root: Root
    C0: FloatArray
    alphas: FloatArray
    alone: DeviceArray
    """Kernel of the items that are scored by it, turned into the eigenbasis."""

    @classmethod
    def of(
        cls,
        space: FunctionSpace,
        graph: PreferenceGraph,
        alone: IntArray,
        alphas: FloatArray,
        device: Device,
    ) -> Self:
        """Decompose; ``alone`` names items that are to be scored by their kernel."""
        K = space.kernel_matrix_on(device)
        of_alone = device.take(K, alone).T
        system = DeviceSystem.dual(graph, K, device, trusted=space.kernel_is_trusted)
        del K
        of_alone = system.root_on(of_alone)
        values, vectors = system.eigenpairs()
        fields = (system.size, graph.laplacian.root(), system.rhs, alphas, vectors.T @ of_alone)
        return cls(device, values, vectors, *fields)

    def rcond(self) -> FloatArray:
        """Return the reciprocal condition number for every alpha."""
        largest = max(self.values[-1], self.size)
        return (self.values[0] + self.alphas) / (largest + self.alphas)

    @cached_property
    def _projected(self) -> DeviceArray:
        return self.vectors.T @ self.device.array(self.C0)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the items for an alpha."""
        scaled = self._projected / self.device.array(self.values + alpha)[:, None]
        return self.root.to_items(self.device.host(self.vectors @ scaled))

    def leave_out(
        self, order: IntArray, starts: IntArray, fold_of_alone: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Leave out folds of one size together."""
        n_folds, n_alphas = len(starts) - 1, len(self.alphas)
        held_out = np.zeros((n_alphas, *self.C0.shape))
        pivots = np.ones((n_folds, n_alphas))
        weights = self.device.array(_grid_weights(self.values, self.alphas))
        for some, U in _batches(order, starts):
            held_out[:, U], pivots[some] = self._predict(U, weights)
        of_alone = np.zeros((n_alphas, len(fold_of_alone), self.C0.shape[1]))
        for q in np.unique(fold_of_alone).tolist():
            U, members = order[starts[q] : starts[q + 1]], np.flatnonzero(fold_of_alone == q)
            of_alone[:, members] = self._predict_alone(U, held_out[:, U], members)
        return held_out, of_alone, pivots

    def _predict(self, U: IntArray, weights: DeviceArray) -> tuple[FloatArray, FloatArray]:
        """Return p, (n_alphas, n_folds, size, n_outputs), and pivots, (n_folds, n_alphas)."""
        device, n_outputs = self.device, self.C0.shape[1]
        V = device.take(self.vectors, U.ravel()).reshape(*U.shape, -1)
        across, identity = V.swapaxes(1, 2), device.array(np.eye(U.shape[1]))
        targets = device.array(self.C0[U])
        found = np.empty((len(self.alphas), *U.shape, n_outputs))
        pivots = np.empty((len(U), len(self.alphas)))
        for a, is_large in enumerate(self.alphas > self.values[-1]):
            blocks = (V * weights[:, a]) @ across
            rhs = V @ (weights[:, a, None] * self._projected)
            if is_large:
                rhs, blocks = rhs - blocks @ targets, identity - blocks
            solved, pivot = device.solve_blocks(blocks, rhs)  # [PTA09] (33), in coordinates
            found[a] = device.host(solved if is_large else targets - solved)
            pivots[:, a] = device.host(pivot)
        return found, pivots

    def _predict_alone(self, U: IntArray, held_out: FloatArray, members: IntArray) -> FloatArray:
        """Return the scores of items by their kernel, in the model without the coordinates U."""
        device = self.device
        gone = device.take(self.vectors, U).T @ device.array(self.C0[U] - held_out)
        inverse = device.array(1.0 / (self.values + self.alphas[:, None]))[:, :, None]
        kept = inverse * (self._projected - gone)
        return device.host(device.take(self.alone.T, members) @ kept)


def _batches(order: IntArray, starts: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield folds of equal size and their coordinates, as many as may be looked at together.

    Folds without a coordinate are left out.
    """
    sizes = np.diff(starts)
    for size in np.unique(sizes[sizes > 0]).tolist():
        folds = np.flatnonzero(sizes == size)
        step = max(1, DEVICE_ENTRIES // (size * max(1, len(order))))
        for first in range(0, len(folds), step):
            some = folds[first : first + step]
            yield some, order[starts[some][:, None] + np.arange(size)]


@final
@dataclass(frozen=True, eq=False)
class _FactoredDualSolution(_DualSolution):
    r"""A Cholesky factor for each alpha in place of a decomposition: two and a quarter matrices.

    With ``S + alpha = L L'`` the blocks of B are ``(L^-1)_U' (L^-1)_U``, columns U of the inverse
    of the factor, which takes the factor's place. Alphas that no factor serves go to the
    decomposition.
    """

    device: Device
    S: DeviceArray
    largest: float
    """About the largest eigenvalue of S."""
    root: Root
    C0: FloatArray
    alphas: FloatArray
    alone: DeviceArray
    """Kernel of the items that are scored by it, in coordinates."""
    decompose: Callable[[FloatArray], _DualSolution]

    @classmethod
    def of(
        cls,
        space: FunctionSpace,
        graph: PreferenceGraph,
        alone: IntArray,
        alphas: FloatArray,
        device: Device,
    ) -> Self:
        """Reduce the kernel; ``alone`` names items that are to be scored by their kernel."""

        def decompose(some: FloatArray) -> _DualSolution:
            return _DeviceDualSolution.of(space, graph, alone, some, device)

        K = space.kernel_matrix_on(device)
        of_alone = device.take(K, alone).T
        system = DeviceSystem.dual(graph, K, device, trusted=space.kernel_is_trusted)
        of_alone, S = system.root_on(of_alone), system.matrix
        largest = _largest_eigenvalue(S, device)
        root = graph.laplacian.root()
        return cls(device, S, largest, root, system.rhs, alphas, of_alone, decompose)

    def rcond(self) -> FloatArray:
        """Return a bound on the reciprocal condition number for every alpha."""
        return self.alphas / (self.largest + self.alphas)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the items for an alpha."""
        factor = self._factor(alpha)
        if factor is None:
            return self.decompose(np.array([alpha])).solve(alpha)
        solved = self.device.solve_factored(factor, self.device.array(self.C0))
        return self.root.to_items(self.device.host(solved))

    def _factor(self, alpha: float) -> DeviceArray | None:
        if alpha > LARGE_ALPHA * self.largest:
            return None
        A = self.S.clone()
        A.diagonal().add_(alpha)
        return self.device.factor_in_place(A)

    def leave_out(
        self, order: IntArray, starts: IntArray, fold_of_alone: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Leave out all folds for one alpha after the other."""
        n_folds, n_alphas = len(starts) - 1, len(self.alphas)
        held_out = np.zeros((n_alphas, *self.C0.shape))
        of_alone = np.zeros((n_alphas, len(fold_of_alone), self.C0.shape[1]))
        pivots, lost = np.ones((n_folds, n_alphas)), np.zeros(n_alphas, dtype=bool)
        for a, alpha in enumerate(self.alphas.tolist()):
            factor = self._factor(alpha)
            if factor is None:
                lost[a] = True
                continue
            inverse = self.device.invert_triangle(factor)
            held_out[a], pivots[:, a] = self._predict(inverse, order, starts)
            of_alone[a] = self._predict_alone(inverse, held_out[a], order, starts, fold_of_alone)
            del factor, inverse
        if lost.any():
            others = self.decompose(self.alphas[lost])
            found = others.leave_out(order, starts, fold_of_alone)
            held_out[lost], of_alone[lost], pivots[:, lost] = found
        return held_out, of_alone, pivots

    def _predict(
        self, inverse: DeviceArray, order: IntArray, starts: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return p of all coordinates, and the smallest pivot of each fold."""
        device = self.device
        there = device.array(self.C0)
        solution = inverse.T @ (inverse @ there)
        found, pivots = there.clone(), np.ones(len(starts) - 1)
        columns = inverse.T
        for some, U in _batches(order, starts):
            chosen = device.array(U)
            V = device.take(columns, U.ravel()).reshape(*U.shape, -1)
            blocks = V @ V.swapaxes(1, 2)
            solved, pivot = device.solve_blocks(blocks, solution[chosen])  # [PTA09] (33)
            found[chosen] -= solved
            pivots[some] = device.host(pivot)
        return device.host(found), pivots

    def _predict_alone(
        self,
        inverse: DeviceArray,
        held_out: FloatArray,
        order: IntArray,
        starts: IntArray,
        fold_of_alone: IntArray,
    ) -> FloatArray:
        """Return the scores of items by their kernel, each in the model without its own fold."""
        device, out = self.device, np.zeros((len(fold_of_alone), self.C0.shape[1]))
        if not len(out):
            return out
        turned = (inverse @ self.alone).T @ inverse
        out += device.host(turned @ device.array(self.C0))
        gone = device.array(self.C0 - held_out)
        for q in np.unique(fold_of_alone).tolist():
            U, members = order[starts[q] : starts[q + 1]], np.flatnonzero(fold_of_alone == q)
            own = device.take(device.take(turned, members).T, U).T
            out[members] -= device.host(own @ device.take(gone, U))
        return out


def _largest_eigenvalue(S: DeviceArray, device: Device) -> float:
    """Estimate the largest eigenvalue of a matrix from below, by the power method."""
    v = device.array(np.random.default_rng(0).normal(size=(len(S), 1)))
    size = 0.0
    for _ in range(POWER_STEPS):
        v = S @ v
        size = float((v * v).sum()) ** 0.5
        if size == 0.0:
            return 0.0
        v = v / size
    return size


def _weighted_blocks(V: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``V diag(w) V'`` for every column w of ``weights``, shape (n_weights, n, n)."""
    n_rows = max(1, PRODUCT_BYTES // (8 * max(1, V.shape[1])))
    return weighted_blocks(np.ascontiguousarray(V), weights, n_rows)


def _solve_blocks(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve a stack of symmetric definite systems; A and B are overwritten.

    Returns
    -------
    X : (n_matrices, n, k)
    pivot : (n_matrices,)
        Smallest pivot as a share of the largest diagonal entry, 0 where a matrix is not definite.
    """
    pivot = np.ones(len(A))
    if A.shape[1] <= SMALL_BLOCK:
        if A.shape[1]:
            solve_each(A, B, pivot)
        return B, pivot
    for a in range(len(A)):
        largest = np.diagonal(A[a]).max()
        factor, info = dpotrf(A[a].T, lower=True, clean=False, overwrite_a=True)
        if info != 0:
            pivot[a] = 0.0
            continue
        pivot[a] = np.diagonal(factor).min() ** 2 / largest
        B[a] = dpotrs(factor, B[a], lower=True)[0]
    return B, pivot


def _error(pivot: FloatArray) -> FloatArray:
    """Estimate the relative rounding error of a solve from its smallest pivot."""
    lost = ~(pivot > 0)
    return np.where(lost, np.inf, np.finfo(float).eps / np.where(lost, 1.0, pivot))


def _spread(values: FloatArray, rows: IntArray, n_items: int) -> FloatArray:
    """Put values of some rows (second axis) among all items; the others become NaN."""
    if np.array_equal(rows, np.arange(n_items)):
        return values
    out = np.full((values.shape[0], n_items, values.shape[2]), np.nan)
    out[:, rows] = values
    return out
