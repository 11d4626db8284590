"""Tools that explain models take rankers: scikit-learn's inspection, and SHAP."""

import numpy as np
import pytest
from sklearn.inspection import partial_dependence, permutation_importance

from rankwise import InvalidInputError, RankerPipeline, RankRLS, WithinQueryScaler, as_regressor

RNG = np.random.default_rng(0)
X, QID = RNG.normal(size=(40, 3)), np.repeat(np.arange(4), 10)
Y = X @ [1.0, -2.0, 0.0]


def test_partial_dependence_of_a_linear_ranker_is_its_weight():
    ranker = RankRLS().fit(X, Y, qid=QID)
    found = partial_dependence(as_regressor(ranker), X, [1], grid_resolution=4)
    slope = np.diff(found["average"][0]) / np.diff(found["grid_values"][0])
    np.testing.assert_allclose(slope, ranker.coef_[1])


def test_a_ranker_that_compares_items_is_given_its_queries():
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, Y, qid=QID)
    regressor = as_regressor(ranker, QID)
    np.testing.assert_array_equal(regressor.predict(X), ranker.predict(X, qid=QID))
    found = permutation_importance(regressor, X, Y, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() == 1
    with pytest.raises(InvalidInputError, match="`X`"):
        regressor.predict(X[:3])


def test_fit_fits_the_ranker():
    regressor = as_regressor(RankRLS(), QID).fit(X, Y)
    assert regressor.n_features_in_ == 3
    np.testing.assert_array_equal(regressor.predict(X), RankRLS().fit(X, Y, qid=QID).predict(X))


def test_shap_takes_the_ranker_itself():
    shap = pytest.importorskip("shap")
    ranker = RankRLS().fit(X, Y, qid=QID)
    found = shap.Explainer(ranker, X)(X[:2])
    expected = (X[:2] - X.mean(axis=0)) * ranker.coef_
    np.testing.assert_allclose(found.values, expected, atol=1e-9)
