"""A bad line is reported with file, line number, what was expected and what was found."""

import gzip

import numpy as np
import pytest

from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.svmlight import iter_svmlight, read_svmlight, scan_svmlight

LONG_INFINITE = "1" * 400


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("abc 1:2", "expected a finite number as the target, got 'abc'"),
        ("1_0 1:2", "expected a finite number as the target, got '1_0'"),
        ("1:2", "expected a finite number as the target, got '1:2'"),
        ("nan 1:2", "expected a finite number as the target, got 'nan'"),
        ("-inf 1:2", "expected a finite number as the target, got '-inf'"),
        ("1e999 1:2", "expected a finite number as the target, got '1e999'"),
        (f"{LONG_INFINITE} 1:2", "expected a finite number as the target, got '11111"),
        ("1 quid:4 1:2", "expected qid:<id> or <feature>:<value>, got 'quid:4'"),
        ("1 q", "expected qid:<id> or <feature>:<value>, got 'q'"),
        ("1 qid", "expected qid:<id> or <feature>:<value>, got 'qid'"),
        ("1 qid: 1:2", "expected qid:<id> or <feature>:<value>, got 'qid:'"),
        ("1 1:2 qid:3", "expected the qid directly after the target, got 'qid:3'"),
        ("1 x:2", "expected <feature>:<value> with a whole number.*, got 'x:2'"),
        ("1 -1:2", "expected <feature>:<value> with a whole number.*, got '-1:2'"),
        ("1 1.5:2", "expected <feature>:<value> with a whole number.*, got '1.5:2'"),
        ("1 2147483648:2", "with a whole number below 2147483648.*, got '2147483648:2'"),
        ("1 99999999999999999999:2", "with a whole number.*, got '99999999999999999999:2'"),
        ("1 7", "expected <feature>:<value> with a whole number.*, got '7'"),
        ("1 :2", "expected <feature>:<value> with a whole number.*, got ':2'"),
        ("1 1:", "expected <feature>:<value> with a finite float64.*, got '1:'"),
        ("1 1: 2", "expected <feature>:<value> with a finite float64.*, got '1:'"),
        ("1 1:2x", "expected <feature>:<value> with a finite float64.*, got '1:2x'"),
        ("1 1:NaN", "expected <feature>:<value> with a finite float64.*, got '1:NaN'"),
        ("1 1:inf", "expected <feature>:<value> with a finite float64.*, got '1:inf'"),
        ("1 1:-1e400", "with a finite float64 as the value, got '1:-1e400'"),
        (f"1 1:{LONG_INFINITE}", "expected .* with a finite float64 .*, got '11111"),
        ("1 1:2 2:3 1:4", "expected each feature once on a line, got '1 twice'"),
        ("1 qid:1 1:2", "expected no qid, as on the lines before, got 'a qid'"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_bad_line_is_named(tmp_path, line, message, suffix):
    path = tmp_path / f"bad.txt{suffix}"
    text = f"0 1:1 2:5 # fine\n# a remark: 3:4\n{line}#abc\n0 1:1\n"
    content = text.encode()
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(DataFileError, match=rf"bad\.txt{suffix}, line 3: .*{message}"):
        read_svmlight(path)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:1\n\n1 1:2\n", "expected a qid after the target, as on the lines"),
        ("1 1:1\n\n1 qid:1 1:2\n", "expected no qid, as on the lines before"),
        ("1 1:1\n\n1 1:2\n2 1:x", "line 4: expected .* got '1:x'"),
        ("1 1:1\n\n1 1:2\n2 1:1 1:1\n", "line 4: expected each feature once"),
    ],
)
def test_line_is_counted_over_chunks(tmp_path, text, message, chunk_bytes):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        scan_svmlight(path, chunk_bytes=chunk_bytes)


def test_value_too_large_for_single_precision_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1\n1 1:1e39\n")
    with pytest.raises(DataFileError, match="line 2: .* with a finite float32 .* got '1:1e39'"):
        read_svmlight(path, dtype=np.float32)
    path.write_text(f"1 1:1\n1 1:{'9' * 40}\n")
    with pytest.raises(DataFileError, match="line 2: .* with a finite float32 .* got '9999"):
        read_svmlight(path, dtype=np.float32)


def test_feature_beyond_n_features_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1 2:1\n1 1:1 5:1\n1 5:1\n")
    with pytest.raises(
        DataFileError, match=r"line 2: expected features up to 4 \(n_features=4\), got '5'"
    ):
        read_svmlight(path, n_features=4)
    assert read_svmlight(path, n_features=5).n_features == 5
    with pytest.raises(DataFileError, match=r"line 2: expected features up to 4 \(n_features=5\)"):
        read_svmlight(path, n_features=5, zero_based=True)


def test_feature_zero_in_a_file_said_to_start_at_one_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1\n1 0:1 1:1\n")
    with pytest.raises(DataFileError, match=r"line 2: expected features from 1 .*, got '0'"):
        read_svmlight(path, zero_based=False)


def test_file_that_changed_since_the_scan_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1\n")
    scan = scan_svmlight(path)
    path.write_text("1 1:1\n1 9:1\n")
    with pytest.raises(DataFileError, match="line 2: expected features up to 1"):
        list(iter_svmlight(path, scan))


@pytest.mark.parametrize("text", ["", "\n \n", "# only\n# remarks"])
def test_file_without_items_is_refused(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(DataFileError, match="a.txt: expected lines such as"):
        read_svmlight(path)


def test_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_svmlight(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dense": "yes"}, "`dense` must be True, False or 'auto': got 'yes'"),
        ({"comments": True}, "`comments` must be 'keep' or 'skip': got True"),
        ({"dtype": np.int64}, "`dtype` must be float64 or float32: got int64"),
        ({"n_features": -1}, "`n_features` must not be negative: got -1"),
        ({"zero_based": "no"}, "`zero_based` must be True, False or 'auto': got 'no'"),
    ],
)
def test_unknown_options_are_refused(tmp_path, options, message):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1\n")
    with pytest.raises(InvalidInputError, match=message):
        read_svmlight(path, **options)


def test_chunks_of_no_bytes_are_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:1\n")
    with pytest.raises(InvalidInputError, match="`chunk_bytes` must be at least 1: got 0"):
        iter_svmlight(path, chunk_bytes=0)
    with pytest.raises(InvalidInputError, match="`chunk_bytes` must be at least 1: got 0"):
        scan_svmlight(path, chunk_bytes=0)


def test_a_feature_beyond_reason_needs_to_be_meant(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 1:0.5\n0 2147483647:1\n")
    with pytest.raises(DataFileError, match=r"line 2: expected features up to 67108864 \(or n_f"):
        read_svmlight(path)
    data = read_svmlight(path, n_features=2147483647)
    assert data.X.shape == (2, 2147483647)
    assert data.X.nnz == 2
