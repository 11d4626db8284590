"""Rankings and choices from tables, whatever form they have."""

import numpy as np
import pandas as pd
import pytest

from rankwise import ChoiceTable, ComparisonTable, DataFileError, InvalidInputError, leaderboard
from rankwise.io import ComparisonColumns, read_choices
from rankwise.io.choices import read_answers

ORDERS = [["tuna", "eel", "egg"], ["eel", "tuna"], ["egg", "tuna", "eel"]]
WHO = ["ann", "bob", "ann"]


def wide():
    rows = [[*order, ""][:3] for order in ORDERS]
    return pd.DataFrame(rows, columns=["Rank 1", "rank2", "RANK_3"]).assign(Person=WHO)


def long():
    rows = [
        (WHO[k], k, name, place)
        for k, order in enumerate(ORDERS)
        for place, name in enumerate(order, 1)
    ]
    frame = pd.DataFrame(rows, columns=["Person", "Task", "Item", "Rank"])
    return frame.sample(frac=1.0, random_state=0)


def assert_same_choices(found, expected):
    """Compare choices as sets, since their order means nothing."""

    def of(table):
        return sorted(
            (
                table.sign[k],
                table.weight[k],
                sorted(table.names[table.item[table.choice == k]].tolist()),
                table.names[table.chosen[k]],
            )
            for k in range(table.n_choices)
        )

    assert of(found) == of(expected)
    assert found.n_judges == expected.n_judges


@pytest.mark.parametrize("form", [wide, long])
def test_rankings_in_one_row_or_in_many_are_the_same(form, tmp_path):
    expected = ChoiceTable.from_rankings(ORDERS, judge=WHO)
    assert_same_choices(read_choices(form()), expected)
    form().to_csv(tmp_path / "orders.csv", index=False)
    assert_same_choices(read_answers(tmp_path / "orders.csv"), expected)
    board = leaderboard(tmp_path / "orders.csv", random_state=0)
    expected = leaderboard(expected, random_state=0)
    np.testing.assert_allclose(board.score, expected.score, rtol=1e-12)


@pytest.mark.parametrize("names", [["item1", "Item 2", "item_3"], ["option_a", "option_b", "optC"]])
def test_best_and_worst_of_what_was_offered(names):
    names = [name.replace("optC", "Option C") for name in names]
    offered = [["x", "y", "z"], ["y", "z", ""]]
    frame = pd.DataFrame(offered, columns=names).assign(best=["y", "z"], count=[2, 1], note="-")
    sets = [["x", "y", "z"], ["y", "z"]]
    one = read_answers(frame)
    assert_same_choices(one, ChoiceTable.from_best(sets, ["y", "z"], weight=[2.0, 1.0]))
    assert one.unread == ("note",)
    both = read_answers(frame.assign(Worst=["x", "y"]).head(1))
    assert_same_choices(both, ChoiceTable.from_best_worst(sets[:1], ["y"], ["x"], weight=[2.0]))


def test_comparisons_of_two_stay_comparisons():
    ranked_players = {"player1": ["x"], "player2": ["y"], "winner": ["x"], "rank1": [3]}
    assert isinstance(read_answers({**ranked_players, "rank2": [9]}), ComparisonTable)
    pairs = {"item1": ["x"], "item2": ["y"], "best": ["x"]}
    assert_same_choices(read_answers(pairs), ChoiceTable.from_rankings([["x", "y"]]))
    assert isinstance(read_answers([("x", "y")]), ComparisonTable)


def test_judges_and_counts_may_be_named():
    frame = wide().rename(columns={"Person": "From"}).assign(often=[1.0, 2.0, 3.0])
    found = read_choices(frame, ComparisonColumns(judge="from", weight="often"))
    expected = ChoiceTable.from_rankings(ORDERS, judge=WHO, weight=[1.0, 2.0, 3.0])
    assert_same_choices(found, expected)


@pytest.mark.parametrize(
    ("source", "columns", "error", "message"),
    [
        ({"x": [1]}, {}, DataFileError, "Rankings must have columns rank1, rank2"),
        (wide(), {"judge": "nobody"}, DataFileError, "must have a column 'nobody'"),
        (long().assign(Rank=1), {}, DataFileError, "Ranks of one ranking must differ"),
        (long().assign(Rank="first"), {}, DataFileError, "`rank` must hold a number in every row"),
    ],
)
def test_what_cannot_be_read_is_refused(source, columns, error, message):
    with pytest.raises(error, match=message):
        read_choices(source, ComparisonColumns(**columns))


def test_files_are_named_and_tables_have_no_columns(tmp_path):
    long().assign(Rank=1).to_csv(tmp_path / "orders.csv", index=False)
    with pytest.raises(DataFileError, match=r"orders\.csv: Ranks of one ranking"):
        read_choices(tmp_path / "orders.csv")
    with pytest.raises(InvalidInputError, match="`columns` must be left out"):
        read_answers(ChoiceTable.from_rankings(ORDERS), ComparisonColumns(judge="x"))


def test_a_ranking_ends_at_the_blank_of_a_dictionary_of_arrow():
    """The blank was read as the last word of the dictionary."""
    arrow = pytest.importorskip("pyarrow")
    columns = {"rank1": ["x", "y"], "rank2": ["y", "z"], "rank3": ["z", None]}
    words = {name: arrow.array(cells).dictionary_encode() for name, cells in columns.items()}
    assert read_choices(arrow.table(words)).n_choices == read_choices(columns).n_choices == 3
