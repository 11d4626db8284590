"""Features that interact in who wins: trees of both items beside the process."""

import json
import pickle

import numpy as np
import pytest
from scipy.special import expit

from rankwise import InvalidInputError, PreferenceGP, load
from rankwise.comparisons.gp.interactions import NAME
from rankwise.rankers.scoring_function import scoring_function

pytest.importorskip("lightgbm")

RULE = 3.0


def battles(seed, n_rows, n_items=60):
    """Draw battles that the faster wins, whatever by, unless the other is far stronger."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, 3))
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    lead = RULE * np.sign(X[first, 0] - X[second, 0])
    lead *= np.where(X[first, 1] * X[second, 1] > -0.2, 1.0, -1.0)
    won = rng.random(n_rows) < expit(lead)
    return X, np.where(won[:, None], np.c_[first, second], np.c_[second, first])


def loss(gp, X, pairs):
    p = gp.predict_pair(X[pairs[:, 0]], X[pairs[:, 1]])
    return -np.mean(np.log(p if p.ndim == 1 else p[:, 0]))


@pytest.fixture(scope="module")
def data():
    X, pairs = battles(0, 1500)
    return X, pairs[:1000], pairs[1000:]


@pytest.fixture(scope="module")
def fitted(data):
    X, seen, _ = data
    return PreferenceGP(interactions="auto", random_state=0).fit(X, pairs=seen)


def test_trees_take_part_where_held_out_answers_become_likelier(data, fitted):
    X, seen, new = data
    found = fitted.interactions_
    assert found.trees is not None
    assert found.together < found.alone
    alone = PreferenceGP(random_state=0).fit(X, pairs=seen)
    assert alone.interactions_ is None
    assert loss(fitted, X, new) < loss(alone, X, new) - 0.1
    (effect,) = fitted.effects_
    assert effect.name == NAME
    assert 0.0 < effect.low < effect.value < effect.high
    assert "boosted trees of differences of features take part" in str(found)
    assert fitted.leaderboard(random_state=0).reading_ == (str(found),)


def test_no_trees_where_scores_say_it_all():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(1000)])
    first, second = pairs.T
    won = rng.random(1000) < expit((X[first] - X[second]) @ [1.0, 1.0])
    pairs = np.where(won[:, None], pairs, pairs[:, ::-1])
    gp = PreferenceGP(interactions="auto", random_state=0).fit(X, pairs=pairs)
    assert gp.interactions_.trees is None
    assert "take no part" in str(gp.interactions_)
    plain = PreferenceGP(random_state=0).fit(X, pairs=pairs)
    np.testing.assert_array_equal(gp.predict(X), plain.predict(X))


def test_the_probabilities_of_both_orders_add_up_to_one(data, fitted):
    X, first, second = data[0], np.arange(30), np.arange(30, 60)
    one = fitted.predict_pair(X[first], X[second])
    other = fitted.predict_pair(X[second], X[first])
    np.testing.assert_allclose(one + other, 1.0, rtol=1e-9)
    trees = fitted.interactions_.trees
    np.testing.assert_array_equal(trees.lead(X[first], X[second]), -trees.lead(X[second], X[first]))


def test_scores_have_the_mean_lead_of_an_item(data, fitted):
    X, (effect,), trees = data[0], fitted.effects_, fitted.interactions_.trees
    rows, column = fitted._rows_to_compare(None), fitted._model.columns(type(fitted.terms_[1]))
    rows[:, column] = 0.0
    without = fitted.process_.mean(rows)
    expected = without + effect.value * trees.mean_lead(X)
    np.testing.assert_allclose(fitted.predict(), expected, atol=1e-8)
    np.testing.assert_allclose(fitted.predict(X), expected, atol=1e-8)
    np.testing.assert_allclose(fitted.predict(X[:5]), expected[:5], atol=1e-8)
    assert fitted.suggest(random_state=0).shape == (1, 2)


def test_trees_are_kept_in_files_and_copies(data, fitted, tmp_path):
    X, _, new = data
    fitted.save(tmp_path / "battles.rankwise")
    for other in (load(tmp_path / "battles.rankwise"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict(X), fitted.predict(X))
        assert loss(other, X, new) == loss(fitted, X, new)
        assert json.dumps(other.interactions_.to_dict())


def test_new_answers_count_and_none_is_forgotten(data, fitted):
    X = data[0]
    other = pickle.loads(pickle.dumps(fitted))
    a, b = X[:1], X[1:2]
    before = other.predict_pair(a, b)
    other.update([[1, 0]] * 20)
    assert other.predict_pair(a, b) < before
    with pytest.raises(InvalidInputError, match="`forget` must be called without `interactions`"):
        other.forget([[1, 0]])


def test_ties_names_weights_and_covariates_come_along(data):
    X, seen, new = data
    names = np.array([f"i{k}" for k in range(len(X))])
    table = {
        "a": names[seen[:, 0]],
        "b": names[seen[:, 1]],
        "winner": np.where(np.arange(len(seen)) % 7 == 0, "tie", "a"),
        "count": np.full(len(seen), 2),
        "judge": np.where(np.arange(len(seen)) % 2 == 0, "x", "y"),
    }
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, index=names, columns=list("uvw"))
    gp = PreferenceGP(interactions=True, random_state=0).fit(frame, pairs=table, first=True)
    assert [one.name for one in gp.effects_] == ["first", NAME]
    assert np.isnan(gp.interactions_.alone)
    p = gp.predict_pair(names[new[:, 0]], names[new[:, 1]])
    assert p.shape == (len(new), 3)
    decided = p[:, 0] / (p[:, 0] + p[:, 2])
    assert -np.mean(np.log(decided)) < 0.45
    gp.update({"a": ["i0"], "b": ["i1"], "winner": ["b"], "judge": ["x"]})


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        ({}, {"X": [[0.0], [1.0]], "y": [0, 1]}, "must come with comparisons"),
        ({}, {"pairs": [("x", "y")]}, "items that have features: got names alone"),
        ({"likelihood": "gaussian"}, {}, "answers that say who won: got likelihood='gaussian'"),
        ({"intransitive": True}, {}, "does not change: got intransitive. Leave one of them out"),
    ],
)
def test_what_trees_need(options, fit, message):
    fit = fit or {"X": [[0.0], [1.0]], "pairs": [[0, 1]]}
    with pytest.raises(InvalidInputError, match=message):
        PreferenceGP(interactions=True, **options).fit(**fit)
    if not options:
        assert PreferenceGP(interactions="auto").fit(**fit).interactions_ is None


def test_trees_have_no_formula(fitted):
    with pytest.raises(InvalidInputError, match="needs a process without trees of pairs"):
        scoring_function(fitted)


def test_all_ties_decide_nothing(data):
    X, seen, _ = data
    tied = np.vstack([seen[:3]] * 100)
    gp = PreferenceGP(interactions="auto", random_state=0).fit(X, pairs=seen[:0], tied=tied)
    assert gp.interactions_.trees is None
