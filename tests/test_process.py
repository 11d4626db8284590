"""A process cannot tell, but for what is loaded, that rankwise was imported and used."""

import json
import os
import subprocess
import sys

import pytest

LOOK = """
import atexit, builtins, gc, json, locale, logging, os, signal, sys, threading, warnings
import numpy as np, scipy, sklearn.base, sklearn.utils.fixes

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
        "configuration": repr(sklearn.get_config()),
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": repr(logging.getLogger().handlers),
        "folder": os.getcwd(),
        "umask": os.umask(os.umask(0)),
        "imports": repr(builtins.__import__),
    }
"""

USES = {
    "import": "import rankwise",
    "every name": "from rankwise import *",
    "fits": """
rng = np.random.default_rng(0)
X, qid = rng.normal(size=(60, 4)), np.repeat(np.arange(6), 10)
y = np.clip(np.round(X[:, 0] + rng.normal(size=60)), 0, 3)
import rankwise
for ranker in [rankwise.RankRLS(kernel="gaussian"), rankwise.RankRLSCV(), rankwise.LinearRankRLS(),
               rankwise.RankSVM(), rankwise.DORM(), rankwise.KPCRank(3)]:
    rankwise.evaluate(y, ranker.fit(X, y, qid=qid).predict(X), qid, "NDCG @ 10")
rankwise.PreferenceGP().fit(X[:10], pairs=[[0, 1], [1, 2], [3, 0]])
rankwise.leaderboard({"a": ["x", "y"], "b": ["y", "z"], "winner": ["x", "z"]})
""",
}


@pytest.mark.parametrize("use", list(USES))
def test_nothing_of_the_process_is_changed(use, tmp_path):
    code = f"{LOOK}\nbefore = look()\n{USES[use]}\nprint(json.dumps([before, look()]))"
    environment = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        check=True, capture_output=True, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    before, after = json.loads(done.stdout)
    assert after == before
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []  # no cache, no other file


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
