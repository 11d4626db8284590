"""A Gaussian process conditioned on answers: scores, probabilities, ranks."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.comparisons.gp.answers import (
    LikelihoodName,
    ShownItems,
)
from rankwise.comparisons.gp.context import AnswerContext, PersonTraits
from rankwise.comparisons.gp.evidence import (
    Approximation,
    HyperpriorName,
    Inference,
    SiteParameters,
)
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.likelihood_base import Likelihood, Outcomes
from rankwise.comparisons.gp.inference.posterior import Posterior, gaussian_draws
from rankwise.comparisons.gp.inference.tastes import (
    MarkedRows,
    group_persons,
    scores_of_person,
)
from rankwise.comparisons.gp.judges import ByJudge, Cavities
from rankwise.comparisons.gp.questions import (
    RankDistribution,
)
from rankwise.comparisons.judges import JudgeReport
from rankwise.comparisons.leaderboard import Effect, Leaderboard, RankSpread
from rankwise.core.arrays import FloatArray, IntArray, copy_numbers, dense_rows, first_equal, sum_by
from rankwise.core.checks import (
    as_array,
    check_count,
    check_flag,
    check_positive,
    check_share,
    positions_of,
    refuse_overflow,
)
from rankwise.core.comparisons.dates import as_days
from rankwise.core.devices import as_device, as_given, on_host
from rankwise.core.errors import InvalidInputError
from rankwise.features.context_covariances import (
    CopiesApart,
    WithCycles,
    WithDrift,
    WithEffects,
    WithTastes,
    WithTraits,
)
from rankwise.features.covariances import ParametricKernel
from rankwise.features.function_space import Expansion
from rankwise.features.known_rows import KnownRows
from rankwise.io.comparisons import read_items
from rankwise.io.frames import known_features, read_columns
from rankwise.rankers.base import Ranker, generator
from rankwise.rankers.scoring_function import ScoringFunction, scoring_function, unscaled_function

MOST_DRAWS = 10_000_000
"""Draws from the posterior at once."""

EFFECT_LEVEL = 0.9
"""Probability of the intervals of effects."""

NOBODY, NEW_PERSON = 0, -1
"""Numbers in place of a person's: for the common scores, and for somebody who has not answered."""

PAIRS_AT_ONCE = 256
"""Pairs of one person that are predicted together."""


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


class ProcessRanker(Ranker, ABC):
    """A ranker whose scores have a joint Gaussian posterior, given its parameters."""

    likelihood: LikelihoodName
    method: Approximation
    hyperprior: HyperpriorName | None
    device: str | None
    flip_rate: float
    tie_width: float
    kernel_: ParametricKernel
    likelihood_: Likelihood
    posterior_: Posterior
    log_marginal_likelihood_: float
    X_train_: FloatArray
    merges_equal_rows_: bool
    copies_: IntArray | None
    item_names_: NDArray[Any] | None
    basis_: FloatArray | None
    basis_rows_: FloatArray
    basis_marks_: FloatArray | None
    effect_names_: tuple[str, ...]
    effect_deviations_: tuple[float, ...]
    shown_: ShownItems | None
    cyclic_: ParametricKernel | None
    duels_: IntArray | None
    tastes_: ParametricKernel | None
    traits_: ParametricKernel | None
    person_traits_: PersonTraits | None
    drift_: tuple[float, float, float] | None
    last_date_: float | None
    judge_names_: NDArray[Any] | None
    judges_: JudgeReport | None

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
        rows = self._at_date(self._rows_to_predict(X), date)
        person = None if judge is None else self._person(judge)
        found = self._predicted(rows, person, return_std=return_std, return_cov=return_cov)
        return as_given(found, X)

    def _predicted(
        self, X: FloatArray, person: int | None, *, return_std: bool, return_cov: bool
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean score of numbered rows, and its uncertainty where it is asked for."""
        if person is not None:
            scores, covariance = self._joint_of_person(X, person)
            if return_cov:
                return scores, covariance
            return (scores, np.sqrt(covariance.diagonal())) if return_std else scores
        scores = self._mean(X)
        if return_cov:
            return scores, self.posterior_.covariance_at(*self._kernel_blocks(X))
        if not return_std:
            return scores
        X = self._alone(X)
        K_cross = self._covariance(self._basis, X)
        variance = self.posterior_.variance_at(K_cross, self._covariance.diagonal(X))
        return scores, np.sqrt(variance)

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
            Return a pandas data frame with query, item, rank and score, in that order of rows.
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
        order = self._in_order(scores, qid, k, as_frame=as_frame, items=items)
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
            Covariates, positive in favour of the first item, by the names of ``effects_``; 0 by
            default.
        judge : (n_pairs,) or a name, optional
            Who will answer, among the judges of `fit`; by default a random judge. With ``tastes``
            anyone else is a person about whom nothing is known.
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
        first, second = self._rows_to_predict(X1), self._rows_to_predict(X2)
        if len(first) != len(second):
            raise InvalidInputError(
                "`X1` and `X2` must have the same number of rows, one pair each: got "
                f"{len(first)} and {len(second)}."
            )
        first, second = (self._at_date(rows, date) for rows in (first, second))
        first = self._with_values(first, covariates)
        if self.tastes_ is not None:
            default = NEW_PERSON if noisy else NOBODY
            mean, variance = self._difference_by_person(first, second, judge, default)
            judge = None
        else:
            mean, variance = self._difference(first, second)
        if noisy:
            who = self._judge_codes(judge, len(first))
            return self.likelihood_.answer_probabilities(mean, variance, Outcomes(judge=who))
        return np.asarray(ndtr(mean / np.sqrt(np.maximum(variance, 1e-200))))  # [TH10] eq. (11)

    def _at_date(self, rows: FloatArray, date: Any) -> FloatArray:
        """Move numbered rows to another date."""
        if date is None:
            return rows
        if self.drift_ is None:
            raise InvalidInputError(
                "`date` needs scores that change with time: fit with drift=True and dates, or "
                "leave it out."
            )
        rows = rows.copy()
        dates = np.broadcast_to(np.asarray(date), (len(rows),))
        rows[:, -1 - len(self.effect_names_)] = as_days(dates, len(rows))
        return rows

    def _judge_codes(self, judge: Any, n_pairs: int) -> IntArray:
        """Return who answers, counted from 1; 0 for any judge."""
        if judge is None:
            return np.zeros(n_pairs, dtype=np.intp)
        known = [] if self.judge_names_ is None else self.judge_names_.tolist()
        names = np.asarray(judge, dtype=object).ravel().tolist()
        strange = [name for name in names if name not in known]
        if strange or len(names) not in (1, n_pairs):
            raise InvalidInputError(
                f"`judge` must be one of the {len(known)} judges of `fit`, or one for each of the "
                f"{n_pairs} pairs: got {repr(strange[0]) if strange else len(names)}."
            )
        place = {name: code for code, name in enumerate(known, 1)}
        return np.broadcast_to([place[name] for name in names], (n_pairs,)).astype(np.intp)

    def _person(self, judge: Any) -> int:
        """Return the number of a person."""
        if self.tastes_ is None:
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

    @property
    def _n_traits(self) -> int:
        """Number of features of a person."""
        return 0 if self.person_traits_ is None else self.person_traits_.n_traits

    def _traits_of(self, persons: IntArray) -> FloatArray:
        """Return the features of persons by number; zeros for the common scores and new persons."""
        known, names = self.person_traits_, self.judge_names_
        if known is None or names is None:
            return np.zeros((len(persons), 0))
        rows = np.vstack([known.of_names(names.tolist()), np.zeros(known.n_traits)])
        return rows[np.where(persons > 0, persons - 1, len(names))]

    def _seen_by(self, rows: FloatArray, person: int) -> FloatArray:
        """Return numbered rows with the features of a person."""
        if self._n_traits == 0:
            return rows
        rows = rows.copy()
        rows[:, -1 - self._n_traits : -1] = self._traits_of(np.array([person]))
        return rows

    @property
    def _effect_columns(self) -> list[int]:
        """The columns of the covariates in numbered rows, counted from the end."""
        behind = self._n_traits + (self.tastes_ is not None)
        return [
            place - len(self.effect_names_) - behind for place in range(len(self.effect_names_))
        ]

    def _joint_of_person(self, rows: FloatArray, person: int) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the scores that a person gives to numbered rows."""
        own, answers = self._recorded.of_judge(person)
        n_rows = len(rows)
        if own is not None:
            rows = np.vstack([rows, self._training_rows(own.items)])
        rows = self._seen_by(rows, person)
        K_cross, K = self._kernel_blocks(rows)
        common = self._mean(rows), self.posterior_.covariance_at(K_cross, K)
        theirs = np.column_stack([rows[:, :-1], np.full(len(rows), NEW_PERSON)])
        K_tastes = self._covariance(theirs, theirs) - K
        if own is None:
            return common[0][:n_rows], common[1] + K_tastes
        sites = self.posterior_.tau[answers], self.posterior_.nu[answers]
        return scores_of_person(own, sites, common, K_tastes)

    def _difference_by_person(
        self, first: FloatArray, second: FloatArray, judge: Any, default: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the difference of numbered rows for the person of each."""
        persons = self._persons(judge, len(first), default)
        mean, variance = np.empty((2, len(first)))
        for person in np.unique(persons).tolist():
            every = np.flatnonzero(persons == person)
            for start in range(0, len(every), PAIRS_AT_ONCE):
                some = every[start : start + PAIRS_AT_ONCE]
                mean[some], variance[some] = self._difference_of(first[some], second[some], person)
        return mean, variance

    def _difference_of(
        self, first: FloatArray, second: FloatArray, person: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same for one person."""
        if person <= 0:
            first, second = (
                np.column_stack([rows[:, :-1], np.full(len(rows), person)])
                for rows in (first, second)
            )
            return self._difference(first, second)
        rows = np.vstack([first, second])
        different, place = np.unique(first_equal(rows), return_inverse=True)
        mean, S = self._joint_of_person(rows[different], person)
        i, j = place.reshape(2, -1)
        spread = S.diagonal()
        return mean[i] - mean[j], np.maximum(spread[i] + spread[j] - 2.0 * S[i, j], 0.0)

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
        if n is not None:
            check_count("n", n, MOST_DRAWS)
        known, names = self._recorded, self._labels(None, len(self.X_train_))
        careless = None if self.judges_ is None else self.judges_.careless
        found = self._cavities().flipped(self.likelihood_, careless)
        rows = np.flatnonzero(~known.tied)
        rows = rows[np.argsort(-found[rows], kind="stable")][:n]
        ends = np.stack([known.winner[rows], known.loser[rows]])
        winner, loser = names[ends if self.shown_ is None else self.shown_.item[ends]].tolist()
        judges = [None, *([] if self.judge_names_ is None else self.judge_names_.tolist())]
        return [
            {
                "winner": winner[place],
                "loser": loser[place],
                "judge": judges[known.judges[row]],
                "times": float(known.count[row]),
                "probability": float(found[row]),
            }
            for place, row in enumerate(rows.tolist())
        ]

    @property
    def _judges(self) -> ByJudge | None:
        """The likelihood of judges, if their reliabilities were learned."""
        if self.judge_names_ is None or self.tastes_ is not None:
            return None
        return cast(ByJudge, self.likelihood_)

    def _judge_report(self) -> JudgeReport | None:
        """Return what is known about judges from all answers so far."""
        judges = self._judges
        if judges is None or self.judge_names_ is None:
            return None
        return judges.report(self.judge_names_, self._cavities())

    def _cavities(self) -> Cavities:
        """Return the distribution of every comparison without one of its answers."""
        posterior = self.posterior_
        if self.tastes_ is None:
            return Cavities.of(posterior)
        moments = self._inference(self._recorded).moments(self._covariance)
        _, mean, variance = moments(posterior.tau, posterior.nu)
        return Cavities.under(posterior, mean, variance)

    def _with_values(
        self, rows: FloatArray, covariates: Mapping[str, ArrayLike] | None
    ) -> FloatArray:
        """Give numbered rows the values of covariates."""
        if covariates is None:
            return rows
        if not isinstance(covariates, Mapping):
            raise InvalidInputError(
                "`covariates` must be a dictionary of values by name: got "
                f"{type(covariates).__name__}."
            )
        known, rows = self.effect_names_, rows.copy()
        for name, values in covariates.items():
            if name not in known:
                raise InvalidInputError(
                    f"`covariates` must be among those with known effects, {list(known)}: got "
                    f"{name!r}."
                )
            rows[:, self._effect_columns[known.index(name)]] = values
        return rows

    @property
    def taste_share_(self) -> float | None:
        """The share of the variance of a person's scores that is their own taste."""
        if self.tastes_ is None:
            return None
        common = float(np.mean(self.kernel_.diagonal(self.X_train_)))
        parts = [one for one in (self.tastes_, self.traits_) if one is not None]
        own = sum(float(np.mean(one.diagonal(self.X_train_))) for one in parts)
        return own / (common + own)

    @property
    def effects_(self) -> tuple[Effect, ...]:
        """The effect of each covariate of an answer, with 90 % intervals."""
        n_effects = len(self.effect_names_)
        if n_effects == 0:
            return ()
        second = np.tile(self._rows_to_predict(None)[:1], (n_effects, 1))
        first = second.copy()
        first[:, self._effect_columns] = np.eye(n_effects)
        mean, variance = self._difference(first, second)
        reach = float(ndtri(0.5 + 0.5 * EFFECT_LEVEL)) * np.sqrt(variance)
        ends = zip(self.effect_names_, mean, mean - reach, mean + reach, strict=True)
        return tuple(Effect(name, *map(float, values)) for name, *values in ends)

    def _difference(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the difference of numbered rows, pair by pair."""
        if self.cyclic_ is not None:
            first = self._against(first, second)
            second = np.zeros_like(first)
        K_first, K_second = (self._covariance(self._basis, rows) for rows in (first, second))
        prior_variance = self._covariance.difference_variance(first, second)
        return self.posterior_.difference_at(K_first, K_second, prior_variance)

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
        check_count("n", n, MOST_DRAWS)
        X, rng = self._rows_to_predict(X), generator(random_state)
        if judge is not None:
            return gaussian_draws(*self._joint_of_person(X, self._person(judge)), n, rng)
        return self.posterior_.draws_at(*self._kernel_blocks(X), n, rng)

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
        check_share("level", level)
        check_count("n_draws", n_draws, MOST_DRAWS)
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
        )

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
        ends = np.append(known.winner, known.loser)
        ends = ends if self.shown_ is None else self.shown_.item[ends]
        count = known.count if person is None else known.count * (known.judges == person)
        counts = sum_by(ends, np.tile(count, 2), len(self.X_train_))
        if X is None:
            return counts
        return counts[self._positions(X)] if np.ndim(X) == 1 else np.zeros(n_rows)

    @property
    def _recorded(self) -> Comparisons:
        """All answers so far."""
        known = self.posterior_.prior.comparisons
        return known if self.duels_ is None else known.from_duels(self.duels_)

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
        if self.person_traits_ is None or self.judge_names_ is None:
            raise InvalidInputError(
                "`with_persons` needs features of persons: fit with tastes=True and `persons`."
            )
        other = copy(self)
        other.person_traits_ = self.person_traits_.joined_with(persons)
        known = AnswerContext(judges=other.person_traits_.names)
        other.judge_names_ = known.names_after(self.judge_names_)
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
        longer = check_positive("factor", factor, "It multiplies the length-scales.")
        return self._with_theta(kernel.theta + np.log(longer) * is_length)

    def _with_theta(self, theta: FloatArray) -> Self:
        """Return a copy conditioned on the same answers under another kernel."""
        other = copy(self)
        other.kernel_ = self.kernel_.with_theta(theta)
        comparisons = self._recorded
        sites = self.posterior_.tau, self.posterior_.nu
        return other._condition(self._inference(comparisons), sites)

    def _apart(self, kernel: ParametricKernel) -> ParametricKernel:
        """Return a kernel that distinguishes items with equal features."""
        return kernel if self.copies_ is None else CopiesApart(kernel)

    @property
    def _n_item_columns(self) -> int:
        """The number of columns of numbered rows that identify the item."""
        return self.X_train_.shape[1] + (self.copies_ is not None)

    @property
    def _covariance(self) -> ParametricKernel:
        """The kernel of rows that `_numbered` returned."""
        n_columns = self._n_item_columns
        kernel = self._apart(self.kernel_)
        cyclic, tastes, traits = (
            None if one is None else self._apart(one)
            for one in (self.cyclic_, self.tastes_, self.traits_)
        )
        if self.drift_ is not None:
            kernel = WithDrift(kernel, *self.drift_)
        if self.effect_names_:
            kernel = WithEffects(kernel, self.effect_deviations_)
        if traits is not None:
            kernel = WithTraits(kernel, traits, n_columns, self._n_traits)
        if tastes is not None:
            kernel = WithTastes(kernel, tastes, n_columns)
        return kernel if cyclic is None else WithCycles(kernel, cyclic, n_columns)

    def _against(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return numbered rows of comparisons for `WithCycles`."""
        return np.column_stack([first, second, np.ones((len(first), 2))])

    def _alone(self, rows: FloatArray) -> FloatArray:
        """Return numbered rows of single items as the kernel takes them."""
        if self.cyclic_ is None:
            return rows
        n_rows = len(rows)
        return np.column_stack([rows, np.zeros_like(rows), np.ones(n_rows), np.zeros(n_rows)])

    @property
    def _basis(self) -> FloatArray:
        """The rows that prediction needs, numbered."""
        if self.basis_marks_ is None:
            return self.basis_rows_
        return np.column_stack([self.basis_rows_, self.basis_marks_])

    @property
    def weights_of_basis_rows(self) -> FloatArray:
        """The weight of the kernel of every basis row in a score at the last date."""
        if self.cyclic_ is not None:
            raise InvalidInputError(
                "Intransitive answers have no score function of a single item: fit with "
                "intransitive=False to explain or export scores."
            )
        weights = self.posterior_.dual_coef
        if self.drift_ is None:
            return weights
        (drift, time, _), marks = self.drift_, self.basis_marks_
        assert marks is not None
        assert self.last_date_ is not None
        decay = np.exp(-np.abs(marks[:, -1 - len(self.effect_names_)] - self.last_date_) / time)
        return np.asarray(weights * (1.0 + drift * decay) / (1.0 + drift))

    def _numbered(self, X: FloatArray) -> FloatArray:
        """Add the column of `copies_` to rows, if there is one, and covariates of 0.

        If X holds all items that equal a row, the equal rows are these items in turn. Otherwise it
        is unknown which one is meant, and the row is a new item with the same features.
        """
        none = np.zeros((len(X), len(self.effect_names_)))
        if self.drift_ is not None:
            none = np.column_stack([np.full(len(X), self.last_date_), none])
        if self.tastes_ is not None:
            none = np.column_stack([none, np.zeros((len(X), self._n_traits + 1))])
        if self.copies_ is None:
            return np.column_stack([X, none]) if none.shape[1] else X
        n_items = len(self.X_train_)
        first = first_equal(np.concatenate([self.X_train_, X]))
        known = np.bincount(first[:n_items], minlength=len(first))
        given = np.bincount(first[n_items:], minlength=len(first))
        group = first[n_items:]
        numbers = copy_numbers(group)
        unclear = (known[group] > 1) & (known[group] != given[group])
        numbers = np.where(known[group] == 1, 0, numbers)
        return np.column_stack([X, np.where(unclear, -1.0 - numbers, numbers), none])

    def _training_rows(self, positions: IntArray) -> FloatArray:
        """Return items of `fit`, or items as they were shown, numbered."""
        items = positions if self.shown_ is None else self.shown_.item[positions]
        columns = [self.X_train_[items]]
        if self.copies_ is not None:
            columns.append(self.copies_[items, None].astype(np.float64))
        if self.shown_ is not None and self.shown_.date is not None:
            columns.append(self.shown_.date[positions, None])
        if self.shown_ is not None:
            columns.append(self.shown_.values[positions])
        if self.tastes_ is not None:
            columns.append(np.full((len(items), self._n_traits + 1), float(NOBODY)))
        return np.hstack(columns) if len(columns) > 1 else columns[0]

    def _inference(self, comparisons: Comparisons) -> Inference:
        if self.cyclic_ is not None:
            return self._inference_of_duels(comparisons)
        rows = self._training_rows(comparisons.items)
        if self.tastes_ is not None:
            return self._inference_of_persons(rows, comparisons)
        basis = None if self.basis_ is None else self._numbered(self.basis_)
        if self.effect_names_:
            basis = self._basis_with_effects(comparisons, basis)
        return Inference(rows, comparisons, basis, self.method, as_device(self.device))

    def _inference_of_persons(self, rows: FloatArray, comparisons: Comparisons) -> Inference:
        """Express rows by items without marks and with each covariate or feature alone."""
        n_persons = int(comparisons.judges.max())
        traits = self._traits_of(np.arange(n_persons + 1))
        marked, basis = MarkedRows.of(rows, self._n_item_columns, traits)
        persons = group_persons(comparisons, marked)
        return Inference(rows, comparisons, basis, self.method, persons=persons)

    def _inference_of_duels(self, comparisons: Comparisons) -> Inference:
        """Compare duels, each a row of two items, with 0: the same answers in the same order."""
        self.duels_, answers = comparisons.as_duels()
        first, second = (self._training_rows(ends) for ends in self.duels_.T)
        rows = self._against(first, second)
        rows = np.vstack([np.zeros((1, rows.shape[1])), rows])
        return Inference(rows, answers, None, self.method, as_device(self.device))

    def _basis_with_effects(self, comparisons: Comparisons, basis: FloatArray | None) -> FloatArray:
        """Return rows that determine the items in every way they were shown.

        With all items this is exact, and the cost is linear in the number of ways.
        """
        n_effects = len(self.effect_names_)
        if basis is None:
            rows = self._training_rows(comparisons.items)
            rows[:, -n_effects:] = 0.0
            basis = rows[np.unique(first_equal(rows))]
        shown = np.tile(basis[:1], (n_effects, 1))
        shown[:, -n_effects:] = np.eye(n_effects)
        return np.vstack([basis, shown])

    def _condition(self, inference: Inference, sites: SiteParameters | None) -> Self:
        """Store the posterior under the kernel and the likelihood found."""
        posterior = inference.posterior(self._covariance, self.likelihood_, start=sites)
        posterior.ending.warn()
        rows = inference.basis
        if self.cyclic_ is not None:
            kept = inference.rows[posterior.items]
        else:
            kept = self._training_rows(posterior.items) if rows is None else rows[posterior.items]
        n_features = self.X_train_.shape[1]
        self.posterior_ = posterior
        self.basis_rows_ = np.ascontiguousarray(kept[:, :n_features])
        self.basis_marks_ = kept[:, n_features:] if kept.shape[1] > n_features else None
        self.log_marginal_likelihood_ = posterior.log_evidence
        return self

    def _scores(self, X: FloatArray) -> FloatArray:
        return self._mean(self._numbered(self._recognised(X)))

    def _mean(self, X: FloatArray) -> FloatArray:
        """Return the scores of numbered rows."""
        X = self._alone(X)
        return Expansion(self._covariance, self._basis).product(X, self.posterior_.dual_coef)

    def _kernel_blocks(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the kernel between the basis and X, and that of X."""
        X = self._alone(X)
        return self._covariance(self._basis, X), self._covariance(X, X)

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
        """Return numbered rows, from rows of features or from names of items of `fit`."""
        check_is_fitted(self)
        if X is None:
            return self._training_rows(np.arange(len(self.X_train_)))
        if isinstance(X, str):
            X = [X]
        if _are_names(X):
            return self._training_rows(self._positions(on_host(X)))
        known = known_features(X, vars(self).get("feature_names_in_"))
        names, features = read_items(on_host(known))
        rows = self._numbered(self._recognised(self._check_rows(features, reset=False)))
        return rows if names is None else self._told_apart(rows, names)

    @property
    def known_rows(self) -> KnownRows | None:
        """The rows of items for scores of single rows; None if features explain all of a score."""
        if not self._has_item_effects:
            return None
        return KnownRows.of(self.X_train_, are_apart=self.copies_ is not None)

    @property
    def _has_item_effects(self) -> bool:
        kernels = (self.kernel_, self.cyclic_, self.tastes_, self.traits_)
        return any(kernel is not None and kernel.own_variance > 0.0 for kernel in kernels)

    def _recognised(self, X: FloatArray) -> FloatArray:
        """Return rows with items of `fit` in place of those that are items but for rounding."""
        return KnownRows.of(self.X_train_).in_place_of(X) if self._has_item_effects else X

    def _told_apart(self, rows: FloatArray, names: NDArray[Any]) -> FloatArray:
        """Tell items with equal features apart in numbered rows that have names."""
        if self.copies_ is None or self.item_names_ is None:
            return rows
        place = {name: at for at, name in enumerate(self.item_names_.tolist())}
        at = np.array([place.get(name, -1) for name in names.tolist()])
        n_features = self.X_train_.shape[1]
        is_same = (at >= 0) & np.all(rows[:, :n_features] == self.X_train_[at], axis=1)
        rows[is_same, n_features] = self.copies_[at[is_same]]
        return rows

    def _positions(self, names: Any) -> IntArray:
        """Return the positions of items of `fit`, given by their names or row numbers."""
        known = self.item_names_
        labels = np.arange(len(self.X_train_)) if known is None else known
        return positions_of(names, labels.tolist(), f"the {len(labels)} items of `fit`")


@scoring_function.register
def _formula(ranker: ProcessRanker) -> ScoringFunction:
    """Return the mean of the process as a formula, for files that other engines read."""
    check_is_fitted(ranker)
    weights = ranker.weights_of_basis_rows
    function = unscaled_function(ranker, ranker.kernel_, ranker.basis_rows_, weights)
    return replace(function, known=ranker.known_rows)
