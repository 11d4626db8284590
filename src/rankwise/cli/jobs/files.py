"""Data files as the commands need them."""

from pathlib import Path
from typing import Any

from rankwise.cli.options import Layout
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.compression import format_suffix
from rankwise.io.data import RankingData
from rankwise.io.dispatch import read
from rankwise.io.tables import DELIMITERS, PARQUET_SUFFIXES


def read_items(
    path: Path,
    layout: Layout,
    *,
    n_features: int | None = None,
    names: tuple[str, ...] | None = None,
) -> RankingData:
    """Read a data file with the features of a model, where one is given.

    Parameters
    ----------
    path
        The file.
    layout
        The columns of a table, the numbering of svmlight features.
    n_features
        Number of features that there must be; a svmlight file may lack the last ones.
    names
        The columns of a table that are the features, unless the layout says otherwise.
    """
    options: dict[str, Any]
    if is_table(path):
        features = names if layout.features is None else layout.features
        options = {"y": layout.y, "qid": layout.qid, "features": features}
    else:
        _refuse_columns(path, layout)
        zero_based = "auto" if layout.zero_based is None else layout.zero_based
        options = {"n_features": n_features, "zero_based": zero_based, "comments": "skip"}
    data = read(path, **options)
    if n_features is not None and data.n_features != n_features:
        raise InvalidInputError(
            f"{path} must have the {n_features} features of the model: it has {data.n_features}. "
            "Choose the columns with --features."
        )
    return data


def given_scores(path: Path, data: RankingData) -> FloatArray:
    """Return the scores of a data file, which must hold some."""
    if data.y is None:
        raise DataFileError(
            f"{path}: expected a column of scores named y, label, score or relevance, got none. "
            "Name it with --y."
        )
    return data.y


def is_table(path: Path) -> bool:
    """Tell whether the name of a file is that of a table."""
    return format_suffix(path) in {*DELIMITERS, *PARQUET_SUFFIXES}


def check_target(path: Path | None) -> None:
    """Refuse, before the work is done, a file that could not be written after it."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidInputError(f"{path} must be a file to write: it is a folder. Name a file.")
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"The folder of {path} must exist: there is no {path.parent}. Create it first."
        )


def _refuse_columns(path: Path, layout: Layout) -> None:
    if layout.names_columns:
        raise InvalidInputError(
            f"--y, --qid and --features name columns of a table (.csv, .tsv, .parquet): {path} is "
            "not one. Leave them out; a svmlight file says itself what is what."
        )
