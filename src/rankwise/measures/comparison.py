"""Comparing two rankers over the same queries."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.measures.evaluate import Evaluation
from rankwise.measures.options import listed, one_of
from rankwise.measures.value import Measure

Alternative: TypeAlias = Literal["two-sided", "greater", "less"]


@final
@dataclass(frozen=True)
class PairedTest:
    """Hold the result of a paired Wilcoxon signed-rank test over queries.

    Parameters
    ----------
    statistic : float
        The smaller sum of signed ranks; the sum for positive differences when one-sided.
    pvalue : float
        The chance of a difference at least as large if neither ranker is better.
    mean_difference : float
        The mean over queries of the first value minus the second.
    n_queries : int
        Number of queries compared.
    n_equal : int
        Number of those with equal values, which the test leaves out.
    n_ignored : int
        Number of further queries where one of the rankers has no value.

    Examples
    --------
    >>> from rankwise import paired_test
    >>> result = paired_test([0.9, 0.8, 0.7], [0.5, 0.8, float("nan")])
    >>> result.n_queries, result.n_equal, result.n_ignored, result.pvalue
    (2, 1, 1, 1.0)
    """

    statistic: float
    pvalue: float
    mean_difference: float
    n_queries: int
    n_equal: int
    n_ignored: int

    def __str__(self) -> str:
        return (
            f"mean difference {self.mean_difference:+.4f} over {self.n_queries} queries "
            f"({self.n_equal} equal, {self.n_ignored} ignored), "
            f"Wilcoxon signed-rank statistic {self.statistic:g}, p = {self.pvalue:.4g}"
        )


def paired_test(
    a: Evaluation | ArrayLike,
    b: Evaluation | ArrayLike,
    measure: str | Measure | None = None,
    alternative: Alternative = "two-sided",
) -> PairedTest:
    """Test whether one ranker is better than another, query by query.

    The Wilcoxon signed-rank test ranks the differences of the queries by size and asks whether the
    positive and the negative ones balance. Queries with equal values are left out, as Wilcoxon did;
    when all are equal the p-value is 1.

    Parameters
    ----------
    a, b : Evaluation or (n_queries,)
        Two evaluations of the same queries, or the values of each query. NaN is ignored.
    measure : measure or name, optional
        What to compare; needed for evaluations that hold several measures.
    alternative : {"two-sided", "greater", "less"}
        The claim about ``a`` against ``b`` that a small p-value supports.

    Notes
    -----
    The test that [PTA09] Sect. 5 uses.

    Examples
    --------
    >>> from rankwise import paired_test
    >>> result = paired_test([0.9, 0.8, 0.7, 0.9, 0.6, 0.8], [0.7, 0.5, 0.6, 0.3, 0.6, 0.4])
    >>> print(result)
    mean difference +0.2667 over 6 queries (1 equal, 0 ignored), Wilcoxon ... p = 0.0625
    """
    one_of(*get_args(Alternative))("alternative", alternative)
    difference = _difference(a, b, measure)
    known = difference[~np.isnan(difference)]
    if len(known) == 0:
        raise InvalidInputError(
            "At least one query must have a value in both evaluations: got none. Check that the "
            "grades hold relevant items, or set `empty` of the measure."
        )
    changed = known[known != 0.0]
    statistic, pvalue = 0.0, 1.0
    if len(changed) > 0:
        statistic, pvalue = wilcoxon(changed, alternative=alternative)
    return PairedTest(
        statistic=float(statistic),
        pvalue=float(pvalue),
        mean_difference=float(known.mean()),
        n_queries=len(known),
        n_equal=len(known) - len(changed),
        n_ignored=len(difference) - len(known),
    )


def _difference(
    a: Evaluation | ArrayLike, b: Evaluation | ArrayLike, measure: str | Measure | None
) -> FloatArray:
    if isinstance(a, Evaluation) and isinstance(b, Evaluation):
        if not np.array_equal(a.ids, b.ids):
            raise InvalidInputError(
                "Both evaluations must hold the same queries in the same order: the ids differ. "
                "Evaluate both rankers on the same rows."
            )
        return _column(a, measure) - _column(b, measure)
    if isinstance(a, Evaluation) or isinstance(b, Evaluation):
        raise InvalidInputError(
            "Both arguments must be evaluations, or both values of queries: got "
            f"{type(a).__name__} and {type(b).__name__}."
        )
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise InvalidInputError(
            "Both arguments must hold one value per query: got shapes "
            f"{first.shape} and {second.shape}."
        )
    return first - second


def _column(evaluation: Evaluation, measure: str | Measure | None) -> FloatArray:
    if measure is None and len(evaluation.measures) > 1:
        raise InvalidInputError(
            "`measure` must say what to compare: the evaluations hold "
            f"{listed(map(repr, evaluation.measures))}."
        )
    at = 0 if measure is None else evaluation.column(measure)
    return evaluation.values[:, at]
