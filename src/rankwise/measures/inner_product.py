"""Measures that are an inner product of the discounts of positions and the gains of items."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.measures._kernels import inner_products
from rankwise.measures.options import TieRule
from rankwise.measures.rankings import Judgements, Rankings, cumulate
from rankwise.measures.value import Measure, MeasurePlan, ratio


@final
@dataclass(frozen=True, eq=False)
class InnerProduct:
    """Hold the three parts of an inner-product measure.

    Parameters
    ----------
    gains : (n_items,)
        The gain b of each item, query by query; a higher grade never has a lower gain.
    discounts : (length,)
        The discounts a of the first positions; they never rise, and later positions count 0.
    norms : (n_queries,)
        The norm c of each query, 0 where the measure is undefined.
    """

    gains: FloatArray
    discounts: FloatArray
    norms: FloatArray


@dataclass(frozen=True, kw_only=True, repr=False)
class InnerProductMeasure(Measure):
    r"""Add up gain times discount, divided by a norm of the query.

    .. math:: \frac{1}{c_q} \sum_i a_{\pi(i)} b_i

    with :math:`\pi(i)` the position of item i. The best ranking sorts by grade. The expectation
    over the orders of tied items is exact: they share the mean of their discounts. One sort,
    O(n log n).

    Notes
    -----
    [LS08] eqs. (9) to (16).
    """

    greater_is_better: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = False

    ties: TieRule = "average"

    @abstractmethod
    def form(self, judgements: Judgements) -> InnerProduct:
        """Find gains, discounts and norms."""

    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Find gains, discounts and norms, and which queries have a norm."""
        form = self.form(judgements)
        return MeasurePlan(form.norms > 0, np.ones(len(form.norms)), partial(self._rate, form))

    def _rate(self, form: InnerProduct, rankings: Rankings) -> FloatArray:
        cumulative = cumulate(form.discounts, rankings.judgements.longest)
        ranking = rankings.sorted(self.ties)
        sums = rankings.table(inner_products, form.gains, form.discounts, cumulative, *ranking)
        return ratio(sums, form.norms)
