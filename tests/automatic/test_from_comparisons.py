"""AutoRanker from comparisons: chosen by held-out log-loss, in log-odds, one file."""

import numpy as np
import pandas as pd
import pytest

import rankwise
from rankwise import AutoRanker, FeatureScaler, InvalidInputError, PairCalibration, RankRLS
from rankwise.automatic import from_comparisons
from rankwise.automatic.from_comparisons import (
    PAIR_FAMILIES,
    folds_of_comparisons,
    net_wins,
    scales_of,
)
from rankwise.core.queries import TrainingData


def drawn(n_items=50, n_pairs=250, seed=0, strength=2.0):
    """Draw items, and answers with the odds of their differences."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, 3))
    f = strength * (X[:, 0] + np.abs(X[:, 1]))
    pairs = rng.integers(n_items, size=(2 * n_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n_pairs]
    first_wins = rng.random(len(pairs)) < 1.0 / (1.0 + np.exp(f[pairs[:, 1]] - f[pairs[:, 0]]))
    return X, np.where(first_wins[:, None], pairs, pairs[:, ::-1])


def log_loss(ranker, X, pairs):
    return -np.log(ranker.predict_pair(X[pairs[:, 0]], X[pairs[:, 1]])).mean()


@pytest.fixture(scope="module")
def chosen():
    X, pairs = drawn()
    return AutoRanker(time_budget=None, cv=3).fit(X, pairs=pairs)


def test_families_are_chosen_by_the_log_loss_of_held_out_comparisons(chosen):
    board = chosen.leaderboard_
    assert board.measure == "log-loss"
    assert {entry.name for entry in board.entries[1:]} == {f.name for f in PAIR_FAMILIES}
    values = [entry.value for entry in board.entries[1:]]
    assert values == sorted(values)
    assert all(value <= np.log(2.0) + 1e-9 for value in values)
    assert sum(entry.weight for entry in board.entries) == pytest.approx(1.0)
    honest = chosen.honest_value_
    assert honest.unit == "comparisons"
    assert honest.n_queries == 250
    assert honest.low < honest.value < honest.high
    assert "log-loss on 250 unseen comparisons" in chosen.report()


def test_the_honest_log_loss_is_that_of_new_answers_about_these_items(chosen):
    X, _ = drawn()
    _, others = drawn(n_pairs=2000, seed=0)
    found = log_loss(chosen, X, others[300:])
    assert abs(found - chosen.honest_value_.value) < 0.1
    assert found < 0.6
    assert chosen.best_feature_.name == "feature 0"


def test_probabilities_are_of_differences_of_scores_and_saved(chosen, tmp_path):
    X, _ = drawn(seed=3)
    scores = chosen.predict(X)
    expected = 1.0 / (1.0 + np.exp(scores[1] - scores[0]))
    assert chosen.predict_pair(X[:1], X[1:2])[0] == pytest.approx(expected)
    # items are scored by themselves
    assert not chosen.compares_items_
    np.testing.assert_allclose(chosen.predict(X[:1]), scores[:1], rtol=1e-9)
    chosen.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), scores)
    assert loaded.is_of_comparisons_


def test_answers_without_signal_are_worth_no_more_than_chance():
    X, pairs = drawn(strength=0.0)
    ranker = AutoRanker(time_budget=None, cv=3).fit(X, pairs=pairs)
    assert ranker.honest_value_.high > np.log(2.0)
    assert ranker.honest_value_.value < np.log(2.0) + 0.05


def test_comparisons_inside_queries_are_held_out_query_by_query():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(15), 4)
    X = rng.normal(size=(60, 2)) + 100.0 * qid[:, None]
    pairs = [(i, j) for i in range(60) for j in range(60)
             if qid[i] == qid[j] and X[i, 0] > X[j, 0]]  # fmt: skip
    ranker = AutoRanker(time_budget=1e-6, cv=3).fit(X, qid=qid, pairs=pairs)
    assert ranker.honest_value_.unit == "comparisons of unseen queries"
    assert ranker.honest_value_.value < 0.3
    assert ranker.needs_qid_
    with pytest.raises(InvalidInputError, match="without queries: this one compares"):
        ranker.predict_pair(X[:1], X[1:2])
    data = TrainingData.of(60, qid=qid, pairs=pairs)
    folds = folds_of_comparisons(data, 3, np.random.default_rng(0))
    for query in range(15):
        assert len(set(folds.fold[data.pair_queries == query])) == 1


def test_repeated_comparisons_are_held_out_together():
    data = TrainingData.of(4, pairs=[(0, 1), (1, 0), (2, 3), (0, 1), (1, 2)])
    fold = folds_of_comparisons(data, 3, np.random.default_rng(0)).fold
    assert fold[0] == fold[1] == fold[3]
    with pytest.raises(InvalidInputError, match="at least 2 pairs of items"):
        AutoRanker().fit(np.eye(2), pairs=[(0, 1), (1, 0)])


def test_categories_are_encoded_without_held_out_answers():
    data = TrainingData.of(4, pairs=[(0, 1), (0, 2), (3, 0)], pair_weight=[1.0, 2.0, 1.0])
    np.testing.assert_allclose(net_wins(data, np.ones(3, bool)), [0.5, -1.0, -1.0, 1.0])
    np.testing.assert_allclose(net_wins(data, np.array([True, False, False])), [1, -1, 0, 0])
    X, pairs = drawn()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = np.where(X[:, 0] > 0, "good", "poor")
    ranker = AutoRanker(time_budget=1e-6).fit(frame[["b", "kind"]], pairs=pairs)
    assert "kind" in ranker.best_feature_.name
    assert ranker.honest_value_.value < 0.6


def test_the_scale_of_one_family_is_that_of_calibration():
    X, pairs = drawn()
    ranker = RankRLS().fit(X, pairs=pairs)
    scores = ranker.predict(X)
    lead = scores[pairs[:, 0]] - scores[pairs[:, 1]]
    found = scales_of(lead[None], np.ones(len(pairs)))[0]
    assert found == pytest.approx(PairCalibration.of(ranker, X, pairs).scale, rel=1e-3)
    # a lead that says nothing has no weight, and one of no spread neither
    useless = np.stack([lead, -lead, np.zeros(len(lead))])
    np.testing.assert_array_equal(scales_of(useless, np.ones(len(pairs)))[1:], 0.0)


def test_what_does_not_suit_comparisons_is_said(monkeypatch):
    X, pairs = drawn()
    with pytest.raises(InvalidInputError, match="`time` must come with scores"):
        AutoRanker().fit(X, pairs=pairs, time=np.arange(len(X)))
    monkeypatch.setattr(from_comparisons, "LARGEST_PROCESS", (10, 10))
    ranker = AutoRanker(time_budget=None, cv=2, monotone={0: 1}).fit(X, pairs=pairs)
    notes = {entry.name: entry.note for entry in ranker.leaderboard_.entries if entry.note}
    assert "more than 10 items" in notes["PreferenceGP"] or "rise or fall" in notes["PreferenceGP"]
    assert set(notes) == {"PreferenceGP", "linear RankRLS", "Gaussian RankRLS", "RankSVM"}
    one = np.repeat(X[:1], 20, axis=0)
    one[:, 0] = np.linspace(-3.0, 3.0, 20)
    assert (np.diff(ranker.predict(one)) >= 0.0).all()


def test_a_callback_or_ctrl_c_keeps_the_best_so_far(monkeypatch):
    X, pairs = drawn()
    ranker = AutoRanker(cv=2, progress=lambda step: step.iteration == 2).fit(X, pairs=pairs)
    assert ranker.ending_reason_ == "callback"
    assert len(ranker.leaderboard_.entries) == 3

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(from_comparisons.RankSVM, "fit_path", interrupt)
    ranker = AutoRanker(cv=2, time_budget=None).fit(X, pairs=pairs)
    assert ranker.ending_reason_ == "interrupted"
    assert {entry.name for entry in ranker.leaderboard_.entries} == {
        "sum", "linear RankRLS", "RankRLS trees"}  # fmt: skip


def test_ctrl_c_in_the_last_fits_keeps_what_is_fitted(monkeypatch):
    X, pairs = drawn()
    fit, left = from_comparisons.PairFamily.fit, [1]

    def once(*given):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return fit(*given)

    monkeypatch.setattr(from_comparisons.PairFamily, "fit", once)
    ranker = AutoRanker(cv=2, time_budget=None).fit(X, pairs=pairs)
    assert ranker.ending_reason_ == "interrupted"
    assert len(ranker.members_) == 1
    assert ranker.predict(X).shape == (len(X),)


def test_features_are_scaled_as_in_training():
    X = np.array([[1.0, 5.0, np.nan], [3.0, 5.0, 2.0], [5.0, 5.0, 4.0]])
    scaler = FeatureScaler()
    found = scaler.fit_transform(X)
    np.testing.assert_allclose(found[:, 0], [-np.sqrt(1.5), 0.0, np.sqrt(1.5)])
    np.testing.assert_array_equal(found[:, 1], 0.0)
    assert np.isnan(found[0, 2])
    np.testing.assert_allclose(scaler.transform([[5.0, 6.0, 3.0]]), [[np.sqrt(1.5), 1.0, 0.0]])
