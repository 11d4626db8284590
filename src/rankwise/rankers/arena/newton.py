"""The most probable scores of items without features, by Newton's method on a sparse precision."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self, final

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csr_array
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

NEWTON_RULE = StoppingRule(tol=1e-8, max_iter=100)
"""The tolerance is a bound on the Newton decrement, in units of the log-likelihood."""

USUAL_DEVIATION, DEVIATION_WEIGHT = 1.0, 2.0
"""What is usual for the standard deviation of scores, and how many items this counts like."""

DEVIATION_TOL, MAX_DEVIATION_STEPS = 0.05, 12
"""When the search for the standard deviation ends: the change of its logarithm, and the steps."""

PARAMETER_DEVIATION = 5.0
"""Standard deviation of the prior of widths and of effects of covariates."""


@final
@dataclass(frozen=True, eq=False)
class Precision:
    """Hold a sparse positive definite matrix diag(diagonal) - off, and solve with it.

    Parameters
    ----------
    diagonal : (n_items,)
    off : (n_items, n_items)
        Symmetric, its own diagonal empty; entries may repeat.
    """

    diagonal: FloatArray
    off: csr_array

    @property
    def is_dense(self) -> bool:
        """Whether it is small enough for a dense factor."""
        return len(self.diagonal) <= MAX_DENSE

    def __matmul__(self, B: FloatArray) -> FloatArray:
        return self.diagonal.reshape(-1, *[1] * (B.ndim - 1)) * B - self.off @ B

    @cached_property
    def factor(self) -> FloatArray:
        """The lower Cholesky factor."""
        H = -self.off.toarray()
        H[np.diag_indices(len(H))] += self.diagonal
        C, info = lapack.dpotrf(H, lower=1, clean=1, overwrite_a=1)
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

    def solve(self, B: FloatArray, tol: float = CG_TOL) -> FloatArray:
        """Return the solution for all columns of B, (n_items, n)."""
        if self.is_dense:
            return np.asarray(lapack.dpotrs(self.factor, B, lower=1)[0])
        found = conjugate_gradients(self, B, tol)
        return found.X if found.converged else self._sparse_solve(B)

    def _sparse_solve(self, B: FloatArray) -> FloatArray:
        """Factorise the sparse matrix: for long chains, where its factor stays sparse."""
        n_items = len(self.diagonal)
        diagonal = csr_array((self.diagonal, (np.arange(n_items),) * 2), shape=self.off.shape)
        return np.asarray(splu((diagonal - self.off).tocsc()).solve(B))

    def trace_of_inverse(self, rng: np.random.Generator) -> float:
        """Return the trace of the inverse: exactly, or by a few random signs."""
        if self.is_dense:
            return float(self.covariance.trace())
        signs = rng.choice([-1.0, 1.0], size=(len(self.diagonal), 4))
        rest = self.solve(signs, 1e-2) - signs / self.diagonal[:, None]
        return float(np.sum(1.0 / self.diagonal) + np.sum(signs * rest) / signs.shape[1])


class ScoresFound(NamedTuple):
    """What conjugate gradients have found, and whether it is within the tolerance."""

    X: FloatArray
    converged: bool


def conjugate_gradients(H: Precision, B: FloatArray, tol: float) -> ScoresFound:
    """Solve for all columns together, preconditioned by the diagonal."""
    scale = 1.0 / H.diagonal[:, None]
    X = np.zeros_like(B)
    R, Z = B.copy(), scale * B
    P, rho = Z.copy(), np.einsum("ij,ij->j", B, Z)
    goal = tol**2 * np.maximum(rho, 1e-300)
    for _ in range(min(MAX_CG, 10 * len(B))):
        if (rho <= goal).all():
            return ScoresFound(X, converged=True)
        Q = H @ P
        step = rho / np.maximum(np.einsum("ij,ij->j", P, Q), 1e-300)
        X += step * P
        R -= step * Q
        Z = scale * R
        new = np.einsum("ij,ij->j", R, Z)
        P *= new / np.maximum(rho, 1e-300)
        P += Z
        rho = new
    return ScoresFound(X, converged=False)


@final
@dataclass(frozen=True, eq=False)
class LocalExpansion:
    """Hold the derivatives of the log-likelihood at a point, to the second order.

    Parameters
    ----------
    slope : (n_items,)
        Derivative in the scores.
    diagonal, off
        Minus the second derivative in the scores: diag(diagonal) - off.
    by_parameters : (n_parameters,)
        Derivative in the other parameters.
    mixed : (n_items, n_parameters)
    curvature : (n_parameters, n_parameters)
        Minus the mixed and the second derivatives.
    """

    slope: FloatArray
    diagonal: FloatArray
    off: csr_array
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
    def value(self, f: FloatArray, parameters: FloatArray) -> float:
        """Return the log-likelihood, minus infinity outside its domain."""

    @abstractmethod
    def expand(self, f: FloatArray, parameters: FloatArray) -> LocalExpansion:
        """Return its derivatives."""

    @abstractmethod
    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csr_array:
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
    precision : Precision
    mixed : (n_items, n_parameters)
    parameter_precision : (n_parameters, n_parameters)
        Precision of the parameters once the scores are integrated out.
    value : float
        The log-likelihood.
    n_iter : int
    ending : Ending
    """

    f: FloatArray
    parameters: FloatArray
    deviation: float
    precision: Precision
    mixed: FloatArray
    parameter_precision: FloatArray
    value: float
    n_iter: int
    ending: Ending

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


@final
@dataclass(frozen=True, eq=False)
class _ScoreStep:
    """A Newton step from a point, and what is left to gain."""

    f: FloatArray
    parameters: FloatArray
    decrement: float
    precision: Precision
    mixed: FloatArray
    schur: FloatArray

    @classmethod
    def at(cls, model: ScoreModel, f: FloatArray, theta: FloatArray, deviation: float) -> Self:
        """Solve for the step."""
        point = model.expand(f, theta)
        precision = Precision(point.diagonal + deviation**-2.0, point.off)
        g = point.slope - f / deviation**2
        solved = precision.solve(np.column_stack([g, point.mixed]))
        x, X = solved[:, 0], solved[:, 1:]
        h = point.by_parameters - theta / PARAMETER_DEVIATION**2
        own = point.curvature + np.eye(len(theta)) / PARAMETER_DEVIATION**2
        schur = own - point.mixed.T @ X
        d_theta = np.zeros(0)
        if len(theta):
            d_theta = np.asarray(np.linalg.solve(schur, h - point.mixed.T @ x), dtype=np.float64)
        d_f = x - X @ d_theta
        return cls(d_f, d_theta, float(g @ d_f + h @ d_theta), precision, point.mixed, schur)


def most_probable_scores(
    model: ScoreModel,
    deviation: float,
    start: tuple[FloatArray, FloatArray] | None = None,
    rule: StoppingRule = NEWTON_RULE,
) -> Mode:
    """Maximise log-likelihood and prior by Newton's method with halved steps where needed.

    Parameters
    ----------
    model : ScoreModel
    deviation : float
        Standard deviation of the prior of the scores.
    start : (f, parameters), optional
    rule : StoppingRule
    """
    f, theta = (np.zeros(model.n_items), model.start) if start is None else start
    value = _posterior_value(model, f, theta, deviation)
    step, n_iter = _ScoreStep.at(model, f, theta, deviation), 1
    while step.decrement >= rule.tol and n_iter < rule.max_iter:
        f, theta, value = _line_search(model, f, theta, deviation, value, step)
        step, n_iter = _ScoreStep.at(model, f, theta, deviation), n_iter + 1
    reached = step.decrement < rule.tol
    ending = rule.end(
        "converged" if reached else "max_iter", n_iter, step.decrement, "Check the weights."
    )
    log_likelihood = model.value(f, theta)
    return Mode(
        f, theta, deviation, step.precision, step.mixed, step.schur, log_likelihood, n_iter, ending
    )


def _line_search(
    model: ScoreModel,
    f: FloatArray,
    theta: FloatArray,
    deviation: float,
    value: float,
    step: _ScoreStep,
) -> tuple[FloatArray, FloatArray, float]:
    """Halve the step until the log posterior rises enough (Armijo's rule)."""
    share = 1.0
    while True:
        trial = f + share * step.f, theta + share * step.parameters
        new = _posterior_value(model, *trial, deviation)
        enough = value + 1e-4 * share * step.decrement - 1e-12 * (1.0 + abs(value))
        if new >= enough or share < 1e-10:
            return *trial, new
        share *= 0.5


def _posterior_value(
    model: ScoreModel, f: FloatArray, theta: FloatArray, deviation: float
) -> float:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        value = model.value(f, theta)
    value -= 0.5 * float(f @ f) / deviation**2 + 0.5 * float(theta @ theta) / PARAMETER_DEVIATION**2
    return value if np.isfinite(value) else -np.inf


def fitted_scores(
    model: ScoreModel,
    deviation: float | None,
    rng: np.random.Generator,
    start: Mode | None = None,
) -> Mode:
    """Maximise, with the deviation of the scores that makes the answers most probable.

    The deviation is the fixed point of ``deviation^2 = sum of f^2 / n_determined``, where items
    count as far as the answers and not the prior determine them (MacKay, 1992).
    """
    if deviation is not None:
        return most_probable_scores(model, deviation, None if start is None else start.start)
    if start is None:
        mode = most_probable_scores(model, USUAL_DEVIATION)
    else:
        mode = most_probable_scores(model, start.deviation, start.start)
    for _ in range(MAX_DEVIATION_STEPS):
        new = _better_deviation(mode, rng)
        settled = abs(np.log(new / mode.deviation)) < DEVIATION_TOL
        mode = most_probable_scores(model, new, mode.start)
        if settled:
            break
    return mode


def _better_deviation(mode: Mode, rng: np.random.Generator) -> float:
    undetermined = mode.precision.trace_of_inverse(rng) / mode.deviation**2
    determined = max(len(mode.f) - undetermined, 0.0)
    squares = float(mode.f @ mode.f) + DEVIATION_WEIGHT * USUAL_DEVIATION**2
    return float(np.sqrt(squares / (determined + DEVIATION_WEIGHT)))


@final
@dataclass(frozen=True, eq=False)
class ScoreSpread:
    """Say how uncertain scores are: standard deviations, and joint draws.

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

        A draw is H^-1 (S z + z' / deviation), and the variance of an item is that given the others,
        which is known, and that of its mean given the others, which draws estimate.
        """
        H, root = mode.precision, model.noise_root(mode.f, mode.parameters, clustered=clustered)
        if H.is_dense:
            return cls._exact(mode, root, clustered=clustered)
        n_draws = n_probes * (4 if clustered else 1)
        z = rng.standard_normal((root.shape[1], n_draws))
        own = rng.standard_normal((len(mode.f), n_draws)) / mode.deviation
        draws = H.solve(root @ z + own, 1e-2)
        if clustered:
            draws -= draws.mean(axis=0)
            return cls(np.sqrt(np.square(draws).mean(axis=1)), None)
        given_others = (H.off @ draws) / H.diagonal[:, None]
        given_others -= draws.mean(axis=0)
        variance = 1.0 / H.diagonal + np.square(given_others).mean(axis=1)
        return cls(np.sqrt(variance), None)

    @classmethod
    def _exact(cls, mode: Mode, root: csr_array, *, clustered: bool) -> Self:
        cov = mode.precision.covariance
        if clustered:
            spread = root.T @ cov
            cov = spread.T @ spread + cov @ cov / mode.deviation**2
        elif len(mode.parameters):
            X = cov @ mode.mixed
            cov = cov + X @ np.linalg.solve(mode.parameter_precision, X.T)
        cov = cov - cov.mean(axis=0)
        cov = cov - cov.mean(axis=1)[:, None]
        return cls(np.sqrt(np.maximum(cov.diagonal(), 0.0)), cov)

    def lead_variance(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return the variance of the difference of two scores, pair by pair."""
        variance = self.std[first] ** 2 + self.std[second] ** 2
        if self.covariance is None:
            return variance
        return np.maximum(variance - 2.0 * self.covariance[first, second], 0.0)

    def draws(self, mean: FloatArray, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw scores, (n_draws, n_items): jointly, or for many items each by itself."""
        z = rng.standard_normal((n_draws, len(mean)))
        if self.covariance is None:
            return mean + self.std * z
        values, vectors = np.linalg.eigh(self.covariance)
        return mean + z @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
