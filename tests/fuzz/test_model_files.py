"""A crafted model file is refused, or is a ranker that works; nothing crashes."""

import json
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from fuzz.mutations import N_CASES, mutated_arrays, mutated_document, seeded_rng
from problems import problem
from rankwise import (
    DORM,
    DORMCV,
    BoostedRanker,
    ConditionalRankRLS,
    ConditionalRankRLSCV,
    ConvergenceWarning,
    Gaussian,
    GreedyRankRLS,
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    ModelFileError,
    Polynomial,
    PreferenceGP,
    RankerPipeline,
    RankingFactorization,
    RankRLS,
    RankRLSCV,
    RankSVM,
    SearchRanker,
    WithinQueryEncoder,
    WithinQueryImputer,
    WithinQueryRanks,
)
from rankwise.io.model_file import read_model
from rankwise.rankers.storage import restore

P = problem(seed=0, sizes=(6, 5, 7, 4))
BLANKS = np.where(np.arange(P.X.size).reshape(P.X.shape) % 5 == 1, np.nan, np.round(P.X))
SPARSE = csr_array(np.where(P.X > 0, P.X, 0.0))
RANKERS = {
    "linear": lambda: RankRLS().fit(P.X, P.y, P.qid),
    "two outputs": lambda: RankRLS(kernel=Polynomial(2)).fit(P.X, np.c_[P.y, -P.y], P.qid),
    "sparse": lambda: RankRLS(kernel=Gaussian(0.5)).fit(SPARSE, P.y, P.qid),
    "precomputed": lambda: RankRLS(kernel="precomputed").fit(P.X @ P.X.T, P.y, P.qid),
    "RankRLSCV": lambda: RankRLSCV([0.1, 1.0], kernel=["linear", "gaussian"], measure="NDCG @ 5")
    .fit(P.X, P.y, P.qid),
    "pipeline": lambda: RankerPipeline(
        [WithinQueryEncoder([0]), WithinQueryImputer(add_indicator=True), WithinQueryRanks(),
         RankRLS(kernel=Gaussian(0.5))]
    ).fit(BLANKS, P.y, P.qid),
    "SearchRanker": lambda: SearchRanker(basis=8).fit(BLANKS, P.y, P.qid),
    "BoostedRanker": lambda: BoostedRanker(n_trees=3, early_stopping=False, min_samples_leaf=3)
    .fit(P.X, P.y, P.qid),
    "GreedyRankRLS": lambda: GreedyRankRLS(2, measure="AP").fit(P.X, P.y, P.qid),
    "LinearRankRLS": lambda: LinearRankRLS().fit(P.X, P.y, P.qid),
    "KPCRank": lambda: KPCRank(3, kernel=Gaussian(0.5)).fit(P.X, P.y, P.qid),
    "KPCRankCV": lambda: KPCRankCV(3, kernel=Gaussian(0.5)).fit(P.X, P.y, P.qid),
    "RankSVM": lambda: RankSVM(kernel=Gaussian(0.5)).fit(P.X, P.y, P.qid),
    "DORM": lambda: DORM(kernel=Gaussian(0.5)).fit(P.X, P.y, P.qid),
    "DORMCV": lambda: DORMCV(Cs=[0.01, 0.1], cv=2, random_state=0).fit(P.X, P.y, P.qid),
    "PreferenceGP": lambda: PreferenceGP().fit(P.X, pairs=[[0, 1], [2, 1], [3, 2], [4, 0]]),
    "ConditionalRankRLS": lambda: ConditionalRankRLS(item_kernel=Gaussian(0.5))
    .fit(P.X[:6], P.X[6:11], P.X[:6] @ P.X[6:11].T),
    "ConditionalRankRLSCV": lambda: ConditionalRankRLSCV([0.1, 1.0], new="both", cv=2)
    .fit(P.X[:6], P.X[6:11], P.X[:6] @ P.X[6:11].T),
    "RankingFactorization": lambda: RankingFactorization(2, random_state=0).fit(
        csr_array(np.random.default_rng(0).integers(1, 5, size=(6, 5)).astype(float))
    ),
}  # fmt: skip
CASES = N_CASES // len(RANKERS) or 250


@pytest.mark.parametrize("name", RANKERS)
def test_crafted_files_are_refused_or_work(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ranker = RANKERS[name]()
    ranker.save(tmp_path / "m")
    metadata, arrays = read_model(tmp_path / "m")
    rng = seeded_rng()
    refused = 0
    for case in range(CASES):
        document, contents = metadata, arrays
        if case % 3 != 0:
            document = json.loads(json.dumps(mutated_document(metadata, rng)))
        if case % 3 != 1:
            with np.errstate(invalid="ignore"):
                contents = mutated_arrays(arrays, rng)
        try:
            loaded = restore("crafted.model", document, contents)
        except ModelFileError as error:
            assert str(error).startswith("crafted.model")  # noqa: PT017
            refused += 1
            continue
        assert type(loaded) is type(ranker)
        rows = np.ones((3, loaded.n_features_in_))
        with np.errstate(all="ignore"):
            assert len(loaded._scores(rows)) == 3
    assert refused > CASES / 4


def _stored(ranker):
    """Return the names of what a file keeps: all but what is only remembered for speed."""
    return {name for name in vars(ranker) if not name.startswith("_")}


@pytest.mark.parametrize("name", RANKERS)
def test_a_file_that_is_not_changed_is_the_ranker(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ranker = RANKERS[name]()
    ranker.save(tmp_path / "m")
    loaded = restore("m", *read_model(tmp_path / "m"))
    rows = np.random.default_rng(1).normal(size=(4, ranker.n_features_in_))
    np.testing.assert_allclose(loaded._scores(rows), ranker._scores(rows), rtol=1e-12)
    assert _stored(loaded) == _stored(ranker)
