"""Football through time: each season is predicted from the years before it.

The teams are those with most matches against each other. Everybody learns from the same matches,
knows who plays at home, and predicts the winner of the decided matches of the next season, without
learning from that season. Elo's step and home advantage, Glicko's drift and home advantage, and the
half-life are chosen on the last year of the matches learned from.
"""

import csv
import lzma
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit

from experiments.harness import data_path, markdown_table, progress, with_error
from rankwise import ComparisonTable, PreferenceGP

PEERS = ["openskill"]
N_TEAMS, N_YEARS = 40, 5
SEASONS = (2014, 2017, 2019, 2022)
STEPS, HOMES = (20.0, 40.0, 60.0, 90.0), (0.0, 50.0, 100.0)
DRIFTS = (10.0, 30.0, 60.0)
HALF_LIVES = (365.0, 1095.0, 3650.0)
ELO_UNIT = np.log(10.0) / 400.0


@dataclass(frozen=True)
class Season:
    """Matches by date, in days; the first team is at home where ``home`` is 1."""

    first: np.ndarray
    second: np.ndarray
    outcome: np.ndarray
    date: np.ndarray
    home: np.ndarray

    def take(self, rows) -> "Season":
        """Keep some matches."""
        fields = (self.first, self.second, self.outcome, self.date, self.home)
        return Season(*(values[rows] for values in fields))

    @property
    def table(self) -> ComparisonTable:
        """The matches with home as a covariate."""
        return ComparisonTable.of(
            self.first,
            self.second,
            self.outcome,
            date=self.date,
            covariates={"home": self.home},
            names=np.arange(N_TEAMS),
        )


def read() -> Season:
    """Return the matches between the teams that met most."""
    start = str(min(SEASONS) - N_YEARS)
    with lzma.open(data_path("football_international", "results.csv.xz"), "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["date"] >= start]
    rows = [row for row in rows if row["home_score"].isdigit()]
    sides = ("home_team", "away_team")
    counts = Counter(row[side] for row in rows for side in sides)
    teams = [name for name, _ in counts.most_common(N_TEAMS)]
    place = {name: position for position, name in enumerate(teams)}
    rows = sorted((r for r in rows if all(r[s] in place for s in sides)), key=lambda r: r["date"])
    goals = [int(row["home_score"]) - int(row["away_score"]) for row in rows]
    return Season(
        np.array([place[row["home_team"]] for row in rows]),
        np.array([place[row["away_team"]] for row in rows]),
        np.sign(goals).astype(int),
        np.array([row["date"] for row in rows], dtype="datetime64[D]").astype(float),
        np.array([float(row["neutral"] == "FALSE") for row in rows]),
    )


def in_years(matches: Season, first: int, last: int) -> Season:
    """Keep the matches of some years."""
    ends = np.array([f"{first}-01-01", f"{last + 1}-01-01"], dtype="datetime64[D]").astype(float)
    return matches.take((matches.date >= ends[0]) & (matches.date < ends[1]))


def log_losses(p, matches: Season) -> np.ndarray:
    """Return the log-loss of every match from the probability of the first team."""
    return -np.log(np.where(matches.outcome > 0, p, 1.0 - p))


def chosen(method: Callable, grid, train: Season, test: Season) -> np.ndarray:
    """Predict with the settings that predict the last year of the training matches best."""
    recent = train.date > train.date.max() - 365.0
    past, last = train.take(~recent), train.take(recent)
    last = last.take(last.outcome != 0)
    values = [log_losses(method(past, last, *settings), last).mean() for settings in grid]
    return method(train, test, *list(grid)[int(np.argmin(values))])


def elo(train: Season, test: Season, step: float, home: float) -> np.ndarray:
    """Rate match by match; a tie counts half."""
    rating = np.zeros(N_TEAMS)
    for i, j, o, h in zip(train.first, train.second, train.outcome, train.home, strict=True):
        expected = expit(ELO_UNIT * (rating[i] - rating[j] + home * h))
        move = step * (0.5 + 0.5 * o - expected)
        rating[i], rating[j] = rating[i] + move, rating[j] - move
    return expit(ELO_UNIT * (rating[test.first] - rating[test.second] + home * test.home))


def glicko(train: Season, test: Season, drift: float, home: float) -> np.ndarray:
    """Rate match by match with deviations that grow by ``drift`` in a month (Glickman 1999)."""
    rating, deviation = np.zeros(N_TEAMS), np.full(N_TEAMS, 350.0)
    last = np.full(N_TEAMS, train.date.min())

    def damping(variance):
        return 1.0 / np.sqrt(1.0 + 3.0 * ELO_UNIT**2 * variance / np.pi**2)

    for i, j, o, h, date in zip(
        train.first, train.second, train.outcome, train.home, train.date, strict=True
    ):
        for one in (i, j):
            grown = deviation[one] ** 2 + drift**2 * (date - last[one]) / 30.0
            deviation[one], last[one] = min(np.sqrt(grown), 350.0), date
        moved = []
        for one, other, sign in ((i, j, 1.0), (j, i, -1.0)):
            g = damping(deviation[other] ** 2)
            expected = expit(ELO_UNIT * g * (rating[one] - rating[other] + sign * home * h))
            information = (ELO_UNIT * g) ** 2 * expected * (1.0 - expected)
            variance = 1.0 / (deviation[one] ** -2 + information)
            step = ELO_UNIT * g * (0.5 + 0.5 * sign * o - expected)
            moved.append((one, rating[one] + variance * step, np.sqrt(variance)))
        for one, new, spread in moved:
            rating[one], deviation[one] = new, spread
    age = (train.date.max() - last) / 30.0
    variance = np.minimum(deviation**2 + drift**2 * age, 350.0**2)
    lead = rating[test.first] - rating[test.second] + home * test.home
    return expit(ELO_UNIT * damping(variance[test.first] + variance[test.second]) * lead)


def openskill(train: Season, test: Season) -> np.ndarray:
    """Rate match by match by the model of Plackett and Luce, which knows no home."""
    from openskill.models import PlackettLuce  # noqa: PLC0415

    model = PlackettLuce()
    ratings = [model.rating() for _ in range(N_TEAMS)]
    for i, j, o in zip(train.first, train.second, train.outcome, strict=True):
        ranks = [0, 0] if o == 0 else [0, 1] if o > 0 else [1, 0]
        (ratings[i],), (ratings[j],) = model.rate([[ratings[i]], [ratings[j]]], ranks=ranks)
    ends = zip(test.first, test.second, strict=True)
    p = np.array([model.predict_win([[ratings[i]], [ratings[j]]]) for i, j in ends])
    return np.clip(p[:, 0] / p.sum(axis=1), 1e-6, 1.0 - 1e-6)


def process(train: Season, test: Season, half_life: float | None = None, **options) -> np.ndarray:
    """Predict with a preference process from names alone."""
    table = train.table if half_life is None else train.table.decayed(half_life)
    gp = PreferenceGP("linear", likelihood="probit", **options).fit(pairs=table)
    when = test.date if gp.drift else None
    p = gp.predict_pair(test.first, test.second, covariates={"home": test.home}, date=when)
    return p[:, 0] / (p[:, 0] + p[:, 2])


METHODS: dict[str, Callable] = {
    "process, drift": lambda train, test: process(train, test, drift=True),
    "process, half-life": lambda train, test: chosen(
        process, [(days,) for days in HALF_LIVES], train, test
    ),
    "process, no time": process,
    "Elo": lambda train, test: chosen(elo, list(product(STEPS, HOMES)), train, test),
    "Glicko": lambda train, test: chosen(glicko, list(product(DRIFTS, HOMES)), train, test),
    "openskill": openskill,
    "chance": lambda _, test: np.full(len(test.first), 0.5),
}


def section() -> str:
    """Return the table of log-loss and accuracy."""
    matches = read()
    losses: dict[str, list] = {name: [] for name in METHODS}
    right: dict[str, list] = {name: [] for name in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    n_train = 0
    for year in SEASONS:
        train, test = in_years(matches, year - N_YEARS, year - 1), in_years(matches, year, year)
        test = test.take(test.outcome != 0)
        n_train += len(train.first)
        for name, method in METHODS.items():
            start = time.process_time()
            p = method(train, test)
            seconds[name] += time.process_time() - start
            losses[name].extend(log_losses(p, test))
            right[name].extend(np.where(p == 0.5, 0.5, (p > 0.5) == (test.outcome > 0)))
        progress(f"time_ordered: {year}, {len(train.first)} matches learned from")
    best = np.array(losses["process, drift"])
    rows = [
        [
            name,
            with_error(losses[name], 4),
            with_error(np.array(losses[name]) - best, 4, "+"),
            with_error(right[name], 3),
            f"{seconds[name] / len(SEASONS):.2f}",
        ]
        for name in METHODS
    ]
    head = ["", "log-loss", "difference to drift", "accuracy", "CPU seconds a season"]
    return (
        f"The {N_TEAMS} teams with most matches, seasons {SEASONS[0]} to {SEASONS[-1]} "
        f"({len(SEASONS)} of them), each from the {N_YEARS} years before it: "
        f"{n_train / len(SEASONS):.0f} matches on average. {len(best)} decided matches are "
        "predicted; errors are standard errors over matches, differences are paired. On a busy "
        "machine with two cores.\n\n"
    ) + markdown_table(head, rows)
