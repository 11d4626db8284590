r"""The hinge and the squared hinge over a set of pairs, as twice differentiable sums.

Both are made of sums of squared slacks above a threshold, :math:`Q_\tau = \sum c\,(t - \tau)_+^2`:
the squared hinge is :math:`Q_0`, and the hinge, rounded off over a width :math:`\mu`, is
:math:`(Q_0 - Q_\mu) / 2\mu` (docs/theory/ranksvm.rst).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.rankers.svm.pair_sums import PairLaplacian, PairSet, Slacks

HingeLoss: TypeAlias = Literal["hinge", "squared_hinge"]


@final
@dataclass(frozen=True, eq=False)
class Loss:
    """A loss at given scores, with its derivatives.

    Parameters
    ----------
    exact : float
        The loss itself.
    smooth : float
        What is minimised in its place, at most the loss.
    excess : float
        By how much the loss is above its own linearisation with the dual variables that belong to
        the slope, at most: what rounding off adds to the duality gap.
    noise : float
        How far rounding errors may put the smooth loss off.
    slope : (n_items,)
        The derivative of the smooth loss by the scores.
    drift : (n_items,)
        The derivative of the slope by the width of the rounding off.
    factor : float
        What multiplies the Laplacian in the second derivative by the scores.
    slacks : Slacks
        The slacks of the pairs.
    width : float
        The Laplacian is that of the slacks between 0 and this.
    """

    exact: float
    smooth: float
    excess: float
    noise: float
    slope: FloatArray
    drift: FloatArray
    factor: float
    slacks: Slacks
    width: float

    @cached_property
    def laplacian(self) -> PairLaplacian:
        """The Laplacian of the pairs where the smooth loss is curved."""
        return self.slacks.between(0.0, self.width)


def squared_hinge(pairs: PairSet, scores: FloatArray) -> Loss:
    """Return the sum of squared positive slacks."""
    slacks = pairs.slacks(scores)
    violated = slacks.above(0.0)
    squares = violated.squares
    return Loss(
        exact=squares,
        smooth=squares,
        excess=0.0,
        noise=violated.noise,
        slope=2.0 * violated.squares_slope,
        drift=np.zeros_like(scores),
        factor=2.0,
        slacks=slacks,
        width=np.inf,
    )


def smoothed_hinge(pairs: PairSet, scores: FloatArray, width: float) -> Loss:
    r"""Return the sum of positive slacks, rounded off where they are below the width.

    A slack t counts :math:`t^2/2\mu` up to the width :math:`\mu`, then :math:`t - \mu/2`. The dual
    variable of a pair is its weight times :math:`\min(1, t_+/\mu)`.
    """
    slacks = pairs.slacks(scores)
    low, high = slacks.above(0.0), slacks.above(width)
    squares = (low.squares - high.squares) / width
    noise = low.noise / width
    most = width / 4.0 * (low.weight - high.weight)  # t (1 - t / width) at its largest
    slope = (low.squares_slope - high.squares_slope) / width
    return Loss(
        exact=low.total,
        smooth=squares / 2.0,
        excess=min(most, max(0.0, low.total + high.total - squares) + noise),
        noise=noise,
        slope=slope,
        drift=(high.total_slope - slope) / width,
        factor=1.0 / width,
        slacks=slacks,
        width=width,
    )


def loss_at(pairs: PairSet, width: float | None) -> Callable[[FloatArray], Loss]:
    """Return the loss as a function of the scores: the squared hinge where there is no width."""
    if width is None:
        return lambda scores: squared_hinge(pairs, scores)
    return lambda scores: smoothed_hinge(pairs, scores, width)
