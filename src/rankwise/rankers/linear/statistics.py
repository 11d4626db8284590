"""Exact statistics of least-squares ranking from one pass over rows sorted by query."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwise.core.arrays import FloatArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.graph.laplacian import moment
from rankwise.graph.preference_graph import PreferenceGraph, standard_query_weight
from rankwise.solve.normal_equations import solve_once, solve_path

ROWS_AT_ONCE = 4096
"""Rows that are centred and squared together."""


class OnePassError(InvalidInputError):
    """The rows cannot be reduced to statistics in one pass and bounded memory."""


@final
@dataclass(frozen=True, eq=False)
class GradeMoments:
    """Number, mean and scatter of the rows of a grade, and their covariation with the scores.

    Sums of squares are taken around the mean of each part, and parts are merged by the difference
    of their means, so that large common offsets cost no digits (docs/theory/large-scale.rst, eq.
    cg-merge).
    """

    n_items: int
    mean: FloatArray
    scatter: FloatArray
    y_mean: float
    cross: FloatArray

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray) -> Self:
        """Reduce dense rows."""
        mean, y_mean = X.mean(axis=0), float(y.mean())
        Z = X - mean
        return cls(len(y), mean, Z.T @ Z, y_mean, Z.T @ (y - y_mean))

    def merge(self, other: "GradeMoments") -> "GradeMoments":
        """Return the moments of both sets of rows together."""
        n_items = self.n_items + other.n_items
        step, y_step = other.mean - self.mean, other.y_mean - self.y_mean
        weight = self.n_items * other.n_items / n_items
        return GradeMoments(
            n_items,
            self.mean + step * (other.n_items / n_items),
            self.scatter + other.scatter + weight * np.outer(step, step),  # eq. cg-merge
            self.y_mean + y_step * other.n_items / n_items,
            self.cross + other.cross + (weight * y_step) * step,
        )


@final
@dataclass(eq=False)
class LargeQuery:
    """Gather the moments of each grade of a query, or of all its items if ties are kept.

    Parameters
    ----------
    qid
        The id of the query.
    n_features : int
        Number of columns.
    memory : int
        Bytes that the moments may take.
    ties_kept : bool
        Whether all items count as one grade, since ties form pairs too.
    """

    qid: Any
    n_features: int
    memory: int
    ties_kept: bool
    grades: dict[float, GradeMoments] = field(default_factory=dict)

    def add(self, X: Matrix, y: FloatArray) -> None:
        """Gather more rows."""
        for start in range(0, len(y), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            block = X[rows].toarray() if sparse.issparse(X) else X[rows].astype(np.float64)
            self._add_dense(block, y[rows])

    def _add_dense(self, X: FloatArray, y: FloatArray) -> None:
        grade = np.zeros(len(y)) if self.ties_kept else y
        for value in np.unique(grade).tolist():
            chosen = grade == value
            part = GradeMoments.of(X[chosen], y[chosen])
            known = self.grades.get(value)
            self.grades[value] = part if known is None else known.merge(part)
        if 8 * len(self.grades) * self.n_features**2 > self.memory:
            raise OnePassError(
                f"Query {self.qid!r} does not fit in memory, and its {len(self.grades)} distinct "
                "scores are too many for statistics of each. Raise `memory`, keep ties, or choose "
                "solver='iterations'."
            )

    def gram_and_moment(
        self, graph_options: dict[str, Any]
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return ``X' L X`` and ``X' r``; None if there is no preference."""
        query_weight = graph_options["query_weight"]
        if not isinstance(query_weight, str) and query_weight[0] == 0:
            return None
        if not self.ties_kept:
            return self._of_grades(graph_options)
        (items,) = self.grades.values()
        if items.n_items < 2:
            return None
        omega = _query_weight(query_weight, items.n_items)
        return omega * items.n_items * items.scatter, omega * items.n_items * items.cross

    def _of_grades(self, graph_options: dict[str, Any]) -> tuple[FloatArray, FloatArray] | None:
        """Treat grades as items with the total weight of their items, and add the inner scatter."""
        values = np.array(list(self.grades))
        moments = list(self.grades.values())
        counts = np.array([grade.n_items for grade in moments], dtype=float)
        means = np.stack([grade.mean for grade in moments])
        try:
            graph = PreferenceGraph.from_scores(values, sample_weight=counts, **graph_options)
        except NothingToLearnError:
            return None
        laplacian = graph.laplacian
        gram = laplacian.gram(means)
        for degree, grade in zip(laplacian.diagonal() / counts, moments, strict=True):
            gram += degree * grade.scatter
        return gram, moment(means, as_columns(graph.rhs), laplacian.anchor())[:, 0]


def _query_weight(query_weight: Any, n_items: int) -> float:
    """Return omega of a single query whose ties are kept."""
    if isinstance(query_weight, str):
        return float(standard_query_weight(query_weight, n_items, n_items))
    return float(query_weight[0])


class ScoredRows(NamedTuple):
    """Some rows, their scores and their queries."""

    X: Matrix
    y: FloatArray
    qid: NDArray[Any]

    def take(self, rows: slice) -> "ScoredRows":
        """Keep some rows."""
        return ScoredRows(self.X[rows], self.y[rows], self.qid[rows])

    @property
    def n_bytes(self) -> int:
        """Memory that the rows take."""
        return int(self.X.data.nbytes * (1.5 if sparse.issparse(self.X) else 1.0))


@final
@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics that linear RankRLS needs of some queries; those of different queries add up.

    Parameters
    ----------
    gram : (n_features, n_features)
        ``X' L X``.
    moment : (n_features,)
        ``X' r``.
    n_queries, n_ignored : int
        Number of queries and of those without a preference.
    """

    gram: FloatArray
    moment: FloatArray
    n_queries: int
    n_ignored: int

    @classmethod
    def of(cls, chunk: ScoredRows, graph_options: dict[str, Any]) -> Self:
        """Build from whole queries; the options are those of `PreferenceGraph.from_scores`."""
        try:
            graph = PreferenceGraph.from_scores(chunk.y, chunk.qid, **graph_options)
        except NothingToLearnError:
            n_queries = len(np.unique(chunk.qid))
            return cls.nothing(chunk.X.shape[1], n_queries)
        h = moment(chunk.X, as_columns(graph.rhs), graph.laplacian.anchor())[:, 0]
        G = graph.laplacian.gram(chunk.X)
        return cls(G, h, graph.queries.n_queries, graph.n_ignored_queries)

    @classmethod
    def of_large(cls, query: LargeQuery, graph_options: dict[str, Any]) -> Self:
        """Build from a single query."""
        found = query.gram_and_moment(graph_options)
        if found is None:
            return cls.nothing(query.n_features, 1)
        return cls(*found, 1, 0)

    @classmethod
    def nothing(cls, n_features: int, n_queries: int = 0) -> Self:
        """Return the statistics of queries without a preference."""
        gram = np.zeros((n_features, n_features))
        return cls(gram, np.zeros(n_features), n_queries, n_queries)

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(
            self.gram + other.gram,
            self.moment + other.moment,
            self.n_queries + other.n_queries,
            self.n_ignored + other.n_ignored,
        )

    def solve(self, alphas: FloatArray) -> FloatArray:
        """Return the weights for every alpha, (n_alphas, n_features)."""
        if self.n_ignored == self.n_queries:
            raise NothingToLearnError(
                "The data must hold at least one preference: all scores inside every query are "
                f"equal, or every query has one item only ({self.n_queries} queries)."
            )
        columns = self.moment[:, None]
        if len(alphas) == 1:
            return solve_once(self.gram.copy(), columns, float(alphas[0])).T
        return solve_path(self.gram.copy(), columns, alphas)[:, :, 0]


def accumulate(
    chunks: Iterable[ScoredRows], n_features: int, graph_options: dict[str, Any], memory: int
) -> Statistics:
    """Add up the statistics of all queries in one pass.

    The rows of a query must be contiguous but may cross the borders of chunks. A query that takes
    more than ``memory`` bytes is reduced to statistics of its grades, part by part.

    Parameters
    ----------
    chunks : iterable of ScoredRows
        The rows in order; those of a chunk may be overwritten by the next.
    n_features : int
        Number of columns.
    graph_options : dict
        Options of `PreferenceGraph.from_scores`; no sample weights, and query weights by name or
        by id.
    memory : int
        Bytes that waiting rows, or grades of a large query, may take.
    """
    total = Statistics.nothing(n_features)
    for part in _QueryBuffer(n_features, graph_options, memory).statistics(chunks):
        total = total + part
    return total


@final
@dataclass(eq=False)
class _QueryBuffer:
    """Hold back the rows of the current query until it is complete, or too large."""

    n_features: int
    graph_options: dict[str, Any]
    memory: int
    waiting: list[ScoredRows] = field(default_factory=list)
    large: LargeQuery | None = None
    seen: set[Any] = field(default_factory=set)

    def statistics(self, chunks: Iterable[ScoredRows]) -> Iterator[Statistics]:
        for chunk in chunks:
            yield from self._take(chunk)
        if self.waiting:
            yield Statistics.of(_join(self.waiting), self.graph_options)
        if self.large is not None:
            yield Statistics.of_large(self.large, self._own_options())

    def _take(self, chunk: ScoredRows) -> Iterator[Statistics]:
        starts = np.flatnonzero(np.r_[True, chunk.qid[1:] != chunk.qid[:-1]])
        self._refuse_returning(chunk.qid[starts].tolist())
        first = int(starts[1]) if len(starts) > 1 else len(chunk.y)
        if self.large is not None:
            if chunk.qid[0] == self.large.qid:
                self.large.add(chunk.X[:first], chunk.y[:first])
                chunk, starts = chunk.take(slice(first, None)), starts[1:] - first
            if len(starts):
                yield Statistics.of_large(self.large, self._own_options())
                self.large = None
        if len(starts):
            last = int(starts[-1])
            if last > 0 or (self.waiting and self.waiting[0].qid[0] != chunk.qid[0]):
                whole = [*self.waiting, chunk.take(slice(0, last))]
                self.waiting = []
                yield Statistics.of(_join(whole), self.graph_options)
            self._wait(chunk.take(slice(last, None)))

    def _wait(self, rows: ScoredRows) -> None:
        self.waiting.append(rows._replace(X=rows.X.copy()))  # the next chunk may overwrite it
        if sum(chunk.n_bytes for chunk in self.waiting) > self.memory:
            ties_kept = self.graph_options["ties"] == "keep"
            (qid,) = rows.qid[:1].tolist()
            self.large = LargeQuery(qid, self.n_features, self.memory, ties_kept)
            for chunk in self.waiting:
                self.large.add(chunk.X, chunk.y)
            self.waiting = []

    def _own_options(self) -> dict[str, Any]:
        """Return the options with the weight of the large query under the id of a single one."""
        weight = self.graph_options["query_weight"]
        if self.large is None or isinstance(weight, str):
            return self.graph_options
        if self.large.qid not in weight:
            raise InvalidInputError(
                "`query_weight` must have an entry for every query id: "
                f"{self.large.qid!r} has none."
            )
        return self.graph_options | {"query_weight": {0: weight[self.large.qid]}}

    def _refuse_returning(self, runs: list[Any]) -> None:
        """Refuse a query whose rows are not contiguous."""
        going_on = self.waiting[0].qid[0] if self.waiting else None
        if self.large is not None:
            going_on = self.large.qid
        new = runs[1:] if runs[0] == going_on else runs
        returning = self.seen.intersection(new)
        if returning or len(set(new)) < len(new) or going_on in new:
            raise OnePassError(
                "The rows of a query must be contiguous to be read in one pass: those of query "
                f"{next(iter(returning), new[-1])!r} are not. Sort the file by "
                "query, or choose solver='iterations'."
            )
        self.seen.update(new)


def _join(chunks: list[ScoredRows]) -> ScoredRows:
    if len(chunks) == 1:
        return chunks[0]
    matrices = [chunk.X for chunk in chunks]
    stack: Callable[..., Matrix] = sparse.vstack if sparse.issparse(matrices[0]) else np.concatenate
    X = stack(matrices, format="csr") if sparse.issparse(matrices[0]) else stack(matrices)
    y = np.concatenate([chunk.y for chunk in chunks])
    return ScoredRows(X, y, np.concatenate([chunk.qid for chunk in chunks]))
