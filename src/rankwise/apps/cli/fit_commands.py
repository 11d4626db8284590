"""The commands after fit: every ranker with its options. Nothing heavy is imported here."""

from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, final

import typer

from rankwise.apps.cli.options import (
    CHOICE,
    GRID,
    ITERATION,
    PREFERENCES,
    TABLES,
    AlphaOption,
    AlphasOption,
    BasisOption,
    ClusterOption,
    CodesOption,
    Coef0Option,
    CostOption,
    DegreeOption,
    GammaOption,
    GapOption,
    ItemsCommand,
    Json,
    KernelOption,
    MaxIterOption,
    MeasureOption,
    ModelOption,
    PairsOption,
    QueryWeightOption,
    RandomStateOption,
    TiesOption,
    TrainArgument,
    ValidateOption,
    WorkersOption,
)


@dataclass(frozen=True, kw_only=True)
class FitCommand(ItemsCommand, ABC):
    """The files that every fit reads and writes."""

    train: TrainArgument
    output: ModelOption
    json: Json = False
    validate: ValidateOption = None
    measure: MeasureOption = None


@dataclass(frozen=True, kw_only=True)
class ClusterCommand(FitCommand, ABC):
    """A fit that can also run on the workers of a Dask cluster."""

    local_job: ClassVar[str]
    """The job of this command without a cluster."""

    workers: WorkersOption = None
    cluster: ClusterOption = None

    @property
    def job(self) -> str:
        """The job; on a cluster, the one of the same name in the module for clusters."""
        name = self.local_job.rpartition(".")[2]
        return f"fits.cluster.{name}" if self.is_on_cluster else self.local_job

    @property
    def is_on_cluster(self) -> bool:
        """Whether workers read the files."""
        return self.workers is not None or self.cluster is not None


@dataclass(frozen=True, kw_only=True)
class KernelCommand(FitCommand, ABC):
    """A fit with a kernel."""

    kernel: KernelOption = "linear"
    gamma: GammaOption = None
    degree: DegreeOption = None
    coef0: Coef0Option = None


@final
@dataclass(frozen=True, kw_only=True)
class Fit(ClusterCommand):
    """Find a good ranker for raw features, say how good it is, and save it.

    With queries, text or blanks this is AutoRanker: it tries linear and kernel
    rankers and trees, adds up those that are better together by NDCG @ 10, and
    prints a value on data that no choice has seen. Otherwise, or with --validate,
    --workers or --cluster, it is a linear RankRLS with the best alpha.

    For example: rankwise fit train.txt -o model
    """

    local_job: ClassVar = "fits.automatic.fit"


@final
@dataclass(frozen=True, kw_only=True)
class FitAuto(FitCommand):
    """Try all families on raw features, add up those that are better together, and save the sum.

    The ranker is AutoRanker: scaling, ranks inside queries, linear and kernel
    rankers and trees. The printed value comes from queries that no choice has seen.

    For example: rankwise fit auto train.csv -o model --time-budget 60
    """

    job: ClassVar = "fits.automatic.fit_auto"
    time_budget: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which no new ranker is tried; the final fits take extra time."
        ),
    ] = None


@final
@dataclass(frozen=True, kw_only=True)
class FitRLS(KernelCommand, ClusterCommand):
    """Train RankRLS: least squares on differences of scores, in closed form.

    A grid of --alphas is judged by exact hold-outs of queries, pairs of items
    or comparisons, or on the data of --validate.

    For example: rankwise fit rls train.txt -o model --kernel gaussian --alphas 1e-3:1e3:7
    """

    local_job: ClassVar = "fits.pairwise.fit_rls"
    alpha: AlphaOption = None
    alphas: AlphasOption = None
    basis: BasisOption = None
    pairs: PairsOption = None
    codes: CodesOption = None
    pairs_val: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Comparisons of items of TRAIN that choose among --alphas, with --pairs.",
            rich_help_panel=PREFERENCES,
        ),
    ] = None
    cost: CostOption = "magnitude"
    ties: TiesOption = "drop"
    query_weight: QueryWeightOption = "items"
    random_state: RandomStateOption = 0


@final
@dataclass(frozen=True, kw_only=True)
class FitLinear(ClusterCommand):
    """Train LinearRankRLS: conjugate gradients on large or sparse data, even beyond memory.

    A grid of --alphas is learned in one run and judged on the data of
    --validate, or on a tenth of the queries, items or comparisons, held out.

    For example: rankwise fit linear huge.txt.gz -o model --stream --memory 1G
    """

    local_job: ClassVar = "fits.pairwise.fit_linear"
    alpha: AlphaOption = None
    alphas: AlphasOption = None
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Stop when the validation value no longer improves, and keep the best iterate; "
            "--alpha may be 0.",
            rich_help_panel=CHOICE,
        ),
    ] = False
    n_iter_no_change: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Iterations without improvement after which --early-stopping stops.",
            show_default="10",
            rich_help_panel=CHOICE,
        ),
    ] = None
    pairs: PairsOption = None
    codes: CodesOption = None
    cost: CostOption = "magnitude"
    ties: TiesOption = "drop"
    query_weight: QueryWeightOption = "items"
    max_iter: MaxIterOption = 1000
    tol: Annotated[
        float,
        typer.Option(
            help="Residual, relative to the right-hand side, at which to stop.",
            rich_help_panel=ITERATION,
        ),
    ] = 1e-9
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        typer.Option(
            help="How to store the rows: float32 takes half the memory; sums stay in float64.",
            rich_help_panel=ITERATION,
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Checkpoint, written every minute; the same command continues from it.",
            rich_help_panel=ITERATION,
        ),
    ] = None
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read TRAIN (svmlight, Parquet) in parts that fit in --memory.",
            rich_help_panel="Larger than memory",
        ),
    ] = False
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for the rows of --stream, such as 512M or 2G.",
            show_default="256M",
            rich_help_panel="Larger than memory",
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the binary copy that --stream iterates over; should be on a disk.",
            rich_help_panel="Larger than memory",
        ),
    ] = None
    random_state: RandomStateOption = 0


@final
@dataclass(frozen=True, kw_only=True)
class FitSVM(KernelCommand):
    """Train RankSVM: the hinge loss over all pairs, to a certified gap.

    A grid of --Cs is judged on the data of --validate.

    For example: rankwise fit svm train.txt -o model --Cs 0.01,0.1,1 --validate vali.txt
    """

    job: ClassVar = "fits.pairwise.fit_svm"
    c: Annotated[
        float | None,
        typer.Option(
            "--C",
            help="Factor of the loss; small values regularise more.",
            show_default="1.0",
            rich_help_panel=CHOICE,
        ),
    ] = None
    cs: Annotated[
        str | None,
        typer.Option(
            "--Cs",
            metavar="GRID",
            help=f"Values of C to choose from on the data of --validate: {GRID}.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    loss: Annotated[
        Literal["squared_hinge", "hinge"], typer.Option(help="Loss of a violated pair.")
    ] = "squared_hinge"
    basis: BasisOption = None
    pairs: PairsOption = None
    codes: CodesOption = None
    cost: Annotated[
        Literal["unit", "magnitude"],
        typer.Option(
            help="The margin of a pair: 1, or its difference of scores.",
            rich_help_panel=PREFERENCES,
        ),
    ] = "unit"
    query_weight: QueryWeightOption = "pairs"
    max_iter: MaxIterOption = 1000
    tol: GapOption = 1e-4
    random_state: RandomStateOption = 0


@final
@dataclass(frozen=True, kw_only=True)
class FitKPCRank(KernelCommand):
    """Train KPCRank: least squares on the leading kernel principal components.

    With --max-components their number is chosen by leaving out each query, or
    folds of items if the file has no queries, or on the data of --validate.

    For example: rankwise fit kpcrank train.txt -o model --max-components 100
    """

    job: ClassVar = "fits.pairwise.fit_kpcrank"
    kernel: KernelOption = "gaussian"
    n_components: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Number of components.",
            show_default="10",
            rich_help_panel=CHOICE,
        ),
    ] = None
    max_components: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Choose the number of components, from 1 to this number.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    alpha: Annotated[float, typer.Option(help="Regularisation strength, 0 or more.")] = 0.0
    pairs: PairsOption = None
    codes: CodesOption = None
    cost: CostOption = "magnitude"
    ties: TiesOption = "drop"
    query_weight: QueryWeightOption = "items"


@final
@dataclass(frozen=True, kw_only=True)
class FitDORM(KernelCommand):
    """Train DORM: a bound on NDCG, precision or another measure, minimised to a certified gap.

    A grid of --Cs is judged by five folds of queries, or on the data of
    --validate, by the objective unless --measure names another measure.

    For example: rankwise fit dorm train.txt -o model --objective NDCG --Cs 8 --measure "NDCG @ 10"
    """

    job: ClassVar = "fits.listwise.fit_dorm"
    objective: Annotated[
        str,
        typer.Option(metavar="MEASURE", help='What to train for, such as "Precision @ 5" or mWTA.'),
    ] = "NDCG"
    c: Annotated[
        str | None,
        typer.Option(
            "--C",
            metavar="NUMBER",
            help="Factor of the loss; by default fitted to the scale of the data.",
            show_default="scale",
            rich_help_panel=CHOICE,
        ),
    ] = None
    cs: Annotated[
        str | None,
        typer.Option(
            "--Cs",
            metavar="GRID",
            help=f"Values of C to choose from: {GRID}, or how many of them.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    decay: Annotated[
        str,
        typer.Option(
            metavar="EXPONENT",
            help="How the weight of positions falls: an exponent, log or loglog.",
        ),
    ] = "0.5"
    basis: BasisOption = None
    max_iter: MaxIterOption = 1000
    tol: GapOption = 1e-3
    random_state: RandomStateOption = 0


@final
@dataclass(frozen=True, kw_only=True)
class FitFactorization:
    """Train RankingFactorization: recommend items to users, from their ratings.

    The table has a row per rating: a user, an item and a number, higher is better.

    For example: rankwise fit factorization ratings.csv -o model --recommend top.csv
    """

    job: ClassVar = "fits.listwise.fit_factorization"
    ratings: Annotated[
        Path,
        typer.Argument(
            metavar="RATINGS", help="A table (CSV, TSV, Parquet, Excel).", show_default=False
        ),
    ]
    output: ModelOption
    user: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the users.", rich_help_panel=TABLES)
    ] = "user"
    item: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the items.", rich_help_panel=TABLES)
    ] = "item"
    rating: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the ratings.", rich_help_panel=TABLES)
    ] = "rating"
    n_components: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="Factors of each user and item.")
    ] = 10
    objective: Annotated[
        str, typer.Option(metavar="MEASURE", help='What to train for, such as "NDCG @ 10".')
    ] = "NDCG @ 10"
    c: Annotated[
        float | None,
        typer.Option(
            "--C",
            help="Factor of the loss; by default fitted to the scale of the data.",
            show_default="scale",
        ),
    ] = None
    recommend: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE", help="Write the best items that each user has not rated to a table."
        ),
    ] = None
    n: Annotated[
        int | None,
        typer.Option(
            "--n", min=1, metavar="NUMBER", help="How many to --recommend.", show_default="10"
        ),
    ] = None
    max_iter: MaxIterOption = 50
    random_state: RandomStateOption = 0
    json: Json = False


@final
@dataclass(frozen=True, kw_only=True)
class FitConditional:
    """Train ConditionalRankRLS: rank items for each condition, including new ones of both.

    SCORES has a row per known pair (a condition, an item and a number) or per
    comparison (a condition, a winner and a loser). --conditions and --items hold
    the features.

    For example: rankwise fit conditional scores.csv --conditions drugs.csv --items targets.csv -o m
    """

    job: ClassVar = "fits.conditional.fit_conditional"
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", help="A table (CSV, TSV, Parquet, Excel).", show_default=False
        ),
    ]
    output: ModelOption
    conditions: Annotated[
        Path, typer.Option(metavar="TABLE", help="Names and features of the conditions.")
    ]
    items: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Names and features of the items.")
    ] = None
    condition: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Column of the conditions.", rich_help_panel=TABLES),
    ] = "condition"
    item: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the items.", rich_help_panel=TABLES)
    ] = "item"
    score: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the scores.", rich_help_panel=TABLES)
    ] = "score"
    alpha: AlphaOption = None
    alphas: AlphasOption = None
    new: Annotated[
        Literal["conditions", "items", "both"] | None,
        typer.Option(
            help="What is new at prediction time, and is left out to choose among --alphas.",
            show_default="conditions",
            rich_help_panel=CHOICE,
        ),
    ] = None
    measure: MeasureOption = None
    relation: Annotated[
        Literal["any", "symmetric", "antisymmetric"],
        typer.Option(help="Effect of exchanging the objects of a pair, if both are of one kind."),
    ] = "any"
    condition_kernel: KernelOption = "linear"
    item_kernel: KernelOption = "linear"
    cost: CostOption = "magnitude"
    ties: TiesOption = "keep"
    query_weight: QueryWeightOption = "items"
    rankings: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Write the best items of each condition to a table."),
    ] = None
    n: Annotated[
        int | None,
        typer.Option(
            "--n", min=1, metavar="NUMBER", help="How many in --rankings.", show_default="10"
        ),
    ] = None
    new_conditions: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Rank for these conditions in --rankings instead."),
    ] = None
    new_items: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Rank these items in --rankings instead."),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compute on a device of PyTorch, such as cuda."),
    ] = None
    random_state: RandomStateOption = 0
    json: Json = False
