"""A running session: answers update the ranking at once, a thread learns parameters again."""

import logging
import secrets
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import final

import numpy as np

from rankwise.apps.ask.ranking import (
    AskGoal,
    RaterSummary,
    Standing,
    add_answers,
    choose_question,
    fitted_process,
    rater_summaries,
)
from rankwise.apps.ask.store import Answer, AnswerStore, Question, Rater, Record
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.core.arrays import IntArray
from rankwise.core.checks import seeded
from rankwise.core.errors import InvalidInputError

MAX_RATERS = 1000
MAX_NAME = 60

LOG = logging.getLogger("rankwise.apps.ask")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a refit that failed is tried again: doubled each time, up to the longest."""

LONGEST_REST = 2.0
"""Seconds between two refits, if the first took as long."""


@final
class AskSession:
    """Ask questions of several raters and keep the ranking up to date.

    An answer is committed to the store, then added to the process in O(n_items^2), which suggests
    the next question. A background thread refits the process and its parameters, and then adds the
    answers that arrived in the meantime; the first answers wait for it. A refit that fails, because
    the file is locked or the disk is full, is tried again until it succeeds; `trouble` says so
    until then.
    """

    def __init__(
        self, store: AnswerStore, goal: AskGoal, *, repeats: bool = False, random_state: int = 0
    ) -> None:
        self.store = store
        self.goal = goal
        self.items = store.items()
        self._features = self.items.features
        self._repeats = repeats
        self._again: set[int] = set()
        self._rng = seeded(random_state)
        self._tally = _Tally(len(self.items))
        self._records: list[Record] = []
        self._restart(store.records())
        self._process = fitted_process(self._features, self._records)
        self._standing = Standing.of(self._process, goal, len(self.items))
        self._summaries: dict[int, RaterSummary] = {}
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
        """Commit an answer and add it to the process; return False if it was given before."""
        with self._guard:
            record = self.store.record(rater.id, question, answer)
            if record is None:
                return False
            self._records.append(record)
            self._tally.add(record)
            self._pending.pop(rater.id, None)
            if self._process is not None:
                add_answers(self._process, [record])
        self._changed.set()
        return True

    def undo(self, rater: Rater) -> Question | None:
        """Take back the last answer of a rater and ask the same question again.

        The next refit takes it out of the process.
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

    def ask_again(self, rater: Rater) -> None:
        """Let a rater who was asked everything answer questions once more."""
        with self._guard:
            self._again.add(rater.id)

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
            known, given = self._summaries, dict(self._tally.by_rater)
        return [
            replace(
                known.get(number, RaterSummary("", 0)), name=name, n_answers=given.get(number, 0)
            )
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
        may_repeat = self._repeats or rater.id in self._again
        barred = set() if may_repeat else set(self._tally.asked.get(rater.id, ()))
        others = [q for number, q in self._pending.items() if number != rater.id]
        barred |= {_key(q.left, q.right) for q in others}
        busy = {item for q in others for item in (q.left, q.right)}
        counts = self._tally.by_item
        return choose_question(self._process, self._standing, counts, barred, busy, self._rng)

    def _restart(self, records: list[Record]) -> None:
        """Recount all answers."""
        self._records = records
        self._tally = _Tally(len(self.items))
        for record in records:
            self._tally.add(record)

    def _refit_in_background(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._changed.wait()
            if self._stopping.is_set():
                return
            # a failed refit is repeated after a pause that doubles
            begun = time.monotonic()
            try:
                self._refit()
            except Exception as error:  # of any kind: this thread must live
                is_first = self._trouble is None
                LOG.warning("The ranking could not be updated: %s", error, exc_info=is_first)
                self._trouble = f"The ranking is behind the answers: {error}. Trying again."
                self._changed.set()
                self._stopping.wait(pause)
                pause = min(2.0 * pause, LONGEST_PAUSE)
            else:
                self._trouble, pause = None, FIRST_PAUSE
                # half of the time at least is left to those who answer
                self._stopping.wait(min(time.monotonic() - begun, LONGEST_REST))

    def _refit(self) -> None:
        with self._guard:
            records = list(self._records)
        process = fitted_process(self._features, records)
        standing = Standing.of(process, self.goal, len(self.items))
        summaries = rater_summaries(process, records)
        if process is not None:
            process.suggest()  # what questions need is computed here, while nobody waits
        self._adopt(process, standing, summaries, records)

    def _adopt(
        self,
        process: PreferenceGP | None,
        standing: Standing,
        summaries: dict[int, RaterSummary],
        records: list[Record],
    ) -> None:
        """Replace the process by a refitted one, and add the answers that arrived meanwhile."""
        with self._guard:
            known = {r.question.id for r in records}
            current = {r.question.id for r in self._records}
            if not known <= current:  # an answer was taken back: fit again without it
                return
            new = [r for r in self._records if r.question.id not in known]
            self._process, self._standing, self._summaries = process, standing, summaries
            if process is not None:
                add_answers(process, new)
            if not new:
                self._changed.clear()
        self.store.note_certainty(len(records), standing.certainty)


def _key(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


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
