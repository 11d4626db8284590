import numpy as np
import pytest
from scipy.stats import kendalltau

from rankwise.apps.ask.beliefs import Beliefs
from rankwise.apps.ask.questions import AskGoal, Standing, choose_question, expected_concordance
from rankwise.apps.ask.store import Question, Record
from rankwise.core.errors import InvalidInputError

N_ITEMS = 6
NO_ANSWERS = np.zeros(N_ITEMS, dtype=np.intp)


def won(a, b, answer="left"):
    return Record(Question(0, 0, a, b), answer, 0.0)


def test_an_answer_moves_the_winner_up_and_narrows_both():
    before = Beliefs.prior(np.zeros((N_ITEMS, 0)))
    after = before.after([won(2, 4)])
    assert after.mean[2] > 0 > after.mean[4]
    assert after.covariance[2, 2] < before.covariance[2, 2]
    assert after.mean[0] == 0.0


def test_one_answer_matches_the_moments_of_the_exact_posterior():
    beliefs = Beliefs.prior(np.zeros((2, 0))).after([won(0, 1)])
    rng = np.random.default_rng(0)
    draws = rng.normal(scale=1.5, size=(2_000_000, 2))
    kept = draws[rng.normal(size=len(draws)) < draws[:, 0] - draws[:, 1]]
    np.testing.assert_allclose(beliefs.mean, kept.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(beliefs.covariance, np.cov(kept.T), atol=0.02)


def test_a_skip_tells_nothing_and_a_tie_only_narrows():
    before = Beliefs.prior(np.zeros((N_ITEMS, 0)))
    skipped = before.after([won(0, 1, "skip")])
    np.testing.assert_array_equal(skipped.covariance, before.covariance)
    tied = before.after([won(0, 1, "tie")])
    np.testing.assert_allclose(tied.mean, 0.0)
    assert tied.covariance[0, 1] > 0


def test_items_with_like_features_learn_from_each_other():
    X = np.array([[0.0], [0.05], [3.0], [3.05]])
    after = Beliefs.prior(X).after([won(0, 2)])
    assert after.mean[1] > after.mean[3]


def test_every_item_is_asked_about_before_any_is_asked_often():
    rng = np.random.default_rng(0)
    beliefs, counts = Beliefs.prior(np.zeros((N_ITEMS, 0))), NO_ANSWERS.copy()
    for _ in range(N_ITEMS // 2):
        pair = choose_question(beliefs, AskGoal(), counts, [], [], rng)
        counts[list(pair)] += 1
        beliefs = beliefs.after([won(*pair)])
    assert counts.tolist() == [1] * N_ITEMS


def test_barred_pairs_are_never_asked_and_busy_items_avoided():
    rng, beliefs = np.random.default_rng(0), Beliefs.prior(np.zeros((N_ITEMS, 0)))
    everything = {(a, b) for a in range(N_ITEMS) for b in range(a + 1, N_ITEMS)}
    left = everything - {(2, 5)}
    assert choose_question(beliefs, AskGoal(), NO_ANSWERS, left, [2], rng) == (2, 5)
    assert choose_question(beliefs, AskGoal(), NO_ANSWERS, everything, [], rng) is None
    pair = choose_question(beliefs, AskGoal(), NO_ANSWERS, [], [0, 1, 2], rng)
    assert set(pair) <= {3, 4, 5}


def test_the_best_is_sought_among_those_that_may_be_best():
    mean = np.array([3.0, 2.9, 0.0, -3.0, -3.1, -6.0])
    beliefs = Beliefs(mean, 0.2 * np.eye(N_ITEMS))
    rng = np.random.default_rng(0)
    assert choose_question(beliefs, AskGoal(1), NO_ANSWERS, [], [], rng) == (0, 1)


def test_stated_certainty_is_right_in_simulations():
    """Of rankings called right with some probability, about that share is right."""
    rng = np.random.default_rng(1)
    stated, right = [], []
    for _ in range(150):
        scores = rng.normal(scale=1.5, size=5)
        beliefs = Beliefs.prior(np.zeros((5, 0)))
        for _ in range(12):
            a, b = rng.choice(5, 2, replace=False).tolist()
            a_wins = scores[a] - scores[b] + rng.normal() > 0
            beliefs = beliefs.after([won(a, b) if a_wins else won(b, a)])
        standing = Standing.of(beliefs, AskGoal(1), rng)
        stated.append(standing.certainty)
        right.append(standing.order[0] == np.argmax(scores))
    error = np.sqrt(np.mean(np.array(stated) * (1 - np.array(stated))) / len(stated))
    assert abs(np.mean(stated) - np.mean(right)) < 3 * error


def test_expected_concordance_is_that_of_draws():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(N_ITEMS, N_ITEMS))
    beliefs = Beliefs(rng.normal(size=N_ITEMS), root @ root.T)
    draws = beliefs.draws(20_000, rng)
    taus = [kendalltau(beliefs.mean, draw).statistic for draw in draws[:4000]]
    assert expected_concordance(beliefs) == pytest.approx((np.mean(taus) + 1) / 2, abs=0.01)


@pytest.mark.parametrize(
    ("goal", "k", "words"),
    [("order", None, "the whole order"), ("best", 1, "the best one"), ("top 3", 3, "the best 3")],
)
def test_goals_read_as_they_are_written(goal, k, words):
    found = AskGoal.of(goal, 10, 0.9)
    assert (found.k, str(found)) == (k, words)


@pytest.mark.parametrize("goal", ["top 10", "top 0", "top", "middle"])
def test_unknown_goals_are_refused(goal):
    with pytest.raises(InvalidInputError, match="goal must be 'order', 'best' or 'top K'"):
        AskGoal.of(goal, 10, 0.9)


def test_a_confidence_outside_its_range_is_refused():
    with pytest.raises(InvalidInputError, match="between 0.5 and 1"):
        AskGoal.of("best", 10, 1.0)
