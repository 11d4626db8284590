"""The training data of ``fit``, checked once."""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.checks import (
    LARGEST,
    as_floats,
    check_finite,
    check_length,
    check_pairs,
    check_scores,
    check_weight,
    refuse_huge_entries,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries


@final
@dataclass(frozen=True, eq=False)
class TrainingData:
    """Hold scored items, or comparisons of items, with the queries of the items.

    Build it with `of`, which checks everything. Both items of a comparison are in one query.

    Parameters
    ----------
    n_items : int
        Number of rows of X.
    queries : Queries
        The query of each item; a single query if none were named.
    has_qid : bool
        Whether the caller named queries.
    y : (n_items,) or (n_items, n_outputs), optional
        Scores.
    sample_weight : (n_items,), optional
        Weight of each item, where given.
    pairs : (n_pairs, 2), optional
        Comparisons, winner first.
    pair_margin, pair_weight : (n_pairs,), optional
        Margin and weight of each comparison, 1 where not given.
    """

    n_items: int
    queries: Queries
    has_qid: bool = False
    y: FloatArray | None = None
    sample_weight: FloatArray | None = None
    pairs: IntArray | None = None
    pair_margin: FloatArray | None = None
    pair_weight: FloatArray | None = None

    @classmethod
    def of(
        cls,
        n_items: int,
        y: ArrayLike | None = None,
        qid: ArrayLike | Queries | None = None,
        sample_weight: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> Self:
        """Check the arguments of ``fit`` other than X, which has ``n_items`` rows."""
        _refuse_both(y, sample_weight, pairs)
        if pairs is None:
            _refuse_without_pairs(pair_margin, pair_weight)
            return cls._from_scores(n_items, y, qid, sample_weight)
        checked = check_pairs(pairs, n_items)
        weight = check_weight("pair_weight", pair_weight, len(checked), "pair")
        return cls(
            n_items,
            _queries_of_pairs(qid, checked, n_items),
            qid is not None,
            pairs=checked,
            pair_margin=freeze(_margins(pair_margin, len(checked))),
            pair_weight=freeze(weight),
        )

    @classmethod
    def _from_scores(
        cls, n_items: int, y: ArrayLike | None, qid: Any, weight: ArrayLike | None
    ) -> Self:
        assert y is not None
        scores = check_scores(y)
        check_length("y", scores, n_items)
        _refuse_extremes("y", scores)
        queries = Queries.of(qid, n_items)
        checked = None
        if weight is not None:
            checked = freeze(check_weight("sample_weight", weight, n_items, "row of `X`"))
        return cls(n_items, queries, qid is not None, freeze(scores), checked)

    @property
    def is_scored(self) -> bool:
        """Whether items have scores; comparisons otherwise."""
        return self.y is not None

    @property
    def scores(self) -> FloatArray:
        """The scores as given, (n_items,) or (n_items, n_outputs); refuses comparisons."""
        if self.y is None:
            raise InvalidInputError("Scores `y` must be given here: got comparisons (`pairs`).")
        return self.y

    @property
    def comparisons(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The pairs, their margins and their weights; refuses scores."""
        if self.pairs is None or self.pair_margin is None or self.pair_weight is None:
            raise InvalidInputError("Comparisons (`pairs`) must be given here: got scores `y`.")
        return self.pairs, self.pair_margin, self.pair_weight

    @property
    def pair_queries(self) -> IntArray:
        """The number of the query of each comparison; refuses scores."""
        return self.queries.index[self.comparisons[0][:, 0]]

    @property
    def is_multi_output(self) -> bool:
        """Whether scores came as a matrix with a column per output."""
        return self.y is not None and self.y.ndim == 2

    @property
    def weight(self) -> FloatArray:
        """The weight of each item, 1 where none was given."""
        return np.ones(self.n_items) if self.sample_weight is None else self.sample_weight

    def by_output(self) -> "list[TrainingData]":
        """Return the data of each output; the data themselves where there is one only."""
        if self.y is None or self.y.ndim == 1:
            return [self]
        return [replace(self, y=freeze(column.copy())) for column in self.y.T]

    def single_output(self, remedy: str) -> FloatArray:
        """Return scores of shape (n_items,), or refuse with what to do instead."""
        return one_output(self.scores, "y", remedy)

    def without(self, rows: IntArray) -> Self:
        """Give some items the weight 0; X and the queries stay whole."""
        weight = self.weight.copy()
        weight[rows] = 0.0
        return replace(self, sample_weight=freeze(weight))

    def take(self, rows: IntArray) -> Self:
        """Keep the given scored items only; queries left without items disappear."""
        weight = None if self.sample_weight is None else freeze(self.sample_weight[rows])
        scores = freeze(self.scores[rows])
        queries = self.queries.take(rows)
        return replace(self, n_items=len(rows), queries=queries, y=scores, sample_weight=weight)

    def without_pairs(self, held_out: IntArray) -> Self:
        """Give some comparisons the weight 0."""
        weight = self.comparisons[2].copy()
        weight[held_out] = 0.0
        return replace(self, pair_weight=freeze(weight))


def one_output(y: ArrayLike, name: str, remedy: str) -> FloatArray:
    """Return checked scores of a single output."""
    scores = check_scores(y, name)
    if scores.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,): got {scores.shape}. {remedy}"
        )
    return scores


def _margins(margin: ArrayLike | None, n_pairs: int) -> FloatArray:
    if margin is None:
        return np.ones(n_pairs)
    values = as_floats("pair_margin", margin)
    if values.shape != (n_pairs,):
        raise InvalidInputError(
            f"`pair_margin` must have one entry per pair: there are {n_pairs}, "
            f"got shape {values.shape}."
        )
    check_finite("pair_margin", values)
    _refuse_extremes("pair_margin", values)
    return values


def _refuse_extremes(name: str, values: FloatArray) -> None:
    """Refuse numbers whose squares double precision cannot hold, or takes for 0."""
    refuse_huge_entries(values, values, name, "Divide all of them by a constant.")
    largest = float(np.abs(values).max(initial=0.0))
    if 0.0 < largest < 1.0 / LARGEST:
        raise InvalidInputError(
            f"`{name}` must hold numbers above {1.0 / LARGEST:.0e} in magnitude to be learned "
            f"from: the largest is {largest:.3g}. Multiply all of them by a constant."
        )


def _queries_of_pairs(qid: Any, pairs: IntArray, n_items: int) -> Queries:
    """Return the queries of the items; refuse comparisons of items of different queries."""
    queries = Queries.of(qid, n_items)
    ends = queries.index[pairs]
    across = ends[:, 0] != ends[:, 1]
    if across.any():
        number = int(np.argmax(across))
        winner, loser = queries.ids[ends[number]].tolist()
        raise InvalidInputError(
            "Both items of a pair must belong to one query: pair "
            f"{number} joins rows {pairs[number, 0]} of query {winner!r} and {pairs[number, 1]} of "
            f"query {loser!r}. Leave such pairs out, or leave out `qid` for one global ranking."
        )
    return queries


def _refuse_both(y: object, sample_weight: object, pairs: object) -> None:
    """Refuse both scores and comparisons, neither, and weights of items with comparisons."""
    if y is None and pairs is None:
        raise InvalidInputError(
            "`fit` requires y to be passed, but the target y is None. Give scores `y`, "
            "or comparisons `pairs`."
        )
    if pairs is not None and y is not None:
        raise InvalidInputError(
            "`fit` takes either scores (`y`) or comparisons (`pairs`): got both. Leave one out."
        )
    if pairs is not None and sample_weight is not None:
        raise InvalidInputError(
            "`sample_weight` must come with scores `y`: got comparisons (`pairs`), which have "
            "their own weights. Use `pair_weight`."
        )


def _refuse_without_pairs(pair_margin: object, pair_weight: object) -> None:
    if pair_margin is not None or pair_weight is not None:
        name = "pair_margin" if pair_margin is not None else "pair_weight"
        raise InvalidInputError(
            f"`{name}` must come with `pairs`: got scores `y`. Give `pairs`, or leave it out."
        )
