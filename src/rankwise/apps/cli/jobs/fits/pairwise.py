"""Fits that learn from pairs of items: RankRLS, LinearRankRLS, KPCRank and RankSVM.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import rankwise
from rankwise.apps.cli.fit_commands import FitCommand, FitKPCRank, FitLinear, FitRLS, FitSVM
from rankwise.apps.cli.jobs.files import (
    check_target,
    columns_chosen,
    read_preferences,
    read_validation,
    reading_options,
)
from rankwise.apps.cli.jobs.fits.training import (
    FitInput,
    Fitted,
    best_of,
    describe_kernel,
    describe_kernel_and_gap,
    fit_and_save,
    kernel_of,
    measure_of,
    measured,
    on_file,
    parse_grid,
    refuse_beside_pairs,
    refuse_both,
    refuse_if,
)
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.io.reading import open_stream
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.selection.path import PAIR_MEASURES, SelectionPath
from rankwise.solve.conjugate_gradients import last_known

LEFT_OUT = "by leaving out each {} in turn"
"""How exact hold-outs judge."""
DEFAULT_MEMORY = "256M"
DEFAULT_PATIENCE = 10
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DEFAULT_COMPONENTS = 10


# RankRLS


def fit_rls(command: FitRLS) -> None:
    """Fit, save and report."""
    refuse_both(command.alpha, command.alphas, "--alpha and --alphas")
    refuse_beside_pairs(command)
    refuse_if(
        command.pairs_val is not None and (command.pairs is None or command.alphas is None),
        "--pairs-val must come with --pairs and --alphas: its comparisons choose among the alphas.",
    )
    alphas = None if command.alphas is None else parse_grid(command.alphas, "--alphas")
    measure = measure_of(command, chooses=alphas is not None)
    ranker = rankwise.RankRLS(
        1.0 if command.alpha is None else command.alpha,
        kernel=kernel_of(command),
        cost=command.cost,
        ties=command.ties,
        query_weight=command.query_weight,
        basis=command.basis,
        random_state=command.random_state,
    )
    # one alpha, or the best of a grid
    problem = FitInput.read(command, command.pairs)
    if alphas is None:
        fit = partial(_fit_rls_once, command, ranker, problem, measure)
    else:
        fit = partial(fit_best_rls, command, ranker, alphas, problem, measure, command.pairs_val)
    fit_and_save(command, problem, fit, describe_kernel)


def _fit_rls_once(
    command: FitCommand, ranker: "rankwise.RankRLS", problem: FitInput, measure: Measure | None
) -> Fitted:
    """Fit for the alpha of the ranker."""
    ranker.fit(problem.data.X, **problem.preferences)
    return measured(command, ranker, "alpha", ranker.alpha, problem, measure)


def fit_best_rls(
    command: FitCommand,
    ranker: "rankwise.RankRLS",
    alphas: ArrayLike,
    problem: FitInput,
    measure: Measure | None,
    pairs_val: Path | None = None,
) -> Fitted:
    """Fit for every alpha and keep the best, by the validation file or by exact hold-outs."""
    X, preferences = problem.data.X, problem.preferences
    # validation rows decide on a path of fits
    if problem.validation:
        path = ranker.fit_path(X, alphas=alphas, **preferences)
        return best_of(command, path, problem, measure)
    # validation comparisons, or exact hold-outs of the training data, decide
    judges: dict[str, Any] = {}
    if pairs_val is not None:
        codes = getattr(command, "codes", None)
        given = read_preferences(pairs_val, problem.data.items, codes=codes)
        judges = {"pairs_val": given["pairs"], "pair_weight_val": given["pair_weight"]}
    unit = "query" if problem.has_qid else "comparison" if problem.has_pairs else "pair of items"
    _refuse_listwise(measure, unit)
    known = set(rankwise.RankRLSCV().get_params()) - {"alpha"}
    options = {name: value for name, value in ranker.get_params().items() if name in known}
    search = rankwise.RankRLSCV(alphas, measure=measure, **options).fit(X, **preferences, **judges)
    judged = f"on {pairs_val}" if judges else LEFT_OUT.format(unit)
    return Fitted(search, "alpha", search.alpha_, search.path_, judged)


def _refuse_listwise(measure: Measure | None, unit: str) -> None:
    """Refuse measures of whole rankings if only pairs are left out."""
    known = ", ".join(map(repr, PAIR_MEASURES))
    refuse_if(
        unit != "query" and measure not in (None, *PAIR_MEASURES),
        f"--measure must be one of {known} where each {unit} is left out: got {measure!r}. Give "
        "data with queries, or --validate.",
    )


# LinearRankRLS


def fit_linear(command: FitLinear) -> None:
    """Fit for one alpha or for a grid in one run, save and report."""
    ranker = linear_ranker(command)
    memory = parse_size(command.memory or DEFAULT_MEMORY)
    check_target(command.checkpoint)
    if command.stream:
        check_target(command.output, command.train, command.validate)
        fit_and_save(
            command, None, lambda: _fit_linear_file(command, ranker, memory), _describe_iterations
        )
    else:
        problem = FitInput.read(command, command.pairs)
        fit_and_save(
            command,
            problem,
            lambda: _fit_linear_rows(command, ranker, problem),
            _describe_iterations,
        )


def _refuse_idle_linear(command: FitLinear) -> None:
    """Refuse options that would have no effect together with the others."""
    refuse_both(command.alpha, command.alphas, "--alpha and --alphas")
    refuse_beside_pairs(command)
    refuse_if(
        command.stream and command.pairs is not None,
        "--stream must not come with --pairs: comparisons name rows anywhere in the file. Leave "
        "one of them out.",
    )
    # options that only a stream, or early stopping, reads
    for option, value in [("--memory", command.memory), ("--cache-dir", command.cache_dir)]:
        refuse_if(
            value is not None and not command.stream,
            f"{option} must come with --stream: got it alone. Add --stream, or leave it out.",
        )
    refuse_if(
        command.n_iter_no_change is not None and not command.early_stopping,
        "--n-iter-no-change must come with --early-stopping: got it alone. Add --early-stopping, "
        "or leave it out.",
    )
    # a choice needs held-out data
    chooses = command.alphas is not None or command.early_stopping
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


def linear_ranker(command: FitLinear) -> "rankwise.LinearRankRLS":
    """Return the ranker that the options ask for; refuse options without effect."""
    _refuse_idle_linear(command)
    alphas = None if command.alphas is None else parse_grid(command.alphas, "--alphas")
    chooses = alphas is not None or command.early_stopping
    patience = command.n_iter_no_change
    return rankwise.LinearRankRLS(
        1.0 if command.alpha is None else command.alpha,
        alphas=alphas,
        early_stopping=command.early_stopping,
        n_iter_no_change=DEFAULT_PATIENCE if patience is None else patience,
        max_iter=command.max_iter,
        tol=command.tol,
        dtype=command.dtype,
        cost=command.cost,
        ties=command.ties,
        query_weight=command.query_weight,
        measure=measure_of(command, chooses=chooses) or "Concordance",
        progress=sys.stderr.isatty(),
        checkpoint=None if command.checkpoint is None else str(command.checkpoint),
        random_state=command.random_state,
    )


def _fit_linear_rows(
    command: FitLinear, ranker: "rankwise.LinearRankRLS", problem: FitInput
) -> Fitted:
    """Fit to rows in memory."""
    ranker.fit(problem.data.X, **problem.preferences, **problem.validation)
    return fitted_linear(command, ranker)


def _fit_linear_file(command: FitLinear, ranker: "rankwise.LinearRankRLS", memory: int) -> Fitted:
    """Fit to the rows of a file, read in parts."""
    options = reading_options(command.train, command.layout)
    validation: dict[str, Any] = {}
    if command.validate is not None:
        stream = open_stream(command.train, memory=memory // 8, **options)
        names = None if stream.feature_names is None else tuple(stream.feature_names)
        validation = read_validation(command.validate, command.layout, stream.n_features, names)
    with columns_chosen():
        ranker.fit_file(
            command.train, memory=memory, cache_dir=command.cache_dir, **options, **validation
        )
    return fitted_linear(command, ranker)


def fitted_linear(command: FitLinear, ranker: "rankwise.LinearRankRLS") -> Fitted:
    """Describe what was learned, and how alphas and iterations were judged."""
    selection = _linear_selection(ranker)
    judged = "on a tenth held out" if command.validate is None else on_file(command)
    ranker.set_params(progress=False, checkpoint=None)  # of this run, and not of the model
    return Fitted(ranker, "alpha", ranker.alpha_, selection, judged)


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


def _describe_iterations(ranker: "rankwise.LinearRankRLS") -> dict[str, Any]:
    """Return the number of iterations, and which of them is kept."""
    return {"n_iter": ranker.n_iter_, "best_iter": ranker.best_iter_}


def parse_size(text: str) -> int:
    """Return the number of bytes in a size such as ``512M`` or ``2G``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip(), re.IGNORECASE)
    n_bytes = 0 if found is None else int(float(found[1]) * UNITS[found[2].upper()])
    if n_bytes < 1:
        raise InvalidInputError(f"--memory must be a size such as 512M or 2G: got {text!r}.")
    return n_bytes


# KPCRank


def fit_kpcrank(command: FitKPCRank) -> None:
    """Fit, save and report."""
    chooses = command.max_components is not None
    refuse_both(command.n_components, command.max_components, "--n-components and --max-components")
    refuse_beside_pairs(command)
    refuse_if(
        chooses and command.pairs is not None,
        "--max-components must not come with --pairs: the number of components is chosen by items "
        "with scores. Give --n-components.",
    )
    measure = measure_of(command, chooses=chooses)
    options: dict[str, Any] = {
        "kernel": kernel_of(command),
        "alpha": command.alpha,
        "cost": command.cost,
        "ties": command.ties,
        "query_weight": command.query_weight,
    }
    problem = FitInput.read(command, command.pairs)
    fit = _fit_best_kpcrank if chooses else _fit_kpcrank_once
    fit_and_save(command, problem, lambda: fit(command, options, problem, measure), describe_kernel)


def _fit_kpcrank_once(
    command: FitKPCRank, options: dict[str, Any], problem: FitInput, measure: Measure | None
) -> Fitted:
    number = command.n_components
    ranker = rankwise.KPCRank(DEFAULT_COMPONENTS if number is None else number, **options)
    ranker.fit(problem.data.X, **problem.preferences)
    return measured(command, ranker, "n_components", ranker.n_components_, problem, measure)


def _fit_best_kpcrank(
    command: FitKPCRank, options: dict[str, Any], problem: FitInput, measure: Measure | None
) -> Fitted:
    """Fit for every number of components: the validation file decides, or hold-outs do."""
    assert command.max_components is not None
    ranker = rankwise.KPCRankCV(command.max_components, measure=measure, **options)
    ranker.fit(problem.data.X, **problem.preferences, **problem.validation)
    if problem.validation:
        judged = on_file(command)
    elif problem.has_qid:
        judged = "by leaving out each query in turn"
    else:
        judged = "by five folds of items"
    return Fitted(ranker, "n_components", ranker.n_components_, ranker.path_, judged)


# RankSVM


def fit_svm(command: FitSVM) -> None:
    """Fit, save and report."""
    refuse_both(command.c, command.cs, "--C and --Cs")
    refuse_beside_pairs(command)
    refuse_if(
        command.cs is not None and command.validate is None,
        "--Cs must come with --validate: got no data to choose on. Put some queries into a file of "
        "their own.",
    )
    grid = None if command.cs is None else parse_grid(command.cs, "--Cs")
    measure = measure_of(command, chooses=grid is not None)
    ranker = rankwise.RankSVM(
        1.0 if command.c is None else command.c,
        loss=command.loss,
        kernel=kernel_of(command),
        cost=command.cost,
        query_weight=command.query_weight,
        basis=command.basis,
        tol=command.tol,
        max_iter=command.max_iter,
        progress=sys.stderr.isatty(),
        random_state=command.random_state,
    )
    # one C, or the best of a path on the validation file
    problem = FitInput.read(command, command.pairs)
    fit_and_save(
        command,
        problem,
        lambda: _fit_svm_path(command, ranker, grid, problem, measure),
        describe_kernel_and_gap,
    )


def _fit_svm_path(
    command: FitSVM,
    ranker: "rankwise.RankSVM",
    grid: FloatArray | None,
    problem: FitInput,
    measure: Measure | None,
) -> Fitted:
    """Fit for one C, or for every C of a grid and choose by the validation file."""
    X, preferences = problem.data.X, problem.preferences
    if grid is None:
        ranker.fit(X, **preferences)
        fitted = measured(command, ranker, "C", ranker.C, problem, measure)
    else:
        path = ranker.fit_path(X, Cs=grid, **preferences)
        fitted = best_of(command, path, problem, measure)
    fitted.ranker.set_params(progress=False)  # of this run, and not of the model
    return fitted
