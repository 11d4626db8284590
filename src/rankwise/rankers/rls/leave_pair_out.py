"""Leave out every pair of items of one global ranking, for every alpha."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from scipy.linalg import solve
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.threads import in_threads, n_threads
from rankwise.features.kernels import Precomputed
from rankwise.features.maps import Identity
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.rankers.rls._kernels import class_pairs, complete_pairs
from rankwise.selection.spaces import FeatureSpace, KernelSpace, Space, dense_rows
from rankwise.solve.spectra import Spectrum

MOST_OPERATIONS = 1e13
"""Above this many operations per alpha, many minutes of work, leaving out pairs is refused."""

ROWS = 256
"""Rows of a large matrix that are worked on together."""

TIE = 1e-12
"""Differences below this share of the largest score are rounding errors: a tie."""


def refuse_endless(operations: float) -> None:
    """Refuse what would keep the machine busy for hours."""
    if operations > MOST_OPERATIONS:
        raise InvalidInputError(
            "Leaving out pairs would take too long: this cost, these ties or these weights need "
            f"about {operations:.1g} operations per alpha. Use cost='magnitude' with ties='keep', "
            "which needs one inverse, or leave out queries."
        )


def leave_pair_out_complete(
    space: Space,
    Y: FloatArray,
    weight: FloatArray,
    mus: FloatArray,
) -> PairsHeldOut:
    """Leave out all pairs where every two items are joined, ties kept or absent.

    What remains is ridge regression with a free intercept whatever the pair, so that one inverse
    per alpha serves all pairs and outputs: O(n^3) per alpha, O(n^2 d) with d explicit features,
    then O(n^2) per output; no more than two matrices of n x n at a time.

    Parameters
    ----------
    space : Space
        Where the problem is solved.
    Y : (n_items, n_outputs)
        Scores.
    weight : (n_items,)
        Sample weights, above 0.
    mus : (n_alphas,)
        What multiplies the squared norm when the cost is the weighted scatter itself.

    Notes
    -----
    [PTA09] Sect. 3.4, (38), by one 2 x 2 solve per pair in place of the paper's longer form.
    """
    tie = TIE * np.abs(Y).max(axis=0)
    inverse = _inverse_of(space, weight)
    parts = []
    for mu in mus:
        B, error = inverse(float(mu))
        A = dsymm(1.0, B.T, Y, lower=False)
        right, total, worst = _count(B, A, Y, tie)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    return PairsHeldOut.stack(parts)


def _count(
    B: FloatArray, A: FloatArray, Y: FloatArray, tie: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Count all pairs, every thread taking rows that lie evenly apart."""
    n_tasks = n_threads()
    right, total = np.zeros((2, n_tasks, *Y.shape))
    worst = np.ones(n_tasks)

    def count(k: int) -> None:
        rows = np.arange(k, len(Y), n_tasks)
        worst[k] = complete_pairs(B, A, Y, tie, rows, right[k], total[k])

    in_threads(count, n_tasks)
    return right.sum(axis=0), total.sum(axis=0), float(worst.min())


def _inverse_of(space: Space, weight: FloatArray) -> Callable[[float], tuple[FloatArray, float]]:
    if isinstance(space, KernelSpace):
        return _KernelInverse.of(space, weight)
    assert isinstance(space, FeatureSpace)
    return _FeatureInverse.of(space, weight)


@final
@dataclass(frozen=True, eq=False)
class _KernelInverse:
    """B = [K + mu / s, 1; 1', 0]^-1, item part, by a Cholesky inverse of the centred kernel."""

    K: FloatArray
    weight: FloatArray
    level: float

    @classmethod
    def of(cls, space: KernelSpace, weight: FloatArray) -> Self:
        K = space.kernel(space.X, space.X)
        means = K.mean(axis=0)
        K -= means
        K -= (means - means.mean())[:, None]
        return cls(K, weight, float(np.trace(K)) / len(K))

    def __call__(self, mu: float) -> tuple[FloatArray, float]:
        n_items = len(self.K)
        M = self.K + max(self.level, mu) / n_items
        M.flat[:: n_items + 1] += mu / self.weight
        norm = _largest_row_sum(M)
        factor, info = dpotrf(M.T, lower=False, overwrite_a=True, clean=False)
        if info != 0:
            return np.full_like(M, np.nan), np.inf
        rcond, _ = dpocon(factor, norm, uplo="U")
        dpotri(factor, lower=False, overwrite_c=True)  # in place: the lower triangle of M
        ones = dsymm(1.0, M.T, np.ones((n_items, 1)), lower=False)[:, 0]
        scaled = ones / np.sqrt(ones.sum())
        for rows in _row_blocks(n_items):
            M[rows] -= scaled[rows, None] * scaled
        return M, np.finfo(float).eps / max(rcond, np.finfo(float).tiny)


@final
@dataclass(frozen=True, eq=False)
class _FeatureInverse:
    """The same times mu from explicit features: what the hat matrix leaves, s - S H S."""

    Z: FloatArray
    weight: FloatArray
    spectrum: Spectrum

    @classmethod
    def of(cls, space: FeatureSpace, weight: FloatArray) -> Self:
        Z = dense_rows(space.Z)
        centred = (Z - weight @ Z / weight.sum()) * np.sqrt(weight)[:, None]
        spectrum = Spectrum.of(centred.T @ centred)
        return cls(centred @ spectrum.vectors, weight, spectrum)

    def __call__(self, mu: float) -> tuple[FloatArray, float]:
        root = np.sqrt(self.weight)
        values = self.spectrum.values
        half = self.Z / np.sqrt(values + mu)
        B = half @ half.T
        B += np.outer(root, root) / self.weight.sum()
        np.negative(B, out=B)
        B.flat[:: len(B) + 1] += 1.0
        spare = max(float(np.diagonal(B).min()), np.finfo(float).tiny)
        B *= root[:, None]
        B *= root
        eps = np.finfo(float).eps
        return B, float(max(eps / spare, eps * (values[-1] + mu) / (values[0] + mu)))


def _row_blocks(n_items: int) -> Iterator[slice]:
    """Cut rows into blocks, so that whole matrices need no second copy."""
    return (slice(start, start + ROWS) for start in range(0, n_items, ROWS))


def _largest_row_sum(M: FloatArray) -> float:
    return max(float(np.abs(M[rows]).sum(axis=1).max()) for rows in _row_blocks(len(M)))


def leave_pair_out_graded(
    K: FloatArray,
    level: IntArray,
    targets: FloatArray,
    strengths: Callable[[FloatArray], FloatArray],
) -> PairsHeldOut:
    """Leave out all pairs of different grade where pairs of one grade are not joined.

    What remains depends on the two grades only, so that one inverse per pair of grades and alpha
    serves all their pairs: O(k^2 n^3) per alpha with k grades; two grades need a single one.

    Parameters
    ----------
    K : (n_items, n_items)
        Kernel matrix.
    level : (n_items,)
        Grades, numbered from 0 by rising score.
    targets : (n_grades, n_grades)
        Target difference z of two grades.
    strengths : function of the counts of the grades that remain
        What multiplies the squared norm when the cost is the plain sum over pairs, per alpha.

    Notes
    -----
    [PTA09] Sect. 4.1 uses such estimates of the AUC; the bordered system is derived in
    docs/theory/holdouts.rst, eqs. hold-bordered and hold-graded-pair.
    """
    counts = np.bincount(level).astype(float)
    n_grades = len(counts)
    refuse_endless(n_grades**2 / 2 * float(len(level)) ** 3)
    tie = TIE * float(np.abs(targets).max())
    jobs = [(g, h) for g in range(n_grades) for h in range(g + 1, n_grades)]
    n_alphas = len(strengths(counts))
    right, total = np.zeros((2, n_alphas, len(level), 1))
    error = np.zeros(n_alphas)
    for g, h in jobs:
        rest = counts.copy()
        rest[[g, h]] -= 1
        if np.count_nonzero(rest) < 2:
            continue
        low, high = np.flatnonzero(level == g), np.flatnonzero(level == h)
        for a, strength in enumerate(strengths(rest)):
            system = _GradeSystem.of(K, level, rest, targets, float(strength))
            found = system.right_pairs(low, high, g, h, tie)
            error[a] = max(error[a], system.error)
            right[a, low, 0] += found.sum(axis=1)
            right[a, high, 0] += found.sum(axis=0)
            total[a, low, 0] += len(high)
            total[a, high, 0] += len(low)
    if not total.any():
        raise InvalidInputError(
            "Leaving out pairs needs at least two items of each of two grades, so that something "
            "is left to learn from. Give more items."
        )
    return PairsHeldOut(right, total, error)


@final
@dataclass(frozen=True, eq=False)
class _GradeSystem:
    """The bordered system of the items that remain, solved for all items.

    ``[K + a / d, -E / d; -E' / d, Gamma / a]`` with d the degree of each item, E the membership in
    grades and a the regularisation; leaving out a pair deletes its rows and columns.
    """

    B: FloatArray
    across: FloatArray
    x: FloatArray
    beta: FloatArray
    offset: FloatArray
    degree: FloatArray
    error: float

    @classmethod
    def of(
        cls,
        K: FloatArray,
        level: IntArray,
        rest: FloatArray,
        targets: FloatArray,
        strength: float,
    ) -> Self:
        degree = rest.sum() - rest
        offset = (targets @ rest) / degree
        n_grades = len(rest)
        M = K.copy()
        M.flat[:: len(M) + 1] += strength / degree[level]
        norm = _largest_row_sum(M)
        factor, info = dpotrf(M.T, lower=False, overwrite_a=True, clean=False)
        rcond = dpocon(factor, norm, uplo="U")[0] if info == 0 else 0.0
        dpotri(factor, lower=False, overwrite_c=True)
        E = np.zeros((len(K), n_grades))
        E[np.arange(len(K)), level] = 1.0 / degree[level]
        inner = dsymm(1.0, M.T, E, lower=False)
        gamma = np.diag(rest / degree) + np.eye(n_grades) - 1.0 / (n_grades - 1)
        schur = gamma / strength - E.T @ inner
        across = solve(schur, inner.T, assume_a="sym").T
        B = M + across @ inner.T
        rhs = offset[level]
        beta_rhs = -(rest / strength) * offset
        x = dsymm(1.0, M.T, rhs[:, None], lower=False)[:, 0] + across @ (inner.T @ rhs)
        x += across @ beta_rhs
        beta = across.T @ rhs + solve(schur, beta_rhs, assume_a="sym")
        error = np.finfo(float).eps / max(rcond, np.finfo(float).tiny)
        return cls(B, across, x, beta, offset, degree, error)

    def right_pairs(self, low: IntArray, high: IntArray, g: int, h: int, tie: float) -> FloatArray:
        """Return which pairs of the grades g < h come out right, (n_low, n_high)."""
        pair = [g, h]
        inverse_degree = 1.0 / self.degree[pair]
        return class_pairs(
            self.B,
            self.x,
            np.ascontiguousarray(self.across[:, pair] * inverse_degree),
            self.beta[pair] * inverse_degree,
            self.offset[pair],
            low,
            high,
            tie,
        )


def leave_pair_out_refitted(
    space: Space, y: FloatArray, weight: FloatArray, alphas: FloatArray, **options: Any
) -> PairsHeldOut:
    """Leave out all pairs of different score by fitting what remains: exact, O(n^2) fits.

    Parameters
    ----------
    space, weight, alphas
        As in `pairs_held_out`.
    y : (n_items,)
        Scores.
    **options
        Cost, ties and query weight of the graph.
    """
    K = _products(space)
    refuse_endless(len(y) ** 3 / 2 * float(min(K.shape)) ** 2)
    right, total = np.zeros((2, len(alphas), len(y), 1))
    for i in range(len(y)):
        for j in range(i):
            if y[i] == y[j]:
                continue
            difference = _difference(space, K, y, weight, alphas, np.array([i, j]), options)
            if difference is None:
                continue
            tied = np.abs(difference) <= TIE * np.abs(y).max()
            credit = np.where(tied, 0.5, (difference > 0) == (y[i] > y[j]))
            right[:, [i, j], 0] += credit[:, None]
            total[:, [i, j], 0] += 1.0
    if not total.any():
        raise InvalidInputError(
            "Leaving out pairs needs at least four items of different scores, so that something is "
            "left to learn from. Give more items."
        )
    return PairsHeldOut(right, total, _error(space, y, weight, alphas, options))


def _error(
    space: Space,
    y: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray:
    """Estimate the rounding errors of the refits from the spectrum of the whole problem."""
    graph = PreferenceGraph.from_scores(y, sample_weight=weight, **options)
    values = space.system(graph).spectrum().values
    return np.finfo(float).eps * (values[-1] + alphas) / (values[0] + alphas)


def _products(space: Space) -> FloatArray:
    """Return the kernel matrix or the features: what both training and prediction need."""
    if isinstance(space, KernelSpace):
        return space.kernel(space.X, space.X)
    assert isinstance(space, FeatureSpace)
    return dense_rows(space.Z)


def _difference(
    space: Space,
    K: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
    pair: IntArray,
    options: dict[str, Any],
) -> FloatArray | None:
    """Return f_i - f_j for every alpha without the pair, None if nothing is left to learn."""
    rest = np.delete(np.arange(len(y)), pair)
    try:
        graph = PreferenceGraph.from_scores(y[rest], sample_weight=weight[rest], **options)
    except NothingToLearnError:
        return None
    some: Space
    if isinstance(space, KernelSpace):
        some = KernelSpace(Precomputed(), K[np.ix_(rest, rest)], Identity())
        rows = K[pair][:, rest]
    else:
        some, rows = FeatureSpace(K[rest], Identity(), Identity()), K[pair]
    solutions = some.system(graph).path(alphas)[:, :, 0]
    return solutions @ (rows[0] - rows[1])


def pairs_held_out(
    space: Space,
    Y: FloatArray,
    weight: FloatArray,
    alphas: FloatArray,
    *,
    cost: str,
    ties: str,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out all pairs of different score, for every alpha and output.

    Parameters
    ----------
    space : Space
        Where the problem is solved.
    Y : (n_items, n_outputs)
        Scores.
    weight : (n_items,)
        Sample weights, above 0.
    alphas : (n_alphas,)
        The values of alpha.
    cost, ties, query_weight
        As in `RankRLS`.

    Notes
    -----
    The closed forms need cost "magnitude" with ties kept or absent, or few grades; unequal weights
    are understood by the former with query_weight "items" only. Anything else is refitted without
    each pair, which is exact as well but takes O(n^2) fits.
    """
    equal = bool(np.all(weight == weight[0]))
    untied = all(len(np.unique(column)) == len(Y) for column in Y.T)
    if cost == "magnitude" and (ties == "keep" or untied) and (equal or query_weight == "items"):
        mus = alphas * _complete_factor(query_weight, weight)
        return leave_pair_out_complete(space, Y, weight, mus)
    if cost != "relative" and ties == "drop" and equal and not untied:
        parts = [
            _graded(space, column, alphas, float(weight[0]), cost, query_weight) for column in Y.T
        ]
    else:
        options = {"cost": cost, "ties": ties, "query_weight": query_weight}
        parts = [leave_pair_out_refitted(space, y, weight, alphas, **options) for y in Y.T]
    return parts[0].beside(parts[1:])


def _complete_factor(query_weight: str, weight: FloatArray) -> float:
    """Return mu / alpha when the cost is written as a weighted scatter around the mean."""
    left = len(weight) - 2
    factors = {"items": 1.0, "pairs": 1 / (left * weight[0]), "equal": weight[0] * (left - 1) / 2}
    return float(factors[query_weight])


def _graded(
    space: Space, y: FloatArray, alphas: FloatArray, weight: float, cost: str, query_weight: str
) -> PairsHeldOut:
    values, level = np.unique(y, return_inverse=True)
    gaps = values[:, None] - values
    targets = np.sign(gaps) if cost == "unit" else gaps

    def strengths(rest: FloatArray) -> FloatArray:
        n_left = rest.sum()
        n_pairs = (n_left**2 - np.sum(rest**2)) / 2
        factors = {"items": n_left / weight, "pairs": weight**-2, "equal": n_pairs}
        return alphas * factors[query_weight]

    return leave_pair_out_graded(_kernel_matrix(space), level, targets, strengths)


def _kernel_matrix(space: Space) -> FloatArray:
    if isinstance(space, KernelSpace):
        return space.kernel(space.X, space.X)
    assert isinstance(space, FeatureSpace)
    Z = dense_rows(space.Z)
    Z = Z - Z.mean(axis=0)
    return Z @ Z.T
