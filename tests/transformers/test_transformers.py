"""Features inside queries: against the obvious loops, in any order, through pipelines and files."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise
import reference
from problems import problem
from rankwise import (
    InvalidInputError,
    KeptFeatures,
    RankerPipeline,
    RankRLS,
    WithinQueryEncoder,
    WithinQueryImputer,
    WithinQueryRanks,
    WithinQueryScaler,
)
from rankwise.core.queries import Queries
from rankwise.transformers.numeric import quantiles_within_queries, ranks_within_queries

SCALES = ("min_max", "standard", "robust", "max_abs")
EXAMPLES = [
    *(WithinQueryScaler(scale) for scale in SCALES),
    WithinQueryRanks(),
    WithinQueryRanks("values_and_ranks"),
    WithinQueryImputer(),
    WithinQueryImputer("mean", add_indicator=True),
    WithinQueryImputer("min"),
    WithinQueryEncoder(),
    WithinQueryEncoder(crosses="auto"),
    KeptFeatures([0]),
]
WITHIN = "the features of an item depend on the other items of its query"


def expected(transformer):
    compares = type(transformer) in (WithinQueryScaler, WithinQueryRanks)
    return {"check_methods_subset_invariance": WITHIN} if compares else {}


@parametrize_with_checks(EXAMPLES, expected_failed_checks=expected)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def awkward(seed=0):
    """Draw rows with ties, a constant feature, a large offset and blanks."""
    P = problem(seed=seed, sizes=(6, 1, 9, 2, 30), n_features=5)
    X = P.X.copy()
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = 7.0
    X[:, 3] += 1e6
    X[np.random.default_rng(seed).random(X.shape) < 0.2] = np.nan
    X[P.qid == 3, 4] = np.nan
    return X, P.y, P.qid


@pytest.fixture(params=EXAMPLES, ids=repr)
def transformer(request):
    return clone(request.param)


@pytest.mark.parametrize("scale", SCALES)
def test_scaler_equals_a_loop(scale):
    X, _, qid = awkward()
    found = WithinQueryScaler(scale).fit_transform(X, qid=qid)
    np.testing.assert_allclose(found, reference.scaled_within_queries(X, qid, scale), atol=1e-9)


def test_ranks_equal_a_loop():
    X, _, qid = awkward()
    found = WithinQueryRanks().fit_transform(X, qid=qid)
    np.testing.assert_allclose(found, reference.ranks_within_queries(X, qid), atol=1e-12)


def test_ranks_do_not_depend_on_the_scale():
    X, _, qid = awkward()
    ranks = WithinQueryRanks().fit_transform(X, qid=qid)
    again = WithinQueryRanks().fit_transform(np.arctan(X / 1e6), qid=qid)
    np.testing.assert_allclose(again[:, [0, 1, 2]], ranks[:, [0, 1, 2]])


@pytest.mark.parametrize("filling", ["median", "mean", "min"])
def test_blanks_get_what_the_query_has(filling):
    X, _, qid = awkward()
    filled = WithinQueryImputer(filling).fit_transform(X, qid=qid)
    of_known = {"median": np.nanmedian, "mean": np.nanmean, "min": np.nanmin}[filling]
    of_query = {
        (q, j): of_known(X[qid == q, j])
        for q in np.unique(qid)
        for j in range(X.shape[1])
        if not np.isnan(X[qid == q, j]).all()
    }
    for i, j in zip(*np.nonzero(np.isnan(X)), strict=True):
        others = [v for (_, k), v in of_query.items() if k == j]
        want = of_query.get((qid[i], j), np.median(others))
        assert filled[i, j] == pytest.approx(want)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_indicators_name_the_blanks():
    X, _, qid = awkward()
    imputer = WithinQueryImputer(add_indicator=True).fit(X, qid=qid)
    found = imputer.transform(X, qid=qid)
    np.testing.assert_array_equal(found[:, 5:], np.isnan(X[:, imputer.indicated_]))
    names = imputer.get_feature_names_out(list("abcde")).tolist()
    assert names[5:] == [f"{'abcde'[j]} is blank" for j in imputer.indicated_]


def test_sparse_rows_are_scaled_as_dense_ones():
    X, _, qid = awkward()
    X = np.where(X > 0, X, 0.0)
    found = WithinQueryScaler("max_abs").fit_transform(csr_array(X), qid=qid)
    dense = WithinQueryScaler("max_abs").fit_transform(X, qid=qid)
    np.testing.assert_allclose(found.toarray(), dense)


@pytest.mark.parametrize("transformer", [WithinQueryScaler(), WithinQueryEncoder()], ids=repr)
def test_sparse_rows_are_refused_where_zeros_do_not_stay(transformer):
    with pytest.raises(InvalidInputError, match="must have dense rows"):
        transformer.fit(csr_array(np.eye(3)), [0, 1, 2])


def test_order_of_rows_does_not_matter(transformer):
    X, y, qid = awkward()
    order = np.random.default_rng(1).permutation(len(y))
    straight = transformer.fit(X, y, qid).transform(X, qid=qid)
    mixed = clone(transformer).fit(X[order], y[order], qid[order])
    np.testing.assert_allclose(mixed.transform(X[order], qid=qid[order]), straight[order])


def test_names_match_the_features(transformer):
    X, y, qid = awkward()
    out = transformer.fit(X, y, qid).transform(X, qid=qid)
    assert len(transformer.get_feature_names_out()) == out.shape[1]


def test_queries_must_be_given_again(transformer):
    X, y, qid = awkward()
    transformer.fit(X, y, qid)
    with pytest.raises(InvalidInputError, match="must be given `qid`"):
        transformer.transform(X)


def test_options_are_checked():
    X = np.eye(3)
    for transformer in (WithinQueryScaler("x"), WithinQueryRanks("x"), WithinQueryImputer("x")):
        with pytest.raises(InvalidInputError, match="must be one of"):
            transformer.fit(X)
    with pytest.raises(InvalidInputError, match="`smoothing` must be"):
        WithinQueryEncoder(smoothing=0).fit(X, [0, 1, 2])
    with pytest.raises(InvalidInputError, match="`columns` must hold features"):
        WithinQueryEncoder(columns=[7]).fit(X, [0, 1, 2])


CATEGORIES = np.array([["a", 1], ["b", 2], ["a", 3], [None, 4], ["b", 5], ["c", 6]], dtype=object)


def test_codes_are_mean_leads_over_the_query():
    y, qid = np.array([2.0, 0, 1, 0, 3, 1]), np.array([0, 0, 0, 1, 1, 1])
    encoder = WithinQueryEncoder(smoothing=1.0).fit(CATEGORIES, y, qid)
    excess = y - np.array([1, 1, 1, 4 / 3, 4 / 3, 4 / 3])
    codes = encoder.transform(CATEGORIES, qid=qid)
    assert codes[0, 0] == pytest.approx((excess[0] + excess[2]) / 3)
    assert codes[3, 0] == pytest.approx(excess[3] / 2)
    np.testing.assert_array_equal(codes[:, 1], CATEGORIES[:, 1].astype(float))
    unseen = np.array([["z", 1.0]], dtype=object)
    assert encoder.transform(unseen, qid=[0])[0, 0] == 0.0
    with pytest.raises(InvalidInputError, match="must hold numbers"):
        encoder.transform(np.array([["a", "b"]], dtype=object), qid=[0])
    with pytest.raises(InvalidInputError, match="requires y"):
        WithinQueryEncoder().fit(CATEGORIES)


def test_training_rows_are_encoded_without_their_own_scores():
    rng = np.random.default_rng(0)
    X = np.array([[f"only {i}"] for i in range(40)], dtype=object)
    y, qid = rng.normal(size=40), np.repeat(np.arange(10), 4)
    assert (WithinQueryEncoder().fit_transform(X, y, qid) == 0.0).all()


def test_categories_that_are_constant_in_queries_are_numbered_by_frequency():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(12), 3)
    y = rng.normal(size=36) + 0.1
    X = np.array(["often", "rare", "often"] * 4, dtype=object)[qid][:, None]
    encoder = WithinQueryEncoder()
    found = encoder.fit_transform(X, y, qid)
    np.testing.assert_array_equal(found[:, 0], np.where(X[:, 0] == "often", 2.0, 1.0))
    np.testing.assert_array_equal(encoder.transform(X, qid), found)
    assert encoder.transform(np.array([["new"]], dtype=object), [0])[0, 0] == 0.0
    # a category of whole queries beside others that vary has no mean but rounding
    X[qid < 3] = np.array([["a"], ["b"], ["c"]] * 3, dtype=object)
    found = encoder.fit_transform(X, y, qid)
    assert (found[qid >= 3] == 0.0).all()
    assert (encoder.transform(X, qid)[qid >= 3] == 0.0).all()
    assert (encoder.codes_[0][:3] != 0.0).all()


def test_pipelines_of_scikit_learn_route_queries():
    X, y, qid = awkward()
    steps = WithinQueryImputer(), WithinQueryScaler(), WithinQueryRanks("values_and_ranks")
    ours = RankerPipeline([*steps, RankRLS()]).fit(X, y, qid=qid)
    with config_context(enable_metadata_routing=True):
        theirs = make_pipeline(*(clone(s) for s in steps), RankRLS()).fit(X, y, qid=qid)
        scores = theirs.predict(X, qid=qid)
        with pytest.raises(InvalidInputError, match="must be given `qid`"):
            theirs.predict(X)
    np.testing.assert_array_equal(scores, ours.predict(X, qid=qid))
    with pytest.raises(InvalidInputError, match="compares the rows of a query"):
        ours.predict(X)


def test_a_pipeline_is_one_file(tmp_path):
    X, y, qid = awkward()
    rows = np.column_stack([X.astype(object), np.array(["a", "b"])[(y > 1).astype(int)]])
    steps = [
        WithinQueryEncoder(columns=[5]),
        WithinQueryImputer(add_indicator=True),
        WithinQueryScaler("robust"),
        RankRLS(),
    ]
    ranker = RankerPipeline(steps).fit(rows, y, qid=qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(rows, qid=qid), ranker.predict(rows, qid=qid))
    np.testing.assert_array_equal(loaded.rank(rows, qid=qid), ranker.rank(rows, qid=qid))


def test_other_estimators_are_not_saved(tmp_path):
    P = problem()
    ranker = RankerPipeline([StandardScaler(), RankRLS()]).fit(P.X, P.y, qid=P.qid)
    assert ranker.predict(P.X).shape == (len(P.y),)
    with pytest.raises(InvalidInputError, match="Only estimators of rankwise"):
        ranker.save(tmp_path / "model")


def test_a_pipeline_ends_in_a_ranker():
    with pytest.raises(InvalidInputError, match="must end in a ranker"):
        RankerPipeline([WithinQueryScaler()]).fit(np.eye(3), [0, 1, 2])


def test_large_queries_are_ranked_by_some_features_at_a_time():
    X, _, qid = awkward()
    queries, shares = Queries.of(qid, len(X)), [0.0, 0.25, 0.5, 1.0]
    found = ranks_within_queries(X, queries, at_once=16)
    np.testing.assert_allclose(found, reference.ranks_within_queries(X, qid), atol=1e-12)
    quantiles = quantiles_within_queries(X, queries, shares, at_once=16)
    np.testing.assert_array_equal(quantiles, quantiles_within_queries(X, queries, shares))


def test_equal_values_of_different_types_are_different_categories():
    X = np.array([[1], [1.0], [True], [None], ["1"]], dtype=object)
    encoder = WithinQueryEncoder(columns=[0]).fit(X, np.arange(5.0))
    assert encoder.categories_[0].tolist() == ["\x00blank", "1", "1.0", "True"]


def test_training_rows_are_encoded_by_other_queries():
    """As refits on the other fifths would do it."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(12), 4)
    X, y = rng.choice(["a", "b", "c"], (48, 1)).astype(object), rng.normal(size=48)
    found = WithinQueryEncoder().fit_transform(X, y, qid)
    for part in range(5):
        rows = qid % 5 == part
        others = WithinQueryEncoder().fit(X[~rows], y[~rows], qid[~rows])
        np.testing.assert_allclose(found[rows], others.transform(X[rows], qid[rows]))


def crossed_problem(n_queries=20, seed=0):
    """Draw queries whose scores depend on pairs of categories, one constant in each query."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 5)
    a, b = rng.integers(3, size=len(qid)), rng.integers(2, size=n_queries)[qid]
    text = np.array(["x", "y", "z"], object)[a], np.array(["soft", "firm"], object)[b]
    y = np.where(a == b, 1.0, 0.0) + 0.1 * rng.normal(size=len(qid))
    only = np.array([f"only {i}" for i in range(len(qid))], dtype=object)
    return np.column_stack([*text, only, rng.normal(size=len(qid)).astype(object)]), y, qid


def test_crosses_are_encoded_as_categories_of_their_own():
    X, y, qid = crossed_problem()
    encoder = WithinQueryEncoder(crosses="auto")
    found = encoder.fit_transform(X, y, qid)
    # not what has as many categories as items, and no text with itself
    assert encoder.crosses_.tolist() == [[0, 1]]
    joined = np.array([f"{a} {b}" for a, b in X[:, :2]], dtype=object)[:, None]
    alone = WithinQueryEncoder()
    np.testing.assert_array_equal(found[:, 4], alone.fit_transform(joined, y, qid)[:, 0])
    later = encoder.transform(X, qid)
    np.testing.assert_array_equal(later[:, 4], alone.transform(joined, qid)[:, 0])
    # how often categories occur: in later rows, and in the other fifths
    share = np.array([np.mean(X[:, 0] == value) for value in X[:, 0]])
    np.testing.assert_allclose(later[:, 5], share)
    others = [np.mean(X[qid % 5 != q % 5, 0] == v) for q, v in zip(qid, X[:, 0], strict=True)]
    np.testing.assert_allclose(found[:, 5], others)
    names = encoder.get_feature_names_out(["jockey", "going", "horse", "age"]).tolist()
    assert names[4:] == ["jockey and going", "frequency of jockey", "frequency of going",
                         "frequency of horse"]  # fmt: skip
    # a new category makes unknown crosses
    new = encoder.transform(np.array([["new", "soft", "only 1", 1.0]], dtype=object), [0])
    assert new[0, 4] == new[0, 5] == 0.0
    assert new[0, 6] > 0.0


def test_crosses_may_be_named_and_are_checked(tmp_path):
    X, y, qid = crossed_problem()
    encoder = WithinQueryEncoder([0, 1, 2], crosses=[(2, 0)]).fit(X, y, qid)
    assert encoder.crosses_.tolist() == [[2, 0]]
    with pytest.raises(InvalidInputError, match="pairs of encoded features"):
        WithinQueryEncoder(crosses=[(0, 3)]).fit(X, y, qid)
    steps = [WithinQueryEncoder([0, 1, 2], crosses=[(2, 0)]), KeptFeatures([4, 0]), RankRLS()]
    ranker = RankerPipeline(steps).fit(X, y, qid=qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X, qid=qid), ranker.predict(X, qid=qid))


def test_features_are_kept_in_the_order_given():
    X = np.arange(12.0).reshape(3, 4)
    kept = KeptFeatures([2, 0]).fit(X)
    np.testing.assert_array_equal(kept.transform(X), X[:, [2, 0]])
    assert kept.get_feature_names_out(["a", "b", "c", "d"]).tolist() == ["c", "a"]
    with pytest.raises(InvalidInputError, match="by position from 0 to 3: got 7"):
        KeptFeatures([7]).fit(X)
