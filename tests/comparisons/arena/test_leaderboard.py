"""Leaderboards from names alone: what they agree with, and whether intervals hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal

import reference
from rankwise import ChoiceTable, ComparisonTable, InvalidInputError, leaderboard, suspect_answers
from rankwise.comparisons.arena import newton
from rankwise.comparisons.arena.deviation import Sites, doubt_of_deviation, log_evidence
from rankwise.comparisons.arena.judges import Habits, fitted_judges
from rankwise.comparisons.arena.newton import (
    PARAMETER_DEVIATION,
    Precision,
    ScoreSpread,
    fitted_scores,
)
from rankwise.comparisons.arena.paired import Cells, PairedModel
from rankwise.comparisons.arena.rating import ChosenModel
from rankwise.comparisons.leaderboard import RankSpread
from rankwise.io import ComparisonColumns


def world(n_items=8, n_rows=150, width=0.4, seed=0, spread=1.0, **columns):
    """Draw comparisons with ties from the model; returns true scores and a table."""
    rng = np.random.default_rng(seed)
    f = spread * rng.normal(size=n_items)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    lead = f[first] - f[second] + rng.logistic(size=n_rows)
    outcome = np.where(lead > width, 1, np.where(lead < -width, -1, 0))
    return f, ComparisonTable.of(first, second, outcome, names=np.arange(n_items), **columns)


def rows(table):
    return zip(table.first, table.second, table.outcome, table.weight, strict=True)


def paired(table, **options):
    return PairedModel(Cells.of(table, table.covariates, **options))


def mode_of(model, deviation):
    """Return the most probable scores; nothing is drawn where the deviation is given."""
    return fitted_scores(model, deviation, np.random.default_rng(0))


@pytest.mark.parametrize("width", [0.0, 0.4])
def test_the_mode_is_that_of_the_naive_likelihood(width):
    weight = np.random.default_rng(1).uniform(0.2, 3.0, 150)
    _, table = world(width=width, weight=weight)
    model = paired(table)
    mode = mode_of(model, 1.3)

    def negative(z):
        f, w = z[:8], z[8] if width else 0.0
        prior = 0.5 * f @ f / 1.3**2 + 0.5 * w**2 / PARAMETER_DEVIATION**2
        return prior - reference.paired_log_likelihood(f, w, list(rows(table)))

    start = np.append(np.zeros(8), 0.5)
    best = minimize(negative, start, bounds=[(None, None)] * 8 + [(1e-6, None)], tol=1e-12)
    np.testing.assert_allclose(mode.f, best.x[:8], atol=1e-4)
    if width:
        np.testing.assert_allclose(mode.parameters, best.x[8:], atol=1e-4)
    assert mode.value == pytest.approx(
        reference.paired_log_likelihood(
            mode.f, mode.parameters[0] if width else 0.0, list(rows(table))
        )
    )


def models():
    _, table = world(covariates={"x": np.random.default_rng(3).normal(size=150)})
    judge = np.random.default_rng(2).integers(4, size=150)
    _, judged = world(judge=judge)
    cells = Cells.of(judged, judged.covariates, by_judge=True)
    habits = Habits.start(4, 0.5)
    variance = np.random.default_rng(4).uniform(0.0, 3.0, cells.n_cells)
    rankings = [np.random.default_rng(k).permutation(8)[: 3 + k % 4].tolist() for k in range(20)]
    sets = [np.random.default_rng(k).permutation(8)[:4].tolist() for k in range(15)]
    best_worst = ChosenModel(
        ChoiceTable.from_best_worst(sets, [s[0] for s in sets], [s[2] for s in sets])
    )
    return {
        "covariates": paired(table),
        "odds of ties": replace(paired(table), ties="odds"),
        "judges": habits.model(cells),
        "averaged": habits.model(cells).averaged(np.zeros(0), variance),
        "rankings": ChosenModel(ChoiceTable.from_rankings(rankings)),
        "best-worst": best_worst,
        "averaged choices": best_worst.averaged(np.zeros(0), variance[:30]),
    }


@pytest.mark.parametrize("name", models())
def test_derivatives_equal_finite_differences(name):
    model = models()[name]
    rng = np.random.default_rng(0)
    f, theta = rng.normal(size=model.n_items), model.start + 0.1
    point, h = model.expand(f, theta), 1e-5
    z, n = np.append(f, theta), model.n_items

    def gradient(z):
        at = model.expand(z[:n], z[n:])
        return np.append(at.slope, at.by_parameters)

    steps = h * np.eye(len(z))
    ahead, behind = ([model.expand(*np.split(z + sign * e, [n])).value for e in steps]
                     for sign in (1, -1))  # fmt: skip
    values = np.subtract(ahead, behind) / (2 * h)
    np.testing.assert_allclose(gradient(z), values, rtol=1e-5, atol=1e-6)
    H = -np.array([(gradient(z + e) - gradient(z - e)) / (2 * h) for e in steps])
    upper = point.upper.toarray()
    np.testing.assert_array_equal(upper, np.triu(upper, 1))
    dense = np.diag(point.diagonal) - upper - upper.T
    np.testing.assert_allclose(dense, H[:n, :n], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(point.mixed, H[:n, n:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(point.curvature, H[n:, n:], rtol=1e-5, atol=1e-6)
    root = model.noise_root(f, theta, clustered=False)
    np.testing.assert_allclose((root @ root.T).toarray(), dense, atol=1e-8)


@pytest.mark.parametrize("n_rows", [60, 4000])
@pytest.mark.parametrize("case", ["plain", "weights", "judges", "covariates", "everything"])
def test_cells_count_what_a_dictionary_counts(case, n_rows):
    rng, everything = np.random.default_rng(n_rows), case == "everything"
    columns = {}
    if case == "weights" or everything:
        columns["weight"] = rng.uniform(0.5, 2.0, n_rows)
    if case == "judges" or everything:
        columns["judge"] = rng.integers(3, size=n_rows)
    if case == "covariates" or everything:
        columns["covariates"] = {
            "x": rng.integers(-1, 2, n_rows),
            "y": rng.integers(2, size=n_rows),
        }
    _, table = world(9, n_rows, **columns)
    counts = {}
    for row in range(n_rows):
        swap = -1 if table.first[row] > table.second[row] else 1
        judge = 0 if table.judge is None else table.judge.index[row]
        pair = sorted([table.first[row], table.second[row]])
        key = *pair, judge, *(swap * table.covariates[row] + 0.0)
        cell = counts.setdefault(key, {1: 0.0, -1: 0.0, 0: 0.0})
        cell[swap * table.outcome[row]] += table.weight[row]
    cells = Cells.of(table, table.covariates, by_judge="judge" in columns)
    judge = np.zeros(cells.n_cells) if cells.judge is None else cells.judge
    keys = zip(cells.first, cells.second, judge, *(cells.covariates.T + 0.0), strict=True)
    found = dict(zip(keys, zip(cells.won, cells.lost, cells.tied, strict=True), strict=True))
    assert found.keys() == counts.keys()
    for key, (won, lost, tied) in found.items():
        expected = counts[key]
        np.testing.assert_allclose([won, lost, tied], [expected[1], expected[-1], expected[0]])
    assert (np.diff(cells.first) >= 0).all()


def test_choices_have_the_naive_likelihood():
    sets = [[0, 1, 2], [2, 3, 4, 5], [1, 5, 6]]
    table = ChoiceTable.from_best_worst(sets, [0, 5, 1], [2, 3, 6])
    model = ChosenModel(table)
    f = np.random.default_rng(0).normal(size=7)
    choices = [([0, 1, 2], 0, 1), ([2, 3, 4, 5], 5, 1), ([1, 5, 6], 1, 1)]
    choices += [([1, 2], 2, -1), ([2, 3, 4], 3, -1), ([5, 6], 6, -1)]
    expected = reference.choice_log_likelihood(f, choices)
    assert model.expand(f, model.start).value == pytest.approx(expected)


def test_rankings_of_two_are_comparisons():
    _, table = world(width=0.0, n_rows=80)
    pairs = table.pairs.tolist()
    one = mode_of(paired(table), 1.0)
    other = mode_of(ChosenModel(ChoiceTable.from_rankings(pairs)), 1.0)
    np.testing.assert_allclose(one.f, other.f, atol=1e-6)
    np.testing.assert_allclose(one.precision.covariance, other.precision.covariance, atol=1e-6)


def test_leaderboards_of_rankings_of_two_are_those_of_comparisons():
    _, table = world(width=0.0, n_rows=40)
    one = leaderboard(table, deviation=1.0, random_state=0)
    orders = ChoiceTable.from_rankings(table.pairs.tolist())
    other = leaderboard(orders, deviation=1.0, random_state=0)
    assert one.names.tolist() == other.names.tolist()
    np.testing.assert_allclose(one.score, other.score, atol=1e-6)
    np.testing.assert_allclose(one.std, other.std, atol=1e-6)


@pytest.mark.parametrize(("n_items", "n_rows"), [(8, 60), (40, 80), (800, 3000)])
def test_the_deviation_learnt_is_nearly_the_fixed_point(n_items, n_rows):
    _, table = world(n_items, n_rows)
    mode = fitted_scores(paired(table), None, np.random.default_rng(0))
    squared = mode.deviation**2
    determined = n_items - np.linalg.inv(mode.precision @ np.eye(n_items)).trace() / squared
    # the derivatives of the log evidence and of the log prior cancel
    of_prior = 1.0 - 2.0 * squared / (1.0 + squared)
    error = mode.f @ mode.f / squared - determined + of_prior
    assert abs(error) < 0.03 * (determined + 1.0)


def test_a_judge_of_one_comparison_is_corrected_as_by_bell_and_mccaffrey():
    _, table = world(n_items=6, n_rows=25, width=0.0, judge=np.arange(25))
    model = paired(table, by_judge=True)
    mode = mode_of(model, 1.0)
    spread = ScoreSpread.of(model, mode, np.random.default_rng(0), clustered=False)
    root, n_free = newton.judged_root(model, mode, spread)
    plain = model.noise_root(mode.f, mode.parameters, clustered=True).toarray()
    weight = model.answers(mode.f, mode.parameters).curvature
    shares = []
    for k, (i, j) in enumerate(zip(model.cells.first, model.cells.second, strict=True)):
        contrast = np.zeros(6)
        contrast[[i, j]] = 1.0, -1.0
        share = weight[k] * contrast @ mode.precision.covariance @ contrast
        column = model.cells.judge[k]
        shares.append(share)
        np.testing.assert_allclose(
            root.toarray()[:, column], plain[:, column] / np.sqrt(1.0 - share)
        )
    assert n_free == pytest.approx(np.sum(shares) ** 2 / np.sum(np.square(shares)) - 1.0)
    board = leaderboard(table, clustered=True, level=0.8, random_state=0)
    reach = (board.high - board.score) / board.std
    assert (reach > 1.3).all()  # Student's quantile, above the Gaussian one of 1.28


def test_conjugate_gradients_start_nearby():
    _, table = world(n_items=newton.MAX_DENSE + 50, n_rows=4000)
    H = mode_of(paired(table), 1.0).precision
    B = np.random.default_rng(0).normal(size=(len(H.diagonal), 3))
    X = H.solve(B, 1e-10)
    np.testing.assert_allclose(H @ X, B, atol=1e-7)
    np.testing.assert_array_equal(H.solve(B, 1e-8, X), X)
    np.testing.assert_allclose(H.solve(B, 1e-10, X + 0.1), X, atol=1e-7)


def test_conjugate_gradients_find_what_a_factor_finds():
    _, table = world(n_items=newton.MAX_DENSE + 50, n_rows=8000)
    mode = fitted_scores(paired(table), 1.0, np.random.default_rng(0))
    H = mode.precision
    assert not H.is_dense
    exact = np.linalg.inv(H @ np.eye(len(mode.f)))
    slope = paired(table).expand(mode.f, mode.parameters).slope
    np.testing.assert_allclose(slope, mode.f / mode.deviation**2, atol=1e-3)
    drawn = ScoreSpread.of(
        paired(table), mode, np.random.default_rng(0), clustered=False, n_probes=400
    )
    np.testing.assert_allclose(drawn.std, np.sqrt(centred(exact).diagonal()), rtol=0.02)
    signs = newton.random_signs(len(mode.f), 50, np.random.default_rng(0))
    assert abs(signs.mean()) < 0.05
    trace = newton.trace_by_signs(H, signs, H.solve(signs))
    assert trace == pytest.approx(exact.trace(), rel=0.02)
    approximate = ScoreSpread.approximate(mode, np.random.default_rng(0))
    np.testing.assert_allclose(approximate.std, np.sqrt(centred(exact).diagonal()), rtol=0.02)


def centred(cov):
    """Take out a common shift."""
    centre = np.eye(len(cov)) - 1.0 / len(cov)
    return centre @ cov @ centre


def test_a_long_chain_is_solved_by_a_sparse_factor():
    n_items = 5000
    table = ComparisonTable.of(np.arange(n_items - 1), np.arange(1, n_items))
    heavy = ComparisonTable.of(table.first, table.second, weight=np.full(n_items - 1, 1e6))
    H = mode_of(paired(heavy), 1.0).precision
    B = np.random.default_rng(0).normal(size=(n_items, 2))
    rule = newton.StoppingRule(newton.CG_TOL, newton.MAX_CG)
    assert H.descent(B).run(rule) == "max_iter"
    np.testing.assert_allclose(H @ H.solve(B), B, atol=1e-5)


def test_a_singular_precision_is_refused():
    from scipy.sparse import csr_array

    H = Precision(np.ones(2), csr_array([[0.0, 2.0], [0.0, 0.0]]))
    with pytest.raises(newton.NumericalError, match="must be positive definite"):
        H.solve(np.ones((2, 1)))


@pytest.mark.parametrize(("n_items", "n_rows"), [(12, 150), (40, 400)])
def test_intervals_hold_the_truth_as_often_as_they_say(n_items, n_rows):
    held, ranked = [], []
    for seed in range(20):
        f, table = world(n_items, n_rows, seed=seed)
        board = leaderboard(table, random_state=seed)
        truth = (f - f.mean())[board.names]
        held.append(np.mean((board.low <= truth) & (truth <= board.high)))
        rank = 1 + np.argsort(np.argsort(-truth))
        ranked.append(np.mean((board.rank_low <= rank) & (rank <= board.rank_high)))
    assert 0.86 < np.mean(held) < 0.94
    assert np.mean(ranked) > 0.86


def answers_of(seed, n_items, n_rows, spread, nu):
    """Draw comparisons from the model of Davidson: ties have odds nu."""
    rng = np.random.default_rng(seed)
    f = spread * rng.normal(size=n_items)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    s = f[first] - f[second]
    win = np.exp([0.5 * s, -0.5 * s])
    win /= win.sum(axis=0) + nu
    u = rng.random(n_rows)
    outcome = np.where(u < win[0], 1, np.where(u < win.sum(axis=0), -1, 0))
    return f, ComparisonTable.of(first, second, outcome, names=np.arange(n_items))


MOST_ERRORS = 3.5
"""Standard errors of simulated worlds by which a share may differ from what is said: of the order
of one such test in two thousand fails by chance."""


def drawn_spread(rng):
    """Draw a spread of scores from the prior, half of a Cauchy, between 0.05 and 3."""
    low, high = np.arctan([0.05, 3.0])
    return np.tan(rng.uniform(low, high))


def held_and_best(drawn):
    """Return what intervals hold, how probably the leader is the best, and whether it is."""
    found = []
    for seed, (f, table) in enumerate(drawn):
        board = leaderboard(table, random_state=seed)
        truth = (f - f.mean())[board.names]
        held = np.mean((board.low <= truth) & (truth <= board.high))
        found.append((held, board.best[0], truth[0] == truth.max()))
    return np.transpose(np.array(found, dtype=float))


@pytest.mark.parametrize(
    ("n_items", "n_rows", "nu", "n_worlds"),
    [(8, 60, 0.8, 120), (12, 600, 0.8, 80), (40, 120, 0.0, 40), (8, 1600, 0.0, 80)],
    ids=["odds of ties", "more answers", "sparse", "many answers"],
)
def test_intervals_hold_the_truth_and_leaders_are_the_best_as_often_as_is_said(
    n_items, n_rows, nu, n_worlds
):
    rng = np.random.default_rng(0)
    drawn = (answers_of(seed, n_items, n_rows, drawn_spread(rng), nu) for seed in range(n_worlds))
    held, said, right = held_and_best(drawn)
    # errors of the mean over worlds, which are independent
    assert abs(held.mean() - 0.9) < MOST_ERRORS * held.std() / np.sqrt(n_worlds)
    error = np.sqrt(np.mean(said * (1.0 - said)) / n_worlds)
    assert abs(said.mean() - right.mean()) < MOST_ERRORS * error


@pytest.mark.parametrize(("n_rows", "spread"), [(3000, 1.0), (4000, 2.0), (10_000, 0.3)])
def test_intervals_of_sparse_boards_hold_the_truth_as_often_as_they_say(n_rows, spread):
    drawn = (answers_of(seed, 1000, n_rows, spread, 0.0) for seed in range(10))
    held = held_and_best(drawn)[0]
    # scores of a board depend on one deviation: its spread between worlds is what counts
    assert abs(held.mean() - 0.9) < MOST_ERRORS * held.std() / np.sqrt(len(held)) + 0.01


@pytest.mark.parametrize(("n_items", "n_rows"), [(1000, 10_000), (100, 10_000)])
def test_items_that_are_nearly_equal_are_not_set_apart_by_the_prior(n_items, n_rows):
    errors = []
    for seed in range(4):
        _, table = answers_of(seed, n_items, n_rows, 0.1, 0.0)
        mode = fitted_scores(paired(table), None, np.random.default_rng(0))
        doubt = doubt_of_deviation(mode)
        errors.append(np.log(mode.deviation / 0.1) / doubt)
    assert abs(np.mean(errors)) < MOST_ERRORS / np.sqrt(len(errors))


@pytest.mark.parametrize("ties", ["lead", "odds"])
def test_the_evidence_of_a_deviation_is_that_of_a_sum_over_a_grid(ties):
    table = ComparisonTable.of([0, 0, 1, 1, 0, 2], [1, 1, 2, 2, 2, 0], [1, 0, 1, -1, 1, 0])
    model = replace(paired(table), ties=ties)
    mode = mode_of(model, 1.5)
    found, _ = log_evidence(model, mode, Sites.at_mode(model, mode), 1.5)
    # two leads are all that answers depend on
    x = np.linspace(-12.0, 12.0, 401)
    a, b = np.meshgrid(x, x)
    prior = multivariate_normal(np.zeros(2), 1.5**2 * np.array([[2.0, 1.0], [1.0, 2.0]]))
    cells, leads = model.cells, np.stack([np.zeros(a.size), a.ravel(), b.ravel()])
    s = leads[cells.second] - leads[cells.first]
    log_p = prior.logpdf(np.stack([a.ravel(), b.ravel()], 1))
    log_p = log_p + model.likelihoods(s.T, mode.parameters).sum(axis=1)
    expected = logsumexp(log_p) + 2.0 * np.log(x[1] - x[0])
    assert found == pytest.approx(expected, abs=0.01)


def test_ties_by_odds_are_recognised_and_predicted():
    f, table = answers_of(0, 12, 20_000, 1.0, 1.5)
    board = leaderboard(table, random_state=0)
    assert board.ties == "odds"
    assert np.expm1(board.width) == pytest.approx(1.5, rel=0.15)
    lead = f[board.names[0]] - f[board.names[-1]]
    odds = np.exp([0.5 * lead, np.log(1.5), -0.5 * lead])
    (said,) = board.predict_pair(board.names[:1], board.names[-1:])
    np.testing.assert_allclose(said, odds / odds.sum(), atol=0.02)
    _, by_lead = world(12, 20_000, width=1.0)
    assert leaderboard(by_lead, random_state=0).ties == "lead"


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("kind", ["rankings", "best-worst"])
def test_intervals_from_choices_hold_the_truth_as_often_as_they_say(kind, clustered):
    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        f = rng.normal(size=30)
        sets = [rng.permutation(30)[:4] for _ in range(60)]
        orders = [s[np.argsort(-(f[s] + rng.gumbel(size=4)))].tolist() for s in sets]
        table = ChoiceTable.from_rankings(orders)
        if kind == "best-worst":
            others = [np.array(order[1:]) for order in orders]
            worst = [int(s[np.argmax(rng.gumbel(size=3) - f[s])]) for s in others]
            table = ChoiceTable.from_best_worst(orders, [order[0] for order in orders], worst)
        board = leaderboard(table, clustered=clustered, random_state=0)
        truth = (f - f.mean())[board.names]
        held.append(np.mean((board.low <= truth) & (truth <= board.high)))
    assert 0.87 < np.mean(held) < 0.93


@pytest.mark.parametrize(("least", "most"), [(0.3, 0.8), (0.02, 0.1), (0.01, 2.0)])
def test_ranks_of_many_independent_scores_are_those_of_many_draws(least, most):
    rng = np.random.default_rng(0)
    score, std = rng.normal(size=700), rng.uniform(least, most, 700)
    expected = RankSpread.of_draws(score + std * rng.standard_normal((4000, 700)), 0.9)
    few = RankSpread.of_draws(score + std * rng.standard_normal((200, 700)), 0.9)
    found = RankSpread.of_independent(score, std, 0.9, rng)
    for name in ("low", "high"):
        error, usual = (
            np.sqrt(np.mean(np.square(getattr(one, name) - getattr(expected, name))))
            for one in (found, few)
        )
        assert error < 0.6 * usual
        bias = np.mean(getattr(found, name) - getattr(expected, name))
        assert abs(bias) < 3.0
    np.testing.assert_allclose(found.best, expected.best, atol=0.03)
    assert found.best.sum() == pytest.approx(1.0)


def test_sparse_data_make_sense():
    table = ComparisonTable.of([0, 2], [1, 3])
    board = leaderboard(table, random_state=0)
    assert np.isfinite(board.score).all()
    assert np.abs(board.score).max() < 2.0
    assert board.names.tolist() == [0, 1, 2, 3]


def test_ties_alone_leave_all_items_equal():
    board = leaderboard([("a", "b", "tie"), ("b", "c", "tie")] * 5, random_state=0)
    np.testing.assert_allclose(board.score, 0.0, atol=1e-8)
    assert board.rank_low.tolist() == [1, 1, 1]


def test_rankings_broken_into_pairs_need_clustered_intervals():
    covered = {"pairs": [], "clustered": [], "rankings": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        f = rng.normal(size=8)
        orders = [np.argsort(-(f + rng.gumbel(size=8))).tolist() for _ in range(60)]
        ends = [(o[i], o[j], k) for k, o in enumerate(orders) for j in range(8) for i in range(j)]
        first, second, judge = zip(*ends, strict=True)
        pairs = ComparisonTable.of(first, second, judge=judge)
        boards = {
            "pairs": leaderboard(pairs, random_state=0),
            "clustered": leaderboard(pairs, clustered=True, random_state=0),
            "rankings": leaderboard(ChoiceTable.from_rankings(orders), random_state=0),
        }
        for name, board in boards.items():
            truth = (f - f.mean())[board.names]
            covered[name].append(np.mean((board.low <= truth) & (truth <= board.high)))
    means = {name: np.mean(values) for name, values in covered.items()}
    assert means["pairs"] < 0.75
    assert means["clustered"] > means["pairs"] + 0.1
    assert 0.85 < means["rankings"] < 0.95


def test_being_first_is_told_with_an_interval():
    rng = np.random.default_rng(0)
    f = rng.normal(size=10)
    first = rng.integers(10, size=2000)
    second = (first + 1 + rng.integers(9, size=2000)) % 10
    won = rng.random(2000) < expit(f[first] - f[second] + 0.6)
    table = ComparisonTable.of(first, second, np.where(won, 1, -1))
    (effect,) = leaderboard(table, first=True, level=0.99).effects
    assert effect.name == "first"
    assert effect.low < 0.6 < effect.high
    assert effect.low > 0.0


def test_home_and_covariates_are_told_too():
    rng = np.random.default_rng(1)
    n_rows = 3000
    f = rng.normal(size=10)
    first = rng.integers(10, size=n_rows)
    second = (first + 1 + rng.integers(9, size=n_rows)) % 10
    at_home, length = rng.choice([-1, 1], n_rows), rng.normal(size=n_rows)
    won = rng.random(n_rows) < expit(f[first] - f[second] + 0.4 * at_home - 0.7 * length)
    columns = {
        "a": first.astype(str),
        "b": second.astype(str),
        "result": np.where(won, "a", "b"),
        "home": np.where(at_home > 0, "a", "b"),
        "length": length,
    }
    named = ComparisonColumns(home="home", covariates=("length",))
    effects = {one.name: one for one in leaderboard(columns, named, level=0.99).effects}
    assert effects["home"].low < 0.4 < effects["home"].high
    assert effects["length"].low < -0.7 < effects["length"].high
    assert "length: -" in str(leaderboard(columns, named))


def judged(seed=0, n_judges=20, n_each=80, n_items=12):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n_items)
    reliability = np.exp(0.5 * rng.normal(size=n_judges))
    reliability[0] = 0.0
    width = np.exp(-0.7 + 0.8 * rng.normal(size=n_judges))
    judge = np.repeat(np.arange(n_judges), n_each)
    first = rng.integers(n_items, size=len(judge))
    second = (first + 1 + rng.integers(n_items - 1, size=len(judge))) % n_items
    lead = reliability[judge] * (f[first] - f[second]) + rng.logistic(size=len(judge))
    outcome = np.where(lead > width[judge], 1, np.where(lead < -width[judge], -1, 0))
    return f, reliability, width, ComparisonTable.of(first, second, outcome, judge=judge)


def test_habits_of_judges_are_learnt():
    f, reliability, width, table = judged()
    board = leaderboard(table, judges=True, random_state=0)
    report = board.judges
    assert np.corrcoef(np.log(report.reliability[1:]), np.log(reliability[1:]))[0, 1] > 0.6
    assert np.corrcoef(report.tie_rate, width)[0, 1] > 0.7
    assert report.careless[0] > 0.8
    assert (report.careless[1:] < 0.5).all()
    assert report.rows()[0]["judge"] == 0
    assert report.agreement[0] < 0.65 < report.agreement[1:].mean()
    assert np.corrcoef(board.score, f[board.names])[0, 1] > 0.97


def test_habits_of_judges_predict_their_answers():
    gain = []
    for seed in range(4):
        *_, table = judged(seed)
        held_out = np.arange(table.n_rows) % 4 == 0
        seen, new = table.take(np.flatnonzero(~held_out)), table.take(np.flatnonzero(held_out))
        cells = Cells.of(seen, seen.covariates, by_judge=True)
        later = Cells.of(new, new.covariates, by_judge=True)
        rng = np.random.default_rng(0)
        _, mode, habits = fitted_judges(cells, None, rng)
        plain = fitted_scores(PairedModel(cells), None, rng)
        with_habits = habits.model(later).expand(mode.f, mode.parameters).value
        gain.append(with_habits - PairedModel(later).expand(*plain.start).value)
    assert min(gain) > 0.0


def test_a_judge_is_predicted_by_its_habits():
    *_, table = judged()
    board = leaderboard(table, judges=True, random_state=0)
    top, bottom = board.names[:1].tolist(), board.names[-1:].tolist()
    sure = int(np.argmax(board.judges.reliability))
    careless, careful = (
        board.predict_pair(top, bottom, judge=[board.judges.names[k]])[0] for k in (0, sure)
    )
    assert careful[0] / careful[2] > careless[0] / careless[2]
    anybody = board.predict_pair(top, bottom)
    np.testing.assert_array_equal(board.predict_pair(top, bottom, judge=[99]), anybody)
    np.testing.assert_array_equal(board.predict_pair(top, bottom, judge=[None]), anybody)
    with pytest.raises(InvalidInputError, match="one for each of the 1 pairs: got 2"):
        board.predict_pair(top, bottom, judge=board.judges.names[:2])
    with pytest.raises(InvalidInputError, match="has no judges"):
        leaderboard(table, random_state=0).predict_pair(top, bottom, judge=[0])


def test_somebody_who_answers_is_a_judge_drawn_by_their_answers():
    *_, table = judged()
    board = leaderboard(table, judges=True, random_state=0)
    first, second = board.names[:-1].tolist(), board.names[1:].tolist()
    of_judges = [board.predict_pair(first, second, judge=[name]) for name in board.judges.names]
    mixture = np.average(of_judges, axis=0, weights=board.judges.n_answers)
    np.testing.assert_allclose(board.predict_pair(first, second), mixture, rtol=1e-12)
    wins = np.diagonal(board.win_matrix(), 1)
    np.testing.assert_allclose(wins, mixture[:, 0], rtol=1e-12)


def test_judges_who_are_alike_change_little():
    rng = np.random.default_rng(0)
    _, table = world(10, 1000, judge=rng.integers(8, size=1000))
    with_judges = leaderboard(table, judges=True, random_state=0)
    without = leaderboard(table, ties="lead", random_state=0)
    order = [with_judges.names.tolist().index(name) for name in without.names.tolist()]
    np.testing.assert_allclose(with_judges.score[order], without.score, atol=0.15)
    assert (with_judges.judges.careless < 0.05).all()


def test_decay_forgets_the_past():
    old, new = [("a", "b")] * 20, [("b", "a")] * 10
    columns = {
        "winner": [w for w, _ in old + new],
        "loser": [x for _, x in old + new],
        "date": ["2025-01-01"] * 20 + ["2026-01-01"] * 10,
    }
    assert leaderboard(columns).names[0] == "a"
    assert leaderboard(columns, half_life=60.0).names[0] == "b"


def drifting(seed, **sizes):
    """Draw the comparisons of every week, of scores that change from week to week."""
    return moving(seed, **sizes)[1]


def moving(seed, n_items=30, n_weeks=80, n_each=30):
    """Draw scores that change from week to week, and return the last with all comparisons."""
    rng = np.random.default_rng(seed)
    f, weeks = rng.normal(size=n_items), []
    for week in range(n_weeks):
        f = 0.97 * f + np.sqrt(1.0 - 0.97**2) * rng.normal(size=n_items)
        first = rng.integers(n_items, size=n_each)
        second = (first + 1 + rng.integers(n_items - 1, size=n_each)) % n_items
        won = rng.random(n_each) < expit(f[first] - f[second])
        weeks.append(np.stack([first, second, np.where(won, 1, -1), np.full(n_each, 7 * week)]))
    first, second, outcome, day = np.concatenate(weeks, axis=1)
    names = np.arange(n_items)
    return f, ComparisonTable.of(first, second, outcome, date=day.astype(float), names=names)


def later_loss(table, n_later, **options):
    """Return the log-loss of the last rows, predicted from all that came before."""
    last, rows = table.n_rows - n_later, np.arange(table.n_rows)
    board = leaderboard(table.take(rows[:last]), random_state=0, **options)
    later = table.take(rows[last:])
    probability = board.predict_pair(later.first.tolist(), later.second.tolist())
    return -np.mean(np.log(probability[np.arange(n_later), 1 - later.outcome]))


def test_decay_helps_where_scores_change():
    """Faded weights taken for counts would shrink scores until decay does harm."""
    tables = [drifting(seed) for seed in range(6)]
    plain, faded, learned = (
        np.mean([later_loss(table, 150, half_life=half_life) for table in tables])
        for half_life in (None, 60.0, "auto")
    )
    counted = np.mean(
        [later_loss(replace(table, weight=0.1 * table.weight), 150) for table in tables]
    )
    assert faded < plain - 0.02
    assert learned < plain - 0.01
    assert counted > plain  # what weights that are no counts do


def test_intervals_of_scores_that_move_allow_for_how_far_they_did():
    """The effective number of answers alone tells the noise: intervals then cover about 0.75."""
    held, wider = [], []
    for seed in range(6):
        f, table = moving(seed)
        board = leaderboard(table, half_life="auto", random_state=0)
        truth = (f - f.mean())[board.names]
        held.append(np.mean((board.low <= truth) & (truth <= board.high)))
        still = leaderboard(table.decayed(60.0), random_state=0)
        moved = leaderboard(table, half_life=60.0, random_state=0)
        np.testing.assert_allclose(moved.score, still.score)
        wider.append(np.median(moved.std / still.std))
    assert np.mean(held) - 0.75 > 2.0 * np.std(held) / np.sqrt(len(held))
    assert 1.15 < np.mean(wider) < np.sqrt(2.0)  # the noise of the prior stays
    plain, endless = (leaderboard(table, half_life=h, random_state=0) for h in (None, np.inf))
    np.testing.assert_array_equal(plain.std, endless.std)


def test_faded_weights_sum_up_to_the_effective_sample_size():
    table = drifting(0)
    fade = np.exp2((table.date - table.date.max()) / 90.0)
    faded = table.decayed(90.0).weight
    assert faded.sum() == pytest.approx(fade.sum() ** 2 / np.square(fade).sum())
    np.testing.assert_allclose(faded / faded[-1], fade)
    np.testing.assert_array_equal(table.decayed(np.inf).weight, table.weight)


def test_a_learned_half_life_is_said():
    board = leaderboard(drifting(0), half_life="auto", random_state=0)
    (line,) = board.reading_
    assert line.startswith("half-life: ")
    assert line.endswith("days, which predict later comparisons best")
    _, still = world(8, 600, date=np.arange(600.0))
    (line,) = leaderboard(still, half_life="auto", random_state=0).reading_
    assert line == "half-life: none, since no decay predicts later comparisons best"


def test_maximum_likelihood_and_maximum_posterior_on_request():
    _, table = world(6, 300)

    def negative(theta, deviation):
        prior = theta[:-1] @ theta[:-1] / deviation**2 + (theta[-1] / PARAMETER_DEVIATION) ** 2
        likelihood = reference.paired_log_likelihood(theta[:-1], theta[-1], list(rows(table)))
        return 0.5 * prior - likelihood

    for deviation in (0.7, np.inf):
        best = minimize(negative, np.append(np.zeros(6), 0.3), deviation, tol=1e-10).x[:-1]
        best -= best.mean()
        options = {"estimate": "map", "ties": "lead"}
        board = leaderboard(table, deviation=deviation, **options, random_state=0)
        np.testing.assert_allclose(board.score, best[board.names], atol=1e-4)
    mean = leaderboard(table, deviation=0.7, random_state=0)
    assert np.abs(mean.score).max() > 0.0


def test_maximum_likelihood_is_what_choix_and_evalica_print():
    times = {
        "ab": 7,
        "ba": 3,
        "bc": 6,
        "cb": 4,
        "ac": 8,
        "ca": 1,
        "cd": 5,
        "dc": 2,
        "da": 2,
        "ad": 5,
    }
    battles = [tuple(pair) for pair, n in times.items() for _ in range(n)]
    # choix 0.4.1 (opt_pairwise and ilsr_pairwise) and evalica 0.4.2 (bradley_terry), logarithms
    # around 0; then opt_pairwise(alpha=1.0), whose penalty is twice that of a deviation of 1
    for deviation, expected in [
        (np.inf, [0.956799, 0.085122, -0.341617, -0.700304]),
        (np.sqrt(0.5), [0.712024, 0.004164, -0.273996, -0.442193]),
    ]:
        board = leaderboard(battles, deviation=deviation, estimate="map")
        assert board.names.tolist() == list("abcd")
        np.testing.assert_allclose(board.score, expected, atol=1e-5)


def test_items_that_never_met_are_ranked_in_groups():
    games = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "a")] * 10 + [("x", "y")] * 3
    board = leaderboard(games, random_state=0)
    assert board.names.tolist() == ["a", "b", "c", "x", "y"]
    assert board.group.tolist() == [0, 0, 0, 1, 1]
    assert [(row["group"], row["rank"]) for row in board.rows()][3:] == [(2, 1), (2, 2)]
    # scores and chances to be the best belong to a group
    np.testing.assert_allclose([board.score[:3].sum(), board.score[3:].sum()], 0.0, atol=1e-12)
    np.testing.assert_allclose([board.best[:3].sum(), board.best[3:].sum()], 1.0)
    assert board.rank_high[3:].max() == 2
    # no probability across groups
    win = board.win_matrix()
    assert np.isnan(win[:3, 3:]).all()
    assert np.isfinite(win[3:, 3:]).all()
    with pytest.raises(InvalidInputError, match="nothing tells a from y"):
        board.predict_pair(["a", "a"], ["b", "y"])
    assert "2 groups of items never met" in str(board)
    # as if each group were alone
    alone = leaderboard(games[:40], deviation=1.0, random_state=0)
    together = leaderboard(games, deviation=1.0, random_state=0)
    np.testing.assert_allclose(together.score[:3], alone.score, atol=1e-6)
    np.testing.assert_allclose(together.std[:3], alone.std, rtol=1e-6)
    # many items, and choices among several
    chains = [(f"{side}{i}", f"{side}{i + 1}") for side in "ab" for i in range(400)]
    assert leaderboard(chains, random_state=0).n_groups == 2
    choices = ChoiceTable.from_rankings([["a", "b", "c"], ["x", "y", "z"]] * 5)
    assert leaderboard(choices, random_state=0).n_groups == 2


def test_who_is_shown_first_counts_in_predictions():
    rng = np.random.default_rng(0)
    first = rng.integers(6, size=900)
    second = (first + 1 + rng.integers(5, size=900)) % 6
    table = ComparisonTable.of(first, second, np.where(rng.random(900) < 0.8, 1, -1))
    board = leaderboard(table, first=True, random_state=0)
    shown = board.predict_pair([0, 1], [1, 0])
    assert (shown[:, 0] > 0.7).all()
    blind = board.predict_pair([0, 1], [1, 0], {"first": [0.0, 0.0]})
    np.testing.assert_allclose(blind[:, 0].sum(), 1.0)
    # who is at home is not who is shown first, if the table says so
    at_home = np.where(rng.random(900) < 0.5, "a", "b")
    columns = {"a": first, "b": second, "result": np.where(table.outcome > 0, "a", "b")}
    named = ComparisonColumns(home="home")
    board = leaderboard({**columns, "home": at_home}, named, random_state=0)
    assert board.effects[0].usual == 0.0
    board = leaderboard({**columns, "home": ["a"] * 900}, named, random_state=0)
    assert board.effects[0].usual == 1.0


def test_wrong_records_are_found():
    games = [("a", "b"), ("b", "c"), ("a", "c")] * 20 + [("c", "a")]
    found, probability = suspect_answers(games, leaderboard(games, random_state=0))
    assert found[0] == 60
    assert probability[0] > 0.3 > probability[1]


def test_formats_tell_the_same():
    board = leaderboard([("a|x", "b"), ("b", "c<"), ("a|x", "c<")] * 9, random_state=0)
    assert board.format("text") == str(board)
    assert board.format("markdown").splitlines()[2].startswith("| 1 | a\\|x |")
    assert "c&lt;" in board.format("html")
    import json

    told = json.loads(board.format("json"))
    assert [row["item"] for row in told["items"]] == board.names.tolist()
    lines = board.format("csv").splitlines()
    assert lines[0].split(",")[:3] == ["rank", "item", "score"]
    frame = board.to_frame()
    assert frame["item"].tolist() == board.names.tolist()
    np.testing.assert_allclose(frame["score"], board.score)
    elo = board.elo()
    np.testing.assert_allclose(
        [row["score"] for row in elo.rows()], 1000 + 400 / np.log(10) * board.score
    )
    assert repr(board) == "Leaderboard(3 items: a|x, b, c<)"


def test_a_score_that_rounds_to_zero_has_no_sign():
    _, table = world(6, 60)
    board = leaderboard(table, random_state=0)
    shown = replace(board, score=np.array([1.0, 0.004, -0.001, -0.004, -0.3, -0.7]))
    assert [row[2] for row in shown.cells()[1]][1:4] == ["0.00"] * 3


def test_the_win_matrix_holds_probabilities():
    _, table = world(6, 500)
    board = leaderboard(table, random_state=0)
    win = board.win_matrix()
    assert ((win > 0) & (win + win.T < 1.0)).all()
    assert (np.diff(win[:, 2]) <= 1e-12).all()
    some = board.win_matrix([board.names[2], board.names[0]])
    np.testing.assert_allclose(some[0, 1], win[2, 0])


def test_probabilities_of_pairs_are_those_of_the_matrix_and_of_effects():
    _, table = world(6, 500)
    board = leaderboard(table, first=True, random_state=0)
    names = board.names.tolist()
    p = board.predict_pair(names[:1] * 2, names[1:3], {"first": [0.0, 0.0]})
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p[:, 0], board.win_matrix()[0, 1:3])
    np.testing.assert_allclose(p[:, 2], board.win_matrix()[1:3, 0])
    shown = board.predict_pair(names[:1], names[1:2], {"first": [1.0]})
    assert (shown[0, 0] > p[0, 0]) == (board.effects[0].value > 0)


def test_data_frames_need_pandas(monkeypatch):
    import sys

    board = leaderboard([("a", "b")])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install \"rankwise\[frames\]\""):
        board.to_frame()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: leaderboard([("a", "b")], level=1.0),
            "`level` must be a finite number between 0 and 1",
        ),
        (lambda: leaderboard([("a", "b")], deviation=0.0), "`deviation` must lie between"),
        (lambda: leaderboard([("a", "b")], judges=True), "the comparisons have none"),
        (lambda: leaderboard([("a", "b")], clustered=True), "the comparisons have none"),
        (lambda: leaderboard([("a", "b")], half_life=3.0), "must come with dates"),
        (lambda: leaderboard([("a", "b")], half_life="auto"), "several dates: these have none"),
        (lambda: leaderboard([("a", "b")], estimate="mode"), "`estimate` must be one of"),
        (lambda: leaderboard([("a", "b")], ties="both"), "`ties` must be one of"),
        (
            lambda: leaderboard([("a", "b")], judges=True, ties="odds"),
            "ties='odds' must be without judges=True",
        ),
        (lambda: leaderboard([("a", "b")], deviation=np.inf), "not so for a and b"),
        (
            lambda: leaderboard(ChoiceTable.from_rankings([["a", "b"]]), deviation=np.inf),
            "must be finite for rankings",
        ),
        (
            lambda: leaderboard(ChoiceTable.from_rankings([["a", "b"]]), judges=True),
            "need comparisons of two items",
        ),
        (lambda: leaderboard([("a", "b")]).format("pdf"), "`kind` must be one of"),
        (lambda: leaderboard([("a", "b")]).win_matrix(["z"]), "2 items: got 'z'"),
        (
            lambda: leaderboard([("a", "b")]).predict_pair(["a"], ["b"], {"home": [1]}),
            "must be among those with known effects.*: got 'home'",
        ),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_a_matrix_of_too_many_items_is_refused():
    board = leaderboard([(i, i + 1) for i in range(2000)])
    with pytest.raises(InvalidInputError, match="at most 2000 items"):
        board.win_matrix()
