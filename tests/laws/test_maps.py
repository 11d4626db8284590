"""What holds for every feature map: folded weights score as weights of features do."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from laws.implementations import implementations
from rankwise import Gaussian, Laplacian, Linear, Polynomial
from rankwise.features.components import find_components
from rankwise.features.function_space import (
    BLOCK_ROWS,
    FEW_ENTRIES,
    Basis,
    Expansion,
    FeatureMap,
    Identity,
)
from rankwise.features.kernels import as_kernel

RNG = np.random.default_rng(0)
TRAINING = RNG.normal(size=(14, 3)) + np.array([5.0, 0.0, -3.0])
NEW = np.where(RNG.random((11, 3)) > 0.4, RNG.normal(size=(11, 3)), 0.0)
REPEATED = TRAINING[[0, 1, 2, 0, 1]]

MAPS = {
    "rows": Identity(),
    "expansion, linear": Expansion(Linear(), TRAINING),
    "expansion, Gaussian": Expansion(Gaussian(0.3), TRAINING),
    "expansion, Laplacian": Expansion(Laplacian(0.3), TRAINING),
    "expansion over sparse rows": Expansion(Polynomial(2, 0.5, 1.0), csr_array(TRAINING)),
    "basis": Basis.of(Gaussian(0.3), TRAINING[:6]),
    "basis, dependent rows": Basis.of(Gaussian(0.3), REPEATED),
    "basis, dependent features": Basis.of(Linear(), TRAINING),
    "components": find_components(Gaussian(0.3), TRAINING, 4)[0],
    "components, linear": find_components(Linear(), TRAINING, 2)[0],
    "components of sparse rows": find_components(Linear(), csr_array(TRAINING), 2)[0],
    "components, Laplacian": find_components(Laplacian(0.3), TRAINING, 3)[0],
}
DENSE_ONLY = {"expansion, Laplacian", "components, Laplacian"}
"""The maps whose kernel takes dense rows only."""


def weights_of(fmap, shape=()):
    """Draw weights of the features of a map."""
    n_features = fmap.map(NEW).shape[1]
    return np.random.default_rng(1).normal(size=(n_features, *shape))


every_map = pytest.mark.parametrize("fmap", MAPS.values(), ids=MAPS)


def test_every_map_is_asked():
    assert {type(fmap) for fmap in MAPS.values()} == implementations(FeatureMap)


@every_map
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_folded_weights_score_as_weights_of_features(fmap, shape):
    W = weights_of(fmap, shape)
    scores = fmap.product(NEW, fmap.fold(W))
    np.testing.assert_allclose(scores, fmap.map(NEW) @ W, atol=1e-9)


@every_map
def test_a_score_belongs_to_a_row(fmap):
    """Blocks of rows, some or none: each row gets the score it has alone."""
    weights = fmap.fold(weights_of(fmap, (2,)))
    many = np.tile(NEW, (2 * BLOCK_ROWS // len(NEW) + 1, 1))
    scores = fmap.product(many, weights)
    expected = np.tile(fmap.product(NEW, weights), (len(many) // len(NEW), 1))
    np.testing.assert_allclose(scores, expected, atol=1e-11)
    assert fmap.product(NEW[:0], weights).shape == (0, 2)
    assert fmap.product(NEW[:0], weights[:, 0]).shape == (0,)


@every_map
def test_features_belong_to_a_row(fmap):
    Z = fmap.map(NEW)
    np.testing.assert_allclose(fmap.map(NEW[[3, 0]]), Z[[3, 0]], atol=1e-10)


@pytest.mark.parametrize("name", [name for name in MAPS if name not in DENSE_ONLY])
def test_sparse_rows_equal_dense(name):
    fmap = MAPS[name]
    W = weights_of(fmap, (2,))
    weights = fmap.fold(W)
    scores = fmap.product(csr_array(NEW), weights)
    np.testing.assert_allclose(scores, fmap.product(NEW, weights), atol=1e-10)
    np.testing.assert_allclose(fmap.map(csr_array(NEW)) @ W, fmap.map(NEW) @ W, atol=1e-9)


@every_map
def test_single_precision_is_close_to_double(fmap):
    single = NEW.astype(np.float32)
    weights = fmap.fold(weights_of(fmap))
    expected = fmap.product(single.astype(np.float64), weights)
    scale = np.abs(weights).sum()
    np.testing.assert_allclose(fmap.product(single, weights) / scale, expected / scale, atol=1e-5)


@every_map
def test_folded_weights_are_of_rows_or_of_features(fmap):
    folded = fmap.fold(weights_of(fmap))
    if not fmap.is_dual:
        assert folded.shape == (NEW.shape[1],)
        assert fmap.expansion_rows is None
    elif fmap.expansion_rows is not None:
        assert folded.shape == (fmap.expansion_rows.shape[0],)


@every_map
def test_a_pickled_map_is_the_map(fmap):
    again = pickle.loads(pickle.dumps(fmap))
    weights = fmap.fold(weights_of(fmap, (2,)))
    np.testing.assert_array_equal(again.fold(weights_of(again, (2,))), weights)
    np.testing.assert_array_equal(again.product(NEW, weights), fmap.product(NEW, weights))
    assert again.is_dual == fmap.is_dual


@every_map
def test_rows_and_weights_are_left_alone(fmap):
    X, W = NEW.copy(), weights_of(fmap, (2,))
    folded = fmap.fold(W)
    before = folded.copy()
    fmap.product(X, folded)
    fmap.map(X)
    np.testing.assert_array_equal(X, NEW)
    np.testing.assert_array_equal(W, weights_of(fmap, (2,)))
    np.testing.assert_array_equal(folded, before)


@pytest.mark.parametrize("n_rows", [1, 2, 7, 8, 13, 24, 25, 47, 48, 2041, 4101])
def test_the_last_rows_of_a_product_are_computed_as_the_others_are(n_rows):
    """BLAS rounds rows that its blocks leave over in another order: equal rows would differ."""

    def rounded(A, B):
        K = np.ones((len(A), len(B)))
        K[len(A) - len(A) % 24 :] += 1e-9
        return K

    rows = np.zeros((3, 2))
    scores = Expansion(as_kernel(rounded), rows).product(np.zeros((n_rows, 2)), np.ones(3))
    assert len(scores) == n_rows
    assert len(set(scores.tolist())) == 1


@pytest.mark.parametrize("n_rows", [2, 5, 20, 23])
@pytest.mark.parametrize("n_features", [1, 17, 46])
@pytest.mark.parametrize("kernel", [None, Gaussian(0.1), Laplacian(0.1), Polynomial(2, 0.1, 1.0)])
def test_a_few_equal_rows_have_equal_scores(kernel, n_features, n_rows):
    rng = np.random.default_rng(n_rows)
    fmap = Identity() if kernel is None else Expansion(kernel, rng.normal(size=(399, n_features)))
    weights = rng.normal(size=n_features if kernel is None else 399)
    X = np.tile(rng.normal(size=n_features), (n_rows, 1))
    assert len(set(fmap.product(X, weights).tolist())) == 1


@pytest.mark.parametrize("n_rows", [1, 20, FEW_ENTRIES // 4])
def test_a_few_rows_are_multiplied_as_many_are(n_rows):
    X, w = RNG.normal(size=(n_rows, 4)), RNG.normal(size=4)
    few = Identity().product_of_few(X, w)
    bound = 5 * np.finfo(float).eps * (np.abs(X) @ np.abs(w))
    assert np.all(np.abs(few - np.einsum("ij,j->i", X, w)) <= bound)
    np.testing.assert_array_equal(Identity().product(X, w), few)


@pytest.mark.parametrize(
    ("X", "weights"),
    [
        (np.ones((FEW_ENTRIES // 4 + 1, 4)), np.ones(4)),
        (np.ones((3, 4)), np.ones((4, 2))),
        (np.ones((3, 4)), np.ones(8)[::2]),
        (np.ones((3, 4)), np.ones(4, dtype=np.float32)),
        (np.ones((3, 4), dtype=np.float32), np.ones(4)),
        (np.ones((4, 3)).T, np.ones(4)),
        (csr_array(np.ones((3, 4))), np.ones(4)),
    ],
    ids=["many", "two outputs", "strided", "single weights", "single", "by columns", "sparse"],
)
def test_rows_that_the_loop_for_a_few_does_not_take_are_multiplied_by_others(X, weights):
    assert Identity().product_of_few(X, weights) is None
    np.testing.assert_array_equal(Identity().product(X, weights), np.full_like(X @ weights, 4.0))


@every_map
def test_a_map_that_has_scored_rows_is_pickled_as_one_that_has_not(fmap):
    fresh = pickle.loads(pickle.dumps(fmap))
    before = pickle.dumps(fresh)
    fresh.product(NEW, fresh.fold(weights_of(fmap)))
    assert pickle.dumps(fresh) == before


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("gamma", [1e-3, 0.3, 40.0])
def test_a_gaussian_kernel_with_given_rows_is_the_kernel(gamma, offset):
    rows, new = TRAINING + offset, np.concatenate([NEW, TRAINING]) + offset
    kernel, held = Gaussian(gamma), Gaussian(gamma).with_rows(rows)
    right = np.exp(-gamma * cdist(new, rows, "sqeuclidean"))
    centre = rows.mean(axis=0)
    sizes = np.square(new - centre).sum(axis=1).max() + np.square(rows - centre).sum(axis=1).max()
    bound = 20 * np.finfo(float).eps * (1.0 + gamma * sizes)  # of exponents, absolute
    for K in (held(new), held(csr_array(new)), kernel.with_rows(csr_array(rows))(new)):
        np.testing.assert_allclose(K, right, rtol=0.0, atol=bound)
        assert K.max() <= 1.0
