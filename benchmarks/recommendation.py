"""Factors of users and items from 100,000 ratings, beside alternating least squares.

CPU seconds of whole calls on one core, and what their rankings of held-out ratings are worth. More
sweeps than the default lower the objective, but rank what was held out no better.
"""

import time

import numpy as np
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_array, csr_matrix

from benchmarks.harness import Row, markdown, one_core, row_of
from rankwise import NDCG, RankingFactorization, evaluate

PEERS, BAR = ["implicit"], "at most 3x"
N_USERS, N_ITEMS, N_RATINGS = 943, 1682, 100_000  # as in MovieLens 100k


def stars(n_users, n_items, n_ratings):
    """Return ratings from 1 to 5 of popular items, and as many held out by the same users."""
    rng = np.random.default_rng(0)
    popular, busy = np.arange(1, n_items + 1) ** -0.7, rng.lognormal(size=n_users)
    users = rng.choice(n_users, 6 * n_ratings, p=busy / busy.sum())
    items = rng.choice(n_items, 6 * n_ratings, p=popular / popular.sum())
    drawn = rng.permutation(np.unique(users * n_items + items))[: 2 * n_ratings]
    users, items = np.divmod(drawn, n_items)
    U, V, quality = (
        rng.normal(size=(n_users, 8)),
        rng.normal(size=(n_items, 8)),
        rng.normal(size=n_items),
    )
    liked = 0.35 * (U[users] * V[items]).sum(axis=1) + 0.7 * quality[items]
    values = np.clip(np.round(3.5 + liked + 0.5 * rng.normal(size=len(drawn))), 1, 5)
    return [
        csr_array((values[part], (users[part], items[part])), shape=(n_users, n_items))
        for part in (slice(n_ratings), slice(n_ratings, None))
    ]


def least_squares(R: csr_array, held_out: csr_array) -> tuple[float, float]:
    """Return the CPU seconds of implicit's fit, and NDCG @ 10 of what was held out."""
    single = csr_matrix(R, dtype=np.float32)
    model = AlternatingLeastSquares(10, random_state=0, num_threads=1)
    start = time.process_time()
    model.fit(single, show_progress=False)
    seconds = time.process_time() - start
    users = np.repeat(np.arange(N_USERS), np.diff(held_out.indptr))
    scores = (model.user_factors[users] * model.item_factors[held_out.indices]).sum(axis=1)
    return seconds, evaluate(held_out.data, scores, users, NDCG @ 10)["NDCG @ 10"]


def ranking(R: csr_array, held_out: csr_array, tol: float) -> tuple[float, float, int]:
    """Return the CPU seconds of our fit, NDCG @ 10 of what was held out, and sweeps."""
    start = time.process_time()
    model = RankingFactorization(10, random_state=0, tol=tol).fit(R)
    seconds = time.process_time() - start
    return seconds, model.score(held_out), model.n_iter_


def compare(R: csr_array, held_out: csr_array, tol: float, name: str, repeats: int) -> Row:
    """Take turns; the least CPU time of each counts."""
    theirs, ours = [], []
    for _ in range(repeats):
        theirs.append(least_squares(R, held_out))
        ours.append(ranking(R, held_out, tol))
    (_, value, n_sweeps), (_, peer_value) = ours[0], theirs[0]
    note = f"NDCG @ 10 of what was held out: {value:.3f} and {peer_value:.3f}; sweeps: {n_sweeps}"
    job = f"RankingFactorization, 10 factors, {N_RATINGS:,} ratings, {name}"
    times = [[seconds for seconds, *_ in runs] for runs in (ours, theirs)]
    return row_of(times, min, job, "implicit's AlternatingLeastSquares, 15 sweeps", BAR, note)


def table() -> list[Row]:
    R, held_out = stars(N_USERS, N_ITEMS, N_RATINGS)
    settings = ((0.3, "the default", 5), (1e-2, "tol=1e-2", 2), (1e-3, "tol=1e-3", 1))
    with one_core():
        ranking(R[:50], held_out[:50], 0.3)  # warm-up
        return [compare(R, held_out, *setting) for setting in settings]


if __name__ == "__main__":
    print(markdown("Recommendation", table()))
