"""Tables in JSON hold what the same tables in CSV hold."""

import gzip
import json

import numpy as np
import pytest

from rankwise import DataFileError
from rankwise.io import read_comparisons, read_table, write_table
from rankwise.io.tables.reading import open_table

ROWS = [
    {"qid": "q1", "grade": 2, "price": 1.5, "on_sale": True},
    {"qid": "q1", "grade": 0, "price": -2, "on_sale": False},
    {"qid": "q2", "grade": 1, "price": 3e5, "on_sale": True},
]


def written(path, rows=ROWS):
    text = "\n".join(map(json.dumps, rows)) if path.suffix != ".json" else json.dumps(rows)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["data.json", "data.jsonl", "data.ndjson"])
def test_rows_are_read_as_from_csv(tmp_path, name):
    data = read_table(written(tmp_path / name))
    assert data.feature_names == ["price", "on_sale"]
    np.testing.assert_array_equal(data.X, [[1.5, 1.0], [-2.0, 0.0], [3e5, 1.0]])
    assert data.y.tolist() == [2.0, 0.0, 1.0]
    assert data.qid.tolist() == ["q1", "q1", "q2"]


def test_compressed_lines_with_blank_ones_are_read(tmp_path):
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress("\n\n".join(map(json.dumps, ROWS)).encode()))
    assert read_table(path).X.shape == (3, 2)


@pytest.mark.parametrize(
    "content",
    [
        {name: [row[name] for row in ROWS] for name in ROWS[0]},
        {name: {str(k): row[name] for k, row in enumerate(ROWS)} for name in ROWS[0]},
    ],
    ids=["arrays", "objects of rows, as pandas writes them"],
)
def test_columns_are_read_as_rows_are(tmp_path, content):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(content))
    np.testing.assert_array_equal(read_table(path).X, read_table(written(tmp_path / "rows.json")).X)


def test_nested_columns_are_ignored_and_missing_keys_are_blanks(tmp_path):
    rows = [
        {"model_a": "x", "model_b": "y", "winner": "model_a", "conversation": [{"role": "user"}]},
        {"model_a": "y", "model_b": "x", "conversation": []},
        {"model_a": "y", "model_b": "x", "winner": "tie", "language": "English"},
    ]
    path = written(tmp_path / "arena.json", rows)
    assert open_table(path).names == ["model_a", "model_b", "winner", "language"]
    assert open_table(path).words("language") == ["", "", "English"]
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        table = read_comparisons(path)
    assert table.outcome.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["out.json", "out.jsonl", "out.ndjson.gz"])
def test_what_is_written_is_read_back(tmp_path, name):
    columns = {"item": ["Köln", 'with "quotes"'], "score": [0.1 + 0.2, -1.0]}
    write_table(tmp_path / name, columns)
    table = open_table(tmp_path / name)
    assert table.words("item") == columns["item"]
    assert table.read([["score"]], [])[0][0].ravel().tolist() == columns["score"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON, got"),
        ("3", "expected an array of objects, one for each row, got int"),
        ("[3]", "row 1: expected an object with a key for each column, got int"),
        ('{"a": 3}', "got an object of something else"),
        ('{"a": [1], "b": [1, 2]}', "expected columns of one length, got"),
        ("[]", "at least one row|must have"),
        ("[" * 100_000, "expected JSON"),
    ],
)
def test_other_content_is_refused(tmp_path, text, message):
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        read_table(path, features=["a"])


def test_bad_cells_and_lines_are_named(tmp_path):
    path = written(tmp_path / "data.jsonl", [{"a": 1, "q": "x"}, {"a": "two", "q": None}])
    with pytest.raises(DataFileError, match="row 2, column 'a': expected a finite number, got"):
        read_table(path, features=["a"])
    with pytest.raises(DataFileError, match="row 2, column 'q': expected an id, got nothing"):
        open_table(path).read([], ["q"])
    path.write_text('{"a": 1}\n{"a": ')
    with pytest.raises(DataFileError, match="line 2: expected a JSON object"):
        open_table(path)
