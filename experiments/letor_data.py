"""The LETOR sets and one more: their parts and folds, and two ways to scale within queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from experiments.harness import data_path
from rankwise.io import read_svmlight

FEATURES = {"OHSUMED_LETOR2": 25, "OHSUMED_LETOR3": 45, "MQ2008": 46, "MQ2007": 46}
TITLES = {
    "OHSUMED_LETOR2": "OHSUMED, LETOR 2.0",
    "OHSUMED_LETOR3": "OHSUMED, LETOR 3.0",
    "MQ2008": "MQ2008, LETOR 4.0",
    "MQ2007": "MQ2007, LETOR 4.0",
    "LightGBM_rank": "LightGBM's example",
}
RAW = ("OHSUMED_LETOR2",)
"""Sets that come without any scaling; the others are scaled query by query already."""

N_PARTS = 5


@dataclass(frozen=True, eq=False)
class Part:
    """Graded items of some queries, each query in consecutive rows."""

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray


@dataclass(frozen=True, eq=False)
class Fold:
    """Three parts to learn from, one to choose settings with, one to test on."""

    train: Part
    validation: Part
    test: Part


def read_parts(name: str) -> list[Part]:
    """Return the five parts of a set, with query ids that no two parts share."""
    if name == "LightGBM_rank":
        return _example_parts(name)
    parts = []
    for k in range(1, N_PARTS + 1):
        path = data_path(name, f"S{k}.txt.gz")
        data = read_svmlight(path, n_features=FEATURES[name], dense=True)
        qid = np.char.add(f"{k}:", data.qid.astype(str))
        X = scaled_within_queries(data.X, qid) if name in RAW else data.X
        parts.append(Part(X, data.y, qid))
    return parts


def _example_parts(name: str) -> list[Part]:
    """Return every fifth query of both files, which keep the sizes of queries apart."""
    found, n_queries = [], 0
    for part in ("train", "test"):
        data = read_svmlight(data_path(name, f"rank.{part}.gz"), n_features=301, dense=True)
        sizes = np.loadtxt(data_path(name, f"rank.{part}.query"), dtype=int)
        qid = n_queries + np.repeat(np.arange(len(sizes)), sizes)
        found.append(Part(data.X, data.y, qid))
        n_queries += len(sizes)
    whole = join(*found)
    X = whole.X[:, np.ptp(whole.X, axis=0) > 0]
    chosen = [whole.qid % N_PARTS == k for k in range(N_PARTS)]
    return [Part(X[rows], whole.y[rows], whole.qid[rows]) for rows in chosen]


def folds(parts: Sequence[Part]) -> Iterator[Fold]:
    """Yield the five folds of LETOR: three parts in a row, the next one, and the one after it."""
    for k in range(N_PARTS):
        turned = [*parts[k:], *parts[:k]]
        yield Fold(join(*turned[:3]), turned[3], turned[4])


def join(*parts: Part) -> Part:
    """Put parts one after the other."""
    return Part(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.qid for part in parts]),
    )


def query_sizes(qid: np.ndarray) -> np.ndarray:
    """Return the number of rows of each query, in the order of the rows."""
    starts = np.flatnonzero(np.r_[True, qid[1:] != qid[:-1]])
    return np.diff(np.r_[starts, len(qid)])


def scaled_within_queries(X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Bring every feature of a query to [0, 1]; one that is constant there becomes 0."""
    blocks = []
    for rows in _blocks(X, qid):
        span = np.ptp(rows, axis=0)
        blocks.append((rows - rows.min(axis=0)) / np.where(span > 0, span, 1.0))
    return np.concatenate(blocks)


def ranks_within_queries(X: np.ndarray, qid: np.ndarray) -> np.ndarray:
    """Return the rank of every value among those of its query, in [0, 1]; ties share theirs."""
    ranks = [(rankdata(rows, axis=0) - 1) / max(len(rows) - 1, 1) for rows in _blocks(X, qid)]
    return np.concatenate(ranks)


def _blocks(X: np.ndarray, qid: np.ndarray) -> list[np.ndarray]:
    return np.split(X, np.cumsum(query_sizes(qid))[:-1])
