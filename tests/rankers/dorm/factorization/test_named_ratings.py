"""Recommendations by name, from frames: what a recommender engineer gets without a matrix."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import rankwise
from rankwise import (
    DataFileError,
    InvalidInputError,
    LeftOutWarning,
    NothingToLearnError,
    RankingFactorization,
)
from rankwise.io.ratings import RatingTable, positions_among
from rankwise.io.tables.reading import write_table
from rankwise.rankers.base import generator
from rankwise.rankers.dorm.factorization.held_out import split_ratings, with_unseen

RNG = np.random.default_rng(0)
N_USERS, N_ITEMS = 40, 25
TASTE, KIND = RNG.normal(size=(N_USERS, 2)), RNG.normal(size=(N_ITEMS, 2))
STARS = np.digitize(TASTE @ KIND.T + 0.3 * RNG.normal(size=(N_USERS, N_ITEMS)), [-1.5, 0, 1, 2])
SHOWN = RNG.random(STARS.shape) < 0.6
USERS, ITEMS = np.nonzero(SHOWN)
VALUES = STARS[USERS, ITEMS].astype(float)


def frame(**changes):
    columns = {"userId": USERS + 1, "movieId": 10 * ITEMS, "rating": VALUES, **changes}
    return pd.DataFrame(columns)


def fitted(ratings, **options):
    return RankingFactorization(2, random_state=0).fit(ratings, **options)


MODEL = fitted(frame())
MATRIX = fitted(csr_array((VALUES, (USERS, ITEMS)), shape=STARS.shape))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, pl.LazyFrame])
def test_every_kind_of_frame_gives_the_model_of_the_matrix(kind):
    given = frame().sample(frac=1.0, random_state=0)
    model = fitted(kind({name: given[name].to_numpy() for name in given.columns}))
    np.testing.assert_array_equal(model.user_factors_, MATRIX.user_factors_)
    np.testing.assert_array_equal(model.users_, np.arange(1, N_USERS + 1))
    expected = [10 * item for item in MATRIX.recommend(6, 5)]
    assert model.recommend(7, n=5).tolist() == expected


def test_names_stay_names_and_survive_a_file(tmp_path):
    names = frame(userId=[f"u{u}" for u in USERS], movieId=[f"i{i}" for i in ITEMS])
    model = RankingFactorization(2, random_state=0, held_out=0.3).fit(names)
    assert set(model.recommend("u7", n=3)) <= {f"i{i}" for i in np.flatnonzero(~SHOWN[7])}
    model.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert loaded.recommend("u7").tolist() == model.recommend("u7").tolist()
    assert loaded.similar_items("i3").tolist() == model.similar_items("i3").tolist()
    assert loaded.honest_value_ == model.honest_value_
    assert loaded.rating_columns_ == {"user": "userId", "item": "movieId", "rating": "rating"}


def test_columns_may_have_any_name():
    other = frame().set_axis(["who", "what", "how much"], axis=1)
    model = fitted(other, user="who", item="what", rating="how much")
    np.testing.assert_array_equal(model.user_factors_, MATRIX.user_factors_)
    assert model.score(other) == MATRIX.score(csr_array((VALUES, (USERS, ITEMS))))


def test_of_two_ratings_the_later_counts():
    old = frame(rating=5 - VALUES, timestamp=1.0)
    new = frame(timestamp=2.0)
    model = fitted(pd.concat([new, old]))
    np.testing.assert_array_equal(model.user_factors_, MATRIX.user_factors_)


def test_predictions_for_a_frame_are_those_for_its_names():
    np.testing.assert_allclose(MODEL.predict(frame()), MODEL.predict(USERS + 1, 10 * ITEMS))
    strange = pd.DataFrame({"userId": [999, 999, 1], "movieId": [10, 77, 77]})
    assert MODEL.predict(strange).tolist() == [MODEL.item_bias_[1], 0.0, 0.0]


def test_similar_items_have_the_largest_cosines():
    V = MODEL.item_factors_ / np.linalg.norm(MODEL.item_factors_, axis=1, keepdims=True)
    cosines = V @ V[4]
    cosines[4] = -np.inf
    expected = 10 * np.argsort(-cosines)[:6]
    np.testing.assert_array_equal(MODEL.similar_items(40, n=6), expected)


def test_new_users_are_folded_in_from_what_they_say():
    rated = zip(ITEMS[USERS == 3], VALUES[USERS == 3], strict=True)
    values = {int(10 * i): float(v) for i, v in rated}
    mapped = MODEL.fold_in(values)
    table = pd.DataFrame({"userId": "new", "movieId": list(values), "rating": values.values()})
    framed = MODEL.fold_in(table)
    assert framed.users_.tolist() == ["new"]
    np.testing.assert_array_equal(mapped.user_factors_, framed.user_factors_)
    known = MODEL.fold_in(frame()[USERS == 3])
    np.testing.assert_array_equal(mapped.user_factors_, known.user_factors_)
    assert not set(mapped.recommend(0, n=20)) & set(values)


def test_what_the_model_does_not_know_is_left_out_with_a_warning():
    more = pd.concat([frame(), pd.DataFrame({"userId": [1], "movieId": [999], "rating": [5.0]})])
    with pytest.warns(LeftOutWarning, match="1 of .* ratings are about users or items"):
        assert MODEL.score(more) == MODEL.score(frame())
    with pytest.warns(LeftOutWarning, match="1 of"):
        MODEL.fold_in(more)


# --- the value on ratings set aside ---------------------------------------------------------


def test_holding_out_changes_no_model_and_equals_a_split_by_hand():
    R = csr_array((VALUES, (USERS, ITEMS)), shape=STARS.shape)
    model = RankingFactorization(2, random_state=0, held_out=0.3).fit(R)
    np.testing.assert_array_equal(model.user_factors_, MATRIX.user_factors_)
    learned, aside = split_ratings(R, 0.3, generator(0))
    inner = fitted(learned)
    values = []
    for user in range(N_USERS):
        mine = slice(*aside.indptr[user : user + 2])
        given = aside.data[mine]
        if len(set(given)) > 1:  # one order is better than another
            scores = inner.predict(user, aside.indices[mine])
            measured = rankwise.evaluate(given, scores, measures="NDCG @ 10")
            values.append(measured["NDCG @ 10"])
    honest = model.honest_value_
    assert honest.n_queries == len(values)
    assert honest.value == pytest.approx(np.mean(values), rel=1e-12)
    assert honest.low < honest.value < honest.high
    assert str(honest).startswith(f"NDCG @ 10 on unseen ratings of {len(values)} users: 0.")


def test_a_split_takes_its_share_of_every_user():
    R = csr_array((VALUES, (USERS, ITEMS)), shape=STARS.shape)
    learned, aside = split_ratings(R, 0.25, np.random.default_rng(0))
    sizes = np.diff(R.indptr)
    np.testing.assert_array_equal(np.diff(aside.indptr), np.round(0.25 * sizes))
    np.testing.assert_array_equal((learned + aside).toarray(), R.toarray())


def test_too_few_ratings_have_no_honest_value():
    few = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1], "rating": [5, 1, 1, 5]})
    model = RankingFactorization(1, C=10.0, held_out=0.2, random_state=0).fit(few)
    assert model.honest_value_.n_queries == 0
    assert "unknown" in str(model.honest_value_)


# --- choices without ratings ----------------------------------------------------------------

BOUGHT = STARS[USERS, ITEMS] >= 3


def purchases():
    return frame().loc[BOUGHT, ["userId", "movieId"]]


def test_choices_rank_what_is_chosen_later_above_the_common_order():
    model = RankingFactorization(2, held_out=0.3, random_state=0).fit(purchases())
    assert model.is_implicit_
    everyone = np.bincount(ITEMS[BOUGHT], minlength=N_ITEMS)
    R = csr_array((np.ones(BOUGHT.sum()), (USERS[BOUGHT], ITEMS[BOUGHT])), shape=STARS.shape)
    learned, aside = split_ratings(R, 0.3, generator(0))
    unseen = learned.toarray() == 0
    common = np.broadcast_to(everyone, unseen.shape)
    users = np.nonzero(unseen)[0]
    popular = rankwise.evaluate(aside.toarray()[unseen], common[unseen], users, "NDCG @ 10")
    assert model.honest_value_.value > popular["NDCG @ 10"]
    bought = set(model.fold_in({0: 1, 10: 1}).recommend(0, n=N_ITEMS))
    assert not bought & {0, 10}


def test_counts_are_sums_of_rows():
    rows = purchases()
    counts = rows.assign(plays=3)
    three = pd.concat([rows, rows, rows])
    np.testing.assert_array_equal(fitted(counts).user_factors_, fitted(three).user_factors_)
    np.testing.assert_array_equal(np.unique(fitted(three).ratings_.data), [2.0])
    named = rows.assign(rating=1.0, listened=3)
    model = fitted(named, count="listened")
    np.testing.assert_array_equal(model.user_factors_, fitted(three).user_factors_)


def test_unseen_items_are_drawn_beside_the_chosen_ones():
    R = csr_array((np.ones(BOUGHT.sum()), (USERS[BOUGHT], ITEMS[BOUGHT])), shape=STARS.shape)
    shown = with_unseen(R, np.random.default_rng(0))
    dense = shown.toarray()
    np.testing.assert_array_equal(dense, R.toarray())
    assert np.all(np.diff(shown.indptr) >= np.diff(R.indptr))
    assert np.count_nonzero(shown.data == 0.0) > R.nnz
    assert all(np.all(np.diff(part) > 0) for part in np.split(shown.indices, shown.indptr[1:-1]))


# --- errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: MODEL.recommend(999), "`user` must be known to the model: got 999.*fold in"),
        (lambda: MODEL.recommend([1, 2]), "must be one row"),
        (lambda: MODEL.similar_items("x"), "`item` must be known to the model: got x"),
        (lambda: MODEL.similar_items([10, 20]), "must be one item"),
        (lambda: MODEL.fold_in({"nothing": 3}), "`ratings` must be known to the model"),
        (lambda: fitted(frame().drop(columns="userId")), "must have a column of users"),
        (lambda: fitted(frame().drop(columns="movieId")), "must have a column of items"),
        (lambda: fitted(frame(), rating="rating", count="rating"), "Only one of `rating`"),
        (lambda: fitted(frame(), user="usrid"), "Did you mean 'userId'"),
        (lambda: fitted(STARS, user="x"), "must be a data frame if `user` names a column"),
        (lambda: fitted(pd.concat([frame(), frame()])), "got several by 1 of"),
        (lambda: fitted(frame(plays=-1.0).drop(columns="rating")), "Counts must not be negative"),
    ],
)
def test_what_makes_no_sense_is_refused(use, message):
    with pytest.raises(InvalidInputError, match=message):
        use()


def test_equal_ratings_point_to_choices():
    with pytest.raises(NothingToLearnError, match="give them without ratings"):
        fitted(frame(rating=1.0))


def test_files_of_other_columns_are_refused(tmp_path):
    write_table(tmp_path / "a.csv", {"user": [1], "item": [2], "rating": [3]})
    write_table(tmp_path / "b.csv", {"user": [1], "item": [2], "stars": [3]})
    with pytest.raises(DataFileError, match="must have the same columns"):
        RatingTable.of_files([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_names_are_found_whatever_their_type():
    whole, text = np.array([-3, 5, 70]), np.array(["5", "70", "ann"])
    assert positions_among([70, 6, -3], whole).tolist() == [2, -1, 0]
    assert positions_among(["70", "x", "-3"], whole).tolist() == [2, -1, 0]
    assert positions_among([5.0, 70.0], whole).tolist() == [1, 2]
    assert positions_among(["annabel", "ann", "5"], text).tolist() == [-1, 2, 0]
    assert positions_among(70, text).tolist() == 1
    assert positions_among(["a"], np.array([], dtype=int)).tolist() == [-1]
