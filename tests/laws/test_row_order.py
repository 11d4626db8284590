"""What is chosen by held-out values does not depend on the order of rows, with equal rows too.

Equal rows have equal scores, up to rounding that depends on where they stand. Without a rule for
ties a measure counts that as right or wrong, and the values move by hundredths.
"""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

from rankwise import (
    DORMCV,
    AutoRanker,
    ConditionalRankRLSCV,
    Gaussian,
    GreedyRankRLS,
    KPCRankCV,
    LinearRankRLS,
    RankRLS,
    RankRLSCV,
    SearchRanker,
    leave_pair_out,
    permutation_test,
)

ALPHAS = 2.0 ** np.arange(-15, 16, 2)  # the default grid of RankRLSCV, every second value
SEEDS = range(4)
HERE = [{}, {"device": "cpu"}] if find_spec("torch") else [{}]


class Repeated:
    """Items drawn from few different rows, in queries; and the same in another order."""

    def __init__(self, seed, n_rows=25, n_items=80, n_features=8, n_queries=4, across=True):
        rng = np.random.default_rng(seed)
        self.base = rng.normal(size=(n_rows, n_features))
        self.row = rng.integers(0, n_rows, n_items)
        self.X = self.base[self.row]
        self.y = rng.integers(0, 3, n_items).astype(float)
        self.qid = np.sort(rng.integers(0, n_queries, n_items))
        self.order = rng.permutation(n_items)
        if not across:  # the order of the queries stays, and with it what random folds hold
            self.order = self.order[np.argsort(self.qid[self.order], kind="stable")]

    def pairs(self, seed, n_pairs=90, *, inside=False):
        """Draw comparisons, a third of them between equal rows."""
        rng = np.random.default_rng(seed)
        first, second = rng.integers(0, len(self.X), (2, 40 * n_pairs))
        fits = (first != second) & (~inside | (self.qid[first] == self.qid[second]))
        equal = fits & (self.row[first] == self.row[second])
        chosen = np.flatnonzero(equal)[: n_pairs // 3], np.flatnonzero(fits)[: 2 * n_pairs // 3]
        return np.column_stack([first, second])[np.concatenate(chosen)]

    def moved(self, pairs):
        """Return where the items of comparisons stand in the other order."""
        return np.argsort(self.order)[pairs]


def fitted(ranker, *data, **named):
    """Return a fitted copy."""
    return clone(ranker).fit(*data, **named)


def agree(found, expected, rows):
    """Assert that values, choice and model are the same; the model up to its conditioning."""
    np.testing.assert_allclose(found.path_.values, expected.path_.values, rtol=0, atol=1e-12)
    at = expected.path_.best()
    assert found.path_.best() == at
    scores = expected.predict(rows)
    slack = (100 * max(expected.path_.errors[at], 1e-14)) * np.abs(scores).max()
    np.testing.assert_allclose(found.predict(rows), scores, rtol=0, atol=slack)


QUERIES = {
    "direct": (RankRLSCV(ALPHAS), {}),
    "update": (RankRLSCV(ALPHAS), {"n_features": 40, "n_queries": 12}),
    "dual": (RankRLSCV(ALPHAS), {"n_features": 90}),
    "kernel": (RankRLSCV(ALPHAS, kernel=Gaussian(0.05)), {}),
    "polynomial": (RankRLSCV(ALPHAS, kernel="polynomial"), {}),
    "basis": (RankRLSCV(ALPHAS, kernel=Gaussian(0.05), basis=np.eye(12, 8)), {}),
    "NDCG": (RankRLSCV(ALPHAS, kernel=Gaussian(0.05), measure="NDCG @ 10"), {}),
    "KendallTau": (RankRLSCV(ALPHAS, kernel=Gaussian(0.05), measure="KendallTau"), {}),
    "kernels": (RankRLSCV(ALPHAS, kernel=[Gaussian(0.05), "polynomial"]), {}),
    "KPCRankCV": (KPCRankCV(20, Gaussian(0.05)), {}),
    "KPCRankCV, linear": (KPCRankCV(6, "linear"), {}),
}


@pytest.mark.parametrize("device", HERE, ids=str)
@pytest.mark.parametrize("name", QUERIES)
def test_queries_left_out(name, device):
    ranker, size = QUERIES[name]
    ranker = clone(ranker).set_params(**device)
    for seed in SEEDS:
        p = Repeated(seed, **size)
        expected = fitted(ranker, p.X, p.y, qid=p.qid)
        agree(fitted(ranker, p.X[p.order], p.y[p.order], qid=p.qid[p.order]), expected, p.base)
        first, second = np.nonzero((p.row[:, None] == p.row) & (p.qid[:, None] == p.qid))
        assert np.array_equal(expected.held_out_scores_[first], expected.held_out_scores_[second])


def test_features_chosen_by_queries_left_out():
    for seed in SEEDS:
        p = Repeated(seed)
        expected = GreedyRankRLS(4).fit(p.X, p.y, qid=p.qid)
        found = GreedyRankRLS(4).fit(p.X[p.order], p.y[p.order], qid=p.qid[p.order])
        np.testing.assert_array_equal(found.features_, expected.features_)
        agree(found, expected, p.base)


@pytest.mark.parametrize("device", HERE, ids=str)
@pytest.mark.parametrize("ranker", [RankRLSCV(ALPHAS), RankRLSCV(ALPHAS, kernel=Gaussian(0.05))])
@pytest.mark.parametrize(("cost", "ties"), [("magnitude", "keep"), ("magnitude", "drop")])
def test_pairs_left_out(ranker, cost, ties, device):
    ranker = clone(ranker).set_params(cost=cost, ties=ties, **device)
    for seed in SEEDS:
        p = Repeated(seed, n_items=40)
        expected = fitted(ranker, p.X, p.y)
        agree(fitted(ranker, p.X[p.order], p.y[p.order]), expected, p.base)
        values = fitted(ranker, p.X, p.y + 1e6).path_.values  # an offset of scores changes no order
        np.testing.assert_allclose(values, expected.path_.values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("device", HERE, ids=str)
@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.05)], ids=str)
@pytest.mark.parametrize("inside", [False, True])
def test_comparisons_left_out(kernel, inside, device):
    ranker = RankRLSCV(ALPHAS, kernel=kernel, **device)
    for seed in SEEDS:
        p = Repeated(seed)
        pairs = p.pairs(seed, inside=inside)
        qid, moved = (p.qid, p.qid[p.order]) if inside else (None, None)
        expected = fitted(ranker, p.X, pairs=pairs, qid=qid)
        found = fitted(ranker, p.X[p.order], pairs=p.moved(pairs)[::-1], qid=moved)
        agree(found, expected, p.base)


FOLDED = [
    RankRLSCV(ALPHAS, kernel=Gaussian(0.05)),
    RankRLSCV(ALPHAS),
    KPCRankCV(20, Gaussian(0.05)),
]


@pytest.mark.parametrize("ranker", FOLDED, ids=str)
def test_folds_of_comparisons(ranker):
    for seed in SEEDS:
        p = Repeated(seed)
        pairs = p.pairs(seed)
        folds = [np.arange(k, len(pairs), 3) for k in range(3)]
        ranker.set_params(cv=folds)
        expected = fitted(ranker, p.X, pairs=pairs)
        agree(fitted(ranker, p.X[p.order], pairs=p.moved(pairs)), expected, p.base)


@pytest.mark.parametrize("ranker", FOLDED, ids=str)
def test_folds_of_items(ranker):
    for seed in SEEDS:
        p = Repeated(seed)
        folds = [np.arange(k, len(p.y), 3) for k in range(3)]
        expected = fitted(ranker.set_params(cv=folds), p.X, p.y)
        ranker.set_params(cv=[p.moved(fold) for fold in folds])
        agree(fitted(ranker, p.X[p.order], p.y[p.order]), expected, p.base)


VALIDATED = [
    RankRLSCV(ALPHAS),
    RankRLSCV(ALPHAS, kernel=Gaussian(0.05)),
    KPCRankCV(20, Gaussian(0.05)),
    DORMCV(Cs=[0.01, 1.0], tol=1e-2, random_state=0),
    DORMCV(Cs=[0.01, 1.0], kernel=Gaussian(0.05), tol=1e-2, random_state=0),
]


@pytest.mark.parametrize("ranker", VALIDATED, ids=str)
def test_validation_rows(ranker):
    for seed in SEEDS:
        p = Repeated(seed, n_items=83)
        rows = {"X_val": p.X, "y_val": p.y, "qid_val": p.qid}
        expected = fitted(ranker, p.X, p.y, qid=p.qid, **rows)
        moved = {name: values[p.order] for name, values in rows.items()}
        agree(fitted(ranker, p.X, p.y, qid=p.qid, **moved), expected, p.base)


def test_iterates_of_conjugate_gradients():
    ranker = LinearRankRLS(early_stopping=True, random_state=0)
    for seed in SEEDS:
        p = Repeated(seed, n_items=83)
        rows = {"X_val": p.X, "y_val": p.y, "qid_val": p.qid}
        coef = ranker.fit(p.X, p.y, qid=p.qid, **rows).coef_
        moved = {name: values[p.order] for name, values in rows.items()}
        assert np.array_equal(ranker.fit(p.X, p.y, qid=p.qid, **moved).coef_, coef)


@pytest.mark.parametrize("cost", ["magnitude", "unit"])
def test_cells_of_a_relation(cost):
    """Items with equal features, under every condition."""
    options = {} if cost == "magnitude" else {"cost": cost, "ties": "drop", "random_state": 0}
    ranker = ConditionalRankRLSCV(ALPHAS[::3], **options)
    for seed in SEEDS:
        p, rng = Repeated(seed, n_items=30, n_rows=10), np.random.default_rng(seed)
        conditions, y = rng.normal(size=(8, 3)), rng.integers(0, 3, (8, 30)).astype(float)
        expected = fitted(ranker, conditions, p.X, y)
        found = fitted(ranker, conditions, p.X[p.order], y[:, p.order])
        np.testing.assert_allclose(found.path_.values, expected.path_.values, rtol=0, atol=1e-12)
        assert found.alpha_ == expected.alpha_


@pytest.mark.parametrize("ranker", [AutoRanker(time_budget=1e-6, cv=3), SearchRanker(basis=200)])
def test_automatic_choices(ranker):
    for seed in SEEDS[:2]:
        p = Repeated(seed, n_items=120, n_queries=12, across=False)
        ranker.set_params(random_state=0, measure="Concordance")
        expected = fitted(ranker, p.X, p.y, qid=p.qid)
        found = fitted(ranker, p.X[p.order], p.y[p.order], qid=p.qid[p.order])
        attribute = "honest_value_" if isinstance(ranker, AutoRanker) else "held_out_value_"
        assert getattr(found, attribute) == pytest.approx(getattr(expected, attribute), abs=1e-12)


MODELS = [
    RankRLS(2.0**-12, kernel=Gaussian(0.05)),
    RankRLS(2.0**-12, kernel=Gaussian(0.05), ties="keep"),
    RankRLS(2.0**-12, kernel="polynomial", cost="unit"),
    KernelRidge(2.0**-12, kernel="rbf"),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("keep_leads", [False, True])
def test_leave_pair_out(model, keep_leads):
    for seed in SEEDS[:2]:
        p = Repeated(seed, n_items=16, n_rows=6)
        y, fits = (p.y > 0).astype(float), {"keep_leads": keep_leads}
        expected = leave_pair_out(model, p.X, y, **fits)
        found = leave_pair_out(model, p.X[p.order], y[p.order], **fits)
        assert found.value == expected.value
        if keep_leads:
            equal = p.row[expected.pairs[:, 0]] == p.row[expected.pairs[:, 1]]
            assert equal.any()
            assert (expected.leads[equal] == 0).all()


def test_small_samples():
    for seed in SEEDS[:2]:
        p = Repeated(seed, n_items=40)
        y = p.y > 0
        kernel = {"kernel": Gaussian(0.05), "alpha": 2.0**-12}
        expected = leave_pair_out(RankRLS(**kernel), p.X, y).value
        assert leave_pair_out(RankRLS(**kernel), p.X[p.order], y[p.order]).value == expected
        tested = {"alphas": ALPHAS, "kernel": Gaussian(0.05), "n_permutations": 1}
        value = permutation_test(p.X, p.y, qid=p.qid, **tested).value
        moved = p.X[p.order], p.y[p.order], p.qid[p.order]
        assert permutation_test(*moved[:2], qid=moved[2], **tested).value == pytest.approx(
            value, abs=1e-12
        )
