"""Probes of what surrounds an answer: covariates such as length, questions, categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from rankwise.comparisons.audit.evidence import Evidence
from rankwise.comparisons.audit.finding import FLAG_LEVEL, Finding, percent, reach
from rankwise.comparisons.audit.votes import MOST_ROWS, compared
from rankwise.core.arrays import sum_by

LARGE_WIDENING = 1.15
"""How much wider intervals must become by clustering to be worth a flag."""


def covariates(seen: Evidence) -> Finding | None:
    """Tell what covariates such as length are worth, and how the board moves with them."""
    table = seen.table
    effects = [one for one in seen.board.effects if one.name != "first"]
    if not effects:
        return None
    plain = seen.rate(replace(table, covariates=np.zeros((table.n_rows, 0)), covariate_names=()))
    change = compared(seen.board, plain)
    before = {name: place + 1 for place, name in enumerate(plain.names.tolist())}
    moved = [
        {"item": str(name), "with": place + 1, "without": before[name]}
        for place, name in enumerate(seen.board.names.tolist())
        if before[name] != place + 1
    ]
    values = "; ".join(
        f"{one.name} {_signed(seen.board.unit * one.value)} "
        f"({_signed(seen.board.unit * one.low)} to {_signed(seen.board.unit * one.high)})"
        for one in effects
    )
    wider = reach(FLAG_LEVEL, len(effects)) / reach(seen.level)
    strong = [one for one in effects if abs(one.value) > wider * (one.high - one.value)]
    first = effects[0].scaled(seen.board.unit)
    said = f"{values}; {len(moved)} of {seen.board.n_items} items move (tau {change['tau']:.2f})"
    return Finding(
        "length and style",
        said,
        first.value,
        first.low,
        first.high,
        f"an effect differs from 0 ({percent(FLAG_LEVEL)})",
        bool(strong),
        tuple(moved[:MOST_ROWS]),
    )


def _signed(value: float) -> str:
    """Return a number with its sign and two digits that count."""
    return f"{value:+.2g}" if abs(value) < 1.0 else f"{value:+.2f}"


def clusters(seen: Evidence) -> Finding | None:
    """Tell how much wider intervals are if answers to one question depend on each other."""
    table = seen.table
    if table.question is None or table.question.n_names < 5:
        return None
    # with and without, whichever of both the leaderboard is
    plain, clustered = seen.rate(table), seen.rate(table, clustered=True)
    name = seen.board.names[0]
    at = {known: place for place, known in enumerate(clustered.names.tolist())}
    place = [at[known] for known in plain.names.tolist()]
    ratio = float(np.median((clustered.high - clustered.low)[place] / (plain.high - plain.low)))
    best = [float(board.best[board.names.tolist().index(name)]) for board in (plain, clustered)]
    said = (
        f"clustered by question, intervals are {ratio:.2f} times as wide, and {name} is the best "
        f"with probability {best[1]:.2f} instead of {best[0]:.2f}"
    )
    return Finding(
        "clustering by question",
        said,
        ratio,
        bar=f"intervals are more than {LARGE_WIDENING} times as wide",
        is_flagged=ratio > LARGE_WIDENING,
    )


def categories(seen: Evidence) -> Finding | None:
    """Compare the boards of categories with the common one.

    The scores of each category differ from the common ones if the residuals of its answers, summed
    by item, exceed their noise.
    """
    table, category = seen.table, seen.table.category
    if category is None or category.n_names < 2:
        return None
    n_items, n_names = table.n_items, category.n_names
    ends = np.concatenate([table.first, table.second])
    code = np.concatenate([category.index, category.index]) * n_items + ends
    residual = sum_by(code, np.concatenate([seen.residual, -seen.residual]), n_items * n_names)
    noise = sum_by(code, np.concatenate([seen.variance, seen.variance]), n_items * n_names)
    some = noise > 1.0
    n_free = max(int(some.sum()) - n_items - n_names, 1)
    square = float(np.sum(residual[some] ** 2 / noise[some]))
    chance = float(chdtrc(n_free, square))
    rows = tuple(_board_of_category(seen, k) for k in np.argsort(-category.counts)[:MOST_ROWS])
    said = (
        f"boards of {n_names} categories differ from the common one by {square / n_free:.2f} times "
        f"the noise; the lowest agreement is tau {min(row['tau'] for row in rows):.2f}"
    )
    return Finding(
        "categories",
        said,
        square / n_free,
        bar=f"more than noise explains ({percent(FLAG_LEVEL)})",
        is_flagged=chance < 1.0 - FLAG_LEVEL,
        rows=rows,
    )


def _board_of_category(seen: Evidence, number: int) -> dict[str, Any]:
    table, category = seen.table, seen.table.category
    assert category is not None
    board = seen.rate(table.take(np.flatnonzero(category.index == number)))
    return {
        "category": str(category.names[number]),
        "answers": int(category.counts[number]),
        "leader": str(board.names[0]),
        **compared(seen.board, board),
    }
