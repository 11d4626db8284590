"""Tables and JSON on standard output."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rankwise.core.display import text_table


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first column aligned left, the others right; ruled on a terminal."""
    if sys.stdout.isatty():
        _print_ruled(header, rows)
        return
    print(text_table([header, *rows]))


def _print_ruled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(header_style="bold")
    for column, name in enumerate(header):
        table.add_column(name, justify="left" if column == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console().print(table, markup=False, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, allow_nan=False))


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun: 1 query, 12 queries."""
    return f"{number} {one if number == 1 else many}"


def duration(seconds: float) -> str:
    """Return a time as people read it: 0.25 s, 12 s, 3 min 10 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
