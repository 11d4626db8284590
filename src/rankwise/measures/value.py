"""A measure is a value that compares, hashes, prints, parses and rates rankings; what it reads.

It reads the grades of the items, and the orders that scores put them in. Its parameters are fields
of a dataclass: a ``Literal`` type lists the choices of one; an ``Annotated`` type carries a rule
that refuses a value or returns it in its one form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    final,
    get_args,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.checks import as_floats, check_finite, check_weight, hint
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import (
    REFUSED,
    Above,
    Count,
    Positive,
    Reads,
    check_call,
    compile_rule,
    settle,
)
from rankwise.core.queries import Queries
from rankwise.core.threads import in_threads, n_threads
from rankwise.native.measures import differing_pairs, inner_products, midranks
from rankwise.native.sorting import sort_items

# What measures read

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
    """Items by decreasing score, query by query, and 1 where one is tied with the one before."""

    order: ItemOrder
    tied: NDArray[np.uint8]


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
    given_weight : (n_items,), optional
        The weights of the items, query by query, where given.
    """

    queries: Queries
    y: FloatArray
    given_weight: FloatArray | None

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
        weight = None
        if sample_weight is not None:
            checked = check_weight("sample_weight", sample_weight, len(grades), "item")
            weight = _by_query(checked, queries)
        return cls(queries, _by_query(grades, queries), weight)

    @property
    def weighted(self) -> bool:
        """Whether weights were given."""
        return self.given_weight is not None

    @cached_property
    def weight(self) -> FloatArray:
        """The weights of the items, query by query, 1 where none were given."""
        if self.given_weight is None:
            return freeze(np.ones(len(self.y)))
        return self.given_weight

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
        order, tied = self.by_grade
        cumulative = np.zeros(self.longest + 1)  # not read: nothing counts as tied below
        arguments = gains, discounts, cumulative, order, np.zeros_like(tied)
        return table(inner_products, self.starts, 1, *arguments)[0]

    def pairs(self, grades: FloatArray) -> FloatArray:
        """Weigh the pairs with different grades of each query; ``grades`` rise with ``y``."""
        order = self.by_grade.order
        return table(differing_pairs, self.starts, 1, grades[None], self.weight, order)[0]

    def all_pairs(self) -> FloatArray:
        """Weigh all pairs of each query."""
        starts = self.starts[:-1]
        total, squares = (np.add.reduceat(w, starts) for w in (self.weight, self.weight**2))
        return np.maximum((total**2 - squares) / 2.0, 0.0)

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
    """Return the sums of the first 0, 1, ..., ``length`` discounts; missing ones are 0."""
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
    return as_floats(name, values, "numbers, one per item")


def _by_query(values: FloatArray, queries: Queries) -> FloatArray:
    """Return values of items (last axis) query by query, read-only and contiguous."""
    if queries.is_sorted:
        return freeze(np.ascontiguousarray(values))
    return freeze(np.ascontiguousarray(values[..., queries.order]))


def _sort(keys: FloatArray, base: ItemOrder, starts: IntArray, depth: int) -> SortedRanking:
    """Sort the items of each query by decreasing key; equal keys keep the order of ``base``."""
    order = np.empty(keys.shape, dtype=np.uint32)
    tied = np.empty(keys.shape, dtype=np.uint8)
    run_cells(sort_items, starts, len(keys), keys, base, depth, order, tied)
    return SortedRanking(order, tied)


# Parameters


def take_gains(value: Any) -> Any:
    """Accept a named gain, or the gains of the grades 0, 1, 2, ... in a sequence."""
    if isinstance(value, str):
        return value if value in get_args(NamedGain) else REFUSED
    gains = _numbers_in(value)
    rising = gains and gains[0] >= 0 and all(a <= b for a, b in pairwise(gains))
    return gains if rising else REFUSED


def take_discounts(value: Any) -> Any:
    """Accept a sequence of numbers of 0 or more that never rise, the first above 0."""
    discounts = () if isinstance(value, str) else _numbers_in(value)
    falling = discounts and discounts[0] > 0 and all(a >= b for a, b in pairwise(discounts))
    return discounts if falling and discounts[-1] >= 0 else REFUSED


def _numbers_in(value: Any) -> tuple[float, ...]:
    """Return the entries of a sequence of finite numbers; nothing for anything else."""
    take = compile_rule(float).take
    entries = [take(entry) for entry in value] if isinstance(value, Iterable) else []
    return () if REFUSED in entries else tuple(entries)


Empty: TypeAlias = Literal["skip", "zero", "one"]
"""What a query with an undefined value counts: nothing, 0 or 1."""

NamedGain: TypeAlias = Literal["linear", "exponential"]

Gain: TypeAlias = Annotated[
    NamedGain | tuple[float, ...],
    Reads(
        take_gains,
        "a tuple of the gains of the grades 0, 1, 2, ..., not negative and never falling",
        get_args(NamedGain),
    ),
]
"""The gain of an item: its grade y, 2^y - 1, or an entry of a table."""

Discounts: TypeAlias = Annotated[
    tuple[float, ...],
    Reads(
        take_discounts,
        "a tuple of numbers, one for each position from the first on, that never rise and are "
        "never negative, the first above 0",
    ),
]
"""The discounts of the positions, from the first on."""

Cutoff: TypeAlias = Annotated[int | None, Positive()]
"""Number of items a measure looks at, from the top; None for all."""

NumberAboveOne: TypeAlias = Annotated[float, Above(1)]


def shown(value: Any) -> str:
    """Print a parameter briefly, so that it parses back to the same value."""
    if isinstance(value, tuple):
        entries = ", ".join(shown(entry) for entry in value)
        return f"({entries},)" if len(value) == 1 else f"({entries})"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def in_quotes(names: Iterable[str]) -> str:
    """List names for an error message."""
    return ", ".join(repr(name) for name in names)


# Measures

ROWS_AT_ONCE = 1 << 22
"""Rows of score vectors that are measured at a time, which bounds the memory for orders."""

ROWS_IN_CACHE = 1 << 18
"""Rows whose order a thread writes and reads again while it is in the cache."""

_FILL: dict[str, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@final
@dataclass(frozen=True, eq=False)
class MeasurePlan:
    """Hold what a measure computes from the grades alone, before any score.

    Parameters
    ----------
    defined : (n_queries,)
        The queries whose grades define the measure. Scores do not matter here, so that two rankings
        are always compared over the same queries.
    values : callable
        Returns the values of rankings, shape (n_vectors, n_queries), finite everywhere.
    depth : int
        Number of positions, and what is tied with the last of them, that the values depend on.
    pair_weight : (n_queries,), optional
        The weight of each query in the overall value of a pooled measure.
    """

    defined: BoolArray
    values: Callable[[Rankings], FloatArray]
    depth: int = EVERY_POSITION
    pair_weight: FloatArray | None = None

    @property
    def weight(self) -> FloatArray:
        """The weight of each query in the overall value: 1, or that of its pairs."""
        return np.ones(len(self.defined)) if self.pair_weight is None else self.pair_weight


@dataclass(frozen=True, kw_only=True, repr=False)
class Measure(ABC):
    """Rate the ranking of each query: the base class of all measures.

    ``measure @ k`` looks only at the first k items, and ``measure(name=value, ...)`` changes
    parameters; both return a new measure. Measures are equal when all their parameters are equal.

    Examples
    --------
    >>> from rankwise import NDCG, Measure, Queries
    >>> isinstance(NDCG @ 10, Measure)
    True
    >>> y, scores, queries = [1, 0, 0, 2], [4, 3, 2, 1], Queries.from_qid(["a", "a", "b", "b"])
    >>> NDCG.per_query(y, scores, queries).round(4)
    array([1.    , 0.6309])
    >>> round(NDCG.overall(y, scores, queries), 4)
    0.8155
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    greater_is_better: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = False

    empty: Empty = "skip"

    def __post_init__(self) -> None:
        settle(self)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters: the measure's own first, then the shared ones."""
        last = {"ties": 1, "empty": 2, "cutoff": 3}
        names = sorted((entry.name for entry in fields(self)), key=lambda name: last.get(name, 0))
        return {name: getattr(self, name) for name in names}

    def __call__(self, **changes: Any) -> Self:
        """Return the measure with some parameters changed."""
        for name in changes:
            if name not in self.parameters:
                raise InvalidInputError(
                    f"{self.name} has the parameters {in_quotes(self.parameters)}: got {name!r}."
                    f"{hint(name, self.parameters)}"
                )
        return replace(self, **changes)

    def __matmul__(self, cutoff: Count) -> Self:
        if "cutoff" not in self.parameters:
            raise InvalidInputError(
                f"{self.name} looks at the whole ranking and takes no cut-off: got @ {cutoff!r}. "
                "Leave it out."
            )
        changes: dict[str, Any] = check_call(Measure.__matmul__, cutoff=cutoff)
        return replace(self, **changes)

    def __repr__(self) -> str:
        default = {entry.name: entry.default for entry in fields(self)}
        changed = {name: v for name, v in self.parameters.items() if v != default[name]}
        cutoff = changed.pop("cutoff", None)
        inside = ", ".join(f"{name}={shown(value)}" for name, value in changed.items())
        head = f"{self.name}({inside})" if inside else self.name
        return head if cutoff is None else f"{head} @ {cutoff}"

    @abstractmethod
    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Prepare what depends on the grades alone."""

    def rate(self, plan: MeasurePlan, rankings: Rankings) -> FloatArray:
        """Return the value of each cell, shape (n_vectors, n_queries), with ``empty`` applied."""
        return np.where(plan.defined, plan.values(rankings), _FILL[self.empty])

    def prepare(self, judgements: Judgements) -> MeasurePlan:
        """Plan for these grades; refuse weights if the measure has no weighted form."""
        if judgements.weighted and not self.takes_weights:
            raise InvalidInputError(
                f"{self.name} has no weighted form: got `sample_weight`. Leave it out, or use a "
                "measure of pairs such as Concordance, where the weight of a pair is the product "
                "of the weights of its items."
            )
        return self.plan(judgements)

    def per_query(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the value of each query; NaN if it is undefined and skipped.

        Parameters
        ----------
        y : (n_items,)
            The grades: the higher, the better the item.
        scores : (n_items,)
            The scores that order the items, highest first.
        queries : Queries
            The grouping of the items.
        sample_weight : (n_items,), optional
            Weights of the items, for measures of pairs.
        """
        return self.values_many(y, one_vector(scores), queries, sample_weight)[0]

    def values_many(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
        *,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> FloatArray:
        """Return the values for many score vectors, shape (n_vectors, n_queries).

        What depends on ``y`` alone is done once.

        Parameters
        ----------
        y, queries, sample_weight
            As in `per_query`.
        scores : (n_vectors, n_items)
            One ranking per row.
        rows_at_once : int
            Number of scores to rank at a time, at least one vector; bounds the memory.
        """
        judgements = Judgements.of(y, queries, sample_weight)
        return self.rate_many(judgements, self.prepare(judgements), scores, rows_at_once)

    def overall(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean over the queries where the measure is defined; NaN if there are none.

        Arguments as in `per_query`. A pooled measure weights queries by their pairs.
        """
        return float(self.overall_many(y, one_vector(scores), queries, sample_weight)[0])

    def overall_many(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
        *,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> FloatArray:
        """Return the overall value of each score vector, shape (n_vectors,).

        Arguments as in `values_many`.
        """
        judgements = Judgements.of(y, queries, sample_weight)
        plan = self.prepare(judgements)
        values = self.rate_many(judgements, plan, scores, rows_at_once)
        return weighted_mean(values, plan.weight)

    def rate_many(
        self,
        judgements: Judgements,
        plan: MeasurePlan,
        scores: ArrayLike,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> FloatArray:
        """Return the values for many score vectors, shape (n_vectors, n_queries), by a plan."""
        matrix = many_vectors(scores, len(judgements.y))
        out = np.empty((len(matrix), judgements.queries.n_queries))
        # blocks of vectors whose orders stay in the cache
        step = max(1, min(rows_at_once, ROWS_IN_CACHE * n_threads()) // len(judgements.y))
        for first in range(0, len(matrix), step):
            part = slice(first, first + step)
            out[part] = self.rate(plan, Rankings.of_checked(judgements, matrix[part], plan.depth))
        return out


def weighted_mean(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Average over the queries (last axis) that have a value; NaN when none has."""
    mass = np.where(np.isnan(values), 0.0, weight)
    total = mass.sum(axis=-1)
    return ratio((np.nan_to_num(values) * mass).sum(axis=-1), total, otherwise=np.nan)


def ratio(numerator: FloatArray, denominator: FloatArray, otherwise: float = 0.0) -> FloatArray:
    """Divide; where the denominator is 0 the result is ``otherwise``."""
    quotient = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), otherwise)
    return np.divide(numerator, denominator, out=quotient, where=denominator != 0)


class InnerProduct(NamedTuple):
    """The three parts of an inner-product measure."""

    gains: FloatArray  # b of each item, query by query; a higher grade never has a lower gain
    discounts: FloatArray  # a of the first positions; they never rise, later positions count 0
    norms: FloatArray  # c of each query, 0 where the measure is undefined


@dataclass(frozen=True, kw_only=True, repr=False)
class InnerProductMeasure(Measure):
    r"""Add up gain times discount, divided by a norm of the query.

    .. math:: \frac{1}{c_q} \sum_i a_{\pi(i)} b_i

    with :math:`\pi(i)` the position of item i. The best ranking sorts by grade. The expectation
    over the orders of tied items is exact: they share the mean of their discounts. One sort,
    O(n log n).

    Notes
    -----
    [LS08] eqs. (9) to (16).
    """

    ties: TieRule = "average"

    @abstractmethod
    def form(self, judgements: Judgements) -> InnerProduct:
        """Find gains, discounts and norms."""

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find gains, discounts and norms, and which queries have a norm."""
        gains, discounts, norms = self.form(judgements)
        # tied items share the mean of their discounts, from cumulative sums
        weights = gains, discounts, cumulate(discounts, judgements.longest)

        def values(rankings: Rankings) -> FloatArray:
            sums = rankings.table(inner_products, *weights, *rankings.sorted(self.ties))
            return ratio(sums, norms)

        return MeasurePlan(norms > 0, values, len(discounts))
