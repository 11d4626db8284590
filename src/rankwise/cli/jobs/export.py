"""Write a model for another engine."""

from rankwise.cli.commands import ExportCommand
from rankwise.cli.jobs.files import check_target, load_ranker
from rankwise.cli.options import column_names
from rankwise.export.export_ranker import export_ranker
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker


def run(command: ExportCommand) -> None:
    """Export, and print how far the scores of the file are from the model's own."""
    check_target(command.output, command.model)
    check = export_ranker(
        load_ranker(command.model, ConditionalRanker),
        command.output,
        command.format,
        feature_names=column_names(command.feature_names),
        precision=command.precision,
    )
    print(check)
