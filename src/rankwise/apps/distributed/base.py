"""What all rankers on a cluster share: input, and methods of the fitted ranker."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwise.apps.distributed.engine import Engine, dask_module, engine_of
from rankwise.apps.distributed.partitions import Partitions, blocks_with_ids, concatenate_ids
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.io.svmlight import ZeroBased
from rankwise.rankers.base import PointRanker
from rankwise.rankers.reading import require_qid


class DaskRanker(BaseEstimator, ABC):
    """A ranker that learns on a Dask cluster and becomes an ordinary one, `ranker_`."""

    client: Any
    ranker_: PointRanker

    @abstractmethod
    def _learn(self, partitions: Partitions, validation: Partitions | None) -> PointRanker:
        """Return an ordinary ranker."""

    def fit_files(
        self,
        pattern: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        n_features: int | None = None,
        zero_based: ZeroBased = "auto",
        y: str | None = None,
        qid: str | None = None,
        features: str | Sequence[str] | None = None,
        drop: str | Sequence[str] = (),
    ) -> Self:
        """Learn from files that the workers read themselves, a partition each.

        Parameters
        ----------
        pattern : path, pattern such as ``"part-*.parquet"``, or several of them
            Tables (Parquet, CSV) or svmlight files, in a folder that all workers see.
        n_features, zero_based
            Of svmlight files, as in `rankwise.io.read_svmlight`; a first pass finds them.
        y, qid, features, drop : optional
            Columns of tables, as in `rankwise.io.read_table`.
        """
        with engine_of(self.client) as engine:
            partitions = Partitions.of_files(
                engine, pattern, n_features=n_features, zero_based=zero_based, y=y, qid=qid,
                features=features, drop=drop,
            )  # fmt: skip
            return self._keep(partitions)

    def _keep(self, partitions: Partitions, validation: Partitions | None = None) -> Self:
        self.ranker_ = self._learn(partitions, validation)
        self.coef_ = self.ranker_.coef_
        self.n_features_in_ = partitions.n_features
        return self

    def predict(self, X: Any) -> Any:
        """Return a score for every row, lazily for Dask collections and at once for arrays.

        Parameters
        ----------
        X : Dask array or dataframe, or array, (n_items, n_features)
            The rows.

        Returns
        -------
        scores : Dask array, Dask series or array, (n_items,)
        """
        check_is_fitted(self)
        if getattr(X, "__dask_graph__", None) is None:
            return self.ranker_.predict(X)
        if getattr(X, "columns", None) is not None:
            return X.map_partitions(_score_frame, self.ranker_, meta=("score", "f8"))
        whole = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
        return whole.map_blocks(
            self.ranker_.predict, drop_axis=1, dtype=np.float64, meta=np.zeros(0),
            name=f"rankwise-predict-{dask_module().base.tokenize(whole, self.coef_)}",
        )  # fmt: skip

    def rank(self, X: Any, qid: Any = None, k: int | None = None) -> Any:
        """Return the rows in ranked order as a delayed result; call its ``compute``.

        With ``k``, each partition sends only the best k rows of each query.

        Parameters
        ----------
        X : Dask array or dataframe, (n_items, n_features)
            The rows.
        qid : as in `fit`, optional
            The query of each row; must be given if `fit` had one, by default all rows form one
            ranking.
        k : int, optional
            Keep only the best k of each query.

        Returns
        -------
        order : Delayed
            Row numbers, as `RankRLS.rank` returns them.
        """
        check_is_fitted(self)
        if k is not None and k < 1:
            raise InvalidInputError(f"`k` must be at least 1: got {k}.")
        if qid is None:
            advice = "For items of a single query, give one id for all."
            require_qid(self.ranker_, "rank", advice)
        engine = Engine(self.client)
        scored = blocks_with_ids(X, qid)
        parts = [
            engine.call("rank", _best_rows, self.ranker_, rows, ids, k, number=number)
            for number, (rows, ids) in enumerate(scored)
        ]
        return engine.call("order", _join_orders, parts, k)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the ordinary ranker to one file; `rankwise.load` reads it.

        Parameters
        ----------
        path : path
            The file.
        """
        check_is_fitted(self)
        self.ranker_.save(path)


def _score_frame(X: Any, ranker: PointRanker) -> Any:
    return X.iloc[:, 0].astype("float64") * 0.0 + ranker.predict(X)


class _BestRows(NamedTuple):
    """The best rows of a partition, in the order of the rows."""

    n_items: int
    rows: IntArray
    scores: FloatArray
    qid: NDArray[Any]
    ids: NDArray[Any]
    """All queries, in the order in which they first appear."""


def _best_rows(ranker: PointRanker, X: Any, qid: Any, k: int | None) -> _BestRows:
    # score the block, and keep the best k of each query
    given = np.zeros(X.shape[0], dtype=np.intp) if qid is None else np.asarray(qid)
    scores = ranker.predict(X, given) if X.shape[0] else np.zeros(0)
    queries = Queries.of(given, len(scores))
    rows = np.sort(queries.best_first(scores, k))
    return _BestRows(len(scores), rows, scores[rows], given[rows], queries.ids)


def _join_orders(parts: list[_BestRows], k: int | None) -> IntArray:
    # row numbers of the whole collection
    first = np.cumsum([0] + [part.n_items for part in parts[:-1]])
    rows = np.concatenate([start + part.rows for start, part in zip(first, parts, strict=True)])
    scores = np.concatenate([part.scores for part in parts])
    # queries in the order in which they first appear, over all partitions
    ids = concatenate_ids([part.ids for part in parts])
    every = Queries.from_qid(concatenate_ids([ids, *(part.qid for part in parts)]))
    queries = Queries(every.ids, every.index[len(ids) :])
    return rows[queries.best_first(scores, k)]
