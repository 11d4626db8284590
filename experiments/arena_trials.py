"""Leaderboards tried: decay, careless judges, peers."""

import choix
import evalica
import numpy as np
import pandas as pd
from crowdkit.aggregation import BradleyTerry
from openskill.models import PlackettLuce
from scipy.special import expit

from experiments.arena import battles, log_loss
from experiments.harness import markdown_table, with_error
from rankwise import ComparisonTable, leaderboard
from rankwise.comparisons.arena.decay import learned_half_life

N_WORLDS = 6
N_LATER, HALF_LIVES = 13, (None, 30.0, 90.0, 180.0, 365.0)


def section() -> str:
    """Return all tables."""
    return "\n".join([_weekly(), _careless(), _peers()])


def by_odds(seed, n_items, n_rows, spread=1.0, nu=0.8):
    """Draw comparisons whose ties have odds (Davidson), all of whose items met."""
    rng = np.random.default_rng(seed)
    f = spread * rng.normal(size=n_items)
    # a ring of items, so that all met
    first = np.append(np.arange(n_items), rng.integers(n_items, size=n_rows - n_items))
    step = np.append(np.ones(n_items, int), 1 + rng.integers(n_items - 1, size=n_rows - n_items))
    second = (first + step) % n_items
    s = f[first] - f[second]
    up, u = np.exp(0.5 * s), rng.random(n_rows)
    win, loss = np.stack([up, 1.0 / up]) / (up + 1.0 / up + nu)
    outcome = np.where(u < win, 1, np.where(u < win + loss, -1, 0))
    return f, ComparisonTable.of(first, second, outcome, names=np.arange(n_items)), {}


# Scores that change, refitted every week


def _seasons(seed, memory, n_items=30, n_weeks=104, n_each=40):
    """Draw scores that keep a share from week to week, with the matches of every week."""
    rng = np.random.default_rng(seed)
    f, weeks = rng.normal(size=n_items), []
    for week in range(n_weeks):
        f = memory * f + np.sqrt(1.0 - memory**2) * rng.normal(size=n_items)
        first = rng.integers(n_items, size=n_each)
        second = (first + 1 + rng.integers(n_items - 1, size=n_each)) % n_items
        won = rng.random(n_each) < expit(f[first] - f[second])
        weeks.append(np.stack([first, second, np.where(won, 1, -1), np.full(n_each, 7 * week)]))
    first, second, outcome, day = np.concatenate(weeks, axis=1)
    names = np.arange(n_items)
    return ComparisonTable.of(first, second, outcome, date=day.astype(float), names=names)


def _weekly() -> str:
    rows = []
    for said, memory in [("none", 1.0), ("0.99", 0.99), ("0.97", 0.97), ("0.9", 0.9)]:
        tables = [_seasons(seed, memory) for seed in range(N_WORLDS)]
        found = [_weekly_losses(table) for table in tables]
        shown = [with_error(np.array(losses), 4) for losses in np.transpose(found)]
        rows.append(["still" if memory == 1.0 else said, *shown])
    head = (
        f"Log-loss of each week's matches, predicted from all that came before, over the last "
        f"{N_LATER} of 104 weeks of 40 matches among 30 items whose scores keep a share of "
        f"themselves from week to week; {N_WORLDS} worlds. `auto` is chosen once, before these "
        "weeks.\n\n"
    )
    header = ["share kept", *("no decay" if h is None else f"{h} days" for h in HALF_LIVES), "auto"]
    return head + markdown_table(header, rows)


def _weekly_losses(table):
    weeks = np.unique(table.date)[-N_LATER:]
    seen = table.take(np.flatnonzero(table.date < weeks[0]))
    losses = [_refitted(table, weeks, half_life) for half_life in HALF_LIVES]
    return [*losses, _refitted(table, weeks, learned_half_life(seen, leaderboard))]


def _refitted(table, weeks, half_life):
    """Return the log-loss of each week, predicted from the weeks before."""
    losses = []
    for week in weeks:
        seen = table.take(np.flatnonzero(table.date < week))
        new = table.take(np.flatnonzero(table.date == week))
        board = leaderboard(seen, half_life=half_life, random_state=0)
        losses.append(log_loss(board.predict_pair(new.first, new.second), new.outcome))
    return float(np.mean(losses))


# Judges who answer at random


def _careless() -> str:
    rows = []
    for name, share, n_each in [("none", 0.0, 40), ("10 %", 0.1, 40), ("10 %", 0.1, 15),
                                ("30 %", 0.3, 40)]:  # fmt: skip
        found = [_said_careless(seed, share, n_each) for seed in range(N_WORLDS)]
        said, true = (np.concatenate(part) for part in zip(*found, strict=True))
        bins = np.digitize(said, [0.1, 0.5, 0.9])
        cells = [
            f"{said[bins == k].mean():.2f} / {true[bins == k].mean():.2f} ({(bins == k).sum()})"
            if (bins == k).any() else "-"
            for k in range(4)
        ]  # fmt: skip
        loss = -np.mean(np.log(np.where(true, said, 1.0 - said).clip(1e-12)))
        rows.append([name, n_each, *cells, f"{loss:.3f}"])
    head = (
        f"What `careless` says of 40 judges in {N_WORLDS} worlds of 15 items: mean probability / "
        "share of judges who are (number of judges), by what is said.\n\n"
    )
    said = ["below 0.1", "0.1 to 0.5", "0.5 to 0.9", "above 0.9"]
    header = ["careless judges", "answers each", *said, "log-loss"]
    return head + markdown_table(header, rows)


def _said_careless(seed, share, n_each, n_judges=40, n_items=15):
    rng = np.random.default_rng(seed)
    f, is_careless = rng.normal(size=n_items), rng.random(n_judges) < share
    reliability = np.where(is_careless, 0.0, np.exp(0.4 * rng.normal(size=n_judges)))
    judge = np.repeat(np.arange(n_judges), n_each)
    first = rng.integers(n_items, size=len(judge))
    second = (first + 1 + rng.integers(n_items - 1, size=len(judge))) % n_items
    lead = reliability[judge] * (f[first] - f[second]) + rng.logistic(size=len(judge))
    table = ComparisonTable.of(first, second, np.sign(lead), judge=judge)
    report = leaderboard(table, judges=True, random_state=0).judges
    return report.careless, is_careless[report.names]


# Peers


def _peers() -> str:
    rows = []
    for name, draw in [
        ("20 items, 300 battles, ties by odds", lambda s: by_odds(s, 20, 300)[1]),
        ("20 items, 300 battles with ties", lambda s: battles(s, 20, 300)[1]),
        ("20 items, 4,000 battles with ties", lambda s: battles(s, 20, 4000)[1]),
        ("100 items, 600 battles", lambda s: by_odds(s, 100, 600, nu=0.0)[1]),
    ]:
        found = [_decisive_losses(draw(seed), seed) for seed in range(N_WORLDS)]
        rows.append([name, *(with_error(np.array(v), 4) for v in np.transpose(found))])
    head = (
        "Log-loss of decided battles of the held-out third, ties left out of what is predicted: a "
        f"peer gets ties as half a win each way, or not at all if it takes none; {N_WORLDS} "
        "worlds. choix has the penalty of a deviation of 1. crowd-kit knows no ties; evalica has "
        "its defaults, which stop after two iterations with equal scores on the last board.\n\n"
    )
    return head + markdown_table(["data", "`leaderboard`", *PEERS], rows)


def _decisive_losses(table, seed):
    held_out = np.random.default_rng(seed).random(table.n_rows) < 1.0 / 3.0
    seen, new = (table.take(np.flatnonzero(rows)) for rows in (~held_out, held_out))
    new = new.take(np.flatnonzero(new.outcome != 0))
    p = leaderboard(seen, random_state=0).predict_pair(new.first, new.second)[:, [0, 2]]
    share = (p / p.sum(axis=1, keepdims=True))[:, 0]
    found = [share] + [peer(seen, new) for peer in PEERS.values()]
    won = new.outcome == 1
    return [-np.mean(np.log(np.where(won, q, 1.0 - q).clip(1e-6))) for q in found]


def _choix(seen, new):
    ends = np.stack([seen.first, seen.second], 1)
    halves = [tuple(pair) for pair in ends[seen.outcome == 0].tolist()]
    won = np.where((seen.outcome > 0)[:, None], ends, ends[:, ::-1])[seen.outcome != 0].tolist()
    wins = [tuple(pair) for pair in won] * 2 + halves + [pair[::-1] for pair in halves]
    # a win counts as two, a tie as one each way: twice the answers, so twice the penalty
    f = choix.opt_pairwise(seen.n_items, wins, alpha=1.0)
    return expit(f[new.first] - f[new.second])


def _evalica(seen, new):
    code = {1: evalica.Winner.X, -1: evalica.Winner.Y, 0: evalica.Winner.Draw}
    outcome = [code[int(one)] for one in seen.outcome]
    found = evalica.bradley_terry(seen.first.tolist(), seen.second.tolist(), outcome)
    at = {int(name): value for name, value in found.scores.items()}
    f = np.log([max(at.get(k, 1.0), 1e-12) for k in range(seen.n_items)])
    return expit(f[new.first] - f[new.second])


def _openskill(seen, new):
    model = PlackettLuce()
    rating = [model.rating() for _ in range(seen.n_items)]
    for i, j, outcome in zip(seen.first, seen.second, seen.outcome, strict=True):
        ranks = [0.0, float(outcome)] if outcome >= 0 else [1.0, 0.0]
        [[rating[i]], [rating[j]]] = model.rate([[rating[i]], [rating[j]]], ranks=ranks)
    ends = zip(new.first, new.second, strict=True)
    return np.array([model.predict_win([[rating[i]], [rating[j]]])[0] for i, j in ends])


def _crowd_kit(seen, new):
    decided = seen.take(np.flatnonzero(seen.outcome != 0))
    first_won = decided.outcome == 1
    label = np.where(first_won, decided.first, decided.second)
    frame = pd.DataFrame(
        {"worker": 0, "left": decided.first, "right": decided.second, "label": label}
    )
    score = BradleyTerry(n_iter=200).fit_predict(frame)
    f = np.log(score.reindex(range(seen.n_items)).fillna(score.mean()).to_numpy().clip(1e-12))
    return expit(f[new.first] - f[new.second])


PEERS = {
    "choix": _choix,
    "evalica": _evalica,
    "openskill": _openskill,
    "crowd-kit": _crowd_kit,
}
