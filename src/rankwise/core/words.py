"""Words of texts, and which columns of a table hold the text of queries and of items."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from rankwise.core.checks import is_missing

Key = TypeVar("Key", bound=Hashable)

LONGEST_WORD = 40
"""Characters of a word that are looked at."""

MANY_TEXTS, MANY_WORDS = 20, 1.5
"""Different cells of a column, and words in a cell, from which it holds text and no categories."""

LEAST_SHARE, MOST_LOOKED_AT = 0.2, 2000
"""Share of rows in which a query must share a word with the text of its item; rows looked at."""

_WORD = re.compile(r"\w+")


def words_of(text: Any) -> list[str]:
    """Return the words of a text in lower case; a blank has none."""
    if is_missing(text):
        return []
    return [word[:LONGEST_WORD] for word in _WORD.findall(str(text).casefold())]


def matching_columns(
    columns: Mapping[Key, Sequence[Any]], ids: Sequence[Any]
) -> tuple[Key, list[Key]] | None:
    """Return the column of the queries' text and those of the items'; None if none match.

    The text of a query is the same in all its rows, and often shares a word with those of items.

    Parameters
    ----------
    columns : mapping to the cells of each column
    ids : (n_items,)
        The query of each row.
    """
    n_queries = len(set(ids))
    texts = [key for key, cells in columns.items() if _is_text(cells)]
    asked = [
        key
        for key, cells in columns.items()
        if len(set(zip(ids, cells, strict=True))) == n_queries and len(set(cells)) > 1
    ]
    if n_queries < 2 or not texts or not asked:
        return None
    step = max(1, len(ids) // MOST_LOOKED_AT)
    words = {
        key: [set(words_of(cell)) for cell in columns[key][::step]] for key in {*texts, *asked}
    }

    def share(query: Key, text: Key) -> float:
        both = list(zip(words[query], words[text], strict=True))
        return sum(not one.isdisjoint(other) for one, other in both) / len(both)

    # the query whose words are found most often
    best = max(
        asked, key=lambda query: max((share(query, t) for t in texts if t != query), default=0.0)
    )
    found = [text for text in texts if text not in asked and share(best, text) >= LEAST_SHARE]
    return (best, found) if found else None


def _is_text(cells: Sequence[Any]) -> bool:
    """Return whether a column holds many different cells of several words."""
    different = {cell for cell in cells if not is_missing(cell) and cell}
    if len(different) < MANY_TEXTS or not all(isinstance(cell, str) for cell in different):
        return False
    some = sorted(different)[:: max(1, len(different) // MOST_LOOKED_AT)]
    return sum(len(words_of(cell)) for cell in some) >= MANY_WORDS * len(some)
