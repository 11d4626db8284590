"""Scores of held-out queries from the dual solution: kernels, on the CPU and on devices."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.devices import Device, DeviceArray, memory_of
from rankwise.core.namespaces import (
    Array,
    copy_of,
    is_on_host,
    like,
    namespace_of,
    solve_definite,
    take_rows,
    to_host,
)
from rankwise.core.threads import in_threads, serial_blas
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.native.holdouts import solve_each
from rankwise.selection.holdouts import Folds, HeldOut, error_of_pivots
from rankwise.solve.normal_equations import Spectrum, System

SMALL_BLOCK = 32
"""Up to this order systems are solved by a compiled loop over the grid."""

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


def leave_folds_out_of_dual(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    of_component: IntArray,
    alphas: FloatArray,
    device: Device | None,
) -> HeldOut:
    """Take each fold out of the dual solution: the scores (32) of [PTA09], by (33).

    Parameters
    ----------
    space, graph, folds, alphas, device
        As in `leave_query_out`.
    of_component : (n_components,)
        The fold of each component of the graph.
    """
    component = graph.laplacian.component
    alone = _scored_by_kernel(graph, folds)
    dual = _DualSolution.of(space, graph, alone, alphas, device)
    order, starts = folds.order(of_component[dual.root.component])
    held_out, of_alone, pivots = dual.leave_out(order, starts, folds.fold[alone])
    out = np.full((len(alphas), graph.n_items, dual.C0.shape[1]), np.nan)
    out[:, alone] = of_alone
    error = error_of_pivots(np.minimum(dual.rcond, pivots.min(axis=0, initial=1.0)))
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
    """Return the held-out items whose scores the coordinates do not determine: those in no pair.

    Coordinates determine scores up to a constant for each component. If comparisons leave a query
    in several components, one item of each is scored too, so that the scores of a query are
    comparable.
    """
    component, held_out = graph.laplacian.component, folds.fold >= 0
    alone = np.flatnonzero((component < 0) & held_out)
    active = np.flatnonzero((component >= 0) & held_out)
    anchors = active[np.unique(component[active], return_index=True)[1]]
    parts = np.bincount(graph.queries.index[anchors], minlength=graph.queries.n_queries)
    parts += np.bincount(graph.queries.index[alone], minlength=graph.queries.n_queries)
    torn = parts[graph.queries.index[anchors]] > 1
    return np.concatenate([alone, anchors[torn]])


@final
@dataclass(frozen=True, eq=False)
class Inverse:
    r"""``B = (S + alpha)^-1 = G diag(w) G'`` for some alphas: by eigenvectors, or a factor of one.

    With c = B c0, the prediction p for the coordinates U of a fold solves
    ``B_UU (c0_U - p) = c_U``. For alpha above the largest eigenvalue the difference would cancel,
    and the same equation is solved as ``(I - H_UU) p = (H c0)_U - H_UU c0_U`` with H = S B.

    Parameters
    ----------
    G : (rank, rank)
        Eigenvectors of S, or ``L^-T`` with ``S + alpha = L L'``.
    weights : (rank, n_alphas)
        w of each alpha.
    hat : (rank, n_alphas)
        The same of H for large alphas, of B for others.
    is_large : (n_alphas,)
        For which alphas H takes the place of B.
    """

    G: Array
    weights: Array
    hat: Array
    is_large: BoolArray

    @classmethod
    def decomposed(cls, values: FloatArray, vectors: Array, alphas: FloatArray) -> Self:
        """Build from the eigenvalues, which rise, and the eigenvectors of S."""
        inverse, is_large = 1.0 / (values[:, None] + alphas), alphas > values[-1]
        hat = np.where(is_large, values[:, None] * inverse, inverse)
        return cls(vectors, like(inverse, vectors), like(hat, vectors), is_large)

    @classmethod
    def factored(cls, inverse: Array) -> Self:
        """Build from the inverse of a Cholesky factor of ``S + alpha``."""
        one = like(np.ones((inverse.shape[0], 1)), inverse)
        return cls(inverse.T, one, one, np.zeros(1, dtype=bool))

    def solve(self, C0: FloatArray) -> FloatArray:
        """Return ``B c0`` of the first alpha."""
        projected = self.G.T @ like(C0, self.G)
        return to_host(self.G @ (self.weights[:, :1] * projected))

    def leave_out(
        self, C0: FloatArray, order: IntArray, starts: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return p of all coordinates, (n_alphas, rank, n_outputs), and the smallest pivots.

        Parameters
        ----------
        C0 : (rank, n_outputs)
            The targets in coordinates.
        order, starts
            The coordinates fold by fold, and where each fold begins.
        """
        xp, (rank, n_outputs), n_alphas = namespace_of(self.G), C0.shape, len(self.is_large)
        held_out, pivots = np.zeros((n_alphas, *C0.shape)), np.ones((len(starts) - 1, n_alphas))
        projected = self.G.T @ like(C0, self.G)
        targets = self.hat[:, :, None] * projected[:, None, :]  # times G, this is B c0 or H c0
        targets = xp.reshape(targets, (rank, n_alphas * n_outputs))
        # threads share the folds; elsewhere than on the host those of a size are left out together
        entries = 1 if is_on_host(self.G) else DEVICE_ENTRIES
        batches = list(_batches(order, starts, entries))

        def leave_out(number: int) -> None:
            some, U = batches[number]
            held_out[:, U], pivots[some] = self._predict(U, C0[U], targets)

        _in_turn(leave_out, len(batches), self.G)
        return held_out, pivots

    def _predict(
        self, U: IntArray, own: FloatArray, targets: Array
    ) -> tuple[FloatArray, FloatArray]:
        """Return p, (n_alphas, n_folds, size, n_outputs), and pivots, (n_folds, n_alphas).

        Parameters
        ----------
        U : (n_folds, size)
            The coordinates of each fold.
        own : (n_folds, size, n_outputs)
            Their targets.
        targets : (rank, n_alphas * n_outputs)
            The targets of all coordinates, projected and weighted.
        """
        xp, (n_folds, size), n_alphas = namespace_of(self.G), U.shape, len(self.is_large)
        rows, there = take_rows(self.G, U.ravel()), like(own, self.G)
        blocks = blocks_of_weights(xp.reshape(rows, (n_folds, size, -1)), self.hat)
        rhs = xp.reshape(rows @ targets, (n_folds, size, n_alphas, -1))
        rhs = copy_of(xp.moveaxis(rhs, 2, 1))
        identity = like(np.eye(size), self.G)
        for a in np.flatnonzero(self.is_large).tolist():
            rhs[:, a, :, :] -= blocks[:, a, :, :] @ there
            blocks[:, a, :, :] = identity - blocks[:, a, :, :]
        solved, pivot = solve_in_blocks(blocks, rhs)  # [PTA09] (32), (33), in coordinates
        p = to_host(solved)
        p = np.where(self.is_large[:, None, None], p, own[:, None] - p)
        return np.moveaxis(p, 1, 0), to_host(pivot)

    def leave_alone_out(
        self,
        alone: Array,
        C0: FloatArray,
        held_out: FloatArray,
        order: IntArray,
        starts: IntArray,
        fold_of_alone: IntArray,
    ) -> FloatArray:
        """Return the scores of items by their kernel, each in the model without its own fold.

        Parameters
        ----------
        alone : (rank, n_alone)
            The kernel of these items, in coordinates.
        C0, order, starts
            As in `leave_out`, which returned ``held_out``.
        fold_of_alone : (n_alone,)
            The fold of each item.

        Returns
        -------
        scores : (n_alphas, n_alone, n_outputs)
        """
        scores = np.zeros((len(held_out), len(fold_of_alone), C0.shape[1]))
        if not len(fold_of_alone):
            return scores
        turned, projected = (self.G.T @ alone).T, self.G.T @ like(C0, self.G)
        folds = np.unique(fold_of_alone)

        def leave_out(number: int) -> None:
            q = folds[number]
            U, members = order[starts[q] : starts[q + 1]], np.flatnonzero(fold_of_alone == q)
            # what the coordinates of the fold had added to the projected targets
            gone = take_rows(self.G, U).T @ like(C0[U] - held_out[:, U], self.G)
            kept = self.weights.T[:, :, None] * (projected - gone)
            scores[:, members] = to_host(take_rows(turned, members) @ kept)

        _in_turn(leave_out, len(folds), self.G)
        return scores


def _in_turn(task: Callable[[int], None], n_tasks: int, where: Array) -> None:
    """Call a function for numbers: in threads on the host, one after another elsewhere."""
    if is_on_host(where):
        with serial_blas():
            in_threads(task, n_tasks)
        return
    for number in range(n_tasks):
        task(number)


def _batches(
    order: IntArray, starts: IntArray, entries: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield folds of equal size and their coordinates, as many as fit together.

    Folds without a coordinate are left out.
    """
    sizes = np.diff(starts)
    for size in np.unique(sizes[sizes > 0]).tolist():
        folds = np.flatnonzero(sizes == size)
        step = max(1, entries // (size * max(1, len(order))))
        for first in range(0, len(folds), step):
            some = folds[first : first + step]
            yield some, order[starts[some][:, None] + np.arange(size)]


@final
@dataclass(frozen=True, eq=False)
class _DualSolution:
    """The reduced kernel S, from whose inverses every fold is left out.

    One decomposition serves every alpha. Where its work space would not fit, alphas are factorised
    one after another, 2.25 matrices, and only those that cannot be use the decomposition.
    """

    root: Root
    C0: FloatArray
    alphas: FloatArray
    alone: Array
    """Kernel of the items that are scored by it, in coordinates."""
    rcond: FloatArray
    """The reciprocal condition number for every alpha, or a bound of it."""
    decompose: Callable[[], Spectrum]
    """Returns eigenvalues and eigenvectors of S."""
    factor: Callable[[float], Array | None]
    """Returns the inverse of a factor of ``S + alpha``; None to use the decomposition."""

    @classmethod
    def of(
        cls,
        space: FunctionSpace,
        graph: PreferenceGraph,
        alone: IntArray,
        alphas: FloatArray,
        device: Device | None,
    ) -> Self:
        """Reduce the kernel; ``alone`` names items that are to be scored by their kernel."""
        system, of_alone = _reduced(space, graph, alone, device)
        root, C0 = graph.laplacian.root(), system.rhs
        needed = DECOMPOSED_MATRICES * 8 * graph.n_items**2
        if device is None or needed <= DECOMPOSED_SHARE * memory_of(device):
            known = system.spectrum()
            return cls(
                root, C0, alphas, of_alone, known.rcond(alphas), lambda: known, lambda _: None
            )
        S: Array = system.matrix
        there, largest = device, _largest_eigenvalue(S, device)

        def factor(alpha: float) -> Array | None:
            if alpha > LARGE_ALPHA * largest:
                return None
            A = S.clone()
            A.diagonal().add_(alpha)
            factor = there.factor_in_place(A)
            return None if factor is None else there.invert_triangle(factor)

        def decompose() -> Spectrum:
            return _reduced(space, graph, alone, there)[0].spectrum()

        return cls(root, C0, alphas, of_alone, alphas / (largest + alphas), decompose, factor)

    def _use_inverses(self, alphas: FloatArray, use: Callable[[IntArray, Inverse], None]) -> None:
        """Form the inverses of alphas, one factor at a time, and use each with their numbers."""
        lost = []
        for a, alpha in enumerate(alphas.tolist()):
            factor = self.factor(alpha)
            if factor is None:
                lost.append(a)
                continue
            use(np.array([a]), Inverse.factored(factor))
            del factor  # before the next one is formed
        if lost:
            found = self.decompose()
            use(np.array(lost), Inverse.decomposed(found.values, found.vectors, alphas[lost]))

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the items for an alpha."""
        found: list[FloatArray] = []
        self._use_inverses(np.array([alpha]), lambda _, B: found.append(B.solve(self.C0)))
        return self.root.to_items(found[0])

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
        C0, n_alphas = self.C0, len(self.alphas)
        held_out = np.empty((n_alphas, *C0.shape))
        of_alone = np.empty((n_alphas, len(fold_of_alone), C0.shape[1]))
        pivots = np.empty((len(starts) - 1, n_alphas))

        def leave_out(which: IntArray, B: Inverse) -> None:
            held_out[which], pivots[:, which] = B.leave_out(C0, order, starts)
            of_alone[which] = B.leave_alone_out(
                self.alone, C0, held_out[which], order, starts, fold_of_alone
            )

        self._use_inverses(self.alphas, leave_out)
        return held_out, of_alone, pivots


def _reduced(
    space: FunctionSpace, graph: PreferenceGraph, alone: IntArray, device: Device | None
) -> tuple[System, Array]:
    """Return the dual system, and the kernel of some items in its coordinates."""
    K = space.kernel_matrix(device=device)
    of_alone = copy_of(take_rows(K, alone).T)
    system = System.dual(graph, K, trusted=space.kernel_is_trusted)
    return system, graph.laplacian.root().like(of_alone).to_coordinates(of_alone)


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


# Small systems, of explicit features as well


def blocks_of_weights(V: Array, weights: Array) -> Array:
    """Return ``V diag(w) V'`` for a stack of V and every column w of ``weights``.

    The shapes are (n_stack, n, rank), (rank, n_weights) and (n_stack, n_weights, n, n).
    """
    xp, (n_stack, n_rows, _) = namespace_of(V), V.shape
    shape = (n_stack, weights.shape[1], n_rows, n_rows)
    blocks = xp.empty(shape, dtype=V.dtype, device=V.device)
    for i in range(n_rows):  # products with the rows before, times all weights at once
        products = ((V[:, i : i + 1, :] * V[:, : i + 1, :]) @ weights).mT
        blocks[:, :, i, : i + 1] = products
        blocks[:, :, : i + 1, i] = products
    return blocks


def solve_in_blocks(A: Array, B: Array) -> tuple[Array, Array]:
    """Solve stacks of symmetric definite systems, (..., n, n) and (..., n, k).

    A and B are contiguous, and may be overwritten.

    Returns
    -------
    X : (..., n, k)
    pivot : (...)
        Smallest pivot as a share of the largest diagonal entry; 0 if a matrix is not definite.
    """
    if not is_on_host(A):
        return solve_definite(A, B)
    n_systems = math.prod(A.shape[:-2])
    X, pivot = _solve_stack(
        A.reshape(n_systems, *A.shape[-2:]), B.reshape(n_systems, *B.shape[-2:])
    )
    return X.reshape(B.shape), pivot.reshape(A.shape[:-2])


def _solve_stack(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
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
