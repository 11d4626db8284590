"""What a query counts: the factor omega, by name or as given."""

from collections.abc import Hashable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.checks import check_choice, check_weight
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries

StandardWeight: TypeAlias = Literal["items", "pairs", "equal"]
QueryWeight: TypeAlias = StandardWeight | ArrayLike | Mapping[Hashable, float]


def standard_query_weight(kind: str, mass: ArrayLike, square_mass: ArrayLike) -> FloatArray:
    """Return omega of queries by name; 0 where a query has nothing to weigh.

    Parameters
    ----------
    kind : {"items", "pairs", "equal"}
        1 / n_q, 1, or 1 / number of pairs, counted by weight.
    mass : (n_queries,)
        Total weight of the items of each query.
    square_mass : (n_queries,)
        Sum of squared weights of whatever forms no pair with itself: items where ties are kept,
        grades where they are dropped.

    Notes
    -----
    "items" is [APS10] (3), "pairs" [PTA09] (21), "equal" the end of its Sect. 2.4.
    """
    total = np.asarray(mass, dtype=float)
    return _by_name(kind, total, (total**2 - np.asarray(square_mass)) / 2)


def _by_name(kind: str, n_items: FloatArray, n_pairs: FloatArray) -> FloatArray:
    """Return omega of queries by name, from the numbers of their items and pairs by weight."""
    check_choice("query_weight", kind, get_args(StandardWeight))
    if kind == "pairs":
        return np.ones_like(n_items)
    counted = n_items if kind == "items" else n_pairs
    return np.divide(1.0, counted, out=np.zeros_like(counted), where=counted > 0)


def comparison_query_weight(
    query_weight: QueryWeight, queries: Queries, pair_queries: IntArray, weight: FloatArray
) -> FloatArray:
    """Return omega of each query of comparisons.

    Parameters
    ----------
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        1 / n_q, 1, 1 / number of comparisons by weight, or given.
    queries : Queries
        The queries of the items.
    pair_queries : (n_pairs,)
        The query of each comparison.
    weight : (n_pairs,)
        The weight of each comparison.
    """
    if not isinstance(query_weight, str):
        return given_query_weight(query_weight, queries)
    n_pairs = sum_by(pair_queries, weight, queries.n_queries)
    return _by_name(query_weight, queries.sizes.astype(float), n_pairs)


def given_query_weight(query_weight: Any, queries: Queries) -> FloatArray:
    """Return omega of each query, given by query id or in the order of first appearance."""
    if isinstance(query_weight, Mapping):
        missing = [q for q in queries.ids.tolist() if q not in query_weight]
        if missing:
            raise InvalidInputError(
                f"`query_weight` must have an entry for every query id: {missing[0]!r} has none."
            )
        query_weight = [query_weight[q] for q in queries.ids.tolist()]
    return check_weight("query_weight", query_weight, queries.n_queries, "query")
