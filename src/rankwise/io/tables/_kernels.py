"""Compiled search for the cells of delimited text, and the numbers in them."""

from typing import Any

import numpy as np

from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit
from rankwise.io.numbers import LONG, MALFORMED, parse_number

OK, TOO_FEW, TOO_MANY, OPEN_QUOTE = range(4)  # what `find_cells` met

_U1 = np.uint64(1)
_NEWLINE, _RETURN, _SPACE, _QUOTE = ord("\n"), ord("\r"), ord(" "), ord('"')
_TAB = ord("\t")


@njit(**MAKES_NO_ARRAYS)
def find_cells(text: Any, pos: Any, delimiter: Any, spans: Any, line: Any) -> Any:
    """Find the cells of the next rows, as many as there is room for; skip blank lines.

    Parameters
    ----------
    text
        The bytes, with a newline at the end.
    pos
        Where the first row begins.
    delimiter
        The byte between two cells.
    spans : (n_rows, n_columns, 2)
        Receives the first byte of each cell and the one after its last, without quotes and blanks.
    line
        Receives the line of each row, from 0 at ``pos``.

    Returns
    -------
    n_rows, n_lines, code, pos
        How much was found, and why and where the search ended; a bad row is not counted, but
        ``line`` has it.
    """
    end = np.uint64(len(text))
    pos = np.uint64(pos)
    n_rows, n_lines = 0, 0
    while pos < end and n_rows < len(spans):
        if _is_blank_line(text, pos):
            pos = _skip_line(text, pos)
            n_lines += 1
            continue
        line[n_rows] = n_lines
        for column in range(spans.shape[1]):
            start, stop, pos, n_newlines = _find_cell(text, pos, end, delimiter)
            n_lines += n_newlines
            if pos == end:
                return n_rows, n_lines, OPEN_QUOTE, start
            spans[n_rows, column, 0] = start
            spans[n_rows, column, 1] = stop
            if text[pos] == _NEWLINE and column < spans.shape[1] - 1:
                return n_rows, n_lines, TOO_FEW, start
            pos += _U1
        if text[pos - _U1] != _NEWLINE:
            return n_rows, n_lines, TOO_MANY, pos
        n_lines += 1
        n_rows += 1
    return n_rows, n_lines, OK, pos


@njit(**CALLED_BY_KERNELS)
def _find_cell(text: Any, pos: Any, end: Any, delimiter: Any) -> Any:
    """Return the span of the cell, the position of what ends it, and the newlines inside it."""
    n_newlines = 0
    while text[pos] == _SPACE:
        pos += _U1
    start = pos
    if text[pos] == _QUOTE:
        start = pos = pos + _U1
        while pos < end and (text[pos] != _QUOTE or text[pos + _U1] == _QUOTE):
            n_newlines += text[pos] == _NEWLINE
            pos += _U1 + np.uint64(text[pos] == _QUOTE)
        if pos >= end:
            return start, end, end, n_newlines
        stop = pos
        pos += _U1
        while text[pos] != delimiter and text[pos] != _NEWLINE:
            pos += _U1
            if text[pos - _U1] not in (_SPACE, _RETURN):
                stop = pos  # text after the closing quote: left to be refused
        return start, stop, pos, n_newlines
    while text[pos] != delimiter and text[pos] != _NEWLINE:
        pos += _U1
    stop = pos
    while stop > start and text[stop - _U1] in (_SPACE, _RETURN):
        stop -= _U1
    return start, stop, pos, n_newlines


@njit(**CALLED_BY_KERNELS)
def _is_blank_line(text: Any, pos: Any) -> Any:
    while text[pos] in (_SPACE, _RETURN):
        pos += _U1
    return text[pos] == _NEWLINE


@njit(**CALLED_BY_KERNELS)
def _skip_line(text: Any, pos: Any) -> Any:
    while text[pos] != _NEWLINE:
        pos += _U1
    return pos + _U1


@njit(**MAKES_NO_ARRAYS)
def parse_cells(text: Any, spans: Any, columns: Any, out: Any, long: Any) -> Any:
    """Read the cells of some columns as finite numbers; stop at the first that is none.

    ``long`` receives row, column of ``out`` and span of each number with too many digits. Returns
    their count, and the row and column of the bad cell, or -1 and -1.
    """
    n_long = 0
    for row in range(len(spans)):
        for j in range(len(columns)):
            start, stop = np.uint64(spans[row, columns[j], 0]), np.uint64(spans[row, columns[j], 1])
            while start < stop and text[start] in (_SPACE, _TAB):  # inside quotes
                start += _U1
            while start < stop and text[stop - _U1] in (_SPACE, _TAB):
                stop -= _U1
            value, pos, status = parse_number(text, start)
            if status == MALFORMED or pos != stop or not np.isfinite(value):
                return n_long, row, j
            if status == LONG:
                long[n_long, 0], long[n_long, 1] = row, j
                long[n_long, 2], long[n_long, 3] = start, stop
                n_long += 1
            out[row, j] = value
    return n_long, -1, -1
