import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal, norm

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import expectation_propagation
from rankwise.comparisons.gp.inference.likelihood import GaussianMargin, Probit
from rankwise.comparisons.gp.inference.posterior import (
    basis_evidence_gradient,
    evidence_gradient,
    laplace,
)
from rankwise.comparisons.gp.inference.prior import factorize_kernel, factorize_through_basis
from rankwise.core.errors import ConvergenceWarning
from rankwise.solve.iteration import StoppingRule
from reference import difference_rows

SPACES = ["items", "pairs"]
LIKELIHOODS = [Probit(1.3), GaussianMargin(0.7)]


def kernel(A, B, amplitude=2.0, scale=1.0):
    return amplitude**2 * np.exp(-0.5 * np.square((A[:, None] - B[None]) / scale).sum(axis=2))


@pytest.fixture
def data():
    """Return items, pairs with repeats and contradictions, and margins."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(9, 2))
    winner = rng.integers(8, size=16)
    pairs = np.stack([winner, (winner + 1 + rng.integers(7, size=16)) % 8], axis=1)
    pairs = np.concatenate([pairs, pairs[:3], pairs[3:5, ::-1]])
    margin = rng.normal(size=21)
    margin[16:19] = margin[:3]
    return X, pairs, margin


def run(
    data, likelihood, amplitude=2.0, scale=1.0, space="auto", tol=1e-20, max_iter=100, start=None
):
    X, pairs, margin = data
    comparisons = Comparisons.from_pairs(pairs, margin=margin)
    X = X[comparisons.items]
    prior = factorize_kernel(kernel(X, X, amplitude, scale), comparisons, space=space, tol=1e-13)
    return laplace(prior, likelihood, rule=StoppingRule(tol, max_iter), start=start)


def scores(posterior, X):
    K_cross = kernel(X[posterior.items], X)
    return posterior.mean_at(K_cross), posterior.covariance_at(K_cross, kernel(X, X))


@pytest.mark.parametrize("space", SPACES)
def test_probit_mode_and_curvature_are_those_of_the_log_posterior(data, space):
    X, pairs, _ = data
    posterior = run(data, Probit(1.3), space=space)
    mean, cov = scores(posterior, X)
    A, K = difference_rows(pairs, len(X)), kernel(X, X)
    z = A @ mean / np.sqrt(1.3)
    ratio = norm.pdf(z) / ndtr(z)
    np.testing.assert_allclose(mean, K @ A.T @ ratio / np.sqrt(1.3), atol=1e-8)
    W = A.T @ np.diag(ratio * (z + ratio) / 1.3) @ A
    np.testing.assert_allclose(cov, np.linalg.solve(np.eye(len(X)) + K @ W, K), atol=1e-8)
    at_mode = log_ndtr(z).sum() - 0.5 * mean @ np.linalg.solve(K, mean)
    expected = at_mode - 0.5 * np.linalg.slogdet(np.eye(len(X)) + K @ W)[1]
    assert posterior.log_evidence == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("space", SPACES)
def test_gaussian_margins_are_exact(data, space):
    X, pairs, margin = data
    posterior = run(data, GaussianMargin(0.7), space=space)
    A, K = difference_rows(pairs, len(X)), kernel(X, X)
    S = A @ K @ A.T + 0.7 * np.eye(len(A))
    mean, cov = scores(posterior, X)
    np.testing.assert_allclose(mean, K @ A.T @ np.linalg.solve(S, margin), atol=1e-9)
    np.testing.assert_allclose(cov, K - K @ A.T @ np.linalg.solve(S, A @ K), atol=1e-9)
    exact = multivariate_normal(cov=S).logpdf(margin)
    assert posterior.log_evidence == pytest.approx(exact, abs=1e-9)
    assert posterior.n_iter == 2


def test_gaussian_mean_is_least_squares_ranking(data):
    """[TH10] Sect. 5: the counterpart of RankRLS with alpha = noise."""
    X, pairs, margin = data
    A, K = difference_rows(pairs, len(X)), kernel(X, X)
    dual = np.linalg.solve(A.T @ A @ K + 0.7 * np.eye(len(X)), A.T @ margin)
    np.testing.assert_allclose(scores(run(data, GaussianMargin(0.7)), X)[0], K @ dual, atol=1e-8)


def test_expectation_propagation_agrees_where_both_are_exact(data):
    newton = run(data, GaussianMargin(0.7))
    sweeps = expectation_propagation(
        newton.prior, GaussianMargin(0.7), rule=StoppingRule(1e-10, 300)
    )
    assert sweeps.log_evidence == pytest.approx(newton.log_evidence, abs=1e-10)
    np.testing.assert_allclose(sweeps.w, newton.w, atol=1e-10)
    np.testing.assert_allclose(evidence_gradient(sweeps), evidence_gradient(newton), atol=1e-9)


def test_gaussian_weights_below_one_widen_the_noise():
    comparisons = Comparisons.from_pairs([[0, 1]], margin=[2.0], weight=[0.25])
    posterior = laplace(factorize_kernel(np.eye(2), comparisons), GaussianMargin(0.5))
    K_cross = np.eye(2)[posterior.items]
    mean = posterior.mean_at(K_cross)
    assert mean[0] - mean[1] == pytest.approx(2.0 * 2.0 / (2.0 + 0.5 / 0.25))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_gradient_of_the_evidence_equals_finite_differences(data, likelihood, space):
    def log_evidence(step=0.0, turn=0.0, noise=0.0):
        model = likelihood.replace(noise=likelihood.noise + noise)
        return run(data, model, 2.0 * np.exp(step), np.exp(turn), space).log_evidence

    posterior = run(data, likelihood, space=space)
    X = data[0][posterior.prior.comparisons.items]
    M, K = evidence_gradient(posterior), kernel(X, X)
    distances = np.square(X[:, None] - X[None]).sum(axis=2)
    assert (M * 2.0 * K).sum() == pytest.approx(_central(log_evidence), abs=1e-7)
    by_scale = _central(lambda h: log_evidence(turn=h))
    assert (M * K * distances).sum() == pytest.approx(by_scale, abs=1e-7)
    by_noise = _central(lambda h: log_evidence(noise=h))
    assert posterior.parameter_gradient["noise"] == pytest.approx(by_noise, abs=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_gradient_with_inducing_points_equals_finite_differences(data, likelihood):
    X, pairs, margin = data
    comparisons = Comparisons.from_pairs(pairs, margin=margin)
    Z, items = X[:4], X[comparisons.items]
    gap = np.square(X[comparisons.winner] - X[comparisons.loser]).sum(axis=1)

    def posterior_at(step=0.0):
        amplitude = 2.0 * np.exp(step)
        spread = 2.0 * amplitude**2 * (1.0 - np.exp(-0.5 * gap))
        blocks = kernel(Z, Z, amplitude), kernel(Z, items, amplitude), spread
        prior = factorize_through_basis(*blocks, np.arange(4), comparisons)
        return laplace(prior, likelihood, rule=StoppingRule(1e-20, 100))

    posterior = posterior_at()
    G_cross, G_basis, g_spread = basis_evidence_gradient(posterior)
    kept = X[posterior.items]
    spread = 8.0 * (1.0 - np.exp(-0.5 * gap))
    parts = (G_cross * kernel(kept, items)).sum() + (G_basis * kernel(kept, kept)).sum()
    by_amplitude = _central(lambda h: posterior_at(h).log_evidence)
    assert 2.0 * (parts + g_spread @ spread) == pytest.approx(by_amplitude, abs=1e-7)


def test_warm_start_finds_the_same_mode_in_fewer_steps(data):
    near = run(data, Probit(), amplitude=2.1)
    cold, warm = run(data, Probit()), run(data, Probit(), start=(near.tau, near.nu))
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.w, cold.w, atol=1e-9)


def test_extreme_amplitudes_and_counts_converge(data):
    X, pairs, _ = data
    for amplitude, weight in ((1e-3, 1.0), (1e-3, 1e6), (1.0, 0.5), (1e2, 1e6), (1e5, 1.0)):
        comparisons = Comparisons.from_pairs(pairs, weight=np.full(len(pairs), weight))
        items = X[comparisons.items]
        posterior = laplace(
            factorize_kernel(kernel(items, items, amplitude), comparisons), Probit()
        )
        assert posterior.ending.converged
        assert np.isfinite(evidence_gradient(posterior)).all()


def test_line_search_saves_newton_from_a_bad_start(data):
    n_pairs = run(data, Probit()).prior.comparisons.n_pairs
    start = np.full(n_pairs, 1e-9), 1e3 * (-1.0) ** np.arange(n_pairs)
    posterior = run(data, Probit(), start=start, tol=1e-16)
    np.testing.assert_allclose(posterior.w, run(data, Probit()).w, atol=1e-7)


def test_stopping_early_warns(data):
    posterior = run(data, Probit(), max_iter=2)
    assert not posterior.ending.converged
    with pytest.warns(ConvergenceWarning, match="Not converged after max_iter=2 .*method='ep'"):
        posterior.ending.warn()


def _central(function, h=1e-4):
    return (8.0 * (function(h) - function(-h)) - function(2 * h) + function(-2 * h)) / (12.0 * h)
