"""International football with ties: three outcomes of held-out matches, by processes and peers.

Items are teams, and a team at home is an item of its own: the indicator of the team, and a feature
that all hosts share. Methods that know no ties learn from decided matches only, and to every match
they give the share of ties of the training matches.
"""

import csv
import lzma
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.special import expit, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from benchmarks.gp import botorch_fit
from experiments.harness import data_path, is_quick, markdown_table, with_error
from rankwise import PreferenceGP

YEARS, FIRST_TEST_YEAR, MIN_MATCHES = ("2016", "2023"), "2022", 30
ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)
N_FOR_PARAMETERS = 1000
TIE = 1


@dataclass(frozen=True)
class Matches:
    """Rows of features, the two items of every match, and how it ended for the first of them."""

    X: np.ndarray
    sides: np.ndarray  # (n_matches, 2)
    outcome: np.ndarray  # 0 win, 1 tie, 2 loss

    def take(self, rows) -> "Matches":
        """Keep some matches."""
        return Matches(self.X, self.sides[rows], self.outcome[rows])

    @property
    def decided(self) -> "Matches":
        """The matches that were won."""
        return self.take(self.outcome != TIE)

    @property
    def won(self) -> np.ndarray:
        """Both sides, the winner first; ties as they are."""
        return np.where((self.outcome == 2)[:, None], self.sides[:, ::-1], self.sides)

    @property
    def difference(self) -> np.ndarray:
        """Features of the first side less those of the second."""
        return self.X[self.sides[:, 0]] - self.X[self.sides[:, 1]]


def read_matches() -> list[dict[str, str]]:
    """Return the matches of these years between teams with enough of them."""
    with lzma.open(data_path("football_international", "results.csv.xz"), "rt") as file:
        rows = [row for row in csv.DictReader(file) if YEARS[0] <= row["date"][:4] <= YEARS[1]]
    rows = [row for row in rows if row["home_score"].isdigit()]
    counts = Counter(row[side] for row in rows for side in ("home_team", "away_team"))
    return [row for row in rows if min(_of_both(row, counts)) >= MIN_MATCHES]


def _of_both(row, values) -> list[int]:
    return [values[row[side]] for side in ("home_team", "away_team")]


def split() -> tuple[Matches, Matches, Matches, Matches]:
    """Return matches to learn from and to predict, with hosts as such, and as any other team."""
    rows = read_matches()
    teams = sorted({row[side] for row in rows for side in ("home_team", "away_team")})
    place = {team: position for position, team in enumerate(teams)}
    sides = np.array([_of_both(row, place) for row in rows])
    goals = np.array([int(row["home_score"]) - int(row["away_score"]) for row in rows])
    hosted = np.array([row["neutral"] == "FALSE" for row in rows])
    train = np.array([row["date"] < FIRST_TEST_YEAR for row in rows])
    identity, n_teams = np.eye(len(teams)), len(teams)
    X = np.column_stack([np.tile(identity, (2, 1)), np.repeat([0.0, 1.0], n_teams)])
    with_home = Matches(X, sides + n_teams * np.outer(hosted, [1, 0]), 1 - np.sign(goals))
    without = Matches(identity, sides, 1 - np.sign(goals))
    return (*(m.take(rows) for m in (with_home, without) for rows in (train, ~train)),)


def with_ties(p, train: Matches) -> np.ndarray:
    """Return win, tie and loss from the probability of the first side in decided matches."""
    share = np.mean(train.outcome == TIE)
    return np.column_stack([(1.0 - share) * p, np.full(len(p), share), (1.0 - share) * (1.0 - p)])


def shares(train: Matches, test: Matches) -> np.ndarray:
    share = np.bincount(train.outcome, minlength=3) / len(train.outcome)
    return np.tile(share, (len(test.outcome), 1))


def process(**options) -> Callable:
    def method(train: Matches, test: Matches) -> np.ndarray:
        gp = PreferenceGP("linear", **options)
        gp.fit(train.X, pairs=train.decided.won, tied=train.sides[train.outcome == TIE])
        return gp.predict_pair(*(test.X[side] for side in test.sides.T))

    return method


def process_of_decided(**options) -> Callable:
    def method(train: Matches, test: Matches) -> np.ndarray:
        gp = PreferenceGP("linear", **options).fit(train.X, pairs=train.decided.won)
        return with_ties(gp.predict_pair(*(test.X[side] for side in test.sides.T)), train)

    return method


def botorch(train: Matches, test: Matches) -> np.ndarray:
    """Fit the same linear kernel with an amplitude to learn."""
    import torch  # noqa: PLC0415
    from gpytorch.kernels import LinearKernel, ScaleKernel  # noqa: PLC0415

    linear = LinearKernel()
    linear.raw_variance.requires_grad_(False)
    model = botorch_fit(train.X, train.decided.won, ScaleKernel(linear))
    if model is None:
        return with_ties(np.full(len(test.outcome), 0.5), train)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = model.posterior(torch.as_tensor(test.X, dtype=torch.double))
        mean = posterior.mean.numpy().ravel()
        cov = posterior.distribution.covariance_matrix.numpy()
    i, j = test.sides.T
    variance = np.maximum(cov[i, i] + cov[j, j] - 2.0 * cov[i, j], 0.0)
    return with_ties(ndtr((mean[i] - mean[j]) / np.sqrt(2.0 + variance)), train)


def choix(train: Matches, test: Matches) -> np.ndarray:
    """Fit Bradley-Terry strengths; the regularisation is chosen on the last tenth."""
    from choix import opt_pairwise  # noqa: PLC0415

    pairs = train.decided.won
    fit, check = np.split(pairs, [9 * len(pairs) // 10])

    def loss(alpha):
        s = opt_pairwise(len(train.X), fit.tolist(), alpha=alpha)
        return -np.log(expit(s[check[:, 0]] - s[check[:, 1]])).mean()

    s = opt_pairwise(len(train.X), pairs.tolist(), alpha=min(ALPHAS, key=loss))
    return with_ties(expit(s[test.sides[:, 0]] - s[test.sides[:, 1]]), train)


def classifier(kernel, train: Matches, outcome: int) -> Callable:
    """Return how probable an outcome is, as a function of the difference of features.

    Matches are turned around at random, and the parameters are learnt from a part of them.
    """
    sign = np.where(np.random.default_rng(0).integers(2, size=len(train.outcome)), 1, -1)
    D, y = sign[:, None] * train.difference, 1 - sign * (1 - train.outcome) == outcome
    if is_quick():
        D, y = D[:200], y[:200]
    part = np.random.default_rng(1).permutation(len(y))[:N_FOR_PARAMETERS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learnt = GaussianProcessClassifier(kernel).fit(D[part], y[part]).kernel_
    return GaussianProcessClassifier(learnt, optimizer=None).fit(D, y).predict_proba


def classifier_of_decided(train: Matches, test: Matches) -> np.ndarray:
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(0.0, "fixed")
    predict = classifier(kernel, train.decided, 0)
    p = [predict(sign * test.difference)[:, 1] for sign in (1.0, -1.0)]
    return with_ties(0.5 * (p[0] + 1.0 - p[1]), train)


def classifier_of_three(train: Matches, test: Matches) -> np.ndarray:
    """Tell every outcome from the others, in both directions of a match, and normalise."""
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, (1e-3, 1e3))
    kernel += ConstantKernel(1.0, (1e-3, 1e3)) * RBF(2.0, (1e-1, 1e2))
    predict = [classifier(kernel, train, outcome) for outcome in range(3)]
    p, q = (
        np.column_stack([one(sign * test.difference)[:, 1] for one in predict])
        for sign in (1.0, -1.0)
    )
    p = p + q[:, ::-1]
    return p / p.sum(axis=1, keepdims=True)


OURS, OURS_OF_DECIDED = '`PreferenceGP("linear")`', '`PreferenceGP("linear")`, decided matches'
METHODS: dict[str, tuple[bool, str, Callable]] = {
    "shares of the outcomes": (False, "an outcome", shares),
    OURS: (True, "an outcome", process()),
    "the same, probit by evidence": (
        True,
        "an outcome",
        process(likelihood="probit", hyperprior=None),
    ),
    OURS_OF_DECIDED: (True, "left out", process_of_decided()),
    "the same, probit, Laplace's method": (
        True,
        "left out",
        process_of_decided(likelihood="probit", method="laplace"),
    ),
    "BoTorch, linear kernel": (True, "left out", botorch),
    "scikit-learn GPC, linear kernel": (True, "left out", classifier_of_decided),
    "scikit-learn GPC, linear and RBF kernel": (True, "an outcome", classifier_of_three),
    '`PreferenceGP("linear")`, hosts not known': (False, "an outcome", process()),
    "choix": (False, "left out", choix),
}
NEEDS = {"BoTorch, linear kernel": "botorch", "choix": "choix"}
HEADER = [
    "method",
    "hosts known",
    "ties",
    "log-loss, 3 outcomes",
    "accuracy, 3 outcomes",
    "log-loss, decided",
    "accuracy, decided",
    "s",
]


def figures(p: np.ndarray, outcome: np.ndarray) -> list[np.ndarray]:
    """Return surprise and hit of three outcomes, and of the winner where there was one."""
    decided = outcome != TIE
    q = p[decided][:, [0, 2]]
    right = (q / q.sum(axis=1, keepdims=True))[np.arange(len(q)), outcome[decided] // 2]
    three = p[np.arange(len(p)), outcome]
    hits = p.argmax(axis=1) == outcome
    return [-np.log(three), hits.astype(float), -np.log(right), (right > 0.5).astype(float)]


def table() -> str:
    """Return the figures of all methods that are installed, and where ours is not the best."""
    train, test, *not_hosted = split()
    results, rows = {}, []
    for name, (hosts_known, ties, method) in METHODS.items():
        if name in NEEDS and find_spec(NEEDS[name]) is None:
            continue
        start = time.perf_counter()
        p = method(train, test) if hosts_known else method(*not_hosted)
        seconds = time.perf_counter() - start
        results[name] = figures(p, test.outcome)
        cells = [with_error(values, 4) for values in results[name]]
        rows.append([name, "yes" if hosts_known else "no", ties, *cells, f"{seconds:.1f}"])
    facts = (
        f"{len(train.outcome):,} matches to learn from, {len(test.outcome):,} to predict,\n"
        f"{len(not_hosted[0].X)} teams; {np.mean(test.outcome == TIE):.0%} of the matches to "
        "predict were tied. BoTorch and choix know\nno ties: they learn from decided matches, and "
        "every match gets the share of ties among the\ntraining matches. The parameters of "
        f"scikit-learn's classifiers are learnt from {N_FOR_PARAMETERS:,} matches,\n"
        "since all would take too long. Standard errors are over matches.\n"
    )
    of_decided = {name: results[name] for name in results if METHODS[name][1] == "left out"}
    lost = f"{_lost(results, OURS)}\n\n{_lost(of_decided, OURS_OF_DECIDED)}"
    return f"{facts}\n{markdown_table(HEADER, rows)}\n{lost}"


def _lost(results: dict[str, list[np.ndarray]], ours: str) -> str:
    """Say by how much any method is better than ours, with the error of the paired difference."""
    signs = (1.0, -1.0, 1.0, -1.0)  # less loss, more accuracy
    lost = []
    for name, values in results.items():
        for k, (own, other) in enumerate(zip(results[ours], values, strict=True)):
            gain = signs[k] * (own - other)
            if gain.mean() > 0.0:
                lost.append(f"{name} ({HEADER[3 + k]}, by {with_error(gain, 4)})")
    among = "" if ours == OURS else ", among those that leave ties out"
    return f"Better than {ours}{among}: {'; '.join(lost) or 'none'}."
