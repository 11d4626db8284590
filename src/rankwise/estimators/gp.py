"""Gaussian processes on comparisons: rankings that know how sure they are."""

from collections.abc import Callable
from copy import copy
from typing import Any, Literal, Self, TypeAlias, final, get_args, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import Kernel as SklearnBase
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.graph import Ties as TieRule
from rankwise.core.validation import check_choice, check_pairs
from rankwise.estimators._base import Ranker
from rankwise.estimators._gp_answers import (
    LikelihoodName,
    answer_probabilities,
    choose_likelihood,
    margin_scale,
    recorded_comparisons,
    scored_comparisons,
)
from rankwise.estimators._gp_evidence import Inference, Method, Sites
from rankwise.estimators._gp_optimise import Bounds, most_probable
from rankwise.estimators._gp_sklearn import SklearnKernel
from rankwise.estimators._gp_update import extended_sites
from rankwise.estimators._preferences import refuse_both
from rankwise.features.gp_kernels import ParametricKernel, Scaled, SquaredExponential
from rankwise.features.kernels import Kernel, Precomputed, as_kernel
from rankwise.features.maps import Expansion, choose_basis
from rankwise.inference.acquisition import Goal, RankDistribution, suggest_pairs
from rankwise.inference.comparisons import Comparisons
from rankwise.inference.posterior import Posterior

GivenKernel: TypeAlias = str | Kernel | SklearnBase | Callable[[Any, Any], Any] | None

MAX_CANDIDATES = 500_000
"""Pairs among which the next question is looked for; more than that are drawn at random."""


@final
class PreferenceGP(Ranker):
    r"""Learn scores and their uncertainty from comparisons with a Gaussian process.

    The scores f have the prior N(0, K), and item i beats item j with probability
    :math:`\Phi(f_i - f_j)`. The posterior is approximated by expectation propagation; the
    parameters of the kernel are those under which the answers are most probable. With m compared
    items, l distinct comparisons and a kernel matrix of rank r, at most the smaller of m and l, a
    sweep costs O(m r^2 + l r); a fit takes about a hundred sweeps.

    Parameters
    ----------
    kernel : kernel, scikit-learn kernel, name or function, optional
        Covariance of the scores; `SquaredExponential` with one length-scale by default, and
        ``SquaredExponential(length_scale="per_feature")`` for one per feature. Kernels of
        `sklearn.gaussian_process.kernels` bring their own bounds, and need a constant factor for
        the amplitude to be learnt. Of other kernels the amplitude is learnt and nothing else.
    likelihood : {"probit", "robust", "gaussian"}
        How differences of scores become answers. "robust" allows that an answer was recorded the
        wrong way round, and learns how often; use it wherever answers may be careless. "gaussian"
        takes the margins of comparisons as differences of scores with noise, in closed form.
    method : {"ep", "laplace"}
        Expectation propagation, or Laplace's method for "probit": faster, with
        less accurate probabilities.
    optimize : bool
        Whether parameters are learnt; if not, they stay as given.
    n_starts : int
        From how many starting points the search runs. A small grid of amplitudes and length-scales
        is tried anyway, and the search starts at the best of them.
    bounds : mapping, optional
        For "amplitude", "length_scale", "noise", "flip_rate", "tie_width" or parameters of a
        scikit-learn kernel: the smallest and the largest value allowed.
    noise : float, optional
        Noise variance of an answer: 1 by default. Only its ratio to the squared amplitude matters,
        so it is learnt for "gaussian" alone, starting at a tenth of the mean squared margin.
    flip_rate, tie_width : float
        Starting values: how often an answer is recorded as any other, and the half-width of the
        zone of indifference. The second is used when there are ties.
    ties : {"drop", "keep"}
        Whether two items of a query with equal `y` count as a tied comparison.
    max_pairs : int or None
        How many comparisons scores `y` give at most; drawn at random where there are more.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Approximate the kernel through some rows, for many items: a number of random rows, chosen
        rows of X, or rows themselves. What they cannot express counts as noise.
    random_state : int, RandomState or None
        Draws comparisons, basis rows and additional starting points.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with all its parameters.
    likelihood_ : Likelihood
        The likelihood with all its parameters.
    log_marginal_likelihood_ : float
        Log of the probability of the answers, as approximated.
    posterior_ : Posterior
        The Gaussian posterior and how it was reached.
    X_train_ : (n_items, n_features)
        The items.
    basis_rows_ : (n_basis, n_features)
        The rows that prediction needs.
    fitted_with_qid_ : bool
        Whether `fit` was given `qid`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,)
        Their names, where X had names.

    Notes
    -----
    The model is [TH10] (10), with "gaussian" its probabilistic RankRLS: there the mean is that of
    `RankRLS` with ``alpha = noise``. Comparisons without noise drive the amplitude to its bound,
    which is no failure.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PreferenceGP
    >>> X = np.linspace(0.0, 1.0, 6)[:, None]
    >>> answers = [[3, 0], [3, 5], [2, 0], [2, 1], [4, 5], [3, 1], [0, 1], [5, 4], [3, 2]]
    >>> gp = PreferenceGP().fit(X, pairs=answers)                             # winner first
    >>> gp.rank(X)
    array([3, 4, 2, 5, 0, 1])
    >>> scores, std = gp.predict(X, return_std=True)
    >>> gp.predict_pair(X[3:4], X[0:1]).round(1)
    array([0.9])

    Which comparison would tell most, and the ranking after its answer:

    >>> gp.suggest(X)
    array([[2, 4]])
    >>> gp.update([[2, 4]]).rank(X, k=2)
    array([3, 2])
    """

    def __init__(
        self,
        kernel: GivenKernel = None,
        *,
        likelihood: LikelihoodName = "probit",
        method: Method = "ep",
        optimize: bool = True,
        n_starts: int = 1,
        bounds: Bounds | None = None,
        noise: float | None = None,
        flip_rate: float = 0.02,
        tie_width: float = 0.5,
        ties: TieRule = "drop",
        max_pairs: int | None = 10_000,
        basis: int | ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.method = method
        self.optimize = optimize
        self.n_starts = n_starts
        self.bounds = bounds
        self.noise = noise
        self.flip_rate = flip_rate
        self.tie_width = tie_width
        self.ties = ties
        self.max_pairs = max_pairs
        self.basis = basis
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        tied: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from comparisons, or from scores by comparing the items of every query.

        Parameters
        ----------
        X : (n_items, n_features)
            The items; sparse rows are made dense. Bring features to comparable scales, or use a
            length-scale for each.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; one query when left out.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first, repeated and contradicting
            ones welcome.
        tied : (n_tied, 2), optional
            Next to `pairs`: comparisons with the answer "no preference".
        pair_margin : (n_pairs,), optional
            By how much each winner leads, for the likelihood "gaussian"; 1 when left out.
        pair_weight : (n_pairs,), optional
            How often each comparison was recorded, at least 1 in all; once when left out.
        """
        self._check_settings()
        X = self._check_rows(X, ensure_min_samples=2)
        refuse_both(y, qid, pairs)
        rng = self._rng(self.random_state)
        if y is None:
            comparisons = recorded_comparisons(
                pairs, tied, pair_margin, pair_weight, len(X), self.likelihood
            )
        else:
            comparisons = scored_comparisons(
                y,
                qid,
                len(X),
                ties=self.ties,
                likelihood=self.likelihood,
                max_pairs=self.max_pairs,
                rng=rng,
            )
        basis = None if self.basis is None else choose_basis(self.basis, X, rng)
        return self._learn(X, comparisons, basis, rng, with_qid=qid is not None)

    def _learn(
        self,
        X: FloatArray,
        comparisons: Comparisons,
        basis: FloatArray | None,
        rng: np.random.Generator,
        *,
        with_qid: bool,
    ) -> Self:
        likelihood = choose_likelihood(
            self.likelihood, comparisons, self.noise, self.flip_rate, self.tie_width
        )
        kernel = self._kernel(comparisons).fitted_to(X)
        self.X_train_ = X
        self.basis_ = basis
        inference = self._inference(comparisons)
        sites = None
        if self.optimize:
            kernel, likelihood, sites = most_probable(
                inference, kernel, likelihood, self.bounds, self.n_starts, rng
            )
        self.kernel_ = kernel
        self.likelihood_ = likelihood
        self.fitted_with_qid_ = with_qid
        return self._condition(inference, sites)

    def _inference(self, comparisons: Comparisons) -> Inference:
        rows = self.X_train_[comparisons.items]
        return Inference(rows, comparisons, self.basis_, self.method)

    def _condition(self, inference: Inference, sites: Sites | None) -> Self:
        """Store the posterior under the kernel and the likelihood found."""
        posterior = inference.posterior(self.kernel_, self.likelihood_, start=sites)
        rows = self.X_train_ if inference.basis is None else inference.basis
        self.posterior_: Posterior = posterior
        self.basis_rows_ = rows[posterior.items]
        self.log_marginal_likelihood_ = posterior.log_evidence
        return self

    def update(
        self,
        pairs: ArrayLike,
        *,
        tied: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> Self:
        """Add answers about the items of `fit`, keeping the parameters learnt there.

        The posterior is that of all answers together, found from the one before in a few sweeps.
        The parameters can be learnt again by a `fit` with all answers.

        Parameters
        ----------
        pairs, tied, pair_margin, pair_weight
            As in `fit`: row numbers of the X given there.
        """
        check_is_fitted(self)
        n_items = len(self.X_train_)
        new = recorded_comparisons(pairs, tied, pair_margin, pair_weight, n_items, self.likelihood)
        if new.tied.any() and not self._knows_ties:
            raise InvalidInputError(
                "`update` takes ties after a `fit` with ties only, which learns how close items "
                "must be to tie. Call `fit` with all answers."
            )
        comparisons = self.posterior_.prior.comparisons.extend(new)
        sites = extended_sites(
            self.posterior_, comparisons, self.X_train_, self.basis_rows_, self.kernel_
        )
        return self._condition(self._inference(comparisons), sites)

    def with_length_scale(self, factor: float) -> Self:
        """Return a copy conditioned on the same answers with its length-scales times ``factor``.

        Parameters
        ----------
        factor : float
            Above 0; all other parameters stay as they were learnt.
        """
        check_is_fitted(self)
        kernel = self.kernel_
        if not isinstance(kernel, SquaredExponential):
            raise InvalidInputError(
                "The length-scale can be changed for a `SquaredExponential` kernel only: this one "
                f"is {kernel}."
            )
        other = copy(self)
        shift = np.append(0.0, np.full(len(kernel.theta) - 1, np.log(factor)))
        other.kernel_ = kernel.with_theta(kernel.theta + shift)
        comparisons = self.posterior_.prior.comparisons
        sites = self.posterior_.tau, self.posterior_.nu
        return other._condition(self._inference(comparisons), sites)

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
        return self.posterior_.draws_at(*self._blocks(X), n, self._rng(random_state))

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
            The pairs of rows to choose from; all of them when left out, or half a million drawn
            at random where there are more.
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
            candidates = _all_pairs(len(X), self._rng(random_state))
        scores, covariance = self._scores(X), self.posterior_.covariance_at(*self._blocks(X))
        noise = self.likelihood_.parameters["noise"]
        pairs = check_pairs(candidates, len(X))
        return suggest_pairs(scores, covariance, pairs, n, goal=goal, noise=noise)

    def _scores(self, X: FloatArray) -> FloatArray:
        return Expansion(self.kernel_, self.basis_rows_).product(X, self.posterior_.dual_coef)

    def _blocks(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the kernel between the basis and X, and that of X."""
        return self.kernel_(self.basis_rows_, X), self.kernel_(X, X)

    @property
    def _knows_ties(self) -> bool:
        return "tie_width" in self.likelihood_.parameters

    def _check_settings(self) -> None:
        check_choice("likelihood", self.likelihood, get_args(LikelihoodName))
        check_choice("method", self.method, get_args(Method))
        check_choice("ties", self.ties, get_args(TieRule))
        for name in ("n_starts", "max_pairs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"`{name}` must be at least 1: got {value}.")

    def _check_rows(self, X: Any, **options: Any) -> FloatArray:
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", **options)
        return rows.toarray() if issparse(rows) else rows

    def _rows_to_predict(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return self._check_rows(X, reset=False)

    def _kernel(self, comparisons: Comparisons) -> ParametricKernel:
        """Return the given kernel as one with parameters."""
        if self.kernel is None:
            gaussian = self.likelihood == "gaussian"
            return SquaredExponential(margin_scale(comparisons) if gaussian else 1.0)
        if isinstance(self.kernel, SklearnBase):
            return SklearnKernel(self.kernel)
        kernel = as_kernel(self.kernel)
        if isinstance(kernel, Precomputed):
            raise InvalidInputError(
                "`kernel` must be a function of rows, since prediction needs the variance of new "
                "items: a precomputed kernel has none."
            )
        return kernel if isinstance(kernel, ParametricKernel) else Scaled(kernel)

    @staticmethod
    def _rng(random_state: Any) -> np.random.Generator:
        return np.random.default_rng(check_random_state(random_state).randint(2**31))


def _all_pairs(n_items: int, rng: np.random.Generator) -> IntArray:
    """Return all pairs of items, or a random choice of them."""
    if n_items * (n_items - 1) // 2 <= MAX_CANDIDATES:
        return np.stack(np.triu_indices(n_items, 1), axis=1)
    first = rng.integers(n_items, size=MAX_CANDIDATES)
    second = (first + rng.integers(1, n_items, size=MAX_CANDIDATES)) % n_items
    return np.stack([first, second], axis=1)
