"""Probes of who answered: position bias, consistency, agreement, self-preference, influence."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rankwise.comparisons.audit.evidence import Evidence, one_step_effect
from rankwise.comparisons.audit.finding import (
    FLAG_LEVEL,
    Finding,
    percent,
    reach,
    share_interval,
)
from rankwise.comparisons.audit.votes import MOST_ROWS, compared
from rankwise.comparisons.leaderboard import Leaderboard, win_and_loss
from rankwise.core.arrays import FloatArray, IntArray, sum_by

SMALL_BIAS = 0.02
"""Bias of even matches, as a probability, that is not worth a flag."""

POOR_KAPPA = 0.05
"""Agreement beyond chance that is hardly any."""

FEWEST = 10.0
"""Answers below which a judge is not looked at alone."""

_HUMAN = re.compile(r"(?<![a-z])(humans?|experts?|gold)(?![a-z])")
"""Names of judges that are marked as human, such as "human 3" or "gold"."""

_FAMILY = re.compile(r"[^\W\d_]+")


def position_bias(seen: Evidence) -> Finding | None:
    """Tell how much being shown first helps, overall and for each judge."""
    if not seen.has_order:
        return None
    (effect,) = [one for one in seen.rate(seen.table, first=True).effects if one.name == "first"]
    bias, half = effect.value, effect.high - effect.value
    even, low, high = (_gain(seen.board, x) for x in (bias, bias - half, bias + half))
    rows = _bias_of_judges(seen, bias)
    strange = [row for row in rows if row["flagged"]]
    said = (
        f"the first shown wins {percent(even)} more of even matches ({percent(low)} to "
        f"{percent(high)})"
    )
    if strange:
        said += (
            f"; {len(strange)} judges differ from the others, first of all {strange[0]['judge']}"
        )
    is_sure = abs(bias) > half * reach(FLAG_LEVEL) / reach(seen.level)
    is_biased = is_sure and abs(even) > SMALL_BIAS
    return Finding(
        "position bias",
        said,
        even,
        low,
        high,
        f"more than {percent(SMALL_BIAS)} of even matches, or a judge unlike the others "
        f"({percent(FLAG_LEVEL)})",
        is_biased or bool(strange),
        rows,
    )


def _gain(board: Leaderboard, effect: float) -> float:
    """Return by how much the first of two equal items wins more often than the second."""
    win, loss = win_and_loss(np.array([effect]), np.zeros(1), board.width, board.link, board.ties)
    return float(win[0] - loss[0])


def _bias_of_judges(seen: Evidence, overall: float) -> tuple[dict[str, Any], ...]:
    """Return the bias of each judge beyond that of all, the strangest first."""
    judge = seen.table.judge
    if judge is None:
        return ()
    effect, std = one_step_effect(seen, judge.index, judge.n_names)
    z = reach(FLAG_LEVEL, judge.n_names)
    order = np.argsort(-np.abs(effect - overall) / std)
    return tuple(
        {
            "judge": str(judge.names[k]),
            "answers": float(judge.counts[k]),
            "bias": float(effect[k]),
            "low": float(effect[k] - reach(seen.level) * std[k]),
            "high": float(effect[k] + reach(seen.level) * std[k]),
            "flagged": bool(abs(effect[k] - overall) > z * std[k] and judge.counts[k] >= FEWEST),
        }
        for k in order[:MOST_ROWS]
    )


def consistency(seen: Evidence) -> Finding | None:
    """Tell how often a judge who is asked again answers the same, in either order."""
    table = seen.table
    if table.judge is None:
        return None
    one, other = _repeats(seen.cells(table.judge, table.question)[0])
    if len(one) == 0:
        return None
    same = seen.answer[one] == seen.answer[other]
    swapped = seen.is_swapped[one] != seen.is_swapped[other]
    # what independent answers of the fitted model would do
    expected = float(np.mean((seen.probabilities[one] ** 2).sum(axis=1)))
    rows: list[dict[str, Any]] = []
    for name, which in (("same order", ~swapped), ("other order", swapped)):
        if which.any():
            share, low, high = share_interval(same[which].sum(), which.sum(), FLAG_LEVEL)
            rows.append(
                {"asked": name, "pairs": int(which.sum()), "same": share, "low": low, "high": high}
            )
    worst = min(rows, key=lambda row: row["high"])
    said = ", ".join(
        f"{percent(row['same'])} of {row['pairs']} repeats in the {row['asked']} agree"
        for row in rows
    )
    said += f"; answers drawn anew from the scores would agree in {percent(expected)}"
    return Finding(
        "self-consistency",
        said,
        worst["same"],
        worst["low"],
        worst["high"],
        f"repeats agree less often than answers drawn anew ({percent(FLAG_LEVEL)})",
        worst["high"] < expected,
        tuple(rows),
    )


def _repeats(cell: IntArray) -> tuple[IntArray, IntArray]:
    """Return neighbouring rows of the same cell."""
    order = np.argsort(cell, kind="stable")
    again = np.flatnonzero(cell[order][1:] == cell[order][:-1])
    return order[again], order[again + 1]


def agreement(seen: Evidence) -> Finding | None:
    """Tell how far judges agree beyond chance, and each of them with the others."""
    table, judge = seen.table, seen.table.judge
    if judge is None or judge.n_names < 2:
        return None
    cell, n_cells = seen.cells(table.question)
    # answers of each cell, with and without the judge's own
    counts = np.zeros((n_cells, 3))
    np.add.at(counts, (cell, seen.answer), 1.0)
    own_cell, n_own = seen.cells(table.question, judge)
    own = np.zeros((n_own, 3))
    np.add.at(own, (own_cell, seen.answer), 1.0)
    others = counts[cell] - own[own_cell]
    total = others.sum(axis=1)
    met = np.flatnonzero(total > 0)
    if len(met) < FEWEST:
        return None
    agrees = others[met, seen.answer[met]] / total[met]
    marginal = np.bincount(seen.answer[met], minlength=3) / len(met)
    chance = float(marginal @ marginal)
    if chance == 1.0:  # one answer to everything: nothing is beyond chance
        return None
    n_met = np.bincount(judge.index[met], minlength=judge.n_names)
    of_judge = sum_by(judge.index[met], agrees, judge.n_names)
    mean, std = float(agrees.mean()), float(agrees.std() / np.sqrt(len(met)))
    kappa, half = (mean - chance) / (1.0 - chance), reach(seen.level) * std / (1.0 - chance)
    rows = _agreement_of_judges(judge.names, of_judge, n_met, mean, float(agrees.std()))
    strange = [row for row in rows if row["flagged"]]
    said = (
        f"two judges give the same answer in {percent(mean)} of {len(met)} cases, kappa "
        f"{kappa:.2f} ({kappa - half:.2f} to {kappa + half:.2f})"
    )
    if strange:
        said += f"; {len(strange)} agree less than the others, first of all {strange[0]['judge']}"
    return Finding(
        "agreement of judges",
        said,
        kappa,
        kappa - half,
        kappa + half,
        f"kappa below {POOR_KAPPA}, or a judge below the others ({percent(FLAG_LEVEL)})",
        kappa + reach(FLAG_LEVEL) * std / (1.0 - chance) < POOR_KAPPA or bool(strange),
        rows,
    )


def bound(seen: Evidence) -> Finding | None:
    """Compare the agreement of two judges with that of a judge who is asked again.

    No two judges who answer independently can agree more often, on average, than each of them does
    with their own repeats: sum_k p_k q_k <= (sum_k p_k^2 sum_k q_k^2)^(1/2).
    """
    table, judge = seen.table, seen.table.judge
    if judge is None or judge.n_names < 2:
        return None
    one, other = _repeats(seen.cells(judge, table.question)[0])
    cell = seen.cells(table.question)[0]
    a, b = _repeats(cell)
    between = judge.index[a] != judge.index[b]
    a, b = a[between], b[between]
    if len(one) < FEWEST or len(a) < FEWEST:
        return None
    same = seen.answer[one] == seen.answer[other]
    share, low, high = share_interval(same.sum(), len(one), seen.level)
    met = seen.answer[a] == seen.answer[b]
    between_share, between_low, between_high = share_interval(met.sum(), len(a), seen.level)
    std = np.sqrt(share * (1.0 - share) / len(one))
    std = np.hypot(std, np.sqrt(between_share * (1.0 - between_share) / len(a)))
    said = (
        f"judges agree with their own repeats in {percent(share)} ({percent(low)} to "
        f"{percent(high)}), which bounds how often two judges can; they do in "
        f"{percent(between_share)} ({percent(between_low)} to {percent(between_high)})"
    )
    return Finding(
        "bound of agreement",
        said,
        share,
        low,
        high,
        f"two judges agree less often than the bound ({percent(FLAG_LEVEL)}): they differ by more "
        "than noise",
        share - between_share > reach(FLAG_LEVEL) * max(std, 1e-12),
    )


def humans(seen: Evidence) -> Finding | None:
    """Compare each judge with the answers of humans, whose names say that they are."""
    table, judge = seen.table, seen.table.judge
    if judge is None:
        return None
    is_human = np.array([bool(_HUMAN.search(str(name).lower())) for name in judge.names.tolist()])
    if not is_human.any() or is_human.all():
        return None
    # answers of humans in each cell, without a human's own
    cell, n_cells = seen.cells(table.question)
    by_human = is_human[judge.index]
    counts = np.zeros((n_cells, 3))
    np.add.at(counts, (cell[by_human], seen.answer[by_human]), 1.0)
    own_cell, n_own = seen.cells(table.question, judge)
    own = np.zeros((n_own, 3))
    np.add.at(own, (own_cell[by_human], seen.answer[by_human]), 1.0)
    others = counts[cell] - own[own_cell]
    total = others.sum(axis=1)
    agrees = others[np.arange(table.n_rows), seen.answer] / np.maximum(total, 1.0)
    met = total > 0.0
    rows: list[dict[str, Any]] = []
    n_met = np.bincount(judge.index[met], minlength=judge.n_names)
    some = np.flatnonzero(~is_human & (n_met >= FEWEST))
    if len(some) == 0:
        return None
    of_humans = _shared(agrees[met & by_human])
    for k in some:
        share, std = _shared(agrees[met & (judge.index == k)])
        z, wide = reach(seen.level), reach(FLAG_LEVEL, len(some))
        is_below = of_humans[0] - share > wide * np.hypot(std, of_humans[1])
        rows.append(
            {
                "judge": str(judge.names[k]),
                "answers": int(n_met[k]),
                "agrees": share,
                "low": max(share - z * std, 0.0),
                "high": min(share + z * std, 1.0),
                "flagged": bool(is_below),
            }
        )
    rows.sort(key=lambda row: row["agrees"])
    worst = rows[0]
    said = (
        f"{worst['judge']} agrees with humans in {percent(worst['agrees'])} of {worst['answers']} "
        f"answers ({percent(worst['low'])} to {percent(worst['high'])})"
    )
    if np.isfinite(of_humans[0]):
        said += f"; humans agree with each other in {percent(of_humans[0])}"
    return Finding(
        "judges against humans",
        said,
        worst["agrees"],
        worst["low"],
        worst["high"],
        f"a judge agrees with humans less than they with each other ({percent(FLAG_LEVEL)})",
        any(row["flagged"] for row in rows),
        tuple(rows[:MOST_ROWS]),
    )


def _shared(agrees: FloatArray) -> tuple[float, float]:
    """Return a mean agreement and its standard deviation; not numbers without answers."""
    if len(agrees) == 0:
        return np.nan, np.nan
    share = float(agrees.mean())
    spread = max(float(agrees.var()), 1.0 / len(agrees))
    return share, float(np.sqrt(spread / len(agrees)))


def _agreement_of_judges(
    names: Any, of_judge: FloatArray, n_met: IntArray, mean: float, deviation: float
) -> tuple[dict[str, Any], ...]:
    z, share = reach(FLAG_LEVEL, len(names)), of_judge / np.maximum(n_met, 1)
    std = deviation / np.sqrt(np.maximum(n_met, 1))
    order = np.argsort((share - mean) / np.maximum(std, 1e-12))
    return tuple(
        {
            "judge": str(names[k]),
            "answers": int(n_met[k]),
            "agrees": float(share[k]),
            "flagged": bool(n_met[k] >= FEWEST and share[k] < mean - z * std[k]),
        }
        for k in order[:MOST_ROWS]
        if n_met[k]
    )


def self_preference(seen: Evidence) -> Finding | None:
    """Tell whether judges named like a family of items prefer its items."""
    table, judge = seen.table, seen.table.judge
    if judge is None:
        return None
    of_item = np.array([_family(name) for name in table.names.tolist()], dtype=object)
    of_judge = np.array([_family(name) for name in judge.names.tolist()], dtype=object)
    own = of_judge[judge.index]
    sign = (of_item[table.first] == own).astype(float) - (of_item[table.second] == own)
    sign[own == ""] = 0.0
    if not sign.any():
        return None
    n_judges = judge.n_names
    effect, std = one_step_effect(seen, judge.index, n_judges, sign)
    some = np.flatnonzero(sum_by(judge.index, np.abs(sign), n_judges) >= FEWEST)
    if len(some) == 0:
        return None
    z, half = reach(FLAG_LEVEL, len(some)), reach(seen.level)
    rows: tuple[dict[str, Any], ...] = tuple(
        {
            "judge": str(judge.names[k]),
            "effect": float(seen.board.unit * effect[k]),
            "low": float(seen.board.unit * (effect[k] - half * std[k])),
            "high": float(seen.board.unit * (effect[k] + half * std[k])),
            "flagged": bool(effect[k] > z * std[k]),
        }
        for k in some[np.argsort(-effect[some] / std[some])]
    )
    first = rows[0]
    said = (
        f"{first['judge']} adds {first['effect']:+.2f} ({first['low']:+.2f} to "
        f"{first['high']:+.2f}) to items of its own family"
    )
    return Finding(
        "self-preference",
        said,
        first["effect"],
        first["low"],
        first["high"],
        f"a judge prefers its own family ({percent(FLAG_LEVEL)})",
        any(row["flagged"] for row in rows),
        rows,
    )


def _family(name: Any) -> str:
    """Return the first word of a name, such as "gpt" of "GPT-4o"."""
    found = _FAMILY.search(str(name).lower())
    return found.group() if found else ""


def influence(seen: Evidence) -> Finding | None:
    """Tell how far the order depends on the judge with the most answers, and on a few of them."""
    judge = seen.table.judge
    if judge is None or judge.n_names < 3:
        return None
    counts = sum_by(judge.index, seen.table.weight, judge.n_names)
    heavy = np.argsort(-counts, kind="stable")
    few = heavy[: max(judge.n_names // 20, 1)]
    rows: list[dict[str, Any]] = []
    for name, left_out in (
        (str(judge.names[heavy[0]]), heavy[:1]),
        (f"the heaviest {len(few)}", few),
    ):
        rest = np.flatnonzero(~np.isin(judge.index, left_out))
        if len(rest) and not (rows and len(few) == 1):
            share = float(counts[left_out].sum() / counts.sum())
            board = seen.rate(seen.table.take(rest))
            rows.append({"without": name, "share": share, **compared(seen.board, board)})
    if not rows:
        return None
    changed = [row for row in rows if row["reversed_separated"] or not row["same_leader"]]
    said = (
        f"{rows[0]['without']} gave {percent(rows[0]['share'])} of the answers; without them the "
        f"order agrees to tau {rows[0]['tau']:.2f}"
    )
    if changed:
        said += f"; without {changed[0]['without']} separated pairs change places"
    return Finding(
        "influence of judges",
        said,
        rows[0]["share"],
        bar="pairs that are separated change places without them",
        is_flagged=bool(changed),
        rows=tuple(rows),
    )
