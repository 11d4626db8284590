"""Train, choose alpha where there is a choice, save."""

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs import closed_form, iterative
from rankwise.cli.jobs.combinations import check_combination
from rankwise.cli.jobs.training import print_report, summary
from rankwise.cli.output import print_json


def run(command: Fit) -> None:
    """Train as told, save the ranker and print what was done."""
    check_combination(command)
    training = (iterative if command.is_iterative else closed_form).train(command)
    training.ranker.save(command.output)
    if command.json:
        print_json(summary(command, training))
    else:
        print_report(command, training)
