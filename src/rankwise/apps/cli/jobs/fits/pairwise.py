"""Fits that learn from pairs of items: RankRLS, GreedyRankRLS, LinearRankRLS, KPCRank and RankSVM.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import rankwise
from rankwise.apps.cli.fit_commands import (
    FitGreedy,
    FitKPCRank,
    FitLinear,
    FitRLS,
    FitSVM,
    GroupCommand,
    JudgedPairsCommand,
)
from rankwise.apps.cli.jobs.files import (
    check_target,
    columns_chosen,
    read_preferences,
    read_validation,
    read_words,
    reading_options,
)
from rankwise.apps.cli.jobs.fits.training import (
    LEFT_OUT,
    FitInput,
    Fitted,
    best_of,
    fit_and_save,
    fit_or_choose,
    measure_of,
    measured,
    on_file,
    refuse_beside_pairs,
)
from rankwise.apps.cli.jobs.parameters import (
    parse_size,
    refuse_alone,
    refuse_both,
    refuse_idle,
    refuse_if,
    values_of,
)
from rankwise.core.arrays import FloatArray
from rankwise.io.reading import files_of, open_stream
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.rls.rank_rls_cv import ALPHAS
from rankwise.selection.path import PAIR_MEASURES, SelectionPath
from rankwise.solve.conjugate_gradients import last_known

DEFAULT_MEMORY = "256M"


# RankRLS


def fit_rls(command: FitRLS) -> None:
    """Fit, save and report."""
    texts = command.parameters
    refuse_idle(command, rankwise.RankRLS, rankwise.RankRLSCV, "alphas")
    refuse_beside_pairs(command)
    _refuse_idle_judges(command, "alphas")
    measure = measure_of(command, chooses="alphas" in texts)
    values = values_of(rankwise.RankRLS, texts)  # errors in options before files are read
    values_of(rankwise.RankRLSCV, texts)
    problem = FitInput.read(command, command.pairs)

    def fit() -> Fitted:
        if "alphas" in texts:
            return fit_best_rls(command, texts, problem, measure, judges_of(command, problem))
        ranker = rankwise.RankRLS(**values).fit(problem.data.X, **problem.preferences)
        return measured(command, ranker, "alpha", problem, measure)

    fit_and_save(command, problem, fit)


def fit_best_rls(
    command: GroupCommand,
    texts: dict[str, Any],
    problem: FitInput,
    measure: Measure | None,
    judges: dict[str, Any] | None = None,
) -> Fitted:
    """Fit for every alpha and keep the best, by the validation file or by exact hold-outs."""
    X, preferences = problem.data.X, problem.preferences
    values = {"alphas": ALPHAS, **values_of(rankwise.RankRLSCV, texts)}
    # validation rows decide on a path of fits
    if problem.validation:
        single = rankwise.RankRLS(**values_of(rankwise.RankRLS, texts))
        path = single.fit_path(X, alphas=values["alphas"], **preferences)
        return best_of(command, path, problem, measure)
    # validation comparisons, or exact hold-outs of the training data, decide
    judges = judges or {}
    unit = "query" if problem.has_qid else "comparison" if problem.has_pairs else "pair of items"
    if command.group is not None:
        values["cv"] = rankwise.GroupPairs(_groups_of(command, problem))
        unit = f"pair of groups in the column {command.group!r}"
    known = ", ".join(map(repr, PAIR_MEASURES))
    refuse_if(
        unit != "query" and measure not in (None, *PAIR_MEASURES),
        f"--measure must be one of {known} where each {unit} is left out: got {measure!r}. Give "
        "data with queries, or --validate.",
    )
    search = rankwise.RankRLSCV(measure=measure, **values)
    if problem.is_raw:
        ranker: Any = rankwise.RankerPipeline([rankwise.IndicatorEncoder(), search])
        search = ranker.fit(X, **preferences).steps_[-1]
    else:
        ranker = search.fit(X, **preferences, **judges)
    if command.group is not None:  # the model does not keep who is in which group
        search.set_params(cv="leave_pair_out")
    if problem.is_raw:
        ranker.set_params(steps=[clone(step) for step in ranker.steps_])
    judged = on_file(command) if judges else LEFT_OUT.format(unit)
    return Fitted(ranker, "alpha", search.alpha_, search.path_, judged)


def _refuse_idle_judges(command: JudgedPairsCommand, grid: str | None = None) -> None:
    """Refuse validation comparisons without comparisons, or with nothing to choose."""
    for needed in ("pairs", grid) if grid else ("pairs",):
        refuse_alone(command, ["pairs_val"], needed)
    refuse_both(command, "pairs_val", "validate")


def judges_of(command: JudgedPairsCommand, problem: FitInput) -> dict[str, Any]:
    """Return the validation comparisons of the items, as keyword arguments of ``fit``."""
    if command.pairs_val is None:
        return {}
    given = read_preferences(command.pairs_val, problem.data.items, codes=command.codes)
    return {"pairs_val": given["pairs"], "pair_weight_val": given["pair_weight"]}


def _groups_of(command: GroupCommand, problem: FitInput) -> NDArray[Any]:
    """Return the group of each item, such as its patient."""
    assert command.group is not None
    refuse_if(
        problem.has_qid or problem.has_pairs or bool(problem.validation),
        "--group must come with one ranking of all items by their scores: got queries, --pairs or "
        "--validate. Leave one of them out.",
    )
    groups = read_words(command.train, command.group, "group")
    refuse_if(
        len(set(groups.tolist())) < 2,
        "--group must name a column with at least two groups: got one.",
    )
    return groups


# GreedyRankRLS


def fit_greedy(command: FitGreedy) -> None:
    """Fit, save and report."""
    refuse_beside_pairs(command)
    values = values_of(rankwise.GreedyRankRLS, command.parameters)
    measure = measure_of(command, chooses=True)
    problem = FitInput.read(command, command.pairs)

    def fit() -> Fitted:
        ranker = rankwise.GreedyRankRLS(measure=measure, **values)
        ranker.fit(problem.data.X, **problem.preferences)
        if problem.validation:
            return measured(command, ranker, "n_features", problem, measure)
        judged = "on what was left out as the features were chosen: too high for new data"
        return Fitted(ranker, "n_features", len(ranker.features_), ranker.path_, judged)

    fit_and_save(command, problem, fit)


# LinearRankRLS


def fit_linear(command: FitLinear) -> None:
    """Fit for one alpha or for a grid in one run, save and report."""
    ranker = linear_ranker(command)
    memory = parse_size(command.memory or DEFAULT_MEMORY)
    check_target(None if ranker.checkpoint is None else Path(ranker.checkpoint))
    problem = None
    if command.stream:
        check_target(command.output, *command.train, command.validate)
        refuse_if(
            len(files_of(command.train)) > 1 or command.positive is not None,
            "--stream must come with one file and with scores: got several files or --positive. "
            "Join the files, or use --workers, which reads several.",
        )
    else:
        problem = FitInput.read(command, command.pairs)

    def fit() -> Fitted:
        if problem is None:
            _fit_linear_file(command, ranker, memory)
        else:
            judges = problem.validation | judges_of(command, problem)
            ranker.fit(problem.data.X, **problem.preferences, **judges)
        return fitted_linear(command, ranker)

    fit_and_save(command, problem, fit)


def linear_ranker(command: FitLinear) -> "rankwise.LinearRankRLS":
    """Return the ranker that the options ask for; refuse options without effect."""
    texts = command.parameters
    refuse_beside_pairs(command)
    _refuse_idle_judges(command)
    refuse_both(command, "alpha", "alphas")
    refuse_if(
        command.stream and command.pairs is not None,
        "--stream must not come with --pairs: comparisons name rows anywhere in the file. Leave "
        "one of them out.",
    )
    refuse_alone(command, ["memory", "cache_dir"], "stream")
    refuse_alone(command, ["n_iter_no_change"], "early_stopping")
    # a choice needs held-out data
    chooses = "alphas" in texts or "early_stopping" in texts
    refuse_if(
        command.stream and command.validate is None and chooses,
        "--stream must come with --validate when --alphas or --early-stopping leave a choice: got "
        "none. Put some queries into a file of their own.",
    )
    refuse_if(
        command.measure is not None and command.pairs is not None and command.validate is None,
        "--measure must not come with --pairs without --validate: held-out comparisons are judged "
        "by the share in the right order. Leave it out, or add --validate.",
    )
    measure = measure_of(command, chooses=chooses) or "Concordance"
    return rankwise.LinearRankRLS(measure=measure, **values_of(rankwise.LinearRankRLS, texts))


def _fit_linear_file(command: FitLinear, ranker: "rankwise.LinearRankRLS", memory: int) -> None:
    """Fit to the rows of a file, read in parts."""
    options = reading_options(command.train, command.layout)
    validation: dict[str, Any] = {}
    if command.validate is not None:
        stream = open_stream(command.train[0], memory=memory // 8, **options)
        names = None if stream.feature_names is None else tuple(stream.feature_names)
        validation = read_validation(command.validate, command.layout, stream.n_features, names)
    with columns_chosen():
        ranker.fit_file(
            command.train[0], memory=memory, cache_dir=command.cache_dir, **options, **validation
        )


def fitted_linear(command: FitLinear, ranker: "rankwise.LinearRankRLS") -> Fitted:
    """Describe what was learned, and how alphas and iterations were judged."""
    is_given = command.validate is not None or command.pairs_val is not None
    judged = on_file(command) if is_given else "on a tenth held out"
    return Fitted(ranker, "alpha", ranker.alpha_, _linear_selection(ranker), judged)


def _linear_selection(ranker: "rankwise.LinearRankRLS") -> SelectionPath | None:
    """Return the value of each alpha: the best one when stopping early, otherwise the last one."""
    alphas: FloatArray = np.asarray(ranker.history_["alpha"], dtype=np.float64)
    values: FloatArray = np.asarray(ranker.history_["value"], dtype=np.float64)
    if np.isnan(values).all():
        return None
    measure = parse_measure(ranker.measure)
    if ranker.early_stopping:
        better = np.fmax if measure.greater_is_better else np.fmin
        found = better.reduce(values)
    else:
        found = last_known(values)
    unknown = np.full(len(alphas), np.nan)
    return SelectionPath("alpha", alphas, measure, found, unknown, None, np.zeros(len(alphas)))


# KPCRank


def fit_kpcrank(command: FitKPCRank) -> None:
    """Fit, save and report."""
    grid, texts = "max_components", command.parameters
    refuse_idle(command, rankwise.KPCRank, rankwise.KPCRankCV, grid)
    refuse_beside_pairs(command)
    _refuse_idle_judges(command, grid)
    measure = measure_of(command, chooses=grid in texts)
    classes = rankwise.KPCRank, rankwise.KPCRankCV
    values_of(classes[grid in texts], texts)  # errors in options before files are read
    problem = FitInput.read(command, command.pairs)
    fit_and_save(
        command,
        problem,
        lambda: fit_or_choose(
            command, problem, *classes, grid, "n_components", measure, judges_of(command, problem)
        ),
    )


# RankSVM


def fit_svm(command: FitSVM) -> None:
    """Fit, save and report."""
    texts = command.parameters
    refuse_beside_pairs(command)
    refuse_both(command, "C", "Cs")
    refuse_if(
        "Cs" in texts and command.validate is None,
        "--Cs must come with --validate: got no data to choose on. Put some queries into a file of "
        "their own.",
    )
    grid = values_of(rankwise.RankSVM.fit_path, texts)
    measure = measure_of(command, chooses="Cs" in texts)
    ranker = rankwise.RankSVM(**values_of(rankwise.RankSVM, texts))
    problem = FitInput.read(command, command.pairs)

    # one C, or the best of a path on the validation file
    def fit() -> Fitted:
        X, preferences = problem.data.X, problem.preferences
        if grid:
            return best_of(command, ranker.fit_path(X, **grid, **preferences), problem, measure)
        return measured(command, ranker.fit(X, **preferences), "C", problem, measure)

    fit_and_save(command, problem, fit)
