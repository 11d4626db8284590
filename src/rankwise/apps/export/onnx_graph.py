"""Write scoring functions as ONNX graphs, and run them with onnxruntime."""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from rankwise import __version__
from rankwise.comparisons.gp.inference.posterior import Posterior
from rankwise.core.arrays import FloatArray, IntArray, dense_rows
from rankwise.core.checks import is_missing
from rankwise.core.errors import InvalidInputError, extra
from rankwise.features.covariances import Scaled, SquaredExponential
from rankwise.features.function_space import Expansion
from rankwise.features.kernels import Gaussian, Kernel, Laplacian, Linear, Polynomial
from rankwise.features.known_rows import ROUNDING, KnownRows
from rankwise.rankers.scoring_function import ScoringFunction

OPSET, ML_OPSET, IR_VERSION = 18, 4, 8
ML_DOMAIN, TEXT = "ai.onnx.ml", 8
FLOAT_TYPES: dict[Any, int] = {np.float32: 1, np.float64: 11}

OnnxPrecision: TypeAlias = Literal["double", "single"]
_DTYPES: dict[str, Any] = {"double": np.float64, "single": np.float32}


def import_onnx() -> Any:
    """Import and return onnx, which is needed nowhere else."""
    with extra("Exporting to ONNX", "onnx", "export"):
        import onnx  # noqa: PLC0415 - optional dependency
    return onnx


def import_onnxruntime() -> Any:
    """Import and return onnxruntime, which is needed nowhere else."""
    with extra("Checking an ONNX file", "onnxruntime", "export"):
        import onnxruntime  # noqa: PLC0415 - optional dependency
    return onnxruntime


def write_onnx(
    function: ScoringFunction,
    posterior: Posterior | None,
    *,
    name: str,
    names: Sequence[str],
    precision: OnnxPrecision,
) -> bytes:
    """Return an ONNX file with the input ``X`` and the outputs ``scores`` and ``variance``.

    Scalars are folded into the stored arrays: onnxruntime keeps a factor of a product in single
    precision even in a graph of double precision.

    Parameters
    ----------
    function : ScoringFunction
        What to write.
    posterior : Posterior or None
        Of a process; then the variance of every score is an output too.
    name : str
        Of the graph.
    names : sequence of str
        The names of the features, stored in the metadata.
    precision : {"double", "single"}
        Of the input, the arrays and the outputs.
    """
    graph = GraphWriter.of(precision)
    rows = graph.prepared(function, "X")
    if function.kernel is None or function.rows is None:
        graph.node("MatMul", [rows, graph.array(function.weights)], "scores")
    else:
        K = graph.kernel(function.kernel, rows, function.rows)
        graph.node("MatMul", [K, graph.array(function.weights)], "scores")
        if posterior is not None:
            graph.variance(posterior, function.kernel, rows, K)
    outputs = ["scores"] if posterior is None else ["scores", "variance"]
    shape = ["n_items"] if function.weights.ndim == 1 else ["n_items", function.weights.shape[1]]
    return onnx_file(graph, [OnnxInput("X", tuple(names))], outputs, shape, name=name)


def write_pairs_onnx(
    conditions: Expansion,
    items: Expansion,
    weights: FloatArray,
    *,
    name: str,
    precision: OnnxPrecision,
) -> bytes:
    """Return an ONNX file with the inputs ``conditions`` and ``items`` and their ``scores``.

    Parameters
    ----------
    conditions, items : Expansion
        The kernels with the objects learned from.
    weights : (n_known_conditions, n_known_items)
        The dual weights.
    name : str
        Of the graph.
    precision : {"double", "single"}
        Of the inputs, the arrays and the output.
    """
    graph, inputs = GraphWriter.of(precision), []
    kernels = []
    for given, objects in (("conditions", conditions), ("items", items)):
        rows = dense_rows(objects.rows)
        columns = tuple(f"x{at}" for at in range(1, rows.shape[1] + 1))
        inputs.append(OnnxInput(given, columns, n_rows=f"n_{given}"))
        kernels.append(
            graph.node("MatMul", [given, graph.array(rows.T)])
            if objects.kernel.is_linear
            else graph.kernel(objects.kernel, given, rows)
        )
    left = graph.node("MatMul", [kernels[0], graph.array(weights)])
    right = graph.node("Transpose", [kernels[1]], perm=[1, 0])
    graph.node("MatMul", [left, right], "scores")
    return onnx_file(graph, inputs, ["scores"], ["n_conditions", "n_items"], name=name)


@final
@dataclass(frozen=True)
class OnnxInput:
    """An input of a graph: its name, what its columns are called, and whether they are text."""

    name: str
    columns: tuple[str, ...]
    is_text: bool = False
    n_rows: str = "n_items"


def onnx_file(
    graph: "GraphWriter",
    inputs: Sequence[OnnxInput],
    outputs: Sequence[str],
    shape: Sequence[str | int],
    *,
    name: str,
) -> bytes:
    """Return a graph as a file, with the names of the columns of its inputs as metadata."""
    onnx = import_onnx()
    helper = onnx.helper
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype))
    # inputs and outputs, with their types and shapes
    values = [
        helper.make_tensor_value_info(
            given.name, TEXT if given.is_text else kind, [given.n_rows, len(given.columns)]
        )
        for given in inputs
    ]
    domains = {"": OPSET, **{domain: ML_OPSET for _, _, _, domain, _ in graph.nodes if domain}}
    # the graph: nodes, inputs, outputs and stored arrays
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node(op, ins, outs, domain=domain, **options)
                for op, ins, outs, domain, options in graph.nodes
            ],
            name,
            values,
            [helper.make_tensor_value_info(output, kind, shape) for output in outputs],
            [onnx.numpy_helper.from_array(a, key) for key, a in graph.arrays.items()],
        ),
        opset_imports=[helper.make_opsetid(domain, opset) for domain, opset in domains.items()],
        ir_version=IR_VERSION,
        producer_name="rankwise",
        producer_version=__version__,
    )
    # names of the columns as metadata
    first, *others = inputs
    more = {f"{given.name}_names": json.dumps(list(given.columns)) for given in others}
    names = {"feature_names": json.dumps(list(first.columns)), "model": name}
    helper.set_model_props(model, {**names, **more})
    onnx.checker.check_model(model)
    return model.SerializeToString()


def input_columns(content: bytes) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns of each input of an ONNX file, by the name of the input."""
    session = _session(content)
    known = session.get_modelmeta().custom_metadata_map
    first, *others = [entry.name for entry in session.get_inputs()]
    keys = {first: "feature_names", **{name: f"{name}_names" for name in others}}
    return {name: tuple(json.loads(known[key])) for name, key in keys.items()}


def run_onnx(
    content: bytes, *batches: NDArray[Any], text: Sequence[int] = ()
) -> dict[str, FloatArray]:
    """Return the outputs of an ONNX file by onnxruntime, for rows passed in batches.

    The features ``text`` are given as categories, the others as numbers.
    """
    session = _session(content)
    given = {entry.name: entry.type for entry in session.get_inputs()}
    dtype = np.float64 if given["X"] == "tensor(double)" else np.float32
    names = [output.name for output in session.get_outputs()]
    found = []
    for X in batches:
        # numbers and text are separate inputs
        feed = {"X": np.ascontiguousarray(np.delete(X, list(text), axis=1), dtype=dtype)}
        if len(text) > 0:
            words = [["" if is_missing(v) else str(v) for v in row] for row in X[:, text].tolist()]
            feed["categories"] = np.array(words, dtype=object)
        found.append(session.run(names, feed))
    parts = zip(*found, strict=True)
    return {key: np.concatenate(part).astype(float) for key, part in zip(names, parts, strict=True)}


def run_pairs_onnx(content: bytes, conditions: FloatArray, items: FloatArray) -> FloatArray:
    """Return the scores of an ONNX file of pairs of objects by onnxruntime."""
    session = _session(content)
    is_double = session.get_inputs()[0].type == "tensor(double)"
    dtype = np.float64 if is_double else np.float32
    feed = {"conditions": conditions.astype(dtype), "items": items.astype(dtype)}
    scores: FloatArray = session.run(["scores"], feed)[0].astype(float)
    return scores


def _session(content: bytes) -> Any:
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@final
class GraphWriter:
    """Collect the nodes and stored arrays of a graph; a method returns the name of its result."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.nodes: list[tuple[str, list[str], list[str], str, dict[str, Any]]] = []
        self.arrays: dict[str, Any] = {}
        self.given = ""
        """The rows that the input ``categories`` belongs to, if there is one."""

    @classmethod
    def of(cls, precision: OnnxPrecision) -> Self:
        """Begin a graph of single or double precision."""
        return cls(_DTYPES[precision])

    def in_double(self) -> "GraphWriter":
        """Return a writer of the same graph for numbers of double precision."""
        double = copy(self)
        double.dtype = np.float64
        return double

    def array(self, values: Any, dtype: Any = None) -> str:
        """Store an array."""
        name = f"array_{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(values, dtype=dtype or self.dtype)
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        output: str | None = None,
        *,
        domain: str = "",
        **options: Any,
    ) -> str:
        """Add an operation."""
        output = output or f"value_{len(self.nodes)}"
        self.nodes.append((op, list(inputs), [output], domain, options))
        return output

    def outputs(self, op: str, inputs: Sequence[str], n_outputs: int, **options: Any) -> list[str]:
        """Add an operation with several results."""
        found = [f"value_{len(self.nodes)}_{at}" for at in range(n_outputs)]
        self.nodes.append((op, list(inputs), found, "", options))
        return found

    def floats(self, values: str) -> str:
        """Cast integers or booleans to the precision of the graph."""
        return self.node("Cast", [values], to=FLOAT_TYPES[self.dtype])

    def scores(self, function: ScoringFunction, rows: str, factor: float) -> str:
        """Write the scores of a function, times a factor."""
        rows = self.prepared(function, rows)
        if function.kernel is not None and function.rows is not None:
            rows = self.kernel(function.kernel, rows, function.rows)
        return self.node("MatMul", [rows, self.array(factor * function.weights)])

    def prepared(self, function: ScoringFunction, rows: str) -> str:
        """Scale rows, and replace rows that equal known ones up to rounding."""
        if function.is_scaled:
            rows = self.scaled(rows, function.shift, function.scale)
        return rows if function.known is None else self.recognized_rows(function.known, rows)

    def recognized_rows(self, known: KnownRows, rows: str) -> str:
        """Write `KnownRows.in_place_of`."""
        # distance to each known row, in units of its rounding widths
        expanded = self.node("Unsqueeze", [rows, self.array([1], np.int64)])
        difference = self.node("Abs", [self.node("Sub", [expanded, self.array(known.rows)])])
        shares = self.node("Div", [difference, self.array(known.widths)])
        distance = self.reduced("ReduceMax", shares, 2, keepdims=0)
        # the two nearest known rows
        least = self.array([min(2, len(known.rows))], np.int64)
        smallest, row_number = self.outputs(
            "TopK", [distance, least], 2, axis=1, largest=0, sorted=1
        )
        first, last = (
            self.node("Gather", [smallest, self.array([at], np.int64)], axis=1) for at in (0, -1)
        )
        # recognised where the nearest is within rounding, and clearly nearer than the second
        is_near = self.node("LessOrEqual", [first, self.array(ROUNDING)])
        if len(known.rows) > 1:
            twice = self.node("Add", [first, first])
            is_near = self.node("And", [is_near, self.node("LessOrEqual", [twice, last])])
        # its stand-in takes the place of the row
        chosen = self.node("Gather", [row_number, self.array([0], np.int64)], axis=1)
        items = self.node("Gather", [self.array(known.stand_ins(self.dtype)), chosen], axis=0)
        flat = self.node("Squeeze", [items, self.array([1], np.int64)])
        return self.node("Where", [is_near, flat, rows])

    def codes(self, words: str, keys: Sequence[str], values: FloatArray) -> str:
        """Replace text by numbers, 0 where a key is unknown."""
        onnx = import_onnx()
        helper, kind = onnx.helper, FLOAT_TYPES[self.dtype]
        options = {
            "keys_tensor": helper.make_tensor(
                "keys", TEXT, [len(keys)], [k.encode() for k in keys]
            ),
            "values_tensor": helper.make_tensor("values", kind, [len(keys)], values.tolist()),
            "default_tensor": helper.make_tensor("default", kind, [1], [0.0]),
        }
        return self.node("LabelEncoder", [words], domain=ML_DOMAIN, **options)

    def codes_of_numbers(self, numbers: str, keys: IntArray, values: FloatArray) -> str:
        """Replace whole numbers by others, 0 where a key is unknown."""
        onnx = import_onnx()
        kind = FLOAT_TYPES[self.dtype]
        make = onnx.helper.make_tensor
        options = {
            "keys_tensor": onnx.numpy_helper.from_array(keys.astype(np.int64), "keys"),
            "values_tensor": make("values", kind, [len(keys)], values.tolist()),
            "default_tensor": make("default", kind, [1], [0.0]),
        }
        return self.node("LabelEncoder", [numbers], domain=ML_DOMAIN, **options)

    def trees(self, attributes: dict[str, Any], weights: FloatArray, rows: str) -> str:
        """Write a sum of trees for rows in double precision; its result is in single precision."""
        onnx = import_onnx()
        options = {**attributes, "n_targets": 1, "post_transform": "NONE"}
        for name, values in (
            ("nodes_values", options.pop("nodes_values")),
            ("target_weights", weights),
        ):
            array = np.asarray(values, dtype=np.float64)
            options[f"{name}_as_tensor"] = onnx.numpy_helper.from_array(array, name)
        sums = self.node("TreeEnsembleRegressor", [rows], domain=ML_DOMAIN, **options)
        return self.node("Reshape", [sums, self.array([-1], np.int64)])

    def scaled(self, rows: str, shift: FloatArray, scale: FloatArray) -> str:
        """Subtract and divide, feature by feature."""
        return self.node("Div", [self.node("Sub", [rows, self.array(shift)]), self.array(scale)])

    def reduced(self, op: str, matrix: str, axis: int, *, keepdims: int = 1) -> str:
        """Reduce along an axis."""
        return self.node(op, [matrix, self.array([axis], np.int64)], keepdims=keepdims)

    def sums(self, matrix: str, axis: int = 1) -> str:
        """Sum along an axis."""
        return self.reduced("ReduceSum", matrix, axis, keepdims=0)

    @singledispatchmethod
    def kernel(self, kernel: Kernel, rows: str, others: FloatArray) -> str:  # noqa: ARG002
        """Write the kernel of the input rows with stored rows, (n_items, n_rows)."""
        raise InvalidInputError(
            "ONNX can express the kernels Linear, Gaussian, Laplacian, Polynomial and "
            f"SquaredExponential: got {kernel!r}, which is computed by other code. Fit with one of "
            "these to export the ranker."
        )

    @kernel.register
    def _gaussian(self, kernel: Gaussian, rows: str, others: FloatArray) -> str:
        root = np.sqrt(2.0 * float(kernel.gamma))
        return self._exponential(rows, others, np.full(others.shape[1], 1.0 / root), 1.0)

    @kernel.register
    def _squared_exponential(
        self, kernel: SquaredExponential, rows: str, others: FloatArray
    ) -> str:
        lengths = np.broadcast_to(np.asarray(kernel.length_scale, float), others.shape[1:])
        K = self._exponential(rows, others, lengths, kernel.amplitude**2)
        if kernel.item_effect == 0.0:
            return K
        expanded = self.node("Unsqueeze", [rows, self.array([1], np.int64)])
        equal = self.floats(self.node("Equal", [expanded, self.array(others)]))
        same = self.reduced("ReduceMin", equal, 2, keepdims=0)
        effect = np.full(len(others), (kernel.amplitude * kernel.item_effect) ** 2)
        return self.node("Add", [K, self.node("Mul", [same, self.array(effect)])])

    @kernel.register
    def _laplacian(self, kernel: Laplacian, rows: str, others: FloatArray) -> str:
        factor = np.full(others.shape[1], float(kernel.gamma))
        stretched = self.node("Mul", [rows, self.array(factor)])
        expanded = self.node("Unsqueeze", [stretched, self.array([1], np.int64)])
        difference = self.node("Abs", [self.node("Sub", [expanded, self.array(others * factor)])])
        return self.node("Exp", [self.node("Neg", [self.sums(difference, 2)])])

    @kernel.register
    def _polynomial(self, kernel: Polynomial, rows: str, others: FloatArray) -> str:
        products = self.node("MatMul", [rows, self.array(float(kernel.gamma) * others.T)])
        shifted = self.node("Add", [products, self.array(np.full(len(others), kernel.coef0))])
        return self.node("Pow", [shifted, self.array(float(kernel.degree))])

    @kernel.register
    def _scaled_kernel(self, kernel: Scaled, rows: str, others: FloatArray) -> str:
        factor = np.full(len(others), kernel.amplitude**2)
        if kernel.kernel.is_linear:
            return self.node("MatMul", [rows, self.array(factor * others.T)])
        return self.node("Mul", [self.kernel(kernel.kernel, rows, others), self.array(factor)])

    def _exponential(
        self, rows: str, others: FloatArray, lengths: FloatArray, factor: float
    ) -> str:
        """Write ``factor * exp(-|a - b|^2 / 2)`` for rows divided by their length-scales.

        Both are centred at the mean of the stored rows, so that an offset causes no cancellation.
        """
        # -|a - b|^2 / 2 by one product; rounding must not make it positive
        shift = others.mean(axis=0)
        a = self.scaled(rows, shift, lengths)
        b = (others - shift) / lengths
        products = self.node("MatMul", [a, self.array(b.T)])
        halves = self.array(np.full((len(lengths), 1), 0.5))
        own = self.node("MatMul", [self.node("Mul", [a, a]), halves])
        other = 0.5 * np.square(b).sum(axis=1)
        exponent = self.node("Sub", [self.node("Sub", [products, own]), self.array(other)])
        K = self.node("Exp", [self.node("Min", [exponent, self.array(0.0)])])
        if factor == 1.0:
            return K
        return self.node("Mul", [K, self.array(np.full(len(others), factor))])

    def variance(self, posterior: Posterior, kernel: Kernel, rows: str, K: str) -> str:
        """Write the variance of the scores, r of [TH10] eq. (11) without the inverse kernel."""
        A = posterior.prior.project(np.eye(len(posterior.items)))
        # [TH10] eq. (11), gp-predict: prior variance, less what items explain, plus their posterior
        explained = self._squares(K, A)
        kept = self._squares(K, solve_triangular(posterior.C, A, lower=True))
        left = self.node("Sub", [self.diagonal(kernel, rows), explained])
        unexplained = self.node("Max", [left, self.array(0.0)])
        return self.node("Add", [unexplained, kept], "variance")

    def _squares(self, K: str, A: FloatArray) -> str:
        V = self.node("MatMul", [K, self.array(A.T)])
        return self.sums(self.node("Mul", [V, V]))

    @singledispatchmethod
    def diagonal(self, kernel: Kernel, rows: str) -> str:  # noqa: ARG002
        """Write the prior variance of the rows: one number for a stationary kernel."""
        return self.array(kernel.diagonal(np.zeros((1, 1))))

    @diagonal.register
    def _linear_diagonal(self, kernel: Linear, rows: str) -> str:  # noqa: ARG002
        return self.sums(self.node("Mul", [rows, rows]))

    @diagonal.register
    def _polynomial_diagonal(self, kernel: Polynomial, rows: str) -> str:
        norms = self.sums(self.node("Mul", [rows, rows]))
        stretched = self.node("Mul", [norms, self.array([float(kernel.gamma)])])
        shifted = self.node("Add", [stretched, self.array([kernel.coef0])])
        return self.node("Pow", [shifted, self.array(float(kernel.degree))])

    @diagonal.register
    def _scaled_diagonal(self, kernel: Scaled, rows: str) -> str:
        inner = self.diagonal(kernel.kernel, rows)
        return self.node("Mul", [inner, self.array([kernel.amplitude**2])])
