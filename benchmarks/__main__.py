"""Run speed tables and write them to RESULTS.md: ``python -m benchmarks [name ...]``.

Without names all tables are run. Tables that are not run keep what was recorded before.
"""

import datetime
import importlib
import pathlib
import re
import sys

from benchmarks.harness import machine_facts, markdown

TABLES = {
    "rankrls": "RankRLS in closed form",
    "holdouts": "Hold-outs in closed form",
    "linear": "Large-scale linear RankRLS",
    "kpcrank": "Kernel principal component ranking",
    "gp": "Preference Gaussian processes",
    "dorm_oracles": "Oracles of direct optimisation",
    "dorm_training": "Training by direct optimisation",
    "measures": "Measures",
    "io": "Files",
}
PACKAGES = ["numpy", "scipy", "scikit-learn", "numba"]
RESULTS = pathlib.Path(__file__).with_name("RESULTS.md")
HEAD = """# Speed, as ratios measured in one run

Every ratio compares two jobs that ran in turn on one machine; medians of several runs. "ours" and
"other" are seconds unless the job says otherwise. Regenerate with `make bench`, or one table with
`.venv/bin/python -m benchmarks NAME`.
"""


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(TABLES))
    if unknown:
        sys.exit(f"unknown tables {unknown}; there are {sorted(TABLES)}")
    sections = _recorded()
    for name in names or TABLES:
        rows = importlib.import_module(f"benchmarks.{name}").table()
        facts = f"Run on {datetime.date.today()}.\n\n{machine_facts(PACKAGES)}\n"
        sections[TABLES[name]] = markdown(TABLES[name], rows) + "\n" + facts
        ordered = [sections[title] for title in TABLES.values() if title in sections]
        RESULTS.write_text("\n".join([HEAD, *ordered]))
        print(sections[TABLES[name]])


def _recorded() -> dict[str, str]:
    """Return the sections of the results file by title."""
    if not RESULTS.exists():
        return {}
    parts = re.split(r"(?m)^## ", RESULTS.read_text())[1:]
    return {part.splitlines()[0]: "## " + part.rstrip() + "\n" for part in parts}


if __name__ == "__main__":
    main(sys.argv[1:])
