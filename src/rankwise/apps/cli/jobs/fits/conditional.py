"""Fit ConditionalRankRLS to scores of pairs of objects, and rank items for each condition."""

import shlex
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.apps.cli.fit_commands import FitConditional
from rankwise.apps.cli.jobs.files import AS_NUMBERS, check_target
from rankwise.apps.cli.jobs.objects import DEFAULT_NUMBER, NamedObjects, best_items, keep_objects
from rankwise.apps.cli.jobs.parameters import refuse_alone, refuse_idle, refuse_if, values_of
from rankwise.apps.cli.output import counted, duration, print_json
from rankwise.core.errors import DataFileError
from rankwise.io.feature_columns import described
from rankwise.io.tables.reading import open_table, require_column, write_table
from rankwise.measures.registry import parse_measure
from rankwise.rankers.conditional.closed_form import SIGNS
from rankwise.rankers.conditional.conditional_rank_rls import (
    ConditionalRankRLS,
    ConditionalRankRLSCV,
)

COMPARED = ("winner", "loser")


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
    second = None if command.items is None else items.rows
    ranker.fit(conditions.rows, second, **preferences)
    seconds = time.perf_counter() - start
    keep_objects(ranker, conditions, items)
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
    return best_items(ranker, conditions, items, command.top or DEFAULT_NUMBER)


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
        if one.is_raw:
            said = "; ".join(described(one.columns, ["items"]))
            print(f"Read {one.path}: names from {one.columns.item!r}; {said}. {AS_NUMBERS}")
    print(f"Trained {type(ranker).__name__}(alpha={alpha:g}) on {objects} in {duration(seconds)}.")
    if chosen:
        measure = repr(ranker.path_.measure)
        print(f"{measure} is {ranker.held_out_value_:.4f} with new {ranker.new} held out.")
    user = shlex.quote(str(conditions.names[0]))
    print(f"Saved as {command.output}. Next: rankwise recommend {command.output} --user {user}")
    if command.rankings is not None:
        print(f"Wrote {command.rankings}.")
