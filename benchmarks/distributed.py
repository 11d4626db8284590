"""Learning on a Dask cluster of this machine: overhead, efficiency, memory.

Run it from the root, every process with one thread, so that workers are compared and not threads:
``NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.distributed``.
It prints a table of Markdown. Figures of a busy machine are ratios in one run.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from distributed import Client, LocalCluster
from rankwise import LinearRankRLS
from rankwise.distributed import DaskLinearRankRLS, DaskRankRLS
from rankwise.io import write_table

N_FEATURES, PER_QUERY = 100, 50


def write_parts(folder, n_rows, n_parts, name="part"):
    """Write files of scored rows; queries run on from one file to the next."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES))
    y = np.clip(np.round(X @ rng.normal(size=N_FEATURES) / 10 + rng.normal(size=n_rows)), 0, 4)
    paths = []
    for k, rows in enumerate(np.array_split(np.arange(n_rows), n_parts)):
        columns = {f"f{j}": X[rows, j] for j in range(N_FEATURES)}
        path = Path(folder, f"{name}-{k}.parquet")
        write_table(path, columns | {"y": y[rows], "qid": rows // PER_QUERY})
        paths.append(path)
    return paths


def seconds(task, repeat=2):
    best, result = np.inf, None
    for _ in range(repeat):
        start = time.perf_counter()
        result = task()
        best = min(best, time.perf_counter() - start)
    return best, result


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def peak_bytes():
    """Return the most memory this process has had, in bytes."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split("VmHWM:")[1].split()[0])


def cluster(n_workers):
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None
    )


def on_workers(n_workers, paths):
    """Return the seconds of statistics, and of an iteration, with so many workers."""
    with cluster(n_workers) as local, Client(local) as client:
        fit = DaskRankRLS(client=client).fit_files
        fit(paths[:1], y="y", qid="qid")  # start and compile
        statistics, ranker = seconds(lambda: fit(paths, y="y", qid="qid"))
        times = []
        iterative = DaskLinearRankRLS(
            max_iter=30, tol=1e-12, progress=lambda _: times.append(time.perf_counter()),
            client=client,
        )  # fmt: skip
        iterative.fit_files(paths, y="y", qid="qid")
        memory = max(client.run(peak_bytes).values())
    return statistics, float(np.median(np.diff(times))), ranker.coef_, memory


def growth(folder, n_rows):
    """Print the peak memory of a worker as files of one size grow in number."""
    for n_parts in (2, 4, 8):
        paths = write_parts(folder, n_rows * n_parts // 8, n_parts, f"grow{n_parts}")
        with cluster(1) as local, Client(local) as client:
            DaskRankRLS(client=client).fit_files(paths, y="y", qid="qid")
            memory = max(client.run(peak_bytes).values()) / 2**20
        row(f"peak of a worker, {n_parts} files of {n_rows // 8} rows", f"{memory:.0f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    n_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        paths = write_parts(folder, n_rows, 8)
        (whole,) = write_parts(folder, n_rows, 1, "whole")
        row(f"{n_rows} rows x {N_FEATURES}, {os.cpu_count()} cores", "")
        row("---", "---:")
        here, expected = seconds(lambda: LinearRankRLS().fit_file(whole, y="y", qid="qid"))
        row("fit_file, one pass", f"{here:.2f} s")
        one, step_one, coef, _ = on_workers(1, paths)
        two, step_two, _, _ = on_workers(2, paths)
        row("DaskRankRLS, 1 worker", f"{one:.2f} s")
        row("DaskRankRLS, 2 workers", f"{two:.2f} s")
        row("1 worker against fit_file", f"{one / here:.2f}")
        row("efficiency of 2 workers", f"{one / (2 * two):.2f}")
        row("an iteration of DaskLinearRankRLS, 1 worker", f"{1000 * step_one:.1f} ms")
        row("an iteration of DaskLinearRankRLS, 2 workers", f"{1000 * step_two:.1f} ms")
        gap = np.abs(coef - expected.coef_).max() / np.abs(expected.coef_).max()
        row("largest difference of weights, DaskRankRLS to fit_file", f"{gap:.1e}")
        growth(folder, n_rows)


if __name__ == "__main__":
    main()
