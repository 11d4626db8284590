"""Say how a table of comparisons was read: a line for each role, and what is odd about it."""

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import joint_numbers
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.io.comparison_columns import ColumnRoles
from rankwise.io.who_won import MEANINGS

MOST_SHOWN = 4
"""Cells or names that are shown of what there may be many of."""

FEWEST_TWICE, FEWEST_CASES = 20, 14
"""Rows, and different ones among them, from which on it is no accident that all stand there twice:
that 14 numbers of rows are all even by chance has a probability below 1e-4."""


def described(
    table: ComparisonTable,
    roles: ColumnRoles,
    words: Mapping[str, int],
    n_left_out: int,
    *,
    skips_bad: bool = False,
) -> list[str]:
    """Return how a table was read.

    Parameters
    ----------
    table : ComparisonTable
    roles : ColumnRoles
        The column of each role.
    words : mapping
        What cells of the result were read as; names of items are not among them.
    n_left_out : int
        Number of rows that do not say who won.
    skips_bad : bool
        Whether rows that compare no two items are among these.
    """
    names = {str(name) for name in table.names.tolist()}
    said = {cell: outcome for cell, outcome in words.items() if cell not in names}
    lines = [f"items: {roles.first} and {roles.second}", _who_won(roles, said, bool(words))]
    lines = lines if roles.said is None else [*roles.said]
    if n_left_out:
        why = "compare an item with itself or nothing, or do not" if skips_bad else "do not"
        lines.append(f"{n_left_out} rows left out, since they {why} say who won")
    lines += [
        f"{role}: {column}"
        for role in ("judge", "date", "margin", "question", "category")
        for column in [getattr(roles, role)]
        if column is not None and getattr(table, role) is not None
    ]
    if table.covariate_names:
        lines.append(f"covariates: {', '.join(table.covariate_names)}")
    if roles.count is not None and table.weight.sum() != table.n_rows:
        lines.append(
            f"each row counts as often as {roles.count} says: {table.weight.sum():,g} in all"
        )
    return lines + alike_names(table.names) + _repeated(table)


def _who_won(roles: ColumnRoles, words: Mapping[str, int], has_words: bool) -> str:
    """Say where the winner stands, and what its cells were read as."""
    if roles.points is not None:
        return f"winner: more points, {roles.points[0]} or {roles.points[1]}"
    if roles.tallies is not None:
        return f"winner: how often each won, by {', '.join(roles.tallies)}"
    if roles.flags is not None:
        return f"winner: {', '.join(roles.flags)}"
    if roles.result is None:
        ties = "" if roles.tied is None else f", ties by {roles.tied}"
        return f"winner: {roles.first}{ties}"
    meaning = {outcome: word for word, outcome in MEANINGS.items()}
    shown = [
        f"{cell!r} = {meaning[outcome]}" for cell, outcome in words.items() if outcome in meaning
    ]
    more = ", ..." if len(shown) > MOST_SHOWN else ""
    said = ", ".join(shown[:MOST_SHOWN]) + more
    if not said:
        said = "names of items" if has_words else "numbers"
    return f"winner: {roles.result} ({said})"


def alike_names(given: NDArray[Any]) -> list[str]:
    """Count names that differ only in case, spaces or the form of their letters."""
    if given.dtype.kind not in "UO":
        return []
    written = [str(name) for name in given.tolist()]
    # all names at once, one a line
    lines = "\n".join(written)
    if lines.count("\n") >= len(written):
        lines = "\n".join(name.replace("\n", " ") for name in written)
    text = unicodedata.normalize("NFKC", lines).casefold()
    plain = [" ".join(word.split()) for word in text.split("\n")]
    if len(set(plain)) == len(plain):
        return []
    spelt: dict[str, list[str]] = defaultdict(list)
    for word, name in zip(plain, written, strict=True):
        spelt[word].append(name)
    alike = [names for names in spelt.values() if len(names) > 1]
    shown = "; ".join(" and ".join(map(repr, names)) for names in alike[:MOST_SHOWN])
    number = sum(map(len, alike))
    return [f"{number} names differ only in case, spaces or form, and are different items: {shown}"]


def _repeated(table: ComparisonTable) -> list[str]:
    """Count rows that repeat others, and questions asked in both orders.

    Without a judge and a question, or a date, rows that are alike are usual, but not that all are.
    """
    labels = [one for one in (table.judge, table.question) if one is not None]
    if not labels or (table.question is None and table.date is None):
        return _all_twice(table)
    low, high = np.minimum(table.first, table.second), np.maximum(table.first, table.second)
    columns = [low, high, *(one.index for one in labels)]
    if table.date is not None:
        columns.append(np.unique(table.date, return_inverse=True)[1])
    # each step tells more rows apart: by what was asked, by its order, by the answer
    asked = joint_numbers(*columns)
    in_orders = joint_numbers(asked, table.first > table.second)
    exact = joint_numbers(in_orders, table.outcome + 1)
    n_asked, n_in_orders, n_different = (
        int(number.max()) + 1 for number in (asked, in_orders, exact)
    )
    n_both, n_exact = n_in_orders - n_asked, table.n_rows - n_different
    lines = []
    if n_exact:
        lines.append(
            f"rows that repeat others to the letter: {n_exact}, which count as answers of their "
            "own: remove them if they were recorded twice"
        )
    if n_both:
        lines.append(
            f"{n_both} questions were asked in both orders: their answers are not independent, see "
            "the audit"
        )
    return lines


def _all_twice(table: ComparisonTable) -> list[str]:
    """Say if every row stands in the table twice: as seen by both sides, or to the letter."""
    if table.n_rows < FEWEST_TWICE:
        return []
    # half of the rows are then swapped, or each item stands first an even number of times
    is_swapped = table.first > table.second
    if 2 * np.count_nonzero(is_swapped) != table.n_rows and (np.bincount(table.first) % 2).any():
        return []
    low, high = np.minimum(table.first, table.second), np.maximum(table.first, table.second)
    columns = [low, high, np.where(is_swapped, -table.outcome, table.outcome) + 1]
    if table.date is not None:
        columns.append(np.unique(table.date, return_inverse=True)[1])
    for role in (table.judge, table.question):
        columns += [] if role is None else [role.index]
    case = joint_numbers(*columns)
    sides = [
        np.bincount(case[rows], minlength=case.max() + 1) for rows in (~is_swapped, is_swapped)
    ]
    if len(sides[0]) < FEWEST_CASES:
        return []
    remedy = "their answers count twice, and intervals are too short by a factor of 1.4: remove one"
    if np.array_equal(sides[0], sides[1]):
        return [f"every row stands in the table twice, as seen by both sides: {remedy} of each two"]
    if all((side % 2 == 0).all() for side in sides):
        return [f"every row stands in the table twice, to the letter: {remedy} of each two"]
    return []
