"""Conjugate gradients for linear ranking: one alpha or many, stopped by residual or validation."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.errors import InvalidInputError
from rankwise.core.threads import even_parts, run_parts, serial_blas
from rankwise.solve._kernels import advance
from rankwise.solve.iteration import Interrupts, deferred_interrupts
from rankwise.solve.operators import NormalOperator
from rankwise.solve.rows import Rows


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """Rate iterates on rows of their own, whose scores follow the recurrences of the weights.

    Parameters
    ----------
    rows : Rows
        The validation rows.
    rate : callable
        Gives the value of each row of scores (n_vectors, n_items).
    greater_is_better : bool
        Whether a high value is a good one.
    """

    rows: Rows
    rate: Callable[[FloatArray], FloatArray]
    greater_is_better: bool = True

    def merit(self, values: FloatArray) -> FloatArray:
        """Return values of which the highest is best."""
        return values if self.greater_is_better else -values


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """The equations ``(X' L X + alpha I) w = X' r`` for each alpha.

    Parameters
    ----------
    operator : NormalOperator
        The left-hand side without alpha.
    rhs : (n_features,)
        The right-hand side.
    alphas : (n_alphas,)
        The values of alpha.
    scale : (n_features,)
        What the unknowns are multiplied with to make the weights: ones, or a preconditioner, which
        only a single alpha allows.
    start : (n_features,)
        The weights from which to start; other than zeros for a single alpha only.
    validation : Validation, optional
        Rates every iterate.
    """

    operator: NormalOperator
    rhs: FloatArray
    alphas: FloatArray
    scale: FloatArray
    start: FloatArray
    validation: Validation | None

    @classmethod
    def of(
        cls,
        operator: NormalOperator,
        alphas: FloatArray,
        *,
        start: FloatArray | None = None,
        validation: Validation | None = None,
        precondition: bool = False,
    ) -> Self:
        """Build, with the preconditioner ``diag(X' L X) + alpha`` where it is wanted (Jacobi)."""
        n_features = operator.rows.n_features
        scale = np.ones(n_features)
        if precondition:
            diagonal = operator.scale() + alphas[0]
            scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        origin = np.zeros(n_features) if start is None else start
        return cls(operator, operator.rhs(), alphas, scale, origin, validation)

    @property
    def base(self) -> float:
        """The smallest alpha, whose Krylov space is built."""
        return float(self.alphas.min())

    def apply(self, u: FloatArray) -> FloatArray:
        """Return the left-hand side of the scaled equations for the smallest alpha."""
        w = self.scale * u
        return self.scale * (self.operator.apply(w) + self.base * w)

    def residual(self) -> FloatArray:
        """Return the scaled residual at the start."""
        if not self.start.any():
            return self.scale * self.rhs
        gone = self.operator.apply(self.start) + self.base * self.start
        return self.scale * (self.rhs - gone)

    def scores(self, u: FloatArray) -> FloatArray:
        """Return the validation scores of scaled unknowns; none without validation rows."""
        if self.validation is None:
            return np.zeros(0)
        return self.validation.rows.product(self.scale * u)


@final
@dataclass(eq=False)
class State:
    """Everything that changes from one iteration to the next; arrays and numbers only.

    Names follow the recurrences of multi-shift conjugate gradients: r and p belong to the smallest
    alpha, the residual of shift l is ``zeta_l r``, and W, P hold unknowns and directions of all of
    them. S and T are the same for validation scores.
    """

    iteration: int
    norm: float
    r: FloatArray
    p: FloatArray
    step: float
    turn: float
    zeta: FloatArray
    zeta_before: FloatArray
    W: FloatArray
    P: FloatArray
    S: FloatArray
    T: FloatArray
    active: BoolArray
    best_value: FloatArray
    best_iteration: IntArray
    champion: FloatArray
    """The weights of the best iterate of all."""
    champion_at: IntArray
    """Its shift and iteration."""
    residuals: FloatArray
    values: FloatArray

    @classmethod
    def at_start(cls, problem: Problem) -> Self:
        """Stand before the first iteration."""
        n_shifts, r = len(problem.alphas), problem.residual()
        scores, directions = problem.scores(np.zeros(len(r))), problem.scores(r)
        if problem.validation is not None:
            scores = scores + problem.validation.rows.product(problem.start)
        return cls(
            iteration=0,
            norm=float(np.linalg.norm(problem.rhs)),
            r=r,
            p=r.copy(),
            step=1.0,
            turn=0.0,
            zeta=np.ones(n_shifts),
            zeta_before=np.ones(n_shifts),
            W=np.zeros((n_shifts, len(r))),
            P=np.tile(r, (n_shifts, 1)),
            S=np.tile(scores, (n_shifts, 1)),
            T=np.tile(directions, (n_shifts, 1)),
            active=np.ones(n_shifts, dtype=bool),
            best_value=np.full(n_shifts, -np.inf),
            best_iteration=np.zeros(n_shifts, dtype=np.intp),
            champion=problem.start.copy(),
            champion_at=np.array([int(np.argmin(problem.alphas)), 0]),
            residuals=np.zeros((0, n_shifts)),
            values=np.zeros((0, n_shifts)),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all fields as arrays, to be written to a file."""
        return {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Stand where the arrays were taken."""
        given: dict[str, Any] = {f.name: np.array(arrays[f.name]) for f in fields(cls)}
        numbers = {name: value.item() for name, value in given.items() if value.ndim == 0}
        return cls(**given | numbers)

    def move(self, problem: Problem) -> bool:
        """Make one iteration for all active shifts; False when the Krylov space is exhausted."""
        q = problem.apply(self.p)
        before, curvature = self.r @ self.r, self.p @ q
        if not curvature > 0.0:
            return False
        step = float(before / curvature)
        zeta = self._next_zeta(step, problem.alphas - problem.base)
        ratio = zeta / self.zeta
        self.r -= step * q
        turn = float((self.r @ self.r) / before)
        arguments = (np.flatnonzero(self.active), step * ratio, zeta, turn * ratio**2)
        _advance(self.W, self.P, self.r, *arguments)
        _advance(self.S, self.T, problem.scores(self.r), *arguments)
        self.p = self.r + turn * self.p
        self.zeta_before, self.zeta = self.zeta, zeta
        self.step, self.turn = step, turn
        self.iteration += 1
        return True

    def _next_zeta(self, step: float, shift: FloatArray) -> FloatArray:
        """Return the factor by which the residual of each active shift is smaller."""
        bend = step * self.turn * (self.zeta_before - self.zeta)
        fall = self.zeta_before * self.step
        with np.errstate(all="ignore"):  # shifts that came to rest are not looked at again
            zeta = self.zeta * fall / (bend + fall * (1.0 + shift * step))
        return np.where(self.active, zeta, self.zeta)


def _advance(
    X: FloatArray,
    P: FloatArray,
    r: FloatArray,
    active: IntArray,
    step: FloatArray,
    zeta: FloatArray,
    turn: FloatArray,
) -> None:
    edges = even_parts(len(active) * np.arange(len(r) + 1))

    def task(_: int, first: int, last: int) -> None:
        advance(X, P, r, active, step, zeta, turn, first, last)

    run_parts(task, edges)


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
