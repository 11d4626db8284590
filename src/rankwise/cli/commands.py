"""What can be typed: every command with its options. Nothing heavy is imported here."""

from abc import ABC
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, final

import typer

from rankwise.cli.options import (
    CHOICE,
    DIVERSE,
    GRID,
    ITERATION,
    PREFERENCES,
    TABLES,
    AlphaOption,
    AlphasOption,
    BasisOption,
    ClusterOption,
    Coef0Option,
    CostOption,
    DataArgument,
    DataLayout,
    DegreeOption,
    FeatureColumns,
    GammaOption,
    GapOption,
    ItemColumn,
    ItemsCommand,
    Json,
    KernelOption,
    MaxIterOption,
    MeasureOption,
    ModelArgument,
    ModelOption,
    PairsOption,
    QidColumn,
    QueryWeightOption,
    RandomStateOption,
    TiesOption,
    TrainArgument,
    ValidateOption,
    WorkersOption,
    YColumn,
    column_names,
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
    """A fit that the workers of a Dask cluster can do as well."""

    workers: WorkersOption = None
    cluster: ClusterOption = None

    @property
    def is_on_cluster(self) -> bool:
        """Whether workers read the files."""
        return self.workers is not None or self.cluster is not None


@dataclass(frozen=True, kw_only=True)
class KernelCommand(FitCommand, ABC):
    """A fit of functions of a kernel."""

    kernel: KernelOption = "linear"
    gamma: GammaOption = None
    degree: DegreeOption = None
    coef0: Coef0Option = None


@final
@dataclass(frozen=True, kw_only=True)
class Fit(ClusterCommand):
    """Find a good ranker for raw features, say how good it is, and save it.

    With queries, text or blanks it is AutoRanker: linear and kernel rankers and
    trees, added up where that is better by NDCG @ 10, and a value that no choice
    has seen. Otherwise, or with --validate, a linear RankRLS with the best alpha.
    With --workers or --cluster that too, of files that Dask workers read themselves.

    For example: rankwise fit train.txt -o model
    """


@final
@dataclass(frozen=True, kw_only=True)
class FitAuto(FitCommand):
    """Try the families on raw features, add up what is better together, and say how good it is.

    The ranker is AutoRanker: scaling, ranks inside queries, linear and kernel
    rankers and trees; the printed value comes from queries that no choice saw.

    For example: rankwise fit auto train.csv -o model --time-budget 60
    """

    time_budget: Annotated[
        float | None,
        typer.Option(help="Seconds after which nothing new is tried; the final fits come on top."),
    ] = None


@final
@dataclass(frozen=True, kw_only=True)
class FitRLS(KernelCommand, ClusterCommand):
    """Train RankRLS: least squares on differences of scores, in closed form.

    A grid of --alphas is judged by exact hold-outs of queries, pairs of items
    or comparisons, or on the data of --validate.

    For example: rankwise fit rls train.txt -o model --kernel gaussian --alphas 1e-3:1e3:7
    """

    alpha: AlphaOption = None
    alphas: AlphasOption = None
    basis: BasisOption = None
    pairs: PairsOption = None
    pairs_val: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Comparisons of items of TRAIN that decide among the alphas, with --pairs.",
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
    """Train LinearRankRLS: conjugate gradients on large or sparse data, also larger than memory.

    A grid of --alphas is learned in one run and judged on the data of
    --validate, or on a tenth of the queries, items or comparisons, held out.

    For example: rankwise fit linear huge.txt.gz -o model --stream --memory 1G
    """

    alpha: AlphaOption = None
    alphas: AlphasOption = None
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Stop when validation no longer improves, and keep the best iterate; --alpha may "
            "be 0.",
            rich_help_panel=CHOICE,
        ),
    ] = False
    n_iter_no_change: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            help="Patience of --early-stopping.",
            show_default="10",
            rich_help_panel=CHOICE,
        ),
    ] = None
    pairs: PairsOption = None
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
            help="How to store the rows: float32 takes half the memory, sums stay in float64.",
            rich_help_panel=ITERATION,
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Written every minute; the same command goes on from it.",
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
            help="Where --stream keeps a binary copy while it iterates; should be on a disk.",
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

    c: Annotated[
        float | None,
        typer.Option(
            "--C",
            help="What multiplies the loss; small values regularise much.",
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
        Literal["squared_hinge", "hinge"], typer.Option(help="What a violated pair costs.")
    ] = "squared_hinge"
    basis: BasisOption = None
    pairs: PairsOption = None
    cost: Annotated[
        Literal["unit", "magnitude"],
        typer.Option(
            help="The margin of a pair: 1, or its difference of scores.",
            rich_help_panel=PREFERENCES,
        ),
    ] = "unit"
    query_weight: QueryWeightOption = "pairs"
    max_iter: MaxIterOption = 200
    tol: GapOption = 1e-4
    random_state: RandomStateOption = 0


@final
@dataclass(frozen=True, kw_only=True)
class FitKPCRank(KernelCommand):
    """Train KPCRank: least squares on the leading kernel principal components.

    With --max-components their number is chosen by leaving out each query, or
    folds of items where the file has no queries, or on the data of --validate.

    For example: rankwise fit kpcrank train.txt -o model --max-components 100
    """

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
            help="Choose the number of components, up to this one.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    alpha: Annotated[float, typer.Option(help="Regularisation, 0 or more.")] = 0.0
    pairs: PairsOption = None
    cost: CostOption = "magnitude"
    ties: TiesOption = "drop"
    query_weight: QueryWeightOption = "items"


@final
@dataclass(frozen=True, kw_only=True)
class FitDORM(KernelCommand):
    """Train DORM: a bound on NDCG, precision or another measure, minimised to a certified gap.

    A grid of --Cs is judged by five folds of queries, or on the data of
    --validate, by the measure that is trained for unless --measure names another.

    For example: rankwise fit dorm train.txt -o model --objective NDCG --Cs 8 --measure "NDCG @ 10"
    """

    objective: Annotated[
        str,
        typer.Option(metavar="MEASURE", help='What to train for, such as "Precision @ 5" or mWTA.'),
    ] = "NDCG"
    c: Annotated[
        str | None,
        typer.Option(
            "--C",
            metavar="NUMBER",
            help="What multiplies the loss; fitted to the scale of the data if left out.",
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
    """Train RankingFactorization: recommend items to users from who rated what how.

    The table has a row per rating: a user, an item and a number, higher is better.

    For example: rankwise fit factorization ratings.csv -o model --recommend top.csv
    """

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
            help="What multiplies the loss; fitted to the scale of the data if left out.",
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
    """Train ConditionalRankRLS: rank items for each condition, new ones of both kinds included.

    SCORES has a row per known pair, a condition, an item and a number, or a
    condition, a winner and a loser; --conditions and --items have the features.

    For example: rankwise fit conditional scores.csv --conditions drugs.csv --items targets.csv -o m
    """

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
            help="What will be new in use, and is left out to choose among --alphas.",
            show_default="conditions",
            rich_help_panel=CHOICE,
        ),
    ] = None
    measure: MeasureOption = None
    relation: Annotated[
        Literal["any", "symmetric", "antisymmetric"],
        typer.Option(help="What exchanging the objects of a pair does, if they are of one kind."),
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
        typer.Option(metavar="TABLE", help="Conditions of --rankings in place of those known."),
    ] = None
    new_items: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Items of --rankings in place of those known."),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compute on a device of PyTorch, such as cuda."),
    ] = None
    random_state: RandomStateOption = 0
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class SmallSampleCommand(ItemsCommand, ABC):
    """A question about few items, which RankRLS answers by exact hold-outs."""

    data: DataArgument
    kernel: KernelOption = "linear"
    gamma: GammaOption = None
    degree: DegreeOption = None
    coef0: Coef0Option = None
    json: Json = False


@final
@dataclass(frozen=True, kw_only=True)
class LeavePairOut(SmallSampleCommand):
    """Estimate the AUC on unseen items, with an interval, by leaving out every pair.

    For example: rankwise leave-pair-out patients.csv --y ill
    """

    alpha: Annotated[float, typer.Option(help="Regularisation, chosen beforehand.")] = 1.0
    confidence: Annotated[float, typer.Option(help="Of the interval.")] = 0.95


@final
@dataclass(frozen=True, kw_only=True)
class PermutationCommand(SmallSampleCommand):
    """Test whether there is anything to learn: shuffle the scores and learn again.

    For example: rankwise permutation-test patients.csv --y ill --alphas 1e-2:1e2:5
    """

    alphas: Annotated[
        str, typer.Option(metavar="GRID", help=f"The best is taken for every shuffle too: {GRID}.")
    ] = "1"
    measure: MeasureOption = None
    n_permutations: Annotated[int, typer.Option(min=1, help="Number of shuffles.")] = 999
    random_state: RandomStateOption = 0


@dataclass(frozen=True, kw_only=True)
class NamedItemsCommand(ItemsCommand, ABC):
    """A command that tells items by their names, where they have any."""

    item: ItemColumn = None

    @property
    def named_layout(self) -> DataLayout:
        """How to read the data file, with the names of its items."""
        return replace(self.layout, item=self.item)


@final
@dataclass(frozen=True, kw_only=True)
class Predict(NamedItemsCommand):
    """Print a score for every item of a data file: higher is better inside a query.

    With -o the suffix says what is written: .csv, .tsv, .parquet and .jsonl
    hold query, item, rank and score, .run is a TREC run, others one score a line.

    For example: rankwise predict model test.txt -o scores.csv
    """

    model: ModelArgument
    data: DataArgument
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A file for the scores; one on each line of standard output if left out.",
        ),
    ] = None


@final
@dataclass(frozen=True, kw_only=True)
class RankCommand(NamedItemsCommand):
    """Rank the items of a data file: query after query, the best first.

    For example: rankwise rank model test.csv --top 10 -o ranking.csv
    """

    model: ModelArgument
    data: DataArgument
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .tsv, .parquet, .jsonl or .run file; a table is printed if left out.",
        ),
    ] = None
    top: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Keep the best of each query only.")
    ] = None
    sources: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Put items of different sources first: a column of names (models of fit dorm).",
            rich_help_panel=DIVERSE,
        ),
    ] = None
    n_diverse: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="NUMBER",
            help="How many positions hold different --sources.",
            show_default="10",
            rich_help_panel=DIVERSE,
        ),
    ] = None


@final
@dataclass(frozen=True)
class Evaluate:
    """Measure how well scores rank the items of a data file.

    For example: rankwise evaluate test.txt scores.txt --measure "NDCG @ 10" --measure AP
    """

    data: DataArgument
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="What rankwise predict wrote: with names (.csv, .tsv, .parquet, .jsonl, .run) "
            "matched by them, else one score on each line in the same order.",
            show_default=False,
        ),
    ]
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="MEASURE",
            help='A measure, such as "NDCG @ 10"; may be repeated.',
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(metavar="TOOL", help="Follow scikit-learn, lightgbm, xgboost or trec_eval."),
    ] = None
    per_query: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="A CSV, TSV or Parquet file for the values by query."),
    ] = None
    json: Json = False
    y: YColumn = None
    qid: QidColumn = None
    item: ItemColumn = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data file; of a table, scores, queries and names only."""
        return DataLayout(self.y, self.qid, item=self.item)


@final
@dataclass(frozen=True)
class Prefer:
    """Rank items from comparisons, say how sure each rank is, and ask the next question.

    For example: rankwise prefer hotels.csv answers.csv --ask 3
    """

    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="A table (CSV, TSV, Parquet) of names, and features that tell what is alike; or "
            "the file of answers of rankwise ask, which holds the items too.",
            show_default=False,
        ),
    ]
    answers: Annotated[
        Path | None,
        typer.Argument(
            metavar="ANSWERS",
            help="A table of the comparisons: columns winner and loser, with names of items; or "
            "the file of answers of rankwise ask.",
            show_default=False,
        ),
    ] = None
    ask: Annotated[int, typer.Option(min=0, help="How many questions to suggest.")] = 1
    goal: Annotated[
        Literal["order", "best", "top"],
        typer.Option(help="Ask to learn the whole order, to find the best item, or the best K."),
    ] = "order"
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="How many items the goal top is about.")
    ] = None
    robust: Annotated[
        bool, typer.Option(help="Allow that answers were recorded the wrong way round.")
    ] = True
    logistic: Annotated[
        bool, typer.Option(help="Scores are log-odds (Bradley-Terry); implies --no-robust.")
    ] = False
    level: Annotated[
        float, typer.Option(help="Probability with which a rank lies in its interval.")
    ] = 0.9
    json: Json = False
    name: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the names in ITEMS, if not the first one."),
    ] = None
    features: FeatureColumns = None
    tied: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of ANSWERS that is 1 where neither was preferred, if not tied.",
        ),
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of ANSWERS that says who answered, if not judge. With several judges, how "
            "reliable each is and how often each ties is learnt and printed.",
        ),
    ] = None
    tastes: Annotated[
        bool, typer.Option("--tastes", help="Every judge has an order, around a common one.")
    ] = False
    person: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --tastes: the judge whose order is printed."),
    ] = None
    drift: Annotated[
        bool, typer.Option("--drift", help="Scores change with time; needs dates.")
    ] = False
    half_life: Annotated[
        float | None, typer.Option(help="Days after which an answer counts half; needs dates.")
    ] = None
    date: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of ANSWERS that says when, if not date: dates, or numbers of days.",
        ),
    ] = None

    @property
    def answer_file(self) -> Path:
        """Where the answers are: in a file of their own, or with the items."""
        return self.items if self.answers is None else self.answers

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns chosen as features."""
        return column_names(self.features)


@final
@dataclass(frozen=True)
class Ask:
    """Rank anything by answering "which is better?" in a browser, alone or with others.

    For example: rankwise ask photos/ --goal "top 5"
    """

    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="A table (CSV, TSV, Parquet) with a row per item, or a folder of images or texts.",
            show_default=False,
        ),
    ]
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the answers are kept; an existing file goes on. By default beside ITEMS.",
        ),
    ] = None
    goal: Annotated[
        str, typer.Option(help="What to find out: 'order', 'best', or 'top K' such as 'top 5'.")
    ] = "order"
    confidence: Annotated[
        float, typer.Option(help="The certainty at which the goal counts as reached.")
    ] = 0.9
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Let a question come to one person more than once.")
    ] = False
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but localhost needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Write the answers so far to a CSV, TSV or Parquet file, and ask nothing.",
        ),
    ] = None

    @property
    def answer_file(self) -> Path:
        """Where the answers are kept."""
        if self.answers is not None:
            return self.answers
        name = self.items.resolve().name if self.items.is_dir() else self.items.stem
        return self.items.resolve().parent / f"{name}.answers.db"


COLUMNS = "Columns, where they have no usual names"
ColumnOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", rich_help_panel=COLUMNS, show_default=False)
]


@final
@dataclass(frozen=True)
class LeaderboardCommand:
    """Rank names from who beat whom: scores and ranks with intervals.

    With -o the suffix says what is written: .html is a page with a picture and who
    beats whom, .csv, .json and .md are tables.

    For example: rankwise leaderboard battles.csv -o board.html
    """

    comparisons: Annotated[
        Path,
        typer.Argument(
            metavar="COMPARISONS",
            help="A table (CSV, TSV, Parquet): winner and loser, or a, b and who won; or the file "
            "of answers of rankwise ask.",
            show_default=False,
        ),
    ]
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .html, .csv, .json, .md or .txt file."
        ),
    ] = None
    format: Annotated[
        Literal["text", "markdown", "csv", "json", "html"], typer.Option(help="How to print it.")
    ] = "text"
    elo: Annotated[bool, typer.Option("--elo", help="Print scores on the scale of Elo.")] = False
    judges: Annotated[
        bool,
        typer.Option("--judges", help="Learn how reliable each judge is (column judge)."),
    ] = False
    clustered: Annotated[
        bool, typer.Option("--clustered", help="Let intervals allow for answers of one judge.")
    ] = False
    first: Annotated[
        bool, typer.Option("--first", help="Learn how much being shown first is worth.")
    ] = False
    half_life: Annotated[
        float | None, typer.Option(help="Days after which a comparison counts half; needs dates.")
    ] = None
    level: Annotated[
        float, typer.Option(help="Probability with which a score and a rank lie in the intervals.")
    ] = 0.9
    winner: ColumnOption = None
    loser: ColumnOption = None
    a: ColumnOption = None
    b: ColumnOption = None
    result: ColumnOption = None
    count: ColumnOption = None
    weight: ColumnOption = None
    judge: ColumnOption = None
    date: ColumnOption = None
    home: ColumnOption = None
    covariates: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Numbers that speak for the first item, with commas.",
            rich_help_panel=COLUMNS,
        ),
    ] = None


@final
@dataclass(frozen=True)
class ExportCommand:
    """Write a model for another engine, checked against its own scores.

    For example: rankwise export model -o model.onnx
    """

    model: ModelArgument
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
    ]
    format: Annotated[
        Literal["onnx", "solr", "elasticsearch", "opensearch", "ranklib", "vespa", "pmml"] | None,
        typer.Option(help="The engine; by default from the suffix .onnx or .pmml."),
    ] = None
    feature_names: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="How the engine calls the features, with commas."),
    ] = None
    precision: Annotated[
        Literal["double", "single"], typer.Option(help="Of the numbers in an ONNX file.")
    ] = "double"


@final
@dataclass(frozen=True, kw_only=True)
class ReportCommand(ItemsCommand):
    """Write a page about a model: measures with intervals, best and worst queries, features.

    For example: rankwise report model test.txt -o report.html
    """

    model: ModelArgument
    data: DataArgument
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ]
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure such as 'NDCG @ 10'; may be repeated.")
    ] = None
    beside: Annotated[
        list[Path] | None,
        typer.Option(metavar="MODEL", help="Another model to compare with; may be repeated."),
    ] = None


@final
@dataclass(frozen=True, kw_only=True)
class ExplainCommand(ItemsCommand):
    """Say why one item of a data file is above another, feature by feature.

    For example: rankwise explain model test.txt --item 3 --above 7
    """

    model: ModelArgument
    data: DataArgument
    item: Annotated[int, typer.Option(min=0, help="The row of the item, from 0.")] = 0
    above: Annotated[
        int | None,
        typer.Option(min=0, help="The row to compare with; the others of its query if left out."),
    ] = None


@final
@dataclass(frozen=True)
class ServeCommand:
    """Serve a model over HTTP: post the items of a query, get scores and order.

    For example: rankwise serve model --port 8000
    """

    model: ModelArgument
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8000
    max_items: Annotated[int, typer.Option(min=1, help="Items of one request, at most.")] = 10_000
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of one request, at most.")] = (
        16_000_000
    )


@final
@dataclass(frozen=True)
class WarmUpCommand:
    """Compile everything once, so that no later process has to: a minute or two.

    For example: rankwise warm-up --folder compiled (then set NUMBA_CACHE_DIR to that folder)
    """

    folder: Annotated[
        Path | None,
        typer.Option(help="Where compiled code goes; where it is looked for anyway if left out."),
    ] = None


@final
@dataclass(frozen=True)
class Demo:
    """Rank handwritten digits, next to regression on the scores: choose alpha, train, compare."""
