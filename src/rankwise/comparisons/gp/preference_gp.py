"""Gaussian processes on comparisons: rankings that state their uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process.kernels import Kernel as SklearnBase

from rankwise.comparisons.gp.answers import (
    DistinctItems,
    EqualRows,
    LikelihoodName,
    NamedAnswers,
    ShownItems,
    choose_likelihood,
    n_queries_without_preference,
    recorded_comparisons,
    refuse_unread,
    scored_comparisons,
    shown_comparisons,
)
from rankwise.comparisons.gp.context import (
    AnswerContext,
    PersonTraits,
    answer_context,
    refuse_anonymous,
    with_context,
)
from rankwise.comparisons.gp.evidence import (
    Approximation,
    Bounds,
    HyperpriorName,
    Inference,
    SiteParameters,
    most_probable,
)
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.judges import ByJudge, learnt_judges
from rankwise.comparisons.gp.live_process import LiveProcess
from rankwise.core.arrays import FloatArray
from rankwise.core.checks import (
    check_choice,
    check_count,
    check_positive,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.features.covariances import (
    ITEM_EFFECT_MEDIAN,
    ParametricKernel,
    Scaled,
    SklearnKernel,
    SquaredExponential,
)
from rankwise.features.function_space import choose_basis
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.graph.preference_graph import Ties as TieRule
from rankwise.io.comparisons import are_positions, read_comparisons, read_items
from rankwise.rankers.base import generator
from rankwise.rankers.reading import read_scored

MAX_SEARCHED = 400
"""Items up to which parameters are searched for with all of them."""

MAX_STARTS = 10_000
"""Starting points of the search for parameters, at most."""

N_SEARCH_ROWS = 150
"""Rows through which the kernel is approximated in the search where there are more."""

EFFECT_SHARE = 1.0 / 3.0
"""Prior deviation of what a usual value of a covariate is worth, as a share of the scores'."""

JUDGE_ROUNDS, JUDGE_STEPS, JUDGE_TOL = 6, 20, 0.02
"""How often judges and other parameters are learned in turn at most, steps of the search for the
latter, and the change of judges' logarithms below which they are settled."""

CYCLE_EVIDENCE = 2.0
"""By how much the logarithm of the evidence must rise for cycles to be believed in."""

MAX_DATED = 600
"""Items, each counted at every date, up to which dates are kept apart."""

MAX_OWN = 5000
"""Items up to which a posterior through a basis keeps the item effect of every item."""

GivenKernel: TypeAlias = str | Kernel | SklearnBase | Callable[[Any, Any], Any] | None


def choose_kernel(kernel: GivenKernel, amplitude: float) -> ParametricKernel:
    """Return the given kernel, or the default one of this amplitude."""
    if kernel is None:
        return SquaredExponential(amplitude, "per_feature", ITEM_EFFECT_MEDIAN)
    if isinstance(kernel, SklearnBase):
        return SklearnKernel(kernel)
    known = as_kernel(kernel)
    if not known.is_function:
        raise InvalidInputError(
            "`kernel` must be a function of rows, since prediction needs the variance of new "
            "items: a precomputed kernel has none."
        )
    return known if isinstance(known, ParametricKernel) else Scaled(known)


@final
class PreferenceGP(LiveProcess):
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
        times the noise, and length-scales of about three standard deviations times the root of the
        number of features, similar for all of them. So answers without noise do not lead to
        overconfidence, and few answers cannot fit a chance pattern of features. With None only the
        evidence counts. scikit-learn's kernels have no hyperprior.
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
        are at most 600 rows.
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
    device : str, optional
        Where sweeps of expectation propagation are computed, as in `RankRLS`; the kernel, its
        factor and its gradient are computed by the CPU.
    random_state : int, RandomState or None
        Source of the draws of comparisons, basis rows and additional starting points.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with all its parameters.
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
    copies_ : (n_items,) or None
        Numbers that distinguish items with equal features; None if there are none.
    basis_rows_ : (n_basis, n_features)
        The rows that prediction needs.
    effects_ : tuple of Effect
        The effects of the covariates of comparisons, with 90 % intervals; empty without covariates.
    cyclic_ : Kernel or None
        The kernel of g, if answers go in circles.
    tastes_ : Kernel or None
        The kernel of g, if persons have their own scores.
    traits_ : Kernel or None
        The kernel of what the features of persons add, if they have any.
    person_traits_ : PersonTraits or None
        The features of persons.
    taste_share_ : float or None
        The share of the variance of a person's scores that is their own taste.
    drift_ : (float, float, float) or None
        With ``drift``: the ratio of the variance of the part that is forgotten to that of the part
        that lasts, the time in days within which it is forgotten, and the days between the first
        and the last answer.
    last_date_ : float or None
        The date of the last answer, in days.
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
    array([0.9])
    """

    def __init__(
        self,
        kernel: GivenKernel = None,
        *,
        likelihood: LikelihoodName = "robust",
        method: Approximation = "ep",
        optimize: bool = True,
        hyperprior: HyperpriorName | None = "weak",
        n_starts: int = 1,
        bounds: Bounds | None = None,
        noise: float | None = None,
        flip_rate: float = 0.02,
        tie_width: float = 0.5,
        ties: TieRule = "drop",
        max_pairs: int | None = 10_000,
        equal_rows: EqualRows | None = None,
        basis: int | ArrayLike | None = None,
        drift: bool = False,
        intransitive: Literal["auto"] | bool = False,
        tastes: bool = False,
        device: str | None = None,
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
        self.equal_rows = equal_rows
        self.basis = basis
        self.drift = drift
        self.intransitive = intransitive
        self.tastes = tastes
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
        self._check_settings()
        if X is None and pairs is None:
            raise InvalidInputError(
                "`fit` must be given items `X`, or comparisons by name (`pairs`): got neither."
            )
        X, y, qid, sample_weight = read_scored(self, X, y, qid, sample_weight)
        names, X = read_items(X)
        answers = NamedAnswers(
            names,
            {
                "pairs": pairs,
                "tied": tied,
                "tied_weight": tied_weight,
                "pair_margin": pair_margin,
                "pair_weight": pair_weight,
            },
        )
        if pairs is not None and (X is None or not are_positions(pairs)):
            known = self._known_names(names, X)
            table = with_context(read_comparisons(pairs, names=known), judge, date)
            context = AnswerContext.of_table(table)
            beside = {"pairs": table, "tied_judge": tied_judge, "tied_date": tied_date}
            given = {**answers.arguments, **beside}
            answers = NamedAnswers.of(known, first=first, **given)
        else:
            context = answer_context(pairs, tied, judge, tied_judge, date, tied_date)
        if first and answers.covariates is None:
            raise InvalidInputError(
                "`first` must come with comparisons by name or a ComparisonTable, which say what "
                "was shown first: got row numbers, winner first."
            )
        has_features = X is not None
        if X is None and answers.names is not None:
            X = np.eye(len(answers.names))
        rows = self._check_rows(X)
        self._check_tastes(context, persons)
        self._set_persons(context, persons)
        data = (rows, y, qid, sample_weight, answers, context)
        self._fit_best(*data, has_features=has_features)
        return self

    def _check_tastes(self, context: AnswerContext, persons: Any) -> None:
        """Refuse options that cannot be combined with tastes."""
        if not self.tastes and persons is not None:
            raise InvalidInputError(
                "`persons` must come with tastes=True: otherwise all persons share one order, "
                "whatever their features."
            )
        if not self.tastes:
            return
        refuse_anonymous(context)
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

    def _set_persons(self, context: AnswerContext, persons: Any) -> None:
        """Store who answered, and the features of persons with or without answers."""
        self.person_traits_ = None if persons is None else PersonTraits.of(persons)
        self.judge_names_ = context.judges
        if self.person_traits_ is not None:
            everyone = AnswerContext(judges=self.person_traits_.names)
            self.judge_names_ = everyone.names_after(context.judges)

    def _fit_best(self, *given: Any, has_features: bool) -> None:
        """Fit with or without cycles, or both, and keep the model that the evidence supports."""
        tried = {"auto": (False, True), True: (True,), False: (False,)}[self.intransitive]
        states = []
        for with_cycles in tried:
            self._condition(*self._fit(*given, has_features=has_features, cycles=with_cycles))
            states.append(dict(vars(self)))
        evidence = [state["log_marginal_likelihood_"] for state in states]
        if len(states) > 1 and evidence[1] < evidence[0] + CYCLE_EVIDENCE:
            self.__dict__.update(states[0])

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

    def _fit(
        self,
        X: FloatArray,
        y: ArrayLike | None,
        qid: ArrayLike | None,
        sample_weight: ArrayLike | None,
        answers: NamedAnswers,
        context: AnswerContext,
        *,
        has_features: bool,
        cycles: bool = False,
    ) -> tuple[Inference, SiteParameters | None]:
        """Find the parameters from checked rows, and then the posterior."""
        given = dict(answers.arguments)
        tied, tied_weight = given.pop("tied"), given.pop("tied_weight")
        refuse_unread(tied, given["pair_margin"], given["pairs"], self.likelihood, tied_weight)
        only_ties = tied is not None and np.size(given["pairs"]) == 0
        if only_ties:
            given = {"pairs": tied}
        data = TrainingData.of(len(X), y, qid, sample_weight, **given)
        if only_ties:
            data = data.without_pairs(np.arange(len(data.comparisons[0])))
        rng = generator(self.random_state)
        items = self._items(X, is_scored=data.is_scored)
        self.shown_ = None
        self.drift_ = self.last_date_ = None
        if self.drift:
            context = self._set_drift(data, tied, context)
        if answers.covariates is None and not self.drift:
            comparisons = self._comparisons(data, tied, tied_weight, items, context, rng)
        else:
            n_effects = 0 if answers.covariates is None else len(answers.covariates.names)
            plain = ShownItems.plain(len(X), n_effects, self.last_date_)
            self.shown_, comparisons = shown_comparisons(
                data, answers, items, plain, self.likelihood, context
            )
        self.X_train_ = X
        self.item_names_ = answers.names
        self.has_features_ = has_features
        self.merges_equal_rows_ = self._rule(is_scored=data.is_scored) == "merged"
        self.copies_ = items.copies()
        basis = None if self.basis is None else choose_basis(self.basis, X, rng)
        self.n_ignored_queries_ = n_queries_without_preference(data, self.ties)
        self._remember(data)
        self._set_effects(answers, comparisons)
        self.duels_ = None
        self.tastes_ = self.traits_ = None
        return self._learn(comparisons, items.rows(data.weight), basis, rng, cycles=cycles)

    def _set_drift(
        self, data: TrainingData, tied: ArrayLike | None, context: AnswerContext
    ) -> AnswerContext:
        """Start a drift over the time between the answers, and round their dates."""
        if data.is_scored or len(context.dates) == 0:
            raise InvalidInputError(
                "`drift` must come with comparisons that have dates: got none. Give `date`, name "
                "the column of the dates, or leave `drift` out."
            )
        ends = data.comparisons[0]
        if tied is not None and np.size(tied):
            ends = np.vstack([ends, np.asarray(tied)])
        self.last_date_ = float(context.dates.max())
        span = float(np.ptp(context.dates)) or 1.0
        self.drift_ = (1.0, span, span)
        return context.rounded(ends, MAX_DATED)

    def _set_effects(self, answers: NamedAnswers, comparisons: Comparisons) -> None:
        """Give every covariate an effect of typical size in its own units."""
        given = answers.covariates
        self.effect_names_ = () if given is None else given.names
        self.effect_deviations_ = ()
        if given is not None:
            likelihood = choose_likelihood(
                self.likelihood, comparisons, self.noise, self.flip_rate, self.tie_width
            )
            usual = EFFECT_SHARE * likelihood.score_deviation(comparisons.margin_scale)
            self.effect_deviations_ = tuple((usual / given.deviations).tolist())

    def _items(self, X: FloatArray, *, is_scored: bool) -> DistinctItems:
        merged = self._rule(is_scored=is_scored) == "merged"
        return DistinctItems.of(X) if merged else DistinctItems.apart(X)

    def _rule(self, *, is_scored: bool) -> EqualRows:
        return self.equal_rows or ("merged" if is_scored else "apart")

    def _comparisons(
        self,
        data: TrainingData,
        tied: ArrayLike | None,
        tied_weight: ArrayLike | None,
        items: DistinctItems,
        context: AnswerContext,
        rng: np.random.Generator,
    ) -> Comparisons:
        if not data.is_scored:
            return recorded_comparisons(data, tied, items, self.likelihood, tied_weight, context)
        return scored_comparisons(
            data,
            items,
            ties=self.ties,
            likelihood=self.likelihood,
            max_pairs=self.max_pairs,
            rng=rng,
        )

    def _learn(
        self,
        comparisons: Comparisons,
        rows: FloatArray,
        basis: FloatArray | None,
        rng: np.random.Generator,
        *,
        cycles: bool,
    ) -> tuple[Inference, SiteParameters | None]:
        """Find the parameters; the scale of the features is that of ``rows``."""
        amplitude = comparisons.margin_scale if self.likelihood == "gaussian" else 1.0
        kernel = self.kernel if self.has_features_ or self.kernel is not None else "linear"
        self.kernel_ = choose_kernel(kernel, amplitude).fitted_to(rows)
        self.cyclic_ = choose_kernel(kernel, amplitude).fitted_to(rows) if cycles else None
        self.tastes_ = choose_kernel(kernel, amplitude).fitted_to(rows) if self.tastes else None
        self.traits_ = None if self.person_traits_ is None else self.tastes_
        self.likelihood_ = choose_likelihood(
            self.likelihood, comparisons, self.noise, self.flip_rate, self.tie_width
        )
        self.basis_ = self._search_basis(comparisons) if basis is None else basis
        searched, sites = self._inference(comparisons), None
        if self.optimize:
            kernel, self.likelihood_, sites = most_probable(
                searched,
                self._covariance,
                self.likelihood_,
                self._alone(self._numbered(rows)),
                rng,
                bounds=self.bounds,
                n_starts=self.n_starts,
                hyperprior=self.hyperprior,
            )
            self._keep_parameters(kernel.theta)
        if self.judge_names_ is not None and not self.tastes:
            sites = self._learn_judges(searched, self._alone(self._numbered(rows)), rng, sites)
        has_own = self.kernel_.own_variance > 0.0 and len(comparisons.items) <= MAX_OWN
        self.basis_ = None if basis is None or has_own else basis
        return self._inference(comparisons), sites

    def _keep_parameters(self, theta: FloatArray) -> None:
        """Store the parameters of the kernel and of the drift around it."""
        n_kernel = len(self.kernel_.theta)
        self.kernel_ = self.kernel_.with_theta(theta[:n_kernel])
        if self.drift_ is not None:
            drift, time = np.exp(theta[n_kernel : n_kernel + 2]).tolist()
            self.drift_ = (drift, time, self.drift_[2])
        if self.cyclic_ is not None:
            self.cyclic_ = self.cyclic_.with_theta(theta[-len(self.cyclic_.theta) :])
        if self.tastes_ is not None:
            self.tastes_ = self.tastes_.with_theta(theta[-len(self.tastes_.theta) :])
        if self.traits_ is not None:
            n_both = n_kernel + len(self.traits_.theta)
            self.traits_ = self.traits_.with_theta(theta[n_kernel:n_both])

    def _learn_judges(
        self,
        inference: Inference,
        rows: FloatArray,
        rng: np.random.Generator,
        sites: SiteParameters | None,
    ) -> SiteParameters | None:
        """Learn about judges and find the other parameters in turn."""
        assert self.judge_names_ is not None
        judges = ByJudge.alike(self.likelihood_, len(self.judge_names_))
        for _ in range(JUDGE_ROUNDS if self.optimize else 0):
            better, sites = learnt_judges(inference, self._covariance, judges, sites)
            kernel, found, sites = most_probable(
                inference,
                self._covariance,
                better,
                rows,
                rng,
                bounds=self.bounds,
                hyperprior=self.hyperprior,
                max_steps=JUDGE_STEPS,
                sites=sites,
            )
            self._keep_parameters(kernel.theta)
            error = judges.distance(better)
            judges = better.replace(**found.parameters)
            if error < JUDGE_TOL:
                break
        self.likelihood_ = judges
        return sites

    def _search_basis(self, comparisons: Comparisons) -> FloatArray | None:
        """Return basis rows for the search for parameters, if there are many items."""
        depends_on_distance = any(name.endswith("length_scale") for name in self.kernel_.names)
        items = comparisons.items
        too_few = len(items) <= MAX_SEARCHED or self.drift_ is not None or self.tastes
        if too_few or self.cyclic_ is not None or not depends_on_distance or not self.optimize:
            return None
        if self.shown_ is not None:
            items = np.unique(self.shown_.item[items])
        n_rows = min(N_SEARCH_ROWS, len(items))
        return self.X_train_[items[np.linspace(0, len(items) - 1, n_rows).astype(np.intp)]]

    def _check_settings(self) -> None:
        check_choice("likelihood", self.likelihood, get_args(LikelihoodName))
        check_choice("method", self.method, get_args(Approximation))
        check_choice("ties", self.ties, get_args(TieRule))
        if self.equal_rows is not None:
            check_choice("equal_rows", self.equal_rows, get_args(EqualRows))
        if self.hyperprior is not None:
            check_choice("hyperprior", self.hyperprior, get_args(HyperpriorName))
        check_positive("tie_width", self.tie_width, "Items closer than this tie; 0.5 is usual.")
        if check_count("n_starts", self.n_starts) > MAX_STARTS:
            raise InvalidInputError(
                f"`n_starts` must be at most {MAX_STARTS:,}: got {self.n_starts}. Each start is a "
                "search for parameters; a few are enough."
            )
        if self.intransitive != "auto" and not isinstance(self.intransitive, bool | np.bool_):
            raise InvalidInputError(
                f"`intransitive` must be True, False or 'auto': got {self.intransitive!r}."
            )
        if (self.drift or self.intransitive) and self.basis is not None:
            raise InvalidInputError(
                "`drift` and `intransitive` must be used without `basis`, whose rows are single "
                "items without dates: got both."
            )
        if self.max_pairs is not None:
            check_count("max_pairs", self.max_pairs)
