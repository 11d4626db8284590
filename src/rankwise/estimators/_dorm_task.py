"""A problem that DORM's solver can work on: items, loss, and where the solution is sought."""

from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.estimators._dorm_aims import CostFunction, Decay
from rankwise.estimators._dorm_ground import Base, Ground
from rankwise.estimators._dorm_lesson import Given, Lesson
from rankwise.inference.structured import Solution
from rankwise.inference.structured_losses import RankingLoss
from rankwise.inference.structured_spaces import Space
from rankwise.measures.value import Measure


@final
@dataclass(frozen=True, eq=False)
class Training:
    """What is trained for: the measure, the decay, how many positions are to be diverse."""

    measure: Measure | str | CostFunction
    decay: Decay
    depth: int | None = None


@final
@dataclass(frozen=True, eq=False)
class Task:
    """Queries to learn from, the loss of their rankings, and the functions to choose from."""

    training: Training
    ground: Ground
    lesson: Lesson
    ties: FloatArray
    loss: RankingLoss

    @classmethod
    def of(cls, training: Training, ground: Ground, given: Given) -> Self:
        """Build from what was given."""
        lesson = Lesson.of(training.measure, training.decay, given)
        ties = lesson.ties(ground)
        return cls(training, ground, lesson, ties, lesson.loss(ties, training.depth))

    def without(self, rows: IntArray) -> Self:
        """Leave out some rows of X."""
        weight = self.lesson.given.weight.copy()
        weight[rows] = 0.0
        return type(self).of(self.training, self.ground, replace(self.lesson.given, weight=weight))

    def space(self, base: Base | None = None) -> Space:
        """Return where the solver moves, starting from a base where there is one."""
        return self.ground.space(self.lesson.rows, self.lesson.queries.starts, base)

    def fold(self, solution: Solution) -> FloatArray:
        """Return the weights of the predictor."""
        return self.ground.fold(solution.point, self.lesson.rows)

    def improvement(self, solution: Solution, base: Base | None = None) -> float:
        """Return which share of the objective at the start a solution has taken away."""
        rows = self.lesson.rows
        scores = np.zeros(len(rows)) if base is None else base.scores[rows]
        at_start = solution.C * float(self.loss.weights @ self.loss.slacks(scores))
        return 1.0 - solution.objective / at_start if at_start > 0 else 0.0

    @property
    def natural_c(self) -> float:
        """The C from which on slacks begin to matter more than the norm.

        Below it the solution is C times the sum of the planes at 0, whose direction does not depend
        on C. It is the C at which the dual of this direction is largest, ``sum of losses / |sum of
        planes|^2``, and changes with the scale of the features and the number of queries as the C
        of one and the same ranking function does.
        """
        spread = float(np.abs(self.ties).max(initial=0.0))
        hint = self.ties * (1e-9 / spread) if spread > 0 else self.ties
        beta, losses = self.loss.cuts(hint)
        weights = self.loss.weights
        beta *= self.lesson.queries.spread(weights)
        norm = self.ground.squared_norm(self.lesson.rows, beta)
        return float(weights @ losses) / norm if norm > 0 else 1.0
