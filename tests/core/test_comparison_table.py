"""Comparisons with names, and choices among several items."""

import numpy as np
import pytest

from rankwise import ChoiceTable, ComparisonTable, InvalidInputError, NothingToLearnError
from rankwise.core.comparisons.comparison_table import Labels


def table(**options):
    return ComparisonTable.of(["b", "a", "c"], ["a", "c", "b"], [1, 0, -1], **options)


def test_names_are_sorted_and_numbered():
    one = table()
    assert one.names.tolist() == ["a", "b", "c"]
    assert one.first.tolist() == [1, 0, 2]
    assert one.pairs.tolist() == [[1, 0], [1, 2]]
    assert one.tied_pairs.tolist() == [[0, 2]]
    assert one.decided.tolist() == [0, 2]


@pytest.mark.parametrize(
    "values", [["x", "y", "x"], [3, 1, 3], [("a", 1), "b", ("a", 1)], np.array(["q", "p", "q"])]
)
def test_labels_give_back_what_they_numbered(values):
    labels = Labels.of(np.array(values, dtype=object) if isinstance(values, list) else values)
    assert [labels.names[k] for k in labels.index] == list(values)
    assert labels.counts.sum() == 3


def test_names_may_be_given_with_items_never_compared():
    one = table(names=["c", "a", "b", "z"])
    assert one.names.tolist() == ["c", "a", "b", "z"]
    assert one.n_items == 4
    assert one.pairs.tolist() == [[2, 1], [2, 0]]


def test_rows_without_weight_are_left_out():
    one = table(weight=[1.0, 0.0, 2.0], judge=["x", "y", "z"], margin=[1, 2, 3], date=[0, 1, 2])
    assert one.n_rows == 2
    assert one.weight.tolist() == [1.0, 2.0]
    assert one.judge.index.tolist() == [0, 2]
    assert one.margin.tolist() == [1.0, 3.0]


def test_old_comparisons_weigh_less():
    one = table(date=["2026-01-01", "2026-01-11", "2026-01-21"]).decayed(10.0)
    np.testing.assert_allclose(one.weight / one.weight[-1], [0.25, 0.5, 1.0])
    assert one.weight.sum() == pytest.approx(1.75**2 / (0.25**2 + 0.5**2 + 1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ComparisonTable.of(["a"], ["a"]), "row 0 compares 'a' with itself"),
        (lambda: ComparisonTable.of([3], [3]), "row 0 compares 3 with itself"),
        (lambda: ComparisonTable.of(["a"], ["b", "c"]), "vectors of one length"),
        (lambda: ComparisonTable.of(["a", None], ["b", "c"]), "row 1 lacks one"),
        (lambda: ComparisonTable.of(["a", "b"], ["b", ""]), "row 1 lacks one"),
        (lambda: ComparisonTable.of(["a"], ["b"], [2]), "must be 1 .* row 0 holds"),
        (lambda: ComparisonTable.of(["a"], ["b"], [1, 1]), "`outcome` must have one entry"),
        (lambda: table(weight=[1, -1, 1]), "`weight` must be finite and not negative"),
        (lambda: table(margin=["x", "y", "z"]), "`margin` must hold numbers"),
        (lambda: table(margin=[1, np.nan, 2]), "`margin` must be finite: row 1"),
        (lambda: table(judge=["x"]), "`judge` must have one entry"),
        (lambda: table(date=["soon", "now", "late"]), "`date` must hold dates"),
        (lambda: table(names=["a", "b"]), "2 items given: got 'c'"),
        (lambda: table(names=["a", "b", "c", "a"]), "each name once: got 'a' twice"),
        (lambda: table().decayed(5.0), "`half_life` must come with dates"),
        (lambda: table(date=[1, 2, 3]).decayed(0.0), "`half_life` must be a finite number above 0"),
    ],
)
def test_bad_columns_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_an_empty_table_is_nothing_to_learn_from():
    with pytest.raises(NothingToLearnError, match="at least one comparison"):
        ComparisonTable.of([], [])
    with pytest.raises(NothingToLearnError, match="at least one choice"):
        ChoiceTable.from_rankings([["a"]])


def test_a_ranking_is_a_series_of_choices():
    one = ChoiceTable.from_rankings([["b", "a"], ["c", "a", "b"]], rest=[["c"], []])
    sets = [set(one.item[one.choice == k].tolist()) for k in range(one.n_choices)]
    assert sets == [{0, 1, 2}, {0, 2}, {0, 1, 2}, {0, 1}]
    assert one.chosen.tolist() == [1, 0, 2, 0]
    assert one.judge.tolist() == [0, 0, 1, 1]


def test_the_worst_is_chosen_among_the_others():
    one = ChoiceTable.from_best_worst([["a", "b", "c"]], ["b"], ["a"], judge=["x"])
    assert one.sign.tolist() == [1.0, -1.0]
    assert one.item[one.choice == 1].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ChoiceTable.from_best([["a", "b"]], []), "`best` must have one entry"),
        (lambda: ChoiceTable.from_best([["a", "b"]], ["c"]), "one of at least two offered"),
        (lambda: ChoiceTable.from_best([["a", "a", "b"]], ["a"]), "choice 0 has 'a' twice"),
        (
            lambda: ChoiceTable.from_best_worst([["a", "b"]], ["a"], ["b", "b"]),
            "`worst` must have one entry",
        ),
        (lambda: ChoiceTable.from_rankings([["a", "b"]], rest=[]), "`rest` must have one entry"),
        (lambda: ChoiceTable.from_rankings([["a", "b"]], judge=["x", "y"]), "`judge` must have"),
    ],
)
def test_bad_choices_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
