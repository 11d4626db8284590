"""Training for a measure directly, with C chosen on a validation file or by folds of queries."""

import sys
import time
from typing import Any

import numpy as np

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs.choice import Choice, choose, parse_alphas
from rankwise.cli.jobs.closed_form import kernel_of
from rankwise.cli.jobs.files import check_target, given_scores, read_items
from rankwise.cli.jobs.training import Lesson, Training
from rankwise.core.errors import InvalidInputError
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV
from rankwise.rankers.dorm.objective import scoring_measure


def train(command: Fit) -> Training:
    """Read the data and train, for one C or for the best of several."""
    ranker = _ranker(command)
    measure = _measure(command)
    check_target(command.output)
    lesson = Lesson.of(command, read_items(command.train, command.layout))
    validation = _validation(command, lesson)
    start = time.perf_counter()
    choice: Choice | None
    if isinstance(ranker, DORMCV):
        ranker.fit(lesson.data.X, **lesson.preferences, **validation)
        choice = _choice(ranker)
    else:
        ranker.fit(lesson.data.X, **lesson.preferences)
        choice = None if not validation else _judge(ranker, validation, measure)
    seconds = time.perf_counter() - start
    if lesson.names is not None:
        ranker.feature_names_in_ = np.array(lesson.names, dtype=object)
    ranker.set_params(progress=False)  # of this run, and not of the model
    return Training(ranker, lesson, choice, seconds)


def _ranker(command: Fit) -> DORM | DORMCV:
    options: dict[str, Any] = {
        "measure": command.optimise,
        "kernel": kernel_of(command),
        "basis": command.basis,
        "progress": sys.stderr.isatty(),
        "random_state": command.random_state,
    }
    limits = {"tol": command.tol, "max_iter": command.max_iter, "decay": _decay(command.decay)}
    options |= {name: value for name, value in limits.items() if value is not None}
    if command.cs is None:
        return DORM(C=_number("--C", command.c), **options)
    if command.c is not None:
        raise InvalidInputError("Only one of --C and --Cs may be given: got both.")
    Cs = int(command.cs) if command.cs.isdigit() else parse_alphas(command.cs, "--Cs")
    return DORMCV(Cs, scoring=_measure(command), **options)


def _measure(command: Fit) -> Measure:
    """Return what decides: the measure asked for, or the one that is optimised."""
    if command.measure != Fit.measure:
        return parse_measure(command.measure)
    return scoring_measure(command.optimise or "")


def _number(option: str, text: str | None) -> Any:
    """Return a number, or the one word that stands for a fitting one."""
    if text is None or text == "scale":
        return "scale"
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"{option} must be a number or scale: got {text!r}.") from None


def _decay(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _validation(command: Fit, lesson: Lesson) -> dict[str, Any]:
    """Return the validation data as ``fit`` takes them, nothing where there are none."""
    path, data = command.validate, lesson.data
    if path is None:
        return {}
    data = read_items(path, command.layout, n_features=data.n_features, names=lesson.names)
    return {"X_val": data.X, "y_val": given_scores(path, data), "qid_val": data.qid}


def _choice(ranker: DORMCV) -> Choice:
    path = ranker.path_
    return Choice(path.Cs, path.values, path.measure, taken=path.best(ranker.rule), name="C")


def _judge(ranker: DORM, validation: dict[str, Any], measure: Measure) -> Choice:
    """Measure the one C on the validation data."""
    scores = ranker.predict(validation["X_val"])[None]
    given = validation["y_val"], validation["qid_val"]
    judged = choose(np.array([ranker.C_]), scores, *given, measure)
    return Choice(judged.alphas, judged.values, measure, name="C")
