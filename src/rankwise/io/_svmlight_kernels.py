"""Compiled parsing of svmlight text into arrays."""

from typing import Any

import numpy as np

from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit
from rankwise.io.numbers import LONG, MALFORMED, parse_number

OK, BAD_TARGET, BAD_QID, BAD_FEATURE, BAD_VALUE = range(5)  # what `parse_lines` met

_U0, _U1, _U2, _U3, _U9 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(9)
_ZERO = np.uint64(ord("0"))
_NEWLINE, _HASH, _COLON, _SPACE = ord("\n"), ord("#"), ord(":"), ord(" ")
_TAB, _RETURN = ord("\t"), ord("\r")
_Q, _I, _D = ord("q"), ord("i"), ord("d")
_MAX_FEATURE = np.iinfo(np.int32).max


@njit(**MAKES_NO_ARRAYS)
def parse_lines(
    text: Any,
    largest: Any,
    y: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    qid: Any,
    comment: Any,
    line: Any,
    long: Any,
) -> Any:
    """Parse whole lines ``target qid:Q feature:value ... # comment`` until the first bad piece.

    Costs one pass over ``text``, which must end in a newline.

    Parameters
    ----------
    text
        The bytes.
    largest
        Values of a larger magnitude are refused.
    y, indptr, indices, values
        Receive the targets and the features, row by row.
    qid, comment
        Receive their spans, the first byte and the one after the last; (0, 0) for no qid.
    line
        Receives the line number of each row, from 1.
    long
        Receives the slot and the span of each number with too many digits; the slot is a position
        in ``values``, or -1 - row for a target.

    Returns
    -------
    n_rows, n_values, n_long, n_lines, code, pos
        How much was found, why parsing ended (``code``), and where: line ``n_lines``, byte ``pos``.
    """
    end = np.uint64(len(text))
    pos = _U0
    n_rows, n_values, n_long, n_lines = 0, 0, 0, 0
    indptr[0] = 0
    while pos < end:
        n_lines += 1
        pos = _skip_blanks(text, pos)
        if text[pos] != _NEWLINE and text[pos] != _HASH:
            code, pos, n_long = _parse_head(text, pos, n_rows, y, qid, n_long, long)
            if code != OK:
                return n_rows, n_values, n_long, n_lines, code, pos
            code, pos, n_values, n_long = _parse_features(
                text, pos, largest, n_values, indices, values, n_long, long
            )
            if code != OK:
                return n_rows, n_values, n_long, n_lines, code, pos
            pos = _parse_comment(text, pos, n_rows, comment)
            line[n_rows] = n_lines
            n_rows += 1
            indptr[n_rows] = n_values
        pos = _find_newline(text, pos) + _U1
    return n_rows, n_values, n_long, n_lines, OK, pos


@njit(**CALLED_BY_KERNELS)
def _parse_head(text: Any, pos: Any, row: Any, y: Any, qid: Any, n_long: Any, long: Any) -> Any:
    """Read the target and the qid, if there is one."""
    start = pos
    value, pos, status = parse_number(text, pos)
    if status == MALFORMED or not np.isfinite(value) or not _is_token_end(text[pos]):
        return BAD_TARGET, start, n_long
    if status == LONG:
        n_long = _note_long(long, n_long, -1 - row, start, pos)
    y[row] = value
    start = _skip_blanks(text, pos)
    qid[row, 0] = qid[row, 1] = 0
    if text[start] != _Q:
        return OK, start, n_long
    pos = _parse_qid(text, start, row, qid)
    return (BAD_QID if pos == start else OK), pos, n_long


@njit(**CALLED_BY_KERNELS)
def _parse_features(
    text: Any,
    pos: Any,
    largest: Any,
    n_values: Any,
    indices: Any,
    values: Any,
    n_long: Any,
    long: Any,
) -> Any:
    """Read ``feature:value`` pairs up to the comment or the end of the line."""
    pos = _skip_blanks(text, pos)
    while text[pos] != _NEWLINE and text[pos] != _HASH:
        start = pos
        feature, pos = _parse_feature(text, pos)
        if feature < 0:
            return BAD_FEATURE, start, n_values, n_long
        value_start = pos
        value, pos, status = parse_number(text, pos)
        if status == MALFORMED or not abs(value) <= largest or not _is_token_end(text[pos]):
            return BAD_VALUE, start, n_values, n_long
        if status == LONG:
            n_long = _note_long(long, n_long, n_values, value_start, pos)
        indices[n_values] = feature
        values[n_values] = value
        n_values += 1
        pos = _skip_blanks(text, pos)
    return OK, pos, n_values, n_long


@njit(**CALLED_BY_KERNELS)
def _note_long(long: Any, n_long: Any, slot: Any, start: Any, stop: Any) -> Any:
    long[n_long, 0] = slot
    long[n_long, 1] = start
    long[n_long, 2] = stop
    return n_long + 1


@njit(**CALLED_BY_KERNELS)
def _parse_qid(text: Any, pos: Any, row: Any, qid: Any) -> Any:
    """Return the position after ``qid:Q``, or ``pos`` itself when there is none."""
    if text[pos + _U1] != _I or text[pos + _U2] != _D or text[pos + _U3] != _COLON:
        return pos
    start = stop = pos + _U3 + _U1
    while not _is_token_end(text[stop]):
        stop += _U1
    if stop == start:
        return pos
    qid[row, 0] = start
    qid[row, 1] = stop
    return stop


@njit(**CALLED_BY_KERNELS)
def _parse_feature(text: Any, pos: Any) -> Any:
    """Return the number before a colon and the position after it; -1 when there is none."""
    start = pos
    feature: Any = 0
    digit = np.uint64(text[pos]) - _ZERO
    while digit <= _U9:
        feature = feature * 10 + np.int64(digit)
        if feature > _MAX_FEATURE:
            return -1, pos
        pos += _U1
        digit = np.uint64(text[pos]) - _ZERO
    if pos == start or text[pos] != _COLON:
        return -1, pos
    return feature, pos + _U1


@njit(**CALLED_BY_KERNELS)
def _parse_comment(text: Any, pos: Any, row: Any, comment: Any) -> Any:
    """Note the text after a hash, without the blanks around it; return the end of the line."""
    stop = _find_newline(text, pos)
    end = stop
    if pos < stop:
        pos = _skip_blanks(text, pos + _U1)
        while stop > pos and _is_blank(text[stop - _U1]):
            stop -= _U1
    comment[row, 0] = pos
    comment[row, 1] = stop
    return end


@njit(**CALLED_BY_KERNELS)
def _is_blank(byte: Any) -> Any:
    return byte in (_SPACE, _TAB, _RETURN)


@njit(**CALLED_BY_KERNELS)
def _is_token_end(byte: Any) -> Any:
    return byte in (_SPACE, _TAB, _RETURN, _NEWLINE, _HASH)


@njit(**CALLED_BY_KERNELS)
def _skip_blanks(text: Any, pos: Any) -> Any:
    while _is_blank(text[pos]):
        pos += _U1
    return pos


@njit(**CALLED_BY_KERNELS)
def _find_newline(text: Any, pos: Any) -> Any:
    while text[pos] != _NEWLINE:
        pos += _U1
    return pos


@njit(**MAKES_NO_ARRAYS)
def scatter_rows(indptr: Any, indices: Any, values: Any, offset: Any, X: Any) -> None:
    """Write the stored entries into the zeros of ``X``; feature numbers begin at ``offset``."""
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            X[row, indices[k] - offset] = values[k]
