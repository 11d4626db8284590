"""Which options of ``rankwise fit`` go together."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs.choice import parse_alphas
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError

DEFAULT_ALPHA = 1.0
STREAMING = ("memory", "cache_dir")
STOPPING = ("n_iter_no_change",)
ITERATIVE = ("early_stopping", "n_iter_no_change", "dtype", "checkpoint")
LIMITS = ("max_iter", "tol")
DIRECT = ("c", "cs", "decay")
KERNELS = ("kernel", "gamma", "degree", "coef0", "basis")
SCORES = ("cost", "ties", "query_weight")
SPELT = {"c": "C", "cs": "Cs"}


def check_combination(command: Fit) -> None:
    """Refuse options that would have no effect, or none that makes sense, beside others."""
    _require(command, STREAMING, "--stream", met=command.stream)
    _require(command, ITERATIVE, "--iterative or --stream", met=command.is_iterative)
    _require(command, STOPPING, "--early-stopping", met=command.early_stopping)
    runs = command.is_iterative or command.is_direct
    _require(command, LIMITS, "--iterative, --stream or --optimise", met=runs)
    _require(command, DIRECT, "--optimise", met=command.is_direct)
    if command.is_direct:
        others = ("alpha", "alphas", *SCORES, "pairs", "iterative", "stream")
        _refuse(command, others, "--optimise", "it trains for a measure of graded items")
    if command.is_iterative:
        _refuse(command, KERNELS, "--iterative and --stream", "they learn linear functions")
    if command.pairs is not None:
        _refuse(command, ("stream",), "--pairs", "comparisons name rows anywhere in the file")
        _refuse(command, SCORES, "--pairs", "comparisons have margins and weights of their own")
        if command.validate is None:
            reason = "without --validate, alpha is judged by the share of comparisons in order"
            _refuse(command, ("measure",), "--pairs", reason)


def wanted_alphas(command: Fit) -> FloatArray:
    """Return the alphas to train for, one or several."""
    if command.alphas is None:
        return np.array([DEFAULT_ALPHA if command.alpha is None else command.alpha])
    if command.alpha is not None:
        raise InvalidInputError("Only one of --alpha and --alphas may be given: got both.")
    return parse_alphas(command.alphas)


def _require(command: Fit, options: Sequence[str], needed: str, *, met: bool) -> None:
    for name in [] if met else _given(command, options):
        raise InvalidInputError(
            f"{name} must come with {needed}: got it alone. Add {needed}, or leave it out."
        )


def _refuse(command: Fit, options: Sequence[str], other: str, reason: str) -> None:
    for name in _given(command, options):
        raise InvalidInputError(
            f"{name} must not come with {other}: {reason}. Leave one of them out."
        )


def _given(command: Fit, options: Sequence[str]) -> list[str]:
    """Return the options, as they are typed, that are not at their defaults."""
    defaults = {field.name: field.default for field in fields(command)}
    changed = [name for name in options if getattr(command, name) != defaults[name]]
    return ["--" + SPELT.get(name, name).replace("_", "-") for name in changed]
