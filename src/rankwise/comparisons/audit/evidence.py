"""What the audit looks at: the comparisons, the leaderboard, and what it expects of each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from rankwise.comparisons.leaderboard import Leaderboard, win_and_loss
from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.comparisons.comparison_table import ComparisonTable, Labels


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """Hold comparisons with the leaderboard made from them.

    Parameters
    ----------
    table : ComparisonTable
    board : Leaderboard
    rate : callable
        Makes the leaderboard of other comparisons in the same way.
    level : float
        Probability of intervals.
    rng : Generator
    """

    table: ComparisonTable
    board: Leaderboard
    rate: Callable[..., Leaderboard]
    level: float
    rng: np.random.Generator

    @cached_property
    def place(self) -> IntArray:
        """The position on the leaderboard of each item of the table."""
        at = {name: place for place, name in enumerate(self.board.names.tolist())}
        return np.array([at[name] for name in self.table.names.tolist()], dtype=np.intp)

    @cached_property
    def probabilities(self) -> FloatArray:
        """The probabilities that the first item of each row wins, ties and loses."""
        table, board = self.table, self.board
        score = board.score[self.place]
        lead = score[table.first] - score[table.second]
        effects = {one.name: one.value for one in board.effects}
        for name, values in zip(table.covariate_names, table.covariates.T, strict=True):
            lead = lead + effects.get(name, 0.0) * values
        win, loss = win_and_loss(lead, np.zeros(1), board.width, board.link, board.ties)
        return np.column_stack([win, 1.0 - win - loss, loss])

    @cached_property
    def residual(self) -> FloatArray:
        """What each row says for its first item beyond what was expected, times its weight."""
        p = self.probabilities
        return self.table.weight * (self.table.outcome - (p[:, 0] - p[:, 2]))

    @cached_property
    def variance(self) -> FloatArray:
        """The variance of each residual."""
        p = self.probabilities
        return self.table.weight * (p[:, 0] + p[:, 2] - (p[:, 0] - p[:, 2]) ** 2)

    @cached_property
    def sensitivity(self) -> FloatArray:
        """By how much each residual grows with the lead of the first item."""
        win, loss = self.probabilities[:, 0], self.probabilities[:, 2]
        if self.board.ties == "odds":
            return 0.5 * self.variance
        return self.table.weight * (win * (1.0 - win) + loss * (1.0 - loss))

    @property
    def has_order(self) -> bool:
        """Whether the rows say who was shown first: not if all first items won."""
        outcome = self.table.outcome
        return bool((outcome > 0).any() and (outcome < 0).any())

    @cached_property
    def _swapped(self) -> IntArray:
        return (self.table.first > self.table.second).astype(np.intp)

    def cells(self, *labels: Labels | None) -> tuple[IntArray, int]:
        """Return the number of each row's cell: the pair of items and the given labels."""
        table, n_items = self.table, self.table.n_items
        low, high = np.minimum(table.first, table.second), np.maximum(table.first, table.second)
        code = low * n_items + high
        for one in labels:
            if one is not None:
                code = np.unique(code, return_inverse=True)[1] * one.n_names + one.index
        known, cell = np.unique(code, return_inverse=True)
        return cell, len(known)

    @cached_property
    def answer(self) -> IntArray:
        """What each row says about its pair, the smaller number first: 0 lost, 1 tied, 2 won."""
        return 1 + self.table.outcome * (1 - 2 * self._swapped)

    @property
    def is_swapped(self) -> IntArray:
        """Whether the item of the larger number was shown first."""
        return self._swapped


def one_step_effect(
    seen: Evidence, group: IntArray, n_groups: int, sign: FloatArray | float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return what is added to the leads of each group of rows, and its standard deviation.

    One Newton step from no effect; ``sign`` says in whose favour the effect is in each row.
    """
    residual = sum_by(group, sign * seen.residual, n_groups)
    variance = sum_by(group, sign**2 * seen.variance, n_groups)
    sensitivity = np.maximum(sum_by(group, sign**2 * seen.sensitivity, n_groups), 1e-12)
    return residual / sensitivity, np.sqrt(np.maximum(variance, 1e-12)) / sensitivity
