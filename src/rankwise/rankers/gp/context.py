"""Who gave an answer, as codes that a process learns from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import IntArray
from rankwise.core.comparisons.comparison_table import ComparisonTable, Labels
from rankwise.core.errors import InvalidInputError


@final
@dataclass(frozen=True, eq=False)
class AnswerContext:
    """Hold who gave each answer.

    Parameters
    ----------
    judges : (n_judges,) or None
        Their names; None where nobody knows who answered.
    of_pairs, of_ties : (n_pairs,), (n_tied,)
        Who answered, counted from 1; 0 where it is not known.
    """

    judges: NDArray[Any] | None = None
    of_pairs: IntArray | None = None
    of_ties: IntArray | None = None

    @classmethod
    def of_table(cls, table: ComparisonTable) -> Self:
        """Return that of named comparisons."""
        if table.judge is None:
            return cls()
        code = table.judge.index + 1
        return cls(table.judge.names, code[table.decided], code[table.tied])

    @classmethod
    def of_columns(cls, judge: Any, tied_judge: Any, n_pairs: int, n_tied: int) -> Self:
        """Return that of pairs of row numbers and of ties.

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
            listed = [] if values is None else np.asarray(values).tolist()
            if np.ndim(listed) != 1 or len(listed) != n_rows:
                raise InvalidInputError(
                    f"`{name}` must say who gave each of the {n_rows} answers: got "
                    f"{len(listed) if np.ndim(listed) == 1 else np.shape(listed)}."
                )
            columns.extend(listed)
        labels = Labels.of(np.array(columns, dtype=object))
        return cls(labels.names, labels.index[:n_pairs] + 1, labels.index[n_pairs:] + 1)

    def coded_as(self, known: NDArray[Any] | None) -> Self:
        """Return codes for judges known before; all others are unknown ones."""
        if self.judges is None:
            return self
        place = {} if known is None else {name: k + 1 for k, name in enumerate(known.tolist())}
        code = np.array([0] + [place.get(name, 0) for name in self.judges.tolist()])
        of_pairs = None if self.of_pairs is None else code[self.of_pairs]
        of_ties = None if self.of_ties is None else code[self.of_ties]
        return replace(self, judges=known, of_pairs=of_pairs, of_ties=of_ties)


NO_CONTEXT = AnswerContext()


def answer_context(pairs: Any, tied: Any, judge: Any, tied_judge: Any) -> AnswerContext:
    """Return who answered pairs of row numbers, and ties; refuse judges of scores."""
    if pairs is None and (judge is not None or tied_judge is not None):
        raise InvalidInputError(
            "`judge` must come with comparisons (`pairs`): got scores `y`, or nothing."
        )
    if judge is None and tied_judge is None:
        return NO_CONTEXT
    return AnswerContext.of_columns(judge, tied_judge, len(pairs), 0 if tied is None else len(tied))


def with_judges(table: ComparisonTable, judge: Any) -> ComparisonTable:
    """Add a column of judges to named comparisons, which must have none.

    Parameters
    ----------
    table : ComparisonTable
    judge : (n_rows,) or None
    """
    if judge is None:
        return table
    if table.judge is not None:
        raise InvalidInputError(
            "Judges must be given once: the comparisons have a column of them, and `judge` was "
            "given too. Leave one of them out."
        )
    labels = Labels.of(np.array(np.asarray(judge).tolist(), dtype=object))
    if len(labels.index) != table.n_rows:
        raise InvalidInputError(
            f"`judge` must say who gave each of the {table.n_rows} answers: got "
            f"{len(labels.index)}."
        )
    return replace(table, judge=labels)
