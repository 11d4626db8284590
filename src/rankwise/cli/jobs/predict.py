"""Load a model, score the items of a file."""

import sys

from rankwise.cli.commands import Predict, RankCommand
from rankwise.cli.jobs.files import check_target, columns_chosen, load_ranker, read_items_of
from rankwise.cli.output import counted
from rankwise.io.files import format_suffix
from rankwise.io.rankings import RANKING_SUFFIXES, RankedItems, write_scores


def run(command: Predict) -> None:
    """Write the scores to a file, or to standard output."""
    check_target(command.output, command.model, command.data)
    ranked = predict(command)
    if command.output is None:
        write_scores(sys.stdout, ranked.scores)
        return
    if format_suffix(command.output) in RANKING_SUFFIXES:
        ranked.write(command.output)
    else:
        write_scores(command.output, ranked.scores)
    print(f"{counted(len(ranked), 'score', 'scores')} written to {command.output}.")


def predict(command: Predict | RankCommand) -> RankedItems:
    """Score the items; those of a table by the names of the features, if the model knows them."""
    ranker = load_ranker(command.model)
    data = read_items_of(ranker, command.data, command.named_layout, find_items=True)
    with columns_chosen():
        scores = ranker.predict(data.X, qid=data.qid)
    return RankedItems.of(scores, data.qid, data.items)
