"""The families that an automatic search tries: features, settings, and scores held out."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from sklearn.base import BaseEstimator

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.queries import Queries
from rankwise.core.training_data import TrainingData
from rankwise.features.kernels import Gaussian
from rankwise.measures.value import Measure
from rankwise.rankers.base import PointRanker
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV
from rankwise.rankers.svm.rank_svm import RankSVM
from rankwise.rankers.trees.boosted_ranker import BoostedRanker
from rankwise.selection.holdouts import Folds
from rankwise.transformers.scaling import WithinQueryRanks, WithinQueryScaler

N_BASIS = 400
ALPHAS = 2.0 ** np.arange(-10, 13, 2)
KERNEL_ALPHAS = 2.0 ** np.arange(-8, 9, 2)
HINGE_CS = (0.001, 0.01, 0.1, 1.0)
DORM_CS = (0.001, 0.01, 0.1)


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """What a family is tried on.

    Parameters
    ----------
    X : (n_items, n_features)
        The features as the family wants them.
    data : TrainingData
        Scores and queries.
    folds : Folds
        What is held out in turn, the same for every family.
    judged : Queries
        What is judged: the queries, or without any the folds.
    measure : Measure
        What decides.
    seed : int
        Draws basis rows.
    deadline : float
        When to stop, by `time.perf_counter`.
    """

    X: FloatArray
    data: TrainingData
    folds: Folds
    judged: Queries
    measure: Measure
    seed: int
    deadline: float

    @property
    def qid(self) -> IntArray | None:
        """The queries as numbers, where there are any."""
        return self.data.queries.index if self.data.has_qid else None

    @property
    def fold_rows(self) -> list[IntArray]:
        """The rows of each fold."""
        return [np.flatnonzero(self.folds.fold == k) for k in range(self.folds.n_folds)]

    @property
    def n_basis(self) -> int:
        """Number of basis rows: not more than there are without the largest fold."""
        largest = int(np.bincount(self.folds.fold).max())
        return min(N_BASIS, self.data.n_items - largest)

    def is_over(self, _step: object = None) -> bool:
        """Tell whether the time is over."""
        return time.perf_counter() > self.deadline

    def best(self, scores: FloatArray) -> int:
        """Return which of several held-out score vectors is best."""
        values = self.measure.overall_many(self.data.scores, scores, self.judged)
        return int(np.nanargmax(values if self.measure.greater_is_better else -values))


@final
@dataclass(frozen=True, eq=False)
class Found:
    """What a family found: held-out scores of its best setting, and a ranker with that setting."""

    scores: FloatArray
    ranker: BaseEstimator


Search: TypeAlias = Callable[[Trial], Found]


@final
@dataclass(frozen=True, eq=False)
class Family:
    """One way to learn.

    Parameters
    ----------
    name : str
        What the leaderboard calls it.
    steps : sequence of transformers
        What makes its features.
    search : function
        Chooses its settings and holds out scores.
    bytes_per_item : function
        How much memory an item takes, given the number of features.
    """

    name: str
    steps: Sequence[Any]
    search: Search
    bytes_per_item: Callable[[int], int]


def _linear(trial: Trial) -> Found:
    ranker = RankRLSCV(
        ALPHAS, cv=trial.fold_rows, measure=trial.measure, ties=["drop", "keep"]
    ).fit(trial.X, trial.data.scores, trial.qid, trial.data.sample_weight)
    return _closed_form(ranker, {})


def _gaussian(ties: str) -> Search:
    def search(trial: Trial) -> Found:
        shared: dict[str, Any] = {"basis": trial.n_basis, "random_state": trial.seed}
        ranker = RankRLSCV(
            KERNEL_ALPHAS,
            cv=trial.fold_rows,
            measure=trial.measure,
            kernel=Gaussian(1.0 / trial.X.shape[1]),
            ties=ties,
            **shared,
        ).fit(trial.X, trial.data.scores, trial.qid, trial.data.sample_weight)
        return _closed_form(ranker, shared)

    return search


def _closed_form(ranker: RankRLSCV, shared: dict[str, Any]) -> Found:
    assert ranker.held_out_scores_ is not None
    chosen = RankRLS(ranker.alpha_, kernel=ranker.kernel_, ties=ranker.ties_, **shared)
    return Found(ranker.held_out_scores_, chosen)


def _by_refits(trial: Trial, grid: Sequence[float], make: Callable[[float], PointRanker]) -> Found:
    """Fit without each fold for one value of a grid after the other, until they get worse."""
    scores = np.full((len(grid), trial.data.n_items), np.nan)
    done = 0
    for k, value in enumerate(grid):
        for rows in trial.fold_rows:
            kept = np.setdiff1d(np.arange(trial.data.n_items), rows, assume_unique=True)
            part = trial.data.take(kept)
            qid = part.queries.index if part.has_qid else None
            ranker = make(value).fit(trial.X[kept], part.scores, qid, part.sample_weight)
            scores[k, rows] = ranker.predict(trial.X[rows])
        done = k + 1
        if trial.is_over() or trial.best(scores[:done]) < k:
            break
    best = trial.best(scores[:done])
    return Found(scores[best], make(grid[best]))


def _hinge(trial: Trial) -> Found:
    return _by_refits(
        trial, HINGE_CS, lambda C: RankSVM(C, query_weight="items", tol=1e-3, max_iter=100)
    )


def _direct(trial: Trial) -> Found:
    kernel = Gaussian(1.0 / trial.X.shape[1])
    return _by_refits(
        trial,
        DORM_CS,
        lambda C: DORM(
            "NDCG(gain='exponential')",
            C,
            kernel=kernel,
            basis=trial.n_basis,
            tol=1e-2,
            random_state=trial.seed,
        ),
    )


def _trees(loss: Any) -> Search:
    def search(trial: Trial) -> Found:
        options: dict[str, Any] = {
            "loss": loss,
            "learning_rate": 0.1,
            "feature_share": 0.3,
            "random_state": trial.seed,
        }
        ranker = BoostedRanker(
            cv=trial.fold_rows, measure=trial.measure, progress=trial.is_over, **options
        ).fit(trial.X, trial.data.scores, trial.qid, trial.data.sample_weight)
        if ranker.ending_.reason == "interrupted":
            raise KeyboardInterrupt
        assert ranker.held_out_scores_ is not None
        chosen = BoostedRanker(n_trees=ranker.n_trees_, early_stopping=False, **options)
        return Found(ranker.held_out_scores_, chosen)

    return search


def _scaled() -> list[Any]:
    return [WithinQueryScaler()]


def _with_ranks() -> list[Any]:
    return [WithinQueryScaler(), WithinQueryRanks("values_and_ranks")]


def _kernel_bytes(n_features: int) -> int:
    return 8 * (3 * N_BASIS + 2 * n_features)


def _row_bytes(n_features: int) -> int:
    return 8 * 6 * n_features


FAMILIES = (
    Family("linear RankRLS", _scaled(), _linear, _row_bytes),
    Family("linear RankRLS with ranks", _with_ranks(), _linear, _row_bytes),
    Family("Gaussian RankRLS", _scaled(), _gaussian("drop"), _kernel_bytes),
    Family("Gaussian RankRLS with ranks", _with_ranks(), _gaussian("keep"), _kernel_bytes),
    Family("RankSVM with ranks", _with_ranks(), _hinge, _row_bytes),
    Family("RankRLS trees with ranks", [WithinQueryRanks("values_and_ranks")], _trees("rank_rls"),
           _row_bytes),
    Family("squared hinge trees with ranks", [WithinQueryRanks("values_and_ranks")],
           _trees("squared_hinge"), _row_bytes),
    Family("lambdarank trees with ranks", [WithinQueryRanks("values_and_ranks")],
           _trees("lambdarank"), _row_bytes),
    Family("Gaussian DORM", _scaled(), _direct, _kernel_bytes),
)  # fmt: skip
"""In the order of their cost."""
