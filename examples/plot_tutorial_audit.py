"""
Tutorial: what a leaderboard can claim
======================================

A thousand votes on five models. What is shown first has an advantage, and one judge answers at
random: the audit says so, and the board takes both into account.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from rankwise import leaderboard

rng, n_votes = np.random.default_rng(0), 1000
names = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])
first = rng.integers(5, size=n_votes)
second = (first + 1 + rng.integers(4, size=n_votes)) % 5
judge = rng.integers(6, size=n_votes)
lead = 0.4 * (second - first) + 0.5 + rng.logistic(size=n_votes)
lead = np.where(judge == 5, rng.normal(size=n_votes), lead)
votes = pd.DataFrame(
    {
        "model_a": names[first],
        "model_b": names[second],
        "winner": np.where(lead > 0, "model_a", "model_b"),
        "judge": [f"judge {i}" for i in judge],
    }
)
plain = leaderboard(votes, random_state=0)
print(plain)

# %%
# Which claims do the votes carry? Probes that fire are flagged.
for finding in plain.audit().flagged:
    print(f"{finding.probe}: {finding.said}")

# %%
# The advantage of the first place and the reliability of judges can be learned along with the
# scores.
careful = leaderboard(votes, first=True, judges=True, random_state=0)
print(careful)
fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for ax, board, title in zip(axes, (plain, careful), ("all votes alike", "learned"), strict=True):
    board.plot(ax)
    ax.set_title(title)
plt.show()
