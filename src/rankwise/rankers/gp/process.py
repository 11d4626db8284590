"""What a fitted preference Gaussian process can be asked: scores, probabilities, questions."""

from abc import ABC
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import check_choice, check_pairs
from rankwise.core.errors import InvalidInputError
from rankwise.features.covariances import ParametricKernel
from rankwise.features.maps import Expansion
from rankwise.rankers.base import Ranker
from rankwise.rankers.gp.answers import answer_probabilities
from rankwise.rankers.gp.inference.likelihoods import Likelihood
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.questions import Goal, RankDistribution, candidate_pairs, suggest_pairs
from rankwise.rankers.randomness import generator


class ProcessRanker(Ranker, ABC):
    """A ranker whose scores have a joint Gaussian posterior."""

    kernel_: ParametricKernel
    likelihood_: Likelihood
    posterior_: Posterior
    basis_rows_: FloatArray

    @overload
    def predict(self, X: Any) -> FloatArray: ...

    @overload
    def predict(self, X: Any, *, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def predict(self, X: Any, *, return_cov: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self, X: Any, *, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean score of every row of X, and on request how uncertain it is.

        A common shift of all scores cannot be learnt from comparisons and is part of the standard
        deviation; `predict_pair` and `rank_distribution` are free of it.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        return_std, return_cov : bool
            Whether to return the standard deviations (n_items,), or the covariance
            (n_items, n_items), as well.

        Returns
        -------
        scores : (n_items,)
        std or cov : optional
        """
        if return_std and return_cov:
            raise InvalidInputError("`predict` returns either `std` or `cov`: both were asked for.")
        X = self._rows_to_predict(X)
        scores = self._scores(X)
        if return_cov:
            return scores, self.posterior_.covariance_at(*self._blocks(X))
        if not return_std:
            return scores
        K_cross = self.kernel_(self.basis_rows_, X)
        variance = self.posterior_.variance_at(K_cross, self.kernel_.diagonal(X))
        return scores, np.sqrt(variance)

    def predict_pair(self, X1: Any, X2: Any, *, noisy: bool = True) -> FloatArray:
        """Return the probability that each row of X1 beats the row of X2 at the same place.

        Parameters
        ----------
        X1, X2 : (n_pairs, n_features)
            The items to compare.
        noisy : bool
            Whether a recorded answer is meant, with its noise and possible flip, or the scores
            themselves.

        Returns
        -------
        probability : (n_pairs,)
            Or (n_pairs, 3) after a fit with ties, for answers: win, tie and loss.

        Notes
        -----
        ``noisy=False`` is [TH10] (11); an answer has the noise on top.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> X = [[0.0], [1.0], [2.0]]
        >>> gp = PreferenceGP(tie_width=0.5).fit(X, pairs=[[2, 0]], tied=[[0, 1]])
        >>> gp.predict_pair(X[:1], X[2:]).shape
        (1, 3)
        """
        first, second = self._rows_to_predict(X1), self._rows_to_predict(X2)
        if len(first) != len(second):
            raise InvalidInputError(
                "`X1` and `X2` must have the same number of rows, one pair each: got "
                f"{len(first)} and {len(second)}."
            )
        K_first, K_second = (self.kernel_(self.basis_rows_, rows) for rows in (first, second))
        spread = self.kernel_.spread(first, second)
        mean, variance = self.posterior_.difference_at(K_first, K_second, spread)
        if noisy:
            return answer_probabilities(self.likelihood_, mean, variance)
        return np.asarray(ndtr(mean / np.sqrt(np.maximum(variance, 1e-200))))  # [TH10] eq. (11)

    def sample(self, X: Any, n: int = 1, *, random_state: Any = None) -> FloatArray:
        """Draw the scores of all rows of X jointly from the posterior.

        Parameters
        ----------
        X : (n_items, n_features)
            The items.
        n : int
            Number of draws.
        random_state : int, RandomState or None
            Where the draws come from.

        Returns
        -------
        draws : (n, n_items)
        """
        X = self._rows_to_predict(X)
        return self.posterior_.draws_at(*self._blocks(X), n, generator(random_state))

    def rank_distribution(
        self, X: Any, *, n_draws: int = 2000, random_state: Any = None
    ) -> RankDistribution:
        """Return how the ranks of the rows of X are distributed, from draws of their scores.

        Parameters
        ----------
        X : (n_items, n_features)
            The items.
        n_draws : int
            Number of draws; probabilities are good to about ``0.5 / sqrt(n_draws)``.
        random_state : int, RandomState or None
            Where the draws come from.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> gp = PreferenceGP().fit(X, pairs=[[1, 0], [2, 0], [1, 3], [2, 3]] * 4)
        >>> gp.rank_distribution(X, random_state=0).interval(0.9)
        array([[3, 4],
               [1, 2],
               [1, 2],
               [3, 4]])
        """
        return RankDistribution.from_draws(self.sample(X, n_draws, random_state=random_state))

    def suggest(
        self,
        X: Any,
        n: int = 1,
        *,
        goal: Goal = "ranking",
        candidates: ArrayLike | None = None,
        random_state: Any = None,
    ) -> IntArray:
        """Choose the comparisons whose answers are worth most, the best first.

        Parameters
        ----------
        X : (n_items, n_features)
            The items to compare.
        n : int
            How many comparisons; a batch does not ask the same thing twice.
        goal : {"ranking", "best"}
            Whether the whole order is wanted (expected information), or the best item (expected
            score of the winner).
        candidates : (n_candidates, 2), optional
            The pairs of rows to choose from; all of them when left out. Among more than a
            thousand items, those of the best thousand or, for "ranking", of a thousand drawn at
            random.
        random_state : int, RandomState or None
            Where these draws come from.

        Returns
        -------
        pairs : (n, 2)
            Row numbers of X.
        """
        check_choice("goal", goal, get_args(Goal))
        X = self._rows_to_predict(X)
        if candidates is None:
            candidates = candidate_pairs(self._scores(X), goal, generator(random_state))
        pairs = check_pairs(candidates, len(X))
        items, ends = np.unique(pairs, return_inverse=True)
        rows = X[items]
        scores, covariance = self._scores(rows), self.posterior_.covariance_at(*self._blocks(rows))
        noise = self.likelihood_.parameters["noise"]
        chosen = suggest_pairs(scores, covariance, ends.reshape(-1, 2), n, goal=goal, noise=noise)
        return items[chosen]

    def _scores(self, X: FloatArray) -> FloatArray:
        return Expansion(self.kernel_, self.basis_rows_).product(X, self.posterior_.dual_coef)

    def _blocks(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the kernel between the basis and X, and that of X."""
        return self.kernel_(self.basis_rows_, X), self.kernel_(X, X)

    def _check_rows(self, X: Any, **options: Any) -> FloatArray:
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", **options)
        return rows.toarray() if issparse(rows) else rows

    def _rows_to_predict(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return self._check_rows(X, reset=False)
