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


@pytest.mark.parametrize(
    ("step", "kernels"),
    [
        ("reading files", ["parse_lines", "scatter_rows"]),
        ("measures", ["sort_items", "swapped_pairs"]),
    ],
)
def test_what_small_problems_do_without_is_compiled(tmp_path, step, kernels):
    compile_steps([step], tmp_path)
    files = [name for _, _, names in os.walk(tmp_path) for name in names]
    for kernel in kernels:
        assert any(f".{kernel}-" in name for name in files), kernel


def test_a_failing_step_is_told():
    with pytest.raises(RankwiseError, match=r"(?s)it failed.*no such step"):
        compile_steps(["no such step"])
