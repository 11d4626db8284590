"""Run speed tables and write them to RESULTS.md: ``python -m benchmarks [--quick] [name ...]``.

Without names all tables are run. Tables that are not run keep what was recorded before. With
``--quick`` every job runs once, large data are a fiftieth, a table is cut after a minute, and
nothing is recorded: all of it ends in about twenty minutes. After each table the jobs whose ratio
got worse than the one recorded before are named; the exit status stays 0, since a busy machine is
no mistake. A module has a function ``table()``, which returns rows of ratios, also added to
history.csv, or, where it is listed in ``SECTIONS``, a function ``section()``, which returns its
part of the results as it stands.
"""

import datetime
import importlib
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

from benchmarks import history
from benchmarks.harness import machine_facts, markdown, regressions

TABLES = {
    "rankrls": "RankRLS in closed form",
    "holdouts": "Hold-outs in closed form",
    "linear": "Large-scale linear RankRLS",
    "linear_grid": "Grids of alphas for large-scale linear RankRLS",
    "ranksvm": "Large-margin ranking",
    "text": "Large-margin ranking of text by topics",
    "kpcrank": "Kernel principal component ranking",
    "gp": "Preference Gaussian processes",
    "arena": "Leaderboards from names alone",
    "dorm_oracles": "Oracles of direct optimisation",
    "dorm_training": "Training by direct optimisation",
    "recommendation": "Recommendation, in CPU seconds of one core",
    "measures": "Measures",
    "whole_calls": "Whole calls, in CPU seconds",
    "start": "What a fresh process pays, in CPU seconds",
    "transformers": "Features inside queries, in CPU seconds",
    "io": "Files",
    "ask": "Asking in a browser",
    "serve": "Serving",
    "growth": "Growth with size",
    "distributed": "On a cluster",
    "cluster_model": "Many workers, simulated",
    "gpu": "On a GPU",
    "kernel_iterations": "Kernel problems without their matrix",
}
SECTIONS = {"growth", "serve", "distributed", "cluster_model", "gpu", "kernel_iterations"}
PACKAGES = ["numpy", "scipy", "scikit-learn"]
RESULTS = pathlib.Path(__file__).with_name("RESULTS.md")
HEAD = """# Speed, as ratios measured in one run

Every ratio compares two jobs that ran in turn on one machine; medians of several runs, with the
lowest and highest ratio of single runs in the note. "ours" and "other" are seconds unless the job
says otherwise. Regenerate with `make bench`, or one table with
`.venv/bin/python -m benchmarks NAME`; `make bench-quick` tries every table for a minute and records
nothing.
"""


QUICK_SECONDS = 60
"""What a table may take with ``--quick``."""

QUICK_SIZE = "0.02"
"""The share of large data that is used with ``--quick``."""


def main(arguments: list[str]) -> None:
    quick = "--quick" in arguments
    names = [name for name in arguments if name != "--quick"]
    unknown = sorted(set(names) - set(TABLES))
    if unknown:
        sys.exit(f"unknown tables {unknown}; there are {sorted(TABLES)}")
    for name in names or [name for name in TABLES if _can_run(name)]:
        if quick:
            _run_quickly(name)
            continue
        section, before = _run(name), _recorded()
        sections = {**before, TABLES[name]: section}
        ordered = [sections[title] for title in TABLES.values() if title in sections]
        RESULTS.write_text("\n".join([HEAD, *ordered]))
        print(section)
        if name not in SECTIONS:
            history.record(history.points_of(section, datetime.date.today()))
            for line in regressions(before.get(TABLES[name], ""), section):
                print(line)


def _run_quickly(name: str) -> None:
    """Print a table, as far as it comes in a minute, and what got slower; record nothing."""
    code = f"import benchmarks.__main__ as m; print(m._run({name!r}))"
    environment = os.environ | {"RANKWISE_BENCH_QUICK": "1", "RANKWISE_BENCH_SIZE": QUICK_SIZE}
    print(f"## {TABLES[name]}", flush=True)
    lines: list[str] = []
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    timer = threading.Timer(QUICK_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("## "):
            break  # the same rows again, as one table
        lines.append(line)
        print(line, end="", flush=True)
    process.stdout.read()
    process.wait()
    if not timer.is_alive():
        print(f"cut after {QUICK_SECONDS} s")
    timer.cancel()
    if name not in SECTIONS:
        for line in regressions(_recorded().get(TABLES[name], ""), "".join(lines)):
            print(line)


def _can_run(name: str) -> bool:
    """Tell whether this machine has what a table needs; the others keep what was recorded."""
    if name != "gpu":
        return True
    found = importlib.util.find_spec("torch") is not None
    return found and importlib.import_module("benchmarks.gpu").available()


def _run(name: str) -> str:
    start = time.perf_counter()
    module = importlib.import_module(f"benchmarks.{name}")
    title = TABLES[name]
    body = (
        f"## {title}\n\n{module.section()}" if name in SECTIONS else markdown(title, module.table())
    )
    facts = machine_facts([*PACKAGES, *getattr(module, "PEERS", [])])
    seconds = time.perf_counter() - start
    return f"{body}\nRun on {datetime.date.today()}, in {seconds:.0f} s.\n\n{facts}\n"


def _recorded() -> dict[str, str]:
    """Return the sections of the results file by title."""
    if not RESULTS.exists():
        return {}
    parts = re.split(r"(?m)^## ", RESULTS.read_text())[1:]
    return {part.splitlines()[0]: "## " + part.rstrip() + "\n" for part in parts}


if __name__ == "__main__":
    main(sys.argv[1:])
