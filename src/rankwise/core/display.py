"""Results as people look at them: aligned text, a small HTML table, a data frame, a drawing."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rankwise.core.errors import MissingExtraError

Row = Sequence[str]


def decimals(value: float | None, digits: int = 4) -> str:
    """Return a number with a few decimals, a dash for none."""
    if value is None or value != value:
        return "-"
    text = f"{value:.{digits}f}"
    return text if abs(value) < 1e5 else f"{value:.{digits}g}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names with commas, the first few where there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def brief(value: float) -> str:
    """Return a number of any size with four significant digits, a dash for none."""
    return "-" if value != value else f"{value:.4g}"


def p_value(value: float) -> str:
    """Return a p-value as it is printed: ``p = 0.031`` or ``p < 0.0001``."""
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def text_table(rows: Sequence[Row]) -> str:
    """Return rows of cells in aligned columns, the first to the left; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [f"{first:<{widths[0]}}"]
        cells += [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(rows: Sequence[Row], caption: str) -> str:
    """Return rows of cells as an HTML table; the first row is the head, all text is escaped."""
    head, *body = rows
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = [
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in body
    ]
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas data frame; pandas is needed here and nowhere else."""
    try:
        import pandas  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("A data frame", "pandas", "tables") from error
    return pandas.DataFrame(dict(columns))


LONGEST_LABEL = 24
"""Characters of a name beside a drawing."""


def short_label(name: str) -> str:
    """Return a name that fits next to a figure."""
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"


def new_axes() -> Any:
    """Return axes to draw on; matplotlib is needed here and nowhere else."""
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("Plotting", "matplotlib", "plot") from error
    return plt.subplots()[1]


def spreadsheet_text(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, though it begins like a formula.

    Such a text gets a single quote in front; numbers stay as they are. This is for tables that
    people open. `write_table` writes what it is given, for programs to read it back.
    """
    if not text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
