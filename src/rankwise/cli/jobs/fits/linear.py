"""Fit LinearRankRLS by conjugate gradients, to rows in memory or streamed from a file."""

import re
import sys
from typing import Any

import numpy as np

from rankwise.cli.fit_commands import FitLinear
from rankwise.cli.jobs.files import check_target, columns_chosen, read_validation, reading_options
from rankwise.cli.jobs.fits.cluster import fit_on_cluster
from rankwise.cli.jobs.fits.training import (
    FitInput,
    Fitted,
    fit_and_save,
    measure_of,
    on_file,
    parse_grid,
    refuse_beside_pairs,
    refuse_both,
    refuse_if,
)
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.distributed.linear import DaskLinearRankRLS
from rankwise.io.reading import open_stream
from rankwise.measures.registry import parse_measure
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS
from rankwise.selection.path import SelectionPath
from rankwise.solve.conjugate_gradients import last_known

DEFAULT_MEMORY = "256M"
DEFAULT_PATIENCE = 10
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def run(command: FitLinear) -> None:
    """Fit for one alpha or for a grid in one run, save and report."""
    _refuse_idle_options(command)
    ranker = _ranker(command)
    if command.is_on_cluster:
        _fit_on_cluster(command, ranker)
        return
    memory = parse_size(command.memory or DEFAULT_MEMORY)
    check_target(command.checkpoint)
    if command.stream:
        check_target(command.output, command.train, command.validate)
        fit_and_save(command, None, lambda: _fit_file(command, ranker, memory), describe)
    else:
        problem = FitInput.read(command, command.pairs)
        fit_and_save(command, problem, lambda: _fit_rows(command, ranker, problem), describe)


def _refuse_idle_options(command: FitLinear) -> None:
    """Refuse options that would have no effect beside the others."""
    refuse_both(command.alpha, command.alphas, "--alpha and --alphas")
    refuse_beside_pairs(command)
    refuse_if(
        command.stream and command.pairs is not None,
        "--stream must not come with --pairs: comparisons name rows anywhere in the file. Leave "
        "one of them out.",
    )
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
    chooses = command.alphas is not None or command.early_stopping
    refuse_if(
        command.stream and command.validate is None and chooses,
        "--stream must come with --validate when --alphas or --early-stopping leave a choice: got "
        "none. Put some queries into a file of their own.",
    )
    refuse_if(
        command.measure is not None and command.pairs is not None and command.validate is None,
        "--measure must not come with --pairs without --validate: held-out comparisons are judged "
        "by the share of them in order. Leave it out, or add --validate.",
    )


def _ranker(command: FitLinear) -> LinearRankRLS:
    alphas = None if command.alphas is None else parse_grid(command.alphas, "--alphas")
    chooses = alphas is not None or command.early_stopping
    patience = command.n_iter_no_change
    return LinearRankRLS(
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


def _fit_rows(command: FitLinear, ranker: LinearRankRLS, problem: FitInput) -> Fitted:
    """Fit to rows in memory."""
    ranker.fit(problem.data.X, **problem.preferences, **problem.validation)
    return _fitted(command, ranker)


def _fit_file(command: FitLinear, ranker: LinearRankRLS, memory: int) -> Fitted:
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
    return _fitted(command, ranker)


def _fit_on_cluster(command: FitLinear, ranker: LinearRankRLS) -> None:
    """Fit where the rows are."""
    given, known = ranker.get_params(), DaskLinearRankRLS().get_params()
    there = DaskLinearRankRLS(**{name: given[name] for name in known if name in given})
    idle = {"--pairs": command.pairs is not None, "--stream": command.stream}
    fit_on_cluster(command, there, lambda found: _fitted(command, found), idle)


def _fitted(command: FitLinear, ranker: LinearRankRLS) -> Fitted:
    selection = _selection(ranker)
    judged = "on a tenth held out" if command.validate is None else on_file(command)
    ranker.set_params(progress=False, checkpoint=None)  # of this run, and not of the model
    return Fitted(ranker, "alpha", ranker.alpha_, selection, judged)


def _selection(ranker: LinearRankRLS) -> SelectionPath | None:
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


def describe(ranker: LinearRankRLS) -> dict[str, Any]:
    """Return the number of iterations, and which of them is kept."""
    return {"n_iter": ranker.n_iter_, "best_iter": ranker.best_iter_}


def parse_size(text: str) -> int:
    """Return the number of bytes in a size such as ``512M`` or ``2G``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip(), re.IGNORECASE)
    n_bytes = 0 if found is None else int(float(found[1]) * UNITS[found[2].upper()])
    if n_bytes < 1:
        raise InvalidInputError(f"--memory must be a size such as 512M or 2G: got {text!r}.")
    return n_bytes
