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
Storage: TypeAlias = Literal["float32", "float64"]

CHOICE = "Choosing alpha"
FUNCTIONS = "Kernel"
DIRECT = "Direct optimisation of a measure"
LARGE = "Large and sparse data"


@final
@dataclass(frozen=True)
class Fit:
    """Train RankRLS on a data file, DORM with --optimise, LinearRankRLS with --iterative; save it.

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
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Learn from comparisons, not scores: columns winner and loser with row numbers of "
            "TRAIN from 0, and if wanted margin and weight.",
        ),
    ] = None
    zero_based: ZeroBased = None
    json: Json = False
    alphas: Annotated[
        str | None,
        typer.Option(
            metavar="GRID",
            help="Values to choose from: 0.1,1,10 or first:last:number, evenly spaced in the logs; "
            "judged without --validate by leaving out queries, or with --iterative on a tenth of "
            "them held out.",
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
        int,
        typer.Option(
            help="Draws the basis rows, or what --iterative holds out.", rich_help_panel=FUNCTIONS
        ),
    ] = 0
    optimise: Annotated[
        str | None,
        typer.Option(
            metavar="MEASURE",
            help='Train DORM for a measure, such as "NDCG" or "Precision @ 5".',
            rich_help_panel=DIRECT,
        ),
    ] = None
    c: Annotated[
        str | None,
        typer.Option(
            "--C",
            metavar="NUMBER",
            help="What multiplies the loss; fitted to the scale of the data if left out.",
            show_default="scale",
            rich_help_panel=DIRECT,
        ),
    ] = None
    cs: Annotated[
        str | None,
        typer.Option(
            "--Cs",
            metavar="GRID",
            help="Values to choose from: 0.1,1,10 or first:last:number, or a number of values; "
            "judged without --validate by five folds of queries.",
            rich_help_panel=DIRECT,
        ),
    ] = None
    decay: Annotated[
        str | None,
        typer.Option(
            metavar="EXPONENT",
            help="How the weight of positions falls: an exponent, log or loglog.",
            show_default="0.5",
            rich_help_panel=DIRECT,
        ),
    ] = None
    iterative: Annotated[
        bool,
        typer.Option(
            "--iterative",
            help="Solve by conjugate gradients: linear, for many sparse features.",
            rich_help_panel=LARGE,
        ),
    ] = False
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read TRAIN (svmlight, Parquet) in parts that fit in --memory; implies "
            "--iterative.",
            rich_help_panel=LARGE,
        ),
    ] = False
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for the rows of --stream, such as 512M or 2G.",
            show_default="256M",
            rich_help_panel=LARGE,
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where --stream keeps a binary copy while it iterates; should be on a disk.",
            rich_help_panel=LARGE,
        ),
    ] = None
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Stop when validation no longer improves, and keep the best iterate; --alpha may "
            "be 0.",
            rich_help_panel=LARGE,
        ),
    ] = False
    n_iter_no_change: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Patience of --early-stopping.",
            show_default="10",
            rich_help_panel=LARGE,
        ),
    ] = None
    max_iter: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Iterations at most.",
            show_default="1000",
            rich_help_panel=LARGE,
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(
            help="Residual, relative to the right-hand side, at which to stop.",
            show_default="1e-9",
            rich_help_panel=LARGE,
        ),
    ] = None
    dtype: Annotated[
        Storage | None,
        typer.Option(
            help="How to store the rows: float32 takes half the memory, sums stay in float64.",
            rich_help_panel=LARGE,
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Written every minute; the same command goes on from it.",
            rich_help_panel=LARGE,
        ),
    ] = None
    y: YColumn = None
    qid: QidColumn = None
    features: FeatureColumns = None

    @property
    def is_iterative(self) -> bool:
        """Whether conjugate gradients solve, in place of the closed form."""
        return self.iterative or self.stream

    @property
    def is_direct(self) -> bool:
        """Whether a measure is optimised directly."""
        return self.optimise is not None

    @property
    def layout(self) -> Layout:
        """How to read the data files."""
        return Layout(self.y, self.qid, column_names(self.features), self.zero_based)
