"""A Gaussian process between questions: suggestions, more answers, answers taken back."""

from __future__ import annotations

import warnings
from abc import ABC
from dataclasses import replace
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from rankwise.comparisons.gp.answers import (
    AnswerCovariates,
    DistinctItems,
    NamedAnswers,
    choose_likelihood,
    recorded_comparisons,
    refuse_unread,
    shown_comparisons,
    tied_comparisons,
)
from rankwise.comparisons.gp.context import (
    AnswerContext,
    answer_context,
    refuse_anonymous,
    with_context,
)
from rankwise.comparisons.gp.evidence import Inference, SiteParameters
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import LiveScores, sequential_sites
from rankwise.comparisons.gp.process import MOST_DRAWS, ProcessRanker
from rankwise.comparisons.gp.questions import (
    MAX_ITEMS,
    Balance,
    Goal,
    candidate_items,
    goal_certainty,
    suggest_pairs,
)
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import (
    as_array,
    check_choice,
    check_count,
    check_pairs,
    check_share,
    entries_of,
)
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.features.covariances import Hyperprior
from rankwise.io.comparisons import are_positions, read_comparisons
from rankwise.rankers.base import generator

MAX_SEQUENTIAL = 500
"""New comparisons up to which their sites are found one after the other."""

AMPLITUDE_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the amplitude over which certainty is averaged."""

CAUTIOUS_SHARE = 0.2
"""Usual deviation of scores where certainty is told, as a share of that in a search for parameters.
Questions that end once an order seems certain must be right where scores are close to the noise,
too; chosen questions hardly tell whether they are, so the prior decides."""

SURE_DEVIATIONS, MAX_UPSETS = 1.0, 0.08
"""From how many deviations on an answer was expected, and the share of those that came otherwise
up to which chosen questions need no further checks."""

SCARCE = 3.0
"""Answers an item, on average, below which items known by name alone have few."""

MAX_LIVE = 4000
"""Items up to which the joint distribution of all scores is kept between answers."""

FOLLOWING = ("posterior_", "log_marginal_likelihood_", "basis_rows_", "basis_marks_")
"""Attributes that follow from the posterior; after a quick update they are computed when read."""


class LiveProcess(ProcessRanker, ABC):
    """A process that keeps the joint distribution of all scores between answers."""

    _live: LiveScores | None = None

    def __getattr__(self, name: str) -> Any:
        """Compute the posterior of all answers if quick updates have postponed it."""
        live = self._live
        if name == "judges_" and "X_train_" in vars(self):
            self.judges_ = self._judge_report()
            return self.judges_
        if name not in FOLLOWING or live is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._condition(self._inference(live.comparisons), (live.tau, live.nu))
        self._live = live
        return vars(self)[name]

    def __getstate__(self) -> Any:
        """Complete the posterior before it is copied or saved; live scores are dropped."""
        if self._live is not None:
            _ = self.posterior_
        if "X_train_" in vars(self):
            _ = self.judges_
        return {k: v for k, v in super().__getstate__().items() if k != "_live"}

    def _condition(self, inference: Inference, sites: SiteParameters | None) -> Self:
        """Store the posterior; the scores and judges kept before are no longer valid."""
        self._live = None
        self.__dict__.pop("judges_", None)
        return super()._condition(inference, sites)

    @property
    def _recorded(self) -> Comparisons:
        """All answers so far."""
        return super()._recorded if self._live is None else self._live.comparisons

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
        k, n = self._goal_size(goal, k, X), check_count("n", n)
        if until is not None and self.certainty(X, goal=goal, k=k) >= check_share("until", until):
            return np.zeros((0, 2), dtype=np.intp)
        labels = self._names_of(X)
        if balance is not None:
            check_count("balance", balance)
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
            by_name, known = self._is_known_by_name(X, asked), self._asked_pairs(X, items)
            are_scarce = by_name and bool(asked.mean() < SCARCE)
            every = self._period_of_checks(X, balance, are_scarce=are_scarce)
            even = Balance(asked[items], known, every, n_answers, by_name, rng)
        options: dict[str, Any] = {"goal": goal, "k": k, "noise": noise, "balance": even}
        chosen = items[suggest_pairs(mean, covariance, ends, n, **options)]
        return chosen if labels is None else labels[chosen]

    def _goal_size(self, goal: Goal, k: int | None, X: Any) -> int:
        """Return k, checked: the number of best items to find."""
        check_is_fitted(self)
        check_choice("goal", goal, get_args(Goal))
        size = 1 if k is None else check_count("k", k)
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
        members, weights = self._with_amplitudes()
        numbers = rng.multinomial(check_count("n_draws", n_draws, MOST_DRAWS), weights)
        draws = [
            member.posterior_.draws_at(*member._kernel_blocks(rows), int(number), rng)
            for member, number in zip(members, numbers, strict=True)
            if number > 0
        ]
        return goal_certainty(self._mean(rows), np.concatenate(draws), goal, k)

    def _with_amplitudes(self) -> tuple[list[Self], FloatArray]:
        """Return the process with several amplitudes, and their probabilities.

        Amplitudes for which the sites do not converge are left out.
        """
        kernel, members = self.kernel_, []
        is_amplitude = np.array([name.endswith("amplitude") for name in kernel.names])
        if not is_amplitude.any():
            return [self], np.ones(1)
        items = self._recorded.items
        items = items if self.shown_ is None else np.unique(self.shown_.item[items])
        deviation = self.likelihood_.score_deviation(self._recorded.margin_scale)
        prior = Hyperprior.flat(len(kernel.theta))
        if self.hyperprior is not None:
            prior = kernel.hyperprior_on(self.X_train_[items], CAUTIOUS_SHARE * deviation)
        evidence = []
        for factor in AMPLITUDE_FACTORS:
            theta = kernel.theta + np.log(factor) * is_amplitude
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                member = self if factor == 1.0 else self._with_theta(theta)
            if factor == 1.0 or member.posterior_.converged:
                members.append(member)
                evidence.append(member.log_marginal_likelihood_ + prior.log_density(theta))
        return members, softmax(np.array(evidence))

    def _asked(self, X: Any) -> FloatArray | None:
        """Return how many answers each item has; None if X are not items of `fit`."""
        if X is None or (np.ndim(X) == 2 and np.array_equal(X, self.X_train_)):
            return self._answers_of(None, len(self.X_train_))
        return self._answers_of(X, 0) if np.ndim(X) == 1 else None

    def _period_of_checks(self, X: Any, balance: int, *, are_scarce: bool) -> int | None:
        """Return the period of checks among questions; None if surprises are known to be rare.

        While answers are scarce, half as many are spent on checks until one is surprising.
        """
        live = self._known_scores(X)
        if live is None:
            return balance
        n_sure, n_upset = live.sure_answers(SURE_DEVIATIONS)
        if (n_upset + 1.0) / (n_sure + 2.0) <= MAX_UPSETS:
            return None
        return 2 * balance if are_scarce and n_upset == 0.0 else balance

    def _is_known_by_name(self, X: Any, asked: FloatArray) -> bool:
        """Return whether other answers say nothing about the item with the fewest answers.

        This holds if its covariance with all other items is the same. O(n_items n_features).
        """
        rows = self.X_train_ if np.ndim(X) != 1 else self.X_train_[self._positions(X)]
        least = int(np.argmin(asked))
        others = self.kernel_(rows[[least]], rows)[0]
        own, others = others[least], np.delete(others, least)
        return bool(np.ptp(others) <= 1e-9 * own)

    def _asked_pairs(self, X: Any, items: IntArray) -> IntArray:
        """Return the pairs that have answers, as positions in ``items``, which are rows of X."""
        rows = self._positions(X) if np.ndim(X) == 1 else np.arange(len(self.X_train_))
        place = np.full(len(self.X_train_), -1)
        place[rows[items]] = np.arange(len(items))
        ends = np.stack([self._recorded.winner, self._recorded.loser], axis=1)
        pairs = place[ends if self.shown_ is None else self.shown_.item[ends]]
        return pairs[(pairs >= 0).all(axis=1)]

    def _candidates(self, candidates: ArrayLike, X: Any) -> IntArray:
        return check_pairs(candidates, len(self.X_train_) if X is None else np.shape(X)[0])

    def _means_of(self, X: Any) -> FloatArray:
        live = self._known_scores(X)
        return self._mean(self._rows_to_predict(X)) if live is None else live.mean

    def _joint(self, X: Any, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the scores of some rows of X."""
        live = self._known_scores(X)
        if live is None:
            rows = self._rows_to_predict(X)[items]
            return self._mean(rows), self.posterior_.covariance_at(*self._kernel_blocks(rows))
        if len(items) == len(live.mean):
            return live.mean, live.covariance
        return live.mean[items], live.covariance[np.ix_(items, items)]

    def _known_scores(self, X: Any) -> LiveScores | None:
        """Return the stored scores if X are the items of `fit`."""
        check_is_fitted(self)
        known = X is None or (np.ndim(X) == 2 and np.array_equal(X, self.X_train_))
        return self._live_scores() if known else None

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
        options = {"tied_weight": tied_weight, "pair_margin": pair_margin}
        options |= {"judge": judge, "tied_judge": tied_judge}
        options |= {"date": date, "tied_date": tied_date}
        new = self._new_answers(pairs, tied=tied, pair_weight=pair_weight, **options)
        if new.tied.any() and "tie_width" not in self.likelihood_.parameters:
            return self._admit_ties(new)
        live = self._live_scores()
        live = None if live is None else live.extended(new)
        if live is None:
            comparisons = self._recorded.extend(new)
            return self._condition(self._inference(comparisons), self._extended_sites(comparisons))
        self._live = live
        for name in (*FOLLOWING, "judges_"):
            self.__dict__.pop(name, None)
        return self

    def _admit_ties(self, new: Comparisons) -> Self:
        """Add the first ties; their width is not learned before the next fit."""
        comparisons, known = self._recorded.extend(new), self.likelihood_.parameters
        likelihood = choose_likelihood(
            self.likelihood, comparisons, known["noise"], self.flip_rate, self.tie_width
        )
        likelihood = likelihood.replace(**known)
        judges = self._judges
        self.likelihood_ = likelihood if judges is None else replace(judges, base=likelihood)
        return self._condition(self._inference(comparisons), None)

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
        options = {"tied_weight": tied_weight, "pair_margin": pair_margin}
        options |= {"judge": judge, "tied_judge": tied_judge}
        options |= {"date": date, "tied_date": tied_date}
        old = self._new_answers(pairs, tied=tied, pair_weight=pair_weight, **options)
        left, kept = self._recorded.without(old)
        known = self.posterior_ if self._live is None else self._live
        return self._condition(self._inference(left), (known.tau[kept], known.nu[kept]))

    def _new_answers(self, pairs: Any, **options: Any) -> Comparisons:
        """Return answers about items of `fit`, given by row numbers or by name."""
        if pairs is None and options["tied"] is not None:
            pairs = np.zeros((0, 2), dtype=np.intp)
        has_some = pairs is not None and len(entries_of(pairs)) > 0
        named = self.item_names_ is not None and has_some and not are_positions(pairs)
        named = named or isinstance(pairs, ComparisonTable)
        if named:
            names = self._labels(None, len(self.X_train_))
            table = read_comparisons(pairs, names=names)
            table = with_context(table, options.pop("judge"), options.pop("date"))
            context = self._coded(AnswerContext.of_table(table))
            in_order = "first" in self.effect_names_
            given = NamedAnswers.of(names, first=in_order, pairs=table, **options)
            if given.covariates is not None or self.drift_ is not None:
                return self._shown_answers(given, context)
            pairs, options = given.arguments["pairs"], {**given.arguments}
            options.pop("pairs")
        else:
            beside = [options.pop(name) for name in ("judge", "tied_judge", "date", "tied_date")]
            context = self._coded(answer_context(pairs, options["tied"], *beside))
            if self.drift_ is not None:
                return self._shown_answers(NamedAnswers(None, {"pairs": pairs, **options}), context)
        tied, tied_weight = options.pop("tied"), options.pop("tied_weight")
        refuse_unread(tied, options["pair_margin"], pairs, self.likelihood, tied_weight)
        items = self._known_items()
        if tied is not None and np.size(as_array("pairs", pairs)) == 0:
            return tied_comparisons(tied, items, self.likelihood, tied_weight, context)
        data = TrainingData.of(len(self.X_train_), pairs=pairs, **options)
        return recorded_comparisons(data, tied, items, self.likelihood, tied_weight, context)

    def _coded(self, context: AnswerContext) -> AnswerContext:
        """Give judges the numbers of `fit`; with tastes, new persons get the next ones."""
        if self.tastes_ is not None:
            refuse_anonymous(context)
            self.judge_names_ = context.names_after(self.judge_names_)
        return context.coded_as(self.judge_names_)

    def _shown_answers(self, given: NamedAnswers, context: AnswerContext) -> Comparisons:
        """Return answers with covariates, whose items may be shown in new ways."""
        found = given.covariates
        if found is not None and found.names != self.effect_names_:
            raise InvalidInputError(
                f"Covariates must be those of `fit`, {list(self.effect_names_)}: got "
                f"{list(found.names)}."
            )
        if found is None and self.effect_names_:
            rows = [np.shape(given.arguments[name] or ()) for name in ("pairs", "tied")]
            none = [np.zeros((shape[0], len(self.effect_names_))) for shape in rows]
            given = replace(given, covariates=AnswerCovariates(self.effect_names_, *none))
        arguments = {key: given.arguments[key] for key in ("pairs", "pair_margin", "pair_weight")}
        refuse_unread(None, arguments["pair_margin"], arguments["pairs"], self.likelihood)
        data = TrainingData.of(len(self.X_train_), **arguments)
        assert self.shown_ is not None
        items, shown = self._known_items(), self.shown_
        self.shown_, new = shown_comparisons(data, given, items, shown, self.likelihood, context)
        return new

    def _known_items(self) -> DistinctItems:
        merge = DistinctItems.of if self.merges_equal_rows_ else DistinctItems.apart
        return merge(self.X_train_)

    def _live_scores(self) -> LiveScores | None:
        """Return the joint distribution of all scores of `fit`; None if it is not kept."""
        suits = self.basis_ is None and len(self.X_train_) <= MAX_LIVE and self.shown_ is None
        suits = suits and self.cyclic_ is None and self.tastes_ is None
        suits = suits and (self.method == "ep" or self.likelihood_.is_gaussian)
        if self._live is None and suits:
            posterior, rows = self.posterior_, self._rows_to_predict(None)
            self._live = LiveScores(
                self._mean(rows),
                posterior.covariance_at(*self._kernel_blocks(rows)),
                posterior.prior.comparisons,
                posterior.likelihood,
                posterior.tau,
                posterior.nu,
            )
        return self._live

    def _extended_sites(self, comparisons: Comparisons) -> SiteParameters | None:
        """Return sites for all comparisons: the old ones first, then those found for new pairs."""
        posterior = self.posterior_
        n_old = posterior.prior.comparisons.n_pairs
        n_new = comparisons.n_pairs - n_old
        if self.tastes_ is not None:
            more = np.zeros(n_new)
            return np.append(posterior.tau, more), np.append(posterior.nu, more)
        if n_new > MAX_SEQUENTIAL or self.cyclic_ is not None or posterior.likelihood.is_gaussian:
            return None
        if n_new == 0:
            return posterior.tau, posterior.nu
        new = np.arange(n_old, comparisons.n_pairs)
        ends = np.stack([comparisons.winner[new], comparisons.loser[new]])
        items, positions = np.unique(ends, return_inverse=True)
        first, second = positions.reshape(2, n_new)
        K_cross, K_new = self._kernel_blocks(self._training_rows(items))
        mean, covariance = posterior.mean_at(K_cross), posterior.covariance_at(K_cross, K_new)
        D = covariance[first] - covariance[second]
        tau, nu = sequential_sites(
            mean[first] - mean[second],
            D[:, first] - D[:, second],
            comparisons.count[new],
            comparisons.outcomes().take(new),
            posterior.likelihood,
        )
        return np.append(posterior.tau, tau), np.append(posterior.nu, nu)
