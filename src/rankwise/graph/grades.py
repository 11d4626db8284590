"""Items sorted into queries and, inside a query, into levels of equal score."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.graph.cliques import Scatter
from rankwise.graph.edges import Edges
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.graph.nested_cliques import Nested

MIN_GAP = 1e-6
"""Score gaps below this share of a query's range count as that in the relative cost."""


@final
@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of every query: groups of items with one score (or, with ties kept, one group).

    Levels are numbered query by query and, inside a query, by rising score.

    Parameters
    ----------
    queries : Queries
        The queries.
    level : (n_items,)
        The level of each item.
    query : (n_levels,)
        The query of each level.
    weight : (n_items,)
        Sample weights.
    """

    queries: Queries
    level: IntArray
    query: IntArray
    weight: FloatArray

    @classmethod
    def of(
        cls, queries: Queries, scores: FloatArray, weight: FloatArray, *, keep_ties: bool
    ) -> Self:
        """Sort the items of each query by score; O(n log n)."""
        if keep_ties:
            return cls(queries, queries.index, np.arange(queries.n_queries), weight)
        columns = scores.reshape(len(scores), -1)
        level, query = _levels(queries, columns[:, 0])
        for k in range(1, columns.shape[1]):
            _refuse_other_ties(level, _levels(queries, columns[:, k])[0], k)
        return cls(queries, level, query, weight)

    def of_output(self, scores: FloatArray) -> Self:
        """Return the levels of another output of the same items, with ties dropped."""
        return type(self).of(self.queries, scores, self.weight, keep_ties=False)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self.query)

    @cached_property
    def mass(self) -> FloatArray:
        """Total weight of each level."""
        return sum_by(self.level, self.weight, self.n_levels)

    @cached_property
    def query_mass(self) -> FloatArray:
        """Total weight of each query."""
        return sum_by(self.query, self.mass, self.queries.n_queries)

    def standard_weight(self, kind: Literal["items", "pairs", "equal"] | str) -> FloatArray:
        """Return omega of each query by name; 0 where it would be infinite (nothing to weigh)."""
        if kind == "pairs":
            return np.ones(self.queries.n_queries)
        if kind == "items":
            return _inverse(self.query_mass)
        tied = sum_by(self.query, self.mass**2, self.queries.n_queries)
        if self._ties_kept:
            tied = self.queries.sum(self.weight**2)
        return _inverse((self.query_mass**2 - tied) / 2)

    @property
    def _ties_kept(self) -> bool:
        return self.level is self.queries.index

    def clique(self, omega: FloatArray) -> GraphLaplacian:
        """Return the Laplacian that joins all items of a query, or all of different score."""
        single = self._ties_kept or self.n_levels == self.queries.n_items
        if single:  # without any tied pair, dropping and keeping ties are the same
            degree = omega * self.query_mass
            label = np.arange(self.queries.n_queries)
            return Scatter.of_groups(self.queries.index, self.weight, degree, label)
        within = omega[self.query] * (self.query_mass[self.query] - self.mass)  # eq. graph-ties
        between = Scatter.of_groups(
            self.query, self.mass, omega * self.query_mass, np.arange(self.queries.n_queries)
        )
        return self._nested(within, between)

    def relative(self, scores: FloatArray, omega: FloatArray) -> tuple[GraphLaplacian, FloatArray]:
        """Return the Laplacian and right-hand side of the relative cost, [PTA09] (22)."""
        if scores.ndim == 2 and scores.shape[1] > 1:
            raise InvalidInputError(
                "cost='relative' must have one output per graph, since the scores weigh the pairs: "
                f"got {scores.shape[1]}. Build one graph per output, as RankRLS does."
            )
        value = np.zeros(self.n_levels)
        value[self.level] = scores.reshape(-1)
        first, second = self._level_pairs()
        gap = value[second] - value[first]
        weight = 1.0 / np.maximum(gap, self._smallest_gap(value)[self.query[first]]) ** 2
        weight *= omega[self.query[first]]
        degree = sum_by(first, weight * self.mass[second], self.n_levels)
        degree += sum_by(second, weight * self.mass[first], self.n_levels)
        pull = sum_by(second, weight * gap * self.mass[first], self.n_levels)
        pull -= sum_by(first, weight * gap * self.mass[second], self.n_levels)
        edge = weight * self.mass[first] * self.mass[second]
        between = Edges.of_pairs(np.column_stack([first, second]), edge, self.n_levels)
        component = np.where(between.component >= 0, self.query, -1)
        rhs = (self.weight * pull[self.level]).reshape(scores.shape)
        return self._nested(degree, Edges(between.matrix, component)), rhs

    def wins_minus_losses(self, omega: FloatArray) -> FloatArray:
        """Return, for each item, the weight below it minus the weight above it, [PTA09] (20)."""
        before = np.cumsum(self.mass) - self.mass
        start = np.searchsorted(self.query, np.arange(self.queries.n_queries))
        below = before - before[start][self.query]
        above = self.query_mass[self.query] - self.mass - below
        return omega[self.queries.index] * self.weight * (below - above)[self.level]

    def _nested(self, degree: FloatArray, between: GraphLaplacian) -> Nested:
        within = Scatter.of_groups(self.level, self.weight, degree, self.query)
        component = np.where(within.group >= 0, between.component[within.group], -1)
        return Nested(within, between, component)

    def _level_pairs(self) -> tuple[IntArray, IntArray]:
        """Return all pairs of levels of one query, the lower one first."""
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


def _levels(queries: Queries, scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the level of each item, numbered query by query and by rising score."""
    order = np.lexsort((scores, queries.index))
    q, s = queries.index[order], scores[order]
    new = np.r_[True, (q[1:] != q[:-1]) | (s[1:] != s[:-1])]
    level = np.empty(len(order), dtype=np.intp)
    level[order] = np.cumsum(new) - 1
    return level, q[new]


def _refuse_other_ties(level: IntArray, other: IntArray, output: int) -> None:
    n_levels = len(np.unique(level))
    both = np.unique(np.stack([level, other]), axis=1).shape[1]
    if not both == n_levels == len(np.unique(other)):
        raise InvalidInputError(
            f"Outputs of one graph must tie the same items when ties are dropped: output {output} "
            "ties others than output 0. Build one graph per output, as RankRLS does."
        )


def _inverse(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def outputs_by_ties(
    scores: FloatArray, qid: ArrayLike | None, cost: str, ties: str
) -> tuple[list[int], ...]:
    """Group outputs, columns of ``scores``, that can share one graph."""
    n_outputs = scores.shape[1]
    if ties == "keep":
        return (list(range(n_outputs)),)
    if cost == "relative":
        return tuple([k] for k in range(n_outputs))
    queries = Queries.single(len(scores)) if qid is None else Queries.from_qid(qid)
    groups: dict[bytes, list[int]] = {}
    for k in range(n_outputs):
        level, _ = _levels(queries, scores[:, k])
        pattern = Queries.from_qid(level).index  # numbered by first appearance
        groups.setdefault(pattern.tobytes(), []).append(k)
    return tuple(groups.values())
