"""Scores of comparisons, and probabilities of answers from any ranker."""

import numpy as np
import pytest
from scipy.special import expit

from rankwise import (
    InvalidInputError,
    KPCRank,
    PairCalibration,
    RankRLS,
    RankSVM,
    evaluate_answers,
)


def comparisons(seed, n_pairs=3000):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    f = X @ [1.0, -0.5, 0.3]
    i = rng.integers(200, size=n_pairs)
    j = (i + 1 + rng.integers(199, size=n_pairs)) % 200
    won = rng.random(n_pairs) < expit(f[i] - f[j])
    return X, np.where(won[:, None], np.stack([i, j], 1), np.stack([j, i], 1))


@pytest.mark.parametrize("model", [RankRLS(), RankSVM(), KPCRank(n_components=3)], ids=repr)
def test_probabilities_are_calibrated(model):
    X, pairs = comparisons(0)
    ranker = model.fit(X, pairs=pairs)
    new, answers = comparisons(1)
    calibrated = PairCalibration.of(ranker, new, answers)
    other, later = comparisons(2)
    p = calibrated.predict_pair(other[later[:, 0]], other[later[:, 1]])
    found = evaluate_answers(p)
    assert found.decided_log_loss < 0.62
    gap = np.average(np.abs(found.predicted - found.observed), weights=found.weight)
    assert gap < 0.04
    assert ranker.score(other, pairs=later) == pytest.approx(1.0 - found.disagreement)


def test_scores_of_comparisons_count_ties_one_half_and_weights():
    ranker = RankRLS(alpha=1e-3).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    rows = [[0.0], [1.0], [1.0]]
    assert ranker.score(rows, pairs=[[1, 0], [0, 2], [1, 2]], pair_weight=[2, 1, 1]) == 0.625


def test_equal_scores_say_nothing():
    ranker = RankRLS().fit([[0.0], [1.0]], [0, 1])
    assert PairCalibration.of(ranker, [[1.0], [1.0]], [[0, 1]]).scale == 0.0


def test_bad_input_is_refused():
    ranker = RankRLS().fit([[0.0], [1.0]], [0, 1])
    two = RankRLS().fit([[0.0], [1.0]], [[0, 1], [1, 0]])
    with pytest.raises(InvalidInputError, match="got neither"):
        ranker.score([[0.0], [1.0]])
    with pytest.raises(InvalidInputError, match="single output: this one has 2"):
        PairCalibration.of(two, [[0.0], [1.0]], [[1, 0]])
    calibrated = PairCalibration.of(ranker, [[0.0], [1.0]], [[1, 0]])
    with pytest.raises(InvalidInputError, match="got 2 and 1"):
        calibrated.predict_pair([[0.0], [1.0]], [[0.0]])
