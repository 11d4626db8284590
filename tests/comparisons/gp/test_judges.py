"""Judges: reliability and ties of each, learned together with the scores."""

from dataclasses import replace

import numpy as np
import pytest

import reference
from processes import conditioned
from rankwise import ComparisonTable, InvalidInputError, PreferenceGP, SquaredExponential, load

KERNEL = SquaredExponential(1.5, 1.2, 0.4)
N_ITEMS, N_JUDGES = 8, 3
X = np.random.default_rng(5).normal(size=(N_ITEMS, 2))
HABITS = {"log_reliability": np.array([0.4, -0.1, -0.9]), "log_width": np.array([-0.5, 0.0, 0.6])}


def votes(n_rows, seed=0, reliability=(1.5, 1.0, 0.5), width=(0.2, 0.4, 0.8), n_items=N_ITEMS):
    """Draw answers of judges to questions about items with scores in a row."""
    rng = np.random.default_rng(seed)
    f = np.linspace(-2.0, 2.0, n_items)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    judge = rng.integers(len(reliability), size=n_rows)
    lead = np.array(reliability)[judge] * (f[first] - f[second]) + rng.normal(size=n_rows)
    outcome = np.where(np.abs(lead) <= np.array(width)[judge], 0, np.sign(lead)).astype(int)
    names = np.arange(n_items)
    return ComparisonTable.of(first, second, outcome, judge=judge, names=names)


def log_loss(gp, table, judge=None):
    p = gp.predict_pair(table.first, table.second, judge=judge)
    return -np.mean(np.log(p[np.arange(table.n_rows), 1 - table.outcome]))


def with_habits(gp, **habits):
    """Give the judges of a process that was fitted without learning some habits."""
    return conditioned(gp, likelihood=replace(gp.likelihood_, **habits))


@pytest.mark.parametrize("flip_rate", [0.0, 0.05])
def test_posterior_equals_the_reference(flip_rate):
    table = votes(16)
    likelihood = "robust" if flip_rate else "probit"
    gp = PreferenceGP(KERNEL, likelihood=likelihood, optimize=False, flip_rate=0.05, tie_width=0.4)
    gp = with_habits(gp.fit(X, pairs=table), **HABITS)
    A = np.zeros((16, N_ITEMS))
    signs = np.where(table.outcome == 0, 1, table.outcome)
    A[np.arange(16), table.first], A[np.arange(16), table.second] = signs, -signs
    r, w = np.exp(HABITS["log_reliability"]), 0.4 * np.exp(HABITS["log_width"])
    answers = [
        reference.judged_answer(r[j], w[j], o == 0, flip_rate)
        for j, o in zip(table.judge.index, table.outcome, strict=True)
    ]
    mean, cov, log_evidence, _, _ = reference.ep_by_quadrature(KERNEL(X, X), A, answers, 15)
    got, got_cov = gp.predict(X, return_cov=True)
    np.testing.assert_allclose(got, mean, atol=1e-5)
    np.testing.assert_allclose(got_cov, cov, atol=1e-5)
    assert gp.log_marginal_likelihood_ == pytest.approx(log_evidence, abs=1e-5)
    a = np.zeros(N_ITEMS)
    a[[2, 5]] = 1.0, -1.0
    expected = [
        np.exp(reference.tilted_by_quadrature(answer, sign * a @ mean, a @ cov @ a)[0])
        for sign, answer in (
            (1.0, reference.judged_answer(r[2], w[2], tied=False, flip_rate=flip_rate)),
            (1.0, reference.judged_answer(r[2], w[2], tied=True)),
            (-1.0, reference.judged_answer(r[2], w[2], tied=False, flip_rate=flip_rate)),
        )
    ]
    np.testing.assert_allclose(gp.predict_pair([2], [5], judge=2)[0], expected, atol=1e-5)


@pytest.mark.parametrize("likelihood", ["probit", "robust"])
def test_learnt_habits_are_the_most_probable_ones(likelihood):
    """The log of evidence times prior is largest in every habit."""
    gp = PreferenceGP(KERNEL, likelihood=likelihood).fit(X, pairs=votes(300))
    found = gp.likelihood_

    def value(name, judge, step):
        habit = getattr(found, name).copy()
        habit[judge] += step
        moved = replace(found, **{name: habit})
        conditioned(gp, likelihood=moved)
        prior = np.sum((moved.log_reliability / moved.reliability_spread) ** 2)
        prior += np.sum((moved.log_width / moved.width_spread) ** 2)
        return gp.log_marginal_likelihood_ - 0.5 * prior

    for name in HABITS:
        values = np.array([[value(name, j, step) for step in (-0.05, 0.0, 0.05)] for j in range(3)])
        slope = (values[:, 2] - values[:, 0]) / 0.1
        curvature = -(values[:, 2] - 2.0 * values[:, 1] + values[:, 0]) / 0.05**2
        assert (curvature > 0.0).all()
        np.testing.assert_allclose(slope / curvature, 0.0, atol=0.03)


@pytest.mark.parametrize(("likelihood", "n_seeds"), [("probit", 3), ("robust", 3)])
def test_a_careless_judge_is_found_and_probabilities_improve(likelihood, n_seeds):
    gains = []
    for seed in range(n_seeds):
        habits = {"reliability": (1.2, 0.0, 1.0, 0.9, 1.1), "width": (0.2, 0.4, 1.0, 0.3, 0.1)}
        table = votes(700, seed, **habits)
        train, test = table.take(np.arange(350)), table.take(np.arange(350, 700))
        gp = PreferenceGP(likelihood=likelihood).fit(pairs=train)
        plain = PreferenceGP(likelihood=likelihood).fit(pairs=replace(train, judge=None))
        gains.append(log_loss(plain, test) - log_loss(gp, test, test.judge.index))
        assert gp.judges_.careless.argmax() == 1
        assert gp.judges_.careless[1] > 0.5 > np.delete(gp.judges_.careless, 1).max()
        assert gp.judges_.reliability_high[1] < 1.0
        assert gp.judges_.width.argmax() == 2
        assert np.median([row["judge"] == 1 for row in gp.suspect_answers(20)]) == 1.0
    assert np.mean(gains) > 0.03


def test_reversed_answers_are_suspect():
    table = votes(400, reliability=(1.2, 1.0, -1.0), width=(0.2, 0.3, 0.3))
    report = PreferenceGP("linear", likelihood="probit").fit(np.eye(N_ITEMS), pairs=table).judges_
    assert report.careless[2] > 0.95
    assert report.agreement[2] < 0.4 < 0.8 < report.agreement[:2].min()
    assert report.rows()[0]["judge"] == 2
    assert str(report).splitlines()[1].startswith("2 ")
    assert "careless" in report._repr_html_()
    assert repr(report) == "JudgeReport(3 judges)"


def test_a_judge_with_one_answer_is_close_to_the_others():
    table = votes(300)
    judge = np.append(table.judge.index, 3)
    ends = [np.append(values, new) for values, new in ((table.first, 7), (table.second, 0))]
    more = ComparisonTable.of(*ends, np.append(table.outcome, 1), judge=judge)
    report = PreferenceGP(KERNEL, likelihood="probit").fit(X, pairs=more).judges_
    assert 0.6 < report.reliability[3] < 1.4
    assert report.reliability_low[3] < 0.6
    assert report.reliability_high[3] > 1.4


def test_forms_of_judges_agree(tmp_path):
    table = votes(60)
    rows, tied = table.decided, np.flatnonzero(table.tied)
    judge = np.array(["x", "y", "z"])[table.judge.index]
    by_name = PreferenceGP(KERNEL).fit(X, pairs=replace(table, judge=None), judge=judge)
    by_row = PreferenceGP(KERNEL).fit(
        X, pairs=table.pairs, tied=table.tied_pairs, judge=judge[rows], tied_judge=judge[tied]
    )
    np.testing.assert_allclose(by_name.predict(X), by_row.predict(X), atol=1e-6)
    assert by_row.judges_.names.tolist() == ["x", "y", "z"]
    by_row.save(tmp_path / "gp.rankwise")
    saved = load(tmp_path / "gp.rankwise")
    np.testing.assert_array_equal(saved.judges_.careless, by_row.judges_.careless)
    p = by_row.predict_pair([0, 1], [2, 3], judge=["x", "z"])
    np.testing.assert_array_equal(saved.predict_pair([0, 1], [2, 3], judge=["x", "z"]), p)
    assert saved.leaderboard().judges.names.tolist() == ["x", "y", "z"]


def test_update_and_forget_know_judges():
    table = votes(60)
    head, tail = table.take(np.arange(45)), table.take(np.arange(45, 60))
    gp = PreferenceGP(KERNEL, optimize=False, likelihood="probit").fit(X, pairs=head)
    gp = with_habits(gp, **HABITS)
    start = gp.predict(X)
    gp.update(tail)
    whole = PreferenceGP(KERNEL, optimize=False, likelihood="probit").fit(X, pairs=table)
    whole = with_habits(whole, **HABITS)
    np.testing.assert_allclose(gp.predict(X), whole.predict(X), atol=1e-5)
    gp.forget(tail)
    np.testing.assert_allclose(gp.predict(X), start, atol=1e-5)
    stranger = gp.update([[0, 1]], judge=["nobody"]).predict(X)
    usual = gp.forget([[0, 1]], judge=["nobody"]).update([[0, 1]]).predict(X)
    np.testing.assert_allclose(stranger, usual, atol=1e-5)


def test_fractional_weights_and_margins_have_judges():
    gains = []
    rng = np.random.default_rng(1)
    f, judge = np.linspace(-2.0, 2.0, N_ITEMS), rng.integers(3, size=300)
    first = rng.integers(N_ITEMS, size=300)
    second = (first + 1 + rng.integers(N_ITEMS - 1, size=300)) % N_ITEMS
    margin = f[first] - f[second] + np.array([0.2, 1.0, 3.0])[judge] * rng.normal(size=300)
    table = ComparisonTable.of(
        first, second, np.sign(margin).astype(int), margin=np.abs(margin), judge=judge
    )
    gp = PreferenceGP("linear", likelihood="gaussian").fit(pairs=table)
    assert (np.diff(gp.judges_.reliability) < 0.0).all()
    plain = PreferenceGP("linear", likelihood="gaussian").fit(pairs=replace(table, judge=None))
    gains = [np.abs(one.predict() - one.predict().mean() - f).mean() for one in (plain, gp)]
    assert gains[1] < 0.7 * gains[0]
    light = ComparisonTable.of(
        first, second, np.sign(margin).astype(int), weight=np.full(300, 0.5), judge=judge
    )
    report = PreferenceGP("linear", likelihood="probit").fit(pairs=light).judges_
    assert report.reliability.argmin() == 2


TABLE = votes(20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PreferenceGP().fit(X, y=np.arange(8.0), judge=["a"] * 8), "come with comparisons"),
        (lambda: PreferenceGP().fit(X, pairs=[[0, 1]], judge=["a", "b"]), "each of the 1 answers"),
        (
            lambda: PreferenceGP().fit(X, pairs=[[0, 1]], tied=[[1, 2]], judge=["a"]),
            "`tied_judge` must say who gave each of the 1",
        ),
        (lambda: PreferenceGP().fit(X, pairs=TABLE, judge=["a"] * 20), "given once"),
        (
            lambda: PreferenceGP().fit(pairs=[("a", "b"), ("b", "c")], judge=["x"]),
            "each of the 2 answers",
        ),
        (
            lambda: PreferenceGP().fit(pairs=[("a", "b")], tied_judge=["x"]),
            "hold all columns themselves",
        ),
        (
            lambda: PreferenceGP().fit(X, pairs=TABLE.pairs).predict_pair([0], [1], judge="q"),
            "must be given there, or one for each of the 1 pairs: got 'q'",
        ),
        (
            lambda: PreferenceGP().fit(X, pairs=TABLE).predict_pair([0], [1], judge=[0, 1]),
            r"each of the 1 pairs: got \[0, 1\]",
        ),
        (lambda: PreferenceGP().fit(X, pairs=TABLE).suspect_answers(0), "`n` must be"),
    ],
)
def test_bad_judges_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("features", [True, False])
def test_further_answers_are_counted_for_their_judge(features, tmp_path):
    table = votes(300)
    rows = np.arange(300)
    options = {"optimize": False, "likelihood": "probit", "tie_width": 0.4}
    gp = PreferenceGP(KERNEL if features else "linear", **options)
    gp.fit(X, pairs=table.take(rows[:200]))
    assert gp.judges_.n_answers.sum() == 200
    gp.update(table.take(rows[200:]))
    whole = PreferenceGP(gp.kernel, **options).fit(X, pairs=table)
    for name in ("n_answers", "tie_rate", "agreement"):
        np.testing.assert_allclose(getattr(gp.judges_, name), getattr(whole.judges_, name))
    np.testing.assert_allclose(gp.judges_.careless, whole.judges_.careless, atol=0.02)
    gp.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").judges_.n_answers, whole.judges_.n_answers
    )
    gp.forget(table.take(rows[100:]))
    assert gp.judges_.n_answers.sum() == 100


def test_judges_stay_when_the_first_ties_come():
    table = votes(200, width=(0.0, 0.0, 0.0))
    gp = PreferenceGP(KERNEL, likelihood="probit").fit(X, pairs=table)
    reliability = gp.judges_.reliability
    gp.update([(0, 1)], tied=[(2, 3)], judge=[0], tied_judge=[1])
    np.testing.assert_array_equal(gp.judges_.reliability, reliability)
    assert gp.judges_.n_answers.sum() == 202
    assert (gp.judges_.tie_rate > 0.0).tolist() == [False, True, False]


@pytest.mark.parametrize("likelihood", ["probit", "robust", "gaussian"])
def test_without_a_judge_the_answer_is_that_of_all_by_their_numbers_of_answers(likelihood):
    rng = np.random.default_rng(4)
    judge = np.repeat([0, 1, 2], [200, 70, 30])
    table = votes(300)
    table = ComparisonTable.of(
        table.first, table.second, table.outcome, judge=judge[rng.permutation(300)]
    )
    gp = PreferenceGP("linear", likelihood=likelihood).fit(pairs=table)
    first, second = [0, 3, 5], [7, 1, 4]
    share = np.array([200, 70, 30]) / 300
    mixed = sum(w * gp.predict_pair(first, second, judge=j) for j, w in enumerate(share))
    np.testing.assert_allclose(gp.predict_pair(first, second), mixed, atol=1e-12)
    someone = gp.predict_pair(first, second, judge=["eve", 1, ["odd"]])
    np.testing.assert_allclose(someone[[0, 2]], mixed[[0, 2]], atol=1e-12)
    one = gp.predict_pair(first, second, judge=1)
    np.testing.assert_allclose(someone[1], one[1], atol=1e-12)


def test_without_answers_of_judges_an_average_judge_answers():
    pairs, judge = [[0, 1], [1, 2], [3, 0]], ["ann", "bob", "ann"]
    gp = PreferenceGP(KERNEL, optimize=False, likelihood="probit").fit(X, pairs=pairs, judge=judge)
    gp.update([[2, 4]]).forget(pairs, judge=judge)
    p = gp.predict_pair([2, 2], [4, 4], judge=["ann", "eve"])
    np.testing.assert_allclose(p[1], p[0], atol=1e-12)
    assert p[0] > 0.5
