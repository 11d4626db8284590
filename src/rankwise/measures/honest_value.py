"""The value of a ranker on data that neither it nor any choice has seen."""

from dataclasses import dataclass
from typing import Any, final

from rankwise.core.display import Result, between, decimals, draw_interval
from rankwise.core.storable import storable


@storable
@final
@dataclass(frozen=True)
class HonestValue(Result):
    """Hold the value of a ranker on queries that neither it nor any choice has seen.

    Parameters
    ----------
    measure : str
        The measure.
    value : float
        Its mean over the queries; NaN if there were too few to set some aside.
    low, high : float
        The ends of its 95 % confidence interval over queries.
    n_queries : int
        Number of queries that have a value.
    unit : str
        What was unseen: queries or, without them, parts of the items; "users" if all were known,
        but not the ratings that are ranked.

    Examples
    --------
    >>> from rankwise import HonestValue
    >>> print(HonestValue("NDCG @ 10", 0.5, 0.45, 0.55, 120))
    NDCG @ 10 on 120 unseen queries: 0.5000 (95 % interval 0.4500 to 0.5500)
    """

    measure: str
    value: float
    low: float
    high: float
    n_queries: int
    unit: str = "queries"

    @property
    def unseen(self) -> str:
        """What was unseen."""
        return "unseen ratings" if self.unit == "users" else f"unseen {self.unit}"

    def __str__(self) -> str:
        if self.n_queries == 0:
            return (
                f"{self.measure} on {self.unseen}: unknown, too few {self.unit} to set some aside"
            )
        where = f"{self.n_queries} {self.unseen}"
        if self.unit == "users":
            where = f"{self.unseen} of {self.n_queries} users"
        return (
            f"{self.measure} on {where}: {self.value:.4f} "
            f"(95 % interval {self.low:.4f} to {self.high:.4f})"
        )

    def _cells(self) -> list[list[str]]:
        interval = between(self.low, self.high, 4)
        head = ["measure", "value", "95 % interval", "queries"]
        return [head, [self.measure, decimals(self.value), interval, str(self.n_queries)]]

    def _caption(self) -> str:
        return f"Value on {self.unseen}"

    def _draw(self, ax: Any) -> None:
        """Draw the value with its interval."""
        label = f"{self.measure} on {self.unseen}, 95 % interval"
        draw_interval(ax, self.value, self.low, self.high, label)
