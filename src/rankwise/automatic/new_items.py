"""Which items stand in several queries, and folds that hold them out everywhere at once.

A model may know an item again that it has learned from in another query. Its value on queries of
known items is no value on queries of new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from rankwise.core.arrays import IntArray
from rankwise.core.checks import check_length
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries, TrainingData
from rankwise.selection.holdouts import Folds
from rankwise.transformers.categories import BLANK, categories_of, is_numeric

BLANKS = (BLANK, "", "nan", "NaT")
"""Values that are equal to no other."""

LEAST_REPEATED = 0.2
"""Share of the rows whose features stand in several queries from which it is said: rows of few
words or of zeros are equal by chance."""

LARGEST_GROUP = 0.5
"""Share of the rows that may belong together for folds of groups."""

LEAST_GROUPS = 3
"""Smallest number of groups for folds of groups."""

LEAST_KEPT = 0.5
"""Share of the rows learned from that must be left without what is held out."""


OF_NEW_ITEMS, OF_NEW_GROUPS = "of new items", "of new groups"
"""What queries are called whose items, or whatever was named, were not learned from."""


DrawFolds: TypeAlias = Callable[[IntArray, bool], Folds]
"""Draws folds of groups, numbered from 0: as many as ever, or as the size of the data allows."""


@final
@dataclass(frozen=True, eq=False)
class NewItems:
    """What must be new in held-out queries.

    Parameters
    ----------
    item : (n_items,)
        The item of each row by number, or whatever was named; -1 for what stands there only.
    repeated_share : float
        The share of the rows whose item stands in several queries.
    name : str
        What queries are called in which it is new.
    """

    item: IntArray
    repeated_share: float
    name: str

    @classmethod
    def of_values(cls, values: Any, data: TrainingData) -> Self:
        """Take rows with the same named value for the same item."""
        column = np.asarray(values)
        check_length("folds_by", column, data.n_items)
        texts, number = categories_of(column)
        item = np.where(np.isin(texts, BLANKS)[number], -1, number)
        return cls(item, repeated_share(item, held_together(data)), OF_NEW_GROUPS)

    @classmethod
    def of_rows(cls, rows: NDArray[Any], data: TrainingData) -> Self:
        """Take rows with the same features for the same item."""
        item = items_of_rows(rows, data.queries)
        return cls(item, repeated_share(item, held_together(data)), OF_NEW_ITEMS)

    def folds(self, group: IntArray, draw: DrawFolds) -> tuple[Folds, str]:
        """Return folds of groups, and what is new in them besides the groups.

        Groups that share an item are held out together if they are many enough. Otherwise groups
        are held out by themselves, from rows of other items, if those are many enough.

        Parameters
        ----------
        group : (n_items,)
            What is held out as a whole, numbered from 0.
        draw : function
            Returns folds of groups.
        """
        if self.repeated_share == 0.0:
            return draw(group, False), ""
        joined = joined_groups(self.item, group)
        sizes = np.bincount(joined)
        if len(sizes) >= LEAST_GROUPS and sizes.max() <= LARGEST_GROUP * len(joined):
            return draw(joined, False), self.name
        # as many folds as ever, so that each leaves the most
        whole = draw(group, True)
        folds = replace(whole, apart=self.item)
        both = zip(folds.rounds, whole.rounds, strict=True)
        left = min(len(kept) / max(len(all_kept), 1) for (kept, _), (all_kept, _) in both)
        if left < LEAST_KEPT:
            raise InvalidInputError(
                f"`folds_by` must leave at least {LEAST_KEPT:.0%} of the rows to learn from when "
                f"its values are held out: got {left:.0%}. Name something that stands in fewer "
                "queries, or leave it out."
            )
        return folds, self.name


def items_of_rows(rows: NDArray[Any], queries: Queries) -> IntArray:
    """Return a number for every row, the same for equal rows.

    Features that are constant in all queries are those of queries, and do not count.
    """
    first = np.empty(queries.n_queries, dtype=np.intp)
    first[queries.index] = np.arange(len(rows))
    mixed = np.zeros(len(rows), dtype=np.uint64)
    rng = np.random.default_rng(0)
    varies = False
    for j in range(rows.shape[1]):
        factor = np.uint64(2 * rng.integers(2**62) + 1)
        code = _codes(rows[:, j])
        if (code != code[first][queries.index]).any():
            # equal rows have equal sums, and others almost never
            mixed = (mixed ^ code) * factor
            mixed ^= mixed >> np.uint64(29)
            varies = True
    if not varies:
        return np.full(len(rows), -1)
    return np.unique(mixed, return_inverse=True)[1]


def _codes(column: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for every cell, the same for equal ones."""
    if is_numeric(column):
        numbers = np.array(column, dtype=float) + 0.0  # -0.0 is 0.0
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64)
    return categories_of(column)[1].astype(np.uint64)


def held_together(data: TrainingData) -> IntArray:
    """Return the number of what each item is held out with: its query or, without any, itself."""
    return data.queries.index if data.has_qid else np.arange(data.n_items)


def repeated_share(item: IntArray, group: IntArray) -> float:
    """Return the share of the rows whose item stands in another group too."""
    known = np.flatnonzero(item >= 0)
    n_groups = int(group.max()) + 1
    pairs = np.unique(item[known] * n_groups + group[known])
    count = np.bincount(pairs // n_groups, minlength=1)
    return float(np.count_nonzero(count[item[known]] > 1) / max(len(item), 1))


def joined_groups(item: IntArray, group: IntArray) -> IntArray:
    """Return groups numbered anew, those that share an item as one."""
    known = np.flatnonzero(item >= 0)
    n_groups, n_items = int(group.max()) + 1, int(item.max(initial=-1)) + 1
    ends = group[known], n_groups + item[known]
    shape = (n_groups + n_items,) * 2
    links = sparse.coo_array((np.ones(len(known), dtype=bool), ends), shape=shape)
    joined = csgraph.connected_components(links, directed=False)[1][:n_groups]
    return np.unique(joined, return_inverse=True)[1][group]
