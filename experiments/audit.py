"""Planted defects of leaderboards, and the probes of the audit that fire.

Every world is drawn: twelve models, twenty judges, 4,000 answers with ties, and one defect, or
none. A probe should fire in its own world and rarely in any other: its level is one percent.
"""

from collections import Counter

import numpy as np

from experiments.harness import markdown_table, progress
from rankwise import ComparisonTable, leaderboard

N_WORLDS, N_ROWS = 40, 4000
FIRST = ("gpt-4", "gpt-3", "claude-2", "claude-1", "llama", "falcon", "mistral", "qwen", "yi")
NAMES = np.array([*FIRST, "phi", "gemma", "dbrx"])
FAMILY = np.array([name.split("-")[0] for name in NAMES])
JUDGES = np.array(["gpt-4-turbo", *(f"rater {k}" for k in range(1, 20))])

WORLDS = {
    "none": {},
    "the first shown is preferred by 0.4": {"order": 0.4},
    "one judge prefers the first by 2": {"order_of_one": 2.0},
    "pairs have leads of their own, 0.5": {"duels": 0.35},
    "a judge prefers its family by 1.5": {"own_family": 1.5},
    "long answers are preferred by 0.5": {"length": 0.5},
    "answers to a question depend on it, 1": {"question": 1.0},
    "scores depend on the category, 0.5": {"category": 0.5},
    "half of the answers by one judge, reversed": {"heavy": 0.5},
    "a third of the answers contradicted in the other order": {"repeats": 0.3},
    "a third of the answers asked again, no defect": {"again": 0.3},
    "the same, judges have tastes of their own, 1": {"again": 0.3, "tastes": 1.0},
    "two humans beside models that answer at random": {"humans": 1.0},
}


def world(seed: int, **sizes: float) -> ComparisonTable:
    """Draw answers; sizes of defects are added to leads."""
    rng, n_items = np.random.default_rng(seed), len(NAMES)
    size = {name: sizes.get(name, 0.0) for name in {k for one in WORLDS.values() for k in one}}
    first = rng.integers(n_items, size=N_ROWS)
    second = (first + 1 + rng.integers(n_items - 1, size=N_ROWS)) % n_items
    judge, asked = rng.integers(len(JUDGES), size=N_ROWS), rng.integers(100, size=N_ROWS)
    judge[rng.random(N_ROWS) < size["heavy"]] = 5
    kind, tokens = rng.integers(3, size=N_ROWS), rng.normal(size=N_ROWS)
    duel, of_question, of_kind = (rng.normal(size=(n, n_items)) for n in (n_items, 100, 3))
    f, is_own = np.linspace(1.0, -1.0, n_items), (FAMILY == "gpt").astype(float)
    direction = np.where((judge == 5) & (size["heavy"] > 0.0), -1.0, 1.0)
    lead = (
        direction * (f[first] - f[second])
        + size["order"]
        + size["order_of_one"] * (judge == 3)
        + size["duels"] * (duel[first, second] - duel[second, first])
        + size["own_family"] * (judge == 0) * (is_own[first] - is_own[second])
        + size["length"] * tokens
        + size["question"] * (of_question[asked, first] - of_question[asked, second])
        + size["category"] * (of_kind[kind, first] - of_kind[kind, second])
    )
    # tastes and what is asked again, drawn after all else
    noise, taste = rng.logistic(size=N_ROWS), rng.normal(size=(len(JUDGES), n_items))
    if size["again"]:
        again = rng.choice(N_ROWS, int(size["again"] * N_ROWS), replace=False)
        lead = lead + size["tastes"] * (taste[judge, first] - taste[judge, second])
        first, second, judge, asked, kind, tokens, lead = (
            np.append(column, column[again])
            for column in (first, second, judge, asked, kind, tokens, lead)
        )
        noise = np.append(noise, rng.logistic(size=len(again)))
    names = JUDGES.copy()
    if size["humans"]:
        # everybody is asked about the same few pairs
        asked, is_human = asked * 0, judge % 10 == 1
        names[[1, 11]] = "human 1", "human 2"
        lead = np.where(is_human, lead, 0.0)
    lead = lead + noise
    outcome = np.where(lead > 0.3, 1, np.where(lead < -0.3, -1, 0))
    rows = np.arange(len(lead))
    # some answers once more, in the other order and the other way round
    if size["repeats"]:
        again = rng.choice(N_ROWS, int(size["repeats"] * N_ROWS), replace=False)
        rows = np.append(rows, again)
    table = ComparisonTable.of(
        NAMES[first][rows],
        NAMES[second][rows],
        outcome[rows],
        judge=names[judge][rows],
        question=asked[rows],
        category=kind[rows],
        covariates={"length": tokens[rows]},
    )
    if not size["repeats"]:
        return table
    first_again = table.second.copy()
    flipped = np.where(np.arange(len(rows)) >= N_ROWS, 1, 0).astype(bool)
    return type(table)(
        **{
            **vars(table),
            "first": np.where(flipped, first_again, table.first),
            "second": np.where(flipped, table.first, table.second),
        }
    )


def section() -> str:
    """Return the table of planted defects and of the probes that fire."""
    rows = []
    for name, sizes in WORLDS.items():
        progress(f"audit: {name}")
        fired: Counter[str] = Counter()
        for seed in range(N_WORLDS):
            board = leaderboard(world(seed, **sizes), random_state=0)
            fired.update(finding.probe for finding in board.audit().flagged)
        shown = ", ".join(f"{probe} {n / N_WORLDS:.2f}" for probe, n in fired.most_common(4))
        rows.append([name, shown or "nothing"])
    header = ["defect planted", f"probes that fire, and in which share of {N_WORLDS} worlds"]
    return (
        f"Twelve items, twenty judges, {N_ROWS:,} answers, ties within a lead of 0.3; sizes are in "
        "units of the logistic noise's scale. Each probe looks at a level of one percent.\n\n"
        + markdown_table(header, rows)
    )
