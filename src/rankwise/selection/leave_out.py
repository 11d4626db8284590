"""Scores of held-out queries for every alpha, without refitting."""

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.graph import PreferenceGraph
from rankwise.core.threads import in_threads, n_threads, serial_blas
from rankwise.inference.rls import as_columns
from rankwise.inference.systems import Spectrum, Tridiagonal
from rankwise.selection._kernels import direct_chunk
from rankwise.selection.blocks import solve_blocks, weighted_blocks
from rankwise.selection.dual_folds import DualFolds
from rankwise.selection.folds import Folds, HeldOut
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space, dense_rows

VECTOR = 8
"""Grids are filled up to a multiple of this, the doubles of a vector register."""

CHUNK_BYTES = 1 << 26
"""Memory for the Gram matrices of one chunk of folds."""

DIRECT_SPEED = 8.0
"""What an operation of the compiled direct form is taken to cost, in operations of BLAS."""

SURELY_VARIED = 1e-6
"""A feature that varies by more than this share of the most varied one is not looked at twice."""

CONSTANT = 1e-12
"""A feature that varies inside queries by less than this share of its size is constant there."""

SAFE_PIVOT = 1e-6
"""Below this pivot the update formula has lost digits and the fold is refitted."""


def leave_out(space: Space, graph: PreferenceGraph, folds: Folds, alphas: FloatArray) -> HeldOut:
    """Return the scores that models without each fold give to the items of that fold.

    Exact, for every alpha, at the price of one decomposition or of small solves per fold; the form
    is chosen by cost. A fold must be a union of whole components of the graph.

    Parameters
    ----------
    space : Space
        Where the problem is solved.
    graph : PreferenceGraph
        The preferences.
    folds : Folds
        What is held out together.
    alphas : (n_alphas,)
        The values of alpha.

    Notes
    -----
    [PTA09] Sect. 3.3, (33), in the symmetric form of the reduced problem.
    """
    of_component = folds.of_components(graph.laplacian.component)
    if len(np.unique(of_component[of_component >= 0])) < 2:
        raise InvalidInputError(
            "Leaving out queries needs preferences in at least two folds, so that something is "
            "left to learn from. Give more queries; one global ranking needs cv='leave_pair_out'."
        )
    if isinstance(space, KernelSpace):
        return _kernel_leave_out(space, graph, folds, of_component, alphas)
    assert isinstance(space, FeatureSpace)
    Z = dense_rows(space.Z)
    root = graph.laplacian.root()
    order, starts = folds.order(of_component[root.component])
    H = root.to_coordinates(Z)[order]
    C = root.solve(as_columns(graph.rhs))[order]
    varied = _varied(H, Z)
    if not varied.all():
        H, Z = np.ascontiguousarray(H[:, varied]), np.ascontiguousarray(Z[:, varied])
    if _direct_is_cheaper(H.shape[1], np.diff(starts), len(alphas)):
        return _direct(H, C, starts, Z, folds, alphas)
    return _woodbury(H, C, starts, Z, folds, alphas)


def _varied(H: FloatArray, Z: FloatArray) -> BoolArray:
    """Return which features vary inside queries; the others are zero up to rounding in H."""
    squares = np.einsum("ij,ij->j", H, H)
    varied = squares > SURELY_VARIED**2 * squares.max(initial=0.0)
    doubtful = np.flatnonzero(~varied)
    size = np.abs(Z[:, doubtful]).max(axis=0, initial=0.0)
    varied[doubtful] = np.sqrt(squares[doubtful]) > CONSTANT * size
    return varied


def _direct_is_cheaper(n_features: int, sizes: IntArray, n_alphas: int) -> bool:
    """Compare the operations of a refit per fold with those of the update formula."""
    refit = DIRECT_SPEED * len(sizes) * (2.0 * n_features**3 + 8.0 * n_alphas * n_features**2)
    update = n_alphas * float(np.sum(sizes**2.0 * n_features + DIRECT_SPEED * sizes**3.0 / 3))
    return refit < update + 1e5 * len(sizes)


def _direct(
    H: FloatArray, C: FloatArray, starts: IntArray, Z: FloatArray, folds: Folds, alphas: FloatArray
) -> HeldOut:
    """Refit without each fold: prefix and suffix sums, tridiagonal reduction.

    docs/theory/holdouts.rst, eqs. hold-prefix and hold-tridiagonal.
    """
    n, n_outputs = H.shape[1], C.shape[1]
    rows, item_starts = folds.items
    sorted_rows = Z if np.array_equal(rows, np.arange(len(Z))) else Z[rows]
    grid = np.pad(alphas, (0, -len(alphas) % VECTOR), mode="edge")
    out = np.empty((len(rows), len(grid), n_outputs))
    pivot = np.ones((folds.n_folds, len(grid)))
    size = max(1, min(CHUNK_BYTES // (16 * n * n), -(-folds.n_folds // (4 * n_threads()))))
    chunks = [slice(a, min(a + size, folds.n_folds)) for a in range(0, folds.n_folds, size)]
    bounds = [slice(starts[c.start], starts[c.stop]) for c in chunks]
    bounds.append(slice(starts[-1], None))  # what no fold holds out
    parts, rhs = np.empty((len(bounds), n, n)), np.empty((len(bounds), n, n_outputs))

    def total(number: int) -> None:
        b = bounds[number]
        parts[number], rhs[number] = H[b].T @ H[b], H[b].T @ C[b]

    def refit(number: int) -> None:
        c = chunks[number]
        first, last = starts[c.start], starts[c.stop]
        direct_chunk(
            H[first:last],
            C[first:last],
            starts[c.start : c.stop + 1] - first,
            _sum_of_others(parts, number),
            _sum_of_others(rhs, number),
            sorted_rows[item_starts[c.start] : item_starts[c.stop]],
            item_starts[c.start : c.stop + 1] - item_starts[c.start],
            grid,
            out[item_starts[c.start] : item_starts[c.stop]],
            pivot[c],
        )

    with serial_blas():
        in_threads(total, len(bounds))
        in_threads(refit, len(chunks))
    scores = out[:, : len(alphas)].transpose(1, 0, 2)
    error = _error(pivot.min(axis=0)[: len(alphas)])
    return HeldOut(_spread(scores, rows, len(Z)), error)


def _sum_of_others(parts: FloatArray, number: int) -> FloatArray:
    """Add up all parts but one; nothing is subtracted, so nothing cancels."""
    return parts[:number].sum(axis=0) + parts[number + 1 :].sum(axis=0)


def _woodbury(
    H: FloatArray, C: FloatArray, starts: IntArray, Z: FloatArray, folds: Folds, alphas: FloatArray
) -> HeldOut:
    """Take each fold out of the full solution by an update of its own order.

    docs/theory/holdouts.rst, eq. hold-update.
    """
    spectrum = Spectrum.of(H.T @ H)
    turned, turned_rows = H @ spectrum.vectors, Z @ spectrum.vectors
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    W = inverse.T[:, :, None] * (turned.T @ C)
    rows, item_starts = folds.items
    out = np.empty((len(alphas), len(rows), C.shape[1]))
    error = _error((spectrum.values[0] + alphas) / (spectrum.values[-1] + alphas))
    for q in range(folds.n_folds):
        Hq = turned[starts[q] : starts[q + 1]]
        where = slice(item_starts[q], item_starts[q + 1])
        N = np.eye(len(Hq)) - weighted_blocks(Hq, inverse)
        residual = C[starts[q] : starts[q + 1]] - Hq @ W
        r, pivot = solve_blocks(N, residual)
        held_out = W - inverse.T[:, :, None] * (Hq.T @ r)
        out[:, where] = turned_rows[rows[where]] @ held_out
        lost = pivot < SAFE_PIVOT
        if lost.any():
            again, pivot[lost] = _refit(H, C, starts, q, alphas[lost])
            out[lost, where] = Z[rows[where]] @ again
        error = np.maximum(error, _error(pivot))
    return HeldOut(_spread(out, rows, len(Z)), error)


def _refit(
    H: FloatArray, C: FloatArray, starts: IntArray, q: int, alphas: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of models fitted without fold q, and how well posed they were."""
    kept = np.r_[0 : starts[q], starts[q + 1] : len(H)]
    rest = H[kept]
    G = rest.T @ rest
    largest = np.diagonal(G).max(initial=0.0)
    return Tridiagonal.of(G).path(rest.T @ C[kept], alphas), alphas / (largest + alphas)


def _kernel_leave_out(
    space: KernelSpace,
    graph: PreferenceGraph,
    folds: Folds,
    of_component: IntArray,
    alphas: FloatArray,
) -> HeldOut:
    """Take each fold out of the dual solution."""
    idle = np.flatnonzero((graph.laplacian.component < 0) & (folds.fold >= 0))
    dual = DualFolds.of(space, graph, idle, alphas)
    order, starts = folds.order(of_component[dual.root.component])
    held_out = np.zeros((len(alphas), *dual.C0.shape))
    out = np.full((len(alphas), graph.n_items, dual.C0.shape[1]), np.nan)
    values = dual.spectrum.values
    error = _error((values[0] + alphas) / (values[-1] + alphas))
    for q in range(folds.n_folds):
        U = order[starts[q] : starts[q + 1]]
        held_out[:, U], pivot = dual.predict(U)
        error = np.maximum(error, _error(pivot))
        members = np.flatnonzero(folds.fold[idle] == q)
        if len(members):
            out[:, idle[members]] = dual.predict_idle(U, held_out[:, U], members)
    active = (graph.laplacian.component >= 0) & (folds.fold >= 0)
    for a in range(len(alphas)):
        out[a, active] = dual.root.to_scores(held_out[a])[active]
    return HeldOut(out, error)


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
