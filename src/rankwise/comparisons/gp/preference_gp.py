"""Gaussian processes on comparisons: rankings that state their uncertainty."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.comparisons.gp.answers import (
    DistinctItems,
    EqualRows,
    GivenAnswers,
    LikelihoodName,
    n_queries_without_preference,
    names_after,
)
from rankwise.comparisons.gp.evidence import (
    Approximation,
    Bounds,
    HyperpriorName,
)
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import LiveScores
from rankwise.comparisons.gp.inference.likelihood import Likelihood, Outcomes
from rankwise.comparisons.gp.inference.posterior import Posterior
from rankwise.comparisons.gp.interactions import (
    Interactions,
    found_interactions,
    with_lead,
)
from rankwise.comparisons.gp.judges import ByJudge
from rankwise.comparisons.gp.learning import (
    GivenKernel,
    best_process,
    merges_equal_rows,
    starting_likelihood,
    with_amplitudes,
)
from rankwise.comparisons.gp.persons import PersonTraits
from rankwise.comparisons.gp.process import Model, Process
from rankwise.comparisons.gp.questions import (
    MAX_ITEMS,
    Balance,
    Goal,
    RankDistribution,
    candidate_items,
    goal_certainty,
    suggest_pairs,
)
from rankwise.comparisons.gp.terms import (
    NEW_PERSON,
    NOBODY,
    Drift,
    Effects,
    Tastes,
    Term,
    Traits,
)
from rankwise.comparisons.judges import JudgeReport
from rankwise.comparisons.leaderboard import Effect, Leaderboard, RankSpread
from rankwise.core.arrays import FloatArray, IntArray, dense_rows, sum_by
from rankwise.core.checks import (
    as_array,
    check_flag,
    check_pairs,
    entries_of,
    positions_of,
    refuse_overflow,
)
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import as_given, on_host
from rankwise.core.params import (
    Above,
    Advice,
    AtLeast,
    AtMost,
    Below,
    CheckedWith,
    Count,
    Positive,
    RandomSeed,
    Share,
    check_value,
    checked,
    shown,
)
from rankwise.features.covariances import (
    ParametricKernel,
)
from rankwise.graph.preference_graph import Ties as TieRule
from rankwise.io.comparisons import are_positions, read_items
from rankwise.io.frames import known_features, read_columns
from rankwise.rankers.base import Ranker, generator
from rankwise.rankers.reading import read_scored
from rankwise.rankers.scoring_function import ScoringFunction, scoring_function, unscaled_function
from rankwise.rankers.trees.pair_trees import PairTrees

if TYPE_CHECKING:
    from pandas import DataFrame

Factor: TypeAlias = Annotated[float, Positive(), Advice("It multiplies the length-scales.")]

MOST_DRAWS = 10_000_000
"""Draws from the posterior at once."""

DrawCount: TypeAlias = Annotated[int, Positive(), AtMost(MOST_DRAWS)]

EFFECT_LEVEL = 0.9
"""Probability of the intervals of effects."""

COLUMNS = (
    *("tied", "tied_weight", "pair_margin", "pair_weight"),
    *("judge", "tied_judge", "date", "tied_date"),
)
"""What comes with pairs."""


def refuse_std_and_cov(return_std: bool, return_cov: bool) -> None:
    """Refuse to return standard deviations and covariances together."""
    check_flag("return_std", return_std)
    check_flag("return_cov", return_cov)
    if return_std and return_cov:
        raise InvalidInputError(
            "`predict` returns either `std` or `cov`: got both. The diagonal of `cov` "
            "holds the squares of `std`."
        )


def _are_names(X: Any) -> bool:
    """Return whether X holds names or row numbers rather than rows of features."""
    try:
        return np.ndim(X) == 1 and np.asarray(X).dtype.kind in "iuUSOT"
    except ValueError:  # rows of different lengths, which the check of rows refuses
        return False


@final
class PreferenceGP(Ranker):
    r"""Learn scores and their uncertainty from comparisons with a Gaussian process.

    The scores f have the prior N(0, K), and item i beats item j with probability
    :math:`\Phi(f_i - f_j)`. The posterior is approximated by expectation propagation; the
    parameters of the kernel are the most probable ones given the answers. With m compared
    items, l distinct comparisons and a kernel matrix of rank r, at most the smaller of m and l, a
    sweep costs O(m r^2 + l r); a fit takes one to three hundred sweeps.

    Parameters
    ----------
    kernel : kernel, scikit-learn kernel, name or function, optional
        Covariance of the scores. By default a `SquaredExponential` with a length-scale for each
        feature and an item effect, the part of a score that the features do not explain; for
        functions of the features alone, as in the paper, use ``SquaredExponential()``. The item
        effect counts for the items of `fit`, given by name or as rows; see Notes. Kernels of
        `sklearn.gaussian_process.kernels` have their own bounds, and need a constant factor for
        the amplitude to be learned. For other kernels only the amplitude is learned.
    likelihood : {"robust", "probit", "logistic", "gaussian"}
        How differences of scores become answers. "robust" allows for answers that were recorded
        the wrong way round, and learns how often that happens; "probit" does not. "logistic" is the
        model of Bradley and Terry: a difference of scores is the logarithm of the odds. "gaussian"
        treats the margins of comparisons as differences of scores with noise, in closed form.
    method : {"ep", "laplace"}
        Expectation propagation, or Laplace's method: faster, with less accurate probabilities.
    optimize : bool
        Whether parameters are learned; if not, they stay as given.
    hyperprior : {"weak"} or None
        The prior of the parameters. "weak" prefers scores with a standard deviation of about three
        times the noise, or below the noise for items known by name alone, and length-scales of
        about three standard deviations times the root of the number of features, similar for all of
        them. So answers without noise do not lead to overconfidence, and few answers cannot fit a
        chance pattern of features. With None only the evidence counts. scikit-learn's kernels have
        no hyperprior.
    n_starts : int
        Number of starting points from which the search runs to its end. They are the best of a
        small grid of amplitudes and length-scales.
    bounds : mapping, optional
        The smallest and the largest value of "amplitude", "length_scale", "item_effect", "noise",
        "flip_rate", "tie_width" or parameters of a scikit-learn kernel.
    noise : float, optional
        Noise variance of an answer, 1 by default. Only its ratio to the squared amplitude matters,
        so it is learned only for "gaussian", starting at a tenth of the mean squared margin.
    flip_rate, tie_width : float
        Starting values of the probability that win and loss are exchanged in the record, and of
        the largest difference, including noise, that is a tie. The second is used only if there are
        ties, which are never flipped.
    ties : {"drop", "keep"}
        Whether two items of a query with equal `y` count as a tied comparison.
    max_pairs : int or None
        Largest number of comparisons from scores `y`; if there are more, they are drawn at random.
    equal_rows : {"apart", "merged"}, optional
        Whether rows of X with equal features are different items, which differ only in their item
        effects, or one item. By default "apart" with `pairs`, and "merged" with `y`, where
        repeating a row is the same as giving it a weight.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Approximate the kernel through some rows, for many items: a number of random rows, indices
        of rows of X, or the rows themselves. What they cannot express counts as noise. With item
        effects and up to 5,000 items the basis is used only in the search for parameters, and the
        posterior is that of the kernel itself, since noise cannot replace an item effect.
    drift : bool
        Whether scores change with time, for comparisons with dates: one part of every score lasts,
        the other is forgotten; how much and how fast is learned. Predictions are for the last date
        unless another is given. Every item at every date is a row; dates are rounded until there
        are at most 600 rows. Where fewer than three dates would be left, parameters are found from
        the answers among the busiest items, and the posterior has up to three dates; there may be
        at most 2,500 items.
    intransitive : bool or "auto"
        Whether answers can go in circles, as with rock, paper and scissors: a comparison of a and b
        is then f(a) - f(b) + g(a, b), with a Gaussian process g(a, b) = -g(b, a) of the features of
        both, whose kernel is learned too. "auto" decides by the evidence. `predict_pair` uses g;
        scores, ranks and `suggest` use only f, the part that is an order. A sweep costs the cube
        of the number of compared pairs.
    tastes : bool
        Whether every judge has their own order, for comparisons that say who answered: the score of
        an item for a person is f(item) + g(person, item), with f common to all and g independent
        between persons. The kernels of both are learned; a person's answers count for their own
        order, and for the common one to the degree that persons agree. `predict`, `predict_pair`,
        `rank` and `leaderboard` take ``judge``. All persons then count as equally reliable. A sweep
        costs O(m^3) for a person who compared m items, plus O(n_items^3). With features of persons
        (``persons`` in `fit`) persons with similar features share a part of g; n_items is then
        multiplied by one more than the number of features.
    interactions : bool or "auto"
        Whether features of both items interact in who wins, as in battles that a rule on a
        difference decides: boosted trees of (a, b, a - b), made antisymmetric, say how much a leads
        b, and the process learns from leads held out of the trees how far to believe them. Their
        lead is a covariate of an answer, and `predict_pair` uses it; the score of an item has its
        mean lead over the items that were compared. "auto" holds a fifth of the answers out and
        lets trees take part if these become likelier; below 200 answers, without features or
        without LightGBM it leaves them out. Needs LightGBM.
    device : str, optional
        Where sweeps of expectation propagation are computed, as in `RankRLS`; the kernel, its
        factor and its gradient are computed by the CPU.
    random_state : int, RandomState or None
        Source of the draws of comparisons, basis rows and additional starting points.

    Attributes
    ----------
    terms_ : tuple of Term
        What explains an answer, with all parameters: the scores, and what else was asked for.
    kernel_ : Kernel
        The kernel of the scores.
    likelihood_ : Likelihood
        The likelihood with all its parameters.
    log_marginal_likelihood_ : float
        Log of the approximate probability of the answers, without the hyperprior.
    posterior_ : Posterior
        The Gaussian posterior, and in ``posterior_.ending`` why its computation ended.
    X_train_ : (n_items, n_features)
        The items.
    item_names_ : (n_items,) or None
        The names of the items, if they have any.
    basis_rows_ : (n_basis, n_features)
        The rows that prediction needs.
    effects_ : tuple of Effect
        The effects of the covariates of comparisons, with 90 % intervals; empty without covariates.
    taste_share_ : float or None
        With ``tastes``: the share of the variance of a person's scores that is their own taste.
    interactions_ : Interactions or None
        With ``interactions``: the trees that take part, if any, and the log-loss of held-out
        answers without and with them.
    drift_ : (float, float, float) or None
        With ``drift``: the ratio of the variance of the part that is forgotten to that of the part
        that lasts, the time in days within which it is forgotten, and the days between the first
        and the last answer.
    judges_ : JudgeReport or None
        What was learned about each judge, if it is known who answered; None with ``tastes``.
        `update` and `forget` recount answers, with the reliabilities of the last `fit`.
    judge_names_ : (n_judges,) or None
        The judges, if it is known who answered.
    n_queries_ : int
        Number of queries.
    n_ignored_queries_ : int
        Number of queries without a comparison: those with one item, or with equal scores only.
    fitted_with_qid_ : bool
        Whether `fit` was given `qid`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,)
        The names of the features, if X had names.

    Notes
    -----
    The model of [TH10] (10) is ``PreferenceGP(SquaredExponential(), likelihood="probit",
    hyperprior=None)``; with "gaussian" it is the paper's probabilistic RankRLS, and the mean is
    that of `RankRLS` with ``alpha = noise``. Without a hyperprior, comparisons without noise
    drive the amplitude to its bound.

    A row is an item of `fit` if they differ by rounding only: in every feature by at most 1e-5 of
    its size, or of a fifth of the feature's median size where it is smaller. So features in single
    precision or with six digits keep the item effect. Of several such items the row is the nearest,
    if the next is at least twice as far; otherwise it is a new item. Items with equal features are
    told apart by the names of a frame, by giving all of them, or not at all: then the row is new.

    With more than 400 items, parameters are searched for with the kernel approximated through 150
    rows, and the posterior is then that of all items.

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

    The most informative comparison, and the ranking after its answer:

    >>> gp.suggest(X)
    array([[0, 5]])
    >>> gp.update([[5, 0]]).rank(X, k=2)
    array([3, 4])

    Items without features, by name:

    >>> gp = PreferenceGP().fit(pairs=[("ann", "bob"), ("bob", "cid"), ("ann", "cid")])
    >>> gp.leaderboard(random_state=0).names.tolist()
    ['ann', 'bob', 'cid']
    >>> gp.predict_pair(["ann"], ["cid"]).round(1)
    array([0.8])
    """

    process_: Process
    """The model conditioned on the answers of `fit`; properties complete what `update` added."""

    item_names_: NDArray[Any] | None
    judge_names_: NDArray[Any] | None
    merges_equal_rows_: bool
    interactions_: Interactions | None
    _live: LiveScores | None = None

    def __init__(
        self,
        kernel: Annotated[GivenKernel, CheckedWith("X")] = None,
        *,
        likelihood: LikelihoodName = "robust",
        method: Approximation = "ep",
        optimize: bool = True,
        hyperprior: HyperpriorName | None = "weak",
        n_starts: Annotated[int, AtLeast(1), AtMost(10_000), Advice("A few are enough.")] = 1,
        bounds: Annotated[Bounds | None, CheckedWith("kernel")] = None,
        noise: Annotated[float, Positive(), Advice("It is a variance.")] | None = None,
        flip_rate: Annotated[float, Above(0), Below(0.5)] = 0.02,
        tie_width: Annotated[float, Positive(), Advice("Items closer than this tie.")] = 0.5,
        ties: TieRule = "drop",
        max_pairs: Count | None = 10_000,
        equal_rows: EqualRows | None = None,
        basis: Annotated[int | ArrayLike | None, CheckedWith("X")] = None,
        drift: bool = False,
        intransitive: Literal["auto"] | bool = False,
        tastes: bool = False,
        interactions: Literal["auto"] | bool = False,
        device: str | None = None,
        random_state: RandomSeed = None,
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
        self.equal_rows = equal_rows
        self.basis = basis
        self.drift = drift
        self.intransitive = intransitive
        self.tastes = tastes
        self.interactions = interactions
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        pairs: Any = None,
        tied: Any = None,
        tied_weight: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        judge: Any = None,
        tied_judge: Any = None,
        date: Any = None,
        tied_date: Any = None,
        first: bool = False,
        persons: Any = None,
    ) -> Self:
        """Learn from comparisons, or from scores by comparing the items of every query.

        Parameters
        ----------
        X : (n_items, n_features), optional
            The items; sparse rows are made dense. Bring features to comparable scales, or use a
            length-scale for each. A frame may name the items, in its only column of text or its
            index. Without X, the items are those of the named comparisons, without features.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; by default all items form one
            query.
        sample_weight : (n_items,), optional
            With `y`: how often each item counts. The weight of a comparison is the product of the
            weights of its items.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first. They may repeat and contradict
            each other. Or comparisons by name, as in `rankwise.io.read_comparisons`: a frame, rows
            (winner, loser) or (a, b, who won), with ties, counts, weights, margins, judges,
            covariates and, for ``drift=True``, dates in columns. The effect of each covariate is
            learned with the scores: a difference of scores is f_first - f_second +
            effects @ covariates.
        tied : (n_tied, 2), optional
            With `pairs`: comparisons with the answer "no preference".
        tied_weight : (n_tied,), optional
            How often each of these was recorded, any number; by default once.
        pair_margin : (n_pairs,), optional
            By how much each winner leads, for the likelihood "gaussian"; 1 by default.
        pair_weight : (n_pairs,), optional
            How often each comparison was recorded, any number; by default once. A weight below
            1 counts as the likelihood to that power.
        judge : (n_pairs,), optional
            Who gave each answer, by names of any type. How reliable each judge is, and how often
            each ties, is learned with the scores and reported in ``judges_``. Comparisons by name
            may have a column of judges instead.
        tied_judge : (n_tied,), optional
            Who gave each of the answers `tied`.
        date, tied_date : (n_pairs,), (n_tied,), optional
            When the answers were given, as dates or numbers of days; with ``drift=True``.
        first : bool
            With comparisons by name or a `ComparisonTable`: whether to learn the effect of being
            the first of the two shown.
        persons : frame, or mapping of names to rows of numbers, optional
            With ``tastes``: features of the judges, named by the index or by the only column of
            text. Persons with similar features then have similar tastes, and those without answers
            get an order too. Judges without features count as average persons.
        """
        given = checked(self)
        if X is None and pairs is None:
            raise InvalidInputError(
                "`fit` must be given items `X`, or comparisons by name (`pairs`): got neither."
            )
        X, y, qid, sample_weight = read_scored(self, X, y, qid, sample_weight)
        names, X = read_items(X)
        beside = tied, tied_weight, pair_margin, pair_weight, judge, tied_judge, date, tied_date
        columns = dict(zip(COLUMNS, beside, strict=True))
        if pairs is not None and (X is None or not are_positions(pairs)):
            known = self._known_names(names, X)
            answers = GivenAnswers.by_name(pairs, known, first=first, **columns)
        else:
            answers = GivenAnswers.by_row(names, pairs, first=first, **columns)
        has_features = X is not None
        if X is None and answers.names is not None:
            X = np.eye(len(answers.names))
        rows = self._check_rows(X)
        given._check_terms(answers, persons)
        answers.refuse_unread(given.likelihood)
        data = answers.data(len(rows), y, qid, sample_weight)
        traits = None if persons is None else PersonTraits.of(persons)
        self.interactions_ = None
        if given.interactions:
            self.interactions_, answers = found_interactions(
                given, rows, answers, has_features=has_features
            )
        self._condition(best_process(given, rows, data, answers, traits, has_features=has_features))
        self.item_names_, self.judge_names_ = answers.names, answers.judges
        if traits is not None:
            self.judge_names_ = names_after(answers.judges, traits.names)
        self.merges_equal_rows_ = merges_equal_rows(given, is_scored=data.is_scored)
        self.n_ignored_queries_ = n_queries_without_preference(data, given.ties)
        self._remember(data)
        return self

    def _check_terms(self, answers: GivenAnswers, persons: Any) -> None:
        """Refuse terms that cannot be combined."""
        if (self.drift or self.intransitive) and self.basis is not None:
            raise InvalidInputError(
                "`drift` and `intransitive` must be used without `basis`, whose rows are single "
                "items without dates: got both."
            )
        if not self.tastes and persons is not None:
            raise InvalidInputError(
                "`persons` must come with tastes=True: otherwise all persons share one order, "
                "whatever their features."
            )
        if not self.tastes:
            return
        self._refuse_anonymous(answers)
        others = {
            "drift": self.drift,
            "intransitive": self.intransitive,
            "basis": self.basis is not None,
            "method='laplace'": self.method == "laplace",
            "device": self.device is not None,
        }
        given = [name for name, is_given in others.items() if is_given]
        if given:
            raise InvalidInputError(
                f"`tastes` must be used without {', '.join(given)}: got both. Leave one of them "
                "out."
            )

    def _refuse_anonymous(self, answers: GivenAnswers) -> None:
        if answers.are_anonymous:
            raise InvalidInputError(
                "`tastes` must come with answers that say who gave them: give `judge` (and "
                "`tied_judge`), or name the column of the judges."
            )

    def _known_names(self, names: NDArray[Any] | None, X: Any) -> NDArray[Any] | None:
        """Return the names of the rows of X, or their numbers; None without X."""
        if names is not None or X is None:
            return names
        try:
            return np.arange(np.shape(X)[0])
        except (IndexError, ValueError) as error:
            raise InvalidInputError(
                f"`X` must have rows of one length that are compared: got {type(X).__name__}."
            ) from error

    # What was learned

    @property
    def _process(self) -> Process:
        """The process given all answers: what quick updates postponed is completed here."""
        check_is_fitted(self)
        live = self._live
        if live is not None and live.comparisons is not self.process_.comparisons:
            self.process_ = self.process_.model.given(live.comparisons, (live.tau, live.nu))
        return self.process_

    def __getstate__(self) -> Any:
        """Complete the posterior before it is copied or saved; live scores are dropped."""
        if self._live is not None:
            _ = self._process
        return {k: v for k, v in super().__getstate__().items() if k != "_live"}

    @property
    def _model(self) -> Model:
        check_is_fitted(self)
        return self.process_.model

    @property
    def _recorded(self) -> Comparisons:
        """All answers so far."""
        return self.process_.comparisons if self._live is None else self._live.comparisons

    @property
    def posterior_(self) -> Posterior:
        """The Gaussian posterior given all answers."""
        return self._process.posterior

    @property
    def log_marginal_likelihood_(self) -> float:
        """Log of the approximate probability of the answers, without the hyperprior."""
        return self.posterior_.log_evidence

    @property
    def terms_(self) -> tuple[Term, ...]:
        """What explains an answer."""
        return self._model.terms

    @property
    def kernel_(self) -> ParametricKernel:
        """The kernel of the scores."""
        return self._model.kernel

    @property
    def likelihood_(self) -> Likelihood:
        """The likelihood of an answer."""
        return self._model.likelihood

    @property
    def X_train_(self) -> FloatArray:  # noqa: N802
        """The items."""
        return self._model.X

    @property
    def basis_rows_(self) -> FloatArray:
        """The features of the rows that prediction needs."""
        return self._process.rows[:, : self.n_features_in_]

    @property
    def drift_(self) -> tuple[float, float, float] | None:
        """How much is forgotten, within which time, and the time between the answers."""
        drift = self._model.term(Drift)
        return None if drift is None else (drift.drift, drift.drift_time, drift.usual_time)

    @property
    def taste_share_(self) -> float | None:
        """The share of the variance of a person's scores that is their own taste."""
        shares = [report for _, report in self._model.reports() if "taste_share" in report]
        return shares[0]["taste_share"] if shares else None

    @property
    def effects_(self) -> tuple[Effect, ...]:
        """The effect of each covariate of an answer, with 90 % intervals."""
        effects = self._model.term(Effects)
        if effects is None:
            return ()
        n_effects = len(effects.effects)
        second = np.tile(self._rows_to_compare(None)[:1], (n_effects, 1))
        first = second.copy()
        first[:, self._model.columns(Effects)] = np.eye(n_effects)
        mean, variance = self._process.difference(first, second)
        reach = float(ndtri(0.5 + 0.5 * EFFECT_LEVEL)) * np.sqrt(variance)
        ends = zip(effects.effects, mean, mean - reach, mean + reach, effects.usual, strict=True)
        return tuple(Effect(name, *map(float, values)) for name, *values in ends)

    @property
    def judges_(self) -> JudgeReport | None:
        """What is known about judges from all answers so far; None if it is not learned."""
        likelihood = self.likelihood_
        if not isinstance(likelihood, ByJudge) or self.judge_names_ is None:
            return None
        return likelihood.report(self.judge_names_, self._process.cavities())

    # Prediction

    @overload
    def predict(
        self, X: Any = None, qid: ArrayLike | None = None, *, judge: Any = None, date: Any = None
    ) -> FloatArray: ...

    @overload
    def predict(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,
        *,
        return_std: Literal[True],
        judge: Any = None,
        date: Any = None,
    ) -> tuple[FloatArray, FloatArray]: ...

    @overload
    def predict(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,
        *,
        return_cov: Literal[True],
        judge: Any = None,
        date: Any = None,
    ) -> tuple[FloatArray, FloatArray]: ...

    def predict(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,  # noqa: ARG002
        *,
        return_std: bool = False,
        return_cov: bool = False,
        judge: Any = None,
        date: Any = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean score of every row of X, and optionally its uncertainty.

        A common shift of all scores cannot be learned from comparisons and adds to the standard
        deviation; `predict_pair` and `rank_distribution` do not depend on it.

        Parameters
        ----------
        X : (n_items, n_features) or (n_items,) of names
            Rows to score, or names (row numbers, without names) of items of `fit`; by default all
            of these. A row that is an item of `fit` but for rounding is this item.
        qid : (n_items,), optional
            Ignored: every row is scored by itself.
        return_std, return_cov : bool
            Whether to return the standard deviations (n_items,), or the covariance
            (n_items, n_items), as well.
        judge : name, optional
            With ``tastes``: whose scores; by default the common ones. A person unknown to `fit`
            gets the common scores too, with more uncertainty.
        date : (n_items,) or a date, optional
            With ``drift``: the date of the scores; by default the last date of `fit`.

        Returns
        -------
        scores : (n_items,)
        std or cov : optional
        """
        refuse_std_and_cov(return_std, return_cov)
        rows, process = self._at_date(self._rows_to_predict(X), date), self._process
        found: FloatArray | tuple[FloatArray, FloatArray]
        if judge is not None:
            scores, covariance = process.joint_of_person(rows, self._person(judge))
            std = np.sqrt(covariance.diagonal())
            found = (scores, covariance) if return_cov else (scores, std) if return_std else scores
        elif return_cov:
            found = process.joint(rows)
        else:
            scores = process.mean(rows)
            found = (scores, process.deviations(rows)) if return_std else scores
        return as_given(found, X)

    @overload
    def rank(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        judge: Any = None,
        as_frame: Literal[False] = False,
        items: ArrayLike | None = None,
    ) -> NDArray[Any]: ...

    @overload
    def rank(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        judge: Any = None,
        as_frame: Literal[True],
        items: ArrayLike | None = None,
    ) -> DataFrame: ...

    @overload
    def rank(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        judge: Any = None,
        as_frame: bool,
        items: ArrayLike | None = None,
    ) -> Any: ...

    def rank(
        self,
        X: Any = None,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        judge: Any = None,
        as_frame: bool = False,
        items: ArrayLike | None = None,
    ) -> Any:
        """Return the rows in ranked order: query by query, best first.

        Parameters
        ----------
        X : (n_items, n_features) or (n_items,) of names, optional
            Rows to rank, or names of items of `fit`; by default all of these.
        qid : (n_items,), optional
            The query of each row; by default all rows form one ranking.
        k : int, optional
            Keep only the best k of each query.
        judge : name, optional
            With ``tastes``: whose order; by default the common one.
        as_frame : bool
            Return a frame with query, item, rank and score, in that order of rows: of the library
            that X is a frame of, pandas by default.
        items : (n_items,), optional
            The names of the items in the frame; by default row numbers.

        Returns
        -------
        order : (n_ranked,)
            Row numbers; or names, if items of `fit` have names and X is omitted or holds names.
            Queries are in order of first appearance, items of equal score in the order of the rows.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> votes = {"a": ["tea"] * 4, "b": ["milk"] * 4, "winner": ["tea", "tea", "milk", "milk"]}
        >>> votes["judge"] = ["ann", "ann", "bob", "bob"]
        >>> PreferenceGP(tastes=True).fit(pairs=votes).rank(judge="bob")
        array(['milk', 'tea'], dtype='<U4')
        """
        check_is_fitted(self)
        names = self._names_of(X)
        if judge is None and X is not None and names is None:
            return super().rank(X, qid, k, as_frame=as_frame, items=items)
        check_flag("as_frame", as_frame)
        if as_frame and items is None:
            items = names
        qid, items = map(on_host, read_columns(X, qid=qid, items=items))
        scores = on_host(self.predict(X, judge=judge))
        order = self._in_order(X, scores, qid, k, as_frame=as_frame, items=items)
        return as_given(order if as_frame or names is None else names[order], X)

    def predict_pair(
        self,
        X1: Any,
        X2: Any,
        *,
        noisy: bool = True,
        covariates: Mapping[str, ArrayLike] | None = None,
        judge: Any = None,
        date: Any = None,
    ) -> FloatArray:
        """Return the probability that each row of X1 beats the same row of X2.

        Parameters
        ----------
        X1, X2 : (n_pairs, n_features) or (n_pairs,) of names
            The items to compare: rows, or names (row numbers) of items of `fit`; a single name is
            one pair.
        noisy : bool
            True for the probability of a recorded answer, with its noise and possible flip; False
            for that of the scores themselves.
        covariates : dict of (n_pairs,), optional
            Covariates, positive in favour of the first item, by the names of ``effects_``. For an
            answer the default is what they were in all comparisons, if that was one number (the
            first item is shown first, or plays at home); else it is 0.
        judge : (n_pairs,) or a name, optional
            Who will answer. By default, and for those unknown to `fit`, one of the judges, drawn by
            their numbers of answers; with ``tastes`` a person about whom nothing is known.
        date : (n_pairs,) or a date, optional
            With ``drift``: the date of the answer; by default the last date of `fit`.

        Returns
        -------
        probability : (n_pairs,)
            Or (n_pairs, 3) after a fit with ties, for answers: win, tie and loss.

        Notes
        -----
        ``noisy=False`` is [TH10] (11); a recorded answer has noise as well.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> X = [[0.0], [1.0], [2.0]]
        >>> gp = PreferenceGP(tie_width=0.5).fit(X, pairs=[[2, 0]], tied=[[0, 1]])
        >>> gp.predict_pair(X[:1], X[2:]).shape
        (1, 3)
        """
        check_flag("noisy", noisy)
        first, second = self._rows_to_compare(X1), self._rows_to_compare(X2)
        if len(first) != len(second):
            raise InvalidInputError(
                "`X1` and `X2` must have the same number of rows, one pair each: got "
                f"{len(first)} and {len(second)}."
            )
        first, second = (self._at_date(rows, date) for rows in (first, second))
        first = self._with_values(first, covariates, use_usual=noisy)
        self._face_to_face(first, second)
        if self._model.term(Tastes) is not None:
            persons = self._persons(judge, len(first), NEW_PERSON if noisy else NOBODY)
            mean, variance = self._process.difference_by_person(first, second, persons)
            judge = None
        else:
            mean, variance = self._process.difference(first, second)
        if noisy:
            who = self._judge_codes(judge, len(first))
            return self._answer_probabilities(mean, variance, who)
        return np.asarray(ndtr(mean / np.sqrt(np.maximum(variance, 1e-200))))  # [TH10] eq. (11)

    def _at_date(self, rows: FloatArray, date: Any) -> FloatArray:
        """Move numbered rows to another date."""
        if date is None:
            return rows
        if self._model.term(Drift) is None:
            raise InvalidInputError(
                "`date` needs scores that change with time: fit with drift=True and dates, or "
                "leave it out."
            )
        rows = rows.copy()
        dates = as_days(np.broadcast_to(np.asarray(date), (len(rows),)), len(rows))
        rows[:, self._model.columns(Drift)] = dates[:, None]
        return rows

    def _answer_probabilities(
        self, mean: FloatArray, variance: FloatArray, who: IntArray
    ) -> FloatArray:
        """Return the probabilities of recorded answers; unknown judges are a mixture of all."""
        likelihood = self.likelihood_
        found = likelihood.answer_probabilities(mean, variance, Outcomes(judge=who))
        unknown = np.flatnonzero(who == 0)
        if not isinstance(likelihood, ByJudge) or len(unknown) == 0:
            return found
        n_answers = sum_by(self._recorded.judges, self._recorded.count, likelihood.n_judges + 1)
        if not n_answers[1:].any():  # the answers of all judges were taken back
            return found
        share = n_answers[1:] / n_answers[1:].sum()
        mixed = np.zeros_like(found[unknown])
        for judge in np.flatnonzero(share > 0.0).tolist():
            one = Outcomes(judge=np.full(len(unknown), judge + 1))
            own = likelihood.answer_probabilities(mean[unknown], variance[unknown], one)
            mixed += share[judge] * own
        found[unknown] = mixed
        return found

    def _judge_codes(self, judge: Any, n_pairs: int) -> IntArray:
        """Return who answers, counted from 1; 0 for judges who are not known."""
        if judge is None:
            return np.zeros(n_pairs, dtype=np.intp)
        names = np.asarray(judge, dtype=object).ravel().tolist()
        if self.judge_names_ is None or len(names) not in (1, n_pairs):
            raise InvalidInputError(
                "`judge` must be one of the judges of `fit`, which must be given there, or one for "
                f"each of the {n_pairs} pairs: got {shown(judge)}."
            )
        place = {name: code for code, name in enumerate(self.judge_names_.tolist(), 1)}
        codes = [place.get(name, 0) if isinstance(name, Hashable) else 0 for name in names]
        return np.broadcast_to(codes, (n_pairs,)).astype(np.intp)

    def _person(self, judge: Any) -> int:
        """Return the number of a person."""
        if self._model.term(Tastes) is None:
            raise InvalidInputError(
                "`judge` needs persons with their own scores: fit with tastes=True, or leave "
                "it out."
            )
        (number,) = self._persons(judge, 1, NOBODY).tolist()
        return int(number)

    def _persons(self, judge: Any, n_pairs: int, default: int) -> IntArray:
        """Return the numbers of persons, one for each pair."""
        if judge is None:
            return np.full(n_pairs, default)
        names = np.asarray(judge, dtype=object).ravel().tolist()
        if len(names) not in (1, n_pairs):
            raise InvalidInputError(
                f"`judge` must be one person, or one for each of the {n_pairs} pairs: got "
                f"{len(names)}."
            )
        known = [] if self.judge_names_ is None else self.judge_names_.tolist()
        place = {name: number for number, name in enumerate(known, 1)}
        try:
            numbers = [place.get(name, NEW_PERSON) for name in names]
        except TypeError as error:
            raise InvalidInputError(f"`judge` must be the name of a person: {error}.") from error
        return np.broadcast_to(numbers, (n_pairs,))

    def _with_values(
        self,
        rows: FloatArray,
        covariates: Mapping[str, ArrayLike] | None,
        *,
        use_usual: bool,
    ) -> FloatArray:
        """Give numbered rows the values of covariates; the usual ones for those not given."""
        covariates = {} if covariates is None else covariates
        if not isinstance(covariates, Mapping):
            raise InvalidInputError(
                "`covariates` must be a dictionary of values by name: got "
                f"{type(covariates).__name__}."
            )
        effects, start = self._model.term(Effects), self._model.columns(Effects).start
        known, rows = () if effects is None else effects.effects, rows.copy()
        if effects is not None and use_usual:
            rows[:, self._model.columns(Effects)] = effects.usual
        for name, values in covariates.items():
            if name not in known:
                raise InvalidInputError(
                    f"`covariates` must be among those with known effects, {list(known)}: got "
                    f"{name!r}."
                )
            rows[:, start + known.index(name)] = values
        return rows

    def suspect_answers(self, n: int | None = None) -> list[dict[str, Any]]:
        """Return the answers with a winner that are most suspect, worst first.

        Parameters
        ----------
        n : int, optional
            Number of answers; by default all.

        Returns
        -------
        rows : list of dict
            ``winner``, ``loser``, ``judge`` (None if unknown), ``times`` and ``probability``: the
            probability, given all other answers, that the answer was given at random by a careless
            judge, or recorded the wrong way round.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> games = [("ann", "bob"), ("bob", "cid"), ("ann", "cid")] * 20 + [("cid", "ann")]
        >>> worst = PreferenceGP().fit(pairs=games).suspect_answers(1)[0]
        >>> worst["winner"], worst["loser"]
        ('cid', 'ann')
        """
        check_is_fitted(self)
        check_value("n", n, DrawCount | None)
        known, names = self._recorded, self._labels(None, len(self.X_train_))
        judges = self.judges_
        careless = None if judges is None else judges.careless
        found = self._process.cavities().flipped(self.likelihood_, careless)
        rows = np.flatnonzero(~known.tied)
        rows = rows[np.argsort(-found[rows], kind="stable")][:n]
        ends = np.stack([known.winner[rows], known.loser[rows]])
        winner, loser = names[self._model.shown.item[ends]].tolist()
        who = [None, *([] if self.judge_names_ is None else self.judge_names_.tolist())]
        return [
            {
                "winner": winner[place],
                "loser": loser[place],
                "judge": who[known.judges[row]],
                "times": float(known.count[row]),
                "probability": float(found[row]),
            }
            for place, row in enumerate(rows.tolist())
        ]

    def sample(
        self, X: Any = None, n: int = 1, *, judge: Any = None, random_state: Any = None
    ) -> FloatArray:
        """Draw the scores of all rows of X jointly from the posterior.

        Parameters
        ----------
        X : (n_items, n_features)
            The items.
        n : int
            Number of draws.
        judge : name, optional
            Whose scores, with ``tastes``; by default the common ones.
        random_state : int, RandomState or None
            Source of the draws.

        Returns
        -------
        draws : (n, n_items)
        """
        check_value("n", n, DrawCount)
        rows, rng = self._rows_to_predict(X), generator(random_state)
        if judge is not None:
            return self._process.draws_of_person(rows, self._person(judge), n, rng)
        return self._process.draws(rows, n, rng)

    def rank_distribution(
        self,
        X: Any = None,
        *,
        n_draws: int = 2000,
        judge: Any = None,
        random_state: Any = None,
    ) -> RankDistribution:
        """Return the distribution of the ranks of the rows of X, from draws of the scores.

        Parameters
        ----------
        X : (n_items, n_features)
            The items.
        n_draws : int
            Number of draws; probabilities are accurate to about ``0.5 / sqrt(n_draws)``.
        judge : name, optional
            Whose scores, with ``tastes``; by default the common ones.
        random_state : int, RandomState or None
            Source of the draws.

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
        draws = self.sample(X, n_draws, judge=judge, random_state=random_state)
        return RankDistribution.from_draws(draws)

    def leaderboard(
        self,
        X: Any = None,
        *,
        level: float = 0.9,
        n_draws: int = 2000,
        judge: Any = None,
        random_state: Any = None,
    ) -> Leaderboard:
        """Return the items in order, with intervals of scores and ranks.

        Parameters
        ----------
        X : (n_items, n_features) or (n_items,) of names, optional
            The items; by default those of `fit`.
        level : float
            Probability of the intervals.
        n_draws : int
            Number of draws from which ranks are counted.
        judge : name, optional
            Whose order, with ``tastes``; by default the common one.
        random_state : int, RandomState or None
            Source of the draws.
        """
        check_value("level", level, Share)
        check_value("n_draws", n_draws, DrawCount)
        rows = self._rows_to_predict(X)
        score, covariance = self.predict(X, return_cov=True, judge=judge)
        covariance = covariance - covariance.mean(axis=0)
        covariance = covariance - covariance.mean(axis=1)[:, None]
        draws = self.sample(X, n_draws, judge=judge, random_state=random_state)
        parameters = self.likelihood_.parameters
        scale = 1.0 / np.sqrt(parameters["noise"])
        return Leaderboard.of(
            self._labels(X, len(rows)),
            scale * score,
            scale * np.sqrt(np.maximum(covariance.diagonal(), 0.0)),
            RankSpread.of_draws(draws, level),
            self._answers_of(X, len(rows), None if judge is None else self._person(judge)),
            level,
            width=scale * parameters.get("tie_width", 0.0),
            flip_rate=parameters.get("flip_rate", 0.0),
            link=self.likelihood_.link,
            covariance=scale**2 * covariance,
            effects=tuple(one.scaled(scale) for one in self.effects_),
            judges=self.judges_,
            reading_=() if self.interactions_ is None else (str(self.interactions_),),
        )

    # Questions

    def suggest(
        self,
        X: Any = None,
        n: int = 1,
        *,
        goal: Goal = "order",
        k: int | None = None,
        until: float | None = None,
        candidates: ArrayLike | None = None,
        balance: int | None = 3,
        random_state: Any = None,
    ) -> IntArray:
        """Choose the comparisons whose answers help most, best first.

        Parameters
        ----------
        X : (n_items, n_features) or (n_items,) of names, optional
            The items to compare; by default those of `fit`.
        n : int
            Number of comparisons; those of a batch do not ask for the same information twice.
        goal : {"order", "best", "top"}
            Whether to learn the whole order (largest expected information), to find the best item
            (largest expected score of the winner), or to find the best k (information, weighted by
            the doubt whether an item is among them).
        k : int, optional
            Number of best items to find, for the goal "top".
        until : float, optional
            Return no questions once the `certainty` of the goal has reached this value.
        candidates : (n_candidates, 2), optional
            The pairs of rows to choose from; by default all of them. Among more than a
            thousand items, those of the best thousand or, for "order", of a thousand drawn at
            random.
        balance : int or None
            For items of `fit`: one question in `balance` is a check, about a pair whose answer
            seems certain. This keeps probabilities calibrated, and ends once few such answers are
            surprising. Items known by name alone are first all asked about once, starting with
            those that have the fewest answers. Half as many questions are then checks, until an
            answer is surprising or items have three answers on average. None asks only informative
            questions.
        random_state : int, RandomState or None
            Source of these draws and of the choice among items with equally few answers. If None,
            the same answers lead to the same questions.

        Returns
        -------
        pairs : (n, 2)
            Row numbers of X; or names, if items of `fit` have names and X is omitted or holds
            names.
        """
        k, n = self._goal_size(goal, k, X), check_value("n", n, Count)
        check_value("until", until, Share | None)
        if until is not None and self.certainty(X, goal=goal, k=k) >= until:
            return np.zeros((0, 2), dtype=np.intp)
        labels = self._names_of(X)
        check_value("balance", balance, Count | None)
        asked, rng = self._asked(X), generator(random_state)
        n_answers = int(self._recorded.count.sum())
        if random_state is None:
            rng = np.random.default_rng(n_answers)
        ends = None
        if candidates is None:
            items = candidate_items(self._means_of(X), goal, rng, max(MAX_ITEMS, 2 * k))
        elif goal == "top":  # the border of the best k is one among all items
            items, ends = np.arange(len(self._means_of(X))), self._candidates(candidates, X)
        else:
            ends = self._candidates(candidates, X)
            is_candidate = np.bincount(ends.ravel()) > 0
            items, ends = np.flatnonzero(is_candidate), (np.cumsum(is_candidate) - 1)[ends]
        mean, covariance = self._joint(X, items)
        noise = self.likelihood_.probit_noise
        even = None
        if balance is not None and asked is not None:
            at = self._positions(X) if np.ndim(X) == 1 else np.arange(len(self.X_train_))
            answers = self._model, self._recorded, self._known_scores(X)
            even = Balance.of(*answers, at, asked, items, balance, rng)
        options: dict[str, Any] = {"goal": goal, "k": k, "noise": noise, "balance": even}
        chosen = items[suggest_pairs(mean, covariance, ends, n, **options)]
        return chosen if labels is None else labels[chosen]

    def _goal_size(self, goal: Goal, k: int | None, X: Any) -> int:
        """Return k, checked: the number of best items to find."""
        check_is_fitted(self)
        check_value("goal", goal, Goal)
        size = check_value("k", k, Count | None) or 1
        if (k is not None) != (goal == "top") and (k is None or size != 1):
            raise InvalidInputError(
                f"`k` and goal='top' must be given together: got goal={goal!r} and k={k!r}."
            )
        n_items = len(self._rows_to_predict(X))
        if size >= n_items:
            raise InvalidInputError(
                f"`k` must be below the number of items, {n_items}: got {size}."
            )
        return size

    def certainty(
        self,
        X: Any = None,
        *,
        goal: Goal = "order",
        k: int | None = None,
        n_draws: int = 2000,
        random_state: Any = 0,
    ) -> float:
        """Return how certain it is that the ranking by mean scores is right.

        Chosen questions say little about how far scores are apart, so the posterior is averaged
        over the amplitude of the kernel, each value weighted by its probability; before any answer,
        scores are expected to be close together. In simulations the certainty at which questions
        end is accurate to one or two per cent if scores spread as much as the noise, and
        conservative if they spread more.

        Parameters
        ----------
        X : (n_items, n_features) or (n_items,) of names, optional
            The items; by default those of `fit`.
        goal : {"order", "best", "top"}
            For "order" the expected share of pairs in the right order; for "best" and "top" the
            probability that the best item, or the best k, are the right ones.
        k : int, optional
            Number of best items, for the goal "top".
        n_draws : int
            Number of draws from which it is estimated.
        random_state : int, RandomState or None
            Source of the draws.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> gp = PreferenceGP().fit(pairs=[("ann", "bob"), ("ann", "cid"), ("bob", "cid")] * 8)
        >>> gp.certainty(goal="best") > 0.8, gp.suggest(goal="best", until=0.8).shape
        (True, (0, 2))
        """
        k = self._goal_size(goal, k, X)
        rng, rows = generator(random_state), self._rows_to_predict(X)
        members, weights = with_amplitudes(self, self._process)
        numbers = rng.multinomial(check_value("n_draws", n_draws, DrawCount), weights)
        draws = [
            member.draws(rows, int(number), rng)
            for member, number in zip(members, numbers, strict=True)
            if number > 0
        ]
        return goal_certainty(self._process.mean(rows), np.concatenate(draws), goal, k)

    def _asked(self, X: Any) -> FloatArray | None:
        """Return how many answers each item has; None if X are not items of `fit`."""
        if X is None or (np.ndim(X) == 2 and np.array_equal(X, self.X_train_)):
            return self._answers_of(None, len(self.X_train_))
        return self._answers_of(X, 0) if np.ndim(X) == 1 else None

    def _candidates(self, candidates: ArrayLike, X: Any) -> IntArray:
        return check_pairs(candidates, len(self.X_train_) if X is None else np.shape(X)[0])

    def _means_of(self, X: Any) -> FloatArray:
        live = self._known_scores(X)
        return self._process.mean(self._rows_to_predict(X)) if live is None else live.mean

    def _joint(self, X: Any, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the scores of some rows of X."""
        live = self._known_scores(X)
        if live is None:
            return self._process.joint(self._rows_to_predict(X)[items])
        if len(items) == len(live.mean):
            return live.mean, live.covariance
        return live.mean[items], live.covariance[np.ix_(items, items)]

    def _known_scores(self, X: Any) -> LiveScores | None:
        """Return the stored scores if X are the items of `fit`."""
        check_is_fitted(self)
        known = X is None or (np.ndim(X) == 2 and np.array_equal(X, self.X_train_))
        return self._live_scores() if known else None

    def _live_scores(self) -> LiveScores | None:
        """Return the joint distribution of all scores of `fit`; None if it is not kept."""
        if self._live is None:
            self._live = self._process.live_scores()
        return self._live

    # More answers

    def update(
        self,
        pairs: Any = None,
        *,
        tied: ArrayLike | None = None,
        tied_weight: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        judge: Any = None,
        tied_judge: Any = None,
        date: Any = None,
        tied_date: Any = None,
    ) -> Self:
        """Add answers about the items of `fit`, keeping the parameters learned there.

        The posterior is that of all answers together. For up to 4,000 items only what the answers
        change is computed at once, and the rest when it is read: a question and its answer cost
        O(n_items^2). To learn the parameters again, call `fit` with all answers.

        Parameters
        ----------
        pairs, tied, tied_weight, pair_margin, pair_weight, judge, tied_judge, date, tied_date
            As in `fit`: row numbers of the X given there, or names. Without `pairs`, only ties are
            added. Judges unknown to `fit` count as average judges; with ``tastes`` they are new
            persons. Covariates are those of `fit`; if none are given they are 0, and the first item
            of named comparisons counts as shown first. After a fit without ties, the width within
            which items tie is `tie_width` until the next fit.
        """
        check_is_fitted(self)
        given = pairs, tied, tied_weight, pair_margin, pair_weight
        new = self._new_answers(*given, judge, tied_judge, date, tied_date)
        if new.tied.any() and "tie_width" not in self.likelihood_.parameters:
            return self._admit_ties(new)
        live = self._live_scores()
        live = None if live is None else live.extended(new)
        if live is None:
            process, comparisons = self._process, self._recorded.extend(new)
            sites = process.extended_sites(comparisons)
            return self._condition(process.model.given(comparisons, sites))
        self._live = live
        return self

    def _condition(self, process: Process) -> Self:
        """Keep another process; scores kept between answers are no longer valid."""
        self.process_, self._live = process, None
        return self

    def _admit_ties(self, new: Comparisons) -> Self:
        """Add the first ties; their width is not learned before the next fit."""
        comparisons, known = self._recorded.extend(new), self.likelihood_
        likelihood = starting_likelihood(self, comparisons).replace(**known.parameters)
        if isinstance(known, ByJudge):
            likelihood = replace(known, base=likelihood)
        model = replace(self._model, likelihood=likelihood)
        return self._condition(model.given(comparisons))

    def forget(
        self,
        pairs: Any = None,
        *,
        tied: ArrayLike | None = None,
        tied_weight: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        judge: Any = None,
        tied_judge: Any = None,
        date: Any = None,
        tied_date: Any = None,
    ) -> Self:
        """Take answers back, keeping the parameters learned in `fit`: the opposite of `update`.

        Parameters
        ----------
        pairs, tied, tied_weight, pair_margin, pair_weight, judge, tied_judge, date, tied_date
            As in `update`; each must have been recorded at least that often.
        """
        check_is_fitted(self)
        if self._trees is not None:
            raise InvalidInputError(
                "`forget` must be called without `interactions`, whose trees have learned from "
                "all answers: fit again with those that are left."
            )
        given = pairs, tied, tied_weight, pair_margin, pair_weight
        old = self._new_answers(*given, judge, tied_judge, date, tied_date)
        left, kept = self._recorded.without(old)
        known = self.posterior_ if self._live is None else self._live
        return self._condition(self._model.given(left, (known.tau[kept], known.nu[kept])))

    def _new_answers(self, pairs: Any, *beside: Any) -> Comparisons:
        """Return answers about items of `fit`, given by row numbers or by name."""
        given = dict(zip(COLUMNS, beside, strict=True))
        if pairs is None and given["tied"] is not None:
            pairs = np.zeros((0, 2), dtype=np.intp)
        has_some = pairs is not None and len(entries_of(pairs)) > 0
        named = self.item_names_ is not None and has_some and not are_positions(pairs)
        effects = self._model.term(Effects)
        known = () if effects is None else effects.effects
        known = known if self._trees is None else known[:-1]
        if named or isinstance(pairs, ComparisonTable):
            names = self._labels(None, len(self.X_train_))
            answers = GivenAnswers.by_name(pairs, names, first="first" in known, **given)
        else:
            answers = GivenAnswers.by_row(None, pairs, **given)
        answers = answers.with_effects(known)
        if self._model.term(Tastes) is not None:  # new persons get the next numbers
            self._refuse_anonymous(answers)
            self.judge_names_ = names_after(self.judge_names_, answers.judges)
        answers = answers.coded_as(self.judge_names_)
        answers.refuse_unread(self.likelihood)
        if self._trees is not None:
            pairs = answers.table(answers.data(len(self.X_train_)), self.likelihood).pairs
            answers = with_lead(answers, self._trees.lead(*(self.X_train_[e] for e in pairs.T)))
        merge = DistinctItems.of if self.merges_equal_rows_ else DistinctItems.apart
        table = answers.table(answers.data(len(self.X_train_)), self.likelihood)
        grown, new = table.shown_as(self._model.shown, merge(self.X_train_))
        if grown is not self._model.shown:
            self.process_ = replace(self.process_, model=replace(self._model, shown=grown))
        return new

    # Copies with other persons or parameters

    def with_persons(self, persons: Any) -> Self:
        """Return a copy with the features of further persons, who have not answered yet.

        Parameters
        ----------
        persons
            As in `fit`, with the same features.

        Examples
        --------
        >>> from rankwise import PreferenceGP
        >>> votes = {"a": ["tea"] * 8, "b": ["milk"] * 8, "winner": ["tea", "milk"] * 4}
        >>> votes["judge"] = ["ann", "bob", "cid", "dan"] * 2
        >>> ages = {"ann": [60], "bob": [20], "cid": [70], "dan": [30]}
        >>> gp = PreferenceGP(tastes=True).fit(pairs=votes, persons=ages)
        >>> gp.with_persons({"eve": [65]}).rank(judge="eve")
        array(['tea', 'milk'], dtype='<U4')
        """
        check_is_fitted(self)
        traits = self._model.term(Traits)
        if traits is None or self.judge_names_ is None:
            raise InvalidInputError(
                "`with_persons` needs features of persons: fit with tastes=True and `persons`."
            )
        other = copy(self)
        names = names_after(self.judge_names_, PersonTraits.of(persons).names)
        assert names is not None
        other.judge_names_ = names
        model = self._model.with_term(traits.joined_with(persons, names.tolist()))
        other.process_ = replace(self._process, model=model)
        return other

    def with_length_scale(self, factor: float) -> Self:
        """Return a copy conditioned on the same answers with its length-scales times ``factor``.

        Parameters
        ----------
        factor : float
            Above 0; all other parameters stay as they were learned.
        """
        check_is_fitted(self)
        kernel = self.kernel_
        is_length = np.array([name == "length_scale" for name in kernel.names])
        if not is_length.any():
            raise InvalidInputError(
                "The kernel must have a length-scale, as `SquaredExponential` has: this one is "
                f"{kernel}."
            )
        longer = check_value("factor", factor, Factor)
        theta = kernel.theta + np.log(longer) * is_length
        return copy(self)._condition(self._process.under(self._model.with_kernel(theta)))

    # Rows and names

    def _names_of(self, X: Any) -> NDArray[Any] | None:
        """Return the names of items of `fit` given as X; None for rows, or without names."""
        if self.item_names_ is None:
            return None
        if X is None:
            return self.item_names_
        names = as_array("X", X)
        return names if names.ndim == 1 else None

    def _labels(self, X: Any, n_rows: int) -> NDArray[Any]:
        """Return the names of items: those of `fit`, as given, or row numbers."""
        if X is None and self.item_names_ is not None:
            return self.item_names_
        return np.asarray(X) if X is not None and np.ndim(X) == 1 else np.arange(n_rows)

    def _answers_of(self, X: Any, n_rows: int, person: int | None = None) -> FloatArray:
        """Return the number of answers about each item, by all or one person; 0 for new rows."""
        known = self._recorded
        ends = self._model.shown.item[np.append(known.winner, known.loser)]
        count = known.count if person is None else known.count * (known.judges == person)
        counts = sum_by(ends, np.tile(count, 2), len(self.X_train_))
        if X is None:
            return counts
        return counts[self._positions(X)] if np.ndim(X) == 1 else np.zeros(n_rows)

    def _scores(self, X: FloatArray) -> FloatArray:
        model = self._model
        return self._process.mean(self._in_field(model.numbered(model.recognised(X))))

    def _check_rows(self, X: Any, *, reset: bool = True) -> FloatArray:
        """Return dense rows; ``reset`` is for training rows."""
        with refuse_overflow():
            rows = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=np.float64,
                order="C",
                ensure_min_samples=2 if reset else 1,
            )
        return dense_rows(rows)

    def _rows_to_predict(self, X: Any) -> FloatArray:
        """Return numbered rows by themselves, from rows of features or names of items of `fit`."""
        return self._in_field(self._rows_to_compare(X))

    def _rows_to_compare(self, X: Any) -> FloatArray:
        """Return the same with covariates of 0."""
        check_is_fitted(self)
        if X is None:
            return self._model.rows_at(np.arange(len(self.X_train_)))
        if isinstance(X, str):
            X = [X]
        if _are_names(X):
            return self._model.rows_at(self._positions(on_host(X)))
        known = known_features(X, vars(self).get("feature_names_in_"))
        names, features = read_items(on_host(known))
        model, given = self._model, self._check_rows(features, reset=False)
        rows = model.numbered(model.recognised(given))
        return rows if names is None else self._with_names(rows, names)

    @property
    def _trees(self) -> PairTrees | None:
        """The trees that take part in answers."""
        return None if self.interactions_ is None else self.interactions_.trees

    def _in_field(self, rows: FloatArray) -> FloatArray:
        """Give numbered rows their mean lead by the trees, if any take part."""
        found = self.interactions_
        if found is not None and found.trees is not None:
            X = rows[:, : self.n_features_in_]
            column = self._model.columns(Effects).stop - 1
            is_known = np.array_equal(X, self.X_train_)
            rows[:, column] = found.mean_lead if is_known else found.trees.mean_lead(X)
        return rows

    def _face_to_face(self, first: FloatArray, second: FloatArray) -> None:
        """Give numbered rows the lead of each pair by the trees, if any take part."""
        if self._trees is not None:
            column, n = self._model.columns(Effects).stop - 1, self.n_features_in_
            first[:, column] = self._trees.lead(first[:, :n], second[:, :n])

    def _with_names(self, rows: FloatArray, names: NDArray[Any]) -> FloatArray:
        """Distinguish items with equal features in numbered rows by their names."""
        copies = self._model.copies
        if copies is None or self.item_names_ is None:
            return rows
        place = {name: at for at, name in enumerate(self.item_names_.tolist())}
        at = np.array([place.get(name, -1) for name in names.tolist()])
        n_features = self.X_train_.shape[1]
        is_same = (at >= 0) & np.all(rows[:, :n_features] == self.X_train_[at], axis=1)
        rows[is_same, n_features] = copies[at[is_same]]
        return rows

    def _positions(self, names: Any) -> IntArray:
        """Return the positions of items of `fit`, given by their names or row numbers."""
        known = self.item_names_
        labels = np.arange(len(self.X_train_)) if known is None else known
        return positions_of(names, labels.tolist(), f"the {len(labels)} items of `fit`")


@scoring_function.register
def _formula(ranker: PreferenceGP) -> ScoringFunction:
    """Return the mean of the process as a formula, for files that other engines read."""
    process = ranker._process
    if ranker._trees is not None:
        raise InvalidInputError(
            "A formula of scores needs a process without trees of pairs: fit with "
            "interactions=False to explain or export scores."
        )
    weights = process.weights
    function = unscaled_function(ranker, ranker.kernel_, ranker.basis_rows_, weights)
    return replace(function, known=process.known_rows)
