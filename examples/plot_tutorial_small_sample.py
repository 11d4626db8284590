"""
Tutorial: an AUC for sixty samples
==================================

With few samples an AUC from a few folds depends on luck. Leaving out every pair of a positive and
a negative sample uses all of them, and is almost unbiased.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from rankwise import RankRLS, leave_pair_out, permutation_test

X, y = load_breast_cancer(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(y))[:60]
X, y = scale(X[rows]), y[rows]
print(leave_pair_out(RankRLS(ties="keep"), X, y))

# %%
# Would shuffled labels give as much? The same estimate for 999 shuffles says.
test = permutation_test(X, y, n_permutations=999, random_state=0)
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
test.plot(ax)
plt.show()
