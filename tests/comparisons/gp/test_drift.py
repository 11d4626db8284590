"""Scores that change with time: part of them lasts, part is forgotten."""

import numpy as np
import pytest
from scipy.special import ndtr

import reference
from processes import conditioned
from rankwise import ComparisonTable, InvalidInputError, PreferenceGP, SquaredExponential, load
from rankwise.comparisons.gp.answers import AnswerTable
from rankwise.comparisons.gp.terms import Effects

KERNEL = SquaredExponential(1.5, 1.2, 0.4)
N_ITEMS = 7
X = np.random.default_rng(5).normal(size=(N_ITEMS, 2))
DRIFT = (2.0, 30.0, 100.0)


def games(n_rows, seed=0, days=100.0, drift_time=20.0, n_items=N_ITEMS, home=False):
    """Draw comparisons of items whose scores forget what they were."""
    rng = np.random.default_rng(seed)
    date = np.sort(rng.uniform(0.0, days, size=n_rows)).round(1)
    grid = np.unique(date)
    C = np.exp(-np.abs(grid[:, None] - grid) / drift_time) + 1e-9 * np.eye(len(grid))
    moving = np.linalg.cholesky(C) @ rng.normal(size=(len(grid), n_items))
    f = 1.2 * (rng.normal(size=n_items) + moving)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    at = np.searchsorted(grid, date)
    host = rng.integers(-1, 2, size=n_rows).astype(float)
    lead = f[at, first] - f[at, second] + 0.8 * home * host + rng.normal(size=n_rows)
    extra = {"covariates": {"home": host}} if home else {}
    names = np.arange(n_items)
    return ComparisonTable.of(
        first, second, np.sign(lead).astype(int), date=date, names=names, **extra
    )


def fixed(**options):
    """Return a process whose parameters are not learned."""
    return PreferenceGP(KERNEL, likelihood="probit", optimize=False, drift=True, **options)


def with_drift(gp, drift=DRIFT):
    """Condition a fitted process on its answers with another drift."""
    return conditioned(gp, drift=drift)


def dense_covariance(dates):
    """Return the covariance of all items at all dates, dates slowest."""
    q, time, _ = DRIFT
    C = (1.0 + q * np.exp(-np.abs(np.subtract.outer(dates, dates)) / time)) / (1.0 + q)
    return np.kron(C, KERNEL(X, X))


@pytest.mark.parametrize("home", [False, True])
def test_posterior_at_any_date_equals_the_reference(home):
    table = games(8, home=home)
    gp = with_drift(fixed().fit(X, pairs=table))
    dates = np.append(np.unique(table.date), [50.05, 130.0])
    at = np.searchsorted(dates[:-2], table.date)
    K = dense_covariance(dates)
    A = np.zeros((8, len(K)))
    rows = np.arange(8)
    A[rows, at * N_ITEMS + table.first] = table.outcome
    A[rows, at * N_ITEMS + table.second] = -table.outcome
    if home:
        deviation = gp.process_.model.term(Effects).deviations[0]
        K = np.block([[K, np.zeros((len(K), 1))], [np.zeros((1, len(K))), deviation**2]])
        A = np.column_stack([A, table.outcome * table.covariates[:, 0]])
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(K, A, [ndtr] * 8, n_passes=12)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    for place, date in ((len(dates) - 3, None), (len(dates) - 2, 50.05), (len(dates) - 1, 130.0)):
        items = slice(place * N_ITEMS, (place + 1) * N_ITEMS)
        got, got_cov = gp.predict(X, return_cov=True, date=date)
        np.testing.assert_allclose(got, mean[items], atol=1e-5)
        np.testing.assert_allclose(got_cov, cov[items, items], atol=1e-5)


def test_drift_is_learnt_and_the_future_predicted_better():
    gains = []
    for seed in range(3):
        table = games(500, seed)
        past, future = (
            table.take(np.flatnonzero(rows)) for rows in (table.date < 90, table.date >= 90)
        )
        losses = []
        for drift in (False, True):
            gp = PreferenceGP("linear", likelihood="probit", drift=drift).fit(pairs=past)
            when = future.date if drift else None
            p = gp.predict_pair(future.first, future.second, date=when)
            losses.append(-np.mean(np.log(np.where(future.outcome > 0, p, 1.0 - p))))
        gains.append(losses[0] - losses[1])
        assert 5.0 < gp.drift_[1] < 80.0
        assert gp.drift_[0] > 0.2
        _, std = gp.predict(return_std=True)
        _, later = gp.predict(return_std=True, date=200.0)
        assert (later > std).all()
    assert np.mean(gains) > 0.03


def test_dates_are_rounded_to_the_resolution_that_is_affordable():
    date = np.linspace(0.0, 100.0, 2000)
    ends = np.random.default_rng(0).integers(9, size=(2000, 2))
    ones, none = np.ones(2000), np.zeros((2000, 0))
    table = AnswerTable(ends, ones < 1.0, ones, ones, None, date, none)
    rounded = table.rounded(300).date
    shown = {(i, t) for pair, t in zip(ends, rounded, strict=True) for i in pair}
    assert 150 < len(shown) <= 300
    assert rounded[-1] == 100.0
    assert np.abs(rounded - date).max() < 3.0
    np.testing.assert_array_equal(table.rounded(5000).date, date)


def test_forms_of_dates_agree(tmp_path):
    table = games(30)
    days = (np.datetime64("2026-01-01") + np.floor(table.date).astype("timedelta64[D]")).astype(str)
    rows = {"winner": table.pairs[:, 0], "loser": table.pairs[:, 1], "date": days}
    one = fixed().fit(X, pairs=rows)
    other = fixed().fit(X, pairs=table.pairs, date=np.floor(table.date))
    third = fixed().fit(X, pairs={k: rows[k] for k in ("winner", "loser")}, date=days)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-6)
    np.testing.assert_allclose(one.predict(X), third.predict(X), atol=1e-12)
    np.testing.assert_allclose(
        one.predict(X, date="2026-03-01"), other.predict(X, date=59.0), atol=1e-6
    )
    one.save(tmp_path / "gp.rankwise")
    np.testing.assert_array_equal(load(tmp_path / "gp.rankwise").predict(X), one.predict(X))
    assert one.leaderboard().answers.sum() == 60
    np.testing.assert_allclose(
        one.kernel_(X, one.basis_rows_) @ one.process_.weights, one.predict(X), atol=1e-8
    )
    assert one.suggest().shape == (1, 2)


def test_update_knows_dates_and_judges():
    table = games(30, home=True)
    head, tail = table.take(np.arange(22)), table.take(np.arange(22, 30))
    gp = with_drift(fixed().fit(X, pairs=head))
    whole = with_drift(fixed().fit(X, pairs=table))
    conditioned(gp, effects=whole.process_.model.term(Effects)).update(tail)
    when = {"date": table.date.max()}
    np.testing.assert_allclose(gp.predict(X, **when), whole.predict(X, **when), atol=1e-5)
    back = gp.forget(tail).predict(X)
    gp.update([[0, 1]], date=[95.0])
    assert gp.predict(X)[0] > back[0]
    judged = PreferenceGP("linear", drift=True).fit(pairs=table, judge=np.arange(30) % 3)
    assert judged.judges_.names.tolist() == [0, 1, 2]
    assert judged.drift_ is not None


TABLE = games(10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PreferenceGP(drift=True).fit(X, pairs=[[0, 1]]), "comparisons that have dates"),
        (lambda: PreferenceGP(drift=True).fit(X, y=np.arange(7.0)), "comparisons that have dates"),
        (lambda: PreferenceGP(drift=True, basis=3).fit(X, pairs=TABLE), "without `basis`"),
        (lambda: PreferenceGP().fit(X, y=np.arange(7.0), date=[1.0]), "come with comparisons"),
        (lambda: PreferenceGP().fit(X, pairs=TABLE, date=np.ones(10)), "`date` must be given once"),
        (lambda: PreferenceGP().fit(X, pairs=TABLE).predict(X, date=3.0), "fit with drift=True"),
        (lambda: PreferenceGP().fit(X, pairs=[[0, 1]], date=[1.0, 2.0]), "date"),
    ],
)
def test_bad_dates_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_how_certain_the_order_is():
    gp = with_drift(fixed().fit(X, pairs=games(40)))
    assert 0.5 < gp.certainty() < 1.0
    assert 1.0 / N_ITEMS < gp.certainty(goal="best") < 1.0


def test_many_items_drift_too():
    """Where items at dates are many, the drift is learned from the busiest ones."""
    rng = np.random.default_rng(0)
    n_items, n_rows, grid = 620, 3000, np.arange(101.0)
    C = np.exp(-np.abs(np.subtract.outer(grid, grid)) / 30.0)
    moving = np.linalg.cholesky(C + 1e-9 * np.eye(101)) @ rng.normal(size=(101, n_items))
    f = 1.5 * (0.5 * rng.normal(size=n_items) + np.sqrt(0.75) * moving)
    day = rng.integers(101, size=n_rows)
    first = rng.integers(n_items, size=n_rows)
    second = (first + rng.integers(1, n_items, size=n_rows)) % n_items
    outcome = np.sign(f[day, first] - f[day, second] + rng.normal(size=n_rows)).astype(int)
    table = ComparisonTable.of(first, second, outcome, date=day.astype(float), names=np.arange(620))
    gp = PreferenceGP(likelihood="probit", drift=True).fit(pairs=table)
    q, time, span = gp.drift_
    assert span == 100.0
    assert q > 0.5
    assert 5.0 < time < 90.0
    still = PreferenceGP(likelihood="probit").fit(pairs=table)
    now, before = (np.corrcoef(one.predict(), f[-1])[0, 1] for one in (gp, still))
    assert now > before + 0.02


def test_the_busiest_items_are_those_with_most_answers():
    rng = np.random.default_rng(1)
    first = np.minimum(rng.geometric(0.02, size=4000), 299)
    second = (first + rng.integers(1, 300, size=4000)) % 300
    ends, ones = np.stack([first, second], axis=1), np.ones(4000)
    date = rng.uniform(0.0, 100.0, size=4000)
    table = AnswerTable(ends, ones < 1.0, ones, ones, None, date, np.zeros((4000, 0)))
    some = table.busiest(200)
    shown = {(i, t) for pair, t in zip(some.pairs, some.date, strict=True) for i in pair}
    assert 150 < len(shown) <= 200
    assert len(np.unique(some.date)) <= 17
    answers = np.bincount(ends.ravel(), minlength=300)
    chosen = np.unique(some.pairs)
    assert answers[chosen].min() >= np.median(answers)


def test_more_items_than_can_drift_are_refused():
    pairs = np.stack([np.arange(2501), np.roll(np.arange(2501), 1)], axis=1)
    with pytest.raises(InvalidInputError, match=r"at most 2,500 items .* got 2,501"):
        PreferenceGP("linear", drift=True).fit(np.eye(2501), pairs=pairs, date=np.arange(2501.0))
