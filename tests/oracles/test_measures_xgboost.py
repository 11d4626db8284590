"""XGBoost's own metrics as witness: a model without trees, its scores given from outside."""

import numpy as np
import pytest
import xgboost

from rankwise.core.queries import Queries
from rankwise.measures.registry import parse_measure


def reported(name, y, scores, sizes, **parameters):
    data = xgboost.DMatrix(np.zeros((len(y), 1)), label=y, base_margin=scores)
    data.set_group(sizes)
    parameters |= {"objective": "rank:ndcg", "eval_metric": name}
    report = xgboost.Booster(parameters, [data]).eval(data)
    return float(report.rsplit(":", 1)[1])


def draw(seed, grades):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, 12)
    y, scores = rng.integers(0, grades, sizes.sum()) * 1.0, rng.integers(0, 4, sizes.sum()) / 4
    y[: sizes[0]] = 0
    return y, scores, sizes, Queries.from_qid(np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cutoff", [1, 3, 20])
@pytest.mark.parametrize(
    ("text", "theirs", "grades", "parameters"),
    [
        ("NDCG", "ndcg", 5, {}),
        ("NDCG(gain=linear)", "ndcg", 5, {"ndcg_exp_gain": False}),
        ("AP", "map", 2, {}),
        ("Precision", "pre", 2, {}),
    ],
)
def test_preset_is_what_xgboost_reports(text, theirs, grades, parameters, cutoff, seed):
    y, scores, sizes, queries = draw(seed, grades)
    ours = parse_measure(f"{text} @ {cutoff}", preset="xgboost").overall(y, scores, queries)
    value = reported(f"{theirs}@{cutoff}", y, scores, sizes, **parameters)
    assert ours == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("text", "theirs"), [("NDCG", "ndcg"), ("AP", "map")])
def test_minus_of_xgboost_counts_empty_queries_zero(text, theirs):
    y, scores, sizes, queries = draw(1, 2)
    ours = parse_measure(f"{text}(empty=zero) @ 3", preset="xgboost").overall(y, scores, queries)
    assert ours == pytest.approx(reported(f"{theirs}@3-", y, scores, sizes), abs=1e-12)


@pytest.mark.parametrize(
    ("y", "scores", "exponential", "linear"),
    [
        ([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], 0.9721, 0.9725),
        ([0, 0, 0], [3, 2, 1], 1, 1),
        ([1], [1], 1, 1),
        ([1, 0, 2, 0], [1] * 4, 0.6885, 0.7602),
    ],
)
def test_published_cases_of_xgboost(y, scores, exponential, linear):
    for gain, value in (("exponential", exponential), ("linear", linear)):
        measure = parse_measure(f"NDCG(gain={gain})", preset="xgboost")
        ours = measure.per_query(y, scores, Queries.single(len(y)))[0]
        assert ours == pytest.approx(value, abs=5e-5)
        theirs = reported("ndcg", y, scores, [len(y)], ndcg_exp_gain=gain == "exponential")
        assert ours == pytest.approx(theirs, abs=1e-12)
