"""LightGBM, which grows the trees: loaded when something needs it."""

from importlib.util import find_spec
from typing import Any

from rankwise.core.errors import MissingExtraError


def lightgbm(what: str) -> Any:
    """Return the library; say what needs it where it is missing."""
    try:
        import lightgbm as library  # noqa: PLC0415
    except ImportError as error:  # pragma: no cover - depends on the installation
        raise MissingExtraError(what, "lightgbm", "trees") from error
    return library


def has_lightgbm() -> bool:
    """Tell whether the library is installed, without loading it."""
    return find_spec("lightgbm") is not None
