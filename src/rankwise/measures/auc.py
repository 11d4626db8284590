"""Confidence intervals of an AUC on test data, and tests of the difference of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.checks import as_floats, check_finite, check_length
from rankwise.core.display import Result, between, decimals, draw_interval, p_value
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Share, check_call
from rankwise.measures.evaluation import Alternative


@final
@dataclass(frozen=True)
class AUCInterval(Result):
    """Hold the AUC of scores on test data with a confidence interval.

    Parameters
    ----------
    value : float
        The share of pairs of an item of each class in the right order; ties count one half.
    standard_error : float
        Its standard error over the items of both classes.
    low, high : float
        The ends of the confidence interval.
    confidence : float
        Its confidence.
    n_relevant, n_other : int
        Number of items of the higher and of the lower class.

    Examples
    --------
    >>> from rankwise import auc_interval
    >>> print(auc_interval([0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    0.889 (95% interval 0.088 to 0.998, 3 relevant and 3 other items)
    """

    value: float
    standard_error: float
    low: float
    high: float
    confidence: float
    n_relevant: int
    n_other: int

    def __str__(self) -> str:
        return (
            f"{decimals(self.value, 3)} ({self.confidence:.0%} interval "
            f"{between(self.low, self.high)}, {self.n_relevant} relevant and {self.n_other} other "
            "items)"
        )

    def _cells(self) -> list[list[str]]:
        head = ["AUC", f"{self.confidence:.0%} interval", "relevant", "other"]
        interval, counts = between(self.low, self.high), (self.n_relevant, self.n_other)
        return [head, [decimals(self.value, 3), interval, *map(str, counts)]]

    def _caption(self) -> str:
        return "AUC on test data"

    def _draw(self, ax: Any) -> None:
        """Draw the value with its interval, next to chance."""
        label = f"AUC, {self.confidence:.0%} interval"
        draw_interval(ax, self.value, self.low, self.high, label, chance=0.5)
        ax.set_xlim(0.0, 1.0)


@final
@dataclass(frozen=True)
class AUCComparison(Result):
    """Hold the difference of two AUCs on the same items, with an interval and a test.

    Parameters
    ----------
    first, second : float
        The two AUCs.
    difference : float
        The first minus the second.
    standard_error : float
        The standard error of the difference; it allows for both using the same items.
    low, high : float
        The ends of the confidence interval of the difference.
    confidence : float
        Its confidence.
    pvalue : float
        The probability of a difference at least as large if neither ranker is better.
    n_relevant, n_other : int
        Number of items of the higher and of the lower class.

    Examples
    --------
    >>> from rankwise import compare_auc
    >>> y, a, b = [0, 0, 1, 0, 1, 1], [1, 2, 3, 4, 5, 6], [2, 1, 4, 5, 6, 3]
    >>> print(compare_auc(y, a, b))
    difference +0.111 (95% interval -0.325 to 0.547, 0.889 and 0.778), p = 0.52
    """

    first: float
    second: float
    difference: float
    standard_error: float
    low: float
    high: float
    confidence: float
    pvalue: float
    n_relevant: int
    n_other: int

    def __str__(self) -> str:
        return (
            f"difference {self.difference:+.3f} ({self.confidence:.0%} interval "
            f"{between(self.low, self.high)}, {decimals(self.first, 3)} and "
            f"{decimals(self.second, 3)}), {p_value(self.pvalue)}"
        )

    def _cells(self) -> list[list[str]]:
        head = ["first", "second", "difference", f"{self.confidence:.0%} interval", "p-value"]
        values = [decimals(self.first, 3), decimals(self.second, 3), f"{self.difference:+.3f}"]
        test = p_value(self.pvalue).removeprefix("p = ")
        return [head, [*values, between(self.low, self.high), test]]

    def _caption(self) -> str:
        return "Two AUCs on the same items"

    def _draw(self, ax: Any) -> None:
        """Draw the difference with its interval, next to zero."""
        label = f"first AUC minus second, {self.confidence:.0%} interval"
        draw_interval(ax, self.difference, self.low, self.high, label, chance=0.0)


def auc_interval(y: ArrayLike, scores: ArrayLike, *, confidence: Share = 0.95) -> AUCInterval:
    r"""Compute the AUC of scores on test data, with a confidence interval.

    The standard error is DeLong's. With :math:`v_i` the share of lower-class items that relevant
    item i is above, and :math:`u_j` the share of relevant items above the other item j,

    .. math:: s^2 = \frac{\mathrm{var}(v)}{n_1} + \frac{\mathrm{var}(u)}{n_0}

    The interval is symmetric on the logit scale, with the quantile of Student's t, which is
    conservative: with 15 items of each class, 98 % of the 95 % intervals contain an AUC of one
    half. A perfect AUC has no spread; its interval comes from an exact binomial bound for the
    smaller class. The cost is O(n log n).

    Parameters
    ----------
    y : (n_items,)
        Two classes, any two numbers; items of the larger one are relevant.
    scores : (n_items,)
        Scores by a ranker that has not seen these items; higher is better.
    confidence : float
        The confidence of the interval, between 0 and 1.

    Returns
    -------
    interval : AUCInterval

    Notes
    -----
    The ranker is taken as given: the interval reflects the choice of test items, not of training
    items. For an AUC of held-out items see `leave_pair_out`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import auc_interval
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> interval = auc_interval(y, y + rng.normal(size=200))
    >>> interval.low < 0.76 < interval.high
    True
    """
    check_call(auc_interval, confidence=confidence)
    relevant = _classes(y)
    shares = _shares(relevant, _checked("scores", scores, len(relevant)))
    value = shares.auc
    variance, degrees = _variance(shares.of_relevant, shares.of_other)
    low, high = _logit_interval(shares, variance, degrees, confidence)
    sizes = len(shares.of_relevant), len(shares.of_other)
    return AUCInterval(value, float(np.sqrt(variance)), low, high, confidence, *sizes)


def compare_auc(
    y: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    confidence: Share = 0.95,
    alternative: Alternative = "two-sided",
) -> AUCComparison:
    """Test whether two rankers differ in the AUC on the same test items.

    This is DeLong's test: the shares of `auc_interval` are computed for both rankers, and the
    standard error comes from their differences, so that items that are hard for both cancel. The
    cost is O(n log n).

    Parameters
    ----------
    y : (n_items,)
        Two classes, any two numbers; items of the larger one are relevant.
    a, b : (n_items,)
        The scores of two rankers, neither of which has seen these items.
    confidence : float
        The confidence of the interval, between 0 and 1.
    alternative : {"two-sided", "greater", "less"}
        The hypothesis that a small p-value supports: the AUCs differ, that of ``a`` is greater, or
        less.

    Returns
    -------
    comparison : AUCComparison

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import compare_auc
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 200)
    >>> good, fair = y + rng.normal(size=200), y + 3 * rng.normal(size=200)
    >>> comparison = compare_auc(y, good, fair)
    >>> comparison.difference > 0, comparison.pvalue < 0.01
    (True, True)
    """
    check_call(compare_auc, confidence=confidence, alternative=alternative)
    relevant = _classes(y)
    one, two = (
        _shares(relevant, _checked(name, scores, len(relevant)))
        for name, scores in (("a", a), ("b", b))
    )
    # differences item by item: what is hard for both rankers cancels
    leads = one.of_relevant - two.of_relevant, one.of_other - two.of_other
    difference = one.auc - two.auc
    variance, degrees = _variance(*leads)
    error = float(np.sqrt(variance))
    # interval and test by Student's t
    width = scipy.stats.t.isf((1.0 - confidence) / 2.0, degrees) * error
    low, high = max(-1.0, difference - width), min(1.0, difference + width)
    sizes = len(leads[0]), len(leads[1])
    pvalue = _p_value(difference, error, degrees, alternative, min(sizes))
    return AUCComparison(one.auc, two.auc, difference, error, low, high, confidence, pvalue, *sizes)


class _Shares(NamedTuple):
    """The share of the other class that each item is on the right side of."""

    of_relevant: FloatArray
    of_other: FloatArray

    @property
    def auc(self) -> float:
        return float(self.of_relevant.mean())


def _shares(relevant: BoolArray, scores: FloatArray) -> _Shares:
    """Count by ranks: an item's rank among all less its rank in its own class."""
    mine, others = scores[relevant], scores[~relevant]
    among_all = scipy.stats.rankdata(scores)
    above = (among_all[relevant] - scipy.stats.rankdata(mine)) / len(others)
    below = (among_all[~relevant] - scipy.stats.rankdata(others)) / len(mine)
    return _Shares(above, 1.0 - below)


def _variance(of_relevant: FloatArray, of_other: FloatArray) -> tuple[float, float]:
    """Return DeLong's variance of the difference of means, and its degrees of freedom."""
    parts = np.array([v.var(ddof=1) / len(v) for v in (of_relevant, of_other)])
    spread = float(parts.sum())
    if spread == 0.0:
        return 0.0, np.inf
    n = np.array([len(of_relevant), len(of_other)])
    return spread, spread**2 / float((parts**2 / (n - 1)).sum())  # Satterthwaite


def _logit_interval(
    shares: _Shares, variance: float, degrees: float, confidence: float
) -> tuple[float, float]:
    value, tail = shares.auc, (1.0 - confidence) / 2.0
    if value in (0.0, 1.0) or variance == 0.0:
        # no spread: the exact binomial bound for the smaller class
        margin = 1.0 - tail ** (1.0 / min(len(shares.of_relevant), len(shares.of_other)))
        return max(0.0, value - margin), min(1.0, value + margin)
    # symmetric on the logit scale, by the delta method
    width = scipy.stats.t.isf(tail, degrees) * np.sqrt(variance) / (value * (1.0 - value))
    logit = np.log(value / (1.0 - value))
    low, high = 1.0 / (1.0 + np.exp(-(logit + np.array([-width, width]))))
    return float(low), float(high)


def _p_value(
    difference: float, error: float, degrees: float, alternative: Alternative, n_least: int
) -> float:
    """Return the p-value of Student's t, or of a sign test where there is no spread."""
    sides = {"two-sided": abs(difference), "greater": difference, "less": -difference}
    lead, factor = sides[alternative], 2.0 if alternative == "two-sided" else 1.0
    if error == 0.0:
        return min(1.0, factor * 0.5**n_least) if lead > 0.0 else 1.0
    return min(1.0, factor * float(scipy.stats.t.sf(lead / error, degrees)))


def _classes(y: ArrayLike) -> BoolArray:
    """Return which items are of the larger of two classes, with at least two items each."""
    given = _vector("y", y)
    values, counts = np.unique(given, return_counts=True)
    if len(values) != 2 or counts.min() < 2:
        raise InvalidInputError(
            "`y` must hold two classes with at least two items each: got "
            f"{len(values)} different values"
            f"{'' if len(values) != 2 else f', one of them {counts.min()} times'}. "
            "For more grades see `evaluate` with Concordance."
        )
    relevant: BoolArray = given == values[1]
    return relevant


def _checked(name: str, scores: ArrayLike, n_items: int) -> FloatArray:
    given = _vector(name, scores)
    check_length(name, given, n_items, "y")
    return given


def _vector(name: str, values: ArrayLike) -> FloatArray:
    given = as_floats(name, values)
    if given.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must be one-dimensional, one entry per item: got shape {given.shape}."
        )
    check_finite(name, given)
    return given
