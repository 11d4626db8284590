"""Write a fitted ranker for another engine, and check what was written against `predict`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_choice, check_finite
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.export.onnx_graph import Precision, import_onnxruntime, run_onnx, write_onnx
from rankwise.export.pmml import score_pmml, write_pmml
from rankwise.export.search_engines import (
    score_elasticsearch,
    score_ranklib,
    score_solr,
    score_vespa,
    write_elasticsearch,
    write_ranklib,
    write_solr,
    write_vespa,
)
from rankwise.io.files import open_write
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.process import ProcessRanker
from rankwise.rankers.scoring_function import ScoringFunction, predicted, scoring_function

ExportFormat: TypeAlias = Literal[
    "onnx", "solr", "elasticsearch", "opensearch", "ranklib", "vespa", "pmml"
]
Writer: TypeAlias = Callable[[ScoringFunction, str, Sequence[str]], str]
Reader: TypeAlias = Callable[[str, Sequence[str], FloatArray], FloatArray]

TEXTS: dict[str, tuple[Writer, Reader]] = {
    "solr": (write_solr, score_solr),
    "elasticsearch": (write_elasticsearch, score_elasticsearch),
    "opensearch": (write_elasticsearch, score_elasticsearch),
    "ranklib": (write_ranklib, score_ranklib),
    "vespa": (write_vespa, score_vespa),
    "pmml": (write_pmml, score_pmml),
}
NAMED = ("solr", "elasticsearch", "opensearch", "vespa")
"""Engines that compute the features themselves, by name."""

SUFFIXES: dict[str, ExportFormat] = {".onnx": "onnx", ".pmml": "pmml"}
N_CHECKED = 200
"""Rows that are made up for the check when none are given."""
TOLERANCE = 1e-3
"""The largest error that is not refused, in standard deviations of the scores."""


@final
@dataclass(frozen=True)
class ExportCheck:
    """Hold where a ranker was written and how far its scores are from those of `predict`.

    Parameters
    ----------
    path : str
        The file.
    format : str
        Its format.
    checked_by : str
        What computed the scores of the file.
    n_rows : int
        Number of rows that were scored both ways.
    max_error : float
        The largest difference of two scores, after a constant is taken off.
    relative_error : float
        The same in standard deviations of the scores.
    variance_error : float or None
        The largest difference of two variances relative to the largest variance, for a process.
    constant : float
        What the file adds to every score; no order depends on it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise import RankRLS, export_ranker
    >>> ranker = RankRLS().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]], [0, 1, 2])
    >>> check = export_ranker(ranker, pathlib.Path(tempfile.mkdtemp()) / "m.txt", format="ranklib")
    >>> check.n_rows, check.relative_error < 1e-6
    (200, True)
    """

    path: str
    format: ExportFormat
    checked_by: str
    n_rows: int
    max_error: float
    relative_error: float
    variance_error: float | None
    constant: float

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.format}",
            f"checked by {self.checked_by} on {self.n_rows} rows",
            f"largest error of a score {self.max_error:.2g} "
            f"({self.relative_error:.2g} standard deviations of the scores)",
        ]
        if self.variance_error is not None:
            lines.append(f"largest relative error of a variance {self.variance_error:.2g}")
        if abs(self.constant) > self.max_error:
            lines.append(f"every score has {self.constant:+.4g} added, which changes no order")
        return "\n".join(lines)


def export_ranker(
    ranker: Any,
    path: str | PathLike[str],
    format: ExportFormat | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "rankwise",
    precision: Precision = "double",
    X: ArrayLike | None = None,
) -> ExportCheck:
    """Write a fitted ranker for another engine, and check the file against `predict`.

    ONNX takes every ranker of features or built-in kernels, and the mean and variance of a process;
    PMML takes features and the Gaussian and polynomial kernels; the search engines and RankLib
    take linear rankers. A pipeline of scalers and a ranker is written as one model. What a format
    cannot express is refused, and so is a file whose scores are off by more than a thousandth of
    their standard deviation.

    Parameters
    ----------
    ranker : ranker or Pipeline
        Fitted.
    path : path
        The file, replaced only once the new one is complete and checked.
    format : str, optional
        "onnx", "solr", "elasticsearch", "opensearch", "ranklib", "vespa" or "pmml"; by default
        from the suffix .onnx or .pmml.
    feature_names : sequence of str, optional
        How the engine calls the features; by default the names the ranker was fitted with. Solr,
        Elasticsearch, OpenSearch and Vespa compute the features and must know them by name.
    name : str
        Of the model in its new place.
    precision : {"double", "single"}
        Of an ONNX file; the other formats fix it themselves.
    X : (n_rows, n_features), optional
        Rows to check on; by default 200 drawn about the rows or the scale the ranker knows.

    Returns
    -------
    check : ExportCheck

    Notes
    -----
    ONNX files are run by onnxruntime. The others are read back and scored by the rules of the
    engine's loader and in its precision; no server was run.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from rankwise import Gaussian, RankRLS, export_ranker
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> ranker = RankRLS(kernel=Gaussian(0.5)).fit(X, X[:, 0])
    >>> check = export_ranker(ranker, pathlib.Path(tempfile.mkdtemp()) / "ranker.onnx")
    >>> check.format, check.relative_error < 1e-9
    ('onnx', True)
    """
    chosen = _format_of(path, format)
    check_choice("precision", precision, get_args(Precision))
    function = scoring_function(ranker)
    _refuse_inexpressible(function, chosen)
    names = _feature_names(function, chosen, feature_names)
    rows = _rows_to_check(function, X)
    outputs: dict[str, FloatArray]
    if chosen == "onnx":
        posterior = _posterior(ranker)
        content = write_onnx(function, posterior, name=name, names=names, precision=precision)
        outputs = run_onnx(content, rows)
        checked_by = f"onnxruntime {import_onnxruntime().__version__}"
    else:
        write, read = TEXTS[chosen]
        text = write(function, name, names)
        content, outputs = text.encode(), {"scores": read(text, names, rows)}
        checked_by = "the rules of the format (no server was run)"
    check = _compare(ranker, rows, outputs, fspath(path), chosen, checked_by)
    with open_write(path) as stream:
        stream.write(content)
    return check


def _format_of(path: str | PathLike[str], format: str | None) -> ExportFormat:
    if format is None:
        suffix = Path(path).suffix.lower()
        if suffix not in SUFFIXES:
            raise InvalidInputError(
                f"`format` must be given, as the suffix {suffix!r} does not say it: choose one of "
                f"{', '.join(get_args(ExportFormat))}."
            )
        return SUFFIXES[suffix]
    check_choice("format", format, get_args(ExportFormat))
    return format  # type: ignore[return-value]


def _refuse_inexpressible(function: ScoringFunction, format: ExportFormat) -> None:
    """Refuse what a format has no words for."""
    if format == "onnx":
        return
    if function.weights.ndim > 1:
        raise InvalidInputError(
            f"A model for {format} must have one output: this ranker has "
            f"{function.weights.shape[1]}. Fit one ranker per output, or export to ONNX."
        )
    if format != "pmml" and function.kernel is not None:
        raise InvalidInputError(
            f"A model for {format} must be linear in the features: this ranker has the kernel "
            f"{function.kernel!r}. Fit with kernel='linear', or export to ONNX."
        )


def _feature_names(
    function: ScoringFunction, format: ExportFormat, given: Sequence[str] | None
) -> list[str]:
    names = function.names if given is None else tuple(map(str, given))
    if names is None:
        if format in NAMED:
            raise InvalidInputError(
                f"`feature_names` must be given for {format}, which computes the features by name: "
                "this ranker was fitted without names. Give one for each column of `X`."
            )
        return [f"x{at}" for at in range(1, function.n_features + 1)]
    if len(names) != function.n_features or len(set(names)) != len(names):
        raise InvalidInputError(
            f"`feature_names` must hold {function.n_features} different names, one for each "
            f"column of `X`: got {len(names)}, {len(set(names))} of them different."
        )
    return list(names)


def _rows_to_check(function: ScoringFunction, X: ArrayLike | None) -> FloatArray:
    if X is None:
        rng = np.random.default_rng(0)
        Z = rng.normal(size=(N_CHECKED, function.n_features))
        if function.rows is not None:
            chosen = rng.integers(len(function.rows), size=N_CHECKED)
            Z[: N_CHECKED // 2] *= 0.1
            Z = function.rows[chosen] + Z * np.std(function.rows, axis=0)
        return Z * function.scale + function.shift
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != function.n_features or len(rows) == 0:
        raise InvalidInputError(
            f"`X` must hold rows of {function.n_features} features to check the file on: got shape "
            f"{rows.shape}."
        )
    check_finite("X", rows)
    return rows


def _compare(
    ranker: Any,
    rows: FloatArray,
    outputs: dict[str, FloatArray],
    path: str,
    format: ExportFormat,
    checked_by: str,
) -> ExportCheck:
    """Return how far the outputs are from what the ranker predicts; refuse large errors."""
    expected, variance_error = predicted(ranker, rows), None
    if "variance" in outputs:
        expected, deviation = predicted(ranker, rows, return_std=True)
        wrong = np.max(np.abs(outputs["variance"] - deviation**2))
        variance_error = float(wrong / np.max(deviation**2))
    difference = outputs["scores"] - expected
    constant = float(np.median(difference))
    max_error = float(np.max(np.abs(difference - constant)))
    spread = float(np.std(expected, axis=0).max())
    relative = max_error / spread if spread > 0.0 else max_error
    worst = max(relative, variance_error or 0.0)
    if not worst <= TOLERANCE:
        raise NumericalError(
            f"The file must give the scores of `predict`: as {format} they are off by up to "
            f"{worst:.2g} of their spread, since the format rounds to single precision or the "
            "kernel is nearly singular. Scale the features in a pipeline, use precision='double' "
            "for ONNX, or regularise more."
        )
    return ExportCheck(
        path, format, checked_by, len(rows), max_error, relative, variance_error, constant
    )


@singledispatch
def _posterior(ranker: Any) -> Posterior | None:  # noqa: ARG001
    """Return the posterior of a process, None for other rankers."""
    return None


@_posterior.register
def _posterior_of_process(ranker: ProcessRanker) -> Posterior:
    return ranker.posterior_


@_posterior.register
def _posterior_of_pipeline(ranker: Pipeline) -> Posterior | None:
    return _posterior(ranker.steps[-1][1])
