"""What holds for every measure."""

import pickle
from itertools import permutations

import numpy as np
import pytest

from measures.variants import PLAIN, VARIANTS
from problems import problem
from rankwise.core.queries import Queries
from rankwise.measures.evaluation import evaluate
from rankwise.measures.registry import MEASURES, parse_measure

every_measure = pytest.mark.parametrize("measure", VARIANTS, ids=repr)


def draw(seed=0):
    rng = np.random.default_rng(seed + 2)
    drawn = problem(seed, sizes=(6, 1, 7, 2, 4, 25, 40), grades=4)
    return drawn.y, rng.integers(0, 8, len(drawn.y)) / 8, drawn.qid


def depends_on_row_order(measure):
    return measure.parameters.get("ties") in ("input", "reverse")


def test_every_measure_is_asked():
    assert {measure.name for measure in PLAIN} == {measure.name for measure in MEASURES}


@every_measure
def test_parsing_what_is_printed_gives_the_measure(measure):
    assert parse_measure(repr(measure)) == measure
    assert parse_measure(repr(measure).upper().replace(" ", "").replace("'", "").lower()) == measure
    assert hash(parse_measure(repr(measure))) == hash(measure)


@every_measure
def test_pickling_gives_the_measure(measure):
    assert pickle.loads(pickle.dumps(measure)) == measure


@every_measure
def test_order_of_rows_does_not_matter(measure):
    y, scores, qid = draw()
    if depends_on_row_order(measure):
        scores = np.random.default_rng(1).permutation(len(y)) * 1.0  # without ties
    first = evaluate(y, scores, qid, measure)
    shuffle = np.random.default_rng(2).permutation(len(y))
    second = evaluate(y[shuffle], scores[shuffle], qid[shuffle], measure)
    place = [second.ids.tolist().index(query) for query in first.ids.tolist()]
    np.testing.assert_array_equal(first.values, second.values[place])


@every_measure
def test_sorted_rows_give_the_same_values(measure):
    y, scores, qid = draw()
    queries = Queries.from_qid(qid)
    order = queries.order  # keeps the rows of a query in their order, so ties="input" agrees too
    np.testing.assert_array_equal(
        measure.per_query(y, scores, queries),
        measure.per_query(y[order], scores[order], Queries.from_qid(qid[order])),
    )


@every_measure
def test_rising_transform_of_scores_changes_nothing(measure):
    y, scores, qid = draw()
    queries = Queries.from_qid(qid)
    values = measure.per_query(y, scores, queries)
    np.testing.assert_array_equal(values, measure.per_query(y, np.exp(3 * scores) - 7, queries))
    shift = queries.spread(np.arange(queries.n_queries) * 64.0)  # its own for each query
    np.testing.assert_array_equal(values, measure.per_query(y, scores + shift, queries))


@every_measure
def test_no_order_is_better_than_that_of_the_grades(measure):
    y = np.array([0.0, 2.0, 1.0, 3.0, 5.0, 4.0])
    orders = np.array(list(permutations(y)))
    values = measure.values_many(y, orders, Queries.single(len(y)))[:, 0]
    best = measure.per_query(y, y, Queries.single(len(y)))[0]
    assert best == (values.max() if measure.greater_is_better else values.min())
    assert values.min() < values.max()


@pytest.mark.parametrize(
    "measure", [m for m in VARIANTS if m.parameters.get("ties") == "average"], ids=repr
)
def test_ties_lie_between_the_worst_and_the_best_order(measure):
    y, scores, qid = draw()
    worst, average, best = (
        measure(ties=ties, empty="zero").per_query(y, scores, Queries.from_qid(qid))
        for ties in ("worst", "average", "best")
    )
    assert (worst <= average + 1e-14).all()
    assert (average <= best + 1e-14).all()
    assert (worst < best - 1e-3).any()


@every_measure
@pytest.mark.parametrize("rows_at_once", [1, 1 << 22])
def test_many_score_vectors_equal_one_after_the_other(measure, rows_at_once):
    y, _, qid = draw()
    queries = Queries.from_qid(qid)
    matrix = np.random.default_rng(3).integers(0, 8, (5, len(y))) / 8
    loop = [measure.per_query(y, scores, queries) for scores in matrix]
    many = measure.values_many(y, matrix, queries, rows_at_once=rows_at_once)
    np.testing.assert_array_equal(many, loop)
    overall = [measure.overall(y, scores, queries) for scores in matrix]
    many = measure.overall_many(y, matrix, queries, rows_at_once=rows_at_once)
    np.testing.assert_array_equal(many, overall)


@every_measure
def test_queries_do_not_see_each_other(measure):
    y, scores, qid = draw()
    queries = Queries.from_qid(qid)
    alone = [
        measure.per_query(y[rows], scores[rows], Queries.single(len(rows)))[0] for rows in queries
    ]
    np.testing.assert_array_equal(measure.per_query(y, scores, queries), alone)


@every_measure
def test_grades_alone_decide_whether_a_query_is_defined(measure):
    y, scores, qid = draw()
    y[qid == qid[0]] = 0
    queries = Queries.from_qid(qid)
    undefined = np.isnan(measure.per_query(y, scores, queries))
    for other in (np.zeros(len(y)), -scores, y):
        np.testing.assert_array_equal(np.isnan(measure.per_query(y, other, queries)), undefined)


@every_measure
def test_integer_and_single_precision_input_is_the_same(measure):
    y, scores, qid = draw()
    queries = Queries.from_qid(qid)
    np.testing.assert_array_equal(
        measure.per_query(y, scores, queries),
        measure.per_query(y.astype(int), scores.astype(np.float32), queries),
    )


REPEATABLE = [
    measure
    for measure in VARIANTS
    if measure.takes_weights and measure.parameters.get("tied_grades") != "half"
]
"""Copies of an item are pairs of equal grade, which count for some, and which no weight makes."""


@pytest.mark.parametrize("measure", REPEATABLE, ids=repr)
def test_weights_equal_repetition(measure):
    y, scores, qid = draw()
    copies = np.random.default_rng(4).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), copies)
    weighted = evaluate(y, scores, qid, measure, sample_weight=copies)
    plain = evaluate(y[repeated], scores[repeated], qid[repeated], measure)
    kept = [query in plain.ids for query in weighted.ids]
    place = [plain.ids.tolist().index(query) for query in weighted.ids[kept]]
    np.testing.assert_allclose(weighted.values[kept], plain.values[place], atol=1e-14)
