"""Which items are held out together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries


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
    """

    fold: IntArray
    n_folds: int

    @classmethod
    def by_query(cls, queries: Queries) -> Self:
        """Leave out one query at a time."""
        return cls(queries.index, queries.n_queries)

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

    def of_components(self, component: IntArray) -> IntArray:
        """Return the fold of each component; refuse a fold that cuts a component in two.

        A component is a set of items that preferences join, directly or through others: leaving out
        a part of it would leave preferences with one end only.
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
                f"{min(item, other)} and {max(item, other)} belong together but not to one fold. "
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
    """Scores of items by models that did not see their fold.

    Attributes
    ----------
    scores : (n_alphas, n_items, n_outputs)
        Held-out scores, meaningful inside a query only; NaN for items that no fold holds out.
    error : (n_alphas,)
        An estimate of the largest relative error that rounding has made.
    """

    scores: FloatArray
    error: FloatArray

    def output(self, k: int) -> Self:
        """Return the scores of one output."""
        return type(self)(self.scores[:, :, k : k + 1], self.error)
