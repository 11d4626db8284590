"""Accuracy and log-loss while questions are chosen: suggested, balanced or random.

Questions are answered as the set would: by targets without noise, by targets with noise of a third
of their standard deviation, by a random user who rated both jokes, by a random match of both teams.
Parameters are learnt again at every checkpoint, and between two of them answers are added by
`update`. Predictions are judged on answers to random questions, drawn the same way and never seen.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.football_matches import read_matches
from experiments.gp_comparisons import read_set
from experiments.harness import markdown_table, progress
from experiments.jester_costs import read_ratings
from rankwise import PreferenceGP

N_ITEMS, N_TEST, N_SEEDS = 30, 1500, 6
CHECKPOINTS = (10, 20, 40, 80, 160)
N_PROCESSES = 2
STRATEGIES = ("suggested", "balanced", "random")


@dataclass(frozen=True)
class World:
    """Items, the pairs that can be asked about, and how a question is answered.

    The answer is 1 where the first item wins, -1 where the second does, and 0 for neither.
    """

    X: np.ndarray | None
    pairs: np.ndarray
    answer: object


def all_pairs():
    return np.stack(np.triu_indices(N_ITEMS, 1), axis=1)


def regression(name, *, features, noise, rng):
    """Compare items by their targets, ranked to standard normal scores, with noise."""
    X, y = read_set(name)
    distinct = np.unique(y, return_index=True)[1]
    rows = rng.choice(distinct, N_ITEMS, replace=False)
    X, y = X[rows], y[rows]
    y = (y - y.mean()) / y.std()

    def answer(a, b):
        return int(np.sign(y[a] - y[b] + noise * rng.normal()))

    return World(X if features else None, all_pairs(), answer)


@cache
def ratings():
    """Return the ratings of Jester by user and joke."""
    return read_ratings()


def jokes(rng):
    """Compare jokes by the ratings of a random user."""
    R = ratings()[:, rng.choice(100, N_ITEMS, replace=False)]

    def answer(a, b):
        both = np.flatnonzero(~np.isnan(R[:, a]) & ~np.isnan(R[:, b]))
        user = rng.choice(both)
        return int(np.sign(R[user, a] - R[user, b]))

    return World(None, all_pairs(), answer)


@cache
def results():
    """Return the results of the most frequent teams by pair, since 1990."""
    games = [row for row in read_matches() if row["date"] >= "1990"]
    count: dict[str, int] = {}
    for row in games:
        for side in ("home_team", "away_team"):
            count[row[side]] = count.get(row[side], 0) + 1
    teams = {name: k for k, name in enumerate(sorted(count, key=count.__getitem__)[-60:])}
    found: dict[tuple[int, int], list[int]] = {}
    for row in games:
        if row["home_team"] in teams and row["away_team"] in teams:
            a, b = teams[row["home_team"]], teams[row["away_team"]]
            sign = int(np.sign(float(row["home_score"]) - float(row["away_score"])))
            found.setdefault((min(a, b), max(a, b)), []).append(sign if a < b else -sign)
    return found


def football(rng):
    """Compare teams by a random match between them; only pairs that met can be asked about."""
    chosen = np.sort(rng.choice(60, N_ITEMS, replace=False))
    place = {int(team): k for k, team in enumerate(chosen)}
    known = {
        (place[a], place[b]): games
        for (a, b), games in results().items()
        if a in place and b in place
    }
    return World(None, np.array(sorted(known)), lambda a, b: int(rng.choice(known[a, b])))


WORLDS = {
    "machine.cpu, names, clean": lambda rng: regression(
        "machine.cpu", features=False, noise=0.0, rng=rng
    ),
    "machine.cpu, features, clean": lambda rng: regression(
        "machine.cpu", features=True, noise=0.0, rng=rng
    ),
    "housing, names, noisy": lambda rng: regression("housing", features=False, noise=0.7, rng=rng),
    "autompg, features, noisy": lambda rng: regression(
        "autompg", features=True, noise=0.7, rng=rng
    ),
    "jokes, random users": jokes,
    "football, random matches": football,
}


def next_question(gp, world, counts, strategy, rng):
    """Return the pair to ask about."""
    if strategy == "random" or (gp is None and strategy == "suggested"):
        return world.pairs[rng.integers(len(world.pairs))]
    if strategy == "balanced":
        asked = counts[world.pairs].sum(axis=1) + rng.random(len(world.pairs))
        return world.pairs[np.argmin(asked)]
    full = len(world.pairs) == N_ITEMS * (N_ITEMS - 1) // 2
    return gp.suggest(candidates=None if full else world.pairs)[0]


def learnt(world, answers):
    """Fit a process to the answers so far; None while there is no decided one."""
    won = [(a, b) if sign > 0 else (b, a) for a, b, sign in answers if sign]
    tied = [(a, b) for a, b, sign in answers if not sign]
    if not won:
        return None
    gp = PreferenceGP("linear" if world.X is None else None, random_state=0)
    X = np.eye(N_ITEMS) if world.X is None else world.X
    return gp.fit(X, pairs=won, tied=tied or None)


def judged(gp, test):
    """Return accuracy and log-loss of decided answers."""
    p = gp.predict_pair(test[:, 0], test[:, 1])
    if p.ndim == 2:
        p = p[:, 0] / (p[:, 0] + p[:, 2])
    p = np.where(test[:, 2] > 0, p, 1.0 - p)
    return float(np.mean((p > 0.5) + 0.5 * (p == 0.5))), -float(np.mean(np.log(p)))


def run(make, strategy, seed):
    """Return accuracy and log-loss at every checkpoint."""
    rng = np.random.default_rng(seed)
    world = make(rng)
    drawn = world.pairs[rng.integers(len(world.pairs), size=N_TEST)]
    test = np.array([(a, b, world.answer(a, b)) for a, b in drawn])
    test = test[test[:, 2] != 0]
    counts, answers, gp, values = np.zeros(N_ITEMS), [], None, []
    while len(answers) < CHECKPOINTS[-1]:
        a, b = (int(item) for item in next_question(gp, world, counts, strategy, rng))
        sign = world.answer(a, b)
        answers.append((a, b, sign))
        counts[[a, b]] += 1
        if len(answers) in CHECKPOINTS or (gp is None and strategy == "suggested"):
            gp = learnt(world, answers)
        elif strategy != "suggested":
            continue
        elif sign or "tie_width" in gp.likelihood_.parameters:
            pair = [[a, b] if sign > 0 else [b, a]]
            gp.update(pair) if sign else gp.update(tied=[[a, b]])
        if len(answers) in CHECKPOINTS:
            values.append(judged(gp, test))
    return values


def rows_of(name):
    """Return the lines of a world, a line for each strategy."""
    by_strategy = {
        strategy: np.array([run(WORLDS[name], strategy, seed) for seed in range(N_SEEDS)])
        for strategy in STRATEGIES
    }
    lines = []
    for strategy, values in by_strategy.items():
        mean = values.mean(axis=0)
        error = values.std(axis=0, ddof=1) / np.sqrt(N_SEEDS)
        cells = [
            f"{accuracy:.3f} ± {by:.3f}, {loss:.3f} ± {off:.3f}"
            for (accuracy, loss), (by, off) in zip(mean[1:], error[1:], strict=True)
        ]
        lines.append([name, strategy, *cells])
        progress(" | ".join(lines[-1]))
    return lines


def section() -> str:
    """Return the table of accuracies and log-losses."""
    with ProcessPoolExecutor(N_PROCESSES) as pool:
        lines = [line for found in pool.map(rows_of, WORLDS) for line in found]
    header = ["items", "questions", *(f"{n} answers" for n in CHECKPOINTS[1:])]
    return (
        f"{N_ITEMS} items, mean and standard error of {N_SEEDS} draws of items: accuracy and "
        "log-loss of decided answers to random questions.\n\n" + markdown_table(header, lines)
    )
