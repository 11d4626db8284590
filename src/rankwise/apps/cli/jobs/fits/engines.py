"""Fit a ranker that a search engine can run, and say what that costs.

An engine scores one item at a time by its own features: it takes trees on the features as they are,
and most take a linear formula. Scales, ranks and blanks inside a query are out of its reach.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

import rankwise
from rankwise.apps.cli.fit_commands import Fit
from rankwise.apps.cli.jobs.files import named, remember_columns
from rankwise.apps.cli.jobs.fits.training import FitInput
from rankwise.apps.cli.jobs.parameters import refuse_if
from rankwise.apps.cli.output import print_json, print_table
from rankwise.core.display import listed
from rankwise.io.data import RankingData
from rankwise.measures.evaluation import Evaluation
from rankwise.measures.graded import NDCG
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure

N_FOLDS = 5
OF_TREES = ("xgboost", "lightgbm")
"""Engines that take nothing but trees."""


def fit_for_engine(command: Fit) -> None:
    """Choose among what the engine can run by folds of queries, save it, and print the values."""
    refuse_if(
        command.validate is not None,
        "--validate must not come with --for, which sets queries aside itself. Leave it out.",
    )
    refuse_if(
        command.group is not None,
        "--group must not come with --for: whole queries are held out. Leave it out.",
    )
    problem = FitInput.read(command, takes_raw=True)
    refuse_if(
        not problem.has_qid,
        f"{named(command.train)} must name queries for --for {command.engine}: it has none. Name "
        "the column with --qid.",
    )
    asked = None if command.measure is None else parse_measure(command.measure)
    measure = asked or NDCG @ 10
    sign = 1.0 if measure.greater_is_better else -1.0
    y, qid = problem.preferences["y"], problem.preferences["qid"]
    data = _numbers(command, problem.data)
    X = data.X
    # held-out values of what the engine can run, then of everything
    found = {name: _held_out(name, measure, X, y, qid) for name in _names(str(command.engine))}
    best = max(found, key=lambda name: float(found[name].mean[0]) * sign)
    free = (
        rankwise.AutoRanker(measure, random_state=0).fit(problem.data.X, y, qid=qid).honest_value_
    )
    ranker = _fitted(best, measure, X, y, qid)
    remember_columns(ranker, data)
    ranker.save(command.output)
    cost = sign * (free.value - float(found[best].mean[0]))
    if command.json:
        values = {name: float(one.mean[0]) for name, one in found.items()}
        head = {"model": str(command.output), "ranker": type(ranker).__name__, "chosen": best}
        more = {"measure": repr(measure), "values": values, "unrestricted": free.value}
        print_json({**head, "engine": command.engine, **more, "cost": cost})
        return
    rows = [[name, *_cells(one), "chosen" if name == best else ""] for name, one in found.items()]
    ends = f"{free.low:.4f} to {free.high:.4f}"
    rows.append(["any ranker (AutoRanker)", f"{free.value:.4f}", ends, "not in the engine"])
    print_table([f"{measure!r}, held out", "value", "95 % interval", ""], rows)
    what = f"costs {cost:.4f} of {measure!r}" if cost > 0.0 else "costs nothing"
    print(f"To run in {command.engine} {what} here; the better of two values is slightly too good.")
    print(f"Saved as {command.output}. Next, with the names of the features in the engine:")
    print(f"rankwise export {command.output} -o {command.output}.json --format {command.engine}")


def _numbers(command: Fit, data: RankingData) -> RankingData:
    """Return the features that are numbers, which is what engines hold; blanks as they count there.

    Plugins count a missing feature as 0. XGBoost and LightGBM know blanks.
    """
    columns, X = data.columns, data.X
    if columns is None or not isinstance(X, np.ndarray):
        return data
    gone = set(columns.categories)
    kept = [at for at, name in enumerate(columns.features) if name not in gone]
    refuse_if(
        not kept,
        f"{named(command.train)} must have features that are numbers for --for {command.engine}: "
        f"got {listed(columns.features)}.",
    )
    numbers = X[:, kept].astype(float)
    fills = str(command.engine) not in OF_TREES and bool(np.isnan(numbers).any())
    if not command.json:
        if gone:
            print(
                f"Left out {listed(sorted(gone))}: {command.engine} holds numbers. What it finds "
                "in text, such as BM25, can be logged there and be a column here."
            )
        if fills:
            print(f"Blanks count 0, as in {command.engine}.")
    columns = columns._replace(
        features=[columns.features[at] for at in kept],
        categories=(),
        texts=(),
        left_out=(*columns.left_out, *((name, "text") for name in sorted(gone))),
        blanks_as_zero=fills,
    )
    return replace(
        data,
        X=np.nan_to_num(numbers, nan=0.0) if fills else numbers,
        feature_names=columns.features,
        columns=columns,
    )


def _names(engine: str) -> list[str]:
    return ["trees"] if engine in OF_TREES else ["trees", "linear"]


def _cells(found: Evaluation) -> list[str]:
    low, high = found.interval()[0]
    return [f"{found.mean[0]:.4f}", f"{low:.4f} to {high:.4f}"]


def _held_out(name: str, measure: Measure, X: Any, y: Any, qid: Any) -> Evaluation:
    """Score every query by a ranker that was chosen and fitted without it."""
    scores = np.empty(X.shape[0])
    folds = rankwise.QueryKFold(N_FOLDS, random_state=0)
    for kept, out in folds.split(X, y, qid):
        scores[out] = _fitted(name, measure, X[kept], y[kept], qid[kept]).predict(X[out])
    return rankwise.evaluate(y, scores, qid, measure)


def _fitted(name: str, measure: Measure, X: Any, y: Any, qid: Any) -> Any:
    """Fit trees, or a linear ranker to features of one scale, which its weights then undo."""
    if name == "trees":
        return rankwise.BoostedRanker(measure=measure, random_state=0).fit(X, y, qid=qid)
    scaler = StandardScaler(with_mean=False).fit(X)
    chosen = rankwise.RankRLSCV(measure=measure, kernel="linear").fit(
        scaler.transform(X), y, qid=qid
    )
    ranker = rankwise.RankRLS(alpha=chosen.alpha_, kernel="linear")
    ranker.fit(scaler.transform(X), y, qid=qid)
    ranker.coef_ = ranker.coef_ / scaler.scale_
    return ranker
