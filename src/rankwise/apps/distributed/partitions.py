"""The data of a cluster: partitions of rows, from arrays, dataframes or files."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwise.apps.distributed.engine import Engine
from rankwise.core.arrays import BoolArray, FloatArray, Matrix
from rankwise.core.checks import check_finite, check_length, check_scores, check_weight
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.core.queries import Queries
from rankwise.io.files import format_suffix
from rankwise.io.reading import open_stream, read
from rankwise.io.svmlight import ZeroBased, scan_svmlight
from rankwise.io.tables.arrow import PARQUET_SUFFIXES, ParquetTable
from rankwise.io.tables.reading import TABLE_SUFFIXES, item_columns


@final
@dataclass(frozen=True, eq=False)
class PartitionRows:
    """The rows of one partition, checked.

    Parameters
    ----------
    X : (n_items, n_features)
        The rows, dense or CSR.
    y : (n_items,)
        Scores.
    qid : (n_items,)
        Query ids; zeros if none were given.
    weight : (n_items,), optional
        Sample weights.
    names : list of str, optional
        The names of the columns.
    has_qid : bool
        Whether queries were named.
    n_left_out : int
        Number of features that were left out of X.
    """

    X: Matrix
    y: FloatArray
    qid: NDArray[Any]
    weight: FloatArray | None = None
    names: list[str] | None = None
    has_qid: bool = False
    n_left_out: int = 0

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, 1 by default."""
        return np.ones(self.n_items) if self.weight is None else self.weight

    def take(self, chosen: BoolArray) -> "PartitionRows":
        """Keep some rows, without a copy if these are all rows."""
        if chosen.all():
            return self
        rows: Any = np.flatnonzero(chosen)
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows):
            rows = slice(rows[0], rows[-1] + 1)
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], qid=self.qid[rows], weight=weight)

    def head(self) -> "PartitionRows":
        """Return everything but the features, whose number is kept."""
        return replace(self, X=np.zeros((self.n_items, 0)), n_left_out=self.X.shape[1])

    def of_queries(self, ids: NDArray[Any], *, others: bool = False) -> "PartitionRows":
        """Keep the rows of some queries, or of all others."""
        return self.take(are_among(self.qid, ids) ^ others)


def are_among(qid: NDArray[Any], ids: NDArray[Any]) -> BoolArray:
    """Return which rows belong to some queries."""
    if qid.dtype == object or ids.dtype == object:
        wanted = set(ids.tolist())
        return np.array([q in wanted for q in qid.tolist()], dtype=bool)
    return np.isin(qid, ids)


def join_blocks(blocks: Sequence[PartitionRows]) -> PartitionRows:
    """Put the rows of several blocks into one."""
    filled = [b for b in blocks if b.n_items] or [blocks[0]]
    if len(filled) == 1:
        return filled[0]
    first = filled[0]
    X = stack_rows([b.X for b in filled])
    weight = None if first.weight is None else np.concatenate([b.weights for b in filled])
    y = np.concatenate([b.y for b in filled])
    return replace(first, X=X, y=y, qid=concatenate_ids([b.qid for b in filled]), weight=weight)


def stack_rows(blocks: Sequence[Matrix]) -> Matrix:
    """Stack rows; the result is sparse if some of them are."""
    if any(sparse.issparse(X) for X in blocks):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(X) for X in blocks], format="csr"))
    return np.concatenate(list(blocks))


def concatenate_ids(ids: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Join ids into one vector, of a plain type only if all have the same type."""
    kinds = {"number" if one.dtype.kind in "iufb" else one.dtype.kind for one in ids if len(one)}
    if len(kinds) > 1 or "O" in kinds:
        return np.concatenate([one.astype(object) for one in ids])
    return np.concatenate(ids)


CHUNK_MEMORY = 1 << 26
"""Bytes of rows of a file that a worker holds at a time."""


@final
@dataclass(frozen=True, eq=False)
class PartitionFile:
    """A Parquet file that a worker reads part by part, in bounded memory.

    Parameters
    ----------
    path : str
        The file, in a folder that all workers can read.
    options : dict
        Columns, as in `rankwise.io.read_table`.
    memory : int
        Bytes of rows that may be buffered before they are added up.
    """

    path: str
    options: dict[str, Any]
    memory: int = CHUNK_MEMORY

    def chunks(self) -> Iterator[PartitionRows]:
        """Read the rows from the beginning of the file; each chunk overwrites the previous one."""
        stream = open_stream(self.path, memory=self.memory, **self.options)
        for data in stream.chunks(reuse=True):
            y = np.asarray(data.y, dtype=float)
            qid = np.zeros(len(y), dtype=np.intp) if data.qid is None else data.qid
            yield PartitionRows(data.X, y, qid, has_qid=stream.has_qid)

    def read(self) -> PartitionRows:
        """Read all rows at once."""
        return _read_block(self.path, self.options)


@final
@dataclass(frozen=True, eq=False)
class Partitions:
    """Delayed blocks of rows.

    Parameters
    ----------
    engine : Engine
        The engine that holds them.
    blocks : list
        One delayed block per partition.
    heads : list
        The same without features: scores, queries and weights stay on the workers. Blocks stay
        on the workers only if they came as collections or cannot be read in part.
    labels : list of str
        The name of each partition in errors: number and file.
    n_features : int
        Number of columns.
    names : list of str, optional
        Their names.
    has_qid : bool
        Whether queries were named.
    files : list of PartitionFile, optional
        Where the rows come from, if each partition is a file that can be read part by part.
    """

    engine: Engine
    blocks: list[Any]
    heads: list[Any]
    labels: list[str]
    n_features: int = 0
    names: list[str] | None = None
    has_qid: bool = False
    files: list[PartitionFile] | None = None

    @classmethod
    def of(cls, engine: Engine, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Take Dask arrays or a Dask dataframe; y, qid and weights may be names of its columns."""
        X, y, qid, sample_weight = _columns_by_name(X, y, qid, sample_weight)
        rows = _row_blocks(X, "X")
        sizes = _sizes(X)
        vectors = [
            [None] * len(rows) if v is None else _vector_blocks(v, name, len(rows), sizes)
            for v, name in ((y, "y"), (qid, "qid"), (sample_weight, "sample_weight"))
        ]
        labels = [f"Partition {k}" for k in range(len(rows))]
        blocks = engine.call_each("check", checked_block, labels, rows, *vectors)
        return cls._persisted(engine, blocks, labels)

    @classmethod
    def of_files(
        cls,
        engine: Engine,
        pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        n_features: int | None,
        zero_based: ZeroBased,
        y: str | None,
        qid: str | None,
        features: str | Sequence[str] | None,
        drop: str | Sequence[str] = (),
    ) -> Self:
        """Let workers read files, one partition each."""
        # all files are of one kind
        paths = paths_of(pattern)
        labels = [f"Partition {k} ({path})" for k, path in enumerate(paths)]
        options: list[Any] = [{"y": y, "qid": qid, "features": features, "drop": drop}] * len(paths)
        is_table = [format_suffix(path) in TABLE_SUFFIXES for path in paths]
        if any(is_table) != all(is_table):
            raise InvalidInputError(
                "All files must be tables, or all svmlight: got both. Fit to one kind."
            )
        # svmlight files need a common number of features and first index
        if not is_table[0]:
            options = [_svmlight_options(engine, paths, labels, n_features, zero_based)] * len(
                paths
            )
        # whole files on the workers; Parquet files are read in part instead, labels first
        blocks = engine.call_each("read", _read_block, labels, paths, options)
        if not all(format_suffix(path) in PARQUET_SUFFIXES for path in paths):
            return cls._persisted(engine, blocks, labels)
        heads = engine.persist(engine.call_each("labels", _read_head, labels, paths, options))
        files = [PartitionFile(path, one) for path, one in zip(paths, options, strict=True)]
        return cls(engine, blocks, heads, labels, files=files)._with_equal_columns()

    @classmethod
    def _persisted(cls, engine: Engine, blocks: list[Any], labels: list[str]) -> Self:
        """Keep the blocks on the workers."""
        blocks = engine.persist(blocks)
        heads = engine.persist(engine.call_each("labels", PartitionRows.head, labels, blocks))
        return cls(engine, blocks, heads, labels)._with_equal_columns()

    def _with_equal_columns(self) -> Self:
        """Check that all partitions have the columns of the first; drop empty ones."""
        shapes = self.engine.compute(self.each_head("shape", _shape))
        # queries named in all partitions or in none, and the same features
        first = shapes[0]
        for label, shape in zip(self.labels, shapes, strict=True):
            if shape.has_qid != first.has_qid:
                raise InvalidInputError(
                    f"{label}: queries must be named in all partitions or in none: got "
                    f"{'some' if shape.has_qid else 'none'} here."
                )
            if (shape.n_features, shape.names) != (first.n_features, first.names):
                raise InvalidInputError(
                    f"{label}: `X` must have the {first.n_features} features of the first "
                    f"partition{_listed(first.names)}: got {shape.n_features}"
                    f"{_listed(shape.names)}."
                )
        if not any(shape.n_items for shape in shapes):
            raise InvalidInputError("`X` must have at least one row: all partitions are empty.")
        n_features, names = first.n_features, first.names
        known = replace(self, n_features=n_features, names=names, has_qid=first.has_qid)
        return known._with_rows([shape.n_items > 0 for shape in shapes])

    def _with_rows(self, has_rows: list[bool]) -> Self:
        """Drop partitions without rows."""
        kept = np.flatnonzero(has_rows).tolist()
        parts: dict[str, Any] = {
            name: [getattr(self, name)[k] for k in kept]
            for name in ("blocks", "heads", "labels", "files")
            if getattr(self, name) is not None
        }
        return replace(self, **parts)

    def each(self, name: str, function: Any, *arguments: Any) -> list[Any]:
        """Call a function with every block, and with arguments as in `Engine.call_each`."""
        return self.engine.call_each(name, function, self.labels, self.blocks, *arguments)

    def each_head(self, name: str, function: Any, *arguments: Any) -> list[Any]:
        """Do the same without the features, which need not be read."""
        return self.engine.call_each(name, function, self.labels, self.heads, *arguments)

    def ids(self) -> list[NDArray[Any]]:
        """Return the ids of the queries of each partition."""
        return self.engine.compute(self.each_head("queries", _ids))

    def without(self, ids: NDArray[Any]) -> Self:
        """Leave some queries out."""
        blocks = self.each("training", _without, ids)
        return self._of_other_rows(blocks, self.each_head("labels", _without, ids))

    def _of_other_rows(self, blocks: list[Any], heads: list[Any]) -> Self:
        """Take other rows in place of these, and drop partitions that have none."""
        parts = replace(self, blocks=blocks, heads=self.engine.persist(heads), files=None)
        shapes = self.engine.compute(parts.each_head("shape", _shape))
        return parts._with_rows([shape.n_items > 0 for shape in shapes])

    def of_whole_queries(self) -> Self:
        """Move the rows of every split query to the first partition that holds some of it."""
        present = self.ids()
        split = split_ids(present)
        if not any(len(ids) for ids in split):
            return self
        # the owner of a split query is the first partition that holds it
        owner: dict[Any, int] = {}
        for k, ids in enumerate(split):
            for q in ids.tolist():
                owner.setdefault(q, k)
        engine, blocks = self.engine, []
        sent = [_by_owner(ids, owner) for ids in split]
        # a partition keeps its whole queries, and receives the rows of those it owns
        for k, label in enumerate(self.labels):
            pieces = [engine.call("whole", _without, self.blocks[k], split[k], number=k)]
            for source, ids_by_owner in enumerate(sent):
                if k in ids_by_owner:
                    arguments = (self.blocks[source], ids_by_owner[k])
                    pieces.append(
                        engine.call("move", PartitionRows.of_queries, *arguments, number=k)
                    )
            blocks += engine.call_each("regroup", join_blocks, [label], [pieces])
        # rows stay on the workers in their new partitions
        blocks = engine.persist(blocks)
        heads = engine.call_each("labels", PartitionRows.head, self.labels, blocks)
        return self._of_other_rows(blocks, heads)


def split_ids(present: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return, for each partition, its queries that other partitions hold too."""
    joined = concatenate_ids(present)
    if joined.dtype == object:
        count = Counter(joined.tolist())
        return [one[np.array([count[q] > 1 for q in one.tolist()], dtype=bool)] for one in present]
    ids, holders = np.unique(joined, return_counts=True)
    return [one[np.isin(one, ids[holders > 1])] for one in present]


def _by_owner(ids: NDArray[Any], owner: dict[Any, int]) -> dict[int, NDArray[Any]]:
    """Group ids by the partition that their rows are moved to."""
    owners = np.array([owner[q] for q in ids.tolist()], dtype=np.intp)
    return {int(k): ids[owners == k] for k in np.unique(owners)}


def checked_block(X: Any, y: Any, qid: Any, weight: Any) -> PartitionRows:
    """Check the rows of a partition."""
    # rows, then scores, queries and weights of the same length
    names = _names(X)
    rows = _checked_rows(X)
    n_items = rows.shape[0]
    scores = check_scores(np.asarray(y)) if n_items else np.zeros(0)
    if scores.ndim != 1:
        raise InvalidInputError(f"`y` must have shape (n_items,): got {scores.shape}.")
    check_length("y", scores, n_items)
    ids = np.zeros(n_items, dtype=np.intp) if qid is None else np.asarray(qid)
    if n_items:
        Queries.of(ids, n_items)
    weights = None
    if weight is not None:
        weights = check_weight("sample_weight", np.asarray(weight), n_items, "row of `X`")
    return PartitionRows(rows, scores, ids, weights, names, qid is not None)


def _checked_rows(X: Any) -> Matrix:
    if sparse.issparse(X):
        rows: Any = sparse.csr_array(X)
        values = rows.data
    else:
        rows = values = np.asarray(X)
    if values.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"`X` must hold numbers: got the type {values.dtype}. Encode text as numbers first."
        )
    if rows.ndim != 2:
        raise InvalidInputError(f"`X` must have rows and columns: got shape {rows.shape}.")
    if values.dtype not in (np.float64, np.float32):
        rows = rows.astype(np.float64)
    check_finite("X", rows.data if sparse.issparse(rows) else rows)
    return rows if sparse.issparse(rows) else np.ascontiguousarray(rows)


def _names(X: Any) -> list[str] | None:
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(name) for name in columns]


class _BlockShape(NamedTuple):
    n_items: int
    n_features: int
    names: list[str] | None
    has_qid: bool


def _shape(block: PartitionRows) -> _BlockShape:
    n_features = block.X.shape[1] + block.n_left_out
    return _BlockShape(block.n_items, n_features, block.names, block.has_qid)


def _ids(block: PartitionRows) -> NDArray[Any]:
    return Queries.from_qid(block.qid).ids


def _without(block: PartitionRows, ids: NDArray[Any]) -> PartitionRows:
    return block.of_queries(ids, others=True)


def _listed(names: list[str] | None) -> str:
    return "" if names is None else f" ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"


def _columns_by_name(X: Any, *vectors: Any) -> tuple[Any, ...]:
    """Take columns that were given by name out of a dataframe."""
    names = [v for v in vectors if isinstance(v, str)]
    if not names:
        return (X, *vectors)
    columns = _names(X)
    missing = [name for name in names if columns is None or name not in columns]
    if missing:
        raise InvalidInputError(
            f"Columns given by name must be those of a Dask dataframe: {missing[0]!r} is not in "
            f"{'an array' if columns is None else columns}."
        )
    kept = [name for name in X.columns if name not in names]
    return (X[kept], *(X[v] if isinstance(v, str) else v for v in vectors))


def _is_dask(value: Any) -> bool:
    return getattr(value, "__dask_graph__", None) is not None


def _row_blocks(X: Any, name: str) -> list[Any]:
    """Return the delayed blocks of rows of an array or a dataframe."""
    if not _is_dask(X):
        raise InvalidInputError(
            f"`{name}` must be a Dask array or dataframe: got {type(X).__name__}. Use "
            "dask.array.from_array, `fit_files`, or the ranker without Dask."
        )
    if _names(X) is not None:
        return _delayed_partitions(X)
    if X.ndim != 2:
        raise InvalidInputError(f"`{name}` must have rows and columns: got shape {X.shape}.")
    whole = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    return list(whole.to_delayed(optimize_graph=True).ravel())


def _delayed_partitions(collection: Any) -> list[Any]:
    """Return the delayed partitions of a collection, as it divides them.

    Dask's optimiser may join small files of which few columns are read; this is prevented here.
    """
    blocks = np.ravel(collection.to_delayed())
    if len(blocks) != collection.npartitions:
        blocks = np.ravel(collection.to_delayed(optimize_graph=False))
    return list(blocks)


def blocks_with_ids(X: Any, qid: Any) -> list[tuple[Any, Any]]:
    """Return the blocks of rows, each with the ids of its queries or None."""
    X, qid = _columns_by_name(X, qid)
    rows = _row_blocks(X, "X")
    ids = [None] * len(rows)
    if qid is not None:
        ids = _vector_blocks(qid, "qid", len(rows), _sizes(X))
    return list(zip(rows, ids, strict=True))


def _sizes(X: Any) -> list[int] | None:
    """Return the number of rows of each block; None if Dask does not know it."""
    chunks = getattr(X, "chunks", None)
    if chunks is None or np.isnan(chunks[0]).any():
        return None
    return [int(n) for n in chunks[0]]


def _vector_blocks(v: Any, name: str, n_blocks: int, sizes: list[int] | None) -> list[Any]:
    """Split one value per row into the blocks of the rows."""
    if not _is_dask(v):
        if sizes is None:
            raise InvalidInputError(
                f"`{name}` must be a Dask collection if `X` has blocks of unknown length: got "
                f"{type(v).__name__}. Call X.compute_chunk_sizes() first."
            )
        check_length(name, np.asarray(v), sum(sizes))
        return list(np.split(np.asarray(v), np.cumsum(sizes)[:-1]))
    # a Dask vector must have the partitions of the rows
    own = _sizes(v)
    if sizes is not None and own is not None and own != sizes and sum(own) == sum(sizes):
        v = v.rechunk((tuple(sizes),))
    blocks = _delayed_partitions(v)
    if len(blocks) != n_blocks:
        raise InvalidInputError(
            f"`{name}` must have the {n_blocks} partitions of `X`: got {len(blocks)}. "
            "Make both from one collection, or rechunk it."
        )
    return blocks


def paths_of(pattern: Any) -> list[str]:
    """Return the files that patterns name, in order; refuse patterns that name none."""
    given = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    found = [path for one in given for path in sorted(glob(os.fspath(one)))]
    if not found:
        tried = ", ".join(os.fspath(one) for one in given)
        raise DataFileError(
            f"{tried or 'No pattern'}: expected at least one file, got none. Give a "
            "pattern such as 'part-*.parquet', in a folder that all workers can read."
        )
    return found


def _svmlight_options(
    engine: Engine,
    paths: list[str],
    labels: list[str],
    n_features: int | None,
    zero_based: ZeroBased,
) -> dict[str, Any]:
    """Find the number of features and the first of them over all files, in one pass."""
    options = {"n_features": n_features, "zero_based": zero_based}
    if n_features is None or zero_based == "auto":
        found = engine.compute(
            engine.call_each("scan", _scan, labels, paths, [options] * len(paths))
        )
        from_zero = any(one.zero_based for one in found)
        last = max(one.n_features - 1 + one.first_feature for one in found)
        options = {"n_features": n_features or last + from_zero, "zero_based": from_zero}
    return options


def _scan(path: str, options: dict[str, Any]) -> Any:
    return scan_svmlight(path, **options)


def _read_block(path: str, options: dict[str, Any]) -> PartitionRows:
    data = read(path, **options)
    if data.y is None:
        raise DataFileError(f"{path}: expected scores to learn from, got none.")
    block = checked_block(data.X, data.y, data.qid, None)
    return replace(block, names=data.feature_names)


def _read_head(path: str, options: dict[str, Any]) -> PartitionRows:
    """Read everything but the features of a Parquet file."""
    table = ParquetTable.open(path)
    columns = item_columns(path, table, **options)
    if columns.y is None:
        raise DataFileError(f"{path}: expected scores to learn from, got none.")
    (y,), ids = table.read([[columns.y]], [] if columns.qid is None else [columns.qid])
    qid = ids[0] if ids else None
    head = checked_block(np.zeros((len(y), 0)), y[:, 0], qid, None)
    return replace(head, names=columns.features, n_left_out=len(columns.features))
