"""Measures of relevant and other items: average precision, precision, recall, reciprocal rank."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.measures.value import (
    Cutoff,
    InnerProduct,
    InnerProductMeasure,
    Judgements,
    Measure,
    MeasurePlan,
    Rankings,
    TieRule,
    ratio,
)
from rankwise.native.measures import first_reciprocals, precision_sums

APNorm: TypeAlias = Literal["best", "relevant"]
PrecisionNorm: TypeAlias = Literal["cutoff", "items", "best"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HitMeasure(Measure):
    """Measure the positions of the relevant items; undefined for a query that has none."""

    relevant: float = 1.0
    ties: TieRule = "average"
    cutoff: Cutoff = None

    def hits(self, judgements: Judgements) -> tuple[BoolArray, FloatArray]:
        """Return which items are relevant, and how many of each query."""
        hits = judgements.y >= self.relevant
        return hits, np.add.reduceat(hits.astype(np.float64), judgements.starts[:-1])

    def limit(self, judgements: Judgements) -> int:
        """Return the number of positions to look at."""
        return self.cutoff or judgements.longest


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class APMeasure(HitMeasure):
    r"""Average the precision at the position of each relevant item; its mean over queries is MAP.

    .. math:: \mathrm{AP@k} = \frac{1}{\min(R, k)} \sum_{p \le k} [\text{item } p \text{ relevant}]
              \frac{\text{relevant items in the first } p}{p}

    with R relevant items in the query; undefined when there is none. The expectation over the
    orders of tied items is exact. One sort, O(n log n).

    Parameters
    ----------
    relevant : float
        The smallest grade that counts as relevant.
    normalize : {"best", "relevant"}
        Divide by min(R, k), so that the best ranking reaches 1, or by R whatever the cut-off.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int, optional
        Number of items to look at; written ``AP @ 10``.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import AP, Queries
    >>> AP.per_query([1, 0, 1, 0], [0.9, 0.7, 0.5, 0.2], Queries.single(4)).round(4)
    array([0.8333])
    """

    name: ClassVar[str] = "AP"
    aliases: ClassVar[tuple[str, ...]] = ("MAP",)

    normalize: APNorm = "best"

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find the relevant items and the largest sum of precisions."""
        hits, n_hits = self.hits(judgements)
        limit = self.limit(judgements)
        norms = np.minimum(n_hits, limit) if self.normalize == "best" else n_hits

        def values(rankings: Rankings) -> FloatArray:
            ranking = rankings.sorted(self.ties)
            return ratio(
                rankings.table(precision_sums, hits.view(np.uint8), limit, *ranking), norms
            )

        return MeasurePlan(n_hits > 0, values, limit)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class RRMeasure(HitMeasure):
    """Take the reciprocal of the position of the first relevant item; its mean over queries is MRR.

    Undefined for a query without a relevant item, and 0 when none is within the cut-off. The
    expectation over the orders of tied items is exact. One sort, O(n log n).

    Parameters
    ----------
    relevant : float
        The smallest grade that counts as relevant.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int, optional
        Number of items to look at; written ``RR @ 10``.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Notes
    -----
    [LS08] eq. (10), which has one relevant item; with several, the first in the ranking counts.

    Examples
    --------
    >>> from rankwise import RR, Queries
    >>> RR.per_query([0, 1, 0, 1], [0.9, 0.7, 0.5, 0.2], Queries.single(4))
    array([0.5])
    """

    name: ClassVar[str] = "RR"
    aliases: ClassVar[tuple[str, ...]] = ("MRR", "recip_rank")

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find the relevant items."""
        hits, n_hits = self.hits(judgements)
        limit = self.limit(judgements)

        def values(rankings: Rankings) -> FloatArray:
            ranking = rankings.sorted(self.ties)
            # [LS08] eq. (10), measure-rr
            return rankings.table(first_reciprocals, hits.view(np.uint8), limit, *ranking)

        return MeasurePlan(n_hits > 0, values, limit)


@dataclass(frozen=True, kw_only=True, repr=False)
class HitCount(InnerProductMeasure):
    """Count the relevant items among the first k."""

    relevant: float = 1.0
    cutoff: Cutoff = None

    def counted(self, judgements: Judgements, why: str) -> tuple[FloatArray, FloatArray, int]:
        """Return gains, discounts and the cut-off, which must be given: ``why`` says why."""
        if self.cutoff is None:
            raise InvalidInputError(
                f"{self.name} needs a cut-off, as {why}: got none. Write, for example, "
                f"{self.name} @ 10."
            )
        hits = (judgements.y >= self.relevant).astype(np.float64)
        return hits, np.ones(min(self.cutoff, judgements.longest)), self.cutoff


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class PrecisionMeasure(HitCount):
    """Compute the share of relevant items among the first k; needs a cut-off, ``Precision @ k``.

    Undefined only with ``normalize="best"``, for a query without a relevant item.

    Parameters
    ----------
    relevant : float
        The smallest grade that counts as relevant.
    normalize : {"cutoff", "items", "best"}
        Divide the number of relevant items by k, by the smaller of k and the number of items, or by
        the smaller of k and the number of relevant items, so that the best ranking reaches 1.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int
        Number of items to look at; written ``Precision @ 10``.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Notes
    -----
    [LS08] eq. (15) with ``normalize="cutoff"``.

    Examples
    --------
    >>> from rankwise import Precision, Queries
    >>> (Precision @ 2).per_query([1, 0, 1, 0], [0.9, 0.7, 0.5, 0.2], Queries.single(4))
    array([0.5])
    """

    name: ClassVar[str] = "Precision"
    aliases: ClassVar[tuple[str, ...]] = ("P",)

    normalize: PrecisionNorm = "cutoff"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Count the relevant items within the cut-off."""
        why = "the share of relevant items among all items does not depend on their order"
        hits, discounts, cutoff = self.counted(judgements, why)
        n_items = judgements.queries.sizes
        norms = {
            # [LS08] eq. (15), measure-precision
            "cutoff": np.full(len(n_items), float(cutoff)),
            "items": np.minimum(n_items, cutoff).astype(np.float64),
            "best": judgements.best(hits, discounts),
        }
        return InnerProduct(hits, discounts, norms[self.normalize])


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class RecallMeasure(HitCount):
    """Compute the share of the relevant items that is among the first k; ``Recall @ k``.

    Undefined for a query without a relevant item.

    Parameters
    ----------
    relevant : float
        The smallest grade that counts as relevant.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    cutoff : int
        Number of items to look at; written ``Recall @ 10``.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import Queries, Recall
    >>> (Recall @ 1).per_query([1, 0, 1, 0], [0.9, 0.7, 0.5, 0.2], Queries.single(4))
    array([0.5])
    """

    name: ClassVar[str] = "Recall"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Count the relevant items within the cut-off, and all of them."""
        hits, discounts, _ = self.counted(judgements, "all relevant items are among all items")
        return InnerProduct(hits, discounts, np.add.reduceat(hits, judgements.starts[:-1]))


AP = APMeasure()
RR = RRMeasure()
Precision = PrecisionMeasure()
Recall = RecallMeasure()
