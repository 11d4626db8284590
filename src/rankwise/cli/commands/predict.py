"""``rankwise predict``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from rankwise.cli.options import (
    DataArgument,
    FeatureColumns,
    Layout,
    QidColumn,
    YColumn,
    ZeroBased,
    column_names,
)


@final
@dataclass(frozen=True)
class Predict:
    """Print a score for every item of a data file: higher is better inside a query.

    For example: rankwise predict model test.txt -o scores.txt
    """

    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A model of rankwise fit.", show_default=False),
    ]
    data: DataArgument
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="SCORES",
            help="A file for the scores, one on each line; standard output if left out.",
        ),
    ] = None
    zero_based: ZeroBased = None
    y: YColumn = None
    qid: QidColumn = None
    features: FeatureColumns = None

    @property
    def layout(self) -> Layout:
        """How to read the data file."""
        return Layout(self.y, self.qid, column_names(self.features), self.zero_based)
