"""Large-margin ranking by Newton steps, with a certified duality gap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, Matrix, freeze
from rankwise.core.threads import serial_blas
from rankwise.inference._interrupts import Interrupts, deferred_interrupts
from rankwise.inference.hinge_losses import HingeLoss, loss_at
from rankwise.inference.hinge_newton import NewtonSystems, Point, Problem, line_search
from rankwise.inference.hinge_pairs import PairSet

Ending: TypeAlias = Literal["converged", "max_iter", "precision", "callback", "interrupted"]

NARROWER = 0.1
"""The width over which the hinge is rounded off shrinks at most by this factor at a time."""

NARROWEST = 1e-8
"""Below this share of the width at the start rounding errors count more than the width."""

PATIENCE = 20
"""After so many steps without a better objective or bound only rounding errors are left."""


@final
@dataclass(frozen=True)
class Rule:
    """When to stop.

    Parameters
    ----------
    tol : float
        The duality gap that counts as solved, as a share of the objective.
    max_iter : int
        Number of Newton steps at most.
    """

    tol: float = 1e-4
    max_iter: int = 200


@final
@dataclass(frozen=True)
class Step:
    """Where a run stands after a step."""

    iteration: int
    objective: float
    """The smallest objective so far."""
    gap: float
    """The smallest proven gap so far, as a share of the objective."""


@final
@dataclass(frozen=True, eq=False)
class HingeSolution:
    """Weights, and the proof of how far their objective can be from the smallest.

    Parameters
    ----------
    C : float
        What multiplies the loss.
    point : (n_features,)
        The weights of the features.
    objective : float
        ``1/2 |w|^2 + C * loss`` at the point.
    bound : float
        A dual objective, which no point can go below.
    n_iter : int
        Number of steps.
    ending : str
        Why the run ended: "converged", "max_iter", "precision" (rounding errors leave nothing to
        gain), "callback" or "interrupted".
    """

    C: float
    point: FloatArray
    objective: float
    bound: float
    n_iter: int
    ending: Ending

    @property
    def gap(self) -> float:
        """How far the objective is from the bound, as a share of the objective."""
        return (self.objective - self.bound) / self.objective if self.objective > 0.0 else 0.0

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.ending == "converged"


def solve(
    Z: Matrix,
    pairs: PairSet,
    loss: HingeLoss,
    C: float,
    rule: Rule | None = None,
    start: FloatArray | None = None,
    on_step: Callable[[Step], object] | None = None,
) -> HingeSolution:
    r"""Minimise :math:`\tfrac12 |w|^2 + C \sum_p c_p\, \ell(m_p - (f_i - f_j))`, :math:`f = Zw`.

    :math:`\ell(t)` is :math:`t_+` or :math:`t_+^2`. A step costs O(n log n) for the losses, and a
    Hessian, O(n d^2), for up to 512 dense features d, and for up to 4,096 where products with it
    would be many; otherwise some products with it, each of O(non-zeros + n log n). Ctrl-C ends
    the run with the best it has found.

    Parameters
    ----------
    Z : (n_items, n_features), dense or CSR
        The features of the items.
    pairs
        The preferences with their weights and margins.
    loss
        The hinge or the squared hinge.
    C
        What multiplies the loss.
    rule
        When to stop.
    start : (n_features,), optional
        Where to begin; zeros when left out.
    on_step
        Gets each `Step`; stops the run by returning True.

    Notes
    -----
    The losses and the certificate are derived in docs/theory/ranksvm.rst.
    """
    rule = rule or Rule()
    problem = Problem.of(Z, C)
    w = np.zeros(problem.rows.n_features) if start is None else start
    width = _first_width(pairs, loss)
    scores = problem.rows.product(w)
    point = problem.point(w, scores, loss_at(pairs, width)(scores))
    run = _Run(problem, pairs, rule, point, width)
    with serial_blas(), deferred_interrupts() as interrupts:
        ending = run.descend(interrupts, on_step)
    return HingeSolution(
        C, freeze(run.best.w), run.best.objective, run.best.objective - run.gap, run.n_iter, ending
    )


def _first_width(pairs: PairSet, loss: HingeLoss) -> float | None:
    """Return the mean slack at equal scores, weighted by itself; None for the squared hinge."""
    if loss == "squared_hinge":
        return None
    start = pairs.slacks(np.zeros(pairs.n_items)).above(0.0)
    return start.squares / start.total if start.total > 0.0 else 1.0


@final
@dataclass(eq=False)
class _Run:
    """One run: what it works on, where it stands, and the best it has found."""

    problem: Problem
    pairs: PairSet
    rule: Rule
    point: Point
    width: float | None
    n_iter: int = 0
    n_idle: int = 0

    def __post_init__(self) -> None:
        self.systems = NewtonSystems.of(self.problem)
        self.best = self.point
        self.bound = self.point.objective - self.point.gap
        self.narrowest = 0.0 if self.width is None else NARROWEST * self.width

    @property
    def gap(self) -> float:
        """How far the best objective is from the best bound."""
        return max(0.0, self.best.objective - self.bound)

    @property
    def goal(self) -> float:
        """The gap to reach."""
        return self.rule.tol * self.best.objective

    def descend(self, interrupts: Interrupts, on_step: Callable[[Step], object] | None) -> Ending:
        """Make steps until one of the reasons to end."""
        while self.gap > self.goal:
            if self.n_iter == self.rule.max_iter:
                return "max_iter"
            if interrupts.pending:
                return "interrupted"
            if not self.make_step(interrupts):
                return "precision"
            share = self.gap / self.best.objective
            if on_step is not None and on_step(Step(self.n_iter, self.best.objective, share)):
                return "callback"
        return "converged"

    def make_step(self, interrupts: Interrupts) -> bool:
        """Make a Newton step, or one to a narrower width; return whether that is still possible."""
        before, tol = self.gap, min(0.1, float(np.sqrt(self.gap / self.best.objective)))
        excess = self.problem.C * self.point.loss.excess
        if self.width is not None and self.point.gap <= 2.0 * excess:
            new = self.narrow(self.width, tol, interrupts)
        else:
            downhill = -self.point.gradient
            direction = self.systems.solve(self.point.loss, downhill, tol, interrupts)
            at = loss_at(self.pairs, self.width)
            new = line_search(self.problem, self.point, direction, at)
        if new is None:
            return False
        self.n_iter += 1
        self.point = new
        self.record()
        self.n_idle = self.n_idle + 1 if self.gap >= before else 0
        return self.n_idle < PATIENCE

    def narrow(self, width: float, tol: float, interrupts: Interrupts) -> Point | None:
        """Go to a narrower width along the path of the optima, or stay where that is no better.

        None if it cannot be narrower.
        """
        problem, point = self.problem, self.point
        if width <= self.narrowest:
            return None
        factor = float(np.sqrt(self.goal / (2.0 * problem.C * point.loss.excess)))
        self.width = width * min(0.5, max(NARROWER, factor))
        drift = problem.C * problem.rows.transposed(point.loss.drift)
        b = (width - self.width) * drift - point.gradient
        w = point.w + self.systems.solve(point.loss, b, tol, interrupts)
        scores, at = problem.rows.product(w), loss_at(self.pairs, self.width)
        ahead = problem.point(w, scores, at(scores))
        here = problem.point(point.w, point.scores, at(point.scores))
        return ahead if ahead.value < here.value else here

    def record(self) -> None:
        """Keep the best objective and the best bound."""
        self.bound = max(self.bound, self.point.objective - self.point.gap)
        if self.point.objective < self.best.objective:
            self.best = self.point
