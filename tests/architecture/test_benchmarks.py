"""The speed tables name what got slower."""

import math
import os
from statistics import median

from benchmarks.harness import Row, joined, markdown, one_core, regressions, row_of, spread, timings


def table(**seconds):
    rows = [Row(job, "a peer", "none", s, 2.0, s / 2.0) for job, s in seconds.items()]
    rows.append(Row("the same", "a peer", "none", 1.0, seconds["slow"], seconds["slow"]))
    rows.append(Row("no peer", "none", "none", 1.0, math.nan, math.nan))
    return markdown("Table", rows)


def test_a_job_that_got_slower_beyond_the_spread_is_named():
    before, now = table(steady=1.0, slow=1.0, faster=1.0), table(steady=1.2, slow=2.0, faster=0.5)
    (line,) = regressions(before, now)
    assert line == ("slower by 2.00x: slow, against a peer: 0.5 of the other's time before, now 1")


def test_the_same_job_is_known_by_the_one_above_it():
    lines = regressions(table(fast=1.0, slow=2.0), table(fast=1.0, slow=1.0))
    assert lines == [
        "slower by 2.00x: slow: the same, against a peer: 0.5 of the other's time before, now 1"
    ]


def test_new_jobs_and_missing_tables_are_passed_over():
    assert regressions("", table(slow=1.0)) == []
    assert regressions(table(slow=1.0), table(slow=1.0, another=9.0)) == []


def test_the_spread_of_several_runs_is_told():
    assert spread([1.25, 1.0, 1.5]) == "1.00 to 1.50 in 3 runs"
    assert joined("a note", spread([2.0])) == "a note"


def test_a_ratio_is_the_way_round_that_its_bar_asks_for():
    times = [[1.0, 2.0, 4.0], [4.0, 4.0, 4.0]]
    row = row_of(times, median, "a job", "a peer", "at least 1x faster")
    assert (row.seconds, row.other_seconds, row.ratio) == (2.0, 4.0, 2.0)
    assert row.note == "1.00 to 4.00 in 3 runs"
    row = row_of(times, min, "a job", "a limit", "at most 3x", "a note")
    assert (row.seconds, row.other_seconds, row.ratio) == (1.0, 4.0, 0.25)
    assert row.note == "a note; 0.25 to 1.00 in 3 runs"


def test_jobs_run_in_turn_after_a_warm_up():
    calls = []
    ticks = iter(range(100))
    jobs = [lambda: calls.append("a"), lambda: calls.append("b")]
    times = timings(jobs, repeats=2, clock=lambda: float(next(ticks)))
    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert times == [[1.0, 1.0], [1.0, 1.0]]


def test_one_core_ends_with_its_block(monkeypatch):
    monkeypatch.setenv("RANKWISE_NUM_THREADS", "7")
    with one_core():
        assert os.environ["RANKWISE_NUM_THREADS"] == "1"
    assert os.environ["RANKWISE_NUM_THREADS"] == "7"
    monkeypatch.delenv("RANKWISE_NUM_THREADS")
    with one_core():
        assert os.environ["RANKWISE_NUM_THREADS"] == "1"
    assert "RANKWISE_NUM_THREADS" not in os.environ
