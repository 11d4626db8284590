"""The values of each query, against every order of tied items and every pair."""

import numpy as np
import pytest

from measures.variants import VARIANTS
from problems import problem
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.binary import AP, RR, Precision, Recall
from rankwise.measures.graded import DCG, ERR, ERU, NDCG, WTA
from rankwise.measures.pairwise import AUC, Concordance, Disagreement, KendallTau, Spearman
from reference import query_value

WEIGHTED = [measure for measure in VARIANTS if measure.takes_weights]


def tied_problem(seed):
    """Draw grades 0 to 3 and scores with ties, among them queries with equal grades or scores."""
    rng = np.random.default_rng(seed)
    drawn = problem(seed, sizes=(5, 1, 5, 2, 4, 3, 5, 1), grades=4)
    y, scores = drawn.y, rng.integers(0, 4, len(drawn.y)) / 4
    y[drawn.qid == drawn.qid[0]] = 0
    y[drawn.qid == drawn.qid[1]] = 2
    scores[drawn.qid == drawn.qid[2]] = 0.5
    return y, scores, drawn.qid, rng.integers(0, 4, len(y)) * 0.5


def by_query(measure, y, scores, queries, weight=None):
    parts = (y, scores) if weight is None else (y, scores, weight)
    return [query_value(measure, *(part[rows] for part in parts)) for rows in queries]


@pytest.mark.parametrize("measure", VARIANTS, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_values_equal_the_naive_definition(measure, seed):
    y, scores, qid, _ = tied_problem(seed)
    queries = Queries.from_qid(qid)
    expected = by_query(measure, y, scores, queries)
    np.testing.assert_allclose(measure.per_query(y, scores, queries), expected, atol=1e-14)


@pytest.mark.parametrize("measure", WEIGHTED, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_weight_of_a_pair_is_the_product_of_the_weights_of_its_items(measure, seed):
    y, scores, qid, weight = tied_problem(seed)
    queries = Queries.from_qid(qid)
    expected = by_query(measure, y, scores, queries, weight)
    values = measure.per_query(y, scores, queries, weight)
    np.testing.assert_allclose(values, expected, atol=1e-14)


@pytest.mark.parametrize("measure", [Concordance, KendallTau, AUC, Disagreement], ids=repr)
def test_long_queries_equal_the_naive_definition(measure):
    rng = np.random.default_rng(5)
    qid = rng.permutation(np.repeat([0, 1, 2], [150, 33, 16]))
    y, scores = rng.integers(0, 5, len(qid)) * 1.0, rng.integers(0, 40, len(qid)) * 1.0
    weight, queries = rng.random(len(qid)), Queries.from_qid(qid)
    expected = by_query(measure, y, scores, queries, weight)
    np.testing.assert_allclose(measure.per_query(y, scores, queries, weight), expected, rtol=1e-12)


def test_disagreement_counts_ties_as_the_papers_do():
    y, scores, queries = [1.0, 0.0, 0.0], [0.5, 0.5, 0.9], Queries.single(3)
    assert Disagreement(ties="one").per_query(y, scores, queries) == 1.0  # [PTA09] eq. (1)
    assert Disagreement(ties="half").per_query(y, scores, queries) == 0.75  # [APS10] eq. (1)


@pytest.mark.parametrize("seed", range(5))
def test_tied_grades_count_one_half_as_in_two_papers(seed):
    """[PTAB07] eq. (3) and [TH10] eq. (4) as printed, pairs of equal grade and score among them."""
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 3, size=12), rng.integers(0, 9, size=12)
    by_grade, by_score = np.subtract.outer(y, y), np.subtract.outer(scores, scores)
    signs = np.sign(by_grade), np.sign(by_score)
    at_least = (np.where(by_grade > 0, 1, -1), np.where(by_score > 0, 1, -1))
    printed = 0.5 * np.abs(signs[0] - signs[1])[np.triu_indices(12, 1)].sum()  # [PTAB07] eq. (3)
    twice = 0.5 * np.abs(at_least[0] - at_least[1]).sum()  # [TH10] eq. (4), every pair twice
    measure = Disagreement(tied_grades="half", average="pooled")
    found = 66 * measure.per_query(y, scores, Queries.single(12))[0]
    assert found == pytest.approx(printed)
    assert found == pytest.approx(twice / 2)
    assert found != 66 * Disagreement.per_query(y, scores, Queries.single(12))[0]


def test_equal_grades_alone_have_a_value_where_they_count():
    queries, measure = Queries.from_qid([0, 0, 1, 1, 2]), Disagreement(tied_grades="half")
    values = measure.per_query([1, 1, 2, 2, 0], [1, 2, 3, 3, 0], queries)
    np.testing.assert_array_equal(values, [0.5, 0.0, np.nan])


def test_pooled_disagreement_weighs_queries_by_their_pairs():
    y, scores, qid = [1, 0, 2, 1, 0], [0, 1, 3, 2, 1], [0, 0, 1, 1, 1]
    queries = Queries.from_qid(qid)
    assert Disagreement.overall(y, scores, queries) == 1 / 2
    assert Disagreement(average="pooled").overall(y, scores, queries) == 1 / 4
    ignoring_the_empty = Queries.from_qid([*qid, 2])
    pooled = Disagreement(average="pooled", empty="one")
    assert pooled.overall([*y, 1], [*scores, 1], ignoring_the_empty) == 1 / 4


def test_half_life_is_the_place_that_counts_one_half():
    y = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    value = ERU(half_life=5, normalize="none").per_query(y, -np.arange(5.0), Queries.single(5))
    assert value == 0.5


@pytest.mark.parametrize("measure", [Disagreement, Concordance, KendallTau, Spearman, WTA])
def test_negative_grades_count_by_their_order(measure):
    rng = np.random.default_rng(0)
    y, scores, queries = rng.integers(-9, 9, 20), rng.normal(size=20), Queries.single(20)
    np.testing.assert_array_equal(
        measure.per_query(y, scores, queries), measure.per_query(y + 9, scores, queries)
    )


def test_negative_votes_count_above_the_neutral_vote():
    rng = np.random.default_rng(0)
    y, scores, queries = rng.integers(-9, 9, 20), rng.normal(size=20), Queries.single(20)
    np.testing.assert_array_equal(
        ERU(neutral=-5).per_query(y, scores, queries),
        ERU(neutral=4).per_query(y + 9, scores, queries),
    )


def test_grades_beyond_31_have_exponential_gain():
    y, scores, queries = [40, 39, 0], [2, 3, 1], Queries.single(3)
    expected = query_value(NDCG(gain="exponential"), np.array(y, float), np.array(scores, float))
    assert NDCG(gain="exponential").per_query(y, scores, queries) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measure", "y", "match"),
    [
        (NDCG, [1, -1, 0], "`y` must not be negative for NDCG: row 1 holds -1"),
        (DCG(gain="exponential"), [1, 0, 2000], "at most 1000 with exponential gain for DCG"),
        (NDCG(gain=(0, 1)), [0, 1, 2], "must hold grades 0 to 1 of the table for NDCG: row 2"),
        (NDCG(gain=(0, 1)), [0, 0.5, 1], "must hold grades 0 to 1 .* row 1 holds 0.5"),
        (Precision, [0, 1, 2], "Precision needs a cut-off.*Write, for example, Precision @ 10"),
    ],
)
def test_grades_that_a_measure_cannot_take_are_named(measure, y, match):
    with pytest.raises(InvalidInputError, match=match):
        measure.per_query(y, [1, 2, 3], Queries.from_qid([5, 6, 5]))


@pytest.mark.parametrize("measure", [NDCG, AP, RR, Precision @ 2, Spearman, WTA, ERU], ids=repr)
def test_measures_without_a_weighted_form_refuse_weights(measure):
    with pytest.raises(InvalidInputError, match=f"{measure.name} has no weighted form.*Leave it"):
        measure.per_query([1, 0], [1, 2], Queries.single(2), [1, 1])


@pytest.mark.parametrize(
    ("y", "scores", "match"),
    [
        ([[1, 0]], [1, 2], r"`y` must be one-dimensional.*got shape \(1, 2\)"),
        ([1, 0, 2], [1, 2], "y has 3, qid has 2"),
        ([1, np.nan], [1, 2], "`y` must be finite: row 1"),
        (["a", "b"], [1, 2], "`y` must hold numbers"),
        ([1, 0], [1, 2, 3], "y has 2, scores has 3"),
        ([1, 0], [1, np.inf], "`scores` must be finite: row 1"),
        ([1, 0], [[1], [2]], r"`scores` must be one-dimensional.*got shape \(2, 1\)"),
        ([1, 0], ["x", 1], "`scores` must hold numbers"),
    ],
)
def test_bad_grades_and_scores_are_refused(y, scores, match):
    with pytest.raises(InvalidInputError, match=match):
        Concordance.per_query(y, scores, Queries.single(2))


def test_many_score_vectors_must_be_a_matrix():
    with pytest.raises(InvalidInputError, match=r"shape \(n_vectors, n_items\)"):
        Concordance.values_many([1, 0], [1, 2], Queries.single(2))


def test_overall_value_of_undefined_queries_is_nan():
    queries = Queries.single(2)
    assert np.isnan(NDCG.overall([0, 0], [1, 2], queries))
    assert NDCG(empty="one").overall([0, 0], [1, 2], queries) == 1.0


def test_no_score_vector_gives_no_value():
    assert NDCG.values_many([1, 0], np.empty((0, 2)), Queries.single(2)).shape == (0, 1)


def test_recall_needs_a_cutoff():
    with pytest.raises(InvalidInputError, match="Recall needs a cut-off"):
        Recall.per_query([1, 0], [1, 0], Queries.single(2))


@pytest.mark.parametrize(("y", "row"), [([0, 5, 1], 1), ([0, 1, -1], 2)])
def test_err_refuses_grades_outside_its_range(y, row):
    with pytest.raises(InvalidInputError, match=f"between 0 and max_grade = 4 for ERR: row {row}"):
        ERR.per_query(y, [1, 2, 3], Queries.single(3))


def test_err_of_many_tied_items_is_a_probability():
    rng = np.random.default_rng(0)
    y, queries = rng.integers(0, 5, 2000) * 1.0, Queries.single(2000)
    average = ERR.per_query(y, np.zeros(2000), queries)[0]
    shuffled = ERR.values_many(y, rng.random((400, 2000)), queries)[:, 0]
    assert average == pytest.approx(shuffled.mean(), abs=5 * shuffled.std() / 20)
