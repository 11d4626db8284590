"""Every command but fit, with its options. Nothing heavy is imported before a command runs."""

from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, final

from rankwise.apps.cli.options import (
    Codes,
    Command,
    Data,
    DataLayout,
    FeatureColumns,
    Group,
    HalfLife,
    ItemColumn,
    ItemsCommand,
    Json,
    Measure,
    Measures,
    Model,
    NewFile,
    Person,
    Positive,
    QidColumn,
    Tastes,
    Top,
    YColumn,
    argument,
    column,
    option,
    without,
)

DIVERSE = "Diverse rankings"
PortOption: TypeAlias = Annotated[
    int, option("The port; 0 picks a free one.", "NUMBER", min=0, max=65535)
]
OptionalFile: TypeAlias = Annotated[
    Path | None, option("A file to write; its suffix gives the format.", "FILE", "--output", "-o")
]


# Small samples


@dataclass(frozen=True, kw_only=True)
class SmallSampleCommand(ItemsCommand, ABC):
    """A command about a small sample, which RankRLS evaluates by exact hold-outs."""

    data: Data
    group: Group = None
    json: Json = False
    parameters: dict[str, Any]

    @property
    def layout(self) -> DataLayout:
        """How to read the data files: the column of groups is no feature."""
        return without(super().layout, self.group)


@final
@dataclass(frozen=True, kw_only=True)
class LeavePairOut(SmallSampleCommand):
    """Estimate the AUC on unseen items, with an interval, by leaving out every pair.

    For example: rankwise leave-pair-out patients.csv --y ill
    """

    level: Annotated[float, option("Confidence level of the interval.", "LEVEL")] = 0.95

    def run(self) -> None:
        from rankwise.apps.cli.jobs.samples import leave_pair_out

        leave_pair_out(self)


@final
@dataclass(frozen=True, kw_only=True)
class PermutationCommand(SmallSampleCommand):
    """Test whether there is anything to learn: shuffle the scores and learn again.

    For example: rankwise permutation-test patients.csv --y ill --alphas 1e-2:1e2:5
    """

    measure: Measure = None

    def run(self) -> None:
        from rankwise.apps.cli.jobs.samples import permutation_test

        permutation_test(self)


# Models


@final
@dataclass(frozen=True, kw_only=True)
class Predict(ItemsCommand):
    """Print a score for every item of a data file: higher is better inside a query.

    With -o the suffix decides what is written: .csv, .tsv, .parquet and .jsonl
    hold query, item, rank and score, .run is a TREC run, others hold one score per line.

    For example: rankwise predict model test.txt -o scores.csv
    """

    model: Model
    data: Data
    output: OptionalFile = None
    json: Json = False

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import predict

        predict(self)


@final
@dataclass(frozen=True, kw_only=True)
class RankCommand(ItemsCommand):
    """Rank the items of a data file: query by query, best first.

    With -o the suffix decides what is written: a .csv, .tsv, .parquet, .jsonl or .run file.

    For example: rankwise rank model test.csv --top 10 -o ranking.csv
    """

    model: Model
    data: Data
    output: OptionalFile = None
    top: Top = None
    json: Json = False
    sources: Annotated[
        str | None,
        option(
            "Put items of different sources first: a column of names (models of fit dorm).",
            "COLUMN",
            panel=DIVERSE,
        ),
    ] = None
    n_diverse: Annotated[
        int | None,
        option("How many positions hold different --sources.", "NUMBER", panel=DIVERSE, min=1),
    ] = None

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import rank

        rank(self)


@final
@dataclass(frozen=True, kw_only=True)
class Recommend(Command):
    """Recommend items to users, by a model of fit factorization or fit conditional.

    With -o and without --user, for all users. --ratings are ratings of new users, or newer ones,
    for whom the items stay as they were learned. A model of fit conditional takes features of new
    users (its conditions) and of new items instead.

    For example: rankwise recommend model --user u7 --top 5
    """

    model: Model
    user: Annotated[
        list[str] | None, option("The name of a user; may be repeated.", "NAME", "--user")
    ] = None
    ratings: Annotated[
        list[Path] | None,
        option("A table of ratings by new users; may be repeated.", "TABLE", "--ratings"),
    ] = None
    conditions: Annotated[
        Path | None,
        option("Of fit conditional: recommend to these, a table like that learned from.", "TABLE"),
    ] = None
    items: Annotated[
        Path | None, option("Of fit conditional: recommend these instead.", "TABLE")
    ] = None
    similar_to: Annotated[
        str | None, option("Print the items most like this one instead.", "ITEM", "--similar-to")
    ] = None
    top: Top = None
    output: OptionalFile = None
    json: Json = False

    def run(self) -> None:
        from rankwise.apps.cli.jobs.recommending import recommend

        recommend(self)


@final
@dataclass(frozen=True)
class Evaluate(Command):
    """Measure how well scores rank the items of a data file.

    For example: rankwise evaluate test.txt scores.txt --measure "NDCG @ 10" --measure AP
    """

    data: Data
    scores: Annotated[
        Path,
        argument(
            "Scores from rankwise predict. Files with names (.csv, .tsv, .parquet, .jsonl, .run) "
            "are matched by name; others hold one score per line, in the order of DATA.",
            "SCORES",
        ),
    ]
    measure: Measures = None
    preset: Annotated[
        str | None, option("Follow scikit-learn, lightgbm, xgboost or trec_eval.", "TOOL")
    ] = None
    per_query: Annotated[
        Path | None, option("A CSV, TSV or Parquet file for the values per query.", "TABLE")
    ] = None
    json: Json = False
    y: YColumn = None
    positive: Positive = None
    qid: QidColumn = None
    item: ItemColumn = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data file: only scores, queries and names, not features."""
        return DataLayout(self.y, self.qid, item=self.item, positive=self.positive)

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import evaluate

        evaluate(self)


@final
@dataclass(frozen=True, kw_only=True)
class ExplainCommand(ItemsCommand):
    """Say why one item of a data file is above another, feature by feature.

    For example: rankwise explain model test.txt --row 3 --above 7
    """

    model: Model
    data: Data
    row: Annotated[str, option("The item: its row, from 0, or its name.", "ROW")] = "0"
    above: Annotated[
        str | None,
        option("The item to compare with; by default the rest of the query.", "ROW"),
    ] = None
    json: Json = False

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import explain

        explain(self)


@final
@dataclass(frozen=True, kw_only=True)
class ReportCommand(ItemsCommand):
    """Write a page about a model: measures with intervals, best and worst queries, features.

    For example: rankwise report model test.txt -o report.html
    """

    model: Model
    data: Data
    output: NewFile
    measure: Measures = None
    beside: Annotated[
        list[Path] | None, option("Another model to compare with; may be repeated.", "MODEL")
    ] = None

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import report

        report(self)


@final
@dataclass(frozen=True, kw_only=True)
class ExportCommand(Command):
    """Write a model for another engine, and check it against the model's own scores.

    For example: rankwise export model -o model.onnx
    """

    model: Model
    output: NewFile
    feature_names: Annotated[
        str | None, option("Names of the features in the engine, separated by commas.", "NAMES")
    ] = None
    parameters: dict[str, Any]

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import export

        export(self)


@final
@dataclass(frozen=True)
class ServeCommand(Command):
    """Serve a model over HTTP: post the items of a query, get scores and order.

    For example: rankwise serve model --port 8000
    """

    model: Model
    host: Annotated[str, option("The address to listen on.", "ADDRESS")] = "127.0.0.1"
    port: Annotated[int, option("The port.", "NUMBER", min=1, max=65535)] = 8000
    max_items: Annotated[int, option("Maximum number of items in a request.", "NUMBER", min=1)] = (
        10_000
    )
    max_bytes: Annotated[int, option("Maximum size of a request in bytes.", "NUMBER", min=1)] = (
        16_000_000
    )
    timeout: Annotated[
        float, option("Seconds within which header and body of a request must arrive.", "SECONDS")
    ] = 30.0

    def run(self) -> None:
        from rankwise.apps.cli.jobs.models import serve

        serve(self)


# Comparisons

AnswerLevel: TypeAlias = Annotated[
    float, option("Probability that a score, or a rank, lies in its interval.", "LEVEL")
]


@final
@dataclass(frozen=True)
class Prefer(Command):
    """Rank items from comparisons, say how sure each rank is, and suggest what to ask next.

    For example: rankwise prefer hotels.csv answers.csv --ask 3
    """

    items: Annotated[
        Path,
        argument(
            "A table (CSV, TSV, Parquet) with a name and features for each item; or the answers "
            "file of rankwise ask, which holds the items too.",
            "ITEMS",
        ),
    ]
    answers: Annotated[
        Path | None,
        argument(
            "A table of the comparisons: columns winner and loser, with names of items; or the "
            "answers file of rankwise ask.",
            "ANSWERS",
        ),
    ] = None
    ask: Annotated[int, option("How many questions to suggest.", "NUMBER", min=0)] = 1
    goal: Annotated[
        str, option("What to find: 'order', 'best', or 'top K' such as 'top 5'.", "GOAL")
    ] = "order"
    robust: Annotated[bool, option("Allow for answers recorded the wrong way round.")] = True
    logistic: Annotated[
        bool,
        option("Scores are log-odds (Bradley-Terry); implies --no-robust.", None, "--logistic"),
    ] = False
    interactions: Annotated[
        bool,
        option(
            "Let boosted trees of differences of features take part, if held-out answers become "
            "likelier by them."
        ),
    ] = True
    level: AnswerLevel = 0.9
    top: Top = None
    json: Json = False
    item: Annotated[
        str | None, column("Column of the names in ITEMS, if not the first one.", "--item")
    ] = None
    features: FeatureColumns = None
    tied: Annotated[
        str | None,
        column("Column of ANSWERS that is 1 where neither was preferred, if not tied."),
    ] = None
    codes: Codes = None
    judge: Annotated[
        str | None,
        column(
            "Column of ANSWERS that says who answered, if not judge. With several judges, how "
            "reliable each is and how often each ties are learned and printed."
        ),
    ] = None
    tastes: Tastes = False
    person: Person = None
    drift: Annotated[bool, option("Scores change with time; needs dates.", None, "--drift")] = False
    half_life: HalfLife = None
    date: Annotated[
        str | None, column("Column of ANSWERS with dates or numbers of days, if not date.")
    ] = None

    @property
    def answer_file(self) -> Path:
        """The file of the answers: a separate one, or that of the items."""
        return self.items if self.answers is None else self.answers

    def run(self) -> None:
        from rankwise.apps.cli.jobs.comparisons import prefer

        prefer(self)


@final
@dataclass(frozen=True)
class Ask(Command):
    """Rank anything by answering "which is better?" in a browser, alone or with others.

    For example: rankwise ask photos/ --goal "top 5"
    """

    items: Annotated[
        Path,
        argument(
            "A table (CSV, TSV, Parquet) with a row per item, a folder of images or texts, or an "
            "answers file to open again.",
            "ITEMS",
        ),
    ]
    answers: Annotated[
        Path | None,
        option(
            "File for the answers, by default next to ITEMS; an existing one is continued.", "FILE"
        ),
    ] = None
    goal: Annotated[
        str | None,
        option(
            "What to find: 'order', 'best', or 'top K' such as 'top 5'; by default what this file "
            "was opened with, or 'order'.",
            "GOAL",
        ),
    ] = None
    confidence: Annotated[
        float | None,
        option(
            "The certainty at which the goal counts as reached; by default likewise, or 0.9.",
            "LEVEL",
        ),
    ] = None
    question: Annotated[
        str | None, option("What to ask, instead of 'Which is better?'.", "TEXT")
    ] = None
    hide_names: Annotated[
        bool | None,
        option("Show images and texts without names.", None, "--hide-names/--show-names"),
    ] = None
    hide_ranking: Annotated[
        bool | None,
        option(
            "Show no ranking on the page: it may influence answers.",
            None,
            "--hide-ranking/--show-ranking",
        ),
    ] = None
    repeats: Annotated[
        bool, option("Ask one person the same question more than once.", None, "--repeats")
    ] = False
    host: Annotated[
        str, option("The address to listen on; any but localhost needs a token.", "ADDRESS")
    ] = "127.0.0.1"
    port: PortOption = 0
    browser: Annotated[bool, option("Open the page in a browser.")] = True
    export: Annotated[
        Path | None,
        option("Write the answers so far to a CSV, TSV or Parquet file, and ask nothing.", "TABLE"),
    ] = None

    @property
    def answer_file(self) -> Path:
        """Where the answers are kept."""
        if self.answers is not None:
            return self.answers
        name = self.items.resolve().name if self.items.is_dir() else self.items.stem
        return self.items.resolve().parent / f"{name}.answers.db"

    def run(self) -> None:
        from rankwise.apps.cli.jobs.ask import ask

        ask(self)


COLUMNS = "Columns, if they have other names"
Column: TypeAlias = Annotated[str | None, option("", "COLUMN", panel=COLUMNS, show_default=False)]


@final
@dataclass(frozen=True, kw_only=True)
class LeaderboardCommand(Command):
    """Rank names from who beat whom: scores and ranks with intervals.

    With -o the suffix decides what is written: .html is a page with a figure and a
    table of who beats whom; .csv, .json, .md and .txt are tables. How the table was read is
    said on standard error.

    For example: rankwise leaderboard battles.csv -o board.html
    """

    comparisons: Annotated[
        Path,
        argument(
            "A table (CSV, TSV, JSON, Parquet, Excel): winner and loser, or a, b and who won; a "
            "row for each item of a match, with its score, result or rank; a square table of wins; "
            "rankings (rank1, rank2, ... or person, item, rank), or item1, item2, ... with best "
            "and worst; orders of PrefLib; or the answers file of rankwise ask.",
            "COMPARISONS",
        ),
    ]
    output: OptionalFile = None
    format: Annotated[
        Literal["text", "markdown", "csv", "json", "html"],
        option("How to print it.", "text|markdown|csv|json|html"),
    ] = "text"
    json: Json = False
    top: Top = None
    audit: Annotated[
        bool,
        option(
            "Say which claims of the order the answers carry, and flag defects.", None, "--audit"
        ),
    ] = False
    elo: Annotated[bool, option("Print scores on the scale of Elo.", None, "--elo")] = False
    tastes: Tastes = False
    person: Person = None
    persons: Annotated[
        Path | None,
        option(
            "With --tastes: a table of judges, names first, then features as numbers. Judges "
            "without answers get an order too.",
            "FILE",
        ),
    ] = None
    skip_bad: Annotated[
        bool, option("Leave out rows that cannot be read, and count them.", None, "--skip-bad")
    ] = False
    winner: Column = None
    loser: Column = None
    a: Column = None
    b: Column = None
    result: Column = None
    match: Column = None
    item: Column = None
    codes: Codes = None
    favours: Annotated[
        Literal["a", "b"] | None,
        option(
            "Whom positive numbers favour, if results are numbers around 0.", "a|b", panel=COLUMNS
        ),
    ] = None
    middle: Annotated[
        float,
        option(
            "With --favours: the number that favours nobody, such as 4 of 1 to 7.",
            "NUMBER",
            panel=COLUMNS,
        ),
    ] = 0.0
    points: Annotated[
        str | None,
        option(
            "Columns of the points of a and of b, separated by a comma, instead of a result.",
            "COLUMNS",
            panel=COLUMNS,
        ),
    ] = None
    count: Column = None
    weight: Column = None
    judge: Column = None
    date: Column = None
    home: Column = None
    covariates: Annotated[
        str | None,
        option(
            "Columns of covariates, positive for the first item, or what two columns have in "
            "common (length of length_a and length_b), separated by commas.",
            "COLUMNS",
            panel=COLUMNS,
        ),
    ] = None
    control: Annotated[
        str | None,
        option(
            "What two columns of sizes have in common, such as tokens of tokens_a and tokens_b: "
            "scores are controlled for (a - b) / (a + b).",
            "COLUMNS",
            panel=COLUMNS,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        option(
            "Column whose answers depend on each other, such as question: intervals allow for it.",
            "COLUMN",
            panel=COLUMNS,
        ),
    ] = None
    by: Annotated[
        str | None,
        option(
            "Column of categories, such as language: a leaderboard for each, too.",
            "COLUMN",
            panel=COLUMNS,
        ),
    ] = None
    workers: Annotated[
        int | None,
        option(
            "COMPARISONS is a pattern of many files ('part-*.parquet'), counted by this number of "
            "processes.",
            "NUMBER",
            min=1,
        ),
    ] = None
    parameters: dict[str, Any]

    def run(self) -> None:
        from rankwise.apps.cli.jobs.comparisons import leaderboard

        if self.workers is None:
            leaderboard(self)
            return
        from rankwise.apps.cli.jobs.counting import count_files

        leaderboard(self, count_files)


@final
@dataclass(frozen=True)
class Demo(Command):
    """Rank handwritten digits, and compare with plain regression on the scores."""

    def run(self) -> None:
        from rankwise.apps.cli.jobs.first_steps import demo

        demo()
