"""Arguments and options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

TABLES = "Tables (CSV, TSV, Parquet)"
FORMATS = "svmlight/LETOR, CSV, TSV or Parquet; may be compressed."

YColumn = Annotated[
    str | None,
    typer.Option(
        "--y",
        metavar="COLUMN",
        help="Column of the scores, if not y, label, score or relevance.",
        rich_help_panel=TABLES,
    ),
]
QidColumn = Annotated[
    str | None,
    typer.Option(
        "--qid",
        metavar="COLUMN",
        help="Column of the queries, if not qid, query_id or query.",
        rich_help_panel=TABLES,
    ),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="COLUMN,...",
        help="Columns of the features, if not all others.",
        rich_help_panel=TABLES,
    ),
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="How svmlight files number features; zero-based if a 0 occurs.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help=f"The items: {FORMATS}", show_default=False)
]


@final
@dataclass(frozen=True)
class Layout:
    """How to read a data file: the columns of a table, the numbering of svmlight features."""

    y: str | None = None
    qid: str | None = None
    features: tuple[str, ...] | None = None
    zero_based: bool | None = None

    @property
    def names_columns(self) -> bool:
        """Whether a column is named, which only a table has."""
        return (self.y, self.qid, self.features) != (None, None, None)


def column_names(text: str | None) -> tuple[str, ...] | None:
    """Return the column names in a list with commas."""
    return None if text is None else tuple(name.strip() for name in text.split(","))
