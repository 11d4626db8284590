"""Which comparison to ask for next, and how certain the ranking is."""

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Any, Literal, Self, final

import numpy as np
import scipy
from scipy.special import entr, ndtr

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import LiveScores
from rankwise.comparisons.gp.inference.likelihood import inverse_mills_ratio
from rankwise.comparisons.gp.process import Model
from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.display import Result, text_table
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Share, check_value
from rankwise.native.processes import most_informative_pair, most_promising_pair

Goal = Literal["order", "best", "top"]

MOST_SHOWN = 20
"""Items that are printed or drawn."""

MAX_ITEMS = 1000
"""Items from which the next comparison is chosen."""

MAX_DOUBTFUL = 100
"""Items near the border of the best k among whose pairs the next question is looked for."""

OPENING = 1
"""Answers an item has, where only names are known, before questions are chosen by information."""

SURE_DEVIATIONS, MAX_UPSETS = 1.0, 0.08
"""From how many deviations on an answer was expected, and the share of those that came otherwise
up to which chosen questions need no further checks."""

SCARCE = 3.0
"""Answers an item, on average, below which items known by name alone have few."""


def information_gain(mean: FloatArray, variance: FloatArray, noise: float = 1.0) -> FloatArray:
    """Return the expected information of an answer about the scores, in bits (BALD).

    It is the entropy of the answer, minus the entropy it would still have if the scores were known.
    The second part uses h(Phi(x)) = exp(-x^2 / (pi ln 2)), which is accurate to 0.003 bits.

    Parameters
    ----------
    mean, variance : (n,)
        Moments of the difference of scores of each candidate pair.
    noise : float
        Noise variance of an answer.
    """
    p = ndtr(mean / np.sqrt(noise + variance))
    c = 0.5 * pi * log(2.0) * noise
    known = np.sqrt(c / (c + variance)) * np.exp(-0.5 * mean**2 / (c + variance))
    return np.asarray((entr(p) + entr(1.0 - p)) / log(2.0) - known)


def winner_score(second: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the expected score of the better item of each candidate pair (EUBO).

    If it is large, both items are promising and it is uncertain which is better: comparing them
    finds the best item quickly.

    Parameters
    ----------
    second : (n,)
        Mean score of the second item.
    mean, variance : (n,)
        Moments of the difference first - second.
    """
    std = np.sqrt(np.maximum(variance, 1e-200))
    u = mean / std
    return np.asarray(second + mean * ndtr(u) + std * np.exp(-0.5 * u**2) / sqrt(2.0 * pi))


def suggest_pairs(
    mean: FloatArray,
    covariance: FloatArray,
    candidates: IntArray | None,
    n_pairs: int,
    *,
    goal: Goal = "order",
    k: int = 1,
    noise: float = 1.0,
    balance: "Balance | None" = None,
) -> IntArray:
    """Choose the comparisons to ask next, most useful first.

    After each choice the covariance is updated to the one expected after its answer, so that a
    batch does not ask for the same information twice. O(n_pairs (n_candidates + n_items^2)).

    Parameters
    ----------
    mean, covariance : (n_items,), (n_items, n_items)
        Moments of the scores.
    candidates : (n_candidates, 2) or None
        The pairs to choose from, as positions in ``mean``; None for all pairs.
    n_pairs : int
        How many to choose.
    goal : {"order", "best", "top"}
        Learn the whole order (`information_gain`), find the best item (`winner_score`), or find the
        best k: the information, times the doubt on which side of the border an item is.
    k : int
        Number of best items, for the goal "top".
    noise : float
        Noise variance of an answer.
    balance : Balance, optional
        Which of the questions are checks instead.
    """
    n_items = len(mean)
    n_candidates = n_items * (n_items - 1) // 2 if candidates is None else len(candidates)
    if not 0 < n_pairs <= n_candidates:
        raise InvalidInputError(
            f"The number of suggestions must lie between 1 and the {n_candidates} candidate "
            f"pairs: got {n_pairs}."
        )
    S = covariance.copy() if n_pairs > 1 else covariance
    chosen = np.empty((n_pairs, 2), dtype=np.intp)
    for place in range(n_pairs):
        # a check, one of all pairs found by scanning, or the best of the listed candidates
        pair = None
        if balance is not None:
            pair = balance.pair(mean, S, noise, candidates, chosen[:place])
        if pair is not None:
            i, j = pair
        elif candidates is None and goal != "top":
            scan = most_informative_pair if goal == "order" else most_promising_pair
            i, j = scan(mean, S, noise, chosen[:place])
        else:
            listed = _doubtful_pairs(mean, S, k, n_pairs) if candidates is None else candidates
            i, j = listed[_best_candidate(mean, S, listed, chosen[:place], goal, k, noise)]
        chosen[place] = i, j
        if place + 1 < n_pairs:
            # the covariance expected after the answer: a downdate of rank one
            column = S[:, i] - S[:, j]
            variance = np.maximum(column[i] - column[j], 0.0)
            S -= fisher_information(mean[i] - mean[j], variance, noise) * np.outer(column, column)
    return chosen


def period_of_checks(live: LiveScores, balance: int, *, are_scarce: bool) -> int | None:
    """Return the period of checks among questions; None if surprises are known to be rare.

    While answers are scarce, half as many are spent on checks until one is surprising.
    """
    n_sure, n_upset = live.sure_answers(SURE_DEVIATIONS)
    if (n_upset + 1.0) / (n_sure + 2.0) <= MAX_UPSETS:
        return None
    return 2 * balance if are_scarce and n_upset == 0.0 else balance


@final
@dataclass(frozen=True, eq=False)
class Balance:
    """Ask about every item first if only names are known; later check what seems certain.

    If items are known by name alone, an answer says nothing about other items. As long as two items
    have at most one answer between them, the question is about the pair with the fewest answers.

    Informative questions are about items that seem close, so that either answer is likely whether
    scores are far apart or not. Such answers alone say little about how noisy answers are, and
    probabilities become overconfident. A check asks about the pair whose answer is most certain and
    was never given; if there is none, about the items with the fewest answers. With features it
    is about items without answers as long as there are any.

    Parameters
    ----------
    asked : (n_items,)
        How many answers each item has.
    known : (n_known, 2)
        The pairs that have answers.
    every : int or None
        One question in this many is a check; None if checks are not needed.
    n_answers : int
        The number of answers so far.
    by_name : bool
        Whether answers about other items say nothing about the item with the fewest answers.
    rng
        Chooses among items with equally few answers.
    """

    asked: FloatArray
    known: IntArray
    every: int | None
    n_answers: int
    by_name: bool
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        model: Model,
        recorded: Comparisons,
        live: LiveScores | None,
        at: IntArray,
        asked: FloatArray,
        items: IntArray,
        balance: int,
        rng: np.random.Generator,
    ) -> Self:
        """Look at the answers so far.

        Parameters
        ----------
        model : Model
        recorded : Comparisons
            All answers.
        live : LiveScores, optional
            The scores of all items of the model.
        at : (n_rows,)
            The items that may be asked about, by their numbers in the model.
        asked : (n_rows,)
            How many answers each of them has.
        items : (n_items,)
            Those of the rows from which pairs are chosen.
        balance : int
            One question in this many is a check, while surprises are not known to be rare.
        rng
            Chooses among items with equally few answers.
        """
        # other answers say nothing about an item whose covariance with all others is the same
        rows, least = model.X[at], int(np.argmin(asked))
        covariance = model.kernel(rows[[least]], rows)[0]
        by_name = bool(np.ptp(np.delete(covariance, least)) <= 1e-9 * covariance[least])
        are_scarce = by_name and bool(asked.mean() < SCARCE)
        every = balance if live is None else period_of_checks(live, balance, are_scarce=are_scarce)
        # the pairs that have answers, as positions in ``items``
        place = np.full(len(model.X), -1)
        place[at[items]] = np.arange(len(items))
        pairs = place[model.shown.item[np.stack([recorded.winner, recorded.loser], axis=1)]]
        known = pairs[(pairs >= 0).all(axis=1)]
        return cls(asked[items], known, every, int(recorded.count.sum()), by_name, rng)

    def pair(
        self,
        mean: FloatArray,
        S: FloatArray,
        noise: float,
        candidates: IntArray | None,
        chosen: IntArray,
    ) -> IntArray | None:
        """Return the next pair, not chosen before; None for the most informative one."""
        asked = self.asked + np.bincount(chosen.ravel(), minlength=len(self.asked))
        if self.by_name:
            pair = least_asked(asked, candidates, chosen, self.rng)
            if asked[pair].sum() < 2.0 * OPENING:
                return pair
        if self.every is None or (self.n_answers + len(chosen) + 1) % self.every != 0:
            return None
        if not self.by_name and asked.min() == 0.0:
            return least_asked(asked, candidates, chosen, self.rng)
        check = self._most_certain(mean, S, noise, candidates, chosen)
        return least_asked(asked, candidates, chosen, self.rng) if check is None else check

    def _most_certain(
        self,
        mean: FloatArray,
        S: FloatArray,
        noise: float,
        candidates: IntArray | None,
        chosen: IntArray,
    ) -> IntArray | None:
        """Return the most certain pair without an answer; None if there is none. O(n_items^2)."""
        spread = S.diagonal()
        variance = np.maximum(spread[:, None] + spread - 2.0 * S, 0.0)
        certainty = np.abs(mean[:, None] - mean) / np.sqrt(noise + variance)
        certainty[np.tril_indices(len(mean))] = -1.0
        for pairs in (self.known, chosen):
            certainty[pairs.min(axis=1), pairs.max(axis=1)] = -1.0
        if candidates is None:
            i, j = np.unravel_index(np.argmax(certainty), certainty.shape)
            found, value = np.array([i, j]), certainty[i, j]
        else:
            of_candidates = certainty[candidates.min(axis=1), candidates.max(axis=1)]
            best = int(np.argmax(of_candidates))
            found, value = candidates[best], of_candidates[best]
        return found if value > 0.0 else None


def least_asked(
    asked: FloatArray, candidates: IntArray | None, chosen: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return the pair with the fewest answers to both items, not chosen before.

    Parameters
    ----------
    asked : (n_items,)
        How many answers each item has.
    candidates : (n_candidates, 2) or None
        The pairs to choose from; None for all pairs.
    chosen : (n_chosen, 2)
        Pairs to leave out.
    rng
        Chooses among items with equally few answers.
    """
    order = np.lexsort((rng.random(len(asked)), asked))
    if candidates is None:  # the best pair that is free is among the first few items
        head = order[: 3 + int(np.sqrt(2.0 * len(chosen)))]
        i, j = np.triu_indices(len(head), 1)
        candidates = np.sort(np.stack([head[i], head[j]], axis=1), axis=1)
    place = np.argsort(order)
    total = asked[candidates].sum(axis=1)
    for pair in chosen:
        total[(candidates == pair).all(axis=1)] = np.inf
    fewest = candidates[total == total.min()]
    return fewest[np.argmin(place[fewest].sum(axis=1))]


def _best_candidate(
    mean: FloatArray,
    S: FloatArray,
    candidates: IntArray,
    chosen: IntArray,
    goal: Goal,
    k: int,
    noise: float,
) -> int:
    """Return the most useful candidate that was not chosen before."""
    gain = pair_gains(mean, S, candidates, goal, k, noise)
    for pair in chosen:
        gain[(candidates == pair).all(axis=1)] = -np.inf
    return int(np.argmax(gain))


def pair_gains(
    mean: FloatArray, S: FloatArray, candidates: IntArray, goal: Goal, k: int, noise: float
) -> FloatArray:
    """Return how useful the answer to each candidate pair is; arguments as in `suggest_pairs`."""
    i, j = candidates.T
    difference = mean[i] - mean[j]
    variance = np.maximum(S[i, i] + S[j, j] - 2.0 * S[i, j], 0.0)
    if goal == "best":
        gain = winner_score(mean[j], difference, variance)
    else:
        gain = information_gain(difference, variance, noise)
    if goal == "top":
        doubt = border_doubt(mean, S, k)
        gain = gain * np.maximum(doubt[i], doubt[j])
    return gain


def candidate_items(
    mean: FloatArray, goal: Goal, rng: np.random.Generator, max_items: int = MAX_ITEMS
) -> IntArray:
    """Return all items, or ``max_items`` of them: the best, or a random choice.

    Parameters
    ----------
    mean : (n_items,)
        Mean scores.
    goal : {"order", "best", "top"}
        What the comparisons should find.
    rng
        Draws items if there are too many.
    max_items : int
        Largest number of items.
    """
    n_items = len(mean)
    if n_items <= max_items:
        return np.arange(n_items)
    best = np.argsort(-mean, kind="stable")[:max_items]
    return np.sort(rng.choice(n_items, max_items, replace=False) if goal == "order" else best)


def border_doubt(mean: FloatArray, covariance: FloatArray, k: int) -> FloatArray:
    """Return how doubtful it is that each item is among the best k: 1 for even odds.

    The border is midway between the scores of ranks k and k + 1. Scores are taken relative to their
    mean, about which comparisons say nothing.

    Parameters
    ----------
    mean, covariance : (n_items,), (n_items, n_items)
        Moments of the scores.
    k : int
        Below the number of items.
    """
    front = -np.partition(-mean, [k - 1, k])
    apart = covariance.diagonal() - 2.0 * covariance.mean(axis=1) + covariance.mean()
    inside = ndtr((mean - 0.5 * (front[k - 1] + front[k])) / np.sqrt(np.maximum(apart, 1e-12)))
    return np.asarray(np.sqrt(4.0 * inside * (1.0 - inside)))


def _doubtful_pairs(mean: FloatArray, S: FloatArray, k: int, n_pairs: int) -> IntArray:
    """Return the pairs of the items that are nearest to the border of the best k."""
    n_kept = max(MAX_DOUBTFUL, int(np.sqrt(2.0 * n_pairs)) + 2)
    kept = np.sort(np.argsort(-border_doubt(mean, S, k), kind="stable")[:n_kept])
    i, j = np.triu_indices(len(kept), 1)
    return np.stack([kept[i], kept[j]], axis=1)


def goal_certainty(mean: FloatArray, draws: FloatArray, goal: Goal, k: int) -> float:
    """Return how certain it is that the order of the mean scores reaches a goal.

    Parameters
    ----------
    mean : (n_items,)
        Scores that define the order.
    draws : (n_draws, n_items)
        Draws from the posterior.
    goal : {"order", "best", "top"}
        For "order" the expected share of pairs in the right order; otherwise the probability that
        the best k are the right ones, in any order.
    k : int
        Number of best items, for the goal "top".
    """
    order = np.argsort(-mean, kind="stable")
    ranked = draws[:, order]
    if goal != "order":
        k = 1 if goal == "best" else k
        return float(np.mean(ranked[:, :k].min(axis=1) > ranked[:, k:].max(axis=1)))
    shares = [(ranked[:, [i]] > ranked[:, i + 1 :]).mean(axis=0) for i in range(len(mean) - 1)]
    return float(np.concatenate(shares).mean())


def fisher_information(mean: FloatArray, variance: FloatArray, noise: float = 1.0) -> FloatArray:
    """Return the Fisher information of an answer about the mean of the difference.

    The posterior covariance expected after the answer is S - information * (S a)(S a)', where a'f
    is the difference.
    """
    total = noise + variance
    z = mean / np.sqrt(total)
    return inverse_mills_ratio(z) * inverse_mills_ratio(-z) / total


@final
@dataclass(frozen=True, eq=False, repr=False)
class RankDistribution(Result):
    """Hold the ranks of items in draws from the posterior, 1 for the best.

    Parameters
    ----------
    ranks : (n_draws, n_items)

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankDistribution
    >>> draws = np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [2.0, 3.0, 1.0], [3.0, 2.0, 1.0]])
    >>> distribution = RankDistribution.from_draws(draws)
    >>> distribution.best, distribution.expected
    (array([0.75, 0.25, 0.  ]), array([1.25, 2.  , 2.75]))
    >>> distribution.interval(0.5)
    array([[1, 1],
           [1, 2],
           [2, 3]])
    """

    ranks: IntArray

    @classmethod
    def from_draws(cls, scores: FloatArray) -> Self:
        """Rank the items in each draw of their scores. O(n_draws n_items log n_items)."""
        return cls(freeze(scipy.stats.rankdata(-scores, method="ordinal", axis=1).astype(np.intp)))

    @property
    def expected(self) -> FloatArray:
        """The mean rank of each item."""
        return self.ranks.mean(axis=0)

    @property
    def best(self) -> FloatArray:
        """The probability that each item is the best."""
        return self.top(1)

    def top(self, k: int) -> FloatArray:
        """Return the probability that each item is among the best k."""
        return (self.ranks <= k).mean(axis=0)

    def interval(self, level: float = 0.9) -> IntArray:
        """Return the intervals that hold the ranks with probability ``level``, (n_items, 2)."""
        check_value("level", level, Share)
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        bounds = np.quantile(self.ranks, tails, axis=0, method="inverted_cdf")
        return bounds.T.astype(np.intp)

    @property
    def _order(self) -> IntArray:
        """The items, best expected rank first."""
        return np.argsort(self.expected, kind="stable")

    def _cells(self) -> list[list[str]]:
        low, high = self.interval().T
        rows = [["item", "expected rank", "90 % interval", "P(best)"]]
        for item in self._order[:MOST_SHOWN]:
            ends = f"{low[item]} to {high[item]}"
            rows.append([str(item), f"{self.expected[item]:.1f}", ends, f"{self.best[item]:.0%}"])
        return rows

    @property
    def _size(self) -> str:
        n_draws, n_items = self.ranks.shape
        return f"{n_items} items, {n_draws} draws"

    def __str__(self) -> str:
        return f"{text_table(self._cells())}\n{self._size}"

    def __repr__(self) -> str:
        return f"RankDistribution({self._size})"

    def _caption(self) -> str:
        return self._size

    def to_dict(self) -> dict[str, Any]:
        """Return expected ranks, intervals and probabilities in types that JSON can hold."""
        return {name: values.tolist() for name, values in self._columns().items()}

    def _columns(self) -> dict[str, Any]:
        low, high = self.interval().T
        return {
            "item": np.arange(self.ranks.shape[1]),
            "expected_rank": self.expected,
            "low": low,
            "high": high,
            "best": self.best,
        }

    def _draw(self, ax: Any) -> None:
        """Draw the expected ranks with their intervals, the best items first."""
        shown = self._order[:MOST_SHOWN]
        low, high = self.interval()[shown].T
        place, expected = np.arange(len(shown)), self.expected[shown]
        errors = np.maximum([expected - low, high - expected], 0.0)
        ax.errorbar(expected, place, xerr=errors, fmt="o", capsize=2)
        ax.set_yticks(place, [str(item) for item in shown])
        ax.invert_yaxis()
        ax.set_xlabel("rank, 90 % interval")
        ax.set_ylabel("item")
