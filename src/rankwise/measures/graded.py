"""Measures of graded items: NDCG, DCG, ERR, rank utility, winner takes all, custom utilities."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.measures.value import (
    Cutoff,
    Discounts,
    Gain,
    InnerProduct,
    InnerProductMeasure,
    Judgements,
    Measure,
    MeasurePlan,
    NumberAboveOne,
    Rankings,
    TieRule,
)
from rankwise.native.measures import cascade_sums

UtilityNorm: TypeAlias = Literal["best", "none"]

MAX_EXPONENT = 1000
"""The largest grade with exponential gain; sums of larger gains would leave double precision."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GainMeasure(InnerProductMeasure):
    """Turn grades into gains."""

    gain: Gain = "linear"

    def gains(self, judgements: Judgements) -> FloatArray:
        """Return y, 2^y - 1, or the entries of a table."""
        y = judgements.y
        if isinstance(self.gain, tuple):
            return self._from_table(judgements, np.array(self.gain))
        self._refuse(judgements, y < 0, "must not be negative")
        if self.gain == "linear":
            return y
        self._refuse(
            judgements, y > MAX_EXPONENT, f"must be at most {MAX_EXPONENT} with exponential gain"
        )
        return np.exp2(y) - 1.0  # [LS08] eq. (13), measure-dcg

    def _from_table(self, judgements: Judgements, gains: FloatArray) -> FloatArray:
        y = judgements.y
        outside = (y < 0) | (y >= len(gains)) | (y != np.floor(y))
        self._refuse(judgements, outside, f"must hold grades 0 to {len(gains) - 1} of the table")
        entries: FloatArray = gains[y.astype(np.intp)]
        return entries

    def _refuse(self, judgements: Judgements, wrong: np.ndarray, rule: str) -> None:
        if wrong.any():
            position = int(np.argmax(wrong))
            raise InvalidInputError(
                f"`y` {rule} for {self.name}: row {judgements.row(position)} holds "
                f"{judgements.y[position]:g}. Map the grades to gains, or use a measure of pairs "
                "such as KendallTau."
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscountedGain(GainMeasure):
    """Discount the gain of an item by the logarithm of its position."""

    cutoff: Cutoff = None

    def discounts(self, length: int) -> FloatArray:
        """Return 1 / log2(1 + position)."""
        positions = np.arange(1, min(length, self.cutoff or length) + 1)
        # [LS08] eq. (14), measure-dcg: logarithms to base 2
        return 1.0 / np.log2(1.0 + positions)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class DCGMeasure(DiscountedGain):
    r"""Sum the gains of the items, each discounted by its position.

    .. math:: \mathrm{DCG} = \sum_i \frac{b(y_i)}{\log_2(1 + \pi(i))}

    Never undefined. It grows with the number and the grades of the relevant items.

    Parameters
    ----------
    gain : {"linear", "exponential"} or tuple
        The gain b of a grade: y, 2^y - 1, or a tuple of the gains of 0, 1, 2, ...
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int, optional
        Number of items to look at; written ``DCG @ 10``.
    empty : {"skip", "zero", "one"}
        Has no effect here.

    Notes
    -----
    [LS08] eq. (11) with exponential gain and logarithms to base 2.

    Examples
    --------
    >>> from rankwise import DCG, Queries
    >>> DCG.per_query([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], Queries.single(4)).round(4)
    array([4.6309])
    >>> DCG(gain="exponential") @ 10
    DCG(gain='exponential') @ 10
    """

    name: ClassVar[str] = "DCG"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Leave the sums as they are."""
        gains, discounts = self.gains(judgements), self.discounts(judgements.longest)
        whole = np.ones(judgements.queries.n_queries)
        return InnerProduct(gains, discounts, whole)  # [LS08] eq. (11), measure-dcg


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class NDCGMeasure(DiscountedGain):
    r"""Divide the discounted gain by that of the best order: 1 is perfect.

    .. math:: \mathrm{NDCG@k} = \frac{\mathrm{DCG@k}(\pi)}{\mathrm{DCG@k}(\text{best order})}

    Undefined for a query without a positive gain.

    Parameters
    ----------
    gain : {"linear", "exponential"} or tuple
        The gain of a grade: y, 2^y - 1, or a tuple of the gains of 0, 1, 2, ...
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int, optional
        Number of items to look at; written ``NDCG @ 10``.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Notes
    -----
    [LS08] eqs. (12) to (14) with exponential gain; the denominator of (12) is the DCG of the best
    order, as in (14).

    Examples
    --------
    >>> from rankwise import NDCG, Queries
    >>> NDCG @ 10
    NDCG @ 10
    >>> y, scores = [3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5]
    >>> (NDCG @ 10).per_query(y, scores, Queries.single(4)).round(4)
    array([0.9725])
    >>> (NDCG(gain="exponential") @ 10).per_query(y, scores, Queries.single(4)).round(4)
    array([0.9721])
    """

    name: ClassVar[str] = "NDCG"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Divide by the discounted gain of the best order."""
        gains, discounts = self.gains(judgements), self.discounts(judgements.longest)
        best = judgements.best(gains, discounts)
        return InnerProduct(gains, discounts, best)  # [LS08] eq. (12), measure-ndcg


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ERUMeasure(InnerProductMeasure):
    r"""Compute the expected rank utility: gains above a neutral vote, discounted by a half-life.

    .. math:: \mathrm{ERU} = \sum_i 2^{(1 - \pi(i)) / (h - 1)} \max(y_i - d, 0)

    with the neutral vote d and the half-life h, the position that counts half as much as the first.
    When normalised, undefined for a query without a grade above the neutral vote.

    Parameters
    ----------
    neutral : float
        The neutral vote d.
    half_life : float
        The half-life h, above 1.
    normalize : {"best", "none"}
        Divide by the utility of the best order, or leave the utility as it is.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Notes
    -----
    [LS08] eq. (16).

    Examples
    --------
    >>> from rankwise import ERU, Queries
    >>> stars, scores = [5, 2, 4], [0.1, 0.7, 0.4]
    >>> ERU(neutral=3).per_query(stars, scores, Queries.single(3)).round(4)
    array([0.7938])
    >>> ERU(neutral=3, normalize="none").per_query(stars, scores, Queries.single(3)).round(4)
    array([2.2551])
    """

    name: ClassVar[str] = "ERU"

    neutral: float = 0.0
    half_life: NumberAboveOne = 5.0
    normalize: UtilityNorm = "best"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Divide by the utility of the best order, or leave the sums as they are."""
        # [LS08] eq. (16), measure-utility
        gains = np.maximum(judgements.y - self.neutral, 0.0)
        positions = np.arange(1, judgements.longest + 1)
        # [LS08] eq. (16), measure-utility
        discounts = np.exp2((1 - positions) / (self.half_life - 1.0))
        if self.normalize == "none":
            return InnerProduct(gains, discounts, np.ones(judgements.queries.n_queries))
        return InnerProduct(gains, discounts, judgements.best(gains, discounts))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class WTAMeasure(InnerProductMeasure):
    """Check whether the first item has the highest grade of its query: winner takes all.

    Never undefined; several items may share the highest grade.

    Parameters
    ----------
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    empty : {"skip", "zero", "one"}
        Has no effect here.

    Notes
    -----
    [LS08] eq. (9).

    Examples
    --------
    >>> from rankwise import WTA, Queries
    >>> WTA.per_query([1, 3, 2], [0.2, 0.9, 0.9], Queries.single(3))
    array([0.5])
    """

    name: ClassVar[str] = "WTA"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Give 1 to the items with the highest grade of their query, in the first position."""
        highest = np.maximum.reduceat(judgements.y, judgements.starts[:-1])
        # [LS08] eq. (9), measure-wta
        top = judgements.y == np.repeat(highest, judgements.queries.sizes)
        return InnerProduct(top.astype(np.float64), np.ones(1), np.ones(len(highest)))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class UtilityMeasure(GainMeasure):
    r"""Sum the gains of the items, discounted by given numbers, one for each position.

    .. math:: \mathrm{Utility} = \frac{\sum_i a_{\pi(i)} b(y_i)}{\max_\sigma \sum_i a_{\sigma(i)}
              b(y_i)}

    When normalised, undefined for a query whose best order has no utility. With suitable numbers it
    equals any other measure of gains and positions, and `DORM` can be trained for it.

    Parameters
    ----------
    gain : {"linear", "exponential"} or tuple
        The gain b of a grade: y, 2^y - 1, or a tuple of the gains of 0, 1, 2, ...
    discounts : tuple
        The discounts of the first, second, ... position: not negative, and never rising. Later
        positions count 0.
    normalize : {"best", "none"}
        Divide by the utility of the best order, or leave the utility as it is.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import Queries, Utility
    >>> clicks = Utility(discounts=(0.4, 0.2, 0.1), normalize="none")
    >>> clicks.per_query([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], Queries.single(4)).round(4)
    array([1.6])
    """

    name: ClassVar[str] = "Utility"

    discounts: Discounts = (1.0,)
    normalize: UtilityNorm = "best"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Take the discounts as they are."""
        gains, discounts = self.gains(judgements), np.array(self.discounts)[: judgements.longest]
        if self.normalize == "none":
            return InnerProduct(gains, discounts, np.ones(judgements.queries.n_queries))
        return InnerProduct(gains, discounts, judgements.best(gains, discounts))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ERRMeasure(Measure):
    r"""Compute the expected reciprocal rank (ERR) of the item at which a reader stops.

    .. math:: \mathrm{ERR@k} = \sum_{p \le k} \frac{1}{p} R_p \prod_{j < p} (1 - R_j), \qquad
              R = \frac{2^y - 1}{2^{y_{\max}}}

    The reader goes down the ranking and is satisfied by an item of grade y with the probability R.
    Undefined for a query without a grade above 0. The expectation over the orders of tied items is
    exact. One sort, O(n log n), and O(m^2) for m tied items.

    Parameters
    ----------
    max_grade : float
        The highest possible grade, :math:`y_{\max}`; use the same for all data that are compared.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int, optional
        Number of items to look at; written ``ERR @ 10``.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import ERR, Queries
    >>> ERR.per_query([4, 0, 2], [0.9, 0.8, 0.1], Queries.single(3)).round(4)
    array([0.9414])
    """

    name: ClassVar[str] = "ERR"

    max_grade: float = 4.0
    ties: TieRule = "average"
    cutoff: Cutoff = None

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find the chance of every item to satisfy."""
        outside = (judgements.y < 0) | (judgements.y > self.max_grade)
        if outside.any():
            position = int(np.argmax(outside))
            raise InvalidInputError(
                f"`y` must lie between 0 and max_grade = {self.max_grade:g} for ERR: row "
                f"{judgements.row(position)} holds {judgements.y[position]:g}. Write, for example, "
                f"ERR(max_grade={int(np.ceil(judgements.y.max()))})."
            )
        chances = (np.exp2(judgements.y) - 1.0) / np.exp2(self.max_grade)
        defined = np.add.reduceat(chances, judgements.starts[:-1]) > 0
        limit = self.cutoff or judgements.longest

        def values(rankings: Rankings) -> FloatArray:
            return rankings.table(cascade_sums, chances, limit, *rankings.sorted(self.ties))

        return MeasurePlan(defined, values, limit)


NDCG = NDCGMeasure()
DCG = DCGMeasure()
ERR = ERRMeasure()
WTA = WTAMeasure()
ERU = ERUMeasure()
Utility = UtilityMeasure()
