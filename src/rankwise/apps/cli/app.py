"""The command ``rankwise``: its table of commands, how one is run, and how it fails."""

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Self, final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from rankwise import __version__
from rankwise.apps.cli import commands, fit_commands
from rankwise.apps.cli.options import Command, option
from rankwise.apps.cli.parameters import described_parameters, with_parameters
from rankwise.apps.cli.stopping import STOPPED, interrupts_raised
from rankwise.core.errors import FeatureScaleWarning, RankwiseError

COMMANDS: dict[str, dict[str, type[Command]]] = {
    "Use a model": {
        "predict": commands.Predict,
        "rank": commands.RankCommand,
        "recommend": commands.Recommend,
        "explain": commands.ExplainCommand,
        "export": commands.ExportCommand,
        "serve": commands.ServeCommand,
    },
    "Judge": {
        "evaluate": commands.Evaluate,
        "report": commands.ReportCommand,
        "leave-pair-out": commands.LeavePairOut,
        "permutation-test": commands.PermutationCommand,
    },
    "Compare": {
        "leaderboard": commands.LeaderboardCommand,
        "ask": commands.Ask,
        "prefer": commands.Prefer,
    },
    "First steps": {"demo": commands.Demo},
}
"""The commands but fit, in the groups that the help shows."""

FAMILIES: dict[str, type[Command]] = {
    "auto": fit_commands.FitAuto,
    "rls": fit_commands.FitRLS,
    "greedy": fit_commands.FitGreedy,
    "linear": fit_commands.FitLinear,
    "svm": fit_commands.FitSVM,
    "kpcrank": fit_commands.FitKPCRank,
    "dorm": fit_commands.FitDORM,
    "factorization": fit_commands.FitFactorization,
    "conditional": fit_commands.FitConditional,
}
RECOMMENDED = "recommended"
"""The command that a group runs when its first argument names none."""

REFUSED = 2  # as for options that cannot be understood
CLOSED_PIPE = 141  # 128 + SIGPIPE, as shells have it


@final
class PlainArgument(TyperArgument):
    """An argument that is shown by its name alone: newer versions of typer add Python's type."""

    @classmethod
    def of(cls, given: TyperArgument) -> Self:
        """Return the same argument, shown in this way."""
        plain = cls.__new__(cls)
        vars(plain).update(vars(given))
        return plain

    def display_type_rich(self, ctx: Any) -> None:
        """Return nothing to show as a type."""

    def _usage_display_name(self) -> str:
        return str(self.metavar) if self.required else f"[{self.metavar}]"


def _bare(parameters: list[Any]) -> list[Any]:
    """Show no type of arguments, nor after switches, ``--help`` among them."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return [
        PlainArgument.of(parameter) if isinstance(parameter, TyperArgument) else parameter
        for parameter in parameters
    ]


@final
class SingleCommand(TyperCommand):
    """A command whose switches are shown without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options."""
        return _bare(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read options and arguments; say in plain words what a value must be."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            message = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
            error.message = message.replace("Input should be", "must be")
            raise

    def invoke(self, ctx: Any) -> None:
        """Run what was typed; this is where the heavy imports happen."""
        flags = {
            str(parameter.name).lower(): flag
            for parameter in self.params
            for flag in parameter.opts[:1]
            if flag.startswith("--")
        }
        with failures_reported(flags):
            command: Command = super().invoke(ctx)
            with interrupts_raised():
                command.run()


@final
class CommandGroup(TyperGroup):
    """A group of commands that shows its help without arguments, and may have a default."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the group itself."""
        return _bare(super().get_params(ctx))

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse arguments that begin with neither a command nor a call for help as the default."""
        args = args or ["--help"]
        default = self.commands.get(RECOMMENDED)
        if default is None or args[0] in (*self.commands, "--help", "-h") or _is_command(args):
            return super().make_context(info_name, args, parent, **extra)
        return default.make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """List groups first: ``fit`` before what follows it."""
        return sorted(self.commands, key=lambda name: name != "fit")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the options of the recommended command with the other commands."""
        shown, default = copy(self), self.commands.get(RECOMMENDED)
        if default is not None:
            shown.help, shown.params, shown.subcommand_metavar = default.help, default.params, ""
        super(CommandGroup, shown).format_help(ctx, formatter)


def _is_command(args: list[str]) -> bool:
    """Return whether arguments begin with a command, known or not: a bare word, then a file."""
    word, *others = args
    two_words = bool(others) and not word.startswith("-") and not others[0].startswith("-")
    return two_words and word.isalnum() and not Path(word).exists()


@contextmanager
def failures_reported(flags: dict[str, str]) -> Iterator[None]:
    """Print errors that the user can act on as one line; let bugs raise with their traceback.

    A closed pipe is left to typer, which ends quietly. Names of parameters are replaced by the
    options of the same meaning.
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
            _leave(f"error: {as_options(str(error), flags)}", REFUSED)
        except OSError as error:
            known = error.filename is not None and error.strerror is not None
            _leave(f"error: {f'{error.filename}: {error.strerror}' if known else error}", REFUSED)
        except MemoryError as error:
            _leave(f"error: not enough memory: {error}", REFUSED)


def as_options(message: str, flags: dict[str, str]) -> str:
    """Replace names of parameters in a message by the flags of their options, if there are any."""

    def flag_alone(found: re.Match[str]) -> str:
        return flags.get(found[1].lower(), found[0])

    def flag_and_value(found: re.Match[str]) -> str:
        flag = flags.get(found[1].lower())
        return found[0] if flag is None else f"{flag} {found[2]}"

    def in_columns(found: re.Match[str]) -> str:
        return re.sub(r"=([\d.]+)", r"='\1'", found[1]).replace("', ", "' ")

    message = re.sub(r"\bComparisonColumns\((.*?)\)", in_columns, message)
    message = re.sub(r"`(\w+)`", flag_alone, message)
    return re.sub(r"\b(\w+)=('[^']*'|\"[^\"]*\"|\.\.\.|\[\.\.\.\])", flag_and_value, message)


def _leave(line: str, status: int) -> None:
    print(line, file=sys.stderr)
    raise typer.Exit(status)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = str(message)
    if isinstance(message, FeatureScaleWarning):  # its advice is for Python
        head = text.partition(". Scale")[0]
        text = f"{head}. rankwise fit, without the name of a ranker, scales them itself."
    print(f"warning: {text}", file=sys.stderr)


HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=CommandGroup, add_completion=True, pretty_exceptions_enable=False, context_settings=HELP
)
fit = typer.Typer(cls=CommandGroup, help="Train a ranker on data files and save it.")
app.add_typer(fit, name="fit", rich_help_panel="Learn")


def _add_commands() -> None:
    """Add the commands with the options that they declare, and those of their rankers."""
    described = described_parameters()
    fit.command(RECOMMENDED, hidden=True, cls=SingleCommand)(
        with_parameters(fit_commands.Fit, described["fit"])
    )
    for name, family in FAMILIES.items():
        panel = "Families, each with its own options"
        made = with_parameters(family, described[name])
        fit.command(name, cls=SingleCommand, rich_help_panel=panel)(made)
    for panel, group in COMMANDS.items():
        for name, command in group.items():
            made = with_parameters(command, described[name]) if name in described else command
            app.command(name, cls=SingleCommand, rich_help_panel=panel)(made)


_add_commands()


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"rankwise {__version__}")
        raise typer.Exit


@app.callback()
def rankwise(
    version: Annotated[
        bool,
        option("Print the version.", None, "--version", callback=_print_version, is_eager=True),
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
