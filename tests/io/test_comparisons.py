"""Comparisons as people have them: files, frames, dictionaries, tuples."""

import numpy as np
import pandas as pd
import pytest

from rankwise import (
    ComparisonTable,
    DataFileError,
    InvalidInputError,
    LeftOutWarning,
    NothingToLearnError,
    leaderboard,
)
from rankwise.io import ComparisonColumns, read_comparisons
from rankwise.io.comparisons import read_items
from rankwise.io.tables.csv import CsvTable

WINS = {"winner": ["ann", "bob", "ann"], "loser": ["bob", "cid", "cid"], "count": [2, 1, 3]}
SHOWN = {
    "Model_A": ["ann", "cid", "cid"],
    "model_b": ["bob", "bob", "ann"],
    "Winner": ["model_a", "tie", "model_b"],
    "Worker": ["x", "y", "x"],
    "comment": ["", "", "fine"],
}


def forms(columns, folder):
    frame = pd.DataFrame(columns)
    frame.to_csv(folder / "file.csv", index=False)
    frame.to_parquet(folder / "file.parquet")
    polars = pytest.importorskip("polars")
    return [
        columns,
        frame,
        polars.DataFrame(columns),
        folder / "file.csv",
        str(folder / "file.parquet"),
    ]


def test_every_form_gives_the_same_comparisons(tmp_path):
    for one in forms(WINS, tmp_path):
        table = read_comparisons(one)
        assert table.names.tolist() == ["ann", "bob", "cid"]
        assert table.pairs.tolist() == [[0, 1], [1, 2], [0, 2]]
        assert table.weight.tolist() == [2.0, 1.0, 3.0]
        assert read_comparisons(table) is table


def test_who_won_may_be_said_in_a_column(tmp_path):
    for one in forms(SHOWN, tmp_path):
        table = read_comparisons(one)
        assert table.outcome.tolist() == [1, 0, -1]
        assert table.first.tolist() == [0, 2, 2]
        assert table.judge.names.tolist() == ["x", "y"]
        assert table.unread == ("comment",)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (["A", "b", "Tie"], [1, -1, 0]),
        (["ann", "cid", "draw"], [1, -1, 0]),
        ([1, 0, 0.5], [1, -1, 0]),
        ([1, -1, 0], [1, -1, 0]),
        (["1", "-1", "0"], [1, -1, 0]),
        ([True, False, True], [1, -1, 1]),
        (["left", "right", "neither"], [1, -1, 0]),
        (["a", "b", "tie (bothbad)"], [1, -1, 0]),
        (["a", "b", "Both are bad"], [1, -1, 0]),
    ],
)
def test_many_words_say_who_won(result, outcome):
    columns = {"a": ["ann", "bob", "ann"], "b": ["bob", "cid", "cid"], "result": result}
    assert read_comparisons(columns).outcome.tolist() == outcome


@pytest.mark.parametrize("rows", [[("x", "y"), ("y", "z")], [("x", "y", "b"), ("z", "y", "tie")]])
def test_rows_may_be_an_array_of_text(rows):
    listed = read_comparisons(rows * 3)
    for kind in (str, "S1" if len(rows[0]) == 2 else str, object):
        given = read_comparisons(np.array(rows * 3, dtype=kind))
        assert [n.decode() if isinstance(n, bytes) else n for n in given.names] == [*listed.names]
        np.testing.assert_array_equal(given.pairs, listed.pairs)
        np.testing.assert_array_equal(given.outcome, listed.outcome)


def test_rows_may_be_tuples():
    assert read_comparisons([("x", "y"), ("z", "y")]).pairs.tolist() == [[0, 1], [2, 1]]
    assert read_comparisons([("x", "y", "b"), ("z", "y", "tie")]).outcome.tolist() == [-1, 0]
    assert read_comparisons(np.array([[5, 7], [7, 6]])).names.tolist() == [5, 6, 7]


def test_flags_mark_ties_of_winner_and_loser():
    columns = {**WINS, "tied": ["", "yes", "0"]}
    assert read_comparisons(columns).outcome.tolist() == [1, 0, 1]


def test_columns_may_be_named_and_context_is_read():
    columns = {
        "us": ["x", "y"],
        "them": ["y", "z"],
        "end": ["a", "b"],
        "home": ["x", "z"],
        "length": [1.5, -2.0],
        "When": ["2026-01-01", "2026-01-03"],
        "Weight": [0.5, 1.0],
    }
    named = ComparisonColumns(
        first="us", second="them", result="END", date="when", home="home", covariates=("length",)
    )
    table = read_comparisons(columns, named)
    assert table.covariate_names == ("length", "home")
    assert table.covariates.tolist() == [[1.5, 1.0], [-2.0, -1.0]]
    assert np.diff(table.date).tolist() == [2.0]
    np.testing.assert_allclose(table.weight, [0.6, 1.2])  # 1.5^2 / 1.25 answers in effect
    assert table.unread == ()


def test_items_of_a_frame_have_one_column_of_names():
    frame = pd.DataFrame({"name": ["a"], "x": [1.0]})
    names, features = read_items(frame)
    assert names.tolist() == ["a"]
    assert list(features.columns) == ["x"]
    assert read_items(frame[["x"]])[0] is None
    assert read_items(frame[["x"]].set_index([["q"]]))[0].tolist() == ["q"]
    assert read_items([[1.0]]) == (None, [[1.0]])
    with pytest.raises(InvalidInputError, match="one column of names"):
        read_items(frame.assign(other=["b"]))


@pytest.mark.parametrize(
    ("source", "columns", "error", "message"),
    [
        ({"x": [1]}, {}, DataFileError, "must have columns winner and loser"),
        (WINS, {"judge": "who"}, DataFileError, "a column 'who' for `judge`"),
        ({**WINS, "count": ["a", "b", "c"]}, {}, DataFileError, "`count` must hold numbers"),
        ({**WINS, "tied": ["x", "", ""]}, {}, DataFileError, "row 0 says 'x'"),
        ({"a": ["p"], "b": ["q"], "result": ["r"]}, {}, DataFileError, "must say a, b or tie"),
        ({"a": ["p"], "b": ["q"], "result": [7]}, {}, DataFileError, "codes='7=tie'"),
        (3.0, {}, InvalidInputError, "got float"),
        ([("a",), ("b", "c")], {}, InvalidInputError, r"got lengths \[1, 2\]"),
    ],
)
def test_bad_sources_are_refused(source, columns, error, message):
    with pytest.raises(error, match=message):
        read_comparisons(source, ComparisonColumns(**columns))


SEASON = {
    "Date": ["2024-01-01", "2024-02-01", "2024-03-01"],
    "Home_Team": ["x", "y", "z"],
    "AWAY_TEAM": ["y", "z", "x"],
    "home_score": [2, 1, 0],
    "away_score": [1, 1, 3],
    "neutral": ["FALSE", "TRUE", "FALSE"],
}


def test_points_of_teams_at_home_and_away_say_who_won():
    table = read_comparisons(SEASON)
    assert table.outcome.tolist() == [1, 0, -1]
    assert table.covariate_names == ("home",)
    assert table.covariates[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert table.unread == ()
    everywhere = {name: values for name, values in SEASON.items() if name != "neutral"}
    assert read_comparisons(everywhere).covariates[:, 0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("words", [["H", "D", "A"], ["home", "draw", "away"], ["x", "tie", "x"]])
def test_results_of_teams_at_home(words):
    named = {"HomeTeam": SEASON["Home_Team"], "AwayTeam": SEASON["AWAY_TEAM"], "result": words}
    assert read_comparisons(named).outcome.tolist() == [1, 0, -1]


def test_matches_that_were_not_played_are_refused():
    with pytest.raises(DataFileError, match="row 1 has none. Leave out games that were not played"):
        read_comparisons({**SEASON, "home_score": [2, np.nan, 0]})
    with pytest.raises(DataFileError, match="neutral places must say 1, yes or true"):
        read_comparisons({**SEASON, "neutral": ["x", "no", "no"]})


@pytest.mark.parametrize(
    "names", [("Model A", "Model B"), ("modelA", "modelB"), ("MODEL-A", "model_b")]
)
def test_usual_columns_are_found_in_any_spelling(names):
    a, b = names
    table = read_comparisons({a: ["x", "x"], b: ["y", "z"], "Winner": ["model_b", "tie"]})
    expected = read_comparisons(
        {"model_a": ["x", "x"], "model_b": ["y", "z"], "winner": ["model_b", "tie"]}
    )
    np.testing.assert_array_equal(table.pairs, expected.pairs)
    np.testing.assert_array_equal(table.outcome, expected.outcome)


@pytest.mark.parametrize(
    ("winner", "loser", "judge", "date"),
    [
        ("winner_name", "Loser Name", "Worker ID", "tourney_date"),
        ("Winning Team", "losing_team", "annotator_id", "Match Date"),
    ],
)
def test_columns_of_well_known_files_are_found(winner, loser, judge, date):
    found = read_comparisons(
        {winner: ["x", "y"], loser: ["y", "z"], judge: ["p", "q"], date: [20240101, 20240111]}
    )
    assert found.judge.names.tolist() == ["p", "q"]
    assert np.diff(found.date).tolist() == [10.0]
    assert found.unread == ()


def test_points_may_have_any_names():
    odd = {"Visitor": ["x", "y"], "G": [1, 2], "Home": ["y", "z"], "G.1": [3, 2]}
    table = read_comparisons(odd, ComparisonColumns(points=("G.1", "G")))
    assert table.names[table.first].tolist() == ["y", "z"]
    assert table.outcome.tolist() == [1, 0]
    assert table.covariate_names == ("home",)
    with pytest.raises(DataFileError, match="a column 'goals' for `points`"):
        read_comparisons(odd, ComparisonColumns(points=("goals", "G")))


def test_dates_that_nobody_asked_for_need_not_be_readable():
    games = {**WINS, "Date": ["soon", "now", "later"]}
    assert read_comparisons(games).date is None
    assert read_comparisons(games).unread == ("Date",)
    with pytest.raises(InvalidInputError, match="`date` must hold dates"):
        read_comparisons(games, ComparisonColumns(date="date"))


@pytest.mark.parametrize("columns", [None, ComparisonColumns(judge="worker")])
@pytest.mark.parametrize("nobody", ["", None, np.nan])
def test_answers_of_nobody_are_by_the_unknown_judge(nobody, columns):
    """One blank cell left the whole column unread."""
    votes = {**WINS, "Worker": ["p", nobody, "q"]}
    table = read_comparisons(votes, columns)
    assert table.judge.names[table.judge.index].tolist() == ["p", "unknown", "q"]
    assert table.unread == ()


@pytest.mark.parametrize("numbers", [[7, None, 12], [7.0, np.nan, 12.0]])
def test_numbers_of_judges_beside_blanks_are_text(numbers):
    """Names of several types have no order, and no model with them can be saved."""
    table = read_comparisons({**WINS, "worker": numbers})
    assert table.judge.names.tolist() == ["12", "7", "unknown"]
    assert table.judge.index.tolist() == [1, 2, 0]
    whole = read_comparisons({**WINS, "worker": [7, 7, 12]})
    assert whole.judge.names.tolist() == [7, 12]


def test_the_unknown_judge_is_reported_beside_the_others():
    votes = {key: column * 20 for key, column in WINS.items()}
    board = leaderboard({**votes, "judge": ["p", None, "q"] * 20}, judges=True, random_state=0)
    assert {row["judge"] for row in board.judges.rows()} == {"p", "q", "unknown"}


def test_judges_of_a_table_may_be_unknown():
    table = ComparisonTable.of(["x", "y"], ["y", "x"], judge=["p", None])
    assert table.judge.names.tolist() == ["p", "unknown"]


@pytest.mark.parametrize("nobody", ["", None, np.nan])
def test_a_column_of_blanks_names_no_judges(nobody):
    votes = {**WINS, "Worker": [nobody] * 3}
    assert read_comparisons(votes).judge is None
    assert read_comparisons(votes).unread == ("Worker",)
    with pytest.raises(DataFileError, match="must say who judged: all of its cells are blank"):
        read_comparisons(votes, ComparisonColumns(judge="worker"))


@pytest.mark.parametrize(
    "names",
    [
        ("left_image", "right_image"), ("Image A", "Image B"), ("summaryLeft", "summaryRight"),
        ("text1", "text2"), ("White", "Black"), ("first caption", "second caption"),
    ],
)  # fmt: skip
def test_columns_of_two_sides_are_found_by_the_word_that_differs(names):
    first, second = names
    columns = {first: ["x", "x", "y"], second: ["y", "z", "z"], "label": [first, second, "tie"]}
    table = read_comparisons(columns)
    assert table.pairs.tolist() == [[0, 1], [2, 0]]
    assert table.unread == ()


def test_numbers_of_two_sides_are_items_only_as_ids():
    seen = {"label": ["left", "right"], "left_width": [10, 20], "right_width": [30, 40]}
    with pytest.raises(DataFileError, match="Name the columns to read"):
        read_comparisons(seen)
    ids = {**seen, "left_id": [7, 8], "right_id": [8, 9]}
    assert read_comparisons(ids).names.tolist() == [7, 8, 9]


def test_two_columns_of_words_on_each_side_have_to_be_named():
    both = {"left_image": ["x"], "right_image": ["y"], "left_note": ["p"], "right_note": ["q"]}
    with pytest.raises(DataFileError, match="Name the columns to read"):
        read_comparisons({**both, "label": ["left"]})


@pytest.mark.parametrize(
    "words",
    [["1-0", "1/2-1/2", "0-1"], ["3:1", "2:2", "0:4"], ["10 - 9", "½-½", "0 – 1"]],
)
def test_final_scores_say_who_won(words):
    columns = {"White": ["x", "x", "y"], "Black": ["y", "z", "z"], "Result": words}
    table = read_comparisons(columns)
    assert table.pairs.tolist() == [[0, 1], [2, 1]]
    assert table.tied.tolist() == [False, True, False]


def test_points_and_home_are_found_by_the_words_of_their_columns():
    columns = {"home_club": ["x", "x"], "away_club": ["y", "z"]}
    table = read_comparisons({**columns, "home_club_goals": [1, 0], "away_club_goals": [0, 2]})
    assert table.pairs.tolist() == [[0, 1], [2, 0]]
    assert table.covariate_names == ("home",)


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT])
def test_cells_without_anything_are_of_any_kind(nothing):
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "winner": ["a", "b"]}, dtype=object)
    frame["judge"], frame["date"] = ["ann", nothing], ["2026-01-01", nothing]
    table = read_comparisons(frame)
    assert table.judge.names.tolist() == ["ann", "unknown"]
    assert table.unread == ("date",)
    with pytest.raises(InvalidInputError, match="must name two items: row 1 lacks one"):
        read_comparisons(frame.assign(a=["x", nothing]))
    with pytest.warns(LeftOutWarning, match="1 of 2 rows do not say who won"):
        decided = read_comparisons(frame.assign(winner=["a", nothing]))
    assert decided.names.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("a", ["x"], "'a' must hold names or numbers: row 1 holds a list"),
        ("winner", {"a": 1}, "'winner' must hold names or numbers: row 1 holds a dict"),
        ("judge", np.zeros(2), "'judge' must hold names or numbers: row 1 holds a ndarray"),
        ("count", [1], "`count` must hold numbers"),
        ("count", 10**400, "`count` must hold numbers"),
        ("count", 1e300, "`weight` must hold weights up to 1e[+]70"),
    ],
)
def test_cells_that_cannot_be_used_are_named(column, cell, message):
    columns = {"a": ["x", "y"], "b": ["y", "z"], "winner": ["a", "b"]}
    columns |= {"judge": ["j", "k"], "count": [1, 2]}
    columns[column] = [columns[column][0], cell]
    with pytest.raises((DataFileError, InvalidInputError), match=message):
        read_comparisons(columns)


def test_a_path_that_no_system_has_is_refused():
    with pytest.raises(DataFileError, match="Expected the path of a file, got .*embedded null"):
        read_comparisons("\0")


def as_arrow_chunks(columns):
    """Return text in two chunks, each with a dictionary of its own."""
    arrow = pytest.importorskip("pyarrow")
    chunked = {
        name: arrow.chunked_array(
            [arrow.array(part, arrow.string()).dictionary_encode() for part in (one[:7], one[7:])]
        )
        for name, one in columns.items()
    }
    return arrow.table(chunked)


def as_polars_categories(columns):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(columns).cast(polars.Categorical)


KINDS_OF_TEXT = {
    "lists": lambda columns: columns,
    "arrays of objects": lambda columns: {k: np.array(v, dtype=object) for k, v in columns.items()},
    "pandas objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas text": lambda columns: pd.DataFrame(columns, dtype="str"),
    "Python strings of pandas": lambda columns: pd.DataFrame(columns, dtype="string[python]"),
    "Arrow strings of pandas": lambda columns: pd.DataFrame(columns, dtype="string[pyarrow]"),
    "categories of pandas": lambda columns: pd.DataFrame(columns, dtype="category"),
    "rows of categories": lambda columns: (
        pd.concat(
            [pd.DataFrame(columns), pd.DataFrame({k: ["unused"] for k in columns})],
            ignore_index=True,
        )
        .astype("category")
        .iloc[:-1]
    ),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "categories of polars": as_polars_categories,
    "Arrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "dictionaries of Arrow": as_arrow_chunks,
}


def naive_reading(first, second, winner):
    """Return the items and the rows that name a winner or a tie, read one by one."""
    rows = []
    for row, (one, other, won) in enumerate(zip(first, second, winner, strict=True)):
        if won in (None, ""):
            continue
        rows.append((row, one, other, 0 if won == "tie" else 1 if won == one else -1))
    return sorted({name for _, *ends, _ in rows for name in ends}), rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS_OF_TEXT)
def test_columns_of_text_are_read_as_from_row_to_row(kind, seed):
    rng = np.random.default_rng(seed)
    names = ["ann", "bob", "cid", "", "1", "1.0", "é", "dan "]
    first, second, winner = [], [], []
    for _ in range(20):
        one, other = rng.choice(names[:3] + names[4:], size=2, replace=False).tolist()
        first.append(one)
        second.append(other)
        winner.append([one, other, "tie", None, ""][rng.integers(5)])
    source = KINDS_OF_TEXT[kind]({"a": first, "b": second, "winner": winner})
    with pytest.warns(LeftOutWarning):
        table = read_comparisons(source)
    items, rows = naive_reading(first, second, winner)
    assert table.names.tolist() == items
    ends = zip(table.names[table.first], table.names[table.second], strict=True)
    read = zip(table.row.tolist(), ends, table.outcome.tolist(), strict=True)
    assert [(row, *end, outcome) for row, end, outcome in read] == rows


@pytest.mark.parametrize("kind", KINDS_OF_TEXT)
def test_names_that_are_missing_are_refused_in_every_kind_of_text(kind):
    """The blank of a dictionary of Arrow was read as the last of its words."""
    columns = {"a": ["x"] * 8 + [None], "b": ["y"] * 9, "winner": ["a"] * 9}
    with pytest.raises(InvalidInputError, match="must name two items: row 8 lacks one"):
        read_comparisons(KINDS_OF_TEXT[kind](columns))


@pytest.mark.parametrize("form", [("model_a", "model_b", "winner"), ("home", "away", "result")])
@pytest.mark.parametrize("neutral", [{}, {"neutral": [], "date": []}])
def test_a_table_without_rows_is_refused_in_every_form(form, neutral):
    columns = {name: [] for name in form} | neutral
    for source in (columns, pd.DataFrame(columns), pd.DataFrame(columns, dtype="str")):
        with pytest.raises(NothingToLearnError, match="at least one comparison: got none"):
            read_comparisons(source)


def test_cells_of_rows_that_are_left_out_name_nobody():
    """True and 1 are equal: a row that is not read must not turn the item 1 into True."""
    first = np.array([True, 1, 2], dtype=object)
    with pytest.warns(LeftOutWarning, match="1 of 3"):
        table = read_comparisons({"a": first, "b": [3, 2, 3], "winner": [None, "a", "b"]})
    assert [(type(name), name) for name in table.names.tolist()] == [(int, 1), (int, 2), (int, 3)]


def test_equal_items_of_different_types_are_one_item():
    columns = {"a": [1, 1.0, "x"], "b": ["x", "y", "y"], "winner": ["a", "b", "a"]}
    table = read_comparisons({k: np.array(v, dtype=object) for k, v in columns.items()})
    assert table.names.tolist() == [1, "x", "y"]
    assert table.pairs.tolist() == [[0, 1], [2, 0], [1, 2]]


def test_tuples_with_lists_are_no_names():
    columns = {"a": ["x", ("y", [1])], "b": ["y", "z"], "winner": ["a", "b"]}
    with pytest.raises(DataFileError, match="'a' must hold names or numbers: row 1 holds a tuple"):
        read_comparisons(columns)


def test_columns_of_a_file_are_read_once(tmp_path, monkeypatch):
    path = tmp_path / "battles.csv"
    path.write_text("a,b,winner,note\nx,y,a,-\ny,z,b,-\n")
    asked = []
    read = CsvTable.cells
    monkeypatch.setattr(
        CsvTable, "cells", lambda table, names: asked.append(names) or read(table, names)
    )
    assert read_comparisons(path).n_rows == 2
    columns = [name for names in asked for name in names]
    assert all(asked)
    assert sorted(columns) == sorted(set(columns))
