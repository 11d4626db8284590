"""The parameters of an iterative fit, checked."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, Self, TypeAlias, final, get_args

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_choice
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.solve.conjugate_gradients import Descent, Rule, Step
from rankwise.solve.progress import steps_shown

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


Storage: TypeAlias = Literal["float32", "float64"]


@final
@dataclass(frozen=True, eq=False)
class Settings:
    """What to solve for and when to stop.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha.
    rule : Rule
        When to stop.
    precondition : bool
        Whether the diagonal may precondition: for one alpha that is solved to convergence.
    options : dict
        The options of `PreferenceGraph.from_scores`.
    measure : Measure
        What decides on validation data.
    dtype, progress, checkpoint
        As given.
    """

    alphas: FloatArray
    rule: Rule
    precondition: bool
    options: dict[str, Any]
    measure: Measure
    dtype: Storage | None
    progress: bool | StepCallback
    checkpoint: str | PathLike[str] | None

    @classmethod
    def of(cls, ranker: Any) -> Self:
        """Check the parameters of a ranker."""
        early = bool(ranker.early_stopping)
        given = [ranker.alpha] if ranker.alphas is None else np.ravel(ranker.alphas).tolist()
        name = "alpha" if ranker.alphas is None else "alphas"
        if not given:
            raise InvalidInputError("`alphas` must hold at least one value: got none.")
        alphas = np.array([_check_alpha(name, alpha, early) for alpha in given])
        if ranker.warm_start and len(alphas) > 1:
            raise InvalidInputError(
                f"`warm_start` must be used with a single alpha: got {len(alphas)}, which share a "
                "Krylov space from a start at zero only. Set warm_start=False or alphas=None."
            )
        if ranker.dtype is not None:
            check_choice("dtype", ranker.dtype, get_args(Storage))
        rule = Rule(
            tol=_check_tolerance(ranker.tol),
            max_iter=check_count("max_iter", ranker.max_iter),
            patience=check_count("n_iter_no_change", ranker.n_iter_no_change) if early else None,
        )
        return cls(
            alphas,
            rule,
            precondition=len(alphas) == 1 and not early,
            options={name: getattr(ranker, name) for name in ("cost", "ties", "query_weight")},
            measure=parse_measure(ranker.measure),
            dtype=ranker.dtype,
            progress=ranker.progress,
            checkpoint=ranker.checkpoint,
        )

    @property
    def needs_validation(self) -> bool:
        """Whether validation data decide on anything."""
        return len(self.alphas) > 1 or self.rule.patience is not None


def _check_alpha(name: str, value: object, zero_allowed: bool) -> float:
    number = value if isinstance(value, int | float | np.number) else float("nan")
    low_enough = number >= 0 if zero_allowed else number > 0
    if isinstance(value, bool) or not np.isfinite(number) or not low_enough:
        bound = "not below 0" if zero_allowed else "above 0"
        raise InvalidInputError(
            f"`{name}` must be a finite number {bound}: got {value!r}. Choose a positive value; 0 "
            "is for early_stopping=True, where the number of iterations regularises."
        )
    return float(number)


def _check_tolerance(value: object) -> float:
    if isinstance(value, int | float | np.number) and 0 <= value < 1:
        return float(value)
    raise InvalidInputError(f"`tol` must be a number from 0 to below 1: got {value!r}.")


def check_count(name: str, value: object) -> int:
    """Return a whole number above 0."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
        return int(value)
    raise InvalidInputError(f"`{name}` must be a whole number above 0: got {value!r}.")
