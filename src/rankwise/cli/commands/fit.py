"""``rankwise fit``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, final

import typer

from rankwise.cli.options import (
    FORMATS,
    FeatureColumns,
    Json,
    Layout,
    QidColumn,
    YColumn,
    ZeroBased,
    column_names,
)

KernelName: TypeAlias = Literal["linear", "gaussian", "laplacian", "polynomial"]
Cost: TypeAlias = Literal["magnitude", "unit", "relative"]
Ties: TypeAlias = Literal["drop", "keep"]
QueryWeight: TypeAlias = Literal["items", "pairs", "equal"]

CHOICE = "Choosing alpha"
FUNCTIONS = "Kernel"


@final
@dataclass(frozen=True)
class Fit:
    """Train RankRLS on a data file and save it.

    For example: rankwise fit train.txt -o model --alphas 1e-3:1e3:7 --measure "NDCG @ 10"
    """

    train: Annotated[
        Path,
        typer.Argument(metavar="TRAIN", help=f"The training data: {FORMATS}", show_default=False),
    ]
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")
    ]
    alpha: Annotated[
        float | None,
        typer.Option(help="Regularisation; small values do little.", show_default="1.0"),
    ] = None
    cost: Annotated[Cost, typer.Option(help="Aim and weight of a pair of items.")] = "magnitude"
    ties: Annotated[Ties, typer.Option(help="What to do with pairs of equal y.")] = "drop"
    query_weight: Annotated[
        QueryWeight, typer.Option(help="What a query counts in proportion to.")
    ] = "items"
    zero_based: ZeroBased = None
    json: Json = False
    alphas: Annotated[
        str | None,
        typer.Option(
            metavar="GRID",
            help="Values to choose from: 0.1,1,10 or first:last:number, evenly spaced in the logs; "
            "judged by leaving out queries unless there is --validate.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    validate: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Data to measure each alpha on.", rich_help_panel=CHOICE),
    ] = None
    measure: Annotated[
        str,
        typer.Option(
            "--measure",
            "-m",
            help='Measure to choose by, such as "NDCG @ 10".',
            rich_help_panel=CHOICE,
        ),
    ] = "Concordance"
    kernel: Annotated[
        KernelName, typer.Option(help="The space of functions.", rich_help_panel=FUNCTIONS)
    ] = "linear"
    gamma: Annotated[
        float | None,
        typer.Option(
            help="Scale of the kernel; fitted to the data if left out.", rich_help_panel=FUNCTIONS
        ),
    ] = None
    degree: Annotated[
        int | None, typer.Option(help="Degree of the polynomial.", rich_help_panel=FUNCTIONS)
    ] = None
    coef0: Annotated[
        float | None, typer.Option(help="Constant of the polynomial.", rich_help_panel=FUNCTIONS)
    ] = None
    basis: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Restrict the function to this many random rows: for many items.",
            rich_help_panel=FUNCTIONS,
        ),
    ] = None
    random_state: Annotated[
        int, typer.Option(help="Draws the basis rows.", rich_help_panel=FUNCTIONS)
    ] = 0
    y: YColumn = None
    qid: QidColumn = None
    features: FeatureColumns = None

    @property
    def layout(self) -> Layout:
        """How to read the data files."""
        return Layout(self.y, self.qid, column_names(self.features), self.zero_based)
