"""Gaussian processes averaged over their length-scale, in place of the single best one."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_positive
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.gp.preference_gp import PreferenceGP

DEFAULT_FACTORS = tuple(np.geomspace(0.25, 4.0, 17).tolist())


@final
@dataclass(frozen=True, eq=False)
class LengthScaleAverage:
    """Average predictions over length-scales, each counted by how probable it makes the answers.

    This is full Bayesian inference over the length-scale on a grid: with evenly spaced logarithms,
    under a uniform prior on the logarithm. With few answers it is more cautious than the best
    length-scale alone; with hundreds it makes no difference.

    Parameters
    ----------
    members : tuple of PreferenceGP
        A fitted process for each length-scale.
    factors : (n_members,)
        Their length-scales, as multiples of that of the process averaged.
    weights : (n_members,)
        Their probabilities.

    Notes
    -----
    [TH10] Fig. 1, left.

    Examples
    --------
    >>> from rankwise import PreferenceGP, average_over_length_scales
    >>> X = [[0.0], [1.0], [2.0]]
    >>> gp = PreferenceGP().fit(X, pairs=[[2, 0], [1, 0]])
    >>> average = average_over_length_scales(gp, factors=[0.5, 1.0, 2.0])
    >>> average.predict_pair(X[2:], X[:1]).round(1)
    array([0.9])
    """

    members: tuple[PreferenceGP, ...]
    factors: FloatArray
    weights: FloatArray

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation of the score of every row of X."""
        parts = [member.predict(X, return_std=True) for member in self.members]
        means, deviations = (np.array(values) for values in zip(*parts, strict=True))
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (deviations**2 + (means - mean) ** 2))

    def predict_pair(self, X1: Any, X2: Any, *, noisy: bool = True) -> FloatArray:
        """Return the probabilities of `PreferenceGP.predict_pair`, averaged."""
        parts = [member.predict_pair(X1, X2, noisy=noisy) for member in self.members]
        return np.tensordot(self.weights, np.array(parts), axes=1)


def average_over_length_scales(
    gp: PreferenceGP, factors: ArrayLike = DEFAULT_FACTORS
) -> LengthScaleAverage:
    """Repeat a fitted process with other length-scales, everything else as it was learnt.

    Parameters
    ----------
    gp : PreferenceGP
        Fitted with a `SquaredExponential` kernel.
    factors : (n_members,)
        What its length-scales are multiplied with, evenly spaced in their logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PreferenceGP, average_over_length_scales
    >>> X = np.linspace(0.0, 1.0, 6)[:, None]
    >>> gp = PreferenceGP().fit(X, pairs=[[3, 0], [3, 5], [2, 0], [2, 1], [4, 5]])
    >>> average = average_over_length_scales(gp)
    >>> scores, std = average.predict(X)
    >>> int(np.argmax(scores)), round(float(average.weights.sum()), 6)
    (3, 1.0)
    """
    grid = np.array([check_positive("factors", f, "") for f in np.ravel(factors)])
    if len(grid) == 0:
        raise InvalidInputError("`factors` must hold at least one value: got none.")
    members = tuple(gp.with_length_scale(factor) for factor in grid.tolist())
    evidence = np.array([member.log_marginal_likelihood_ for member in members])
    return LengthScaleAverage(members, grid, softmax(evidence))
