import pytest

from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.store import AnswerStore


@pytest.fixture
def items():
    return ItemList(tuple(Item(name) for name in ["pear", "apple", "plum", "fig", "kiwi"]))


@pytest.fixture
def store(tmp_path, items):
    opened = AnswerStore.open(tmp_path / "answers.db", items)
    yield opened
    opened.close()
