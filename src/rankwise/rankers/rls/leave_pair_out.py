"""Leave out pairs, for every alpha: two items of one global ranking, or one comparison."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self, final

import numpy as np
from scipy.linalg import solve
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from rankwise.core.arrays import FloatArray, IntArray, as_columns, dense_rows
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.threads import in_threads, n_threads
from rankwise.core.training_data import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import Cost, PreferenceGraph, Ties, pair_targets
from rankwise.graph.query_weights import standard_query_weight
from rankwise.rankers.closed_form import normal_equations
from rankwise.rankers.rls._kernels import complete_pairs, graded_pairs
from rankwise.selection.holdouts import EdgesHeldOut, PairsHeldOut
from rankwise.solve.normal_equations import Dual
from rankwise.solve.spectra import Spectrum

EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

MOST_OPERATIONS = 1e13
"""Above this many operations per alpha, many minutes of work, leaving out pairs is refused."""

ROWS = 256
"""Rows of a large matrix that are worked on together."""

TIE = 1e-12
"""Differences below this share of the largest score are rounding errors: a tie."""

BLOCK_PAIRS = 4096
"""Comparisons that are projected together."""


TOO_FEW_ITEMS = (
    "Leaving out pairs needs at least four items of different scores, so that something is left to "
    "learn from. Give more items."
)


def leave_pair_out(
    space: FunctionSpace,
    data: TrainingData,
    alphas: FloatArray,
    *,
    cost: Cost,
    ties: Ties,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out all pairs of items of different score, for every alpha and output.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    data : TrainingData
        Scored items of one query, of weights above 0.
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
    if data.n_items < 4:
        raise InvalidInputError(TOO_FEW_ITEMS)
    Y, weight = as_columns(data.scores), data.weight
    equal = bool(np.all(weight == weight[0]))
    untied = all(len(np.unique(column)) == len(Y) for column in Y.T)
    if cost == "magnitude" and (ties == "keep" or untied) and (equal or query_weight == "items"):
        return _complete(space, Y, weight, alphas / _complete_degree(query_weight, weight))
    if cost != "relative" and ties == "drop" and equal and not untied:
        w = float(weight[0])
        parts = [_graded(space, y, w, alphas, cost, query_weight) for y in Y.T]
    else:
        options = {"cost": cost, "ties": ties, "query_weight": query_weight}
        parts = [_refitted(space, replace(data, y=y), alphas, **options) for y in Y.T]
    return parts[0].join_outputs(parts[1:])


def _refuse_endless(operations: float) -> None:
    """Refuse what would keep the machine busy for hours."""
    if operations > MOST_OPERATIONS:
        raise InvalidInputError(
            "Leaving out pairs would take too long: this cost, these ties or these weights need "
            f"about {operations:.1g} operations per alpha. Use cost='magnitude' with ties='keep', "
            "which needs one inverse, or leave out queries."
        )


def _complete_degree(query_weight: str, weight: FloatArray) -> float:
    """Return omega times the mass of what remains without two items.

    It multiplies the weighted scatter around the mean; 1 for the query weight "items", whatever
    the two items. For the others the weights must be equal.
    """
    rest = weight[2:]
    mass = rest.sum()
    return float(standard_query_weight(query_weight, mass, np.sum(rest**2)) * mass)


def _complete(
    space: FunctionSpace, Y: FloatArray, weight: FloatArray, mus: FloatArray
) -> PairsHeldOut:
    """Leave out all pairs where every two items are joined, ties kept or absent.

    What remains is ridge regression with a free intercept whatever the pair, so that one inverse
    per alpha serves all pairs and outputs: O(n^3) per alpha, O(n^2 d) with d explicit features,
    then O(n^2) per output; no more than two matrices of n x n at a time.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    Y : (n_items, n_outputs)
        Scores.
    weight : (n_items,)
        Sample weights, above 0.
    mus : (n_alphas,)
        What multiplies the squared norm when the cost is the weighted scatter itself.

    Notes
    -----
    [PTA09] Sect. 3.4: the problem (34) with the graph (35), solved by (36). One 2 x 2 solve per
    pair takes the place of the rank-3 update (37), (38) and of its precomputed matrices (39).
    """
    tie = TIE * np.abs(Y).max(axis=0)
    inverse = _inverse_of(space, weight)
    parts = []
    for mu in mus:
        B, error = inverse(float(mu))
        A = dsymm(1.0, B.T, Y, lower=False)
        right, total, worst = _count(B, A, Y, tie)  # [PTA09] (38)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    return PairsHeldOut.stack(parts)


def _inverse_of(
    space: FunctionSpace, weight: FloatArray
) -> Callable[[float], tuple[FloatArray, float]]:
    if space.is_explicit:
        return _FeatureInverse.of(dense_rows(space.features()), weight)
    return _KernelInverse.of(space.kernel_matrix(), weight)


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


@final
@dataclass(frozen=True, eq=False)
class _KernelInverse:
    """Inverses for every mu from a kernel: the item part B of ``[K + mu / s, 1; 1', 0]^-1``.

    By a Cholesky inverse of the centred kernel.
    """

    K: FloatArray
    weight: FloatArray
    scale: float
    """Mean of the diagonal of K."""

    @classmethod
    def of(cls, K: FloatArray, weight: FloatArray) -> Self:
        """Centre a kernel matrix, which is overwritten."""
        means = K.mean(axis=0)
        K -= means
        K -= (means - means.mean())[:, None]
        return cls(K, weight, float(np.trace(K)) / len(K))

    def __call__(self, mu: float) -> tuple[FloatArray, float]:
        """Return B, of which the lower triangle is set, and its relative rounding error."""
        n_items = len(self.K)
        M = self.K + max(self.scale, mu) / n_items
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
        return M, EPS / max(rcond, TINY)


@final
@dataclass(frozen=True, eq=False)
class _FeatureInverse:
    """The same B times mu from explicit features: what the hat matrix H leaves, ``s - S H S``."""

    Z: FloatArray
    weight: FloatArray
    spectrum: Spectrum

    @classmethod
    def of(cls, Z: FloatArray, weight: FloatArray) -> Self:
        """Centre and decompose explicit features."""
        centred = (Z - weight @ Z / weight.sum()) * np.sqrt(weight)[:, None]
        spectrum = Spectrum.of(centred.T @ centred)
        return cls(centred @ spectrum.vectors, weight, spectrum)

    def __call__(self, mu: float) -> tuple[FloatArray, float]:
        """Return mu B and its relative rounding error."""
        root = np.sqrt(self.weight)
        half = self.Z / np.sqrt(self.spectrum.values + mu)
        B = half @ half.T
        B += np.outer(root, root) / self.weight.sum()
        np.negative(B, out=B)
        B.flat[:: len(B) + 1] += 1.0
        spare = max(float(np.diagonal(B).min()), TINY)
        B *= root[:, None]
        B *= root
        return B, float(EPS / min(spare, self.spectrum.rcond(np.array([mu]))[0]))


def _row_blocks(n_items: int) -> Iterator[slice]:
    """Cut rows into blocks, so that whole matrices need no second copy."""
    return (slice(start, start + ROWS) for start in range(0, n_items, ROWS))


def _largest_row_sum(M: FloatArray) -> float:
    return max(float(np.abs(M[rows]).sum(axis=1).max()) for rows in _row_blocks(len(M)))


def _graded(
    space: FunctionSpace,
    y: FloatArray,
    weight: float,
    alphas: FloatArray,
    cost: Cost,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out all pairs of different grade where pairs of one grade are not joined.

    What remains depends on the two grades only, so that one inverse per pair of grades and alpha
    serves all their pairs: O(k^2 n^3) per alpha with k grades; two grades need a single one.

    Notes
    -----
    [PTA09] Sect. 4.1 uses such estimates of the AUC.
    """
    values, grade = np.unique(y, return_inverse=True)
    gaps = values[:, None] - values
    targets = np.sign(gaps) if cost == "unit" else gaps  # [PTA09] (20), (21)
    counts = np.bincount(grade).astype(float)
    _refuse_endless(len(counts) ** 2 / 2 * float(len(y)) ** 3)
    K, tie = space.kernel_matrix(), TIE * float(np.abs(targets).max())
    right, total = np.zeros((2, len(alphas), len(y), 1))
    error = np.zeros(len(alphas))
    for g, h in combinations(range(len(counts)), 2):
        rest = counts.copy()
        rest[[g, h]] -= 1
        if np.count_nonzero(rest) < 2:
            continue
        low, high = np.flatnonzero(grade == g), np.flatnonzero(grade == h)
        for a, strength in enumerate(alphas / _pair_weight(query_weight, weight * rest, weight)):
            system = _GradeSystem.of(K, grade, rest, targets, float(strength))
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


def _pair_weight(query_weight: str, masses: FloatArray, weight: float) -> float:
    """Return the weight of a pair of items of equal weights, given the masses of the grades."""
    omega = standard_query_weight(query_weight, masses.sum(), np.sum(masses**2))
    return float(omega) * weight**2


@final
@dataclass(frozen=True, eq=False)
class _GradeSystem:
    """The bordered system of the items that remain, solved for all items.

    ``[K + a / d, -E / d; -E' / d, Gamma / a]`` with d the degree of each item, E the membership in
    grades and a the regularisation; leaving out a pair deletes its rows and columns
    (docs/theory/holdouts.rst, eqs. hold-bordered and hold-graded-pair).
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
        grade: IntArray,
        rest: FloatArray,
        targets: FloatArray,
        strength: float,
    ) -> Self:
        """Invert the system; ``rest`` counts the items that remain of each grade."""
        degree = rest.sum() - rest
        offset = (targets @ rest) / degree
        n_grades = len(rest)
        M = K.copy()
        M.flat[:: len(M) + 1] += strength / degree[grade]
        norm = _largest_row_sum(M)
        factor, info = dpotrf(M.T, lower=False, overwrite_a=True, clean=False)
        rcond = dpocon(factor, norm, uplo="U")[0] if info == 0 else 0.0
        dpotri(factor, lower=False, overwrite_c=True)
        E = np.zeros((len(K), n_grades))
        E[np.arange(len(K)), grade] = 1.0 / degree[grade]
        inner = dsymm(1.0, M.T, E, lower=False)
        gamma = np.diag(rest / degree) + np.eye(n_grades) - 1.0 / (n_grades - 1)
        schur = gamma / strength - E.T @ inner
        across = solve(schur, inner.T, assume_a="sym").T
        B = M + across @ inner.T
        rhs = offset[grade]
        beta_rhs = -(rest / strength) * offset
        x = dsymm(1.0, M.T, rhs[:, None], lower=False)[:, 0] + across @ (inner.T @ rhs)
        x += across @ beta_rhs
        beta = across.T @ rhs + solve(schur, beta_rhs, assume_a="sym")
        error = EPS / max(rcond, TINY)
        return cls(B, across, x, beta, offset, degree, error)

    def right_pairs(self, low: IntArray, high: IntArray, g: int, h: int, tie: float) -> FloatArray:
        """Return which pairs of the grades g < h come out right, (n_low, n_high)."""
        pair = [g, h]
        inverse_degree = 1.0 / self.degree[pair]
        return graded_pairs(
            self.B,
            self.x,
            np.ascontiguousarray(self.across[:, pair] * inverse_degree),
            self.beta[pair] * inverse_degree,
            self.offset[pair],
            low,
            high,
            tie,
        )


def _refitted(
    space: FunctionSpace, data: TrainingData, alphas: FloatArray, **options: Any
) -> PairsHeldOut:
    """Leave out all pairs of different score by fitting what remains: exact, O(n^2) fits.

    Parameters
    ----------
    space, data, alphas
        As in `leave_pair_out`, with a single output.
    **options
        Cost, ties and query weight of the graph.
    """
    y, n_items = data.scores, data.n_items
    order = min(n_items, space.features().shape[1]) if space.is_explicit else n_items
    _refuse_endless(n_items**3 / 2 * float(order) ** 2)
    right, total = np.zeros((2, len(alphas), n_items, 1))
    for i, j in combinations(range(n_items), 2):
        if y[i] == y[j]:
            continue
        difference = _difference(space, data, np.array([i, j]), alphas, options)
        if difference is None:
            continue
        tied = np.abs(difference) <= TIE * np.abs(y).max()
        credit = np.where(tied, 0.5, (difference > 0) == (y[i] > y[j]))
        right[:, [i, j], 0] += credit[:, None]
        total[:, [i, j], 0] += 1.0
    if not total.any():
        raise InvalidInputError(TOO_FEW_ITEMS)
    whole = normal_equations(space, PreferenceGraph.of(data, **options)).spectrum()
    return PairsHeldOut(right, total, EPS / np.maximum(whole.rcond(alphas), TINY))


def _difference(
    space: FunctionSpace,
    data: TrainingData,
    pair: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray | None:
    """Return f_i - f_j for every alpha without the pair, None if nothing is left to learn."""
    rest = np.delete(np.arange(data.n_items), pair)
    try:
        graph = PreferenceGraph.of(data.take(rest), **options)
    except NothingToLearnError:
        return None
    solutions = normal_equations(space, graph, rest).path(alphas)[:, :, 0]
    scores = space.scores(solutions, rest, pair)
    return scores[:, 0] - scores[:, 1]


def leave_edge_out(
    space: FunctionSpace, data: TrainingData, alphas: FloatArray, *, cost: Cost = "magnitude"
) -> EdgesHeldOut:
    r"""Predict each comparison from all the others.

    One comparison is one term of a least-squares sum, so its residual without it is its residual
    over :math:`1 - h_e`, with h its leverage; repeated comparisons are left out one copy at a time.
    Cost: one decomposition and one product of the projected comparisons.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    data : TrainingData
        The comparisons.
    alphas : (n_alphas,)
        The values of alpha.
    cost : {"magnitude", "unit", "relative"}
        As in `PreferenceGraph.from_pairs`.
    """
    pairs, margin, weight = data.comparisons
    margin, weight = pair_targets(cost, margin, weight)
    graph = PreferenceGraph.of(data, cost=cost)
    if not space.is_explicit:
        system = Dual.of(graph, space.kernel_matrix(), trusted=space.kernel_is_trusted)
        return _in_coordinates(system, pairs, margin, weight, alphas)
    Z, primal = space.features(), normal_equations(space, graph)
    spectrum = primal.spectrum()
    D = dense_rows(Z[pairs[:, 0]] - Z[pairs[:, 1]]) @ spectrum.vectors
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    predicted = D @ (inverse * (spectrum.vectors.T @ primal.rhs))
    spare = 1.0 - weight[:, None] * (D**2 @ inverse)
    return _without_edges(spectrum, alphas, margin, predicted, spare)


def _in_coordinates(
    system: Dual, pairs: IntArray, margin: FloatArray, weight: FloatArray, alphas: FloatArray
) -> EdgesHeldOut:
    """Work in the coordinates t of each comparison, ``R t = e_winner - e_loser``.

    With S = V diag(s) V' the leverage is ``w sum (V't)^2 s / (s + alpha)``; what is left of 1 is
    summed from positive parts, ``(1 - w t't) + w alpha sum (V't)^2 / (s + alpha)``.
    """
    spectrum = system.spectrum()
    n_pairs, n_items = len(pairs), system.root.to_items(np.zeros((system.root.rank, 1))).shape[0]
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    coef = spectrum.values[:, None] * inverse * (spectrum.vectors.T @ system.rhs)
    predicted, spare = np.empty((2, n_pairs, len(alphas)))
    for start in range(0, n_pairs, BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        T = spectrum.vectors.T @ system.root.solve(_incidence(pairs[block], n_items))
        w = weight[block, None]
        free = np.maximum(1.0 - w[:, 0] * np.einsum("ij,ij->j", T, T), 0.0)
        spare[block] = free[:, None] + w * alphas * ((T**2).T @ inverse)
        predicted[block] = T.T @ coef
    return _without_edges(spectrum, alphas, margin, predicted, spare)


def _incidence(pairs: IntArray, n_items: int) -> FloatArray:
    M = np.zeros((n_items, len(pairs)))
    M[pairs[:, 0], np.arange(len(pairs))] = 1.0
    M[pairs[:, 1], np.arange(len(pairs))] = -1.0
    return M


def _without_edges(
    spectrum: Spectrum,
    alphas: FloatArray,
    margin: FloatArray,
    predicted: FloatArray,
    spare: FloatArray,
) -> EdgesHeldOut:
    """Turn predictions with each comparison into those without it; ``spare`` is 1 - leverage."""
    residual = (margin[:, None] - predicted) / np.maximum(spare, TINY)
    error = EPS / np.maximum(np.minimum(spectrum.rcond(alphas), spare.min(axis=0)), TINY)
    return EdgesHeldOut((margin[:, None] - residual).T, error)
