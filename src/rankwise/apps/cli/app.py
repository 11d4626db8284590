"""The command ``rankwise``: its table of commands, how one is run, and how it fails."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from typing import Annotated, Any, final, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import OptionInfo

from rankwise import __version__
from rankwise.apps.cli.commands import (
    Ask,
    Demo,
    Evaluate,
    ExplainCommand,
    ExportCommand,
    LeaderboardCommand,
    LeavePairOut,
    PermutationCommand,
    Predict,
    Prefer,
    RankCommand,
    ReportCommand,
    ServeCommand,
)
from rankwise.apps.cli.fit_commands import (
    Fit,
    FitAuto,
    FitConditional,
    FitDORM,
    FitFactorization,
    FitKPCRank,
    FitLinear,
    FitRLS,
    FitSVM,
)
from rankwise.apps.cli.stopping import STOPPED, interrupts_raised
from rankwise.core.errors import RankwiseError

COMMANDS: dict[type, str] = {
    Predict: "predict",
    RankCommand: "rank",
    Evaluate: "evaluate",
    LeavePairOut: "leave-pair-out",
    PermutationCommand: "permutation-test",
    Prefer: "prefer",
    LeaderboardCommand: "leaderboard",
    Ask: "ask",
    ExplainCommand: "explain",
    ReportCommand: "report",
    ExportCommand: "export",
    ServeCommand: "serve",
    Demo: "demo",
}
FAMILIES: dict[type, str] = {
    FitAuto: "auto",
    FitRLS: "rls",
    FitLinear: "linear",
    FitSVM: "svm",
    FitKPCRank: "kpcrank",
    FitDORM: "dorm",
    FitFactorization: "factorization",
    FitConditional: "conditional",
}
GROUPS = ("fit",)
RECOMMENDED = "recommended"
"""The command that a group runs when its first argument names none."""

REFUSED = 2  # as for options that cannot be understood
CLOSED_PIPE = 141  # 128 + SIGPIPE, as shells have it


@final
class CommandGroup(TyperGroup):
    """A group of commands that shows its help without arguments, and may have a default."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse arguments that begin with neither a command nor ``--help`` as the default command.

        Two words in a row are a command and its file, whether or not there is such a command.
        """
        args = args or ["--help"]
        default = self.commands.get(RECOMMENDED)
        two_words = len(args) > 1 and not any(word.startswith("-") for word in args[:2])
        if default is None or two_words or args[0] in (*self.commands, "--help"):
            return super().make_context(info_name, args, parent, **extra)
        return default.make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """List groups first: ``fit`` before what follows it."""
        return sorted(self.commands, key=lambda name: name not in GROUPS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the options of the recommended command with the other commands."""
        shown, default = copy(self), self.commands.get(RECOMMENDED)
        if default is not None:
            shown.help, shown.params, shown.subcommand_metavar = default.help, default.params, ""
        super(CommandGroup, shown).format_help(ctx, formatter)


@contextmanager
def failures_reported(command: type | None = None) -> Iterator[None]:
    """Print errors that the user can act on as one line; let bugs raise with their traceback.

    A closed pipe is left to typer, which ends quietly. Names of parameters are replaced by the
    command's options of the same meaning.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except KeyboardInterrupt:
            _leave("stopped", STOPPED)
        except BrokenPipeError:
            raise
        except RankwiseError as error:
            _leave(f"error: {as_options(str(error), command)}", REFUSED)
        except OSError as error:
            _leave(f"error: {_sentence(error)}", REFUSED)
        except MemoryError as error:
            _leave(f"error: not enough memory: {error}", REFUSED)


def as_options(message: str, command: type | None) -> str:
    """Replace names of parameters in a message by the options of the command, if it has them."""
    if command is None:
        return message
    options = _options_of(command)

    def option(found: re.Match[str]) -> str:
        return options.get(found[1].lower(), found[0])

    def option_with_value(found: re.Match[str]) -> str:
        name = options.get(found[1].lower())
        return found[0] if name is None else f"{name} {found[2]}"

    message = re.sub(r"\bComparisonColumns\((.*?)\)", r"\1", message)
    message = re.sub(r"`(\w+)`", option, message)
    return re.sub(r"\b(\w+)=('[^']*'|\.\.\.|\[\.\.\.\])", option_with_value, message)


def _options_of(command: type) -> dict[str, str]:
    """Return the options of a command, by the names of its fields."""
    found = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for about in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
            if isinstance(about, OptionInfo):
                written = [about.default, *(about.param_decls or ())]  # typer's order
                named = [str(one) for one in written if str(one).startswith("--")]
                found[name] = (named or [f"--{name.replace('_', '-')}"])[0].partition("/")[0]
    return found


def _leave(line: str, status: int) -> None:
    print(line, file=sys.stderr)
    raise typer.Exit(status)


def _sentence(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def perform(command: Any, **_: Any) -> None:
    """Load the job of a command and run it; this is where the heavy imports happen."""
    with failures_reported(type(command)):
        home, _, job = command.job.rpartition(".")
        run = getattr(import_module(f"rankwise.apps.cli.jobs.{home}"), job)
        with interrupts_raised():
            run(command)


app = typer.Typer(
    cls=CommandGroup,
    add_completion=True,
    pretty_exceptions_enable=False,
    result_callback=perform,
)
fit = typer.Typer(cls=CommandGroup, help="Train a ranker on a data file and save it.")
app.add_typer(fit, name="fit")
fit.command(RECOMMENDED, hidden=True)(Fit)
for _command, _name in FAMILIES.items():
    fit.command(_name, rich_help_panel="Families, each with its own options")(_command)
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
    _accept_any_output()
    try:
        app(prog_name="rankwise")
    except SystemExit as end:  # typer ends with 1 when its output is no longer read
        if isinstance(end.__context__, BrokenPipeError):
            raise SystemExit(CLOSED_PIPE) from None
        raise


def _accept_any_output() -> None:
    """Escape characters that the terminal cannot show; print nowhere if there is no output."""
    if sys.stdout is None:  # closed by the caller, as in `rankwise ... >&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the whole run)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
