"""Conjugate gradients: one system with many right-hand sides, or many alphas of one system."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import Array, is_on_host, like, namespace_of, to_host
from rankwise.core.threads import equal_parts, run_parts, serial_blas
from rankwise.native.rows import update_shifts
from rankwise.solve.iteration import (
    Ending,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    wants_to_stop,
)
from rankwise.solve.operators import JointProduct, NormalOperator, alone_product
from rankwise.solve.rows import ScorableRows

ROUNDING = 1e-15
"""Residuals below this share of the right-hand side are rounding errors, not worth a step."""

FLOOR = 3.0
"""Times a typical eigenvalue: features below this are scaled alike."""

REMEDY = "Raise max_iter or alpha, or scale the features."

Product: TypeAlias = Callable[[Array], Array]
"""Gives ``A @ V`` for V of shape (order,) or (order, k), of any namespace."""


def dots(A: Array, B: Array) -> FloatArray:
    """Return the product of each column of A with that of B, on the host."""
    if not is_on_host(A):
        return to_host(namespace_of(A).sum(A * B, axis=0))
    products: FloatArray = A @ B if A.ndim == 1 else np.ones(len(A)) @ (A * B)
    return products


@final
class Descent:
    """Conjugate gradients on ``apply(X) = B``, for all columns of B together.

    Columns share every product and take steps of their own. Vectors stay where they are given;
    their products with each other are on the host.

    Parameters
    ----------
    apply : function
        The operator, symmetric and positive definite.
    B : (order,) or (order, k)
        Right-hand sides.
    precondition : function, optional
        An approximate inverse, symmetric and positive definite.
    start : (order,) or (order, k), optional
        Where to start; by default zeros.
    error : function of the descent, optional
        What is compared with the tolerance: an error for each column, which then stops by itself,
        or one for all. By default the residuals as shares of the right-hand sides.
    """

    def __init__(
        self,
        apply: Product,
        B: Array,
        *,
        precondition: Product | None = None,
        start: Array | None = None,
        error: "Callable[[Descent], FloatArray | float] | None" = None,
    ):
        self.apply = apply
        self.precondition, self.error = precondition, error or Descent.residuals
        self.X = B * 0.0 if start is None else start * 1.0
        self.R = B * 1.0 if start is None else B - apply(start)
        norms = np.sqrt(dots(B, B))
        self.norms = np.where(norms > 0, norms, 1.0)
        self.P: Array = None
        self.iteration = 0
        self._preconditioned: Array = None
        self._rho: FloatArray
        self._last_rho: FloatArray
        self._moved: BoolArray

    def residuals(self) -> FloatArray:
        """Return the residuals as shares of the right-hand sides."""
        found: FloatArray = np.sqrt(dots(self.R, self.R)) / self.norms
        return found

    @property
    def rho(self) -> FloatArray:
        """The squared residuals in the norm of the preconditioner, found once they are needed."""
        if self._preconditioned is None:
            S = self.R if self.precondition is None else self.precondition(self.R)
            self._preconditioned, self._rho = S, dots(self.R, S)
        return self._rho

    def run(self, rule: StoppingRule, on_step: StepCallback | None = None) -> Reason:
        """Iterate until every column has converged or something else ends the run."""
        largest = _largest(error := self.error(self))
        while not largest <= rule.tol:
            if self.iteration >= rule.max_iter:
                return "max_iter"
            if not isfinite(largest) or not self._move(error > rule.tol):
                return "precision"
            largest = _largest(error := self.error(self))
            if on_step is not None and wants_to_stop(on_step(Step(self.iteration, largest))):
                return "callback"
        return "converged"

    def _move(self, active: BoolArray | bool) -> bool:
        """Make a step in the active columns; False if rounding errors forbid it."""
        # direction: the preconditioned residual, made conjugate to the last direction
        rho, S = self.rho, self._preconditioned
        if self.P is None:
            self.P = S * 1.0
        else:
            self.P *= like(_ratio(rho, self._last_rho, self._moved), S)
            self.P += S
        # length: to the minimum along the direction
        Q = self.apply(self.P)
        curvature = dots(self.P, Q)
        moved = active & (rho != 0)
        if (moved & ~(curvature > 0)).any():
            return False
        length = like(_ratio(rho, curvature, moved), Q)
        self.X += length * self.P
        self.R -= length * Q
        self._last_rho, self._moved, self._preconditioned = rho, moved, None
        self.iteration += 1
        return True


def _largest(error: FloatArray | float) -> float:
    return error if isinstance(error, float) else float(error.max(initial=0.0))


def _ratio(a: Any, b: Any, where: BoolArray) -> Any:
    """Return a / b, or 0: for one column without the overhead of arrays."""
    if isinstance(a, np.ndarray):
        return np.divide(a, b, out=np.zeros(len(a)), where=where)
    return a / b if where else a * 0.0


@final
@dataclass(frozen=True, eq=False)
class Validator:
    """Rate iterates on rows that are not learned from.

    Parameters
    ----------
    rows : ScorableRows
        The validation rows. Their scores follow the recurrences of the weights.
    rate : callable
        Gives the value of each row of scores (n_vectors, n_items).
    greater_is_better : bool
        Whether a high value is a good one.
    """

    rows: ScorableRows
    rate: Callable[[FloatArray], FloatArray]
    greater_is_better: bool = True

    def merit(self, values: FloatArray) -> FloatArray:
        """Return values of which the highest is best."""
        return values if self.greater_is_better else -values

    def best(self, values: FloatArray) -> float:
        """Return the best of some values, NaN left out."""
        return float(np.nanmax(values) if self.greater_is_better else np.nanmin(values))


@final
@dataclass(frozen=True, eq=False)
class ShiftedSystems:
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
        What the unknowns are multiplied with to make the weights: ones, or the inverse square root
        of a preconditioner, which only a single alpha allows.
    start : (n_features,)
        The weights from which to start; other than zeros for a single alpha only.
    validator : Validator, optional
        Rates every iterate when stopping early, otherwise the last one of each alpha.
    start_image : (n_features,), optional
        The operator applied to the start, where it is known.
    """

    operator: NormalOperator
    rhs: FloatArray
    alphas: FloatArray
    scale: FloatArray
    start: FloatArray
    validator: Validator | None
    start_image: FloatArray | None = None

    @classmethod
    def of(
        cls,
        operator: NormalOperator,
        alphas: FloatArray,
        *,
        start: FloatArray | None = None,
        validator: Validator | None = None,
        precondition: bool = False,
    ) -> Self:
        """Build, with the raised diagonal plus alpha as preconditioner where it is wanted."""
        n_features = operator.n_features
        scale = np.ones(n_features)
        if precondition:
            scale = jacobi_scale(raised_diagonal(operator), float(alphas[0]))
        origin = np.zeros(n_features) if start is None else start
        return cls(operator, operator.rhs(), alphas, scale, origin, validator)

    @property
    def smallest_alpha(self) -> float:
        """The alpha whose Krylov space is built."""
        return float(self.alphas.min())

    @property
    def shifts(self) -> FloatArray:
        """By how much each alpha exceeds the smallest one: sigma of the literature."""
        return self.alphas - self.smallest_alpha

    def left(self, u: FloatArray, image: FloatArray) -> FloatArray:
        """Return the left-hand side of the scaled equations for the smallest alpha.

        ``image`` is the operator applied to ``scale * u``.
        """
        return self.scale * (image + self.smallest_alpha * (self.scale * u))  # [APS10] (8)

    def initial_residual(self) -> FloatArray:
        """Return the scaled residual at the start."""
        if not self.start.any():
            return self.scale * self.rhs
        image = self.start_image
        if image is None:
            image = self.operator.apply(self.start)
        return self.scale * (self.rhs - image - self.smallest_alpha * self.start)

    def coef(self, u: FloatArray) -> FloatArray:
        """Return the weights of scaled unknowns."""
        return self.start + self.scale * u

    def scores(self, u: FloatArray) -> FloatArray:
        """Return the validation scores of scaled unknowns; none without validation rows."""
        if self.validator is None:
            return np.zeros(0)
        return self.validator.rows.product(self.scale * u)


def jacobi_scale(diagonal: FloatArray, alpha: float) -> FloatArray:
    """Return the inverse square root of the preconditioner ``diagonal + alpha``."""
    shifted = diagonal + alpha
    return 1.0 / np.sqrt(np.where(shifted > 0, shifted, 1.0))


def raised_diagonal(operator: NormalOperator) -> FloatArray:
    """Return the diagonal of ``X' L X``, raised to a floor where there are few preferences.

    Directions without any preference have the same eigenvalue, alpha, which costs one iteration.
    Features below the floor are scaled alike, so that it stays so for most of these directions.
    """
    diagonal = operator.diagonal()
    raised = np.maximum(diagonal, FLOOR * _typical_eigenvalue(diagonal, operator.rank))
    # what varies nowhere takes no part; its rounding errors are not to grow
    return np.where(diagonal > 0, raised, raised.max(initial=0.0))


def _typical_eigenvalue(diagonal: FloatArray, rank: int) -> float:
    r"""Return t with ``sum_j min(d_j, t) = rank t``, 0 where features are not more than the rank.

    Without the part of large features that stands out, the eigenvalues other than 0 share the
    trace evenly: eq. cg-floor.
    """
    sizes = np.sort(diagonal[diagonal > 0])
    n_above = np.arange(len(sizes))[::-1]  # features larger than each
    left = rank - n_above
    if rank <= 0 or len(sizes) <= rank:
        return 0.0
    with np.errstate(divide="ignore"):
        t = np.cumsum(sizes) / np.maximum(left, 0)
    return float(t[np.flatnonzero(t <= np.append(sizes[1:], np.inf))[0]])


@final
@dataclass(eq=False)
class CGState:
    r"""Everything that changes from one iteration to the next; arrays and numbers only.

    Names follow multi-shift conjugate gradients (docs/theory/large-scale.rst, eq. cg-shift): r and
    p are residual and direction of the smallest alpha, ``step_length`` and ``beta`` are what
    textbooks call :math:`\alpha_k` and :math:`\beta_k` (here alpha regularises), and the residual
    of shift l is ``zeta[l] * r``. W and P hold the unknowns and directions of all shifts, W_scores
    and P_scores their validation scores.
    """

    iteration: int
    rhs_norm: float
    r: FloatArray
    p: FloatArray
    step_length: float
    beta: float
    zeta: FloatArray
    zeta_before: FloatArray
    W: FloatArray
    P: FloatArray
    W_scores: FloatArray
    P_scores: FloatArray
    active: BoolArray
    best_merit: FloatArray
    """The best merit that each shift has had, and when."""
    best_iteration: IntArray
    best_shift: int
    """The shift of the best iterate of all, whose weights are kept when stopping early."""
    best_coef: FloatArray
    residuals: FloatArray
    values: FloatArray

    is_whole = True  # not a field: false while an iteration changes the others

    @classmethod
    def at_start(cls, systems: ShiftedSystems) -> Self:
        """Return the state before the first iteration."""
        n_shifts, r = len(systems.alphas), systems.initial_residual()
        # scores follow the weights by the same steps: no product with the validation rows again
        scores, directions = systems.scores(np.zeros(len(r))), systems.scores(r)
        if systems.validator is not None:
            scores = scores + systems.validator.rows.product(systems.start)
        return cls(
            iteration=0,
            rhs_norm=float(np.linalg.norm(systems.rhs)),
            r=r,
            p=r.copy(),
            step_length=1.0,
            beta=0.0,
            zeta=np.ones(n_shifts),
            zeta_before=np.ones(n_shifts),
            W=np.zeros((n_shifts, len(r))),
            P=np.tile(r, (n_shifts, 1)),
            W_scores=np.tile(scores, (n_shifts, 1)),
            P_scores=np.tile(directions, (n_shifts, 1)),
            active=np.ones(n_shifts, dtype=bool),
            best_merit=np.full(n_shifts, -np.inf),
            best_iteration=np.zeros(n_shifts, dtype=np.intp),
            best_shift=int(np.argmin(systems.alphas)),
            best_coef=systems.start.copy(),
            residuals=np.zeros((0, n_shifts)),
            values=np.zeros((0, n_shifts)),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all fields as arrays, to be written to a file."""
        return {f.name: np.asarray(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the state that `to_arrays` described."""
        given: dict[str, Any] = {f.name: np.array(arrays[f.name]) for f in fields(cls)}
        numbers = {name: value.item() for name, value in given.items() if value.ndim == 0}
        return cls(**given | numbers)

    def move(self, systems: ShiftedSystems, image: FloatArray) -> bool:
        """Make one iteration for all active shifts; False when the Krylov space is exhausted.

        ``image`` is the operator applied to the direction.
        """
        # not by `Descent`: every shift follows the two coefficients of the step, runs side by side
        # share a pass over the rows, and what stands here between two steps is a checkpoint
        # length of the step of the smallest alpha, to the minimum along its direction
        q = systems.left(self.p, image)
        r_squared, curvature = self.r @ self.r, self.p @ q
        if not curvature > 0.0:
            return False
        step_length = float(r_squared / curvature)
        # residuals of the other alphas, which are multiples of its own
        zeta = self._next_zeta(step_length, systems.shifts)
        ratio = zeta / self.zeta
        self.is_whole = False
        self.r -= step_length * q
        beta = float((self.r @ self.r) / r_squared)
        # unknowns and directions of every active alpha, and their validation scores
        arguments = (np.flatnonzero(self.active), step_length * ratio, zeta, beta * ratio**2)
        _update(self.W, self.P, self.r, *arguments)
        _update(self.W_scores, self.P_scores, systems.scores(self.r), *arguments)
        self.p = self.r + beta * self.p
        self.zeta_before, self.zeta = self.zeta, zeta
        self.step_length, self.beta = step_length, beta
        self.iteration += 1
        return True

    def _next_zeta(self, step_length: float, shifts: FloatArray) -> FloatArray:
        """Return the factor by which the residual of each active shift is smaller: eq. cg-shift."""
        bend = step_length * self.beta * (self.zeta_before - self.zeta)
        fall = self.zeta_before * self.step_length
        with np.errstate(all="ignore"):  # shifts that have finished are not looked at again
            zeta = self.zeta * fall / (bend + fall * (1.0 + shifts * step_length))
        return np.where(self.active, zeta, self.zeta)


def _update(
    W: FloatArray,
    P: FloatArray,
    r: FloatArray,
    active: IntArray,
    step_length: FloatArray,
    zeta: FloatArray,
    beta: FloatArray,
) -> None:
    def task(_: int, first: int, last: int) -> None:
        update_shifts(W, P, r, active, step_length, zeta, beta, first, last)

    if len(r) > 0:
        run_parts(task, equal_parts(len(r), len(active)))


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

    on_step: StepCallback | None = None
    save: Callable[[Mapping[str, NDArray[Any]]], None] | None = None
    seconds: float = 60.0


@final
@dataclass(frozen=True, eq=False)
class Iterate:
    """The weights after some iterations for one alpha."""

    alpha: float
    iteration: int
    coef: FloatArray
    residual: float
    """Norm of ``X' r - (X' L X + alpha I) w`` divided by that of ``X' r``."""
    value: float
    """Validation value, NaN without validation data."""


@final
@dataclass(frozen=True, eq=False)
class CGResult:
    """The result of conjugate gradients.

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
        Relative residuals, NaN where an alpha had finished.
    values : (n_iterations, n_alphas)
        Validation values, NaN where there is none: without ``patience`` all but the last of each
        alpha.
    ending : Ending
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
    def last_residuals(self) -> FloatArray:
        """The residual of every alpha when it finished."""
        return last_known(self.residuals)

    @property
    def converged(self) -> bool:
        """Whether every alpha finished by itself."""
        return self.ending.converged


def multishift_cg(
    systems: ShiftedSystems,
    rule: StoppingRule,
    hooks: Hooks | None = None,
    saved: Mapping[str, NDArray[Any]] | None = None,
) -> CGResult:
    """Solve ``(X' L X + alpha I) w = X' r`` for every alpha from one Krylov space.

    One application of the operator per iteration, whatever the number of alphas, and with
    ``patience`` one product with the validation rows. Without it only the last iterate of each
    alpha is rated, since nothing else decides. Ctrl-C ends the run and keeps its last iterate.

    Parameters
    ----------
    systems : ShiftedSystems
        The equations.
    rule : StoppingRule
        When to stop: ``tol`` bounds the residual as a share of the right-hand side. With
        ``patience``, an alpha finishes when its validation value has not improved for this many
        iterations, and the best iterate of all is the result instead of the converged one.
    hooks : Hooks, optional
        What to call on the way.
    saved : mapping of arrays, optional
        What ``hooks.save`` got last: the run goes on from there, to the same result.

    Notes
    -----
    Conjugate gradients on [APS10] (8), Sect. 3.3; with ``patience`` regularisation by iteration,
    Sect. 3.4.
    All shifts of one matrix share their Krylov space, and their residuals are multiples of one
    another, which gives each of them a short recurrence of its own
    (docs/theory/large-scale.rst, eq. cg-shift).
    """
    alone = alone_product(systems.operator)
    return side_by_side_cg([systems], alone, rule, [hooks or Hooks()], saved=saved)[0]


def side_by_side_cg(
    systems: Sequence[ShiftedSystems],
    product: JointProduct,
    rule: StoppingRule,
    hooks: Sequence[Hooks],
    stopped: Reason | None = None,
    saved: Mapping[str, NDArray[Any]] | None = None,
) -> list[CGResult]:
    """Solve several equations as `multishift_cg` does, an iteration of each in turn.

    Every iteration applies all operators at once, which takes little more than the time of one
    where they pass over the same rows. Each run ends by itself; Ctrl-C or a callback ends them all.

    Parameters
    ----------
    systems : sequence of ShiftedSystems
        The equations.
    product : callable
        Applies the operators of the runs that go on, each to its own vector.
    rule : StoppingRule
        When to stop, for all of them.
    hooks : sequence of Hooks
        What to call on the way, one for each.
    stopped : str, optional
        Why the runs end before they begin, if a stop was requested already.
    saved : mapping of arrays, optional
        What a single run goes on from, as in `multishift_cg`.
    """
    with serial_blas():
        runs = [_CGRun.of(one, rule, own, saved) for one, own in zip(systems, hooks, strict=True)]
        for run in runs:
            run.reason = run.reason or stopped
        try:
            while going := [k for k, run in enumerate(runs) if run.goes_on()]:
                # one application of all operators, a step of each run
                images = product(np.stack([runs[k].direction for k in going]), going)
                for k, image in zip(going, images, strict=True):
                    runs[k].advance(image)
                if any(run.reason == "callback" for run in runs):
                    for run in runs:
                        run.reason = run.reason or "callback"
        except KeyboardInterrupt:
            for run in runs:
                run.interrupt()
        return [run.result() for run in runs]


@final
@dataclass(eq=False)
class _CGRun:
    systems: ShiftedSystems
    rule: StoppingRule
    hooks: Hooks
    state: CGState
    validator: Validator | None
    reason: Reason | None = None
    """Why the run has ended; None while it goes on."""
    last_saved: float = field(default_factory=time.monotonic)

    @classmethod
    def of(
        cls,
        systems: ShiftedSystems,
        rule: StoppingRule,
        hooks: Hooks,
        saved: Mapping[str, NDArray[Any]] | None = None,
    ) -> Self:
        """Begin, or go on from what was saved; converged where the start is good enough."""
        validator = systems.validator
        if rule.patience is None:
            systems = replace(systems, validator=None)
        state = CGState.at_start(systems) if saved is None else _resumed(saved, rule)
        run = cls(systems, rule, hooks, state, validator)
        if run._residual_norm() <= _target(rule) * state.rhs_norm:
            run.reason = "converged"
        return run

    @property
    def direction(self) -> FloatArray:
        """What the operator is applied to next."""
        return self.systems.scale * self.state.p

    def goes_on(self) -> bool:
        """Return whether to make a further iteration; if not, note why."""
        if self.reason is None:
            self.reason = self._end()
        return self.reason is None

    def _end(self) -> Reason | None:
        if not self.state.active.any():
            done = last_known(self.state.residuals) <= _target(self.rule)
            return "converged" if done.all() else "no improvement"
        return "max_iter" if self.state.iteration >= self.rule.max_iter else None

    def advance(self, image: FloatArray) -> None:
        """Make an iteration, given the operator applied to the direction."""
        if not self.state.move(self.systems, image):
            self.reason = "exhausted"
            return
        step = self._record()
        self.state.is_whole = True
        self.save()
        if self.hooks.on_step is not None and wants_to_stop(self.hooks.on_step(step)):
            self.reason = "callback"

    def interrupt(self) -> None:
        """End by Ctrl-C; an iteration cut in two has its residuals measured anew."""
        if self.reason is not None:
            return
        self.reason = "interrupted"
        if self.state.is_whole:
            return
        state, systems = self.state, self.systems
        measured = np.full(len(systems.alphas), np.nan)
        for shift in np.flatnonzero(state.active):
            w, alpha = systems.coef(state.W[shift]), systems.alphas[shift]
            residual = systems.rhs - systems.operator.apply(w) - alpha * w
            measured[shift] = np.linalg.norm(residual) / state.rhs_norm
        n_whole = len(state.values)
        state.residuals = np.vstack([state.residuals[:n_whole], measured])
        state.values = np.vstack([state.values, np.full(len(measured), np.nan)])
        state.iteration = len(state.residuals)

    def _residual_norm(self) -> float:
        return float(np.linalg.norm(self.state.r / self.systems.scale))

    def _record(self) -> Step:
        """Note residuals and values, remember the best iterate, finish the alphas that are done."""
        state, active = self.state, self.state.active.copy()
        relative = self._residual_norm() / state.rhs_norm
        residuals = np.where(active, np.abs(state.zeta) * relative, np.nan)
        values = np.full(len(active), np.nan)
        if self.systems.validator is not None:
            values[active] = self.systems.validator.rate(state.W_scores[active])
        state.residuals = np.vstack([state.residuals, residuals])
        state.values = np.vstack([state.values, values])
        if self.systems.validator is not None:
            self._remember_best(self.systems.validator.merit(values))
        state.active &= ~(residuals <= _target(self.rule))
        if self.rule.patience is not None:  # [APS10] Sect. 3.4
            waited = state.iteration - state.best_iteration
            state.active &= waited < self.rule.patience
        return Step(
            state.iteration,
            error=float(np.nanmax(residuals)),
            alphas=self.systems.alphas,
            residuals=residuals,
            values=values,
        )

    def _remember_best(self, merit: FloatArray) -> None:
        """Note when each alpha was best, and when stopping early the best weights of all."""
        state = self.state
        record = state.best_merit.max()
        better = merit > state.best_merit  # NaN is never better
        state.best_merit = np.where(better, merit, state.best_merit)
        state.best_iteration = np.where(better, state.iteration, state.best_iteration)
        if self.rule.patience is not None and state.best_merit.max() > record:
            state.best_shift = best_position(state.best_merit, self.systems.alphas)
            state.best_coef = self.systems.coef(state.W[state.best_shift])

    def save(self, *, always: bool = False) -> None:
        """Hand the state over to be saved, if it is whole and time to."""
        if self.hooks.save is None or not self.state.is_whole:
            return
        if always or time.monotonic() - self.last_saved > self.hooks.seconds:
            self.hooks.save(self.state.to_arrays())
            self.last_saved = time.monotonic()

    def result(self) -> CGResult:
        """Save for the last time, and return the result of a run that has ended."""
        state, systems, reason = self.state, self.systems, self.reason
        assert reason is not None
        self.save(always=True)
        coefs = np.stack([systems.coef(u) for u in state.W])
        ending = self.rule.end(reason, state.iteration, self._error(), REMEDY)
        if self.rule.patience is None:
            lasts = np.count_nonzero(~np.isnan(state.residuals), axis=0)
            return result_of_lasts(
                systems.alphas, coefs, state.residuals, lasts, self.validator, ending, self._error()
            )
        return CGResult(
            self._best_iterate(),
            freeze(coefs),
            systems.alphas,
            freeze(state.residuals),
            freeze(state.values),
            ending,
        )

    def _best_iterate(self) -> Iterate:
        """Return the best iterate of all, kept on the way."""
        state, shift = self.state, self.state.best_shift
        iteration = int(state.best_iteration[shift])
        known = iteration > 0
        return Iterate(
            float(self.systems.alphas[shift]),
            iteration,
            freeze(state.best_coef),
            float(state.residuals[iteration - 1, shift]) if known else 0.0,
            float(state.values[iteration - 1, shift]) if known else np.nan,
        )

    def _error(self) -> float:
        """Return the largest relative residual of the last iteration."""
        if self.state.iteration > 0:
            return float(np.nanmax(self.state.residuals[-1]))
        norm = self.state.rhs_norm
        return self._residual_norm() / norm if norm > 0 else 0.0


def result_of_lasts(
    alphas: FloatArray,
    coefs: FloatArray,
    residuals: FloatArray,
    lasts: IntArray,
    validator: Validator | None,
    ending: Ending,
    start_error: float = 0.0,
) -> CGResult:
    """Rate the last iterate of each alpha, and choose among them.

    Parameters
    ----------
    alphas, coefs, residuals, ending
        As in `CGResult`.
    lasts : (n_alphas,)
        The iteration of each alpha's last iterate; 0 for one that was not begun, or whose start
        was good enough.
    validator : Validator, optional
        Rates; without it the largest alpha is chosen.
    start_error : float
        The residual where no iteration was needed.
    """
    values, final = np.full(residuals.shape, np.nan), np.full(len(alphas), np.nan)
    begun = np.flatnonzero(lasts > 0) if len(residuals) else np.arange(len(alphas))
    if validator is not None:
        scores = np.stack([validator.rows.product(coef) for coef in coefs[begun]])
        final[begun] = validator.rate(scores)
    merit = final if validator is None else validator.merit(final)
    best = int(begun[best_position(merit[begun], alphas[begun])])
    if len(residuals):
        values[lasts[begun] - 1, begun] = final[begun]
    chosen = Iterate(
        float(alphas[best]),
        int(lasts[best]),
        freeze(coefs[best]),
        float(residuals[lasts[best] - 1, best]) if len(residuals) else start_error,
        float(final[best]),
    )
    return CGResult(chosen, freeze(coefs), alphas, freeze(residuals), freeze(values), ending)


def _target(rule: StoppingRule) -> float:
    """Return the residual that counts as converged: the tolerance, or what rounding allows."""
    return max(rule.tol, ROUNDING)


def _resumed(saved: Mapping[str, NDArray[Any]], rule: StoppingRule) -> CGState:
    """Return a saved state; alphas that had finished but miss a smaller tolerance go on."""
    state = CGState.from_arrays(saved)
    if rule.patience is not None or state.iteration == 0:
        return state
    unfinished = ~state.active & (last_known(state.residuals) > _target(rule))
    n_outdated = int(np.count_nonzero(unfinished & np.isnan(state.residuals[-1])))
    if n_outdated:
        raise InvalidInputError(
            "`tol` must not be smaller than in the run that was saved, in which "
            f"{n_outdated} of {len(unfinished)} alphas finished before others: got {rule.tol:g}. "
            "Start again."
        )
    state.active |= unfinished
    return state


def best_position(merit: FloatArray, alphas: FloatArray) -> int:
    """Return the position of the highest merit, NaN being lowest; the largest alpha of equals."""
    return int(np.lexsort((alphas, np.where(np.isnan(merit), -np.inf, merit)))[-1])


def last_known(values: FloatArray) -> FloatArray:
    """Return the last value of each alpha, a column, that is not NaN."""
    out = np.full(values.shape[1], np.nan)
    for row in values:
        out = np.where(np.isnan(row), out, row)
    return out
