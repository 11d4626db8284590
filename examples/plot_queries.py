"""
Look at every query, not only at the mean
=========================================

Two rankers can have close means and differ in which queries they get wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

from rankwise import RankRLS, evaluate, paired_test
from rankwise.datasets import load_digits_queries

data = load_digits_queries(n_queries=80, n_items=15)
train, test = data.train, data.test
values = {}
for kernel in ("linear", "gaussian"):
    ranker = RankRLS(kernel=kernel).fit(train.X, train.y, qid=train.qid)
    values[kernel] = evaluate(test.y, ranker.predict(test.X), test.qid, "NDCG @ 5")

# %%
# A point is a query. Above the line the Gaussian kernel is ahead.
fig, ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", lw=1)
ax.scatter(values["linear"].values[:, 0], values["gaussian"].values[:, 0], s=14, alpha=0.6)
ax.set(xlabel="NDCG @ 5, linear", ylabel="NDCG @ 5, Gaussian kernel", aspect="equal")
plt.show()

# %%
# Is the difference more than luck? A paired test over queries says.
print(paired_test(values["gaussian"], values["linear"]))
print("worst queries:", np.argsort(values["gaussian"].values[:, 0])[:5])
