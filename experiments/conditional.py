"""Jokes for users who were never seen, and jokes that were never rated ([APS10] Sect. 5).

Of the users of Jester who have rated all 100 jokes, three groups that share nobody are drawn: 300
to learn from, 300 to test on, and 300 whose ratings are the features of the jokes. The features of
a user are ratings of ten jokes that every user of Jester is shown first; the other 90 are ranked.

New users: a factorisation learns from the ratings of all jokes by the training users and folds the
test users in by their ten ratings. New jokes: 30 of the 90 are ranked that the training users have
not rated; a factorisation cannot. All settings are chosen on the training users: alpha and the
kernels by exact hold-outs, C of the factorisation on 60 of them who are folded in likewise. Where
only a fifth of the training ratings is known, alpha and the kernels are those of all ratings.
"""

import time

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from experiments.collaborative import six_grades
from experiments.collaborative_methods import ranking_factors
from experiments.harness import markdown_table
from experiments.jester_costs import read_ratings
from rankwise import (
    NDCG,
    Concordance,
    ConditionalRankRLS,
    ConditionalRankRLSCV,
    Gaussian,
    Polynomial,
    Queries,
)

GAUGE = np.array([5, 7, 8, 13, 15, 16, 17, 18, 19, 20]) - 1
"""The jokes that all users are shown first."""

N_USERS, N_NEW_JOKES, N_SPLITS, N_CHOICE, N_SEEDS = 300, 30, 3, 60, 5
KNOWN_SHARE = 0.2
MEASURES = {"Concordance": Concordance, "NDCG @ 10": NDCG(gain="exponential") @ 10}
CS = (0.1, 0.25, 0.65)
WIDTHS = (0.25, 1.0, 4.0)
ALPHAS = 4.0 ** np.arange(-3, 6)


def split(R: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ratings to learn from and to test, features of the jokes, and jokes that are new."""
    rng = np.random.default_rng(seed)
    train, test, others = rng.permutation(R)[: 3 * N_USERS].reshape(3, N_USERS, 100)
    features = (others - others.mean(axis=1, keepdims=True)).T / np.sqrt(N_USERS)
    new = rng.permutation(np.setdiff1d(np.arange(100), GAUGE))[:N_NEW_JOKES]
    return train, test, features, new


def values(Y: np.ndarray, scores: np.ndarray, jokes: np.ndarray) -> list[float]:
    """Return the measures of a ranking of some jokes for each user, in per cent."""
    rated, ranked = Y[:, jokes], scores[:, jokes]
    known = ~np.isnan(rated)
    queries = Queries.from_qid(np.nonzero(known)[0])
    grades = np.round((rated[known] + 10.0) / 4.0)
    return [
        100.0 * MEASURES["Concordance"].overall(rated[known], ranked[known], queries),
        100.0 * MEASURES["NDCG @ 10"].overall(grades, ranked[known], queries),
    ]


def users_of(R: np.ndarray) -> np.ndarray:
    """Return the features of users: their ratings of the first jokes, from -1 to 1."""
    return R[:, GAUGE] / 10.0


def kernels(train: np.ndarray, features: np.ndarray) -> list[dict]:
    """Return the pairs of kernels to choose from: joke features, and none."""
    gamma_users = 1.0 / (len(GAUGE) * users_of(train).var())
    gamma_jokes = 1.0 / (features.shape[1] * features.var())
    sides = [Polynomial(1), *(Gaussian(width * gamma_users) for width in WIDTHS)]
    return [
        {"condition_kernel": k, "item_kernel": Gaussian(width * gamma_jokes)}
        for k in sides
        for width in WIDTHS
    ]


def chosen(candidates: list[dict], new: str, U: np.ndarray, V: np.ndarray, Y: np.ndarray) -> dict:
    """Return the kernels and alpha of the best held-out value."""
    fits = [
        ConditionalRankRLSCV(ALPHAS, new=new, random_state=0, **given).fit(U, V, Y)
        for given in candidates
    ]
    best = int(np.argmax([fit.held_out_value_ for fit in fits]))
    return {**candidates[best], "alpha": fits[best].alpha_}


def sparse(Y: np.ndarray) -> csr_array:
    """Return what is known of a matrix as stored entries."""
    known = ~np.isnan(Y)
    return csr_array((Y[known], np.nonzero(known)), shape=Y.shape)


def only(Y: np.ndarray, jokes: np.ndarray) -> np.ndarray:
    """Return a matrix in which only some jokes are rated."""
    out = np.full_like(Y, np.nan)
    out[:, jokes] = Y[:, jokes]
    return out


def factors(train: np.ndarray, test: np.ndarray, seed: int = 0) -> np.ndarray:
    """Score all jokes for new users by a factorisation, C chosen on some of the training users."""
    method = ranking_factors(NDCG(gain="exponential"), six_grades, seed)
    rest = np.setdiff1d(np.arange(100), GAUGE)
    inner, judged = train[N_CHOICE:], train[:N_CHOICE]
    asked = sparse(only(judged, GAUGE))
    trials = [values(judged, method(sparse(inner), C)(asked), rest)[0] for C in CS]
    return method(sparse(train), CS[int(np.argmax(trials))])(sparse(only(test, GAUGE)))


def new_users(train: np.ndarray, test: np.ndarray, features: np.ndarray) -> dict[str, np.ndarray]:
    """Score all jokes for new users; the names say from what."""
    setting = chosen(kernels(train, features), "conditions", users_of(train), features, train)
    rng = np.random.default_rng(0)
    some = np.where(rng.random(train.shape) < KNOWN_SHARE, train, np.nan)
    some[:, GAUGE] = train[:, GAUGE]
    alone = [{**given, "item_kernel": "precomputed"} for given in kernels(train, features)[::3]]
    delta = chosen(alone, "conditions", users_of(train), np.eye(100), train)
    fit = ConditionalRankRLS(**setting).fit(users_of(train), features, train)
    part = ConditionalRankRLS(**setting).fit(users_of(train), features, some)
    without = ConditionalRankRLS(**delta).fit(users_of(train), np.eye(100), train)
    means = np.tile(train.mean(axis=0), (len(test), 1))
    part_means = np.tile(np.nanmean(centred(some), axis=0), (len(test), 1))
    return {
        "mean of each joke": means,
        "ranking factors, folded in": factors(train, test),
        "pairs, jokes without features": without.predict(users_of(test)),
        "pairs": fit.predict(users_of(test)),
        "mean of each joke, a fifth known": part_means,
        "ranking factors, a fifth known": factors(some, test),
        "pairs, a fifth known": part.predict(users_of(test)),
    }


def centred(R: np.ndarray) -> np.ndarray:
    """Return ratings less the mean of their user."""
    return R - np.nanmean(R, axis=1, keepdims=True)


def new_jokes(
    train: np.ndarray, test: np.ndarray, features: np.ndarray, new: np.ndarray
) -> dict[str, np.ndarray]:
    """Score all jokes for new users, some of them without ratings by the training users."""
    old = np.setdiff1d(np.arange(100), new)
    U, V, Y = users_of(train), features[old], train[:, old]
    setting = chosen(kernels(train, features), "both", U, V, Y)
    fit = ConditionalRankRLS(**setting).fit(U, V, Y)
    nobody = {**setting, "condition_kernel": lambda A, B: np.ones((A.shape[0], B.shape[0]))}
    same = ConditionalRankRLS(**nobody).fit(U, V, Y)
    return {
        "mean of the users behind the features": np.tile(features.mean(axis=1), (len(test), 1)),
        "pairs, all users alike": same.predict(users_of(test), features),
        "pairs": fit.predict(users_of(test), features),
    }


def section() -> str:
    """Return both tables."""
    R = read_ratings()
    R = R[~np.isnan(R).any(axis=1)]
    known: dict[str, list] = {}
    unknown: dict[str, list] = {}
    start = time.process_time()
    with threadpool_limits(1):
        for seed in range(N_SPLITS):
            train, test, features, new = split(R, seed)
            rest = np.setdiff1d(np.arange(100), GAUGE)
            for name, scores in new_users(train, test, features).items():
                known.setdefault(name, []).append(values(test, scores, rest))
            for name, scores in new_jokes(train, test, features, new).items():
                unknown.setdefault(name, []).append(values(test, scores, new))
    seconds = time.process_time() - start
    return "\n".join(
        [
            f"Means and standard deviations of {N_SPLITS} draws, in per cent; {seconds:.0f} CPU "
            f"seconds in all. Users who have rated all jokes: {len(R):,}.",
            "",
            f"New users, {100 - len(GAUGE)} known jokes:",
            "",
            table(known),
            seed_note(R),
            "",
            f"New users, {N_NEW_JOKES} new jokes:",
            "",
            table(unknown),
        ]
    )


def seed_note(R: np.ndarray) -> str:
    """Say how much the random start of the factors alone moves their values."""
    train, test, _, _ = split(R, 0)
    rest = np.setdiff1d(np.arange(100), GAUGE)
    with threadpool_limits(1):
        found = [values(test, factors(train, test, seed), rest) for seed in range(N_SEEDS)]
    spread = np.std(found, axis=0, ddof=1)
    return (
        f"Ranking factors start at random and end in different places: over {N_SEEDS} seeds on the "
        f"first draw, folded in, their values have standard deviations of {spread[0]:.2f} and "
        f"{spread[1]:.2f} points, so that smaller differences mean nothing."
    )


def table(found: dict[str, list]) -> str:
    """Return mean and deviation of each method."""
    rows = []
    for name, draws in found.items():
        columns = np.array(draws).T
        rows.append((name, *(f"{c.mean():.2f} ± {c.std(ddof=1):.2f}" for c in columns)))
    return markdown_table(["method", *MEASURES], rows)
