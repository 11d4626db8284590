"""The posterior of the scores of all items: a joint Gaussian, quick to update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from scipy.linalg.blas import dger
from scipy.special import expit, ndtr

from rankwise.apps.ask.store import Record
from rankwise.comparisons.gp.inference.likelihood import inverse_mills_ratio
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.comparisons.judges import CARELESS_RATE
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.features.covariances import SquaredExponential

PRIOR_SPREAD = 1.5
"""Standard deviation of scores before any answer, in units of an answer's noise."""

TIE_NOISE = 1.0
"""Noise variance of "no preference", a difference of 0, besides the noise of an answer."""

FEW_ANSWERS = 10
"""A rater with fewer decided answers is not judged."""

LEAST_RATERS, MOST_RATERS = 3, 30
"""Smallest and largest number of judged raters for which careless ones are looked for."""

LEAST_WEIGHT = 0.01
"""Answers of less weight do not count."""


@final
@dataclass(frozen=True, eq=False)
class Beliefs:
    """Hold the mean and covariance of the scores of all items.

    Parameters
    ----------
    mean : (n_items,)
    covariance : (n_items, n_items)
    noise : float
        Noise variance of an answer.
    """

    mean: FloatArray
    covariance: FloatArray
    noise: float = 1.0

    @classmethod
    def prior(cls, X: FloatArray) -> Self:
        """Return the beliefs before any answer: items with similar features have similar scores."""
        n_items = len(X)
        if X.shape[1] == 0:
            return cls(np.zeros(n_items), PRIOR_SPREAD**2 * np.eye(n_items))
        kernel = SquaredExponential(amplitude=PRIOR_SPREAD).fitted_to(X)
        return cls(np.zeros(n_items), kernel(X, X) + 0.1 * PRIOR_SPREAD**2 * np.eye(n_items))

    @classmethod
    def learned(
        cls,
        X: FloatArray,
        records: Sequence[Record],
        weights: Mapping[int, float] | None = None,
        random_state: int = 0,
    ) -> Self:
        """Fit a preference process and its parameters to all answers.

        Parameters
        ----------
        X : (n_items, n_features)
        records : sequence of Record
        weights : mapping, optional
            How much the answers of each rater count; 1 for raters that are missing.
        random_state : int
        """
        given = weights or {}
        # answers weighted by their raters, decided and tied ones separately
        counted = [
            (r, w) for r in records if (w := given.get(r.question.rater, 1.0)) >= LEAST_WEIGHT
        ]
        decided = [(r.winner_first, w) for r, w in counted if r.answer in ("left", "right")]
        tied = [(r.winner_first, w) for r, w in counted if r.answer == "tie"]
        if not decided:
            return cls.prior(X).after([r for r, _ in counted])
        # posterior of a preference process, its parameters fitted to the answers
        process, rows = _process(X, random_state)
        pairs, pair_weight = zip(*decided, strict=True)
        ties: dict[str, Any] = {}
        if tied:
            ties["tied"], ties["tied_weight"] = zip(*tied, strict=True)
        process.fit(rows, pairs=pairs, pair_weight=pair_weight, **ties)
        mean, covariance = process.predict(rows, return_cov=True)
        return cls(mean - mean.mean(), covariance, process.likelihood_.parameters["noise"])

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.mean)

    def after(self, records: Sequence[Record]) -> Self:
        """Return the beliefs after some more answers, one by one: O(n_items^2) each."""
        mean, S = self.mean.copy(), np.array(self.covariance, order="C")
        for record in records:
            if record.answer != "skip":
                i, j = record.winner_first
                self._update(mean, S, i, j, tied=record.answer == "tie")
        return type(self)(mean, S, self.noise)

    def _update(self, mean: FloatArray, S: FloatArray, i: int, j: int, *, tied: bool) -> None:
        """Match the moments of one answer, in place."""
        # prior mean and variance of the difference of the two scores
        column = S[:, i] - S[:, j]
        difference, variance = mean[i] - mean[j], max(column[i] - column[j], 0.0)
        total = self.noise + variance
        if tied:
            total += TIE_NOISE
            mean_step, variance_step = -difference / total, 1.0 / total
        else:
            # moments of the Gaussian times the probit likelihood of the answer
            z = difference / np.sqrt(total)
            ratio = float(inverse_mills_ratio(z))
            mean_step, variance_step = ratio / np.sqrt(total), ratio * (z + ratio) / total
        # rank-one update of mean and covariance
        mean += mean_step * column
        dger(-variance_step, column, column, a=S.T, overwrite_a=True)  # in place: S is symmetric

    def differences(self, pairs: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the differences of some pairs."""
        i, j = pairs.T
        spread = np.diag(self.covariance)
        variance = spread[i] + spread[j] - 2.0 * self.covariance[i, j]
        return self.mean[i] - self.mean[j], np.maximum(variance, 0.0)

    def answer_probability(self, pairs: IntArray) -> FloatArray:
        """Return the probability that the first item of each pair is preferred."""
        mean, variance = self.differences(pairs)
        return np.asarray(ndtr(mean / np.sqrt(self.noise + variance)))

    def draws(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw the scores of all items jointly, (n_draws, n_items)."""
        # jitter, then a root by the eigendecomposition
        S = self.covariance + 1e-9 * np.trace(self.covariance) / self.n_items * np.eye(self.n_items)
        values, vectors = np.linalg.eigh(S)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return self.mean + rng.standard_normal((n_draws, self.n_items)) @ root.T


def rater_weights(X: FloatArray, records: Sequence[Record]) -> dict[int, float]:
    """Return the probability that each rater answers with care, judged by the other raters.

    A careless rater answers at random. The probability of a rater's answers is judged only by the
    other raters; a second round leaves out raters that the first round found careless. If only two
    raters disagree, either may be right, so three with enough answers are required. If most
    seem careless, none is treated as careless.
    """
    decided: dict[int, list[Record]] = {}
    for record in records:
        if record.answer in ("left", "right"):
            decided.setdefault(record.question.rater, []).append(record)
    # raters with enough decided answers
    judged = [rater for rater, given in decided.items() if len(given) >= FEW_ANSWERS]
    if not LEAST_RATERS <= len(judged) <= MOST_RATERS:
        return {}
    weights = dict.fromkeys(judged, 1.0)
    for _ in range(2):
        # judge each rater by the answers of the trusted others
        trusted = {rater for rater in decided if weights.get(rater, 1.0) >= 0.5}
        found = {}
        for rater in judged:
            others = [r for r in records if r.question.rater in trusted - {rater}]
            found[rater] = _probability_of_care(Beliefs.prior(X).after(others), decided[rater])
        weights = found
    careless = [rater for rater, weight in weights.items() if weight < 0.5]
    return {} if 2 * len(careless) >= len(judged) else weights


def _probability_of_care(beliefs: Beliefs, given: Sequence[Record]) -> float:
    """Return the probability that answers were given with care, by Bayes' rule."""
    probabilities = beliefs.answer_probability(np.array([r.winner_first for r in given]))
    evidence = float(np.log(2.0 * np.maximum(probabilities, 1e-12)).sum())
    return float(expit(evidence + np.log((1.0 - CARELESS_RATE) / CARELESS_RATE)))


def _process(X: FloatArray, random_state: int) -> tuple[PreferenceGP, FloatArray]:
    """Return the process and its rows: the features, or one unit row per item without them."""
    if X.shape[1] == 0:
        return PreferenceGP("linear", random_state=random_state), np.eye(len(X))
    return PreferenceGP(random_state=random_state), X
