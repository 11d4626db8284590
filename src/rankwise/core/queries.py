"""The grouping of items into queries, and a compact memory of them."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import (
    FloatArray,
    IntArray,
    counting_order,
    distinct_integers,
    freeze,
    sum_by,
)
from rankwise.core.checks import check_length, refuse_masked
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable


@final
@dataclass(frozen=True, eq=False)
class Queries:
    """Group items into queries; ids may be of any type and rows in any order.

    Building costs O(n) for integer ids, or if the rows of each query are contiguous; otherwise
    O(n log n).

    Parameters
    ----------
    ids : (n_queries,)
        The distinct ids, in the order in which they first appear.
    index : (n_items,)
        The number of each item's query, a position in ``ids``.

    Examples
    --------
    >>> from rankwise import Queries
    >>> queries = Queries.from_qid(["b", "a", "b", "b"])
    >>> queries.ids.tolist(), queries.sizes.tolist()
    (['b', 'a'], [3, 1])
    >>> [rows.tolist() for rows in queries]
    [[0, 2, 3], [1]]
    >>> queries.mean([1.0, 5.0, 2.0, 3.0])
    array([2., 5.])
    """

    ids: NDArray[Any]
    index: IntArray

    @classmethod
    def of(cls, qid: Any, n_items: int, name: str = "qid", owner: str = "X") -> Self:
        """Build from ids, from existing queries, or from None for a single query.

        Parameters
        ----------
        qid : (n_items,), Queries or None
            One id per item.
        n_items : int
            Number of items; another number of ids is refused.
        name : str
            What the caller calls the ids.
        owner : str
            What the caller calls the items, one per row.
        """
        if qid is None:
            return cls.single(n_items)
        queries = qid if isinstance(qid, cls) else cls.from_qid(qid)
        check_length(name, queries.index, n_items, owner)
        return queries

    @classmethod
    def from_qid(cls, qid: ArrayLike | Sequence[Hashable]) -> Self:
        """Build from one id per item: numbers, strings, tuples or any other hashable."""
        values = _as_id_vector(qid)
        if values.dtype == object:
            return cls._from_hashables(values)
        if len(values) == 0:
            return cls(freeze(values), freeze(np.zeros(0, dtype=np.intp)))
        runs = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
        if values.dtype.kind in "biu":
            ids, first, inverse = distinct_integers(values[runs])
        else:
            ids, first, inverse = np.unique(values[runs], return_index=True, return_inverse=True)
        by_appearance = np.argsort(first, kind="stable")
        number = np.empty_like(by_appearance)
        number[by_appearance] = np.arange(len(ids))
        lengths = np.diff(np.append(runs, len(values)))
        return cls(freeze(ids[by_appearance]), freeze(np.repeat(number[inverse], lengths)))

    @classmethod
    def _from_hashables(cls, values: NDArray[Any]) -> Self:
        numbers: dict[Hashable, int] = {}
        try:
            index = np.fromiter((numbers.setdefault(v, len(numbers)) for v in values), np.intp)
        except TypeError as error:
            raise InvalidInputError(
                f"`qid` must hold ids that can be hashed, such as numbers or text: {error}."
            ) from error
        return cls(freeze(_as_objects(list(numbers))), freeze(index))

    @classmethod
    def single(cls, n_items: int) -> Self:
        """Put all items into one query with the id 0: one global ranking."""
        return cls(freeze(np.zeros(1, dtype=np.intp)), freeze(np.zeros(n_items, dtype=np.intp)))

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.index)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.ids)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of items of each query."""
        if self.is_sorted:
            return freeze(np.diff(np.searchsorted(self.index, np.arange(self.n_queries + 1))))
        return freeze(np.bincount(self.index, minlength=self.n_queries))

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the items are already sorted by query, so that ``order`` changes nothing."""
        return bool(np.all(self.index[1:] >= self.index[:-1]))

    @cached_property
    def order(self) -> IntArray:
        """The items sorted by query, in their original order within a query."""
        if self.is_sorted:
            return freeze(np.arange(self.n_items))
        return freeze(counting_order(self.index))

    @cached_property
    def starts(self) -> IntArray:
        """Where each query begins in ``order``; one entry more than there are queries."""
        return freeze(np.concatenate([[0], np.cumsum(self.sizes)]))

    def rows(self, query: int) -> IntArray:
        """Return the items of one query, in their original order."""
        return self.order[self.starts[query] : self.starts[query + 1]]

    def __iter__(self) -> Iterator[IntArray]:
        return (self.rows(query) for query in range(self.n_queries))

    def __len__(self) -> int:
        return self.n_queries

    def sum(self, values: ArrayLike) -> FloatArray:
        """Sum a value of each item over each query."""
        return sum_by(self.index, np.asarray(values, dtype=float), self.n_queries)

    def mean(self, values: ArrayLike) -> FloatArray:
        """Average a value of each item over each query."""
        return self.sum(values) / self.sizes

    def spread(self, values: ArrayLike) -> NDArray[Any]:
        """Give each item the value of its query."""
        return np.asarray(values)[self.index]

    def take(self, rows: IntArray) -> Self:
        """Keep only the given items; queries left without items disappear."""
        kept, index = np.unique(self.index[rows], return_inverse=True)
        return type(self)(freeze(self.ids[kept]), freeze(index))

    def __repr__(self) -> str:
        return f"Queries({self.n_items} items in {self.n_queries} queries)"


def _as_id_vector(qid: Any) -> NDArray[Any]:
    """Return the ids as a vector; an object vector when NumPy has no common type for them."""
    refuse_masked("qid", qid)
    mixed = isinstance(qid, list | tuple) and len({type(v) for v in qid}) > 1
    nested = isinstance(qid, list | tuple) and any(isinstance(v, list | tuple) for v in qid)
    values: NDArray[Any]
    if mixed or nested:  # NumPy would turn [1, "a"] into strings and tuples into a matrix
        values = _as_objects([tuple(v) if isinstance(v, list) else v for v in qid])
    else:
        values = np.asarray(qid)
        whole = isinstance(qid, list | tuple) and len(qid) > 0 and isinstance(qid[0], int)
        if values.dtype.kind == "f" and whole:
            values = _as_objects(qid)  # integers beyond 64 bits, which floats would merge
    if values.ndim != 1:
        raise InvalidInputError(
            f"`qid` must be one-dimensional, one id per row of `X`: got shape {values.shape}."
        )
    _refuse_missing(values)
    return values


def _as_objects(ids: Sequence[Any]) -> NDArray[Any]:
    values = np.empty(len(ids), dtype=object)
    values[:] = ids
    return values


def _refuse_missing(values: NDArray[Any]) -> None:
    if values.dtype == object:
        missing = np.array([_is_missing(v) for v in values], dtype=bool)
    elif values.dtype.kind in "fmM":
        missing = np.isnan(values)
    else:
        return
    if missing.any():
        raise InvalidInputError(
            f"`qid` must name a query for every row: row {int(np.argmax(missing))} has none "
            "(NaN or None). Give these rows an id or leave them out."
        )


def _is_missing(value: Any) -> bool:
    """Return whether an id is None or not equal to itself: any kind of NaN, NaT or NA."""
    try:
        return value is None or not bool(value == value)
    except (TypeError, ValueError, ArithmeticError):  # pandas' NA, arrays, signalling NaN
        return not isinstance(value, np.ndarray)


HashArray = NDArray[np.uint64]


@storable
@final
@dataclass(frozen=True, eq=False)
class QueryFingerprints:
    """Remember queries by 16 bytes each: a hash of the id, and one of the scores.

    Parameters
    ----------
    ids : (n_queries,)
        Hashes of the ids, rising.
    contents : (n_queries,)
        Hashes of the scores of each query, whatever the order of its items.
    """

    ids: HashArray
    contents: HashArray

    def __post_init__(self) -> None:
        if self.ids.ndim != 1 or self.ids.shape != self.contents.shape:
            raise InvalidInputError(
                "Fingerprints must have one hash of the id and one of the scores for each query: "
                f"got the shapes {self.ids.shape} and {self.contents.shape}."
            )

    @classmethod
    def of(cls, queries: Queries, scores: FloatArray) -> Self:
        """Build from queries and one score per item."""
        ids = _hash_ids(queries.ids)
        bits = np.ascontiguousarray(scores + 0.0, dtype=float).view(np.uint64)  # 0 for -0
        contents = np.zeros(queries.n_queries, dtype=np.uint64)
        np.add.at(contents, queries.index, _mixed(bits))
        order = np.argsort(ids)
        return cls(ids[order], contents[order])

    def torn(self, others: Self) -> int:
        """Count queries that are in both with different items: parts of one query.

        Queries that are the same in both do not count, so that training data can be scored.
        """
        in_both, alike = self._compared(others)
        return int(np.count_nonzero(in_both & ~alike))

    def seen(self, others: Self) -> int:
        """Count the queries of others that are here with the same scores."""
        in_both, alike = self._compared(others)
        return int(np.count_nonzero(in_both & alike))

    def _compared(self, others: Self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which ids of others are here, and which contents are those of the place found."""
        if len(self.ids) == 0:
            nothing = np.zeros(len(others.ids), dtype=bool)
            return nothing, nothing
        place = np.minimum(np.searchsorted(self.ids, others.ids), len(self.ids) - 1)
        return self.ids[place] == others.ids, self.contents[place] == others.contents


def _mixed(bits: HashArray) -> HashArray:
    """Spread 64 bits evenly: the finisher of splitmix64, with a start other than 0."""
    x = bits + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hash_ids(ids: NDArray[Any]) -> HashArray:
    """Hash ids of any type; whole numbers are the same whatever their type."""
    if ids.dtype.kind in "biu":
        return _mixed(ids.astype(np.int64).view(np.uint64))
    if ids.dtype.kind == "f" and np.all(ids == np.floor(ids)) and np.all(np.abs(ids) < 2.0**62):
        return _mixed(ids.astype(np.int64).view(np.uint64))
    digests = [hashlib.blake2b(repr(i).encode(), digest_size=8).digest() for i in ids.tolist()]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)
