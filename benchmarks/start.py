"""What a fresh process pays: the import, the first fit beside the second, a model that is loaded.

Times are CPU seconds of processes of their own. `make demo` runs in a clone of the last commit,
with pip's cache as it is.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import QUICK, Row, spread

REPEATS = 1 if QUICK else 7
ROOT = Path(__file__).parents[1]
DATA = """
import numpy as np, scipy.sparse
rng = np.random.default_rng(0)
X = rng.normal(size=(600, 8))
y, qid = np.clip(np.round(X[:, 0] + rng.normal(size=600)), 0, 4), np.repeat(np.arange(30), 20)
pairs = np.stack([np.arange(300), np.arange(599, 299, -1)], 1)
pairs = np.where((y[pairs[:, 0]] < y[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
Y = rng.normal(size=(30, 30))
stars = scipy.sparse.csr_array(np.round(np.exp(Y)) + 1.0)
matches = [(f"team {a}", f"team {b}") for a, b in (pairs % 12).tolist()]
"""
FITS = {
    "RankRLS": "rw.RankRLS().fit(X, y, qid=qid)",
    "RankRLS, Gaussian": "rw.RankRLS(kernel='gaussian').fit(X, y, qid=qid)",
    "RankRLSCV": "rw.RankRLSCV().fit(X, y, qid=qid)",
    "LinearRankRLS": "rw.LinearRankRLS().fit(X, y, qid=qid)",
    "KPCRank": "rw.KPCRank(n_components=5).fit(X, y, qid=qid)",
    "KPCRankCV": "rw.KPCRankCV(5).fit(X, y, qid=qid)",
    "GreedyRankRLS": "rw.GreedyRankRLS(3).fit(X, y, qid=qid)",
    "ConditionalRankRLS": "rw.ConditionalRankRLS().fit(X[:30], X[30:60], Y)",
    "ConditionalRankRLSCV": "rw.ConditionalRankRLSCV().fit(X[:30], X[30:60], Y)",
    "RankSVM": "rw.RankSVM().fit(X, y, qid=qid)",
    "DORM": "rw.DORM().fit(X, y, qid=qid)",
    "DORMCV": "rw.DORMCV(Cs=[0.1, 1.0]).fit(X, y, qid=qid)",
    "RankingFactorization": "rw.RankingFactorization(3).fit(stars)",
    "BoostedRanker": "rw.BoostedRanker().fit(X, y, qid=qid)",
    "SearchRanker": "rw.SearchRanker(basis=50).fit(X, y, qid=qid)",
    "AutoRanker": "rw.AutoRanker().fit(X, y, qid=qid)",
    "PreferenceGP": "rw.PreferenceGP().fit(X[:60], pairs=pairs[:20] % 60)",
    "leaderboard": "rw.leaderboard(matches, random_state=0)",
}
TIMED = """
import json, time
import rankwise as rw
{data}
{loaded}  # public names are loaded at first use
times = []
for _ in range(4):
    start = time.process_time()
    {fit}
    times.append(time.process_time() - start)
print(json.dumps([times[0], min(times[1:])]))
"""


def run(code: str) -> str:
    """Run code in a process of its own and return what it prints last."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True
    )
    return done.stdout.strip().rpartition("\n")[2]


def cpu_of(command: list[str], folder: Path | None = None) -> float:
    """Return the CPU seconds of a process and all that it starts."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return spent() - before


def import_row() -> Row:
    """Compare imports; the start of Python itself is taken off both."""
    codes = ["from rankwise import RankRLS", "import sklearn.linear_model", "pass"]
    times = [[cpu_of([sys.executable, "-c", code]) for code in codes] for _ in range(REPEATS)]
    ours, other, bare = (min(column) for column in zip(*times, strict=True))
    ratios = [(a - bare) / (b - bare) for a, b, _ in times]
    seconds = ours - bare, other - bare
    return Row(
        codes[0], codes[1], "at most 1.1x", *seconds, seconds[0] / seconds[1], spread(ratios)
    )


def memory_row() -> Row:
    """Compare the memory of a process that loads a ranker and predicts with a bare import."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model.rank"))
        run(f"{DATA}\nimport rankwise as rw\nrw.RankRLS().fit(X, y, qid=qid).save({model!r})")
        peak = "print(next(s for s in open('/proc/self/status') if 'VmHWM' in s).split()[1])"
        load = f"import numpy as np, rankwise as rw\nranker = rw.load({model!r})\n"
        codes = [f"{load}ranker.predict(np.ones((20, 8)))", "import sklearn.linear_model"]
        ours, other = (int(run(f"{code}\n{peak}")) / 1e3 for code in codes)
    note = f"{ours - other:.1f} MB more"
    job = "load a linear ranker and predict, MB of memory"
    return Row(job, codes[1], "at most 20 MB more", ours, other, ours / other, note)


def fit_row(name: str) -> Row:
    """Compare the first fit of a process with the fastest of the next three."""
    code = TIMED.format(data=DATA, fit=FITS[name], loaded=FITS[name].partition("(")[0])
    runs = [json.loads(run(code)) for _ in range(1 if QUICK else 3)]
    first, later = (min(column) for column in zip(*runs, strict=True))
    note = f"{first - later:.3f} s longer"
    bar = "within 0.1 s"
    return Row(f"{name}, first fit", "fits after it", bar, first, later, first / later, note)


def command_row() -> Row:
    """Time the command that fits a file of 31 MB like those of LETOR, the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        path, model = (str(Path(folder, name)) for name in ("letor.txt", "model.rank"))
        run(
            "import numpy as np\nfrom rankwise.io import write_svmlight\n"
            "rng = np.random.default_rng(0)\n"
            f"write_svmlight({path!r}, np.round(rng.random((57_000, 46)), 6), "
            "rng.integers(0, 3, 57_000), np.arange(57_000) // 40)"
        )
        fit = [sys.executable, "-m", "rankwise", "fit", "rls", path, "-o", model]
        imports = "import sklearn.linear_model"
        commands = [fit, [sys.executable, "-c", imports]]
        times = [[cpu_of(command) for command in commands] for _ in range(REPEATS)]
        ours, other = (min(column) for column in zip(*times, strict=True))
        size = f"{Path(path).stat().st_size / 1e6:.0f} MB"
    job = f"rankwise fit rls, svmlight of {size}, whole process"
    note = spread([a / b for a, b in times])
    return Row(job, imports, "at most 0.5 s", ours, other, ours / other, note)


def demo_row() -> Row:
    """Run `make demo` in a clone; the limit is a number."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "rankwise")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        seconds = cpu_of(["make", "demo"], clone)
    note = "compiler and pip included; one run"
    return Row("make demo from a clone", "60", "at most 60 s", seconds, 60.0, seconds / 60, note)


def table() -> list[Row]:
    """Return the rows."""
    rows = [import_row(), memory_row(), command_row(), *map(fit_row, FITS)]
    return rows if QUICK else [*rows, demo_row()]
