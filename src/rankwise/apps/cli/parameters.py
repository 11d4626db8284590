"""Options from the parameters of rankers, as ``parameters.json`` describes them.

``python tests/architecture/options.py`` writes the file from signatures, rules and docstrings, so
that help and completion import no ranker. Every value is a text here; ``jobs/parameters.py`` reads
it by the rule of its parameter, and an error is the one that Python gives.
"""

import inspect
import json
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from rankwise.apps.cli.options import Command, option

PATH = Path(__file__).with_name("parameters.json")


def flag_of(name: str) -> str:
    """Return the option of a parameter."""
    return f"--{name.replace('_', '-')}"


def with_parameters(command: type[Command], described: list[dict[str, Any]]) -> Any:
    """Return a function with the options of a command and of described parameters.

    It returns the command with the texts that were given for parameters, by name.
    """
    names = [one["name"] for one in described]

    def made(context: typer.Context, **values: Any) -> Any:
        texts = {name: values.pop(name) for name in names}
        given = {
            name: text
            for name, text in texts.items()
            if getattr(context.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"
        }
        return command(**values, parameters=given)  # type: ignore[call-arg]

    hints = get_type_hints(command, include_extras=True)
    by_hand = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "parameters"
    ]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *by_hand, *map(_as_parameter, described)]
    made.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    made.__annotations__ = {one.name: one.annotation for one in parameters}
    made.__doc__ = command.__doc__
    return made


def _as_parameter(described: dict[str, Any]) -> inspect.Parameter:
    """Return a described parameter as typer reads it: a parameter of a function."""
    flag, names, default = flag_of(described["name"]), described["names"], described["default"]
    is_switch = isinstance(default, bool)

    def complete(incomplete: str) -> list[str]:  # typer goes by the name of its argument
        return [name for name in names if name.startswith(incomplete)]

    about = option(
        described["help"],
        described["metavar"],
        f"{flag}/--no-{flag[2:]}" if default is True else flag,
        panel=described["panel"],
        autocompletion=complete if names else None,
    )
    annotation: Any = Annotated[(bool if is_switch else str | None, about)]
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(described["name"], kind, default=default, annotation=annotation)


def described_parameters() -> dict[str, list[dict[str, Any]]]:
    """Return the parameters of each command, by its name."""
    found: dict[str, list[dict[str, Any]]] = json.loads(PATH.read_text(encoding="utf-8"))
    return found
