"""Measuring a million rows in ten thousand queries, against scikit-learn query by query."""

import os
import subprocess
import sys
import tempfile
from statistics import median

import numpy as np
from sklearn.metrics import ndcg_score

from benchmarks.harness import Row, markdown, row_of, timings
from rankwise import AP, NDCG, Disagreement, Queries, evaluate

N_QUERIES, N_ITEMS, N_VECTORS = 10_000, 100, 8
MEASURES = (NDCG @ 10, AP, Disagreement)
TOGETHER = " + ".join(map(repr, MEASURES))
PEER = "scikit-learn ndcg_score(k=10) per query"

FIRST_CALL = """
from time import perf_counter
from rankwise import evaluate
start = perf_counter()
evaluate([1, 0, 2], [3, 2, 1], measures=["NDCG @ 10", "AP", "Disagreement"])
print(perf_counter() - start)
"""


def ranking_problem():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(N_QUERIES), N_ITEMS)
    y = rng.integers(0, 5, len(qid)).astype(float)
    return y, 0.3 * y + rng.normal(size=len(qid)), qid


def per_query(y: np.ndarray, scores: np.ndarray) -> float:
    queries = zip(y.reshape(-1, 1, N_ITEMS), scores.reshape(-1, 1, N_ITEMS), strict=True)
    return float(np.mean([ndcg_score(grades, given, k=10) for grades, given in queries]))


def speed_rows() -> list[Row]:
    y, scores, qid = ranking_problem()
    rng = np.random.default_rng(1)
    shuffle = rng.permutation(len(qid))
    mixed = y[shuffle], scores[shuffle], qid[shuffle]
    vectors = scores + rng.normal(size=(N_VECTORS, len(qid)))
    queries = Queries.from_qid(qid)
    size = f"{len(qid):,} rows in {N_QUERIES:,} queries"
    jobs = {
        f"{TOGETHER}, {size}": lambda: evaluate(y, scores, qid, MEASURES),
        "the same, rows of queries mixed": lambda: evaluate(*mixed, MEASURES),
        "NDCG @ 10": lambda: evaluate(y, scores, qid, NDCG @ 10),
        "NDCG @ 10, per score vector": lambda: (NDCG @ 10).overall_many(y, vectors, queries),
    }
    *ours, theirs = timings([*jobs.values(), lambda: per_query(y, scores)], repeats=3)
    ours[-1] = [seconds / N_VECTORS for seconds in ours[-1]]
    bars = ["at least 20x faster", *3 * ["faster"]]
    notes = ["", "sorting by query included", "", f"of {N_VECTORS}"]
    return [
        row_of([times, theirs], median, job, PEER, bar, note)
        for job, times, bar, note in zip(jobs, ours, bars, notes, strict=True)
    ]


def first_call_row() -> Row:
    """Time the first call in a new process, before and after the compiler's cache is filled."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        empty, filled = (
            float(subprocess.check_output([sys.executable, "-c", FIRST_CALL], env=environment))
            for _ in range(2)
        )
    return Row(
        f"first call of {TOGETHER}, empty compiler cache",
        "first call in a further process",
        "none",
        empty,
        filled,
        empty / filled,
        "compilation is paid once per machine",
    )


def table() -> list[Row]:
    return [*speed_rows(), first_call_row()]


if __name__ == "__main__":
    print(markdown("Measures", table()))
