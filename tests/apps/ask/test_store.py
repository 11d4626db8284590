import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.store import AnswerStore
from rankwise.core.errors import DataFileError, InvalidInputError


def test_an_answer_counts_once_however_often_it_comes(store):
    rater = store.add_rater("ann", "key")
    question = store.ask(rater.id, 0, 1)
    assert store.record(rater.id, question.id, "left").winner_first == (0, 1)
    assert store.record(rater.id, question.id, "left") is None
    assert store.record(rater.id, question.id, "right") is None
    assert [r.answer for r in store.records()] == ["left"]


def test_the_winner_comes_first_whatever_side_it_was_shown_on(store):
    rater = store.add_rater("ann", "key")
    first, second = store.ask(rater.id, 3, 1), store.ask(rater.id, 4, 2)
    assert store.record(rater.id, first.id, "right").winner_first == (1, 3)
    assert store.record(rater.id, second.id, "tie").winner_first == (4, 2)


def test_an_open_question_is_shown_again_after_a_restart(tmp_path, items):
    store = AnswerStore.open(tmp_path / "a.db", items)
    rater = store.add_rater("ann", "key")
    asked = store.ask(rater.id, 2, 3)
    store.close()
    again = AnswerStore.open(tmp_path / "a.db")
    assert again.open_question(again.rater("key").id) == asked
    assert [item.name for item in again.items().items] == [item.name for item in items.items]
    again.close()


def test_undo_takes_back_the_last_answer_of_that_rater(store):
    ann, bob = store.add_rater("ann", "a"), store.add_rater("bob", "b")
    for rater in (ann, bob, ann):
        question = store.ask(rater.id, 0, 1)
        store.record(rater.id, question.id, "left")
    assert store.undo(ann.id).question.rater == ann.id
    assert len(store.records()) == 2
    assert store.undo(ann.id) is not None
    assert store.undo(ann.id) is None
    assert [r.question.rater for r in store.records()] == [bob.id]


def test_a_rater_cannot_answer_for_another(store):
    ann, bob = store.add_rater("ann", "a"), store.add_rater("bob", "b")
    question = store.ask(ann.id, 0, 1)
    with pytest.raises(InvalidInputError, match="asked of this rater"):
        store.record(bob.id, question.id, "left")


def test_a_name_that_is_taken_gets_a_number(store):
    assert [store.add_rater("ann", key).name for key in "abc"] == ["ann", "ann 2", "ann 3"]


def test_a_second_process_is_refused(store, items):
    with pytest.raises(DataFileError, match="in use by another"):
        AnswerStore.open(store.path, items)


def test_another_process_may_read_while_answers_come_in(store):
    rater = store.add_rater("ann", "key")
    question = store.ask(rater.id, 0, 1)
    store.record(rater.id, question.id, "left")
    reader = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    assert reader.execute("SELECT count(*) FROM answers").fetchone() == (1,)
    reader.close()


def test_new_items_may_be_added_at_the_end_only(tmp_path, items):
    path = tmp_path / "a.db"
    AnswerStore.open(path, items).close()
    more = ItemList((*items.items, Item("lime")))
    opened = AnswerStore.open(path, more)
    assert len(opened.items()) == 6
    opened.close()
    with pytest.raises(DataFileError, match="'lime' is gone"):
        AnswerStore.open(path, items)
    with pytest.raises(DataFileError, match="order differs"):
        AnswerStore.open(path, ItemList(more.items[::-1]))


def test_other_files_are_refused(tmp_path, items):
    (tmp_path / "text.db").write_text("no database at all, but long enough to have a header\n" * 9)
    with pytest.raises(
        DataFileError, match="expected an answers file of rankwise ask.*not a database"
    ):
        AnswerStore.open(tmp_path / "text.db", items)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(DataFileError, match="got another or a damaged database"):
        AnswerStore.open(tmp_path / "other.db", items)
    with pytest.raises(DataFileError, match="it does not exist"):
        AnswerStore.open(tmp_path / "nothing.db")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed on Linux")
def test_a_refused_file_is_closed(tmp_path, items):
    path, text = tmp_path / "a.db", tmp_path / "text.db"
    AnswerStore.open(path, items).close()
    text.write_text("no database at all, but long enough to have a header\n" * 9)
    with pytest.raises(DataFileError) as _held:  # what is held keeps connections alive
        AnswerStore.open(path, ItemList(items.items[::-1]))
    with pytest.raises(DataFileError) as _also_held:
        AnswerStore.open(text, items)
    opened = {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
    assert not opened & {str(path), str(text)}


ANSWERING = """
import sys
from pathlib import Path
from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.store import AnswerStore
store = AnswerStore.open(Path(sys.argv[1]), ItemList(tuple(Item(str(i)) for i in range(5))))
rater = store.rater("key") or store.add_rater("ann", "key")
while True:
    question = store.open_question(rater.id) or store.ask(rater.id, 0, 1)
    record = store.record(rater.id, question.id, "left")
    print(record.question.id, flush=True)
"""


def test_killing_the_process_loses_no_acknowledged_answer(tmp_path):
    path, acknowledged = tmp_path / "a.db", set()
    for turn in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", ANSWERING, str(path)], stdout=subprocess.PIPE, text=True
        )
        first = process.stdout.readline()
        time.sleep(0.02 * turn)
        process.kill()
        rest = process.communicate()[0]
        lines = (first + rest).split("\n")[:-1]
        acknowledged.update(int(line) for line in lines)
    store = AnswerStore.open(path)
    kept = [record.question.id for record in store.records()]
    store.close()
    assert len(kept) == len(set(kept))
    assert acknowledged <= set(kept)
    assert len(kept) <= len(acknowledged) + 6  # one may have been committed before its line
