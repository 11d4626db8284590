"""The public names: all there, documented, typed, and quick to import."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import rankwise
from architecture import options, stub
from systems import loaded_by_scikit_learn

NAMES = [name for name in rankwise.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_documented_with_an_example(name):
    value = getattr(rankwise, name)
    documented = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    assert documented.__doc__, name
    if not (inspect.isclass(value) and issubclass(value, (Exception, Warning))):
        home = documented.__doc__ + (inspect.getmodule(documented).__doc__ or "")
        assert ">>>" in home or name in ("Kernel",), name


def test_type_checkers_see_the_same_names():
    """`python tests/architecture/stub.py` writes the stub."""
    assert stub.PATH.read_text(encoding="utf-8") == stub.stub()


def test_the_options_of_rankers_are_current():
    """`python tests/architecture/options.py` writes the file of options."""
    assert options.PATH.read_text(encoding="utf-8") == options.text()


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        rankwise.nonsense  # noqa: B018


def test_import_loads_nothing_heavy():
    heavy = {"numpy", "scipy", "sklearn"}
    code = f"import sys, rankwise; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("ranker", [rankwise.LinearRankRLS(), rankwise.RankRLS(kernel="gaussian")])
def test_loading_a_model_and_predicting_loads_nothing_that_scikit_learn_does_not(tmp_path, ranker):
    heavy = {"scipy.stats", "scipy.optimize", "pandas", "pyarrow", "rich", "typer"}
    heavy -= loaded_by_scikit_learn()
    X = np.arange(12.0).reshape(6, 2)
    ranker.fit(X, [0, 1, 2, 0, 2, 1]).save(tmp_path / "model")
    code = (
        "import sys, numpy, rankwise\n"
        f"scores = rankwise.load({str(tmp_path / 'model')!r}).predict(numpy.ones((3, 2)))\n"
        f"print(len(scores), sorted({heavy} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "3 []"
