"""Time jobs side by side and print the ratios."""

import gc
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import threadpool_limits

QUICK = bool(os.environ.get("RANKWISE_BENCH_QUICK"))
"""Whether every job runs once after its warm-up, and rows are printed as they come."""


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

    def __post_init__(self) -> None:
        if QUICK:
            print(self.line, flush=True)

    @property
    def line(self) -> str:
        """The row in Markdown."""
        return "| " + " | ".join(self.cells) + " |"

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


def timings(
    jobs: Sequence[Callable[[], object]],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """Run the jobs in turn, several times, and return the times of each."""
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()  # warm-up: imports, page faults
    for _ in range(1 if QUICK else repeats):
        for job, record in zip(jobs, times, strict=True):
            gc.collect()
            start = clock()
            job()
            record.append(clock() - start)
    return times


def medians(jobs: Sequence[Callable[[], object]], repeats: int = 5) -> list[float]:
    """Run the jobs in turn, several times, and return the median time of each."""
    return [statistics.median(record) for record in timings(jobs, repeats)]


def spread(ratios: Sequence[float]) -> str:
    """Return the lowest and highest of the ratios of single runs; nothing for one run."""
    if len(ratios) < 2:
        return ""
    return f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} runs"


def joined(*notes: str) -> str:
    """Return the notes that say something, as one."""
    return "; ".join(filter(None, notes))


def cpu_ratio(
    job: str, ours: Callable, against: str, other: Callable, bar: str, note: str = "",
    repeats: int = 3,
) -> Row:  # fmt: skip
    """Compare least CPU times: the ratio is ours over the other, with that of each run.

    They count the time of all threads, and hardly change on a busy machine.
    """
    times = timings([ours, other], repeats, time.process_time)
    return row_of(times, min, job, against, bar, note)


@contextmanager
def one_core() -> Iterator[None]:
    """Let both sides use one thread; rows that are cut into parts must be made inside."""
    before = os.environ.get("RANKWISE_NUM_THREADS")
    os.environ["RANKWISE_NUM_THREADS"] = "1"
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is None:
            del os.environ["RANKWISE_NUM_THREADS"]
        else:
            os.environ["RANKWISE_NUM_THREADS"] = before


def faster(
    job: str, ours: Callable, against: str, theirs: Callable, bar: float, repeats: int = 5,
    note: str = "",
) -> Row:  # fmt: skip
    """Compare with a peer: the ratio says how many times faster we are."""
    times = timings([ours, theirs], repeats)
    return row_of(times, statistics.median, job, against, f"at least {bar:g}x faster", note)


def within(
    job: str, ours: Callable, against: str, limit: Callable, bar: float, repeats: int = 5,
    note: str = "",
) -> Row:  # fmt: skip
    """Compare with a limit: the ratio says how many times the limit we take."""
    times = timings([ours, limit], repeats)
    return row_of(times, statistics.median, job, against, f"at most {bar:g}x", note)


def row_of(
    times: Sequence[Sequence[float]], typical: Callable[[Sequence[float]], float],
    job: str, against: str, bar: str, note: str = "",
) -> Row:  # fmt: skip
    """Return the row of two jobs that ran in turn, ours first, with the ratio of each run.

    The ratio is how many times faster we are where the bar asks for that, and else how many times
    the other's time we take.
    """
    ours, other = times
    upper, lower = (other, ours) if bar.endswith("faster") else (ours, other)
    note = joined(note, spread([x / y for x, y in zip(upper, lower, strict=True)]))
    ratio = typical(upper) / typical(lower)
    return Row(job, against, bar, typical(ours), typical(other), ratio, note)


def markdown(title: str, rows: Sequence[Row]) -> str:
    """Return a table as Markdown."""
    lines = [f"## {title}", "", "| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += [row.line for row in rows]
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
    return {
        (job, against): ours / other
        for job, against, ours, other, _ in rows_of(table)
        if ours > 0 and other > 0
    }


def rows_of(table: str) -> Iterator[tuple[str, str, float, float, str]]:
    """Yield job, what it is compared with, our time, the other's and the bar of each row.

    A job that says "the same" is named after the one that it is the same as. A time that is not
    there is NaN.
    """
    named = ""
    for line in table.splitlines():
        cells = dict(zip(HEADER, (c.strip() for c in line.strip("|").split("|")), strict=False))
        ours, other = (_as_number(cells.get(f"{who} (s)", "")) for who in ("ours", "other"))
        if math.isnan(ours):
            continue
        job = cells["job"]
        is_same = job.startswith("the same")
        named = named if is_same else job
        yield f"{named}: {job}" if is_same else job, cells["against"], ours, other, cells["bar"]


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
