"""Write a page about one model or several."""

from rankwise.cli.commands import ReportCommand
from rankwise.cli.jobs.files import (
    check_target,
    columns_chosen,
    given_scores,
    load_ranker,
    read_items_of,
)
from rankwise.report.report import make_report


def run(command: ReportCommand) -> None:
    """Judge the models on the items of the file and write the page."""
    models = [command.model, *(command.beside or [])]
    check_target(command.output, command.data, *models)
    rankers = {path.stem: load_ranker(path) for path in models}
    first = rankers[command.model.stem]
    data = read_items_of(first, command.data, command.layout, find_items=True)
    with columns_chosen():
        report = make_report(
            rankers,
            data.X,
            given_scores(command.data, data),
            data.qid,
            measures=command.measure,
            feature_names=data.feature_names,
            item_names=None if data.items is None else [str(name) for name in data.items],
        )
    report.save(command.output)
    print(f"Wrote {command.output}.")
