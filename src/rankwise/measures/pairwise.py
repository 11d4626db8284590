"""Measures of pairs of items: disagreement, concordance, AUC, and the rank correlations."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, freeze
from rankwise.measures.value import (
    Judgements,
    Measure,
    MeasurePlan,
    Rankings,
    ratio,
    run_cells,
)
from rankwise.native.measures import compared_pairs, differing_pairs, swapped_pairs, tied_pairs

PairTies: TypeAlias = Literal["half", "one"]
TiedGrades: TypeAlias = Literal["skip", "half"]
Average: TypeAlias = Literal["queries", "pooled"]

PAIRS_PER_ITEM = 128
"""Pairs an item has in the mean, each twice, up to which all of them are looked at."""


@final
@dataclass(frozen=True, eq=False)
class PairCounts:
    """Hold the weight of the pairs with different grades: total, swapped and tied.

    Parameters
    ----------
    total : (n_queries,)
        All pairs with different grades.
    swapped : (n_vectors, n_queries)
        Pairs whose scores are in the opposite order.
    tied : (n_vectors, n_queries)
        Pairs whose scores are equal.
    """

    total: FloatArray
    swapped: FloatArray
    tied: FloatArray

    @classmethod
    def of(cls, grades: FloatArray, total: FloatArray, rankings: Rankings) -> Self:
        """Count in O(n log n): inversions by a merge sort, ties by one pass.

        In short queries all pairs are looked at.
        """
        weight, starts = rankings.judgements.weight, rankings.judgements.starts
        if np.square(np.diff(starts)).sum() <= PAIRS_PER_ITEM * len(weight):
            found = np.empty((2, rankings.n_vectors, len(starts) - 1))
            given = grades, weight, rankings.scores, *found
            run_cells(compared_pairs, starts, rankings.n_vectors, *given)
            return cls(total, *found)
        order, tied = rankings.sorted("average")
        swapped = rankings.table(swapped_pairs, grades, weight, order)
        return cls(total, swapped, rankings.table(tied_pairs, grades, weight, order, tied))

    def tied_grades(self, rankings: Rankings) -> FloatArray:
        """Return the weight of the pairs with equal grades and different scores."""
        # pairs with different scores, less those whose grades differ as well
        return np.maximum(_different_scores(rankings) - (self.total - self.tied), 0.0)


def _different_scores(rankings: Rankings) -> FloatArray:
    """Return the weight of the pairs with different scores."""
    order = rankings.sorted("average").order
    return rankings.table(differing_pairs, rankings.scores, rankings.judgements.weight, order)


@dataclass(frozen=True, kw_only=True, repr=False)
class PairMeasure(Measure):
    """Measure the pairs of items of one query whose grades differ; undefined without any.

    The weight of a pair is the product of the weights of its items. O(n log n).
    """

    takes_weights: ClassVar[bool] = True

    @abstractmethod
    def grades(self, judgements: Judgements) -> FloatArray:
        """Return the grades to compare, which rise with ``y``."""

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Weigh the pairs with different grades."""
        grades = freeze(self.grades(judgements))
        total = judgements.pairs(grades)

        def values(rankings: Rankings) -> FloatArray:
            pairs = PairCounts.of(grades, total, rankings)
            # [APS10] eq. (2), measure-concordance: the share of pairs not in the wrong order
            return 1.0 - ratio(pairs.swapped + 0.5 * pairs.tied, total)

        return MeasurePlan(total > 0, values)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class DisagreementMeasure(Measure):
    r"""Compute the share of pairs in the wrong order: 0 is perfect, lower is better.

    .. math:: \frac{1}{N_q} \sum_{y_i < y_j} H(s_i - s_j)

    over the :math:`N_q` pairs of the query with different grades; H is 1 for a swapped pair, and
    1/2 or 1 for tied scores. Pairs with equal grades can count too: one half if their scores
    differ, and nothing if these are equal as well; :math:`N_q` is then the number of all pairs. The
    weight of a pair is the product of the weights of its items. O(n log n).

    Parameters
    ----------
    ties : {"half", "one"}
        What a pair with tied scores and different grades counts.
    tied_grades : {"skip", "half"}
        Whether pairs with equal grades are left out, or count one half if their scores differ. With
        "half" no order of distinct scores is perfect where grades are equal, a query whose grades
        are all equal has a value, and a weight is not a number of copies, which would be pairs too.
    average : {"queries", "pooled"}
        Whether the overall value is the mean over queries or the share among all pairs.
    empty : {"skip", "zero", "one"}
        What a query without a pair counts; it has no effect on a pooled value.

    Notes
    -----
    [APS10] eq. (1) with the default parameters. [PTA09] eq. (1), whose sum alone is (10), with
    ``ties="one"``, pooled. [PTAB07] eq. (3) and [TH10] eq. (4) with ``tied_grades="half"``, pooled
    and times the number of pairs: the printed sums are not divided by it, and (4) counts every pair
    twice.

    Examples
    --------
    >>> from rankwise import Disagreement, Queries
    >>> y, scores = [2, 1, 0], [0.5, 0.5, 0.9]
    >>> Disagreement.per_query(y, scores, Queries.single(3)).round(4)
    array([0.8333])
    >>> Disagreement(ties="one").per_query(y, scores, Queries.single(3))
    array([1.])
    >>> Disagreement(tied_grades="half").per_query([1, 1, 0], [3, 2, 1], Queries.single(3)).round(4)
    array([0.1667])
    """

    name: ClassVar[str] = "Disagreement"
    greater_is_better: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True

    ties: PairTies = "half"
    tied_grades: TiedGrades = "skip"
    average: Average = "queries"

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Weigh the pairs that count: pairs with different grades, or all pairs."""
        total = judgements.pairs(judgements.y)
        counted = total if self.tied_grades == "skip" else judgements.all_pairs()

        def values(rankings: Rankings) -> FloatArray:
            pairs = PairCounts.of(judgements.y, total, rankings)
            # [PTA09] eq. (1), its sum (10), [APS10] eq. (1), measure-disagreement
            wrong = pairs.swapped + (1.0 if self.ties == "one" else 0.5) * pairs.tied
            if self.tied_grades == "half":
                # [PTAB07] eq. (3), [TH10] eq. (4), measure-tied-grades
                wrong = wrong + 0.5 * pairs.tied_grades(rankings)
            return ratio(wrong, counted)

        pair_weight = counted if self.average == "pooled" else None
        return MeasurePlan(counted > 0, values, pair_weight=pair_weight)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ConcordanceMeasure(PairMeasure):
    """Compute the share of pairs in the right order, a tie counting one half.

    One minus the disagreement: 1 is perfect, and constant or random scores reach 1/2. With two
    different grades it is the area under the ROC curve.

    Parameters
    ----------
    empty : {"skip", "zero", "one"}
        What a query without a pair counts.

    Notes
    -----
    One minus [APS10] eq. (1); (2), for comparisons, counts pairs in the right order as printed.

    Examples
    --------
    >>> from rankwise import Concordance, Queries
    >>> Concordance.per_query([2, 1, 0], [0.9, 0.5, 0.5], Queries.single(3)).round(4)
    array([0.8333])
    >>> weight = [1.0, 1.0, 0.0]
    >>> Concordance.per_query([2, 1, 0], [0.9, 0.5, 0.5], Queries.single(3), weight)
    array([1.])
    """

    name: ClassVar[str] = "Concordance"

    def grades(self, judgements: Judgements) -> FloatArray:
        """Return the grades."""
        return judgements.y


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class AUCMeasure(PairMeasure):
    """Compute the area under the ROC curve: the probability that a relevant item beats another.

    The share of pairs of a relevant and another item in the right order, a tie counting one half;
    undefined for a query that lacks either kind.

    Parameters
    ----------
    relevant : float
        The smallest grade that counts as relevant.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import AUC, Queries
    >>> AUC.per_query([1, 0, 1, 0], [0.9, 0.7, 0.5, 0.2], Queries.single(4))
    array([0.75])
    """

    name: ClassVar[str] = "AUC"

    relevant: float = 1.0

    def grades(self, judgements: Judgements) -> FloatArray:
        """Return 1 for relevant items and 0 for the others."""
        return (judgements.y >= self.relevant).astype(np.float64)


Disagreement = DisagreementMeasure()
Concordance = ConcordanceMeasure()
AUC = AUCMeasure()


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
    takes_weights: ClassVar[bool] = True

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Weigh the pairs with different grades."""
        total = judgements.pairs(judgements.y)

        def values(rankings: Rankings) -> FloatArray:
            pairs = PairCounts.of(judgements.y, total, rankings)
            balance = total - 2.0 * pairs.swapped - pairs.tied
            return ratio(balance, np.sqrt(total * _different_scores(rankings)))

        return MeasurePlan(total > 0, values)


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

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Rank the grades."""
        spread = _sums(judgements.midranks**2, judgements)

        def values(rankings: Rankings) -> FloatArray:
            ranks = rankings.midranks()
            joint = _sums(ranks * judgements.midranks, judgements)
            return ratio(joint, np.sqrt(spread * _sums(ranks**2, judgements)))

        return MeasurePlan(spread > 0, values)


def _sums(values: FloatArray, judgements: Judgements) -> FloatArray:
    return np.add.reduceat(values, judgements.starts[:-1], axis=-1)


KendallTau = KendallTauMeasure()
Spearman = SpearmanMeasure()
