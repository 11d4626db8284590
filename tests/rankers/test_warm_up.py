"""Compiling beforehand reaches the folder, step by step, and says where it fails."""

import os

import pytest

from rankwise import RankwiseError, warm_up
from rankwise.rankers import warm_up as module


def test_the_steps_are_named_and_the_folder_is_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(
        module,
        "_CODE",
        "from rankwise.rankers import warm_up as w\n"
        "w._STEPS = {'measures': w._STEPS['measures']}\n"
        "w.run_steps()",
    )
    seen = []
    warm_up(tmp_path / "new" / "cache", lambda *step: seen.append(step))
    assert seen == [("measures", 1, len(module._STEPS))]
    files = [name for _, _, names in os.walk(tmp_path / "new" / "cache") for name in names]
    assert any(name.endswith(".nbc") for name in files)


def test_a_failing_step_is_told(monkeypatch):
    monkeypatch.setattr(module, "_CODE", "raise SystemExit('no compiler')")
    with pytest.raises(RankwiseError, match=r"it failed\. no compiler"):
        warm_up()
