"""Kernel principal components: the few directions in which the data vary most."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, svd
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import (
    Array,
    is_on_host,
    largest_eigenpairs,
    like,
    namespace_of,
    to_host,
)
from rankwise.core.params import check_value
from rankwise.features.function_space import Expansion, FeatureMap, Identity
from rankwise.features.kernels import Kernel, finite_kernel, refuse_sparse

Solver: TypeAlias = Literal["auto", "full", "truncated"]

RESOLVED = 1e-10
"""Components below this share of the largest are lost in rounding errors."""

INDEFINITE = 1e-8
"""A smallest eigenvalue below minus this share of the largest is no rounding error."""

MANY_ITEMS = 2000
ITEMS_PER_COMPONENT = 50
"""From this many items, and this many for each component, Lanczos iterations are taken.

They take a seventh of the CPU time of the full solver for 10 components of 2,000 items, an
eighteenth for 10 of 4,000, a third for 80 of 4,000.
"""


@final
@dataclass(frozen=True, eq=False)
class Components(FeatureMap):
    r"""The leading principal components of centred rows, in the feature space of a kernel.

    With :math:`K_c = (I - J) K (I - J)`, :math:`J = \mathbf{11}^\top / n`, and its leading
    eigenpairs :math:`V, \Lambda` the features of the training rows are
    :math:`Z = V \Lambda^{1/2}`, and those of other rows
    :math:`(K_X - \mathbf 1 \bar k^\top) V \Lambda^{-1/2}` with :math:`\bar k` the mean row of K.

    Parameters
    ----------
    base : FeatureMap
        The kernel functions of the training rows, or the features themselves for a linear kernel.
    directions : (n_base, n_components)
        The components in terms of the base: :math:`V \Lambda^{-1/2}`, or unit vectors of features.
    centre : (n_base,)
        The mean of the base over the training rows.
    variances : (n_components,)
        The eigenvalues, in falling order.

    Notes
    -----
    [TH10] (1) to (3) and the centring of Sect. 6.1; the columns of V sum to zero, so that centring
    the columns of a test kernel changes nothing.
    """

    base: FeatureMap
    directions: FloatArray
    centre: FloatArray
    variances: FloatArray

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.variances)

    @property
    def is_dual(self) -> bool:  # type: ignore[override]
        """Whether folded weights belong to rows: the base decides."""
        return self.base.is_dual

    def map(self, X: Matrix) -> Matrix:
        """Return the components of rows X."""
        rows = self.base.map(X)
        directions, centre = like(self.directions, X), like(self.centre, X)
        if sparse.issparse(rows):
            return rows @ directions - centre @ directions
        return (rows - centre) @ directions  # [TH10] eq. (2), (3)

    def fold(self, W: FloatArray) -> FloatArray:
        """Return weights of the base: one per training row, or one per feature."""
        return self.directions @ W

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``map(X) @ W`` for folded weights: one product with the base."""
        return self.base.product(X, weights) - like(self.centre, X) @ weights


def find_components(
    kernel: Kernel,
    X: Matrix,
    n_components: int,
    solver: Solver = "auto",
    weight: FloatArray | None = None,
    rows: Matrix | None = None,
) -> tuple[Components, FloatArray]:
    r"""Return the leading components of rows X, and their values for X itself.

    There are fewer than requested if the rows span fewer. The cost is O(n^3) with the full solver,
    O(n^2) per Lanczos step with the truncated one, O(n d^2) for dense rows and a linear kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with numeric parameters.
    X : (n_items, n_features)
        Training rows.
    n_components : int
        How many components at most.
    solver : {"auto", "full", "truncated"}
        All of a tridiagonal reduction, or Lanczos iterations to the precision of the machine, which
        is faster for a few components of many items; "auto" decides by these numbers.
    weight : (n_items,), optional
        Weights of the rows; an integer weight equals repetition.
    rows : (n_items, n_features), optional
        X in the namespace that forms and decomposes the kernel matrix, if that is another one.
    """
    check_value("solver", solver, Solver)
    refuse_sparse(X, kernel)
    s = np.ones(X.shape[0]) if weight is None else weight
    if kernel.is_linear and not sparse.issparse(X):
        components = _of_features(X, n_components, s)
        return components, components.map(X)
    n_asked = min(n_components, X.shape[0] - 1)
    rows = X if rows is None else rows
    K = finite_kernel(kernel, rows, rows)
    centre = to_host(_centre(K, like(s, K)))
    if not kernel.is_trusted:
        _refuse_indefinite(to_host(K))
    values, vectors = _leading(K, n_asked, solver)  # [TH10] eq. (1)
    n_kept = _n_resolved(values)
    values, vectors = values[:n_kept], vectors[:, :n_kept]
    root, scale = np.sqrt(s)[:, None], np.sqrt(values)
    directions = root * vectors / scale
    if kernel.is_linear:
        mean = np.asarray(s @ X).ravel() / s.sum()
        components = Components(Identity(), X.T @ directions, mean, values)
    else:
        components = Components(Expansion(kernel, X), directions, centre, values)
    Z = np.divide(vectors * scale, root, out=np.zeros(vectors.shape), where=root > 0)
    if (s == 0).any():
        Z[s == 0] = components.map(X[s == 0])
    return components, Z


def truncating_pays(n_items: int, n_components: int) -> bool:
    """Return whether Lanczos iterations are faster than the full solver, by experience."""
    return n_items >= max(MANY_ITEMS, ITEMS_PER_COMPONENT * n_components)


def _of_features(X: FloatArray, n_components: int, weight: FloatArray) -> Components:
    """Find the components of a linear kernel among the features: no kernel matrix is formed."""
    centre = weight @ X.astype(float, copy=False) / weight.sum()
    rows = np.sqrt(weight)[:, None] * (X - centre)
    _, s, Vt = svd(rows, full_matrices=False, check_finite=False)
    n_kept = min(n_components, _n_resolved(s))
    return Components(Identity(), Vt[:n_kept].T, centre, s[:n_kept] ** 2)


def _centre(K: Array, weight: Array) -> Array:
    """Centre and weight a kernel matrix in place; return its mean row."""
    xp = namespace_of(K)
    share = weight / xp.sum(weight)
    centre = share @ K
    K -= centre
    K -= (K @ share)[:, None]
    if bool(xp.any(weight != 1.0)):
        root = xp.sqrt(weight)
        K *= root
        K *= root[:, None]
    return centre


def _leading(K: Array, n_components: int, solver: Solver) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues in falling order with their vectors; K is overwritten.

    The matrix stays where it is: Lanczos iterations send vectors, the full solver leading ones.
    """
    n_items = K.shape[0]
    if solver == "truncated" or (solver == "auto" and truncating_pays(n_items, n_components)):
        operator = LinearOperator(K.shape, lambda v: to_host(K @ like(v, K)), dtype=np.float64)
        found = _by_lanczos(K if is_on_host(K) else operator, n_items, n_components)
        if found is not None:
            return found
    values, vectors = largest_eigenpairs(K, n_components)
    return values[::-1], vectors[:, ::-1]


def _by_lanczos(
    K: FloatArray | LinearOperator, n_items: int, n_components: int
) -> tuple[FloatArray, FloatArray] | None:
    """Return the same by products with K; None where the spectrum is flat, and nothing is won."""
    start = np.random.default_rng(0).normal(size=n_items)  # the answer does not depend on it
    try:
        values, vectors = eigsh(K, k=n_components, which="LA", v0=start)
    except ArpackNoConvergence:
        return None
    return values[::-1], vectors[:, ::-1]


def _n_resolved(values: FloatArray) -> int:
    """Return how many values, in falling order, stand above rounding errors; refuse none at all."""
    n_kept = int(np.count_nonzero(values > max(RESOLVED * values[0], 0.0)))
    if n_kept == 0:
        raise InvalidInputError(
            "The rows of `X` must differ from each other: the centred kernel is zero everywhere, "
            "so there is no component. Check the features and the kernel."
        )
    return n_kept


def _refuse_indefinite(K: FloatArray) -> None:
    """Raise unless the centred kernel is positive semidefinite up to rounding errors."""
    shifted = K + INDEFINITE * np.abs(K).sum(axis=1).max() * np.eye(len(K))
    if dpotrf(shifted.T, lower=False, overwrite_a=True)[1] == 0:
        return
    values = eigh(K, eigvals_only=True, check_finite=False)
    if values[0] < -INDEFINITE * max(values[-1], -values[0]):
        raise InvalidInputError(
            "The centred kernel must be positive semidefinite: its smallest eigenvalue is "
            f"{values[0]:.3g}, the largest {values[-1]:.3g}. Use a valid kernel, or repair this "
            "one, for example by adding to its diagonal."
        )
