"""What is computed on a device of PyTorch equals what NumPy computes; here on its CPU device."""

import numpy as np
import pytest
import torch

import rankwise
from problems import close, problem
from rankwise import (
    Gaussian,
    InvalidInputError,
    RankRLS,
    RankRLSCV,
    leave_pair_out,
)
from rankwise.core.namespaces import place
from rankwise.features.function_space import Basis
from rankwise.solve.normal_equations import System

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")
CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
KERNELS = ["gaussian", "laplacian", "polynomial", "linear", lambda A, B: A @ B.T + 1]
SIZES = (7, 1, 5, 9, 2, 3)


def weights(ranker):
    return ranker._weights


@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("basis", [None, 6])
def test_fit(cost, ties, kernel, basis):
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    options = {"kernel": kernel, "cost": cost, "ties": ties, "basis": basis, "random_state": 0}
    expected = RankRLS(0.1, **options).fit(p.X, p.y, qid=p.qid)
    found = RankRLS(0.1, device="cpu", **options).fit(p.X, p.y, qid=p.qid)
    close(found.predict(p.X), expected.predict(p.X))
    close(weights(found), weights(expected))


def test_more_features_than_items():
    p = problem(seed=2, sizes=SIZES, grades=3, n_features=60)
    expected = RankRLS().fit(p.X, p.y, qid=p.qid)
    close(RankRLS(device="cpu").fit(p.X, p.y, qid=p.qid).coef_, expected.coef_)


def test_comparisons_and_several_outputs():
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    pairs = np.array([[0, 1], [2, 1], [5, 9], [9, 14], [20, 3], [7, 7 + 1]])
    for kernel in ("gaussian", "linear"):
        expected = RankRLS(kernel=kernel).fit(p.X, pairs=pairs)
        found = RankRLS(kernel=kernel, device="cpu").fit(p.X, pairs=pairs)
        close(weights(found), weights(expected))
    Y = np.column_stack([p.y, -(p.y**2)])
    expected = RankRLS(kernel="gaussian").fit(p.X, Y, qid=p.qid)
    found = RankRLS(kernel="gaussian", device="cpu").fit(p.X, Y, qid=p.qid)
    close(weights(found), weights(expected))


@pytest.mark.parametrize("basis", [None, 6])
def test_path(basis):
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    options = {"kernel": "gaussian", "basis": basis, "random_state": 0}
    alphas = [1e-3, 1.0, 1e3]
    expected = RankRLS(**options).fit_path(p.X, p.y, qid=p.qid, alphas=alphas)
    found = RankRLS(device="cpu", **options).fit_path(p.X, p.y, qid=p.qid, alphas=alphas)
    for one, other in zip(found, expected, strict=True):
        close(weights(one), weights(other))


@pytest.mark.parametrize(("gamma", "late"), [(1.0, True), (1e-4, False)])
def test_sums_are_whitened_late_only_where_no_digits_are_lost(gamma, late):
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    kernel, rows = Gaussian(gamma), torch.tensor(p.X)
    basis = Basis.of(kernel, p.X[:8], rows)
    assert (basis.raw(rows)[1] is not None) is late
    assert (Basis.of(kernel, p.X[:8]).raw(p.X)[1] is not None) is late
    options = {"kernel": kernel, "basis": np.arange(8), "alpha": 1e-3}
    expected = RankRLS(**options).fit(p.X, p.y, qid=p.qid)
    found = RankRLS(device="cpu", **options).fit(p.X, p.y, qid=p.qid)
    close(found.predict(p.X), expected.predict(p.X))


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_rows_stay_as_they_were_given(kernel):
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    given = p.X.copy()
    RankRLS(kernel=kernel, device="cpu").fit(given, p.y, qid=p.qid)
    np.testing.assert_array_equal(given, p.X)


def test_the_eigendecomposition_takes_over_where_alpha_is_lost():
    rhs = np.array([[1.0], [1.0]])
    expected = System(torch.ones((2, 2), dtype=torch.float64), rhs).spectrum().solve(rhs, 1e-30)
    system = System(torch.ones((2, 2), dtype=torch.float64), rhs)
    np.testing.assert_array_equal(system.solve(1e-30), expected)
    system = System(torch.ones((2, 2), dtype=torch.float64), rhs)
    np.testing.assert_array_equal(system.path(np.array([1e-30, 1e-30])), [expected, expected])


@pytest.fixture(params=[None, 1], ids=["decomposed", "factored"])
def device(request, monkeypatch):
    """Much memory, in which the kernel is decomposed, or little, in which it is factored."""
    if request.param is not None:
        monkeypatch.setattr("rankwise.selection.leave_query_out.memory_of", lambda _: request.param)
    return "cpu"


@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_leave_query_out(device, cost, ties, kernel):
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    options = {"kernel": kernel, "cost": cost, "ties": ties}
    expected = RankRLSCV(**options).fit(p.X, p.y, qid=p.qid)
    found = RankRLSCV(device=device, **options).fit(p.X, p.y, qid=p.qid)
    assert found.alpha_ == expected.alpha_
    close(found.path_.values, expected.path_.values)
    close(weights(found), weights(expected))


@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_leave_query_out_of_explicit_features(cost, ties, n_outputs):
    """Of items in no pair, too."""
    p = problem(seed=1, sizes=SIZES * 2, grades=3, n_features=4)
    X = p.X + 10.0
    weight = np.ones(len(p.y))
    weight[[0, 8]] = 0.0
    Y = p.y if n_outputs == 1 else np.column_stack([p.y, p.X[:, 0].round(1)])
    for alpha in (1e-2, 1.0, 1e3):
        options = {"alphas": [alpha], "cost": cost, "ties": ties}
        expected = RankRLSCV(**options).fit(X, Y, qid=p.qid, sample_weight=weight)
        found = RankRLSCV(device="cpu", **options).fit(X, Y, qid=p.qid, sample_weight=weight)
        close(found.held_out_scores_, expected.held_out_scores_)
        close(weights(found), weights(expected))


def test_folds_that_lose_digits_are_refitted_here():
    """A query that alone knows a direction, with a small alpha; and a feature that is constant."""
    p = problem(seed=1, sizes=SIZES * 2, grades=3, n_features=4)
    X = p.X.copy()
    X[:, 3] = np.where(p.qid == p.qid[0], p.X[:, 3], 0.0)
    for given in (X, np.column_stack([p.X, np.ones(len(X))])):
        expected = RankRLSCV(alphas=[1e-8]).fit(given, p.y, qid=p.qid)
        found = RankRLSCV(alphas=[1e-8], device="cpu").fit(given, p.y, qid=p.qid)
        close(found.held_out_scores_, expected.held_out_scores_)


def test_basis_rows_of_a_choice():
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    options = {"kernel": "gaussian", "basis": 6, "random_state": 0}
    expected = RankRLSCV(**options).fit(p.X, p.y, qid=p.qid)
    found = RankRLSCV(device="cpu", **options).fit(p.X, p.y, qid=p.qid)
    assert found.alpha_ == expected.alpha_
    close(found.held_out_scores_, expected.held_out_scores_)
    close(weights(found), weights(expected))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_held_out_scores_of_every_alpha(device, n_outputs):
    """Of items in no pair too, and where alpha is above all eigenvalues."""
    p = problem(seed=4, sizes=SIZES, grades=2, n_features=4)
    weight = np.ones(len(p.y))
    weight[[0, 8, 9]] = 0.0
    Y = p.y if n_outputs == 1 else np.column_stack([p.y, p.X[:, 0].round(1)])
    for alpha in (1e-3, 1.0, 1e3, 1e9):
        options = {"kernel": "gaussian", "alphas": [alpha], "measure": "Concordance"}
        expected = RankRLSCV(**options).fit(p.X, Y, qid=p.qid, sample_weight=weight)
        found = RankRLSCV(device=device, **options).fit(p.X, Y, qid=p.qid, sample_weight=weight)
        close(found.held_out_scores_, expected.held_out_scores_)


def test_comparisons_that_leave_a_query_in_parts(device):
    p = problem(seed=4, sizes=(5, 6, 4), grades=2, n_features=4)
    rows = [np.flatnonzero(p.qid == q) for q in np.unique(p.qid)]
    pairs = np.array([[r[i], r[j]] for r in rows for i, j in ((0, 1), (2, 3), (1, 0), (3, 2))])
    expected = RankRLSCV(kernel="gaussian").fit(p.X, pairs=pairs, qid=p.qid)
    found = RankRLSCV(kernel="gaussian", device=device).fit(p.X, pairs=pairs, qid=p.qid)
    close(found.held_out_scores_, expected.held_out_scores_)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
@pytest.mark.parametrize("ties", ["drop", "keep"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_leave_pair_out(kernel, ties, n_outputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = np.round(X @ rng.normal(size=(3, n_outputs)) + rng.normal(size=(40, n_outputs)), 1)
    Y = Y[:, 0] if n_outputs == 1 else Y
    options = {"kernel": kernel, "ties": ties, "alphas": 2.0 ** np.arange(-8, 9, 4)}
    expected = RankRLSCV(**options).fit(X, Y)
    found = RankRLSCV(device="cpu", **options).fit(X, Y)
    np.testing.assert_array_equal(found.path_.values, expected.path_.values)
    assert found.alpha_ == expected.alpha_


def test_leave_pair_out_estimate():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    options = {"kernel": "gaussian", "ties": "keep"}
    expected = leave_pair_out(RankRLS(**options), X, y)
    assert leave_pair_out(RankRLS(device="cpu", **options), X, y).value == expected.value


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_leave_pair_out_of_large_alphas(kernel):
    """Scores far below the residuals keep their digits."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 3))
    y = X[:, 0] + rng.normal(size=30)
    options = {"kernel": kernel, "ties": "keep", "alphas": [1e6, 1e12, 1e18, 1e200]}
    expected = RankRLSCV(**options).fit(X, y)
    found = RankRLSCV(device="cpu", **options).fit(X, y)
    np.testing.assert_array_equal(found.path_.values, expected.path_.values)
    assert np.all(found.path_.values == found.path_.values[-1])
    assert found.path_.values[0] > 0.5


@pytest.mark.parametrize("n_others", [1, 2, 3])
def test_leave_pair_out_of_pairs_that_leave_nothing(n_others):
    """Pairs without which all scores are equal are not judged, here as there."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(12, 3)), np.zeros(12)
    y[[5, 2, 9][:n_others]] = 1.0
    for alpha in (0.1, 1e9):
        options = {"kernel": "gaussian", "ties": "keep", "alpha": alpha}
        if n_others == 1:
            with pytest.raises(rankwise.NothingToLearnError, match="at least two items of each"):
                leave_pair_out(RankRLS(device="cpu", **options), X, y)
            continue
        expected = leave_pair_out(RankRLS(**options), X, y)
        found = leave_pair_out(RankRLS(device="cpu", **options), X, y)
        assert (found.value, found.n_pairs) == (expected.value, expected.n_pairs)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_leave_pair_out_with_items_of_weight_zero(kernel):
    rng = np.random.default_rng(5)
    X, weight = rng.normal(size=(25, 3)), rng.integers(0, 3, size=25).astype(float)
    y = X[:, 0] + rng.normal(size=25)
    options = {"kernel": kernel, "ties": "keep", "alphas": [0.01, 1.0, 100.0]}
    expected = RankRLSCV(**options).fit(X, y, sample_weight=weight)
    found = RankRLSCV(device="cpu", **options).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(found.path_.values, expected.path_.values)


def test_what_exceeds_double_precision_is_refused():
    y = np.arange(5.0)
    X = 1e130 * y[:, None]
    with pytest.raises(rankwise.NumericalError, match="The kernel Polynomial.* must be finite"):
        RankRLS(kernel=rankwise.Polynomial(gamma=1.0), device="cpu").fit(X, y)
    far = 1e9 + np.random.default_rng(0).normal(size=(40, 2))
    for name in (None, "cpu"):
        with pytest.raises(
            rankwise.NumericalError, match="must be larger than their rounding errors"
        ):
            RankRLS(1e-6, kernel=rankwise.Polynomial(degree=2), device=name).fit(
                far, far[:, 0] - 1e9
            )


def test_a_singular_kernel_is_not_judged():
    X, y = np.ones((10, 2)), np.arange(10.0)
    X[0] = 2.0
    with pytest.raises(rankwise.NumericalError):
        RankRLSCV(alphas=[1e-30], device="cpu").fit(X, y)


def test_alphas_without_a_factor_are_decomposed(monkeypatch):
    """A kernel of rank one, whose sum with the smallest alpha is not definite."""
    X = 1e4 * np.random.default_rng(0).normal(size=(12, 1))
    y, qid = np.arange(12.0), np.arange(12) // 4
    options = {"kernel": rankwise.Polynomial(degree=1), "alphas": [1e-12, 1.0, 1e9]}
    decomposed = RankRLSCV(device="cpu", **options).fit(X, y, qid=qid)
    monkeypatch.setattr("rankwise.selection.leave_query_out.memory_of", lambda _: 1)
    factored = RankRLSCV(device="cpu", **options).fit(X, y, qid=qid)
    assert factored.alpha_ == decomposed.alpha_
    np.testing.assert_allclose(factored.path_.values, decomposed.path_.values, atol=1e-8)


def test_the_device_is_saved(tmp_path):
    p = problem(seed=1, sizes=SIZES, grades=3, n_features=4)
    ranker = RankRLS(kernel="gaussian", device="cpu").fit(p.X, p.y, qid=p.qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(p.X), ranker.predict(p.X))


def test_bad_devices():
    with pytest.raises(InvalidInputError, match="`device` must name a device that PyTorch finds"):
        place("nonsense")
    with pytest.raises(InvalidInputError, match="`device` must be a name such as 'cuda'"):
        place(3)
    indefinite = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(InvalidInputError, match="positive semidefinite"):
        RankRLS(kernel="precomputed", device="cpu").fit(indefinite, [0, 1, 2])


def test_leave_pair_out_of_several_blocks_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=600) > 0).astype(float)
    expected = leave_pair_out(RankRLS(kernel=Gaussian(0.2), ties="keep"), X, y)
    found = leave_pair_out(RankRLS(kernel=Gaussian(0.2), device="cpu", ties="keep"), X, y)
    assert found.value == expected.value
