"""Compiling beforehand reaches the folder, step by step, and says where it fails."""

import os

import pytest

from rankwise import RankwiseError
from rankwise.rankers.warm_up import compile_steps


def test_the_steps_are_named_and_the_folder_is_filled(tmp_path):
    seen = []
    compile_steps(["measures"], tmp_path / "new" / "cache", lambda *step: seen.append(step))
    assert seen == [("measures", 1, 1)]
    files = [name for _, _, names in os.walk(tmp_path / "new" / "cache") for name in names]
    assert any(name.endswith(".nbc") for name in files)


def test_a_failing_step_is_told():
    with pytest.raises(RankwiseError, match=r"(?s)it failed.*no such step"):
        compile_steps(["no such step"])
