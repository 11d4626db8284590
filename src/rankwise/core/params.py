"""Rules of parameters: written at annotations, compiled once per class, checked by one function.

A type says what a value is, notes inside ``Annotated`` say more::

    def __init__(
        self,
        alpha: Annotated[float, Positive(), Advice("Choose a value such as 1.")] = 1.0,
        k: Annotated[int | None, Positive()] = None,
        ties: Literal["drop", "keep"] = "drop",
        C: Annotated[float, Positive()] | Literal["scale"] = "scale",
        kernel: Annotated[str | Kernel, Reads(as_kernel, "a kernel", KERNELS)] = "linear",
        alphas: Annotated[FloatArray | None, Shape("n_alphas"), Positive()] = None,
    ): ...

Four calls use them. ``checked(self)``, at the top of ``fit``, returns an unfitted twin whose
parameters are in their one form, and leaves ``self`` alone; ``settle(self)``, in ``__post_init__``
of a frozen value, does it in place; ``check_call(function, k=k)`` checks arguments of a call, and
``check_value("k", k, Count)`` a single one.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from os import PathLike
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.checks import hint
from rankwise.core.errors import InvalidInputError

T = TypeVar("T")

LARGEST_INTEGER = 2**63 - 1
"""Whole numbers that compiled code can hold."""

# Notes: what an annotation may say beside a type


@final
@dataclass(frozen=True)
class Above:
    """Numbers greater than a bound."""

    bound: float


@final
@dataclass(frozen=True)
class AtLeast:
    """Numbers greater than or equal to a bound."""

    bound: float


@final
@dataclass(frozen=True)
class Below:
    """Numbers less than a bound."""

    bound: float


@final
@dataclass(frozen=True)
class AtMost:
    """Numbers less than or equal to a bound."""

    bound: float


def Positive() -> Above:  # noqa: N802 - reads as a note
    """Numbers above 0."""
    return Above(0)


@final
@dataclass(frozen=True)
class Advice:
    """What to do about a value that is refused."""

    text: str


@final
@dataclass(frozen=True, init=False)
class Shape:
    """The names of the axes of an array; an axis of one name has one length in all arguments.

    In declared state it may also be the length of a list, or the shape ``of`` an attribute.
    """

    axes: tuple[str, ...]
    of: str

    def __init__(self, *axes: str, of: str = "") -> None:
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "of", of)


@final
@dataclass(frozen=True)
class Size:
    """A whole number that is the length of an axis."""

    axis: str


@final
@dataclass(frozen=True, eq=False)  # a union hashes its parts, and a registry has no hash
class Reads:
    """Values that a function brings into their one form.

    Parameters
    ----------
    take : function
        Returns a value in its one form, or `REFUSED`; it may raise an error of its own.
    words : str
        What is accepted, such as "a kernel".
    known : names
        The texts that are accepted by name.
    """

    take: Callable[[Any], Any]
    words: str
    known: Iterable[str] = ()


@final
@dataclass(frozen=True)
class ArrayOf:
    """What an argument that takes anything like an array is made an array of."""

    kind: type


@final
@dataclass(frozen=True)
class CheckedWith:
    """Values that are checked together with another argument, where both are known."""

    other: str


# Rules: what annotations are compiled to

REFUSED: Any = object()
"""What a rule returns in place of a value that it does not accept."""


@final
@dataclass(frozen=True)
class Rule:
    """What must hold of a value.

    Parameters
    ----------
    take : function
        Returns a value in its one form, or `REFUSED`.
    words : texts
        What is accepted, such as "a finite number above 0".
    known : names
        The texts that are accepted by name.
    reads : {"number", "integer", "switch", "text", "numbers", ""}
        What a text on the command line is read as; nothing if only Python can say it.
    optional : bool
        Whether None is accepted.
    shapes : tuples of names
        The shapes that an array may have.
    size : str
        The axis that a whole number is the length of.
    advice : str
        What to do.
    show : function
        Says what was got.
    several : bool
        Whether a list of such values is accepted, too.
    """

    take: Callable[[Any], Any]
    words: tuple[str, ...] = ()
    known: Iterable[str] = ()
    reads: str = ""
    optional: bool = False
    shapes: tuple[tuple[str, ...], ...] = ()
    size: str = ""
    advice: str = ""
    show: Callable[[Any], str] | None = None
    several: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The texts that are accepted by name; a registry may have grown meanwhile."""
        return tuple(self.known)

    @property
    def says(self) -> str:
        """What must hold, in words."""
        accepted = list(self.words)
        if self.names:
            quoted = ", ".join(repr(name) for name in self.names)
            accepted.append(f"one of {quoted}" if len(self.names) > 1 else quoted)
        if self.several:
            accepted.append("a list of these")
        if self.optional:
            accepted.append("None")
        *most, last = accepted
        return f"{', '.join(most)} or {last}" if most else last

    def error(self, name: str, value: Any) -> InvalidInputError:
        """Return the error about a value: what must hold, what was got, what to do."""
        got, close = (self.show or shown)(value), ""
        if isinstance(value, str):
            close = hint(value, self.names)
        remedy = close or f" {self.advice}"
        return InvalidInputError(f"`{name}` must be {self.says}: got {got}.{remedy}".rstrip())


@cache
def rules_of(owner: Any) -> dict[str, Rule]:
    """Return the rules of the parameters of a class or a function, in their order.

    Names in annotations are looked up where the class or the function was defined: a type that is
    imported for type checkers only is an error here.
    """
    is_estimator = isinstance(owner, type) and not is_dataclass(owner)
    source = getattr(owner, "__init__") if is_estimator else owner  # noqa: B009 - for mypy
    return {
        name: compile_rule(hint)
        for name, hint in get_type_hints(source, include_extras=True).items()
        if name not in ("return", "self") and get_origin(hint) is not ClassVar
    }


def compile_rule(annotation: Any, notes: tuple[Any, ...] = ()) -> Rule:
    """Turn an annotation into a rule; ``notes`` are those of an annotation around it."""
    annotation = unaliased(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return compile_rule(inner[0], (*notes, *annotation.__metadata__))
    advice = " ".join(note.text for note in notes if isinstance(note, Advice))
    parts = inner if origin in (Union, UnionType) else (annotation,)
    parts = tuple(unaliased(part) for part in parts)
    optional = any(part in (None, NoneType) for part in parts)
    own = [_noted(note, parts) for note in notes if isinstance(note, Reads | CheckedWith)]
    own += [_array(note.kind, notes) for note in notes if isinstance(note, ArrayOf)]
    rest = [part for part in parts if part not in (None, NoneType)]
    return _any_of(own or [_single(part, notes) for part in rest], advice, optional=optional)


def unaliased(annotation: Any) -> Any:
    """Return what a ``type`` alias stands for; from NumPy 2.5 on, its array types are such aliases.

    The parameters of a generic alias, as in ``NDArray[np.float64]``, are filled in. What NumPy can
    turn into an array is anything: what reads it knows better.
    """
    if annotation is ArrayLike:
        return Any
    value = getattr(annotation, "__value__", None)
    if value is None:
        return annotation
    inner = get_args(annotation)
    return unaliased(value[inner] if inner else value)


def _noted(note: Reads | CheckedWith, parts: tuple[Any, ...]) -> Rule:
    typed = {int: "integer", float: "number", str: "text"}  # what can be typed on a command line
    reads = next((typed[part] for part in parts if part in typed), "")
    if isinstance(note, CheckedWith):
        return Rule(_take_anything, (f"what is checked with `{note.other}`",), reads=reads)
    return Rule(note.take, (note.words,), note.known, "text" if note.known else reads)


def _take_anything(value: Any) -> Any:
    return value


def _any_of(rules: list[Rule], advice: str, *, optional: bool) -> Rule:
    """Accept what one of the rules accepts."""
    takes = tuple(rule.take for rule in rules)
    optional = optional or any(rule.optional for rule in rules)

    def take(value: Any) -> Any:
        if value is None and optional:
            return None
        for one in takes:
            taken = one(value)
            if taken is not REFUSED:
                return taken
        return REFUSED

    others = [rule for rule in rules if not rule.several] or rules
    if len(others) == 1:
        known = others[0].known
    else:
        known = tuple(name for rule in others for name in rule.known)
    return Rule(
        takes[0] if len(takes) == 1 and not optional else take,
        words=tuple(word for rule in others for word in rule.words),
        known=known,
        reads=next((rule.reads for rule in rules if rule.reads), ""),
        optional=optional,
        shapes=tuple(shape for rule in rules for shape in rule.shapes),
        size="".join(rule.size for rule in rules),
        advice=" ".join(filter(None, [advice, *(rule.advice for rule in rules)])),
        show=next((rule.show for rule in rules if rule.show), None),
        several=len(others) < len(rules),
    )


def _single(annotation: Any, notes: tuple[Any, ...]) -> Rule:
    """Compile anything but a union."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Union, UnionType):
        return compile_rule(annotation, notes)
    if annotation is Any:
        return Rule(_take_anything, ("anything",))
    if origin is Literal:
        return choice(inner)
    if annotation is bool:
        return Rule(_take_switch, ("True", "False"), reads="switch")
    if annotation is int:
        size = "".join(note.axis for note in notes if isinstance(note, Size))
        low, high = _bounds(notes)
        low, high = max(-LARGEST_INTEGER, math.ceil(low)), min(LARGEST_INTEGER, math.floor(high))
        take = _number_taker(int, low, high)
        words = f"a whole number{_interval(notes)}"
        return Rule(take, (words,), reads="integer", size=size, show=_shown_integer)
    if annotation is float:
        take = _number_taker(float, *_bounds(notes))
        return Rule(take, (f"a finite number{_interval(notes)}",), reads="number")
    if origin is np.ndarray:
        return _array(get_args(inner[1])[0], notes)
    if annotation is str:
        return Rule(_take_text, ("a text",), reads="text")
    if origin in (list, tuple, dict):
        return _container(origin, inner)
    return _instance(annotation if origin is None else origin)


def _container(origin: Any, inner: tuple[Any, ...]) -> Rule:
    """Accept a list, a tuple or a dictionary whose entries keep their own rules."""
    if origin is dict:
        keys, values = (compile_rule(part) for part in inner)

        def take_dict(value: Any) -> Any:
            if not isinstance(value, dict):
                return REFUSED
            taken = {keys.take(key): values.take(entry) for key, entry in value.items()}
            return REFUSED if REFUSED in taken or REFUSED in taken.values() else taken

        return Rule(take_dict, (f"a dictionary of {keys.says} to {values.says}",))
    rest = inner[1:] == (...,) or origin is list
    rules = [compile_rule(part) for part in (inner[:1] if rest else inner)]

    def take(value: Any) -> Any:
        if not isinstance(value, origin) or not (rest or len(value) == len(rules)):
            return REFUSED
        each = rules * len(value) if rest else rules
        taken = [rule.take(entry) for rule, entry in zip(each, value, strict=True)]
        return REFUSED if any(entry is REFUSED for entry in taken) else origin(taken)

    words = f"{with_article(origin.__name__)} of {', '.join(rule.says for rule in rules)}"
    return Rule(take, (words,), several=origin is list)


def _shown_integer(value: Any) -> str:
    beyond = isinstance(value, int) and abs(value) > LARGEST_INTEGER
    return f"{shown(value)}, which is not below 2**63" if beyond else shown(value)


def _instance(kind: Any) -> Rule:
    """Accept values of a class."""
    if kind is Callable:
        return Rule(lambda value: value if callable(value) else REFUSED, ("a function",))
    if not isinstance(kind, type):
        raise TypeError(f"no rule for the annotation {kind!r}")
    word = with_article(kind.__name__)
    return Rule(lambda value: value if isinstance(value, kind) else REFUSED, (word,))


def _take_switch(value: Any) -> Any:
    return bool(value) if isinstance(value, bool | np.bool_) else REFUSED


def _take_text(value: Any) -> Any:
    return str(value) if isinstance(value, str) else REFUSED


def choice(choices: tuple[Any, ...]) -> Rule:
    """Accept one of some texts."""
    known = {choice: choice for choice in choices if isinstance(choice, str)}
    if len(known) != len(choices):
        raise TypeError(f"choices must be texts: got {choices!r}. Add bool or int to the union.")
    take = lambda value: known.get(value, REFUSED) if isinstance(value, str) else REFUSED  # noqa: E731
    return Rule(take, known=choices, reads="text")


def _bounds(notes: Iterable[Any]) -> tuple[float, float]:
    """Return the least and the greatest double of an interval; NaN and infinity are outside."""
    low, high = -sys.float_info.max, sys.float_info.max
    for note in notes:
        if isinstance(note, Above):
            low = max(low, math.nextafter(note.bound, math.inf))
        elif isinstance(note, AtLeast):
            low = max(low, note.bound)
        elif isinstance(note, Below):
            high = min(high, math.nextafter(note.bound, -math.inf))
        elif isinstance(note, AtMost):
            high = min(high, note.bound)
    return low, high


def _interval(notes: Iterable[Any]) -> str:
    """Say an interval: " above 0", " from 2 on", " from 0 to 10", " between 0 and 1 (excluded)"."""
    low = next((note for note in notes if isinstance(note, Above | AtLeast)), None)
    high = next((note for note in notes if isinstance(note, Below | AtMost)), None)
    if isinstance(low, Above) and isinstance(high, Below):
        return f" between {low.bound:,} and {high.bound:,} (excluded)"
    if isinstance(low, AtLeast) and isinstance(high, AtMost):
        return f" from {low.bound:,} to {high.bound:,}"
    said = []
    if low is not None:
        said += [f"above {low.bound:,}" if isinstance(low, Above) else f"from {low.bound:,} on"]
    if high is not None:
        said += [f"below {high.bound:,}" if isinstance(high, Below) else f"up to {high.bound:,}"]
    return f" {' and '.join(said)}" if said else ""


def _number_taker(kind: type, low: float, high: float) -> Callable[[Any], Any]:
    """Return a function that takes a real scalar of Python or NumPy inside an interval."""
    others = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)

    def take(value: Any) -> Any:
        if type(value) is not kind:
            if isinstance(value, bool) or not isinstance(value, others):
                return REFUSED
            try:
                value = kind(value)
            except OverflowError:  # an integer beyond all doubles
                return REFUSED
        return value if low <= value <= high else REFUSED

    return take


CONTENTS = {"f": "finite numbers", "i": "whole numbers", "b": "True and False", "U": "texts"}
"""What arrays hold, by NumPy's letter for it."""

SOURCES = {"f": "iuf", "i": "iu", "b": "b", "U": "UT"}
"""The letters of arrays that are converted without loss, by the letter of the result."""


def _array(kind: Any, notes: tuple[Any, ...]) -> Rule:
    """Compile an array of some kind with its shapes, and bounds of its entries."""
    dtype = np.dtype(kind)
    shapes = tuple(note.axes for note in notes if isinstance(note, Shape))
    n_axes = {len(axes) for axes in shapes}
    low, high = _bounds(notes) if dtype.kind in "fi" else (0.0, 0.0)

    def take(value: Any) -> Any:
        array = _entries(value, dtype)
        if array is None or (n_axes and array.ndim not in n_axes):
            return REFUSED
        if dtype.kind not in "fi" or not array.size:
            return array
        # a minimum with NaN is NaN, and not inside
        return array if array.min() >= low and array.max() <= high else REFUSED

    def show(value: Any) -> str:
        array = _entries(value, dtype)
        if array is None:
            dtype_given = getattr(value, "dtype", None)
            return shown(value) + ("" if dtype_given is None else f" and type {dtype_given}")
        if dtype.kind not in "fi" or (n_axes and array.ndim not in n_axes):
            return shown(value)
        row = np.argwhere(~((array >= low) & (array <= high)))[0]
        return f"{array[tuple(row)]} in row {row[0]}"

    shape = " or ".join(_axes(axes) for axes in shapes)
    words = f"an array of {CONTENTS[dtype.kind]}{_interval(notes)}"
    words += f" of shape {shape}" if shape else ""
    reads = "numbers" if dtype.kind in "fi" else ""
    return Rule(take, (words,), reads=reads, shapes=shapes, show=show)


def _entries(value: Any, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return values as an array of a dtype; None if something would be lost or made up."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of different lengths
        return None
    if np.ma.is_masked(value):
        return None
    if array.dtype.kind == "O":  # pandas' nullable columns, lists with None
        one = _number_taker(float, -math.inf, math.inf) if dtype.kind == "f" else _take_text
        entries = [one(entry) for entry in array.ravel()]
        if any(entry is REFUSED for entry in entries):
            return None
        array = np.array(entries).reshape(array.shape)
    if array.dtype.kind not in SOURCES[dtype.kind]:
        return None
    return array.astype(str if dtype.kind == "U" else dtype, copy=False)


# The checker


def check_values(
    rules: Mapping[str, Rule],
    values: Mapping[str, Any],
    sizes: dict[str, tuple[int, str]] | None = None,
) -> dict[str, Any]:
    """Return values in their one form; raise an error about the first that breaks its rule.

    Parameters
    ----------
    rules, values
        By name.
    sizes : dict
        Lengths of axes that are known already, and the argument that each was seen in; lengths
        seen in the values are added.
    """
    found = {}
    for name, value in values.items():
        rule = rules[name]
        taken = rule.take(value)
        if taken is REFUSED:
            raise rule.error(name, value)
        if (rule.shapes or rule.size) and taken is not None:
            sizes = {} if sizes is None else sizes
            _check_axes(name, rule, taken, sizes)
        found[name] = taken
    return found


def _check_axes(name: str, rule: Rule, taken: Any, sizes: dict[str, tuple[int, str]]) -> None:
    """Refuse an array whose axes differ in length from axes of the same name seen before."""
    axes = (rule.size,) if rule.size else next(a for a in rule.shapes if len(a) == taken.ndim)
    for axis, length in zip(axes, (taken,) if rule.size else taken.shape, strict=True):
        expected, source = sizes.setdefault(axis, (length, name))
        if length != expected:
            got = taken if rule.size else taken.shape
            raise InvalidInputError(
                f"`{name}` must have the shape {_axes(axes)} with {axis} = {expected}, as "
                f"`{source}` has: got {got}. Give one entry for each."
            )


def checked(owner: Any) -> Any:
    """Return an unfitted twin of an estimator with its parameters in their one form."""
    cls: Any = type(owner)
    rules, given = rules_of(cls), vars(owner)
    twin = object.__new__(cls)
    vars(twin).update(check_values(rules, {name: given[name] for name in rules}))
    return twin


def settle(value: Any) -> None:
    """Check the fields of a frozen dataclass and put them into their one form, in place."""
    cls: Any = type(value)
    rules = rules_of(cls)
    for name, taken in check_values(rules, {name: getattr(value, name) for name in rules}).items():
        object.__setattr__(value, name, taken)


def unchecked(cls: type[T], **fields: Any) -> T:
    """Build a frozen value from fields that are right already, as at every step of a search."""
    value = object.__new__(cls)
    vars(value).update(fields)
    return value


@cache
def _rule_of(annotation: Any) -> Rule:
    return compile_rule(annotation)


def check_value(name: str, value: Any, annotation: Any) -> Any:
    """Return one value in its one form, checked against a type such as `Count` or `Share`."""
    return check_values({name: _rule_of(annotation)}, {name: value})[name]


def check_call(function: Any, **arguments: Any) -> dict[str, Any]:
    """Check arguments of a function against its annotations; only those named are looked at."""
    return check_values(rules_of(getattr(function, "__func__", function)), arguments)


# Words for errors

LONGEST_SHOWN = 80
"""Characters of a value that an error shows in full."""


def shown(value: Any) -> str:
    """Describe a value in an error: never long, never raising."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and not isinstance(value, np.generic):
        kind = "array" if isinstance(value, np.ndarray) else type(value).__name__
        return f"{with_article(kind)} of shape {shape}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a whole number of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    try:
        text = repr(value)
    except Exception:  # of a class that is not ours
        return with_article(type(value).__name__)
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[: LONGEST_SHOWN - 20]} ... ({len(text)} characters)"


def _axes(axes: tuple[str, ...]) -> str:
    return f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an" before it."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


Count: TypeAlias = Annotated[int, Positive()]
"""A number of things."""

Share: TypeAlias = Annotated[float, Above(0), Below(1)]
"""A part of a whole, such as a confidence."""

Tolerance: TypeAlias = Annotated[
    float, Positive(), Advice("It is the relative error that counts as solved.")
]
"""When an iteration has converged."""


def take_path(value: Any) -> Any:
    """Accept the path of a file."""
    is_path = isinstance(value, PathLike) or (isinstance(value, str) and value != "")
    return value if is_path else REFUSED


FilePath: TypeAlias = Annotated[str | PathLike[str], Reads(take_path, "the path of a file")]
"""A file that is read or written."""

RandomSeed: TypeAlias = Annotated[
    int | np.random.RandomState | np.random.Generator | None,
    AtLeast(0),
    AtMost(2**32 - 1),
    Advice("Give a seed to get the same result again."),
]
"""scikit-learn's ``random_state``."""
