"""Conjugate gradients on products with a kernel find what its matrix gives."""

import signal

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise
from laws.namespaces import every_namespace
from problems import problem
from rankwise import (
    ConjugateGradients,
    ConvergenceWarning,
    Gaussian,
    InvalidInputError,
    NumericalError,
    Polynomial,
    PreferenceGraph,
    RankRLS,
)
from rankwise.core.namespaces import is_on_host, to_host
from rankwise.features.kernels import own_product, single_product
from rankwise.solve.kernel_iteration import LowRank, MatrixFree, solve_by_iterations

P = problem(seed=1, sizes=(40, 1, 55, 30, 2, 90), grades=4, n_features=4)
EXACT = ConjugateGradients(tol=1e-13, n_basis=60)
CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
KERNELS = ["gaussian", "laplacian", "polynomial", lambda A, B: (A @ B.T + 1) ** 2]


def close(found, expected, share=1e-8):
    np.testing.assert_allclose(found, expected, atol=share * np.abs(expected).max())


@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_iterated_equals_direct(cost, ties, kernel):
    options = {"kernel": kernel, "cost": cost, "ties": ties}
    expected = RankRLS(0.1, solver="direct", **options).fit(P.X, P.y, qid=P.qid)
    found = RankRLS(0.1, solver=EXACT, random_state=0, **options).fit(P.X, P.y, qid=P.qid)
    close(found.predict(P.X), expected.predict(P.X))
    close(found.dual_coef_, expected.dual_coef_)


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
def test_several_outputs_and_weights(query_weight):
    Y = np.column_stack([P.y, np.sin(5.0 * P.X[:, 0])])
    weight = np.random.default_rng(0).integers(0, 3, len(P.y)).astype(float)
    fitted = [
        RankRLS(kernel="gaussian", solver=solver, query_weight=query_weight, random_state=0).fit(
            P.X, Y, P.qid, weight
        )
        for solver in ("direct", EXACT)
    ]
    close(fitted[1].dual_coef_, fitted[0].dual_coef_)


def test_comparisons_sparse_rows_and_precomputed_kernels():
    pairs = np.random.default_rng(0).permutation(len(P.y))[:200].reshape(100, 2)
    sparse, K = csr_array(np.where(P.X > 0, P.X, 0.0)), Gaussian(0.3)(P.X, P.X)
    for X, kernel in [(P.X, "gaussian"), (sparse, Gaussian(0.3)), (K, "precomputed")]:
        expected = RankRLS(kernel=kernel, solver="direct").fit(X, pairs=pairs)
        found = RankRLS(kernel=kernel, solver=EXACT, random_state=0).fit(X, pairs=pairs)
        close(found.dual_coef_, expected.dual_coef_)


def test_path_equals_direct():
    alphas = [1.0, 1e-3, 1e2]
    paths = [
        RankRLS(kernel="gaussian", solver=solver, random_state=0).fit_path(
            P.X, P.y, P.qid, alphas=alphas
        )
        for solver in ("direct", EXACT)
    ]
    close(paths[1].predict(P.X), paths[0].predict(P.X))


def test_more_features_than_items():
    wide = problem(seed=2, sizes=(12, 9), n_features=60)
    expected = RankRLS(solver="direct").fit(wide.X, wide.y, wide.qid)
    close(RankRLS(solver=EXACT).fit(wide.X, wide.y, wide.qid).coef_, expected.coef_)


def test_features_are_solved_at_once():
    """Where the unknowns are few the solver makes no difference."""
    expected = RankRLS().fit(P.X, P.y, P.qid).coef_
    for solver in ("iterations", EXACT):
        np.testing.assert_array_equal(RankRLS(solver=solver).fit(P.X, P.y, P.qid).coef_, expected)


def test_a_matrix_that_does_not_fit_is_not_formed(monkeypatch):
    calls = []
    monkeypatch.setattr("rankwise.rankers.rls.rank_rls.memory_of", lambda _: 1e5)
    monkeypatch.setattr(
        "rankwise.features.function_space.own_product",
        lambda *given: calls.append(1) or own_product(*given),
    )
    ranker = RankRLS(kernel="gaussian", random_state=0).fit(P.X, P.y, P.qid)
    assert calls
    expected = RankRLS(kernel="gaussian", solver="direct").fit(P.X, P.y, P.qid)
    close(ranker.predict(P.X), expected.predict(P.X), 1e-6)


def test_the_preconditioner_saves_iterations():
    counts = []
    for n_basis in (1, 200):
        steps = []
        solver = ConjugateGradients(tol=1e-10, n_basis=n_basis, progress=steps.append)
        RankRLS(1e-3, kernel="gaussian", solver=solver, random_state=0).fit(P.X, P.y, P.qid)
        counts.append(steps[-1].iteration)
        assert steps[-1].error <= 1e-10
    assert counts[1] < counts[0] / 2


@pytest.mark.parametrize("threads", ["1", "2", "3"])
@pytest.mark.parametrize("n_items", [5, 512, 1300])
def test_own_product(threads, n_items, monkeypatch):
    monkeypatch.setenv("RANKWISE_NUM_THREADS", threads)
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(n_items, 3)), rng.normal(size=(n_items, 2))
    kernel = Gaussian(0.5)
    close(own_product(kernel, X, V), kernel(X, X) @ V, 1e-13)
    np.testing.assert_array_equal(own_product(kernel, X, V), own_product(kernel, X, V))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_a_device_finds_the_same(kernel):
    pytest.importorskip("torch", reason="the extra 'gpu' (torch) is not installed")
    expected = RankRLS(kernel=kernel, solver="direct").fit(P.X, P.y, P.qid)
    found = RankRLS(kernel=kernel, solver=EXACT, device="cpu", random_state=0).fit(P.X, P.y, P.qid)
    close(found.dual_coef_, expected.dual_coef_)


@pytest.mark.parametrize("alpha", [1.0, 1e-2])
def test_single_precision_is_corrected(alpha):
    pytest.importorskip("torch", reason="the extra 'gpu' (torch) is not installed")
    expected = RankRLS(alpha, kernel="gaussian", solver="direct").fit(P.X, P.y, P.qid)
    steps = []
    solver = ConjugateGradients(1e-12, n_basis=60, progress=steps.append)
    options = {"kernel": "gaussian", "solver": solver, "random_state": 0}
    found = RankRLS(alpha, device="cpu", **options).fit(P.X, P.y, P.qid)
    close(found.predict(P.X), expected.predict(P.X))
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].error < 1e-11


@every_namespace
def test_the_product_of_single_precision(there):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(70, 3)), rng.normal(size=(70, 2))
    kernel = Gaussian(0.5)
    assert single_product(Polynomial(2, 1.0), there(X)) is None
    product = single_product(kernel, there(X))
    assert (product is None) == is_on_host(there(X))
    if product is not None:
        found = to_host(product(there(V)))
        close(found, kernel(X, X) @ V, 1e-5)
        assert np.abs(found - kernel(X, X) @ V).max() > 0


@every_namespace
@pytest.mark.parametrize("single", [False, True])
def test_every_namespace_solves_without_the_matrix(there, single):
    graph = PreferenceGraph.from_scores(P.y, P.qid)
    K, Z = Gaussian(0.3)(P.X, P.X), Gaussian(0.3)(P.X, P.X[:20])
    alphas, settings = np.array([1.0, 0.1]), ConjugateGradients(tol=1e-12)

    def path(bring, product):
        matrix = bring(K)
        apply = lambda V: matrix @ V  # noqa: E731
        return MatrixFree.of(graph, apply, bring(Z), settings, 1.0, product).path(alphas)

    rounded = there(K.astype(np.float32).astype(np.float64))
    found = path(there, (lambda V: rounded @ V) if single else None)
    close(found, path(np.array, None), 1e-9)


def test_refinement_keeps_what_was_found_when_stopped():
    A = np.diag(np.arange(1.0, 30.0))
    B = np.ones((29, 1))
    solver = ConjugateGradients(1e-12, progress=lambda step: step.iteration == 3)
    found = solve_by_iterations(
        lambda C: A @ C, lambda R: R, B, solver, single=lambda C: (A @ C) * (1 + 1e-7)
    )
    assert found.ending.reason == "callback"
    assert found.n_iter == 3
    assert np.linalg.norm(A @ found.C - B) < np.linalg.norm(B)


def test_an_operator_of_single_precision_that_leads_nowhere_is_left():
    A = np.diag(np.arange(1.0, 30.0))
    B, steps = np.ones((29, 1)), []
    found = solve_by_iterations(
        lambda C: A @ C,
        lambda R: R,
        B,
        ConjugateGradients(1e-12, progress=steps.append),
        single=lambda C: 0.3 * (A @ C),
    )
    close(found.C, B / np.diagonal(A)[:, None])
    assert found.ending.reason == "converged"
    assert [step.iteration for step in steps] == list(range(1, found.n_iter + 1))


def test_an_operator_of_single_precision_that_stalls_is_left():
    A, rng = np.diag(np.arange(1.0, 30.0)), np.random.default_rng(0)
    B = np.ones((29, 1))
    found = solve_by_iterations(
        lambda C: A @ C,
        lambda R: R,
        B,
        ConjugateGradients(1e-12),
        single=lambda C: A @ C + 0.2 * np.linalg.norm(C) * rng.normal(size=C.shape),
    )
    close(found.C, B / np.diagonal(A)[:, None])


def test_refinement_ends_after_so_many_iterations():
    A = np.diag(np.arange(1.0, 30.0))
    B = np.ones((29, 1))
    settings = ConjugateGradients(1e-14, max_iter=5)
    found = solve_by_iterations(lambda C: A @ C, lambda R: R, B, settings, single=lambda C: A @ C)
    assert found.ending.reason == "max_iter"
    assert found.n_iter == 5


@every_namespace
def test_low_rank_divides_as_the_matrix_does(there):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 6)) * 10.0 ** np.arange(-1, 5) / 100
    known = LowRank.of(there(Z))
    np.testing.assert_allclose(to_host(known.H.T @ known.H), np.eye(6), atol=1e-14)
    inside = Z @ rng.normal(size=(6, 2))
    alpha = 0.5
    exact = (known.values.min() + alpha) * np.linalg.solve(Z @ Z.T + alpha * np.eye(30), inside)
    condition = (known.values.max() + alpha) / alpha
    close(to_host(known.divide(there(inside), alpha)), exact, 4 * np.finfo(float).eps * condition)
    nothing = LowRank.of(there(np.zeros((4, 2))))
    np.testing.assert_array_equal(to_host(nothing.divide(there(inside[:4]), alpha)), inside[:4])


def test_what_stops_is_told():
    options = {"kernel": "gaussian", "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="Not converged after max_iter=2.*n_basis"):
        RankRLS(1e-6, solver=ConjugateGradients(max_iter=2, n_basis=5), **options).fit(
            P.X, P.y, P.qid
        )
    steps = []
    stopped = ConjugateGradients(n_basis=5, progress=lambda s: steps.append(s) or len(steps) == 3)
    RankRLS(1e-6, solver=stopped, **options).fit(P.X, P.y, P.qid)
    assert len(steps) == 3


def test_ctrl_c_keeps_what_was_found():
    def press(step):
        if step.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    solver = ConjugateGradients(n_basis=5, progress=press)
    with pytest.warns(ConvergenceWarning, match="Stopped by Ctrl-C after 2 iterations"):
        ranker = RankRLS(1e-6, kernel="gaussian", solver=solver, random_state=0).fit(
            P.X, P.y, P.qid
        )
    assert ranker.score(P.X, P.y, P.qid) > 0.7


def test_a_progress_bar_is_shown(capsys):
    solver = ConjugateGradients(n_basis=60, progress=True)
    RankRLS(kernel="gaussian", solver=solver, random_state=0).fit(P.X, P.y, P.qid)
    assert "iteration" in capsys.readouterr().err


def test_an_operator_that_is_not_definite_ends_the_run():
    settings = ConjugateGradients()
    found = solve_by_iterations(lambda C: -C, lambda V: V, np.ones((3, 1)), settings)
    assert found.ending.reason == "precision"


def test_a_start_that_solves_needs_no_step():
    found = solve_by_iterations(
        lambda C: 2.0 * C,
        lambda V: V,
        np.ones((3, 1)),
        ConjugateGradients(),
        start=np.ones((3, 1)) / 2,
    )
    assert (found.n_iter, found.ending.reason) == (0, "converged")


def test_refusals():
    with pytest.raises(InvalidInputError, match="`tol` must be a finite number above 0"):
        ConjugateGradients(tol=0.0)
    with pytest.raises(InvalidInputError, match="`n_basis` must be a whole number above 0"):
        ConjugateGradients(n_basis=0)
    with pytest.raises(InvalidInputError, match="`solver` must be .* one of 'auto', 'direct'"):
        RankRLS(kernel="gaussian", solver="magic").fit(P.X, P.y, P.qid)
    space_of = RankRLS(kernel="gaussian", solver=EXACT)
    space_of.kernel_ = Gaussian(0.5)
    graph = PreferenceGraph.from_scores(P.y, P.qid)
    space = rankwise.features.function_space.smallest_space(P.X, Gaussian(0.5), None, graph.n_items)
    with pytest.raises(InvalidInputError, match="Exact hold-outs need the kernel matrix"):
        space_of._system(space, graph).spectrum()


def test_products_beyond_double_precision_are_refused():
    X = 1e60 * np.arange(12.0)[:, None]
    solver = ConjugateGradients(n_basis=2)
    with pytest.raises(NumericalError, match="must be finite"):
        RankRLS(kernel=Polynomial(3, 1.0), solver=solver, random_state=0).fit(X, np.arange(12.0))


def test_the_solver_is_saved(tmp_path):
    ranker = RankRLS(kernel="gaussian", solver=EXACT, random_state=0).fit(P.X, P.y, P.qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert loaded.solver == EXACT
    np.testing.assert_array_equal(loaded.predict(P.X), ranker.predict(P.X))
