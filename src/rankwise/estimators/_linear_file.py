"""Learning from a file that need not fit in memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError
from rankwise.core.graph import PreferenceGraph
from rankwise.estimators._linear_settings import Settings
from rankwise.inference.cg import Descent, Iterate
from rankwise.inference.cg_operator import NormalOperator, normal_operator
from rankwise.inference.cg_rows import Rows
from rankwise.inference.cg_state import Validation
from rankwise.inference.cg_storage import DenseRows, SparseRows
from rankwise.inference.streaming import Source, streamed_operator
from rankwise.inference.streaming_statistics import Chunk, Statistics, accumulate
from rankwise.io.data import RankingData
from rankwise.io.row_store import RowStore
from rankwise.io.streams import DataStream

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
