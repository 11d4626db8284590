"""The name of a file gives its format; chunks hold what the same file holds when read whole."""

import gzip
import os
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from rankwise.core.errors import DataFileError
from rankwise.io import iter_svmlight, read_svmlight, read_table, write_svmlight, write_table
from rankwise.io.reading import RowStore, open_stream, read
from systems import needs_named_pipes


def dense(X):
    return X.toarray() if issparse(X) else X


@pytest.mark.parametrize("density", [0.2, 0.9])
@pytest.mark.parametrize("memory", [100, 10**6])
def test_svmlight_chunks_are_the_whole_file(tmp_path, density, memory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < density)
    path = tmp_path / "train.txt"
    write_svmlight(path, csr_array(X), rng.integers(0, 3, 40), qid=np.repeat(np.arange(8), 5))
    stream = open_stream(path, memory=memory, n_features=7)
    whole = read_svmlight(path, n_features=7)
    for _ in range(2):
        chunks = list(stream.chunks())
        assert len({issparse(chunk.X) for chunk in chunks}) == 1
        np.testing.assert_array_equal(np.vstack([dense(c.X) for c in chunks]), dense(whole.X))
        np.testing.assert_array_equal(np.concatenate([c.y for c in chunks]), whole.y)
        np.testing.assert_array_equal(np.concatenate([c.qid for c in chunks]), whole.qid)
    assert (len(chunks) > 1) == (memory == 100)
    assert (stream.n_items, stream.n_features, stream.has_qid) == (40, 7, True)
    assert stream.feature_names is None


@pytest.mark.parametrize("memory", [1, 1000, 10**6])
def test_parquet_chunks_are_the_whole_file(tmp_path, memory):
    rng = np.random.default_rng(0)
    path = tmp_path / "train.parquet"
    columns = {"a": rng.normal(size=30), "b": rng.integers(0, 9, 30), "label": rng.random(30)}
    write_table(path, columns | {"query": np.repeat(["x", "y", "z"], 10)})
    stream = open_stream(path, memory=memory)
    whole = read_table(path)
    chunks = list(stream.chunks())
    np.testing.assert_array_equal(np.vstack([c.X for c in chunks]), whole.X)
    np.testing.assert_array_equal(np.concatenate([c.y for c in chunks]), whole.y)
    np.testing.assert_array_equal(np.concatenate([c.qid for c in chunks]), whole.qid)
    assert (stream.n_items, stream.n_features, stream.has_qid) == (30, 2, True)
    assert stream.feature_names == ["a", "b"]
    chosen = open_stream(path, memory=10**6, y="a", features=["b"])
    assert (chosen.n_features, chosen.y) == (1, "a")
    assert (len(chunks) == 1) == (memory == 10**6)


def test_files_without_queries_have_none(tmp_path):
    write_table(tmp_path / "a.pq", {"a": [1.0, 2.0], "y": [0, 1]})
    stream = open_stream(tmp_path / "a.pq", memory=100)
    assert not stream.has_qid
    assert next(stream.chunks()).qid is None


def test_other_files_are_refused(tmp_path):
    write_table(tmp_path / "a.csv", {"a": [1.0]})
    with pytest.raises(DataFileError, match="expected an svmlight or Parquet file"):
        open_stream(tmp_path / "a.csv", memory=100)
    write_table(tmp_path / "a.parquet", {"a": [1.0]})
    with pytest.raises(DataFileError, match="expected a column of scores"):
        open_stream(tmp_path / "a.parquet", memory=100)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("a", [1.0, 2.0, np.nan], "row 3, column 'a': expected a finite number"),
        ("a", ["u", "v", "w"], "all rows, column 'a': expected numbers"),
        ("qid", [1.0, 2.0, np.nan], "row 3, column 'qid': expected an id"),
    ],
)
def test_bad_cells_are_named_by_their_row_in_the_file(tmp_path, column, values, message):
    columns = {"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0], "qid": [1, 1, 1]}
    write_table(tmp_path / "b.parquet", columns | {column: values})
    with pytest.raises(DataFileError, match=message):
        list(open_stream(tmp_path / "b.parquet", memory=64).chunks())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [5, 70_000])
def test_stored_sparse_rows_come_back(tmp_path, n_features, dtype):
    rng = np.random.default_rng(0)
    X = csr_array((rng.random((20, 5)) < 0.4) * rng.random((20, 5)))
    X.resize((20, n_features))
    store = RowStore.create(tmp_path, n_features, dtype)
    for first, last in [(0, 7), (7, 7), (7, 20)]:
        store.append(X[first:last])
    starts = store.starts()
    for first, last in [(0, 20), (3, 9), (5, 5)]:
        values, indices, indptr = store.read_sparse(first, last, starts)
        part = X[first:last]
        np.testing.assert_array_equal(values, part.data.astype(dtype))
        np.testing.assert_array_equal(indices, part.indices)
        np.testing.assert_array_equal(indptr, part.indptr)
    assert indices.dtype == (np.uint16 if n_features == 5 else np.int32)
    assert store.is_sparse


def test_stored_dense_rows_come_back(tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 4))
    store = RowStore.create(tmp_path, 4, np.float64)
    store.append(X[:5])
    store.append(np.asfortranarray(X[5:]))
    np.testing.assert_array_equal(store.read_dense(2, 8), X[2:8])
    np.testing.assert_array_equal(store.starts(), 4 * np.arange(10))


@needs_named_pipes
@pytest.mark.parametrize("name", ["train.txt", "train.parquet"])
def test_pipes_are_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataFileError, match="expected a file to be read in chunks.*got a pipe"):
        open_stream(tmp_path / name, memory=1000)
    with pytest.raises(DataFileError, match="got a pipe"):
        read_table(tmp_path / "train.parquet") if "parquet" in name else iter_svmlight(
            tmp_path / name
        )


@pytest.mark.parametrize("zero_based", [True, False])
def test_the_numbering_is_known(tmp_path, zero_based):
    (tmp_path / "train.txt").write_text("1 2:1\n0 3:1\n")
    path = tmp_path / "train.txt"
    stream = open_stream(path, memory=1000, zero_based=zero_based)
    assert stream.zero_based is zero_based
    assert all(chunk.zero_based is zero_based for chunk in stream.chunks())
    assert read_svmlight(path, zero_based=zero_based).zero_based is zero_based
    assert read_svmlight(path).zero_based is False


X = np.array([[0.5, 1.0], [0.25, 0.0]])
Y = np.array([2.0, 0.0])
QID = np.array([7, 7])
SVMLIGHT = [".txt", ".dat.gz", ".svm", ".svmlight.xz", ".libsvm", ".letor", "", ".t", ".t.bz2"]


@pytest.mark.parametrize("suffix", SVMLIGHT)
def test_svmlight_is_known_by_its_name_or_its_first_line(tmp_path, suffix):
    path = tmp_path / f"train{suffix}"
    write_svmlight(path, X, Y, QID)
    check(read(path), names=None)
    assert read(path, n_features=5).n_features == 5


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".CSV", ".parquet", ".pq"])
def test_tables_are_known_by_their_name(tmp_path, suffix):
    path = tmp_path / f"train{suffix}"
    write_table(path, {"a": X[:, 0], "b": X[:, 1], "y": Y, "qid": QID})
    check(read(path), names=["a", "b"])
    assert read(path, features=["b"]).n_features == 1


def check(data, names):
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    np.testing.assert_array_equal(data.qid, QID)
    assert data.feature_names == names


@pytest.mark.parametrize("line", ["1 1:2", "-1.5e3 qid:a 1:2", "  +.5\t3:1", "# remark\n\n2 1:1"])
def test_first_line_of_svmlight_is_recognised(tmp_path, line):
    path = tmp_path / "train"
    path.write_text(line)
    assert read(path).n_items == 1


@pytest.mark.parametrize("line", ["", "a,b,y", "1,2,3", "1 2 3", "qid:1 1:2", "PAR1"])
def test_other_files_of_other_names_are_refused(tmp_path, line):
    path = tmp_path / "train.xyz.gz"
    path.write_bytes(gzip.compress(line.encode()))
    with pytest.raises(DataFileError, match=r"train.xyz.gz: expected a name .* got .xyz and other"):
        read(path)
    bare = tmp_path / "train"
    bare.write_text(line)
    with pytest.raises(DataFileError, match="got no suffix and other lines"):
        read(bare)


def test_missing_file_is_the_systems_error(tmp_path):
    for name in ["none.txt", "none.csv", "none"]:
        with pytest.raises(FileNotFoundError):
            read(tmp_path / name)


@needs_named_pipes
@pytest.mark.parametrize("n_items", [3, 40_000])
def test_nothing_of_a_pipe_is_lost(tmp_path, n_items):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines = "".join(f"{i % 3} qid:{i // 10} 1:{i}\n" for i in range(n_items))
    writer = threading.Thread(target=lambda: pipe.write_text(lines))
    writer.start()
    data = read(pipe)
    writer.join()
    np.testing.assert_array_equal(data.X[:, 0], np.arange(n_items))


def test_tables_and_svmlight_files_are_not_mixed(tmp_path):
    (tmp_path / "a.csv").write_text("y,x\n1,2\n0,1\n")
    (tmp_path / "b.txt").write_text("1 qid:1 1:2\n")
    with pytest.raises(DataFileError, match="must all be tables, or all svmlight files"):
        read([tmp_path / "a.csv", tmp_path / "b.txt"])
