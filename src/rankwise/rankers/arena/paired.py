"""Scores from comparisons of two items, with ties, covariates, and judges of given habits."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import pi
from typing import Self, final

import numpy as np
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray
from rankwise.rankers.arena.cells import Answers, Cells, log_likelihoods
from rankwise.rankers.arena.newton import LocalExpansion, ScoreModel


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
