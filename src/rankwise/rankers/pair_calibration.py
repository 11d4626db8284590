"""Probabilities of answers from rankers whose scores have no fixed scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_pairs, check_weight
from rankwise.core.errors import InvalidInputError
from rankwise.io.frames import comparisons_of_rows, is_named
from rankwise.rankers.base import Ranker

LARGEST_CERTAINTY = 15.0
"""Largest logit of a typical lead: answers without any noise do not make it infinite."""


@final
@dataclass(frozen=True, eq=False)
class PairCalibration:
    """Turn leads in score into probabilities of answers: sigma(scale * lead).

    Build it with `of`, from comparisons that the ranker has not seen: on its training data scores
    are overconfident.

    Parameters
    ----------
    ranker : Ranker
        A fitted ranker with a single output.
    scale : float

    Examples
    --------
    >>> from rankwise import PairCalibration, RankRLS
    >>> ranker = RankRLS().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> new = [[0.1], [0.8], [1.5], [2.2]]
    >>> calibrated = PairCalibration.of(ranker, new, [[3, 0], [2, 0], [1, 2], [3, 1]])
    >>> bool(calibrated.predict_pair([[2.0]], [[0.0]])[0] > 0.6)
    True
    """

    ranker: Ranker
    scale: float

    @classmethod
    def of(cls, ranker: Ranker, X: Any, pairs: Any, pair_weight: ArrayLike | None = None) -> Self:
        """Find the scale that makes held-out answers most probable.

        Parameters
        ----------
        ranker : Ranker
            A fitted ranker.
        X : (n_items, n_features)
            Items of the held-out comparisons.
        pairs : (n_pairs, 2)
            The held-out comparisons: rows of X, winner first; or by name, as in `fit`.
        pair_weight : (n_pairs,), optional
        """
        if not isinstance(ranker, Ranker):
            raise InvalidInputError(
                f"`ranker` must be a ranker of rankwise: got {type(ranker).__name__}."
            )
        if is_named(pairs):
            table = comparisons_of_rows(X, pairs)
            pairs, pair_weight = table.pairs, table.weight[table.decided]
        scores = _scores(ranker, X)
        winner, loser = check_pairs(pairs, len(scores)).T
        weight = check_weight("pair_weight", pair_weight, len(winner), "pair")
        lead = scores[winner] - scores[loser]
        typical = float(np.sqrt(np.average(lead**2, weights=weight)))
        if typical == 0.0:
            return cls(ranker, 0.0)
        found = scipy.optimize.minimize_scalar(
            lambda scale: -weight @ log_expit(scale * lead / typical),
            bounds=(0.0, LARGEST_CERTAINTY),
            method="bounded",
            options={"xatol": 1e-8},
        )
        return cls(ranker, float(found.x) / typical)

    def predict_pair(self, X1: Any, X2: Any) -> FloatArray:
        """Return the probability that each row of X1 beats the same row of X2.

        Parameters
        ----------
        X1, X2 : (n_pairs, n_features)
            The items to compare.
        """
        first, second = _scores(self.ranker, X1), _scores(self.ranker, X2)
        if len(first) != len(second):
            raise InvalidInputError(
                "`X1` and `X2` must have the same number of rows, one pair each: got "
                f"{len(first)} and {len(second)}."
            )
        return np.asarray(expit(self.scale * (first - second)))


def _scores(ranker: Ranker, X: Any) -> FloatArray:
    scores = ranker.predict(X)
    if scores.ndim != 1:
        raise InvalidInputError(
            f"The ranker must have a single output: this one has {scores.shape[1]}."
        )
    return scores
