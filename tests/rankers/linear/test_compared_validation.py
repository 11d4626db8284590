"""Comparisons decide on alphas and iterates of LinearRankRLS, by [APS10] eq. (2)."""

import numpy as np
import pytest

from problems import comparisons_of, problem
from rankwise import InvalidInputError, LinearRankRLS, RankRLS

P = problem(seed=1, sizes=(9, 8, 7, 6), n_features=5)
C = comparisons_of(P, n_per_query=12)
LEARNED = {"pairs": C.pairs[:30], "pair_margin": C.margin[:30], "pair_weight": C.weight[:30]}
JUDGED = C.pairs[30:]
ALPHAS = [1e-3, 0.1, 10.0, 1e3]


def share_in_order(scores, pairs, weight):
    lead = np.sign(scores[pairs[:, 0]] - scores[pairs[:, 1]])
    return np.average(0.5 + 0.5 * lead, weights=weight)


@pytest.mark.parametrize("given", ["comparisons", "scores"])
@pytest.mark.parametrize("other_rows", [False, True])
def test_the_last_value_of_each_alpha_is_the_share_of_comparisons_in_order(given, other_rows):
    weight = np.arange(1.0, len(JUDGED) + 1)
    learned = LEARNED if given == "comparisons" else {"y": P.y, "qid": P.qid}
    rows = P.X[::-1] + 0.1 if other_rows else P.X
    judges = {"pairs_val": JUDGED, "pair_weight_val": weight}
    if other_rows:
        judges["X_val"] = rows
        judges["qid_val"] = np.zeros(len(rows)) if given == "scores" else None
    ranker = LinearRankRLS(alphas=ALPHAS, tol=1e-12).fit(P.X, **learned, **judges)
    last = [values[~np.isnan(values)][-1] for values in ranker.history_["value"].T]
    if ranker.history_["value"].shape[0] == len(ALPHAS):
        last = [values[~np.isnan(values)][-1] for values in ranker.history_["value"]]
    for alpha, value in zip(ranker.history_["alpha"], last, strict=True):
        plain = RankRLS(alpha).fit(P.X, **learned)
        assert value == pytest.approx(share_in_order(plain.predict(rows), JUDGED, weight))
    assert ranker.held_out_value_ == max(last)


def test_what_does_not_go_together_is_refused():
    ranker = LinearRankRLS(alphas=ALPHAS)
    for given, message in [
        ({"pairs_val": JUDGED, "X_val": P.X, "y_val": P.y}, "got both"),
        ({"pair_weight_val": [1.0]}, "`pair_weight_val` must come with `pairs_val`"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            ranker.fit(P.X, P.y, P.qid, **given)
    with pytest.raises(InvalidInputError, match="Validation comparisons judge one output"):
        ranker.fit(P.X, np.c_[P.y, P.y], pairs_val=JUDGED)
    with pytest.raises(InvalidInputError, match="`pairs_val` judges pairs"):
        LinearRankRLS(measure="NDCG").fit(P.X, **LEARNED, pairs_val=JUDGED)
