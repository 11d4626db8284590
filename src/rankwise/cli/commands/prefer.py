"""``rankwise prefer``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final

import typer

from rankwise.cli.options import FeatureColumns, Json, column_names


@final
@dataclass(frozen=True)
class Prefer:
    """Rank items from comparisons, say how sure each rank is, and ask the next question.

    For example: rankwise prefer hotels.csv answers.csv --ask 3
    """

    items: Annotated[
        Path,
        typer.Argument(
            metavar="ITEMS",
            help="A table (CSV, TSV, Parquet) of names, and features that tell what is alike.",
            show_default=False,
        ),
    ]
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="A table of the comparisons: columns winner and loser, with names of items.",
            show_default=False,
        ),
    ]
    ask: Annotated[int, typer.Option(min=0, help="How many questions to suggest.")] = 1
    goal: Annotated[
        Literal["ranking", "best"],
        typer.Option(help="Ask to learn the whole ranking, or to find the best item."),
    ] = "ranking"
    robust: Annotated[
        bool, typer.Option(help="Allow that answers were recorded the wrong way round.")
    ] = True
    level: Annotated[
        float, typer.Option(help="Probability with which a rank lies in its interval.")
    ] = 0.9
    json: Json = False
    name: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the names in ITEMS, if not the first one."),
    ] = None
    features: FeatureColumns = None
    tied: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of ANSWERS that is 1 where neither was preferred, if not tied.",
        ),
    ] = None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The columns chosen as features."""
        return column_names(self.features)
