"""RankRLS in closed form against scikit-learn and bare LAPACK."""

import subprocess
import sys

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from benchmarks.harness import Row, faster, markdown, one_core, peak_megabytes, within
from rankwise import Gaussian, RankRLS

ALPHAS = 2.0 ** np.arange(-15, 16)
AUTHORS_31_ALPHAS = 8.3  # seconds, RLScore 0.8.2a, 4,000 items, where the bare eigh took 4.35


def kernel_problem(n_items: int = 4000, n_features: int = 50):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, n_features))
    y = X[:, 0] + rng.normal(size=n_items)
    return X, y, np.repeat(np.arange(n_items // 20), 20)


def dual_rows() -> list[Row]:
    X, y, qid = kernel_problem()
    kernel = Gaussian(1 / 50)
    K = kernel(X, X)
    order = len(X) - len(np.unique(qid))
    S = K[:order, :order]
    one = peer_row(X, y, qid, "all cores")
    with one_core():
        one_per_core = peer_row(X, y, qid, "per core")
    path = within(
        "31 alphas without hold-outs, same data",
        lambda: RankRLS(kernel=kernel).fit_path(X, y, qid=qid, alphas=ALPHAS),
        f"bare LAPACK dsyevd of the same order ({order})",
        lambda: eigh(S, driver="evd", check_finite=False),
        0.7,
        repeats=3,
    )
    authors = AUTHORS_31_ALPHAS / 4.35
    ratio = Row(
        "the same, as a multiple of the bare eigendecomposition",
        f"the authors' code: {authors:.2f} eigendecompositions",
        "at least 3x faster",
        path.ratio,
        authors,
        authors / path.ratio,
        "multiples of one dsyevd, not seconds; theirs from their own machine run",
    )
    return [one, one_per_core, path, ratio]


def peer_row(X, y, qid, where: str) -> Row:
    return faster(
        f"dual fit, Gaussian kernel, one alpha, 4,000 items, fit to fitted, {where}",
        lambda: RankRLS(kernel=Gaussian(1 / 50)).fit(X, y, qid=qid),
        "scikit-learn KernelRidge.fit",
        lambda: KernelRidge(kernel="rbf", gamma=1 / 50).fit(X, y),
        1.5,
        repeats=3,
    )


def primal_problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500_000, 54))
    y = rng.integers(0, 7, 500_000)
    return X, y


def primal_rows() -> list[Row]:
    X, y = primal_problem()
    row = within(
        "primal fit with 31 alphas, 500,000 x 54 dense, 7 grades, one query",
        lambda: RankRLS().fit_path(X, y, alphas=ALPHAS),
        "one bare dsyrk of X",
        lambda: dsyrk(1.0, X.T),
        6,
    )
    peer = "scikit-learn Ridge(solver='cholesky').fit, one alpha, no ranking"

    def theirs():
        return Ridge(1.0, solver="cholesky").fit(X, y)

    job = "RankRLS().fit of the same, one alpha, fit to fitted"
    peers = [faster(f"{job}, all cores", lambda: RankRLS().fit(X, y), peer, theirs, 1.0, 3)]
    with one_core():
        peers += [faster(f"{job}, per core", lambda: RankRLS().fit(X, y), peer, theirs, 1.0, 3)]
    return [row, *peers, memory_row()]


def memory_row() -> Row:
    """Measure the peak memory of the primal fit in processes of their own."""
    base, full = (_peak(fit) for fit in ("no", "yes"))
    size = 500_000 * 54 * 8 / 1e6
    ratio = 1 + (full - base) / size
    return Row(
        "peak memory of the fit of 31 alphas, X included (MB, not s)",
        "X itself",
        "at most 1.5x",
        size + full - base,
        size,
        ratio,
        "second process without the fit subtracted",
    )


def _peak(fit: str) -> float:
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.rankrls", "--peak", fit],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(out.stdout)


def _report_peak(fit: str) -> None:
    X, y = primal_problem()
    small = np.ascontiguousarray(X[:1000])
    RankRLS().fit_path(small, y[:1000], alphas=ALPHAS)
    if fit == "yes":
        RankRLS().fit_path(X, y, alphas=ALPHAS)
    print(peak_megabytes())


def table() -> list[Row]:
    return [*dual_rows(), *primal_rows()]


if __name__ == "__main__":
    if "--peak" in sys.argv:
        _report_peak(sys.argv[-1])
    else:
        print(markdown("RankRLS in closed form", table()))
