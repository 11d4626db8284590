"""Comparisons as people record them: named items, who won, how often, who judged, and when."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.checks import (
    as_array,
    check_length,
    check_weight,
    entries_of,
    is_blank,
    missing_cells,
    real_number,
    refuse_huge_entries,
)
from rankwise.core.comparisons.column import Column
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.params import Advice, Positive, check_value

FIRST_WON, TIED, SECOND_WON = 1, 0, -1
"""What a comparison can end with."""

Days: TypeAlias = Annotated[float, Positive(), Advice("It is a number of days.")]
"""A span of time."""

UNKNOWN = "unknown"
"""Who judged, or what was asked, where nothing is named."""


@final
@dataclass(frozen=True, eq=False)
class Labels:
    """Hold a column of names once each, with the number of the name in every row.

    Parameters
    ----------
    names : (n_names,)
        Distinct names, sorted if possible.
    index : (n_rows,)
        The position in ``names`` of the name of each row.
    """

    names: NDArray[Any]
    index: IntArray

    @classmethod
    def of(cls, values: Any) -> Self:
        """Return the distinct values and their numbers, in linear time.

        Parameters
        ----------
        values : (n_rows,)
            A `Column`, or entries of any type.
        """
        column = values if isinstance(values, Column) else _column(np.asarray(values))
        if column.values.dtype.kind in "iuf":
            names, number = np.unique(column.values, return_inverse=True)
            return cls(freeze(names), freeze(number[column.code]))
        words = column.values.tolist()
        try:
            known = _sorted(list(dict.fromkeys(words)))
        except TypeError as error:  # two names cannot be compared
            raise InvalidInputError(f"Names must be text or numbers: {error}.") from error
        place = {name: position for position, name in enumerate(known)}
        number = np.array([place[word] for word in words], dtype=np.intp)
        return cls(freeze(_as_names(known)), freeze(number[column.code]))

    @property
    def n_names(self) -> int:
        """Number of different names."""
        return len(self.names)

    def take(self, rows: IntArray) -> Self:
        """Keep the given rows; all names stay."""
        return replace(self, index=freeze(self.index[rows]))

    @property
    def counts(self) -> IntArray:
        """Number of rows of each name."""
        return np.bincount(self.index, minlength=self.n_names)


@final
@dataclass(frozen=True, eq=False)
class ComparisonTable:
    """Hold comparisons of named items, one per row.

    Build it with `of`, or from a file or a data frame with `rankwise.io.read_comparisons`.

    Parameters
    ----------
    names : (n_items,)
        The names of the items.
    first, second : (n_rows,)
        The items compared, as positions in ``names``, in the order in which they were shown.
    outcome : (n_rows,)
        1 if the first won, -1 if the second won, 0 for a tie.
    weight : (n_rows,)
        How often the comparison was recorded; any number above 0.
    margin : (n_rows,), optional
        By how much the winner led.
    judge : Labels, optional
        Who judged.
    date : (n_rows,), optional
        When it was judged, in days.
    covariates : (n_rows, n_covariates)
        Numbers that are positive in favour of the first item, such as a difference of lengths, or 1
        if it is at home.
    covariate_names : tuple of str
    question, category : Labels, optional
        What was asked, such as a prompt, and its kind, such as a language.
    unread : tuple of str
        Columns of the source that were not read.
    row : (n_rows,)
        The row of the source that each comparison comes from.
    reading : tuple of str
        How the source was read, a line for each part.

    Examples
    --------
    >>> from rankwise import ComparisonTable
    >>> table = ComparisonTable.of(["ann", "bob", "ann"], ["bob", "cid", "cid"], [1, 0, -1])
    >>> table
    ComparisonTable(3 comparisons of 3 items, 1 tied)
    >>> table.names.tolist(), table.pairs.tolist()
    (['ann', 'bob', 'cid'], [[0, 1], [2, 0]])
    """

    names: NDArray[Any]
    first: IntArray
    second: IntArray
    outcome: IntArray
    weight: FloatArray
    margin: FloatArray | None = None
    judge: Labels | None = None
    date: FloatArray | None = None
    covariates: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    covariate_names: tuple[str, ...] = ()
    question: Labels | None = None
    category: Labels | None = None
    unread: tuple[str, ...] = ()
    row: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    reading: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        first: Any,
        second: Any,
        outcome: ArrayLike | None = None,
        *,
        weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        judge: Any = None,
        date: Any = None,
        covariates: dict[str, ArrayLike] | None = None,
        question: Any = None,
        category: Any = None,
        names: Any = None,
        unread: tuple[str, ...] = (),
    ) -> Self:
        """Check columns of one length and number the names.

        Parameters
        ----------
        first, second : (n_rows,)
            Names of the items compared, of any type, or a `Column` of them.
        outcome : (n_rows,)
            1, 0 or -1; by default the first always won.
        weight, margin, date : (n_rows,), optional
        judge : (n_rows,), optional
            Names of any type. Rows in which it is blank have one judge in common, "unknown"; the
            others are then called by text.
        covariates : dict of (n_rows,), optional
        question, category : (n_rows,), optional
            Names of any type; blank ones are one, "unknown".
        names : (n_items,), optional
            All items, in this order; by default those that occur, sorted.
        unread : tuple of str
            Columns of the source that were not read.
        """
        ends = _ends(first, second)
        n_rows = len(ends[0])
        if n_rows == 0:
            raise NothingToLearnError("The table must hold at least one comparison: got none.")
        # each different name of either column is looked up once
        known = _joined(*ends)
        labels = Labels.of(known) if names is None else _among(known, names)
        n_first = len(ends[0].values)
        one = freeze(labels.index[:n_first][ends[0].code])
        other = freeze(labels.index[n_first:][ends[1].code])
        _refuse_same(one, other, labels.names)
        given = covariates or {}
        columns = [_numbers(name, values, n_rows) for name, values in given.items()]
        weights = check_weight("weight", weight, n_rows, "comparison")
        refuse_huge_entries(weights, weights, "weight", "Divide all weights by the largest.")
        table = cls(
            labels.names,
            one,
            other,
            freeze(_outcomes(outcome, n_rows)),
            freeze(weights),
            None if margin is None else freeze(_numbers("margin", margin, n_rows)),
            _labels("judge", judge, n_rows),
            None if date is None else freeze(as_days(date, n_rows)),
            freeze(np.stack(columns, 1) if columns else np.zeros((n_rows, 0))),
            tuple(given),
            _labels("question", question, n_rows),
            _labels("category", category, n_rows),
            unread,
            freeze(np.arange(n_rows)),
        )
        return table.take(np.flatnonzero(weights > 0.0)) if not weights.all() else table

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.first)

    @property
    def tied(self) -> BoolArray:
        """Which rows are ties."""
        return self.outcome == TIED

    @property
    def decided(self) -> IntArray:
        """The rows that have a winner."""
        return np.flatnonzero(self.outcome)

    @property
    def pairs(self) -> IntArray:
        """Winner and loser of the decided rows, (n_decided, 2)."""
        return self._winner_first(self.decided)

    def _winner_first(self, rows: IntArray) -> IntArray:
        one, other = self.first[rows], self.second[rows]
        won = (self.outcome[rows] >= 0)[:, None]
        return np.where(won, np.stack([one, other], 1), np.stack([other, one], 1))

    def edges(self, *, keep_ties: bool) -> tuple[IntArray, FloatArray | None, FloatArray]:
        """Return pairs (winner first), margins and weights of a preference graph.

        Parameters
        ----------
        keep_ties : bool
            Whether ties become pairs with a margin of 0 instead of being left out. Without any
            decided row they are left out too.
        """
        rows = self.decided
        if not keep_ties or len(rows) in (0, self.n_rows):
            margin = None if self.margin is None else self.margin[rows]
            return self._winner_first(rows), margin, self.weight[rows]
        margin = np.ones(self.n_rows) if self.margin is None else self.margin
        every = np.arange(self.n_rows)
        return self._winner_first(every), np.where(self.tied, 0.0, margin), self.weight

    @property
    def tied_pairs(self) -> IntArray:
        """The items of the ties, (n_tied, 2)."""
        return self._winner_first(np.flatnonzero(self.tied))

    def take(self, rows: IntArray) -> Self:
        """Keep the given rows; all items stay."""
        return replace(
            self,
            first=freeze(self.first[rows]),
            second=freeze(self.second[rows]),
            outcome=freeze(self.outcome[rows]),
            weight=freeze(self.weight[rows]),
            margin=None if self.margin is None else freeze(self.margin[rows]),
            judge=None if self.judge is None else self.judge.take(rows),
            question=None if self.question is None else self.question.take(rows),
            category=None if self.category is None else self.category.take(rows),
            date=None if self.date is None else freeze(self.date[rows]),
            covariates=freeze(self.covariates[rows]),
            row=freeze(self.row[rows]),
        )

    def counted(self) -> Self:
        """Return every different row once, with the sum of its weights; margins are left out.

        Rows are alike if items, their order, outcome, judge, question, category, date and
        covariates are.
        """
        code = (self.first * self.n_items + self.second) * 3 + self.outcome + 1
        n_codes = 3 * self.n_items**2
        for labels in (self.judge, self.question, self.category):
            if labels is not None:
                code, n_codes = _pushed(code, n_codes, labels.index, labels.n_names, self.n_rows)
        numbers = self.covariates.reshape(self.n_rows, -1).T
        for values in (*([] if self.date is None else [self.date]), *numbers):
            known, level = np.unique(values, return_inverse=True)
            code, n_codes = _pushed(code, n_codes, level, len(known), self.n_rows)
        if n_codes <= 4 * self.n_rows:  # few possible rows are counted without sorting
            number = np.full(n_codes, -1)
            number[code[::-1]] = np.arange(self.n_rows)[::-1]
            row = np.sort(number[number >= 0])
            sums = np.bincount(code, self.weight, n_codes)[code[row]]
        else:
            _, row, cell = np.unique(code, return_index=True, return_inverse=True)
            sums = np.bincount(cell, self.weight, len(row))
        return replace(self.take(row), weight=freeze(sums), margin=None)

    @classmethod
    def joined(cls, tables: Sequence[Self]) -> Self:
        """Return the rows of all tables, which have the same columns; margins are left out.

        Parameters
        ----------
        tables : sequence of ComparisonTable
            At least one.
        """

        def column(names: list[NDArray[Any]], index: list[IntArray]) -> Column:
            starts = np.cumsum([0, *map(len, names)])[:-1]
            kinds = {one.dtype.kind for one in names}
            words = np.concatenate(
                names if len(kinds) == 1 else [one.astype(object) for one in names]
            )
            moved = [one + start for one, start in zip(index, starts, strict=True)]
            return Column(words, np.concatenate(moved))

        def labels(role: str) -> Labels | None:
            given = [getattr(table, role) for table in tables]
            if given[0] is None:
                return None
            return Labels.of(column([one.names for one in given], [one.index for one in given]))

        names = [table.names for table in tables]
        ends = column(names * 2, [t.first for t in tables] + [t.second for t in tables])
        items = Labels.of(ends)
        first, second = np.split(items.index, 2)
        n_rows, one = len(first), tables[0]
        return replace(
            one,
            names=items.names,
            first=freeze(first),
            second=freeze(second),
            outcome=freeze(np.concatenate([table.outcome for table in tables])),
            weight=freeze(np.concatenate([table.weight for table in tables])),
            margin=None,
            judge=labels("judge"),
            date=None if one.date is None else freeze(np.concatenate([t.date for t in tables])),
            covariates=freeze(np.concatenate([t.covariates.reshape(t.n_rows, -1) for t in tables])),
            question=labels("question"),
            category=labels("category"),
            row=freeze(np.arange(n_rows)),
        )

    def split(self, share: FloatArray) -> Self:
        """Return every row as won by the first, as won by the second and as a tie.

        Parameters
        ----------
        share : (n_rows, 3)
            What the weight of the row is multiplied by for each.
        """
        thrice = self.take(np.concatenate([np.arange(self.n_rows)] * 3))
        outcome = np.repeat([FIRST_WON, SECOND_WON, TIED], self.n_rows)
        weight = thrice.weight * share.T.ravel()
        split = replace(thrice, outcome=freeze(outcome), weight=freeze(weight))
        return split.take(np.flatnonzero(weight > 0.0))

    def among(self, names: Any) -> Self:
        """Return the same comparisons with positions in ``names``, which must hold all items.

        Parameters
        ----------
        names : (n_items,)
            Different names, in any order.
        """
        place = _among(_column(self.names), names)
        return replace(
            self,
            names=place.names,
            first=freeze(place.index[self.first]),
            second=freeze(place.index[self.second]),
        )

    def with_order(self) -> Self:
        """Add a covariate "first" of 1, for the effect of being the first of the two shown."""
        ones = np.ones((self.n_rows, 1))
        covariates = np.column_stack([ones, self.covariates.reshape(self.n_rows, -1)])
        names = ("first", *self.covariate_names)
        return replace(self, covariates=freeze(covariates), covariate_names=names)

    @property
    def winner_covariates(self) -> FloatArray:
        """The covariates of the decided rows, positive in favour of the winner, (n_decided, n)."""
        rows = self.decided
        return self.outcome[rows, None] * self.covariates[rows]

    def decayed(self, half_life: float) -> Self:
        """Halve the weight of comparisons for every ``half_life`` days before the last one.

        Faded weights are no counts: scores found with them vary like those of
        (sum w)^2 / sum w^2 answers, the effective sample size, and not like those of sum w. So
        weights are scaled to sum up to that number, and what learns from them stays as sure of
        itself as it may be.

        Parameters
        ----------
        half_life : float
            Days, above 0; infinite for weights as they are.
        """
        if real_number(half_life) != np.inf:
            check_value("half_life", half_life, Days)
        if self.date is None:
            raise InvalidInputError(
                "`half_life` must come with dates: the comparisons have none. Name the column of "
                "the dates, or leave `half_life` out."
            )
        fade = np.exp2((self.date - self.date.max()) / half_life)
        effective = (self.weight @ fade) / (self.weight @ fade**2)
        return replace(self, weight=freeze(self.weight * fade * effective))

    def __repr__(self) -> str:
        n_tied = int(np.count_nonzero(self.tied))
        by = "" if self.judge is None else f", {self.judge.n_names} judges"
        return (
            f"ComparisonTable({self.n_rows} comparisons of {self.n_items} items, {n_tied} tied{by})"
        )


def _pushed(
    code: IntArray, n_codes: int, level: IntArray, n_levels: int, n_rows: int
) -> tuple[IntArray, int]:
    """Return codes of both, numbered anew where their numbers would grow beyond a few per row."""
    code, n_codes = code * n_levels + level, n_codes * n_levels
    if n_codes <= 4 * n_rows:
        return code, n_codes
    known, code = np.unique(code, return_inverse=True)
    return code, len(known)


def _sorted(names: list[Any]) -> list[Any]:
    try:
        return sorted(names)
    except TypeError:  # names of several types have no order
        return names


def _as_names(names: list[Any]) -> NDArray[Any]:
    if {*map(type, names)} == {str} or all(isinstance(name, str) for name in names):
        return np.array(names, dtype=str)
    if all(isinstance(name, int) and not isinstance(name, bool) for name in names):
        return np.array(names, dtype=np.int64)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def _column(entries: NDArray[Any]) -> Column:
    """Return the different entries of a vector; refuse those that cannot be names."""
    if entries.ndim != 1:
        raise InvalidInputError(
            f"Names must come as a list, one for each row: got shape {entries.shape}."
        )
    try:
        return Column.of(entries)
    except TypeError as error:
        raise InvalidInputError(f"Names must be text or numbers: {error}.") from error


def _ends(first: Any, second: Any) -> tuple[Column, Column]:
    """Return the first and the second items of all rows."""
    ends = [
        end if isinstance(end, Column) else as_array(name, end)
        for name, end in (("first", first), ("second", second))
    ]
    shapes = [(len(end),) if isinstance(end, Column) else end.shape for end in ends]
    if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise InvalidInputError(
            "Both columns of items must be vectors of one length: got shapes "
            f"{shapes[0]} and {shapes[1]}."
        )
    one, other = (end if isinstance(end, Column) else _column(end) for end in ends)
    return one, other


def _joined(one: Column, other: Column) -> Column:
    """Return the different items of two columns, those of the first before; refuse missing ones."""
    kinds = {one.values.dtype.kind, other.values.dtype.kind}
    values = [end.values.astype(object) if len(kinds) > 1 else end.values for end in (one, other)]
    joined = np.concatenate(values)
    words = joined.astype(object)
    missing = missing_cells(words)
    if not missing.any():
        missing = np.asarray(words == "", dtype=bool)
    if missing.any():
        lacks = np.split(missing, [len(one.values)])
        row = int(np.argmax(lacks[0][one.code] | lacks[1][other.code]))
        raise InvalidInputError(f"Every comparison must name two items: row {row} lacks one.")
    return Column(joined, np.arange(len(joined)))


def _among(column: Column, names: Any) -> Labels:
    known = entries_of(as_array("names", names).tolist())
    if not all(isinstance(name, Hashable) for name in known):
        raise InvalidInputError("`names` must be text or numbers, one for each item.")
    place = {name: position for position, name in enumerate(known)}
    if len(place) != len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise InvalidInputError(f"`names` must hold each name once: got {twice!r} twice.")
    words = column.values.tolist()
    number = np.array([place.get(word, -1) for word in words], dtype=np.intp)
    index = number[column.code]
    if (number < 0).any():
        strange = words[column.code[np.argmin(index)]]
        raise InvalidInputError(
            f"Comparisons must be about the {len(known)} items given: got {strange!r}. Check the "
            "spelling, or add the item."
        )
    return Labels(freeze(_as_names(known)), freeze(index))


def _refuse_same(first: IntArray, second: IntArray, names: NDArray[Any]) -> None:
    same = first == second
    if same.any():
        row = int(np.argmax(same))
        raise InvalidInputError(
            f"A comparison must be about two different items: row {row} compares "
            f"{names[first[row]].item() if names.dtype != object else names[first[row]]!r} with "
            "itself. Leave such rows out."
        )


def _outcomes(outcome: ArrayLike | None, n_rows: int) -> IntArray:
    if outcome is None:
        return np.ones(n_rows, dtype=np.intp)
    values = np.asarray(outcome)
    check_length("outcome", values, n_rows, "the table")
    if values.dtype.kind == "i" and values.min() >= SECOND_WON and values.max() <= FIRST_WON:
        return values.astype(np.intp)
    known = (values == FIRST_WON) | (values == TIED) | (values == SECOND_WON)
    if not np.all(known):
        row = int(np.argmin(known))
        raise InvalidInputError(
            "`outcome` must be 1 (the first won), 0 (a tie) or -1 (the second won): row "
            f"{row} holds {values[row]!r}."
        )
    return values.astype(np.intp)


def _numbers(name: str, values: ArrayLike, n_rows: int) -> FloatArray:
    try:
        vector = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"`{name}` must hold numbers: {error}.") from error
    check_length(name, vector, n_rows, "the table")
    if not np.isfinite(vector).all():
        row = int(np.argmin(np.isfinite(vector)))
        raise InvalidInputError(f"`{name}` must be finite: row {row} holds {vector[row]}.")
    return vector


def _labels(role: str, given: Any, n_rows: int) -> Labels | None:
    """Return who judged, or what was asked; where a name is missing, all names are texts."""
    if given is None:
        return None
    column = given if isinstance(given, Column) else _column(as_array(role, given))
    names = column.values.tolist()
    if any(map(is_blank, names)):
        texts = [UNKNOWN if is_blank(name) else _text(name) for name in names]
        column = Column(np.array(texts, dtype=object), column.code)
    labels = Labels.of(column)
    check_length(role, labels.index, n_rows, "the table")
    return labels


def _text(name: Any) -> str:
    """Return a name as text; whole numbers beside blanks are floats in many frames."""
    return str(int(name) if isinstance(name, float) and name.is_integer() else name)
