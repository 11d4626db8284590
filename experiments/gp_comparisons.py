"""Held-out comparisons: UCI regression sets turned into answers, and international football.

As in Chu and Ghahramani (ICML 2005), items of a regression set are compared by their targets:
random pairs of two thirds of the items to learn from, pairs of the others to predict. Football
knows ties: matches of six years to learn from, the two years after that to predict.

Peers are used where they are installed: BoTorch's PairwiseGP, choix, and scikit-learn's Gaussian
process classifier on differences of features.
"""

import csv
import io
import lzma
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from scipy.io import arff
from scipy.special import expit, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.gp import botorch_fit
from experiments.harness import data_path
from rankwise import PreferenceGP, SquaredExponential

PEERS = ["botorch", "choix"]
SETS = ("pyrim", "triazines", "machine.cpu", "autompg", "housing", "abalone", "kin8nm")
MAX_ITEMS, N_PAIRS, N_TEST, N_SEEDS = 450, 300, 2000, 3
FLIPS = 0.1


def read_set(name: str):
    """Return standardised features, nominal ones as indicators, and the target."""
    with lzma.open(data_path("UCI_regression", f"{name}.arff.xz"), "rt", errors="replace") as file:
        rows, meta = arff.loadarff(io.StringIO(file.read()))
    columns = []
    for column in meta.names()[:-1]:
        if meta[column][0] == "numeric":
            columns.append(rows[column])
        else:
            columns += [(rows[column] == value).astype(float) for value in np.unique(rows[column])]
    X, y = np.column_stack(columns), rows[meta.names()[-1]].astype(float)
    whole = np.isfinite(X).all(axis=1)
    X, y = X[whole], y[whole]
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0], y


def draw_pairs(y, n_pairs, rng):
    """Return pairs of items with different targets, the better one first."""
    i = rng.integers(len(y), size=4 * n_pairs)
    j = rng.integers(len(y), size=4 * n_pairs)
    i, j = i[y[i] != y[j]][:n_pairs], j[y[i] != y[j]][:n_pairs]
    return np.where((y[i] < y[j])[:, None], np.stack([j, i], 1), np.stack([i, j], 1))


def gaussian_process(**options):
    def fit(X, pairs):
        gp = PreferenceGP(**options).fit(X, pairs=pairs)
        return gp.predict_pair

    return fit


def classifier_of_differences(X, pairs):
    """Learn from the difference of their features which of two items, in random order, wins."""
    won = np.random.default_rng(0).integers(2, size=len(pairs))
    D = np.where(won[:, None], 1.0, -1.0) * (X[pairs[:, 0]] - X[pairs[:, 1]])
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.sqrt(X.shape[1]), (1e-1, 1e3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianProcessClassifier(kernel).fit(D, won)

    def probability(A, B):
        p = model.predict_proba(np.concatenate([A - B, B - A]))[:, 1]
        return 0.5 * (p[: len(A)] + 1.0 - p[len(A) :])

    return probability


def botorch(X, pairs):
    import torch  # noqa: PLC0415

    model = botorch_fit(X, pairs)
    if model is None:
        return lambda A, _: np.full(len(A), 0.5)

    def probability(A, B):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = model.posterior(torch.as_tensor(np.stack([A, B], 1), dtype=torch.double))
            mean = posterior.mean.numpy()[..., 0]
            cov = posterior.distribution.covariance_matrix.numpy()
        variance = cov[:, 0, 0] + cov[:, 1, 1] - 2.0 * cov[:, 0, 1]
        return ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(2.0 + np.maximum(variance, 0.0)))

    return probability


METHODS: dict[str, Callable] = {
    "EP": gaussian_process(),
    "EP, scale per feature": gaussian_process(
        kernel=SquaredExponential(length_scale="per_feature")
    ),
    "EP, robust": gaussian_process(likelihood="robust"),
    "Laplace": gaussian_process(method="laplace"),
    "scikit-learn GPC": classifier_of_differences,
}
if find_spec("botorch") is not None:
    METHODS["BoTorch"] = botorch


def uci_table(n_seeds: int, flips: float) -> str:
    """Return log-loss and accuracy on comparisons of new items."""
    lines = ["| set | " + " | ".join(METHODS) + " |", "|---|" + "---|" * len(METHODS)]
    for name in SETS:
        X, y = read_set(name)
        results = {method: [] for method in METHODS}
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            items = rng.permutation(len(y))[:MAX_ITEMS]
            train, test = np.split(items, [2 * len(items) // 3])
            pairs, held_out = draw_pairs(y[train], N_PAIRS, rng), draw_pairs(y[test], N_TEST, rng)
            wrong = rng.random(N_PAIRS) < flips
            pairs[wrong] = pairs[wrong, ::-1]
            A, B = X[test][held_out[:, 0]], X[test][held_out[:, 1]]
            for method, fit in METHODS.items():
                p = np.clip(fit(X[train], pairs)(A, B), 1e-12, 1.0)
                results[method].append((-np.log(p).mean(), (p > 0.5).mean()))
        cells = ["{:.3f} / {:.3f}".format(*np.mean(results[method], axis=0)) for method in METHODS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def read_matches():
    """Return matches from 2016 on between teams with at least 30 of them."""
    with lzma.open(data_path("football_international", "results.csv.xz"), "rt") as file:
        rows = [row for row in csv.DictReader(file) if "2016" <= row["date"][:4] <= "2023"]
    rows = [row for row in rows if row["home_score"].isdigit()]
    counts = Counter(row[side] for row in rows for side in ("home_team", "away_team"))
    return [row for row in rows if min(counts[row["home_team"]], counts[row["away_team"]]) >= 30]


def football_tables() -> str:
    """Return log-loss and accuracy of win, tie and loss, and of the winner where there was one."""
    matches = read_matches()
    teams = sorted({row[side] for row in matches for side in ("home_team", "away_team")})
    place = {team: position for position, team in enumerate(teams)}
    home = np.array([place[row["home_team"]] for row in matches])
    away = np.array([place[row["away_team"]] for row in matches])
    goals = np.array([int(row["home_score"]) - int(row["away_score"]) for row in matches])
    hosted = np.array([row["neutral"] == "FALSE" for row in matches])
    train = np.array([row["date"] < "2022" for row in matches])
    identity = np.eye(len(teams))
    plain = np.column_stack([identity, np.zeros(len(teams))])
    X = np.concatenate([plain, np.column_stack([identity, np.ones(len(teams))])])
    first = home + len(teams) * hosted  # a team that plays at home is an item of its own
    outcome = 1 - np.sign(goals)  # 0 win, 1 tie, 2 loss of the team named first
    lines = [
        f"{train.sum():,} matches to learn from, {(~train).sum():,} to predict, {len(teams)} teams",
        "",
        "| method | log-loss of 3 outcomes | accuracy | log-loss, decided | accuracy, decided |",
        "|---|---|---|---|---|",
    ]
    share = np.bincount(outcome[train], minlength=3) / train.sum()
    entries = {"shares of the outcomes": np.tile(share, ((~train).sum(), 1))}
    entries |= {
        "EP with ties": _football_gp(X, home, away, outcome, train, "probit"),
        "EP with ties and home": _football_gp(X, first, away, outcome, train, "probit"),
        "EP with ties and home, robust": _football_gp(X, first, away, outcome, train, "robust"),
    }
    if find_spec("choix") is not None:
        entries["choix, decided matches"] = _choix(home, away, outcome, train, len(teams))
    for name, p in entries.items():
        lines.append(_football_line(name, p, outcome[~train]))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def _football_gp(X, first, second, outcome, train, likelihood):
    pairs = np.stack([first, second], 1)
    won = np.where((outcome == 2)[:, None], pairs[:, ::-1], pairs)
    decided = outcome != 1
    gp = PreferenceGP("linear", likelihood=likelihood)
    gp.fit(X, pairs=won[train & decided], tied=pairs[train & ~decided])
    return gp.predict_pair(X[first[~train]], X[second[~train]])


def _choix(home, away, outcome, train, n_teams):
    """Fit Bradley-Terry strengths; the regularisation is chosen on the last tenth."""
    import choix  # noqa: PLC0415

    pairs = np.where((outcome == 2)[:, None], np.stack([away, home], 1), np.stack([home, away], 1))
    learn = np.flatnonzero(train & (outcome != 1))
    fit, check = np.split(learn, [9 * len(learn) // 10])

    def loss(alpha):
        s = choix.opt_pairwise(n_teams, pairs[fit].tolist(), alpha=alpha)
        return -np.log(expit(s[pairs[check, 0]] - s[pairs[check, 1]])).mean()

    alpha = min((0.01, 0.03, 0.1, 0.3, 1.0), key=loss)
    s = choix.opt_pairwise(n_teams, pairs[learn].tolist(), alpha=alpha)
    p = expit(s[home[~train]] - s[away[~train]])
    return np.column_stack([p, np.full(len(p), np.nan), 1.0 - p])


def _football_line(name, p, outcome):
    rows = np.arange(len(outcome))
    decided = outcome != 1
    three = ["-", "-"]
    if np.isfinite(p).all():
        three = [
            f"{-np.log(p[rows, outcome]).mean():.4f}",
            f"{(p.argmax(1) == outcome).mean():.4f}",
        ]
    q = p[decided][:, [0, 2]]
    q = q / q.sum(axis=1, keepdims=True)
    right = q[np.arange(len(q)), outcome[decided] // 2]
    two = [f"{-np.log(right).mean():.4f}", f"{(right > 0.5).mean():.4f}"]
    return f"| {name} | {' | '.join(three + two)} |"


def section() -> str:
    """Return the tables of both kinds of comparisons."""
    football = football_tables()
    clean, flipped = uci_table(N_SEEDS, 0.0), uci_table(N_SEEDS, FLIPS)
    return (
        f"### UCI regression sets: log-loss / accuracy on {N_TEST:,} comparisons of new items\n\n"
        f"{N_PAIRS} comparisons of at most {2 * MAX_ITEMS // 3} items to learn from, mean of "
        f"{N_SEEDS} seeds.\n\n{clean}\n\n"
        f"#### The same with {FLIPS:.0%} of the training answers flipped\n\n{flipped}\n\n"
        f"### International football, 2016-2021 to learn from, 2022-2023 to predict\n\n{football}"
    )
