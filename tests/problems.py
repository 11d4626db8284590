"""Random ranking problems with all the awkward cases in them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problem:
    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray


def problem(seed=0, sizes=(5, 1, 7, 2, 4), n_features=3, grades=3, shuffle=True):
    """Draw a problem with tied scores (no ``grades``: none), unsorted rows, a query of one item."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(len(sizes)) * 7 + 3, sizes)
    n_items = len(qid)
    X = rng.normal(size=(n_items, n_features))
    signal = X @ rng.normal(size=n_features) + 0.5 * rng.normal(size=n_items)
    y = signal
    if grades is not None:
        cuts = np.quantile(signal, np.arange(1, grades) / grades)
        y = np.digitize(signal, cuts).astype(float)
    order = rng.permutation(n_items) if shuffle else np.arange(n_items)
    return Problem(X[order], y[order], qid[order])


@dataclass(frozen=True)
class Comparisons:
    pairs: np.ndarray
    margin: np.ndarray
    weight: np.ndarray


def comparisons_of(p, seed=0, n_per_query=6):
    """Draw comparisons inside the queries of a problem, some repeated, some contradicting."""
    rng = np.random.default_rng(seed)
    pairs = []
    for q in np.unique(p.qid):
        rows = np.flatnonzero(p.qid == q)
        if len(rows) > 1:
            pairs += [rng.choice(rows, 2, replace=False) for _ in range(n_per_query)]
    drawn = np.array(pairs)
    drawn = np.vstack([drawn, drawn[:2], drawn[:1, ::-1]])
    margin = rng.uniform(0.3, 2, len(drawn)) * rng.choice([-1, 1, 1], len(drawn))
    return Comparisons(drawn, margin, rng.uniform(0.5, 2, len(drawn)))


def close(found, expected, share=1e-8):
    """Assert that values are equal up to a share of the largest; NaN where NaN is expected."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=share * np.nanmax(np.abs(expected)))
