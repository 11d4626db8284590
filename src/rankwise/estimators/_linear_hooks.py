"""What happens beside an iterative fit: a progress bar, warnings."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from rankwise.core.errors import ConvergenceWarning
from rankwise.estimators._progress import steps_shown
from rankwise.inference.cg import Descent, Rule, Step

StepCallback = Callable[[Step], object]


def progress_of(
    progress: bool | StepCallback, rule: Rule, lower_is_better: bool
) -> AbstractContextManager[StepCallback | None]:
    """Return what yields the function to call after each step."""

    def update(step: Step) -> dict[str, Any]:
        return {"completed": step.iteration, "description": describe(step, lower_is_better)}

    return steps_shown(progress, update, total=rule.max_iter)


def describe(step: Step, lower_is_better: bool) -> str:
    """Return the iteration, the largest residual and the best validation value in words."""
    text = f"iteration {step.iteration}  residual {np.nanmax(step.residuals):.1e}"
    if np.isnan(step.values).all():
        return text
    best = np.nanmin(step.values) if lower_is_better else np.nanmax(step.values)
    return f"{text}  validation {best:.4f}"


def warn_unless_converged(descent: Descent, rule: Rule) -> None:
    """Say why a run ended before it came to rest by itself."""
    if descent.converged or descent.ending == "callback":
        return
    if descent.ending == "interrupted":
        reason = f"Stopped by Ctrl-C after {descent.n_iter} iterations; the best so far is kept."
    else:
        residual = float(np.nanmax(descent.residuals[-1])) if descent.n_iter else np.inf
        reason = (
            f"Not converged after max_iter={rule.max_iter} iterations: the relative residual is "
            f"{residual:.1e}, tol is {rule.tol:.1e}. Raise max_iter or alpha, or scale the "
            "features."
        )
    warnings.warn(reason, ConvergenceWarning, stacklevel=4)
