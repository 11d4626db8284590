"""Figures 2 to 6 and Table 2 of [LS08], on LETOR sets: the paper's web data are not public.

Constants are chosen on the validation part of each fold, as in the paper, by the measure that the
curve shows.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness import HERE, markdown_table
from experiments.letor_data import FEATURES, TITLES, Fold, Part, folds, read_parts
from rankwise import DORM, DORMCV, RankRLS, RankRLSCV, RankSVM, Utility, evaluate

SIZES = (100, 300, 500, 700, 1000)
SMALL_SIZES = (50, 100, 200, 300, 450)
DECAYS: tuple[float | str, ...] = (0.25, 1 / 3, 0.5, 1.0, 2.0, 3.0, "log", "loglog")
NDCG10 = "NDCG(gain='exponential', empty='zero') @ 10"
MRR = "RR(empty='zero')"
WTA = "WTA(empty='zero')"
FIGURE = "dorm_curves.svg"
AIMS: dict[str, tuple[Any, float]] = {
    "NDCG @ 10": (NDCG10, 0.5),
    "NDCG": ("NDCG", 0.5),
    "DCG": ("DCG", 0.5),
    "DCG @ 10": ("DCG @ 10", 0.5),
    "MRR": ("RR", 1.0),
    "WTA": ("WTA", 0.5),
    "modified WTA": ("mWTA", 0.5),
    "Precision @ 10": ("Precision @ 10", 0.5),
    "ERU, plain": ("ERU(normalize='none')", 0.5),
    "ERU, normalised": ("ERU", 0.5),
    "discounts of one's own": (Utility(discounts=(1.0, 0.6, 0.4, 0.2, 0.1)), 0.5),
    "a matrix of costs": (lambda y: np.outer(y, np.log2(np.arange(len(y)) + 2.0)), 0.5),
}
"""What to train for, with its decay."""

ANATOMY_NOTES = """The column "# SVs" counts the rankings that carry weight, "# iter" the passes
over all queries, and "% in QP" is the time that was not spent in oracles, by the time that a pass
of the oracle alone takes. The paper, on 1,000 queries of web data, has 561 SVs, 22 iterations and
29 % in the QP for NDCG @ 10 with (i + 1)^-1/2, and 550, 17 and 2 % for MRR; for Precision @ 10
1037, 44 and 89 %. The matrix of costs goes through the general assignment solver, one query at a
time."""
CURVE_NOTES = """As in the paper, DORM is ahead at every cut-off and, on MQ2007, for every number of
queries, and the modified WTA is ahead of WTA itself. It is ahead by less than the paper's 2 to 3
points, of another competitor and with a tenth of the features. Unlike there, DORM for MRR is behind
DORM for NDCG, here with two grades of relevance and few relevant items: where the paper's MRR
gained from its own aim, ours loses what NDCG tells about the items after the first. On MQ2008
RankRLS is level with DORM in NDCG @ 10 for 200 queries, and in MRR for 100. The decay hardly
matters, as the paper found; beyond 50 queries no value of it is ahead of the others throughout."""
TIME_NOTES = """To a relative gap of 1e-3, C of DORM as it comes, that of RankSVM 0.01; RankRLS is
in closed form. The paper times training with cross-validation on a computer of its day and draws
the result without numbers: DORM ahead of everything but a multi-class SVM."""
AIM_NOTES = """Where queries have 150 items and grades are noisy, as on OHSUMED, the bound on the
loss in NDCG @ 10 is so loose that little is learned; elsewhere the two are level. This is why
`DORM()` trains for NDCG.

All values are per cent, means of the five test parts; queries without relevant items count 0."""

Fit = Callable[[Part, Part, str], Any]


def dorm(objective: str, decay: float | str = 0.5) -> Fit:
    """Return a fit of DORM for a measure, C chosen on the validation part."""

    def fit(train: Part, validation: Part, measure: str) -> Any:
        ranker = DORMCV(objective=objective, measure=measure, decay=decay, random_state=0)
        return ranker.fit(
            train.X,
            train.y,
            qid=train.qid,
            X_val=validation.X,
            y_val=validation.y,
            qid_val=validation.qid,
        )

    return fit


def least_squares(train: Part, _: Part, measure: str) -> Any:
    """Return RankRLS, alpha chosen by leave-query-out on the training part."""
    return RankRLSCV(measure=measure).fit(train.X, train.y, qid=train.qid)


def first_queries(part: Part, n_queries: int) -> Part:
    """Keep the first queries of a part."""
    names = list(dict.fromkeys(part.qid.tolist()))[:n_queries]
    keep = np.isin(part.qid, names)
    return Part(part.X[keep], part.y[keep], part.qid[keep])


def value(ranker: Any, part: Part, measure: str) -> float:
    return float(evaluate(part.y, ranker.predict(part.X), part.qid, measure).mean[0])


def at_cutoffs(all_folds: Sequence[Fold]) -> str:
    """Return NDCG @ n against n: Fig. 2."""
    cutoffs = (1, 2, 3, 5, 7, 10)
    measures = [f"NDCG(gain='exponential', empty='zero') @ {n}" for n in cutoffs]
    rows = []
    for name, fit in {"DORM for NDCG": dorm("NDCG"), "DORM for NDCG @ 10": dorm(NDCG10)}.items():
        rows.append([name, *_means(fit, all_folds, measures)])
    rows.append(["RankRLS", *_means(least_squares, all_folds, measures)])
    return markdown_table(["method", *(f"NDCG @ {n}" for n in cutoffs)], rows)


def _means(fit: Fit, all_folds: Sequence[Fold], measures: list[str]) -> list[str]:
    found = []
    for fold in all_folds:
        scores = fit(fold.train, fold.validation, NDCG10).predict(fold.test.X)
        found.append(evaluate(fold.test.y, scores, fold.test.qid, measures).mean)
    return [f"{100 * mean:.2f}" for mean in np.mean(found, axis=0)]


def curve(fit: Fit, all_folds: Sequence[Fold], sizes: Sequence[int], measure: str) -> NDArray:
    """Return the mean over folds for each number of training queries."""
    values = [
        [
            value(fit(first_queries(f.train, n), f.validation, measure), f.test, measure)
            for n in sizes
        ]
        for f in all_folds
    ]
    return 100.0 * np.mean(values, axis=0)


def curves(all_folds: Sequence[Fold]) -> dict[str, dict[str, NDArray]]:
    """Return the curves of Figs. 3, 5 and 6 on the smaller set."""
    plans: dict[str, tuple[str, dict[str, Fit]]] = {
        "NDCG @ 10": (NDCG10, {"DORM for NDCG": dorm("NDCG"), "RankRLS": least_squares}),
        "MRR": (
            MRR,
            {
                "DORM for MRR": dorm("RR", 1.0),
                "DORM for NDCG": dorm("NDCG", 1.0),
                "RankRLS": least_squares,
            },
        ),
        "WTA": (
            WTA,
            {
                "DORM for mWTA": dorm("mWTA"),
                "DORM for WTA": dorm("WTA"),
                "DORM for NDCG": dorm("NDCG"),
                "RankRLS": least_squares,
            },
        ),
    }
    return {
        title: {name: curve(fit, all_folds, SMALL_SIZES, measure) for name, fit in fits.items()}
        for title, (measure, fits) in plans.items()
    }


def decay_differences(all_folds: Sequence[Fold]) -> str:
    """Return NDCG @ 10 for every decay, and the largest difference: Fig. 4."""
    found = np.array([curve(dorm("NDCG", d), all_folds, SMALL_SIZES, NDCG10) for d in DECAYS])
    names = [d if isinstance(d, str) else f"(i + 1)^-{d:.3g}" for d in DECAYS]
    rows = [[name, *(f"{v:.2f}" for v in line)] for name, line in zip(names, found, strict=True)]
    rows.append(["largest difference", *(f"{v:.2f}" for v in np.ptp(found, axis=0))])
    return markdown_table(["decay", *(f"{n} queries" for n in SMALL_SIZES)], rows)


def anatomy(fold: Fold) -> str:
    """Return what a solution for each measure consists of and what it cost: Table 2."""
    train = fold.train
    rows = []
    for name, (measure, decay) in AIMS.items():
        ranker = DORM(measure, decay=decay, random_state=0)
        ranker.fit(train.X, train.y, qid=train.qid)
        solution = ranker.solution_
        seconds = solution.details["seconds"]
        n_queries = ranker.n_queries_ - ranker.n_ignored_queries_
        n_certificates = solution.details["n_oracle_calls"] / n_queries - solution.n_iter
        oracle = seconds["certificates"] / n_certificates * solution.n_iter
        share = 1.0 - min(1.0, oracle / (seconds["oracle passes"] + seconds["cached passes"]))
        reached = f"{100 * value(ranker, fold.test, NDCG10):.1f}"
        cells = [
            name,
            n_queries,
            solution.details["n_planes"],
            solution.n_iter,
            f"{100 * share:.0f}",
        ]
        rows.append([*cells, f"{sum(seconds.values()):.2f}", f"{solution.gap:.1e}", reached])
    header = ["DORM for", "queries", "# SVs", "# iter", "% in QP", "seconds", "gap"]
    return markdown_table([*header, "NDCG @ 10 on the test part"], rows)


def run_times(fold: Fold) -> str:
    """Return the seconds of one fit against the number of training queries: Fig. 7."""
    rankers = {
        "DORM for NDCG": DORM("NDCG", random_state=0),
        "DORM for MRR": DORM("RR", decay=1.0, random_state=0),
        "RankSVM": RankSVM(0.01, loss="hinge", tol=1e-3),
        "RankRLS": RankRLS(),
    }
    rows = []
    for name, ranker in rankers.items():
        cells = []
        for n in (SIZES[0], *SIZES):  # the first one compiles
            train = first_queries(fold.train, n)
            start = time.process_time()
            ranker.fit(train.X, train.y, qid=train.qid)
            cells.append(f"{time.process_time() - start:.3f}")
        rows.append([name, *cells[1:]])
    return markdown_table(["CPU seconds", *(f"{n} queries" for n in SIZES)], rows)


def what_to_train_for() -> str:
    """Return NDCG @ 10 of DORM as it comes, for NDCG and for NDCG @ 10."""
    aims = {"NDCG": "NDCG", "NDCG @ 10": "NDCG @ 10"}
    rows = []
    for name in FEATURES:
        all_folds = list(folds(read_parts(name)))
        cells = []
        for measure in aims.values():
            values = []
            for fold in all_folds:
                ranker = DORM(measure, random_state=0)
                ranker.fit(fold.train.X, fold.train.y, qid=fold.train.qid)
                values.append(value(ranker, fold.test, NDCG10))
            cells.append(f"{100 * np.mean(values):.2f}")
        rows.append([TITLES[name], *cells])
    return markdown_table(["set", *(f"DORM for {aim}, C as it comes" for aim in aims)], rows)


def curve_table(title: str, lines: dict[str, NDArray], sizes: Sequence[int]) -> str:
    rows = [[name, *(f"{v:.2f}" for v in line)] for name, line in lines.items()]
    return markdown_table([title, *(f"{n} queries" for n in sizes)], rows)


def draw(figures: dict[str, dict[str, NDArray]]) -> None:
    """Draw the learning curves."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "rankwise"
    from matplotlib import pyplot  # noqa: PLC0415

    fig, axes = pyplot.subplots(1, len(figures), figsize=(12, 3.5), layout="constrained")
    for ax, (title, lines) in zip(axes, figures.items(), strict=True):
        for name, line in lines.items():
            ax.plot(SMALL_SIZES, line, marker="o", label=name)
        ax.set_title(f"MQ2008: {title} in per cent")
        ax.set_xlabel("training queries")
        ax.legend(fontsize=7)
    fig.savefig(HERE / FIGURE, metadata={"Date": None})


def section() -> str:
    """Return all tables; the learning curves are drawn too."""
    small, large = list(folds(read_parts("MQ2008"))), list(folds(read_parts("MQ2007")))
    figures = curves(small)
    draw(figures)
    on_large = {
        "DORM for NDCG": curve(dorm("NDCG"), large, SIZES, NDCG10),
        "RankRLS": curve(least_squares, large, SIZES, NDCG10),
    }
    parts = [
        "### MQ2008: NDCG @ n (Fig. 2)",
        at_cutoffs(small),
        "### Learning curves (Figs. 3, 5 and 6)",
        f"![learning curves]({FIGURE})",
        *(curve_table(f"MQ2008, {title}", lines, SMALL_SIZES) for title, lines in figures.items()),
        curve_table("MQ2007, NDCG @ 10", on_large, SIZES),
        CURVE_NOTES,
        "### MQ2008: decay (Fig. 4), NDCG @ 10",
        decay_differences(small),
        "### MQ2008, first fold: what a solution consists of (Table 2)",
        anatomy(small[0]),
        ANATOMY_NOTES,
        "### MQ2007, first fold: one fit against the number of queries (Fig. 7)",
        run_times(large[0]),
        TIME_NOTES,
        "### Is NDCG or NDCG @ 10 to be trained for, if NDCG @ 10 counts?",
        what_to_train_for(),
        AIM_NOTES,
    ]
    return "\n\n".join(parts)
