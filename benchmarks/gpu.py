"""Rankers on a GPU against the CPU of the same machine: seconds, ratios, differences, memory.

Run it on a machine with a GPU: ``python benchmarks/gpu.py [--device cuda] [--small] [--large]``. It
needs the source tree and numpy, scipy, scikit-learn and torch beside rankwise's own dependencies,
prints tables of Markdown and ends within about seven minutes; ``python -m benchmarks gpu`` records
them. ``--small`` is for trying it out on a CPU, ``--no-cpu`` leaves out the CPU. The second table
holds what a CPU takes hours for: kernel problems of up to 1,000,000 items without their matrix, and
leave-query-out of 50,000 items; ``--large`` measures nothing else.
"""

import argparse
import contextlib
import io
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch
from scipy import sparse

from rankwise import (
    ConjugateGradients,
    Gaussian,
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    RankRLS,
    RankRLSCV,
    leave_pair_out,
)
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import sweep_sites
from rankwise.comparisons.gp.inference.likelihood import Probit
from rankwise.comparisons.gp.inference.prior import (
    DeviceMoments,
    factorize_kernel,
    moments_under,
)
from rankwise.core.namespaces import cholesky, like, place
from rankwise.features.kernels import own_product, single_product
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.moved_rows import rows_like
from rankwise.solve.operators import normal_operator
from rankwise.solve.rows import as_rows

ALPHAS = 2.0 ** np.arange(-15, 16)
KERNEL = Gaussian(0.05)
QUICK = 10.0
"""Seconds below which the CPU is measured twice."""


def data(n_items, n_features=20, per_query=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, n_features))
    y = X[:, 0] * X[:, 1] + rng.normal(size=n_items)
    return X, y, np.arange(n_items) // per_query


def seconds(task, device=None, repeat=1):
    """Return the least time of some runs and the last result."""
    best, result = np.inf, None
    for _ in range(repeat):
        synchronise(device)
        start = time.perf_counter()
        result = task()
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return best, result


def synchronise(device):
    if device is not None and device.startswith("cuda"):
        torch.cuda.synchronize()


def peak(device):
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**30
    return float("nan")


def forget(device):
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def difference(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def compare(label, on_device, on_cpu, values, device, deadline, repeat=2):
    """Print the time on the device, and on the CPU too if there is time for it."""
    forget(device)
    on_device()
    there, found = seconds(on_device, device, repeat)
    memory = peak(device)
    here, gap = float("nan"), float("nan")
    if on_cpu is not None and time.monotonic() < deadline:
        here, expected = seconds(on_cpu)
        if here < QUICK:  # the first run may have compiled kernels
            here = min(here, seconds(on_cpu)[0])
        gap = difference(values(found), values(expected))
    cells = (f"{here:.2f}", f"{here / there:.0f}", f"{gap:.1e}") if here == here else ("", "", "")
    row(label, f"{there:.4f}", *cells, f"{memory:.1f}")
    return there


def primitives(n_items, device):
    """Return the seconds of a factorisation and of an eigendecomposition of this order."""
    A = torch.randn(n_items, n_items, dtype=torch.float64, device=device)
    A = A @ A.T / n_items
    A.diagonal().add_(1.0)
    cholesky(A)
    factor, _ = seconds(lambda: cholesky(A), device, 2)
    eigen, _ = seconds(lambda: torch.linalg.eigh(A), device)
    row(f"Cholesky, order {n_items}", f"{factor:.3f}", "", "", "", "")
    row(f"eigendecomposition, order {n_items}", f"{eigen:.3f}", "", "", "", "")
    return factor, eigen


def fits(sizes, device, deadline):
    n_basis, n_rows, n_most, n_dual = sizes
    X, y, qid = data(n_rows)
    options = {"kernel": KERNEL, "basis": n_basis, "random_state": 0}
    compare(
        f"basis of {n_basis} rows, {n_rows} items",
        lambda: RankRLS(device=device, **options).fit(X, y, qid=qid),
        lambda: RankRLS(**options).fit(X, y, qid=qid),
        lambda ranker: ranker.predict(X[:1000]), device, deadline,
    )  # fmt: skip
    X_most, y_most, qid_most = data(n_most)
    compare(
        f"basis of {n_basis} rows, {n_most} items",
        lambda: RankRLS(device=device, **options).fit(X_most, y_most, qid=qid_most),
        None, None, device, deadline,
    )  # fmt: skip
    tensors = [torch.as_tensor(values, device=device) for values in (X_most, y_most, qid_most)]
    compare(
        f"basis of {n_basis} rows, {n_most} items, as tensors on the device",
        lambda: RankRLS(device=device, **options).fit(*tensors),
        None, None, device, deadline,
    )  # fmt: skip
    X, y, qid = data(n_dual)
    compare(
        f"fit, {n_dual} items",
        lambda: RankRLS(kernel=KERNEL, device=device).fit(X, y, qid=qid),
        lambda: RankRLS(kernel=KERNEL).fit(X, y, qid=qid),
        lambda ranker: ranker.dual_coef_, device, deadline,
    )  # fmt: skip
    return compare(
        f"path of {len(ALPHAS)} alphas, {n_dual} items",
        lambda: RankRLS(kernel=KERNEL, device=device).fit_path(X, y, qid=qid, alphas=ALPHAS),
        None, None, device, deadline, 1,
    )  # fmt: skip


def of_tensors(n_items, n_new, device):
    """Print how long rows that are on the device take to be ranked there."""
    X, y, qid = data(n_items)
    rows = torch.as_tensor(X, device=device)
    grades, queries = torch.as_tensor(y, device=device), torch.as_tensor(qid, device=device)
    new = torch.as_tensor(data(n_new, seed=1)[0], device=device)
    options = {"kernel": KERNEL, "device": device}
    compare(
        f"fit to tensors, {n_items} items",
        lambda: RankRLS(**options).fit(rows, grades, qid=queries),
        None, None, device, 0.0,
    )  # fmt: skip
    ranker = RankRLS(**options).fit(X, y, qid=qid)
    compare(
        f"scores of {n_new} rows as a tensor",
        lambda: ranker.predict(new),
        lambda: ranker.predict(data(n_new, seed=1)[0]),
        lambda scores: scores.cpu().numpy() if isinstance(scores, torch.Tensor) else scores,
        device, time.monotonic() + 1.0,
    )  # fmt: skip


def others(sizes, device, deadline):
    """Measure the rankers besides RankRLS."""
    n_dual, n_rows, n_compared, n_pairs = sizes
    X, y, qid = data(n_dual)
    compare(
        f"KPCRank, 100 components of {n_dual} items",
        lambda: KPCRank(100, KERNEL, device=device).fit(X, y, qid=qid),
        lambda: KPCRank(100, KERNEL).fit(X, y, qid=qid),
        lambda ranker: ranker.predict(X[:1000]), device, deadline, 1,
    )  # fmt: skip
    n_items = n_dual // 4
    X, y, qid = data(n_items)
    compare(
        f"KPCRankCV, {n_items // 10} components of {n_items} items",
        lambda: KPCRankCV(n_items // 10, KERNEL, device=device).fit(X, y, qid=qid),
        lambda: KPCRankCV(n_items // 10, KERNEL).fit(X, y, qid=qid),
        lambda ranker: ranker.path_.values, device, deadline, 1,
    )  # fmt: skip
    X, y, qid = data(n_rows, n_features=200)
    compare(
        f"LinearRankRLS, {n_rows} x 200 dense rows",
        lambda: LinearRankRLS(device=device).fit(X, y, qid=qid),
        lambda: LinearRankRLS().fit(X, y, qid=qid),
        lambda ranker: ranker.coef_, device, deadline, 1,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_compared, 20))
    pairs = rng.integers(0, n_compared, size=(n_pairs, 2))
    comparisons = Comparisons.from_pairs(pairs[pairs[:, 0] != pairs[:, 1]])
    rows = X[comparisons.items]
    prior = factorize_kernel(KERNEL(rows, rows), comparisons)
    sites = np.repeat([1.0, 0.5], comparisons.n_pairs)
    moments, here = DeviceMoments.of(prior, place(device)), partial(moments_under, prior)
    compare(
        f"a sweep, {n_compared} items, {n_pairs} comparisons",
        lambda: sweep_sites(prior, Probit(), moments, prior.copies, sites, True),
        lambda: sweep_sites(prior, Probit(), here, prior.copies, sites, True),
        lambda sweep: sweep.mean, device, deadline, 3,
    )  # fmt: skip


def sparse_operator(n_rows, per_row, n_features, device):
    """Compare products of sparse rows, and whole fits, with those of the CPU."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, n_features, size=(n_rows, per_row), dtype=np.int32)
    indptr = per_row * np.arange(n_rows + 1)
    X = sparse.csr_array(
        (rng.normal(size=n_rows * per_row), columns.ravel(), indptr), shape=(n_rows, n_features)
    )
    X.sum_duplicates()
    y = rng.integers(0, 5, size=n_rows).astype(float)
    qid = np.arange(n_rows) // 100
    graph = PreferenceGraph.from_scores(y, qid)
    w = rng.normal(size=n_features)
    v = rng.normal(size=n_rows)
    there = rows_like(X, place(device))
    w_there, v_there = (like(a, place(device)) for a in (w, v))
    name = f"{n_rows} x {n_features} sparse rows, {X.nnz / 1e6:.0f} M entries"
    compare(
        f"products X w and X' v, {name}, against SciPy",
        lambda: (there.Z @ w_there, there.across @ v_there),
        lambda: (X @ w, X.T @ v),
        lambda both: both[1].cpu().numpy() if isinstance(both[1], torch.Tensor) else both[1],
        device, time.monotonic() + 1.0, 5,
    )  # fmt: skip
    here = as_rows(X)
    on, off = normal_operator(there, graph), normal_operator(here, graph)
    compare(
        f"operator X' L X w, {name}",
        lambda: on.apply(w), lambda: off.apply(w), lambda product: product,
        device, time.monotonic() + 1.0, 5,
    )  # fmt: skip
    compare(
        f"LinearRankRLS, {name}",
        lambda: LinearRankRLS(device=device).fit(X, y, qid=qid),
        lambda: LinearRankRLS().fit(X, y, qid=qid),
        lambda ranker: ranker.coef_, device, time.monotonic() + 1.0, 1,
    )  # fmt: skip


def leave_many_queries_out(n_items, device):
    """Print the time of leave-query-out at a size where a CPU takes an hour."""
    X, y, qid = data(n_items)
    forget(device)
    there, _ = seconds(
        lambda: RankRLSCV(ALPHAS, kernel=KERNEL, device=device).fit(X, y, qid=qid), device
    )
    memory, matrix = peak(device), 8 * n_items**2 / 2**30
    name = f"leave-query-out, {n_items} items, {len(ALPHAS)} alphas"
    row(name, f"{there:.1f}", "", "", "", f"{memory:.1f}")
    return f"leave-query-out, {n_items} items: {memory / matrix:.1f} kernel matrices (bar: 3)"


DIRECT = 50_000
"""Items up to which the kernel matrix is formed, too, to compare with."""


def without_matrix(n_items, device, limit, tol=1e-10):
    """Print how long conjugate gradients take; they are stopped after ``limit`` seconds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 20))
    y, qid = X[:, 0] * X[:, 1] + rng.normal(size=n_items), np.arange(n_items) // 100
    rows = torch.asarray(X, device=device)
    V = torch.ones((n_items, 1), dtype=torch.float64, device=device)
    single = single_product(KERNEL, rows)
    single(V)
    own_product(KERNEL, rows[:100], V[:100])  # its kernel is compiled by the first call
    quick, nearly = seconds(lambda: single(V), device)
    exact, product = seconds(lambda: own_product(KERNEL, rows, V), device)
    row(f"product in single precision, {n_items} items", f"{quick:.4f}", "", "",
        f"{difference(nearly.cpu().numpy(), product.cpu().numpy()):.1e}", "")  # fmt: skip
    row(f"product in double precision, {n_items} items", f"{exact:.4f}", "", "", "", "")
    forget(device)
    start, steps = time.monotonic(), []

    def watch(step):
        steps.append(step)
        return time.monotonic() - start > limit

    solver = ConjugateGradients(tol, progress=watch)
    options = {"kernel": KERNEL, "device": device, "random_state": 0}
    there, found = seconds(lambda: RankRLS(solver=solver, **options).fit(X, y, qid=qid), device)
    memory, gap = peak(device), ""
    if n_items <= DIRECT:
        exact = RankRLS(solver="direct", **options).fit(X, y, qid=qid)
        gap = f"{difference(found.dual_coef_, exact.dual_coef_):.1e}"
    n_basis = solver.basis_size(n_items, rows)
    row(f"fit without the matrix, {n_items} items, {n_basis} basis rows", f"{there:.1f}", "", "",
        gap, f"{memory:.1f}")  # fmt: skip
    return (
        f"fit without the matrix, {n_items} items: {len(steps)} iterations to a residual of "
        f"{steps[-1].error:.1e}"
    )


def attempt(job, *arguments):
    """Return what a job returns; one that fails says why and does not hide what follows."""
    try:
        return job(*arguments)
    except Exception as error:
        row(
            f"{job.__name__} failed: {type(error).__name__}: {str(error).splitlines()[:1]}",
            *[""] * 5,
        )
        return None


def large(divisor, device):
    """Measure what a CPU takes hours for."""
    fused = device.startswith("cuda") and find_spec("triton") is not None
    notes = [f"single precision {'in one kernel of the GPU (Triton)' if fused else 'by blocks'}"]
    for n_items, limit, tol in (
        (50_000, 30, 1e-10),
        (200_000, 60, 1e-10),
        (1_000_000, 110, 1e-8),
    ):
        notes.append(attempt(without_matrix, n_items // divisor, device, limit, tol))
        forget(device)
    notes.append(attempt(leave_many_queries_out, 50_000 // divisor, device))
    forget(device)
    print("\n" + "\n".join(note for note in notes if note), flush=True)


def holdouts(n_pairs, n_queries, device, deadline):
    X, y, _ = data(n_pairs)
    grades = (y > 0).astype(float)
    pairs = compare(
        f"leave-pair-out, {n_pairs} items, all pairs",
        lambda: leave_pair_out(RankRLS(kernel=KERNEL, device=device, ties="keep"), X, grades),
        lambda: leave_pair_out(RankRLS(kernel=KERNEL, ties="keep"), X, grades),
        lambda estimate: np.array([estimate.value]), device, deadline,
    )  # fmt: skip
    memory = peak(device)
    X, y, qid = data(n_queries)
    compare(
        f"leave-query-out, {n_queries} items, {len(ALPHAS)} alphas",
        lambda: RankRLSCV(ALPHAS, kernel=KERNEL, device=device).fit(X, y, qid=qid),
        lambda: RankRLSCV(ALPHAS, kernel=KERNEL).fit(X, y, qid=qid),
        lambda ranker: ranker.path_.values, device, deadline, 1,
    )  # fmt: skip
    n_compared = n_queries // 2
    X, y, _ = data(n_compared)
    drawn = np.random.default_rng(0).integers(0, n_compared, size=(5 * n_compared, 2))
    lost = y[drawn[:, 0]] < y[drawn[:, 1]]
    drawn[lost] = drawn[lost][:, ::-1]
    drawn = drawn[drawn[:, 0] != drawn[:, 1]]
    compare(
        f"leave-edge-out, {n_compared} items, {len(drawn)} comparisons, {len(ALPHAS)} alphas",
        lambda: RankRLSCV(ALPHAS, kernel=KERNEL, device=device).fit(X, pairs=drawn),
        lambda: RankRLSCV(ALPHAS, kernel=KERNEL).fit(X, pairs=drawn),
        lambda ranker: ranker.path_.values, device, deadline, 1,
    )  # fmt: skip
    return pairs, memory


def medium(divisor, device, deadline):
    """Measure what a CPU can do, too."""
    n_dual = 20_000 // divisor
    basic = attempt(primitives, n_dual, device)
    sizes = (2000 // divisor, 200_000 // divisor, 1_000_000 // divisor, n_dual)
    path = attempt(fits, sizes, device, deadline)
    left_out = attempt(holdouts, n_dual, 10_000 // divisor, device, deadline)
    attempt(of_tensors, n_dual, 100_000 // divisor, device)
    sizes = (n_dual, 1_000_000 // divisor, 2000 // divisor, 20_000 // divisor)
    attempt(others, sizes, device, deadline)
    attempt(sparse_operator, 480_000 // divisor, 100, 50_000 // divisor, device)
    if None in (basic, path, left_out):
        return
    (factor, eigen), (pairs, memory) = basic, left_out
    matrix, cheaper = 8 * n_dual**2 / 2**30, min(eigen, len(ALPHAS) * factor)
    print(f"\none kernel matrix of {n_dual} items: {matrix:.1f} GiB")
    print(f"path: {path / cheaper:.2f} times {len(ALPHAS)} factorisations or one decomposition,")
    print("whichever is cheaper (bar: 1.5)")
    print(f"leave-pair-out: {pairs / factor:.1f} times one factorisation (bar: 8),")
    print(f"with {memory / matrix:.1f} kernel matrices (bar: 3)", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name in ("--small", "--large", "--no-cpu"):
        parser.add_argument(name, action="store_true")
    chosen, _ = parser.parse_known_args()
    divisor = 100 if chosen.small else 1
    measure(chosen.device, divisor, 0 if chosen.no_cpu else 100, only_large=chosen.large)


def measure(device, divisor, seconds_of_cpu, *, only_large=False):
    """Print the tables."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "PyTorch's CPU"
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} CPU threads\n")
    row("task", "device s", "CPU s", "ratio", "difference", "peak GiB")
    row("---", "---:", "---:", "---:", "---:", "---:")
    if not only_large:
        medium(divisor, device, time.monotonic() + seconds_of_cpu)
        print()
        row("task", "device s", "CPU s", "ratio", "difference", "peak GiB")
        row("---", "---:", "---:", "---:", "---:", "---:")
    large(divisor, device)


def available() -> bool:
    """Tell whether there is a GPU to measure on."""
    return torch.cuda.is_available()


class Copied(io.StringIO):
    """Text that is shown while it is kept."""

    def write(self, text):
        """Keep and show."""
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return super().write(text)


def section() -> str:
    """Return what `main` prints."""
    printed = Copied()
    with contextlib.redirect_stdout(printed):
        measure("cuda", 1, 100)
    return printed.getvalue()


if __name__ == "__main__":
    main()
