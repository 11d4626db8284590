"""Square tables of wins, and a row for each item of a match: read right and said how, or refused.

Every table is read as a dictionary, a frame, a CSV file and JSON lines.
"""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import ChoiceTable, DataFileError, InvalidInputError, leaderboard
from rankwise.io import ComparisonColumns, read_choices, read_comparisons
from rankwise.io.choices import read_answers

FORMS = ("dict", "pandas", "csv", "jsonl")


def source_of(form, table, tmp_path):
    """Return a table in one of its forms."""
    if form == "dict":
        return table
    if form == "pandas":
        return pytest.importorskip("pandas").DataFrame(table)
    path = tmp_path / f"table.{form}"
    rows = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    lines = [",".join(map(str, table))]
    lines += [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def said(table):
    """Return how often each item beat each other one, and tied with it."""
    found = {}
    rows = zip(table.first, table.second, table.outcome, table.weight, strict=True)
    for i, j, outcome, weight in rows:
        one, other = str(table.names[i]), str(table.names[j])
        key = f"{one}>{other}" if outcome > 0 else f"{other}>{one}"
        if outcome == 0:
            key = "=".join(sorted([one, other]))
        found[key] = found.get(key, 0.0) + float(weight)
    return found


def read_quietly(source, columns=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_answers(source, columns, **options)


X_Y_Z = ["x", "y", "z"]
USUAL = {"x>y": 3, "y>x": 1, "x>z": 5, "y>z": 2, "z>y": 4}
MATRICES = {
    "plain": ({"": X_Y_Z, "x": [0, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0]}, USUAL),
    "blank diagonal": ({"": X_Y_Z, "x": ["", 1, 0], "y": [3, "", 4], "z": [5, 2, ""]}, USUAL),
    "dashes": ({"team": X_Y_Z, "x": ["-", 1, 0], "y": [3, "–", 4], "z": [5, 2, "—"]}, USUAL),
    "crosses": ({"team": X_Y_Z, "x": ["x", 1, 0], "y": [3, "X", 4], "z": [5, 2, "x"]}, USUAL),
    "other order": ({"": X_Y_Z, "z": [5, 2, 0], "x": [0, 1, 0], "y": [3, 0, 4]}, USUAL),
    "winner": ({"winner": X_Y_Z, "x": [0, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0]}, USUAL),
    "winner and loser": (
        {"winner \\ loser": X_Y_Z, "x": [0, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0]},
        USUAL,
    ),
    "some never met": (
        {"": X_Y_Z, "x": ["", 1, ""], "y": [3, "", 4], "z": ["", 2, ""]},
        {"x>y": 3, "y>x": 1, "y>z": 2, "z>y": 4},
    ),
    "crosstable": (
        {"player": X_Y_Z, "x": ["", 0.5, 1], "y": [0.5, "", 0], "z": [0, 1, ""]},
        {"x=y": 1, "z>x": 1, "y>z": 1},
    ),
    "halves": (
        {"player": X_Y_Z, "x": ["", "½", 1], "y": ["½", "", 0], "z": [0, 1, ""]},
        {"x=y": 1, "z>x": 1, "y>z": 1},
    ),
    "two items": ({"": ["x", "y"], "x": [0, 2], "y": [7, 0]}, {"x>y": 7, "y>x": 2}),
    "names that are roles": (
        {"": ["a", "b", "c"], "a": [0, 1, 0], "b": [3, 0, 4], "c": [5, 2, 0]},
        {"a>b": 3, "b>a": 1, "a>c": 5, "b>c": 2, "c>b": 4},
    ),
    "numbers as names": (
        {"id": [1, 2, 3], "1": [0, 1, 0], "2": [3, 0, 4], "3": [5, 2, 0]},
        {"1>2": 3, "2>1": 1, "1>3": 5, "2>3": 2, "3>2": 4},
    ),
    "spaces": (
        {"": ["red fox", "owl", "cat"], "red fox": [0, 1, 0], "owl": [3, 0, 4], "cat": [5, 2, 0]},
        {"red fox>owl": 3, "owl>red fox": 1, "red fox>cat": 5, "owl>cat": 2, "cat>owl": 4},
    ),
    "whole numbers as floats": (
        {"": X_Y_Z, "x": [0.0, 1.0, 0.0], "y": [3.0, 0.0, 4.0], "z": [5.0, 2.0, 0.0]},
        USUAL,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MATRICES)
def test_a_square_table_counts_wins_of_rows(name, form, tmp_path):
    table, expected = MATRICES[name]
    found = read_quietly(source_of(form, table, tmp_path))
    assert said(found) == expected
    assert "against each other, by name" in found.reading[0]
    assert "the item of its row beat that of its column" in found.reading[1]


ODD_MATRICES = {
    "percent": (
        {"": X_Y_Z, "x": ["", 60, 20], "y": [40, "", 10], "z": [80, 90, ""]},
        "may be percent",
    ),
    "rounded percent": (
        {"": X_Y_Z, "x": ["", 60, 20], "y": [41, "", 10], "z": [80, 90, ""]},
        "may be percent",
    ),
    "shares": (
        {"": X_Y_Z, "x": ["", 0.6, 0.2], "y": [0.4, "", 0.1], "z": [0.8, 0.9, ""]},
        "Shares do not say how many games",
    ),
    "half points of many games": (
        {"": X_Y_Z, "x": ["", 2.5, 1], "y": [1.5, "", 2], "z": [3, 2, ""]},
        "must hold whole numbers",
    ),
    "the same both ways": (
        {"": X_Y_Z, "x": [0, 4, 6], "y": [4, 0, 2], "z": [6, 2, 0]},
        "the same with rows and columns exchanged",
    ),
    "half": (
        {"": X_Y_Z, "x": ["", "", ""], "y": [3, "", ""], "z": [5, 2, ""]},
        "filled on both sides",
    ),
    "losers are the rows": (
        {"loser": X_Y_Z, "x": [0, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0]},
        "must have winners as its rows",
    ),
    "losses": (
        {"lost to": X_Y_Z, "x": [0, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0]},
        "must have winners as its rows",
    ),
    "a total": (
        {"": X_Y_Z, "x": [0, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0], "Total": [8, 3, 4]},
        r"\['Total'\] are not",
    ),
    "a row of totals": (
        {"": [*X_Y_Z, "sum"], "x": [0, 1, 0, 1], "y": [3, 0, 4, 7], "z": [5, 2, 0, 7]},
        r"\['sum'\] are not",
    ),
    "a row twice": (
        {"": [*X_Y_Z, "x"], "x": [0, 1, 0, 0], "y": [3, 0, 4, 3], "z": [5, 2, 0, 5]},
        r"\['x'\] are not",
    ),
    "goal differences": (
        {"": X_Y_Z, "x": [0, -1, 2], "y": [1, 0, 4], "z": [-2, -4, 0]},
        "y against x holds",
    ),
    "an item against itself": (
        {"": X_Y_Z, "x": [2, 1, 0], "y": [3, 0, 4], "z": [5, 2, 0]},
        "x against itself holds",
    ),
    "scores": (
        {"": X_Y_Z, "x": ["", "1-3", "0-5"], "y": ["3-1", "", "4-2"], "z": ["5-0", "2-4", ""]},
        "y against x holds '1-3'",
    ),
    "words": (
        {"": X_Y_Z, "x": ["", "L", "L"], "y": ["W", "", "W"], "z": ["W", "L", ""]},
        "y against x holds 'L'",
    ),
    "percent signs": (
        {"": X_Y_Z, "x": ["", "60%", "20%"], "y": ["40%", "", "9%"], "z": ["80%", "91%", ""]},
        "y against x holds '60%'",
    ),
    "nothing": ({"": X_Y_Z, "x": [0, 0, 0], "y": [0, 0, 0], "z": [0, 0, 0]}, "must hold a win"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ODD_MATRICES)
def test_a_square_table_of_something_else_is_refused_with_the_remedy(name, form, tmp_path):
    table, message = ODD_MATRICES[name]
    with pytest.raises(DataFileError, match=message) as caught:
        read_quietly(source_of(form, table, tmp_path))
    assert any(word in str(caught.value) for word in ("Write a row", "Exchange rows"))


def test_a_square_table_of_numbered_items_is_no_table_of_places():
    table = MATRICES["numbers as names"][0]
    with pytest.raises(DataFileError, match="is a square table of wins"):
        read_choices(table)
    places = {"id": [7, 8, 9], "1": [1, 2, 0], "2": [3, 0, 4], "3": [5, 4, 2]}
    assert isinstance(read_answers(places), ChoiceTable)


def test_rows_of_a_frame_are_named_by_its_index(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0, 3, 5], [1, 0, 2], [0, 4, 0]], index=X_Y_Z, columns=X_Y_Z)
    assert said(read_comparisons(frame)) == USUAL
    assert said(read_comparisons(frame[["z", "x", "y"]])) == USUAL
    assert said(read_comparisons(frame.loc[["y", "z", "x"]])) == USUAL
    frame.to_csv(tmp_path / "wins.csv")
    assert said(read_comparisons(tmp_path / "wins.csv")) == USUAL
    with pytest.raises(DataFileError, match="must have winners as its rows"):
        read_comparisons(frame.rename_axis("loser"))


def test_three_rows_of_numbers_say_what_they_are():
    with pytest.raises(InvalidInputError, match="must say what they are"):
        leaderboard(np.array([[0, 2, 2], [1, 0, 1], [1, 1, 0]]))
    assert said(read_comparisons([(1, 2, 1), (2, 3, 2), (1, 3, 3)])) == {
        "1>2": 1,
        "2>3": 1,
        "3>1": 1,
    }


def test_a_matrix_is_a_leaderboard():
    table = MATRICES["plain"][0]
    rows = [("x", "y", "a")] * 3 + [("x", "y", "b")] + [("x", "z", "a")] * 5
    rows += [("y", "z", "a")] * 2 + [("y", "z", "b")] * 4
    one, other = (leaderboard(source, random_state=0) for source in (table, rows))
    assert one.names.tolist() == other.names.tolist()
    assert_allclose(one.score, other.score, atol=1e-8)


@pytest.mark.parametrize("name", ["plain", "halves"])
def test_nobody_is_shown_first_in_a_matrix(name):
    board = leaderboard(MATRICES[name][0], random_state=0)
    assert "position bias" in board.audit().left_out


# A row for each item of a match

PAIR = {"match_id": [1, 1, 2, 2, 3, 3], "team": ["x", "y", "y", "z", "x", "z"]}
DECIDED = {"x>y": 1, "y=z": 1, "z>x": 1}
MATCHES = {
    "scores": ({**PAIR, "score": [2, 1, 0, 0, 1, 3]}, DECIDED),
    "points": ({**PAIR, "points": [20, 18, 5, 5, 1.5, 3]}, DECIDED),
    "goals": ({**PAIR, "Goals": [2, 1, 0, 0, 1, 3]}, DECIDED),
    "letters": ({**PAIR, "result": ["W", "L", "D", "D", "L", "W"]}, DECIDED),
    "small letters": ({**PAIR, "result": ["w", "l", "t", "t", "l", "w"]}, DECIDED),
    "words": ({**PAIR, "outcome": ["win", "loss", "draw", "draw", "loss", "win"]}, DECIDED),
    "past": ({**PAIR, "result": ["won", "lost", "tied", "tied", "lost", "won"]}, DECIDED),
    "shares": ({**PAIR, "result": [1, 0, 0.5, 0.5, 0, 1]}, DECIDED),
    "half points": ({**PAIR, "result": ["1", "0", "½", "½", "0", "1"]}, DECIDED),
    "names": ({**PAIR, "winner": ["x", "x", "draw", "draw", "z", "z"]}, DECIDED),
    "ranks": ({**PAIR, "rank": [1, 2, 1, 1, 2, 1]}, DECIDED),
    "places": ({**PAIR, "place": ["1st", "2nd", "1st", "1st", "2nd", "1st"]}, DECIDED),
    "position": ({**PAIR, "Position": [1, 2, 1, 1, 2, 1]}, DECIDED),
    "places of a larger field": ({**PAIR, "place": [4, 7, 2, 2, 4, 3]}, DECIDED),
    "a rank that the scores confirm": (
        {**PAIR, "rank": [1, 2, 1, 1, 2, 1], "score": [2, 1, 0, 0, 1, 3]},
        DECIDED,
    ),
    "flags": (
        {**PAIR, "won": [True, False, False, True, False, True]},
        {"x>y": 1, "z>y": 1, "z>x": 1},
    ),
    "yes": (
        {**PAIR, "winner": ["yes", "no", "no", "yes", "no", "yes"]},
        {"x>y": 1, "z>y": 1, "z>x": 1},
    ),
    "scattered": (
        {"game": [1, 2, 3, 3, 2, 1], "player": list("xyxzzy"), "score": [2, 0, 1, 3, 0, 1]},
        DECIDED,
    ),
    "other names": (
        {"Battle ID": ["p", "p", "q", "q"], "Model": list("xyyz"), "Score": [0.9, 0.1, 0.4, 0.6]},
        {"x>y": 1, "z>y": 1},
    ),
    "names of outcomes": (
        {"match_id": [1, 1, 2, 2], "team": ["w", "l", "l", "w"], "result": ["L", "W", "W", "L"]},
        {"l>w": 2},
    ),
    "result before score": (
        {"match_id": [1, 1], "team": ["x", "y"], "score": [70, 72], "result": ["W", "L"]},
        {"x>y": 1},
    ),
    "nothing said of one": ({**PAIR, "score": [2, 1, 0, 0, "", ""]}, {"x>y": 1, "y=z": 1}),
    "unplayed": ({**PAIR, "result": ["W", "L", "", "", "L", "W"]}, {"x>y": 1, "z>x": 1}),
    "counted": (
        {**PAIR, "score": [2, 1, 0, 0, 1, 3], "count": [2, 2, 1, 1, 4, 4]},
        {"x>y": 2, "y=z": 1, "z>x": 4},
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MATCHES)
def test_rows_of_one_match_met(name, form, tmp_path):
    table, expected = MATCHES[name]
    found = read_quietly(source_of(form, table, tmp_path))
    assert said(found) == expected
    assert "a row each; those of one" in found.reading[0]
    assert found.reading[1].startswith("winner: ")


ODD_MATCHES = {
    "two winners": ({**PAIR, "result": ["W", "W", "D", "D", "L", "W"]}, "has 2 winners"),
    "two losers": ({**PAIR, "won": [1, 0, 0, 0, 0, 1]}, "has 0 winners, 2 losers"),
    "a winner and a tie": ({**PAIR, "result": ["W", "D", "D", "D", "L", "W"]}, "1 that tied"),
    "a blank": ({**PAIR, "score": [2, 1, 0, "", 1, 3]}, "says nothing in row 3"),
    "an item twice": (
        {**PAIR, "team": list("xxyzxz"), "score": [2, 1, 0, 0, 1, 3]},
        "has 'x' twic",
    ),
    "no item": (
        {**PAIR, "team": ["x", "", "y", "z", "x", "z"], "score": [2, 1, 0, 0, 1, 3]},
        "leaves the item blank in row 1",
    ),
    "one row": (
        {"match_id": [1, 1, 2], "team": list("xyz"), "score": [2, 1, 0]},
        "match_id 2 has one row",
    ),
    "numbers used twice": (
        {"match_id": [1, 1, 2, 2, 1, 1], "team": list("xyyzwv"), "score": [2, 1, 0, 0, 1, 3]},
        "rows that do not stand together",
    ),
    "recorded twice": (
        {"match_id": [1, 1, 1, 1], "team": list("xyxy"), "score": [2, 1, 2, 1]},
        "recorded twice, or its number is used twice",
    ),
    "no number": (
        {"match_id": ["m", "m", "", ""], "team": list("xyyz"), "score": [2, 1, 0, 0]},
        "is blank, in row 2",
    ),
    "other results": (
        {**PAIR, "result": ["good", "bad", "good", "bad", "bad", "good"]},
        "must say of each row whether it won",
    ),
    "points called a result": ({**PAIR, "result": [2, 1, 0, 0, 1, 3]}, "call it score"),
    "places in words": ({**PAIR, "rank": ["A", "B", "A", "A", "B", "A"]}, "must hold places"),
    "scores in words": ({**PAIR, "score": list("ABAABA")}, "must hold numbers"),
    "nothing": ({**PAIR, "note": list("ABAABA")}, "must have a column of results"),
    "seeds": ({**PAIR, "rank": [17, 4, 4, 9, 17, 9]}, "must hold places in a match_id"),
    "seeds beside scores": (
        {**PAIR, "rank": [1, 2, 1, 2, 2, 1], "score": [1, 2, 0, 0, 1, 3]},
        "must say the same of who won: they do not in rows",
    ),
    "numbers that begin anew": (
        {
            "season": [1, 1, 2, 2, 1, 1],
            "match_id": [1, 1, 1, 1, 2, 2],
            "team": list("xyzwxz"),
            "score": [2, 1, 0, 3, 1, 3],
        },
        "rows of several dates, seasons or rounds",
    ),
    "two dates": (
        {**PAIR, "score": [2, 1, 0, 0, 1, 3], "date": ["2026-01-01"] * 3 + ["2026-01-02"] * 3},
        "match_id 2 has rows of several dates",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ODD_MATCHES)
def test_matches_that_say_two_things_are_refused(name, form, tmp_path):
    table, message = ODD_MATCHES[name]
    with pytest.raises(DataFileError, match=message):
        read_quietly(source_of(form, table, tmp_path))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two winners", {"y=z": 1, "z>x": 1}),
        ("a blank", {"x>y": 1, "z>x": 1}),
        ("an item twice", {"y=z": 1, "z>x": 1}),
        ("no item", {"y=z": 1, "z>x": 1}),
        ("one row", {"x>y": 1}),
        ("no number", {"x>y": 1}),
        ("numbers used twice", {"y=z": 1}),
    ],
)
def test_bad_matches_are_left_out_on_request(name, expected, form, tmp_path):
    table = ODD_MATCHES[name][0]
    found = read_quietly(source_of(form, table, tmp_path), skip_bad=True)
    assert said(found) == expected


@pytest.mark.parametrize("form", FORMS)
def test_matches_of_several_are_rankings(form, tmp_path):
    games = {"game_id": [1, 1, 1, 2, 2, 2], "player": list("xyzyxz")}
    orders = [["z", "y", "x"], ["y", "x", "z"]]
    expected = ChoiceTable.from_rankings(orders)
    for columns in ({"score": [1, 2, 3, 9, 8, 7]}, {"rank": [3, 2, 1, 1, 2, 3]}):
        found = read_quietly(source_of(form, {**games, **columns}, tmp_path))
        assert isinstance(found, ChoiceTable)
        assert found.names.tolist() == X_Y_Z
        for name in ("choice", "item", "chosen"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    best = read_quietly(source_of(form, {**games, "won": [0, 0, 1, 1, 0, 0]}, tmp_path))
    assert best.names[best.chosen].tolist() == ["z", "y"]
    source = source_of(form, {**games, "score": [1, 2, 2, 9, 8, 7]}, tmp_path)
    with pytest.raises(DataFileError, match="must differ in 'score'"):
        read_quietly(source)
    with pytest.raises(DataFileError, match="must be of two items: 3 rows have one game_id"):
        read_comparisons(source)
    source = source_of(form, {**games, "score": [1, 2, "", 9, 8, 7]}, tmp_path)
    with pytest.raises(DataFileError, match="says nothing in row 2"):
        read_choices(source)
    assert read_choices(source, skip_bad=True).names.tolist() == X_Y_Z


def test_rankings_of_matches_have_judges_and_counts():
    games = {
        "game_id": [1, 1, 1, 2, 2, 2, 3, 3, 3],
        "player": list("xyz") * 3,
        "rank": [1, 2, 3, 3, 2, 1, "", "", ""],
        "judge": list("aaabbbccc"),
        "count": [2] * 9,
    }
    found = read_choices(games)
    assert found.n_judges == 2
    assert found.weight.tolist() == [2.0] * 4
    assert any("1 matches left out" in line for line in found.reading)
    games["judge"] = list("aababbccc")
    assert read_choices(games).unread == ("judge",)
    with pytest.raises(DataFileError, match="for `judge` must say the same in all rows"):
        read_choices(games, ComparisonColumns(judge="judge"))


def test_what_surrounds_a_match_is_that_of_its_rows():
    games = {
        **PAIR,
        "score": [2, 1, 0, 0, 1, 3],
        "judge": list("aabbcc"),
        "date": ["2026-01-01"] * 2 + ["2026-01-02"] * 2 + ["2026-01-03"] * 2,
        "tokens": [10, 4, 3, 3, 7, 9],
        "note": list("uvwxyz"),
    }
    found = read_comparisons(games, ComparisonColumns(covariates=("tokens",)))
    assert found.names[found.first].tolist() == ["x", "z", "y"]
    assert found.row.tolist() == [0, 5, 2]
    assert found.judge.names[found.judge.index].tolist() == ["a", "c", "b"]
    assert np.diff(np.sort(found.date)).tolist() == [1.0, 1.0]
    assert found.covariates.ravel().tolist() == [6.0, 2.0, 0.0]
    assert found.unread == ("note",)
    with pytest.raises(DataFileError, match="'note' for `judge` must say the same in both rows"):
        read_comparisons(games, ComparisonColumns(judge="note"))
    pair = {**games, "size_a": games["tokens"], "size_b": games["tokens"]}
    with pytest.raises(DataFileError, match="`controls` must name columns that describe the item"):
        read_comparisons(pair, ComparisonColumns(controls=("size",)))
    # a person of each row is no judge of the match
    assert read_comparisons({**games, "judge": list("abcdef")}).judge is None


def test_rows_of_a_match_have_no_order():
    rng = np.random.default_rng(0)
    ends = np.array([rng.permutation(4)[:2] for _ in range(60)]).ravel()
    games = {"match_id": np.repeat(np.arange(60), 2), "team": ends, "score": rng.random(120)}
    assert "position bias" in leaderboard(games, random_state=0).audit().left_out


def test_who_plays_at_home_is_first():
    games = {
        **PAIR,
        "score": [2, 1, 0, 0, 1, 3],
        "venue": ["away", "home", "home", "away", "neutral", "neutral"],
    }
    found = read_comparisons(games)
    order = np.argsort(found.row)
    assert found.names[found.first[order]].tolist() == ["y", "y", "x"]
    assert found.covariate_names == ("home",)
    assert found.covariates[order].ravel().tolist() == [1.0, 1.0, 0.0]
    assert said(found) == DECIDED
    strange = read_comparisons({**games, "venue": list("uvwxyz")})
    assert strange.unread == ("venue",)


def test_columns_of_matches_may_be_named():
    odd = {"event": [7, 7], "who": ["x", "y"], "out": ["W", "L"]}
    with pytest.raises(DataFileError, match="must have columns winner and loser"):
        read_comparisons(odd)
    found = read_comparisons(odd, ComparisonColumns(match="event", item="who", result="out"))
    assert said(found) == {"x>y": 1}
    with pytest.raises(DataFileError, match="`match` and `item` must name columns of a table with"):
        read_comparisons(
            {**odd, "event": [7, 8]}, ComparisonColumns(match="event", item="who", result="out")
        )


def test_a_table_of_two_items_a_row_stays_one():
    games = {
        "match_id": [1, 1, 2],
        "player_a": ["x", "x", "y"],
        "player_b": ["y", "y", "z"],
        "winner": ["a", "b", "a"],
        "name": ["cup", "cup", "cup"],
    }
    assert said(read_answers(games)) == {"x>y": 1, "y>x": 1, "y>z": 1}
    both = {"match_id": [1, 2], "team": ["x", "y"], "opponent": ["y", "z"], "result": ["W", "L"]}
    assert said(read_answers(both)) == {"x>y": 1, "z>y": 1}
    ranked = {"judge": list("aab"), "item": list("xyx"), "rank": [1, 2, 1]}
    assert isinstance(read_answers(ranked), ChoiceTable)
