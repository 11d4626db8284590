"""
Choose alpha by leaving out every query
=======================================

`RankRLSCV` leaves out each query in turn for every alpha, in closed form: all queries and 31 values
of alpha cost a few fits to a few dozen.
"""

import matplotlib.pyplot as plt

from rankwise import RankRLSCV
from rankwise.datasets import load_digits_queries

train = load_digits_queries(n_queries=60, n_items=15).train
best = RankRLSCV(measure="NDCG @ 5").fit(train.X, train.y, qid=train.qid)
print(f"alpha {best.alpha_:g}, NDCG @ 5 of left-out queries {best.held_out_value_:.3f}")

# %%
# The band is one standard error over queries. ``rule="one_standard_error"`` takes the largest
# alpha inside it.
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
best.path_.plot(ax)
plt.show()
