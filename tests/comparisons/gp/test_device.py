"""Sweeps on a device of PyTorch find the posterior that NumPy finds; here on its CPU device."""

import numpy as np
import pytest

from problems import close
from rankwise import NumericalError, PreferenceGP
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.prior import DeviceMoments, factorize_kernel, moments_under
from rankwise.core.namespaces import place

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")


def problem(n_items=15, n_pairs=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 3))
    pairs = np.array([rng.choice(n_items, 2, replace=False) for _ in range(n_pairs)])
    lost = X[pairs[:, 0], 0] < X[pairs[:, 1], 0]
    pairs[lost] = pairs[lost][:, ::-1]
    return X, pairs


@pytest.mark.parametrize("likelihood", ["probit", "robust"])
@pytest.mark.parametrize("options", [{}, {"basis": 6, "random_state": 0}])
@pytest.mark.parametrize("n_pairs", [8, 40])
def test_fit(likelihood, options, n_pairs):
    X, pairs = problem(n_pairs=n_pairs)
    options = {"likelihood": likelihood, "optimize": False, **options}
    expected = PreferenceGP(**options).fit(X, pairs=pairs)
    found = PreferenceGP(device="cpu", **options).fit(X, pairs=pairs)
    for one, other in zip(
        found.predict(X, return_std=True), expected.predict(X, return_std=True), strict=True
    ):
        close(one, other)
    close(found.log_marginal_likelihood_, expected.log_marginal_likelihood_)


def test_parameters_are_found_alike():
    X, pairs = problem()
    expected, found = (
        PreferenceGP(likelihood="probit", device=name).fit(X, pairs=pairs) for name in (None, "cpu")
    )
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_moments_in_blocks_of_comparisons(ridge):
    """Of few directions, where rows are summed, and of many, where the Laplacian is formed."""
    X, pairs = problem()
    comparisons = Comparisons.from_pairs(pairs)
    rows = X[comparisons.items]
    prior = factorize_kernel(rows @ rows.T + ridge * np.eye(len(rows)), comparisons)
    there = DeviceMoments.of(prior, place("cpu"), entries=7 * prior.rank)
    rng = np.random.default_rng(1)
    tau, nu = rng.random(comparisons.n_pairs), rng.normal(size=comparisons.n_pairs)
    weights, mean, variance = there(tau, nu)
    expected, mean_here, variance_here = moments_under(prior, tau, nu)
    close(mean, mean_here)
    close(variance, variance_here)
    brought = there.on_host(weights)
    close(brought.C, np.tril(expected.C))
    close(brought.w, expected.w)
    close(weights.log_normalizer, expected.log_normalizer)
    with pytest.raises(NumericalError, match="posterior precision must be positive definite"):
        there(np.full(len(tau), -1e3), nu)
