"""The preference graph: who is preferred to whom, by how much, and how much it counts."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, freeze, sum_by
from rankwise.core.checks import (
    check_choice,
    check_finite,
    check_length,
    check_pairs,
    check_scores,
    check_weight,
)
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.graph.edges import Edges
from rankwise.graph.grades import Levels
from rankwise.graph.laplacian import GraphLaplacian

Cost: TypeAlias = Literal["magnitude", "unit", "relative"]
Ties: TypeAlias = Literal["drop", "keep"]
QueryWeight: TypeAlias = Literal["items", "pairs", "equal"] | ArrayLike | Mapping[Hashable, float]


@final
@dataclass(frozen=True, eq=False)
class PreferenceGraph:
    r"""Hold a set of weighted preferences as a Laplacian operator and its right-hand side.

    The least-squares ranking cost of scores f is, up to a constant,

    .. math:: \sum_{(i,j)} w_{ij} (z_{ij} - (f_i - f_j))^2 = f^\top L f - 2 f^\top r + \ldots

    ``graph @ F`` applies L, ``graph.rhs`` is r. L is never built as a dense matrix. Build graphs
    with `from_scores` or `from_pairs`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PreferenceGraph
    >>> graph = PreferenceGraph.from_scores([2, 0, 1, 5], qid=["a", "a", "a", "b"],
    ...                                     query_weight="pairs")
    >>> graph @ np.eye(4)
    array([[ 2., -1., -1.,  0.],
           [-1.,  2., -1.,  0.],
           [-1., -1.,  2.,  0.],
           [ 0.,  0.,  0.,  0.]])
    >>> graph.rhs
    array([ 3., -3.,  0.,  0.])
    >>> graph.n_ignored_queries
    1
    """

    laplacian: GraphLaplacian
    rhs: FloatArray
    queries: Queries

    @classmethod
    def from_scores(
        cls,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Build from scored items: inside a query, an item with a higher score is preferred.

        The pair (i, j) of query q has the weight
        :math:`\omega_q w_{ij} s_i s_j` with s the `sample_weight`. Magnitude and unit costs take
        O(n log n) to build and O(n) to apply; the relative cost takes O(k^2) per query with k
        distinct scores.

        Parameters
        ----------
        y : (n_items,) or (n_items, n_outputs)
            Scores, higher is better. Several outputs must tie the same items wherever ties
            matter.
        qid : (n_items,), optional
            The query of each item; all items form one query when it is left out.
        cost : {"magnitude", "unit", "relative"}
            The target z and weight w of a pair: (y_i - y_j, 1), (sign(y_i - y_j), 1) or
            (y_i - y_j, 1 / (y_i - y_j)^2).
        ties : {"drop", "keep"}
            Whether two items of equal score form a pair of target 0; only the magnitude cost
            allows to keep them.
        query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
            :math:`\omega_q`: 1 / n_q, 1, 1 / number of pairs, or given, by query id or in the order
            in which the queries first appear. With `sample_weight`, items and pairs are counted
            by weight.
        sample_weight : (n_items,), optional
            Weight of each item; a pair has the product of its ends' weights, so that an integer
            weight equals repetition.

        Notes
        -----
        The costs are [PTA09] (21), (20) and (22); dropped ties are described there in Sect. 3
        without formulas. For the relative cost, score gaps below 1e-6 of the query's range count as
        that, since the weight of a pair grows without bound.
        """
        check_choice("cost", cost, get_args(Cost))
        check_choice("ties", ties, get_args(Ties))
        if ties == "keep" and cost != "magnitude":
            raise InvalidInputError(
                f"ties='keep' is defined for cost='magnitude' only: got cost={cost!r}. "
                "Use ties='drop', which leaves tied pairs out."
            )
        scores = check_scores(y)
        levels, omega = weighted_levels(
            scores, qid, query_weight, sample_weight, keep_ties=ties == "keep"
        )
        queries = levels.queries
        laplacian, rhs = _COSTS[cost](levels, scores, omega)
        if not (laplacian.component >= 0).any():
            raise NothingToLearnError(
                "The data must hold at least one preference: all scores inside every query are "
                f"equal, or every query has one item only ({queries}). Check `y` and `qid`."
            )
        return cls(laplacian, freeze(rhs), queries)

    @classmethod
    def from_pairs(
        cls,
        pairs: ArrayLike | None,
        margin: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        n_items: int | None = None,
    ) -> Self:
        """Build from comparisons; the same pair may come often and in both directions.

        Parameters
        ----------
        pairs : (n_pairs, 2)
            Row numbers of items, winner first.
        margin : (n_pairs,), optional
            By how much the winner should lead; 1 when left out.
        weight : (n_pairs,), optional
            How much each comparison counts; 1 when left out.
        n_items : int, optional
            Number of items; one more than the largest index when left out.

        Notes
        -----
        The preference graph of [PTA09] Sect. 2.1; (12) and (13) are its matrices M and N.
        """
        checked = check_pairs(pairs, n_items)
        n_pairs = len(checked)
        n_items = int(checked.max()) + 1 if n_items is None else n_items
        w = check_weight("pair_weight", weight, n_pairs, "pair")
        z = np.ones(n_pairs) if margin is None else np.asarray(margin, dtype=float)
        if z.shape != (n_pairs,):
            raise InvalidInputError(
                f"`pair_margin` must have one entry per pair: there are {n_pairs}, "
                f"got shape {z.shape}."
            )
        check_finite("pair_margin", z)
        winner, loser = checked.T
        rhs = sum_by(winner, w * z, n_items)  # [PTA09] (17): M N
        rhs -= sum_by(loser, w * z, n_items)
        laplacian = Edges.of_pairs(checked, w, n_items)
        return cls(laplacian, freeze(rhs), Queries.single(n_items))

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.laplacian.n_items

    @cached_property
    def n_ignored_queries(self) -> int:
        """Number of queries that hold no preference and so teach nothing."""
        useful = np.zeros(self.queries.n_queries, dtype=bool)
        useful[self.queries.index[self.laplacian.component >= 0]] = True
        return int(np.count_nonzero(~useful))

    def __matmul__(self, V: FloatArray) -> FloatArray:
        return self.laplacian @ V

    def quadratic(self, f: FloatArray) -> float:
        """Return the weighted sum of squared differences ``f' L f`` of scores f."""
        return float(f @ (self @ f))

    def __repr__(self) -> str:
        kind = type(self.laplacian).__name__
        return f"PreferenceGraph({self.n_items} items, {self.queries.n_queries} queries, {kind})"


def _magnitude(
    levels: Levels, scores: FloatArray, omega: FloatArray
) -> tuple[GraphLaplacian, FloatArray]:
    laplacian = levels.clique(omega)
    return laplacian, laplacian @ scores  # [PTA09] (23): N = M' S


def _unit(
    levels: Levels, scores: FloatArray, omega: FloatArray
) -> tuple[GraphLaplacian, FloatArray]:
    columns = scores.reshape(len(scores), -1).T
    wins = [levels.of_output(column).wins_minus_losses(omega) for column in columns]
    return levels.clique(omega), np.stack(wins, axis=-1).reshape(scores.shape)


_COSTS = {"magnitude": _magnitude, "unit": _unit, "relative": Levels.relative}


def weighted_levels(
    scores: FloatArray,
    qid: ArrayLike | None,
    query_weight: QueryWeight,
    sample_weight: ArrayLike | None,
    *,
    keep_ties: bool,
) -> tuple[Levels, FloatArray]:
    """Sort items into queries and levels; return these and omega of each query.

    The arguments are those of `PreferenceGraph.from_scores`, the scores checked.
    """
    queries = _queries(qid, len(scores))
    weight = check_weight("sample_weight", sample_weight, len(scores), "row of `X`")
    levels = Levels.of(queries, scores, weight, keep_ties=keep_ties)
    return levels, _query_weights(query_weight, levels)


def _queries(qid: ArrayLike | None, n_items: int) -> Queries:
    if qid is None:
        return Queries.single(n_items)
    queries = Queries.from_qid(qid)
    check_length("qid", queries.index, n_items)
    return queries


def _query_weights(query_weight: Any, levels: Levels) -> FloatArray:
    """Return omega of each query (docs/guide/alpha.rst)."""
    if isinstance(query_weight, str):
        check_choice("query_weight", query_weight, ("items", "pairs", "equal"))
        return levels.standard_weight(query_weight)
    queries = levels.queries
    if isinstance(query_weight, Mapping):
        missing = [q for q in queries.ids.tolist() if q not in query_weight]
        if missing:
            raise InvalidInputError(
                f"`query_weight` must have an entry for every query id: {missing[0]!r} has none."
            )
        query_weight = [query_weight[q] for q in queries.ids.tolist()]
    return check_weight("query_weight", query_weight, queries.n_queries, "query")
