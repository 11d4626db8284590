"""Components found on a device of PyTorch are those that NumPy finds; here on its CPU device."""

import numpy as np
import pytest
import torch

from problems import close, problem
from rankwise import InvalidInputError, KPCRank, KPCRankCV
from rankwise.features.components import find_components
from rankwise.features.kernels import Gaussian, Precomputed

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")


@pytest.mark.parametrize("solver", ["full", "truncated"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "linear"])
def test_fit(solver, kernel):
    p = problem(seed=1, sizes=(7, 1, 5, 9, 2, 3), grades=3, n_features=4)
    weight = np.arange(len(p.y)) % 3.0
    for options in ({}, {"sample_weight": weight}):
        expected = KPCRank(4, kernel, solver=solver).fit(p.X, p.y, qid=p.qid, **options)
        found = KPCRank(4, kernel, solver=solver, device="cpu").fit(p.X, p.y, qid=p.qid, **options)
        close(found.variances_, expected.variances_)
        close(found.predict(p.X), expected.predict(p.X))


def test_choice_of_components():
    p = problem(seed=1, sizes=(7, 6, 5, 9), grades=3, n_features=4)
    expected = KPCRankCV(10).fit(p.X, p.y, qid=p.qid)
    found = KPCRankCV(10, device="cpu").fit(p.X, p.y, qid=p.qid)
    assert found.n_components_ == expected.n_components_
    close(found.path_.values, expected.path_.values)
    close(found.held_out_scores_, expected.held_out_scores_)


def test_a_flat_spectrum_is_decomposed_in_full(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 3))
    expected, _ = find_components(Gaussian(0.1), X, 5)
    monkeypatch.setattr("rankwise.features.components._by_lanczos", lambda *_: None)
    found, _ = find_components(Gaussian(0.1), X, 5, "truncated", rows=torch.tensor(X))
    close(found.variances, expected.variances)


def test_an_indefinite_kernel_is_refused():
    K = np.diag([1.0, -1.0, 1.0, 1.0])
    with pytest.raises(InvalidInputError, match="centred kernel must be positive semidefinite"):
        find_components(Precomputed(), K, 2, rows=torch.tensor(K))
