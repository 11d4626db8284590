"""A running session: answers update beliefs at once; parameters are refitted in the background."""

import logging
import secrets
import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.special import ndtr

from rankwise.apps.ask.beliefs import FEW_ANSWERS, Beliefs, rater_weights
from rankwise.apps.ask.questions import AskGoal, Standing, choose_question
from rankwise.apps.ask.store import Answer, AnswerStore, Question, Rater, Record
from rankwise.core.arrays import IntArray
from rankwise.core.checks import seeded
from rankwise.core.errors import InvalidInputError

MAX_RATERS = 1000
MAX_NAME = 60

LOG = logging.getLogger("rankwise.apps.ask")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a refit that failed is tried again: doubled each time, up to the longest."""


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
        Whether the agreement is more than three standard errors below the expected one, or
        ``weight`` is below one half.
    weight : float
        How much each answer counts in the ranking: the probability that it is given with care.
    """

    name: str
    n_answers: int
    agreement: float | None
    expected: float | None
    is_unusual: bool
    weight: float = 1.0


@final
class AskSession:
    """Ask questions of several raters and keep the ranking up to date.

    An answer is committed to the store, then the beliefs are updated in O(n_items^2) and the next
    question is chosen. A background thread refits the process and its parameters, and then adds the
    answers that arrived in the meantime. A refit that fails, because the file is locked or the disk
    is full, is tried again until it succeeds; `trouble` says so until then.
    """

    def __init__(
        self, store: AnswerStore, goal: AskGoal, *, repeats: bool = False, random_state: int = 0
    ) -> None:
        self.store = store
        self.goal = goal
        self.items = store.items()
        self._features = self.items.features
        self._repeats = repeats
        self._rng = seeded(random_state)
        self._tally = _Tally(len(self.items))
        self._records: list[Record] = []
        self._restart(store.records())
        self._weights: dict[int, float] = rater_weights(self._features, self._records)
        self._beliefs = Beliefs.learned(self._features, self._records, self._weights)
        self._standing = Standing.of(self._beliefs, goal, self._rng)
        self._agreement: dict[int, RaterSummary] = {}
        self._pending: dict[int, Question] = {}
        self._trouble: str | None = None
        self._guard = threading.RLock()
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._worker = threading.Thread(target=self._refit_in_background, name="refit", daemon=True)

    def start(self) -> None:
        """Start refitting in the background."""
        self._worker.start()
        self._changed.set()

    def stop(self) -> None:
        """Wait until the refit includes the last answers, and end its thread."""
        if self._worker.is_alive():
            self.wait_until_refitted(10.0)
        self._stopping.set()
        self._changed.set()
        if self._worker.is_alive():
            self._worker.join(timeout=30.0)

    def close(self) -> None:
        """Stop, and close the file."""
        self.stop()
        self.store.close()

    def join(self, name: str) -> Rater:
        """Add a rater with a name, or an anonymous one."""
        cleaned = " ".join(name.split())[:MAX_NAME] or "anonymous"
        try:
            cleaned.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"A name must be text that can be stored: {error}.") from error
        if len(self.store.raters()) >= MAX_RATERS:
            raise InvalidInputError(f"There are at most {MAX_RATERS} raters: no more can join.")
        return self.store.add_rater(cleaned, secrets.token_urlsafe(16))

    def question(self, rater: Rater) -> Question | None:
        """Return the open question of a rater, or the next one; None when all were asked."""
        with self._guard:
            # a question that was shown and not answered is shown again
            unanswered = self.store.open_question(rater.id)
            if unanswered is not None:
                self._pending[rater.id] = unanswered
                return unanswered
            # the next pair, the sides drawn at random
            pair = self._choose(rater)
            if pair is None:
                self._pending.pop(rater.id, None)
                return None
            left, right = pair if self._rng.random() < 0.5 else pair[::-1]
            asked = self.store.ask(rater.id, left, right)
            self._pending[rater.id] = asked
            return asked

    def answer(self, rater: Rater, question: int, answer: Answer) -> bool:
        """Commit an answer and update the beliefs; return False if it was given before."""
        with self._guard:
            record = self.store.record(rater.id, question, answer)
            if record is None:
                return False
            self._records.append(record)
            self._tally.add(record)
            self._pending.pop(rater.id, None)
            self._beliefs = self._beliefs.after(self._trusted([record]))
        self._changed.set()
        return True

    def undo(self, rater: Rater) -> Question | None:
        """Take back the last answer of a rater and ask the same question again.

        The next refit removes it from the beliefs.
        """
        with self._guard:
            record = self.store.undo(rater.id)
            if record is None:
                return None
            self._restart(self.store.records())
            asked = self.store.ask(rater.id, record.question.left, record.question.right)
            self._pending[rater.id] = asked
        self._changed.set()
        return asked

    def standing(self) -> Standing:
        """Return the state of the ranking as of the last refit."""
        with self._guard:
            return self._standing

    @property
    def records(self) -> list[Record]:
        """The answers that count."""
        with self._guard:
            return list(self._records)

    def raters(self) -> list[RaterSummary]:
        """Return how many answers each rater gave, and how well they agreed at the last refit."""
        names = self.store.raters()
        with self._guard:
            known, given = self._agreement, dict(self._tally.by_rater)
        unknown = RaterSummary("", 0, None, None, is_unusual=False)
        return [
            replace(known.get(number, unknown), name=name, n_answers=given.get(number, 0))
            for number, name in names.items()
        ]

    @property
    def trouble(self) -> str | None:
        """Why the ranking is behind the answers, while it is; None otherwise."""
        return self._trouble

    def wait_until_refitted(self, timeout: float = 60.0) -> bool:
        """Wait until the thread has caught up with all answers."""
        limit = threading.Event()
        for _ in range(int(timeout / 0.01)):
            if not self._changed.is_set():
                return True
            limit.wait(0.01)
        return False

    def _choose(self, rater: Rater) -> tuple[int, int] | None:
        barred = set() if self._repeats else set(self._tally.asked.get(rater.id, ()))
        others = [q for number, q in self._pending.items() if number != rater.id]
        barred |= {_key(q.left, q.right) for q in others}
        busy = {item for q in others for item in (q.left, q.right)}
        counts = self._tally.by_item
        return choose_question(self._beliefs, self.goal, counts, barred, busy, self._rng)

    def _restart(self, records: list[Record]) -> None:
        """Recount all answers."""
        self._records = records
        self._tally = _Tally(len(self.items))
        for record in records:
            self._tally.add(record)

    def _refit_in_background(self) -> None:
        rng, pause = np.random.default_rng(1), FIRST_PAUSE
        while True:
            self._changed.wait()
            if self._stopping.is_set():
                return
            # a failed refit is repeated after a pause that doubles
            try:
                self._refit(rng)
            except Exception as error:  # of any kind: this thread must live
                is_first = self._trouble is None
                LOG.warning("The ranking could not be updated: %s", error, exc_info=is_first)
                self._trouble = f"The ranking is behind the answers: {error}. Trying again."
                self._changed.set()
                self._stopping.wait(pause)
                pause = min(2.0 * pause, LONGEST_PAUSE)
            else:
                self._trouble, pause = None, FIRST_PAUSE

    def _refit(self, rng: np.random.Generator) -> None:
        with self._guard:
            records = list(self._records)
        weights = rater_weights(self._features, records)
        beliefs = Beliefs.learned(self._features, records, weights)
        standing = Standing.of(beliefs, self.goal, rng)
        self._adopt(beliefs, standing, records, weights)

    def _trusted(self, records: list[Record]) -> list[Record]:
        """Return the answers of raters who are not considered careless."""
        return [r for r in records if self._weights.get(r.question.rater, 1.0) >= 0.5]

    def _adopt(
        self,
        beliefs: Beliefs,
        standing: Standing,
        records: list[Record],
        weights: dict[int, float],
    ) -> None:
        """Replace the beliefs by refitted ones, and add the answers that arrived meanwhile."""
        with self._guard:
            known = {r.question.id for r in records}
            current = {r.question.id for r in self._records}
            if not known <= current:  # an answer was taken back: fit again without it
                return
            # answers since the refit began are added to its beliefs
            new = [r for r in self._records if r.question.id not in known]
            self._weights = weights
            self._beliefs = beliefs.after(self._trusted(new))
            self._standing = standing
            self._agreement = _agreement(records, beliefs, weights)
            if not new:
                self._changed.clear()
        self.store.note_certainty(len(records), standing.certainty)


def _key(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _agreement(
    records: list[Record], beliefs: Beliefs, weights: dict[int, float]
) -> dict[int, RaterSummary]:
    """Compare the decided answers of each rater with the ranking."""
    decided: dict[int, list[tuple[int, int]]] = {}
    for record in records:
        if record.answer in ("left", "right"):
            decided.setdefault(record.question.rater, []).append(record.winner_first)
    return {
        rater: _summary(np.array(pairs), beliefs, weights.get(rater, 1.0))
        for rater, pairs in decided.items()
        if len(pairs) >= FEW_ANSWERS
    }


def _summary(pairs: IntArray, beliefs: Beliefs, weight: float) -> RaterSummary:
    mean, variance = beliefs.differences(pairs)
    # observed and expected agreement; three standard errors below are unusual
    agreement = float((mean > 0).mean())
    probabilities: Any = ndtr(np.abs(mean) / np.sqrt(beliefs.noise + variance))
    expected = float(probabilities.mean())
    error = float(np.sqrt((probabilities * (1.0 - probabilities)).sum())) / len(pairs)
    unusual = agreement < expected - 3.0 * max(error, 1e-9) or weight < 0.5
    return RaterSummary("", len(pairs), agreement, expected, is_unusual=unusual, weight=weight)


@final
class _Tally:
    """Count answers by item and by rater, and what each rater was asked."""

    def __init__(self, n_items: int) -> None:
        self.by_item: IntArray = np.zeros(n_items, dtype=np.intp)
        self.by_rater: Counter[int] = Counter()
        self.asked: dict[int, set[tuple[int, int]]] = {}

    def add(self, record: Record) -> None:
        """Count one more answer."""
        q = record.question
        self.by_rater[q.rater] += 1
        self.asked.setdefault(q.rater, set()).add(_key(q.left, q.right))
        if record.answer != "skip":
            self.by_item[[q.left, q.right]] += 1
