"""KPCRankCV against the decomposition that it cannot do without."""

import numpy as np
from sklearn.decomposition import KernelPCA

from benchmarks.harness import Row, faster, markdown, one_core, within
from rankwise import Gaussian, KPCRank, KPCRankCV
from rankwise.features.components import find_components

N_ITEMS, N_COMPONENTS, N_QUERIES = 3000, 400, 150
FEW = 20


def problem(n_items: int = N_ITEMS, n_queries: int = N_QUERIES):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 20))
    y = np.round(np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=n_items))
    return X, y, np.repeat(np.arange(n_queries), n_items // n_queries)


def selection_row() -> Row:
    X, y, qid = problem()
    kernel = Gaussian(0.05)
    return within(
        "KPCRankCV: all numbers of components up to 400 by leave-query-out, 3,000 items, "
        "150 queries",
        lambda: KPCRankCV(N_COMPONENTS, kernel).fit(X, y, qid=qid),
        "finding those 400 components",
        lambda: find_components(kernel, X, N_COMPONENTS),
        1.5,
        repeats=3,
    )


def truncated_row() -> Row:
    X, y, qid = problem()
    kernel = Gaussian(0.05)
    return within(
        "KPCRank, 20 components of the same items, truncated",
        lambda: KPCRank(FEW, kernel, solver="truncated").fit(X, y, qid=qid),
        "the same with the full decomposition",
        lambda: KPCRank(FEW, kernel, solver="full").fit(X, y, qid=qid),
        1.0,
        repeats=3,
    )


def peer_rows() -> list[Row]:
    """Compare whole fits with scikit-learn's components, which it finds without ranking by them."""
    X, y, qid = problem()
    job = f"KPCRank, {N_COMPONENTS} components of {N_ITEMS:,} items, fit to fitted"
    against = f"scikit-learn KernelPCA({N_COMPONENTS}).fit"

    def ours():
        return KPCRank(N_COMPONENTS, Gaussian(0.05)).fit(X, y, qid=qid)

    def theirs():
        return KernelPCA(N_COMPONENTS, kernel="rbf", gamma=0.05).fit(X)

    every_core = faster(job, ours, against, theirs, 1.0, 3)
    with one_core():
        return [every_core, faster(f"{job}, per core", ours, against, theirs, 1.0, 3)]


def table() -> list[Row]:
    return [selection_row(), truncated_row(), *peer_rows()]


if __name__ == "__main__":
    print(markdown("KPCRank", table()))
