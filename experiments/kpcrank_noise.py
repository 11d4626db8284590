"""Table 1 of [TH10]: ranking from scores that noise was added to.

The whole parse-ranking data of the paper cannot be had. A fragment of them exists, 200 parses of 42
sentences, and two LETOR sets stand in for the rest. Of the fragment two thirds of the sentences are
for training; of a LETOR set 500 items, a few of each of many queries whose grades differ. All items
of the other queries are the test. Scores lie between 0 and 1, and Gaussian noise is added to those
of the training items. Five-fold cross-validation on the noisy training items chooses the parameters
of each method, the error is the disagreement averaged over queries, and everything is repeated.

Regression is ranking with one query for all items and ties kept: RLS and KPCR are RankRLS and
KPCRank, fitted without `qid`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack
from sklearn.model_selection import GroupKFold

from experiments.harness import data_path, markdown_table
from rankwise import Disagreement, Gaussian, Kernel, KPCRankCV, Linear, Queries, RankRLS
from rankwise.io import read_svmlight

NOISE = (0.0, 0.5, 1.0)
GAMMAS = 4.0 ** np.arange(-3, 1)
ALPHAS = 2.0 ** np.arange(-15, 26, 2)
MAX_COMPONENTS = 100
METHODS = ("RankRLS", "RLS", "KPCRank", "KPCR")
PAPER = {
    "RankRLS": (0.35, 0.45, 0.47),
    "RLS": (0.34, 0.43, 0.46),
    "KPCRank": (0.37, 0.41, 0.42),
    "KPCR": (0.40, 0.46, 0.47),
}


@dataclass(frozen=True)
class Part:
    """Some items."""

    X: NDArray[Any]
    y: NDArray[Any]
    qid: NDArray[Any]

    def take(self, rows: NDArray[Any]) -> "Part":
        """Keep some rows."""
        return Part(self.X[rows], self.y[rows], self.qid[rows])


@dataclass(frozen=True)
class Source:
    """A data set, how training items are drawn from it, and the kernels to choose from."""

    name: str
    read: Callable[[], Part]
    kernels: Callable[[Part], list[Kernel]]
    n_queries: int
    items_per_query: int | None
    n_repeats: int


def read_parses() -> Part:
    """Return the fragment of the paper's data, its features turned into as many as there are rows.

    Inner products, and so the linear kernel, stay as they are.
    """
    files = [data_path("RLScore_parse", f"rank_{part}.light.gz") for part in ("train", "test")]
    parts = [read_svmlight(file, n_features=195_100) for file in files]
    X = vstack([part.X for part in parts])
    values, vectors = np.linalg.eigh((X @ X.T).toarray())
    y, qid = (np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "qid"))
    return Part(vectors * np.sqrt(np.maximum(values, 0.0)), y, qid)


def read_letor(folder: str, n_features: int) -> Part:
    """Return all items, with grades between 0 and 1."""
    files = [data_path(folder, f"S{k}.txt.gz") for k in range(1, 6)]
    parts = [read_svmlight(file, n_features=n_features, dense=True) for file in files]
    X, y, qid = (np.concatenate([getattr(part, n) for part in parts]) for n in ("X", "y", "qid"))
    return Part(X, y / y.max(), qid)


def widths(train: Part) -> list[Kernel]:
    """Return Gaussian kernels around the width of the data."""
    scale = 1.0 / (train.X.shape[1] * train.X.var())
    return [Gaussian(float(gamma * scale)) for gamma in GAMMAS]


SOURCES = (
    Source("parses, fragment", read_parses, lambda _: [Linear()], 28, None, 400),
    Source("MQ2008", lambda: read_letor("MQ2008", 46), widths, 125, 4, 10),
    Source("OHSUMED_LETOR3", lambda: read_letor("OHSUMED_LETOR3", 45), widths, 50, 10, 10),
)


def draw(source: Source, data: Part, rng: np.random.Generator) -> tuple[Part, Part]:
    """Return items of some queries, a few of each where they are many, and all of the others."""
    train: list[NDArray[Any]] = []
    test: list[NDArray[Any]] = []
    queries = list(Queries.from_qid(data.qid))
    for q in rng.permutation(len(queries)):
        rows = rng.permutation(queries[q])[: source.items_per_query]
        whole = source.items_per_query in (None, len(rows))
        if whole and np.ptp(data.y[rows]) > 0 and len(train) < source.n_queries:
            train.append(rows)
        else:
            test.append(queries[q])
    return data.take(np.concatenate(train)), data.take(np.concatenate(test))


def path_errors(method: str, kernel: Kernel, train: Part, test: Part) -> NDArray[Any]:
    """Return the error of every alpha, or of every number of components."""
    queries = {} if method in ("RLS", "KPCR") else {"qid": train.qid}
    ties = "keep" if method in ("RLS", "KPCR") else "drop"
    if method in ("RankRLS", "RLS"):
        ranker = RankRLS(kernel=kernel, ties=ties)
        scores = ranker.fit_path(train.X, train.y, alphas=ALPHAS, **queries).predict(test.X)
        return Disagreement.overall_many(test.y, scores, Queries.from_qid(test.qid))
    ranker = KPCRankCV(MAX_COMPONENTS, kernel, ties=ties, measure=Disagreement)
    ranker.fit(train.X, train.y, **queries, X_val=test.X, y_val=test.y, qid_val=test.qid)
    errors = np.full(MAX_COMPONENTS, np.inf)
    errors[: len(ranker.path_.values)] = ranker.path_.values
    return errors


def select(method: str, train: Part, kernels: list[Kernel]) -> tuple[int, int]:
    """Return which kernel, and which place in its path, five folds of queries prefer."""
    folds = list(GroupKFold(5).split(train.X, train.y, train.qid))
    errors = [
        np.mean([path_errors(method, k, train.take(a), train.take(b)) for a, b in folds], axis=0)
        for k in kernels
    ]
    kernel, place = np.unravel_index(np.argmin(errors), np.shape(errors))
    return int(kernel), int(place)


def errors_of(source: Source, data: Part) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the test errors, (n_repeats, n_methods, n_noise), and those of the best fixed setting.

    The second, (n_methods, n_noise), is the lowest mean error of any kernel and place in its path:
    what choosing by cross-validation could win at most.
    """
    chosen = np.empty((source.n_repeats, len(METHODS), len(NOISE)))
    sums: dict[tuple[int, int], NDArray[Any]] = {}
    for repeat in range(source.n_repeats):
        rng = np.random.default_rng(repeat)
        train, test = draw(source, data, rng)
        unit = rng.normal(size=len(train.y))
        kernels = source.kernels(train)
        for k, sigma in enumerate(NOISE):
            noisy = Part(train.X, train.y + sigma * unit, train.qid)
            for m, method in enumerate(METHODS):
                paths = np.array([path_errors(method, kernel, noisy, test) for kernel in kernels])
                chosen[repeat, m, k] = paths[select(method, noisy, kernels)]
                sums[m, k] = sums.get((m, k), 0.0) + paths
    lowest = [[sums[m, k].min() for k in range(len(NOISE))] for m in range(len(METHODS))]
    return chosen, np.array(lowest) / source.n_repeats


def table(source: Source) -> str:
    """Return the table of one data set as Markdown, and what KPCRank wins over RankRLS."""
    data = source.read()
    errors, lowest = errors_of(source, data)
    head = ["no noise" if sigma == 0 else f"sigma {sigma}" for sigma in NOISE]
    rows = [
        [method, *_cells(errors[:, m]), " / ".join(f"{value:.2f}" for value in PAPER[method])]
        for m, method in enumerate(METHODS)
    ]
    items = "all" if source.items_per_query is None else source.items_per_query
    title = f"### {source.name}, {source.n_queries} training queries with {items} items each"
    return (
        f"{title}\n\n{markdown_table(['method', *head, '[TH10], all parses'], rows)}\n"
        f"KPCRank less RankRLS, mean and standard error over {source.n_repeats} repeats: "
        f"{_gains(errors)}.\nWith the setting that is best in hindsight: "
        f"{_hindsight(lowest)}.\n{_facts(data)}"
    )


def _cells(errors: NDArray[Any]) -> list[str]:
    mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1)
    return [f"{a:.3f} ± {b:.3f}" for a, b in zip(mean, spread, strict=True)]


def _gains(errors: NDArray[Any]) -> str:
    gain = errors[:, METHODS.index("KPCRank")] - errors[:, METHODS.index("RankRLS")]
    error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
    return ", ".join(f"{g:+.3f} ± {e:.3f}" for g, e in zip(gain.mean(axis=0), error, strict=True))


def _hindsight(lowest: NDArray[Any]) -> str:
    cells = [" / ".join(f"{value:.3f}" for value in row) for row in lowest]
    return ", ".join(f"{method} {cell}" for method, cell in zip(METHODS, cells, strict=True))


def _facts(data: Part) -> str:
    """Tell how far scores spread inside a query, and how the variance of the features decays."""
    queries = Queries.from_qid(data.qid)
    deviation = np.mean([data.y[rows].std() for rows in queries if len(rows) > 1])
    U, values, _ = np.linalg.svd(data.X - data.X.mean(axis=0), full_matrices=False)
    errors = [Disagreement.overall(data.y, U[:, k], queries) for k in range(2)]
    first, second = (f"{min(error, 1.0 - error):.3f}" for error in errors)
    share = np.sum(values[:5] ** 2) / np.sum(values**2)
    return (
        f"Scores of a query have a standard deviation of {deviation:.2f} on average. The first\n"
        f"five components of the features hold {share:.0%} of their variance; ranking by the\n"
        f"first or the second alone has an error of {first} or {second}."
    )


REMARKS = """\
Disagreement error of the test queries, mean and standard deviation over repeats, each with its own
training queries and noise; scores lie in [0, 1]. The paper trains on 500 parses of about 170
sentences and repeats 3 times; the repeats on the fragment share its 42 sentences, so their
standard errors tell about this fragment only. The setting best in hindsight is chosen on the test
queries, from more settings for components than for alphas, and favours them a little.

As in the paper, the methods on components lose without noise, on every set. That KPCRank wins with
noise is not reproduced with settings chosen by cross-validation, as a user would choose them: on
the fragment it loses less to noise than RankRLS does, but does not get ahead, and on the LETOR
sets the methods differ by less than the spread from one draw to the next. In hindsight the paper's
order is there: with noise KPCRank has the lowest error on the fragment and on MQ2008, and shares
it with KPCR on OHSUMED at the higher noise. So a few components do hold back noise better than
shrinking, most of all on the flat spectrum of the parses' 195,100 features, but the noise spoils
the choice of their number just as it spoils the scores: on the fragment and on MQ2008 KPCRank
loses more to that choice than separates the methods. The paper has four times the training data to
choose with.
"""


def section() -> str:
    """Return the tables of all data sets."""
    tables = "\n\n".join(table(source) for source in SOURCES)
    return f"{tables}\n\n{REMARKS}"
