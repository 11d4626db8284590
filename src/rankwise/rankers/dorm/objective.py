"""What DORM optimises: a measure as gains and discounts, or costs of items at positions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.binary import RRMeasure
from rankwise.measures.graded import NDCG, WTA
from rankwise.measures.inner_product import InnerProduct, InnerProductMeasure
from rankwise.measures.pairwise import Concordance
from rankwise.measures.rankings import Judgements
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure

CostFunction: TypeAlias = Callable[[FloatArray], ArrayLike]
"""Takes the grades of a query and returns the cost of each item at each position."""

Decay: TypeAlias = float | str | ArrayLike

MODIFIED_WTA = "mWTA"
HEAD = 3  # positions that decide on the cut-off of the modified winner-takes-all


@final
@dataclass(frozen=True, eq=False)
class Aim:
    """What the rankings of some queries are to gain; arrays stand query by query.

    Parameters
    ----------
    gains : (n_items,)
        b of each item, already divided by the norm of its query.
    discounts : (n_items,)
        a of each position.
    is_open : (n_queries,)
        Which queries have rankings of different worth.
    candidates : (n_items,), optional
        For the reciprocal rank, the items of which one is to come first; it has the gain 1, and
        preliminary scores say which it is.
    costs : list of (n_items, n_items), optional
        The cost of each item at each position, in place of gains and discounts.
    """

    gains: FloatArray
    discounts: FloatArray
    is_open: BoolArray
    candidates: BoolArray | None = None
    costs: Sequence[FloatArray] | None = None

    def take(self, items: IntArray) -> "Aim":
        """Keep the items of the open queries, which must be given."""
        which = np.flatnonzero(self.is_open)
        return Aim(
            self.gains[items],
            self.discounts[items],
            self.is_open[which],
            None if self.candidates is None else self.candidates[items],
            None if self.costs is None else [self.costs[q] for q in which.tolist()],
        )

    def settle(self, ties: FloatArray, starts: IntArray) -> FloatArray:
        """Return the gains, where a choice among candidates is made by preliminary scores."""
        if self.candidates is None:
            return self.gains
        query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        order = np.lexsort((-ties, ~self.candidates, query))
        gains = np.zeros(len(ties))
        gains[order[starts[:-1]]] = 1.0  # [LS08] eq. (10)
        return gains


def as_aim(
    measure: Measure | str | CostFunction,
) -> InnerProductMeasure | RRMeasure | str | CostFunction:
    """Return a measure that can be trained for, the name of the heuristic, or a cost function."""
    if isinstance(measure, str) and measure.strip().lower() == MODIFIED_WTA.lower():
        return MODIFIED_WTA
    if callable(measure) and not isinstance(measure, Measure):
        return measure
    parsed = parse_measure(measure)
    if isinstance(parsed, InnerProductMeasure | RRMeasure):
        return parsed
    raise InvalidInputError(
        "`measure` must add up gains times discounts of positions, as NDCG, DCG, Precision @ k, "
        f"RR, WTA, ERU and Utility do: got {parsed!r}, which does not. Train for NDCG, and choose "
        "settings by the measure you want with DORMCV(scoring=...)."
    )


def scoring_measure(measure: Measure | str | CostFunction) -> Measure:
    """Return the measure that judges what was trained for another aim."""
    aim = as_aim(measure)
    if isinstance(aim, Measure):
        return aim
    return WTA if aim == MODIFIED_WTA else Concordance


def find_aim(measure: Measure | str | CostFunction, judgements: Judgements) -> Aim:
    """Turn a measure, ``"mWTA"`` or a cost function into what it asks of some queries."""
    aim = as_aim(measure)
    if isinstance(aim, InnerProductMeasure):
        return _from_form(aim.form(judgements), judgements.queries)
    if isinstance(aim, RRMeasure):
        return _first_relevant(aim, judgements)
    if isinstance(aim, str):
        return _modified_wta(judgements)
    return _from_costs(aim, judgements)


def decay_of(decay: Decay, queries: Queries) -> FloatArray:
    """Return c of each position, query by query.

    Notes
    -----
    [LS08] Sect. 6.3, with positions counted from 1.
    """
    longest = int(queries.sizes.max())
    i = np.arange(1.0, longest + 1.0)
    if isinstance(decay, str) and decay == "log":
        c = 1.0 / np.log(i + 2.0)
    elif isinstance(decay, str) and decay == "loglog":
        c = 1.0 / np.log(np.log(i + 2.0))
    else:
        c = _given_decay(decay, i)
    return c[_places(queries)]


def _given_decay(decay: Any, i: FloatArray) -> FloatArray:
    try:
        given = np.asarray(decay, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.array(np.nan)
    if given.ndim == 0 and np.isfinite(given) and given > 0:
        return (i + 1.0) ** -given
    falls = given.ndim == 1 and len(given) > 1 and bool(np.all(np.diff(given) <= 0))
    if falls and np.isfinite(given).all() and given[0] > given[-1]:
        return given[np.minimum(np.arange(len(i)), len(given) - 1)]
    raise InvalidInputError(
        "`decay` must be an exponent above 0, 'log', 'loglog', or at least two finite numbers that "
        f"fall from position to position: got {decay!r}."
    )


def _places(queries: Queries) -> IntArray:
    """Return positions 0, 1, ... of each query, query by query."""
    return np.arange(queries.n_items) - np.repeat(queries.starts[:-1], queries.sizes)


def _from_form(form: InnerProduct, queries: Queries) -> Aim:
    norms = np.repeat(form.norms, queries.sizes)
    gains = np.divide(form.gains, norms, out=np.zeros(len(norms)), where=norms > 0)
    places = _places(queries)
    is_counted = places < len(form.discounts)
    discounts = np.zeros(len(norms))
    discounts[is_counted] = form.discounts[places[is_counted]]
    return Aim(gains, discounts, _varies(gains, queries) & _varies(discounts, queries))


def _first_relevant(measure: RRMeasure, judgements: Judgements) -> Aim:
    """Let one relevant item gain what its position is worth, as eq. (10) has but one.

    The position of any relevant item bounds that of the first, and so does the loss.
    """
    hits, _ = measure.hits(judgements)
    places = _places(judgements.queries)
    is_counted = places < measure.limit(judgements)
    discounts = np.where(is_counted, 1.0 / (places + 1.0), 0.0)
    is_open = _varies(hits.astype(np.float64), judgements.queries)
    return Aim(hits.astype(np.float64), discounts, is_open, candidates=hits)


def _modified_wta(judgements: Judgements) -> Aim:
    """Cut NDCG off soon after the best grade: [LS08] Sect. 6.4.

    The cut-off is 3 where the three best items have different grades. Otherwise it is the position
    of the first item of a lower grade, in the order of the grades.
    """
    queries = judgements.queries
    starts, places = queries.starts, _places(queries)
    query = np.repeat(np.arange(queries.n_queries), queries.sizes)
    grades = judgements.y[np.lexsort((-judgements.y, query))]
    is_top = grades == np.repeat(grades[starts[:-1]], queries.sizes)
    n_top = np.add.reduceat(is_top.astype(np.intp), starts[:-1])
    cutoffs = np.maximum(np.minimum(n_top + 1, queries.sizes), np.minimum(HEAD, queries.sizes))
    gains = NDCG(gain="exponential").gains(judgements)
    discounts = np.where(places < np.repeat(cutoffs, queries.sizes), 1.0 / np.log2(places + 2.0), 0)
    ideal = np.add.reduceat(discounts * gains[np.lexsort((-gains, query))], starts[:-1])
    share = np.repeat(np.where(ideal > 0, ideal, 1.0), queries.sizes)
    return Aim(gains / share, discounts, _varies(gains, queries) & _varies(discounts, queries))


def _from_costs(function: CostFunction, judgements: Judgements) -> Aim:
    costs = [_cost(function, y) for y in np.split(judgements.y, judgements.starts[1:-1])]
    is_open = np.array([bool((np.ptp(cost, axis=1) > 0).any()) for cost in costs])
    nothing = np.zeros(len(judgements.y))
    return Aim(nothing, nothing, is_open, costs=costs)


def _cost(function: CostFunction, y: FloatArray) -> FloatArray:
    cost = np.asarray(function(y), dtype=np.float64)
    if cost.shape != (len(y), len(y)) or not np.isfinite(cost).all():
        raise InvalidInputError(
            "A cost function must return a finite number for each item of a query at each "
            f"position: expected the shape {(len(y), len(y))}, got {cost.shape}."
        )
    return cost


def _varies(values: FloatArray, queries: Queries) -> BoolArray:
    starts = queries.starts[:-1]
    varies: BoolArray = np.maximum.reduceat(values, starts) > np.minimum.reduceat(values, starts)
    return varies
