"""AutoRanker on a cluster: its linear families, from sums of statistics."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rankwise.apps.distributed.closed_form import ClosedFormDaskRanker
from rankwise.apps.distributed.engine import Engine, dask_module
from rankwise.apps.distributed.partitions import (
    PartitionRows,
    Partitions,
    blocks_with_ids,
    concatenate_ids,
    join_blocks,
    split_ids,
)
from rankwise.apps.distributed.shares import LocalGraphs
from rankwise.automatic.auto_ranker import AutoRanker
from rankwise.automatic.board import LEAST_QUERIES, Board, Tried, try_family
from rankwise.automatic.families import (
    ALPHAS,
    FAMILIES,
    MANY_CELLS,
    SINGLE_FEATURE,
    STEPS,
    FeatureSet,
    SettingsPath,
    Trial,
)
from rankwise.automatic.new_items import NewItems
from rankwise.automatic.sum_of_rankers import fit_preparation
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import RandomSeed, checked
from rankwise.core.queries import Queries, TrainingData
from rankwise.graph.preference_graph import Ties
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.base import generator
from rankwise.rankers.closed_form import keep_linear_solution
from rankwise.rankers.linear.statistics import Statistics
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.selection.holdouts import Folds

HELD_OUT = 1.0 / 3.0
"""Largest share of the queries that is held out; of large data, 10,000,000 cells are."""

NO_LIMIT = 1 << 62
"""Bytes of memory: the rows that are held out are few."""

N_FOLDS = 5
"""Folds of held-out queries: settings and weights are chosen by all but one, and measured on it."""

LINEAR_FAMILIES: dict[str, FeatureSet] = {
    "linear RankRLS": "scaled",
    "linear RankRLS with ranks": "ranked",
}
"""The families that sums over workers suffice for, and their features."""

TIES: tuple[Ties, ...] = ("drop", "keep")


@final
class DaskAutoRanker(ClosedFormDaskRanker):
    """Find a good linear ranker for raw features on a Dask cluster, and say how good it is.

    As `AutoRanker` does, rankers on features scaled or ranked inside queries, with ties dropped and
    kept, and single features are compared on queries that none of them has seen, the best are added
    up, and the sum is measured on queries that no choice has seen. In one pass, every partition
    sends the statistics of its queries for each setting. Some queries are held out and sent whole;
    their statistics are added for the final fit, which is exact. The result does not depend on how
    the data are partitioned. The rows of each split query are first moved to one partition.
    Queries must be given.

    Parameters
    ----------
    measure : Measure or str
        The measure that decides.
    random_state : int, RandomState or None
        Draws the queries that are held out: a third or, of large data, about 10,000,000 numbers.
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.

    Attributes
    ----------
    ranker_ : AutoRanker
        The fitted ranker, which needs no cluster. Its table says which families were not tried.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise.apps.distributed import DaskAutoRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 4)), np.repeat(np.arange(60), 10)
    >>> y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=600)), 0.0, None)
    >>> rows = da.from_array(X, chunks=(150, 4))
    >>> ranker = DaskAutoRanker().fit(rows, y, qid=qid)
    >>> ranker.ranker_.honest_value_.value > 0.8
    True
    >>> ranker.predict(rows, qid).shape
    (600,)
    """

    ranker_: AutoRanker

    def __init__(
        self,
        measure: MeasureLike = "NDCG @ 10",
        *,
        random_state: RandomSeed = 0,
        client: Any = None,
    ) -> None:
        self.measure = measure
        self.random_state = random_state
        self.client = client

    def _keep(self, partitions: Partitions, validation: Partitions | None = None) -> Self:
        self.ranker_ = self._learn(partitions, validation)
        self.n_features_in_ = partitions.n_features
        return self

    def _learn(self, partitions: Partitions, validation: Partitions | None) -> AutoRanker:  # noqa: ARG002
        given = checked(self)
        if not partitions.has_qid:
            raise InvalidInputError(
                "`qid` must be given, since features are scaled and ranked inside queries: got "
                "none. Fit RankRLS with one alpha for one global ranking."
            )
        rng = generator(given.random_state)
        # hold out some whole queries, and add up the statistics of all others
        whole = partitions.of_whole_queries()
        held_ids, n_queries = _held_out(whole, rng)
        engine = whole.engine
        sent = engine.compute(whole.each("held-out", PartitionRows.of_queries, held_ids))
        held = _by_query(join_blocks(sent), held_ids)
        learned = engine.compute([engine.add(whole.each("statistics", _sums, held_ids))])[0]
        # from here on an AutoRanker of the held-out queries, whose models are those of the sums
        ranker = AutoRanker(given.measure, random_state=self.random_state)
        rows = _dense(held.X)
        ranker._check_rows(rows, reset=True)
        if partitions.names is not None:
            ranker.feature_names_in_ = np.array(partitions.names, dtype=object)
        data = TrainingData.of(len(rows), held.y, held.qid, held.weight)
        ranker.preparation_, X = fit_preparation(rows, data)
        ranker.repeated_share_ = NewItems.of_rows(rows, data).repeated_share
        folds = Folds.random(N_FOLDS, data.queries.index, rng)
        seed = int(rng.integers(2**31 - 1))
        trial = Trial(X, data, folds, data.queries, given.measure, seed, float("inf"))
        ranker.is_of_comparisons_, ranker.ending_reason_ = False, "done"
        ranker._decide(lambda: _board(trial, learned, learned + _Sums.of(held)))
        ranker._remember(data)
        ranker.n_queries_, ranker.training_queries_ = n_queries, None
        return ranker

    def predict(self, X: Any, qid: Any = None) -> Any:
        """Return a score for every row, lazily for Dask collections and at once for arrays.

        Parameters
        ----------
        X : Dask array or dataframe, or array, (n_items, n_features)
            The rows; those of a query in one partition, since they are compared.
        qid : as in `fit`
            The query of each row.

        Returns
        -------
        scores : Dask array or array, (n_items,)
        """
        check_is_fitted(self)
        if getattr(X, "__dask_graph__", None) is None:
            return self.ranker_.predict(X, qid=qid)
        engine, scored = self._whole_blocks(X, qid)
        chunks = getattr(X, "chunks", None)
        n_rows = [np.nan] * len(scored) if chunks is None else list(chunks[0])
        parts = [
            dask_module().array.from_delayed(
                engine.call("predict", _scores, self.ranker_, rows, ids, number=number),
                (n_rows[number],),
                dtype=np.float64,
            )
            for number, (rows, ids) in enumerate(scored)
        ]
        return dask_module().array.concatenate(parts, allow_unknown_chunksizes=True)

    def rank(self, X: Any, qid: Any = None, k: int | None = None) -> Any:
        """Return the rows in ranked order as a delayed result; call its ``compute``.

        Parameters
        ----------
        X, qid
            As in `predict`.
        k : int, optional
            Keep only the best k of each query.

        Returns
        -------
        order : Delayed
            Row numbers, as `RankRLS.rank` returns them.
        """
        check_is_fitted(self)
        self._whole_blocks(X, qid)
        return super().rank(X, qid, k)

    def _whole_blocks(self, X: Any, qid: Any) -> tuple[Engine, list[tuple[Any, Any]]]:
        """Return the blocks of rows with their ids; refuse queries that are split over them."""
        if qid is None:
            raise InvalidInputError(
                "`qid` must be given, since DaskAutoRanker compares the rows of a query: got none."
            )
        engine, blocks = Engine(self.client), blocks_with_ids(X, qid)
        present = [
            engine.call("queries", _different, ids, number=k) for k, (_, ids) in enumerate(blocks)
        ]
        split = split_ids(engine.compute(present))
        if any(len(ids) for ids in split):
            one = next(ids.tolist()[0] for ids in split if len(ids))
            raise InvalidInputError(
                "All rows of a query must be in one partition, since they are compared: query "
                f"{one!r} is in several. Sort the rows by query, and cut them between queries."
            )
        return engine, blocks


def _held_out(whole: Partitions, rng: np.random.Generator) -> tuple[NDArray[Any], int]:
    """Draw the queries to hold out; return their ids, and the number of all."""
    ids = concatenate_ids(whole.ids())
    if ids.dtype != object:
        ids = np.sort(ids)  # the draw does not depend on the partitions
    if len(ids) < 2:
        raise InvalidInputError(
            f"At least two queries must be given, so that one can be held out: got {len(ids)}."
        )
    n_items = sum(whole.engine.compute(whole.each_head("size", _n_items)))
    share = min(HELD_OUT, MANY_CELLS / (n_items * max(whole.n_features, 1)))
    n_held = max(int(share * len(ids)), min(LEAST_QUERIES, len(ids) // 2))
    return ids[np.sort(rng.permutation(len(ids))[:n_held])], len(ids)


def _by_query(block: PartitionRows, ids: NDArray[Any]) -> PartitionRows:
    """Return the rows of a block in the order of the ids of their queries."""
    place = {q: k for k, q in enumerate(ids.tolist())}
    order = np.argsort([place[q] for q in block.qid.tolist()], kind="stable")
    weight = None if block.weight is None else block.weight[order]
    return replace(block, X=block.X[order], y=block.y[order], qid=block.qid[order], weight=weight)


def _n_items(block: PartitionRows) -> int:
    return block.n_items


def _dense(X: Any) -> NDArray[Any]:
    return X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class _Sums:
    """The statistics of some queries for every kind of features and treatment of ties."""

    parts: dict[tuple[FeatureSet, Ties], Statistics]

    @classmethod
    def of(cls, block: PartitionRows) -> Self:
        """Scale and rank the features inside the queries, and reduce them to statistics."""
        none, queries, parts = np.zeros(0, dtype=block.qid.dtype), None, {}
        if block.n_items:
            queries = Queries.from_qid(block.qid)
        for kind in LINEAR_FAMILIES.values():
            rows = _dense(block.X)
            for make in STEPS[kind]:
                step = make()
                rows = step.fit_transform(rows, qid=queries) if block.n_items else rows
            width = block.X.shape[1] * (2 if kind == "ranked" else 1)
            made = replace(block, X=rows.reshape(-1, width))
            for ties in TIES:
                options = {"cost": "magnitude", "ties": ties, "query_weight": "items"}
                parts[kind, ties] = LocalGraphs.of(made, none, None, options).statistics(width)
        return cls(parts)

    def __add__(self, other: "_Sums") -> "_Sums":
        return _Sums({key: part + other.parts[key] for key, part in self.parts.items()})


def _sums(block: PartitionRows, held_ids: NDArray[Any]) -> _Sums:
    """Return the statistics of the queries that are not held out."""
    return _Sums.of(block.of_queries(held_ids, others=True))


def _board(trial: Trial, learned: _Sums, every: _Sums) -> Board:
    """Score the held-out queries by what was learned without them."""
    board = Board(trial, [])
    for family in FAMILIES:
        if family.name in LINEAR_FAMILIES:
            search = _least_squares(LINEAR_FAMILIES[family.name], learned, every)
            board.tried.append(try_family(replace(family, search=search), board, NO_LIMIT))
        elif family is SINGLE_FEATURE:
            board.tried.append(try_family(family, board, NO_LIMIT))
        else:
            note = "not tried: a cluster adds up statistics of linear rankers"
            board.tried.append(Tried(family, 0.0, note=note))
    return board


def _least_squares(
    kind: FeatureSet, learned: _Sums, every: _Sums
) -> Callable[[Trial], list[SettingsPath]]:
    """Return the search of a family: all alphas from the sums, for each treatment of ties."""

    def search(trial: Trial) -> list[SettingsPath]:
        features = trial.features(kind)
        return [
            SettingsPath(
                learned.parts[kind, ties].solve(ALPHAS) @ features.T,
                partial(_fit, trial, kind, ties, every.parts[kind, ties]),
            )
            for ties in TIES
        ]

    return search


def _fit(
    trial: Trial, kind: FeatureSet, ties: Ties, statistics: Statistics, k: int
) -> RankerPipeline:
    """Return the ranker of all queries."""
    alpha = float(ALPHAS[k])
    ranker = keep_linear_solution(
        RankRLS(alpha, ties=ties),
        statistics.solve(np.array([alpha]))[0],
        None,
        statistics.n_queries,
        statistics.n_ignored,
        has_qid=True,
    )
    return trial.pipeline(kind, ranker)


def _different(qid: Any) -> NDArray[Any]:
    return Queries.from_qid(np.asarray(qid)).ids


def _scores(ranker: AutoRanker, X: Any, qid: Any) -> FloatArray:
    return ranker.predict(X, qid=np.asarray(qid)) if X.shape[0] else np.zeros(0)
