"""Every command but fit, with its options. Nothing heavy is imported here."""

from abc import ABC
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, final

import typer

from rankwise.apps.cli.options import (
    DIVERSE,
    GRID,
    CodesOption,
    Coef0Option,
    DataArgument,
    DataLayout,
    DegreeOption,
    FeatureColumns,
    GammaOption,
    ItemColumn,
    ItemsCommand,
    Json,
    KernelOption,
    MeasureOption,
    ModelArgument,
    QidColumn,
    RandomStateOption,
    YColumn,
    column_names,
)


@dataclass(frozen=True, kw_only=True)
class SmallSampleCommand(ItemsCommand, ABC):
    """A command about a small sample, which RankRLS evaluates by exact hold-outs."""

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

    job: ClassVar = "samples.leave_pair_out"
    alpha: Annotated[float, typer.Option(help="Regularisation strength, chosen in advance.")] = 1.0
    confidence: Annotated[float, typer.Option(help="Confidence level of the interval.")] = 0.95


@final
@dataclass(frozen=True, kw_only=True)
class PermutationCommand(SmallSampleCommand):
    """Test whether there is anything to learn: shuffle the scores and learn again.

    For example: rankwise permutation-test patients.csv --y ill --alphas 1e-2:1e2:5
    """

    job: ClassVar = "samples.permutation_test"
    alphas: Annotated[
        str,
        typer.Option(metavar="GRID", help=f"Alphas to choose from, for every shuffle too: {GRID}."),
    ] = "1"
    measure: MeasureOption = None
    n_permutations: Annotated[int, typer.Option(min=1, help="Number of shuffles.")] = 999
    random_state: RandomStateOption = 0


@dataclass(frozen=True, kw_only=True)
class NamedItemsCommand(ItemsCommand, ABC):
    """A command that identifies items by their names, if they have any."""

    item: ItemColumn = None

    @property
    def named_layout(self) -> DataLayout:
        """How to read the data file, with the names of its items."""
        return replace(self.layout, item=self.item)


@final
@dataclass(frozen=True, kw_only=True)
class Predict(NamedItemsCommand):
    """Print a score for every item of a data file: higher is better inside a query.

    With -o the suffix decides what is written: .csv, .tsv, .parquet and .jsonl
    hold query, item, rank and score, .run is a TREC run, others hold one score per line.

    For example: rankwise predict model test.txt -o scores.csv
    """

    job: ClassVar = "models.predict"
    model: ModelArgument
    data: DataArgument
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A file for the scores; by default standard output, one score per line.",
        ),
    ] = None


@final
@dataclass(frozen=True, kw_only=True)
class RankCommand(NamedItemsCommand):
    """Rank the items of a data file: query by query, best first.

    For example: rankwise rank model test.csv --top 10 -o ranking.csv
    """

    job: ClassVar = "models.rank"
    model: ModelArgument
    data: DataArgument
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .tsv, .parquet, .jsonl or .run file; by default a table is printed.",
        ),
    ] = None
    top: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Keep only the best of each query.")
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

    job: ClassVar = "models.evaluate"
    data: DataArgument
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="Scores from rankwise predict. Files with names (.csv, .tsv, .parquet, .jsonl, "
            ".run) are matched by name; others hold one score per line, in the order of DATA.",
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
        typer.Option(metavar="TABLE", help="A CSV, TSV or Parquet file for the values per query."),
    ] = None
    json: Json = False
    y: YColumn = None
    qid: QidColumn = None
    item: ItemColumn = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data file: only scores, queries and names, not features."""
        return DataLayout(self.y, self.qid, item=self.item)


@final
@dataclass(frozen=True)
class Prefer:
    """Rank items from comparisons, say how sure each rank is, and suggest what to ask next.

    For example: rankwise prefer hotels.csv answers.csv --ask 3
    """

    job: ClassVar = "comparisons.prefer"
    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="A table (CSV, TSV, Parquet) with a name and features for each item; or "
            "the answers file of rankwise ask, which holds the items too.",
            show_default=False,
        ),
    ]
    answers: Annotated[
        Path | None,
        typer.Argument(
            metavar="ANSWERS",
            help="A table of the comparisons: columns winner and loser, with names of items; or "
            "the answers file of rankwise ask.",
            show_default=False,
        ),
    ] = None
    ask: Annotated[int, typer.Option(min=0, help="How many questions to suggest.")] = 1
    goal: Annotated[
        Literal["order", "best", "top"],
        typer.Option(help="What to find: the whole order, the best item, or the best K."),
    ] = "order"
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Number of best items, for --goal top.")
    ] = None
    robust: Annotated[
        bool, typer.Option(help="Allow for answers recorded the wrong way round.")
    ] = True
    logistic: Annotated[
        bool, typer.Option(help="Scores are log-odds (Bradley-Terry); implies --no-robust.")
    ] = False
    level: Annotated[float, typer.Option(help="Probability that a rank lies in its interval.")] = (
        0.9
    )
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
    codes: CodesOption = None
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of ANSWERS that says who answered, if not judge. With several judges, how "
            "reliable each is and how often each ties are learned and printed.",
        ),
    ] = None
    tastes: Annotated[
        bool, typer.Option("--tastes", help="Learn an order for every judge, around a common one.")
    ] = False
    person: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --tastes: the judge whose order is printed."),
    ] = None
    drift: Annotated[
        bool, typer.Option("--drift", help="Scores change with time; needs dates.")
    ] = False
    half_life: Annotated[
        float | None,
        typer.Option(help="Days after which the weight of an answer is halved; needs dates."),
    ] = None
    date: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of ANSWERS with dates or numbers of days, if not date.",
        ),
    ] = None

    @property
    def answer_file(self) -> Path:
        """The file of the answers: a separate one, or that of the items."""
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

    job: ClassVar = "ask.ask"
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
            help="File for the answers, by default next to ITEMS; an existing one is continued.",
        ),
    ] = None
    goal: Annotated[
        str, typer.Option(help="What to find: 'order', 'best', or 'top K' such as 'top 5'.")
    ] = "order"
    confidence: Annotated[
        float, typer.Option(help="The certainty at which the goal counts as reached.")
    ] = 0.9
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Ask one person the same question more than once.")
    ] = False
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but localhost needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 0
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


COLUMNS = "Columns, if they have other names"
ColumnOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", rich_help_panel=COLUMNS, show_default=False)
]


@final
@dataclass(frozen=True)
class LeaderboardCommand:
    """Rank names from who beat whom: scores and ranks with intervals.

    With -o the suffix decides what is written: .html is a page with a figure and a
    table of who beats whom; .csv, .json and .md are tables.

    For example: rankwise leaderboard battles.csv -o board.html
    """

    job: ClassVar = "comparisons.leaderboard"
    comparisons: Annotated[
        Path,
        typer.Argument(
            metavar="COMPARISONS",
            help="A table (CSV, TSV, Parquet): winner and loser, or a, b and who won; rankings "
            "(rank1, rank2, ... or person, item, rank), or item1, item2, ... with best and worst; "
            "or the answers file of rankwise ask.",
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
        bool,
        typer.Option("--clustered", help="Allow for dependent answers of a judge in intervals."),
    ] = False
    tastes: Annotated[
        bool, typer.Option("--tastes", help="Learn an order for every judge, around a common one.")
    ] = False
    person: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --tastes: the judge whose order is printed."),
    ] = None
    persons: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --tastes: a table of judges, names first, then features as numbers. Judges "
            "without answers get an order too.",
        ),
    ] = None
    first: Annotated[
        bool, typer.Option("--first", help="Learn the effect of being shown first.")
    ] = False
    half_life: Annotated[
        float | None,
        typer.Option(help="Days after which the weight of a comparison is halved; needs dates."),
    ] = None
    level: Annotated[
        float, typer.Option(help="Probability that a score, or a rank, lies in its interval.")
    ] = 0.9
    winner: ColumnOption = None
    loser: ColumnOption = None
    a: ColumnOption = None
    b: ColumnOption = None
    result: ColumnOption = None
    codes: CodesOption = None
    points: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns of the points of a and of b, separated by a comma, instead of a result.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    count: ColumnOption = None
    weight: ColumnOption = None
    judge: ColumnOption = None
    date: ColumnOption = None
    home: ColumnOption = None
    covariates: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns of covariates, positive for the first item, separated by commas.",
            rich_help_panel=COLUMNS,
        ),
    ] = None


@final
@dataclass(frozen=True)
class ExportCommand:
    """Write a model for another engine, and check it against the model's own scores.

    For example: rankwise export model -o model.onnx
    """

    job: ClassVar = "models.export"
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
        typer.Option(
            metavar="NAMES", help="Names of the features in the engine, separated by commas."
        ),
    ] = None
    precision: Annotated[
        Literal["double", "single"], typer.Option(help="Precision of the numbers in an ONNX file.")
    ] = "double"


@final
@dataclass(frozen=True, kw_only=True)
class ReportCommand(ItemsCommand):
    """Write a page about a model: measures with intervals, best and worst queries, features.

    For example: rankwise report model test.txt -o report.html
    """

    job: ClassVar = "models.report"
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

    job: ClassVar = "models.explain"
    model: ModelArgument
    data: DataArgument
    item: Annotated[int, typer.Option(min=0, help="The row of the item, from 0.")] = 0
    above: Annotated[
        int | None,
        typer.Option(min=0, help="The row to compare with; by default the rest of the query."),
    ] = None


@final
@dataclass(frozen=True)
class ServeCommand:
    """Serve a model over HTTP: post the items of a query, get scores and order.

    For example: rankwise serve model --port 8000
    """

    job: ClassVar = "models.serve"
    model: ModelArgument
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8000
    max_items: Annotated[int, typer.Option(min=1, help="Maximum number of items in a request.")] = (
        10_000
    )
    max_bytes: Annotated[int, typer.Option(min=1, help="Maximum size of a request in bytes.")] = (
        16_000_000
    )
    timeout: Annotated[
        float, typer.Option(help="Seconds within which header and body of a request must arrive.")
    ] = 30.0


@final
@dataclass(frozen=True)
class Demo:
    """Rank handwritten digits, and compare with plain regression on the scores."""

    job: ClassVar = "first_steps.demo"
