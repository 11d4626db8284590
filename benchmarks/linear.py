"""Conjugate gradients for linear RankRLS: the operator, comparisons, streaming."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

from benchmarks.harness import Row, faster, markdown, medians, one_core, peak_megabytes
from rankwise.core.threads import even_parts, run_parts, serial_blas
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.io.svmlight import write_svmlight
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS
from rankwise.solve.conjugate_gradients import ShiftedSystems, multishift_cg
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.operators import NormalOperator, normal_operator
from rankwise.solve.rows import SparseRows, as_rows

SIZE = float(os.environ.get("RANKWISE_BENCH_SIZE", "1"))
"""Share of the full number of rows, to try the script out."""


def rows_like_rcv1(n_items: int, n_features: int = 47_152, n_entries: int = 76) -> csr_array:
    """Draw sparse rows whose columns are as unevenly used as words are."""
    rng = np.random.default_rng(0)
    rank = np.exp(rng.random((n_items, n_entries)) * np.log(n_features)).astype(np.int32) - 1
    column = rng.permutation(n_features).astype(np.int32)
    X = csr_array(
        (
            rng.random(rank.size),
            column[rank].ravel(),
            n_entries * np.arange(n_items + 1, dtype=np.int32),
        ),
        shape=(n_items, n_features),
    )
    X.sum_duplicates()
    return X


def rows_alike(n_items: int, n_features: int = 47_152, n_entries: int = 76) -> csr_array:
    """Draw sparse rows whose columns are used equally often."""
    rng = np.random.default_rng(0)
    indices = rng.integers(0, n_features, n_items * n_entries, dtype=np.int32)
    starts = n_entries * np.arange(n_items + 1, dtype=np.int32)
    X = csr_array((rng.random(len(indices)), indices, starts), shape=(n_items, n_features))
    X.sum_duplicates()
    return X


def scores_of(X: csr_array, noise: float = 1.0) -> np.ndarray:
    """Draw two grades that depend on the rows, half of the items each."""
    rng = np.random.default_rng(1)
    signal = X @ rng.normal(size=X.shape[1])
    noisy = signal + noise * signal.std() * rng.normal(size=X.shape[0])
    return (noisy > np.median(noisy)).astype(float)


def read_bandwidth() -> float:
    """Return the bytes read in a second by summing a large array on all cores."""
    values = np.ones(1 << 26)
    edges = even_parts(np.arange(len(values) + 1))
    out = np.empty(len(edges))

    def task(part: int, first: int, last: int) -> None:
        out[part] = values[first:last].sum()

    (seconds,) = medians([lambda: run_parts(task, edges)])
    return values.nbytes / seconds


def operator_rows() -> list[Row]:
    X = rows_like_rcv1(int(781_265 * SIZE))
    y = scores_of(X)
    qid = np.sort(np.random.default_rng(0).integers(0, 1000, X.shape[0]))
    w = np.random.default_rng(2).normal(size=X.shape[1])
    bandwidth = read_bandwidth()
    table = []
    for dtype, bar in [("float64", 2.3), ("float32", 2.8)]:
        stored = None if dtype == "float64" else dtype
        rows = as_rows(X, stored)
        for name, ids in [("one query", None), ("1,000 queries", qid)]:
            graph = PreferenceGraph.from_scores(y, ids, ties="keep")
            operator = normal_operator(rows, graph)
            table += compare_operator(X, w, operator, f"{name}, {dtype}", bar, bandwidth)
            with one_core():
                alone = normal_operator(as_rows(X, stored), graph)
                table.append(scipy_row(X, w, alone, f"{name}, {dtype}, per core", 1.4))
        (seconds,) = medians([lambda stored=stored: as_rows(X, stored)])
        table.append(
            Row(f"reordering the columns, once for a fit, {dtype}",
                "one operator application, 1,000 queries", "report", seconds, table[-3].seconds,
                seconds / table[-3].seconds)
        )  # fmt: skip
    return table


def compare_operator(
    X: csr_array,
    w: np.ndarray,
    operator: NormalOperator,
    name: str,
    bar: float,
    bandwidth: float,
) -> list[Row]:
    row = scipy_row(X, w, operator, name, bar)
    rows = operator.rows
    assert isinstance(rows, SparseRows)
    limit = (rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes) / bandwidth
    against = f"one read of the matrix at {bandwidth / 1e9:.1f} GB/s"
    note = (
        f"{type(operator).__name__}; the time goes into random reads of w and random updates of "
        "the sum, both in cache, not into reading the matrix"
    )
    return [
        row,
        Row("the same", against, "report", row.seconds, limit, row.seconds / limit, note),
    ]


def scipy_row(X: csr_array, w: np.ndarray, operator: NormalOperator, name: str, bar: float) -> Row:
    """Compare an operator with scipy's products, which use one core."""
    return faster(
        f"one operator application, {X.shape[0]:,} x {X.shape[1]:,}, {name}",
        lambda: operator.apply(w),
        "the two scipy products X @ w, X.T @ v",
        lambda: X.T @ (X @ w),
        bar,
    )


def whole_rows() -> list[Row]:
    """Compare whole fits with scikit-learn's ridge regression, the same problem for one query."""
    n_items, table = int(200_000 * SIZE), []
    kinds = {"columns as frequent as words": rows_like_rcv1, "columns alike": rows_alike}
    for name, draw in kinds.items():
        X = draw(n_items)
        y = scores_of(X)
        job = f"LinearRankRLS, {n_items:,} x 47,152, {name}, fit to fitted"
        peer = "scikit-learn's Ridge(solver='sparse_cg')"

        def ours(X=X, y=y):
            return LinearRankRLS(1.0, ties="keep", tol=1e-6).fit(X, y)

        def theirs(X=X, y=y):
            return Ridge(1.0, solver="sparse_cg", tol=1e-6).fit(X, y)

        difference = np.abs(ours().coef_ - theirs().coef_).max() / np.abs(ours().coef_).max()
        for where, context in (("all cores", nullcontext()), ("per core", one_core())):
            with context:
                note = f"largest difference of weights {difference:.0e}"
                table.append(faster(f"{job}, {where}", ours, peer, theirs, 1.0, 3, note))
    return table


def pair_rows() -> list[Row]:
    X = rows_like_rcv1(int(200_000 * SIZE))
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, X.shape[0], size=(int(1e6 * SIZE), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = PreferenceGraph.from_pairs(pairs, n_items=X.shape[0])
    operator = normal_operator(as_rows(X), graph)
    entries = np.tile([1.0, -1.0], len(pairs))
    M = csr_array(
        (entries, pairs.ravel(), 2 * np.arange(len(pairs) + 1)), shape=(len(pairs), X.shape[0])
    )
    rhs = np.ones(len(pairs))

    def scipy_steps(apply: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
        """Take 20 plain steps of conjugate gradients."""
        w, r = np.zeros_like(b), b.copy()
        p = r.copy()
        for _ in range(20):
            q = apply(p) + p
            step = (r @ r) / (p @ q)
            w, before, r = w + step * p, r @ r, r - step * q
            p = r + (r @ r) / before * p
        return w

    L, ours = (M.T @ M).tocsr(), StoppingRule(tol=0.0, max_iter=20)
    job = f"20 iterations on {len(pairs):,} pairs of {X.shape[0]:,} items"
    pairwise = "the same with scipy products, X.T @ (M.T @ (M @ (X @ w)))"
    prebuilt = "the same with scipy products, X.T @ (L @ (X @ w)), L = M.T @ M made before"

    def run() -> object:
        return multishift_cg(ShiftedSystems.of(operator, np.ones(1)), ours)

    def by_pairs() -> object:
        return scipy_steps(lambda w: X.T @ (M.T @ (M @ (X @ w))), X.T @ (M.T @ rhs))

    def by_laplacian() -> object:
        return scipy_steps(lambda w: X.T @ (L @ (X @ w)), X.T @ (M.T @ rhs))

    table = [
        faster(job, run, pairwise, by_pairs, 1.5, repeats=3),
        faster(job, run, prebuilt, by_laplacian, 1.0, repeats=3),
    ]
    with one_core():
        operator = normal_operator(as_rows(X), graph)
        table.append(faster(f"{job}, per core", run, prebuilt, by_laplacian, 1.0, repeats=3))
    return table


def streaming_rows() -> list[Row]:
    """Fit a file of 2 GB in a process of its own, and in another one read into memory."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("RANKWISE_BENCH_DIR")) as folder:
        path = Path(folder) / "large.svm"
        size = write_large(path, int(2e9 * SIZE))
        streamed, (seconds, peak, n_iter) = in_process("stream", path)
        memory, (other_seconds, other_peak, _) = in_process("memory", path)
        error = np.linalg.norm(streamed - memory) / np.linalg.norm(memory)
    note = (
        f"peak {peak:.0f} MB resident (bar: below 1000), in memory {other_peak:.0f} MB; "
        f"weights differ by {error:.0e} (bar: 1e-8) after {n_iter:.0f} iterations"
    )
    return [
        Row(f"streaming fit of a svmlight file of {size / 1e9:.2f} GB, 47,152 features",
            "the same read into memory", "report", seconds, other_seconds,
            other_seconds / seconds, note)
    ]  # fmt: skip


def write_large(path: Path, n_bytes: int) -> int:
    """Write parts of 20,000 rows until the file is large enough."""
    X = rows_like_rcv1(20_000)
    X.data = np.round(X.data, 6)
    y = scores_of(X)
    part = path.with_suffix(".part")
    write_svmlight(part, X, y, qid=1000 + np.arange(20_000) // 100)
    text = part.read_bytes()
    part.unlink()
    with path.open("wb") as file:
        for copy in range(max(1, round(n_bytes / len(text)))):
            file.write(text.replace(b"qid:", f"qid:{copy}".encode()))
    return path.stat().st_size


def in_process(kind: str, path: Path) -> tuple[np.ndarray, tuple[float, float, float]]:
    out = path.with_name(f"{kind}.npy")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.linear", "--fit", kind, str(path), str(out)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    seconds, peak, n_iter = map(float, done.stdout.split())
    return np.load(out), (seconds, peak, n_iter)


def fit_and_report(kind: str, path: str, out: str) -> None:
    from rankwise.io.svmlight import read_svmlight  # noqa: PLC0415

    ranker = LinearRankRLS(1000.0, tol=1e-12)  # a hundred copies of each row: 10 for each
    start = time.perf_counter()
    if kind == "stream":
        ranker.fit_file(path, n_features=47_152, cache_dir=Path(path).parent)
    else:
        data = read_svmlight(path, n_features=47_152, comments="skip")
        ranker.fit(data.X, data.y, qid=data.qid)
    seconds = time.perf_counter() - start
    np.save(out, ranker.coef_)
    print(seconds, peak_megabytes(), ranker.n_iter_)


def table() -> list[Row]:
    with serial_blas():  # as in every fit
        operators = operator_rows()
    return [*operators, *whole_rows(), *pair_rows(), *streaming_rows()]


if __name__ == "__main__":
    if "--fit" in sys.argv:
        fit_and_report(*sys.argv[-3:])
    else:
        print(markdown("Linear RankRLS by conjugate gradients", table()))
