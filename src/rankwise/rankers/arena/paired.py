"""Scores from comparisons of two items, aggregated: ties, covariates, judges of given habits."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import pi
from typing import Self, final

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, log_expit

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.rankers.arena.newton import LocalExpansion, ScoreModel

MAX_CODES = 4_000_000
"""Number of possible cells up to which they are counted without sorting."""


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """Hold comparisons with equal items, judge and covariates once, with the number of each answer.

    Parameters
    ----------
    n_items : int
    first, second : (n_cells,)
        The items, the smaller number first.
    won, lost, tied : (n_cells,)
        How often the first item won, the second one did, and neither.
    covariates : (n_cells, n_covariates)
        What speaks for the first item.
    judge : (n_cells,) or None
    n_judges : int
    """

    n_items: int
    first: IntArray
    second: IntArray
    won: FloatArray
    lost: FloatArray
    tied: FloatArray
    covariates: FloatArray
    judge: IntArray | None = None
    n_judges: int = 0

    @classmethod
    def of(cls, table: ComparisonTable, covariates: FloatArray, *, by_judge: bool = False) -> Self:
        """Aggregate a table. Linear in its rows for few items, one sort otherwise."""
        swap = table.first > table.second
        low = np.where(swap, table.second, table.first)
        high = np.where(swap, table.first, table.second)
        outcome = np.where(swap, -table.outcome, table.outcome)
        code, n_codes = low * table.n_items + high, table.n_items**2
        judge, n_judges = None, 0
        if by_judge and table.judge is not None:
            judge, n_judges = table.judge.index, table.judge.n_names
            code, n_codes = code * n_judges + judge, n_codes * n_judges
        signed = np.where(swap[:, None], -covariates, covariates)
        for column in signed.T:
            values, place = np.unique(column, return_inverse=True)
            code, n_codes = _numbered(code, n_codes)
            code, n_codes = code * len(values) + place, n_codes * len(values)
        cell, at = _cells(code, n_codes)
        won, lost, tied = (
            sum_by(cell, table.weight * (outcome == one), len(at)) for one in (1, -1, 0)
        )
        return cls(
            table.n_items,
            low[at],
            high[at],
            won,
            lost,
            tied,
            signed[at],
            None if judge is None else judge[at],
            n_judges,
        )

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.first)

    @cached_property
    def has_ties(self) -> bool:
        """Whether there are ties."""
        return bool(self.tied.any())

    @cached_property
    def adjacency(self) -> tuple[csr_array, IntArray]:
        """The symmetric matrix of items, and for each of its entries the cell it comes from."""
        rows = np.concatenate([self.first, self.second])
        columns = np.concatenate([self.second, self.first])
        order = np.argsort(rows, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(rows, minlength=self.n_items)))
        matrix = csr_array(
            (np.ones(len(rows)), columns[order], starts), shape=(self.n_items, self.n_items)
        )
        return matrix, order % self.n_cells

    def weighted(self, weight: FloatArray) -> csr_array:
        """Return the symmetric matrix with the sums of weights of cells as its entries."""
        pattern, cell = self.adjacency
        return csr_array((weight[cell], pattern.indices, pattern.indptr), shape=pattern.shape)

    def scatter(self, values: FloatArray) -> FloatArray:
        """Add values to first items and subtract them from second ones."""
        plus = sum_by(self.first, values, self.n_items)
        return plus - sum_by(self.second, values, self.n_items)

    def degrees(self, weight: FloatArray) -> FloatArray:
        """Return the sum of the weights at each item."""
        return sum_by(self.first, weight, self.n_items) + sum_by(self.second, weight, self.n_items)


def _numbered(code: IntArray, n_codes: int) -> tuple[IntArray, int]:
    """Make codes small again before more is multiplied onto them."""
    if n_codes < 2**40:
        return code, n_codes
    values, place = np.unique(code, return_inverse=True)
    return place, len(values)


def _cells(code: IntArray, n_codes: int) -> tuple[IntArray, IntArray]:
    """Return the cell of every row, and a row of every cell."""
    if n_codes > MAX_CODES:
        _, at, cell = np.unique(code, return_index=True, return_inverse=True)
        return cell, at
    row = np.full(n_codes, -1, dtype=np.intp)
    row[code] = np.arange(len(code))
    present = np.flatnonzero(row >= 0)
    place = np.empty(n_codes, dtype=np.intp)
    place[present] = np.arange(len(present))
    return place[code], row[present]


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """Hold the derivatives of the log-likelihood of all cells in the lead s and the width.

    The first item wins with probability p = sigma(s - width), the second with
    q = sigma(-s - width), and the rest are ties (Rao and Kupper, 1967); a width of 0 is the model
    of Bradley and Terry. The log-likelihood is concave in s and width together.

    Parameters
    ----------
    slope, curvature : (n_cells,)
        Derivative in s, and minus the second derivative.
    by_width, width_curvature, mixed : (n_cells,)
        Derivative in the width, minus the second derivative, and minus the mixed one.
    """

    slope: FloatArray
    curvature: FloatArray
    by_width: FloatArray
    width_curvature: FloatArray
    mixed: FloatArray

    @classmethod
    def at(cls, cells: Cells, s: FloatArray, width: FloatArray | float) -> Self:
        """Evaluate all cells."""
        won, lost, tied = cells.won, cells.lost, cells.tied
        if not cells.has_ties:  # Bradley and Terry: no width, and q = 1 - p
            p, none = expit(s), np.zeros(1)
            slope, total = won - (won + lost) * p, won + lost
            return cls(slope, total * p * (1.0 - p), none, none, none)
        p, q = expit(s - width), expit(-s - width)
        up, down = (won + tied) * p * (1.0 - p), (lost + tied) * q * (1.0 - q)
        double = 2.0 * np.asarray(width)
        by_width = -won * (1.0 - p) - lost * (1.0 - q) + tied * (p + q + 2.0 / np.expm1(double))
        width_curvature = up + down + tied / np.sinh(0.5 * double) ** 2
        slope = won * (1.0 - p) - lost * (1.0 - q) + tied * (q - p)
        return cls(slope, up + down, by_width, width_curvature, down - up)


def log_likelihoods(cells: Cells, s: FloatArray, width: FloatArray | float) -> FloatArray:
    """Return the log-likelihood of every cell at leads s."""
    if not cells.has_ties:
        log_q = log_expit(-s)
        return cells.won * (log_q + s) + cells.lost * log_q
    log_p, log_q = log_expit(s - width), log_expit(-s - width)
    double = 2.0 * np.asarray(width)
    of_ties = log_p + log_q + double + np.log(-np.expm1(-double))
    return cells.won * log_p + cells.lost * log_q + cells.tied * of_ties


@final
@dataclass(frozen=True, eq=False)
class PairedModel(ScoreModel):
    """Let the lead of the first item be reliability * (f_first - f_second + covariates @ effects).

    Parameters
    ----------
    cells : Cells
    reliability : (n_cells,) or None
        What a judge makes of a lead; 1 when left out.
    width : (n_cells,) or None
        Lead within which a judge ties. When left out, and where there are ties, one width is the
        first parameter; the effects of covariates follow.
    variance : (n_cells,) or None
        Variance of every lead, over which the log-likelihood is averaged: E log sigma(s) is about
        log sigma(k s) / k with k = (1 + pi variance / 8)^(-1/2). The maximum is then the mean of a
        Gaussian close to the posterior, and not its mode. It comes with a width.
    """

    cells: Cells
    reliability: FloatArray | None = None
    width: FloatArray | None = None
    variance: FloatArray | None = None

    def averaged(self, parameters: FloatArray, variance: FloatArray) -> Self:
        """Average over leads f_first - f_second of this variance, with the width as learnt."""
        width = self.width
        if self.learns_width:
            width = np.full(self.cells.n_cells, parameters[0])
        return replace(self, width=width, variance=self._factor**2 * variance)

    def effects(self, parameters: FloatArray) -> FloatArray:
        """Return the effects of covariates, which follow the width."""
        return parameters[1:] if self.learns_width else parameters

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.cells.n_items

    @property
    def learns_width(self) -> bool:
        """Whether the width is the first parameter."""
        return self.width is None and self.cells.has_ties

    @property
    def start(self) -> FloatArray:
        """A width that gives the share of ties to equal items, and no effects."""
        effects = np.zeros(self.cells.covariates.shape[1])
        if not self.learns_width:
            return effects
        share = self.cells.tied.sum() / (self.cells.won + self.cells.lost + self.cells.tied).sum()
        share = min(max(float(share), 1e-3), 0.9)
        return np.append(np.log((1.0 + share) / (1.0 - share)), effects)

    @cached_property
    def _flatness(self) -> FloatArray | float:
        return 1.0 if self.variance is None else 1.0 / np.sqrt(1.0 + pi / 8.0 * self.variance)

    @cached_property
    def _factor(self) -> FloatArray | float:
        return 1.0 if self.reliability is None else self.reliability

    def leads(self, f: FloatArray, parameters: FloatArray) -> FloatArray:
        """Return the lead of the first item in every cell, before reliability."""
        s = f[self.cells.first] - f[self.cells.second]
        effects = self.effects(parameters)
        return s + self.cells.covariates @ effects if len(effects) else s

    def _leads_and_width(
        self, f: FloatArray, parameters: FloatArray
    ) -> tuple[FloatArray, FloatArray | float]:
        width: FloatArray | float = 0.0 if self.width is None else self.width
        if self.learns_width:
            width = float(parameters[0])
        k = self._flatness
        return k * self._factor * self.leads(f, parameters), k * width

    def answers(self, f: FloatArray, parameters: FloatArray) -> Answers:
        """Return the derivatives of the log-likelihood of all cells."""
        return Answers.at(self.cells, *self._leads_and_width(f, parameters))

    def value(self, f: FloatArray, parameters: FloatArray) -> float:
        """Return the log-likelihood."""
        if self.learns_width and parameters[0] <= 0.0:
            return -np.inf
        found = log_likelihoods(self.cells, *self._leads_and_width(f, parameters))
        return float(np.sum(found / self._flatness))

    def expand(self, f: FloatArray, parameters: FloatArray) -> LocalExpansion:
        """Return its derivatives."""
        cells, a = self.cells, self._factor
        found = self.answers(f, parameters)
        weight, slope = self._flatness * a * a * found.curvature, a * found.slope
        x = cells.covariates
        gradient, curvature = x.T @ slope, x.T @ (weight[:, None] * x)
        mixed = [cells.scatter(weight * column) for column in x.T]
        if self.learns_width:
            across = x.T @ (a * found.mixed)
            gradient = np.append(found.by_width.sum(), gradient)
            top = np.append(found.width_curvature.sum(), across)
            curvature = np.block([[top[:1, None], top[None, 1:]], [across[:, None], curvature]])
            mixed.insert(0, cells.scatter(a * found.mixed))
        columns = np.stack(mixed, 1) if mixed else np.zeros((cells.n_items, 0))
        return LocalExpansion(
            cells.scatter(slope),
            cells.degrees(weight),
            cells.weighted(weight),
            gradient,
            columns,
            curvature,
        )

    def noise_root(self, f: FloatArray, parameters: FloatArray, *, clustered: bool) -> csr_array:
        """Return a column for every cell, or for every judge."""
        cells, found = self.cells, self.answers(f, parameters)
        rows = np.concatenate([cells.first, cells.second])
        if clustered:
            assert cells.judge is not None
            value, column, n_columns = self._factor * found.slope, cells.judge, cells.n_judges
        else:
            value = self._factor * np.sqrt(self._flatness * found.curvature)
            column, n_columns = np.arange(cells.n_cells), cells.n_cells
        values = np.concatenate([value, -value])
        return csr_array((values, (rows, np.tile(column, 2))), shape=(cells.n_items, n_columns))
