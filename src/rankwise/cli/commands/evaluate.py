"""``rankwise evaluate``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import typer

from rankwise.cli.options import DataArgument, Json, Layout, QidColumn, YColumn


@final
@dataclass(frozen=True)
class Evaluate:
    """Measure how well scores rank the items of a data file.

    For example: rankwise evaluate test.txt scores.txt --measure "NDCG @ 10" --measure AP
    """

    data: DataArgument
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", help="One score on each line, in the same order.", show_default=False
        ),
    ]
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="MEASURE",
            help='A measure, such as "NDCG @ 10"; may be repeated.',
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(metavar="TOOL", help="Follow scikit-learn, lightgbm, xgboost or trec_eval."),
    ] = None
    per_query: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="A CSV, TSV or Parquet file for the values by query."),
    ] = None
    json: Json = False
    y: YColumn = None
    qid: QidColumn = None

    @property
    def layout(self) -> Layout:
        """How to read the data file; of a table, scores and queries only."""
        return Layout(self.y, self.qid)
