"""RankRLSCV chooses what brute-force cross-validation would choose."""

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array
from sklearn.model_selection import GroupKFold, KFold

from problems import comparisons_of, problem
from rankwise import (
    AP,
    NDCG,
    Concordance,
    ConvergenceWarning,
    Disagreement,
    Gaussian,
    GroupPairs,
    InvalidInputError,
    Linear,
    NumericalError,
    PairKFold,
    Queries,
    RankRLS,
    RankRLSCV,
    evaluate,
    leave_pair_out,
)
from rankwise.rankers.base import generator
from rankwise.rankers.rls import hold_outs
from rankwise.selection.holdouts import Folds

ALPHAS = [0.01, 1.0, 100.0]
SIZES = (6, 1, 5, 9, 2, 3)


def brute_force(p, measure, alpha, folds, **options):
    scores = np.empty(len(p.y))
    for fold in folds:
        train = np.setdiff1d(np.arange(len(p.y)), fold)
        ranker = RankRLS(alpha, **options).fit(p.X[train], p.y[train], p.qid[train])
        scores[fold] = ranker.predict(p.X[fold])
    return evaluate(p.y, scores, p.qid, [measure])[measure]


def queries_of(p):
    return [np.flatnonzero(p.qid == q) for q in np.unique(p.qid)]


@pytest.mark.parametrize("measure", [NDCG @ 3, AP, Disagreement(average="pooled"), Concordance])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
def test_values_equal_brute_force(measure, kernel):
    p = problem(seed=1, sizes=SIZES)
    ranker = RankRLSCV(ALPHAS, measure=measure, kernel=kernel).fit(p.X, p.y, p.qid)
    expected = [brute_force(p, measure, a, queries_of(p), kernel=kernel) for a in ALPHAS]
    np.testing.assert_allclose(ranker.path_.values, expected, atol=1e-12)
    assert ranker.held_out_value_ == ranker.path_.values[ALPHAS.index(ranker.alpha_)]


def test_splitters_and_lists_of_folds_equal_brute_force():
    p = problem(seed=2, sizes=SIZES)
    split = list(GroupKFold(3).split(p.X, p.y, p.qid))
    folds = [test for _, test in split]
    expected = [brute_force(p, Concordance, a, folds) for a in ALPHAS]
    for cv in (GroupKFold(3), split, folds):
        ranker = RankRLSCV(ALPHAS, cv=cv).fit(p.X, p.y, p.qid)
        np.testing.assert_allclose(ranker.path_.values, expected, atol=1e-12)


def test_a_number_of_folds_deals_whole_queries():
    p = problem(seed=2, sizes=SIZES)
    ranker = RankRLSCV(ALPHAS, cv=3, random_state=0).fit(p.X, p.y, p.qid)
    folds = Folds.random(3, Queries.from_qid(p.qid).index, generator(0))
    rows = [np.flatnonzero(folds.fold == fold) for fold in range(3)]
    expected = [brute_force(p, Concordance, a, rows) for a in ALPHAS]
    np.testing.assert_allclose(ranker.path_.values, expected, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(ranker.held_out_scores_), False)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize(("n_features", "basis"), [(3, None), (40, None), (3, [1, 5, 9])])
@pytest.mark.parametrize("cv", [3, KFold(3, shuffle=True, random_state=0)], ids=["3", "KFold"])
def test_folds_of_items_of_one_global_ranking_equal_brute_force(cv, kernel, n_features, basis):
    p = problem(seed=2, sizes=(24,), n_features=n_features)
    options = {"kernel": kernel, "basis": None if basis is None else p.X[basis]}
    ranker = RankRLSCV(ALPHAS, cv=cv, random_state=0, **options).fit(p.X, p.y)
    fold_of = Folds.random(3, np.arange(24), generator(0)).fold
    if cv != 3:
        for fold, (_, rows) in enumerate(cv.split(p.X)):
            fold_of[rows] = fold
    values = np.empty((len(ALPHAS), 3))
    for fold in range(3):
        out, rest = fold_of == fold, fold_of != fold
        for a, alpha in enumerate(ALPHAS):
            fit = RankRLS(alpha, **options).fit(p.X[rest], p.y[rest])
            values[a, fold] = fit.score(p.X[out], p.y[out])
    np.testing.assert_allclose(ranker.path_.values, values.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(ranker.path_.per_query, values, atol=1e-12)


def test_several_outputs_of_one_global_ranking_are_left_out_together():
    p = problem(seed=2, sizes=(24,))
    Y = np.column_stack([p.y, np.roll(p.y, 5)])
    together = RankRLSCV([1.0], cv=4, random_state=0).fit(p.X, Y)
    for k in range(2):
        alone = RankRLSCV([1.0], cv=4, random_state=0).fit(p.X, Y[:, k])
        np.testing.assert_allclose(together.held_out_scores_[:, k], alone.held_out_scores_)


def test_a_drawn_basis_is_the_same_for_every_setting_and_the_fit():
    p = problem(seed=3, sizes=SIZES)
    kernels = [Gaussian(0.3), Gaussian(0.3)]
    for _ in range(3):
        ranker = RankRLSCV(ALPHAS, kernel=kernels, basis=4).fit(p.X, p.y, p.qid)
        first, second = ranker.search_
        np.testing.assert_array_equal(first.path.values, second.path.values)
        again = RankRLSCV(ALPHAS, kernel=Gaussian(0.3), basis=ranker.predictor_.rows)
        again.fit(p.X, p.y, p.qid)
        np.testing.assert_allclose(again.path_.values, ranker.path_.values)
        np.testing.assert_allclose(again.predict(p.X), ranker.predict(p.X))


def test_chosen_model_is_the_plain_fit():
    p = problem(seed=3, sizes=SIZES)
    for kernel in ("linear", "gaussian"):
        ranker = RankRLSCV(ALPHAS, kernel=kernel).fit(p.X, p.y, p.qid)
        plain = RankRLS(ranker.alpha_, kernel=kernel).fit(p.X, p.y, p.qid)
        np.testing.assert_allclose(ranker.predict(p.X), plain.predict(p.X))
        assert ranker.score(p.X, p.y, p.qid) == plain.score(p.X, p.y, p.qid)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("with_qid", [True, False])
@pytest.mark.parametrize(
    ("n_features", "options"),
    [
        (3, {}),
        (60, {}),
        (3, {"kernel": Gaussian(0.3)}),
        (3, {"kernel": Gaussian(0.3), "basis": [0, 3, 5, 8]}),
        (3, {"kernel": Gaussian(0.3), "ties": "keep"}),
        (3, {"kernel": Gaussian(0.3), "ties": "keep", "query_weight": "pairs"}),
    ],
    ids=str,
)
def test_weights_known_from_the_hold_outs_are_those_of_a_plain_fit(
    n_features, options, with_qid, n_outputs, weighted
):
    p = problem(seed=13, sizes=SIZES if with_qid else (12,), n_features=n_features)
    rng = np.random.default_rng(0)
    X = np.column_stack([p.X + 100.0, np.ones(len(p.y))])  # offsets, and a constant feature
    y = p.y if n_outputs == 1 else np.column_stack([p.y, -2 * p.y])
    data = {"qid": p.qid if with_qid else None}
    if weighted:
        data["sample_weight"] = rng.integers(1, 4, len(p.y)).astype(float)
    chosen = RankRLSCV([0.1], **options).fit(X, y, **data)
    plain = RankRLS(0.1, **options).fit(X, y, **data)
    expected = plain.predict(X)
    lead = expected - expected.mean(axis=0)
    found = chosen.predict(X)
    np.testing.assert_allclose(found - found.mean(axis=0), lead, atol=1e-8 * np.abs(lead).max())


def test_held_out_scores_give_the_cross_validated_value():
    p = problem(seed=4, sizes=SIZES)
    ranker = RankRLSCV(ALPHAS, measure="NDCG @ 5", kernel="gaussian").fit(p.X, p.y, p.qid)
    found = evaluate(p.y, ranker.held_out_scores_, p.qid, ["NDCG @ 5"])
    assert found["NDCG @ 5"] == pytest.approx(ranker.held_out_value_)
    per_query = ranker.path_.per_query[ALPHAS.index(ranker.alpha_)]
    np.testing.assert_allclose(found.values[:, 0], per_query)


def test_standard_error_is_that_of_the_mean_over_queries():
    p = problem(seed=5, sizes=SIZES)
    path = RankRLSCV(ALPHAS).fit(p.X, p.y, p.qid).path_
    known = path.per_query[0][~np.isnan(path.per_query[0])]
    expected = np.std(known, ddof=1) / np.sqrt(len(known))
    assert path.standard_errors[0] == pytest.approx(expected)


def test_kernels_costs_and_ties_are_searched():
    p = problem(seed=6, sizes=SIZES)
    kernels = [Linear(), Gaussian(0.1), Gaussian(1.0)]
    options = {"kernel": kernels, "cost": ["magnitude", "unit"], "ties": ["drop", "keep"]}
    ranker = RankRLSCV(ALPHAS, **options).fit(p.X, p.y, p.qid)
    assert len(ranker.search_) == 3 * 3  # ties are kept with the magnitude cost only
    assert set(ranker.search_[0].settings) == {"kernel", "cost", "ties"}
    top = max(np.nanmax(c.path.values) for c in ranker.search_)
    assert ranker.held_out_value_ == top
    alone = RankRLSCV(ALPHAS, kernel=ranker.kernel_, cost=ranker.cost_, ties=ranker.ties_)
    assert alone.fit(p.X, p.y, p.qid).held_out_value_ == top


def test_an_interrupted_search_keeps_what_is_done(monkeypatch):
    p = problem(seed=7, sizes=SIZES)
    calls = []

    def interrupted(*args, **options):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return leave_query_out(*args, **options)

    leave_query_out = hold_outs.leave_query_out
    monkeypatch.setattr(hold_outs, "leave_query_out", interrupted)
    ranker = RankRLSCV(ALPHAS, kernel=[Gaussian(g) for g in (0.1, 0.2, 0.4, 0.8)])
    with pytest.warns(ConvergenceWarning, match="after 2 of 4 settings"):
        ranker.fit(p.X, p.y, p.qid)
    assert len(ranker.search_) == 2
    assert ranker.kernel_ in (Gaussian(0.1), Gaussian(0.2))
    calls[:] = [None] * 2
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(p.X, p.y, p.qid)


def test_equal_values_choose_the_largest_alpha():
    p = problem(seed=9, sizes=SIZES, n_features=1)
    ranker = RankRLSCV([1.0, 2.0, 4.0]).fit(p.X, p.y, p.qid)
    assert len(np.unique(ranker.path_.values)) == 1
    assert ranker.alpha_ == 4.0


def test_one_standard_error_rule_never_regularises_less():
    p = problem(seed=9, sizes=SIZES)
    best = RankRLSCV().fit(p.X, p.y, p.qid)
    simple = RankRLSCV(rule="one_standard_error").fit(p.X, p.y, p.qid)
    assert simple.alpha_ >= best.alpha_
    limit = best.held_out_value_ - best.path_.standard_errors[best.path_.best()]
    assert simple.held_out_value_ >= limit


def test_several_outputs_are_averaged():
    p = problem(seed=10, sizes=SIZES)
    Y = np.column_stack([p.y, np.where(p.qid == p.qid[0], 0.0, p.y)])
    together = RankRLSCV(ALPHAS).fit(p.X, Y, p.qid)
    alone = [RankRLSCV(ALPHAS).fit(p.X, y, p.qid) for y in Y.T]
    values = np.array([r.path_.per_query for r in alone])
    some = ~np.isnan(values).all(axis=0)  # a query may be defined for one output only
    assert np.isnan(values[:, some]).any()
    np.testing.assert_allclose(together.path_.per_query[some], np.nanmean(values[:, some], axis=0))
    assert together.held_out_scores_.shape == Y.shape


def test_items_of_weight_zero_are_as_good_as_absent():
    p = problem(seed=11, sizes=SIZES)
    weight = np.ones(len(p.y))
    weight[::5] = 0
    kept = weight > 0
    for kernel in ("linear", Gaussian(0.3)):
        weighted = RankRLSCV(ALPHAS, kernel=kernel).fit(p.X, p.y, p.qid, sample_weight=weight)
        absent = RankRLSCV(ALPHAS, kernel=kernel).fit(p.X[kept], p.y[kept], p.qid[kept])
        np.testing.assert_allclose(weighted.path_.values, absent.path_.values)


@pytest.mark.parametrize("grades", [None, 2, 4])
def test_one_global_ranking_leaves_out_pairs(grades):
    p = problem(seed=12, sizes=(12,), grades=grades)
    ranker = RankRLSCV(ALPHAS, kernel="gaussian").fit(p.X, p.y)
    right = total = 0.0
    for i in range(len(p.y)):
        for j in range(i):
            rest = np.delete(np.arange(len(p.y)), [i, j])
            if p.y[i] == p.y[j] or len(set(p.y[rest])) < 2:
                continue
            fit = RankRLS(ranker.alpha_, kernel=ranker.kernel_).fit(p.X[rest], p.y[rest])
            gap = np.subtract(*fit.predict(p.X[[i, j]]))
            right += (gap > 0) == (p.y[i] > p.y[j])
            total += 1
    assert ranker.held_out_value_ == pytest.approx(right / total)
    assert ranker.held_out_scores_ is None
    assert (ranker.path_.standard_errors > 0).all()


def test_comparisons_are_left_out_one_by_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 3))
    pairs = np.array([rng.choice(15, 2, replace=False) for _ in range(40)])
    pairs = np.where((X[pairs[:, 0], 0] > X[pairs[:, 1], 0])[:, None], pairs, pairs[:, ::-1])
    ranker = RankRLSCV(ALPHAS).fit(X, pairs=pairs)
    right = []
    for e in range(len(pairs)):
        fit = RankRLS(ranker.alpha_).fit(X, pairs=np.delete(pairs, e, axis=0))
        right.append(np.subtract(*fit.predict(X[pairs[e]])))
    assert ranker.held_out_value_ == pytest.approx(np.mean(np.array(right) > 0))
    np.testing.assert_allclose(ranker.held_out_scores_, right, atol=1e-9)


def test_costs_of_comparisons_are_searched():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 3))
    pairs = np.array([rng.choice(15, 2, replace=False) for _ in range(30)])
    margin = X[pairs[:, 0], 0] - X[pairs[:, 1], 0] + rng.normal(size=30)
    pairs = np.where((margin > 0)[:, None], pairs, pairs[:, ::-1])
    costs = ["magnitude", "unit", "relative"]
    ranker = RankRLSCV([0.5], cost=costs, ties=["drop", "keep"])
    ranker.fit(X, pairs=pairs, pair_margin=np.abs(margin))
    assert [candidate.settings["cost"] for candidate in ranker.search_] == costs
    values = []
    for cost in costs:
        leads = []
        for e in range(len(pairs)):
            rest = np.delete(np.arange(len(pairs)), e)
            fit = RankRLS(0.5, cost=cost)
            fit.fit(X, pairs=pairs[rest], pair_margin=np.abs(margin)[rest])
            leads.append(np.subtract(*fit.predict(X[pairs[e]])))
        values.append(np.mean(np.array(leads) > 0))
    np.testing.assert_allclose([c.path.values[0] for c in ranker.search_], values)
    chosen = RankRLS(0.5, cost=ranker.cost_).fit(X, pairs=pairs, pair_margin=np.abs(margin))
    np.testing.assert_allclose(ranker.coef_, chosen.coef_)


@pytest.mark.filterwarnings("ignore:Features differ in scale")
def test_an_alpha_lost_in_rounding_is_never_chosen():
    p = problem(seed=13, sizes=SIZES)
    X = np.hstack([p.X, p.X[:, :1] * (1 + 1e-15), 1e4 * p.X])
    ranker = RankRLSCV([1e-14, 1.0, 1e3]).fit(X, p.y, p.qid)
    assert np.isnan(ranker.path_.values[0])
    assert ranker.alpha_ >= 1.0
    with pytest.raises(NumericalError, match="No value of `alpha` can be judged"):
        RankRLSCV([1e-14]).fit(X, p.y, p.qid)


def test_path_is_drawn():
    import matplotlib as mpl

    mpl.use("Agg")
    p = problem(seed=14, sizes=SIZES)
    ranker = RankRLSCV(ALPHAS).fit(p.X, p.y, p.qid)
    ax = ranker.plot_path()
    assert ax.get_xlabel() == "alpha"
    assert "Concordance" in ax.get_ylabel()
    mpl.pyplot.close("all")


P = problem(seed=0, sizes=SIZES)
PAIRS = [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLSCV([]).fit(P.X, P.y, P.qid), "`alphas` must be"),
        (lambda: RankRLSCV([0.0]).fit(P.X, P.y, P.qid), "`alphas` must be"),
        (lambda: RankRLSCV(cv="loo").fit(P.X, P.y, P.qid), "`cv` must be"),
        (lambda: RankRLSCV(cv="leave_pair_out").fit(P.X, P.y, P.qid), "one global ranking"),
        (lambda: RankRLSCV(cv="leave_edge_out").fit(P.X, P.y, P.qid), "needs comparisons"),
        (lambda: RankRLSCV(cv="leave_query_out").fit(P.X, pairs=PAIRS), "left out one by one"),
        (lambda: RankRLSCV(cv="leave_query_out").fit(P.X, P.y), "without `qid`"),
        (lambda: RankRLSCV(cv="leave_query_out").fit(P.X, P.y, np.zeros(26)), "At least two folds"),
        (lambda: RankRLSCV(cv=1).fit(P.X, P.y, P.qid), "at least 2"),
        (lambda: RankRLSCV(cv=2.5).fit(P.X, P.y, P.qid), "a number of folds"),
        (lambda: RankRLSCV(measure="NDCG").fit(P.X, P.y), "judges pairs"),
        (lambda: RankRLSCV(measure="nonsense").fit(P.X, P.y, P.qid), "nonsense"),
        (lambda: RankRLSCV(rule="median").fit(P.X, P.y, P.qid), "`rule` must be one of"),
        (lambda: RankRLSCV(query_weight=[1.0]).fit(P.X, P.y), "named `query_weight`"),
        (lambda: RankRLSCV(cv=[[0, 1], [2, 3]]).fit(P.X, P.y, P.qid), "whole queries"),
        (lambda: RankRLSCV(cost="unit", ties="keep").fit(P.X, P.y, P.qid), "ties='keep'"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_many_sparse_features_are_refused_at_once():
    X, qid = eye_array(8300, format="csr"), np.arange(8300) // 100
    message = r"at most 8,192 unknowns.*got 8,217 .*LinearRankRLS"
    with pytest.raises(InvalidInputError, match=message):
        RankRLSCV(ALPHAS).fit(X, np.arange(8300) % 7, qid)
    p = problem(seed=3, sizes=SIZES)
    sparse = RankRLSCV(ALPHAS).fit(csr_array(p.X), p.y, p.qid)
    dense = RankRLSCV(ALPHAS).fit(p.X, p.y, p.qid)
    np.testing.assert_allclose(sparse.path_.values, dense.path_.values)


def test_only_a_list_means_several_settings():
    with pytest.raises(InvalidInputError, match="`cost` must be one of"):
        RankRLSCV(cost=("magnitude", "unit")).fit(P.X, P.y, P.qid)


def test_queries_of_any_kind_and_order():
    names = np.array([f"query {q}" for q in P.qid])
    order = np.random.default_rng(0).permutation(len(names))
    first = RankRLSCV(ALPHAS).fit(P.X, P.y, P.qid)
    other = RankRLSCV(ALPHAS).fit(P.X[order], P.y[order], names[order])
    np.testing.assert_allclose(first.path_.values, other.path_.values)
    assert Queries.from_qid(names).n_queries == other.n_queries_


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_features_constant_inside_queries_tie_everything(kernel):
    p = problem(seed=30, sizes=(4, 5, 3))
    X = (p.qid[:, None] * [1.0, 0.5]).astype(float)
    ranker = RankRLSCV([0.1, 1.0], kernel=kernel).fit(X, p.y, p.qid)
    assert ranker.held_out_value_ == 0.5
    np.testing.assert_array_equal(ranker.path_.values, 0.5)


@pytest.mark.parametrize("parameter", ["kernel", "cost", "ties"])
def test_an_empty_search_is_refused(parameter):
    p = problem(seed=31)
    with pytest.raises(InvalidInputError, match=f"`{parameter}` must name at least one setting"):
        RankRLSCV(**{parameter: []}).fit(p.X, p.y, p.qid)


# --- comparisons inside queries, folds of comparisons -------------------------------------------


def share_of_pairs(scores, pairs, weight, qid=None):
    """Return the share of pairs in the right order, averaged over queries where there are some."""
    right = (np.sign(np.subtract(*scores[pairs.T])) + 1) / 2
    of_pair = np.zeros(len(pairs)) if qid is None else qid[pairs[:, 0]]
    queries = np.unique(of_pair)
    inside = [of_pair == q for q in queries]
    return np.mean([np.average(right[i], weights=weight[i]) for i in inside])


@pytest.mark.parametrize("query_weight", ["items", "equal"])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("cv", ["auto", "leave_query_out", GroupKFold(3), "lists"], ids=str)
def test_queries_of_comparisons_are_left_out(cv, kernel, query_weight):
    p = problem(seed=1, sizes=SIZES)
    c = comparisons_of(p)
    folds = queries_of(p)
    if not isinstance(cv, str):
        folds = [test for _, test in cv.split(p.X, groups=p.qid)]
    options = {"kernel": kernel, "query_weight": query_weight}
    given = {"pair_margin": c.margin, "pair_weight": c.weight}
    ranker = RankRLSCV(ALPHAS, cv=folds if cv == "lists" else cv, **options)
    ranker.fit(p.X, qid=p.qid, pairs=c.pairs, **given)
    expected = []
    for alpha in ALPHAS:
        scores = np.empty(len(p.y))
        for fold in folds:
            rest = ~np.isin(c.pairs[:, 0], fold)
            fit = RankRLS(alpha, **options)
            fit.fit(p.X, qid=p.qid, pairs=c.pairs[rest], **{k: v[rest] for k, v in given.items()})
            scores[fold] = fit.predict(p.X[fold])
        expected.append(share_of_pairs(scores, c.pairs, c.weight, p.qid))
    np.testing.assert_allclose(ranker.path_.values, expected, atol=1e-12)
    plain = RankRLS(ranker.alpha_, **options).fit(p.X, qid=p.qid, pairs=c.pairs, **given)
    np.testing.assert_allclose(ranker.predict(p.X), plain.predict(p.X), atol=1e-8)
    found = share_of_pairs(ranker.held_out_scores_, c.pairs, c.weight, p.qid)
    assert found == pytest.approx(ranker.held_out_value_)


def test_the_disagreement_of_held_out_comparisons_is_what_is_left_of_one():
    p = problem(seed=1, sizes=SIZES)
    c = comparisons_of(p)
    right = RankRLSCV(ALPHAS).fit(p.X, qid=p.qid, pairs=c.pairs)
    wrong = RankRLSCV(ALPHAS, measure=Disagreement(ties="half")).fit(p.X, qid=p.qid, pairs=c.pairs)
    np.testing.assert_allclose(wrong.path_.values, 1 - right.path_.values)
    assert wrong.alpha_ == right.alpha_


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("cv", [4, PairKFold(4, random_state=1), "lists"], ids=str)
def test_folds_of_comparisons_equal_brute_force(cv, kernel):
    p = problem(seed=1, sizes=(20,))
    c = comparisons_of(p, n_per_query=40)
    if cv == 4:
        seed = int(generator(0).integers(2**31))
        folds = [test for _, test in PairKFold(4, random_state=seed).split(c.pairs)]
    else:
        folds = [test for _, test in PairKFold(4, random_state=1).split(c.pairs)]
    ranker = RankRLSCV(ALPHAS, cv=folds if cv == "lists" else cv, kernel=kernel, random_state=0)
    ranker.fit(p.X, pairs=c.pairs, pair_weight=c.weight)
    expected = np.empty((len(ALPHAS), len(c.pairs)))
    for a, alpha in enumerate(ALPHAS):
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(c.pairs)), fold)
            fit = RankRLS(alpha, kernel=kernel)
            fit.fit(p.X, pairs=c.pairs[rest], pair_weight=c.weight[rest])
            expected[a, fold] = np.subtract(*fit.predict(p.X)[c.pairs[fold].T])
    values = np.average(expected > 0, axis=1, weights=c.weight)
    np.testing.assert_allclose(ranker.path_.values, values, atol=1e-12)
    chosen = expected[ALPHAS.index(ranker.alpha_)]
    np.testing.assert_allclose(ranker.held_out_scores_, chosen, atol=1e-8 * np.abs(chosen).max())


def test_a_fold_of_all_comparisons_leaves_ties():
    ranker = RankRLSCV(ALPHAS, cv=[[0, 1, 2]]).fit(P.X, pairs=PAIRS)
    np.testing.assert_array_equal(ranker.path_.values, 0.5)


def test_comparisons_in_queries_may_be_left_out_one_by_one():
    p = problem(seed=1, sizes=SIZES)
    c = comparisons_of(p)
    ranker = RankRLSCV(ALPHAS, cv="leave_edge_out", query_weight="items")
    ranker.fit(p.X, qid=p.qid, pairs=c.pairs)
    leads = []
    for e in range(len(c.pairs)):
        fit = RankRLS(ranker.alpha_).fit(p.X, qid=p.qid, pairs=np.delete(c.pairs, e, axis=0))
        leads.append(np.subtract(*fit.predict(p.X[c.pairs[e]])))
    np.testing.assert_allclose(ranker.held_out_scores_, leads, atol=1e-9)


# --- validation data ----------------------------------------------------------------------------

V = problem(seed=8, sizes=(7, 4, 8))


@pytest.mark.parametrize("measure", [NDCG @ 3, Concordance])
def test_validation_data_choose_alpha_kernel_cost_and_ties(measure):
    options = {
        "kernel": [Linear(), Gaussian(0.2)],
        "cost": ["magnitude", "unit"],
        "ties": ["drop", "keep"],
    }
    ranker = RankRLSCV(ALPHAS, measure=measure, **options)
    ranker.fit(P.X, P.y, P.qid, X_val=V.X, y_val=V.y, qid_val=V.qid)
    assert len(ranker.search_) == 6
    for candidate in ranker.search_:
        for alpha, value in zip(ALPHAS, candidate.path.values, strict=True):
            fit = RankRLS(alpha, **candidate.settings).fit(P.X, P.y, P.qid)
            assert value == pytest.approx(
                evaluate(V.y, fit.predict(V.X), V.qid, [measure])[measure]
            )
    assert ranker.held_out_value_ == max(c.path.values.max() for c in ranker.search_)
    settings = {"kernel": ranker.kernel_, "cost": ranker.cost_, "ties": ranker.ties_}
    plain = RankRLS(ranker.alpha_, **settings).fit(P.X, P.y, P.qid)
    lead = plain.predict(V.X)
    np.testing.assert_allclose(ranker.predict(V.X), lead, atol=1e-8 * np.abs(lead).max())
    np.testing.assert_allclose(ranker.held_out_scores_, lead, atol=1e-8 * np.abs(lead).max())


@pytest.mark.parametrize("basis", [None, [0, 3, 5]])
def test_validation_scores_of_several_outputs(basis):
    basis = None if basis is None else P.X[basis]
    Y, Y_val = np.column_stack([P.y, -(P.y**2)]), np.column_stack([V.y, -(V.y**2)])
    ranker = RankRLSCV(ALPHAS, kernel=Gaussian(0.2), basis=basis)
    ranker.fit(P.X, Y, P.qid, X_val=V.X, y_val=Y_val, qid_val=V.qid)
    assert ranker.held_out_scores_.shape == Y_val.shape
    for a, alpha in enumerate(ALPHAS):
        fit = RankRLS(alpha, kernel=Gaussian(0.2), basis=basis).fit(P.X, Y, P.qid)
        scores = fit.predict(V.X).T
        values = [
            evaluate(t, s, V.qid, [Concordance])[Concordance]
            for t, s in zip(Y_val.T, scores, strict=True)
        ]
        assert ranker.path_.values[a] == pytest.approx(np.mean(values))


def test_validation_comparisons_of_other_rows_and_of_the_same():
    c, d = comparisons_of(P), comparisons_of(V)
    given = {"pairs_val": d.pairs, "pair_weight_val": d.weight}
    others = RankRLSCV(ALPHAS).fit(P.X, qid=P.qid, pairs=c.pairs, X_val=V.X, **given)
    by_query = RankRLSCV(ALPHAS).fit(P.X, P.y, P.qid, X_val=V.X, qid_val=V.qid, **given)
    half = len(c.pairs) // 2
    same = RankRLSCV(ALPHAS).fit(
        P.X,
        qid=P.qid,
        pairs=c.pairs[:half],
        pairs_val=c.pairs[half:],
        pair_weight_val=c.weight[half:],
    )
    for a, alpha in enumerate(ALPHAS):
        scores = RankRLS(alpha).fit(P.X, qid=P.qid, pairs=c.pairs).predict(V.X)
        assert others.path_.values[a] == pytest.approx(share_of_pairs(scores, d.pairs, d.weight))
        scores = RankRLS(alpha).fit(P.X, P.y, P.qid).predict(V.X)
        expected = share_of_pairs(scores, d.pairs, d.weight, V.qid)
        assert by_query.path_.values[a] == pytest.approx(expected)
        scores = RankRLS(alpha).fit(P.X, qid=P.qid, pairs=c.pairs[:half]).predict(P.X)
        expected = share_of_pairs(scores, c.pairs[half:], c.weight[half:], P.qid)
        assert same.path_.values[a] == pytest.approx(expected)


def test_scores_may_judge_what_comparisons_teach():
    c = comparisons_of(P)
    ranker = RankRLSCV(ALPHAS).fit(P.X, pairs=c.pairs, X_val=V.X, y_val=V.y)
    fit = RankRLS(ranker.alpha_).fit(P.X, pairs=c.pairs)
    assert ranker.held_out_value_ == pytest.approx(fit.score(V.X, V.y))


# --- an alpha for each output -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "cv"), [(SIZES, "auto"), ((16,), "auto"), ((16,), 4), (SIZES, "validation")]
)
def test_an_alpha_for_each_output_is_that_of_each_alone(sizes, cv):
    p = problem(seed=10, sizes=sizes)
    rng = np.random.default_rng(0)
    Y = np.column_stack([p.y, rng.permutation(p.y), p.X[:, 0]])
    given = {"qid": p.qid} if len(sizes) > 1 else {}
    options = {"cv": 4 if cv == 4 else "auto", "random_state": 0}
    validation = [{} for _ in range(4)]
    if cv == "validation":
        Y_val = np.column_stack([V.y, V.X[:, 1], V.X[:, 0]])
        validation = [{"X_val": V.X, "qid_val": V.qid, "y_val": y} for y in [*Y_val.T, Y_val]]
    together = RankRLSCV(alpha_per_output=True, **options).fit(p.X, Y, **given, **validation[3])
    alone = [RankRLSCV(**options).fit(p.X, y, **given, **validation[k]) for k, y in enumerate(Y.T)]
    np.testing.assert_array_equal(together.alpha_, [ranker.alpha_ for ranker in alone])
    assert len(set(together.alpha_)) > 1
    assert together.held_out_value_ == pytest.approx(np.mean([r.held_out_value_ for r in alone]))
    for k, ranker in enumerate(alone):
        np.testing.assert_allclose(together.coef_[k], ranker.coef_, atol=1e-8)
        np.testing.assert_allclose(together.paths_[k].values, ranker.path_.values)
        if ranker.held_out_scores_ is not None:
            np.testing.assert_allclose(together.held_out_scores_[:, k], ranker.held_out_scores_)


def test_an_alpha_for_each_output_of_one_is_one_alpha():
    ranker = RankRLSCV(ALPHAS, alpha_per_output=True).fit(P.X, P.y, P.qid)
    assert ranker.alpha_ == RankRLSCV(ALPHAS).fit(P.X, P.y, P.qid).alpha_
    assert ranker.paths_ == [ranker.path_]


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"cv": "leave_pair_out"}, {"qid": P.qid}, "must be left out one by one"),
        ({"cv": 1}, {}, "`n_splits` must lie between 2"),
        ({"cv": 2.5}, {}, "without `qid` must be a number of folds"),
        ({"cv": [[0], [0]]}, {}, "must not overlap"),
        ({"measure": NDCG}, {}, "with comparisons judges pairs"),
        ({"measure": NDCG}, {"pairs_val": PAIRS}, "`pairs_val` judges pairs"),
        ({}, {"pairs_val": [[0, 99]]}, "rows 0 to 25"),
        ({}, {"pairs_val": PAIRS, "y_val": V.y}, "`y_val` or comparisons `pairs_val`: got both"),
        ({}, {"pair_weight_val": [1.0]}, "`pair_weight_val` must come with"),
        ({}, {"y_val": V.y}, "got no `X_val`"),
        ({}, {"X_val": V.X, "y_val": np.c_[V.y, V.y]}, "the 1 outputs of `y`: got 2"),
        ({}, {"X_val": V.X}, "must have `X_val` and `y_val`"),
    ],
)
def test_bad_comparisons_and_validation_data_are_refused(options, given, message):
    same = np.flatnonzero(P.qid == np.unique(P.qid)[0])
    pairs = [[same[0], same[1]], [same[1], same[2]], [same[2], same[0]]]
    with pytest.raises(InvalidInputError, match=message):
        RankRLSCV(ALPHAS, **options).fit(P.X, pairs=pairs, **given)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("query_weight", ["items", "pairs"])
def test_what_left_out_the_pairs_gives_the_fit_to_all_items(monkeypatch, query_weight, weighted):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(25, 4)), rng.normal(size=(25, 2))
    known = query_weight == "items"
    weight = rng.uniform(0.5, 2.0, 25) if weighted and known else None
    options = {"kernel": Gaussian(0.3), "query_weight": query_weight}
    fits = []
    refit = hold_outs.SettingProblem.weights
    monkeypatch.setattr(
        hold_outs.SettingProblem, "weights", lambda *given: fits.append(1) or refit(*given)
    )
    found = RankRLSCV([0.1, 1.0, 10.0], cv="leave_pair_out", **options).fit(X, Y, None, weight)
    alone = RankRLS(found.alpha_, **options).fit(X, Y, None, weight)
    np.testing.assert_allclose(found.dual_coef_, alone.dual_coef_, rtol=1e-8, atol=1e-10)
    assert bool(fits) is not known  # nothing is factorised twice


# Pairs of groups


@pytest.mark.parametrize("ties", ["keep", "drop"])
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_pairs_of_groups_left_out_equal_refits(ties, kernel):
    rng = np.random.default_rng(3)
    X, patient = rng.normal(size=(27, 3)), np.sort(rng.integers(0, 8, size=27))
    y, alphas = rng.integers(0, 3, size=27).astype(float), [0.1, 10.0]
    found = RankRLSCV(alphas, cv=GroupPairs(patient), kernel=kernel, ties=ties).fit(X, y)
    expected = [
        leave_pair_out(RankRLS(alpha, kernel=found.kernel_, ties=ties), X, y, patient)
        for alpha in alphas
    ]
    np.testing.assert_allclose(found.path_.values, [one.value for one in expected])
    errors = [one.standard_error for one in expected]
    np.testing.assert_allclose(found.path_.standard_errors, errors)


def test_pairs_of_groups_may_be_drawn():
    X, patient = np.arange(40.0)[:, None], np.repeat(np.arange(20), 2)
    assert repr(GroupPairs(patient)) == "GroupPairs(20 groups)"
    assert len(GroupPairs(patient, n_fits=7).pairs(X[:, 0], np.random.default_rng(0))[1]) == 7
    few = RankRLSCV([1.0], cv=GroupPairs(patient, n_fits=7), random_state=0).fit(X, X[:, 0])
    assert few.held_out_value_ == 1.0


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (GroupPairs([1, 1, 1, 1]), "at least two groups"),
        (GroupPairs([1, 2, 1]), "groups"),
        (GroupPairs([1, 1, 2, 2], n_fits=0), "`n_fits` must be a whole number above 0"),
        (GroupPairs([1, 1, 2, 2]), "must leave items of different scores to learn from"),
    ],
)
def test_groups_that_cannot_be_paired_are_refused(cv, message):
    with pytest.raises(InvalidInputError, match=message):
        RankRLSCV(cv=cv).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0])
