"""RankRLS from exact statistics that the workers of a cluster add up."""

from abc import ABC
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.apps.distributed.base import DaskRanker
from rankwise.apps.distributed.engine import engine_of
from rankwise.apps.distributed.partitions import PartitionRows, Partitions
from rankwise.apps.distributed.shares import LocalGraphs, SharedProblem, refuse_ordered_weights
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import check_value
from rankwise.core.queries import Queries
from rankwise.features.function_space import ExplicitSpace, Identity
from rankwise.features.kernels import Linear
from rankwise.graph.preference_graph import Cost, PreferenceGraph, QueryWeight, Ties
from rankwise.measures.value import Judgements, Measure
from rankwise.rankers.closed_form import Alpha, keep_linear_solution
from rankwise.rankers.linear.statistics import Statistics
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import ALPHAS, RankRLSCV
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_query_out import leave_query_out
from rankwise.selection.path import (
    Candidate,
    ChoiceRule,
    SelectionPath,
    as_measure,
    as_settings,
    best_candidate,
    check_alphas,
    path_of_queries,
)
from rankwise.selection.refits import Elsewhere


class ClosedFormDaskRanker(DaskRanker, ABC):
    """A ranker that learns from statistics alone."""

    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Learn from Dask collections; queries may be split over partitions.

        Parameters
        ----------
        X : Dask array or dataframe, (n_items, n_features)
            The items; blocks of an array may be sparse (CSR).
        y : Dask array, series or array, (n_items,); or name of a column
            Scores, higher is better.
        qid : as y, optional
            The query of each item, of any type; by default all items form one query.
        sample_weight : as y, optional
            Weights of the items.
        """
        with engine_of(self.client) as engine:
            return self._keep(Partitions.of(engine, X, y, qid, sample_weight))


@final
class DaskRankRLS(ClosedFormDaskRanker):
    r"""Learn `RankRLS` with a linear kernel on a Dask cluster, for up to a few thousand features.

    In one pass, every partition sends :math:`X^\top L X` and :math:`X^\top r` of its rows, and the
    mean rows of each grade of the queries that other partitions hold too. The result is exact, and
    does not depend on how the data are partitioned.

    Parameters
    ----------
    alpha : float
        As in `RankRLS`.
    cost, ties, query_weight
        As in `RankRLS`; weights of queries by name or by id.
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.

    Attributes
    ----------
    ranker_ : RankRLS
        The fitted ranker, which needs no cluster.
    coef_ : (n_features,)
        Its weights.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise.apps.distributed import DaskRankRLS
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(40, 3)), np.arange(40) % 5
    >>> y = np.round(X[:, 0])
    >>> ranker = DaskRankRLS(alpha=0.1).fit(da.from_array(X, chunks=(15, 3)), y, qid=qid)
    >>> ranker.ranker_.score(X, y, qid=qid) > 0.9
    True
    >>> ranker.predict(da.from_array(X, chunks=(20, 3)))
    dask.array<rankwise-predict, shape=(40,), dtype=float64, chunksize=(20,), ...>
    """

    def __init__(
        self,
        alpha: Alpha = 1.0,
        *,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        client: Any = None,
    ) -> None:
        self.alpha = alpha
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.client = client

    def _learn(self, partitions: Partitions, validation: Partitions | None) -> RankRLS:  # noqa: ARG002
        alpha = check_value("alpha", self.alpha, Alpha)
        refuse_ordered_weights(self.query_weight)
        options: dict[str, Any] = {
            "cost": self.cost,
            "ties": self.ties,
            "query_weight": self.query_weight,
        }
        statistics = SharedProblem.of(partitions, options).statistics()
        weights = statistics.solve(np.array([alpha]))[0]
        return _kept(RankRLS(alpha, **options), weights, statistics, partitions)


def _kept(ranker: Any, weights: FloatArray, statistics: Statistics, partitions: Partitions) -> Any:
    return keep_linear_solution(
        ranker,
        weights,
        partitions.names,
        statistics.n_queries,
        statistics.n_ignored,
        has_qid=partitions.has_qid,
    )


@final
class DaskRankRLSCV(ClosedFormDaskRanker):
    r"""Learn `RankRLSCV` with a linear kernel on a Dask cluster, alpha by exact leave-query-out.

    The rows of each split query are first moved to one partition. Every partition then leaves out
    each of its queries in turn, for all alphas, using the statistics of all other queries.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha to choose from.
    measure : Measure or str, optional
        The measure that decides; by default the share of pairs in the right order.
    rule : {"best", "one_standard_error"}
        Take the best alpha, or the largest one within a standard error of it.
    cost, ties : str or list of them
        As in `RankRLSCV`: with lists the best combination is chosen, in a pass over the whole
        queries for each.
    query_weight
        As in `RankRLS`; weights of queries by name or by id.
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.

    Attributes
    ----------
    ranker_ : RankRLSCV
        The fitted ranker, with its `path_` but without held-out scores; it needs no cluster.
    coef_ : (n_features,)
        Its weights.
    alpha_ : float
        The chosen alpha.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise.apps.distributed import DaskRankRLSCV
    >>> rng = np.random.default_rng(2)
    >>> X, qid = rng.normal(size=(60, 10)), np.arange(60) % 12
    >>> y = np.round(X[:, 0] + X[:, 5] + rng.normal(size=60))
    >>> ranker = DaskRankRLSCV().fit(da.from_array(X, chunks=(25, 10)), y, qid=qid)
    >>> ranker.alpha_ == ranker.ranker_.alpha_, ranker.ranker_.path_.per_query.shape
    (True, (31, 12))
    """

    def __init__(
        self,
        alphas: ArrayLike = ALPHAS,
        *,
        measure: Measure | str | None = None,
        rule: ChoiceRule = "best",
        cost: Cost | list[Cost] = "magnitude",
        ties: Ties | list[Ties] = "drop",
        query_weight: QueryWeight = "items",
        client: Any = None,
    ) -> None:
        self.alphas = alphas
        self.measure = measure
        self.rule = rule
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.client = client

    def _learn(self, partitions: Partitions, validation: Partitions | None) -> RankRLSCV:  # noqa: ARG002
        refuse_ordered_weights(self.query_weight)
        alphas, measure = check_alphas(self.alphas), as_measure(self.measure)
        whole = partitions.of_whole_queries()
        tried = [
            (setting, *self._judged(whole, setting, alphas, measure))
            for setting in self._settings()
        ]
        # the best setting, and the solution of all data at its alpha
        candidates = [
            Candidate({"kernel": Linear(), **setting}, path) for setting, _, path in tried
        ]
        setting, total, path = tried[best_candidate(candidates, self.rule)]
        options: dict[str, Any] = {**setting, "query_weight": self.query_weight}
        ranker = RankRLSCV(
            self.alphas, measure=self.measure, rule=self.rule, cost=self.cost, ties=self.ties,
            query_weight=self.query_weight,
        )  # fmt: skip
        ranker.search_ = candidates
        self.alpha_ = _keep_path(ranker, path, options)
        return _kept(ranker, total.solve(np.array([self.alpha_]))[0], total, partitions)

    def _settings(self) -> list[dict[str, Any]]:
        """Return the combinations of cost and ties to try, as `RankRLSCV` does."""
        costs, ties = as_settings(self.cost, "cost"), as_settings(self.ties, "ties")
        every = [{"cost": cost, "ties": tie} for cost in costs for tie in ties]
        allowed = [s for s in every if s["ties"] != "keep" or s["cost"] == "magnitude"]
        return allowed or every

    def _judged(
        self, whole: Partitions, setting: dict[str, Any], alphas: FloatArray, measure: Measure
    ) -> tuple[Statistics, SelectionPath]:
        """Return the statistics of all queries, and the held-out values for every alpha."""
        options = {**setting, "query_weight": self.query_weight}
        # statistics of whole queries, partition by partition, and their sum
        parts = whole.engine.compute(whole.each("statistics", _whole_statistics, options))
        total = reduce(add, parts)
        if total.n_queries - total.n_ignored < 2:
            raise InvalidInputError(
                "At least two queries must hold preferences, so that one can be left out: "
                f"got {total.n_queries - total.n_ignored}. Give more queries, or use "
                "DaskRankRLS."
            )
        # each partition leaves out its queries, given the statistics of the others
        judged = whole.engine.compute(
            whole.each("hold-out", _judge, _others(parts), alphas, measure, options)
        )
        per_query, weight, error = zip(*judged, strict=True)
        path = path_of_queries(
            np.concatenate(per_query, axis=1), np.concatenate(weight), np.max(error, axis=0),
            measure, alphas,
        )  # fmt: skip
        return total, path


def _keep_path(ranker: RankRLSCV, path: SelectionPath, options: dict[str, Any]) -> float:
    position = path.best(ranker.rule)
    ranker.path_, ranker.paths_, ranker.held_out_scores_ = path, [path], None
    ranker.held_out_value_ = float(path.values[position])
    ranker.alpha_ = float(path.grid[position])
    ranker.cost_, ranker.ties_ = options["cost"], options["ties"]
    return ranker.alpha_


def _whole_statistics(block: PartitionRows, options: dict[str, Any]) -> Statistics:
    none = np.zeros(0, dtype=block.qid.dtype)
    return LocalGraphs.of(block, none, None, options).statistics(block.X.shape[1])


def _others(parts: list[Statistics]) -> list[Elsewhere]:
    """Add up all parts but one, for each part; nothing is subtracted, so nothing cancels."""
    # sums of the parts before and of the parts after each
    zero = Statistics.nothing(len(parts[0].moment))
    before = list(accumulate(parts[:-1], initial=zero))
    after = list(accumulate(parts[:0:-1], initial=zero))[::-1]
    sums = [a + b for a, b in zip(before, after, strict=True)]
    return [Elsewhere(s.gram, s.moment[:, None]) for s in sums]


def _judge(
    block: PartitionRows,
    elsewhere: Elsewhere,
    alphas: FloatArray,
    measure: Measure,
    options: dict[str, Any],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the values of all queries for every alpha, their weights, and rounding errors."""
    queries = Queries.from_qid(block.qid)
    scores, error = _held_out(block, queries, elsewhere, alphas, options)
    rows = np.flatnonzero(block.weights > 0)  # items of weight 0 are not judged
    judged = queries.take(rows)
    values = measure.values_many(block.y[rows], scores[:, rows], judged)
    weight = measure.prepare(Judgements.of(block.y[rows], judged, None)).weight
    return values, weight, error


def _held_out(
    block: PartitionRows,
    queries: Queries,
    elsewhere: Elsewhere,
    alphas: FloatArray,
    options: dict[str, Any],
) -> tuple[NDArray[Any], FloatArray]:
    """Return the held-out scores; a block without preferences is scored by all others."""
    local = LocalGraphs.of(block, np.zeros(0, dtype=block.qid.dtype), None, options)
    if not local.graphs:
        others = Statistics(elsewhere.gram, elsewhere.moment[:, 0], 1, 0)
        return others.solve(alphas) @ block.X.T, np.zeros(len(alphas))
    graph: PreferenceGraph = local.graphs[0][1]
    space = ExplicitSpace(block.X, Identity(), Identity())
    held_out = leave_query_out(space, graph, Folds.by_query(queries), alphas, elsewhere=elsewhere)
    return held_out.scores[:, :, 0], held_out.error
