"""LightGBM, which grows the trees: loaded when something needs it."""

import sys
from importlib.util import find_spec
from typing import Any

from rankwise.core.errors import extra


def lightgbm(what: str) -> Any:
    """Return the library; say what needs it where it is missing."""
    if sys.modules.get("lightgbm") is None:
        with extra(what, "lightgbm", "trees"):
            import lightgbm  # noqa: F401, PLC0415
    return sys.modules["lightgbm"]


def has_lightgbm() -> bool:
    """Tell whether the library is installed, without loading it."""
    return find_spec("lightgbm") is not None
