"""Kernel problems too large for a kernel matrix: conjugate gradients on products with it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, as_columns
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.namespaces import (
    Array,
    cholesky,
    eigh_in_place,
    gram,
    is_on_host,
    like,
    memory_of,
    row_blocks,
    solve_rows,
    to_host,
)
from rankwise.core.params import Count, Tolerance, settle
from rankwise.core.storable import storable
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.conjugate_gradients import Descent, Product, dots
from rankwise.solve.iteration import (
    Ending,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    steps_shown,
    wants_to_stop,
)
from rankwise.solve.normal_equations import Spectrum, rounding_of_scores, trusted_weights
from rankwise.solve.operators import NormalOperator

REMEDY = "Raise max_iter, n_basis or alpha."

BASIS_ROWS = 1000
"""Basis rows of the preconditioner, when their number is left open."""

BASIS_ENTRIES = 1 << 27
"""Numbers that the preconditioner may take when the number of basis rows is left open."""

ITEMS_PER_BASIS_ROW, MOST_BASIS_ROWS = 50, 6000
"""On a device there are as many basis rows as this, if they are more: products take longer."""

CORRECTION = 1e-5
"""Residual to which a correction is solved for with products of single precision."""

STALLED = 50
"""Iterations in which products of single precision must halve the residual."""

LEAST_GAIN = 0.1
"""A correction that leaves more than this share of the residual is the last one."""

SPREAD = 1e6
"""Up to this ratio of eigenvalues, their features are orthonormal to 1e-10 as they are computed."""

KEPT = 1e-10
"""Directions whose eigenvalue is below this share of the largest are left to the iteration."""


@storable
@final
@dataclass(frozen=True)
class ConjugateGradients:
    r"""Set how a kernel problem is solved without storing its matrix.

    Every iteration needs one product with the kernel, which is formed one block at a time and never
    stored: O(n^2) time and O(n r) memory for n items. The preconditioner solves the problem of r
    random basis rows (Nystrom), which removes the large eigenvalues.

    Parameters
    ----------
    tol : float
        Stop when the residual is below this share of the right-hand side.
    max_iter : int
        Largest number of iterations.
    n_basis : int, optional
        Number r of basis rows. By default 1000, or fewer if they would take more than a gigabyte;
        on a device one per 50 items, between 1000 and 6000, in at most half of its memory.
    precision : {"mixed", "double"}
        With "mixed", products with a Gaussian kernel on a device are computed in single precision
        and corrected by residuals in double precision, until these meet `tol`.
    progress : bool or callable
        Show a bar with the residual; or call a function with the `Step` of each iteration, which
        stops the fit by returning True.

    Notes
    -----
    [APS10] Sect. 5 names large-scale training with kernels as future work. The preconditioner
    follows Frangella, Tropp and Udell (2023), doi:10.1137/21M1466244.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ConjugateGradients, RankRLS
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X[:, 0] * X[:, 1]
    >>> solver = ConjugateGradients(tol=1e-10, n_basis=50)
    >>> ranker = RankRLS(kernel="gaussian", solver=solver, random_state=0).fit(X, y)
    >>> dense = RankRLS(kernel="gaussian", solver="direct").fit(X, y)
    >>> bool(np.allclose(ranker.predict(X), dense.predict(X), atol=1e-8))
    True
    """

    tol: Tolerance = 1e-10
    max_iter: Count = 1000
    n_basis: Count | None = None
    precision: Literal["mixed", "double"] = "mixed"
    progress: bool | StepCallback = False

    def __post_init__(self) -> None:
        settle(self)

    @property
    def rule(self) -> StoppingRule:
        """The stopping rule."""
        return StoppingRule(self.tol, self.max_iter)

    def basis_size(self, n_items: int, where: Array) -> int:
        """Return the number of basis rows for this many items, which are where an array is."""
        if self.n_basis is not None:
            return min(n_items, self.n_basis)
        usual, entries = BASIS_ROWS, BASIS_ENTRIES
        if not is_on_host(where):
            usual = min(max(usual, n_items // ITEMS_PER_BASIS_ROW), MOST_BASIS_ROWS)
            entries = max(entries, memory_of(where) // 16)
        return min(n_items, max(1, min(usual, entries // n_items)))


@final
@dataclass(frozen=True, eq=False)
class LowRank:
    r"""The part of a matrix that some features span: ``H diag(values) H'``, H orthonormal.

    As a preconditioner of the matrix plus alpha it divides by ``values + alpha`` where it knows
    the matrix, and by ``values.min() + alpha`` elsewhere.
    """

    H: Array
    values: FloatArray

    @classmethod
    def of(cls, Z: Array) -> Self:
        """Build from features, (order, n_features), which are overwritten."""
        found, vectors = eigh_in_place(gram(Z))
        # the largest first: the others, known less exactly, are made orthogonal to them
        values, rotation = to_host(found)[::-1], to_host(vectors)[:, ::-1]
        kept = values > KEPT * values.max(initial=0.0)
        values, rotation = values[kept], like(rotation[:, kept] / np.sqrt(values[kept]), Z)
        for rows in row_blocks(Z):
            Z[rows, : len(values)] = Z[rows, :] @ rotation
        H = Z[:, : len(values)]
        if values.max(initial=0.0) <= SPREAD * values.min(initial=np.inf):
            return cls(H, values)
        # orthonormal up to rounding: one more Cholesky factorisation
        C = cholesky(gram(H))
        return cls(H if C is None else solve_rows(C, H), values)

    def divide(self, V: Array, alpha: float) -> Array:
        """Return the preconditioned vectors, V of shape (order, k)."""
        if len(self.values) == 0:
            return V
        shares = ((self.values.min() + alpha) / (self.values + alpha) - 1.0)[:, None]
        return V + self.H @ (like(shares, V) * (self.H.T @ V))


class Iterated(NamedTuple):
    """What conjugate gradients found, and why they ended."""

    C: Array
    n_iter: int
    ending: Ending


def solve_by_iterations(
    apply: Product,
    divide: Product,
    B: Array,
    settings: ConjugateGradients,
    *,
    start: Array | None = None,
    single: Product | None = None,
) -> Iterated:
    """Solve ``apply(C) = B`` for a symmetric positive definite operator.

    Ctrl-C ends the run after the current iteration with what was found so far.

    Parameters
    ----------
    apply : function of (order, k)
        The operator.
    divide : function of (order, k)
        The preconditioner: an approximate inverse, symmetric and positive definite.
    B : (order, k)
        Right-hand sides, which share every product.
    settings : ConjugateGradients
        When to stop, and what to show.
    start : (order, k), optional
        Where to start; by default zeros.
    single : function of (order, k), optional
        The operator in single precision, and quicker. Corrections are found with it, each from the
        residual of the operator itself, which goes on alone where they no longer help.
    """
    rule = settings.rule
    with steps_shown(settings.progress, "conjugate gradients", rule.max_iter) as on_step:
        C, n_iter, error, reason = start, 0, np.inf, None
        if single is not None:
            C, n_iter, error, reason = _correct(apply, single, divide, B, rule, on_step, start)
        if reason is None:
            left = replace(rule, max_iter=rule.max_iter - n_iter)
            watch = None if on_step is None else _Watch(on_step, n_iter, 1.0, patience=np.inf)
            descent, reason = _descend(apply, divide, B, left, watch, C)
            C, n_iter = descent.X, n_iter + descent.iteration
            error = float(descent.residuals().max(initial=0.0))
    return Iterated(C, n_iter, rule.end(reason, n_iter, error, REMEDY))


def _descend(
    apply: Product,
    divide: Product,
    B: Array,
    rule: StoppingRule,
    on_step: StepCallback | None,
    start: Array | None = None,
) -> tuple[Descent, Reason]:
    descent = Descent(apply, B, precondition=divide, start=start)
    try:
        return descent, descent.run(rule, on_step)
    except KeyboardInterrupt:
        descent.R = B - apply(descent.X)  # the step may have been cut in two
        return descent, "interrupted"


def _correct(
    apply: Product,
    single: Product,
    divide: Product,
    B: Array,
    rule: StoppingRule,
    on_step: StepCallback | None,
    start: Array | None,
) -> tuple[Array, int, float, Reason | None]:
    """Return what corrections in single precision find, their number of iterations and the error.

    The reason to end is None where a correction did not do a tenth of what it was to do.
    """
    C, R = (B * 0.0, B) if start is None else (start, B - apply(start))
    n_iter, error = 0, _share(R, B)
    while error > rule.tol and n_iter < rule.max_iter:
        # a correction that solves for the residual, in single precision
        watch = _Watch(on_step, n_iter, error)
        tol = min(0.5, max(CORRECTION, 0.5 * rule.tol / error))
        left = StoppingRule(tol, rule.max_iter - n_iter)
        descent, reason = _descend(single, divide, R, left, watch)
        n_iter += descent.iteration
        if watch.was_asked or reason == "interrupted":
            error *= float(descent.residuals().max(initial=0.0))
            return C + descent.X, n_iter, error, reason
        # the residual that it leaves, in double precision
        corrected, before = B - apply(C + descent.X), error
        now = _share(corrected, B)
        if now < before:
            C, R, error = C + descent.X, corrected, now
        if not now <= max(LEAST_GAIN * before, rule.tol) and n_iter < rule.max_iter:
            return C, n_iter, error, None
    return C, n_iter, error, "converged" if error <= rule.tol else "max_iter"


def _share(R: Array, B: Array) -> float:
    """Return the largest residual as a share of its right-hand side."""
    sizes = dots(B, B)
    return float(np.sqrt((dots(R, R) / np.where(sizes > 0, sizes, 1.0)).max(initial=0.0)))


@final
@dataclass(eq=False)
class _Watch:
    """Report steps as those of the whole run, and stop iterations that no longer get anywhere.

    Parameters
    ----------
    on_step
        What gets the steps, and may ask to stop.
    n_before
        Number of iterations made before.
    share
        The residual that errors are shares of.
    patience
        Iterations within which the error must have halved.
    """

    on_step: StepCallback | None
    n_before: int
    share: float
    patience: float = STALLED
    was_asked: bool = False
    lowest: float = np.inf
    lowest_at: int = 0

    def __call__(self, step: Step) -> bool:
        whole = replace(
            step, iteration=self.n_before + step.iteration, error=self.share * step.error
        )
        self.was_asked = self.on_step is not None and wants_to_stop(self.on_step(whole))
        if step.error < 0.5 * self.lowest:
            self.lowest, self.lowest_at = step.error, step.iteration
        return self.was_asked or step.iteration - self.lowest_at >= self.patience


@final
@dataclass(frozen=True, eq=False)
class CoordinateOperator(NormalOperator):
    """The dual equations of `MatrixFree` for many alphas at once: ``R'KR`` and c0, no matrix.

    Parameters
    ----------
    product : function
        Gives ``K @ V``.
    root : Root
        R of the graph.
    targets : (rank,)
        c0, with ``R c0 = r``.
    size : float
        Largest entry of the diagonal of K.
    """

    product: Product
    root: Root
    targets: FloatArray
    size: float

    @classmethod
    def of(cls, graph: PreferenceGraph, product: Product, size: float) -> Self:
        """Build for a graph of one output."""
        root = graph.laplacian.root()
        return cls(product, root, root.solve(as_columns(graph.rhs))[:, 0], size)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of coordinates."""
        return self.root.rank

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``R'KR w``."""
        image = self.root.to_coordinates(self.product(self.root.to_items(w[:, None])))
        return image[:, 0]

    def rhs(self) -> FloatArray:
        """Return c0."""
        return self.targets

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of independent preferences: coordinates are nothing else."""
        return self.root.rank

    def diagonal(self) -> FloatArray:
        """Return a bound on the diagonal of ``R'KR``."""
        return np.full(self.n_features, self.size)


@final
@dataclass(frozen=True, eq=False)
class MatrixFree:
    """The dual equations ``(R'KR + alpha I) c = c0`` by products with K alone.

    The same equations as those of `System.dual`, whose matrix is never formed. Vectors stay where
    the products are made until the end.

    Parameters
    ----------
    product : function
        Gives ``K @ V``.
    root : Root
        R of the graph.
    rhs : (rank, n_outputs)
        c0, with ``R c0 = r``, on the host.
    known : LowRank
        What the preconditioner knows of ``R'KR``.
    settings : ConjugateGradients
        When to stop.
    rounding : float
        As in `System`.
    single : function, optional
        Gives ``K @ V`` in single precision.
    """

    product: Product
    root: Root
    rhs: FloatArray
    known: LowRank
    settings: ConjugateGradients
    rounding: float
    single: Product | None = None

    @classmethod
    def of(
        cls,
        graph: PreferenceGraph,
        product: Product,
        features: Array,
        settings: ConjugateGradients,
        size: float,
        single: Product | None = None,
    ) -> Self:
        """Build.

        Parameters
        ----------
        graph : PreferenceGraph
            The preferences.
        product : function
            Gives ``K @ V``.
        features : (n_items, n_basis)
            Z with ``Z Z'`` close to K, which are overwritten; vectors are where they are.
        settings : ConjugateGradients
            When to stop.
        size : float
            Largest entry of the diagonal of K.
        single : function, optional
            Gives ``K @ V`` in single precision, and more quickly.
        """
        root = graph.laplacian.root()
        known = LowRank.of(root.like(features).coordinates_in_place(features))
        rhs, rounding = root.solve(as_columns(graph.rhs)), rounding_of_scores(graph, size)
        return cls(product, root, rhs, known, settings, rounding, single)

    def lift(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``, one weight per item."""
        return self.root.to_items(C)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha, and warn if they are not converged."""
        return self._trusted(to_host(self._solution(alpha, None)))

    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha, each from where the next larger one ended."""
        made = self._trusted if checked else self.lift
        start, found = None, {}
        for alpha in sorted(alphas.tolist(), reverse=True):
            start = self._solution(alpha, start)
            found[alpha] = made(to_host(start))
        return np.stack([found[alpha] for alpha in alphas.tolist()])

    def spectrum(self) -> Spectrum:
        """Refuse: there is no matrix to decompose."""
        raise InvalidInputError(
            "Exact hold-outs need the kernel matrix: got a solver that does not form it. Use "
            "solver='direct', or a `basis`."
        )

    def _trusted(self, C: FloatArray) -> FloatArray:
        return trusted_weights(self.lift(C), self.rhs, self.rounding)

    def _solution(self, alpha: float, start: Array | None) -> Array:
        root = self.root.like(self.known.H)

        def applied(product: Product, C: Array) -> Array:
            image = root.to_coordinates(product(root.to_items(C)))
            return image + alpha * C  # [APS10] eq. (8), with the kernel for X X'

        single = None if self.single is None else partial(applied, self.single)
        found = solve_by_iterations(
            partial(applied, self.product),
            lambda V: self.known.divide(V, alpha),
            like(self.rhs, self.known.H),
            self.settings,
            start=start,
            single=single,
        )
        if not np.isfinite(dots(found.C, found.C)).all():
            raise NumericalError(
                "The products with the kernel must be finite: they exceed the range of double "
                "precision. Scale the features, or lower the degree of the kernel."
            )
        found.ending.warn()
        return found.C
