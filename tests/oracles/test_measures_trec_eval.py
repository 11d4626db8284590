"""trec_eval, through pytrec_eval, as witness."""

import numpy as np
import pytest
import pytrec_eval

from rankwise.core.queries import Queries
from rankwise.measures.registry import parse_measure

NAMES = {
    "NDCG": "ndcg",
    "NDCG @ 3": "ndcg_cut_3",
    "AP": "map",
    "AP @ 3": "map_cut_3",
    "Precision @ 5": "P_5",
    "Recall @ 5": "recall_5",
    "RR": "recip_rank",
}
ASKED = {"ndcg", "ndcg_cut.3", "map", "map_cut.3", "P.5", "recall.5", "recip_rank"}


def trec_eval(y, scores, queries, relevance_level=1):
    """Name items by their row, so that ties, broken by falling names, go to the last row."""
    judged, run = {}, {}
    for q, rows in enumerate(queries):
        names = [f"{row:06d}" for row in rows]
        judged[str(q)] = {name: int(y[row]) for name, row in zip(names, rows, strict=True)}
        run[str(q)] = {name: float(scores[row]) for name, row in zip(names, rows, strict=True)}
    values = pytrec_eval.RelevanceEvaluator(judged, ASKED, relevance_level=relevance_level)
    table = values.evaluate(run)
    return {name: [table[str(q)][name] for q in range(len(queries))] for name in NAMES.values()}


def draw(seed):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, 15, 80)
    y, scores = rng.integers(0, 4, 80), rng.integers(0, 5, 80) / 4
    y[qid == qid[0]] = 0
    return y, scores, Queries.from_qid(qid)


@pytest.mark.parametrize("seed", range(3))
def test_preset_is_what_trec_eval_reports(seed):
    y, scores, queries = draw(seed)
    theirs = trec_eval(y, scores, queries)
    for text, name in NAMES.items():
        ours = parse_measure(text, preset="trec_eval").per_query(y, scores, queries)
        np.testing.assert_allclose(ours, theirs[name], atol=1e-12, err_msg=text)


@pytest.mark.parametrize(("text", "name"), NAMES.items())
def test_names_of_trec_eval_are_read(text, name):
    assert parse_measure(name) == parse_measure(text)
    assert parse_measure(name.upper()) == parse_measure(text)
    with_preset = parse_measure(name, preset="trec_eval")
    assert with_preset == parse_measure(text, preset="trec_eval")


def test_relevance_level_of_trec_eval_is_the_smallest_relevant_grade():
    y, scores, queries = draw(0)
    theirs = trec_eval(y, scores, queries, relevance_level=2)
    names = {"AP(relevant=2)": "map", "RR(relevant=2)": "recip_rank", "P(relevant=2) @ 5": "P_5"}
    for text, name in names.items():
        ours = parse_measure(text, preset="trec_eval").per_query(y, scores, queries)
        np.testing.assert_allclose(ours, theirs[name], atol=1e-12, err_msg=text)


def test_trec_eval_reads_scores_in_single_precision():
    y, queries = np.array([1, 0]), Queries.single(2)
    scores = np.array([1.0 + 1e-12, 1.0])
    measure = parse_measure("RR", preset="trec_eval")
    assert trec_eval(y, scores, queries)["recip_rank"] == [0.5]
    assert measure.per_query(y, scores, queries) == 1.0
    assert measure.per_query(y, scores.astype(np.float32), queries) == 0.5


@pytest.mark.parametrize(
    ("y", "scores", "value"),
    [
        ([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], 0.9725),
        ([0, 0, 0], [3, 2, 1], 0),
        ([1], [1], 1),
        ([1, 0, 2, 0], [1] * 4, 0.6433),
    ],
)
def test_published_cases_of_trec_eval(y, scores, value):
    queries = Queries.single(len(y))
    ours = parse_measure("NDCG", preset="trec_eval").per_query(y, scores, queries)[0]
    assert ours == pytest.approx(value, abs=5e-5)
    assert [ours] == pytest.approx(trec_eval(y, scores, queries)["ndcg"], abs=1e-12)
