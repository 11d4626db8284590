"""How AutoRanker should weigh its families, and whether a neural network should be one of them.

For each split AutoRanker's families are searched once on the training queries. Then the same
fitted families are added up in four ways: weighed by the likelihood exp(-t^2 / 2) that they are as
good as the best one; by non-negative least squares of the grades on their held-out scores; by the
mean of both; and by this mean with a further family, scikit-learn's network of 64 hidden units
with early stopping, fitted to features scaled and ranked inside queries and to grades centred
there. Values are those of test queries, NDCG @ 10 with exponential gain; differences are of the
same queries, with standard errors over them, which take the rankers as given.

The regression sets are cut into queries of 20 random rows; the grades are five levels of the
target. The drawn set has 20 features of which pairs act together, in queries of 20 items.
"""

import lzma
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.io import arff
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from experiments.harness import data_path, markdown_table, progress, with_error
from experiments.letor_data import TITLES, Part, folds, join, read_parts
from experiments.letor_methods import NDCG_10
from rankwise import AutoRanker, evaluate
from rankwise.automatic.board import Board, Tried, least_squares_shares, likelihood_shares
from rankwise.automatic.families import Family, SettingsPath, Trial
from rankwise.automatic.sum_of_rankers import fit_preparation
from rankwise.core.queries import TrainingData

LETOR = os.environ.get("RANKWISE_WEIGHTS_SETS", "LightGBM_rank OHSUMED_LETOR3").split()
REGRESSION = ["abalone", "cpu.small", "kin8nm", "elevators", "house8L", "cal.housing"]
REGRESSION += ["ailerons", "stock"]
N_DRAWN = 20_000
N_FOLDS = 3

Split = tuple[Part, Part]


def letor_splits(name: str) -> Iterator[Split]:
    """Yield four parts to learn from and one to test on."""
    for _, fold in zip(range(N_FOLDS), folds(read_parts(name)), strict=False):
        yield join(fold.train, fold.validation), fold.test


def regression_splits(name: str) -> Iterator[Split]:
    """Yield two halves of the queries, each learned from in turn."""
    with lzma.open(data_path("UCI_regression", f"{name}.arff.xz"), "rt", errors="replace") as file:
        rows, _ = arff.loadarff(file)
    columns = [c for c in rows.dtype.names if rows[c].dtype.kind == "f"]
    table = np.column_stack([rows[c] for c in columns])
    X, target = table[:, :-1], table[:, -1]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))[:4_000]
    X, target = X[order], target[order]
    edges = np.unique(np.quantile(target, [0.4, 0.7, 0.9, 0.97]))
    y, qid = np.digitize(target, edges).astype(float), np.arange(len(X)) // 20
    halves = [Part(X[qid % 2 == k], y[qid % 2 == k], qid[qid % 2 == k]) for k in (0, 1)]
    yield halves[0], halves[1]
    yield halves[1], halves[0]


def drawn_splits(n_items: int) -> Iterator[Split]:
    """Yield drawn rows, a fifth of them for the test."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_items, 20))
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + np.sin(2.0 * X[:, 4]) * X[:, 5]
    score += 1.5 * rng.normal(size=n_items)
    y = np.digitize(score, np.quantile(score, [0.5, 0.8, 0.93, 0.98])).astype(float)
    qid = np.arange(n_items) // 20
    late = qid >= 0.8 * qid.max()
    yield Part(X[~late], y[~late], qid[~late]), Part(X[late], y[late], qid[late])


@dataclass(frozen=True)
class Network:
    """A fitted network after the steps that make its features."""

    steps: list
    network: MLPRegressor

    def predict(self, X: np.ndarray, qid: np.ndarray) -> np.ndarray:
        """Return the scores of rows."""
        for step in self.steps:
            X = step.transform(X, qid)
        return self.network.predict(X)


def neural(trial: Trial) -> list[SettingsPath]:
    """Fit a network without each fold, and to all."""

    def fitted(rows: Trial, kept: np.ndarray) -> MLPRegressor:
        queries, y = rows.data.queries, rows.data.scores
        network = MLPRegressor(
            hidden_layer_sizes=(64,), early_stopping=True, max_iter=60, random_state=0
        )
        return network.fit(
            rows.features("ranked")[kept], (y - queries.mean(y)[queries.index])[kept]
        )

    scores = np.full((1, trial.data.n_items), np.nan)
    for k in range(trial.folds.n_folds):
        rows, out = trial.for_fold(k), trial.folds.fold == k
        network = fitted(rows, np.flatnonzero(~out))
        scores[0, out] = network.predict(rows.features("ranked")[out])
    whole = np.arange(trial.data.n_items)
    return [SettingsPath(scores, lambda _: Network(trial.steps("ranked"), fitted(trial, whole)))]


def test_values(train: Part, test: Part) -> dict[str, np.ndarray]:
    """Return the values of the test queries for each way to add up the same families."""
    ranker = AutoRanker(NDCG_10, time_budget=None)
    data = TrainingData.of(len(train.y), train.y, train.qid)
    ranker.preparation_, rows = fit_preparation(train.X, data)
    board = ranker._search(ranker._trial(rows, data, float("inf")))
    start = time.process_time()
    paths = tuple(neural(board.trial))
    values = tuple(board.trial.values(path.scores) for path in paths)
    seconds = time.process_time() - start
    network = Tried(Family("network", neural, lambda _: 0), seconds, paths, values)
    return _sums(ranker, Board(board.trial, [*board.tried, network]), test)


def _sums(ranker: AutoRanker, board: Board, test: Part) -> dict[str, np.ndarray]:
    """Weigh families in each way, fit those with any weight, and judge the sums."""
    choice, trial = board.choice(), board.trial
    judged = trial.judged
    inside = np.stack([s - judged.spread(judged.mean(s)) for s in choice.parts])
    grades = trial.grades - judged.spread(judged.mean(trial.grades))
    n, weight = len(inside) - 1, trial.query_weight
    likely = np.append(likelihood_shares(choice.values[:n], weight), 0.0)
    squares = np.append(least_squares_shares(inside[:n], grades), 0.0)
    every = likelihood_shares(choice.values, weight), least_squares_shares(inside, grades)
    shares = {
        "likelihood": likely,
        "least squares": squares,
        "mean": _kept((likely + squares) / 2.0),
        "mean, with a network": _kept((every[0] + every[1]) / 2.0),
    }
    rows = ranker.preparation_[-1].transform(test.X, test.qid)
    total = {name: np.zeros(len(test.y)) for name in shares}
    for k in range(n + 1):
        if max(share[k] for share in shares.values()) > 0.0:
            path, setting = choice.settings[k]
            member = board.known[k].paths[path].fit(setting)
            scores = member.predict(rows, test.qid) / choice.scales[k]
            for name, share in shares.items():
                total[name] += share[k] * scores
    return {
        name: evaluate(test.y, s, test.qid, [NDCG_10]).values[:, 0] for name, s in total.items()
    }


def _kept(shares: np.ndarray) -> np.ndarray:
    shares = np.where(shares < 0.05 * shares.max(), 0.0, shares)
    return shares / shares.sum()


def section() -> str:
    """Return the table."""
    rows = []
    sets = {TITLES[name]: (letor_splits, name) for name in LETOR}
    sets |= {name: (regression_splits, name) for name in REGRESSION}
    sets |= {f"drawn, {N_DRAWN:,} rows": (drawn_splits, N_DRAWN)} if N_DRAWN else {}
    with threadpool_limits(1):
        for title, (splits, name) in sets.items():
            found: dict[str, list[float]] = {}
            for train, test in splits(name):
                for way, values in test_values(train, test).items():
                    found.setdefault(way, []).extend(values)
            first = np.array(found["likelihood"])
            gains = [
                with_error(np.array(found[way]) - first, 4, "+")
                for way in ("least squares", "mean", "mean, with a network")
            ]
            rows.append([title, with_error(first, 4), *gains])
            progress(" | ".join(rows[-1]))
    header = ["set", "likelihood", "least squares", "mean", "mean, with a network"]
    return f"{__doc__}\n" + markdown_table(header, rows)
