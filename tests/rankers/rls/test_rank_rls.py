"""RankRLS minimises its cost, in whatever space it is solved."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse import random_array as sparse_random

import reference
from problems import problem
from rankwise import (
    Gaussian,
    InvalidInputError,
    Laplacian,
    Linear,
    NothingToLearnError,
    NumericalError,
    Polynomial,
    PreferenceGraph,
    RankRLS,
)
from rankwise.core.queries import TrainingData
from rankwise.graph.preference_graph import OutputGraphs
from rankwise.rankers.rls import rank_rls

CONVENTIONS = [
    {"cost": cost, "ties": ties, "query_weight": weight}
    for cost, ties in [
        ("magnitude", "drop"),
        ("magnitude", "keep"),
        ("unit", "drop"),
        ("relative", "drop"),
    ]
    for weight in ("items", "pairs", "equal")
]
ALPHAS = [1e-4, 1.0, 1e5]
KERNELS = [Linear(), Gaussian(0.3), Laplacian(0.2), Polynomial(2, 0.5, 1.0)]


def truth(p, cost, ties, query_weight, sample_weight=None):
    pairs = reference.score_pairs(p.y, p.qid, cost, ties, query_weight, sample_weight)
    return reference.laplacian(pairs, len(p.y))


def centred(scores, qid):
    """Subtract the mean of each query: scores mean nothing beyond that."""
    return scores - np.array([scores[qid == q].mean(axis=0) for q in qid])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("options", CONVENTIONS)
@pytest.mark.parametrize("n_features", [3, 40])
def test_linear_solution_equals_the_normal_equations(options, alpha, n_features):
    p = problem(seed=1, n_features=n_features)
    L, r = truth(p, **options)
    w = reference.fit_primal(p.X, L, r, alpha)
    ranker = RankRLS(alpha, **options).fit(p.X, p.y, qid=p.qid)
    np.testing.assert_allclose(ranker.coef_, w, rtol=1e-7, atol=1e-9 * np.abs(w).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("options", CONVENTIONS[::2])
def test_dual_solution_equals_the_normal_equations(kernel, options):
    p = problem(seed=2)
    L, r = truth(p, **options)
    K = kernel(p.X, p.X)
    scores = K @ reference.fit_dual(K, L, r, 0.5)
    ranker = RankRLS(0.5, kernel=kernel, **options).fit(p.X, p.y, qid=p.qid)
    np.testing.assert_allclose(
        centred(ranker.predict(p.X), p.qid), centred(scores, p.qid), atol=1e-10
    )


@pytest.mark.parametrize("n_features", [2, 60])
def test_linear_kernel_gives_the_same_in_every_form(n_features):
    p = problem(seed=3, n_features=n_features)
    fits = [
        RankRLS(0.7).fit(p.X, p.y, p.qid).predict(p.X),
        RankRLS(0.7, kernel=lambda A, B: A @ B.T).fit(p.X, p.y, p.qid).predict(p.X),
        RankRLS(0.7, kernel="precomputed").fit(p.X @ p.X.T, p.y, p.qid).predict(p.X @ p.X.T),
        RankRLS(0.7, basis=len(p.y)).fit(p.X, p.y, p.qid).predict(p.X),
        RankRLS(0.7).fit(csr_array(p.X), p.y, p.qid).predict(csr_array(p.X)),
    ]
    for other in fits[1:]:
        np.testing.assert_allclose(centred(other, p.qid), centred(fits[0], p.qid), atol=1e-9)


def test_basis_of_all_rows_equals_the_full_kernel():
    p = problem(seed=4)
    full = RankRLS(0.1, kernel=Gaussian(0.5)).fit(p.X, p.y, p.qid)
    all_rows = RankRLS(0.1, kernel=Gaussian(0.5), basis=np.arange(len(p.y)))
    scores = all_rows.fit(p.X, p.y, p.qid).predict(p.X)
    np.testing.assert_allclose(centred(scores, p.qid), centred(full.predict(p.X), p.qid), atol=1e-8)


@pytest.mark.parametrize("duplicated", [False, True])
def test_basis_solution_equals_the_subset_of_regressors(duplicated):
    p = problem(seed=5)
    rows = p.X[[1, 1, 4, 9]] if duplicated else p.X[[1, 4, 9]]
    L, r = truth(p, **CONVENTIONS[0])
    KR, KRR = Gaussian(0.5)(p.X, p.X[[1, 4, 9]]), Gaussian(0.5)(p.X[[1, 4, 9]], p.X[[1, 4, 9]])
    a = np.linalg.solve(KR.T @ L @ KR + 0.3 * KRR, KR.T @ r)  # [PTA09] (42)
    ranker = RankRLS(0.3, kernel=Gaussian(0.5), basis=rows).fit(p.X, p.y, p.qid)
    np.testing.assert_allclose(ranker.predict(p.X), KR @ a, atol=1e-9)
    assert len(ranker.dual_coef_) == len(rows)


def test_basis_as_number_indices_and_rows_agree():
    p = problem(seed=6)
    drawn = RankRLS(kernel="gaussian", basis=5, random_state=0).fit(p.X, p.y, p.qid)
    rows = drawn.predictor_.rows
    given = RankRLS(kernel="gaussian", basis=rows).fit(p.X, p.y, p.qid)
    index = [int(np.flatnonzero((row == p.X).all(axis=1))[0]) for row in rows]
    chosen = RankRLS(kernel="gaussian", basis=index).fit(p.X, p.y, p.qid)
    np.testing.assert_allclose(given.predict(p.X), drawn.predict(p.X), atol=1e-12)
    np.testing.assert_allclose(chosen.predict(p.X), drawn.predict(p.X), atol=1e-12)


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
@pytest.mark.parametrize("n_pairs", [1, 6, 60])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
def test_comparisons_equal_the_normal_equations(n_pairs, kernel, cost):
    rng = np.random.default_rng(n_pairs)
    X = rng.normal(size=(15, 4))
    pairs = rng.integers(0, 15, size=(n_pairs, 2))
    pairs[:, 1] = np.where(pairs[:, 0] == pairs[:, 1], (pairs[:, 0] + 1) % 15, pairs[:, 1])
    margin, weight = rng.normal(size=n_pairs), rng.uniform(0.5, 2, n_pairs)
    L, r = reference.laplacian(reference.compared_pairs(pairs, margin, weight, cost), 15)
    K = kernel(X, X)
    scores = K @ reference.fit_dual(K, L, r, 0.2)
    ranker = RankRLS(0.2, kernel=kernel, cost=cost)
    ranker.fit(X, pairs=pairs, pair_margin=margin, pair_weight=weight)
    difference = ranker.predict(X) - scores
    np.testing.assert_allclose(difference, difference[0], atol=1e-9)


def test_alpha_is_the_alpha_of_ridge():
    from sklearn.linear_model import Ridge

    p = problem(seed=7)
    ridge = Ridge(alpha=2.5).fit(p.X, p.y)
    np.testing.assert_allclose(RankRLS(2.5, ties="keep").fit(p.X, p.y).coef_, ridge.coef_)


@pytest.mark.parametrize("ties", ["drop", "keep"])
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_outputs_are_learned_as_if_alone(ties, kernel):
    p = problem(seed=8)
    rng = np.random.default_rng(0)
    Y = np.column_stack([p.y, rng.integers(0, 2, len(p.y)), rng.normal(size=len(p.y)), p.y])
    ranker = RankRLS(kernel=kernel, ties=ties)
    together = ranker.fit(p.X, Y, p.qid).predict(p.X)
    for k in range(Y.shape[1]):
        alone = ranker.fit(p.X, Y[:, k], p.qid).predict(p.X)
        np.testing.assert_allclose(together[:, k], alone, atol=1e-10)


def test_outputs_of_the_relative_cost_are_learned_as_if_alone():
    p = problem(seed=9)
    Y = np.column_stack([p.y, p.y**2])
    together = RankRLS(cost="relative").fit(p.X, Y, p.qid)
    alone = RankRLS(cost="relative").fit(p.X, Y[:, 1], p.qid)
    np.testing.assert_allclose(together.coef_[1], alone.coef_, atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
@pytest.mark.parametrize("n_features", [3, 50])
def test_path_equals_separate_fits(kernel, n_features):
    p = problem(seed=10, n_features=n_features)
    Y = np.column_stack([p.y, -p.y])
    alphas = [1e-6, 0.1, 10.0, 1e6]
    for y in (p.y, Y):
        path = RankRLS(kernel=kernel).fit_path(p.X, y, p.qid, alphas=alphas)
        separate = [RankRLS(a, kernel=kernel).fit(p.X, y, p.qid).predict(p.X) for a in alphas]
        np.testing.assert_allclose(path.predict(p.X), separate, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose([r.predict(p.X) for r in path], separate, rtol=1e-6, atol=1e-9)
        assert [r.alpha for r in path] == alphas


def test_rows_of_useless_queries_change_nothing():
    p = problem(seed=11)
    X = np.vstack([p.X, 5 * p.X[:3]])
    y, qid = np.r_[p.y, [1, 1, 7]], np.r_[p.qid, [900, 900, 901]]
    more = RankRLS().fit(X, y, qid)
    np.testing.assert_allclose(more.coef_, RankRLS().fit(p.X, p.y, p.qid).coef_, atol=1e-13)
    assert more.n_ignored_queries_ == 2 + RankRLS().fit(p.X, p.y, p.qid).n_ignored_queries_


@pytest.mark.parametrize("n_features", [3, 50])
def test_a_large_offset_changes_nothing(n_features):
    p = problem(seed=13, n_features=n_features)
    exact = np.round(p.X * 2**20) / 2**20
    coef = RankRLS(1e-3).fit(exact, p.y, p.qid).coef_
    moved = RankRLS(1e-3).fit(exact + 2.0**20, p.y, p.qid).coef_
    np.testing.assert_allclose(moved, coef, rtol=1e-6)


def test_constant_features_get_no_weight():
    p = problem(seed=14)
    per_query = (p.qid / 7.0)[:, None]
    X = np.hstack([p.X, np.full((len(p.y), 1), 3.0), per_query])
    ranker = RankRLS(1e-8).fit(X, p.y, p.qid)
    np.testing.assert_allclose(ranker.coef_[3:], 0.0, atol=1e-9)
    np.testing.assert_allclose(ranker.coef_[:3], RankRLS(1e-8).fit(p.X, p.y, p.qid).coef_)


def test_duplicate_rows_and_singular_kernels_are_fine():
    p = problem(seed=16)
    X = np.vstack([p.X, p.X])
    y, qid = np.r_[p.y, p.y], np.r_[p.qid, p.qid]
    for alpha in (1e-12, 1.0):
        scores = RankRLS(alpha, kernel=Gaussian(0.5)).fit(X, y, qid).predict(X)
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(scores[: len(p.y)], scores[len(p.y) :], atol=1e-9)


def test_vanishing_alpha_interpolates():
    p = problem(seed=17, grades=None)
    ranker = RankRLS(1e-10, kernel=Gaussian(1.0)).fit(p.X, p.y, p.qid)
    np.testing.assert_allclose(centred(ranker.predict(p.X), p.qid), centred(p.y, p.qid), atol=1e-6)


def test_slightly_indefinite_kernel_is_accepted_and_a_truly_indefinite_one_refused():
    p = problem(seed=18)
    K = p.X @ p.X.T
    noise = np.random.default_rng(0).normal(size=K.shape) * 1e-13
    RankRLS(kernel="precomputed").fit(K + noise + noise.T, p.y, p.qid)
    for alpha in (1e-3, 1e3):
        with pytest.raises(InvalidInputError, match="positive semidefinite"):
            RankRLS(alpha, kernel="precomputed").fit(K - np.eye(len(K)), p.y, p.qid)
    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        RankRLS(kernel="precomputed").fit_path(K - np.eye(len(K)), p.y, p.qid, alphas=[1e3])
    with pytest.raises(InvalidInputError, match="positive semidefinite.*basis"):
        RankRLS(kernel=lambda A, B: -(A @ B.T), basis=4).fit(p.X, p.y, p.qid)


def test_rank_orders_each_query_and_keeps_the_best():
    p = problem(seed=19)
    ranker = RankRLS().fit(p.X, p.y, p.qid)
    scores = ranker.predict(p.X)
    order = ranker.rank(p.X, p.qid)
    assert sorted(order) == list(range(len(p.y)))
    ids = list(dict.fromkeys(p.qid))
    best = ranker.rank(p.X, p.qid, k=1)
    assert [p.qid[i] for i in best] == ids
    for q, i in zip(ids, best, strict=True):
        assert scores[i] == scores[p.qid == q].max()
        assert (np.diff(scores[order][p.qid[order] == q]) <= 0).all()
    whole = RankRLS().fit(p.X, p.y)
    right = np.argsort(-whole.predict(p.X), kind="stable")
    np.testing.assert_array_equal(whole.rank(p.X), right)


def test_score_is_the_mean_share_of_pairs_in_order():
    p = problem(seed=20)
    ranker = RankRLS().fit(p.X, p.y, p.qid)
    scores, values = ranker.predict(p.X), []
    for q in set(p.qid):
        pairs = reference.score_pairs(
            p.y, np.where(p.qid == q, q, np.arange(len(p.y)) - 999), "unit", "drop", "pairs"
        )
        if pairs:
            values.append(np.mean([(z * (scores[i] - scores[j]) > 0) for i, j, z, _ in pairs]))
    assert ranker.score(p.X, p.y, p.qid) == pytest.approx(np.mean(values))


P = problem(seed=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankRLS(-1.0).fit(P.X, P.y), "`alpha` must be a finite number above 0: got -1"),
        (lambda: RankRLS(0).fit(P.X, P.y), "`alpha` must be"),
        (lambda: RankRLS("a").fit(P.X, P.y), "`alpha` must be"),
        (lambda: RankRLS(kernel="rbf").fit(P.X, P.y), "`kernel` must be one of"),
        (lambda: RankRLS(kernel=3).fit(P.X, P.y), "`kernel` must be a name"),
        (lambda: RankRLS(cost="hinge").fit(P.X, P.y), "`cost` must be one of"),
        (lambda: RankRLS(ties="x").fit(P.X, P.y), "`ties` must be one of"),
        (lambda: RankRLS(basis=0).fit(P.X, P.y), "`basis` as a number"),
        (lambda: RankRLS(basis=[99]).fit(P.X, P.y), "`basis` as indices"),
        (lambda: RankRLS(basis=[[1.0]]).fit(P.X, P.y), "`basis` must be a number"),
        (lambda: RankRLS().fit(P.X, P.y[:-1]), "X has 19 rows, y has 18"),
        (lambda: RankRLS().fit(P.X, P.y, P.qid[:-1]), "X has 19 rows, qid has 18"),
        (lambda: RankRLS().fit(P.X, P.y, sample_weight=[1, 2]), "`sample_weight` must have one"),
        (lambda: RankRLS().fit(P.X), "requires y to be passed"),
        (lambda: RankRLS().fit(P.X, P.y, pairs=[[0, 1]]), "got both"),
        (lambda: RankRLS().fit(P.X, pairs=[[0, 99]]), "rows 0 to 18"),
        (lambda: RankRLS().fit(P.X * np.nan, P.y), "contains NaN.*WithinQueryImputer.*AutoRanker"),
        (lambda: RankRLS().fit(P.X, P.y).predict(P.X * np.nan), "NaN.*WithinQueryImputer"),
        (lambda: RankRLS().fit(P.X, np.full(19, np.inf)), "`y` must be finite"),
        (lambda: RankRLS().fit(P.X[:0], P.y[:0]), "0 sample"),
        (lambda: RankRLS().fit(P.X[:1], P.y[:1]), "1 sample"),
        (lambda: RankRLS().fit(P.X, np.ones(19)), "at least one preference"),
        (lambda: RankRLS().fit(P.X, P.y, qid=np.arange(19)), "at least one preference"),
        (lambda: RankRLS().fit_path(P.X, P.y, alphas=[]), "`alphas` must be"),
        (lambda: RankRLS().fit_path(P.X, P.y, alphas=[1, -1]), "`alphas` must be"),
        (lambda: RankRLS(kernel="laplacian").fit(csr_array(P.X), P.y), "must have dense rows"),
        (lambda: RankRLS().fit(P.X, P.y, P.qid).score(P.X, P.y), "`score` must be given `qid`"),
        (lambda: RankRLS().fit(P.X, P.y).score(P.X, np.c_[P.y, P.y]), "shape of the prediction"),
        (lambda: RankRLS().fit(P.X, P.y).rank(P.X, k=0), "`k` must be"),
        (lambda: RankRLS().fit(P.X, np.c_[P.y, P.y]).rank(P.X), "single output"),
        (lambda: RankRLS().fit(P.X, P.y).predict(P.X[:, :2]), "2 features"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_errors_are_ours():
    with pytest.raises(NothingToLearnError):
        RankRLS().fit(P.X, np.ones(19))


def test_the_graph_of_the_estimator_is_the_public_one():
    graph = PreferenceGraph.from_scores(P.y, P.qid)
    w = np.linalg.solve(P.X.T @ (graph @ P.X) + np.eye(3), P.X.T @ graph.rhs)
    np.testing.assert_allclose(RankRLS().fit(P.X, P.y, P.qid).coef_, w, atol=1e-13)


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0, 1e3])
def test_scores_are_right_or_refused(degree, offset, alpha):
    """Against whole numbers of any size: K, L and alpha are rational."""
    rng = np.random.default_rng(int(offset) + degree)
    X = rng.integers(-8, 9, size=(8, 2)) / 4 + offset
    y = rng.permutation(8) / 2
    kernel = Polynomial(degree, gamma=0.5)
    expected = reference.fit_exactly(
        [[Fraction(v) for v in row] for row in X.tolist()],
        [Fraction(v) for v in y.tolist()],
        lambda a, b: (sum(u * v for u, v in zip(a, b, strict=True)) / 2 + 1) ** degree,
        Fraction(alpha),
    )
    ranker = RankRLS(alpha, kernel=kernel)
    for fit in (ranker.fit, lambda X, y: ranker.fit_path(X, y, alphas=[alpha])[0]):
        try:
            scores = fit(X, y).predict(X)
        except NumericalError as error:
            assert "larger than their rounding errors" in str(error)  # noqa: PT017
            assert offset >= 1e3 or alpha < 1e-3
            continue
        np.testing.assert_allclose(scores - scores[0], expected, atol=1e-2 * np.ptp(y))


def test_solutions_that_are_not_finite_are_refused():
    p = problem(seed=20)
    with pytest.raises(NumericalError, match="kernel .* must be finite"):
        RankRLS(kernel=Polynomial(1000)).fit(1e3 * p.X, p.y, p.qid)
    with pytest.raises(NumericalError, match="normal equations must be finite"):
        RankRLS().fit(p.X * 1e138, p.y, p.qid, sample_weight=np.full(len(p.y), 1e60))


def test_fit_path_solves_what_fit_solves():
    """A kernel that rounding makes indefinite far below alpha is no invalid kernel."""
    p = problem(seed=21)
    kernel = Polynomial(2, gamma=1.0)
    path = RankRLS(kernel=kernel).fit_path(p.X + 1e4, p.y, p.qid, alphas=[1e6, 1e8])
    for ranker in path:
        alone = RankRLS(ranker.alpha, kernel=kernel).fit(p.X + 1e4, p.y, p.qid)
        difference = ranker.predict(p.X + 1e4) - alone.predict(p.X + 1e4)
        np.testing.assert_allclose(centred(difference, p.qid), 0.0, atol=1e-2)


@pytest.mark.parametrize("n_features", [4, 60])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows_solved_by_iteration_equal_the_closed_form(n_features, weighted):
    p = problem(seed=5, sizes=(6, 1, 5, 9, 2, 3), n_features=n_features)
    Y = np.column_stack([p.y, np.roll(p.y, 1), 2 * p.y])
    weight = np.random.default_rng(0).integers(0, 3, len(p.y)) if weighted else None
    X = csr_array(np.where(p.X > 0, p.X, 0.0))
    for y in (p.y, Y):
        exact = RankRLS(0.5).fit(X, y, p.qid, weight).coef_
        data = TrainingData.of(len(y), y, p.qid, weight)
        graphs = OutputGraphs.of(data, cost="magnitude", ties="drop", query_weight="items")
        alone = rank_rls.iterate(X, graphs, np.array([0.5]))[0]
        path = rank_rls.iterate(X, graphs, np.array([8.0, 0.5]))[1]
        for weights in (alone, path):
            np.testing.assert_allclose(weights.T.squeeze(), exact, rtol=1e-8, atol=1e-10)
        assert rank_rls.iterate(X, graphs, np.array([0.5]), max_iter=1) is None


def test_many_unknowns_of_few_entries_are_iterated_to_the_solution():
    rng = np.random.default_rng(0)
    X = csr_array(sparse_random((3000, 5000), density=1e-3, format="csr", rng=rng))
    y, qid = rng.normal(size=3000), np.repeat(np.arange(20), 150)
    assert rank_rls._iterations_are_quicker(X, 2980)
    graph = PreferenceGraph.from_scores(y, qid)
    rhs = X.T @ graph.rhs
    for ranker in (
        RankRLS(0.5).fit(X, y, qid),
        RankRLS().fit_path(X, y, qid, alphas=[8.0, 0.5])[1],
    ):
        left = X.T @ (graph @ (X @ ranker.coef_)) + 0.5 * ranker.coef_  # [APS10] (8)
        assert np.linalg.norm(left - rhs) <= 1e-8 * np.linalg.norm(rhs)


def test_iterations_are_for_many_unknowns_of_few_entries():
    X = sparse_random((3000, 5000), density=1e-3, format="csr", rng=np.random.default_rng(0))
    assert rank_rls._iterations_are_quicker(X, 2999)
    assert not rank_rls._iterations_are_quicker(X, 1999)
