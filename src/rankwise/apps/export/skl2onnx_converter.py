"""Teach skl2onnx to convert rankers, alone or at the end of a scikit-learn pipeline."""

from typing import Any

import numpy as np

from rankwise.apps.export.onnx_graph import ML_DOMAIN, OPSET, GraphWriter, import_onnx
from rankwise.apps.export.onnx_steps import first_steps, scores_node
from rankwise.automatic.auto_ranker import AutoRanker
from rankwise.automatic.search_ranker import SearchRanker
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.core.errors import InvalidInputError, extra
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV
from rankwise.rankers.kpcrank.kpc_rank import KPCRank, KPCRankCV
from rankwise.rankers.linear.linear_rank_rls import LinearRankRLS
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.rls.greedy_rank_rls import GreedyRankRLS
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV
from rankwise.rankers.scoring_function import scoring_function
from rankwise.rankers.svm.rank_svm import RankSVM
from rankwise.rankers.trees.boosted_ranker import BoostedRanker

CONVERTED: tuple[type, ...] = (
    RankRLS, RankRLSCV, GreedyRankRLS, LinearRankRLS, KPCRank, KPCRankCV, RankSVM, DORM, DORMCV,
    PreferenceGP, BoostedRanker, RankerPipeline, SearchRanker, AutoRanker,
)  # fmt: skip
ML_VERSION = 3
"""The operators of trees that every skl2onnx in use knows."""


def import_skl2onnx() -> Any:
    """Return skl2onnx; it is needed here and nowhere else."""
    with extra("Converting by skl2onnx", "skl2onnx", "export"):
        import skl2onnx  # noqa: PLC0415 - optional dependency
    return skl2onnx


def register_skl2onnx() -> None:
    """Register a converter for every ranker with skl2onnx; calling it again changes nothing.

    ``skl2onnx.to_onnx`` then accepts rankers alone and at the end of a `Pipeline`, after any step
    that skl2onnx converts itself. The scores are the output ``variable``, with one column for each
    output of the ranker, as for regressors; for a `PreferenceGP` it is the mean. The precision is
    that of the example rows.

    `RankerPipeline`, `SearchRanker` and `AutoRanker` compare the items of a query: pass the
    rows of one query at a time.

    Unlike `export_ranker`, skl2onnx does not check what it writes; compare a few rows with
    `predict`.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime, skl2onnx
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from rankwise import RankRLS, register_skl2onnx
    >>> register_skl2onnx()
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> pipeline = make_pipeline(StandardScaler(), RankRLS(kernel="gaussian")).fit(X, X[:, 0])
    >>> content = skl2onnx.to_onnx(pipeline, X).SerializeToString()
    >>> scores = onnxruntime.InferenceSession(content).run(["variable"], {"X": X})[0]
    >>> bool(np.allclose(scores[:, 0], pipeline.predict(X)))
    True
    """
    skl2onnx = import_skl2onnx()
    for kind in CONVERTED:
        skl2onnx.update_registered_converter(kind, f"Rankwise{kind.__name__}", _set_shape, _convert)


def _set_shape(operator: Any) -> None:
    """Say what comes out: floats of the precision of the rows, a column for each output."""
    given = operator.inputs[0].type
    tensor = import_skl2onnx().common.data_types.guess_tensor_type(given)
    tensor.shape = [given.shape[0], _n_outputs(operator.raw_operator)]
    operator.outputs[0].type = tensor


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the scores of the rows that reach a ranker."""
    if container.target_opset < OPSET:
        raise InvalidInputError(
            f"`target_opset` must be at least {OPSET} for a ranker: got {container.target_opset}."
        )
    is_double = "Double" in type(operator.outputs[0].type).__name__
    graph = GraphWriter.of("double" if is_double else "single")
    parts = [graph.in_double().floats(given.full_name) for given in operator.inputs]
    rows = parts[0] if len(parts) == 1 else graph.node("Concat", parts, axis=1)
    scores = _scores(operator.raw_operator, graph, rows)
    columns = graph.array([-1, _n_outputs(operator.raw_operator)], np.int64)
    graph.node("Reshape", [scores, columns], operator.outputs[0].full_name)
    _add(graph, scope, container)


def _scores(ranker: Any, graph: GraphWriter, rows: str) -> str:
    if first_steps(ranker) is not None:
        return scores_node(ranker, graph, rows, 1.0)
    return graph.scores(scoring_function(ranker), graph.floats(rows), 1.0)


def _n_outputs(ranker: Any) -> int:
    if first_steps(ranker) is not None:
        return 1
    weights = scoring_function(ranker).weights
    return 1 if weights.ndim == 1 else int(weights.shape[1])


def _add(graph: GraphWriter, scope: Any, container: Any) -> None:
    """Add the arrays and nodes of a graph to a model, under names that are free in it."""
    onnx = import_onnx()
    own = [*graph.arrays, *(name for _, _, outs, _, _ in graph.nodes[:-1] for name in outs)]
    names = {name: scope.get_unique_variable_name(f"rankwise_{name}") for name in own}
    # arrays, then nodes, renamed
    for key, values in graph.arrays.items():
        tensor = onnx.numpy_helper.from_array(values, names[key])
        container.add_initializer(names[key], tensor.data_type, tensor.dims, tensor)
    for op, ins, outs, domain, options in graph.nodes:
        container.add_node(
            op,
            [names.get(name, name) for name in ins],
            [names.get(name, name) for name in outs],
            op_domain=domain,
            op_version=ML_VERSION if domain == ML_DOMAIN else OPSET,
            name=scope.get_unique_operator_name(f"rankwise_{op}"),
            **options,
        )
