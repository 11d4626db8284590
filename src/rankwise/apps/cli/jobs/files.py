"""Data files as the commands need them."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankwise
from rankwise.apps.cli.options import DataLayout
from rankwise.core.arrays import FloatArray
from rankwise.core.display import listed
from rankwise.core.errors import DataFileError, InvalidInputError, ModelFileError
from rankwise.io.comparison_columns import ComparisonColumns
from rankwise.io.comparisons import read_comparisons, read_pairs
from rankwise.io.data import USUAL_NAMES, ColumnNames, ItemColumns, RankingData
from rankwise.io.feature_columns import FeatureRules, columns_kept, described, kept_columns
from rankwise.io.files import format_suffix, refuse_unwritable
from rankwise.io.reading import files_of, read
from rankwise.io.tables.reading import TABLE_SUFFIXES, open_table, require_column
from rankwise.rankers.base import Ranker
from rankwise.rankers.storage import load

AS_NUMBERS = (
    "Categories are indicators, blanks are means with an indicator, and numbers have one scale."
)
"""What becomes of text and blanks in one ranking of few items."""

_DOCUMENT_ID = re.compile(r"docid\s*=\s*(\S+)")


def named(paths: Sequence[Path]) -> str:
    """Return the names of files as messages show them."""
    return listed([str(path) for path in paths])


def read_data(
    paths: Sequence[Path],
    layout: DataLayout,
    *,
    n_features: int | None = None,
    names: tuple[str, ...] | None = None,
    find_items: bool = False,
    categories: str | Sequence[str] | None = None,
    forms: Mapping[str, str] | None = None,
) -> RankingData:
    """Read data files, with the features of a model if one is given.

    Parameters
    ----------
    paths
        The files, which may be patterns.
    layout
        The columns of a table, the numbering of svmlight features.
    n_features
        Required number of features; an svmlight file may lack the last ones.
    names
        The columns of a table that are the features, unless the layout says otherwise.
    find_items
        Whether to read the names of items, if there are any.
    categories
        The columns of a table that hold text, for rankers that take it; see `read_table`.
    forms
        How numbers are written in some columns; see `read_table`.
    """
    options = reading_options(paths, layout)
    if not is_table(paths):
        comments = "keep" if find_items else "skip"
        data = read(paths, **options, n_features=n_features, comments=comments)
        if find_items:
            data = replace(data, items=_document_ids(data.comments))
    else:
        if layout.features is None:
            options["features"] = names
        options |= {"item": layout.item, "find_item": find_items}
        options |= {"categories": categories, "forms": forms}
        data = read(paths, **options, positive=layout.positive)
    if n_features is not None and data.n_features != n_features:
        raise InvalidInputError(
            f"{named(paths)} must have the {n_features} features of the model: it has "
            f"{data.n_features}. Choose the columns with --features."
        )
    return data


def _document_ids(comments: list[str] | None) -> NDArray[Any] | None:
    """Return the ids in comments such as ``docid = GX000-00-0000000``, if all rows have one."""
    found = [_DOCUMENT_ID.search(comment) for comment in comments or []]
    return np.array([match[1] for match in found if match]) if found and all(found) else None


def print_columns(paths: Sequence[Path], layout: DataLayout, data: RankingData) -> None:
    """Say how columns are used, unless they were named."""
    if data.columns is None:
        return
    roles = ("scores", layout.y), ("queries", layout.qid), ("items", layout.item)
    asked = [role for role, name in (*roles, ("features", layout.features)) if name is not None]
    if said := described(data.columns, asked):
        print(f"Read {named(paths)}: {'; '.join(said)}.")


def read_data_of(
    ranker: Any, paths: Sequence[Path], layout: DataLayout, *, find_items: bool = False
) -> RankingData:
    """Read data files with the features, names and numbering that a ranker was fitted with."""
    known = vars(ranker)
    names = known.get("feature_names_in_")
    if layout.zero_based is None and "zero_based_" in known:
        layout = replace(layout, zero_based=known["zero_based_"])
    columns = known.get("table_columns_", {})
    if is_table(paths):
        layout = _with_known_columns(paths, layout, columns)
    kept, tags = columns_kept(columns, ()), ranker.__sklearn_tags__().input_tags
    takes_raw = tags.string or tags.allow_nan or kept.blanks_as_zero
    data = read_data(
        paths,
        layout,
        n_features=ranker.n_features_in_,
        names=None if names is None else tuple(map(str, names)),
        find_items=find_items,
        categories=columns.get("categories", ()) if takes_raw else None,
        forms=dict(kept.forms),
    )
    if kept.blanks_as_zero and isinstance(data.X, np.ndarray):
        return replace(data, X=np.nan_to_num(data.X, nan=0.0))
    return data


def remember_columns(ranker: Any, data: RankingData) -> None:
    """Store the columns of its file in a fitted ranker, to find them in other files."""
    if data.feature_names is not None:
        ranker.feature_names_in_ = np.array(data.feature_names, dtype=object)
    if data.zero_based is not None:
        ranker.zero_based_ = data.zero_based
    if data.columns is not None:
        ranker.table_columns_ = kept_columns(data.columns)


def _with_known_columns(
    paths: Sequence[Path], layout: DataLayout, columns: dict[str, list[str]]
) -> DataLayout:
    """Return a layout with the columns that were learned from, if the file has them."""
    present = set(open_table(files_of(paths)[0]).names) if columns else set()
    found: dict[str, str] = {
        role: columns[role][0]
        for role in ("y", "qid", "item")
        if role in columns and columns[role][0] in present and getattr(layout, role) is None
    }
    if "positive" in columns and layout.positive is None:
        found["positive"] = columns["positive"][0]
    return replace(layout, **found)  # type: ignore[arg-type]


def load_ranker(path: Path, *others: type) -> Any:
    """Load a model that scores items by their features; refuse other models."""
    ranker = load(path)
    if not isinstance(ranker, (Ranker, *others)):
        raise refused(path, ranker)
    return ranker


def refused(path: Path, model: Any) -> ModelFileError:
    """Return the error of a model that a command cannot use."""
    recommends = isinstance(
        model,
        rankwise.RankingFactorization | rankwise.ConditionalRankRLS | rankwise.ConditionalRankRLSCV,
    )
    advice = "Use rankwise recommend" if recommends else "Use its methods in Python"
    return ModelFileError(
        f"{path} must hold a ranker of items with features: it holds a {type(model).__name__}. "
        f"{advice}."
    )


def reading_options(paths: Sequence[Path], layout: DataLayout) -> dict[str, Any]:
    """Return the options of the layout for a reader of the files, whole or in parts."""
    if is_table(paths):
        return layout.columns
    _refuse_columns(paths, layout)
    return {"zero_based": "auto" if layout.zero_based is None else layout.zero_based}


@contextmanager
def columns_chosen() -> Iterator[None]:
    """Silence the warning about missing names: the columns were matched when they were read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def read_preferences(
    path: Path,
    items: NDArray[Any] | None = None,
    *,
    keep_ties: bool = False,
    codes: str | None = None,
) -> dict[str, Any]:
    """Read comparisons as ``fit`` takes them, by row numbers or by the names of the items.

    Columns of margins, weights and counts are read if present. Ties are left out, or become pairs
    with a margin of 0. ``codes`` say what a column of who won means.
    """
    # codes are about a column of who won, beside two columns of named items
    if codes is not None and items is None:
        raise InvalidInputError(
            f"--codes must come with names of items: {path} can name rows of the training data by "
            "their numbers only, in columns winner and loser. Name the items in the training data, "
            "in a column such as item or name."
        )
    # plain columns of winners and losers may hold row numbers
    found = open_table(path).names
    columns = {name: name for name in ("margin", "weight") if name in found}
    is_plain = {"winner", "loser"} <= set(found) and "count" not in found and codes is None
    data = read_pairs(path, **columns) if is_plain or items is None else None
    if data is not None and data.items is None:
        return {"pairs": data.pairs, "pair_margin": data.margin, "pair_weight": data.weight}
    if items is None:
        assert data is not None
        assert data.items is not None
        raise DataFileError(
            f"{path}: expected winners and losers to be row numbers of the training data, from 0, "
            f"got names such as {str(data.items[0])!r}. Names need a table of items with a column "
            "of names, such as item or name."
        )
    # comparisons by name, ties left out or kept as pairs of margin 0
    table = read_comparisons(path, ComparisonColumns(codes=codes), names=items)
    edges, margin, weight = table.edges(keep_ties=keep_ties)
    return {"pairs": edges, "pair_margin": margin, "pair_weight": weight}


def read_named(
    path: Path, column: str | None, option: str, features: Sequence[str] | None = None
) -> tuple[list[str], FloatArray]:
    """Read the names and the features of the rows of a table, each name once.

    Parameters
    ----------
    path
        The table.
    column
        The column of the names; by default the first one.
    option
        The option that names it.
    features
        The columns of the features; by default all others.
    """
    table = open_table(path)
    column = table.names[0] if column is None else require_column(path, table, column, option)
    if features is None:
        columns = [name for name in table.names if name != column]
    else:
        columns = [require_column(path, table, name, "features") for name in features]
    (X,), (ids,) = table.read([columns], [column])
    return _names_once(path, column, ids), X


def read_raw_named(
    path: Path,
    column: str | None,
    option: str,
    like: ItemColumns | None = None,
    features: Sequence[str] | None = None,
) -> tuple[list[str], NDArray[Any], ItemColumns]:
    """Read the names of a table's rows and features that may be text or blank, and how they are.

    Parameters
    ----------
    path, column, option, features
        As in `read_named`.
    like
        The columns of another table that is read in the same way.
    """
    table = open_table(path)
    column = table.names[0] if column is None else require_column(path, table, column, option)
    names = ColumnNames.of_file(path, table.names)
    asked = list(table.names)
    if features is not None:
        asked = [require_column(path, table, name, "features") for name in features]
    found = names.without_index(ItemColumns(asked, None, None, column))
    rules = FeatureRules(names, has_qid=True, are_named=features is not None)
    if like is not None:
        kept = [require_column(path, table, name, "features") for name in like.features]
        found = ItemColumns(kept, None, None, column)
        rules = FeatureRules(
            names, has_qid=True, text=like.categories, forms=dict(like.forms), finds=False
        )
    cells, found = rules.read(found, table.cells(found.features))
    _, (ids,) = table.read([], [column])
    X = np.empty((len(ids), len(cells)), dtype=object)
    for j, values in enumerate(cells.values()):
        X[:, j] = values
    return _names_once(path, column, ids), X, found


def _names_once(path: Path, column: str, ids: NDArray[Any]) -> list[str]:
    """Return the names of rows, each of which must be there once."""
    names = [str(name) for name in ids.tolist()]
    values, counts = np.unique(names, return_counts=True)
    if counts.max(initial=0) > 1:
        raise DataFileError(
            f"{path}: expected each name in the column {column!r} once, got "
            f"{str(values[np.argmax(counts)])!r} several times."
        )
    return names


def given_scores(paths: Sequence[Path], data: RankingData) -> FloatArray:
    """Return the scores of a data file, which must hold some."""
    if data.y is None:
        raise DataFileError(
            f"{named(paths)}: expected a column of scores named {', '.join(USUAL_NAMES['y'])}, got "
            "none. Name it with --y."
        )
    return data.y


def read_validation(
    path: Path | None, layout: DataLayout, n_features: int, names: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return validation data as ``fit`` takes them; nothing without a file."""
    if path is None:
        return {}
    data = read_data([path], layout, n_features=n_features, names=names)
    return {"X_val": data.X, "y_val": given_scores([path], data), "qid_val": data.qid}


def is_table(paths: Sequence[Path]) -> bool:
    """Return whether files are tables, by the name of the first."""
    return format_suffix(paths[0]) in TABLE_SUFFIXES


def usual_item(paths: Sequence[Path]) -> str | None:
    """Return the column of a table with a common name for items."""
    first = files_of(paths)[0]
    return ColumnNames.of_file(first, open_table(first).names).usual_item([])


def read_words(paths: Sequence[Path], column: str, option: str) -> NDArray[Any]:
    """Return the cells of a column of tables as text, such as the groups of items."""
    if not is_table(paths):
        raise InvalidInputError(
            f"--{option} must name a column of a table: {named(paths)} is not a table. Give one."
        )
    tables = [(path, open_table(path)) for path in files_of(paths)]
    words = [table.words(require_column(path, table, column, option)) for path, table in tables]
    return np.array([word for part in words for word in part])


def check_target(path: Path | None, *inputs: Path | None) -> None:
    """Refuse a file that cannot be written, or that is an input, before the work is done."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidInputError(f"{path} must be a file to write: it is a folder. Name a file.")
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"The folder of {path} must exist: there is no {path.parent}. Create it first."
        )
    for given in inputs:
        if given is not None and path.exists() and given.exists() and path.samefile(given):
            raise InvalidInputError(
                f"{path} must not overwrite {given}, which is an input. Name another file."
            )
    refuse_unwritable(path)


def _refuse_columns(paths: Sequence[Path], layout: DataLayout) -> None:
    if layout.names_columns:
        raise InvalidInputError(
            "--y, --qid, --features, --drop and --item must name columns of a table (.csv, .tsv, "
            f".jsonl, .parquet, .xlsx): {named(paths)} is not a table. Leave them out; svmlight "
            "files need none of them."
        )
