"""Run experiments and write their tables to RESULTS.md: ``python -m experiments [name ...]``.

Without names all experiments are run. A table that is not run keeps what was recorded before. Every
experiment is a module with a function ``section()``, which returns its part of the results. With
``--quick`` they run on small sizes and record nothing, to see that everything works.
"""

import datetime
import importlib
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.harness import machine_facts
from experiments.harness import HERE, DataMissingError, progress

EXPERIMENTS = {
    "small_sample_auc": "The AUC of small samples",
    "ohsumed": "OHSUMED, LETOR 2.0 ([PTAB07] Tables 1-3, [PTA09] Table 3)",
    "transductive": "New queries scored together ([PTAB07] Sect. 4)",
    "parse_costs": "Ranking of parses ([PTA09] Table 2, [PTAB07] Table 8)",
    "letor": "LETOR and LambdaMART, five folds",
    "auto": "Rankers that choose by themselves, five folds",
    "auto_weights": "How a ranker that chooses by itself weighs what it tried",
    "auto_large": "A ranker that chooses by itself on large tables",
    "auto_honest": "Whether the honest value is that of new queries",
    "search_engine": "A search engine, reranked",
    "training_time": "Training time with a Gaussian kernel ([PTA09] Table 1)",
    "reuters_auc": "AUC from 500 documents ([PTA09] Tables 4-5)",
    "jester_costs": "Costs on joke ratings ([PTA09] Table 6)",
    "irrelevant_pairs": "Irrelevant pairs ([PTA09] Sect. 5.1)",
    "linear_reuters": "Three ways to train linear RankRLS ([APS10] Table 1)",
    "linear_parses": "Three ways to train on parses ([APS10] Table 1)",
    "dorm_uci": "Direct optimisation of NDCG ([LS08] Table 1)",
    "dorm_curves": "Measures, training size and decay ([LS08] Figs. 2-7, Table 2)",
    "diversity": "Different sources ([LS08] Sect. 5.1)",
    "collaborative": "Collaborative ranking ([LS08] Tables 3-4)",
    "conditional": "Pairs of objects: new users, new jokes ([APS10] Sect. 5)",
    "collaborative_kernels": "DORM with product kernels on ratings ([LS08] Tables 3-4)",
    "kpcrank_noise": "Ranking from noisy scores ([TH10] Table 1)",
    "kpcrank_letor": "Ranking from noisy grades of LETOR",
    "gp_sinc": "Comparisons of points on a line ([TH10] Sect. 6.2)",
    "gp_coverage": "Intervals of the process: judges, drift, effects",
    "tastes": "Own orders of persons, or a common one",
    "gp_comparisons": "Held-out comparisons",
    "comparison_peers": "Comparisons against peers",
    "interactions": "Battles decided by a rule: features that interact",
    "ask_questions": "Answers that a ranking needs, questions chosen or at random",
    "question_strategies": "Accuracy and log-loss while questions are chosen",
    "arena": "Leaderboards from names alone",
    "board_coverage": "Intervals of leaderboards, and leaders who are the best",
    "arena_trials": "Leaderboards tried: decay, careless judges, peers",
    "audit": "Planted defects of leaderboards, and the probes that fire",
    "time_ordered": "Football through time, season by season",
}
QUICK: dict[str, dict[str, object]] = {
    "small_sample_auc": {"N_SAMPLES": 2},
    "transductive": {"SETS": {"MQ2008": "MQ2008"}, "N_KNOWN": (5,), "N_REPEATS": 2},
    "parse_costs": {"N_DRAWS": 2},
    "letor": {"SETS": ("LightGBM_rank",), "N_FOLDS": 1},
    "auto": {"SETS": ["MQ2008"], "KEPT": {"MQ2008": 6}, "N_FOLDS": 1},
    "auto_weights": {"LETOR": ["LightGBM_rank"], "REGRESSION": [], "N_DRAWN": 0, "N_FOLDS": 1},
    "auto_large": {"SIZES": (5000,), "N_TEST": 1000},
    "auto_honest": {"N_FITS": 2, "SIZES": (20,), "N_TEST": 100},
    "search_engine": {"N_QUERIES": 200},
    "training_time": {"PAPER": {200: (1, 2)}},
    "reuters_auc": {
        "N_DRAWS": 2,
        "N_FOLDS": 2,
        "ALPHAS": np.array([0.1, 1.0]),
        "CS": np.array([8.0, 64.0]),
    },
    "jester_costs": {"N_USERS": 5},
    "tastes": {"SIZES": ((20, 10),)},
    "linear_reuters": {"N_PAIRS": 20_000, "ALPHAS": np.array([1.0])},
    "dorm_uci": {"N_TEST": 50, "SETS": ("PageBlocks",), "N_REPEATS": {"PageBlocks": 2}},
    "collaborative": {
        "NUMBERS": (10,),
        "N_SPLITS": 2,
        "N_USERS": 120,
        "CS": (0.4,),
        "PAPER": {10: ()},
    },
    "conditional": {
        "N_SPLITS": 2,
        "N_USERS": 100,
        "ALPHAS": np.array([1.0, 16.0]),
        "WIDTHS": (1.0,),
        "CS": (0.25,),
    },
    "kpcrank_noise": {"NOISE": (0.0, 0.5)},
    "gp_sinc": {"N_SEEDS": 2},
    "gp_coverage": {"N_WORLDS": 2, "N_EFFECTS": 2},
    "gp_comparisons": {"SETS": ("pyrim",), "N_SEEDS": 2},
    "comparison_peers": {"SETS": ("machine.cpu",), "N_SEEDS": 2, "N_WORLDS": 2, "N_TEST": 200},
    "interactions": {"SIZES": (300,), "N_WORLDS": (1,), "N_FIGHTERS": 100, "N_TEST": 200},
    "ask_questions": {"N_ITEMS": 10, "MAX_ANSWERS": 20, "N_SEEDS": 2},
    "question_strategies": {
        "N_SEEDS": 2,
        "CHECKPOINTS": (10, 20),
        "N_TEST": 200,
        "N_STOPPED": 2,
        "MOST_ASKED": 20,
        "N_SORTED": 2,
        "MOST_SORTED": 20,
    },
    "arena": {"N_WORLDS": 2, "N_COVERED": 2},
    "board_coverage": {"N_WORLDS": 2},
    "arena_trials": {"N_WORLDS": 2, "N_LATER": 2},
    "audit": {"N_WORLDS": 2, "N_ROWS": 1000},
    "time_ordered": {"N_TEAMS": 8, "N_YEARS": 3, "SEASONS": (2019,)},
}
"""Small sizes: constants of the modules and their values under ``--quick``."""

PACKAGES = ["rankwise", "numpy", "scipy", "scikit-learn"]
RESULTS = HERE / "RESULTS.md"
README = HERE / "README.md"
OVERVIEW = HERE / "overview.md"
"""What stands before the sections: what is where, and what could not be run."""


def main(names: list[str]) -> None:
    """Run the experiments named, or all of them; those that fail are told at the end."""
    is_quick = "--quick" in names
    names = [name for name in names if name != "--quick"]
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        sys.exit(f"unknown experiments {unknown}; there are {sorted(EXPERIMENTS)}")
    chosen, start, failed = names or list(EXPERIMENTS), time.perf_counter(), []
    for number, name in enumerate(chosen, 1):
        begun = time.perf_counter()
        progress(f"[{number} of {len(chosen)}] {name}")
        try:
            section = _run_quickly(name) if is_quick else _run(name)
        except DataMissingError as missing:
            print(f"Skipped {name}: {missing}.")
            continue
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        if not is_quick:
            record(name, section)
        print(section, flush=True)
        progress(f"{name}: done in {time.perf_counter() - begun:.0f} s")
    progress(f"{len(chosen)} experiments in {(time.perf_counter() - start) / 60.0:.1f} min")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def record(name: str, section: str) -> None:
    """Put a section in its place in the results, and the total time into the README."""
    sections = {**_recorded(), EXPERIMENTS[name]: section}
    ordered = [sections[title] for title in EXPERIMENTS.values() if title in sections]
    RESULTS.write_text("\n".join([OVERVIEW.read_text(), *ordered]))
    README.write_text(with_total(README.read_text(), RESULTS.read_text()))


def with_total(readme: str, results: str) -> str:
    """Return the README with the sum of the times that the results tell of."""
    minutes = [float(found) for found in re.findall(r"run on [-\d]+ in ([\d.]+) min", results)]
    total = f"{sum(minutes):.0f} minutes for the {len(minutes)} that have their time recorded"
    return re.sub(r"(?<=All experiments together: ).*?(?=\.\n)", total, readme)


def _run(name: str) -> str:
    module = importlib.import_module(f"experiments.{name}")
    start = time.perf_counter()
    body = module.section()
    minutes = (time.perf_counter() - start) / 60.0
    packages = [*PACKAGES, *getattr(module, "PEERS", [])]
    facts = machine_facts(packages).replace("\n- ", ", ").removeprefix("- ")
    run = f"`{name}`: run on {datetime.date.today()} in {minutes:.1f} min; {facts}."
    return f"## {EXPERIMENTS[name]}\n\n{body.strip()}\n\n{run}\n"


def _run_quickly(name: str) -> str:
    """Run on small sizes; figures go to a folder that is removed."""
    os.environ["RANKWISE_QUICK"] = "1"
    module = importlib.import_module(f"experiments.{name}")
    with tempfile.TemporaryDirectory() as folder:
        _set(module, {**QUICK.get(name, {}), "HERE": Path(folder)})
        return str(module.section())


def _set(module: ModuleType, constants: dict[str, object]) -> None:
    for name, value in constants.items():
        if name in vars(module):
            setattr(module, name, value)


def _recorded() -> dict[str, str]:
    """Return the sections of the results file by title."""
    if not RESULTS.exists():
        return {}
    parts = re.split(r"(?m)^## ", RESULTS.read_text())[1:]
    return {part.splitlines()[0]: "## " + part.rstrip() + "\n" for part in parts}


if __name__ == "__main__":
    main(sys.argv[1:])
