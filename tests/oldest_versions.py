"""Print the oldest versions that pyproject.toml allows, one requirement a line, for pip."""

import pathlib
import re
import tomllib

PROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("tables", "frames", "plot", "ask", "report", "serve", "trees")
"""The extras that are pinned; those of the tests alone are as new as they come."""

COMPANIONS = ("anyio<4.11", "click<8.3", "httpx", "pyparsing<3.3", "pytest<9")
"""What old versions of typer, starlette, matplotlib and scikit-learn take without warnings."""


def oldest_requirements(text: str) -> list[str]:
    """Return ``name==version`` for each lower bound of the dependencies and the pinned extras."""
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    given = project["dependencies"] + [line for name in EXTRAS for line in extras[name]]
    bounds = {}
    for line in given:
        found = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+)(?:;.*)?", line.strip())
        if found is not None:
            name, version = found.groups()
            bounds[name] = max(bounds.get(name, version), version, key=_as_numbers)
    return [f"{name}=={version}.*" for name, version in bounds.items()]


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    print("\n".join([*oldest_requirements(PROJECT.read_text()), *COMPANIONS]))  # noqa: T201
