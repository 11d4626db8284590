"""Checks of what comes in from outside, with errors that say what to do."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError


def check_length(name: str, values: NDArray[Any], n_items: int, owner: str = "X") -> None:
    """Refuse ``values`` unless there is one entry per item."""
    if len(values) != n_items:
        raise InvalidInputError(
            f"`{name}` must have one entry per row of `{owner}`: "
            f"{owner} has {n_items} rows, {name} has {len(values)}."
        )


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Refuse NaN and infinity, naming the first row that holds one."""
    finite = np.isfinite(values)
    if finite.all():
        return
    row = int(np.argmin(finite.reshape(len(values), -1).all(axis=1)))
    raise InvalidInputError(
        f"`{name}` must be finite: row {row} holds NaN or infinity. Fill in or leave out such rows."
    )


def check_scores(y: ArrayLike, name: str = "y") -> FloatArray:
    """Return scores as floats of shape (n_items,) or (n_items, n_outputs)."""
    try:
        values = np.asarray(y, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"`{name}` must hold numbers, a score for each item: {error}."
        ) from error
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] == 0):
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,) or (n_items, n_outputs): got {values.shape}."
        )
    check_finite(name, values)
    return values


def check_weight(name: str, weight: ArrayLike | None, length: int, of: str) -> FloatArray:
    """Return non-negative finite weights, ones when none are given."""
    if weight is None:
        return np.ones(length)
    values = np.asarray(weight, dtype=float)
    if values.ndim == 0:
        values = np.full(length, float(values))
    if values.shape != (length,):
        raise InvalidInputError(
            f"`{name}` must have one entry per {of}: there are {length}, got shape {values.shape}."
        )
    if not np.isfinite(values).all() or (values < 0).any():
        row = int(np.argmax(~np.isfinite(values) | (values < 0)))
        raise InvalidInputError(
            f"`{name}` must be finite and not negative: entry {row} is {values[row]}."
        )
    if length and not values.any():
        raise InvalidInputError(f"`{name}` must not be zero everywhere: every weight is 0.")
    return values


def check_pairs(pairs: ArrayLike | None, n_items: int | None) -> IntArray:
    """Return comparisons as an integer array (n_pairs, 2), winner first, checked for bounds."""
    values = np.asarray(pairs)
    if values.ndim != 2 or values.shape[1] != 2 or len(values) == 0:
        raise InvalidInputError(
            "`pairs` must have shape (n_pairs, 2) with at least one row, the winner's index first: "
            f"got shape {values.shape}."
        )
    if values.dtype.kind not in "iu":
        raise InvalidInputError(
            f"`pairs` must hold integer positions of rows of `X`: got dtype {values.dtype}."
        )
    limit = int(values.max()) + 1 if n_items is None else n_items
    outside = ((values < 0) | (values >= limit)).any(axis=1)
    if outside.any():
        bad = int(np.argmax(outside))
        raise InvalidInputError(
            f"`pairs` must name rows 0 to {limit - 1}: pair {bad} is {tuple(values[bad].tolist())}."
        )
    same = values[:, 0] == values[:, 1]
    if same.any():
        bad = int(np.argmax(same))
        raise InvalidInputError(
            f"`pairs` must compare two different items: pair {bad} compares item "
            f"{int(values[bad, 0])} with itself. Leave such pairs out."
        )
    return values.astype(np.intp, copy=False)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the named choices."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise InvalidInputError(f"`{name}` must be one of {known}: got {value!r}.")


def check_positive(name: str, value: object, remedy: str) -> float:
    """Return a finite number above zero."""
    number = value if isinstance(value, int | float | np.number) else float("nan")
    if isinstance(value, bool) or not np.isfinite(number) or number <= 0:
        raise InvalidInputError(
            f"`{name}` must be a finite number above 0: got {value!r}. {remedy}"
        )
    return float(number)


def check_count(name: str, value: object) -> int:
    """Return a whole number above 0."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value) < 1:  # type: ignore[call-overload]
        raise InvalidInputError(f"`{name}` must be a whole number above 0: got {value!r}.")
    return int(value)  # type: ignore[call-overload]
