"""Maximum marginal likelihood: the parameters under which the answers are most probable."""

from collections.abc import Mapping

import numpy as np
from scipy.optimize import minimize

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.estimators._gp_answers import free_parameters
from rankwise.estimators._gp_evidence import Evidence, Inference, Sites
from rankwise.features.gp_kernels import ParametricKernel
from rankwise.inference._ep_threads import few_threads
from rankwise.inference.likelihoods import Likelihood

Bounds = Mapping[str, tuple[float, float]]

STARTING_FACTORS = {
    "amplitude": (1.0, 5.0),
    "constant_value": (1.0, 25.0),
    "length_scale": (0.3, 1.0, 3.0),
}
"""Where the search looks first: multiples of the parameters whose names end like this."""

MAX_STEPS = 100


def most_probable(
    inference: Inference,
    kernel: ParametricKernel,
    likelihood: Likelihood,
    bounds: Bounds | None,
    n_starts: int,
    rng: np.random.Generator,
) -> tuple[ParametricKernel, Likelihood, Sites | None]:
    """Return the parameters of highest evidence, and sites close to those of their posterior.

    The evidence is compared on a small grid of starting points, and L-BFGS-B climbs from the best
    of them. A search that starts anywhere can end where scores are independent of each other,
    which is a plateau.
    """
    free = free_parameters(likelihood)
    evidence = Evidence(inference, kernel, likelihood, tuple(free))
    limits = _limits(kernel.bounds_on(inference.rows), kernel.names, free, bounds)
    if len(limits) == 0:
        return kernel, likelihood, None
    candidates = [
        np.clip(x, *limits.T) for x in _candidates(evidence.start, kernel.names, n_starts, rng)
    ]
    with few_threads(min(len(inference.rows), inference.comparisons.n_pairs)):
        order = np.argsort([evidence.roughly(x) for x in candidates], kind="stable")
        found = [_climb(evidence, candidates[place], limits) for place in order[:n_starts]]
    _, x, sites = min(found, key=lambda one: one[0])
    return *evidence.parts(x), sites


def _climb(
    evidence: Evidence, x: FloatArray, limits: FloatArray
) -> tuple[float, FloatArray, Sites | None]:
    """Return the lowest value found from x on, where it is, and the last sites."""
    options = {"maxiter": MAX_STEPS, "ftol": 1e-7, "gtol": 1e-3}
    result = minimize(evidence, x, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    return float(result.fun), result.x, evidence.sites


def _candidates(
    start: FloatArray, names: tuple[str, ...], n_starts: int, rng: np.random.Generator
) -> list[FloatArray]:
    """Return a grid of points around the start, and random ones if it has too few."""
    grid = [start]
    for ending, factors in STARTING_FACTORS.items():
        own = np.zeros(len(start))
        own[: len(names)] = [name.endswith(ending) for name in names]
        if own.any():
            grid = [x + np.log(factor) * own for x in grid for factor in factors]
    n_random = max(0, n_starts - len(grid))
    return grid + list(start + rng.uniform(-1.0, 1.0, size=(n_random, len(start))) * np.log(10.0))


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
