"""
Tutorial: search, from judged queries to a ranker
=================================================

Judged queries become a ranker, a value that can be trusted, and a look at what went wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

from rankwise import AutoRanker, RankRLSCV, evaluate, paired_test
from rankwise.datasets import load_digits_queries

data = load_digits_queries(n_queries=36, n_items=12, share_images=False)
train, test = data.train, data.test
ranker = AutoRanker(time_budget=10, random_state=0).fit(train.X, train.y, qid=train.qid)
print(ranker.honest_value_)

# %%
# The honest value comes from the training queries alone. Test queries, which nobody has looked
# at, agree:
linear = RankRLSCV(measure="NDCG @ 10").fit(train.X, train.y, qid=train.qid)
found = {
    "AutoRanker": evaluate(test.y, ranker.predict(test.X, qid=test.qid), test.qid, "NDCG @ 10"),
    "linear": evaluate(test.y, linear.predict(test.X), test.qid, "NDCG @ 10"),
}
for name, evaluation in found.items():
    print(f"{name}: {evaluation.mean[0]:.3f}")

# %%
# Is the difference more than luck? Both are judged on the same queries, so they are compared
# query by query.
print(paired_test(found["AutoRanker"], found["linear"]))
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, evaluation in found.items():
    ax.plot(np.sort(evaluation.values[:, 0]), label=name)
ax.set(xlabel="queries, worst first", ylabel="NDCG @ 10")
ax.legend()
plt.show()
