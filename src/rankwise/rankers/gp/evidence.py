"""The posterior and the evidence of comparisons under a kernel and a likelihood."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.optimize import minimize

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.threads import few_threads
from rankwise.features.covariances import Hyperprior, ParametricKernel
from rankwise.rankers.gp.answers import free_parameters, hyperprior_of, usual_spread
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.ep import expectation_propagation
from rankwise.rankers.gp.inference.laplace import laplace
from rankwise.rankers.gp.inference.likelihoods import (
    Flip,
    GaussianMargin,
    Likelihood,
    SmoothLikelihood,
)
from rankwise.rankers.gp.inference.posterior import Posterior, inducing_gradient, kernel_gradient
from rankwise.rankers.gp.inference.prior import Prior, factorise, inducing_factor

Method: TypeAlias = Literal["ep", "laplace"]
Sites: TypeAlias = tuple[FloatArray, FloatArray]


@final
@dataclass(frozen=True, eq=False)
class Inference:
    """Turn a kernel and a likelihood into a posterior over the compared items.

    Parameters
    ----------
    rows : (n_items, n_features)
        The compared items, in the order of ``comparisons.items``.
    comparisons : Comparisons
    basis : (n_basis, n_features) or None
        Rows through which the kernel is approximated.
    method : {"ep", "laplace"}
        How the posterior is approximated; Gaussian margins need no approximation.
    """

    rows: FloatArray
    comparisons: Comparisons
    basis: FloatArray | None
    method: Method

    def posterior(
        self,
        kernel: ParametricKernel,
        likelihood: Likelihood,
        *,
        start: Sites | None = None,
        tol: float = 1e-6,
        rank_tol: float = 1e-10,
        max_sweeps: int = 300,
    ) -> Posterior:
        """Return the posterior, from sites close to its own where these are known."""
        prior = self._prior(kernel, rank_tol)
        if isinstance(likelihood, GaussianMargin) or self.method == "laplace":
            decrement = max(tol**2, 1e-20)  # a squared distance
            return laplace(prior, _smooth(likelihood), start=start, tol=decrement)
        return expectation_propagation(
            prior, likelihood, start=start, tol=tol, max_sweeps=max_sweeps
        )

    def gradient(self, kernel: ParametricKernel, posterior: Posterior) -> FloatArray:
        """Return the derivative of the evidence in the kernel's ``theta``."""
        if self.basis is None:
            return kernel.contract(self.rows, self.rows, kernel_gradient(posterior))
        G_cross, G_basis, g_spread = inducing_gradient(posterior)
        Z = self.basis[posterior.items]
        return (
            kernel.contract(Z, self.rows, G_cross)
            + kernel.contract(Z, Z, G_basis)
            + kernel.contract_spread(*self._ends(), g_spread)
        )

    def _prior(self, kernel: ParametricKernel, rank_tol: float) -> Prior:
        if self.basis is None:
            return factorise(kernel(self.rows, self.rows), self.comparisons, tol=rank_tol)
        return inducing_factor(
            kernel(self.basis, self.basis),
            kernel(self.basis, self.rows),
            kernel.spread(*self._ends()),
            np.arange(len(self.basis)),
            self.comparisons,
        )

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return self.rows[self.comparisons.first], self.rows[self.comparisons.second]


def _smooth(likelihood: Likelihood) -> SmoothLikelihood:
    if not isinstance(likelihood, SmoothLikelihood):
        raise InvalidInputError(
            "method='laplace' knows wins and margins, not ties or flips: got "
            f"{type(likelihood).__name__}. Use method='ep'."
        )
    return likelihood


@final
class Objective:
    """Minus the log of evidence times hyperprior, as a function of all parameters' logarithms.

    Every evaluation starts from the sites of the one before, which saves most of the sweeps.

    Parameters
    ----------
    inference : Inference
    kernel : ParametricKernel
        Whose ``theta`` is the head of the parameters.
    likelihood : Likelihood
    free : names of the likelihood's parameters that make up the tail
        The evidence does not depend on those that the likelihood does not have.
    hyperprior : Hyperprior
        Of all of them.
    """

    TOL, MAX_SWEEPS = 1e-4, 100
    ROUGH_TOL, ROUGH_SWEEPS = 1e-2, 20
    RANK_TOL = 1e-7

    def __init__(
        self,
        inference: Inference,
        kernel: ParametricKernel,
        likelihood: Likelihood,
        free: tuple[str, ...],
        hyperprior: Hyperprior,
    ) -> None:
        self.inference = inference
        self.kernel = kernel
        self.likelihood = likelihood
        self.free = free
        self.hyperprior = hyperprior
        self.sites: Sites | None = None
        self._last: tuple[FloatArray, float, FloatArray] | None = None

    @property
    def start(self) -> FloatArray:
        """The parameters of kernel and likelihood as given."""
        values = [self.likelihood.parameters[name] for name in self.free]
        return np.append(self.kernel.theta, np.log(values))

    def parts(self, x: FloatArray) -> tuple[ParametricKernel, Likelihood]:
        """Return kernel and likelihood with the parameters x."""
        n_kernel = len(self.kernel.theta)
        values = dict(zip(self.free, np.exp(x[n_kernel:]).tolist(), strict=True))
        known = {name: values[name] for name in self.free if name in self.likelihood.parameters}
        return self.kernel.with_theta(x[:n_kernel]), self.likelihood.replace(**known)

    def without_flips(self) -> Self:
        """Return the same without flipped answers: log-concave, hence found in fewer sweeps."""
        if not isinstance(self.likelihood, Flip):
            return self
        base = self.likelihood.base
        return type(self)(self.inference, self.kernel, base, self.free, self.hyperprior)

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the gradient; those of the last point are remembered."""
        if self._last is None or not np.array_equal(self._last[0], x):
            self._last = x.copy(), *self._evaluate(x)
        return self._last[1:]

    def _evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        kernel, likelihood = self.parts(x)
        posterior = self._posterior(kernel, likelihood, self.TOL, self.MAX_SWEEPS)
        scale = likelihood.parameters
        tail = [
            posterior.by_parameter[name] * scale[name] if name in scale else 0.0
            for name in self.free
        ]
        gradient = np.append(self.inference.gradient(kernel, posterior), tail)
        gradient += self.hyperprior.gradient(x)
        return -posterior.log_evidence - self.hyperprior.log_density(x), -gradient

    def roughly(self, x: FloatArray) -> float:
        """Return the value to two or three decimals: enough to tell good starts from bad ones."""
        posterior = self._posterior(*self.parts(x), self.ROUGH_TOL, self.ROUGH_SWEEPS)
        return -posterior.log_evidence - self.hyperprior.log_density(x)

    def _posterior(
        self, kernel: ParametricKernel, likelihood: Likelihood, tol: float, max_sweeps: int
    ) -> Posterior:
        """Return the posterior; what does not converge here is reported by the final one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            posterior = self.inference.posterior(
                kernel,
                likelihood,
                start=self.sites,
                tol=tol,
                rank_tol=self.RANK_TOL,
                max_sweeps=max_sweeps,
            )
        self.sites = (posterior.tau, posterior.nu) if posterior.converged else None
        return posterior


Bounds: TypeAlias = Mapping[str, tuple[float, float]]
HyperpriorName: TypeAlias = Literal["weak"]

COMMON_LENGTH = {"length_scale": (0.3, 1.0, 3.0)}
LENGTHS = {"length_scale": (1.0, 3.0)}
AMPLITUDES = {"amplitude": (1.0, 5.0), "constant_value": (1.0, 25.0)}
"""Where the search looks first: multiples of the parameters whose names end like this."""

FIRST_STEPS = 5
"""Steps after which the climbs from different length-scales are compared."""

MAX_STEPS = 100


@final
@dataclass(frozen=True, eq=False)
class Search:
    """Say where parameters are looked for, and what is known about them.

    Parameters
    ----------
    bounds : mapping or None
        Smallest and largest values by name, in place of the default ones.
    n_starts : int
        From how many points the search climbs.
    hyperprior : {"weak"} or None
        Whether weak knowledge about usual parameters counts next to the evidence.
    """

    bounds: Bounds | None
    n_starts: int
    hyperprior: HyperpriorName | None


def most_probable(
    inference: Inference,
    kernel: ParametricKernel,
    likelihood: Likelihood,
    search: Search,
    rows: FloatArray,
    rng: np.random.Generator,
) -> tuple[ParametricKernel, Likelihood, Sites | None]:
    """Return the most probable parameters, and sites close to those of their posterior.

    The objective is compared on a small grid of starting points. A search that starts anywhere can
    end where scores are independent of each other, which is a plateau; and from a long length-scale
    it can miss that two or three features tell everything. So L-BFGS-B sets out from the best point
    of each length-scale and goes on from where it gets furthest. Flipped answers are left out until
    then: far from the optimum, sweeps with them are many.

    Parameters
    ----------
    inference, kernel, likelihood
        What the evidence is made of.
    search : Search
    rows : (n_rows, n_features)
        Different items, whose scale bounds and hyperprior take.
    rng
        Draws additional starting points.
    """
    free = free_parameters(likelihood)
    limits = _limits(kernel.bounds_on(rows), kernel.names, free, search.bounds)
    if len(limits) == 0:
        return kernel, likelihood, None
    prior = Hyperprior.flat(len(limits))
    if search.hyperprior == "weak":
        spread = usual_spread(likelihood, inference.comparisons)
        prior = kernel.hyperprior_on(rows, spread).beside(hyperprior_of(free))
    objective = Objective(inference, kernel, likelihood, tuple(free), prior)
    starts = _starts(objective.start, kernel.names, search.n_starts, rng)
    with few_threads(min(len(inference.rows), inference.comparisons.n_pairs)):
        found = _race(objective, starts, limits, search.n_starts)
    return *objective.parts(found.x), found.sites


@final
@dataclass(frozen=True, eq=False)
class _Found:
    """A point of the search, the objective there, and sites close to those of its posterior."""

    value: float
    x: FloatArray
    sites: Sites | None


def _race(
    objective: Objective, starts: list[list[FloatArray]], limits: FloatArray, n_starts: int
) -> _Found:
    """Climb from the best points of the best groups.

    Where features have length-scales of their own, a climb sets out from every group, and after a
    few steps the last ones give up.
    """
    simple = objective.without_flips()
    groups = [[_look(simple, np.clip(x, *limits.T)) for x in group] for group in starts]
    leaders = sorted((min(group, key=_value) for group in groups), key=_value)
    if _has_many_lengths(objective.kernel.names):
        climbs = [_climb(simple, one, limits, FIRST_STEPS) for one in leaders]
        leaders = sorted(climbs, key=_value)
    finished = [_climb(objective, one, limits, MAX_STEPS) for one in leaders[:n_starts]]
    return min(finished, key=_value)


def _value(found: _Found) -> float:
    return found.value


def _look(objective: Objective, x: FloatArray) -> _Found:
    """Return what is roughly found at x."""
    return _Found(objective.roughly(x), x, objective.sites)


def _climb(objective: Objective, start: _Found, limits: FloatArray, max_steps: int) -> _Found:
    """Return the lowest point found from the start on.

    The objective is divided by the length of its first gradient: a first step of that length would
    lead to the corners of the bounds, where sweeps are many.
    """
    objective.sites = start.sites
    unit = max(1.0, float(np.linalg.norm(objective(start.x)[1])))
    result = minimize(
        lambda theta: tuple(part / unit for part in objective(theta)),
        start.x,
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": max_steps, "ftol": 1e-6, "gtol": 1e-3 / unit},
    )
    return _Found(unit * float(result.fun), result.x, objective.sites)


def _starts(
    start: FloatArray, names: tuple[str, ...], n_starts: int, rng: np.random.Generator
) -> list[list[FloatArray]]:
    """Return points around the start in groups of equal length-scale; random ones if needed."""
    factors = LENGTHS if _has_many_lengths(names) else COMMON_LENGTH
    lengths, amplitudes = (_shifts(f, names, len(start)) for f in (factors, AMPLITUDES))
    groups = [[start + length + amplitude for amplitude in amplitudes] for length in lengths]
    n_random = max(0, n_starts - len(groups))
    steps = rng.uniform(-1.0, 1.0, size=(n_random, len(start))) * np.log(10.0)
    return groups + [[start + step] for step in steps]


def _has_many_lengths(names: tuple[str, ...]) -> bool:
    return sum(name.endswith("length_scale") for name in names) > 1


def _shifts(
    factors: Mapping[str, tuple[float, ...]], names: tuple[str, ...], length: int
) -> list[FloatArray]:
    """Return what the factors add to the logarithms of the parameters whose names end like them."""
    shifts = [np.zeros(length)]
    for ending, values in factors.items():
        own = np.zeros(length)
        own[: len(names)] = [name.endswith(ending) for name in names]
        if own.any():
            shifts = [shift + np.log(value) * own for shift in shifts for value in values]
    return shifts


def _limits(
    kernel_limits: FloatArray, kernel_names: tuple[str, ...], free: Bounds, bounds: Bounds | None
) -> FloatArray:
    """Return the bounds of all logarithms, (n_parameters, 2)."""
    given = dict(bounds or {})
    names = (*kernel_names, *free)
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidInputError(
            f"`bounds` must name parameters that are learnt, {sorted(set(names))}: got {unknown}."
        )
    tail = np.log(np.array(list(free.values()), dtype=float).reshape(-1, 2))
    limits = np.concatenate([kernel_limits, tail])
    for place, name in enumerate(names):
        if name in given:
            low, high = given[name]
            if not 0.0 < low <= high < np.inf:
                raise InvalidInputError(
                    f"`bounds` must be pairs 0 < low <= high: got {given[name]} for {name!r}."
                )
            limits[place] = np.log([low, high])
    return limits
