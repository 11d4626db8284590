"""
Features on all scales
======================

In search, the same raw number means something else in every query. Scaling inside queries, and
adding ranks inside queries, is what `SearchRanker` does by itself.
"""

import matplotlib.pyplot as plt
import numpy as np

from rankwise import RankRLSCV, SearchRanker, evaluate

rng = np.random.default_rng(0)


def draw(n_queries):
    """Draw features that each query shifts and stretches in its own way."""
    qid = np.repeat(np.arange(n_queries), 12)
    true = rng.normal(size=(len(qid), 4))
    y = np.digitize(true @ [1.0, 0.5, 0.0, 0.0] + 0.5 * rng.normal(size=len(qid)), [0.0, 1.0])
    shift, stretch = rng.normal(size=(2, n_queries, 4)) * [[[3.0]], [[1.0]]]
    return shift[qid] + np.exp(stretch[qid]) * true, y, qid


X, y, qid = draw(60)
X_test, y_test, qid_test = draw(60)
plain = RankRLSCV(measure="NDCG @ 10").fit(X, y, qid=qid)
search = SearchRanker().fit(X, y, qid=qid)
scores = {
    "RankRLSCV on raw features": plain.predict(X_test),
    "SearchRanker on raw features": search.predict(X_test, qid=qid_test),
}

# %%
fig, ax = plt.subplots(figsize=(6, 2.5), layout="constrained")
means = {name: evaluate(y_test, s, qid_test, "NDCG @ 10").mean[0] for name, s in scores.items()}
ax.barh(list(means), list(means.values()))
ax.set(xlim=(0.5, 1), xlabel="NDCG @ 10 of new queries")
plt.show()
