"""Greedy selection of features: what each would add to the hold-outs, without a refit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import NothingToLearnError
from rankwise.core.queries import TrainingData
from rankwise.graph.edges import Incidence
from rankwise.graph.preference_graph import Cost, PreferenceGraph, QueryWeight, pair_targets
from rankwise.selection.complete_pairs import TOO_FEW_OF_A_GRADE, complete_degree
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_pair_out import GradeSystem, grade_systems, pair_form

EQUAL = 1e-10
"""Of features whose losses differ by less, as a share of the gain, the first is taken."""


CHUNK = 1 << 16
"""Numbers that are worked on together, so that they stay in cache."""


def greedy_features(hold_out: GreedyHoldOut, n_features: int) -> IntArray:
    """Add one feature after another, each time the one with the least held-out loss.

    Features without any preference to explain, such as constant ones, are never taken.

    Parameters
    ----------
    hold_out : GreedyHoldOut
        What is left out, at no feature yet.
    n_features : int
        Largest number of features.

    Returns
    -------
    chosen : (n_chosen,)
        The features in the order of their choice.
    """
    chosen: list[int] = []
    is_open = hold_out.varied.copy()
    while len(chosen) < n_features and is_open.any():
        gains = np.where(is_open, hold_out.changes(), np.inf)
        best = gains.min()
        chosen.append(int(np.argmax(gains <= best + EQUAL * abs(best))))
        is_open[chosen[-1]] = False
        hold_out.add(chosen[-1])
    return np.array(chosen, dtype=np.intp)


class GreedyHoldOut(ABC):
    """The hold-outs of a least-squares ranker with some features, ready for one more."""

    varied: BoolArray
    """Which features tell any compared items apart."""

    @abstractmethod
    def changes(self) -> FloatArray:
        """Return by how much each feature would change the squared error of what is left out."""

    @abstractmethod
    def add(self, feature: int) -> None:
        """Take a feature into the ranker."""


@final
class RowsLeftOut(GreedyHoldOut):
    r"""Rows of a least-squares problem, left out fold by fold.

    With the rows h of the features taken so far, :math:`G = (I + \sum h h^\top / \alpha)^{-1}`.
    Kept for every feature v, taken or not, are :math:`C = G v` and its own residual by a fit of the
    taken features to what remains without fold U, :math:`B_U = G_{UU}^{-1} C_U`; for the targets
    :math:`a = G y` and :math:`w_U = G_{UU}^{-1} a_U`. A feature changes G by a matrix of rank one,
    so each candidate costs O(n_rows), as does the update of each (docs/theory/greedy.rst,
    eqs. greedy-candidate and greedy-update).

    Parameters
    ----------
    H : (n_rows, n_features)
        The features of the rows.
    targets : (n_rows,)
        What the rows are fitted to.
    fold : (n_rows,)
        The fold of each row, -1 for rows that are never left out.
    alpha : float
        The regularisation.

    Notes
    -----
    [PTA09] (33) says what the hold-outs are; the selection is reference [19] of [APS10].
    """

    def __init__(self, H: FloatArray, targets: FloatArray, fold: IntArray, alpha: float) -> None:
        order = np.argsort(fold, kind="stable")
        number, starts = np.unique(fold[order], return_index=True)
        self.starts, self.sizes = starts, np.diff(np.append(starts, len(order)))
        self.is_judged = number >= 0
        self.V = np.ascontiguousarray(H.T[:, order]) / np.sqrt(alpha)
        self.y = targets[order]
        self.C, self.B = self.V.copy(), self.V.copy()
        self.a, self.w = self.y.copy(), self.y.copy()
        self.varied = self.V.any(axis=1)

    def _by_fold(self, rows: FloatArray) -> FloatArray:
        return np.add.reduceat(rows, self.starts, axis=-1)

    def _with_one_more(self, features: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return t, what a fold leaves of s, and the new weight in a fit without each fold."""
        C, B = self.C[features], self.B[features]
        s = 1.0 + np.einsum("ij,ij->i", self.V[features], C)
        t = C @ self.y
        # 1 and the square of what remains outside of the fold: rounding alone makes it less than 1
        left = np.maximum(s[:, None] - self._by_fold(B * C), 1.0)
        weight = (self._by_fold(B * self.a) - t[:, None]) / left  # eq. greedy-candidate
        return t / s, left, weight

    def changes(self) -> FloatArray:
        """Return the changes for all features, a few at a time."""
        found = np.empty(len(self.V))
        step = max(1, CHUNK // max(1, self.V.shape[1]))
        for first in range(0, len(found), step):
            some = slice(first, first + step)
            weight, B = self._with_one_more(some)[2], self.B[some]
            each = weight * (2.0 * self._by_fold(B * self.w) + weight * self._by_fold(B * B))
            found[some] = each[:, self.is_judged].sum(axis=1)
        return found

    def add(self, feature: int) -> None:
        """Update G, B and the residuals by the rank-one change."""
        one = slice(feature, feature + 1)
        (share,), (left,), (weight,) = self._with_one_more(one)
        v, c, g = (A[feature].copy() for A in (self.V, self.C, self.B))
        product = self.C @ v
        # eq. greedy-update: without each fold, the part of the new feature is taken out
        taken = (self._by_fold(self.C * g) - product[:, None]) / left
        self.B += g * np.repeat(taken, self.sizes, axis=1)
        self.w += g * np.repeat(weight, self.sizes)
        self.C -= np.outer(product / (1.0 + v @ c), c)
        self.a -= share * c


@final
class ItemsLeftOut(GreedyHoldOut):
    """Items of one global ranking, left out fold by fold: preferences of the rest are rebuilt.

    Each fold has its own problem, in which a candidate is fitted to what remains, O(n_items) each.
    """

    def __init__(
        self, X: FloatArray, data: TrainingData, folds: Folds, alpha: float, **options: Any
    ) -> None:
        self.parts = []
        self.varied = np.zeros(X.shape[1], dtype=bool)
        for fold in range(folds.n_folds):
            kept, out = (np.flatnonzero(rows) for rows in (folds.fold != fold, folds.fold == fold))
            try:
                learned = _coordinates(X[kept], PreferenceGraph.of(data.take(kept), **options))
                judged = _coordinates(X[out], PreferenceGraph.of(data.take(out), **options))
            except NothingToLearnError:
                continue
            (H, y), (T, r) = learned, judged
            self.varied[H.any(axis=0)] = True
            H, T = H / np.sqrt(alpha), T / np.sqrt(alpha)
            self.parts.append([H, H.copy(), y, T, r.copy()])

    def changes(self) -> FloatArray:
        """Add up the changes of all folds."""
        found = np.zeros(len(self.varied))
        for V, C, y, T, r in self.parts:
            weight = (y @ C) / (1.0 + np.einsum("ij,ij->j", V, C))
            found += weight * (weight * np.einsum("ij,ij->j", T, T) - 2.0 * (r @ T))
        return found

    def add(self, feature: int) -> None:
        """Take the part of the new feature out of all others, and out of what is judged."""
        for part in self.parts:
            V, C, y, T, r = part
            c, b = C[:, feature].copy(), T[:, feature].copy()
            s = 1.0 + V[:, feature] @ c
            taken = (c @ V) / s
            part[4] = r - b * ((y @ c) / s)
            C -= np.outer(c, taken)
            T -= np.outer(b, taken)


@final
class PairsLeftOut(GreedyHoldOut):
    """Pairs of items of one global ranking, both items of each left out: O(n_items^2) a candidate.

    What remains without a pair is known from a 2 x 2 block of one inverse, and a feature changes
    that by a matrix of rank one (docs/theory/holdouts.rst, eqs. hold-pair and hold-graded-pair).

    Parameters
    ----------
    X : (n_items, n_features)
        The features.
    data : TrainingData
        Scored items of equal weight.
    alpha : float
        The regularisation.
    **options
        Cost, ties and query weight, for which `pairs_have_closed_form`.
    """

    def __init__(self, X: FloatArray, data: TrainingData, alpha: float, **options: Any) -> None:
        self.V = np.ascontiguousarray((X - X.mean(axis=0)).T)
        self.varied = np.asarray(self.V.any(axis=1))
        y, weight = data.scores, float(data.weight[0])
        if pair_form(y[:, None], data.weight, **options) == "complete":
            mu = alpha / complete_degree(options["query_weight"], data.weight) / weight
            self.systems = [_Left.of_complete(y, mu)]
        else:
            given = weight, alpha, options["cost"], options["query_weight"]
            found = grade_systems(np.zeros((len(y), len(y))), y, *given)
            self.systems = [_Left.of_grades(y, options["cost"], *one) for one in found]
        if not self.systems:
            raise NothingToLearnError(TOO_FEW_OF_A_GRADE)

    def changes(self) -> FloatArray:
        """Try all features, a few at a time."""
        found = np.zeros(len(self.V))
        for system in self.systems:
            now = system.losses(np.zeros((1, self.V.shape[1])))[0]
            step = max(1, CHUNK // len(system.first))
            for k in range(0, len(found), step):
                found[k : k + step] += system.losses(self.V[k : k + step]) - now
        return found

    def add(self, feature: int) -> None:
        """Update every inverse."""
        self.systems = [system.plus(self.V[feature]) for system in self.systems]


def pairs_have_closed_form(data: TrainingData, **options: Any) -> bool:
    """Return whether `PairsLeftOut` takes these scored items, without those of weight 0."""
    rows = np.flatnonzero(data.weight > 0)
    weight = data.weight[rows]
    if len(rows) < 4 or not np.all(weight == weight[0]):
        return False
    return pair_form(data.scores[rows][:, None], weight, **options) != "refits"


@final
@dataclass(frozen=True, eq=False)
class _Left:
    r"""What remains without a pair (i, j) of items, for pairs of which the same is left.

    With the inverse B of the bordered system and its solution a, the items' residuals r are those
    of the 2 x 2 block of the pair, and the lead of i misses its target by
    :math:`o - \delta + (1 + u_i) r_i - (1 - u_j) r_j`; u and delta are the difference of the
    border's columns of both grades, and are 0 where all items are joined.
    """

    B: FloatArray
    a: FloatArray
    u: FloatArray
    delta: float
    offset: float
    first: IntArray
    second: IntArray

    @classmethod
    def of_complete(cls, y: FloatArray, mu: float) -> Self:
        """Build for items that are all joined: without a feature B is the centring over mu."""
        B = (np.eye(len(y)) - 1.0 / len(y)) / mu
        ends = np.nonzero(np.triu(y[:, None] != y))
        return cls(B, (y - y.mean()) / mu, np.zeros(len(y)), 0.0, 0.0, *ends)

    @classmethod
    def of_grades(
        cls, y: FloatArray, cost: Cost, g: int, h: int, system: GradeSystem, *ends: IntArray
    ) -> Self:
        """Build for items of different grade that are joined, from what `grade_systems` yields."""
        degree, border = system.degree, system.across
        gap = y[ends[0][0]] - y[ends[1][0]]
        target = float(np.sign(gap) if cost == "unit" else gap)
        return cls(
            system.B,
            system.x,
            border[:, g] / degree[g] - border[:, h] / degree[h],
            float(system.beta[g] / degree[g] - system.beta[h] / degree[h]),
            target - float(system.offset[g] - system.offset[h]),
            *(rows.ravel() for rows in np.meshgrid(*ends)),
        )

    def plus(self, v: FloatArray) -> Self:
        """Return the same with one more feature: a change of rank one."""
        c = self.B @ v
        s = 1.0 + float(v @ c)
        a, u = float(v @ self.a / s), float(v @ self.u / s)
        return replace(
            self,
            B=self.B - np.outer(c, c / s),
            a=self.a - a * c,
            u=self.u - u * c,
            delta=self.delta - u * s * a,
        )

    def losses(self, V: FloatArray) -> FloatArray:
        """Return the squared errors of all pairs with each of some features, (n_some, n_items)."""
        i, j, C = self.first, self.second, V @ self.B
        s = 1.0 + np.einsum("ij,ij->i", V, C)[:, None]
        of_a, of_u = (V @ self.a)[:, None] / s, (V @ self.u)[:, None] / s
        # rows and columns of the pair in the changed inverse
        b = np.diagonal(self.B) - C * C / s
        b_i, b_j, b_ij = b[:, i], b[:, j], self.B[i, j] - C[:, i] * C[:, j] / s
        a, u = self.a - of_a * C, self.u - of_u * C
        a_i, a_j, det = a[:, i], a[:, j], b_i * b_j - b_ij**2
        r_i, r_j = (b_j * a_i - b_ij * a_j) / det, (b_i * a_j - b_ij * a_i) / det  # eq. hold-pair
        delta = self.delta - of_u * s * of_a
        missed = self.offset - delta + (1.0 + u[:, i]) * r_i - (1.0 - u[:, j]) * r_j
        return np.einsum("ij,ij->i", missed, missed)


# What is left out of given data


def rows_of_graph(
    X: FloatArray, graph: PreferenceGraph, folds: Folds
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return features and targets in coordinates of a graph, and the fold of each coordinate."""
    of_component = folds.of_components(graph.laplacian.component)
    H, targets = _coordinates(X, graph)
    return H, targets, of_component[graph.laplacian.root().component]


def rows_of_comparisons(
    X: FloatArray, data: TrainingData, cost: Cost, query_weight: QueryWeight
) -> tuple[FloatArray, FloatArray]:
    """Return features and targets of comparisons, a row each, times the roots of their weights."""
    pairs, target, weight = pair_targets(data, cost, query_weight)
    root = np.sqrt(weight)
    return Incidence.of(pairs, data.n_items).differences(X) * root[:, None], target * root


def _coordinates(X: FloatArray, graph: PreferenceGraph) -> tuple[FloatArray, FloatArray]:
    root = graph.laplacian.root()
    H = root.to_coordinates(np.ascontiguousarray(X))
    return H, root.solve(graph.rhs[:, None])[:, 0]
