"""The preference graph: who is preferred to whom, by how much, and how much it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, as_columns, freeze
from rankwise.core.checks import check_choice, check_pairs, check_scores
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.core.training_data import TrainingData
from rankwise.graph.edges import EdgeLaplacian, Incidence
from rankwise.graph.grades import MIN_GAP, Grades, outputs_by_ties
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.graph.query_weights import QueryWeight, comparison_query_weight

Cost: TypeAlias = Literal["magnitude", "unit", "relative"]
Ties: TypeAlias = Literal["drop", "keep"]


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
        r"""Build from scored items: inside a query, an item with a higher score is preferred.

        The pair (i, j) of query q has the weight
        :math:`\omega_q w_{ij} s_i s_j` with s the `sample_weight`. Magnitude and unit costs take
        O(n log n) to build and O(n) to apply; the relative cost takes O(k^2) per query with k
        distinct scores.

        Parameters
        ----------
        y : (n_items,) or (n_items, n_outputs)
            Scores, higher is better. Several outputs must tie the same items wherever ties
            matter.
        qid : (n_items,) or Queries, optional
            The query of each item; all items form one query when it is left out.
        cost : {"magnitude", "unit", "relative"}
            The target z and weight w of a pair: (y_i - y_j, 1), (sign(y_i - y_j), 1) or
            (y_i - y_j, 1 / (y_i - y_j)^2).
        ties : {"drop", "keep"}
            Whether two items of equal score form a pair of target 0; only the magnitude cost
            allows to keep them.
        query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
            :math:`\omega_q`: 1 / n_q, 1, 1 / number of pairs, or given, by query id or in the order
            in which the queries first appear. With `sample_weight`, items and pairs are counted
            by weight.
        sample_weight : (n_items,), optional
            Weight of each item; a pair has the product of its ends' weights, so that an integer
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
        """Build from comparisons; the same pair may come often and in both directions.

        Parameters
        ----------
        pairs : (n_pairs, 2)
            Row numbers of items, winner first.
        margin : (n_pairs,), optional
            By how much the winner should lead; 1 when left out.
        weight : (n_pairs,), optional
            How much each comparison counts; 1 when left out.
        n_items : int, optional
            Number of items; the number of `qid`, or one more than the largest index, when left out.
        qid : (n_items,), optional
            The query of each item. Both items of a pair must belong to one query.
        cost : {"magnitude", "unit", "relative"}
            The target and weight of a pair with margin z: (z, 1), (sign z, 1) or (z, 1 / z^2); the
            weight times that given.
        query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
            What the comparisons of a query are multiplied by, with `qid` only: 1 / n_q with n_q
            its items, 1, 1 / the number of its comparisons by weight, or given as in
            `from_scores`.

        Notes
        -----
        The preference graph of [PTA09] Sect. 2.1; (12) and (13) are its matrices M and N. The costs
        are (21), (20) and (22), of which a negative margin turns the preference round. For the
        relative cost, margins below 1e-6 of the largest count as that.
        """
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
        """Build from what ``fit`` was given; several outputs must be able to share a graph.

        The options are those of `from_scores`. Comparisons have no ties, and `query_weight`
        matters for them where queries were named.
        """
        check_choice("cost", cost, get_args(Cost))
        if not data.is_scored:
            return cls._of_comparisons(data, cost, query_weight)
        check_choice("ties", ties, get_args(Ties))
        if ties == "keep" and cost != "magnitude":
            raise InvalidInputError(
                f"ties='keep' is defined for cost='magnitude' only: got cost={cost!r}. "
                "Use ties='drop', which leaves tied pairs out."
            )
        grades = Grades.of(data.queries, data.scores, data.weight, keep_ties=ties == "keep")
        omega = grades.query_weights(query_weight)
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
        """Number of queries that hold no preference and so teach nothing."""
        useful = np.zeros(self.queries.n_queries, dtype=bool)
        useful[self.queries.index[self.laplacian.component >= 0]] = True
        return int(np.count_nonzero(~useful))

    def __matmul__(self, V: FloatArray) -> FloatArray:
        return self.laplacian @ V

    def quadratic(self, f: FloatArray) -> float:
        """Return the weighted sum of squared differences ``f' L f`` of scores f."""
        return float(f @ (self @ f))

    def __repr__(self) -> str:
        kind = type(self.laplacian).__name__
        return f"PreferenceGraph({self.n_items} items, {self.queries.n_queries} queries, {kind})"


@final
@dataclass(frozen=True, eq=False)
class OutputGraphs:
    """Hold one graph per set of outputs that can share it; several only where ties differ."""

    graphs: tuple[PreferenceGraph, ...]
    outputs: tuple[list[int], ...]
    is_multi_output: bool

    @classmethod
    def of(cls, data: TrainingData, *, cost: Cost, ties: Ties, query_weight: QueryWeight) -> Self:
        """Build from what ``fit`` was given, with the options of `PreferenceGraph.of`."""
        if not data.is_multi_output:
            graph = PreferenceGraph.of(data, cost=cost, ties=ties, query_weight=query_weight)
            return cls((graph,), ([0],), is_multi_output=False)
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

    @property
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
