"""The file of answers is read by the other commands and by Python, while it is in use or after."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwise
from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.store import AnswerStore
from rankwise.apps.cli.app import app
from rankwise.io import read_comparisons
from rankwise.io.answer_file import AnswerFile

ORDER = ["pear", "apple", "plum", "fig", "kiwi"]


def fill(store, n_answers=60):
    """Let two raters answer by the order of the items, with a tie, a skip and an undone answer."""
    rng = np.random.default_rng(0)
    raters = [store.add_rater(name, name).id for name in ("ann", "bob")]
    for turn in range(n_answers):
        left, right = rng.choice(5, size=2, replace=False).tolist()
        question = store.ask(raters[turn % 2], left, right)
        store.record(question.rater, question.id, "left" if left < right else "right")
    for answer in ("tie", "skip", "right"):
        question = store.ask(raters[0], 0, 1)
        store.record(raters[0], question.id, answer)
    store.undo(raters[0])


@pytest.fixture
def answers(store):
    fill(store)
    return store.path


def run(*arguments, status=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == status, (result.output, result.exception)
    return result.output


def test_answers_that_count_are_comparisons(answers, store):
    table = read_comparisons(answers)
    records = [one for one in store.records() if one.answer != "skip"]
    assert len(records) == 61
    assert table.tied.sum() == 1
    expected = [[ORDER[i] for i in one.winner_first] for one in records if one.answer != "tie"]
    assert table.names[table.pairs].tolist() == expected


def test_an_answer_means_the_same_whatever_the_items_are_called(tmp_path):
    """An item called "right" that was shown on the left wins if the left one was chosen."""
    for names in (("right", "left"), ("tie", "b"), ("b", "a"), ("2", "1")):
        store = AnswerStore.open(tmp_path / f"{names[0]}.db", ItemList(tuple(map(Item, names))))
        rater = store.add_rater("ann", "ann").id
        for answer in ("left", "right", "tie"):
            store.record(rater, store.ask(rater, 0, 1).id, answer)
        table = read_comparisons(store.path)
        assert table.names[table.first].tolist() == [names[0]] * 3
        assert table.outcome.tolist() == [1, -1, 0]
        store.close()


def test_a_process_learns_from_the_file(answers):
    gp = rankwise.PreferenceGP().fit(pairs=str(answers))
    scores = dict(zip(gp.item_names_, gp.predict(), strict=True))
    assert sorted(scores, key=scores.get, reverse=True) == ORDER


def test_prefer_and_leaderboard_read_the_file(answers, tmp_path):
    lines = run("prefer", answers).splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ORDER
    (tmp_path / "items.csv").write_text("name\n" + "\n".join(ORDER) + "\n")
    assert run("prefer", tmp_path / "items.csv", answers) == run("prefer", answers)
    board = run("leaderboard", answers, "--judges", "--first")
    assert board.index("pear") < board.index("kiwi")


def test_features_are_kept(tmp_path):
    items = ItemList(tuple(Item(name, features=(float(i),)) for i, name in enumerate(ORDER)))
    store = AnswerStore.open(tmp_path / "a.db", items)
    fill(store)
    assert AnswerFile.read(store.path).features[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert run("prefer", store.path).splitlines()[1].startswith("pear")
    store.close()


def test_answers_are_exported(answers, tmp_path):
    assert "61 answers written" in run("ask", answers, "--export", tmp_path / "a.csv")
    there, back = read_comparisons(answers), read_comparisons(tmp_path / "a.csv")
    assert there.pairs.tolist() == back.pairs.tolist()
    assert there.date.tolist() == back.date.tolist()


def test_names_of_strangers_are_no_formulas_in_what_is_exported(tmp_path, store):
    """Anybody with the link may choose a name; the names of items stay, to be found again."""
    rater = store.add_rater("=HYPERLINK(A1)", "key")
    store.record(rater.id, store.ask(rater.id, 0, 1).id, "left")
    run("ask", store.path, "--export", tmp_path / "a.csv")
    (row,) = csv.DictReader((tmp_path / "a.csv").read_text().splitlines())
    assert (row["a"], row["judge"]) == ("pear", "'=HYPERLINK(A1)")


def test_what_is_no_file_of_answers_is_refused(answers, tmp_path, store):
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(rankwise.DataFileError, match="expected an answers file"):
        read_comparisons(tmp_path / "other.db")
    empty = AnswerStore.open(tmp_path / "empty.db", store.items())
    with pytest.raises(rankwise.DataFileError, match="must hold answers: there are none yet"):
        read_comparisons(empty.path)
    empty.close()
    (tmp_path / "items.csv").write_text("name\na\nb\n")
    output = run("ask", tmp_path / "items.csv", "--export", tmp_path / "a.csv", status=2)
    assert "must be an answers file of rankwise ask" in output
    assert "--item and --features must name" in run("prefer", answers, "--item", "x", status=2)
    for option in (("--tied", "x"), ("--codes", "left=b")):
        assert "--date must be about columns of a table" in run(
            "prefer", answers, *option, status=2
        )
    assert "--codes must explain the cells of a table" in run(
        "leaderboard", answers, "--codes", "left=b", status=2
    )
