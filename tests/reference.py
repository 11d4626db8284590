"""Dense, naive, obviously right versions of everything rankwise computes fast; NumPy only."""

import numpy as np


# --- preference graphs and RankRLS: pair by pair ------------------------------------------------


def score_pairs(y, qid, cost, ties, query_weight, sample_weight=None):
    """List (i, j, target, weight) of every pair of a query, as math.md defines them."""
    n_items = len(y)
    s = np.ones(n_items) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    pairs = []
    for q in dict.fromkeys(qid):
        rows = [i for i in range(n_items) if qid[i] == q]
        found = []
        for a, i in enumerate(rows):
            for j in rows[a + 1 :]:
                gap = y[i] - y[j]
                if gap == 0 and ties == "drop":
                    continue
                target = np.sign(gap) if cost == "unit" else gap
                weight = s[i] * s[j] * (gap**-2.0 if cost == "relative" else 1.0)
                found.append((i, j, target, weight))
        number = sum(s[i] * s[j] for i, j, _, _ in found)
        mass = sum(s[i] for i in rows)
        if query_weight == "items":
            omega = 1 / mass if mass > 0 else 0.0
        elif query_weight == "pairs":
            omega = 1.0
        elif query_weight == "equal":
            omega = 1 / number if number > 0 else 0.0
        else:
            omega = query_weight[q]
        pairs += [(i, j, z, omega * w) for i, j, z, w in found]
    return pairs


def laplacian(pairs, n_items):
    """Return the dense Laplacian and right-hand side of weighted pairs."""
    L, r = np.zeros((n_items, n_items)), np.zeros(n_items)
    for i, j, z, w in pairs:
        e = np.zeros(n_items)
        e[i], e[j] = 1, -1
        L += w * np.outer(e, e)
        r += w * z * e
    return L, r


def fit_primal(X, L, r, alpha):
    """Minimise the cost over the weights of a linear function."""
    return np.linalg.solve(X.T @ L @ X + alpha * np.eye(X.shape[1]), X.T @ r)


def fit_dual(K, L, r, alpha):
    """Minimise the cost over kernel expansions."""
    return np.linalg.solve(L @ K + alpha * np.eye(len(K)), r)
