"""A leaderboard: names in order, with intervals of scores and ranks, in every format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import log, pi
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr, ndtri

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, sum_by
from rankwise.core.checks import (
    positions_of,
)
from rankwise.core.display import (
    Result,
    columns_of,
    interval_chart,
    label_bars,
    new_axes,
    plain,
    spreadsheet_text,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, Share, check_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Link: TypeAlias = Literal["logit", "probit"]
TieModel: TypeAlias = Literal["lead", "odds"]
LeaderboardFormat: TypeAlias = Literal["text", "markdown", "csv", "json", "html"]

ELO_UNIT, ELO_CENTRE = 400.0 / log(10.0), 1000.0
"""What a logit is worth on the scale of Elo, and the mean there."""

N_THRESHOLD_DRAWS, N_BEST_GRID = 16, 40
"""Draws of all scores that thresholds of ranks come from, and points to be the best at."""

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
HERMITE = _POINTS, _WEIGHTS / _WEIGHTS.sum()
"""Points and weights of a mean over a Gaussian."""

MAX_MATRIX = 2000
"""Items up to which all pairs are compared at once."""


@final
@dataclass(frozen=True)
class Effect:
    """Hold the effect of a covariate of comparisons, in units of the scores.

    Parameters
    ----------
    name : str
    value, low, high : float
        The estimate and its interval.
    usual : float
        The value of the covariate in all comparisons, if it was one; else 0.

    Examples
    --------
    >>> from rankwise import leaderboard
    >>> games = {"a": list("xyxyxzyz"), "b": list("yxyxzxzy"), "result": list("aaabaaab")}
    >>> leaderboard(games, first=True).effects[0].name
    'first'
    """

    name: str
    value: float
    low: float
    high: float
    usual: float = 0.0

    @property
    def text(self) -> str:
        """The estimate and its interval, in digits that tell them from 0."""
        width = self.high - self.low
        digits = 2 if not width > 0.0 else max(2, 1 - int(np.floor(np.log10(width))))
        value, low, high = (
            f"{round(number, digits) + 0.0:+.{digits}f}"
            for number in (self.value, self.low, self.high)
        )
        return f"{value} ({low} to {high})"

    def scaled(self, unit: float) -> Self:
        """Return the same in another unit."""
        return replace(self, value=unit * self.value, low=unit * self.low, high=unit * self.high)


@final
@dataclass(frozen=True, eq=False)
class RankSpread:
    """Hold what is known about the rank of every item.

    Parameters
    ----------
    low, high : (n_items,)
        The interval of each rank.
    best : (n_items,)
        Probability of being the best.
    """

    low: IntArray
    high: IntArray
    best: FloatArray

    @classmethod
    def of_draws(cls, draws: FloatArray, level: float) -> Self:
        """Count ranks over draws of the scores, (n_draws, n_items)."""
        ranks = np.sort(_ranks(draws).T, axis=1)
        tail, n_draws = 0.5 * (1.0 - level), len(draws)
        low, high = (
            ranks[:, min(max(int(np.ceil(share * n_draws)) - 1, 0), n_draws - 1)].astype(np.intp)
            for share in (tail, 1.0 - tail)
        )
        return cls(low, high, np.mean(ranks == 1, axis=1))

    @classmethod
    def of_independent(
        cls, score: FloatArray, std: FloatArray, level: float, rng: np.random.Generator
    ) -> Self:
        """Return the ranks of many independent scores, in O(n log n).

        An item is among the best r if its score is above the r-th largest of all others. This
        threshold is nearly Gaussian; its mean and variance come from a few draws of all scores. At
        a quantile of the difference, the item itself is above the threshold with the probability of
        the quantile, and takes up that share of a rank.
        """
        order = np.argsort(score)
        score, std = score[order], std[order]
        draws = rng.standard_normal((N_THRESHOLD_DRAWS, len(score)), dtype=np.float32)
        draws *= std.astype(np.float32)
        draws += score.astype(np.float32)
        draws.sort(axis=1)
        threshold, variance = draws.mean(axis=0), draws.var(axis=0)
        above, tail = np.arange(len(score), 0, -1) - 0.5, 0.5 * (1.0 - level)
        low, high, best = np.empty((3, len(score)))
        for ranks, share, reach in ((low, tail, -ndtri(tail)), (high, 1.0 - tail, ndtri(tail))):
            at = score + reach * std
            at = score + reach * np.sqrt(std**2 + np.interp(at, threshold, variance))
            others = np.interp(at, threshold, above, len(score), 0.0) - share
            ranks[order] = np.clip(np.ceil(others + 0.5), 1, len(score))
        top = draws[:, -1]
        best[order] = _best_of_independent(score, std, float(top.mean()), float(top.std()))
        return cls(low.astype(np.intp), high.astype(np.intp), best)


def _best_of_independent(
    score: FloatArray, std: FloatArray, largest: float, spread: float
) -> FloatArray:
    """Return the probability that each item has the largest of independent scores.

    All scores are below x with probability F(x), the product of the single probabilities; item j is
    the best at x with density (log Phi_j)'(x) F(x). The largest score and its standard deviation
    are known approximately.
    """
    x = largest + spread * np.linspace(-4.0, 7.0, N_BEST_GRID)[:, None]
    some = np.flatnonzero(score + 3.5 * std >= largest - 2.0 * spread)
    log_below = np.log(ndtr(np.maximum((x - score[some]) / std[some], -30.0)))
    below = np.exp(log_below.sum(axis=1))
    share = (below[1:] + below[:-1]) @ np.diff(log_below, axis=0)
    best = np.zeros(len(score))
    best[some] = share / share.sum()
    return best


@final
@dataclass(frozen=True, eq=False)
class Leaderboard(Result):
    """Hold items in order, best first, with their scores, ranks and intervals.

    Build it with `rankwise.leaderboard`, or `PreferenceGP.leaderboard` for items with features.

    Parameters
    ----------
    names : (n_items,)
        The names of the items, best first.
    score, std : (n_items,)
        Scores, with mean 0, and standard deviations.
    low, high : (n_items,)
        The interval of each score.
    rank_low, rank_high : (n_items,)
        The interval of each rank.
    best : (n_items,)
        Probability of being the best.
    answers : (n_items,)
        Number of answers about each item, by weight.
    level : float
        Probability of the intervals.
    width, flip_rate : float
        Lead within which answers tie, and how often win and loss are exchanged.
    link : {"logit", "probit"}
        How leads become probabilities.
    ties : {"lead", "odds"}
        Whether short leads tie (Rao and Kupper), or ties have odds and the score is the logarithm
        of the odds of a win to a loss (Davidson); equal items then tie as often as by the width.
    covariance : (n_items, n_items) or None
        Covariance of the scores, for few items; otherwise they are treated as independent.
    effects : tuple of Effect
        The effects of covariates.
    judges : JudgeReport or None
    unit, centre : float
        The scale on which scores are shown: centre + unit * score.
    group : (n_items,) or None
        The group of each item, from 0, where some items never met, not even through others: ranks,
        scores and probabilities hold inside a group only, and groups follow each other, the largest
        first. None if all items met.
    reading_ : tuple of str
        How the comparisons were read, a line for each part.
    auditor : callable or None
        Makes the audit of this leaderboard; known to leaderboards made from comparisons of two.

    Examples
    --------
    >>> from rankwise import leaderboard
    >>> board = leaderboard([("ann", "bob"), ("ann", "cid"), ("bob", "cid")] * 20)
    >>> print(board)                                                     # doctest: +SKIP
    >>> board.names.tolist(), board.rank_range(0)
    (['ann', 'bob', 'cid'], '1')
    >>> print(board.elo().format("markdown").splitlines()[0])
    | rank | item | score | 90% interval | rank interval | best | answers |
    >>> bool(board.win_matrix()[0, 2] > 0.8)
    True
    """

    names: NDArray[Any]
    score: FloatArray
    std: FloatArray
    low: FloatArray
    high: FloatArray
    rank_low: IntArray
    rank_high: IntArray
    best: FloatArray
    answers: FloatArray
    level: float
    width: float = 0.0
    flip_rate: float = 0.0
    link: Link = "logit"
    ties: TieModel = "lead"
    covariance: FloatArray | None = None
    effects: tuple[Effect, ...] = ()
    judges: Any = None
    unit: float = 1.0
    centre: float = 0.0
    group: IntArray | None = None
    reading_: tuple[str, ...] = ()
    auditor: Callable[[Leaderboard], Any] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        names: NDArray[Any],
        score: FloatArray,
        std: FloatArray,
        ranks: RankSpread,
        answers: FloatArray,
        level: float,
        *,
        widening: float = 1.0,
        **context: Any,
    ) -> Self:
        """Sort items by their scores; intervals are wider than Gaussian ones by a factor."""
        check_value("level", level, Share)
        group, covariance = context.pop("group", None), context.pop("covariance", None)
        order = np.argsort(-score, kind="stable")
        if group is None:
            place, centred = np.arange(1, len(order) + 1), score[order] - score.mean()
        else:
            # inside groups: places from 1, scores around 0
            order = order[np.argsort(group[order], kind="stable")]
            group, sizes = group[order], np.bincount(group)
            place = np.arange(1, len(order) + 1) - (np.cumsum(sizes) - sizes)[group]
            centred = score[order] - (sum_by(group, score[order], len(sizes)) / sizes)[group]
        reach = widening * float(ndtri(0.5 + 0.5 * level)) * std[order]
        if covariance is not None:
            covariance = covariance[np.ix_(order, order)]
        return cls(
            names[order],
            centred,
            std[order],
            centred - reach,
            centred + reach,
            np.minimum(ranks.low[order], place),  # an interval holds the rank shown
            np.maximum(ranks.high[order], place),
            ranks.best[order],
            answers[order],
            level,
            covariance=covariance,
            group=group,
            **context,
        )

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.names)

    @property
    def n_groups(self) -> int:
        """Number of groups of items that never met."""
        return 1 if self.group is None else int(self.group[-1]) + 1

    @property
    def rank(self) -> IntArray:
        """The rank of each item, from 1, inside its group."""
        places = np.arange(self.n_items)
        if self.group is not None:
            places = places - np.searchsorted(self.group, self.group)
        return places + 1

    def rank_range(self, place: int) -> str:
        """Return the interval of a rank as text, such as "1-3".

        Parameters
        ----------
        place : int
            Position on the leaderboard, from 0.
        """
        low, high = int(self.rank_low[place]), int(self.rank_high[place])
        return str(low) if low == high else f"{low}-{high}"

    def top(self, n_items: int) -> Self:
        """Return the leaderboard of the first items alone, as they stand here.

        Parameters
        ----------
        n_items : int
            Number of items to keep.
        """
        n = check_value("n_items", n_items, Count)
        vectors = ("names", "score", "std", "low", "high", "rank_low", "rank_high")
        kept = {name: getattr(self, name)[:n] for name in (*vectors, "best", "answers")}
        kept["group"] = None if self.group is None else self.group[:n]
        kept["covariance"] = None if self.covariance is None else self.covariance[:n, :n]
        # an audit is about all items
        kept["auditor"] = None if self.auditor is None else lambda _: self.audit()
        return replace(self, **kept)

    def audit(self) -> Any:
        """Say which claims of this leaderboard its comparisons carry.

        Which neighbours are separated, one by one and all together, and how many more answers the
        others need; position bias, overall and of each judge; self-consistency and agreement of
        judges, self-preference, influence of heavy voters; what covariates such as length are
        worth; clustering by question; ties dropped, halved or modelled; circles; uneven budgets;
        groups that never met; boards of categories. Every number has an interval, and a flag
        stands only where the evidence clears a stated bar.

        Returns
        -------
        audit : Audit
        """
        if self.auditor is None:
            raise InvalidInputError(
                "`audit` needs a leaderboard made from comparisons of two items by `leaderboard`: "
                "this one was made otherwise."
            )
        return self.auditor(self)

    def elo(self, centre: float = ELO_CENTRE) -> Self:
        """Return the same on the scale of Elo: 400 points are odds of ten to one.

        Parameters
        ----------
        centre : float
            The mean score.
        """
        unit = ELO_UNIT if self.link == "logit" else ELO_UNIT * 1.702
        return replace(self, unit=unit, centre=centre)

    def win_matrix(self, names: Sequence[Any] | None = None) -> FloatArray:
        """Return the probability that each item (row) beats each other one (column).

        Parameters
        ----------
        names : sequence of names, optional
            The items, in this order; by default all of them, best first.

        Returns
        -------
        probability : (n_items, n_items)
            Ties count for neither item; the diagonal is 0.5 minus half the probability of a tie.
            Covariates are 0: nobody is shown first or at home. Not a number for items that never
            met, not even through others.
        """
        at = np.arange(self.n_items) if names is None else self._places(names)
        if len(at) > MAX_MATRIX:
            raise InvalidInputError(
                f"The matrix must have at most {MAX_MATRIX} items: got {len(at)}. Name the "
                "items to compare."
            )
        lead = self.score[at][:, None] - self.score[at]
        variance = self.std[at][:, None] ** 2 + self.std[at] ** 2
        if self.covariance is not None:
            variance = variance - 2.0 * self.covariance[np.ix_(at, at)]
        win, loss = self._by_any_judge(lead, np.maximum(variance, 0.0))
        won = (1.0 - self.flip_rate) * win + self.flip_rate * loss
        if self.group is None:
            return won
        return np.where(self.group[at][:, None] == self.group[at], won, np.nan)

    def predict_pair(
        self,
        first: Sequence[Any],
        second: Sequence[Any],
        covariates: Mapping[str, ArrayLike] | None = None,
        *,
        judge: Sequence[Any] | None = None,
    ) -> FloatArray:
        """Return the probabilities that the first item wins, ties and loses, pair by pair.

        Parameters
        ----------
        first, second : sequence of names
            The items of each pair, in the order in which they are shown.
        covariates : mapping of name to (n_pairs,), optional
            Values of the covariates, by the names of ``effects``. By default what they were in all
            comparisons, if that was one number (the first item is shown first, or plays at home),
            else 0.
        judge : sequence of names, optional
            Who answers, after a fit with ``judges=True``. By default, and for judges whose answers
            are not known, one of the judges, drawn by their numbers of answers.

        Returns
        -------
        probability : (n_pairs, 3)
        """
        i, j = self._places(first), self._places(second)
        if self.group is not None and (self.group[i] != self.group[j]).any():
            pair = int(np.argmax(self.group[i] != self.group[j]))
            raise InvalidInputError(
                "Pairs must be of items that met, if only through others: nothing tells "
                f"{self.names[i[pair]]} from {self.names[j[pair]]}. Add comparisons that join "
                "their groups."
            )
        lead = self.score[i] - self.score[j] + self._effect_of(covariates or {})
        variance = self.std[i] ** 2 + self.std[j] ** 2
        if self.covariance is not None:
            variance = np.maximum(variance - 2.0 * self.covariance[i, j], 0.0)
        win, loss = self._by_any_judge(lead, variance)
        if judge is not None:
            at, is_known = self._known_judges(judge, len(lead))
            factor, width = self.judges.reliability[at], self.judges.width[at]
            own = win_and_loss(factor * lead, factor**2 * variance, width, self.link)
            win, loss = np.where(is_known, own[0], win), np.where(is_known, own[1], loss)
        share = self.flip_rate
        decided = (1.0 - share) * win + share * loss, (1.0 - share) * loss + share * win
        return np.column_stack([decided[0], 1.0 - win - loss, decided[1]])

    def _effect_of(self, covariates: Mapping[str, ArrayLike]) -> FloatArray | float:
        """Return what covariates add to leads; those not given have their usual values."""
        effects = {one.name: one for one in self.effects}
        for name in covariates:
            if name not in effects:
                raise InvalidInputError(
                    f"`covariates` must be among those with known effects, {list(effects)}: got "
                    f"{name!r}."
                )
        given = {name: np.asarray(values, dtype=float) for name, values in covariates.items()}
        return sum(one.value * given.get(name, one.usual) for name, one in effects.items())

    def _by_any_judge(
        self, lead: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of a win and of a loss, averaged over the judges' answers."""
        if self.judges is None:
            return win_and_loss(lead, variance, self.width, self.link, self.ties)
        share = self.judges.n_answers / self.judges.n_answers.sum()
        win, loss = np.zeros_like(lead), np.zeros_like(lead)
        habits = zip(share, self.judges.reliability, self.judges.width, strict=True)
        for weight, factor, width in habits:
            one = win_and_loss(factor * lead, factor**2 * variance, width, self.link)
            win, loss = win + weight * one[0], loss + weight * one[1]
        return win, loss

    def _known_judges(self, judge: Sequence[Any], n_pairs: int) -> tuple[IntArray, BoolArray]:
        """Return the positions of judges, and whether they are known; 0 for those who are not."""
        if self.judges is None:
            raise InvalidInputError(
                "`judge` needs a leaderboard made with judges=True: this one has no judges."
            )
        place = {name: at for at, name in enumerate(self.judges.names.tolist())}
        found = [place.get(name, -1) for name in np.asarray(judge).tolist()]
        if len(found) not in (1, n_pairs):
            raise InvalidInputError(
                f"`judge` must be one judge, or one for each of the {n_pairs} pairs: got "
                f"{len(found)}."
            )
        at = np.array(found, dtype=np.intp)
        return np.maximum(at, 0), at >= 0

    def _places(self, names: Sequence[Any]) -> IntArray:
        return positions_of(names, self.names.tolist(), f"the leaderboard's {self.n_items} items")

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each item, best first."""
        shown = [self.centre + self.unit * values for values in (self.score, self.low, self.high)]
        columns = zip(self.names.tolist(), *(values.tolist() for values in shown), strict=True)
        ranks, groups = self.rank.tolist(), self.group
        return [
            {
                **({} if groups is None else {"group": int(groups[place]) + 1}),
                "rank": ranks[place],
                "item": name,
                "score": score,
                "low": low,
                "high": high,
                "std": float(self.unit * self.std[place]),
                "rank_low": int(self.rank_low[place]),
                "rank_high": int(self.rank_high[place]),
                "best": float(self.best[place]),
                "answers": float(self.answers[place]),
            }
            for place, (name, score, low, high) in enumerate(columns)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return items, ties, effects, judges and how the table was read, as JSON can hold them."""
        report: dict[str, Any] = {"level": self.level, "items": self.rows()}
        report["ties"] = {"model": self.ties, "width": self.unit * self.width}
        report["effects"] = [vars(one) for one in _shown_effects(self)]
        report["reading"] = list(self.reading_)
        if self.judges is not None:
            report["judges"] = self.judges.rows()
        return dict(plain(report))

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.rows())

    def _cells(self) -> list[list[str]]:
        header, body = self.cells()
        return [header, *body]

    def _caption(self) -> str:
        return f"{self.n_items} items"

    def plot(self, ax: Axes | None = None, most: int = 30) -> Axes:
        """Draw the scores with their intervals, best on top; return the axes.

        Needs matplotlib.

        Parameters
        ----------
        ax : axes, optional
            Where to draw; by default new axes.
        most : int
            Largest number of items to draw, starting with the best.
        """
        ax = ax if ax is not None else new_axes()
        self._draw(ax, most)
        return ax

    def _draw(self, ax: Any, most: int = 30) -> None:
        shown = self.rows()[: check_value("most", most, Count)]
        at = np.arange(len(shown))
        score, low, high = (np.array([row[k] for row in shown]) for k in ("score", "low", "high"))
        ax.errorbar(score, at, xerr=[score - low, high - score], fmt="o", capsize=3)
        label_bars(ax, [str(row["item"]) for row in shown])
        ax.set_xlabel(f"score, {self.level:.0%} interval")

    def chart(self, most: int = 100) -> str:
        """Return the scores with their intervals as an SVG drawing, best on top.

        Parameters
        ----------
        most : int
            Largest number of items to draw, starting with the best.
        """
        shown = self.rows()[: check_value("most", most, Count)]
        what = f"all {self.n_items} items" if len(shown) == self.n_items else f"the best {most}"
        names = [f"{row['rank']} {row['item']}" for row in shown]  # cut names may be alike
        score, low, high = ([row[k] for row in shown] for k in ("score", "low", "high"))
        text = f"Scores of {what}, {self.level:.0%} intervals"
        return interval_chart(names, score, low, high, text)

    def _repr_html_(self) -> str:
        return f"{self.chart()}\n{super()._repr_html_()}"

    def format(self, kind: LeaderboardFormat = "text") -> str:
        """Return the leaderboard as text, Markdown, CSV, JSON or an HTML table.

        Parameters
        ----------
        kind : {"text", "markdown", "csv", "json", "html"}
        """
        writers = {
            "text": _text,
            "markdown": _markdown,
            "csv": _csv,
            "json": _json,
            "html": _html,
        }
        check_value("kind", kind, LeaderboardFormat)
        return writers[kind](self)

    @property
    def n_digits(self) -> int:
        """Decimals of a score that are worth showing: none on the scale of Elo."""
        return 0 if self.unit > 10.0 else 2

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells that text formats show."""
        digits = self.n_digits
        several = self.group is not None
        header = [
            *["group"] * several,
            *("rank", "item", "score", f"{self.level:.0%} interval", "rank interval"),
            *("best", "answers"),
        ]
        body = [
            [
                *[str(row.get("group"))] * several,
                str(row["rank"]),
                str(row["item"]),
                _unsigned_zero(row["score"], digits),
                " to ".join(_unsigned_zero(row[end], digits) for end in ("low", "high")),
                self.rank_range(place),
                f"{row['best']:.0%}",
                f"{row['answers']:g}",
            ]
            for place, row in enumerate(self.rows())
        ]
        return header, body

    def __str__(self) -> str:
        return self.format("text")

    def __repr__(self) -> str:
        top = ", ".join(map(str, self.names[:3].tolist()))
        return f"Leaderboard({self.n_items} items: {top}{', ...' if self.n_items > 3 else ''})"


def _unsigned_zero(value: float, digits: int) -> str:
    """Return a number in so many decimals; what rounds to 0 has no sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _ranks(draws: FloatArray) -> NDArray[np.int32]:
    """Return the rank of every item in every draw, 1 for the largest score."""
    order = np.argsort(-draws, axis=1)
    ranks = np.empty(draws.shape, dtype=np.int32)
    np.put_along_axis(ranks, order, np.arange(1, draws.shape[1] + 1, dtype=np.int32)[None], axis=1)
    return ranks


def _win_probability(mean: FloatArray, variance: FloatArray, link: Link) -> FloatArray:
    """Average the probability of a win over the lead; for the logit to about two digits."""
    if link == "probit":
        return np.asarray(ndtr(mean / np.sqrt(1.0 + variance)))
    return np.asarray(expit(mean / np.sqrt(1.0 + pi / 8.0 * variance)))


def win_and_loss(
    lead: FloatArray,
    variance: FloatArray,
    width: FloatArray | float,
    link: Link,
    ties: TieModel = "lead",
) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities that the first item wins and that it loses; the rest are ties."""
    if ties == "odds":
        # win to loss as exp(lead), ties to their geometric mean as nu; averaged by quadrature
        nu, deviation = np.expm1(width), np.sqrt(variance)
        win, loss = np.zeros(np.shape(lead + variance)), np.zeros(np.shape(lead + variance))
        for point, weight in zip(*HERMITE, strict=True):
            up = np.exp(0.5 * np.clip(lead + point * deviation, -700.0, 700.0))
            win += weight / (1.0 + 1.0 / up**2 + nu / up)
            loss += weight / (1.0 + up**2 + nu * up)
        return win, loss
    win = _win_probability(lead - width, variance, link)
    return win, _win_probability(-lead - width, variance, link)


def _text(board: Leaderboard) -> str:
    header, body = board.cells()
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    lines = []
    for row in [header, *body]:
        parts = [
            cell.ljust(width) if header[place] == "item" else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(parts).rstrip())
    lines += [f"{one.name}: {one.text}" for one in _shown_effects(board)]
    if board.n_groups > 1:
        lines.append(
            f"{board.n_groups} groups of items never met: ranks and probabilities hold inside "
            "a group."
        )
    return "\n".join(lines)


def _shown_effects(board: Leaderboard) -> list[Effect]:
    return [one.scaled(board.unit) for one in board.effects]


def _markdown(board: Leaderboard) -> str:
    header, body = board.cells()
    rows = [header, ["---"] * len(header), *body]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    )


def _csv(board: Leaderboard) -> str:
    rows, stream = board.rows(), io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "item": spreadsheet_text(str(row["item"]))} for row in rows)
    return stream.getvalue()


def _json(board: Leaderboard) -> str:
    return json.dumps(board.to_dict(), indent=2)


def _html(board: Leaderboard) -> str:
    header, body = board.cells()
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in body]
    lines = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"
