"""Comparisons with `qid`: queries weigh them, and both ends of a pair lie in one query."""

import numpy as np
import pytest

import reference
from problems import comparisons_of, problem
from rankwise import (
    BoostedRanker,
    Gaussian,
    InvalidInputError,
    KPCRank,
    Linear,
    LinearRankRLS,
    PreferenceGraph,
    RankRLS,
    RankRLSCV,
    RankSVM,
)

P = problem(seed=3, sizes=(6, 1, 5, 7), grades=4)
QUERY_WEIGHTS = ["items", "pairs", "equal", {3: 0.5, 10: 1.0, 17: 2.0, 24: 0.0}]
COSTS = ["magnitude", "unit", "relative"]


@pytest.mark.parametrize("query_weight", QUERY_WEIGHTS, ids=str)
@pytest.mark.parametrize("cost", COSTS)
def test_the_graph_equals_its_definition(cost, query_weight):
    c = comparisons_of(P)
    listed = reference.compared_pairs_in_queries(
        c.pairs, c.margin, c.weight, P.qid, cost, query_weight
    )
    L, r = reference.laplacian(listed, len(P.y))
    graph = PreferenceGraph.from_pairs(
        c.pairs, c.margin, c.weight, qid=P.qid, cost=cost, query_weight=query_weight
    )
    np.testing.assert_allclose(graph @ np.eye(len(P.y)), L, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(graph.rhs, r, rtol=1e-12, atol=1e-12)
    assert graph.n_ignored_queries == (1 if isinstance(query_weight, str) else 2)


def all_pairs():
    """Return the pairs of P that its scores imply, with their margins."""
    listed = reference.score_pairs(P.y, P.qid, "magnitude", "drop", "pairs")
    i, j, margin, _ = map(np.array, zip(*listed, strict=True))
    pairs = np.where((margin > 0)[:, None], np.column_stack([i, j]), np.column_stack([j, i]))
    return {"pairs": pairs, "pair_margin": np.abs(margin)}


RANKERS = [
    RankRLS(0.3),
    RankRLS(0.3, kernel=Gaussian(0.3)),
    RankRLS(0.3, cost="relative"),
    LinearRankRLS(0.3, cost="unit"),
    KPCRank(8, alpha=0.1),
    RankSVM(0.3, cost="magnitude", tol=1e-10),
]


@pytest.mark.parametrize("query_weight", QUERY_WEIGHTS[:2] + QUERY_WEIGHTS[3:], ids=str)
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_all_pairs_of_scores_are_those_scores(ranker, query_weight):
    ranker.set_params(query_weight=query_weight)
    by_scores = ranker.fit(P.X, P.y, qid=P.qid).predict(P.X)
    by_pairs = ranker.fit(P.X, qid=P.qid, **all_pairs()).predict(P.X)
    scale = np.ptp(by_scores)
    np.testing.assert_allclose(by_pairs - by_pairs[0], by_scores - by_scores[0], atol=1e-6 * scale)
    assert ranker.n_queries_ == 4
    assert ranker.n_ignored_queries_ == (1 if isinstance(query_weight, str) else 2)
    assert ranker.fitted_with_qid_


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_equal_weights_of_queries_do_not_depend_on_how_often_pairs_repeat(ranker):
    data = all_pairs()
    in_first = P.qid[data["pairs"][:, 0]] == 3
    ranker.set_params(query_weight="equal")
    once = ranker.fit(P.X, qid=P.qid, **data).predict(P.X)
    copies = np.where(in_first, 3, 1)
    repeated = {name: np.repeat(values, copies, axis=0) for name, values in data.items()}
    often = ranker.fit(P.X, qid=P.qid, **repeated).predict(P.X)
    np.testing.assert_allclose(often - often[0], once - once[0], atol=1e-6 * np.ptp(once))
    plain = ranker.set_params(query_weight="pairs").fit(P.X, qid=P.qid, **repeated).predict(P.X)
    assert np.abs(plain - plain[0] - once + once[0]).max() > 1e-3 * np.ptp(once)


@pytest.mark.parametrize("loss", ["rank_rls", "squared_hinge"])
def test_boosted_trees_weigh_queries(loss):
    p = problem(seed=1, sizes=(12,) * 8)
    c = comparisons_of(p, n_per_query=40)
    options = {"cost": "unit", "min_samples_leaf": 2, "early_stopping": False, "n_trees": 5}
    first = p.qid[0]
    only_first = {q: float(q == first) for q in p.qid.tolist()}
    ranker = BoostedRanker(loss, query_weight=only_first, random_state=0, **options)
    weighted = ranker.fit(p.X, qid=p.qid, pairs=c.pairs).predict(p.X)
    alone = c.pairs[p.qid[c.pairs[:, 0]] == first]
    ranker.set_params(query_weight="pairs")
    np.testing.assert_allclose(weighted, ranker.fit(p.X, pairs=alone).predict(p.X), rtol=1e-6)


def test_folds_of_boosted_trees_hold_whole_queries():
    p = problem(seed=1, sizes=(12,) * 4)
    c = comparisons_of(p, n_per_query=40)
    in_first = p.qid[c.pairs[:, 0]] == p.qid[0]
    pairs = c.pairs[in_first]
    ranker = BoostedRanker(n_trees=5, cv=2, min_samples_leaf=2, random_state=0)
    assert ranker.fit(p.X, pairs=pairs).held_out_value_ > 0
    with pytest.raises(InvalidInputError, match="at least 2 queries"):
        ranker.fit(p.X, qid=p.qid, pairs=pairs)  # of which one has comparisons


def test_linear_hold_outs_take_whole_queries():
    p = problem(seed=1, sizes=(8,) * 10, grades=None)
    c = comparisons_of(p)
    ranker = LinearRankRLS(alphas=[0.1, 10.0], validation_fraction=0.3, random_state=0)
    ranker.fit(p.X, qid=p.qid, pairs=c.pairs)
    assert ranker.n_queries_ == 7
    one = LinearRankRLS(alphas=[0.1, 10.0], random_state=0)
    one.fit(p.X, qid=np.zeros(80), pairs=c.pairs)
    assert one.n_queries_ == 1


def test_score_averages_over_queries():
    c = comparisons_of(P)
    ranker = RankRLS(kernel=Linear()).fit(P.X, qid=P.qid, pairs=c.pairs, pair_weight=c.weight)
    lead = np.subtract(*ranker.predict(P.X)[c.pairs.T])
    right, of_pair = lead > 0, P.qid[c.pairs[:, 0]]
    shares = [
        np.average(right[of_pair == q], weights=c.weight[of_pair == q]) for q in np.unique(of_pair)
    ]
    given = {"pairs": c.pairs, "pair_weight": c.weight}
    assert ranker.score(P.X, qid=P.qid, **given) == pytest.approx(np.mean(shares))
    assert ranker.score(P.X, **given) == pytest.approx(np.average(right, weights=c.weight))


@pytest.mark.parametrize("ranker", [*RANKERS, RankRLSCV()], ids=repr)
def test_pairs_across_queries_are_refused(ranker):
    pairs = [[0, 1], [np.flatnonzero(P.qid == 3)[0], np.flatnonzero(P.qid == 24)[0]]]
    same = np.flatnonzero(P.qid == 3)[:2]
    pairs[0] = same
    with pytest.raises(InvalidInputError, match=r"must belong to one query: pair 1 joins rows"):
        ranker.fit(P.X, qid=P.qid, pairs=pairs)
    with pytest.raises(InvalidInputError, match="X has 19 rows, qid has 18"):
        ranker.fit(P.X, qid=P.qid[:-1], pairs=[same])


def test_one_query_scores_need_pairs_inside_it():
    ranker = RankRLS().fit(P.X, P.y, qid=P.qid)
    across = [[np.flatnonzero(P.qid == 3)[0], np.flatnonzero(P.qid == 24)[0]]]
    with pytest.raises(InvalidInputError, match="must belong to one query"):
        ranker.score(P.X, qid=P.qid, pairs=across)
    with pytest.raises(InvalidInputError, match="entry for every query id"):
        RankRLS(query_weight={3: 1.0}).fit(P.X, qid=P.qid, pairs=comparisons_of(P).pairs)
