"""DORM's exact oracles against SciPy's assignment solver, and a pass against its lower limit."""

import time

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.harness import Row, cpu_ratio, markdown, row_of, timings
from rankwise.rankers.dorm.oracles.assignment import assign, plan_assignments

GRADES = (0.55, 0.20, 0.15, 0.07, 0.03)  # shares of the grades 0 ... 4
OTHER_GRADES = {
    "grades alike": (0.2, 0.2, 0.2, 0.2, 0.2),
    "mostly grade 0": (0.8, 0.1, 0.05, 0.03, 0.02),
    "mostly high grades": (0.1, 0.15, 0.2, 0.25, 0.3),
}


N_CALLS = 10
"""Calls of an oracle that are timed together: one takes half a millisecond."""


class Queries:
    """Queries of one length with five grades; scores that partly follow the grades."""

    def __init__(
        self, n_queries: int, n_items: int, cutoff: int, scale: float = 0.3,
        shares: tuple[float, ...] = GRADES,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(0)
        i = np.arange(1, n_items + 1)
        self.decay = (i + 1.0) ** -0.5
        self.discounts = np.where(i <= cutoff, 1 / np.log2(i + 1), 0.0)
        grades = rng.choice(len(shares), p=shares, size=(n_queries, n_items))
        gains = 2.0**grades - 1
        ideal = np.sort(gains, axis=1)[:, ::-1] @ self.discounts
        self.gains = gains / ideal[:, None]
        self.scores = scale * (0.5 * grades + rng.normal(size=grades.shape))
        self.plan = plan_assignments(
            self.gains.ravel(),
            np.tile(self.discounts, n_queries),
            np.tile(self.decay, n_queries),
            np.arange(n_queries + 1) * n_items,
        )

    def by_oracle(self) -> None:
        """Solve all queries by the exact oracle."""
        assign(self.plan, self.scores.ravel())

    def by_scipy(self) -> None:
        """Solve all queries by a general assignment solver."""
        for g, b in zip(self.scores, self.gains, strict=True):
            V = np.outer(g, self.decay) - np.outer(b, self.discounts)
            linear_sum_assignment(V, maximize=True)


def oracle_rows() -> list[Row]:
    """Return the least CPU times of both: an oracle takes less than a millisecond."""
    rows = []
    for n_queries, n_items, bar in ((50, 200, 100), (4, 1000, 1000)):
        for name, cutoff in (("NDCG", n_items), ("NDCG @ 10", 10)):
            job = f"oracle, {n_queries} queries of {n_items} items, {name}, 5 grades"
            rows.append(oracle_row(job, Queries(n_queries, n_items, cutoff), bar))
    for name, shares in OTHER_GRADES.items():
        job = f"oracle, 50 queries of 200 items, NDCG @ 10, 5 grades, {name}"
        rows.append(oracle_row(job, Queries(50, 200, 10, shares=shares), 100))
    return rows


def oracle_row(job: str, queries: Queries, bar: int) -> Row:
    jobs = [lambda: [queries.by_oracle() for _ in range(N_CALLS)], queries.by_scipy]
    ours, other = timings(jobs, 7, time.process_time)
    times = [[seconds / N_CALLS for seconds in ours], other]
    against = "scipy linear_sum_assignment, costs included"
    return row_of(times, min, job, against, f"at least {bar}x faster")


def pass_rows(n_queries: int = 500, n_items: int = 75, n_features: int = 46) -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * n_items, n_features))
    w = 0.1 * rng.normal(size=n_features)

    def sort_only() -> None:
        for g in (X @ w).reshape(n_queries, n_items):
            np.argsort(g)

    rows = []
    for name, cutoff in (("NDCG", n_items), ("NDCG @ 10", 10)):
        queries = Queries(n_queries, n_items, cutoff)
        rows.append(
            cpu_ratio(
                f"pass over {n_queries} queries of {n_items} items, {n_features} features, {name}",
                lambda queries=queries: assign(queries.plan, X @ w),
                "X @ w and one argsort of each query",
                sort_only,
                "at most 5x",
                repeats=7,
            )
        )
    return rows


def table() -> list[Row]:
    return [*oracle_rows(), *pass_rows()]


if __name__ == "__main__":
    print(markdown("DORM: exact oracles", table()))
