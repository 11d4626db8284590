"""What holds for every function space: features, kernel, weights and scores belong together."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from laws.implementations import implementations
from laws.namespaces import every_namespace
from rankwise import Gaussian, InvalidInputError, Laplacian, Linear, Polynomial, Precomputed
from rankwise.core.arrays import dense_rows
from rankwise.core.namespaces import to_host
from rankwise.features.function_space import (
    Basis,
    Expansion,
    FunctionSpace,
    basis_space,
    explicit_space,
    function_space,
    smallest_space,
    unknowns_of_sparse_rows,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 3)) + np.array([4.0, 0.0, -2.0])
WIDE = np.where(RNG.random((9, 20)) > 0.5, RNG.normal(size=(9, 20)), 0.0)
REPEATED = X[[0, 1, 2, 0, 1, 3]]
SOME, OTHERS = np.array([7, 0, 3, 5]), np.array([1, 8, 2])


def rng():
    return np.random.default_rng(5)


@dataclass(frozen=True)
class Case:
    """A space over rows, and the kernel that it stands for; None where it approximates one."""

    space: FunctionSpace
    kernel: np.ndarray | None
    rows: np.ndarray = field(default_factory=lambda: X)


def kernel_of(kernel, rows):
    return kernel(rows, rows)


SPACES = {
    "features": Case(function_space(X, Linear(), None, rng()), X @ X.T),
    "features, smallest": Case(smallest_space(X, Linear(), None, 12), X @ X.T),
    "items of a linear kernel": Case(smallest_space(WIDE, Linear(), None, 5), WIDE @ WIDE.T, WIDE),
    "items of sparse rows": Case(
        smallest_space(csr_array(WIDE), Linear(), None, 5), WIDE @ WIDE.T, csr_array(WIDE)
    ),
    "kernel": Case(smallest_space(X, Gaussian(0.2), None, 5), kernel_of(Gaussian(0.2), X)),
    "kernel, dense rows only": Case(
        function_space(X, Laplacian(0.2), None, rng()), kernel_of(Laplacian(0.2), X)
    ),
    "kernel of sparse rows": Case(
        function_space(csr_array(WIDE), Polynomial(2, 0.5, 1.0), None, rng()),
        kernel_of(Polynomial(2, 0.5, 1.0), WIDE),
        csr_array(WIDE),
    ),
    "kernel, precomputed": Case(
        function_space(X @ X.T, Precomputed(), None, rng()), X @ X.T, X @ X.T
    ),
    "kernel as features": Case(
        explicit_space(X, Gaussian(0.2), None, rng()), kernel_of(Gaussian(0.2), X)
    ),
    "singular kernel as features": Case(
        explicit_space(REPEATED, Gaussian(0.2), None, rng()),
        kernel_of(Gaussian(0.2), REPEATED),
        REPEATED,
    ),
    "basis of all rows": Case(
        basis_space(X, Basis.of(Gaussian(0.2), X)), kernel_of(Gaussian(0.2), X)
    ),
    "basis": Case(function_space(X, Gaussian(0.2), 5, rng()), None),
    "basis, smallest": Case(smallest_space(X, Laplacian(0.2), X[:4], 5), None),
    "basis, linear": Case(explicit_space(X, Linear(), 5, rng()), X @ X.T),
}
every_space = pytest.mark.parametrize("case", SPACES.values(), ids=SPACES)


def centred(K):
    """Return K centred: what a graph sees of it."""
    C = np.eye(len(K)) - 1.0 / len(K)
    return C @ K @ C


def unknowns(space, n_items, shape=()):
    """Draw what a solver finds: weights of features, or of items, which sum to zero."""
    n_unknowns = space.features().shape[1] if space.is_explicit else n_items
    weights = np.random.default_rng(1).normal(size=(n_unknowns, *shape))
    return weights if space.is_explicit else weights - weights.mean(axis=0)


def known(case, rows):
    """Return some of the row numbers, as far as the case has so many."""
    return rows[rows < case.rows.shape[0]]


def test_every_space_is_asked():
    assert {type(case.space) for case in SPACES.values()} == implementations(FunctionSpace)


@every_space
@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_folded_weights_and_predictor_give_the_scores(case, shape):
    space, n_items = case.space, case.rows.shape[0]
    weights = unknowns(space, n_items, shape)
    scores = space.predictor.product(case.rows, space.fold(weights))
    known_by = space.features() if space.is_explicit else space.kernel_matrix()
    expected = known_by @ weights
    difference = scores - expected
    np.testing.assert_allclose(difference - difference[0], 0.0, atol=1e-9)


@every_space
def test_scores_under_several_solutions_are_those_of_the_predictor(case):
    space, rows, of = case.space, known(case, SOME), known(case, OTHERS)
    points = unknowns(space, len(rows), (2,)).T
    folded = space.fold(np.ascontiguousarray(points.T), rows)
    difference = space.scores(points, rows, of) - space.predictor.product(case.rows[of], folded).T
    np.testing.assert_allclose(difference - difference[:, :1], 0.0, atol=1e-9)


@every_space
def test_features_and_kernel_agree_up_to_centring(case):
    Z = dense_rows(case.space.features())
    K = case.space.kernel_matrix()
    np.testing.assert_allclose(centred(Z @ Z.T), centred(K), atol=1e-8)
    if case.kernel is not None:
        np.testing.assert_allclose(centred(K), centred(case.kernel), atol=1e-8)


@every_space
def test_some_rows_are_those_of_all(case):
    rows = known(case, SOME)
    K = case.space.kernel_matrix()[np.ix_(rows, rows)]
    np.testing.assert_allclose(centred(case.space.kernel_matrix(rows)), centred(K), atol=1e-9)
    Z = dense_rows(case.space.features(rows))
    np.testing.assert_allclose(centred(Z @ Z.T), centred(K), atol=1e-8)
    if case.space.is_explicit:
        np.testing.assert_array_equal(Z, dense_rows(case.space.features())[rows])


@every_space
def test_the_kernel_may_be_overwritten(case):
    everything = np.arange(case.rows.shape[0])
    for rows in (None, known(case, SOME), everything):
        K = case.space.kernel_matrix(rows)
        expected = K.copy()
        K[:] = np.nan
        np.testing.assert_array_equal(case.space.kernel_matrix(rows), expected)


KERNEL_SPACES = [name for name, case in SPACES.items() if case.space.predictor.is_dual]


@pytest.mark.parametrize(
    "name", [name for name in KERNEL_SPACES if not SPACES[name].space.is_explicit]
)
def test_a_joined_function_is_the_sum_of_both(name):
    case = SPACES[name]
    n_items = case.rows.shape[0]
    new, earlier = unknowns(case.space, n_items), np.arange(1.0, 4.0)
    if name == "kernel, precomputed":
        with pytest.raises(InvalidInputError, match="must be able to compute the kernel"):
            case.space.join(new, case.space.predictor, earlier)
        return
    before = Expansion(case.space.kernel, case.rows[:3] * 0.5)
    predictor, weights = case.space.join(new, before, earlier)
    expected = case.space.predictor.product(case.rows, case.space.fold(new))
    expected = expected + before.product(case.rows, earlier)
    np.testing.assert_allclose(predictor.product(case.rows, weights), expected, atol=1e-10)


def test_sparse_rows_of_a_linear_kernel_have_as_many_unknowns_as_features_or_rank():
    rows = csr_array(np.eye(5, 8))
    assert unknowns_of_sparse_rows(rows, Linear(), None, 4) == 4
    assert unknowns_of_sparse_rows(rows, Linear(), None, 20) == 8
    assert unknowns_of_sparse_rows(rows, Gaussian(1.0), None, 4) == 0
    assert unknowns_of_sparse_rows(rows.toarray(), Linear(), None, 4) == 0
    assert unknowns_of_sparse_rows(rows, Linear(), 3, 4) == 0


@pytest.mark.parametrize("name", [k for k, case in SPACES.items() if not issparse(case.rows)])
@every_namespace
def test_every_namespace_knows_the_same_functions(name, there):
    """Rows elsewhere give the same features, kernels, folded weights and scores."""
    case = SPACES[name]
    known_rows = getattr(case.space, "known", None)
    moved = replace(case.space, X=there(case.space.X))
    if known_rows is not None:
        moved = replace(moved, known=there(known_rows))
    rows, of = known(case, SOME), known(case, OTHERS)
    points = unknowns(case.space, len(rows), (2,)).T
    for found, expected in (
        (moved.features(), case.space.features()),
        (moved.features(rows), case.space.features(rows)),
        (moved.kernel_matrix(), case.space.kernel_matrix()),
        (moved.kernel_matrix(rows), case.space.kernel_matrix(rows)),
        (moved.scores(points, rows, of), case.space.scores(points, rows, of)),
        (moved.fold(points.T, rows), case.space.fold(points.T, rows)),
        (moved.on_host().features(), case.space.features()),
        (moved.on_host().kernel_matrix(), case.space.kernel_matrix()),
    ):
        slack = 1e-7 * np.abs(expected).max()  # features of a singular kernel divide by 1e-6
        np.testing.assert_allclose(np.abs(to_host(found)), np.abs(expected), atol=slack)
