"""Measure the scores in a file."""

from dataclasses import replace

from rankwise.cli.commands import Evaluate
from rankwise.cli.jobs.files import check_target, given_scores, is_table, read_items
from rankwise.cli.output import counted, decimals, print_json, print_table
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.io.data import RankingData
from rankwise.io.files import format_suffix
from rankwise.io.rankings import RANKING_SUFFIXES, read_ranked, read_scores
from rankwise.io.tables.reading import write_table
from rankwise.measures.evaluation import Evaluation, evaluate
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure


def run(command: Evaluate) -> None:
    """Print the mean of each measure; write the values by query where asked."""
    measures = _measures(command)
    check_target(command.per_query, command.data, command.scores)
    evaluation = _evaluation(command, measures)
    if command.per_query is not None:
        write_table(command.per_query, evaluation.per_query)
    if command.json:
        print_json(evaluation.to_dict())
    else:
        _print_report(evaluation)


def _measures(command: Evaluate) -> list[Measure] | None:
    if not command.measure:
        if command.preset is not None:
            raise InvalidInputError("--preset must come with --measure: got none to apply it to.")
        return None
    return [parse_measure(text, command.preset) for text in command.measure]


def _evaluation(command: Evaluate, measures: list[Measure] | None) -> Evaluation:
    layout = command.layout
    if is_table(command.data):
        layout = replace(layout, features=())
    data = read_items(command.data, layout, find_items=True)
    scores = _scores_of(command, data)
    return evaluate(given_scores(command.data, data), scores, data.qid, measures)


def _scores_of(command: Evaluate, data: RankingData) -> FloatArray:
    """Return a score for each item: matched by names where the file has them, else by position."""
    if format_suffix(command.scores) in RANKING_SUFFIXES:
        return read_ranked(command.scores).matched(command.data, data.qid, data.items)
    scores = read_scores(command.scores)
    if len(scores) != data.n_items:
        raise InvalidInputError(
            f"{command.scores} must hold one score for each item of {command.data}: there are "
            f"{data.n_items} items and {len(scores)} scores."
        )
    return scores


def _print_report(evaluation: Evaluation) -> None:
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
