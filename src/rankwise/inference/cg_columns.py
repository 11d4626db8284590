"""Names of columns under which the ones used most stand side by side."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.inference._cg_kernels import count_columns, pack_rows, rename_columns
from rankwise.inference._cg_threads import even_parts, run_parts, sum_parts

IN_CACHE = 1 << 11
"""Columns whose weights and sums stay in the nearest cache under any name."""

SHORT_NAMES = 1 << 16
"""Columns that indices of 16 bits can name."""


@final
@dataclass(frozen=True, eq=False)
class Columns:
    """The order in which the columns of some rows are named.

    Parameters
    ----------
    order : (n_features,), optional
        The column of each name; left out when columns have their own.
    """

    order: IntArray | None = None

    def inwards(self, w: FloatArray) -> FloatArray:
        """Return one entry per column as one per name."""
        return w if self.order is None else w[self.order]

    def outwards(self, values: FloatArray) -> FloatArray:
        """Return one entry per name, in the last axis, as one per column."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[..., self.order] = values
        return out


AS_THEY_ARE = Columns()


def pays(n_features: int, *, copied: bool) -> bool:
    """Tell whether a copy of the indices of a sparse matrix makes passes over it faster.

    It takes 2 bytes for each entry. Frequent columns then share cache lines, and fewer bytes are
    read: passes take a tenth to a fifth less time, and making the copy takes that of about one.
    Where values are copied to be smaller, so are the indices of few columns.
    """
    return n_features <= SHORT_NAMES and (copied or n_features > IN_CACHE)


def most_used_first(X: Any, dtype: np.dtype[Any]) -> tuple[Columns, NDArray[Any], NDArray[Any]]:
    """Name the columns of a CSR matrix by how often they are used.

    Return their order, the values and the indices. Values that are of another type are copied, and
    since the copy is free to choose, entries of the most frequent columns come first in each row.
    """
    edges = even_parts(X.indptr)
    order = np.argsort(-_counts(X, edges), kind="stable")
    names = np.empty(len(order), dtype=np.uint16)
    names[order] = np.arange(len(order))
    indices = np.empty(len(X.indices), dtype=np.uint16)
    if X.data.dtype == dtype:
        run_parts(
            lambda _, first, last: rename_columns(X.indices, names, first, last, indices),
            X.indptr[edges],
        )
        return Columns(order), X.data, indices
    values = np.empty(len(X.data), dtype=dtype)
    run_parts(
        lambda _, first, last: pack_rows(
            X.data, X.indices, X.indptr, names, IN_CACHE, first, last, values, indices
        ),
        edges,
    )
    return Columns(order), values, indices


def _counts(X: Any, edges: IntArray) -> FloatArray:
    """Return how often each column is used."""

    def count(first: int, last: int, out: FloatArray) -> None:
        count_columns(X.indices, first, last, out)

    return sum_parts(count, X.indptr[edges], X.shape[1])
