"""What measures read: the grades of the items, and the orders that scores put them in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.checks import check_finite, check_weight
from rankwise.core.compile import UncompiledWork, in_threads, n_threads
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures._kernels import (
    N_GRADES,
    NETWORK,
    differing_pairs,
    midranks,
    sort_items,
)

TieRule: TypeAlias = Literal["average", "input", "reverse", "best", "worst"]
"""How items with the same score are ordered: averaged over all orders, as the rows came, the last
row first, or such that the measure is as high or as low as possible."""

ROWS_PER_THREAD = 1 << 17
"""Rows for which a further thread is started: a few milliseconds of sorting."""

PARTS_PER_THREAD = 4
"""There are more parts than threads, as queries differ in length."""


def run_cells(
    kernel: Callable[..., None],
    starts: IntArray,
    n_vectors: int,
    *arguments: Any,
    workers: int | None = None,
) -> None:
    """Call ``kernel(first, last, starts, *arguments)`` for parts that cover all cells.

    The parts suit ``workers`` threads, by default as many as are worth starting.
    """
    n_cells = n_vectors * (len(starts) - 1)
    if workers is None:
        workers = min(n_threads(), n_vectors * int(starts[-1]) // ROWS_PER_THREAD)
    n_parts = min(n_cells, PARTS_PER_THREAD * workers) if workers > 1 else 1
    edges = [n_cells * part // n_parts for part in range(n_parts + 1)]
    in_threads(lambda k: kernel(edges[k], edges[k + 1], starts, *arguments), n_parts)


def table(
    kernel: Callable[..., None], starts: IntArray, n_vectors: int, *arguments: Any
) -> FloatArray:
    """Return what ``kernel`` computes for each cell, shape (n_vectors, n_queries)."""
    out = np.empty((n_vectors, len(starts) - 1))
    run_cells(kernel, starts, n_vectors, *arguments, out)
    return out


ItemOrder: TypeAlias = NDArray[np.uint32]
"""Positions of items, each once."""


EVERY_POSITION = int(np.iinfo(np.int64).max)
"""How deep to sort where every position counts."""


class SortedRanking(NamedTuple):
    """Items by decreasing score, query by query, and which of them are tied with the one before."""

    order: ItemOrder
    tied: BoolArray


@final
@dataclass(frozen=True, eq=False)
class Judgements:
    """Hold the grades that rankings are measured against, and what follows from them alone.

    Parameters
    ----------
    queries : Queries
        The grouping of the items.
    y : (n_items,)
        The grades, query by query.
    weight : (n_items,)
        The weights of the items, query by query.
    weighted : bool
        Whether weights were given.
    """

    queries: Queries
    y: FloatArray
    weight: FloatArray
    weighted: bool

    @classmethod
    def of(cls, y: ArrayLike, queries: Queries, sample_weight: ArrayLike | None = None) -> Self:
        """Check grades and weights, given in the order of the rows, and sort them by query."""
        grades = _numbers("y", y)
        if grades.ndim != 1:
            raise InvalidInputError(
                f"`y` must be one-dimensional, one grade per item: got shape {grades.shape}. "
                "Measure each output separately."
            )
        if len(grades) != queries.n_items or len(grades) == 0:
            raise InvalidInputError(
                "`y` and `qid` must have one entry per item, and there must be an item: "
                f"y has {len(grades)}, qid has {queries.n_items}."
            )
        check_finite("y", grades)
        weight = freeze(check_weight("sample_weight", sample_weight, len(grades), "item"))
        return cls(
            queries=queries,
            y=_by_query(grades, queries),
            weight=weight if sample_weight is None else _by_query(weight, queries),
            weighted=sample_weight is not None,
        )

    @property
    def starts(self) -> IntArray:
        """Where each query begins; one entry more than there are queries."""
        return self.queries.starts

    @cached_property
    def longest(self) -> int:
        """Number of items of the longest query."""
        return int(self.queries.sizes.max())

    @cached_property
    def by_row(self) -> ItemOrder:
        """The items as they came."""
        return np.arange(len(self.y), dtype=np.uint32)

    @cached_property
    def by_grade(self) -> SortedRanking:
        """The items from the highest to the lowest grade of each query: the best ranking."""
        return _sort(self.y[None], self.by_row, self.starts, EVERY_POSITION)

    def mirror(self, order: ItemOrder) -> ItemOrder:
        """Return the order that runs the other way through each query."""
        first, last = self.starts[:-1], self.starts[1:] - 1
        return order[np.repeat(first + last, self.queries.sizes) - np.arange(len(order))]

    def best(self, gains: FloatArray, discounts: FloatArray) -> FloatArray:
        """Return the largest sum of gain times discount of each query."""
        counted = np.zeros(self.longest)
        counted[: len(discounts)] = discounts[: self.longest]
        sizes = np.minimum(self.queries.sizes, _n_summed(len(discounts)))
        starts = np.cumsum(sizes) - sizes
        position = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
        items = self.by_grade.order[0][np.repeat(self.starts[:-1], sizes) + position]
        sums: FloatArray = np.add.reduceat(gains[items] * counted[position], starts)
        return sums

    def pairs(self, grades: FloatArray) -> FloatArray:
        """Weigh the pairs with different grades of each query; ``grades`` rise with ``y``."""
        order = self.by_grade.order
        if not self.weighted:
            return _count_differing(grades[order[0]], self.queries)
        return table(differing_pairs, self.starts, 1, grades[None], self.weight, order)[0]

    @cached_property
    def midranks(self) -> FloatArray:
        """The rank of each item by grade minus the mean rank of its query; ties share a rank."""
        out = np.empty((1, len(self.y)))
        run_cells(midranks, self.starts, 1, *self.by_grade, out)
        return out[0]

    def row(self, position: int) -> int:
        """Return the row, in the order given by the caller, of the item at ``position``."""
        return int(self.queries.order[position])


@final
@dataclass(frozen=True, eq=False)
class Rankings:
    """Hold the orders that score vectors put the items in, sorted once for all measures.

    Parameters
    ----------
    judgements : Judgements
        The grades and the queries.
    scores : (n_vectors, n_items)
        The scores, query by query.
    depth : int
        Number of positions of each query that are sorted, with all that are tied with the last of
        them. The order after these is unknown.
    """

    judgements: Judgements
    scores: FloatArray
    depth: int = EVERY_POSITION
    _sorted: dict[str, SortedRanking] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, judgements: Judgements, scores: ArrayLike, depth: int = EVERY_POSITION) -> Self:
        """Check scores of shape (n_vectors, n_items), in the order of the rows; sort by query."""
        return cls.of_checked(judgements, many_vectors(scores, len(judgements.y)), depth)

    @classmethod
    def of_checked(
        cls, judgements: Judgements, scores: FloatArray, depth: int = EVERY_POSITION
    ) -> Self:
        """Sort finite scores of shape (n_vectors, n_items) by query."""
        return cls(judgements, _by_query(scores, judgements.queries), depth)

    @property
    def n_vectors(self) -> int:
        """Number of score vectors."""
        return len(self.scores)

    def sorted(self, ties: TieRule) -> SortedRanking:
        """Return the items by decreasing score; only ``"average"`` leaves any of them tied."""
        blocks = self._sort_once(_BASE_OF[ties])
        if ties == "average":
            return blocks
        return SortedRanking(blocks.order, np.zeros_like(blocks.tied))

    def _sort_once(self, base: str) -> SortedRanking:
        if base not in self._sorted:
            order = _BASES[base](self.judgements)
            self._sorted[base] = _sort(self.scores, order, self.judgements.starts, self.depth)
        return self._sorted[base]

    def table(self, kernel: Callable[..., None], *arguments: Any) -> FloatArray:
        """Return what ``kernel`` computes for each cell, shape (n_vectors, n_queries)."""
        return table(kernel, self.judgements.starts, self.n_vectors, *arguments)

    def midranks(self) -> FloatArray:
        """Return each item's rank by score minus the mean rank of its query."""
        out = np.empty(self.scores.shape)
        run_cells(midranks, self.judgements.starts, self.n_vectors, *self.sorted("average"), out)
        return out


_BASES: dict[str, Callable[[Judgements], ItemOrder]] = {
    "falling grades": lambda judgements: judgements.by_grade.order[0],
    "rising grades": lambda judgements: judgements.mirror(judgements.by_grade.order[0]),
    "rows": lambda judgements: judgements.by_row,
    "rows reversed": lambda judgements: judgements.mirror(judgements.by_row),
}
_BASE_OF: dict[TieRule, str] = {
    "average": "falling grades",  # any order would do; this one is shared with "best"
    "best": "falling grades",
    "worst": "rising grades",
    "input": "rows",
    "reverse": "rows reversed",
}


def cumulate(discounts: FloatArray, length: int) -> FloatArray:
    """Return the sums of the first 0, 1, ..., ``length`` discounts; those not given are 0."""
    sums = np.zeros(length + 1)
    sums[1 : len(discounts) + 1] = discounts
    return np.cumsum(sums)


def one_vector(scores: ArrayLike) -> FloatArray:
    """Return the scores of one ranking as a matrix with one row."""
    values = _numbers("scores", scores)
    if values.ndim != 1:
        raise InvalidInputError(
            f"`scores` must be one-dimensional, one score per item: got shape {values.shape}."
        )
    return values[None]


def many_vectors(scores: ArrayLike, n_items: int) -> FloatArray:
    """Return finite scores of shape (n_vectors, n_items)."""
    values = _numbers("scores", scores)
    if values.ndim != 2:
        raise InvalidInputError(
            f"`scores` must have shape (n_vectors, n_items), one row per ranking: got shape "
            f"{values.shape}."
        )
    if values.shape[1] != n_items:
        raise InvalidInputError(
            f"`scores` must have one entry per item: y has {n_items}, scores has {values.shape[1]}."
        )
    check_finite("scores", values.T)
    return values


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"`{name}` must hold numbers, one per item: {error}.") from error


def _by_query(values: FloatArray, queries: Queries) -> FloatArray:
    """Return values of items (last axis) query by query, read-only and contiguous."""
    if queries.is_sorted:
        return freeze(np.ascontiguousarray(values))
    return freeze(np.ascontiguousarray(values[..., queries.order]))


def _n_summed(n_counted: int) -> int:
    """Return how many numbers of each query to add up if those behind the first few are 0.

    NumPy adds every eighth number of a query to one sum, the first apart and 64 at least before it
    halves the query: with whole eights the sum is that of all numbers, to the last bit.
    """
    width = 1 + 8 * -(-(n_counted - 1) // 8)
    return width if width <= 65 else EVERY_POSITION


WORK = UncompiledWork(1_000_000)
"""A million keys take a fraction of a second, and compiling takes seconds."""


def _count_differing(sorted_grades: FloatArray, queries: Queries) -> FloatArray:
    """Count the pairs of each query whose grades differ: all pairs but those of equal grades."""
    starts, sizes = queries.starts, queries.sizes
    is_first = np.r_[True, sorted_grades[1:] != sorted_grades[:-1]]
    is_first[starts[:-1][sizes > 0]] = True
    query = np.repeat(np.arange(len(sizes)), sizes)
    equal = np.diff(np.r_[np.flatnonzero(is_first), len(query)])
    same = np.bincount(query[is_first], equal * (equal - 1.0) / 2.0, minlength=len(sizes))
    return sizes * (sizes - 1.0) / 2.0 - same


def _sort(keys: FloatArray, base: ItemOrder, starts: IntArray, depth: int) -> SortedRanking:
    """Sort the items of each query by decreasing key; equal keys keep the order of ``base``."""
    if WORK.is_small(keys.size):
        return sort_uncompiled(keys, base, starts)
    order = np.empty(keys.shape, dtype=np.uint32)
    tied = np.empty(keys.shape, dtype=np.bool_)
    run_cells(sort_cells, starts, len(keys), keys, base, depth, order, tied)
    return SortedRanking(order, tied)


def sort_cells(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    base: ItemOrder,
    depth: int,
    order: ItemOrder,
    tied: BoolArray,
) -> None:
    """Call ``sort_items`` with room to work in."""
    longest = int(np.diff(starts).max(initial=0))
    room = np.empty((4, longest + max(NETWORK, N_GRADES)), dtype=np.uint64)
    sort_items(first, last, starts, keys, base, depth, room, order, tied)


def sort_uncompiled(keys: FloatArray, base: ItemOrder, starts: IntArray) -> SortedRanking:
    """Return what ``sort_items`` finds in all positions: slower, but without compiling."""
    sizes = np.diff(starts)
    query = np.broadcast_to(np.repeat(np.arange(len(sizes)), sizes), keys.shape)
    of_base = keys[:, base]
    found = np.lexsort((-of_base, query), axis=-1)
    ranked = np.take_along_axis(of_base, found, axis=-1)
    tied = np.zeros(keys.shape, dtype=np.bool_)
    tied[:, 1:] = ranked[:, 1:] == ranked[:, :-1]
    tied[:, starts[:-1][sizes > 0]] = False
    return SortedRanking(base[found], tied)
