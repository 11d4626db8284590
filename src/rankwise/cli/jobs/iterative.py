"""Training by conjugate gradients, from rows in memory or streamed from a file."""

import re
import sys
import time
from typing import Any

import numpy as np

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs.choice import Choice
from rankwise.cli.jobs.combinations import wanted_alphas
from rankwise.cli.jobs.files import (
    check_target,
    columns_chosen,
    given_scores,
    read_items,
    reading_options,
)
from rankwise.cli.jobs.training import Lesson, Training
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.io.streams import open_stream
from rankwise.measures.registry import parse_measure
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS

DEFAULT_MEMORY = "256M"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def train(command: Fit) -> Training:
    """Train for one alpha or for a grid in one run, and keep the best."""
    ranker = _ranker(command)
    memory = parse_size(command.memory or DEFAULT_MEMORY)
    check_target(command.output)
    check_target(command.checkpoint)
    if command.stream:
        lesson, seconds = None, _fit_file(command, ranker, memory)
    else:
        lesson = Lesson.of(command, read_items(command.train, command.layout))
        seconds = _fit_rows(command, ranker, lesson)
    choice = _choice(ranker)
    ranker.set_params(progress=False, checkpoint=None)  # of this run, and not of the model
    return Training(ranker, lesson, choice, seconds)


def _ranker(command: Fit) -> LinearRankRLS:
    alphas = wanted_alphas(command)
    several = len(alphas) > 1
    if command.stream and command.validate is None and (several or command.early_stopping):
        raise InvalidInputError(
            "--stream must come with --validate when --alphas or --early-stopping leave a choice: "
            "got none. Put some queries into a file of their own."
        )
    limits: dict[str, Any] = {
        "n_iter_no_change": command.n_iter_no_change,
        "max_iter": command.max_iter,
        "tol": command.tol,
    }
    ranker = LinearRankRLS(
        alphas=alphas if several else None,
        early_stopping=command.early_stopping,
        dtype=command.dtype,
        cost=command.cost,
        ties=command.ties,
        query_weight=command.query_weight,
        measure=parse_measure(command.measure),
        progress=sys.stderr.isatty(),
        checkpoint=None if command.checkpoint is None else str(command.checkpoint),
        random_state=command.random_state,
        **{name: value for name, value in limits.items() if value is not None},
    )
    return ranker if several else ranker.set_params(alpha=alphas.item())


def _fit_rows(command: Fit, ranker: LinearRankRLS, lesson: Lesson) -> float:
    """Fit to rows in memory and return the seconds it took."""
    validation = _validation(command, lesson.data.n_features, lesson.names)
    start = time.perf_counter()
    ranker.fit(lesson.data.X, **lesson.preferences, **validation)
    seconds = time.perf_counter() - start
    if lesson.names is not None:
        ranker.feature_names_in_ = np.array(lesson.names, dtype=object)
    return seconds


def _fit_file(command: Fit, ranker: LinearRankRLS, memory: int) -> float:
    """Fit to the rows of a file, read in parts, and return the seconds that and reading took."""
    options = reading_options(command.train, command.layout)
    start = time.perf_counter()
    validation: dict[str, Any] = {}
    if command.validate is not None:
        stream = open_stream(command.train, memory=memory // 8, **options)
        names = None if stream.feature_names is None else tuple(stream.feature_names)
        validation = _validation(command, stream.n_features, names)
    with columns_chosen():
        ranker.fit_file(
            command.train, memory=memory, cache_dir=command.cache_dir, **options, **validation
        )
    return time.perf_counter() - start


def _validation(command: Fit, n_features: int, names: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the validation data as ``fit`` takes them, nothing where there are none."""
    path = command.validate
    if path is None:
        return {}
    data = read_items(path, command.layout, n_features=n_features, names=names)
    return {"X_val": data.X, "y_val": given_scores(path, data), "qid_val": data.qid}


def _choice(ranker: LinearRankRLS) -> Choice | None:
    """Return the value of each alpha: the best one when stopping early, otherwise the last one."""
    alphas: FloatArray = np.asarray(ranker.history_["alpha"], dtype=np.float64)
    values = ranker.history_["value"]
    known = np.count_nonzero(~np.isnan(values), axis=0)  # an alpha at rest is measured no more
    if not known.any():
        return None
    measure = parse_measure(ranker.measure)
    if ranker.early_stopping:
        better = np.fmax if measure.greater_is_better else np.fmin
        found = better.reduce(values)
    else:
        found = values[known - 1, np.arange(len(alphas))]
    return Choice(alphas, found, measure, taken=int(np.argmax(alphas == ranker.alpha_)))


def parse_size(text: str) -> int:
    """Return the number of bytes in a size such as ``512M`` or ``2G``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip(), re.IGNORECASE)
    n_bytes = 0 if found is None else int(float(found[1]) * UNITS[found[2].upper()])
    if n_bytes < 1:
        raise InvalidInputError(f"--memory must be a size such as 512M or 2G: got {text!r}.")
    return n_bytes
