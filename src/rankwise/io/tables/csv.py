"""Tables in delimited text: CSV and TSV.

If pyarrow is installed, it reads the numbers: a new process need not load, or even compile, the
parser here, which takes longer than reading most files. Without pyarrow Python reads small files,
and the parser all others. It also finds the line and the column of errors. All give the same bits;
``python -m benchmarks.io`` measures pyarrow and the parser in new processes.
"""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.compile import UncompiledWork
from rankwise.core.errors import DataFileError, MissingExtraError
from rankwise.io.data import hint_for
from rankwise.io.files import open_read
from rankwise.io.numbers import (
    BYTE_ORDER_MARK,
    PLAIN_NUMBER,
    bad_line,
    decode,
    ids_at,
    integers_or_texts,
    join_ids,
    quoted,
    texts_at,
)
from rankwise.io.tables._kernels import OK, OPEN_QUOTE, TOO_FEW, find_cells, parse_cells
from rankwise.io.tables.table import CellError, DataTable, arrow_buffer, pyarrow_with

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""What is usual between cells, by the suffix of the file; the header decides."""

KNOWN_DELIMITERS = (",", ";", "\t", "|")

BLOCK_CELLS = 1 << 18
"""Number of cells found at a time: 4 MB of positions."""

WORK = UncompiledWork(1_000_000)
"""Bytes that are read without compiled code: compiling it takes longer."""

_NUMBER = re.compile(PLAIN_NUMBER)
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_EXCEL_LINE = re.compile(rb"sep=(.)\r?\n")  # Excel's own way to name the delimiter


class _Block(NamedTuple):
    """Some rows: the spans of their cells (n_rows, n_columns, 2) and their lines in the file."""

    spans: NDArray[np.int64]
    line: NDArray[np.int64]


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
        """Load a plain or compressed file; cells are found ``block_cells`` at a time.

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
        found = self._read_with_arrow(numbers, ids) or self._read_uncompiled(numbers, ids)
        return self._read_here(numbers, ids) if found is None else found

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
        except arrow.ArrowInvalid:  # what is wrong, and where, the parser here finds
            return None
        has_rows = table.num_rows > 0 and table.column_names == wanted  # no names in an empty file
        return table if has_rows else None

    def _read_uncompiled(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]] | None:
        """Read a small text by Python alone; None if a cell needs a closer look."""
        rows = self._small_rows()
        if not rows:
            return None
        place = {name: position for position, name in enumerate(self.header)}
        matrices = []
        for columns in numbers:
            cells = [[row[place[name]] for name in columns] for row in rows]
            if not all(_NUMBER.fullmatch(cell) for row in cells for cell in row):
                return None
            matrices.append(np.array(cells, dtype=object).astype(float))
        words = [[decode(row[place[name]]) for row in rows] for name in ids]
        if not all(map(all, words)) or not all(np.isfinite(matrix).all() for matrix in matrices):
            return None
        return matrices, [integers_or_texts(column) for column in words]

    def _small_rows(self) -> list[list[bytes]] | None:
        """Return the cells of a small text as `find_cells` finds them; None for any other text."""
        text = self.text[self.body :]
        if b'"' in text or not WORK.is_small(len(text)):
            return None
        lines = [line.rstrip(b" \r") for line in text.split(b"\n")]
        sign = self.delimiter.encode("latin-1")
        rows = [[cell.strip(b" ") for cell in line.split(sign)] for line in lines if line]
        n_columns = len(self.header)
        is_plain = b"\r" not in b"".join(lines) and all(len(row) == n_columns for row in rows)
        return rows if is_plain else None

    def _read_here(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        n_lines = self.text.count(b"\n", self.body)
        matrices = [np.empty((n_lines, len(columns))) for columns in numbers]
        vectors: list[list[NDArray[Any]]] = [[] for _ in ids]
        n_rows = 0
        for block in self._blocks():
            rows = slice(n_rows, n_rows + len(block.line))
            for columns, matrix in zip(numbers, matrices, strict=True):
                self._read_numbers(block, columns, matrix[rows])
            for column, parts in zip(ids, vectors, strict=True):
                parts.append(self._read_ids(block, column))
            n_rows = rows.stop
        if n_rows == 0:
            raise bad_line(self.path, 2, "a row below the header", "")
        return [matrix[:n_rows] for matrix in matrices], [join_ids(parts) for parts in vectors]

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as they are written."""
        table = self._arrow_table(set(), set(columns))
        if table is not None:
            found = [table.column(name).to_pylist() for name in columns]
            if all(word == word.strip() for column in found for word in column):
                return found
        places = [self.header.index(name) for name in columns]
        rows = self._small_rows()
        if rows is not None:
            return [[decode(row[place]) for row in rows] for place in places]
        found = [[] for _ in columns]
        for block in self._blocks():
            for place, words in zip(places, found, strict=True):
                cells = texts_at(self.text, block.spans[:, place])
                words.extend(word.replace('""', '"') for word in cells)
        return found

    def _blocks(self) -> Iterator[_Block]:
        """Find the cells of some rows at a time."""
        characters = np.frombuffer(self.text, dtype=np.uint8)
        n_columns = len(self.header)
        spans = np.empty((max(self.block_cells // n_columns, 1), n_columns, 2), dtype=np.int64)
        line = np.empty(len(spans), dtype=np.int64)
        pos, first_line = self.body, self.text.count(b"\n", 0, self.body) + 1
        while pos < len(self.text):
            n_rows, n_lines, code, pos = find_cells(
                characters, pos, ord(self.delimiter), spans, line
            )
            if code != OK:
                raise self._bad_row(first_line + int(line[n_rows]), code, pos)
            yield _Block(spans[:n_rows], line[:n_rows] + first_line)
            first_line += n_lines

    def _read_numbers(self, block: _Block, columns: Sequence[str], out: FloatArray) -> None:
        characters = np.frombuffer(self.text, dtype=np.uint8)
        places = np.array([self.header.index(name) for name in columns], dtype=np.intp)
        long = np.empty((out.size, 4), dtype=np.int64)
        n_long, row, column = parse_cells(characters, block.spans, places, out, long)
        if row >= 0:
            raise self._bad_cell(block, row, columns[column], "a finite number")
        for row, column, start, stop in long[:n_long].tolist():
            out[row, column] = float(self.text[start:stop])
            if not np.isfinite(out[row, column]):
                raise self._bad_cell(block, row, columns[column], "a finite number")

    def _read_ids(self, block: _Block, column: str) -> NDArray[Any]:
        spans = np.ascontiguousarray(block.spans[:, self.header.index(column)])
        missing = np.flatnonzero(spans[:, 0] == spans[:, 1])
        if len(missing):
            raise self._bad_cell(block, int(missing[0]), column, "an id")
        values = ids_at(self.text, spans)
        return values if values.dtype == np.int64 else np.char.replace(values, '""', '"')

    def _bad_row(self, line: int, code: int, pos: int) -> DataFileError:
        if code == OPEN_QUOTE:
            return bad_line(self.path, line, "a closing quote", decode(self.text[pos:].strip()))
        found = "fewer" if code == TOO_FEW else "more"
        return bad_line(
            self.path, line, f"{len(self.header)} cells as in the header", f"{found} cells"
        )

    def _bad_cell(self, block: _Block, row: int, column: str, expected: str) -> CellError:
        start, stop = block.spans[row, self.header.index(column)].tolist()
        cell = decode(self.text[start:stop])
        place = f"line {block.line[row]}"
        return CellError(self.path, place, column, expected, quoted(cell), hint_for(cell, column))


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
    if not all(names) or not names:
        raise bad_line(path, 1, "a header with a name for each column", decode(line.strip()))
    for name in names:
        if names.count(name) > 1:
            raise bad_line(path, 1, "a header with different names", f"{name} twice")
    return names
