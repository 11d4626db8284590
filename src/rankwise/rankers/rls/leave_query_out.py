"""Scores of held-out queries for every alpha, without refitting."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.blas import dsyrk

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, as_columns, dense_rows
from rankwise.core.errors import InvalidInputError
from rankwise.core.threads import in_threads, n_threads, serial_blas
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.rankers.rls._kernels import refit_chunk, row_products, solve_each, unpack
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.solve.normal_equations import Dual
from rankwise.solve.spectra import Spectrum, Tridiagonal

Form: TypeAlias = Literal["auto", "refit", "update"]

SMALL_BLOCK = 32
"""Up to this order the products of all rows are formed once for the whole grid."""


VECTOR = 8
"""Grids are filled up to a multiple of this, the doubles of a vector register."""

CHUNK_BYTES = 1 << 26
"""Memory for the Gram matrices of one chunk of folds."""

COMPILED_COST = 8.0
"""What an operation of the compiled refits is taken to cost, in operations of BLAS."""

SURELY_VARIED = 1e-6
"""A feature that varies by more than this share of the most varied one is not looked at twice."""

CONSTANT = 1e-12
"""A feature that varies inside queries by less than this share of its size is constant there."""

SAFE_PIVOT = 1e-6
"""Below this pivot the update formula has lost digits and the fold is refitted."""


def leave_query_out(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    alphas: FloatArray,
    *,
    form: Form = "auto",
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

    Notes
    -----
    [PTA09] Sect. 3.3: the scores (32) by (33), in the symmetric form of the reduced problem.
    """
    of_component = folds.of_components(graph.laplacian.component)
    if len(np.unique(of_component[of_component >= 0])) < 2:
        raise InvalidInputError(
            "Leaving out queries needs preferences in at least two folds, so that something is "
            "left to learn from. Give more queries; one global ranking needs cv='leave_pair_out'."
        )
    if not space.is_explicit:
        return _dual(space, graph, folds, of_component, alphas)
    Z = dense_rows(space.features())
    root = graph.laplacian.root()
    order, starts = folds.order(of_component[root.component])
    H = root.to_coordinates(Z)[order]
    C = root.solve(as_columns(graph.rhs))[order]
    varied = _varied(H, Z)
    if not varied.all():
        H, Z = np.ascontiguousarray(H[:, varied]), np.ascontiguousarray(Z[:, varied])
    if H.shape[1] == 0:  # nothing varies inside queries: every model is 0
        held_out = folds.fold[None, :, None] >= 0
        zeros = np.zeros((len(alphas), len(Z), C.shape[1]))
        return HeldOut(np.where(held_out, zeros, np.nan), np.zeros(len(alphas)))
    if form == "auto":
        form = _cheaper_form(H.shape[1], np.diff(starts), len(alphas))
    leave_out = _refit_folds if form == "refit" else _update_folds
    return leave_out(H, C, starts, Z, folds, alphas)


def _varied(H: FloatArray, Z: FloatArray) -> BoolArray:
    """Return which features vary inside queries; the others are zero up to rounding in H."""
    squares = np.einsum("ij,ij->j", H, H)
    varied = squares > SURELY_VARIED**2 * squares.max(initial=0.0)
    doubtful = np.flatnonzero(~varied)
    size = np.abs(Z[:, doubtful]).max(axis=0, initial=0.0)
    varied[doubtful] = np.sqrt(squares[doubtful]) > CONSTANT * size
    return varied


def _cheaper_form(n_features: int, sizes: IntArray, n_alphas: int) -> Form:
    """Compare the operations of a refit per fold with those of the update formula."""
    refit = COMPILED_COST * len(sizes) * (2.0 * n_features**3 + 8.0 * n_alphas * n_features**2)
    update = n_alphas * float(np.sum(sizes**2.0 * n_features + COMPILED_COST * sizes**3.0 / 3))
    return "refit" if refit < update + 1e5 * len(sizes) else "update"


def _refit_folds(
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
        refit_chunk(
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


def _update_folds(
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
    error = _error(spectrum.rcond(alphas))
    for q in range(folds.n_folds):
        Hq = turned[starts[q] : starts[q + 1]]
        where = slice(item_starts[q], item_starts[q + 1])
        N = np.eye(len(Hq)) - _weighted_blocks(Hq, inverse)
        residual = C[starts[q] : starts[q + 1]] - Hq @ W
        r, pivot = _solve_blocks(N, residual)
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


def _dual(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    of_component: IntArray,
    alphas: FloatArray,
) -> HeldOut:
    """Take each fold out of the dual solution."""
    unpaired = np.flatnonzero((graph.laplacian.component < 0) & (folds.fold >= 0))
    dual = _DualSolution.of(space, graph, unpaired, alphas)
    order, starts = folds.order(of_component[dual.root.component])
    held_out = np.zeros((len(alphas), *dual.C0.shape))
    out = np.full((len(alphas), graph.n_items, dual.C0.shape[1]), np.nan)
    error = _error(dual.spectrum.rcond(alphas))
    for q in range(folds.n_folds):
        U = order[starts[q] : starts[q + 1]]
        held_out[:, U], pivot = dual.predict(U)
        error = np.maximum(error, _error(pivot))
        members = np.flatnonzero(folds.fold[unpaired] == q)
        if len(members):
            out[:, unpaired[members]] = dual.predict_unpaired(U, held_out[:, U], members)
    active = (graph.laplacian.component >= 0) & (folds.fold >= 0)
    for a in range(len(alphas)):
        out[a, active] = dual.root.to_scores(held_out[a])[active]
    return HeldOut(out, error)


@final
@dataclass(frozen=True, eq=False)
class _DualSolution:
    """One decomposition of the reduced kernel S, from which every fold is left out.

    With B = (S + alpha)^-1 and c = B c0, the prediction p for the coordinates U of a fold solves
    ``B_UU (c0_U - p) = c_U``. For alpha above the largest eigenvalue the difference would cancel,
    and the same equation is solved as ``(I - H_UU) p = (H c0)_U - H_UU c0_U`` with H = S B.
    """

    spectrum: Spectrum
    root: Root
    C0: FloatArray
    alphas: FloatArray
    unpaired: FloatArray
    """Kernel of the items without preferences, turned into the eigenbasis."""

    @classmethod
    def of(
        cls, space: FunctionSpace, graph: PreferenceGraph, unpaired: IntArray, alphas: FloatArray
    ) -> Self:
        """Decompose; ``unpaired`` names items without preferences that are to be scored too."""
        K = space.kernel_matrix()
        of_unpaired = np.ascontiguousarray(K[:, unpaired])
        system = Dual.of(graph, K, trusted=space.kernel_is_trusted)
        spectrum = system.spectrum()
        turned = spectrum.vectors.T @ system.root.to_coordinates(of_unpaired)
        return cls(spectrum, system.root, system.rhs, alphas, turned)

    @property
    def _is_large(self) -> BoolArray:
        """The alphas for which the hat matrix H is used in place of B."""
        return self.alphas > self.spectrum.values[-1]

    @cached_property
    def _projected(self) -> FloatArray:
        return self.spectrum.vectors.T @ self.C0

    @cached_property
    def _weights(self) -> FloatArray:
        inverse = 1.0 / (self.spectrum.values[:, None] + self.alphas)
        return np.where(self._is_large, self.spectrum.values[:, None] * inverse, inverse)

    def predict(self, U: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return p for every alpha, (n_alphas, len(U), n_outputs), and the smallest pivots."""
        V, large = self.spectrum.vectors[U], self._is_large
        blocks = _weighted_blocks(V, self._weights)
        rhs = V @ (self._weights.T[:, :, None] * self._projected)
        rhs[large] -= blocks[large] @ self.C0[U]
        blocks[large] = np.eye(len(U)) - blocks[large]
        solution, pivot = _solve_blocks(blocks, rhs)  # [PTA09] (33), in coordinates
        return np.where(large[:, None, None], solution, self.C0[U] - solution), pivot

    def predict_unpaired(self, U: IntArray, held_out: FloatArray, members: IntArray) -> FloatArray:
        """Return the scores of unpaired items by the model without the coordinates U."""
        gone = self.spectrum.vectors[U].T @ (self.C0[U] - held_out)
        kept = self._projected - gone
        inverse = 1.0 / (self.spectrum.values[:, None] + self.alphas)
        return self.unpaired[:, members].T @ (inverse.T[:, :, None] * kept)


def _weighted_blocks(V: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``V diag(w) V'`` for every column w of ``weights``, shape (n_weights, n, n).

    Small blocks multiply the elementwise products of their rows by all weights in one product;
    larger ones run a product per weight. Weights must not be negative.
    """
    n = len(V)
    if n <= SMALL_BLOCK:
        return unpack(row_products(V) @ weights, n)
    return np.stack([_symmetric(V * np.sqrt(w)) for w in weights.T])


def _symmetric(V: FloatArray) -> FloatArray:
    """Return ``V V'`` at half the price of a general product."""
    upper = dsyrk(1.0, V.T, trans=True)
    return upper + np.triu(upper, 1).T


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
        try:
            factor = cholesky(A[a], lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            pivot[a] = 0.0
            continue
        pivot[a] = np.diagonal(factor).min() ** 2 / largest
        B[a] = cho_solve((factor, True), B[a], overwrite_b=True, check_finite=False)
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
