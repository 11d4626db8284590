"""Intervals of leaderboards: how often they hold the truth, and how often the leader is the best.

A spread of scores that is drawn from the prior, half of a Cauchy distribution, is what intervals
are right about on average; a given spread is not, least of all one below the noise of the answers.
"""

import numpy as np

from experiments.arena import covered
from experiments.arena_trials import by_odds
from experiments.harness import markdown_table, progress, with_error

N_WORLDS, N_LARGE, SPREADS = 300, 20, (0.05, 3.0)

BOARDS = [
    ("12 items, 150 battles, odds of ties", 12, 150, 0.8),
    ("12 items, 3,000 battles, odds of ties", 12, 3000, 0.8),
    ("8 items, 400 battles", 8, 400, 0.0),
    ("20 items, 1,000 battles", 20, 1000, 0.0),
    ("100 items, 300 battles", 100, 300, 0.0),
    ("300 items, 900 battles", 300, 900, 0.0),
    ("1,000 items, 3,000 battles", 1000, 3000, 0.0),
    ("1,000 items, 10,000 battles", 1000, 10_000, 0.0),
]
GIVEN = [
    ("12 items, 150 battles, odds of ties", 12, 150, 0.8, (1.0,)),
    ("8 items, 400 battles", 8, 400, 0.0, (0.05, 0.2, 1.0)),
    ("20 items, 1,000 battles", 20, 1000, 0.0, (0.02, 0.2)),
    ("100 items, 300 battles", 100, 300, 0.0, (1.0,)),
    ("300 items, 900 battles", 300, 900, 0.0, (2.0,)),
    ("1,000 items, 3,000 battles", 1000, 3000, 0.0, (0.1, 1.0, 2.0)),
]


def section() -> str:
    """Return the table of shares."""
    rows = [_row(name, "drawn", *sizes) for name, *sizes in BOARDS]
    for name, *sizes, spreads in GIVEN:
        rows += [_row(name, spread, *sizes) for spread in spreads]
    low, high = SPREADS
    head = (
        "How often 90 % intervals of scores and of ranks hold the truth, and how probably the "
        "leader is said to be the best and how often it is, in simulated worlds whose items all "
        "met, with standard errors over worlds. Ties have odds (Davidson). The spread of the "
        f"scores is drawn from its prior, between {low:g} and {high:g}, or given. In 400 battles "
        "of 8 items a score is known to 0.2: answers do not tell spreads of 0.05 and 0.2 apart, so "
        "that what is said of leaders lies between what is true of both.\n\n"
    )
    header = ["data", "spread", "worlds", "scores", "ranks", "leader best, said", "true"]
    return head + markdown_table(header, rows)


def _row(name, spread, n_items, n_rows, nu):
    n_worlds, rng = N_WORLDS if n_items < 100 else min(N_LARGE, N_WORLDS), np.random.default_rng(1)
    angle = np.arctan(SPREADS)
    found = []
    for seed in range(n_worlds):
        size = np.tan(rng.uniform(*angle)) if spread == "drawn" else spread
        f, table = by_odds(seed, n_items, n_rows, size, nu)[:2]
        found.append(covered(f, table, {}, seed))
    held, ranked, said, right = np.transpose(found)
    progress(f"board_coverage: {name}, spread {spread}")
    shown = [*(with_error(share, 3) for share in (held, ranked)), f"{said.mean():.2f}"]
    return [name, spread, n_worlds, *shown, with_error(right, 2)]
