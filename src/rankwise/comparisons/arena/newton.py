"""The most probable scores of items without features, by Newton's method on a sparse precision."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi, sqrt
from typing import NamedTuple, Self, final

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu
from scipy.special import ndtri, stdtrit

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import NumericalError
from rankwise.solve.conjugate_gradients import Descent, dots
from rankwise.solve.iteration import Ending, StoppingRule
from rankwise.solve.newton import armijo, halved, newton_steps

MAX_DENSE = 600
"""Items up to which the precision is factorised as a dense matrix."""

N_PROBES = 16
"""Draws from which variances are estimated where the precision is not factorised."""

MAX_CG, CG_TOL = 2000, 1e-4
"""Iterations after which conjugate gradients give way to a sparse factor, and their tolerance."""

FIRST_TOL, NEAR_TOL, FAR = 3e-2, 1e-3, 10.0
"""Tolerances of conjugate gradients in Newton steps: while steps gain more than FAR, and after."""

NEWTON_RULE = StoppingRule(tol=1e-7, max_iter=100)
"""The tolerance bounds the Newton decrement of each item, in units of the log-likelihood."""

EARLY_GAIN, LOOSE_GAIN = 2.0, 3e-2
"""Newton decrement per item at which learning of the deviation begins, and at which it may end."""

USUAL_DEVIATION = 1.0
"""Where the search for the standard deviation of scores starts, and the scale of its prior."""

N_SIGNS, DRAW_TOL = 1, 3e-2
"""Random signs from which a trace is estimated, and the tolerance of solutions for draws."""

DRAW_BLOCK = 2**16
"""Columns of the noise that are drawn at once."""

MOST_SHARE, MOST_FREE = 0.9, 1e4
"""Largest share of the information of a judge, and degrees of freedom that count as infinite."""

FORM_BLOCK = 4096
"""Rows whose variances are computed at once."""

DRAW_JITTER = 1e-9
"""What is added to variances before draws, as a share of them."""

DEVIATION_TOL, LOOSE_DEVIATION_TOL, MAX_DEVIATION_STEPS = 0.1, 0.3, 30
"""When the search for the standard deviation ends: the change of its logarithm, and the steps."""

LEAST_SLOPE = 0.02
"""Least slope of the search for the standard deviation, whose fixed point is far away below it."""

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
        lower, _ = lapack.dpotri(self.factor, lower=1)  # zeros above the diagonal, as the factor
        inverse: FloatArray = lower + lower.T
        inverse[np.diag_indices(len(inverse))] = lower.diagonal()
        return inverse

    def solve(
        self, B: FloatArray, tol: float = CG_TOL, start: FloatArray | None = None
    ) -> FloatArray:
        """Return the solution for all columns of B, (n_items, n), from a nearby start."""
        if self.is_dense:
            return np.asarray(lapack.dpotrs(self.factor, B, lower=1)[0])
        descent = self.descent(B, start)
        is_solved = descent.run(StoppingRule(tol, min(MAX_CG, 10 * len(B)))) == "converged"
        return descent.X if is_solved else self._sparse_solve(B)

    def descent(self, B: FloatArray, start: FloatArray | None = None) -> Descent:
        """Return conjugate gradients for all columns together, preconditioned by the diagonal."""
        scale, room = 1.0 / self.diagonal[:, None], np.empty_like(B)
        sizes = np.maximum(dots(B, scale * B), 1e-300)
        return Descent(
            self.__matmul__,
            B,
            precondition=lambda R: np.multiply(scale, R, out=room),
            start=start,
            error=lambda here: sqrt((here.rho / sizes).max(initial=0.0)),
        )

    def _sparse_solve(self, B: FloatArray) -> FloatArray:
        """Solve by a sparse LU factor, which stays sparse for long chains of items."""
        n_items = len(self.diagonal)
        diagonal = csr_array((self.diagonal, (np.arange(n_items),) * 2), shape=self.upper.shape)
        return np.asarray(splu((diagonal - self.upper - self._lower).tocsc()).solve(B))


@final
@dataclass(frozen=True, eq=False)
class LocalExpansion:
    """Hold the log-likelihood at a point, and its derivatives to the second order.

    Parameters
    ----------
    value : float
        The log-likelihood; minus infinity outside its domain.
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
    def lead_variance(
        self, f: FloatArray, parameters: FloatArray, spread: "ScoreSpread"
    ) -> FloatArray:
        """Return the variance of the lead of every answer."""

    @abstractmethod
    def judge_information(
        self, f: FloatArray, parameters: FloatArray, spread: "ScoreSpread"
    ) -> tuple[FloatArray, FloatArray]:
        """Return each judge's share of the information, and their number of contrasts.

        The information is the trace of the judge's part of the precision times the covariance.
        """

    @abstractmethod
    def averaged(self, parameters: FloatArray, variance: FloatArray) -> Self:
        """Return the model whose log-likelihood is averaged over leads of this variance.

        E log sigma(s) is about log sigma(k s) / k with k = (1 + pi variance / 8)^(-1/2). The
        maximum is then the mean of a Gaussian close to the posterior, and not its mode.
        """

    @abstractmethod
    def kept(self, parameters: FloatArray) -> FloatArray:
        """Return the parameters of the averaged model."""

    @abstractmethod
    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csc_array:
        """Return S with S S' the variance of the slope.

        The variance follows from the model (the curvature) or, if clustered, from the sum of the
        squared slopes of every judge.
        """


def flatness(variance: FloatArray) -> FloatArray:
    """Return k, for which log sigma(k s) / k is log sigma averaged over leads of this variance."""
    return np.asarray(1.0 / np.sqrt(1.0 + pi / 8.0 * variance))


@final
@dataclass(frozen=True, eq=False)
class Mode:
    """Hold the most probable scores under the prior N(0, deviation^2), with their precision.

    Parameters
    ----------
    f : (n_items,)
    parameters : (n_parameters,)
    deviation : float
    point : LocalExpansion
        The log-likelihood at these scores, or one last small step before them.
    ending : Ending
    excess : float or None
        By how much the trace of the inverse precision exceeds that of the inverse of its diagonal,
        as a share of it; None if it was not estimated.
    """

    f: FloatArray
    parameters: FloatArray
    deviation: float
    point: LocalExpansion
    ending: Ending
    excess: float | None = None

    @classmethod
    def begin(cls, model: ScoreModel, deviation: float, start: Self | None = None) -> Self:
        """Return a starting point for the first search."""
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
    def n_determined(self) -> float:
        """Number of items that the answers determine, and not the prior."""
        H = self.precision
        known = H.is_dense or self.excess is None
        trace = float(H.covariance.trace()) if known else 0.0
        if not known:
            assert self.excess is not None
            trace = (1.0 + self.excess) * float(np.sum(1.0 / H.diagonal))
        return max(len(self.f) - trace / self.deviation**2, 0.0)

    @property
    def posterior_value(self) -> float:
        """Log-likelihood plus log prior; minus infinity if the sum is not finite."""
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
        """The start of a search nearby."""
        return self.f, self.parameters

    def newton_step(self, tol: float) -> "_ScoreStep":
        """Solve for the step that leads to the mode of the expansion."""
        return self.probed_step(tol, np.zeros((len(self.f), 0)), None)[0]

    def probed_step(
        self, tol: float, probes: FloatArray, start: FloatArray | None
    ) -> "tuple[_ScoreStep, FloatArray]":
        """Solve for the step and for further right-hand sides, whose solutions start nearby."""
        point, theta = self.point, self.parameters
        # gradient of the log posterior in scores and parameters
        g = point.slope - self.f / self.deviation**2
        h = point.by_parameters - theta / PARAMETER_DEVIATION**2
        # one solution with the precision for gradient, mixed derivatives and probes
        B, n_own = np.column_stack([g, point.mixed, probes]), 1 + len(theta)
        if start is not None:
            start = np.column_stack([np.zeros((len(g), n_own)), start])
        solved = self.precision.solve(B, tol, start)
        x, X, rest = solved[:, 0], solved[:, 1:n_own], solved[:, n_own:]
        if len(theta) == 0:
            return _ScoreStep(x, theta, float(g @ x)), rest
        # eliminate the scores: the parameters by the Schur complement
        own = point.curvature + np.eye(len(theta)) / PARAMETER_DEVIATION**2
        schur = own - point.mixed.T @ X
        d_theta = np.asarray(np.linalg.solve(schur, h - point.mixed.T @ x), dtype=np.float64)
        d_f = x - X @ d_theta
        return _ScoreStep(d_f, d_theta, float(g @ d_f + h @ d_theta)), rest

    def moved(self, model: ScoreModel, step: "_ScoreStep") -> Self:
        """Halve the step until the log posterior rises enough."""

        def ahead(share: float) -> Self:
            f, theta = self.f + share * step.f, self.parameters + share * step.parameters
            return replace(self, f=f, parameters=theta, point=model.expand(f, theta))

        enough = armijo(self.posterior_value, step.gain)
        return halved(ahead, lambda there: there.posterior_value, enough, 1.0)


class _ScoreStep(NamedTuple):
    """A Newton step from a point, and what is left to gain: the Newton decrement."""

    f: FloatArray
    parameters: FloatArray
    gain: float


def refined_mode(model: ScoreModel, mode: Mode) -> Mode:
    """Take Newton steps up to and including the first that gains less than the tolerance."""
    mode, step, ending = _steps(model, mode, NEWTON_RULE, NEAR_TOL)
    f, parameters = mode.f + step.f, mode.parameters + step.parameters
    return replace(mode, f=f, parameters=parameters, ending=ending)


def _steps(
    model: ScoreModel, mode: Mode, rule: StoppingRule, near_tol: float
) -> tuple[Mode, _ScoreStep, Ending]:
    """Take Newton steps up to the first that gains less than the tolerance per item."""
    n_items = len(mode.f)

    def solve(mode: Mode, last: float) -> tuple[_ScoreStep, float]:
        step = mode.newton_step(FIRST_TOL if last * n_items > FAR else near_tol)
        return step, step.gain / n_items

    def move(mode: Mode, step: _ScoreStep) -> Mode:
        return mode.moved(model, step)

    mode, step, _, ending = newton_steps(mode, solve, move, rule, "Check the weights.")
    return mode, step, ending


def fitted_scores(
    model: ScoreModel,
    deviation: float | None,
    rng: np.random.Generator,
    start: Mode | None = None,
) -> Mode:
    """Maximise, with the deviation of the scores that maximises the evidence.

    The deviation is the fixed point of ``deviation^2 = sum of f^2 / n_determined``, where items
    count to the degree that the answers, not the prior, determine them (MacKay, 1992).
    """
    return refined_mode(model, approximate_mode(model, deviation, rng, start))


def approximate_mode(
    model: ScoreModel,
    deviation: float | None,
    rng: np.random.Generator,
    start: Mode | None = None,
    tol: float = DEVIATION_TOL,
) -> Mode:
    """Learn the deviation, with scores only as accurate as this needs; a further search follows."""
    usual = USUAL_DEVIATION if start is None else start.deviation
    mode = Mode.begin(model, deviation or usual, start)
    if deviation is not None:
        return _first_newton_steps(model, mode)
    return _learn_deviation(model, mode, rng, tol, np.inf if start is None else 0.0)


def _first_newton_steps(model: ScoreModel, mode: Mode) -> Mode:
    """Take Newton steps up to and including the first that gains little per item."""
    mode, step, _ = _steps(model, mode, replace(NEWTON_RULE, tol=LOOSE_GAIN), FIRST_TOL)
    return mode.moved(model, step)


def _learn_deviation(
    model: ScoreModel, mode: Mode, rng: np.random.Generator, tol: float, gain: float
) -> Mode:
    """Take Newton steps for the scores and, once these gain little, for the deviation.

    The trace of the covariance comes from random signs if the precision is not factorised.
    """
    n_items, solution = len(mode.f), None
    signs = random_signs(n_items, 0 if mode.precision.is_dense else N_SIGNS, rng)
    for _ in range(MAX_DEVIATION_STEPS):
        # Newton steps for the scores alone while they gain much
        if gain >= EARLY_GAIN * n_items:
            step = mode.newton_step(FIRST_TOL)
            mode, gain = mode.moved(model, step), step.gain
            continue
        # Newton step, with random signs solved for along with it
        step, solution = mode.probed_step(FIRST_TOL, signs, solution)
        H, mode, gain = mode.precision, mode.moved(model, step), step.gain
        # fixed point of the deviation, from the trace of the covariance
        trace = float(H.covariance.trace()) if H.is_dense else trace_by_signs(H, signs, solution)
        change = _deviation_step(mode, trace)
        mode = replace(
            mode,
            deviation=mode.deviation * float(np.exp(change)),
            excess=trace / float(np.sum(1.0 / H.diagonal)) - 1.0,
        )
        if gain < LOOSE_GAIN * n_items and abs(change) < tol:
            break
    return mode


def trace_by_signs(H: Precision, signs: FloatArray, solution: FloatArray) -> float:
    """Return the trace of the inverse by random signs and H^-1 signs."""
    own = 1.0 / H.diagonal
    return float(np.sum(own) + np.mean(signs * (solution - signs * own[:, None])) * len(own))


def log_prior(log_deviation: FloatArray) -> FloatArray:
    """Return the log density of the logarithm of the deviation: half of a Cauchy of scale 1."""
    return np.asarray(log_deviation - np.log1p(np.exp(2.0 * log_deviation)))


def _deviation_step(mode: Mode, trace: float) -> float:
    """Return the change of the logarithm of the deviation: Newton's method for a fixed point.

    The derivative of the log evidence is the sum of f^2 / deviation^2 less the number of items
    that the answers determine (MacKay, 1992); that of the log prior is 1 - q.
    """
    n_items, squared = len(mode.f), mode.deviation**2
    spread = float(mode.f @ mode.f) / squared
    determined = max(n_items - trace / squared, 0.0)
    q = 2.0 * squared / (1.0 + squared)
    change = 0.5 * np.log((spread + 1.0) / (determined + q))
    # scores are shares s of what the answers say, and s = 1 / (1 + noise / deviation^2)
    share = determined / n_items
    slope = (determined * (1.0 - share) + q / (1.0 + squared)) / (determined + q)
    slope -= spread * (1.0 - 2.0 * share) / (spread + 1.0)
    return float(np.clip(change / max(slope, share, LEAST_SLOPE), -1.0, 1.0))


_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
SIGNS = np.where(_BITS, 1.0, -1.0)
"""Eight signs for every byte."""


def random_signs(n_rows: int, n_columns: int, rng: np.random.Generator) -> FloatArray:
    """Draw Rademacher variables: 1 and -1 with equal probability."""
    n_signs = n_rows * n_columns
    random_bytes = np.frombuffer(rng.bytes(n_signs // 8 + 1), dtype=np.uint8)
    return np.asarray(SIGNS.take(random_bytes, axis=0).ravel()[:n_signs].reshape(n_rows, n_columns))


def _draw_deviations(
    mode: Mode, root: csc_array, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Return H^-1 (root z + z' / deviation) for random signs z and z'."""
    # noise of the prior, then of the answers, block by block
    noise = random_signs(len(mode.f), n_draws, rng) / mode.deviation
    n_columns = root.shape[1]
    for first in range(0, n_columns, DRAW_BLOCK):
        block = root if n_columns <= DRAW_BLOCK else root[:, first : first + DRAW_BLOCK]
        noise += block @ random_signs(block.shape[1], n_draws, rng)
    return mode.precision.solve(noise, DRAW_TOL)


def judged_root(model: ScoreModel, mode: Mode, spread: "ScoreSpread") -> tuple[csc_array, float]:
    """Return the squared slopes of judges as S S', and the degrees of freedom of their sum.

    Scores are pulled towards the answers of a judge, which makes slopes at the estimated scores
    smaller than at the true ones: by (1 - h)^(1/2) on average, where h is the judge's share of the
    information about each contrast (Bell and McCaffrey, 2002).
    """
    # slopes of each judge, and the judge's share of the information about a contrast
    root = model.noise_root(mode.f, mode.parameters, clustered=True)
    information, n_contrasts = model.judge_information(*mode.start, spread)
    n_seen = np.diff(root.indptr)
    share = information / np.maximum(np.minimum(n_contrasts, n_seen - 1), 1)
    # undo the shrinkage of the slopes; degrees of freedom after Satterthwaite
    root.data *= np.repeat(1.0 / np.sqrt(1.0 - np.minimum(share, MOST_SHARE)), n_seen)
    return root, max(float(information.sum() ** 2 / np.square(information).sum()) - 1.0, 1.0)


@final
@dataclass(frozen=True, eq=False)
class ScoreSpread:
    """Hold how uncertain scores are.

    A common shift of all scores cannot be learned from comparisons and is removed.

    Parameters
    ----------
    std : (n_items,)
    covariance : (n_items, n_items) or None
        For few items only.
    n_free : float
        Degrees of freedom of the variances, if they are estimated from judges.
    """

    std: FloatArray
    covariance: FloatArray | None
    n_free: float = np.inf

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
        """Compute the spread, exactly for few items and otherwise from draws.

        A draw is H^-1 (S z + z' / deviation) for random signs z. The variance of an item is the sum
        of that given the others, which is known, and that of its mean given the others, which is
        estimated from draws.
        """
        # few items: the covariance itself
        if mode.precision.is_dense:
            plain = cls._exact(mode)
            return plain._between_judges(model, mode) if clustered else plain
        # many items, clustered: mean squares of draws over judges
        if clustered:
            root, n_free = judged_root(model, mode, cls.approximate(mode, rng))
            draws = _draw_deviations(mode, root, 4 * n_probes, rng)
            draws -= draws.mean(axis=0)
            return cls(np.sqrt(np.square(draws).mean(axis=1)), None, n_free)
        # many items: variance given the others, plus that of the mean given the others
        H, root = mode.precision, model.noise_root(mode.f, mode.parameters, clustered=False)
        draws = _draw_deviations(mode, root, n_probes, rng)
        given_others = H.off_product(draws) / H.diagonal[:, None]
        given_others -= draws.mean(axis=0)
        variance = 1.0 / H.diagonal + np.square(given_others).mean(axis=1)
        return cls(np.sqrt(variance), None)

    @classmethod
    def approximate(cls, mode: Mode, rng: np.random.Generator) -> Self:
        """Compute variances without draws for many items, with the right mean.

        To second order in upper + upper', the variance of item i is 1 / H_ii plus the sum of
        H_ij^2 / (H_ii^2 H_jj) over all other j. The rest is distributed like the second order.
        """
        H, own = mode.precision, 1.0 / mode.precision.diagonal
        # trace of the covariance, by random signs unless known from the deviation
        excess = mode.excess
        if excess is None:
            signs = random_signs(len(own), N_SIGNS, rng)
            trace = trace_by_signs(H, signs, H.solve(signs, DRAW_TOL))
            excess = trace / float(own.sum()) - 1.0
        # second order of the Neumann series, scaled to this trace
        second = replace(H, upper=H.upper.power(2)).off_product(own) * own**2
        rest = max(excess * own.sum() / second.sum(), 1.0) * second
        return cls(np.sqrt(own + rest), None)

    @classmethod
    def _exact(cls, mode: Mode) -> Self:
        cov = mode.precision.covariance
        if len(mode.parameters):
            X = cov @ mode.point.mixed
            cov = cov + X @ np.linalg.solve(mode.parameter_precision, X.T)
        return cls._centred(cov)

    def _between_judges(self, model: ScoreModel, mode: Mode) -> Self:
        """Return the spread over judges, given the spread over answers."""
        # sandwich: the covariance times the variance of the slopes between judges
        cov = mode.precision.covariance
        root, n_free = judged_root(model, mode, self)
        spread = root.T @ cov
        return self._centred(spread.T @ spread + cov @ cov / mode.deviation**2, n_free)

    @classmethod
    def _centred(cls, cov: FloatArray, n_free: float = np.inf) -> Self:
        cov = cov - cov.mean(axis=0)
        cov = cov - cov.mean(axis=1)[:, None]
        return cls(np.sqrt(np.maximum(cov.diagonal(), 0.0)), cov, n_free)

    @classmethod
    def mixed(cls, centres: list[FloatArray], spreads: list[Self]) -> tuple[FloatArray, Self]:
        """Return mean and spread of scores that are one of several, in equal shares."""
        mean = np.mean(centres, axis=0)
        if len(spreads) == 1:
            return mean, spreads[0]
        between, n_free = np.array(centres) - mean, min(spread.n_free for spread in spreads)
        if spreads[0].covariance is None:
            variance = np.square([spread.std for spread in spreads]).mean(axis=0)
            return mean, cls(np.sqrt(variance + np.square(between).mean(axis=0)), None, n_free)
        cov = between.T @ between / len(centres)
        cov += np.array([spread.covariance for spread in spreads], dtype=float).mean(axis=0)
        return mean, cls(np.sqrt(np.maximum(cov.diagonal(), 0.0)), cov, n_free)

    def scaled(self, f: FloatArray, scale_std: float) -> Self:
        """Return the spread of scores that have a common factor of this deviation around 1."""
        if scale_std == 0.0:
            return self
        cov = self.covariance
        if cov is not None:
            cov = cov + scale_std**2 * np.outer(f, f)
        return replace(self, std=np.hypot(self.std, scale_std * f), covariance=cov)

    def inside(self, group: IntArray) -> Self:
        """Return the spread of scores around the means of their groups."""
        if self.covariance is None:
            return self
        sizes = np.bincount(group)
        share = csr_array((1.0 / sizes[group], (group, np.arange(len(group)))))
        cov = self.covariance - (share @ self.covariance)[group]
        cov = cov - (cov @ share.T)[:, group]
        return replace(self, std=np.sqrt(np.maximum(cov.diagonal(), 0.0)), covariance=cov)

    def widening(self, level: float) -> float:
        """Return the ratio of the quantiles of Student's t and of the Gaussian."""
        if self.n_free > MOST_FREE:
            return 1.0
        upper = 0.5 + 0.5 * level
        return float(stdtrit(self.n_free, upper) / ndtri(upper))

    def lead_variance(self, first: IntArray, second: IntArray) -> FloatArray:
        """Return the variance of the difference of two scores, pair by pair."""
        variance = np.square(self.std)
        variance = variance[first] + variance[second]
        if self.covariance is None:
            return variance
        return np.maximum(variance - 2.0 * self.covariance[first, second], 0.0)

    def quadratic_forms(self, P: csr_array) -> FloatArray:
        """Return the variance of each row of P times the scores."""
        if self.covariance is None:
            return np.asarray(P.power(2) @ np.square(self.std))
        blocks = (P[first : first + FORM_BLOCK] for first in range(0, P.shape[0], FORM_BLOCK))
        return np.concatenate(
            [block.multiply(block @ self.covariance).sum(axis=1) for block in blocks]
        )

    def draws(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw deviations of the scores, (n_draws, n_items), up to a common shift per draw."""
        assert self.covariance is not None
        variance = np.square(self.std)
        # a common shift makes the centred covariance positive definite
        shifted = self.covariance + variance.mean()
        shifted[np.diag_indices(len(shifted))] += DRAW_JITTER * (variance + variance.mean())
        factor, info = lapack.dpotrf(shifted, lower=1, clean=1)
        assert info == 0
        return rng.standard_normal((n_draws, len(variance))) @ factor.T
