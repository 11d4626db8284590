import numpy as np
import pytest
from scipy.special import entr, ndtr

from rankwise.comparisons.gp.inference.likelihood import Probit
from rankwise.comparisons.gp.questions import (
    RankDistribution,
    border_doubt,
    fisher_information,
    goal_certainty,
    information_gain,
    least_asked,
    suggest_pairs,
    winner_score,
)
from rankwise.core.errors import InvalidInputError
from reference import tilted_by_quadrature

MEANS = np.array([0.0, 0.3, -1.5, 4.0, 0.0, -6.0])
VARIANCES = np.array([1.0, 1e-3, 5.0, 40.0, 1e4, 0.5])


def entropy(p):
    return (entr(p) + entr(1.0 - p)) / np.log(2.0)


@pytest.fixture
def gaussian():
    """Return a mean and covariance of six items."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(6, 6))
    return rng.normal(size=6), L @ L.T


ALL = np.stack(np.triu_indices(6, 1), axis=1)


@pytest.mark.parametrize("noise", [1.0, 2.5])
def test_information_gain_is_the_mutual_information(noise):
    known = [
        np.exp(tilted_by_quadrature(lambda s: entropy(ndtr(s / np.sqrt(noise))), m, v)[0])
        for m, v in zip(MEANS, VARIANCES, strict=True)
    ]
    exact = entropy(ndtr(MEANS / np.sqrt(noise + VARIANCES))) - known
    np.testing.assert_allclose(information_gain(MEANS, VARIANCES, noise), exact, atol=0.004)


def test_a_known_difference_gives_no_information():
    assert information_gain(np.linspace(-5, 5, 101), np.zeros(101)) == pytest.approx(0.0, abs=0.005)


def test_winner_score_is_the_mean_of_the_better_score():
    rng = np.random.default_rng(0)
    mean, cov = np.array([0.4, -0.1]), np.array([[2.0, 0.7], [0.7, 1.0]])
    draws = rng.multivariate_normal(mean, cov, size=400_000).max(axis=1)
    got = winner_score(mean[1:], mean[:1] - mean[1:], np.array([2.0 + 1.0 - 1.4]))
    assert got[0] == pytest.approx(draws.mean(), abs=5.0 * draws.std() / np.sqrt(len(draws)))


def test_winner_score_does_not_depend_on_the_order_and_handles_certainty():
    mean, variance = np.array([2.0, -2.0, 0.0]), np.array([1.0, 1.0, 0.0])
    first = np.array([5.0, 1.0, 3.0])
    np.testing.assert_allclose(
        winner_score(first - mean, mean, variance), winner_score(first, -mean, variance), rtol=1e-12
    )
    assert winner_score(np.array([1.0]), np.array([3.0]), np.zeros(1)) == pytest.approx(4.0)


def test_expected_information_averages_what_either_answer_takes_off_the_variance():
    answers = [Probit(1.7).average(sign * MEANS, VARIANCES) for sign in (1.0, -1.0)]
    expected = sum(np.exp(one.log_z) * one.curvature for one in answers)
    got = fisher_information(MEANS, VARIANCES, 1.7)
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert (got * VARIANCES < 1.0).all()


@pytest.mark.parametrize("goal", ["order", "best"])
def test_first_suggestion_is_the_most_useful_pair(gaussian, goal):
    mean, cov = gaussian
    i, j = ALL.T
    difference, variance = mean[i] - mean[j], cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
    gain = (
        information_gain(difference, variance)
        if goal == "order"
        else winner_score(mean[j], difference, variance)
    )
    chosen = suggest_pairs(mean, cov, ALL, 4, goal=goal)
    np.testing.assert_array_equal(chosen[0], ALL[np.argmax(gain)])
    assert len({tuple(pair) for pair in chosen}) == 4


@pytest.mark.parametrize("goal", ["order", "best", "top"])
@pytest.mark.parametrize("noise", [1.0, 0.2])
@pytest.mark.parametrize("seed", range(6))
def test_scanning_all_pairs_finds_what_listing_them_finds(goal, noise, seed):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(40, 40)) * 10.0 ** rng.uniform(-2.0, 1.0)
    mean, cov = rng.normal(size=40) * 10.0 ** rng.uniform(-2.0, 1.0), L @ L.T
    every = np.stack(np.triu_indices(40, 1), axis=1)
    listed = suggest_pairs(mean, cov, every, 5, goal=goal, k=7, noise=noise)
    scanned = suggest_pairs(mean, cov, None, 5, goal=goal, k=7, noise=noise)
    np.testing.assert_array_equal(scanned, listed)


def test_all_pairs_can_be_suggested(gaussian):
    chosen = suggest_pairs(*gaussian, None, 15)
    assert {tuple(pair) for pair in chosen.tolist()} == {tuple(pair) for pair in ALL.tolist()}
    certain = suggest_pairs(np.arange(6.0) * 100.0, np.zeros((6, 6)), None, 1)
    assert certain.shape == (1, 2)


def test_a_batch_does_not_ask_about_twins_twice():
    cov = np.diag([4.0, 2.0, 2.0, 4.0, 4.0])
    cov[3, 4] = cov[4, 3] = 4.0 - 1e-9
    candidates = np.array([[0, 3], [0, 4], [1, 2]])
    gain = information_gain(np.zeros(3), np.array([8.0, 8.0, 4.0]))
    assert gain[0] == gain[1] > gain[2]
    chosen = suggest_pairs(np.zeros(5), cov, candidates, 2)
    assert chosen.tolist() == [[0, 3], [1, 2]]


@pytest.mark.parametrize("listed", [False, True])
def test_the_least_asked_pair_has_the_fewest_answers_of_those_left(listed):
    rng = np.random.default_rng(0)
    for _ in range(50):
        asked = rng.integers(3, size=6).astype(float)
        left_out = ALL[rng.choice(15, rng.integers(10), replace=False)]
        free = [pair for pair in ALL.tolist() if pair not in left_out.tolist()]
        pair = least_asked(asked, ALL if listed else None, left_out, rng).tolist()
        assert pair in free
        assert asked[pair].sum() == min(asked[one].sum() for one in free)


def test_the_least_asked_pair_is_the_same_from_a_list_of_all_pairs():
    for seed in range(20):
        asked = np.random.default_rng(seed).integers(3, size=6).astype(float)
        scanned, listed = (
            least_asked(asked, given, ALL[:0], np.random.default_rng(seed)) for given in (None, ALL)
        )
        np.testing.assert_array_equal(scanned, listed)


def test_suggestions_leave_their_input_alone(gaussian):
    mean, cov = gaussian
    before = cov.copy()
    suggest_pairs(mean, cov, ALL, 3)
    np.testing.assert_array_equal(cov, before)


@pytest.mark.parametrize("n_pairs", [0, 16])
def test_number_of_suggestions_must_fit(gaussian, n_pairs):
    with pytest.raises(InvalidInputError, match="between 1 and the 15 candidate pairs"):
        suggest_pairs(*gaussian, ALL, n_pairs)
    with pytest.raises(InvalidInputError, match="between 1 and the 15 candidate pairs"):
        suggest_pairs(*gaussian, None, n_pairs)


def test_ranks_count_the_better_items_in_every_draw():
    scores = np.random.default_rng(0).normal(size=(50, 7))
    ranks = RankDistribution.from_draws(scores).ranks
    expected = 1 + (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    np.testing.assert_array_equal(ranks, expected)


def test_rank_probabilities_are_shares_of_the_draws():
    ranks = RankDistribution(np.array([[1, 2, 3], [2, 1, 3], [1, 3, 2], [1, 2, 3]]))
    assert ranks.best.tolist() == [0.75, 0.25, 0.0]
    assert ranks.top(2).tolist() == [1.0, 0.75, 0.25]
    assert ranks.top(3).tolist() == [1.0, 1.0, 1.0]
    assert ranks.expected.tolist() == [1.25, 2.0, 2.75]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_intervals_hold_at_least_the_probability_asked(level):
    scores = np.random.default_rng(1).normal(size=(999, 12)) + np.arange(12)
    ranks = RankDistribution.from_draws(scores)
    low, high = ranks.interval(level).T
    inside = ((ranks.ranks >= low) & (ranks.ranks <= high)).mean(axis=0)
    assert (inside >= level).all()
    middle = np.median(ranks.ranks, axis=0)
    assert ((low <= middle) & (middle <= high)).all()
    below, above = (ranks.ranks < low).mean(axis=0), (ranks.ranks > high).mean(axis=0)
    assert (np.maximum(below, above) <= 0.5 * (1.0 - level) + 1e-12).all()


@pytest.mark.parametrize("level", [0.0, 1.0, 90])
def test_level_is_a_probability(level):
    with pytest.raises(InvalidInputError, match="`level` must be a finite number between 0 and 1"):
        RankDistribution(np.ones((1, 1), dtype=int)).interval(level)


def test_doubt_is_largest_at_the_border_of_the_best():
    mean = np.array([5.0, 3.0, 1.0, 0.9, -4.0])
    doubt = border_doubt(mean, 0.25 * np.eye(5), 3)
    assert set(np.argsort(-doubt)[:2]) == {2, 3}
    assert doubt[2] == pytest.approx(doubt[3])
    assert (doubt[[0, 4]] < 1e-3).all()
    shifted = border_doubt(mean + 7.0, 0.25 * np.eye(5) + 3.0, 3)
    np.testing.assert_allclose(shifted, doubt, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_questions_for_the_best_k_are_about_their_border(k):
    pair = suggest_pairs(np.arange(6.0)[::-1], 0.1 * np.eye(6), None, 1, goal="top", k=k)[0]
    assert pair.tolist() == [k - 1, k]


def test_certainty_counts_draws_that_agree(gaussian):
    mean, cov = gaussian
    draws = np.random.default_rng(0).multivariate_normal(mean, cov, 4000)
    order = np.argsort(-mean)
    agree = [set(np.argsort(-draw)[:2]) == set(order[:2]) for draw in draws]
    assert goal_certainty(mean, draws, "top", 2) == pytest.approx(np.mean(agree))
    best = np.mean(draws.argmax(axis=1) == order[0])
    assert goal_certainty(mean, draws, "best", 1) == pytest.approx(best)
    i, j = ALL.T
    right = np.sign(draws[:, i] - draws[:, j]) == np.sign(mean[i] - mean[j])
    assert goal_certainty(mean, draws, "order", 1) == pytest.approx(right.mean())
