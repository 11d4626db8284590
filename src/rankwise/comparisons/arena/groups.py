"""Who met whom: groups of items that never did, and items that nobody beat."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from rankwise.core.arrays import IntArray
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError


def groups_of(first: IntArray, second: IntArray, n_items: int) -> IntArray | None:
    """Return the group of each item, the largest first; None if all items met.

    Items of a group met each other, if only through others.

    Parameters
    ----------
    first, second : (n_meetings,)
        The items that met.
    n_items : int
    """
    met = csr_array((np.ones(len(first)), (first, second)), shape=(n_items, n_items))
    n_groups, group = connected_components(met, directed=False)
    if n_groups == 1:
        return None
    place = np.empty(n_groups, dtype=np.intp)
    place[np.argsort(-np.bincount(group), kind="stable")] = np.arange(n_groups)
    return place[group]


def refuse_unbeaten(table: ComparisonTable) -> None:
    """Refuse comparisons whose likelihood has no maximum.

    It has one if each item lost or tied, if only through others, against every other one (Ford,
    1957).
    """
    won = table.outcome > 0
    # an edge from each loser to its winner, and both ways for ties
    rows = np.where(won, table.second, table.first)
    columns = np.where(won, table.first, table.second)
    tied = table.tied
    rows, columns = np.append(rows, columns[tied]), np.append(columns, rows[tied])
    shape = (table.n_items, table.n_items)
    lost_to = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    n_parts, part = connected_components(lost_to, directed=True, connection="strong")
    if n_parts > 1:
        some = np.unique(part, return_index=True)[1][:2]
        raise InvalidInputError(
            "Without a prior (deviation=inf) every item must have lost, if only through others, to "
            f"every other one: not so for {table.names[some[0]]} and {table.names[some[1]]}. Leave "
            "`deviation` out."
        )
