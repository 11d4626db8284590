"""What all fits share: reading, judging on a validation file, saving, reporting."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.apps.cli.fit_commands import FitCommand, PairsCommand
from rankwise.apps.cli.jobs.files import (
    check_target,
    given_scores,
    is_table,
    named,
    print_columns,
    read_data,
    read_preferences,
    read_validation,
    remember_columns,
    usual_item,
)
from rankwise.apps.cli.jobs.parameters import refuse_alone, refuse_if, values_of
from rankwise.apps.cli.output import counted, duration, print_json, print_table
from rankwise.core.arrays import FloatArray
from rankwise.core.display import decimals, listed
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.core.queries import Queries
from rankwise.io.data import RankingData
from rankwise.io.tables.table import CellError
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.base import PointRanker, RankerPath
from rankwise.selection.holdouts import HeldOut
from rankwise.selection.path import SelectionPath, as_measure, judge_scores

LEFT_OUT = "by leaving out each {} in turn"
"""How exact hold-outs judge."""

ROUNDING = 1e-12
"""Values of a measure that differ by less are equal."""

MOST_ROWS = 32
"""Rows of a printed table of values; of a longer grid it shows evenly spaced ones."""


OF_RUN = {"progress": False, "checkpoint": None}
"""Parameters that are not saved, and their values in a saved ranker."""


@final
@dataclass(frozen=True, eq=False)
class FitInput:
    """Training and validation data, as keyword arguments of ``fit``.

    Parameters
    ----------
    data
        The rows of the training file.
    preferences
        Scores and queries of these rows, or comparisons of them.
    validation
        Rows, scores and queries of the validation file; empty without one.
    """

    data: RankingData
    preferences: dict[str, Any]
    validation: dict[str, Any]

    @classmethod
    def read(
        cls, command: FitCommand, pairs: Path | None = None, *, takes_raw: bool = False
    ) -> Self:
        """Read the training file, and the comparisons and the validation file if given.

        Parameters
        ----------
        command
            The files and their columns.
        pairs
            A file of comparisons.
        takes_raw
            Whether text and blanks are taken as they are.
        """
        check_target(command.output, *command.train, pairs, command.validate)
        # rows, then what is learned from: scores, or comparisons of a second file
        data = _read_training_items(command, takes_raw=takes_raw, find_items=pairs is not None)
        if data.n_items < 2 or data.n_features < 1:
            raise InvalidInputError(
                f"{named(command.train)} must hold at least 2 items and 1 feature: it has "
                f"{counted(data.n_items, 'item', 'items')} and "
                f"{counted(data.n_features, 'feature', 'features')}."
            )
        if pairs is None:
            preferences = {"y": given_scores(command.train, data), "qid": data.qid}
        else:
            keep_ties = command.parameters.get("ties") == "keep"
            codes = getattr(command, "codes", None)
            preferences = read_preferences(pairs, data.items, keep_ties=keep_ties, codes=codes)
            if command.layout.qid is not None:
                preferences["qid"] = data.qid
        # validation rows with the same columns
        names = None if data.feature_names is None else tuple(data.feature_names)
        layout = replace(command.layout, zero_based=data.zero_based)
        validation = read_validation(command.validate, layout, data.n_features, names)
        if not command.json:
            print_columns(command.train, command.layout, data)
        return cls(data, preferences, validation)

    @property
    def is_raw(self) -> bool:
        """Whether the training data hold text or blanks."""
        X = self.data.X
        dense = isinstance(X, np.ndarray)
        return dense and (X.dtype == object or bool(np.isnan(X).any()))

    @property
    def has_qid(self) -> bool:
        """Whether the training data name queries."""
        return self.preferences.get("qid") is not None

    @property
    def leaves_queries_out(self) -> bool:
        """Whether the training data name queries that are ignored in favour of comparisons."""
        return self.has_pairs and self.data.qid is not None and not self.has_qid

    @property
    def has_pairs(self) -> bool:
        """Whether comparisons are learned from, not scores."""
        return "pairs" in self.preferences


def _read_training_items(command: FitCommand, *, takes_raw: bool, find_items: bool) -> RankingData:
    """Read the training file; if it holds text or blanks, name the command that accepts them."""
    if takes_raw:
        categories = ["auto", *command.layout.categories]
        return read_data(command.train, command.layout, categories=categories)
    try:
        layout = command.layout
        if find_items and is_table(command.train):
            layout = replace(layout, item=layout.item or usual_item(command.train))
        return read_data(command.train, layout, find_items=find_items)
    except DataFileError as error:
        if not isinstance(error.__cause__ or error, CellError):
            raise
        raise DataFileError(
            f"{error} rankwise fit {named(command.train)} (without the name of a ranker) accepts "
            "text and blanks."
        ) from error


@final
@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted ranker, and how its parameter was chosen.

    Parameters
    ----------
    ranker
        The ranker to save.
    parameter, value
        Name and value of the parameter that regularises it.
    selection
        The held-out values of the measure, if anything was held out.
    judged
        How they were found, as text that follows the word "judged".
    """

    ranker: Any
    parameter: str
    value: float
    selection: SelectionPath | None = None
    judged: str = ""

    @property
    def chosen(self) -> PointRanker:
        """The ranker itself, behind the steps that make numbers of what it is given."""
        steps = vars(self.ranker).get("steps_")
        chosen: PointRanker = self.ranker if steps is None else steps[-1]
        return chosen


def fit_and_save(command: FitCommand, problem: FitInput | None, fit: Callable[[], Fitted]) -> None:
    """Fit, save the ranker and print what was done.

    Parameters
    ----------
    command
        The files.
    problem
        The training data; None if ``fit`` reads the training file itself, in parts.
    fit
        Fits and chooses.
    """
    start = time.perf_counter()
    fitted = fit()
    seconds = time.perf_counter() - start
    # progress and checkpoints are of this run, and not of the model
    known = fitted.chosen.get_params()
    of_run = {name: value for name, value in OF_RUN.items() if name in known}
    fitted.chosen.set_params(**of_run)
    if problem is not None:
        remember_columns(fitted.ranker, problem.data)
        if (group := getattr(command, "group", None)) is not None:
            fitted.ranker.table_columns_["group"] = [group]
    fitted.ranker.save(command.output)
    report = fitted, _details(fitted.chosen), _sizes(fitted.ranker, problem), seconds
    if command.json:
        print_json({"model": str(command.output), **_summary(*report)})
    else:
        _print_report(*report)
        if problem is not None and problem.leaves_queries_out:
            print("The query ids were not used: comparisons (--pairs) say what is compared.")
        print(f"Saved as {command.output}.")


def refuse_beside_pairs(command: PairsCommand) -> None:
    """Refuse options about scores together with comparisons, and codes without them."""
    refuse_alone(command, ["codes"], "pairs")
    refuse_if(
        command.pairs is not None and "query_weight" in command.parameters and command.qid is None,
        "--query-weight must not come with --pairs: it is about items with scores. Leave one of "
        "them out.",
    )


def measure_of(command: FitCommand, *, chooses: bool) -> Measure | None:
    """Return the requested measure; refuse it if there is nothing to measure."""
    if command.measure is None:
        return None
    refuse_if(
        not chooses and command.validate is None,
        "--measure must come with --validate, or with several values to choose from: there is "
        "nothing to measure. Add one of them, or leave it out.",
    )
    return parse_measure(command.measure)


# Judging


def judge(
    parameter: str,
    grid: NDArray[Any],
    scores: FloatArray,
    y: ArrayLike,
    qid: ArrayLike | None,
    measure: Measure | None,
) -> SelectionPath:
    """Measure the scores of every value of a parameter, (n_values, n_items), on other data."""
    truth = np.asarray(y, dtype=float)
    queries = Queries.of(qid, len(truth))
    # ties equal up to rounding are one tie
    held_out = HeldOut(scores[:, :, None], np.zeros(len(grid))).tied(queries.index)
    path = judge_scores(
        held_out,
        truth[:, None],
        queries,
        np.arange(len(truth)),
        as_measure(measure),
        grid,
        parameter,
        "largest" if parameter == "alpha" else "smallest",
    )
    path.best()  # refuses data that define the measure nowhere
    return path


def best_of(
    command: FitCommand, path: RankerPath, problem: FitInput, measure: Measure | None
) -> Fitted:
    """Return the ranker of a path that does best on the validation file."""
    rule = command.parameters.get("rule", "best")
    given = problem.validation
    scores = path.predict(given["X_val"])
    selection = judge(path.parameter, path.grid, scores, given["y_val"], given["qid_val"], measure)
    best = selection.best(rule)
    value = float(selection.grid[best])
    return Fitted(path[best], path.parameter, value, selection, on_file(command))


def measured(
    command: FitCommand,
    ranker: PointRanker,
    parameter: str,
    problem: FitInput,
    measure: Measure | None,
) -> Fitted:
    """Return a single ranker, measured on the validation file if there is one."""
    given = problem.validation
    value = getattr(ranker, f"{parameter}_", None) or getattr(ranker, parameter)
    if not given:
        return Fitted(ranker, parameter, value)
    scores = ranker.predict(given["X_val"])[None]
    grid = np.array([value])
    selection = judge(parameter, grid, scores, given["y_val"], given["qid_val"], measure)
    return Fitted(ranker, parameter, value, selection, on_file(command))


def fit_or_choose(
    command: FitCommand,
    problem: FitInput,
    single: type[Any],
    search: type[Any],
    grid: str,
    parameter: str,
    measure: Measure | None,
    judges: dict[str, Any] | None = None,
) -> Fitted:
    """Fit a ranker or, with a grid, its search: the validation file decides, or folds do.

    ``judges`` are validation comparisons, as keyword arguments of ``fit``.
    """
    X, preferences, texts = problem.data.X, problem.preferences, command.parameters
    if grid not in texts:
        ranker = single(**values_of(single, texts)).fit(X, **preferences)
        return measured(command, ranker, parameter, problem, measure)
    ranker = search(measure=measure, **values_of(search, texts))
    ranker.fit(X, **preferences, **problem.validation, **(judges or {}))
    if problem.validation or judges:
        judged = on_file(command)
    elif problem.has_qid and ranker.cv == "auto":
        judged = LEFT_OUT.format("query")
    else:
        unit = "queries" if problem.has_qid else "comparisons" if problem.has_pairs else "items"
        judged = f"by five folds of {unit}"
    return Fitted(ranker, parameter, getattr(ranker, f"{parameter}_"), ranker.path_, judged)


def on_file(command: FitCommand) -> str:
    """Say that a file has decided."""
    return f"on {command.validate or getattr(command, 'pairs_val', None)}"


# Reporting


def _details(ranker: Any) -> dict[str, Any]:
    """Return what a ranker says of its kernel, its iterations and its gap, if it has them."""
    known = vars(ranker)
    found: dict[str, Any] = {}
    if "kernel_" in known:
        found["kernel"] = repr(known["kernel_"])
    if "solution_" in known:
        found |= {"n_iter": ranker.n_iter_, "gap": ranker.solution_.gap}
    if "features_" in known:
        unnamed = [f"x{at}" for at in range(1, ranker.n_features_in_ + 1)]
        names = known.get("feature_names_in_", unnamed)
        found["features"] = [str(names[at]) for at in known["features_"]]
    if "best_iter_" in known:
        found |= {"n_iter": ranker.n_iter_, "best_iter": ranker.best_iter_}
    return found


def _sizes(ranker: Any, problem: FitInput | None) -> dict[str, int | None]:
    """Return the sizes of the training data; None if one does not apply or was not counted."""
    has_pairs = problem is not None and problem.has_pairs
    return {
        "n_items": None if problem is None else problem.data.n_items,
        "n_features": ranker.n_features_in_,
        "n_queries": None if has_pairs else ranker.n_queries_,
        "n_pairs": len(problem.preferences["pairs"]) if has_pairs and problem else None,
    }


def _summary(
    fitted: Fitted, details: dict[str, Any], sizes: dict[str, int | None], seconds: float
) -> dict[str, Any]:
    """Return what was done as a value for JSON."""
    found = {
        "ranker": type(fitted.chosen).__name__,
        fitted.parameter: fitted.value,
        **details,
        **sizes,
        "n_ignored_queries": fitted.chosen.n_ignored_queries_,
        "seconds": seconds,
    }
    path = fitted.selection
    if path is None:
        return {**found, "selection": None}
    selection = {
        "parameter": path.parameter,
        "grid": path.grid.tolist(),
        "measure": repr(path.measure),
        "values": [None if np.isnan(v) else v for v in path.values.tolist()],
        "judged": fitted.judged,
    }
    return {**found, "selection": selection}


def _print_report(
    fitted: Fitted, details: dict[str, Any], sizes: dict[str, int | None], seconds: float
) -> None:
    """Print what was done."""
    if fitted.selection is not None:
        _print_selection(fitted.selection, fitted)
    kernel = f", kernel={details['kernel']}" if "kernel" in details else ""
    print(
        f"Trained {type(fitted.chosen).__name__}({fitted.parameter}={fitted.value:g}{kernel}) "
        f"on {_sizes_text(sizes)} in {duration(seconds)}."
    )
    passes = counted(details.get("n_iter", 0), "iteration", "iterations")
    if "features" in details:
        print(f"The features, in the order of their choice: {listed(details['features'])}.")
    if "gap" in details:
        print(f"The duality gap is {details['gap']:.1e} after {passes}.")
    if "best_iter" in details:
        print(f"The model is that of iteration {details['best_iter']}, after {passes} in all.")
    n_ignored = fitted.chosen.n_ignored_queries_
    if n_ignored > 0:
        print(f"{counted(n_ignored, 'query', 'queries')} held no preference.")


def _print_selection(selection: SelectionPath, fitted: Fitted) -> None:
    """Print the values of a measure along the grid, and how they were found."""
    grid, name = selection.grid, selection.parameter
    chosen = int(np.argmax(grid == fitted.value))
    step = -(-len(grid) // MOST_ROWS)
    rows = [
        [f"{grid[at]:g}", decimals(selection.values[at]), "chosen" if at == chosen else ""]
        for at in sorted({chosen, *range(0, len(grid), step)})
    ]
    print_table([name, repr(selection.measure), ""], rows)
    print(f"Judged {fitted.judged}.")
    if name == "n_features":  # their number was given, not chosen
        return
    order = np.argsort(grid).tolist()
    next_to_end = {order[0]: order[1:2], order[-1]: order[-2:-1]}.get(chosen, [])
    if any(abs(selection.values[chosen] - selection.values[at]) > ROUNDING for at in next_to_end):
        print(f"The chosen {name} is at an end of the grid: a wider grid may have a better one.")


def _sizes_text(sizes: dict[str, int | None]) -> str:
    words = {
        "n_items": ("item", "items"),
        "n_features": ("feature", "features"),
        "n_queries": ("query", "queries"),
        "n_pairs": ("comparison", "comparisons"),
    }
    counts = [(sizes[name], noun) for name, noun in words.items()]
    return ", ".join(counted(n, *noun) for n, noun in counts if n is not None)
