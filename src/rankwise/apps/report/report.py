"""Write one HTML page about rankers: what they are, how well they rank, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from os import PathLike
from typing import Any, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import __version__
from rankwise.apps.report.figures import FigureWriter
from rankwise.apps.report.sections import (
    JudgedModels,
    OfUsers,
    Section,
    audit_sections,
    calibration_section,
    category_section,
    comparison_section,
    effects_section,
    evaluations_of,
    features_section,
    judges_section,
    measures_section,
    next_query_section,
    pairs_left_out,
    pairs_section,
    queries_learned_from,
    queries_section,
    ranker_of,
    ranking_section,
    reading_section,
    roc_section,
    selection_sections,
    training_section,
)
from rankwise.comparisons.leaderboard import Leaderboard
from rankwise.core.arrays import raw_rows
from rankwise.core.checks import (
    check_length,
    check_scores,
    refuse_huge_rows,
    refuse_unusable_rows,
)
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.display import decimals
from rankwise.core.errors import InvalidInputError, extra
from rankwise.core.queries import Queries
from rankwise.io.files import open_write
from rankwise.measures.evaluation import Evaluation
from rankwise.measures.registry import parse_measures
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.factorization.ranking_factorization import RankingFactorization
from rankwise.rankers.rls.any_model import PairEstimate


@final
@dataclass(frozen=True)
class Report:
    """Hold a page about rankers; notebooks show it, and `save` writes it to a file.

    Parameters
    ----------
    title : str
        The title of the page.
    html : str
        The page, which loads nothing from elsewhere.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise import RankRLS, make_report
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3]
    >>> report = make_report(RankRLS().fit(X, y), X, y, title="Four items")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> report.save(path)
    >>> "<h1>Four items</h1>" in path.read_text()
    True
    """

    title: str
    html: str

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page, atomically."""
        with open_write(path) as stream:
            stream.write(self.html.encode())

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.html) / 1000:.0f} kB)"

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" '
            'style="width: 100%; height: 40rem; border: 1px solid grey"></iframe>'
        )


@overload
def make_report(
    rankers: Leaderboard,
    X: ComparisonTable | None = None,
    *,
    categories: Mapping[str, Leaderboard] | None = None,
    title: str | None = None,
) -> Report: ...


@overload
def make_report(
    rankers: Any,
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    measures: str | Measure | Iterable[str | Measure] | None = None,
    feature_names: Sequence[str] | None = None,
    item_names: Sequence[Any] | None = None,
    groups: ArrayLike | None = None,
    title: str | None = None,
    progress: bool = False,
) -> Report: ...


def make_report(
    rankers: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    qid: ArrayLike | None = None,
    *,
    measures: str | Measure | Iterable[str | Measure] | None = None,
    feature_names: Sequence[str] | None = None,
    item_names: Sequence[Any] | None = None,
    groups: ArrayLike | None = None,
    categories: Mapping[str, Leaderboard] | None = None,
    title: str | None = None,
    progress: bool = False,
) -> Report:
    """Make a page about one ranker, or several side by side, or about a leaderboard.

    Of rankers, judged on the items given, it shows what was trained, measures with intervals over
    queries, how a parameter was chosen, the best and worst queries with their items, and the
    features used. Where they apply, it adds paired tests of several models, the calibration of a
    `PreferenceGP` and, for two classes in one ranking, the ROC curve with its leave-pair-out
    interval.

    Parameters
    ----------
    rankers : ranker, Pipeline, RankingFactorization, mapping of names to these, or Leaderboard
        Fitted rankers. The others are compared with the first. For a `RankingFactorization` the
        rows of X are a user and an item each, and the users are the queries. A `Leaderboard` is
        shown with who beats whom, effects, judges and its audit.
    X, y, qid
        Items with their scores and queries, preferably unseen by all rankers. For a leaderboard,
        X may be its `ComparisonTable`, to count how often each item was preferred.
    measures : measure, name or several, optional
        As in `evaluate`. The first one selects the queries that are shown.
    feature_names : sequence of str, optional
        The names of the features; by default from the first ranker or the columns of X.
    item_names : (n_items,), optional
        The names of the items; by default their row numbers.
    groups : (n_items,), optional
        The group of each item, such as its patient: pairs are left out with their whole groups.
    categories : mapping of str to Leaderboard, optional
        Leaderboards of parts of the comparisons, such as languages, to show below the whole one.
    title : str, optional
        The title of the page.
    progress : bool
        Show a bar for what takes longest: pairs left out, and features shuffled.

    Returns
    -------
    report : Report

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS, RankRLSCV, make_report
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    >>> y = np.round(2 + X[:, 0]).clip(0)
    >>> models = {"chosen alpha": RankRLSCV(), "alpha 1": RankRLS()}
    >>> for model in models.values():
    ...     _ = model.fit(X[:30], y[:30], qid=qid[:30])
    >>> make_report(models, X[30:], y[30:], qid[30:], measures=["NDCG @ 3", "Concordance"])
    Report('Ranking report', ... kB)

    >>> from rankwise import leaderboard
    >>> board = leaderboard([("ann", "bob"), ("bob", "cid"), ("ann", "cid")] * 9)
    >>> make_report(board, title="Three people")
    Report('Three people', ... kB)
    """
    if isinstance(rankers, Leaderboard):
        of_rankers = {
            "y": y, "qid": qid, "measures": measures, "feature_names": feature_names,
            "item_names": item_names, "groups": groups,
        }  # fmt: skip
        return _report_of_board(rankers, X, of_rankers, title or "Leaderboard", categories or {})
    if y is None or categories is not None:
        raise InvalidInputError(
            "A report about rankers must have the items' scores `y` and no `categories`, which are "
            f"of a leaderboard: got y={'None' if y is None else '...'}. Give X and y."
        )
    title = title or "Ranking report"
    # scores, measures and unseen pairs that several sections share
    judged = replace(
        _checked_models(rankers, X, y, qid, measures, feature_names, item_names, groups),
        is_watched=progress,
    )
    draw, found = FigureWriter(), evaluations_of(judged)
    unseen = pairs_left_out(judged)
    parts = [
        training_section(judged),
        measures_section(judged, found, draw),
        comparison_section(judged, found),
        *selection_sections(judged, draw),
        roc_section(judged, unseen, draw),
        calibration_section(judged, draw),
        next_query_section(judged),
        features_section(judged, found, draw),
        queries_section(judged, found),
    ]
    sections = [part for part in parts if part is not None]
    honest = [*_held_out_cards(judged), *_unseen_cards(unseen)]
    cards = [*honest, *_cards(judged, next(iter(found.values())), has_honest=bool(honest))][:4]
    return Report(title, _rendered(title, _lead(judged), cards, sections))


def _report_of_board(
    board: Leaderboard,
    table: Any,
    of_rankers: Mapping[str, Any],
    title: str,
    categories: Mapping[str, Leaderboard],
) -> Report:
    """Make a page about a leaderboard: scores, who beats whom, effects, judges, and its audit."""
    odd = [name for name, value in of_rankers.items() if value is not None]
    if odd or not isinstance(table, ComparisonTable | None):
        what = f"`{odd[0]}`" if odd else f"X of type {type(table).__name__}"
        raise InvalidInputError(
            "A report about a leaderboard takes its ComparisonTable, a title and categories only: "
            f"got {what}. Leave it out."
        )
    parts = [
        ranking_section(board),
        pairs_section(board, table),
        effects_section(board),
        judges_section(board),
        *(audit_sections(board.audit()) if board.auditor is not None else ()),
        *(category_section(name, one) for name, one in categories.items()),
        reading_section(board),
    ]
    sections = [part for part in parts if part is not None]
    first = board.rows()[0]
    cards = [
        ("best", str(first["item"]), f"best with probability {decimals(first['best'], 2)}"),
        _first_two_card(board),
        ("answers", f"{float(board.answers.sum()) / 2.0:g}", f"about {board.n_items} items"),
    ]
    lead = f"{board.n_items} items ranked from comparisons, {board.level:.0%} intervals."
    return Report(title, _rendered(title, lead, cards, sections))


def _first_two_card(board: Leaderboard) -> tuple[str, str, str]:
    """Return a card with the probable result of comparing the first two items again."""
    title, text = "against the second", "probability that the first is preferred"
    if board.n_items < 2:
        return title, "1", text
    wins, loses = board.win_matrix(board.names[:2].tolist())[[0, 1], [1, 0]].tolist()
    ties = 1.0 - wins - loses
    if ties > 0.005:
        text = f"probability of a win; of a tie {decimals(ties, 2)}, of a loss {decimals(loses, 2)}"
    return title, decimals(wins, 2), text


def _checked_models(
    rankers: Any,
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None,
    measures: Any,
    feature_names: Sequence[str] | None,
    item_names: Sequence[Any] | None,
    groups: ArrayLike | None,
) -> JudgedModels:
    models = dict(rankers) if isinstance(rankers, Mapping) else {type(rankers).__name__: rankers}
    if not models:
        raise InvalidInputError("`rankers` must hold at least one fitted ranker: got none.")
    # rows and scores of the same length
    refuse_unusable_rows(X)
    rows, truth = raw_rows(X), check_scores(y)
    if rows.ndim != 2:
        raise InvalidInputError(f"`X` must be a table of items: got shape {rows.shape}.")
    if rows.dtype.kind == "f":
        refuse_huge_rows(rows)
    check_length("y", truth, len(rows))
    # names of features and items
    names = feature_names
    if names is None:
        first = next(iter(models.values()))
        names = getattr(first, "feature_names_in_", getattr(X, "columns", None))
    items = [f"item {at}" for at in range(len(rows))] if item_names is None else item_names
    check_length("item_names", np.empty(len(items)), len(rows))
    return JudgedModels(
        rankers={str(name): _as_ranker(model) for name, model in models.items()},
        X=rows,
        y=truth,
        queries=Queries.of(qid, len(rows)),
        has_qid=qid is not None,
        measures=None if measures is None else parse_measures(measures),
        names=None if names is None else tuple(map(str, names)),
        items=[str(item) for item in items],
        groups=_groups(groups, len(rows)),
    )


def _groups(groups: ArrayLike | None, n_items: int) -> NDArray[Any] | None:
    if groups is None:
        return None
    given = np.asarray(groups)
    check_length("groups", given, n_items)
    return given


def _as_ranker(model: Any) -> Any:
    return OfUsers(model) if isinstance(model, RankingFactorization) else model


def _lead(judged: JudgedModels) -> str:
    models = ", ".join(judged.rankers)
    n_queries = judged.queries.n_queries
    what = f"{len(judged.y)} items" + (f" in {n_queries} queries" if judged.has_qid else "")
    return f"{models}, judged on {what}."


def _rendered(
    title: str, lead: str, cards: list[tuple[str, str, str]], sections: list[Section]
) -> str:
    with extra("A report", "jinja2", "report"):
        import jinja2  # noqa: PLC0415 - optional dependency
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(
        (files("rankwise.apps.report") / "page.html.j2").read_text("utf-8")
    )
    return page.render(
        title=title,
        lead=lead,
        cards=cards,
        sections=sections,
        version=__version__,
    )


def _cards(
    judged: JudgedModels, first: Evaluation, *, has_honest: bool
) -> list[tuple[str, str, str]]:
    """Return the measures of the first model on the items given, with their intervals.

    Values on queries that were learned from are no card if there is an honest value.
    """
    name = next(iter(judged.rankers))
    n_learned = queries_learned_from(judged)[name]
    if n_learned and has_honest:
        return []
    where = {None: "on the items given: too good if learned from", 0: "on unseen queries"}.get(
        n_learned, f"too good: {n_learned} of the queries were learned from"
    )
    cards = []
    for measure, mean, (low, high) in zip(
        first.measures, first.mean, first.interval(), strict=True
    ):
        ends = f"{decimals(low, 3)} to {decimals(high, 3)}, " if not np.isnan(low) else ""
        cards.append((repr(measure), decimals(mean, 3), f"{ends}{name}, {where}"))
    return cards


def _held_out_cards(judged: JudgedModels) -> list[tuple[str, str, str]]:
    """Return what the first model found while it was fitted, on items set aside."""
    name, model = next(iter(judged.rankers.items()))
    ranker = ranker_of(model)
    honest, path = getattr(ranker, "honest_value_", None), getattr(ranker, "path_", None)
    if honest is not None and honest.n_queries > 0:
        ends = f"{decimals(honest.low, 3)} to {decimals(honest.high, 3)}, {name}, "
        title = f"{honest.measure}, {honest.unseen}"
        return [(title, decimals(honest.value, 3), f"{ends}seen by no part of the fit")]
    value = getattr(ranker, "held_out_value_", None)
    if path is None or value is None:
        return []
    note = f"{name}, set aside while {path.parameter} was chosen: slightly too good"
    return [(f"{path.measure!r}, held out", decimals(value, 3), note)]


def _unseen_cards(unseen: Mapping[str, PairEstimate]) -> list[tuple[str, str, str]]:
    """Return the leave-pair-out estimate of the first model that has one."""
    return [
        (
            "AUC of unseen pairs",
            decimals(estimate.value, 3),
            f"{decimals(estimate.low, 3)} to {decimals(estimate.high, 3)}, {name} trained anew",
        )
        for name, estimate in list(unseen.items())[:1]
    ]
