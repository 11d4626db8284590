"""Which question to ask next, and how sure the answers have made the ranking."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy.special import ndtr

from rankwise.apps.ask.beliefs import Beliefs
from rankwise.comparisons.gp.questions import Goal, RankDistribution, goal_certainty, pair_gains
from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError

MAX_CANDIDATES = 20_000
"""Largest number of pairs that are considered for the next question."""

BALANCE = 0.02
"""Bits subtracted from a pair for every answer that its items have above the average."""

N_DRAWS = 2000


@final
@dataclass(frozen=True)
class AskGoal:
    """What the questions should find: the whole order, or the best k items.

    Parameters
    ----------
    k : int or None
        The number of best items to find; None for the whole order.
    confidence : float
        The certainty at which the goal counts as reached: the probability that the best k are
        right, or the expected share of pairs in the right order.
    """

    k: int | None = None
    confidence: float = 0.9

    @classmethod
    def of(cls, goal: str, n_items: int, confidence: float) -> Self:
        """Read "order", "best" or "top K"."""
        if not 0.5 < confidence < 1.0:
            raise InvalidInputError(f"The confidence must lie between 0.5 and 1: got {confidence}.")
        words = goal.split()
        if goal == "order":
            return cls(None, confidence)
        if goal == "best":
            return cls(1, confidence)
        if len(words) == 2 and words[0] == "top" and words[1].isdigit():
            k = int(words[1])
            if 1 <= k < n_items:
                return cls(k, confidence)
        raise InvalidInputError(
            f"The goal must be 'order', 'best' or 'top K' with K below {n_items}: got {goal!r}."
        )

    @property
    def aim(self) -> Goal:
        """The goal as the process names it; the best one is the best k of one."""
        return "order" if self.k is None else "top"

    def __str__(self) -> str:
        if self.k is None:
            return "the whole order"
        return "the best one" if self.k == 1 else f"the best {self.k}"


@final
@dataclass(frozen=True, eq=False)
class Standing:
    """Hold the current state of the ranking.

    Parameters
    ----------
    order : (n_items,)
        The items, best first.
    interval : (n_items, 2)
        The interval that holds the rank of each item with 90 % probability.
    best : (n_items,)
        The probability that each item is the best.
    certainty : float
        How sure it is that the goal is reached, as defined by `AskGoal`.
    goal : AskGoal
        The goal.
    """

    order: IntArray
    interval: IntArray
    best: FloatArray
    certainty: float
    goal: AskGoal

    @classmethod
    def of(cls, beliefs: Beliefs, goal: AskGoal, rng: np.random.Generator) -> Self:
        """Draw rankings from the beliefs and count."""
        draws = beliefs.draws(N_DRAWS, rng)
        ranks = RankDistribution.from_draws(draws)
        order = np.argsort(-beliefs.mean, kind="stable")
        if goal.k is None:
            certainty = expected_concordance(beliefs)
        else:
            certainty = goal_certainty(beliefs.mean, draws, goal.aim, goal.k)
        return cls(order, ranks.interval(0.9), ranks.best, certainty, goal)

    @property
    def is_goal_reached(self) -> bool:
        """Whether the goal is reached."""
        return self.certainty >= self.goal.confidence

    def __str__(self) -> str:
        share = f"{100 * self.certainty:.0f} %"
        if self.goal.k is None:
            return f"{share} of all pairs are expected to be in the right order"
        what = "The best one is" if self.goal.k == 1 else f"The best {self.goal.k} are"
        return f"{what} right with a probability of {share}"


def expected_concordance(beliefs: Beliefs) -> float:
    """Return the expected share of pairs that the mean scores put in the right order."""
    pairs = np.stack(np.triu_indices(beliefs.n_items, 1), axis=1)
    mean, variance = beliefs.differences(pairs)
    return float(ndtr(np.abs(mean) / np.sqrt(np.maximum(variance, 1e-12))).mean())


def choose_question(
    beliefs: Beliefs,
    goal: AskGoal,
    n_answers: IntArray,
    barred: Collection[tuple[int, int]],
    busy: Collection[int],
    rng: np.random.Generator,
) -> tuple[int, int] | None:
    """Return the pair whose answer is worth most; None if every pair is barred.

    The worth of an answer is its expected information about the scores, in bits. If the goal is the
    best k, it is multiplied by the probability that the pair straddles the border. A small amount
    is subtracted for items that were asked about more often than others, so that none is forgotten.

    Parameters
    ----------
    beliefs : Beliefs
        The current beliefs about the scores.
    goal : AskGoal
        What the questions should find.
    n_answers : (n_items,)
        How many answers each item has.
    barred : pairs of items, the smaller first
        Pairs that this rater must not be asked about (again).
    busy : items
        Items that others are being asked about right now; avoided if possible.
    rng
        Breaks ties, and draws candidates if there are many pairs.
    """
    # pairs that the rater may be asked about
    pairs = _candidates(beliefs, n_answers, rng)
    is_allowed = ~_are_among(pairs, barred, beliefs.n_items)
    if not is_allowed.any():
        pairs = np.stack(np.triu_indices(beliefs.n_items, 1), axis=1)
        is_allowed = ~_are_among(pairs, barred, beliefs.n_items)
    pairs = pairs[is_allowed]
    if len(pairs) == 0:
        return None
    # prefer items that nobody else is being asked about
    is_idle = ~np.isin(pairs, list(busy)).any(axis=1)
    pairs = pairs[is_idle] if is_idle.any() else pairs
    # the most informative pair, with a penalty for items asked about often
    worth = pair_gains(
        beliefs.mean, beliefs.covariance, pairs, goal.aim, goal.k or 1, beliefs.noise
    )
    worth -= BALANCE * _excess_answers(n_answers, pairs)
    worth += 1e-6 * rng.random(len(pairs))
    first, second = pairs[int(np.argmax(worth))].tolist()
    return first, second


def _excess_answers(n_answers: IntArray, pairs: IntArray) -> FloatArray:
    return (n_answers[pairs].sum(axis=1) - 2.0 * n_answers.mean()).astype(float)


def _candidates(beliefs: Beliefs, n_answers: IntArray, rng: np.random.Generator) -> IntArray:
    """Return all pairs; for many items, pairs of close ranks and some random ones."""
    n_items = beliefs.n_items
    if n_items * (n_items - 1) // 2 <= MAX_CANDIDATES:
        return np.stack(np.triu_indices(n_items, 1), axis=1)
    # neighbours in the ranking, random pairs, and pairs of seldom asked items
    order = np.lexsort((rng.random(n_items), -beliefs.mean))
    max_distance = max(1, MAX_CANDIDATES // (2 * n_items))
    neighbours = [np.stack([order[:-d], order[d:]], axis=1) for d in range(1, max_distance + 1)]
    drawn = rng.integers(n_items, size=(MAX_CANDIDATES // 2, 2))
    pairs = np.concatenate([*neighbours, drawn[drawn[:, 0] != drawn[:, 1]]])
    least = np.argsort(n_answers, kind="stable")[: min(n_items, 200)]
    rare = np.stack([np.repeat(least, 5), rng.integers(n_items, size=5 * len(least))], axis=1)
    return np.sort(np.concatenate([pairs, rare[rare[:, 0] != rare[:, 1]]]), axis=1)


def _are_among(pairs: IntArray, barred: Collection[tuple[int, int]], n_items: int) -> BoolArray:
    if not barred:
        return np.zeros(len(pairs), dtype=bool)
    known = np.array([a * n_items + b for a, b in barred])
    return np.isin(pairs[:, 0] * n_items + pairs[:, 1], known)
