"""Every script of the gallery runs as it stands."""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_an_example_runs(path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with mpl.rc_context({"backend": "agg"}):
        runpy.run_path(str(path))
        assert pyplot.get_fignums()
        pyplot.close("all")


def test_the_gallery_is_not_empty():
    assert len(SCRIPTS) >= 7
