"""The preference graph: who is preferred to whom, by how much, and how much it counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, as_columns, freeze, sum_by
from rankwise.core.checks import (
    as_floats,
    check_pairs,
    check_scores,
    check_vector,
    check_weight,
)
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.params import REFUSED, Count, Reads, check_value
from rankwise.core.queries import Queries, TrainingData
from rankwise.graph.edges import EdgeLaplacian, Incidence
from rankwise.graph.laplacian import CliqueLaplacian, GraphLaplacian, NestedCliqueLaplacian
from rankwise.native.sorting import has_ties, number_keys

Cost: TypeAlias = Literal["magnitude", "unit", "relative"]
Ties: TypeAlias = Literal["drop", "keep"]
StandardWeight: TypeAlias = Literal["items", "pairs", "equal"]


def _take_query_weight(value: Any) -> Any:
    """Accept a name, or weights, which are checked where queries are known."""
    is_unknown = isinstance(value, str) and value not in get_args(StandardWeight)
    return REFUSED if is_unknown or value is None else value


QueryWeight: TypeAlias = Annotated[
    StandardWeight | ArrayLike | Mapping[Hashable, float],
    Reads(_take_query_weight, "weights of queries", get_args(StandardWeight)),
]
"""How much queries count: by name, or a weight for each."""

MIN_GAP = 1e-6
"""Score gaps below this share of a query's range count as that in the relative cost."""

ITEMS_PER_SIZE = 500
"""Items for each size of a query from which queries are sorted by size."""


def standard_query_weight(kind: str, mass: ArrayLike, square_mass: ArrayLike) -> FloatArray:
    """Return omega of queries by name; 0 where a query has nothing to weigh.

    Parameters
    ----------
    kind : {"items", "pairs", "equal"}
        1 / n_q, 1, or 1 / number of pairs, counted by weight.
    mass : (n_queries,)
        Total weight of the items of each query.
    square_mass : (n_queries,)
        Sum of squared weights of whatever forms no pair with itself: items where ties are kept,
        grades where they are dropped.

    Notes
    -----
    "items" is [APS10] (3), "pairs" [PTA09] (21), "equal" the end of its Sect. 2.4.
    """
    total = np.asarray(mass, dtype=float)
    return _by_name(kind, total, (total**2 - np.asarray(square_mass)) / 2)


def _by_name(kind: str, n_items: FloatArray, n_pairs: FloatArray) -> FloatArray:
    """Return omega of queries by name, from the numbers of their items and pairs by weight."""
    check_value("query_weight", kind, StandardWeight)
    if kind == "pairs":
        return np.ones_like(n_items)
    # [APS10] eq. (3), and the end of [PTA09] Sect. 2.4
    counted = n_items if kind == "items" else n_pairs
    return np.divide(1.0, counted, out=np.zeros_like(counted), where=counted > 0)


def comparison_query_weight(
    query_weight: QueryWeight, queries: Queries, pair_queries: IntArray, weight: FloatArray
) -> FloatArray:
    """Return omega of each query of comparisons.

    Parameters
    ----------
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        1 / n_q, 1, 1 / number of comparisons by weight, or given.
    queries : Queries
        The queries of the items.
    pair_queries : (n_pairs,)
        The query of each comparison.
    weight : (n_pairs,)
        The weight of each comparison.
    """
    if not isinstance(query_weight, str):
        return given_query_weight(query_weight, queries)
    n_pairs = sum_by(pair_queries, weight, queries.n_queries)
    return _by_name(query_weight, queries.sizes.astype(float), n_pairs)


def given_query_weight(query_weight: Any, queries: Queries) -> FloatArray:
    """Return omega of each query, given by query id or in the order of first appearance."""
    if isinstance(query_weight, Mapping):
        missing = [q for q in queries.ids.tolist() if q not in query_weight]
        if missing:
            raise InvalidInputError(
                f"`query_weight` must have an entry for every query id: {missing[0]!r} has none."
            )
        query_weight = [query_weight[q] for q in queries.ids.tolist()]
    return check_weight("query_weight", query_weight, queries.n_queries, "query")


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
        columns = as_columns(scores)
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


def _have_ties(queries: Queries, scores: FloatArray) -> bool:
    """Tell whether two items of a query have the same score in some output."""
    columns = np.ascontiguousarray(as_columns(scores).T, dtype=float)
    return any(has_ties(column, queries.order, queries.starts) for column in columns)


def _number_grades(queries: Queries, scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the grade of each item, numbered query by query and by rising score."""
    # equal scores are found by a table, so that only different ones are sorted
    number, first = number_keys(np.ascontiguousarray(scores), queries.order, queries.starts)
    distinct = Queries(queries.ids, queries.index[first])
    rank = np.empty(len(first), dtype=np.intp)
    rank[_by_score(distinct, scores[first])] = np.arange(len(first))
    return rank[number], distinct.index


def _by_score(queries: Queries, scores: FloatArray) -> IntArray:
    """Return the items query by query and by rising score.

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


@final
@dataclass(frozen=True, eq=False)
class PreferenceGraph:
    r"""Hold a set of weighted preferences as a Laplacian operator and its right-hand side.

    The least-squares ranking cost of scores f is, up to a constant,

    .. math:: \sum_{(i,j)} w_{ij} (z_{ij} - (f_i - f_j))^2 = f^\top L f - 2 f^\top r + \ldots

    ``graph @ F`` applies L, ``graph.rhs`` is r. L is never built as a dense matrix. Build graphs
    with `from_scores` or `from_pairs`.

    Notes
    -----
    The cost is [PTA09] (11), where the weights are squares; for scores [TH10] (5), in matrices (7).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PreferenceGraph
    >>> graph = PreferenceGraph.from_scores([2, 0, 1, 5], qid=["a", "a", "a", "b"],
    ...                                     query_weight="pairs")
    >>> graph @ np.eye(4)
    array([[ 2., -1., -1.,  0.],
           [-1.,  2., -1.,  0.],
           [-1., -1.,  2.,  0.],
           [ 0.,  0.,  0.,  0.]])
    >>> graph.rhs
    array([ 3., -3.,  0.,  0.])
    >>> graph.n_ignored_queries
    1
    """

    laplacian: GraphLaplacian
    rhs: FloatArray
    queries: Queries

    @classmethod
    def from_scores(
        cls,
        y: ArrayLike,
        qid: ArrayLike | Queries | None = None,
        *,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Build from scored items: within a query, items with higher scores are preferred.

        The pair (i, j) of query q has the weight
        :math:`\omega_q w_{ij} s_i s_j` with s the `sample_weight`. Magnitude and unit costs take
        O(n log n) to build and O(n) to apply; the relative cost takes O(k^2) per query with k
        distinct scores.

        Parameters
        ----------
        y : (n_items,) or (n_items, n_outputs)
            Scores, higher is better. Several outputs must tie the same items if ties matter.
        qid : (n_items,) or Queries, optional
            The query of each item; by default all items form one query.
        cost : {"magnitude", "unit", "relative"}
            The target z and weight w of a pair: (y_i - y_j, 1), (sign(y_i - y_j), 1) or
            (y_i - y_j, 1 / (y_i - y_j)^2).
        ties : {"drop", "keep"}
            Whether two items of equal score form a pair with target 0; "keep" needs cost
            "magnitude".
        query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
            :math:`\omega_q`: 1 / n_q, 1, 1 / number of pairs, or given, by query id or in the order
            in which the queries first appear. With `sample_weight`, items and pairs are counted
            by weight.
        sample_weight : (n_items,), optional
            Weight of each item; the weight of a pair is the product of its two, so that an integer
            weight equals repetition.

        Notes
        -----
        The costs are [PTA09] (21), (20) and (22); dropped ties are described there in Sect. 3
        without formulas. For the relative cost, score gaps below 1e-6 of the query's range count as
        that, since the weight of a pair grows without bound.
        """
        scores = check_scores(y)
        data = TrainingData.of(len(scores), scores, qid, sample_weight)
        return cls.of(data, cost=cost, ties=ties, query_weight=query_weight)

    @classmethod
    def from_pairs(
        cls,
        pairs: ArrayLike | None,
        margin: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        n_items: int | None = None,
        *,
        qid: ArrayLike | None = None,
        cost: Cost = "magnitude",
        query_weight: QueryWeight = "items",
    ) -> Self:
        """Build from comparisons; pairs may repeat, in both directions.

        Parameters
        ----------
        pairs : (n_pairs, 2)
            Row numbers of items, winner first.
        margin : (n_pairs,), optional
            By how much the winner should lead; 1 by default.
        weight : (n_pairs,), optional
            How much each comparison counts; 1 by default.
        n_items : int, optional
            Number of items; by default the number of `qid`, or one more than the largest index.
        qid : (n_items,), optional
            The query of each item. Both items of a pair must belong to one query.
        cost : {"magnitude", "unit", "relative"}
            The target and weight of a pair with margin z: (z, 1), (sign z, 1) or (z, 1 / z^2). The
            weight is multiplied by `weight`.
        query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
            The factor of the comparisons of a query, only with `qid`: 1 / n_q for n_q items, 1,
            1 / the number of its comparisons by weight, or given as in `from_scores`.

        Notes
        -----
        The preference graph of [PTA09] Sect. 2.1; (12) and (13) are its matrices M and N. The costs
        are (21), (20) and (22); a negative margin reverses the preference. For the relative cost,
        margins below 1e-6 of the largest are raised to that.
        """
        check_value("n_items", n_items, Count | None)
        checked = check_pairs(pairs, n_items)
        if n_items is None:
            n_items = int(checked.max()) + 1 if qid is None else Queries.from_qid(qid).n_items
        data = TrainingData.of(
            n_items, qid=qid, pairs=checked, pair_margin=margin, pair_weight=weight
        )
        return cls.of(data, cost=cost, query_weight=query_weight)

    @classmethod
    def of(
        cls,
        data: TrainingData,
        *,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
    ) -> Self:
        """Build from training data; several outputs must be able to share a graph.

        The options are those of `from_scores`. Comparisons have no ties, and `query_weight`
        applies to them if they have queries.
        """
        check_value("cost", cost, Cost)
        if not data.is_scored:
            return cls._of_comparisons(data, cost, query_weight)
        check_value("ties", ties, Ties)
        if ties == "keep" and cost != "magnitude":
            raise InvalidInputError(
                f"ties='keep' is defined only for cost='magnitude': got cost={cost!r}. "
                "Use ties='drop', which leaves tied pairs out."
            )
        # without ties, keeping and dropping them are one graph, for which nothing is sorted
        keep_ties = ties == "keep" or (
            cost == "magnitude" and not _have_ties(data.queries, data.scores)
        )
        grades = Grades.of(data.queries, data.scores, data.weight, keep_ties=keep_ties)
        omega = grades.query_weights(query_weight)
        # the cost of [PTA09] eq. (11), [TH10] eq. (5), in matrices (7)
        laplacian, rhs = _COSTS[cost](grades, data.scores, omega)
        if not (laplacian.component >= 0).any():
            raise NothingToLearnError(
                "The data must hold at least one preference: all scores inside every query are "
                f"equal, or every query has one item only ({data.queries}). Check `y` and `qid`."
            )
        return cls(laplacian, freeze(rhs), data.queries)

    @classmethod
    def _of_comparisons(cls, data: TrainingData, cost: Cost, query_weight: QueryWeight) -> Self:
        pairs, target, weight = pair_targets(data, cost, query_weight)
        incidence = Incidence.of(pairs, data.n_items)
        rhs = incidence.adjoint(weight * target)  # [PTA09] eq. (17): M N, with (12) and (13)
        laplacian = EdgeLaplacian.of_pairs(incidence, weight)  # [PTA09] eq. (17): M M'
        return cls(laplacian, freeze(rhs), data.queries)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.laplacian.n_items

    @cached_property
    def n_ignored_queries(self) -> int:
        """Number of queries without a preference."""
        useful = np.zeros(self.queries.n_queries, dtype=bool)
        useful[self.queries.index[self.laplacian.component >= 0]] = True
        return int(np.count_nonzero(~useful))

    def __matmul__(self, V: FloatArray) -> FloatArray:
        return self.laplacian @ V

    def quadratic(self, f: FloatArray) -> float:
        """Return the weighted sum of squared differences ``f' L f`` of scores f."""
        scores = as_floats("f", f)
        check_vector("f", scores, self.n_items, "item")
        return float(scores @ (self @ scores))

    def __repr__(self) -> str:
        kind = type(self.laplacian).__name__
        return f"PreferenceGraph({self.n_items} items, {self.queries.n_queries} queries, {kind})"


@final
@dataclass(frozen=True, eq=False)
class OutputGraphs:
    """Hold one graph per set of outputs that can share it; several only if ties differ."""

    graphs: tuple[PreferenceGraph, ...]
    outputs: tuple[list[int], ...]
    is_multi_output: bool

    @classmethod
    def of(cls, data: TrainingData, *, cost: Cost, ties: Ties, query_weight: QueryWeight) -> Self:
        """Build from training data, with the options of `PreferenceGraph.of`."""
        if not data.is_multi_output:
            graph = PreferenceGraph.of(data, cost=cost, ties=ties, query_weight=query_weight)
            return cls((graph,), ([0],), is_multi_output=False)
        check_value("cost", cost, Cost)
        check_value("ties", ties, Ties)
        outputs = outputs_by_ties(data.scores, data.queries, cost, ties)
        graphs = tuple(
            PreferenceGraph.of(
                replace(data, y=data.scores[:, columns]),
                cost=cost,
                ties=ties,
                query_weight=query_weight,
            )
            for columns in outputs
        )
        return cls(graphs, outputs, is_multi_output=True)

    @cached_property
    def rank(self) -> int:
        """Smallest rank of the graphs."""
        return min(graph.laplacian.rank() for graph in self.graphs)

    @property
    def first(self) -> PreferenceGraph:
        """The graph of the first output."""
        return self.graphs[0]

    def __iter__(self) -> Iterator[PreferenceGraph]:
        return iter(self.graphs)

    def by_output(self) -> tuple[PreferenceGraph, ...]:
        """Return a graph of one right-hand side for each output; Laplacians stay shared."""
        found: dict[int, PreferenceGraph] = {}
        for graph, outputs in zip(self.graphs, self.outputs, strict=True):
            for k, rhs in zip(outputs, as_columns(graph.rhs).T, strict=True):
                found[k] = replace(graph, rhs=freeze(rhs.copy()))
        return tuple(found[k] for k in sorted(found))

    def gather(self, solve: Callable[[PreferenceGraph], FloatArray]) -> FloatArray:
        """Solve for every graph and put the outputs, the last axis, in their order."""
        parts = [solve(graph) for graph in self.graphs]
        if len(parts) == 1:  # whose outputs stand in their order
            return parts[0]
        order = np.argsort(np.concatenate(self.outputs))
        return np.concatenate(parts, axis=-1)[..., order]


def pair_targets(
    data: TrainingData, cost: Cost, query_weight: QueryWeight
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return comparisons with their targets and weights.

    For the relative cost, margins below 1e-6 of the largest count as that. The weights include
    those of the queries, where queries were named.
    """
    pairs, margin, weight = data.comparisons
    if data.has_qid:
        index = data.pair_queries
        weight = weight * comparison_query_weight(query_weight, data.queries, index, weight)[index]
    return pairs, *_by_cost(cost, margin, weight)


def _by_cost(cost: Cost, margin: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    if cost == "magnitude":
        return margin, weight  # [PTA09] eq. (21)
    if cost == "unit":
        return np.sign(margin), weight  # [PTA09] eq. (20)
    size = np.abs(margin)
    largest = size.max()
    if largest == 0.0:
        raise InvalidInputError(
            "cost='relative' must have a margin other than 0: every `pair_margin` is 0. "
            "Use cost='magnitude'."
        )
    return margin, weight / np.maximum(size, MIN_GAP * largest) ** 2  # [PTA09] eq. (22)


def _magnitude(
    grades: Grades, scores: FloatArray, omega: FloatArray
) -> tuple[GraphLaplacian, FloatArray]:
    laplacian = grades.clique(omega)
    return laplacian, laplacian @ scores  # [PTA09] eq. (21): M N = M M' S by (23)


def _unit(
    grades: Grades, scores: FloatArray, omega: FloatArray
) -> tuple[GraphLaplacian, FloatArray]:
    columns = as_columns(scores).T
    wins = [grades.of_output(column).wins_minus_losses(omega) for column in columns]
    return grades.clique(omega), np.stack(wins, axis=-1).reshape(scores.shape)


_COSTS = {"magnitude": _magnitude, "unit": _unit, "relative": Grades.relative}
