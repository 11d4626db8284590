"""A run of conjugate gradients: its settings, its progress and its checkpoint."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, ModelFileError, warn_caller
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.io.model_file import read_model, write_model
from rankwise.measures.value import Measure
from rankwise.solve.conjugate_gradients import (
    REMEDY,
    ROUNDING,
    CGResult,
    Hooks,
    ShiftedSystems,
    Validator,
    jacobi_scale,
    multishift_cg,
    raised_diagonal,
    result_of_lasts,
    side_by_side_cg,
)
from rankwise.solve.iteration import Reason, Step, StepCallback, StoppingRule, steps_shown
from rankwise.solve.operators import (
    SIDE_BY_SIDE,
    JointProduct,
    NormalOperator,
    alone_product,
    joint_operator,
)
from rankwise.solve.rows import StoredRows

Storage: TypeAlias = Literal["float32", "float64"]

ENOUGH = 0.5
"""Preferences per feature from which the sizes of features tell how many iterations a grid takes;
with fewer of them, directions without any take part in none."""

LOW_SHARE = 0.01
"""Features smaller than all but this share of them take part in no estimate."""

CONDITION = 2.5
"""Root of the condition number that features of one size are taken to have."""

PER_OUTLIER = 2.0
"""Iterations that a feature much larger than the others is taken to cost."""

AGREEMENT = 1e-9
"""Share of the largest entry by which equal equations may differ, summed in another order."""


LARGEST_ALPHA = 1e300
"""Products with larger ones exceed the range of double precision."""

ALPHA_ADVICE = (
    "Choose a positive value; 0 needs early_stopping=True, where the number of iterations "
    "regularises."
)


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
        Whether the diagonal may be used as preconditioner: for one alpha solved to convergence.
    graph_options : dict
        The options of `PreferenceGraph.of`.
    measure : Measure
        The measure that decides on validation data.
    dtype, progress, checkpoint
        As in `LinearRankRLS`.
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
        """Check what relates the parameters of a ranker, which are in their one form."""
        early = ranker.early_stopping
        alphas = _grid(ranker.alpha, ranker.alphas, zero_allowed=early)
        if ranker.warm_start and len(alphas) > 1:
            raise InvalidInputError(
                f"`warm_start` must be used with a single alpha: got {len(alphas)}, which share a "
                "Krylov space only from a start at zero. Set warm_start=False or alphas=None."
            )
        rule = StoppingRule(
            tol=ranker.tol,
            max_iter=ranker.max_iter,
            patience=ranker.n_iter_no_change if early else None,
        )
        return cls(
            alphas,
            rule,
            precondition=len(alphas) == 1 and not early,
            graph_options={
                name: getattr(ranker, name) for name in ("cost", "ties", "query_weight")
            },
            measure=ranker.measure,
            dtype=ranker.dtype,
            progress=ranker.progress,
            checkpoint=ranker.checkpoint,
        )

    def refuse_checkpoint(self, n_outputs: int) -> None:
        """Refuse to write several runs to one file."""
        if self.checkpoint is not None and n_outputs > 1:
            raise InvalidInputError(
                f"`checkpoint` must be None with several outputs: y has {n_outputs}. Leave it out, "
                "or fit one ranker per output."
            )

    @property
    def needs_validation(self) -> bool:
        """Whether validation data decide on anything."""
        return len(self.alphas) > 1 or self.rule.patience is not None


def _grid(alpha: float, alphas: FloatArray | None, *, zero_allowed: bool) -> FloatArray:
    """Return the grid, or else the single alpha; 0 only where iterations regularise."""
    grid = np.array([alpha]) if alphas is None else np.ravel(alphas)
    if not len(grid):
        raise InvalidInputError("`alphas` must hold at least one value: got none.")
    if not zero_allowed and not grid.all():
        name = "alpha" if alphas is None else "alphas"
        raise InvalidInputError(f"`{name}` must be a finite number above 0: got 0. {ALPHA_ADVICE}")
    return grid


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The file of a run, and what a run must have in common with it to resume.

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
        """Write the state of the run atomically; if that fails, warn and continue."""
        try:
            write_model(self.path, self.identity, {**state, **self.equations})
        except (OSError, ModelFileError) as error:
            warn_caller(
                f"The checkpoint could not be written; the fit continues without it: {error}",
                RuntimeWarning,
            )

    def read(self) -> Mapping[str, NDArray[Any]] | None:
        """Return the state in the file; None if there is no file yet."""
        if not Path(self.path).exists():
            return None
        identity, arrays = read_model(self.path)
        if identity != self.identity or not self._agrees(arrays):
            raise ModelFileError(
                f"{os.fspath(self.path)}: expected a checkpoint of the same data and parameters, "
                "got one of others. Remove the file to start again, or give another path."
            )
        return arrays

    def _agrees(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        return all(
            len(arrays[name]) == len(expected)
            and np.abs(arrays[name] - expected).max() <= AGREEMENT * np.abs(expected).max()
            for name, expected in self.equations.items()
        )


@final
@dataclass(frozen=True, eq=False)
class LinearProblem:
    """What one run solves.

    Parameters
    ----------
    operator : NormalOperator
        The equations.
    alphas : (n_alphas,)
        The values of alpha.
    validator : Validator, optional
        Rates the iterates.
    start : (n_features,), optional
        The weights from which to start.
    label : str
        Its name, if there are several.
    """

    operator: NormalOperator
    alphas: FloatArray
    validator: Validator | None = None
    start: FloatArray | None = None
    label: str = ""

    def systems(self, *, precondition: bool) -> ShiftedSystems:
        """Return the equations, preconditioned or not."""
        return ShiftedSystems.of(
            self.operator,
            self.alphas,
            start=self.start,
            validator=self.validator,
            precondition=precondition,
        )


def run(
    operator: NormalOperator,
    settings: Settings,
    validator: Validator | None,
    start: FloatArray | None,
) -> CGResult:
    """Solve for every alpha; show progress, use the checkpoint, and warn if it stopped early.

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
    problem = LinearProblem(operator, settings.alphas, validator, start)
    if settings.checkpoint is None:
        return run_side_by_side([problem], alone_product(operator), settings)[0]
    with _steps(settings, validator) as on_step:
        systems = problem.systems(precondition=settings.precondition)
        file = Checkpoint.of(settings.checkpoint, systems, settings)
        result = multishift_cg(systems, settings.rule, Hooks(on_step, file.write), file.read())
    result.ending.warn()
    return result


@final
@dataclass(frozen=True, eq=False)
class OutputProblem:
    """The problem of one run over shared rows: one output, or the part that is not held out.

    Parameters
    ----------
    output : int
        Its number.
    graph : PreferenceGraph
        The preferences.
    alphas : (n_alphas,)
        The values of alpha.
    validator, start, label
        As in `LinearProblem`.
    n_held_out : int
        Number of whole queries that are held out.
    """

    output: int
    graph: PreferenceGraph
    alphas: FloatArray
    validator: Validator | None = None
    start: FloatArray | None = None
    label: str = ""
    n_held_out: int = 0

    def over(self, operator: NormalOperator) -> LinearProblem:
        """Return the equations of these preferences, given their operator."""
        return LinearProblem(operator, self.alphas, self.validator, self.start, self.label)


def run_in_batches(
    rows: StoredRows, problems: Iterable[OutputProblem], settings: Settings
) -> Iterator[tuple[OutputProblem, CGResult]]:
    """Solve problems over the same rows, a few at a time; yield each with its result.

    Only the best weights are kept. After a request to stop, no new problem is started. With a
    checkpoint there is a single problem.

    Parameters
    ----------
    rows : StoredRows
        The rows of all items.
    problems : iterable of OutputProblem
        What to solve.
    settings : Settings
        When to stop, and how to show progress.
    """
    left = iter(problems)
    stopped: Reason | None = None
    while batch := list(islice(left, SIDE_BY_SIDE)):
        operators, product = joint_operator(rows, [problem.graph for problem in batch])
        linear = [one.over(operator) for one, operator in zip(batch, operators, strict=True)]
        if settings.checkpoint is None:
            found = run_side_by_side(linear, product, settings, stopped)
        else:
            found = [run(one.operator, settings, one.validator, one.start) for one in linear]
        for problem, result in zip(batch, found, strict=True):
            stopped = stopped or _stop_of(result)
            yield problem, replace(result, coefs=result.best.coef[None])


def run_side_by_side(
    problems: Sequence[LinearProblem],
    product: JointProduct,
    settings: Settings,
    stopped: Reason | None = None,
) -> list[CGResult]:
    """Solve several problems over the same rows, an iteration of each in turn; warn at the end.

    Parameters
    ----------
    problems : sequence of LinearProblem
        What to solve.
    product : callable
        Applies the operators of some of them, see `side_by_side_cg`.
    settings : Settings
        When to stop, and how to show progress.
    stopped : str, optional
        Why runs end before they begin, if a stop was requested already.
    """
    one_by_one = [_one_by_one_is_quicker(problem, settings) for problem in problems]
    results: list[CGResult | None] = [None] * len(problems)
    with _steps(settings, problems[0].validator) as on_step:
        for solve, way in ((_solve_at_once, False), (_solve_one_by_one, True)):
            those = [k for k, quicker in enumerate(one_by_one) if quicker is way]
            if not those:
                continue
            some = _renumbered(product, those)
            found = solve([problems[k] for k in those], some, settings, on_step, stopped)
            for k, result in zip(those, found, strict=True):
                results[k] = result
                stopped = stopped or _stop_of(result)
    done = [result for result in results if result is not None]
    unfinished = [result.ending for result in done if not result.ending.converged]
    for ending in unfinished[:1]:
        ending.warn()
    return done


def _stop_of(result: CGResult) -> Reason | None:
    """Return why a run was stopped from outside; None if it was not."""
    return result.ending.reason if result.ending.was_stopped else None


def _renumbered(product: JointProduct, those: list[int]) -> JointProduct:
    """Return a product that renumbers some of the operators."""
    return lambda W, which: product(W, [those[k] for k in which])


def _solve_at_once(
    problems: Sequence[LinearProblem],
    product: JointProduct,
    settings: Settings,
    on_step: StepCallback | None,
    stopped: Reason | None,
) -> list[CGResult]:
    """Solve for all alphas of a problem from one Krylov space."""
    systems = [problem.systems(precondition=settings.precondition) for problem in problems]
    hooks = [Hooks(_labelled(on_step, problem.label)) for problem in problems]
    return side_by_side_cg(systems, product, settings.rule, hooks, stopped)


def _labelled(on_step: StepCallback | None, label: str) -> StepCallback | None:
    if on_step is None or not label:
        return on_step
    return lambda step: on_step(replace(step, label=label))


def _steps(
    settings: Settings, validator: Validator | None
) -> AbstractContextManager[StepCallback | None]:
    """Return what to call after each step."""

    def describe(step: Step) -> str:
        text = f"iteration {step.iteration}  residual {step.error:.1e}"
        if step.label:
            text = f"{step.label}  {text}"
        if validator is None or np.isnan(step.values).all():
            return text
        return f"{text}  validation {validator.best(step.values):.4f}"

    return steps_shown(settings.progress, total=settings.rule.max_iter, describe=describe)


def _one_by_one_is_quicker(problem: LinearProblem, settings: Settings) -> bool:
    """Compare estimates of the iterations of a grid in one Krylov space and one by one.

    Only a single alpha can be preconditioned. One by one, each alpha takes about as many iterations
    as if all features had one size. Together, the number depends on the spread of the sizes; the
    few largest count as outliers, which cost an iteration or two each.

    Measured, in CPU time for 13 alphas of 20,000 items: one by one is 12 times as fast for 136
    features whose sizes spread over four powers of ten, 6 times over one, and 2.5 times for counts
    of 5,000 words; together is 2.7 times as fast for 136 strongly correlated features of one size.
    """
    alphas, operator = problem.alphas, problem.operator
    if len(alphas) == 1 or settings.rule.patience is not None:
        return False
    if operator.rank < ENOUGH * operator.n_features:
        return False
    diagonal = operator.diagonal()
    if not diagonal.any():
        return False
    per_root = CONDITION * 0.5 * np.log(2.0 / max(settings.rule.tol, ROUNDING))
    sizes = np.sort(diagonal[diagonal > 0])[::-1] + alphas.min()
    low = np.quantile(sizes, LOW_SHARE)
    together = np.min(PER_OUTLIER * np.arange(len(sizes)) + per_root * np.sqrt(sizes / low))
    one_by_one = np.sum(per_root / np.sqrt(1.0 + alphas / np.median(sizes)))
    return bool(together > one_by_one)


def _solve_one_by_one(
    problems: Sequence[LinearProblem],
    product: JointProduct,
    settings: Settings,
    on_step: StepCallback | None,
    stopped: Reason | None,
) -> list[CGResult]:
    """Solve from the largest alpha to the smallest, preconditioned, each from the earlier ones.

    Only solutions are validated. Alphas that were not reached have no value.
    """
    grids = [_Grid(problem, settings.rule) for problem in problems]
    n_alphas = len(problems[0].alphas)
    for position in range(n_alphas):
        systems = [grid.next_systems() for grid in grids]
        hooks = [Hooks(_labelled(grid.as_part(on_step), grid.problem.label)) for grid in grids]
        found = side_by_side_cg(systems, product, settings.rule, hooks, stopped)
        for grid, result in zip(grids, found, strict=True):
            grid.keep(result)
            stopped = stopped or _stop_of(result)
        if stopped or position + 1 == n_alphas:
            break
        new = [(k, grid.new_direction()) for k, grid in enumerate(grids)]
        which = [k for k, direction in new if direction is not None]
        rows = [direction for _, direction in new if direction is not None]
        if which:
            for k, row, image in zip(which, rows, product(np.stack(rows), which), strict=True):
                grids[k].add(row, image)
    return [grid.result() for grid in grids]


@final
class _Grid:
    """The alphas of one problem, solved from the largest to the smallest.

    Solutions change smoothly along the grid, so the next one nearly lies in the span of the earlier
    ones. The equations restricted to the span cost a few inner products, and their solution is a
    far better start than the weights of the neighbour.

    Parameters
    ----------
    problem : LinearProblem
        The equations.
    rule : StoppingRule
        When to stop.
    """

    def __init__(self, problem: LinearProblem, rule: StoppingRule) -> None:
        operator, n_alphas = problem.operator, len(problem.alphas)
        self.problem = problem
        self.order = np.argsort(-problem.alphas, kind="stable")
        self.n_done, self.has_moved = 0, False
        self.coefs = np.zeros((n_alphas, operator.n_features))
        self.lasts = np.zeros(n_alphas, dtype=int)
        self.residuals = np.full((0, n_alphas), np.nan)
        self.ending = rule.end("converged", 0, 0.0, REMEDY)
        self.rhs, self.diagonal = operator.rhs(), raised_diagonal(operator)
        self.basis = np.zeros((0, operator.n_features))
        """Orthonormal rows that span the solutions."""
        self.images = np.zeros((0, operator.n_features))
        """The operator applied to each of them."""

    def next_systems(self) -> ShiftedSystems:
        """Return the equations of the next alpha, with the solution in the span as start."""
        alphas = self.problem.alphas[self.order[self.n_done]][None]
        weights = self._galerkin(float(alphas[0]))
        return ShiftedSystems(
            self.problem.operator,
            self.rhs,
            alphas,
            jacobi_scale(self.diagonal, float(alphas[0])),
            weights @ self.basis,
            None,
            weights @ self.images,
        )

    def _galerkin(self, alpha: float) -> FloatArray:
        """Return the solution of the equations restricted to the span."""
        left = self.basis @ self.images.T + alpha * np.eye(len(self.basis))
        return np.asarray(np.linalg.solve(left, self.basis @ self.rhs), dtype=np.float64)

    def keep(self, found: CGResult) -> None:
        """Store the solution for the next alpha, also if its start was already good enough.

        In that case it is recorded at the previous iteration.
        """
        k = self.order[self.n_done]
        self.coefs[k] = found.coefs[0]
        rows = np.full((found.n_iter, len(self.coefs)), np.nan)
        rows[:, k] = found.residuals[:, 0]
        self.residuals = np.vstack([self.residuals, rows])
        if found.n_iter == 0:
            self.residuals[-1:, k] = found.best.residual
        self.lasts[k] = len(self.residuals)
        if self.ending.converged or found.ending.was_stopped:
            self.ending = found.ending
        self.n_done, self.has_moved = self.n_done + 1, found.n_iter > 0

    def new_direction(self) -> FloatArray | None:
        """Return the unit direction that the last solution adds to the span; None if none."""
        if not self.has_moved:
            return None
        coef = self.coefs[self.order[self.n_done - 1]]
        direction = coef.copy()
        for _ in range(2):  # once leaves rounding errors of the size of what is left
            direction -= (self.basis @ direction) @ self.basis
        length = np.linalg.norm(direction)
        return direction / length if length > ROUNDING * np.linalg.norm(coef) else None

    def add(self, direction: FloatArray, image: FloatArray) -> None:
        """Add a direction to the span, given the operator applied to it."""
        self.basis = np.vstack([self.basis, direction])
        self.images = np.vstack([self.images, image])

    def result(self) -> CGResult:
        """Rate the solutions and choose among them."""
        return result_of_lasts(
            self.problem.alphas, self.coefs, self.residuals, self.lasts, self.problem.validator,
            self.ending,
        )  # fmt: skip

    def as_part(self, on_step: StepCallback | None) -> StepCallback | None:
        """Return a function that turns a step of the next alpha into one of the whole grid."""
        if on_step is None:
            return None
        before, alphas, k = len(self.residuals), self.problem.alphas, self.order[self.n_done]

        def call(step: Step) -> object:
            residuals, values = np.full((2, len(alphas)), np.nan)
            residuals[k] = step.error
            known: dict[str, Any] = {"alphas": alphas, "residuals": residuals, "values": values}
            return on_step(Step(before + step.iteration, step.error, **known))

        return call
