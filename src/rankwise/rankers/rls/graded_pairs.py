"""Pairs left out where items of one grade are not joined: one inverse per pair of grades."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Self, final

import numpy as np
from scipy.linalg import solve
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import Cost
from rankwise.graph.query_weights import standard_query_weight
from rankwise.rankers.rls._kernels import graded_pairs
from rankwise.rankers.rls.complete_pairs import (
    EPS,
    TIE,
    TINY,
    TOO_FEW_OF_A_GRADE,
    credit_of,
    held_out_differences,
    largest_row_sum,
)
from rankwise.selection.holdouts import PairsHeldOut

MOST_OPERATIONS = 1e13
"""Above this many operations per alpha, many minutes of work, leaving out pairs is refused."""


def leave_out_of_grades(
    space: FunctionSpace,
    rows: IntArray,
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
    n_grades = len(np.unique(y))
    refuse_endless(n_grades**2 / 2 * float(len(y)) ** 3)
    K = space.kernel_matrix(rows)
    largest = float(np.trace(K)) * len(y)
    right, total = np.zeros((2, len(alphas), len(y), 1))
    error = np.zeros(len(alphas))
    for a, alpha in enumerate(alphas.tolist()):
        for g, h, system, low, high in _grade_systems(K, y, weight, alpha, cost, query_weight):
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


def _grade_systems(
    K: FloatArray, y: FloatArray, weight: float, alpha: float, cost: Cost, query_weight: str
) -> Iterator[tuple[int, int, "_GradeSystem", IntArray, IntArray]]:
    """Yield two grades, the system without one item of each, and the items of the two.

    Grades without which nothing is left to learn from are passed over.
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
        strength = alpha / _pair_weight(query_weight, weight * rest, weight)
        system = _GradeSystem.of(K, grade, rest, targets, strength)
        yield g, h, system, np.flatnonzero(grade == g), np.flatnonzero(grade == h)


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
        degree = rest.sum() - rest
        offset = (targets @ rest) / degree
        n_grades = len(rest)
        M = K.copy()
        M.flat[:: len(M) + 1] += strength / degree[grade]
        norm = largest_row_sum(M)
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
        tie = TIE * float(np.abs(targets).max())
        return cls(B, across, x, beta, offset, degree, error, strength, tie)

    def leads(self, low: IntArray, high: IntArray, g: int, h: int) -> FloatArray:
        """Return f_i - f_j for i of grade g and j of grade h, by the model without both."""
        b, B = np.diagonal(self.B), np.tril(self.B) + np.tril(self.B, -1).T
        b_i, b_j, b_ij = b[low][:, None], b[high], B[np.ix_(low, high)]
        x_i, x_j = self.x[low][:, None], self.x[high]
        det = b_i * b_j - b_ij**2
        r_i, r_j = (b_j * x_i - b_ij * x_j) / det, (b_i * x_j - b_ij * x_i) / det

        def score(grade: int, own: FloatArray) -> FloatArray:
            gone = self.across[low, grade][:, None] * r_i + self.across[high, grade] * r_j
            return self.offset[grade] - own + (self.beta[grade] - gone) / self.degree[grade]

        return score(g, r_i) - score(h, r_j)

    def right_pairs(self, low: IntArray, high: IntArray, g: int, h: int) -> FloatArray:
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
            self.tie,
        )

    def right_pairs_directly(
        self, K: FloatArray, low: IntArray, high: IntArray, y: FloatArray
    ) -> FloatArray:
        """Return the same where alpha is above the kernel: scores are far below the targets."""
        pairs = np.r_[low, high]
        B = np.tril(self.B) + np.tril(self.B, -1).T
        within = np.ix_(pairs, pairs)
        KB, Kx = K[pairs] @ B[:, pairs], K[pairs] @ self.x
        credit = credit_of(*held_out_differences(B[within], self.x[pairs], KB, Kx), y[pairs])
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
    """Return the leads where pairs of one grade are not joined, grade by grade."""
    K, leads = space.kernel_matrix(rows), np.full((len(y), len(y)), np.nan)
    for g, h, system, low, high in _grade_systems(K, y, weight, alpha, cost, query_weight):
        found = system.leads(low, high, g, h)
        leads[np.ix_(low, high)], leads[np.ix_(high, low)] = found, -found.T
    return leads


def refuse_endless(operations: float) -> None:
    """Refuse what would keep the machine busy for hours."""
    if operations > MOST_OPERATIONS:
        raise InvalidInputError(
            "Leaving out pairs would take too long: this cost, these ties or these weights need "
            f"about {operations:.1g} operations per alpha. Use cost='magnitude' with ties='keep', "
            "which needs one inverse, or leave out queries."
        )
