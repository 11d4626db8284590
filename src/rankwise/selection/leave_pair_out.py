"""Leave out two items of one global ranking, for every alpha and every pair."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, Self, final

import numpy as np
from scipy.linalg import solve
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from rankwise.core.arrays import FloatArray, IntArray, as_columns
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import Cost, PreferenceGraph, Ties, standard_query_weight
from rankwise.selection.complete_pairs import (
    EPS,
    TINY,
    TOO_FEW_OF_A_GRADE,
    complete_degree,
    decisive_items,
    direct_differences,
    largest_row_sum,
    leads_of_complete,
    leave_out_of_complete,
    leaves_nothing,
)
from rankwise.selection.holdouts import PairsHeldOut
from rankwise.selection.ties import credit_of, tie_share, zero_ties
from rankwise.solve.normal_equations import System

MOST_OPERATIONS = 1e13
"""Above this many operations per alpha, many minutes of work, leaving out pairs is refused."""

TOO_FEW_ITEMS = (
    "Leaving out pairs needs at least four items of different scores, so that there is something "
    "left to learn from. Give more items."
)


def leave_each_pair_out(
    space: FunctionSpace,
    data: TrainingData,
    alphas: FloatArray,
    *,
    cost: Cost,
    ties: Ties,
    query_weight: str,
    unweighted: Literal["skip", "judge"] = "skip",
) -> PairsHeldOut:
    """Leave out all pairs of items of different score, for every alpha and output.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved. For cost "magnitude" with ties kept or absent it is computed
        where its rows are, otherwise on the host.
    data : TrainingData
        Scored items of one query.
    alphas : (n_alphas,)
        The values of alpha.
    cost, ties, query_weight
        As in `RankRLS`.
    unweighted : {"skip", "judge"}
        Whether pairs with an item of weight 0, which no model learns from, are counted too; this
        takes one fit per item of weight above 0.

    Notes
    -----
    The closed forms need cost "magnitude" with ties kept or absent, or few grades. Only the former
    allows unequal weights, with query_weight "items". Anything else is refitted without each pair,
    which is exact too but takes O(n^2) fits.
    """
    rows = np.flatnonzero(data.weight > 0)
    if len(rows) < 4:
        raise InvalidInputError(TOO_FEW_ITEMS)
    options: dict[str, Any] = {"cost": cost, "ties": ties, "query_weight": query_weight}
    if len(rows) == data.n_items:
        return _weighted(space, data, rows, alphas, **options)
    counted = _weighted(space, data.take(rows), rows, alphas, **options)
    counted = counted.spread(rows, data.n_items)
    if unweighted == "skip":
        return counted
    Y = as_columns(data.scores)
    parts = [_unweighted(space, replace(data, y=y), rows, alphas, options) for y in Y.T]
    return counted.plus(parts[0].join_outputs(parts[1:]))


def _weighted(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    *,
    cost: Cost,
    ties: Ties,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out pairs of items of weight above 0, given as rows of the space."""
    Y, weight = as_columns(data.scores), data.weight
    form = pair_form(Y, weight, cost, ties, query_weight)
    if form == "complete":
        mus = alphas / complete_degree(query_weight, weight)
        found = leave_out_of_complete(space, rows, Y, weight, mus)
        depends = query_weight != "items"  # on the number of items: a fit to all has other mus
        return replace(found, weights=None) if depends else found
    space = space.on_host()
    if form == "grades":
        w = float(weight[0])
        parts = [leave_out_of_grades(space, rows, y, w, alphas, cost, query_weight) for y in Y.T]
    else:
        options = {"cost": cost, "ties": ties, "query_weight": query_weight}
        parts = [_refitted(space, replace(data, y=y), rows, alphas, options) for y in Y.T]
    return parts[0].join_outputs(parts[1:])


def pair_form(
    Y: FloatArray, weight: FloatArray, cost: Cost, ties: Ties, query_weight: str
) -> Literal["complete", "grades", "refits"]:
    """Return how pairs are left out: of a complete graph, of grades, or by refits."""
    is_equal = bool(np.all(weight == weight[0]))
    is_untied = all(len(np.unique(column)) == len(Y) for column in Y.T)
    is_complete = cost == "magnitude" and (ties == "keep" or is_untied)
    if is_complete and (is_equal or query_weight == "items"):
        return "complete"
    has_grades = cost != "relative" and ties == "drop" and is_equal and not is_untied
    return "grades" if has_grades else "refits"


def _refitted(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> PairsHeldOut:
    """Leave out all pairs of different score of a single output by fitting what remains."""
    y = data.scores
    right, total = np.zeros((2, len(alphas), data.n_items, 1))
    error, refits = _refits(space, data, rows, alphas, options)
    for pair, scores in refits:
        tied = zero_ties(scores[:, 0] - scores[:, 1], np.abs(scores).max(axis=1), error)
        credit = (1.0 + np.sign(tied) * np.sign(y[pair[0]] - y[pair[1]])) / 2.0
        right[:, pair, 0] += credit[:, None]
        total[:, pair, 0] += 1.0
    if not total.any():
        raise NothingToLearnError(TOO_FEW_ITEMS)
    return PairsHeldOut(right, total, error)


def _refits(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> tuple[FloatArray, Iterator[tuple[IntArray, FloatArray]]]:
    """Fit without each pair of different score: exact, O(n^2) fits.

    Returns
    -------
    error : (n_alphas,)
        The relative error of the refits, estimated by the condition of the fit to all items.
    refits : iterator
        Pairs that leave something to learn from, and their scores, (n_alphas, 2).
    """
    y, n_items = data.scores, data.n_items
    refuse_endless(n_items**2 / 2 * _operations_of_a_fit(space, n_items))

    def refits() -> Iterator[tuple[IntArray, FloatArray]]:
        for pair in map(np.array, combinations(range(n_items), 2)):
            if y[pair[0]] != y[pair[1]]:
                rest = np.delete(np.arange(n_items), pair)
                given = space, data, rest, rows[rest], rows[pair], alphas, options
                if (scores := _scores_without(*given)) is not None:
                    yield pair, scores

    return _rounding(space, data, rows, alphas, options), refits()


def _operations_of_a_fit(space: FunctionSpace, n_items: int) -> float:
    order = min(n_items, space.features().shape[1]) if space.is_explicit else n_items
    return n_items * float(order) ** 2


def _rounding(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray:
    """Estimate the relative error of refits by the condition of the fit to all items."""
    whole = System.of(PreferenceGraph.of(data, **options), space, rows).spectrum()
    return EPS / np.maximum(whole.rcond(alphas), TINY)


def _scores_without(
    space: FunctionSpace,
    data: TrainingData,
    rest: IntArray,
    rest_rows: IntArray,
    of: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray | None:
    """Return the scores of some rows for every alpha by a fit to the items ``rest`` only.

    None if nothing is left to learn.
    """
    try:
        graph = PreferenceGraph.of(data.take(rest), **options)
    except NothingToLearnError:
        return None
    solutions = System.of(graph, space, rest_rows).path(alphas, checked=False)[:, :, 0]
    return space.scores(solutions, rest_rows, of)


def _unweighted(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> PairsHeldOut:
    """Count the pairs with an item of weight 0, on which no model depends.

    A fit without each item of weight above 0 scores its pairs; one fit to all scores the pairs of
    two items of weight 0.
    """
    y, zero = data.scores, np.setdiff1d(np.arange(data.n_items), rows)
    refuse_endless(len(rows) * _operations_of_a_fit(space, len(rows)))
    right, total = np.zeros((2, len(alphas), data.n_items, 1))
    error = _rounding(space, data.take(rows), rows, alphas, options)

    def count(left_out: IntArray) -> None:
        rest = np.setdiff1d(rows, left_out)
        of = np.r_[left_out, zero]
        scores = _scores_without(space, data, rest, rest, of, alphas, options)
        if scores is None:
            return
        gap = y[of][:, None] - y[of]
        if len(left_out):  # pairs of this item only
            gap[1:, 1:] = 0.0
        for a, f in enumerate(scores):
            size = np.maximum(np.abs(f)[:, None], np.abs(f))
            right[a, of, 0] += credit_of(f[:, None] - f, size, gap, error[a]).sum(axis=1)
            total[a, of, 0] += np.count_nonzero(gap, axis=1)

    count(zero[:0])
    for row in rows:
        count(np.array([row]))
    return PairsHeldOut(right, total, error)


def pair_leads(
    space: FunctionSpace,
    data: TrainingData,
    alpha: float,
    *,
    cost: Cost,
    ties: Ties,
    query_weight: str,
    keep_equal: bool = False,
) -> FloatArray:
    """Return f_i - f_j for every pair of different score, by the model without i and j.

    Parameters
    ----------
    space, data, cost, ties, query_weight
        As in `leave_each_pair_out`, with a single output and weights above 0.
    alpha : float
        The regularisation.
    keep_equal : bool
        Whether to leave out pairs of equal score too; this needs cost "magnitude" and kept ties.

    Returns
    -------
    leads : (n_items, n_items)
        NaN for pairs of equal score unless they are kept, and if nothing is left to learn from.
    """
    y, rows, weight = data.scores, np.arange(data.n_items), data.weight
    form = pair_form(y[:, None], weight, cost, ties, query_weight)
    if form == "complete":
        mu = alpha / complete_degree(query_weight, weight)
        leads = leads_of_complete(space, rows, y, weight, mu)
        leads[leaves_nothing(len(y), decisive_items(y[:, None])[0])] = np.nan
        if keep_equal:
            np.fill_diagonal(leads, np.nan)
            return leads
    elif form == "grades":
        leads = leads_of_grades(space, rows, y, float(weight[0]), alpha, cost, query_weight)
    else:
        leads = np.full((len(y), len(y)), np.nan)
        options = {"cost": cost, "ties": ties, "query_weight": query_weight}
        error, refits = _refits(space, data, rows, np.array([alpha]), options)
        for (i, j), scores in refits:
            leads[i, j] = zero_ties(scores[0, 0] - scores[0, 1], np.abs(scores).max(), error[0])
            leads[j, i] = -leads[i, j]
    return np.where(y[:, None] == y, np.nan, leads)


# Items of one grade not joined: one inverse per pair of grades


def leave_out_of_grades(
    space: FunctionSpace,
    rows: IntArray,
    y: FloatArray,
    weight: float,
    alphas: FloatArray,
    cost: Cost,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out all pairs of different grade of a graph without pairs inside a grade.

    What remains depends only on the two grades, so one inverse per pair of grades and alpha serves
    all their pairs: O(k^2 n^3) per alpha with k grades; two grades need a single inverse.

    Notes
    -----
    [PTA09] Sect. 4.1 uses such estimates of the AUC.
    """
    n_grades = len(np.unique(y))
    refuse_endless(n_grades**2 / 2 * float(len(y)) ** 3)
    K = space.kernel_matrix(rows)
    largest = float(np.trace(K)) * len(y)
    right, total = np.zeros((2, len(alphas), len(y), 1))
    error = np.zeros(len(alphas))
    for a, alpha in enumerate(alphas.tolist()):
        for g, h, system, low, high in grade_systems(K, y, weight, alpha, cost, query_weight):
            if system.strength > largest:
                found = system.right_pairs_directly(K, low, high, y)
            else:
                found = system.right_pairs(low, high, g, h)
            error[a] = max(error[a], system.error)
            right[a, low, 0] += found.sum(axis=1)
            right[a, high, 0] += found.sum(axis=0)
            total[a, low, 0] += len(high)
            total[a, high, 0] += len(low)
    if not total.any():
        raise NothingToLearnError(TOO_FEW_OF_A_GRADE)
    return PairsHeldOut(right, total, error)


def grade_systems(
    K: FloatArray, y: FloatArray, weight: float, alpha: float, cost: Cost, query_weight: str
) -> Iterator[tuple[int, int, "GradeSystem", IntArray, IntArray]]:
    """Yield two grades, the system without one item of each, and the items of the two.

    Grades without which nothing is left to learn from are skipped.
    """
    values, grade = np.unique(y, return_inverse=True)
    gaps = values[:, None] - values
    targets = np.sign(gaps) if cost == "unit" else gaps  # [PTA09] (20), (21)
    counts = np.bincount(grade).astype(float)
    for g, h in combinations(range(len(counts)), 2):
        rest = counts.copy()
        rest[[g, h]] -= 1
        if np.count_nonzero(rest) < 2:
            continue
        masses = weight * rest
        omega = float(standard_query_weight(query_weight, masses.sum(), np.sum(masses**2)))
        strength = alpha / (omega * weight**2)
        system = GradeSystem.of(K, grade, rest, targets, strength)
        yield g, h, system, np.flatnonzero(grade == g), np.flatnonzero(grade == h)


@final
@dataclass(frozen=True, eq=False)
class GradeSystem:
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
    strength: float
    tie: float
    """What counts as a tie between scores."""

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
        # degree and mean target of an item of each grade, among the items that remain
        degree = rest.sum() - rest
        offset = (targets @ rest) / degree
        n_grades = len(rest)
        # inverse of K + strength / degree, and its condition number
        M = K.copy()
        M.flat[:: len(M) + 1] += strength / degree[grade]
        norm = largest_row_sum(M)
        factor, info = dpotrf(M.T, lower=False, overwrite_a=True, clean=False)
        rcond = dpocon(factor, norm, uplo="U")[0] if info == 0 else 0.0
        dpotri(factor, lower=False, overwrite_c=True)
        # the border, one column for each grade, and its Schur complement
        E = np.zeros((len(K), n_grades))
        E[np.arange(len(K)), grade] = 1.0 / degree[grade]
        inner = dsymm(1.0, M.T, E, lower=False)
        gamma = np.diag(rest / degree) + np.eye(n_grades) - 1.0 / (n_grades - 1)
        schur = gamma / strength - E.T @ inner
        # inverse and solution of the bordered system, block by block: hold-bordered
        across = solve(schur, inner.T, assume_a="sym").T
        B = M + across @ inner.T
        rhs = offset[grade]
        beta_rhs = -(rest / strength) * offset
        x = dsymm(1.0, M.T, rhs[:, None], lower=False)[:, 0] + across @ (inner.T @ rhs)
        x += across @ beta_rhs
        beta = across.T @ rhs + solve(schur, beta_rhs, assume_a="sym")
        # scores are equal if they differ by less than their rounding error
        error = EPS / max(rcond, TINY)
        tie = float(tie_share(error)) * float(np.abs(targets).max())
        return cls(B, across, x, beta, offset, degree, error, strength, tie)

    def leads(self, low: IntArray, high: IntArray, g: int, h: int) -> FloatArray:
        """Return f_i - f_j for i of grade g and j of grade h, by the model without both."""
        b, (i, j) = np.diagonal(self.B), np.ix_(low, high)
        b_i, b_j, b_ij = b[i], b[j], self.B[np.maximum(i, j), np.minimum(i, j)]
        x_i, x_j = self.x[low][:, None], self.x[high]
        det = b_i * b_j - b_ij**2
        r_i, r_j = (b_j * x_i - b_ij * x_j) / det, (b_i * x_j - b_ij * x_i) / det

        def score(grade: int, own: FloatArray) -> FloatArray:
            gone = self.across[low, grade][:, None] * r_i + self.across[high, grade] * r_j
            return self.offset[grade] - own + (self.beta[grade] - gone) / self.degree[grade]

        return score(g, r_i) - score(h, r_j)

    def right_pairs(self, low: IntArray, high: IntArray, g: int, h: int) -> FloatArray:
        """Return which pairs of the grades g < h are in the right order, (n_low, n_high)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a singular pair counts as wrong
            lead = self.leads(low, high, g, h)
        return np.where(np.abs(lead) <= self.tie, 0.5, lead < 0.0)

    def right_pairs_directly(
        self, K: FloatArray, low: IntArray, high: IntArray, y: FloatArray
    ) -> FloatArray:
        """Return the same if alpha is above the kernel: scores are far below the targets."""
        pairs = np.r_[low, high]
        B = np.tril(self.B) + np.tril(self.B, -1).T
        within = np.ix_(pairs, pairs)
        KB, Kx = K[pairs] @ B[:, pairs], K[pairs] @ self.x
        found = direct_differences(B[within], self.x[pairs, None], KB, Kx[:, None])(slice(None), 0)
        credit = credit_of(*found, y[pairs][:, None] - y[pairs], self.error)
        return credit[: len(low), len(low) :]


def leads_of_grades(
    space: FunctionSpace,
    rows: IntArray,
    y: FloatArray,
    weight: float,
    alpha: float,
    cost: Cost,
    query_weight: str,
) -> FloatArray:
    """Return the leads of a graph without pairs inside a grade, grade by grade."""
    K, leads = space.kernel_matrix(rows), np.full((len(y), len(y)), np.nan)
    for g, h, system, low, high in grade_systems(K, y, weight, alpha, cost, query_weight):
        found = system.leads(low, high, g, h)
        found[np.abs(found) <= system.tie] = 0.0
        leads[np.ix_(low, high)], leads[np.ix_(high, low)] = found, -found.T
    return leads


def refuse_endless(operations: float) -> None:
    """Refuse problems that would take hours."""
    if operations > MOST_OPERATIONS:
        raise InvalidInputError(
            "Leaving out pairs would take too long: this cost, these ties or these weights need "
            f"about {operations:.1g} operations per alpha. Use cost='magnitude' with ties='keep', "
            "which needs one inverse, or leave out queries."
        )
