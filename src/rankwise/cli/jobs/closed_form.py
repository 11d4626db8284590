"""Training in closed form, with alpha chosen by exact hold-outs or on a validation file."""

import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs.choice import Choice, choose
from rankwise.cli.jobs.combinations import wanted_alphas
from rankwise.cli.jobs.files import check_target, given_scores, read_items
from rankwise.cli.jobs.training import Lesson, Training
from rankwise.cli.options import Layout
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.rls.rank_rls import RankRLS, RankRLSPath
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV


def train(command: Fit) -> Training:
    """Read the data, train for every alpha and keep the best."""
    alphas = wanted_alphas(command)
    ranker = RankRLS(
        kernel=kernel_of(command),
        cost=command.cost,
        ties=command.ties,
        query_weight=command.query_weight,
        basis=command.basis,
        random_state=command.random_state,
    )
    measure = parse_measure(command.measure)
    check_target(command.output)
    lesson = Lesson.of(command, read_items(command.train, command.layout))
    start = time.perf_counter()
    choice = None
    if command.validate is None and len(alphas) > 1:
        choice = _leave_out(ranker, alphas, lesson, measure)
        alphas = alphas[[choice.best]]
    path = _fit_all(ranker, alphas, lesson)
    seconds = time.perf_counter() - start
    if command.validate is not None:
        choice = _validate(command.validate, command.layout, path, lesson, measure)
    chosen = path[choice.best if choice is not None and len(path) > 1 else 0]
    if lesson.names is not None:
        chosen.feature_names_in_ = np.array(lesson.names, dtype=object)
    return Training(chosen, lesson, choice, seconds)


def _leave_out(ranker: RankRLS, alphas: FloatArray, lesson: Lesson, measure: Measure) -> Choice:
    """Judge every alpha by exact hold-outs: queries, pairs of one ranking, or comparisons."""
    options = {name: value for name, value in ranker.get_params().items() if name != "alpha"}
    search = RankRLSCV(alphas, measure=measure, **options)
    search.fit(lesson.data.X, **lesson.preferences)
    return Choice(alphas, search.path_.values, measure)


def _fit_all(ranker: RankRLS, alphas: FloatArray, lesson: Lesson) -> RankRLSPath:
    """Fit for every alpha; directly where there is but one."""
    if len(alphas) > 1:
        return ranker.fit_path(lesson.data.X, alphas=alphas, **lesson.preferences)
    ranker.set_params(alpha=alphas.item()).fit(lesson.data.X, **lesson.preferences)
    return RankRLSPath([ranker], alphas)


def _validate(
    file: Path, layout: Layout, path: RankRLSPath, lesson: Lesson, measure: Measure
) -> Choice:
    """Measure every alpha on the validation file."""
    data = read_items(file, layout, n_features=lesson.data.n_features, names=lesson.names)
    y = given_scores(file, data)
    return choose(path.alphas, path.predict(data.X), y, data.qid, measure)


def kernel_of(command: Fit) -> Kernel:
    """Return the kernel with the parameters that were given."""
    kernel = as_kernel(command.kernel)
    options = {"gamma": command.gamma, "degree": command.degree, "coef0": command.coef0}
    given = {name: value for name, value in options.items() if value is not None}
    known = {field.name for field in fields(kernel)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise InvalidInputError(
                f"--{name} must belong to the kernel: {command.kernel} has no {name}. Leave it "
                "out, or choose another --kernel."
            )
    return replace(kernel, **given)  # type: ignore[type-var]
