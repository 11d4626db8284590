"""Comparisons and their peers: log-loss, calibration, coverage of intervals, seconds.

With features, items of regression sets are compared by their targets, 10 % of the answers flipped;
questions are about new items. By names alone, worlds are drawn from the model of Bradley and Terry,
so that the true ranks are known; questions are about the same items again. No method knows more
than the answers: ties are left out, since most peers have none.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV

from experiments import gp_comparisons
from experiments.harness import markdown_table, progress, with_error
from rankwise import PreferenceGP, leaderboard

PEERS = ["botorch", "torch", "choix", "evalica", "openskill", "crowd-kit"]
SETS, N_SEEDS = ("machine.cpu", "autompg", "housing", "kin8nm"), 4
N_PAIRS, N_TEST, MAX_ITEMS, FLIPS = 300, 2000, 300, 0.1
N_WORLDS, N_NAMES, N_ANSWERS, N_DRAWS = 16, 25, 300, 400
LEVEL, N_BINS = 0.9, 10


@dataclass(frozen=True)
class Answer:
    """What a method says: the probability that i beats j, and draws of the scores if it has any."""

    probability: Callable
    draws: np.ndarray | None = None


def calibration_error(p) -> float:
    """Return the mean distance of predicted and observed shares, for p of what happened."""
    favourite, won = np.maximum(p, 1.0 - p), p >= 0.5
    place = np.minimum((2 * N_BINS * (favourite - 0.5)).astype(int), N_BINS - 1)
    gaps = [abs(np.sum(favourite[place == b]) - np.sum(won[place == b])) for b in range(N_BINS)]
    return float(np.sum(gaps) / len(p))


def figures(p) -> list[float]:
    """Return log-loss, accuracy and calibration error of the probabilities of what happened."""
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return [-float(np.log(p).mean()), float(np.mean(p > 0.5)), calibration_error(p)]


# With features


def logistic(X, pairs):
    """Fit scikit-learn's logistic regression to differences of features."""
    sign = np.where(np.random.default_rng(0).integers(2, size=len(pairs)), 1.0, -1.0)
    D = sign[:, None] * (X[pairs[:, 0]] - X[pairs[:, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=8, fit_intercept=False).fit(D, sign)
    return lambda X, i, j: model.predict_proba(X[i] - X[j])[:, 1]


def boosting(X, pairs):
    """Fit scikit-learn's gradient boosting to the features of both items, in both orders."""
    i, j = pairs.T
    both = np.vstack([np.hstack([X[i], X[j]]), np.hstack([X[j], X[i]])])
    model = HistGradientBoostingClassifier(max_iter=60, early_stopping=True, random_state=0)
    model.fit(both, np.repeat([1, 0], len(pairs)))

    def probability(X, i, j):
        ahead, behind = (
            model.predict_proba(np.hstack([X[a], X[b]]))[:, 1] for a, b in ((i, j), (j, i))
        )
        return 0.5 * (ahead + 1.0 - behind)

    return probability


def methods_with_features() -> dict[str, Callable]:
    """Return those that are installed."""
    found = {
        "`PreferenceGP()`": gp_comparisons.process(),
        "scikit-learn, logistic regression of differences": logistic,
        "scikit-learn, gradient boosting of both items": boosting,
    }
    return found | ({"BoTorch, PairwiseGP": gp_comparisons.botorch} if find_spec("botorch") else {})


def learnt_with_features(name, seed) -> dict[str, list[float]]:
    """Return the figures of all methods on new items of a set."""
    X, y = gp_comparisons.read_set(name)
    rng = np.random.default_rng(seed)
    items = rng.permutation(len(y))[:MAX_ITEMS]
    train, test = np.split(items, [2 * len(items) // 3])
    pairs = gp_comparisons.draw_pairs(y[train], N_PAIRS, rng)
    wrong = rng.random(len(pairs)) < FLIPS
    pairs[wrong] = pairs[wrong, ::-1]
    new = gp_comparisons.draw_pairs(y[test], N_TEST, rng)
    new = np.where((rng.random(len(new)) < FLIPS)[:, None], new[:, ::-1], new)
    results = {}
    for method, fit in methods_with_features().items():
        start = time.process_time()
        p = fit(X[train], pairs)(X[test], *new.T)
        results[method] = [*figures(p), time.process_time() - start]
    return results


# By names


def process_of_names(pairs):
    gp = PreferenceGP("linear").fit(np.eye(N_NAMES), pairs=pairs)
    return Answer(gp.predict_pair, gp.sample(np.arange(N_NAMES), N_DRAWS, random_state=0))


def board(pairs):
    names = np.arange(N_NAMES)
    found = leaderboard({"winner": pairs[:, 0], "loser": pairs[:, 1]}, random_state=0)
    place = np.argsort(found.names)
    ranks = np.column_stack([found.rank_low[place], found.rank_high[place]])
    return Answer(lambda i, j: found.predict_pair(names[i], names[j])[:, 0], ranks)


def choix(pairs):
    from choix import opt_pairwise  # noqa: PLC0415

    s = opt_pairwise(N_NAMES, pairs.tolist(), alpha=0.1)
    return Answer(lambda i, j: expit(s[i] - s[j]))


def evalica(pairs):
    from evalica import Winner, bradley_terry  # noqa: PLC0415

    found = bradley_terry(*pairs.T.tolist(), [Winner.X] * len(pairs)).scores
    s = np.log(np.maximum(found.reindex(range(N_NAMES)).to_numpy(dtype=float), 1e-12))
    return Answer(lambda i, j: expit(s[i] - s[j]))


def openskill(pairs):
    from openskill.models import PlackettLuce  # noqa: PLC0415

    model = PlackettLuce()
    ratings = [model.rating() for _ in range(N_NAMES)]
    for i, j in pairs.tolist():
        (ratings[i],), (ratings[j],) = model.rate([[ratings[i]], [ratings[j]]])
    mu, sigma = (np.array([getattr(one, name) for one in ratings]) for name in ("mu", "sigma"))
    draws = mu + sigma * np.random.default_rng(0).normal(size=(N_DRAWS, N_NAMES))
    of = {
        (i, j): model.predict_win([[ratings[i]], [ratings[j]]])[0]
        for i in range(N_NAMES)
        for j in range(N_NAMES)
    }
    return Answer(lambda i, j: np.array([of[a, b] for a, b in zip(i, j, strict=True)]), draws)


def crowd_kit(pairs):
    import pandas as pd  # noqa: PLC0415
    from crowdkit.aggregation import BradleyTerry  # noqa: PLC0415

    rows = pd.DataFrame({"left": pairs[:, 0], "right": pairs[:, 1], "label": pairs[:, 0]})
    found = BradleyTerry(n_iter=100).fit_predict(rows.assign(worker=0))
    s = np.log(np.maximum(found.reindex(range(N_NAMES)).to_numpy(dtype=float), 1e-12))
    return Answer(lambda i, j: expit(s[i] - s[j]))


def methods_by_names() -> dict[str, Callable]:
    """Return those that are installed."""
    found = {'`PreferenceGP("linear")`': process_of_names, "`leaderboard`": board}
    peers = {
        "choix": ("choix, opt_pairwise", choix),
        "evalica": ("evalica, bradley_terry", evalica),
        "openskill": ("openskill, PlackettLuce", openskill),
        "crowdkit": ("crowd-kit, BradleyTerry", crowd_kit),
    }
    return found | dict(peer for module, peer in peers.items() if find_spec(module))


def covered(draws, rank) -> float:
    """Return how many true ranks lie in their 90 % intervals."""
    if draws is None:
        return np.nan
    if draws.shape == (N_NAMES, 2):
        low, high = draws.T
    else:
        ranks = rankdata(-draws, method="ordinal", axis=1)
        tails = [0.5 * (1.0 - LEVEL), 0.5 * (1.0 + LEVEL)]
        low, high = np.quantile(ranks, tails, axis=0, method="inverted_cdf")
    return float(np.mean((low <= rank) & (rank <= high)))


def learnt_by_names(seed) -> dict[str, list[float]]:
    """Return the figures of all methods in a world."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=N_NAMES)
    drawn = rng.integers(N_NAMES, size=(N_ANSWERS + N_TEST, 2))
    drawn[:, 1] = (drawn[:, 0] + 1 + rng.integers(N_NAMES - 1, size=len(drawn))) % N_NAMES
    won = rng.random(len(drawn)) < expit(f[drawn[:, 0]] - f[drawn[:, 1]])
    drawn = np.where(won[:, None], drawn, drawn[:, ::-1])
    pairs, new = np.split(drawn, [N_ANSWERS])
    results = {}
    for method, fit in methods_by_names().items():
        start = time.process_time()
        answer = fit(pairs)
        p = answer.probability(*new.T)
        seconds = time.process_time() - start
        coverage = covered(answer.draws, rankdata(-f, method="ordinal"))
        results[method] = [*figures(p), coverage, seconds]
    return results


# Tables


def lines(runs: list[dict[str, list[float]]], digits: tuple[int, ...]) -> list[list[str]]:
    """Return a line for each method: means with standard errors over the runs."""
    rows = []
    for method in runs[0]:
        values = np.array([run[method] for run in runs])
        cells = [
            "-" if np.isnan(column).all() else with_error(column, places)
            for column, places in zip(values.T, digits, strict=True)
        ]
        rows.append([method, *cells])
    return rows


def ahead(runs: list[dict[str, list[float]]], measures: tuple[str, ...], ours: str) -> str:
    """Say which peers are ahead of ours, with the standard error of the paired difference."""
    found = []
    for k, measure in enumerate(measures):
        for method in runs[0]:
            sign = -1.0 if measure == "accuracy" else 1.0
            gain = np.array([sign * (run[ours][k] - run[method][k]) for run in runs])
            if method != ours and gain.mean() > 0.0:
                found.append(f"{method} ({measure}, by {with_error(gain, 4)})")
    return f"Ahead of {ours}: {'; '.join(found) or 'none'}."


def warm_up() -> None:
    """Compile what compiles, so that seconds are those of a second call."""
    learnt_by_names(N_WORLDS)
    methods_with_features()["`PreferenceGP()`"](np.eye(8), np.array([[0, 1], [2, 3], [1, 4]]))


def section() -> str:
    """Return both tables."""
    warm_up()
    with_features = []
    for name in SETS:
        with_features += [learnt_with_features(name, seed) for seed in range(N_SEEDS)]
        progress(f"{name} done")
    worlds = [learnt_by_names(seed) for seed in range(N_WORLDS)]
    scores = ("log-loss", "accuracy", "calibration error")
    return "\n\n".join(
        [
            f"{N_PAIRS} comparisons of at most {2 * MAX_ITEMS // 3} items of {', '.join(SETS)}, "
            f"{FLIPS:.0%} of the answers flipped, {N_TEST:,} answers about new items to predict, "
            f"flipped as often; means with standard errors over {N_SEEDS} splits of each set. "
            "Seconds are CPU time of fit and prediction.",
            markdown_table(["method", *scores, "CPU s"], lines(with_features, (4, 4, 4, 2))),
            ahead(with_features, scores, "`PreferenceGP()`"),
            f"By names alone: {N_WORLDS} worlds of {N_NAMES} items, {N_ANSWERS} answers by the "
            f"model of Bradley and Terry, {N_TEST:,} further ones to predict. Coverage is the "
            f"share of true ranks inside of {LEVEL:.0%} intervals, where a method has any. evalica "
            "does not regularise: where an item wins all its comparisons, the maximum it looks "
            "for does not exist.",
            markdown_table(
                ["method", *scores, "coverage", "CPU s"], lines(worlds, (4, 4, 4, 3, 3))
            ),
            ahead(worlds, scores, "`leaderboard`"),
        ]
    )
