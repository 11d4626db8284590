"""Evaluations: values, means, errors, what is undefined, how it prints."""

import json

import numpy as np
import pytest

from problems import problem
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.binary import AP, Precision
from rankwise.measures.evaluation import evaluate
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import Concordance, Disagreement, KendallTau


@pytest.fixture(scope="module")
def drawn():
    return problem(1, sizes=(5, 1, 7, 2, 4, 9), grades=3)


def test_columns_are_the_values_of_each_measure(drawn):
    scores = drawn.X[:, 0]
    measures = [NDCG @ 3, AP, Disagreement(average="pooled")]
    evaluation = evaluate(drawn.y, scores, drawn.qid, measures)
    queries = Queries.from_qid(drawn.qid)
    for at, measure in enumerate(measures):
        values = measure.per_query(drawn.y, scores, queries)
        np.testing.assert_array_equal(evaluation.values[:, at], values)
        assert evaluation[measure] == measure.overall(drawn.y, scores, queries)
        np.testing.assert_array_equal(evaluation.per_query[repr(measure)], values)
    np.testing.assert_array_equal(evaluation.per_query["qid"], queries.ids)
    assert evaluation["ndcg@3"] == evaluation.mean[0]


def test_mean_and_standard_error_leave_undefined_queries_out(drawn):
    evaluation = evaluate(drawn.y, drawn.X[:, 0], drawn.qid, "AP(relevant=2)")
    values = evaluation.values[:, 0]
    known = values[~np.isnan(values)]
    assert 1 < len(known) < len(values)
    assert evaluation.n_undefined.tolist() == [len(values) - len(known)]
    assert evaluation.mean[0] == pytest.approx(known.mean())
    assert evaluation.standard_error[0] == pytest.approx(known.std(ddof=1) / np.sqrt(len(known)))


def test_undefined_queries_are_counted_whatever_they_count(drawn):
    rules = ("skip", "zero", "one")
    measures = [AP(relevant=2, empty=empty) for empty in rules]
    evaluation = evaluate(drawn.y, drawn.X[:, 0], drawn.qid, measures)
    n_undefined = evaluation.n_undefined[0]
    assert n_undefined > 0
    assert (evaluation.n_undefined == n_undefined).all()
    skip, zero, one = evaluation.mean
    n_queries = evaluation.n_queries
    assert zero == pytest.approx(skip * (n_queries - n_undefined) / n_queries)
    assert one == pytest.approx(zero + n_undefined / n_queries)


def test_pooled_standard_error_is_that_of_a_ratio_of_sums(drawn):
    plain = evaluate(drawn.y, drawn.X[:, 0], drawn.qid, Disagreement)
    pooled = evaluate(drawn.y, drawn.X[:, 0], drawn.qid, Disagreement(average="pooled"))
    pairs, known = pooled.weights[:, 0], plain.defined[:, 0]
    values, n = plain.values[known, 0], known.sum()
    ratio = (pairs[known] * values).sum() / pairs.sum()
    residual = pairs[known] * (values - ratio)
    error = np.sqrt(n * residual.var() * n / (n - 1)) / pairs.sum()
    assert pooled.mean[0] == pytest.approx(ratio)
    assert pooled.standard_error[0] == pytest.approx(error)


def test_one_query_has_no_standard_error():
    evaluation = evaluate([1, 0], [2, 1], measures=[NDCG, AP(relevant=5)])
    assert np.isnan(evaluation.standard_error).all()
    assert evaluation[NDCG] == 1.0
    assert np.isnan(evaluation[AP(relevant=5)])


def test_default_measures_suit_the_grades():
    graded = evaluate([2, 0, 1], [3, 2, 1])
    assert graded.measures == (Concordance, KendallTau, NDCG, NDCG @ 10)
    assert evaluate([2, -1, 1], [3, 2, 1]).measures == (Concordance, KendallTau)
    assert evaluate([2, 0, 1], [3, 2, 1], sample_weight=[1, 1, 2]).measures == (
        Concordance,
        KendallTau,
    )


def test_weights_reach_the_measures():
    evaluation = evaluate([2, 1, 0], [3, 1, 2], measures=Concordance, sample_weight=[1, 0, 1])
    assert evaluation[Concordance] == 1.0


def test_queries_may_have_any_id():
    evaluation = evaluate([1, 0, 1, 0], [2, 1, 1, 2], [("a", 1), ("b", 2), ("a", 1), ("b", 2)])
    assert evaluation.ids.tolist() == [("a", 1), ("b", 2)]


def test_table_shows_means_errors_and_undefined_queries():
    y, scores, qid = [1, 0, 0, 0, 1, 0], [2, 1, 1, 2, 1, 2], [0, 0, 1, 1, 2, 2]
    evaluation = evaluate(y, scores, qid, [NDCG @ 10, Precision @ 1])
    assert str(evaluation).splitlines() == [
        "measure          mean  std. error  undefined",
        "NDCG @ 10      0.8155      0.1845          1",
        "Precision @ 1  0.3333      0.3333          0",
        "3 queries",
    ]
    assert repr(evaluation) == "Evaluation(3 queries, NDCG @ 10: 0.8155, Precision @ 1: 0.3333)"
    assert str(evaluate([1, 0], [2, 1], measures=AP)).splitlines()[1:] == [
        "AP       1.0000           -          0",
        "1 query",
    ]


def test_everything_goes_into_json():
    ids = np.array(["2020-01-01", "2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    evaluation = evaluate([1, 0, 0], [2, 1, 1], ids, ["AP", "NDCG @ 10"])
    read = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert read["n_queries"] == 2
    assert read["ids"] == ["2020-01-01", "2020-01-02"]
    assert read["measures"]["AP"] == {
        "mean": 1.0,
        "standard_error": None,
        "n_undefined": 1,
        "values": [1.0, None],
    }


def test_results_cannot_be_changed():
    evaluation = evaluate([1, 0], [2, 1])
    with pytest.raises(ValueError, match="read-only"):
        evaluation.values[0, 0] = 0.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"y": [], "scores": []}, "there must be an item: y has 0, qid has 0"),
        (
            {"y": [1, 0], "scores": [1, 2], "qid": [1]},
            "`qid` must have one entry per row of `y`: y has 2 rows, qid has 1",
        ),
        ({"y": [[1], [0]], "scores": [1, 2]}, "`y` must be one-dimensional"),
        ({"y": [1, 0], "scores": [1, np.nan]}, "`scores` must be finite: row 1"),
        ({"y": [1, 0], "scores": [1, 2], "measures": []}, "at least one measure"),
        ({"y": [1, 0], "scores": [1, 2], "sample_weight": [1]}, "`sample_weight` must have one"),
        ({"y": [1, 0], "scores": [1, 2], "sample_weight": [1, -1]}, "not negative: entry 1"),
        (
            {"y": [1, 0], "scores": [1, 2], "measures": "NDCG", "sample_weight": [1, 1]},
            "no weighted",
        ),
    ],
)
def test_bad_input_is_refused(arguments, match):
    with pytest.raises(InvalidInputError, match=match):
        evaluate(**arguments)


def test_a_measure_that_was_not_taken_is_refused():
    with pytest.raises(InvalidInputError, match="holds 'AP', 'NDCG @ 10': got NDCG @ 5"):
        evaluate([1, 0], [2, 1], measures=["AP", NDCG @ 10])["NDCG @ 5"]


# Intervals


def test_interval_is_that_of_drawn_queries():
    rng = np.random.default_rng(0)
    y, scores, qid = rng.integers(0, 2, 400), rng.normal(size=400), np.repeat(np.arange(80), 5)
    evaluation = evaluate(y, scores, qid, ["AP", "Disagreement(average=pooled)"])
    found = evaluation.interval(0.9, n_bootstrap=4000)
    draws = np.random.default_rng(7).integers(80, size=(4000, 80))
    for at in range(2):
        values = np.nan_to_num(evaluation.values[:, at])[draws]
        weights = np.where(np.isnan(evaluation.values[:, at]), 0.0, evaluation.weights[:, at])[
            draws
        ]
        means = (values * weights).sum(axis=1) / weights.sum(axis=1)
        np.testing.assert_allclose(found[at], np.quantile(means, [0.05, 0.95]), atol=0.01)
    assert (found[:, 0] < evaluation.mean).all()
    assert (evaluation.mean < found[:, 1]).all()


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        y = rng.normal(size=120)
        scores = y + 2.0 * rng.normal(size=120)
        evaluation = evaluate(y, scores, np.repeat(np.arange(40), 3), "KendallTau")
        low, high = evaluation.interval(0.9, n_bootstrap=300)[0]
        hits += low <= 2 / np.pi * np.arcsin(1 / np.sqrt(5)) <= high
    assert 0.83 < hits / 200 < 0.96


def test_interval_of_one_query_is_unknown():
    assert np.isnan(evaluate([1, 0], [1, 2], None, "AP").interval()).all()


@pytest.mark.parametrize("confidence", [0.0, 1.0, -2.0])
def test_confidence_is_checked(confidence):
    with pytest.raises(
        InvalidInputError, match="`confidence` must be a finite number between 0 and 1"
    ):
        evaluate([1, 0], [1, 2], None, "AP").interval(confidence)
