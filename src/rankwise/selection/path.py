"""The value of a measure along a grid of alphas, and the choice it leads to."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import check_choice
from rankwise.core.errors import InvalidInputError, MissingExtraError, NumericalError
from rankwise.features.kernels import Kernel
from rankwise.measures.value import Measure

ChoiceRule: TypeAlias = Literal["best", "one_standard_error"]

TRUSTED = 1e-3
"""A value whose scores may be off by more than this, by rounding alone, is not reported."""


@final
@dataclass(frozen=True, eq=False)
class Path:
    """Hold the cross-validated values of a measure for every alpha.

    Parameters
    ----------
    alphas : (n_alphas,)
        The grid.
    measure : Measure
        What was measured.
    values : (n_alphas,)
        Its value, NaN where double precision cannot deliver one.
    standard_errors : (n_alphas,)
        Its standard error over queries, items or comparisons, whichever were left out.
    per_query : (n_alphas, n_queries) or None
        Its value for each query, where queries were left out.
    rounding_errors : (n_alphas,)
        Estimates of the relative error that rounding has made in the scores behind a value.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Concordance, Path
    >>> path = Path(np.array([1.0, 2.0, 4.0]), Concordance, np.array([0.8, 0.9, 0.85]),
    ...             np.array([0.1, 0.1, 0.1]), None, np.zeros(3))
    >>> path.best("best"), path.best("one_standard_error")
    (1, 2)
    """

    alphas: FloatArray
    measure: Measure
    values: FloatArray
    standard_errors: FloatArray
    per_query: FloatArray | None
    rounding_errors: FloatArray

    def best(self, rule: ChoiceRule = "best") -> int:
        """Return the position of the chosen alpha; of equal values the largest alpha wins.

        ``"one_standard_error"`` takes the largest alpha whose value is within one standard error of
        the best.
        """
        if np.isnan(self.values).all():
            raise NumericalError(
                "No alpha of the grid can be judged in double precision: the estimated rounding "
                f"error is at least {self.rounding_errors.min():.2g}. Use larger alphas, or scale "
                "the features."
            )
        good = good_enough(self.values, self.standard_errors, self.measure, rule)
        return int(good[np.argmax(self.alphas[good])])

    def plot(self, ax: Any = None, chosen: int | None = None) -> Any:
        """Draw the values with their standard errors against alpha; return the axes."""
        ax = ax if ax is not None else new_axes()
        ax.errorbar(self.alphas, self.values, yerr=self.standard_errors, marker="o", capsize=2)
        ax.set_xscale("log", base=2)
        label_axes(ax, "alpha", self.measure, None if chosen is None else self.alphas[chosen])
        return ax


@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """Hold one setting of a search and how it fared.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with all its parameters.
    cost, ties : str
        The cost and the treatment of ties.
    path : Path
        The cross-validated values for every alpha.
    """

    kernel: Kernel
    cost: str
    ties: str
    path: Path


def good_enough(
    values: FloatArray, standard_errors: FloatArray, measure: Measure, rule: ChoiceRule
) -> IntArray:
    """Return the positions of the best values, or of those within one standard error of the best.

    Values that are NaN are never good enough, and not all of them may be.
    """
    check_choice("rule", rule, get_args(ChoiceRule))
    sign = 1.0 if measure.greater_is_better else -1.0
    goodness = np.where(np.isnan(values), -np.inf, sign * values)
    top = int(np.argmax(goodness))
    slack = 0.0 if rule == "best" else float(np.nan_to_num(standard_errors[top]))
    return np.flatnonzero(goodness >= goodness[top] - slack)


def label_axes(ax: Any, name: str, measure: Measure, chosen: float | None) -> None:
    """Name the axes of a plot of held-out values, and mark the chosen place."""
    ax.set_xlabel(name)
    ax.set_ylabel(f"{measure!r}, held out")
    if chosen is not None:
        ax.axvline(chosen, linestyle="--", color="grey")


def new_axes() -> Any:
    """Return axes to draw on; matplotlib is needed here and nowhere else."""
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("Plotting", "matplotlib", "plot") from error
    return plt.subplots()[1]


def check_alphas(alphas: Any) -> FloatArray:
    """Return a grid of alphas, each finite and above 0."""
    grid = np.atleast_1d(np.asarray(alphas, dtype=float))
    if grid.ndim != 1 or len(grid) == 0 or not (np.isfinite(grid).all() and (grid > 0).all()):
        raise InvalidInputError(
            f"`alphas` must be a list of finite numbers above 0: got {alphas!r}."
        )
    return grid
