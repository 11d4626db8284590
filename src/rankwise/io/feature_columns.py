"""Which columns of a table are features, and how their cells are read: one rule for all tables.

Cells are numbers already, or words as they are written. Words are plain numbers, or numbers in one
of the forms below, or categories; columns of names, or of text that differs from row to row, are
left out. Everything but plain numbers is told to the user and remembered with the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.comparisons.dates import as_days, order_of_dates
from rankwise.core.display import brief, listed
from rankwise.core.errors import InvalidInputError, RankwiseError
from rankwise.core.words import matching_columns
from rankwise.io.data import ColumnNames, ItemColumns, is_date

Cells: TypeAlias = FloatArray | list[str]
"""The cells of a column: numbers, NaN for blanks, or words, empty for blanks."""
Feature: TypeAlias = FloatArray | list[str | None]
"""A feature: numbers, or categories with None for blanks."""

BLANKS = {"", "na", "n/a", "#n/a", "nan", "null", "none", "?"}
"""What stands for a blank among numbers, in any case."""

TRUTH = "true or false"
POINTS, COMMAS = "decimal points", "decimal commas"
DATES = "days since 1970"
LARGEST_DAY = 700_000.0
"""Dates so many days before or after 1970 are shown as numbers."""
LARGEST_WRITTEN = 1e15
"""Numbers up to this one are shown without an exponent."""

_UNIT = "[$€£¥₹₩]|USD|EUR|GBP|CHF|JPY"
_AMOUNT = re.compile(
    rf"(?P<sign>[-+]?)\s*(?P<before>{_UNIT})?\s*(?P<minus>[-+]?)"
    rf"(?P<digits>[\d.,'’ \u00a0\u202f]*\d)\s*(?P<after>{_UNIT}|%)?"
)
_THOUSANDS = "[ '’\u00a0\u202f{}]"
_DIGITS = {
    POINTS: re.compile(rf"([1-9]\d{{0,2}}({_THOUSANDS.format(',')}\d{{3}})+|\d*)(\.\d+)?"),
    COMMAS: re.compile(rf"([1-9]\d{{0,2}}({_THOUSANDS.format('.')}\d{{3}})+|\d*)(,\d+)?"),
}


@final
@dataclass(frozen=True, eq=False)
class FeatureRules:
    """How the features of a table are read.

    Parameters
    ----------
    names : ColumnNames
        The columns of the table.
    has_qid : bool
        Whether a column holds the queries.
    text : tuple of str
        The columns that are known to hold categories.
    forms : mapping of str to str
        The columns whose numbers are known to be written in a form, and the form.
    finds : bool
        Whether other categories and forms are found; if not, other cells are plain numbers.
    are_named : bool
        Whether the features were named; if so, none is left out.
    """

    names: ColumnNames
    has_qid: bool
    text: tuple[str, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    finds: bool = True
    are_named: bool = False

    def read(
        self,
        columns: ItemColumns,
        cells: Iterable[Cells],
        ids: Sequence[Any] | None = None,
    ) -> tuple[dict[str, Feature], ItemColumns]:
        """Return the features that are kept, and the columns with what was found of them.

        With the ``ids`` of the queries, texts of items are kept if they match those of queries.
        """
        kept: dict[str, Feature] = {}
        text, forms, left_out = [], [], []
        for name, given in zip(columns.features, cells, strict=True):
            values, form, reason = self._feature(name, given)
            if reason:
                left_out.append((name, reason))
            elif form:
                forms.append((name, form))
            if not reason or isinstance(values, list):
                kept[name] = values
            if isinstance(values, list):
                text.append(name)
        # texts that match those of queries, which may be their ids
        texts: tuple[str, ...] = ()
        if ids is not None and self.finds:
            texts = _matching_texts(kept, columns.qid, ids)
        left_out = [(name, reason) for name, reason in left_out if name not in texts]
        gone = {name for name, _ in left_out}
        if texts and texts[0] not in kept:
            kept[texts[0]] = [str(one) for one in ids or ()]
            text.append(texts[0])
        kept = {name: values for name, values in kept.items() if name not in gone}
        return kept, columns._replace(
            features=list(kept),
            categories=tuple(name for name in text if name not in gone),
            forms=tuple(forms),
            left_out=(*columns.left_out, *left_out),
            texts=texts,
        )

    def _feature(self, name: str, cells: Cells) -> tuple[Feature, str, str]:
        """Return a feature, the form of its numbers, and why it is left out."""
        if name in self.text:
            return _categories(cells), "", ""
        form = self.forms.get(name, "")
        values = cells if isinstance(cells, np.ndarray) else numbers_in_form(cells, form)
        if values is None and self.finds and not form:
            form = form_of(list(cells))
            values = numbers_in_form(list(cells), form) if form else None
        if values is not None:
            is_blank = not self.are_named and bool(np.isnan(values).all())
            return values, form, "blank everywhere" if is_blank else ""
        words = list(cells)
        if not self.finds or _mixes_forms(words):
            raise self._refused(name, words)
        if self.are_named:
            return _categories(words), "", ""
        return _categories(words), "", self._why_left_out(name, words)

    def _why_left_out(self, name: str, words: list[str]) -> str:
        reason = self.names.why_no_category(name, words, has_qid=self.has_qid)
        if reason is None and _are_dates(words):
            return "dates that can be read in several ways: write them as 2026-11-16"
        return reason or ""

    def _refused(self, name: str, words: list[str]) -> RankwiseError:
        """Return the error about text where numbers were learned from, or numbers of two forms."""
        form = self.forms.get(name, "")
        if self.finds and not form:
            form = next(form for word in words if (form := form_of([word])))
            expected = f"numbers of one form, such as {form}"
        else:
            expected = f"a number{f' ({form})' if form else ''}, as was learned from"
        row = next(at for at, word in enumerate(words) if numbers_in_form([word], form) is None)
        return self.names.error(
            f"{self.names.owner}, row {row + 1}, column {name!r}: expected {expected}, got "
            f"{words[row]!r}."
        )


def _matching_texts(
    kept: Mapping[str, Feature], qid: str | None, ids: Sequence[Any]
) -> tuple[str, ...]:
    """Return the columns of text that match, that of the queries first."""
    words: dict[str, Sequence[Any]] = {k: v for k, v in kept.items() if isinstance(v, list)}
    if qid is not None and qid not in kept and all(isinstance(one, str) for one in ids):
        words[qid] = ids
    found = matching_columns(words, ids)
    return () if found is None else (found[0], *found[1])


def _categories(cells: Cells) -> list[str | None]:
    """Return words, of numbers too, with None for blanks; a whole number has no fraction."""
    if isinstance(cells, list):
        return [word or None for word in cells]
    return [
        None if value != value else str(int(value)) if value.is_integer() else repr(value)
        for value in cells.tolist()
    ]


def plain_numbers(words: list[str]) -> FloatArray | None:
    """Return cells as numbers, NaN for blanks; None if a cell is neither."""
    known = [word if word.lower() not in BLANKS else "nan" for word in words]
    try:
        values = np.array(known, dtype=np.str_).astype(float)
    except ValueError:
        return None
    plain = int(np.count_nonzero(np.isnan(values))) == known.count("nan")
    if np.isinf(values).any() or not plain or any("_" in word for word in known):
        return None
    return values


def form_of(words: list[str]) -> str:
    """Return the form that all words have that are no blanks; empty if there is none."""
    known = [word.strip() for word in words if word.strip().lower() not in BLANKS]
    if not known:
        return ""
    if {word.lower() for word in known} <= {"true", "false"}:
        return TRUTH
    amounts = [_AMOUNT.fullmatch(word) for word in known]
    units = {unit for one in amounts if one for unit in (one["before"], one["after"]) if unit}
    if all(amounts) and len(units) <= 1:
        digits = [one["digits"] for one in amounts if one]
        # 1,234 in every row: thousands of a currency, else three decimals; 999 among them decides
        is_open = not units and all(word.count(",") == 1 for word in digits)
        for kind in (COMMAS, POINTS) if is_open else (POINTS, COMMAS):
            if all(map(_DIGITS[kind].fullmatch, digits)):
                return ", ".join([kind, *units])
    if all(map(is_date, known)):
        try:
            as_days(known, len(known))
        except InvalidInputError:
            return ""
        return ", ".join([DATES, *filter(None, [order_of_dates(known)])])
    return ""


def numbers_in_form(words: list[str], form: str) -> FloatArray | None:
    """Return words of a form, or plain numbers, as numbers; NaN for blanks, None if one is neither.

    Parameters
    ----------
    words : list of str
    form : str
        What `form_of` returned for the column; empty for plain numbers.
    """
    kind, _, rest = form.partition(", ")
    if kind != DATES and (values := plain_numbers(words)) is not None:
        return values
    if not form:
        return None
    found = np.full(len(words), np.nan)
    rows = [row for row, word in enumerate(words) if word.strip().lower() not in BLANKS]
    known = [words[row].strip() for row in rows]
    if kind == DATES:
        if not all(map(is_date, known)):
            return None
        try:
            found[rows] = as_days(known, len(known), order=rest) if known else []
        except InvalidInputError:
            return None
        return found
    numbers = [_number(word, kind, rest) for word in known]
    if None in numbers:
        return None
    found[rows] = numbers
    return found


def _number(word: str, kind: str, unit: str) -> float | None:
    """Return a number in the form of its column; None if it has another one."""
    if kind == TRUTH:
        return {"true": 1.0, "false": 0.0}.get(word.lower())
    amount = _AMOUNT.fullmatch(word)
    if amount is None or not _DIGITS[kind].fullmatch(amount["digits"]):
        return None
    if {amount["before"], amount["after"]} - {None, unit}:
        return None
    point, thousands = (".", ",") if kind == POINTS else (",", ".")
    whole, _, fraction = amount["digits"].partition(point)
    whole = re.sub(_THOUSANDS.format(thousands), "", whole)
    is_negative = (amount["sign"] + amount["minus"]).count("-") == 1
    return (-1.0 if is_negative else 1.0) * float(f"{whole or 0}.{fraction or 0}")


def word_in_form(number: float, form: str, *, is_mean: bool = False) -> str:
    """Return a number as a cell of its column has it, for people to read.

    Parameters
    ----------
    number : float
        Of the column, or a mean of it.
    form : str
        What `form_of` returned for the column; empty for plain numbers.
    is_mean : bool
        Whether it is a mean of several, of which the day is enough.
    """
    kind, _, unit = form.partition(", ")
    if kind == TRUTH and number in (0.0, 1.0):
        return "true" if number else "false"
    if kind == DATES and abs(number) < LARGEST_DAY:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(number * 86400.0))
        is_day = float(number).is_integer() or is_mean
        return f"{moment:%Y-%m-%d}" if is_day else f"{moment:%Y-%m-%d %H:%M}"
    text = brief(number)
    if "e+" in text and abs(number) < LARGEST_WRITTEN:
        text = f"{number:.0f}"
    if kind not in (POINTS, COMMAS) or not unit:
        return text
    if unit == "%":
        return f"{text}%"
    return f"{text} {unit}" if unit.isalpha() else f"{unit}{text}"


def _mixes_forms(words: list[str]) -> bool:
    """Return whether every word is a number, but in different forms."""
    known = {word for word in words if word.strip().lower() not in BLANKS}
    kinds = (POINTS, COMMAS)
    return bool(known) and all(
        numbers_in_form([word], "") is not None
        or any(_number(word.strip(), kind, "") is not None for kind in kinds)
        for word in known
    )


def _are_dates(words: list[str]) -> bool:
    known = [word.strip() for word in words if word.strip().lower() not in BLANKS]
    return bool(known) and all(map(is_date, known))


# What is said of the columns, and kept with a model


def described(columns: ItemColumns, asked: Collection[str] = ()) -> list[str]:
    """Return how columns are used, without the roles that the user has asked for."""
    roles = (("scores", columns.y), ("queries", columns.qid), ("items", columns.item))
    found = [f"{what} from {name!r}" for what, name in roles if name and what not in asked]
    if columns.features and "features" not in asked:
        found.append(f"features from {listed(columns.features)}")
    if categories := [name for name in columns.categories if name not in columns.texts]:
        found.append(f"categories in {listed(categories)}")
    if columns.texts:
        query, *texts = columns.texts
        found.append(f"text in {listed(texts)}, matched with {query}")
    found += [f"{name} as numbers ({form})" for name, form in columns.forms]
    if columns.left_out:
        shown = ", ".join(f"{name} ({reason})" for name, reason in columns.left_out)
        found.append(f"left out {shown}")
    return found


def kept_columns(columns: ItemColumns) -> dict[str, list[str]]:
    """Return what a model keeps of the columns it was fitted to."""
    roles = ("y", columns.y), ("qid", columns.qid), ("item", columns.item)
    pairs = (("formed", "forms", columns.forms), ("left_out", "reasons", columns.left_out))
    return {
        **{role: [name] for role, name in roles if name is not None},
        **({} if columns.positive is None else {"positive": [columns.positive]}),
        "categories": list(columns.categories),
        **({"texts": list(columns.texts)} if columns.texts else {}),
        **({"blanks": ["0"]} if columns.blanks_as_zero else {}),
        **{
            key: list(part)
            for first, second, found in pairs
            if found
            for key, part in zip((first, second), zip(*found, strict=True), strict=True)
        },
    }


def columns_kept(kept: Mapping[str, list[str]], features: Iterable[str]) -> ItemColumns:
    """Return the columns of which a model keeps this, and the names of its features."""
    y, qid, item, positive = (
        kept[role][0] if role in kept else None for role in ("y", "qid", "item", "positive")
    )
    return ItemColumns(
        list(map(str, features)),
        y,
        qid,
        item,
        categories=tuple(kept.get("categories", ())),
        left_out=tuple(zip(kept.get("left_out", ()), kept.get("reasons", ()), strict=True)),
        positive=positive,
        forms=tuple(zip(kept.get("formed", ()), kept.get("forms", ()), strict=True)),
        texts=tuple(kept.get("texts", ())),
        blanks_as_zero="blanks" in kept,
    )
