"""The formula of a fitted ranker: scaled features, a kernel, weights."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, final

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, dense_rows
from rankwise.core.errors import InvalidInputError
from rankwise.features.kernels import Kernel
from rankwise.features.known_rows import KnownRows
from rankwise.rankers.base import PointRanker, Ranker


@final
@dataclass(frozen=True, eq=False)
class ScoringFunction:
    """Hold the formula behind `predict`: ``k((x - shift) / scale, rows) @ weights``.

    Without a kernel the formula is ``(x - shift) / scale @ weights``.

    Parameters
    ----------
    shift, scale : (n_features,)
        The scaling that is applied first; 0 and 1 without a scaler.
    weights : (n_features,), (n_rows,), or with a second axis for several outputs
        The weights of the scaled features, or of the kernel functions of ``rows``.
    kernel : Kernel or None
        None for a function that is linear in the features.
    rows : (n_rows, n_features) or None
        Scaled rows whose kernel functions are summed.
    names : tuple of str, or None
        The names of the features, if the ranker was fitted with names.
    known : KnownRows or None
        Scaled rows that take the place of those that equal them but for rounding.
    """

    shift: FloatArray
    scale: FloatArray
    weights: FloatArray
    kernel: Kernel | None
    rows: FloatArray | None
    names: tuple[str, ...] | None
    known: KnownRows | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.shift)

    @property
    def is_scaled(self) -> bool:
        """Whether features are scaled first."""
        return bool((self.shift != 0.0).any() or (self.scale != 1.0).any())

    def scaled(self, X: FloatArray) -> FloatArray:
        """Return rows, or one row, with every feature scaled, and known rows in their place."""
        Z = (X - self.shift) / self.scale if self.is_scaled else X
        if self.known is None:
            return Z
        return self.known.in_place_of(np.atleast_2d(Z)).reshape(Z.shape)

    def unscaled(self, Z: FloatArray) -> FloatArray:
        """Return the rows that become the given ones when every feature is scaled."""
        return Z * self.scale + self.shift

    def scores(self, X: FloatArray) -> FloatArray:
        """Return the scores of dense rows, as `predict` does."""
        Z = self.scaled(X)
        if self.kernel is None or self.rows is None:
            return Z @ self.weights
        return self.kernel(Z, self.rows) @ self.weights


def predicted(ranker: Any, rows: FloatArray, qid: Any = None, **options: Any) -> Any:
    """Return the predictions for rows without column names, whatever the ranker was fitted on.

    Rankers get the queries of the rows; pipelines and searches of scikit-learn do so where metadata
    routing is enabled.
    """
    if not callable(getattr(ranker, "predict", None)):
        raise InvalidInputError(
            f"`ranker` must have a method `predict`, as fitted rankers have: got "
            f"{type(ranker).__name__}."
        )
    if qid is not None and takes_queries(ranker):
        options["qid"] = qid
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return ranker.predict(rows, **options)


def takes_queries(ranker: Any) -> bool:
    """Return whether ``predict`` may be given ``qid``."""
    if isinstance(ranker, Ranker):
        return True
    routed = isinstance(ranker, BaseEstimator) and get_config()["enable_metadata_routing"]
    return bool(routed and get_routing_for_object(ranker).consumes("predict", ["qid"]))


def compares_items(ranker: Any) -> bool:
    """Return whether the score of a row depends on the other rows: a step works inside queries."""
    if isinstance(ranker, Ranker):
        return ranker.compares_items_
    if isinstance(ranker, Pipeline):
        *steps, (_, last) = ranker.steps
        inside = (step for _, step in steps if isinstance(step, BaseEstimator))
        asks = (get_routing_for_object(step).consumes("transform", ["qid"]) for step in inside)
        return any(asks) or compares_items(last)
    # a search of scikit-learn, or a wrapper
    inner = getattr(ranker, "best_estimator_", getattr(ranker, "ranker", None))
    return inner is not None and compares_items(inner)


@singledispatch
def scoring_function(ranker: Any) -> ScoringFunction:
    """Return the formula of a fitted ranker; refuse a ranker without one.

    Parameters
    ----------
    ranker : ranker or Pipeline
        A fitted ranker; a pipeline may scale the features first.
    """
    raise InvalidInputError(
        "The ranker must score rows by weights of features or of kernel functions, as RankRLS, "
        f"RankSVM, DORM, KPCRank and PreferenceGP do: got {type(ranker).__name__}."
    )


@scoring_function.register
def _of_points(ranker: PointRanker) -> ScoringFunction:
    check_is_fitted(ranker)
    predictor, weights = ranker.predictor_, ranker._weights
    kernel, rows = predictor.expansion_kernel, predictor.expansion_rows
    return unscaled_function(ranker, kernel, rows, weights)


@scoring_function.register
def _of_pipeline(pipeline: Pipeline) -> ScoringFunction:
    check_is_fitted(pipeline)
    *steps, (_, ranker) = pipeline.steps
    inner = scoring_function(ranker)
    shift, scale = np.zeros(inner.n_features), np.ones(inner.n_features)
    for name, step in steps:
        next_shift, next_scale = scaling_of(name, step, inner.n_features)
        shift, scale = shift + scale * next_shift, scale * next_scale
    names = getattr(pipeline, "feature_names_in_", None)
    return ScoringFunction(
        shift=shift,
        scale=scale,
        weights=inner.weights,
        kernel=inner.kernel,
        rows=inner.rows,
        names=inner.names if names is None else tuple(map(str, names)),
        known=inner.known,
    )


def unscaled_function(
    ranker: Any, kernel: Kernel | None, rows: Any, weights: FloatArray
) -> ScoringFunction:
    """Return the formula of a ranker without scalers: weights of kernel functions of rows."""
    if kernel is not None and kernel.is_linear:
        kernel, rows, weights = None, None, np.asarray(rows.T @ weights)
    names = getattr(ranker, "feature_names_in_", None)
    n_features = ranker.n_features_in_
    return ScoringFunction(
        shift=np.zeros(n_features),
        scale=np.ones(n_features),
        weights=np.asarray(weights, dtype=float),
        kernel=kernel,
        rows=None if kernel is None else dense_rows(rows),
        names=None if names is None else tuple(map(str, names)),
    )


def _or_default(value: Any, n_features: int, default: float) -> FloatArray:
    return np.full(n_features, default) if value is None else np.asarray(value, dtype=float)


_SCALERS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "StandardScaler": lambda step: (step.mean_ if step.with_mean else None, step.scale_),
    "MinMaxScaler": lambda step: (-step.min_ / step.scale_, 1.0 / step.scale_),
    "MaxAbsScaler": lambda step: (None, step.scale_),
    "RobustScaler": lambda step: (step.center_, step.scale_),
}
"""The scalers of scikit-learn that are one shift and one scale for each feature."""


def scaling_of(name: str, step: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Return shift and scale of a step of a pipeline; refuse what is not a scaler."""
    if step is None or step == "passthrough":
        return np.zeros(n_features), np.ones(n_features)
    kind = type(step).__name__
    if kind == "TextFeatures":
        raise InvalidInputError(
            "A model that matches the words of queries and items cannot be exported: formats hold "
            "numbers. Serve it over HTTP; or fit on what the engine itself finds in text, such as "
            "BM25 of Elasticsearch, OpenSearch, Solr or Vespa, logged there as columns here."
        )
    if kind not in _SCALERS or getattr(step, "clip", False):
        raise InvalidInputError(
            "Steps before the ranker must be scalers without clipping "
            f"({', '.join(_SCALERS)}): the step {name!r} is a {kind}. Apply it beforehand, and use "
            "the ranker alone."
        )
    shift, scale = _SCALERS[kind](step)
    return _or_default(shift, n_features, 0.0), _or_default(scale, n_features, 1.0)
