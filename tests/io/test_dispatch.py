import gzip
import os
import threading

import numpy as np
import pytest

from rankwise.core.errors import DataFileError
from rankwise.io.dispatch import read
from rankwise.io.svmlight.writer import write_svmlight
from rankwise.io.tables.reading import write_table

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
