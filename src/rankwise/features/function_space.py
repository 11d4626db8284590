"""Where a ranking function lives: maps from rows to features, and spaces over training rows.

A map turns rows into features Z with K ~ Z Z', and weights of Z into scores of any rows. A space is
what a fit chooses from: explicit features of the training rows, or their kernel.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import eigh

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.checks import as_floats
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import (
    Array,
    blocks_of,
    cholesky,
    column_means,
    is_on_host,
    like,
    namespace_of,
    solve_rows,
    solve_triangular,
    take_rows,
    to_host,
)
from rankwise.core.storable import storable
from rankwise.features.kernels import (
    GaussianOfRows,
    Kernel,
    Precomputed,
    are_contiguous_doubles,
    finite_kernel,
    kernel_matrix,
    kernel_with_rows,
    own_product,
    refuse_sparse,
    single_product,
)
from rankwise.graph.laplacian import moment
from rankwise.native.rows import dense_products

BLOCK_ROWS = 2048
"""Rows whose kernel values are formed together when predicting, at most."""

BLOCK_ENTRIES = 1 << 24
"""Kernel values that are formed together when predicting, at most."""

ROWS_ALIKE = 24
"""Rows that BLAS computes alike; the rows left over it may not."""

FEW_ENTRIES = 1 << 14
"""Entries of X up to which a plain loop forms linear scores before BLAS has two blocks ready."""

DEVICE_ENTRIES = 1 << 27
"""The same on a device: 1 GB."""

WELL_CONDITIONED = 1e-6
"""Smallest ratio of Cholesky pivots at which a kernel of basis rows is whitened by Cholesky."""

WHITENED_LATE = 1e6
"""Largest condition of a kernel of basis rows at which sums of squares are whitened, not rows.

Rounding errors grow by the condition: 1e-10 of the sums at most.
"""

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest carry rounding errors only."""


class FeatureMap(ABC):
    """Explicit features of rows, in which a ranking function is linear.

    Rows may be of any namespace, and so are features and scores; folded weights are where the rows
    are.
    """

    is_dual: ClassVar[bool] = False
    """Whether folded weights belong to rows (`dual_coef_`) rather than features (`coef_`)."""

    @property
    def expansion_rows(self) -> Matrix | None:
        """The rows whose kernel functions folded weights belong to, None for features."""
        return None

    @property
    def expansion_kernel(self) -> Kernel | None:
        """The kernel of these rows, None for features."""
        return None

    @abstractmethod
    def map(self, X: Matrix) -> Matrix:
        """Return the features Z of rows X."""

    def raw(self, X: Array) -> tuple[Array, Array | None]:
        """Return features F and C with ``Z = F C^-T``.

        C is lower triangular; None where F is Z, as whitening F'F in place of F would lose digits.
        """
        return self.map(X), None

    @abstractmethod
    def fold(self, W: FloatArray) -> FloatArray:
        """Turn weights on Z into weights that `product` takes."""

    @abstractmethod
    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return the scores of rows X from folded weights: one product."""

    def product_of_few(self, X: Matrix, weights: FloatArray) -> FloatArray | None:  # noqa: ARG002
        """Return the same by a plain loop, None where rows are too many or there is no such loop.

        It takes less than a microsecond, adds up every row in the same order, and warns of nothing.
        """
        return None


def _rounded_alike(product: Callable[[Matrix], FloatArray], X: Matrix) -> FloatArray:
    """Return a product with rows in which equal rows get equal results.

    BLAS rounds the rows that its blocks leave over in another order. These are computed as the
    end of a whole block, which overlaps the others. Too few rows for a block are made a whole one
    by more of the last.
    """
    n_rows = X.shape[0]
    rest = n_rows % ROWS_ALIKE
    if rest == 0 or n_rows == 1 or not isinstance(X, np.ndarray):
        return product(X)
    if n_rows < ROWS_ALIKE:
        block = np.empty((ROWS_ALIKE, X.shape[1]), X.dtype)
        block[:n_rows], block[n_rows:] = X, X[-1]
        return product(block)[:n_rows]
    last = product(X[n_rows - ROWS_ALIKE :])[ROWS_ALIKE - rest :]
    return np.concatenate([product(X[: n_rows - rest]), last])


@storable
@final
@dataclass(frozen=True)
class Identity(FeatureMap):
    """The rows themselves: the primal form of a linear ranking function."""

    def map(self, X: Matrix) -> Matrix:
        """Return X as it is, without a copy."""
        return X

    def fold(self, W: FloatArray) -> FloatArray:
        """Return the weights as they are."""
        return W

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``X @ weights``."""
        few = self.product_of_few(X, weights)
        return _rounded_alike(lambda rows: rows @ weights, X) if few is None else few

    def product_of_few(self, X: Matrix, weights: FloatArray) -> FloatArray | None:
        """Return ``X @ weights`` of a few dense rows of double precision and a single output."""
        if not are_contiguous_doubles(X, weights) or X.size > FEW_ENTRIES:
            return None
        scores = np.empty(len(X))
        dense_products(X, weights, scores)  # [PTAB07] eq. (10), [PTA09] eq. (27)
        return scores


@storable
@final
@dataclass(frozen=True, eq=False)
class Expansion(FeatureMap):
    """The full kernel: scores are ``k(X, rows) @ weights``, one weight per training row.

    Notes
    -----
    [PTAB07] (2); [PTA09] (6) to (8), with the norm (9).
    """

    kernel: Kernel
    rows: Matrix
    is_dual: ClassVar[bool] = True

    @cached_property
    def _kernel_on_host(self) -> Callable[[Matrix], FloatArray]:
        return self.kernel.with_rows(self.rows)

    def _kernel_like(self, X: Matrix) -> Callable[[Matrix], Array]:
        """Return the kernel of rows that are where X is with those of the expansion."""
        return (
            self._kernel_on_host
            if is_on_host(X)
            else kernel_with_rows(self.kernel, like(self.rows, X))
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what was computed from them is computed again."""
        return {"kernel": self.kernel, "rows": self.rows}

    @property
    def expansion_rows(self) -> Matrix | None:
        """The rows."""
        return self.rows

    @property
    def expansion_kernel(self) -> Kernel | None:
        """The kernel."""
        return self.kernel

    def map(self, X: Matrix) -> Matrix:
        """Return the kernel of X with every row."""
        return kernel_matrix(self.kernel, X, like(self.rows, X))  # [PTA09] eq. (7)

    def fold(self, W: FloatArray) -> FloatArray:
        """Return the weights as they are."""
        return W

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``k(X, rows) @ weights``, a block of rows at a time."""
        kernel = self._kernel_like(X)
        if isinstance(kernel, GaussianOfRows):  # [PTAB07] eq. (2), [PTA09] eq. (6), (8)
            few = kernel.scores_of_few(X, weights)
            if few is not None:
                return few
        n_rows = self._rows_together(X)

        def scores(some: Matrix) -> Array:
            if some.shape[0] <= n_rows:
                return kernel(some) @ weights
            parts = [  # [PTAB07] eq. (2), [PTA09] eq. (6), (8)
                kernel(some[rows, :]) @ weights for rows in blocks_of(some.shape[0], n_rows)
            ]
            return namespace_of(weights).concat(parts)

        return _rounded_alike(scores, X)

    def _rows_together(self, X: Matrix) -> int:
        """Return how many rows of X are multiplied together."""
        if not is_on_host(X):
            return max(1, DEVICE_ENTRIES // max(1, self.rows.shape[0]))
        n_rows = min(BLOCK_ROWS, BLOCK_ENTRIES // max(1, self.rows.shape[0]))
        return max(1, n_rows - n_rows % ROWS_ALIKE)


@final
@dataclass(frozen=True, eq=False)
class Basis(FeatureMap):
    r"""The subset of regressors: features spanned by the kernel functions of chosen basis rows.

    With :math:`K_{RR} = C C^\top` the features are :math:`Z = K_{XR} C^{-\top}`, so that
    :math:`|w|^2` is the norm of the ranking function, as in the full problem.

    Notes
    -----
    [PTA09] Sect. 3.5: functions (40), in whose features (28) is (41) and (42) is (31). They are
    those of the kernel (43), whose features these are.
    """

    expansion: Expansion
    whitening: Array
    """C, or eigenvectors over roots of eigenvalues, where the kernel of the rows was factored."""
    is_triangular: bool
    is_dual: ClassVar[bool] = True

    @classmethod
    def of(cls, kernel: Kernel, rows: Matrix, where: Array | None = None) -> Self:
        """Build from a kernel and basis rows, which may be nearly dependent.

        Their kernel is factored where they are, or where another array is.
        """
        placed = rows if where is None else like(rows, where)
        K = finite_kernel(kernel, placed, placed)
        C = cholesky(K)
        if C is not None:
            pivots = to_host(namespace_of(C).linalg.diagonal(C))
            if pivots.min() >= WELL_CONDITIONED * pivots.max():
                return cls(Expansion(kernel, rows), C, is_triangular=True)
        whitening = like(_eigen_whitening(to_host(K)), K)
        return cls(Expansion(kernel, rows), whitening, is_triangular=False)

    @cached_property
    def _whitening_on_host(self) -> FloatArray:
        return to_host(self.whitening)

    def _whitening_like(self, X: Matrix) -> Array:
        return self._whitening_on_host if is_on_host(X) else like(self.whitening, X)

    def map(self, X: Matrix) -> Matrix:
        """Return Z."""
        K = self.expansion.map(X)  # [PTA09] eq. (41), (42), in features of norm (9)
        whitening = self._whitening_like(X)
        return solve_rows(whitening, K) if self.is_triangular else K @ whitening

    def raw(self, X: Array) -> tuple[Array, Array | None]:
        """Return the kernel of X with the basis rows and C, if few digits are lost that way."""
        whitening = self._whitening_like(X)
        if not self.is_triangular or _condition(whitening) > WHITENED_LATE:
            return self.map(X), None
        return self.expansion.map(X), whitening

    def own_features(self) -> FloatArray:
        """Return Z of the basis rows themselves, at no cost: the empirical kernel map."""
        whitening = self._whitening_on_host
        if self.is_triangular:
            return whitening  # Z = K C^-T = C
        return whitening / np.square(whitening).sum(axis=0)  # V / sqrt(s) to V sqrt(s)

    def fold(self, W: FloatArray) -> FloatArray:
        """Return one weight per basis row."""
        if not self.is_triangular:
            return self._whitening_on_host @ W
        return to_host(solve_triangular(self.whitening, like(W, self.whitening), transposed=True))

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``k(X, basis) @ weights``."""
        return self.expansion.product(X, weights)  # [PTA09] eq. (40)


def _condition(C: Array) -> float:
    """Return a bound on the condition number of ``C C'``, C lower triangular."""
    xp = namespace_of(C)
    inverse = solve_triangular(C, xp.eye(C.shape[0], dtype=C.dtype, device=C.device))
    K, inverted = C @ C.T, inverse.T @ inverse
    return float(xp.sum(K * K)) ** 0.5 * float(xp.sum(inverted * inverted)) ** 0.5


def _eigen_whitening(K: FloatArray) -> FloatArray:
    values, vectors = eigh(K)
    if values[0] < -1e-8 * values[-1]:
        raise InvalidInputError(
            "The kernel must be positive semidefinite: its smallest eigenvalue on the basis rows "
            f"is {values[0]:.3g}, the largest {values[-1]:.3g}. Use a valid kernel."
        )
    kept = values > RANK_TOLERANCE * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


def choose_basis(
    basis: int | ArrayLike | None, X: Matrix, rng: np.random.Generator | None
) -> Matrix | None:
    """Return basis rows given as a number of random rows, as indices, or as rows themselves.

    None, no basis, stays None. Only a number needs a generator.
    """
    if basis is None:
        return None
    n_items = X.shape[0]
    if isinstance(basis, int | np.integer) and not isinstance(basis, bool):
        if not 1 <= basis <= n_items:
            raise InvalidInputError(
                f"`basis` as a number must lie between 1 and the {n_items} rows of `X`: "
                f"got {basis}."
            )
        assert rng is not None
        return X[np.sort(rng.choice(n_items, int(basis), replace=False))]
    try:
        chosen = np.asarray(basis)
    except ValueError as error:
        raise InvalidInputError(f"`basis` must be a table of numbers: {error}.") from error
    if chosen.ndim == 1 and chosen.dtype.kind in "iu":
        return X[_checked_indices(chosen, n_items)]
    if chosen.ndim == 2 and chosen.shape[1] == X.shape[1] and len(chosen) > 0:
        return as_floats("basis", chosen)
    raise InvalidInputError(
        "`basis` must be a number of rows, row indices, or at least one row with as many columns "
        f"as `X` ({X.shape[1]}): got an array of shape {chosen.shape} and dtype {chosen.dtype}."
    )


def _checked_indices(chosen: IntArray, n_items: int) -> IntArray:
    if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= n_items:
        raise InvalidInputError(
            f"`basis` as indices must name at least one row and only rows 0 to {n_items - 1}."
        )
    return np.unique(chosen)


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

    X: Matrix
    """The rows, of any namespace: features and kernels are where they are."""

    @abstractmethod
    def on_host(self) -> "FunctionSpace":
        """Return the same space over rows of the host."""

    @abstractmethod
    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return explicit features of some rows of X, or of all; approximate ones for a kernel."""

    def raw_features(self) -> tuple[Matrix, Array | None]:
        """Return the features of all rows as `FeatureMap.raw` does."""
        return self.features(), None

    @abstractmethod
    def kernel_matrix(self, rows: IntArray | None = None) -> Array:
        """Return the kernel between some rows of X, or all; the caller may overwrite it."""

    def implicit_kernel(self) -> "ImplicitKernel | None":
        """Return the kernel by its products; None for features, which are solved at once."""
        return None

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
    X : (n_items, n_columns)
        The training rows.
    map : FeatureMap
        What makes features Z of rows, and how their weights fold.
    predictor : FeatureMap
        What takes the folded weights.
    known : (n_items, n_features), optional
        Z, where it is known.
    """

    X: Matrix
    map: FeatureMap
    predictor: FeatureMap
    known: Matrix | None = None
    is_explicit: ClassVar[bool] = True

    @cached_property
    def _of_all(self) -> Matrix:
        return self.map.map(self.X) if self.known is None else self.known

    def on_host(self) -> "ExplicitSpace":
        """Return the same features on the host."""
        return replace(self, X=to_host(self.X), known=to_host(self._of_all))

    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return rows of Z, without a copy where these are all of them."""
        if rows is None or _are_all(rows, self._of_all.shape[0]):
            return self._of_all
        return take_rows(self._of_all, rows)

    def raw_features(self) -> tuple[Matrix, Array | None]:
        """Return the features of all rows, to be whitened late where no digits are lost."""
        return self.map.raw(self.X) if self.known is None else (self.known, None)

    def kernel_matrix(self, rows: IntArray | None = None) -> Array:
        """Return ``Z Z'`` of rows centred over those asked for: no graph sees the difference."""
        Z = self.features(rows)
        Z = dense_rows(Z) if is_on_host(Z) else Z
        Z = Z - column_means(Z)
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
        Z = self.features(of)
        return to_host(Z @ like(points.T, Z)).T


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
    def _matrix(self) -> Array:
        return finite_kernel(self.kernel, self.X, self.X)

    def _block(self, rows: IntArray, columns: IntArray) -> Array:
        if is_on_host(self._matrix):
            return self._matrix[np.ix_(rows, columns)]
        return take_rows(take_rows(self._matrix, rows).T, columns).T

    def on_host(self) -> "KernelSpace":
        """Return the same kernel over rows of the host."""
        return replace(self, X=to_host(self.X))

    def implicit_kernel(self) -> "ImplicitKernel":
        """Return the kernel by its products."""
        return ImplicitKernel(self.kernel, self.X)

    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return features that the kernel functions of some of the rows span."""
        rows = np.arange(self.X.shape[0]) if rows is None else rows
        spread = np.linspace(0, len(rows) - 1, min(N_APPROXIMATION_ROWS, len(rows)))
        some = rows[spread.astype(np.intp)]
        return Basis.of(Precomputed(), self._block(some, some)).map(self._block(rows, some))

    def kernel_matrix(self, rows: IntArray | None = None) -> Array:
        """Return the kernel; of all rows it is formed anew, so that a solver may overwrite it."""
        if rows is None or _are_all(rows, self.X.shape[0]):
            return finite_kernel(self.kernel, self.X, self.X)
        return self._block(rows, rows)

    def fold(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Return a weight for each row of X, 0 for those left out; of features where linear."""
        if not self.predictor.is_dual:
            X = self.X if rows is None else take_rows(self.X, rows)
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
        rows, own = earlier.expansion_rows, self.predictor.expansion_rows
        if rows is None or own is None or not self.kernel.is_function:
            raise InvalidInputError(
                "`partial_fit` must be able to compute the kernel of new items with earlier ones: "
                f"got the kernel {self.kernel!r}. Use another, or fit to all items at once."
            )
        stack = sparse.vstack if sparse.issparse(own) else np.concatenate
        joined = Expansion(self.kernel, stack([rows, own]))
        return joined, np.concatenate([earlier_weights, weights])

    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:
        """Return sums of kernels."""
        K = self._block(of, rows)
        return to_host(K @ like(points.T, K)).T


@final
@dataclass(frozen=True, eq=False)
class ImplicitKernel:
    """The kernel of training rows by its products: the matrix is never formed.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with numeric parameters.
    X : (n_items, n_features)
        The training rows, of any namespace; results are where they are.
    """

    kernel: Kernel
    X: Matrix

    def product(self, V: Array) -> Array:
        """Return ``K @ V``, of which blocks are formed and forgotten."""
        if not self.kernel.is_function:
            return self.X @ V
        return own_product(self.kernel, self.X, V)

    def single_product(self) -> Callable[[Array], Array] | None:
        """Return the product in single precision, None where it would not be quicker."""
        return single_product(self.kernel, self.X)

    def size(self) -> float:
        """Return the largest kernel of a row with itself."""
        diagonal = self.kernel.diagonal(self.X)
        return float(namespace_of(diagonal).max(abs(diagonal)))

    def spanned_features(self, n_basis: int, rng: np.random.Generator) -> Array:
        """Return the features that random basis rows span: their products are close to K."""
        X = self.X
        some = np.sort(rng.choice(X.shape[0], n_basis, replace=False))
        if not self.kernel.is_function:
            X = take_rows(X.T, some).T
        return Basis.of(self.kernel, take_rows(X, some)).map(X)


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
    rows: Matrix | None = None,
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
    rows : (n_items, n_features), optional
        X in the namespace that computes, if that is another one.
    """
    refuse_sparse(X, kernel)
    rows = X if rows is None else rows
    if basis_rows is not None:
        return basis_space(rows, Basis.of(kernel, basis_rows, rows))
    if not kernel.is_linear:
        return KernelSpace(kernel, rows, Expansion(kernel, X))
    if X.shape[1] <= rank:
        return ExplicitSpace(rows, Identity(), Identity())
    centred = rows if sparse.issparse(rows) else rows - column_means(rows)
    return KernelSpace(kernel, centred, Identity())


def function_space(
    X: Matrix, kernel: Kernel, basis: int | ArrayLike | None, rng: np.random.Generator | None
) -> FunctionSpace:
    """Return explicit features where there are any: the rows, or those of a basis."""
    refuse_sparse(X, kernel)
    if basis is not None:
        return basis_space(X, Basis.of(kernel, choose_basis(basis, X, rng)))
    if kernel.is_linear:
        return ExplicitSpace(X, Identity(), Identity())
    return KernelSpace(kernel, X, Expansion(kernel, X))


def explicit_space(
    X: Matrix, kernel: Kernel, basis: int | ArrayLike | None, rng: np.random.Generator | None
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
    return ExplicitSpace(X, full, full.expansion, full.own_features())


def basis_space(X: Matrix, basis: Basis) -> ExplicitSpace:
    """Return the features of rows X that basis rows span."""
    return ExplicitSpace(X, basis, basis.expansion)


def _are_all(rows: IntArray, n_items: int) -> bool:
    return len(rows) == n_items and bool(np.all(np.diff(rows) == 1))
