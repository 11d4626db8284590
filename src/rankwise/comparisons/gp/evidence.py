"""The posterior and the evidence of comparisons, and the parameters that maximise it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import itemgetter
from typing import Literal, NamedTuple, Self, TypeAlias, final

import numpy as np
import scipy

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import SWEEP_RULE, expectation_propagation
from rankwise.comparisons.gp.inference.likelihood import FreeParameter, Likelihood
from rankwise.comparisons.gp.inference.posterior import (
    NEWTON_RULE,
    Posterior,
    basis_evidence_gradient,
    evidence_gradient,
    laplace,
)
from rankwise.comparisons.gp.inference.prior import (
    Prior,
    check_kernel,
    factorize_kernel,
    factorize_rows,
    factorize_through_basis,
)
from rankwise.comparisons.gp.inference.tastes import Persons, TasteMoments
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import HOST, Array
from rankwise.core.threads import few_threads
from rankwise.features.covariances import Hyperprior, ParametricKernel
from rankwise.solve.iteration import StoppingRule

Approximation: TypeAlias = Literal["ep", "laplace"]
SiteParameters: TypeAlias = tuple[FloatArray, FloatArray]
"""tau and nu of the Gaussian sites exp(nu s - tau s^2 / 2) of all comparisons."""

SEARCH_RULE = StoppingRule(tol=1e-4, max_iter=100)
START_RULE = StoppingRule(tol=1e-2, max_iter=20)
"""When sweeps stop inside a search, and to compare its starting points."""

MANY_ITEMS = 1000
LARGE_RULE = StoppingRule(tol=1e-4, max_iter=300)
"""When the sweeps of a fit stop for more items than this, where each takes a good part of a second:
scores are then accurate to about a ten-thousandth of their standard deviation."""

FINAL_RANK_TOL, SEARCH_RANK_TOL = 1e-10, 1e-7
"""Relative variance that the factor of the kernel may leave out, for a fit and inside a search."""


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
        Rows through which the kernel is approximated; with ``persons``, the basis of `MarkedRows`.
    method : {"ep", "laplace"}
        How the posterior is approximated; Gaussian margins need no approximation.
    where : array
        Where sweeps of expectation propagation are computed.
    persons : Persons, optional
        Who answered, if persons have their own scores. The last column of the rows is then the
        number of a person, 0 for the common scores.
    """

    rows: FloatArray
    comparisons: Comparisons
    basis: FloatArray | None
    method: Approximation
    where: Array = field(default_factory=lambda: HOST)
    persons: Persons | None = None

    def posterior(
        self,
        kernel: ParametricKernel,
        likelihood: Likelihood,
        *,
        start: SiteParameters | None = None,
        rule: StoppingRule | None = None,
        rank_tol: float = FINAL_RANK_TOL,
        K: FloatArray | None = None,
    ) -> Posterior:
        """Return the posterior, starting from nearby sites if these are known.

        K is the `kernel_matrix`, if it has been computed.
        """
        if self.persons is not None:
            moments = self.moments(kernel, rank_tol)
            return expectation_propagation(
                moments.prior, likelihood, start=start, rule=rule or SWEEP_RULE, moments=moments
            )
        K = self.kernel_matrix(kernel) if K is None else K
        prior = (
            self._through_basis(kernel)
            if K is None
            else factorize_kernel(K, self.comparisons, tol=rank_tol)
        )
        rule = rule or (SWEEP_RULE if prior.rank <= MANY_ITEMS else LARGE_RULE)
        if likelihood.is_gaussian or self.method == "laplace":
            decrement = max(rule.tol**2, 1e-20)  # a squared distance
            newton = replace(NEWTON_RULE, tol=decrement)
            return laplace(prior, likelihood, start=start, rule=newton)
        return expectation_propagation(prior, likelihood, start=start, rule=rule, where=self.where)

    @property
    def size(self) -> int:
        """The largest rank that a factor of the covariance can have."""
        n_rows = len(self.rows if self.basis is None else self.basis)
        return min(n_rows, self.comparisons.n_pairs)

    def kernel_matrix(self, kernel: ParametricKernel) -> FloatArray | None:
        """Return the kernel between all items; None where only parts of it are needed."""
        is_whole = self.basis is None and self.persons is None
        return kernel(self.rows, self.rows) if is_whole else None

    def gradient(
        self, kernel: ParametricKernel, posterior: Posterior, K: FloatArray | None = None
    ) -> FloatArray:
        """Return the derivative of the evidence in the kernel's ``theta``."""
        if self.persons is not None:
            by_common, by_tastes = self.moments(kernel).evidence_gradients(posterior)
            basis, items = self._basis_of_persons()
            by_common[: len(items), : len(items)] -= by_tastes
            alone = kernel.weighted_gradient(basis, basis, by_common)
            return alone + kernel.weighted_gradient(items, items, by_tastes)
        if self.basis is None:
            return kernel.weighted_gradient(self.rows, self.rows, evidence_gradient(posterior), K)
        G_cross, G_basis, g_variance = basis_evidence_gradient(posterior)
        Z = self.basis[posterior.items]
        return (
            kernel.weighted_gradient(Z, self.rows, G_cross)
            + kernel.weighted_gradient(Z, Z, G_basis)
            + kernel.weighted_variance_gradient(*self._ends(), g_variance)
        )

    def moments(self, kernel: ParametricKernel, rank_tol: float = SEARCH_RANK_TOL) -> TasteMoments:
        """Return what sweeps over persons need; the factor leaves out a small share of variance."""
        assert self.persons is not None
        basis, items = self._basis_of_persons()
        K, n_items = kernel(basis, basis), len(items)
        check_kernel(K, len(basis))
        prior = factorize_rows(K, self.comparisons, self.persons.rows.item, tol=rank_tol)
        K_tastes = kernel(items, items) - K[:n_items, :n_items]
        return TasteMoments.of(prior, self.persons.groups, K_tastes)

    def _basis_of_persons(self) -> tuple[FloatArray, FloatArray]:
        """Return the basis, and its items without marks as one person has them."""
        assert self.persons is not None
        assert self.basis is not None
        items = self.basis[: self.persons.rows.n_items]
        return self.basis, np.column_stack([items[:, :-1], np.ones(len(items))])

    def _through_basis(self, kernel: ParametricKernel) -> Prior:
        assert self.basis is not None
        return factorize_through_basis(
            kernel(self.basis, self.basis),
            kernel(self.basis, self.rows),
            kernel.difference_variance(*self._ends()),
            np.arange(len(self.basis)),
            self.comparisons,
        )

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return self.rows[self.comparisons.pairs.first], self.rows[self.comparisons.pairs.second]


@final
@dataclass(eq=False)
class NegativeLogEvidence:
    """Minus the log of evidence times hyperprior, as a function of the parameters' logarithms.

    Every evaluation starts from the sites of the previous one, which saves most of the sweeps.

    Parameters
    ----------
    inference : Inference
    kernel : ParametricKernel
        Its ``theta`` are the first parameters.
    likelihood : Likelihood
    free : tuple of str
        Names of the likelihood's parameters, which come next. Names that the likelihood does not
        have do not affect the evidence.
    hyperprior : Hyperprior
        The hyperprior of all parameters.
    rule : StoppingRule
        When sweeps stop.
    rank_tol : float
        Relative variance that the factor of the kernel may leave out.
    """

    inference: Inference
    kernel: ParametricKernel
    likelihood: Likelihood
    free: tuple[str, ...]
    hyperprior: Hyperprior
    rule: StoppingRule = SEARCH_RULE
    rank_tol: float = SEARCH_RANK_TOL
    sites: SiteParameters | None = field(default=None, init=False)
    _last: tuple[FloatArray, float, FloatArray] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        known = self.likelihood.parameters
        self._is_known = np.array([name in known for name in self.free], dtype=bool)

    @property
    def start(self) -> FloatArray:
        """The parameters of kernel and likelihood as given."""
        values = [self.likelihood.parameters[name] for name in self.free]
        return np.append(self.kernel.theta, np.log(values))

    def parts(self, x: FloatArray) -> tuple[ParametricKernel, Likelihood]:
        """Return kernel and likelihood with the parameters x."""
        n_kernel, likelihood = len(x) - len(self.free), self.likelihood
        if self._is_known.any():
            values = zip(self.free, np.exp(x[n_kernel:]).tolist(), strict=True)
            likelihood = likelihood.replace(**dict(compress(values, self._is_known)))
        return self.kernel.with_theta(x[:n_kernel]), likelihood

    def without_flips(self) -> Self:
        """Return the same without flipped answers, which is log-concave and needs fewer sweeps."""
        base = self.likelihood.without_flips()
        return self if base is self.likelihood else replace(self, likelihood=base)

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and the gradient; those of the last point are remembered."""
        if self._last is None or not np.array_equal(self._last[0], x):
            kernel, posterior, K = self._posterior(x, self.rule)
            gradient = self.hyperprior.gradient(x)
            value = -posterior.log_evidence - self.hyperprior.log_density(x)
            n_kernel = len(x) - len(self.free)
            gradient[:n_kernel] += self.inference.gradient(kernel, posterior, K)
            for place, name in enumerate(self.free, n_kernel):
                gradient[place] += posterior.parameter_gradient.get(name, 0.0) * np.exp(x[place])
            self._last = x.copy(), value, -gradient
        return self._last[1:]

    def coarse_value(self, x: FloatArray) -> float:
        """Return the value to two or three decimals, enough to compare starting points."""
        return -self._posterior(x, START_RULE)[1].log_evidence - self.hyperprior.log_density(x)

    def _posterior(
        self, x: FloatArray, rule: StoppingRule
    ) -> tuple[ParametricKernel, Posterior, FloatArray | None]:
        """Return what x leads to; converged sites start the next posterior."""
        kernel, likelihood = self.parts(x)
        K = self.inference.kernel_matrix(kernel)
        posterior = self.inference.posterior(
            kernel, likelihood, start=self.sites, rule=rule, rank_tol=self.rank_tol, K=K
        )
        self.sites = (posterior.tau, posterior.nu) if posterior.ending.converged else None
        return kernel, posterior, K


Bounds: TypeAlias = Mapping[str, tuple[float, float]]
HyperpriorName: TypeAlias = Literal["weak"]

COMMON_LENGTH = {"length_scale": (0.3, 1.0, 3.0)}
LENGTHS = {"length_scale": (1.0, 3.0)}
AMPLITUDES = {"amplitude": (1.0, 5.0), "constant_value": (1.0, 25.0)}
"""Starting points of the search: multiples of the parameters whose names end like this."""

FIRST_STEPS = 5
"""Steps after which the searches from different length-scales are compared."""

MAX_STEPS = 100
"""Steps of a search."""


def most_probable(
    inference: Inference,
    kernel: ParametricKernel,
    likelihood: Likelihood,
    rows: FloatArray,
    rng: np.random.Generator,
    *,
    bounds: Bounds | None = None,
    n_starts: int = 1,
    hyperprior: HyperpriorName | None = "weak",
    spread: float = 1.0,
    max_steps: int = MAX_STEPS,
    sites: SiteParameters | None = None,
) -> tuple[ParametricKernel, Likelihood, SiteParameters | None]:
    """Return the most probable parameters, and sites close to those of their posterior.

    The objective is first compared on a small grid of starting points. A search from an arbitrary
    point can end where all scores are independent, since the objective is flat there; from a long
    length-scale it can miss that two or three features are enough. So L-BFGS-B starts from the best
    point of each length-scale and continues from the lowest value reached. Flips are left out until
    then, since far from the optimum they cost many sweeps.

    Parameters
    ----------
    inference, kernel, likelihood
        What determines the evidence.
    rows : (n_rows, n_features)
        Different items, whose scale sets bounds and hyperprior.
    rng
        Draws additional starting points.
    bounds : mapping or None
        Smallest and largest values by name, in place of the default ones.
    n_starts : int
        Number of points from which the search runs to its end.
    hyperprior : {"weak"} or None
        Whether to add a weak hyperprior on the parameters to the evidence.
    spread : float
        The usual deviation of scores, as a share of that of the likelihood.
    max_steps : int
        Largest number of steps of each search.
    sites : (tau, nu), optional
        Sites for the given parameters; the search then continues from these, without a grid.
    """
    free = likelihood.free_parameters
    limits = _log_bounds(kernel.bounds_on(rows), kernel.names, free, bounds)
    if len(limits) == 0:
        return kernel, likelihood, None
    prior = Hyperprior.flat(len(limits))
    if hyperprior == "weak":
        deviation = spread * likelihood.score_deviation(inference.comparisons.margin_scale)
        prior = kernel.hyperprior_on(rows, deviation).joined_with(likelihood_hyperprior(free))
    objective = NegativeLogEvidence(inference, kernel, likelihood, tuple(free), prior)
    starts = _starting_points(objective.start, kernel.names, n_starts, rng)
    with few_threads(inference.size):
        if sites is None:
            lowest = _lowest_point(objective, starts, limits, n_starts, max_steps)
        else:
            here = _SearchPoint(np.inf, np.clip(objective.start, *limits.T), sites)
            lowest = _minimize(objective, here, limits, max_steps)
    return *objective.parts(lowest.x), lowest.sites


def likelihood_hyperprior(free: Mapping[str, FreeParameter]) -> Hyperprior:
    """Return the hyperprior of the parameters of a likelihood."""
    parts = [Hyperprior.flat(0)]
    for parameter in free.values():
        if parameter.usual is None:
            parts.append(Hyperprior.flat(1))
        else:
            median, deviation = parameter.usual
            parts.append(Hyperprior.from_medians(median, deviation**2))
    return parts[0].joined_with(*parts[1:])


class _SearchPoint(NamedTuple):
    """A point of the search, the objective there, and sites close to those of its posterior."""

    value: float
    x: FloatArray
    sites: SiteParameters | None


def _lowest_point(
    objective: NegativeLogEvidence,
    starts: list[list[FloatArray]],
    limits: FloatArray,
    n_starts: int,
    max_steps: int,
) -> _SearchPoint:
    """Minimise from the best points of the best groups.

    With several length-scales a search starts from every group, and after a few steps the best
    ``n_starts`` of them continue.
    """
    simple = objective.without_flips()
    leaders = []
    for group in starts:
        points = [np.clip(x, *limits.T) for x in group]
        found = [_SearchPoint(simple.coarse_value(x), x, simple.sites) for x in points]
        leaders.append(min(found, key=itemgetter(0)))
    leaders.sort(key=itemgetter(0))
    if _has_many_lengths(objective.kernel.names):
        first = min(FIRST_STEPS, max_steps)
        leaders = [_minimize(simple, one, limits, first) for one in leaders]
        leaders.sort(key=itemgetter(0))
    finished = [_minimize(objective, one, limits, max_steps) for one in leaders[:n_starts]]
    return min(finished, key=itemgetter(0))


def _minimize(
    objective: NegativeLogEvidence, start: _SearchPoint, limits: FloatArray, max_steps: int
) -> _SearchPoint:
    """Return the lowest point found.

    The objective is divided by the length of its first gradient: a first step of that length would
    lead to the corners of the bounds, where many sweeps are needed.
    """
    objective.sites = start.sites
    unit = max(1.0, float(np.linalg.norm(objective(start.x)[1])))

    def scaled(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(theta)
        return value / unit, gradient / unit

    result = scipy.optimize.minimize(
        scaled,
        start.x,
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": max_steps, "ftol": 1e-6, "gtol": 1e-3 / unit},
    )
    return _SearchPoint(unit * float(result.fun), result.x, objective.sites)


def _starting_points(
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
    return len([name for name in names if name.endswith("length_scale")]) > 1


def _shifts(
    factors: Mapping[str, tuple[float, ...]], names: tuple[str, ...], length: int
) -> list[FloatArray]:
    """Return what the factors add to the logarithms of the parameters whose names end like them."""
    shifts = [np.zeros(length)]
    for ending, values in factors.items():
        matches = np.zeros(length)
        matches[: len(names)] = [name.endswith(ending) for name in names]
        if matches.any():
            shifts = [shift + np.log(value) * matches for shift in shifts for value in values]
    return shifts


def _log_bounds(
    kernel_limits: FloatArray,
    kernel_names: tuple[str, ...],
    free: Mapping[str, FreeParameter],
    bounds: Bounds | None,
) -> FloatArray:
    """Return the bounds of all logarithms, (n_parameters, 2)."""
    if not isinstance(bounds, Mapping | None):
        raise InvalidInputError(
            "`bounds` must map names of hyperparameters to (lowest, highest): got "
            f"{type(bounds).__name__}."
        )
    given = dict(bounds or {})
    names = (*kernel_names, *free)
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidInputError(
            f"`bounds` must name parameters that are learned, {sorted(set(names))}: got {unknown}."
        )
    default = [parameter.bounds for parameter in free.values()]
    limits = np.concatenate([kernel_limits, np.log(np.array(default, dtype=float).reshape(-1, 2))])
    for place, name in enumerate(names):
        if name in given:
            low, high = given[name]
            if not 0.0 < low <= high < np.inf:
                raise InvalidInputError(
                    f"`bounds` must be pairs 0 < low <= high: got {given[name]} for {name!r}."
                )
            limits[place] = np.log([low, high])
    return limits
