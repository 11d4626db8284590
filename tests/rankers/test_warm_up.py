"""Compiling beforehand reaches the folder, step by step, and says where it fails."""

import pytest

from rankwise import RankwiseError
from rankwise.rankers.warm_up import compile_steps


def test_the_steps_are_named_and_the_folder_is_made(tmp_path):
    seen = []
    compile_steps(["measures"], tmp_path / "new" / "cache", lambda *step: seen.append(step))
    assert seen == [("measures", 1, 1)]
    assert (tmp_path / "new" / "cache").is_dir()


def test_a_failing_step_is_told():
    with pytest.raises(RankwiseError, match=r"(?s)it failed.*no such step"):
        compile_steps(["no such step"])
