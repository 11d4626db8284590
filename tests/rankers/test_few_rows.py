"""The rows of one query, scored without a second look, against the same rows given otherwise."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from rankwise import (
    DORM,
    Gaussian,
    InvalidInputError,
    KPCRank,
    LinearRankRLS,
    NumericalError,
    RankRLS,
    RankSVM,
    SearchRanker,
)
from rankwise.io import RankedItems

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6))
QID = np.repeat(np.arange(30), 10)
Y = np.clip(np.round(X @ RNG.normal(size=6) + RNG.normal(size=300)), 0.0, 3.0)
NEW = RNG.normal(size=(20, 6))
ONE = np.zeros(20, dtype=int)

RANKERS = [
    RankRLS(),
    LinearRankRLS(),
    RankSVM(),
    DORM(),
    RankRLS(kernel=Gaussian(0.1)),
    RankRLS(kernel=Gaussian(0.1), basis=50),
    KPCRank(n_components=4, kernel=Gaussian(0.1)),
    SearchRanker(basis=50),
]


@pytest.fixture(
    scope="module", params=RANKERS, ids=lambda r: f"{type(r).__name__}-{RANKERS.index(r)}"
)
def ranker(request):
    return request.param.fit(X, Y, QID)


def size_of(ranker, rows):
    """Return how large the parts of a linear score are, or 1 for scores of a kernel."""
    coef = getattr(ranker, "coef_", None)
    return 1.0 + (0.0 if coef is None else np.abs(rows).max() * np.abs(coef).sum())


OTHERWISE = {
    "list": lambda rows: rows.tolist(),
    "by columns": np.asfortranarray,
    "other byte order": lambda rows: rows.astype(">f8"),
    "objects": lambda rows: rows.astype(object),
    "among others": lambda rows: np.repeat(rows, 2, axis=0)[::2],
}


@pytest.mark.parametrize("form", OTHERWISE)
def test_scores_do_not_depend_on_how_rows_are_given(ranker, form):
    right = ranker.predict(NEW, qid=ONE)
    found = ranker.predict(OTHERWISE[form](NEW), qid=ONE)
    dual = getattr(ranker, "dual_coef_", np.ones(1))
    if isinstance(ranker, SearchRanker):
        dual = np.concatenate([member.steps_[-1].dual_coef_ for member in ranker.members_])
    bound = 1e-13 * (size_of(ranker, NEW) + np.abs(dual).sum())
    np.testing.assert_allclose(found, right, rtol=0.0, atol=bound)


def test_equal_rows_have_equal_scores_wherever_they_stand(ranker):
    rows = np.concatenate([NEW[:7], NEW[:7], NEW[:6]])
    scores = ranker.predict(rows, qid=ONE)
    np.testing.assert_array_equal(scores[:7], scores[7:14])
    np.testing.assert_array_equal(scores[:6], scores[14:])


def spoiled(value):
    rows = NEW.copy()
    rows[3, 2] = value
    return rows


@pytest.mark.parametrize("many", [1, 2000])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (spoiled(np.inf), "infinity"),
        (spoiled(-np.inf), "infinity"),
        (NEW[:, :5], "expecting 6 features"),
        (NEW[0], "Expected 2D array"),
        (NEW + 1j, "Complex data"),
        (NEW[:0], "0 sample"),
    ],
)
def test_a_few_bad_rows_are_refused_as_many_are(ranker, rows, message, many):
    if rows.ndim == 2:
        rows = np.tile(rows, (many, 1))
    with pytest.raises(ValueError, match=message):
        ranker.predict(rows, qid=np.zeros(len(rows), dtype=int))


def test_blanks_are_refused_where_nothing_fills_them(ranker):
    if isinstance(ranker, SearchRanker):
        assert np.isfinite(ranker.predict(spoiled(np.nan), qid=ONE)).all()
        return
    with pytest.raises(ValueError, match="NaN"):
        ranker.predict(spoiled(np.nan))


def test_frames_with_other_columns_are_refused():
    names = [f"f{j}" for j in range(6)]
    ranker = RankRLS().fit(pd.DataFrame(X, columns=names), Y, QID)
    frame = pd.DataFrame(NEW, columns=names)
    np.testing.assert_array_equal(ranker.predict(frame[names[::-1]]), ranker.predict(frame))
    with pytest.raises(ValueError, match="f5"):
        ranker.predict(frame[names[:5]])
    with pytest.warns(UserWarning, match="valid feature names"):
        ranker.predict(NEW)


def test_a_few_scores_beyond_all_doubles_are_refused_without_a_warning():
    ranker = RankRLS().fit(X, Y, QID)
    ranker.coef_ = np.full(6, 1e300)
    with pytest.raises(NumericalError, match="exceed the range of double precision"):
        ranker.predict(np.full((20, 6), 1e100))
    ranker.coef_ = np.array([1e300, -1e300, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(NumericalError, match="exceed the range of double precision"):
        ranker.predict(np.full((20, 6), 1e100))


@pytest.mark.parametrize("weights", [np.arange(6), np.arange(12.0)[::2], np.ones(6, np.float32)])
def test_weights_that_were_replaced_are_used_whatever_their_type(weights):
    ranker = RankRLS().fit(X, Y, QID)
    ranker.coef_ = weights
    np.testing.assert_allclose(ranker.predict(NEW), NEW @ weights, rtol=0.0, atol=1e-12)


def test_sparse_and_single_rows_are_scored_as_dense_ones():
    ranker = RankRLS().fit(X, Y, QID)
    right = ranker.predict(NEW)
    np.testing.assert_allclose(ranker.predict(csr_array(NEW)), right, atol=1e-12)
    np.testing.assert_allclose(ranker.predict(NEW.astype(np.float32)), right, atol=1e-4)
    assert all(abs(ranker.predict(NEW[i : i + 1])[0] - right[i]) == 0.0 for i in range(20))


def test_a_ranker_that_has_scored_rows_is_pickled_as_one_that_has_not(ranker):
    fresh = pickle.loads(pickle.dumps(ranker))
    before = pickle.dumps(fresh)
    fresh.predict(NEW, qid=ONE)
    assert pickle.dumps(fresh) == before


@pytest.mark.parametrize("k", [None, 1, 3, 50])
@pytest.mark.parametrize("qid", [None, ONE, ONE + 7, np.arange(20) % 3, np.arange(20) // 7])
def test_rows_are_ranked_as_scores_are(ranker, qid, k):
    if qid is None and ranker.fitted_with_qid_:
        with pytest.raises(InvalidInputError, match="must be given `qid`"):
            ranker.rank(NEW, k=k)
        return
    rows = np.round(NEW, 0)  # of which some have the same score
    scores = ranker.predict(rows, qid=qid)
    right = RankedItems.of(scores, qid).in_order(k).rows
    np.testing.assert_array_equal(ranker.rank(rows, qid=qid, k=k), right)
