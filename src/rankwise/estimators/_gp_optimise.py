"""The most probable parameters: those of the highest evidence, or evidence times hyperprior."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np
from scipy.optimize import minimize

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.estimators._gp_answers import free_parameters, hyperprior_of, usual_spread
from rankwise.estimators._gp_evidence import Inference, Objective, Sites
from rankwise.features.parametric import Hyperprior, ParametricKernel
from rankwise.inference._ep_threads import few_threads
from rankwise.inference.likelihoods import Likelihood

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
