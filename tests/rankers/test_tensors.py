"""Tensors of PyTorch as input: the same numbers, and tensors where they came from."""

import numpy as np
import pytest

from problems import problem
from rankwise import (
    DORM,
    InvalidInputError,
    KPCRank,
    LinearRankRLS,
    PreferenceGP,
    RankRLS,
    RankRLSCV,
    leave_pair_out,
)

RANKERS = [
    RankRLS(),
    RankRLS(kernel="gaussian"),
    RankRLS(kernel="gaussian", basis=6, random_state=0),
    RankRLSCV(kernel="gaussian", alphas=[0.1, 1.0]),
    KPCRank(4),
    KPCRank(2, kernel="linear"),
    LinearRankRLS(),
]


@pytest.fixture(params=[("cpu",), ()], ids=["numpy", "device"])
def tensors(request, monkeypatch, torch_on_one_thread):
    """Compute with tensors of the CPU as NumPy does, and as with those of another device."""
    monkeypatch.setattr("rankwise.core.namespaces.HOST_DEVICES", request.param)
    return torch_on_one_thread


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_tensors_give_what_arrays_give(ranker, tensors):
    torch = tensors
    p = problem(seed=1, sizes=(7, 1, 5, 9, 2, 3), grades=3, n_features=4)
    expected = ranker.fit(p.X, p.y, qid=p.qid)
    scores, order = expected.predict(p.X), expected.rank(p.X, qid=p.qid)
    value = expected.score(p.X, p.y, qid=p.qid)
    X, y, qid = (torch.tensor(values) for values in (p.X, p.y, p.qid))
    found = ranker.fit(X, y, qid=qid)
    again = found.predict(X)
    assert isinstance(again, torch.Tensor)
    assert again.device == X.device
    scale = 1e-8 * np.abs(scores).max()
    np.testing.assert_allclose(again.numpy(), scores, atol=scale)
    np.testing.assert_allclose(found.predict(p.X), scores, atol=scale)
    np.testing.assert_array_equal(found.rank(X, qid=qid).numpy(), order)
    assert found.score(X, y, qid=qid) == pytest.approx(value)


def test_paths_and_estimates_take_tensors(tensors):
    torch = tensors
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    rows, grades = torch.tensor(X), torch.tensor(y)
    path = RankRLS(kernel="gaussian").fit_path(X, y, alphas=[0.1, 1.0])
    rankers = RankRLS(kernel="gaussian").fit_path(rows, grades, alphas=[0.1, 1.0])
    found = rankers.predict(rows)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), path.predict(X), atol=1e-8)
    expected = leave_pair_out(RankRLS(kernel="gaussian", ties="keep"), X, y)
    assert (
        leave_pair_out(RankRLS(kernel="gaussian", ties="keep"), rows, grades).value
        == expected.value
    )


def test_other_rankers_and_kinds_of_tensors(torch_on_one_thread):
    torch = torch_on_one_thread
    p = problem(seed=1, sizes=(7, 5, 9), grades=3, n_features=4)
    rows = torch.tensor(p.X, dtype=torch.float32, requires_grad=True)
    expected = DORM().fit(rows.detach().numpy(), p.y, qid=p.qid).predict(rows.detach().numpy())
    found = DORM().fit(rows, torch.tensor(p.y), qid=torch.tensor(p.qid)).predict(rows)
    np.testing.assert_allclose(found.numpy(), expected)
    half = RankRLS().fit(rows.bfloat16(), p.y, qid=p.qid).predict(rows.bfloat16())
    assert half.dtype == torch.float64
    pairs = torch.tensor([[0, 1], [2, 1], [3, 4]])
    scores, deviation = (
        PreferenceGP(optimize=False).fit(rows, pairs=pairs).predict(rows, return_std=True)
    )
    assert isinstance(scores, torch.Tensor)
    assert isinstance(deviation, torch.Tensor)


def test_sparse_tensors_are_refused(torch_on_one_thread):
    torch = torch_on_one_thread
    rows = torch.eye(4).to_sparse()
    with pytest.raises(InvalidInputError, match="Tensors must be dense: got one of layout"):
        RankRLS().fit(rows, [0, 1, 2, 3])
