"""AutoRanker, SearchRanker and boosted trees beside tuned peers, five folds of each set.

Ours learn from four parts and make every choice inside of them. LightGBM and XGBoost choose among
six settings on one part, CatBoost among two, and are then fitted to all four. BLAS and the peers
are held to one thread; seconds are CPU seconds of everything, choices included, on a machine that
was busy with other work. Scores are judged by NDCG @ 10 with exponential gain, a query without
relevant items counting 0. Values have standard errors over the queries of all five test parts,
which take the rankers as given; so have the differences from AutoRanker, which are those of the
same queries, with the p-values of `paired_test`. Seconds of the first set include compiling where
nothing was compiled before.

The families of AutoRanker, their settings and weights were chosen by held-out values of the
training parts of the first fold, as that of LightGBM's example decided how many features a tree is
grown from. Test values of the first two folds were seen while its time was cut, and an earlier
version had been changed after test values on MQ2008 were seen, so that its values are not fully
independent of the test parts.
"""

import os
import re
import time
from collections.abc import Callable
from itertools import islice

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.harness import HERE, markdown_table, progress, with_error
from experiments.lambdamart import CATBOOST, LIGHTGBM, XGBOOST, catboost, lightgbm, xgboost
from experiments.letor_data import TITLES, Fold, Part, folds, join, read_parts
from experiments.letor_methods import NDCG_10, Protocol, by_validation
from rankwise import (
    AutoRanker,
    BoostedRanker,
    RankerPipeline,
    SearchRanker,
    WithinQueryRanks,
    evaluate,
    paired_test,
)

SETS = os.environ.get("RANKWISE_AUTO_SETS", "MQ2008 LightGBM_rank OHSUMED_LETOR3 MQ2007").split()
"""Which sets to run; the others keep what was recorded before."""
KEPT: dict[str, int] = {}
"""Every how many-th query of a set is used, where not all are."""
N_FOLDS = 5
PEERS = ["lightgbm", "xgboost-cpu", "catboost"]

Learner = Callable[[Fold], np.ndarray]


def ours(make: Callable[[], object], change: Callable[[Part], np.ndarray] | None = None) -> Learner:
    """Fit to four parts; ``change`` makes other features of those given."""

    def learn(fold: Fold) -> np.ndarray:
        train, test = join(fold.train, fold.validation), fold.test
        X, X_test = (part.X if change is None else change(part) for part in (train, test))
        return make().fit(X, train.y, qid=train.qid).predict(X_test, qid=test.qid)

    return learn


def made_raw(part: Part) -> np.ndarray:
    """Undo good scaling: each query and feature gets an offset and a scale of its own."""
    scale = 10.0 ** np.linspace(-3.0, 4.0, part.X.shape[1])
    seeds = np.array([hash_of(q) for q in part.qid])
    return scale * (part.X * (1.0 + seeds[:, None]) + 5.0 * seeds[:, None])


def hash_of(qid: object) -> float:
    """Return a number from 0 to 1 that depends on a query only."""
    return (sum(map(ord, str(qid))) * 2654435761 % 2**32) / 2**32


def trees(loss: str) -> Callable[[], object]:
    """Make boosted trees on the features and their ranks."""
    ranker = BoostedRanker(
        loss,
        learning_rate=0.1,
        feature_share=0.3,
        cv=4,
        measure=NDCG_10,
        random_state=0,
    )
    return lambda: RankerPipeline([WithinQueryRanks("values_and_ranks"), ranker])


def peer(candidates: list) -> Learner:
    """Choose a setting on the validation part, and fit it to four parts."""
    method = by_validation(candidates, [NDCG_10])
    return lambda fold: method(fold)[Protocol(NDCG_10, 4)].scores


METHODS: dict[str, Learner] = {
    "AutoRanker": ours(lambda: AutoRanker(NDCG_10)),
    "SearchRanker": ours(lambda: SearchRanker(NDCG_10)),
    "SearchRanker, features made raw": ours(lambda: SearchRanker(NDCG_10), made_raw),
    "BoostedRanker, RankRLS": ours(trees("rank_rls")),
    "BoostedRanker, squared hinge": ours(trees("squared_hinge")),
    "BoostedRanker, lambdarank": ours(trees("lambdarank")),
    "LightGBM, 6 settings": peer([lightgbm(setting) for setting in LIGHTGBM]),
    "XGBoost, 6 settings": peer([xgboost(setting) for setting in XGBOOST]),
    "CatBoost, 2 settings": peer([catboost(setting) for setting in CATBOOST]),
}


def section() -> str:
    """Return the tables of all sets, those that are run and those recorded before."""
    with threadpool_limits(1):
        new = {TITLES[name]: _table(name) for name in SETS}
    tables = {**_recorded(), **new}
    ordered = [tables[title] for title in TITLES.values() if title in tables]
    return "\n".join([__doc__, *ordered])


def _recorded() -> dict[str, str]:
    """Return the tables of earlier runs by title."""
    path = HERE / "RESULTS.md"
    text = path.read_text() if path.exists() else ""
    mine = re.search(r"(?ms)^## Rankers that choose by themselves.*?(?=^## |\Z)", text)
    parts = re.split(r"(?m)^### ", mine.group() if mine else "")[1:]
    tables = {part.splitlines()[0]: _lines_of_table(part) for part in parts}
    return {title: f"### {title}\n\n{table}\n" for title, table in tables.items()}


def _lines_of_table(part: str) -> str:
    return "\n".join(line for line in part.splitlines() if line.startswith("|"))


def some_queries(part: Part, step: int) -> Part:
    """Keep every so many-th query of a part."""
    names = list(dict.fromkeys(part.qid.tolist()))[::step]
    keep = np.isin(part.qid, names)
    return Part(part.X[keep], part.y[keep], part.qid[keep])


def _table(name: str) -> str:
    values: dict[str, list[float]] = {method: [] for method in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    parts = [some_queries(part, KEPT.get(name, 1)) for part in read_parts(name)]
    for number, fold in enumerate(islice(folds(parts), N_FOLDS), 1):
        for method, learn in METHODS.items():
            start = time.process_time()
            scores = learn(fold)
            seconds[method] += time.process_time() - start
            found = evaluate(fold.test.y, scores, fold.test.qid, [NDCG_10])
            values[method].extend(found.values[:, 0])
            progress(f"{name}, fold {number}: {method} {found.mean[0]:.4f}")
    first = np.array(values["AutoRanker"])
    rows = []
    for method, of_method in values.items():
        is_first = method == "AutoRanker"
        p = "" if is_first else f"{paired_test(first, of_method).pvalue:.2g}"
        gain = "" if is_first else with_error(np.array(of_method) - first, 4, "+")
        rows.append([method, with_error(of_method, 4), gain, p, f"{seconds[method]:.0f}"])
    values_of = f"NDCG @ 10 of {len(first):,} queries"
    header = ["method", values_of, "less AutoRanker", "p against AutoRanker", "CPU seconds"]
    return f"### {TITLES[name]}\n\n" + markdown_table(header, rows)
