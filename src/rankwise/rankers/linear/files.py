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
from rankwise.core.errors import DataFileError
from rankwise.graph.cliques import CliqueLaplacian
from rankwise.graph.nested_cliques import NestedCliqueLaplacian
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.io.data import RankingData
from rankwise.io.streams import DataStream, RowStore
from rankwise.rankers.linear.settings import Settings
from rankwise.rankers.linear.statistics import Chunk, Statistics, accumulate
from rankwise.solve.conjugate_gradients import Descent, Iterate, Validation
from rankwise.solve.operators import (
    KnownMeans,
    NormalOperator,
    QueryByQuery,
    TwoPasses,
    means_are_few,
    normal_operator,
    query_blocks,
)
from rankwise.solve.rows import Affine, Blocks, DenseRows, Rows, SparseRows

PART_BYTES = 1 << 24
"""Rows are read in parts of this size: soon read, and in memory that is used again and again."""


@final
@dataclass(frozen=True, eq=False)
class Source:
    """Rows kept elsewhere.

    Parameters
    ----------
    load : callable
        Reads the rows first to last; dense rows all less the same offset.
    row_bytes : (n_items + 1,)
        The memory that the rows before each one take, and all of them.
    n_features, n_stored : int
        Number of columns and of stored entries.
    """

    load: Callable[[int, int], Rows]
    row_bytes: IntArray
    n_features: int
    n_stored: int


@final
@dataclass(frozen=True, eq=False)
class StreamedRows(Rows):
    """The rows of a source, of which two parts at a time are in memory: one in use, one read ahead.

    Parameters
    ----------
    source : Source
        Where they are.
    edges : (n_parts + 1,)
        The rows at which the parts begin, and the end.
    """

    source: Source
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

    def _parts(self) -> Iterator[tuple[slice, Rows]]:
        """Yield the parts one after the other, each read while the one before is in use."""
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

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""
        return self._sum(lambda rows, part: part.squares(weight[rows]))

    def affine(self, w: FloatArray, values: Affine) -> FloatArray:
        """Return ``X.T @ values(X @ w)``."""
        return self._sum(lambda rows, part: part.affine(w, values.take(rows)))

    def blocks(self, w: FloatArray, laplacian: Blocks) -> FloatArray:
        """Return ``X.T @ L @ X @ w``; every part must hold whole blocks."""
        return self._sum(lambda rows, part: part.blocks(w, laplacian.take(rows)))

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group."""
        return self._sum(lambda rows, part: part.group_sums(group[rows], weight[rows], n_groups))

    def _sum(self, of_part: Callable[[slice, Rows], FloatArray]) -> FloatArray:
        parts = self._parts()
        total = of_part(*next(parts))
        for rows, part in parts:
            total += of_part(rows, part)
            del part
        return total


def streamed_operator(source: Source, graph: PreferenceGraph, memory: int) -> NormalOperator:
    """Choose the form of the operator that reads the rows least often.

    Two parts take at most ``memory`` bytes. A query whose rows stand together is read whole where
    it fits, otherwise an application reads everything twice.
    """
    laplacian, work, most = graph.laplacian, source.row_bytes, memory // 2
    part = min(most, PART_BYTES)
    anywhere = StreamedRows(source, cut(work, np.arange(len(work)), part))
    if not isinstance(laplacian, CliqueLaplacian | NestedCliqueLaplacian):
        return TwoPasses(anywhere, graph)
    if means_are_few(anywhere, laplacian):
        return KnownMeans.of(anywhere, graph, laplacian)
    blocks = query_blocks(laplacian)
    if blocks is None or np.diff(work[blocks.starts]).max() > most:
        return TwoPasses(anywhere, graph)
    return QueryByQuery(StreamedRows(source, cut(work, blocks.starts, part)), graph, blocks)


def cut(work: IntArray, borders: IntArray, most: int) -> IntArray:
    """Cut rows at some of the borders into few parts of at most so much work each.

    A part between two neighbouring borders is never cut, however much it is.
    """
    edges = [int(borders[0])]
    before = work[borders]
    while edges[-1] < borders[-1]:
        reach = np.searchsorted(before, work[edges[-1]] + most, side="right") - 1
        least = np.searchsorted(borders, edges[-1], side="right")
        edges.append(int(borders[max(reach, least)]))
    return np.array(edges)


Solver: TypeAlias = Literal["auto", "statistics", "iterations"]

FEW_FEATURES = 512
"""Features up to which statistics of features by features are gathered in one pass."""


def refuse_no_features(path: str | PathLike[str], stream: DataStream) -> None:
    """Refuse a file in which there is nothing to weigh."""
    if stream.n_features < 1:
        raise DataFileError(f"{os.fspath(path)}: expected at least one feature, got none.")


def prefers_statistics(solver: Solver, stream: DataStream, settings: Settings) -> bool:
    """Tell whether one pass that gathers statistics is the way to learn."""
    if solver != "auto":
        return solver == "statistics"
    by_name = isinstance(settings.options["query_weight"], str | dict)
    return stream.n_features <= FEW_FEATURES and settings.rule.patience is None and by_name


def gather(stream: DataStream, options: dict[str, Any], memory: int) -> Statistics:
    """Add up the statistics of all queries in one pass over the file."""
    return accumulate(_chunks(stream), stream.n_features, options, memory // 2)


def _chunks(stream: DataStream) -> Iterator[Chunk]:
    for data in stream.chunks():
        y = _scores(data)
        yield Chunk(data.X, y, np.zeros(len(y), dtype=np.intp) if data.qid is None else data.qid)


def _scores(data: RankingData) -> FloatArray:
    if data.y is None:
        raise DataFileError("The file must hold scores to learn from: got none.")
    return data.y


def exact_descent(
    statistics: Statistics, alphas: FloatArray, validation: Validation | None
) -> Descent:
    """Solve from statistics, and present it as a run of a single step that leaves no residual."""
    coefs = statistics.solve(alphas)
    values = np.full(len(alphas), np.nan)
    merit = values
    if validation is not None:
        values = validation.rate(np.stack([validation.rows.product(coef) for coef in coefs]))
        merit = validation.merit(values)
    best = int(np.lexsort((alphas, np.where(np.isnan(merit), -np.inf, merit)))[-1])
    chosen = Iterate(float(alphas[best]), 1, coefs[best], 0.0, float(values[best]))
    residuals = np.zeros((1, len(alphas)))
    return Descent(chosen, coefs, alphas, residuals, values[None], "converged")


@contextmanager
def stored_operator(
    stream: DataStream,
    settings: Settings,
    memory: int,
    cache_dir: str | PathLike[str] | None,
) -> Iterator[NormalOperator]:
    """Bring the file into binary form on disk, and yield the operator that reads it part by part.

    The binary copy lives as long as the context. Scores and queries stay in memory.
    """
    with tempfile.TemporaryDirectory(prefix="rankwise-", dir=cache_dir) as folder:
        store = RowStore.create(folder, stream.n_features, settings.dtype or np.float64)
        y, qid = _store(stream, store)
        graph = PreferenceGraph.from_scores(y, qid, **settings.options)
        source = _source(store)
        if source.row_bytes[-1] <= memory // 2:
            yield normal_operator(source.load(0, len(y)), graph)
        else:
            yield streamed_operator(source, graph, memory // 2)


def _store(stream: DataStream, store: RowStore) -> tuple[FloatArray, NDArray[Any] | None]:
    scores, ids = _Vector(stream.n_items), _Vector(stream.n_items)
    for data in stream.chunks():
        store.append(data.X)
        scores.append(_scores(data))
        if data.qid is not None:
            ids.append(data.qid)
    return scores.values, ids.values if stream.has_qid else None


@final
@dataclass(eq=False)
class _Vector:
    """A vector that is filled piece by piece, in the smallest type that holds all of them.

    Its memory is taken at once. Many small pieces among the large arrays of the chunks, which come
    and go, would keep the memory of those from being used again.
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


def _source(store: RowStore) -> Source:
    starts = store.starts()
    index_size = store.index_dtype.itemsize if store.is_sparse else 0
    row_bytes = starts * (store.dtype.itemsize + index_size)
    offset = np.zeros(store.n_features)
    if not store.is_sparse:
        offset = store.read_dense(0, 1)[0].astype(np.float64)

    def load(first: int, last: int) -> Rows:
        if store.is_sparse:
            return SparseRows(*store.read_sparse(first, last, starts), store.n_features)
        return DenseRows(store.read_dense(first, last), offset)

    return Source(load, row_bytes, store.n_features, int(starts[-1]))
