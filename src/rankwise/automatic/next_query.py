"""What held-out queries say of the next one: an interval of its value, and sets with its best item.

Both are conformal: if queries are drawn alike, what held for a share of the held-out ones holds for
the next one with about that probability, whatever the rankers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Above, Below, check_call
from rankwise.core.queries import Queries
from rankwise.core.storable import Finite, storable

ROUNDING = 1e-9
"""What differs by this share is equal."""

Coverage = Annotated[float, Above(0), Below(1)]


@storable
@final
@dataclass(frozen=True, eq=False)
class NextQuery:
    """Hold what was found on held-out queries, for intervals and sets of the next query.

    Parameters
    ----------
    measure : str
        The measure.
    values : (n_values,)
        Its values in the queries where it is defined, rising.
    leads : (n_leads,)
        By how much the score of the first item was above that of the best item, rising; of queries
        whose items differ.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import NextQuery
    >>> found = NextQuery("NDCG @ 10", np.linspace(0.2, 1.0, 99), np.linspace(0.0, 2.0, 99))
    >>> [round(end, 2) for end in found.interval()]
    [0.23, 0.97]
    >>> round(found.reach(), 2)
    1.82
    """

    measure: str
    values: Annotated[FloatArray, Finite()]
    leads: Annotated[FloatArray, Finite()]

    @classmethod
    def of(
        cls, measure: str, values: FloatArray, scores: FloatArray, y: FloatArray, queries: Queries
    ) -> Self:
        """Build from values of queries, NaN where not known, and held-out scores of their items."""
        known, scores = ~np.isnan(values), np.nan_to_num(scores)  # of other queries
        top, best, worst = (np.full(queries.n_queries, -np.inf) for _ in range(3))
        np.maximum.at(top, queries.index, y)
        np.maximum.at(worst, queries.index, -y)
        is_best = y == top[queries.index]
        np.maximum.at(best, queries.index[is_best], scores[is_best])
        first = np.full(queries.n_queries, -np.inf)
        np.maximum.at(first, queries.index, scores)
        leads = (first - best)[known & (top > -worst)]
        return cls(measure, np.sort(values[known]), np.sort(leads))

    def interval(self, coverage: Coverage = 0.9) -> tuple[float, float]:
        """Return the ends of an interval that holds the value of the next query.

        Parameters
        ----------
        coverage : float
            With what probability. If held-out queries are too few to say, the ends are those seen.
        """
        check_call(NextQuery.interval, coverage=coverage)
        n = len(self.values)
        outside = int(np.floor((n + 1) * (1.0 - coverage) / 2.0 + ROUNDING))
        low, high = max(outside - 1, 0), min(n - outside, n - 1)
        return float(self.values[low]), float(self.values[high])

    def reach(self, coverage: Coverage = 0.9) -> float:
        """Return how far below the first item the best one's score may be.

        Parameters
        ----------
        coverage : float
            With what probability; infinite if held-out queries are too few to say.
        """
        check_call(NextQuery.reach, coverage=coverage)
        place = int(np.ceil((len(self.leads) + 1) * coverage - ROUNDING))
        return float(self.leads[place - 1]) if place <= len(self.leads) else float("inf")

    def best_set(self, scores: FloatArray, queries: Queries, coverage: float = 0.9) -> BoolArray:
        """Return which items are in the set of their query that contains its best item.

        Parameters
        ----------
        scores : (n_items,)
            By the ranker that was chosen on the held-out queries.
        queries : Queries
            The queries of the items.
        coverage : float
            With what probability a set contains the best item, or one of equal grade.
        """
        if len(self.leads) == 0:
            raise InvalidInputError(
                "Sets must come from held-out queries with a best item: the ranker had none."
            )
        first = np.full(queries.n_queries, -np.inf)
        np.maximum.at(first, queries.index, scores)
        rounding = ROUNDING * float(np.abs(scores).max(initial=0.0))
        behind = first[queries.index] - scores
        return np.asarray(behind <= self.reach(coverage) + rounding)
