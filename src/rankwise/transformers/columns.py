"""What needs the sorted values of each feature in each query: ranks and quantiles."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import in_threads
from rankwise.core.queries import Queries
from rankwise.transformers._kernels import find_quantiles, gather_block, write_ranks

BLOCK = 1 << 15
"""Entries of X that are sorted together, so that they stay in the cache."""


def ranks_within_queries(X: FloatArray, queries: Queries) -> FloatArray:
    """Return the rank of each value in its query from 0 to 1; blanks stay blank."""
    ranks = np.empty(X.shape)

    def rank(block: _SortedTogether, keys: FloatArray) -> None:
        place = np.argsort(keys, axis=2)
        write_ranks(keys, place, queries.order, queries.starts, block.queries, block.feature, ranks)

    _by_blocks(X, queries, rank)
    return ranks


def quantiles_within_queries(
    X: FloatArray, queries: Queries, shares: Sequence[float]
) -> FloatArray:
    """Return quantiles of the known values, (n_shares, n_queries, n_features)."""
    found = np.empty((len(shares), queries.n_queries, X.shape[1]))
    wanted = np.array(shares)

    def read(block: _SortedTogether, keys: FloatArray) -> None:
        keys.sort(axis=2)
        find_quantiles(keys, wanted, block.queries, block.feature, found)

    _by_blocks(X, queries, read)
    return found


@final
@dataclass(frozen=True, eq=False)
class _SortedTogether:
    """Some features, from one on, of some queries of about the same size."""

    queries: IntArray
    feature: int
    shape: tuple[int, int, int]


def _blocks(queries: Queries, n_features: int) -> Iterator[_SortedTogether]:
    """Cut a table into blocks: several queries each, or some features of a large one."""
    by_size = np.argsort(queries.sizes, kind="stable")
    last = len(by_size)
    while last > 0:
        width = int(queries.sizes[by_size[last - 1]])
        first = max(0, last - max(1, BLOCK // (width * n_features)))
        n_together = min(n_features, max(1, BLOCK // width))
        for j in range(0, n_features, n_together):
            shape = (min(n_together, n_features - j), last - first, width)
            yield _SortedTogether(by_size[first:last], j, shape)
        last = first


def _by_blocks(
    X: FloatArray, queries: Queries, use: Callable[[_SortedTogether, FloatArray], None]
) -> None:
    """Call ``use`` with the values of every block, (features, queries, items); threads share them.

    Queries are padded with infinity to the size of the largest, and blanks are infinity too: both
    are sorted last.
    """
    blocks = list(_blocks(queries, X.shape[1]))

    def task(k: int) -> None:
        keys = np.full(blocks[k].shape, np.inf)
        gather_block(X, queries.order, queries.starts, blocks[k].queries, blocks[k].feature, keys)
        use(blocks[k], keys)

    in_threads(task, len(blocks))
