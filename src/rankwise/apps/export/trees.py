"""Trees for search engines, XGBoost, LightGBM and RankLib, and the arithmetic these score in.

The engines hold features in single precision. A threshold is moved to the neighbouring number of
single precision that parts the same numbers, so that rows in single precision go where they go in
`predict`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.apps.export.onnx_steps import plain_threshold
from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, extra
from rankwise.rankers.trees.boosted_ranker import BoostedRanker

SOLR_TREES = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
SOLR_SLACK = np.float32(1e-6)
"""What Solr adds to every threshold that it reads."""

PLUGIN_TREES = "model/xgboost+json"
LEAF = -1
LARGEST = float(np.finfo(np.float32).max)
"""No JSON has infinity: it is the limit where blanks are parted from all numbers."""

XGBOOST_VERSION = [2, 0, 0]
"""The first version whose files look like this; later ones read them."""


@final
@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays over its nodes, parents before children; node 0 is the root.

    Parameters
    ----------
    feature : (n_nodes,)
        LEAF for leaves.
    threshold : (n_nodes,)
        Numbers of single precision: smaller or equal values go left.
    left, right : (n_nodes,)
        LEAF for leaves.
    blank_left : (n_nodes,)
        Whether blanks go left.
    value : (n_nodes,)
        Of leaves.
    """

    feature: IntArray
    threshold: NDArray[np.float32]
    left: IntArray
    right: IntArray
    blank_left: BoolArray
    value: FloatArray

    def scores(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the value of the leaf of every row."""
        at, threshold = np.zeros(len(X), dtype=np.intp), self.threshold
        while (inner := np.flatnonzero(self.feature[at] != LEAF)).size:
            node = at[inner]
            x = X[inner, self.feature[node]]
            goes_left = np.where(np.isnan(x), self.blank_left[node], x <= threshold[node])
            at[inner] = np.where(goes_left, self.left[node], self.right[node])
        return self.value.astype(np.float32)[at]


Trees: TypeAlias = list[Tree]


def trees_of(ranker: BoostedRanker) -> Trees:
    """Return the trees of a ranker, with thresholds in single precision."""
    return [_tree(structure) for structure in ranker.tree_structures()]


def _tree(root: dict[str, Any]) -> Tree:
    rows: list[tuple[Any, ...]] = []
    nodes = [root]
    # level by level; XGBoost takes the right child to stand behind the left one
    for node in nodes:
        if "split_feature" not in node:
            rows.append((LEAF, 0.0, LEAF, LEAF, False, float(node["leaf_value"])))
            continue
        threshold = plain_threshold(float(node["threshold"]))
        limit, blank_left = largest_single(threshold), _blank_left(node, threshold)
        left, feature = len(nodes), int(node["split_feature"])
        nodes += [node["left_child"], node["right_child"]]
        rows.append((feature, limit, left, left + 1, blank_left, 0.0))
    kinds = (np.intp, np.float32, np.intp, np.intp, bool, float)
    columns: list[Any] = [
        np.array(part, dtype=kind)
        for part, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    return Tree(*columns)


def _blank_left(node: dict[str, Any], threshold: float) -> bool:
    """Return whether blanks go left; refuse what thresholds cannot say."""
    zero_left = threshold >= 0.0
    if node["decision_type"] != "<=":
        raise InvalidInputError(
            "Search engines take trees that compare features with thresholds: this one has a "
            f"split on feature {node['split_feature']} of the kind {node['decision_type']!r}. "
            "Grow trees on numbers."
        )
    if node["missing_type"] == "NaN":
        return bool(node["default_left"])
    if node["missing_type"] == "Zero" and bool(node["default_left"]) != zero_left:
        raise InvalidInputError(
            "Search engines take trees that treat 0 as a number: this one takes it for a blank. "
            "Grow trees without the option zero_as_missing."
        )
    return zero_left


def largest_single(threshold: float) -> np.float32:
    """Return the largest finite number of single precision that is at most this one."""
    rounded = np.float32(np.clip(threshold, -LARGEST, LARGEST))
    above = float(rounded) > threshold > -LARGEST
    return np.float32(np.nextafter(rounded, np.float32(-np.inf)) if above else rounded)


def added_up(trees: Trees, X: FloatArray) -> FloatArray:
    """Score in single precision throughout, tree after tree."""
    with np.errstate(over="ignore"):
        rows = X.astype(np.float32)
    total = np.zeros(len(rows), dtype=np.float32)
    for tree in trees:
        total += tree.scores(rows)
    return total.astype(float)


# XGBoost, and the engines that read its trees: values below the condition go to "yes"


def _conditions(tree: Tree) -> NDArray[np.float32]:
    """Return what XGBoost compares with: the next number above each threshold."""
    above: NDArray[np.float32] = np.nextafter(tree.threshold, np.float32(LARGEST))
    return above


def _number(value: Any) -> float:
    """Return a number of single precision in the fewest digits that tell it from others."""
    return float(str(np.float32(value)))


def dumped(tree: Tree, names: Sequence[str]) -> dict[str, Any]:
    """Return a tree as XGBoost's ``dump_model`` writes it in JSON."""
    conditions = _conditions(tree)

    def node(at: int, depth: int) -> dict[str, Any]:
        if tree.feature[at] == LEAF:
            return {"nodeid": at, "leaf": _number(tree.value[at])}
        yes, no = int(tree.left[at]), int(tree.right[at])
        return {
            "nodeid": at,
            "depth": depth,
            "split": names[tree.feature[at]],
            "split_condition": _number(conditions[at]),
            "yes": yes,
            "no": no,
            "missing": yes if tree.blank_left[at] else no,
            "children": [node(yes, depth + 1), node(no, depth + 1)],
        }

    return node(0, 0)


def write_plugin(trees: Trees, name: str, names: Sequence[str]) -> str:
    """Return the body for `_createmodel` of the LTR plugins of Elasticsearch and OpenSearch."""
    definition = json.dumps([dumped(tree, names) for tree in trees], ensure_ascii=False)
    model = {"type": PLUGIN_TREES, "definition": definition}
    return json.dumps({"model": {"name": name, "model": model}}, ensure_ascii=False) + "\n"


def write_vespa(trees: Trees, name: str, names: Sequence[str]) -> str:  # noqa: ARG001
    """Return XGBoost's dump in JSON, which Vespa reads by ``xgboost("NAME.json")``."""
    return json.dumps([dumped(tree, names) for tree in trees], ensure_ascii=False) + "\n"


def write_xgboost(trees: Trees, name: str, names: Sequence[str]) -> str:  # noqa: ARG001
    """Return a model that ``xgboost.Booster.load_model`` reads."""
    n_features = len(names)
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": [_xgboost_tree(tree, at, n_features) for at, tree in enumerate(trees)],
    }
    learner = {
        "attributes": {},
        "feature_names": list(names),
        "feature_types": ["float"] * n_features,
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "1",
            "num_class": "0",
            "num_feature": str(n_features),
            "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    }
    return json.dumps({"learner": learner, "version": XGBOOST_VERSION}, ensure_ascii=False) + "\n"


def _xgboost_tree(tree: Tree, number: int, n_features: int) -> dict[str, Any]:
    n_nodes, is_leaf = len(tree.feature), tree.feature == LEAF
    parents = np.full(n_nodes, np.iinfo(np.int32).max)  # of the root
    for children in (tree.left, tree.right):
        parents[children[~is_leaf]] = np.flatnonzero(~is_leaf)
    conditions = np.where(is_leaf, tree.value, _conditions(tree))
    return {
        **{f"categories{part}": [] for part in ("", "_nodes", "_segments", "_sizes")},
        "base_weights": [_number(value) for value in tree.value],
        "default_left": tree.blank_left.astype(int).tolist(),
        "id": number,
        "left_children": tree.left.tolist(),
        "loss_changes": [0.0] * n_nodes,
        "parents": parents.tolist(),
        "right_children": tree.right.tolist(),
        "split_conditions": [_number(value) for value in conditions],
        "split_indices": np.where(is_leaf, 0, tree.feature).tolist(),
        "split_type": [0] * n_nodes,
        "sum_hessian": [1.0] * n_nodes,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(n_nodes),
            "size_leaf_vector": "1",
        },
    }


def run_xgboost(content: bytes, X: FloatArray) -> FloatArray:
    """Score by XGBoost itself."""
    with extra("A check by XGBoost", "xgboost", "trees"):
        import xgboost  # noqa: PLC0415 - optional: checks what was written
    booster = xgboost.Booster()
    booster.load_model(bytearray(content))
    rows = xgboost.DMatrix(X, feature_names=booster.feature_names)
    return np.asarray(booster.predict(rows, output_margin=True), dtype=float)


# Solr and RankLib: values up to the threshold go left


def write_solr(trees: Trees, name: str, names: Sequence[str]) -> str:
    """Return the body for Solr's model store: a MultipleAdditiveTreesModel."""
    params = {"trees": [{"weight": "1", "root": _solr_node(tree, names, 0)} for tree in trees]}
    features = [{"name": feature} for feature in names]
    body = {"class": SOLR_TREES, "name": name, "features": features, "params": params}
    return json.dumps(body, ensure_ascii=False) + "\n"


def _solr_node(tree: Tree, names: Sequence[str], at: int) -> dict[str, Any]:
    if tree.feature[at] == LEAF:
        return {"value": str(np.float32(tree.value[at]))}
    return {
        "feature": names[tree.feature[at]],
        "threshold": str(without_slack(tree.threshold[at])),
        "left": _solr_node(tree, names, int(tree.left[at])),
        "right": _solr_node(tree, names, int(tree.right[at])),
    }


def without_slack(threshold: np.float32) -> np.float32:
    """Return the number that comes closest to this threshold when Solr has added its slack."""
    guess = np.float32(threshold - SOLR_SLACK)
    near = [guess, *(np.nextafter(guess, np.float32(end)) for end in (-np.inf, np.inf))]
    return min(near, key=lambda one: abs(float(np.float32(one + SOLR_SLACK)) - float(threshold)))


def with_slack(trees: Trees) -> Trees:
    """Return trees as Solr has them: with the slack added to every threshold that was written."""
    found = []
    for tree in trees:
        threshold = np.array([without_slack(one) + SOLR_SLACK for one in tree.threshold])
        found.append(replace(tree, threshold=threshold.astype(np.float32)))
    return found


def write_ranklib(trees: Trees, name: str, names: Sequence[str]) -> str:  # noqa: ARG001
    """Return an ensemble as RankLib's LambdaMART writes it; features are numbered from 1."""
    lines = ["## LambdaMART", f"## No. of trees = {len(trees)}", "", "<ensemble>"]
    for number, tree in enumerate(trees, start=1):
        lines += [f'\t<tree id="{number}" weight="1.0">', "\t\t<split>"]
        lines += [*_ranklib_node(tree, 0, "\t\t\t"), "\t\t</split>", "\t</tree>"]
    return "\n".join([*lines, "</ensemble>", ""])


def _ranklib_node(tree: Tree, at: int, indent: str) -> list[str]:
    if tree.feature[at] == LEAF:
        return [f"{indent}<output> {np.float32(tree.value[at])} </output>"]
    lines = [
        f"{indent}<feature> {tree.feature[at] + 1} </feature>",
        f"{indent}<threshold> {np.float32(tree.threshold[at])} </threshold>",
    ]
    for side, child in (("left", tree.left[at]), ("right", tree.right[at])):
        inner = _ranklib_node(tree, int(child), f"{indent}\t")
        lines += [f'{indent}<split pos="{side}">', *inner, f"{indent}</split>"]
    return lines


# LightGBM: the text that the ranker keeps, with the names of the features


def lightgbm_text(ranker: BoostedRanker, names: Sequence[str]) -> str:
    """Return a model that ``lightgbm.Booster(model_file=...)`` reads."""
    strange = [name for name in names if not name.isascii() or any(c in name for c in ' ",:[]{}')]
    if strange:
        raise InvalidInputError(
            "LightGBM takes names of features without blanks, commas, colons, quotation marks and "
            f"brackets, in ASCII: got {strange[0]!r}. Give `feature_names`."
        )
    text = ranker.model_.tobytes().decode()
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("feature_names="))
    lines[at] = f"feature_names={' '.join(names)}"
    return "\n".join(lines)


def run_lightgbm(content: bytes, X: FloatArray) -> FloatArray:
    """Score by LightGBM itself."""
    with extra("A check by LightGBM", "lightgbm", "trees"):
        import lightgbm  # noqa: PLC0415 - optional: checks what was written
    booster = lightgbm.Booster(model_str=content.decode())
    return np.asarray(booster.predict(X, raw_score=True), dtype=float)


TreeWriter: TypeAlias = Callable[[Trees, str, Sequence[str]], str]


@final
@dataclass(frozen=True)
class TreeFormat:
    """A format for trees: its writer, the engine that reads it, and whether it needs names."""

    write: TreeWriter
    engine: str
    read: Callable[[Trees], Trees] = list
    """Return the trees as the engine has them, if its thresholds differ."""
    has_names: bool = True


TREE_FORMATS = {
    "xgboost": TreeFormat(
        write_xgboost, "XGBoost 2 and later; Elasticsearch 8.12 and later by eland", has_names=False
    ),
    "elasticsearch": TreeFormat(write_plugin, "the LTR plugin of Elasticsearch, 1.1 and later"),
    "opensearch": TreeFormat(write_plugin, "the LTR plugin of OpenSearch, 2.0 and later"),
    "vespa": TreeFormat(write_vespa, "Vespa 7 and later"),
    "solr": TreeFormat(write_solr, "Solr 6.4 and later", with_slack),
    "ranklib": TreeFormat(write_ranklib, "RankLib 2.1 and later", has_names=False),
}
