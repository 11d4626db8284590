"""A default fit compiles every kernel it needs for one set of types, and no kernel twice."""

import json
import os
import subprocess
import sys

import rankwise
from rankwise.rankers.base import Ranker

CODE = """
import gc, json, os, sys, warnings
import numpy as np
import rankwise
from numba.core.dispatcher import Dispatcher
from scipy.sparse import csr_array

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
y, qid = np.round(X[:, 0] + rng.normal(size=60)) % 4, np.repeat(np.arange(12), 5)

def fit(name):
    cls = getattr(rankwise, name)
    if name == "PreferenceGP":
        return cls().fit(X, pairs=[[0, 1], [2, 1], [3, 2], [4, 0]])
    if name == "RankerPipeline":
        return cls([rankwise.WithinQueryScaler(), rankwise.RankRLS()]).fit(X, y, qid=qid)
    if name == "RankingFactorization":
        return cls(2).fit(csr_array(rng.integers(1, 5, size=(12, 8)).astype(float)))
    if name == "AutoRanker":
        return cls(time_budget=1e-6, cv=3).fit(X, y, qid=qid)
    return cls().fit(X, y, qid=qid)

for name in sys.argv[1:]:
    if os.fork() == 0:  # a process of its own, that need not import everything again
        fit(name)
        found = {}
        for kernel in gc.get_objects():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__.startswith("rankwise"):
                label = f"{kernel.py_func.__module__}.{kernel.__name__}"
                found.setdefault(label, []).extend(map(str, kernel.overloads))
        os.write(1, (json.dumps([name, found]) + "\\n").encode())
        os._exit(0)
    os.wait()
"""


def signatures(*names):
    """Return for each ranker the types that each kernel was compiled for by a default fit."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *names],
        env={**os.environ, "OMP_NUM_THREADS": "1", "RANKWISE_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert list(found) == list(names), done.stderr
    return found


def test_a_default_fit_compiles_no_kernel_twice():
    public = {name: getattr(rankwise, name) for name in rankwise.__all__}
    names = [n for n, c in public.items() if isinstance(c, type) and issubclass(c, Ranker)]
    found = signatures(*names, "RankingFactorization")
    assert sum(map(len, found.values())) > len(names)
    twice = {
        (name, kernel): types
        for name, kernels in found.items()
        for kernel, types in kernels.items()
        if len(types) > 1
    }
    assert twice == {}
