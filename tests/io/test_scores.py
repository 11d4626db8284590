import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.rankings import read_scores, write_scores


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.sampled_from(["", ".gz"]),
)
def test_scores_are_read_back_bit_for_bit(tmp_path, scores, suffix):
    path = tmp_path / f"scores.txt{suffix}"
    write_scores(path, scores)
    assert read_scores(path).tobytes() == np.array(scores).tobytes()


def test_stream_receives_what_a_file_would(tmp_path):
    stream = io.StringIO()
    write_scores(stream, [1.5, -0.0])
    write_scores(str(tmp_path / "a.txt"), [1.5, -0.0])
    assert stream.getvalue() == (tmp_path / "a.txt").read_text() == "1.5\n-0.0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nx\n", "a.txt, line 2: expected one finite number, got 'x'"),
        ("1\n2 3\n", "line 2: expected one finite number, got '2 3'"),
        ("1\n\n2\n", "line 2: expected one finite number, got nothing"),
        ("1\r\nnan\r\n", "line 2: expected one finite number, got 'nan'"),
        ("1e999", "line 1: expected one finite number, got '1e999'"),
        ("1_000", "line 1: expected one finite number, got '1_000'"),
        ("", "line 1: expected one finite number, got nothing"),
    ],
)
def test_bad_line_is_named(tmp_path, text, message):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    with pytest.raises(DataFileError, match=message):
        read_scores(path)


def test_line_ends_and_blank_lines_at_the_end_do_not_matter(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b" 1\r\n2.5 \r\n\r\n\n")
    assert read_scores(path).tolist() == [1.0, 2.5]


def test_scores_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"`scores` must be a vector: got shape \(1, 2\)"):
        write_scores(tmp_path / "a.txt", [[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="`scores` must be finite"):
        write_scores(tmp_path / "a.txt", [np.nan])
    assert list(tmp_path.iterdir()) == []
