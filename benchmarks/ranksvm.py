"""RankSVM to a relative gap of 1e-3 against LinearSVC on written-out differences."""

import time
import warnings
from dataclasses import replace
from statistics import median

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.harness import Row, cpu_ratio, joined, markdown, spread, timings, within
from rankwise import Gaussian, RankRLS, RankSVM
from rankwise.core.queries import Queries
from rankwise.graph.pair_sums import GradedPairs
from rankwise.graph.preference_graph import Grades
from rankwise.rankers.svm.objective import HingeLoss, smoothed_hinge

GAP = 1e-3
N_QUERIES, QUERY_SIZE, N_FEATURES = 1017, 41, 46  # as in three of MQ2007's five parts
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
LARGE = 1 << 18


def problem(n_queries: int = N_QUERIES):
    """Return rows in [0, 1], three grades as rare as MQ2007's, and queries."""
    rng = np.random.default_rng(0)
    n_items = n_queries * QUERY_SIZE
    X = rng.beta(0.5, 1.5, size=(n_items, N_FEATURES))
    signal = X @ rng.normal(size=N_FEATURES) + rng.normal(size=n_items)
    y = np.digitize(signal, np.quantile(signal, [0.74, 0.93])).astype(float)
    return X, y, np.repeat(np.arange(n_queries), QUERY_SIZE)


def differences(X, y, qid):
    """Write out the differences of all pairs, with signs so that there are two classes."""
    rows = []
    for q in np.unique(qid):
        items = np.flatnonzero(qid == q)
        i, j = np.nonzero(y[items][:, None] > y[items])
        rows.append(X[items[i]] - X[items[j]])
    D = np.concatenate(rows)
    signs = np.where(np.arange(len(D)) % 2, 1.0, -1.0)
    return D * signs[:, None], signs


def objective(w, D, signs, C: float, loss: HingeLoss) -> float:
    slack = np.maximum(0.0, 1.0 - signs * (D @ w))
    return 0.5 * w @ w + C * float(slack.sum() if loss == "hinge" else slack @ slack)


def quickest_svc(D, signs, C: float, loss: HingeLoss, bound: float) -> tuple[float, str]:
    """Return the time of LinearSVC with the largest tolerance that reaches the gap, or the last."""
    for tol in TOLERANCES:
        svc = LinearSVC(
            C=C, loss=loss, fit_intercept=False, dual=loss == "hinge", tol=tol, max_iter=1000
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            svc.fit(D, signs)
            seconds = time.perf_counter() - start
        reached = 1.0 - bound / objective(svc.coef_[0], D, signs, C, loss)
        if reached <= GAP or svc.n_iter_ >= 1000:
            break
    return seconds, f"LinearSVC(tol={tol:g}): gap {reached:.1e}, {svc.n_iter_} iterations"


def peer_row(loss: HingeLoss, C: float) -> Row:
    X, y, qid = problem()
    D, signs = differences(X, y, qid)
    ranker = RankSVM(C, loss=loss, tol=GAP)
    (times,) = timings([lambda: ranker.fit(X, y, qid=qid)], 3)
    exact = RankSVM(C, loss=loss, tol=1e-6).fit(X, y, qid=qid)
    theirs, note = quickest_svc(D, signs, C, loss, exact.solution_.bound)
    solution = ranker.solution_
    return Row(
        f"{loss} to a gap of 1e-3, C = {C:g}, {len(X):,} items, {N_FEATURES} features",
        f"LinearSVC on {len(D):,} differences, these not counted",
        "at least 2x faster",
        median(times),
        theirs,
        theirs / median(times),
        joined(
            f"ours: gap {solution.gap:.1e}, {solution.n_iter} steps. {note}",
            spread([theirs / seconds for seconds in times]),
        ),
    )


def growth_rows() -> list[Row]:
    """Time a loss with slope and one product with its second derivative, and the whole fit."""
    rng = np.random.default_rng(0)

    def pass_over(n_items: int):
        y, scores = rng.normal(size=(2, n_items))
        grades = Grades.of(Queries.single(n_items), y, np.ones(n_items), keep_ties=False)
        pairs = GradedPairs.of(grades, np.ones(1), y, "unit")
        return lambda: smoothed_hinge(pairs, scores, 0.1).laplacian @ scores

    def fit(n_queries: int):
        X, y, qid = problem(n_queries)
        return lambda: RankSVM(10.0 / n_queries, tol=GAP).fit(X, y, qid=qid)

    return [
        within(
            f"a loss of {LARGE:,} items of one query, all of different score",
            pass_over(LARGE),
            f"the same of {LARGE // 4:,} items",
            pass_over(LARGE // 4),
            6,
        ),
        within(
            "squared hinge to a gap of 1e-3, 4,000 queries of 41 items",
            fit(4000),
            "the same of 1,000 queries",
            fit(1000),
            5,
        ),
    ]


def kernel_rows() -> list[Row]:
    """Fit a kernel with next to no regularisation: all scores different, one query."""
    rows = []
    for n_items in (1000, 2000, 4000):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_items, 20))
        y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * rng.normal(size=n_items)
        svm, rls = RankSVM(1e6, kernel=Gaussian(0.05)), RankRLS(kernel=Gaussian(0.05))
        rows.append(
            cpu_ratio(
                f"RankSVM, Gaussian kernel, C = 1e6, {n_items:,} items, CPU s, fit to fitted",
                lambda svm=svm, X=X, y=y: svm.fit(X, y),
                "RankRLS of the same kernel",
                lambda rls=rls, X=X, y=y: rls.fit(X, y),
                "report",
                repeats=3 if n_items < 4000 else 1,
            )
        )
        note = f"gap {svm.solution_.gap:.0e}, {svm.n_iter_} steps"
        rows[-1] = replace(rows[-1], note=joined(note, rows[-1].note))
    return rows


def table() -> list[Row]:
    peers = [peer_row(loss, C) for C in (0.01, 1.0) for loss in ("squared_hinge", "hinge")]
    return [*peers, *growth_rows(), *kernel_rows()]


if __name__ == "__main__":
    print(markdown("RankSVM", table()))
