"""Tables of comparisons as people have them: read right and said how, or refused."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import DataFileError, InvalidInputError, leaderboard
from rankwise.io import ComparisonColumns, read_choices, read_comparisons

PAIR = {"model_a": ["x", "y", "x"], "model_b": ["y", "z", "z"]}


def outcomes(winner, **columns):
    return read_comparisons({**PAIR, "winner": winner}, ComparisonColumns(**columns)).outcome


@pytest.mark.parametrize(
    "winner",
    [
        ["[[A]]", "[[B]]", "[[C]]"],
        ["A>B", "B>A", "A=B"],
        ["A>>B", "B >> A", "A=B"],
        ["Win", "Loss", "Draw"],
        ["W", "L", "D"],
        ["A slightly better", "B is much better", "No preference"],
        ["Response 1 is better", "Response 2 is slightly better", "about the same"],
        ["model_a", "model_b", "tie (bothbad)"],
        ["A is worse than that", "B is worse", "tie"],
    ],
)
def test_words_for_the_winner(winner):
    expected = [1, -1, 0] if "worse" not in winner[0] else [-1, 1, 0]
    assert outcomes(winner).tolist() == expected


def test_how_much_better_is_a_margin():
    table = read_comparisons({**PAIR, "winner": ["A slightly better", "B much better", "A better"]})
    assert table.outcome.tolist() == [1, -1, 1]
    assert table.margin.tolist() == [1.0, 3.0, 2.0]
    assert read_comparisons({**PAIR, "winner": ["A>>B", "A>B", "B>A"]}).margin.tolist() == [3, 2, 2]
    assert read_comparisons({**PAIR, "winner": ["A>B", "A>B", "B>A"]}).margin is None


def test_flags_in_columns_of_their_own():
    flags = {"winner_model_a": [1, 0, 0], "winner_model_b": [0, 1, 0], "winner_tie": [0, 0, 1]}
    assert read_comparisons({**PAIR, **flags}).outcome.tolist() == [1, -1, 0]
    no_ties = {name: flags[name][:2] for name in ("winner_model_a", "winner_model_b")}
    two = {name: cells[:2] for name, cells in PAIR.items()}
    assert read_comparisons({**two, **no_ties}).outcome.tolist() == [1, -1]
    with pytest.raises(DataFileError, match="row 0 says more than one"):
        read_comparisons({**PAIR, **flags, "winner_model_b": [1, 1, 0]})


def test_numbers_around_zero_need_a_word_whom_they_favour():
    likert = [-3, 2, 0]
    with pytest.raises(DataFileError, match="whom its numbers around 0 favour"):
        outcomes(likert)
    table = read_comparisons({**PAIR, "winner": likert}, ComparisonColumns(favours="b"))
    assert table.outcome.tolist() == [1, -1, 0]
    assert table.margin.tolist() == [3.0, 2.0, 0.0]
    assert outcomes(likert, favours="a").tolist() == [-1, 1, 0]
    with pytest.raises(InvalidInputError, match="`favours` must be 'a' or 'b': got 'c'"):
        outcomes(likert, favours="c")
    with pytest.raises(DataFileError, match="must hold numbers: row 1 holds none"):
        outcomes([1, None, 2], favours="a")


def test_soft_labels_are_shares_of_a_row():
    table = read_comparisons({**PAIR, "winner": [0.9, 0.25, 1.0]})
    won = {
        (table.names[i].item(), table.names[j].item(), o): w
        for i, j, o, w in zip(table.first, table.second, table.outcome, table.weight, strict=True)
    }
    assert won[("x", "y", 1)] == pytest.approx(0.9)
    assert won[("y", "z", -1)] == pytest.approx(0.75)
    assert ("x", "z", -1) not in won
    assert any("soft labels" in line for line in table.reading)
    assert outcomes([1, 0.5, 0]).tolist() == [1, 0, -1]


def test_two_columns_are_one_covariate():
    sides = {"tokens_a": [30, 10, 5], "tokens_b": [10, 10, 15], "winner": ["a", "b", "a"]}
    plain = read_comparisons({**PAIR, **sides}, ComparisonColumns(covariates=("tokens",)))
    assert plain.covariates.ravel().tolist() == [20.0, 0.0, -10.0]
    shares = read_comparisons({**PAIR, **sides}, ComparisonColumns(controls=("tokens",)))
    assert shares.covariates.ravel().tolist() == [0.5, 0.0, -0.5]
    assert shares.covariate_names == ("tokens",)
    with pytest.raises(DataFileError, match="'tokens_a' is one column"):
        read_comparisons({**PAIR, **sides}, ComparisonColumns(controls=("tokens_a",)))
    negative = {**sides, "tokens_a": [-1, 1, 1]}
    with pytest.raises(DataFileError, match="must hold numbers that are not negative"):
        read_comparisons({**PAIR, **negative}, ComparisonColumns(controls=("tokens",)))


def test_words_are_covariates_too():
    words = {"style_a": ["list", "prose", "prose"], "style_b": ["prose", "prose", "list"]}
    table = read_comparisons(
        {**PAIR, **words, "winner": ["a", "b", "a"]}, ComparisonColumns(covariates=("style",))
    )
    assert table.covariate_names == ("style=list",)
    assert table.covariates.ravel().tolist() == [1.0, 0.0, -1.0]
    one = {"language": ["English", "German", "English"], "winner": ["a", "b", "a"]}
    table = read_comparisons({**PAIR, **one}, ComparisonColumns(covariates=("language",)))
    assert table.covariate_names == ("language=German",)
    many = {
        "a": ["x"] * 40,
        "b": ["y"] * 40,
        "winner": ["a"] * 40,
        "word": [f"w{k}" for k in range(40)],
    }
    with pytest.raises(DataFileError, match="at most 30 different words: it holds 40"):
        read_comparisons(many, ComparisonColumns(covariates=("word",)))


def test_running_numbers_are_no_counts_and_fractions_are_no_counts():
    games = {"home": list("xyzxyz"), "away": list("yzxzxy"), "result": list("HADHAD")}
    table = read_comparisons({**games, "n": [1, 2, 3, 4, 5, 6]})
    assert table.weight.tolist() == [1.0] * 6
    assert "n: numbers of the rows, not used as counts" in table.reading
    counted = read_comparisons({**games, "n": [5, 2, 2, 1, 1, 1]})
    assert counted.weight.sum() == 12
    assert "each row counts as often as n says: 12 in all" in counted.reading
    named = read_comparisons({**games, "n": [1, 2, 3, 4, 5, 6]}, ComparisonColumns(count="n"))
    assert named.weight.sum() == 21
    weighted = read_comparisons({**games, "weight": [0.5, 1, 1, 1, 1, 1]})
    assert weighted.weight.sum() == pytest.approx(5.5**2 / 5.25)
    assert any("effective number of answers, 6" in line for line in weighted.reading)
    whole = read_comparisons({**games, "weight": [3, 1, 1, 1, 1, 1]})
    assert whole.weight.sum() == 8


def test_bad_rows_are_skipped_on_request_and_counted():
    columns = {
        "a": ["x", "y", "x", "", "x"],
        "b": ["y", "z", "x", "y", "z"],
        "winner": ["a", "moon", "b", "a", "tie"],
    }
    with pytest.raises((DataFileError, InvalidInputError)):
        read_comparisons(columns)
    table = read_comparisons(columns, skip_bad=True)
    assert table.outcome.tolist() == [1, 0]
    assert table.row.tolist() == [0, 4]
    assert (
        "3 rows left out, since they compare an item with itself or nothing, or do not say who won"
        in table.reading
    )


def test_the_reading_of_a_table_is_said():
    columns = {
        "model_a": ["GPT-4", "gpt-4", "x", "x", "x"],
        "model_b": ["x", "x", "GPT-4", "gpt-4", "gpt-4"],
        "winner": ["model_a", "tie", "model_b", "", "model_a"],
        "judge": ["ann", "ann", "ann", "bob", "bob"],
        "question_id": [1, 1, 1, 2, 2],
    }
    with pytest.warns(UserWarning, match="1 of 5 rows"):
        table = read_comparisons(columns)
    assert table.reading == (
        "items: model_a and model_b",
        "winner: winner ('model_a' = a, 'tie' = tie, 'model_b' = b, '' = skip)",
        "1 rows left out, since they do not say who won",
        "judge: judge",
        "question: question_id",
        "2 names differ only in case, spaces or form, and are different items: 'GPT-4' and 'gpt-4'",
        "1 questions were asked in both orders: their answers are not independent, see the audit",
    )
    board = leaderboard(table, random_state=0)
    assert board.reading_ == table.reading
    names = read_comparisons({"a": ["x", "y"], "b": ["y", "z"], "winner": ["x", "z"]})
    assert names.reading[1] == "winner: winner (names of items)"
    won = read_comparisons({"winner": ["x"], "loser": ["y"]})
    assert won.reading == ("items: winner and loser", "winner: winner")
    points = {"home_team": ["x"], "away_team": ["y"], "home_score": [1], "away_score": [2]}
    assert read_comparisons(points).reading[1] == "winner: more points, home_score or away_score"


def test_exact_repeats_are_said():
    rows = {
        "a": ["x", "x", "y"],
        "b": ["y", "y", "z"],
        "winner": ["a", "a", "b"],
        "judge": ["ann"] * 3,
        "date": ["2026-01-01"] * 3,
    }
    assert any(
        "rows that repeat others to the letter: 1, " in line
        for line in read_comparisons(rows).reading
    )
    rows["date"] = ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert not any("repeat" in line for line in read_comparisons(rows).reading)


def test_only_the_columns_that_are_used_are_read(tmp_path, monkeypatch):
    path = tmp_path / "arena.csv"
    prompt = "long " * 100
    path.write_text(f'model_a,model_b,prompt,winner\nx,y,"{prompt}",model_a\ny,z,"{prompt}",tie\n')
    from rankwise.io.tables.csv import CsvTable

    asked = []
    coded = CsvTable.coded
    monkeypatch.setattr(
        CsvTable, "coded", lambda self, names: asked.extend(names) or coded(self, names)
    )
    table = read_comparisons(path)
    assert sorted(asked) == ["model_a", "model_b", "winner"]
    assert table.unread == ("prompt",)


def test_json_of_an_arena_is_read(tmp_path):
    rows = [
        {
            "model_a": "x",
            "model_b": "y",
            "winner": winner,
            "judge": "arena_user_1",
            "conversation_a": [{"role": "user", "content": "hello"}],
            "tstamp": 1682351591.1322,
            "anony": True,
        }
        for winner in ("model_a", "tie (bothbad)", "model_b")
    ]
    path = tmp_path / "battles.json"
    path.write_text(json.dumps(rows))
    table = read_comparisons(path)
    assert table.outcome.tolist() == [1, 0, -1]
    assert table.date is not None
    lines = tmp_path / "battles.jsonl"
    lines.write_text("\n".join(map(json.dumps, rows)))
    np.testing.assert_array_equal(read_comparisons(lines).outcome, table.outcome)


def test_ballots_and_choices_by_position():
    ballots = {"first": ["x", "y"], "second": ["y", "z"], "third": ["z", ""], "voter": ["a", "b"]}
    assert read_choices(ballots).n_choices == 3
    assert leaderboard(ballots, random_state=0).n_items == 3
    offered = {"item1": ["x", "y"], "item2": ["y", "z"], "item3": ["z", "x"]}
    by_name = read_choices({**offered, "best": ["x", "z"], "worst": ["z", "x"]})
    by_position = read_choices({**offered, "best": [1, 2], "worst": [3, 3]})
    np.testing.assert_array_equal(by_position.chosen, by_name.chosen)


PREFLIB = """# FILE NAME: 00001-00000001.toc
# NUMBER ALTERNATIVES: 4
# ALTERNATIVE NAME 1: Ann
# ALTERNATIVE NAME 2: Bob
# ALTERNATIVE NAME 3: Cid
# ALTERNATIVE NAME 4: Dan
3: 1,2,3,4
2: 2,{1,3},4
"""


def test_orders_of_preflib(tmp_path):
    path = tmp_path / "votes.toc"
    path.write_text(PREFLIB)
    table = read_choices(path)
    found = {
        (table.names[table.chosen[k]].item(), frozenset(table.names[table.item[table.choice == k]]))
        for k in range(table.n_choices)
    }
    assert found == {
        ("Ann", frozenset(["Ann", "Bob", "Cid", "Dan"])),
        ("Bob", frozenset(["Bob", "Cid", "Dan"])),
        ("Cid", frozenset(["Cid", "Dan"])),
        ("Bob", frozenset(["Ann", "Bob", "Cid", "Dan"])),
        ("Ann", frozenset(["Ann", "Dan"])),
    }
    assert sorted(table.weight) == [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]
    assert leaderboard(path, random_state=0).names[-1] == "Dan"
    for text, message in (
        ("3: 1,2\nnonsense", "line 2: expected a count and an order"),
        ("3: 1,1", "line 1: expected each item once"),
        ("# nothing", "expected at least one order"),
    ):
        path.write_text(text)
        with pytest.raises(DataFileError, match=message):
            read_choices(path)


def test_numbers_around_zero_are_refused_until_somebody_says_whom_they_favour():
    rows = {"a": list("xyz"), "b": list("yzx"), "preference": [-2, 3, 0]}
    with pytest.raises(DataFileError, match=r"around 0 favour: got '-2', '3'.*favours='a'"):
        read_comparisons(rows)
    read = read_comparisons(rows, ComparisonColumns(favours="a"))
    assert read.outcome.tolist() == [-1, 1, 0]
    assert "winner: preference (numbers)" in read.reading


@pytest.mark.parametrize("name", ["verdict", "judgment", "choice"])
def test_columns_of_annotators_are_found_by_their_names(name):
    rows = {"player": ["x", "x"], "opponent": ["y", "z"], name: ["Win", "Loss"]}
    assert read_comparisons(rows).outcome.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("winner", "expected", "margin"),
    [
        (["I think [[A]]", "so: [[B]]", "[[C]]"], [1, -1, 0], None),
        (["[[A>B]], or rather [[B>A]]", "final: [[A>>B]]", "[[A=B]]"], [-1, 1, 0], [2, 3, 2]),
        (["model_a_better", "model_b_better", "tie"], [1, -1, 0], None),
        (["W", "L", "T"], [1, -1, 0], None),
        (["1-0", "0-1", "1/2-1/2"], [1, -1, 0], None),
    ],
)
def test_verdicts_inside_texts_and_letters(winner, expected, margin):
    table = read_comparisons({**PAIR, "winner": winner})
    assert table.outcome.tolist() == expected
    assert (None if table.margin is None else table.margin.tolist()) == margin


def test_games_that_did_not_end_say_nothing():
    games = {"White": ["x", "y"], "Black": ["y", "z"], "Result": ["1-0", "*"]}
    with pytest.warns(UserWarning, match="1 of 2 rows do not say who won"):
        assert read_comparisons(games).outcome.tolist() == [1]


def test_what_annotators_did_not_say_is_skipped_or_explained():
    with pytest.raises(DataFileError, match=r"""codes="can'tsay=skip"\)"""):
        outcomes(["a", "b", "can't say"])
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        assert outcomes(["a", "b", "can't say"], codes={"can't say": "skip"}).tolist() == [1, -1]


def test_scales_have_a_middle():
    with pytest.raises(DataFileError, match=r"numbers from 1 to 7.*favours='b', middle=4\)"):
        outcomes([1, 7, 5])
    table = read_comparisons(
        {**PAIR, "winner": [1, 7, 4]}, ComparisonColumns(favours="b", middle=4)
    )
    assert table.outcome.tolist() == [1, -1, 0]
    assert table.margin.tolist() == [3.0, 3.0, 0.0]


@pytest.mark.parametrize("name", ["preference", "label", "choice", "vote", "judgment"])
def test_a_sign_in_a_column_of_annotators_may_be_of_either_side(name):
    with pytest.raises(DataFileError, match="must say whom its numbers around 0 favour"):
        read_comparisons({**PAIR, name: [-1, 1, 0]})
    read = read_comparisons({**PAIR, name: [-1, 1, 0]}, ComparisonColumns(favours="b"))
    assert read.outcome.tolist() == [1, -1, 0]


def test_counts_of_wins_count():
    table = read_comparisons({**PAIR, "wins_a": [3, 0, 1], "wins_b": [1, 2, 0], "ties": [0, 2, 0]})
    found = {
        (table.names[i].item(), table.names[j].item(), o): w
        for i, j, o, w in zip(table.first, table.second, table.outcome, table.weight, strict=True)
    }
    expected = {("x", "y", 1): 3.0, ("x", "y", -1): 1.0, ("y", "z", -1): 2.0, ("y", "z", 0): 2.0}
    assert found == {**expected, ("x", "z", 1): 1.0}
    assert "winner: how often each won, by wins_a, wins_b, ties" in table.reading
    with pytest.warns(UserWarning, match="1 of 3 rows do not say who won"):
        read_comparisons({**PAIR, "a_wins": [3, 0, 1], "b_wins": [1, None, 0]})
    with pytest.raises(DataFileError, match="must count wins: row 1 holds"):
        read_comparisons({**PAIR, "a_wins": [3, -1, 1], "b_wins": [1, 0, 0]})


@pytest.mark.parametrize("said", [[True, False, True], [1, 0, 1], [1.0, 0.0, 1.0]])
def test_a_column_of_its_own_says_that_the_first_won(said):
    assert read_comparisons({**PAIR, "a_wins": said}).outcome.tolist() == [1, -1, 1]
    soft = read_comparisons({**PAIR, "prob_a_wins": [0.9, 0.2, 1.0]})
    assert_allclose(soft.weight.sum(), 3.0)


def test_a_missing_winner_is_told_from_missing_items():
    with pytest.raises(DataFileError, match="Comparisons of 'model_a' and 'model_b' must have"):
        read_comparisons({**PAIR, "score": ["A>B", "B>A", "A=B"]})


def season(both_sides):
    """Return 60 games of six teams with results from one side, or from both."""
    rng = np.random.default_rng(0)
    teams = np.array(list("uvwxyz"))
    first = rng.integers(6, size=60)
    second = (first + 1 + rng.integers(5, size=60)) % 6
    won = rng.random(60) < 0.5
    games = {
        "team": np.append(teams[first], teams[second]),
        "opponent": np.append(teams[second], teams[first]),
        "result": np.append(np.where(won, "W", "L"), np.where(won, "L", "W")),
        "date": np.tile(np.arange(60) // 3, 2),
    }
    return games if both_sides else {name: cells[:60] for name, cells in games.items()}


def test_games_as_seen_by_both_sides_are_said_to_count_twice():
    line = "every row stands in the table twice, as seen by both sides"
    for drops in ((), ("date",)):
        games = {k: v for k, v in season(True).items() if k not in drops}
        assert any(line in said for said in read_comparisons(games).reading)
    assert not any("twice" in said for said in read_comparisons(season(False)).reading)
    doubled = {name: np.tile(cells, 2) for name, cells in season(False).items()}
    assert any("twice, to the letter" in said for said in read_comparisons(doubled).reading)
    few = {name: cells[[0, 1, 60, 61]] for name, cells in season(True).items()}
    assert not any("twice" in said for said in read_comparisons(few).reading)


def test_dates_that_cannot_be_read_are_said():
    table = read_comparisons({**PAIR, "winner": ["a", "b", "a"], "date": ["01/02/2020"] * 3})
    assert table.date is None
    assert any("date: not used as dates: `date` must show" in line for line in table.reading)


def test_the_reading_of_rankings_is_said(tmp_path):
    ballots = {"voter": [1, 2], "1st choice": ["x", "y"], "2nd choice": ["y", "X"]}
    table = read_choices({**ballots, "3rd choice": ["z", "z"], "mood": ["", ""]})
    assert table.reading == (
        "rankings: 1st choice is above 2nd choice, 3rd choice",
        "judge: voter",
        "2 names differ only in case, spaces or form, and are different items: 'X' and 'x'",
    )
    assert table.unread == ("mood",)
    assert leaderboard(table, random_state=0).reading_ == table.reading
    long = {"person": [1, 1], "item": ["x", "y"], "rank": [1, 2], "count": [3, 3]}
    assert read_choices(long).reading[:2] == (
        "rankings: item in the order of rank",
        "one for each person",
    )
    sets = {"item1": ["x"], "item2": ["y"], "item3": ["z"], "best": ["y"], "worst": ["x"]}
    assert "best: best" in read_choices(sets).reading
    path = tmp_path / "votes.soc"
    path.write_text("# ALTERNATIVE NAME 1: tuna\n5: 1,2\n")
    assert read_choices(path).reading == ("orders of PrefLib: 1, given 5 times in all",)
    path.write_text("2\n1,tuna\n2,eel\n5,5,1\n5,1,2\n")
    with pytest.raises(DataFileError, match="has had since 2022.*got the one before"):
        read_choices(path)


def test_small_effects_are_shown_in_digits_that_tell_them_from_zero():
    rng = np.random.default_rng(0)
    size = rng.integers(50, 500, size=(2, 200))
    games = {"a": ["x", "y"] * 100, "b": ["y", "z"] * 100, "size_a": size[0], "size_b": size[1]}
    games["winner"] = np.where(rng.random(200) < 0.5, "a", "b")
    board = leaderboard(games, ComparisonColumns(covariates=("size",)), random_state=0)
    (effect,) = board.effects
    shown = [float(word.strip("()")) for word in effect.text.replace(" to ", " ").split()]
    assert_allclose(shown, [effect.value, effect.low, effect.high], atol=0.02 * np.ptp(shown))
    assert "-0.00 " not in str(board)


def test_winners_may_differ_from_names_in_case_spaces_and_form():
    table = {"a": ["GPT-4", "Café one", "x"], "b": ["x", "x", "GPT-4"]}
    written = ["gpt-4 ", "CAFE\u0301  ONE", "gpt-4"]
    assert read_comparisons({**table, "winner": written}).outcome.tolist() == [1, 1, -1]
    # what is also a word for a side is a name only as it is written
    sides = {"left": ["B", "A"], "right": ["A", "B"], "winner": ["a", "a"]}
    assert read_comparisons(sides).outcome.tolist() == [1, 1]


def test_items_that_are_blank_are_told_from_winners_that_are_not_understood():
    table = {"a": ["x", None, "y"], "b": ["y", "x", "z"], "winner": ["x", "q", "z"]}
    with pytest.raises(
        DataFileError, match=r"row 1 leaves one blank, one of 1 such rows.*skip_bad"
    ):
        read_comparisons(table)
    assert read_comparisons(table, skip_bad=True).outcome.tolist() == [1, -1]


def test_halves_are_points():
    games = {"white": ["x", "y"], "black": ["y", "x"], "result": ["1", "½"]}
    assert read_comparisons(games).outcome.tolist() == [1, 0]
