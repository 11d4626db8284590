"""AutoRanker at its default on large tables, beside LightGBM at its default.

Rows are drawn: 50 features, of which pairs and triples act together, five grades, queries of 25
items. Values are NDCG @ 10 of 2,000 new queries with standard errors over them; seconds are CPU
seconds of everything, features made for the prediction included, in one thread.
"""

import time

import numpy as np
from lightgbm import LGBMRanker
from threadpoolctl import threadpool_limits

from experiments.harness import markdown_table, progress, with_error
from rankwise import AutoRanker, evaluate

SIZES = (200_000, 500_000)
N_TEST = 50_000
N_FEATURES, N_ITEMS = 50, 25
MEASURE = "NDCG @ 10"
PEERS = ["lightgbm"]


def drawn(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows with interactions, and grades with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    score = X @ (0.3 * np.random.default_rng(7).normal(size=N_FEATURES))
    score += X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + np.sin(2.0 * X[:, 3]) * X[:, 4]
    score += 0.5 * X[:, 5] * X[:, 6] * X[:, 7] + np.maximum(X[:, 8], X[:, 9])
    score += 2.5 * rng.normal(size=n_rows)
    y = np.digitize(score, np.quantile(score, [0.5, 0.8, 0.93, 0.98])).astype(float)
    return X, y, np.arange(n_rows) // N_ITEMS


def section() -> str:
    """Return the table."""
    rows = []
    with threadpool_limits(1):
        X_new, y_new, qid_new = drawn(N_TEST, 1)
        for n_rows in SIZES:
            X, y, qid = drawn(n_rows, 0)
            start = time.process_time()
            groups = np.full(n_rows // N_ITEMS, N_ITEMS)
            theirs = LGBMRanker(n_jobs=1, verbose=-1).fit(X, y.astype(int), group=groups)
            scores = {"LightGBM": theirs.predict(X_new)}
            seconds = {"LightGBM": time.process_time() - start}
            start = time.process_time()
            ours = AutoRanker(MEASURE).fit(X, y, qid=qid)
            scores["AutoRanker"] = ours.predict(X_new, qid=qid_new)
            seconds["AutoRanker"] = time.process_time() - start
            cells = [f"{n_rows:,}", str(ours.honest_value_).partition(": ")[2]]
            for name, found in scores.items():
                values = evaluate(y_new, found, qid_new, MEASURE).values[:, 0]
                cells += [with_error(values, 4), f"{seconds[name]:.0f}"]
            rows.append(cells)
            progress(" | ".join(cells))
    header = ["rows", "AutoRanker's honest value", "LightGBM", "CPU s", "AutoRanker", "CPU s"]
    return f"{__doc__}\n" + markdown_table(header, rows)
