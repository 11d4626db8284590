"""LambdaMART by LightGBM, XGBoost and CatBoost, with a budget for tuning that is written down.

LightGBM and XGBoost are given six settings each, CatBoost, whose trees take longer, two: small and
larger trees, slow and quick learning. Every setting grows up to 500 trees and stops when the
NDCG @ 10 of the validation part has not risen for 50 of them. Fitted again to more data, it grows
as many trees as it had when it was best. All run in one thread.
"""

import numpy as np
from catboost import CatBoostRanker, Pool
from lightgbm import LGBMRanker, early_stopping
from xgboost import XGBRanker

from experiments.letor_data import Part, query_sizes
from experiments.letor_methods import Candidate

N_TREES, PATIENCE = 500, 50

LIGHTGBM = [
    {"num_leaves": leaves, "learning_rate": rate, "min_child_samples": least}
    for rate, least in ((0.05, 20), (0.1, 100))
    for leaves in (7, 15, 31)
]
XGBOOST = [
    {"max_depth": depth, "learning_rate": rate, "min_child_weight": least}
    for rate, least in ((0.05, 1), (0.1, 10))
    for depth in (3, 4, 6)
]
CATBOOST = [{"depth": depth, "learning_rate": 0.1} for depth in (4, 6)]


def numbered(part: Part) -> np.ndarray:
    """Return the queries as numbers, in the order of the rows."""
    sizes = query_sizes(part.qid)
    return np.repeat(np.arange(len(sizes)), sizes)


def lightgbm(setting: dict[str, float]) -> Candidate:
    """Return LightGBM's lambdarank."""

    def make(n_trees: int) -> LGBMRanker:
        return LGBMRanker(n_estimators=n_trees, n_jobs=1, verbose=-1, random_state=0, **setting)

    def fit(train: Part, validation: Part) -> LGBMRanker:
        return make(N_TREES).fit(
            train.X,
            train.y.astype(int),
            group=query_sizes(train.qid),
            eval_X=validation.X,
            eval_y=validation.y.astype(int),
            eval_group=[query_sizes(validation.qid)],
            eval_at=[10],
            callbacks=[early_stopping(PATIENCE, verbose=False)],
        )

    def refit(chosen: LGBMRanker, part: Part) -> LGBMRanker:
        ranker = make(chosen.best_iteration_)
        return ranker.fit(part.X, part.y.astype(int), group=query_sizes(part.qid))

    return Candidate(fit, refit)


def xgboost(setting: dict[str, float]) -> Candidate:
    """Return XGBoost's LambdaMART."""

    def make(n_trees: int, patience: int | None) -> XGBRanker:
        return XGBRanker(
            n_estimators=n_trees,
            early_stopping_rounds=patience,
            objective="rank:ndcg",
            eval_metric="ndcg@10",
            tree_method="hist",
            n_jobs=1,
            random_state=0,
            **setting,
        )

    def fit(train: Part, validation: Part) -> XGBRanker:
        return make(N_TREES, PATIENCE).fit(
            train.X,
            train.y,
            qid=numbered(train),
            eval_set=[(validation.X, validation.y)],
            eval_qid=[numbered(validation)],
            verbose=False,
        )

    def refit(chosen: XGBRanker, part: Part) -> XGBRanker:
        ranker = make(chosen.best_iteration + 1, None)
        return ranker.fit(part.X, part.y, qid=numbered(part))

    return Candidate(fit, refit)


def catboost(setting: dict[str, float]) -> Candidate:
    """Return CatBoost's YetiRank."""

    def make(n_trees: int, patience: int | None) -> CatBoostRanker:
        return CatBoostRanker(
            iterations=n_trees,
            early_stopping_rounds=patience,
            loss_function="YetiRank",
            eval_metric="NDCG:top=10;type=Exp",
            thread_count=1,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
            **setting,
        )

    def fit(train: Part, validation: Part) -> CatBoostRanker:
        held_out = Pool(validation.X, validation.y, group_id=numbered(validation))
        ranker = make(N_TREES, PATIENCE)
        return ranker.fit(train.X, train.y, group_id=numbered(train), eval_set=held_out)

    def refit(chosen: CatBoostRanker, part: Part) -> CatBoostRanker:
        ranker = make(chosen.tree_count_, None)
        return ranker.fit(part.X, part.y, group_id=numbered(part))

    return Candidate(fit, refit)
