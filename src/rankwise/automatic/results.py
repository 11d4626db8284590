"""What an automatic search found: everything that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from rankwise.core.display import Result, columns_of, decimals, label_bars, plain
from rankwise.core.storable import storable


@storable
@final
@dataclass(frozen=True)
class RankerEntry:
    """Hold one family that was tried, or the sum that was chosen.

    Parameters
    ----------
    name : str
        The name of the family.
    value : float
        The mean of the measure over held-out queries; NaN if the family was not tried.
    low, high : float
        The ends of its 95 % confidence interval over queries.
    pvalue : float
        The p-value of a paired test against the chosen sum; 1 for the sum itself.
    weight : float
        The share of its standardised scores in the sum.
    seconds : float
        The time it took.
    note : str
        Why the family was not tried; empty if it was.

    Examples
    --------
    >>> from rankwise import RankerEntry
    >>> RankerEntry("linear RankRLS", 0.5, 0.4, 0.6, 0.03, 1.0, 2.5).seconds
    2.5
    """

    name: str
    value: float
    low: float
    high: float
    pvalue: float
    weight: float
    seconds: float
    note: str = ""


@storable
@final
@dataclass(frozen=True)
class RankerLeaderboard(Result):
    """Hold everything that was tried, best first; prints as a table.

    Parameters
    ----------
    measure : str
        The measure.
    entries : tuple of RankerEntry
        The chosen sum, then the families by their values.

    Examples
    --------
    >>> from rankwise import RankerLeaderboard, RankerEntry
    >>> print(RankerLeaderboard("NDCG @ 10", (RankerEntry("sum", 0.5, 0.4, 0.6, 1.0, 0.0, 2.5),)))
    NDCG @ 10, held out   value   95 % interval    p against sum  in sum  seconds
    sum                  0.5000  0.4000 to 0.6000              -       -      2.5
    """

    measure: str
    entries: tuple[RankerEntry, ...]

    def __str__(self) -> str:
        first = f"{self.measure}, held out"
        width = max([len(first), *(len(entry.name) for entry in self.entries)])
        lines = [
            f"{first:<{width}}  {'value':>6}  {'95 % interval':^16}  {'p against sum':>13}  "
            f"{'in sum':>6}  seconds"
        ]
        lines += [
            _line(entry, width, is_sum=number == 0) for number, entry in enumerate(self.entries)
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"RankerLeaderboard({self.measure}, {len(self.entries)} entries)"

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON can hold; numbers that are none are None."""
        entries = [
            {name: plain(value) for name, value in vars(one).items()} for one in self.entries
        ]
        return {"measure": self.measure, "entries": entries}

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.to_dict()["entries"])

    def _cells(self) -> list[list[str]]:
        rows = [["", "value", "95 % interval", "in sum", "seconds", ""]]
        for one in self.entries:
            interval = f"{decimals(one.low)} to {decimals(one.high)}"
            shares = [decimals(one.weight, 2), decimals(one.seconds, 1)]
            rows.append([one.name, decimals(one.value), interval, *shares, one.note])
        return rows

    def _caption(self) -> str:
        return f"{self.measure}, held out"

    def _draw(self, ax: Any) -> None:
        """Draw the value of everything that was tried, with its interval."""
        tried = [one for one in self.entries if not one.note]
        ends = [[one.value - one.low for one in tried], [one.high - one.value for one in tried]]
        ax.errorbar([one.value for one in tried], range(len(tried)), xerr=ends, fmt="o", capsize=3)
        label_bars(ax, [one.name for one in tried])
        ax.set_xlabel(f"{self._caption()}, 95 % interval")


def _line(entry: RankerEntry, width: int, *, is_sum: bool) -> str:
    if entry.note:
        return f"{entry.name:<{width}}  {entry.note}"
    test = "-" if is_sum else "< 1e-99" if entry.pvalue < 1e-99 else f"{entry.pvalue:.3g}"
    share = "-" if is_sum else f"{entry.weight:.2f}"
    return (
        f"{entry.name:<{width}}  {entry.value:.4f}  {entry.low:.4f} to {entry.high:.4f}  "
        f"{test:>13}  {share:>6}  {entry.seconds:7.1f}"
    )
