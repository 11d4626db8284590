"""The cost model of ``docs/guide/cluster.rst``, by simulation: a scheduler with measured constants.

``python -m benchmarks cluster_model`` measures on two workers what a partition costs beside its
rows: CPU seconds of the client and of Dask's scheduler, which serve all workers, and of a worker,
as slopes over the number of tiny files. A simulation then lets one scheduler serve many workers,
each of which asks for its next partition when it is done; rows take what "On a cluster" recorded.
The simulation of two workers is compared with two workers that wait for the time that rows take.
"""

# ruff: noqa: E402

import heapq
import os
import tempfile
import time
import warnings
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RANKWISE_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy is loaded, here and in the workers

import dask
import dask.array as da
import numpy as np

from benchmarks.distributed import cluster, cpu, write_parts
from rankwise.apps.distributed import DaskLinearRankRLS, DaskRankRLS

PEERS = ["dask", "distributed", "pyarrow"]
COLUMNS = {"y": "y", "qid": "qid"}
SECONDS_PER_ROW = 3.1e-6
"""What a worker reads and adds up a row in: RESULTS.md, "On a cluster"."""
SECONDS_PER_STEP = 0.19e-6
"""What an iteration of DaskLinearRankRLS takes for a row."""
FEW, MANY = 20, 120
STEPS = 40


def used(client, task):
    """Return CPU seconds of this process, where the scheduler is, and of the workers."""
    workers, here = sum(client.run(cpu).values()), cpu()
    task()
    here = cpu() - here
    return np.array([here, sum(client.run(cpu).values()) - workers])


def cost_of_partitions(client, paths):
    """Return what a file of a few rows costs the scheduler and a worker, in a pass."""

    def fit(n_parts):
        return min(
            (used(client, lambda: DaskRankRLS(client=client).fit_files(paths[:n_parts], **COLUMNS))
             for _ in range(3)),
            key=sum,
        )  # fmt: skip

    fit(2)
    return (fit(MANY) - fit(FEW)) / (MANY - FEW)


def cost_of_steps(client, paths):
    """Return what a partition of a few rows costs the scheduler and a worker, in an iteration."""

    def fit(max_iter):
        ranker = DaskLinearRankRLS(max_iter=max_iter, tol=1e-15, client=client)
        return used(client, lambda: ranker.fit_files(paths[:FEW], **COLUMNS))

    fit(2)
    return (fit(STEPS) - fit(2)) / (STEPS - 2) / FEW


def simulated(n_workers, n_parts, seconds, scheduler, worker):
    """Return the seconds of a pass: a scheduler gives out partitions one at a time."""
    free = [0.0] * n_workers
    clock = 0.0
    for _ in range(n_parts):
        start = heapq.heappop(free)
        clock = max(clock, start) + scheduler
        heapq.heappush(free, clock + worker + seconds)
    return max(free)


def waiting_block(number, seconds):
    """Return a few rows after some time."""
    time.sleep(seconds)
    return np.random.default_rng(number).normal(size=(50, 100))


def measured_wait(client, n_parts, seconds):
    """Return the least wall seconds of DaskRankRLS on partitions that wait."""
    wait, walls = dask.delayed(waiting_block, pure=False), []
    for _ in range(4):
        blocks = [da.from_delayed(wait(k, seconds), (50, 100), float) for k in range(n_parts)]
        X = da.concatenate(blocks)
        y, qid = np.random.default_rng(0).integers(0, 5, len(X)), np.arange(len(X)) // 50
        start = time.perf_counter()
        DaskRankRLS(client=client).fit(X, y, qid=qid)
        walls.append(time.perf_counter() - start)
    return min(walls)


def rows():
    """Yield the rows of both tables, as cells."""
    with tempfile.TemporaryDirectory() as folder, cluster(2) as client:
        paths = write_parts(Path(folder), 50 * MANY, MANY)
        scheduler, worker = cost_of_partitions(client, paths)
        step_scheduler, step_worker = cost_of_steps(client, paths)
        waited = measured_wait(client, 40, 0.25)
    yield "a partition, scheduler and client", f"{1000 * scheduler:.1f} ms"
    yield "a partition, worker", f"{1000 * worker:.1f} ms"
    yield "a partition in an iteration, scheduler and client", f"{1000 * step_scheduler:.2f} ms"
    yield "a partition in an iteration, worker", f"{1000 * step_worker:.2f} ms"
    yield "40 partitions that wait 0.25 s, 2 workers: wall", f"{waited:.2f} s"
    found = simulated(2, 40, 0.25, scheduler, worker)
    yield "the same, simulated", f"{found:.2f} to {found + 40 * scheduler:.2f} s"
    for n_workers, n_parts, n_rows in [
        (2, 100, 10**7), (10, 100, 10**8), (100, 500, 10**9), (100, 1000, 10**9),
        (100, 5000, 10**9), (1000, 5000, 10**10),
    ]:  # fmt: skip
        each = SECONDS_PER_ROW * n_rows / n_parts
        found = simulated(n_workers, n_parts, each, scheduler, worker)
        step = SECONDS_PER_STEP * n_rows / n_workers
        step_found = max(
            n_workers * step_scheduler + step,
            simulated(n_workers, n_workers, step, step_scheduler, step_worker),
        )
        name = f"{n_rows:,} rows, {n_workers} workers, {n_parts:,} partitions"
        ideal = SECONDS_PER_ROW * n_rows / n_workers
        # the scheduler works while workers do, or all of the graph comes first
        last = found + n_parts * scheduler
        yield f"{name}: a pass", f"{ideal:.0f} s of rows, {found:.0f} to {last:.0f} s"
        yield (
            f"{name}: an iteration, one partition a worker",
            f"{step:.1f} s of rows, {step_found:.1f} s",
        )


def section():
    """Return the table."""
    head = [
        "What a partition costs beside its rows, in CPU seconds, and what that makes of many "
        "workers: a scheduler gives out partitions, whose rows take what is recorded above.",
        "", "| | |", "|---|---:|",
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = [f"| {name} | {value} |" for name, value in rows()]
    return "\n".join([*head, *lines]) + "\n"


if __name__ == "__main__":
    print(section())
