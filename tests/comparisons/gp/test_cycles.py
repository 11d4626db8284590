"""Answers that go in circles: what no two scores explain."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import reference
from processes import conditioned
from rankwise import ComparisonTable, InvalidInputError, PreferenceGP, SquaredExponential, load
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.terms import Circles, Effects, WithCircles
from rankwise.rankers.scoring_function import scoring_function

KERNEL = SquaredExponential(1.5, 1.2, 0.4)
N_ITEMS = 6
X = np.random.default_rng(5).normal(size=(N_ITEMS, 2))
PAIRS = np.array([[0, 1], [1, 2], [2, 0], [3, 4], [5, 3], [1, 0], [4, 0], [0, 1]])


def fixed():
    """Return a process whose parameters are not learned."""
    return PreferenceGP(KERNEL, likelihood="probit", optimize=False, intransitive=True)


def duels(n_rows, seed=0, n_items=9):
    """Draw comparisons of rocks, papers and scissors, told by their features."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n_items) % 3
    features = np.column_stack([np.eye(3)[kind], rng.normal(size=n_items)])
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    lead = 1.8 * ((kind[second] - kind[first] + 1) % 3 - 1.0) + rng.normal(size=n_rows)
    ends = np.column_stack([first, second])
    return features, np.where((lead > 0.0)[:, None], ends, ends[:, ::-1])


def test_posterior_equals_the_reference():
    """Everything is one Gaussian: the scores, and g of every pair of items."""
    gp = fixed().fit(X, pairs=PAIRS)
    K = KERNEL(X, X)
    i, j = np.triu_indices(N_ITEMS, 1)
    G = K[np.ix_(i, i)] * K[np.ix_(j, j)] - K[np.ix_(i, j)] * K[np.ix_(j, i)]
    prior = np.block([[K, np.zeros((N_ITEMS, len(i)))], [np.zeros((len(i), N_ITEMS)), G]])

    def row(winner, loser):
        low, high = sorted((winner, loser))
        place = N_ITEMS + int(np.flatnonzero((i == low) & (j == high))[0])
        values = np.zeros(len(prior))
        values[[winner, loser, place]] = 1.0, -1.0, 1.0 if winner < loser else -1.0
        return values

    A = np.array([row(*pair) for pair in PAIRS])
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(prior, A, [ndtr] * len(A), 12)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    got, got_cov = gp.predict(X, return_cov=True)
    np.testing.assert_allclose(got, mean[:N_ITEMS], atol=1e-5)
    np.testing.assert_allclose(got_cov, cov[:N_ITEMS, :N_ITEMS], atol=1e-5)
    asked = [[0, 1], [1, 0], [2, 5]]
    rows = np.array([row(*pair) for pair in asked])
    variance = np.einsum("ij,jk,ik->i", rows, cov, rows)
    expected = ndtr(rows @ mean / np.sqrt(1.0 + variance))
    p = gp.predict_pair(*np.array(asked).T)
    np.testing.assert_allclose(p, expected, atol=1e-5)
    assert p[0] + p[1] == pytest.approx(1.0, abs=1e-12)


def test_circles_are_learnt_where_scores_are_at_chance():
    features, pairs = duels(170)
    known, new = pairs[:90], pairs[90:]
    losses = {}
    for mode in (False, "auto"):
        gp = PreferenceGP(likelihood="probit", intransitive=mode).fit(features, pairs=known)
        losses[mode] = -np.mean(np.log(gp.predict_pair(*new.T)))
    assert losses[False] > 0.6
    assert losses["auto"] < 0.45
    assert any(isinstance(term, Circles) for term in gp.terms_)


def test_circles_are_not_believed_in_without_evidence():
    rng = np.random.default_rng(0)
    ends = np.array([rng.choice(N_ITEMS, 2, replace=False) for _ in range(60)])
    lead = 2.0 * (X[ends[:, 0], 0] - X[ends[:, 1], 0]) + rng.normal(size=60)
    pairs = np.where((lead > 0.0)[:, None], ends, ends[:, ::-1])
    gp = PreferenceGP(likelihood="probit", intransitive="auto").fit(X, pairs=pairs)
    plain = PreferenceGP(likelihood="probit").fit(X, pairs=pairs)
    assert not any(isinstance(term, Circles) for term in gp.terms_)
    np.testing.assert_allclose(gp.predict(X), plain.predict(X), atol=1e-8)


def test_update_forget_and_files_know_circles(tmp_path):
    gp = fixed().fit(X, pairs=PAIRS[:6])
    start = gp.predict_pair([0], [1])
    gp.update(PAIRS[6:])
    whole = fixed().fit(X, pairs=PAIRS)
    np.testing.assert_allclose(gp.predict_pair([4], [0]), whole.predict_pair([4], [0]), atol=1e-5)
    gp.save(tmp_path / "gp.rankwise")
    saved = load(tmp_path / "gp.rankwise")
    np.testing.assert_allclose(saved.predict_pair([4], [0]), gp.predict_pair([4], [0]), atol=1e-9)
    np.testing.assert_allclose(gp.forget(PAIRS[6:]).predict_pair([0], [1]), start, atol=1e-5)
    assert whole.leaderboard().answers.sum() == 2 * len(PAIRS)
    assert whole.suggest().shape == (1, 2)
    assert len(whole.suspect_answers()) == 7
    with pytest.raises(InvalidInputError, match="no score function of a single item"):
        scoring_function(whole)


def test_duels_give_the_comparisons_back():
    known = Comparisons.from_pairs([[3, 1], [1, 3], [2, 5], [5, 2]], tied=[0, 0, 0, 1])
    pairs, answers = known.as_duels()
    assert pairs.tolist() == [[1, 3], [2, 5]]
    back = answers.from_duels(pairs)
    np.testing.assert_array_equal(back.winner, known.winner)
    np.testing.assert_array_equal(back.loser, known.loser)


def test_the_gradient_of_the_kernel_equals_finite_differences():
    rng = np.random.default_rng(1)
    kernel = WithCircles(KERNEL, SquaredExponential(0.8, 1.5, 0.3), 2)
    A = np.column_stack([rng.normal(size=(5, 4)), [1, 1, 1, 0, 1], [1, 1, 0, 0, 1]])
    B, M, g = A[[1, 4, 0]], rng.normal(size=(5, 3)), rng.normal(size=5)
    for value, gradient in (
        (lambda k: np.sum(M * k(A, B)), kernel.weighted_gradient(A, B, M)),
        (
            lambda k: g @ k.difference_variance(A, A[::-1]),
            kernel.weighted_variance_gradient(A, A[::-1], g),
        ),
    ):
        steps = 1e-6 * np.eye(len(kernel.theta))
        ahead, behind = (
            [value(kernel.with_theta(kernel.theta + sign * step)) for step in steps]
            for sign in (1.0, -1.0)
        )
        np.testing.assert_allclose(gradient, np.subtract(ahead, behind) / 2e-6, atol=1e-5)
    np.testing.assert_allclose(kernel.diagonal(A), kernel(A, A).diagonal(), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intransitive": "maybe"}, "True, False or 'auto'"),
        ({"intransitive": True, "basis": 3}, "without `basis`"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        PreferenceGP(**options).fit(X, pairs=PAIRS)


def test_how_certain_the_order_is():
    gp = fixed().fit(X, pairs=PAIRS)
    assert 0.5 < gp.certainty() < 1.0
    assert gp.certainty(goal="best") < gp.certainty()


HABITS = {"log_reliability": np.array([0.5, -0.7]), "log_width": np.zeros(2)}
DRIFT = (2.0, 30.0, 100.0)


def in_context(kind):
    """Return answers that know who judged, when, or a covariate of the first item."""
    rng = np.random.default_rng(3)
    extra = {
        "judges": {"judge": rng.integers(2, size=len(PAIRS))},
        "dates": {"date": np.array([0.0, 10.0, 10.0, 50.0, 0.0, 90.0, 90.0, 50.0])},
        "covariates": {"covariates": {"home": rng.normal(size=len(PAIRS))}},
    }[kind]
    outcome = np.ones(len(PAIRS), dtype=int)
    return ComparisonTable.of(*PAIRS.T, outcome, names=np.arange(N_ITEMS), **extra)


def covariance_of_comparisons(ends, date, home, deviation):
    """Return the covariance of f(a) - f(b) + effect * home + g(a, b), comparison by comparison."""
    (i, j), K = np.array(ends).T, KERNEL(X, X)
    q, time, _ = DRIFT
    C = (1.0 + q * np.exp(-np.abs(np.subtract.outer(date, date)) / time)) / (1.0 + q)
    between = K[np.ix_(i, i)] + K[np.ix_(j, j)] - K[np.ix_(i, j)] - K[np.ix_(j, i)]
    cyclic = K[np.ix_(i, i)] * K[np.ix_(j, j)] - K[np.ix_(i, j)] * K[np.ix_(j, i)]
    return between * C + deviation**2 * np.outer(home, home) + cyclic


@pytest.mark.parametrize("kind", ["judges", "dates", "covariates"])
def test_circles_with_judges_dates_and_covariates_equal_the_reference(kind):
    table = in_context(kind)
    gp = PreferenceGP(
        KERNEL, likelihood="probit", optimize=False, intransitive=True, drift=kind == "dates"
    ).fit(X, pairs=table)
    r, asked = np.ones(len(PAIRS)), {"judges": {"judge": 1}, "dates": {"date": 70.0}}.get(kind, {})
    if kind == "judges":
        conditioned(gp, likelihood=replace(gp.likelihood_, **HABITS))
        r = np.exp(HABITS["log_reliability"])[table.judge.index]
    if kind == "dates":
        conditioned(gp, drift=DRIFT)
    if kind == "covariates":
        asked = {"covariates": {"home": [1.5]}}
    date = np.append(table.date, 70.0) if kind == "dates" else np.zeros(len(PAIRS) + 1)
    home, deviation = np.zeros(len(PAIRS) + 1), 0.0
    if kind == "covariates":
        home = np.append(table.covariates[:, 0], 1.5)
        (deviation,) = gp.process_.model.term(Effects).deviations
    C = covariance_of_comparisons([*PAIRS.tolist(), [2, 5]], date, home, deviation)
    A = np.eye(len(PAIRS), len(C))
    densities = [lambda s, scale=scale: ndtr(scale * s) for scale in r]
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(C, A, densities, 20)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    scale = np.exp(HABITS["log_reliability"][1]) if kind == "judges" else 1.0
    expected = ndtr(scale * mean[-1] / np.sqrt(1.0 + scale**2 * cov[-1, -1]))
    assert gp.predict_pair([2], [5], **asked)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["judges", "dates", "covariates"])
def test_circles_are_learnt_with_judges_dates_and_covariates(kind, tmp_path):
    features, pairs = duels(120)
    rng = np.random.default_rng(4)
    extra = {
        "judges": {"judge": rng.integers(2, size=120)},
        "dates": {"date": rng.integers(4, size=120).astype(float)},
        "covariates": {"covariates": {"home": rng.normal(size=120)}},
    }[kind]
    table = ComparisonTable.of(*pairs.T, np.ones(120, dtype=int), names=np.arange(9), **extra)
    gp = PreferenceGP(likelihood="probit", intransitive=True, drift=kind == "dates")
    gp.fit(features, pairs=table)
    rock, paper, scissors = range(3)
    circle = [(rock, paper), (paper, scissors), (scissors, rock)]
    before = [gp.predict_pair([a], [b])[0] for a, b in circle]
    assert min(before) > 0.6
    gp.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal([again.predict_pair([a], [b])[0] for a, b in circle], before)
    more = {"date": [3.0] * 10} if kind == "dates" else {}
    more |= {"judge": [0] * 10} if kind == "judges" else {}
    gp.update([(paper, rock)] * 10, **more)
    assert gp.predict_pair([rock], [paper])[0] < before[0]
