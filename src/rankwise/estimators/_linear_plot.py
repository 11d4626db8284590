"""A figure of an iterative fit."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.selection.path import new_axes

MOST_LINES = 8
"""Alphas with a line of their own, evenly drawn from the grid."""


def plot_history(history: Mapping[str, NDArray[Any]], ylabel: str, ax: Any = None) -> Any:
    """Draw the validation value, or else the residual, against the iteration for several alphas."""
    axes = new_axes() if ax is None else ax
    validated = not np.isnan(history["value"]).all()
    values = history["value"] if validated else history["residual"]
    alphas = history["alpha"]
    spread = np.unique(np.linspace(0, len(alphas) - 1, MOST_LINES).round().astype(int))
    for k in np.argsort(alphas)[spread[spread < len(alphas)]]:
        axes.plot(history["iteration"], values[:, k], label=f"{alphas[k]:.4g}")
    axes.set_xlabel("iteration")
    axes.set_ylabel(ylabel if validated else "relative residual")
    if not validated:
        axes.set_yscale("log")
    axes.legend(title="alpha")
    return axes
