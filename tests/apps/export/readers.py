"""Read the files of export formats by the rules of their loaders, in the engine's arithmetic."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np

from rankwise import Gaussian, Polynomial

SOLR_MODEL = "org.apache.solr.ltr.model.LinearModel"
RANKLIB_HEAD = "## Coordinate Ascent"
NAMESPACE = "http://www.dmg.org/PMML-4_4"
VESPA_TERM = re.compile(r"(\S+) \* (?:\((\S+) - (\S+)\) / (\S+)|(\S+))")


def score_solr(text, names, X):
    """Load and score as Solr does: every feature has a weight, all arithmetic is float32."""
    body = json.loads(text)
    weights = body["params"]["weights"]
    order = [entry["name"] for entry in body["features"]]
    missing = [name for name in order if name not in weights]
    assert body["class"] == SOLR_MODEL
    assert not missing
    shift, scale = np.zeros(len(order)), np.ones(len(order))
    for at, entry in enumerate(body["features"]):
        if "norm" in entry:
            shift[at], scale[at] = (float(entry["norm"]["params"][key]) for key in ("avg", "std"))
    return _float32_scores(order, weights, shift, scale, names, X)


def score_elasticsearch(text, names, X):
    """Load and score as the plugin does: weights are numbers, all arithmetic is float32."""
    model = json.loads(text)["model"]["model"]
    weights = json.loads(model["definition"])
    assert model["type"] == "model/linear"
    unknown = sorted(set(weights) - set(names))
    assert not unknown
    shift, scale = np.zeros(len(names)), np.ones(len(names))
    for feature, entry in model.get("feature_normalizers", {}).items():
        at = list(names).index(feature)
        shift[at] = entry["standard"]["mean"]
        scale[at] = entry["standard"]["standard_deviation"]
    return _float32_scores(names, weights, shift, scale, names, X)


def score_ranklib(text, names, X):
    """Load and score as RankLib does: float32 features, weights in double precision."""
    head, terms = text.splitlines()
    pairs = [term.split(":") for term in terms.split(" ")]
    ids = [int(feature) for feature, _ in pairs]
    assert head == RANKLIB_HEAD
    assert ids == list(range(1, len(names) + 1))
    weights = np.array([float(weight) for _, weight in pairs])
    return X.astype(np.float32).astype(float) @ weights


def score_vespa(text, names, X):
    """Score as Vespa does: features are float32, the expression is in double precision."""
    inside = text.partition("expression {\n")[2].partition("\n        }")[0]
    columns = dict(zip(names, X.astype(np.float32).astype(float).T, strict=True))
    total = np.zeros(len(X))
    terms = [term.strip() for term in inside.split(" +\n")]
    assert len(terms) == len(names)
    for term in terms:
        match = VESPA_TERM.fullmatch(term)
        assert match is not None
        weight, feature, shift, scale, plain = match.groups()
        value = columns[plain] if plain else (columns[feature] - float(shift)) / float(scale)
        total += float(weight) * value
    return total


def _float32_scores(order, weights, shift, scale, names, X):
    """Add up ``weight * (value - shift) / scale`` in float32, feature after feature."""
    assert (np.float32(scale) > 0).all()
    single = X.astype(np.float32)
    total = np.zeros(len(X), dtype=np.float32)
    for at, feature in enumerate(order):
        column = single[:, list(names).index(feature)]
        value = (column - np.float32(shift[at])) / np.float32(scale[at])
        total += np.float32(weights[feature]) * value
    return total.astype(float)


def score_pmml(text, names, X):
    """Score what was written, read back by the rules of the format."""
    root = ET.fromstring(text)
    space = {"p": NAMESPACE}
    columns = dict(zip(names, X.T, strict=True))
    # a linear model is a table of coefficients
    table = root.find(".//p:RegressionTable", space)
    if table is not None:
        total = np.full(len(X), float(table.attrib["intercept"]))
        for entry in table.findall("p:NumericPredictor", space):
            total += float(entry.attrib["coefficient"]) * columns[entry.attrib["name"]]
        return total
    # derived fields, then the kernel of the rows with the support vectors
    for derived in root.findall(".//p:DerivedField", space):
        reference = derived.find(".//p:FieldRef", space)
        by, divisor = (float(entry.text or "") for entry in derived.findall(".//p:Constant", space))
        assert reference is not None
        columns[derived.attrib["name"]] = (columns[reference.attrib["field"]] - by) / divisor
    fields = root.findall(".//p:VectorFields/p:FieldRef", space)
    Z = np.column_stack([columns[entry.attrib["field"]] for entry in fields])
    arrays = root.findall(".//p:VectorInstance/p:Array", space)
    rows = np.array([[float(value) for value in (a.text or "").split()] for a in arrays])
    weights = [float(e.attrib["value"]) for e in root.findall(".//p:Coefficient", space)]
    return _read_kernel(root, space)(Z, rows) @ np.array(weights)


def _read_kernel(root, space):
    radial = root.find(".//p:RadialBasisKernelType", space)
    if radial is not None:
        return Gaussian(float(radial.attrib["gamma"]))
    polynomial = root.find(".//p:PolynomialKernelType", space)
    if polynomial is not None:
        gamma, coef0, degree = (float(polynomial.attrib[k]) for k in ("gamma", "coef0", "degree"))
        return Polynomial(int(degree), gamma, coef0)
    return lambda A, B: A @ B.T


READERS = {
    "solr": score_solr,
    "elasticsearch": score_elasticsearch,
    "opensearch": score_elasticsearch,
    "ranklib": score_ranklib,
    "vespa": score_vespa,
    "pmml": score_pmml,
}
