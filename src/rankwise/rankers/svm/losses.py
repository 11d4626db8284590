r"""The hinge and the squared hinge over a set of pairs, as twice differentiable sums.

Both are made of sums of squared slacks above a threshold, :math:`Q_\tau = \sum c\,(t - \tau)_+^2`:
the squared hinge is :math:`Q_0`, and the hinge, rounded off over a width :math:`\mu`, is
:math:`(Q_0 - Q_\mu) / 2\mu` (docs/theory/ranksvm.rst).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.graph.pair_sums import BandLaplacian, PairSet, Slacks

HingeLoss: TypeAlias = Literal["hinge", "squared_hinge"]


@final
@dataclass(frozen=True, eq=False)
class SmoothedLoss:
    """A loss at given scores, and the smooth one that is minimised in its place.

    Parameters
    ----------
    exact : float
        The loss itself.
    smooth : float
        The smooth loss, at most the loss itself.
    smoothing_gap : float
        What smoothing adds to the duality gap, at most: the last sum of eq. svm-gap.
    dual_penalty : float
        The cost of the dual variables besides the norm of their sum, divided by C.
    max_dual_scale : float
        The largest number that all dual variables may be multiplied by.
    rounding_error : float
        How far rounding errors may put the smooth loss off.
    slope : (n_items,)
        The derivative of the smooth loss by the scores.
    slope_by_width : (n_items,)
        The derivative of the slope by the width over which the hinge is rounded off.
    curvature : float
        What multiplies the Laplacian in the second derivative by the scores.
    slacks : Slacks
        The slacks of the pairs.
    width : float
        The Laplacian is that of the pairs with a slack between 0 and this.
    """

    exact: float
    smooth: float
    smoothing_gap: float
    dual_penalty: float
    max_dual_scale: float
    rounding_error: float
    slope: FloatArray
    slope_by_width: FloatArray
    curvature: float
    slacks: Slacks
    width: float

    @cached_property
    def laplacian(self) -> BandLaplacian:
        """The Laplacian of the pairs where the smooth loss is curved."""
        return self.slacks.band(0.0, self.width)


def squared_hinge(pairs: PairSet, scores: FloatArray) -> SmoothedLoss:
    """Return the sum of squared positive slacks, which is smooth itself."""
    slacks = pairs.slacks(scores, 0.0)
    violations = slacks.violations(0.0)
    return SmoothedLoss(
        exact=violations.squares,
        smooth=violations.squares,
        smoothing_gap=0.0,
        dual_penalty=violations.squares,
        max_dual_scale=np.inf,
        rounding_error=violations.rounding_error,
        slope=2.0 * violations.squares_slope,
        slope_by_width=np.zeros_like(scores),
        curvature=2.0,
        slacks=slacks,
        width=np.inf,
    )


def smoothed_hinge(pairs: PairSet, scores: FloatArray, width: float) -> SmoothedLoss:
    r"""Return the sum of positive slacks, rounded off where they are below the width.

    A slack t counts :math:`t^2/2\mu` up to the width :math:`\mu`, then :math:`t - \mu/2`. The dual
    variable of a pair is its weight times :math:`\min(1, t_+/\mu)`.
    """
    slacks = pairs.slacks(scores, 0.0)
    low, high = slacks.violations(0.0), slacks.violations(width)
    squares = (low.squares - high.squares) / width  # eq. svm-huber, twice
    rounding_error = low.rounding_error / width
    most = width / 4.0 * (low.weight - high.weight)  # t (1 - t / width) is largest in the middle
    slope = (low.squares_slope - high.squares_slope) / width
    return SmoothedLoss(
        exact=low.total,
        smooth=squares / 2.0,
        smoothing_gap=min(most, max(0.0, low.total + high.total - squares) + rounding_error),
        dual_penalty=0.0,
        max_dual_scale=1.0,
        rounding_error=rounding_error,
        slope=slope,
        slope_by_width=(high.total_slope - slope) / width,  # eq. svm-path
        curvature=1.0 / width,
        slacks=slacks,
        width=width,
    )
