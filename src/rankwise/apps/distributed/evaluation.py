"""Measures over partitions."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from rankwise.apps.distributed.engine import engine_of
from rankwise.apps.distributed.partitions import PartitionRows, Partitions, concatenate_ids
from rankwise.core.arrays import freeze
from rankwise.measures.evaluation import Evaluation, default_measures
from rankwise.measures.evaluation import evaluate as evaluate_locally
from rankwise.measures.registry import parse_measures
from rankwise.measures.value import Measure


def evaluate(
    y: Any,
    scores: Any,
    qid: Any = None,
    measures: str | Measure | Iterable[str | Measure] | None = None,
    sample_weight: Any = None,
    *,
    client: Any = None,
) -> Evaluation:
    """Measure how well scores rank the items of each query, on the workers of a cluster.

    The scores of a query that is split are brought together first.

    Parameters
    ----------
    y, qid, sample_weight : Dask arrays or series, or arrays, (n_items,)
        As in `rankwise.evaluate`.
    scores : Dask array or series, (n_items,)
        The predicted scores.
    measures : measure, name or several of them, optional
        As in `rankwise.evaluate`.
    client : distributed.Client, optional
        The cluster; by default the current client or, without one, threads of this process.

    Returns
    -------
    Evaluation
        As that of `rankwise.evaluate`; queries are ordered by partition.

    Examples
    --------
    >>> import dask.array as da
    >>> from rankwise.apps.distributed import evaluate
    >>> scores = da.from_array([0.9, 0.8, 0.1, 0.5, 0.3, 0.6], chunks=4)
    >>> qid = ["a", "a", "b", "a", "b", "b"]
    >>> print(evaluate([3, 1, 0, 2, 1, 0], scores, qid, "Concordance"))
    measure        mean  std. error  undefined
    Concordance  0.5833      0.0833          0
    2 queries
    """
    columns = scores.to_frame() if getattr(scores, "to_frame", None) else scores[:, None]
    with engine_of(client) as engine:
        # each query is measured in one partition
        whole = Partitions.of(engine, columns, y, qid, sample_weight).of_whole_queries()
        if measures is None:
            lowest = min(engine.compute(whole.each("grades", _lowest)))
            measures = default_measures(lowest, weighted=sample_weight is not None)
        chosen = list(parse_measures(measures))
        parts = engine.compute(whole.each("evaluate", _evaluate, [chosen] * len(whole.blocks)))
    return Evaluation(
        ids=concatenate_ids([part.ids for part in parts]),
        measures=parts[0].measures,
        values=freeze(np.concatenate([part.values for part in parts])),
        weights=freeze(np.concatenate([part.weights for part in parts])),
        defined=freeze(np.concatenate([part.defined for part in parts])),
    )


def _lowest(block: PartitionRows) -> float:
    return float(block.y.min())


def _evaluate(block: PartitionRows, measures: list[Measure]) -> Evaluation:
    return evaluate_locally(block.y, block.X[:, 0], block.qid, measures, block.weight)
