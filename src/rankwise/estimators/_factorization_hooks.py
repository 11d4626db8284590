"""What happens beside a factorisation: a progress bar, and warnings."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np

from rankwise.core.errors import ConvergenceWarning
from rankwise.estimators._progress import steps_shown
from rankwise.inference.factorization import Factorization, Ratings, Rule, Step

StepCallback: TypeAlias = Callable[[Step], object]

_NOTHING = 0.01  # a share of the scores that makes no difference
_LITTLE = 0.001  # a share of the objective that is not worth factors


def half_steps_shown(
    progress: bool | StepCallback, max_sweeps: int
) -> AbstractContextManager[StepCallback | None]:
    """Return what yields the function to call after each half-step."""

    def update(step: Step) -> dict[str, Any]:
        text = f"sweep {step.sweep}  {step.half}  objective {step.objective:.6g}"
        return {"advance": 1, "description": text}

    return steps_shown(progress, update, "sweep 1", 2 * max_sweeps)


def warn_unless_converged(found: Factorization, rule: Rule) -> None:
    """Say why a run ended before it came to rest by itself."""
    if found.ending == "interrupted":
        reason = f"Stopped by Ctrl-C in sweep {found.n_sweeps}; the best factors so far are kept."
    elif found.ending == "max_sweeps":
        reason = (
            f"Not converged after max_iter={rule.max_sweeps} sweeps: the last one lowered the "
            f"objective by a share above tol={rule.tol:.1e}. Raise max_iter or tol, or lower C."
        )
    else:
        return
    warnings.warn(reason, ConvergenceWarning, stacklevel=4)


def warn_if_vanished(lesson: Ratings, found: Factorization, C: float) -> None:
    """Say so if C is too small to learn anything, or too small for users to differ."""
    agreed = found.factors.bias[lesson.items]
    personal = lesson.scores(found.factors) - agreed
    if found.objectives[-1] >= (1.0 - _LITTLE) * C * lesson.greatest_losses():
        reason = (
            f"Nothing was learned: with C={C:.3g} the objective is no lower than without factors. "
            "Raise C, for example 5-fold, or train for a measure that looks at more positions, "
            "such as NDCG."
        )
    elif np.linalg.norm(personal) <= _NOTHING * np.linalg.norm(agreed):
        reason = (
            f"The factors have vanished, and all users get the same ranking: C={C:.3g} is too "
            "small. Raise it, for example 2-fold or 5-fold."
        )
    else:
        return
    warnings.warn(reason, ConvergenceWarning, stacklevel=4)
