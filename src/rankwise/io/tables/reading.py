"""Read and write items in tables with named columns, in any format."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.display import listed
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.data import ColumnNames, ItemColumns, RankingData
from rankwise.io.feature_columns import FeatureRules
from rankwise.io.files import format_suffix, open_write
from rankwise.io.tables.arrow import (
    EXCEL_SUFFIXES,
    PARQUET_SUFFIXES,
    ExcelTable,
    ParquetTable,
    write_parquet,
)
from rankwise.io.tables.csv import DELIMITERS, CsvTable
from rankwise.io.tables.json import JSON_SUFFIXES, LINES_SUFFIXES, JsonTable
from rankwise.io.tables.table import CellError, DataTable

TABLE_SUFFIXES = {*DELIMITERS, *PARQUET_SUFFIXES, *EXCEL_SUFFIXES, *JSON_SUFFIXES}
"""The suffixes of tables, without that of a compression."""


def read_table(
    path: str | os.PathLike[str],
    *,
    y: str | None = None,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    item: str | None = None,
    find_item: bool = False,
    categories: str | Sequence[str] | None = None,
    positive: str | None = None,
    forms: Mapping[str, str] | None = None,
) -> RankingData:
    r"""Read items from a CSV, TSV, JSON, JSON lines, Parquet or Excel file with named columns.

    CSV, TSV and JSON files may be compressed (.gz, .xz, .bz2). The header decides whether cells are
    separated by commas, semicolons, tabs or bars. Parquet and Excel need the extra ``tables``; of
    an Excel file the first sheet is read. Reading takes one pass over the file.

    A column that looks like an id is never silently used as a feature: if its name says so, if it
    holds a different whole number in each of at least 20 rows or, if no column holds the queries,
    if equal whole numbers are adjacent, as those of queries are.

    Parameters
    ----------
    path
        The file; its suffix gives the format.
    y
        The column of the scores; by default the one named y, label, score, relevance, grade or
        rating, in upper or lower case. Without such a column ``y`` is None, as in data to be
        predicted.
    qid
        The column of the queries, numbers or strings; by default the one named qid, query_id,
        query, search_id or session_id, if there is one.
    features
        The columns of X, in this order: names, patterns such as ``"bm25_*"``, or ranges such as
        ``"f1:f20"`` or ``"f1-f20"``; by default all others. They must hold numbers.
    drop
        Columns to leave out, written in the same way.
    item
        The column of the names of items; they are kept as ``items``.
    find_item
        Whether to look for such a column, named item, item_id, id, doc_id, docid, document_id,
        product_id or name, even if ``features`` are given.
    categories
        For rankers that take raw tables, such as `AutoRanker`: the features that hold text. Other
        features may then have blanks, which become NaN. ``"auto"`` finds the columns of text, and
        leaves out columns of ids, or of text that differs from row to row, unless ``features``
        names them; dates, True and False, percentages and numbers such as ``$1,234.50`` or
        ``1.234,5`` become numbers. ``columns`` of the result says which. Names beside ``"auto"``
        are columns of numbers to be taken as text, such as the ids of brands.
    positive
        The label that should rank above all others, where the column of scores holds labels: rows
        with it have the score 1, others 0. True and False need no such choice.
    forms
        How numbers are written in some features: ``columns.forms`` of another file.

    Raises
    ------
    DataFileError
        For the first bad or missing cell, with its place, what was expected and what was found.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "hotels.csv")
    ...     _ = path.write_text("query,stars,price,score\nrome,4,120,2\nrome,3,80,1\n")
    ...     data = read_table(path)
    >>> data.feature_names, data.X[0], data.y, data.qid
    (['stars', 'price'], array([  4., 120.]), array([2., 1.]), array(['rome', 'rome'], dtype='<U4'))
    """
    table = open_table(path)
    names = ColumnNames.of_file(path, table.names)
    columns = names.items(y, qid, features, drop, item)
    if find_item and columns.item is None and features is not None:
        taken = [*columns.features, columns.y, columns.qid]
        columns = columns._replace(item=names.usual_item(taken))
    has_qid = columns.qid is not None
    labels = _labels(names, table, columns.y, positive)
    scored = [if_any(columns.y if labels is None else None)]
    others = scored, [*if_any(columns.qid), *if_any(columns.item)]
    rules = _rules(names, categories, forms, are_named=features is not None, has_qid=has_qid)
    try:
        (X, columns), targets, ids = _rows(
            table, columns, rules, *others, takes_raw=categories is not None
        )
    except CellError as error:
        if error.column == columns.y:
            if {word.casefold() for word in table.words(columns.y)} <= {"true", "false"}:
                return read_table(
                    path, y=y, qid=qid, features=features, drop=drop, item=item,
                    find_item=find_item, categories=categories, positive="true", forms=forms,
                )  # fmt: skip
            raise DataFileError(
                f"{error} Scores are numbers, higher is better: for two groups write 1 for one "
                "and 0 for the other, or say with positive=... which label ranks above."
            ) from error
        is_feature = error.column in columns.features
        raise _with_hint(error, are_named=features is not None or not is_feature) from error
    if features is None:
        for name, values in zip(columns.features, X.T, strict=True):
            cells = None if name in columns.categories else values.astype(float)
            if name not in rules.text:
                names.refuse_id(name, cells, has_qid=has_qid)
    y_given = labels if labels is not None else targets[:, 0] if columns.y is not None else None
    return RankingData(
        X,
        y=y_given,
        qid=ids[0] if columns.qid is not None else None,
        feature_names=columns.features,
        items=ids[-1] if columns.item is not None else None,
        columns=columns._replace(positive=positive),
    )


def _rows(
    table: DataTable,
    columns: ItemColumns,
    rules: FeatureRules,
    scored: list[list[str]],
    named: list[str],
    *,
    takes_raw: bool,
) -> tuple[tuple[NDArray[Any], ItemColumns], FloatArray, list[NDArray[Any]]]:
    """Return the features with what was found of their columns, the scores, and the ids."""
    if not (rules.text or rules.forms):
        try:
            (X, targets), ids = table.read([columns.features, *scored], named)
        except CellError as error:
            if not takes_raw or error.column not in columns.features:
                raise
        else:
            return (X, columns), targets, ids
    rows, ((targets,), ids) = _raw_rows(table, columns, rules), table.read(scored, named)
    return rows, targets, ids


def _with_hint(error: CellError, *, are_named: bool) -> DataFileError:
    """Add what to do about a cell of a column that was not named."""
    if are_named:
        return error
    return DataFileError(
        f"{error} All columns but y and qid are features; choose others with features=..., or "
        f"leave it out with drop={error.column!r}."
    )


def _labels(
    names: ColumnNames, table: DataTable, y: str | None, positive: str | None
) -> FloatArray | None:
    """Return 1 for the label that should rank above, else 0; None if the column holds scores."""
    if y is None or positive is None:
        return None
    words, above = table.words(y), positive.strip().casefold()
    same = {word for word in set(words) if _is_same(word.strip().casefold(), above)}
    if not same and len(set(words)) > 1:
        known = ColumnNames(sorted(set(words)), names.owner, names.error)
        raise names.error(
            f"{names.owner} must have the label `positive` in the column {y!r}: got {positive!r}, "
            f"where labels are {listed(known.names)}.{known.did_you_mean(positive)}"
        )
    return np.array([float(word in same) for word in words])


def _is_same(word: str, other: str) -> bool:
    """Return whether two labels are the same, as texts or as numbers."""
    try:
        return word == other or float(word) == float(other)
    except ValueError:
        return False


def _raw_rows(
    table: DataTable, columns: ItemColumns, rules: FeatureRules
) -> tuple[NDArray[Any], ItemColumns]:
    """Return features that may hold text and blanks, and the columns with what was found."""
    ids = None if columns.qid is None or not rules.finds else table.words(columns.qid)
    kept, columns = rules.read(columns, table.cells(columns.features), ids)
    n_items = len(next(iter(kept.values()), ()))
    X = np.empty((n_items, len(kept)), dtype=object if columns.categories else float)
    for j, cells in enumerate(kept.values()):
        X[:, j] = cells
    return X, columns


def _rules(
    names: ColumnNames,
    categories: str | Sequence[str] | None,
    forms: Mapping[str, str] | None,
    *,
    are_named: bool,
    has_qid: bool,
) -> FeatureRules:
    """Return the rules of `read_table` for features."""
    asked = [categories] if isinstance(categories, str) else list(categories or ())
    known = tuple(names.chosen([name for name in asked if name != "auto"], "categories"))
    return FeatureRules(names, has_qid, known, forms or {}, "auto" in asked, are_named)


def write_table(path: str | os.PathLike[str], columns: Mapping[str, ArrayLike]) -> None:
    """Write named columns to a CSV, TSV, JSON, JSON lines or Parquet file, atomically.

    All but Parquet may be compressed (.gz, .xz, .bz2). Numbers are written with enough digits to
    read the same ones back.

    Parameters
    ----------
    path
        The file; its suffix gives the format.
    columns
        Vectors of one length, by name.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "predicted.csv")
    ...     write_table(path, {"hotel": ["Roma", "Bella, vista"], "score": [0.25, 1.0]})
    ...     print(path.read_text())
    hotel,score
    Roma,0.25
    "Bella, vista",1.0
    """
    suffix = _table_suffix(path)
    if suffix in EXCEL_SUFFIXES:
        raise DataFileError(
            f"{os.fspath(path)}: Excel files are read only. Write .csv, which Excel opens."
        )
    vectors = {name: np.asarray(values) for name, values in columns.items()}
    shapes = {name: vector.shape for name, vector in vectors.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) > 1:
        raise InvalidInputError(f"`columns` must be vectors of one length: got shapes {shapes}.")
    if suffix in PARQUET_SUFFIXES:
        write_parquet(path, vectors)
        return
    with open_write(path) as stream, io.TextIOWrapper(stream, "utf-8", newline="") as text:
        if suffix in JSON_SUFFIXES:
            _write_json(text, vectors, has_lines=suffix in LINES_SUFFIXES)
            return
        writer = csv.writer(text, delimiter=DELIMITERS[suffix], lineterminator="\n")
        writer.writerow(vectors)
        writer.writerows(zip(*(vector.tolist() for vector in vectors.values()), strict=True))


def _write_json(
    text: io.TextIOWrapper, columns: Mapping[str, NDArray[Any]], *, has_lines: bool
) -> None:
    """Write an object for each row: a line each, or all in an array."""
    rows = zip(*(vector.tolist() for vector in columns.values()), strict=True)
    objects = [json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows]
    text.write("\n".join(objects) + "\n" if has_lines else "[" + ",\n".join(objects) + "]\n")


def open_table(path: str | os.PathLike[str]) -> DataTable:
    """Open a file of named columns; its suffix gives the format."""
    suffix = _table_suffix(path)
    if suffix in PARQUET_SUFFIXES:
        return ParquetTable.open(path)
    if suffix in EXCEL_SUFFIXES:
        return ExcelTable.open(path)
    if suffix in JSON_SUFFIXES:
        return JsonTable.open(path)
    return CsvTable.open(path, DELIMITERS[suffix])


def _table_suffix(path: str | os.PathLike[str]) -> str:
    suffix = format_suffix(path)
    if suffix not in TABLE_SUFFIXES:
        known = ", ".join(sorted(TABLE_SUFFIXES))
        raise DataFileError(
            f"{os.fspath(path)}: expected a name that ends in one of {known}, got {suffix!r}."
        )
    return suffix


def item_columns(
    path: str | os.PathLike[str],
    table: DataTable,
    y: str | None = None,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
) -> ItemColumns:
    """Choose the given columns, or those with common names and all others as features."""
    return ColumnNames.of_file(path, table.names).items(y, qid, features, drop)


def require_column(path: str | os.PathLike[str], table: DataTable, name: str, option: str) -> str:
    """Return the name of a column after checking that the table has it."""
    return ColumnNames.of_file(path, table.names).required(name, option)


def if_any(name: str | None) -> list[str]:
    """Return a list of the name, empty for None."""
    return [] if name is None else [name]
