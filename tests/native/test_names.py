"""Texts are numbered as a dictionary numbers them; answers are counted by pair."""

import numpy as np
import pytest

from rankwise.native.names import count_answers, number_texts


def numbered(words, dtype=np.int64, offset=0):
    """Number words given as the bytes of all and where each begins, frozen."""
    coded = [word.encode() for word in words]
    text = np.frombuffer(b"x" * offset + b"".join(coded), dtype=np.uint8)
    starts = (offset + np.cumsum([0, *map(len, coded)])).astype(dtype)
    starts.flags.writeable = False
    code = np.full(len(words), -1, dtype=np.int64)
    return number_texts(text, starts[:-1], starts[1:], code).tolist(), code.tolist()


def by_dictionary(words):
    place = {word: number for number, word in enumerate(dict.fromkeys(words))}
    return [words.index(word) for word in place], [place[word] for word in words]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["", "a", "", "ab", "a", "ba", "abc", "cba", "abcd", "abcde", "bbcde", "abcdefg"],
        ["abcdefgh", "abcdefgi", "bbcdefgh", "abcdefgh"],
        ["abcdefgh" * 3, "abcdefgh" * 2 + "abcdefgi", "b" + "abcdefgh" * 3, "abcdefgh" * 3],
        ["é", "e\u0301", "名前", "\0", "\0\0", "", "\0"],
    ],
    ids=["none", "empty", "short", "eight", "long", "unicode"],
)
def test_texts_are_numbered_as_by_a_dictionary(words, dtype, offset):
    assert numbered(words, dtype, offset) == by_dictionary(words)


def test_more_texts_than_the_table_begins_with():
    rng = np.random.default_rng(0)
    words = [f"{'long ' * (k % 4)}{k}" for k in rng.integers(3_000, size=9_000).tolist()]
    first, code = numbered(words)
    place = {word: number for number, word in enumerate(dict.fromkeys(words))}
    assert code == [place[word] for word in words]
    assert [words[row] for row in first] == list(place)


@pytest.mark.parametrize("n_rows", [0, 1, 500])
def test_answers_of_pairs_are_counted_as_one_by_one(n_rows):
    rng = np.random.default_rng(n_rows)
    first = rng.integers(7, size=n_rows)
    second = (first + rng.integers(1, 7, size=n_rows)) % 7
    outcome, weight = rng.integers(-1, 2, size=n_rows), rng.random(n_rows)
    for given in (first, second, outcome, weight):
        given.flags.writeable = False
    total, expected = np.zeros(3 * 7 * 7), np.zeros((7, 7, 3))
    count_answers(first, second, outcome, weight, 7, total)
    for a, b, won, w in zip(first, second, outcome, weight, strict=True):
        expected[min(a, b), max(a, b), 1 + (won if a < b else -won)] += w
    np.testing.assert_array_equal(total.reshape(expected.shape), expected)
