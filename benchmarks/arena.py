"""Leaderboards from names alone against a bare sparse Newton fit, choix and evalica.

The bare fit aggregates the pairs and takes Newton steps with the analytic Hessian, for a given
prior and without intervals; each size has the fastest of a dense factor, a sparse factor and
conjugate gradients preconditioned by the diagonal. Ours learns the spread of the scores, moves from
the mode to the mean, and returns intervals of scores and ranks. Some rows start from a frame of
names, which ours reads and the bare fit does not. CPU times of one core.
"""

import math
import time
from importlib.util import find_spec

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu
from scipy.special import expit

from benchmarks.harness import Row, cpu_ratio, one_core
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
GAIN_TOL, CG_TOL = 1e-6, 1e-3
MOST_ITEMS = {"dense": 2_000, "sparse": 2_000, "cg": 1_000_000}
NAMED_SIZES = [(100, 1_000_000), (500, 1_000_000), (2_000, 10_000)]
PEER_SIZES = [(100, 1_000_000), (500, 1_000_000)]


def battles(n_items, n_rows):
    """Draw battles of random items with scores of standard deviation 1."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=n_items)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    won = f[first] - f[second] + rng.logistic(size=n_rows) > 0.0
    return ComparisonTable.of(first, second, np.where(won, 1, -1), names=np.arange(n_items))


def frame_of(table):
    """Return a table as people have it: a frame of two names and a word for who won."""
    names = np.array([f"model-{item:05}-instruct" for item in range(table.n_items)])
    won = np.where(table.outcome > 0, "model_a", "model_b")
    ends = {"model_a": names[table.first], "model_b": names[table.second]}
    return pd.DataFrame({**ends, "winner": won})


def aggregated(table):
    """Return the items of every pair that met, the smaller first, and its wins and losses."""
    n_items = table.n_items
    low, high = np.minimum(table.first, table.second), np.maximum(table.first, table.second)
    won = (table.first < table.second) == (table.outcome > 0)
    code, n_pairs = 2 * (low * n_items + high) + won, n_items**2
    if n_pairs <= len(code):
        counts = np.bincount(code, minlength=2 * n_pairs).reshape(-1, 2)
        pair = np.flatnonzero(counts.any(axis=1))
        return pair // n_items, pair % n_items, 1.0 * counts[pair, 1], 1.0 * counts[pair, 0]
    code.sort()
    pair = code // 2
    starts = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
    wins = np.add.reduceat(code % 2, starts).astype(float)
    total = np.diff(np.append(starts, len(code)))
    return pair[starts] // n_items, pair[starts] % n_items, wins, total - wins


class BareNewton:
    """Fit scores with the prior N(0, 1) by Newton's method on aggregated pairs."""

    def __init__(self, table, solver):
        self.i, self.j, self.won, self.lost = aggregated(table)
        self.n_items, self.total = table.n_items, self.won + self.lost
        self.solve = getattr(self, f"_{solver}")
        ends = np.concatenate([self.i, self.j]), np.concatenate([self.j, self.i])
        cell = np.tile(np.arange(1, len(self.i) + 1), 2)
        self.off = csr_array((cell.astype(float), ends), shape=(self.n_items, self.n_items))
        self.cell = self.off.data.astype(np.intp) - 1

    def fit(self):
        """Return the scores."""
        i, j, n_items = self.i, self.j, self.n_items
        f, gain = np.zeros(n_items), np.inf
        while gain > GAIN_TOL:
            p = expit(f[i] - f[j])
            pull, weight = self.won - self.total * p, self.total * p * (1.0 - p)
            slope = np.bincount(i, pull, n_items) - np.bincount(j, pull, n_items) - f
            diagonal = np.bincount(i, weight, n_items) + np.bincount(j, weight, n_items) + 1.0
            step = self.solve(diagonal, weight, slope)
            f, gain = f + step, slope @ step
        return f

    def _dense(self, diagonal, weight, slope):
        H = np.diag(diagonal)
        H[self.j, self.i] = -weight
        return cho_solve(cho_factor(H, lower=True, overwrite_a=True), slope)

    def _sparse(self, diagonal, weight, slope):
        self.off.data = weight[self.cell]
        H = (diags_array(diagonal) - self.off).tocsc()
        options = {"SymmetricMode": True}
        factor = splu(H, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        return factor.solve(slope)

    def _cg(self, diagonal, weight, slope):
        self.off.data = weight[self.cell]
        x, r = np.zeros_like(slope), slope.copy()
        z = r / diagonal
        direction, rho = z.copy(), r @ z
        goal = CG_TOL**2 * rho
        while rho > goal:
            product = diagonal * direction - self.off @ direction
            share = rho / (direction @ product)
            x += share * direction
            r -= share * product
            z = r / diagonal
            rho, before = r @ z, rho
            direction *= rho / before
            direction += z
        return x


def fastest_solver(table):
    """Return the solver of the bare fit that takes least CPU time; factors only where they fit."""
    cpu = {}
    for solver, most in MOST_ITEMS.items():
        if table.n_items <= most:
            start = time.process_time()
            BareNewton(table, solver).fit()
            cpu[solver] = time.process_time() - start
    return min(cpu, key=cpu.get)


def table():
    """Return the ratios."""
    rows = []
    for n_items, n_rows in SIZES:
        data = battles(n_items, n_rows)
        job = f"leaderboard, {n_items:,} items, {n_rows:,} battles"
        with one_core():
            solver = fastest_solver(data)
            ours = lambda data=data: leaderboard(data, random_state=0)  # noqa: E731
            bare = lambda data=data, solver=solver: BareNewton(data, solver).fit()  # noqa: E731
            against = f"bare Newton, {solver}, given prior, no intervals"
            rows.append(cpu_ratio(job, ours, against, bare, "at most 3x", repeats=9))
        if (n_items, n_rows) in PEER_SIZES:
            rows += [peer_row(job, rows[-1].seconds, name, data) for name in PEERS]
        if (n_items, n_rows) in NAMED_SIZES:
            frame, job = frame_of(data), f"{job}, from a frame of names"
            with one_core():
                named = lambda frame=frame: leaderboard(frame, random_state=0)  # noqa: E731
                against = f"bare Newton, {solver}, of numbers"
                rows.append(cpu_ratio(job, named, against, bare, "at most 3x", repeats=9))
    return rows


def peer_row(job, seconds, name, data):
    """Time a peer once; it has no intervals either."""
    if find_spec(name) is None:
        return Row(job, name, "faster", seconds, math.nan, math.nan, "not installed")
    start = time.process_time()
    {"choix": choix_fit, "evalica": evalica_fit}[name](data)
    other = time.process_time() - start
    return Row(job, f"{name}, no intervals", "at least 1x faster", seconds, other, other / seconds)


def choix_fit(data):
    import choix  # noqa: PLC0415

    return choix.ilsr_pairwise(data.n_items, data.pairs.tolist(), alpha=PENALTY)


def evalica_fit(data):
    import evalica  # noqa: PLC0415

    pairs = data.pairs
    winners = [evalica.Winner.X] * len(pairs)
    return evalica.bradley_terry(pairs[:, 0].tolist(), pairs[:, 1].tolist(), winners)
