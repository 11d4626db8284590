"""Learning on a Dask cluster of this machine: overhead, efficiency, traffic, memory.

``python -m benchmarks distributed`` records the table; every process has one thread, so that
workers are compared and not threads. ``RANKWISE_BIG=1`` adds 10 million rows, read by a worker
whose memory is an eighth of them (8 GB of files are written to the temporary folder).
"""

# ruff: noqa: E402

import os
import resource
import tempfile
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RANKWISE_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy is loaded, here and in the workers

import numpy as np

from rankwise import LinearRankRLS
from rankwise.apps.distributed import DaskLinearRankRLS, DaskRankRLS
from rankwise.apps.distributed.engine import client_of
from rankwise.io import write_table

PEERS = ["dask", "distributed", "pyarrow"]
N_ROWS, N_FEATURES, PER_QUERY, N_PARTS = 1_600_000, 100, 50, 8
BIG_ROWS, BIG_PARTS = 10_000_000, 100
COLUMNS = {"y": "y", "qid": "qid"}


def write_parts(folder, n_rows, n_parts, name="part"):
    """Write files of scored rows one by one; queries run on from one file to the next."""
    paths = []
    truth = np.random.default_rng(0).normal(size=N_FEATURES) / 10
    for k, rows in enumerate(np.array_split(np.arange(n_rows), n_parts)):
        rng = np.random.default_rng([1, k])
        X = rng.normal(size=(len(rows), N_FEATURES))
        y = np.clip(np.round(X @ truth + rng.normal(size=len(rows))), 0, 4)
        columns = {f"f{j}": X[:, j] for j in range(N_FEATURES)}
        path = Path(folder, f"{name}-{k}.parquet")
        write_table(path, columns | {"y": y, "qid": rows // PER_QUERY})
        paths.append(path)
    return paths


def cpu():
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_bytes():
    """Return the most memory this process has had, in bytes."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split("VmHWM:")[1].split()[0])


def loopback_bytes():
    """Return the bytes that processes of this machine have sent each other so far."""
    line = next(x for x in Path("/proc/net/dev").read_text().splitlines() if "lo:" in x)
    return int(line.split()[9])


def cluster(n_workers, memory_limit=None):
    """Start workers as ``rankwise fit --workers`` does."""
    return client_of(None, n_workers, memory_limit=memory_limit)


def measured(client, task, repeat=3):
    """Return the least wall and CPU seconds (client, scheduler and workers), and the result."""
    walls, cpus, result = [], [], None
    for _ in range(repeat):
        before, start = cpu() + sum(client.run(cpu).values()), time.perf_counter()
        result = task()
        walls.append(time.perf_counter() - start)
        cpus.append(cpu() + sum(client.run(cpu).values()) - before)
    return min(walls), min(cpus), result


def here(task, repeat=3):
    """Return the least wall and CPU seconds of a job in this process, and its result."""
    walls, cpus, result = [], [], None
    for _ in range(repeat):
        before, start = cpu(), time.perf_counter()
        result = task()
        walls.append(time.perf_counter() - start)
        cpus.append(cpu() - before)
    return min(walls), min(cpus), result


def on_workers(n_workers, paths):
    """Return seconds of statistics, of an iteration, and bytes per iteration."""
    with cluster(n_workers) as client:
        fit = DaskRankRLS(client=client).fit_files
        fit(paths[:1], **COLUMNS)  # start the workers
        wall, cpu_s, ranker = measured(client, lambda: fit(paths, **COLUMNS))
        seen = []

        def note(_step):
            seen.append((time.perf_counter(), loopback_bytes()))

        iterative = DaskLinearRankRLS(max_iter=30, tol=1e-15, progress=note, client=client)
        iterative.fit_files(paths[:4], **COLUMNS)
        times, sent = np.diff(np.array(seen), axis=0).T
    return wall, cpu_s, ranker.coef_, float(np.median(times)), float(np.median(sent))


def memory_rows(folder):
    """Yield the peak memory of a worker as files of one size grow in number."""
    for n_parts in (2, 8):
        paths = write_parts(folder, 50_000 * n_parts, n_parts, f"grow{n_parts}")
        with cluster(1) as client:
            DaskRankRLS(client=client).fit_files(paths, **COLUMNS)
            peak = max(client.run(peak_bytes).values()) / 2**20
        yield f"peak memory of a worker, {n_parts} files of 50,000 rows", f"{peak:.0f} MiB"


def big_rows(folder):
    """Yield what 10 million rows cost a worker whose memory is far smaller."""
    paths = write_parts(folder, BIG_ROWS, BIG_PARTS, "big")
    size = sum(path.stat().st_size for path in paths)
    with cluster(1, memory_limit=size // 8) as client:
        wall, cpu_s, _ = measured(
            client, lambda: DaskRankRLS(client=client).fit_files(paths, **COLUMNS), repeat=1
        )
        peak = max(client.run(peak_bytes).values()) / 2**20
    name = f"{BIG_ROWS:,} rows in {BIG_PARTS} files of {size / 2**30:.1f} GiB, 1 worker"
    yield f"{name}, limit of a worker", f"{size / 8 / 2**20:.0f} MiB"
    yield f"{name}, wall and CPU", f"{wall:.1f} s, {cpu_s:.1f} s"
    yield f"{name}, peak memory of the worker", f"{peak:.0f} MiB"


def rows(folder):
    """Yield the rows of the table."""
    paths = write_parts(folder, N_ROWS, N_PARTS)
    (whole,) = write_parts(folder, N_ROWS, 1, "whole")
    LinearRankRLS().fit_file(paths[0], **COLUMNS)
    wall, cpu_s, _ = here(lambda: LinearRankRLS().fit_file(whole, **COLUMNS))
    yield "`fit_file`, one pass over one file: wall and CPU", f"{wall:.2f} s, {cpu_s:.2f} s"
    whole.unlink()
    one, one_cpu, coef, step, sent = on_workers(1, paths)
    two, two_cpu, same, step_two, sent_two = on_workers(2, paths)
    yield "`DaskRankRLS`, 1 worker: wall and CPU of all processes", f"{one:.2f} s, {one_cpu:.2f} s"
    yield "`DaskRankRLS`, 2 workers", f"{two:.2f} s, {two_cpu:.2f} s"
    yield "1 worker against `fit_file`: wall, CPU", f"{one / wall:.2f}, {one_cpu / cpu_s:.2f}"
    yield "efficiency of 2 workers", f"{one / (2 * two):.2f}"
    gap = np.abs(coef - same).max() / np.abs(coef).max()
    yield "largest relative difference of weights, 1 and 2 workers", f"{gap:.1e}"
    yield "an iteration of `DaskLinearRankRLS`, 4 files, 1 worker", f"{1000 * step:.1f} ms"
    yield "an iteration of `DaskLinearRankRLS`, 4 files, 2 workers", f"{1000 * step_two:.1f} ms"
    yield "bytes sent in an iteration, 1 and 2 workers", f"{sent:,.0f}, {sent_two:,.0f}"
    yield (
        "of these, the vectors of the model (one down, one up, each worker)",
        (f"{16 * N_FEATURES:,}, {32 * N_FEATURES:,}"),
    )
    yield from memory_rows(folder)
    if os.environ.get("RANKWISE_BIG"):
        yield from big_rows(folder)


def section():
    """Return the table."""
    head = [
        f"{N_ROWS:,} rows x {N_FEATURES} in {N_PARTS} Parquet files, {PER_QUERY} rows a query, "
        "queries split between files; one thread a process; the least of three runs.",
        "", "| job | |", "|---|---:|",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return "\n".join([*head, *(f"| {name} | {value} |" for name, value in rows(folder))]) + "\n"


if __name__ == "__main__":
    print(section())
