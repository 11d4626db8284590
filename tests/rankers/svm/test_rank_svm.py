"""RankSVM: the support vector machine on differences, without the differences."""

import signal

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.svm import LinearSVC

import rankwise
import reference
from problems import problem
from rankwise import ConvergenceWarning, Gaussian, InvalidInputError, NothingToLearnError, RankSVM
from rankwise.rankers.base import RankerPath

LOSSES = ["hinge", "squared_hinge"]
P = problem(seed=0, sizes=(6, 5, 1, 7, 4, 9))


def exact(loss, C=1.0, **options):
    """Return a ranker that is solved as far as the loss allows."""
    return RankSVM(C, loss=loss, tol=1e-12 if loss == "squared_hinge" else 1e-7, **options)


def list_pairs(P, cost="unit", query_weight="pairs", sample_weight=None):
    """Return winners, losers, margins and weights of all pairs."""
    listed = reference.score_pairs(P.y, P.qid, cost, "drop", query_weight, sample_weight)
    return map(np.array, zip(*reference.winners_first(listed), strict=True))


def linear_svc(D, margin, weight, C, loss):
    """Solve by LinearSVC: a margin m divides the difference and weighs m or m^2 times as much."""
    signs = np.where(np.arange(len(D)) % 2, 1.0, -1.0)
    svc = LinearSVC(
        C=C, loss=loss, fit_intercept=False, dual=loss == "hinge", tol=1e-10, max_iter=10**6
    )
    weight = weight * (margin if loss == "hinge" else margin**2)
    rows = signs[:, None] * D / margin[:, None]
    return svc.fit(rows, signs, sample_weight=weight).coef_[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_equals_linear_svc_on_differences(loss, C):
    i, j, margin, weight = list_pairs(P)
    expected = linear_svc(P.X[i] - P.X[j], margin, weight, C, loss)
    ranker = exact(loss, C).fit(P.X, P.y, qid=P.qid)
    np.testing.assert_allclose(ranker.coef_, expected, atol=1e-6)
    assert ranker.solution_.converged


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("query_weight", ["pairs", "items", "equal"])
@pytest.mark.parametrize("cost", ["unit", "magnitude"])
def test_equals_linear_svc_with_margins_and_weights(loss, query_weight, cost):
    Q = problem(seed=1, sizes=(6, 5, 1, 7, 4), grades=None)
    sample_weight = np.random.default_rng(1).uniform(0.5, 2.0, len(Q.y))
    i, j, margin, weight = list_pairs(Q, cost, query_weight, sample_weight)
    expected = linear_svc(Q.X[i] - Q.X[j], margin, weight, 2.0, loss)
    ranker = exact(loss, 2.0, cost=cost, query_weight=query_weight)
    ranker.fit(Q.X, Q.y, qid=Q.qid, sample_weight=sample_weight)
    np.testing.assert_allclose(ranker.coef_, expected, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cost", ["unit", "magnitude"])
def test_scores_equal_their_pairs(loss, cost):
    i, j, margin, weight = list_pairs(P, cost)
    by_scores = exact(loss, cost=cost).fit(P.X, P.y, qid=P.qid)
    pairs = np.column_stack([i, j])
    by_pairs = exact(loss, cost=cost).fit(P.X, pairs=pairs, pair_margin=margin, pair_weight=weight)
    np.testing.assert_allclose(by_scores.coef_, by_pairs.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_cost_decides_what_the_margins_of_comparisons_count(loss):
    Q = problem(seed=1, sizes=(6, 5, 7), grades=None)
    X, (i, j, margin, weight) = Q.X, list_pairs(Q, "magnitude")
    given = {"pairs": np.column_stack([i, j]), "pair_weight": weight}
    magnitude = exact(loss, cost="magnitude").fit(X, pair_margin=margin, **given)
    expected = linear_svc(X[i] - X[j], margin, weight, 1.0, loss)
    np.testing.assert_allclose(magnitude.coef_, expected, atol=1e-5)
    unit = exact(loss, cost="unit").fit(X, pair_margin=margin, **given)
    np.testing.assert_allclose(unit.coef_, exact(loss).fit(X, **given).coef_, atol=1e-12)
    assert np.abs(unit.coef_ - magnitude.coef_).max() > 1e-3
    with pytest.raises(InvalidInputError, match="got 'relative'.* Give the pairs as `pairs`"):
        RankSVM(loss=loss, cost="relative").fit(X, pair_margin=margin, **given)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_equal_repetition(loss):
    counts = np.random.default_rng(2).integers(0, 3, len(P.y))
    rows = np.repeat(np.arange(len(P.y)), counts)
    weighted = exact(loss).fit(P.X, P.y, qid=P.qid, sample_weight=counts)
    repeated = exact(loss).fit(P.X[rows], P.y[rows], qid=P.qid[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)
    pairs = np.array([[0, 1], [1, 2], [2, 0], [5, 3]])
    weighted = exact(loss).fit(P.X, pairs=pairs, pair_weight=[1, 2, 0, 3])
    repeated = exact(loss).fit(P.X, pairs=np.repeat(pairs, [1, 2, 0, 3], axis=0))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_neither_the_order_of_rows_nor_offsets_matter(loss):
    expected = exact(loss).fit(P.X, P.y, qid=P.qid).coef_
    rows = np.random.default_rng(3).permutation(len(P.y))
    shift = 100.0 * P.qid[:, None]
    again = exact(loss).fit((P.X + shift)[rows], (P.y - P.qid)[rows], qid=P.qid[rows])
    np.testing.assert_allclose(again.coef_, expected, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_constant_features_get_no_weight(loss):
    X = np.column_stack([P.X, np.full(len(P.y), 7.0), P.qid])
    ranker = exact(loss).fit(X, P.y, qid=P.qid)
    np.testing.assert_allclose(ranker.coef_[3:], 0.0, atol=1e-7)
    expected = exact(loss).fit(P.X, P.y, qid=P.qid).coef_
    np.testing.assert_allclose(ranker.coef_[:3], expected, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_features", [60, 600])
def test_more_features_than_items_dense_sparse_and_float32(loss, n_features):
    Q = problem(seed=4, n_features=n_features)
    X = np.where(np.random.default_rng(4).random(Q.X.shape) < 0.1, Q.X, 0.0)
    rows = {"dense": X, "sparse": csr_array(X), "single": X.astype(np.float32)}
    scores = {}
    for name, given in rows.items():
        ranker = RankSVM(loss=loss, tol=1e-6).fit(given, Q.y, qid=Q.qid)
        assert ranker.solution_.converged
        scores[name] = ranker.predict(X) - ranker.predict(X[:1])
    np.testing.assert_allclose(scores["sparse"], scores["dense"], atol=2e-3)
    np.testing.assert_allclose(scores["single"], scores["dense"], atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_kernel_is_linear_on_its_empirical_map(loss):
    kernel = Gaussian(0.3)
    ranker = exact(loss, kernel=kernel).fit(P.X, P.y, qid=P.qid)
    values, V = np.linalg.eigh(kernel(P.X, P.X))
    Z = V * np.sqrt(np.maximum(values, 0.0))
    linear = exact(loss).fit(Z, P.y, qid=P.qid)
    np.testing.assert_allclose(ranker.predict(P.X), Z @ linear.coef_, atol=1e-5)
    assert ranker.dual_coef_.shape == (len(P.y),)
    assert ranker.solution_.objective == pytest.approx(linear.solution_.objective, rel=1e-7)


@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
def test_the_hinge_of_a_kernel_reaches_the_quadratic_program(C):
    rng = np.random.default_rng(0)
    X, y, kernel = rng.normal(size=(12, 3)), rng.permutation(12) / 12, Gaussian(1.0)
    pairs = reference.winners_first(reference.score_pairs(y, np.zeros(12), "unit", "drop", "pairs"))
    best = reference.svm_quadratic_program(pairs, kernel(X, X), C)
    solution = RankSVM(C, loss="hinge", kernel=kernel, tol=1e-5).fit(X, y).solution_
    assert solution.bound <= best * (1 + 1e-6)
    assert solution.objective == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize(("n_items", "C"), [(200, 1e6), (520, 1e6)])
def test_the_hinge_of_a_kernel_converges_with_next_to_no_regularisation(n_items, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 20))
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * rng.normal(size=n_items)
    solution = RankSVM(C, loss="hinge", kernel=Gaussian(0.05)).fit(X, y).solution_
    assert solution.converged
    assert solution.gap <= 1e-4


def test_kernels_given_in_other_ways_are_the_same():
    K = Gaussian(0.3)(P.X, P.X)
    expected = exact("squared_hinge", kernel=Gaussian(0.3)).fit(P.X, P.y, qid=P.qid).predict(P.X)
    given = exact("squared_hinge", kernel="precomputed").fit(K, P.y, qid=P.qid)
    np.testing.assert_allclose(given.predict(K), expected, atol=1e-9)
    assert given.__sklearn_tags__().input_tags.pairwise
    basis = exact("squared_hinge", kernel=Gaussian(0.3), basis=np.arange(len(P.y)))
    np.testing.assert_allclose(basis.fit(P.X, P.y, qid=P.qid).predict(P.X), expected, atol=1e-9)


def test_a_singular_kernel_equals_the_linear_problem():
    X = np.vstack([P.X, P.X])  # every row twice: the kernel has rank 3
    y, qid = np.tile(P.y, 2), np.tile(P.qid, 2)
    linear = exact("squared_hinge").fit(X, y, qid=qid)
    kernel = exact("squared_hinge", kernel=lambda A, B: A @ B.T).fit(X, y, qid=qid)
    np.testing.assert_allclose(kernel.predict(P.X), linear.predict(P.X), atol=1e-8)


def test_a_basis_restricts_the_function_to_its_rows():
    ranker = RankSVM(kernel=Gaussian(0.3), basis=5, random_state=0).fit(P.X, P.y, qid=P.qid)
    assert ranker.dual_coef_.shape == (5,)
    again = clone(ranker).fit(P.X, P.y, qid=P.qid)
    np.testing.assert_array_equal(again.predict(P.X), ranker.predict(P.X))
    rows = ranker.predictor_.rows
    np.testing.assert_allclose(
        ranker.predict(P.X), Gaussian(0.3)(P.X, rows) @ ranker.dual_coef_, atol=1e-12
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.3)])
def test_path_equals_refit(loss, kernel):
    Cs = [0.01, 1.0, 0.1]
    path = exact(loss, kernel=kernel).fit_path(P.X, P.y, P.qid, Cs=Cs)
    assert isinstance(path, RankerPath)
    assert path.grid.tolist() == [ranker.C for ranker in path] == Cs
    np.testing.assert_allclose(path.predict(P.X)[1], path[1].predict(P.X), atol=1e-12)
    for ranker in path:
        again = clone(ranker).fit(P.X, P.y, qid=P.qid)
        np.testing.assert_allclose(ranker.predict(P.X), again.predict(P.X), atol=1e-4)
        assert ranker.n_queries_ == 6
        assert ranker.n_ignored_queries_ >= 1
        assert ranker.fitted_with_qid_


def test_a_path_ends_where_it_is_stopped():
    ranker = RankSVM(progress=lambda step: step.iteration == 2)
    assert [r.n_iter_ for r in ranker.fit_path(P.X, P.y, P.qid, Cs=[1.0, 2.0, 3.0])] == [2]


def test_weights_may_be_changed_without_a_change_of_the_solution():
    ranker = RankSVM().fit(P.X, P.y, qid=P.qid)
    point = ranker.solution_.point.copy()
    ranker.coef_ *= 2.0
    np.testing.assert_array_equal(ranker.solution_.point, point)


def test_the_certificate_is_saved_with_the_ranker(tmp_path):
    ranker = RankSVM(loss="hinge").fit(P.X, P.y, qid=P.qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert loaded.solution_.gap == ranker.solution_.gap
    assert loaded.solution_.ending == ranker.solution_.ending


def test_an_unfinished_fit_warns_and_keeps_the_best():
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations.* lower C"):
        rough = RankSVM(loss="hinge", max_iter=1).fit(P.X, P.y, qid=P.qid)
    assert rough.n_iter_ == 1
    wide = problem(seed=9, grades=None, n_features=60)
    with pytest.warns(ConvergenceWarning, match="rounding errors end the run"):
        RankSVM(loss="hinge", tol=1e-15).fit(wide.X, wide.y, qid=wide.qid)

    def press(_step):
        signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="Ctrl-C after 1 iterations; the best so far"):
        stopped = RankSVM(loss="hinge", progress=press).fit(P.X, P.y, qid=P.qid)
    np.testing.assert_array_equal(stopped.coef_, rough.coef_)


def test_a_callback_stops_without_a_warning():
    steps = []
    ranker = RankSVM(loss="hinge", progress=lambda step: steps.append(step) or len(steps) == 2)
    assert ranker.fit(P.X, P.y, qid=P.qid).n_iter_ == 2
    assert ranker.solution_.ending.reason == "callback"


def test_progress_is_shown_on_standard_error(capsys):
    RankSVM(progress=True).fit(P.X, P.y, qid=P.qid)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "gap" in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "`C` must be a finite number above 0: got 0.0"),
        ({"loss": "log"}, "`loss` must be one of 'hinge', 'squared_hinge': got 'log'"),
        ({"cost": "relative"}, "`cost` must be one of 'unit', 'magnitude': got 'relative'"),
        ({"tol": 0.0}, "`tol` must be a finite number above 0: got 0.0"),
        ({"max_iter": 0}, "`max_iter` must be a whole number above 0: got 0"),
        ({"query_weight": "none"}, "`query_weight` must be .*one of"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(InvalidInputError, match=message):
        RankSVM(**options).fit(P.X, P.y, qid=P.qid)


def test_data_are_checked():
    with pytest.raises(InvalidInputError, match=r"`y` must have shape \(n_items,\): got \(32, 2\)"):
        RankSVM().fit(P.X, np.column_stack([P.y, P.y]), qid=P.qid)
    with pytest.raises(NothingToLearnError, match="at least one preference"):
        RankSVM().fit(P.X, np.zeros(len(P.y)))
    with pytest.raises(InvalidInputError, match="either scores .* or comparisons"):
        RankSVM().fit(P.X, P.y, pairs=[[0, 1]])
    with pytest.raises(InvalidInputError, match="one entry per pair: there are 1"):
        RankSVM().fit(P.X, pairs=[[0, 1]], pair_margin=[1.0, 2.0])
    with pytest.raises(InvalidInputError, match="must have dense rows"):
        RankSVM(kernel="laplacian").fit(csr_array(P.X), P.y)
    with pytest.raises(InvalidInputError, match="must be positive semidefinite"):
        RankSVM(kernel="precomputed").fit(-np.eye(len(P.y)), P.y)
    with pytest.raises(InvalidInputError, match="`Cs` must hold at least one value"):
        RankSVM().fit_path(P.X, P.y, Cs=[])
    with pytest.raises(InvalidInputError, match="`Cs` must be .* finite numbers above 0: got -1.0"):
        RankSVM().fit_path(P.X, P.y, Cs=[1.0, -1.0])
