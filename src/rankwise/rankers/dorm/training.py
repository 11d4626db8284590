"""Running DORM's solver with progress, warnings and a C that fits the data."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_positive
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.rankers.dorm.cutting_planes import Progress as Pass
from rankwise.rankers.dorm.cutting_planes import Rule, Solution
from rankwise.rankers.dorm.problem import Task
from rankwise.solve.progress import steps_shown

CChoice: TypeAlias = float | Literal["scale"]
PassCallback: TypeAlias = Callable[[Pass], object]

SCALE = 10.0
"""What ``C="scale"`` is, in natural units of C."""

WIDEST = 100.0
"""The largest C of a grid of which only the number of values is given, in the same units."""


def settle_c(C: Any, task: Task) -> float:
    """Return C as a number."""
    if isinstance(C, str):
        if C != "scale":
            raise InvalidInputError(f"`C` must be a number above 0 or 'scale': got {C!r}.")
        return SCALE * task.natural_c
    return check_positive("C", C, "Choose a positive value or 'scale'; small values learn little.")


def check_rule(tol: Any, max_iter: Any) -> Rule:
    """Return when to stop."""
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 1:
        raise InvalidInputError(f"`max_iter` must be an integer of at least 1: got {max_iter!r}.")
    share = check_positive("tol", tol, "It is the duality gap, as a share of the objective.")
    return Rule(share, int(max_iter))


def passes_shown(
    progress: bool | PassCallback, label: str
) -> AbstractContextManager[PassCallback | None]:
    """Return what yields the function to call after each pass."""
    return steps_shown(progress, lambda p: {"description": f"{label}  {describe(p)}"}, label)


def describe(made: Pass) -> str:
    """Return C, the number of passes and the gap in words."""
    if np.isfinite(made.objective):
        gap = f"gap {(made.objective - made.bound) / made.objective:.1e}"
    else:
        gap = f"gap about {made.stale_gap / max(made.bound + made.stale_gap, 1e-300):.1e}"
    return f"C={made.C:.3g}  pass {made.n_passes}  {gap}"


def warn_unless_converged(solution: Solution, rule: Rule, stacklevel: int = 3) -> None:
    """Say why a run ended before its gap was small enough."""
    if solution.ending in ("converged", "callback"):
        return
    if solution.ending == "interrupted":
        reason = (
            f"Stopped by Ctrl-C after {solution.n_passes} passes; the best so far is kept. Its "
            f"relative gap is {solution.gap:.1e}."
        )
    else:
        reason = (
            f"Not converged after max_iter={rule.max_passes} passes: the relative gap is "
            f"{solution.gap:.1e}, tol is {rule.tol:.1e}. Raise max_iter or tol, lower C, or scale "
            "the features."
        )
    warnings.warn(reason, ConvergenceWarning, stacklevel=stacklevel)


def warn_if_idle(improvement: float, measure: object, stacklevel: int = 3) -> None:
    """Say that the weights found are no better than none, which their ranking does not show."""
    if improvement > 0.0:
        return
    warnings.warn(
        f"Nothing was learned: the bound on the loss in {measure} is no lower than without any "
        "weights, so the ranking means little. Train for a measure without a cut-off, such as NDCG "
        "(it may still be judged by one with a cut-off), or for other features.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def settle_grid(Cs: Any, task: Task) -> FloatArray:
    """Return an ascending grid: the values given, or so many up to ``WIDEST``."""
    if isinstance(Cs, int | np.integer) and not isinstance(Cs, bool) and Cs > 0:
        return task.natural_c * np.geomspace(1.0, WIDEST, int(Cs))
    try:
        grid = np.unique(np.asarray(Cs, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.zeros(0)
    if np.ndim(Cs) != 1 or len(grid) == 0 or not (np.isfinite(grid).all() and (grid > 0).all()):
        raise InvalidInputError(
            f"`Cs` must be a number of values, or a list of finite numbers above 0: got {Cs!r}."
        )
    return grid
