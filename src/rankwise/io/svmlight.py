"""Svmlight and LETOR files: one item per line, ``target qid:Q feature:value ... # comment``."""

import os
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.io._svmlight_kernels import scatter_rows
from rankwise.io.data import RankingData
from rankwise.io.svmlight_chunks import Chunk, read_chunks
from rankwise.io.svmlight_scan import SvmlightScan, ZeroBased, check_features, scan_chunks
from rankwise.io.tokens import join_ids

CHUNK_BYTES = 1 << 24  # of text, 16 MB: parsed in a tenth of a second, about as large in memory

Dense = bool | Literal["auto"]
Comments = Literal["keep", "skip"]


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    dense: Dense = "auto",
    comments: Comments = "keep",
    dtype: DTypeLike = np.float64,
) -> RankingData:
    r"""Read a svmlight or LETOR file, plain or compressed (.gz, .xz, .bz2).

    Each line is ``target qid:Q feature:value ... # comment``; blank lines and lines with a comment
    only are left out. Numbers are read as Python's ``float`` reads them, bit for bit. Costs one
    pass over the text, and little memory beside the result.

    Parameters
    ----------
    path
        The file.
    n_features
        Number of columns of X; None for the largest feature in the file. Give that of the training
        data to read test data.
    zero_based
        Whether the first feature is numbered 0; "auto" says so when a 0 occurs.
    dense
        Whether X is a dense array or a sparse one (CSR); "auto" takes a dense array when more than
        half of the entries stand in the file.
    comments
        "skip" leaves them out, which saves time and memory.
    dtype
        Type of X, float64 or float32.

    Returns
    -------
    RankingData
        ``qid`` is None when no line has one, a vector of integers when all ids are whole numbers,
        else of strings.

    Raises
    ------
    DataFileError
        For the first bad line: file, line number, what was expected and what was found.

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
    scan = scan_chunks(path, chunks, n_features, zero_based)
    return _assemble(chunks, scan, dense)


def scan_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    chunk_bytes: int = CHUNK_BYTES,
) -> SvmlightScan:
    r"""Check a whole file in bounded memory and count its rows, features and entries.

    Parameters
    ----------
    path, n_features, zero_based
        As in `read_svmlight`.
    chunk_bytes
        How much text is in memory at a time.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import scan_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1\n0 qid:7 2:0.25\n")
    ...     scan_svmlight(path)
    SvmlightScan(n_rows=2, n_features=3, n_nonzeros=3, has_qid=True, integer_qid=True,
                 zero_based=False)
    """
    _check_options("auto", "skip", np.float64, chunk_bytes)
    chunks = _chunks(path, np.float64, "skip", chunk_bytes)
    return scan_chunks(path, chunks, n_features, zero_based)


def iter_svmlight(
    path: str | os.PathLike[str],
    scan: SvmlightScan | None = None,
    *,
    dense: Dense = "auto",
    comments: Comments = "keep",
    dtype: DTypeLike = np.float64,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[RankingData]:
    r"""Read a svmlight or LETOR file in chunks of whole lines, in bounded memory.

    The chunks, one below the other, are what `read_svmlight` returns. A query may go on in the next
    chunk.

    Parameters
    ----------
    path, dense, comments, dtype
        As in `read_svmlight`.
    scan
        What `scan_svmlight` found in this file, so that all chunks have the same columns and types;
        None makes that first pass here. Make it once for a file that is read many times.
    chunk_bytes
        How much text is in memory at a time, beside its arrays, which are about as large.

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
    known = scan_svmlight(path, chunk_bytes=chunk_bytes) if scan is None else scan
    return (
        _assemble(deque([check_features(path, chunk, known)]), known, dense)
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


def _chunks(
    path: str | os.PathLike[str], dtype: DTypeLike, comments: Comments, chunk_bytes: int
) -> Iterator[Chunk]:
    return read_chunks(
        path,
        dtype=np.dtype(dtype),
        chunk_bytes=chunk_bytes,
        keep_comments=comments == "keep",
    )


def _assemble(chunks: deque[Chunk], scan: SvmlightScan, dense: Dense) -> RankingData:
    """Put chunks one below the other; empties ``chunks`` on the way to spare memory."""
    y = np.concatenate([chunk.y for chunk in chunks])
    qid = _join_qid(chunks, scan)
    comments = _join_comments(chunks)
    make_dense = scan.density > 0.5 if dense == "auto" else dense
    X = _dense(chunks, scan, len(y)) if make_dense else _sparse(chunks, scan, len(y))
    return RankingData(X, y, qid, comments)


def _join_qid(chunks: deque[Chunk], scan: SvmlightScan) -> NDArray[Any] | None:
    parts = [chunk.qid for chunk in chunks if chunk.qid is not None]
    if not parts:
        return None
    return join_ids(parts) if scan.integer_qid else join_ids(parts).astype(str)


def _join_comments(chunks: deque[Chunk]) -> list[str] | None:
    if all(chunk.comments is None for chunk in chunks):
        return None
    return [text for chunk in chunks for text in chunk.comments or [""] * len(chunk.y)]


def _dense(chunks: deque[Chunk], scan: SvmlightScan, n_rows: int) -> FloatArray:
    X = np.zeros((n_rows, scan.n_features), dtype=chunks[0].values.dtype)
    start = 0
    while chunks:
        chunk = chunks.popleft()
        stop = start + len(chunk.y)
        scatter_rows(chunk.indptr, chunk.indices, chunk.values, scan.first_feature, X[start:stop])
        start = stop
    return X


def _sparse(chunks: deque[Chunk], scan: SvmlightScan, n_rows: int) -> csr_array:
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
