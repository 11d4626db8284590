"""Leaderboards from names alone against a bare Newton fit, choix and evalica.

The bare fit is SciPy's Newton-CG on aggregated pairs, with products of the Hessian and no
intervals; ours learns the spread of the scores too, and returns intervals of scores and ranks.
"""

import math
import time
from importlib.util import find_spec

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.harness import Row, within
from rankwise import ComparisonTable, leaderboard

PEERS = ["choix", "evalica"]
SIZES = [
    (100, 1_000_000),
    (500, 1_000_000),
    (2_000, 10_000),
    (2_000, 1_000_000),
    (10_000, 100_000),
    (20_000, 1_000_000),
]
PENALTY = 0.01
PEER_SIZES = [(100, 1_000_000), (500, 1_000_000)]


def battles(n_items, n_rows):
    """Draw battles of random items with scores of standard deviation 1."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=n_items)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    won = f[first] - f[second] + rng.logistic(size=n_rows) > 0.0
    return ComparisonTable.of(first, second, np.where(won, 1, -1), names=np.arange(n_items))


def bare_newton(table):
    """Aggregate the pairs and minimise the penalised negative log-likelihood."""
    n_items, pairs = table.n_items, table.pairs
    code, count = np.unique(pairs[:, 0] * n_items + pairs[:, 1], return_counts=True)
    i, j = code // n_items, code % n_items

    def value(f):
        lead = f[i] - f[j]
        pull = count * expit(-lead)
        slope = np.bincount(j, pull, n_items) - np.bincount(i, pull, n_items)
        loss = count @ np.logaddexp(0.0, -lead) + 0.5 * PENALTY * f @ f
        return loss, slope + PENALTY * f

    def product(f, v):
        lead = f[i] - f[j]
        pull = count * expit(lead) * expit(-lead) * (v[i] - v[j])
        return np.bincount(i, pull, n_items) - np.bincount(j, pull, n_items) + PENALTY * v

    return minimize(value, np.zeros(n_items), jac=True, hessp=product, method="Newton-CG").x


def table():
    """Return the ratios."""
    rows = []
    for n_items, n_rows in SIZES:
        data = battles(n_items, n_rows)
        job = f"leaderboard, {n_items:,} items, {n_rows:,} battles"
        ours = lambda data=data: leaderboard(data, random_state=0)  # noqa: E731
        bare = lambda data=data: bare_newton(data)  # noqa: E731
        rows.append(within(job, ours, "scipy Newton-CG, no intervals", bare, 3.0, repeats=3))
        if (n_items, n_rows) in PEER_SIZES:
            rows += [peer_row(job, rows[-1].seconds, name, data) for name in PEERS]
    return rows


def peer_row(job, seconds, name, data):
    """Time a peer once; it has no intervals either."""
    if find_spec(name) is None:
        return Row(job, name, "faster", seconds, math.nan, math.nan, "not installed")
    start = time.perf_counter()
    {"choix": choix_fit, "evalica": evalica_fit}[name](data)
    other = time.perf_counter() - start
    return Row(job, f"{name}, no intervals", "at least 1x faster", seconds, other, other / seconds)


def choix_fit(data):
    import choix  # noqa: PLC0415

    return choix.ilsr_pairwise(data.n_items, data.pairs.tolist(), alpha=PENALTY)


def evalica_fit(data):
    import evalica  # noqa: PLC0415

    pairs = data.pairs
    winners = [evalica.Winner.X] * len(pairs)
    return evalica.bradley_terry(pairs[:, 0].tolist(), pairs[:, 1].tolist(), winners)
