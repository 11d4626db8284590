"""
A leaderboard from battles
==========================

Names, wins and ties are all it takes. Intervals of scores and ranks come with it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from rankwise import leaderboard

rng = np.random.default_rng(0)
names = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])
strength = np.array([1.2, 1.0, 0.4, 0.0, -0.4, -1.0])
a, b = rng.integers(0, 6, (2, 600))
a, b = a[a != b], b[a != b]
chance = 1 / (1 + np.exp(strength[b] - strength[a]))
drawn = rng.random(len(a)) < 0.2
won = np.where(drawn, "tie", np.where(rng.random(len(a)) < chance, "a", "b"))
battles = pd.DataFrame({"a": names[a], "b": names[b], "winner": won})
table = leaderboard(battles)
print(table)

# %%
# Ranks such as "1-2" say which neighbours the battles cannot tell apart.
frame = table.to_frame()
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
lower, upper = frame["score"] - frame["low"], frame["high"] - frame["score"]
ax.errorbar(frame["score"], frame["item"], xerr=[lower, upper], fmt="o", capsize=3)
ax.invert_yaxis()
ax.set_xlabel("score, with 95 % intervals")
plt.show()
