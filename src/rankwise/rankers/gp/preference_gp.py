"""Gaussian processes on comparisons: rankings that know how sure they are."""

from collections.abc import Callable
from copy import copy
from typing import Any, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel as SklearnBase
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_choice
from rankwise.core.errors import InvalidInputError
from rankwise.features.covariances import OWN_MEDIAN, ParametricKernel, Scaled, SquaredExponential
from rankwise.features.kernels import Kernel, Precomputed, as_kernel
from rankwise.features.maps import choose_basis
from rankwise.graph.preference_graph import Ties as TieRule
from rankwise.rankers.gp.answers import (
    Items,
    LikelihoodName,
    choose_likelihood,
    margin_scale,
    recorded_comparisons,
    refuse_item_weights,
    scored_comparisons,
)
from rankwise.rankers.gp.evidence import (
    Bounds,
    HyperpriorName,
    Inference,
    Method,
    Search,
    Sites,
    most_probable,
)
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.ep import sequential_sites
from rankwise.rankers.gp.inference.likelihoods import Answers, GaussianMargin
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.process import ProcessRanker
from rankwise.rankers.gp.sklearn_kernels import SklearnKernel
from rankwise.rankers.preferences import refuse_both
from rankwise.rankers.randomness import generator

GivenKernel: TypeAlias = str | Kernel | SklearnBase | Callable[[Any, Any], Any] | None


def choose_kernel(kernel: GivenKernel, amplitude: float) -> ParametricKernel:
    """Return the given kernel, or the default one of this amplitude."""
    if kernel is None:
        return SquaredExponential(amplitude, "per_feature", OWN_MEDIAN)
    if isinstance(kernel, SklearnBase):
        return SklearnKernel(kernel)
    known = as_kernel(kernel)
    if isinstance(known, Precomputed):
        raise InvalidInputError(
            "`kernel` must be a function of rows, since prediction needs the variance of new "
            "items: a precomputed kernel has none."
        )
    return known if isinstance(known, ParametricKernel) else Scaled(known)


MAX_SEQUENTIAL = 500
"""New comparisons up to which their sites are found one after the other."""


def extended_sites(
    posterior: Posterior,
    comparisons: Comparisons,
    X: FloatArray,
    basis_rows: FloatArray,
    kernel: ParametricKernel,
) -> Sites | None:
    """Return sites for all comparisons: the old ones, and for new pairs those they ask for.

    Parameters
    ----------
    posterior : Posterior
        Before the new answers.
    comparisons : Comparisons
        All of them; the old ones come first.
    X, basis_rows
        The items, and the rows that the posterior's basis is made of.
    kernel : ParametricKernel
    """
    n_old = posterior.prior.comparisons.n_pairs
    n_new = comparisons.n_pairs - n_old
    small = (comparisons.count < 1.0).any()  # known to Laplace's method only, which needs no start
    if small or n_new > MAX_SEQUENTIAL or isinstance(posterior.likelihood, GaussianMargin):
        return None
    if n_new == 0:
        return posterior.tau, posterior.nu
    new = np.arange(n_old, comparisons.n_pairs)
    items, ends = np.unique([comparisons.winner[new], comparisons.loser[new]], return_inverse=True)
    first, second = ends.reshape(2, n_new)
    K_cross, K = kernel(basis_rows, X[items]), kernel(X[items], X[items])
    mean, covariance = posterior.mean_at(K_cross), posterior.covariance_at(K_cross, K)
    D = covariance[first] - covariance[second]
    answers = Answers(comparisons.tied[new], comparisons.margin[new], np.zeros(n_new))
    tau, nu = sequential_sites(
        mean[first] - mean[second],
        D[:, first] - D[:, second],
        comparisons.count[new],
        answers,
        posterior.likelihood,
    )
    return np.append(posterior.tau, tau), np.append(posterior.nu, nu)


@final
class PreferenceGP(ProcessRanker):
    r"""Learn scores and their uncertainty from comparisons with a Gaussian process.

    The scores f have the prior N(0, K), and item i beats item j with probability
    :math:`\Phi(f_i - f_j)`. The posterior is approximated by expectation propagation; the
    parameters of the kernel are those under which the answers are most probable. With m compared
    items, l distinct comparisons and a kernel matrix of rank r, at most the smaller of m and l, a
    sweep costs O(m r^2 + l r); a fit takes one to three hundred sweeps.

    Parameters
    ----------
    kernel : kernel, scikit-learn kernel, name or function, optional
        Covariance of the scores. By default a `SquaredExponential` with a length-scale for each
        feature, and a score of its own for each item that its features do not tell; for
        functions of the features alone, as in the paper, give ``SquaredExponential()``. Kernels
        of `sklearn.gaussian_process.kernels` bring their own bounds, and need a constant factor
        for the amplitude to be learnt. Of other kernels the amplitude is learnt and nothing else.
    likelihood : {"robust", "probit", "gaussian"}
        How differences of scores become answers. "robust" allows that an answer was recorded the
        wrong way round, and learns how often; "probit" does not. "gaussian" takes the margins of
        comparisons as differences of scores with noise, in closed form.
    method : {"ep", "laplace"}
        Expectation propagation, or Laplace's method for "probit": faster, with
        less accurate probabilities.
    optimize : bool
        Whether parameters are learnt; if not, they stay as given.
    hyperprior : {"weak"} or None
        What is known about parameters beforehand. "weak" expects scores that spread by about
        three times the noise, and length-scales of about three standard deviations times the root
        of the number of features, alike for all of them: answers without any noise then do not
        make it overconfident, and few answers cannot tie scores to a chance pattern of features.
        Without it the evidence alone counts. scikit-learn's kernels have no hyperprior.
    n_starts : int
        From how many starting points the search runs to its end. A small grid of amplitudes and
        length-scales is tried anyway, and the search starts at the best of them.
    bounds : mapping, optional
        For "amplitude", "length_scale", "own", "noise", "flip_rate", "tie_width" or parameters of a
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
        Log of the probability of the answers, as approximated; the hyperprior is no part of it.
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
    The model of [TH10] (10) is ``PreferenceGP(SquaredExponential(), likelihood="probit",
    hyperprior=None)``; with "gaussian" it is the paper's probabilistic RankRLS, and the mean is
    that of `RankRLS` with ``alpha = noise``. Without a hyperprior, comparisons without noise
    drive the amplitude to its bound. Rows that are equal are one item: answers about either
    are put together.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PreferenceGP
    >>> X = np.linspace(0.0, 1.0, 6)[:, None]
    >>> answers = [[3, 0], [3, 5], [2, 0], [2, 1], [4, 5], [3, 1], [0, 1], [4, 0], [3, 2], [2, 5]]
    >>> gp = PreferenceGP().fit(X, pairs=answers)                             # winner first
    >>> gp.rank(X)
    array([3, 4, 2, 5, 0, 1])
    >>> scores, std = gp.predict(X, return_std=True)
    >>> gp.predict_pair(X[3:4], X[0:1]).round(2)
    array([0.96])

    Which comparison would tell most, and the ranking after its answer:

    >>> gp.suggest(X)
    array([[0, 5]])
    >>> gp.update([[5, 0]]).rank(X, k=2)
    array([3, 4])
    """

    def __init__(
        self,
        kernel: GivenKernel = None,
        *,
        likelihood: LikelihoodName = "robust",
        method: Method = "ep",
        optimize: bool = True,
        hyperprior: HyperpriorName | None = "weak",
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
        self.hyperprior = hyperprior
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
        sample_weight: ArrayLike | None = None,
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
        sample_weight : (n_items,), optional
            Next to `y`: how often each item counts. A comparison counts the product of its ends'
            weights, which must be at least 1 in all (any number with Laplace's method).
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
        rng = generator(self.random_state)
        items = Items.of(X, sample_weight)
        if y is None:
            refuse_item_weights(sample_weight)
            answers = (pairs, tied, pair_margin, pair_weight)
            comparisons = recorded_comparisons(*answers, items, self.likelihood)
        else:
            comparisons = self._scored_comparisons(y, qid, items, rng)
        self.X_train_ = X
        self.basis_ = None if self.basis is None else choose_basis(self.basis, X, rng)
        self.fitted_with_qid_ = qid is not None
        return self._learn(comparisons, items.distinct, rng)

    def _scored_comparisons(
        self, y: ArrayLike, qid: ArrayLike | None, items: Items, rng: np.random.Generator
    ) -> Comparisons:
        return scored_comparisons(
            y,
            qid,
            items,
            ties=self.ties,
            likelihood=self.likelihood,
            max_pairs=self.max_pairs,
            rng=rng,
        )

    def _learn(self, comparisons: Comparisons, rows: FloatArray, rng: np.random.Generator) -> Self:
        """Find the parameters and the posterior; the scale of the features is that of ``rows``."""
        amplitude = margin_scale(comparisons) if self.likelihood == "gaussian" else 1.0
        self.kernel_ = choose_kernel(self.kernel, amplitude).fitted_to(rows)
        self.likelihood_ = choose_likelihood(
            self.likelihood, comparisons, self.noise, self.flip_rate, self.tie_width
        )
        inference, sites = self._inference(comparisons), None
        if self.optimize:
            search = Search(self.bounds, self.n_starts, self.hyperprior)
            self.kernel_, self.likelihood_, sites = most_probable(
                inference, self.kernel_, self.likelihood_, search, rows, rng
            )
        return self._condition(inference, sites)

    def _inference(self, comparisons: Comparisons) -> Inference:
        rows = self.X_train_[comparisons.items]
        return Inference(rows, comparisons, self.basis_, self.method)

    def _condition(self, inference: Inference, sites: Sites | None) -> Self:
        """Store the posterior under the kernel and the likelihood found."""
        posterior = inference.posterior(self.kernel_, self.likelihood_, start=sites)
        rows = self.X_train_ if inference.basis is None else inference.basis
        self.posterior_ = posterior
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
        answers = (pairs, tied, pair_margin, pair_weight)
        new = recorded_comparisons(*answers, Items.of(self.X_train_), self.likelihood)
        if new.tied.any() and "tie_width" not in self.likelihood_.parameters:
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
        shift = [np.log(factor) * (name == "length_scale") for name in kernel.names]
        other.kernel_ = kernel.with_theta(kernel.theta + shift)
        comparisons = self.posterior_.prior.comparisons
        sites = self.posterior_.tau, self.posterior_.nu
        return other._condition(self._inference(comparisons), sites)

    def _check_settings(self) -> None:
        check_choice("likelihood", self.likelihood, get_args(LikelihoodName))
        check_choice("method", self.method, get_args(Method))
        check_choice("ties", self.ties, get_args(TieRule))
        if self.hyperprior is not None:
            check_choice("hyperprior", self.hyperprior, get_args(HyperpriorName))
        for name in ("n_starts", "max_pairs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"`{name}` must be at least 1: got {value}.")
