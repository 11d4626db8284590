"""First fits after an install: how long a fresh process compiles before it answers.

Every job runs in a process of its own with an empty folder for compiled code, and then again in a
second process, which reads what the first one compiled. CPU seconds count everything: starting
Python, importing, compiling, fitting a few rows. Loading a model and predicting with it is also
timed as a user without a home. ``python -m benchmarks.first_fits NAME`` lists
the kernels that a job compiles, the slowest first.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.harness import Row

LIMIT = 5.0
"""CPU seconds that a first fit may take."""

PROBLEM = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import rankwise
from scipy.sparse import csr_array
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
y = np.round(X[:, 0] + rng.normal(size=60)) % 4
qid = np.repeat(np.arange(12), 5)
"""

SVMLIGHT = """
import pathlib, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "a.txt")
    rows = [*zip(y, qid, X)] * {copies}
    path.write_text("".join(f"{{a:g}} qid:{{q}} 1:{{x[0]}} 3:{{x[1]:.3f}}\\n" for a, q, x in rows))
    from rankwise.io.svmlight import read_svmlight
    read_svmlight(path)
"""
"""Small files are read without compiled code."""

JOBS = {
    "import rankwise": "",
    "read svmlight": SVMLIGHT.format(copies=1),
    "read svmlight, 2 MB": SVMLIGHT.format(copies=1000),
    "evaluate": "rankwise.evaluate(y, X[:, 0], qid, measures=['NDCG @ 5', 'Concordance'])",
    "RankRLS": "rankwise.RankRLS().fit(X, y, qid=qid)",
    "RankRLSCV": "rankwise.RankRLSCV().fit(X, y, qid=qid)",
    "RankRLSCV, measure NDCG": "rankwise.RankRLSCV(measure='NDCG @ 5').fit(X, y, qid=qid)",
    "RankRLSCV, one query": "rankwise.RankRLSCV().fit(X, y)",
    "LinearRankRLS": "rankwise.LinearRankRLS().fit(X, y, qid=qid)",
    "LinearRankRLS, sparse": (
        "rankwise.LinearRankRLS().fit(csr_array(np.where(X > 1, X, 0.0)), y, qid=qid)"
    ),
    "KPCRank": "rankwise.KPCRank(kernel='gaussian').fit(X, y, qid=qid)",
    "KPCRankCV": "rankwise.KPCRankCV(kernel='gaussian').fit(X, y, qid=qid)",
    "RankSVM": "rankwise.RankSVM().fit(X, y, qid=qid)",
    "PreferenceGP": "rankwise.PreferenceGP().fit(X, pairs=[[0, 1], [2, 1], [3, 2], [4, 0]])",
    "DORM": "rankwise.DORM().fit(X, y, qid=qid)",
    "DORM, gaussian": "rankwise.DORM(kernel='gaussian').fit(X, y, qid=qid)",
    "RankingFactorization": (
        "rankwise.RankingFactorization(2, random_state=0)"
        ".fit(csr_array(rng.integers(1, 5, size=(12, 8)).astype(float)))"
    ),
    "SearchRanker": "rankwise.SearchRanker().fit(X, y, qid=qid)",
}

MODELS = {
    "LinearRankRLS": "rankwise.LinearRankRLS().fit(X, y, qid=qid)",
    "RankRLS, gaussian": "rankwise.RankRLS(kernel='gaussian').fit(X, y, qid=qid)",
}
"""Models that are loaded by a user without a home."""

COLD_LIMIT = 2.0
"""CPU seconds that loading a model and predicting with it may take."""

PREDICTED = """
import sys
import numpy as np
import rankwise
assert np.isfinite(rankwise.load(sys.argv[1]).predict(np.ones((2, 4)))).all()
"""

LISTED = """
import atexit, json, sys, time
from numba.core import event
class Times(event.Listener):
    def __init__(self):
        self.open, self.found = [], []
    def on_start(self, event):
        self.open.append([time.process_time(), 0.0])
    def on_end(self, event):
        start, inner = self.open.pop()
        whole = time.process_time() - start
        if self.open:
            self.open[-1][1] += whole
        name = event.data["dispatcher"].py_func
        types = ", ".join(map(str, event.data["args"]))
        label = f"{name.__module__.removeprefix('rankwise.')}.{name.__name__}"
        self.found.append((whole - inner, label, types))
times = Times()
event.register("numba:compile", times)
atexit.register(lambda: sys.stderr.write(json.dumps(times.found)))
"""


def cpu_seconds(
    code: str, folder: str | None, *arguments: str, user: str | None = None
) -> tuple[float, str]:
    """Return the CPU seconds of a process that runs code, and what it writes to standard error.

    Without a folder for compiled code it has no home either.
    """
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"HOME": "/nowhere"} if folder is None else {"NUMBA_CACHE_DIR": folder}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        check=True,
        stderr=subprocess.PIPE,
        text=True,
        user=user,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def cold_start(code: str) -> tuple[float, str]:
    """Return the CPU seconds to load what code fits and to predict without a home, and as whom."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "model")
        cpu_seconds(PROBLEM + f"{code}.save({path!r})", folder)
        os.chmod(path, 0o644)
        try:
            return cpu_seconds(PREDICTED, None, path, user="nobody")[0], "nobody"
        except PermissionError:  # only root may run as another user, who must reach this Python
            return cpu_seconds(PREDICTED, None, path)[0], "this user"


def first_and_later(code: str) -> tuple[float, float]:
    """Return the CPU seconds with an empty folder for compiled code, and with a filled one."""
    with tempfile.TemporaryDirectory() as folder:
        first, _ = cpu_seconds(PROBLEM + code, folder)
        later, _ = cpu_seconds(PROBLEM + code, folder)
    return first, later


def compiled_kernels(code: str) -> list[tuple[float, str, str]]:
    """Return the CPU seconds, name and argument types of each kernel compiled, slowest first."""
    with tempfile.TemporaryDirectory() as folder:
        _, errors = cpu_seconds(LISTED + PROBLEM + code, folder)
    found: list[Any] = json.loads(errors.splitlines()[-1])
    return sorted(map(tuple, found), reverse=True)


def table() -> list[Row]:
    rows = []
    for job, code in JOBS.items():
        first, later = first_and_later(code)
        bar = f"first below {LIMIT:g} CPU s"
        rows.append(Row(job, "a later process", bar, first, later, first / later))
    imports, _ = cpu_seconds("import numpy, scipy.linalg, scipy.sparse, sklearn.base", None)
    for name, code in MODELS.items():
        seconds, user = cold_start(code)
        bar = f"below {COLD_LIMIT:g} CPU s, as {user} without a home"
        rows.append(
            Row(
                f"load {name} and predict",
                "import scikit-learn",
                bar,
                seconds,
                imports,
                seconds / imports,
            )
        )
    return rows


if __name__ == "__main__":
    for name in sys.argv[1:] or JOBS:
        found = compiled_kernels(JOBS[name])
        print(f"{name}: {len(found)} compiled in {sum(k[0] for k in found):.1f} s")
        for seconds, kernel, types in found:
            print(f"  {seconds:6.2f}  {kernel}({types})")
