"""Run experiments and write their tables to RESULTS.md: ``python -m experiments [name ...]``.

Without names all experiments are run. A table that is not run keeps what was recorded before. Every
experiment is a module with a function ``section()``, which returns its part of the results.
"""

import datetime
import importlib
import re
import sys
import time

from benchmarks.harness import machine_facts
from experiments.harness import HERE, DataMissingError

EXPERIMENTS = {
    "small_sample_auc": "The AUC of small samples",
    "ohsumed": "OHSUMED, LETOR 2.0 ([PTAB07] Tables 1-3, [PTA09] Table 3)",
    "transductive": "New queries scored together ([PTAB07] Sect. 4)",
    "parse_costs": "Ranking of parses ([PTA09] Table 2, [PTAB07] Table 8)",
    "letor": "LETOR and LambdaMART, five folds",
    "auto": "Rankers that choose by themselves, five folds",
    "search_engine": "A search engine, reranked",
    "training_time": "Training time with a Gaussian kernel ([PTA09] Table 1)",
    "reuters_auc": "AUC from 500 documents ([PTA09] Tables 4-5)",
    "jester_costs": "Costs on joke ratings ([PTA09] Table 6)",
    "irrelevant_pairs": "Irrelevant pairs ([PTA09] Sect. 5.1)",
    "linear_reuters": "Three ways to train linear RankRLS ([APS10] Table 1)",
    "dorm_uci": "Direct optimisation of NDCG ([LS08] Table 1)",
    "dorm_curves": "Measures, training size and decay ([LS08] Figs. 2-7, Table 2)",
    "diversity": "Different sources ([LS08] Sect. 5.1)",
    "collaborative": "Collaborative ranking ([LS08] Tables 3-4)",
    "conditional": "Pairs of objects: new users, new jokes ([APS10] Sect. 5)",
    "kpcrank_noise": "Ranking from noisy scores ([TH10] Table 1)",
    "gp_sinc": "Comparisons of points on a line ([TH10] Sect. 6.2)",
    "gp_comparisons": "Held-out comparisons",
    "ask_questions": "Answers that a ranking needs, questions chosen or at random",
    "arena": "Leaderboards from names alone",
}
PACKAGES = ["rankwise", "numpy", "scipy", "scikit-learn"]
RESULTS = HERE / "RESULTS.md"
OVERVIEW = HERE / "overview.md"
"""What stands before the sections: what is where, and what could not be run."""


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        sys.exit(f"unknown experiments {unknown}; there are {sorted(EXPERIMENTS)}")
    for name in names or EXPERIMENTS:
        try:
            section = _run(name)
        except DataMissingError as missing:
            print(f"Skipped {name}: {missing}.")
            continue
        sections = {**_recorded(), EXPERIMENTS[name]: section}
        ordered = [sections[title] for title in EXPERIMENTS.values() if title in sections]
        RESULTS.write_text("\n".join([OVERVIEW.read_text(), *ordered]))
        print(section, flush=True)


def _run(name: str) -> str:
    module = importlib.import_module(f"experiments.{name}")
    start = time.perf_counter()
    body = module.section()
    minutes = (time.perf_counter() - start) / 60.0
    packages = [*PACKAGES, *getattr(module, "PEERS", [])]
    facts = machine_facts(packages).replace("\n- ", ", ").removeprefix("- ")
    run = f"`{name}`: run on {datetime.date.today()} in {minutes:.1f} min; {facts}."
    return f"## {EXPERIMENTS[name]}\n\n{body.strip()}\n\n{run}\n"


def _recorded() -> dict[str, str]:
    """Return the sections of the results file by title."""
    if not RESULTS.exists():
        return {}
    parts = re.split(r"(?m)^## ", RESULTS.read_text())[1:]
    return {part.splitlines()[0]: "## " + part.rstrip() + "\n" for part in parts}


if __name__ == "__main__":
    main(sys.argv[1:])
