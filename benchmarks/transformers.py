"""Features inside queries: a million rows of 20 features, beside pandas and polars, in CPU seconds.

Set OMP_NUM_THREADS, RANKWISE_NUM_THREADS and POLARS_MAX_THREADS to 1 to compare with one thread.
"""

import numpy as np
import pandas as pd
import polars as pl

from benchmarks.harness import Row, cpu_ratio, markdown
from rankwise import WithinQueryEncoder, WithinQueryImputer, WithinQueryRanks, WithinQueryScaler

PEERS = ["pandas", "polars"]
N_ITEMS, N_FEATURES, N_QUERIES, N_CATEGORIES = 1_000_000, 20, 20_000, 1_000
BAR = "1 s for a million rows"


def table() -> list[Row]:
    """Compare `fit_transform`, queries sorted and mixed, with one pass of a peer over groups."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ITEMS, N_FEATURES))
    X[:, N_FEATURES // 2 :] = np.round(2.0 * X[:, N_FEATURES // 2 :])
    qid = np.sort(rng.integers(0, N_QUERIES, N_ITEMS))
    rows = _rows(X, qid, "queries in order")
    mixed = _rows(X, rng.permutation(qid), "rows of queries mixed")
    return [*rows, *mixed, _many_texts_row(qid)]


def _many_texts_row(qid: np.ndarray) -> Row:
    """Encode 20 features of text, and all rows of them one by one with pandas."""
    rng = np.random.default_rng(2)
    texts = np.array([f"category {k}" for k in range(N_CATEGORIES)], dtype=object)
    X, y = texts[rng.integers(0, N_CATEGORIES, (N_ITEMS, N_FEATURES))], rng.normal(size=N_ITEMS)
    frame, target = pd.DataFrame(X), pd.Series(y)
    return _row(
        f"WithinQueryEncoder(), {N_FEATURES} features of {N_CATEGORIES:,} categories",
        lambda: WithinQueryEncoder().fit_transform(X, y, qid),
        "pandas groupby mean of each",
        lambda: [target.groupby(frame[j]).transform("mean") for j in frame],
    )


def _rows(X: np.ndarray, qid: np.ndarray, order: str) -> list[Row]:
    rng = np.random.default_rng(1)
    blank = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    y, category = rng.normal(size=len(X)), rng.integers(0, N_CATEGORIES, len(X))
    text = np.array([f"category {k}" for k in range(N_CATEGORIES)], dtype=object)[category]
    frames = {"X": pl.DataFrame(X), "blank": pl.DataFrame(blank, nan_to_null=True)}
    columns = pl.all().exclude("q")

    def polars(frame: str, expression: pl.Expr) -> object:
        return frames[frame].with_columns(q=qid).select(expression)

    spread = (columns.quantile(0.75, "linear") - columns.quantile(0.25, "linear")).over("q")
    jobs = [
        ("WithinQueryScaler()", WithinQueryScaler(), X,
         lambda: polars("X", (columns - columns.min().over("q"))
                        / (columns.max() - columns.min()).over("q"))),
        ("WithinQueryScaler('standard')", WithinQueryScaler("standard"), X,
         lambda: polars("X", (columns - columns.mean().over("q")) / columns.std(ddof=0).over("q"))),
        ("WithinQueryScaler('robust')", WithinQueryScaler("robust"), X,
         lambda: polars("X", (columns - columns.median().over("q")) / spread)),
        ("WithinQueryRanks()", WithinQueryRanks(), X,
         lambda: polars("X", columns.rank("average").over("q"))),
        ("WithinQueryImputer(), a tenth blank", WithinQueryImputer(), blank,
         lambda: polars("blank", columns.fill_null(columns.median().over("q")))),
    ]  # fmt: skip
    found = [
        _row(f"{name}, {order}", lambda t=t, Z=Z: t.fit_transform(Z, y, qid), "polars", other)
        for name, t, Z, other in jobs
    ]
    ours, pandas = WithinQueryEncoder(), pd.DataFrame({"text": text, "y": y})
    return [
        *found,
        _row(
            f"WithinQueryEncoder(), one feature of {N_CATEGORIES:,} categories, {order}",
            lambda: ours.fit_transform(text[:, None], y, qid),
            "pandas groupby mean",
            lambda: pandas.groupby("text")["y"].transform("mean"),
        ),
    ]


def _row(job, ours, against, other) -> Row:
    return cpu_ratio(job, ours, against, other, BAR, repeats=2)


if __name__ == "__main__":
    print(markdown("Features inside queries", table()))
