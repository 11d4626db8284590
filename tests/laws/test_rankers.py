"""What every ranker must do: scikit-learn's contract, routing, saving; what makes no difference.

A new ranker is one line in EXAMPLES, and one in each table below that it is an exception to.
"""

import inspect
import pickle
from inspect import signature

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise
from problems import close, problem
from rankwise import (
    DORM,
    DORMCV,
    AutoRanker,
    BoostedRanker,
    ConditionalRankRLS,
    ConditionalRankRLSCV,
    Gaussian,
    GreedyRankRLS,
    InvalidInputError,
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    PreferenceGP,
    QueryKFold,
    RankerPipeline,
    RankingFactorization,
    RankRLS,
    RankRLSCV,
    RankSVM,
    SearchRanker,
    SeenQueriesWarning,
    SquaredExponential,
    WithinQueryRanks,
    WithinQueryScaler,
    as_regressor,
    make_ranking_scorer,
)
from rankwise.rankers.base import Ranker

EXAMPLES = [
    AutoRanker("Concordance", time_budget=1e-6, cv=3),
    BoostedRanker(n_trees=5, early_stopping=False, min_samples_leaf=2, random_state=0),
    BoostedRanker("squared_hinge", n_trees=5, cv=2, min_samples_leaf=2, random_state=0),
    DORM(tol=1e-9, max_iter=10_000, random_state=0),
    DORM(C=0.1, kernel=Gaussian(0.5), tol=1e-7, max_iter=50_000, random_state=0),
    DORMCV(Cs=[0.01, 0.1], cv=3, tol=1e-9, max_iter=10_000, random_state=0),
    GreedyRankRLS(2),
    KPCRank(3, kernel=Gaussian(0.5)),
    KPCRankCV(4, kernel=Gaussian(0.5)),
    LinearRankRLS(),
    PreferenceGP(),
    RankRLS(),
    RankRLS(kernel=Gaussian(0.5)),
    RankRLSCV(alphas=(0.1, 1.0, 10.0)),
    RankSVM(),
    RankSVM(0.1, loss="hinge", kernel=Gaussian(0.5)),
    SearchRanker("Concordance", basis=20),
    RankerPipeline([WithinQueryScaler(), WithinQueryRanks("values_and_ranks"), RankRLS()]),
]
DENSE = ("RankerPipeline",)
"""Rankers whose features within queries are dense."""
GRIDS = {
    "AutoRanker": {"cv": [2, 3]},
    "BoostedRanker": {"learning_rate": [0.1, 0.5]},
    "SearchRanker": {"basis": [10, 20]},
    "DORM": {"C": [0.1, 1.0]},
    "DORMCV": {"decay": [0.5, 1.0]},
    "GreedyRankRLS": {"n_features": [1, 2]},
    "KPCRank": {"n_components": [2, 3]},
    "KPCRankCV": {"alpha": [0.0, 1.0]},
    "LinearRankRLS": {"alpha": [0.1, 10.0]},
    "PreferenceGP": {"likelihood": ["robust", "probit", "logistic"]},
    "RankRLS": {"alpha": [0.1, 10.0]},
    "RankRLSCV": {"query_weight": ["items", "pairs"]},
    "RankSVM": {"C": [0.1, 10.0]},
    "RankerPipeline": {"steps": [[RankRLS()], [WithinQueryScaler(), RankRLS()]]},
}

WHOLE_QUERIES = "a weight belongs to a query: items of one ranking cannot stand in one place"
WITHIN_QUERIES = "the features of an item depend on the other items of its query"
ROWS_OF_A_LEAF = "bins of features and the least rows of a leaf are counted without weights"
EXPECTED = {
    "DORM": {
        "check_sample_weight_equivalence_on_dense_data": WHOLE_QUERIES,
        "check_sample_weight_equivalence_on_sparse_data": WHOLE_QUERIES,
    },
    "DORMCV": {
        "check_sample_weight_equivalence_on_dense_data": WHOLE_QUERIES,
        "check_sample_weight_equivalence_on_sparse_data": WHOLE_QUERIES,
    },
    "AutoRanker": {
        "check_methods_subset_invariance": WITHIN_QUERIES,
        "check_sample_weight_equivalence_on_dense_data": WITHIN_QUERIES,
        "check_sample_weight_equivalence_on_sparse_data": WITHIN_QUERIES,
    },
    "SearchRanker": {
        "check_methods_subset_invariance": WITHIN_QUERIES,
        "check_sample_weight_equivalence_on_dense_data": WITHIN_QUERIES,
        "check_sample_weight_equivalence_on_sparse_data": WITHIN_QUERIES,
    },
    "BoostedRanker": {
        "check_sample_weight_equivalence_on_dense_data": ROWS_OF_A_LEAF,
        "check_sample_weight_equivalence_on_sparse_data": ROWS_OF_A_LEAF,
    },
    "RankerPipeline": {
        "check_methods_subset_invariance": WITHIN_QUERIES,
        "check_sample_weight_equivalence_on_dense_data": WITHIN_QUERIES,
    },
}


def expected_failures(ranker):
    """Return the checks that a ranker cannot pass, and why; two are faults of scikit-learn 1.6."""
    expected = dict(EXPECTED.get(type(ranker).__name__, {}))
    if sklearn.__version__.startswith("1.6.") and isinstance(ranker, RankerPipeline):
        expected["check_sample_weight_equivalence_on_sparse_data"] = "asked though tags say dense"
    stops_early = isinstance(ranker, BoostedRanker) and ranker.early_stopping
    if sklearn.__version__.startswith("1.6.") and stops_early:
        expected["check_n_features_in_after_fitting"] = (
            "five of its ten labels, one fold, are equal"
        )
    return expected


@parametrize_with_checks(EXAMPLES, expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_every_ranker_is_tried():
    public = (getattr(rankwise, name) for name in rankwise.__all__)
    rankers = {cls for cls in public if isinstance(cls, type) and issubclass(cls, Ranker)}
    assert {type(ranker) for ranker in EXAMPLES} == rankers


@pytest.fixture(params=EXAMPLES, ids=repr)
def ranker(request):
    return clone(request.param)


FITTING = ("fit", "fit_file", "fit_path", "partial_fit", "get_params", "get_metadata_routing")
"""Methods that are for rankers without a fit; those that begin with `set_` are too."""
ROWS = np.arange(12.0).reshape(4, 3)
ARGUMENTS = {
    **dict.fromkeys(("X", "X1", "X2", "items", "conditions"), ROWS),
    "y": np.arange(4),
    "pairs": [[0, 1]],
    "persons": {"ann": [1.0]},
    "users": [0],
    "factor": 2.0,
    "measure": "NDCG",
}
"""What methods are called with; everything else has a default, or is a path."""


def methods_of_fitted(kind):
    return [
        (name, inspect.signature(method).parameters)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith(("_", "set_")) and name not in FITTING
    ]


@pytest.mark.parametrize(
    "ranker",
    [
        *EXAMPLES,
        ConditionalRankRLS(),
        ConditionalRankRLSCV(),
        RankingFactorization(),
        as_regressor(RankRLS()),
    ],
    ids=repr,
)
def test_nothing_is_predicted_before_a_fit(ranker, tmp_path):
    """Every public method says that there is no fit, whatever it needs of one."""
    methods = methods_of_fitted(type(ranker))
    assert "predict" in dict(methods)
    for name, parameters in methods:
        options = {key: ARGUMENTS[key] for key in parameters if key in ARGUMENTS}
        for key, parameter in parameters.items():
            is_needed = parameter.default is parameter.empty and key != "self"
            if is_needed and parameter.kind is not parameter.VAR_KEYWORD:
                options.setdefault(key, tmp_path / "model.onnx")
        given = {key: value for key, value in options.items() if key != "qid"}
        with pytest.raises(NotFittedError, match="not fitted"):
            getattr(clone(ranker), name)(**given)
        few = {k: v for k, v in given.items() if parameters[k].default is parameters[k].empty}
        with pytest.raises(NotFittedError, match="not fitted"):
            getattr(clone(ranker), name)(**few)


P = problem(seed=0, sizes=(6, 5, 1, 7, 4, 6))


def test_scores_come_back_from_a_file(ranker, tmp_path):
    ranker.fit(P.X, P.y, qid=P.qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert type(loaded) is type(ranker)
    assert repr(loaded) == repr(ranker)
    np.testing.assert_array_equal(loaded.predict(P.X, qid=P.qid), ranker.predict(P.X, qid=P.qid))
    assert loaded.score(P.X, P.y, qid=P.qid) == ranker.score(P.X, P.y, qid=P.qid)
    with pytest.raises(InvalidInputError, match="must be given `qid`"):
        loaded.score(P.X, P.y)


def test_grid_search_routes_queries(ranker):
    with config_context(enable_metadata_routing=True):
        grid = GRIDS[type(ranker).__name__]
        search = GridSearchCV(ranker, grid, cv=GroupKFold(3).set_split_request(groups="qid"))
        search.fit(P.X, P.y, qid=P.qid)
        test = next(iter(GroupKFold(3).split(P.X, P.y, P.qid)))
        again = clone(search.best_estimator_).fit(P.X[test[0]], P.y[test[0]], qid=P.qid[test[0]])
        value = again.score(P.X[test[1]], P.y[test[1]], qid=P.qid[test[1]])
        assert search.cv_results_["split0_test_score"][search.best_index_] == value


def test_every_method_that_takes_queries_requests_them(ranker):
    """Else scikit-learn refuses to route them, also where it only might call the method."""
    with config_context(enable_metadata_routing=True):
        request = ranker.get_metadata_routing()
        for method in ("fit", "partial_fit", "predict", "score"):
            takes = "qid" in signature(getattr(ranker, method, lambda: None)).parameters
            assert request.consumes(method, ["qid"]) == ({"qid"} if takes else set())


def test_learning_curves_route_queries(ranker):
    with config_context(enable_metadata_routing=True):
        folds = GroupKFold(2).set_split_request(groups="qid")
        curve = learning_curve(ranker, P.X, P.y, cv=folds, params={"qid": P.qid}, train_sizes=[1.0])
    assert np.isfinite(curve[2]).all()


def test_predictions_of_cross_validation_say_that_they_get_no_queries(ranker):
    """scikit-learn's cross_val_predict passes nothing to `predict`: a limit of its own."""
    with config_context(enable_metadata_routing=True):
        given = {"cv": QueryKFold(2), "params": {"qid": P.qid}}
        if getattr(ranker.fit(P.X, P.y, qid=P.qid), "needs_qid_", False):
            with pytest.raises(InvalidInputError, match="cross_val_predict passes none on"):
                cross_val_predict(ranker, P.X, P.y, **given)
        else:
            assert np.isfinite(cross_val_predict(ranker, P.X, P.y, **given)).all()


def test_arguments_of_other_libraries_get_advice(ranker):
    """LightGBM's sizes of queries, and scikit-learn's groups."""
    if isinstance(ranker, PreferenceGP):
        pytest.skip("learns from comparisons, which those libraries do not take")
    sizes = np.bincount(P.qid)
    with pytest.raises(TypeError, match=r"qid=np.repeat\(np.arange\(len\(group\)\), group\)"):
        clone(ranker).fit(P.X, P.y, group=sizes)
    with pytest.raises(TypeError, match="the query of each row as `qid`"):
        clone(ranker).fit(P.X, P.y, groups=P.qid)
    with pytest.raises(TypeError, match=r"no argument 'nonsense'.*help\(ranker.fit\)"):
        clone(ranker).fit(P.X, P.y, nonsense=1)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_from_transformers_change_nothing(ranker, kind):
    """Whether scikit-learn is set to return frames, while learning or only afterwards."""
    pytest.importorskip(kind)
    expected = ranker.fit(P.X, P.y, qid=P.qid).predict(P.X, qid=P.qid)
    with config_context(transform_output=kind):
        found = clone(ranker).fit(P.X, P.y, qid=P.qid)
        close(found.predict(P.X, qid=P.qid), expected, 1e-10)  # the memory of a frame is by column
        if not isinstance(ranker, RankerPipeline):  # its steps are the caller's: frames have names
            assert np.array_equal(ranker.predict(P.X, qid=P.qid), expected)


def test_pipelines_and_scorers_route_queries(ranker):
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ranker)
        values = cross_val_score(
            pipeline,
            P.X,
            P.y,
            scoring=make_ranking_scorer("NDCG @ 3"),
            cv=GroupKFold(3).set_split_request(groups="qid"),
            params={"qid": P.qid},
        )
        assert values.shape == (3,)
        assert ((values > 0) & (values <= 1)).all()


def test_cross_validation_without_routing_refuses_to_guess(ranker):
    with pytest.raises(InvalidInputError, match="enable_metadata_routing"):
        cross_val_score(
            ranker,
            P.X,
            P.y,
            groups=P.qid,
            cv=GroupKFold(3),
            params={"qid": P.qid},
            error_score="raise",
        )


def test_sparse_rows_equal_dense(ranker):
    if type(ranker).__name__ in DENSE:
        with pytest.raises(InvalidInputError, match="dense rows"):
            ranker.fit(csr_array(P.X), P.y, qid=P.qid)
        return
    X = np.where(P.X > 0, P.X, 0.0)
    dense = ranker.fit(X, P.y, qid=P.qid).predict(X, qid=P.qid)
    sparse = clone(ranker).fit(csr_array(X), P.y, qid=P.qid).predict(csr_array(X), qid=P.qid)
    np.testing.assert_allclose(sparse - sparse.mean(), dense - dense.mean(), atol=1e-8)


def test_column_names_are_kept_and_checked(ranker):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(P.X, columns=["a", "b", "c"])
    ranker.fit(frame, P.y, qid=P.qid)
    assert ranker.feature_names_in_.tolist() == ["a", "b", "c"]
    scores = ranker.predict(frame, qid=P.qid)
    other = frame[["c", "a", "b"]].assign(d=1.0)
    np.testing.assert_allclose(ranker.predict(other, qid=P.qid), scores, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="features that were learned from.*no column 'a'"):
        ranker.predict(frame.rename(columns={"a": "z"}), qid=P.qid)


def test_predict_takes_queries_in_a_pipeline(ranker):
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ranker).fit(P.X, P.y, qid=P.qid)
        inner = ranker.predict(StandardScaler().fit_transform(P.X), qid=P.qid)
        np.testing.assert_array_equal(pipeline.predict(P.X, qid=P.qid), inner)


def test_torn_queries_are_noticed(ranker):
    first, second = np.arange(len(P.y)) % 2 == 0, np.arange(len(P.y)) % 2 == 1
    ranker.fit(P.X[first], P.y[first], qid=P.qid[first])
    rest = P.X[second], P.y[second]
    with pytest.raises(InvalidInputError, match="must not be in the training data"):
        make_ranking_scorer("Concordance")(ranker, *rest, qid=P.qid[second])
    with pytest.warns(SeenQueriesWarning, match="in the training data with other items"):
        value = ranker.score(*rest, qid=P.qid[second])
    allowed = make_ranking_scorer("Concordance", seen_queries="allow")
    assert allowed(ranker, *rest, qid=P.qid[second]) == pytest.approx(value)
    make_ranking_scorer("Concordance")(ranker, P.X[first], P.y[first], qid=P.qid[first])


def test_fit_leaves_parameters_alone(ranker):
    before = repr(ranker)
    ranker.fit(P.X, P.y, qid=P.qid)
    assert repr(ranker) == before


# What makes no difference


def scores_of(ranker, X=P.X, y=P.y, qid=P.qid, of=None, **options):
    """Fit a copy and score all rows, up to the constant that means nothing, in units of scores."""
    fitted = clone(ranker).fit(X, y, qid=qid, **options)
    if of is not None:
        return comparable(fitted.predict(of, qid=P.qid))
    return comparable(fitted.predict(X, qid=qid))


def comparable(scores):
    scores = scores - scores.mean()
    return scores / np.abs(scores).max()


def assert_same_scores(ranker, a, b):
    np.testing.assert_allclose(a, b, atol=ITERATED.get(type(ranker).__name__, 1e-11))


ITERATED = {"DORM": 1e-7, "DORMCV": 1e-7}
"""What rounding becomes where a search ends at a gap: another path leads to another point."""


def within_queries(rng):
    """Return an order of the rows in which every place still holds an item of its query."""
    order = np.empty(len(P.qid), dtype=int)
    for query in np.unique(P.qid):
        rows = np.flatnonzero(P.qid == query)
        order[rows] = rng.permutation(rows)
    return order


RANDOM_FOLDS = {"AutoRanker", "BoostedRanker", "DORMCV", "SearchRanker"}
"""Rankers that deal queries into random folds in the order in which they appear."""


def test_the_order_of_rows_makes_no_difference(ranker):
    if type(ranker) is SearchRanker:  # rows for its basis are drawn by their places
        ranker.set_params(basis=len(P.y))
    rng = np.random.default_rng(9)
    rows = within_queries(rng)
    usual = scores_of(ranker)
    assert_same_scores(ranker, scores_of(ranker, P.X[rows], P.y[rows], P.qid[rows], of=P.X), usual)
    if type(ranker).__name__ not in RANDOM_FOLDS:
        rows = rng.permutation(len(P.y))
        assert_same_scores(
            ranker, scores_of(ranker, P.X[rows], P.y[rows], P.qid[rows], of=P.X), usual
        )


@pytest.mark.parametrize(
    "rename", [lambda q: 100 - q, lambda q: f"query {q}", lambda q: (int(q), "a")]
)
def test_the_names_of_queries_make_no_difference(ranker, rename):
    qid = np.empty(len(P.qid), dtype=object)
    qid[:] = [rename(q) for q in P.qid]
    np.testing.assert_array_equal(scores_of(ranker, qid=qid), scores_of(ranker))


MADE_UP_FOR = {
    "BoostedRanker": lambda ranker, c: {"alpha": ranker.alpha * c},
    "DORM": lambda ranker, c: {} if ranker.C == "scale" else {"C": ranker.C / c},
    "DORMCV": lambda ranker, c: {"Cs": [C / c for C in ranker.Cs]},
    "GreedyRankRLS": lambda ranker, c: {"alpha": ranker.alpha * c},
    "KPCRank": lambda ranker, c: {"alpha": ranker.alpha * c},
    "KPCRankCV": lambda ranker, c: {"alpha": ranker.alpha * c},
    "LinearRankRLS": lambda ranker, c: {"alpha": ranker.alpha * c},
    "RankRLS": lambda ranker, c: {"alpha": ranker.alpha * c},
    "RankRLSCV": lambda ranker, c: {"alphas": tuple(alpha * c for alpha in ranker.alphas)},
    "RankSVM": lambda ranker, c: {"C": ranker.C / c},
    "RankerPipeline": lambda ranker, c: {"steps": [*ranker.steps[:-1], RankRLS(c)]},
}
"""The regularisation that makes up for a loss that is c times as large.

In the Gaussian process weights are numbers of answers, and more answers are more certain.
"""


def loss_times(ranker, factor):
    """Return by what weights times a factor multiply the loss: pairs have products of weights."""
    power = {"items": 1, "pairs": 2, "equal": 0}
    return factor ** power[ranker.get_params().get("query_weight", "items")]


def test_scaled_weights_are_another_regularisation(ranker):
    if type(ranker) in (AutoRanker, SearchRanker):
        pytest.skip("it chooses among alphas of its own")
    weight = np.random.default_rng(3).integers(1, 4, len(P.y)).astype(float)
    usual = scores_of(ranker, sample_weight=weight)
    if type(ranker) is PreferenceGP:
        more_answers = scores_of(ranker, sample_weight=2.0 * weight)
        assert np.abs(more_answers - usual).max() > 1e-3
        return
    make_up_for = MADE_UP_FOR[type(ranker).__name__]
    ranker.set_params(**make_up_for(ranker, loss_times(ranker, 4.0)))
    assert_same_scores(ranker, scores_of(ranker, sample_weight=4.0 * weight), usual)


BY_PAIRS = [ranker for ranker in EXAMPLES if "query_weight" in ranker.get_params()]


@pytest.mark.parametrize("example", BY_PAIRS, ids=repr)
def test_scaled_weights_make_no_difference_where_queries_count_the_same(example):
    ranker = clone(example).set_params(query_weight="equal")
    weight = np.random.default_rng(3).integers(1, 4, len(P.y)).astype(float)
    usual = scores_of(ranker, sample_weight=weight)
    if type(ranker) is BoostedRanker:  # its alpha is in units of the weight of items
        ranker.set_params(alpha=4.0 * ranker.alpha)
    assert_same_scores(ranker, scores_of(ranker, sample_weight=4.0 * weight), usual)


def test_weights_of_one_are_no_weights(ranker):
    usual = scores_of(ranker)
    np.testing.assert_array_equal(scores_of(ranker, sample_weight=np.ones(len(P.y))), usual)


def test_a_constant_feature_makes_no_difference(ranker):
    """All examples have linear kernels, or such that see differences of rows only."""
    if type(ranker) is PreferenceGP:  # what is usual for its own depends on the number of features
        ranker.set_params(kernel=SquaredExponential())
    if type(ranker) is SearchRanker:
        pytest.skip("the width of its kernel depends on the number of features")
    usual = scores_of(ranker)
    assert_same_scores(
        ranker, scores_of(ranker, np.column_stack([P.X, np.full(len(P.y), 3.7)])), usual
    )


def test_an_offset_of_the_features_makes_no_difference(ranker):
    rows = P.X + 40.0 if type(ranker) is BoostedRanker else P.X  # bins of features end at 0
    moved = rows + np.array([100.0, -30.0, 7.0])
    assert_same_scores(ranker, scores_of(ranker, moved), scores_of(ranker, rows))


def test_single_precision_is_close_to_double(ranker):
    rows = P.X.astype(np.float32)
    double = scores_of(ranker, rows.astype(np.float64))
    np.testing.assert_allclose(scores_of(ranker, rows), double, atol=1e-6)
    np.testing.assert_allclose(double, scores_of(ranker), atol=1e-5)


def test_a_pickled_ranker_is_the_ranker(ranker):
    ranker.fit(P.X, P.y, qid=P.qid)
    again = pickle.loads(pickle.dumps(ranker))
    assert repr(again) == repr(ranker)
    np.testing.assert_array_equal(again.predict(P.X, P.qid), ranker.predict(P.X, P.qid))
    assert again.score(P.X, P.y, qid=P.qid) == ranker.score(P.X, P.y, qid=P.qid)


def test_a_clone_keeps_the_parameters_and_fits_to_the_same_scores(ranker):
    fitted = clone(ranker).fit(P.X, P.y, qid=P.qid)
    again = clone(fitted)
    assert repr(again.get_params()) == repr(ranker.get_params())
    assert not [name for name in vars(again) if name.endswith("_")]
    scores = again.fit(P.X, P.y, qid=P.qid).predict(P.X, qid=P.qid)
    np.testing.assert_array_equal(scores, fitted.predict(P.X, qid=P.qid))
