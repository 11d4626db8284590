"""Recommendations from ratings: what a fitted factorisation promises."""

import signal
import warnings

import numpy as np
import pytest
from scipy.sparse import coo_array, coo_matrix, csc_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from typer.testing import CliRunner

import rankwise
from rankwise import (
    ERU,
    NDCG,
    WTA,
    ConvergenceWarning,
    InvalidInputError,
    NothingToLearnError,
    Queries,
    RankingFactorization,
)
from rankwise.apps.cli.app import app


def planted(seed=0, n_users=60, n_items=40, n_rated=20, noise=0.3):
    """Draw grades 0 to 4 that follow two factors and a bias; return training and test ratings."""
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    signal_ = U @ V.T + 0.3 * rng.normal(size=n_items) + noise * rng.normal(size=(n_users, n_items))
    grades = np.digitize(signal_, [-1.5, -0.5, 0.5, 1.5])
    shown = rng.random((n_users, n_items)).argsort(axis=1) < n_rated
    return as_ratings(grades, shown), as_ratings(grades, ~shown)


def as_ratings(grades, shown):
    users, items = np.nonzero(shown)
    return coo_array((grades[shown].astype(float), (users, items)), shape=grades.shape)


TRAIN, TEST = planted()


@pytest.fixture(scope="module")
def model():
    return RankingFactorization(2, random_state=0).fit(TRAIN)


# --- scikit-learn's conventions, as far as they do not fit dense arrays -------------------------


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
    ],
    ids=lambda check: check.__name__,
)
def test_parameters_follow_scikit_learn(check):
    check("RankingFactorization", RankingFactorization())


def test_fit_returns_the_model_and_leaves_its_parameters_alone():
    fresh = RankingFactorization(2, objective=NDCG @ 5, C=1.0, random_state=0)
    before = repr(fresh)
    assert fresh.fit(TRAIN) is fresh
    assert repr(fresh) == before
    assert repr(clone(fresh)) == before


def test_a_model_must_be_fitted_first(tmp_path):
    for use in (
        lambda m: m.predict(0),
        lambda m: m.recommend(0),
        lambda m: m.score(TEST),
        lambda m: m.fold_in(TRAIN),
        lambda m: m.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError):
            use(RankingFactorization())


# --- learning -------------------------------------------------------------------------------


MEASURES = {
    "NDCG": 3.0,
    "NDCG @ 5": 3.0,
    "DCG": 2.0,
    "Precision(relevant=3) @ 5": 4.0,
    "RR(relevant=4)": 12.0,
    "WTA": 20.0,
    "ERU": 3.0,
}


@pytest.mark.parametrize(("measure", "C"), MEASURES.items())
def test_every_measure_learns_and_never_raises_the_objective(measure, C):
    fitted = RankingFactorization(2, objective=measure, C=C, random_state=0).fit(TRAIN)
    assert np.all(np.diff(fitted.objective_values_) <= 0.0)
    assert fitted.objective_values_[-1] < 0.95 * fitted.objective_values_[0]
    assert len(fitted.objective_values_) == 1 + 2 * fitted.n_iter_
    agreed = clone(fitted).set_params(n_components=1)
    vars(agreed).update({**vars(fitted), "user_factors_": 0.0 * fitted.user_factors_})
    assert fitted.score(TRAIN) > agreed.score(TRAIN) + 0.02
    assert NDCG.overall(*held_out(fitted)) > NDCG.overall(*held_out(agreed)) + 0.02


def held_out(fitted):
    queries = Queries.from_qid(TEST.coords[0])
    return TEST.data, fitted.predict(*TEST.coords), queries


def test_scores_are_bias_plus_products(model):
    scores = model.item_bias_ + model.user_factors_ @ model.item_factors_.T
    users, items = TEST.coords
    np.testing.assert_allclose(model.predict(users, items), scores[users, items], atol=1e-12)
    np.testing.assert_allclose(model.predict([3, 1]), scores[[3, 1]], atol=1e-12)
    np.testing.assert_allclose(model.predict(2, [5, 7]), scores[2, [5, 7]], atol=1e-12)
    np.testing.assert_allclose(model.predict([[0], [1]], [[2, 3, 4]]), scores[:2, 2:5], atol=1e-12)


def test_score_is_the_mean_of_the_measure_over_users(model):
    users, items = TEST.coords
    values = [
        (NDCG @ 10).per_query(
            TEST.data[users == u], model.predict(u, items[users == u]), Queries.single(20)
        )[0]
        for u in range(60)
    ]
    np.testing.assert_allclose(model.score(TEST), np.mean(values), rtol=1e-12)


def test_the_same_seed_gives_the_same_model():
    fits = [RankingFactorization(2, random_state=s).fit(TRAIN).item_factors_ for s in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert np.any(fits[0] != fits[2])


@pytest.mark.parametrize("form", [coo_matrix, csr_array, csr_matrix, csc_array])
def test_every_sparse_format_gives_the_same_model(form, model):
    again = clone(model).fit(form(TRAIN))
    np.testing.assert_array_equal(again.item_factors_, model.item_factors_)


def test_unsorted_entries_give_the_same_model(model):
    order = np.random.default_rng(0).permutation(TRAIN.nnz)
    users, items = TRAIN.coords
    shuffled = coo_array((TRAIN.data[order], (users[order], items[order])), shape=TRAIN.shape)
    np.testing.assert_array_equal(clone(model).fit(shuffled).item_factors_, model.item_factors_)


def test_stored_zeros_are_ratings():
    assert (TRAIN.data == 0).any()
    fitted = RankingFactorization(2, random_state=0).fit(TRAIN)
    assert fitted.ratings_.nnz == TRAIN.nnz
    user = TRAIN.coords[0][np.argmax(TRAIN.data == 0)]
    item = TRAIN.coords[1][np.argmax(TRAIN.data == 0)]
    assert item not in fitted.recommend(user, n=40)
    without = csr_array(TRAIN)
    without.eliminate_zeros()
    assert np.any(clone(fitted).fit(without).item_factors_ != fitted.item_factors_)


def half_a_sweep(measure, **settings):
    """Stop after the first convex problem, solved to 1e-5: further on, rounding decides."""
    return RankingFactorization(
        2, objective=measure, tol=1e-6, progress=lambda _: True, random_state=0, **settings
    )


def test_what_a_user_adds_to_all_ratings_changes_nothing():
    lifted = csr_array(TRAIN)
    lifted.data -= np.repeat(np.arange(60.0), np.diff(lifted.indptr))
    fits = [half_a_sweep(WTA, C=20.0).fit(R) for R in (TRAIN, lifted)]
    np.testing.assert_allclose(fits[0].objective_values_, fits[1].objective_values_, rtol=1e-4)
    assert fits[0].objective_values_[1] < fits[0].objective_values_[0]


def test_negative_ratings_are_welcome_where_the_measure_has_a_neutral_vote():
    shifted = coo_array((TRAIN.data - 2.0, TRAIN.coords), shape=TRAIN.shape)
    fits = [
        half_a_sweep(ERU(neutral=neutral)).fit(R) for neutral, R in ((2.0, TRAIN), (0.0, shifted))
    ]
    np.testing.assert_allclose(fits[0].objective_values_, fits[1].objective_values_, rtol=1e-4)
    assert fits[0].objective_values_[1] < fits[0].objective_values_[0]
    with pytest.raises(InvalidInputError, match=r"not be negative for NDCG @ 10.*smallest is -2"):
        RankingFactorization(2).fit(shifted)


# --- users and items with little to say ----------------------------------------------------------


def test_users_without_a_preference_follow_the_bias():
    grades = np.array([[4, 3, 0, 1, 2], [3, 4, 1, 0, 2], [0, 1, 4, 3, 2]] * 4 + [[2] * 5] * 3)
    shown = np.ones(grades.shape, dtype=bool)
    shown[-2, 1:] = False  # one rating
    shown[-1] = False  # none
    fitted = RankingFactorization(1, C=5.0, random_state=0).fit(as_ratings(grades, shown))
    assert fitted.n_ignored_users_ == 3
    np.testing.assert_array_equal(fitted.user_factors_[-3:], 0.0)
    for user in (-3, -2, -1):
        np.testing.assert_array_equal(fitted.predict(len(grades) + user), fitted.item_bias_)
    assert fitted.recommend(len(grades) - 2).tolist() == [
        item for item in np.argsort(-fitted.item_bias_) if item != 0
    ]


def test_items_that_nobody_rated_score_nothing():
    wide = coo_array((TRAIN.data, TRAIN.coords), shape=(60, 43))
    fitted = RankingFactorization(2, random_state=0).fit(wide)
    np.testing.assert_array_equal(fitted.predict(range(60))[:, 40:], 0.0)


def test_nothing_can_be_learned_from_equal_ratings_or_none():
    for ratings in (
        coo_array(([3.0, 3.0], ([0, 0], [0, 1])), shape=(2, 3)),
        coo_array((2, 3)),
        coo_array(([1.0, 5.0], ([0, 1], [0, 1])), shape=(2, 3)),
    ):
        with pytest.raises(NothingToLearnError, match="must hold a user who prefers"):
            RankingFactorization(1).fit(ratings)


# --- recommending ---------------------------------------------------------------------------


def test_recommendations_are_the_best_items_that_were_not_rated(model):
    rated = TRAIN.coords[1][TRAIN.coords[0] == 5]
    scores = model.predict(5)
    order = np.argsort(-scores)
    expected = [item for item in order if item not in rated]
    assert model.recommend(5, n=7).tolist() == expected[:7]
    assert model.recommend(5, n=1000).tolist() == expected
    assert model.recommend(5, n=7, exclude_rated=False).tolist() == order[:7].tolist()


def test_new_users_are_folded_in_as_if_they_had_been_there(model):
    again = model.fold_in(TRAIN)
    assert again.score(TRAIN) > model.score(TRAIN) - 0.01
    np.testing.assert_array_equal(again.item_factors_, model.item_factors_)
    one = model.fold_in(csr_array(TRAIN)[[7]])
    np.testing.assert_allclose(one.user_factors_[0], again.user_factors_[7], atol=1e-12)
    assert one.recommend(0).tolist() == again.recommend(7).tolist()
    assert model.user_factors_.shape == (60, 2)


def test_new_users_profit_from_the_items_of_others():
    train, test = planted(3, n_users=90)
    rows, held = csr_array(train), csr_array(test)
    fitted = RankingFactorization(2, random_state=0).fit(rows[:60])
    strangers = fitted.fold_in(rows[60:])
    nobody = fitted.fold_in(csr_array((30, 40)))
    assert nobody.n_ignored_users_ == 30
    assert strangers.n_ignored_users_ == 0
    assert strangers.score(held[60:]) > nobody.score(held[60:]) + 0.02


# --- files ------------------------------------------------------------------------------------


def test_scores_come_back_from_a_file(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(range(60)), model.predict(range(60)))
    np.testing.assert_array_equal(loaded.recommend(4), model.recommend(4))
    np.testing.assert_array_equal(loaded.objective_values_, model.objective_values_)
    assert loaded.score(TEST) == model.score(TEST)
    np.testing.assert_array_equal(
        loaded.fold_in(TRAIN).user_factors_, model.fold_in(TRAIN).user_factors_
    )


def test_the_command_line_refuses_to_score_features_with_it(model, tmp_path):
    model.save(tmp_path / "model")
    (tmp_path / "items.txt").write_text("1 qid:1 1:0.5\n")
    result = CliRunner().invoke(app, ["predict", f"{tmp_path}/model", f"{tmp_path}/items.txt"])
    assert result.exit_code == 2
    assert "items.txt: expected a name that ends in one of .csv" in result.stderr
    explained = CliRunner().invoke(app, ["explain", f"{tmp_path}/model", f"{tmp_path}/items.txt"])
    assert "must hold a ranker of items with features" in " ".join(explained.stderr.split())


# --- ending early ----------------------------------------------------------------------------


def test_a_fit_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="Not converged after max_iter=1"):
        RankingFactorization(2, tol=1e-3, max_iter=1, random_state=0).fit(TRAIN)


def test_a_small_c_makes_the_factors_vanish_and_says_so():
    with pytest.warns(ConvergenceWarning, match="factors have vanished.*C=0.01 is too small"):
        fitted = RankingFactorization(2, C=0.01, random_state=0).fit(TRAIN)
    orders = {tuple(np.argsort(-scores)) for scores in fitted.predict(range(60))}
    assert len(orders) < 10


def test_a_fit_that_learned_nothing_says_so():
    with pytest.warns(ConvergenceWarning, match="Nothing was learned: with C=1 the objective"):
        RankingFactorization(2, objective=WTA, C=1.0, random_state=0).fit(TRAIN)


def test_ctrl_c_keeps_the_best_factors_so_far():
    def press(step):
        if step.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="Stopped by Ctrl-C after 2 iterations"):
        fitted = RankingFactorization(2, tol=1e-3, progress=press, random_state=0).fit(TRAIN)
    assert fitted.n_iter_ == 2
    assert fitted.objective_values_[-1] < fitted.objective_values_[0]


def test_a_callback_sees_each_half_step_and_can_stop():
    seen = []

    def stop(step):
        seen.append((step.iteration, step.label))
        return len(seen) == 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = RankingFactorization(2, progress=stop, random_state=0).fit(TRAIN)
    assert seen == [(1, "users"), (1, "items")]
    assert len(fitted.objective_values_) == 3


def test_progress_shows_the_objective(capsys):
    fitted = RankingFactorization(2, progress=True, random_state=0).fit(TRAIN)
    shown = capsys.readouterr().err
    assert f"objective {fitted.objective_values_[-1]:.6g}" in shown


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ratings", [np.ones((3, 3)), [[1, 2]], coo_array(np.ones(3))])
def test_ratings_must_be_sparse(ratings):
    with pytest.raises(InvalidInputError, match="must be a sparse matrix of SciPy"):
        RankingFactorization(1).fit(ratings)


@pytest.mark.parametrize("values", [[1.0, np.nan], [1.0, np.inf], [1.0, 2.0j]])
def test_ratings_must_be_finite_numbers(values):
    with pytest.raises(InvalidInputError, match="finite real numbers"):
        RankingFactorization(1).fit(coo_array((values, ([0, 1], [0, 1])), shape=(2, 2)))


def test_an_item_is_rated_once_by_a_user():
    twice = coo_array(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 2, 2])), shape=(2, 3))
    with pytest.raises(InvalidInputError, match="user 1 has several of item 2"):
        RankingFactorization(1).fit(twice)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "`n_components` must be a whole number above 0"),
        ({"n_components": 41}, "`n_components` must not exceed"),
        ({"C": -1.0}, "`C` must be a finite number above 0"),
        ({"C": "large"}, "`C` must be a finite number above 0 or 'scale': got 'large'"),
        ({"tol": 0.0}, "`tol` must be a finite number above 0"),
        ({"max_iter": 0}, "`max_iter` must be a whole number above 0"),
        ({"decay": -1.0}, "`decay` must be"),
        ({"objective": "KendallTau"}, "`objective` must add up gains times discounts"),
    ],
)
def test_parameters_must_make_sense(parameters, message):
    with pytest.raises(InvalidInputError, match=message):
        RankingFactorization().set_params(**parameters).fit(TRAIN)


def test_indices_must_be_rows_and_columns_of_the_ratings(model):
    for users in (60, -1, 0.5, "a"):
        with pytest.raises(InvalidInputError, match="`users` must be whole numbers from 0 to 59"):
            model.predict(users)
    with pytest.raises(InvalidInputError, match="`items` must be whole numbers from 0 to 39"):
        model.predict(0, [1, 40])
    with pytest.raises(InvalidInputError, match="`user` must be one row"):
        model.recommend([0, 1])
    with pytest.raises(InvalidInputError, match="`n` must be a whole number above 0"):
        model.recommend(0, n=0)


def test_other_ratings_must_fit_the_model(model):
    with pytest.raises(InvalidInputError, match="a column for each item of the fit"):
        model.fold_in(coo_array((5, 41)))
    with pytest.raises(InvalidInputError, match="a row for each user of the model.*fold_in"):
        model.score(coo_array((5, 40)))
