"""Judging values of C on queries that were not learned from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.estimators._dorm_lesson import Given
from rankwise.estimators._dorm_task import Task
from rankwise.estimators._dorm_training import PassCallback
from rankwise.inference.structured import Rule, Solution, solve_path
from rankwise.measures.value import Measure
from rankwise.selection.c_path import CPath
from rankwise.selection.folds import Folds


@final
@dataclass(frozen=True, eq=False)
class Run:
    """How to solve: when to stop, what to call after each pass, in which order to visit queries."""

    rule: Rule
    on_pass: PassCallback | None
    rng: np.random.Generator

    def path(self, task: Task, Cs: FloatArray) -> list[Solution]:
        """Solve for every C, rising; Ctrl-C ends it as Ctrl-C does."""
        steps = solve_path(task.space(), task.loss, Cs.tolist(), self.rule, self.on_pass, self.rng)
        solutions = list(steps)
        if solutions[-1].ending == "interrupted":
            raise KeyboardInterrupt
        return solutions


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """The values of all C, and the solutions for all data where they are known already."""

    path: CPath
    solutions: list[Solution]
    n_unfinished: int


class Judge(ABC):
    """Items that decide on C."""

    @abstractmethod
    def judge(self, task: Task, Cs: FloatArray, run: Run, measure: Measure) -> Verdict:
        """Train for every C and measure what was not learned from."""


@final
@dataclass(frozen=True, eq=False)
class ByValidation(Judge):
    """Data of their own."""

    X: Matrix
    y: FloatArray
    queries: Queries

    def judge(self, task: Task, Cs: FloatArray, run: Run, measure: Measure) -> Verdict:
        """Train on all data once."""
        solutions = run.path(task, Cs)
        W = np.stack([task.fold(solution) for solution in solutions], axis=1)
        scores = task.ground.predictor.product(self.X, W).T
        gaps = np.array([solution.gap for solution in solutions])
        rows = np.arange(len(self.y))
        path = CPath.judge(scores, self.y, self.queries, rows, measure, Cs, gaps)
        return Verdict(path, solutions, _unfinished(solutions))


@final
@dataclass(frozen=True, eq=False)
class ByFolds(Judge):
    """Folds of the training data, each left out in turn."""

    folds: Folds
    queries: Queries

    def judge(self, task: Task, Cs: FloatArray, run: Run, measure: Measure) -> Verdict:
        """Train once for each fold."""
        given = task.lesson.given
        scores = np.full((len(Cs), len(given.y)), np.nan)
        gaps, n_unfinished = np.zeros(len(Cs)), 0
        for fold in range(self.folds.n_folds):
            out = np.flatnonzero(self.folds.fold == fold)
            part = task.without(out)
            solutions = run.path(part, Cs)
            points = np.stack([solution.point for solution in solutions])
            scores[:, out] = part.ground.scores(points, part.lesson.rows, out)
            gaps = np.maximum(gaps, [solution.gap for solution in solutions])
            n_unfinished += _unfinished(solutions)
        rows = np.flatnonzero((self.folds.fold >= 0) & (given.weight > 0))
        path = CPath.judge(scores, given.y, self.queries, rows, measure, Cs, gaps)
        return Verdict(path, [], n_unfinished)


def make_folds(cv: Any, X: Matrix, given: Given, rng: np.random.Generator) -> ByFolds:
    """Split queries into folds, or the items of a single query."""
    queries, n_items = given.queries, len(given.y)
    by_item = queries.n_queries == 1
    groups = np.arange(n_items) if by_item else queries.index
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        folds = _random_folds(int(cv), groups, rng)
    else:
        lists = cv
        if callable(getattr(lists, "split", None)):
            lists = lists.split(X, given.y, groups)
        folds = Folds.from_lists(lists, n_items)
        folds.of_components(groups)
    return ByFolds(folds, Queries.from_qid(folds.fold) if by_item else queries)


def _random_folds(n_folds: int, groups: IntArray, rng: np.random.Generator) -> Folds:
    n_groups = int(groups.max()) + 1
    if n_folds < 2:
        raise InvalidInputError(f"`cv` as a number must be at least 2: got {n_folds}.")
    if n_groups < 2:
        raise InvalidInputError("`cv` needs at least 2 queries, or 2 items of one: got 1.")
    n_folds = min(n_folds, n_groups)
    of_group = rng.permutation(np.arange(n_groups) % n_folds)
    return Folds(of_group[groups], n_folds)


def _unfinished(solutions: list[Solution]) -> int:
    return sum(not solution.converged for solution in solutions)
