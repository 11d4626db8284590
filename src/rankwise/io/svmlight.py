"""Svmlight and LETOR files: read whole or in chunks of lines, and written.

A file is parsed chunk by chunk (`SvmlightChunk`); a scan of all chunks settles columns, numbering
and types (`SvmlightScan`); the chunks are then assembled into `RankingData`.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.data import RankingData
from rankwise.io.files import open_read, open_write, refuse_stream
from rankwise.io.numbers import BYTE_ORDER_MARK, bad_line, decode, ids_at, join_ids, texts_at
from rankwise.native.svmlight import (
    BAD_FEATURE,
    BAD_QID,
    BAD_TARGET,
    BAD_VALUE,
    OK,
    parse_lines,
    scatter_rows,
)

CHUNK_BYTES = 1 << 24
"""Bytes of text parsed at a time: 16 MB take a tenth of a second, and about as much memory."""

MOST_FEATURES = 1 << 26
"""Features of a file whose number is not given, at most: a weight for each takes half a GiB."""

ZeroBased = bool | Literal["auto"]
Dense = bool | Literal["auto"]
Comments = Literal["keep", "skip"]

_EXPECTED = {
    BAD_TARGET: "a finite number as the target",
    BAD_QID: "qid:<id> or <feature>:<value>",
    BAD_FEATURE: "<feature>:<value> with a whole number below 2147483648 as the feature",
    BAD_VALUE: "<feature>:<value> with a finite {} as the value",
}


@final
@dataclass(frozen=True)
class SvmlightScan:
    """Hold the results of a first pass over a file, so that later passes read all chunks alike.

    Parameters
    ----------
    n_items, n_features, n_nonzeros
        Numbers of items, of features and of entries in the file, written zeros included.
    has_qid
        Whether the items have a query.
    integer_qid
        Whether every qid is a whole number; otherwise they are read as strings.
    zero_based
        Whether features are numbered from 0 instead of 1.

    Examples
    --------
    >>> from rankwise.io import SvmlightScan
    >>> SvmlightScan(10, 5, 20, has_qid=True, integer_qid=True, zero_based=False).density
    0.4
    """

    n_items: int
    n_features: int
    n_nonzeros: int
    has_qid: bool
    integer_qid: bool
    zero_based: bool

    @property
    def first_feature(self) -> int:
        """The number of the first feature in the file."""
        return 0 if self.zero_based else 1

    @property
    def density(self) -> float:
        """The share of the entries of X that the file holds."""
        return self.n_nonzeros / max(self.n_items * self.n_features, 1)


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dense: Dense = "auto",
    comments: Comments = "keep",
    dtype: DTypeLike = np.float64,
) -> RankingData:
    r"""Read an svmlight or LETOR file, plain or compressed (.gz, .xz, .bz2).

    Each line is ``target qid:Q feature:value ... # comment``; blank lines and lines with only a
    comment are skipped. Numbers are read exactly as Python's ``float`` reads them. Reading takes
    one pass over the text and little memory besides the result.

    Parameters
    ----------
    path
        The file.
    n_features
        Number of columns of X; by default the largest feature in the file. For test data, pass the
        number of features of the training data.
    zero_based
        Whether features are numbered from 0; "auto" decides by whether a 0 occurs. For test data,
        pass the ``zero_based`` of the training data.
    dense
        Whether X is a dense or a sparse (CSR) array; "auto" makes it dense if the file holds more
        than half of its entries.
    comments
        Whether to "keep" or "skip" comments; skipping saves time and memory.
    dtype
        The type of X, float64 or float32.

    Returns
    -------
    RankingData
        ``qid`` is None if no line has one; it holds integers if all ids are whole numbers, else
        strings.

    Raises
    ------
    DataFileError
        For the first bad line, with its number, what was expected and what was found.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 2:1 # best\n0 qid:7 1:0.25 2:0\n")
    ...     data = read_svmlight(path)
    >>> data
    RankingData(2 items, 2 features, dense, with y, qid, comments)
    >>> data.X, data.y, data.qid, data.comments
    (array([[0.5 , 1.  ], [0.25, 0.  ]]), array([2., 0.]), array([7, 7]), ['best', ''])
    """
    _check_options(dense, comments, dtype, CHUNK_BYTES)
    chunks = deque(_chunks(path, dtype, comments, CHUNK_BYTES))
    scan = _scan(path, chunks, n_features, zero_based)
    return _assemble(chunks, scan, dense)


def scan_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    chunk_bytes: int = CHUNK_BYTES,
) -> SvmlightScan:
    r"""Check a whole file in bounded memory and count its items, features and entries.

    Parameters
    ----------
    path, n_features, zero_based
        As in `read_svmlight`.
    chunk_bytes
        Bytes of text in memory at a time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import scan_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1\n0 qid:7 2:0.25\n")
    ...     scan_svmlight(path)
    SvmlightScan(n_items=2, n_features=3, n_nonzeros=3, has_qid=True, integer_qid=True,
                 zero_based=False)
    """
    _check_options("auto", "skip", np.float64, chunk_bytes)
    chunks = _chunks(path, np.float64, "skip", chunk_bytes)
    return _scan(path, chunks, n_features, zero_based)


def iter_svmlight(
    path: str | os.PathLike[str],
    scan: SvmlightScan | None = None,
    *,
    dense: Dense = "auto",
    comments: Comments = "keep",
    dtype: DTypeLike = np.float64,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[RankingData]:
    r"""Read an svmlight or LETOR file in chunks of whole lines, in bounded memory.

    Stacked, the chunks are what `read_svmlight` returns. A query may continue in the next chunk.

    Parameters
    ----------
    path, dense, comments, dtype
        As in `read_svmlight`.
    scan
        The result of `scan_svmlight` for this file, so that all chunks have the same columns and
        types; by default the file is scanned first. Scan once if a file is read many times.
    chunk_bytes
        Bytes of text in memory at a time; the arrays are about as large.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import iter_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1\n0 qid:7 2:0.25\n1 qid:8 3:4\n")
    ...     [data.y.tolist() for data in iter_svmlight(path, chunk_bytes=32)]
    [[2.0], [0.0, 1.0]]
    """
    _check_options(dense, comments, dtype, chunk_bytes)
    if scan is None:
        refuse_stream(path, "be read in chunks without a scan")
    known = scan_svmlight(path, chunk_bytes=chunk_bytes) if scan is None else scan
    return (
        _assemble(deque([_check_features(path, chunk, known)]), known, dense)
        for chunk in _chunks(path, dtype, comments, chunk_bytes)
    )


def _check_options(dense: Any, comments: Any, dtype: DTypeLike, chunk_bytes: int) -> None:
    if dense not in (True, False, "auto"):
        raise InvalidInputError(f"`dense` must be True, False or 'auto': got {dense!r}.")
    if comments not in ("keep", "skip"):
        raise InvalidInputError(f"`comments` must be 'keep' or 'skip': got {comments!r}.")
    if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise InvalidInputError(f"`dtype` must be float64 or float32: got {np.dtype(dtype)}.")
    if chunk_bytes < 1:
        raise InvalidInputError(f"`chunk_bytes` must be at least 1: got {chunk_bytes!r}.")


@final
@dataclass(frozen=True, eq=False)
class SvmlightChunk:
    """Hold the rows of some whole lines; features ascend and are numbered as in the file.

    ``line`` is the line number of each row; ``qid`` and ``comments`` are None if there are none.
    """

    y: FloatArray
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[Any]
    qid: NDArray[Any] | None
    comments: list[str] | None
    line: NDArray[np.int64]


def _chunks(
    path: str | os.PathLike[str], dtype: DTypeLike, comments: Comments, chunk_bytes: int
) -> Iterator[SvmlightChunk]:
    """Parse a file, ``chunk_bytes`` of its text at a time, or one line if that is longer."""
    first_line = 1
    has_qid: bool | None = None
    with open_read(path) as stream:
        for text in _whole_lines(stream, chunk_bytes):
            if first_line == 1:
                text = text.removeprefix(BYTE_ORDER_MARK)
            chunk = _parse(path, text, first_line, np.dtype(dtype), comments)
            first_line += text.count(b"\n")
            if len(chunk.y):
                if has_qid not in {None, chunk.qid is not None}:
                    raise _qid_differs(path, int(chunk.line[0]), expected=bool(has_qid))
                has_qid = chunk.qid is not None
                yield chunk


def _whole_lines(stream: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """Cut a stream after newlines; the last line gets one if it has none."""
    block = stream.read(chunk_bytes)
    pieces: list[bytes] = []
    while block:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*pieces, block[:cut]])
            pieces.clear()
        pieces.append(block[cut:])
        block = stream.read(chunk_bytes)
    rest = b"".join(pieces)
    if rest:
        yield rest + b"\n"


class _Feature(NamedTuple):
    number: int
    line: int


def _scan(
    path: str | os.PathLike[str],
    chunks: Iterable[SvmlightChunk],
    n_features: int | None,
    zero_based: ZeroBased,
) -> SvmlightScan:
    """Summarise chunks; refuse feature numbers outside ``n_features`` and ``zero_based``."""
    _check_numbering(n_features, zero_based)
    # counts, extreme features and types of ids over all chunks
    n_items = n_nonzeros = 0
    id_types = set()
    extremes: list[_Feature] = []
    for chunk in chunks:
        n_items += len(chunk.y)
        n_nonzeros += len(chunk.values)
        extremes += _extreme_features(chunk)
        if chunk.qid is not None:
            id_types.add(chunk.qid.dtype)
    if n_items == 0:
        raise DataFileError(
            f"{os.fspath(path)}: expected lines such as '2 qid:1 1:0.5', got a file without any."
        )
    # where features begin, and how many there are
    from_zero = zero_based
    if from_zero == "auto":
        from_zero = any(feature.number == 0 for feature in extremes)
    n_found = max((feature.number + from_zero for feature in extremes), default=0)
    if n_features is None and n_found > MOST_FEATURES:
        number, line = max(extremes)
        raise bad_line(
            path, line, f"features up to {MOST_FEATURES} (or n_features=...)", str(number)
        )
    scan = SvmlightScan(
        n_items=n_items,
        n_features=n_found if n_features is None else n_features,
        n_nonzeros=n_nonzeros,
        has_qid=bool(id_types),
        integer_qid=id_types == {np.dtype(np.int64)},
        zero_based=from_zero,
    )
    _check_range(path, extremes, scan)
    return scan


def _check_numbering(n_features: int | None, zero_based: ZeroBased) -> None:
    if n_features is not None and n_features < 0:
        raise InvalidInputError(f"`n_features` must not be negative: got {n_features}.")
    if zero_based not in (True, False, "auto"):
        raise InvalidInputError(f"`zero_based` must be True, False or 'auto': got {zero_based!r}.")


def _check_features(
    path: str | os.PathLike[str], chunk: SvmlightChunk, scan: SvmlightScan
) -> SvmlightChunk:
    """Return the chunk after checking that its features are among those of the scan."""
    _check_range(path, _extreme_features(chunk), scan)
    return chunk


def _extreme_features(chunk: SvmlightChunk) -> list[_Feature]:
    """Return the lowest and the highest feature, with the lines that first have them."""
    if not len(chunk.indices):
        return []
    entries = [int(np.argmin(chunk.indices)), int(np.argmax(chunk.indices))]
    return [
        _Feature(int(chunk.indices[entry]), _line_of(chunk.indptr, chunk.line, entry))
        for entry in entries
    ]


def _check_range(
    path: str | os.PathLike[str], features: list[_Feature], scan: SvmlightScan
) -> None:
    first, last = scan.first_feature, scan.first_feature + scan.n_features - 1
    for number, line in features:
        if number < first:
            raise bad_line(path, line, "features from 1 (pass zero_based=True for 0)", str(number))
        if number > last:
            what = f"features up to {last} (n_features={scan.n_features})"
            raise bad_line(path, line, what, str(number))


def _assemble(chunks: deque[SvmlightChunk], scan: SvmlightScan, dense: Dense) -> RankingData:
    """Stack chunks; ``chunks`` is emptied meanwhile to save memory."""
    y = np.concatenate([chunk.y for chunk in chunks])
    qid = _join_qid(chunks, scan)
    comments = _join_comments(chunks)
    make_dense = scan.density > 0.5 if dense == "auto" else dense
    X = _dense(chunks, scan, len(y)) if make_dense else _sparse(chunks, scan, len(y))
    return RankingData(X, y, qid, comments, zero_based=scan.zero_based)


def _join_qid(chunks: deque[SvmlightChunk], scan: SvmlightScan) -> NDArray[Any] | None:
    parts = [chunk.qid for chunk in chunks if chunk.qid is not None]
    if not parts:
        return None
    return join_ids(parts) if scan.integer_qid else join_ids(parts).astype(str)


def _join_comments(chunks: deque[SvmlightChunk]) -> list[str] | None:
    if all(chunk.comments is None for chunk in chunks):
        return None
    return [text for chunk in chunks for text in chunk.comments or [""] * len(chunk.y)]


def _dense(chunks: deque[SvmlightChunk], scan: SvmlightScan, n_rows: int) -> FloatArray:
    X = np.zeros((n_rows, scan.n_features), dtype=chunks[0].values.dtype)
    start = 0
    while chunks:
        chunk = chunks.popleft()
        stop = start + len(chunk.y)
        entries = chunk.indptr, chunk.indices, chunk.values
        scatter_rows(*entries, scan.first_feature, X[start:stop])
        start = stop
    return X


def _sparse(chunks: deque[SvmlightChunk], scan: SvmlightScan, n_rows: int) -> csr_array:
    n_values = sum(len(chunk.values) for chunk in chunks)
    values = np.empty(n_values, dtype=chunks[0].values.dtype)
    indices = np.empty(n_values, dtype=np.int32)
    lengths = np.concatenate([np.diff(chunk.indptr) for chunk in chunks])
    start = 0
    while chunks:
        chunk = chunks.popleft()
        stop = start + len(chunk.values)
        values[start:stop] = chunk.values
        np.subtract(chunk.indices, scan.first_feature, out=indices[start:stop])
        start = stop
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((values, indices, indptr), shape=(n_rows, scan.n_features))


class LineArrays(NamedTuple):
    """What `parse_lines` finds, described there."""

    y: FloatArray
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: FloatArray
    qid: NDArray[np.int64]
    comment: NDArray[np.int64]
    line: NDArray[np.int64]
    long: NDArray[np.int64]


def _parse(
    path: str | os.PathLike[str],
    text: bytes,
    first_line: int,
    dtype: np.dtype[Any],
    comments: Comments,
) -> SvmlightChunk:
    rows = _parse_lines(path, text, first_line, dtype)
    _fill_in_long_numbers(path, text, rows, dtype)
    _sort_features(path, rows)
    has_qid = _all_or_none_have_qid(path, rows)
    has_comments = bool(np.any(rows.comment[:, 0] < rows.comment[:, 1]))
    return SvmlightChunk(
        y=rows.y,
        indptr=rows.indptr,
        indices=rows.indices,
        values=rows.values.astype(dtype, copy=False),
        qid=ids_at(text, rows.qid) if has_qid else None,
        comments=texts_at(text, rows.comment) if comments == "keep" and has_comments else None,
        line=rows.line,
    )


def _parse_lines(
    path: str | os.PathLike[str], text: bytes, first_line: int, dtype: np.dtype[Any]
) -> LineArrays:
    """Run the kernel on arrays that are surely large enough, then cut them to size."""
    characters = np.frombuffer(text, dtype=np.uint8)
    room = _room(
        n_rows=int(np.count_nonzero(characters == ord("\n"))),
        n_values=int(np.count_nonzero(characters == ord(":"))),
    )
    largest = float(np.finfo(dtype).max)
    n_rows, n_values, n_long, n_lines, code, pos = parse_lines(characters, largest, *room)
    if code != OK:
        rest = text[pos : text.index(b"\n", pos)]
        raise _bad_piece(path, first_line + n_lines - 1, rest, code, dtype)
    return LineArrays(
        y=room.y[:n_rows],
        indptr=room.indptr[: n_rows + 1],
        indices=room.indices[:n_values],
        values=room.values[:n_values],
        qid=room.qid[:n_rows],
        comment=room.comment[:n_rows],
        line=room.line[:n_rows] + (first_line - 1),
        long=room.long[:n_long],
    )


def _room(n_rows: int, n_values: int) -> LineArrays:
    return LineArrays(
        y=np.empty(n_rows),
        indptr=np.empty(n_rows + 1, dtype=np.int64),
        indices=np.empty(n_values, dtype=np.int32),
        values=np.empty(n_values),
        qid=np.empty((n_rows, 2), dtype=np.int64),
        comment=np.empty((n_rows, 2), dtype=np.int64),
        line=np.empty(n_rows, dtype=np.int64),
        long=np.empty((n_rows + n_values, 3), dtype=np.int64),
    )


def _fill_in_long_numbers(
    path: str | os.PathLike[str], text: bytes, rows: LineArrays, dtype: np.dtype[Any]
) -> None:
    """Read the numbers with too many digits for the kernel, in place."""
    largest = float(np.finfo(dtype).max)
    for slot, start, stop in rows.long.tolist():
        value = float(text[start:stop])
        if slot >= 0:
            if abs(value) > largest:
                raise _bad_piece(
                    path, _line_of(rows.indptr, rows.line, slot), text[start:stop], BAD_VALUE, dtype
                )
            rows.values[slot] = value
        else:
            row = -1 - slot
            if np.isinf(value):
                raise _bad_piece(path, int(rows.line[row]), text[start:stop], BAD_TARGET, dtype)
            rows.y[row] = value


def _sort_features(path: str | os.PathLike[str], rows: LineArrays) -> None:
    """Sort each row by feature, in place, if the file does not."""
    if _first_not_ascending(rows) < 0:
        return
    row_of = np.repeat(np.arange(len(rows.y)), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, row_of))
    rows.indices[:] = rows.indices[order]
    rows.values[:] = rows.values[order]
    entry = _first_not_ascending(rows)
    if entry >= 0:
        repeated = f"{rows.indices[entry]} twice"
        raise bad_line(
            path, _line_of(rows.indptr, rows.line, entry), "each feature once on a line", repeated
        )


def _first_not_ascending(rows: LineArrays) -> int:
    """Return the first entry whose feature is not above the one before it in its row, or -1."""
    falls = np.append(False, rows.indices[1:] <= rows.indices[:-1])
    falls[rows.indptr[:-1][np.diff(rows.indptr) > 0]] = False
    return int(np.argmax(falls)) if falls.any() else -1


def _all_or_none_have_qid(path: str | os.PathLike[str], rows: LineArrays) -> bool:
    given = rows.qid[:, 1] > 0
    if not len(given):
        return False
    differing = np.flatnonzero(given != given[0])
    if len(differing):
        raise _qid_differs(path, int(rows.line[differing[0]]), expected=bool(given[0]))
    return bool(given[0])


def _qid_differs(path: str | os.PathLike[str], line: int, *, expected: bool) -> DataFileError:
    what = "a qid after the target" if expected else "no qid"
    found = "no qid" if expected else "a qid"
    return bad_line(path, line, f"{what}, as on the lines before", found)


def _bad_piece(
    path: str | os.PathLike[str], line: int, rest: bytes, code: int, dtype: np.dtype[Any]
) -> DataFileError:
    piece = (rest.split(b"#")[0].split() or [b""])[0]
    if piece.startswith(b"qid:") and code == BAD_FEATURE:
        return bad_line(path, line, "the qid directly after the target", decode(piece))
    return bad_line(path, line, _EXPECTED[code].format(dtype), decode(piece))


def _line_of(indptr: NDArray[np.int64], line: NDArray[np.int64], entry: int) -> int:
    """Return the line number of a stored entry."""
    return int(line[np.searchsorted(indptr, entry, side="right") - 1])


def write_svmlight(
    path: str | os.PathLike[str],
    X: ArrayLike | sparse.sparray | sparse.spmatrix,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    comments: Sequence[str] | None = None,
    *,
    zero_based: bool = False,
) -> None:
    """Write an svmlight or LETOR file, plain or compressed (.gz, .xz, .bz2), atomically.

    Numbers are written with enough digits to read the same ones back. A dense X is written with its
    zeros, a sparse X with its stored entries. An existing file is replaced only when the new one is
    complete.

    Parameters
    ----------
    path
        The file; its suffix decides whether it is compressed.
    X : (n_items, n_features)
        The features, dense or sparse.
    y : (n_items,)
        The scores.
    qid : (n_items,)
        The query of each item: numbers, or strings without blanks or ``#``.
    comments : n_items strings
        What to write after ``#``, one line each; nothing if empty.
    zero_based
        Whether to number features from 0 instead of 1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import write_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     write_svmlight(path, [[0.5, 1], [0.1, 0]], [2, 0], qid=[7, 7], comments=["best", ""])
    ...     print(path.read_text())
    2 qid:7 1:0.5 2:1 # best
    0 qid:7 1:0.1 2:0
    """
    table = _as_table(X)
    n_items = table.shape[0]
    rows = _feature_texts(table, 0 if zero_based else 1)
    heads = _heads(_checked_target(y, n_items), _checked_ids(qid, n_items))
    tails = _tails(comments, n_items)
    with open_write(path) as stream:
        for head, row, tail in zip(heads, rows, tails, strict=True):
            stream.write(f"{head}{row}{tail}\n".encode())


def _as_table(X: Any) -> FloatArray | sparse.csr_array:
    """Return X with finite doubles, dense or as CSR without repeated entries."""
    if sparse.issparse(X):
        table = sparse.csr_array(X, dtype=np.float64, copy=True)
        table.sum_duplicates()
        values = table.data
    else:
        table = np.asarray(X, dtype=np.float64)
        values = table
    if table.ndim != 2:
        raise InvalidInputError(f"`X` must have two dimensions: got shape {table.shape}.")
    if not np.isfinite(values).all():
        raise InvalidInputError("`X` must be finite: it holds NaN or infinity.")
    return table


def _checked_target(y: ArrayLike, n_items: int) -> FloatArray:
    target = np.asarray(y, dtype=np.float64)
    if target.shape != (n_items,):
        raise InvalidInputError(
            f"`y` must have one entry per row of `X`: X has {n_items} rows, y has shape "
            f"{target.shape}."
        )
    if not np.isfinite(target).all():
        raise InvalidInputError("`y` must be finite: it holds NaN or infinity.")
    return target


def _checked_ids(qid: ArrayLike | None, n_items: int) -> list[str] | None:
    if qid is None:
        return None
    ids = [str(query) for query in np.asarray(qid).tolist()]
    if len(ids) != n_items:
        raise InvalidInputError(
            f"`qid` must have one entry per row of `X`: X has {n_items} rows, qid has {len(ids)}."
        )
    for query in set(ids):
        if not query or "#" in query or query.split() != [query]:
            raise InvalidInputError(
                f"`qid` must not be empty or contain blanks or '#' in this format: got {query!r}."
            )
    return ids


def _heads(target: FloatArray, ids: list[str] | None) -> Iterator[str]:
    targets = (_number(value) for value in target.tolist())
    if ids is None:
        return targets
    return (f"{value} qid:{query}" for value, query in zip(targets, ids, strict=True))


def _feature_texts(table: FloatArray | sparse.csr_array, first: int) -> Iterator[str]:
    """Return the text of each row, `` 1:0.5 2:1``."""
    labels = [f" {number}:" for number in range(first, first + table.shape[1])]
    if isinstance(table, np.ndarray):
        return (_pairs_text(labels, row.tolist()) for row in table)
    bounds = zip(table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)
    return (
        _pairs_text([labels[j] for j in table.indices[start:stop].tolist()], values.tolist())
        for start, stop in bounds
        for values in [table.data[start:stop]]
    )


def _pairs_text(labels: list[str], values: list[float]) -> str:
    return "".join([label + _number(value) for label, value in zip(labels, values, strict=True)])


def _number(value: float) -> str:
    """Write the shortest text that reads back as the same number; whole ones without a point."""
    return repr(value).removesuffix(".0")


def _tails(comments: Sequence[str] | None, n_items: int) -> Iterable[str]:
    if comments is None:
        return [""] * n_items
    if len(comments) != n_items:
        raise InvalidInputError(
            f"`comments` must have one entry per row of `X`: X has {n_items} rows, comments has "
            f"{len(comments)}."
        )
    for comment in comments:
        if "\n" in comment or "\r" in comment:
            raise InvalidInputError(f"`comments` must not hold line breaks: got {comment!r}.")
    return [f" # {comment}" if comment.strip() else "" for comment in comments]
