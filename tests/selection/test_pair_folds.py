"""Folds of comparisons."""

import numpy as np
import pytest

from rankwise import InvalidInputError, PairKFold

PAIRS = np.random.default_rng(0).permuted(np.tile(np.arange(6), (40, 1)), axis=1)[:, :2]


def test_every_comparison_is_held_out_once_and_repeats_stay_together():
    held_out = np.zeros(len(PAIRS))
    for train, test in PairKFold(4, random_state=0).split(PAIRS):
        held_out[test] += 1
        assert len(train) + len(test) == len(PAIRS)
        known = {frozenset(pair) for pair in PAIRS[train].tolist()}
        assert not known & {frozenset(pair) for pair in PAIRS[test].tolist()}
    assert (held_out == 1).all()


def test_groups_stay_together():
    judge = np.arange(len(PAIRS)) % 5
    for train, test in PairKFold(5).split(PAIRS.astype(str), judge):
        assert not set(judge[train]) & set(judge[test])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairKFold(1), "`n_splits` must lie between 2"),
        (lambda: PairKFold(99), "`n_splits` must lie between 2"),
        (lambda: PairKFold(0), "`n_splits` must be a whole"),
    ],
)
def test_bad_numbers_of_folds_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        list(call().split(PAIRS))


def test_bad_pairs_are_refused():
    with pytest.raises(InvalidInputError, match="`pairs` must have shape"):
        list(PairKFold(2).split([1, 2, 3]))
    with pytest.raises(InvalidInputError, match="`groups` must have one entry"):
        list(PairKFold(2).split(PAIRS, [1, 2]))
