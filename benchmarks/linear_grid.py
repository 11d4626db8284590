"""Conjugate gradients for linear RankRLS: a grid of alphas, and early stopping."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks.harness import Row
from benchmarks.linear import SIZE, rows_like_rcv1, scores_of
from rankwise.core.queries import Queries
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.measures.pairwise import Concordance
from rankwise.rankers.linear.validation import rate_by_measure
from rankwise.solve.conjugate_gradients import (
    CGResult,
    ShiftedSystems,
    Validator,
    multishift_cg,
)
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.operators import normal_operator
from rankwise.solve.rows import as_rows

ALPHAS = 2.0 ** np.arange(-15, 16)
TRIED = 5
"""Every fifth alpha is run alone: all 31 take minutes and say no more."""

PAPER = (17186.0, 97.0)  # seconds of selection, methods 1 and 2, [APS10] Table 1, Reuters


def grid_problem() -> tuple[csr_array, PreferenceGraph, Validator]:
    X = rows_like_rcv1(int(781_265 * SIZE))
    y = scores_of(X)
    n_val = min(8149, X.shape[0] // 10)
    graph = PreferenceGraph.from_scores(y[n_val:], ties="keep")
    rate = rate_by_measure(y[:n_val], Queries.single(n_val), Concordance)
    return X[n_val:], graph, Validator(as_rows(X[:n_val]), rate)


def table() -> list[Row]:
    X, graph, validator = grid_problem()
    operator = normal_operator(as_rows(X), graph)
    rule = StoppingRule(tol=1e-6, max_iter=2000)

    def run(alphas: np.ndarray, rule: StoppingRule, validator: Validator | None = None) -> CGResult:
        return multishift_cg(ShiftedSystems.of(operator, alphas, validator=validator), rule)

    one, one_s = timed(lambda: run(ALPHAS[:1], rule, validator))
    grid, grid_s = timed(lambda: run(ALPHAS, rule, validator))
    separate = [timed(lambda a=a: run(np.array([a]), rule)) for a in ALPHAS[::TRIED]]
    separate_s = over_the_grid([seconds for _, seconds in separate])
    n_separate = over_the_grid([result.n_iter for result, _ in separate])
    early, early_s = timed(lambda: run(np.zeros(1), StoppingRule(1e-6, 2000, 10), validator))
    hybrid, hybrid_s = timed(lambda: run(ALPHAS, StoppingRule(1e-6, 2000, 10), validator))
    jacobi, jacobi_s = timed(
        lambda: multishift_cg(ShiftedSystems.of(operator, ALPHAS[:1], precondition=True), rule)
    )
    differ = max(
        np.linalg.norm(a - b.coefs[0]) / np.linalg.norm(b.coefs[0])
        for a, (b, _) in zip(grid.coefs[::TRIED], separate, strict=True)
    )
    return [
        Row(f"31 alphas with validation of each at its end, {X.shape[0]:,} x {X.shape[1]:,}",
            "one alpha, the smallest, with validation", "at most 1.5x", grid_s, one_s,
            grid_s / one_s, f"{grid.n_iter} and {one.n_iter} iterations"),
        Row("the same", "31 separate runs to tolerance (method 1)", "at least 12x faster",
            grid_s, separate_s, separate_s / grid_s,
            f"about {n_separate:.0f} iterations: every {TRIED}th alpha run, those between "
            f"interpolated; weights differ by {differ:.0e}"),
        Row(f"early stopping with selection (method 2), {X.shape[0]:,} rows",
            "31 separate runs (method 1)",
            f"report; the paper: {PAPER[0] / PAPER[1]:.0f}x", early_s, separate_s,
            separate_s / early_s,
            f"{early.n_iter} iterations, best {early.best.iteration}, value {early.best.value:.4f};"
            f" the grid's best {grid.best.value:.4f}"),
        Row(f"31 alphas, each stopped early (method 3), {X.shape[0]:,} rows",
            "31 separate runs (method 1)", "report", hybrid_s, separate_s, separate_s / hybrid_s,
            f"{hybrid.n_iter} iterations, best alpha {hybrid.best.alpha:g},"
            f" value {hybrid.best.value:.4f}"),
        Row(f"one alpha, the smallest, preconditioned by the diagonal, {X.shape[0]:,} rows",
            "the same without", "report", jacobi_s, one_s, one_s / jacobi_s,
            f"{jacobi.n_iter} and {one.n_iter} iterations"),
    ]  # fmt: skip


def over_the_grid(values: list[float]) -> float:
    """Return the sum over all alphas, given the value at every fifth one."""
    return float(np.interp(np.arange(len(ALPHAS)), np.arange(0, len(ALPHAS), TRIED), values).sum())


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    """Run a long job once."""
    start = time.perf_counter()
    result = job()
    return result, time.perf_counter() - start
