"""Linear rankers as texts for search engines and RankLib, and the arithmetic these score in."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from rankwise.apps.export.pmml import write_pmml
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.rankers.scoring_function import ScoringFunction

SOLR_MODEL = "org.apache.solr.ltr.model.LinearModel"
SOLR_NORMALIZER = "org.apache.solr.ltr.norm.StandardNormalizer"
RANKLIB_HEAD = "## Coordinate Ascent"
_VESPA_FEATURE = re.compile(r"[A-Za-z_]\w*(\([^(){}\s]*\))?(\.[A-Za-z_]\w*)*")

Writer: TypeAlias = Callable[[ScoringFunction, str, Sequence[str]], str]
Scorer: TypeAlias = Callable[[ScoringFunction, FloatArray], FloatArray]


def write_solr(function: ScoringFunction, name: str, names: Sequence[str]) -> str:
    """Return the body for Solr's model store: a LinearModel with normalisers."""
    features: list[dict[str, Any]] = [{"name": feature} for feature in names]
    if function.is_scaled:
        for entry, avg, std in zip(features, function.shift, function.scale, strict=True):
            params = {"avg": _text(avg), "std": _text(std)}
            entry["norm"] = {"class": SOLR_NORMALIZER, "params": params}
    weights = dict(zip(names, function.weights.tolist(), strict=True))
    body = {
        "class": SOLR_MODEL,
        "name": name,
        "features": features,
        "params": {"weights": weights},
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def write_elasticsearch(function: ScoringFunction, name: str, names: Sequence[str]) -> str:
    """Return the body for `_createmodel` of the LTR plugins of Elasticsearch and OpenSearch."""
    weights = dict(zip(names, function.weights.tolist(), strict=True))
    model: dict[str, Any] = {"type": "model/linear"}
    if function.is_scaled:
        scaling = zip(names, function.shift.tolist(), function.scale.tolist(), strict=True)
        model["feature_normalizers"] = {
            feature: {"standard": {"mean": mean, "standard_deviation": deviation}}
            for feature, mean, deviation in scaling
        }
    model["definition"] = json.dumps(weights, ensure_ascii=False)
    body = {"model": {"name": name, "model": model}}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def write_ranklib(function: ScoringFunction, name: str, names: Sequence[str]) -> str:  # noqa: ARG001
    """Return a RankLib model of Coordinate Ascent; features are numbered from 1.

    Scales are folded into the weights; shifts add a constant to every score and are left out.
    """
    weights = function.weights / function.scale
    terms = " ".join(f"{at}:{_text(weight)}" for at, weight in enumerate(weights, start=1))
    return f"{RANKLIB_HEAD}\n{terms}\n"


def write_vespa(function: ScoringFunction, name: str, names: Sequence[str]) -> str:
    """Return a rank profile whose second phase scores by the ranker."""
    for feature in names:
        if not _VESPA_FEATURE.fullmatch(feature):
            raise InvalidInputError(
                "For Vespa every feature must be named as a rank feature, such as bm25(title) or "
                f"attribute(price): got {feature!r}. Give `feature_names`."
            )
    scaling = zip(function.shift, function.scale, function.weights, names, strict=True)
    terms = [
        f"{_text(weight)} * {_vespa_value(feature, shift, scale)}"
        for shift, scale, weight, feature in scaling
    ]
    expression = " +\n                ".join(terms)
    return (
        f"rank-profile {name} inherits default {{\n"
        "    second-phase {\n"
        "        expression {\n"
        f"                {expression}\n"
        "        }\n    }\n}\n"
    )


def _vespa_value(feature: str, shift: float, scale: float) -> str:
    if shift == 0.0 and scale == 1.0:
        return feature
    return f"({feature} - {_text(shift)}) / {_text(scale)}"


def _text(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value))


def in_single_precision(function: ScoringFunction, X: FloatArray) -> FloatArray:
    """Score as Solr and the LTR plugins do: float32 throughout, feature after feature."""
    shift, scale, weights = (
        values.astype(np.float32) for values in (function.shift, function.scale, function.weights)
    )
    if not (scale > 0).all():
        raise NumericalError(
            "The written model must pass the rules of the engine's loader: standard deviations "
            "must be above 0 in float32. Scale the features, or choose another format."
        )
    total = np.zeros(len(X), dtype=np.float32)
    for at, column in enumerate(X.astype(np.float32).T):
        total += weights[at] * ((column - shift[at]) / scale[at])
    return total.astype(float)


def with_folded_scales(function: ScoringFunction, X: FloatArray) -> FloatArray:
    """Score as RankLib does: float32 features, weights of unscaled features in double precision."""
    return _rounded(X) @ (function.weights / function.scale)


def with_rounded_features(function: ScoringFunction, X: FloatArray) -> FloatArray:
    """Score as Vespa does: float32 features, the expression in double precision."""
    return function.scores(_rounded(X))


def _rounded(X: FloatArray) -> FloatArray:
    return X.astype(np.float32).astype(float)


@final
@dataclass(frozen=True)
class TextFormat:
    """A format that is text: its writer, and the arithmetic of the engine that reads it."""

    write: Writer
    score: Scorer
    is_single: bool = True
    has_names: bool = True
    """Whether the engine computes the features itself, by name."""


TEXT_FORMATS = {
    "solr": TextFormat(write_solr, in_single_precision),
    "elasticsearch": TextFormat(write_elasticsearch, in_single_precision),
    "opensearch": TextFormat(write_elasticsearch, in_single_precision),
    "ranklib": TextFormat(write_ranklib, with_folded_scales, has_names=False),
    "vespa": TextFormat(write_vespa, with_rounded_features),
    "pmml": TextFormat(write_pmml, ScoringFunction.scores, is_single=False, has_names=False),
}
