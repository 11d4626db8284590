"""The jobs whose growth is measured: each function prepares one, of the sizes it is given."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from benchmarks.dorm_oracles import Queries as GradedQueries
from benchmarks.gp import draw_pairs
from rankwise import (
    NDCG,
    Disagreement,
    Gaussian,
    Linear,
    LinearRankRLS,
    PreferenceGraph,
    RankRLS,
    RankSVM,
    SquaredExponential,
    evaluate,
)
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import sweep_sites
from rankwise.comparisons.gp.inference.likelihood import Probit
from rankwise.comparisons.gp.inference.prior import factorize_kernel, moments_under
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import smallest_space
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_pair_out import leave_each_pair_out
from rankwise.selection.leave_query_out import leave_query_out

Job = Callable[[], object]

N_ALPHAS = 31
N_ITERATIONS = 20
N_STEPS = 5


def alphas(n_alphas: int) -> np.ndarray:
    return np.geomspace(2.0**-5, 2.0**15, n_alphas)


def problem(n_items: int, n_features: int, query_size: int = 32):
    """Return rows, four grades that follow the first feature, and queries of one size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, n_features))
    y = np.digitize(X[:, 0] + rng.normal(size=n_items), [-1, 0, 1]).astype(float)
    return X, y, np.arange(n_items) // query_size


def sparse_rows(n_items: int, n_entries: int, n_features: int = 10_000) -> csr_array:
    """Return rows with so many entries each."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n_features, n_items * n_entries, dtype=np.int32)
    starts = n_entries * np.arange(n_items + 1, dtype=np.int32)
    return csr_array((rng.normal(size=len(columns)), columns, starts), (n_items, n_features))


def fit(n_items: int, n_features: int, query_size: int = 32, **options) -> Job:
    X, y, qid = problem(n_items, n_features, query_size)
    return lambda: RankRLS(**options).fit(X, y, qid=qid)


def fit_path(n_items: int, n_alphas: int) -> Job:
    X, y, qid = problem(n_items, 20)
    ranker, grid = RankRLS(kernel=Gaussian(0.05)), alphas(n_alphas)
    return lambda: ranker.fit_path(X, y, qid=qid, alphas=grid)


def fit_pairs(n_items: int, n_features: int, n_pairs: int) -> Job:
    X, y, _ = problem(n_items, n_features)
    pairs = draw_pairs(y, n_pairs, np.random.default_rng(0))
    return lambda: RankRLS().fit(X, pairs=pairs)


def descend(n_items: int, n_entries: int, n_alphas: int | None = None) -> Job:
    X = sparse_rows(n_items, n_entries)
    _, y, qid = problem(n_items, 1)
    grid = None if n_alphas is None else alphas(n_alphas)
    ranker = LinearRankRLS(alphas=grid, max_iter=N_ITERATIONS, tol=1e-15, random_state=0)
    return lambda: ranker.fit(X, y, qid=qid)


def margin_steps(n_items: int, query_size: int) -> Job:
    X, y, qid = problem(n_items, 20, query_size)
    ranker = RankSVM(1e3, query_weight="equal", tol=1e-12, max_iter=N_STEPS)
    return lambda: ranker.fit(X, y, qid=qid)


def hold_out_queries(n_items: int, query_size: int = 32, n_alphas: int = N_ALPHAS) -> Job:
    X, y, qid = problem(n_items, 20, query_size)

    def job() -> None:
        graph = PreferenceGraph.from_scores(y, qid)
        space = smallest_space(X, Linear(), None, graph.laplacian.rank())
        leave_query_out(space, graph, Folds.by_query(graph.queries), alphas(n_alphas))

    return job


def hold_out_pairs(n_items: int, n_alphas: int = 1) -> Job:
    X, y, _ = problem(n_items, 20)
    data = TrainingData.of(n_items, y)
    options = {"cost": "magnitude", "ties": "keep", "query_weight": "items"}

    def job() -> None:
        space = smallest_space(X, Gaussian(0.05), None, n_items - 1)
        leave_each_pair_out(space, data, alphas(n_alphas), **options)

    return job


def measure(n_items: int, query_size: int) -> Job:
    _, y, qid = problem(n_items, 1, query_size)
    scores = y + np.random.default_rng(1).normal(size=n_items)
    return lambda: evaluate(y, scores, qid, [NDCG @ 10, Disagreement])


def sweep(n_items: int, n_pairs: int) -> Job:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_items, 10))
    comparisons = Comparisons.from_pairs(draw_pairs(6.0 * np.sin(3.0 * X[:, 0]), n_pairs, rng))
    prior = factorize_kernel(SquaredExponential(2.0, 0.3)(X, X), comparisons)
    sites = np.concatenate([np.full(comparisons.n_pairs, 0.1), np.zeros(comparisons.n_pairs)])
    here = partial(moments_under, prior)
    return lambda: sweep_sites(prior, Probit(), here, prior.copies, sites, True)


def oracle(n_queries: int, query_size: int) -> Job:
    return GradedQueries(n_queries, query_size, query_size).by_oracle
