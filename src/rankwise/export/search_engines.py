"""Write linear rankers for search engines, and score with what was written as the engine would.

None of these engines can be run here: what is checked is a contract, the rules of the loader and
the arithmetic of the scorer as the documentation and the source of each engine state them.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.rankers.scoring_function import ScoringFunction

SOLR_MODEL = "org.apache.solr.ltr.model.LinearModel"
SOLR_NORMALIZER = "org.apache.solr.ltr.norm.StandardNormalizer"
RANKLIB_HEAD = "## Coordinate Ascent"
_VESPA_FEATURE = re.compile(r"[A-Za-z_]\w*(\([^(){}\s]*\))?(\.[A-Za-z_]\w*)*")
_VESPA_TERM = re.compile(r"(\S+) \* (?:\((\S+) - (\S+)\) / (\S+)|(\S+))")


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


def score_solr(text: str, names: Sequence[str], X: FloatArray) -> FloatArray:
    """Load and score as Solr does: every feature has a weight, all arithmetic is float32."""
    body = json.loads(text)
    weights = body["params"]["weights"]
    order = [entry["name"] for entry in body["features"]]
    missing = [name for name in order if name not in weights]
    _must(body["class"] == SOLR_MODEL and not missing, f"no weight for {missing}")
    shift, scale = np.zeros(len(order)), np.ones(len(order))
    for at, entry in enumerate(body["features"]):
        if "norm" in entry:
            shift[at], scale[at] = (float(entry["norm"]["params"][key]) for key in ("avg", "std"))
    return _float32_scores(order, weights, shift, scale, names, X)


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


def score_elasticsearch(text: str, names: Sequence[str], X: FloatArray) -> FloatArray:
    """Load and score as the plugin does: weights are numbers, all arithmetic is float32."""
    model = json.loads(text)["model"]["model"]
    weights = json.loads(model["definition"])
    _must(model["type"] == "model/linear", f"type {model['type']}")
    unknown = sorted(set(weights) - set(names))
    _must(not unknown, f"unknown features {unknown}")
    shift, scale = np.zeros(len(names)), np.ones(len(names))
    for feature, entry in model.get("feature_normalizers", {}).items():
        at = list(names).index(feature)
        shift[at] = entry["standard"]["mean"]
        scale[at] = entry["standard"]["standard_deviation"]
    return _float32_scores(names, weights, shift, scale, names, X)


def write_ranklib(function: ScoringFunction, name: str, names: Sequence[str]) -> str:  # noqa: ARG001
    """Return a RankLib model of Coordinate Ascent; features are numbered from 1.

    A scale is folded into the weight; a shift adds the same to every score and is left out.
    """
    weights = function.weights / function.scale
    terms = " ".join(f"{at}:{_text(weight)}" for at, weight in enumerate(weights, start=1))
    return f"{RANKLIB_HEAD}\n{terms}\n"


def score_ranklib(text: str, names: Sequence[str], X: FloatArray) -> FloatArray:
    """Load and score as RankLib does: float32 features, weights of double precision."""
    head, terms = text.splitlines()
    pairs = [term.split(":") for term in terms.split(" ")]
    ids = [int(feature) for feature, _ in pairs]
    _must(head == RANKLIB_HEAD and ids == list(range(1, len(names) + 1)), "feature ids")
    weights = np.array([float(weight) for _, weight in pairs])
    return X.astype(np.float32).astype(float) @ weights


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


def score_vespa(text: str, names: Sequence[str], X: FloatArray) -> FloatArray:
    """Score as Vespa does: features are float32, the expression is of double precision."""
    inside = text.partition("expression {\n")[2].partition("\n        }")[0]
    columns = dict(zip(names, X.astype(np.float32).astype(float).T, strict=True))
    total = np.zeros(len(X))
    terms = [term.strip() for term in inside.split(" +\n")]
    _must(len(terms) == len(names), "the number of terms")
    for term in terms:
        match = _VESPA_TERM.fullmatch(term)
        _must(match is not None, f"the term {term!r}")
        weight, feature, shift, scale, plain = match.groups()  # type: ignore[union-attr]
        value = columns[plain] if plain else (columns[feature] - float(shift)) / float(scale)
        total += float(weight) * value
    return total


def _vespa_value(feature: str, shift: float, scale: float) -> str:
    if shift == 0.0 and scale == 1.0:
        return feature
    return f"({feature} - {_text(shift)}) / {_text(scale)}"


def _float32_scores(
    order: Sequence[str],
    weights: dict[str, Any],
    shift: FloatArray,
    scale: FloatArray,
    names: Sequence[str],
    X: FloatArray,
) -> FloatArray:
    """Add up ``weight * (value - shift) / scale`` in float32, feature after feature."""
    _must(bool((np.float32(scale) > 0).all()), "standard deviations must be above 0 in float32")
    single = X.astype(np.float32)
    total = np.zeros(len(X), dtype=np.float32)
    for at, feature in enumerate(order):
        column = single[:, list(names).index(feature)]
        value = (column - np.float32(shift[at])) / np.float32(scale[at])
        total += np.float32(weights[feature]) * value
    return total.astype(float)


def _text(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value))


def _must(holds: bool, what: str) -> None:
    """Stop where a written model breaks a rule of its loader."""
    if not holds:
        raise NumericalError(
            f"The written model must pass the rules of the engine's loader: {what}. Scale the "
            "features, or choose another format."
        )
