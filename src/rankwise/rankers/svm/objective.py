r"""The objective of RankSVM, and the systems of equations that its Newton steps solve.

Its losses, the hinge and the squared hinge over a set of pairs, are made of sums of squared slacks
above a threshold, :math:`Q_\tau = \sum c\,(t - \tau)_+^2`: the squared hinge is :math:`Q_0`, and
the hinge, rounded off over a width :math:`\mu`, is :math:`(Q_0 - Q_\mu) / 2\mu`
(docs/theory/ranksvm.rst).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.graph.pair_sums import BandLaplacian, PairSet, Slacks
from rankwise.solve.conjugate_gradients import Descent
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.rows import ColumnOrder, StoredRows, as_rows

HingeLoss: TypeAlias = Literal["hinge", "squared_hinge"]

FEW_FEATURES = 512
"""Number of features up to which forming the Hessian costs no more than products with it."""

MANY_FEATURES = 4096
"""Number of features up to which it is formed once systems take many products with it."""

PRODUCTS_PER_FEATURE = 0.01
"""Products for a system, per feature, above which later Hessians are formed; as measured."""

PRODUCTS_PER_ITEM = 0.003
"""The same where a system is solved by one unknown for each item, which is less work."""

DENSE_ENOUGH = 0.2
"""Sparse rows with few features and this share of entries are held as a dense array."""

WORTH_COPYING = 0.9
"""Rows without a pair are left out where no more than this share of the rows remains."""

FEW_PRODUCTS = 10
"""When a system takes more products than this, it is solved in the span of the pairs."""

PRODUCTS_PER_CHECK = 5
"""Iterations between checks of the residual in the span of the pairs, which costs a product."""

MAX_PRODUCTS = 250
"""Products with the Hessian in one step, at most."""


@final
@dataclass(frozen=True, eq=False)
class SmoothedLoss:
    """A loss at given scores, and the smooth one that is minimised in its place.

    Parameters
    ----------
    exact : float
        The loss itself.
    smooth : float
        The smooth loss, at most the loss itself.
    smoothing_gap : float
        What smoothing adds to the duality gap, at most: the last sum of eq. svm-gap.
    dual_penalty : float
        The cost of the dual variables besides the norm of their sum, divided by C.
    max_dual_scale : float
        The largest number that all dual variables may be multiplied by.
    rounding_error : float
        Bound on the rounding error of the smooth loss.
    slope : (n_items,)
        The derivative of the smooth loss by the scores.
    slope_by_width : (n_items,)
        The derivative of the slope by the width over which the hinge is rounded off.
    curvature : float
        The factor of the Laplacian in the second derivative by the scores.
    slacks : Slacks
        The slacks of the pairs.
    width : float
        The Laplacian is taken over the pairs with a slack between 0 and this.
    """

    exact: float
    smooth: float
    smoothing_gap: float
    dual_penalty: float
    max_dual_scale: float
    rounding_error: float
    slope: FloatArray
    slope_by_width: FloatArray
    curvature: float
    slacks: Slacks
    width: float

    @cached_property
    def laplacian(self) -> BandLaplacian:
        """The Laplacian of the pairs where the smooth loss is curved."""
        return self.slacks.band(0.0, self.width)


def squared_hinge(pairs: PairSet, scores: FloatArray) -> SmoothedLoss:
    """Return the sum of squared positive slacks, which is smooth itself."""
    slacks = pairs.slacks(scores, 0.0)
    violations = slacks.violations(0.0)
    return SmoothedLoss(
        exact=violations.squares,
        smooth=violations.squares,
        smoothing_gap=0.0,
        dual_penalty=violations.squares,
        max_dual_scale=np.inf,
        rounding_error=violations.rounding_error,
        slope=2.0 * violations.squares_slope,
        slope_by_width=np.zeros_like(scores),
        curvature=2.0,
        slacks=slacks,
        width=np.inf,
    )


def smoothed_hinge(pairs: PairSet, scores: FloatArray, width: float) -> SmoothedLoss:
    r"""Return the sum of positive slacks, rounded off where they are below the width.

    A slack t counts :math:`t^2/2\mu` up to the width :math:`\mu`, then :math:`t - \mu/2`. The dual
    variable of a pair is its weight times :math:`\min(1, t_+/\mu)`.
    """
    slacks = pairs.slacks(scores, 0.0)
    # Q_0 and Q_mu, eq. svm-sums, give loss, gap and derivatives
    low, high = slacks.violations(0.0), slacks.violations(width)
    squares = (low.squares - high.squares) / width  # eq. svm-huber, twice
    rounding_error = low.rounding_error / width
    most = width / 4.0 * (low.weight - high.weight)  # t (1 - t / width) is largest in the middle
    slope = (low.squares_slope - high.squares_slope) / width
    return SmoothedLoss(
        exact=low.total,
        smooth=squares / 2.0,
        smoothing_gap=min(most, max(0.0, low.total + high.total - squares) + rounding_error),
        dual_penalty=0.0,
        max_dual_scale=1.0,
        rounding_error=rounding_error,
        slope=slope,
        slope_by_width=(high.total_slope - slope) / width,  # eq. svm-path
        curvature=1.0 / width,
        slacks=slacks,
        width=width,
    )


@final
@dataclass(frozen=True, eq=False)
class NewtonIterate:
    """Weights with their scores, loss, gradient, objectives and dual bound."""

    w: FloatArray
    scores: FloatArray
    loss: SmoothedLoss
    gradient: FloatArray
    """Of the smooth objective."""
    loss_gradient: FloatArray
    """Of the smooth loss, without C."""
    smooth_objective: float
    """``1/2 |w|^2 + C loss.smooth``."""
    objective: float
    """``1/2 |w|^2 + C loss.exact``."""
    bound: float
    """The dual objective, which no objective is below."""

    @property
    def gap(self) -> float:
        """How far the objective is from the bound: 0 at the optimum, but for rounding errors."""
        return self.objective - self.bound


@final
@dataclass(frozen=True, eq=False)
class RegularizedLoss:
    """The objective ``1/2 |w|^2 + C loss(Zw)``.

    A width rounds the hinge off over it; without one the loss is the squared hinge.

    Parameters
    ----------
    C : float
        The factor of the loss.
    pairs : PairSet
        The preferences.
    rows : StoredRows
        The rows of Z.
    rounded_rows : StoredRows
        The same in single precision, for Hessians: directions need not be exact.
    dense : (n_items, n_features), optional
        Z itself, where its Hessian can be formed.
    columns : ColumnOrder
        The order of the features in weights and gradients, as in the stored rows.
    """

    C: float
    pairs: PairSet
    rows: StoredRows
    rounded_rows: StoredRows
    dense: FloatArray | None
    columns: ColumnOrder

    @classmethod
    def of(cls, Z: Matrix, pairs: PairSet, C: float) -> Self:
        """Take dense or sparse rows."""
        n_items, n_features = Z.shape
        few = n_features <= FEW_FEATURES
        if sparse.issparse(Z) and few and Z.nnz >= DENSE_ENOUGH * n_items * n_features:
            Z = Z.toarray()
        if not sparse.issparse(Z):
            Z = np.ascontiguousarray(Z)
        formed = n_features <= MANY_FEATURES and not sparse.issparse(Z)
        columns, rows = as_rows(Z).in_stored_order()
        return cls(C, pairs, rows, rows.rounded(), Z if formed else None, columns)

    @property
    def has_many_features(self) -> bool:
        """Whether there are as many features as items, as there are for a kernel."""
        return self.rows.n_features >= self.rows.n_items

    def loss(self, scores: FloatArray, width: float | None) -> SmoothedLoss:
        """Return the loss of the scores."""
        if width is None:
            return squared_hinge(self.pairs, scores)
        return smoothed_hinge(self.pairs, scores, width)

    def iterate(self, w: FloatArray, width: float | None) -> NewtonIterate:
        """Return scores, loss, gradient, objectives and bound at weights."""
        scores = self.rows.product(w)
        return self.complete(w, scores, self.loss(scores, width))

    def origin(self, width: float | None) -> NewtonIterate:
        """Return the iterate of weights 0, whose scores are known."""
        scores = np.zeros(self.rows.n_items)
        return self.complete(np.zeros(self.rows.n_features), scores, self.loss(scores, width))

    def complete(self, w: FloatArray, scores: FloatArray, loss: SmoothedLoss) -> NewtonIterate:
        """Add gradient, objectives and gap to weights whose scores and loss are known."""
        return self.weigh(w, scores, loss, self.rows.transposed(loss.slope))

    def weigh(
        self, w: FloatArray, scores: FloatArray, loss: SmoothedLoss, loss_gradient: FloatArray
    ) -> NewtonIterate:
        """Do the same with a known gradient of the loss, without a product with the rows."""
        # primal objective, and the gap of the dual variables that the loss suggests
        pull = -self.C * loss_gradient
        gradient, half_norm = w - pull, float(w @ w) / 2.0
        objective = half_norm + self.C * loss.exact  # eq. svm-problem
        gap = float(gradient @ gradient) / 2.0 + self.C * loss.smoothing_gap  # eq. svm-gap
        # linear and quadratic part of the dual objective, svm-dual
        quadratic = float(pull @ pull) / 2.0 + self.C * loss.dual_penalty
        linear = float(w @ pull) + self.C * (loss.exact - loss.smoothing_gap + loss.dual_penalty)
        return NewtonIterate(
            w,
            scores,
            loss,
            gradient,
            loss_gradient,
            half_norm + self.C * loss.smooth,
            objective,
            _best_bound(objective - gap, linear, quadratic, loss.max_dual_scale),
        )

    def hessian(self, loss: SmoothedLoss) -> "Hessian":
        """Return ``I + C Z'HZ`` with H the second derivative of the loss by the scores."""
        return Hessian.of(self.rounded_rows, loss.laplacian, self.C * loss.curvature)

    def formed_hessian(self, loss: SmoothedLoss) -> FloatArray:
        """Return the Hessian as a matrix."""
        assert self.dense is not None
        G = loss.laplacian.gram(self.dense)
        G *= self.C * loss.curvature
        G.flat[:: len(G) + 1] += 1.0
        return G


def _best_bound(dual: float, linear: float, quadratic: float, max_scale: float) -> float:
    """Return the dual objective of the best multiple of the dual variables.

    Far from the optimum the parts are so much larger than the objective that their difference is
    lost to cancellation; the best multiple avoids it.

    Parameters
    ----------
    dual : float
        The dual objective of the variables as they are.
    linear, quadratic : float
        Its parts, computed without cancellation; the dual objective is the first less the second.
    max_scale : float
        The largest multiple allowed.
    """
    if quadratic <= 0.0:
        return dual
    scale = min(max(linear / (2.0 * quadratic), 0.0), max_scale)  # eq. svm-scale
    if scale == 1.0:
        return dual
    return scale * (linear - scale * quadratic)


@final
@dataclass(frozen=True, eq=False)
class Hessian:
    """The matrix ``I + c Z'LZ`` by its products, over the items that are in a pair.

    Parameters
    ----------
    rows : StoredRows
        The rows of Z.
    laplacian : BandLaplacian
        L.
    c : float
        The factor of the second term.
    """

    rows: StoredRows
    laplacian: BandLaplacian
    c: float

    @classmethod
    def of(cls, rows: StoredRows, laplacian: BandLaplacian, c: float) -> Self:
        """Leave out rows without a pair where they are many."""
        items, among_them = laplacian.joined()
        if len(items) > WORTH_COPYING * rows.n_items:
            return cls(rows, laplacian, c)
        return cls(rows.take(items), among_them, c)

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return v + self.c * self.rows.transposed(self.laplacian @ self.rows.product(v))

    def quadratic_form(self, v: FloatArray) -> float:
        """Return ``v'Hv``, by half a product with H."""
        lead = self.rows.product(v)
        return float(v @ v) + self.c * float(lead @ (self.laplacian @ lead))


@final
@dataclass(eq=False)
class NewtonSystems:
    """Solve ``(I + C Z'HZ) x = b`` at one iterate after another.

    By conjugate gradients while these need few products. Systems only get harder, so that later
    ones are solved by Cholesky where the Hessian can be formed (at once for few features), by items
    where Z is triangular, and otherwise in the span of the pairs.

    Measured: for a Gaussian kernel of 600 and 1,500 items a fit by items takes a quarter to two
    fifths of the time that forming the Hessian takes. For 3,000 texts of 20,000 words and a C at
    which few pairs stay violated, steps in the span reach a gap of 1e-4 where products alone are
    left with 5e-3 to 3e-2 after as many; where C is small these suffice, and are a little faster.

    Parameters
    ----------
    objective : RegularizedLoss
        What is minimised.
    max_products : int
        How many products with the Hessian are worth making in one step; 0 when they no longer are.
    is_spanned : bool
        Whether the span of the pairs is worth trying.
    is_by_items : bool
        Whether Z is triangular, as it is for a kernel without a basis, so that one unknown for
        each item is worth trying.
    few_products : int
        Largest number of products that refine a solution by items.
    """

    objective: RegularizedLoss
    max_products: int
    is_spanned: bool = True
    is_by_items: bool = False
    few_products: int = FEW_PRODUCTS

    @classmethod
    def of(cls, objective: RegularizedLoss) -> Self:
        """Begin with as many products as are worth it."""
        n_features = objective.rows.n_features
        if objective.dense is None:
            return cls(objective, FEW_PRODUCTS)
        by_items = is_triangular(objective.dense)
        share = PRODUCTS_PER_ITEM if by_items else PRODUCTS_PER_FEATURE
        few = n_features <= FEW_FEATURES
        return cls(objective, 0 if few else int(share * n_features), is_by_items=by_items)

    def solve(self, loss: SmoothedLoss, b: FloatArray, tol: float) -> FloatArray:
        """Return about ``(I + C Z'HZ)^-1 b``, with a residual of ``tol`` times b at most."""
        # conjugate gradients for as long as they need few products
        if self.max_products > 0:
            hessian = self.objective.hessian(loss)
            x, is_solved = solve_by_products(hessian, b, tol, self.max_products)
            if is_solved:
                return x
            self.max_products = 0
        # no Hessian can be formed: in the span of the pairs
        if self.objective.dense is None:
            return self._solve_by_many_products(loss, b, tol)
        # a triangular Z: K^-1 + cL, eq. svm-items; otherwise the Hessian itself
        try:
            if self.is_by_items:
                x, self.is_by_items = self._solve_by_items(loss, b, tol)
                if self.is_by_items:
                    return x
            factor = cho_factor(self.objective.formed_hessian(loss), check_finite=False)
            return cho_solve(factor, b, check_finite=False)
        except LinAlgError:  # C is so large that rounding errors make up more than the identity
            return self._solve_by_many_products(loss, b, tol)

    @cached_property
    def _item_systems(self) -> "ItemSystems":
        assert self.objective.dense is not None
        return ItemSystems.of(self.objective.dense)

    def _solve_by_items(
        self, loss: SmoothedLoss, b: FloatArray, tol: float
    ) -> tuple[FloatArray, bool]:
        """Solve by items, and refine by conjugate gradients where the residual is too large."""
        hessian = self.objective.hessian(loss)
        solver = self._item_systems.factorize(loss.laplacian, hessian.c)
        return solve_by_products(hessian, b, tol, self.few_products, solver)

    def _solve_by_many_products(self, loss: SmoothedLoss, b: FloatArray, tol: float) -> FloatArray:
        hessian = self.objective.hessian(loss)
        if self.is_spanned:
            x, self.is_spanned = solve_in_span(hessian, b, tol, MAX_PRODUCTS)
            if self.is_spanned:
                return x
        return solve_by_products(hessian, b, tol, MAX_PRODUCTS)[0]


@final
@dataclass(frozen=True, eq=False)
class ItemSystems:
    r"""Solve with ``I + c Z'LZ`` by one unknown for each item, where Z is square and triangular.

    The matrix is ``Z'(K^-1 + cL)Z`` with ``K = ZZ'`` (eq. svm-items), so that a sparse L is added
    to a matrix that is known, in place of multiplying it by Z from both sides: a step takes a
    quarter of the operations.

    Parameters
    ----------
    Z : (n_items, n_items)
        Lower triangular.
    inverse : (n_items, n_items)
        The lower triangle of ``K^-1``.
    """

    Z: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, Z: FloatArray) -> Self:
        """Invert K: O(n^3)."""
        inverse, _ = dpotri(Z, lower=True)
        return cls(Z, inverse)

    def factorize(self, laplacian: BandLaplacian, c: float) -> Callable[[FloatArray], FloatArray]:
        """Return a solver of the matrix, by a Cholesky factor."""
        middle = self.inverse.copy(order="F")
        laplacian.add_to(middle, c)
        factor = cho_factor(middle, lower=True, overwrite_a=True, check_finite=False)

        def solve(b: FloatArray) -> FloatArray:  # eq. svm-items
            inner = solve_triangular(self.Z, b, lower=True, trans=1, check_finite=False)
            inner = cho_solve(factor, inner, check_finite=False)
            return solve_triangular(self.Z, inner, lower=True, check_finite=False)

        return solve


def is_triangular(Z: FloatArray) -> bool:
    """Return whether a matrix is square, lower triangular, and has a diagonal above 0."""
    if Z.shape[0] != Z.shape[1] or Z.dtype != np.float64:
        return False
    return bool(np.diagonal(Z).min() > 0.0) and not np.triu(Z, 1).any()


def solve_in_span(
    hessian: Hessian, b: FloatArray, tol: float, max_products: int
) -> tuple[FloatArray, bool]:
    r"""Solve ``(I + c Z'LZ) x = b`` in the span of the pairs, one unknown for each item.

    The solution is ``x = b - Z'Lu``, where u solves eq. svm-span, which is found by conjugate
    gradients. Scaled by the degrees its matrix is nearly K where most items are in many pairs.
    How large C is then hardly matters.

    Parameters
    ----------
    hessian : Hessian
        The matrix.
    b, tol, max_products
        As in `solve_by_products`.

    Returns
    -------
    x : (n_features,)
    is_solved : bool
        False if the products did not suffice.
    """
    # eq. svm-span, preconditioned by approximate inverses of L
    rows, L, c = hessian.rows, hessian.laplacian, hessian.c
    size, known = float(np.sqrt(b @ b)), 1.0

    def apply(u: FloatArray) -> FloatArray:
        lead = L @ u
        return L @ (u / c + rows.product(rows.transposed(lead)))

    def error(descent: Descent) -> float:
        nonlocal known
        if descent.iteration % PRODUCTS_PER_CHECK == 0 and descent.iteration > 0:
            residual = c * rows.transposed(descent.R)
            known = float(np.sqrt(residual @ residual)) / size
        return 0.0 if known > tol and descent.rho == 0.0 else known

    r = L @ rows.product(b)  # eq. svm-span
    descent = Descent(apply, r, precondition=_span_preconditioner(hessian), error=error)
    is_solved = descent.run(StoppingRule(tol, max_products)) == "converged"
    return b - rows.transposed(L @ descent.X), is_solved


def _span_preconditioner(hessian: Hessian) -> Callable[[FloatArray], FloatArray]:
    """Return an approximate solver of eq. svm-span, for K a multiple of the identity."""
    rows, inverse = hessian.rows, _inverse_degree(hessian.laplacian)
    mean_square = float(rows.squares(np.ones(rows.n_items)).sum()) / max(1, rows.n_items)
    between = 1.0 / (mean_square + inverse / hessian.c)
    L_inverse = approximate_inverse(hessian.laplacian)
    return lambda r: L_inverse(between * L_inverse(r))


def approximate_inverse(L: BandLaplacian) -> Callable[[FloatArray], FloatArray]:
    """Return an approximate inverse of L, exact if it joins all items of two groups."""
    inverse = _inverse_degree(L)

    def apply(v: FloatArray) -> FloatArray:
        scaled = inverse * v
        return 1.5 * scaled - 0.5 * inverse * (L @ scaled)  # eq. svm-near-inverse

    return apply


def _inverse_degree(L: BandLaplacian) -> FloatArray:
    """Return one over the degrees, 0 for items that are in no pair."""
    degree = L.diagonal()
    return np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0.0)


def solve_by_products(
    matrix: Hessian,
    b: FloatArray,
    tol: float,
    max_products: int,
    precondition: Callable[[FloatArray], FloatArray] | None = None,
) -> tuple[FloatArray, bool]:
    """Solve a positive definite system by conjugate gradients.

    Every iterate after the first product is a direction of descent.

    Parameters
    ----------
    matrix : Hessian
        The matrix by its products.
    b : (n_features,)
        The right-hand side.
    tol : float
        Solved when the residual is this share of b.
    max_products : int
        Number of products at most.
    precondition : callable
        Solves about the same system; by default nothing.

    Returns
    -------
    x : (n_features,)
    is_solved : bool
        False if the products did not suffice.
    """
    descent = Descent(matrix.__matmul__, b, precondition=precondition)
    is_solved = descent.run(StoppingRule(tol, max_products)) == "converged"
    return descent.X, is_solved
