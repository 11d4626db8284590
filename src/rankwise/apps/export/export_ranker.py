"""Write a fitted ranker for another engine, and check what was written against `predict`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rankwise.apps.export.engines import TEXT_FORMATS
from rankwise.apps.export.onnx_graph import (
    OnnxPrecision,
    import_onnxruntime,
    input_columns,
    run_onnx,
    run_pairs_onnx,
    write_onnx,
    write_pairs_onnx,
)
from rankwise.apps.export.onnx_steps import (
    example_queries,
    first_steps,
    text_columns,
    write_steps_onnx,
)
from rankwise.apps.export.trees import (
    TREE_FORMATS,
    added_up,
    lightgbm_text,
    run_lightgbm,
    run_xgboost,
    trees_of,
)
from rankwise.comparisons.gp.inference.posterior import Posterior
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.core.arrays import FloatArray, dense_rows, raw_rows
from rankwise.core.checks import check_finite
from rankwise.core.display import listed
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.params import check_value
from rankwise.core.queries import Queries
from rankwise.io.files import open_write
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.scoring_function import ScoringFunction, predicted, scoring_function
from rankwise.rankers.trees.boosted_ranker import BoostedRanker

ExportFormat: TypeAlias = Literal[
    "onnx", "solr", "elasticsearch", "opensearch", "ranklib", "vespa", "pmml", "xgboost", "lightgbm"
]
SUFFIXES: dict[str, ExportFormat] = {".onnx": "onnx", ".pmml": "pmml"}
ARITHMETIC = "the arithmetic of the engine (no server was run)"
N_CHECKED, N_OBJECTS = 200, 20
"""Rows generated for the check when none are given; for pairs of objects, of each kind."""
FAR = 1e25
"""Features of the rows that are far from all others: their squares overflow in single precision."""
LARGEST_SINGLE = 1e37
"""Larger scores are not checked in single precision."""
TOLERANCE = 1e-3
"""The largest error that is not refused, in standard deviations of the scores."""


@final
@dataclass(frozen=True)
class ExportCheck:
    """Hold where a ranker was written, and how far its scores are from `predict`.

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
        The largest difference of two scores, up to a common constant.
    relative_error : float
        The same in standard deviations of the scores.
    variance_error : float or None
        For a `PreferenceGP`, the largest difference of two variances, as a share of the largest
        variance.
    constant : float
        The constant that the file adds to every score; it changes no order.
    inputs : dict of tuples
        The columns of each input of an ONNX file, in order; empty for other formats.

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
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)

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
        for name, columns in self.inputs.items():
            lines.append(f"input {name}: {listed(columns)}")
        return "\n".join(lines)


def export_ranker(
    ranker: Any,
    path: str | PathLike[str],
    format: ExportFormat | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "rankwise",
    precision: OnnxPrecision = "double",
    X: Any = None,
    qid: ArrayLike | None = None,
) -> ExportCheck:
    """Write a fitted ranker for another engine, and check the file against `predict`.

    ONNX supports linear rankers, all built-in kernels, and the mean and variance of a
    `PreferenceGP`. PMML supports linear rankers and the Gaussian and polynomial kernels. The search
    engines and RankLib support linear rankers and the trees of a `BoostedRanker`, which XGBoost and
    LightGBM read too. A pipeline of scalers and a ranker is written as one model. Rankers that a
    format cannot express are refused, as is a file whose scores are off by more than a thousandth
    of their standard deviation.

    `RankerPipeline`, `SearchRanker` and `AutoRanker` become one ONNX graph: steps inside queries,
    kernels, trees and sums. The file takes one query at a time, since the rows of its input are
    compared with each other; it is checked query by query. Features that hold text are a separate
    input, ``categories``. `ConditionalRankRLS` becomes ONNX with the inputs ``conditions`` and
    ``items``, whose scores are a matrix.

    Parameters
    ----------
    ranker : ranker or Pipeline
        A fitted ranker.
    path : path
        The file; it is replaced only once the new one is complete and checked.
    format : str, optional
        "onnx", "solr", "elasticsearch", "opensearch", "ranklib", "vespa", "pmml", "xgboost" or
        "lightgbm"; by default from the suffix .onnx or .pmml. The last two take trees only.
    feature_names : sequence of str, optional
        The names of the features in the engine; by default the names the ranker was fitted with.
        Solr, Elasticsearch, OpenSearch and Vespa compute the features and need their names.
    name : str
        The name of the model in the engine.
    precision : {"double", "single"}
        The precision of an ONNX file; the other formats have a fixed one.
    X : (n_rows, n_features), optional
        Rows to check on; by default 200 rows of what `predict` accepts: rows like the stored ones,
        zeros, far rows; for rankers of several steps also blanks where they are
        allowed, new categories, and queries of one item.
    qid : (n_rows,), optional
        The queries of these rows, for rankers that compare the items of a query.

    Returns
    -------
    check : ExportCheck

    Notes
    -----
    ONNX files are run by onnxruntime, and files for XGBoost and LightGBM by these. For the others
    the formula is computed in the arithmetic of the engine; no server is run. Trees are written
    for rows in single precision: a value that single precision cannot tell from a threshold may go
    another way than in `predict`.

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
    check_value("precision", precision, OnnxPrecision)
    # pairs of objects, and rankers of several steps, have graphs of their own
    if _ranker_of_pairs(ranker) is not None:
        return _export_pairs(ranker, path, chosen, name, precision)
    trees = _trees_alone(ranker)
    if trees is not None and (chosen in TREE_FORMATS or chosen == "lightgbm"):
        return _export_trees(trees, path, chosen, feature_names, name, X)
    if chosen in ("xgboost", "lightgbm"):
        raise InvalidInputError(
            f"A model for {chosen} must be a sum of trees: got a {type(ranker).__name__}. Fit a "
            "BoostedRanker, or export to ONNX."
        )
    if first_steps(ranker) is not None:
        return _export_steps(ranker, path, chosen, feature_names, name, precision, X, qid)
    function = scoring_function(ranker)
    _refuse_inexpressible(function, chosen)
    names = _feature_names(function, chosen, feature_names)
    # write the file, and what scores rows by it
    run: Callable[[FloatArray], dict[str, FloatArray]]
    if chosen == "onnx":
        posterior = _posterior(ranker)
        content = write_onnx(function, posterior, name=name, names=names, precision=precision)
        run, checked_by = partial(run_onnx, content), _onnxruntime()
    else:
        text = TEXT_FORMATS[chosen]
        content = text.write(function, name, names).encode()
        run, checked_by = (lambda rows: {"scores": text.score(function, rows)}), ARITHMETIC
    # compare with `predict` on the given rows, or on generated ones near and far
    is_single = precision == "single" if chosen == "onnx" else TEXT_FORMATS[chosen].is_single
    target = _Target(fspath(path), chosen, is_single, checked_by)
    if X is not None:
        return _written(_compare(ranker, function, _given_rows(function, X), run, target), content)
    far = _compare(ranker, function, _far_rows(function), run, target)
    check = _compare(ranker, function, _rows_to_check(function), run, target)
    return _written(replace(check, n_rows=check.n_rows + far.n_rows), content)


def _onnxruntime() -> str:
    return f"onnxruntime {import_onnxruntime().__version__}"


def _export_steps(
    ranker: Any,
    path: str | PathLike[str],
    format: ExportFormat,
    feature_names: Sequence[str] | None,
    name: str,
    precision: OnnxPrecision,
    X: Any,
    qid: ArrayLike | None,
) -> ExportCheck:
    """Write a ranker of several steps as ONNX, and check it query by query."""
    check_is_fitted(ranker)
    if format != "onnx":
        raise InvalidInputError(
            f"A model for {format} must be one formula of the features of an item: a "
            f"{type(ranker).__name__} {_why_several(ranker)}. Export it to ONNX, or fit what the "
            "engine can run: rankwise fit --for NAME; or in Python a BoostedRanker on the features "
            "as they are, or RankRLS after StandardScaler in a Pipeline."
        )
    known = getattr(ranker, "feature_names_in_", None)
    n_features = ranker.n_features_in_
    names = _checked_names(known if feature_names is None else feature_names, n_features)
    content = write_steps_onnx(ranker, name=name, names=names, precision=precision)
    # queries to check on, rounded where the file takes single precision
    rows, ids = example_queries(ranker, N_CHECKED)
    text, is_single = text_columns(ranker), precision == "single"
    if X is not None:
        rows, ids = raw_rows(X), np.zeros(len(X), int) if qid is None else np.asarray(qid)
    elif is_single:
        rows = _rounded_to_single(rows, text)
    queries = Queries.of(ids, len(rows))
    # onnxruntime scores a query at a time, `predict` all of them
    order = np.argsort(queries.index, kind="stable")
    outputs = run_onnx(content, *(rows[members] for members in queries), text=text)
    expected = predicted(ranker, rows[order], queries.index[order])
    target = _Target(fspath(path), format, is_single, f"{_onnxruntime()}, query by query")
    return _written(_checked(expected, outputs, None, target), content)


@singledispatch
def _trees_alone(ranker: Any) -> BoostedRanker | None:  # noqa: ARG001
    """Return a ranker whose score is a sum of trees on the features as given; None for others."""
    return None


@_trees_alone.register
def _is_boosted(ranker: BoostedRanker) -> BoostedRanker:
    return ranker


@_trees_alone.register
def _of_pipeline(ranker: RankerPipeline) -> BoostedRanker | None:
    fitted: list[Any] = getattr(ranker, "steps_", [])
    return _trees_alone(fitted[0]) if len(fitted) == 1 else None


def _export_trees(
    ranker: BoostedRanker,
    path: str | PathLike[str],
    format: ExportFormat,
    feature_names: Sequence[str] | None,
    name: str,
    X: Any,
) -> ExportCheck:
    """Write a sum of trees, and check it on rows as the engine holds them."""
    check_is_fitted(ranker)
    known = getattr(ranker, "feature_names_in_", None) if feature_names is None else feature_names
    if known is None and format in TREE_FORMATS and TREE_FORMATS[format].has_names:
        raise _names_needed(format)
    names = _checked_names(known, ranker.n_features_in_)
    rows = example_queries(ranker, N_CHECKED)[0] if X is None else raw_rows(X)
    # rows as the engine holds them: in single precision, and most of them without blanks
    if format != "lightgbm":
        rows = np.clip(_rounded_to_single(rows, []), -LARGEST_SINGLE, LARGEST_SINGLE)
    if format not in ("lightgbm", "xgboost"):
        rows = np.where(np.isnan(rows), 0.0, rows)
    expected, checked_by = predicted(ranker, rows), ARITHMETIC
    if format == "lightgbm":
        content = lightgbm_text(ranker, names).encode()
        scores, checked_by = run_lightgbm(content, rows), "LightGBM"
    else:
        trees, text = trees_of(ranker), TREE_FORMATS[format]
        content = text.write(trees, name, names).encode()
        # Solr moves thresholds by a millionth: rows with values that close to one are left out
        scores = added_up(text.read(trees), rows)
        kept = scores == added_up(trees, rows)
        rows, scores, expected = rows[kept], scores[kept], expected[kept]
        if format == "xgboost" and find_spec("xgboost") is not None:
            scores, checked_by = run_xgboost(content, rows), "XGBoost"
        elif format != "xgboost":
            checked_by = f"{ARITHMETIC}, for {text.engine}"
    target = _Target(fspath(path), format, format != "lightgbm", checked_by)
    return _written(_checked(expected, {"scores": scores}, None, target), content)


def _names_needed(format: ExportFormat) -> InvalidInputError:
    return InvalidInputError(
        f"`feature_names` must be given for {format}, which computes the features by name: this "
        "ranker was fitted without names. Give a name for each column of `X`."
    )


@singledispatch
def _why_several(ranker: Any) -> str:
    """Say why a ranker of several steps is not one formula of the features."""
    return "compares the items of a query" if ranker.compares_items_ else "has several steps"


@_why_several.register
def _trees(ranker: BoostedRanker) -> str:  # noqa: ARG001
    return "is a sum of trees"


def _rounded_to_single(rows: NDArray[Any], text: Sequence[int]) -> NDArray[Any]:
    """Round the features that are numbers to single precision, the largest ones to its largest."""
    numbers = np.setdiff1d(np.arange(rows.shape[1]), text)
    largest = float(np.finfo(np.float32).max)
    rounded = rows.copy()
    kept = np.clip(rows[:, numbers].astype(float), -largest, largest)
    rounded[:, numbers] = kept.astype(np.float32).astype(float)
    return rounded


@singledispatch
def _ranker_of_pairs(ranker: Any) -> ConditionalRanker | None:  # noqa: ARG001
    """Return a ranker of pairs of objects, None for other rankers."""
    return None


@_ranker_of_pairs.register
def _is_conditional(ranker: ConditionalRanker) -> ConditionalRanker:
    return ranker


def _export_pairs(
    ranker: ConditionalRanker,
    path: str | PathLike[str],
    format: ExportFormat,
    name: str,
    precision: OnnxPrecision,
) -> ExportCheck:
    """Write a ranker of pairs of objects as ONNX with two inputs, and check it on drawn objects."""
    check_is_fitted(ranker)
    if format != "onnx":
        raise InvalidInputError(
            f"A model for {format} must be one formula of the features of an item: a "
            f"{type(ranker).__name__} also has features of conditions. Export it to ONNX, which "
            "takes both."
        )
    if (ranker.condition_encoder_ or ranker.item_encoder_) is not None:
        raise InvalidInputError(
            "A ranker of pairs of objects must have learned from numbers to become ONNX: this one "
            "reads text or blanks. Apply an IndicatorEncoder before the fit, and give its numbers "
            "to the exported model; or serve this one with rankwise."
        )
    first, second = ranker.condition_predictor_, ranker.item_predictor_
    content = write_pairs_onnx(first, second, ranker.dual_coef_, name=name, precision=precision)
    # objects around stored ones, stored ones, and zeros
    rng = np.random.default_rng(0)
    objects = []
    for rows in (dense_rows(first.rows), dense_rows(second.rows)):
        stored = rows[rng.integers(len(rows), size=N_OBJECTS)]
        drawn = stored + rng.normal(size=stored.shape) * rows.std(axis=0)
        objects.append(np.concatenate([drawn, stored[:5], 0.0 * stored[:1]]))
    target = _Target(fspath(path), format, precision == "single", _onnxruntime())
    # all pairs at once, and a single pair
    alone = [rows[:1] for rows in objects]
    scores, expected = (
        np.concatenate([one(*given).ravel() for given in (objects, alone)])
        for one in (partial(run_pairs_onnx, content), ranker.predict)
    )
    return _written(_checked(expected, {"scores": scores}, None, target), content)


def _format_of(path: str | PathLike[str], format: str | None) -> ExportFormat:
    if format is None:
        suffix = Path(path).suffix.lower()
        if suffix not in SUFFIXES:
            raise InvalidInputError(
                f"`format` must be given, since the suffix {suffix!r} names none: choose from "
                f"{', '.join(get_args(ExportFormat))}."
            )
        return SUFFIXES[suffix]
    check_value("format", format, ExportFormat)
    return format  # type: ignore[return-value]


def _refuse_inexpressible(function: ScoringFunction, format: ExportFormat) -> None:
    """Refuse rankers that a format cannot express."""
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
    if names is None and format != "onnx" and TEXT_FORMATS[format].has_names:
        raise _names_needed(format)
    return _checked_names(names, function.n_features)


def _checked_names(names: Any, n_features: int) -> list[str]:
    """Return a name for each feature: x1, x2, ... by default."""
    if names is None:
        return [f"x{at}" for at in range(1, n_features + 1)]
    if len(names) != n_features or len(set(names)) != len(names):
        raise InvalidInputError(
            f"`feature_names` must hold {n_features} different names, one for each "
            f"column of `X`: got {len(names)}, {len(set(names))} of them different."
        )
    return [str(name) for name in names]


def _rows_to_check(function: ScoringFunction) -> FloatArray:
    """Generate rows like the stored ones of a ranker; some are stored rows, or have zeros."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(N_CHECKED * 9 // 10, function.n_features))
    if function.rows is not None:
        chosen = function.rows[rng.integers(len(function.rows), size=len(Z))]
        # close to stored rows, further away, and stored rows themselves
        Z[: len(Z) // 2] *= 0.1
        Z = chosen + Z * np.std(function.rows, axis=0)
        Z[::10] = chosen[::10]
    X = function.unscaled(Z)
    X[1::10] *= rng.random(X[1::10].shape) < 0.5
    X[1] = 0.0
    return X


def _far_rows(function: ScoringFunction) -> FloatArray:
    """Generate rows far from all others; not so far that a polynomial kernel overflows."""
    rng = np.random.default_rng(1)
    far = FAR ** (1.0 / getattr(function.kernel, "degree", 1))
    Z = far * rng.normal(size=(N_CHECKED // 10, function.n_features))
    return np.clip(function.unscaled(Z), -far, far)


def _given_rows(function: ScoringFunction, X: ArrayLike) -> FloatArray:
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != function.n_features or len(rows) == 0:
        raise InvalidInputError(
            f"`X` must hold rows of {function.n_features} features to check the file on: got shape "
            f"{rows.shape}."
        )
    check_finite("X", rows)
    return rows


@final
@dataclass(frozen=True)
class _Target:
    """Hold where a file goes, and what computes its scores."""

    path: str
    format: ExportFormat
    is_single: bool
    checked_by: str


def _compare(
    ranker: Any,
    function: ScoringFunction,
    rows: FloatArray,
    run: Callable[[FloatArray], dict[str, FloatArray]],
    target: _Target,
) -> ExportCheck:
    """Return how far the outputs are from what the ranker predicts; refuse large errors."""
    outputs, variance_error = run(rows), None
    # given all items that share their features at once, `predict` distinguishes them: one at a time
    has_shared = function.known is not None and bool(function.known.is_shared.any())
    batches = rows[:, None] if has_shared else [rows]
    if "variance" not in outputs:
        expected = np.concatenate([predicted(ranker, batch) for batch in batches])
    else:
        parts = [predicted(ranker, batch, return_std=True) for batch in batches]
        expected, deviation = (np.concatenate(part) for part in zip(*parts, strict=True))
        wrong = np.max(np.abs(outputs["variance"] - deviation**2))
        variance_error = float(wrong / np.max(deviation**2))
    return _checked(expected, outputs, variance_error, target)


def _written(check: ExportCheck, content: bytes) -> ExportCheck:
    """Write a file that was checked; say which columns it takes where it names them."""
    with open_write(check.path) as stream:
        stream.write(content)
    return replace(check, inputs=input_columns(content)) if check.format == "onnx" else check


def _checked(
    expected: FloatArray,
    outputs: dict[str, FloatArray],
    variance_error: float | None,
    target: _Target,
) -> ExportCheck:
    """Return how far the scores are from the expected ones; refuse large errors."""
    n_rows, scores = len(expected), outputs["scores"]
    if target.is_single:  # larger scores are infinite in single precision
        fits = (np.abs(expected) < LARGEST_SINGLE).reshape(n_rows, -1).all(axis=1)
        expected, scores = expected[fits], scores[fits]
    # errors up to a common constant, in standard deviations of the scores
    difference = scores - expected
    constant = float(np.median(difference)) if len(expected) else 0.0
    errors = np.abs(difference - constant)
    max_error = float(np.max(errors, initial=0.0))
    spread = float(np.std(expected, axis=0).max()) if len(expected) else 0.0
    relative = max_error / spread if spread > 0.0 else max_error
    worst = max(relative, variance_error or 0.0)
    if not worst <= TOLERANCE:
        n_wrong = int(np.sum(~(errors <= TOLERANCE * (spread or 1.0))))
        raise NumericalError(
            f"The file must give the scores of `predict`: as {target.format} they are off by up to "
            f"{worst:.2g} of their spread, in {n_wrong} of {n_rows} rows. {_remedy(target)}"
        )
    details = (n_rows, max_error, relative, variance_error, constant)
    return ExportCheck(target.path, target.format, target.checked_by, *details)


def _remedy(target: _Target) -> str:
    """Say what can make a file differ from `predict`, and what to do."""
    if not target.is_single:
        return (
            "Only a nearly singular kernel has such errors in double precision: regularise more. "
            "If that does not help, please report it as a defect."
        )
    other = ", or use precision='double'" if target.format == "onnx" else ", or export to ONNX"
    return (
        "It takes features in single precision, which cannot distinguish values that "
        f"`predict` can. Scale the features in a pipeline{other}."
    )


@singledispatch
def _posterior(ranker: Any) -> Posterior | None:  # noqa: ARG001
    """Return the posterior of a process, None for other rankers."""
    return None


@_posterior.register
def _posterior_of_process(ranker: PreferenceGP) -> Posterior | None:
    return None if ranker.drift_ is not None else ranker.posterior_  # a row has no date


@_posterior.register
def _posterior_of_pipeline(ranker: Pipeline) -> Posterior | None:
    return _posterior(ranker.steps[-1][1])
