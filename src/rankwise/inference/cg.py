"""Conjugate gradients for linear ranking: one alpha or many, stopped by residual or validation."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, freeze
from rankwise.core.errors import InvalidInputError
from rankwise.core.threads import serial_blas
from rankwise.inference._interrupts import Interrupts, deferred_interrupts
from rankwise.inference.cg_state import Problem, State

Ending: TypeAlias = Literal[
    "converged", "no improvement", "max_iter", "callback", "interrupted", "exhausted"
]

ROUNDING = 1e-15
"""Residuals below this share of the right-hand side are rounding errors, not worth a step."""


@final
@dataclass(frozen=True)
class Rule:
    """When to stop.

    Parameters
    ----------
    tol : float
        An alpha has converged when its residual is below so many times the right-hand side.
    max_iter : int
        Number of iterations at most.
    patience : int, optional
        An alpha comes to rest when its validation value has not improved for so many iterations;
        the best iterate of all is then the result, instead of the converged one.
    """

    tol: float = 1e-6
    max_iter: int = 500
    patience: int | None = None

    @property
    def target(self) -> float:
        """The residual that counts as converged: the tolerance, or what rounding allows."""
        return max(self.tol, ROUNDING)


@final
@dataclass(frozen=True, eq=False)
class Step:
    """What one iteration has brought: for each alpha the residual, relative, and the value."""

    iteration: int
    alphas: FloatArray
    residuals: FloatArray
    values: FloatArray
    """Validation values, NaN for an alpha at rest or without validation data."""


@final
@dataclass(frozen=True, eq=False)
class Hooks:
    """What is called on the way.

    Parameters
    ----------
    on_step : callable, optional
        Gets every `Step`; stops the run by returning True.
    save : callable, optional
        Gets the arrays from which the run can go on, now and then and at the end.
    seconds : float
        Time between two calls of ``save``.
    """

    on_step: Callable[[Step], object] | None = None
    save: Callable[[Mapping[str, NDArray[Any]]], None] | None = None
    seconds: float = 60.0


@final
@dataclass(frozen=True, eq=False)
class Iterate:
    """One point of the way: the weights after some iterations for one alpha."""

    alpha: float
    iteration: int
    coef: FloatArray
    residual: float
    """Norm of ``X' r - (X' L X + alpha I) w`` divided by that of ``X' r``."""
    value: float
    """Validation value, NaN without validation data."""


@final
@dataclass(frozen=True, eq=False)
class Descent:
    """The result of a run.

    Parameters
    ----------
    best : Iterate
        With ``patience``, the iterate of the best validation value; otherwise the last one, of the
        alpha that validates best.
    coefs : (n_alphas, n_features)
        The last iterate of every alpha.
    alphas : (n_alphas,)
        The alphas.
    residuals : (n_iterations, n_alphas)
        Relative residuals, NaN where an alpha was at rest.
    values : (n_iterations, n_alphas)
        Validation values, NaN where there is none.
    ending : str
        Why the run ended.
    """

    best: Iterate
    coefs: FloatArray
    alphas: FloatArray
    residuals: FloatArray
    values: FloatArray
    ending: Ending

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.residuals)

    @property
    def converged(self) -> bool:
        """Whether every alpha came to rest by itself."""
        return self.ending in ("converged", "no improvement", "exhausted")


def descend(
    problem: Problem,
    rule: Rule,
    hooks: Hooks | None = None,
    saved: Mapping[str, NDArray[Any]] | None = None,
) -> Descent:
    """Solve ``(X' L X + alpha I) w = X' r`` for every alpha from one Krylov space.

    One application of the operator per iteration, whatever the number of alphas, and one product
    with the validation rows. Ctrl-C ends the run after the iteration at hand.

    Parameters
    ----------
    problem : Problem
        The equations.
    rule : Rule
        When to stop.
    hooks : Hooks, optional
        What to call on the way.
    saved : mapping of arrays, optional
        What ``hooks.save`` got last: the run goes on from there, to the same result.

    Notes
    -----
    Conjugate gradients on [APS10] (8); with ``patience`` regularisation by iteration, Sect. 3.4.
    All shifts of one matrix share their Krylov space, and their residuals are multiples of one
    another, which gives each of them its own short recurrence.
    """
    with serial_blas(), deferred_interrupts() as interrupts:
        return _Run.of(problem, rule, hooks or Hooks(), saved).to_the_end(interrupts)


@final
@dataclass(eq=False)
class _Run:
    problem: Problem
    rule: Rule
    hooks: Hooks
    state: State
    last_saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(
        cls,
        problem: Problem,
        rule: Rule,
        hooks: Hooks,
        saved: Mapping[str, NDArray[Any]] | None,
    ) -> Self:
        state = State.at_start(problem) if saved is None else _resumed(saved, rule)
        return cls(problem, rule, hooks, state)

    def to_the_end(self, interrupts: Interrupts) -> Descent:
        ending = self._loop(interrupts)
        self._save(always=True)
        return self._result(ending)

    def _loop(self, interrupts: Interrupts) -> Ending:
        state = self.state
        if np.linalg.norm(state.r / self.problem.scale) <= self.rule.target * state.norm:
            return "converged"
        while state.active.any():
            if interrupts.pending:
                return "interrupted"
            if state.iteration >= self.rule.max_iter:
                return "max_iter"
            if not state.move(self.problem):
                return "exhausted"
            step = self._look()
            self._save()
            answer = None if self.hooks.on_step is None else self.hooks.on_step(step)
            if isinstance(answer, bool | np.bool_) and answer:
                return "callback"
        done = _last(state.residuals) <= self.rule.target
        return "converged" if done.all() else "no improvement"

    def _look(self) -> Step:
        """Measure the iterates, remember the best, and let those rest that are done."""
        state, active = self.state, self.state.active.copy()
        size = np.linalg.norm(state.r / self.problem.scale) / state.norm
        residuals = np.where(active, np.abs(state.zeta) * size, np.nan)
        values = np.full(len(active), np.nan)
        if self.problem.validation is not None:
            values[active] = self.problem.validation.rate(state.S[active])
            self._compare(self.problem.validation.merit(values))
        state.residuals = np.vstack([state.residuals, residuals])
        state.values = np.vstack([state.values, values])
        state.active &= ~(residuals <= self.rule.target)
        if self.rule.patience is not None:
            waited = state.iteration - state.best_iteration
            state.active &= waited < self.rule.patience
        return Step(state.iteration, self.problem.alphas, residuals, values)

    def _compare(self, merit: FloatArray) -> None:
        """Remember where each alpha was best, and the weights that were best of all."""
        state = self.state
        record = state.best_value.max()
        better = merit > state.best_value  # NaN is never better
        state.best_value = np.where(better, merit, state.best_value)
        state.best_iteration = np.where(better, state.iteration, state.best_iteration)
        if self.rule.patience is not None and state.best_value.max() > record:
            shift = _best(state.best_value, self.problem.alphas)
            state.champion = self._coef(shift)
            state.champion_at = np.array([shift, state.iteration])

    def _coef(self, shift: int) -> FloatArray:
        return self.problem.start + self.problem.scale * self.state.W[shift]

    def _save(self, always: bool = False) -> None:
        if self.hooks.save is None:
            return
        if always or time.monotonic() - self.last_saved > self.hooks.seconds:
            self.hooks.save(self.state.to_arrays())
            self.last_saved = time.monotonic()

    def _result(self, ending: Ending) -> Descent:
        state, problem = self.state, self.problem
        coefs = np.stack([self._coef(shift) for shift in range(len(problem.alphas))])
        if self.rule.patience is not None:
            shift, iteration = state.champion_at.tolist()
            coef = state.champion
        else:
            last = _last(state.values)
            merit = last if problem.validation is None else problem.validation.merit(last)
            shift = _best(merit, problem.alphas)
            iteration = int(np.count_nonzero(~np.isnan(state.residuals[:, shift])))
            coef = coefs[shift]
        known = iteration > 0
        return Descent(
            Iterate(
                float(problem.alphas[shift]),
                iteration,
                freeze(coef),
                float(state.residuals[iteration - 1, shift]) if known else 0.0,
                float(state.values[iteration - 1, shift]) if known else np.nan,
            ),
            freeze(coefs),
            problem.alphas,
            freeze(state.residuals),
            freeze(state.values),
            ending,
        )


def _resumed(saved: Mapping[str, NDArray[Any]], rule: Rule) -> State:
    """Stand where a run was saved, and wake alphas that a larger tolerance has let come to rest."""
    state = State.from_arrays(dict(saved))
    if rule.patience is not None or state.iteration == 0:
        return state
    asleep = ~state.active & (_last(state.residuals) > rule.target)
    left_behind = int(np.count_nonzero(asleep & np.isnan(state.residuals[-1])))
    if left_behind:
        raise InvalidInputError(
            f"`tol` must not be smaller than in the run that was saved, which let {left_behind} of "
            f"{len(asleep)} alphas rest while others went on: got {rule.tol:g}. Start anew."
        )
    state.active |= asleep
    return state


def _best(merit: FloatArray, alphas: FloatArray) -> int:
    """Return the position of the highest merit, NaN being lowest; the largest alpha of equals."""
    return int(np.lexsort((alphas, np.where(np.isnan(merit), -np.inf, merit)))[-1])


def _last(values: FloatArray) -> FloatArray:
    """Return the last value of each alpha that is not NaN."""
    out = np.full(values.shape[1], np.nan)
    for row in values:
        out = np.where(np.isnan(row), out, row)
    return out
