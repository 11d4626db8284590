"""Write src/rankwise/apps/cli/parameters.json: the options of rankers, from their signatures.

Name, rule and default of a parameter come from the signature, help from the first sentence of its
docstring; choices and the parameters of kernels from the rules. A new parameter or kernel needs no
line here.
"""

import inspect
import json
import re
from pathlib import Path

import rankwise
from rankwise.apps.cli.jobs.parameters import GRIDS, kernel_fields
from rankwise.apps.cli.parameters import flag_of
from rankwise.core.params import rules_of
from rankwise.features.kernels import KERNELS

PATH = Path(__file__).parents[2] / "src" / "rankwise" / "apps" / "cli" / "parameters.json"

OWNERS = {
    "fit": [rankwise.AutoRanker],
    "auto": [rankwise.AutoRanker],
    "rls": [rankwise.RankRLS, rankwise.RankRLSCV],
    "greedy": [rankwise.GreedyRankRLS],
    "linear": [rankwise.LinearRankRLS],
    "svm": [rankwise.RankSVM, rankwise.RankSVM.fit_path],
    "kpcrank": [rankwise.KPCRank, rankwise.KPCRankCV],
    "dorm": [rankwise.DORM, rankwise.DORMCV],
    "factorization": [rankwise.RankingFactorization],
    "conditional": [rankwise.ConditionalRankRLS, rankwise.ConditionalRankRLSCV],
    "leave-pair-out": [rankwise.RankRLS],
    "permutation-test": [rankwise.permutation_test],
    "leaderboard": [rankwise.leaderboard],
    "export": [rankwise.export_ranker],
}
"""Whose parameters each command has: a ranker, and the search that chooses for it."""

PANELS = {
    "Choice": (
        "alpha", "alphas", "C", "Cs", "n_components", "max_components", "rule", "new",
        "early_stopping", "n_iter_no_change", "validation_fraction", "cv",
    ),
    "Kernel": ("kernel", "condition_kernel", "item_kernel", "basis"),
    "Preferences": ("cost", "ties", "query_weight"),
    "Iteration": ("tol", "max_iter", "dtype", "checkpoint", "solver", "device"),
}  # fmt: skip
"""Where parameters are shown; others stand with the options that are written by hand."""

BY_HAND = (
    "X", "y", "qid", "sample_weight", "pairs", "pair_margin", "pair_weight", "measure",
    "confidence", "comparisons", "columns", "ranker", "path", "feature_names", "held_out",
    "monotone", "features", "categories", "positive",
)  # fmt: skip
"""What commands read from files, or declare themselves."""

PARTS = {"leave-pair-out": {"alpha": "1.0", "kernel": "linear", "ties": "keep", "device": None}}
"""Commands with some parameters of a ranker, and their defaults."""

OF_PYTHON = ("progress", "warm_start", "roc", "alpha_per_output", "n_functions")
"""Parameters whose effect is for a Python session: what they give is not saved, or not printed."""

SEED, ABOUT_SEED = "0", "Seed of the random numbers: the same command gives the same result."

GRID = " 0.1,1,10 or first:last:number, evenly spaced in logarithms."
METAVARS = {"number": "NUMBER", "integer": "NUMBER", "numbers": "NUMBER,...", "text": "TEXT"}


def table():
    """Return the options of every command."""
    return {
        command: part_of(options_of(owners), PARTS.get(command))
        for command, owners in OWNERS.items()
    }


def part_of(options, defaults):
    """Keep the options that have a default here, and those of their kernels."""
    if defaults is None:
        return options
    kept = {*defaults, *kernel_fields()}
    return [
        option | {"default": defaults.get(option["name"])}
        for option in options
        if option["name"] in kept
    ]


def options_of(owners):
    """Return the options of the parameters of all owners; the first that has one describes it."""
    found = {}
    for owner in owners:
        signature = inspect.signature(owner).parameters
        for name, rule in rules_of(owner).items():
            is_known = name in found or name in BY_HAND or name in OF_PYTHON
            if is_known or not (rule.reads or name in (*GRIDS, "kernel", "random_state")):
                continue
            is_search = owner is not owners[0]
            default = None if is_search else signature[name].default
            found[name] = option_of(name, rule, default, help_text(owner, name))
            if name == "kernel":
                found |= kernel_options()
    return list(found.values())


def option_of(name, rule, default, text):
    """Describe a parameter; a switch has a boolean default and no choices."""
    panel = next((panel for panel, names in PANELS.items() if name in names), None)
    names = list(rule.names)
    if name.endswith("kernel"):
        names = [known for known, kind in KERNELS.items() if kind.is_function]
    metavar = METAVARS.get(rule.reads, "NUMBER")
    if rule.reads == "switch":
        metavar = None
    elif name in GRIDS:
        text, metavar = text.rstrip(".").partition(";")[0] + ":" + GRID, "GRID"
        default = None
    elif names:
        metavar = "|".join(["NUMBER", *names] if rule.reads in ("number", "integer") else names)
    if name == "memory":
        metavar, default = "SIZE", None if default is None else f"{default >> 30}G"
    if name == "random_state":
        default, text = SEED, ABOUT_SEED
    shown = default if default is None or isinstance(default, bool) else str(default)
    return describe(name, text, panel, metavar, names, shown)


def kernel_options():
    """Return the options of kernels that are chosen by name: all their parameters."""
    found = {}
    for name, kernels in kernel_fields().items():
        text = help_text(KERNELS[kernels[0]], name).rstrip(".")
        found[name] = describe(
            name, f"{text} ({', '.join(kernels)}).", "Kernel", "NUMBER", [], None
        )
    return found


def describe(name, text, panel, metavar, names, default):
    return {
        "name": name,
        "help": text,
        "panel": panel,
        "metavar": metavar,
        "names": names,
        "default": default,
    }


def help_text(owner, name):
    """Return the first sentence about a parameter in a numpydoc docstring."""
    doc = inspect.getdoc(owner) or ""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", doc, re.DOTALL)[1]
    entries = re.findall(r"^(\w[\w, ]*)(?: :.*)?\n((?:[ ]+.*\n?|\n)*)", section, re.MULTILINE)
    text = next(text for names, text in entries if name in names.split(", "))
    if found := re.match(r"\s*As in `(\w+)`", text):
        return help_text(getattr(rankwise, found[1]), name)
    return sentence(text, inspect.signature(owner).parameters)


def sentence(text, parameters):
    """Return the first sentence without the marks of reStructuredText; parameters are options."""
    named = "|".join(parameters)
    text = re.sub(rf"(?<!`)`({named})`(?!`)", lambda m: flag_of(m[1]), text)
    plain = re.sub(r":\w+:`([^`]*)`|``?([^`]*)``?", lambda m: m[1] or m[2], " ".join(text.split()))
    plain = plain.replace("\\", "")
    return re.split(r"(?<=[\w|)\"])\.(?:\s|$)", plain)[0].rstrip(".") + "."


def text():
    return json.dumps(table(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
