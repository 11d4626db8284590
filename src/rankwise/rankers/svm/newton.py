"""Large-margin ranking by Newton's method, with a certified duality gap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rankwise.core.arrays import FloatArray, Matrix, freeze
from rankwise.core.threads import serial_blas
from rankwise.graph.pair_sums import PairSet
from rankwise.rankers.svm.losses import HingeLoss, SmoothedLoss, smoothed_hinge, squared_hinge
from rankwise.solve.iteration import (
    Certificate,
    CertifiedSolution,
    Interrupts,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    deferred_interrupts,
    wants_to_stop,
)
from rankwise.solve.rows import ItemRows, as_rows

FEW_FEATURES = 512
"""Up to so many features the Hessian is formed, which then costs no more than products with it."""

MANY_FEATURES = 4096
"""Up to so many it is formed once products with it have become many."""

PRODUCTS_PER_FEATURE = 0.01
"""When a system takes more products than this, Hessians are formed from there on; as measured."""

DENSE_ENOUGH = 0.2
"""Sparse rows with few features and this share of entries are held as a dense array."""

MAX_PRODUCTS = 250
"""Products with the Hessian in one step, at most."""

MAX_TRIALS = 40
"""Points tried in one line search, at most."""

NARROWER = 0.1
"""The width over which the hinge is rounded off shrinks at most by this factor at a time."""

NARROWEST = 1e-8
"""Below this share of the width at the start rounding errors count more than the width."""

MAX_IDLE_STEPS = 20
"""After so many steps without a better objective or bound only rounding errors are left."""

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
        What multiplies the loss.
    rule
        When to stop: its tolerance is for the duality gap, as a share of the objective.
    start : (n_features,), optional
        Where to begin; zeros when left out.
    on_step
        Gets each `Step`; stops the run by returning True.

    Notes
    -----
    The losses and the certificate are derived in docs/theory/ranksvm.rst.
    """
    objective = RegularizedLoss.of(Z, pairs, C)
    w = np.zeros(objective.rows.n_features) if start is None else start
    width = _first_width(pairs, loss)
    descent = NewtonDescent(objective, rule, objective.iterate(w, width), width)
    with serial_blas(), deferred_interrupts() as interrupts:
        reason = descent.run(interrupts, on_step)
    best, certificate = descent.best, descent.certificate
    ending = rule.end(reason, descent.n_iter, certificate.gap, REMEDY)
    return CertifiedSolution(C, freeze(best.w), certificate, descent.n_iter, ending)


def _first_width(pairs: PairSet, loss: HingeLoss) -> float | None:
    """Return the mean slack at equal scores, weighted by itself; None for the squared hinge."""
    if loss == "squared_hinge":
        return None
    at_zero = pairs.slacks(np.zeros(pairs.n_items)).violations(0.0)
    return at_zero.squares / at_zero.total if at_zero.total > 0.0 else 1.0


@final
@dataclass(frozen=True, eq=False)
class NewtonIterate:
    """Weights and what belongs to them."""

    w: FloatArray
    scores: FloatArray
    loss: SmoothedLoss
    gradient: FloatArray
    """Of the smooth objective."""
    smooth_objective: float
    """``1/2 |w|^2 + C loss.smooth``."""
    objective: float
    """``1/2 |w|^2 + C loss.exact``."""
    gap: float
    """How far the objective is from the dual one: never negative, 0 at the optimum."""


@final
@dataclass(frozen=True, eq=False)
class RegularizedLoss:
    """The objective ``1/2 |w|^2 + C loss(Zw)``.

    A width rounds the hinge off over it; without one the loss is the squared hinge.

    Parameters
    ----------
    C : float
        What multiplies the loss.
    pairs : PairSet
        The preferences.
    rows : ItemRows
        The rows of Z.
    dense : (n_items, n_features), optional
        Z itself, where its Hessian can be formed.
    """

    C: float
    pairs: PairSet
    rows: ItemRows
    dense: FloatArray | None

    @classmethod
    def of(cls, Z: Matrix, pairs: PairSet, C: float) -> Self:
        """Take dense or sparse rows."""
        n_items, n_features = Z.shape
        few = n_features <= FEW_FEATURES
        if sparse.issparse(Z) and few and Z.nnz >= DENSE_ENOUGH * n_items * n_features:
            Z = Z.toarray()
        formed = n_features <= MANY_FEATURES and not sparse.issparse(Z)
        return cls(C, pairs, as_rows(Z), Z if formed else None)

    def loss(self, scores: FloatArray, width: float | None) -> SmoothedLoss:
        """Return the loss of the scores."""
        if width is None:
            return squared_hinge(self.pairs, scores)
        return smoothed_hinge(self.pairs, scores, width)

    def iterate(self, w: FloatArray, width: float | None) -> NewtonIterate:
        """Return all that belongs to weights."""
        scores = self.rows.product(w)
        return self.complete(w, scores, self.loss(scores, width))

    def complete(self, w: FloatArray, scores: FloatArray, loss: SmoothedLoss) -> NewtonIterate:
        """Add gradient, objectives and gap to weights whose scores and loss are known."""
        gradient = w + self.C * self.rows.transposed(loss.slope)
        half_norm = float(w @ w) / 2.0
        return NewtonIterate(
            w,
            scores,
            loss,
            gradient,
            half_norm + self.C * loss.smooth,
            half_norm + self.C * loss.exact,  # eq. svm-problem
            float(gradient @ gradient) / 2.0 + self.C * loss.smoothing_gap,  # eq. svm-gap
        )

    def hessian(self, loss: SmoothedLoss) -> FloatArray:
        """Return ``I + C Z'HZ`` with H the second derivative of the loss by the scores."""
        assert self.dense is not None
        G = loss.laplacian.gram(self.dense)
        G *= self.C * loss.curvature
        G.flat[:: len(G) + 1] += 1.0
        return G

    def hessian_product(self, loss: SmoothedLoss, v: FloatArray) -> FloatArray:
        """Return ``(I + C Z'HZ) v`` without the matrix."""
        bent = self.rows.transposed(loss.laplacian @ self.rows.product(v))
        return v + self.C * loss.curvature * bent


@final
@dataclass(eq=False)
class NewtonSystems:
    """Solve ``(I + C Z'HZ) x = b`` at one iterate after another.

    By conjugate gradients, and by Cholesky where the Hessian can be formed: for few features at
    once, else from where conjugate gradients need many products. Beyond that point systems only get
    harder, and exact steps are fewer.

    Parameters
    ----------
    objective : RegularizedLoss
        What is minimised.
    max_products : int
        How many products with the Hessian are worth making in one step; 0 once it is formed.
    """

    objective: RegularizedLoss
    max_products: int

    @classmethod
    def of(cls, objective: RegularizedLoss) -> Self:
        """Begin with as many products as are worth it."""
        n_features = objective.rows.n_features
        if objective.dense is None:
            return cls(objective, MAX_PRODUCTS)
        few = n_features <= FEW_FEATURES
        return cls(objective, 0 if few else int(PRODUCTS_PER_FEATURE * n_features))

    def solve(
        self, loss: SmoothedLoss, b: FloatArray, tol: float, interrupts: Interrupts
    ) -> FloatArray:
        """Return about ``(I + C Z'HZ)^-1 b``, with a residual of ``tol`` times b at most."""

        def product(v: FloatArray) -> FloatArray:
            return self.objective.hessian_product(loss, v)

        x, is_solved = solve_by_products(product, b, tol, self.max_products, interrupts)
        if is_solved or self.objective.dense is None:
            return x
        self.max_products = 0
        try:
            factor = cho_factor(self.objective.hessian(loss), check_finite=False)
            return cho_solve(factor, b, check_finite=False)
        except LinAlgError:  # C is so large that rounding errors make up more than the identity
            return solve_by_products(product, b, tol, MAX_PRODUCTS, interrupts)[0]


def solve_by_products(
    product: Callable[[FloatArray], FloatArray],
    b: FloatArray,
    tol: float,
    max_products: int,
    interrupts: Interrupts,
) -> tuple[FloatArray, bool]:
    """Solve a positive definite system by conjugate gradients until interrupted.

    Every iterate after the first product is a direction of descent.

    Parameters
    ----------
    product
        Multiplies a vector by the matrix.
    b : (n_features,)
        The right-hand side.
    tol : float
        Solved when the residual is this share of b.
    max_products : int
        Number of products at most.
    interrupts : Interrupts
        Whether Ctrl-C was pressed.

    Returns
    -------
    x : (n_features,)
    is_solved : bool
        False if the products did not suffice.
    """
    x, r, p = np.zeros_like(b), b.copy(), b.copy()
    square = float(r @ r)
    goal = tol**2 * square
    for _ in range(max_products):
        q = product(p)
        step = square / float(p @ q)
        x += step * p
        r -= step * q
        last, square = square, float(r @ r)
        if square <= goal or interrupts.pending:
            return x, True
        p = r + (square / last) * p
    return x, False


def line_search(
    objective: RegularizedLoss,
    iterate: NewtonIterate,
    direction: FloatArray,
    width: float | None,
) -> NewtonIterate | None:
    """Go along a direction until the objective has nearly stopped falling; None if it never fell.

    The objective is convex along the line, so a zero of its derivative is bracketed, and found by
    interpolation and bisection in turn. A trial costs one loss, O(n log n), and no product with the
    rows.
    """
    C, lead = objective.C, objective.rows.product(direction)
    along, square = float(iterate.w @ direction), float(direction @ direction)
    start_slope = float(iterate.gradient @ direction)
    highest = iterate.smooth_objective + C * iterate.loss.rounding_error
    low, low_slope, high, high_slope = 0.0, start_slope, np.inf, np.inf
    step = 1.0
    for trial in range(MAX_TRIALS):
        w, scores = iterate.w + step * direction, iterate.scores + step * lead
        loss = objective.loss(scores, width)
        slope = along + step * square + C * float(loss.slope @ lead)
        value = float(w @ w) / 2.0 + C * loss.smooth
        if 0.9 * start_slope <= slope <= -0.5 * start_slope and (slope <= 0 or value <= highest):
            return objective.complete(w, scores, loss)
        if slope > 0.0:
            high, high_slope = step, slope
        else:
            low, low_slope = step, slope
        if np.isinf(high):
            step *= 2.0
        else:
            share = 0.5 if trial % 2 else low_slope / (low_slope - high_slope)
            step = low + min(max(share, 0.05), 0.95) * (high - low)
    return None


@final
@dataclass(eq=False)
class NewtonDescent:
    """A run of Newton's method: where it stands, and the best objective and bound so far."""

    objective: RegularizedLoss
    rule: StoppingRule
    iterate: NewtonIterate
    width: float | None
    n_iter: int = 0
    n_idle_steps: int = 0

    def __post_init__(self) -> None:
        self.systems = NewtonSystems.of(self.objective)
        self.best = self.iterate
        self.bound = self.iterate.objective - self.iterate.gap
        self.narrowest = 0.0 if self.width is None else NARROWEST * self.width

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

    def run(self, interrupts: Interrupts, on_step: StepCallback | None) -> Reason:
        """Make steps until there is a reason to end."""
        while self.gap > self.goal:
            if self.n_iter == self.rule.max_iter:
                return "max_iter"
            if interrupts.pending:
                return "interrupted"
            if not self.make_step(interrupts):
                return "precision"
            step = Step(self.n_iter, self.gap / self.best.objective, self.best.objective)
            if on_step is not None and wants_to_stop(on_step(step)):
                return "callback"
        return "converged"

    def make_step(self, interrupts: Interrupts) -> bool:
        """Make a Newton step, or one to a narrower width; return whether that is still possible."""
        gap, tol = self.gap, min(0.1, float(np.sqrt(self.gap / self.best.objective)))
        smoothing_gap = self.objective.C * self.iterate.loss.smoothing_gap
        if self.width is not None and self.iterate.gap <= 2.0 * smoothing_gap:
            new = self.narrow(self.width, tol, interrupts)
        else:
            downhill = -self.iterate.gradient
            direction = self.systems.solve(self.iterate.loss, downhill, tol, interrupts)
            new = line_search(self.objective, self.iterate, direction, self.width)
        if new is None:
            return False
        self.n_iter += 1
        self.iterate = new
        self.record()
        self.n_idle_steps = self.n_idle_steps + 1 if self.gap >= gap else 0
        return self.n_idle_steps < MAX_IDLE_STEPS

    def narrow(self, width: float, tol: float, interrupts: Interrupts) -> NewtonIterate | None:
        """Go to a narrower width along the path of the optima, or stay where that is no better.

        None if it cannot be narrower.
        """
        objective, here = self.objective, self.iterate
        if width <= self.narrowest:
            return None
        factor = float(np.sqrt(self.goal / (2.0 * objective.C * here.loss.smoothing_gap)))
        self.width = width * min(0.5, max(NARROWER, factor))
        by_width = objective.C * objective.rows.transposed(here.loss.slope_by_width)
        b = (width - self.width) * by_width - here.gradient  # eq. svm-path
        w = here.w + self.systems.solve(here.loss, b, tol, interrupts)
        ahead = objective.iterate(w, self.width)
        loss = objective.loss(here.scores, self.width)
        stay = objective.complete(here.w, here.scores, loss)
        return ahead if ahead.smooth_objective < stay.smooth_objective else stay

    def record(self) -> None:
        """Keep the best objective and the best bound."""
        self.bound = max(self.bound, self.iterate.objective - self.iterate.gap)
        if self.iterate.objective < self.best.objective:
            self.best = self.iterate
