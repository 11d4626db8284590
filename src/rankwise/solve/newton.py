"""Newton's method for a maximum, with steps that are halved until they lead up."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.solve.iteration import Ending, Reason, StoppingRule

MAX_HALVINGS = 34
"""How often a step is halved: to a share of it that rounding errors hide."""

P = TypeVar("P")
S = TypeVar("S")


def newton_steps(
    point: P,
    solve: Callable[[P, float], tuple[S, float]],
    move: Callable[[P, S], P],
    rule: StoppingRule,
    remedy: str = "",
) -> tuple[P, S, int, Ending]:
    """Make Newton steps up to the first that gains less than the tolerance, which is not made.

    Parameters
    ----------
    point : object
        Where to start.
    solve : function
        Gives the Newton step from a point and its decrement: twice what the quadratic expansion
        gains. Its second argument is the decrement of the step before, first 0.
    move : function
        Gives the point that a step leads to, after damping.
    rule : StoppingRule
        The tolerance is a bound on the decrement.
    remedy : str
        What to do if it is not reached.

    Returns
    -------
    point, step : object
        The last point, and the step from there.
    n_iter : int
        Number of steps solved for.
    ending : Ending
        Why they ended.
    """
    (step, decrement), n_iter = solve(point, 0.0), 1
    while decrement >= rule.tol and n_iter < rule.max_iter:
        point = move(point, step)
        (step, decrement), n_iter = solve(point, decrement), n_iter + 1
    reason: Reason = "converged" if decrement < rule.tol else "max_iter"
    return point, step, n_iter, rule.end(reason, n_iter, decrement, remedy)


def halved(
    ahead: Callable[[Any], P],
    value: Callable[[P], Any],
    enough: Callable[[Any], Any],
    share: FloatArray | float,
    max_halvings: int = MAX_HALVINGS,
) -> P:
    """Return the point that a share of a step leads to: halved until the value there is enough.

    Parameters
    ----------
    ahead : function
        Gives the point for a share.
    value : function
        What is maximised.
    enough : function
        The least value for a share.
    share : float or (n,)
        The first one: 1; for n separate problems as many, each halved by itself.
    max_halvings : int
    """
    point = ahead(share)
    for _ in range(max_halvings):
        low = value(point) < enough(share)
        if not np.any(low):
            break
        share = share * np.where(low, 0.5, 1.0)
        point = ahead(share)
    return point


def armijo(value: float, decrement: float) -> Callable[[float], float]:
    """Return the least value after a share of a Newton step by Armijo's rule, but for rounding."""
    rounding = 1e-12 * (1.0 + abs(value))
    return lambda share: value + 1e-4 * share * decrement - rounding
