"""Accuracy and log-loss while questions are chosen: suggested, balanced or random.

Questions are answered as the set would: by targets without noise, by targets with noise of a third
of their standard deviation, by a random user who rated both jokes, by a random match of both teams.
Parameters are learnt again at every checkpoint, and between two of them answers are added by
`update`. Predictions are judged on answers to random questions, drawn the same way and never seen.

The second table lets questions end by themselves: worlds are drawn, and questions asked until the
stated certainty of a goal is reached. It is right if the goal was reached that often.

The third table counts answers, all of them right, until an order has few enough wrong pairs.

Settings of the process were chosen on worlds of lower seeds than those drawn here.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import t as student_t

from experiments.football_matches import read_matches
from experiments.gp_comparisons import read_set
from experiments.harness import markdown_table, progress, with_error
from experiments.jester_costs import read_ratings
from rankwise import PreferenceGP
from rankwise.comparisons.gp.questions import least_asked
from rankwise.rankers.base import generator

FIRST_SEED = 20_000
N_ITEMS, N_TEST, N_SEEDS = 30, 1500, 40
CHECKPOINTS = (10, 20, 40, 80, 160)
N_PROCESSES = 2
N_STOPPED, N_RANKED, MOST_ASKED, LEVEL = 100, 10, 150, 0.9
GOALS = {
    "best one": {"goal": "best"},
    "best three": {"goal": "top", "k": 3},
    "whole order": {"goal": "order"},
}
SPREADS = (1.0, 3.0)
NO_PAIRS = np.zeros((0, 2), dtype=int)
STRATEGIES = ("suggested", "balanced", "random")
BARS, N_SORTED, MOST_SORTED, EVERY = ((10, 0.0), (30, 0.1), (30, 0.05)), 20, 400, 10
"""Items and share of wrong pairs to reach from right answers; parameters are learnt every 10."""


@dataclass(frozen=True)
class World:
    """Items, the pairs that can be asked about, and how a question is answered.

    The answer is 1 where the first item wins, -1 where the second does, and 0 for neither.
    """

    X: np.ndarray | None
    pairs: np.ndarray
    answer: object


def all_pairs(n_items=N_ITEMS):
    return np.stack(np.triu_indices(n_items, 1), axis=1)


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


def next_question(gp, world, counts, strategy, random_state):
    """Return the pair to ask about; the same state leads to the same choice by chance."""
    rng = generator(random_state)
    if strategy == "random":
        return world.pairs[rng.integers(len(world.pairs))]
    full = len(world.pairs) == len(counts) * (len(counts) - 1) // 2
    candidates = None if full else world.pairs
    if strategy == "balanced" or gp is None:
        return least_asked(counts, candidates, NO_PAIRS, rng)
    return gp.suggest(candidates=candidates, random_state=random_state)[0]


def learnt(world, answers):
    """Fit a process to the answers so far."""
    won = [(a, b) if sign > 0 else (b, a) for a, b, sign in answers if sign]
    tied = [(a, b) for a, b, sign in answers if not sign]
    gp = PreferenceGP("linear" if world.X is None else None, random_state=0)
    X = np.eye(N_ITEMS) if world.X is None else world.X
    return gp.fit(X, pairs=won or np.zeros((0, 2), dtype=int), tied=tied or None)


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
        state = seed * CHECKPOINTS[-1] + len(answers)
        a, b = (int(item) for item in next_question(gp, world, counts, strategy, state))
        sign = world.answer(a, b)
        answers.append((a, b, sign))
        counts[[a, b]] += 1
        if len(answers) in CHECKPOINTS or (gp is None and strategy == "suggested"):
            gp = learnt(world, answers)
        elif strategy != "suggested":
            continue
        else:
            pair = [[a, b] if sign > 0 else [b, a]]
            gp.update(pair) if sign else gp.update(tied=[[a, b]])
        if len(answers) in CHECKPOINTS:
            values.append(judged(gp, test))
    return values


def rows_of(name):
    """Return the lines of a world, a line for each strategy, and where another one is ahead."""
    by_strategy = {
        strategy: np.array([run(WORLDS[name], strategy, FIRST_SEED + k) for k in range(N_SEEDS)])
        for strategy in STRATEGIES
    }
    lines = []
    for strategy, values in by_strategy.items():
        cells = [
            f"{with_error(values[:, k, 0], 3)}, {with_error(values[:, k, 1], 3)}"
            for k in range(1, values.shape[1])
        ]
        lines.append([name, strategy, *cells])
        progress(" | ".join(lines[-1]))
    chosen, cells = by_strategy["suggested"], []
    for other in STRATEGIES[1:]:
        loss = (chosen - by_strategy[other]) * [-1.0, 1.0]  # more accuracy, less log-loss
        for k in range(1, len(CHECKPOINTS)):
            for m, what in enumerate(("accuracy", "log-loss")):
                cells.append(Cell(name, what, CHECKPOINTS[k], other, loss[:, k, m]))
    return lines, cells


@dataclass(frozen=True)
class Cell:
    """How far suggested questions are behind others, in every draw of items."""

    items: str
    what: str
    n_answers: int
    other: str
    loss: np.ndarray

    def is_behind(self, n_errors):
        """Tell whether they are behind by more than some standard errors."""
        error = self.loss.std(ddof=1) / np.sqrt(len(self.loss))
        return bool(self.loss.mean() > n_errors * error)

    def __str__(self):
        by = with_error(self.loss, 3)
        return f"{self.items}: {self.what} at {self.n_answers} answers, {self.other} by {by}"


def standing(cells):
    """Say where suggested questions are behind, and how often chance alone would put them there."""
    differing = [cell for cell in cells if np.any(cell.loss != 0.0)]
    sentences = []
    for n_errors, what in ((1, "a standard error"), (2, "two standard errors")):
        behind = [cell for cell in differing if cell.is_behind(n_errors)]
        chance = len(differing) * student_t.sf(n_errors, N_SEEDS - 1)
        where = "; ".join(map(str, behind)) if n_errors == 1 else places(behind)
        sentences.append(
            f"By more than {what} of the paired difference suggested questions are behind in "
            f"{len(behind)} of {len(differing)} comparisons ({where or 'nowhere'}); chance alone "
            f"would make it about {chance:.0f} if all strategies were equally good."
        )
    early = [cell for cell in differing if cell.is_behind(1) and cell.n_answers <= 40]
    names = [cell for cell in differing if cell.is_behind(1) and "features" not in cell.items]
    sentences.append(
        f"Of those behind by more than one, {len(early)} have at most 40 answers, and {len(names)} "
        "are by name alone."
    )
    return " ".join(sentences)


def places(cells):
    """Count cells by set of items."""
    names = [cell.items for cell in cells]
    return "; ".join(f"{name}: {names.count(name)}" for name in dict.fromkeys(names))


def sorting(strategy, n_items, bar, seed):
    """Return how many right answers it takes until the share of wrong pairs is at most the bar."""
    f = np.random.default_rng(seed).permutation(n_items)
    world = World(None, all_pairs(n_items), None)
    counts, answers, gp = np.zeros(n_items), [], None
    while len(answers) < MOST_SORTED:
        pair = next_question(gp, world, counts, strategy, seed * MOST_SORTED + len(answers))
        a, b = sorted((int(item) for item in pair), key=lambda item: -f[item])
        answers.append((a, b))
        counts[[a, b]] += 1
        if gp is None or len(answers) % EVERY == 0:
            gp = PreferenceGP("linear", random_state=0).fit(np.eye(n_items), pairs=answers)
        else:
            gp.update([(a, b)])
        if 1.0 - right_share(gp.predict(), f) <= bar + 1e-12:
            break
    return len(answers)


def sorting_row(case):
    """Return the line of a number of items and a bar."""
    n_items, bar = case
    needed = {
        strategy: np.array(
            [sorting(strategy, n_items, bar, FIRST_SEED + k) for k in range(N_SORTED)]
        )
        for strategy in STRATEGIES
    }
    ratio = needed["suggested"].mean() / needed["random"].mean()
    cells = [with_error(values, 1) for values in needed.values()]
    progress(f"{n_items} items, {bar:.0%}: {cells}")
    return [str(n_items), f"{bar:.0%}", *cells, f"{ratio:.2f}"]


def stopped(name, spread, seed):
    """Ask until the goal is certain: answers, stated certainty, and whether it was reached."""
    rng, goal = np.random.default_rng(seed), GOALS[name]
    f = spread * rng.normal(size=N_RANKED)
    answers, gp = [], None
    while len(answers) < MOST_ASKED:
        pair = rng.choice(N_RANKED, 2, replace=False)
        if gp is not None:
            asked = gp.suggest(until=LEVEL, **goal)
            if len(asked) == 0:
                break
            pair = asked[0]
        a, b = pair if f[pair[0]] - f[pair[1]] + rng.normal() > 0.0 else pair[::-1]
        answers.append((a, b))
        if len(answers) & (len(answers) - 1) == 0:  # parameters at 1, 2, 4, ... answers
            gp = PreferenceGP("linear", random_state=0).fit(np.eye(N_RANKED), pairs=answers)
        else:
            gp.update([(a, b)])
    right = (
        right_share(gp.predict(), f) if name == "whole order" else reached(gp.predict(), f, goal)
    )
    return len(answers), gp.certainty(**goal), right


def right_share(scores, f):
    """Return the share of pairs in the right order."""
    i, j = np.triu_indices(len(f), 1)
    return float(np.mean((scores[i] - scores[j]) * (f[i] - f[j]) > 0.0))


def reached(scores, f, goal):
    """Tell whether the best k are right."""
    k = goal.get("k", 1)
    return float(set(np.argsort(-scores)[:k]) == set(np.argsort(-f)[:k]))


def stopping_row(case):
    """Return the line of a goal in worlds of a spread."""
    name, spread = case
    runs = np.array([stopped(name, spread, FIRST_SEED + k) for k in range(N_STOPPED)])
    cells = [with_error(column, digits) for column, digits in zip(runs.T, (1, 3, 3), strict=True)]
    ended = runs[runs[:, 0] < MOST_ASKED]
    cells += [str(len(ended)), with_error(ended[:, 2], 3) if len(ended) > 1 else "-"]
    progress(f"{name}, {spread}: {cells}")
    return [name, f"{spread:g}", *cells]


def section() -> str:
    """Return the table of accuracies and log-losses, and that of questions that end."""
    with ProcessPoolExecutor(N_PROCESSES) as pool:
        found = list(pool.map(rows_of, WORLDS))
        stop_rows = list(pool.map(stopping_row, [(name, s) for name in GOALS for s in SPREADS]))
        sort_rows = list(pool.map(sorting_row, BARS))
    lines, cells = ([one for part in parts for one in part] for parts in zip(*found, strict=True))
    header = ["items", "questions", *(f"{n} answers" for n in CHECKPOINTS[1:])]
    stop_header = ["goal", "spread of scores / noise", "answers", "stated certainty", "right"]
    stop_header += ["ended", "right where ended"]
    sort_header = ["items", "wrong pairs", *STRATEGIES, "suggested / random"]
    return (
        f"{N_ITEMS} items, mean and standard error of {N_SEEDS} draws of items: accuracy and "
        "log-loss of decided answers to random questions.\n\n"
        + markdown_table(header, lines)
        + f"\n{standing(cells)}\n\n"
        + f"Questions until {LEVEL:.0%} are certain, {N_RANKED} items by name, {N_STOPPED} worlds "
        + f"a line, at most {MOST_ASKED} answers. For the whole order certainty is the expected "
        + "share of pairs in the right order, and right is their share. Worlds that reach the most "
        + "answers first are stopped there, and state less certainty.\n\n"
        + markdown_table(stop_header, stop_rows)
        + "\nAnswers, all of them right, until at most the given share of pairs of items known by "
        + f"name is in the wrong order; {N_SORTED} draws, at most {MOST_SORTED} answers.\n\n"
        + markdown_table(sort_header, sort_rows)
    )
