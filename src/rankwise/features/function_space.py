"""Where a ranking function lives: explicit features of the training rows, or their kernel."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError
from rankwise.features.kernels import (
    Kernel,
    Linear,
    Precomputed,
    finite_kernel,
    kernel_on,
    own_product,
    own_product_on,
    refuse_sparse,
    rough_product_on,
)
from rankwise.features.maps import Basis, Expansion, FeatureMap, Identity, choose_basis
from rankwise.graph.laplacian import moment

N_APPROXIMATION_ROWS = 300
"""Rows whose kernel functions span the approximate features of a full kernel."""


class FunctionSpace(ABC):
    """The ranking functions that a fit chooses from, over the rows of X.

    Solvers see either explicit features or a kernel matrix, whichever has fewer unknowns, and give
    back weights; `fold` and `predictor` turn these into scores of any rows.
    """

    is_explicit: ClassVar[bool]
    """Whether the unknowns are weights of explicit features; of items otherwise."""

    predictor: FeatureMap
    """The map whose product with the folded weights gives scores."""

    kernel_is_trusted: bool = True
    """Whether the kernel matrix is positive semidefinite by construction."""

    @abstractmethod
    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return explicit features of some rows of X, or of all; approximate ones for a kernel."""

    @abstractmethod
    def kernel_matrix(self, rows: IntArray | None = None) -> FloatArray:
        """Return the kernel between some rows of X, or all; the caller may overwrite it."""

    @abstractmethod
    def features_on(self, X: Matrix, device: Device) -> tuple[DeviceArray, DeviceArray | None]:
        """Return features F of rows X on a device and a lower triangle C: ``F C^-T`` are Z.

        None for C where F is Z. F may be overwritten.
        """

    @abstractmethod
    def kernel_matrix_on(self, device: Device) -> DeviceArray:
        """Return the kernel of the training rows on a device; it may be overwritten."""

    @abstractmethod
    def kernel_product(self, device: Device | None) -> Callable[[DeviceArray], DeviceArray]:
        """Return the product with the kernel of the training rows, which is never formed."""

    @abstractmethod
    def rough_kernel_product(
        self, device: Device | None
    ) -> Callable[[DeviceArray], DeviceArray] | None:
        """Return that product in single precision, None where it would not be quicker."""

    @abstractmethod
    def kernel_size(self) -> float:
        """Return the largest entry of the kernel, which is on its diagonal."""

    @abstractmethod
    def spanned_features(
        self, n_basis: int, rng: np.random.Generator, device: Device | None
    ) -> DeviceArray:
        """Return features whose inner products are close to the kernel, here or on a device."""

    @abstractmethod
    def fold(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Turn the weights that a solver found, over some rows or all, into the predictor's."""

    @abstractmethod
    def join(
        self, weights: FloatArray, earlier: FeatureMap, earlier_weights: FloatArray
    ) -> tuple[FeatureMap, FloatArray]:
        """Return the predictor and weights of the sum of a new function and an earlier one."""

    @abstractmethod
    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:
        """Return the scores of some rows under several solutions over others.

        Parameters
        ----------
        points : (n_points, n_unknowns)
            What a solver found over ``rows``.
        rows : (n_rows,)
            The rows of X it was found over.
        of : (n_items,)
            The rows of X to score.

        Returns
        -------
        scores : (n_points, n_items)
        """


@final
@dataclass(frozen=True, eq=False)
class ExplicitSpace(FunctionSpace):
    """Weights of explicit features: the rows themselves, or those that basis rows span.

    Parameters
    ----------
    Z : (n_items, n_features)
        The features of the training rows.
    map : FeatureMap
        How Z was made, and how its weights fold.
    predictor : FeatureMap
        What takes the folded weights.
    """

    Z: Matrix
    map: FeatureMap
    predictor: FeatureMap
    is_explicit: ClassVar[bool] = True

    def features_on(self, X: Matrix, device: Device) -> tuple[DeviceArray, DeviceArray | None]:
        """Return features of rows X and how they are whitened, as their map has it."""
        return self.map.raw_on(device.array(dense_rows(X)), device)

    def kernel_matrix_on(self, device: Device) -> DeviceArray:
        """Return ``Z Z'`` of centred features on a device."""
        Z = device.array(dense_rows(self.Z))
        Z = Z - Z.mean(0)
        return Z @ Z.T

    def kernel_product(self, device: Device | None) -> Callable[[DeviceArray], DeviceArray]:
        """Return the product with ``Z Z'``, here whatever the device."""
        del device
        Z = self.Z
        return lambda V: np.asarray(Z @ (Z.T @ V))

    def rough_kernel_product(
        self,
        device: Device | None,  # noqa: ARG002
    ) -> Callable[[DeviceArray], DeviceArray] | None:
        """Return None: features are solved at once."""
        return None

    def kernel_size(self) -> float:
        """Return the largest squared length of a row of Z."""
        return float(Linear().diagonal(self.Z).max())

    def spanned_features(
        self, n_basis: int, rng: np.random.Generator, device: Device | None
    ) -> DeviceArray:
        """Return Z itself."""
        del n_basis, rng
        Z = dense_rows(self.Z)
        return Z if device is None else device.array(Z)

    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return rows of Z, without a copy where these are all of them."""
        if rows is None or _are_all(rows, self.Z.shape[0]):
            return self.Z
        return self.Z[rows]

    def kernel_matrix(self, rows: IntArray | None = None) -> FloatArray:
        """Return ``Z Z'`` of rows centred over those asked for: no graph sees the difference."""
        Z = dense_rows(self.features(rows))
        Z = Z - Z.mean(axis=0)
        return Z @ Z.T

    def fold(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:  # noqa: ARG002
        """Return weights of features or of basis rows."""
        return self.map.fold(weights)

    def join(
        self,
        weights: FloatArray,
        earlier: FeatureMap,  # noqa: ARG002
        earlier_weights: FloatArray,  # noqa: ARG002
    ) -> tuple[FeatureMap, FloatArray]:
        """Return the weights as they are: the solver started from the earlier ones."""
        return self.predictor, weights

    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:  # noqa: ARG002
        """Return inner products."""
        scores: FloatArray = (self.Z[of] @ points.T).T
        return scores


@final
@dataclass(frozen=True, eq=False)
class KernelSpace(FunctionSpace):
    """A weight for each item: the span of the kernel functions of the training rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with numeric parameters.
    X : (n_items, n_features)
        The training rows.
    predictor : FeatureMap
        What takes the folded weights.
    """

    kernel: Kernel
    X: Matrix
    predictor: FeatureMap
    is_explicit: ClassVar[bool] = False

    @property
    def kernel_is_trusted(self) -> bool:  # type: ignore[override]
        """Whether the kernel is positive semidefinite by construction."""
        return self.kernel.is_trusted

    @cached_property
    def _matrix(self) -> FloatArray:
        return finite_kernel(self.kernel, self.X, self.X)

    def features_on(self, X: Matrix, device: Device) -> tuple[DeviceArray, DeviceArray | None]:
        """Return the kernel of rows X with the training rows, as it is."""
        return self.predictor.raw_on(device.array(dense_rows(X)), device)

    def kernel_matrix_on(self, device: Device) -> DeviceArray:
        """Return the kernel of the training rows on a device."""
        rows = device.array(dense_rows(self.X))
        return kernel_on(self.kernel, rows, rows, device)

    def kernel_product(self, device: Device | None) -> Callable[[DeviceArray], DeviceArray]:
        """Return the product with the kernel, of which blocks are formed and forgotten."""
        if device is None:
            if not self.kernel.is_function:
                return lambda V: np.asarray(self.X @ V)
            return partial(own_product, self.kernel, self.X)
        if not self.kernel.is_function:
            return lambda V: device.array(np.asarray(self.X @ device.host(V)))
        return partial(own_product_on, self.kernel, device.array(dense_rows(self.X)), device)

    def rough_kernel_product(
        self, device: Device | None
    ) -> Callable[[DeviceArray], DeviceArray] | None:
        """Return the product in single precision, on a device and where there is a form of it."""
        if device is None:
            return None
        return rough_product_on(self.kernel, device.array(dense_rows(self.X)), device)

    def kernel_size(self) -> float:
        """Return the largest kernel of a row with itself."""
        return float(np.abs(self.kernel.diagonal(self.X)).max())

    def spanned_features(
        self, n_basis: int, rng: np.random.Generator, device: Device | None
    ) -> DeviceArray:
        """Return the features that random basis rows span."""
        some = np.sort(rng.choice(self.X.shape[0], n_basis, replace=False))
        if self.kernel.is_function:
            basis, X = Basis.of(self.kernel, self.X[some], device), self.X
        else:
            basis, X = Basis.of(self.kernel, self.X[np.ix_(some, some)]), self.X[:, some]
        return basis.map(X) if device is None else basis.map_on(device.array(dense_rows(X)), device)

    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return features that the kernel functions of some of the rows span."""
        rows = np.arange(self.X.shape[0]) if rows is None else rows
        spread = np.linspace(0, len(rows) - 1, min(N_APPROXIMATION_ROWS, len(rows)))
        some = rows[spread.astype(np.intp)]
        basis = Basis.of(Precomputed(), self._matrix[np.ix_(some, some)])
        return basis.map(self._matrix[np.ix_(rows, some)])

    def kernel_matrix(self, rows: IntArray | None = None) -> FloatArray:
        """Return the kernel; of all rows it is formed anew, so that a solver may overwrite it."""
        if rows is None or _are_all(rows, self.X.shape[0]):
            return finite_kernel(self.kernel, self.X, self.X)
        return self._matrix[np.ix_(rows, rows)]

    def fold(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Return a weight for each row of X, 0 for those left out; of features where linear."""
        if not self.predictor.is_dual:
            X = self.X if rows is None else self.X[rows]
            return moment(X, weights, np.zeros(len(weights), dtype=np.intp))
        if rows is None:
            return weights
        folded = np.zeros((self.X.shape[0], *weights.shape[1:]))
        folded[rows] = weights
        return folded

    def join(
        self, weights: FloatArray, earlier: FeatureMap, earlier_weights: FloatArray
    ) -> tuple[FeatureMap, FloatArray]:
        """Put the earlier rows before those of X."""
        rows = earlier.expansion_rows
        if rows is None or not self.kernel.is_function:
            raise InvalidInputError(
                "`partial_fit` must be able to compute the kernel of new items with earlier ones: "
                f"got the kernel {self.kernel!r}. Use another, or fit to all items at once."
            )
        stack = sparse.vstack if sparse.issparse(self.X) else np.concatenate
        joined = Expansion(self.kernel, stack([rows, self.X]))
        return joined, np.concatenate([earlier_weights, weights])

    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:
        """Return sums of kernels."""
        return (self._matrix[np.ix_(of, rows)] @ points.T).T


def unknowns_of_sparse_rows(X: Matrix, kernel: Kernel, basis: object, rank: int) -> int:
    """Return the order of the dense equations of sparse rows; 0 where rows or kernel are others."""
    if not sparse.issparse(X) or not kernel.is_linear or basis is not None:
        return 0
    return min(rank, int(X.shape[1]))


def smallest_space(
    X: Matrix,
    kernel: Kernel,
    basis_rows: Matrix | None,
    rank: int,
    *,
    mapped: bool = True,
    device: Device | None = None,
) -> FunctionSpace:
    """Return the space of the fewest unknowns: features, basis rows, or items minus queries.

    Parameters
    ----------
    X : (n_items, n_features)
        The training rows.
    kernel : Kernel
        The kernel, with numeric parameters.
    basis_rows : (n_basis, n_features) or None
        The rows that `choose_basis` returned.
    rank : int
        Rank of the Laplacian.
    mapped : bool
        Whether the features that basis rows span are kept here; not if a solver forms them on a
        device.
    device : Device, optional
        What factors the kernel of the basis rows, and forms the features that are kept here.
    """
    refuse_sparse(X, kernel)
    if basis_rows is not None:
        basis = Basis.of(kernel, basis_rows, device)
        return basis_space(X, basis, device) if mapped else basis_space(X[:0], basis)
    if not kernel.is_linear:
        return KernelSpace(kernel, X, Expansion(kernel, X))
    if X.shape[1] <= rank:
        return ExplicitSpace(X, Identity(), Identity())
    centred = X if sparse.issparse(X) else X - X.mean(axis=0, dtype=float)
    return KernelSpace(kernel, centred, Identity())


def function_space(
    X: Matrix, kernel: Kernel, basis: int | ArrayLike | None, rng: np.random.Generator
) -> FunctionSpace:
    """Return explicit features where there are any: the rows, or those of a basis."""
    refuse_sparse(X, kernel)
    if basis is not None:
        return basis_space(X, Basis.of(kernel, choose_basis(basis, X, rng)))
    if kernel.is_linear:
        return ExplicitSpace(X, Identity(), Identity())
    return KernelSpace(kernel, X, Expansion(kernel, X))


def explicit_space(
    X: Matrix, kernel: Kernel, basis: int | ArrayLike | None, rng: np.random.Generator
) -> ExplicitSpace:
    """Return explicit features: the rows themselves, those of a basis, or the empirical kernel map.

    Without a basis a kernel takes all rows for one, O(n^3): [PTA09] Sect. 4.2.
    """
    refuse_sparse(X, kernel)
    if basis is not None:
        return basis_space(X, Basis.of(kernel, choose_basis(basis, X, rng)))
    if kernel.is_linear:
        return ExplicitSpace(X, Identity(), Identity())
    full = Basis.of(kernel, X)
    return ExplicitSpace(full.own_features(), full, full.expansion)


def basis_space(X: Matrix, basis: Basis, device: Device | None = None) -> ExplicitSpace:
    """Return the features that basis rows span, formed here or on a device."""
    if device is None:
        return ExplicitSpace(basis.map(X), basis, basis.expansion)
    Z = device.host(basis.map_on(device.array(dense_rows(X)), device))
    return ExplicitSpace(Z, basis, basis.expansion)


def _are_all(rows: IntArray, n_items: int) -> bool:
    return len(rows) == n_items and bool(np.all(np.diff(rows) == 1))
