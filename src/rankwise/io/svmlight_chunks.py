"""Svmlight files as a stream of chunks of whole lines, in bounded memory."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError
from rankwise.io._svmlight_kernels import (
    BAD_FEATURE,
    BAD_QID,
    BAD_TARGET,
    BAD_VALUE,
    OK,
    first_not_ascending,
    parse_lines,
)
from rankwise.io.compression import open_read
from rankwise.io.tokens import BYTE_ORDER_MARK, bad_line, decode, ids_at, texts_at

_EXPECTED = {
    BAD_TARGET: "a finite number as the target",
    BAD_QID: "qid:<id> or <feature>:<value>",
    BAD_FEATURE: "<feature>:<value> with a whole number below 2147483648 as the feature",
    BAD_VALUE: "<feature>:<value> with a finite {} as the value",
}


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


@dataclass(frozen=True, eq=False)
class Chunk:
    """Hold the rows of some whole lines, the features numbered as in the file and ascending.

    ``line`` is the line of the file on which each row stands; ``qid`` and ``comments`` are None
    when there are none.
    """

    y: FloatArray
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[Any]
    qid: NDArray[Any] | None
    comments: list[str] | None
    line: NDArray[np.int64]


def line_of(rows: Chunk | LineArrays, entry: int) -> int:
    """Return the line of the file on which a stored entry stands."""
    return int(rows.line[np.searchsorted(rows.indptr, entry, side="right") - 1])


def read_chunks(
    path: str | os.PathLike[str], *, dtype: np.dtype[Any], chunk_bytes: int, keep_comments: bool
) -> Iterator[Chunk]:
    """Parse a file, ``chunk_bytes`` of its text at a time, or one line where that is longer."""
    first_line = 1
    has_qid: bool | None = None
    with open_read(path) as stream:
        for text in _whole_lines(stream, chunk_bytes):
            if first_line == 1:
                text = text.removeprefix(BYTE_ORDER_MARK)
            chunk = _parse(path, text, first_line, dtype, keep_comments)
            first_line += text.count(b"\n")
            if len(chunk.y):
                if has_qid not in {None, chunk.qid is not None}:
                    raise _qid_differs(path, int(chunk.line[0]), expected=bool(has_qid))
                has_qid = chunk.qid is not None
                yield chunk


def _whole_lines(stream: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """Cut a stream behind newlines; the last line gets one if it has none."""
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


def _parse(
    path: str | os.PathLike[str],
    text: bytes,
    first_line: int,
    dtype: np.dtype[Any],
    keep_comments: bool,
) -> Chunk:
    rows = _parse_lines(path, text, first_line, dtype)
    _fill_in_long_numbers(path, text, rows, dtype)
    _sort_features(path, rows)
    has_qid = _all_or_none_have_qid(path, rows)
    has_comments = keep_comments and bool(np.any(rows.comment[:, 0] < rows.comment[:, 1]))
    return Chunk(
        y=rows.y,
        indptr=rows.indptr,
        indices=rows.indices,
        values=rows.values.astype(dtype, copy=False),
        qid=ids_at(text, rows.qid) if has_qid else None,
        comments=texts_at(text, rows.comment) if has_comments else None,
        line=rows.line,
    )


def _parse_lines(
    path: str | os.PathLike[str], text: bytes, first_line: int, dtype: np.dtype[Any]
) -> LineArrays:
    """Run the kernel in enough room, which untouched costs no memory, and cut off the rest."""
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
    """Read the numbers of too many digits for the kernel, in place."""
    largest = float(np.finfo(dtype).max)
    for slot, start, stop in rows.long.tolist():
        value = float(text[start:stop])
        if slot >= 0:
            if abs(value) > largest:
                raise _bad_piece(path, line_of(rows, slot), text[start:stop], BAD_VALUE, dtype)
            rows.values[slot] = value
        else:
            row = -1 - slot
            if np.isinf(value):
                raise _bad_piece(path, int(rows.line[row]), text[start:stop], BAD_TARGET, dtype)
            rows.y[row] = value


def _sort_features(path: str | os.PathLike[str], rows: LineArrays) -> None:
    """Sort each row by feature, in place, where the file does not."""
    if first_not_ascending(rows.indptr, rows.indices) < 0:
        return
    row_of = np.repeat(np.arange(len(rows.y)), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, row_of))
    rows.indices[:] = rows.indices[order]
    rows.values[:] = rows.values[order]
    entry = first_not_ascending(rows.indptr, rows.indices)
    if entry >= 0:
        repeated = f"{rows.indices[entry]} twice"
        raise bad_line(path, line_of(rows, entry), "each feature once on a line", repeated)


def _all_or_none_have_qid(path: str | os.PathLike[str], rows: LineArrays) -> bool:
    given = rows.qid[:, 1] > 0
    if not len(given):
        return False
    differing = np.flatnonzero(given != given[0])
    if len(differing):
        raise _qid_differs(path, int(rows.line[differing[0]]), expected=bool(given[0]))
    return bool(given[0])


def _qid_differs(path: str | os.PathLike[str], line: int, *, expected: bool) -> DataFileError:
    what = "a qid behind the target" if expected else "no qid"
    found = "no qid" if expected else "a qid"
    return bad_line(path, line, f"{what}, as on the lines before", found)


def _bad_piece(
    path: str | os.PathLike[str], line: int, rest: bytes, code: int, dtype: np.dtype[Any]
) -> DataFileError:
    piece = (rest.split(b"#")[0].split() or [b""])[0]
    if piece.startswith(b"qid:") and code == BAD_FEATURE:
        return bad_line(path, line, "the qid directly behind the target", decode(piece))
    return bad_line(path, line, _EXPECTED[code].format(dtype), decode(piece))
