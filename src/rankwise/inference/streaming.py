"""Rows that are read part by part, so that they need not fit in memory."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.graph import PreferenceGraph
from rankwise.core.nested import Nested
from rankwise.core.scatter import Scatter
from rankwise.inference.cg_operator import (
    KnownMeans,
    NormalOperator,
    QueryByQuery,
    TwoPasses,
    means_are_few,
    query_blocks,
)
from rankwise.inference.cg_rows import Affine, Blocks, Rows

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
    if not isinstance(laplacian, Scatter | Nested):
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
