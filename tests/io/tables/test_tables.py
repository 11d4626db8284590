import csv
import itertools
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from rankwise.core.errors import DataFileError, InvalidInputError, MissingExtraError
from rankwise.io.comparisons import read_pairs
from rankwise.io.numbers import texts_at
from rankwise.io.tables.csv import CsvTable
from rankwise.io.tables.reading import open_table, read_table, write_table
from rankwise.io.tables.table import arrow_buffer

SUFFIXES = [".csv", ".tsv", ".csv.gz", ".csv.xz", ".tsv.bz2", ".parquet", ".pq"]
FAST = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda name: name == name.strip()
)


@pytest.fixture(params=["by the kernel", "with pyarrow", "without pyarrow"])
def reader(request, monkeypatch):
    """Read CSV files by the kernel or by pyarrow where these can, and by Python alone."""
    if request.param == "by the kernel":
        return
    monkeypatch.setattr(CsvTable, "_read_plain", lambda *_: None)
    if request.param == "without pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    else:
        monkeypatch.setattr("rankwise.io.tables.csv.SMALL_TEXT", 0)


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


@pytest.mark.usefixtures("reader")
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
    for y in ["y", "Label", "score", "RELEVANCE", "grade"]:
        for qid in ["qid", "Query_ID", "query", "search_id"]:
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


@pytest.mark.usefixtures("reader")
def test_blanks_quotes_marks_and_line_ends_do_not_matter(tmp_path):
    plain = read_csv(tmp_path / "a.csv", "a,y\n1.5,2\n-3,4\n")
    other = read_csv(tmp_path / "a.csv", b'\xef\xbb\xbfa , "y"\r\n\r\n "1.5" , 2 \r\n\r\n-3,4')
    assert other.feature_names == plain.feature_names
    assert other.X.tolist() == plain.X.tolist()
    assert other.y.tolist() == plain.y.tolist()


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_delimiter_and_encoding_are_found(tmp_path, suffix, delimiter, encoding, mark):
    lines = [["name of it", "Größe, in m", "y"], ['"a; b, c|d"', "1.5", "2"], ["e", "-3", "4"]]
    lines[0] = [f'"{cell}"' for cell in lines[0]]
    text = mark + "\r\n".join(delimiter.join(line) for line in lines)
    if encoding == "utf-16":
        text = text.removeprefix("\ufeff")
    data = read_csv(tmp_path / f"a{suffix}", text.encode(encoding), drop="name*")
    assert data.feature_names == ["Größe, in m"]
    assert data.X.tolist() == [[1.5], [-3.0]]
    assert data.y.tolist() == [2.0, 4.0]


@pytest.mark.usefixtures("reader")
def test_the_line_by_which_excel_names_the_delimiter(tmp_path):
    assert read_csv(tmp_path / "a.csv", "sep=;\na;y\n1;2\n").X.tolist() == [[1.0]]
    with pytest.raises(DataFileError, match="line 4, column 'a'"):
        read_csv(tmp_path / "a.csv", "sep=;\r\na;y\r\n1;2\r\nx;2\r\n")


def test_broken_utf16_is_refused(tmp_path):
    with pytest.raises(DataFileError, match="expected UTF-16 text.*Save it as UTF-8"):
        read_csv(tmp_path / "a.csv", b"\xff\xfea\x00\n")


@pytest.mark.usefixtures("reader")
def test_a_table_with_one_column_has_the_usual_delimiter(tmp_path):
    assert read_csv(tmp_path / "a.csv", "a\n1\n\n2\n").X.tolist() == [[1.0], [2.0]]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("1,5", "Decimal commas are not read"),
        ("-1.234,5", "Decimal commas are not read"),
        ("2024-01-31", "It is a date: leave the column out with drop='a'"),
        ("31.1.2024", "It is a date"),
        ("1/31/24", "It is a date"),
        ("2024-01-31 10:00", "It is a date"),
    ],
)
def test_decimal_commas_and_dates_are_refused_with_advice(tmp_path, cell, hint):
    with pytest.raises(DataFileError, match=f"line 2, column 'a': expected a finite.*{hint}"):
        read_csv(tmp_path / "a.csv", f"a;y\n{cell};1\n")


def test_dates_in_parquet_are_refused_with_advice(tmp_path):
    days = pa.array([1, 2], pa.date32())
    parquet.write_table(pa.table({"day": days, "y": [1.0, 2.0]}), tmp_path / "a.parquet")
    with pytest.raises(DataFileError, match="column 'day': expected numbers.*It is a date"):
        read_table(tmp_path / "a.parquet")


messy = st.one_of(
    finite.map(repr),
    st.text(st.sampled_from('0123456789.eE+-_ "\n;,|xnaif'), max_size=6),
    st.sampled_from(
        ["007", "1", "+1", " 1.5 ", "1e5", "1E+05", "nan", "inf", "0x10", "-0", "", "1."]
    ),
)


@settings(FAST, max_examples=300)
@given(
    st.lists(st.tuples(messy, messy, messy), min_size=1, max_size=4),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, None]),
    st.sampled_from([",", ";"]),
)
@example([('"1"2', "1", "2")], None, ",")
@example([('"x', "1", "2")], None, ",")
@example([("0.0", '"', "0.0"), ("0.0", '"0', "0.0")], None, ",")
def test_pyarrow_and_python_read_the_same(tmp_path, rows, quoting, delimiter):
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as stream:
        stream.write(delimiter.join(["a", "qid", "y"]) + "\n")
        if quoting is None:  # as it stands, well formed or not
            stream.write("".join(delimiter.join(row) + "\n" for row in rows))
        else:
            csv.writer(stream, delimiter=delimiter, quoting=quoting).writerows(rows)
    table = open_table(path)
    columns = [["a"], ["y"]], ["qid"]
    for quick in (table._read_with_arrow(*columns), table._read_plain(*columns)):
        if quick is not None:
            assert_read_alike(quick, table._read_here(*columns))


def assert_read_alike(quick, slow):
    """Compare what was read bit for bit."""
    for one, other in zip(*(numbers + ids for numbers, ids in (quick, slow)), strict=True):
        assert (one.dtype.kind, one.shape) == (other.dtype.kind, other.shape)
        assert one.tolist() == other.tolist()
        assert one.dtype != np.float64 or one.tobytes() == other.tobytes()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "  \r\n"])
def test_plain_text_is_read_by_the_kernel_in_parts_as_by_python(
    tmp_path, monkeypatch, delimiter, end
):
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(500, 3)).astype(str).tolist()
    rows = [[a, " q é ", f" {b}", c, str(k // 7)] for k, (a, b, c) in enumerate(cells)]
    path = tmp_path / "a.csv"
    header = delimiter.join(["a", "who", "b", "unread", "qid"])
    text = "".join(delimiter.join(row) + end for row in rows)
    path.write_bytes(f"{header}{end}{text}".encode())
    monkeypatch.setattr("rankwise.io.tables.csv.PART_BYTES", 1 << 12)
    monkeypatch.setenv("RANKWISE_NUM_THREADS", "3")
    table, columns = open_table(path), ([["b", "a"], [], ["unread"]], ["qid", "who"])
    quick = table._read_plain(*columns)
    assert_read_alike(quick, table._read_here(*columns))
    assert quick[1][0].dtype == np.int64


@pytest.mark.parametrize("odd", ["", '"quoted, cell",,x\n', "too few\n"])
def test_different_cells_are_those_of_a_look_at_each(tmp_path, odd):
    rng = np.random.default_rng(0)
    words = np.array(["a", "b", "", " é ", "model a", "model b", "1.0", "1", "None", "  "])
    rows = rng.choice(words, (300, 3)).tolist()
    path = tmp_path / "a.csv"
    path.write_text("x,y,z\n" + "".join(",".join(row) + "\n" for row in rows) + odd)
    table, columns = open_table(path), ["z", "x"]
    if odd == "too few\n":
        with pytest.raises(DataFileError, match="expected 3 cells as in the header"):
            table.coded(columns)
        return
    for column, cells in zip(table.coded(columns), table.cells(columns), strict=True):
        assert column.values[column.code].tolist() == cells
        assert len({*column.values.tolist()}) == len(column.values)


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["a", None, "b", "", "a"]),
        pa.array([1, None, 2, 1]),
        pa.array([1.5, np.nan, None, 2.0, 1.5]),
        pa.array([0, None, 86_400_000_000], pa.timestamp("us")),
        pa.array([True, None, False]),
        pa.array([None, None]),
        pa.array([[1], [2], [1]]),
        pa.array(["x", "y", None, "x"]).dictionary_encode(),
    ],
    ids=lambda cells: str(cells.type),
)
def test_different_cells_of_parquet_files_are_those_of_a_look_at_each(tmp_path, cells):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": cells}), path, row_group_size=2)
    table = open_table(path)
    (column,), (texts,) = table.coded(["x"]), table.cells(["x"])
    assert column.values[column.code].tolist() == texts
    assert column.values.tolist() == list(dict.fromkeys(texts))


ODD_LINES = ["", " ", "1,2", "1,2,3,4", "1,,3", ",2,3", "1,2,nan", "1,2,1e999", "x,2,3", "1,2,3x"]
ODD_LINES += ['"1",2,3', "1 2,2,3", "0." + "3" * 40 + ",2,3", "\t1,2,3", "1;2;3", "0x1,2,3"]


@pytest.mark.parametrize("line", ODD_LINES)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_not_plain_is_left_to_the_other_readers(tmp_path, line, place):
    lines = ["1,2,3", "4,5,6"]
    lines.insert(place, line)
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,qid,b", *lines, ""]))
    assert open_table(path)._read_plain([["a", "b"]], ["qid"]) is None


def test_pyarrow_reads_what_is_well_formed_and_nothing_is_lost_without_it(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    monkeypatch.setattr(CsvTable, "_read_plain", lambda *_: None)
    rng = np.random.default_rng(0)
    write_table(
        path, {"a": rng.normal(size=99), "qid": rng.integers(9, size=99), "t": ["x, y"] * 99}
    )
    table = open_table(path)
    assert table._read_with_arrow([["a"]], ["qid", "t"]) is not None
    quick, words = table.read([["a"]], ["qid", "t"]), table.words("t")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    slow = table.read([["a"]], ["qid", "t"])
    assert quick[0][0].tobytes() == slow[0][0].tobytes()
    assert [one.tolist() for one in quick[1]] == [one.tolist() for one in slow[1]]
    assert table.words("t") == words == ["x, y"] * 99


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_quotes_are_read_by_the_kernel_as_row_by_row(tmp_path, line_end):
    cells = ["x", '"x"', '"x, y"', '"line 1\nline 2"', ' "x" ', '""', '"a;b"', 'inch: 5"', "é"]
    rows = [f"{a},{b},{k}" for k, (a, b) in enumerate(itertools.product(cells, cells))]
    path = tmp_path / "a.csv"
    path.write_text(line_end.join(["text,name,number", *rows, ""]), newline="")
    table = open_table(path)
    (numbers,), spans = table._parsed([["number"]], ["text", "name"], may_be_blank=True)
    found = [texts_at(table.text, one) for one in spans]
    assert found == table.cells(["text", "name"])
    assert numbers.ravel().tolist() == list(range(len(rows)))
    assert table._read_plain([["number"]], ["name"]) is None  # some are blank


@pytest.mark.parametrize(
    "cell", ['"x', '"x" y', '"x"y"', '"say ""x"""'], ids=["open", "after", "between", "doubled"]
)
def test_odd_quotes_are_left_to_a_closer_look(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"text,number\nx,1\n{cell},2\ny,3\n")
    assert open_table(path)._read_plain([["number"]], ["text"]) is None


def test_a_cell_that_is_not_read_may_hold_anything_in_quotes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,number\n"say ""x"",\nand y",1\n"""",2\n')
    assert open_table(path)._read_plain([["number"]], [])[0][0].ravel().tolist() == [1.0, 2.0]


def test_pyarrow_reads_large_files_in_pieces_and_without_pandas(tmp_path):
    path = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=60_000), np.arange(60_000.0)
    write_table(path, {"a": a, "b": b, "text": ['x, "y"'] * 60_000})  # with doubled quotes
    table = open_table(path)
    assert table._arrow_table({"a"}, set()).column("a").num_chunks > 1
    assert np.array_equal(table.read([["b", "a"]], [])[0][0], np.column_stack([b, a]))
    program = (
        "import sys\nfrom rankwise.io.tables.reading import open_table\n"
        f"open_table({str(path)!r}).read([['a']], ['text'])\n"
        "print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


def test_names_of_parquet_are_read_without_pandas(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"winner": ["x", "y"], "loser": ["y", "x"]}), path)
    program = (
        "import sys\nfrom rankwise.io import read_comparisons\n"
        f"read_comparisons({str(path)!r})\nprint('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]


@pytest.mark.usefixtures("reader")
def test_long_numbers_are_read_as_float_does(tmp_path):
    third = "0." + "3" * 40
    assert read_csv(tmp_path / "a.csv", f"a\n{third}\n").X[0, 0] == float(third)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,2\nx,2\n", r"a.csv, line 3, column 'a': expected a finite number, got 'x'\. All "),
        (
            "a,y\n1,2\n1,\n",
            r"a.csv, line 3, column 'y': expected a finite number, got nothing\. Sc",
        ),
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
        ("a,y\n\n", "line 2: expected a row below the header, got nothing"),
        ("", "line 1: expected a header with a name for each column, got nothing"),
        ("a,,y\n1,2,3\n", "line 1: expected a header with a name for each column, got 'a,,y'"),
        ("a,y,a\n1,2,3\n", "line 1: expected a header with different names, got 'a twice'"),
        ('a,"y\n1,2\n', "line 1: expected a header"),
        (
            "a,y,label\n1,2,3\n",
            r"must have one column for `y`: it has \['y', 'label'\]. Choose",
        ),
        ("a,qid,session_id\n1,2,3\n", "must have one column for `qid`"),
    ],
)
def test_bad_csv_is_named_with_its_place(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        read_csv(tmp_path / "a.csv", text)


@pytest.mark.usefixtures("reader")
def test_lines_inside_cells_are_counted(tmp_path):
    text = 't,a,y\n"two\nlines",1,2\n"x\n\ny",1,2\nz,z,2\n'
    with pytest.raises(DataFileError, match="line 7, column 'a': expected a finite number"):
        read_csv(tmp_path / "a.csv", text, features=["a"])


@pytest.mark.parametrize("option", [{"y": "z"}, {"qid": "z"}, {"features": ["a", "z"]}])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_column_that_is_not_there_is_named(tmp_path, option, suffix):
    path = tmp_path / f"a{suffix}"
    write_table(path, {"a": [1.0], "y": [2.0]})
    message = rf"must have the column 'z' for `{next(iter(option))}`: its columns are \['a', 'y'\]"
    with pytest.raises(DataFileError, match=message):
        read_table(path, **option)


def test_close_names_are_suggested(tmp_path):
    with pytest.raises(DataFileError, match="'relevnce' for `y`.*Did you mean 'relevance'"):
        read_csv(tmp_path / "a.csv", "a,relevance\n1,2\n", y="relevnce")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"features": "f*"}, ["f1", "f2", "f-3"]),
        ({"features": "f1-f2"}, ["f1", "f2"]),
        ({"features": "f1-f-3"}, ["f1", "f2", "f-3"]),
        ({"features": "f-3"}, ["f-3"]),
        ({"features": ["g", "f1:f2"]}, ["g", "f1", "f2"]),
        ({"drop": ["f1:f-3", "t"]}, ["g"]),
        ({"drop": "t", "item": "g"}, ["f1", "f2", "f-3"]),
    ],
)
def test_patterns_and_ranges_choose_columns(tmp_path, options, expected):
    data = read_csv(tmp_path / "a.csv", "f1,f2,f-3,g,t,y\n1,2,3,4,t,0\n5,6,7,8,u,1\n", **options)
    assert data.feature_names == expected
    assert data.columns.y == "y"
    assert (data.items is None) == ("item" not in options)


@pytest.mark.parametrize(
    ("header", "column", "message"),
    [
        ("f,doc_id,y", lambda i: i % 3, "'doc_id' looks like an id. Say what it is: drop='doc_id'"),
        ("f,article,y", lambda i: 7 * i, "'article' looks like an id.*qid='article'"),
        ("f,search,y", lambda i: i // 5, "'search' looks like an id of queries.*qid='search'"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_are_no_features_in_silence(tmp_path, suffix, header, column, message):
    path = tmp_path / f"a{suffix}"
    names = header.split(",")
    values = [np.ones(40), column(np.arange(40)), np.arange(40) % 2]
    write_table(path, dict(zip(names, values, strict=True)))
    with pytest.raises(DataFileError, match=message):
        read_table(path)
    assert read_table(path, drop=names[1]).feature_names == ["f"]
    assert read_table(path, qid=names[1]).feature_names == ["f"]
    assert read_table(path, features=names[:2]).feature_names == names[:2]


def test_whole_numbers_in_any_order_are_features(tmp_path):
    rng = np.random.default_rng(0)
    write_table(tmp_path / "a.csv", {"year": rng.integers(9, size=60), "y": rng.normal(size=60)})
    assert read_table(tmp_path / "a.csv").feature_names == ["year"]


def test_hint_about_features_stands_only_where_it_helps(tmp_path):
    text = "a,b,y\n1,x,2\n"
    with pytest.raises(DataFileError, match=r"choose others with features=.*drop='b'"):
        read_csv(tmp_path / "a.csv", text)
    with pytest.raises(DataFileError, match="got 'x'.$"):
        read_csv(tmp_path / "a.csv", text, features=["b"])
    with pytest.raises(
        DataFileError, match=r"got 'x'\. Scores are numbers.* 0 for the other, or say with positive"
    ):
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


@pytest.mark.parametrize("read", [read_table, read_pairs])
def test_parquet_without_rows_is_refused(tmp_path, read):
    nothing = pa.array([], pa.int64())
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"winner": nothing, "loser": nothing}), path)
    with pytest.raises(DataFileError, match="a.parquet: expected at least one row, got column"):
        read(path)


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

    def fail(table, where, **options):
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
    with pytest.raises(DataFileError, match=r"ends in one of \.csv, \.json.*, got '\.ods'"):
        read_table(tmp_path / "a.ods")
    with pytest.raises(DataFileError, match=r"ends in one of \.csv, \.json.*, got ''"):
        write_table(tmp_path / "a", {"a": [1.0]})


def test_no_flipped_bit_of_a_parquet_file_of_ours_changes_what_is_read(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "a.parquet"
    columns = {"qid": np.arange(30) // 5, "a": rng.normal(size=30), "b": rng.normal(size=30)}
    write_table(path, {**columns, "y": rng.integers(0, 3, size=30)})
    right, content = read_table(path), path.read_bytes()
    refused = 0
    for place in range(4, len(content) - 8):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))  # every bit was tried once, in a minute
        path.write_bytes(damaged)
        try:
            data = read_table(path)
        except DataFileError:
            refused += 1
            continue
        for name in ("X", "y", "qid"):
            np.testing.assert_array_equal(getattr(data, name), getattr(right, name))
    assert refused > 0


def test_a_parquet_file_without_checksums_is_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"y": [0, 1], "a": [0.5, 1.5]}), path)
    np.testing.assert_array_equal(read_table(path).X, [[0.5], [1.5]])


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


def test_a_buffer_for_pyarrow_owns_nothing_that_its_threads_would_release():
    text = b"a,b\n" + bytes(range(48, 58)) * 3
    before = sys.getrefcount(text)
    buffer = arrow_buffer(pa, text, 4)
    assert sys.getrefcount(text) == before
    assert buffer.to_pybytes() == text[4:]
    assert arrow_buffer(pa, text, len(text)).size == 0


def test_a_header_with_a_lone_carriage_return_is_refused(tmp_path):
    path = tmp_path / "damaged.csv"
    path.write_bytes(b"y,qid\rx,z\n1,2,3\n")
    with pytest.raises(DataFileError, match=r"damaged\.csv, line 1: expected a header"):
        read_table(path)


@FAST
@given(
    st.lists(
        st.tuples(*3 * [st.text(st.characters(codec="utf-8", exclude_characters="\0"))]),
        min_size=1,
    ),
    st.sampled_from([",", ";", "\t", "|"]),
)
@example([('say ""hi""', " blanks ", "two\r\nlines"), ("", '"', "\n")], ",")
def test_quoted_cells_are_read_as_they_were_written(tmp_path, rows, delimiter):
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerows([("a", "b", "c"), *rows])
    found = open_table(path).cells(["c", "a", "b"])
    assert list(zip(*found, strict=True)) == [(c, a, b) for a, b, c in rows]


def test_quotes_inside_plain_cells_are_letters(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('qid,x\n5" disk,1\na""b,2\n "c" ,3\n')
    assert read_table(path).qid.tolist() == ['5" disk', 'a""b', "c"]


@pytest.mark.usefixtures("reader")
def test_cells_may_be_longer_than_the_limit_of_pythons_csv_module(tmp_path):
    long = "x" * (csv.field_size_limit() + 1)
    data = read_csv(tmp_path / "a.csv", f'qid,x\n{long},1\n"{long},",2\n')
    assert data.qid.tolist() == [long, f"{long},"]
    assert data.X.tolist() == [[1.0], [2.0]]


@pytest.mark.usefixtures("reader")
def test_an_open_quote_is_found_in_a_long_file(tmp_path):
    rows = "".join(f"{i},{i}\n" for i in range(5000))
    with pytest.raises(DataFileError, match="line 5002: expected a closing quote, got '7,1"):
        read_csv(tmp_path / "a.csv", f'a,y\n{rows}"7,1\n{rows}')


def test_rows_with_quotes_that_are_too_long_are_refused(tmp_path):
    with pytest.raises(DataFileError, match="line 2: expected 2 cells as in the header, got 'more"):
        read_csv(tmp_path / "a.csv", 'a,y\n"1",2,3,4,5\n')


def test_small_files_start_no_threads_of_pyarrow(tmp_path):
    """A process that ends while they start is aborted by pyarrow."""
    path = tmp_path / "small.csv"
    path.write_text("a,qid\n1,x\n2,y\n")
    program = (
        "import sys\nfrom rankwise.io.tables.reading import open_table, read_table\n"
        f"read_table({str(path)!r}); open_table({str(path)!r}).words('qid')\n"
        "print('pyarrow.csv' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"]
