"""Hold-outs in closed form against refitting, the fit itself and bare LAPACK."""

import subprocess
import sys
import time
from functools import partial
from itertools import product
from statistics import median

import numpy as np
from scipy.linalg import cholesky, eigh

from benchmarks.harness import Row, markdown, one_core, peak_megabytes, row_of, timings, within
from rankwise import Gaussian, Linear, PreferenceGraph, RankRLS
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import KernelSpace, smallest_space
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_pair_out import leave_each_pair_out
from rankwise.selection.leave_query_out import leave_query_out

ALPHAS = 2.0 ** np.arange(-15, 16)
AUTHORS_MULTIPLE = 8.3 / 0.328  # RLScore 0.8.2a: its leave-query-out over its own fit with the path


def primal_problem(n_items: int = 50_000, n_features: int = 46, size: int = 50):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, n_features))
    y = np.digitize(X[:, 0] + rng.normal(size=n_items), [-1, 0, 1]).astype(float)
    return X, y, np.repeat(np.arange(n_items // size), size)


def _leave_out(X, y, qid, kernel, form="auto", alphas=ALPHAS):
    graph = PreferenceGraph.from_scores(y, qid)
    space = smallest_space(X, kernel, None, graph.laplacian.rank())
    return leave_query_out(space, graph, Folds.by_query(graph.queries), alphas, form=form)


def _leave_pairs(space, Y):
    options = {"cost": "magnitude", "ties": "keep", "query_weight": "items"}
    return leave_each_pair_out(space, TrainingData.of(len(Y), Y), np.array([1.0]), **options)


def primal_rows() -> list[Row]:
    X, y, qid = primal_problem()

    def fit():
        RankRLS().fit_path(X, y, qid=qid, alphas=ALPHAS)

    def hold_out():
        _leave_out(X, y, qid, Linear())

    refit = _time_of_refits(X, y, qid)
    job = "leave-query-out, 31 alphas, 50,000 x 46, 1,000 queries, primal"
    against = "its own fit with the path"
    own = within(job, hold_out, against, fit, 3, repeats=7)
    with one_core():
        per_core = within(f"{job}, per core", hold_out, against, fit, 3, repeats=7)
    ours, multiple = own.seconds, own.ratio
    return [
        Row(
            job,
            "refitting per query and alpha",
            "at least 200x faster",
            ours,
            refit,
            refit / ours,
            "refits measured for 5 queries and scaled to 1,000",
        ),
        Row(
            job,
            "the authors' code, as multiples of the fit with the path",
            "at least 30x faster",
            multiple,
            AUTHORS_MULTIPLE,
            AUTHORS_MULTIPLE / multiple,
            "multiples, not seconds; theirs as measured on another machine",
        ),
        own,
        per_core,
    ]


def form_rows() -> list[Row]:
    """Compare the two forms of leave-query-out where each is chosen."""
    rows = []
    for n_queries, size, n_features, ours, other in (
        (500, 100, 46, "refit", "update"),
        (100, 20, 500, "update", "refit"),
    ):
        data = primal_problem(n_queries * size, n_features, size)
        rows.append(
            within(
                f"leave-query-out, 31 alphas, {n_queries} queries of {size}, {n_features} features",
                lambda data=data, form=ours: _leave_out(*data, Linear(), form),
                f"the other form, {other}",
                lambda data=data, form=other: _leave_out(*data, Linear(), form),
                1 / 3,
                repeats=3,
            )
        )
    return rows


def choice_row() -> Row:
    """Compare the form that is chosen with the other one, at the size where it loses most."""
    worst, n_right = ((1.0, 0.0, 1.0), ""), 0
    grid = list(product((7, 31), (46, 300), (60,), (5, 20, 100)))
    for n_alphas, n_features, n_queries, size in grid:
        X, y, qid = primal_problem(n_queries * size, n_features, size)
        jobs = [
            partial(_leave_out, X, y, qid, Linear(), form, np.geomspace(1e-5, 1e5, n_alphas))
            for form in ("auto", "refit", "update")
        ]
        auto, refit, update = (min(record) for record in timings(jobs, 2, time.process_time))
        # the form chosen is the one that takes about as long
        chosen, other = sorted([refit, update], key=lambda seconds: abs(np.log(seconds / auto)))
        n_right += chosen <= other
        name = f"{n_queries} queries of {size}, {n_features} features, {n_alphas} alphas"
        worst = max(worst, ((chosen / other, chosen, other), name))
    (ratio, chosen, other), name = worst
    job = f"leave-query-out, the form chosen, of {len(grid)} sizes that where it loses most"
    note = f"{name}; the faster form is chosen for {n_right} of {len(grid)} sizes; CPU time"
    return Row(job, "the other form", "at most 2x", chosen, other, ratio, note)


def _time_of_refits(X, y, qid, n_tried: int = 5) -> float:
    """Fit without each of a few queries, for every alpha, as a user without hold-outs would."""
    start = time.perf_counter()
    for q in range(n_tried):
        train = qid != q
        for alpha in ALPHAS:
            ranker = RankRLS(alpha).fit(X[train], y[train], qid=qid[train])
            ranker.predict(X[~train])
    return (time.perf_counter() - start) / n_tried * len(np.unique(qid))


def dual_problem(n_items: int = 4000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 50))
    y = X[:, 0] + rng.normal(size=n_items)
    return X, y, np.repeat(np.arange(40), n_items // 40)


def dual_rows() -> list[Row]:
    X, y, qid = dual_problem()
    kernel = Gaussian(1 / 50)
    S = kernel(X, X)[: len(X) - 40, : len(X) - 40]
    row = within(
        "leave-query-out, 31 alphas, dual, 4,000 items in 40 queries, kernel included",
        lambda: _leave_out(X, y, qid, kernel),
        "the bare eigendecomposition of that order",
        lambda: eigh(S, driver="evd", check_finite=False),
        2,
        repeats=3,
    )
    return [row]


def pair_rows() -> list[Row]:
    X, y, _ = dual_problem()
    K = Gaussian(1 / 50)(X, X)
    one, ten = y[:, None], np.column_stack([np.roll(y, k) for k in range(10)])
    space = KernelSpace(_Given(K), X, None)
    positive = K + np.eye(len(K))

    single, several, factor = timings(
        [
            lambda: _leave_pairs(space, one),
            lambda: _leave_pairs(space, ten),
            lambda: cholesky(positive, lower=True, check_finite=False),
        ],
        5,
    )
    job = "leave-pair-out, all pairs, 4,000 items, one alpha, after the kernel"
    ten_outputs = "leave-pair-out with 10 outputs, 4,000 items"
    return [
        row_of([single, factor], median, job, "one Cholesky of that order", "at most 5x"),
        row_of([several, single], median, ten_outputs, "one output", "at most 1.3x"),
    ]


class _Given:
    """A kernel whose matrix is known, so that only the hold-outs are timed."""

    is_trusted = True

    def __init__(self, K):
        self.K = K

    def __call__(self, *_):
        return self.K.copy()


def memory_rows() -> list[Row]:
    """Measure peaks in processes of their own, against the kernel matrix."""
    size = 4000**2 * 8 / 1e6
    rows = []
    for job in ("dual", "pairs"):
        base, full = _peak(job, 400), _peak(job, 4000)
        name = {"dual": "leave-query-out, dual", "pairs": "leave-pair-out"}[job]
        rows.append(
            Row(
                f"peak memory of {name}, 4,000 items (MB, not s)",
                "the kernel matrix",
                "at most 3x",
                full - base,
                size,
                (full - base) / size,
                "the same job on 400 items subtracted",
            )
        )
    return rows


def _peak(job: str, n_items: int) -> float:
    command = [sys.executable, "-m", "benchmarks.holdouts", "--peak", job, str(n_items)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _report_peak(job: str, n_items: int) -> None:
    kernel = Gaussian(1 / 50)
    X, y, qid = dual_problem(n_items)
    if job == "dual":
        _leave_out(X, y, qid, kernel)
    else:
        space = KernelSpace(kernel, X, None)
        _leave_pairs(space, y)
    print(peak_megabytes())


def table() -> list[Row]:
    return [*primal_rows(), *form_rows(), choice_row(), *dual_rows(), *pair_rows(), *memory_rows()]


if __name__ == "__main__":
    if "--peak" in sys.argv:
        _report_peak(sys.argv[-2], int(sys.argv[-1]))
    else:
        print(markdown("Hold-outs in closed form", table()))
