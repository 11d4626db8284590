"""The ways to learn from a LETOR fold that are compared, and how each makes its choices.

A method is given a fold and ranks its test part by every protocol: what it chooses is chosen by MAP
or by NDCG @ 10, and it learns from three parts or from four, the validation part among them. What
is judged by closed-form hold-outs has no need of a validation part: it holds out queries of
whatever it learns from. What needs one chooses there, and is then fitted once more to four parts
with what was chosen.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from typing import Protocol as Interface

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold

from experiments.letor_data import Fold, Part, join, ranks_within_queries
from rankwise import AP, DORM, DORMCV, NDCG, Gaussian, Measure, RankRLSCV, RankSVM, evaluate

MAP = AP(empty="zero")
NDCG_10 = NDCG(gain="exponential", empty="zero") @ 10
MEASURES = [MAP, NDCG_10]

Scorer = Callable[[Part], np.ndarray]
"""Gives the items of a part their scores."""

N_BASIS = 400
ALPHAS = 2.0 ** np.arange(-15, 16)
KERNEL_ALPHAS = 2.0 ** np.arange(-8, 9, 2)
CS = 10.0 ** np.arange(-6, 3)
KERNEL_CS = 10.0 ** np.arange(-4, 0)


class Model(Interface):
    """Whatever scores items."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return a score for each row."""


@dataclass(frozen=True)
class Protocol:
    """What decides, and how many parts are learned from."""

    criterion: Measure
    n_parts: int


@dataclass(frozen=True, eq=False)
class Learned:
    """What came of a fold: a ranking of the test part, and the CPU seconds behind it."""

    scores: np.ndarray
    seconds: float


Method = Callable[[Fold], dict[Protocol, Learned]]
"""Learns from a fold by every protocol that it is made for."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting: how to fit it, and how to fit it again to more data."""

    fit: Callable[[Part, Part], Model]
    refit: Callable[[Model, Part], Model]

    @classmethod
    def of(cls, fit: Callable[[Part], Model]) -> "Candidate":
        """Build from a fit that makes no use of the validation part."""
        return cls(lambda train, _: fit(train), lambda _, part: fit(part))


def by_hold_outs(
    fit: Callable[[Part, Measure], Scorer], criteria: Sequence[Measure] = (MAP,)
) -> Method:
    """Learn from three parts and from four, everything chosen inside of them."""

    def learn(fold: Fold) -> dict[Protocol, Learned]:
        learned = {}
        parts = {3: fold.train, 4: join(fold.train, fold.validation)}
        for criterion, (n_parts, part) in product(criteria, parts.items()):
            start = time.process_time()
            scores = fit(part, criterion)(fold.test)
            seconds = time.process_time() - start
            learned[Protocol(criterion, n_parts)] = Learned(scores, seconds)
        return learned

    return learn


def by_validation(candidates: Sequence[Candidate], criteria: Sequence[Measure] = (MAP,)) -> Method:
    """Choose a setting on the validation part, then fit it to that part as well."""

    def learn(fold: Fold) -> dict[Protocol, Learned]:
        learned = {}
        start = time.process_time()
        models = [candidate.fit(fold.train, fold.validation) for candidate in candidates]
        seconds = time.process_time() - start
        for criterion in criteria:
            start = time.process_time() - seconds
            best = int(np.argmax([value(model, fold.validation, criterion) for model in models]))
            scores = models[best].predict(fold.test.X)
            learned[Protocol(criterion, 3)] = Learned(scores, time.process_time() - start)
            again = candidates[best].refit(models[best], join(fold.train, fold.validation))
            scores = again.predict(fold.test.X)
            learned[Protocol(criterion, 4)] = Learned(scores, time.process_time() - start)
        return learned

    return learn


def value(model: Model, part: Part, criterion: Measure) -> float:
    """Return the mean over the queries of a part."""
    return evaluate(part.y, model.predict(part.X), part.qid, [criterion]).mean[0]


def linear(*ties: str) -> Method:
    """Choose alpha, and the ties of several, by leave-query-out."""

    def fit(part: Part, criterion: Measure) -> Scorer:
        ranker = RankRLSCV(ALPHAS, measure=criterion, ties=list(ties))
        ranker.fit(part.X, part.y, qid=part.qid)
        return lambda test: ranker.predict(test.X)

    return by_hold_outs(fit)


def gaussian_ranker(X: np.ndarray, part: Part, criterion: Measure, *ties: str) -> RankRLSCV:
    """Return a ranker with a Gaussian kernel, its alpha chosen by five folds of queries."""
    ranker = RankRLSCV(
        KERNEL_ALPHAS,
        cv=GroupKFold(5),
        measure=criterion,
        kernel=Gaussian(1.0 / X.shape[1]),
        basis=N_BASIS,
        ties=list(ties),
        random_state=0,
    )
    return ranker.fit(X, part.y, qid=part.qid)


def gaussian(part: Part, criterion: Measure) -> Scorer:
    """Fit a Gaussian kernel on the features, ties dropped or kept."""
    ranker = gaussian_ranker(part.X, part, criterion, "drop", "keep")
    return lambda test: ranker.predict(test.X)


def sum_of_two(part: Part, criterion: Measure) -> Scorer:
    """Add two rankers: on the features with ties dropped; with ranks added, with ties kept.

    Both estimate differences of grades, so that their scores add up as they are.
    """
    first = gaussian_ranker(part.X, part, criterion, "drop")
    second = gaussian_ranker(with_ranks(part), part, criterion, "keep")
    return lambda test: first.predict(test.X) + second.predict(with_ranks(test))


def with_ranks(part: Part) -> np.ndarray:
    """Return the features followed by their ranks within the query."""
    return np.hstack([part.X, ranks_within_queries(part.X, part.qid)])


def regression(alpha: float) -> Candidate:
    """Return least squares on the grades."""
    return Candidate.of(lambda part: Ridge(alpha).fit(part.X, part.y))


def ranksvm(C: float) -> Candidate:
    """Return the linear RankSVM with the hinge of its first authors."""
    return Candidate.of(lambda part: RankSVM(C, loss="hinge").fit(part.X, part.y, qid=part.qid))


def kernel_ranksvm(C: float) -> Candidate:
    """Return RankSVM with a Gaussian kernel on the basis rows that RankRLS has."""

    def fit(part: Part) -> RankSVM:
        kernel = Gaussian(1.0 / part.X.shape[1])
        ranker = RankSVM(C, kernel=kernel, basis=N_BASIS, query_weight="items", random_state=0)
        return ranker.fit(part.X, part.y, qid=part.qid)

    return Candidate.of(fit)


def dorm() -> Candidate:
    """Return linear DORM for NDCG, which goes through its grid of C in one run."""
    return _dorm(lambda _: {})


def kernel_dorm() -> Candidate:
    """Return DORM for NDCG with a Gaussian kernel on the basis rows that RankRLS has."""
    return _dorm(lambda part: {"kernel": Gaussian(1.0 / part.X.shape[1]), "basis": N_BASIS})


def _dorm(space: Callable[[Part], dict[str, Any]]) -> Candidate:
    options = {"objective": NDCG(gain="exponential"), "random_state": 0}

    def fit(train: Part, validation: Part) -> DORMCV:
        ranker = DORMCV(measure=MAP, **options, **space(train))
        return ranker.fit(
            train.X,
            train.y,
            qid=train.qid,
            X_val=validation.X,
            y_val=validation.y,
            qid_val=validation.qid,
        )

    def refit(chosen: DORMCV, part: Part) -> DORM:
        ranker = DORM(C=chosen.C_, **options, **space(part))
        return ranker.fit(part.X, part.y, qid=part.qid)

    return Candidate(fit, refit)
