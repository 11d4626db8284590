"""Learning the parameters of preference Gaussian processes."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from processes import inference_of
from rankwise import (
    ConvergenceWarning,
    InvalidInputError,
    PreferenceGP,
    SquaredExponential,
    average_over_length_scales,
)
from rankwise.comparisons.gp import evidence
from rankwise.comparisons.gp.answers import (
    DistinctItems,
    GivenAnswers,
    ShownItems,
    choose_likelihood,
)
from rankwise.comparisons.gp.evidence import (
    Inference,
    NegativeLogEvidence,
    likelihood_hyperprior,
    most_probable,
)
from rankwise.comparisons.gp.inference.ep import expectation_propagation
from rankwise.comparisons.gp.terms import Covariance, Drift, Effects, Scores
from rankwise.features.covariances import Hyperprior, SklearnKernel
from rankwise.solve.iteration import StoppingRule


def wave(n_items=60, n_pairs=120, flips=0.0, seed=0, scale=8.0):
    """Compare points on a sine wave, some answers recorded the wrong way round."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-3.0, 3.0, n_items)
    f = scale * np.sin(x)
    i = rng.integers(n_items, size=n_pairs)
    j = (i + rng.integers(1, n_items, size=n_pairs)) % n_items
    wrong = rng.random(n_pairs) < flips
    swap = (f[i] + 0.7 * rng.normal(size=n_pairs) < f[j] + 0.7 * rng.normal(size=n_pairs)) ^ wrong
    pairs = np.where(swap[:, None], np.stack([j, i], 1), np.stack([i, j], 1))
    return x[:, None], pairs, f


def errors(scores, truth):
    """Return the share of pairs in the wrong order."""
    i, j = np.triu_indices(len(truth), 1)
    return np.mean((scores[i] - scores[j]) * (truth[i] - truth[j]) <= 0.0)


CASES = {
    "probit": ("probit", "ep", False, None),
    "laplace": ("probit", "laplace", False, None),
    "ties": ("probit", "ep", True, None),
    "robust": ("robust", "ep", False, None),
    "robust ties": ("robust", "ep", True, None),
    "gaussian": ("gaussian", "ep", True, None),
    "basis": ("probit", "ep", False, 6),
    "gaussian basis": ("gaussian", "ep", False, 6),
    "laplace ties": ("probit", "laplace", True, None),
    "laplace robust": ("robust", "laplace", True, None),
    "laplace basis": ("robust", "laplace", False, 6),
    "logistic": ("logistic", "ep", True, None),
    "logistic basis": ("logistic", "ep", False, 6),
    "logistic laplace basis": ("logistic", "laplace", True, 6),
    "light": ("probit", "ep", True, None),
    "light basis": ("robust", "ep", False, 6),
}
KERNELS = {
    "ours": SquaredExponential(1.5, (0.8, 2.0)),
    "with item effects": SquaredExponential(1.5, (0.8, 2.0), 0.4),
    "scikit-learn": SklearnKernel(ConstantKernel(2.0) * RBF([0.8, 2.0])),
    "with drift": Covariance((Drift(SquaredExponential(1.5, 0.8, 0.4), 1.5, 0.7, 1.0),), 1),
    "with effects": Covariance(
        (Scores(SquaredExponential(1.5, 0.8, 0.4)), Effects(None, ("x",), (0.7,))), 1
    ),
}


def recorded(likelihood, X, pairs, tied, margin=None, weight=None):
    """Return comparisons of rows."""
    answers = GivenAnswers(None, pairs, tied, margin, weight)
    table = answers.table(answers.data(len(X)), likelihood)
    return table.shown_as(ShownItems.plain(len(X)), DistinctItems.of(X))[1]


@pytest.mark.parametrize("hyperprior", ["weak", None])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("case", CASES)
def test_gradient_equals_finite_differences(case, kernel, hyperprior):
    name, method, with_ties, n_basis = CASES[case]
    rng = np.random.default_rng(1)
    X, pairs, _ = wave(12, 25, flips=0.1)
    X = np.column_stack([X, rng.normal(size=len(X))])
    tied = [[0, 1], [5, 6], [3, 4]] if with_ties else None
    margin = rng.normal(size=len(pairs)) if name == "gaussian" else None
    weight = rng.uniform(0.1, 1.5, len(pairs)) if "light" in case else None
    comparisons = recorded(name, X, pairs, tied, margin, weight)
    likelihood = choose_likelihood(name, comparisons, None, 0.05, 0.4)
    basis = None if n_basis is None else X[:n_basis]
    inference = Inference(X[comparisons.items], comparisons, basis, method)
    free = likelihood.free_parameters
    prior = Hyperprior.flat(len(kernel.theta) + len(free))
    if hyperprior == "weak":
        prior = kernel.hyperprior_on(X, 3.0).joined_with(likelihood_hyperprior(free))
    rule = StoppingRule(1e-10, 100)
    objective = NegativeLogEvidence(
        inference, kernel, likelihood, tuple(free), prior, rule=rule, rank_tol=1e-12
    )
    x = objective.start
    steps = 1e-3 * np.eye(len(x))
    expected = [(objective(x + e)[0] - objective(x - e)[0]) / 2e-3 for e in steps]
    np.testing.assert_allclose(objective(x)[1], expected, rtol=1e-4, atol=1e-5)


def test_without_flips_the_objective_is_that_of_the_likelihood_behind_them():
    X, pairs, _ = wave(20, 60, flips=0.1)
    comparisons = recorded("robust", X, pairs[:50], pairs[50:])
    robust = choose_likelihood("robust", comparisons, None, 0.1, 0.5)
    inference = Inference(X[comparisons.items], comparisons, None, "ep")
    kernel = SquaredExponential(2.0, 1.0)
    with_flips = NegativeLogEvidence(
        inference, kernel, robust, tuple(robust.free_parameters), Hyperprior.flat(4)
    )
    behind = NegativeLogEvidence(inference, kernel, robust.base, ("tie_width",), Hyperprior.flat(3))
    x = with_flips.start
    value, gradient = with_flips.without_flips()(x)
    expected, expected_gradient = behind(np.delete(x, 2))
    assert value == expected != with_flips(x)[0]
    np.testing.assert_array_equal(gradient, np.insert(expected_gradient, 2, 0.0))
    assert behind.without_flips() is behind


def by_evidence(kernel=None, **options):
    """Return the model of the paper: functions of the features, judged by the evidence alone."""
    options = {"likelihood": "probit", "hyperprior": None, **options}
    return PreferenceGP(kernel or SquaredExponential(), **options)


@pytest.mark.parametrize("hyperprior", ["weak", None])
@pytest.mark.parametrize("likelihood", ["probit", "robust", "logistic", "gaussian"])
def test_learnt_parameters_are_a_maximum(likelihood, hyperprior):
    X, pairs, _ = wave(scale=2.0)
    options = {"pair_margin": np.ones(len(pairs))} if likelihood == "gaussian" else {}
    kernel = SquaredExponential(item_effect=0.3)
    gp = PreferenceGP(kernel, likelihood=likelihood, hyperprior=hyperprior)
    gp.fit(X, pairs=pairs, **options)
    spread = {"gaussian": 1.0, "logistic": 3.0 * np.pi / np.sqrt(3.0)}.get(likelihood, 3.0)
    prior = gp.kernel_.hyperprior_on(X, spread)

    def objective(model):
        known = prior.log_density(model.kernel_.theta) if hyperprior else 0.0
        return model.log_marginal_likelihood_ + known

    for moved in gp.kernel_.theta + np.log(1.25) * np.concatenate([np.eye(3), -np.eye(3)]):
        other = PreferenceGP(
            gp.kernel_.with_theta(moved),
            likelihood=likelihood,
            optimize=False,
            **gp.likelihood_.parameters,
        )
        assert objective(other.fit(X, pairs=pairs, **options)) < objective(gp) + 1e-3


def test_evidence_is_told_without_the_hyperprior():
    X, pairs, _ = wave()
    learned = PreferenceGP(likelihood="probit").fit(X, pairs=pairs)
    again = PreferenceGP(learned.kernel_, likelihood="probit", optimize=False).fit(X, pairs=pairs)
    assert learned.log_marginal_likelihood_ == pytest.approx(
        again.log_marginal_likelihood_, abs=1e-6
    )
    free = PreferenceGP(likelihood="probit", hyperprior=None).fit(X, pairs=pairs)
    assert free.log_marginal_likelihood_ >= learned.log_marginal_likelihood_


def test_without_a_hyperprior_answers_without_noise_drive_the_amplitude_to_its_bound():
    X, pairs, f = wave(scale=1e6)
    gp = by_evidence().fit(X, pairs=pairs)
    assert gp.kernel_.amplitude == pytest.approx(30.0)
    lower = by_evidence(bounds={"amplitude": (0.1, 5.0)}).fit(X, pairs=pairs)
    assert lower.kernel_.amplitude == pytest.approx(5.0)
    weak = by_evidence(hyperprior="weak").fit(X, pairs=pairs)
    assert 3.0 < weak.kernel_.amplitude < 29.0
    for model in (gp, weak):
        assert errors(model.predict(X), f) < 0.05


def test_many_features_do_not_make_it_overconfident():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, 40)), rng.normal(size=(200, 40))
    f, truth = (rows[:, 0] + 0.5 * rng.normal(size=len(rows)) for rows in (X, new))
    i = rng.integers(60, size=300)
    j = (i + rng.integers(1, 60, size=300)) % 60
    pairs = np.where((f[i] < f[j])[:, None], np.stack([j, i], 1), np.stack([i, j], 1))
    k = np.argsort(-truth)
    A, B = new[k[:100]], new[k[100:]]
    losses = {
        hyperprior: -np.log(
            PreferenceGP(hyperprior=hyperprior).fit(X, pairs=pairs).predict_pair(A, B)
        ).mean()
        for hyperprior in ("weak", None)
    }
    assert losses["weak"] < min(losses[None], np.log(2.0))


def test_item_effects_are_learnt_where_features_do_not_suffice():
    X, pairs, f = wave(40, 400, scale=5.0)
    rng = np.random.default_rng(1)
    own = f + 3.0 * rng.normal(size=len(f))
    swap = (own[pairs[:, 0]] < own[pairs[:, 1]])[:, None]
    smooth = PreferenceGP().fit(X, pairs=pairs).kernel_
    rough = PreferenceGP().fit(X, pairs=np.where(swap, pairs[:, ::-1], pairs)).kernel_
    assert rough.item_effect > 0.25 > smooth.item_effect


def test_flipped_answers_hurt_probit_and_not_the_robust_likelihood():
    X, pairs, f = wave(100, 300, flips=0.08, scale=30.0)
    probit = by_evidence().fit(X, pairs=pairs)
    robust = by_evidence(likelihood="robust").fit(X, pairs=pairs)
    assert errors(robust.predict(X), f) < 0.6 * errors(probit.predict(X), f)
    assert 0.03 < robust.likelihood_.flip_rate < 0.15
    assert robust.log_marginal_likelihood_ > probit.log_marginal_likelihood_ + 5.0


def test_without_flips_the_robust_likelihood_learns_that_there_are_none():
    X, pairs, _ = wave(60, 200, scale=30.0)
    assert by_evidence(likelihood="robust").fit(X, pairs=pairs).likelihood_.flip_rate < 1e-3
    assert PreferenceGP().fit(X, pairs=pairs).likelihood_.flip_rate < 0.01


def test_tie_width_is_learnt_from_ties():
    rng = np.random.default_rng(0)
    X, pairs, f = wave(60, 600, scale=3.0)
    s = f[pairs[:, 0]] - f[pairs[:, 1]] + rng.normal(size=len(pairs))
    level = np.abs(s) < 1.2
    won = np.where((s < 0)[:, None], pairs[:, ::-1], pairs)
    gp = PreferenceGP(likelihood="probit").fit(X, pairs=won[~level], tied=pairs[level])
    assert gp.likelihood_.tie_width == pytest.approx(1.2, rel=0.2)
    assert gp.predict_pair(X[:1], X[1:2])[0, 1] > gp.predict_pair(X[15:16], X[45:46])[0, 1]


def test_features_that_do_not_matter_get_long_length_scales():
    X, pairs, _ = wave(60, 300)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=60)])
    free = by_evidence(SquaredExponential(length_scale="per_feature")).fit(X, pairs=pairs)
    assert free.kernel_.length_scale[1] > 10.0 * free.kernel_.length_scale[0]
    weak = PreferenceGP().fit(X, pairs=pairs)
    assert weak.kernel_.length_scale[1] > 2.0 * weak.kernel_.length_scale[0]


def test_a_scikit_learn_kernel_learns_the_same():
    X, pairs, _ = wave()
    ours = by_evidence().fit(X, pairs=pairs)
    start = SquaredExponential().fitted_to(X).length_scale
    kernel = ConstantKernel(1.0, (0.05**2, 30.0**2)) * RBF(start, (0.01 * start, 100 * start))
    theirs = by_evidence(kernel).fit(X, pairs=pairs)
    assert theirs.log_marginal_likelihood_ == pytest.approx(ours.log_marginal_likelihood_, abs=1e-3)
    np.testing.assert_allclose(theirs.predict(X), ours.predict(X), atol=0.05)
    assert kernel.k1.constant_value == 1.0  # the given kernel stays as it was


def test_other_kernels_learn_their_amplitude():
    X, pairs, _ = wave()
    gp = PreferenceGP("linear").fit(X, pairs=pairs)
    assert gp.kernel_.amplitude != 1.0
    bare = PreferenceGP(RBF(1.0, "fixed")).fit(X, pairs=pairs)
    assert bare.kernel_.kernel == RBF(1.0, "fixed")


def test_a_basis_learns_nearly_the_same():
    X, pairs, f = wave(80, 300)
    full = PreferenceGP().fit(X, pairs=pairs)
    basis = PreferenceGP(basis=25, random_state=0).fit(X, pairs=pairs)
    assert basis.log_marginal_likelihood_ == pytest.approx(full.log_marginal_likelihood_, abs=0.5)
    assert errors(basis.predict(X), f) < errors(full.predict(X), f) + 0.01


def test_more_starts_and_more_steps_never_find_less():
    X, pairs, _ = wave(30, 40, flips=0.1)
    one = PreferenceGP().fit(X, pairs=pairs)
    many = PreferenceGP(n_starts=5, random_state=0).fit(X, pairs=pairs)
    assert many.log_marginal_likelihood_ >= one.log_marginal_likelihood_ - 1e-6
    inference = inference_of(one)
    start = SquaredExponential(1.0, "per_feature", 0.3).fitted_to(X)
    likelihood = choose_likelihood("robust", inference.comparisons, None, 0.02, 0.5)
    rng = np.random.default_rng(0)
    kernel, likelihood, _ = most_probable(inference, start, likelihood, X, rng, max_steps=1)
    short = inference.posterior(kernel, likelihood)
    assert short.log_evidence < one.log_marginal_likelihood_


def test_the_search_does_not_end_where_scores_are_independent():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(50, 26)), rng.normal(size=(100, 26))
    f, truth = X[:, :5].sum(axis=1), new[:, :5].sum(axis=1)
    i = rng.integers(50, size=300)
    j = (i + rng.integers(1, 50, size=300)) % 50
    pairs = np.where((f[i] < f[j])[:, None], np.stack([j, i], 1), np.stack([i, j], 1))
    for options in ({}, {"likelihood": "robust"}, {"method": "laplace"}):
        gp = by_evidence(**options).fit(X, pairs=pairs)
        assert gp.kernel_.length_scale > 1.0
        assert errors(gp.predict(new), truth) < 0.3
        gp = PreferenceGP(**{"likelihood": "probit", **options}).fit(X, pairs=pairs)
        assert errors(gp.predict(new), truth) < 0.3


def test_gaussian_margins_of_any_scale_are_learnt_alike():
    X, pairs, f = wave(40, 100)
    margin = f[pairs[:, 0]] - f[pairs[:, 1]] + 0.1 * np.random.default_rng(0).normal(size=100)
    small = PreferenceGP(likelihood="gaussian").fit(X, pairs=pairs, pair_margin=1e-6 * margin)
    large = PreferenceGP(likelihood="gaussian").fit(X, pairs=pairs, pair_margin=1e6 * margin)
    np.testing.assert_allclose(large.predict(X), 1e12 * small.predict(X), rtol=1e-3, atol=1e3)
    assert np.sqrt(large.likelihood_.noise) == pytest.approx(1e5, rel=0.3)


def test_average_weighs_length_scales_by_their_evidence():
    X, pairs, _ = wave(20, 15)
    gp = PreferenceGP().fit(X, pairs=pairs)
    alone = average_over_length_scales(gp, [1.0])
    np.testing.assert_allclose(alone.predict(X), gp.predict(X), atol=1e-4)
    for option in ({"return_std": True}, {"return_cov": True}):
        for got, expected in zip(alone.predict(X, **option), gp.predict(X, **option), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-4)
    average = average_over_length_scales(gp, [0.5, 1.0, 2.0])
    evidence = [member.log_marginal_likelihood_ for member in average.members]
    np.testing.assert_allclose(np.diff(np.log(average.weights)), np.diff(evidence))
    assert np.argmax(average.weights) == 1
    mean, std = average.predict(X, return_std=True)
    again, cov = average.predict(X, return_cov=True)
    np.testing.assert_array_equal(average.predict(X), mean)
    np.testing.assert_array_equal(again, mean)
    np.testing.assert_allclose(cov.diagonal(), std**2)
    draws = np.concatenate(
        [
            member.sample(X, int(40_000 * weight), random_state=k)
            for k, (member, weight) in enumerate(zip(average.members, average.weights, strict=True))
        ]
    )
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.04 * std.max())
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.08 * std.max() ** 2)
    parts = [member.predict_pair(X[:5], X[5:10]) for member in average.members]
    np.testing.assert_allclose(average.predict_pair(X[:5], X[5:10]), average.weights @ parts)
    assert gp.kernel_.length_scale == average.members[1].kernel_.length_scale


def test_a_fit_that_does_not_converge_warns(monkeypatch):
    def two_sweeps(*args, rule, **options):
        return expectation_propagation(*args, rule=replace(rule, max_iter=2), **options)

    monkeypatch.setattr(evidence, "expectation_propagation", two_sweeps)
    X, pairs, _ = wave(20, 30)
    with pytest.warns(ConvergenceWarning, match="Not converged after max_iter=2 .*probit") as told:
        gp = PreferenceGP().fit(X, pairs=pairs)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert gp.posterior_.ending.reason == "max_iter"


X, PAIRS, _ = wave(10, 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PreferenceGP(bounds={"gamma": (1, 2)}).fit(X, pairs=PAIRS), "got \\['gamma'\\]"),
        (lambda: PreferenceGP(bounds={"amplitude": (2, 1)}).fit(X, pairs=PAIRS), "0 < low <= high"),
        (
            lambda: average_over_length_scales(PreferenceGP("linear").fit(X, pairs=PAIRS)),
            "must have a length-scale",
        ),
        (
            lambda: average_over_length_scales(PreferenceGP().fit(X, pairs=PAIRS), []),
            "`factors` must hold",
        ),
        (
            lambda: average_over_length_scales(PreferenceGP().fit(X, pairs=PAIRS), [0.0]),
            "`factors` must be",
        ),
    ],
)
def test_bad_settings_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
