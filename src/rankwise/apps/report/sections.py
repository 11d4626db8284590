"""The parts of a report, each from rankers and the items they are judged on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from rankwise.apps.report.figures import FigureWriter, Inline, heat_map
from rankwise.automatic.auto_ranker import AutoRanker
from rankwise.comparisons.audit.audit import Audit
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.comparisons.leaderboard import Leaderboard
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.display import brief, decimals, p_value, short_label
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries, QueryFingerprints
from rankwise.features.kernels import Kernel
from rankwise.io.ratings import RatingColumns, RatingTable, plain_names
from rankwise.measures.evaluation import Evaluation, evaluate, paired_test
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.factorization.ranking_factorization import RankingFactorization
from rankwise.rankers.explain import Explanation, FeatureImportance, explain, feature_importance
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.rls.any_model import PairEstimate, leave_pair_out
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV
from rankwise.rankers.scoring_function import predicted
from rankwise.transformers.indicators import IndicatorEncoder

N_EXTREME = 3
"""Queries shown from each end."""
MOST_ITEMS = 10
"""Items shown of a query."""
SMALL_SAMPLE = 300
"""Items up to which every pair is left out."""
MOST_PAIRS = 20_000
"""Pairs on which probabilities are judged."""
N_BINS = 10


@final
@dataclass(frozen=True, eq=False)
class JudgedModels:
    """Hold the rankers and what they are judged on.

    Parameters
    ----------
    rankers : mapping
        Fitted rankers by name.
    X : (n_items, n_features)
        Dense rows.
    y : (n_items,)
        Their scores.
    queries : Queries
    has_qid : bool
        Whether queries were given.
    measures : tuple of Measure, or None
        The measures to evaluate.
    names : tuple of str, or None
        The names of the features.
    items : sequence of str
        The name of each item.
    groups : (n_items,), optional
        The group of each item, such as its patient.
    is_watched : bool
        Whether somebody waits: parts that take long show a bar.
    """

    rankers: Mapping[str, Any]
    X: Any
    y: FloatArray
    queries: Queries
    has_qid: bool
    measures: tuple[Measure, ...] | None
    names: tuple[str, ...] | None
    items: Sequence[str]
    groups: NDArray[Any] | None = None
    is_watched: bool = False

    @property
    def qid(self) -> Any:
        """The queries, None where all items are one ranking."""
        return self.queries if self.has_qid else None


@final
@dataclass(frozen=True)
class Section:
    """One part of the page: a title, text, tables and figures in this order.

    Parameters
    ----------
    title : str
    text : tuple of str
        Paragraphs.
    tables : tuple of (caption, rows)
        The first row of each table is its header.
    figures : tuple of Inline
    """

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[tuple[str, list[list[str]]], ...] = ()
    figures: tuple[Inline, ...] = ()

    @property
    def anchor(self) -> str:
        """The name of the section in links."""
        return self.title.lower().replace(" ", "-")


@final
@dataclass(frozen=True, eq=False)
class OfUsers:
    """A model of users and items as a ranker of rows, each a user and an item.

    Parameters
    ----------
    model : RankingFactorization
    """

    model: RankingFactorization

    def predict(self, rows: Any) -> FloatArray:
        """Return the score of each item for its user."""
        users, items = plain_names(rows[:, 0]), plain_names(rows[:, 1])
        columns = RatingColumns("user", "item")
        return self.model.predict(RatingTable(users, items, None, None, columns))


def ranker_of(model: Any) -> Any:
    """Return the ranker itself, the last step of a pipeline."""
    if isinstance(model, OfUsers):
        return model.model
    if isinstance(model, RankerPipeline):
        return model.steps_[-1]
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def training_section(judged: JudgedModels) -> Section:
    """Describe what was trained, and on which data it is judged."""
    # a row for each model
    rows = [["model", "ranker", "settings", "features", "training queries"]]
    for name, model in judged.rankers.items():
        ranker = ranker_of(model)
        n_queries = getattr(ranker, "n_queries_", None)
        rows.append(
            [
                name,
                type(ranker).__name__,
                " ".join(repr(ranker if isinstance(model, OfUsers) else model).split()),
                "-" if isinstance(model, OfUsers) else _width(model, judged),
                "-" if n_queries is None else str(n_queries),
            ]
        )
    # the data: queries, items and grades
    sizes, y = judged.queries.sizes, judged.y
    grades = np.unique(y)
    values = (
        f"{len(grades)} different scores from {brief(grades[0])} to {brief(grades[-1])}"
        if len(grades) > 6
        else "scores " + ", ".join(f"{brief(g)} ({int((y == g).sum())} items)" for g in grades)
    )
    queries = _sizes_said(sizes) if judged.has_qid else "one ranking of all items"
    return Section(
        "What was trained",
        (
            f"Judged on {len(y)} items: {queries}; {values}.",
            _overlap_with_training(judged),
        ),
        (("Models", rows),),
    )


def _width(model: Any, judged: JudgedModels) -> str:
    return str(getattr(model, "n_features_in_", judged.X.shape[1]))


def queries_learned_from(judged: JudgedModels) -> dict[str, int | None]:
    """Count, for each model, the queries given that it learned from; None if that is unknown."""
    given = QueryFingerprints.of(judged.queries, judged.y) if judged.has_qid else None
    found: dict[str, int | None] = {}
    for name, model in judged.rankers.items():
        remembered = getattr(ranker_of(model), "training_queries_", None)
        found[name] = None
        if given is not None and remembered is not None:
            found[name] = remembered.seen(given)
    return found


def _overlap_with_training(judged: JudgedModels) -> str:
    """Say how many of the queries were in the models' training data, as far as known."""
    learned = queries_learned_from(judged)
    if None in learned.values():
        return "If a model has seen these items in training, its values on them are too good."
    seen = [f"{count} by {name!r}" for name, count in learned.items() if count]
    if not seen:
        return "No model has learned from these queries."
    return (
        f"Of the {judged.queries.n_queries} queries, some were learned from: {', '.join(seen)}. "
        "Values on these are too good."
    )


def evaluations_of(judged: JudgedModels) -> dict[str, Evaluation]:
    """Measure every model."""
    return {
        name: evaluate(judged.y, _scores(model, judged), judged.qid, judged.measures)
        for name, model in judged.rankers.items()
    }


def _scores(model: Any, judged: JudgedModels) -> FloatArray:
    scores: FloatArray = np.asarray(predicted(model, judged.X, judged.qid), dtype=float)
    if scores.ndim > 1:
        raise InvalidInputError(
            f"A report needs rankers with one output: {type(model).__name__} has "
            f"{scores.shape[1]}. Make one report per output."
        )
    return scores


def measures_section(
    judged: JudgedModels, found: dict[str, Evaluation], draw: FigureWriter
) -> Section:
    """Show every measure with its interval and spread over queries."""
    # means with intervals over queries, a column for each model
    several = judged.queries.n_queries > 1
    rows = [["measure", *found]]
    first = next(iter(found.values()))
    intervals = {name: evaluation.interval() for name, evaluation in found.items()}
    for at, measure in enumerate(first.measures):
        cells = []
        for name, evaluation in found.items():
            low, high = intervals[name][at]
            ends = f" ({decimals(low, 3)} to {decimals(high, 3)})" if several else ""
            cells.append(f"{decimals(evaluation.mean[at], 3)}{ends}")
        rows.append([repr(measure), *cells])
    text = [
        "Means over queries, with 95 % intervals from 2000 draws of the queries."
        if several
        else "There is only one ranking, so there is no interval over queries."
    ]
    text.append(_overlap_with_training(judged))
    # queries without a value, and a figure of all values
    undefined = int(first.n_undefined.max())
    if undefined:
        text.append(f"Up to {undefined} queries define no value and are left out.")
    figures: list[Inline] = []
    if several:
        label = repr(first.measures[0])
        figures = [
            draw.draw(
                lambda ax: _paint_spread(ax, found),
                f"{label} of every query in rising order, for each model",
            )
        ]
    return Section("Measures", tuple(text), (("Measures", rows),), tuple(figures))


def _paint_spread(ax: Any, found: dict[str, Evaluation]) -> None:
    for name, evaluation in found.items():
        values = np.sort(evaluation.values[~np.isnan(evaluation.values[:, 0]), 0])
        ax.plot(np.linspace(0, 1, len(values)), values, ".-", label=name, linewidth=0.8)
        ax.set_ylabel(repr(evaluation.measures[0]))
    ax.set_xlabel("share of queries, in rising order")
    if len(found) > 1:
        ax.legend()


def comparison_section(judged: JudgedModels, found: dict[str, Evaluation]) -> Section | None:
    """Test every other model against the first, query by query."""
    if len(found) < 2 or judged.queries.n_queries < 2:
        return None
    (first, base), *others = found.items()
    rows = [["measure", "model", f"difference to {first}", "p-value", "queries that differ"]]
    for measure in base.measures:
        for name, evaluation in others:
            test = paired_test(evaluation, base, measure)
            n_changed = test.n_queries - test.n_equal
            probability = p_value(test.pvalue).removeprefix("p = ").removeprefix("p ")
            difference = f"{test.mean_difference:+.4f}"
            rows.append([repr(measure), name, difference, probability, str(n_changed)])
    text = (
        "Wilcoxon signed-rank tests over queries, two-sided. The p-values are not corrected for "
        "the number of tests.",
    )
    return Section("Models side by side", text, (("Paired tests", rows),))


def selection_sections(judged: JudgedModels, draw: FigureWriter) -> list[Section]:
    """Draw the held-out values that each model's parameter was chosen by."""
    sections = []
    for name, model in judged.rankers.items():
        ranker = ranker_of(model)
        path = getattr(ranker, "path_", None)
        if path is None:
            continue
        chosen = path.best(getattr(ranker, "rule", "best"))
        title = "How the parameter was chosen"
        if len(judged.rankers) > 1:
            title += f": {name}"
        figure = draw.draw(
            partial(path.plot, chosen=chosen),
            f"{path.measure!r} held out, for every value of {path.parameter}; best at "
            f"{brief(float(path.grid[chosen]))}",
        )
        text = f"The chosen {path.parameter} by held-out {path.measure!r} is "
        text += f"{brief(float(path.grid[chosen]))}, marked by the dashed line."
        sections.append(Section(title, (text,), figures=(figure,)))
    return sections


def queries_section(judged: JudgedModels, found: dict[str, Evaluation]) -> Section | None:
    """Show the queries that the first model ranks best and worst, with their items."""
    if judged.queries.n_queries < 2:
        return None
    name, model = next(iter(judged.rankers.items()))
    evaluation = found[name]
    # defined queries from the worst to the best
    values = evaluation.values[:, 0] * (1 if evaluation.measures[0].greater_is_better else -1)
    order = np.argsort(values, kind="stable")
    order = order[~np.isnan(values[order])]
    scores, label = _scores(model, judged), repr(evaluation.measures[0])
    worst, best = order[:N_EXTREME], order[::-1][: min(N_EXTREME, max(0, len(order) - N_EXTREME))]
    tables = []
    for kind, chosen in (("worst", worst), ("best", best)):
        for position, query in enumerate(chosen, start=1):
            value = decimals(evaluation.values[query, 0], 3)
            caption = (
                f"{kind.title()} {position}: query {judged.queries.ids[query]}, {label} {value}"
            )
            tables.append((caption, _query_rows(judged, scores, int(query))))
    text = (f"By {label} of {name!r}; up to {MOST_ITEMS} items of each in ranked order.",)
    return Section("Best and worst queries", text, tuple(tables))


def _query_rows(judged: JudgedModels, scores: FloatArray, query: int) -> list[list[str]]:
    members = np.flatnonzero(judged.queries.index == query)
    ranked = members[np.argsort(-scores[members], kind="stable")]
    ideal = members[np.argsort(-judged.y[members], kind="stable")]
    position = {int(row): at for at, row in enumerate(ideal, start=1)}
    rows = [["item", "rank", "score", "given", "best possible rank"]]
    for at, row in enumerate(ranked[:MOST_ITEMS], start=1):
        tied = ideal[judged.y[ideal] == judged.y[row]]
        top = min(position[int(other)] for other in tied)
        cells = [str(at), brief(scores[row]), brief(judged.y[row]), str(top)]
        rows.append([judged.items[row], *cells])
    return rows


COVERAGES = (0.8, 0.9, 0.95)
"""With what probabilities the page says something of one query."""


def next_query_section(judged: JudgedModels) -> Section | None:
    """Say what the first model may expect of one query, and hold it against those given."""
    name, model = next(iter(judged.rankers.items()))
    found = ranker_of(model).next_query_ if isinstance(ranker_of(model), AutoRanker) else None
    if found is None or len(found.leads) == 0 or not judged.has_qid:
        return None
    scores, queries = _scores(model, judged), judged.queries
    values = evaluate(judged.y, scores, judged.qid, found.measure).values[:, 0]
    values = values[~np.isnan(values)]
    top = np.full(queries.n_queries, -np.inf)
    np.maximum.at(top, queries.index, judged.y)
    is_best = judged.y == top[queries.index]
    header = ["with", f"{found.measure} of one query", "so it was here", "items in a set"]
    rows = [[*header, "sets with a best item, here"]]
    for coverage in COVERAGES:
        low, high = found.interval(coverage)
        held = float(np.mean((values >= low) & (values <= high))) if len(values) else np.nan
        in_set = found.best_set(scores, queries, coverage)
        with_best = np.bincount(queries.index, in_set & is_best, queries.n_queries) > 0
        size = in_set.sum() / queries.n_queries
        rows.append(
            [
                f"{100 * coverage:.0f} %",
                f"{decimals(low, 3)} to {decimals(high, 3)}",
                f"{100 * held:.0f} %",
                f"{size:.1f} of {len(in_set) / queries.n_queries:.1f}",
                f"{100 * with_best.mean():.0f} %",
            ]
        )
    text = (
        f"What {name} found on the queries that it held out, about the next one: between which "
        "values its measure will lie, and how many of the first items must be looked at to see the "
        "best one (or one of equal grade).",
    )
    return Section("One new query", text, (("Intervals and sets", rows),))


def features_section(
    judged: JudgedModels, found: dict[str, Evaluation], draw: FigureWriter
) -> Section | None:
    """Show which features the first model uses, and why its first item is first."""
    name, model = next(iter(judged.rankers.items()))
    if isinstance(model, OfUsers):
        return None
    measure = found[name].measures[0]
    # permutation importance inside queries
    importance = feature_importance(
        model,
        judged.X,
        judged.y,
        judged.qid,
        measure=measure,
        n_repeats=3,
        feature_names=judged.names,
        progress=judged.is_watched,
        random_state=0,
    )
    figures = [
        draw.draw(
            importance.plot, f"Loss of {measure!r} when a feature is shuffled, largest features"
        )
    ]
    tables = [("Loss when a feature is shuffled inside queries", _importance_rows(importance))]
    # why the first item is ahead of the second
    explanation = _first_explanation(judged, model)
    text = [f"Shuffling a feature that {name!r} relies on makes its {measure!r} worse."]
    if explanation is not None:
        figures.append(draw.draw(explanation.plot, str(explanation).partition("\n")[0]))
        text.append(_explanation_text(explanation, judged))
    return Section("What the model uses", tuple(text), tuple(tables), tuple(figures))


def _sizes_said(sizes: IntArray) -> str:
    """Return how many queries there are, and how many items they have."""
    few, many = int(sizes.min()), int(sizes.max())
    items = f"{few} to {many} items" if few < many else f"{few} item{'' if few == 1 else 's'}"
    return f"{len(sizes)} {'query' if len(sizes) == 1 else 'queries'} of {items}"


def _importance_rows(importance: FeatureImportance) -> list[list[str]]:
    rows = [["feature", "loss", "standard deviation"]]
    for at in np.argsort(-importance.mean, kind="stable")[:MOST_ITEMS]:
        deviation = decimals(importance.standard_deviation[at])
        rows.append([importance.names[at], f"{importance.mean[at]:+.4f}", deviation])
    return rows


def _first_explanation(judged: JudgedModels, model: Any) -> Explanation | None:
    """Compare the first two items of the first query that has several."""
    members = np.flatnonzero(judged.queries.index == int(np.argmax(judged.queries.sizes > 1)))
    if len(members) < 2:
        return None
    scores = _scores(model, judged)[members]
    first, second = members[np.argsort(-scores, kind="stable")[:2]]
    try:
        return explain(
            model,
            judged.X,
            judged.qid,
            a=int(first),
            b=int(second),
            feature_names=judged.names,
            n_permutations=50,
            random_state=0,
        )
    except InvalidInputError:  # scores depend on the other items: no row explains its own
        return None


def _explanation_text(explanation: Explanation, judged: JudgedModels) -> str:
    assert explanation.b is not None
    items = judged.items[explanation.a], judged.items[explanation.b]
    query = judged.queries.ids[judged.queries.index[explanation.a]]
    where = f" of query {query}" if judged.has_qid else ""
    return (
        f"The second figure says why {items[0]} is ranked above {items[1]}, the first two "
        f"items{where}: their scores differ by {brief(explanation.lead)} ({explanation.method})."
    )


@singledispatch
def _process(model: Any) -> PreferenceGP | None:  # noqa: ARG001
    """Return the process behind a model, None for other rankers."""
    return None


@_process.register
def _is_process(model: PreferenceGP) -> PreferenceGP:
    return model


def calibration_section(judged: JudgedModels, draw: FigureWriter) -> Section | None:
    """Compare the probabilities of a process with observed frequencies."""
    processes = {name: _process(model) for name, model in judged.rankers.items()}
    known = {name: process for name, process in processes.items() if process is not None}
    if not known:
        return None
    # predicted and observed shares of pairs, in bins of the probability
    first, second = _pairs_to_judge(judged)
    rows = [["model", "probability", "observed", "pairs"]]
    curves = {}
    for name, process in known.items():
        answers = process.predict_pair(judged.X[first], judged.X[second])
        probability = (
            answers[:, 0] / (answers[:, 0] + answers[:, 2]) if answers.ndim > 1 else answers
        )
        won = judged.y[first] > judged.y[second]
        curves[name] = _reliability(probability, won)
        for mean, share, count in curves[name]:
            rows.append([name, decimals(mean, 2), decimals(share, 2), str(int(count))])
    figure = draw.draw(
        lambda ax: _paint_calibration(ax, curves),
        "Share of pairs won against the predicted probability; the diagonal is perfect calibration",
        width=4.2,
        height=3.8,
    )
    text = (
        "Pairs of one query with different scores, in both directions. In a calibrated model the "
        "observed share equals the probability.",
    )
    return Section("Calibration", text, (("Calibration", rows),), (figure,))


def _pairs_to_judge(judged: JudgedModels) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of different score inside queries, each in both directions."""
    found = []
    for rows in judged.queries:
        i, j = np.triu_indices(len(rows), 1)
        different = judged.y[rows[i]] != judged.y[rows[j]]
        found.append(np.stack([rows[i[different]], rows[j[different]]]))
    pairs = np.concatenate(found, axis=1)
    if pairs.shape[1] > MOST_PAIRS:
        pairs = pairs[:, np.random.default_rng(0).choice(pairs.shape[1], MOST_PAIRS, replace=False)]
    return np.append(pairs[0], pairs[1]), np.append(pairs[1], pairs[0])


def _reliability(probability: FloatArray, won: np.ndarray) -> list[tuple[float, float, int]]:
    """Return mean probability, share won and number of pairs in bins of equal width."""
    bins = np.minimum((probability * N_BINS).astype(int), N_BINS - 1)
    return [
        (float(probability[bins == b].mean()), float(won[bins == b].mean()), int((bins == b).sum()))
        for b in range(N_BINS)
        if (bins == b).any()
    ]


def _paint_calibration(ax: Any, curves: dict[str, list[tuple[float, float, int]]]) -> None:
    ax.plot([0, 1], [0, 1], "--", color="grey", linewidth=0.8)
    for name, points in curves.items():
        mean, share, _ = zip(*points, strict=True)
        ax.plot(mean, share, "o-", label=name)
    ax.set_xlabel("probability given")
    ax.set_ylabel("share that came true")
    if len(curves) > 1:
        ax.legend()


def pairs_left_out(judged: JudgedModels) -> dict[str, PairEstimate]:
    """Estimate the AUC of few items of two classes by leaving out pairs, if the model allows it."""
    if judged.has_qid or len(np.unique(judged.y)) != 2 or len(judged.y) > SMALL_SAMPLE:
        return {}
    found = {name: _left_out(model, judged) for name, model in judged.rankers.items()}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def roc_section(
    judged: JudgedModels, estimates: dict[str, PairEstimate], draw: FigureWriter
) -> Section | None:
    """Draw the ROC curve of two classes; for few items, with the leave-pair-out interval."""
    if judged.has_qid or len(np.unique(judged.y)) != 2:
        return None
    # curves of models without each pair, then of the fitted models
    text, curves = [], {}
    if estimates:
        text.append(
            "The leave-pair-out estimate, and the curve of unseen pairs, come from models that are "
            "retrained without each pair"
            + (", and without the other items of their groups" if judged.groups is not None else "")
            + ", with the same alpha and kernel. They are honest on these items even if the model "
            "has seen them, unless alpha was chosen on them."
        )
        unseen = {name: e.roc for name, e in estimates.items() if e.roc is not None}
        curves = {
            f"{name}, unseen pairs": (roc.false_positive_rate, roc.true_positive_rate)
            for name, roc in unseen.items()
        }
    text.append(
        "The curve of the fitted model shows the items given here: too good if it learned from "
        "them."
    )
    for name, model in judged.rankers.items():
        label = f"{name}, items given" if estimates else name
        curves[label] = _roc(judged.y, _scores(model, judged))
    figure = draw.draw(
        lambda ax: _paint_roc(ax, curves),
        "ROC curve: share of the upper class found against share of the lower class",
        width=4.2,
        height=3.8,
    )
    # the leave-pair-out estimates
    rows = [["model", "AUC of unseen pairs", "95 % interval", "pairs left out"]]
    rows += [
        [
            name,
            decimals(e.value, 3),
            f"{decimals(e.low, 3)} to {decimals(e.high, 3)}",
            str(e.n_pairs),
        ]
        for name, e in estimates.items()
    ]
    tables = (("Leave-pair-out", rows),) if estimates else ()
    return Section("ROC curve", tuple(text), tables, (figure,))


def _roc(y: FloatArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the shares of the lower and the upper class above every threshold."""
    # a point for each different score, so that ties are one step
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(y) - 1)
    upper = y[order] == y.max()
    hits, false = np.cumsum(upper)[ends], np.cumsum(~upper)[ends]
    return np.append(0.0, false / (~upper).sum()), np.append(0.0, hits / upper.sum())


def _paint_roc(ax: Any, curves: dict[str, tuple[FloatArray, FloatArray]]) -> None:
    ax.plot([0, 1], [0, 1], "--", color="grey", linewidth=0.8)
    for name, (false, hits) in curves.items():
        ax.plot(false, hits, ":" if name.endswith(", items given") else "-", label=name)
    ax.set_xlabel("share of the lower class")
    ax.set_ylabel("share of the upper class")
    if len(curves) > 1:
        ax.legend()


@singledispatch
def _left_out(model: Any, judged: JudgedModels) -> PairEstimate | None:  # noqa: ARG001
    """Return the leave-pair-out estimate of a RankRLS model, None for other models."""
    return None


@_left_out.register
def _left_out_of_ranker(model: RankRLS, judged: JudgedModels) -> PairEstimate | None:
    return _leave_pairs_out(judged, model.alpha, model.kernel_, model.ties)


@_left_out.register
def _left_out_of_choice(model: RankRLSCV, judged: JudgedModels) -> PairEstimate | None:
    return _leave_pairs_out(judged, model.alpha_, model.kernel_, model.ties_)


@_left_out.register
def _left_out_of_steps(model: RankerPipeline, judged: JudgedModels) -> PairEstimate | None:
    """Leave pairs out of features that were made without a look at scores."""
    *steps, ranker = model.steps_
    if not all(isinstance(step, IndicatorEncoder) for step in steps):
        return None
    X = judged.X
    for step in steps:
        X = step.transform(X)
    return _left_out(ranker, replace(judged, X=X))


def _leave_pairs_out(
    judged: JudgedModels, alpha: float, kernel: Kernel, ties: Any
) -> PairEstimate | None:
    if not kernel.is_function:
        return None
    ranker = RankRLS(alpha, kernel=kernel, ties=ties)
    if judged.groups is not None:
        few = len(np.unique(judged.groups)) <= FEW_GROUPS
        return leave_pair_out(
            ranker, judged.X, judged.y, judged.groups,
            n_fits=None if few else MOST_FITS, roc=few, progress=judged.is_watched, random_state=0,
        )  # fmt: skip
    return leave_pair_out(ranker, judged.X, judged.y, roc=ties == "keep")


FEW_GROUPS, MOST_FITS = 40, 500
"""Groups of which all pairs are left out; of more, this many pairs are drawn."""

MOST_NEIGHBOURS = 30
"""Rows shown of neighbours, and of the leaderboard of a category."""

MOST_DRAWN, MOST_MAPPED, MOST_PAIRED = 100, 60, 12
"""Items of a leaderboard that are drawn, compared in a heat map, and compared in a table."""


def ranking_section(board: Leaderboard) -> Section:
    """Show the items in order, with the intervals of scores and ranks."""
    text = [
        "Items whose score intervals overlap may be in the opposite order. Ranks show the places "
        "that an item may have; best is the probability of the first place."
    ]
    if board.n_groups > 1:
        text.append(
            f"{board.n_groups} groups of items never met: scores, ranks and probabilities hold "
            "inside a group."
        )
    if board.n_items > MOST_DRAWN:
        text.append(
            f"The chart shows the best {MOST_DRAWN} of {board.n_items} items; the table shows all."
        )
    if board.width > 0.0:
        text.append(
            f"Answers may be ties: they are likely where scores differ by less than about "
            f"{decimals(board.unit * board.width, board.n_digits)}."
        )
    table = "Ranking", _ranking_rows(board)
    return Section("Ranking", tuple(text), (table,), (Inline(board.chart(MOST_DRAWN)),))


def _ranking_rows(board: Leaderboard) -> list[list[str]]:
    """Return the table of a ranking, item by item."""
    group = ["group"] if board.n_groups > 1 else []
    rows = [["item", *group, "rank", "score", "interval", "ranks", "best", "answers"]]
    for position, row in enumerate(board.rows()):
        low, high, score = (decimals(row[k], board.n_digits) for k in ("low", "high", "score"))
        cells = [board.rank_range(position), decimals(row["best"], 2), f"{row['answers']:g}"]
        place = [str(row[word]) for word in ("item", *group, "rank")]
        rows.append([*place, score, f"{low} to {high}", *cells])
    return rows


def pairs_section(board: Leaderboard, table: ComparisonTable | None) -> Section:
    """Show how probably each leading item is preferred to each other one, and how often it was."""
    # a map of many items, then numbers for the leading ones
    mapped = board.names[:MOST_MAPPED].tolist()
    win = board.win_matrix(mapped)
    description = f"Probability that each of {len(mapped)} items (row) is preferred to each other"
    ties = 1.0 - win - win.T
    figure = heat_map([str(name) for name in mapped], win + 0.5 * ties, description)
    names = mapped[:MOST_PAIRED]
    # columns by their numbers, so that ten fit on paper
    numbered = [f"{place + 1} {short_label(str(name))}" for place, name in enumerate(names)]
    head = ["preferred", *(f"to {place + 1}" for place in range(len(names)))]
    chances = [head]
    for i, name in enumerate(numbered):
        row = ["" if i == j else decimals(win[i, j], 2) for j in range(len(names))]
        chances.append([name, *row])
    tables = [("Probability of being preferred", chances)]
    if table is not None:
        counts = _win_counts(table, names)
        cells = [[f"{count:g}" if count else "" for count in row] for row in counts]
        rows = [[name, *row] for name, row in zip(numbered, cells, strict=True)]
        tables.append(("How often it was preferred", [head, *rows]))
    shown = "all items" if len(mapped) == board.n_items else f"the best {len(mapped)} items"
    listed = "" if len(names) == len(mapped) else f" The tables show the best {len(names)}."
    text = (
        "One item is above another because of the answers about these two, and of answers that "
        "compare each of them with a third item.",
        f"The map shows {shown}: blue where the item of the row is likely to be preferred to that "
        f"of the column, orange where it is not, pale where it is open.{listed}",
        *_tie_text(table),
    )
    return Section("Who beats whom", text, tuple(tables), (figure,))


def _tie_text(table: ComparisonTable | None) -> tuple[str, ...]:
    """Say how many answers were ties, if any."""
    if table is None or not (table.outcome == 0).any():
        return ()
    share = float(table.weight[table.outcome == 0].sum() / table.weight.sum())
    return (f"{share:.0%} of the answers are ties; the tables of wins leave them out.",)


def effects_section(board: Leaderboard) -> Section | None:
    """Show what covariates, such as being shown first, are worth."""
    if not board.effects:
        return None
    rows = [["effect", "value", f"{board.level:.0%} interval"]]
    for effect in board.effects:
        value, low, high = (
            f"{board.unit * number:.{board.n_digits + 1}f}"
            for number in (effect.value, effect.low, effect.high)
        )
        rows.append([effect.name, value, f"{low} to {high}"])
    text = (
        "What a covariate adds to the lead of the first item, in units of the scores. If the "
        "interval holds 0, there may be no effect.",
    )
    return Section("Effects", text, (("Effects", rows),))


def judges_section(board: Leaderboard) -> Section | None:
    """Show how reliable each judge is, the most suspect first."""
    if board.judges is None:
        return None
    text = (
        "Reliability is relative to other judges: 1 is usual, 0 is an answer at random. Agrees is "
        "the share of decided answers in the order of the scores. Careless is the probability that "
        "a judge answers at random or the wrong way round.",
    )
    return Section("Judges", text, (("Judges", board.judges.cells()),))


def reading_section(board: Leaderboard) -> Section | None:
    """Say how the comparisons were read."""
    return Section("How the table was read", board.reading_) if board.reading_ else None


def audit_sections(audit: Audit) -> list[Section]:
    """Show what each probe of an audit says, and which neighbours are separated."""
    flagged = ", ".join(one.probe for one in audit.flagged)
    text = [
        f"Flagged: {flagged}." if flagged else "Nothing is flagged.",
        "A flag (!) stands only where the evidence clears the bar beside it.",
    ]
    text += [f"Not looked at: {name}, since {why}." for name, why in audit.left_out.items()]
    rows = [["probe", "what the answers say", "bar for a flag"]]
    rows += [[f"{f.probe} (!)" if f.is_flagged else f.probe, f.said, f.bar] for f in audit.findings]
    return [Section("Audit", tuple(text), (("Audit", rows),)), _neighbours_section(audit)]


def _neighbours_section(audit: Audit) -> Section:
    """Show which neighbours are separated, and how many more answers the others need."""
    rows = [["above", "below", "probability of this order", "separated", "more answers each"]]
    neighbours = audit["neighbours"].rows
    for row in neighbours[:MOST_NEIGHBOURS]:
        separated = "together" if row["separated_together"] else "alone" if row["separated"] else ""
        needed = "" if row["separated"] else f"{row['more_answers_each']:,.0f}"
        names = (short_label(str(row["above"])), short_label(str(row["below"])))
        rows.append([*names, decimals(row["probability"], 2), separated, needed])
    text = [
        "Neighbours separated alone hold one by one, those separated together hold all at once. "
        "The last column says about how many more answers both items need to be separated."
    ]
    if len(neighbours) > MOST_NEIGHBOURS:
        text.append(f"The table shows the best {MOST_NEIGHBOURS} of {len(neighbours)} neighbours.")
    return Section("Neighbours", tuple(text), (("Neighbours", rows),))


def category_section(name: str, board: Leaderboard) -> Section:
    """Show the leaderboard of a category."""
    rows = _ranking_rows(board.top(MOST_NEIGHBOURS))
    text = [f"{board.answers.sum() / 2.0:,.0f} answers about {board.n_items} items."]
    if board.n_items > MOST_NEIGHBOURS:
        text.append(f"The table shows the best {MOST_NEIGHBOURS}.")
    return Section(f"Only {name}", (" ".join(text),), ((f"Only {name}", rows),))


def _win_counts(table: ComparisonTable, names: Sequence[Any]) -> FloatArray:
    """Return how often each item (row) was preferred to each other one (column), by weight."""
    position = {name: at for at, name in enumerate(names)}
    known = [position.get(name, -1) for name in table.names.tolist()]
    counts = np.zeros((len(names), len(names)))
    rows = zip(table.first, table.second, table.outcome, table.weight, strict=True)
    for first, second, outcome, weight in rows:
        i, j = known[first], known[second]
        if min(i, j) >= 0 and outcome != 0:
            counts[(i, j) if outcome > 0 else (j, i)] += weight
    return counts
