"""Measures that are rank correlations: Kendall's tau-b and Spearman's rho."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.measures._kernels import differing_pairs
from rankwise.measures.pairwise import PairCounts
from rankwise.measures.rankings import Judgements, Rankings
from rankwise.measures.value import Measure, MeasurePlan, ratio


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class KendallTauMeasure(Measure):
    r"""Correlate grades and scores by Kendall's tau-b.

    .. math:: \tau_b = \frac{C - D}{\sqrt{N_y N_s}}

    with C pairs in the same and D in the opposite order, :math:`N_y` pairs with different grades
    and :math:`N_s` pairs with different scores. Undefined for a query whose grades are all equal;
    0 when its scores are. The weight of a pair is the product of the weights of its items.
    O(n log n).

    Parameters
    ----------
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import KendallTau, Queries
    >>> KendallTau.per_query([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], Queries.single(4)).round(4)
    array([0.6667])
    """

    name: ClassVar[str] = "KendallTau"
    greater_is_better: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Weigh the pairs with different grades."""
        total = judgements.pairs(judgements.y)
        return MeasurePlan(total > 0, np.ones_like(total), partial(self._rate, total))

    def _rate(self, total: FloatArray, rankings: Rankings) -> FloatArray:
        judgements = rankings.judgements
        pairs = PairCounts.of(judgements.y, total, rankings)
        order = rankings.sorted("average").order
        apart = rankings.table(differing_pairs, rankings.scores, judgements.weight, order)
        balance = total - 2.0 * pairs.swapped - pairs.tied
        return ratio(balance, np.sqrt(total * apart))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class SpearmanMeasure(Measure):
    """Correlate grades and scores by Spearman's rho: the correlation of their ranks.

    Tied items share the mean of their ranks. Undefined for a query whose grades are all equal; 0
    when its scores are. O(n log n).

    Parameters
    ----------
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import Queries, Spearman
    >>> Spearman.per_query([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], Queries.single(4))
    array([0.8])
    """

    name: ClassVar[str] = "Spearman"
    greater_is_better: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = False

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Rank the grades."""
        spread = _sums(judgements.midranks**2, judgements)
        return MeasurePlan(spread > 0, np.ones_like(spread), partial(self._rate, spread))

    def _rate(self, spread: FloatArray, rankings: Rankings) -> FloatArray:
        judgements, ranks = rankings.judgements, rankings.midranks()
        joint = _sums(ranks * judgements.midranks, judgements)
        own = _sums(ranks**2, judgements)
        return ratio(joint, np.sqrt(spread * own))


def _sums(values: FloatArray, judgements: Judgements) -> FloatArray:
    return np.add.reduceat(values, judgements.starts[:-1], axis=-1)


KendallTau = KendallTauMeasure()
Spearman = SpearmanMeasure()
