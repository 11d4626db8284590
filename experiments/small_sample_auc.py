"""Compare estimates of the AUC from 30 samples with the AUC on all the others.

Many samples of 30 are drawn from scikit-learn's breast_cancer. Ten-fold cross-validation, pooled or
averaged, and leave-pair-out estimate from each sample the AUC that its model has on the remaining
539 items. The table gives, for each estimate, its mean, by how much it is off (with the standard
error of that mean) and the spread of the error from sample to sample.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from rankwise import RankRLS, leave_pair_out

N_SAMPLES = 200
N_ITEMS = 30
N_FOLDS = 10
SMOOTHNESS_AND_SYMMETRY = (4, 8)
ESTIMATES = (
    "ten folds, pooled",
    "ten folds, pooled, no intercept",
    "stratified folds, pooled",
    "ten folds, averaged",
    "leave-pair-out",
)

HEAD = f"""{N_SAMPLES} samples of {N_ITEMS} items of scikit-learn's breast_cancer, each to learn
from and to estimate the AUC of what was learned. The first row of a task is the AUC on the items
outside the sample, the others are estimates from the sample alone: their mean, by how much it is
off with its standard error, and the spread of the error over samples."""
FINDING = """Scores of different folds come from different models. Pooled, they are compared with
each other as if from one, and the AUC comes out too low, the more so the weaker the signal and the
stronger the regularisation; stratified folds and a model without intercept only soften this.
Averaging the AUC of folds is nearly unbiased but wastes pairs. Leave-pair-out is within its
standard error of the truth in every task and has the smallest spread of all, shuffled labels
included, where it shares it with stratified folds. This is what `leave_pair_out` computes in
closed form."""


@dataclass(frozen=True)
class Task:
    """What is to be learned, and how much it is regularised."""

    name: str
    columns: tuple[int, ...]
    alpha: float
    shuffled: bool = False


TASKS = (
    Task("all 30 features", tuple(range(30)), 10.0),
    Task("smoothness and symmetry", SMOOTHNESS_AND_SYMMETRY, 1.0),
    Task("smoothness and symmetry", SMOOTHNESS_AND_SYMMETRY, 10.0),
    Task("smoothness and symmetry", SMOOTHNESS_AND_SYMMETRY, 100.0),
    Task("the same, labels shuffled", SMOOTHNESS_AND_SYMMETRY, 10.0, shuffled=True),
)


def pooled_scores(X, y, folds, alpha):
    """Return the held-out scores of all items, with and without the intercept of their model.

    Without it a score is ``(x - centre) @ w`` with one centre for all folds.
    """
    scores, plain = np.empty((2, len(y)))
    for train, test in folds:
        model = Ridge(alpha=alpha).fit(X[train], y[train])
        scores[test] = model.predict(X[test])
        plain[test] = (X[test] - X.mean(axis=0)) @ model.coef_
    return scores, plain


def averaged_auc(y, scores, folds):
    """Return the mean AUC of the folds that hold both classes; NaN if none does."""
    values = [roc_auc_score(y[f], scores[f]) for _, f in folds if np.ptp(y[f]) > 0]
    return np.mean(values) if values else np.nan


def estimates(X, y, alpha, seed):
    """Return all estimates of the AUC from one small sample.

    There are as many stratified folds as the smaller class has items, ten at most.
    """
    folds = list(KFold(N_FOLDS, shuffle=True, random_state=seed).split(X))
    n_strata = min(N_FOLDS, int(np.bincount(y).min()))
    stratified = StratifiedKFold(n_strata, shuffle=True, random_state=seed).split(X, y)
    scores, plain = pooled_scores(X, y, folds, alpha)
    balanced, _ = pooled_scores(X, y, stratified, alpha)
    return (
        roc_auc_score(y, scores),
        roc_auc_score(y, plain),
        roc_auc_score(y, balanced),
        averaged_auc(y, scores, folds),
        leave_pair_out(RankRLS(alpha=alpha, ties="keep"), X, y).value,
    )


def run(task, X, y, n_samples):
    """Return the true AUC and the estimates for each sample, (n_samples, 1 + n_estimates)."""
    rng = np.random.default_rng(0)
    Z = X[:, task.columns]
    found = []
    while len(found) < n_samples:
        few, rest = np.split(rng.permutation(len(y)), [N_ITEMS])
        labels = rng.permutation(y) if task.shuffled else y
        if np.bincount(labels[few], minlength=2).min() < 3:
            continue
        model = Ridge(alpha=task.alpha).fit(Z[few], labels[few])
        truth = roc_auc_score(labels[rest], model.predict(Z[rest]))
        found.append((truth, *estimates(Z[few], labels[few], task.alpha, len(found))))
    return np.array(found)


def table(task, found):
    """Return the rows of one task as lines of Markdown."""
    lines = [f"| **{task.name}, alpha = {task.alpha:g}** | {found[:, 0].mean():.3f} | | |"]
    for name, values in zip(ESTIMATES, found[:, 1:].T, strict=True):
        off = (values - found[:, 0])[~np.isnan(values)]
        error = off.std(ddof=1) / np.sqrt(len(off))
        mean = np.nanmean(values)
        lines.append(
            f"| {name} | {mean:.3f} | {off.mean():+.3f} +- {error:.3f} | {off.std():.3f} |"
        )
    return lines


def section():
    """Return the table of all tasks."""
    data = load_breast_cancer()
    X = StandardScaler().fit_transform(data.data)
    lines = ["| | AUC | off by | spread |", "|---|---|---|---|"]
    for task in TASKS:
        lines += table(task, run(task, X, data.target, N_SAMPLES))
    return "\n".join([HEAD, "", *lines, "", FINDING])
