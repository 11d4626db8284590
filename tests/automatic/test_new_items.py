"""Items that stand in several queries are said, and held out everywhere at once if wanted."""

import numpy as np
import pandas as pd
import pytest

from rankwise import AutoRanker, InvalidInputError, evaluate
from rankwise.automatic.families import Trial
from rankwise.automatic.new_items import (
    LEAST_KEPT,
    NewItems,
    items_of_rows,
    joined_groups,
    repeated_share,
)
from rankwise.core.queries import Queries, TrainingData
from rankwise.selection.holdouts import Folds

MEASURE = "NDCG @ 5"


def repeated(n_queries, n_items, seed=0, size=8):
    """Draw queries from a stock of items, whose grades a model can only know again."""
    rng = np.random.default_rng(seed)
    stock, grade = rng.normal(size=(n_items, 8)), rng.integers(3, size=n_items)
    item = np.concatenate([rng.choice(n_items, size, replace=False) for _ in range(n_queries)])
    qid = np.repeat(np.arange(n_queries), size)
    return stock[item], grade[item].astype(float), qid, item


def draw(n_folds, seed=0):
    return lambda groups, _: Folds.random(n_folds, groups, np.random.default_rng(seed))


@pytest.mark.parametrize("with_text", [False, True])
def test_rows_are_the_same_item_if_what_differs_inside_queries_is_equal(with_text):
    X, _, qid, item = repeated(30, 40)
    queries = Queries.of(qid, len(qid))
    rows = np.column_stack([X, 1.0 * qid])  # the last feature is one of queries
    if with_text:
        rows = rows.astype(object)
        rows[:, 0] = np.array([f"text {k}" for k in item % 7], dtype=object)
        rows[:, 1][item == 3] = None
    found = items_of_rows(rows, queries)
    same = found[:, None] == found
    np.testing.assert_array_equal(same, item[:, None] == item)
    counts = np.array([len(set(qid[item == k])) for k in item])
    assert repeated_share(found, queries.index) == pytest.approx(np.mean(counts > 1))


def test_signs_of_zero_are_equal_blanks_are_equal_and_features_of_queries_are_no_items():
    queries = Queries.of([0, 0, 1, 1], 4)
    rows = np.array([[0.0, np.nan], [1.0, 2.0], [-0.0, -np.nan], [3.0, 2.0]])
    assert items_of_rows(rows, queries).tolist()[0] == items_of_rows(rows, queries).tolist()[2]
    of_queries = np.array([[1.0], [1.0], [2.0], [2.0]])
    assert items_of_rows(of_queries, queries).tolist() == [-1] * 4


def test_groups_that_share_an_item_are_one():
    item = np.array([0, 1, 1, 2, -1, 3, -1, 2])
    group = np.array([0, 0, 1, 2, 3, 3, 2, 4])
    assert joined_groups(item, group).tolist() == [0, 0, 0, 1, 2, 2, 1, 1]


def test_nothing_is_learned_from_what_is_held_out():
    rng = np.random.default_rng(0)
    group, apart = np.repeat(np.arange(30), 5), rng.integers(-1, 60, size=150)
    date = rng.permutation(30)[group].astype(float)
    kinds = [Folds.random(5, group, rng), Folds.forward(3, group, date),
             Folds.at_once(0.1, group, rng)]  # fmt: skip
    for whole in kinds:
        folds = Folds(whole.fold, whole.n_folds, whole.is_forward, whole.is_at_once, apart)
        assert not folds.is_cyclic
        for (kept, out), (all_kept, same_out) in zip(folds.rounds, whole.rounds, strict=True):
            np.testing.assert_array_equal(out, same_out)
            held = set(apart[out]) - {-1}
            assert kept.tolist() == [k for k in all_kept if apart[k] not in held]


def test_queries_of_one_user_are_held_out_together():
    user, qid = np.repeat(np.arange(12), 20), np.repeat(np.arange(48), 5)
    data = TrainingData.of(240, np.zeros(240), qid)
    folds, new = NewItems.of_values(user, data).folds(qid, draw(4))
    assert new == "of new groups"
    assert folds.is_cyclic
    assert all(len(set(folds.fold[user == k])) == 1 for k in range(12))
    # what stands once shares nothing: blanks, and the queries themselves
    for values in (np.full(240, None, dtype=object), qid, np.full(240, np.nan)):
        folds, new = NewItems.of_values(values, data).folds(qid, draw(4))
        assert new == ""
        np.testing.assert_array_equal(folds.fold, draw(4)(qid, False).fold)


def test_the_honest_value_is_that_of_new_items():
    X, y, qid, item = repeated(60, 200)
    ranker = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid, folds_by=True)
    fresh = repeated(300, 2000, seed=1)
    scores = ranker.predict(fresh[0], qid=fresh[2])
    chance = evaluate(fresh[1], scores, fresh[2], MEASURE).mean[0]
    honest = ranker.honest_value_
    assert honest.low < chance < honest.high
    assert honest.unit == "queries of new items"
    assert "Nothing was learned from what is named as new" in ranker.report()
    by_name = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid, folds_by=item)
    assert by_name.honest_value_.value == honest.value
    assert by_name.honest_value_.unit == "queries of new groups"


def test_by_default_new_queries_may_hold_known_items():
    X, y, qid, _ = repeated(60, 200)
    ranker = AutoRanker(MEASURE, time_budget=None).fit(X, y, qid=qid)
    honest = ranker.honest_value_
    assert honest.unit == "queries"
    again = repeated(300, 200)  # other queries from the same stock
    new = again[2] >= 60
    scores = ranker.predict(again[0][new], qid=again[2][new])
    known = evaluate(again[1][new], scores, again[2][new], MEASURE).mean[0]
    assert honest.low < known < honest.high
    assert "of the rows stand in several queries: the values are those of" in ranker.report()


def test_where_all_items_are_in_all_queries_nothing_is_left_to_learn_from():
    X, y, qid, item = repeated(60, 20)
    ranker = AutoRanker(MEASURE, time_budget=1e-6).fit(X, y, qid=qid)
    assert ranker.repeated_share_ > 0.99
    for named in (item, True):
        with pytest.raises(InvalidInputError, match=f"leave at least {LEAST_KEPT:.0%} of the"):
            AutoRanker(MEASURE, time_budget=1e-6).fit(X, y, qid=qid, folds_by=named)


def test_text_is_encoded_without_held_out_items():
    X, y, qid, item = repeated(60, 200)
    table = np.column_stack([X.astype(object), np.array([f"name {k}" for k in item], object)])
    ranker = AutoRanker(MEASURE, time_budget=None).fit(table, y, qid=qid, folds_by=True)
    fresh = repeated(300, 2000, seed=1)
    names = np.array([f"other {k}" for k in fresh[3]], object)
    scores = ranker.predict(np.column_stack([fresh[0].astype(object), names]), qid=fresh[2])
    chance = evaluate(fresh[1], scores, fresh[2], MEASURE).mean[0]
    assert ranker.honest_value_.low < chance < ranker.honest_value_.high


def test_a_column_of_a_frame_is_named_and_no_feature(tmp_path):
    X, y, qid, item = repeated(60, 200)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)]).assign(user=qid // 3, q=qid, y=y)
    ranker = AutoRanker(MEASURE, time_budget=1e-6)
    ranker.fit(frame, "y", qid="q", folds_by="user")
    assert "user" not in ranker.feature_names_in_
    assert ranker.honest_value_.unit == "queries of new groups"
    known = AutoRanker(MEASURE, time_budget=1e-6).fit(frame, "y", qid="q", folds_by="q")
    assert known.honest_value_.unit == "queries"
    with pytest.raises(InvalidInputError, match="`folds_by`"):
        AutoRanker().fit(X, y, qid=qid, folds_by=item[:-1])
    with pytest.raises(InvalidInputError, match="`folds_by` must come with scores"):
        AutoRanker().fit(X, pairs=[(0, 1), (2, 3)], folds_by=item)


def test_items_of_one_ranking_are_held_out_with_their_group():
    X, y, _, _ = repeated(20, 400)
    patient = np.arange(len(y)) // 4
    ranker = AutoRanker("Concordance", time_budget=1e-6)
    seen = []
    trial_of = Trial.__init__

    def keep(self, *args, **kwargs):
        trial_of(self, *args, **kwargs)
        seen.append(self.folds.fold)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "__init__", keep)
        ranker.fit(X, y, folds_by=patient)
    assert all(len(set(seen[0][patient == k])) == 1 for k in range(patient.max() + 1))
