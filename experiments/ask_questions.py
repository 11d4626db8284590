"""How many answers a ranking needs: chosen questions against random ones.

Items of regression sets are compared by their targets, without and with features; jokes by what a
user drawn at random from those who rated both gave them, "no preference" where the ratings are
equal. After every five answers the ranking is compared with the truth (the target, or the mean
rating): the number of answers after which at most a given share of all pairs is in the wrong order.
Questions are chosen as `rankwise ask` does, with a full refit after every five answers.
"""

from functools import cache

import numpy as np

from experiments.gp_comparisons import read_set
from experiments.harness import markdown_table, progress
from experiments.jester_costs import read_ratings
from rankwise import Concordance, Queries
from rankwise.apps.ask.ranking import (
    AskGoal,
    Standing,
    add_answers,
    choose_question,
    fitted_process,
)
from rankwise.apps.ask.store import Question, Record

N_ITEMS, MAX_ANSWERS, EVERY, N_SEEDS = 30, 400, 5, 16
BARS, JOKE_BAR = (0.10, 0.05), 0.30


def regression_items(name, with_features, rng):
    """Return features, the truth, and how a question about two items is answered."""
    X, y = read_set(name)
    distinct = np.unique(y, return_index=True)[1]
    rows = rng.choice(distinct, N_ITEMS, replace=False)
    X, y = X[rows], y[rows]
    features = X if with_features else np.zeros((N_ITEMS, 0))
    return features, y, lambda a, b: "left" if y[a] > y[b] else "right"


@cache
def ratings():
    """Return the ratings of Jester by user and joke, NaN where there is none."""
    return read_ratings()


def jokes(rng):
    """Return jokes without features, their mean ratings, and answers of random users."""
    R = ratings()[:, rng.choice(100, N_ITEMS, replace=False)]

    def answer(a, b):
        both = np.flatnonzero(~np.isnan(R[:, a]) & ~np.isnan(R[:, b]))
        user = rng.choice(both)
        if R[user, a] == R[user, b]:
            return "tie"
        return "left" if R[user, a] > R[user, b] else "right"

    return np.zeros((N_ITEMS, 0)), np.nanmean(R, axis=0), answer


def answers_needed(X, truth, answer, bar, chosen, rng):
    """Return after how many answers the share of pairs in the wrong order stays below the bar."""
    records, process, everything = [], None, Queries.single(len(X))
    standing = Standing.of(None, AskGoal(), len(X))
    counts = np.zeros(len(X), dtype=np.intp)
    asked: set[tuple[int, int]] = set()
    while len(records) < MAX_ANSWERS:
        pair = None
        if chosen:
            pair = choose_question(process, standing, counts, asked, [], rng)
        if pair is None:
            pair = tuple(sorted(rng.choice(len(X), 2, replace=False).tolist()))
        asked.add(pair)
        record = Record(Question(len(records), 0, *pair), answer(*pair), 0.0)
        records.append(record)
        counts[list(pair)] += 1
        if process is not None and len(records) % EVERY:
            add_answers(process, [record])
            continue
        process = fitted_process(X, records)
        if 1.0 - Concordance.overall(truth, process.predict(), everything) <= bar:
            return len(records)
    return MAX_ANSWERS


def row(name, make, bar):
    needed = {True: [], False: []}
    for seed in range(N_SEEDS):
        for chosen in (True, False):
            rng = np.random.default_rng(seed)
            X, truth, answer = make(rng)
            needed[chosen].append(answers_needed(X, truth, answer, bar, chosen, rng))
    a, b = np.array(needed[True]), np.array(needed[False])
    ratio = a.mean() / b.mean()
    error = ratio * np.sqrt(
        (a.std(ddof=1) / a.mean()) ** 2 / len(a) + (b.std(ddof=1) / b.mean()) ** 2 / len(b)
    )
    return [name, f"{bar:.0%}", f"{a.mean():.0f}", f"{b.mean():.0f}", f"{ratio:.2f} ± {error:.2f}"]


def section() -> str:
    """Return the table of answers needed."""
    rows = []
    for name in ("machine.cpu", "autompg", "housing"):
        for features in (False, True):
            label = f"{name}, {'features' if features else 'names only'}"
            made = lambda rng, n=name, f=features: regression_items(n, f, rng)  # noqa: E731
            for bar in BARS:
                rows.append(row(label, made, bar))
                progress(" | ".join(rows[-1]))
    rows.append(row("jokes, random users", jokes, JOKE_BAR))
    progress(" | ".join(rows[-1]))
    header = ["items", "pairs in the wrong order", "chosen", "random", "ratio"]
    table = markdown_table(header, rows)
    return (
        f"Answers until the ranking of {N_ITEMS} items has at most the given share of pairs in the "
        f"wrong order, mean of {N_SEEDS} draws (at most {MAX_ANSWERS}).\n\n{table}"
    )
