"""A process cannot tell, but for what is loaded, that rankwise was imported and used."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import rankwise

LOOK = """
import builtins, decimal, gc, json, locale, logging, os, random, signal, sys, threading, warnings
import numpy as np, scipy, sklearn.base, sklearn.linear_model, sklearn.utils.fixes, threadpoolctl

POOLS = {one["filepath"] for one in threadpoolctl.threadpool_info()}

def handlers():
    found = {}
    for number in signal.valid_signals():
        try:
            found[int(number)] = repr(signal.getsignal(number))
        except (OSError, ValueError):
            pass
    return found

def look():
    return {
        "finders": [repr(one) for one in sys.meta_path],
        "path hooks": [repr(one) for one in sys.path_hooks],
        "path": list(sys.path),
        "handlers": handlers(),
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks)],
        "hooks": [repr(sys.excepthook), repr(threading.excepthook), repr(sys.displayhook)],
        "tracing": [repr(sys.gettrace()), repr(sys.getprofile()), sys.getrecursionlimit()],
        "filters": [repr(one) for one in warnings.filters],
        "showwarning": repr(warnings.showwarning),
        "environment": dict(os.environ),
        "builtins": sorted(vars(builtins)),
        "errors of NumPy": np.geterr(),
        "printing": repr(np.get_printoptions()),
        "random numbers": [np.random.get_state()[1].tolist(), np.random.get_state()[2],
                           repr(random.getstate())],
        "decimals": repr(decimal.getcontext()),
        "threads of pools": {one["filepath"]: one["num_threads"]
                             for one in threadpoolctl.threadpool_info()
                             if one["filepath"] in POOLS},
        # threads of ours stay, and wait for work
        "threads": sorted(one.name for one in threading.enumerate()
                          if not one.name.startswith("rankwise_")),
        "configuration": repr(sklearn.get_config()),
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": [repr(logging.getLogger()), repr(logging.getLogger().handlers),
                    logging.root.manager.disable, repr(logging.getLoggerClass())],
        "folder": os.getcwd(),
        "umask": os.umask(os.umask(0)),
        "imports": repr(builtins.__import__),
    }
"""

USES = {
    "import": "import rankwise",
    "every name": "from rankwise import *",
    "measures and boards": """
import rankwise
rankwise.evaluate([1.0, 0.0, 2.0], [0.1, 0.2, 0.3], None, "NDCG @ 10")
battles = {"a": ["x", "y"], "b": ["y", "z"], "winner": ["x", "z"]}
board = rankwise.leaderboard(battles, random_state=0)
print(board, file=open(os.devnull, "w"))
""",
}

FITS = {
    "AutoRanker": "AutoRanker(time_budget=1.0).fit(X, y, qid=qid)",
    "BoostedRanker": "BoostedRanker(n_trees=5, random_state=0).fit(X, y, qid=qid)",
    "ConditionalRankRLS": "ConditionalRankRLS().fit(X[:4], X[:5], Y)",
    "ConditionalRankRLSCV": "ConditionalRankRLSCV(random_state=0).fit(X[:4], X[:5], Y)",
    "DORM": "DORM(random_state=0).fit(X, y, qid=qid)",
    "DORMCV": "DORMCV(Cs=[0.1, 1.0], random_state=0).fit(X, y, qid=qid)",
    "FeatureScaler": "FeatureScaler().fit(X, y, qid=qid)",
    "GreedyRankRLS": "GreedyRankRLS(2, random_state=0).fit(X, y, qid=qid)",
    "KeptFeatures": "KeptFeatures([2, 0]).fit(X, y, qid=qid)",
    "IndicatorEncoder": "IndicatorEncoder().fit(words, y, qid=qid)",
    "KPCRank": "KPCRank(3).fit(X, y, qid=qid)",
    "KPCRankCV": "KPCRankCV(max_components=3, random_state=0).fit(X, y, qid=qid)",
    "LinearRankRLS": "LinearRankRLS().fit(X, y, qid=qid)",
    "PreferenceGP": "PreferenceGP(random_state=0).fit(X[:10], pairs=[[0, 1], [1, 2], [3, 0]])",
    "RankRLS": "RankRLS(kernel='gaussian').fit(X, y, qid=qid)",
    "RankRLSCV": "RankRLSCV(random_state=0).fit(X, y, qid=qid)",
    "RankSVM": "RankSVM().fit(X, y, qid=qid)",
    "RankerPipeline": "RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, y, qid=qid)",
    "RankerRegressor": "RankerRegressor(RankRLS()).fit(X, y)",
    "RankingFactorization": "RankingFactorization(2, random_state=0).fit(stars)",
    "SearchRanker": "SearchRanker(basis=10).fit(X, y, qid=qid)",
    "TextFeatures": "TextFeatures(0, [1]).fit(np.hstack([words, words]), qid=qid)",
    "WithinQueryEncoder": "WithinQueryEncoder([0]).fit(words, y, qid=qid)",
    "WithinQueryImputer": "WithinQueryImputer().fit(X, y, qid=qid)",
    "WithinQueryRanks": "WithinQueryRanks().fit(X, y, qid=qid)",
    "WithinQueryScaler": "WithinQueryScaler().fit(X, y, qid=qid)",
}
"""One fit of everything public that learns.

With ``random_state=None`` what learns by chance draws from NumPy's global numbers, as all of
scikit-learn does.
"""

FIT = """
import tempfile
from scipy.sparse import csr_array
import rankwise
from rankwise import *

rng = np.random.default_rng(0)
X, qid = rng.normal(size=(60, 4)), np.repeat(np.arange(6), 10)
y, Y = np.clip(np.round(X[:, 0] + rng.normal(size=60)), 0, 3), rng.normal(size=(4, 5))
stars = csr_array(np.round(np.exp(Y)) + 1.0)
words = np.array([["red", "blue"][k % 2] for k in range(60)], dtype=object)[:, None]

def use(model):
    "Predict with a model, save it and load it again."
    if isinstance(model, rankwise.rankers.base.Ranker):
        qid = [0] * 3 if model.fitted_with_qid_ else None
        model.predict(X[:3], qid=qid)
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/model.rank")
            rankwise.load(f"{folder}/model.rank").predict(X[:3], qid=qid)

found = {}
for name, fit in fits.items():
    before = look()
    use(eval(fit))
    after = look()
    found[name] = {key: [value, after[key]] for key, value in before.items() if after[key] != value}
print(json.dumps({name: changed for name, changed in found.items() if changed}))
"""


def run(code, folder):
    """Run code in a process of its own, whose home is a folder, and return what it prints last."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        check=False, capture_output=True, text=True, cwd=folder,
        env=os.environ | {"HOME": str(folder), "XDG_CACHE_HOME": str(folder)},
    )  # fmt: skip
    assert done.stderr == ""
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("use", list(USES))
def test_nothing_of_the_process_is_changed(use, tmp_path):
    before, after = run(
        f"{LOOK}\nbefore = look()\n{USES[use]}\nprint(json.dumps([before, look()]))", tmp_path
    )
    assert after == before
    assert list(tmp_path.iterdir()) == []  # no cache, no other file


def test_everything_that_learns_is_looked_at():
    public = [getattr(rankwise, name) for name in rankwise.__all__]
    learning = {one.__name__ for one in public if isinstance(one, type) and hasattr(one, "fit")}
    assert set(FITS) == learning


def test_no_fit_changes_anything_of_the_process(tmp_path):
    needed = {"AutoRanker": "lightgbm", "BoostedRanker": "lightgbm"}
    missing = {name for name, module in needed.items() if find_spec(module) is None}
    fits = {name: fit for name, fit in FITS.items() if name not in missing}
    assert run(f"fits = {fits!r}\n{LOOK}\n{FIT}", tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_other_libraries_are_what_they_are_without_rankwise():
    pytest.importorskip("pandas")
    code = (
        "from rankwise import RankRLS\n"
        "import pandas, scipy.stats, sklearn.utils.fixes, sys\n"
        "fixes = vars(sklearn.utils.fixes)\n"
        "assert fixes.get('pd', pandas) is pandas\n"
        "assert type(scipy.stats).__name__ == type(pandas).__name__ == 'module'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
