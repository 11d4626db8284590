"""KPCRank is least squares on the leading components; KPCRankCV judges every number of them."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline

import reference
from problems import comparisons_of, problem
from rankwise import (
    NDCG,
    Concordance,
    Disagreement,
    Gaussian,
    Linear,
    PairKFold,
    Queries,
    RankRLS,
)
from rankwise.features.components import find_components
from rankwise.rankers.base import generator
from rankwise.rankers.kpcrank.kpc_rank import KPCRank, KPCRankCV

CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
KERNEL = Gaussian(0.3)
SIZES = (6, 1, 5, 9, 2, 3)
NEW = np.random.default_rng(5).normal(size=(9, 3))


def assert_same_ranking(found, expected, atol=1e-7):
    difference = np.asarray(found) - expected
    np.testing.assert_allclose(difference - difference.mean(axis=0), 0.0, atol=atol)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
def test_solution_equals_theorem_1(cost, ties, query_weight, alpha):
    p = problem(seed=1, sizes=SIZES)
    pairs = reference.score_pairs(p.y, p.qid, cost, ties, query_weight)
    L, r = reference.laplacian(pairs, len(p.y))
    n, J = len(p.y), np.full((len(p.y), len(p.y)), 1 / len(p.y))
    K = (np.eye(n) - J) @ KERNEL(p.X, p.X) @ (np.eye(n) - J)
    values, V = np.linalg.eigh(K)
    V, root = V[:, -4:], np.sqrt(values[-4:])
    Z = K @ V / root
    w = reference.fit_primal(Z, L, r, alpha)  # [TH10] (6), alpha = 0
    new = (KERNEL(NEW, p.X) - KERNEL(p.X, p.X).mean(axis=0)) @ V / root @ w
    ranker = KPCRank(4, KERNEL, alpha=alpha, cost=cost, ties=ties, query_weight=query_weight)
    assert_same_ranking(ranker.fit(p.X, p.y, qid=p.qid).predict(NEW), new)
    np.testing.assert_allclose(ranker.variances_, values[:-5:-1])


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
def test_comparisons_equal_the_normal_equations(cost):
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(15, 3)), np.array([[0, 1], [1, 2], [0, 1], [5, 3], [3, 0], [7, 8]])
    margin, weight = rng.normal(size=6), rng.uniform(0.5, 2, 6)
    L, r = reference.laplacian(reference.compared_pairs(pairs, margin, weight, cost), 15)
    _, Z = find_components(KERNEL, X, 3)
    ranker = KPCRank(3, KERNEL, cost=cost)
    ranker.fit(X, pairs=pairs, pair_margin=margin, pair_weight=weight)
    assert_same_ranking(ranker.predict(X), Z @ reference.fit_primal(Z, L, r, 0.0))


def test_all_components_with_alpha_equal_rankrls():
    p = problem(seed=2)
    for kernel in (KERNEL, Linear()):
        full = RankRLS(0.5, kernel=kernel).fit(p.X, p.y, qid=p.qid)
        ranker = KPCRank(99, kernel, alpha=0.5).fit(p.X, p.y, qid=p.qid)
        assert_same_ranking(ranker.predict(NEW), full.predict(NEW))
    np.testing.assert_allclose(ranker.coef_, full.coef_, atol=1e-10)


@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_one_ranking_with_ties_kept_is_principal_component_regression(n_components):
    p = problem(seed=3, sizes=(30,))
    pca = KernelPCA(n_components, kernel="rbf", gamma=0.3, eigen_solver="dense")
    regression = make_pipeline(pca, LinearRegression()).fit(p.X, p.y)
    ranker = KPCRank(n_components, KERNEL, ties="keep").fit(p.X, p.y)
    assert_same_ranking(ranker.predict(NEW), regression.predict(NEW))


@pytest.mark.parametrize("ties", ["drop", "keep"])
def test_outputs_are_learned_as_if_alone(ties):
    p = problem(seed=4, sizes=SIZES)
    rng = np.random.default_rng(0)
    Y = np.column_stack([p.y, rng.integers(0, 2, len(p.y)), rng.normal(size=len(p.y)), p.y])
    ranker = KPCRank(4, KERNEL, ties=ties)
    together = ranker.fit(p.X, Y, qid=p.qid).predict(NEW)
    for k in range(4):
        alone = ranker.fit(p.X, Y[:, k], qid=p.qid).predict(NEW)
        np.testing.assert_allclose(together[:, k], alone, atol=1e-9)


@pytest.mark.parametrize("kernel", [KERNEL, Linear()], ids=repr)
def test_an_integer_weight_equals_repetition(kernel):
    p = problem(seed=5)
    weight = np.random.default_rng(0).integers(0, 3, len(p.y))
    ranker = KPCRank(3, kernel, query_weight="pairs")
    weighted = ranker.fit(p.X, p.y, qid=p.qid, sample_weight=weight).predict(NEW)
    X, y, qid = (np.repeat(v, weight, axis=0) for v in (p.X, p.y, p.qid))
    assert_same_ranking(weighted, ranker.fit(X, y, qid=qid).predict(NEW))


def test_truncated_solver_gives_the_same_ranker():
    p = problem(seed=6)
    full = KPCRank(5, KERNEL, solver="full").fit(p.X, p.y, qid=p.qid)
    other = KPCRank(5, KERNEL, solver="truncated").fit(p.X, p.y, qid=p.qid)
    np.testing.assert_allclose(other.predict(NEW), full.predict(NEW), atol=1e-8)


def test_there_are_never_more_components_than_the_items_span():
    p = problem(seed=7)
    ranker = KPCRank(50, "linear").fit(p.X, p.y, qid=p.qid)
    assert ranker.n_components_ == 3
    assert ranker.variances_.shape == (3,)


def refits(p, Z, folds_of, **options):
    """Return the held-out scores of KPCRank's second stage, number by number."""
    out = np.full((Z.shape[1], len(p.y)), np.nan)
    for q in set(folds_of):
        test, train = folds_of == q, folds_of != q
        for k in range(1, Z.shape[1] + 1):
            ranker = RankRLS(1e-12, **options).fit(Z[train, :k], p.y[train], p.qid[train])
            out[k - 1, test] = ranker.predict(Z[test, :k])
    return out


@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
def test_the_path_is_that_of_refits_with_the_components_fixed(cost, ties):
    p = problem(seed=8, sizes=SIZES)
    _, Z = find_components(KERNEL, p.X, 4)
    scores = refits(p, Z, p.qid, cost=cost, ties=ties)
    queries = Queries.from_qid(p.qid)
    ranker = KPCRankCV(4, KERNEL, cost=cost, ties=ties).fit(p.X, p.y, qid=p.qid)
    values = [Concordance.overall(p.y, s, queries) for s in scores]
    np.testing.assert_allclose(ranker.path_.values, values)
    best = int(np.argmax(values))
    assert ranker.n_components_ == best + 1
    assert ranker.held_out_value_ == pytest.approx(values[best])
    np.testing.assert_allclose(ranker.held_out_scores_, scores[best], rtol=1e-5, atol=1e-7)


def test_the_chosen_ranker_is_kpcrank_with_that_number():
    p = problem(seed=9, sizes=SIZES)
    ranker = KPCRankCV(8, KERNEL, alpha=0.01).fit(p.X, p.y, qid=p.qid)
    same = KPCRank(ranker.n_components_, KERNEL, alpha=0.01).fit(p.X, p.y, qid=p.qid)
    np.testing.assert_allclose(ranker.predict(NEW), same.predict(NEW), atol=1e-9)
    np.testing.assert_allclose(ranker.variances_, same.variances_)


@pytest.mark.parametrize("measure", [None, "NDCG @ 3", Disagreement])
@pytest.mark.parametrize("outputs", [1, 2])
def test_validation_data_decide_as_separate_fits_would(measure, outputs):
    p, v = problem(seed=10, sizes=SIZES), problem(seed=11, sizes=SIZES)
    y, y_val = (np.column_stack([q.y, 5 - q.y][:outputs]) for q in (p, v))
    if outputs == 1:
        y, y_val = y[:, 0], y_val[:, 0]
    ranker = KPCRankCV(6, KERNEL, measure=measure)
    ranker.fit(p.X, y, qid=p.qid, X_val=v.X, y_val=y_val, qid_val=v.qid)
    judge = {None: Concordance, "NDCG @ 3": NDCG @ 3, Disagreement: Disagreement}[measure]
    values = []
    for k in range(1, 7):
        scores = KPCRank(k, KERNEL).fit(p.X, y, qid=p.qid).predict(v.X).reshape(len(v.y), -1)
        truths = y_val.reshape(len(v.y), -1)
        per_output = [
            judge.overall(t, s, Queries.from_qid(v.qid))
            for t, s in zip(truths.T, scores.T, strict=True)
        ]
        values.append(np.mean(per_output))
    np.testing.assert_allclose(ranker.path_.values, values, atol=1e-12)
    pick = np.argmax if judge.greater_is_better else np.argmin
    assert ranker.n_components_ == pick(values) + 1
    assert ranker.held_out_scores_.shape == y_val.shape


def test_one_global_ranking_may_be_validated_query_by_query():
    p, v = problem(seed=10), problem(seed=11)
    ranker = KPCRankCV(3, KERNEL, ties="keep").fit(p.X, p.y, X_val=v.X, y_val=v.y, qid_val=v.qid)
    for k in range(3):
        one = KPCRank(k + 1, KERNEL, ties="keep").fit(p.X, p.y)
        expected = Concordance.overall(v.y, one.predict(v.X), Queries.from_qid(v.qid))
        assert ranker.path_.values[k] == pytest.approx(expected)


@pytest.mark.parametrize("listed", [False, True])
def test_folds_of_queries_may_be_given(listed):
    p = problem(seed=12, sizes=SIZES)
    splits = list(GroupKFold(3).split(p.X, p.y, p.qid))
    fold_of = np.empty(len(p.y), dtype=int)
    for number, (_, test) in enumerate(splits):
        fold_of[test] = number
    _, Z = find_components(KERNEL, p.X, 3)
    expected = refits(p, Z, fold_of)
    ranker = KPCRankCV(3, KERNEL, cv=splits if listed else GroupKFold(3)).fit(p.X, p.y, qid=p.qid)
    values = [Concordance.overall(p.y, s, Queries.from_qid(p.qid)) for s in expected]
    np.testing.assert_allclose(ranker.path_.values, values)


@pytest.mark.parametrize("with_qid", [True, False])
def test_a_number_of_folds_deals_queries_or_items(with_qid):
    p = problem(seed=12, sizes=SIZES)
    qid = p.qid if with_qid else None
    first = KPCRankCV(3, KERNEL, cv=3, random_state=0).fit(p.X, p.y, qid=qid)
    again = KPCRankCV(3, KERNEL, cv=3, random_state=0).fit(p.X, p.y, qid=qid)
    np.testing.assert_array_equal(first.held_out_scores_, again.held_out_scores_)
    assert first.path_.per_query.shape == (3, len(SIZES) if with_qid else 3)


@pytest.mark.parametrize("cv", ["auto", KFold(4)], ids=["auto", "KFold"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_one_global_ranking_is_judged_by_folds_of_items(cv, outputs):
    p = problem(seed=13, sizes=(22,))
    Y = np.column_stack([p.y, np.roll(p.y, 3)])[:, :outputs]
    fold_of = np.arange(22) % 5
    if cv != "auto":
        for number, (_, test) in enumerate(KFold(4).split(p.X)):
            fold_of[test] = number
    _, Z = find_components(KERNEL, p.X, 3)
    ranker = KPCRankCV(3, KERNEL, cv=cv).fit(p.X, Y if outputs == 2 else p.y)
    one = type(p)(p.X, p.y, np.zeros(22))
    for k, y in enumerate(Y.T):
        expected = refits(type(p)(one.X, y, one.qid), Z, fold_of)
        best = ranker.n_components_ - 1
        found = ranker.held_out_scores_.reshape(22, -1)[:, k]
        for fold in range(fold_of.max() + 1):
            assert_same_ranking(found[fold_of == fold], expected[best, fold_of == fold], 1e-6)


def test_a_fold_that_holds_the_only_difference_scores_nothing():
    p = problem(seed=14, sizes=(10,))
    ranker = KPCRankCV(2, KERNEL).fit(p.X, np.eye(10)[3])
    np.testing.assert_array_equal(ranker.held_out_scores_[3::5], 0.0)
    assert (ranker.held_out_scores_[:3] != 0).all()


def test_items_of_weight_zero_are_neither_learned_from_nor_judged():
    p = problem(seed=15, sizes=SIZES)
    weight = (np.arange(len(p.y)) % 4 > 0) * 1.0
    some = weight > 0
    plain = KPCRankCV(4, KERNEL).fit(p.X[some], p.y[some], qid=p.qid[some])
    ranker = KPCRankCV(4, KERNEL).fit(p.X, p.y, qid=p.qid, sample_weight=weight)
    np.testing.assert_allclose(ranker.path_.values, plain.path_.values)
    assert_same_ranking(ranker.predict(NEW), plain.predict(NEW))


def test_one_standard_error_never_takes_more_components():
    p = problem(seed=16, sizes=SIZES * 2)
    best = KPCRankCV(10, KERNEL).fit(p.X, p.y, qid=p.qid)
    fewer = KPCRankCV(10, KERNEL, rule="one_standard_error").fit(p.X, p.y, qid=p.qid)
    position = fewer.n_components_ - 1
    slack = best.path_.standard_errors[best.n_components_ - 1]
    assert fewer.n_components_ <= best.n_components_
    assert best.path_.values[position] >= best.held_out_value_ - slack


def test_plot_path_marks_the_choice():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    p = problem(seed=17, sizes=SIZES)
    ranker = KPCRankCV(5, KERNEL).fit(p.X, p.y, qid=p.qid)
    ax = ranker.plot_path()
    assert ax.lines[-1].get_xdata()[0] == ranker.n_components_
    pyplot.close(ax.figure)


P = problem(seed=0)
VAL = {"X_val": P.X, "y_val": P.y}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: KPCRank(0).fit(P.X, P.y),
            "`n_components` must be a whole number above 0: got 0",
        ),
        (lambda: KPCRank(2.5).fit(P.X, P.y), "`n_components` must be"),
        (lambda: KPCRank(True).fit(P.X, P.y), "`n_components` must be"),
        (lambda: KPCRank(alpha=-1).fit(P.X, P.y), "`alpha` must be a finite number from 0 on"),
        (lambda: KPCRank(alpha="x").fit(P.X, P.y), "`alpha` must be"),
        (lambda: KPCRank(solver="x").fit(P.X, P.y), "`solver` must be one of"),
        (lambda: KPCRank(kernel="rbf").fit(P.X, P.y), "`kernel` must be one of"),
        (lambda: KPCRank(kernel="laplacian").fit(csr_array(P.X), P.y), "must have dense rows"),
        (lambda: KPCRank().fit(P.X), "requires y to be passed"),
        (lambda: KPCRank().fit(P.X, np.ones(19)), "at least one preference"),
        (lambda: KPCRank().fit(P.X, P.y, pairs=[[0, 1]]), "got both"),
        (lambda: KPCRankCV(measure=NDCG).fit(P.X, pairs=[[0, 1]]), "with comparisons judges pairs"),
        (
            lambda: KPCRankCV(measure=NDCG).fit(P.X, P.y, pairs_val=[[0, 1]]),
            "`pairs_val` judges pairs",
        ),
        (lambda: KPCRankCV(kernel=[]).fit(P.X, P.y), "`kernel` must name at least one setting"),
        (lambda: KPCRankCV(0).fit(P.X, P.y), "`max_components` must be"),
        (lambda: KPCRankCV(alpha=-1).fit(P.X, P.y), "`alpha` must be"),
        (lambda: KPCRankCV(measure="nope").fit(P.X, P.y), "nope"),
        (lambda: KPCRankCV(rule="x").fit(P.X, P.y, P.qid), "`rule` must be one of"),
        (lambda: KPCRankCV(cv="x").fit(P.X, P.y, P.qid), "`cv` must be 'auto'"),
        (lambda: KPCRankCV(cv="leave_query_out").fit(P.X, P.y), "without `qid`"),
        (lambda: KPCRankCV(cv=[]).fit(P.X, P.y, P.qid), "at least one fold"),
        (
            lambda: KPCRankCV(cv=KFold(3).split(P.X)).fit(P.X, P.y, P.qid),
            "must hold out whole queries",
        ),
        (lambda: KPCRankCV().fit(P.X, P.y, np.zeros(19)), "At least two folds"),
        (lambda: KPCRankCV().fit(P.X, P.y, P.qid, **VAL), "Validation data must have"),
        (lambda: KPCRankCV().fit(P.X, P.y, X_val=P.X), "Validation data must have"),
        (lambda: KPCRankCV().fit(P.X, P.y, qid_val=P.qid), "Validation data must have"),
        (lambda: KPCRankCV().fit(P.X, P.y, X_val=P.X, y_val=P.y[1:]), "y_val has 18"),
        (lambda: KPCRankCV().fit(P.X, P.y, P.qid, **VAL, qid_val=P.qid[1:]), "qid_val has 18"),
        (lambda: KPCRankCV().fit(P.X, P.y, X_val=P.X[:, 1:], y_val=P.y), "2 features"),
        (lambda: KPCRankCV().fit(P.X, P.y, X_val=P.X, y_val=np.c_[P.y, P.y]), "outputs of `y`"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def held_out_components(p, c, listed, folds_of_pairs, alpha):
    """Return the leads of held-out comparisons for every number of components, fit by fit."""
    _, Z = find_components(Gaussian(0.2), p.X, 8, "full", np.ones(len(p.X)))
    leads = np.empty((8, len(c.pairs)))
    for out in folds_of_pairs:
        kept = [pair for e, pair in enumerate(listed) if e not in set(out)]
        L, r = reference.laplacian(kept, len(p.X))
        for k in range(8):
            scores = Z[:, : k + 1] @ reference.fit_primal(Z[:, : k + 1], L, r, alpha)
            leads[k, out] = np.subtract(*scores[c.pairs[out].T])
    return leads


@pytest.mark.parametrize("cv", ["auto", 3, PairKFold(3, random_state=1)], ids=str)
def test_folds_of_comparisons_are_left_out_for_every_number(cv):
    p = problem(seed=3, sizes=(20,))
    c = comparisons_of(p, n_per_query=40)
    listed = reference.compared_pairs(c.pairs, c.margin, c.weight, "magnitude")
    if cv == "auto":
        splitter = PairKFold(5, random_state=0)
    else:
        seed = int(generator(0).integers(2**31)) if cv == 3 else 1
        splitter = PairKFold(3, random_state=seed)
    folds = [out for _, out in splitter.split(c.pairs)]
    expected = held_out_components(p, c, listed, folds, 0.1)
    ranker = KPCRankCV(8, Gaussian(0.2), alpha=0.1, cv=cv, random_state=0)
    ranker.fit(p.X, pairs=c.pairs, pair_margin=c.margin, pair_weight=c.weight)
    values = np.average(expected > 0, axis=1, weights=c.weight)
    np.testing.assert_allclose(ranker.path_.values, values, atol=1e-12)
    np.testing.assert_allclose(ranker.held_out_scores_, expected[ranker.n_components_ - 1])
    plain = KPCRank(ranker.n_components_, Gaussian(0.2), alpha=0.1)
    plain.fit(p.X, pairs=c.pairs, pair_margin=c.margin, pair_weight=c.weight)
    assert_same_ranking(ranker.predict(p.X), plain.predict(p.X))


@pytest.mark.parametrize("query_weight", ["items", "equal"])
def test_queries_of_comparisons_are_left_out_for_every_number(query_weight):
    p = problem(seed=3, sizes=(7, 1, 6, 8))
    c = comparisons_of(p)
    listed = reference.compared_pairs_in_queries(
        c.pairs, c.margin, c.weight, p.qid, "magnitude", query_weight
    )
    of_pair = p.qid[c.pairs[:, 0]]
    folds = [np.flatnonzero(of_pair == q) for q in np.unique(of_pair)]
    expected = held_out_components(p, c, listed, folds, 0.1)
    ranker = KPCRankCV(8, Gaussian(0.2), alpha=0.1, query_weight=query_weight)
    ranker.fit(p.X, qid=p.qid, pairs=c.pairs, pair_margin=c.margin, pair_weight=c.weight)
    shares = [np.average(expected[:, f] > 0, axis=1, weights=c.weight[f]) for f in folds]
    np.testing.assert_allclose(ranker.path_.values, np.mean(shares, axis=0), atol=1e-12)
    leads = np.subtract(*ranker.held_out_scores_[c.pairs.T])
    np.testing.assert_allclose(leads, expected[ranker.n_components_ - 1], atol=1e-9)


def test_validation_comparisons_decide():
    p = problem(seed=3, sizes=(20,))
    c = comparisons_of(p, n_per_query=40)
    ranker = KPCRankCV(6, Gaussian(0.2)).fit(p.X, pairs=c.pairs[:25], pairs_val=c.pairs[25:])
    for k in range(6):
        fit = KPCRank(k + 1, Gaussian(0.2)).fit(p.X, pairs=c.pairs[:25])
        assert ranker.path_.values[k] == pytest.approx(fit.score(p.X, pairs=c.pairs[25:]))


def test_of_several_kernels_the_best_is_taken():
    p = problem(seed=5, sizes=(9, 8, 7))
    kernels = [Gaussian(5.0), Linear(), Gaussian(0.1)]
    ranker = KPCRankCV(6, kernels).fit(p.X, p.y, p.qid)
    alone = [KPCRankCV(6, kernel).fit(p.X, p.y, p.qid) for kernel in kernels]
    values = [other.held_out_value_ for other in alone]
    best = int(np.argmax(values))
    assert ranker.kernel_ == kernels[best]
    assert ranker.n_components_ == alone[best].n_components_
    assert ranker.held_out_value_ == values[best]
    assert [candidate.settings["kernel"] for candidate in ranker.search_] == kernels
    np.testing.assert_allclose(ranker.predict(p.X), alone[best].predict(p.X))
