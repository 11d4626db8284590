"""The losses of trees: exact losses over all pairs, as gradients and curvatures of scores."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.graph.pair_sums import ExplicitPairs, GradedPairs, PairSet
from rankwise.graph.preference_graph import Cost, Grades, PreferenceGraph, QueryWeight, Ties

TreeLoss: TypeAlias = Literal["rank_rls", "squared_hinge", "lambdarank"]

LARGEST_QUERY = 10_000
"""Largest query that LightGBM's lambdarank takes."""

LARGEST_EXPONENT = 30
"""Gains are 2^y - 1 for grades up to this, and the grades themselves beyond."""


class TreeObjective(ABC):
    """A loss that LightGBM grows trees for."""

    name: str
    """What LightGBM calls it; "none" where gradients are given."""

    @abstractmethod
    def add_tree(self, booster: Any) -> None:
        """Grow the next tree of a LightGBM booster."""

    @abstractmethod
    def labels(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return one label per item, and the options of LightGBM that explain them."""


class GivenDerivatives(TreeObjective, ABC):
    """A loss of our own, whose derivatives are passed to LightGBM."""

    name = "none"

    @abstractmethod
    def derivatives(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient by the scores, and the diagonal of the second derivative."""

    def add_tree(self, booster: Any) -> None:
        """Grow the next tree for the derivatives at the scores so far."""
        booster.update(fobj=lambda scores, _: self._representable(np.asarray(scores, dtype=float)))

    def _representable(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives if LightGBM, which takes single precision, can hold them."""
        slope, curvature = self.derivatives(scores)
        largest = max(np.abs(slope).max(), curvature.max())
        if not largest < np.finfo(np.float32).max:
            raise InvalidInputError(
                "Trees must have scores `y` and weights whose products single precision can hold: "
                f"the largest derivative is {largest:.3g}. Divide scores or weights by the largest."
            )
        return slope, curvature


@final
@dataclass(frozen=True, eq=False)
class LeastSquares(GivenDerivatives):
    r"""The RankRLS loss: gradient :math:`Lf - r`, curvature the degrees. O(n) per call.

    Both are divided by the mean degree, so that regularisation means the same for every cost and
    weight of queries.
    """

    graph: PreferenceGraph
    degree: FloatArray
    factor: float

    @classmethod
    def of(cls, data: TrainingData, cost: Cost, ties: Ties, query_weight: QueryWeight) -> Self:
        """Build the graph of the training data."""
        graph = PreferenceGraph.of(data, cost=cost, ties=ties, query_weight=query_weight)
        degree = graph.laplacian.diagonal()
        return cls(graph, degree, _inverse_mean_degree(degree, data))

    def derivatives(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``graph @ f - graph.rhs`` and the degrees."""
        return self.factor * (self.graph @ scores - self.graph.rhs), self.factor * self.degree

    def labels(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return zeros: the scores are in the graph."""
        return np.zeros(len(self.degree)), {}


@final
@dataclass(frozen=True, eq=False)
class SquaredHinge(GivenDerivatives):
    """Half the sum of squared positive slacks over all pairs: O(n log n) per call."""

    pairs: PairSet
    factor: float

    @classmethod
    def of(cls, data: TrainingData, cost: Cost, query_weight: QueryWeight) -> Self:
        """Build the pairs of the training data."""
        if cost == "relative":
            raise InvalidInputError(
                f"loss='squared_hinge' must have cost='unit' or 'magnitude': got {cost!r}."
            )
        graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
        factor = _inverse_mean_degree(graph.laplacian.diagonal(), data)
        if not data.is_scored:
            return cls(ExplicitPairs.of(data, cost, query_weight), factor)
        y = data.single_output("Grow trees for one output at a time.")
        grades = Grades.of(data.queries, y, data.weight, keep_ties=False)
        omega = grades.query_weights(query_weight)
        return cls(GradedPairs.of(grades, omega, y, cost), factor)

    def derivatives(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sums over the pairs whose slack is positive."""
        slacks = self.pairs.slacks(scores)
        degree = slacks.band(0.0, np.inf).diagonal()
        return self.factor * slacks.violations(0.0).squares_slope, self.factor * degree

    def labels(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return zeros: the scores are in the pairs."""
        return np.zeros(self.pairs.n_items), {}


@final
@dataclass(frozen=True, eq=False)
class LambdaRank(TreeObjective):
    """LightGBM's own lambdarank, for any real grades: their gains are passed in a table."""

    y: FloatArray
    name = "lambdarank"

    @classmethod
    def of(cls, data: TrainingData) -> Self:
        """Take the grades of the training data; refuse comparisons."""
        if not data.is_scored:
            raise InvalidInputError(
                "loss='lambdarank' must have scores `y`: got comparisons (`pairs`). Use "
                "loss='rank_rls' or 'squared_hinge'."
            )
        largest = int(data.queries.sizes.max())
        if largest > LARGEST_QUERY:
            raise InvalidInputError(
                f"loss='lambdarank' must have at most {LARGEST_QUERY:,} items in a query: got "
                f"{largest:,}. Use loss='rank_rls' or 'squared_hinge'."
            )
        return cls(data.single_output("Grow trees for one output at a time."))

    def add_tree(self, booster: Any) -> None:
        """Grow the next tree for LightGBM's own derivatives."""
        booster.update()

    def labels(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return the number of each item's grade, and the gains of the grades."""
        grades, number = np.unique(self.y, return_inverse=True)
        level = grades - min(grades[0], 0.0)
        gains = np.exp2(level) - 1.0 if level[-1] <= LARGEST_EXPONENT else level
        return number.astype(float), {"label_gain": gains.tolist()}


def tree_objective(
    loss: TreeLoss, data: TrainingData, cost: Cost, ties: Ties, query_weight: QueryWeight
) -> TreeObjective:
    """Return the loss that trees are grown for, on some training data."""
    if loss == "rank_rls":
        return LeastSquares.of(data, cost, ties, query_weight)
    if loss == "squared_hinge":
        return SquaredHinge.of(data, cost, query_weight)
    return LambdaRank.of(data)


def _inverse_mean_degree(degree: FloatArray, data: TrainingData) -> float:
    active = degree > 0.0
    return float(data.weight[active].sum() / degree.sum())


def sizes_of_runs(index: IntArray) -> IntArray:
    """Return the lengths of the runs of equal numbers."""
    starts = np.flatnonzero(np.r_[True, index[1:] != index[:-1]])
    return np.diff(np.append(starts, len(index)))
