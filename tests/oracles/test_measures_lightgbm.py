"""LightGBM's own metrics as witness: a model without trees, its scores given from outside."""

import lightgbm
import numpy as np
import pytest

from rankwise.core.queries import Queries
from rankwise.measures.registry import parse_measure


def reported(name, cutoff, y, scores, sizes, **parameters):
    parameters |= {
        "objective": "none",
        "metric": [name],
        "eval_at": [cutoff],
        "min_data_in_bin": 1,
        "verbose": -1,
    }
    X = np.arange(len(y), dtype=float)[:, None]
    data = lightgbm.Dataset(X, label=y, group=sizes, init_score=scores, params=parameters)
    return lightgbm.Booster(parameters, data).eval_train()[0][2]


def draw(seed, grades):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 12)
    y, scores = rng.integers(0, grades, sizes.sum()) * 1.0, rng.integers(0, 4, sizes.sum()) / 4
    y[: sizes[0]] = 0
    return y, scores, sizes, Queries.from_qid(np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cutoff", [1, 3, 20])
@pytest.mark.parametrize(("name", "theirs", "grades"), [("NDCG", "ndcg", 5), ("AP", "map", 3)])
def test_preset_is_what_lightgbm_reports(name, theirs, grades, cutoff, seed):
    y, scores, sizes, queries = draw(seed, grades)
    ours = parse_measure(f"{name} @ {cutoff}", preset="lightgbm").overall(y, scores, queries)
    assert ours == pytest.approx(reported(theirs, cutoff, y, scores, sizes), abs=1e-12)


def test_label_gain_of_lightgbm_is_a_table():
    y, scores, sizes, queries = draw(0, 4)
    measure = parse_measure("NDCG(gain=(0, 1, 5, 6)) @ 3", preset="lightgbm")
    theirs = reported("ndcg", 3, y, scores, sizes, label_gain=[0, 1, 5, 6])
    assert measure.overall(y, scores, queries) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(
    ("y", "scores", "value"),
    [
        ([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], 0.9721),
        ([0, 0, 0], [3, 2, 1], 1),
        ([1], [1], 1),
        ([1, 0, 2, 0], [1] * 4, 0.6885),
    ],
)
def test_published_cases_of_lightgbm(y, scores, value):
    measure = parse_measure("NDCG @ 10", preset="lightgbm")
    ours = measure.per_query(y, scores, Queries.single(len(y)))[0]
    assert ours == pytest.approx(value, abs=5e-5)
    theirs = reported("ndcg", 10, np.array(y, float), np.array(scores, float), [len(y)])
    assert ours == pytest.approx(theirs, abs=1e-12)
