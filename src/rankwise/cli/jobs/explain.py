"""Say why one item is above another."""

from rankwise.cli.commands import ExplainCommand
from rankwise.cli.jobs.files import columns_chosen, load_ranker, read_items_of
from rankwise.cli.jobs.fits.training import refuse_if
from rankwise.rankers.explain import explain


def run(command: ExplainCommand) -> None:
    """Print what each feature contributes to the lead."""
    ranker = load_ranker(command.model)
    data = read_items_of(ranker, command.data, command.layout)
    n_items = data.X.shape[0]
    for option, row in (("--item", command.item), ("--above", command.above)):
        refuse_if(
            row is not None and row >= n_items,
            f"{option} must be a row of {command.data}, 0 to {n_items - 1}: got {row}.",
        )
    with columns_chosen():
        found = explain(
            ranker,
            data.X,
            data.qid,
            command.item,
            command.above,
            feature_names=data.feature_names,
            random_state=0,
        )
    print(found)
