"""What the papers compare with and rankwise has no class for, in few lines each.

Every fit takes the training part, the validation part and a measure, chooses its constant on the
validation part, and returns what predicts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import DORMCV, Queries, RankSVM, evaluate

CS = 10.0 ** np.arange(-5, 1)
N_ROUNDS, N_THRESHOLDS = 100, 10


def all_pairs(y: NDArray[Any], qid: NDArray[Any]) -> NDArray[Any]:
    """Return all pairs of different grade inside queries, the better item first."""
    found = []
    for rows in Queries.from_qid(qid):
        i, j = np.nonzero(y[rows][:, None] > y[rows][None, :])
        found.append(np.column_stack([rows[i], rows[j]]))
    return np.concatenate(found)


@dataclass(eq=False)
class RankBoost:
    """Boosting of thresholds on single features, on the weights of pairs (Freund et al., 2003).

    Every round takes the threshold h of the largest ``|r|``, with r the weighted mean over pairs of
    ``h(winner) - h(loser)``, adds it with the weight ``log((1 + r) / (1 - r)) / 2``, and weights
    pairs anew by how badly they stand.
    """

    n_rounds: int = N_ROUNDS

    def fit(self, X: NDArray[Any], y: NDArray[Any], qid: NDArray[Any]) -> "RankBoost":
        """Learn from all pairs of different grade inside queries."""
        winner, loser = all_pairs(y, qid).T
        cuts = np.quantile(X, np.linspace(0.0, 1.0, N_THRESHOLDS + 2)[1:-1], axis=0)
        self.feature = np.tile(np.arange(X.shape[1]), N_THRESHOLDS)
        self.cut = cuts.ravel()
        H = (X[:, self.feature] > self.cut).astype(np.float32)
        weight = np.full(len(winner), 1.0 / len(winner))
        self.coef = np.zeros(len(self.cut))
        for _ in range(self.n_rounds):
            n = len(y)
            potential = np.bincount(winner, weight, n) - np.bincount(loser, weight, n)
            r = potential.astype(np.float32) @ H
            best = int(np.argmax(np.abs(r)))
            lead = float(np.clip(r[best], -1.0 + 1e-9, 1.0 - 1e-9))
            alpha = 0.5 * np.log((1.0 + lead) / (1.0 - lead))
            self.coef[best] += alpha
            weight = weight * np.exp(-alpha * (H[winner, best] - H[loser, best]))
            weight /= weight.sum()
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the weighted sum of thresholds passed."""
        return (X[:, self.feature] > self.cut) @ self.coef


@dataclass(frozen=True, eq=False)
class SingleFeature:
    """Rank by one feature, up or down."""

    number: int
    sign: float

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the feature."""
        return self.sign * X[:, self.number]


def value(ranker: Any, part: Any, measure: str) -> float:
    """Return the mean over the queries of a part."""
    return float(evaluate(part.y, ranker.predict(part.X), part.qid, measure).mean[0])


def best_of_path(path: Any, validation: Any, measure: str) -> Any:
    """Return the ranker of a path that is best on the validation part."""
    return max(path, key=lambda ranker: value(ranker, validation, measure))


def rank_svm(train: Any, validation: Any, measure: str) -> Any:
    """Fit RankSVM with the hinge loss: all pairs of different grade count the same."""
    path = RankSVM(loss="hinge", tol=1e-3).fit_path(train.X, train.y, qid=train.qid, Cs=CS)
    return best_of_path(path, validation, measure)


def roc_area(train: Any, validation: Any, measure: str) -> Any:
    """Fit the SVM for the area under the curve (Joachims, 2005).

    Its structured hinge loss is the sum of the hinge losses of all pairs of a relevant and another
    item, over their number: RankSVM on two classes, every query with the same weight.
    """
    ranker = RankSVM(loss="hinge", query_weight="equal", tol=1e-3)
    cs = CS * len(np.unique(train.qid))
    return best_of_path(
        ranker.fit_path(train.X, (train.y >= 1).astype(float), qid=train.qid, Cs=cs),
        validation,
        measure,
    )


def precision_svm(train: Any, validation: Any, measure: str) -> Any:
    """Fit an SVM for the precision among the first 10, by DORM."""
    ranker = DORMCV(6, objective="Precision @ 10", measure=measure, random_state=0)
    held_out = {"X_val": validation.X, "y_val": validation.y, "qid_val": validation.qid}
    return ranker.fit(train.X, train.y, qid=train.qid, **held_out)


def svm_ir(train: Any, validation: Any, measure: str) -> Any:
    """Fit the SVM for information retrieval (Cao et al., 2006).

    RankSVM whose pairs weigh what confusing their grades costs in NDCG @ 10 on average, and the
    inverse of the number of pairs of their query.
    """
    pairs, weights = [], []
    for rows in Queries.from_qid(train.qid):
        y = train.y[rows]
        i, j = np.nonzero(y[:, None] > y[None, :])
        if len(i):
            pairs.append(np.column_stack([rows[i], rows[j]]))
            weights.append(confusion_costs(y)[i, j] / len(i))
    weight = np.concatenate(weights)
    path = RankSVM(loss="hinge", tol=1e-3).fit_path(
        train.X,
        pairs=np.concatenate(pairs),
        pair_weight=weight / weight.mean(),
        Cs=CS,
    )
    return best_of_path(path, validation, measure)


def confusion_costs(y: NDArray[Any]) -> NDArray[Any]:
    """Return what NDCG @ 10 loses on average if items of two grades change places."""
    order = np.argsort(-y, kind="stable")
    place = np.empty(len(y), dtype=int)
    place[order] = np.arange(len(y))
    discount = np.where(place < 10, 1.0 / np.log2(place + 2.0), 0.0)
    gain = 2.0**y - 1.0
    by_grade = {grade: discount[y == grade].mean() for grade in np.unique(y)}
    typical = np.array([by_grade[grade] for grade in y])
    lost = (gain[:, None] - gain[None, :]) * (typical[:, None] - typical[None, :])
    ideal = float(discount @ gain)
    return np.maximum(lost / ideal, 1e-3) if ideal > 0 else np.ones_like(lost)


def rank_boost(train: Any, _: Any, __: str) -> Any:
    """Fit RankBoost."""
    return RankBoost().fit(train.X, train.y, train.qid)


def single_feature(train: Any, _: Any, measure: str) -> Any:
    """Take the feature, up or down, that is best on the training part."""
    found = [SingleFeature(k, sign) for k in range(train.X.shape[1]) for sign in (1.0, -1.0)]
    return max(found, key=lambda ranker: value(ranker, train, measure))
