"""Queries whose items lie in several parts of the data: their graph as a sum over the parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, freeze, joint_numbers, sum_by
from rankwise.core.queries import Queries
from rankwise.graph.laplacian import CliqueLaplacian, GraphLaplacian, NestedCliqueLaplacian
from rankwise.graph.preference_graph import (
    Cost,
    Grades,
    PreferenceGraph,
    QueryWeight,
    Ties,
    given_query_weight,
    standard_query_weight,
)


@final
@dataclass(frozen=True, eq=False)
class GradeCounts:
    """What a part of the data holds of each grade of its queries; of each query if ties are kept.

    Parameters
    ----------
    qid : (n_grades,)
        The id of the query.
    value : (n_grades,)
        The score; the mean score of the items of the query where ties are kept.
    mass, square_mass : (n_grades,)
        Sum of the weights of its items here, and of their squares.
    n_items : (n_grades,)
        Number of items of weight above 0.
    grade : (n_items,)
        The grade of each item here.
    """

    qid: NDArray[Any]
    value: FloatArray
    mass: FloatArray
    square_mass: FloatArray
    n_items: IntArray
    grade: IntArray

    @classmethod
    def of(cls, y: FloatArray, qid: NDArray[Any], weight: FloatArray, *, ties: Ties) -> Self:
        """Count the items of one part."""
        queries = Queries.from_qid(qid)
        grades = Grades.of(queries, y, weight, keep_ties=ties == "keep")
        number, n_grades = grades.grade, grades.n_grades
        lowest = np.full(n_grades, np.inf)
        np.minimum.at(lowest, number, y)
        lead = sum_by(number, weight * (y - lowest[number]), n_grades)
        mean = np.divide(lead, grades.mass, out=np.zeros(n_grades), where=grades.mass > 0)
        return cls(
            queries.ids[grades.query],
            lowest + mean,
            grades.mass,
            sum_by(number, weight**2, n_grades),
            np.bincount(number[weight > 0], minlength=n_grades),
            number,
        )

    def without_items(self) -> "GradeCounts":
        """Return what the other parts need to know: all but the grade of each item."""
        none = np.zeros(0, dtype=np.intp)
        return GradeCounts(self.qid, self.value, self.mass, self.square_mass, self.n_items, none)


@final
@dataclass(frozen=True, eq=False)
class QueryShare:
    r"""The share of one part of the data in the graph of all: what its own items say of each other.

    Items are joined with their *bundle*: the items here of one grade, where other parts hold that
    grade too, or else all items here of a query whose grades no other part holds. What lies between
    bundles is left to the graph over bundles, `SplitQueries.graph`.

    Parameters
    ----------
    degree : (n_grades,)
        What multiplies the scatter of a grade around its mean.
    slope : (n_grades,)
        What multiplies the scatter of the means of the grades of a bundle.
    pull : (n_grades,)
        The right-hand side of an item of weight 1.
    value : (n_grades,)
        The score to which the pull belongs.
    mass : (n_grades,)
        The weight of each grade here.
    bundle : (n_grades,)
        The bundle of each grade, numbered within the part.
    is_shared : (n_grades,)
        Whether other parts hold the grade, too.
    """

    degree: FloatArray
    slope: FloatArray
    pull: FloatArray
    value: FloatArray
    mass: FloatArray
    bundle: IntArray
    is_shared: NDArray[np.bool_]

    @property
    def n_bundles(self) -> int:
        """Number of bundles."""
        return int(self.bundle.max(initial=-1)) + 1

    def local_graph(
        self, grade: IntArray, y: FloatArray, qid: NDArray[Any], weight: FloatArray
    ) -> PreferenceGraph:
        """Return the graph inside the bundles; ``grade`` is that of `GradeCounts`."""
        own = np.where(self.is_shared, -1, self.bundle)
        within = CliqueLaplacian.of_groups(grade, weight, self.degree, self.bundle)
        slope = np.zeros(self.n_bundles)
        slope[self.bundle] = self.slope
        between = CliqueLaplacian(
            np.where(self.mass > 0, own, -1), self.mass, slope, np.arange(self.n_bundles)
        )
        bundle = self.bundle[grade]
        component = np.where(weight > 0, bundle, -1)
        laplacian = NestedCliqueLaplacian(within, between, component)
        rhs = self._own_rhs(grade, bundle, y, weight)
        return PreferenceGraph(laplacian, freeze(rhs), Queries.from_qid(qid))

    def _own_rhs(
        self, grade: IntArray, bundle: IntArray, y: FloatArray, weight: FloatArray
    ) -> FloatArray:
        """Return the right-hand side less its mean over each bundle."""
        pull = self.pull[grade] + self.slope[grade] * (y - self.value[grade])
        mass = sum_by(bundle, weight, self.n_bundles)
        total = sum_by(bundle, weight * pull, self.n_bundles)
        mean = np.divide(total, mass, out=np.zeros_like(mass), where=mass > 0)
        return weight * (pull - mean[bundle])

    def bundles(self, grade: IntArray, weight: FloatArray) -> CliqueLaplacian:
        """Return the items grouped by bundle; its ``means`` are the rows of the bundles."""
        none = np.zeros(self.n_bundles)
        return CliqueLaplacian.of_groups(
            self.bundle[grade], weight, none, np.arange(self.n_bundles)
        )


@final
@dataclass(frozen=True, eq=False)
class SplitQueries:
    r"""The preference graph of queries that lie in several parts of the data, as an exact sum.

    With :math:`B` the mean rows of the bundles of all parts,

    .. math:: X^\top L X = \sum_p X_p^\top L_p X_p + B^\top L_B B, \qquad
              X^\top r = \sum_p X_p^\top r_p + B^\top r_B

    where part p needs its own items only, once it knows `shares[p]`. It holds for every cost, with
    ties dropped or kept (docs/theory/split-queries.rst).

    Parameters
    ----------
    shares : list of QueryShare
        What each part has to know.
    graph : PreferenceGraph
        The graph over the bundles, those of the first part first.
    n_ignored_queries : int
        Number of queries without any preference.
    """

    shares: list[QueryShare]
    graph: PreferenceGraph
    n_ignored_queries: int

    @classmethod
    def of(
        cls, counts: Sequence[GradeCounts], *, cost: Cost, ties: Ties, query_weight: QueryWeight
    ) -> Self:
        """Build from what every part holds of these queries; no features and no items needed."""
        return cls(*_Split.of(counts, cost, ties, query_weight).result())


@final
@dataclass(frozen=True, eq=False)
class _Split:
    """The grades of all parts, one after the other."""

    part: IntArray
    value: FloatArray
    mass: FloatArray
    n_items: IntArray
    grades: Grades
    omega: FloatArray
    cost: Cost

    @classmethod
    def of(
        cls, counts: Sequence[GradeCounts], cost: Cost, ties: Ties, query_weight: QueryWeight
    ) -> Self:
        queries = Queries.from_qid(_ids([c.qid for c in counts]))
        value, mass, square_mass, n_items = (
            np.concatenate([getattr(c, name) for c in counts])
            for name in ("value", "mass", "square_mass", "n_items")
        )
        grades = Grades.of(queries, value, mass, keep_ties=ties == "keep")
        if isinstance(query_weight, str):
            square = queries.sum(square_mass) if ties == "keep" else grades.square_mass
            omega = standard_query_weight(query_weight, grades.query_mass, square)
        else:
            omega = given_query_weight(query_weight, queries)
        part = np.repeat(np.arange(len(counts)), [len(c.value) for c in counts])
        return cls(part, value, mass, n_items, grades, omega, cost)

    @property
    def query(self) -> IntArray:
        return self.grades.queries.index

    @property
    def slope(self) -> FloatArray:
        """The weight of a query's scatter around its mean, for each entry."""
        return (self.omega * self.grades.query_mass)[self.query]

    def result(self) -> tuple[list[QueryShare], PreferenceGraph, int]:
        degree, pull = self._label_graph()
        is_shared = self._is_shared()
        number = self._bundles(is_shared)
        graph = self._graph(number, is_shared, degree, pull)
        shares = []
        for p in range(int(self.part.max()) + 1):
            own = np.flatnonzero(self.part == p)
            first = number[own].min(initial=len(number))
            shares.append(
                QueryShare(
                    degree[own], self.slope[own], pull[own], self.value[own], self.mass[own],
                    number[own] - first, is_shared[own],
                )
            )  # fmt: skip
        return shares, graph, self._n_ignored()

    def _label_graph(self) -> tuple[FloatArray, FloatArray]:
        """Return degree and pull of each entry."""
        grades, q = self.grades, self.query
        if self.cost == "relative":
            laplacian, rhs = grades.relative(self.value, self.omega)
            return _ratio(laplacian.diagonal(), self.mass), _ratio(rhs, self.mass)
        omega, total = self.omega[q], grades.query_mass[q]
        degree = omega * total
        if not grades.ties_kept:
            degree = omega * (total - grades.mass[grades.grade])
        if self.cost == "unit":
            return degree, _ratio(grades.wins_minus_losses(self.omega), self.mass)
        centre = _weighted_means(q, self.value, self.mass, len(self.omega))
        return degree, omega * total * (self.value - centre[q])

    def _is_shared(self) -> NDArray[np.bool_]:
        """Tell which grades several parts hold; the relative cost keeps all grades apart."""
        if self.cost == "relative" or self.grades.ties_kept:
            return np.ones(len(self.part), dtype=bool)
        holders = np.bincount(self.grades.grade[self.mass > 0], minlength=self.grades.n_grades)
        return holders[self.grades.grade] > 1

    def _bundles(self, is_shared: NDArray[np.bool_]) -> IntArray:
        """Give every entry the number of its bundle, those of the first part first."""
        inner = np.where(is_shared, 1 + self.grades.grade, 0)
        return joint_numbers(self.part, self.query, inner)

    def _graph(
        self,
        number: IntArray,
        is_shared: NDArray[np.bool_],
        degree: FloatArray,
        pull: FloatArray,
    ) -> PreferenceGraph:
        n_bundles = int(number.max()) + 1
        mass = sum_by(number, self.mass, n_bundles)
        rhs = sum_by(number, self.mass * pull, n_bundles)
        query = np.empty(n_bundles, dtype=np.intp)
        query[number] = self.query
        queries = Queries(self.grades.queries.ids, freeze(query))
        if self.cost == "relative":  # bundles are entries, in the order of their numbers
            laplacian = self._reordered(np.argsort(number))
            return PreferenceGraph(laplacian, freeze(rhs), queries)
        # a bundle of grades that no other part holds is a group of its own
        key = np.where(is_shared, self.grades.grade, self.grades.n_grades + number)
        _, group_of_entry = np.unique(key, return_inverse=True)
        n_groups = int(group_of_entry.max()) + 1
        group, group_query = np.empty(n_bundles, dtype=np.intp), np.empty(n_groups, dtype=np.intp)
        group[number], group_query[group_of_entry] = group_of_entry, self.query
        group_degree = np.zeros(n_groups)
        group_degree[group_of_entry] = np.where(is_shared, degree, 0.0)
        within = CliqueLaplacian.of_groups(group, mass, group_degree, group_query)
        between = CliqueLaplacian.of_groups(
            group_query,
            sum_by(group, mass, n_groups),
            self.omega * self.grades.query_mass,
            np.arange(len(self.omega)),
        )
        component = np.where(mass > 0, query, -1)
        return PreferenceGraph(
            NestedCliqueLaplacian(within, between, component), freeze(rhs), queries
        )

    def _reordered(self, order: IntArray) -> GraphLaplacian:
        """Return the Laplacian of the relative cost with the entries in another order."""
        queries = Queries(self.grades.queries.ids, freeze(self.query[order]))
        grades = Grades.of(queries, self.value[order], self.mass[order], keep_ties=False)
        return grades.relative(self.value[order], self.omega)[0]

    def _n_ignored(self) -> int:
        present = self.mass > 0
        if self.grades.ties_kept:
            count = sum_by(self.query, self.n_items.astype(float), len(self.omega))
        else:
            held = np.unique(self.grades.grade[present])
            count = sum_by(self.grades.query[held], np.ones(len(held)), len(self.omega))
        return int(np.count_nonzero((count < 2) | (self.omega <= 0)))


def _ids(ids: list[NDArray[Any]]) -> NDArray[Any]:
    if any(one.dtype == object for one in ids):
        return np.concatenate([one.astype(object) for one in ids])
    return np.concatenate(ids)


def _ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.divide(a, b, out=np.zeros_like(b), where=b > 0)


def _weighted_means(
    index: IntArray, values: FloatArray, mass: FloatArray, length: int
) -> FloatArray:
    """Return the weighted mean of each group, taken around its smallest value."""
    lowest = np.full(length, np.inf)
    np.minimum.at(lowest, index, values)
    lead = sum_by(index, mass * (values - lowest[index]), length)
    return lowest + _ratio(lead, sum_by(index, mass, length))
