"""scikit-learn and SciPy as witnesses."""

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score, roc_auc_score

from problems import problem
from rankwise.core.queries import Queries
from rankwise.measures.binary import AP
from rankwise.measures.pairwise import AUC, Concordance, KendallTau, Spearman
from rankwise.measures.registry import parse_measure

SIZES = (30, 2, 7, 50, 12)


def draw(seed, n_scores):
    """Draw grades and scores; few different scores give many ties."""
    drawn = problem(seed, sizes=SIZES, grades=4)
    rng = np.random.default_rng(seed)
    return drawn.y, rng.integers(0, n_scores, len(drawn.y)) / 8, Queries.from_qid(drawn.qid)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cutoff", [None, 1, 5, 40])
@pytest.mark.parametrize(("name", "score"), [("NDCG", ndcg_score), ("DCG", dcg_score)])
def test_discounted_gain_with_preset_is_that_of_sklearn(name, score, cutoff, seed):
    y, scores, queries = draw(seed, n_scores=6)
    y[queries.rows(0)] = 0
    measure = parse_measure(name, preset="scikit-learn")
    measure = measure if cutoff is None else measure @ cutoff
    expected = [score(y[rows][None], scores[rows][None], k=cutoff) for rows in queries]
    np.testing.assert_allclose(measure.per_query(y, scores, queries), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("y", "scores", "value"),
    [
        ([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], 0.9725),
        ([0, 0, 0], [3, 2, 1], 0),
        ([1, 0, 2, 0], [1] * 4, 0.7302),
    ],
)
def test_published_cases_of_sklearn(y, scores, value):
    measure = parse_measure("NDCG", preset="scikit-learn")
    ours = measure.per_query(y, scores, Queries.single(len(y)))[0]
    assert ours == pytest.approx(value, abs=5e-5)
    assert ours == pytest.approx(ndcg_score([y], [scores]), abs=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_without_ties_is_that_of_sklearn(seed):
    y, _, queries = draw(seed, n_scores=2)
    scores = np.random.default_rng(seed).permutation(len(y)) * 1.0
    expected = [average_precision_score(y[rows] >= 2, scores[rows]) for rows in queries]
    values = AP(relevant=2, empty="zero").per_query(y, scores, queries)
    defined = [(y[rows] >= 2).any() for rows in queries]
    np.testing.assert_allclose(values[defined], np.array(expected)[defined], atol=1e-14)


def test_average_precision_with_ties_differs_from_sklearn():
    y, scores = [1, 0], [0.5, 0.5]
    assert average_precision_score(y, scores) == 0.5  # takes both items at once
    assert AP.per_query(y, scores, Queries.single(2)) == 0.75  # the mean of 1 and 1/2


@pytest.mark.parametrize("seed", range(3))
def test_area_under_the_curve_is_that_of_sklearn(seed):
    y, scores, queries = draw(seed, n_scores=9)
    weight = np.random.default_rng(seed + 10).random(len(y))
    for q, rows in enumerate(queries):
        truth = y[rows] >= 1
        if truth.all() or not truth.any():
            continue
        expected = roc_auc_score(truth, scores[rows], sample_weight=weight[rows])
        values = AUC.per_query(y, scores, queries, weight)
        assert values[q] == pytest.approx(expected, abs=1e-14)
        binary = Concordance.per_query((y >= 1) * 1.0, scores, queries, weight)
        assert binary[q] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("measure", "score"), [(KendallTau, kendalltau), (Spearman, spearmanr)])
def test_rank_correlations_are_those_of_scipy(measure, score, seed):
    y, scores, queries = draw(seed, n_scores=7)
    keep = np.isin(queries.index, np.flatnonzero(queries.sizes > 2))
    y, scores, queries = y[keep], scores[keep], queries.take(np.flatnonzero(keep))
    expected = [score(y[rows], scores[rows]).statistic for rows in queries]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(measure.per_query(y, scores, queries), expected, atol=1e-14)
