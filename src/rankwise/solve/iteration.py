"""What iterative solvers share: stopping rules, steps, endings, certificates and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, TypeAlias, TypeVar, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning, warn_caller
from rankwise.core.storable import storable

Reason: TypeAlias = Literal[
    "converged", "no improvement", "exhausted", "max_iter", "precision", "callback", "interrupted"
]
"""Why an iteration ends.

The error fell below the tolerance; validation stopped improving; there is nowhere left to go; the
limit was reached; rounding errors forbid further steps; a callback asked for it; Ctrl-C.
"""

_FINISHED = ("converged", "no improvement", "exhausted")


@final
@dataclass(frozen=True)
class StoppingRule:
    """Hold when to stop.

    Parameters
    ----------
    tol : float
        The relative error that counts as solved: a residual, a duality gap or a change.
    max_iter : int
        Largest number of iterations.
    patience : int, optional
        Stop when the validation value has not improved for this many iterations.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    patience: int | None = None

    def end(self, reason: Reason, n_iter: int, error: float, remedy: str = "") -> Ending:
        """Return the ending of an iteration, with its message.

        Parameters
        ----------
        reason : str
            Why it ended.
        n_iter : int
            Number of iterations made.
        error : float
            The relative error reached.
        remedy : str
            What a user can do if it ended too early.
        """
        reached = f"the relative error is {error:.1e}, tol is {self.tol:.1e}"
        messages: dict[Reason, str] = {
            "converged": f"Converged after {n_iter} iterations: {reached}.",
            "no improvement": f"Stopped after {n_iter} iterations: validation stopped improving.",
            "exhausted": f"Solved exactly after {n_iter} iterations.",
            "max_iter": f"Not converged after max_iter={self.max_iter} iterations: {reached}. "
            f"{remedy or 'Raise max_iter or tol.'}",
            "precision": f"Not converged: rounding errors end the run after {n_iter} iterations; "
            f"{reached}. {remedy or 'Raise tol.'}",
            "callback": f"Stopped by the callback after {n_iter} iterations: {reached}.",
            "interrupted": f"Stopped by Ctrl-C after {n_iter} iterations; the best so far is kept: "
            f"{reached}.",
        }
        return Ending(reason, messages[reason])


@final
@dataclass(frozen=True, eq=False)
class Step:
    """Hold the state of an iteration; callbacks are called with one after each iteration.

    Parameters
    ----------
    iteration : int
        Number of iterations made.
    error : float
        The relative residual, duality gap or change, which is compared with the tolerance.
    objective : float
        The value that is minimised; NaN if it is unknown.
    label : str
        What is being solved, if several problems are solved in turn.
    alphas, residuals, values : (n_alphas,)
        For a grid solved at once: each alpha's relative residual and validation value, NaN if it
        has finished or is not validated.

    Examples
    --------
    >>> from rankwise import Step
    >>> print(Step(3, error=1e-4, objective=2.5))
    iteration 3  objective 2.5  error 1.0e-04
    """

    iteration: int
    error: float
    objective: float = np.nan
    label: str = ""
    alphas: FloatArray = field(default_factory=lambda: np.zeros(0))
    residuals: FloatArray = field(default_factory=lambda: np.zeros(0))
    values: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __str__(self) -> str:
        parts = [self.label] if self.label else []
        parts.append(f"iteration {self.iteration}")
        if np.isfinite(self.objective):
            parts.append(f"objective {self.objective:.6g}")
        if np.isfinite(self.error):
            parts.append(f"error {self.error:.1e}")
        return "  ".join(parts)


@storable
@final
@dataclass(frozen=True)
class Ending:
    """Hold why an iteration ended, and what to do about it.

    Parameters
    ----------
    reason : str
        The reason: "converged", "max_iter", "interrupted" ...
    message : str
        The same as a sentence, with the error reached and a remedy.

    Examples
    --------
    >>> from rankwise import RankSVM
    >>> ranker = RankSVM().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> ranker.solution_.ending.reason, ranker.solution_.ending.converged
    ('converged', True)
    """

    reason: Reason
    message: str

    @property
    def converged(self) -> bool:
        """Whether the iteration converged."""
        return self.reason in _FINISHED

    @property
    def was_stopped(self) -> bool:
        """Whether a callback or Ctrl-C stopped it."""
        return self.reason in ("callback", "interrupted")

    def warn(self) -> None:
        """Warn unless the iteration converged or a callback stopped it."""
        if not self.converged and self.reason != "callback":
            warn_caller(self.message, ConvergenceWarning)

    def __str__(self) -> str:
        return self.message


@storable
@final
@dataclass(frozen=True)
class Certificate:
    """Bound how far an objective is from its minimum.

    Parameters
    ----------
    objective : float
        The objective at the solution.
    bound : float
        A lower bound of the objective: the dual objective.

    Examples
    --------
    >>> from rankwise import Certificate
    >>> Certificate(objective=2.0, bound=1.5).gap
    0.25
    """

    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """How far the objective is from the bound, as a share of the objective."""
        return (self.objective - self.bound) / self.objective if self.objective > 0 else 0.0


@storable
@final
@dataclass(frozen=True, eq=False)
class CertifiedSolution:
    """Hold a solution with a bound on how far its objective is from the minimum.

    Parameters
    ----------
    C : float
        The factor of the loss.
    point : (n_unknowns,)
        The weights of features, or of items for a kernel.
    certificate : Certificate
        The objective at the point, and the bound.
    n_iter : int
        Number of iterations.
    ending : Ending
        Why the solver ended.
    details : mapping
        Further results of the solver: counts, seconds, slacks.

    Examples
    --------
    >>> from rankwise import RankSVM
    >>> solution = RankSVM(tol=1e-3).fit([[0.0], [1.0], [2.0]], [0, 1, 2]).solution_
    >>> solution.gap < 1e-3, solution.objective >= solution.bound
    (True, True)
    """

    C: float
    point: FloatArray
    certificate: Certificate
    n_iter: int
    ending: Ending
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def objective(self) -> float:
        """The objective at the point."""
        return self.certificate.objective

    @property
    def bound(self) -> float:
        """The lower bound of the objective."""
        return self.certificate.bound

    @property
    def gap(self) -> float:
        """How far the objective is from the bound, as a share of the objective."""
        return self.certificate.gap

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.ending.converged


def wants_to_stop(answer: Any) -> bool:
    """Return whether a callback returned True; anything else lets the iteration continue."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


T = TypeVar("T")
StepCallback: TypeAlias = Callable[[Step], object]


def followed(items: Iterable[T], total: int, label: str, *, shown: bool) -> Iterator[T]:
    """Yield the items, with a bar on standard error if ``shown``."""
    if not shown:
        yield from items
        return
    rich, console = import_module("rich.progress"), import_module("rich.console")
    bar = console.Console(stderr=True)  # what is printed may be piped to a program
    yield from rich.track(items, description=label, total=total, console=bar)


@contextmanager
def steps_shown(
    progress: bool | StepCallback,
    label: str = "fit",
    total: int | None = None,
    describe: Callable[[Step], str] = str,
) -> Iterator[StepCallback | None]:
    """Yield the function to call after each step: nothing, the caller's, or a bar on stderr.

    Parameters
    ----------
    progress
        Whether to show a bar; or a function to call instead.
    label
        The description before the first step.
    total : int, optional
        Number of iterations at which the bar ends; without it the bar only shows the time.
    describe
        A step in words.
    """
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    rich, console = import_module("rich.progress"), import_module("rich.console")
    columns = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TimeElapsedColumn()
    with rich.Progress(*columns, console=console.Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)

        def show(step: Step) -> None:
            completed = None if total is None else step.iteration
            bar.update(task, description=describe(step), completed=completed)

        yield show
