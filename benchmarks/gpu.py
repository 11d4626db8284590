"""Rankers on a GPU against the CPU of the same machine: seconds, ratios, differences, memory.

Run it on a machine with a GPU: ``python benchmarks/gpu.py [--device cuda] [--small] [--large]``. It
needs the source tree and numpy, scipy, scikit-learn and torch beside rankwise's own dependencies,
prints a table of Markdown and ends within about six minutes. ``--small`` is for trying it out on a
CPU, ``--large`` measures nothing but leave-query-out of 50,000 items, ``--no-cpu`` leaves out the
CPU. ``benchmarks/kernel_iterations.py --device cuda`` measures problems without a kernel matrix.
"""

import argparse
import contextlib
import io
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from rankwise import Gaussian, KPCRank, LinearRankRLS, RankRLS, RankRLSCV, leave_pair_out_auc
from rankwise.core.devices import as_device
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.ep import sweep_sites
from rankwise.rankers.gp.inference.likelihoods import Probit
from rankwise.rankers.gp.inference.prior import DeviceMoments, factorize_kernel

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
    on = as_device(device)
    A = torch.randn(n_items, n_items, dtype=torch.float64, device=device)
    A = A @ A.T / n_items
    A.diagonal().add_(1.0)
    on.factor(A)
    factor, _ = seconds(lambda: on.factor(A), device, 2)
    eigen, _ = seconds(lambda: on.eigh(A), device)
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
        None, None, device, deadline, 1,
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
    moments = DeviceMoments.of(prior, as_device(device))
    compare(
        f"a sweep, {n_compared} items, {n_pairs} comparisons",
        lambda: sweep_sites(prior, Probit(), sites, clip=True, moments=moments),
        lambda: sweep_sites(prior, Probit(), sites, clip=True),
        lambda sweep: sweep.mean, device, deadline, 3,
    )  # fmt: skip


def leave_many_queries_out(n_items, device):
    """Print the time of leave-query-out at a size where a CPU takes an hour."""
    X, y, qid = data(n_items)
    forget(device)
    there, _ = seconds(
        lambda: RankRLSCV(ALPHAS, kernel=KERNEL, device=device).fit(X, y, qid=qid), device
    )
    memory = peak(device)
    name = f"leave-query-out, {n_items} items, {len(ALPHAS)} alphas"
    row(name, f"{there:.1f}", "", "", "", f"{memory:.1f}")


def holdouts(n_pairs, n_queries, device, deadline):
    X, y, _ = data(n_pairs)
    grades = (y > 0).astype(float)
    pairs = compare(
        f"leave-pair-out, {n_pairs} items, all pairs",
        lambda: leave_pair_out_auc(X, grades, kernel=KERNEL, device=device),
        lambda: leave_pair_out_auc(X, grades, kernel=KERNEL),
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
    return pairs, memory


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name in ("--small", "--large", "--no-cpu"):
        parser.add_argument(name, action="store_true")
    chosen, _ = parser.parse_known_args()
    device, divisor = chosen.device, 20 if chosen.small else 1
    deadline = time.monotonic() + (120 if not chosen.small else 20) * (not chosen.no_cpu)
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "PyTorch's CPU"
    print(f"{name}, torch {torch.__version__}, float64, {torch.get_num_threads()} CPU threads\n")
    row("task", "device s", "CPU s", "ratio", "difference", "peak GiB")
    row("---", "---:", "---:", "---:", "---:", "---:")
    if chosen.large:
        return leave_many_queries_out(50_000 // divisor, device)
    n_dual = 20_000 // divisor
    factor, eigen = primitives(n_dual, device)
    path = fits(
        (2000 // divisor, 200_000 // divisor, 1_000_000 // divisor, n_dual), device, deadline
    )
    pairs, memory = holdouts(n_dual, 10_000 // divisor, device, deadline)
    of_tensors(n_dual, 100_000 // divisor, device)
    others((n_dual, 1_000_000 // divisor, 2000 // divisor, 20_000 // divisor), device, deadline)
    matrix = 8 * n_dual**2 / 2**30
    print(f"\none kernel matrix of {n_dual} items: {matrix:.1f} GiB")
    cheaper = min(eigen, len(ALPHAS) * factor)
    print(f"path: {path / cheaper:.2f} times {len(ALPHAS)} factorisations or one decomposition,")
    print("whichever is cheaper (bar: 1.5)")
    print(f"leave-pair-out: {pairs / factor:.1f} times one factorisation (bar: 8),")
    print(f"with {memory / matrix:.1f} kernel matrices (bar: 3)")
    return None


def available() -> bool:
    """Tell whether there is a GPU to measure on."""
    return torch.cuda.is_available()


def section() -> str:
    """Return what `main` prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main()
    return printed.getvalue()


if __name__ == "__main__":
    main()
