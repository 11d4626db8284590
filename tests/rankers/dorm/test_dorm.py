"""DORM: what it optimises, against enumeration, and the laws of its options."""

import signal
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, issparse

import rankwise
import reference
from problems import problem
from rankwise import (
    DORM,
    DORMCV,
    NDCG,
    ConvergenceWarning,
    Gaussian,
    InvalidInputError,
    NothingToLearnError,
    Queries,
    Utility,
    evaluate,
    parse_measure,
)
from rankwise.measures.value import Judgements
from rankwise.rankers.dorm.losses import (
    PositionObjective,
    decay_of,
)
from rankwise.rankers.dorm.oracles.assignment import ideal_positions
from rankwise.rankers.dorm.problem import preliminary_scores

MEASURES = [
    "NDCG",
    "NDCG(gain=exponential) @ 3",
    "DCG",
    "DCG @ 2",
    "Precision @ 2",
    "Precision(normalize=best) @ 3",
    "RR",
    "RR @ 2",
    "WTA",
    "ERU",
    "ERU(normalize=none)",
    "Utility(discounts=(3, 2, 2, 0.5))",
]
P = problem(seed=0, sizes=(6, 5, 1, 7, 4, 6))
SORTED = problem(seed=3, sizes=(4, 5, 3, 5), n_features=2, shuffle=False)


def fitted(measure="NDCG", data=P, **options):
    options = {"tol": 1e-7, "max_iter": 20_000, "random_state": 0} | options
    return DORM(measure, **options).fit(data.X, data.y, qid=data.qid)


def noisy(seed=1, n_queries=50, n_items=40):
    """Many items of the lowest grade, and a signal as large as the noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_items, 10))
    signal = X.sum(axis=1) / np.sqrt(10) + rng.normal(size=len(X))
    y = np.digitize(signal, np.quantile(signal, [0.65, 0.85, 0.95]))
    return X, y, np.repeat(np.arange(n_queries), n_items)


# --- the problem that is solved -------------------------------------------------------------------


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_is_trained_to_a_certified_gap(measure):
    ranker = fitted(measure, C=0.3)
    assert ranker.solution_.converged
    assert abs(ranker.solution_.gap) <= 1e-7
    assert ranker.n_queries_ == 6
    assert ranker.n_ignored_queries_ >= 1  # a single item has no order


@pytest.mark.parametrize(
    "measure", ["NDCG", "NDCG @ 3", "Precision(normalize=best) @ 2", "RR", "WTA"]
)
def test_slacks_bound_the_loss_in_the_measure(measure):
    ranker = fitted(measure, C=3.0)
    values = evaluate(P.y, ranker.predict(P.X), P.qid, parse_measure(measure)(ties="worst"))
    losses = np.sort(1 - values.values[:, 0][~np.isnan(values.values[:, 0])])
    slacks = np.sort(ranker.solution_.details["slacks"])
    assert (slacks >= losses[-len(slacks) :] - 1e-9).all()


def planes(data, measure, decay, preliminary, rows):
    """Return all planes of a query whose measure is gains times discounts."""
    judgements = Judgements.of(data.y[rows], Queries.single(len(rows)))
    form = measure.form(judgements)
    a = np.zeros(len(rows))
    a[: len(form.discounts)] = form.discounts
    b, c = form.gains / form.norms[0], decay(np.arange(1, len(rows) + 1.0))
    target = ideal_positions(b, preliminary[rows], [0, len(rows)], a)
    return reference.all_planes(b, a, c, target)


@pytest.mark.parametrize("measure", [NDCG, NDCG(gain="exponential") @ 2, Utility(discounts=(2, 1))])
def test_the_problem_is_that_of_all_rankings(measure):
    preliminary = np.random.default_rng(5).normal(size=len(SORTED.y))
    ranker = DORM(measure, C=0.7, decay=1.0, tol=1e-8, max_iter=20_000)
    ranker.fit(SORTED.X, SORTED.y, qid=SORTED.qid, preliminary=preliminary)
    queries = Queries.from_qid(SORTED.qid)
    blocks = [
        (SORTED.X[rows], 1.0, planes(SORTED, measure, lambda i: 1 / (i + 1), preliminary, rows))
        for rows in queries
    ]
    best = reference.structured_optimum(0.7, blocks, np.zeros(2))
    np.testing.assert_allclose(ranker.solution_.objective, best, rtol=1e-6)


def test_costs_of_items_at_positions_are_learned():
    def ndcg_cost(y):
        a = 1.0 / np.log2(np.arange(2, len(y) + 2))
        return -np.outer(y, a) / max(np.sort(y)[::-1] @ a, 1e-9)

    preliminary = np.random.default_rng(6).normal(size=len(P.y))
    rankers = [
        DORM(objective, C=0.5, tol=1e-8, max_iter=20_000, random_state=0).fit(
            P.X, P.y, qid=P.qid, preliminary=preliminary
        )
        for objective in ("NDCG", ndcg_cost)
    ]
    np.testing.assert_allclose(rankers[1].coef_, rankers[0].coef_, atol=1e-4)


def test_costs_may_ask_for_kinds_of_items_in_places():
    """The second place is for items of kind 1: the loss is no function of a relevance."""
    rng = np.random.default_rng(0)
    kinds = np.tile([0, 1, 2, 2], 30)
    X = np.eye(3)[kinds] + 0.1 * rng.normal(size=(120, 3))

    def cost(y):
        places = np.zeros((len(y), len(y)))
        places[:, 1] = y != 1
        places[:, 0] = y == 1
        return places

    ranker = DORM(cost, random_state=0).fit(X, kinds, qid=np.repeat(np.arange(30), 4))
    second = ranker.rank(X, qid=np.repeat(np.arange(30), 4)).reshape(30, 4)[:, 1]
    assert np.mean(kinds[second] == 1) > 0.9


def test_the_modified_wta_looks_as_far_as_the_next_grade():
    y = np.array([2, 1, 0, 0, 1, 1, 1, 1, 0, 0, 2, 2, 1, 0.0])
    queries = Queries.from_qid(np.repeat([0, 1, 2], [4, 6, 4]))
    objective = PositionObjective.of("mWTA", Judgements.of(y, queries))
    depths = [
        np.count_nonzero(part) for part in np.split(objective.discounts, queries.starts[1:-1])
    ]
    assert depths == [3, 5, 3]
    best = [
        np.sort(g)[::-1] @ a
        for g, a in zip(
            *(np.split(v, [4, 10]) for v in (objective.gains, objective.discounts)), strict=True
        )
    ]
    np.testing.assert_allclose(best, 1.0)
    assert fitted("mwta", C=0.3).solution_.converged


def test_the_reciprocal_rank_puts_the_likeliest_relevant_item_first():
    y, preliminary = np.array([0, 1, 2, 1, 0, 0.0]), np.array([9, 1, 2, 3, 5, 4.0])
    queries = Queries.from_qid([0, 0, 0, 0, 1, 1])
    objective = PositionObjective.of("RR @ 2", Judgements.of(y, queries))
    assert objective.has_preference.tolist() == [True, False]
    first = objective.take(np.arange(4))
    assert first.chosen_gains(preliminary[:4], np.array([0, 4])).tolist() == [0, 0, 0, 1]
    assert first.discounts.tolist() == [1, 0.5, 0, 0]


def test_the_problem_of_the_reciprocal_rank_is_that_of_all_rankings():
    """Of several relevant items the first counts, whichever the target has first."""
    preliminary = np.random.default_rng(5).normal(size=len(SORTED.y))
    ranker = DORM("RR", C=0.7, decay=1.0, tol=1e-8, max_iter=20_000)
    ranker.fit(SORTED.X, SORTED.y, qid=SORTED.qid, preliminary=preliminary)
    blocks = []
    for rows in Queries.from_qid(SORTED.qid):
        hits = SORTED.y[rows] >= 1
        if 0 < hits.sum() < len(hits):
            a, c = 1.0 / np.arange(1.0, len(rows) + 1), 1.0 / np.arange(2.0, len(rows) + 2)
            order = np.lexsort((-preliminary[rows], ~hits))
            rest = sorted(order[1:], key=lambda item: -preliminary[rows][item])
            target = np.argsort([order[0], *rest])
            planes = []
            for ranking in permutations(range(len(rows))):
                positions = np.argsort(ranking)
                planes.append((c[target] - c[positions], 1.0 - a[positions[hits].min()]))
            blocks.append((SORTED.X[rows], 1.0, planes))
    best = reference.structured_optimum(0.7, blocks, np.zeros(2))
    np.testing.assert_allclose(ranker.solution_.objective, best, rtol=1e-6)


# --- the order that is aimed at -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_an_arbitrary_order_of_ties_learns_almost_nothing():
    X, y, qid = noisy()
    arbitrary = np.random.default_rng(0).normal(size=len(y))
    ranker = DORM("NDCG(gain=exponential) @ 10", C=0.1, random_state=0)
    aimless = ranker.fit(X, y, qid=qid, preliminary=arbitrary).coef_
    at_zero = ranker.C_ * len(np.unique(qid))  # every query loses all of its NDCG
    assert ranker.solution_.bound > 0.999 * at_zero
    aimed = ranker.fit(X, y, qid=qid).coef_
    assert ranker.solution_.objective < 0.95 * at_zero
    assert np.linalg.norm(aimless) < 0.1 * np.linalg.norm(aimed)
    assert ranker.improvement_ > 0.05


def test_the_improvement_is_over_the_function_that_is_0():
    ranker = fitted(C=2.0)
    nothing = fitted(C=1e-9)
    losses = nothing.solution_.details["slacks"].sum()  # as good as at 0
    expected = 1 - ranker.solution_.objective / (2 * losses)
    np.testing.assert_allclose(ranker.improvement_, expected, atol=1e-6)
    before = ranker.coef_.copy()
    ranker.partial_fit(P.X, P.y, qid=P.qid)
    assert ranker.improvement_ > 0
    assert (ranker.coef_ != before).any()


@pytest.mark.parametrize("ranker", [DORM("NDCG @ 2"), DORMCV(2, objective="NDCG @ 2", cv=2)])
def test_weights_no_better_than_none_are_told(ranker):
    qid = np.repeat(np.arange(4), 3)
    same_in_each_query = np.random.default_rng(0).normal(size=(4, 2))[qid]
    with pytest.warns(ConvergenceWarning, match="Nothing was learned: the bound .* NDCG @ 2"):
        ranker.fit(same_in_each_query, np.tile([0, 1, 2], 4), qid=qid)
    assert ranker.improvement_ <= 0.0


def test_many_features_have_preliminary_scores_as_few():
    rng = np.random.default_rng(4)
    Z, y, queries = (
        rng.normal(size=(60, 8)),
        rng.integers(0, 3, 60) * 1.0,
        Queries.from_qid(np.repeat(np.arange(6), 10)),
    )
    weights = rng.random(6) + 0.5
    exact = preliminary_scores(Z, y, queries, weights)
    for rows in (Z, csr_array(Z)):
        scores = preliminary_scores(rows, y, queries, weights, many_features=3)
        np.testing.assert_allclose(scores, exact, atol=1e-2 * np.ptp(exact))


# --- invariances ----------------------------------------------------------------------------------


def test_weights_of_queries_are_repetitions():
    times = {qid: k for k, qid in enumerate(np.unique(P.qid), start=0)}
    weight = np.array([times[q] for q in P.qid], dtype=float)
    weighted = DORM("NDCG @ 3", tol=1e-8, max_iter=20_000, random_state=0)
    weighted.fit(P.X, P.y, qid=P.qid, sample_weight=weight)
    rows = np.concatenate([np.flatnonzero(weight > k) for k in range(6)])
    copies = np.concatenate([P.qid[weight > k] + 1000 * k for k in range(6)])
    repeated = DORM("NDCG @ 3", tol=1e-8, max_iter=20_000, random_state=0)
    repeated.fit(P.X[rows], P.y[rows], qid=copies)
    np.testing.assert_allclose(repeated.C_, weighted.C_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)


def test_items_without_weight_are_left_out():
    kept = np.arange(len(P.y)) % 5 > 0
    some = DORM(C=1.0, tol=1e-8, random_state=0).fit(P.X[kept], P.y[kept], qid=P.qid[kept])
    none = DORM(C=1.0, tol=1e-8, random_state=0).fit(P.X, P.y, qid=P.qid, sample_weight=kept * 1.0)
    np.testing.assert_allclose(none.coef_, some.coef_, atol=1e-10)


def test_queries_without_a_preference_change_nothing():
    X, y = np.r_[P.X, np.ones((3, 3))], np.r_[P.y, 2, 2, 2]
    more = DORM(C=1.0, tol=1e-8, random_state=0).fit(X, y, qid=np.r_[P.qid, [99, 99, 99]])
    np.testing.assert_allclose(more.coef_, fitted(C=1.0, tol=1e-8).coef_, atol=1e-10)
    assert more.n_ignored_queries_ == 2


def test_scores_do_not_depend_on_the_scale_or_origin_of_features():
    plain = fitted(tol=1e-8).predict(P.X)
    scaled = DORM(tol=1e-8, max_iter=20_000).fit(1e4 * P.X + 5e4, P.y, qid=P.qid)
    scores = scaled.predict(1e4 * P.X + 5e4)
    np.testing.assert_allclose(scores - scores.mean(), plain - plain.mean(), atol=1e-3)


def test_rankings_need_no_qid():
    alone = DORM(C=1.0, tol=1e-8).fit(P.X, P.y)
    named = DORM(C=1.0, tol=1e-8).fit(P.X, P.y, qid=np.zeros(len(P.y)))
    np.testing.assert_allclose(alone.coef_, named.coef_, atol=1e-5)
    assert not alone.fitted_with_qid_


# --- kernels --------------------------------------------------------------------------------------


def test_the_dual_of_the_linear_kernel_gives_the_primal_scores():
    primal = fitted("NDCG @ 3").predict(P.X)
    K = P.X @ P.X.T
    dual = DORM("NDCG @ 3", kernel="precomputed", tol=1e-7, max_iter=20_000).fit(K, P.y, qid=P.qid)
    np.testing.assert_allclose(dual.predict(K), primal, atol=1e-3)
    by_function = fitted("NDCG @ 3", kernel=lambda A, B: A @ B.T).predict(P.X)
    np.testing.assert_allclose(by_function, primal, atol=1e-3)


def test_a_basis_of_all_rows_is_the_kernel():
    everything = fitted(kernel=Gaussian(0.3), basis=np.arange(len(P.y)), C=0.5)
    exact = fitted(kernel=Gaussian(0.3), C=0.5)
    np.testing.assert_allclose(everything.predict(P.X), exact.predict(P.X), atol=1e-3)


def test_few_basis_rows_come_close():
    some = fitted(kernel=Gaussian(0.1), basis=8, C=0.1)
    assert some.dual_coef_.shape == (8,)
    assert some.score(P.X, P.y, qid=P.qid) > 0.8


def test_a_kernel_that_is_none_is_refused():
    K = -np.eye(len(P.y))
    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        DORM(kernel="precomputed").fit(K, P.y, qid=P.qid)


# --- diversity ------------------------------------------------------------------------------------


def sources_of(data, seed=7, n_sources=3):
    return np.random.default_rng(seed).integers(0, n_sources, len(data.y))


def test_diverse_rankings_take_the_best_of_each_source():
    ranker, sources = fitted(C=1.0), sources_of(P)
    order = ranker.predict_diverse(P.X, sources, 2, qid=P.qid)
    plain = ranker.rank(P.X, qid=P.qid)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(P.y)))
    queries = Queries.from_qid(P.qid)
    for q in range(6):
        mine, all_items = (v[queries.starts[q] : queries.starts[q + 1]] for v in (order, plain))
        assert mine[0] == all_items[0]
        others = [item for item in all_items if sources[item] != sources[mine[0]]]
        if others:
            assert mine[1] == others[0]


def test_sources_of_one_item_each_are_no_condition():
    ranker = fitted(C=1.0)
    order = ranker.predict_diverse(P.X, np.arange(len(P.y)), 3, qid=P.qid)
    np.testing.assert_array_equal(order, ranker.rank(P.X, qid=P.qid))


def test_shares_of_whole_sources_are_the_sources():
    data = problem(seed=2, sizes=(5, 6, 5))
    sources = np.tile(np.arange(4), 4)
    shares = np.eye(4)[sources]
    by_source = DORM("NDCG @ 2", C=1.0, tol=1e-6, random_state=0)
    by_share = DORM("NDCG @ 2", C=1.0, tol=1e-6, random_state=0)
    by_source.fit(data.X, data.y, qid=data.qid, sources=sources)
    by_share.fit(data.X, data.y, qid=data.qid, sources=shares)
    assert by_share.solution_.objective == pytest.approx(by_source.solution_.objective, rel=1e-4)
    np.testing.assert_array_equal(
        by_share.predict_diverse(data.X, shares, 2, qid=data.qid),
        by_share.predict_diverse(data.X, sources, 2, qid=data.qid),
    )


def test_training_for_diverse_rankings_has_less_to_lose():
    """What no diverse ranking can reach is not lost."""
    sources = sources_of(P)
    with_sources = DORM("NDCG @ 3", C=1.0, n_diverse=2, tol=1e-6, random_state=0)
    with_sources.fit(P.X, P.y, qid=P.qid, sources=sources)
    plain = fitted("NDCG @ 3", C=1.0)
    assert with_sources.solution_.converged
    assert with_sources.solution_.objective < plain.solution_.objective
    with pytest.raises(InvalidInputError, match="`n_diverse` must say how many positions"):
        DORM("NDCG").fit(P.X, P.y, qid=P.qid, sources=sources)
    with pytest.raises(InvalidInputError, match="`sources` must come with a measure"):
        DORM(lambda y: np.eye(len(y)), n_diverse=2).fit(P.X, P.y, qid=P.qid, sources=sources)


# --- learning in parts ----------------------------------------------------------------------------


def test_the_first_part_is_a_fit():
    part = DORM(random_state=0).partial_fit(P.X, P.y, qid=P.qid)
    np.testing.assert_array_equal(part.coef_, DORM(random_state=0).fit(P.X, P.y, qid=P.qid).coef_)


def test_further_parts_stay_close_to_what_was_learned():
    other = problem(seed=8, sizes=(3, 4, 3), n_features=2, shuffle=False)
    ranker = DORM(C=0.4, tol=1e-8, max_iter=20_000).fit(SORTED.X, SORTED.y, qid=SORTED.qid)
    earlier = ranker.coef_.copy()
    ranker.partial_fit(other.X, other.y, qid=other.qid)
    blocks = [
        (
            other.X[rows],
            1.0,
            planes(other, NDCG, lambda i: (i + 1) ** -0.5, other.X @ earlier, rows),
        )
        for rows in Queries.from_qid(other.qid)
    ]
    best = reference.structured_optimum(0.4, blocks, earlier)
    np.testing.assert_allclose(ranker.solution_.objective, best, rtol=1e-6)


def test_parts_of_a_stream_learn_about_as_much_as_all_at_once():
    X, y, qid = noisy(n_queries=60)
    ranker = DORM("NDCG @ 10", random_state=0)
    for part in np.split(np.arange(len(y)), 6):
        ranker.partial_fit(X[part], y[part], qid=qid[part])
    X_test, y_test, qid_test = noisy(seed=9)
    whole = DORM("NDCG @ 10", random_state=0).fit(X, y, qid=qid)
    values = [
        evaluate(y_test, r.predict(X_test), qid_test, "NDCG @ 10").mean[0] for r in (ranker, whole)
    ]
    assert values[0] > values[1] - 0.02


def test_a_part_without_preferences_changes_nothing(tmp_path):
    ranker = fitted(kernel=Gaussian(0.3), basis=5, C=0.5)
    before = ranker.dual_coef_.copy()
    ranker.partial_fit(P.X[:3], [1, 1, 1])
    np.testing.assert_array_equal(ranker.dual_coef_, before)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model").partial_fit(P.X, P.y, qid=P.qid)
    ranker.partial_fit(P.X, P.y, qid=P.qid)
    np.testing.assert_allclose(loaded.dual_coef_, ranker.dual_coef_, rtol=1e-9)


def inner(A, B):
    product = A @ B.T
    return product.toarray() if issparse(product) else product


@pytest.mark.parametrize("rows", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_the_dual_learns_in_parts_as_the_primal(rows):
    other = problem(seed=8, sizes=(6, 4, 7))
    scores = []
    for kernel in ("linear", inner):
        ranker = DORM(C=0.4, kernel=kernel, tol=1e-8, max_iter=20_000, random_state=0)
        ranker.partial_fit(rows(P.X), P.y, qid=P.qid)
        ranker.partial_fit(rows(other.X), other.y, qid=other.qid)
        scores.append(ranker.predict(rows(P.X)))
        assert ranker.solution_.gap <= 1e-8
    assert ranker.dual_coef_.shape == (len(P.y) + len(other.y),)
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-4)


def test_a_precomputed_kernel_cannot_learn_in_parts():
    K = P.X @ P.X.T
    ranker = DORM(kernel="precomputed").fit(K, P.y, qid=P.qid)
    with pytest.raises(InvalidInputError, match="`partial_fit` must be able to compute the kernel"):
        ranker.partial_fit(K, P.y, qid=P.qid)


# --- the course of a fit --------------------------------------------------------------------------


def test_progress_is_told_and_can_stop_the_fit():
    seen = []
    ranker = DORM(C=10.0, tol=1e-12, progress=lambda step: seen.append(step) or len(seen) == 2)
    ranker.fit(P.X, P.y, qid=P.qid)
    assert ranker.solution_.ending.reason == "callback"
    assert [step.iteration for step in seen] == [1, 2]


def test_progress_is_shown_on_standard_error(capfd):
    DORM(progress=True).fit(P.X, P.y, qid=P.qid)
    shown = capfd.readouterr()
    assert "gap" in shown.err
    assert shown.out == ""


def test_an_interrupted_fit_keeps_what_it_has():
    def interrupt(step):
        if step.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    ranker = DORM(C=10.0, tol=1e-12, progress=interrupt)
    with pytest.warns(ConvergenceWarning, match="Stopped by Ctrl-C after 2 iterations"):
        ranker.fit(P.X, P.y, qid=P.qid)
    assert ranker.solution_.gap > 0
    assert ranker.coef_.any()


def test_too_few_passes_are_told():
    with pytest.warns(ConvergenceWarning, match="Not converged after max_iter=1 iterations"):
        DORM(C=100.0, tol=1e-9, max_iter=1).fit(P.X, P.y, qid=P.qid)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"objective": "MAP"}, "`objective` must add up gains times discounts.*got AP"),
        ({"objective": "KendallTau"}, "`objective` must add up gains times discounts"),
        ({"objective": "Precision"}, "Precision needs a cut-off"),
        ({"objective": lambda y: y}, "A cost function must return a finite number"),
        ({"C": "large"}, "`C` must be a finite number above 0 or 'scale': got 'large'"),
        ({"C": 0.0}, "`C` must be a finite number above 0"),
        ({"decay": 0.0}, "`decay` must be an exponent above 0"),
        ({"decay": "sqrt"}, "`decay` must be an exponent above 0, 'log', 'loglog'"),
        ({"decay": [1.0, 2.0]}, "fall from position to position"),
        ({"decay": [1.0, 1.0]}, "fall from position to position"),
        ({"tol": 0.0}, "`tol` must be a finite number above 0"),
        ({"max_iter": 0}, "`max_iter` must be a whole number above 0"),
        ({"kernel": Gaussian(1.0), "basis": 100}, "`basis` as a number must lie between"),
    ],
)
def test_settings_without_sense_are_refused(options, match):
    with pytest.raises(InvalidInputError, match=match):
        DORM(**options).fit(P.X, P.y, qid=P.qid)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"y": None}, "requires y to be passed, but the target y is None"),
        ({"y": np.ones((29, 2))}, r"`y` must have shape \(n_items,\)"),
        ({"y": [1, 0]}, "`y` must have one entry per row"),
        ({"qid": [1, 0]}, "`qid` must have one entry per row"),
        ({"preliminary": [1, 0]}, "`preliminary` must have one entry per row"),
        ({"sources": [1, 0]}, "`sources` must have one entry per row"),
        ({"y": -P.y}, "`y` must not be negative for NDCG"),
    ],
)
def test_data_without_sense_are_refused(given, match):
    with pytest.raises(InvalidInputError, match=match):
        DORM(n_diverse=2).fit(P.X, **{"y": P.y, "qid": P.qid} | given)


def test_data_without_preferences_are_refused():
    with pytest.raises(NothingToLearnError, match="at least one query whose rankings differ"):
        DORM().fit(P.X, np.ones(len(P.y)), qid=P.qid)


def test_decays_are_those_of_the_paper():
    queries, i = Queries.from_qid([0, 0, 0, 0, 1, 1]), np.array([1, 2, 3, 4, 1, 2.0])
    np.testing.assert_allclose(decay_of(2, queries), (i + 1) ** -2.0)
    np.testing.assert_allclose(decay_of("log", queries), 1 / np.log(i + 2))
    np.testing.assert_allclose(decay_of("loglog", queries), 1 / np.log(np.log(i + 2)))
    assert decay_of([3, 2], queries).tolist() == [3, 2, 2, 2, 3, 2]


# --- a ranking function for each of the first positions -----------------------------------------


def function_blocks(costs, decay, n_functions, preliminary):
    """List the rows of scores and all planes of each query: one score an item and function."""
    blocks = []
    for rows in Queries.from_qid(SORTED.qid):
        n_items, c = len(rows), decay(np.arange(1.0, len(rows) + 1))
        cost = costs(SORTED.y[rows])

        def coefficients(ranking, n_items=n_items, c=c):
            found = np.zeros((n_items, n_functions))
            for j, item in enumerate(ranking):
                found[item, min(j, n_functions - 1)] = c[j]
            return found.ravel()

        def total(ranking, cost=cost):
            return sum(cost[item, j] for j, item in enumerate(ranking))

        rankings = list(permutations(range(n_items)))
        least = min(map(total, rankings))
        best = [ranking for ranking in rankings if total(ranking) < least + 1e-12]
        hint = preliminary[rows]
        target = max(best, key=lambda ranking: sum(c[j] * hint[i] for j, i in enumerate(ranking)))
        planes = [
            (coefficients(target) - coefficients(ranking), total(ranking) - least)
            for ranking in rankings
        ]
        blocks.append((np.kron(SORTED.X[rows], np.eye(n_functions)), 1.0, planes))
    return blocks


def kinds_first(y):
    places = np.zeros((len(y), len(y)))
    places[:, 0] = y != 1
    places[:, 1:2] = 0.5 * (y != 2)[:, None]
    return places


@pytest.mark.parametrize("n_functions", [2, 3])
def test_the_problem_of_several_functions_is_that_of_all_rankings(n_functions):
    preliminary = np.random.default_rng(5).normal(size=len(SORTED.y))
    ranker = DORM(kinds_first, C=0.7, decay=1.0, n_functions=n_functions, tol=1e-8, max_iter=20_000)
    ranker.fit(SORTED.X, SORTED.y, qid=SORTED.qid, preliminary=preliminary)
    blocks = function_blocks(kinds_first, lambda i: 1 / (i + 1), n_functions, preliminary)
    best = reference.structured_optimum(0.7, blocks, np.zeros(2 * n_functions))
    np.testing.assert_allclose(ranker.solution_.objective, best, rtol=1e-6)
    assert ranker.coef_.shape == (n_functions, 2)


def test_slacks_bound_the_cost_of_the_ranking_by_position():
    ranker = fitted(kinds_first, C=1.0, n_functions=3)
    order, slacks = ranker.rank_by_position(P.X, qid=P.qid), ranker.solution_.details["slacks"]
    losses = []
    for rows in np.split(order, np.cumsum([len(q) for q in Queries.from_qid(P.qid)])[:-1]):
        cost = kinds_first(P.y[rows])
        if (np.ptp(cost, axis=1) > 0).any():
            least = cost[linear_sum_assignment(cost)].sum()
            losses.append(np.trace(cost) - least)
    assert (np.sort(slacks) >= np.sort(losses) - 1e-9).all()


def test_one_function_ranks_by_its_scores(tmp_path):
    one = fitted("NDCG")
    np.testing.assert_array_equal(one.rank_by_position(P.X, qid=P.qid), one.rank(P.X, qid=P.qid))
    several = fitted("NDCG", n_functions=2, kernel=Gaussian(0.3), basis=5)
    several.save(tmp_path / "model")
    again = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.rank_by_position(P.X, qid=P.qid), several.rank_by_position(P.X, qid=P.qid)
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_functions": 0}, "`n_functions` must be"),
        ({"n_functions": 2, "kernel": Gaussian(0.3)}, "needs features: got a kernel"),
        ({"n_functions": 2, "objective": "RR"}, "got the reciprocal rank"),
        ({"n_functions": 2, "decay": (1.0, 0.0)}, "above 0 at every position"),
    ],
)
def test_what_several_functions_cannot_do_is_refused(options, match):
    with pytest.raises(InvalidInputError, match=match):
        DORM(**options).fit(P.X, P.y, qid=P.qid)


def test_several_functions_learn_all_at_once_and_without_sources():
    with pytest.raises(InvalidInputError, match="`partial_fit` needs a single"):
        DORM(n_functions=2).partial_fit(P.X, P.y, qid=P.qid)
    with pytest.raises(InvalidInputError, match="`sources` must come with a single"):
        DORM("NDCG @ 2", n_functions=2).fit(P.X, P.y, qid=P.qid, sources=np.arange(len(P.y)))
