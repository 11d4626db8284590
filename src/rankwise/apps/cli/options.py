"""Arguments and options that several commands share."""

from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, final

import typer

KernelName: TypeAlias = Literal["linear", "gaussian", "laplacian", "polynomial"]
CostName: TypeAlias = Literal["magnitude", "unit", "relative"]
TiesName: TypeAlias = Literal["drop", "keep"]
QueryWeightName: TypeAlias = Literal["items", "pairs", "equal"]

TABLES = "Tables (CSV, TSV, Parquet, Excel)"
CHOICE = "Choice"
KERNEL = "Kernel"
PREFERENCES = "Preferences"
ITERATION = "Iteration"
DIVERSE = "Diverse rankings"
CLUSTER = "Cluster"
FORMATS = "svmlight/LETOR, CSV, TSV, Parquet or Excel; may be compressed."
GRID = "0.1,1,10 or first:last:number, evenly spaced in logarithms"

# Files

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model saved by rankwise fit.", show_default=False)
]
DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help=f"The items: {FORMATS}", show_default=False)
]
TrainArgument = Annotated[
    Path,
    typer.Argument(metavar="TRAIN", help=f"The training data: {FORMATS}", show_default=False),
]
ModelOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ZeroBasedOption = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="How svmlight files number features; zero-based if a 0 occurs.",
        show_default=False,
    ),
]
YColumn = Annotated[
    str | None,
    typer.Option(
        "--y",
        metavar="COLUMN",
        help="Column of the scores, if not y, label, score, relevance, grade or rating.",
        rich_help_panel=TABLES,
    ),
]
QidColumn = Annotated[
    str | None,
    typer.Option(
        "--qid",
        metavar="COLUMN",
        help="Column of the queries, if not qid, query_id, query, search_id or session_id.",
        rich_help_panel=TABLES,
    ),
]
FeatureColumns = Annotated[
    str | None,
    typer.Option(
        "--features",
        metavar="COLUMN,...",
        help="Columns of the features, by default all others; names, patterns (bm25_*), ranges "
        "(f1-f9).",
        rich_help_panel=TABLES,
    ),
]
DropColumns = Annotated[
    str | None,
    typer.Option(
        "--drop",
        metavar="COLUMN,...",
        help="Columns to leave out, written in the same way.",
        rich_help_panel=TABLES,
    ),
]
ItemColumn = Annotated[
    str | None,
    typer.Option(
        "--item",
        metavar="COLUMN",
        help="Column of the names of items, if not item, id, doc_id, product_id or name.",
        rich_help_panel=TABLES,
    ),
]

# Choice

ValidateOption = Annotated[
    Path | None,
    typer.Option(
        "--validate",
        metavar="DATA",
        help="Validation data, on which parameters are chosen.",
        rich_help_panel=CHOICE,
    ),
]
MeasureOption = Annotated[
    str | None,
    typer.Option(
        "--measure",
        "-m",
        metavar="MEASURE",
        help='Measure to choose by, such as "NDCG @ 10".',
        rich_help_panel=CHOICE,
    ),
]
AlphaOption = Annotated[
    float | None,
    typer.Option(help="Regularisation strength.", show_default="1.0", rich_help_panel=CHOICE),
]
AlphasOption = Annotated[
    str | None,
    typer.Option(metavar="GRID", help=f"Alphas to choose from: {GRID}.", rich_help_panel=CHOICE),
]
RandomStateOption = Annotated[int, typer.Option(help="Seed of the random numbers.")]

# Preferences

PairsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="TABLE",
        help="Learn from comparisons, not scores: columns winner and loser with names of items, "
        "or row numbers of TRAIN from 0; optionally margin, weight and count.",
        rich_help_panel=PREFERENCES,
    ),
]
CodesOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODES",
        help="What the cells of a column that says who won mean, such as 0=a,1=b,2=tie; skip "
        "leaves rows out.",
        rich_help_panel=PREFERENCES,
    ),
]
CostOption = Annotated[
    CostName, typer.Option(help="Target and weight of a pair.", rich_help_panel=PREFERENCES)
]
TiesOption = Annotated[
    TiesName,
    typer.Option(
        help="Whether to keep or drop ties, in scores and in --pairs.",
        rich_help_panel=PREFERENCES,
    ),
]
QueryWeightOption = Annotated[
    QueryWeightName,
    typer.Option(
        help="How much a query counts: by its items, by its pairs, or all equally.",
        rich_help_panel=PREFERENCES,
    ),
]

# Kernel

KernelOption = Annotated[
    KernelName, typer.Option(help="Kernel of the ranking function.", rich_help_panel=KERNEL)
]
GammaOption = Annotated[
    float | None,
    typer.Option(
        help="Scale of the kernel; by default fitted to the data.", rich_help_panel=KERNEL
    ),
]
DegreeOption = Annotated[
    int | None, typer.Option(help="Degree of the polynomial.", rich_help_panel=KERNEL)
]
Coef0Option = Annotated[
    float | None, typer.Option(help="Constant of the polynomial.", rich_help_panel=KERNEL)
]
BasisOption = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        help="Number of random training rows used as basis, for many items.",
        rich_help_panel=KERNEL,
    ),
]

# Iteration

MaxIterOption = Annotated[
    int,
    typer.Option(metavar="NUMBER", help="Maximum number of iterations.", rich_help_panel=ITERATION),
]
GapOption = Annotated[
    float,
    typer.Option(
        "--tol",
        help="Duality gap, as a share of the objective, at which to stop.",
        rich_help_panel=ITERATION,
    ),
]


# Cluster

WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="NUMBER",
        help="Start this many processes on this machine, which read the files that match a pattern "
        '("part-*.parquet") themselves; linear rankers only.',
        rich_help_panel=CLUSTER,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Use the Dask cluster of this scheduler, such as tcp://host:8786, in the same way.",
        rich_help_panel=CLUSTER,
    ),
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

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a table, as arguments of `read_table`."""
        chosen = {"y": self.y, "qid": self.qid, "features": self.features}
        return {**chosen, "drop": self.drop}

    @property
    def names_columns(self) -> bool:
        """Whether a column is named; only tables have columns."""
        return any((*self.columns.values(), self.item))


@dataclass(frozen=True, kw_only=True)
class ItemsCommand(ABC):  # noqa: B024 - it only holds options
    """The options of every command that reads items."""

    zero_based: ZeroBasedOption = None
    y: YColumn = None
    qid: QidColumn = None
    features: FeatureColumns = None
    drop: DropColumns = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data files."""
        chosen, dropped = column_names(self.features), column_names(self.drop) or ()
        return DataLayout(self.y, self.qid, chosen, self.zero_based, dropped)


def column_names(text: str | None) -> tuple[str, ...] | None:
    """Return the column names of a list separated by commas."""
    return None if text is None else tuple(name.strip() for name in text.split(","))
