"""Measures of predicted answers to comparisons: log-loss, disagreement, calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, sum_by
from rankwise.core.checks import as_floats, check_weight
from rankwise.core.display import Result, decimals
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, check_call


@final
@dataclass(frozen=True, eq=False)
class AnswerEvaluation(Result):
    """Hold the evaluation of predicted probabilities of answers.

    Parameters
    ----------
    log_loss : float
        Mean negative log-probability of the answers, including ties if they were predicted.
    decided_log_loss : float
        The same for the winner, given that there is one.
    disagreement : float
        Share of decided answers whose winner was predicted to lose; equal probabilities count one
        half.
    predicted, observed, weight : (n_bins,)
        Calibration by bin: the mean predicted probability that the favourite wins, given that one
        of the two does; the share of favourites that won; and the weight of the answers. Bins
        without answers are left out.

    Examples
    --------
    >>> from rankwise import evaluate_answers
    >>> evaluate_answers([0.9, 0.8, 0.3], [1, 1, -1]).disagreement
    0.0
    """

    log_loss: float
    decided_log_loss: float
    disagreement: float
    predicted: FloatArray
    observed: FloatArray
    weight: FloatArray

    def __repr__(self) -> str:
        return (
            f"AnswerEvaluation(log-loss {self.log_loss:.4f}, decided {self.decided_log_loss:.4f}, "
            f"disagreement {self.disagreement:.4f})"
        )

    def _columns(self) -> dict[str, Any]:
        """Return the calibration, a row for each bin."""
        return {"predicted": self.predicted, "observed": self.observed, "weight": self.weight}

    def _cells(self) -> list[list[str]]:
        values = (self.log_loss, self.decided_log_loss, self.disagreement)
        head = ["log-loss", "log-loss of the winner", "disagreement"]
        return [head, [decimals(value) for value in values]]

    def _caption(self) -> str:
        return "Predicted answers"

    def _draw(self, ax: Any) -> None:
        """Draw the calibration: how often favourites won against how often they were predicted to.

        Points below the diagonal are overconfident.
        """
        ax.plot([0.5, 1.0], [0.5, 1.0], color="0.7", zorder=0)
        sizes = 10.0 + 90.0 * self.weight / self.weight.max()
        ax.scatter(self.predicted, self.observed, s=sizes)
        ax.set_xlabel("predicted probability of the favourite")
        ax.set_ylabel("share of favourites that won")


def evaluate_answers(
    probability: ArrayLike,
    outcome: ArrayLike | None = None,
    *,
    weight: ArrayLike | None = None,
    n_bins: Count = 10,
) -> AnswerEvaluation:
    """Evaluate predicted probabilities of answers against the answers given.

    Parameters
    ----------
    probability : (n_pairs,) or (n_pairs, 3)
        Probabilities that the first item wins; or that it wins, ties and loses, as returned by
        `predict_pair`.
    outcome : (n_pairs,), optional
        1 if the first won, -1 if the second won, 0 for a tie; by default the first always won.
    weight : (n_pairs,), optional
        How often each answer was recorded.
    n_bins : int
        Number of bins of the calibration, from 0.5 to 1.

    Examples
    --------
    >>> from rankwise import evaluate_answers
    >>> evaluate_answers([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], [1, 0])
    AnswerEvaluation(log-loss 0.6020, decided 0.1542, disagreement 0.0000)
    """
    check_call(evaluate_answers, n_bins=n_bins)
    p = _three_columns(probability)
    answers = np.ones(len(p)) if outcome is None else as_floats("outcome", outcome)
    if answers.shape != (len(p),) or not np.isin(answers, [1, 0, -1]).all():
        raise InvalidInputError(
            "`outcome` must be 1, 0 or -1 for each pair: there are "
            f"{len(p)}, got shape {answers.shape}."
        )
    weights = check_weight("weight", weight, len(p), "pair")
    # probability of the answer that was given, ties included
    answers = answers.astype(np.intp)
    chosen = np.maximum(p[np.arange(len(p)), 1 - answers], 1e-300)
    decided = answers != 0
    if not weights[decided].any():
        raise InvalidInputError("At least one answer must have a winner: all are ties.")
    # probability of the winner, given that there is one
    first = p[decided, 0] / np.maximum(p[decided, 0] + p[decided, 2], 1e-300)
    won, w = answers[decided] > 0, weights[decided]
    right = np.where(won, first, 1.0 - first)
    # calibration of the favourite, the item that was predicted to win
    calibration = _calibration(np.maximum(first, 1.0 - first), right >= 0.5, w, n_bins)
    return AnswerEvaluation(
        float(np.average(-np.log(chosen), weights=weights)),
        float(np.average(-np.log(np.maximum(right, 1e-300)), weights=w)),
        float(np.average(0.5 - 0.5 * np.sign(right - 0.5), weights=w)),
        *calibration,
    )


def _three_columns(probability: ArrayLike) -> FloatArray:
    p = as_floats("probability", probability)
    if p.ndim == 1:
        p = np.column_stack([p, np.zeros(len(p)), 1.0 - p])
    if p.ndim != 2 or p.shape[1] != 3 or not ((p >= -1e-12) & (p <= 1.0 + 1e-12)).all():
        raise InvalidInputError(
            "`probability` must hold numbers from 0 to 1, of shape (n_pairs,) or (n_pairs, 3): got "
            f"shape {p.shape}."
        )
    return p


def _calibration(
    favourite: FloatArray, won: FloatArray, weight: FloatArray, n_bins: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    bin_of = np.minimum((2.0 * n_bins * (favourite - 0.5)).astype(np.intp), n_bins - 1)
    total = sum_by(bin_of, weight, n_bins)
    kept = total > 0.0
    predicted, observed = (sum_by(bin_of, weight * one, n_bins)[kept] for one in (favourite, won))
    return predicted / total[kept], observed / total[kept], total[kept]
