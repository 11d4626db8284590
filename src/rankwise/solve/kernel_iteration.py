"""Kernel problems too large for a kernel matrix: conjugate gradients on products with it."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Self, TypedDict, final

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from rankwise.core.arrays import FloatArray, as_columns
from rankwise.core.checks import check_choice, check_count
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError, NumericalError
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

ITEMS_PER_BASIS_ROW, MOST_BASIS_ROWS = 50, 8000
"""On a device there are as many basis rows as this, if they are more: products take longer."""

CORRECTION = 1e-5
"""Residual to which a correction is solved for with products of single precision."""

STALLED = 50
"""Iterations in which products of single precision must halve the residual."""

LEAST_GAIN = 0.1
"""A correction that leaves more than this share of the residual is the last one."""

TURNED_ROWS = 1 << 16
"""Rows of features that a device multiplies together."""

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
        on a device one per 50 items, between 1000 and 8000, in at most half of its memory.
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

    tol: float = 1e-10
    max_iter: int = 1000
    n_basis: int | None = None
    precision: Literal["mixed", "double"] = "mixed"
    progress: bool | StepCallback = False

    def __post_init__(self) -> None:
        StoppingRule.of(self.tol, self.max_iter)
        check_choice("precision", self.precision, ("mixed", "double"))
        if self.n_basis is not None:
            check_count("n_basis", self.n_basis)

    @property
    def rule(self) -> StoppingRule:
        """The stopping rule."""
        return StoppingRule(self.tol, self.max_iter)

    def basis_size(self, n_items: int, device: Device | None = None) -> int:
        """Return the number of basis rows for so many items."""
        if self.n_basis is not None:
            return min(n_items, self.n_basis)
        usual, entries = BASIS_ROWS, BASIS_ENTRIES
        if device is not None:
            usual = min(max(usual, n_items // ITEMS_PER_BASIS_ROW), MOST_BASIS_ROWS)
            entries = max(entries, device.memory() // 16)
        return min(n_items, max(1, min(usual, entries // n_items)))


def as_conjugate_gradients(solver: object, names: tuple[str, ...]) -> ConjugateGradients:
    """Return the settings that a solver or the name of one stands for."""
    if isinstance(solver, ConjugateGradients):
        return solver
    check_choice("solver", solver, names)
    return ConjugateGradients()


@final
@dataclass(frozen=True, eq=False)
class LowRank:
    r"""The part of a matrix that some features span: ``H diag(values) H'``, H orthonormal.

    As a preconditioner of the matrix plus alpha it divides by ``values + alpha`` where it knows
    the matrix, and by ``values.min() + alpha`` elsewhere.
    """

    H: DeviceArray
    values: FloatArray
    device: Device | None

    @classmethod
    def of(cls, Z: DeviceArray, device: Device | None) -> Self:
        """Build from features, (order, n_features), here or on a device: O(order n_features^2).

        On a device they are overwritten.
        """
        values, vectors = _eigh(Z, device)
        # the largest first: the others, known less exactly, are made orthogonal to them
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > KEPT * values.max(initial=0.0)
        values, vectors = values[kept], vectors[:, kept] / np.sqrt(values[kept])
        return cls(_orthonormal(_turned(Z, vectors, device), device), values, device)

    def divide(self, V: DeviceArray, alpha: float) -> DeviceArray:
        """Return the preconditioned vectors, V of shape (order, k)."""
        if len(self.values) == 0:
            return V
        shares = ((self.values.min() + alpha) / (self.values + alpha) - 1.0)[:, None]
        there = shares if self.device is None else self.device.array(shares)
        return V + self.H @ (there * (self.H.T @ V))


def _eigh(Z: DeviceArray, device: Device | None) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues and eigenvectors of ``Z' Z``."""
    if device is None:
        found: tuple[FloatArray, FloatArray] = eigh(Z.T @ Z)
        return found
    values, vectors = device.eigh(device.gram(Z))
    return device.host(values), device.host(vectors)


def _turned(Z: DeviceArray, vectors: FloatArray, device: Device | None) -> DeviceArray:
    """Return ``Z @ vectors``: on a device in the memory of Z, some rows at a time."""
    if device is None:
        return Z @ vectors
    there, width = device.array(vectors), vectors.shape[1]
    for start in range(0, len(Z), TURNED_ROWS):
        rows = slice(start, start + TURNED_ROWS)
        Z[rows, :width] = Z[rows] @ there
    return Z[:, :width]


def _orthonormal(H: DeviceArray, device: Device | None) -> DeviceArray:
    """Make columns that are nearly orthonormal so up to rounding: a Cholesky factorisation."""
    if device is None:
        return solve_triangular(cholesky(H.T @ H, lower=True), H.T, lower=True).T
    return device.solve_rows(device.factor(device.gram(H)), H)


@final
@dataclass(frozen=True, eq=False)
class Iterated:
    """What conjugate gradients found, and why they ended."""

    C: DeviceArray
    n_iter: int
    ending: Ending


def preconditioned_conjugate_gradients(
    apply: Product,
    divide: Product,
    B: DeviceArray,
    settings: ConjugateGradients,
    *,
    start: DeviceArray | None = None,
    label: str = "conjugate gradients",
    device: Device | None = None,
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
    label : str
        What the progress bar says.
    device : Device, optional
        Where the vectors are.
    """
    rule = settings.rule
    with steps_shown(settings.progress, label, rule.max_iter) as on_step:
        descent = Descent(apply, B, precondition=divide, start=start, device=device)
        try:
            reason = descent.run(rule, on_step)
        except KeyboardInterrupt:
            reason = "interrupted"
            descent.R = B - apply(descent.X)  # the step may have been cut in two
    error = float(descent.residuals().max(initial=0.0))
    ending = rule.end(reason, descent.iteration, error, REMEDY)
    return Iterated(descent.X, descent.iteration, ending)


def refined_conjugate_gradients(
    apply: Product,
    rough: Product,
    divide: Product,
    B: DeviceArray,
    settings: ConjugateGradients,
    *,
    start: DeviceArray | None = None,
    device: Device | None = None,
) -> Iterated:
    """Solve ``apply(C) = B`` by corrections that a rough and quicker form of the operator finds.

    Each correction is solved for to a residual of `CORRECTION`, as far as the rough operator
    allows, and the next one starts from the residual of the true operator. Where a correction does
    not do a tenth of that, the true operator goes on alone.
    """
    with steps_shown(settings.progress, "conjugate gradients", settings.max_iter) as on_step:
        return _Refinement(apply, rough, divide, B, settings, on_step, device).run(start)


@final
@dataclass(frozen=True, eq=False)
class _Refinement:
    """Corrections by a rough operator, each from the residual of the true one."""

    apply: Product
    rough: Product
    divide: Product
    B: DeviceArray
    settings: ConjugateGradients
    on_step: StepCallback | None
    device: Device | None

    def run(self, start: DeviceArray | None) -> Iterated:
        C = self.B * 0.0 if start is None else start
        R, n_iter = (self.B if start is None else self.B - self.apply(start)), 0
        while (error := self._error(R)) > self.settings.tol and n_iter < self.settings.max_iter:
            watch = _Watch(self.on_step, n_iter, error)
            found = self._correction(R, error, watch)
            n_iter += found.n_iter
            if watch.was_asked or found.ending.reason == "interrupted":
                return Iterated(C + found.C, n_iter, found.ending)
            corrected = self.B - self.apply(C + found.C)
            now = self._error(corrected)
            if now < error:
                C, R = C + found.C, corrected
            is_poor = not now <= max(LEAST_GAIN * error, self.settings.tol)
            if is_poor and n_iter < self.settings.max_iter:
                return self._finish(C, n_iter)
        reason: Reason = "converged" if error <= self.settings.tol else "max_iter"
        return Iterated(C, n_iter, self.settings.rule.end(reason, n_iter, error, REMEDY))

    def _error(self, R: DeviceArray) -> float:
        sizes = dots(self.B, self.B, self.device)
        shares = dots(R, R, self.device) / np.where(sizes > 0, sizes, 1.0)
        return float(np.sqrt(shares.max(initial=0.0)))

    def _correction(self, R: DeviceArray, error: float, watch: "_Watch") -> Iterated:
        """Solve with the rough operator for what is left."""
        tol = min(0.5, max(CORRECTION, 0.5 * self.settings.tol / error))
        left = self.settings.max_iter - watch.n_before
        settings = replace(self.settings, tol=tol, max_iter=left, progress=watch)
        return preconditioned_conjugate_gradients(
            self.rough, self.divide, R, settings, device=self.device
        )

    def _finish(self, C: DeviceArray, n_iter: int) -> Iterated:
        """Go on with the true operator alone."""
        progress = False if self.on_step is None else _Watch(self.on_step, n_iter, 1.0, np.inf)
        left = self.settings.max_iter - n_iter
        settings = replace(self.settings, max_iter=left, progress=progress)
        found = preconditioned_conjugate_gradients(
            self.apply, self.divide, self.B, settings, start=C, device=self.device
        )
        return Iterated(found.C, n_iter + found.n_iter, found.ending)


@final
@dataclass(eq=False)
class _Watch:
    """Tell steps as those of the whole run, and stop iterations that no longer get anywhere.

    Parameters
    ----------
    on_step
        What is told, and may ask to stop.
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
        told = replace(
            step, iteration=self.n_before + step.iteration, error=self.share * step.error
        )
        self.was_asked = self.on_step is not None and wants_to_stop(self.on_step(told))
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


class _Given(TypedDict):
    """Where to start, and where vectors are."""

    start: DeviceArray | None
    device: Device | None


@final
@dataclass(frozen=True, eq=False)
class MatrixFree:
    """The dual equations ``(R'KR + alpha I) c = c0`` by products with K alone.

    The same equations as those of `System.dual`, whose matrix is never formed.

    Parameters
    ----------
    product : function
        Gives ``K @ V``.
    root : Root
        R of the graph.
    rhs : (rank, n_outputs)
        c0, with ``R c0 = r``.
    known : LowRank
        What the preconditioner knows of ``R'KR``.
    settings : ConjugateGradients
        When to stop.
    size, rounding : float
        As in `System`.
    rough : function, optional
        Gives ``K @ V`` in single precision.
    device : Device, optional
        Where products are made and vectors stay until the end.
    """

    product: Product
    root: Root
    rhs: FloatArray
    known: LowRank
    settings: ConjugateGradients
    size: float
    rounding: float
    rough: Product | None = None
    device: Device | None = None

    @classmethod
    def of(
        cls,
        graph: PreferenceGraph,
        product: Product,
        features: DeviceArray,
        settings: ConjugateGradients,
        size: float,
        device: Device | None = None,
        rough: Product | None = None,
    ) -> Self:
        """Build.

        Parameters
        ----------
        graph : PreferenceGraph
            The preferences.
        product : function
            Gives ``K @ V``.
        features : (n_items, n_basis)
            Z with ``Z Z'`` close to K, here or on the device, where they are overwritten.
        settings : ConjugateGradients
            When to stop.
        size : float
            Largest entry of the diagonal of K.
        device : Device, optional
            Where the features are, and vectors for `product`.
        rough : function, optional
            Gives ``K @ V`` in single precision, and more quickly.
        """
        root = graph.laplacian.root()
        Z = (
            root.to_coordinates(np.ascontiguousarray(features))
            if device is None
            else root.like(features).coordinates_in_place(features)
        )
        rhs = root.solve(as_columns(graph.rhs))
        rounding = rounding_of_scores(graph, size)
        known = LowRank.of(Z, device)
        return cls(product, root, rhs, known, settings, size, rounding, rough, device)

    def lift(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``, one weight per item."""
        return self.root.to_items(C)

    def _trusted(self, C: FloatArray) -> FloatArray:
        return trusted_weights(self.lift(C), self.rhs, self.rounding)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha, and warn if they are not converged."""
        return self._trusted(self._here(self._solution(alpha, None)))

    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha, each from where the next larger one ended."""
        made = self._trusted if checked else self.lift
        start, found = None, {}
        for alpha in sorted(alphas.tolist(), reverse=True):
            start = self._solution(alpha, start)
            found[alpha] = made(self._here(start))
        return np.stack([found[alpha] for alpha in alphas.tolist()])

    def spectrum(self) -> Spectrum:
        """Refuse: there is no matrix to decompose."""
        raise InvalidInputError(
            "Exact hold-outs need the kernel matrix: got a solver that does not form it. Use "
            "solver='direct', or a `basis`."
        )

    def _here(self, C: DeviceArray) -> FloatArray:
        solution: FloatArray = C if self.device is None else self.device.host(C)
        return solution

    def _between(self) -> tuple[Product, Product]:
        """Return the ways from coordinates to items and back."""
        if self.device is None:
            return self.root.to_items, self.root.to_coordinates
        there = self.root.like(self.known.H)
        return there.to_items, there.to_coordinates

    def _solution(self, alpha: float, start: DeviceArray | None) -> DeviceArray:
        to_items, to_coordinates = self._between()

        def applied(product: Product, C: DeviceArray) -> DeviceArray:
            image = to_coordinates(product(to_items(C)))
            return image + alpha * C  # [APS10] eq. (8), with the kernel for X X'

        def divide(V: DeviceArray) -> DeviceArray:
            return self.known.divide(V, alpha)

        apply, given = partial(applied, self.product), _Given(start=start, device=self.device)
        rhs = self.rhs if self.device is None else self.device.array(self.rhs)
        if self.rough is None or self.settings.precision == "double":
            found = preconditioned_conjugate_gradients(apply, divide, rhs, self.settings, **given)
        else:
            rough = partial(applied, self.rough)
            found = refined_conjugate_gradients(apply, rough, divide, rhs, self.settings, **given)
        if not np.isfinite(dots(found.C, found.C, self.device)).all():
            raise NumericalError(
                "The products with the kernel must be finite: they exceed the range of double "
                "precision. Scale the features, or lower the degree of the kernel."
            )
        found.ending.warn()
        return found.C
