"""Measures of relevant and other items: average precision, precision, recall, reciprocal rank."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.measures.value import (
    Cutoff,
    InnerProduct,
    InnerProductMeasure,
    Judgements,
    Measure,
    MeasurePlan,
    Number,
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

    greater_is_better: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = False

    relevant: Number = 1.0
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

    normalize: APNorm = "best"

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find the relevant items and the largest sum of precisions."""
        hits, n_hits = self.hits(judgements)
        limit = self.limit(judgements)
        norms = np.minimum(n_hits, limit) if self.normalize == "best" else n_hits
        rate = partial(self._rate, hits.view(np.uint8), limit, norms)
        return MeasurePlan(n_hits > 0, np.ones(len(norms)), rate, limit)

    def _rate(
        self, hits: NDArray[np.uint8], limit: int, norms: FloatArray, rankings: Rankings
    ) -> FloatArray:
        sums = rankings.table(precision_sums, hits, limit, *rankings.sorted(self.ties))
        return ratio(sums, norms)


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

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find the relevant items."""
        hits, n_hits = self.hits(judgements)
        limit = self.limit(judgements)
        rate = partial(self._rate, hits.view(np.uint8), limit)
        return MeasurePlan(n_hits > 0, np.ones(len(n_hits)), rate, limit)

    def _rate(self, hits: NDArray[np.uint8], limit: int, rankings: Rankings) -> FloatArray:
        # [LS08] eq. (10), measure-rr
        return rankings.table(first_reciprocals, hits, limit, *rankings.sorted(self.ties))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class PrecisionMeasure(InnerProductMeasure):
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

    relevant: Number = 1.0
    normalize: PrecisionNorm = "cutoff"
    cutoff: Cutoff = None

    def form(self, judgements: Judgements) -> InnerProduct:
        """Count the relevant items within the cut-off."""
        if self.cutoff is None:
            raise InvalidInputError(
                "Precision needs a cut-off, as the share of relevant items among all items does "
                "not depend on their order: got none. Write, for example, Precision @ 10."
            )
        hits = (judgements.y >= self.relevant).astype(np.float64)
        discounts = np.ones(min(self.cutoff, judgements.longest))
        n_items = judgements.queries.sizes
        norms = {
            # [LS08] eq. (15), measure-precision
            "cutoff": np.full(len(n_items), float(self.cutoff)),
            "items": np.minimum(n_items, self.cutoff).astype(np.float64),
            "best": judgements.best(hits, discounts),
        }
        return InnerProduct(hits, discounts, norms[self.normalize])


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class RecallMeasure(InnerProductMeasure):
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

    relevant: Number = 1.0
    cutoff: Cutoff = None

    def form(self, judgements: Judgements) -> InnerProduct:
        """Count the relevant items within the cut-off, and all of them."""
        if self.cutoff is None:
            raise InvalidInputError(
                "Recall needs a cut-off, as all relevant items are among all items: got none. "
                "Write, for example, Recall @ 10."
            )
        hits = (judgements.y >= self.relevant).astype(np.float64)
        discounts = np.ones(min(self.cutoff, judgements.longest))
        return InnerProduct(hits, discounts, np.add.reduceat(hits, judgements.starts[:-1]))


AP = APMeasure()
RR = RRMeasure()
Precision = PrecisionMeasure()
Recall = RecallMeasure()
