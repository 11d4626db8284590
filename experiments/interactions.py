"""Battles that a rule on differences of features decides: the process, trees of pairs, and peers.

Of two fighters the faster wins as a rule, unless the other one's attack is far above what it can
ward off, or its stamina is.
"""

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.harness import markdown_table, progress, with_error
from rankwise import PreferenceGP

SIZES, N_WORLDS, N_FIGHTERS, N_TEST = (500, 2000, 10_000), (4, 4, 2), 800, 4000
PEER = HistGradientBoostingClassifier


def section() -> str:
    """Return the table of log-losses."""
    rows = []
    for n_rows, n_worlds in zip(SIZES, N_WORLDS, strict=True):
        found = [_losses(n_rows, seed) for seed in range(n_worlds)]
        shown = [with_error(np.array(values), 3) for values in np.transpose(found)[:-1]]
        rows.append([f"{n_rows:,}", n_worlds, *shown, f"{sum(one[-1] for one in found):.0f}"])
    head = (
        f"Log-loss of {N_TEST:,} new battles among {N_FIGHTERS} fighters with eight features, with "
        "standard errors over worlds. HistGradientBoosting learns from (a, b, a - b), with its "
        'defaults and with early stopping. `interactions="auto"` chooses by a fifth of the battles '
        "whether trees take part.\n\n"
    )
    header = ["battles", "worlds", "true probabilities", "HistGradientBoosting"]
    header += ["with early stopping", "process", 'process, `interactions="auto"`', "trees chosen"]
    return head + markdown_table(header, rows)


def fighters(rng):
    """Draw eight features: six strengths, whether legendary, and a type."""
    strength = np.clip(rng.normal(70.0, 28.0, size=(N_FIGHTERS, 6)), 5.0, 200.0).round()
    is_legendary = rng.random(N_FIGHTERS) < 0.08
    strength += 25.0 * is_legendary[:, None]
    return np.column_stack([strength, is_legendary, rng.integers(6, size=N_FIGHTERS)])


def probability(a, b):
    """Return the probability that a beats b."""
    blow = [np.maximum(x[:, 1] - y[:, 2], x[:, 3] - y[:, 4]) for x, y in ((a, b), (b, a))]
    lead = 3.2 * np.sign(a[:, 5] - b[:, 5]) + np.tanh((a[:, 0] - b[:, 0]) / 60.0)
    return expit(lead + 1.6 * np.tanh((blow[0] - blow[1]) / 40.0))


def _battles(rng, X, n_rows):
    first = rng.integers(N_FIGHTERS, size=n_rows)
    second = (first + 1 + rng.integers(N_FIGHTERS - 1, size=n_rows)) % N_FIGHTERS
    return first, second, rng.random(n_rows) < probability(X[first], X[second])


def _losses(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = fighters(rng)
    (i, j, won), (a, b, answer) = _battles(rng, X, n_rows), _battles(rng, X, N_TEST)

    def features(first, second):
        return np.hstack([X[first], X[second], X[first] - X[second]])

    def loss(p):
        p = np.clip(p, 1e-6, 1.0 - 1e-6)
        return -np.mean(np.log(np.where(answer, p, 1.0 - p)))

    found = [loss(probability(X[a], X[b]))]
    for stops in (False, True):
        peer = PEER(random_state=0, early_stopping=stops).fit(features(i, j), won)
        found.append(loss(peer.predict_proba(features(a, b))[:, 1]))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    pairs = np.where(won[:, None], np.column_stack([i, j]), np.column_stack([j, i]))
    for interactions in (False, "auto"):
        gp = PreferenceGP(interactions=interactions, random_state=0).fit(Z, pairs=pairs)
        found.append(loss(gp.predict_pair(Z[a], Z[b])))
    progress(f"{n_rows} battles, world {seed}")
    return [*found, gp.interactions_.trees is not None]
