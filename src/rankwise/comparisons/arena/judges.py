"""Judges: how often each ties, how reliable each is, learned together with the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.comparisons.arena.newton import Mode, fitted_scores
from rankwise.comparisons.arena.paired import Answers, Cells, PairedModel, log_likelihoods
from rankwise.comparisons.judges import (
    USUAL_SPREAD,
    JudgeReport,
    careless_probability,
    improved_habits,
    spread_between,
)
from rankwise.core.arrays import FloatArray, sum_by
from rankwise.solve.iteration import StoppingRule

JUDGE_RULE = StoppingRule(tol=1e-3, max_iter=60)
"""The tolerance is a bound on the change of the logarithms of reliability and width."""


@final
@dataclass(frozen=True, eq=False)
class Habits:
    """Hold the reliability and tie width of each judge, as logarithms.

    Parameters
    ----------
    log_reliability, log_width : (n_judges,)
    reliability_std : (n_judges,)
        Standard deviation of the logarithm of the reliability.
    reliability_spread, width_spread : float
        Standard deviations between judges.
    mean_width : float
        Mean of the logarithms of the widths.
    """

    log_reliability: FloatArray
    log_width: FloatArray
    reliability_std: FloatArray
    reliability_spread: float
    width_spread: float
    mean_width: float

    @classmethod
    def start(cls, n_judges: int, width: float) -> Self:
        """Return judges that are all alike."""
        none, log_width = np.zeros(n_judges), float(np.log(width))
        return cls(none, np.full(n_judges, log_width), none, USUAL_SPREAD, USUAL_SPREAD, log_width)

    def model(self, cells: Cells) -> PairedModel:
        """Return the model of the scores for judges with these habits."""
        assert cells.judge is not None
        width = np.exp(self.log_width)[cells.judge] if cells.has_ties else None
        return PairedModel(cells, np.exp(self.log_reliability)[cells.judge], width)

    def improved(self, cells: Cells, leads: FloatArray) -> Self:
        """Take a Newton step for every judge, and update the spreads between judges.

        In logarithms the curvature can be negative; negative parts are left out.
        """
        assert cells.judge is not None
        n_judges, judge = cells.n_judges, cells.judge
        reliability, width = np.exp(self.log_reliability)[judge], np.exp(self.log_width)[judge]
        # derivatives of each judge's log posterior in both logarithms, curvatures made positive
        s = reliability * leads
        found = Answers.at(cells, s, width if cells.has_ties else 0.0)
        tight, wide = self.reliability_spread**-2, self.width_spread**-2
        g = sum_by(judge, found.slope * s, n_judges)
        h = sum_by(judge, found.by_width * width, n_judges)
        gg = sum_by(judge, found.curvature * s**2, n_judges) + np.maximum(-g, 0.0) + tight
        hh = sum_by(judge, found.width_curvature * width**2, n_judges) + np.maximum(-h, 0.0) + wide
        g, h = g - self.log_reliability * tight, h - (self.log_width - self.mean_width) * wide
        gh = sum_by(judge, found.mixed * s * width, n_judges)
        if not cells.has_ties:
            h, gh, hh = np.zeros(n_judges), np.zeros(n_judges), np.full(n_judges, wide)
        (log_reliability, log_width), variance = improved_habits(
            np.stack([self.log_reliability, self.log_width]),
            np.stack([g, h]),
            np.stack([gg, gh, hh]),
            lambda habits: self._value(cells, leads, habits),
        )
        mean_width = float(log_width.mean())
        return type(self)(
            log_reliability - log_reliability.mean(),
            log_width,
            np.sqrt(variance[0]),
            spread_between(log_reliability, variance[0]),
            spread_between(log_width - mean_width, variance[1]),
            mean_width,
        )

    def _value(self, cells: Cells, leads: FloatArray, habits: FloatArray) -> FloatArray:
        """Return the log-likelihood of every judge with its prior."""
        assert cells.judge is not None
        reliability, width = np.exp(habits)[:, cells.judge]
        found = log_likelihoods(cells, reliability * leads, width)
        prior = (habits[0] / self.reliability_spread) ** 2
        prior += ((habits[1] - self.mean_width) / self.width_spread) ** 2
        return sum_by(cells.judge, found, cells.n_judges) - 0.5 * prior

    def distance(self, other: Self) -> float:
        """Return the largest change of a logarithm."""
        one = np.abs(self.log_reliability - other.log_reliability).max()
        return float(max(one, np.abs(self.log_width - other.log_width).max()))


def fitted_judges(
    cells: Cells, deviation: float | None, rng: np.random.Generator
) -> tuple[PairedModel, Mode, Habits]:
    """Learn scores and habits in turn, until the habits converge.

    Parameters
    ----------
    cells : Cells
        Comparisons by judge.
    deviation : float or None
        Standard deviation of the scores; None to learn it.
    rng
    """
    # start: judges that are all alike
    shared = PairedModel(cells)
    mode = fitted_scores(shared, deviation, rng)
    width = float(mode.parameters[0]) if shared.learns_width else 1.0
    habits = Habits.start(cells.n_judges, width)
    mode = replace(mode, parameters=shared.effects(mode.parameters))
    error, n_iter = np.inf, 0
    # scores for fixed habits, then habits for fixed scores
    while error >= JUDGE_RULE.tol and n_iter < JUDGE_RULE.max_iter:
        model = habits.model(cells)
        mode = fitted_scores(model, deviation or mode.deviation, rng, mode)
        better = habits.improved(cells, model.leads(mode.f, mode.parameters))
        error, habits, n_iter = habits.distance(better), better, n_iter + 1
    # scores and their deviation for the final habits
    model = habits.model(cells)
    mode = fitted_scores(model, deviation, rng, mode)
    reached = error < JUDGE_RULE.tol
    ending = JUDGE_RULE.end(
        "converged" if reached else "max_iter", n_iter, error, "Merge rare judges."
    )
    ending.warn()
    return model, mode, habits


def judge_report(
    names: NDArray[Any], cells: Cells, model: PairedModel, mode: Mode, habits: Habits
) -> JudgeReport:
    """Return what was learned about the judges."""
    assert cells.judge is not None
    judge, n_judges = cells.judge, cells.n_judges
    # agreement with the scores, of which equal ones count one half
    leads = model.leads(mode.f, mode.parameters)
    decided, tied = cells.won + cells.lost, sum_by(judge, cells.tied, n_judges)
    right = np.where(leads > 0, cells.won, np.where(leads < 0, cells.lost, 0.5 * decided))
    width = np.exp(habits.log_width)

    def log_likelihood(reliability: FloatArray) -> FloatArray:
        found = log_likelihoods(cells, reliability[judge] * leads, width[judge])
        return sum_by(judge, found, n_judges)

    return JudgeReport.of(
        names,
        tied,
        sum_by(judge, decided, n_judges),
        sum_by(judge, right, n_judges),
        habits.log_reliability,
        habits.reliability_std,
        width if cells.has_ties else np.zeros(n_judges),
        careless_probability(log_likelihood, n_judges),
    )
