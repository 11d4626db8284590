"""What each partition contributes to the normal equations, including split queries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.apps.distributed.partitions import (
    PartitionFile,
    PartitionRows,
    Partitions,
    are_among,
    join_blocks,
    split_ids,
    stack_rows,
)
from rankwise.core.arrays import FloatArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.graph.laplacian import moment
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.graph.split_queries import GradeCounts, QueryShare, SplitQueries
from rankwise.rankers.linear.statistics import OnePassError, ScoredRows, Statistics, accumulate
from rankwise.solve.operators import GraphOperator, NormalOperator, normal_operator
from rankwise.solve.rows import as_rows


@final
@dataclass(frozen=True, eq=False)
class LocalGraphs:
    """The graphs over the rows of one partition: of its whole queries, and inside its bundles.

    Parameters
    ----------
    graphs : list of (X, PreferenceGraph)
        At most two.
    bundles : (n_bundles, n_features), optional
        The mean rows of the bundles of split queries.
    n_queries, n_ignored : int
        Number of whole queries, and how many of them have no preference.
    """

    graphs: list[tuple[Matrix, PreferenceGraph]]
    bundles: Matrix | None
    n_queries: int
    n_ignored: int

    @classmethod
    def of(
        cls,
        block: PartitionRows,
        ids: NDArray[Any],
        share: QueryShare | None,
        options: dict[str, Any],
    ) -> Self:
        """Build the graphs; ``ids`` are the queries of the block that other partitions hold too."""
        whole, graphs = block.of_queries(ids, others=True), []
        n_queries = n_ignored = 0
        # whole queries: the graph of their rows
        if whole.n_items:
            try:
                graph = PreferenceGraph.from_scores(
                    whole.y, whole.qid, sample_weight=whole.weight, **options
                )
                graphs.append((whole.X, graph))
                n_queries, n_ignored = graph.queries.n_queries, graph.n_ignored_queries
            except NothingToLearnError:
                n_queries = n_ignored = Queries.from_qid(whole.qid).n_queries
        # split queries: the graph inside bundles, eq. split-sum, and the means of the bundles
        if share is None:
            return cls(graphs, None, n_queries, n_ignored)
        split = cls.of_split(block.of_queries(ids), share, options["ties"])
        return cls([*graphs, *split.graphs], split.bundles, n_queries, n_ignored)

    @classmethod
    def of_split(cls, split: PartitionRows, share: QueryShare, ties: Any) -> Self:
        """Build from rows of split queries alone."""
        grade = _counts(split, ties).grade
        graph = share.local_graph(grade, split.y, split.qid, split.weights)
        return cls([(split.X, graph)], share.bundles(grade, split.weights).means(split.X), 0, 0)

    def statistics(self, n_features: int) -> Statistics:
        """Add up ``X' L X`` and ``X' r``."""
        total = Statistics.nothing(n_features)
        for X, graph in self.graphs:
            total = total + _statistics(X, graph)
        return Statistics(total.gram, total.moment, self.n_queries, self.n_ignored)

    def operators(self, dtype: str | None) -> list[GraphOperator]:
        """Return the operators of conjugate gradients."""
        return [normal_operator(as_rows(X, dtype), graph) for X, graph in self.graphs]


def _statistics(X: Matrix, graph: PreferenceGraph) -> Statistics:
    laplacian = graph.laplacian
    h = moment(X, as_columns(graph.rhs), laplacian.anchor())[:, 0]
    return Statistics(laplacian.gram(X), h, 0, 0)


def _counts(split: PartitionRows, ties: Any) -> GradeCounts:
    return GradeCounts.of(split.y, split.qid, split.weights, ties=ties)


def _count(block: PartitionRows, ids: NDArray[Any], ties: Any) -> GradeCounts | None:
    if not len(ids):
        return None
    return _counts(block.of_queries(ids), ties).without_items()


@final
@dataclass(frozen=True, eq=False)
class SharedProblem:
    """The normal equations of all partitions, cut into shares.

    Parameters
    ----------
    partitions : Partitions
        The rows.
    split : list of arrays
        The queries of each partition that other partitions hold too.
    shares : list of QueryShare or None
        What each partition needs to know about these.
    graph : PreferenceGraph or None
        The graph over the bundles of all partitions.
    options : dict
        Cost, ties and query weight.
    n_split, n_ignored : int
        Number of split queries, and how many of them have no preference.
    """

    partitions: Partitions
    split: list[NDArray[Any]]
    shares: list[QueryShare | None]
    graph: PreferenceGraph | None
    options: dict[str, Any]
    n_split: int = 0
    n_ignored: int = 0

    @classmethod
    def of(cls, partitions: Partitions, options: dict[str, Any]) -> Self:
        """Find the split queries, and what each partition holds of them: labels only."""
        split = split_ids(partitions.ids())
        if not any(len(ids) for ids in split):
            return cls(partitions, split, [None] * len(split), None, options)
        # items of each grade of each split query, counted on the workers
        counts = partitions.engine.compute(
            partitions.each_head("count", _count, split, options["ties"])
        )
        found = SplitQueries.of([c for c in counts if c is not None], **options)
        remaining_shares = iter(found.shares)
        shares = [None if c is None else next(remaining_shares) for c in counts]
        n_split = found.graph.queries.n_queries
        return cls(
            partitions, split, shares, found.graph, options, n_split, found.n_ignored_queries
        )

    def statistics(self) -> Statistics:
        """Return ``X' L X`` and ``X' r`` of everything: one pass, one sum."""
        engine, partitions = self.partitions.engine, self.partitions
        # Parquet files are added up part by part, other partitions whole
        function: Callable[..., tuple[Statistics, Matrix | None]] = share_of_statistics
        rows = partitions.blocks
        if partitions.files is not None:
            rows, function = partitions.files, share_of_file
        both = engine.call_each(
            "statistics", function, partitions.labels, rows, self.split, self.shares,
            [self.options] * len(rows), partitions.n_features,
        )  # fmt: skip
        # sums stay on the workers; only the total and the means of bundles are gathered
        grams = [engine.call("gram", itemgetter(0), one, number=k) for k, one in enumerate(both)]
        bundles = [
            engine.call("bundles", itemgetter(1), one, number=k)
            for k, (one, share) in enumerate(zip(both, self.shares, strict=True))
            if share is not None
        ]
        total, *means = engine.compute([engine.add(grams), *bundles])
        # the graph between the bundles of split queries
        if self.graph is not None:
            total = total + _statistics(stack_rows(means), self.graph)
        return Statistics(
            total.gram,
            total.moment,
            total.n_queries + self.n_split,
            total.n_ignored + self.n_ignored,
        )

    def operator(self, dtype: str | None) -> "ClusterOperator":
        """Return the operator of conjugate gradients, its rows on the workers."""
        engine = self.partitions.engine
        # graphs and operators of each partition, on the workers
        known = self.split, self.shares, self.options
        local = engine.persist(self.partitions.each("graphs", LocalGraphs.of, *known))
        parts = engine.persist(
            engine.call_each(
                "operators", LocalGraphs.operators, self.partitions.labels, local, dtype
            )
        )
        gathered = engine.compute(
            engine.call_each("facts", _local_facts, self.partitions.labels, local, parts)
        )
        # the operator between bundles, on the client
        between = None
        if self.graph is not None:
            rows = stack_rows([one.bundles for one in gathered if one.bundles is not None])
            between = normal_operator(as_rows(rows), self.graph)
        # number of queries, and of independent preferences, over all partitions
        n_queries = self.n_split + sum(one.n_queries for one in gathered)
        n_ignored = self.n_ignored + sum(one.n_ignored for one in gathered)
        rank = sum(one.rank for one in gathered)
        if n_queries == n_ignored:
            raise NothingToLearnError(
                "The data must hold at least one preference: all scores inside every query are "
                f"equal, or every query has one item only ({n_queries} queries)."
            )
        if self.graph is not None:
            rank += self.graph.laplacian.rank()
        return ClusterOperator(self.partitions, parts, between, n_queries, n_ignored, rank)


def refuse_ordered_weights(query_weight: Any) -> None:
    """Refuse weights in an order of queries that partitions do not have."""
    if not isinstance(query_weight, str | dict):
        raise InvalidInputError(
            "`query_weight` must be a name or a mapping from query ids, since queries have no "
            f"order across partitions: got {type(query_weight).__name__}."
        )


def share_of_statistics(
    block: PartitionRows,
    ids: NDArray[Any],
    share: QueryShare | None,
    options: dict[str, Any],
    n_features: int,
) -> tuple[Statistics, Matrix | None]:
    """Add up a block, and return the mean rows of its bundles of split queries."""
    local = LocalGraphs.of(block, ids, share, options)
    return local.statistics(n_features), local.bundles


def share_of_file(
    file: PartitionFile,
    ids: NDArray[Any],
    share: QueryShare | None,
    options: dict[str, Any],
    n_features: int,
) -> tuple[Statistics, Matrix | None]:
    """Add up a file part by part, or whole if the rows of a query are not contiguous."""
    split: list[PartitionRows] = []
    try:
        chunks = _whole_queries(file, ids, split)
        total = accumulate(chunks, n_features, options, file.memory)
    except OnePassError:
        return share_of_statistics(file.read(), ids, share, options, n_features)
    if share is None:
        return total, None
    local = LocalGraphs.of_split(join_blocks(split), share, options["ties"])
    return total + local.statistics(n_features), local.bundles


def _whole_queries(
    file: PartitionFile, ids: NDArray[Any], split: list[PartitionRows]
) -> Iterator[ScoredRows]:
    """Yield the rows of whole queries; set the rows of split ones aside."""
    for block in file.chunks():
        is_split = are_among(block.qid, ids) if len(ids) else np.zeros(block.n_items, dtype=bool)
        if is_split.any():
            split_rows = block.take(is_split)
            split.append(replace(split_rows, X=split_rows.X.copy()))
        rows = block.take(~is_split)
        if rows.n_items:
            yield ScoredRows(rows.X, rows.y, rows.qid)


class _LocalFacts(NamedTuple):
    """What the client needs to know of the graphs of a partition."""

    n_queries: int
    n_ignored: int
    rank: int
    bundles: Matrix | None


def _local_facts(local: LocalGraphs, parts: list[GraphOperator]) -> _LocalFacts:
    rank = sum(part.graph.laplacian.rank() for part in parts)
    return _LocalFacts(local.n_queries, local.n_ignored, rank, local.bundles)


@final
@dataclass(frozen=True, eq=False)
class ClusterOperator(NormalOperator):
    """``X' L X`` of rows on a cluster: one vector of weights is sent, one is gathered.

    Parameters
    ----------
    partitions : Partitions
        The partitions of the rows.
    parts : list
        The operators of each partition, on the workers.
    between : GraphOperator, optional
        The operator of the bundles of split queries, applied by the caller.
    n_queries, n_ignored : int
        Number of queries, and how many of them have no preference.
    rank : int
        Number of independent preferences.
    """

    partitions: Partitions
    parts: list[Any]
    between: GraphOperator | None
    n_queries: int
    n_ignored: int
    rank: int

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.partitions.n_features

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``."""
        return self._sum("apply", w)

    def rhs(self) -> FloatArray:
        """Return ``X' r``."""
        return self._sum("rhs")

    def diagonal(self) -> FloatArray:
        """Return the diagonal of ``X' L X``, approximately."""
        return self._sum("diagonal")

    def _sum(self, method: str, *vectors: FloatArray) -> FloatArray:
        """Add up what a method returns for the operators of all partitions and between bundles."""
        engine = self.partitions.engine
        sent = [engine.call("vector", np.array, vector) for vector in vectors]
        sums = engine.call_each(
            method, _added, self.partitions.labels, self.parts, self.n_features, method, *sent
        )
        (total,) = engine.compute([engine.add(sums)])
        between = [] if self.between is None else [self.between]
        return np.array(total) + _added(between, self.n_features, method, *vectors)


def _added(
    parts: list[GraphOperator], n_features: int, method: str, *vectors: FloatArray
) -> FloatArray:
    return sum((getattr(part, method)(*vectors) for part in parts), np.zeros(n_features))
