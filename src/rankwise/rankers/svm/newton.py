"""Large-margin ranking by Newton steps, with a certified duality gap."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rankwise.core.arrays import FloatArray, Matrix, freeze
from rankwise.core.threads import serial_blas
from rankwise.rankers.svm.losses import HingeLoss, Loss, loss_at
from rankwise.rankers.svm.pair_sums import PairSet
from rankwise.solve.iteration import Interrupts, deferred_interrupts
from rankwise.solve.rows import Rows, as_rows

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


@final
@dataclass(frozen=True, eq=False)
class Point:
    """Weights and what belongs to them."""

    w: FloatArray
    scores: FloatArray
    loss: Loss
    gradient: FloatArray
    """Of the smooth objective."""
    value: float
    """The smooth objective, ``1/2 |w|^2 + C loss.smooth``."""
    objective: float
    """The objective itself, ``1/2 |w|^2 + C loss.exact``."""
    gap: float
    """How far the objective is from the dual one: never negative, 0 at the optimum."""


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """What multiplies the loss, the rows of Z, and Z itself if its Hessian can be formed."""

    C: float
    rows: Rows
    dense: FloatArray | None

    @classmethod
    def of(cls, Z: Matrix, C: float) -> Self:
        """Take dense or sparse rows."""
        n_items, n_features = Z.shape
        few = n_features <= FEW_FEATURES
        if sparse.issparse(Z) and few and Z.nnz >= DENSE_ENOUGH * n_items * n_features:
            Z = Z.toarray()
        formed = n_features <= MANY_FEATURES and not sparse.issparse(Z)
        return cls(C, as_rows(Z), Z if formed else None)

    def point(self, w: FloatArray, scores: FloatArray, loss: Loss) -> Point:
        """Add gradient, objectives and gap."""
        gradient = w + self.C * self.rows.transposed(loss.slope)
        half_norm = float(w @ w) / 2.0
        return Point(
            w,
            scores,
            loss,
            gradient,
            half_norm + self.C * loss.smooth,
            half_norm + self.C * loss.exact,
            float(gradient @ gradient) / 2.0 + self.C * loss.excess,  # eq. svm-gap
        )


@final
@dataclass(eq=False)
class NewtonSystems:
    """Solve ``(I + C Z'HZ) x = b`` at one point after another.

    By conjugate gradients, and by Cholesky where the Hessian can be formed: for few features at
    once, else from where conjugate gradients need many products. Beyond that point systems only get
    harder, and exact steps are fewer.

    Parameters
    ----------
    problem : Problem
    max_products : int
        How many products with the Hessian are worth making in one step.
    """

    problem: Problem
    max_products: int

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Begin with as many products as are worth it."""
        n_features = problem.rows.n_features
        if problem.dense is None:
            return cls(problem, MAX_PRODUCTS)
        few = n_features <= FEW_FEATURES
        return cls(problem, 0 if few else int(PRODUCTS_PER_FEATURE * n_features))

    def solve(self, loss: Loss, b: FloatArray, tol: float, interrupts: Interrupts) -> FloatArray:
        """Return about ``(I + C Z'HZ)^-1 b``, with a residual of ``tol`` times b at most."""
        C, rows, Z = self.problem.C, self.problem.rows, self.problem.dense
        share = C * loss.factor

        def product(v: FloatArray) -> FloatArray:
            return v + share * rows.transposed(loss.laplacian @ rows.product(v))

        x, is_solved = conjugate_gradients(product, b, tol, self.max_products, interrupts)
        if is_solved or Z is None:
            return x
        self.max_products = 0
        try:
            factor = cho_factor(hessian(Z, loss, C), check_finite=False)
            return cho_solve(factor, b, check_finite=False)
        except LinAlgError:  # C is so large that rounding errors make up more than the identity
            return conjugate_gradients(product, b, tol, MAX_PRODUCTS, interrupts)[0]


def hessian(Z: FloatArray, loss: Loss, C: float) -> FloatArray:
    """Return ``I + C Z'HZ``."""
    G = loss.laplacian.gram(Z)
    G *= C * loss.factor
    G.flat[:: len(G) + 1] += 1.0
    return G


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    b: FloatArray,
    tol: float,
    max_products: int,
    interrupts: Interrupts,
) -> tuple[FloatArray, bool]:
    """Solve a positive definite system until the residual is ``tol`` times b, or interrupted.

    Every iterate after the first product is a direction of descent.

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
    problem: Problem,
    point: Point,
    direction: FloatArray,
    loss_at: Callable[[FloatArray], Loss],
) -> Point | None:
    """Go along a direction until the objective has nearly stopped falling; None if it never fell.

    The objective is convex along the line, so a zero of its derivative is bracketed, and found by
    interpolation and bisection in turn. A trial costs one loss, O(n log n), and no product with the
    rows.
    """
    lead = problem.rows.product(direction)
    along, across = float(point.w @ direction), float(direction @ direction)
    start_slope = float(point.gradient @ direction)
    highest = point.value + problem.C * point.loss.noise
    low, low_slope, high, high_slope = 0.0, start_slope, np.inf, np.inf
    step = 1.0
    for trial in range(MAX_TRIALS):
        w, scores = point.w + step * direction, point.scores + step * lead
        loss = loss_at(scores)
        slope = along + step * across + problem.C * float(loss.slope @ lead)
        value = float(w @ w) / 2.0 + problem.C * loss.smooth
        if 0.9 * start_slope <= slope <= -0.5 * start_slope and (slope <= 0 or value <= highest):
            return problem.point(w, scores, loss)
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
