"""The probability that users look at a position, estimated from a log of clicks."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, freeze, sum_by
from rankwise.core.checks import as_array, as_floats, check_length
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, Count, Positive, check_call
from rankwise.core.queries import Queries


def click_propensities(
    position: ArrayLike,
    clicked: ArrayLike,
    item: ArrayLike | None = None,
    *,
    max_iter: Count = 500,
    tol: Annotated[float, Positive(), Advice("It is a change.")] = 1e-6,
) -> FloatArray:
    r"""Estimate the probability that users look at each position, relative to the first.

    In the position-based model an item is clicked if it is looked at, which depends only on its
    position k, and attractive, which depends only on the item a:
    :math:`P(\text{click}) = \theta_k \gamma_a`. The parameters are found by expectation
    maximisation, which needs items that were shown at different positions. Without `item`, all
    positions are assumed to have shown equally attractive items, as after random shuffling, and
    :math:`\theta` is the click rate of each position.

    Clicks weighted by :math:`1/\theta_k` estimate what users would have clicked had they looked at
    everything: use ``1 / click_propensities(...)[position]`` of the clicked rows as
    ``sample_weight``.

    Parameters
    ----------
    position : (n_shown,)
        The position of each item shown, from 0.
    clicked : (n_shown,)
        Whether it was clicked.
    item : (n_shown,), optional
        What was shown: an id of any type, the same whenever the same item was shown for the same
        query.
    max_iter : int
        Largest number of iterations.
    tol : float
        Stop when no propensity changes by more than this.

    Returns
    -------
    propensities : (n_positions,)
        The propensities, 1 for the first position; NaN for positions that never showed anything.

    Notes
    -----
    The model is that of Richardson, Dominowska and Ragno, "Predicting clicks" (WWW 2007); its
    expectation maximisation is described in Chuklin, Markov and de Rijke, "Click Models for Web
    Search" (2015), Sect. 4.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import click_propensities
    >>> rng = np.random.default_rng(0)
    >>> item, position = rng.integers(50, size=40_000), rng.integers(3, size=40_000)
    >>> attractive = rng.uniform(0.2, 0.9, size=50)
    >>> looked_at = np.array([1.0, 0.5, 0.25])
    >>> clicked = rng.random(40_000) < looked_at[position] * attractive[item]
    >>> click_propensities(position, clicked, item).round(1).tolist()
    [1.0, 0.5, 0.2]
    """
    places, clicks = _check_log(position, clicked)
    check_call(click_propensities, max_iter=max_iter, tol=tol)
    if item is None:
        seen = np.bincount(places).astype(float)
        rate = sum_by(places, clicks, len(seen)) / np.where(seen > 0, seen, np.nan)
        return freeze(rate / rate[0])
    items = Queries.of(item, len(places), "item", "position")
    return freeze(_expectation_maximisation(places, clicks, items, max_iter, tol))


def _expectation_maximisation(
    places: IntArray, clicks: FloatArray, items: Queries, max_iter: int, tol: float
) -> FloatArray:
    """Share out each row without a click between "not looked at" and "not attractive"."""
    shown = np.bincount(places).astype(float)
    theta = np.where(shown > 0, 0.5, np.nan)
    gamma = np.full(items.n_queries, 0.5)
    for _ in range(max_iter):
        looked, liked = theta[places], gamma[items.index]
        missed = 1.0 - looked * liked
        looked = np.where(clicks > 0, 1.0, looked * (1.0 - liked) / missed)
        liked = np.where(clicks > 0, 1.0, (1.0 - theta[places]) * liked / missed)
        before, gamma = theta, items.mean(liked)
        theta = sum_by(places, looked, len(shown)) / np.where(shown > 0, shown, np.nan)
        theta = np.minimum(theta, 1.0 - 1e-12)
        if np.nanmax(np.abs(theta / theta[0] - before / before[0])) <= tol:
            break
    return theta / theta[0]


def _check_log(position: ArrayLike, clicked: ArrayLike) -> tuple[IntArray, FloatArray]:
    places, clicks = as_array("position", position), as_floats("clicked", clicked)
    if places.ndim != 1 or places.dtype.kind not in "iu" or len(places) == 0 or places.min() < 0:
        raise InvalidInputError(
            "`position` must hold one whole number from 0 per item shown: got "
            f"{places.dtype} of shape {places.shape}."
        )
    check_length("clicked", clicks, len(places), "position")
    if not np.isin(clicks, (0.0, 1.0)).all():
        raise InvalidInputError("`clicked` must hold 0 and 1, or False and True.")
    if not (clicks[places == 0] > 0).any():
        raise InvalidInputError(
            "The first position must have been clicked at least once, since propensities are "
            "relative to it: got no click there. Count positions from 0."
        )
    return places.astype(np.intp), clicks
