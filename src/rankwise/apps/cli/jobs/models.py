"""Jobs about a saved model and its scores: predict, rank, evaluate, explain, report, export, serve.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import rankwise
from rankwise.apps.cli.commands import (
    Evaluate,
    ExplainCommand,
    ExportCommand,
    Predict,
    RankCommand,
    ReportCommand,
    ServeCommand,
)
from rankwise.apps.cli.jobs.files import (
    check_target,
    columns_chosen,
    given_scores,
    is_table,
    load_ranker,
    named,
    read_data,
    read_data_of,
    read_words,
)
from rankwise.apps.cli.jobs.parameters import is_watched, refuse_alone, values_of
from rankwise.apps.cli.jobs.recommending import report_of_ratings, scored
from rankwise.apps.cli.options import DataLayout, column_names
from rankwise.apps.cli.output import counted, print_json, print_table
from rankwise.core.arrays import FloatArray
from rankwise.core.checks import hint
from rankwise.core.display import decimals
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.io.data import ColumnNames, RankingData
from rankwise.io.files import format_suffix
from rankwise.io.model_file import looks_like_model
from rankwise.io.rankings import (
    RANKING_SUFFIXES,
    RankedItems,
    read_ranked,
    read_scores,
    write_scores,
)
from rankwise.io.ratings import RatingColumns
from rankwise.io.reading import files_of
from rankwise.io.tables.reading import open_table, write_table
from rankwise.measures.evaluation import Evaluation
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.base import Ranker
from rankwise.rankers.storage import load

DEFAULT_DIVERSE = 10


# Predict and rank


def predict(command: Predict) -> None:
    """Write the scores to a file, or to standard output."""
    check_target(command.output, command.model, *command.data)
    ranked = _scored(command)
    if command.output is None and command.json:
        print_json({name: values.tolist() for name, values in ranked.to_dict().items()})
        return
    if command.output is None:
        write_scores(sys.stdout, ranked.scores)
        return
    if format_suffix(command.output) in RANKING_SUFFIXES:
        ranked.write(command.output)
    else:
        write_scores(command.output, ranked.scores)
    print(f"{counted(len(ranked), 'score', 'scores')} written to {command.output}.")


def _scored(command: Predict | RankCommand) -> RankedItems:
    """Score the items; match the columns of a table by name, if the model has feature names."""
    ranker = load(command.model)
    if not isinstance(ranker, Ranker):
        return scored(ranker, command)
    data = read_data_of(ranker, command.data, command.layout, find_items=True)
    if isinstance(command, RankCommand) and data.qid is None and ranker.fitted_with_qid_:
        raise InvalidInputError(
            f"{named(command.data)} must name queries, as the data of {command.model} did: scores "
            "are comparable only within a query. Name the column with --qid; for a single query, "
            "add one that is the same in all rows."
        )
    with columns_chosen():
        scores = ranker.predict(data.X, qid=data.qid)
    return RankedItems.of(scores, data.qid, data.items)


def rank(command: RankCommand) -> None:
    """Write the ranking to a file, or print it."""
    check_target(command.output, command.model, *command.data)
    refuse_alone(command, ["n_diverse"], "sources")
    ranked = _scored(command) if command.sources is None else _diverse(command, command.sources)
    ordered = ranked.in_order(command.top)
    if command.output is not None:
        ordered.write(command.output)
        print(f"{counted(len(ordered), 'item', 'items')} written to {command.output}.")
        return
    columns = ordered.to_dict()
    if command.json:
        print_json({name: values.tolist() for name, values in columns.items()})
        return
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    print_table(list(columns), [[*map(str, row[:-1]), f"{row[-1]:.4g}"] for row in rows])


def _diverse(command: RankCommand, source: str) -> RankedItems:
    """Rank with items of different sources first, by a model that can."""
    sources = read_words(command.data, source, "sources")
    ranker = load_ranker(command.model)
    if not isinstance(ranker, rankwise.DORM | rankwise.DORMCV):
        raise InvalidInputError(
            f"--sources must come with a model of fit dorm: {command.model} holds a "
            f"{type(ranker).__name__}. Fit one, or leave --sources out."
        )
    # the diverse order of the items
    data = read_data_of(ranker, command.data, command.layout, find_items=True)
    number = command.n_diverse or DEFAULT_DIVERSE
    with columns_chosen():
        scores = ranker.predict(data.X)
        order = ranker.predict_diverse(data.X, sources, number, qid=data.qid)
    plain = RankedItems.of(scores, data.qid, data.items)
    ranks = Queries.of(data.qid, len(order)).ranks(order)
    return RankedItems(**{**vars(plain), "ranks": ranks})


# Evaluate


def evaluate(command: Evaluate) -> None:
    """Print the mean of each measure; write the values per query if requested."""
    measures = _measures(command)
    check_target(command.per_query, *command.data, command.scores)
    evaluation = _evaluation(command, measures)
    if command.per_query is not None:
        write_table(command.per_query, evaluation.per_query)
    if command.json:
        print_json(evaluation.to_dict())
    else:
        _print_evaluation(evaluation)


def _measures(command: Evaluate) -> list[Measure] | None:
    refuse_alone(command, ["preset"], "measure")
    if not command.measure:
        return None
    return [parse_measure(text, command.preset) for text in command.measure]


def _evaluation(command: Evaluate, measures: list[Measure] | None) -> Evaluation:
    layout = command.layout
    if is_table(command.data):
        layout = replace(_layout_of_ratings(command.data, layout), features=())
    data = read_data(command.data, layout, find_items=True)
    scores, qid = _scores_of(command, data)
    return rankwise.evaluate(given_scores(command.data, data), scores, qid, measures)


def _layout_of_ratings(paths: list[Path], layout: DataLayout) -> DataLayout:
    """Return a layout in which users are queries, for a table of ratings without queries."""
    names = ColumnNames.of_file(paths[0], open_table(files_of(paths)[0]).names)
    found = RatingColumns.usual(names)
    if found is None or layout.qid is not None or names.given_or_usual(None, "qid") is not None:
        return layout
    y, item = layout.y or found.rating, layout.item or found.item
    return replace(layout, y=y, qid=found.user, item=item)


def _scores_of(command: Evaluate, data: RankingData) -> tuple[FloatArray, Any]:
    """Return a score for each item, matched by name if the file has names, and the queries.

    Data without queries take those of the scores, which are comparable only within a query.
    """
    # a table of ranked items is matched by name, a list of scores by position
    if format_suffix(command.scores) in RANKING_SUFFIXES:
        ranked, source = read_ranked(command.scores), named(command.data)
        scores = ranked.matched(source, data.qid, data.items)
        if data.qid is not None or ranked.qid is None:
            return scores, data.qid
        places = replace(ranked, scores=np.arange(len(ranked), dtype=float))
        rows = places.matched(source, None, data.items).astype(int)
        return scores, ranked.qid[rows]
    if looks_like_model(command.scores):
        raise InvalidInputError(
            f"{command.scores} must hold scores: it is a model. Score the items first: rankwise "
            f"predict {command.scores} {' '.join(map(str, command.data))} -o scores.csv"
        )
    scores = read_scores(command.scores)
    if len(scores) != data.n_items:
        raise InvalidInputError(
            f"{command.scores} must hold one score for each item of {named(command.data)}: there "
            f"are {data.n_items} items and {len(scores)} scores."
        )
    return scores, data.qid


def _print_evaluation(evaluation: Evaluation) -> None:
    columns = (
        evaluation.measures,
        evaluation.mean,
        evaluation.standard_error,
        evaluation.n_undefined,
    )
    rows = [
        [repr(measure), decimals(mean), decimals(error), str(n_undefined)]
        for measure, mean, error, n_undefined in zip(*columns, strict=True)
    ]
    print_table(["measure", "mean", "std. error", "undefined"], rows)
    print(counted(evaluation.n_queries, "query", "queries"))


# Explain and report


def explain(command: ExplainCommand) -> None:
    """Print what each feature contributes to the lead."""
    ranker = load_ranker(command.model)
    data = read_data_of(ranker, command.data, command.layout, find_items=True)
    row = _row(command, data, "--row", command.row)
    above = None if command.above is None else _row(command, data, "--above", command.above)
    with columns_chosen():
        found = rankwise.explain(
            ranker,
            data.X,
            data.qid,
            row,
            above,
            feature_names=data.feature_names,
            item_names=None if data.items is None else data.items.tolist(),
            random_state=0,
        )
    if not command.json:
        print(found)
        return
    contributions = dict(zip(found.names, found.contributions.tolist(), strict=True))
    errors = dict(zip(found.names, found.standard_errors.tolist(), strict=True))
    named = {} if data.items is None else {"item": found.item_a, "other_item": found.item_b or None}
    scores = {
        "row": row,
        "above": above,
        **named,
        "score": found.score_a,
        "other_score": found.score_b,
    }
    shares = {"contributions": contributions, "standard_errors": errors, "method": found.method}
    print_json({**scores, "lead": found.lead, **shares})


MOST_NAMED = 5
"""Rows of one item that a message names."""


def _row(command: ExplainCommand, data: RankingData, flag: str, text: str) -> int:
    """Return the row that a number or the name of an item stands for."""
    names = [] if data.items is None else [str(name) for name in data.items.tolist()]
    if text.isdigit() and int(text) < data.n_items:
        return int(text)
    if names.count(text) == 1:
        return names.index(text)
    known = ", or the name of one item" + ("" if names else " from a column of names (--item)")
    if text in names:
        rows = [str(row) for row, name in enumerate(names) if name == text]
        more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
        advice = f", which stands in the rows {', '.join(rows[:MOST_NAMED])}{more}. Give a row."
    else:
        advice = f".{hint(text, names)}"
    raise InvalidInputError(
        f"{flag} must be a row of {named(command.data)}, 0 to {data.n_items - 1}{known}: got "
        f"{text}{advice}"
    )


def report(command: ReportCommand) -> None:
    """Judge the models on the items of the file and write the page."""
    models = [command.model, *(command.beside or [])]
    check_target(command.output, *command.data, *models)
    if command.output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(
            f"-o must name a file that ends in .html: got {command.output}. For a PDF, print the "
            "page."
        )
    # load all models, and read the file as the first one was fitted
    loaded = [load_ranker(model, rankwise.RankingFactorization) for model in models]
    rankers = dict(zip(_model_names(models), loaded, strict=True))
    if isinstance(loaded[0], rankwise.RankingFactorization):
        page = report_of_ratings(rankers, loaded[0], command)
        page.save(command.output)
        print(f"Wrote {command.output}.")
        return
    data = read_data_of(next(iter(rankers.values())), command.data, command.layout, find_items=True)
    with columns_chosen():
        page = rankwise.make_report(
            rankers,
            data.X,
            given_scores(command.data, data),
            data.qid,
            measures=command.measure,
            feature_names=data.feature_names,
            item_names=None if data.items is None else [str(name) for name in data.items],
            groups=_groups_of(loaded[0], command),
            progress=is_watched(),
        )
    page.save(command.output)
    print(f"Wrote {command.output}.")


def _groups_of(ranker: Any, command: ReportCommand) -> Any:
    """Return the groups that a ranker was fitted with, if the files have their column."""
    name = vars(ranker).get("table_columns_", {}).get("group", [""])[0]
    has_it = is_table(command.data) and name in open_table(files_of(command.data)[0]).names
    return read_words(command.data, name, "group") if has_it else None


def _model_names(models: list[Path]) -> list[str]:
    """Return a name for each model: that of its file, or its path if file names repeat."""
    if len(set(models)) < len(models):
        raise InvalidInputError(
            f"--beside must name other models: got {', '.join(map(str, models))}. Name each once."
        )
    stems = [path.stem for path in models]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in models]


# Export and serve


def export(command: ExportCommand) -> None:
    """Export, and print the error of the file's scores relative to the model's own."""
    values = values_of(rankwise.export_ranker, command.parameters)
    check_target(command.output, command.model)
    check = rankwise.export_ranker(
        load_ranker(command.model, rankwise.ConditionalRankRLS, rankwise.ConditionalRankRLSCV),
        command.output,
        feature_names=column_names(command.feature_names),
        **values,
    )
    print(check)


def serve(command: ServeCommand) -> None:
    """Serve until Ctrl-C."""
    ranker = load_ranker(command.model, rankwise.RankingFactorization)
    version = sha256(command.model.read_bytes()).hexdigest()[:12]
    rankwise.serve_ranker(
        ranker,
        host=command.host,
        port=command.port,
        max_items=command.max_items,
        max_bytes=command.max_bytes,
        timeout=command.timeout,
        name=command.model.name,
        version=version,
        announce=lambda link: print(f"Serving {command.model} on {link}; Ctrl-C ends.", flush=True),
    )
