from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_info

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import expectation_propagation, sequential_sites
from rankwise.comparisons.gp.inference.likelihood import (
    GaussianMargin,
    Logistic,
    Outcomes,
    Probit,
    ProbitWithTies,
    WithFlips,
)
from rankwise.comparisons.gp.inference.posterior import basis_evidence_gradient, evidence_gradient
from rankwise.comparisons.gp.inference.prior import factorize_kernel, factorize_through_basis
from rankwise.core.errors import ConvergenceWarning, InvalidInputError, NumericalError
from rankwise.core.threads import LARGEST_SERIAL, few_threads
from rankwise.native.laplacians import squared_distances
from rankwise.solve.iteration import StoppingRule
from reference import (
    difference_rows,
    elliptical_slices,
    ep_by_quadrature,
)


def kernel(A, B, amplitude=1.0, scale=1.0):
    return amplitude**2 * np.exp(-0.5 * np.square((A[:, None] - B[None]) / scale).sum(axis=2))


@dataclass(frozen=True)
class Preferences:
    X: np.ndarray
    pairs: np.ndarray
    tied: np.ndarray
    margin: np.ndarray

    def comparisons(self, likelihood=None):
        knows_ties = isinstance(likelihood, ProbitWithTies) or (
            isinstance(likelihood, WithFlips) and isinstance(likelihood.base, ProbitWithTies)
        )
        tied = self.tied if knows_ties else None
        return Comparisons.from_pairs(self.pairs, tied=tied, margin=self.margin)


def preferences(n_items=8, n_pairs=14, amplitude=2.0, flips=0.1, seed=0):
    """Draw comparisons with repeats, contradictions, ties, and items in no comparison at all."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n_items + 2, 2))
    f = amplitude * np.sin(2.0 * X).sum(axis=1)
    winner = rng.integers(n_items, size=n_pairs)
    loser = (winner + 1 + rng.integers(n_items - 1, size=n_pairs)) % n_items
    s = f[winner] - f[loser] + rng.normal(size=n_pairs)
    swap = (s < 0) ^ (rng.random(n_pairs) < flips)
    pairs = np.where(swap[:, None], np.stack([loser, winner], 1), np.stack([winner, loser], 1))
    pairs = np.concatenate([pairs, pairs[:2], pairs[2:4, ::-1]])
    margin = np.concatenate([np.abs(s), np.abs(s[:2]), np.abs(s[2:4])])
    return Preferences(X, pairs, margin < 0.8, margin)


def posterior_of(
    data,
    likelihood=None,
    amplitude=2.0,
    scale=1.0,
    space="auto",
    tol=1e-10,
    max_iter=300,
    start=None,
):
    likelihood = likelihood or Probit()
    comparisons = data.comparisons(likelihood)
    X = data.X[comparisons.items]
    prior = factorize_kernel(kernel(X, X, amplitude, scale), comparisons, space=space, tol=1e-13)
    return expectation_propagation(prior, likelihood, rule=StoppingRule(tol, max_iter), start=start)


def scores(posterior, data, amplitude=2.0, scale=1.0):
    """Return mean and covariance of all items, also those never compared."""
    K_cross = kernel(data.X[posterior.items], data.X, amplitude, scale)
    K = kernel(data.X, data.X, amplitude, scale)
    return posterior.mean_at(K_cross), posterior.covariance_at(K_cross, K)


LIKELIHOODS = [
    Probit(1.3),
    ProbitWithTies(0.6, 1.2),
    WithFlips(Probit(), 0.05),
    WithFlips(ProbitWithTies(0.6), 0.03),
]
DENSITIES = {
    Probit: lambda s, _: ndtr(s / np.sqrt(1.3)),
    ProbitWithTies: lambda s, tied: (
        ndtr((0.6 - s) / np.sqrt(1.2)) - ndtr((-0.6 - s) / np.sqrt(1.2))
        if tied
        else ndtr((s - 0.6) / np.sqrt(1.2))
    ),
    WithFlips: lambda s, _: 0.05 + 0.9 * ndtr(s),
    Logistic: lambda s, _: expit(s),
}
SPACES = ["items", "pairs"]
EXACT = StoppingRule(1e-10, 300)


def test_squared_distances_equal_dense_algebra():
    rng = np.random.default_rng(0)
    for rows, columns in ((7, 7), (9, 4), (6, 3)):
        R = rng.normal(size=(rows, columns))
        first = rng.integers(rows, size=20)
        second = (first + 1 + rng.integers(rows - 1, size=20)) % rows
        A = difference_rows(np.stack([first, second], 1), rows)
        np.testing.assert_allclose(
            squared_distances(R, first, second), np.square(A @ R).sum(axis=1), rtol=1e-13
        )


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "likelihood", [*LIKELIHOODS[:3], Logistic()], ids=lambda one: type(one).__name__
)
def test_parallel_sweeps_equal_one_site_at_a_time_by_quadrature(likelihood, space):
    """The reference keeps each recorded answer as a site of its own, so merging them is exact."""
    data = preferences()
    posterior = posterior_of(data, likelihood, space=space)
    tied = (
        data.tied
        if isinstance(likelihood, ProbitWithTies)
        else np.zeros(len(data.pairs), dtype=bool)
    )
    density = DENSITIES[type(likelihood)]
    densities = [lambda s, t=one: density(s, t) for one in tied]
    K, A = kernel(data.X, data.X, 2.0), difference_rows(data.pairs, len(data.X))
    mean, cov, log_evidence, tau, _ = ep_by_quadrature(K, A, densities)
    got_mean, got_cov = scores(posterior, data)
    np.testing.assert_allclose(got_mean, mean, atol=2e-6)
    np.testing.assert_allclose(got_cov, cov, atol=2e-6)
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-6)
    assert posterior.n_clipped == 0
    assert isinstance(likelihood, WithFlips) == (tau.min() < 0.0)


@pytest.mark.parametrize("amplitude", [0.5, 1.0, 3.0])
def test_log_evidence_is_close_to_the_orthant_probability(amplitude):
    data = preferences(6, 6, amplitude)
    A, K = difference_rows(data.pairs, len(data.X)), kernel(data.X, data.X, amplitude)
    cov = A @ K @ A.T + np.eye(len(A))
    normal = multivariate_normal(cov=cov, seed=0)
    normal.maxpts = 400_000  # SciPy 1.15 takes it nowhere else
    exact = normal.logcdf(np.zeros(len(A)))
    posterior = posterior_of(data, amplitude=amplitude)
    assert posterior.log_evidence == pytest.approx(exact, abs=0.06)
    assert posterior.log_evidence != pytest.approx(exact, abs=1e-6)  # it is an approximation


@pytest.mark.parametrize("likelihood", [Probit(), WithFlips(Probit(), 0.05)])
def test_posterior_is_close_to_long_elliptical_slice_sampling(likelihood):
    data = preferences(7, 12, seed=3)
    K = kernel(data.X, data.X, 2.0)

    def log_likelihood(f):
        s = f[:, data.pairs[:, 0]] - f[:, data.pairs[:, 1]]
        rate = 0.05 if isinstance(likelihood, WithFlips) else 0.0
        return np.log(rate + (1.0 - 2.0 * rate) * ndtr(s)).sum(axis=1)

    chain = elliptical_slices(K, log_likelihood, 300, 240, np.random.default_rng(0))[60:]
    draws = chain - chain[:, :, :1]
    mean, spread = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    error = draws.mean(axis=0).std(axis=0) / np.sqrt(draws.shape[1])
    got_mean, got_cov = scores(posterior_of(data, likelihood), data)
    got_spread = np.sqrt(np.diag(got_cov) + got_cov[0, 0] - 2.0 * got_cov[0])
    accuracy = 0.03 if isinstance(likelihood, Probit) else 0.15
    assert (np.abs(got_mean - got_mean[0] - mean) <= 5.0 * error + accuracy * spread).all()
    np.testing.assert_allclose(got_spread[1:], spread[1:], rtol=0.05 + accuracy)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_pair_space_equals_item_space(likelihood):
    data = preferences()
    items, pairs = (posterior_of(data, likelihood, space=space) for space in SPACES)
    assert pairs.prior.in_pair_space
    assert not items.prior.in_pair_space
    assert items.log_evidence == pytest.approx(pairs.log_evidence, abs=1e-10)
    np.testing.assert_allclose(items.tau, pairs.tau, atol=1e-8)
    for a, b in zip(scores(items, data), scores(pairs, data), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
    np.testing.assert_allclose(evidence_gradient(items), evidence_gradient(pairs), atol=1e-7)


@pytest.mark.parametrize(("n_items", "n_pairs"), [(6, 30), (40, 8)])
def test_space_with_fewer_rows_is_chosen(n_items, n_pairs):
    posterior = posterior_of(preferences(n_items, n_pairs))
    assert posterior.prior.in_pair_space == (n_items > n_pairs)
    assert posterior.prior.rank <= min(n_items, n_pairs + 4)


def test_weights_count_like_repeats():
    data = preferences()
    repeated = posterior_of(Preferences(data.X, np.repeat(data.pairs, 3, axis=0), None, None))
    K = kernel(data.X, data.X, 2.0)
    comparisons = Comparisons.from_pairs(data.pairs, weight=np.full(len(data.pairs), 3.0))
    prior = factorize_kernel(
        K[np.ix_(comparisons.items, comparisons.items)], comparisons, tol=1e-13
    )
    weighted = expectation_propagation(prior, Probit(), rule=EXACT)
    assert weighted.log_evidence == pytest.approx(repeated.log_evidence, abs=1e-10)
    np.testing.assert_allclose(weighted.tau, repeated.tau, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_swapping_every_pair_turns_the_mean_round(likelihood):
    data = preferences()
    there = posterior_of(data, likelihood)
    back = posterior_of(
        Preferences(data.X, data.pairs[:, ::-1], data.tied, data.margin), likelihood
    )
    mean, cov = scores(there, data)
    swapped_mean, swapped_cov = scores(back, data)
    np.testing.assert_allclose(swapped_mean, -mean, atol=1e-9)
    np.testing.assert_allclose(swapped_cov, cov, atol=1e-9)
    assert back.log_evidence == pytest.approx(there.log_evidence, abs=1e-10)


@pytest.mark.parametrize("likelihood", [*LIKELIHOODS[:2], GaussianMargin(0.7)], ids=repr)
def test_sequential_passes_reach_the_same_fixed_point(likelihood):
    data = preferences()
    comparisons = data.comparisons(likelihood)
    posterior = posterior_of(data, likelihood)
    rows = np.stack([comparisons.winner, comparisons.loser], axis=1)
    A, K = difference_rows(rows, len(data.X)), kernel(data.X, data.X, 2.0)
    prior, answers = (np.zeros(len(A)), A @ K @ A.T), posterior.prior.outcomes
    tau, nu = sequential_sites(*prior, comparisons.count, answers, likelihood, n_passes=60)
    np.testing.assert_allclose(tau, posterior.tau, atol=1e-7)
    np.testing.assert_allclose(nu, posterior.nu, atol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_new_answers_start_from_the_old_posterior(likelihood):
    data = preferences(n_pairs=30)
    late = Preferences(data.X, data.pairs[28:], data.tied[28:], data.margin[28:])
    early = Preferences(data.X, data.pairs[:28], data.tied[:28], data.margin[:28])
    before, new = posterior_of(early, likelihood), late.comparisons(likelihood)
    mean, cov = scores(before, data)
    rows = np.stack([new.winner, new.loser], axis=1)
    A = difference_rows(rows, len(data.X))
    answers = Outcomes(new.tied, new.margin, np.zeros(new.n_pairs))
    found = sequential_sites(A @ mean, A @ cov @ A.T, new.count, answers, likelihood)
    union = early.comparisons(likelihood).extend(new)
    added = union.n_pairs - before.prior.comparisons.n_pairs
    assert 0 < added <= new.n_pairs
    start = [np.append(a, b[-added:]) for a, b in zip((before.tau, before.nu), found, strict=True)]
    warm = posterior_of(data, likelihood, start=tuple(start), tol=1e-7)
    cold = posterior_of(data, likelihood, tol=1e-7)
    assert warm.n_iter <= cold.n_iter
    np.testing.assert_allclose(warm.tau, cold.tau, atol=1e-5)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-8)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, GaussianMargin(0.7)], ids=repr)
def test_gradient_of_the_evidence_equals_finite_differences(likelihood, space):
    data = preferences()

    def log_evidence(step=0.0, turn=0.0, model=likelihood):
        amplitude, scale = 2.0 * np.exp(step), np.exp(turn)
        return posterior_of(data, model, amplitude, scale, space=space).log_evidence

    posterior = posterior_of(data, likelihood, space=space)
    X = data.X[posterior.prior.comparisons.items]
    M, K = evidence_gradient(posterior), kernel(X, X, 2.0)
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    distances = np.square(X[:, None] - X[None]).sum(axis=2)
    assert (M * 2.0 * K).sum() == pytest.approx(_central(log_evidence), abs=1e-6)
    assert (M * K * distances).sum() == pytest.approx(
        _central(lambda h: log_evidence(turn=h)), abs=1e-6
    )
    for name, value in likelihood.parameters.items():
        moved = lambda h, n=name, v=value: log_evidence(model=likelihood.replace(**{n: v + h}))  # noqa: E731
        assert posterior.parameter_gradient[name] == pytest.approx(_central(moved), abs=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_gradient_with_inducing_points_equals_finite_differences(likelihood):
    data, n_basis = preferences(20, 40), 6
    comparisons = data.comparisons(likelihood)
    basis, X = data.X[:n_basis], data.X[comparisons.items]

    def run(step=0.0, turn=0.0):
        args = (2.0 * np.exp(step), np.exp(turn))
        spread = 2.0 * (args[0] ** 2 - _pair_kernel(data, comparisons, *args))
        prior = factorize_through_basis(
            kernel(basis, basis, *args), kernel(basis, X, *args), spread, np.arange(n_basis),
            comparisons,
        )  # fmt: skip
        return expectation_propagation(prior, likelihood, rule=EXACT)

    posterior = run()
    assert posterior.prior.extra_noise.max() > 0.1
    G_cross, G_basis, g_spread = basis_evidence_gradient(posterior)
    Z = data.X[posterior.items]
    near = lambda A, B: np.square(A[:, None] - B[None]).sum(axis=2)  # noqa: E731
    K_pair = _pair_kernel(data, comparisons, 2.0, 1.0)
    gap = np.square(data.X[comparisons.winner] - data.X[comparisons.loser]).sum(axis=1)
    cross, inner = G_cross * kernel(Z, X, 2.0), G_basis * kernel(Z, Z, 2.0)
    by_amplitude = 2.0 * (cross.sum() + inner.sum() + g_spread @ (2.0 * (4.0 - K_pair)))
    by_scale = (
        (cross * near(Z, X)).sum() + (inner * near(Z, Z)).sum() - g_spread @ (2 * K_pair * gap)
    )
    assert by_amplitude == pytest.approx(_central(lambda h: run(h).log_evidence), abs=1e-6)
    assert by_scale == pytest.approx(_central(lambda h: run(turn=h).log_evidence), abs=1e-6)


def test_inducing_points_at_every_item_change_nothing():
    data = preferences(10, 40)
    comparisons = data.comparisons()
    K = kernel(data.X, data.X, 2.0)
    K_items = K[np.ix_(comparisons.items, comparisons.items)]
    spread = 2.0 * (4.0 - _pair_kernel(data, comparisons, 2.0, 1.0))
    prior = factorize_through_basis(
        K_items, K_items, spread, comparisons.items, comparisons, tol=1e-13
    )
    few = expectation_propagation(prior, Probit(), rule=EXACT)
    full = posterior_of(data)
    assert prior.extra_noise.max() < 1e-9
    assert few.log_evidence == pytest.approx(full.log_evidence, abs=1e-8)
    for a, b in zip(scores(few, data), scores(full, data), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_dependent_inducing_points_are_dropped():
    data = preferences(10, 40)
    comparisons = data.comparisons()
    rows = np.array([0, 1, 2, 0, 1])
    Z, X = data.X[rows], data.X[comparisons.items]
    spread = 2.0 * (4.0 - _pair_kernel(data, comparisons, 2.0, 1.0))
    prior = factorize_through_basis(kernel(Z, Z, 2.0), kernel(Z, X, 2.0), spread, rows, comparisons)
    assert prior.rank == 3
    assert sorted(prior.items) == [0, 1, 2]


@pytest.mark.parametrize("space", SPACES)
def test_predictions_agree_with_each_other_and_with_draws(space):
    data = preferences()
    posterior = posterior_of(data, space=space)
    new = np.random.default_rng(1).uniform(-2.0, 2.0, size=(5, 2))
    K_cross, K_new = kernel(data.X[posterior.items], new, 2.0), kernel(new, new, 2.0)
    mean, cov = posterior.mean_at(K_cross), posterior.covariance_at(K_cross, K_new)
    np.testing.assert_allclose(
        posterior.variance_at(K_cross, np.diag(K_new)), np.diag(cov), rtol=1e-10
    )
    i, j = np.array([0, 1, 4]), np.array([1, 3, 2])
    spread = K_new[i, i] + K_new[j, j] - 2.0 * K_new[i, j]
    got_mean, got_variance = posterior.difference_at(K_cross[:, i], K_cross[:, j], spread)
    np.testing.assert_allclose(got_mean, mean[i] - mean[j], atol=1e-9)
    np.testing.assert_allclose(got_variance, cov[i, i] + cov[j, j] - 2.0 * cov[i, j], atol=1e-9)
    draws = posterior.draws_at(K_cross, K_new, 40_000, np.random.default_rng(2))
    standard_error = np.sqrt(np.diag(cov) / len(draws))
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * standard_error).all()
    tolerance = 5.0 * np.sqrt(2.0 / len(draws)) * np.diag(cov).max()
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=tolerance)


def test_draws_of_the_compared_items_have_no_rest():
    data = preferences()
    posterior = posterior_of(data)
    X = data.X[posterior.items]
    K = kernel(X, X, 2.0)
    draws = posterior.draws_at(K, K, 20_000, np.random.default_rng(0))
    cov = posterior.covariance_at(K, K)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.05 * np.diag(cov).max())


def test_items_far_from_all_others_keep_their_prior():
    data = preferences()
    posterior = posterior_of(data)
    far = np.full((1, 2), 1e3)
    K_cross = kernel(data.X[posterior.items], far, 2.0)
    assert posterior.mean_at(K_cross) == pytest.approx(0.0)
    assert posterior.variance_at(K_cross, np.array([4.0])) == pytest.approx(4.0)


def test_warm_start_saves_sweeps_and_finds_the_same_point():
    data = preferences(30, 200)
    near = posterior_of(data, amplitude=2.2, tol=1e-8)
    cold = posterior_of(data, tol=1e-8)
    warm = posterior_of(data, tol=1e-8, start=(near.tau, near.nu))
    assert warm.n_iter < cold.n_iter
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-10)


def test_alpha_solves_the_kernel_system():
    data = preferences()
    posterior = posterior_of(data, space="items")
    items = posterior.prior.comparisons.items
    K = kernel(data.X[items], data.X[items], 2.0)
    alpha = np.empty(len(items))
    alpha[posterior.prior.rows] = posterior.alpha
    np.testing.assert_allclose(K @ alpha, scores(posterior, data)[0][items], atol=1e-8)


def _stress(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    chain = np.stack([np.arange(29), np.arange(1, 30)], axis=1)
    random = rng.integers(30, size=(400, 2))
    random = random[random[:, 0] != random[:, 1]]
    sorted_ = np.where((X[random[:, 0], 0] > X[random[:, 1], 0])[:, None], random, random[:, ::-1])
    flipped = np.where((rng.random(len(random)) < 0.05)[:, None], sorted_[:, ::-1], sorted_)
    twins = np.concatenate([X[:15], X[:15]])
    among_twins = np.stack([np.arange(15), np.arange(15, 30)], axis=1)
    one, both = [[0, 1]], [[0, 1], [1, 0]]
    million, millions = [1e6], [1e6, 1e6]
    for amplitude in (1e-3, 1.0, 1e2, 1e5):
        for scale in (1e-3, 1.0, 1e3):
            yield pytest.param(
                X, sorted_, None, amplitude, scale, id=f"amplitude {amplitude:g} scale {scale:g}"
            )
    yield pytest.param(X, one, None, 1.0, 1.0, id="one comparison")
    yield pytest.param(X, one, million, 10.0, 1.0, id="one comparison a million times")
    yield pytest.param(X, both, millions, 10.0, 1.0, id="a million against a million")
    yield pytest.param(twins, sorted_, None, 10.0, 1.0, id="duplicated items")
    yield pytest.param(twins, among_twins, None, 10.0, 1.0, id="duplicates compared")
    yield pytest.param(X, chain, None, 1e3, 1.0, id="chain")
    yield pytest.param(
        X, np.concatenate([chain, chain[:, ::-1]]), None, 1e3, 1.0, id="contradiction"
    )
    yield pytest.param(X, random, None, 1e3, 1.0, id="random answers")
    yield pytest.param(X, flipped, None, 1e4, 1.0, id="wrong records")


@pytest.mark.parametrize(("X", "pairs", "weight", "amplitude", "scale"), list(_stress()))
def test_hard_problems_converge(X, pairs, weight, amplitude, scale):
    comparisons = Comparisons.from_pairs(pairs, weight=weight)
    items = X[comparisons.items]
    prior = factorize_kernel(kernel(items, items, amplitude, scale), comparisons)
    posterior = expectation_propagation(prior, Probit(), rule=StoppingRule(1e-5, 300))
    assert posterior.ending.converged
    assert (posterior.tau >= 0.0).all()
    assert np.isfinite(posterior.log_evidence)
    assert np.isfinite(evidence_gradient(posterior)).all()
    assert posterior.log_evidence <= 1e-9


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("count", [2, 30, 1_000, 1_000_000])
def test_sweeps_needed_do_not_grow_with_the_number_of_repeats(count, one_sided):
    X = np.random.default_rng(0).normal(size=(6, 2))
    pairs = np.stack(np.triu_indices(6, 1), axis=1)
    pairs = pairs if one_sided else np.concatenate([pairs, pairs[:, ::-1]])
    comparisons = Comparisons.from_pairs(pairs, weight=np.full(len(pairs), float(count)))
    prior = factorize_kernel(kernel(X, X, 10.0), comparisons)
    assert expectation_propagation(prior, Probit()).n_iter <= 25


def test_items_the_kernel_cannot_tell_apart_teach_nothing():
    twins = np.zeros((4, 2))
    comparisons = Comparisons.from_pairs([[0, 1], [2, 3], [1, 2]])
    for space in SPACES:
        prior = factorize_kernel(kernel(twins, twins), comparisons, space=space)
        posterior = expectation_propagation(prior, Probit())
        K_cross = kernel(twins[posterior.items], twins)
        assert posterior.log_evidence == pytest.approx(3.0 * np.log(0.5))
        np.testing.assert_allclose(posterior.mean_at(K_cross), 0.0, atol=1e-12)
        np.testing.assert_allclose(
            posterior.covariance_at(K_cross, kernel(twins, twins)), 1.0, atol=1e-9
        )


def test_flips_leave_the_order_alone_where_probit_gives_up():
    rng = np.random.default_rng(5)
    X = np.linspace(-2.0, 2.0, 40)[:, None]
    pairs = rng.integers(40, size=(300, 2))
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)[:, ::-1]
    pairs[:15] = pairs[:15, ::-1]
    error = {}
    for likelihood in (Probit(), WithFlips(Probit(), 0.05)):
        comparisons = Comparisons.from_pairs(pairs)
        prior = factorize_kernel(
            kernel(X[comparisons.items], X[comparisons.items], 20.0), comparisons
        )
        posterior = expectation_propagation(prior, likelihood)
        mean = posterior.mean_at(kernel(X[posterior.items], X, 20.0))
        error[type(likelihood)] = np.mean(np.diff(mean) <= 0.0)
    assert error[WithFlips] < error[Probit]


def test_sites_are_cut_only_where_there_is_no_proper_posterior():
    data = preferences(30, 150, amplitude=6.0, flips=0.3, seed=3)
    hard = posterior_of(data, WithFlips(Probit(), 0.01), amplitude=20.0, tol=1e-6)
    assert hard.ending.converged
    assert hard.n_clipped > 0
    assert (hard.tau >= 0.0).all()
    easy = posterior_of(preferences(), WithFlips(Probit(), 0.05), tol=1e-6)
    assert easy.n_clipped == 0
    assert (easy.tau < 0.0).any()


def test_small_problems_run_on_one_thread_and_give_the_others_back():
    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    with few_threads(LARGEST_SERIAL):
        assert set(threads()) == {1}
    with few_threads(LARGEST_SERIAL + 1):
        assert threads() == before
    assert threads() == before


@pytest.mark.parametrize(
    ("likelihood", "remedy"), [(Probit(), "method='laplace'"), (WithFlips(), "likelihood='probit'")]
)
def test_stopping_early_says_how_far_it_got_and_what_to_do(likelihood, remedy):
    posterior = posterior_of(preferences(), likelihood, max_iter=2)
    assert not posterior.ending.converged
    assert posterior.ending.reason == "max_iter"
    assert f"{posterior.residual:.1e}, tol is 1.0e-10" in posterior.ending.message
    assert remedy in posterior.ending.message
    with pytest.warns(ConvergenceWarning, match="Not converged after max_iter=2"):
        posterior.ending.warn()
    posterior = posterior_of(preferences(), max_iter=2)
    assert posterior.n_iter == 2


@pytest.mark.parametrize(
    "likelihood", [Probit(), ProbitWithTies(0.4), WithFlips(ProbitWithTies(0.4), 0.05)], ids=repr
)
def test_light_answers_count_as_their_likelihood_to_a_power(likelihood):
    K = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    pairs, weight = np.array([[0, 1], [1, 2], [2, 0]]), np.array([0.3, 0.8, 0.5])
    ties = isinstance(likelihood.without_flips(), ProbitWithTies)
    tied = np.array([False, ties, False])
    comparisons = Comparisons.from_pairs(pairs, tied=tied, weight=weight)
    posterior = expectation_propagation(
        factorize_kernel(K, comparisons, tol=1e-13), likelihood, rule=EXACT
    )

    def density(row):
        answers = Outcomes(tied[row : row + 1])
        return lambda s: np.exp(
            weight[row] * likelihood.average(np.ravel(s), np.zeros(np.size(s)), answers).log_z
        ).reshape(np.shape(s))

    A = difference_rows(pairs, 3)
    expected = ep_by_quadrature(K, A, [density(row) for row in range(3)])
    K_cross = K[posterior.items]
    np.testing.assert_allclose(posterior.mean_at(K_cross), expected[0], atol=1e-6)
    np.testing.assert_allclose(posterior.covariance_at(K_cross, K), expected[1], atol=1e-6)
    assert posterior.log_evidence == pytest.approx(expected[2], abs=1e-6)


def test_light_answers_are_heavy_ones_in_the_limit():
    data = preferences()

    def found(weight):
        comparisons = Comparisons.from_pairs(data.pairs, weight=np.full(len(data.pairs), weight))
        K = kernel(data.X, data.X, 2.0)[np.ix_(comparisons.items, comparisons.items)]
        return expectation_propagation(factorize_kernel(K, comparisons), Probit(), rule=EXACT)

    light, whole = found(1.0 - 1e-12), found(1.0)
    np.testing.assert_allclose(light.tau, whole.tau, atol=1e-6)
    assert light.log_evidence == pytest.approx(whole.log_evidence, abs=1e-6)
    for name, value in whole.parameter_gradient.items():
        assert light.parameter_gradient[name] == pytest.approx(value, abs=1e-6)


def test_kernel_blocks_must_fit():
    comparisons = Comparisons.from_pairs([[0, 1], [1, 2], [2, 0]])
    with pytest.raises(InvalidInputError, match=r"each of the 3 items: got shape \(2, 2\)"):
        factorize_kernel(np.eye(2), comparisons)
    with pytest.raises(NumericalError, match="must be finite"):
        factorize_kernel(np.full((3, 3), np.nan), comparisons)
    prior = factorize_kernel(np.eye(3), comparisons)
    with pytest.raises(InvalidInputError, match="each of the 3 items of the basis: got 5 rows"):
        prior.basis_kernel(np.ones((5, 2)))


def test_overflow_is_reported():
    comparisons = Comparisons.from_pairs([[0, 1], [1, 2], [2, 0]])
    prior = factorize_kernel(np.eye(3) * 1e300, comparisons)
    with pytest.raises(NumericalError, match="must be positive definite in double precision"):
        expectation_propagation(prior, Probit(), start=(np.full(3, 1e200), np.zeros(3)))


def _pair_kernel(data, comparisons, amplitude, scale):
    gap = np.square((data.X[comparisons.winner] - data.X[comparisons.loser]) / scale).sum(axis=1)
    return amplitude**2 * np.exp(-0.5 * gap)


def _central(function, h=1e-4):
    return (8.0 * (function(h) - function(-h)) - function(2 * h) + function(-2 * h)) / (12.0 * h)
