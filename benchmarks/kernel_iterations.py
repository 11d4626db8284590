"""Kernel problems without their matrix: conjugate gradients against the direct solution.

``python -m benchmarks kernel_iterations`` records the table, of this machine's CPU; that of a GPU,
for up to 1,000,000 items, belongs to ``python -m benchmarks gpu``. Data: 20 standard normal
features, queries of 100 items, a Gaussian kernel of gamma 0.05, alpha 1.
"""

import time
from dataclasses import dataclass

import numpy as np

from rankwise import ConjugateGradients, Gaussian, RankRLS
from rankwise.features.kernels import own_product

KERNEL, ALPHA, TOL, N_BASIS = Gaussian(0.05), 1.0, 1e-10, 300
SIZES = (2_000, 4_000, 8_000)

HEADER = (
    *("items", "basis rows", "iterations", "fit s", "product s", "direct s"),
    *("difference", "matrix GB"),
)


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    n_items: int
    n_iter: int
    fit: float
    product: float
    direct: float
    difference: float

    def cells(self) -> list[str]:
        """Return the line in words."""
        seconds = [f"{s:.3g}" for s in (self.fit, self.product, self.direct)]
        gigabytes = f"{8e-9 * self.n_items**2:.3g}"
        counts = [f"{self.n_items:,}", str(N_BASIS), str(self.n_iter)]
        return [*counts, *seconds, f"{self.difference:.1e}", gigabytes]


def data(n_items: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 20))
    return X, X[:, 0] * X[:, 1] + rng.normal(size=n_items), np.arange(n_items) // 100


def timed(task):
    """Return the CPU seconds of a task, which others do not lengthen, and its result."""
    start = time.process_time()
    result = task()
    return time.process_time() - start, result


def measure(n_items: int) -> Measured:
    """Fit with and without the matrix."""
    X, y, qid = data(n_items)
    steps: list[object] = []
    settings = ConjugateGradients(TOL, n_basis=N_BASIS, progress=steps.append)
    options = {"kernel": KERNEL, "random_state": 0}
    fit, free = timed(lambda: RankRLS(ALPHA, solver=settings, **options).fit(X, y, qid=qid))
    direct, dense = timed(lambda: RankRLS(ALPHA, solver="direct", **options).fit(X, y, qid=qid))
    lead = np.abs(free.dual_coef_ - dense.dual_coef_).max()
    product, _ = timed(lambda: own_product(KERNEL, X, np.ones((n_items, 1))))
    difference = float(lead / np.abs(dense.dual_coef_).max())
    return Measured(n_items, len(steps), fit, product, direct, difference)


def section() -> str:
    """Return the table."""
    note = (
        f"RankRLS to a residual of {TOL:g}, in CPU seconds of all threads. `difference`: of the "
        "weights from the direct solution, as a share of the largest. For a GPU see above."
    )
    table = [f"| {' | '.join(HEADER)} |", "|" + "---:|" * len(HEADER)]
    measure(SIZES[0])  # warm-up
    lines = [f"| {' | '.join(measure(n_items).cells())} |" for n_items in SIZES]
    return "\n".join([note, "", *table, *lines]) + "\n"


if __name__ == "__main__":
    print(section())
