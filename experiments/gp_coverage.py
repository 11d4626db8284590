"""Do intervals of the process hold what they say? Simulated judges, drift and home effects.

Every world is drawn, so the truth is known: the 90 % intervals of differences of scores should
cover it in 90 of 100 cases, also where judges differ in reliability or scores change with time.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from experiments.harness import markdown_table, progress, with_error
from rankwise import ComparisonTable, PreferenceGP

N_WORLDS, N_EFFECTS = 24, 24
N_ITEMS, N_ANSWERS = 10, 400
REACH = 1.6448536


def questions(rng, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs of items."""
    first = rng.integers(N_ITEMS, size=n_rows)
    return first, (first + 1 + rng.integers(N_ITEMS - 1, size=n_rows)) % N_ITEMS


def judged_world(seed: int) -> tuple[np.ndarray, ComparisonTable]:
    """Draw scores, and answers of twelve judges of whom two answer at random."""
    rng = np.random.default_rng(seed)
    f = 1.5 * rng.normal(size=N_ITEMS)
    reliability, width = np.exp(0.4 * rng.normal(size=12)), 0.4 * np.exp(0.5 * rng.normal(size=12))
    reliability[:2] = 0.0
    first, second = questions(rng, N_ANSWERS)
    judge = rng.integers(12, size=N_ANSWERS)
    lead = reliability[judge] * (f[first] - f[second]) + rng.normal(size=N_ANSWERS)
    outcome = np.where(np.abs(lead) <= width[judge], 0, np.sign(lead)).astype(int)
    return f, ComparisonTable.of(first, second, outcome, judge=judge, names=np.arange(N_ITEMS))


def drifting_world(seed: int) -> tuple[np.ndarray, ComparisonTable]:
    """Draw scores that forget half of their variance within 200 days; the truth is of the end."""
    rng = np.random.default_rng(seed)
    date = np.append(np.sort(rng.uniform(0.0, 1000.0, size=N_ANSWERS - 1)), 1000.0)
    C = np.exp(-np.abs(np.subtract.outer(date, date)) / 200.0) + 1e-9 * np.eye(N_ANSWERS)
    moving = np.linalg.cholesky(C) @ rng.normal(size=(N_ANSWERS, N_ITEMS))
    f = rng.normal(size=N_ITEMS) + moving
    first, second = questions(rng, N_ANSWERS)
    rows = np.arange(N_ANSWERS)
    lead = f[rows, first] - f[rows, second] + rng.normal(size=N_ANSWERS)
    outcome = np.sign(lead).astype(int)
    return f[-1], ComparisonTable.of(first, second, outcome, date=date, names=np.arange(N_ITEMS))


def covered(gp: PreferenceGP, f: np.ndarray) -> tuple[float, float]:
    """Return the share of differences inside their 90 % intervals, as they are and up to a unit.

    Scores are in units of the noise of a usual judge, which no answer compares with the unit of the
    world: the second share takes the unit under which the two agree best.
    """
    mean, cov = gp.predict(return_cov=True)
    i, j = np.triu_indices(N_ITEMS, 1)
    std = np.sqrt(cov[i, i] + cov[j, j] - 2.0 * cov[i, j])
    found, truth = mean[i] - mean[j], f[i] - f[j]
    unit = (found @ truth) / (truth @ truth)
    return tuple(np.mean(np.abs(found - u * truth) <= REACH * std) for u in (1.0, unit))


def judges(known: bool) -> Callable:
    """Return how answers of judges are learned from."""

    def fit(table: ComparisonTable) -> PreferenceGP:
        given = table if known else replace(table, judge=None)
        return PreferenceGP("linear", likelihood="probit").fit(pairs=given)

    return fit


def drift(known: bool) -> Callable:
    """Return how answers with dates are learned from."""

    def fit(table: ComparisonTable) -> PreferenceGP:
        return PreferenceGP("linear", likelihood="probit", drift=known).fit(pairs=table)

    return fit


CASES: dict[str, tuple[Callable, Callable]] = {
    "judges, learnt": (judged_world, judges(known=True)),
    "judges, all one": (judged_world, judges(known=False)),
    "drift, learnt": (drifting_world, drift(known=True)),
    "drift, left out": (drifting_world, drift(known=False)),
}


def home_effects(likelihood: str) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates of a home effect of 0.8 from 900 answers, and whether intervals hold it."""
    values, holds = [], []
    for seed in range(N_EFFECTS):
        rng = np.random.default_rng(1000 + seed)
        X = rng.normal(size=(N_ITEMS, 2))
        f = np.sin(2.0 * X).sum(axis=1)
        first, second = questions(rng, 900)
        home = rng.integers(-1, 2, size=900).astype(float)
        noise = rng.logistic(size=900) if likelihood == "logistic" else rng.normal(size=900)
        outcome = np.sign(f[first] - f[second] + 0.8 * home + noise).astype(int)
        table = ComparisonTable.of(
            first, second, outcome, covariates={"home": home}, names=np.arange(N_ITEMS)
        )
        gp = PreferenceGP(likelihood=likelihood, random_state=0).fit(X, pairs=table)
        (effect,) = gp.effects_
        values.append(effect.value)
        holds.append(effect.low < 0.8 < effect.high)
    return np.array(values), np.array(holds, dtype=float)


def section() -> str:
    """Return the two tables."""
    rows = []
    for name, (world, fit) in CASES.items():
        found = []
        for seed in range(N_WORLDS):
            f, table = world(seed)
            found.append(covered(fit(table), f))
        rows.append([name, *(with_error(share, 3) for share in np.array(found).T)])
        progress(f"gp_coverage: {name}")
    effects = []
    for likelihood in ("probit", "logistic"):
        values, holds = home_effects(likelihood)
        spread = f"{values.min():.2f} to {values.max():.2f}"
        effects.append([likelihood, with_error(values, 3), spread, with_error(holds, 2)])
        progress(f"gp_coverage: {likelihood}")
    scores = markdown_table(
        ["", "covered, 0.90 is right", "covered up to the unit of scores"], rows
    )
    home = markdown_table(["likelihood", "home effect, 0.8 is right", "range", "covered"], effects)
    return (
        f"{N_WORLDS} worlds of {N_ITEMS} items without features and {N_ANSWERS} answers each; "
        "errors are standard errors over worlds. Two of the twelve judges answer at random; "
        "drifting scores forget half of their variance within 200 of 1000 days, and the truth is "
        "that of the last day. Scores that know judges are in units of the noise of a usual judge: "
        "random ones among them make that unit larger than the one of the world, which is why only "
        f"the last column is a test of them.\n\n{scores}\n"
        f"A home effect of 0.8, learned with the scores of {N_ITEMS} items with features from 900 "
        f"answers, {N_EFFECTS} times.\n\n"
    ) + home
