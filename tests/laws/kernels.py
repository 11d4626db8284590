"""The kernels that every law is asked of: a new one is one line in CASES."""

from dataclasses import dataclass, field

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from rankwise import Gaussian, Laplacian, Linear, Polynomial, Precomputed, SquaredExponential
from rankwise.features.covariances import Scaled, SklearnKernel
from rankwise.features.kernels import Custom, Kernel

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(9, 3))
ROWS[7], ROWS[8] = ROWS[1], 0.0  # equal rows, and one of zeros


def inner_products(A, B):
    return A @ B.T


@dataclass(frozen=True)
class Case:
    """A kernel, what it promises, and rows that it can be asked about."""

    kernel: Kernel
    ignores_offsets: bool = False
    """Whether rows may all be moved by the same vector."""
    is_storable: bool = True
    rows: np.ndarray = field(default_factory=lambda: ROWS)


CASES = [
    Case(Linear()),
    Case(Gaussian(0.7), ignores_offsets=True),
    Case(Laplacian(0.7), ignores_offsets=True),
    Case(Polynomial(2, 0.7, 1.5)),
    Case(Polynomial(3, 0.2, 0.0)),
    Case(Precomputed(), rows=ROWS @ ROWS.T),
    Case(Custom(inner_products), is_storable=False),
    Case(SquaredExponential(1.3, 0.9), ignores_offsets=True),
    Case(SquaredExponential(1.3, (0.9, 1.0, 2.0)), ignores_offsets=True),
    Case(SquaredExponential(1.3, 0.9, 0.6), ignores_offsets=True),
    Case(SquaredExponential(1.3, (0.9, 1.0, 2.0), 0.6), ignores_offsets=True),
    Case(Scaled(Gaussian(0.4), 2.0), ignores_offsets=True),
    Case(Scaled(Polynomial(2, 0.5, 1.0), 2.0)),
    Case(
        SklearnKernel(2.0 * RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.3)),
        ignores_offsets=True,
        is_storable=False,
    ),
    Case(
        SklearnKernel(2.0 * RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.3), max_entries=60),
        ignores_offsets=True,
        is_storable=False,
    ),
    Case(
        SklearnKernel(ConstantKernel(2.0, "fixed") * Matern(nu=1.5)),
        ignores_offsets=True,
        is_storable=False,
    ),
]
KERNELS = [case.kernel for case in CASES]
