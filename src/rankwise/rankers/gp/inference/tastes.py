"""Scores that persons share and what each adds: blocks by person, coupled through common scores.

A person's scores are h = f + g with f ~ N(0, K) common to all and g ~ N(0, K_2) of its own. The
answers of a person read the block of its own items only, so the precision of all weights is an
arrow: the blocks of persons on the diagonal, and the common weights as a border. Eliminating the
blocks costs O(m^3) for a person with m items, and what is left is a problem in the common scores.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.errors import NumericalError
from rankwise.rankers.gp.inference._kernels import squared_distances
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.inference.prior import INDEFINITE, Prior, WeightPosterior, pivoted_cholesky

GROWTH = 1.25
"""How much larger than the smallest block of a group its largest one is."""

GROUP_ENTRIES = 1 << 21
"""Numbers in the blocks of a group: 16 MB."""

RANK_TOL = 1e-10
"""Relative variance that a factor of the tastes may leave out."""


@final
@dataclass(frozen=True, eq=False)
class PersonGroup:
    """Hold persons that compared about equally many items, as blocks of one size.

    Parameters
    ----------
    persons : (n_persons,)
        Their numbers, from 1 on.
    items : (n_persons, size)
        Positions of the items they compared; ``n_items`` where a block is padded.
    answers : (n_answers,)
        The comparisons that are theirs.
    first, second : (n_answers,)
        Winner and loser, as positions in ``items.ravel()``.
    """

    persons: IntArray
    items: IntArray
    answers: IntArray
    first: IntArray
    second: IntArray

    @property
    def size(self) -> int:
        """Number of items in a block."""
        return self.items.shape[1]

    def laplacians(self, weight: FloatArray) -> FloatArray:
        """Return the Laplacian of every person, (n_persons, size, size), for all weights."""
        w = weight[self.answers]
        flat = sum_by(self._entries, np.concatenate([w, w, -w, -w]), self.items.size * self.size)
        return flat.reshape(-1, self.size, self.size)

    def adjoint(self, values: FloatArray) -> FloatArray:
        """Return what answers add to the scores of every person, (n_persons, size)."""
        own = values[self.answers]
        ends = np.append(self.first, self.second)
        flat = sum_by(ends, np.append(own, -own), self.items.size)
        return flat.reshape(self.items.shape)

    def blocks(self, K: FloatArray) -> FloatArray:
        """Return the parts of a matrix over all items that are the persons', 0 where padded."""
        wide = np.pad(K, ((0, 1), (0, 1)))
        return np.asarray(wide[self.items[:, :, None], self.items[:, None, :]])

    def scatter(self, blocks: FloatArray, n_items: int) -> FloatArray:
        """Add up blocks to a matrix over all items."""
        entries = self.items[:, :, None] * (n_items + 1) + self.items[:, None, :]
        flat = sum_by(entries.ravel(), blocks.ravel(), (n_items + 1) ** 2)
        return flat.reshape(n_items + 1, n_items + 1)[:n_items, :n_items]

    def scatter_rows(self, values: FloatArray, n_items: int) -> FloatArray:
        """Add up vectors of persons to one over all items."""
        return sum_by(self.items.ravel(), values.ravel(), n_items + 1)[:n_items]

    @cached_property
    def _entries(self) -> IntArray:
        """Where each answer stands in the Laplacians: twice on the diagonal, twice beside."""
        size, i, j = self.size, self.first, self.second
        a, b = i % size, j % size
        return np.concatenate([i * size + a, j * size + b, i * size + b, j * size + a])


def group_persons(
    comparisons: Comparisons, entries: int = GROUP_ENTRIES
) -> tuple[PersonGroup, ...]:
    """Put persons with about equally many items into groups. One sort.

    Parameters
    ----------
    comparisons : Comparisons
        All of them by known persons.
    entries : int
        Numbers in the blocks of a group, at most.
    """
    n_items, who = len(comparisons.items), comparisons.judges
    ends = np.stack([comparisons.pairs.first, comparisons.pairs.second])
    keys, place = np.unique(who * n_items + ends, return_inverse=True)
    place = place.reshape(2, -1)
    persons, start, sizes = np.unique(keys // n_items, return_index=True, return_counts=True)
    order = np.argsort(sizes, kind="stable")
    row_of = np.searchsorted(persons, who)
    groups = []
    while len(order):
        n_members = _group_length(sizes[order], entries)
        members, order = order[:n_members], order[n_members:]
        size = int(sizes[members].max())
        offset = np.arange(size)
        at = np.minimum(start[members][:, None] + offset, len(keys) - 1)
        items = np.where(offset < sizes[members][:, None], keys[at] % n_items, n_items)
        number = np.full(len(persons), -1)
        number[members] = np.arange(n_members)
        answers = np.flatnonzero(number[row_of] >= 0)
        row = row_of[answers]
        first, second = number[row] * size + place[:, answers] - start[row]
        groups.append(PersonGroup(persons[members], items, answers, first, second))
    return tuple(groups)


def _group_length(sizes: IntArray, most: int) -> int:
    """Return how many of the first persons, in ascending order of size, form a group."""
    alike = int(np.searchsorted(sizes, GROWTH * sizes[0], side="right"))
    entries = np.arange(1, alike + 1) * sizes[:alike].astype(float) ** 2
    return max(1, int(np.searchsorted(entries, most, side="right")))


@final
@dataclass(frozen=True, eq=False)
class Conditioned:
    """Hold what the answers of a group of persons say, given the common scores f.

    Parameters
    ----------
    L : (n_persons, size, size)
        The Laplacian of the sites of each.
    b : (n_persons, size)
        Their linear part.
    Y : (n_persons, rank, size)
        With g | f ~ N(G (b - L f), G) it is G = Y'Y.
    J : (n_persons, size, size)
        I - G L: what is left of f in the scores h.
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
        """What the answers say about f with the tastes averaged out: (L^-1 + K_2)^-1 = L J."""
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
        Of the common scores, with the items as its rows.
    groups : tuple of PersonGroup
    roots : tuple of (n_persons, size, rank)
        Factors of the tastes of every person.
    """

    prior: Prior
    groups: tuple[PersonGroup, ...]
    roots: tuple[FloatArray, ...]

    @classmethod
    def of(cls, prior: Prior, groups: tuple[PersonGroup, ...], K_tastes: FloatArray) -> Self:
        """Factorize the covariance of tastes between all compared items."""
        T, _, pivots = pivoted_cholesky(K_tastes, RANK_TOL)
        wide = np.vstack([T[np.argsort(pivots)], np.zeros(T.shape[1])])
        roots = [
            wide[group.items] if T.shape[1] <= group.size else _roots(group.blocks(K_tastes))
            for group in groups
        ]
        return cls(prior, groups, tuple(roots))

    @property
    def n_items(self) -> int:
        """Number of compared items."""
        return len(self.prior.R)

    @cached_property
    def rows(self) -> FloatArray:
        """The factor of the common scores in the order of the items, and a row of zeros."""
        rows = self.prior.R[np.argsort(self.prior.rows)]
        return np.vstack([rows, np.zeros(self.prior.rank)])

    def conditioned(self, tau: FloatArray, nu: FloatArray) -> list[Conditioned]:
        """Condition the tastes of all persons on sites, given once for each recorded answer."""
        count = self.prior.comparisons.count
        pairs = zip(self.groups, self.roots, strict=True)
        return [Conditioned.of(group, T, count * tau, count * nu) for group, T in pairs]

    def common_precision(self, known: list[Conditioned]) -> FloatArray:
        """Return what all answers say about the common scores, (n_items, n_items)."""
        n_items = self.n_items
        pairs = zip(self.groups, known, strict=True)
        return sum(
            (group.scatter(one.precision, n_items) for group, one in pairs),
            np.zeros((n_items, n_items)),
        )

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
            h = one.mean(f[group.items]).ravel()
            shared = (one.J @ V[group.items]).reshape(h.size, -1)
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
        R = self.rows[:-1]
        S = R.T @ (self.common_precision(known) @ R)
        S[np.diag_indices(self.prior.rank)] += 1.0
        C, info = dpotrf(S, lower=1)
        if info != 0 or not np.isfinite(C[-1, -1]):
            raise NumericalError(INDEFINITE)
        pairs = zip(self.groups, known, strict=True)
        b = sum(
            (group.scatter_rows(one.pull, self.n_items) for group, one in pairs),
            np.zeros(self.n_items),
        )
        u = dtrsv(C, R.T @ b, lower=1)
        return WeightPosterior(C, u, dtrsv(C, u, lower=1, trans=1), C.diagonal())

    def evidence_gradients(self, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of the evidence in the kernels of common scores and of tastes.

        It is M of `evidence_gradient` for all scores of all persons, added up: over all pairs of
        persons, and over every person alone.
        """
        known = self.conditioned(posterior.tau, posterior.nu)
        V = dtrsm(1.0, posterior.C, self.rows.T, lower=1).T
        f, n_items = self.rows @ posterior.w, self.n_items
        B, total = self.common_precision(known), np.zeros(n_items)
        by_tastes = np.zeros((n_items, n_items))
        for group, one in zip(self.groups, known, strict=True):
            alpha = one.b - np.einsum("pij,pj->pi", one.L, one.mean(f[group.items]))
            P = one.precision
            W = P @ V[group.items]
            M = alpha[:, :, None] * alpha[:, None, :] - P + W @ np.swapaxes(W, 1, 2)
            by_tastes += group.scatter(0.5 * M, n_items)
            total += group.scatter_rows(alpha, n_items)
        W = B @ V[:-1]
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
    """Return mean and covariance of the scores that a person gives to some items. O(n^3).

    Parameters
    ----------
    own : Comparisons
        Those of the person.
    sites : (tau, nu)
        Their sites, given once for each recorded answer.
    common : (mean, covariance)
        Of the common scores of the items asked about, followed by ``own.items``.
    K_tastes : (n_rows, n_rows)
        The covariance of the tastes of one person between the same rows.
    """
    (group,), n_own = group_persons(own), len(own.items)
    inner = K_tastes[-n_own:, -n_own:]
    tau, nu = (own.count * values for values in sites)
    known = Conditioned.of(group, _roots(group.blocks(inner)), tau, nu)
    K, cross = K_tastes[:-n_own, :-n_own], K_tastes[:-n_own, -n_own:]
    E = cross @ known.precision[0]
    A = np.hstack([np.eye(len(K)), -E])
    mean = A @ common[0] + cross @ known.pull[0]
    return mean, A @ common[1] @ A.T + K - E @ cross.T
