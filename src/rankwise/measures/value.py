"""A measure is a value that compares, hashes, prints, parses and rates rankings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.options import Empty, hint, listed, positive_integer, rules, shown
from rankwise.measures.rankings import Judgements, Rankings, many_vectors, one_vector

ROWS_AT_ONCE = 1 << 22
"""Many score vectors are measured so many rows at a time, which bounds the memory for orders."""

_FILL: dict[str, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}


@final
@dataclass(frozen=True, eq=False)
class MeasurePlan:
    """Hold what a measure finds in the grades, before any score.

    Parameters
    ----------
    defined : (n_queries,)
        The queries whose grades define the measure. Scores do not matter here, so that two rankings
        are always compared over the same queries.
    weight : (n_queries,)
        The weight of each query in the overall value.
    values : callable
        Gives the values of rankings, shape (n_vectors, n_queries), finite everywhere.
    """

    defined: BoolArray
    weight: FloatArray
    values: Callable[[Rankings], FloatArray]


@dataclass(frozen=True, kw_only=True, repr=False)
class Measure(ABC):
    """Rate the ranking of each query: the base class of all measures.

    ``measure @ k`` looks at the first k items only, and ``measure(name=value, ...)`` changes
    parameters; both return a new measure. Measures are equal when all their parameters are equal.

    Examples
    --------
    >>> from rankwise import NDCG, Measure, Queries
    >>> isinstance(NDCG @ 10, Measure)
    True
    >>> y, scores, queries = [1, 0, 0, 2], [4, 3, 2, 1], Queries.from_qid(["a", "a", "b", "b"])
    >>> NDCG.per_query(y, scores, queries).round(4)
    array([1.    , 0.6309])
    >>> round(NDCG.overall(y, scores, queries), 4)
    0.8155
    """

    name: ClassVar[str]
    greater_is_better: ClassVar[bool]
    takes_weights: ClassVar[bool]

    empty: Empty = "skip"

    def __post_init__(self) -> None:
        for name, rule in rules(type(self)).items():
            object.__setattr__(self, name, rule(name, getattr(self, name)))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters: the measure's own first, then those that many measures share."""
        last = {"ties": 1, "empty": 2, "cutoff": 3}
        names = sorted((entry.name for entry in fields(self)), key=lambda name: last.get(name, 0))
        return {name: getattr(self, name) for name in names}

    def __call__(self, **changes: Any) -> Self:
        """Return the measure with some parameters changed."""
        for name in changes:
            if name not in self.parameters:
                raise InvalidInputError(
                    f"{self.name} has the parameters {listed(self.parameters)}: got {name!r}."
                    f"{hint(name, self.parameters)}"
                )
        return replace(self, **changes)

    def __matmul__(self, cutoff: int) -> Self:
        if "cutoff" not in self.parameters:
            raise InvalidInputError(
                f"{self.name} looks at the whole ranking and takes no cut-off: got @ {cutoff!r}. "
                "Leave it out."
            )
        changes: dict[str, Any] = {"cutoff": positive_integer("cutoff", cutoff)}
        return replace(self, **changes)

    def __repr__(self) -> str:
        default = {entry.name: entry.default for entry in fields(self)}
        changed = {name: v for name, v in self.parameters.items() if v != default[name]}
        cutoff = changed.pop("cutoff", None)
        inside = ", ".join(f"{name}={shown(value)}" for name, value in changed.items())
        head = f"{self.name}({inside})" if inside else self.name
        return head if cutoff is None else f"{head} @ {cutoff}"

    @abstractmethod
    def plan(self, judgements: Judgements) -> MeasurePlan:
        """Prepare what depends on the grades alone."""

    def rate(self, plan: MeasurePlan, rankings: Rankings) -> FloatArray:
        """Return the value of each cell, shape (n_vectors, n_queries), with ``empty`` applied."""
        return np.where(plan.defined, plan.values(rankings), _FILL[self.empty])

    def prepare(self, judgements: Judgements) -> MeasurePlan:
        """Plan for these grades; refuse weights if the measure has no weighted form."""
        if judgements.weighted and not self.takes_weights:
            raise InvalidInputError(
                f"{self.name} has no weighted form: got `sample_weight`. Leave it out, or use a "
                "measure of pairs such as Concordance, where a pair weighs the product of the "
                "weights of its items."
            )
        return self.plan(judgements)

    def per_query(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
    ) -> FloatArray:
        """Return the value of each query; NaN where it is undefined and skipped.

        Parameters
        ----------
        y : (n_items,)
            The grades: the higher, the better the item.
        scores : (n_items,)
            The scores that order the items, highest first.
        queries : Queries
            The grouping of the items.
        sample_weight : (n_items,), optional
            Weights of the items, for measures of pairs.
        """
        return self.values_many(y, one_vector(scores), queries, sample_weight)[0]

    def values_many(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
        *,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> FloatArray:
        """Return the values for many score vectors, shape (n_vectors, n_queries).

        What depends on ``y`` alone is done once.

        Parameters
        ----------
        y, queries, sample_weight
            As in `per_query`.
        scores : (n_vectors, n_items)
            One ranking per row.
        rows_at_once : int
            Number of scores to rank at a time, at least one vector; bounds the memory.
        """
        judgements = Judgements.of(y, queries, sample_weight)
        return self._rate_many(judgements, self.prepare(judgements), scores, rows_at_once)

    def overall(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean over the queries where the measure is defined, NaN if there is none.

        Arguments as in `per_query`. A pooled measure weights queries by their pairs.
        """
        return float(self.overall_many(y, one_vector(scores), queries, sample_weight)[0])

    def overall_many(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        queries: Queries,
        sample_weight: ArrayLike | None = None,
        *,
        rows_at_once: int = ROWS_AT_ONCE,
    ) -> FloatArray:
        """Return the overall value of each score vector, shape (n_vectors,).

        Arguments as in `values_many`.
        """
        judgements = Judgements.of(y, queries, sample_weight)
        plan = self.prepare(judgements)
        values = self._rate_many(judgements, plan, scores, rows_at_once)
        return weighted_mean(values, plan.weight)

    def _rate_many(
        self, judgements: Judgements, plan: MeasurePlan, scores: ArrayLike, rows_at_once: int
    ) -> FloatArray:
        matrix = many_vectors(scores, len(judgements.y))
        out = np.empty((len(matrix), judgements.queries.n_queries))
        step = max(1, rows_at_once // len(judgements.y))
        for first in range(0, len(matrix), step):
            part = slice(first, first + step)
            out[part] = self.rate(plan, Rankings.of_checked(judgements, matrix[part]))
        return out


def weighted_mean(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Average over the queries (last axis) that have a value; NaN when none has."""
    mass = np.where(np.isnan(values), 0.0, weight)
    total = mass.sum(axis=-1)
    return ratio((np.nan_to_num(values) * mass).sum(axis=-1), total, otherwise=np.nan)


def ratio(numerator: FloatArray, denominator: FloatArray, otherwise: float = 0.0) -> FloatArray:
    """Divide; where the denominator is 0 the result is ``otherwise``."""
    quotient = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), otherwise)
    return np.divide(numerator, denominator, out=quotient, where=denominator != 0)
