"""Write a page about one model or several."""

from pathlib import Path

from rankwise.cli.commands import ReportCommand
from rankwise.cli.jobs.files import (
    check_target,
    columns_chosen,
    given_scores,
    load_ranker,
    read_items_of,
)
from rankwise.core.errors import InvalidInputError
from rankwise.report.report import make_report


def run(command: ReportCommand) -> None:
    """Judge the models on the items of the file and write the page."""
    models = [command.model, *(command.beside or [])]
    check_target(command.output, command.data, *models)
    if command.output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(
            f"-o must name a page that ends in .html: got {command.output}. Print the page to get "
            "a PDF of it."
        )
    rankers = dict(zip(_names(models), map(load_ranker, models), strict=True))
    data = read_items_of(
        next(iter(rankers.values())), command.data, command.layout, find_items=True
    )
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


def _names(models: list[Path]) -> list[str]:
    """Return a name for each model: that of its file, or its path where files are called alike."""
    if len(set(models)) < len(models):
        raise InvalidInputError(
            f"--beside must name other models: got {', '.join(map(str, models))}. Name each once."
        )
    stems = [path.stem for path in models]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in models]
