"""Scores that persons share and what each adds: blocks by person, coupled through common scores.

A person's scores are h = f + g with f ~ N(0, K) common to all and g ~ N(0, K_2) the person's taste.
The answers of a person involve only the block of that person's items, so the precision of all
weights is an arrow: the blocks of persons on the diagonal, and the common weights as a border.
Eliminating the blocks costs O(m^3) for a person with m items, and leaves a problem in the common
scores.

If persons have features, or answers have covariates, f differs between rows of one item, but is
linear in these marks. All rows then follow from a few basis rows, and the problem is in their
scores.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf
from scipy.sparse import csr_array

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.posterior import Posterior
from rankwise.comparisons.gp.inference.prior import (
    INDEFINITE,
    Prior,
    WeightPosterior,
    pivoted_cholesky,
)
from rankwise.core.arrays import FloatArray, IntArray, first_equal, sum_by
from rankwise.core.errors import NumericalError
from rankwise.native.laplacians import squared_distances

GROWTH = 1.25
"""How much larger than the smallest block of a group its largest one is."""

GROUP_ENTRIES = 1 << 21
"""Numbers in the largest array of a group: 16 MB."""

RANK_TOL = 1e-10
"""Relative variance that a factor of the tastes may leave out."""


@final
@dataclass(frozen=True, eq=False)
class MarkedRows:
    """Hold compared rows as items with marks, in which the common scores are linear.

    Marks are the covariates of an answer and the features of its person, in units s. The score of
    item i with the marks m is (1 - sum_k m_k) f(i) + sum_k m_k f(i with s_k as its only mark): it
    follows from those of the basis, all items without marks and then all of them with each mark.

    Parameters
    ----------
    item : (n_rows,)
        The item of each row.
    n_items : int
    covariates : (n_rows, n_covariates)
        Marks of each row, the same for all persons.
    traits : (n_persons + 1, n_traits)
        Marks of every row seen by a person, by the number of the person.
    """

    item: IntArray
    n_items: int
    covariates: FloatArray
    traits: FloatArray

    @classmethod
    def plain(cls, comparisons: Comparisons) -> Self:
        """Return rows that are items without marks."""
        n_rows, n_persons = len(comparisons.items), int(comparisons.judges.max())
        none = np.zeros((n_rows, 0)), np.zeros((n_persons + 1, 0))
        return cls(np.arange(n_rows), n_rows, *none)

    @classmethod
    def of(cls, rows: FloatArray, n_columns: int, traits: FloatArray) -> tuple[Self, FloatArray]:
        """Separate items and marks, and return the rows of the basis too.

        Parameters
        ----------
        rows : (n_rows, n_features)
            In the first ``n_columns`` the item, then covariates, zeros for the traits, and a last
            column of zeros.
        n_columns : int
        traits : (n_persons + 1, n_traits)
        """
        n_covariates = rows.shape[1] - n_columns - traits.shape[1] - 1
        covariates = rows[:, n_columns : n_columns + n_covariates]
        units = np.append(_largest(covariates), _largest(traits))
        bare = rows.copy()
        bare[:, n_columns:] = 0.0
        first, item = np.unique(first_equal(bare), return_inverse=True)
        basis = np.tile(bare[first], (1 + len(units), 1, 1))
        for k, unit in enumerate(units):
            basis[1 + k, :, n_columns + k] = unit
        scaled = covariates / units[:n_covariates], traits / units[n_covariates:]
        return cls(item, len(first), *scaled), basis.reshape(-1, rows.shape[1])

    @property
    def n_basis(self) -> int:
        """Number of rows of the basis."""
        return self.n_items * (1 + self.covariates.shape[1] + self.traits.shape[1])

    def seen_by(self, persons: IntArray, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Return items (n_persons, size) and weights (n_persons, size, 1 + n_marks) of rows.

        Parameters
        ----------
        persons : (n_persons,)
        rows : (n_persons, size)
            The rows seen by each person, padded with ``n_rows``, which is item ``n_items``.
        """
        is_row = rows < len(self.item)
        at = np.where(is_row, rows, 0)
        traits = np.broadcast_to(self.traits[persons][:, None], (*rows.shape, self.traits.shape[1]))
        marks = np.concatenate([self.covariates[at], traits], axis=2)
        rest = 1.0 - marks.sum(axis=2, keepdims=True)
        weights = np.concatenate([rest, marks], axis=2) * is_row[:, :, None]
        return np.where(is_row, self.item[at], self.n_items), weights


def _largest(columns: FloatArray) -> FloatArray:
    """Return the largest absolute value of every column, 1 if all are 0."""
    sizes = np.abs(columns).max(axis=0)
    return np.where(sizes > 0.0, sizes, 1.0)


@final
@dataclass(frozen=True, eq=False)
class PersonGroup:
    """Hold persons who compared about equally many items, as blocks of one size.

    Parameters
    ----------
    persons : (n_persons,)
        Their numbers, from 1 on.
    n_items : int
        Number of items that all persons compared.
    items : (n_persons, size)
        The items of the rows they compared, padded with ``n_items``.
    weights : (n_persons, size, 1 + n_marks)
        The weights of the basis in the common score of each of these rows.
    answers : (n_answers,)
        Their comparisons.
    first, second : (n_answers,)
        Winner and loser, as positions in ``items.ravel()``.
    """

    persons: IntArray
    n_items: int
    items: IntArray
    weights: FloatArray
    answers: IntArray
    first: IntArray
    second: IntArray

    @property
    def size(self) -> int:
        """Number of rows in a block."""
        return self.items.shape[1]

    def laplacians(self, weight: FloatArray) -> FloatArray:
        """Return the Laplacian of every person, (n_persons, size, size), for all weights."""
        w = weight[self.answers]
        flat = sum_by(self._entries, np.concatenate([w, w, -w, -w]), self.items.size * self.size)
        return flat.reshape(-1, self.size, self.size)

    def adjoint(self, values: FloatArray) -> FloatArray:
        """Add up values of answers at the items of every person, (n_persons, size)."""
        own = values[self.answers]
        ends = np.append(self.first, self.second)
        flat = sum_by(ends, np.append(own, -own), self.items.size)
        return flat.reshape(self.items.shape)

    def blocks(self, K: FloatArray) -> FloatArray:
        """Return the blocks of the persons in a matrix over all items, padded with 0."""
        wide = np.pad(K, ((0, 1), (0, 1)))
        return np.asarray(wide[self.items[:, :, None], self.items[:, None, :]])

    def scatter(self, blocks: FloatArray) -> FloatArray:
        """Add up blocks to a matrix over all items."""
        return self._sum_at(self._item_pairs, blocks)

    def scatter_to_basis(self, blocks: FloatArray) -> FloatArray:
        """Add up symmetric blocks to a matrix over the basis: D'BD with D of `basis_weights`."""
        n_parts, n, pairs = self.weights.shape[2], self.n_items, self._item_pairs
        if n_parts == 1:  # items without marks: all weights are 1
            return self._sum_at(pairs, blocks)
        whole = np.empty((n_parts, n, n_parts, n))
        for k in range(n_parts):
            half = blocks * self.weights[:, :, None, k]
            for m in range(k + 1):
                part = self._sum_at(pairs, half * self.weights[:, None, :, m])
                whole[m, :, k], whole[k, :, m] = part.T, part
        return whole.reshape(n_parts * n, n_parts * n)

    @cached_property
    def basis_weights(self) -> csr_array:
        """The weights as a matrix D, (n_persons size, n_basis): the common scores are D f."""
        n_parts = self.weights.shape[2]
        item = np.minimum(self.items, self.n_items - 1)
        columns = item[:, :, None] + self.n_items * np.arange(n_parts)
        ends = n_parts * np.arange(self.items.size + 1)
        shape = self.items.size, n_parts * self.n_items
        return csr_array((self.weights.ravel(), columns.ravel(), ends), shape=shape)

    def at_rows(self, values: FloatArray) -> FloatArray:
        """Return the values of the basis at the rows of every person."""
        flat = self.basis_weights @ values
        return np.asarray(flat.reshape(*self.items.shape, *values.shape[1:]))

    def adjoint_at_rows(self, values: FloatArray) -> FloatArray:
        """Add up vectors of persons to one over the basis."""
        return np.asarray(self.basis_weights.T @ values.ravel())

    @property
    def _item_pairs(self) -> IntArray:
        """The position of each entry of the blocks in a matrix over all items and one more."""
        pairs = self.items[:, :, None] * (self.n_items + 1) + self.items[:, None, :]
        return pairs.ravel()

    def _sum_at(self, pairs: IntArray, blocks: FloatArray) -> FloatArray:
        n = self.n_items
        return sum_by(pairs, blocks.ravel(), (n + 1) ** 2).reshape(n + 1, n + 1)[:n, :n]

    @cached_property
    def _entries(self) -> IntArray:
        """The four entries of each answer in the Laplacians: two on the diagonal, two off it."""
        size, i, j = self.size, self.first, self.second
        a, b = i % size, j % size
        return np.concatenate([i * size + a, j * size + b, i * size + b, j * size + a])


@final
@dataclass(frozen=True, eq=False)
class Persons:
    """Hold who compared what.

    Parameters
    ----------
    groups : tuple of PersonGroup
    rows : MarkedRows
        What they compared.
    """

    groups: tuple[PersonGroup, ...]
    rows: MarkedRows


def group_persons(
    comparisons: Comparisons, rows: MarkedRows | None = None, entries: int = GROUP_ENTRIES
) -> Persons:
    """Group persons with about equally many rows, with one sort.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons, all by known persons.
    rows : MarkedRows, optional
        What ``comparisons.items`` are; by default items without marks.
    entries : int
        Largest number of entries in an array of a group.
    """
    rows = MarkedRows.plain(comparisons) if rows is None else rows
    n_rows, who = len(comparisons.items), comparisons.judges
    ends = np.stack([comparisons.pairs.first, comparisons.pairs.second])
    # the rows that each person was asked about, person by person
    keys, place = np.unique(who * n_rows + ends, return_inverse=True)
    place = place.reshape(2, -1)
    persons, start, sizes = np.unique(keys // n_rows, return_index=True, return_counts=True)
    order = np.argsort(sizes, kind="stable")
    row_of = np.searchsorted(persons, who)
    groups = []
    # groups of persons with about equally many rows, the fewest first
    while len(order):
        n_members = _group_length(sizes[order], rows.n_basis, entries)
        members, order = order[:n_members], order[n_members:]
        size = int(sizes[members].max())
        # the rows of every member, padded with one beyond the last
        offset = np.arange(size)
        at = np.minimum(start[members][:, None] + offset, len(keys) - 1)
        seen = np.where(offset < sizes[members][:, None], keys[at] % n_rows, n_rows)
        # the answers of the members, and where their two rows stand in the group's table
        number = np.full(len(persons), -1)
        number[members] = np.arange(n_members)
        answers = np.flatnonzero(number[row_of] >= 0)
        row = row_of[answers]
        first, second = number[row] * size + place[:, answers] - start[row]
        items, weights = rows.seen_by(persons[members], seen)
        who_and_what = persons[members], rows.n_items, items, weights
        groups.append(PersonGroup(*who_and_what, answers, first, second))
    return Persons(tuple(groups), rows)


def _group_length(sizes: IntArray, n_basis: int, most: int) -> int:
    """Return how many of the first persons, in ascending order of size, form a group."""
    alike = int(np.searchsorted(sizes, GROWTH * sizes[0], side="right"))
    of_one = sizes[:alike] * np.maximum(sizes[:alike], n_basis).astype(float)
    entries = np.arange(1, alike + 1) * of_one
    return max(1, int(np.searchsorted(entries, most, side="right")))


@final
@dataclass(frozen=True, eq=False)
class Conditioned:
    """Hold the conditional distribution of the tastes of a group, given the common scores f.

    Parameters
    ----------
    L : (n_persons, size, size)
        The Laplacian of the sites of each person.
    b : (n_persons, size)
        The linear part of the sites.
    Y : (n_persons, rank, size)
        A factor of G = Y'Y, where g | f ~ N(G (b - L f), G).
    J : (n_persons, size, size)
        I - G L: the weight of f in the scores h.
    u : (n_persons, rank)
    pivots : (n_persons, rank)
        Diagonals of the factors of I + T'LT.
    """

    L: FloatArray
    b: FloatArray
    Y: FloatArray
    J: FloatArray
    u: FloatArray
    pivots: FloatArray

    @classmethod
    def of(cls, group: PersonGroup, T: FloatArray, tau: FloatArray, nu: FloatArray) -> Self:
        """Condition the tastes T T' on sites, all persons together. O(size^3) each.

        Parameters
        ----------
        group : PersonGroup
        T : (n_persons, size, rank)
        tau, nu : (n_pairs,)
            Sites of all comparisons, times their counts.
        """
        L, b = group.laplacians(tau), group.adjoint(nu)
        transposed = np.swapaxes(T, 1, 2)
        A = transposed @ (L @ T)
        rank = T.shape[2]
        A[:, np.arange(rank), np.arange(rank)] += 1.0
        try:
            C = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            raise NumericalError(INDEFINITE) from None
        Y = np.linalg.solve(C, transposed)
        J = -(np.swapaxes(Y, 1, 2) @ (Y @ L))
        places = np.arange(group.size)
        J[:, places, places] += 1.0
        pivots = np.diagonal(C, axis1=1, axis2=2)
        return cls(L, b, Y, J, np.einsum("prs,ps->pr", Y, b), pivots)

    @property
    def precision(self) -> FloatArray:
        """The precision of f from these answers without tastes: (L^-1 + K_2)^-1 = L J."""
        return self.L @ self.J

    @property
    def pull(self) -> FloatArray:
        """The linear part of the same, J'b."""
        return np.einsum("pij,pi->pj", self.J, self.b)

    def mean(self, f: FloatArray) -> FloatArray:
        """Return the mean of the scores h of every person, given those of f."""
        return np.einsum("pij,pj->pi", self.J, f) + np.einsum("prs,pr->ps", self.Y, self.u)


@final
@dataclass(frozen=True, eq=False)
class TasteMoments:
    """Do what `moments_under` does for scores with tastes.

    Parameters
    ----------
    prior : Prior
        The prior of the common scores, with the basis as its rows.
    groups : tuple of PersonGroup
    roots : tuple of (n_persons, size, rank)
        Factors of the tastes of every person.
    """

    prior: Prior
    groups: tuple[PersonGroup, ...]
    roots: tuple[FloatArray, ...]

    @classmethod
    def of(cls, prior: Prior, groups: tuple[PersonGroup, ...], K_tastes: FloatArray) -> Self:
        """Factorize the covariance of tastes between all items."""
        T, _, pivots = pivoted_cholesky(K_tastes, RANK_TOL)
        wide = np.vstack([T[np.argsort(pivots)], np.zeros(T.shape[1])])
        roots = [
            wide[group.items] if T.shape[1] <= group.size else _roots(group.blocks(K_tastes))
            for group in groups
        ]
        return cls(prior, groups, tuple(roots))

    @cached_property
    def rows(self) -> FloatArray:
        """The factor of the common scores in the order of the basis."""
        return self.prior.R[np.argsort(self.prior.rows)]

    def conditioned(self, tau: FloatArray, nu: FloatArray) -> list[Conditioned]:
        """Condition the tastes of all persons on sites, given once for each recorded answer."""
        count = self.prior.comparisons.count
        pairs = zip(self.groups, self.roots, strict=True)
        return [Conditioned.of(group, T, count * tau, count * nu) for group, T in pairs]

    def common_precision(self, known: list[Conditioned]) -> FloatArray:
        """Return the precision of the common scores from all answers, (n_basis, n_basis)."""
        pairs = zip(self.groups, known, strict=True)
        parts = (group.scatter_to_basis(one.precision) for group, one in pairs)
        return sum(parts, np.zeros((len(self.rows), len(self.rows))))

    def __call__(
        self, tau: FloatArray, nu: FloatArray
    ) -> tuple[WeightPosterior, FloatArray, FloatArray]:
        """Return the common weights under sites, and mean and variance of every comparison."""
        known = self.conditioned(tau, nu)
        weights = self._common_weights(known)
        f = self.rows @ weights.w
        V = np.ascontiguousarray(dtrsm(1.0, weights.C, self.rows.T, lower=1).T)
        mean, variance = np.empty_like(tau), np.empty_like(tau)
        for group, one in zip(self.groups, known, strict=True):
            h = one.mean(group.at_rows(f)).ravel()
            shared = (one.J @ group.at_rows(V)).reshape(h.size, -1)
            own = np.swapaxes(one.Y, 1, 2).reshape(h.size, -1)
            ends = group.first, group.second
            mean[group.answers] = h[group.first] - h[group.second]
            parts = (squared_distances(np.ascontiguousarray(rows), *ends) for rows in (shared, own))
            variance[group.answers] = sum(parts)
        every_u = np.concatenate([weights.u, *(one.u.ravel() for one in known)])
        pivots = np.concatenate([weights.pivots, *(one.pivots.ravel() for one in known)])
        return WeightPosterior(weights.C, every_u, weights.w, pivots), mean, variance

    def _common_weights(self, known: list[Conditioned]) -> WeightPosterior:
        """Return the posterior of the common weights."""
        R = self.rows
        S = R.T @ (self.common_precision(known) @ R)
        S[np.diag_indices(self.prior.rank)] += 1.0
        C, info = dpotrf(S, lower=1)
        if info != 0 or not np.isfinite(C[-1, -1]):
            raise NumericalError(INDEFINITE)
        pairs = zip(self.groups, known, strict=True)
        parts = (group.adjoint_at_rows(one.pull) for group, one in pairs)
        b = sum(parts, np.zeros(len(R)))
        u = dtrsv(C, R.T @ b, lower=1)
        return WeightPosterior(C, u, dtrsv(C, u, lower=1, trans=1), C.diagonal())

    def evidence_gradients(self, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of the evidence in the kernels of common scores and of tastes.

        It is M of `evidence_gradient` for all scores of all persons, added up: over all pairs of
        persons to that of the basis, and over every person alone to that of the items.
        """
        known = self.conditioned(posterior.tau, posterior.nu)
        V = np.ascontiguousarray(dtrsm(1.0, posterior.C, self.rows.T, lower=1).T)
        f, n_items = self.rows @ posterior.w, self.groups[0].n_items
        B, total = self.common_precision(known), np.zeros(len(V))
        by_tastes = np.zeros((n_items, n_items))
        for group, one in zip(self.groups, known, strict=True):
            alpha = one.b - np.einsum("pij,pj->pi", one.L, one.mean(group.at_rows(f)))
            P = one.precision
            W = P @ group.at_rows(V)
            M = alpha[:, :, None] * alpha[:, None, :] - P + W @ np.swapaxes(W, 1, 2)
            by_tastes += group.scatter(0.5 * M)
            total += group.adjoint_at_rows(alpha)
        W = B @ V
        return 0.5 * (np.outer(total, total) - B + W @ W.T), by_tastes


def _roots(K: FloatArray) -> FloatArray:
    """Return a square factor of every matrix."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def scores_of_person(
    own: Comparisons,
    sites: tuple[FloatArray, FloatArray],
    common: tuple[FloatArray, FloatArray],
    K_tastes: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of a person's scores of some items, in O(n^3).

    Parameters
    ----------
    own : Comparisons
        The comparisons of the person.
    sites : (tau, nu)
        Their sites, given once for each recorded answer.
    common : (mean, covariance)
        Moments of the common scores of these items, followed by ``own.items``.
    K_tastes : (n_rows, n_rows)
        The covariance of the tastes of one person between the same rows.
    """
    (group,), n_own = group_persons(own).groups, len(own.items)
    inner = K_tastes[-n_own:, -n_own:]
    tau, nu = (own.count * values for values in sites)
    known = Conditioned.of(group, _roots(group.blocks(inner)), tau, nu)
    K, cross = K_tastes[:-n_own, :-n_own], K_tastes[:-n_own, -n_own:]
    E = cross @ known.precision[0]
    A = np.hstack([np.eye(len(K)), -E])
    mean = A @ common[0] + cross @ known.pull[0]
    return mean, A @ common[1] @ A.T + K - E @ cross.T
