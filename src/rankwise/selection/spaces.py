"""The space in which a least-squares ranking problem is solved, and the way back to weights."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.features.kernels import Kernel, Linear
from rankwise.features.maps import Basis, Expansion, FeatureMap, Identity, choose_basis
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.normal_equations import Dual, Primal, System, moment


class Space(ABC):
    """Where the unknowns of a problem live."""

    predictor: FeatureMap
    """The map whose product with the folded weights gives scores."""

    @abstractmethod
    def system(self, graph: PreferenceGraph) -> System:
        """Return the normal equations of a graph in this space."""

    @abstractmethod
    def fold(self, W: FloatArray) -> FloatArray:
        """Turn the weights that a system returns into weights of the predictor."""


@final
@dataclass(frozen=True, eq=False)
class FeatureSpace(Space):
    """Explicit features as unknowns: the rows themselves or a subset of regressors."""

    Z: Matrix
    map: FeatureMap
    predictor: FeatureMap

    def system(self, graph: PreferenceGraph) -> Primal:
        """Return the primal normal equations."""
        return Primal.of(graph, self.Z)

    def fold(self, W: FloatArray) -> FloatArray:
        """Return weights of features or of basis rows."""
        return self.map.fold(W)


@final
@dataclass(frozen=True, eq=False)
class KernelSpace(Space):
    """Coordinates of the graph as unknowns, one weight per item in the end."""

    kernel: Kernel
    X: Matrix
    predictor: FeatureMap

    def system(self, graph: PreferenceGraph) -> Dual:
        """Return the dual normal equations; the kernel matrix is formed here and given away."""
        return Dual.of(graph, self.kernel(self.X, self.X), trusted=self.kernel.is_trusted)

    def fold(self, W: FloatArray) -> FloatArray:
        """Return weights of items, or of features where the kernel is linear."""
        if isinstance(self.predictor, Identity):
            return moment(self.X, W, np.zeros(len(W), dtype=np.intp))
        return W


def dense_rows(Z: Matrix) -> FloatArray:
    """Return rows as a dense array of double precision, without a copy where they are one."""
    return Z.toarray() if sparse.issparse(Z) else np.asarray(Z, dtype=float)


def smallest_space(
    X: Matrix,
    kernel: Kernel,
    basis: int | ArrayLike | None,
    rank: int,
    rng: np.random.Generator,
) -> Space:
    """Return the space of the fewest unknowns: features, basis rows, or items minus queries."""
    refuse_sparse(X, kernel)
    if basis is not None:
        chosen = Basis.of(kernel, choose_basis(basis, X, rng))
        return FeatureSpace(chosen.map(X), chosen, chosen.expansion)
    if not isinstance(kernel, Linear):
        return KernelSpace(kernel, X, Expansion(kernel, X))
    if X.shape[1] <= rank:
        return FeatureSpace(X, Identity(), Identity())
    centred = X if sparse.issparse(X) else X - X.mean(axis=0, dtype=float)
    return KernelSpace(kernel, centred, Identity())


def refuse_sparse(X: Matrix, kernel: Kernel) -> None:
    """Refuse sparse rows where a kernel does not understand them."""
    if sparse.issparse(X) and not kernel.accepts_sparse:
        raise InvalidInputError(
            f"The kernel {kernel!r} must have dense rows: got a sparse X. "
            "Use X.toarray(), or a kernel that takes sparse rows."
        )


def explicit_space(
    X: Matrix, kernel: Kernel, basis: int | ArrayLike | None, rng: np.random.Generator
) -> FeatureSpace:
    """Return explicit features: the rows themselves, those of a basis, or the empirical kernel map.

    Without a basis a kernel takes all rows for one, O(n^3): [PTA09] Sect. 4.2.
    """
    refuse_sparse(X, kernel)
    if basis is not None:
        chosen = Basis.of(kernel, choose_basis(basis, X, rng))
        return FeatureSpace(chosen.map(X), chosen, chosen.expansion)
    if isinstance(kernel, Linear):
        return FeatureSpace(X, Identity(), Identity())
    full = Basis.of(kernel, X)
    return FeatureSpace(full.own_features(), full, full.expansion)
