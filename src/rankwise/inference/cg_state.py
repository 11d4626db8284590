"""Where conjugate gradients stand: the recurrences of one Krylov space and all its shifts."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.inference._cg_kernels import advance
from rankwise.inference._cg_threads import even_parts, run_parts
from rankwise.inference.cg_operator import NormalOperator
from rankwise.inference.cg_rows import Rows


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
