"""DORM's training against one-slack cutting planes with the same oracle."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from benchmarks.harness import Row, markdown
from rankwise.rankers.dorm.cutting_planes import PrimalPlanes, solve
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import assign, plan_assignments
from rankwise.solve.iteration import StoppingRule

N_QUERIES, N_ITEMS, N_FEATURES, C, TOL = 1000, 50, 367, 0.1, 1e-3
PATIENCE = 60.0  # seconds that cutting planes may take
INNER = 0.3  # share of the way from the best point to the newest, where planes are cut


@dataclass(frozen=True)
class Problem:
    """Rows of queries one after another, and the loss to bound."""

    X: NDArray
    starts: NDArray
    loss: RankingLoss


def make_problem() -> Problem:
    """Draw five grades from noisy linear scores; ties in the target are ordered by ridge."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_QUERIES * N_ITEMS, N_FEATURES))
    hidden = X @ rng.normal(size=N_FEATURES) / np.sqrt(N_FEATURES) + 1.5 * rng.normal(size=len(X))
    grades = np.searchsorted(np.quantile(hidden, [0.65, 0.8, 0.9, 0.97]), hidden)
    i = np.arange(1, N_ITEMS + 1)
    discounts = np.where(i <= 10, 1.0 / np.log2(i + 1.0), 0.0)
    gains = (2.0**grades - 1.0).reshape(N_QUERIES, N_ITEMS)
    ideal = np.sort(gains, axis=1)[:, ::-1] @ discounts
    gains /= np.where(ideal > 0.0, ideal, 1.0)[:, None]
    starts = np.arange(N_QUERIES + 1) * N_ITEMS
    decay = (i + 1.0) ** -0.5
    plan = plan_assignments(
        gains.ravel(), np.tile(discounts, N_QUERIES), np.tile(decay, N_QUERIES), starts
    )
    preliminary = Ridge(1.0).fit(X, 2.0**grades).predict(X)
    return Problem(X, starts, RankingLoss.from_gains(plan, preliminary))


class CuttingPlanes:
    """One-slack cutting planes: each iteration adds one plane under the sum of all slacks.

    ``share`` 1 cuts at the newest point; a smaller share cuts nearer to the best point so far,
    which stabilises the method.
    """

    def __init__(self, problem: Problem, share: float) -> None:
        self.problem, self.share = problem, share
        n_features = problem.X.shape[1]
        self.vectors, self.heights = np.zeros((0, n_features)), np.zeros(0)
        self.weights = np.zeros(0)
        self.gram = np.zeros((0, 0))

    def run(self) -> tuple[float, int, float]:
        """Return seconds, iterations, and the relative gap reached."""
        start, n_iter = time.perf_counter(), 0
        best_w = np.zeros(self.problem.X.shape[1])
        newest, best, gap = best_w, np.inf, 1.0
        while gap > TOL and time.perf_counter() - start < PATIENCE:
            w = best_w + (self.share if n_iter else 1.0) * (newest - best_w)
            objective = self._cut(w)
            if objective < best:
                best, best_w = objective, w
            newest = self._maximise_dual()
            gap = (best - self._dual(newest)) / best
            n_iter += 1
        return time.perf_counter() - start, n_iter, gap

    def _cut(self, w: NDArray) -> float:
        """Add the plane that touches the sum of slacks at w; return the objective there."""
        X, loss = self.problem.X, self.problem.loss
        plan = loss.plan
        positions = assign(plan, X @ w)
        at = np.repeat(plan.starts[:-1], np.diff(plan.starts)) + positions
        vector = X.T @ (loss.target - plan.decay[at])
        height = float(loss.ideal.sum() - plan.discounts[at] @ plan.gains)
        column = self.vectors @ vector
        self.gram = np.block([[self.gram, column[:, None]], [column, vector @ vector]])
        self.vectors = np.vstack([self.vectors, vector])
        self.heights = np.append(self.heights, height)
        self.weights = np.append(self.weights, 0.0)
        return float(0.5 * w @ w + C * (height - vector @ w))

    def _maximise_dual(self) -> NDArray:
        """Move weight between pairs of planes; the zero plane has what is left of 1."""
        weights = np.append(self.weights, 1.0 - self.weights.sum())
        gram = np.pad(self.gram, (0, 1)) * C * C
        heights = np.append(self.heights, 0.0) * C
        slope = heights - gram @ weights
        for _ in range(100_000):
            up = int(slope.argmax())
            down = int(np.where(weights > 0.0, slope, np.inf).argmin())
            rise = slope[up] - slope[down]
            if rise <= 1e-2 * TOL * (heights @ weights):
                break
            curvature = gram[up, up] + gram[down, down] - 2.0 * gram[up, down]
            step = min(weights[down], rise / max(curvature, 1e-300))
            weights[up] += step
            weights[down] -= step
            slope -= step * (gram[:, up] - gram[:, down])
        self.weights = weights[:-1]
        return C * (self.weights @ self.vectors)

    def _dual(self, w: NDArray) -> float:
        return float(C * (self.weights @ self.heights) - 0.5 * w @ w)


def table() -> list[Row]:
    problem = make_problem()
    job = (
        f"training to gap {TOL:g}, {N_QUERIES:,} queries x {N_ITEMS} items x "
        f"{N_FEATURES} features, NDCG @ 10, C = {C:g}"
    )
    solve(PrimalPlanes(problem.X, problem.starts), problem.loss, C, StoppingRule(0.1, 1))  # warm-up
    start = time.perf_counter()
    solution = solve(PrimalPlanes(problem.X, problem.starts), problem.loss, C, StoppingRule(TOL))
    ours = time.perf_counter() - start
    rows = []
    for name, share in (("one-slack cutting planes, stabilised", INNER), ("one-slack", 1.0)):
        seconds, n_iter, gap = CuttingPlanes(problem, share).run()
        note = f"gaps {solution.gap:.1e} and {gap:.1e}; {solution.n_iter} passes and {n_iter}"
        note += f"; stopped after {PATIENCE:g} s" if gap > TOL else ""
        rows.append(Row(job, name, "at least 3x faster", ours, seconds, seconds / ours, note))
    return rows


if __name__ == "__main__":
    print(markdown("DORM: training", table()))
