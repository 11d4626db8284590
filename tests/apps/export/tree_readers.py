"""Read trees by the rules of the engines' loaders, one item at a time, in their arithmetic."""

import json
import xml.etree.ElementTree as ET

import numpy as np

F = np.float32


def score_xgboost_dump(trees, names, X):
    """Follow "yes" where the value is below the condition, as the plugins and Vespa do."""
    by_name = [dict(zip(names, row, strict=True)) for row in X.astype(F)]

    def leaf(node, item):
        while "leaf" not in node:
            goes = node["yes"] if item[node["split"]] < F(node["split_condition"]) else node["no"]
            node = next(child for child in node["children"] if child["nodeid"] == goes)
        return F(node["leaf"])

    return np.array([float(sum((leaf(tree, item) for tree in trees), F(0))) for item in by_name])


def score_plugin(text, names, X):
    """Read a body of ``_createmodel``: the definition is JSON inside a string."""
    model = json.loads(text)["model"]["model"]
    assert model["type"] == "model/xgboost+json"
    return score_xgboost_dump(json.loads(model["definition"]), names, X)


def score_vespa(text, names, X):
    """Read the file of an ``xgboost`` expression."""
    return score_xgboost_dump(json.loads(text), names, X)


def score_solr(text, names, X):
    """Read a MultipleAdditiveTreesModel: numbers are texts, thresholds get a slack of 1e-6."""
    body = json.loads(text)
    assert body["class"].endswith("MultipleAdditiveTreesModel")
    order = [feature["name"] for feature in body["features"]]
    assert order == list(names)

    def leaf(node, item):
        while "value" not in node:
            limit = F(F(node["threshold"]) + F(1e-6))
            node = node["left" if item[order.index(node["feature"])] <= limit else "right"]
        return F(node["value"])

    found = []
    for item in X.astype(F):
        parts = [F(t["weight"]) * leaf(t["root"], item) for t in body["params"]["trees"]]
        found.append(float(sum(parts, F(0))))
    return np.array(found)


def score_ranklib(text, names, X):
    """Read an ensemble: comments, then splits inside each other; features are numbered from 1."""
    root = ET.fromstring(text[text.index("<ensemble>") :])

    def leaf(node, item):
        while node.find("output") is None:
            value = item[int(node.find("feature").text) - 1]
            side = "left" if value <= F(node.find("threshold").text) else "right"
            node = next(child for child in node.findall("split") if child.get("pos") == side)
        return F(node.find("output").text)

    trees = root.findall("tree")
    return np.array(
        [
            float(
                sum(
                    (F(tree.get("weight")) * leaf(tree.find("split"), item) for tree in trees), F(0)
                )
            )
            for item in X.astype(F)
        ]
    )


TREE_READERS = {
    "elasticsearch": score_plugin,
    "opensearch": score_plugin,
    "vespa": score_vespa,
    "solr": score_solr,
    "ranklib": score_ranklib,
}
