"""Folds, and the scores of models that have not seen them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, Matrix, as_columns
from rankwise.core.checks import (
    check_length,
    check_scores,
    seeded,
)
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, check_value
from rankwise.core.queries import Queries, TrainingData
from rankwise.io.comparisons import read_comparisons
from rankwise.io.frames import is_frame
from rankwise.selection.ties import equal_ties


@final
@dataclass(frozen=True, eq=False)
class Folds:
    """A partition of the items into folds, each left out in turn.

    Parameters
    ----------
    fold : (n_items,)
        The fold of each item, numbered from 0; -1 for items that are never left out.
    n_folds : int
        Number of folds.
    is_forward : bool
        Whether folds follow each other in time: a fold is learned from by later ones only.
    is_at_once : bool
        Whether all folds are held out together, and none is learned from.
    apart : (n_items,), optional
        What must be new in what is held out, by number: items that share a number with a held-out
        one are not learned from. -1 for what stands there only.
    """

    fold: IntArray
    n_folds: int
    is_forward: bool = False
    is_at_once: bool = False
    apart: IntArray | None = None

    @classmethod
    def by_query(cls, queries: Queries) -> Self:
        """Leave out one query at a time."""
        return cls(queries.index, queries.n_queries)

    @classmethod
    def random(cls, n_folds: int, groups: IntArray, rng: np.random.Generator) -> Self:
        """Assign groups of items, numbered from 0, to folds with nearly equal numbers of groups."""
        n_groups = int(groups.max()) + 1
        if n_folds < 2:
            raise InvalidInputError(f"`cv` as a number must be at least 2: got {n_folds}.")
        if n_groups < 2:
            raise InvalidInputError("`cv` needs at least 2 queries, or 2 items of one: got 1.")
        n_folds = min(n_folds, n_groups)
        of_group = rng.permutation(np.arange(n_groups) % n_folds)
        return cls(of_group[groups], n_folds)

    @classmethod
    def forward(cls, n_folds: int, groups: IntArray, days: FloatArray) -> Self:
        """Cut groups of items, numbered from 0, into parts that follow each other in time.

        Parts hold nearly equal numbers of groups. The first one is never held out. Groups of the
        same day stay together, and a group is as late as the latest of its items.
        """
        latest = np.full(int(groups.max()) + 1, -np.inf)
        np.maximum.at(latest, groups, days)
        _, date, count = np.unique(latest, return_inverse=True, return_counts=True)
        if len(count) < 2:
            raise InvalidInputError(
                "`time` must hold at least 2 dates, so that later ones can be held out: got 1."
            )
        # the part of a date: where the middle of its groups lies among all
        middle = np.cumsum(count) - count / 2.0
        part = np.floor(middle / len(latest) * (n_folds + 1)).astype(np.intp)
        kept, part = np.unique(part, return_inverse=True)
        if len(kept) == 1:  # nearly all groups are of one date
            part = np.minimum(np.arange(len(count)), 1)
        return cls(part[date][groups] - 1, int(part.max()), is_forward=True)

    @classmethod
    def at_once(cls, share: float, groups: IntArray, rng: np.random.Generator) -> Self:
        """Hold out a share of groups of items, numbered from 0, as two folds at once."""
        n_groups = int(groups.max()) + 1
        of_group = np.full(n_groups, -1)
        held = rng.permutation(n_groups)[: int(np.ceil(share * n_groups))]
        of_group[held] = np.arange(len(held)) % 2
        return cls(of_group[groups], 2, is_at_once=True)

    @property
    def is_cyclic(self) -> bool:
        """Whether each fold is held out from all others."""
        return not (self.is_forward or self.is_at_once or self.apart is not None)

    @property
    def rounds(self) -> list[tuple[IntArray, IntArray]]:
        """The items that are learned from, and those that are held out from them, in each fit."""
        if self.is_at_once:
            return [(np.flatnonzero(self.learned_from(0)), np.flatnonzero(self.fold >= 0))]
        return [
            (np.flatnonzero(self.learned_from(k)), np.flatnonzero(self.fold == k))
            for k in range(self.n_folds)
        ]

    def learned_from(self, fold: int) -> BoolArray:
        """Return which items are learned from when a fold is held out."""
        if self.is_at_once:
            kept, out = self.fold < 0, self.fold >= 0
        else:
            kept = self.fold < fold if self.is_forward else self.fold != fold
            out = self.fold == fold
        if self.apart is None:
            return kept
        held = np.zeros(int(self.apart.max(initial=-1)) + 2, dtype=bool)
        held[self.apart[out]] = True
        held[-1] = False  # of those that share nothing
        return kept & ~held[self.apart]

    @classmethod
    def from_lists(cls, folds: Iterable[Any], n_items: int) -> Self:
        """Build from lists of held-out rows, or from (training rows, held-out rows) pairs."""
        fold = np.full(n_items, -1)
        n_folds = 0
        for entry in folds:
            rows = np.asarray(entry[1] if isinstance(entry, tuple) else entry)
            _check_rows(rows, fold, n_folds)
            fold[rows] = n_folds
            n_folds += 1
        if n_folds == 0:
            raise InvalidInputError("`cv` must hold at least one fold: got none.")
        return cls(fold, n_folds)

    def lists(self) -> list[IntArray]:
        """Return the items of each fold."""
        return [np.flatnonzero(self.fold == k) for k in range(self.n_folds)]

    def merged(self, n_folds: int) -> Self:
        """Return at most so many folds, each of several; folds in time stay as they are."""
        if self.is_forward or self.n_folds <= n_folds:
            return self
        return replace(self, fold=np.where(self.fold < 0, -1, self.fold % n_folds), n_folds=n_folds)

    def of_components(self, component: IntArray) -> IntArray:
        """Return the fold of each component; refuse a fold that cuts a component in two.

        A component is a set of items joined by preferences, directly or through others: leaving out
        a part of it would leave preferences with only one of their items.
        """
        active = component >= 0
        if not active.any():
            return np.zeros(0, dtype=np.intp)
        of_component = np.full(int(component.max()) + 1, -1)
        of_component[component[active]] = self.fold[active]
        torn = active & (of_component[component] != self.fold)
        if torn.any():
            item = int(np.argmax(torn))
            apart = (component == component[item]) & (self.fold != self.fold[item])
            other = int(np.argmax(apart))
            raise InvalidInputError(
                "A fold must hold out whole queries: items "
                f"{min(item, other)} and {max(item, other)} belong together but are in different "
                "folds. "
                "Split by query, for example with GroupKFold and groups=qid."
            )
        return of_component

    def order(self, fold: IntArray) -> tuple[IntArray, IntArray]:
        """Sort things by their fold, those of no fold last.

        Returns
        -------
        order : (n_things,)
        starts : (n_folds + 1,)
            Where each fold begins in the order, and where the last one ends.
        """
        sizes = np.bincount(fold[fold >= 0], minlength=self.n_folds)
        order = np.argsort(np.where(fold < 0, self.n_folds, fold), kind="stable")
        return order, np.concatenate([[0], np.cumsum(sizes)])

    @property
    def items(self) -> tuple[IntArray, IntArray]:
        """The items that are held out, fold by fold, and where each fold begins."""
        order, starts = self.order(self.fold)
        return order[: starts[-1]], starts

    def spread(self, values: FloatArray) -> FloatArray:
        """Bring values of `items`, on the second axis, to the order of all; NaN for the others."""
        rows, _ = self.items
        if np.array_equal(rows, np.arange(len(self.fold))):
            return values
        out = np.full((values.shape[0], len(self.fold), values.shape[2]), np.nan)
        out[:, rows] = values
        return out

    def only(self, chosen: BoolArray) -> Self:
        """Return some of the folds, numbered anew; the items of the others are never left out."""
        number = np.where(chosen, np.cumsum(chosen) - 1, -1)
        return type(self)(np.append(number, -1)[self.fold], int(np.count_nonzero(chosen)))


def _check_rows(rows: IntArray, fold: IntArray, number: int) -> None:
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise InvalidInputError(
            f"A fold must be a list of row numbers: fold {number} has dtype {rows.dtype}."
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= len(fold)):
        raise InvalidInputError(f"A fold must name rows 0 to {len(fold) - 1}: see fold {number}.")
    if (fold[rows] >= 0).any():
        row = int(rows[np.argmax(fold[rows] >= 0)])
        raise InvalidInputError(
            f"Folds must not overlap: row {row} is in folds {fold[row]} and {number}."
        )


@final
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of items by models that have not seen their fold.

    Attributes
    ----------
    scores : (n_alphas, n_items, n_outputs)
        Held-out scores, comparable only within a query; NaN for items that no fold holds out.
    error : (n_alphas,)
        An estimate of the largest relative error that rounding has made.
    solve : function of alpha, optional
        Returns the weights fitted to all items, (n_weights, n_outputs), a by-product of the
        hold-outs.
    """

    scores: FloatArray
    error: FloatArray
    solve: Callable[[float], FloatArray] | None = None

    def output(self, k: int) -> Self:
        """Return the scores of one output."""
        return type(self)(self.scores[:, :, k : k + 1], self.error)

    def tied(self, group: IntArray) -> Self:
        """Return the scores with ties inside groups of items made equal, as `equal_ties` does.

        Whatever is measured has gone through this.
        """
        return replace(self, scores=equal_ties(self.scores, group, self.error))


def by_alpha(columns: FloatArray, n_alphas: int) -> FloatArray:
    """Return columns of all alphas, each with its outputs, as (n_alphas, n_rows, n_outputs)."""
    shape = len(columns), n_alphas, columns.shape[1] // n_alphas
    return np.ascontiguousarray(columns.reshape(shape).transpose(1, 0, 2))


def error_of_pivots(pivot: FloatArray) -> FloatArray:
    """Estimate the relative rounding error of a solve from its smallest pivot."""
    lost = ~(pivot > 0)
    return np.where(lost, np.inf, np.finfo(float).eps / np.where(lost, 1.0, pivot))


@final
@dataclass(frozen=True, eq=False)
class PairsHeldOut:
    """How many pairs are put in the right order if both their items are left out.

    Attributes
    ----------
    right : (n_alphas, n_items, n_outputs)
        For each item, its pairs in the right order; a tie counts one half.
    total : (n_alphas, n_items, n_outputs)
        Its pairs of different score, without pairs whose removal leaves nothing to learn from.
    error : (n_alphas,)
        An estimate of the largest relative error that rounding has made.
    weights : (n_alphas, n_items, n_outputs), optional
        The weights of the items in a fit to all of them, if leaving out pairs needed them.
    """

    right: FloatArray
    total: FloatArray
    error: FloatArray
    weights: FloatArray | None = None

    @classmethod
    def stack(cls, parts: list[tuple[FloatArray, FloatArray, float]]) -> Self:
        """Build from the counts and error of each alpha."""
        right, total, error = zip(*parts, strict=True)
        return cls(np.stack(right), np.stack(total), np.array(error))

    def output(self, k: int) -> Self:
        """Return the counts of one output."""
        return type(self)(self.right[:, :, k : k + 1], self.total[:, :, k : k + 1], self.error)

    @property
    def concordance(self) -> FloatArray:
        """Share of pairs in the right order, (n_alphas, n_outputs)."""
        return self.right.sum(axis=1) / self.total.sum(axis=1)

    @property
    def standard_error(self) -> FloatArray:
        """The standard error of these shares over items, like DeLong's, (n_alphas, n_outputs).

        Pairs share items: it is the spread of the items' shares. It ignores that models overlap.
        """
        lean = self.right - self.concordance[:, None] * self.total
        return np.sqrt((lean**2).sum(axis=1)) / (self.total.sum(axis=1) / 2)

    def spread(self, rows: IntArray, n_items: int) -> Self:
        """Return the same counts among more items, of which these are the given rows."""
        shape = (len(self.error), n_items, self.right.shape[2])
        right, total = np.zeros((2, *shape))
        right[:, rows], total[:, rows] = self.right, self.total
        return type(self)(right, total, self.error)

    def plus(self, other: Self) -> Self:
        """Return the counts of different pairs of the same items together."""
        error = np.maximum(self.error, other.error)
        return type(self)(self.right + other.right, self.total + other.total, error)

    def join_outputs(self, others: list[Self]) -> Self:
        """Return the outputs of several results together."""
        every: list[Self] = [self, *others]
        return type(self)(
            np.concatenate([part.right for part in every], axis=2),
            np.concatenate([part.total for part in every], axis=2),
            np.max([part.error for part in every], axis=0),
        )


@final
@dataclass(frozen=True, eq=False)
class EdgesHeldOut:
    """Differences f_winner - f_loser of comparisons by models that have not seen them.

    Attributes
    ----------
    differences : (n_alphas, n_pairs)
        Held-out differences, positive if the comparison is predicted correctly.
    error : (n_alphas,)
        An estimate of the largest relative error that rounding has made.
    """

    differences: FloatArray
    error: FloatArray


@final
@dataclass(frozen=True, eq=False)
class ValidationData:
    """Hold scored validation items."""

    X: Matrix
    y: FloatArray
    queries: Queries

    @classmethod
    def of(
        cls, X: Matrix, y_val: ArrayLike | None, qid_val: ArrayLike | None, *, has_qid: bool
    ) -> Self:
        """Check the scores and queries of rows already checked.

        ``has_qid`` says whether the training data have queries; the validation data then must too.
        """
        if y_val is None or (qid_val is None and has_qid):
            raise InvalidInputError(
                "Validation data must have `X_val` and `y_val`, and `qid_val` if `fit` is given "
                "`qid`: scores are comparable only within a query."
            )
        y = check_scores(y_val, "y_val")
        check_length("y_val", y, X.shape[0])
        return cls(X, y, Queries.of(qid_val, X.shape[0], "qid_val"))


def refuse_partial_validation(X_val: object, y_val: object, qid_val: object) -> None:
    """Refuse validation scores or queries without rows."""
    if X_val is None and (y_val is not None or qid_val is not None):
        raise InvalidInputError(
            "Validation data must have `X_val` and `y_val`, and `qid_val` if `fit` is given "
            "`qid`: got no `X_val`."
        )


def resolve_folds(
    cv: Any, X: Matrix, data: TrainingData, rng: np.random.Generator, n_item_folds: int = 5
) -> Folds:
    """Return the folds that ``cv`` describes: whole queries, or items of one global ranking.

    Parameters
    ----------
    cv : str, int, splitter or list of folds
        "leave_query_out"; "auto", which leaves out one query at a time or, for a single query,
        every fifth item; a number of random folds; a scikit-learn splitter; lists of rows.
    X : (n_items, n_features)
        The rows.
    data : TrainingData
        Scored items, or comparisons inside queries.
    rng : Generator
        Draws random folds.
    n_item_folds : int
        Number of folds of the items of a single query for ``cv="auto"``.
    """
    by_item = not data.has_qid
    groups = np.arange(data.n_items) if by_item else data.queries.index
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        return Folds.random(int(cv), groups, rng)
    if isinstance(cv, str):
        if cv not in ("auto", "leave_query_out") or (by_item and cv != "auto"):
            raise InvalidInputError(
                "`cv` must be 'auto', 'leave_query_out' (with `qid`), a number of folds, a "
                f"splitter or a list of folds: got {cv!r}{' without `qid`' if by_item else ''}."
            )
        if not by_item:
            return Folds.by_query(data.queries)
        n_folds = min(n_item_folds, data.n_items)
        return Folds(np.arange(data.n_items) % n_folds, n_folds)
    is_list = isinstance(cv, Iterable) and not isinstance(cv, bytes) and getattr(cv, "ndim", 1) > 0
    if callable(getattr(cv, "split", None)) and not isinstance(cv, bytes):
        y = as_columns(data.scores)[:, 0] if data.is_scored else np.zeros(data.n_items)
        cv = cv.split(X, y, None if by_item else groups)
    elif not is_list:
        raise InvalidInputError(
            "`cv` must be 'auto', 'leave_query_out', a number of folds, a splitter or a list of "
            f"folds: got {cv!r}."
        )
    return Folds.from_lists(cv, data.n_items)


@final
@dataclass(frozen=True, eq=False, repr=False)
class GroupPairs:
    """Two groups of items, such as two patients, that are left out of one global ranking together.

    Both are scored by a fit that has seen neither, and only items of different groups are compared.

    Parameters
    ----------
    groups : (n_items,)
        The group of each item.
    n_fits : int
        Largest number of fits, for pairs of groups drawn at random.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import GroupPairs, RankRLSCV
    >>> rng = np.random.default_rng(0)
    >>> X, patient = rng.normal(size=(24, 3)), np.repeat(np.arange(8), 3)
    >>> ranker = RankRLSCV(cv=GroupPairs(patient)).fit(X, X[:, 0] > 0)
    >>> ranker.held_out_value_ > 0.8
    True
    """

    groups: ArrayLike
    n_fits: int = 500

    def __repr__(self) -> str:
        return f"GroupPairs({len(np.unique(np.asarray(self.groups)))} groups)"

    def pairs(
        self, y: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, list[tuple[int, int]]]:
        """Return the group of each item, from 0, and the pairs of groups with different scores."""
        check_value("n_fits", self.n_fits, Count)
        names, group = np.unique(np.asarray(self.groups), return_inverse=True)
        check_length("groups", group, len(y))
        if len(names) < 2:
            raise InvalidInputError("`groups` must hold at least two groups: got one.")
        low, high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        np.minimum.at(low, group, y)
        np.maximum.at(high, group, y)
        first, second = np.triu_indices(len(names), 1)
        differ = (high[first] > low[second]) | (high[second] > low[first])
        first, second = first[differ], second[differ]
        if len(first) > self.n_fits:
            drawn = np.sort(rng.choice(len(first), self.n_fits, replace=False))
            first, second = first[drawn], second[drawn]
        return group, list(zip(first.tolist(), second.tolist(), strict=True))


@final
@dataclass(frozen=True)
class PairKFold:
    """Split comparisons into folds; repeats of a comparison stay together.

    scikit-learn's splitters leave out rows of X, so that comparisons of these rows cannot be used.
    Here all items stay, and comparisons are left out.

    Parameters
    ----------
    n_splits : int
        Number of folds, at least 2.
    random_state : int or None
        Source of the shuffling.

    Examples
    --------
    >>> from rankwise import PairKFold
    >>> pairs = [[0, 1], [1, 0], [1, 2], [2, 0]]
    >>> [test.tolist() for _, test in PairKFold(3, random_state=0).split(pairs)]
    [[2], [0, 1], [3]]
    """

    n_splits: int = 5
    random_state: int | None = None

    def split(
        self, pairs: Any, groups: ArrayLike | None = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the numbers of the training and the test comparisons of each fold.

        Parameters
        ----------
        pairs : (n_pairs, 2)
            The items of each comparison, as positions or names; or a source of
            `rankwise.io.read_comparisons`, such as a frame, row by row.
        groups : (n_pairs,), optional
            Groups that stay together in place of repeats, such as the judge of each comparison.
            Rows of a source that do not say who won are in no fold, and have no entry.
        """
        check_value("n_splits", self.n_splits, Count)
        ends, rows = _ends(pairs)
        key = self._keys(ends, groups)
        n_groups = int(key.max()) + 1
        if self.n_splits < 2 or n_groups < self.n_splits:
            raise InvalidInputError(
                "`n_splits` must lie between 2 and the number of different comparisons or groups, "
                f"{n_groups}: got {self.n_splits}."
            )
        order = seeded(self.random_state).permutation(n_groups)
        fold = np.empty(n_groups, dtype=np.intp)
        fold[order] = np.arange(n_groups) % self.n_splits
        for one in range(self.n_splits):
            held_out = fold[key] == one
            yield rows[~held_out], rows[held_out]

    def _keys(self, values: NDArray[Any], groups: Any) -> IntArray:
        """Return a number for every comparison; equal ones stay together."""
        if values.ndim != 2 or values.shape[1] != 2 or len(values) == 0:
            raise InvalidInputError(
                f"`pairs` must have shape (n_pairs, 2) with at least one row: got {values.shape}."
            )
        if groups is not None:
            labels = np.asarray(groups)
            if labels.shape != (len(values),):
                raise InvalidInputError(
                    f"`groups` must have one entry per pair: there are {len(values)}, got shape "
                    f"{labels.shape}."
                )
            return np.unique(labels, return_inverse=True)[1]
        _, ends = np.unique(values, return_inverse=True)
        ends = np.sort(ends.reshape(-1, 2), axis=1)
        return np.unique(ends[:, 0] * (ends.max() + 1) + ends[:, 1], return_inverse=True)[1]


def resolve_pair_folds(cv: Any, pairs: IntArray, rng: np.random.Generator) -> Folds:
    """Return the folds of comparisons that ``cv`` describes.

    Parameters
    ----------
    cv : int, splitter or list of folds
        A number of random folds, in which repeats stay together; a splitter such as `PairKFold`,
        which gets the pairs; lists of numbers of comparisons.
    pairs : (n_pairs, 2)
        The comparisons.
    rng : Generator
        Draws random folds.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        cv = PairKFold(int(cv), random_state=int(rng.integers(2**31)))
    if callable(getattr(cv, "split", None)):
        cv = cv.split(pairs)
    elif isinstance(cv, str) or not isinstance(cv, Iterable):
        raise InvalidInputError(
            "`cv` for comparisons without `qid` must be a number of folds, a splitter of "
            f"comparisons such as PairKFold, or a list of folds of comparisons: got {cv!r}."
        )
    return Folds.from_lists(cv, len(pairs))


def _ends(pairs: Any) -> tuple[NDArray[Any], IntArray]:
    """Return both items of every comparison, those of a table as numbers, and its row."""
    if not (isinstance(pairs, Mapping | ComparisonTable) or is_frame(pairs)):
        values = np.asarray(pairs)
        if np.shape(values)[1:] != (3,):
            return values, np.arange(len(values) if values.ndim else 0)
    table = read_comparisons(pairs)
    rows = np.arange(table.n_rows) if table is pairs else table.row
    return np.stack([table.first, table.second], axis=1), rows
