"""skops stores fitted rankers; nothing but values of rankwise itself has to be trusted."""

import numpy as np
import pytest

from rankwise import DORM, KPCRank, LinearRankRLS, RankRLS, RankRLSCV

skops = pytest.importorskip("skops.io")

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(24, 3)), RNG.integers(3, size=24)
QID = np.repeat(np.arange(4), 6)
RANKERS = [RankRLS(), RankRLS(kernel="gaussian"), RankRLSCV(), LinearRankRLS(), KPCRank(3), DORM()]


@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_skops_gives_the_ranker_back(ranker):
    content = skops.dumps(ranker.fit(X, y, qid=QID))
    types = skops.get_untrusted_types(data=content)
    assert all(name.startswith("rankwise.") for name in types)
    again = skops.loads(content, trusted=types)
    np.testing.assert_array_equal(again.predict(X), ranker.predict(X))
    assert repr(again) == repr(ranker)
