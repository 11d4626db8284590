import csv
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from rankwise.core.errors import DataFileError, InvalidInputError, MissingExtraError
from rankwise.io.tables.csv import CsvTable
from rankwise.io.tables.reading import read_table, write_table

SUFFIXES = [".csv", ".tsv", ".csv.gz", ".csv.xz", ".tsv.bz2", ".parquet", ".pq"]
FAST = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda name: name == name.strip()
)


def read_csv(path, text, **options):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, **options)


@FAST
@given(
    suffix=st.sampled_from(SUFFIXES),
    rows=st.lists(st.tuples(finite, finite, finite, names), min_size=1),
)
@example(suffix=".csv", rows=[(0.0, -0.0, 5e-324, 'say "hi", he said')])
def test_columns_are_read_back_bit_for_bit(tmp_path, suffix, rows):
    path = tmp_path / f"a{suffix}"
    a, b, y, qid = map(list, zip(*rows, strict=True))
    write_table(path, {"a": a, "y": y, "qid": qid, "b": b})
    data = read_table(path)
    assert data.feature_names == ["a", "b"]
    assert data.X.tobytes() == np.column_stack([a, b]).tobytes()
    assert data.y.tobytes() == np.array(y).tobytes()
    assert [str(query) for query in data.qid.tolist()] == qid


@FAST
@given(
    st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"))), min_size=1)
)
@example([["line\nbreak", 'quote " inside', "comma, inside", "  "], ["", "\n", '"']])
def test_cells_not_asked_for_may_hold_anything_a_csv_can(tmp_path, texts):
    path = tmp_path / "a.csv"
    width = max(map(len, texts))
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["x", *(f"text{j}" for j in range(width)), "y"])
        for i, row in enumerate(texts):
            writer.writerow([i, *row, *[""] * (width - len(row)), i + 0.5])
    data = read_table(path, features=["x"])
    assert data.X[:, 0].tolist() == list(range(len(texts)))
    assert data.y.tolist() == [i + 0.5 for i in range(len(texts))]


@pytest.mark.parametrize("block_cells", [1, 7, 1000])
def test_rows_found_in_blocks_are_the_whole(tmp_path, block_cells):
    path = tmp_path / "a.csv"
    text = "a,qid,y\n" + "".join(f"{i},{'x' if i == 8 else i},{-i}\n\n" for i in range(10))
    path.write_text(text)
    (numbers,), (ids,) = CsvTable.open(path, ",", block_cells=block_cells).read([["a"]], ["qid"])
    assert numbers[:, 0].tolist() == list(range(10))
    assert ids.tolist() == ["0", "1", "2", "3", "4", "5", "6", "7", "x", "9"]
    path.write_text(text + "oops,1,2\n")
    table = CsvTable.open(path, ",", block_cells=block_cells)
    assert table.words("a") == [*map(str, range(10)), "oops"]
    with pytest.raises(DataFileError, match="line 22, column 'a': expected a finite number"):
        table.read([["a"]], ["qid"])


def test_usual_names_are_found_and_others_are_features(tmp_path):
    for y in ["y", "label", "score", "relevance"]:
        for qid in ["qid", "query_id", "query"]:
            data = read_csv(tmp_path / "a.csv", f"b,{qid},{y},a\n1,2,3,4\n")
            assert data.feature_names == ["b", "a"]
            assert data.X.tolist() == [[1.0, 4.0]]
            assert data.y.tolist() == [3.0]
            assert data.qid.tolist() == [2]


def test_columns_are_chosen_by_name(tmp_path):
    text = "name,grade,group,a,b\nfoo,1,g,2,3\nbar,0,h,4,5\n"
    data = read_csv(tmp_path / "a.csv", text, y="grade", qid="group", features=["b", "a"])
    assert data.feature_names == ["b", "a"]
    assert data.X.tolist() == [[3.0, 2.0], [5.0, 4.0]]
    assert data.y.tolist() == [1.0, 0.0]
    assert data.qid.tolist() == ["g", "h"]


def test_table_without_scores_or_queries_leaves_them_out(tmp_path):
    data = read_csv(tmp_path / "a.csv", "a,b\n1,2\n")
    assert data.y is None
    assert data.qid is None
    assert repr(data) == "RankingData(1 items, 2 features, dense, with feature_names)"


def test_blanks_quotes_marks_and_line_ends_do_not_matter(tmp_path):
    plain = read_csv(tmp_path / "a.csv", "a,y\n1.5,2\n-3,4\n")
    other = read_csv(tmp_path / "a.csv", b'\xef\xbb\xbfa , "y"\r\n\r\n "1.5" , 2 \r\n\r\n-3,4')
    assert other.feature_names == plain.feature_names
    assert other.X.tolist() == plain.X.tolist()
    assert other.y.tolist() == plain.y.tolist()


def test_long_numbers_are_read_as_float_does(tmp_path):
    third = "0." + "3" * 40
    assert read_csv(tmp_path / "a.csv", f"a\n{third}\n").X[0, 0] == float(third)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,2\nx,2\n", r"a.csv, line 3, column 'a': expected a finite number, got 'x'\. All "),
        ("a,y\n1,2\n1,\n", "a.csv, line 3, column 'y': expected a finite number, got nothing.$"),
        ("a,y\n1,2\n,2\n", "line 3, column 'a': expected a finite number, got nothing"),
        ("a,y\n1,nan\n", "line 2, column 'y': expected a finite number, got 'nan'"),
        ("a,y\n1,inf\n", "line 2, column 'y': expected a finite number, got 'inf'"),
        ("a,y\n1,1e999\n", "line 2, column 'y': expected a finite number, got '1e999'"),
        (f"a,y\n1,{'1' * 400}\n", "line 2, column 'y': expected a finite number, got '1111"),
        ('a,y\n"1"2,1\n', "line 2, column 'a': expected a finite number, got '1\"2'"),
        ("a,y\n1 2,1\n", "line 2, column 'a': expected a finite number, got '1 2'"),
        ('a,y\n"1\n",2\n', r"line 2, column 'a': expected a finite number, got '1\\n'"),
        ("a,qid\n1,\n", "line 2, column 'qid': expected an id, got nothing"),
        ("a,y\n1,2\n\n3\n", "line 4: expected 2 cells as in the header, got 'fewer cells'"),
        ("a,y\n1,2\n3,4,5\n", "line 3: expected 2 cells as in the header, got 'more cells'"),
        ('a,y\n1,2\n3,"4\n5,6\n', r"line 3: expected a closing quote, got '4\\n5,6'"),
        ("a,y\n", "line 2: expected a row below the header, got nothing"),
        ("", "line 1: expected a header with a name for each column, got nothing"),
        ("a,,y\n1,2,3\n", "line 1: expected a header with a name for each column, got 'a,,y'"),
        ("a,y,a\n1,2,3\n", "line 1: expected a header with different names, got 'a twice'"),
        ('a,"y\n1,2\n', "line 1: expected a header"),
        ("a,y,label\n1,2,3\n", r"expected one column for `y`, got \['y', 'label'\]. Choose one"),
        ("a,qid,query\n1,2,3\n", "expected one column for `qid`"),
    ],
)
def test_bad_csv_is_named_with_its_place(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        read_csv(tmp_path / "a.csv", text)


def test_lines_inside_cells_are_counted(tmp_path):
    text = 't,a,y\n"two\nlines",1,2\n"x\n\ny",1,2\nz,z,2\n'
    with pytest.raises(DataFileError, match="line 7, column 'a': expected a finite number"):
        read_csv(tmp_path / "a.csv", text, features=["a"])


@pytest.mark.parametrize("option", [{"y": "z"}, {"qid": "z"}, {"features": ["a", "z"]}])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_column_that_is_not_there_is_named(tmp_path, option, suffix):
    path = tmp_path / f"a{suffix}"
    write_table(path, {"a": [1.0], "y": [2.0]})
    message = rf"expected a column 'z' for `{next(iter(option))}`, got the columns \['a', 'y'\]"
    with pytest.raises(DataFileError, match=message):
        read_table(path, **option)


def test_hint_about_features_stands_only_where_it_helps(tmp_path):
    text = "a,b,y\n1,x,2\n"
    with pytest.raises(DataFileError, match=r"choose others with features=\[\.\.\.\]"):
        read_csv(tmp_path / "a.csv", text)
    with pytest.raises(DataFileError, match="got 'x'.$"):
        read_csv(tmp_path / "a.csv", text, features=["b"])
    with pytest.raises(DataFileError, match="got 'x'.$"):
        read_csv(tmp_path / "a.csv", text, y="b")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1, 2], pa.int8()), [1.0, 2.0]),
        (pa.array([1, 2], pa.uint64()), [1.0, 2.0]),
        (pa.array([0.5, 2], pa.float32()), [0.5, 2.0]),
        (pa.array([True, False]), [1.0, 0.0]),
    ],
)
def test_parquet_columns_of_any_numeric_type_are_numbers(tmp_path, column, values):
    parquet.write_table(pa.table({"f.1": column}), tmp_path / "a.parquet")
    data = read_table(tmp_path / "a.parquet")
    assert data.X[:, 0].tolist() == values
    assert data.feature_names == ["f.1"]


@pytest.mark.parametrize(
    ("ids", "read"),
    [
        (pa.array([3, 4], pa.int16()), [3, 4]),
        (pa.array(["a", "b"]), ["a", "b"]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    ],
)
def test_parquet_ids_may_be_of_any_type(tmp_path, ids, read):
    parquet.write_table(pa.table({"qid": ids, "a": [1.0, 2.0]}), tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").qid.tolist() == read


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x", "y"]}, "all rows, column 'a': expected numbers, got string. All columns"),
        ({"a": [1.0, None]}, "row 2, column 'a': expected a finite number, got none"),
        ({"a": [1.0, float("inf")]}, "row 2, column 'a': expected a finite number"),
        ({"a": [1.0, 2.0], "qid": ["x", None]}, "row 2, column 'qid': expected an id, got none"),
        ({"a": [1.0, 2.0], "qid": [1.0, float("nan")]}, "row 2, column 'qid': expected an id"),
    ],
)
def test_bad_parquet_is_named_with_its_place(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataFileError, match=message):
        read_table(tmp_path / "a.parquet")


def test_file_that_is_no_parquet_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("a,y\n1,2\n")
    with pytest.raises(DataFileError, match="a.parquet: expected a Parquet file, got one that is"):
        read_table(path)
    write_table(path, {"a": np.arange(100.0)})
    damaged = bytearray(path.read_bytes())
    damaged[30:100] = b"z" * 70
    path.write_bytes(damaged)
    with pytest.raises(DataFileError, match="a.parquet: expected a Parquet file, got one that is"):
        read_table(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_file_is_the_systems_error(tmp_path, suffix):
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / f"none{suffix}")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_table(path, {"a": [1.0]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"Reading Parquet files needs pyarrow.*\[tables\]"):
        read_table(path)
    with pytest.raises(MissingExtraError, match=r"Writing Parquet files needs pyarrow.*\[tables\]"):
        write_table(path, {"a": [2.0]})


def test_interrupted_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_table(path, {"a": [1.0]})

    def fail(table, where):
        raise OSError(28, "no room")

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(OSError, match="no room"):
        write_table(path, {"a": [2.0]})
    assert read_table(path).X.tolist() == [[1.0]]
    assert list(tmp_path.iterdir()) == [path]


def test_columns_of_other_shapes_are_refused(tmp_path):
    for columns in [{"a": [1.0], "b": [1.0, 2.0]}, {"a": [[1.0]]}, {"a": 1.0}]:
        with pytest.raises(InvalidInputError, match="`columns` must be vectors of one length"):
            write_table(tmp_path / "a.csv", columns)


def test_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(DataFileError, match=r"ends in one of \.csv, \.parquet.*, got '\.ods'"):
        read_table(tmp_path / "a.ods")
    with pytest.raises(DataFileError, match=r"ends in one of \.csv, \.parquet.*, got ''"):
        write_table(tmp_path / "a", {"a": [1.0]})


def test_damaged_parquet_is_refused_or_read(tmp_path):
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    write_table(path, {"a": rng.normal(size=50), "y": np.arange(50), "qid": ["x", "y"] * 25})
    content = path.read_bytes()
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=3):
            damaged[place] = int(rng.integers(256))
        path.write_bytes(damaged)
        try:
            assert read_table(path).n_items > 0
        except DataFileError as error:
            assert "a.parquet" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 100
