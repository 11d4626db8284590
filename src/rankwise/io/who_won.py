"""Who won: what the cells of a column say about two items, in words, names, numbers or codes."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import is_missing
from rankwise.core.comparisons.column import Column
from rankwise.core.comparisons.comparison_table import FIRST_WON, SECOND_WON, TIED
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.comparison_columns import OF_FIRST, SIDES, usual_spelling, words_of
from rankwise.io.data import plain_name

FIRST_WORDS = frozenset(["home", "a", "first", "left", "modela", "itema", "playera", "teama"])
SECOND_WORDS = frozenset(["away", "b", "second", "right", "modelb", "itemb", "playerb", "teamb"])
FIRST_WORDS, SECOND_WORDS = FIRST_WORDS | {"white", "red"}, SECOND_WORDS | {"black", "blue"}
SIDE_WORDS = {
    **dict.fromkeys(sorted(FIRST_WORDS), FIRST_WON),
    **dict.fromkeys(sorted(SECOND_WORDS), SECOND_WON),
}
TIE_WORDS = frozenset(
    ["tie", "tied", "draw", "d", "equal", "same", "both", "bothbad", "neither", "none", "="]
)
TIE_WORDS |= {"nopreference", "nodifference", "aboutthesame", "undecided", "unsure"}
"""What a column that says who won may hold, spelt by `plain_name`, besides names of items and of
their columns."""

NO_ANSWER = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "*"])
"""What stands for no answer in such a column."""

UNKNOWN, LEFT_OUT, MIXED = 8, 9, 99
"""What a cell says that is not understood, that says nothing, or that has several meanings."""

NAMED = np.array([UNKNOWN, FIRST_WON, SECOND_WON])
"""What a cell says by naming neither item, the first or the second."""

MEANINGS = {"a": FIRST_WON, "b": SECOND_WON, "tie": TIED, "skip": LEFT_OUT}
"""What the caller's codes can mean."""

CODINGS = (
    {"1": FIRST_WON, "0.5": TIED, "0": SECOND_WON},  # the points of the first
    {"1": FIRST_WON, "0": TIED, "-1": SECOND_WON},  # the sign of its lead
    {"1": FIRST_WON, "2": SECOND_WON, "0": TIED},  # the number of the winner, from 1
    {"0": FIRST_WON, "1": SECOND_WON, "2": TIED},  # the number of the winner, from 0
)
"""What numbers mean in the files that people have."""

FROM_FIRST = {
    **dict.fromkeys(("w", "win", "wins", "won", "victory"), FIRST_WON),
    **dict.fromkeys(("l", "loss", "lose", "loses", "lost", "defeat"), SECOND_WON),
}
"""What the result of a game is to the first; T is a tie beside these."""

FROM_FIRST_OR_T = {**FROM_FIRST, "t": TIED}

ANNOTATED = frozenset(
    ["preference", "overallpreference", "label", "choice", "vote", "answer", "judgment", "verdict"]
) | {"judgement", "preferred"}
"""Columns of annotators, in which -1 may be on the side of the first."""

HALVES = {"½": "0.5", "1/2": "0.5"}

TRUTH = {"true": FIRST_WON, "false": SECOND_WON}
HOME_OR_AWAY = {"h": FIRST_WON, "d": TIED, "a": SECOND_WON}
"""Letters in which A is not the first."""

ALL_WORDS = {*SIDE_WORDS, *TIE_WORDS, *NO_ANSWER, *FROM_FIRST_OR_T, *HOME_OR_AWAY}
"""What is a name only where it is written exactly as the name of an item."""

_IN_BRACKETS = re.compile(r"\[\[\s*([ABC]|[AB]\s*[<>=]{1,2}\s*[AB])\s*\]\]", re.IGNORECASE)
"""The same inside a text, such as "My final verdict is: [[A>>B]]"."""

_VERDICT = re.compile(r"\[\[([ABC])\]\]|([AB])\s*([<>=]{1,2})\s*([AB])", re.IGNORECASE)
"""Verdicts of judges that are models: [[A]], [[C]] for a tie, A>B, B>>A, A=B."""

_HOW_MUCH = re.compile(
    r"\b(?P<much>much|far|significantly|strongly|clearly)\b|\b(?:slightly|somewhat|a bit)\b",
    re.IGNORECASE,
)
_SIDE = re.compile(
    r"\b(?:(?:model|response|answer|option|item|assistant|system|output)[\s_]*)?(?P<side>[ab12])\b",
    re.IGNORECASE,
)
_IN_WORDS = re.compile(r"\b(?:better|prefer|preferred|wins|worse)\b", re.IGNORECASE)
"""Verdicts in words: "A slightly better", "Response B is much better", "slightly prefer A"."""

_FINAL_SCORE = re.compile(r"(\d+(?:\.5)?|1/2|½)\s*[-–:]\s*(\d+(?:\.5)?|1/2|½)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")


def read_codes(codes: Mapping[Any, str] | str | None) -> dict[str, int]:
    """Return the outcome of every cell that the caller explains."""
    if codes is None:
        return {}
    if isinstance(codes, str):
        said = [part.rpartition("=")[::2] for part in codes.split(",")]
    else:
        said = list(codes.items()) if isinstance(codes, Mapping) else [("", "")]
    meant = {_spelt(cell): MEANINGS.get(str(word).strip().lower()) for cell, word in said}
    found = {cell: outcome for cell, outcome in meant.items() if outcome is not None}
    if len(found) < len(said):
        raise InvalidInputError(
            "`codes` must say once for each cell whether it means a, b, tie or skip, such as "
            f"'0=a,1=b,2=tie': got {codes!r}."
        )
    return found


@final
@dataclass(frozen=True)
class ResultColumn:
    """Tell who won from the cells of a column.

    The caller's codes come first. Names come next, if every cell names one of the two items or is a
    word for a tie; then words and numbers, by what the columns are called. Cells that can be read
    in two ways are refused.
    """

    name: str
    first: str
    second: str
    codes: Mapping[str, int]
    remedy: str | None = None

    def outcomes(
        self, cells: Column, first: Column, second: Column, *, skip_bad: bool = False
    ) -> tuple[IntArray, list[int]]:
        """Return 1, 0 or -1 for every row, or `LEFT_OUT` where the cell says nothing.

        With ``skip_bad``, cells that no reading of the others understands say nothing too. Also
        return what each cell was read as in all of its rows, `MIXED` if that differs.
        """
        # the cases that occur: what a cell says, and which of the two items it names
        names = _named(cells, first, second)
        n_named = 1 if names is None else len(NAMED)
        case = cells.code if names is None else n_named * cells.code + names
        occurs = (
            np.arange(len(cells.values)) if names is None else np.flatnonzero(np.bincount(case))
        )
        value, named = occurs // n_named, NAMED[occurs % n_named]
        spelt = _spelt_values(cells)
        words = [spelt[k] for k in value.tolist()]
        # codes, and blank cells
        outcome = _translated(words, {"": LEFT_OUT, **self.codes})
        is_open = outcome == UNKNOWN
        # names of the two items, and words for ties
        by_word = is_open & (named == UNKNOWN)
        rest = _different(words, by_word)
        if skip_bad:
            strange = self._strange(rest)
            rest = [word for word in rest if word not in strange]
            is_strange = by_word & np.isin(words, sorted(strange))
            outcome[is_strange] = LEFT_OUT
            is_open, by_word = is_open & ~is_strange, by_word & ~is_strange
        reading = {word: _said(word, {}) for word in rest}
        if UNKNOWN in reading.values():
            # words or numbers, in all rows or else beside names
            readings = self._readings(_different(words, is_open))
            row = partial(_first_row, case, occurs[by_word])
            reading = self._only(readings or self._readings(rest), rest, row)
            if readings:
                by_word = is_open
            else:
                is_name = is_open & ~np.isin(words, rest)
                self._refuse_doubt(words, np.where(is_name, named, UNKNOWN), rest, occurs, case)
        outcome = np.where(is_open, named, outcome)
        outcome[by_word] = _translated(words, reading)[by_word]
        of_case = np.full(n_named * len(cells.values), UNKNOWN, dtype=np.intp)
        of_case[occurs] = outcome
        return of_case[case], _only_outcomes(value, outcome)

    def _strange(self, words: Sequence[str]) -> set[str]:
        """Return the words that the reading of most words does not understand."""
        usual = [reading for readings in self._usual_readings(words) for reading in readings]
        unknown = [{w for w in words if _said(w, reading) == UNKNOWN} for reading in usual]
        return min(unknown, key=len, default=set())

    def _readings(self, words: Sequence[str]) -> list[dict[str, int]]:
        """Return the different ways to read all words, by what the columns are called."""
        for usual in self._usual_readings(words):
            found = [{word: _said(word, reading) for word in words} for reading in usual]
            whole = [reading for reading in found if UNKNOWN not in reading.values()]
            if whole:
                return [one for place, one in enumerate(whole) if one not in whole[:place]]
        return []

    def _usual_readings(self, words: Sequence[str]) -> list[list[dict[str, int]]]:
        """Return what words and numbers usually mean; later lists count where earlier ones fail."""
        sides = _sides(self.first, self.second)
        own = {plain_name(self.first): FIRST_WON, plain_name(self.second): SECOND_WON}
        by_columns = {**SIDE_WORDS, **sides, **own}
        if "h" in sides and "b" in words:  # then A is not away
            by_columns |= {"a": FIRST_WON}
        says_tie = TIED in (_said(word, {}) for word in words)
        name = plain_name(self.name)
        of_first, signed = name in map(plain_name, OF_FIRST), name not in ANNOTATED
        codings = [
            coding
            for place, coding in enumerate(CODINGS)
            if (place == 0 or not of_first) and (signed or "-1" not in coding)
        ]
        numbers = [
            {code: outcome for code, outcome in coding.items() if outcome != TIED or not says_tie}
            for coding in codings
            if all(coding.get(word, outcome) == outcome for word, outcome in sides.items())
        ]
        letters = [HOME_OR_AWAY] if set(words) <= set(HOME_OR_AWAY) else []
        usual = [by_columns, TRUTH, FROM_FIRST_OR_T, *numbers]
        return [usual, letters] if sides else [usual + letters]

    def _only(
        self, readings: Sequence[dict[str, int]], words: Sequence[str], row: Callable[[], int]
    ) -> dict[str, int]:
        """Return the only reading; refuse words that have none, or several."""
        if len(readings) == 1:
            return readings[0]
        if not readings:
            usual = [reading for readings in self._usual_readings(words) for reading in readings]
            strange = [w for w in words if all(_said(w, one) == UNKNOWN for one in usual)] or words
            are_numbers = all(map(_is_number, strange))
            if any(_is_number(w, below=-1.0) for w in strange) and are_numbers:
                raise DataFileError(
                    f"The column {self.name!r} must say whom its numbers around 0 favour: got "
                    f"{', '.join(map(repr, strange[:5]))}. Say ComparisonColumns(favours='a') if "
                    "positive ones favour the first item, else favours='b' (--favours)."
                )
            if are_numbers and len(strange) > 1 and self.remedy is None:
                ends = sorted(float(w) for w in words if _is_number(w))
                raise DataFileError(
                    f"The column {self.name!r} must say a, b or tie: got numbers from {ends[0]:g} "
                    f"to {ends[-1]:g}. If they are a scale, say whom its upper end favours and "
                    "what its middle is: ComparisonColumns(favours='b', middle="
                    f"{0.5 * (ends[0] + ends[-1]):g}) (--favours, --middle)."
                )
            raise DataFileError(
                f"The column {self.name!r} must say a, b or tie, or name one of the two items: got "
                f"{', '.join(map(repr, strange[:5]))}. "
                + self._explained(
                    "Say what that means (a, b, tie or skip)",
                    {strange[0]: TIED if _is_number(strange[0]) else LEFT_OUT},
                )
            )
        ways = "; or ".join(_as_codes(reading, " = ", ", ") for reading in readings)
        raise DataFileError(
            f"The column {self.name!r} must say who won in one way: it can be read as {ways} (a is "
            f"the item in {self.first!r}, b the one in {self.second!r}; row {row()} names "
            "neither). " + self._explained("Say which is meant", readings[0])
        )

    def _refuse_doubt(
        self,
        words: Sequence[str],
        named: IntArray,
        rest: Sequence[str],
        occurs: IntArray,
        case: IntArray,
    ) -> None:
        """Refuse names that are also words for another outcome, in a table that has such words."""
        for word in _different(words, named != UNKNOWN):
            for reading in self._readings(sorted({word, *rest})):
                is_other = (np.array(words) == word) & (named != reading[word])
                if is_other.any():
                    row = _first_row(case, occurs[is_other])
                    raise DataFileError(
                        f"The column {self.name!r} must say who won in one way: {word!r} names an "
                        f"item of row {row}, and is a word for another outcome. "
                        + self._explained("Say which is meant", {word: reading[word]})
                    )

    def _explained(self, what: str, reading: Mapping[str, int]) -> str:
        """Return what to do, with codes as an example."""
        codes = _as_codes({**self.codes, **reading}, "=", ",")
        quoted = f"'{codes}'" if "'" not in codes else f'"{codes}"'
        return self.remedy or f"{what}: ComparisonColumns(codes={quoted})."


def _as_codes(reading: Mapping[str, int], equals: str, comma: str) -> str:
    """Write a reading as codes."""
    words = {outcome: word for word, outcome in MEANINGS.items()}
    return comma.join(f"{cell}{equals}{words[outcome]}" for cell, outcome in reading.items())


def _spelt_values(column: Column) -> list[str]:
    """Return what the different cells say, each in one spelling; 1 and True are one cell."""
    alike: dict[Any, Any] = {}
    return [_spelt(alike.setdefault(value, value)) for value in column.values.tolist()]


def _first_row(case: IntArray, chosen: IntArray) -> int:
    """Return the first row of the cases chosen."""
    is_chosen = np.zeros(int(case.max()) + 1, dtype=bool)
    is_chosen[chosen] = True
    return int(np.argmax(is_chosen[case]))


def _different(words: Sequence[str], chosen: NDArray[np.bool_]) -> list[str]:
    """Return the words chosen once each, sorted."""
    return sorted({words[place] for place in np.flatnonzero(chosen).tolist()})


def _translated(words: Sequence[str], reading: Mapping[str, int]) -> IntArray:
    """Return what a reading says about every word, `UNKNOWN` where it says nothing."""
    return np.array([reading.get(word, UNKNOWN) for word in words], dtype=np.intp)


def _said(word: str, reading: Mapping[str, int]) -> int:
    """Return what a word says, by a reading or as a word for ties or for no answer."""
    if word in reading:
        return reading[word]
    if word in NO_ANSWER:
        return LEFT_OUT
    return TIED if word in TIE_WORDS or word.startswith(("tie", "both")) else UNKNOWN


def _spelt(cell: Any) -> str:
    """Return a cell in one spelling: 1.0 and "1" are 1, "Model A" is modela, 2:1 is first."""
    text = "" if is_missing(cell) else str(cell).strip()
    verdict = _verdict(text)
    if verdict is not None:
        return verdict
    score = _FINAL_SCORE.fullmatch(text)
    if score is not None:
        ahead, behind = (0.5 if part in ("½", "1/2") else float(part) for part in score.groups())
        return "tie" if ahead == behind else "first" if ahead > behind else "second"
    return _numeral(HALVES.get(text, text)) or plain_name(text) or text


def _verdict(text: str) -> str | None:
    """Return "first", "second" or "tie" for a verdict in signs or in words; None for other text."""
    inside = _IN_BRACKETS.findall(text)
    if inside:  # the last one is the verdict
        text = inside[-1] if len(inside[-1]) > 1 else f"[[{inside[-1]}]]"
    found = _VERDICT.fullmatch(text)
    if found is not None:
        alone, one, sign, other = (part and part.upper() for part in found.groups())
        if alone is not None:
            return {"A": "first", "B": "second", "C": "tie"}[alone]
        if one == other:
            return None
        if "=" in sign and not ("<" in sign or ">" in sign):
            return "tie"
        return "first" if (one == "A") == (sign[0] == ">") else "second"
    text = text.replace("_", " ")
    sides = {side.group("side").lower() for side in _SIDE.finditer(text)}
    if _IN_WORDS.search(text) is None or len(sides) != 1:
        return None
    is_first = sides <= {"a", "1"}
    is_worse = re.search(r"\bworse\b", text, re.IGNORECASE) is not None
    return "first" if is_first != is_worse else "second"


def margins_of(cells: Column) -> FloatArray | None:
    """Return by how much the winner led, where cells say so: 1 slightly, 2 plainly, 3 much.

    None if no cell says how much, or if cells are no verdicts.
    """
    texts = ["" if is_missing(cell) else str(cell).strip() for cell in cells.values.tolist()]
    sizes = [_how_much(text) for text in texts]
    if all(size in (None, 2.0) for size in sizes):
        return None
    return np.array([2.0 if size is None else size for size in sizes])[cells.code]


def _how_much(text: str) -> float | None:
    inside = _IN_BRACKETS.findall(text)
    verdict = _VERDICT.fullmatch(inside[-1] if inside else text)
    if verdict is not None and verdict.group(3):
        return 3.0 if verdict.group(3) in (">>", "<<") else 2.0
    if _verdict(text) is None:
        return None
    found = _HOW_MUCH.search(text)
    if found is None:
        return 2.0
    return 3.0 if found.group("much") else 1.0


def _numeral(text: str) -> str | None:
    """Return a number in its shortest form, without rounding; None for other text."""
    if _NUMBER.fullmatch(text) is None:
        return None
    whole, _, part = text.lstrip("+-").partition(".")
    digits = f"{whole.lstrip('0') or '0'}.{part.rstrip('0')}".rstrip(".")
    return f"-{digits}" if text.startswith("-") and digits != "0" else digits


def _only_outcomes(value: IntArray, outcome: IntArray) -> list[int]:
    """Return what each cell was read as, from all that it was read as; `MIXED` if that differs."""
    found: dict[int, int] = {}
    for cell, one in zip(value.tolist(), outcome.tolist(), strict=True):
        found[cell] = one if found.get(cell, one) == one else MIXED
    return list(found.values())


def _named(cells: Column, first: Column, second: Column) -> IntArray | None:
    """Return which item every cell names, as it is written or by its number: a place in `NAMED`.

    None if no cell names any.
    """
    named: IntArray | None = None
    for key in (_folded, _number_of, _written):  # the last to name an item decides
        for names, won in ((second, SECOND_WON), (first, FIRST_WON)):
            same = _same(cells, names, key)
            if same is not None:
                named = np.zeros(len(cells), dtype=np.intp) if named is None else named
                named[same] = won % len(NAMED)
    return named


def _written(value: Any) -> Any:
    return value


def _folded(value: Any) -> str | None:
    """Return a name without what is easily mistyped: case, spaces and the form of letters."""
    if not isinstance(value, str) or plain_name(value) in ALL_WORDS:
        return None
    return " ".join(unicodedata.normalize("NFKC", value).casefold().split()) or None


def _number_of(value: Any) -> str | None:
    return _numeral(str(value).strip())


def _same(cells: Column, names: Column, key: Callable[[Any], Any]) -> NDArray[np.bool_] | None:
    """Tell in which rows the cell and the name have the same key; None if in no row."""
    said = [key(value) for value in cells.values.tolist()]
    has_truth = [column.values.dtype.kind == "b" for column in (cells, names)]
    if has_truth[0] != has_truth[1] or all(word is None for word in said):  # True is no item 1
        return None
    known = [key(value) for value in names.values.tolist()]
    if set(known).isdisjoint(said):
        return None
    place = {word: number for number, word in enumerate(known) if word is not None}
    of_cells = np.array([place.get(word, -1) for word in said])
    of_names = np.array([place.get(word, -2) for word in known])
    return np.equal(of_cells[cells.code], of_names[names.code])


def _sides(first: str, second: str) -> dict[str, int]:
    """Return the words for the sides that two columns are called after, and their first letters."""
    ends = [words_of(usual_spelling(name)) for name in (first, second)]
    for one, other in SIDES:
        for (shown, hidden), won in ((ends, FIRST_WON), (ends[::-1], SECOND_WON)):
            if one in shown and other in hidden:
                words = {one: won, one[0]: won, other: -won, other[0]: -won}
                return words if one != "home" else {**words, "away": -won, "a": -won}
    return {}


def _is_number(word: str, below: float = np.inf) -> bool:
    """Tell whether a word is a number up to a bound."""
    try:
        return float(word) <= below
    except ValueError:
        return False
