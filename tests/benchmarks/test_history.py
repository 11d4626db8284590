"""The history of the speed tables: what is recorded is read back, one line per row and day."""

import datetime
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DAY = datetime.date(2026, 11, 1)
SECTION = """## Files

| job | against | ours (s) | other (s) | ratio | bar | note |
|---|---|---|---|---|---|---|
| read "a, b" | polars | 0.5 | 1 | 2.00x | at least 1x faster | 1.9 to 2.1 in 2 runs |
| the same | one read | 0.5 | 0.25 | 2.00x | report |  |
| read | choix | 0.5 | - | - | faster | not installed |

Run on 2026-11-01, in 1 s.
"""


@pytest.fixture
def history(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.history")


def test_rows_with_two_times_are_read_back(history, tmp_path):
    path = tmp_path / "history.csv"
    points = history.points_of(SECTION, DAY)
    history.record(points, path)
    assert history.read(path) == sorted(points)
    found = {(p.table, p.job, p.against): p.slowness for p in points}
    same = 'read "a, b": the same'
    assert found == {("Files", 'read "a, b"', "polars"): 0.5, ("Files", same, "one read"): 2.0}


def test_a_day_has_one_point_of_a_job(history, tmp_path):
    path = tmp_path / "history.csv"
    faster = SECTION.replace("| 0.5 | 1 |", "| 0.1 | 1 |")
    history.record(history.points_of(SECTION, DAY), path)
    history.record(history.points_of(faster, DAY), path)
    history.record(history.points_of(faster, DAY - datetime.timedelta(1)), path)
    series = history.series(path)
    key = ("Files", 'read "a, b"', "polars")
    yesterday = DAY - datetime.timedelta(1)
    assert [(p.date, p.slowness) for p in series[key]] == [(yesterday, 0.1), (DAY, 0.1)]


def test_the_committed_history_holds_the_recorded_tables(history):
    recorded = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    _, *sections = recorded.split("\n## ")
    for title in ("Files", "Measures"):
        (section,) = (s for s in sections if s.startswith(f"{title}\n"))
        day = datetime.date.fromisoformat(section.partition("Run on ")[2][:10])
        points = history.points_of(f"## {section}", day)
        assert points
        assert set(points) <= set(history.read())
