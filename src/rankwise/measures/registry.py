"""All measures by name: reading them from text, with the conventions of other tools as presets."""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias

from rankwise.core.checks import entries_of, hint
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Reads, check_values, choice
from rankwise.measures import binary, graded, pairwise
from rankwise.measures.value import Measure, in_quotes

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "scikit-learn": {
        "NDCG": {"gain": "linear", "ties": "average", "empty": "zero"},
        "DCG": {"gain": "linear", "ties": "average"},
        "AUC": {},
    },
    "lightgbm": {
        "NDCG": {"gain": "exponential", "ties": "input", "empty": "one"},
        "AP": {"normalize": "best", "ties": "input", "empty": "one"},
    },
    "xgboost": {
        "NDCG": {"gain": "exponential", "ties": "input", "empty": "one"},
        "AP": {"normalize": "best", "ties": "input", "empty": "one"},
        "Precision": {"normalize": "items", "ties": "input"},
    },
    "trec_eval": {
        "NDCG": {"gain": "linear", "ties": "reverse", "empty": "zero"},
        "AP": {"normalize": "relevant", "ties": "reverse", "empty": "zero"},
        "Precision": {"normalize": "cutoff", "ties": "reverse"},
        "Recall": {"ties": "reverse", "empty": "zero"},
        "RR": {"ties": "reverse", "empty": "zero"},
    },
}
"""For each tool its measures, each with the parameters that give the tool's values."""

MEASURES: tuple[Measure, ...] = tuple(
    value
    for home in (graded, binary, pairwise)
    for value in vars(home).values()
    if isinstance(value, Measure)
)
"""The measures that these modules define; a new one there needs no further entry."""

_NAMES = {name: measure for measure in MEASURES for name in (measure.name, *measure.aliases)}
_BY_NAME = {name.lower(): measure for name, measure in _NAMES.items()}

LONGEST = 200_000
"""Characters of the longest text that is read as a measure: a table of ten thousand discounts."""

DEEPEST = 20
"""Deepest nesting of brackets that is read."""


_TREC_NAME = re.compile(r"\s*(ndcg|map|P|recall)(?:_cut)?_([0-9]+)\s*", re.IGNORECASE)
"""A measure with its cut-off as trec_eval writes it: ndcg_cut_10, map_cut_10, P_5, recall_100."""


def parse_measure(text: str | Measure, preset: str | None = None) -> Measure:
    """Read a measure from text, in the form it prints or a looser one.

    Case does not matter, blanks and quotation marks may be left out, and MAP, MRR and P stand for
    AP, RR and Precision. The names of trec_eval are accepted too: ``ndcg_cut_10``, ``map_cut_10``,
    ``P_5``, ``recall_100``, ``recip_rank``. They only name the measure; for the values of trec_eval
    add its preset.

    Parameters
    ----------
    text : str or Measure
        For example ``"NDCG @ 10"``, ``"ndcg@10"`` or ``"NDCG(gain=exponential) @ 10"``. A measure
        is returned as it is.
    preset : {"scikit-learn", "lightgbm", "xgboost", "trec_eval"}, optional
        The tool whose conventions fill in what ``text`` leaves open.

    Examples
    --------
    >>> from rankwise import NDCG, parse_measure
    >>> parse_measure("ndcg@10") == NDCG @ 10
    True
    >>> parse_measure("NDCG @ 10", preset="lightgbm")
    NDCG(gain='exponential', ties='input', empty='one') @ 10
    >>> parse_measure("ndcg_cut_10"), parse_measure("P_5")
    (NDCG @ 10, Precision @ 5)
    >>> parse_measure("NDGC @ 10")
    Traceback (most recent call last):
        ...
    rankwise.core.errors.InvalidInputError: Unknown measure 'NDGC'... Did you mean 'NDCG'?
    """
    if isinstance(text, Measure):
        if preset is not None:
            raise InvalidInputError(
                f"`preset` needs the measure as text, since it fills in what the text leaves open: "
                f"got the measure {text!r}. Write, for example, "
                f"parse_measure({text.name!r}, preset={preset!r})."
            )
        return text
    measure, given = _read(text)
    return measure(**_preset(measure, preset) | given)


MeasureLike: TypeAlias = Annotated[Measure | str, Reads(parse_measure, "a measure", _NAMES)]
"""A measure by value or in text."""


def parse_measures(measures: str | Measure | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Read one or several measures; repetitions are left out."""
    several = entries_of(measures)
    if not several:
        raise InvalidInputError("`measures` must name at least one measure: got none.")
    return tuple(dict.fromkeys(parse_measure(measure) for measure in several))


def _read(text: str) -> tuple[Measure, dict[str, Any]]:
    name, inside, cutoff = _parts(text)
    if name.lower() not in _BY_NAME:
        raise InvalidInputError(
            f"Unknown measure {name!r}. Choose one of {in_quotes(_NAMES)}.{hint(name, _NAMES)}"
        )
    measure, parameters = _BY_NAME[name.lower()], _parameters(inside, text)
    if cutoff is None:
        return measure, parameters
    if "cutoff" in parameters:
        raise InvalidInputError(f"The cut-off must be given once: got {text!r}.")
    return measure @ _literal(cutoff), parameters


def _parts(text: str) -> tuple[str, str, str | None]:
    """Split ``name(inside) @ cutoff``, of which all but the name may be left out."""
    if not isinstance(text, str) or len(text) > LONGEST or _depth(text) > DEEPEST:
        raise _unreadable(text)
    trec = _TREC_NAME.fullmatch(text)
    if trec is not None:
        return trec[1], "", trec[2]
    # name, then parameters in brackets, then the cut-off
    name, bracket, rest = text.partition("(")
    inside, closed = "", ""
    if bracket:
        inside, closed, rest = rest.rpartition(")")
    else:
        name, at, cutoff = text.partition("@")
        rest = at + cutoff
    # nothing may stand between the bracket and the @
    before, at, cutoff = rest.partition("@")
    if bool(bracket) != bool(closed) or before.strip() or any(c in name + cutoff for c in "()@"):
        raise _unreadable(text)
    return name.strip(), inside, cutoff.strip() if at else None


def _unreadable(text: object) -> InvalidInputError:
    return InvalidInputError(
        f"A measure must have the form 'NDCG(gain=exponential) @ 10': got {text!r}."
    )


def _depth(text: str) -> int:
    """Return how deeply brackets are nested."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _parameters(inside: str, text: str) -> dict[str, Any]:
    """Read ``name=value, ...`` without running any of it."""
    try:
        call = ast.parse(f"f({inside})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
        values = {entry.arg: _value(entry.value) for entry in call.keywords}
        named = {name: value for name, value in values.items() if name is not None}
        if len(named) == len(call.keywords):
            return named
    raise InvalidInputError(
        "Parameters must have the form (gain=exponential, ties=input), each given once: "
        f"got ({inside}) in {text!r}."
    )


def _literal(text: str) -> Any:
    """Return the number, string or tuple that ``text`` spells, or else the text as it is."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return text


def _value(node: ast.expr) -> Any:
    """Return the number, string or tuple that an expression spells, or else its text."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def _preset(measure: Measure, preset: str | None) -> dict[str, Any]:
    if preset is None:
        return {}
    check_values({"preset": choice(tuple(PRESETS))}, {"preset": preset})
    tool = PRESETS[preset]
    if measure.name not in tool:
        raise InvalidInputError(
            f"`preset` {preset!r} has the measures {in_quotes(tool)}: got {measure.name!r}. Leave "
            "the preset out and set the parameters."
        )
    return dict(tool[measure.name])
