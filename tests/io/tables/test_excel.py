"""Excel workbooks are read like other tables, and errors name rows as Excel does."""

import numpy as np
import pytest

from rankwise.core.errors import DataFileError, MissingExtraError
from rankwise.io import read, read_table, write_table
from rankwise.io.reading import open_stream
from rankwise.io.tables.reading import open_table

xlsxwriter = pytest.importorskip("xlsxwriter")

HEAD = ["Query", "stars", "price", "new", "score", "note"]
ROWS = [
    [7, 4, 120.5, True, 2, "by the sea"],
    [7, 3, 80, False, 1, None],
    [8, 5, 90.25, True, 0, 12],
]


def workbook(path, head=HEAD, rows=ROWS):
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("items")
    for i, row in enumerate([head, *rows]):
        for j, cell in enumerate(row):
            if cell is not None:
                sheet.write(i, j, cell)
    book.add_worksheet("other").write(0, 0, "not read")
    book.close()
    return path


def test_the_first_sheet_is_read(tmp_path):
    path = workbook(tmp_path / "a.xlsx")
    data = read(path, qid="Query", features=["stars", "price", "new"])
    np.testing.assert_array_equal(data.X, [[4, 120.5, 1], [3, 80, 0], [5, 90.25, 1]])
    np.testing.assert_array_equal(data.y, [2, 1, 0])
    assert data.qid.tolist() == [7, 7, 8]
    assert open_table(path).words("note") == ["by the sea", "", "12"]


def test_it_equals_the_same_table_as_csv(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"query": list("aabbc"), "f": rng.normal(size=5), "y": rng.normal(size=5)}
    write_table(tmp_path / "a.csv", columns)
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    workbook(tmp_path / "a.xlsx", list(columns), rows)
    first, second = read_table(tmp_path / "a.csv"), read_table(tmp_path / "a.xlsx")
    np.testing.assert_allclose(first.X, second.X, rtol=1e-14)
    assert first.qid.tolist() == second.qid.tolist()


def test_errors_name_the_row_of_the_sheet(tmp_path):
    rows = [[*row] for row in ROWS]
    rows[1][2] = None
    path = workbook(tmp_path / "a.xlsx", rows=rows)
    with pytest.raises(DataFileError, match="row 3, column 'price': expected a finite number"):
        read_table(path, features=["stars", "price"])
    rows[2][0] = None
    path = workbook(tmp_path / "b.xlsx", rows=rows)
    with pytest.raises(DataFileError, match="row 4, column 'Query': expected an id"):
        read_table(path, qid="Query", features=["stars"])
    with pytest.raises(DataFileError, match="column 'note': expected numbers"):
        read_table(path, features=["note"])


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.xlsx"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataFileError, match="expected an Excel workbook"):
        read_table(path)
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.xlsx")


def test_workbooks_are_not_read_in_chunks(tmp_path):
    with pytest.raises(DataFileError, match="to be read in chunks, got '.xlsx'"):
        open_stream(workbook(tmp_path / "a.xlsx"), memory=1 << 20)


def test_workbooks_are_not_written(tmp_path):
    with pytest.raises(DataFileError, match="Excel files are read only"):
        write_table(tmp_path / "a.xlsx", {"a": [1.0]})


@pytest.mark.parametrize("package", ["fastexcel", "pyarrow"])
def test_missing_packages_name_the_extra(package, tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx")
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[tables\]"):
        read_table(path)
