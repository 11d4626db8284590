"""Scores from choices among several items: the model of Plackett and Luce."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.choice_table import ChoiceTable
from rankwise.rankers.arena.newton import LocalExpansion, ScoreModel


@final
@dataclass(frozen=True, eq=False)
class ChosenModel(ScoreModel):
    """Let an item be chosen as the best with probability proportional to exp(f), worst to exp(-f).

    Parameters
    ----------
    table : ChoiceTable
    """

    table: ChoiceTable

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.table.n_items

    @property
    def start(self) -> FloatArray:
        """No further parameters."""
        return np.zeros(0)

    @cached_property
    def _starts(self) -> IntArray:
        return np.searchsorted(self.table.choice, np.arange(self.table.n_choices))

    def _log_shares(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log of each entry's probability, and of the choice made."""
        table = self.table
        logit = table.sign[table.choice] * f[table.item]
        top = np.maximum.reduceat(logit, self._starts)
        total = np.add.reduceat(np.exp(logit - top[table.choice]), self._starts)
        norm = top + np.log(total)
        return logit - norm[table.choice], table.sign * f[table.chosen] - norm

    def value(self, f: FloatArray, parameters: FloatArray) -> float:  # noqa: ARG002
        """Return the log-likelihood."""
        return float(self.table.weight @ self._log_shares(f)[1])

    def expand(self, f: FloatArray, parameters: FloatArray) -> LocalExpansion:
        """Return its derivatives: the curvature of a choice is diag(p) - p p'."""
        table, n_items = self.table, self.n_items
        p, weight = np.exp(self._log_shares(f)[0]), table.weight[table.choice]
        pull = table.weight * table.sign
        slope = sum_by(table.chosen, pull, n_items)
        slope -= sum_by(table.item, pull[table.choice] * p, n_items)
        shape = (table.n_choices, n_items)
        P = csr_array((np.sqrt(weight) * p, (table.choice, table.item)), shape=shape)
        off = csr_array(P.T @ P)
        own = off.diagonal()
        off.setdiag(0.0)
        off.eliminate_zeros()
        diagonal = sum_by(table.item, weight * p, n_items) - own
        none = np.zeros((n_items, 0))
        return LocalExpansion(slope, diagonal, off, parameters, none, np.zeros((0, 0)))

    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csr_array:  # noqa: ARG002
        """Return a column for every entry, or for every judge."""
        table, n_items = self.table, self.n_items
        p = np.exp(self._log_shares(f)[0])
        if clustered:
            pull = table.weight * table.sign
            rows = np.concatenate([table.chosen, table.item])
            values = np.concatenate([pull, -pull[table.choice] * p])
            columns = np.concatenate([table.judge, table.judge[table.choice]])
            return csr_array((values, (rows, columns)), shape=(n_items, table.n_judges))
        n_entries = len(p)
        root = np.sqrt(table.weight[table.choice] * p)
        entry = np.arange(n_entries)
        here = csr_array((root, (table.item, entry)), shape=(n_items, n_entries))
        P = csr_array((p, (table.item, table.choice)), shape=(n_items, table.n_choices))
        whole = csr_array((root, (table.choice, entry)), shape=(table.n_choices, n_entries))
        return csr_array(here - P @ whole)
