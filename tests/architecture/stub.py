"""Write src/rankwise/__init__.pyi, which type checkers read, from the list of public names."""

from pathlib import Path

import rankwise

PATH = Path(__file__).parents[2] / "src" / "rankwise" / "__init__.pyi"
LONGEST_LINE = 100


def stub() -> str:
    """Return the text of the stub, in the order that the linter asks for."""
    lines = []
    for home, names in sorted(rankwise._HOMES.items()):
        for name in sorted(names, key=_order):
            line = f"from {home} import {name} as {name}"
            if len(line) > LONGEST_LINE:
                line = f"from {home} import (\n    {name} as {name},\n)"
            lines.append(line)
    return "\n".join([*lines, "", "__all__: list[str]", "__version__: str", ""])


def _order(name: str) -> tuple[bool, bool, str]:
    """Sort names in capitals first, then classes, then functions."""
    return not name.isupper(), not name[0].isupper(), name


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
