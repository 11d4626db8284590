"""Python's search for garbage stands still while modules are loaded and kernels are compiled."""

import gc

import pytest

import rankwise
from rankwise.core import loading
from rankwise.core.collector import paused_collector


@pytest.fixture(autouse=True)
def _enabled():
    """Leave the collector as it was."""
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def test_the_search_stands_still_until_the_outermost_pause_ends():
    with paused_collector():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(ZeroDivisionError), paused_collector():
        _ = 1 / 0
    assert gc.isenabled()


def test_one_that_was_switched_off_stays_off():
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()


def test_nothing_young_is_left_of_what_stays():
    with paused_collector(all_stays=True):
        kept = [[] for _ in range(10_000)]
    assert gc.get_count()[0] < 1_000 < len(kept)


@pytest.mark.parametrize("all_stays", [False, True])
def test_garbage_of_a_pause_is_still_found(all_stays):
    with paused_collector(all_stays=all_stays):
        for _ in range(10):
            cycle: list[object] = []
            cycle.append(cycle)
        del cycle
    assert gc.collect() >= 10


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with paused_collector(all_stays=True):
            pass
        assert gc.get_freeze_count() == frozen > 0
    finally:
        gc.unfreeze()


def test_public_names_are_loaded_in_a_pause(monkeypatch):
    seen = []
    load = loading.import_module

    def watched(name):
        seen.append(gc.isenabled())
        return load(name)

    monkeypatch.setattr(loading, "import_module", watched)
    assert rankwise.__getattr__("Queries").__name__ == "Queries"
    assert seen == [False]
