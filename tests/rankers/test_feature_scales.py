"""Features of very different scale are warned of where they matter."""

import numpy as np
import pytest

from problems import problem
from rankwise import (
    DORM,
    BoostedRanker,
    FeatureScaleWarning,
    LinearRankRLS,
    RankerPipeline,
    RankRLS,
    RankSVM,
    SearchRanker,
    WithinQueryScaler,
)

P = problem(seed=0, sizes=(6, 5, 7, 4, 6))
ROUGH = P.X * np.array([1.0, 1e4, 1.0])


@pytest.mark.parametrize("ranker", [RankRLS(), LinearRankRLS(), RankSVM(0.1), DORM()], ids=repr)
def test_rankers_that_depend_on_scales_warn(ranker):
    ranker.fit(P.X, P.y, qid=P.qid)
    with pytest.warns(FeatureScaleWarning, match="Features differ in scale"):
        ranker.fit(ROUGH, P.y, qid=P.qid)


@pytest.mark.parametrize(
    "ranker",
    [
        BoostedRanker(n_trees=3, early_stopping=False),
        SearchRanker("Concordance", basis=10),
        RankerPipeline([WithinQueryScaler(), RankRLS()]),
    ],
    ids=repr,
)
def test_rankers_that_do_not_are_silent(ranker):
    assert ranker.fit(ROUGH, P.y, qid=P.qid).predict(ROUGH, qid=P.qid).shape == P.y.shape


def test_kernel_matrices_and_constant_features_are_silent():
    K = ROUGH @ ROUGH.T
    RankRLS(kernel="precomputed").fit(K, P.y, qid=P.qid)
    RankRLS().fit(np.column_stack([P.X, np.full(len(P.y), 1e9)]), P.y, qid=P.qid)
