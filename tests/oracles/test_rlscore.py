"""RLScore, the code of the papers' authors, as witness of the table in ``docs/coming-from.rst``.

``rlscore_outputs.json`` holds what RLScore 0.8.1 answered; ``record_rlscore.py`` made it. Grades
repeat within queries, so that dropping ties shows.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from rankwise import Gaussian, LinearRankRLS, RankRLS, RankRLSCV

RECORDED = json.loads(Path(__file__).with_name("rlscore_outputs.json").read_text())
CASES = [
    pytest.param(problem, answer, id=f"{len(problem['X'][0])} features, {answer['regparam']}")
    for problem in RECORDED["problems"]
    for answer in problem["answers"]
]


def arrays(problem):
    return (np.array(problem[name]) for name in ("X", "y", "qid"))


def assert_close(found, recorded, rtol=1e-9):
    """Compare, relative to the largest entry; both solve systems of condition below 1e5."""
    found, recorded = np.ravel(found), np.ravel(recorded)
    np.testing.assert_allclose(found, recorded, atol=rtol * np.abs(recorded).max(), rtol=0.0)


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_query_rank_rls_keeps_ties(problem, answer):
    X, y, qid = arrays(problem)
    alpha = answer["regparam"]
    assert_close(RankRLS(alpha, ties="keep").fit(X, y, qid=qid).coef_, answer["query"])
    dropped = RankRLS(alpha).fit(X, y, qid=qid).coef_
    assert np.abs(dropped - np.ravel(answer["query"])).max() > 1e-3 * np.abs(dropped).max()


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_global_rank_rls_keeps_ties_and_weighs_by_pairs(problem, answer):
    X, y, _ = arrays(problem)
    ranker = RankRLS(answer["regparam"], ties="keep", query_weight="pairs").fit(X, y)
    assert_close(ranker.coef_, answer["global"])


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_kernels_and_bases(problem, answer):
    X, y, qid = arrays(problem)
    options = {"alpha": answer["regparam"], "kernel": Gaussian(gamma=0.3), "ties": "keep"}
    found = RankRLS(**options).fit(X, y, qid=qid).predict(X)
    assert_close(found, answer["query_gaussian"])
    found = RankRLS(**options, basis=np.arange(6)).fit(X, y, qid=qid).predict(X)
    assert_close(found, answer["query_basis"])
    found = RankRLS(**options, query_weight="pairs").fit(X, y).predict(X)
    assert_close(found, answer["global_gaussian"])


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_comparisons(problem, answer):
    X, _, _ = arrays(problem)
    pairs = np.column_stack([answer["winner"], answer["loser"]])
    assert_close(RankRLS(answer["regparam"]).fit(X, pairs=pairs).coef_, answer["comparisons"])


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_conjugate_gradients(problem, answer):
    """Up to the tolerance of RLScore's own iteration, a residual of 1e-5."""
    X, y, qid = arrays(problem)
    ranker = LinearRankRLS(answer["regparam"], ties="keep")
    assert_close(ranker.fit(X, y, qid=qid).coef_, answer["gradients"], rtol=1e-3)
    assert_close(ranker.fit(X, y).coef_, answer["gradients_global"], rtol=1e-3)


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_held_out_queries(problem, answer):
    """Held-out scores are comparable within a query only: up to a constant for each."""
    X, y, qid = arrays(problem)
    search = RankRLSCV([answer["regparam"]], ties="keep").fit(X, y, qid=qid)
    for q, scores in enumerate(answer["query_held_out"]):
        found, recorded = search.held_out_scores_[qid == q], np.ravel(scores)
        assert_close(found - found.mean(), recorded - recorded.mean())


@pytest.mark.parametrize("problem", RECORDED["problems"])
def test_leave_query_out_chooses_by_the_same_values(problem):
    X, y, qid = arrays(problem)
    recorded = problem["leave_query_out"]
    search = RankRLSCV(recorded["regparams"], ties="keep", measure="Concordance")
    np.testing.assert_allclose(search.fit(X, y, qid=qid).path_.values, recorded["cindex"])


@pytest.mark.parametrize(("problem", "answer"), CASES)
def test_held_out_pairs(problem, answer):
    X, y, _ = arrays(problem)
    options = {"ties": "keep", "query_weight": "pairs", "cv": "leave_pair_out"}
    search = RankRLSCV([answer["regparam"]], **options).fit(X, y)
    one, other = np.triu_indices(len(y), 1)
    lead = np.subtract(*answer["global_pairs_held_out"])
    graded = y[one] != y[other]
    right = np.sign(lead[graded]) == np.sign(y[one] - y[other])[graded]
    assert search.held_out_value_ == pytest.approx(right.mean())
