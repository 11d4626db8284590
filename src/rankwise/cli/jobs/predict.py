"""Load a model, score the items of a file."""

import sys

from rankwise.cli.commands import Predict
from rankwise.cli.jobs.files import check_target, columns_chosen, load_ranker, read_items_of
from rankwise.cli.output import counted
from rankwise.core.arrays import FloatArray
from rankwise.io.scores import write_scores


def run(command: Predict) -> None:
    """Write the scores to a file, or to standard output."""
    check_target(command.output, command.model, command.data)
    scores = predict(command)
    if command.output is None:
        write_scores(sys.stdout, scores)
    else:
        write_scores(command.output, scores)
        print(f"{counted(len(scores), 'score', 'scores')} written to {command.output}.")


def predict(command: Predict) -> FloatArray:
    """Score the items; those of a table by the names of the features, if the model knows them."""
    ranker = load_ranker(command.model)
    data = read_items_of(ranker, command.data, command.layout)
    with columns_chosen():
        return ranker.predict(data.X, qid=data.qid)
