"""LinearRankRLS by conjugate gradients whose rows stay on the workers of a cluster."""

from dataclasses import dataclass
from os import PathLike
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.apps.distributed.base import DaskRanker
from rankwise.apps.distributed.engine import engine_of
from rankwise.apps.distributed.partitions import PartitionRows, Partitions, concatenate_ids
from rankwise.apps.distributed.shares import SharedProblem, refuse_ordered_weights
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import checked
from rankwise.core.queries import Queries
from rankwise.graph.preference_graph import Cost, QueryWeight, Ties
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS, keep_run
from rankwise.rankers.linear.run import Settings, Storage, run
from rankwise.rankers.linear.validation import rate_by_measure
from rankwise.solve.conjugate_gradients import Validator
from rankwise.solve.iteration import StepCallback
from rankwise.solve.rows import ScorableRows


@final
class DaskLinearRankRLS(DaskRanker):
    r"""Learn `LinearRankRLS` on a Dask cluster: many or sparse features, rows on the workers.

    An iteration sends one vector with an entry per feature to the workers and gets one back. The
    mean rows of the grades of split queries are sent once. All alphas of a grid share the
    iterations.

    Parameters
    ----------
    alpha, alphas, early_stopping, n_iter_no_change, max_iter, tol
        As in `LinearRankRLS`.
    validation_fraction : float
        Share of the queries that is held out if validation data are needed and none are given. The
        choice depends only on the ids and on `random_state`, not on the partitions.
    dtype, cost, ties, query_weight, measure, progress, checkpoint, random_state
        As in `LinearRankRLS`; weights of queries by name or by id.
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.

    Attributes
    ----------
    ranker_ : LinearRankRLS
        The fitted ranker, with its `history_`; it needs no cluster.
    coef_ : (n_features,)
        Its weights.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise.apps.distributed import DaskLinearRankRLS
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 4)), np.arange(60) % 6
    >>> y = np.round(X[:, 0])
    >>> ranker = DaskLinearRankRLS(alpha=0.1).fit(da.from_array(X, chunks=(25, 4)), y, qid=qid)
    >>> ranker.ranker_.score(X, y, qid=qid) > 0.9
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        alphas: ArrayLike | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-9,
        dtype: Storage | None = None,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        measure: str | Measure = "Concordance",
        progress: bool | StepCallback = False,
        checkpoint: str | PathLike[str] | None = None,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self.alpha = alpha
        self.alphas = alphas
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.dtype = dtype
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.measure = measure
        self.progress = progress
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.client = client

    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        qid_val: Any = None,
    ) -> Self:
        """Learn from Dask collections; queries may be split over partitions.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in `DaskRankRLS.fit`.
        X_val, y_val, qid_val : optional
            Validation data as Dask collections, in place of a part of the training data.
        """
        with engine_of(self.client) as engine:
            partitions = Partitions.of(engine, X, y, qid, sample_weight)
            validation = None
            if X_val is not None:
                validation = Partitions.of(engine, X_val, y_val, qid_val)
            return self._keep(partitions, validation)

    def _learn(self, partitions: Partitions, validation: Partitions | None) -> LinearRankRLS:
        options = self.get_params(deep=False)
        del options["client"]
        ranker = LinearRankRLS(**options)
        settings = Settings.of(checked(ranker))
        refuse_ordered_weights(self.query_weight)
        # validation data, or queries drawn from the training data
        validator = None
        if validation is not None:
            validator = _validator(validation, None, settings.measure)
        elif settings.needs_validation:
            held_out = self._draw(partitions)
            validator = _validator(partitions, held_out, settings.measure)
            partitions = partitions.without(held_out)
        # conjugate gradients on the rest, with products on the workers
        operator = SharedProblem.of(partitions, settings.graph_options).operator(settings.dtype)
        result = run(operator, settings, validator, None)
        return keep_run(
            ranker,
            result,
            partitions.names,
            operator.n_queries,
            operator.n_ignored,
            has_qid=partitions.has_qid,
        )

    def _draw(self, partitions: Partitions) -> NDArray[Any]:
        """Draw queries to be held out, from all of them in the order of their ids."""
        ids = Queries.from_qid(concatenate_ids(partitions.ids())).ids
        if len(ids) < 2:
            raise InvalidInputError(
                "`X_val` and `y_val` must be given with `alphas` or `early_stopping` if there "
                "is a single query: got none."
            )
        # draw from the sorted ids, which do not depend on the partitions
        order = sorted(range(len(ids)), key=lambda k: _sort_key(ids[k]))
        n_drawn = min(len(ids) - 1, max(1, round(self.validation_fraction * len(ids))))
        drawn = generator(self.random_state).permutation(len(ids))[:n_drawn]
        return ids[np.array(order)[drawn]]


def _sort_key(q: Any) -> tuple[str, Any]:
    is_number = isinstance(q, int | float | np.number)
    return ("", q) if is_number else (type(q).__name__, str(q))


@final
@dataclass(frozen=True, eq=False)
class ClusterRows(ScorableRows):
    """Validation rows on the workers: weights are sent to them, scores are gathered."""

    partitions: Partitions
    blocks: list[Any]
    n_items: int

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``X @ w``."""
        engine = self.partitions.engine
        vector = engine.call("vector", np.array, w)
        parts = engine.call_each("validate", _product, self.partitions.labels, self.blocks, vector)
        return np.concatenate(engine.compute(parts))


def _product(block: PartitionRows, w: FloatArray) -> FloatArray:
    scores: FloatArray = block.X @ w
    return scores


def _validator(partitions: Partitions, ids: NDArray[Any] | None, measure: Measure) -> Validator:
    """Rate scores of some queries, or of all rows; rows stay on the workers."""
    engine = partitions.engine
    blocks = partitions.blocks
    if ids is not None:
        blocks = partitions.each("validation", PartitionRows.of_queries, ids)
    blocks = engine.persist(blocks)
    labels = engine.compute(engine.call_each("labels", _labels, partitions.labels, blocks))
    y = np.concatenate([one[0] for one in labels])
    queries = Queries.of(concatenate_ids([one[1] for one in labels]), len(y))
    rate = rate_by_measure(y, queries, measure)
    return Validator(ClusterRows(partitions, blocks, len(y)), rate, measure.greater_is_better)


def _labels(block: PartitionRows) -> tuple[FloatArray, NDArray[Any]]:
    return block.y, block.qid
