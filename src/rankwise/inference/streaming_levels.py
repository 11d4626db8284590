"""Statistics of one query that is too large for memory, level by level."""

from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.graph import PreferenceGraph
from rankwise.inference.rls import as_columns, moment

ROWS_AT_ONCE = 4096
"""Rows that are centred and squared together."""


class OnePassError(InvalidInputError):
    """The rows cannot be reduced to statistics in one pass and bounded memory."""


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and scatter of some rows, and their covariation with the scores; mergeable.

    Sums of squares are taken around the mean of each part, and the parts joined by the difference
    of their means, so that large common offsets cost no digits (rankrls.md calls this 7).
    """

    n_items: int
    mean: FloatArray
    scatter: FloatArray
    y_mean: float
    cross: FloatArray

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray) -> Self:
        """Reduce dense rows."""
        mean, y_mean = X.mean(axis=0), float(y.mean())
        Z = X - mean
        return cls(len(y), mean, Z.T @ Z, y_mean, Z.T @ (y - y_mean))

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of both sets of rows together."""
        n_items = self.n_items + other.n_items
        step, y_step = other.mean - self.mean, other.y_mean - self.y_mean
        weight = self.n_items * other.n_items / n_items
        return Moments(
            n_items,
            self.mean + step * (other.n_items / n_items),
            self.scatter + other.scatter + weight * np.outer(step, step),
            self.y_mean + y_step * other.n_items / n_items,
            self.cross + other.cross + (weight * y_step) * step,
        )


@final
@dataclass(eq=False)
class LargeQuery:
    """Gather the moments of each level of a query; of one group when ties are kept.

    Parameters
    ----------
    qid
        The id of the query.
    n_features : int
        Number of columns.
    memory : int
        Bytes that the moments may take.
    one_group : bool
        Whether all levels are one.
    """

    qid: Any
    n_features: int
    memory: int
    one_group: bool
    levels: dict[float, Moments] = field(default_factory=dict)

    def add(self, X: Matrix, y: FloatArray) -> None:
        """Gather more rows."""
        for start in range(0, len(y), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            block = X[rows].toarray() if sparse.issparse(X) else X[rows].astype(np.float64)
            self._add_dense(block, y[rows])

    def _add_dense(self, X: FloatArray, y: FloatArray) -> None:
        level = np.zeros(len(y)) if self.one_group else y
        for value in np.unique(level).tolist():
            chosen = level == value
            part = Moments.of(X[chosen], y[chosen])
            known = self.levels.get(value)
            self.levels[value] = part if known is None else known.merge(part)
        if 8 * len(self.levels) * self.n_features**2 > self.memory:
            raise OnePassError(
                f"Query {self.qid!r} does not fit in memory, and its {len(self.levels)} distinct "
                "scores are too many for statistics of each. Raise `memory`, keep ties, or choose "
                "solver='iterations'."
            )

    def gram_and_moment(self, options: dict[str, Any]) -> tuple[FloatArray, FloatArray] | None:
        """Return ``X' L X`` and ``X' r``; None when there is no preference."""
        if self.one_group:
            (group,) = self.levels.values()
            degree = _clique_weight(options["query_weight"], group.n_items) * group.n_items
            return degree * group.scatter, degree * group.cross
        return self._of_levels(options)

    def _of_levels(self, options: dict[str, Any]) -> tuple[FloatArray, FloatArray] | None:
        """Treat levels as items that weigh as much as they hold, and add the scatter inside."""
        values = np.array(list(self.levels))
        moments = list(self.levels.values())
        counts = np.array([level.n_items for level in moments], dtype=float)
        means = np.stack([level.mean for level in moments])
        try:
            graph = PreferenceGraph.from_scores(values, sample_weight=counts, **options)
        except NothingToLearnError:
            return None
        laplacian = graph.laplacian
        gram = laplacian.gram(means)
        for degree, level in zip(laplacian.diagonal() / counts, moments, strict=True):
            gram += degree * level.scatter
        return gram, moment(means, as_columns(graph.rhs), laplacian.anchor())[:, 0]


def _clique_weight(query_weight: Any, n_items: int) -> float:
    """Return omega of a query whose ties are kept."""
    if isinstance(query_weight, str):
        choices = {"items": 1.0 / n_items, "pairs": 1.0, "equal": 2.0 / (n_items * (n_items - 1.0))}
        return choices[query_weight]
    return float(query_weight[0])
