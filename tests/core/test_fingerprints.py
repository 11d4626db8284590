"""Fingerprints: what is torn, what is the same, what is new."""

import numpy as np
import pytest

from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries, QueryFingerprints

IDS = {
    "integers": np.array([1, 1, 2, 2, 3]),
    "floats": np.array([1.0, 1.0, 2.0, 2.0, 3.0]),
    "fractions": np.array([0.1, 0.1, 0.2, 0.2, 0.3]),
    "text": np.array(["a", "a", "b", "b", "c"]),
    "tuples": [("a", 1), ("a", 1), ("b", 1), ("b", 1), ("c", 1)],
}
Y = np.array([0.0, 1.0, 2.0, 1.0, 5.0])


def of(qid, y=Y):
    return QueryFingerprints.of(Queries.from_qid(qid), np.asarray(y))


@pytest.mark.parametrize("kind", IDS)
def test_parts_of_a_query_are_torn_and_the_whole_is_not(kind):
    qid = IDS[kind]
    whole = of(qid)
    assert whole.torn(whole) == 0
    assert whole.torn(of(list(qid)[::-1], Y[::-1])) == 0
    assert whole.torn(of(list(qid)[:1], Y[:1])) == 1
    assert whole.torn(of(list(qid)[1:4], Y[1:4])) == 1
    assert whole.torn(of(["new", "new"], [0.0, 1.0])) == 0


def test_whole_numbers_are_the_same_in_every_type():
    assert of(IDS["integers"]).torn(of(IDS["floats"])) == 0
    np.testing.assert_array_equal(of(IDS["integers"]).ids, of(IDS["floats"]).ids)


@pytest.mark.parametrize("shape", [(2,), (3, 1), ()])
def test_hashes_of_ids_without_hashes_of_scores_are_refused(shape):
    with pytest.raises(InvalidInputError, match=r"one hash .* for each query: got the shapes"):
        QueryFingerprints(np.zeros(3, np.uint64), np.zeros(shape, np.uint64))
