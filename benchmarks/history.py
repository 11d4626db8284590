"""What was recorded and when: history.csv has one line per row of a table and date.

The slowness of a point is our time over the other's, so that a line that rises got slower, whatever
the machine; in RESULTS.md the words of the bar say which way the ratio is read.
"""

import csv
import datetime
import math
import pathlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

from benchmarks.harness import rows_of

HISTORY = pathlib.Path(__file__).with_name("history.csv")


@dataclass(frozen=True, order=True)
class Point:
    """A row of a table as it was recorded on a day."""

    table: str
    job: str
    against: str
    date: datetime.date
    ours: float
    other: float
    bar: str

    @property
    def slowness(self) -> float:
        """Our time over the other's."""
        return self.ours / self.other

    @property
    def key(self) -> tuple[str, str, str]:
        """What is measured: table, job, and what it is compared with."""
        return self.table, self.job, self.against


COLUMNS = [field.name for field in fields(Point)]


def read(path: pathlib.Path = HISTORY) -> list[Point]:
    """Return all points, of each job from the oldest."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return sorted(_point(line) for line in csv.DictReader(file))


def series(path: pathlib.Path = HISTORY) -> dict[tuple[str, str, str], list[Point]]:
    """Return the points of each job, by table, job and what it is compared with."""
    found = defaultdict(list)
    for point in read(path):
        found[point.key].append(point)
    return dict(found)


def points_of(section: str, date: datetime.date) -> list[Point]:
    """Return the rows of a recorded section that have two times, as of a day."""
    title = section.partition("\n")[0].removeprefix("## ")
    return [
        Point(title, job, against, date, ours, other, bar)
        for job, against, ours, other, bar in rows_of(section)
        if ours > 0 and 0 < other < math.inf
    ]


def record(points: Iterable[Point], path: pathlib.Path = HISTORY) -> None:
    """Add points; one of the same job and day takes the place of the one before."""
    by_day = {(point.key, point.date): point for point in [*read(path), *points]}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(astuple, sorted(by_day.values())))


def _point(line: dict[str, str]) -> Point:
    return Point(
        line["table"],
        line["job"],
        line["against"],
        datetime.date.fromisoformat(line["date"]),
        float(line["ours"]),
        float(line["other"]),
        line["bar"],
    )
