import numpy as np
import pytest

from rankwise.apps.ask.ranking import (
    AskGoal,
    Standing,
    add_answers,
    choose_question,
    fitted_process,
    rater_summaries,
)
from rankwise.apps.ask.store import Question, Record
from rankwise.core.errors import InvalidInputError

N_ITEMS = 6
NAMES = np.zeros((N_ITEMS, 0))
NO_ANSWERS = np.zeros(N_ITEMS, dtype=np.intp)
ORDER = AskGoal()
EVERYTHING = {(a, b) for a in range(N_ITEMS) for b in range(a + 1, N_ITEMS)}


def won(a, b, answer="left", rater=0):
    return Record(Question(0, rater, a, b), answer, 0.0)


def chosen(process, goal=ORDER, counts=NO_ANSWERS, barred=(), busy=(), seed=0):
    standing = Standing.of(process, goal, len(counts))
    rng = np.random.default_rng(seed)
    return choose_question(process, standing, counts, barred, busy, rng)


def in_order(n_items, times):
    """Answers that put items in the order of their numbers, the first one best."""
    return [won(a, b) for a in range(n_items) for b in range(a + 1, n_items)] * times


def test_an_answer_moves_the_winner_up_and_narrows_both():
    process = fitted_process(NAMES, [won(0, 1)])
    before = process.predict(return_cov=True)[1]
    add_answers(process, [won(2, 4)])
    mean, covariance = process.predict(return_cov=True)
    assert mean[2] > mean[5] > mean[4]
    assert covariance[2, 2] < before[2, 2]


def test_answers_added_one_by_one_are_those_fitted_at_once():
    """The parameters are those of the first answers, so the process is given all at once too."""
    records = [won(0, 1), won(1, 2), won(4, 3, "right"), won(0, 5, "tie"), won(2, 5, "skip")]
    process = fitted_process(NAMES, records[:1])
    for record in records[1:]:
        add_answers(process, [record])
    whole = fitted_process(NAMES, records[:1])
    add_answers(whole, records[1:])
    np.testing.assert_allclose(process.predict(), whole.predict(), atol=1e-6)
    assert process.predict()[3] > process.predict()[4]


def test_a_skip_tells_nothing_and_a_tie_only_narrows():
    assert fitted_process(NAMES, [won(0, 1, "skip")]) is None
    tied = fitted_process(NAMES, [won(0, 1, "tie")])
    mean, covariance = tied.predict(return_cov=True)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    assert covariance[0, 1] > 0
    add_answers(tied, [won(0, 1, "skip")])
    np.testing.assert_array_equal(tied.predict(return_cov=True)[1], covariance)


def test_items_with_like_features_learn_from_each_other():
    X = np.array([[0.0], [0.05], [3.0], [3.05]])
    mean = fitted_process(X, [won(0, 2)]).predict()
    assert mean[1] > mean[3]


def test_every_item_is_asked_about_before_any_is_asked_often():
    process, counts, records = None, NO_ANSWERS.copy(), []
    for _ in range(N_ITEMS // 2):
        pair = chosen(process, counts=counts)
        counts[list(pair)] += 1
        records.append(won(*pair))
        process = fitted_process(NAMES, records)
    assert counts.tolist() == [1] * N_ITEMS


@pytest.mark.parametrize("n_answered", [0, 3])
def test_barred_pairs_are_never_asked_and_busy_items_avoided(n_answered):
    process = fitted_process(NAMES, in_order(N_ITEMS, 1)[:n_answered])
    assert chosen(process, barred=EVERYTHING - {(2, 5)}, busy=[2]) == (2, 5)
    assert chosen(process, barred=EVERYTHING) is None
    assert set(chosen(process, busy=[0, 1, 2])) <= {3, 4, 5}


def test_the_best_is_sought_among_those_that_may_be_best():
    records = in_order(N_ITEMS, 8)
    records = [r for r in records if r.winner_first != (0, 1)] + [won(0, 1), won(1, 0)] * 4
    counts = np.full(N_ITEMS, 40)
    process = fitted_process(NAMES, records)
    assert chosen(process, AskGoal(1), counts) == (0, 1)
    assert {0, 1} & set(chosen(process, AskGoal(1), counts, {(0, 1)}))


def test_of_many_items_all_can_be_asked_about():
    n_items = 500
    names, counts = np.zeros((n_items, 0)), np.zeros(n_items, dtype=np.intp)
    records = [won(a, a + 1) for a in range(0, 40, 2)]
    process = fitted_process(names, records)
    pair = chosen(process, counts=counts)
    assert len(set(pair)) == 2
    assert min(pair) >= 0
    only = {(a, b) for a in range(n_items) for b in range(a + 1, n_items)} - {(77, 401)}
    assert chosen(process, counts=counts, barred=only) == (77, 401)
    assert set(chosen(process, AskGoal(3), counts)) <= set(range(n_items))


def test_before_any_answer_all_orders_are_as_likely():
    for goal, certainty in [(AskGoal(), 0.5), (AskGoal(1), 1 / 6), (AskGoal(2), 1 / 15)]:
        standing = Standing.of(None, goal, N_ITEMS)
        assert standing.certainty == pytest.approx(certainty)
        assert standing.interval.tolist() == [[1, N_ITEMS]] * N_ITEMS
        assert standing.best.sum() == pytest.approx(1.0)
        assert not standing.is_goal_reached


def test_stated_certainty_is_right_in_simulations():
    """Of rankings called right with some probability, about that share is right."""
    rng = np.random.default_rng(1)
    stated, right = [], []
    for _ in range(150):
        scores = rng.normal(scale=1.5, size=5)
        records = []
        for _ in range(12):
            a, b = rng.choice(5, 2, replace=False).tolist()
            a_wins = scores[a] - scores[b] + rng.normal() > 0
            records.append(won(a, b) if a_wins else won(b, a))
        process = fitted_process(np.zeros((5, 0)), records)
        standing = Standing.of(process, AskGoal(1), 5)
        stated.append(standing.certainty)
        right.append(standing.order[0] == np.argmax(scores))
    error = np.sqrt(np.mean(np.array(stated) * (1 - np.array(stated))) / len(stated))
    assert abs(np.mean(stated) - np.mean(right)) < 3 * error


def test_a_standing_is_that_of_the_process():
    process = fitted_process(NAMES, in_order(N_ITEMS, 5))
    standing = Standing.of(process, AskGoal(), N_ITEMS)
    assert standing.order.tolist() == list(range(N_ITEMS))
    place = np.arange(1, N_ITEMS + 1)
    assert (standing.interval[:, 0] <= place).all()
    assert (standing.interval[:, 1] >= place).all()
    assert standing.best.argmax() == 0
    assert standing.certainty == process.certainty(goal="order")
    assert str(standing).endswith("of all pairs are expected to be in the right order")


def test_who_agrees_less_than_expected_is_unusual():
    """With two raters nobody is judged by the others, but disagreement is seen."""
    records = in_order(N_ITEMS, 6)
    records += [won(b, a, rater=1) for a, b in sorted(EVERYTHING)]
    summaries = rater_summaries(fitted_process(NAMES, records), records)
    assert summaries[0].agreement > 0.95
    assert summaries[1].agreement < 0.05
    assert (summaries[0].is_unusual, summaries[1].is_unusual) == (False, True)
    assert summaries[1].care is None
    assert rater_summaries(None, []) == {}


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
