"""
A ranking that says how certain it is
=====================================

Forty answers to "which is better?" about ten items. The process gives every item a distribution
of ranks, and names the question whose answer would tell most.
"""

import matplotlib.pyplot as plt
import numpy as np

from rankwise import PreferenceGP

rng = np.random.default_rng(0)
X = np.linspace(0, 1, 10)[:, None]
worth = np.sin(3 * X[:, 0])
questions = [rng.choice(10, 2, replace=False) for _ in range(40)]
answers = [(a, b) if worth[a] + 0.2 * rng.normal() > worth[b] else (b, a) for a, b in questions]
process = PreferenceGP().fit(X, pairs=answers)

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
process.rank_distribution(X, n_draws=1000, random_state=0).plot(ax)
plt.show()

# %%
# What to ask next, and how sure one pair is:
print("next question:", process.suggest(X)[0])
print(f"item 5 above item 2 with probability {process.predict_pair(X[[5]], X[[2]])[0]:.2f}")
