"""Gaussian processes averaged over their length-scale, in place of the single best one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, final, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from rankwise.comparisons.gp.preference_gp import PreferenceGP, refuse_std_and_cov
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, Positive, check_value

DEFAULT_FACTORS = tuple(np.geomspace(0.25, 4.0, 17).tolist())

Multiple: TypeAlias = Annotated[float, Positive(), Advice("Give multiples.")]


@final
@dataclass(frozen=True, eq=False)
class LengthScaleAverage:
    """Average predictions over length-scales, each weighted by the evidence for it.

    This is full Bayesian inference over the length-scale on a grid. If the grid is evenly spaced in
    logarithms, the prior on the logarithm is uniform. With few answers it is more cautious than
    the best length-scale alone; with hundreds the difference is small.

    Build it with `average_over_length_scales`.

    Parameters
    ----------
    members : tuple of PreferenceGP
        A fitted process for each length-scale.
    factors : (n_members,)
        Their length-scales, as multiples of that of the original process.
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

    @overload
    def predict(self, X: Any) -> FloatArray: ...

    @overload
    def predict(self, X: Any, *, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def predict(self, X: Any, *, return_cov: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: Any, *, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean score of every row of X, and optionally its uncertainty.

        The arguments are those of `PreferenceGP.predict`.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        return_std, return_cov : bool
            Whether to return the standard deviations (n_items,), or the covariance
            (n_items, n_items), of the mixture of all members as well.

        Returns
        -------
        scores : (n_items,)
        std or cov : optional
        """
        refuse_std_and_cov(return_std, return_cov)
        if return_cov:
            parts = [member.predict(X, return_cov=True) for member in self.members]
            means, covariances = (np.array(values) for values in zip(*parts, strict=True))
            mean = self.weights @ means
            apart = means - mean
            within = np.tensordot(self.weights, covariances, axes=1)
            return mean, within + (self.weights[:, None] * apart).T @ apart
        if not return_std:
            return self.weights @ np.array([member.predict(X) for member in self.members])
        parts = [member.predict(X, return_std=True) for member in self.members]
        means, deviations = (np.array(values) for values in zip(*parts, strict=True))
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (deviations**2 + (means - mean) ** 2))

    def predict_pair(self, X1: Any, X2: Any, *, noisy: bool = True) -> FloatArray:
        """Return the probability that each row of X1 beats the same row of X2.

        The arguments are those of `PreferenceGP.predict_pair`.

        Parameters
        ----------
        X1, X2 : (n_pairs, n_features)
            The items to compare.
        noisy : bool
            True for the probability of a recorded answer, False for that of the scores themselves.

        Returns
        -------
        probability : (n_pairs,)
            Or (n_pairs, 3) after a fit with ties, for answers: win, tie and loss.
        """
        parts = [member.predict_pair(X1, X2, noisy=noisy) for member in self.members]
        return np.tensordot(self.weights, np.array(parts), axes=1)


def average_over_length_scales(
    gp: PreferenceGP, factors: ArrayLike = DEFAULT_FACTORS
) -> LengthScaleAverage:
    """Condition a fitted process on its answers with other length-scales, and average.

    All other parameters stay as they were learned. Each length-scale costs one posterior, a few
    sweeps from that of ``gp``. Its weight is its evidence as a share of the sum.

    Parameters
    ----------
    gp : PreferenceGP
        A process fitted with a kernel that has a length-scale, such as `SquaredExponential`.
    factors : (n_members,)
        Multiples of its length-scales; by default 17 from 1/4 to 4. Space them evenly in
        logarithms for a uniform prior on the logarithm.

    Returns
    -------
    average : LengthScaleAverage
        It has `predict` and `predict_pair`, as a `PreferenceGP` does.

    Notes
    -----
    [TH10] Fig. 1, left, integrates over the logarithm of the kernel width in this way.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PreferenceGP, average_over_length_scales
    >>> X = np.linspace(0.0, 1.0, 6)[:, None]
    >>> gp = PreferenceGP().fit(X, pairs=[[3, 0], [3, 5], [2, 0], [2, 1], [4, 5]])
    >>> average = average_over_length_scales(gp)
    >>> scores, std = average.predict(X, return_std=True)
    >>> int(np.argmax(scores)), round(float(average.weights.sum()), 6)
    (3, 1.0)
    """
    grid = np.array([check_value("factors", f, Multiple) for f in np.ravel(factors)])
    if len(grid) == 0:
        raise InvalidInputError("`factors` must hold at least one value: got none.")
    if not isinstance(gp, PreferenceGP):
        raise InvalidInputError(f"`gp` must be a PreferenceGP: got {type(gp).__name__}.")
    members = tuple(gp.with_length_scale(factor) for factor in grid.tolist())
    evidence = np.array([member.log_marginal_likelihood_ for member in members])
    return LengthScaleAverage(members, grid, softmax(evidence))
