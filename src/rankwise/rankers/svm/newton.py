"""Large-margin ranking by Newton's method, with a certified duality gap."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray, Matrix, freeze
from rankwise.core.threads import serial_blas
from rankwise.graph.pair_sums import PairSet
from rankwise.rankers.svm.objective import HingeLoss, NewtonIterate, NewtonSystems, RegularizedLoss
from rankwise.solve.iteration import (
    Certificate,
    CertifiedSolution,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    wants_to_stop,
)

MAX_TRIALS = 40
"""Points tried in one line search, at most."""

EASY_CURVATURE = 1000.0
"""Newton steps from 0 are easy up to this curvature of the objective; |w|^2 / 2 has 1."""

RISE, RISE_IF_FORMED = 3.0, 30.0
"""By how much C rises from one stage to the next; the second where Hessians can be formed."""

STAGE_TOL, STAGE_TOL_IF_FORMED = 0.03, 0.9
"""The gap at which a smaller C has served its purpose."""

FLAT, FLAT_ENOUGH = 0.3, 0.5
"""A line search ends where the derivative is this share of what it was at its beginning.

The second is for directions that were solved for exactly, which are best followed in full.
"""

NARROWER, NARROWER_FROM_WIDE = 0.1, 0.3
"""The width over which the hinge is rounded off shrinks at most by this factor at a time.

The second is for a path that began wide: it bends more.
"""

NARROWEST = 1e-8
"""Below this share of the slacks at equal scores rounding errors count more than the width."""

MAX_IDLE_STEPS = 20
"""Steps that improve neither an objective nor the bound before rounding errors must dominate."""

REMEDY = "Raise max_iter or tol, lower C, or scale the features."


def minimize_hinge(
    Z: Matrix,
    pairs: PairSet,
    loss: HingeLoss,
    C: float,
    rule: StoppingRule,
    start: FloatArray | None = None,
    on_step: StepCallback | None = None,
) -> CertifiedSolution:
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
        The factor of the loss.
    rule
        When to stop: its tolerance is for the duality gap, as a share of the objective.
    start : (n_features,), optional
        Where to begin; by default zeros.
    on_step
        Gets each `Step`; stops the run by returning True.

    Notes
    -----
    The losses and the certificate are derived in docs/theory/ranksvm.rst.
    """
    # the width over which the hinge is smoothed, from the slacks at equal scores
    objective = RegularizedLoss.of(Z, pairs, C)
    columns = objective.columns
    width = None if loss == "squared_hinge" else _mean_slack_at_equal_scores(pairs)
    narrowest = 0.0 if width is None else NARROWEST * width
    if start is None:
        iterate = objective.origin(width)
    else:
        iterate = objective.iterate(columns.to_stored(start), width)
    # with as many features as items: a larger width, where Newton steps are easy
    narrower = NARROWER
    if width is not None and start is None and objective.has_many_features:
        curvature = _relative_curvature(objective, iterate)
        if curvature > EASY_CURVATURE:
            # eq. svm-first-width
            width, narrower = width * curvature / EASY_CURVATURE, NARROWER_FROM_WIDE
            iterate = objective.origin(width)
    descent = NewtonDescent(objective, rule, iterate, width, narrowest, narrower)
    stage_tol = STAGE_TOL if objective.dense is None else STAGE_TOL_IF_FORMED
    with serial_blas():
        try:
            # rising values of C, each solved as far as the next one needs
            for stage in _stages(descent) if start is None else [C]:
                loose_rule = replace(rule, tol=max(rule.tol, stage_tol))
                descent.move_to(stage, rule if stage == C else loose_rule)
                reason = descent.run(on_step)
                if reason not in ("converged", "precision"):
                    break
        except KeyboardInterrupt:
            reason = "interrupted"
        descent.move_to(C, rule)
    best, certificate = descent.best, descent.certificate
    ending = rule.end(reason, descent.n_iter, certificate.gap, REMEDY)
    w = columns.to_given(best.w)
    return CertifiedSolution(C, freeze(w), certificate, descent.n_iter, ending)


def _mean_slack_at_equal_scores(pairs: PairSet) -> float:
    """Return the mean slack at equal scores, weighted by itself."""
    at_zero = pairs.slacks(np.zeros(pairs.n_items)).violations(0.0)
    return at_zero.squares / at_zero.total if at_zero.total > 0.0 else 1.0


def _relative_curvature(objective: RegularizedLoss, iterate: NewtonIterate) -> float:
    """Return the curvature g'Hg / g'g of the objective along its gradient; |w|^2 / 2 has 1."""
    g = iterate.gradient
    square = float(g @ g)
    return objective.hessian(iterate.loss).quadratic_form(g) / square if square > 0.0 else 1.0


def line_search(
    objective: RegularizedLoss,
    iterate: NewtonIterate,
    direction: FloatArray,
    width: float | None,
) -> NewtonIterate | None:
    """Go along a direction until the objective has nearly stopped falling; None if it never fell.

    The objective is convex along the line, so a zero of its derivative is bracketed, and found by
    interpolation; an end that stays counts half each time. A trial costs one loss, O(n log n), and
    no product with the rows, far less than a step; so the minimum along the line is worth finding,
    where other Newton iterations (`rankwise.solve.newton`) only halve steps that lead up.
    """
    # objective and derivative along the line need one product with the rows
    C, lead = objective.C, objective.rows.product(direction)
    along, square = float(iterate.w @ direction), float(direction @ direction)
    start_slope = float(iterate.gradient @ direction)
    highest = iterate.smooth_objective + C * iterate.loss.rounding_error
    low, low_slope, high, high_slope = 0.0, start_slope, np.inf, np.inf
    step, was_high = 1.0, False
    flat = FLAT if objective.dense is None else FLAT_ENOUGH
    for _ in range(MAX_TRIALS):
        w, scores = iterate.w + step * direction, iterate.scores + step * lead
        loss = objective.loss(scores, width)
        slope = along + step * square + C * float(loss.slope @ lead)
        value = float(w @ w) / 2.0 + C * loss.smooth
        # flat enough, and not above the start but for rounding errors
        if abs(slope) <= -flat * start_slope and (slope <= 0 or value <= highest):
            return objective.complete(w, scores, loss)
        # narrow the bracket; halve the slope of the end that stays
        if slope > 0.0:
            high, high_slope, low_slope = step, slope, low_slope / (2.0 if was_high else 1.0)
        else:
            low, low_slope, high_slope = step, slope, high_slope / (1.0 if was_high else 2.0)
        was_high = slope > 0.0
        # next trial: double the step until there is a bracket, then interpolate
        is_flat = high_slope <= low_slope  # rounding has taken over
        share = 0.5 if is_flat else low_slope / (low_slope - high_slope)
        step = 2.0 * step if np.isinf(high) else low + max(share, 0.01) * (high - low)
    return None


def _stages(descent: "NewtonDescent") -> list[float]:
    """Return rising values of C up to the one wanted, from where Newton steps are easy.

    Far from the optimum a large C lets few pairs stay violated, and steps become short. Where the
    Hessian can be formed at once steps are cheap, and the hinge has its width in place of stages.
    """
    C = descent.objective.C
    if descent.systems.max_products == 0 or descent.width is not None:
        return [C]
    rise = RISE if descent.objective.dense is None else RISE_IF_FORMED
    curvature = _relative_curvature(descent.objective, descent.iterate)
    n_stages = int(np.log(max(1.0, curvature / EASY_CURVATURE)) / np.log(rise))
    return [*(C * rise**-k for k in range(n_stages, 0, -1)), C]


@final
@dataclass(eq=False)
class NewtonDescent:
    """A run of Newton's method: its iterate, and the best objective and bound so far."""

    objective: RegularizedLoss
    rule: StoppingRule
    iterate: NewtonIterate
    width: float | None
    narrowest: float
    narrower: float = NARROWER
    n_iter: int = 0
    n_idle_steps: int = 0

    def __post_init__(self) -> None:
        self.systems = NewtonSystems.of(self.objective)
        self.best = self.iterate
        self.bound = self.iterate.bound

    def move_to(self, C: float, rule: StoppingRule) -> None:
        """Continue from the current iterate with another C."""
        self.rule = rule
        if self.objective.C == C:
            return
        old, objective = self.iterate, replace(self.objective, C=C)
        self.iterate = objective.weigh(old.w, old.scores, old.loss, old.loss_gradient)
        self.best, self.bound = self.iterate, self.iterate.bound
        self.n_idle_steps = 0
        # last, so that a move that Ctrl-C has cut in two is made again
        self.systems.objective = objective
        self.objective = objective

    @property
    def gap(self) -> float:
        """How far the best objective is from the best bound."""
        return max(0.0, self.best.objective - self.bound)

    @property
    def goal(self) -> float:
        """The gap to reach."""
        return self.rule.tol * self.best.objective

    @property
    def certificate(self) -> Certificate:
        """The best objective with the best bound."""
        return Certificate(self.best.objective, self.best.objective - self.gap)

    def run(self, on_step: StepCallback | None) -> Reason:
        """Make steps until there is a reason to end."""
        while self.gap > self.goal:
            if self.n_iter == self.rule.max_iter:
                return "max_iter"
            if not self.make_step():
                return "precision"
            step = Step(self.n_iter, self.gap / self.best.objective, self.best.objective)
            if on_step is not None and wants_to_stop(on_step(step)):
                return "callback"
        return "converged"

    def make_step(self) -> bool:
        """Make a Newton step, or one to a narrower width; return whether that is still possible."""
        gap, tol = self.gap, min(0.1, float(np.sqrt(self.gap / self.best.objective)))
        # along the path of the optima where smoothing dominates the gap, otherwise a Newton step
        if self.width is not None and self.can_narrow():
            new = self.narrow(self.width, tol)
        else:
            downhill = -self.iterate.gradient
            direction = self.systems.solve(self.iterate.loss, downhill, tol)
            new = line_search(self.objective, self.iterate, direction, self.width)
        if new is None:
            return False
        self.n_iter += 1
        # steps that improve neither the smooth objective nor the gap are idle
        rounding_error = self.objective.C * new.loss.rounding_error
        falls = new.smooth_objective < self.iterate.smooth_objective - rounding_error
        self.iterate = new
        self.record()
        self.n_idle_steps = 0 if falls or self.gap < gap else self.n_idle_steps + 1
        return self.n_idle_steps < MAX_IDLE_STEPS

    def can_narrow(self) -> bool:
        """Return whether smoothing contributes at least half of the gap, eq. svm-gap.

        The rest of the gap must also be below the smooth objective, or the path of the optima would
        be lost while the width is so large that the smooth loss is a fraction of the loss.
        """
        iterate, g = self.iterate, self.iterate.gradient
        is_on_path = float(g @ g) / 2.0 <= iterate.smooth_objective
        return is_on_path and iterate.gap <= 2.0 * self.objective.C * iterate.loss.smoothing_gap

    def narrow(self, width: float, tol: float) -> NewtonIterate | None:
        """Go to a narrower width along the path of the optima, or stay where that is no better.

        None if it cannot be narrower.
        """
        objective, iterate = self.objective, self.iterate
        if width <= self.narrowest:
            return None
        # no narrower than the tolerance needs, nor by more than the allowed factor
        factor = float(np.sqrt(self.goal / (2.0 * objective.C * iterate.loss.smoothing_gap)))
        self.width = width * min(0.5, max(self.narrower, factor))
        # predictor along the path of the optima, with the Newton correction at the old width
        by_width = objective.C * objective.rows.transposed(iterate.loss.slope_by_width)
        b = (width - self.width) * by_width - iterate.gradient  # eq. svm-path
        w = iterate.w + self.systems.solve(iterate.loss, b, tol)
        ahead = objective.iterate(w, self.width)
        # the same point at the new width, where the prediction is no better
        loss = objective.loss(iterate.scores, self.width)
        stay = objective.complete(iterate.w, iterate.scores, loss)
        return ahead if ahead.smooth_objective < stay.smooth_objective else stay

    def record(self) -> None:
        """Keep the best objective and the best bound."""
        self.bound = max(self.bound, self.iterate.bound)
        if self.iterate.objective < self.best.objective:
            self.best = self.iterate
