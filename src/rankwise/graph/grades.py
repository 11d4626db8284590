"""Items of a query grouped by score: the grades from which graphs of scored items are built."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.graph.cliques import CliqueLaplacian, NestedCliqueLaplacian
from rankwise.graph.edges import EdgeLaplacian, Incidence
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.graph.query_weights import given_query_weight, standard_query_weight

MIN_GAP = 1e-6
"""Score gaps below this share of a query's range count as that in the relative cost."""

ITEMS_PER_SIZE = 500
"""Items for each size of a query from which queries are sorted by size."""


@final
@dataclass(frozen=True, eq=False)
class Grades:
    """The grades of every query: groups of items with one score.

    Grades are numbered query by query and, inside a query, by rising score. With ties kept, a query
    is one group, whatever the scores of its items.

    Parameters
    ----------
    queries : Queries
        The queries.
    grade : (n_items,)
        The grade of each item.
    query : (n_grades,)
        The query of each grade.
    weight : (n_items,)
        Sample weights.
    ties_kept : bool
        Whether items of one grade form pairs, too.
    """

    queries: Queries
    grade: IntArray
    query: IntArray
    weight: FloatArray
    ties_kept: bool

    @classmethod
    def of(
        cls, queries: Queries, scores: FloatArray, weight: FloatArray, *, keep_ties: bool
    ) -> Self:
        """Sort the items of each query by score; O(n log n)."""
        if keep_ties:
            return cls(queries, queries.index, np.arange(queries.n_queries), weight, ties_kept=True)
        columns = scores.reshape(len(scores), -1)
        grade, query = _number_grades(queries, columns[:, 0])
        for k in range(1, columns.shape[1]):
            _refuse_other_ties(grade, _number_grades(queries, columns[:, k])[0], k)
        return cls(queries, grade, query, weight, ties_kept=False)

    def of_output(self, scores: FloatArray) -> Self:
        """Return the grades of another output of the same items, with ties dropped."""
        return type(self).of(self.queries, scores, self.weight, keep_ties=False)

    @property
    def n_grades(self) -> int:
        """Number of grades."""
        return len(self.query)

    @cached_property
    def mass(self) -> FloatArray:
        """Total weight of each grade."""
        return sum_by(self.grade, self.weight, self.n_grades)

    @cached_property
    def query_mass(self) -> FloatArray:
        """Total weight of each query."""
        return sum_by(self.query, self.mass, self.queries.n_queries)

    @cached_property
    def square_mass(self) -> FloatArray:
        """Sum of squared weights of each query over what does not pair with itself."""
        if self.ties_kept:
            return self.queries.sum(self.weight**2)
        return sum_by(self.query, self.mass**2, self.queries.n_queries)

    def query_weights(self, query_weight: Any) -> FloatArray:
        """Return omega of each query; ``query_weight`` is that of `PreferenceGraph.from_scores`."""
        if isinstance(query_weight, str):
            return standard_query_weight(query_weight, self.query_mass, self.square_mass)
        return given_query_weight(query_weight, self.queries)

    def clique(self, omega: FloatArray) -> GraphLaplacian:
        """Return the Laplacian that joins all items of a query, or all of different score."""
        has_no_ties = self.n_grades == self.queries.n_items
        if self.ties_kept or has_no_ties:  # [PTA09] eq. (25): D - P P'
            degree = omega * self.query_mass
            label = np.arange(self.queries.n_queries)
            return CliqueLaplacian.of_groups(self.queries.index, self.weight, degree, label)
        within = omega[self.query] * (self.query_mass[self.query] - self.mass)  # eq. graph-ties
        between = CliqueLaplacian.of_groups(
            self.query, self.mass, omega * self.query_mass, np.arange(self.queries.n_queries)
        )
        return self._nested(within, between)

    def relative(self, scores: FloatArray, omega: FloatArray) -> tuple[GraphLaplacian, FloatArray]:
        """Return the Laplacian and right-hand side of the relative cost; O(k^2) for k grades."""
        if scores.ndim == 2 and scores.shape[1] > 1:
            raise InvalidInputError(
                "cost='relative' must have one output per graph, since the scores weigh the pairs: "
                f"got {scores.shape[1]}. Build one graph per output, as RankRLS does."
            )
        value = np.zeros(self.n_grades)
        value[self.grade] = scores.reshape(-1)
        first, second = self._grade_pairs()
        gap = value[second] - value[first]
        counted = np.maximum(gap, self._smallest_gap(value)[self.query[first]])
        weight = omega[self.query[first]] / counted**2  # [PTA09] eq. (22)
        degree = sum_by(first, weight * self.mass[second], self.n_grades)
        degree += sum_by(second, weight * self.mass[first], self.n_grades)
        pull = sum_by(second, weight * gap * self.mass[first], self.n_grades)
        pull -= sum_by(first, weight * gap * self.mass[second], self.n_grades)
        edge = weight * self.mass[first] * self.mass[second]
        between = EdgeLaplacian.of_pairs(Incidence(first, second, self.n_grades), edge)
        component = np.where(between.component >= 0, self.query, -1)
        rhs = (self.weight * pull[self.grade]).reshape(scores.shape)
        return self._nested(degree, EdgeLaplacian(between.matrix, component)), rhs

    def wins_minus_losses(self, omega: FloatArray) -> FloatArray:
        """Return, for each item, the weight of what it beats less that of what beats it."""
        before = np.cumsum(self.mass) - self.mass
        start = np.searchsorted(self.query, np.arange(self.queries.n_queries))
        below = before - before[start][self.query]
        above = self.query_mass[self.query] - self.mass - below
        lead = (below - above)[self.grade]
        return omega[self.queries.index] * self.weight * lead  # [PTA09] eq. (20): M N

    def _nested(self, degree: FloatArray, between: GraphLaplacian) -> NestedCliqueLaplacian:
        within = CliqueLaplacian.of_groups(self.grade, self.weight, degree, self.query)
        component = np.where(within.group >= 0, between.component[within.group], -1)
        return NestedCliqueLaplacian(within, between, component)

    def _grade_pairs(self) -> tuple[IntArray, IntArray]:
        """Return all pairs of grades of one query, the lower one first."""
        counts = np.bincount(self.query, minlength=self.queries.n_queries)
        starts = np.cumsum(counts) - counts
        triangles = {k: np.triu_indices(k, 1) for k in np.unique(counts).tolist()}
        pairs = [
            start + np.stack(triangles[k])
            for start, k in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
        first, second = np.concatenate(pairs, axis=1)
        return first, second

    def _smallest_gap(self, value: FloatArray) -> FloatArray:
        start = np.searchsorted(self.query, np.arange(self.queries.n_queries))
        span = np.maximum.reduceat(value, start) - np.minimum.reduceat(value, start)
        return MIN_GAP * span


def _number_grades(queries: Queries, scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the grade of each item, numbered query by query and by rising score."""
    order = _by_score(queries, scores)
    q, s = queries.index[order], scores[order]
    new = np.r_[True, (q[1:] != q[:-1]) | (s[1:] != s[:-1])]
    grade = np.empty(len(order), dtype=np.intp)
    grade[order] = np.cumsum(new) - 1
    return grade, q[new]


def _by_score(queries: Queries, scores: FloatArray) -> IntArray:
    """Return the items query by query and by rising score; ties stand in any order.

    Queries of one size are sorted together, many times as fast as all items at once.
    """
    sizes, kind = np.unique(queries.sizes, return_inverse=True)
    if len(sizes) * ITEMS_PER_SIZE > queries.n_items:
        return np.lexsort((scores, queries.index))
    out = np.empty(queries.n_items, dtype=np.intp)
    for number, size in enumerate(sizes.tolist()):
        places = queries.starts[:-1][kind == number][:, None] + np.arange(size)
        rows = queries.order[places]
        out[places] = np.take_along_axis(rows, np.argsort(scores[rows], axis=1), axis=1)
    return out


def _refuse_other_ties(grade: IntArray, other: IntArray, output: int) -> None:
    """Refuse an output whose tied items are not those of the first one."""
    n_grades = len(np.unique(grade))
    both = np.unique(np.stack([grade, other]), axis=1).shape[1]
    if not both == n_grades == len(np.unique(other)):
        raise InvalidInputError(
            f"Outputs of one graph must tie the same items when ties are dropped: output {output} "
            "ties others than output 0. Build one graph per output, as RankRLS does."
        )


def outputs_by_ties(
    scores: FloatArray, queries: Queries, cost: str, ties: str
) -> tuple[list[int], ...]:
    """Group outputs, columns of ``scores``, that can share one graph."""
    n_outputs = scores.shape[1]
    if ties == "keep":
        return (list(range(n_outputs)),)
    if cost == "relative":
        return tuple([k] for k in range(n_outputs))
    groups: dict[bytes, list[int]] = {}
    for k in range(n_outputs):
        grade, _ = _number_grades(queries, scores[:, k])
        pattern = Queries.from_qid(grade).index  # numbered by first appearance
        groups.setdefault(pattern.tobytes(), []).append(k)
    return tuple(groups.values())
