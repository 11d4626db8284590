"""Values of parameters from the texts of their options, read by the rules of the parameters."""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from inspect import signature
from typing import Any

import numpy as np

from rankwise.apps.cli.parameters import flag_of
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import REFUSED, Rule, rules_of
from rankwise.features.kernels import KERNELS, Kernel, as_kernel

GRIDS = ("alphas", "item_alphas", "Cs")
"""Parameters that are a grid of values to choose from."""

LARGEST_GRID = 10_000
"""The largest number of values of a grid; more is taken for a typing error."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


OF_WORKERS = {"silence_logs": logging.CRITICAL}
"""Options of workers on this machine: what goes wrong there is said once, by the command."""


def kernel_fields() -> dict[str, list[str]]:
    """Return the parameters of kernels that can be chosen by name, and the kernels of each."""
    found: dict[str, list[str]] = {}
    for name, kind in KERNELS.items():
        for field in fields(kind) if kind.is_function else ():  # type: ignore[arg-type]
            found.setdefault(field.name, []).append(name)
    return found


def values_of(owner: Callable[..., Any], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the parameters of a class or a function that were given as texts.

    Iterations show their progress on a terminal, and random numbers are the same every time.
    """
    rules = rules_of(owner)
    found: dict[str, Any] = {}
    if "progress" in rules:
        found["progress"] = is_watched()
    if "random_state" in rules:
        found["random_state"] = 0
    found |= {name: read_text(name, rules[name], texts[name]) for name in rules if name in texts}
    inner = {name: texts[name] for name in kernel_fields() if name in texts}
    if "kernel" in rules and inner:
        default = signature(owner).parameters["kernel"].default
        found["kernel"] = _kernel(found.get("kernel", default), inner)
    return found


def is_watched() -> bool:
    """Return whether somebody waits at a terminal."""
    return sys.stderr.isatty()


# Options that contradict each other, or that would have no effect


def refuse_if(wrong: bool, sentence: str) -> None:
    """Refuse options, with a sentence of its own."""
    if wrong:
        raise InvalidInputError(sentence)


def refuse_both(command: Any, first: str, second: str) -> None:
    """Refuse two options that exclude each other."""
    refuse_if(
        {first, second} <= _given(command),
        f"Only one of {flag_of(first)} and {flag_of(second)} may be given: got both. Leave one of "
        "them out.",
    )


def refuse_alone(command: Any, names: Iterable[str], needed: str) -> None:
    """Refuse options that have no effect without another one."""
    given, flag = _given(command), flag_of(needed)
    for name in names:
        refuse_if(
            name in given and needed not in given,
            f"{flag_of(name)} must come with {flag}: got it alone. Add {flag}, or leave it out.",
        )


def refuse_idle(
    command: Any, single: Callable[..., Any], search: Callable[..., Any], grid: str
) -> None:
    """Refuse parameters of a ranker beside a grid for its search, and of the search without one."""
    texts = command.parameters
    used = rules_of(search if grid in texts else single)
    idle = [name for name in texts if name not in (*used, *kernel_fields(), "random_state")]
    for name in idle:
        refuse_both(command, name, grid)
    refuse_alone(command, idle, grid)


def _given(command: Any) -> set[str]:
    """Return the options that were given, by name: those by hand, and those of parameters."""
    by_hand = {name for name, value in vars(command).items() if value is not None}
    switched_off = {name for name, value in vars(command).items() if value is False}
    return (by_hand - switched_off) | set(vars(command).get("parameters", ()))


# Values


def _kernel(name: str, texts: Mapping[str, str]) -> Kernel:
    """Return a kernel with the parameters that were given."""
    kernel = as_kernel(name)
    known = rules_of(type(kernel))
    for field in texts:
        if field not in known:
            raise InvalidInputError(
                f"--{field} must belong to the kernel: {name} has no {field}. Leave it out, or "
                "choose another --kernel."
            )
    given = {field: read_text(field, known[field], text) for field, text in texts.items()}
    return replace(kernel, **given)  # type: ignore[type-var]


def read_text(name: str, rule: Rule, text: Any) -> Any:
    """Return what a text means to a rule: a name, a number, several, none; or raise its error."""
    if not isinstance(text, str) or text in rule.names:  # a switch, or a choice
        return text
    if rule.optional and text == "none":
        return None
    if name in GRIDS:
        whole = int(text) if text.isdigit() else None
        is_number = whole is not None and rule.take(whole) is not REFUSED
        return whole if is_number else parse_grid(text, flag_of(name))
    readings: list[Any] = []
    for read in (int, float, _size, _numbers, str):
        with suppress(ValueError):
            readings.append(read(text))
    for value in readings:
        if rule.take(value) is not REFUSED:
            return value
    raise rule.error(name, readings[0])


def _numbers(text: str) -> FloatArray:
    return np.array([float(part) for part in text.split(",")])


def _size(text: str) -> int:
    """Return the number of bytes in a size such as ``512M`` or ``2G``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError("no size")
    return int(float(found[1]) * UNITS[found[2].upper()])


def parse_size(text: str) -> int:
    """Return the number of bytes of ``--memory``."""
    with suppress(ValueError):
        if (n_bytes := _size(text)) > 0:
            return n_bytes
    raise InvalidInputError(f"--memory must be a size such as 512M or 2G: got {text!r}.")


def parse_grid(text: str, flag: str) -> FloatArray:
    """Return the values of a grid such as ``0.1,1,10`` or ``1e-3:1e3:7``."""
    try:
        if ":" not in text:
            return _numbers(text)
        first, last, number = text.split(":")
        grid = _geometric(float(first), float(last), min(int(number), LARGEST_GRID + 1))
    except ValueError:
        raise InvalidInputError(
            f"{flag} must be a list such as 0.1,1,10 or a range such as 1e-3:1e3:7 "
            f"(first:last:number), all above 0: got {text!r}."
        ) from None
    if len(grid) > LARGEST_GRID:
        raise InvalidInputError(
            f"{flag} must ask for at most {LARGEST_GRID:,} values: got {text!r}."
        )
    return grid


def _geometric(first: float, last: float, number: int) -> FloatArray:
    if not (0 < first < np.inf and 0 < last < np.inf and number > 0):
        raise ValueError("no logarithm, or no value")
    return np.geomspace(first, last, number)
