"""The commands after fit: what is read and written by hand, parameters from the rankers' own.

The options of rankers come from ``parameters.json``. Nothing heavy is imported before a fit runs.
"""

from abc import ABC
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, final

from rankwise.apps.cli.options import (
    CHOICE,
    FORMATS,
    PREFERENCES,
    TABLES,
    Codes,
    Command,
    DataLayout,
    Group,
    ItemsCommand,
    Json,
    Measure,
    NewModel,
    argument,
    column,
    column_names,
    option,
    without,
)

CLUSTER = "Cluster"
STREAM = "Larger than memory"

PairsTable: TypeAlias = Annotated[
    Path | None,
    option(
        "Learn from comparisons, not scores: columns winner and loser with names of items, or row "
        "numbers of TRAIN from 0; optionally margin, weight and count.",
        "TABLE",
        panel=PREFERENCES,
    ),
]
NewTable: TypeAlias = Annotated[
    Path | None, option("Write the best items of each to a table.", "TABLE")
]
Number: TypeAlias = Annotated[
    int | None, option("How many of the best to write.", "NUMBER", "--top", min=1)
]
Table: TypeAlias = Annotated[Path, argument("A table (CSV, TSV, Parquet, Excel).", "TABLE")]
ItemNames: TypeAlias = Annotated[str, column("Column of the items.")]


@dataclass(frozen=True, kw_only=True)
class FitCommand(ItemsCommand, ABC):
    """The files that every fit reads and writes, and the texts given for parameters by name."""

    train: Annotated[
        list[Path],
        argument(f"The training data, files or patterns (part-*.csv): {FORMATS}", "TRAIN..."),
    ]
    output: NewModel
    json: Json = False
    validate: Annotated[
        Path | None,
        option("Validation data, on which parameters are chosen.", "DATA", panel=CHOICE),
    ] = None
    measure: Measure = None
    parameters: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RawCommand(FitCommand, ABC):
    """A fit that learns from text and blanks too."""

    categories: Annotated[
        str | None,
        option(
            "Columns of numbers that are categories, such as brand_id.", "COLUMN,...", panel=TABLES
        ),
    ] = None

    time: Annotated[
        str | None,
        column("Column of dates: choose and measure on later queries than were learned from."),
    ] = None

    folds_by: Annotated[
        str | None,
        column("Column of what must be new in held-out queries, such as the item or the user."),
    ] = None

    monotone: Annotated[
        str | None,
        option(
            "Features in which scores may only rise (1) or fall (-1), such as price=-1.",
            "FEATURE=1,...",
            panel=CHOICE,
        ),
    ] = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data files: columns of dates and of what must be new are no features."""
        layout = without(super().layout, self.time)
        roles = [name.casefold() for name in (layout.qid, layout.item) if name is not None]
        if self.folds_by is not None and self.folds_by.casefold() not in roles:
            layout = without(layout, self.folds_by)
        return replace(layout, categories=column_names(self.categories) or ())


@dataclass(frozen=True, kw_only=True)
class GroupCommand(FitCommand, ABC):
    """A fit that can hold out groups of items of one global ranking."""

    group: Group = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data files: the column of groups is no feature."""
        return without(super().layout, self.group)


@dataclass(frozen=True, kw_only=True)
class ClusterCommand(FitCommand, ABC):
    """A fit that can also run on the workers of a Dask cluster."""

    workers: Annotated[
        int | None,
        option(
            "Start this many processes on this machine, which read the files that match a pattern "
            '("part-*.parquet") themselves; linear rankers only.',
            "NUMBER",
            panel=CLUSTER,
            min=1,
        ),
    ] = None
    cluster: Annotated[
        str | None,
        option(
            "Use the Dask cluster of this scheduler, such as tcp://host:8786, in the same way.",
            "ADDRESS",
            panel=CLUSTER,
        ),
    ] = None

    @property
    def is_on_cluster(self) -> bool:
        """Whether workers read the files."""
        return self.workers is not None or self.cluster is not None


@dataclass(frozen=True, kw_only=True)
class PairsCommand(FitCommand, ABC):
    """A fit that learns from comparisons too."""

    pairs: PairsTable = None
    codes: Codes = None


@dataclass(frozen=True, kw_only=True)
class JudgedPairsCommand(PairsCommand, ABC):
    """A fit whose choices comparisons can judge."""

    pairs_val: Annotated[
        Path | None,
        option(
            "Comparisons of items of TRAIN that decide on what is to be chosen, with --pairs.",
            "TABLE",
            panel=PREFERENCES,
        ),
    ] = None


@final
@dataclass(frozen=True, kw_only=True)
class Fit(RawCommand, GroupCommand, ClusterCommand):
    """Find a good ranker for raw features, say how good it is, and save it.

    With queries this is AutoRanker: it tries linear and kernel rankers and trees,
    adds up those that are better together by NDCG @ 10, and prints a value on data
    that no choice has seen. With --workers or --cluster it tries linear rankers.
    Without queries, or with --validate, it is a linear RankRLS with the best alpha,
    judged by leaving out each pair of items. With --for it is the better one of
    trees and a linear ranker, which engines can run.

    For example: rankwise fit train.txt -o model
    """

    engine: Annotated[
        Literal["elasticsearch", "opensearch", "solr", "vespa", "ranklib", "xgboost", "lightgbm"]
        | None,
        option(
            "Choose among what this engine can run, and say what that costs: elasticsearch, "
            "opensearch, solr, vespa, ranklib, xgboost or lightgbm.",
            "ENGINE",
            "--for",
        ),
    ] = None

    def run(self) -> None:
        if self.engine is not None:
            from rankwise.apps.cli.jobs.fits.engines import fit_for_engine

            fit_for_engine(self)
        elif self.is_on_cluster:
            from rankwise.apps.cli.jobs.fits.cluster import fit as fit_there

            fit_there(self)
        else:
            from rankwise.apps.cli.jobs.fits.automatic import fit

            fit(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitAuto(RawCommand):
    """Try all families on raw features, add up those that are better together, and save the sum.

    The ranker is AutoRanker: scaling, ranks inside queries, linear and kernel
    rankers and trees. The printed value comes from queries that no choice has seen.

    For example: rankwise fit auto train.csv -o model --time-budget 60
    """

    def run(self) -> None:
        from rankwise.apps.cli.jobs.fits.automatic import fit_auto

        fit_auto(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitRLS(JudgedPairsCommand, GroupCommand, ClusterCommand):
    """Train RankRLS: least squares on differences of scores, in closed form.

    A grid of --alphas is judged by exact hold-outs of queries, pairs of items
    or comparisons, or on the data of --validate.

    For example: rankwise fit rls train.txt -o model --kernel gaussian --alphas 1e-3:1e3:7
    """

    def run(self) -> None:
        if self.is_on_cluster:
            from rankwise.apps.cli.jobs.fits.cluster import fit_rls as fit_there

            fit_there(self)
        else:
            from rankwise.apps.cli.jobs.fits.pairwise import fit_rls

            fit_rls(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitGreedy(PairsCommand):
    """Train GreedyRankRLS: RankRLS on few features, chosen one after another.

    Each step takes the feature with the least error on queries, pairs of items
    or comparisons that are left out.

    For example: rankwise fit greedy train.txt -o model --n-features 10
    """

    def run(self) -> None:
        from rankwise.apps.cli.jobs.fits.pairwise import fit_greedy

        fit_greedy(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitLinear(JudgedPairsCommand, ClusterCommand):
    """Train LinearRankRLS: conjugate gradients on large or sparse data, even beyond memory.

    A grid of --alphas is learned in one run and judged on the data of
    --validate, or on a tenth of the queries, items or comparisons, held out.

    For example: rankwise fit linear huge.txt.gz -o model --stream --memory 1G
    """

    stream: Annotated[
        bool,
        option(
            "Read TRAIN (svmlight, Parquet) in parts that fit in --memory.",
            None,
            "--stream",
            panel=STREAM,
        ),
    ] = False
    memory: Annotated[
        str | None,
        option(
            "Memory for the rows of --stream, such as 512M or 2G; by default 256M.",
            "SIZE",
            panel=STREAM,
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        option(
            "Folder for the binary copy that --stream iterates over; should be on a disk.",
            "FOLDER",
            panel=STREAM,
        ),
    ] = None

    def run(self) -> None:
        if self.is_on_cluster:
            from rankwise.apps.cli.jobs.fits.cluster import fit_linear as fit_there

            fit_there(self)
        else:
            from rankwise.apps.cli.jobs.fits.pairwise import fit_linear

            fit_linear(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitSVM(PairsCommand):
    """Train RankSVM: the hinge loss over all pairs, to a certified gap.

    A grid of --Cs is judged on the data of --validate.

    For example: rankwise fit svm train.txt -o model --Cs 0.01,0.1,1 --validate vali.txt
    """

    def run(self) -> None:
        from rankwise.apps.cli.jobs.fits.pairwise import fit_svm

        fit_svm(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitKPCRank(JudgedPairsCommand):
    """Train KPCRank: least squares on the leading kernel principal components.

    With --max-components their number is chosen by leaving out each query, or
    folds of items or comparisons if there are no queries, or on the data of
    --validate or --pairs-val.

    For example: rankwise fit kpcrank train.txt -o model --max-components 100
    """

    def run(self) -> None:
        from rankwise.apps.cli.jobs.fits.pairwise import fit_kpcrank

        fit_kpcrank(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitDORM(FitCommand):
    """Train DORM: a bound on NDCG, precision or another measure, minimised to a certified gap.

    A grid of --Cs is judged by five folds of queries, or on the data of
    --validate, by the objective unless --measure names another measure.

    With --sources it is trained for rankings whose first items have different
    sources; rank --sources makes them.

    For example: rankwise fit dorm train.txt -o model --objective NDCG --Cs 8 --measure "NDCG @ 10"
    """

    sources: Annotated[
        str | None,
        column("Column of the sources of items: the first --n-diverse of a ranking differ."),
    ] = None

    @property
    def layout(self) -> DataLayout:
        """How to read the data files: the column of sources is no feature."""
        return without(super().layout, self.sources)

    def run(self) -> None:
        from rankwise.apps.cli.jobs.fits.listwise import fit_dorm

        fit_dorm(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitFactorization(Command):
    """Train RankingFactorization: recommend items to users, from their ratings.

    The table has a row per rating: a user, an item and a number, higher is better; or a row per
    choice, such as a purchase, without a number. A share of every user's ratings is set aside
    first, and what a model of the others is worth on them is printed.

    For example: rankwise fit factorization ratings.csv -o model
    """

    ratings: Annotated[
        list[Path],
        argument("Tables, files or patterns (CSV, TSV, Parquet, Excel).", "RATINGS..."),
    ]
    output: NewModel
    user: Annotated[str | None, column("Column of the users, if not user, userId, ...")] = None
    item: Annotated[
        str | None, column("Column of the items, if not item, movieId, product, ...", "--item")
    ] = None
    rating: Annotated[
        str | None, column("Column of the ratings, if not rating, stars, score, ...")
    ] = None
    count: Annotated[
        str | None,
        column("Column that says how often an item was chosen, if not plays, clicks, ..."),
    ] = None
    held_out: Annotated[
        float, option("Share of every user's ratings to measure the model on; 0 for none.", "SHARE")
    ] = 0.2
    recommend: NewTable = None
    top: Number = None
    json: Json = False
    parameters: dict[str, Any]

    def run(self) -> None:
        from rankwise.apps.cli.jobs.recommending import fit_factorization

        fit_factorization(self)


@final
@dataclass(frozen=True, kw_only=True)
class FitConditional(Command):
    """Train ConditionalRankRLS: rank items for each condition, including new ones of both.

    The table has a row per known pair (a condition, an item and a number) or per
    comparison (a condition, a winner and a loser). --conditions and --items hold
    the features.

    For example: rankwise fit conditional scores.csv --conditions drugs.csv --items targets.csv -o m
    """

    scores: Table
    output: NewModel
    conditions: Annotated[Path, option("Names and features of the conditions.", "TABLE")]
    items: Annotated[Path | None, option("Names and features of the items.", "TABLE")] = None
    condition: Annotated[str, column("Column of the conditions.")] = "condition"
    item: ItemNames = "item"
    score: Annotated[str, column("Column of the scores.")] = "score"
    measure: Measure = None
    rankings: NewTable = None
    top: Number = None
    new_conditions: Annotated[
        Path | None, option("Rank for these conditions in --rankings instead.", "TABLE")
    ] = None
    new_items: Annotated[
        Path | None, option("Rank these items in --rankings instead.", "TABLE")
    ] = None
    json: Json = False
    parameters: dict[str, Any]

    def run(self) -> None:
        from rankwise.apps.cli.jobs.fits.conditional import fit_conditional

        fit_conditional(self)
