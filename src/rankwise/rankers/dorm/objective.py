"""What DORM optimises: a measure as gains and discounts, or costs of items at positions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, final

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

ObjectiveLike: TypeAlias = Measure | str | CostFunction
"""What can be trained for: a measure, ``"mWTA"``, or costs of items at positions."""

Decay: TypeAlias = float | str | ArrayLike

MODIFIED_WTA = "mWTA"
LEARNED_DECAY = "learned"
DECAYS: tuple[float | str, ...] = (0.25, 1.0 / 3.0, 0.5, 1.0, 2.0, 3.0, "log", "loglog")
"""The decays of [LS08] Sect. 6.3, which a learned one mixes."""

HEAD = 3  # positions that decide on the cut-off of the modified winner-takes-all


@final
@dataclass(frozen=True, eq=False)
class PositionObjective:
    """What items gain or cost at the positions of some queries; arrays stand query by query.

    Parameters
    ----------
    gains : (n_items,)
        b of each item, already divided by the norm of its query.
    discounts : (n_items,)
        a of each position.
    has_preference : (n_queries,)
        Which queries have rankings of different worth.
    candidates : (n_items,), optional
        For the reciprocal rank, the relevant items. The one that the target has first has the gain
        1, and preliminary scores say which it is.
    costs : list of (n_items, n_items), optional
        The cost of each item at each position, in place of gains and discounts.

    Notes
    -----
    [LS08] eqs. (9) to (16) for gains and discounts, (19) for costs.
    """

    gains: FloatArray
    discounts: FloatArray
    has_preference: BoolArray
    candidates: BoolArray | None = None
    costs: Sequence[FloatArray] | None = None

    @classmethod
    def of(cls, objective: ObjectiveLike, judgements: Judgements) -> Self:
        """Turn a measure, ``"mWTA"`` or a cost function into what it asks of some queries."""
        checked = as_objective(objective)
        if isinstance(checked, InnerProductMeasure):
            return cls._from_form(checked.form(judgements), judgements.queries)
        if isinstance(checked, RRMeasure):
            return cls._first_relevant(checked, judgements)
        if isinstance(checked, str):
            return cls._modified_wta(judgements)
        return cls._from_costs(checked, judgements)

    @classmethod
    def _from_form(cls, form: InnerProduct, queries: Queries) -> Self:
        norms = np.repeat(form.norms, queries.sizes)
        # [LS08] eq. (12), with the DCG @ n of the best order in its denominator
        gains = np.divide(form.gains, norms, out=np.zeros(len(norms)), where=norms > 0)
        positions = _positions(queries)
        is_counted = positions < len(form.discounts)
        discounts = np.zeros(len(norms))
        discounts[is_counted] = form.discounts[positions[is_counted]]
        return cls(gains, discounts, _varies(gains, queries) & _varies(discounts, queries))

    @classmethod
    def _first_relevant(cls, measure: RRMeasure, judgements: Judgements) -> Self:
        """Mark the relevant items, and give positions their reciprocals."""
        hits, _ = measure.hits(judgements)
        positions = _positions(judgements.queries)
        is_counted = positions < measure.limit(judgements)
        discounts = np.where(is_counted, 1.0 / (positions + 1.0), 0.0)  # [LS08] eq. (10)
        has_preference = _varies(hits.astype(np.float64), judgements.queries)
        return cls(hits.astype(np.float64), discounts, has_preference, candidates=hits)

    @classmethod
    def _modified_wta(cls, judgements: Judgements) -> Self:
        """Cut NDCG off soon after the best grade: [LS08] Sect. 6.4.

        The cut-off is 3 where the three best items have different grades. Otherwise it is the
        position of the first item of a lower grade, in the order of the grades.
        """
        queries = judgements.queries
        starts, positions = queries.starts, _positions(queries)
        query = np.repeat(np.arange(queries.n_queries), queries.sizes)
        grades = judgements.y[np.lexsort((-judgements.y, query))]
        is_top = grades == np.repeat(grades[starts[:-1]], queries.sizes)
        n_top = np.add.reduceat(is_top.astype(np.intp), starts[:-1])
        cutoffs = np.maximum(np.minimum(n_top + 1, queries.sizes), np.minimum(HEAD, queries.sizes))
        is_counted = positions < np.repeat(cutoffs, queries.sizes)
        gains = NDCG(gain="exponential").gains(judgements)
        discounts = np.where(is_counted, 1.0 / np.log2(positions + 2.0), 0)  # [LS08] eq. (14)
        ideal = np.add.reduceat(discounts * gains[np.lexsort((-gains, query))], starts[:-1])
        norms = np.repeat(np.where(ideal > 0, ideal, 1.0), queries.sizes)
        has_preference = _varies(gains, queries) & _varies(discounts, queries)
        return cls(gains / norms, discounts, has_preference)

    @classmethod
    def _from_costs(cls, function: CostFunction, judgements: Judgements) -> Self:
        costs = [_cost(function, y) for y in np.split(judgements.y, judgements.starts[1:-1])]
        has_preference = np.array([bool((np.ptp(cost, axis=1) > 0).any()) for cost in costs])
        nothing = np.zeros(len(judgements.y))
        return cls(nothing, nothing, has_preference, costs=costs)

    def take(self, items: IntArray) -> Self:
        """Keep the items of the queries with a preference, which must be given."""
        which = np.flatnonzero(self.has_preference)
        return type(self)(
            self.gains[items],
            self.discounts[items],
            self.has_preference[which],
            None if self.candidates is None else self.candidates[items],
            None if self.costs is None else [self.costs[q] for q in which.tolist()],
        )

    def chosen_gains(self, preliminary: FloatArray, starts: IntArray) -> FloatArray:
        """Return the gains; preliminary scores choose among candidates, where there are any."""
        if self.candidates is None:
            return self.gains
        query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        order = np.lexsort((-preliminary, ~self.candidates, query))
        gains = np.zeros(len(preliminary))
        gains[order[starts[:-1]]] = 1.0  # [LS08] eq. (10)
        return gains


def as_objective(
    objective: ObjectiveLike,
) -> InnerProductMeasure | RRMeasure | str | CostFunction:
    """Return a measure that can be trained for, the name of the heuristic, or a cost function."""
    if isinstance(objective, str) and objective.strip().lower() == MODIFIED_WTA.lower():
        return MODIFIED_WTA
    if callable(objective) and not isinstance(objective, Measure):
        return objective
    return trainable_measure(objective)


def trainable_measure(objective: Measure | str) -> InnerProductMeasure | RRMeasure:
    """Return a measure that can be trained for, or refuse others."""
    measure = parse_measure(objective)
    if isinstance(measure, InnerProductMeasure | RRMeasure):
        return measure
    raise InvalidInputError(
        "`objective` must add up gains times discounts of positions, as NDCG, DCG, Precision @ k, "
        f"RR, WTA, ERU and Utility do: got {measure!r}, which does not. Train for NDCG, and use "
        f"{measure!r} to choose the settings."
    )


def default_measure(objective: ObjectiveLike) -> Measure:
    """Return the measure that judges what was trained for an objective."""
    checked = as_objective(objective)
    if isinstance(checked, Measure):
        return checked
    return WTA if checked == MODIFIED_WTA else Concordance


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
    return c[_positions(queries)]


def falling_by_one(decay: Decay, queries: Queries) -> FloatArray:
    """Return c of each position, moved and scaled to fall from 1 to 0 over the longest query."""
    c = decay_of(decay, queries)
    lowest, highest = float(c.min()), float(c.max())
    return (c - lowest) / (highest - lowest)


def _given_decay(decay: Any, i: FloatArray) -> FloatArray:
    try:
        given = np.asarray(decay, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.array(np.nan)
    if given.ndim == 0 and np.isfinite(given) and given > 0:
        return (i + 1.0) ** -given
    falls = given.ndim == 1 and len(given) > 1 and bool(np.all(np.diff(given) <= 0))
    if falls and np.isfinite(given).all() and given[0] > given[-1]:
        return given[np.minimum(np.arange(len(i)), len(given) - 1)]
    raise InvalidInputError(
        "`decay` must be an exponent above 0, 'log', 'loglog', 'learned', or at least two finite "
        f"numbers that fall from position to position: got {decay!r}."
    )


def _positions(queries: Queries) -> IntArray:
    """Return positions 0, 1, ... of each query, query by query."""
    return np.arange(queries.n_items) - np.repeat(queries.starts[:-1], queries.sizes)


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
