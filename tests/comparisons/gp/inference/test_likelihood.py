from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, log_expit, ndtr

from rankwise.comparisons.gp.inference.likelihood import (
    TIE,
    WIN,
    GaussianMargin,
    Logistic,
    Outcomes,
    Probit,
    ProbitWithTies,
    WithFlips,
    inverse_mills_ratio,
    truncated_variance,
)
from rankwise.comparisons.gp.judges import ByJudge
from rankwise.core.errors import InvalidInputError
from reference import judged_answer, tilted_by_quadrature

MARGIN = Outcomes(margin=np.array([0.7]))
CASES = [
    pytest.param(Probit(), WIN, ndtr, id="probit"),
    pytest.param(Probit(2.5), WIN, lambda s: ndtr(s / np.sqrt(2.5)), id="noisy probit"),
    pytest.param(
        Probit(1.5),
        Outcomes(extra_noise=np.array([0.5])),
        lambda s: ndtr(s / np.sqrt(2.0)),
        id="probit with excess",
    ),
    pytest.param(ProbitWithTies(0.4, 1.2), WIN, lambda s: ndtr((s - 0.4) / np.sqrt(1.2)), id="win"),
    pytest.param(
        ProbitWithTies(0.4, 1.2),
        TIE,
        lambda s: ndtr((0.4 - s) / np.sqrt(1.2)) - ndtr((-0.4 - s) / np.sqrt(1.2)),
        id="tie",
    ),
    pytest.param(WithFlips(Probit(), 0.05), WIN, lambda s: 0.05 + 0.9 * ndtr(s), id="flip"),
    pytest.param(
        WithFlips(ProbitWithTies(0.4), 0.02),
        WIN,
        lambda s: 0.98 * ndtr(s - 0.4) + 0.02 * ndtr(-s - 0.4),
        id="flip where ties exist",
    ),
    pytest.param(
        WithFlips(ProbitWithTies(0.4), 0.02),
        TIE,
        lambda s: ndtr(0.4 - s) - ndtr(-0.4 - s),
        id="tie, which has no flips",
    ),
    pytest.param(Logistic(), WIN, expit, id="logistic"),
    pytest.param(
        Logistic(Probit(2.5)), WIN, lambda s: expit(s / np.sqrt(2.5)), id="noisy logistic"
    ),
    pytest.param(Logistic(ProbitWithTies(0.4)), WIN, lambda s: expit(s - 0.4), id="logistic win"),
    pytest.param(
        Logistic(ProbitWithTies(0.4)),
        TIE,
        lambda s: expit(0.4 - s) - expit(-0.4 - s),
        id="logistic tie",
    ),
    pytest.param(
        GaussianMargin(0.3),
        MARGIN,
        lambda s: np.exp(-0.5 * (s - 0.7) ** 2 / 0.3) / np.sqrt(2 * np.pi * 0.3),
        id="gaussian",
    ),
]
JUDGES = ByJudge(ProbitWithTies(0.4), np.log([0.5, 2.0]), np.log([3.0, 0.5]), np.ones(2))
OUTCOMES_OF_JUDGES = [
    pytest.param(
        JUDGES,
        Outcomes(judge=np.array([1])),
        judged_answer(0.5, 1.2, tied=False),
        id="win of a judge",
    ),
    pytest.param(
        JUDGES,
        Outcomes(tied=np.array([True]), judge=np.array([2])),
        judged_answer(2.0, 0.2, tied=True),
        id="tie of a judge",
    ),
    pytest.param(
        replace(JUDGES, base=WithFlips(ProbitWithTies(0.4), 0.05)),
        Outcomes(judge=np.array([1])),
        judged_answer(0.5, 1.2, tied=False, flip_rate=0.05),
        id="flip of a judge",
    ),
    pytest.param(
        replace(JUDGES, base=GaussianMargin(0.3)),
        Outcomes(margin=np.array([0.7]), judge=np.array([1])),
        lambda s: np.exp(-0.5 * (s - 0.7) ** 2 / 1.2) / np.sqrt(2 * np.pi * 1.2),
        id="margin of a judge",
    ),
]
CASES += OUTCOMES_OF_JUDGES
MEANS = np.array([-6.0, -1.3, 0.0, 0.4, 5.0])
VARIANCES = np.array([0.05, 1.0, 30.0, 4.0, 2.0])


@pytest.mark.parametrize(("likelihood", "answers", "density"), CASES)
def test_sites_give_the_moments_of_quadrature(likelihood, answers, density):
    average = likelihood.average(MEANS, VARIANCES, answers)
    tau, nu = average.sites(MEANS, VARIANCES, clip=False)
    variance = 1.0 / (1.0 / VARIANCES + tau)
    mean = variance * (MEANS / VARIANCES + nu)
    expected = [tilted_by_quadrature(density, *at) for at in zip(MEANS, VARIANCES, strict=True)]
    np.testing.assert_allclose(
        np.array([average.log_z, mean, variance]).T, expected, rtol=1e-8, atol=1e-9
    )
    np.testing.assert_allclose(variance / VARIANCES, average.variance_ratio, rtol=1e-9)


@pytest.mark.parametrize(("likelihood", "answers", "density"), CASES)
def test_derivatives_equal_finite_differences(likelihood, answers, density):
    def log_z(h=0.0, model=likelihood):
        return model.average(MEANS + h, VARIANCES, answers).log_z

    average = likelihood.average(MEANS, VARIANCES, answers)
    np.testing.assert_allclose(average.slope, _central(log_z, 1e-5), rtol=1e-6, atol=1e-8)
    slope = lambda h: likelihood.average(MEANS + h, VARIANCES, answers).slope  # noqa: E731
    np.testing.assert_allclose(average.curvature, -_central(slope, 1e-5), rtol=1e-6, atol=1e-8)
    gradient = likelihood.gradient(MEANS, VARIANCES, answers)
    assert gradient.keys() == likelihood.parameters.keys()
    for name, value in likelihood.parameters.items():
        moved = lambda h, n=name, v=value: log_z(model=likelihood.replace(**{n: v + h}))  # noqa: E731
        np.testing.assert_allclose(gradient[name], _central(moved, 1e-5), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "likelihood",
    [
        Probit(2.0),
        ProbitWithTies(0.3),
        WithFlips(),
        WithFlips(ProbitWithTies(0.8), 0.1),
    ],
)
def test_probabilities_of_the_outcomes_add_up_to_one(likelihood):
    total = sum(np.exp(likelihood.average(sign * MEANS, VARIANCES).log_z) for sign in (1.0, -1.0))
    outcomes = 2 + ("tie_width" in likelihood.parameters)
    if outcomes == 3:
        total = total + np.exp(likelihood.average(MEANS, VARIANCES, TIE).log_z)
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)


@pytest.mark.parametrize("answers", [WIN, TIE], ids=["win", "tie"])
@pytest.mark.parametrize(
    "likelihood",
    [ProbitWithTies(0.5), ProbitWithTies(1e-6), WithFlips(ProbitWithTies(), 1e-6)],
    ids=repr,
)
def test_moments_stay_sound_however_far_an_answer_is_from_expected(likelihood, answers):
    far = np.concatenate([-np.logspace(-9, 9, 60), np.logspace(-9, 9, 60)])
    for variance in (1e-12, 1.0, 1e12):
        v = np.full_like(far, variance)
        average = likelihood.average(far, v, answers)
        tau, nu = average.sites(far, v)
        for values in (*likelihood.gradient(far, v, answers).values(), tau, nu, average.log_z):
            assert np.isfinite(values).all()
        assert (average.variance_ratio > 0.0).all()
        assert (tau <= 1.0 + 1e-9).all()  # a site has at most the precision of an answer
        assert (tau >= 0.0).all()


@pytest.mark.parametrize(("likelihood", "answers", "density"), CASES)
def test_extra_noise_has_the_gradient_of_finite_differences(likelihood, answers, density):
    def log_z(h):
        noisy = replace(answers, extra_noise=answers.extra_noise + h)
        return likelihood.average(MEANS, VARIANCES, noisy).log_z

    got = likelihood.average(MEANS, VARIANCES, answers).noise_gradient
    np.testing.assert_allclose(got, _central(log_z, 1e-5), rtol=1e-6, atol=1e-8)


def test_logistic_answers_follow_the_logistic_curve_far_out():
    s = np.linspace(-25.0, 25.0, 501)
    got = Logistic().average(s, np.zeros_like(s))
    np.testing.assert_allclose(got.log_z, log_expit(s), atol=2e-4)
    assert Logistic().probit_noise == pytest.approx(16.0 / (2.0 * np.pi))  # the same slope at 0


def test_tails_keep_their_known_bounds():
    x = np.logspace(0.5, 8, 300)
    r = inverse_mills_ratio(-x)
    assert (r <= (x + 1 / x) * (1 + 1e-15)).all()
    assert (r >= (x + 1 / x - 2 / x**3) * (1 - 1e-15)).all()
    gap = truncated_variance(-x, r)
    assert (gap <= x**-2.0).all()
    assert (gap >= (x**-2.0 - 6 * x**-4.0) * (1 - 1e-9)).all()
    assert (inverse_mills_ratio(np.array([40.0, 1e4, 1e300])) == 0.0).all()


def test_series_of_the_gap_meets_the_direct_form():
    z = np.array([-50.0 - 1e-9, -50.0 + 1e-9])
    below, above = truncated_variance(z, inverse_mills_ratio(z))
    assert below == pytest.approx(above, rel=1e-8)


def test_vanishing_flip_rate_gives_the_base_back():
    for base in (Probit(), ProbitWithTies(0.3)):
        plain, flipped = (one.average(MEANS, VARIANCES) for one in (base, WithFlips(base, 1e-300)))
        for name in ("log_z", "slope", "curvature", "variance_ratio"):
            np.testing.assert_allclose(getattr(flipped, name), getattr(plain, name), rtol=1e-12)


def test_cut_sites_keep_the_mean():
    flip, m, v = WithFlips(Probit(), 0.05), np.array([-3.0]), np.array([4.0])
    average = flip.average(m, v)
    assert average.curvature[0] < 0.0
    tau, nu = average.sites(m, v)
    assert tau[0] == 0.0
    assert m + v * nu == pytest.approx(m + v * average.slope)


def test_replace_changes_only_what_it_names():
    flip = WithFlips(ProbitWithTies(0.4, 1.2), 0.05)
    assert flip.replace(**flip.parameters) == flip
    assert flip.replace(noise=3.0, flip_rate=0.1) == WithFlips(ProbitWithTies(0.4, 3.0), 0.1)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.inf, np.nan])
def test_noise_must_be_positive(noise):
    for build in (Probit, GaussianMargin, lambda n: ProbitWithTies(0.5, n)):
        with pytest.raises(InvalidInputError, match="`noise` must be a finite number above 0"):
            build(noise)


def test_tie_width_must_be_positive():
    with pytest.raises(InvalidInputError, match="`tie_width` must be a finite number above 0"):
        ProbitWithTies(0.0)


@pytest.mark.parametrize(
    ("base", "rate"), [(Probit(), 0.5), (ProbitWithTies(), 0.6), (Probit(), 0.0)]
)
def test_flip_rate_leaves_the_truth_ahead(base, rate):
    with pytest.raises(
        InvalidInputError, match="`flip_rate` must be a finite number between 0 and 0.5"
    ):
        WithFlips(base, rate)
    with pytest.raises(InvalidInputError, match="`flip_rate` must be a finite number"):
        WithFlips(base).replace(flip_rate=rate)


def _central(function, h):
    return (function(h) - function(-h)) / (2.0 * h)
