"""Closed forms for a full matrix of scores: its ranking function and its hold-outs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.namespaces import (
    Array,
    blocks_of,
    copy_of,
    eigh_in_place,
    like,
    namespace_of,
    to_host,
)
from rankwise.selection.ties import equal_ties
from rankwise.solve.normal_equations import refuse_indefinite

Relation: TypeAlias = Literal["any", "symmetric", "antisymmetric"]
New: TypeAlias = Literal["conditions", "items", "both", "cells"]

SIGNS: dict[str, int] = {"symmetric": 1, "antisymmetric": -1}
"""What exchanging the two objects of a pair does to its score."""

EPS = float(np.finfo(float).eps)


@final
@dataclass(frozen=True, eq=False)
class KernelSpectrum:
    """The eigenvalues of a kernel matrix, on the host, and its eigenvectors, in their namespace."""

    values: FloatArray
    vectors: Array

    @classmethod
    def of(cls, K: Array) -> Self:
        """Decompose a matrix in its namespace; refuse one that is not semidefinite."""
        found, vectors = eigh_in_place(copy_of(K))
        values = to_host(found)
        refuse_indefinite(values[0], values[-1])
        return cls(np.maximum(values, 0.0), vectors)

    @classmethod
    def of_root(cls, root: Array) -> Self:
        """Return the part of ``root @ root.T`` that is not 0, in O(n d^2) for d columns."""
        U, s, _ = namespace_of(root).linalg.svd(root, full_matrices=False)
        values = to_host(s)[::-1].copy() ** 2
        return cls(values, like(to_host(U)[:, ::-1], root))

    @property
    def rank(self) -> int:
        """Number of eigenvalues above the rounding errors of the largest."""
        return int(np.sum(self.values > len(self.values) * EPS * self.values[-1]))

    def factor(self) -> FloatArray:
        """Return a root of the matrix on the host, (n, rank)."""
        kept = len(self.values) - self.rank
        found: FloatArray = to_host(self.vectors)[:, kept:] * np.sqrt(self.values[kept:])
        return found


def centred(targets: Array) -> Array:
    """Return rows without their means."""
    return targets - namespace_of(targets).mean(targets, axis=1, keepdims=True)


class PairSpectrum(ABC):
    r"""The solutions of ``min |(Y - F) C|^2 + alpha |f|^2`` for every alpha, C centring rows.

    F are the scores of all pairs of training objects, :math:`F = K A G` with dual weights A.
    """

    @abstractmethod
    def weights(self, alpha: float) -> FloatArray:
        """Return the dual weights A, (n_conditions, n_items)."""

    @abstractmethod
    def scores(self, alpha: float, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left @ A @ right`` on the host, where A need not go."""

    @abstractmethod
    def rounding(self, alpha: float) -> float:
        """Return the share of a score that rounding may cost."""


BLOCKS = 1 << 22
"""Entries of the blocks that leave cells out, of as many conditions as this holds at a time."""


@final
@dataclass(frozen=True, eq=False)
class ProductSpectrum(PairSpectrum):
    r"""Any relation: :math:`A = U \frac{U^\top Y C V}{k g^\top + \alpha} V^\top`.

    With :math:`K = U k U^\top` and :math:`C G C = V g V^\top`; docs/theory/conditional.rst,
    eq. pair-closed. In two steps, by eq. pair-two-step, the denominator is
    :math:`(k + \alpha)(g + \beta)^\top`.

    Parameters
    ----------
    rows, columns : KernelSpectrum
        The spectra of K and of the centred G.
    targets : (n_conditions, n_items)
        ``U' Y C V``.
    size : float
        The norm of G, not centred: rounding errors of scores are measured by it.
    item_alpha : float or None
        The regularisation of the items in two steps; None for one.
    """

    rows: KernelSpectrum
    columns: KernelSpectrum
    targets: Array
    size: float
    item_alpha: float | None

    @classmethod
    def of(
        cls,
        rows: KernelSpectrum,
        G: FloatArray,
        Y: FloatArray,
        item_alpha: float | None,
        columns: KernelSpectrum | None = None,
    ) -> Self:
        """Build from the spectrum of K, the kernel of the items, and centred targets.

        ``columns`` is the spectrum of the centred G, by default found here.
        """
        if columns is None:
            columns = KernelSpectrum.of(like(centred(centred(G).T), rows.vectors))
        targets = rows.vectors.T @ like(Y, rows.vectors) @ columns.vectors
        return cls(rows, columns, targets, float(np.linalg.norm(G)), item_alpha)

    def _inverse(self, alpha: float) -> Array:
        k, g = (like(one.values, one.vectors) for one in (self.rows, self.columns))
        if self.item_alpha is None:
            return 1.0 / (k[:, None] * g + alpha)
        return 1.0 / ((k[:, None] + alpha) * (g + self.item_alpha))

    def _weights(self, alpha: float) -> Array:
        inner = self.targets * self._inverse(alpha)
        return self._without_means(self.rows.vectors @ inner)

    def _without_means(self, rotated: Array) -> Array:
        """Return ``rotated @ V'`` with rows that sum to 0, as A = A C does.

        The vector 1 is one of many eigenvectors of the eigenvalue 0 of C G C, and rounding mixes
        it with the others: a remainder of it, however small, would be multiplied by the mean of G.
        """
        return centred(rotated @ self.columns.vectors.T)

    def weights(self, alpha: float) -> FloatArray:
        """Return the dual weights."""
        return to_host(self._weights(alpha))

    def scores(self, alpha: float, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left @ A @ right``."""
        A = self._weights(alpha)
        return to_host(like(left, A) @ A @ like(right, A))

    def scores_without_row(self, alpha: float, right: FloatArray) -> FloatArray:
        r"""Return, for each condition, the scores of items learned without that condition.

        Row i of P is :math:`K_{i,-i} A^{(-i)}`, so that its product with the kernel of items gives
        the scores of condition i by a model that has not seen it: eq. pair-row-out.
        O(n q (n + q)).
        """
        # eq. pair-row-out, in eigenvectors of both kernels
        U, inverse = self.rows.vectors, self._inverse(alpha)
        k = like(self.rows.values, U)[:, None]
        squares, inner = U * U, self.targets * inverse
        share = (U @ inner) / (squares @ inverse)  # the dual weights of the condition itself
        P = U @ (k * inner) - (squares @ (k * inverse)) * share
        return to_host(self._without_means(P) @ like(right, U))

    def scores_without_cells(
        self, alpha: float, G: FloatArray, out: IntArray, change: FloatArray
    ) -> FloatArray:
        r"""Return the scores of some items for each condition, learned without those cells of it.

        Eq. pair-cells-out: O(n |U|^2 (g + |U|)) for |U| items and a kernel of items of rank g.

        Parameters
        ----------
        alpha : float
            Regularisation.
        G : (n_items, n_items)
            The kernel of the items, not centred.
        out : (n_out,)
            The items U, not all of them.
        change : (n_conditions, n_items)
            By how much the targets of a condition change where these items of it are left out;
            entries of U do not matter.
        """
        U, xp, n_items = self.rows.vectors, namespace_of(self.rows.vectors), len(G)
        large = self.columns.values * self.rows.values[-1] > EPS * alpha
        at, large = like(out, U), like(np.flatnonzero(large), U)
        g = like(self.columns.values, U)
        k, inverse = like(self.rows.values, U)[:, None], self._inverse(alpha)
        V = centred(self.columns.vectors.T).T
        # weights and scores of these cells, with the targets of the kept items
        E = (U * U) @ (k * inverse)
        moved, A = like(change, U) @ V, self._weights(alpha)
        left, images = V[at, :], (like(G, U) @ V)[at, :]
        weights = A[:, at] + ((1.0 - E * g) / alpha * moved) @ left.T
        scores = (U @ (k * (U.T @ A)) @ like(G, U))[:, at] + (E * moved) @ images.T
        # blocks of alpha B: as many equations as cells of a condition leave
        few, shares = left[:, large], (E * g)[:, large]
        joined = like(np.eye(len(out)) - 1.0 / n_items, U)
        for rows in blocks_of(len(U), max(1, BLOCKS // (len(out) * n_items))):
            B = joined - (few * shares[rows, None, :]) @ few.T
            share = alpha * xp.linalg.solve(B, weights[rows, :, None])[:, :, 0]
            scores[rows] -= ((share @ left) * E[rows]) @ images.T
        return to_host(scores)

    def rounding(self, alpha: float) -> float:
        """Return the share of a score that rounding may cost."""
        if self.item_alpha is None:
            return EPS * (self.rows.values[-1] * self.size / alpha + 1.0)
        return EPS * (self.rows.values[-1] / alpha + 1.0) * (self.size / self.item_alpha + 1.0)


@final
@dataclass(frozen=True, eq=False)
class SwapSpectrum(PairSpectrum):
    r"""Relations between objects of one kind with :math:`f(v, u) = \pm f(u, v)`.

    In eigenvectors of K the weights are :math:`\bigl(N + \tfrac12 (z u^\top \pm u z^\top)\bigr) /
    (k k^\top + \alpha)`, N the (anti)symmetric part of the targets, u the vector of ones; z solves
    as many equations as there are objects: docs/theory/conditional.rst, eq. pair-swap.

    Parameters
    ----------
    objects : KernelSpectrum
        The spectrum of K.
    targets : (n_objects, n_objects)
        The symmetric or antisymmetric part of ``U' Y C U``.
    ones : (n_objects,)
        ``U' 1 / sqrt(n)``.
    sign : int
        1 or -1.
    """

    objects: KernelSpectrum
    targets: FloatArray
    ones: FloatArray
    sign: int

    @classmethod
    def of(cls, K: Array, Y: FloatArray, sign: int) -> Self:
        """Build from the kernel of the objects and centred targets."""
        found = KernelSpectrum.of(K)
        targets = to_host(found.vectors.T @ like(Y, found.vectors) @ found.vectors)
        objects = KernelSpectrum(found.values, to_host(found.vectors))
        ones = objects.vectors.sum(axis=0) / np.sqrt(len(K))
        return cls(objects, (targets + sign * targets.T) / 2, ones, sign)

    def weights(self, alpha: float) -> FloatArray:
        """Return the dual weights, which are symmetric or antisymmetric."""
        k, u, s = self.objects.values, self.ones, self.sign
        inverse = 1.0 / (np.outer(k, k) + alpha)
        # the equations of z, eq. pair-swap
        ku = k * u
        equations = -0.5 * s * np.outer(ku, ku) * inverse
        equations[np.diag_indices_from(equations)] += 1.0 - 0.5 * k * (inverse @ (ku * u))
        z = np.linalg.solve(equations, k * ((self.targets * inverse) @ ku))
        # dual weights in eigenvectors of K, rotated back
        correction = np.outer(z, u) + s * np.outer(u, z)
        inner = (self.targets + 0.5 * correction) * inverse
        found: FloatArray = self.objects.vectors @ inner @ self.objects.vectors.T
        return found

    def scores(self, alpha: float, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return ``left @ A @ right``."""
        return left @ self.weights(alpha) @ right

    def rounding(self, alpha: float) -> float:
        """Return the share of a score that rounding may cost."""
        return EPS * (self.objects.values[-1] ** 2 / alpha + 1.0)


@final
@dataclass(frozen=True, eq=False)
class FullRelation:
    """A full matrix of scores with the kernels of both sides.

    Parameters
    ----------
    K : (n_conditions, n_conditions)
        The kernel of the conditions.
    G : (n_items, n_items)
        The kernel of the items.
    Y : (n_conditions, n_items)
        The given scores.
    sign : int
        0 for any relation, 1 for a symmetric and -1 for an antisymmetric one.
    targets : function
        Maps scores to centred targets of the differences.
    factor : function
        Returns the factor of the loss of a row, from its number of items.
    where : array
        Kernels are decomposed in its namespace, on its device; for any relation, all products are
        computed there too.
    item_alpha : float or None
        The regularisation of the items in two steps; None for one.
    roots : pair of (n, d) or None
        Features of both sides whose products are K and G, where they are fewer than objects.
    """

    K: FloatArray
    G: FloatArray
    Y: FloatArray
    sign: int
    targets: Callable[[FloatArray], FloatArray]
    factor: Callable[[int], float]
    where: Array
    item_alpha: float | None = None
    roots: tuple[FloatArray | None, FloatArray | None] = (None, None)

    def spectrum(self) -> PairSpectrum:
        """Return the spectrum, which gives the solution for every alpha."""
        if self.sign:
            return SwapSpectrum.of(like(self.K, self.where), self.targets(self.Y), self.sign)
        # scores need the part of the weights in the range of both kernels, and no more
        left, right = self.roots
        rows, columns = self._rows() if left is None else self._of_root(left), None
        if right is not None:
            columns = self._of_root(right - right.mean(axis=0))
        return self._product(rows, self.G, self.Y, columns)

    def _of_root(self, root: FloatArray) -> KernelSpectrum:
        return KernelSpectrum.of_root(like(root, self.where))

    def _product(
        self,
        rows: KernelSpectrum,
        G: FloatArray,
        Y: FloatArray,
        columns: KernelSpectrum | None = None,
    ) -> ProductSpectrum:
        beta = self.item_alpha
        beta = None if beta is None else beta / self.factor(Y.shape[1])
        return ProductSpectrum.of(rows, G, self.targets(Y), beta, columns)

    def shares(self, alphas: FloatArray, n_items: int) -> FloatArray:
        """Return alphas for losses of rows without their factor; in two steps items have it."""
        return alphas / self.factor(n_items) if self.item_alpha is None else alphas

    def _rows(self) -> KernelSpectrum:
        return KernelSpectrum.of(like(self.K, self.where))

    def leaves_out(self, new: New) -> bool:
        """Return whether there is a closed form.

        Cells have one where a row weighs the same without them, and where no other cell says the
        same as they do, as in a symmetric relation. In two steps nothing else has one.
        """
        n_items = self.Y.shape[1]
        if self.item_alpha is not None:
            return new != "cells"
        return new != "cells" or (
            self.sign == 0 and self.factor(n_items) == self.factor(2 * n_items)
        )

    def hold_out(self, new: New, fold: IntArray, alphas: FloatArray) -> "PairsOut":
        """Return the scores of every cell by a model that has not seen what will be new.

        Parameters
        ----------
        new : {"conditions", "items", "both", "cells"}
            What the model has not seen. Conditions are left out one by one, unless they are the
            same objects as the items and are left out in the same folds; cells in folds of the
            items of one condition, see `leaves_out`.
        fold : (n_items,)
            The items that are left out together.
        alphas : (n_alphas,)
            The grid.
        """
        if self.sign:
            return self._objects_out(new, fold, alphas)
        if new == "conditions":
            return self._conditions_out(alphas)
        if new == "cells":
            return self._cells_out(fold, alphas)
        return self._items_out(fold, alphas, both=new == "both")

    def _conditions_out(self, alphas: FloatArray) -> "PairsOut":
        spectrum = self._product(self._rows(), self.G, self.Y)
        at = self.shares(alphas, self.Y.shape[1])
        scores = np.stack([spectrum.scores_without_row(alpha, self.G) for alpha in at])
        return PairsOut(scores, self._conditions(), _rounding([spectrum], at))

    def _cells_out(self, fold: IntArray, alphas: FloatArray) -> "PairsOut":
        targets = self.targets(self.Y)
        spectrum = self._product(self._rows(), self.G, self.Y)
        scores = np.empty((len(alphas), *self.Y.shape))
        for number in np.unique(fold):
            out, kept = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            change = -targets
            change[:, kept] += self.targets(self.Y[:, kept])
            for at_alpha, alpha in enumerate(alphas / self.factor(self.Y.shape[1])):
                found = spectrum.scores_without_cells(alpha, self.G, out, change)
                scores[at_alpha][:, out] = found
        group = self._conditions() * (int(fold.max()) + 1) + fold
        at = alphas / self.factor(self.Y.shape[1])
        return PairsOut(scores, group, _rounding([spectrum], at))

    def _items_out(self, fold: IntArray, alphas: FloatArray, *, both: bool) -> "PairsOut":
        rows, spectra = self._rows(), []
        scores = np.empty((len(alphas), *self.Y.shape))
        # a spectrum of the kept items for each fold; that of the conditions serves all
        for number in np.unique(fold):
            out, kept = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            inner = self.G[np.ix_(kept, kept)]
            spectrum = self._product(rows, inner, self.Y[:, kept])
            spectra.append(spectrum)
            for at_alpha, alpha in enumerate(self.shares(alphas, len(kept))):
                right = self.G[np.ix_(kept, out)]
                scores[at_alpha][:, out] = (
                    spectrum.scores_without_row(alpha, right)
                    if both
                    else spectrum.scores(alpha, self.K, right)
                )
        # scores are comparable within a condition and a fold of items
        group = self._conditions() * (int(fold.max()) + 1) + fold
        return PairsOut(scores, group, _rounding(spectra, self.shares(alphas, self.Y.shape[1])))

    def _objects_out(self, new: New, fold: IntArray, alphas: FloatArray) -> "PairsOut":
        spectra: list[PairSpectrum] = []
        scores = np.full((len(alphas), *self.Y.shape), np.nan)
        # objects leave on both sides: a spectrum of the kept objects for each fold
        for number in np.unique(fold):
            out, kept = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            inner = np.ix_(kept, kept)
            K = like(self.K[inner], self.where)
            spectrum = SwapSpectrum.of(K, self.targets(self.Y[inner]), self.sign)
            spectra.append(spectrum)
            # the cells whose new side is the one to judge
            left, right = kept if new == "items" else out, kept if new == "conditions" else out
            for at_alpha, alpha in enumerate(alphas / self.factor(len(kept))):
                first, second = self.K[np.ix_(left, kept)], self.K[np.ix_(kept, right)]
                scores[at_alpha][np.ix_(left, right)] = spectrum.scores(alpha, first, second)
        group = self._conditions() * (int(fold.max()) + 1) + (fold if new == "items" else 0)
        return PairsOut(scores, group, _rounding(spectra, alphas / self.factor(self.Y.shape[1])))

    def _conditions(self) -> IntArray:
        n_conditions, n_items = self.Y.shape
        return np.repeat(np.arange(n_conditions), n_items).reshape(self.Y.shape)


@final
@dataclass(frozen=True, eq=False)
class PairsOut:
    """Scores from models that have not seen what they score.

    Parameters
    ----------
    scores : (n_alphas, n_conditions, n_items)
        The held-out scores; NaN if a cell is not held out.
    group : (n_conditions, n_items)
        Cells with the same number are scored by one model and belong to one condition.
    error : (n_alphas,)
        The share of a score that rounding may cost.
    """

    scores: FloatArray
    group: IntArray
    error: FloatArray

    def tied(self) -> Self:
        """Return the scores with ties inside groups made equal."""
        flat = self.scores.reshape(len(self.scores), -1, 1)
        known = np.isfinite(flat[0, :, 0])
        scores = equal_ties(flat, np.where(known, self.group.ravel(), -1), self.error)
        return replace(self, scores=scores.reshape(self.scores.shape))


def _rounding(spectra: Sequence[PairSpectrum], alphas: FloatArray) -> FloatArray:
    return np.array([max(spectrum.rounding(alpha) for spectrum in spectra) for alpha in alphas])
