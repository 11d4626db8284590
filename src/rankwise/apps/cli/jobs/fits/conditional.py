"""Fit ConditionalRankRLS to scores of pairs of objects, and rank items for each condition."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.apps.cli.fit_commands import FitConditional
from rankwise.apps.cli.jobs.files import AS_NUMBERS, check_target, read_named, read_raw_named
from rankwise.apps.cli.jobs.parameters import refuse_alone, refuse_idle, refuse_if, values_of
from rankwise.apps.cli.output import counted, duration, print_json
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import DataFileError
from rankwise.io.data import ItemColumns
from rankwise.io.feature_columns import described
from rankwise.io.tables.reading import open_table, require_column, write_table
from rankwise.io.tables.table import CellError
from rankwise.measures.registry import parse_measure
from rankwise.rankers.conditional.closed_form import SIGNS
from rankwise.rankers.conditional.conditional_rank_rls import (
    ConditionalRankRLS,
    ConditionalRankRLSCV,
)
from rankwise.transformers.indicators import IndicatorEncoder

DEFAULT_NUMBER = 10
COMPARED = ("winner", "loser")


@final
@dataclass(frozen=True, eq=False)
class NamedObjects:
    """The objects of a table: a name and features each.

    Text and blanks become numbers by an encoder; ``columns`` says how cells are read.
    """

    path: Path
    names: NDArray[Any]
    features: FloatArray
    columns: ItemColumns | None = None
    encoder: IndicatorEncoder | None = None

    @classmethod
    def read(cls, path: Path, column: str, option: str) -> Self:
        """Read a table: names from one column, features from all others."""
        try:
            names, features = read_named(path, column, option)
        except CellError:
            return cls._read_raw(path, column, option)
        if features.shape[1] == 0:
            raise DataFileError(
                f"{path}: expected columns of features in addition to {column!r}, got none. Add "
                "columns of numbers."
            )
        return cls(path, np.array(names), features)

    @classmethod
    def _read_raw(cls, path: Path, column: str, option: str) -> Self:
        names, rows, columns = read_raw_named(path, column, option)
        if rows.shape[1] == 0:
            raise DataFileError(
                f"{path}: expected columns of features in addition to {column!r}, got text that "
                "differs from row to row. Add columns of numbers or of categories."
            )
        encoder = IndicatorEncoder().fit(rows)
        return cls(path, np.array(names), encoder.transform(rows), columns, encoder)

    def others(self, path: Path, column: str, option: str) -> Self:
        """Read other objects with the same features."""
        if self.encoder is None:
            return self.read(path, column, option)
        names, rows, _ = read_raw_named(path, column, option, self.columns)
        return replace(
            self, path=path, names=np.array(names), features=self.encoder.transform(rows)
        )

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


def fit_conditional(command: FitConditional) -> None:
    """Fit, save, report, and write rankings if requested."""
    _refuse_idle_options(command)
    given = (command.scores, command.conditions, command.items)
    check_target(command.output, *given)
    check_target(command.rankings, *given)
    # objects of both sides, then the preferences between them
    conditions = NamedObjects.read(command.conditions, command.condition, "condition")
    items = conditions
    if command.items is not None:
        items = NamedObjects.read(command.items, command.item, "item")
    preferences = _preferences(command, conditions, items)
    ranker = _ranker(command)
    start = time.perf_counter()
    second = None if command.items is None else items.features
    ranker.fit(conditions.features, second, **preferences)
    seconds = time.perf_counter() - start
    ranker.save(command.output)
    if command.rankings is not None:
        write_table(command.rankings, _rankings(command, ranker, conditions, items))
    _report(command, ranker, conditions, items, seconds)


def _refuse_idle_options(command: FitConditional) -> None:
    refuse_idle(command, ConditionalRankRLS, ConditionalRankRLSCV, "alphas")
    relation = command.parameters.get("relation", ConditionalRankRLS().relation)
    is_same = relation in SIGNS
    refuse_if(
        is_same == (command.items is not None),
        f"--items must {'not ' if is_same else ''}come with --relation {relation}: "
        f"{'both objects are of one kind, given by --conditions' if is_same else 'got none'}.",
    )
    refuse_alone(command, ["measure"], "alphas")
    refuse_alone(command, ["top", "new_conditions", "new_items"], "rankings")


def _preferences(
    command: FitConditional, conditions: NamedObjects, items: NamedObjects
) -> dict[str, Any]:
    """Return a matrix of scores, NaN where none is given, or comparisons."""
    path = command.scores
    table = open_table(path)
    # comparisons: a condition with a winner and a loser
    if all(name in table.names for name in COMPARED):
        condition = require_column(path, table, command.condition, "condition")
        _, (first, *ends) = table.read([], [condition, *COMPARED])
        compared = [items.positions(end, path) for end in ends]
        return {"comparisons": np.column_stack([conditions.positions(first, path), *compared])}
    # scores: a matrix with NaN where none is given
    condition, item, score = (
        require_column(path, table, getattr(command, option), option)
        for option in ("condition", "item", "score")
    )
    (values,), (first, second) = table.read([[score]], [condition, item])
    rows, columns = conditions.positions(first, path), items.positions(second, path)
    y = np.full((len(conditions.names), len(items.names)), np.nan)
    y[rows, columns] = values[:, 0]
    # fewer cells than rows: a pair was scored twice
    if np.count_nonzero(~np.isnan(y)) < len(rows):
        code = rows * y.shape[1] + columns
        twice = int(np.argmax(np.bincount(code)[code] > 1))
        raise DataFileError(
            f"{path}: expected one score for a condition and an item, got several for "
            f"{first[twice]!s} and {second[twice]!s}. Keep one of them."
        )
    return {"y": y}


def _ranker(command: FitConditional) -> Any:
    texts = command.parameters
    if "alphas" not in texts:
        return ConditionalRankRLS(**values_of(ConditionalRankRLS, texts))
    measure = None if command.measure is None else parse_measure(command.measure)
    return ConditionalRankRLSCV(measure=measure, **values_of(ConditionalRankRLSCV, texts))


def _rankings(
    command: FitConditional, ranker: Any, conditions: NamedObjects, items: NamedObjects
) -> dict[str, NDArray[Any]]:
    """Return the best items for each condition with their scores, for new ones if given."""
    if command.new_conditions is not None:
        conditions = conditions.others(command.new_conditions, command.condition, "condition")
    if command.new_items is not None:
        column = command.condition if command.items is None else command.item
        items = items.others(command.new_items, column, "item")
    scores = ranker.predict(conditions.features, items.features)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : command.top or DEFAULT_NUMBER]
    rows = np.repeat(np.arange(len(order)), order.shape[1])
    return {
        "condition": conditions.names[rows],
        "item": items.names[order.ravel()],
        "rank": np.tile(np.arange(1, order.shape[1] + 1), len(order)),
        "score": scores[rows, order.ravel()],
    }


def _report(
    command: FitConditional,
    ranker: Any,
    conditions: NamedObjects,
    items: NamedObjects,
    seconds: float,
) -> None:
    chosen = "alphas" in command.parameters
    alpha = ranker.alpha_ if chosen else ranker.alpha
    if command.json:
        sizes = {"n_conditions": len(conditions.names), "n_items": len(items.names)}
        held_out = {"held_out_value": ranker.held_out_value_} if chosen else {}
        head = {"model": str(command.output), "ranker": type(ranker).__name__, "alpha": alpha}
        print_json({**head, **held_out, **sizes, "seconds": seconds})
        return
    objects = ", ".join(
        [
            counted(len(conditions.names), "condition", "conditions"),
            counted(len(items.names), "item", "items"),
        ]
    )
    for one in [conditions, *([] if items is conditions else [items])]:
        if one.columns is not None:
            print(f"Read {one.path}: {'; '.join(described(one.columns))}. {AS_NUMBERS}")
    print(f"Trained {type(ranker).__name__}(alpha={alpha:g}) on {objects} in {duration(seconds)}.")
    if chosen:
        measure = repr(ranker.path_.measure)
        print(f"{measure} is {ranker.held_out_value_:.4f} with new {ranker.new} held out.")
    print(f"Saved as {command.output}; rows of --conditions and --items are its own.")
    if command.rankings is not None:
        print(f"Wrote {command.rankings}.")
