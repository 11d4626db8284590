"""Items from data frames of several libraries: the same arrays, no column guessed in silence."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from rankwise import InvalidInputError
from rankwise.io import from_frame

polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

COLUMNS = {
    "Query_ID": ["a", "a", "b"],
    "f1": [1.0, 2.0, 3.0],
    "f2": [4, 5, 7],
    "new": [True, False, True],
    "Grade": [1, 0, 2],
}
MAKERS = {
    "pandas": pd.DataFrame,
    "polars": polars.DataFrame,
    "lazy": lambda columns: polars.DataFrame(columns).lazy(),
    "arrow": pyarrow.table,
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@every_maker
def test_usual_names_are_found_in_any_case(make):
    data = from_frame(make(COLUMNS))
    assert data.feature_names == ["f1", "f2", "new"]
    np.testing.assert_array_equal(data.X, [[1, 4, 1], [2, 5, 0], [3, 7, 1]])
    np.testing.assert_array_equal(data.y, [1, 0, 2])
    assert data.qid.tolist() == ["a", "a", "b"]


@pytest.mark.parametrize(
    "query", ["Query ID", "query-id", "queryId", " QUERY.ID", "SearchId", "Qid"]
)
@pytest.mark.parametrize("item", ["Product Id", "productId", "Doc-ID", "docID", "ITEM"])
def test_usual_names_are_found_in_any_spelling(query, item):
    frame = pd.DataFrame({query: [1, 1, 2], item: [7, 8, 9], "Grade": [0, 1, 1], "f": [1.0, 2, 3]})
    data = from_frame(frame)
    assert (data.columns.qid, data.columns.item, data.feature_names) == (query, item, ["f"])
    again = from_frame(frame, y="GRADE", qid=query.lower(), features=["F"])
    assert again.feature_names == ["f"]


@every_maker
@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("f*", ["f1", "f2"]),
        (["new", "f1"], ["new", "f1"]),
        ("f1:new", ["f1", "f2", "new"]),
        (["f?", "f1", "new"], ["f1", "f2", "new"]),
    ],
)
def test_features_by_name_pattern_and_range(make, features, expected):
    assert from_frame(make(COLUMNS), features=features).feature_names == expected


def test_columns_are_dropped():
    assert from_frame(pd.DataFrame(COLUMNS), drop=["f*"]).feature_names == ["new"]
    both = from_frame(pd.DataFrame(COLUMNS), features="f*", drop="f1")
    assert both.feature_names == ["f2"]


def test_a_frame_without_scores_and_queries():
    data = from_frame(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    assert data.y is None
    assert data.qid is None


@pytest.mark.parametrize(
    "name", ["doc_id", "id", "itemId", "product id", "qid2_id", "ID", "row-index"]
)
def test_a_name_of_ids_is_never_a_feature_in_silence(name):
    frame = pd.DataFrame({"f": [1.0, 2.0], name: [3, 4], "y": [0, 1]})
    with pytest.raises(InvalidInputError, match="looks like an id"):
        from_frame(frame)
    assert from_frame(frame, drop=name).feature_names == ["f"]
    assert from_frame(frame, features=["f", name]).feature_names == ["f", name]


@pytest.mark.parametrize("name", ["width", "idea", "valid", "keyword_hits", "video"])
def test_names_that_only_resemble_ids_are_features(name):
    frame = pd.DataFrame({name: [3.0, 4.0], "y": [0, 1]})
    assert from_frame(frame).feature_names == [name]


def test_a_different_whole_number_in_every_row_looks_like_an_id():
    frame = pd.DataFrame({"f": np.zeros(30), "article": np.arange(30), "y": np.arange(30) % 2})
    with pytest.raises(InvalidInputError, match="'article' looks like an id.*qid='article'"):
        from_frame(frame)
    short = frame.head(10)
    assert from_frame(short).feature_names == ["f", "article"]
    frame["article"] = np.arange(30) + 0.5
    assert from_frame(frame).feature_names == ["f", "article"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (COLUMNS, {"y": "grad"}, "must have the column 'grad' for `y`.*Did you mean 'Grade'"),
        (COLUMNS, {"qid": "zzz"}, "must have the column 'zzz' for `qid`"),
        (COLUMNS, {"features": "g*"}, "'g\\*' matches none of"),
        (COLUMNS, {"features": "f1:f9"}, "must have the column 'f9' for `features`"),
        (COLUMNS, {"drop": "f7"}, "must have the column 'f7' for `drop`"),
        (COLUMNS, {"features": "f1", "drop": "f1"}, "at least one column of features"),
        ({**COLUMNS, "label": [1, 2, 3]}, {}, "must have one column for `y`.*'Grade', 'label'"),
        ({**COLUMNS, "title": ["x", "y", "z"]}, {}, "the column 'title' holds String"),
        ({**COLUMNS, "title": ["x", "y", "z"]}, {"features": "title"}, "'title' must hold numbers"),
        ({**COLUMNS, "day": [datetime(2024, 1, 31)] * 3}, {}, "'day' holds Date.*It is a date"),
        ({**COLUMNS, "f1": [1.0, None, 3.0]}, {}, "`f1` must be finite: row 1"),
        ({**COLUMNS, "Query_ID": ["a", None, "b"]}, {}, "must hold an id in every row: row 1"),
    ],
)
@every_maker
def test_wrong_columns_are_refused(make, columns, options, message):
    with pytest.raises(InvalidInputError, match=message):
        from_frame(make(columns), **options)


def test_what_is_no_frame_is_refused():
    with pytest.raises(InvalidInputError, match="must be a data frame.*got ndarray"):
        from_frame(np.zeros((2, 2)))
