"""Covariates of comparisons: what they are worth, learned together with the scores."""

import numpy as np
import pytest
from scipy.special import ndtr

import reference
from processes import conditioned
from rankwise import ComparisonTable, InvalidInputError, PreferenceGP, SquaredExponential, load
from rankwise.comparisons.gp.answers import ShownItems
from rankwise.comparisons.gp.terms import Effects

KERNEL = SquaredExponential(1.5, 1.2, 0.4)
N_ITEMS = 9
X = np.random.default_rng(5).normal(size=(N_ITEMS, 2))


def games(n_rows, seed=0, width=0.0, effects=(0.8, -0.5)):
    """Draw comparisons that a host and a difference of lengths have a say in."""
    rng = np.random.default_rng(seed)
    f = np.sin(2.0 * X).sum(axis=1)
    first = rng.integers(N_ITEMS, size=n_rows)
    second = (first + 1 + rng.integers(N_ITEMS - 1, size=n_rows)) % N_ITEMS
    home = rng.integers(-1, 2, size=n_rows).astype(float)
    length = 10.0 * rng.normal(size=n_rows)
    lead = f[first] - f[second] + effects[0] * home + effects[1] * length / 10.0
    lead += rng.normal(size=n_rows)
    outcome = np.where(np.abs(lead) <= width, 0, np.sign(lead)).astype(int)
    covariates = {"home": home, "length": length}
    return ComparisonTable.of(
        first, second, outcome, covariates=covariates, names=np.arange(N_ITEMS)
    )


def fixed(**options):
    return PreferenceGP(**{"kernel": KERNEL, "likelihood": "probit", "optimize": False, **options})


def dense_prior(gp):
    """Return the covariance of scores and effects, all independent of each other."""
    K = np.zeros((N_ITEMS + len(gp.process_.model.term(Effects).effects),) * 2)
    K[:N_ITEMS, :N_ITEMS] = KERNEL(X, X)
    K[N_ITEMS:, N_ITEMS:] = np.diag(np.square(gp.process_.model.term(Effects).deviations))
    return K


def test_posterior_of_scores_and_effects_equals_the_reference():
    table = games(20)
    gp = fixed().fit(X, pairs=table)
    sign = table.outcome[:, None]
    A = np.hstack([reference.difference_rows(table.pairs, N_ITEMS), sign * table.covariates])
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(
        dense_prior(gp), A, [ndtr] * len(A), n_passes=12
    )
    got, got_cov = gp.predict(X, return_cov=True)
    np.testing.assert_allclose(got, mean[:N_ITEMS], atol=1e-5)
    np.testing.assert_allclose(got_cov, cov[:N_ITEMS, :N_ITEMS], atol=1e-5)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    for k, effect in enumerate(gp.effects_):
        deviation = np.sqrt(cov[N_ITEMS + k, N_ITEMS + k])
        assert effect.name == table.covariate_names[k]
        assert effect.value == pytest.approx(mean[N_ITEMS + k], abs=1e-5)
        assert effect.high - effect.low == pytest.approx(2.0 * 1.6448536 * deviation, abs=1e-4)
    a = np.zeros(N_ITEMS + 2)
    a[[2, 5, N_ITEMS, N_ITEMS + 1]] = 1.0, -1.0, 1.0, -4.0
    expected = ndtr(a @ mean / np.sqrt(1.0 + a @ cov @ a))
    p = gp.predict_pair([2], [5], covariates={"home": [1.0], "length": [-4.0]})
    assert p == pytest.approx(expected, abs=1e-5)


def test_usual_values_of_a_covariate_have_effects_of_usual_size():
    gp = fixed().fit(X, pairs=games(300))
    home, length = gp.process_.model.term(Effects).deviations
    assert length == pytest.approx(home * np.sqrt(2.0 / 3.0) / 10.0, rel=0.1)


@pytest.mark.parametrize("likelihood", ["probit", "robust", "logistic", "gaussian"])
def test_without_effects_covariates_change_little(likelihood):
    """Where covariates are 0 the posterior is that of comparisons without any."""
    table = games(30, width=0.3)
    options = {"margin": np.ones(30)} if likelihood == "gaussian" else {}
    ends = table.first, table.second, table.outcome
    names = np.arange(N_ITEMS)
    none = ComparisonTable.of(*ends, covariates={"home": np.zeros(30)}, names=names, **options)
    plain = ComparisonTable.of(*ends, names=names, **options)
    one = fixed(likelihood=likelihood).fit(X, pairs=none)
    other = fixed(likelihood=likelihood).fit(X, pairs=plain)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-5)
    assert one.log_marginal_likelihood_ == pytest.approx(other.log_marginal_likelihood_, abs=1e-5)
    assert one.effects_[0].value == pytest.approx(0.0, abs=1e-8)


def test_effects_are_learnt():
    gp = PreferenceGP(likelihood="probit", random_state=0)
    gp.fit(X, pairs=games(400, seed=1, width=0.2), first=True)
    first, home, length = gp.effects_
    assert first.name == "first"
    assert first.low < 0.0 < first.high
    assert home.low < 0.8 < home.high
    assert length.low < -0.05 < length.high
    assert home.low > 0.0 > length.high
    board = gp.leaderboard(random_state=0)
    assert [one.name for one in board.effects] == ["first", "home", "length"]
    at_home = gp.predict_pair([0], [1], covariates={"home": [1.0]})
    assert at_home[0, 0] > gp.predict_pair([0], [1])[0, 0]
    np.testing.assert_allclose(
        board.predict_pair([0], [1], {"home": [1.0]})[0], at_home[0], atol=0.01
    )


@pytest.mark.parametrize("likelihood", ["probit", "logistic"])
def test_effects_of_many_answers_have_no_bias(likelihood):
    """Single estimates from 900 answers scatter by a tenth; their mean is the truth."""
    estimates = []
    for seed in range(8):
        rng = np.random.default_rng(1000 + seed)
        f = np.sin(2.0 * X).sum(axis=1)
        first = rng.integers(N_ITEMS, size=900)
        second = (first + 1 + rng.integers(N_ITEMS - 1, size=900)) % N_ITEMS
        home = rng.integers(-1, 2, size=900).astype(float)
        noise = rng.logistic(size=900) if likelihood == "logistic" else rng.normal(size=900)
        outcome = np.sign(f[first] - f[second] + 0.8 * home + noise).astype(int)
        table = ComparisonTable.of(
            first, second, outcome, covariates={"home": home}, names=np.arange(N_ITEMS)
        )
        gp = PreferenceGP(KERNEL, likelihood=likelihood).fit(X, pairs=table)
        estimates.append(gp.effects_[0].value)
    error = np.std(estimates, ddof=1) / np.sqrt(8)
    assert error < 0.06
    assert np.mean(estimates) == pytest.approx(0.8, abs=3.0 * error)


def test_the_order_of_items_in_a_record_does_not_matter():
    table = games(40, width=0.3)
    turned = ComparisonTable.of(
        table.second,
        table.first,
        -table.outcome,
        covariates={"home": -table.covariates[:, 0], "length": -table.covariates[:, 1]},
        names=np.arange(N_ITEMS),
    )
    one, other = (fixed().fit(X, pairs=each) for each in (table, turned))
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-10)


def test_update_and_forget_know_covariates(tmp_path):
    table = games(30, width=0.3)
    head, tail = table.take(np.arange(20)), table.take(np.arange(20, 30))
    whole = fixed(tie_width=0.3).fit(X, pairs=table)
    start = fixed(tie_width=0.3).fit(X, pairs=head)
    start.save(tmp_path / "gp.rankwise")
    grown = conditioned(start, effects=whole.process_.model.term(Effects)).update(tail)
    np.testing.assert_allclose(grown.predict(X), whole.predict(X), atol=1e-5)
    assert grown.effects_[0].value == pytest.approx(whole.effects_[0].value, abs=1e-5)
    assert grown.leaderboard().answers.sum() == 60
    saved = load(tmp_path / "gp.rankwise")
    back = load(tmp_path / "gp.rankwise").update(tail).forget(tail)
    np.testing.assert_allclose(back.predict(X), saved.predict(X), atol=1e-5)
    plain = saved.update([[0, 1]])
    assert plain.predict([0, 1])[0] - plain.predict([0, 1])[1] > np.diff(back.predict([1, 0]))[0]
    assert plain.suggest().shape == (1, 2)


def test_questions_and_a_basis_work_with_effects():
    gp = fixed(kernel=SquaredExponential(1.5, 1.2), basis=[0, 2, 4, 6]).fit(X, pairs=games(60))
    assert len(gp.basis_rows_) == 6
    assert gp.effects_[0].low > 0.0
    every = fixed(kernel=SquaredExponential(1.5, 1.2), basis=list(range(9))).fit(X, pairs=games(60))
    full = fixed(kernel=SquaredExponential(1.5, 1.2)).fit(X, pairs=games(60))
    np.testing.assert_allclose(every.predict(X), full.predict(X), atol=1e-4)


def test_items_with_equal_features_are_told_apart_with_covariates():
    twins = np.ones((3, 2))
    table = ComparisonTable.of(
        [1] * 30, [0] * 30, covariates={"home": [0.0, 1.0, -1.0] * 10}, names=[0, 1, 2]
    )
    gp = fixed().fit(twins, pairs=table)
    assert gp.predict_pair([1], [0])[0] > 0.6


def test_names_alone_have_effects_too():
    rows = {"a": list("xyxyxzyz") * 9, "b": list("yxyxzxzy") * 9, "result": list("aaabaaab") * 9}
    gp = PreferenceGP().fit(pairs=rows, first=True)
    assert gp.effects_[0].low > 0.0


def test_items_are_shown_once_in_every_way():
    plain = ShownItems.plain(4, (0.0,))
    pairs = np.array([[0, 1], [0, 1], [1, 0], [2, 3], [3, 0]])
    x = np.array([[1.0], [1.0], [-1.0], [0.0], [2.0]])
    shown, positions = plain.extended(pairs, x)
    np.testing.assert_array_equal(shown.item[4:], [0, 3])
    np.testing.assert_array_equal(shown.values[4:], [[1.0], [2.0]])
    np.testing.assert_array_equal(positions, [[4, 1], [4, 1], [1, 4], [2, 3], [5, 0]])
    again, same = shown.extended(pairs, x)
    np.testing.assert_array_equal(again.item, shown.item)
    np.testing.assert_array_equal(same, positions)


def test_a_table_may_list_the_items_in_another_order():
    order = np.random.default_rng(0).permutation(N_ITEMS)
    table = games(40, width=0.3)
    other = ComparisonTable.of(
        table.first,
        table.second,
        table.outcome,
        covariates={"home": table.covariates[:, 0], "length": table.covariates[:, 1]},
        names=order,
    )
    one, same = (fixed().fit(X, pairs=each) for each in (table, other))
    np.testing.assert_allclose(one.predict(X), same.predict(X), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed().fit(X, pairs=[[0, 1]], first=True), "`first` must come with comparisons"),
        (
            lambda: fixed().fit(X, pairs=games(9)).predict_pair([0], [1], covariates={"hom": [1]}),
            "must be among those with known effects, \\['home', 'length'\\]: got 'hom'",
        ),
        (
            lambda: fixed().fit(X, pairs=games(9), first=True).update(
                ComparisonTable.of([0], [1], covariates={"x": [1.0]}, names=np.arange(N_ITEMS))
            ),
            "must be those of `fit`, \\['first', 'home', 'length'\\]: got \\['first', 'x'\\]",
        ),
        (
            lambda: fixed().fit(X, pairs=[[0, 1]]).update(games(9)),
            "must be those of `fit`, \\[\\]: got \\['home', 'length'\\]",
        ),
    ],
)  # fmt: skip
def test_bad_covariates_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_the_first_of_a_pair_is_shown_first():
    """An answer about (a, b) has the effect of the order in which they stand."""
    rng = np.random.default_rng(2)
    first = rng.integers(N_ITEMS, size=300)
    second = (first + 1 + rng.integers(N_ITEMS - 1, size=300)) % N_ITEMS
    won = np.sign(1.0 + rng.normal(size=300)).astype(int)
    home = {"home": np.ones(300)}
    for table, order in (
        (ComparisonTable.of(first, second, won), True),
        (ComparisonTable.of(first, second, won, covariates=home), False),
    ):
        gp = PreferenceGP("linear", likelihood="probit").fit(pairs=table, first=order)
        (effect,) = gp.effects_
        assert effect.usual == 1.0
        assert effect.low > 0.5
        there, back = gp.predict_pair([0, 1], [1, 0])
        assert there > 0.7
        assert back > 0.7
        none = {effect.name: [0.0, 0.0]}
        there, back = gp.predict_pair([0, 1], [1, 0], covariates=none)
        assert there + back == pytest.approx(1.0, abs=1e-9)
        there, back = gp.predict_pair([0, 1], [1, 0], noisy=False)
        assert there + back == pytest.approx(1.0, abs=1e-9)
        board = gp.leaderboard(random_state=0)
        np.testing.assert_allclose(
            board.predict_pair([0], [1])[0, 0], gp.predict_pair([0], [1])[0], atol=0.02
        )
