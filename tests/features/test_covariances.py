"""Covariances differentiate themselves; what all kernels have in common is in laws/."""

import numpy as np
import pytest

from laws.kernels import KERNELS as LAW_LIST
from rankwise import Gaussian, InvalidInputError, Linear, SquaredExponential
from rankwise.features.covariances import (
    Hyperprior,
    ParametricKernel,
    Scaled,
    neighbour_distance,
    row_by_row,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(7, 3)) + 50.0, RNG.normal(size=(5, 3)) + 50.0
A[6], B[3] = A[1], A[2]  # equal rows, in one set and between the two
KERNELS = [kernel for kernel in LAW_LIST if isinstance(kernel, ParametricKernel)]


def slopes(kernel, function):
    """Differentiate a function of the kernel in its theta by central differences."""
    steps = 1e-5 * np.eye(len(kernel.theta))
    up, down = ([function(kernel.with_theta(kernel.theta + s * e)) for e in steps] for s in (1, -1))
    return (np.array(up) - np.array(down)) / 2e-5


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("other", [A, B], ids=["same", "other"])
def test_contraction_equals_finite_differences(kernel, other):
    M = RNG.normal(size=(len(A), len(other)))
    expected = slopes(kernel, lambda k: np.sum(M * k(A, other)))
    np.testing.assert_allclose(kernel.weighted_gradient(A, other, M), expected, atol=1e-7)
    with_matrix = kernel.weighted_gradient(A, other, M, kernel(A, other))
    np.testing.assert_allclose(with_matrix, expected, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_contraction_of_the_spread_equals_finite_differences(kernel):
    g = RNG.normal(size=150)
    a, b = RNG.normal(size=(2, 150, 3))
    a[:5] = b[:5]
    expected = slopes(kernel, lambda k: g @ k.difference_variance(a, b))
    np.testing.assert_allclose(kernel.weighted_variance_gradient(a, b, g), expected, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_spread_is_the_variance_of_a_difference(kernel):
    a, b = RNG.normal(size=(2, 150, 3))
    a[:5] = b[:5]
    expected = kernel.diagonal(a) + kernel.diagonal(b) - 2.0 * kernel(a, b).diagonal()
    np.testing.assert_allclose(kernel.difference_variance(a, b), expected, atol=1e-12)
    np.testing.assert_allclose(row_by_row(kernel, a, b), kernel(a, b).diagonal())


def test_spread_of_close_rows_keeps_its_digits():
    spread = SquaredExponential(1.0, 1.0).difference_variance(np.array([[1e-9]]), np.zeros((1, 1)))
    np.testing.assert_allclose(spread, 1e-18, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_theta_makes_the_kernel(kernel):
    again = kernel.with_theta(kernel.theta)
    np.testing.assert_allclose(again(A, B), kernel(A, B), rtol=1e-12)
    low, high = kernel.bounds_on(A).T
    assert len(kernel.names) == len(kernel.theta) == len(low)
    assert (low <= kernel.theta).all()
    assert (kernel.theta < high).all()


def test_squared_exponential_is_its_formula():
    lengths = np.array([0.5, 1.0, 2.0])
    kernel = SquaredExponential(3.0, lengths)
    squares = np.square((A[:, None] - B) / lengths).sum(axis=2)
    np.testing.assert_allclose(kernel(A, B), 9.0 * np.exp(-0.5 * squares), rtol=1e-10)
    np.testing.assert_allclose(kernel(A, A).diagonal(), kernel.diagonal(A))
    assert kernel.length_scale == (0.5, 1.0, 2.0)
    assert hash(kernel) == hash(SquaredExponential(3.0, [0.5, 1.0, 2.0]))


def test_item_effects_are_shared_by_equal_rows_only():
    kernel, shared = SquaredExponential(3.0, 0.5, 0.4), SquaredExponential(3.0, 0.5)
    for other in (A, B):
        equal = (A[:, None] == other).all(axis=2)
        assert 1 <= equal.sum() < equal.size
        np.testing.assert_allclose(kernel(A, other), shared(A, other) + 1.44 * equal, rtol=1e-12)
    np.testing.assert_allclose(kernel(A, A).diagonal(), kernel.diagonal(A))
    assert shared.names == ("amplitude", "length_scale")
    assert kernel.names == (*shared.names, "item_effect")


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_hyperprior_is_a_density_with_its_gradient(kernel):
    prior = kernel.hyperprior_on(A, 2.0)
    theta = kernel.theta
    steps = 1e-4 * np.eye(len(theta))
    expected = [(prior.log_density(theta + e) - prior.log_density(theta - e)) / 2e-4 for e in steps]
    np.testing.assert_allclose(prior.gradient(theta), expected, atol=1e-8)
    joined = prior.joined_with(Hyperprior.flat(2))
    assert joined.log_density(np.append(theta, [5.0, -5.0])) == prior.log_density(theta)
    np.testing.assert_array_equal(joined.gradient(np.append(theta, [5.0, -5.0]))[-2:], 0.0)


def test_hyperprior_follows_the_scale_of_the_features_and_of_the_scores():
    factors = np.array([10.0, 0.1, 1.0])
    X = A * factors
    for kernel in (SquaredExponential(1.0, (1.0, 2.0, 3.0), 0.2), SquaredExponential(1.0, 2.0)):
        given, scaled = kernel.hyperprior_on(A, 2.0), kernel.hyperprior_on(7.0 * A, 4.0)
        moved = np.log([2.0, *[7.0] * kernel.names.count("length_scale"), 1.0])[: len(given.mean)]
        np.testing.assert_allclose(scaled.mean, given.mean + moved)
    each = SquaredExponential(1.0, (1.0, 2.0, 3.0))
    np.testing.assert_allclose(
        each.hyperprior_on(X, 1.0).mean[1:] - each.hyperprior_on(A, 1.0).mean[1:], np.log(factors)
    )
    linear = Scaled(Linear())
    assert linear.hyperprior_on(100.0 * A, 3.0).mean == pytest.approx(
        linear.hyperprior_on(A, 3.0).mean - np.log(100.0)
    )


def test_length_scales_move_together_more_easily_than_apart():
    kernel = SquaredExponential(1.0, (1.0, 2.0, 3.0))
    prior = kernel.hyperprior_on(A, 3.0)
    together, apart = np.array([0.0, 1.0, 1.0, 1.0]), np.array([0.0, 1.0, -1.0, 0.0])
    assert 0.0 > prior.log_density(prior.mean + together) > prior.log_density(prior.mean + apart)


def test_amplitude_of_any_kernel_is_looked_for_where_scores_are_of_the_size_of_the_noise():
    low, high = np.exp(Scaled(Linear()).bounds_on(1e4 * A)[0])
    spread = np.sqrt(
        Scaled(Linear(), low).difference_variance(1e4 * A, np.roll(1e4 * A, 1, axis=0)).mean()
    )
    assert spread < 0.1
    assert high == pytest.approx(30.0)
    assert Scaled(Linear()).hyperprior_on(np.ones((3, 2)), 3.0).mean == pytest.approx(np.log(3.0))


def test_words_become_length_scales_of_the_data():
    X = np.column_stack([A[:, 0], 10.0 * A[:, 1], np.ones(len(A))])
    one = SquaredExponential().fitted_to(X)
    each = SquaredExponential(length_scale="per_feature").fitted_to(X)
    assert one.length_scale == pytest.approx(np.sqrt(X.var(axis=0).sum()))
    np.testing.assert_allclose(each.length_scale, np.sqrt(3.0) * np.append(X.std(axis=0)[:2], 1.0))
    assert each.fitted_to(A) is each
    assert SquaredExponential().fitted_to(np.ones((4, 2))).length_scale == 1.0
    constant = np.column_stack([A[:, 0], np.full(len(A), 0.1)])  # its computed variance is not 0
    each = SquaredExponential(length_scale="per_feature").fitted_to(constant)
    assert each.length_scale[1] == pytest.approx(np.sqrt(2.0))


def test_a_common_length_scale_reaches_the_nearest_rows():
    X = np.array([[0.0], [0.0], [1.0], [3.0], [3.5], [20.0]])
    assert neighbour_distance(X) == 1.0  # of 1, 1, 1, 0.5, 0.5, 16.5
    assert neighbour_distance(np.ones((3, 2))) == 1.0
    assert neighbour_distance(np.arange(2000.0)[:, None]) == 1.0
    low = np.exp(SquaredExponential(1.0, 5.0).bounds_on(X)[1, 0])
    assert low == pytest.approx(0.5)
    assert np.exp(SquaredExponential(1.0, 0.2).bounds_on(X)[1, 0]) == pytest.approx(0.2)
    assert np.exp(SquaredExponential(1.0, 100.0).bounds_on(X)[1, 0]) == pytest.approx(1.0)


def test_scaled_kernel_fits_the_one_inside():
    assert Scaled(Gaussian(), 2.0).fitted_to(A).kernel == Gaussian().fitted_to(A)
    np.testing.assert_allclose(Scaled(Linear(), 2.0)(A, B), 4.0 * A @ B.T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SquaredExponential(0.0), "`amplitude` must be"),
        (
            lambda: SquaredExponential(item_effect=-0.1),
            "`item_effect` must be a finite number from 0 on",
        ),
        (lambda: SquaredExponential(1.0, (1.0, -1.0)), "`length_scale` must be a finite"),
        (lambda: SquaredExponential(1.0, "ard"), "`length_scale` must be one of"),
        (lambda: SquaredExponential()(A, B), "must be fitted before"),
        (lambda: SquaredExponential(1.0, (1.0, 2.0))(A, B), "3 features, got 2 numbers"),
        (lambda: Scaled(Linear(), -1.0), "`amplitude` must be"),
    ],
)
def test_bad_parameters_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_parameters_beyond_all_floats_are_refused():
    kernel = SquaredExponential(2.0, (1.0, 3.0), 0.3)
    with np.errstate(over="ignore"):
        for entry, name in enumerate(("amplitude", "length_scale", "length_scale", "item_effect")):
            theta = kernel.theta.copy()
            theta[entry] = 800.0
            with pytest.raises(InvalidInputError, match=f"`{name}` must be a finite number"):
                kernel.with_theta(theta)
