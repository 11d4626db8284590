"""Scores of held-out queries from the dual solution: kernels, on the CPU and on devices."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.devices import Device, DeviceArray, memory_of
from rankwise.core.threads import in_threads, serial_blas
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.native.holdouts import solve_each
from rankwise.selection.holdouts import Folds, HeldOut, by_alpha, error_of_pivots
from rankwise.solve.normal_equations import (
    DeviceSystem,
    Dual,
    Spectrum,
)

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
    error = error_of_pivots(np.minimum(dual.rcond(), pivots.min(axis=0, initial=1.0)))
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
    """Return the eigenvalues of B, or of H if alpha is large, (order, n_alphas)."""
    inverse = 1.0 / (values[:, None] + alphas)
    return np.where(alphas > values[-1], values[:, None] * inverse, inverse)


@final
@dataclass(frozen=True, eq=False)
class _HostDualSolution(_DualSolution):
    """A decomposition in memory; threads share the folds."""

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
        blocks = blocks_of_weights(V, self._weights)
        rhs = by_alpha(V @ self._weighted_targets, len(self.alphas))
        rhs[large] -= blocks[large] @ self.C0[U]
        blocks[large] = np.eye(len(U)) - blocks[large]
        solution, pivot = solve_in_blocks(blocks, rhs)  # [PTA09] (32), (33), in coordinates
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
        K = space.kernel_matrix(device=device)
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
    """Yield folds of equal size and their coordinates, as many as fit together.

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
    r"""A Cholesky factor for each alpha in place of a decomposition: 2.25 matrices.

    With ``S + alpha = L L'`` the blocks of B are ``(L^-1)_U' (L^-1)_U``, columns U of the inverse
    of the factor, which overwrites the factor. Alphas that cannot be factorised use the
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

        K = space.kernel_matrix(device=device)
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
        """Leave out all folds, alpha by alpha."""
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


# Small systems, of explicit features as well


def blocks_of_weights(V: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``V diag(w) V'`` for every column w of ``weights``, shape (n_weights, n, n)."""
    n_rows = len(V)
    blocks = np.empty((weights.shape[1], n_rows, n_rows))
    for i in range(n_rows):  # products with the rows before, times all weights at once
        products = (V[i] * V[: i + 1]) @ weights
        blocks[:, i, : i + 1] = blocks[:, : i + 1, i] = products.T
    return blocks


def solve_in_blocks(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve a stack of symmetric definite systems; A and B are overwritten.

    Returns
    -------
    X : (n_matrices, n, k)
    pivot : (n_matrices,)
        Smallest pivot as a share of the largest diagonal entry; 0 if a matrix is not definite.
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
