"""Train, choose alpha where there is a choice, save."""

import time
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.cli.commands.fit import Fit
from rankwise.cli.jobs.choice import Choice, choose, parse_alphas
from rankwise.cli.jobs.files import check_target, given_scores, read_items
from rankwise.cli.output import counted, decimals, print_json, print_table
from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.estimators.rankrls import RankRLS, RankRLSPath
from rankwise.estimators.rankrls_cv import RankRLSCV
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.io.data import RankingData
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure

DEFAULT_ALPHA = 1.0


@final
@dataclass(frozen=True, eq=False)
class Training:
    """The ranker, what it was trained on, how alpha was chosen, how long training took."""

    ranker: RankRLS
    data: RankingData
    choice: Choice | None
    seconds: float


def run(command: Fit) -> None:
    """Train as told, save the ranker and print what was done."""
    training = train(command)
    training.ranker.save(command.output)
    if command.json:
        print_json(_summary(command, training))
    else:
        _print_report(command, training)


def train(command: Fit) -> Training:
    """Read the data, train for every alpha and keep the best."""
    alphas = _alphas(command)
    ranker = RankRLS(
        kernel=_kernel(command),
        cost=command.cost,
        ties=command.ties,
        query_weight=command.query_weight,
        basis=command.basis,
        random_state=command.random_state,
    )
    measure = parse_measure(command.measure)
    check_target(command.output)
    data = read_items(command.train, command.layout)
    _check_size(command, data)
    y = given_scores(command.train, data)
    names = None if data.feature_names is None else tuple(data.feature_names)
    start = time.perf_counter()
    choice = None
    if command.validate is None and len(alphas) > 1:
        choice = _leave_out(ranker, alphas, data, y, measure)
        alphas = alphas[[choice.best]]
    path = _fit_all(ranker, alphas, data.X, y, data.qid)
    seconds = time.perf_counter() - start
    if command.validate is not None:
        held_out = read_items(
            command.validate, command.layout, n_features=data.n_features, names=names
        )
        y_val = given_scores(command.validate, held_out)
        choice = choose(path.alphas, path.predict(held_out.X), y_val, held_out.qid, measure)
    chosen = path[choice.best if choice is not None and len(path) > 1 else 0]
    if names is not None:
        chosen.feature_names_in_ = np.array(names, dtype=object)
    return Training(chosen, data, choice, seconds)


def _leave_out(
    ranker: RankRLS, alphas: FloatArray, data: RankingData, y: FloatArray, measure: Measure
) -> Choice:
    """Judge every alpha by exact hold-outs: queries in turn, or pairs of one global ranking."""
    options = {name: value for name, value in ranker.get_params().items() if name != "alpha"}
    search = RankRLSCV(alphas, measure=measure, **options).fit(data.X, y, qid=data.qid)
    return Choice(alphas, search.path_.values, measure)


def _fit_all(
    ranker: RankRLS, alphas: FloatArray, X: Matrix, y: FloatArray, qid: ArrayLike | None
) -> RankRLSPath:
    """Fit for every alpha; directly where there is but one."""
    if len(alphas) > 1:
        return ranker.fit_path(X, y, qid, alphas=alphas)
    return RankRLSPath([ranker.set_params(alpha=alphas.item()).fit(X, y, qid)], alphas)


def _alphas(command: Fit) -> FloatArray:
    if command.alphas is None:
        return np.array([DEFAULT_ALPHA if command.alpha is None else command.alpha])
    if command.alpha is not None:
        raise InvalidInputError("Only one of --alpha and --alphas may be given: got both.")
    return parse_alphas(command.alphas)


def _kernel(command: Fit) -> Kernel:
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


def _check_size(command: Fit, data: RankingData) -> None:
    if data.n_items < 2 or data.n_features < 1:
        raise InvalidInputError(
            f"{command.train} must hold at least 2 items and 1 feature: it has "
            f"{counted(data.n_items, 'item', 'items')} and "
            f"{counted(data.n_features, 'feature', 'features')}."
        )


def _summary(command: Fit, training: Training) -> dict[str, Any]:
    ranker, choice = training.ranker, training.choice
    return {
        "model": str(command.output),
        "ranker": type(ranker).__name__,
        "alpha": ranker.alpha,
        "kernel": repr(ranker.kernel_),
        "n_items": training.data.n_items,
        "n_features": training.data.n_features,
        "n_queries": ranker.n_queries_,
        "ignored_queries": ranker.ignored_queries_,
        "seconds": training.seconds,
        "validation": None
        if choice is None
        else {
            "measure": repr(choice.measure),
            "alphas": choice.alphas.tolist(),
            "values": choice.values.tolist(),
        },
    }


def _print_report(command: Fit, training: Training) -> None:
    ranker, data, choice = training.ranker, training.data, training.choice
    if choice is not None:
        rows = [
            [f"{alpha:g}", decimals(value), "chosen" if at == choice.best else ""]
            for at, (alpha, value) in enumerate(zip(choice.alphas, choice.values, strict=True))
        ]
        print_table(["alpha", repr(choice.measure), ""], rows)
        if choice.is_at_end:
            print("The chosen alpha is at an end of the grid: a wider grid may hold a better one.")
    print(
        f"Trained RankRLS(alpha={ranker.alpha:g}, kernel={ranker.kernel_!r}) on "
        f"{counted(data.n_items, 'item', 'items')}, "
        f"{counted(data.n_features, 'feature', 'features')}, "
        f"{counted(ranker.n_queries_, 'query', 'queries')} in {training.seconds:.2g} s."
    )
    if ranker.ignored_queries_ > 0:
        print(f"{counted(ranker.ignored_queries_, 'query', 'queries')} held no preference.")
    print(f"Saved as {command.output}.")
