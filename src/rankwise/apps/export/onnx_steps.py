"""Rankers of several steps as ONNX graphs: what happens inside a query, sums, and trees.

A graph gets one query at a time: minima, ranks and medians are taken over its input.
Steps and the thresholds of trees are in double precision, as in `predict`, whatever the precision
of the graph: in single precision, the mean of a feature that is constant in a query is another.
"""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any, NamedTuple, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.apps.export.onnx_graph import (
    GraphWriter,
    OnnxInput,
    OnnxPrecision,
    import_onnx,
    onnx_file,
)
from rankwise.automatic.sum_of_rankers import SumOfRankers
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.scoring_function import scaling_of, scoring_function
from rankwise.rankers.trees.boosted_ranker import BoostedRanker
from rankwise.transformers.categories import BLANK, WithinQueryEncoder
from rankwise.transformers.numeric import WithinQueryImputer, WithinQueryRanks, WithinQueryScaler
from rankwise.transformers.rows import FeatureScaler, KeptFeatures


def write_steps_onnx(
    ranker: Any, *, name: str, names: Sequence[str], precision: OnnxPrecision
) -> bytes:
    """Return an ONNX file that scores the rows of one query.

    Its inputs are ``X``, the features, and where some are categories, ``categories`` with these as
    text; ``X`` has only the others then, in their order. Blanks are NaN, and "" for text.
    """
    graph = GraphWriter.of(precision)
    text = text_columns(ranker)
    plain = [column for j, column in enumerate(names) if j not in text]
    inputs = [OnnxInput("X", tuple(plain))]
    if text:
        inputs.append(OnnxInput("categories", tuple(names[j] for j in text), is_text=True))
    graph.given = graph.in_double().floats("X")
    graph.node("Identity", [scores_node(ranker, graph, graph.given, 1.0)], "scores")
    return onnx_file(graph, inputs, ["scores"], ["n_items"], name=name)


@singledispatch
def first_steps(ranker: Any) -> list[Any] | None:  # noqa: ARG001
    """Return the first steps of a ranker of several steps; None for other rankers."""
    return None


@first_steps.register
def _sum_first_steps(ranker: SumOfRankers) -> list[Any]:
    check_is_fitted(ranker)
    return ranker.preparation_


@first_steps.register
def _pipeline_first_steps(ranker: RankerPipeline) -> list[Any]:
    check_is_fitted(ranker)
    return ranker.steps_[:-1]


@first_steps.register
def _tree_first_steps(ranker: BoostedRanker) -> list[Any]:  # noqa: ARG001
    return []


def text_columns(ranker: Any) -> list[int]:
    """Return the features that are given as text, which the first step encodes."""
    steps = first_steps(ranker) or []
    return steps[0].columns_ if steps and type(steps[0]) is WithinQueryEncoder else []


# Rankers


@singledispatch
def scores_node(ranker: Any, graph: GraphWriter, rows: str, factor: float) -> str:
    """Write the scores of rows, times a factor."""
    function = scoring_function(ranker)
    if function.weights.ndim > 1:
        raise InvalidInputError(
            "A ranker of several steps must have one output to be written as ONNX: this one has "
            f"{function.weights.shape[1]}. Fit one for each."
        )
    return graph.scores(function, graph.floats(rows), factor)


@scores_node.register
def _sum_scores(ranker: SumOfRankers, graph: GraphWriter, rows: str, factor: float) -> str:
    rows = _steps(ranker.preparation_, graph, rows)
    parts = [
        scores_node(member, graph, rows, factor * float(weight))
        for member, weight in zip(ranker.members_, ranker.member_weights_, strict=True)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = graph.node("Add", [total, part])
    return total


@scores_node.register
def _step_scores(ranker: RankerPipeline, graph: GraphWriter, rows: str, factor: float) -> str:
    return scores_node(ranker.steps_[-1], graph, _steps(ranker.steps_[:-1], graph, rows), factor)


def _steps(steps: Sequence[Any], graph: GraphWriter, rows: str) -> str:
    """Write consecutive transformers, in double precision."""
    for step in steps:
        rows = step_node(step, graph.in_double(), rows)
    return rows


@scores_node.register
def _tree_scores(ranker: BoostedRanker, graph: GraphWriter, rows: str, factor: float) -> str:
    nodes = TreeNodes()
    for number, tree in enumerate(ranker.tree_structures()):
        nodes.add_tree(number, tree)
    double = graph.in_double()
    if nodes.blank_zeros:
        rows = _without_zeros(double, rows, nodes.blank_zeros, ranker.n_features_in_)
    return graph.floats(double.trees(nodes.attributes(), np.array(nodes.weights) * factor, rows))


def _without_zeros(graph: GraphWriter, rows: str, features: set[int], n_features: int) -> str:
    """Make zeros of some features blanks."""
    is_chosen = np.isin(np.arange(n_features), list(features))[None]
    near = graph.node("LessOrEqual", [graph.node("Abs", [rows]), graph.array([ZERO])])
    is_zero = graph.node("And", [near, graph.array(is_chosen, np.bool_)])
    return graph.node("Where", [is_zero, graph.array([np.nan]), rows])


ZERO, INFINITE = float(np.float32(1e-35)), 1e300
"""What LightGBM takes for zero: values up to here, of either sign; and for infinity, from here."""


class _TreeNode(NamedTuple):
    tree: int
    node: int
    feature: int
    threshold: float
    true: int
    false: int
    mode: str
    blank_is_true: int


@final
class TreeNodes:
    """Collect the nodes of LightGBM's trees as ONNX lists them."""

    def __init__(self) -> None:
        self.nodes: list[_TreeNode] = []
        self.leaves: list[tuple[int, int]] = []
        self.weights: list[float] = []
        self.blanks: set[int] = set()
        """Features whose blanks have a side of their own."""
        self.blank_zeros: set[int] = set()
        """Features whose zeros are blanks."""

    def add_tree(self, number: int, tree: dict[str, Any]) -> None:
        """Add the nodes of one tree, parents before children."""
        stack, n_nodes = [(tree, 0)], 1
        while stack:
            node, position = stack.pop()
            if "split_index" not in node:
                self.nodes.append(_TreeNode(number, position, 0, 0.0, 0, 0, "LEAF", 0))
                self.leaves.append((number, position))
                self.weights.append(float(node["leaf_value"]))
                continue
            # a split: values up to the threshold go left, blanks as LightGBM sends them
            feature = int(node["split_feature"])
            threshold = plain_threshold(float(node["threshold"]))
            blank_is_true = self._side_of_blanks(node, feature, threshold)
            true, false = n_nodes, n_nodes + 1
            split = (number, position, feature, threshold, true, false, "BRANCH_LEQ", blank_is_true)
            self.nodes.append(_TreeNode(*split))
            stack += [(node["left_child"], true), (node["right_child"], false)]
            n_nodes += 2

    def _side_of_blanks(self, node: dict[str, Any], feature: int, threshold: float) -> int:
        """Return whether NaN goes to the side of small values; by default NaN is a zero."""
        missing = node["missing_type"]
        if missing != "None":
            (self.blank_zeros if missing == "Zero" else self.blanks).add(feature)
        if node["decision_type"] != "<=" or feature in self.blank_zeros & self.blanks:
            raise InvalidInputError(
                "ONNX can express trees that compare features with thresholds, and that treat the "
                f"zeros of a feature alike: this one has the decision {node['decision_type']!r} "
                f"on feature {feature} with blanks as {missing!r}. Grow trees on numbers."
            )
        return int(threshold >= 0.0 if missing == "None" else node["default_left"])

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of a TreeEnsembleRegressor, except the weights."""
        names = ["treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids"]
        names += ["modes", "missing_value_tracks_true"]
        columns = zip(*self.nodes, strict=True)
        return {
            **{f"nodes_{name}": column for name, column in zip(names, columns, strict=True)},
            "target_treeids": [tree for tree, _ in self.leaves],
            "target_nodeids": [position for _, position in self.leaves],
            "target_ids": [0] * len(self.leaves),
        }


def plain_threshold(value: float) -> float:
    """Return a threshold that splits values alike if tiny ones are not rounded to zero.

    LightGBM writes 1e300 for infinity, the threshold between all known values and blanks.
    """
    if abs(value) >= INFINITE:
        return float(np.copysign(np.finfo(float).max, value))
    if abs(value) > ZERO:
        return value
    return ZERO if value >= 0.0 else float(np.nextafter(-ZERO, -np.inf))


# Steps


@singledispatch
def step_node(step: Any, graph: GraphWriter, rows: str) -> str:
    """Write what a transformer makes of rows; scalers of scikit-learn are one shift and scale."""
    n_features = int(getattr(step, "n_features_in_", 0))
    shift, scale = scaling_of(type(step).__name__, step, n_features)
    return graph.scaled(rows, shift, scale)


@step_node.register
def _scaler(step: WithinQueryScaler, graph: GraphWriter, rows: str) -> str:
    blank = graph.node("IsNaN", [rows])
    if step.scale == "robust":
        ordered, count = _sorted_rows(graph, rows)
        shares = (0.0, 0.25, 0.5, 0.75, 1.0)
        low, first, shift, third, high = (
            _quantile(graph, ordered, count, share) for share in shares
        )
        spread = graph.node("Sub", [third, first])
        whole = graph.node("Sub", [high, low])
        scale = graph.node("Where", [_positive(graph, spread), spread, whole])
        is_known = _positive(graph, scale)
    elif step.scale == "standard":
        count = graph.node("Max", [_count_known(graph, blank), graph.array([1.0])])
        shift = _mean_of_known(graph, blank, rows, count)
        centred = graph.node("Sub", [rows, shift])
        squares = graph.node("Mul", [centred, centred])
        scale = graph.node("Sqrt", [_mean_of_known(graph, blank, squares, count)])
        least = graph.node("Mul", [graph.node("Abs", [shift]), graph.array([1e-12])])
        is_known = graph.node("Greater", [scale, least])
    elif step.scale == "max_abs":
        shift = graph.array([0.0])
        sizes = graph.node("Abs", [_fill_blanks(graph, blank, rows, 0.0)])
        scale = graph.reduced("ReduceMax", sizes, 0)
        is_known = _positive(graph, scale)
    else:
        shift = graph.reduced("ReduceMin", _fill_blanks(graph, blank, rows, np.inf), 0)
        high = graph.reduced("ReduceMax", _fill_blanks(graph, blank, rows, -np.inf), 0)
        scale = graph.node("Sub", [high, shift])
        is_known = _positive(graph, scale)
    # a feature that is constant becomes 0, and blanks stay blank
    divisor = graph.node("Where", [is_known, scale, graph.array([1.0])])
    scaled = graph.node("Div", [graph.node("Sub", [rows, shift]), divisor])
    known = graph.node("Where", [is_known, scaled, graph.array([0.0])])
    return graph.node("Where", [blank, rows, known])


@step_node.register
def _ranks(step: WithinQueryRanks, graph: GraphWriter, rows: str) -> str:
    """Write mean ranks of ties: sort, number the runs of equal values, average their positions."""
    blank = graph.node("IsNaN", [rows])
    n_items = _n_items(graph, rows)
    keys = _fill_blanks(graph, blank, rows, np.inf)
    # sort each feature, blanks last
    ordered, origin = graph.outputs("TopK", [keys, n_items], 2, axis=0, largest=0, sorted=1)
    zero, one = graph.array([0], np.int64), graph.array([1], np.int64)
    # number the runs of equal values by comparing with the value before
    last = graph.node("Sub", [n_items, one])
    first_row = graph.node("Slice", [ordered, zero, one, zero])
    all_but_last = graph.node("Slice", [ordered, zero, last, zero])
    before = graph.node("Concat", [first_row, all_but_last], axis=0)
    rises = graph.node("Cast", [graph.node("Not", [graph.node("Equal", [ordered, before])])], to=7)
    run = graph.node("CumSum", [rises, graph.array(0, np.int64)])
    # mean position of each run, by scattered sums and counts
    shape = graph.node("Shape", [rows])
    nothing = graph.node("Expand", [graph.array([[0.0]]), shape])
    ones = graph.node("Expand", [graph.array([[1.0]]), shape])
    positions = graph.node("CumSum", [ones, graph.array(0, np.int64)], exclusive=1)
    total = graph.node("ScatterElements", [nothing, run, positions], axis=0, reduction="add")
    count = graph.node("ScatterElements", [nothing, run, ones], axis=0, reduction="add")
    mean = graph.node("Div", [total, graph.node("Max", [count, graph.array([1.0])])])
    position = graph.node("GatherElements", [mean, run], axis=0)
    # positions as shares from 0 to 1, 0.5 for a single value, then in the order of the rows
    width = graph.node("Sub", [_count_known(graph, blank), graph.array([1.0])])
    share = graph.node("Div", [position, graph.node("Max", [width, graph.array([1.0])])])
    known = graph.node("Where", [_positive(graph, width), share, graph.array([0.5])])
    unsorted = graph.node("ScatterElements", [nothing, origin, known], axis=0)
    ranks = graph.node("Where", [blank, rows, unsorted])
    return ranks if step.output == "ranks" else graph.node("Concat", [rows, ranks], axis=1)


@step_node.register
def _imputer(step: WithinQueryImputer, graph: GraphWriter, rows: str) -> str:
    blank = graph.node("IsNaN", [rows])
    if step.filling == "mean":
        count = _count_known(graph, blank)
        at_least_one = graph.node("Max", [count, graph.array([1.0])])
        statistic = _mean_of_known(graph, blank, rows, at_least_one)
    else:
        ordered, count = _sorted_rows(graph, rows)
        statistic = _quantile(graph, ordered, count, 0.5 if step.filling == "median" else 0.0)
    # queries without a known value take the fallback of training
    has_any = _positive(graph, count)
    filling = graph.node("Where", [has_any, statistic, graph.array(step.fallback_[None])])
    filled = graph.node("Where", [blank, filling, rows])
    if len(step.indicated_) == 0:
        return filled
    chosen = graph.node("Gather", [blank, graph.array(step.indicated_, np.int64)], axis=1)
    return graph.node("Concat", [filled, graph.floats(chosen)], axis=1)


@step_node.register
def _encoder(step: WithinQueryEncoder, graph: GraphWriter, rows: str) -> str:
    """Write the codes of categories, and restore the order of the columns."""
    if not step.columns_:
        return rows
    if rows != graph.given:
        raise InvalidInputError(
            "ONNX takes categories as an input: WithinQueryEncoder must be the first step, in a "
            "file by `export_ranker`. Put it first, or encode the categories yourself."
        )
    # a column of codes for each column of text; a blank is empty text
    encoded, columns = [], []
    for j, (words, codes) in enumerate(zip(step.categories_, step.codes_, strict=True)):
        if "" in words:
            raise InvalidInputError(
                'Categories must not be empty for ONNX, where "" is a blank: feature '
                f'{step.columns_[j]} has the category "". Give it another name, or None.'
            )
        column = graph.node("Gather", ["categories", graph.array([j], np.int64)], axis=1)
        keys = ["" if word == BLANK else str(word) for word in words]
        columns.append((column, keys))
        encoded.append(graph.codes(column, keys, codes))
    # numbers and codes in the order of the columns that were fitted
    joined = graph.node("Concat", [rows, *encoded], axis=1)
    plain = [j for j in range(step.n_features_in_) if j not in step.columns_]
    order = np.argsort([*plain, *step.columns_])
    joined = graph.node("Gather", [joined, graph.array(order, np.int64)], axis=1)
    added = _crosses(step, graph, columns)
    return graph.node("Concat", [joined, *added], axis=1) if added else joined


def _crosses(
    step: WithinQueryEncoder, graph: GraphWriter, columns: list[tuple[str, list[str]]]
) -> list[str]:
    """Write the codes of crosses, and how often categories occur."""
    if step.crosses is None:
        return []
    # categories are numbered from 1, and 0 is unknown
    places = [graph.codes(words, keys, np.arange(1.0, len(keys) + 1)) for words, keys in columns]
    found, one = [], graph.array([1.0])
    for (a, b), keys, codes in zip(
        step.crosses_.tolist(), step.cross_keys_, step.cross_codes_, strict=True
    ):
        first = graph.node("Mul", [graph.node("Sub", [places[a], one]),
                                   graph.array([float(len(columns[b][1]))])])  # fmt: skip
        number = graph.node("Add", [first, graph.node("Sub", [places[b], one])])
        is_known = graph.node("And", [_positive(graph, places[a]), _positive(graph, places[b])])
        number = graph.node("Where", [is_known, number, graph.array([-1.0])])
        number = graph.node("Cast", [number], to=import_onnx().TensorProto.INT64)
        found.append(graph.codes_of_numbers(number, keys, codes))
    shares = zip(columns, step.frequencies_, strict=True)
    return [*found, *(graph.codes(words, keys, share) for (words, keys), share in shares)]


@step_node.register
def _kept(step: KeptFeatures, graph: GraphWriter, rows: str) -> str:
    return graph.node("Gather", [rows, graph.array(np.array(step.columns), np.int64)], axis=1)


@step_node.register
def _feature_scaler(step: FeatureScaler, graph: GraphWriter, rows: str) -> str:
    return graph.scaled(rows, step.mean_[None], step.scale_[None])


def _n_items(graph: GraphWriter, rows: str) -> str:
    return graph.node("Gather", [graph.node("Shape", [rows]), graph.array([0], np.int64)], axis=0)


def _positive(graph: GraphWriter, values: str) -> str:
    return graph.node("Greater", [values, graph.array([0.0])])


def _fill_blanks(graph: GraphWriter, blank: str, rows: str, value: float) -> str:
    return graph.node("Where", [blank, graph.array([value]), rows])


def _mean_of_known(graph: GraphWriter, blank: str, rows: str, divisor: str) -> str:
    total = graph.reduced("ReduceSum", _fill_blanks(graph, blank, rows, 0.0), 0)
    return graph.node("Div", [total, divisor])


def _count_known(graph: GraphWriter, blank: str) -> str:
    known = graph.floats(graph.node("Not", [blank]))
    return graph.reduced("ReduceSum", known, 0)


def _sorted_rows(graph: GraphWriter, rows: str) -> tuple[str, str]:
    """Sort each feature, blanks last; return it with the numbers of known values."""
    blank = graph.node("IsNaN", [rows])
    keys = _fill_blanks(graph, blank, rows, np.inf)
    n_items = _n_items(graph, rows)
    ordered, _ = graph.outputs("TopK", [keys, n_items], 2, axis=0, largest=0, sorted=1)
    return ordered, _count_known(graph, blank)


def _quantile(graph: GraphWriter, ordered: str, count: str, share: float) -> str:
    """Interpolate between the two known values around a position, feature by feature."""
    # position of the quantile among the known values
    last = graph.node("Max", [graph.node("Sub", [count, graph.array([1.0])]), graph.array([0.0])])
    position = graph.node("Mul", [last, graph.array([share])])
    low = graph.node("Floor", [position])
    high = graph.node("Min", [graph.node("Add", [low, graph.array([1.0])]), last])
    below, above = (
        graph.node("GatherElements", [ordered, graph.node("Cast", [at], to=7)], axis=0)
        for at in (low, high)
    )
    part = graph.node("Sub", [position, low])
    step = graph.node("Mul", [part, graph.node("Sub", [above, below])])
    return graph.node("Add", [below, step])


QUERY_SIZES = (1, 1, 2, 3, 5, 9, 15, 24)
"""Sizes of the queries generated for a check, repeated."""


def example_queries(ranker: Any, n_items: int) -> tuple[Any, IntArray]:
    """Generate queries for a check, of everything that `predict` accepts.

    Queries have one item and more. Values lie around the medians of an imputer, on the thresholds
    of trees and beside them; some are zero, tiny or huge, some features are constant in a query,
    and cells are blank where blanks are accepted: whole items and whole features of a query too.
    Categories are known, blank, or new.
    """
    rng = np.random.default_rng(0)
    steps = first_steps(ranker) or []
    # values around the medians of an imputer
    n_queries = n_items  # at least one item each
    ids = np.repeat(np.arange(n_queries), np.resize(QUERY_SIZES, n_queries))[:n_items]
    shape = (n_items, ranker.n_features_in_)
    known = [step.fallback_ for step in steps if type(step) is WithinQueryImputer]
    centre = known[0] if known and len(known[0]) == shape[1] else np.zeros(shape[1])
    X: Any = centre * np.exp(rng.normal(size=shape)) + 0.1 * rng.normal(size=shape)
    # values on the thresholds of trees, and the next ones above
    for j, thresholds in _thresholds(ranker).items():
        thresholds = np.clip(thresholds, -INFINITE, INFINITE)
        values = np.concatenate([thresholds, np.nextafter(thresholds, np.inf)])
        X[:, j] = np.where(rng.random(n_items) < 0.7, rng.choice(values, n_items), X[:, j])
    # features that are constant in a query, zeros, tiny and huge values
    first = np.unique(ids, return_index=True)[1][ids]  # the first item of the query
    X = np.where((rng.random((n_items, shape[1])) < 0.2)[first], X[first], X)
    drawn = rng.random(shape)
    X[drawn < 0.1] = 0.0
    is_extreme = (drawn > 0.1) & (drawn < 0.15)
    X[is_extreme] = rng.choice(
        [-0.0, ZERO, -ZERO, 1e-37, -1e-37, 1e25, -1e25], size=int(is_extreme.sum())
    )
    # blanks: single cells, features of a query, whole items
    if known or ranker.__sklearn_tags__().input_tags.allow_nan:
        blank = rng.random(shape) < 0.1
        blank |= (rng.random(shape) < 0.1)[first] | (rng.random((n_items, 1)) < 0.05)
        X[blank] = np.nan
    # known, blank and new categories
    if text_columns(ranker):
        X, encoder = X.astype(object), steps[0]
        for j, words in zip(encoder.columns_, encoder.categories_, strict=True):
            words = rng.choice([*words, BLANK, "unseen"], size=n_items)
            X[:, j] = [None if word == BLANK else str(word) for word in words]
    return X, ids


@singledispatch
def _thresholds(ranker: Any) -> dict[int, FloatArray]:  # noqa: ARG001
    """Return the thresholds of trees on each given feature; other rankers have none."""
    return {}


@_thresholds.register
def _thresholds_of_trees(ranker: BoostedRanker) -> dict[int, FloatArray]:
    nodes = TreeNodes()
    for tree in ranker.tree_structures():
        nodes.add_tree(0, tree)
    splits = [node for node in nodes.nodes if node.mode != "LEAF"]
    features = {node.feature for node in splits}
    return {j: np.array([node.threshold for node in splits if node.feature == j]) for j in features}
