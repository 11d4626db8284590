"""Items in queries: their grouping, a compact memory of it, and what is learned from them."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from rankwise.core.checks import (
    LARGEST,
    as_floats,
    check_finite,
    check_length,
    check_pairs,
    check_scores,
    check_vector,
    check_weight,
    missing_cells,
    refuse_huge_entries,
    refuse_masked,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, check_value
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
        changes = (values[1:] != values[:-1]).nonzero()[0]
        if len(changes) == 0:
            return cls(freeze(values[:1].copy()), freeze(np.zeros(len(values), dtype=np.intp)))
        runs = np.append(0, changes + 1)
        if values.dtype.kind in "biu":
            ids, first, inverse = distinct_integers(values[runs])
        else:
            ids, first, inverse = np.unique(values[runs], return_index=True, return_inverse=True)
        by_appearance = np.argsort(first, kind="stable")
        number = np.empty_like(by_appearance)
        number[by_appearance] = np.arange(len(ids))
        lengths = np.diff(np.append(runs, len(values)))
        queries = cls(freeze(ids[by_appearance]), freeze(np.repeat(number[inverse], lengths)))
        if len(runs) == len(ids):  # every query is one run of rows: no need to look again
            vars(queries).update(is_sorted=True, sizes=freeze(lengths))
        return queries

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
        is_none = isinstance(n_items, int) and n_items == 0
        length = 0 if is_none else check_value("n_items", n_items, Count)
        return cls(freeze(np.zeros(1, dtype=np.intp)), freeze(np.zeros(length, dtype=np.intp)))

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
        if self.n_queries == 1:
            return freeze(np.array([self.n_items], dtype=np.intp))
        if self.is_sorted:
            return freeze(np.diff(np.searchsorted(self.index, np.arange(self.n_queries + 1))))
        return freeze(np.bincount(self.index, minlength=self.n_queries))

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the items are already sorted by query, so that ``order`` changes nothing."""
        return self.n_queries == 1 or bool(np.all(self.index[1:] >= self.index[:-1]))

    @cached_property
    def order(self) -> IntArray:
        """The items sorted by query, in their original order within a query."""
        if self.is_sorted:
            return freeze(np.arange(self.n_items))
        return freeze(counting_order(self.index))

    @cached_property
    def starts(self) -> IntArray:
        """Where each query begins in ``order``; one entry more than there are queries."""
        starts = np.zeros(self.n_queries + 1, dtype=np.intp)
        self.sizes.cumsum(out=starts[1:])
        return freeze(starts)

    def rows(self, query: int) -> IntArray:
        """Return the items of one query, in their original order."""
        return self.order[self.starts[query] : self.starts[query + 1]]

    def __iter__(self) -> Iterator[IntArray]:
        return (self.rows(query) for query in range(self.n_queries))

    def __len__(self) -> int:
        return self.n_queries

    def sum(self, values: ArrayLike) -> FloatArray:
        """Sum a value of each item over each query."""
        of_items = as_floats("values", values)
        check_vector("values", of_items, self.n_items, "item")
        return sum_by(self.index, of_items, self.n_queries)

    def mean(self, values: ArrayLike) -> FloatArray:
        """Average a value of each item over each query."""
        return self.sum(values) / self.sizes

    def spread(self, values: ArrayLike) -> NDArray[Any]:
        """Give each item the value of its query."""
        return np.asarray(values)[self.index]

    def best_first(self, scores: NDArray[Any], k: int | None = None) -> IntArray:
        """Return the items query by query, best first, at most k of each; equal ones as given."""
        order = np.lexsort((-scores, self.index))
        return order if k is None else order[self.ranks(order)[order] <= k]

    def ranks(self, order: IntArray) -> IntArray:
        """Return the rank of each item in its query, from 1, given the items in ranked order."""
        ranks = np.empty_like(order)
        ranks[order] = 1 + np.arange(len(order)) - self.starts[self.index[order]]
        return ranks

    def take(self, rows: IntArray) -> Self:
        """Keep only the given items; queries left without items disappear."""
        kept, index = np.unique(self.index[rows], return_inverse=True)
        return type(self)(freeze(self.ids[kept]), freeze(index))

    def __repr__(self) -> str:
        return f"Queries({self.n_items} items in {self.n_queries} queries)"


def _as_id_vector(qid: Any) -> NDArray[Any]:
    """Return the ids as a vector; an object vector when NumPy has no common type for them."""
    refuse_masked("qid", qid)
    listed = isinstance(qid, list | tuple)
    mixed = listed and len({type(v) for v in qid}) > 1
    nested = listed and any(isinstance(v, list | tuple) for v in qid)
    values: NDArray[Any]
    if mixed or nested:  # NumPy would turn [1, "a"] into strings and tuples into a matrix
        values = _as_objects([tuple(v) if isinstance(v, list) else v for v in qid])
    else:
        values = np.asarray(qid)
        whole = listed and len(qid) > 0 and isinstance(qid[0], int)
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
        missing = missing_cells(values)
    elif values.dtype.kind in "fmM":
        missing = np.isnan(values)
    else:
        return
    if missing.any():
        raise InvalidInputError(
            f"`qid` must name a query for every row: row {int(np.argmax(missing))} has none "
            "(NaN or None). Give these rows an id or leave them out."
        )


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


@final
@dataclass(frozen=True, eq=False)
class TrainingData:
    """Hold scored items, or comparisons of items, with the queries of the items.

    Build it with `of`, which checks everything. Both items of a comparison are in one query.

    Parameters
    ----------
    n_items : int
        Number of rows of X.
    queries : Queries
        The query of each item; a single query if none were named.
    has_qid : bool
        Whether the caller named queries.
    y : (n_items,) or (n_items, n_outputs), optional
        Scores.
    sample_weight : (n_items,), optional
        Weight of each item, where given.
    pairs : (n_pairs, 2), optional
        Comparisons, winner first.
    pair_margin, pair_weight : (n_pairs,), optional
        Margin and weight of each comparison, 1 where not given.
    """

    n_items: int
    queries: Queries
    has_qid: bool = False
    y: FloatArray | None = None
    sample_weight: FloatArray | None = None
    pairs: IntArray | None = None
    pair_margin: FloatArray | None = None
    pair_weight: FloatArray | None = None

    @classmethod
    def of(
        cls,
        n_items: int,
        y: ArrayLike | None = None,
        qid: ArrayLike | Queries | None = None,
        sample_weight: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> Self:
        """Check the arguments of ``fit`` other than X, which has ``n_items`` rows."""
        _refuse_both(y, sample_weight, pairs)
        if pairs is None:
            _refuse_without_pairs(pair_margin, pair_weight)
            return cls._from_scores(n_items, y, qid, sample_weight)
        checked = check_pairs(pairs, n_items)
        weight = check_weight("pair_weight", pair_weight, len(checked), "pair")
        return cls(
            n_items,
            _queries_of_pairs(qid, checked, n_items),
            qid is not None,
            pairs=checked,
            pair_margin=freeze(_margins(pair_margin, len(checked))),
            pair_weight=freeze(weight),
        )

    @classmethod
    def _from_scores(
        cls, n_items: int, y: ArrayLike | None, qid: Any, weight: ArrayLike | None
    ) -> Self:
        assert y is not None
        scores = check_scores(y)
        check_length("y", scores, n_items)
        _refuse_extremes("y", scores)
        queries = Queries.of(qid, n_items)
        checked = None
        if weight is not None:
            checked = freeze(check_weight("sample_weight", weight, n_items, "row of `X`"))
        return cls(n_items, queries, qid is not None, freeze(scores), checked)

    @property
    def is_scored(self) -> bool:
        """Whether items have scores; comparisons otherwise."""
        return self.y is not None

    @property
    def scores(self) -> FloatArray:
        """The scores as given, (n_items,) or (n_items, n_outputs); refuses comparisons."""
        if self.y is None:
            raise InvalidInputError("Scores `y` must be given here: got comparisons (`pairs`).")
        return self.y

    @property
    def comparisons(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The pairs, their margins and their weights; refuses scores."""
        if self.pairs is None or self.pair_margin is None or self.pair_weight is None:
            raise InvalidInputError("Comparisons (`pairs`) must be given here: got scores `y`.")
        return self.pairs, self.pair_margin, self.pair_weight

    @property
    def pair_queries(self) -> IntArray:
        """The number of the query of each comparison; refuses scores."""
        return self.queries.index[self.comparisons[0][:, 0]]

    @property
    def is_multi_output(self) -> bool:
        """Whether scores came as a matrix with a column per output."""
        return self.y is not None and self.y.ndim == 2

    @property
    def weight(self) -> FloatArray:
        """The weight of each item, 1 where none was given."""
        return np.ones(self.n_items) if self.sample_weight is None else self.sample_weight

    def by_output(self) -> list[TrainingData]:
        """Return the data of each output; the data themselves where there is one only."""
        if self.y is None or self.y.ndim == 1:
            return [self]
        return [replace(self, y=freeze(column.copy())) for column in self.y.T]

    def single_output(self, remedy: str) -> FloatArray:
        """Return scores of shape (n_items,), or refuse with what to do instead."""
        return one_output(self.scores, "y", remedy)

    def without(self, rows: IntArray) -> Self:
        """Give some items the weight 0; X and the queries stay whole."""
        weight = self.weight.copy()
        weight[rows] = 0.0
        return replace(self, sample_weight=freeze(weight))

    def take(self, rows: IntArray) -> Self:
        """Keep the given scored items only; queries left without items disappear."""
        weight = None if self.sample_weight is None else freeze(self.sample_weight[rows])
        scores = freeze(self.scores[rows])
        queries = self.queries.take(rows)
        return replace(self, n_items=len(rows), queries=queries, y=scores, sample_weight=weight)

    def without_pairs(self, held_out: IntArray) -> Self:
        """Give some comparisons the weight 0."""
        weight = self.comparisons[2].copy()
        weight[held_out] = 0.0
        return replace(self, pair_weight=freeze(weight))


def one_output(y: ArrayLike, name: str, remedy: str) -> FloatArray:
    """Return checked scores of a single output."""
    scores = check_scores(y, name)
    if scores.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,): got {scores.shape}. {remedy}"
        )
    return scores


def _margins(margin: ArrayLike | None, n_pairs: int) -> FloatArray:
    if margin is None:
        return np.ones(n_pairs)
    values = as_floats("pair_margin", margin)
    check_vector("pair_margin", values, n_pairs, "pair")
    check_finite("pair_margin", values)
    _refuse_extremes("pair_margin", values)
    return values


def _refuse_extremes(name: str, values: FloatArray) -> None:
    """Refuse numbers whose squares double precision cannot hold, or takes for 0."""
    refuse_huge_entries(values, values, name, "Divide all of them by a constant.")
    largest = float(np.abs(values).max(initial=0.0))
    if 0.0 < largest < 1.0 / LARGEST:
        raise InvalidInputError(
            f"`{name}` must hold numbers above {1.0 / LARGEST:.0e} in magnitude to be learned "
            f"from: the largest is {largest:.3g}. Multiply all of them by a constant."
        )


def _queries_of_pairs(qid: Any, pairs: IntArray, n_items: int) -> Queries:
    """Return the queries of the items; refuse comparisons of items of different queries."""
    queries = Queries.of(qid, n_items)
    ends = queries.index[pairs]
    across = ends[:, 0] != ends[:, 1]
    if across.any():
        number = int(np.argmax(across))
        winner, loser = queries.ids[ends[number]].tolist()
        raise InvalidInputError(
            "Both items of a pair must belong to one query: pair "
            f"{number} joins rows {pairs[number, 0]} of query {winner!r} and {pairs[number, 1]} of "
            f"query {loser!r}. Leave such pairs out, or leave out `qid` for one global ranking."
        )
    return queries


def _refuse_both(y: object, sample_weight: object, pairs: object) -> None:
    """Refuse both scores and comparisons, neither, and weights of items with comparisons."""
    if y is None and pairs is None:
        raise InvalidInputError(
            "`fit` requires y to be passed, but the target y is None. Give scores `y`, "
            "or comparisons `pairs`."
        )
    if pairs is not None and y is not None:
        raise InvalidInputError(
            "`fit` takes either scores (`y`) or comparisons (`pairs`): got both. Leave one out."
        )
    if pairs is not None and sample_weight is not None:
        raise InvalidInputError(
            "`sample_weight` must come with scores `y`: got comparisons (`pairs`), which have "
            "their own weights. Use `pair_weight`."
        )


def _refuse_without_pairs(pair_margin: object, pair_weight: object) -> None:
    if pair_margin is not None or pair_weight is not None:
        name = "pair_margin" if pair_margin is not None else "pair_weight"
        raise InvalidInputError(
            f"`{name}` must come with `pairs`: got scores `y`. Give `pairs`, or leave it out."
        )
