"""A column that says who won is read in one way, or refused with the ways in which it can be read.

The same table is read alike from a dictionary, a frame and a file.
"""

import numpy as np
import pandas as pd
import pytest

from rankwise import (
    DataFileError,
    InvalidInputError,
    LeftOutWarning,
    NothingToLearnError,
    PairKFold,
    leaderboard,
    suspect_answers,
)
from rankwise.io import ComparisonColumns, read_comparisons

polars = pytest.importorskip("polars")
NAN = float("nan")


def as_dict(columns, folder):
    return columns


def as_pandas(columns, folder):
    return pd.DataFrame(columns)


def as_polars(columns, folder):
    return polars.from_pandas(pd.DataFrame(columns))


def as_csv(columns, folder):
    pd.DataFrame(columns).to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def as_parquet(columns, folder):
    pd.DataFrame(columns).to_parquet(folder / "table.parquet")
    return folder / "table.parquet"


CONTAINERS = [as_dict, as_pandas, as_polars, as_csv, as_parquet]


def battles(winner, a=("x", "x", "y"), b=("y", "z", "z"), names=("model_a", "model_b")):
    return {names[0]: list(a), names[1]: list(b), "winner": list(winner)}


HOME = ("home", "away")
IDS = {"a": [0, 1, 2, 0, 2], "b": [1, 2, 0, 2, 1]}
READ = {
    "away games alone": (battles("AAA", names=HOME), None, [-1, -1, -1]),
    "away games and draws": (battles("ADA", names=HOME), None, [-1, 0, -1]),
    "away games of teams": (battles("AAD", names=("HomeTeam", "Visitor")), None, [-1, -1, 0]),
    "home is the second column": (
        battles("HAD", names=("away_team", "home_team")),
        ComparisonColumns(first="away_team", second="home_team"),
        [-1, 1, 0],
    ),
    "home games": (battles("HAD", names=HOME), None, [1, -1, 0]),
    "letters of a and b": (battles("AAB"), None, [1, 1, -1]),
    "a alone": (battles("AAA"), None, [1, 1, 1]),
    "letters of left and right": (battles("LRL", names=("left", "right")), None, [1, -1, 1]),
    "letters of white and black": (battles("WBD", names=("White", "Black")), None, [1, -1, 0]),
    "H, D and A in other columns": (battles("HAD", names=("team1", "team2")), None, [1, -1, 0]),
    "ids of 0, 1 and 2": ({**IDS, "winner": [1, 1, 2, 2, 1]}, None, [-1, 1, 1, -1, -1]),
    "ids of 1 and 2": ({"a": [1, 2], "b": [2, 1], "winner": [1, 1]}, None, [1, -1]),
    "large ids": (battles([10, 12, 12], (10, 10, 11), (11, 12, 12)), None, [1, -1, -1]),
    "huge ids": (battles([2**53 + 1] * 2, (2**53 + 1, 5), (2**53, 2**53 + 1)), None, [1, -1]),
    "numbers in columns of numbers": (
        battles([1, 2, 0], names=("player1", "player2")),
        None,
        [1, -1, 0],
    ),
    "numbers from 0 in such columns": (battles([0, 1, 2], names=("m_0", "m_1")), None, [1, -1, 0]),
    "points of the first": (battles([1, 0, 0.5]), None, [1, -1, 0]),
    "signs": (battles([1, -1, 0]), None, [1, -1, 0]),
    "signs without ties": (battles([1, -1, -1]), None, [1, -1, -1]),
    "numbers and a word for ties": (battles(["1", "2", "tie"]), None, [1, -1, 0]),
    "truth": (battles([True, False, True]), None, [1, -1, 1]),
    "codes": (battles([0, 1, 2]), ComparisonColumns(codes="0=a,1=b,2=tie"), [1, -1, 0]),
    "the other codes": (battles([0, 1, 1]), ComparisonColumns(codes={1: "a", 0: "b"}), [-1, 1, 1]),
    "codes of words": (
        battles(["X", "y!", "x"], "ppq", "qrr"),
        ComparisonColumns(codes={"x": "b", "y!": "tie"}),
        [-1, 0, -1],
    ),
    "codes before names": (
        {"a": [1, 2], "b": [2, 1], "winner": [1, 1]},
        ComparisonColumns(codes="1=a,2=b"),
        [1, 1],
    ),
    "names and a code for ties": (
        battles([10, 0, 12], (10, 10, 11), (11, 12, 12)),
        ComparisonColumns(codes="0=tie"),
        [1, 0, -1],
    ),
    "an item that is called as a column": (battles("ABA", "xyc", "yza"), None, [1, -1, 1]),
    "an item that is called a": (battles("aab", "xyz", "yaa"), None, [1, 1, -1]),
}


def pairs_by_name(table):
    names = np.array([str(name) for name in table.names.tolist()], dtype=object)
    return list(zip(names[table.first], names[table.second], table.outcome.tolist(), strict=True))


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", READ)
def test_a_table_is_read_alike_from_every_container(name, container, tmp_path):
    columns, named, outcome = READ[name]
    table = read_comparisons(container(columns, tmp_path), named)
    assert table.outcome.tolist() == outcome
    first, second = (named.first, named.second) if named and named.first else list(columns)[:2]
    shown = zip(map(str, columns[first]), map(str, columns[second]), outcome, strict=True)
    assert pairs_by_name(table) == list(shown)


REFUSED = {
    "0 and 1": (battles([0, 1, 1]), "0 = b, 1 = a; or 0 = tie, 1 = a; or 0 = a, 1 = b "),
    "0, 1 and 2": (battles([0, 1, 2]), "0 = tie, 1 = a, 2 = b; or 0 = a, 1 = b, 2 = tie "),
    "1 and 0 of columns of numbers": (
        battles([1, 0, 1], names=("p1", "p2")),
        "0 = b, 1 = a; or 0 = tie, 1 = a ",
    ),
    "0 and 1 beside a word for ties": (
        battles(["0", "1", "tie"]),
        "0 = b, 1 = a, tie = tie; or 0 = a, 1 = b, tie = tie ",
    ),
    "1 alone": (battles([1, 1, 1]), "1 = a; or 1 = b "),
    "0 alone": (battles([0, 0, 0]), "0 = b; or 0 = tie; or 0 = a "),
    "1 and 2": (battles([1, 2, 1]), "1 = a, 2 = b; or 1 = b, 2 = tie "),
    "A in columns of neither kind": (battles("AAA", names=("us", "them")), "a = a; or a = b "),
    "ids and a number for ties": (
        battles([10, 0, 12], (10, 10, 11), (11, 12, 12)),
        "0 = b; or 0 = tie; or 0 = a .*row 1 names neither",
    ),
    "a word that names an item once": (
        battles(["a", "zed", "b"], ("x", "y", "b"), ("y", "zed", "c")),
        "'b' names an item of row 2, and is a word for another outcome",
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused_from_every_container(name, container, tmp_path):
    columns, readings = REFUSED[name]
    names = list(columns)
    named = ComparisonColumns(first=names[0], second=names[1])
    remedy = r"Say which is meant: ComparisonColumns\(codes='"
    with pytest.raises(DataFileError, match=f"{readings}.*{remedy}"):
        read_comparisons(container(columns, tmp_path), named)


def test_the_remedy_of_an_error_can_be_copied():
    columns = battles([0, 1, 1])
    with pytest.raises(DataFileError) as refused:
        read_comparisons(columns)
    codes = str(refused.value).partition("codes='")[2].partition("'")[0]
    assert read_comparisons(columns, ComparisonColumns(codes=codes)).outcome.tolist() == [-1, 1, 1]


def blank_winners(nothing):
    return {
        "a": ["x", "x", "y", "w"],
        "b": ["y", "z", "z", "x"],
        "winner": ["a", nothing, "b", nothing],
        "judge": ["p", None, "q", None],
        "length": [1.0, NAN, 2.0, NAN],
    }


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("nothing", [None, "", "  ", "NaN", "N/A"])
def test_rows_without_a_winner_are_left_out_and_counted(nothing, container, tmp_path):
    source = container(blank_winners(nothing), tmp_path)
    with pytest.warns(LeftOutWarning, match="2 of 4 rows do not say who won"):
        table = read_comparisons(source, ComparisonColumns(covariates=("length",)))
    assert pairs_by_name(table) == [("x", "y", 1), ("y", "z", -1)]
    assert table.judge.names.tolist() == ["p", "q"]
    assert table.covariates[:, 0].tolist() == [1.0, 2.0]
    assert table.row.tolist() == [0, 2]


@pytest.mark.parametrize("container", CONTAINERS)
def test_numbers_beside_blanks_are_ids_too(container, tmp_path):
    columns = {"a": [1, 2, 3], "b": [2, 3, 1], "winner": [1.0, NAN, 1.0]}
    with pytest.warns(LeftOutWarning, match="1 of 3 rows"):
        table = read_comparisons(container(columns, tmp_path))
    assert pairs_by_name(table) == [("1", "2", 1), ("3", "1", -1)]


def test_large_ids_beside_blanks_are_not_rounded():
    large = 2**60
    frame = polars.DataFrame(
        {"a": [large, large + 1], "b": [large + 1, large + 2], "winner": [large + 1, None]}
    )
    with pytest.warns(LeftOutWarning):
        assert read_comparisons(frame).outcome.tolist() == [-1]


def test_blank_winners_may_be_called_ties():
    table = read_comparisons(blank_winners(""), ComparisonColumns(codes="=tie"))
    assert table.outcome.tolist() == [1, 0, -1, 0]


def test_answers_may_be_skipped_by_codes():
    table = battles(["a", "unsure", "b"])
    with pytest.warns(LeftOutWarning, match="1 of 3"):
        found = read_comparisons(table, ComparisonColumns(codes={"unsure": "skip"}))
    assert found.outcome.tolist() == [1, -1]


def test_a_table_in_which_nobody_won_is_refused():
    with pytest.raises(NothingToLearnError, match="none of its 3 rows says who won"):
        read_comparisons(battles(["", None, ""]))


def test_rows_in_errors_are_said_to_be_counted_without_blanks():
    columns = {**blank_winners(""), "length": [1.0, 2.0, NAN, 3.0]}
    with pytest.raises(InvalidInputError, match="row 1 .* counted without the 2 that name no"):
        read_comparisons(columns, ComparisonColumns(covariates=("length",)))


@pytest.mark.filterwarnings("ignore::rankwise.LeftOutWarning")
def test_suspect_answers_are_rows_of_the_source():
    games = [("ann", "bob", "a"), ("bob", "cid", ""), ("ann", "cid", "a")] * 20
    games.append(("cid", "ann", "a"))
    rows, _ = suspect_answers(games, leaderboard(games))
    assert rows[0] == len(games) - 1


@pytest.mark.parametrize("codes", ["0", "0=c", "0=a,0=b", {0: "first"}, {0: None}, 3, ""])
def test_codes_that_say_nothing_are_refused(codes):
    with pytest.raises(InvalidInputError, match="`codes` must say once for each cell"):
        read_comparisons(battles([0, 1, 1]), ComparisonColumns(codes=codes))


def test_codes_without_a_column_of_results_are_refused():
    with pytest.raises(DataFileError, match="`codes` must come with a column of results"):
        read_comparisons({"winner": ["x"], "loser": ["y"]}, ComparisonColumns(codes={"x": "a"}))
    points = {"a": ["x"], "b": ["y"], "score_a": [1], "score_b": [0]}
    with pytest.raises(DataFileError, match="`codes` must come with a column of results"):
        read_comparisons(points, ComparisonColumns(codes={"x": "a"}))


def test_cells_that_mean_nothing_are_named():
    with pytest.raises(DataFileError, match="got '7', 'perhaps'. Say what that means"):
        read_comparisons(battles(["a", "perhaps", "7"]))
    with pytest.raises(DataFileError, match="got 'a', 'false'"):
        read_comparisons(battles(["a", "false", "a"]))


def test_columns_of_different_lengths_are_refused():
    for column in ("model_a", "model_b"):
        columns = battles("aab")
        columns[column] = columns[column][:2]
        with pytest.raises(DataFileError, match=f"'winner' has 3, '{column}' has 2"):
            read_comparisons(columns)


def test_a_column_of_who_is_at_home_is_read_by_the_same_rules():
    games = {**battles("aba"), "host": ["x", "", "z"]}
    table = read_comparisons(games, ComparisonColumns(home="host"))
    assert table.covariates[:, 0].tolist() == [1.0, 0.0, -1.0]
    with pytest.raises(DataFileError, match="Write a, b, the name of the item at home, or nothing"):
        read_comparisons({**games, "host": [0, 1, 1]}, ComparisonColumns(home="host"))


@pytest.mark.filterwarnings("ignore::rankwise.LeftOutWarning")
def test_folds_of_a_frame_are_rows_of_the_frame():
    frame = pd.DataFrame(blank_winners(""))
    for train, test in PairKFold(2, random_state=0).split(frame):
        assert sorted([*train, *test]) == [0, 2]
