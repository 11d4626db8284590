"""Rank what users will like next, from 10, 20 or 50 ratings of each ([LS08] Sect. 6.6).

The protocol is that of [LS08] Table 4: so many random ratings of each user to learn from, all
others to rank. EachMovie is not to be had; Jester and MovieLens 100k stand in for it. The settings
of each method are chosen once for each set and number of ratings, on a split of its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from experiments.collaborative_methods import (
    Scorer,
    item_means,
    least_squares,
    ranking_factors,
    rankrls_by_user,
    truncated_svd,
)
from experiments.harness import DataMissingError, markdown_table
from experiments.ratings_data import Split, draw, read_jester, read_movielens, split
from rankwise import ERU, NDCG, Measure, Queries

NUMBERS = (10, 20, 50)
N_SPLITS = 5
N_USERS = 500
LEAST = 60  # ratings of a user, so that at least 10 are left
N_NEW = 100  # users who are folded in
EXPONENTIAL = NDCG(gain="exponential")
CS = (0.1, 0.15, 0.25, 0.4, 0.65, 1.0)
PAPER = {
    10: (("MMMF", 84.34, 0.48, 47.46, 3.42), ("DORM", 87.17, 0.24, 61.75, 1.83)),
    20: (("MMMF", 84.85, 0.28, 47.86, 1.39), ("DORM", 87.63, 0.37, 62.82, 1.90)),
    50: (("MMMF", 86.13, 0.38, 54.78, 2.11), ("DORM", 87.84, 0.32, 65.05, 1.27)),
}


@dataclass(frozen=True, eq=False)
class Collection:
    """Ratings, how they become grades, and the vote that is neutral."""

    name: str
    R: csr_array
    grades: Callable[[csr_array], csr_array]
    neutral: float

    def measures(self) -> list[tuple[Measure, Callable[[csr_array], csr_array]]]:
        """Return the measures, each with what makes its grades of ratings."""
        eru = ERU(neutral=self.neutral)
        return [(EXPONENTIAL, self.grades), (EXPONENTIAL @ 10, self.grades), (eru, as_they_are)]

    def methods(self) -> dict[str, tuple[Callable[[csr_array, Any], Scorer], tuple]]:
        """Return all methods with the settings to choose from."""
        aims = [
            ("NDCG", EXPONENTIAL, self.grades),
            ("NDCG @ 10", EXPONENTIAL @ 10, self.grades),
            ("NDCG, linear gain", NDCG, self.grades),
            ("ERU", ERU(neutral=self.neutral), as_they_are),
        ]
        factors = {
            f"ranking factors, {name}": (ranking_factors(measure, grades), CS)
            for name, measure, grades in aims
        }
        return {
            "item means": (item_means, (0.0, 5.0, 10.0, 20.0, 40.0)),
            "truncated SVD": (
                truncated_svd,
                tuple((d, k) for d in (5.0, 20.0) for k in (2, 5, 10)),
            ),
            "least squares": (
                least_squares,
                tuple(
                    (k, a * self.variance)
                    for k in (5, 10)
                    for a in (1.0, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0, 12.0)
                ),
            ),
            "RankRLS by user": (rankrls_by_user, tuple(10.0**k for k in range(7))),
            **factors,
        }

    @property
    def variance(self) -> float:
        """Of the ratings inside users, the natural unit of regularisation."""
        return float(np.mean([self.R[[u]].data.var() for u in range(0, self.R.shape[0], 50)]))


def as_they_are(R: csr_array) -> csr_array:
    """Return the ratings."""
    return R


def six_grades(R: csr_array) -> csr_array:
    """Return ratings from -10 to 10 as grades 0 to 5."""
    return csr_array((np.round((R.data + 10.0) / 4.0), R.indices, R.indptr), R.shape)


def values(collection: Collection, scores: np.ndarray, test: csr_array) -> np.ndarray:
    """Return all measures of a ranking of the test ratings, in per cent."""
    users = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    queries, rated = Queries.from_qid(users), scores[users, test.indices]
    return 100.0 * np.array(
        [
            measure.overall(grades(test).data, rated, queries)
            for measure, grades in collection.measures()
        ]
    )


def splits(collection: Collection, n_train: int) -> list[Split]:
    """Return one split to choose settings with, and those to report."""
    return [
        split(draw(collection.R, LEAST, N_USERS, seed), n_train, seed)
        for seed in range(N_SPLITS + 1)
    ]


def weak(collection: Collection, data: list[Split]) -> tuple[dict, dict, dict]:
    """Return the values on all splits, the settings and the CPU seconds of each method."""
    found, chosen, seconds = {}, {}, {}
    for name, (method, settings) in collection.methods().items():
        trials = [
            values(collection, method(data[0].train, setting)(data[0].train), data[0].test)[1]
            for setting in settings
        ]
        chosen[name] = settings[int(np.argmax(trials))]
        start = time.process_time()
        found[name] = np.array(
            [
                values(collection, method(part.train, chosen[name])(part.train), part.test)
                for part in data[1:]
            ]
        )
        seconds[name] = (time.process_time() - start) / N_SPLITS
    return found, chosen, seconds


def strong(collection: Collection, data: list[Split], chosen: dict) -> dict[str, np.ndarray]:
    """Return the values for users who are folded in after others were learned from."""
    found = {}
    for name, (method, _) in collection.methods().items():
        rows = []
        for part in data[1:]:
            known, new = part.users(slice(N_NEW, None)), part.users(slice(N_NEW))
            rows.append(values(collection, method(known.train, chosen[name])(new.train), new.test))
        found[name] = np.array(rows)
    return found


def cell(column: np.ndarray) -> str:
    """Return mean and standard deviation."""
    return f"{column.mean():.2f} ± {column.std(ddof=1):.2f}"


def difference(column: np.ndarray, other: np.ndarray) -> str:
    """Return the mean of paired differences and its standard error."""
    lead = column - other
    return f"{lead.mean():+.2f} ± {lead.std(ddof=1) / np.sqrt(len(lead)):.2f}"


def show(chosen: Any) -> str:
    """Return a setting in short."""
    return ", ".join(f"{value:.3g}" for value in np.atleast_1d(chosen))


def table_of_known_users(n_train: int, found: dict, chosen: dict, seconds: dict) -> list[tuple]:
    """Return the rows for other items of the same users, with the paper's below."""
    against = found["least squares"][:, 1]
    rows: list[tuple] = [
        (
            *(n_train, name),
            *map(cell, values_.T),
            difference(values_[:, 1], against),
            *(show(chosen[name]), f"{seconds[name]:.1f}"),
        )
        for name, values_ in found.items()
    ]
    for name, ndcg, its, head, heads in PAPER[n_train]:
        paper = f"{ndcg:.2f} ± {its:.2f}", f"{head:.2f} ± {heads:.2f}"
        rows.append((n_train, f"{name}, [LS08] Table 4", *paper, "", "", "", ""))
    return rows


def tables(collection: Collection) -> str:
    """Return the tables of one collection."""
    known, new = [], {}
    for n_train in NUMBERS:
        data = splits(collection, n_train)
        found, chosen, seconds = weak(collection, data)
        known += table_of_known_users(n_train, found, chosen, seconds)
        new[n_train] = strong(collection, data, chosen)
    header = ["N", "method", "NDCG", "NDCG @ 10", "ERU", "less least squares", "setting", "CPU s"]
    names = list(new[NUMBERS[0]])
    by_number = [(name, *(cell(new[n][name][:, 1]) for n in NUMBERS)) for name in names]
    return "\n".join(
        [
            f"### {collection.name}: other items of the same users\n",
            markdown_table(header, known),
            f"### {collection.name}: NDCG @ 10 of {N_NEW} new users, folded in\n",
            markdown_table(["method", *(f"N = {n}" for n in NUMBERS)], by_number),
        ]
    )


def collections() -> tuple[list[Collection], str]:
    """Return the data, and a remark on what is missing."""
    found = [Collection("Jester", read_jester(), six_grades, 0.0)]
    try:
        return [*found, Collection("MovieLens 100k", read_movielens(20), as_they_are, 3.0)], ""
    except DataMissingError as missing:
        return found, f"MovieLens 100k could not be had: {missing}.\n"


REMARKS = f"""
In per cent, mean and standard deviation over {N_SPLITS} splits. Each split draws {N_USERS} users
with at least {LEAST} ratings (all such users on MovieLens, where there are fewer), and N ratings
of each to learn from; the others are ranked. Gains are 2^grade - 1. Ratings of Jester are
rounded to grades 0 to 5 for NDCG, and 0 is the neutral vote for ERU; on MovieLens stars are
grades, 3 is neutral, and films have at least 20 ratings. "Less least squares" is the paired
difference in NDCG @ 10, with its standard error. The settings were chosen by NDCG @ 10 on one
more split: damping; damping and number of vectors; number of factors and alpha; alpha; C.
Ranking factors are trained for the measure named, with 10 factors and c = (i + 1)^-0.25 as in
the paper. They start at random and stop at a tolerance of 1e-3: differences of theirs below about
0.2 points are within the noise of the solver. For the tables of new users the methods learn from
the other users, and only then see N ratings of each new one.

* The paper's rows are for 100 users of EachMovie, which is withdrawn, so the figures do not
  compare. Its DORM there uses the kernels of earlier work on that set, not the factorisation of
  its Sect. 5.2, for which it gives no figures. Its Table 3 has ERU 75.3 and 76.2 for JRank, 76.5
  and 76.7 for DORM, with features of users and of films beside the ratings.
* What all users agree on does most of the work: for N = 10 and 20 damped means of the items,
  hardly a method, are about level with everything else.
* So are ranking factors there: ahead of least squares on MovieLens, by little, and level with it
  on Jester. For N = 50 they fall behind, clearly on Jester and a little on MovieLens. That
  Jester is rounded to grades does not explain it: training for ERU on the ratings as they are
  falls behind too.
* The bound on NDCG @ 10 is looser than that on NDCG. For N = 50 training for NDCG is better even
  if the first ten are what counts; for N = 10 the two are one and the same.
* Rankings learned for each user alone (RankRLS on 5 singular vectors and the means) need 50
  ratings to come close.
"""


def section() -> str:
    """Return all tables."""
    found, remark = collections()
    with threadpool_limits(1):
        return "\n".join([remark, *map(tables, found), REMARKS])
