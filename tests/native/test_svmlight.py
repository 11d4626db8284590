"""Parsed lines against a pattern for lines."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from rankwise.native import svmlight

WELL_FORMED = [
    b"2 qid:7 1:0.5 3:-1e-3 # a  b \r\n",
    b" +.5\t12:1. 13:.25\r 14:1E+5#\n",
    b"-0 1:-0.0\n",
    b"# nothing else\n",
    b" \t\n",
    b"1#2\n",
    b"0.1234567890123456789012345 qid:x:y\t2:1234567890123456789012345 1:1e-400 #q#\n",
]
PIECES = st.sampled_from(
    [*b"012.e-+:#", b"1:2", b" ", b"\t", b"\r", b"\n", b"qid:", b"1e5", b"\xff", b"nan", b"1_0"]
).map(lambda piece: piece if isinstance(piece, bytes) else bytes([piece]))


def parsed(text, largest=np.inf):
    """Return the rows of a text as `reference.svmlight_rows` does, the code and the place."""
    characters = np.frombuffer(text, np.uint8)
    n_rows, n_values = text.count(b"\n"), text.count(b":")
    y, values, indices = np.empty(n_rows), np.empty(n_values), np.empty(n_values, np.int32)
    indptr, line = np.empty(n_rows + 1, np.int64), np.empty(n_rows, np.int64)
    qid, comment = np.empty((2, n_rows, 2), np.int64)
    long = np.empty((n_rows + n_values, 3), np.int64)
    room = y, indptr, indices, values, qid, comment, line, long
    n_rows, n_values, n_long, n_lines, code, pos = svmlight.parse_lines(characters, largest, *room)
    assert indptr[n_rows] <= n_values
    for slot, start, stop in long[:n_long].tolist():
        target, place = (values, slot) if slot >= 0 else (y, -1 - slot)
        target[place] = float(text[start:stop])
    rows = []
    for i in range(n_rows):
        own = slice(indptr[i], indptr[i + 1])
        words = [text[a:b] for a, b in (qid[i], comment[i])]
        entries = indices[own].tolist(), values[own].tolist()
        rows.append((int(line[i]), float(y[i]), words[0], *entries, words[1]))
    return rows, code, (n_lines, pos)


def test_well_formed_lines_are_read():
    text = b"".join(WELL_FORMED)
    rows, code, where = parsed(text)
    assert repr(rows) == repr(reference.svmlight_rows(text))  # signs of zeros as well
    assert len(rows) == 5
    assert (code, where) == (svmlight.OK, (7, len(text)))


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES | st.sampled_from(WELL_FORMED)))
def test_lines_are_read_as_their_pattern_says_or_refused(pieces):
    text = b"".join([*pieces, b"\n"])
    rows, code, (n_lines, pos) = parsed(text)
    right = reference.svmlight_rows(text)
    if right is not None and all(np.isfinite(row[1]) for row in right):
        assert code == svmlight.OK
        assert repr(rows) == repr(right)
    if code != svmlight.OK:
        assert text.count(b"\n", 0, pos) == n_lines - 1
        assert repr(rows) == repr(reference.svmlight_rows(text[: text.rfind(b"\n", 0, pos) + 1]))


@pytest.mark.parametrize(
    ("line", "code", "piece"),
    [
        (b"x 1:2\n", svmlight.BAD_TARGET, b"x"),
        (b"1e999 1:2\n", svmlight.BAD_TARGET, b"1e999"),
        (b"1x\n", svmlight.BAD_TARGET, b"1x"),
        (b"1 qid: 1:2\n", svmlight.BAD_QID, b"qid:"),
        (b"1 q\n", svmlight.BAD_QID, b"q"),
        (b"1 1:2 x:3\n", svmlight.BAD_FEATURE, b"x:3"),
        (b"1 2147483648:3\n", svmlight.BAD_FEATURE, b"2147483648:3"),
        (b"1 99999999999999999999999:3\n", svmlight.BAD_FEATURE, b"9999"),
        (b"1 1:\n", svmlight.BAD_VALUE, b"1:"),
        (b"1 1:4e38\n", svmlight.BAD_VALUE, b"1:4e38"),
        (b"1 1:2:3\n", svmlight.BAD_VALUE, b"1:2:3"),
    ],
)
def test_the_first_bad_piece_is_found(line, code, piece):
    text = b"2 qid:1 1:0.5\n\n" + line
    rows, found, (n_lines, pos) = parsed(text, largest=float(np.finfo(np.float32).max))
    assert (len(rows), found, n_lines) == (1, code, 3)
    assert text[pos:].startswith(piece)


@pytest.mark.parametrize("text", [b"", b"\n", b"# only\n \t\r\n"])
def test_text_without_rows(text):
    assert parsed(text)[:2] == ([], svmlight.OK)


def test_threads_may_parse_side_by_side():
    texts = [b"".join(b"%d 1:%d.5\n" % (i, i + k) for i in range(2000)) for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(parsed, texts))
    assert found == [parsed(text) for text in texts]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([b"0", b"-7", b"123456789012345678"], [0, -7, 123456789012345678]),
        ([b"7", b"007"], None),
        ([b"-0"], None),
        ([b"+7"], None),
        ([b"-"], None),
        ([b""], None),
        ([b"1234567890123456789"], None),
        ([b"12a"], None),
        ([], []),
    ],
)
def test_integers_are_read_if_written_as_python_prints_them(words, numbers):
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    spans = np.column_stack([ends - [len(word) for word in words], ends]).astype(np.int64)
    out = np.empty(len(words), np.int64)
    text = np.frombuffer(b"".join(words) + b"\n", np.uint8)
    assert svmlight.parse_integers(text, spans, out) == (numbers is not None)
    assert numbers is None or out.tolist() == numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_are_written_into_zeros(dtype):
    indptr, indices = np.array([0, 2, 2, 3]), np.array([1, 3, 2], np.int32)
    values = np.array([0.5, -0.0, 2.0], dtype)
    for array in (indptr, indices, values):
        array.flags.writeable = False
    X = np.zeros((5, 3), dtype)
    svmlight.scatter_rows(indptr, indices, values, 1, X[1:4])
    right = np.zeros((5, 3))
    right[1, 0], right[3, 1] = 0.5, 2.0
    np.testing.assert_array_equal(X, right)


def rows_of(text, n_columns, n_most=10):
    """Return the rows that a text begins with, and the rest; None where it is read otherwise."""
    given = np.frombuffer(text, np.uint8)
    out = np.full((n_most, n_columns), 7.0)
    n_rows, end = svmlight.parse_json_rows(given, text.index(b"["), out)
    return (out[:n_rows], text[end:]) if n_rows else None


@pytest.mark.parametrize("blank", ["", " ", "\n\t\r "])
def test_rows_are_read_as_by_json(blank):
    rng = np.random.default_rng(0)
    numbers = [rng.normal(), 1e-310, 0.0, -0.0, 5e300, 0.1, -7, 0, 123456789012345678, 1e22, 2.5e-7]
    rows = [rng.permutation(numbers).tolist() for _ in range(6)]
    words = [f"{blank},{blank}".join(map(str, row)) for row in rows]
    items = "".join(
        ["[", blank, f"{blank},".join(f"[{blank}{w}{blank}]" for w in words), blank, "]"]
    )
    found, rest = rows_of(f'{{"items": {items}}}'.encode(), len(numbers))
    assert found.view(np.int64).tolist() == np.array(json.loads(items)).view(np.int64).tolist()
    assert rest == b"}"


@pytest.mark.parametrize(
    "word",
    [
        "",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e3",
        "01",
        "-01",
        "1e",
        "1e+",
        "1e999",
        "NaN",
        "-Infinity",
        "null",
        "true",
        '"1"',
        "[1]",
        "0x1",
        "1_0",
        "1 2",
        "1234567890123456789",
        "0.12345678901234567890123",
    ],
)
def test_what_is_no_short_number_is_left_to_json(word):
    assert rows_of(f'{{"items": [[0.5, {word}]]}}'.encode(), 2) is None
    assert rows_of(f'{{"items": [[{word}, 0.5]]}}'.encode(), 2) is None


@pytest.mark.parametrize(
    "items",
    [
        "[]",
        "[[]]",
        "[[1, 2], []]",
        "[[1, 2, 3]]",
        "[[1]]",
        "[[1, 2],]",
        "[[1, 2,]]",
        "[,[1, 2]]",
        "[[1, 2]",
        "[[1, 2",
        "[1, 2]",
        "[[1, 2] [1, 2]]",
        "[[1, 2], [1, 2], [1, 2]]",
    ],
)
def test_lists_of_another_form_are_left_to_json(items):
    assert rows_of(f'{{"items": {items}}}'.encode(), 2, n_most=2) is None


def test_minus_zero_is_zero_as_an_integer_alone():
    found, _ = rows_of(b"[[-0, -0.0, -0e0]]}", 3)
    assert np.signbit(found).tolist() == [[False, True, True]]
