"""Sphinx configuration; the API pages are written from ``rankwise.__all__`` before each build."""

import inspect
import pkgutil
import re
import sys
import tomllib
from importlib import import_module
from itertools import groupby
from pathlib import Path

import rankwise

sys.path.insert(0, str(Path(__file__).parent))

project = "rankwise"
author = "The rankwise developers"
copyright = "2026, The rankwise developers"
version = release = rankwise.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "myst_parser",
    "numpydoc",
    "pictures",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}
html_math_renderer = "mathml"
html_sidebars = {
    name: []
    for name in (
        "install",
        "coming-from",
        "references",
        "glossary",
        "changelog",
        "recorded/*",
        "results",
        "right",
    )
}
html_static_path = ["_static"]
html_css_files = ["style.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["myst.header"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
default_role = None
language = "en_GB"
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True  # alphas=ALPHAS, not the 31 numbers
python_maximum_signature_line_length = 88  # longer ones have a parameter a line
autosummary_generate = False
numpydoc_show_class_members = False
math_numfig = False
math_eqref_format = "({number})"

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
ADDRESSES = PROJECT.get("urls", {})

html_baseurl = ADDRESSES.get("Documentation", "")
html_theme = "pydata_sphinx_theme"
html_title = f"rankwise {release}"
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "icon_links": [
        {"name": name, "url": url, "icon": "fa-solid fa-code"}
        for name, url in ADDRESSES.items()
        if name == "Source"
    ],
}

GENERATED = Path(__file__).parent / "api" / "generated"
TASKS = {
    "Learn a ranking": "Fit scores with ``qid``, or ``pairs``; then predict, rank, score, save.",
    "Rank from comparisons": "Who beat whom: names alone, or items with features.",
    "Judge": "Values of all queries at once, and whether a difference is luck.",
    "Measures": "Values such as ``NDCG @ 10``, which can also be given as text.",
    "Small samples": "Every pair left out in turn.",
    "Choose settings": "Folds that keep queries whole, paths of settings, scorers.",
    "Prepare data": "Queries, features inside queries, clicks.",
    "Explain and report": "Why an item is where it is, and a page to share.",
    "Ship": "Saved models, other engines, a server.",
    "Files": "All of these are read by ``rankwise`` on the command line too.",
    "Kernels": "What two rows have in common; any function of two rows will do.",
    "Graphs, solutions and certificates": "What is compared, and how close to the optimum.",
    "Data sets": "They ship with the package.",
    "Clusters": "The same rankers on Dask, with the extra ``distributed``.",
    "Errors and warnings": "They say what must hold, what was got, and what to do.",
}
"""What people come for, and a sentence about it."""

TASK_OF_PACKAGE = {
    "automatic": "Learn a ranking",
    "rankers": "Learn a ranking",
    "comparisons": "Rank from comparisons",
    "measures": "Judge",
    "selection": "Choose settings",
    "transformers": "Prepare data",
    "apps.report": "Explain and report",
    "apps.export": "Ship",
    "apps.serve": "Ship",
    "io": "Files",
    "features": "Kernels",
    "graph": "Graphs, solutions and certificates",
    "solve": "Graphs, solutions and certificates",
    "core": "Prepare data",
    "datasets": "Data sets",
    "apps.distributed": "Clusters",
}
TASK_OF_NAME = {
    **dict.fromkeys(
        [
            "ComparisonTable",
            "ChoiceTable",
            "PairCalibration",
            "evaluate_answers",
            "AnswerEvaluation",
        ],
        "Rank from comparisons",
    ),
    **dict.fromkeys(
        [
            "leave_pair_out",
            "permutation_test",
            "PairEstimate",
            "PairDifference",
            "PermutationTest",
            "TournamentROC",
        ],
        "Small samples",
    ),
    **dict.fromkeys(["make_ranking_scorer", "QueryKFold", "RankerPath"], "Choose settings"),
    **dict.fromkeys(
        [
            "explain",
            "feature_importance",
            "Explanation",
            "FeatureImportance",
            "as_regressor",
            "RankerRegressor",
        ],
        "Explain and report",
    ),
    "load": "Ship",
}
"""Names whose task is not that of their package."""


def task_of(package, name, value):
    """Return what people use a public object for."""
    if inspect.isclass(value) and issubclass(value, (Exception, Warning)):
        return "Errors and warnings"
    if isinstance(value, rankwise.Measure):
        return "Measures"
    return TASK_OF_NAME.get(name.rpartition(".")[2]) or TASK_OF_PACKAGE[package]


def public_modules():
    """Yield the modules that name their public objects: rankwise first, then its packages."""
    yield rankwise
    for package in pkgutil.walk_packages(rankwise.__path__, "rankwise."):
        if not package.ispkg:
            continue
        module = import_module(package.name)
        if "__all__" in vars(module):
            yield module


def package_of(module):
    """Return the package of a module below rankwise; applications are packages of their own."""
    first, second = module.split(".")[1:3]
    return f"{first}.{second}" if first == "apps" else first


def public_names():
    """Return (task, full name, object) of every public object, in the order of ``TASKS``."""
    found = {}
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if not name.startswith("__") and value not in found.values():
                found[f"{module.__name__}.{name}"] = value
    entries = [
        (task_of(package_of(value.__module__), name, value), name, value)
        for name, value in found.items()
    ]
    return sorted(entries, key=lambda entry: (list(TASKS).index(entry[0]), entry[1]))


def is_ours(member):
    """Tell whether rankwise itself, and not a base class from elsewhere, documents a member."""
    function = getattr(member, "fget", None) or getattr(member, "func", member)
    home = str(getattr(function, "__module__", ""))
    return home.startswith("rankwise") and bool(inspect.getdoc(member))


def page(name, value):
    """Write the page of one public object."""
    title = name.removeprefix("rankwise.")
    lines = [title, "=" * len(title), ""]
    if inspect.isclass(value):
        public = [(n, m) for n, m in inspect.getmembers(value) if not n.startswith("_")]
        members = ", ".join(n for n, member in public if is_ours(member))
        lines += [f".. autoclass:: {name}"] + ([f"   :members: {members}"] if members else [])
    else:
        kind = "autofunction" if inspect.isroutine(value) else "autodata"
        lines += [f".. {kind}:: {name}"]
    return "\n".join(lines) + "\n"


FIRST = {
    "AutoRanker": "a ranker for queries of graded items, and what to expect of it",
    "SearchRanker": "the same within seconds",
    "RankRLS": "least squares in closed form, linear or with a kernel",
    "RankRLSCV": "the same, with settings chosen by exact hold-outs",
    "leaderboard": "ranks of names from who beat whom",
    "PreferenceGP": "ranks of items with features, and what to ask next",
    "RankingFactorization": "recommendations from ratings",
    "evaluate": "measures of all queries at once",
    "leave_pair_out": "an AUC that holds for a few dozen samples",
    "paired_test": "is one ranker better than another?",
    "explain": "why one item is above another",
    "make_report": "a page to share",
    "load": "a saved ranker",
}
"""The names that most people need, and for what."""


def kind_of(value):
    """Return the rubric of a public object: what fits, what is called, what is returned."""
    if not inspect.isclass(value):
        return "Functions"
    return "Estimators" if hasattr(value, "fit") else "Values and results"


def table(entries):
    """Write the table of all public names: the most needed first, then each task."""
    lines = ["Where to begin", "--------------", "", ".. list-table::", "   :widths: 34 66", ""]
    for name, purpose in FIRST.items():
        role = "class" if inspect.isclass(getattr(rankwise, name)) else "func"
        lines += [f"   * - :{role}:`~rankwise.{name}`", f"     - {purpose}"]
    lines += [""]
    for title, group in groupby(entries, key=lambda entry: entry[0]):
        members = list(group)
        lines += [title, "-" * len(title), "", TASKS[title], ""]
        kinds = ["Estimators", "Functions", "Values and results"]
        found = {
            kind: [name for _, name, value in members if kind_of(value) == kind] for kind in kinds
        }
        for kind, names in found.items():
            if not names:
                continue
            lines += [f".. rubric:: {kind}", ""] if len(names) < len(members) else []
            lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
            lines += [f"   {name}" for name in names] + [""]
    return "\n".join(lines)


def write_pages(_app):
    """Write one page for each public name, leaving unchanged files alone."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    pages = {GENERATED / f"{name}.rst": page(name, value) for _, name, value in public_names()}
    for stale in set(GENERATED.glob("*.rst")) - set(pages):
        stale.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


RECORDED = Path(__file__).parent / "recorded"


def write_recorded(_app):
    """Copy the recorded results of benchmarks and experiments, with their pictures."""
    RECORDED.mkdir(exist_ok=True)
    for folder in ("benchmarks", "experiments"):
        results = Path(__file__).parents[1] / folder / "RESULTS.md"
        text = results.read_text()
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
            (RECORDED / picture).write_bytes((results.parent / picture).read_bytes())
        target = RECORDED / f"{folder}.md"
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def append_table(_app, docname, source):
    """Append the table of public names to the API page."""
    if docname == "api/index":
        source[0] += "\n" + table(public_names())


def show_what_is_returned(_app, kind, _name, value, _options, signature, _returned):
    """Add what a function returns to its signature, where the name of its type says it."""
    hint = getattr(value, "__annotations__", {}).get("return")
    name = hint if isinstance(hint, str) else getattr(hint, "__name__", "")
    is_told = kind in ("function", "method") and re.fullmatch(r"[A-Z]\w+|str|int|float|bool", name)
    return (signature, name) if is_told and name not in ("Any", "Self", "NDArray") else None


def setup(app):
    """Hook the steps into the build; the API page is read anew, as the names may have changed."""
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", write_recorded)
    app.connect("env-get-outdated", lambda *_: ["api/index"])
    app.connect("source-read", append_table)
    app.connect("autodoc-process-signature", show_what_is_returned)
