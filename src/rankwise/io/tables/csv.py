"""Tables in delimited text: CSV and TSV.

Numbers, and names without doubled quotes, are read by a compiled kernel, which skips all other
columns. If pyarrow is installed, it reads what else is well formed and not small. Otherwise, and
to find the line and the column of errors, Python reads row by row. All give the same bits;
``python -m benchmarks.io`` measures them in new processes.
"""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple, NoReturn, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.comparisons.column import Column
from rankwise.core.errors import DataFileError, MissingExtraError
from rankwise.core.threads import in_threads, n_threads
from rankwise.io.data import hint_for
from rankwise.io.files import open_read
from rankwise.io.numbers import (
    BYTE_ORDER_MARK,
    PLAIN_NUMBER,
    bad_line,
    decode,
    ids_at,
    integers_or_texts,
    quoted,
    texts_at,
)
from rankwise.io.tables.table import CellError, DataTable, arrow_buffer, pyarrow_with
from rankwise.native.names import number_texts
from rankwise.native.svmlight import parse_table

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""What is usual between cells, by the suffix of the file; the header decides."""

KNOWN_DELIMITERS = (",", ";", "\t", "|")

PART_BYTES = 1 << 19
"""Bytes that are worth a thread."""

SMALL_TEXT = 1 << 17
"""Bytes that Python reads in less time than pyarrow takes to load. Its threads do not start then
either: a process that ends while they do is aborted."""

BLOCK_CELLS = 1 << 16
"""Number of cells that Python holds at a time: 4 MB."""

_NUMBER = re.compile(PLAIN_NUMBER)
_IN_NUMBERS = b"0123456789+-.eE \t"  # with these alone, ``float`` reads plain numbers only
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_EXCEL_LINE = re.compile(rb"sep=(.)\r?\n")  # Excel's own way to name the delimiter


class _Row(NamedTuple):
    """The line of a row in the file, and its cells without quotes and the blanks around them."""

    line: int
    cells: list[bytes]


@final
@dataclass(frozen=True, eq=False)
class CsvTable(DataTable):
    """Read columns of delimited text, held in memory, below a header line.

    Cells may be quoted; a doubled quote stands for a quote. Blanks around cells and blank lines are
    ignored.
    """

    path: str | os.PathLike[str]
    delimiter: str
    header: list[str]
    text: bytes
    body: int
    block_cells: int

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], delimiter: str, *, block_cells: int = BLOCK_CELLS
    ) -> Self:
        """Load a plain or compressed file; Python reads about ``block_cells`` at a time.

        The header decides the delimiter; ``delimiter`` is used if the header has a single name.
        """
        with open_read(path) as stream:
            text = _in_utf8(path, stream.read())
        if not text.endswith(b"\n"):
            text += b"\n"
        said = _EXCEL_LINE.match(text)
        start = 0 if said is None else said.end()
        body = text.index(b"\n", start) + 1
        head = text[start:body]
        delimiter = _delimiter(head, delimiter) if said is None else said[1].decode("latin-1")
        header = _header(path, head, delimiter)
        return cls(path, delimiter, header, text, body, block_cells)

    @property
    def names(self) -> list[str]:
        """The names in the header."""
        return self.header

    def read(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read columns of numbers and columns of ids, in one pass."""
        found = self._read_plain(numbers, ids)
        if found is None and len(self.text) > SMALL_TEXT:
            found = self._read_with_arrow(numbers, ids)
        return self._read_here(numbers, ids) if found is None else found

    def _read_plain(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]] | None:
        """Read text that is well formed; return None if it needs a closer look."""
        found = self._parsed(numbers, ids)
        if found is None:
            return None
        return found[0], [ids_at(self.text, places) for places in found[1]]

    def _parsed(
        self, numbers: Sequence[Sequence[str]], words: Sequence[str], *, may_be_blank: bool = False
    ) -> tuple[list[FloatArray], NDArray[np.int64]] | None:
        """Return numbers, and where words begin and end; None for text of another form."""
        wanted = [*(name for columns in numbers for name in columns), *words]
        is_plain = len(set(wanted)) == len(wanted) and self.delimiter in KNOWN_DELIMITERS
        if not is_plain:
            return None
        # quotes may hold the ends of lines: one part, of at most as many rows as lines
        has_quotes = self.text.find(b'"', self.body) >= 0
        edges = self._edges(1 if has_quotes else n_threads())
        n_rows = edges[-1][1]
        # one array for all numbers, and where each column of the text stands in it
        sizes = [n_rows * len(columns) for columns in numbers]
        place, step, word = np.full((3, len(self.header)), -1)
        starts = np.cumsum([0, *sizes])
        for start, columns in zip(starts.tolist(), numbers, strict=False):
            for j, name in enumerate(columns):
                at = self.header.index(name)
                place[at], step[at] = start + j, len(columns)
        for k, name in enumerate(words):
            word[self.header.index(name)] = k
        out, spans = np.empty(starts[-1]), np.empty((len(words), n_rows, 2), dtype=np.int64)
        letters, sign = np.frombuffer(self.text, dtype=np.uint8), ord(self.delimiter)
        ends = [-1] * (len(edges) - 1)

        def read(k: int) -> None:
            (begin, row), (end, _) = edges[k : k + 2]
            where = place, step, out, word, spans
            ends[k] = parse_table(letters, begin, end, sign, row, *where, may_be_blank)

        in_threads(read, len(ends))
        n_read = ends[-1]
        is_whole = has_quotes or n_read == n_rows
        if n_read < 1 or not is_whole or ends[:-1] != [row for _, row in edges[1:-1]]:
            return None
        matrices = [out[a:b].reshape(n_rows, -1)[:n_read] for a, b in pairwise(starts.tolist())]
        return matrices, spans[:, :n_read]

    def _edges(self, most: int) -> list[tuple[int, int]]:
        """Return where parts of the text begin, and the row there; the last is the end."""
        n_parts = max(1, min(most, (len(self.text) - self.body) // PART_BYTES))
        edges, row = [(self.body, 0)], 0
        for k in range(1, n_parts + 1):
            before = edges[-1][0]
            target = self.body + k * (len(self.text) - self.body) // n_parts
            end = self.text.find(b"\n", max(before, target - 1)) + 1 or len(self.text)
            row += self.text.count(b"\n", before, end)
            edges.append((end, row))
        return edges

    def _read_with_arrow(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]] | None:
        """Read with pyarrow; return None if it is absent or the file needs a closer look."""
        names = [name for columns in numbers for name in columns]
        table = self._arrow_table(set(names), set(ids))
        if table is None:
            return None
        matrices = [np.empty((table.num_rows, len(columns))) for columns in numbers]
        for columns, matrix in zip(numbers, matrices, strict=True):
            for j, name in enumerate(columns):
                _copy_column(table.column(name), matrix[:, j])
        if not all(np.isfinite(matrix).all() for matrix in matrices):
            return None
        words = [table.column(name).to_pylist() for name in ids]
        if any(not word or word != word.strip() for column in words for word in column):
            return None
        return matrices, [integers_or_texts(column) for column in words]

    def _arrow_table(self, numbers: set[str], words: set[str]) -> Any:
        """Return columns as pyarrow reads them; None if it cannot, or would be too lenient."""
        text = self.text
        quoted_text = b'"' in text
        if not numbers | words or numbers & words:
            return None
        if quoted_text and _has_odd_quotes(text, self.delimiter):
            return None
        try:
            arrow, _, reader = pyarrow_with("Reading CSV files with pyarrow")
        except MissingExtraError:
            return None
        types = {
            name: arrow.float64() if name in numbers else arrow.string() for name in self.names
        }
        wanted = [name for name in self.names if name in numbers | words]
        try:
            table = reader.read_csv(
                arrow.BufferReader(arrow_buffer(arrow, text, self.body)),
                read_options=reader.ReadOptions(column_names=self.names),
                parse_options=reader.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=quoted_text
                ),
                convert_options=reader.ConvertOptions(
                    column_types=types, include_columns=wanted, null_values=[]
                ),
            )
        except arrow.ArrowInvalid:  # what is wrong, and where, reading row by row finds
            return None
        has_rows = table.num_rows > 0 and table.column_names == wanted  # no names in an empty file
        return table if has_rows else None

    def _read_here(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read row by row; find the first bad row or cell."""
        n_lines = self.text.count(b"\n", self.body)
        matrices = [np.empty((n_lines, len(columns))) for columns in numbers]
        words: list[list[str]] = [[] for _ in ids]
        n_rows = 0
        for block in self._blocks():
            part = slice(n_rows, n_rows + len(block))
            for columns, matrix in zip(numbers, matrices, strict=True):
                matrix[part] = self._numbers(block, columns)
            for column, cells in zip(ids, words, strict=True):
                cells += self._ids(block, column)
            n_rows = part.stop
        if n_rows == 0:
            raise bad_line(self.path, 2, "a row below the header", "")
        return [matrix[:n_rows] for matrix in matrices], [integers_or_texts(w) for w in words]

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as they are written."""
        is_small = len(self.text) <= SMALL_TEXT
        table = None if is_small else self._arrow_table(set(), set(columns))
        if table is not None:
            found = [table.column(name).to_pylist() for name in columns]
            if all(word == word.strip() for column in found for word in column):
                return found
        places = [self.header.index(name) for name in columns]
        found = [[] for _ in columns]
        for block in self._blocks():
            for place, words in zip(places, found, strict=True):
                words.extend(decode(row.cells[place]) for row in block)
        return found

    def coded(self, columns: Sequence[str]) -> list[Column]:
        """Return the different cells of columns as text, each once."""
        found = self._parsed([], columns, may_be_blank=True)
        if found is None:
            return super().coded(columns)
        return [self._numbered(spans) for spans in found[1]]

    def _numbered(self, spans: NDArray[np.int64]) -> Column:
        code = np.empty(len(spans), dtype=np.int64)
        letters = np.frombuffer(self.text, dtype=np.uint8)
        first = number_texts(letters, spans[:, 0], spans[:, 1], code)
        return Column(np.array(texts_at(self.text, spans[first]), dtype=object), code)

    def _blocks(self) -> Iterator[list[_Row]]:
        """Read some rows at a time."""
        rows = self._rows()
        n_rows = max(self.block_cells // len(self.header), 1)
        while block := list(islice(rows, n_rows)):
            yield block

    def _rows(self) -> Iterator[_Row]:
        """Cut the text into rows of as many cells as the header has; skip blank lines."""
        text, n_columns, sign = self.text, len(self.header), self.delimiter.encode("latin-1")
        pattern = _cell_pattern(sign)
        pos, line = self.body, text.count(b"\n", 0, self.body) + 1
        while pos < len(text):
            end = text.index(b"\n", pos)
            row = text[pos:end].rstrip(b" \r")
            if row:
                cells = row.split(sign)
                if b'"' in row:
                    cells, end = self._quoted_row(pattern, pos, line)
                elif b" " in row or b"\r" in row:
                    cells = [_trimmed(cell) for cell in cells]
                if len(cells) != n_columns:
                    found = "fewer" if len(cells) < n_columns else "more"
                    expected = f"{n_columns} cells as in the header"
                    raise bad_line(self.path, line, expected, f"{found} cells")
                yield _Row(line, cells)
            line += text.count(b"\n", pos, end + 1)
            pos = end + 1

    def _quoted_row(
        self, pattern: re.Pattern[bytes], pos: int, line: int
    ) -> tuple[list[bytes], int]:
        """Return the cells of a row with quotes, without them, and the place of its newline."""
        cells: list[bytes] = []
        while len(cells) <= len(self.header):
            found = pattern.match(self.text, pos)
            if found is None:
                rest = self.text[self.text.index(b'"', pos) + 1 :].strip()
                raise bad_line(self.path, line, "a closing quote", decode(rest))
            inside, after = found["inside"], (found["after"] or b"").rstrip(b" \r")
            if inside is None:
                cells.append(_trimmed(found["plain"]))
            elif after:  # text behind the closing quote: left to be refused
                cells.append(inside + b'"' + after)
            else:
                cells.append(inside.replace(b'""', b'"'))
            pos = found.end()
            if found["end"] == b"\n":
                break
        return cells, pos - 1

    def _numbers(self, block: list[_Row], columns: Sequence[str]) -> FloatArray:
        """Return the cells of columns as finite numbers."""
        places = [self.header.index(name) for name in columns]
        cells = [row.cells[place] for row in block for place in places]
        if not b"".join(cells).translate(None, _IN_NUMBERS):
            try:
                values = np.fromiter(map(float, cells), float, len(cells))
            except ValueError:
                values = np.array([np.nan])
            if np.isfinite(values).all():
                return values.reshape(len(block), len(columns))
        return np.array([[self._number(row, name) for name in columns] for row in block])

    def _number(self, row: _Row, column: str) -> float:
        cell = row.cells[self.header.index(column)].strip(b" \t")
        value = float(cell) if _NUMBER.fullmatch(cell) else np.inf
        if not np.isfinite(value):
            self._refuse(row, column, "a finite number")
        return value

    def _ids(self, block: list[_Row], column: str) -> list[str]:
        place = self.header.index(column)
        words = [decode(row.cells[place]) for row in block]
        if not all(words):
            self._refuse(block[words.index("")], column, "an id")
        return words

    def _refuse(self, row: _Row, column: str, expected: str) -> NoReturn:
        cell = decode(row.cells[self.header.index(column)])
        place = f"line {row.line}"
        raise CellError(self.path, place, column, expected, quoted(cell), hint_for(cell, column))


def _cell_pattern(delimiter: bytes) -> re.Pattern[bytes]:
    """Return the pattern of a cell and what ends it; none matches an open quote."""
    edge = b"[^" + re.escape(delimiter) + rb"\n]*+"
    return re.compile(
        rb' *+(?:"(?P<inside>(?:[^"]++|"")*+)"(?P<after>%b)|(?!")(?P<plain>%b))(?P<end>%b|\n)'
        % (edge, edge, re.escape(delimiter))
    )


def _trimmed(cell: bytes) -> bytes:
    """Return a cell without the blanks around it."""
    return cell.lstrip(b" ").rstrip(b" \r")


def _has_odd_quotes(text: bytes, delimiter: str) -> bool:
    """Return whether there are quotes elsewhere than around whole cells: pyarrow accepts them.

    Every other quote opens. It must follow an edge of a cell, or a quote that has just closed: the
    two are then a doubled quote.
    """
    letters = np.frombuffer(text, dtype=np.uint8)
    quote = np.flatnonzero(letters == ord('"'))
    if len(quote) % 2:
        return True
    edges = np.frombuffer(f"{delimiter}\r\n".encode(), dtype=np.uint8)
    opening, closing = quote[::2], quote[1::2]
    is_doubled = np.append(opening[1:] == closing[:-1] + 1, False)
    is_open = (
        np.isin(letters[opening - 1], edges) | (opening == 0) | np.append(False, is_doubled[:-1])
    )
    return not bool((is_open & (np.isin(letters[closing + 1], edges) | is_doubled)).all())


def _in_utf8(path: str | os.PathLike[str], text: bytes) -> bytes:
    """Return the text without a byte-order mark; UTF-16, which Excel writes, is recoded."""
    if not text.startswith(_UTF16_MARKS):
        return text.removeprefix(BYTE_ORDER_MARK)
    try:
        return text.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{os.fspath(path)}: expected UTF-16 text, as its first bytes say, got other bytes "
            f"({error.reason}). Save it as UTF-8."
        ) from error


def _copy_column(column: Any, out: FloatArray) -> None:
    """Copy a column of numbers; pyarrow's own ``to_numpy`` would load pandas."""
    stop = 0
    for chunk in column.chunks:
        start, stop = stop, stop + len(chunk)
        out[start:stop] = np.from_dlpack(chunk)


def _delimiter(line: bytes, usual: str) -> str:
    """Return the delimiter that cuts the header into the most cells; on a tie, the default."""
    text = decode(line.strip())

    def n_cells(sign: str) -> int:
        try:
            return len(next(csv.reader([text], delimiter=sign, skipinitialspace=True), []))
        except csv.Error:  # which is said when the header is read
            return 0

    return max([usual, *KNOWN_DELIMITERS], key=n_cells)


def _header(path: str | os.PathLike[str], line: bytes, delimiter: str) -> list[str]:
    try:
        cells = next(
            csv.reader([decode(line)], delimiter=delimiter, skipinitialspace=True, strict=True)
        )
    except csv.Error as error:
        raise bad_line(path, 1, f"a header ({error})", decode(line.strip())) from error
    names = [cell.strip() for cell in cells]
    if len(names) > 1 and not names[0]:  # pandas writes its index without a name, and calls it so
        names[0] = "Unnamed: 0"
    if not all(names) or not names:
        raise bad_line(path, 1, "a header with a name for each column", decode(line.strip()))
    for name in names:
        if names.count(name) > 1:
            raise bad_line(path, 1, "a header with different names", f"{name} twice")
    return names
