"""Compile everything in advance, into a folder that later processes read."""

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import rankwise
from rankwise.core.compile import UncompiledWork
from rankwise.core.errors import RankwiseError
from rankwise.io.svmlight import read_svmlight, write_svmlight
from rankwise.io.tables.reading import read_table, write_table

WarmUpCallback = Callable[[str, int, int], None]
"""Takes the name of the step that begins, its number from 1, and the number of steps."""


def warm_up(
    folder: str | PathLike[str] | None = None, on_step: WarmUpCallback | None = None
) -> None:
    """Compile the code of all readers, measures and rankers, so that later processes need not.

    A fresh process fits every ranker to a few rows, which takes a minute or two.

    Parameters
    ----------
    folder : path, optional
        Where compiled code is stored; later processes find it there if the environment variable
        ``NUMBA_CACHE_DIR`` names it. By default it is stored where numba looks for it anyway:
        in the package's folder, or in the user's cache folder.
    on_step : callable, optional
        Called with the name of a step as it begins, its number and the number of steps.

    Examples
    --------
    >>> import rankwise
    >>> rankwise.warm_up("/opt/rankwise-cache")  # doctest: +SKIP
    """
    compile_steps(tuple(_STEPS), folder, on_step)


def compile_steps(
    names: Sequence[str],
    folder: str | PathLike[str] | None = None,
    on_step: WarmUpCallback | None = None,
) -> None:
    """Run some steps in a fresh process, which ends with an error if one of them fails.

    Parameters
    ----------
    names : list of str
        The steps, in this order.
    folder, on_step
        As in `warm_up`.
    """
    environment = dict(os.environ)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        environment["NUMBA_CACHE_DIR"] = os.path.abspath(folder)
    code = f"from rankwise.rankers.warm_up import run_steps; run_steps({list(names)})"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for number, line in enumerate(process.stdout, start=1):
            if on_step is not None:
                on_step(line.strip(), number, len(names))
        complaints = process.stderr.read()
    if process.returncode != 0:
        raise RankwiseError(f"Compiling must succeed for all rankers: it failed. {complaints}")


def run_steps(names: Sequence[str]) -> None:
    """Run these steps in this process, naming each on standard output as it begins."""
    warnings.simplefilter("ignore")
    UncompiledWork.forbid()
    for name in names:
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        _STEPS[name]()


def _problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, np.round(X[:, 0] + rng.normal(size=60)) % 4, np.repeat(np.arange(12), 5)


def _read() -> None:
    X, y, qid = _problem()
    with tempfile.TemporaryDirectory() as folder:
        for rows in (X, csr_array(np.where(X > 1, X, 0.0))):
            write_svmlight(Path(folder, "a.txt"), rows, y, qid=qid)
            read_svmlight(Path(folder, "a.txt"))
        write_table(Path(folder, "a.csv"), {"a": X[:, 0], "y": y, "qid": qid})
        read_table(Path(folder, "a.csv"))


def _evaluate() -> None:
    X, y, qid = _problem()
    names = ["NDCG @ 5", "AP", "RR", "Precision @ 3", "AUC", "Concordance", "KendallTau"]
    rankwise.evaluate(np.minimum(y, 1), X[:, 0], qid, measures=names)
    rankwise.evaluate(y, X[:, 0], qid, measures=["NDCG", "Concordance", "Spearman", "ERU"])


def _fit(name: str, *kernels: str, **options: Any) -> Callable[[], None]:
    def step() -> None:
        X, y, qid = _problem()
        cls = getattr(rankwise, name)
        for kernel in kernels or (None,):
            chosen = options if kernel is None else {**options, "kernel": kernel}
            ranker = cls(**chosen).fit(X, y, qid=qid)
            ranker.score(X, y, qid=qid)
        if "gaussian" not in kernels:
            cls(**options).fit(csr_array(np.where(X > 1, X, 0.0)), y, qid=qid)

    return step


def _leave_pairs_out() -> None:
    X, y, _ = _problem()
    for ties in ("keep", "drop"):
        rankwise.RankRLSCV([0.1, 1.0], ties=ties).fit(X[:20], y[:20])
    rankwise.RankRLSCV([0.1, 1.0]).fit(X, pairs=[[0, 1], [1, 2], [3, 4]])


def _compare() -> None:
    X, _, _ = _problem()
    rankwise.PreferenceGP().fit(X, pairs=[[0, 1], [2, 1], [3, 2], [4, 0]]).predict(X)


def _factorize() -> None:
    ratings = np.random.default_rng(0).integers(1, 5, size=(12, 8)).astype(float)
    rankwise.RankingFactorization(2, max_iter=3, random_state=0).fit(csr_array(ratings))


_STEPS: dict[str, Callable[[], None]] = {
    "reading files": _read,
    "measures": _evaluate,
    "RankRLS": _fit("RankRLS", "linear", "gaussian"),
    "RankRLSCV": _fit("RankRLSCV", "linear", "gaussian"),
    "leaving out pairs": _leave_pairs_out,
    "LinearRankRLS": _fit("LinearRankRLS"),
    "RankSVM": _fit("RankSVM", "linear", "gaussian"),
    "KPCRank": _fit("KPCRank", "linear", "gaussian"),
    "KPCRankCV": _fit("KPCRankCV", "linear", "gaussian"),
    "PreferenceGP": _compare,
    "DORM": _fit("DORM", "linear", "gaussian"),
    "RankingFactorization": _factorize,
}
"""What is compiled, in this order."""
