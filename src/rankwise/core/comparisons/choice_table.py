"""Choices among several named items: rankings, the best of a set, the best and the worst."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.checks import check_length, check_weight
from rankwise.core.comparisons.comparison_table import Labels
from rankwise.core.errors import InvalidInputError, NothingToLearnError


@final
@dataclass(frozen=True, eq=False)
class ChoiceTable:
    """Hold choices of one item from several, best or worst, and who chose.

    A ranking is a series of choices: the best of all, the best of the rest, and so on (Plackett,
    Luce). Build it with `from_rankings`, `from_best` or `from_best_worst`.

    Parameters
    ----------
    names : (n_items,)
        The names of the items.
    choice, item : (n_entries,)
        For each item of each set: the number of the choice, ascending, and the item.
    chosen : (n_choices,)
        The item chosen.
    sign : (n_choices,)
        1 for the best, -1 for the worst.
    weight : (n_choices,)
    judge : (n_choices,)
        Number of the judge; by default each ranking or set has its own.
    n_judges : int
    unread : tuple of str
        Columns of the source that were not read.
    reading : tuple of str
        How the source was read, a line for each part.

    Examples
    --------
    >>> from rankwise import ChoiceTable
    >>> ChoiceTable.from_rankings([["tuna", "eel", "egg"], ["eel", "tuna"]])
    ChoiceTable(3 choices among 3 items by 2 judges)
    >>> ChoiceTable.from_best_worst([["tuna", "eel", "egg"]], ["tuna"], ["egg"])
    ChoiceTable(2 choices among 3 items by 1 judges)
    """

    names: NDArray[Any]
    choice: IntArray
    item: IntArray
    chosen: IntArray
    sign: FloatArray
    weight: FloatArray
    judge: IntArray
    n_judges: int
    unread: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()

    @classmethod
    def from_rankings(
        cls,
        rankings: Iterable[Sequence[Hashable]],
        *,
        rest: Iterable[Sequence[Hashable]] | None = None,
        judge: Any = None,
        weight: ArrayLike | None = None,
    ) -> Self:
        """Turn rankings, best item first, into choices.

        Parameters
        ----------
        rankings : sequence of sequences of names
            Full or partial rankings; a ranking compares only the items it names.
        rest : sequence of sequences of names, optional
            For each ranking, items that are below all of its items, in no order: for the top three
            of ten, the other seven.
        judge : (n_rankings,), optional
            Who gave each ranking.
        weight : (n_rankings,), optional
        """
        orders = [list(order) for order in rankings]
        others = [[] for _ in orders] if rest is None else [list(one) for one in rest]
        if len(others) != len(orders):
            raise InvalidInputError(
                f"`rest` must have one entry per ranking: there are {len(orders)}, got "
                f"{len(others)}."
            )
        sets, best, owner = [], [], []
        for row, (order, below) in enumerate(zip(orders, others, strict=True)):
            everything = order + below
            for place in range(len(order) - (not below)):
                sets.append(everything[place:])
                best.append(order[place])
                owner.append(row)
        return cls._of(sets, best, np.ones(len(sets)), owner, len(orders), judge, weight)

    @classmethod
    def from_best(
        cls,
        sets: Iterable[Sequence[Hashable]],
        best: Iterable[Hashable],
        *,
        judge: Any = None,
        weight: ArrayLike | None = None,
    ) -> Self:
        """Read the best item of each set.

        Parameters
        ----------
        sets : sequence of sequences of names
            What was offered.
        best : sequence of names
            What was chosen, one of each set.
        judge, weight : (n_sets,), optional
        """
        offered, chosen = [list(one) for one in sets], list(best)
        _same_length("best", chosen, offered)
        owner = list(range(len(offered)))
        return cls._of(offered, chosen, np.ones(len(offered)), owner, len(offered), judge, weight)

    @classmethod
    def from_best_worst(
        cls,
        sets: Iterable[Sequence[Hashable]],
        best: Iterable[Hashable],
        worst: Iterable[Hashable],
        *,
        judge: Any = None,
        weight: ArrayLike | None = None,
    ) -> Self:
        """Read the best item of each set, and the worst of the others.

        Parameters
        ----------
        sets : sequence of sequences of names
            What was offered.
        best, worst : sequence of names
            What was chosen, two items of each set.
        judge, weight : (n_sets,), optional
        """
        offered, top, bottom = [list(one) for one in sets], list(best), list(worst)
        _same_length("best", top, offered)
        _same_length("worst", bottom, offered)
        others = [[x for x in s if x != b] for s, b in zip(offered, top, strict=True)]
        sign = np.repeat([1.0, -1.0], len(offered))
        owner = [*range(len(offered))] * 2
        return cls._of(offered + others, top + bottom, sign, owner, len(offered), judge, weight)

    @classmethod
    def _of(
        cls,
        sets: list[list[Hashable]],
        chosen: list[Hashable],
        sign: FloatArray,
        owner: list[int],
        n_rows: int,
        judge: Any,
        weight: ArrayLike | None,
    ) -> Self:
        _check_sets(sets, chosen)
        sizes = np.array([len(one) for one in sets])
        flat = np.empty(int(sizes.sum()) + len(chosen), dtype=object)
        flat[:] = [name for one in sets for name in one] + chosen
        labels = Labels.of(flat)
        rows = np.array(owner, dtype=np.intp)
        judges = Labels(np.arange(n_rows), np.arange(n_rows)) if judge is None else Labels.of(judge)
        check_length("judge", judges.index, n_rows, "the rankings")
        weights = check_weight("weight", weight, n_rows, "ranking or set")
        return cls(
            labels.names,
            freeze(np.repeat(np.arange(len(sets)), sizes)),
            freeze(labels.index[: -len(chosen)]),
            freeze(labels.index[-len(chosen) :]),
            freeze(sign),
            freeze(weights[rows]),
            freeze(judges.index[rows]),
            judges.n_names,
        )

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.names)

    @property
    def n_choices(self) -> int:
        """Number of choices."""
        return len(self.chosen)

    def __repr__(self) -> str:
        return (
            f"ChoiceTable({self.n_choices} choices among {self.n_items} items by "
            f"{self.n_judges} judges)"
        )


def _same_length(name: str, values: list[Hashable], sets: list[list[Hashable]]) -> None:
    if len(values) != len(sets):
        raise InvalidInputError(
            f"`{name}` must have one entry per set: there are {len(sets)} sets, got {len(values)}."
        )


def _check_sets(sets: list[list[Hashable]], chosen: list[Hashable]) -> None:
    if not sets:
        raise NothingToLearnError(
            "There must be at least one choice among two items: got none. A ranking needs two "
            "items, or one and a `rest`."
        )
    for row, (one, name) in enumerate(zip(sets, chosen, strict=True)):
        if len(set(one)) != len(one):
            twice = next(x for x in one if one.count(x) > 1)
            raise InvalidInputError(
                f"Items of a ranking or set must differ: choice {row} has {twice!r} twice."
            )
        if name not in one or len(one) < 2:
            raise InvalidInputError(
                "The item chosen must be one of at least two offered: choice "
                f"{row} has {name!r} of {one}."
            )
