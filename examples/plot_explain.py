"""
Why is this item above that one?
================================

For a linear ranker the difference of two scores is a sum over features, so the answer is exact.
"""

import matplotlib.pyplot as plt
import numpy as np

from rankwise import RankRLS, explain, feature_importance

rng = np.random.default_rng(0)
names = ["title match", "body match", "age", "clicks", "length"]
X = rng.normal(size=(300, 5))
qid = np.repeat(np.arange(30), 10)
y = np.digitize(X @ [1.0, 0.6, -0.3, 0.8, 0.0] + 0.5 * rng.normal(size=300), [-0.5, 1.0])
ranker = RankRLS().fit(X, y, qid=qid)
order = ranker.rank(X[:10], qid=qid[:10])
why = explain(ranker, X, qid, int(order[0]), int(order[1]), feature_names=names)
print(why)

# %%
# Over all queries: how much is lost when a feature is shuffled inside queries.
importance = feature_importance(ranker, X, y, qid, feature_names=names, random_state=0)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
importance.plot(ax)
plt.show()
