"""The parameters of measures: their types, how values are checked, how they are printed.

A ``Literal`` type lists the choices of a parameter. An ``Annotated`` type carries a rule that
refuses a value or returns it in its one form.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from rankwise.core.errors import InvalidInputError

ParameterRule: TypeAlias = Callable[[str, Any], Any]
"""Takes the name and the value of a parameter; returns the value in its one form or refuses it."""

LARGEST = int(np.finfo(float).max)
LARGEST_CUTOFF = int(np.iinfo(np.int64).max)

LONGEST_NAME = 100
"""Characters of a name that is compared with known ones."""


def finite(name: str, value: Any) -> float:
    """Accept any finite number."""
    plain = isinstance(value, int | float | np.integer | np.floating)
    too_large = isinstance(value, int) and abs(value) > LARGEST
    if isinstance(value, bool) or not plain or too_large or not np.isfinite(float(value)):
        raise InvalidInputError(f"`{name}` must be a finite number: got {value!r}.")
    return float(value)


def above_one(name: str, value: Any) -> float:
    """Accept any finite number above 1."""
    if finite(name, value) <= 1:
        raise InvalidInputError(f"`{name}` must be above 1: got {value!r}.")
    return float(value)


def positive_integer(name: str, value: Any) -> int:
    """Accept 1, 2, 3, ..."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not 1 <= value <= LARGEST_CUTOFF:
        raise InvalidInputError(f"`{name}` must be a positive integer: got {value!r}.")
    return int(value)


def optional_cutoff(name: str, value: Any) -> int | None:
    """Accept 1, 2, 3, ... or None, which looks at the whole ranking."""
    return None if value is None else positive_integer(name, value)


def gain_table(name: str, value: Any) -> str | tuple[float, ...]:
    """Accept a named gain, or the gains of the grades 0, 1, 2, ... in a sequence."""
    if isinstance(value, str):
        return one_of("linear", "exponential")(name, value)
    if not isinstance(value, Iterable):
        raise InvalidInputError(
            f"`{name}` must be 'linear', 'exponential' or a tuple of the gains of the grades "
            f"0, 1, 2, ...: got {value!r}."
        )
    gains = tuple(finite(name, entry) for entry in value)
    if not gains or gains[0] < 0 or any(after < before for before, after in pairwise(gains)):
        raise InvalidInputError(
            f"`{name}` must not be negative and must not fall from one grade to the next: "
            f"got {value!r}."
        )
    return gains


def discount_table(name: str, value: Any) -> tuple[float, ...]:
    """Accept a sequence of numbers of 0 or more that never rise, the first above 0."""
    entries = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    discounts = tuple(finite(name, entry) for entry in entries)
    rises = any(after > before for before, after in pairwise(discounts))
    if not discounts or discounts[0] <= 0 or discounts[-1] < 0 or rises:
        raise InvalidInputError(
            f"`{name}` must be a tuple of numbers, one for each position from the first on, which "
            f"must not rise nor be negative; the first must be above 0: got {value!r}."
        )
    return discounts


def one_of(*choices: str) -> Callable[[str, Any], str]:
    """Accept one of the named choices."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise InvalidInputError(
                f"`{name}` must be one of {listed(choices)}: got {value!r}.{hint(value, choices)}"
            )
        return value

    return check


TieRule: TypeAlias = Literal["average", "input", "reverse", "best", "worst"]
"""How items with the same score are ordered: averaged over all orders, as the rows came, the last
row first, or such that the measure is as high or as low as possible."""

Empty: TypeAlias = Literal["skip", "zero", "one"]
"""What a query with an undefined value counts: nothing, 0 or 1."""

Gain: TypeAlias = Annotated[Literal["linear", "exponential"] | tuple[float, ...], gain_table]
"""The gain of an item: its grade y, 2^y - 1, or an entry of a table."""

Discounts: TypeAlias = Annotated[tuple[float, ...], discount_table]
"""The discounts of the positions, from the first on."""

Cutoff: TypeAlias = Annotated[int | None, optional_cutoff]
"""Number of items a measure looks at, from the top; None for all."""

Number: TypeAlias = Annotated[float, finite]
NumberAboveOne: TypeAlias = Annotated[float, above_one]


@cache
def rules(measure: type) -> dict[str, ParameterRule]:
    """Return the rule of each parameter of a measure, a dataclass."""
    types = get_type_hints(measure, include_extras=True)
    return {entry.name: _rule(types[entry.name]) for entry in fields(measure)}


def _rule(annotation: Any) -> ParameterRule:
    if get_origin(annotation) is Literal:
        return one_of(*get_args(annotation))
    rule: ParameterRule = annotation.__metadata__[0]
    return rule


def shown(value: Any) -> str:
    """Print a parameter so that it reads well and parses back to the same value."""
    if isinstance(value, tuple):
        entries = ", ".join(shown(entry) for entry in value)
        return f"({entries},)" if len(value) == 1 else f"({entries})"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def listed(names: Iterable[str]) -> str:
    """List names for an error message."""
    return ", ".join(repr(name) for name in names)


def hint(value: Any, names: Iterable[str]) -> str:
    """Suggest the closest known name, if one is close."""
    known = {name.lower(): name for name in names}
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        return ""
    close = get_close_matches(str(value).lower(), known, n=1)
    return f" Did you mean {known[close[0]]!r}?" if close else ""
