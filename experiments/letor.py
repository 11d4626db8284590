"""Least-squares rankers on the LETOR sets, five folds, everything chosen by leave-query-out.

Run with ``python -m experiments.letor [set ...]``; the data are looked for in the folder named by
RANKWISE_DATA. Each fold trains on three parts and tests on a fifth one; the validation part is not
used, since queries of the training parts are held out in closed form.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.harness import machine_facts
from sklearn.linear_model import RidgeCV

from rankwise import Gaussian, RankRLSCV, evaluate, paired_test
from rankwise.io import read_svmlight

DATA = Path(os.environ.get("RANKWISE_DATA", "../shared/data"))
SETS = {"OHSUMED_LETOR2": 25, "OHSUMED_LETOR3": 45, "MQ2008": 46, "MQ2007": 46}
MEASURES = ["AP(empty='zero')", "NDCG(gain='exponential', empty='zero') @ 10"]
N_BASIS = 400


def ridge(X, y, _):
    return RidgeCV(2.0 ** np.arange(-15, 16)).fit(X, y)


def linear(ties):
    return lambda X, y, qid: RankRLSCV(measure="MAP", ties=ties).fit(X, y, qid=qid)


def gaussian(X, y, qid):
    widths = [Gaussian(g / X.shape[1]) for g in (0.3, 1.0, 3.0)]
    ranker = RankRLSCV(measure="MAP", ties="keep", kernel=widths, basis=N_BASIS, random_state=0)
    return ranker.fit(X, y, qid=qid)


METHODS = {
    "regression on the scores (RidgeCV)": ridge,
    "RankRLS, ties dropped": linear("drop"),
    "RankRLS, ties kept": linear("keep"),
    "RankRLS, chosen of the two": linear(["drop", "keep"]),
    f"RankRLS, Gaussian kernel, {N_BASIS} basis rows": gaussian,
}


def normalised(X, qid):
    """Scale every feature of a query to [0, 1], as [PTAB07] does with LETOR 2.0."""
    out = np.zeros_like(X)
    for q in np.unique(qid):
        rows = X[qid == q]
        low, span = rows.min(axis=0), np.ptp(rows, axis=0)
        out[qid == q] = (rows - low) / np.where(span > 0, span, 1.0)
    return out


def read_parts(name):
    parts = []
    for k in range(1, 6):
        data = read_svmlight(DATA / name / f"S{k}.txt.gz", n_features=SETS[name], dense=True)
        qid = np.char.add(f"{k}:", data.qid.astype(str))
        X = normalised(data.X, qid) if name == "OHSUMED_LETOR2" else data.X
        parts.append((X, data.y, qid))
    return parts


def join(parts, numbers):
    return [np.concatenate([parts[k % 5][field] for k in numbers]) for field in range(3)]


def run(name):
    """Return a table of test means over folds, with the seconds of selection and training."""
    parts = read_parts(name)
    values = {method: [] for method in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for fold in range(5):
        X, y, qid = join(parts, [fold, fold + 1, fold + 2])
        X_test, y_test, qid_test = join(parts, [fold + 4])
        for method, fit in METHODS.items():
            start = time.process_time()
            ranker = fit(X, y, qid)
            seconds[method] += time.process_time() - start
            values[method].append(evaluate(y_test, ranker.predict(X_test), qid_test, MEASURES))
    return table(name, values, seconds)


def table(name, values, seconds):
    first = next(iter(METHODS))
    lines = [
        f"## {name}",
        "",
        "| method | MAP | NDCG @ 10 | MAP against regression, p | CPU s, five folds |",
        "|---|---|---|---|---|",
    ]
    pooled = {m: np.concatenate([e.values[:, 0] for e in values[m]]) for m in METHODS}
    for method, folds in values.items():
        means = np.mean([e.mean for e in folds], axis=0)
        p = "" if method == first else f"{paired_test(pooled[method], pooled[first]).pvalue:.1g}"
        cells = [method, f"{means[0]:.4f}", f"{means[1]:.4f}", p, f"{seconds[method]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(names):
    if not DATA.exists():
        print(f"Skipped: the data folder {DATA} is absent; set RANKWISE_DATA.")
        return
    report = ["# LETOR, five folds", "", machine_facts(["numpy", "scipy", "rankwise"]), ""]
    for name in names:
        report.append(run(name))
        print(report[-1], flush=True)
    report.append(
        "Means of the five test parts; grade 1 is relevant, gains are 2^y - 1, queries without\n"
        "relevant items count 0. The p-value is that of the paired Wilcoxon test over all test\n"
        "queries. 15 % of the rows of MQ2007 are reconstructed, see the notes on the data.\n"
    )
    Path(__file__).with_suffix(".md").write_text("\n".join(report))


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
