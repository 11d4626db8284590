"""Train, choose alpha where there is a choice, save."""

from types import ModuleType

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs import closed_form, direct, iterative
from rankwise.cli.jobs.combinations import check_combination
from rankwise.cli.jobs.training import print_report, summary
from rankwise.cli.output import print_json


def run(command: Fit) -> None:
    """Train as told, save the ranker and print what was done."""
    check_combination(command)
    training = _trainer(command).train(command)
    training.ranker.save(command.output)
    if command.json:
        print_json(summary(command, training))
    else:
        print_report(command, training)


def _trainer(command: Fit) -> ModuleType:
    if command.is_direct:
        return direct
    return iterative if command.is_iterative else closed_form
