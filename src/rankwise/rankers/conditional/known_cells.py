"""Known cells of a matrix of pairs, and products with the kernel of pairs over them alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.checks import as_floats
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import Array, blocks_of, like, to_host
from rankwise.core.queries import TrainingData
from rankwise.rankers.conditional.closed_form import KernelSpectrum


@final
@dataclass(frozen=True, eq=False)
class KnownCells:
    """The pairs of a condition and an item with known scores or comparisons.

    Parameters
    ----------
    row, column : (n_cells,)
        The condition and the item of each.
    shape : (n_conditions, n_items)
        Number of conditions and of items.
    values : (n_cells,)
        The given scores; zeros if comparisons are given instead.
    """

    row: IntArray
    column: IntArray
    shape: tuple[int, int]
    values: FloatArray

    @classmethod
    def of_scores(cls, y: Any, shape: tuple[int, int]) -> Self:
        """Read a matrix: NaN, or an entry that a sparse matrix does not store, is missing."""
        given = y if sparse.issparse(y) else as_floats("y", y, "numbers, a score for each pair")
        if given.shape != shape:
            raise InvalidInputError(
                "`y` must have a row for each condition and a column for each item: expected "
                f"{shape}, got {given.shape}."
            )
        if sparse.issparse(given):
            stored = sparse.coo_array(given)
            row, column, values = stored.row, stored.col, as_floats("y", stored.data)
        else:
            row, column = np.nonzero(~np.isnan(given))
            values = given[row, column]
        if not np.isfinite(values).all():
            raise InvalidInputError("`y` must be finite where it is known: got infinity.")
        return cls(row.astype(np.intp), column.astype(np.intp), shape, values)

    @property
    def n_cells(self) -> int:
        """Number of known pairs."""
        return len(self.row)

    @property
    def is_full(self) -> bool:
        """Whether every pair is known."""
        return self.n_cells == self.shape[0] * self.shape[1]

    def take(self, chosen: BoolArray) -> "KnownCells":
        """Keep some of the cells."""
        return KnownCells(self.row[chosen], self.column[chosen], self.shape, self.values[chosen])

    def training_data(self) -> TrainingData:
        """Return the scores, a query for each condition."""
        return TrainingData.of(self.n_cells, self.values, self.row)

    def spread(self, values: FloatArray) -> FloatArray:
        """Return a matrix with values in the known cells and zeros elsewhere."""
        out = np.zeros(self.shape)
        out[self.row, self.column] = values
        return out


@final
@dataclass(frozen=True, eq=False)
class PairKernels:
    """The kernels of conditions and of items, and how often they are decomposed: once.

    Parameters
    ----------
    K : (n_conditions, n_conditions)
        The kernel of the conditions.
    G : (n_items, n_items)
        The kernel of the items.
    sign : int
        0 for any relation, 1 for a symmetric and -1 for an antisymmetric one.
    where : array
        Large products are computed in its namespace, on its device.
    roots : pair of (n, d) or None
        Features of both sides whose products are K and G, where they are fewer than objects.
    """

    K: FloatArray
    G: FloatArray
    sign: int
    where: Array
    roots: tuple[FloatArray | None, FloatArray | None] = (None, None)

    @cached_property
    def in_place(self) -> tuple[Array, Array]:
        """Both kernels, on the device of the products."""
        return like(self.K, self.where), like(self.G, self.where)

    @cached_property
    def spectra(self) -> tuple[KernelSpectrum, KernelSpectrum]:
        """Their eigenvalues and eigenvectors."""
        K, G = self.in_place
        first = KernelSpectrum.of(K)
        return first, first if self.sign else KernelSpectrum.of(G)

    def scores(self, A: FloatArray) -> FloatArray:
        """Return the scores of all pairs for dual weights A."""
        K, G = self.in_place
        return to_host(K @ like(self.mirrored(A), K) @ G)

    def mirrored(self, A: FloatArray) -> FloatArray:
        """Return the part of dual weights that the relation allows."""
        return A if self.sign == 0 else (A + self.sign * A.T) / 2

    def size(self) -> float:
        """Return the largest kernel of a pair with itself."""
        return float(np.diagonal(self.K).max() * np.diagonal(self.G).max())


GATHERED = 20
"""A sum over rows that are gathered takes so many times as long as one inside a matrix product."""


@final
@dataclass(frozen=True, eq=False)
class VecTrick:
    r"""Scores of some pairs for weights of some: the generalised vec trick.

    With A the matrix of the weights and :math:`G = R R^\top` the scores of pairs (i, j) are
    :math:`k_i^\top (A R)\, r_j`. For N pairs that is O(N s + n^2 s) for s columns of R, or, if G
    has full rank, O(N (n + q)) with R = G and r_j a unit vector; docs/theory/conditional.rst,
    eq. pair-cells.

    Parameters
    ----------
    K : (n_left, n_left)
        The kernel of the side that is not factored.
    R : (n_right, s)
        The factor of the other one, or its kernel if ``is_factor`` is false.
    is_factor : bool
    is_swapped : bool
        Whether the side of the items is the one that is not factored.
    sign : int
        0 for any relation, 1 for a symmetric and -1 for an antisymmetric one.
    """

    K: FloatArray
    R: FloatArray
    is_factor: bool
    is_swapped: bool
    sign: int

    @classmethod
    def of(cls, kernels: PairKernels, cells: KnownCells) -> Self | None:
        """Return the cheapest way, None if that is the product of all pairs."""
        K, G, sign = kernels.K, kernels.G, kernels.sign
        first, second = kernels.spectra
        (n, q), n_known = cells.shape, cells.n_cells * (2 if sign else 1)
        r, s = first.rank, second.rank
        costs = {
            "all": float(n * q * (n + q)),
            "items": 2.0 * GATHERED * n_known * s + n * n * s,
            "conditions": 2.0 * GATHERED * n_known * r + q * q * r,
            "none": float(GATHERED * n_known * (n + q)),
        }
        cheapest = min(costs, key=costs.__getitem__)
        if cheapest == "all":
            return None
        if cheapest == "none":
            return cls(K, G, False, False, sign)
        if cheapest == "items":
            return cls(K, second.factor(), True, False, sign)
        return cls(G, first.factor(), True, True, sign)

    def scores_at(self, values: FloatArray, known: KnownCells, asked: KnownCells) -> FloatArray:
        """Return the scores of the pairs asked for, for weights of the known ones."""
        A = sparse.csr_array((values, (known.row, known.column)), shape=known.shape)
        if self.sign:
            A = (A + self.sign * A.T) / 2
        i, j = asked.row, asked.column
        if self.is_swapped:
            A, i, j = A.T, j, i
        left = A @ self.R
        # eq. pair-cells: either all k_i' A R first, or k_i and a column of A G for each pair
        left, right = (self.K @ left, self.R) if self.is_factor else (self.K, left.T)
        found = np.empty(len(i))
        for some in blocks_of(len(i), max(1, CELLS // left.shape[1])):
            np.einsum("ij,ij->i", left[i[some]], right[j[some]], out=found[some])
        return found


CELLS = 1 << 16
"""Numbers of gathered rows that are kept in cache."""
