"""What is computed from arrays of any namespace is what NumPy computes, and stays there."""

from types import SimpleNamespace

import numpy as np
import pytest

from laws.kernels import CASES
from laws.namespaces import assert_same, every_namespace
from rankwise import Gaussian, NumericalError, Polynomial, Precomputed
from rankwise.core.namespaces import (
    add_gram,
    cholesky,
    cholesky_in_place,
    cholesky_solve,
    copy_of,
    eigh_in_place,
    exp_in_place,
    gram,
    invert_factored,
    invert_triangle,
    is_finite,
    largest_eigenpairs,
    like,
    namespace_of,
    row_blocks,
    segment_sums,
    set_diagonal,
    solve_definite,
    solve_rows,
    solve_triangular,
    squared_norms,
    take_rows,
    to_host,
)
from rankwise.features.components import find_components
from rankwise.features.function_space import Basis, Expansion, Identity
from rankwise.features.kernels import (
    ANY_NAMESPACE,
    finite_kernel,
    kernel_matrix,
    kernel_with_rows,
    own_product,
)
from rankwise.selection.complete_pairs import leave_out_of_complete
from rankwise.selection.leave_query_out import Solution
from rankwise.solve.normal_equations import Spectrum

RNG = np.random.default_rng(3)
X = RNG.normal(size=(13, 4)) + 2.0
NEW = RNG.normal(size=(7, 4)) + 2.0
EMPTY = X[:0]

DEFINITE = X @ X.T + np.eye(13)


def assert_stays(found, given):
    """Say that a result is in the namespace of what was given, in double precision."""
    xp = namespace_of(given)
    assert namespace_of(found) is xp
    assert found.dtype == xp.float64


ANYWHERE = [case for case in CASES if isinstance(case.kernel, ANY_NAMESPACE)]


def named(case):
    return repr(case.kernel) if case.is_storable else type(case.kernel).__name__


@every_namespace
@pytest.mark.parametrize("case", CASES, ids=named)
class TestKernels:
    def test_of_two_sets_of_rows(self, case, there):
        rows, some = case.rows, case.rows if isinstance(case.kernel, Precomputed) else case.rows[:5]
        found = kernel_matrix(case.kernel, there(rows), there(some))
        assert_stays(found, there(rows))
        assert_same(found, case.kernel(rows, some.copy()))

    def test_of_rows_with_themselves(self, case, there):
        given = there(case.rows)
        assert_same(finite_kernel(case.kernel, given, given), case.kernel(case.rows, case.rows))
        np.testing.assert_array_equal(to_host(given), case.rows)

    def test_with_rows_that_are_known(self, case, there):
        other = case.rows + 0.0
        held = kernel_with_rows(case.kernel, there(other))
        assert_same(held(there(case.rows[:3])), case.kernel(case.rows[:3], other))


@every_namespace
@pytest.mark.parametrize("case", ANYWHERE, ids=named)
def test_the_diagonal_of_a_kernel(case, there):
    found = case.kernel.diagonal(there(case.rows))
    assert_stays(found, there(case.rows))
    assert_same(found, case.kernel.diagonal(case.rows))


@every_namespace
@pytest.mark.parametrize("case", [case for case in CASES if case.kernel.is_function], ids=named)
def test_products_with_a_kernel_whose_matrix_is_not_formed(case, there):
    V = np.arange(2.0 * len(case.rows)).reshape(-1, 2)
    expected = case.kernel(case.rows, case.rows) @ V
    for tile in (2, None):
        assert_same(own_product(case.kernel, there(case.rows), there(V), tile), expected)


@every_namespace
def test_an_offset_of_a_gaussian_kernel_costs_no_digits(there):
    moved = np.round(X * 2**20) / 2**20 + 2.0**30
    K = Gaussian(0.3)(moved - 2.0**30, moved - 2.0**30)
    rows = there(moved)
    np.testing.assert_allclose(to_host(Gaussian(0.3)(rows, rows)), K, atol=1e-9)
    np.testing.assert_allclose(to_host(Gaussian(0.3).with_rows(rows)(rows)), K, atol=1e-9)


@every_namespace
def test_a_kernel_beyond_double_precision_is_refused(there):
    rows = there(100.0 * X)
    with pytest.raises(NumericalError, match="its values exceed the range of double precision"):
        finite_kernel(Polynomial(1000, gamma=1.0), rows, rows)


MAPS = {
    "rows": Identity(),
    "kernel": Expansion(Gaussian(0.3), X),
    "kernel of NumPy": Expansion(CASES[6].kernel, X),
    "basis": Basis.of(Gaussian(0.3), X[:6]),
    "dependent basis": Basis.of(Gaussian(0.3), np.concatenate([X[:4], X[:4]])),
    "components": find_components(Gaussian(0.3), X, 4)[0],
    "components of rows": find_components(CASES[0].kernel, X, 3)[0],
}


@every_namespace
@pytest.mark.parametrize("name", MAPS)
class TestMaps:
    def test_features(self, name, there):
        found = MAPS[name].map(there(NEW))
        assert_stays(found, there(NEW))
        assert_same(found, MAPS[name].map(NEW), 1e-9)  # the dependent basis divides by 1e-6

    def test_features_may_be_whitened_late(self, name, there):
        given = there(NEW)
        F, C = MAPS[name].raw(given)
        Z = F if C is None else solve_rows(C, F)
        assert_same(Z, MAPS[name].map(NEW), 1e-9)
        np.testing.assert_array_equal(to_host(given), NEW)

    def test_scores(self, name, there, monkeypatch):
        feature_map = MAPS[name]
        weights = feature_map.fold(np.ones((feature_map.map(NEW).shape[1], 2)))
        expected = feature_map.product(NEW, weights)
        for entries in (1, 1 << 27):
            monkeypatch.setattr("rankwise.features.function_space.DEVICE_ENTRIES", entries)
            assert_same(feature_map.product(there(NEW), there(weights)), expected, 1e-12)
        assert feature_map.product(there(EMPTY), there(weights)).shape == (0, 2)


@every_namespace
class TestOperations:
    def test_copies_are_contiguous_and_apart(self, there):
        given = there(X)
        copy = copy_of(given.T)
        set_diagonal(copy_of(copy[:4, :4]), 0.0)
        copy[...] = 0.0
        np.testing.assert_array_equal(to_host(given), X)

    def test_what_is_brought_stays_as_it_was(self, there):
        frozen = X.copy()
        frozen.flags.writeable = False
        brought = like(frozen, there(NEW))
        assert_same(brought, X, 0.0)
        assert like(brought, there(NEW)) is brought
        numbers = like(np.arange(3), there(NEW))
        assert to_host(numbers).dtype == np.arange(3).dtype

    def test_rows_are_taken_and_cut(self, there):
        rows = np.array([5, 0, 5])
        assert_same(take_rows(there(X), rows), X[rows], 0.0)
        blocks = list(row_blocks(there(X), entries=21))
        assert np.concatenate([np.arange(13)[some] for some in blocks]).tolist() == list(range(13))
        assert len(blocks) == 3

    def test_exponentials_of_what_rounding_made_positive_are_1(self, there):
        given = np.array([[-1.0, 1e-17], [0.0, -800.0]])
        assert_same(exp_in_place(there(given)), np.exp(np.minimum(given, 0.0)))

    def test_diagonals_and_norms(self, there):
        A = there(DEFINITE)
        set_diagonal(A, 7.0)
        expected = DEFINITE.copy()
        np.fill_diagonal(expected, 7.0)
        assert_same(A, expected, 0.0)
        assert_same(squared_norms(there(X)), (X**2).sum(axis=1))

    @pytest.mark.parametrize("entries", [1, 6, 1 << 20])
    def test_whether_numbers_are_finite(self, there, entries):
        assert is_finite(there(EMPTY), entries)
        assert is_finite(there(np.full((3, 2), 1e308)), entries)
        for value in (np.nan, np.inf):
            values = X.copy()
            values[12, 1] = value
            assert not is_finite(there(values), entries)

    def test_sums_by_segments(self, there):
        index, weight = np.array([2, 0, 2, 3] * 3 + [0]), np.arange(13.0)[:, None]
        for scaled, given in ((X, None), (weight * X, there(weight))):
            expected = np.zeros((5, 4))
            np.add.at(expected, index, scaled)
            found = segment_sums(there(X), like(index, there(X)), 5, given)
            assert_same(found, expected)

    @pytest.mark.parametrize("leaf", [3, 512])
    def test_inverses_and_sums_of_squares_by_blocks(self, there, monkeypatch, leaf):
        monkeypatch.setattr("rankwise.core.namespaces.LEAF", leaf)
        C = np.linalg.cholesky(DEFINITE)
        assert_same(gram(there(X)), X.T @ X)
        G = there(DEFINITE[:4, :4])
        add_gram(G, there(X))
        assert_same(G, DEFINITE[:4, :4] + X.T @ X)
        assert_same(invert_triangle(there(C)), np.linalg.inv(C), 1e-11)
        assert_same(invert_factored(there(C)), np.linalg.inv(DEFINITE), 1e-11)
        factor = cholesky_in_place(there(DEFINITE))
        assert_same(cholesky_solve(factor, there(X)), np.linalg.solve(DEFINITE, X), 1e-11)
        assert cholesky_in_place(there(-DEFINITE)) is None

    def test_factors_and_what_they_solve(self, there, monkeypatch):
        C, B = np.linalg.cholesky(DEFINITE), X[:, :2]
        factor = cholesky(there(DEFINITE))
        assert_same(factor, C, 1e-12)
        assert_same(solve_triangular(factor, there(B)), np.linalg.solve(C, B), 1e-11)
        found = solve_triangular(factor, there(B), transposed=True)
        assert_same(found, np.linalg.solve(C.T, B), 1e-11)
        for leaf in (5, 512):
            monkeypatch.setattr("rankwise.core.namespaces.LEAF", leaf)
            found = solve_rows(factor, there(np.ascontiguousarray(B.T)))
            assert_same(found, np.linalg.solve(C, B).T, 1e-11)
        assert cholesky(there(-DEFINITE)) is None

    def test_stacks_of_systems_and_their_pivots(self, there):
        A = np.stack([DEFINITE[:4, :4], np.diag([1.0, 2.0, -1.0, 1.0]), DEFINITE[4:8, 4:8]])
        B = RNG.normal(size=(3, 4, 2))
        solved, pivot = solve_definite(there(A), there(B))
        right = np.array([0, 2])
        expected = np.linalg.solve(A[right], B[right])
        assert_same(take_rows(solved, right), expected, 1e-11)
        lowest = np.diagonal(np.linalg.cholesky(A[right]), axis1=1, axis2=2).min(axis=1)
        shares = lowest**2 / np.diagonal(A[right], axis1=1, axis2=2).max(axis=1)
        assert_same(pivot, np.array([shares[0], 0.0, shares[1]]), 1e-12)

    def test_eigenpairs(self, there):
        values, vectors = eigh_in_place(there(DEFINITE))
        expected = np.linalg.eigvalsh(DEFINITE)
        assert_same(values, expected)
        assert_same((vectors * values) @ vectors.T, DEFINITE, 1e-12)
        largest, leading = largest_eigenpairs(there(DEFINITE), 3)
        assert_same(largest, expected[-3:])
        assert_same(DEFINITE @ leading, leading * largest, 1e-12)


SIZES = np.array([3, 1, 3, 2, 4])
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
ORDER = np.random.default_rng(5).permutation(STARTS[-1])
TARGETS, OTHER_TARGETS = RNG.normal(size=(13, 2)), RNG.normal(size=(4, 2))
ALPHAS = np.array([1e-2, 1e4, 1.0])  # of which one is above the largest eigenvalue


def solutions(there):
    """Return what one row is scored by and its solutions: a kernel, decomposed and factorised.

    And features, with data that lie elsewhere and are never left out.
    """
    S = DEFINITE - np.eye(13)
    values, vectors = np.linalg.eigh(S)
    values = np.maximum(values, 0.0)
    yield S, 0.0, np.eye(13), Solution.decomposed(Spectrum(values, there(vectors)), TARGETS, ALPHAS)
    for a, alpha in enumerate(ALPHAS):
        inverse = np.linalg.inv(np.linalg.cholesky(S + alpha * np.eye(13)))
        yield S, 0.0, np.eye(13), (np.array([a]), Solution.factored(there(inverse), TARGETS))
    elsewhere = RNG.normal(size=(4, 4))
    values, V = np.linalg.eigh(X.T @ X + elsewhere.T @ elsewhere)
    moment = X.T @ TARGETS + elsewhere.T @ OTHER_TARGETS
    found = Solution.of_features(Spectrum(values, there(V)), there(X), there(moment), ALPHAS)
    yield None, elsewhere, X, (np.arange(3), found)


@every_namespace
def test_folds_left_out_of_a_solution_are_refits(there):
    """[PTA09] (33), by eigenvectors and by factors, of features too; also rows of each fold."""
    fold_of_row = np.array([4, 0, 4])
    members = np.argsort(fold_of_row, kind="stable"), np.array([0, 1, 1, 1, 1, 3])
    for S, elsewhere, H, (which, solution) in solutions(there):
        rows, share = RNG.normal(size=(3, H.shape[1])), 1e-9  # rounding times 2e4, and a margin
        held_out, scores, pivots = solution.leave_out(
            TARGETS, (ORDER, STARTS), there(rows), members
        )
        assert pivots.shape == (5, len(which))
        assert 0.0 < pivots.min() <= pivots.max() <= 1.0 + 1e-12
        for a, alpha in enumerate(ALPHAS[which]):
            for q in range(5):
                U = ORDER[STARTS[q] : STARTS[q + 1]]
                rest = np.setdiff1d(ORDER, U)
                if S is None:
                    A = H[rest].T @ H[rest] + elsewhere.T @ elsewhere + alpha * np.eye(4)
                    w = np.linalg.solve(A, H[rest].T @ TARGETS[rest] + elsewhere.T @ OTHER_TARGETS)
                    expected = H[U] @ w
                else:
                    A = S[np.ix_(rest, rest)] + alpha * np.eye(len(rest))
                    w = np.zeros((13, 2))
                    w[rest] = np.linalg.solve(A, TARGETS[rest])
                    expected = S[U] @ w
                assert_same(held_out[a, U], expected, share)
                own = np.flatnonzero(fold_of_row == q)
                assert_same(scores[a, own], rows[own] @ w, share)


@every_namespace
@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("mu", [1.0, 1e9])
def test_pairs_left_out_of_a_complete_graph(there, is_explicit, mu):
    """[PTA09] (38): as on the host, which laws compare with refits; also for a large alpha."""
    K, weight = Gaussian(0.1)(X, X), np.linspace(0.5, 2.0, 13)
    Y = np.column_stack([np.arange(13) % 4.0, np.isin(np.arange(13), [3, 5]), X[:, 0]]).astype(
        float
    )

    def left_out(there):
        space = SimpleNamespace(
            is_explicit=is_explicit,
            kernel_matrix=lambda *_: there(K.copy()),
            features=lambda *_: there(X),
        )
        return leave_out_of_complete(space, np.arange(13), Y, weight, np.array([mu]))

    found, expected = left_out(there), left_out(np.array)
    np.testing.assert_array_equal(found.right, expected.right)
    np.testing.assert_array_equal(found.total, expected.total)
    np.testing.assert_allclose(found.error, expected.error, rtol=1e-3)
