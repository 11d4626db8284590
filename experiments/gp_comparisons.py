"""Held-out comparisons: UCI regression sets turned into answers, and international football.

As in Chu and Ghahramani (ICML 2005), items of a regression set are compared by their targets:
random pairs of two thirds of the items to learn from, pairs of the others to predict, and new pairs
of the same items for methods that know items only. Football knows ties: matches of six years to
learn from, the two years after that to predict.

Peers are used where they are installed: BoTorch's PairwiseGP, choix, and scikit-learn's Gaussian
process classifier on differences of features.
"""

import io
import lzma
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from scipy.io import arff
from scipy.special import expit, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.gp import botorch_fit
from experiments import football_matches
from experiments.harness import data_path, markdown_table, with_error
from rankwise import PreferenceGP, SquaredExponential

PEERS = ["botorch", "torch", "choix"]
SETS = ("pyrim", "triazines", "machine.cpu", "autompg", "housing", "abalone", "kin8nm")
MAX_ITEMS, N_PAIRS, N_TEST, N_SEEDS = 450, 300, 2000, 10
FLIPS = 0.1
OURS = "`PreferenceGP()`"


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


def process(**options):
    def fit(X, pairs):
        gp = PreferenceGP(**options).fit(X, pairs=pairs)
        return lambda X, i, j: gp.predict_pair(X[i], X[j])

    return fit


def classifier_of_differences(X, pairs):
    """Learn from the difference of their features which of two items, in random order, wins."""
    won = np.random.default_rng(0).integers(2, size=len(pairs))
    D = np.where(won[:, None], 1.0, -1.0) * (X[pairs[:, 0]] - X[pairs[:, 1]])
    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * RBF(np.sqrt(X.shape[1]), (1e-1, 1e3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianProcessClassifier(kernel).fit(D, won)

    def probability(X, i, j):
        p, q = (model.predict_proba(sign * (X[i] - X[j]))[:, 1] for sign in (1.0, -1.0))
        return 0.5 * (p + 1.0 - q)

    return probability


def botorch(X, pairs):
    """Fit BoTorch's process; a coin where all attempts of its fitting routine fail."""
    import torch  # noqa: PLC0415

    model = botorch_fit(X, pairs)
    if model is None:
        return lambda _, i, _j: np.full(len(i), 0.5)

    def probability(X, i, j):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = model.posterior(torch.as_tensor(X, dtype=torch.double))
            mean = posterior.mean.numpy().ravel()
            cov = posterior.distribution.covariance_matrix.numpy()
        variance = cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
        return ndtr((mean[i] - mean[j]) / np.sqrt(2.0 + np.maximum(variance, 0.0)))

    return probability


def choix(X, pairs):
    """Fit Bradley-Terry strengths of the items; three folds choose the regularisation."""
    from choix import opt_pairwise  # noqa: PLC0415

    fold = np.arange(len(pairs)) % 3

    def strengths(rows, alpha):
        return opt_pairwise(len(X), pairs[rows].tolist(), alpha=alpha)

    def loss(alpha):
        folds = [(strengths(fold != k, alpha), pairs[fold == k].T) for k in range(3)]
        return -np.mean([np.log(expit(s[i] - s[j])).mean() for s, (i, j) in folds])

    s = strengths(fold >= 0, min(football_matches.ALPHAS, key=loss))
    return lambda _, i, j: expit(s[i] - s[j])


def methods() -> dict[str, Callable]:
    """Return those that are installed."""
    found = {
        OURS: process(),
        "one length-scale": process(kernel=SquaredExponential(item_effect=0.3)),
        "probit by evidence": process(
            kernel=SquaredExponential(), likelihood="probit", hyperprior=None
        ),
        "scikit-learn GPC": classifier_of_differences,
    }
    peers = {"BoTorch": botorch, "choix": choix}
    return found | {name: fit for name, fit in peers.items() if find_spec(name.lower())}


KNOWS_ITEMS_ONLY = ("choix",)
NEW, KNOWN = "new items", "the same items"


def held_out(name: str, seed: int, flips: float) -> dict[str, dict[str, tuple[float, float]]]:
    """Return log-loss and accuracy of every method on pairs of new items, and of the same ones."""
    X, y = read_set(name)
    rng = np.random.default_rng(seed)
    items = rng.permutation(len(y))[:MAX_ITEMS]
    train, test = np.split(items, [2 * len(items) // 3])
    pairs, new = draw_pairs(y[train], N_PAIRS, rng), draw_pairs(y[test], N_TEST, rng)
    wrong = rng.random(N_PAIRS) < flips
    pairs[wrong] = pairs[wrong, ::-1]
    questions = {NEW: (X[test], *new.T), KNOWN: (X[train], *draw_pairs(y[train], N_TEST, rng).T)}
    results: dict[str, dict[str, tuple[float, float]]] = {NEW: {}, KNOWN: {}}
    for method, fit in methods().items():
        probability = fit(X[train], pairs)
        for kind, question in questions.items():
            if kind == KNOWN or method not in KNOWS_ITEMS_ONLY:
                p = np.clip(probability(*question), 1e-12, 1.0)
                results[kind][method] = (-np.log(p).mean(), (p > 0.5).mean())
    return results


def uci_tables(flips: float) -> dict[str, str]:
    """Return a table for either kind of question, and what it says about our losses."""
    runs = {name: [held_out(name, seed, flips) for seed in range(N_SEEDS)] for name in SETS}
    texts = {}
    for kind in (NEW, KNOWN):
        names = [name for name in methods() if kind == KNOWN or name not in KNOWS_ITEMS_ONLY]
        values = np.array(
            [[[run[kind][name] for name in names] for run in runs[set_]] for set_ in SETS]
        )  # (n_sets, n_seeds, n_methods, 2)
        rows = [
            [set_, *(_cell(own[:, m]) for m in range(len(names)))]
            for set_, own in zip(SETS, values, strict=True)
        ]
        mean = values.mean(axis=(0, 1))
        rows.append(["mean", *(f"{loss:.3f} / {right:.3f}" for loss, right in mean)])
        texts[kind] = f"{markdown_table(['set', *names], rows)}\n{_lost(names, values)}"
    return texts


def _cell(values) -> str:
    """Return log-loss and accuracy with their standard errors over seeds."""
    return " / ".join(with_error(column, 3) for column in values.T)


def _lost(names, values) -> str:
    """Say on which sets another method is better than ours, with the standard error."""
    ours = values[:, :, names.index(OURS), None]
    gains = (ours - values) * [1.0, -1.0]  # less loss, more accuracy
    texts = []
    for k, measure in enumerate(("log-loss", "accuracy")):
        better = [
            f"{name} ({', '.join(sets)})"
            for m, name in enumerate(names)
            if (sets := _better(gains[:, :, m, k]))
        ]
        texts.append(f"Better {measure} than {OURS}: {'; '.join(better) or 'none'}.")
    return "\n\n".join(texts)


def _better(gain) -> list[str]:
    """Return the sets with a gain of more than a rounding error, with its standard error."""
    means, errors = gain.mean(axis=1), gain.std(axis=1, ddof=1) / np.sqrt(N_SEEDS)
    return [
        f"{set_} by {mean:.3f} ± {error:.3f}"
        for set_, mean, error in zip(SETS, means, errors, strict=True)
        if mean >= 0.0005
    ]


def _absent() -> str:
    absent = [name for name in ("botorch", "choix") if find_spec(name) is None]
    return "".join(f"\n\n{name} was not installed and is left out." for name in absent)


INTRODUCTION = f"""\
### UCI regression sets: log-loss and accuracy on {N_TEST:,} comparisons

{N_PAIRS} comparisons of at most {2 * MAX_ITEMS // 3} items to learn from; log-loss and accuracy,
means and standard errors over {N_SEEDS} seeds. "one length-scale" is
`PreferenceGP(SquaredExponential(item_effect=0.3))`, "probit by evidence" the model of [TH10],
`PreferenceGP(SquaredExponential(), likelihood="probit", hyperprior=None)`. The constants of the
hyperprior were chosen on twelve other sets of this collection. BoTorch's process is fitted by its
own routine, with its priors; scikit-learn's classifier sees differences of features in random
order. choix knows items and no features, so it can only be asked about the same items again."""


REMARKS = """\
Against the peers, `PreferenceGP()` has the lowest mean log-loss and the highest mean accuracy in
all four tables of the UCI sets. On clean answers it loses on single sets by less than two standard
errors: to scikit-learn's classifier on machine.cpu, to BoTorch on triazines, and in accuracy to
BoTorch on kin8nm. With flipped answers it loses to no peer on any set, because no peer allows for
them. Against its own simpler form it wins little on clean answers: one length-scale for all
features is as good on average, better on the two sets of many features and few items (pyrim,
triazines), and worse where features are of unequal worth (kin8nm). The plain model of the paper is
as good on some sets and has the larger log-loss on average: its amplitude goes to the bound where
answers have no noise. What an item has to itself shows where the same items are compared again,
most of all on machine.cpu and abalone. choix, without features, needs many answers for each item:
it is close on pyrim and triazines, whose items are few, and far behind elsewhere.

In football, our process with ties as an outcome gains more by them than separates the methods that
know hosts and leave ties out. Robustness to flips costs a little there, since results are seldom
recorded wrongly. From decided matches alone our default loses to BoTorch and to scikit-learn's
linear classifier; both use Laplace's method without flips, and with these two settings ours has
BoTorch's figures.
"""


def section() -> str:
    """Return the tables of both kinds of comparisons."""
    clean, flipped = uci_tables(0.0), uci_tables(FLIPS)
    football = football_matches.table()
    parts = [INTRODUCTION + _absent()]
    for kind in (NEW, KNOWN):
        parts.append(f"#### Comparisons of {kind}\n\n{clean[kind]}")
        parts.append(
            f"#### Comparisons of {kind}, {FLIPS:.0%} of the answers flipped\n\n{flipped[kind]}"
        )
    parts.append(
        f"### International football, 2016-2021 to learn from, 2022-2023 to predict\n\n{football}"
    )
    return "\n\n".join([*parts, REMARKS])
