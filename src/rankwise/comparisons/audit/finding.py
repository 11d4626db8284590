"""What a probe of an audit found, with its interval and the bar for a flag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import ndtri

from rankwise.core.display import plain

FLAG_LEVEL = 0.99
"""How sure a probe is of what it flags; shared among all that it looks at."""


@final
@dataclass(frozen=True)
class Finding:
    """Hold what one probe found.

    Parameters
    ----------
    probe : str
        What was looked at.
    said : str
        The result in a sentence, with its numbers.
    value, low, high : float
        The number behind it, with its interval; not numbers if there is none.
    bar : str
        What the evidence must clear for a flag.
    is_flagged : bool
    rows : tuple of dict
        Details, such as a row for each judge.

    Examples
    --------
    >>> from rankwise import leaderboard
    >>> battles = [("a", "b", "a"), ("b", "a", "b"), ("a", "c", "a")] * 20
    >>> finding = leaderboard(battles, random_state=0).audit()["groups that never met"]
    >>> finding.is_flagged, finding.said
    (False, 'all 3 items met, if only through others')
    """

    probe: str
    said: str
    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    bar: str = ""
    is_flagged: bool = False
    rows: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values; numbers that are none are left out."""
        known = {name: value for name, value in vars(self).items() if value == value}
        return dict(plain(known))


def reach(level: float, n_looks: int = 1) -> float:
    """Return how many standard deviations an interval extends, at each of several looks."""
    return float(-ndtri(0.5 * (1.0 - level) / max(n_looks, 1)))


def share_interval(hits: float, total: float, level: float) -> tuple[float, float, float]:
    """Return a share and its interval by Wilson's formula."""
    z = reach(level)
    share = hits / total
    middle = (share + z * z / (2.0 * total)) / (1.0 + z * z / total)
    half = z * np.sqrt(share * (1.0 - share) / total + z * z / (4.0 * total**2))
    half /= 1.0 + z * z / total
    return share, float(middle - half), float(middle + half)


def percent(share: float) -> str:
    """Return a share in percent, with a decimal where it is small."""
    return f"{100.0 * share:.1f} %" if abs(share) < 0.1 else f"{100.0 * share:.0f} %"
