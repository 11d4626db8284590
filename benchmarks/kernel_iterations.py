"""Kernel problems without their matrix: conjugate gradients against the direct solution.

``python -m benchmarks kernel_iterations`` records a small table of the CPU. On a machine with a
GPU, ``python benchmarks/kernel_iterations.py --device cuda`` prints a table of Markdown for up to
1,000,000 items, or for those of ``--sizes 20000 200000``; it needs the source tree and torch. The
direct solution stands beside it where its matrix fits. Data: 20 standard normal features, queries
of 100 items, a Gaussian kernel of gamma 0.05, alpha 1.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np

from rankwise import ConjugateGradients, Gaussian, RankRLS
from rankwise.core.devices import as_device
from rankwise.features.kernels import own_product, own_product_on

KERNEL, ALPHA, TOL = Gaussian(0.05), 1.0, 1e-10
HOST_SIZES = (2_000, 4_000, 8_000)
DEVICE_SIZES = (20_000, 50_000, 200_000, 1_000_000)
LARGEST_DIRECT = 50_000
"""Items whose kernel matrix, 20 GB, is formed for comparison."""

HEADER = (
    *("items", "basis rows", "iterations", "fit s", "product s", "direct s"),
    *("difference", "matrix GB"),
)


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    n_items: int
    n_basis: int
    n_iter: int
    fit: float
    product: float
    direct: float
    difference: float

    def cells(self) -> list[str]:
        """Return the line in words; what was not measured is a dash."""
        seconds = [f"{s:.3g}" if s == s else "-" for s in (self.fit, self.product, self.direct)]
        gap = f"{self.difference:.1e}" if self.difference == self.difference else "-"
        gigabytes = f"{8e-9 * self.n_items**2:.3g}"
        return [f"{self.n_items:,}", str(self.n_basis), str(self.n_iter), *seconds, gap, gigabytes]


def data(n_items: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_items, 20))
    return X, X[:, 0] * X[:, 1] + rng.normal(size=n_items), np.arange(n_items) // 100


def clock(device: str | None) -> float:
    """Return CPU seconds on a CPU, which others may share; elapsed ones on a device."""
    return time.process_time() if device is None else time.perf_counter()


def measure(n_items: int, device: str | None, n_basis: int) -> Measured:
    """Fit with and without the matrix."""
    X, y, qid = data(n_items)
    steps: list[object] = []
    settings = ConjugateGradients(TOL, n_basis=n_basis, progress=steps.append)
    options = {"kernel": KERNEL, "device": device, "random_state": 0}
    start = clock(device)
    free = RankRLS(ALPHA, solver=settings, **options).fit(X, y, qid=qid)
    fit = clock(device) - start
    direct = difference = float("nan")
    if n_items <= LARGEST_DIRECT:
        start = clock(device)
        dense = RankRLS(ALPHA, solver="direct", **options).fit(X, y, qid=qid)
        direct = clock(device) - start
        lead = np.abs(free.dual_coef_ - dense.dual_coef_).max()
        difference = float(lead / np.abs(dense.dual_coef_).max())
    product = seconds_of_product(X, device)
    size = settings.basis_size(n_items)
    return Measured(n_items, size, len(steps), fit, product, direct, difference)


def seconds_of_product(X: np.ndarray, device: str | None) -> float:
    """Return the time of one product with the kernel."""
    V = np.ones((len(X), 1))
    there = as_device(device)
    rows = X if there is None else there.array(X)
    start = clock(device)
    if there is None:
        own_product(KERNEL, rows, V)
    else:
        there.host(own_product_on(KERNEL, rows, there, there.array(V)))
    return clock(device) - start


def lines(sizes: Sequence[int], device: str | None, n_basis: int) -> list[str]:
    """Return the table, printing each line when it is there."""
    table = [f"| {' | '.join(HEADER)} |", "|" + "---:|" * len(HEADER)]
    print("\n".join(table), flush=True)
    if device is not None:
        measure(min(2_000, *sizes), device, n_basis)  # start the device
    for n_items in sizes:
        table.append(f"| {' | '.join(measure(n_items, device, n_basis).cells())} |")
        print(table[-1], flush=True)
    return table


def section() -> str:
    """Return the table of the CPU."""
    note = (
        f"RankRLS to a residual of {TOL:g}, in CPU seconds of all threads on a busy 2-core "
        "machine. `difference`: of the weights from the direct solution, as a share of the largest."
    )
    return "\n".join([note, "", *lines(HOST_SIZES, None, 300)]) + "\n"


def main() -> None:
    """Print the table of a device, or of the CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="a device of PyTorch; NumPy's CPU when left out")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of items")
    parser.add_argument("--n-basis", type=int, help="basis rows of the preconditioner")
    given = parser.parse_args()
    lines(
        given.sizes or (DEVICE_SIZES if given.device else HOST_SIZES), given.device, given.n_basis
    )


if __name__ == "__main__":
    main()
