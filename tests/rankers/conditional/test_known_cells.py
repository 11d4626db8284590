"""Products over known cells equal those with the kernel matrix of pairs."""

import numpy as np
import pytest

from rankwise import ConditionalRankRLSCV, ConjugateGradients, Gaussian, Linear
from rankwise.rankers.conditional.known_cells import KnownCells, PairKernels, VecTrick

HOST = np.zeros(1)


def kernels(n_conditions, n_items, n_features, kernel=None, sign=0):
    rng = np.random.default_rng(0)
    k = kernel or Linear()
    U, V = (rng.normal(size=(n, n_features)) for n in (n_conditions, n_items))
    return PairKernels(k(U, U), k(U, U) if sign else k(V, V), sign, HOST)


def some_cells(shape, n_cells, seed=0):
    chosen = np.random.default_rng(seed).permutation(shape[0] * shape[1])[:n_cells]
    return KnownCells(*np.divmod(chosen, shape[1]), shape, np.zeros(n_cells))


CASES = [
    # conditions, items, features, known cells, kernel, sign, the way
    (40, 50, 2, 60, None, 0, (True, False)),
    (30, 90, 2, 60, None, 0, (True, False)),
    (90, 30, 2, 60, None, 0, (True, True)),
    (40, 50, 60, 5, Gaussian(0.1), 0, (False, False)),
    (50, 50, 2, 60, None, 1, (True, False)),
    (50, 50, 2, 60, None, -1, (True, False)),
    (50, 50, 60, 5, Gaussian(0.1), -1, (False, False)),
]


@pytest.mark.parametrize(("n", "q", "d", "n_known", "kernel", "sign", "way"), CASES)
def test_the_vec_trick_equals_the_kernel_of_pairs(n, q, d, n_known, kernel, sign, way):
    pairs, known = kernels(n, q, d, kernel, sign), some_cells((n, q), n_known)
    trick = VecTrick.of(pairs, known)
    assert (trick.is_factor, trick.is_swapped) == way
    values = np.random.default_rng(1).normal(size=n_known)
    asked = some_cells((n, q), n * q // 3, seed=2)
    found = trick.scores_at(values, known, asked)
    # every pair with every other, (anti)symmetrised
    full = np.kron(pairs.K, pairs.G)
    if sign:
        swap = np.arange(n * q).reshape(n, q).T.ravel()
        full = (full + sign * full[:, swap]) / 2
        full = (full + sign * full[swap]) / 2
    codes = [cells.row * q + cells.column for cells in (asked, known)]
    expected = full[np.ix_(*codes)] @ values
    size = np.abs(pairs.K).max() * np.abs(pairs.G).max() * np.abs(values).sum()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * size)


def test_all_pairs_are_multiplied_where_most_are_known():
    assert VecTrick.of(kernels(40, 50, 60, Gaussian(0.1)), some_cells((40, 50), 1900)) is None


def test_folds_share_the_spectra(monkeypatch):
    """Kernels are decomposed once, not in every fold."""
    from rankwise.rankers.conditional import known_cells

    seen = []
    of = known_cells.KernelSpectrum.of
    monkeypatch.setattr(known_cells.KernelSpectrum, "of", lambda K: seen.append(len(K)) or of(K))
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(20, 3)), rng.normal(size=(15, 3))
    y = np.where(rng.random((20, 15)) < 0.4, U @ V.T, np.nan)
    solver = ConjugateGradients(tol=1e-6)
    ConditionalRankRLSCV([0.1, 1.0], new="items", cv=4, solver=solver, random_state=0).fit(U, V, y)
    assert seen == [20, 15]
