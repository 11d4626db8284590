"""Whether AutoRanker's honest value is that of new queries.

Each world is drawn again for every fit: queries to learn from, and 1,000 more from the same law to
test on. The honest value covers if it is within two standard errors of the test value, the errors
of both over their queries combined. A law that holds covers about 95 of 100 times. By how much an
interval of few queries is widened, and that the search is repeated where items are few, was chosen
on other draws of these worlds. Where items stand in several queries, the test queries are of new
items. Of queries in time, the first are only learned from.
"""

from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.harness import markdown_table, progress
from rankwise import AutoRanker, evaluate

N_FITS = 5
SIZES = (12, 20, 60)
TOO_FEW = (2, 3, 5)
FIRST_SEED = 1000
N_TEST = 1000
MEASURE = "NDCG @ 5"

World = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray, np.ndarray]]


def numbers(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw numbers with a signal that is not linear."""
    qid = np.repeat(np.arange(n_queries), 8)
    X = rng.normal(size=(len(qid), 6))
    score = X[:, 0] + np.abs(X[:, 1]) + 1.5 * rng.normal(size=len(qid))
    return X, np.digitize(score, [0.5, 2.0]).astype(float), qid


def rare(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw six columns of 60 categories each, whose effects are the same in every draw."""
    effects = np.random.default_rng(99).normal(size=(6, 60))
    qid = np.repeat(np.arange(n_queries), 6)
    names = rng.integers(60, size=(len(qid), 6))
    score = 0.5 * effects[np.arange(6), names].sum(axis=1) + rng.normal(size=len(qid))
    y = np.digitize(score, [0.0, 1.5]).astype(float)
    return np.char.add("c", names.astype(str)).astype(object), y, qid


def users(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a text that is constant in each query and turns what a feature means."""
    qid = np.repeat(np.arange(n_queries), 8)
    x, user = rng.normal(size=len(qid)), rng.integers(4, size=n_queries)[qid]
    score = np.where(user % 2 == 0, x, -x) + 0.5 * rng.normal(size=len(qid))
    text = np.array(["a", "b", "c", "d"], object)[user]
    return np.column_stack([x.astype(object), text]), np.digitize(score, [0.0, 1.0]) * 1.0, qid


def crossed(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw two texts, one constant in each query, that decide together."""
    effects = np.random.default_rng(7).normal(size=(20, 3))
    qid = np.repeat(np.arange(n_queries), 8)
    a, b = rng.integers(20, size=len(qid)), rng.integers(3, size=n_queries)[qid]
    score = effects[a, b] + rng.normal(size=len(qid))
    names = np.char.add("a", a.astype(str)), np.char.add("b", b.astype(str))
    return np.column_stack(names).astype(object), np.digitize(score, [0.0, 1.0]) * 1.0, qid


def again(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw items that stand in three queries each, with the same grade in all of them."""
    stock, _, _ = numbers(rng, n_queries // 3 + 4)
    score = stock[:, 0] + np.abs(stock[:, 1]) + 1.5 * rng.normal(size=len(stock))
    grades = np.digitize(score, [0.5, 2.0]).astype(float)
    rows = [rng.choice(len(stock), 8, replace=False) for _ in range(n_queries)]
    item = np.concatenate(rows)
    return stock[item], grades[item], np.repeat(np.arange(n_queries), 8)


def nothing(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw everything that may deceive, and grades that depend on none of it.

    Rare categories, texts that can be crossed, one of them constant in each query, dates, numbers.
    """
    text, _, qid = rare(rng, n_queries)
    few, _, _ = crossed(rng, n_queries)
    few = few.reshape(n_queries, 8, 2)[:, :6].reshape(-1, 2)
    days = np.datetime64("2026-01-01") + rng.integers(300, size=n_queries)[qid]
    parts = [text[:, :3], few, days.astype(str).astype(object)[:, None]]
    X = np.column_stack([*parts, rng.normal(size=(len(qid), 3)).astype(object)])
    return X, rng.integers(3, size=len(qid)).astype(float), qid


WORLDS: dict[str, World] = {
    "numbers": numbers,
    "rare categories": rare,
    "text constant in queries": users,
    "texts that decide together": crossed,
    "items in three queries each": again,
    "no signal": nothing,
    "no signal, in time": nothing,
}


def fitted(name: str, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> AutoRanker:
    """Return a ranker, in time or on new items where the world says so."""
    time = X[:, 5] if name.endswith("in time") else None
    folds_by = True if name.startswith("items in") else None
    return AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid, time=time, folds_by=folds_by)


def _errors(name: str, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return honest less test values, and their standard errors."""
    found, draw = [], WORLDS[name]
    for seed in range(FIRST_SEED, FIRST_SEED + N_FITS):
        rng = np.random.default_rng([seed, n_queries])
        X, y, qid = draw(rng, n_queries)
        X_new, y_new, qid_new = draw(rng, N_TEST)
        ranker = fitted(name, X, y, qid)
        honest = ranker.honest_value_
        if honest.n_queries == 0:
            continue
        test = evaluate(y_new, ranker.predict(X_new, qid=qid_new), qid_new, MEASURE).values[:, 0]
        test = test[~np.isnan(test)]
        error = np.hypot((honest.high - honest.low) / 3.92, test.std() / np.sqrt(len(test)))
        found.append((honest.value - test.mean(), error))
    return tuple(np.reshape(found, (-1, 2)).T)


def _n_unknown() -> int:
    """Return for how many of the worlds and sizes with too few queries no value is named."""
    unknown = 0
    for name, draw in WORLDS.items():
        for n_queries in TOO_FEW:
            rng = np.random.default_rng([FIRST_SEED, n_queries])
            unknown += fitted(name, *draw(rng, n_queries)).honest_value_.n_queries == 0
    return unknown


def section() -> str:
    """Return the table."""
    rows, covered = [], []
    with threadpool_limits(1):
        for name in WORLDS:
            for n_queries in SIZES:
                off, error = _errors(name, n_queries)
                if len(off) == 0:
                    rows.append([name, n_queries, "unknown: too few queries", ""])
                    continue
                covers = np.abs(off) <= 2.0 * error
                covered.extend(covers)
                spread = off.std(ddof=1) / np.sqrt(len(off))
                rows.append([name, n_queries, f"{off.mean():+.4f} ± {spread:.4f}", covers.sum()])
                progress(f"{rows[-1]}")
    header = ["world", "queries", "honest less test value", f"covers, of {N_FITS}"]
    said = f"In all the honest value covers {sum(covered)} of {len(covered)} times."
    sizes = f"{TOO_FEW[0]}, {TOO_FEW[1]} or {TOO_FEW[2]} queries"
    said += f" With {sizes} it is unknown in {_n_unknown()} of {len(WORLDS) * len(TOO_FEW)} fits.\n"
    return f"{__doc__}\n{markdown_table(header, rows)}\n{said}"
