"""The command ``rankwise``: its table of commands, and how one is run."""

from importlib import import_module
from typing import Annotated, Any

import typer

from rankwise import __version__
from rankwise.cli.commands.demo import Demo
from rankwise.cli.commands.evaluate import Evaluate
from rankwise.cli.commands.fit import Fit
from rankwise.cli.commands.predict import Predict
from rankwise.cli.commands.prefer import Prefer
from rankwise.cli.failures import failures_reported

COMMANDS: dict[type, str] = {
    Fit: "fit",
    Predict: "predict",
    Evaluate: "evaluate",
    Prefer: "prefer",
    Demo: "demo",
}


def perform(command: Any, **_: Any) -> None:
    """Load the job of a command and run it; this is where the heavy imports happen."""
    with failures_reported():
        import_module(f"rankwise.cli.jobs.{COMMANDS[type(command)]}").run(command)


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    result_callback=perform,
)
for _command, _name in COMMANDS.items():
    app.command(_name)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"rankwise {__version__}")
        raise typer.Exit


@app.callback()
def rankwise(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Learn to rank from scores, from queries of scored items, and from comparisons."""


def main() -> None:
    """Run the command line and leave with its exit status."""
    app(prog_name="rankwise")
