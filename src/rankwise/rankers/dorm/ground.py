"""Where DORM's ranking functions live: explicit features, or the span of a kernel."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, vstack

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.features.kernels import Kernel, Linear, Precomputed
from rankwise.features.maps import Basis, Expansion, FeatureMap, Identity, choose_basis
from rankwise.rankers.dorm.spaces import KernelSpace, LinearSpace, Space
from rankwise.selection.spaces import refuse_sparse
from rankwise.solve.spectra import refuse_indefinite_matrix

N_LANDMARKS = 300
"""Rows whose kernel functions span the preliminary ranking function of a kernel."""


@final
@dataclass(frozen=True, eq=False)
class Base:
    """What was learned before.

    Parameters
    ----------
    predictor, weights
        The function: a map, and weights of what it makes.
    point : (n_weights,)
        The same as a point of the space it was found in.
    scores : (n_items,)
        Its scores of all rows.
    """

    predictor: FeatureMap
    weights: FloatArray
    point: FloatArray
    scores: FloatArray


class Ground(ABC):
    """The items of a fit as the solver sees them."""

    predictor: FeatureMap
    """The map whose product with the folded weights gives scores."""

    @abstractmethod
    def space(self, rows: IntArray, starts: IntArray, base: Base | None) -> Space:
        """Return the space of functions over some items, query by query."""

    @abstractmethod
    def features(self, rows: IntArray) -> Matrix:
        """Return explicit features of items, all or such that come close."""

    @abstractmethod
    def squared_norm(self, rows: IntArray, beta: FloatArray) -> float:
        """Return the squared norm of the sum of items, each times its coefficient."""

    @abstractmethod
    def fold(self, point: FloatArray, rows: IntArray) -> FloatArray:
        """Turn a point of the space into weights of the predictor."""

    @abstractmethod
    def join(self, weights: FloatArray, base: Base) -> tuple[FeatureMap, FloatArray]:
        """Return the predictor and the weights of a function that was found from a base."""

    @abstractmethod
    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:
        """Return the scores of items under several points, (n_points, n_items)."""


@final
@dataclass(frozen=True, eq=False)
class Features(Ground):
    """Explicit features: the rows themselves, or those of chosen basis rows."""

    Z: Matrix
    map: FeatureMap
    predictor: FeatureMap

    def space(self, rows: IntArray, starts: IntArray, base: Base | None) -> Space:
        """Return linear functions."""
        return LinearSpace(self.features(rows), starts, None if base is None else base.point)

    def features(self, rows: IntArray) -> Matrix:
        """Return rows of Z, without a copy where these are all of them."""
        if len(rows) == self.Z.shape[0] and bool(np.all(np.diff(rows) == 1)):
            return self.Z
        return self.Z[rows]

    def squared_norm(self, rows: IntArray, beta: FloatArray) -> float:
        """Return the squared norm of a sum of rows."""
        v = self.features(rows).T @ beta
        return float(v @ v)

    def fold(self, point: FloatArray, rows: IntArray) -> FloatArray:  # noqa: ARG002
        """Return weights of features or of basis rows."""
        return self.map.fold(point)

    def join(self, weights: FloatArray, base: Base) -> tuple[FeatureMap, FloatArray]:  # noqa: ARG002
        """Return the weights as they are, which the base is part of."""
        return self.predictor, weights

    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:  # noqa: ARG002
        """Return inner products."""
        scores: FloatArray = (self.Z[of] @ points.T).T
        return scores


@final
@dataclass(frozen=True, eq=False)
class Kernels(Ground):
    """The full kernel matrix: one weight for each item."""

    kernel: Kernel
    X: Matrix
    predictor: FeatureMap

    @cached_property
    def matrix(self) -> FloatArray:
        """The kernel between all items."""
        K = self.kernel(self.X, self.X)
        if not self.kernel.is_trusted:
            refuse_indefinite_matrix(K)
        return K

    def space(self, rows: IntArray, starts: IntArray, base: Base | None) -> Space:
        """Return functions with a weight for each item."""
        scores = None if base is None else base.scores[rows]
        return KernelSpace(self.matrix[np.ix_(rows, rows)], starts, scores)

    def features(self, rows: IntArray) -> Matrix:
        """Return features spanned by the kernel functions of some of the items."""
        some = rows[np.linspace(0, len(rows) - 1, min(N_LANDMARKS, len(rows))).astype(np.intp)]
        landmarks = Basis.of(Precomputed(), self.matrix[np.ix_(some, some)])
        return landmarks.map(self.matrix[np.ix_(rows, some)])

    def squared_norm(self, rows: IntArray, beta: FloatArray) -> float:
        """Return the norm in the space of the kernel."""
        return float(beta @ (self.matrix[np.ix_(rows, rows)] @ beta))

    def fold(self, point: FloatArray, rows: IntArray) -> FloatArray:
        """Return a weight for each row of X, 0 for those that were not learned from."""
        weights = np.zeros(self.X.shape[0])
        weights[rows] = point
        return weights

    def join(self, weights: FloatArray, base: Base) -> tuple[FeatureMap, FloatArray]:
        """Put the rows of the base before those of X."""
        if not isinstance(base.predictor, Expansion) or isinstance(self.kernel, Precomputed):
            raise InvalidInputError(
                "`partial_fit` must be able to compute the kernel of new items with earlier ones: "
                f"got the kernel {self.kernel!r}. Use another, or fit to all items at once."
            )
        stack = vstack if issparse(self.X) else np.concatenate
        rows = stack([base.predictor.rows, self.X])
        return Expansion(self.kernel, rows), np.concatenate([base.weights, weights])

    def scores(self, points: FloatArray, rows: IntArray, of: IntArray) -> FloatArray:
        """Return sums of kernels."""
        return (self.matrix[np.ix_(of, rows)] @ points.T).T


def lay_ground(
    X: Matrix, kernel: Kernel, basis: int | ArrayLike | None, rng: np.random.Generator
) -> Ground:
    """Choose explicit features where there are any: the rows, or features of basis rows."""
    refuse_sparse(X, kernel)
    if basis is not None:
        return on_basis(X, Basis.of(kernel, choose_basis(basis, X, rng)))
    if isinstance(kernel, Linear):
        return Features(X, Identity(), Identity())
    return Kernels(kernel, X, Expansion(kernel, X))


def on_basis(X: Matrix, basis: Basis) -> Features:
    """Return the features that basis rows span."""
    return Features(basis.map(X), basis, basis.expansion)


def same_ground(X: Matrix, predictor: FeatureMap, *, has_basis: bool) -> Ground:
    """Return where a fitted function lives, with other rows."""
    if not isinstance(predictor, Expansion):
        return Features(X, Identity(), Identity())
    if has_basis:
        return on_basis(X, Basis.of(predictor.kernel, predictor.rows))
    return Kernels(predictor.kernel, X, Expansion(predictor.kernel, X))
