"""Arguments and options that several commands share, and the columns that they name."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias, final

import typer

TABLES = "Tables (CSV, TSV, JSON lines, Parquet, Excel)"
CHOICE = "Choice"
PREFERENCES = "Preferences"
FORMATS = "svmlight/LETOR, CSV, TSV, JSON lines, Parquet or Excel; may be compressed."


def option(
    text: str, metavar: str | None = None, *names: str, panel: str | None = None, **more: Any
) -> Any:
    """Describe an option: what it does, what stands for its value, its names, its panel."""
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, **more)


def argument(text: str, metavar: str) -> Any:
    """Describe an argument: what it is, and what stands for it."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def column(text: str, *names: str) -> Any:
    """Describe an option that names a column of a table."""
    return option(text, "COLUMN", *names, panel=TABLES)


# Files

Model: TypeAlias = Annotated[Path, argument("A model saved by rankwise fit.", "MODEL")]
Data: TypeAlias = Annotated[
    list[Path], argument(f"The items, files or patterns (part-*.csv): {FORMATS}", "DATA...")
]
NewModel: TypeAlias = Annotated[Path, option("The file for the model.", "MODEL", "--output", "-o")]
NewFile: TypeAlias = Annotated[Path, option("The file to write.", "FILE", "--output", "-o")]
Json: TypeAlias = Annotated[bool, option("Print JSON.", None, "--json")]
Top: TypeAlias = Annotated[
    int | None, option("Keep only this many of the best.", "NUMBER", "--top", min=1)
]
Codes: TypeAlias = Annotated[
    str | None,
    option(
        "What the cells of a column that says who won mean, such as 0=a,1=b,2=tie; skip leaves "
        "rows out.",
        "CODES",
        panel=PREFERENCES,
    ),
]
Measure: TypeAlias = Annotated[
    str | None,
    option(
        'Measure to choose by, such as "NDCG @ 10".', "MEASURE", "--measure", "-m", panel=CHOICE
    ),
]
Measures: TypeAlias = Annotated[
    list[str] | None,
    option('A measure, such as "NDCG @ 10"; may be repeated.', "MEASURE", "--measure", "-m"),
]
Person: TypeAlias = Annotated[
    str | None, option("With --tastes: the judge whose order is printed.", "NAME")
]
Tastes: TypeAlias = Annotated[
    bool, option("Learn an order for every judge, around a common one.", None, "--tastes")
]
HalfLife: TypeAlias = Annotated[
    float | None, option("Days after which the weight of an answer is halved; needs dates.", "DAYS")
]

# Columns

YColumn: TypeAlias = Annotated[
    str | None,
    column("Column of the scores, if not y, label, score, relevance, grade or rating.", "--y"),
]
Positive: TypeAlias = Annotated[
    str | None,
    option(
        "The label that should rank above all others, if the scores are labels such as yes and no.",
        "LABEL",
        panel=TABLES,
    ),
]
QidColumn: TypeAlias = Annotated[
    str | None,
    column("Column of the queries, if not qid, query_id, query, search_id or session_id.", "--qid"),
]
ItemColumn: TypeAlias = Annotated[
    str | None,
    column(
        "Column of the names of items, if not item, id, doc_id, product_id, sku or name.", "--item"
    ),
]
FeatureColumns: TypeAlias = Annotated[
    str | None,
    option(
        "Columns of the features, by default all others; names, patterns (bm25_*), ranges (f1-f9).",
        "COLUMN,...",
        "--features",
        panel=TABLES,
    ),
]


Group: TypeAlias = Annotated[
    str | None,
    column("Column of what is held out together, such as the patients that items come from."),
]


@final
@dataclass(frozen=True)
class DataLayout:
    """How to read a data file: the columns of a table, the numbering of svmlight features."""

    y: str | None = None
    qid: str | None = None
    features: tuple[str, ...] | None = None
    zero_based: bool | None = None
    drop: tuple[str, ...] = ()
    item: str | None = None
    positive: str | None = None
    categories: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a table, as arguments of every reader of tables."""
        chosen = {"y": self.y, "qid": self.qid, "features": self.features}
        return {**chosen, "drop": self.drop}

    @property
    def names_columns(self) -> bool:
        """Whether a column is named; only tables have columns."""
        return any((*self.columns.values(), self.item, self.positive, self.categories))


class Command(ABC):
    """What was typed: a command with its arguments and options."""

    @abstractmethod
    def run(self) -> None:
        """Import the job of the command, which may take a second, and call it."""


@dataclass(frozen=True, kw_only=True)
class ItemsCommand(Command, ABC):
    """The options of every command that reads items."""

    zero_based: Annotated[
        bool | None,
        option(
            "How svmlight files number features; zero-based if a 0 occurs.",
            None,
            "--zero-based/--one-based",
            show_default=False,
        ),
    ] = None
    y: YColumn = None
    positive: Positive = None
    qid: QidColumn = None
    item: ItemColumn = None
    features: FeatureColumns = None
    drop: Annotated[
        str | None,
        option("Columns to leave out, written in the same way.", "COLUMN,...", panel=TABLES),
    ] = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data files."""
        chosen, dropped = column_names(self.features), column_names(self.drop) or ()
        return DataLayout(
            self.y, self.qid, chosen, self.zero_based, dropped, self.item, self.positive
        )


def without(layout: DataLayout, column: str | None) -> DataLayout:
    """Return a layout whose features are without a column that has another role."""
    return layout if column is None else replace(layout, drop=(*layout.drop, column))


def column_names(text: str | None) -> tuple[str, ...] | None:
    """Return the column names of a list separated by commas."""
    return None if text is None else tuple(name.strip() for name in text.split(","))
