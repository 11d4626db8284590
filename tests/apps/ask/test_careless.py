"""Raters who click at random count less, by the answers of the others alone."""

import numpy as np
import pytest
from scipy.special import ndtr

from rankwise.apps.ask.ranking import _fit, care_of_raters, fitted_process
from rankwise.apps.ask.store import Question, Record

N_ITEMS = 14
NO_FEATURES = np.zeros((N_ITEMS, 0))


def simulated(rng, raters, n_answers):
    """Answers about items with known scores; "random" and "reversed" raters among careful ones."""
    truth = 1.5 * rng.standard_normal(N_ITEMS)
    records = []
    for rater, kind in enumerate(raters):
        for _ in range(n_answers):
            left, right = (int(item) for item in rng.choice(N_ITEMS, 2, replace=False))
            chance = {"random": 0.5}.get(kind, ndtr(truth[left] - truth[right]))
            is_left = (rng.random() < chance) != (kind == "reversed")
            question = Question(len(records), rater, left, right)
            records.append(Record(question, "left" if is_left else "right", 0.0))
    return truth, records


def care(records):
    return care_of_raters(fitted_process(NO_FEATURES, records), records)


def error_of(process, truth):
    """Return the share of pairs in the wrong order."""
    i, j = np.triu_indices(N_ITEMS, 1)
    mean = process.predict()
    wrong = np.sign(truth[i] - truth[j]) != np.sign(mean[i] - mean[j])
    return float(wrong.mean())


def test_one_random_clicker_among_three_spoils_less():
    plain, weighted, clicker = [], [], []
    for seed in range(6):
        truth, records = simulated(np.random.default_rng(seed), ["", "", "random"], 50)
        process = fitted_process(NO_FEATURES, records)
        found = care_of_raters(process, records)
        clicker.append(found[2])
        assert min(found[0], found[1]) > 0.9
        plain.append(error_of(_fit(NO_FEATURES, records, by_rater=False), truth))
        weighted.append(error_of(process, truth))
    assert np.median(clicker) < 0.1
    assert np.mean(weighted) < 0.9 * np.mean(plain)


def test_somebody_who_answers_the_wrong_way_round_does_not_count():
    _, records = simulated(np.random.default_rng(0), ["", "", "", "reversed"], 40)
    found = care(records)
    assert found[3] < 1e-6
    assert min(found[rater] for rater in range(3)) > 0.9


@pytest.mark.parametrize(
    ("raters", "n_answers"), [(["", "random"], 50), (["", "", "random"], 9), ([""], 50)]
)
def test_few_raters_or_answers_are_not_judged(raters, n_answers):
    _, records = simulated(np.random.default_rng(0), raters, n_answers)
    assert care(records) == {}


@pytest.mark.parametrize("seed", range(4))
def test_unless_most_follow_one_ranking_nobody_is_careless(seed):
    _, records = simulated(np.random.default_rng(seed), ["", "reversed", "random", "random"], 60)
    assert care(records) == {}
