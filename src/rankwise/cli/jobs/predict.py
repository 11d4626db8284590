"""Load a model, score the items of a file."""

import sys

from rankwise.cli.commands import Predict
from rankwise.cli.jobs.files import check_target, columns_chosen, read_items
from rankwise.cli.output import counted
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ModelFileError
from rankwise.io.scores import write_scores
from rankwise.rankers.base import Ranker
from rankwise.rankers.storage import load


def run(command: Predict) -> None:
    """Write the scores to a file, or to standard output."""
    check_target(command.output)
    scores = predict(command)
    if command.output is None:
        write_scores(sys.stdout, scores)
    else:
        write_scores(command.output, scores)
        print(f"{counted(len(scores), 'score', 'scores')} written to {command.output}.")


def predict(command: Predict) -> FloatArray:
    """Score the items; those of a table by the names of the features, if the model knows them."""
    ranker = load(command.model)
    if not isinstance(ranker, Ranker):
        raise ModelFileError(
            f"{command.model} must hold a ranker of items with features: it holds a "
            f"{type(ranker).__name__}. Use its methods in Python."
        )
    found = vars(ranker).get("feature_names_in_")
    names = None if found is None else tuple(map(str, found))
    n_features: int = ranker.n_features_in_
    data = read_items(command.data, command.layout, n_features=n_features, names=names)
    with columns_chosen():
        return ranker.predict(data.X)
