"""Dates as people write them, in days."""

import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import as_array, check_length, is_blank
from rankwise.core.errors import InvalidInputError

DAY = 86400.0
"""Seconds of a day."""

UNITS = ((1e8, 1.0 / DAY), (1e11, 1e-3 / DAY), (1e14, 1e-6 / DAY), (1e17, 1e-9 / DAY))
"""From which numbers on they are seconds, or a thousandth of these and so on, in days."""

DAY_FIRST, MONTH_FIRST = "day first", "month first"

_YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T,]+(.*))?")
_YEAR_FIRST = re.compile(r"(\d{4})[./](\d{1,2})[./](\d{1,2})(?:[ T,]+(.*))?")


def as_days(date: Any, n_rows: int, *, order: str = "") -> FloatArray:
    """Return days since 1970 of dates, one per row.

    Dates may be written as 2026-11-16, 16.11.2026, 2026/11/16 or 20261116, with or without a time.
    11/16/2026 and 16/11/2026 are read if some row shows which number is the month. Numbers are
    days; from a hundred million they are seconds since 1970, or milliseconds, and so on.

    Parameters
    ----------
    date : (n_rows,)
    n_rows : int
    order : str
        What `order_of_dates` said of other dates of the column; by default these dates decide.
    """
    values = as_array("date", date)
    check_length("date", values, n_rows, "the table")
    if values.ndim != 1:
        raise InvalidInputError(
            f"`date` must hold one date for each row: got shape {values.shape}."
        )
    if values.dtype.kind in "OUST":
        values = _read_words(values, order)
    if values.dtype.kind in "iuf":
        return _days_of_numbers(values.astype(np.float64))
    return _days_of_times(_as_times(values))


def order_of_dates(words: list[str]) -> str:
    """Return whether dates that end in the year begin with the day; empty if they are others."""
    if not words or not _YEAR_LAST.fullmatch(words[0].strip()):
        return ""
    return DAY_FIRST if _is_day_first(words) else MONTH_FIRST


def _read_words(values: NDArray[Any], order: str) -> NDArray[Any]:
    """Return numbers, times, or words that spell times as 2026-11-16."""
    words = values.tolist()
    blank = [row for row, word in enumerate(words) if is_blank(word)]
    if blank:
        raise InvalidInputError(f"`date` must hold a date in every row: row {blank[0]} has none.")
    if not all(isinstance(word, str) for word in words):
        return values
    if len(words) and len(words[0].strip()) > 4:  # four digits are a year
        try:
            return values.astype(np.float64)
        except ValueError:
            pass
    if _YEAR_FIRST.fullmatch(words[0].strip()):
        return np.array([_spelt(_YEAR_FIRST, word, (1, 2, 3, 4)) for word in words])
    if not _YEAR_LAST.fullmatch(words[0].strip()):
        return np.array([word.strip() for word in words])
    order = order or order_of_dates(words)
    places = (4, 3, 1, 5) if order == DAY_FIRST else (4, 1, 3, 5)
    return np.array([_spelt(_YEAR_LAST, word, places) for word in words])


def _is_day_first(words: list[str]) -> bool:
    """Return whether the day comes before the month; refuse what does not show it."""
    found = [match for word in words if (match := _YEAR_LAST.fullmatch(word.strip()))]
    if found[0][2] == ".":
        return True
    one, other = (max(int(match[place]) for match in found) for place in (1, 3))
    if one <= 12 and other <= 12:
        raise InvalidInputError(
            f"`date` must show which number is the month: {words[0]!r} and all other rows can be "
            "read in two ways. Write dates as 2026-11-16."
        )
    return one > 12


def _spelt(pattern: re.Pattern[str], word: str, places: tuple[int, ...]) -> str:
    """Return a date with the parts in these places as 2026-11-16, and its time."""
    match = pattern.fullmatch(word.strip())
    if match is None:
        return word
    year, month, day, time = (match[place] for place in places)
    return f"{year}-{int(month):02}-{int(day):02}" + (f"T{time}" if time else "")


def _as_times(values: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return times to the second, in coordinated universal time where a zone is given."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="no explicit representation of timezones")
            return np.asarray(values, dtype="datetime64[s]")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"`date` must hold dates such as 2026-11-16, or numbers of days: {error}."
        ) from error


def _days_of_times(times: NDArray[np.datetime64]) -> FloatArray:
    if np.isnat(times).any():
        row = int(np.argmax(np.isnat(times)))
        raise InvalidInputError(f"`date` must hold a date in every row: row {row} has none.")
    return times.astype(np.float64) / DAY


def _days_of_numbers(values: FloatArray) -> FloatArray:
    """Read 20261116 as a date, large numbers as seconds or parts of them, and others as days."""
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InvalidInputError(f"`date` must be finite: row {row} holds {values[row]}.")
    largest = np.abs(values).max(initial=0.0)
    if values.min(initial=np.inf) > 1e7 and largest < UNITS[0][0]:
        words = [f"{int(n):08}" for n in values.tolist()]
        return _days_of_times(_as_times(np.array([f"{w[:4]}-{w[4:6]}-{w[6:]}" for w in words])))
    factor = next((share for start, share in reversed(UNITS) if largest >= start), 1.0)
    return np.asarray(factor * values)
