"""Load a model, rank the items of a file."""

from typing import Any

import numpy as np

from rankwise.cli.commands import RankCommand
from rankwise.cli.jobs.files import (
    check_target,
    columns_chosen,
    is_table,
    load_ranker,
    read_items_of,
)
from rankwise.cli.jobs.predict import predict
from rankwise.cli.output import counted, print_table
from rankwise.core.arrays import IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.io.rankings import RankedItems
from rankwise.io.tables.reading import open_table, require_column
from rankwise.rankers.dorm.dorm import DirectRanker

DEFAULT_DIVERSE = 10


def run(command: RankCommand) -> None:
    """Write the ranking to a file, or print it."""
    check_target(command.output, command.model, command.data)
    if command.n_diverse is not None and command.sources is None:
        raise InvalidInputError(
            "--n-diverse must come with --sources: got it alone. Add the column, or leave it out."
        )
    ranked = predict(command) if command.sources is None else _diverse(command)
    ordered = ranked.in_order(command.top)
    if command.output is not None:
        ordered.write(command.output)
        print(f"{counted(len(ordered), 'item', 'items')} written to {command.output}.")
        return
    columns = ordered.to_dict()
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    print_table(list(columns), [[*map(str, row[:-1]), f"{row[-1]:.4g}"] for row in rows])


def _diverse(command: RankCommand) -> RankedItems:
    """Rank with items of different sources first, by a model that can."""
    if not is_table(command.data):
        raise InvalidInputError(
            f"--sources names a column of a table: {command.data} is not one. Give a table."
        )
    ranker = load_ranker(command.model)
    if not isinstance(ranker, DirectRanker):
        raise InvalidInputError(
            f"--sources must come with a model of fit dorm: {command.model} holds a "
            f"{type(ranker).__name__}. Fit one, or leave --sources out."
        )
    assert command.sources is not None
    table = open_table(command.data)
    column = require_column(command.data, table, command.sources, "sources")
    sources = np.array(table.words(column))
    data = read_items_of(ranker, command.data, command.named_layout, find_items=True)
    number = command.n_diverse or DEFAULT_DIVERSE
    with columns_chosen():
        scores = ranker.predict(data.X)
        order = ranker.predict_diverse(data.X, sources, number, qid=data.qid)
    plain = RankedItems.of(scores, data.qid, data.items)
    return RankedItems(**{**vars(plain), "ranks": _ranks(order, data.qid)})


def _ranks(order: IntArray, qid: Any) -> IntArray:
    """Return the place of each row inside its query, from 1, from rows in ranked order."""
    queries = Queries.of(qid, len(order))
    ranks = np.empty(len(order), dtype=np.intp)
    ranks[order] = 1 + np.arange(len(order)) - queries.starts[queries.index[order]]
    return ranks
