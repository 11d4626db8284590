"""Loading rankers loads nothing that only other parts of scikit-learn use, and hides nothing."""

import subprocess
import sys
import threading

import pytest

from rankwise.core.loading import StandIn, stand_ins

DEFERRED = frozenset(["around.slow", "around.missing"])


def printed_by(program):
    """Return what a program prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Make a package ``around`` with a deferred module ``slow``; scikit-learn is not loaded."""
    (tmp_path / "around").mkdir()
    (tmp_path / "around" / "__init__.py").touch()
    (tmp_path / "around" / "slow").mkdir()
    (tmp_path / "around" / "slow" / "__init__.py").write_text("answer = 42\n")
    (tmp_path / "around" / "slow" / "part.py").write_text("part = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sklearn", raising=False)
    yield "around.slow"
    for name in [name for name in sys.modules if name.partition(".")[0] == "around"]:
        del sys.modules[name]


def load(name):
    """Import a module and return what other modules would find."""
    __import__(name)
    return sys.modules[name]


def test_a_deferred_module_is_loaded_when_a_name_is_asked_for(slow):
    with stand_ins(DEFERRED):
        found = load(slow)
        assert isinstance(found, StandIn)
        assert found.answer == 42
        assert not isinstance(load(slow), StandIn)
    assert found.answer == 42


def test_nothing_is_left_behind(slow):
    finders = list(sys.meta_path)
    with stand_ins(DEFERRED):
        found = load(slow)
    assert sys.meta_path == finders
    assert slow not in sys.modules
    assert "slow" not in vars(sys.modules["around"])
    module = load(slow)
    assert not isinstance(module, StandIn)
    assert sys.modules["around"].slow is module
    assert found.answer == module.answer


def test_nothing_is_left_behind_after_an_error(slow):
    finders = list(sys.meta_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere"), stand_ins(DEFERRED):
        load(f"{slow}.nowhere")
    assert sys.meta_path == finders
    assert slow not in sys.modules


def test_a_part_of_a_deferred_module_is_found(slow):
    with stand_ins(DEFERRED):
        load(slow)
        assert load(f"{slow}.part").part == 7
    assert load(slow).answer == 42


def test_a_loaded_module_stays(slow):
    module = load(slow)
    with stand_ins(DEFERRED):
        assert load(slow) is module
    assert sys.modules[slow] is module


def test_other_threads_load_the_module(slow):
    found = []
    with stand_ins(DEFERRED):
        thread = threading.Thread(target=lambda: found.append(load(slow)))
        thread.start()
        thread.join()
    assert not isinstance(found[0], StandIn)
    assert sys.modules[slow] is found[0]


@pytest.mark.usefixtures("slow")
def test_a_module_that_is_not_installed_is_missed():
    with stand_ins(DEFERRED), pytest.raises(ModuleNotFoundError, match=r"around\.missing"):
        load("around.missing")


def test_with_scikit_learn_loaded_modules_are_loaded(slow, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", sys)
    with stand_ins(DEFERRED):
        assert not isinstance(load(slow), StandIn)


@pytest.mark.usefixtures("lean_scikit_learn")
def test_scikit_learn_and_others_get_the_modules_that_stood_aside():
    program = (
        "import sys, rankwise\n"
        "rankwise.RankRLS\n"
        "print('scipy.stats' in sys.modules, 'pandas' in sys.modules)\n"
        "from sklearn.utils.fixes import _mode\n"
        "print(_mode([3, 1, 3]).mode[0])\n"
        "import pandas, scipy.stats\n"
        "print(len(pandas.DataFrame({'a': [1, 2]})), scipy.stats.rankdata([5]).sum())\n"
    )
    assert printed_by(program) == ["False", "False", "3", "2", "1.0"]


def test_nothing_stands_in_beside_other_threads():
    program = (
        "import sys, threading, rankwise\n"
        "done = threading.Event()\n"
        "other = threading.Thread(target=done.wait)\n"
        "other.start()\n"
        "rankwise.RankRLS\n"
        "done.set()\n"
        "print('scipy.stats' in sys.modules)\n"
    )
    assert printed_by(program) == ["True"]
