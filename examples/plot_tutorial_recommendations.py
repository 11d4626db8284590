"""
Tutorial: recommendations from ratings
======================================

Two hundred users have rated some of eighty films. Which of the others will they like?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import coo_array

from rankwise import RankingFactorization

rng = np.random.default_rng(0)
taste, kind = rng.normal(size=(200, 2)), rng.normal(size=(80, 2))
stars = np.digitize(taste @ kind.T + rng.normal(size=(200, 80)), [-2, -1, 1, 2])
order = rng.random(stars.shape).argsort(axis=1)


def rated(shown):
    """Return the ratings that are shown; what is not stored is not rated."""
    users, items = np.nonzero(shown)
    return coo_array((stars[users, items], (users, items)), shape=stars.shape)


train, test = rated(order < 25), rated(order >= 25)

# %%
# The number of hidden factors is chosen on ratings that were held out.
factors = [1, 2, 3, 4, 6]
models = [RankingFactorization(k, random_state=0).fit(train) for k in factors]
values = [model.score(test) for model in models]
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(factors, values, "o-")
ax.set(xlabel="hidden factors", ylabel="NDCG @ 10 of held-out ratings")
plt.show()

# %%
# Films for user 7 that this user has not rated, best first:
best = models[int(np.argmax(values))]
print(best.recommend(7, n=5))

# %%
# A new user with three ratings gets factors without training again.
visitor = coo_array(([4, 4, 0], ([0, 0, 0], [59, 14, 3])), shape=(1, 80))
print(best.fold_in(visitor).recommend(0, n=5))
