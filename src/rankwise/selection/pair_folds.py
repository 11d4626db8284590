"""Folds of comparisons for cross-validation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import IntArray
from rankwise.core.checks import check_count
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError
from rankwise.io.comparisons import read_comparisons
from rankwise.io.frames import is_frame
from rankwise.selection.holdouts import Folds


@final
@dataclass(frozen=True)
class PairKFold:
    """Split comparisons into folds; repeats of a comparison stay together.

    scikit-learn's splitters cut rows of X, and comparisons of rows that are left out cannot be
    used; here all items stay, and comparisons are left out.

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
        """Yield the numbers of comparisons to learn from and to judge by.

        Parameters
        ----------
        pairs : (n_pairs, 2)
            The items of each comparison, as positions or names; or what
            `rankwise.io.read_comparisons` takes, such as a frame, row by row.
        groups : (n_pairs,), optional
            What stays together in place of repeats, such as the judge of each comparison.
        """
        check_count("n_splits", self.n_splits)
        key = self._keys(pairs, groups)
        n_groups = int(key.max()) + 1
        if self.n_splits < 2 or n_groups < self.n_splits:
            raise InvalidInputError(
                "`n_splits` must lie between 2 and the number of different comparisons or groups, "
                f"{n_groups}: got {self.n_splits}."
            )
        order = np.random.default_rng(self.random_state).permutation(n_groups)
        fold = np.empty(n_groups, dtype=np.intp)
        fold[order] = np.arange(n_groups) % self.n_splits
        for one in range(self.n_splits):
            held_out = fold[key] == one
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def _keys(self, pairs: Any, groups: Any) -> IntArray:
        """Return a number for every comparison; equal ones stay together."""
        values = _ends(pairs)
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
    """Return the folds of comparisons that ``cv`` asks for.

    Parameters
    ----------
    cv : int, splitter or list of folds
        A number of random folds, in which repeats stay together; a splitter such as `PairKFold`,
        which is given the pairs; lists of numbers of comparisons.
    pairs : (n_pairs, 2)
        The comparisons.
    rng : Generator
        Deals random folds.
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


def _ends(pairs: Any) -> NDArray[Any]:
    """Return both items of every comparison; those of a table as numbers."""
    if not (isinstance(pairs, Mapping | ComparisonTable) or is_frame(pairs)):
        values = np.asarray(pairs)
        if np.shape(values)[1:] != (3,):
            return values
    table = read_comparisons(pairs)
    return np.stack([table.first, table.second], axis=1)
