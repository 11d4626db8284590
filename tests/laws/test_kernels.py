"""What holds for every kernel, those of the Gaussian process among them."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise
from laws.implementations import implementations
from laws.kernels import CASES, KERNELS, Case
from problems import problem
from rankwise import InvalidInputError, Kernel, RankRLS
from rankwise.comparisons.gp.terms import Covariance, WithCircles
from rankwise.core.storable import STORABLE, storable
from rankwise.features import kernels as home
from rankwise.features.function_space import smallest_space
from rankwise.features.kernels import as_kernel, chosen_by_name
from rankwise.rankers.storage import StateReader, StateWriter

P = problem(seed=0, sizes=(6, 5, 1, 7))


def named(case):
    return repr(case.kernel) if case.is_storable else type(case.kernel).__name__


every_kernel = pytest.mark.parametrize("case", CASES, ids=named)


def test_every_kernel_is_asked():
    adapters = {Covariance, WithCircles}  # rows with more columns; tested with the process
    assert {type(kernel) for kernel in KERNELS} == implementations(Kernel) - adapters


@every_kernel
def test_the_matrix_is_symmetric_and_semidefinite(case):
    K = case.kernel(case.rows, case.rows)
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, K.T, atol=1e-14)
    assert np.linalg.eigvalsh(K).min() > -1e-12


@every_kernel
def test_the_diagonal_is_that_of_the_matrix(case):
    K = case.kernel(case.rows, case.rows)
    np.testing.assert_allclose(case.kernel.diagonal(case.rows), np.diag(K), atol=1e-14)


@every_kernel
def test_a_row_of_the_matrix_belongs_to_a_row(case):
    others = case.rows.copy()  # white noise of scikit-learn's kernels tells a set from its copy
    K = case.kernel(case.rows, others)
    np.testing.assert_allclose(case.kernel(case.rows[[4, 1]], others), K[[4, 1]], atol=1e-14)


@every_kernel
def test_a_fitted_kernel_is_itself(case):
    assert case.kernel.fitted_to(case.rows) == case.kernel


@every_kernel
def test_the_rows_and_the_matrix_may_be_changed_by_nobody_else(case):
    before = case.rows.copy()
    K = case.kernel(case.rows, case.rows)
    expected = K.copy()
    K[:] = np.nan  # a solver may overwrite it
    np.testing.assert_array_equal(case.rows, before)
    np.testing.assert_array_equal(case.kernel(case.rows, case.rows), expected)


@every_kernel
def test_sparse_rows_equal_dense_or_are_refused(case):
    dense = np.where(case.rows > 0, case.rows, 0.0)
    sparse = csr_array(dense)
    if not case.kernel.accepts_sparse:
        with pytest.raises(InvalidInputError, match="must have dense rows: got a sparse X"):
            smallest_space(sparse, case.kernel, None, 3)
        return
    K = case.kernel(dense, dense)
    np.testing.assert_allclose(case.kernel(sparse, sparse), K, atol=1e-14)
    np.testing.assert_allclose(case.kernel(sparse, dense[:2]), K[:, :2], atol=1e-14)
    np.testing.assert_allclose(case.kernel.diagonal(sparse), np.diag(K), atol=1e-14)


@every_kernel
def test_single_precision_is_close_to_double(case):
    single = case.rows.astype(np.float32)
    double = single.astype(np.float64)
    K = case.kernel(double, double)
    np.testing.assert_allclose(case.kernel(single, single), K, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case.ignores_offsets], ids=named)
def test_an_offset_changes_nothing_and_costs_no_digits(case):
    exact = np.round(case.rows * 2**20) / 2**20
    moved = exact + 2.0**30
    K = case.kernel(exact, exact)
    np.testing.assert_allclose(case.kernel(moved, moved), K, atol=1e-9)
    np.testing.assert_allclose(case.kernel(moved, moved[:3]), case.kernel(exact, exact[:3]))


@every_kernel
def test_a_pickled_kernel_is_the_kernel(case):
    again = pickle.loads(pickle.dumps(case.kernel))
    assert again == case.kernel
    if case.is_storable:
        assert hash(again) == hash(case.kernel)


@every_kernel
def test_a_stored_kernel_is_the_kernel_or_is_refused(case, tmp_path):
    writer = StateWriter()
    if not case.is_storable:
        with pytest.raises(InvalidInputError, match="Only built-in values can be saved"):
            writer.encode(case.kernel)
        return
    stored = writer.encode(case.kernel)
    assert StateReader(tmp_path / "m", writer.arrays).decode(stored) == case.kernel


def test_a_name_means_one_kernel_and_every_name_is_asked():
    known = {kernel.name: type(kernel) for kernel in KERNELS if kernel.name is not None}
    assert known == home.KERNELS
    assert all(type(as_kernel(name)) is cls for name, cls in known.items())


def assert_ranks_by_name(name, path):
    """Fit by name, save, load: the same scores as with the kernel itself."""
    by_name = RankRLS(kernel=name)
    square = as_kernel(name).is_function is False
    X = P.X @ P.X.T if square else P.X
    scores = by_name.fit(X, P.y, qid=P.qid).predict(X)
    itself = RankRLS(kernel=as_kernel(name)).fit(X, P.y, qid=P.qid)
    np.testing.assert_array_equal(scores, itself.predict(X))
    assert np.ptp(scores) > 0
    by_name.save(path)
    loaded = rankwise.load(path)
    assert loaded.kernel == name
    assert loaded.kernel_ == by_name.kernel_
    np.testing.assert_array_equal(loaded.predict(X), scores)


@pytest.mark.parametrize("name", [kernel.name for kernel in KERNELS if kernel.name is not None])
def test_a_ranker_finds_a_kernel_by_name_and_brings_it_back_from_a_file(name, tmp_path):
    assert_ranks_by_name(name, tmp_path / "model")


# A kernel is its definition and one line in CASES.


@pytest.fixture
def toy():
    """Define a kernel as an engineer would; forget it afterwards."""

    @chosen_by_name
    @storable
    @dataclass(frozen=True)
    class Cauchy(Kernel):
        name = "cauchy"
        accepts_sparse = False

        width: float = 1.5

        def __call__(self, A, B):
            return 1.0 / (1.0 + np.square((A[:, None] - B) / self.width).sum(axis=2))

        def diagonal(self, A):
            return np.ones(len(A))

        def fitted_to(self, X, sample_weight=None):
            return self

    yield Case(Cauchy(), ignores_offsets=True)
    del STORABLE["Cauchy"], home.KERNELS["cauchy"]


def test_a_new_kernel_needs_its_definition_only(toy, tmp_path):
    assert_ranks_by_name("cauchy", tmp_path / "model")
    with_parameters = RankRLS(kernel=type(toy.kernel)(0.5)).fit(P.X, P.y, qid=P.qid)
    with_parameters.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert loaded.kernel == type(toy.kernel)(0.5)
    np.testing.assert_array_equal(loaded.predict(P.X), with_parameters.predict(P.X))
    for law in (
        test_the_matrix_is_symmetric_and_semidefinite,
        test_the_diagonal_is_that_of_the_matrix,
        test_a_row_of_the_matrix_belongs_to_a_row,
        test_a_fitted_kernel_is_itself,
        test_the_rows_and_the_matrix_may_be_changed_by_nobody_else,
        test_sparse_rows_equal_dense_or_are_refused,
        test_single_precision_is_close_to_double,
        test_an_offset_changes_nothing_and_costs_no_digits,
    ):
        law(toy)
    test_a_stored_kernel_is_the_kernel_or_is_refused(toy, tmp_path)
