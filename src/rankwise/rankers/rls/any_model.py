"""Unseen pairs: leave out two items, or two groups, in closed form or by refits of any model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias, final

import numpy as np
import scipy
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, has_fit_parameter

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import (
    as_array,
    check_length,
    check_scores,
    check_weight,
    is_missing,
    missing_cells,
    refuse_unusable_rows,
)
from rankwise.core.display import Result, between, decimals, draw_interval, p_value
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import on_device, on_host
from rankwise.core.params import AtLeast, Count, Share, check_call, checked
from rankwise.core.queries import Queries, TrainingData
from rankwise.measures.pairwise import Concordance
from rankwise.rankers.base import generator
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.small_samples import (
    TournamentROC,
    check_rows,
    logit_interval,
    positives,
    refuse_equal_labels,
    smallest_of,
    tournament,
)
from rankwise.selection.leave_pair_out import leave_each_pair_out, pair_leads
from rankwise.selection.path import judge_pairs
from rankwise.selection.ties import zero_ties
from rankwise.solve.iteration import followed


@final
@dataclass(frozen=True, eq=False)
class PairEstimate(Result):
    """Hold how often a model puts unseen pairs in the right order; the AUC for two classes.

    Parameters
    ----------
    value : float
        The share of left-out pairs in the right order; a tie counts one half.
    standard_error : float
        Its standard error over items, or over groups.
    low, high : float
        The ends of the confidence interval.
    confidence : float
        Its confidence.
    n_pairs : int
        Number of pairs that were judged.
    n_fits : int
        Number of times the model was fitted; 0 if there is a closed form.
    n_skipped : int
        Number of pairs that leave too little to learn from.
    pvalue : float
        The p-value of a permutation test; NaN without permutations.
    right, total : (n_groups,)
        The pairs of each group in the right order, and all of its pairs.
    pairs : (n_pairs, 2), optional
        With ``keep_leads``, the rows of every judged pair, that of higher `y` first.
    leads : (n_pairs,), optional
        The held-out lead of the first row, by the model without the pair. Only differences are
        kept, since each pair has its own model.
    roc : TournamentROC, optional
        The ROC curve, with ``roc=True``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from rankwise import leave_pair_out
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> labels = ["ill", "ill", "well", "ill", "well", "well"]
    >>> estimate = leave_pair_out(LogisticRegression(), X, labels, positive="well")
    >>> estimate.n_pairs, estimate.low < estimate.value < estimate.high
    (9, True)
    """

    value: float
    standard_error: float
    low: float
    high: float
    confidence: float
    n_pairs: int
    n_fits: int
    n_skipped: int
    pvalue: float
    right: FloatArray
    total: FloatArray
    pairs: IntArray | None = None
    leads: FloatArray | None = None
    roc: TournamentROC | None = None

    def minus(self, other: PairEstimate) -> PairDifference:
        """Compare with another model on the same pairs.

        Parameters
        ----------
        other : PairEstimate
            An estimate with the same data, groups and `random_state`.
        """
        if not np.array_equal(self.total, other.total):
            raise InvalidInputError(
                "Two estimates must be of the same pairs to be compared: they differ. Use the same "
                "X, y, groups, n_fits and random_state for both."
            )
        value = self.value - other.value
        lean = (self.right - other.right) - value * self.total
        error = float(np.sqrt((lean**2).sum()) / self.n_pairs)
        width = float(scipy.stats.norm.isf((1 - self.confidence) / 2)) * error
        pvalue = (
            2.0 * float(scipy.stats.norm.sf(abs(value) / error)) if error > 0 else float(value == 0)
        )
        return PairDifference(value, error, value - width, value + width, pvalue)

    def _columns(self) -> dict[str, Any]:
        parts = ("right", "total", "pairs", "leads", "roc")
        return {name: [value] for name, value in self.to_dict().items() if name not in parts}

    def _cells(self) -> list[list[str]]:
        head = ["AUC", f"{self.confidence:.0%} interval", "pairs left out"]
        return [head, [decimals(self.value, 3), between(self.low, self.high), str(self.n_pairs)]]

    def _caption(self) -> str:
        return "Leave-pair-out"

    def _draw(self, ax: Any) -> None:
        """Draw the ROC curve, or else the share of pairs in the right order with its interval."""
        if self.roc is not None:
            self.roc._draw(ax)
            return
        label = f"AUC of unseen pairs, {self.confidence:.0%} interval"
        draw_interval(ax, self.value, self.low, self.high, label, chance=0.5)
        ax.set_xlim(0.0, 1.0)

    def __str__(self) -> str:
        test = "" if np.isnan(self.pvalue) else f", {p_value(self.pvalue)} by permutations"
        return (
            f"{decimals(self.value, 3)} ({self.confidence:.0%} interval "
            f"{between(self.low, self.high)}, {self.n_pairs} pairs left out){test}"
        )

    def __repr__(self) -> str:
        return f"PairEstimate({self})"


@final
@dataclass(frozen=True)
class PairDifference(Result):
    """Hold by how much one model is better than another on the same unseen pairs.

    Parameters
    ----------
    value : float
        The difference of the shares of pairs in the right order.
    standard_error : float
        Its standard error over items, or over groups.
    low, high : float
        The ends of the confidence interval.
    pvalue : float
        The two-sided p-value, by a normal approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from rankwise import leave_pair_out
    >>> X, y = np.arange(10.0)[:, None], np.arange(10) > 4
    >>> good = leave_pair_out(Ridge(), X, y)
    >>> good.minus(good).value
    0.0
    """

    value: float
    standard_error: float
    low: float
    high: float
    pvalue: float

    def _cells(self) -> list[list[str]]:
        test = p_value(self.pvalue).removeprefix("p = ")
        row = [f"{self.value:+.3f}", between(self.low, self.high), test]
        return [["difference", "interval", "p-value"], row]

    def _caption(self) -> str:
        return "Two models on the same unseen pairs"

    def _draw(self, ax: Any) -> None:
        """Draw the difference with its interval, next to zero."""
        label = "difference of shares in order"
        draw_interval(ax, self.value, self.low, self.high, label, chance=0.0)


def leave_pair_out(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    positive: Any = None,
    sample_weight: ArrayLike | None = None,
    confidence: Share = 0.95,
    n_fits: Count | None = None,
    n_permutations: Annotated[int, AtLeast(0)] = 0,
    keep_leads: bool = False,
    roc: bool = False,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: Any = None,
) -> PairEstimate:
    """Estimate how often any model puts two unseen items in the right order.

    For every two items of different `y` the model is fitted without both, and both are scored by
    that fit, so that scores of different fits are never compared; for two classes, the share in the
    right order is the AUC. Pooled k-fold estimates compare scores of different fits, which makes
    their AUC too low on small samples. With groups, such as patients, all items of both groups are
    left out.

    `RankRLS` is not refitted: its held-out scores have a closed form, in O(n^3), or O(n^2 d) with
    d < n features.

    **Pass the whole pipeline.** Features chosen or scaled on all data beforehand have seen the
    pairs that are left out: 20 features chosen that way from thousands of pure noise give a value
    near 0.95. Put every step that looks at the data into a scikit-learn ``Pipeline``, and a search
    for parameters into a ``GridSearchCV``: both are then refitted without each pair, which makes
    the choice of parameters nested.

    Parameters
    ----------
    estimator : estimator
        A classifier, regressor, ranker or pipeline with scikit-learn's interface. Its
        ``decision_function``, ``predict_proba`` or ``predict`` returns the scores.
    X : (n_items, n_features)
        The items, as the estimator takes them.
    y : (n_items,)
        Two classes of any type, or numbers.
    groups : (n_items,), optional
        The group of each item. Groups are left out together, and only pairs of different groups are
        judged.
    positive : optional
        The class that should rank above all others; by default the later of two in sorted order.
    sample_weight : (n_items,), optional
        Weights of the items in training. An item of weight 0 is not learned from, but its pairs are
        judged like all others.
    confidence : float
        The confidence of the interval, between 0 and 1.
    n_fits : int, optional
        Largest number of fits, for pairs drawn at random; by default all pairs.
    n_permutations : int
        Number of shuffles of `y` for a permutation test, each of which takes as many fits again.
        Labels that are the same within every group are shuffled between groups.
    keep_leads : bool
        Keep the held-out lead of every pair, O(n_items^2) numbers.
    roc : bool
        Whether to compute the ROC curve, by a tournament: pairs of the same class are left out too,
        which takes about twice as many fits. It needs two classes and all pairs.
    n_jobs : int, optional
        Number of fits at a time, as in joblib.
    progress : bool
        Show a progress bar.
    random_state : int, RandomState or None
        Draws pairs and permutations.

    Returns
    -------
    estimate : PairEstimate

    Notes
    -----
    The closed form is [PTA09] Sect. 3.4 and 4.1, for a `RankRLS` without a basis or groups, where
    all pairs are left out; the width that a kernel takes from the data is then that of all rows.
    With ``ties="keep"`` it also gives the ROC curve. The standard error is DeLong's over items or
    groups. It takes the fits as given, although any two of them share nearly all training items, so
    it is a guide, not a guarantee. An alpha chosen on the same data makes the value too high:
    choose it in advance, or leave pairs out of the search.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from rankwise import RankRLS, leave_pair_out
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> print(leave_pair_out(RankRLS(alpha=100.0), X[:30, :2], y[:30]))
    0.963 (95% interval 0.819 to 0.993, 81 pairs left out)

    >>> import numpy as np
    >>> from sklearn.feature_selection import SelectKBest
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(20, 1000)), np.repeat([0, 1], 10)
    >>> wrong = SelectKBest(k=20).fit_transform(X, y)  # has seen all labels
    >>> leave_pair_out(LogisticRegression(), wrong, y).value > 0.9
    True
    >>> right = make_pipeline(SelectKBest(k=20), LogisticRegression())
    >>> 0.2 < leave_pair_out(right, X, y).value < 0.8
    True
    """
    given = {"confidence": confidence, "n_fits": n_fits, "n_permutations": n_permutations}
    check_call(leave_pair_out, **given, roc=roc, keep_leads=keep_leads)
    if not callable(getattr(estimator, "fit", None)):
        raise InvalidInputError(
            f"`estimator` must have a method `fit`: got {type(estimator).__name__}."
        )
    problem = _PairProblem.of(estimator, X, y, groups, positive, sample_weight)
    rng = generator(random_state)
    judge: Callable[[_PairProblem], _Counts]
    if groups is None and n_fits is None and problem.has_closed_form(leads=keep_leads, roc=roc):
        counts, n_done = problem.in_closed_form(keep_leads=keep_leads, roc=roc), 0
        judge = _PairProblem.in_closed_form
    else:
        batches = problem.group_pairs(rng, n_fits)
        met = problem.all_group_pairs(n_fits) if roc else batches
        counts, n_done = problem.counts(met, n_jobs, progress=progress, roc=roc), len(met)
        judge = partial(_PairProblem.counts, batches=batches, n_jobs=n_jobs)
    pvalue = float("nan")
    if n_permutations > 0:
        shuffles = (problem.shuffled(rng) for _ in range(n_permutations))
        shown = followed(shuffles, n_permutations, "shuffled labels", shown=progress)
        null = np.array([judge(shuffle).value for shuffle in shown])
        pvalue = (1 + int(np.count_nonzero(null >= counts.value))) / (1 + n_permutations)
    return counts.estimate(confidence, n_done, pvalue, keep_leads=keep_leads)


Batch: TypeAlias = tuple[int, int]
"""Two groups that are left out together."""


@final
@dataclass(frozen=True, eq=False)
class _Counts:
    """Pairs in the right order and all pairs of every group, and how many could not be judged."""

    right: FloatArray
    total: FloatArray
    n_skipped: int
    pairs: IntArray
    leads: FloatArray
    roc: TournamentROC | None = None

    @property
    def value(self) -> float:
        return float(self.right.sum() / self.total.sum())

    def estimate(
        self, confidence: float, n_fits: int, pvalue: float, *, keep_leads: bool
    ) -> PairEstimate:
        n_pairs = round(self.total.sum() / 2)
        lean = self.right - self.value * self.total
        error = float(np.sqrt((lean**2).sum()) / n_pairs)
        n_least = int(np.count_nonzero(self.total))
        low, high = logit_interval(self.value, error, confidence, n_least)
        return PairEstimate(
            self.value,
            error,
            low,
            high,
            confidence,
            n_pairs,
            n_fits,
            self.n_skipped,
            pvalue,
            self.right,
            self.total,
            self.pairs if keep_leads else None,
            self.leads if keep_leads else None,
            self.roc,
        )


@final
@dataclass(frozen=True, eq=False)
class _PairProblem:
    """A model, its data, and which items are left out together.

    ``y`` holds what the model is fitted to; ``rank_of`` turns it into numbers that rise with rank.
    """

    estimator: Any
    X: Any
    y: NDArray[Any]
    groups: Queries
    rank_of: Callable[[NDArray[Any]], FloatArray]
    positive: Any
    weight: FloatArray | None = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None,
        positive: Any,
        sample_weight: ArrayLike | None,
    ) -> _PairProblem:
        refuse_unusable_rows(X)
        labels = as_array("y", on_host(y))
        n_items = _num_samples(check_rows(X) if np.isscalar(X) else X)
        check_length("y", labels, n_items)
        together = Queries.of(np.arange(n_items) if groups is None else groups, n_items, "groups")
        labels, rank_of, chosen = _ranking_of(labels, positive)
        weight = None
        if sample_weight is not None:
            weight = check_weight("sample_weight", on_host(sample_weight), n_items, "X")
            if not has_fit_parameter(estimator, "sample_weight"):
                raise InvalidInputError(
                    "`sample_weight` needs an estimator whose `fit` takes it: "
                    f"{type(estimator).__name__} does not. Leave it out."
                )
        data = TrainingData.of(n_items, rank_of(labels))
        refuse_equal_labels(data.single_output("Estimate one output at a time."), data.queries)
        return cls(estimator, X, labels, together, rank_of, chosen, weight)

    def group_pairs(self, rng: np.random.Generator, n_fits: int | None) -> list[Batch]:
        """Return the pairs of groups that hold items of different rank, or some drawn from them."""
        ranks = self.rank_of(self.y)
        ends = [(ranks[rows].min(), ranks[rows].max()) for rows in self.groups]
        every = [
            (g, h)
            for g in range(len(ends))
            for h in range(g)
            if ends[g][1] > ends[h][0] or ends[h][1] > ends[g][0]
        ]
        if not every:
            raise InvalidInputError(
                "`y` must hold items of different rank in different groups: got none. Check `y` "
                "and `groups`."
            )
        if n_fits is None or n_fits >= len(every):
            return every
        return [every[k] for k in np.sort(rng.permutation(len(every))[:n_fits])]

    def all_group_pairs(self, n_fits: int | None) -> list[Batch]:
        """Return all pairs of groups, those of one class as well, for a ROC curve."""
        positives(self.rank_of(self.y))  # refuses more than two classes
        if n_fits is not None:
            raise InvalidInputError(
                f"`roc` needs all pairs: got n_fits={n_fits}. Leave out one of the two."
            )
        return [(g, h) for g in range(self.groups.n_queries) for h in range(g)]

    def counts(
        self,
        batches: list[Batch],
        n_jobs: int | None,
        *,
        progress: bool = False,
        roc: bool = False,
    ) -> _Counts:
        """Fit without each pair of groups, and count the pairs in the right order."""
        ranks = self.rank_of(self.y)
        met = np.full((len(ranks), len(ranks)), np.nan) if roc else None
        tasks: Iterable[Any] = (delayed(self.judged)(*batch, equal=roc) for batch in batches)
        answers: Iterator[Any] = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
        right, total = np.zeros((2, self.groups.n_queries))
        n_skipped = 0
        pairs, leads = [np.zeros((0, 2), dtype=np.intp)], [np.zeros(0)]
        for (g, h), (every, lead, skipped) in zip(
            batches, followed(answers, len(batches), "pairs left out", shown=progress), strict=True
        ):
            # the wins of a tournament, for its ROC curve
            if met is not None:
                met[every[:, 0], every[:, 1]], met[every[:, 1], every[:, 0]] = lead, -lead
            # pairs in the right order, counted for both groups; a tie is one half
            differ = ranks[every[:, 0]] != ranks[every[:, 1]]
            right[[g, h]] += float(((np.sign(lead[differ]) + 1.0) / 2.0).sum())
            total[[g, h]] += int(np.count_nonzero(differ))
            n_skipped += skipped
            pairs.append(every[differ])
            leads.append(lead[differ])
        if not total.any():
            raise InvalidInputError(
                "At least one pair must leave enough to learn from: without any of them the model "
                "cannot be fitted, since a single class remains. Give more items of each class."
            )
        curve = None if met is None else tournament(met, positives(ranks))
        found = np.concatenate(pairs), np.concatenate(leads)
        return _Counts(right, total, n_skipped, *found, curve)

    def judged(self, g: int, h: int, *, equal: bool = False) -> tuple[IntArray, FloatArray, int]:
        """Return the pairs of two groups, better row first, their leads, and the number skipped.

        Pairs of equal rank are left out unless ``equal``.
        """
        first, second = self.groups.rows(g), self.groups.rows(h)
        ranks = self.rank_of(self.y)
        sign = np.sign(ranks[first][:, None] - ranks[second][None, :])
        n_unequal = int(np.count_nonzero(sign))
        sign = np.where(sign == 0.0, 1.0, sign) if equal else sign
        at = np.nonzero(sign)
        pairs = np.column_stack([first[at[0]], second[at[1]]])
        is_swapped = sign[at] < 0
        pairs[is_swapped] = pairs[is_swapped, ::-1]
        kept = np.setdiff1d(np.arange(len(ranks)), np.concatenate([first, second]))
        known = kept if self.weight is None else kept[self.weight[kept] > 0.0]
        if len(pairs) == 0 or len(np.unique(ranks[known])) < 2:
            return pairs[:0], np.zeros(0), n_unequal
        model = self.fitted(kept)
        above, below = self.scores(model, first)[:, None], self.scores(model, second)
        lead = zero_ties(above - below, np.maximum(np.abs(above), np.abs(below)), 0.0)
        return pairs, lead[at] * sign[at], 0

    def fitted(self, rows: IntArray) -> Any:
        """Fit a clone to some rows; what is no classifier learns from numbers."""
        target = self.y if is_classifier(self.estimator) else self.rank_of(self.y)
        weight = {} if self.weight is None else {"sample_weight": self.weight[rows]}
        return clone(self.estimator).fit(_safe_indexing(self.X, rows), target[rows], **weight)

    def scores(self, model: Any, rows: IntArray) -> FloatArray:
        """Return one score per row that rises with the positive class."""
        X = _safe_indexing(self.X, rows)
        if not is_classifier(model):
            return np.asarray(model.predict(X), dtype=float).reshape(len(rows))
        is_last = self.positive is None or model.classes_[-1] == self.positive
        decide = getattr(model, "decision_function", None)
        if decide is None:
            decide = _probability(model)
        scores = np.asarray(decide(X), dtype=float)
        if scores.ndim != 1:
            raise InvalidInputError(
                f"A classifier must have two classes here: it has {len(model.classes_)}. Use a "
                "regressor or a ranker for more grades."
            )
        return scores if is_last else -scores

    def shuffled(self, rng: np.random.Generator) -> _PairProblem:
        """Shuffle the labels, between groups if each group has a single label."""
        first = np.array([self.y[rows[0]] for rows in self.groups])
        if np.array_equal(self.groups.spread(first), self.y):
            return replace(self, y=self.groups.spread(rng.permutation(first)))
        return replace(self, y=rng.permutation(self.y))

    def has_closed_form(self, *, leads: bool, roc: bool) -> bool:
        """Return whether left-out pairs, with a curve also those of one class, need no refits."""
        ranker = self.estimator
        if type(ranker) is not RankRLS or ranker.basis is not None:
            return False
        if (leads or roc) and self.weight is not None and not np.all(self.weight > 0.0):
            return False
        return not roc or (ranker.cost == "magnitude" and ranker.ties == "keep")

    def in_closed_form(self, *, keep_leads: bool = False, roc: bool = False) -> _Counts:
        """Leave out all pairs of a RankRLS without refitting it."""
        ranker = checked(self.estimator)
        rows = check_rows(on_host(self.X))
        data = TrainingData.of(rows.shape[0], self.rank_of(self.y), sample_weight=self.weight)
        options = {"cost": ranker.cost, "ties": ranker.ties, "query_weight": ranker.query_weight}
        there = smallest_of(rows, ranker.kernel, data, on_device(rows, ranker.device, self.X))
        alphas = np.array([ranker.alpha])
        held_out = leave_each_pair_out(there, data, alphas, unweighted="judge", **options)
        judge_pairs(held_out, Concordance, alphas).best()  # refuses what rounding has taken over
        right, total = held_out.right[0, :, 0], held_out.total[0, :, 0]
        every = _partners(data.scores).sum()
        # the leads themselves, for whoever wants them or a curve
        space = smallest_of(rows, ranker.kernel, data)
        pairs, leads = np.zeros((0, 2), dtype=np.intp), np.zeros(0)
        if keep_leads:
            found = pair_leads(space, data, ranker.alpha, **options)
            pairs = np.argwhere((data.scores[:, None] > data.scores) & ~np.isnan(found))
            leads = found[tuple(pairs.T)]
        curve = None
        if roc:
            met = pair_leads(space, data, ranker.alpha, keep_equal=True, **options)
            curve = tournament(met, positives(data.scores))
        return _Counts(right, total, round((every - total.sum()) / 2), pairs, leads, curve)


def _probability(model: Any) -> Callable[[Any], FloatArray]:
    def decide(X: Any) -> FloatArray:
        shares = np.asarray(model.predict_proba(X))
        return shares[:, 1] if shares.shape[1] == 2 else shares

    return decide


def _ranking_of(
    labels: NDArray[Any], positive: Any
) -> tuple[NDArray[Any], Callable[[NDArray[Any]], FloatArray], Any]:
    """Return labels, a function from them to numbers, and the positive class if they are classes.

    More than two classes become the positive one and all others.
    """
    if positive is None and labels.dtype.kind in "biuf":
        check_scores(labels)
        return labels, lambda y: np.asarray(y, dtype=float), None
    classes = _distinct(labels)
    chosen = classes[-1] if positive is None else positive
    if not isinstance(chosen, Hashable) or is_missing(chosen) or chosen not in classes.tolist():
        raise InvalidInputError(f"`positive` must be one of {classes.tolist()}: got {positive!r}.")
    if len(classes) > 2 and positive is None:
        raise InvalidInputError(
            f"`y` must hold numbers or two classes: got the classes {classes[:5].tolist()}. Name "
            "the positive one, or turn them into numbers."
        )
    if len(classes) > 2:
        labels, chosen = (labels == chosen).astype(int), 1
    return labels, lambda y: (np.asarray(y) == chosen).astype(float), chosen


def _distinct(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the different labels in order; refuse missing ones, and those without an order."""
    if labels.dtype == object and missing_cells(labels).any():
        row = int(np.argmax(missing_cells(labels)))
        raise InvalidInputError(f"`y` must hold a label for every row: row {row} has none.")
    try:
        return np.unique(labels)
    except TypeError as error:
        raise InvalidInputError(
            f"`y` must hold numbers, or labels of one type: {error}."
        ) from error


def _partners(y: FloatArray) -> FloatArray:
    """Return the number of items of another score for each item."""
    _, group, sizes = np.unique(y, return_inverse=True, return_counts=True)
    return (len(y) - sizes[group]).astype(float)
