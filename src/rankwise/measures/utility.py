"""A measure with discounts of one's own."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from rankwise.measures.graded import GainMeasure, Normalise
from rankwise.measures.inner_product import InnerProduct
from rankwise.measures.options import Discounts
from rankwise.measures.rankings import Judgements


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class UtilityMeasure(GainMeasure):
    r"""Add up the gains of the items, discounted by numbers of one's own, position by position.

    .. math:: \mathrm{Utility} = \frac{\sum_i a_{\pi(i)} b(y_i)}{\max_\sigma \sum_i a_{\sigma(i)}
              b(y_i)}

    Undefined, when normalised, for a query whose best ranking is worth nothing. With suitable
    numbers it is any other measure of gains and positions, and `DORM` can be trained for it.

    Parameters
    ----------
    gain : {"linear", "exponential"} or tuple
        The gain b of a grade: y, 2^y - 1, or the gains of the grades 0, 1, 2, ... one by one.
    discounts : tuple
        What the first, second, ... position is worth; none less than 0 or more than the one before.
        Later positions are worth nothing.
    normalise : {"best", "none"}
        Divide by the utility of the best order, or leave the utility as it is.
    ties : {"average", "input", "reverse", "best", "worst"}
        The order of items with the same score.
    empty : {"skip", "zero", "one"}
        What an undefined query counts.

    Examples
    --------
    >>> from rankwise import Queries, Utility
    >>> clicks = Utility(discounts=(0.4, 0.2, 0.1), normalise="none")
    >>> clicks.per_query([3, 1, 0, 2], [0.9, 0.8, 0.1, 0.5], Queries.single(4)).round(4)
    array([1.6])
    """

    name: ClassVar[str] = "Utility"

    discounts: Discounts = (1.0,)
    normalise: Normalise = "best"

    def form(self, judgements: Judgements) -> InnerProduct:
        """Take the discounts as they are."""
        gains, discounts = self.gains(judgements), np.array(self.discounts)[: judgements.longest]
        if self.normalise == "none":
            return InnerProduct(gains, discounts, np.ones(judgements.queries.n_queries))
        return InnerProduct(gains, discounts, judgements.best(gains, discounts))


Utility = UtilityMeasure()
