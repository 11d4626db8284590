"""A run of conjugate gradients: its settings, its progress and its checkpoint."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_choice, check_count
from rankwise.core.errors import InvalidInputError, ModelFileError, warn_caller
from rankwise.io.model_file import read_model, write_model
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.solve.conjugate_gradients import (
    REMEDY,
    ROUNDING,
    CGResult,
    Hooks,
    ShiftedSystems,
    Validator,
    multishift_cg,
    result_of_lasts,
)
from rankwise.solve.iteration import Step, StepCallback, StoppingRule, steps_shown
from rankwise.solve.operators import NormalOperator

Storage: TypeAlias = Literal["float32", "float64"]

LOW_SHARE = 0.01
"""Features smaller than all but this share of them take part in no estimate."""

CONDITION = 2.5
"""Root of the condition number that features of one size are taken to have."""

PER_OUTLIER = 2.0
"""Iterations that a feature much larger than the others is taken to cost."""

AGREEMENT = 1e-9
"""Share of the largest entry by which equal equations may differ, summed in another order."""


@final
@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a fit, checked.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha.
    rule : StoppingRule
        When to stop.
    precondition : bool
        Whether the diagonal may precondition: for one alpha that is solved to convergence.
    graph_options : dict
        The options of `PreferenceGraph.of`.
    measure : Measure
        What decides on validation data.
    dtype, progress, checkpoint
        As given.
    """

    alphas: FloatArray
    rule: StoppingRule
    precondition: bool
    graph_options: dict[str, Any]
    measure: Measure
    dtype: Storage | None
    progress: bool | StepCallback
    checkpoint: str | PathLike[str] | None

    @classmethod
    def of(cls, ranker: Any) -> Self:
        """Check the parameters of a ranker."""
        early = bool(ranker.early_stopping)
        alphas = _check_alphas(ranker.alpha, ranker.alphas, zero_allowed=early)
        if ranker.warm_start and len(alphas) > 1:
            raise InvalidInputError(
                f"`warm_start` must be used with a single alpha: got {len(alphas)}, which share a "
                "Krylov space from a start at zero only. Set warm_start=False or alphas=None."
            )
        if ranker.dtype is not None:
            check_choice("dtype", ranker.dtype, get_args(Storage))
        rule = StoppingRule(
            tol=_check_tolerance(ranker.tol),
            max_iter=check_count("max_iter", ranker.max_iter),
            patience=check_count("n_iter_no_change", ranker.n_iter_no_change) if early else None,
        )
        return cls(
            alphas,
            rule,
            precondition=len(alphas) == 1 and not early,
            graph_options={
                name: getattr(ranker, name) for name in ("cost", "ties", "query_weight")
            },
            measure=parse_measure(ranker.measure),
            dtype=ranker.dtype,
            progress=ranker.progress,
            checkpoint=ranker.checkpoint,
        )

    @property
    def needs_validation(self) -> bool:
        """Whether validation data decide on anything."""
        return len(self.alphas) > 1 or self.rule.patience is not None


def _check_alphas(alpha: object, alphas: Any, *, zero_allowed: bool) -> FloatArray:
    """Return the grid, or else the single alpha, each of them checked."""
    if alphas is None:
        return np.array([_check_alpha("alpha", alpha, zero_allowed)])
    grid = np.ravel(alphas).tolist()
    if not grid:
        raise InvalidInputError("`alphas` must hold at least one value: got none.")
    return np.array([_check_alpha("alphas", value, zero_allowed) for value in grid])


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
    """Return a share; 0 means as far as rounding errors allow."""
    if isinstance(value, int | float | np.number) and 0 <= value < 1:
        return float(value)
    raise InvalidInputError(f"`tol` must be a number from 0 to below 1: got {value!r}.")


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The file of a run, and what a run must have in common with it to go on from there.

    Parameters
    ----------
    path : path
        The file.
    identity : dict
        Settings that must be the same. The tolerance and the number of iterations may change.
    equations : dict of arrays
        Equations that must be the same up to rounding errors.
    """

    path: str | PathLike[str]
    identity: dict[str, Any]
    equations: dict[str, FloatArray]

    @classmethod
    def of(cls, path: str | PathLike[str], systems: ShiftedSystems, settings: Settings) -> Self:
        """Describe a run."""
        validator = systems.validator
        identity = {
            "kind": "LinearRankRLS checkpoint",
            "alphas": systems.alphas.tolist(),
            "patience": settings.rule.patience,
            "measure": None if validator is None else repr(settings.measure),
            "n_validated": 0 if validator is None else validator.rows.n_items,
        }
        equations = {
            "equations/rhs": systems.rhs,
            "equations/scale": systems.scale,
            "equations/start": systems.start,
        }
        return cls(path, identity, equations)

    def write(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Write the state of the run, all or nothing; where that fails, warn and go on."""
        try:
            write_model(self.path, self.identity, {**state, **self.equations})
        except (OSError, ModelFileError) as error:
            warn_caller(
                f"The checkpoint could not be written, and the fit goes on without it: {error}",
                RuntimeWarning,
            )

    def read(self) -> Mapping[str, NDArray[Any]] | None:
        """Return the state in the file, None where there is no file yet."""
        if not Path(self.path).exists():
            return None
        identity, arrays = read_model(self.path)
        if identity != self.identity or not self._agrees(arrays):
            raise ModelFileError(
                f"{os.fspath(self.path)}: expected a checkpoint of the same data and parameters, "
                "got one of others. Remove the file to start anew, or give another path."
            )
        return arrays

    def _agrees(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        return all(
            len(arrays[name]) == len(expected)
            and np.abs(arrays[name] - expected).max() <= AGREEMENT * np.abs(expected).max()
            for name, expected in self.equations.items()
        )


def run(
    operator: NormalOperator,
    settings: Settings,
    validator: Validator | None,
    start: FloatArray | None,
) -> CGResult:
    """Solve for every alpha: show progress, read and write the checkpoint, warn where it ended.

    Parameters
    ----------
    operator : NormalOperator
        The equations.
    settings : Settings
        What to solve for and when to stop.
    validator : Validator, optional
        Rates every iterate.
    start : (n_features,), optional
        The weights from which to start.
    """
    determined = operator.is_determined()
    with _steps(settings, validator) as on_step:
        if settings.checkpoint is None and _one_by_one_is_quicker(operator, settings, determined):
            result = _solve_one_by_one(operator, settings, validator, on_step)
        else:
            systems = ShiftedSystems.of(
                operator,
                settings.alphas,
                start=start,
                validator=validator,
                precondition=settings.precondition and determined,
            )
            path = settings.checkpoint
            file = None if path is None else Checkpoint.of(path, systems, settings)
            hooks = Hooks(on_step, None if file is None else file.write)
            saved = None if file is None else file.read()
            result = multishift_cg(systems, settings.rule, hooks, saved)
    result.ending.warn()
    return result


def _steps(
    settings: Settings, validator: Validator | None
) -> AbstractContextManager[StepCallback | None]:
    """Return what to call after each step."""

    def describe(step: Step) -> str:
        text = f"iteration {step.iteration}  residual {step.error:.1e}"
        if validator is None or np.isnan(step.values).all():
            return text
        return f"{text}  validation {validator.best(step.values):.4f}"

    return steps_shown(settings.progress, total=settings.rule.max_iter, describe=describe)


def _one_by_one_is_quicker(operator: NormalOperator, settings: Settings, determined: bool) -> bool:
    """Compare about how many iterations a grid takes from one Krylov space and one by one.

    Only a single alpha can be preconditioned. One by one, each alpha takes about as many iterations
    as if all features were of one size. Together they take as many as the spread of the sizes
    asks for, where the few largest count as outliers, which cost an iteration or two each.
    """
    if len(settings.alphas) == 1 or settings.rule.patience is not None or not determined:
        return False
    diagonal = operator.approximate_diagonal()
    per_root = CONDITION * 0.5 * np.log(2.0 / max(settings.rule.tol, ROUNDING))
    sizes = np.sort(diagonal)[::-1] + settings.alphas.min()
    low = np.quantile(sizes, LOW_SHARE)
    if not low > 0:
        return False
    together = np.min(PER_OUTLIER * np.arange(len(sizes)) + per_root * np.sqrt(sizes / low))
    one_by_one = np.sum(per_root / np.sqrt(1.0 + settings.alphas / np.median(sizes)))
    return bool(together > one_by_one)


def _solve_one_by_one(
    operator: NormalOperator,
    settings: Settings,
    validator: Validator | None,
    on_step: StepCallback | None,
) -> CGResult:
    """Solve from the largest alpha to the smallest, preconditioned, each from those before.

    Only solutions are validated. What was not reached has no value. An alpha whose start is good
    enough is noted at the iteration before it.
    """
    alphas, n_alphas = settings.alphas, len(settings.alphas)
    coefs, lasts = np.zeros((n_alphas, operator.n_features)), np.zeros(n_alphas, dtype=int)
    residuals = np.full((0, n_alphas), np.nan)
    ending = settings.rule.end("converged", 0, 0.0, REMEDY)
    span = _Span(operator)
    for k in np.argsort(-alphas, kind="stable"):
        start = span.solve(alphas[k])
        systems = ShiftedSystems.of(operator, alphas[k : k + 1], start=start, precondition=True)
        hooks = Hooks(_as_part(on_step, len(residuals), alphas, k))
        found = multishift_cg(systems, settings.rule, hooks)
        coefs[k] = found.coefs[0]
        rows = np.full((found.n_iter, n_alphas), np.nan)
        rows[:, k] = found.residuals[:, 0]
        residuals = np.vstack([residuals, rows])
        if found.n_iter == 0:
            residuals[-1:, k] = found.best.residual
        else:
            span.add(coefs[k])
        lasts[k] = len(residuals)
        if ending.converged or found.ending.was_stopped:
            ending = found.ending
        if found.ending.was_stopped:
            break
    return result_of_lasts(alphas, coefs, residuals, lasts, validator, ending)


@final
class _Span:
    """The span of the solutions for other alphas, in which the next one nearly lies.

    Solutions change smoothly along the grid. The equations restricted to the span cost a few inner
    products, and their solution is a far better start than the weights of the neighbour.

    Parameters
    ----------
    operator : NormalOperator
        The left-hand side without alpha.
    """

    def __init__(self, operator: NormalOperator) -> None:
        self.operator, self.rhs = operator, operator.rhs()
        self.basis = np.zeros((0, operator.n_features))
        """Orthonormal rows."""
        self.images = np.zeros((0, operator.n_features))
        """The operator applied to each of them."""

    def add(self, coef: FloatArray) -> None:
        """Make the span hold a solution, up to rounding errors."""
        direction = coef.copy()
        for _ in range(2):  # once leaves rounding errors of the size of what is left
            direction -= (self.basis @ direction) @ self.basis
        length = np.linalg.norm(direction)
        if length > ROUNDING * np.linalg.norm(coef):
            direction /= length
            self.basis = np.vstack([self.basis, direction])
            self.images = np.vstack([self.images, self.operator.apply(direction)])

    def solve(self, alpha: float) -> FloatArray | None:
        """Return the solution of the equations restricted to the span (Galerkin); None if empty."""
        if len(self.basis) == 0:
            return None
        left = self.basis @ self.images.T + alpha * np.eye(len(self.basis))
        solution: FloatArray = np.linalg.solve(left, self.basis @ self.rhs) @ self.basis
        return solution


def _as_part(
    on_step: StepCallback | None, before: int, alphas: FloatArray, k: int
) -> StepCallback | None:
    """Return what turns a step of one alpha into a step of the whole grid and passes it on."""
    if on_step is None:
        return None

    def call(step: Step) -> object:
        residuals, values = np.full((2, len(alphas)), np.nan)
        residuals[k] = step.error
        return on_step(
            Step(
                before + step.iteration,
                step.error,
                alphas=alphas,
                residuals=residuals,
                values=values,
            )
        )

    return call
