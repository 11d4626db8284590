"""The queries built from scikit-learn's digits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from rankwise import InvalidInputError, RankRLS
from rankwise.datasets import load_digits_queries


def parts(data):
    return data.train, data.validation, data.test


def images(part):
    return {row.tobytes() for row in part.X}


def queries(part):
    return [np.flatnonzero(part.qid == qid) for qid in np.unique(part.qid)]


@pytest.fixture(scope="module")
def data():
    return load_digits_queries(n_queries=40, n_items=12, random_state=3)


def test_sizes_are_as_asked(data):
    for part in parts(data):
        assert part.X.shape == (480, 64)
        assert part.n_items == len(part.y) == len(part.digits) == 480
        assert part.n_queries == 40
        assert [len(rows) for rows in queries(part)] == [12] * 40


def test_parts_share_no_image_and_no_query(data):
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        first, second = parts(data)[a], parts(data)[b]
        assert not images(first) & images(second)
        assert not set(first.qid) & set(second.qid)


def test_rows_are_scaled_images_with_their_digits(data):
    X, digits = load_digits(return_X_y=True)
    known = {row.tobytes(): digit for row, digit in zip(X / 16, digits, strict=True)}
    for part in parts(data):
        assert [known[row.tobytes()] for row in part.X] == part.digits.tolist()
        assert part.X.min() == 0.0
        assert part.X.max() == 1.0


def test_images_of_a_query_differ(data):
    for part in parts(data):
        for rows in queries(part):
            assert len({part.X[row].tobytes() for row in rows}) == len(rows)


def test_grades_are_digits_counted_from_the_lowest_of_the_query(data):
    lowest = set()
    for part in parts(data):
        for rows in queries(part):
            offset = np.unique(part.digits[rows] - part.y[rows])
            assert len(offset) == 1
            lowest.add(int(offset[0]))
        assert set(part.y) == {0.0, 1.0, 2.0, 3.0}
    assert lowest == set(range(7))


def test_all_digits_are_graded_alike_with_ten_grades():
    part = load_digits_queries(n_queries=5, n_grades=10).train
    np.testing.assert_array_equal(part.y, part.digits)


def test_random_state_decides_the_draw(data):
    again = load_digits_queries(n_queries=40, n_items=12, random_state=3)
    other = load_digits_queries(n_queries=40, n_items=12, random_state=4)
    state = load_digits_queries(n_queries=40, n_items=12, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(again.test.X, data.test.X)
    np.testing.assert_array_equal(state.test.X, data.test.X)
    assert not np.array_equal(other.test.X, data.test.X)


def test_a_ranker_of_queries_beats_the_same_one_without_queries(data):
    train, test = data.train, data.test
    ranker = RankRLS(0.01, kernel="gaussian").fit(train.X, train.y, qid=train.qid)
    regression = RankRLS(0.01, kernel="gaussian").fit(train.X, train.y)
    values = [r.score(test.X, test.y, qid=test.qid) for r in (ranker, regression)]
    assert values[0] > values[1] + 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_queries": 0}, "`n_queries` must be at least 1: got 0"),
        ({"n_items": 1}, "`n_items` must be at least 2: got 1"),
        ({"n_grades": 1}, "`n_grades` must be from 2 to 10: got 1"),
        ({"n_grades": 11}, "`n_grades` must be from 2 to 10: got 11"),
        ({"n_items": 500}, "`n_items` must not exceed the number of images of 4 digits: got 500"),
    ],
)
def test_impossible_queries_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        load_digits_queries(**options)


def test_queries_share_images_unless_told_otherwise():
    sizes = {"n_queries": 20, "n_items": 15}
    for share_images in (True, False):
        rows = load_digits_queries(share_images=share_images, **sizes).train.X
        assert (len(np.unique(rows, axis=0)) == len(rows)) is not share_images


def test_too_many_queries_without_shared_images_are_refused():
    with pytest.raises(InvalidInputError, match="if queries share no images, fewer queries"):
        load_digits_queries(n_queries=100, share_images=False)
