"""What a preference Gaussian process is told: comparisons, and the likelihood that fits them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from rankwise.core.arrays import FloatArray, IntArray, first_equal
from rankwise.core.checks import (
    check_length,
    check_pairs,
    check_positive,
    check_scores,
    check_weight,
)
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.features.covariances import Hyperprior
from rankwise.graph.preference_graph import Ties as TieRule
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.likelihoods import (
    TIE,
    Flip,
    GaussianMargin,
    Likelihood,
    Probit,
    Ties,
)


@final
@dataclass(frozen=True, eq=False)
class Items:
    """Hold rows; equal ones have equal scores, so answers about them are answers about one item.

    Parameters
    ----------
    X : (n_items, n_features)
    first : (n_items,)
        The number of the first row equal to each row.
    weight : (n_items,)
        How often each row counts.
    """

    X: FloatArray
    first: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, X: FloatArray, sample_weight: ArrayLike | None = None) -> Self:
        """Compare the rows with each other."""
        weight = check_weight("sample_weight", sample_weight, len(X), "row of `X`")
        return cls(X, first_equal(X), weight)

    @property
    def distinct(self) -> FloatArray:
        """The different rows that count."""
        return self.X[np.unique(self.first[self.weight > 0.0])]

    def merged(self, pairs: IntArray) -> IntArray:
        """Let pairs name the first of equal rows, except pairs of two equal ones."""
        first = self.first[pairs]
        return np.where((first[:, 0] != first[:, 1])[:, None], first, pairs)


LikelihoodName: TypeAlias = Literal["probit", "robust", "gaussian"]

NOISE_SHARE = 0.1
"""Share of the mean squared margin that the search for the noise starts with."""

SPREAD = 3.0
"""Deviation of the scores beforehand, in units of the noise of an answer."""

BEFOREHAND = {"flip_rate": (0.02, 1.0), "tie_width": (0.5, 1.0)}
"""Medians of parameters beforehand, and the deviations of their logarithms."""


def refuse_item_weights(sample_weight: ArrayLike | None) -> None:
    """Refuse weights of items where comparisons are given."""
    if sample_weight is not None:
        raise InvalidInputError(
            "`sample_weight` weighs items that have scores `y`: got comparisons `pairs`. Weigh "
            "these with `pair_weight`."
        )


def recorded_comparisons(
    pairs: ArrayLike | None,
    tied: ArrayLike | None,
    margin: ArrayLike | None,
    weight: ArrayLike | None,
    items: Items,
    likelihood: LikelihoodName,
) -> Comparisons:
    """Merge comparisons that were recorded one by one; Gaussian ties have a margin of 0."""
    wins = items.merged(check_pairs(pairs, len(items.X)))
    gaussian = likelihood == "gaussian"
    if margin is not None and not gaussian:
        raise InvalidInputError(
            "`pair_margin` is read by likelihood='gaussian' only: got margins and likelihood="
            f"{likelihood!r}. Change the likelihood, or leave the margins out."
        )
    won = Comparisons.from_pairs(wins, margin=margin, weight=weight)
    if tied is None or np.size(tied) == 0:
        return won
    level = items.merged(check_pairs(tied, len(items.X)))
    n_tied = len(level)
    if gaussian:
        return won.extend(Comparisons.from_pairs(level, margin=np.zeros(n_tied)))
    return won.extend(Comparisons.from_pairs(level, tied=np.ones(n_tied)))


def scored_comparisons(
    y: ArrayLike,
    qid: ArrayLike | None,
    items: Items,
    *,
    ties: TieRule,
    likelihood: LikelihoodName,
    max_pairs: int | None,
    rng: np.random.Generator,
) -> Comparisons:
    """Compare the items of every query by their scores, all pairs or a random choice of them.

    A pair weighs the product of its ends' weights, as if items were repeated that often.
    """
    n_items = len(items.X)
    scores = check_scores(y)
    if scores.ndim == 2 and scores.shape[1] > 1:
        raise InvalidInputError(
            f"`y` must hold one score per item: got {scores.shape[1]} columns. Fit each column."
        )
    scores = column_or_1d(scores, warn=True)
    check_length("y", scores, n_items)
    queries = Queries.single(n_items) if qid is None else Queries.from_qid(qid)
    check_length("qid", queries.index, n_items)
    first, second = _pairs_of_queries(queries, max_pairs, rng)
    margin, weight = scores[first] - scores[second], items.weight[first] * items.weight[second]
    kept = (weight > 0.0) & ((margin != 0.0) | (ties == "keep"))
    first, second, margin, weight = first[kept], second[kept], margin[kept], weight[kept]
    if not margin.any():
        raise NothingToLearnError(
            "The data must hold at least one preference: all scores inside every query are "
            f"equal, or every query has one item only ({queries}). Check `y` and `qid`."
        )
    swap = (margin < 0.0)[:, None]
    pairs = np.where(swap, np.stack([second, first], 1), np.stack([first, second], 1))
    pairs = items.merged(pairs)
    if likelihood == "gaussian":
        return Comparisons.from_pairs(pairs, margin=np.abs(margin), weight=weight)
    return Comparisons.from_pairs(pairs, tied=margin == 0.0, weight=weight)


def _pairs_of_queries(
    queries: Queries, max_pairs: int | None, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return pairs of items of the same query: all of them, or about ``max_pairs`` drawn."""
    n_pairs = queries.sizes * (queries.sizes - 1) // 2
    ends = np.cumsum(n_pairs)
    total = int(ends[-1])
    if max_pairs is not None and total > max_pairs:
        codes = np.unique(rng.integers(total, size=max_pairs))
    else:
        codes = np.arange(total)
    query = np.searchsorted(ends, codes, side="right")
    place = codes - (ends - n_pairs)[query]
    high = np.floor(0.5 * (1.0 + np.sqrt(1.0 + 8.0 * place))).astype(np.intp)
    high -= high * (high - 1) // 2 > place  # where the root was rounded up
    low = place - high * (high - 1) // 2
    start = queries.starts[query]
    return queries.order[start + low], queries.order[start + high]


def margin_scale(comparisons: Comparisons) -> float:
    """Return the root mean square of the margins."""
    mean = np.average(comparisons.margin**2, weights=comparisons.count)
    return float(np.sqrt(mean)) or 1.0


def choose_likelihood(
    name: LikelihoodName,
    comparisons: Comparisons,
    noise: float | None,
    flip_rate: float,
    tie_width: float,
) -> Likelihood:
    """Return the likelihood with its starting values; ties count only if there are any."""
    if noise is not None:
        check_positive("noise", noise, "It is the variance of an answer.")
    if name == "gaussian":
        return GaussianMargin(noise or NOISE_SHARE * margin_scale(comparisons) ** 2)
    variance = noise or 1.0
    base = Ties(tie_width, variance) if comparisons.tied.any() else Probit(variance)
    return Flip(base, flip_rate) if name == "robust" else base


def free_parameters(likelihood: Likelihood) -> dict[str, tuple[float, float]]:
    """Return the parameters to learn and their bounds.

    The noise of an answer is none of them: only its ratio to the amplitude of the scores matters.
    """
    if isinstance(likelihood, GaussianMargin):
        return {"noise": (1e-6 * likelihood.noise, 1e2 * likelihood.noise)}
    if isinstance(likelihood, Flip):
        return {"flip_rate": (1e-4, 0.3)} | free_parameters(likelihood.base)
    return {"tie_width": (1e-3, 1e2)} if isinstance(likelihood, Ties) else {}


def usual_spread(likelihood: Likelihood, comparisons: Comparisons) -> float:
    """Return how far scores spread beforehand: as margins do, or in units of the noise."""
    if isinstance(likelihood, GaussianMargin):
        return margin_scale(comparisons)
    return SPREAD * float(np.sqrt(likelihood.parameters["noise"]))


def hyperprior_of(names: Iterable[str]) -> Hyperprior:
    """Return what is known beforehand about parameters of a likelihood; of noise, nothing."""
    prior = Hyperprior.flat(0)
    for name in names:
        if name in BEFOREHAND:
            median, deviation = BEFOREHAND[name]
            known = Hyperprior.around(np.array([median]), np.array([[deviation**2]]))
            prior = prior.beside(known)
        else:
            prior = prior.beside(Hyperprior.flat(1))
    return prior


def answer_probabilities(
    likelihood: Likelihood, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    """Return P(first wins), or with ties (win, tie, loss) as columns, of recorded answers."""
    base = likelihood.base if isinstance(likelihood, Flip) else likelihood
    if isinstance(base, GaussianMargin):
        return np.exp(Probit(base.noise).tilted(mean, variance).log_z)
    outcomes = [np.exp(likelihood.tilted(mean, variance).log_z)]
    if isinstance(base, Ties):
        outcomes.append(np.exp(likelihood.tilted(mean, variance, TIE).log_z))
        outcomes.append(np.exp(likelihood.tilted(-mean, variance).log_z))
        return np.stack(outcomes, axis=1)
    return outcomes[0]
