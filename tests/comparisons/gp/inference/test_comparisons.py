import numpy as np
import pytest

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.core.errors import InvalidInputError, NothingToLearnError

PAIRS = [[7, 3], [3, 7], [7, 3], [9, 2], [2, 9], [3, 7]]


def test_repeats_are_counted_and_keep_the_order_of_their_first_appearance():
    merged = Comparisons.from_pairs(PAIRS)
    assert merged.winner.tolist() == [7, 3, 9, 2]
    assert merged.loser.tolist() == [3, 7, 2, 9]
    assert merged.count.tolist() == [2.0, 2.0, 1.0, 1.0]


def test_positions_point_at_the_items():
    merged = Comparisons.from_pairs(PAIRS)
    assert merged.items.tolist() == [2, 3, 7, 9]
    np.testing.assert_array_equal(merged.items[merged.pairs.first], merged.winner)
    np.testing.assert_array_equal(merged.items[merged.pairs.second], merged.loser)


def test_a_weight_counts_like_repeats():
    weighted = Comparisons.from_pairs([[7, 3], [3, 7], [9, 2], [2, 9]], weight=[2, 2, 1, 1])
    np.testing.assert_array_equal(weighted.count, Comparisons.from_pairs(PAIRS).count)


def test_a_tie_has_no_order():
    merged = Comparisons.from_pairs([[1, 0], [0, 1], [1, 0]], tied=[True, True, False])
    assert merged.count.tolist() == [2.0, 1.0]
    assert merged.tied.tolist() == [True, False]
    assert merged.winner.tolist() == [0, 1]


def test_different_margins_stay_apart():
    merged = Comparisons.from_pairs([[0, 1], [0, 1], [0, 1]], margin=[0.5, 0.25, 0.5])
    assert merged.margin.tolist() == [0.5, 0.25]
    assert merged.count.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_extending_equals_building_at_once(cut):
    old = Comparisons.from_pairs(PAIRS[:cut])
    extended = old.extend(Comparisons.from_pairs(PAIRS[cut:]))
    whole = Comparisons.from_pairs(PAIRS)
    for name in ("winner", "loser", "count", "tied", "margin", "items"):
        np.testing.assert_array_equal(getattr(extended, name), getattr(whole, name))
    np.testing.assert_array_equal(extended.winner[: old.n_pairs], old.winner)


def test_repr_says_how_much_there_is():
    expected = "Comparisons(6 answers about 4 pairs of 4 items)"
    assert repr(Comparisons.from_pairs(PAIRS)) == expected


def test_no_pairs_are_nothing_to_learn_from():
    with pytest.raises(NothingToLearnError, match="at least one comparison"):
        Comparisons.from_pairs(np.empty((0, 2), dtype=int))


@pytest.mark.parametrize("pairs", [[1, 2], [[1, 2, 3]], [[0.5, 1.0]]])
def test_pairs_must_be_whole_numbers_in_two_columns(pairs):
    with pytest.raises(InvalidInputError, match=r"whole numbers of shape \(n_pairs, 2\)"):
        Comparisons.from_pairs(pairs)


def test_row_numbers_start_at_zero():
    with pytest.raises(InvalidInputError, match="row numbers from 0 on: got -1"):
        Comparisons.from_pairs([[0, -1]])


def test_an_item_cannot_beat_itself():
    with pytest.raises(InvalidInputError, match="pair 1 compares item 4 with itself"):
        Comparisons.from_pairs([[0, 1], [4, 4]])


@pytest.mark.parametrize("name", ["tied", "margin", "weight"])
def test_every_pair_has_one_of_each(name):
    with pytest.raises(InvalidInputError, match=f"`{name}` must have one entry per pair"):
        Comparisons.from_pairs(PAIRS, **{name: [1.0]})
    with pytest.raises(InvalidInputError, match=f"`{name}` must be finite"):
        Comparisons.from_pairs(PAIRS, **{name: [1, 1, 1, 1, 1, np.nan]})


def test_weights_must_be_positive():
    with pytest.raises(InvalidInputError, match=r"`weight` must be above 0: got 0\.0"):
        Comparisons.from_pairs(PAIRS, weight=[1, 1, 1, 1, 1, 0])
