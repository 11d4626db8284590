"""The ranking of a session: a preference process, what it says, and which question comes next."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import comb
from typing import Any, Self, final

import numpy as np

from rankwise.apps.ask.store import Record
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.comparisons.gp.questions import least_asked
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError

FEW_ANSWERS = 10
"""A rater with fewer decided answers is not judged."""

LEAST_RATERS = 3
"""Smallest number of judged raters for which it is learned how reliable each is."""

MAX_ITEMS = 200
"""Items among whose pairs the next question is chosen."""

NO_PAIRS: IntArray = np.zeros((0, 2), dtype=np.intp)


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
    def of(cls, goal: str, n_items: int, confidence: float | str) -> Self:
        """Read "order", "best" or "top K", and a share."""
        with suppress(ValueError):
            confidence = float(confidence)
        if isinstance(confidence, str) or not 0.5 < confidence < 1.0:
            raise InvalidInputError(f"The confidence must lie between 0.5 and 1: got {confidence}.")
        if goal == "order":
            return cls(None, confidence)
        found = re.fullmatch(r"top (\d{1,9})", "top 1" if goal == "best" else goal)
        if found is not None and 1 <= int(found[1]) < n_items:
            return cls(int(found[1]), confidence)
        raise InvalidInputError(
            f"The goal must be 'order', 'best' or 'top K' with K below {n_items}: got {goal!r}."
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The goal as the methods of a process take it."""
        return {"goal": "order"} if self.k is None else {"goal": "top", "k": self.k}

    def __str__(self) -> str:
        if self.k is None:
            return "the whole order"
        return "the best one" if self.k == 1 else f"the best {self.k}"


def fitted_process(X: FloatArray, records: Sequence[Record]) -> PreferenceGP | None:
    """Fit a preference process and its parameters to all answers; None if there are none.

    Once three raters have given enough answers, how reliable each rater is, is learned as well. If
    only two disagree, either may be right; unless most raters follow one ranking, all count the
    same.

    Parameters
    ----------
    X : (n_items, n_features)
        Features of the items; without any, items are known by name alone.
    records : sequence of Record
    """
    if all(record.answer == "skip" for record in records):
        return None
    if len(_judged_raters(records)) < LEAST_RATERS:
        return _fit(X, records, by_rater=False)
    process = _fit(X, records, by_rater=True)
    # who agrees with the ranking by two standard errors more than chance follows it
    report = process.judges_
    assert report is not None
    n_decided = report.n_answers * (1.0 - report.tie_rate)
    is_judged = n_decided >= FEW_ANSWERS - 0.5
    follows = report.agreement > 0.5 + 1.0 / np.sqrt(np.maximum(n_decided, 1.0))
    return process if follows[is_judged].mean() > 0.5 else _fit(X, records, by_rater=False)


def _fit(X: FloatArray, records: Sequence[Record], *, by_rater: bool) -> PreferenceGP:
    has_features = X.shape[1] > 0
    rows = X if has_features else np.eye(len(X))
    process = PreferenceGP(None if has_features else "linear", random_state=0)
    return process.fit(rows, **_arguments(records, by_rater=by_rater))


def add_answers(process: PreferenceGP, records: Sequence[Record]) -> None:
    """Add more answers to a process, keeping its parameters. O(n_items^2) each."""
    if any(record.answer != "skip" for record in records):
        by_rater = process.judge_names_ is not None
        process.update(**_arguments(records, by_rater=by_rater))


def _arguments(records: Sequence[Record], *, by_rater: bool) -> dict[str, Any]:
    """Return answers as `PreferenceGP.fit` and `update` take them."""
    decided = [r for r in records if r.answer in ("left", "right")]
    tied = [r for r in records if r.answer == "tie"]
    found: dict[str, Any] = {"pairs": [r.winner_first for r in decided] or NO_PAIRS}
    if tied:
        found["tied"] = [r.winner_first for r in tied]
    if by_rater:
        found["judge"] = [r.question.rater for r in decided]
        found["tied_judge"] = [r.question.rater for r in tied]
    return found


def _judged_raters(records: Sequence[Record]) -> dict[int, list[tuple[int, int]]]:
    """Return the decided answers of every rater with enough of them, the preferred item first."""
    decided: dict[int, list[tuple[int, int]]] = {}
    for record in records:
        if record.answer in ("left", "right"):
            decided.setdefault(record.question.rater, []).append(record.winner_first)
    return {rater: pairs for rater, pairs in decided.items() if len(pairs) >= FEW_ANSWERS}


def care_of_raters(process: PreferenceGP, records: Sequence[Record]) -> dict[int, float]:
    """Return the probability that each judged rater answers with care, if it was learned."""
    report = process.judges_
    if report is None:
        return {}
    care = dict(zip(report.names.tolist(), (1.0 - report.careless).tolist(), strict=True))
    return {rater: care[rater] for rater in _judged_raters(records) if rater in care}


@final
@dataclass(frozen=True)
class RaterSummary:
    """Hold how much a rater has answered, and how well the answers agree with the ranking.

    Parameters
    ----------
    name : str
    n_answers : int
        Answers that count, ties and skips included.
    agreement : float or None
        Share of decided answers that agree with the ranking; None for few answers.
    expected : float or None
        The share that a typical rater would reach on the same questions.
    is_unusual : bool
        Whether the agreement is more than three standard errors below the expected one, or ``care``
        is below one half.
    care : float or None
        Probability that the answers are given with care; None for few answers or raters.
    """

    name: str
    n_answers: int
    agreement: float | None = None
    expected: float | None = None
    is_unusual: bool = False
    care: float | None = None


def rater_summaries(
    process: PreferenceGP | None, records: Sequence[Record]
) -> dict[int, RaterSummary]:
    """Compare the decided answers of each rater with the ranking."""
    if process is None:
        return {}
    care = care_of_raters(process, records)
    found = {}
    for rater, pairs in _judged_raters(records).items():
        # observed and expected agreement; three standard errors below are unusual
        winner, loser = np.transpose(pairs)
        p = process.predict_pair(winner, loser)
        p = p[:, 0] / (p[:, 0] + p[:, 2]) if p.ndim == 2 else p
        likely = np.maximum(p, 1.0 - p)
        agreement, expected = float((p > 0.5).mean()), float(likely.mean())
        error = float(np.sqrt((p * (1.0 - p)).sum())) / len(p)
        is_unusual = agreement < expected - 3.0 * error or care.get(rater, 1.0) < 0.5
        found[rater] = RaterSummary(
            "", len(p), agreement, expected, is_unusual=is_unusual, care=care.get(rater)
        )
    return found


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
    def of(cls, process: PreferenceGP | None, goal: AskGoal, n_items: int) -> Self:
        """Return what a process says; without one, all orders are equally likely."""
        if process is None:
            certainty = 0.5 if goal.k is None else 1.0 / comb(n_items, goal.k)
            interval = np.tile([1, n_items], (n_items, 1))
            share = np.full(n_items, 1.0 / n_items)
            return cls(np.arange(n_items), interval, share, certainty, goal)
        board = process.leaderboard(level=0.9, random_state=0)
        order = board.names.astype(np.intp)
        place = np.argsort(order)
        interval = np.stack([board.rank_low, board.rank_high], axis=1)[place]
        certainty = process.certainty(**goal.arguments)
        return cls(order, interval, board.best[place], certainty, goal)

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


def choose_question(
    process: PreferenceGP | None,
    standing: Standing,
    n_answers: IntArray,
    barred: Collection[tuple[int, int]],
    busy: Collection[int],
    rng: np.random.Generator,
) -> tuple[int, int] | None:
    """Return the pair whose answer is worth most; None if every pair is barred.

    Before any answer it is a random pair; then the process suggests one.

    Parameters
    ----------
    process : PreferenceGP or None
        Fitted to the answers so far; None if there are none.
    standing : Standing
        The ranking so far, and the goal.
    n_answers : (n_items,)
        How many answers each item has.
    barred : pairs of items, the smaller first
        Pairs that this rater must not be asked about (again).
    busy : items
        Items that others are being asked about right now; avoided if possible.
    rng
        Draws the first question, and candidates if there are many pairs.
    """
    n_items = len(n_answers)
    everything = np.arange(n_items)
    idle = np.setdiff1d(everything, list(busy))
    # pairs of idle items; of all; at last every pair there is
    choices = (_candidates(standing, idle, rng), _candidates(standing, everything, rng), everything)
    allowed = (_pairs_among(items, barred, n_items) for items in choices)
    pairs = next((pairs for pairs in allowed if len(pairs) > 0), None)
    if pairs is None:
        return None
    if process is None:
        pair = least_asked(n_answers.astype(float), pairs, NO_PAIRS, rng)
    else:
        pair = process.suggest(candidates=pairs, balance=None, **standing.goal.arguments)[0]
    return int(pair[0]), int(pair[1])


def _candidates(standing: Standing, items: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the items; of many, the best where they are sought and a random choice."""
    order = standing.order[np.isin(standing.order, items)]
    if len(order) <= MAX_ITEMS:
        return np.sort(order)
    n_best = 0 if standing.goal.k is None else max(MAX_ITEMS // 2, 2 * standing.goal.k)
    others = rng.permutation(order[n_best:])[: max(MAX_ITEMS - n_best, MAX_ITEMS // 2)]
    return np.sort(np.append(order[:n_best], others))


def _pairs_among(items: IntArray, barred: Collection[tuple[int, int]], n_items: int) -> IntArray:
    """Return all pairs of some items, the smaller first, that are not barred."""
    i, j = np.triu_indices(len(items), 1)
    pairs = np.stack([items[i], items[j]], axis=1)
    if not barred:
        return pairs
    known = [a * n_items + b for a, b in barred]
    return pairs[~np.isin(pairs[:, 0] * n_items + pairs[:, 1], known)]
