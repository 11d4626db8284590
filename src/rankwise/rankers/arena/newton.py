"""The most probable scores of items without features, by Newton's method on a sparse precision."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self, final

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import NumericalError
from rankwise.solve.iteration import Ending, StoppingRule

MAX_DENSE = 600
"""Items up to which the precision is factorised as a dense matrix."""

N_PROBES = 16
"""Draws from which variances are estimated where the precision is not factorised."""

MAX_CG, CG_TOL = 2000, 1e-4
"""Iterations after which conjugate gradients give way to a sparse factor, and their tolerance."""

FIRST_TOL, NEAR_TOL, NEAR = 1e-2, 1e-3, 1.0
"""Tolerances of the conjugate gradients of Newton steps: far away, and once one gains little."""

NEWTON_RULE = StoppingRule(tol=1e-6, max_iter=100)
"""The tolerance is a bound on the Newton decrement, in units of the log-likelihood."""

LOOSE_GAIN = 1e-3
"""Newton decrement for each item at which scores are good enough to learn the deviation from."""

USUAL_DEVIATION, DEVIATION_WEIGHT = 1.0, 2.0
"""What is usual for the standard deviation of scores, and how many items this counts like."""

N_SIGNS, DRAW_TOL = 4, 1e-2
"""Random signs from which a trace is estimated, and the tolerance of solutions for draws."""

DRAW_BLOCK = 2**16
"""Columns of the noise that are drawn at once."""

DRAW_JITTER = 1e-9
"""What is added to variances before draws, as a share of them."""

DEVIATION_TOL, MAX_DEVIATION_STEPS = 0.05, 12
"""When the search for the standard deviation ends: the change of its logarithm, and the steps."""

PARAMETER_DEVIATION = 5.0
"""Standard deviation of the prior of widths and of effects of covariates."""


@final
@dataclass(frozen=True, eq=False)
class Precision:
    """Hold a sparse positive definite matrix diag(diagonal) - upper - upper', and solve with it.

    Parameters
    ----------
    diagonal : (n_items,)
    upper : (n_items, n_items)
        Entries above the diagonal; they may repeat.
    """

    diagonal: FloatArray
    upper: csr_array

    @property
    def is_dense(self) -> bool:
        """Whether it is small enough for a dense factor."""
        return len(self.diagonal) <= MAX_DENSE

    @cached_property
    def _lower(self) -> csc_array:
        return self.upper.T

    def off_product(self, B: FloatArray) -> FloatArray:
        """Return (upper + upper') B."""
        found: FloatArray = self.upper @ B
        found += self._lower @ B
        return found

    def __matmul__(self, B: FloatArray) -> FloatArray:
        found = self.diagonal.reshape(-1, *[1] * (B.ndim - 1)) * B
        found -= self.upper @ B
        found -= self._lower @ B
        return found

    @cached_property
    def factor(self) -> FloatArray:
        """The lower Cholesky factor."""
        H = -self.upper.toarray()
        H[np.diag_indices(len(H))] += self.diagonal
        C, info = lapack.dpotrf(H.T, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NumericalError(
                "The precision of the scores must be positive definite in double precision; it is "
                "not. Check the weights of the comparisons."
            )
        return C

    @cached_property
    def covariance(self) -> FloatArray:
        """The inverse, for a dense factor."""
        inverse, _ = lapack.dpotri(self.factor, lower=1)
        return np.tril(inverse) + np.tril(inverse, -1).T

    def solve(
        self, B: FloatArray, tol: float = CG_TOL, start: FloatArray | None = None
    ) -> FloatArray:
        """Return the solution for all columns of B, (n_items, n), from a start nearby."""
        if self.is_dense:
            return np.asarray(lapack.dpotrs(self.factor, B, lower=1)[0])
        found = conjugate_gradients(self, B, tol, start)
        return found.X if found.converged else self._sparse_solve(B)

    def _sparse_solve(self, B: FloatArray) -> FloatArray:
        """Factorise the sparse matrix: for long chains, where its factor stays sparse."""
        n_items = len(self.diagonal)
        diagonal = csr_array((self.diagonal, (np.arange(n_items),) * 2), shape=self.upper.shape)
        return np.asarray(splu((diagonal - self.upper - self._lower).tocsc()).solve(B))


class ScoresFound(NamedTuple):
    """What conjugate gradients have found, and whether it is within the tolerance."""

    X: FloatArray
    converged: bool


def conjugate_gradients(
    H: Precision, B: FloatArray, tol: float, start: FloatArray | None = None
) -> ScoresFound:
    """Solve for all columns together, preconditioned by the diagonal."""
    scale, ones = 1.0 / H.diagonal[:, None], np.ones(len(B))
    X = np.zeros_like(B) if start is None else start.copy()
    R = B.copy() if start is None else B - H @ start
    Z = scale * R
    P, rho = Z.copy(), ones @ (R * Z)
    given = rho if start is None else ones @ (B * B * scale)
    goal = tol**2 * np.maximum(given, 1e-300)
    for _ in range(min(MAX_CG, 10 * len(B))):
        if (rho <= goal).all():
            return ScoresFound(X, converged=True)
        Q = H @ P
        step = rho / np.maximum(ones @ (P * Q), 1e-300)
        X += step * P
        Q *= step
        R -= Q
        np.multiply(scale, R, out=Z)
        new = ones @ (R * Z)
        P *= new / np.maximum(rho, 1e-300)
        P += Z
        rho = new
    return ScoresFound(X, converged=False)


@final
@dataclass(frozen=True, eq=False)
class LocalExpansion:
    """Hold the log-likelihood at a point, and its derivatives to the second order.

    Parameters
    ----------
    value : float
        Minus infinity outside of its domain.
    slope : (n_items,)
        Derivative in the scores.
    diagonal, upper
        Minus the second derivative in the scores: diag(diagonal) - upper - upper'.
    by_parameters : (n_parameters,)
        Derivative in the other parameters.
    mixed : (n_items, n_parameters)
    curvature : (n_parameters, n_parameters)
        Minus the mixed and the second derivatives.
    """

    value: float
    slope: FloatArray
    diagonal: FloatArray
    upper: csr_array
    by_parameters: FloatArray
    mixed: FloatArray
    curvature: FloatArray


class ScoreModel(ABC):
    """A log-likelihood of scores and a few more parameters, concave in all of them."""

    @property
    @abstractmethod
    def n_items(self) -> int:
        """Number of scores."""

    @property
    @abstractmethod
    def start(self) -> FloatArray:
        """Where the other parameters start."""

    @abstractmethod
    def expand(self, f: FloatArray, parameters: FloatArray) -> LocalExpansion:
        """Return the log-likelihood and its derivatives."""

    @abstractmethod
    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csc_array:
        """Return S with S S' the variance of the slope.

        Either what the model says it is (the curvature), or what the judges say: the sum of the
        squared slopes of every judge.
        """


@final
@dataclass(frozen=True, eq=False)
class Mode:
    """Hold the most probable scores under the prior N(0, deviation^2), and the precision there.

    Parameters
    ----------
    f : (n_items,)
    parameters : (n_parameters,)
    deviation : float
    point : LocalExpansion
        Of the log-likelihood, there or a last small step before.
    ending : Ending
    """

    f: FloatArray
    parameters: FloatArray
    deviation: float
    point: LocalExpansion
    ending: Ending

    @classmethod
    def begin(cls, model: ScoreModel, deviation: float, start: Self | None = None) -> Self:
        """Return a place to search from, where nothing has been searched yet."""
        f, theta = (np.zeros(model.n_items), model.start) if start is None else start.start
        unsearched = NEWTON_RULE.end("max_iter", 0, np.inf, "Search for the mode.")
        return cls(f, theta, deviation, model.expand(f, theta), unsearched)

    @property
    def value(self) -> float:
        """The log-likelihood."""
        return self.point.value

    @cached_property
    def precision(self) -> Precision:
        """Minus the second derivative of the log posterior in the scores."""
        return Precision(self.point.diagonal + self.deviation**-2.0, self.point.upper)

    @property
    def posterior_value(self) -> float:
        """Log-likelihood and log prior, minus infinity where they have no finite value."""
        prior = float(self.f @ self.f) / self.deviation**2
        prior += float(self.parameters @ self.parameters) / PARAMETER_DEVIATION**2
        value = self.value - 0.5 * prior
        return value if np.isfinite(value) else -np.inf

    @cached_property
    def parameter_precision(self) -> FloatArray:
        """Precision of the parameters once the scores are integrated out."""
        mixed, own = self.point.mixed, np.eye(len(self.parameters)) / PARAMETER_DEVIATION**2
        return self.point.curvature + own - mixed.T @ self.precision.solve(mixed)

    @cached_property
    def parameter_deviations(self) -> FloatArray:
        """The standard deviations of the parameters."""
        if len(self.parameters) == 0:
            return np.zeros(0)
        return np.sqrt(np.linalg.inv(self.parameter_precision).diagonal())

    @property
    def start(self) -> tuple[FloatArray, FloatArray]:
        """Where a search nearby starts."""
        return self.f, self.parameters

    def newton_step(self, tol: float) -> "_ScoreStep":
        """Solve for the step that leads to the mode of the expansion."""
        point, theta = self.point, self.parameters
        g = point.slope - self.f / self.deviation**2
        h = point.by_parameters - theta / PARAMETER_DEVIATION**2
        if len(theta) == 0:
            d_f = self.precision.solve(g[:, None], tol)[:, 0]
            return _ScoreStep(d_f, theta, float(g @ d_f))
        solved = self.precision.solve(np.column_stack([g, point.mixed]), tol)
        x, X = solved[:, 0], solved[:, 1:]
        own = point.curvature + np.eye(len(theta)) / PARAMETER_DEVIATION**2
        schur = own - point.mixed.T @ X
        d_theta = np.asarray(np.linalg.solve(schur, h - point.mixed.T @ x), dtype=np.float64)
        d_f = x - X @ d_theta
        return _ScoreStep(d_f, d_theta, float(g @ d_f + h @ d_theta))

    def moved(self, model: ScoreModel, step: "_ScoreStep") -> Self:
        """Halve the step until the log posterior rises enough (Armijo's rule)."""
        share, value = 1.0, self.posterior_value
        while True:
            f, theta = self.f + share * step.f, self.parameters + share * step.parameters
            there = replace(self, f=f, parameters=theta, point=model.expand(f, theta))
            enough = value + 1e-4 * share * step.gain - 1e-12 * (1.0 + abs(value))
            if there.posterior_value >= enough or share < 1e-10:
                return there
            share *= 0.5


class _ScoreStep(NamedTuple):
    """A Newton step from a place, and what is left to gain: the Newton decrement."""

    f: FloatArray
    parameters: FloatArray
    gain: float


def most_probable_scores(
    model: ScoreModel,
    deviation: float,
    start: Mode | None = None,
    rule: StoppingRule = NEWTON_RULE,
) -> Mode:
    """Maximise log-likelihood and prior by Newton's method with halved steps where needed.

    Parameters
    ----------
    model : ScoreModel
    deviation : float
        Standard deviation of the prior of the scores.
    start : Mode, optional
    rule : StoppingRule
    """
    return _searched(model, Mode.begin(model, deviation, start), rule)


def _searched(model: ScoreModel, place: Mode, rule: StoppingRule) -> Mode:
    """Take Newton steps until one gains less than the tolerance, and that one as well."""
    step, n_iter = place.newton_step(FIRST_TOL), 1
    while step.gain >= rule.tol and n_iter < rule.max_iter:
        place = place.moved(model, step)
        step = place.newton_step(FIRST_TOL if step.gain > NEAR else NEAR_TOL)
        n_iter += 1
    reached = step.gain < rule.tol
    ending = rule.end("converged" if reached else "max_iter", n_iter, step.gain, "Check the weights.")
    f, parameters = place.f + step.f, place.parameters + step.parameters
    return replace(place, f=f, parameters=parameters, ending=ending)


def fitted_scores(
    model: ScoreModel,
    deviation: float | None,
    rng: np.random.Generator,
    start: Mode | None = None,
    *,
    is_exact: bool = True,
) -> Mode:
    """Maximise, with the deviation of the scores that makes the answers most probable.

    The deviation is the fixed point of ``deviation^2 = sum of f^2 / n_determined``, where items
    count as far as the answers and not the prior determine them (MacKay, 1992). The scores need not
    be exact on the way there, nor at the end when a further search follows.
    """
    usual = USUAL_DEVIATION if start is None else start.deviation
    place = _near(model, Mode.begin(model, deviation or usual, start))
    if deviation is None:
        place = _with_deviation(model, place, rng)
    return _searched(model, place, NEWTON_RULE) if is_exact else place


def _near(model: ScoreModel, place: Mode) -> Mode:
    """Take Newton steps until one gains little for each item, and that one as well."""
    for _ in range(NEWTON_RULE.max_iter):
        step = place.newton_step(FIRST_TOL)
        place = place.moved(model, step)
        if step.gain < LOOSE_GAIN * len(place.f):
            break
    return place


def _with_deviation(model: ScoreModel, place: Mode, rng: np.random.Generator) -> Mode:
    """Learn the deviation along with the scores."""
    probe = TraceProbe.of(len(place.f), rng)
    for _ in range(MAX_DEVIATION_STEPS):
        probe = probe.solved(place.precision)
        new = _better_deviation(place, probe.trace(place.precision))
        settled = abs(np.log(new / place.deviation)) < DEVIATION_TOL
        place = replace(place, deviation=new)
        if settled:
            break
        place = _near(model, place)
    return place


def _better_deviation(mode: Mode, trace: float) -> float:
    determined = max(len(mode.f) - trace / mode.deviation**2, 0.0)
    squares = float(mode.f @ mode.f) + DEVIATION_WEIGHT * USUAL_DEVIATION**2
    return float(np.sqrt(squares / (determined + DEVIATION_WEIGHT)))


@final
@dataclass(frozen=True, eq=False)
class TraceProbe:
    """Hold random signs, from which the trace of an inverse is estimated where it is not known.

    Parameters
    ----------
    signs : (n_items, n_signs)
    solution : (n_items, n_signs) or None
        For the last matrix, from where that for the next one is found.
    """

    signs: FloatArray
    solution: FloatArray | None = None

    @classmethod
    def of(cls, n_items: int, rng: np.random.Generator) -> Self:
        """Draw the signs."""
        return cls(random_signs(n_items, N_SIGNS, rng))

    def solved(self, H: Precision) -> Self:
        """Solve with the matrix, unless its inverse is known."""
        if H.is_dense:
            return self
        return replace(self, solution=H.solve(self.signs, DRAW_TOL, self.solution))

    def trace(self, H: Precision) -> float:
        """Return the trace of the inverse: exactly, or by the signs."""
        if self.solution is None:
            return float(H.covariance.trace())
        rest = self.solution - self.signs / H.diagonal[:, None]
        return float(np.sum(1.0 / H.diagonal) + np.sum(self.signs * rest) / self.signs.shape[1])


def random_signs(n_rows: int, n_columns: int, rng: np.random.Generator) -> FloatArray:
    """Return 1 and -1 at random."""
    n_signs = n_rows * n_columns
    bits = np.unpackbits(np.frombuffer(rng.bytes(n_signs // 8 + 1), dtype=np.uint8), count=n_signs)
    return (2.0 * bits - 1.0).reshape(n_rows, n_columns)


@final
@dataclass(frozen=True, eq=False)
class ScoreSpread:
    """Say how uncertain scores are.

    A common shift of all scores cannot be learnt from comparisons and is taken out.

    Parameters
    ----------
    std : (n_items,)
    covariance : (n_items, n_items) or None
        For few items.
    """

    std: FloatArray
    covariance: FloatArray | None

    @classmethod
    def of(
        cls,
        model: ScoreModel,
        mode: Mode,
        rng: np.random.Generator,
        *,
        clustered: bool,
        n_probes: int = N_PROBES,
    ) -> Self:
        """Compute it: exactly for few items, and otherwise from draws.

        A draw is H^-1 (S z + z' / deviation) for random signs z, and the variance of an item is
        that given the others, which is known, and that of its mean given the others, which draws
        estimate.
        """
        H = mode.precision
        if H.is_dense:
            return cls._exact(model, mode, clustered=clustered)
        root = model.noise_root(mode.f, mode.parameters, clustered=clustered)
        n_draws = n_probes * (4 if clustered else 1)
        noise = random_signs(len(mode.f), n_draws, rng) / mode.deviation
        for first in range(0, root.shape[1], DRAW_BLOCK):
            block = root[:, first : first + DRAW_BLOCK]
            noise += block @ random_signs(block.shape[1], n_draws, rng)
        draws = H.solve(noise, DRAW_TOL)
        if clustered:
            draws -= draws.mean(axis=0)
            return cls(np.sqrt(np.square(draws).mean(axis=1)), None)
        given_others = H.off_product(draws) / H.diagonal[:, None]
        given_others -= draws.mean(axis=0)
        variance = 1.0 / H.diagonal + np.square(given_others).mean(axis=1)
        return cls(np.sqrt(variance), None)

    @classmethod
    def _exact(cls, model: ScoreModel, mode: Mode, *, clustered: bool) -> Self:
        cov = mode.precision.covariance
        if clustered:
            root = model.noise_root(mode.f, mode.parameters, clustered=True)
            spread = root.T @ cov
            cov = spread.T @ spread + cov @ cov / mode.deviation**2
        elif len(mode.parameters):
            X = cov @ mode.point.mixed
            cov = cov + X @ np.linalg.solve(mode.parameter_precision, X.T)
        cov = cov - cov.mean(axis=0)
        cov = cov - cov.mean(axis=1)[:, None]
        return cls(np.sqrt(np.maximum(cov.diagonal(), 0.0)), cov)

    def lead_variance(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return the variance of the difference of two scores, pair by pair."""
        variance = np.square(self.std)
        variance = variance[first] + variance[second]
        if self.covariance is None:
            return variance
        return np.maximum(variance - 2.0 * self.covariance[first, second], 0.0)

    def draws(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw deviations of the scores, (n_draws, n_items), up to a common shift of each draw."""
        assert self.covariance is not None
        variance = np.square(self.std)
        shifted = self.covariance + variance.mean()
        shifted[np.diag_indices(len(shifted))] += DRAW_JITTER * (variance + variance.mean())
        factor, info = lapack.dpotrf(shifted, lower=1, clean=1)
        assert info == 0
        return rng.standard_normal((n_draws, len(variance))) @ factor.T
