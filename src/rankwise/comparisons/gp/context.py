"""The context of answers: who gave them, what is known of these persons, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, first_equal, freeze
from rankwise.core.checks import as_array, entries_of
from rankwise.core.comparisons.comparison_table import ComparisonTable, Labels
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable
from rankwise.io.comparisons import read_items


@final
@dataclass(frozen=True, eq=False)
class AnswerContext:
    """Hold who gave each answer, and when.

    Parameters
    ----------
    judges : (n_judges,) or None
        The names of the judges; None if it is unknown who answered.
    of_pairs, of_ties : (n_pairs,), (n_tied,)
        Who answered, counted from 1; 0 if unknown.
    dates_of_pairs, dates_of_ties : (n_pairs,), (n_tied,)
        When they answered, in days.
    """

    judges: NDArray[Any] | None = None
    of_pairs: IntArray | None = None
    of_ties: IntArray | None = None
    dates_of_pairs: FloatArray | None = None
    dates_of_ties: FloatArray | None = None

    @classmethod
    def of_table(cls, table: ComparisonTable) -> Self:
        """Return the context of named comparisons."""
        found = cls()
        if table.date is not None:
            dates = table.date[table.decided], table.date[table.tied]
            found = replace(found, dates_of_pairs=dates[0], dates_of_ties=dates[1])
        if table.judge is None:
            return found
        code = table.judge.index + 1
        return replace(
            found,
            judges=table.judge.names,
            of_pairs=code[table.decided],
            of_ties=code[table.tied],
        )

    def dated(self, date: Any, tied_date: Any, n_pairs: int, n_tied: int) -> Self:
        """Add the dates of pairs of row numbers and of ties."""
        if date is None and tied_date is None:
            return self
        of_pairs = as_days([] if date is None else date, n_pairs)
        of_ties = as_days([] if tied_date is None else tied_date, n_tied)
        return replace(self, dates_of_pairs=of_pairs, dates_of_ties=of_ties)

    @property
    def dates(self) -> FloatArray:
        """All dates."""
        parts = [d for d in (self.dates_of_pairs, self.dates_of_ties) if d is not None]
        return np.concatenate(parts) if parts else np.zeros(0)

    def rounded(self, ends: IntArray, most: int) -> Self:
        """Round dates, counted back from the last, until few enough items at dates are left.

        Parameters
        ----------
        ends : (n_pairs + n_tied, 2)
            The items of all answers.
        most : int
        """
        last, span = float(self.dates.max()), float(np.ptp(self.dates))
        width, dates = 0.0, self.dates
        while width <= span and _n_shown(ends, dates) > most:
            width = max(2.0 * width, span / FINEST)
            dates = last - width * np.round((last - self.dates) / width)
        n_pairs = 0 if self.dates_of_pairs is None else len(self.dates_of_pairs)
        return replace(self, dates_of_pairs=dates[:n_pairs], dates_of_ties=dates[n_pairs:])

    @classmethod
    def of_columns(cls, judge: Any, tied_judge: Any, n_pairs: int, n_tied: int) -> Self:
        """Return who answered pairs of row numbers and ties.

        Parameters
        ----------
        judge, tied_judge : (n_pairs,), (n_tied,) or None
            Names of any type.
        n_pairs, n_tied : int
        """
        if judge is None and tied_judge is None:
            return cls()
        columns: list[Any] = []
        for name, values, n_rows in (
            ("judge", judge, n_pairs),
            ("tied_judge", tied_judge, n_tied),
        ):
            listed = [] if values is None else as_array(name, values).tolist()
            if np.ndim(listed) != 1 or len(listed) != n_rows:
                raise InvalidInputError(
                    f"`{name}` must say who gave each of the {n_rows} answers: got "
                    f"{len(listed) if np.ndim(listed) == 1 else np.shape(listed)}."
                )
            columns.extend(listed)
        labels = Labels.of(np.array(columns, dtype=object))
        return cls(labels.names, labels.index[:n_pairs] + 1, labels.index[n_pairs:] + 1)

    def coded_as(self, known: NDArray[Any] | None) -> Self:
        """Return codes for known judges; all others are unknown."""
        if self.judges is None:
            return self
        place = {} if known is None else {name: k + 1 for k, name in enumerate(known.tolist())}
        code = np.array([0] + [place.get(name, 0) for name in self.judges.tolist()])
        of_pairs = None if self.of_pairs is None else code[self.of_pairs]
        of_ties = None if self.of_ties is None else code[self.of_ties]
        return replace(self, judges=known, of_pairs=of_pairs, of_ties=of_ties)

    def names_after(self, known: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return the known judges, followed by the new ones."""
        if known is None or self.judges is None:
            return self.judges if known is None else known
        old = set(known.tolist())
        new = self.judges[[name not in old for name in self.judges.tolist()]]
        if known.dtype.kind != new.dtype.kind:
            known, new = known.astype(object), new.astype(object)
        return np.concatenate([known, new])


def _n_shown(ends: IntArray, dates: FloatArray) -> int:
    """Return the number of different items at different dates."""
    keys = np.column_stack([ends.ravel().astype(np.float64), np.repeat(dates, 2)])
    return len(np.unique(first_equal(keys)))


NO_CONTEXT = AnswerContext()

FINEST = 1024
"""Parts of the time between the first and the last date to which dates are rounded first."""


def answer_context(
    pairs: Any, tied: Any, judge: Any, tied_judge: Any, date: Any = None, tied_date: Any = None
) -> AnswerContext:
    """Return who answered pairs of row numbers and ties, and when; refuse this for scores."""
    given = [judge, tied_judge, date, tied_date]
    if all(value is None for value in given):
        return NO_CONTEXT
    if pairs is None:
        raise InvalidInputError(
            "`judge` and `date` must come with comparisons (`pairs`): got none."
        )
    n_rows = len(entries_of(pairs)), 0 if tied is None else len(entries_of(tied))
    context = AnswerContext.of_columns(judge, tied_judge, *n_rows)
    return context.dated(date, tied_date, *n_rows)


def refuse_anonymous(context: AnswerContext) -> None:
    """Refuse answers without a judge if each judge has their own scores."""
    parts = [codes for codes in (context.of_pairs, context.of_ties) if codes is not None]
    if context.judges is None or not np.concatenate(parts).all():
        raise InvalidInputError(
            "`tastes` must come with answers that say who gave them: give `judge` (and "
            "`tied_judge`), or name the column of the judges."
        )


def with_context(table: ComparisonTable, judge: Any, date: Any) -> ComparisonTable:
    """Add columns of judges and dates to named comparisons that have none.

    Parameters
    ----------
    table : ComparisonTable
    judge, date : (n_rows,) or None
    """
    given = {"judge": (judge, table.judge), "date": (date, table.date)}
    for name, (values, known) in given.items():
        if values is not None and known is not None:
            raise InvalidInputError(
                f"`{name}` must be given once: the comparisons have such a column, and `{name}` "
                "was given too. Leave one of them out."
            )
    if date is not None:
        table = replace(table, date=as_days(date, table.n_rows))
    if judge is None:
        return table
    labels = Labels.of(np.array(as_array("judge", judge).tolist(), dtype=object))
    if len(labels.index) != table.n_rows:
        raise InvalidInputError(
            f"`judge` must say who gave each of the {table.n_rows} answers: got "
            f"{len(labels.index)}."
        )
    return replace(table, judge=labels)


@storable
@final
@dataclass(frozen=True, eq=False)
class PersonTraits:
    """Hold the features of persons on one scale: mean 0, and a mean square length of 1.

    Parameters
    ----------
    names : (n_persons,)
    rows : (n_persons, n_traits)
    centre, scale : (n_traits,)
        What was subtracted from the features, and what they were then divided by.
    """

    names: NDArray[Any]
    rows: FloatArray
    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, persons: Any) -> Self:
        """Read the features of persons and bring them to one scale.

        Parameters
        ----------
        persons : frame, or mapping of names to rows of numbers
            Named by its index or its only column of text.
        """
        names, features = _read_persons(persons)
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.sqrt(features.shape[1]) * np.where(scale > 0.0, scale, 1.0)
        return cls(names, freeze((features - centre) / scale), freeze(centre), freeze(scale))

    @property
    def n_traits(self) -> int:
        """Number of features."""
        return self.rows.shape[1]

    def joined_with(self, persons: Any) -> Self:
        """Add other persons on the same scale; those of the same name are replaced."""
        names, features = _read_persons(persons)
        if features.shape[1] != self.n_traits:
            raise InvalidInputError(
                f"Persons must have the {self.n_traits} features of those in `fit`: got "
                f"{features.shape[1]}."
            )
        given = set(names.tolist())
        kept = np.array([name not in given for name in self.names.tolist()], dtype=bool)
        rows = np.vstack([self.rows[kept], (features - self.centre) / self.scale])
        everyone = [*self.names[kept].tolist(), *names.tolist()]
        labels = Labels.of(np.array(everyone, dtype=object))
        return replace(self, names=labels.names, rows=freeze(rows[np.argsort(labels.index)]))

    def of_names(self, names: Sequence[Any]) -> FloatArray:
        """Return the features of persons; zeros, an average person, for those without features."""
        place = {name: row for row, name in enumerate(self.names.tolist())}
        rows = np.array([place.get(name, -1) for name in names], dtype=np.intp)
        return np.vstack([self.rows, np.zeros(self.n_traits)])[rows]


def _read_persons(persons: Any) -> tuple[NDArray[Any], FloatArray]:
    """Return the sorted names of persons and their features."""
    is_mapping = isinstance(persons, Mapping)
    known = (np.array(list(persons), dtype=object), list(persons.values())) if is_mapping else None
    names, rows = known or read_items(persons)
    if names is None:
        raise InvalidInputError(
            "`persons` must be a frame with the names of persons as its index or in a column of "
            "text, or a dictionary of rows by name: got no names."
        )
    features = np.asarray(rows, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] == 0 or not np.isfinite(features).all():
        raise InvalidInputError(
            "`persons` must have numbers as features, one or more for every person and none "
            f"missing: got an array of shape {features.shape}."
        )
    labels = Labels.of(np.array(names.tolist(), dtype=object))
    if labels.n_names != len(features):
        twice = labels.names.tolist()[int(np.argmax(labels.counts > 1))]
        raise InvalidInputError(f"`persons` must hold each person once: got {twice!r} twice.")
    return labels.names, features[np.argsort(labels.index)]
