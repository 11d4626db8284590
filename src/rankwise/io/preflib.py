"""Rankings in the formats of PrefLib: .soc and .soi are strict, .toc and .toi have ties."""

import os
import re
from dataclasses import replace

import numpy as np

from rankwise.core.comparisons.choice_table import ChoiceTable
from rankwise.core.errors import DataFileError
from rankwise.io.files import format_suffix, open_read
from rankwise.io.numbers import bad_line

PREFLIB_SUFFIXES = {".soc", ".soi", ".toc", ".toi"}

_NAME = re.compile(r"#\s*ALTERNATIVE NAME\s+(\d+)\s*:\s*(.*)", re.IGNORECASE)
_ORDER = re.compile(r"(\d+)\s*:\s*(.+)")
_PLACE = re.compile(r"\{([^{}]*)\}|([^,{}]+)")


def is_preflib(source: object) -> bool:
    """Tell whether a source is a file in a format of PrefLib."""
    is_path = isinstance(source, str | os.PathLike)
    return is_path and format_suffix(source) in PREFLIB_SUFFIXES  # type: ignore[arg-type]


def read_preflib(path: str | os.PathLike[str]) -> ChoiceTable:
    """Read the orders of a file, each with the number of people who gave it.

    An item is chosen before all that come after it. Items that tie are chosen before those after
    them, and nothing is said about their own order.
    """
    names: dict[str, str] = {}
    sets: list[list[str]] = []
    best: list[str] = []
    count: list[float] = []
    judge: list[int] = []
    with open_read(path) as stream:
        for number, line in enumerate(stream, 1):
            text = line.decode("utf-8", "replace").strip()
            named, order = _NAME.fullmatch(text), _ORDER.fullmatch(text)
            if named is not None:
                names[named[1]] = named[2].strip() or named[1]
            elif order is not None:
                for chosen, later in _choices(_places(path, number, order[2])):
                    sets.append([chosen, *later])
                    best.append(chosen)
                    count.append(float(order[1]))
                    judge.append(number)
            elif number == 1 and text.isdigit():
                raise DataFileError(
                    f"{os.fspath(path)}: expected the format that PrefLib has had since 2022, with "
                    "lines such as '# ALTERNATIVE NAME 1: tuna' and '3: 1,2': got the one before. "
                    "Download the file again."
                )
            elif text and not text.startswith("#"):
                raise bad_line(path, number, "a count and an order, such as 3: 1,2,{4,5}", text)
    if not sets:
        raise DataFileError(f"{os.fspath(path)}: expected at least one order of two items.")
    called = [[names.get(one, one) for one in offered] for offered in sets]
    chosen_names = [names.get(one, one) for one in best]
    table = ChoiceTable.from_best(
        called, chosen_names, judge=np.array(judge), weight=np.array(count)
    )
    orders = dict(zip(judge, count, strict=True))
    read = f"orders of PrefLib: {len(orders):,}, given {sum(orders.values()):,g} times in all"
    return replace(table, reading=(read,))


def _places(path: str | os.PathLike[str], number: int, text: str) -> list[list[str]]:
    """Return the items at each place of an order; several in braces tie."""
    found = [
        [item.strip() for item in (tied if tied is not None else single).split(",")]
        for tied, single in (match.groups() for match in _PLACE.finditer(text))
    ]
    items = [item for place in found for item in place]
    if "" in items or len(set(items)) < len(items):
        raise bad_line(path, number, "each item once, as in 3: 1,2,{4,5}", text)
    return found


def _choices(places: list[list[str]]) -> list[tuple[str, list[str]]]:
    """Return each item with those at later places, as far as there are any."""
    later: list[str] = []
    found: list[tuple[str, list[str]]] = []
    for place in reversed(places):
        if later:
            found += [(item, list(later)) for item in place]
        later += place
    return found
