"""Leaderboards from names alone: football through time, simulated crowds, coverage of intervals."""

import csv
import lzma

import numpy as np
from scipy.special import expit
from scipy.stats import spearmanr

from experiments.harness import data_path, markdown_table, with_error
from rankwise import ChoiceTable, ComparisonTable, Leaderboard, PreferenceGP, leaderboard

FIRST_YEAR, TEST_YEAR = "2016", "2022"
ELO_STEPS = (10.0, 20.0, 30.0, 40.0, 60.0)
N_WORLDS, N_COVERED = 6, 200


def section() -> str:
    """Return all tables."""
    return "\n".join([_football(), _crowds(), _coverage()])


# Football


def matches() -> ComparisonTable:
    """Return international matches since 2016, the host (or first named) team first."""
    with lzma.open(data_path("football_international", "results.csv.xz"), "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["date"] >= FIRST_YEAR]
    rows = [row for row in rows if row["home_score"].isdigit()]
    goals = np.array([int(row["home_score"]) - int(row["away_score"]) for row in rows])
    return ComparisonTable.of(
        [row["home_team"] for row in rows],
        [row["away_team"] for row in rows],
        np.sign(goals),
        date=[row["date"] for row in rows],
        covariates={"home": [float(row["neutral"] == "FALSE") for row in rows]},
    )


def surprise(p, outcome) -> np.ndarray:
    """Return -log of the probability of each outcome 1, 0 or -1; columns are win, tie, loss."""
    return -np.log(p[np.arange(len(p)), 1 - outcome])


def log_loss(p, outcome) -> float:
    """Return the mean surprise."""
    return float(surprise(p, outcome).mean())


def elo(table, train, step, advantage):
    """Return win, tie and loss of the later matches, with ratings updated after every match."""
    rating = np.zeros(table.n_items)
    share = np.mean(table.outcome[train] == 0)
    p = np.empty((table.n_rows, 3))
    for row, (i, j) in enumerate(zip(table.first, table.second, strict=True)):
        lead = rating[i] - rating[j] + advantage * table.covariates[row, 0]
        expected = expit(lead * np.log(10.0) / 400.0)
        p[row] = (1.0 - share) * expected, share, (1.0 - share) * (1.0 - expected)
        change = step * (0.5 + 0.5 * table.outcome[row] - expected)
        rating[i] += change
        rating[j] -= change
    return p


def _football() -> str:
    table = matches()
    first_test = (np.datetime64(f"{TEST_YEAR}-01-01") - np.datetime64("1970-01-01")).astype(int)
    train = table.date < first_test
    seen, new = (table.take(np.flatnonzero(rows)) for rows in (train, ~train))
    new = new.take(np.flatnonzero(_met(seen, new)))
    shares = np.array([np.mean(seen.outcome == one) for one in (1, 0, -1)])
    found = {
        "shares of the outcomes": surprise(np.tile(shares, (new.n_rows, 1)), new.outcome),
    }
    blind = ComparisonTable.of(*_names(seen), seen.outcome, date=seen.date, names=table.names)
    known = table.names
    for name, data, options in [
        ("`leaderboard`, teams alone", blind, {}),
        ("`leaderboard`, home", seen, {}),
        ("`leaderboard`, home, half-life of 3 years", seen, {"half_life": 1095.0}),
        ("`leaderboard`, home, half-life of 1 year", seen, {"half_life": 365.0}),
    ]:
        board = leaderboard(data, random_state=0, **options)
        at_home = {"home": new.covariates[:, 0]} if data is seen else None
        p = board.predict_pair(known[new.first], known[new.second], at_home)
        found[name] = surprise(p, new.outcome)
    best = min(
        (log_loss(elo(seen, np.ones(seen.n_rows, bool), k, 80.0)[-1000:], seen.outcome[-1000:]), k)
         for k in ELO_STEPS
    )[1]  # fmt: skip
    rated = elo(table, train, best, 80.0)[~train]
    p = rated[_met(seen, table.take(np.flatnonzero(~train)))]
    found[f"Elo, updated through the test years, step {best:g}"] = surprise(p, new.outcome)
    home = found["`leaderboard`, home"]
    rows = [
        [name, with_error(each, 4), "" if each is home else with_error(each - home, 4, "+")]
        for name, each in found.items()
    ]
    head = (
        f"International football, {seen.n_rows:,} matches of {table.n_items} teams from "
        f"{FIRST_YEAR} on to learn from and {new.n_rows:,} from {TEST_YEAR} on to predict: "
        "three-way log-loss. Elo sees every match before the next one; the leaderboards stop "
        f"learning in {TEST_YEAR}. Matches of teams that never met before, if only through "
        "others, are left out. The step of Elo is chosen on the last thousand training "
        "matches, and its ties have the share of the training matches. Standard errors are over "
        "matches.\n\n"
    )
    header = ["method", "log-loss", "less `leaderboard`, home"]
    return head + markdown_table(header, rows)


def _met(seen, new):
    """Tell which matches are between teams that met before, if only through others."""
    board = leaderboard(seen, random_state=0)
    if board.group is None:
        return np.ones(new.n_rows, dtype=bool)
    group = dict(zip(board.names.tolist(), board.group.tolist(), strict=True))
    of_team = np.array([group.get(name, -1) for name in new.names.tolist()])
    return of_team[new.first] == of_team[new.second]


def _names(table):
    return table.names[table.first], table.names[table.second]


# Crowds


def crowd(seed, careless, n_items=20, n_rows=4000, n_judges=40):
    """Draw votes of judges with different reliability and tie width, some of them careless."""
    rng = np.random.default_rng(seed)
    f = 0.8 * rng.normal(size=n_items)
    reliability, width = (
        np.exp(0.4 * rng.normal(size=n_judges)),
        np.exp(-0.5 + 0.7 * rng.normal(size=n_judges)),
    )
    judge = rng.integers(n_judges, size=n_rows)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    lead = reliability[judge] * (f[first] - f[second]) + rng.logistic(size=n_rows)
    outcome = np.where(lead > width[judge], 1, np.where(lead < -width[judge], -1, 0))
    random = rng.choice([1, 0, -1], n_rows, p=[0.4, 0.2, 0.4])
    outcome = np.where(rng.random(n_rows) < careless, random, outcome)
    return f, ComparisonTable.of(first, second, outcome, judge=judge, names=np.arange(n_items))


def _crowds() -> str:
    methods = {
        '`PreferenceGP(likelihood="robust")`': lambda t: PreferenceGP().fit(pairs=t),
        '`PreferenceGP(likelihood="probit")`': lambda t: PreferenceGP(likelihood="probit").fit(
            pairs=t
        ),
        "`leaderboard`": lambda t: leaderboard(t, random_state=0),
        "`leaderboard(judges=True)`": lambda t: leaderboard(t, judges=True, random_state=0),
    }
    rows = []
    for careless in (0.0, 0.15):
        for name, fit in methods.items():
            values = [_judged(seed, careless, fit) for seed in range(N_WORLDS)]
            rows.append(
                [f"{careless:.0%}", name, *(with_error(v, 4) for v in np.transpose(values))]
            )
    head = (
        f"Simulated crowds: {N_WORLDS} worlds of 20 items and 4,000 votes by 40 judges with their "
        "own tie widths and reliabilities, 30 % of the votes held out; standard errors are over "
        "worlds, which are the same for all methods. The last column is Spearman's correlation "
        "with the true scores. Only the last method knows who votes.\n\n"
    )
    header = ["careless", "method", "log-loss", "decided", "Spearman"]
    return head + markdown_table(header, rows)


def _judged(seed, careless, fit):
    f, table = crowd(seed, careless)
    held_out = np.random.default_rng(seed).random(table.n_rows) < 0.3
    seen, new = (table.take(np.flatnonzero(rows)) for rows in (~held_out, held_out))
    model = fit(seen)
    board = model if isinstance(model, Leaderboard) else None
    if board is not None and board.judges is not None:
        p = board.predict_pair(new.first, new.second, judge=new.judge.index)
    else:
        p = model.predict_pair(new.first, new.second)
    scores = board.score[np.argsort(board.names)] if board is not None else model.predict()
    decided = new.outcome != 0
    share = p[:, [0, 2]] / p[:, [0, 2]].sum(axis=1, keepdims=True)
    won = np.where(new.outcome == 1, share[:, 0], share[:, 1])[decided]
    return log_loss(p, new.outcome), float(-np.log(won).mean()), spearmanr(scores, f)[0]


# Coverage


def _coverage() -> str:
    rows = []
    for name, n_items, draw in [
        ("12 items, 150 battles with ties", 12, lambda s: battles(s, 12, 150)),
        ("100 items, 1,000 battles with ties", 100, lambda s: battles(s, 100, 1000)),
        ("1,000 items, 10,000 battles with ties", 1000, lambda s: battles(s, 1000, 10_000)),
        ("8 items, 60 rankings", 8, lambda s: _rankings(s, "choices")),
        ("8 items, 60 rankings broken into pairs", 8, lambda s: _rankings(s, "pairs")),
        ("the same, `clustered=True`", 8, lambda s: _rankings(s, "clustered")),
        ("12 items, best and worst of 60 sets of 4", 12, lambda s: _best_worst(s, 12, 60, 60)),
        ("30 items, best and worst of 60 sets of 4", 30, lambda s: _best_worst(s, 30, 60, 60)),
        (
            "the same, `clustered=True`",
            30,
            lambda s: (*_best_worst(s, 30, 60, 60)[:2], {"clustered": True}),
        ),
        (
            "12 items, best and worst of 200 sets of 4 by 20 judges, `clustered=True`",
            12,
            lambda s: (*_best_worst(s, 12, 200, 20)[:2], {"clustered": True}),
        ),
    ]:
        n_worlds = N_COVERED if n_items < 1000 else min(10, N_COVERED)
        found = [covered(*draw(seed), seed)[:2] for seed in range(n_worlds)]
        rows.append([name, n_worlds, *(with_error(share, 3) for share in np.transpose(found))])
    head = (
        "How often 90 % intervals of scores and of ranks hold the truth, in simulated worlds, "
        "with standard errors over worlds.\n\n"
    )
    return head + markdown_table(["data", "worlds", "scores", "ranks"], rows)


def battles(seed, n_items, n_rows):
    """Draw battles that tie within a lead of 0.4."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n_items)
    first = rng.integers(n_items, size=n_rows)
    second = (first + 1 + rng.integers(n_items - 1, size=n_rows)) % n_items
    lead = f[first] - f[second] + rng.logistic(size=n_rows)
    outcome = np.where(lead > 0.4, 1, np.where(lead < -0.4, -1, 0))
    return f, ComparisonTable.of(first, second, outcome, names=np.arange(n_items)), {}


def _rankings(seed, kind):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=8)
    orders = [np.argsort(-(f + rng.gumbel(size=8))).tolist() for _ in range(60)]
    if kind == "choices":
        return f, ChoiceTable.from_rankings(orders), {}
    ends = [(o[i], o[j], k) for k, o in enumerate(orders) for j in range(8) for i in range(j)]
    first, second, judge = zip(*ends, strict=True)
    table = ComparisonTable.of(first, second, judge=judge)
    return f, table, {"clustered": kind == "clustered"}


def _best_worst(seed, n_items, n_sets, n_judges):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n_items)
    sets = [rng.permutation(n_items)[:4] for _ in range(n_sets)]
    best = [s[np.argmax(f[s] + rng.gumbel(size=4))] for s in sets]
    others = [s[s != top] for s, top in zip(sets, best, strict=True)]
    worst = [s[np.argmax(rng.gumbel(size=3) - f[s])] for s in others]
    judge = np.arange(n_sets) % n_judges
    sets = [s.tolist() for s in sets]
    return f, ChoiceTable.from_best_worst(sets, map(int, best), map(int, worst), judge=judge), {}


def covered(f, data, options, seed):
    """Return what intervals hold, how probably the leader is the best, and whether it is."""
    board = leaderboard(data, random_state=seed, **options)
    truth = (f - f.mean())[board.names]
    rank = 1 + np.argsort(np.argsort(-truth))
    score = np.mean((board.low <= truth) & (truth <= board.high))
    ranks = np.mean((board.rank_low <= rank) & (rank <= board.rank_high))
    return score, ranks, board.best[0], float(truth[0] == truth.max())
