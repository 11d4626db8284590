"""Recorded comparisons, with repeats merged."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.comparisons.gp.inference.likelihood import Outcomes
from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.params import Shape
from rankwise.core.storable import storable
from rankwise.graph.edges import Incidence


@storable
@final
@dataclass(frozen=True, eq=False)
class Comparisons:
    """Hold every distinct comparison once, with the number of times it was recorded.

    All copies of a comparison have the same site at the fixed point of expectation propagation, so
    one stored copy with its count is exact. The order is that of the first appearance.

    Parameters
    ----------
    winner, loser : (n_pairs,)
        The items compared, as row numbers of X; for a tie the smaller number comes first.
    count : (n_pairs,)
        How often the comparison was recorded.
    tied : (n_pairs,)
        Whether the answer was "no preference".
    margin : (n_pairs,)
        The recorded difference of scores, or 1.
    judge : (n_pairs,), optional
        Who answered, counted from 1; 0 if unknown. By default all are unknown.
    """

    winner: Annotated[IntArray, Shape("n_pairs")]
    loser: Annotated[IntArray, Shape("n_pairs")]
    count: Annotated[FloatArray, Shape("n_pairs")]
    tied: Annotated[BoolArray, Shape("n_pairs")]
    margin: Annotated[FloatArray, Shape("n_pairs")]
    judge: Annotated[IntArray | None, Shape("n_pairs")] = None

    @classmethod
    def from_pairs(
        cls,
        pairs: ArrayLike,
        *,
        tied: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        judge: IntArray | None = None,
    ) -> Self:
        """Merge pairs of row numbers, winner first, with one sort.

        Parameters
        ----------
        pairs : (n_pairs, 2)
        tied, margin, weight : (n_pairs,)
            What was recorded with each pair; a weight of k counts like k repeats.
        judge : (n_pairs,), optional
            Who answered, counted from 1; 0 if unknown.
        """
        items = _as_pairs(pairs)
        n_pairs = len(items)
        is_tied = _one_each("tied", tied, n_pairs, default=0.0) != 0.0
        margins = _one_each("margin", margin, n_pairs, default=1.0)
        weights = _one_each("weight", weight, n_pairs, default=1.0)
        if (weights <= 0.0).any():
            raise InvalidInputError(
                f"`weight` must be above 0: got {weights.min()}. Leave pairs without weight out."
            )
        items = np.where(is_tied[:, None], np.sort(items, axis=1), items)
        who = np.zeros(n_pairs, dtype=np.intp) if judge is None else judge
        return cls._merged(items[:, 0], items[:, 1], weights, is_tied, margins, who)

    def extend(self, new: Self) -> Self:
        """Add comparisons: new counts for pairs already here, new pairs at the end."""
        return self._merged(
            np.append(self.winner, new.winner),
            np.append(self.loser, new.loser),
            np.append(self.count, new.count),
            np.append(self.tied, new.tied),
            np.append(self.margin, new.margin),
            np.append(self.judges, new.judges),
        )

    def without(self, old: Self) -> tuple[Self, IntArray]:
        """Remove comparisons; return what is left, and the positions of the remaining pairs.

        Parameters
        ----------
        old : Comparisons
            Each must have been recorded at least as often.
        """
        place = {key: k for k, key in enumerate(self._keys())}
        count = self.count.copy()
        for key, taken in zip(old._keys(), old.count, strict=True):
            if key not in place or taken > count[place[key]] * (1.0 + 1e-12):
                recorded = count[place[key]] if key in place else 0
                raise InvalidInputError(
                    "Answers must have been recorded before they can be taken back: got "
                    f"{taken:g} of items {key[0]} and {key[1]}, recorded {recorded:g} times."
                )
            count[place[key]] -= taken
        kept = np.flatnonzero(count > 1e-12 * self.count)
        if len(kept) == 0:
            raise NothingToLearnError("At least one answer must be left: got all of them.")
        return self._taken(kept, count), kept

    def _keys(self) -> list[tuple[int, int, bool, float, int]]:
        columns = (self.winner, self.loser, self.tied, self.margin, self.judges)
        return list(zip(*(values.tolist() for values in columns), strict=True))

    @classmethod
    def _merged(
        cls,
        winner: IntArray,
        loser: IntArray,
        weight: FloatArray,
        tied: BoolArray,
        margin: FloatArray,
        judge: IntArray,
    ) -> Self:
        order = np.lexsort((judge, margin, tied, loser, winner))  # stable: equal rows stay in order
        keys = [values[order] for values in (winner, loser, tied, margin, judge)]
        is_new = np.append(True, np.any([key[1:] != key[:-1] for key in keys], axis=0))
        group = np.empty(len(order), dtype=np.intp)
        group[order] = np.cumsum(is_new) - 1
        first = order[is_new]
        by_appearance = np.argsort(first)
        first = first[by_appearance]
        count = np.bincount(group, weights=weight)[by_appearance]
        return cls(
            freeze(winner[first]),
            freeze(loser[first]),
            freeze(count),
            freeze(tied[first]),
            freeze(margin[first]),
            freeze(judge[first]) if judge.any() else None,
        )

    @property
    def judges(self) -> IntArray:
        """Who answered each comparison; 0 if unknown."""
        return np.zeros(self.n_pairs, dtype=np.intp) if self.judge is None else self.judge

    def of_judge(self, judge: int) -> tuple[Self | None, IntArray]:
        """Return the comparisons of one judge (None if there are none) and their positions."""
        rows = np.flatnonzero(self.judges == judge)
        if len(rows) == 0:
            return None, rows
        return self._taken(rows, self.count), rows

    def _taken(self, rows: IntArray, count: FloatArray) -> Self:
        """Return some of the comparisons, with these counts in place of all."""
        return type(self)(
            freeze(self.winner[rows]),
            freeze(self.loser[rows]),
            freeze(count[rows]),
            freeze(self.tied[rows]),
            freeze(self.margin[rows]),
            None if self.judge is None else freeze(self.judge[rows]),
        )

    @cached_property
    def outcomes(self) -> Outcomes:
        """What the likelihood needs."""
        return Outcomes(self.tied, self.margin, np.zeros(self.n_pairs), self.judges)

    def as_duels(self) -> tuple[IntArray, Self]:
        """Return the pairs that were compared, and the same answers as comparisons of duels with 0.

        Returns
        -------
        duels : (n_duels, 2)
            The smaller number first.
        answers : Comparisons
            Duel k is number k + 1; it wins against number 0 if its first item won.
        """
        ends = np.sort(np.stack([self.winner, self.loser], axis=1), axis=1)
        duels, number = np.unique(ends, axis=0, return_inverse=True)
        number = number.ravel() + 1
        won = (self.winner < self.loser) | self.tied
        winner, loser = np.where(won, number, 0), np.where(won, 0, number)
        return duels, replace(self, winner=freeze(winner), loser=freeze(loser))

    def from_duels(self, duels: IntArray) -> Self:
        """Return the comparisons of items from which `as_duels` made these."""
        won = self.loser == 0
        first, second = duels[np.maximum(self.winner, self.loser) - 1].T
        winner, loser = np.where(won, first, second), np.where(won, second, first)
        return replace(self, winner=freeze(winner), loser=freeze(loser))

    @property
    def n_pairs(self) -> int:
        """Number of distinct comparisons."""
        return len(self.winner)

    @property
    def margin_scale(self) -> float:
        """The root mean square of the margins, 1 if all are 0."""
        return float(np.sqrt(np.average(self.margin**2, weights=self.count))) or 1.0

    @cached_property
    def items(self) -> IntArray:
        """The items that take part, in ascending order."""
        return freeze(np.unique([self.winner, self.loser]))

    @cached_property
    def pairs(self) -> Incidence:
        """The winner and the loser of each comparison, as positions in ``items``."""
        first, second = np.searchsorted(self.items, [self.winner, self.loser])
        return Incidence(first, second, len(self.items))

    def __repr__(self) -> str:
        return (
            f"Comparisons({self.count.sum():g} answers about {self.n_pairs} pairs "
            f"of {len(self.items)} items)"
        )


def _as_pairs(pairs: ArrayLike) -> IntArray:
    values = np.asarray(pairs)
    if values.size == 0:
        raise NothingToLearnError("`pairs` must hold at least one comparison: got none.")
    if values.ndim != 2 or values.shape[1] != 2 or values.dtype.kind not in "iu":
        raise InvalidInputError(
            "`pairs` must be whole numbers of shape (n_pairs, 2), the winner's row first: got "
            f"shape {values.shape} and type {values.dtype}."
        )
    if values.min() < 0:
        raise InvalidInputError(f"`pairs` must hold row numbers from 0 on: got {values.min()}.")
    same = values[:, 0] == values[:, 1]
    if same.any():
        raise InvalidInputError(
            "`pairs` must compare two different items: pair "
            f"{int(np.argmax(same))} compares item {int(values[np.argmax(same), 0])} with itself."
        )
    return values.astype(np.intp)


def _one_each(name: str, values: ArrayLike | None, n_pairs: int, *, default: float) -> FloatArray:
    if values is None:
        return np.full(n_pairs, default)
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (n_pairs,):
        raise InvalidInputError(
            f"`{name}` must have one entry per pair: there are {n_pairs} pairs, `{name}` has shape "
            f"{vector.shape}."
        )
    if not np.isfinite(vector).all():
        raise InvalidInputError(f"`{name}` must be finite: got NaN or infinity.")
    return vector
