"""What a model file may hold: values that register themselves, and state that classes declare.

A fitted attribute is an annotation of the class that ends in an underscore. Notes say what the type
does not: shapes, and which numbers are positions in what::

    n_features_in_: Annotated[int, Size("n_features")]
    coef_: Annotated[FloatArray, Finite(), Shape("n_features")]
    columns_: Annotated[list[int], PositionsIn("n_features")]

Fields of storable values are declared in the same way. What is read from a file is compared with
these declarations before anything uses it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
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
from scipy import sparse

from rankwise.core.params import AtLeast, Shape, Size, unaliased

T = TypeVar("T", bound=type)

STORABLE: dict[str, type[Any]] = {}
"""The frozen values a model file may hold, by the names of their classes."""


def storable(cls: T) -> T:
    """Let model files hold values of this frozen dataclass; its fields are stored one by one."""
    known = STORABLE.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(f"Two storable classes are called {cls.__name__}: rename one of them.")
    STORABLE[cls.__name__] = cls
    return cls


# Notes of declared state


@final
@dataclass(frozen=True)
class Finite:
    """An array without NaN and infinity."""


@final
@dataclass(frozen=True)
class Stored:
    """What an attribute holds that has several types, of which readers know which it is."""

    annotation: Any


@final
@dataclass(frozen=True)
class PositionsIn:
    """Whole numbers that are positions along an axis."""

    axis: str


@final
@dataclass(frozen=True)
class AsLongAs:
    """A list whose entries are as long as the entries of another one."""

    other: str


@final
@dataclass(frozen=True)
class FitsState:
    """Something that must hold of a value and the state it is part of."""

    holds: Callable[[Any, Mapping[str, Any]], bool]


Counted: TypeAlias = Annotated[int, AtLeast(0)]
"""How many there were."""


@cache
def state_of(cls: Any) -> dict[str, Any]:
    """Return the annotations of the fitted attributes that a class declares."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint for name, hint in hints.items() if is_fitted_name(name)}


def is_fitted_name(name: Any) -> bool:
    """Return whether a name is that of a fitted attribute."""
    return isinstance(name, str) and name.endswith("_") and not name.startswith("_")


@cache
def fields_of(cls: Any) -> dict[str, Any]:
    """Return the annotations of a storable value."""
    return get_type_hints(cls, include_extras=True)


# Whether stored values are what was declared

ARRAY_KINDS: dict[Any, str] = {
    np.float64: "f",
    np.intp: "iu",
    np.int64: "iu",
    np.uint64: "u",
    np.uint8: "u",
    np.bool_: "b",
    np.str_: "U",
}
"""Kinds of arrays by the type in an annotation; whole numbers are positions, not negative."""


def fits(value: Any, annotation: Any) -> bool:
    """Return whether a stored value has an annotated type; types unknown here are accepted."""
    annotation = unaliased(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Any or isinstance(annotation, TypeVar | str):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, choice) for choice in inner)
    if origin is Literal:
        return isinstance(value, bool | int | float | str) and value in inner
    if origin is Annotated:
        return fits(value, inner[0]) and all(_keeps(value, note) for note in inner[1:])
    if origin is np.ndarray:
        kinds = ARRAY_KINDS.get(get_args(inner[1])[0] if get_args(inner[1]) else Any, "biufU")
        array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
        return array and not (kinds == "iu" and value.size and value.min() < 0)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return _fits_class(value, annotation if origin is None else origin, inner)


def _fits_class(value: Any, kind: Any, inner: tuple[Any, ...]) -> bool:
    """Return whether a value is of a class, and the entries of a container of their own types."""
    if not isinstance(kind, type):
        return True
    entries: Any = value
    if not isinstance(value, kind):
        return False
    if kind is list or (kind is tuple and inner[1:] == (...,)):
        return all(fits(entry, inner[0]) for entry in entries) if inner else True
    if kind is dict and inner:
        return all(fits(k, inner[0]) and fits(entry, inner[1]) for k, entry in entries.items())
    return True


def _keeps(value: Any, note: Any) -> bool:
    """Return whether a value of the right type keeps a note about it alone."""
    if isinstance(note, AtLeast):
        return bool(np.all(np.asarray(value) >= note.bound))
    if isinstance(note, Stored):
        return fits(value, note.annotation)
    if isinstance(note, Finite):
        return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())
    return True


def first_misfit(annotations: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """Return the first value whose shape or positions do not fit the others; None if all do."""
    noted = {
        name: getattr(annotations[name], "__metadata__", ())
        for name in annotations
        if values.get(name) is not None
    }
    lengths: dict[str, int] = {}
    for name, notes in noted.items():
        lengths |= {note.axis: values[name] for note in notes if isinstance(note, Size)}
    for name, notes in noted.items():
        shapes = [note for note in notes if isinstance(note, Shape)]
        if shapes and not _has_shape(values[name], shapes, lengths):
            return name
    for name, notes in noted.items():
        if not all(_is_consistent(values[name], note, values, lengths) for note in notes):
            return name
    return None


def _has_shape(value: Any, shapes: list[Shape], lengths: dict[str, int]) -> bool:
    """Return whether a value has one of the shapes; lengths of axes not seen before are added."""
    given = getattr(value, shapes[0].of) if shapes[0].of else value
    if given is None:
        return True
    if shapes[0].of and not _are_rows(given):
        return False
    shape = (len(given),) if isinstance(given, list | tuple) else tuple(given.shape)
    axes = next((note.axes for note in shapes if len(note.axes) == len(shape)), None)
    if axes is None:
        return False
    return all(lengths.setdefault(a, n) == n for a, n in zip(axes, shape, strict=True))


def _are_rows(given: Any) -> bool:
    is_dense = isinstance(given, np.ndarray) and given.dtype.kind == "f"
    return is_dense or sparse.issparse(given)


def _is_consistent(
    value: Any, note: Any, values: Mapping[str, Any], lengths: Mapping[str, int]
) -> bool:
    if isinstance(note, PositionsIn) and note.axis in lengths:
        positions = np.asarray(value)
        return bool(((positions >= 0) & (positions < lengths[note.axis])).all())
    if isinstance(note, AsLongAs):
        return [len(entry) for entry in value] == [len(e) for e in values.get(note.other, ())]
    if isinstance(note, FitsState):
        return note.holds(value, values)
    return True
