"""Categories and blanks as numbers without scores: against what they say, and in every pipeline."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise
from rankwise import IndicatorEncoder, InvalidInputError, RankerPipeline, RankRLS

ROWS = np.array(
    [
        ["f", 1.0, np.nan, 5.0],
        ["m", 3.0, 2.0, 5.0],
        [None, 5.0, 4.0, 5.0],
        ["m", 7.0, np.nan, 5.0],
    ],
    dtype=object,
)


@parametrize_with_checks([IndicatorEncoder()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_categories_are_indicators_and_blanks_are_means():
    encoder = IndicatorEncoder()
    found, names = encoder.fit_transform(ROWS), encoder.get_feature_names_out("abcd").tolist()
    assert names == ["a = blank", "a = f", "a = m", "b", "c", "c is blank", "d"]
    np.testing.assert_array_equal(found[:, :3], [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(found[:, 3] * np.sqrt(5), [1, 3, 5, 7])  # their deviation
    np.testing.assert_array_equal(found[:, 4], [3, 2, 4, 3])
    np.testing.assert_array_equal(found[:, 5], [1, 0, 0, 1])
    np.testing.assert_array_equal(found[:, 6], 5.0)  # constant: no scale


def test_new_values_have_no_indicator_and_new_blanks_the_mean():
    encoder = IndicatorEncoder().fit(ROWS)
    new = np.array([["x", np.nan, 1.0, 0.0]], dtype=object)
    np.testing.assert_allclose(encoder.transform(new), [[0, 0, 0, 4 / np.sqrt(5), 1.0, 0, 0.0]])


def test_scores_and_queries_are_not_looked_at():
    y, qid = [3, 1, 2, 0], ["a", "a", "b", "b"]
    found = IndicatorEncoder().fit_transform(ROWS, y)
    np.testing.assert_array_equal(found, IndicatorEncoder().fit_transform(ROWS))
    ranker = RankerPipeline([IndicatorEncoder(), RankRLS()]).fit(ROWS, y, qid=qid)
    assert not ranker.needs_qid_
    assert not ranker.compares_items_


def test_a_pipeline_with_indicators_is_saved(tmp_path):
    ranker = RankerPipeline([IndicatorEncoder(), RankRLS()]).fit(ROWS, [3, 1, 2, 0])
    ranker.save(tmp_path / "m")
    again = rankwise.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(ROWS), ranker.predict(ROWS))


def test_text_in_a_column_of_numbers_is_refused():
    encoder = IndicatorEncoder().fit(ROWS)
    with pytest.raises(InvalidInputError, match="Feature 1 must hold numbers, as it did in `fit`"):
        encoder.transform(np.array([["f", "many", 1.0, 2.0]], dtype=object))
