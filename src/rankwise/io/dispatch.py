"""Read a data file in whatever format its name gives."""

import os
import re
from typing import Any

from rankwise.core.errors import DataFileError
from rankwise.io.data import RankingData
from rankwise.io.files import format_suffix, is_stream, open_read
from rankwise.io.svmlight.reader import read_svmlight
from rankwise.io.tables.reading import TABLE_SUFFIXES, read_table

_SVMLIGHT_SUFFIXES = {".txt", ".dat", ".svm", ".svmlight", ".libsvm", ".letor"}
_SVMLIGHT_LINE = re.compile(rb"\s*[-+]?[.\d]\S*\s+(qid|\d+):\S")
_SNIFFED = 1 << 16  # bytes looked at


def read(path: str | os.PathLike[str], **options: Any) -> RankingData:
    r"""Read a data file in the format that its name gives.

    ``.txt``, ``.dat``, ``.svm``, ``.svmlight``, ``.libsvm`` and ``.letor`` are read by
    `read_svmlight`; ``.csv``, ``.tsv``, ``.parquet``, ``.pq`` and ``.xlsx`` by `read_table`; all
    but Parquet and Excel may be compressed (``.gz``, ``.xz``, ``.bz2``). A file with another name
    is read as svmlight if its first line looks like it, and so is a pipe, of which nothing must be
    read twice.

    Parameters
    ----------
    path
        The file.
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
    RankingData(2 items, 3 features, dense, with y, qid)
    """
    suffix = format_suffix(path)
    if suffix in TABLE_SUFFIXES:
        return read_table(path, **options)
    if suffix in _SVMLIGHT_SUFFIXES or is_stream(path) or _looks_like_svmlight(path):
        return read_svmlight(path, **options)
    known = ", ".join(sorted(_SVMLIGHT_SUFFIXES | TABLE_SUFFIXES))
    raise DataFileError(
        f"{os.fspath(path)}: expected a name that ends in one of {known}, or svmlight lines such "
        f"as '2 qid:1 1:0.5', got {suffix or 'no suffix'} and other lines. Rename the file, or "
        "call read_svmlight or read_table."
    )


def _looks_like_svmlight(path: str | os.PathLike[str]) -> bool:
    with open_read(path) as stream:
        lines = stream.read(_SNIFFED).splitlines()
    items = [line for line in lines if line.strip() and not line.lstrip().startswith(b"#")]
    return bool(items) and _SVMLIGHT_LINE.match(items[0]) is not None
