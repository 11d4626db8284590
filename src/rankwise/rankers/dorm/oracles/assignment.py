"""Exact loss-augmented rankings: the oracles of structured learning to rank."""

from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze, parts_of, starts_of
from rankwise.core.errors import InvalidInputError
from rankwise.core.threads import in_threads, n_threads
from rankwise.native.oracles import (
    FEW_STATES,
    GENERAL,
    SORT,
    STATES_PER_SQUARE,
    TRUNCATED,
    TWO_GRADES,
    OracleRoom,
    OracleTargets,
    StateTable,
    find_planes,
    place_first_relevant,
)

MANY_ITEMS = 200
"""Up to this number of items the general method is as fast as the one for two grades."""


class OraclePlan(NamedTuple):
    """Hold what the oracles need to know of the queries besides the scores.

    Arrays with one entry per item are ordered query by query, then by item or by position.
    """

    starts: IntArray  # where each query begins, (n_queries + 1,)
    gains: FloatArray  # b of each item
    decay: FloatArray  # c of each position
    discounts: FloatArray  # a of each position
    grades: IntArray  # of each item, counted from the lowest gain
    grade_starts: IntArray  # where each query begins in grade_gains, (n_queries + 1,)
    grade_gains: FloatArray  # the distinct gains of each query, ascending
    methods: IntArray  # SORT, TRUNCATED, TWO_GRADES or GENERAL, (n_queries,)
    depths: IntArray  # how many positions come before the last value of a, (n_queries,)
    slopes: FloatArray  # of the discounts in the decay, for SORT, (n_queries,)
    n_states: int  # room that TRUNCATED needs


def make_room(plan: OraclePlan) -> OracleRoom:
    """Allocate the room that the oracles need for the largest query."""
    lengths = plan.starts[1:] - plan.starts[:-1]
    truncated, table = plan.methods == TRUNCATED, StateTable(0, 0, 0, 0)
    if truncated.any():
        depth = plan.depths[truncated].max()
        n_grades = (plan.grade_starts[1:] - plan.grade_starts[:-1])[truncated].max()
        table = StateTable(plan.n_states, depth, n_grades, lengths[truncated].max())
    return OracleRoom(lengths.max(), table)


Method = Literal["auto", "sort", "truncated", "two grades", "general"]

_CODES = {"sort": SORT, "truncated": TRUNCATED, "two grades": TWO_GRADES, "general": GENERAL}
_ITEMS_PER_THREAD = 20_000  # a millisecond or two of work
_MAX_STATES = 2_000_000  # of the truncated oracle's table: 34 MB


def plan_assignments(
    gains: ArrayLike,
    discounts: ArrayLike,
    decay: ArrayLike,
    starts: ArrayLike | None = None,
    method: Method = "auto",
) -> OraclePlan:
    """Prepare the loss-augmented ranking of every query, for any scores.

    The problem of one query with scores g is to find the positions that maximise

        sum_i  decay[position_i] g_i - discounts[position_i] gains_i

    the score of a ranking plus its loss, up to a constant. The method is chosen for each query from
    what does not depend on the scores: a sort where there is one gain or where the discounts are an
    affine function of the decay; for discounts that are constant from some position on, a dynamic
    programme over the numbers of items of each gain above it; for many items of two gains, one over
    a band; otherwise thresholds completed by shortest augmenting paths. All are exact.

    Parameters
    ----------
    gains : (n_items,)
        b, query by query.
    discounts, decay : (n_items,)
        a and c of each position, query by query; ``decay`` must not increase inside a query.
    starts : (n_queries + 1,), optional
        Where each query begins; one query by default.
    method
        Use one method for all queries in place of the best.

    Returns
    -------
    OraclePlan
        For ``assign``; costs O(n log n) to make.

    Notes
    -----
    [LS08] eq. (24), which maximises (22) or, without its constant, (23). The paper solves it by a
    general assignment algorithm in cubic time. With a affine in c it is a sort, as the paper says
    below (24) for a = c.
    """
    b, a, c = (np.ascontiguousarray(v, dtype=np.float64) for v in (gains, discounts, decay))
    bounds = np.array([0, len(b)] if starts is None else starts, dtype=np.intp)
    _check(b, a, c, bounds)
    # grades of the items, and what the methods need to know of discounts and decay
    query = parts_of(bounds)
    grades = _distinct_gains(b, query)
    depths = _depths(a, bounds)
    slopes, is_affine = _slopes(a, c, bounds)
    n_grades = np.diff(grades.starts)
    slopes[n_grades == 1] = 0.0
    # the methods that are exact for each query, of which the fastest is taken
    fits = {
        "sort": is_affine | (n_grades == 1),
        "truncated": _falls(a, bounds),
        "two grades": n_grades == 2,
        "general": np.ones(len(depths), dtype=bool),
    }
    methods = _choose(fits, depths, np.diff(bounds), method)
    # the table of the dynamic programme
    room = _room_for_states(grades, depths, bounds)[methods == TRUNCATED].max(initial=1)
    return OraclePlan(
        starts=freeze(bounds),
        gains=freeze(b),
        decay=freeze(c),
        discounts=freeze(a),
        grades=freeze(grades.of_item),
        grade_starts=freeze(grades.starts),
        grade_gains=freeze(grades.gains),
        methods=freeze(methods),
        depths=freeze(depths),
        slopes=freeze(slopes),
        n_states=int(room),
    )


def assign(plan: OraclePlan, scores: ArrayLike, n_parts: int | None = None) -> IntArray:
    """Return the best position of each item, counted from 0 inside its query.

    Costs little more than one sort of each query. Many queries are shared out among threads.

    Parameters
    ----------
    plan
        From ``plan_assignments``.
    scores : (n_items,)
        g, query by query; finite.
    n_parts
        Number of parts that threads share; by default by the number of items.
    """
    g = np.ascontiguousarray(scores, dtype=np.float64)
    if g.shape != plan.gains.shape:
        raise InvalidInputError(
            f"`scores` must have one entry per item: the plan has {len(plan.gains)} items, "
            f"scores has shape {g.shape}."
        )
    none = np.zeros(len(plan.methods))
    targets = OracleTargets(plan, np.zeros(len(g)), none, none)
    return planes_at(plan, targets, g, n_parts)[0]


def planes_at(
    plan: OraclePlan, targets: OracleTargets, scores: FloatArray, n_parts: int | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the best positions, the coefficients of the planes, and the losses.

    Parameters
    ----------
    plan, targets
        Which belong together.
    scores : (n_items,)
        Contiguous.
    n_parts
        As for ``assign``.
    """
    positions, beta = np.empty(len(scores), dtype=np.intp), np.empty(len(scores))
    losses = np.empty(len(plan.methods))
    # consecutive queries for each thread
    n_parts = n_parts or min(n_threads(), 1 + len(scores) // _ITEMS_PER_THREAD)
    edges = [len(plan.methods) * part // n_parts for part in range(n_parts + 1)]

    def task(part: int) -> None:
        first, last = edges[part], edges[part + 1]
        if first < last:
            rows = slice(plan.starts[first], plan.starts[last])
            found = positions[rows], beta[rows], losses[first:last]
            find_planes(targets, make_room(plan), first, last, scores[rows], *found)

    in_threads(task, n_parts)
    return positions, beta, losses


def assign_by_value(V: FloatArray) -> IntArray:
    """Return the positions of the items that maximise the sum of ``V[item, position]``.

    The general problem of a loss that depends on item and position together, solved by SciPy's
    assignment algorithm in O(n^3) at worst.

    Parameters
    ----------
    V : (n_items, n_positions)
        -inf forbids a pair. With fewer positions than items, items without one get -1.

    Notes
    -----
    [LS08] eq. (25), whose dual is (26).
    """
    # [LS08] eq. (25), dorm-oracle
    items, columns = scipy.optimize.linear_sum_assignment(V, maximize=True)
    positions = np.full(len(V), -1, dtype=np.intp)
    positions[items] = columns
    return positions


def assign_first_relevant(
    scores: FloatArray, hits: BoolArray, decay: FloatArray, discounts: FloatArray
) -> IntArray:
    """Return the positions of the greatest score less the worth of the first relevant item.

    Parameters
    ----------
    scores : (n_items,)
        g of the items of one query.
    hits : (n_items,)
        Which of them are relevant; at least one.
    decay, discounts : (n_items,)
        c and a of each position; neither increases.

    Notes
    -----
    [LS08] eq. (10) with several relevant items, of which the first counts.
    """
    positions = np.empty(len(scores), dtype=np.intp)
    place_first_relevant(scores, hits.view(np.uint8), decay, discounts, positions)
    return positions


def ideal_positions(
    gains: ArrayLike, preliminary: ArrayLike, starts: ArrayLike, discounts: ArrayLike | None = None
) -> IntArray:
    """Return positions in descending order of the gains, equal gains by preliminary scores.

    This is the target, the ranking without loss. The loss leaves the order of equal gains open, but
    the target needs one, and an arbitrary order can keep a model from learning anything. With
    ``discounts``, positions of equal discount are open as well, such as all behind a cut-off:
    the items at these positions are sorted by their preliminary scores, whatever their gains.

    Parameters
    ----------
    gains, preliminary : (n_items,)
        Query by query.
    starts : (n_queries + 1,)
    discounts : (n_items,), optional
        Of each position, query by query; they must not increase.
    """
    bounds, g, b = np.asarray(starts), np.asarray(preliminary), np.asarray(gains)
    query = parts_of(bounds)
    grades = b if b.dtype.kind == "i" else np.unique(b, return_inverse=True)[1]
    order = _sorted_inside((query + 1) * (grades.max(initial=0) + 1) - grades, -g)
    positions = np.empty(len(g), dtype=np.intp)
    positions[order] = np.arange(len(g)) - bounds[query]
    # positions of equal discount form a block
    if discounts is None:
        return positions
    a = np.asarray(discounts)
    return sort_open_positions(positions, g, bounds, np.r_[True, a[1:] != a[:-1]])


def sort_open_positions(
    positions: IntArray, preliminary: FloatArray, starts: IntArray, is_first: BoolArray
) -> IntArray:
    """Return positions with the items inside each block of positions by preliminary scores.

    Parameters
    ----------
    positions, preliminary : (n_items,)
        Query by query.
    starts : (n_queries + 1,)
    is_first : (n_items,)
        Which positions begin a block, query by query.
    """
    query = parts_of(starts)
    order = np.empty(len(positions), dtype=np.intp)
    # the items in the order of their positions, then by score inside each block
    order[positions + starts[query]] = np.arange(len(positions))
    is_first = is_first.copy()
    is_first[starts[:-1]] = True
    order = order[_sorted_inside(np.cumsum(is_first), -preliminary[order])]
    found = np.empty(len(positions), dtype=np.intp)
    found[order] = np.arange(len(positions)) - starts[query]
    return found


def _sorted_inside(group: IntArray, keys: FloatArray) -> IntArray:
    """Return the order by groups, whole numbers, and inside a group by keys, equal ones as given.

    Two sorts of one key each take half the time of a sort by two keys.
    """
    rank = np.empty(len(keys), dtype=np.intp)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return np.argsort(group * len(keys) + rank)


class _DistinctGains(NamedTuple):
    of_item: IntArray
    starts: IntArray  # (n_queries + 1,)
    gains: FloatArray
    query: IntArray  # of each grade
    sizes: IntArray


def _distinct_gains(gains: FloatArray, query: IntArray) -> _DistinctGains:
    order = np.lexsort((gains, query))
    b, q = gains[order], query[order]
    # runs of equal gains in the sorted items are the grades of a query
    is_first = np.r_[True, (b[1:] != b[:-1]) | (q[1:] != q[:-1])]
    number = np.cumsum(is_first) - 1
    firsts = np.flatnonzero(is_first)
    of_query = np.bincount(q[firsts])
    starts = starts_of(of_query)
    of_item = np.empty(len(b), dtype=np.intp)
    of_item[order] = number - starts[q]
    return _DistinctGains(of_item, starts, b[firsts], q[firsts], np.bincount(number))


def _depths(a: FloatArray, starts: IntArray) -> IntArray:
    """Count the positions before the discounts reach their last value."""
    sizes = np.diff(starts)
    position = np.arange(len(a)) - np.repeat(starts[:-1], sizes) + 1
    differs = a != np.repeat(a[starts[1:] - 1], sizes)
    return np.maximum.reduceat(np.where(differs, position, 0), starts[:-1])


def _slopes(a: FloatArray, c: FloatArray, starts: IntArray) -> tuple[FloatArray, BoolArray]:
    """Return the slope of the discounts in the decay, and whether they lie on a line."""
    sizes = np.diff(starts)
    falls = c[starts[:-1]] - c[starts[1:] - 1]
    slopes = (a[starts[:-1]] - a[starts[1:] - 1]) / np.where(falls > 0, falls, 1.0)
    # the line through the first and the last position
    line = a[starts[1:] - 1].repeat(sizes) + slopes.repeat(sizes) * (
        c - c[starts[1:] - 1].repeat(sizes)
    )
    away = np.maximum.reduceat(np.abs(a - line), starts[:-1])
    return slopes, away <= 1e-14 * np.maximum.reduceat(np.abs(a), starts[:-1])


def _falls(a: FloatArray, starts: IntArray) -> BoolArray:
    """Return for each query whether a sequence over its positions never increases."""
    rises = np.r_[False, a[1:] > a[:-1]]
    rises[starts[:-1]] = False
    return ~np.logical_or.reduceat(rises, starts[:-1])


def _choose(
    fits: dict[str, BoolArray], depths: IntArray, sizes: IntArray, method: Method
) -> IntArray:
    """Return the code of each query's method: the one asked for, or the fastest that fits."""
    if method != "auto":
        if not fits[method].all():
            raise InvalidInputError(
                f"`method` {method!r} must fit every query: it does not fit query "
                f'{int(np.argmin(fits[method]))}. Use "auto" or "general".'
            )
        return np.full(len(sizes), _CODES[method])
    # Each of the first three is more than 3x faster than the general method where it fits, in CPU
    # time: the sort 3.1x with 5 gains and 46x with 1000 (100 and 1000 items, decay equal to the
    # discounts); NDCG @ 10 6x for 100 items of five gains and 112x for 1000; two gains 54x for ERU
    # and 16x for DCG with decay 1 (1000 items), though equal for NDCG with decay 1/2.
    return np.select(
        [
            fits["sort"],
            fits["truncated"] & (depths < sizes - 1),
            fits["two grades"] & (sizes > MANY_ITEMS),
        ],
        [SORT, TRUNCATED, TWO_GRADES],
        default=GENERAL,
    )


def _room_for_states(grades: _DistinctGains, depths: IntArray, starts: IntArray) -> FloatArray:
    """Return the number of states of the truncated oracle that each query may need."""
    choices = np.minimum(grades.sizes, depths[grades.query]) + 1.0
    worst = np.multiply.reduceat(choices, grades.starts[:-1])
    useful = np.maximum(STATES_PER_SQUARE * np.diff(starts) ** 2, FEW_STATES)
    return np.minimum(np.minimum(worst, useful), _MAX_STATES)


def _check(b: FloatArray, a: FloatArray, c: FloatArray, starts: IntArray) -> None:
    if not b.shape == a.shape == c.shape == (starts[-1],):
        raise InvalidInputError(
            "`gains`, `discounts` and `decay` must have one entry per item, and `starts` must end "
            f"with their number: got shapes {b.shape}, {a.shape}, {c.shape} and {starts[-1]} items."
        )
    if starts[0] != 0 or np.any(np.diff(starts) < 1):
        raise InvalidInputError(
            "`starts` must begin with 0 and increase: every query needs at least one item."
        )
    if not (np.isfinite(b).all() and np.isfinite(a).all() and np.isfinite(c).all()):
        raise InvalidInputError("`gains`, `discounts` and `decay` must be finite numbers.")
    if not _falls(c, starts).all():
        raise InvalidInputError(
            "`decay` must not increase from one position to the next inside a query, or sorting by "
            "the scores would not be the best ranking. Sort it in descending order."
        )
