#!/usr/bin/env python3
"""Make the links of README.md absolute, as a package index needs them; a release runs this.

The address of the repository stands in pyproject.toml, ``[project.urls]``, and nowhere else; where
it is not filled in, the one of the workflow that runs is taken.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent


def repository() -> str | None:
    """Return the address of the repository, without a slash at its end."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    server, name = (os.environ.get(f"GITHUB_{key}") for key in ("SERVER_URL", "REPOSITORY"))
    known = project.get("urls", {}).get("Source") or (server and name and f"{server}/{name}")
    return known.rstrip("/") if known else None


def absolute(text: str, address: str, ref: str) -> str:
    """Return a README whose links and pictures name the repository and the version."""
    link, picture = f"{address}/blob/{ref}/", f"{address}/raw/{ref}/"
    local = r"(?!https?:|#|mailto:)"
    text = re.sub(rf"(?<!!)\]\({local}([^)]+)\)", rf"]({link}\1)", text)
    return re.sub(rf'\b(src|srcset)="{local}([^"]+)"', rf'\1="{picture}\2"', text)


def main() -> None:
    """Rewrite README.md where it stands."""
    address, version = repository(), os.environ.get("GITHUB_REF_NAME", "main")
    if address is None:
        sys.exit("There is no address: fill in Source in [project.urls] of pyproject.toml.")
    readme = ROOT / "README.md"
    text = absolute(readme.read_text(encoding="utf-8"), address, version)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
