"""Newton steps of a regularised loss of scores: directions, and how far to go along them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.inference._interrupts import Interrupts
from rankwise.inference.cg_rows import Rows
from rankwise.inference.cg_storage import as_rows
from rankwise.inference.hinge_losses import Loss

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
