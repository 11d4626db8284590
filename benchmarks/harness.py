"""Time jobs side by side and print the ratios."""

import gc
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class Row:
    """One line of a table: a job, what it is compared with, and the ratio of their times."""

    job: str
    against: str
    bar: str
    seconds: float
    other_seconds: float
    ratio: float
    note: str = ""

    @property
    def cells(self) -> list[str]:
        """The cells of a Markdown row."""
        times = [_number(self.seconds, ".4g"), _number(self.other_seconds, ".4g")]
        return [
            self.job,
            self.against,
            *times,
            _number(self.ratio, ".2f", "x"),
            self.bar,
            self.note,
        ]


def _number(value: float, form: str, unit: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{form}}{unit}"


HEADER = ["job", "against", "ours (s)", "other (s)", "ratio", "bar", "note"]


def medians(jobs: Sequence[Callable[[], object]], repeats: int = 5) -> list[float]:
    """Run the jobs in turn, several times, and return the median time of each."""
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()  # warm-up: compilation, page faults
    for _ in range(repeats):
        for job, record in zip(jobs, times, strict=True):
            gc.collect()
            start = time.perf_counter()
            job()
            record.append(time.perf_counter() - start)
    return [statistics.median(record) for record in times]


def cpu_minima(jobs: Sequence[Callable[[], object]], repeats: int = 5) -> list[float]:
    """Run the jobs in turn, several times, and return the least CPU time of each.

    It counts the time of all threads, and hardly changes on a busy machine.
    """
    least = [math.inf] * len(jobs)
    for job in jobs:
        job()  # warm-up: compilation, page faults
    for _ in range(repeats):
        for k, job in enumerate(jobs):
            gc.collect()
            start = time.process_time()
            job()
            least[k] = min(least[k], time.process_time() - start)
    return least


def faster(
    job: str, ours: Callable, against: str, theirs: Callable, bar: float, repeats: int = 5
) -> Row:
    """Compare with a peer: the ratio says how many times faster we are."""
    a, b = medians([ours, theirs], repeats)
    return Row(job, against, f"at least {bar:g}x faster", a, b, b / a)


def within(
    job: str, ours: Callable, against: str, limit: Callable, bar: float, repeats: int = 5
) -> Row:
    """Compare with a limit: the ratio says how many times the limit we take."""
    a, b = medians([ours, limit], repeats)
    return Row(job, against, f"at most {bar:g}x", a, b, a / b)


def markdown(title: str, rows: Sequence[Row]) -> str:
    """Return a table as Markdown."""
    lines = [f"## {title}", "", "| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(row.cells) + " |" for row in rows]
    return "\n".join(lines) + "\n"


SPREAD = 1.25
"""Ratios of one job on one machine differ by up to this factor from run to run."""


def regressions(recorded: str, new: str) -> list[str]:
    """Name the jobs that got slower by more than the spread, given two tables as Markdown.

    A job is as slow as the time it takes in that of what it is compared with. Jobs that are new
    are passed over.
    """
    before, lines = _slowness(recorded), []
    for job, slowness in _slowness(new).items():
        slower = slowness / before.get(job, slowness)
        if slower > SPREAD:
            times = f"{before[job]:.3g} of the other's time before, now {slowness:.3g}"
            lines.append(f"slower by {slower:.2f}x: {job[0]}, against {job[1]}: {times}")
    return lines


def _slowness(table: str) -> dict[tuple[str, str], float]:
    """Return our time over the other by job and what it is compared with."""
    found: dict[tuple[str, str], float] = {}
    named = ""
    for line in table.splitlines():
        cells = dict(zip(HEADER, (c.strip() for c in line.strip("|").split("|")), strict=False))
        ours, other = (_as_number(cells.get(f"{who} (s)", "")) for who in ("ours", "other"))
        if ours > 0 and other > 0:
            job = cells["job"]
            is_same = job.startswith("the same")
            named = named if is_same else job
            found[f"{named}: {job}" if is_same else job, cells["against"]] = ours / other
    return found


def _as_number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def machine_facts(packages: Sequence[str]) -> str:
    """Return the machine and the versions, one line each."""
    lines = [f"- {platform.machine()}, {_cpu()}, Python {platform.python_version()}"]
    for name in packages:
        try:
            lines.append(f"- {name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"- {name} not installed")
    return "\n".join(lines)


def peak_megabytes() -> float:
    """Return the most memory this process has held; that of its parent does not count."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        model = platform.processor()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory"
