"""Read a data file in the format given by its suffix: at once, or repeatedly in chunks."""

import glob
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array, issparse, vstack

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.errors import DataFileError
from rankwise.io.data import USUAL_NAMES, ColumnNames, ItemColumns, RankingData
from rankwise.io.files import format_suffix, is_stream, open_read, refuse_stream
from rankwise.io.svmlight import (
    CHUNK_BYTES,
    SvmlightScan,
    ZeroBased,
    iter_svmlight,
    read_svmlight,
    scan_svmlight,
)
from rankwise.io.tables.arrow import EXCEL_SUFFIXES, PARQUET_SUFFIXES, ParquetTable, open_parquet
from rankwise.io.tables.csv import DELIMITERS
from rankwise.io.tables.json import JSON_SUFFIXES
from rankwise.io.tables.reading import TABLE_SUFFIXES, if_any, item_columns, read_table
from rankwise.io.tables.table import arrow_ids, arrow_numbers

Files: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A file, a pattern that files match, or several of both."""

_SVMLIGHT_SUFFIXES = {".txt", ".dat", ".svm", ".svmlight", ".libsvm", ".letor"}
_SVMLIGHT_LINE = re.compile(rb"\s*[-+]?[.\d]\S*\s+(qid|\d+):\S")
_SNIFFED = 1 << 16  # bytes looked at


def read(path: Files, **options: Any) -> RankingData:
    r"""Read a data file in the format given by its suffix; or several, one below the other.

    ``.txt``, ``.dat``, ``.svm``, ``.svmlight``, ``.libsvm`` and ``.letor`` are read by
    `read_svmlight`; ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.pq`` and ``.xlsx`` by
    `read_table`; all but Parquet and Excel may be compressed (``.gz``, ``.xz``, ``.bz2``). A file
    with another suffix is read as svmlight if its first line looks like it. A pipe is always read
    as svmlight, since it cannot be read twice.

    Parameters
    ----------
    path
        The file; a pattern such as ``"part-*.parquet"``, whose files are read in sorted order; or
        a list of both. The first file decides which columns are read, and equal ids of queries
        are one query, in whichever file they are.
    **options
        Passed on to the reader.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.letor")
    ...     _ = path.write_text("2 qid:7 1:0.5 2:1\n0 qid:7 1:0.25 2:0\n")
    ...     read(path, n_features=3)
    ...     read([path, path])
    RankingData(2 items, 3 features, dense, with y, qid)
    RankingData(4 items, 2 features, dense, with y, qid)
    """
    first, *others = files_of(path)
    if len({format_suffix(one) in TABLE_SUFFIXES for one in (first, *others)}) > 1:
        names = ", ".join(str(one) for one in (first, *others))
        raise DataFileError(f"Files must all be tables, or all svmlight files: got {names}.")
    data = _read_file(first, **options)
    if not others:
        return data
    if data.columns is not None:
        options = _columns_of(data.columns, options)
    parts = [data, *(_read_file(one, **options) for one in others)]
    if len({part.zero_based for part in parts}) > 1:  # a 0 occurs in some of them
        options["zero_based"] = True
        parts = [_read_file(one, **options) for one in (first, *others)]
    return _joined([first, *others], parts)


def files_of(path: Files) -> list[str | os.PathLike[str]]:
    """Return the files that a path, a pattern or several of them stand for.

    A path with ``*``, ``?`` or ``[`` is a pattern, unless a file has that name.
    """
    found: list[str | os.PathLike[str]] = []
    for one in [path] if isinstance(path, str | os.PathLike) else path:
        name = os.fspath(one)
        if not glob.has_magic(name) or os.path.exists(name):
            found.append(one)
            continue
        matches = sorted(glob.glob(name))
        if not matches:
            raise DataFileError(f"{name}: expected files that match this pattern, got none.")
        found += matches
    if not found:
        raise DataFileError("Expected at least one file to read, got none.")
    return found


def _columns_of(columns: ItemColumns, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that read the columns of a first file in others too."""
    roles = {"y": columns.y, "qid": columns.qid, "item": columns.item}
    known = {role: name for role, name in roles.items() if name is not None}
    raw = {"categories": columns.categories, "forms": dict(columns.forms)}
    text = {} if options.get("categories") is None else raw
    return {**options, **known, "features": columns.features, "drop": (), **text}


def _joined(paths: list[Any], parts: list[RankingData]) -> RankingData:
    """Return the rows of all parts, one below the other."""
    first = parts[0]
    for path, part in zip(paths, parts, strict=True):
        for name in ("y", "qid"):
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                raise DataFileError(
                    f"{os.fspath(path)}: expected `{name}` in all files or in none, got "
                    f"{'none' if getattr(part, name) is None else 'some'} here and the opposite in "
                    f"{os.fspath(paths[0])}."
                )
    vectors: dict[str, Any] = {
        name: np.concatenate(_of_one_type([getattr(part, name) for part in parts]))
        for name in ("y", "qid", "items")
        if all(getattr(part, name) is not None for part in parts)
    }
    comments = [part.comments for part in parts if part.comments is not None]
    return replace(
        first,
        X=_stacked([part.X for part in parts]),
        comments=[one for part in comments for one in part]
        if len(comments) == len(parts)
        else None,
        zero_based=None if first.zero_based is None else any(part.zero_based for part in parts),
        **vectors,
    )


def _stacked(rows: list[Any]) -> Any:
    """Return rows below each other; the last features that svmlight files leave out are 0."""
    n_features = max(one.shape[1] for one in rows)
    if any(issparse(one) for one in rows):
        found = [csr_array(one) for one in rows]
        for one in found:
            one.resize((one.shape[0], n_features))
        return vstack(found, format="csr")
    missing = [np.zeros((len(one), n_features - one.shape[1])) for one in rows]
    return np.concatenate([np.hstack(both) for both in zip(rows, missing, strict=True)])


def _of_one_type(vectors: list[Any]) -> list[Any]:
    """Return ids of all files as texts if some are."""
    is_text = [one.dtype.kind in "UO" for one in vectors]
    return [one.astype(str) for one in vectors] if any(is_text) else vectors


def _read_file(path: str | os.PathLike[str], **options: Any) -> RankingData:
    suffix = format_suffix(path)
    if suffix in TABLE_SUFFIXES:
        return read_table(path, **options)
    if suffix in _SVMLIGHT_SUFFIXES or is_stream(path) or _looks_like_svmlight(path):
        return read_svmlight(path, **options)
    known = ", ".join(sorted(_SVMLIGHT_SUFFIXES | TABLE_SUFFIXES))
    raise DataFileError(
        f"{os.fspath(path)}: expected a name that ends in one of {known}, or svmlight lines such "
        f"as '2 qid:1 1:0.5', got {suffix or 'no suffix'} and other lines. Rename the file."
    )


def _looks_like_svmlight(path: str | os.PathLike[str]) -> bool:
    with open_read(path) as stream:
        lines = stream.read(_SNIFFED).splitlines()
    items = [line for line in lines if line.strip() and not line.lstrip().startswith(b"#")]
    return bool(items) and _SVMLIGHT_LINE.match(items[0]) is not None


@dataclass(frozen=True, eq=False, kw_only=True)
class DataStream(ABC):
    """A file of scored items that is read in chunks.

    Parameters
    ----------
    n_items, n_features : int
        Numbers of items and features in the whole file.
    feature_names : list of n_features strings
        The names of the columns; None when the file does not name them.
    has_qid : bool
        Whether the items have queries.
    zero_based : bool
        Whether svmlight features are numbered from 0; None for other formats.
    """

    n_items: int
    n_features: int
    feature_names: list[str] | None
    has_qid: bool
    zero_based: bool | None = None

    @abstractmethod
    def chunks(self, *, reuse: bool = False) -> Iterator[RankingData]:
        """Read the file from its beginning.

        Parameters
        ----------
        reuse : bool
            Whether the rows of a chunk may be overwritten by those of the next.
        """


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SvmlightStream(DataStream):
    """An svmlight file; all chunks are sparse or all dense, by the density of the file."""

    path: str | os.PathLike[str]
    scan: SvmlightScan
    chunk_bytes: int

    def chunks(self, *, reuse: bool = False) -> Iterator[RankingData]:  # noqa: ARG002
        """Read the file from its beginning; every chunk has its own memory."""
        return iter_svmlight(self.path, self.scan, comments="skip", chunk_bytes=self.chunk_bytes)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ParquetStream(DataStream):
    """A Parquet file, in batches of rows."""

    feature_names: list[str]
    table: ParquetTable
    y: str
    qid: str | None
    batch_size: int

    def chunks(self, *, reuse: bool = False) -> Iterator[RankingData]:
        """Read the file from its beginning."""
        buffer = np.empty((min(self.batch_size, self.n_items) if reuse else 0, self.n_features))
        columns = [*self.feature_names, self.y, *if_any(self.qid)]
        first = 0
        with open_parquet(self.table.path) as file:
            for batch in file.iter_batches(batch_size=self.batch_size, columns=columns):
                n_rows = batch.num_rows
                X = buffer[:n_rows] if reuse else np.empty((n_rows, self.n_features))
                yield self._data(batch, first, X)
                first += batch.num_rows

    def _data(self, batch: Any, first: int, X: FloatArray) -> RankingData:
        for j, name in enumerate(self.feature_names):
            X[:, j] = arrow_numbers(self.table.path, name, batch.column(name), first)
        y = arrow_numbers(self.table.path, self.y, batch.column(self.y), first)
        qid = None
        if self.qid is not None:
            qid = arrow_ids(self.table.path, self.qid, batch.column(self.qid), first)
        return RankingData(X, y, qid, feature_names=self.feature_names)


def open_stream(
    path: str | os.PathLike[str],
    *,
    memory: int,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    y: str | None = None,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
) -> DataStream:
    """Open an svmlight file, plain or compressed, or a Parquet file, to be read in chunks.

    Parameters
    ----------
    path
        The file: Parquet by its suffix ``.parquet`` or ``.pq``, otherwise svmlight.
    memory
        Approximate size of a chunk in bytes.
    n_features, zero_based
        For svmlight files, as in `read_svmlight`; a first pass checks them.
    y, qid, features, drop
        Columns of Parquet files, as in `read_table`.
    """
    refuse_stream(path, "be read in chunks")
    suffix = format_suffix(path)
    if suffix in {*DELIMITERS, *EXCEL_SUFFIXES, *JSON_SUFFIXES}:
        raise DataFileError(
            f"{os.fspath(path)}: expected an svmlight or Parquet file to be read in chunks, got "
            f"{suffix!r}. Convert it to Parquet, as pandas.read_csv(...).to_parquet(...) does, or "
            "read it whole."
        )
    if suffix in PARQUET_SUFFIXES:
        return _parquet_stream(path, memory, y, qid, features, drop)
    chunk_bytes = max(1, min(CHUNK_BYTES, memory // 4))
    scan = scan_svmlight(
        path, n_features=n_features, zero_based=zero_based, chunk_bytes=chunk_bytes
    )
    return SvmlightStream(
        n_items=scan.n_items,
        n_features=scan.n_features,
        feature_names=None,
        has_qid=scan.has_qid,
        zero_based=scan.zero_based,
        path=path,
        scan=scan,
        chunk_bytes=chunk_bytes,
    )


def _parquet_stream(
    path: str | os.PathLike[str],
    memory: int,
    y: str | None,
    qid: str | None,
    features: str | Sequence[str] | None,
    drop: str | Sequence[str],
) -> ParquetStream:
    table = ParquetTable.open(path)
    columns = item_columns(path, table, y, qid, features, drop)
    if columns.y is None:
        usual = ", ".join(USUAL_NAMES["y"])
        raise DataFileError(
            f"{os.fspath(path)}: expected a column of scores named {usual}, got the columns "
            f"{table.names}. Choose one with y=..."
        )
    if features is None:
        names = ColumnNames.of_file(path, table.names)
        for name in columns.features:
            names.refuse_id(name, None, has_qid=columns.qid is not None)
    n_features = len(columns.features)
    with open_parquet(path) as file:
        n_items = file.metadata.num_rows
    return ParquetStream(
        n_items=n_items,
        n_features=n_features,
        feature_names=columns.features,
        has_qid=columns.qid is not None,
        table=table,
        y=columns.y,
        qid=columns.qid,
        batch_size=max(1, memory // (32 * (n_features + 1))),  # decoded twice, and the matrix
    )


@final
@dataclass(eq=False)
class RowStore:
    """Keep rows, all sparse or all dense, in plain files of a folder.

    Indices take 16 bits if that is enough. Nothing stays in memory.

    Parameters
    ----------
    folder : path
        An empty folder; the caller removes it.
    n_features : int
        Number of columns.
    dtype : data type
        The type of the values.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from rankwise.io.reading import RowStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RowStore.create(folder, 2, np.float64)
    ...     store.append(np.array([[1.0, 2.0], [3.0, 4.0]]))
    ...     store.append(np.array([[5.0, 6.0]]))
    ...     store.read_dense(1, 3)
    array([[3., 4.],
           [5., 6.]])
    """

    folder: Path
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool = False

    @classmethod
    def create(cls, folder: str | Path, n_features: int, dtype: DTypeLike) -> Self:
        """Begin an empty store."""
        return cls(Path(folder), n_features, np.dtype(dtype))

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """Type of the indices of sparse rows."""
        return np.dtype(np.uint16 if self.n_features <= 1 << 16 else np.int32)

    def append(self, X: Matrix) -> None:
        """Write rows after those already there."""
        self.is_sparse = issparse(X)
        if self.is_sparse:
            self._write("values", X.data.astype(self.dtype, copy=False))
            self._write("indices", X.indices.astype(self.index_dtype))
            self._write("lengths", np.diff(X.indptr).astype(np.int64))
        else:
            self._write("values", np.ascontiguousarray(X, dtype=self.dtype))
            self._write("lengths", np.full(len(X), self.n_features, dtype=np.int64))

    def _write(self, name: str, values: NDArray[Any]) -> None:
        with (self.folder / name).open("ab") as file:
            values.tofile(file)

    def starts(self) -> IntArray:
        """Return the number of values before each row, and in all."""
        lengths = np.fromfile(self.folder / "lengths", dtype=np.int64)
        return np.concatenate([[0], np.cumsum(lengths)])

    def read_dense(self, first: int, last: int) -> NDArray[Any]:
        """Read the dense rows first to last."""
        begin, end = first * self.n_features, last * self.n_features
        values = self._read("values", self.dtype, begin, end)
        return values.reshape(last - first, self.n_features)

    def read_sparse(
        self, first: int, last: int, starts: IntArray
    ) -> tuple[NDArray[Any], NDArray[Any], IntArray]:
        """Read values, indices and row pointers of the sparse rows first to last."""
        begin, end = int(starts[first]), int(starts[last])
        values = self._read("values", self.dtype, begin, end)
        indices = self._read("indices", self.index_dtype, begin, end)
        return values, indices, starts[first : last + 1] - begin

    def _read(self, name: str, dtype: np.dtype[Any], begin: int, end: int) -> NDArray[Any]:
        return np.fromfile(
            self.folder / name, dtype=dtype, count=end - begin, offset=begin * dtype.itemsize
        )
