"""Objects with names and features: read from tables, kept by models, ranked for each other."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.apps.cli.jobs.files import read_named, read_raw_named
from rankwise.core.arrays import IntArray
from rankwise.core.errors import DataFileError
from rankwise.io.data import ItemColumns
from rankwise.io.feature_columns import columns_kept, kept_columns
from rankwise.io.tables.reading import open_table
from rankwise.io.tables.table import CellError
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker

DEFAULT_NUMBER = 10
"""Items of each ranking, unless another number is asked for."""


@final
@dataclass(frozen=True, eq=False)
class NamedObjects:
    """The objects of a table: a name and features each, which may be text or blank.

    ``columns`` says how cells are read; ``rows`` are None for the objects that a model has learned
    from.
    """

    path: Path
    names: NDArray[Any]
    rows: NDArray[Any] | None
    columns: ItemColumns
    is_raw: bool

    @classmethod
    def read(cls, path: Path, column: str, option: str) -> Self:
        """Read a table: names from one column, features from all others."""
        try:
            names, rows = read_named(path, column, option)
        except CellError:
            names, cells, columns = read_raw_named(path, column, option)
            what = "text that differs from row to row. Add columns of numbers or of categories"
            cls._check_features(path, column, cells.shape[1], what)
            return cls(path, np.array(names), cells, columns, is_raw=True)
        cls._check_features(path, column, rows.shape[1], "none. Add columns of numbers")
        features = [name for name in open_table(path).names if name != column]
        columns = ItemColumns(features, None, None, column)
        return cls(path, np.array(names), rows, columns, is_raw=False)

    @staticmethod
    def _check_features(path: Path, column: str, number: int, got: str) -> None:
        if number == 0:
            raise DataFileError(
                f"{path}: expected columns of features in addition to {column!r}, got {got}."
            )

    @classmethod
    def of_model(cls, path: Path, ranker: ConditionalRanker, *, conditions: bool) -> Self:
        """Return the objects that a saved model has learned from."""
        state, side = vars(ranker), "condition" if conditions else "item"
        kept = state.get(f"{side}_columns_")
        if kept is None:
            raise DataFileError(
                f"{path}: expected a model with the names of its objects, got one that Python has "
                "saved. Rank with its method predict, or fit it by rankwise fit conditional."
            )
        columns = columns_kept(kept, kept["features"])
        is_raw = state[f"{side}_encoder_"] is not None
        return cls(path, state[f"{side}_names_"], None, columns, is_raw=is_raw)

    def others(self, path: Path, column: str | None = None, option: str = "names") -> Self:
        """Read other objects with the same features, found by the names of their columns."""
        column = column or str(self.columns.item)
        if self.is_raw:
            names, rows, _ = read_raw_named(path, column, option, self.columns)
        else:
            names, rows = read_named(path, column, option, self.columns.features)
        return replace(self, path=path, names=np.array(names), rows=rows)

    def positions(self, names: NDArray[Any], path: Path) -> IntArray:
        """Return the positions in this table of names from another one."""
        position_of = {name: row for row, name in enumerate(self.names.tolist())}
        given = [str(name) for name in names.tolist()]
        missing = [name for name in given if name not in position_of]
        if missing:
            raise DataFileError(
                f"{path}: expected names that {self.path} has features for, got {missing[0]}."
            )
        return np.array([position_of[name] for name in given], dtype=np.intp)

    @property
    def kept(self) -> dict[str, list[str]]:
        """What a model keeps of the columns."""
        return {**kept_columns(self.columns), "features": list(self.columns.features)}


def keep_objects(ranker: ConditionalRanker, conditions: NamedObjects, items: NamedObjects) -> None:
    """Store names and columns of both sides in a fitted ranker, to rank without their tables."""
    ranker.condition_names_, ranker.item_names_ = conditions.names, items.names
    ranker.condition_columns_, ranker.item_columns_ = conditions.kept, items.kept


def best_items(
    ranker: ConditionalRanker,
    conditions: NamedObjects,
    items: NamedObjects,
    number: int,
    chosen: IntArray | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the best items for each condition, or for some of them, with ranks and scores."""
    scores, names = ranker.predict(conditions.rows, items.rows), conditions.names
    if chosen is not None:
        scores, names = scores[chosen], names[chosen]
    order = np.argsort(-scores, axis=1, kind="stable")[:, :number]
    rows = np.repeat(np.arange(len(order)), order.shape[1])
    return {
        "condition": names[rows],
        "item": items.names[order.ravel()],
        "rank": np.tile(np.arange(1, order.shape[1] + 1), len(order)),
        "score": scores[rows, order.ravel()],
    }
