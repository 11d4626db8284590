"""Learning from a file that need not fit in memory."""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.io.data import RankingData
from rankwise.io.reading import DataStream, RowStore
from rankwise.rankers.linear.run import Settings
from rankwise.rankers.linear.statistics import ScoredRows, Statistics, accumulate
from rankwise.solve.conjugate_gradients import CGResult, Iterate, Validator, best_position
from rankwise.solve.operators import (
    GraphOperator,
    KnownMeans,
    QueryByQuery,
    TwoPasses,
    means_are_few,
    normal_operator,
    query_blocks,
)
from rankwise.solve.rows import (
    BlockLaplacian,
    DenseRows,
    GroupwiseMap,
    ItemRows,
    SparseRows,
    two_passes,
)

PART_BYTES = 1 << 24
"""Rows are read in parts of this size: soon read, and in memory that is used again and again."""


@final
@dataclass(frozen=True, eq=False)
class RowSource:
    """Rows kept elsewhere.

    Parameters
    ----------
    load : callable
        Reads the rows first to last; the same offset is subtracted from all dense rows.
    row_bytes : (n_items + 1,)
        The memory of all rows before each row, and of all rows.
    n_features, n_stored : int
        Number of columns and of stored entries.
    """

    load: Callable[[int, int], ItemRows]
    row_bytes: IntArray
    n_features: int
    n_stored: int


@final
@dataclass(frozen=True, eq=False)
class StreamedRows(ItemRows):
    """The rows of a source, with two parts in memory at a time: one in use, one read ahead.

    Parameters
    ----------
    source : RowSource
        The source of the rows.
    edges : (n_parts + 1,)
        The rows at which the parts begin, and the end.
    """

    source: RowSource
    edges: IntArray

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.edges[-1])

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.source.n_features

    @property
    def n_stored(self) -> int:  # type: ignore[override]
        """Number of stored entries."""
        return self.source.n_stored

    def _parts(self) -> Iterator[tuple[slice, ItemRows]]:
        """Yield the parts in order, each read while the previous one is in use."""
        spans = [slice(*span) for span in pairwise(self.edges.tolist())]
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self.source.load, spans[0].start, spans[0].stop)
            for span, following in zip(spans, [*spans[1:], None], strict=True):
                part = ahead.result()
                if following is not None:
                    ahead = reader.submit(self.source.load, following.start, following.stop)
                yield span, part
                del part  # before the one after the next is read

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``X @ w``."""
        out = np.empty(self.n_items)
        for rows, part in self._parts():
            out[rows] = part.product(w)
            del part
        return out

    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``X.T @ v``."""
        return self._sum(lambda rows, part: part.transposed(v[rows]))

    def passes(self, laplacian: GraphLaplacian) -> Callable[[FloatArray], FloatArray]:
        """Return ``w -> X.T @ L @ X @ w``."""
        return two_passes(self, laplacian)

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""
        return self._sum(lambda rows, part: part.squares(weight[rows]))

    def groupwise_product(self, w: FloatArray, mapping: GroupwiseMap) -> FloatArray:
        """Return ``X.T @ mapping(X @ w)``."""
        return self._sum(lambda rows, part: part.groupwise_product(w, mapping.take(rows)))

    def block_product(self, w: FloatArray, laplacian: BlockLaplacian) -> FloatArray:
        """Return ``X.T @ L @ X @ w``; every part must hold whole blocks."""
        return self._sum(lambda rows, part: part.block_product(w, laplacian.take(rows)))

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group."""
        return self._sum(lambda rows, part: part.group_sums(group[rows], weight[rows], n_groups))

    def block_diagonal(self, laplacian: BlockLaplacian) -> FloatArray:
        """Return the diagonal of ``X.T @ L @ X``; every part must hold whole blocks."""
        return self._sum(lambda rows, part: part.block_diagonal(laplacian.take(rows)))

    def _sum(self, of_part: Callable[[slice, ItemRows], FloatArray]) -> FloatArray:
        parts = self._parts()
        total = of_part(*next(parts))
        for rows, part in parts:
            total += of_part(rows, part)
            del part
        return total


def streamed_operator(source: RowSource, graph: PreferenceGraph, memory: int) -> GraphOperator:
    """Choose the form of the operator that reads the rows least often.

    Two parts take at most ``memory`` bytes. A query whose rows are contiguous is read whole if it
    fits; otherwise an application reads everything twice.
    """
    row_bytes, most = source.row_bytes, memory // 2
    part = min(most, PART_BYTES)
    anywhere = StreamedRows(source, cut(row_bytes, np.arange(len(row_bytes)), part))
    cliques = graph.laplacian.clique_form()
    if cliques is None:
        return TwoPasses(anywhere, graph)
    if means_are_few(anywhere, cliques):
        return KnownMeans.of(anywhere, graph, cliques)
    blocks = query_blocks(graph.laplacian)
    if blocks is None or np.diff(row_bytes[blocks.starts]).max() > most:
        return TwoPasses(anywhere, graph)
    return QueryByQuery(StreamedRows(source, cut(row_bytes, blocks.starts, part)), graph, blocks)


def cut(work: IntArray, borders: IntArray, most: int) -> IntArray:
    """Cut rows at some of the borders into few parts with bounded work each.

    A part between two neighbouring borders is never cut, however large it is.
    """
    edges = [int(borders[0])]
    before = work[borders]
    while edges[-1] < borders[-1]:
        reach = np.searchsorted(before, work[edges[-1]] + most, side="right") - 1
        least = np.searchsorted(borders, edges[-1], side="right")
        edges.append(int(borders[max(reach, least)]))
    return np.array(edges)


FileSolver: TypeAlias = Literal["auto", "statistics", "iterations"]

FEW_FEATURES = 512
"""Features up to which statistics of features by features are gathered in one pass."""


def refuse_no_features(path: str | PathLike[str], stream: DataStream) -> None:
    """Refuse a file without features."""
    if stream.n_features < 1:
        raise DataFileError(f"{os.fspath(path)}: expected at least one feature, got none.")


def refuse_missing_validation(settings: Settings, validator: Validator | None) -> None:
    """Refuse to learn from a file without the validation data that a choice needs."""
    if settings.needs_validation and validator is None:
        raise InvalidInputError(
            "`X_val` and `y_val` must be given to `fit_file` with `alphas` or `early_stopping`: "
            "got none. Read some of the data into memory for validation."
        )


def prefers_statistics(solver: FileSolver, stream: DataStream, settings: Settings) -> bool:
    """Return whether to gather statistics in one pass rather than iterate."""
    if solver != "auto":
        return solver == "statistics"
    by_name = isinstance(settings.graph_options["query_weight"], str | dict)
    return stream.n_features <= FEW_FEATURES and settings.rule.patience is None and by_name


def gather_statistics(stream: DataStream, graph_options: dict[str, Any], memory: int) -> Statistics:
    """Add up the statistics of all queries in one pass over the file."""
    return accumulate(_scored_rows(stream), stream.n_features, graph_options, memory // 2)


def _scored_rows(stream: DataStream) -> Iterator[ScoredRows]:
    for data in stream.chunks(reuse=True):
        y = _scores(data)
        qid = np.zeros(len(y), dtype=np.intp) if data.qid is None else data.qid
        yield ScoredRows(data.X, y, qid)


def _scores(data: RankingData) -> FloatArray:
    if data.y is None:
        raise DataFileError("The file must hold scores to learn from: got none.")
    return data.y


def solve_statistics(
    statistics: Statistics, settings: Settings, validator: Validator | None
) -> CGResult:
    """Solve exactly, and return the result as a run of one iteration without a residual."""
    alphas = settings.alphas
    coefs = statistics.solve(alphas)
    values = merit = np.full(len(alphas), np.nan)
    if validator is not None:
        values = validator.rate(np.stack([validator.rows.product(coef) for coef in coefs]))
        merit = validator.merit(values)
    best = best_position(merit, alphas)
    chosen = Iterate(float(alphas[best]), 1, coefs[best], 0.0, float(values[best]))
    residuals = np.zeros((1, len(alphas)))
    ending = settings.rule.end("exhausted", 1, 0.0)
    return CGResult(chosen, coefs, alphas, residuals, values[None], ending)


@contextmanager
def stored_operator(
    stream: DataStream,
    settings: Settings,
    memory: int,
    cache_dir: str | PathLike[str] | None,
) -> Iterator[GraphOperator]:
    """Convert the file to binary form on disk, and yield the operator that reads it in parts.

    The binary copy exists as long as the context. Scores and queries stay in memory.
    """
    with tempfile.TemporaryDirectory(prefix="rankwise-", dir=cache_dir) as folder:
        store = RowStore.create(folder, stream.n_features, settings.dtype or np.float64)
        y, qid = _store(stream, store)
        # [APS10] eq. (3), graph-quadratic
        graph = PreferenceGraph.from_scores(y, qid, **settings.graph_options)
        source = _source(store)
        if source.row_bytes[-1] <= memory // 2:
            yield normal_operator(source.load(0, len(y)), graph)
        else:
            yield streamed_operator(source, graph, memory // 2)


def _store(stream: DataStream, store: RowStore) -> tuple[FloatArray, NDArray[Any] | None]:
    scores, ids = _Vector(stream.n_items), _Vector(stream.n_items)
    for data in stream.chunks(reuse=True):
        store.append(data.X)
        scores.append(_scores(data))
        if data.qid is not None:
            ids.append(data.qid)
    return scores.values, ids.values if stream.has_qid else None


@final
@dataclass(eq=False)
class _Vector:
    """A vector that is filled piece by piece, in the smallest type that holds all values.

    Its memory is allocated at once. Many small pieces among the large arrays of the chunks, which
    are allocated and freed, would prevent the memory of the chunks from being reused.
    """

    length: int
    n_filled: int = 0
    values: NDArray[Any] = field(default_factory=lambda: np.empty(0))

    def append(self, piece: NDArray[Any]) -> None:
        if self.n_filled == 0:
            self.values = np.empty(self.length, dtype=piece.dtype)
        dtype = np.promote_types(self.values.dtype, piece.dtype)
        self.values = self.values.astype(dtype, copy=False)
        self.values[self.n_filled : self.n_filled + len(piece)] = piece
        self.n_filled += len(piece)


def _source(store: RowStore) -> RowSource:
    starts = store.starts()
    index_size = store.index_dtype.itemsize if store.is_sparse else 0
    row_bytes = starts * (store.dtype.itemsize + index_size)
    offset = np.zeros(store.n_features)
    if not store.is_sparse:
        offset = store.read_dense(0, 1)[0].astype(np.float64)

    def load(first: int, last: int) -> ItemRows:
        if store.is_sparse:
            return SparseRows(*store.read_sparse(first, last, starts), store.n_features)
        return DenseRows(store.read_dense(first, last), offset)

    return RowSource(load, row_bytes, store.n_features, int(starts[-1]))
