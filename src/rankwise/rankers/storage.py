"""Save fitted rankers as plain metadata and arrays, and load them again, without pickle."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from inspect import signature
from os import PathLike
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

import rankwise
from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError, ModelFileError
from rankwise.core.queries import QueryFingerprints
from rankwise.core.storable import STORABLE
from rankwise.features.function_space import FeatureMap
from rankwise.features.kernels import Kernel
from rankwise.io.model_file import read_model, write_model
from rankwise.io.tree_text import are_trees
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.selection.path import SelectionPath
from rankwise.solve.iteration import CertifiedSolution, Ending

PROBE_ROWS = 2
PROBE_TOLERANCE = 1e-9

DEEPEST = 32
"""Values inside each other, at most; nothing that is saved comes near."""

KEYS = (str, int, float)
"""What keys of dictionaries are."""

LONGEST_SHOWN = 60
N_CSR_PARTS = 3


def save(ranker: BaseEstimator, path: str | PathLike[str]) -> None:
    """Write a fitted ranker with its parameters, its state and the scores of two probe rows."""
    writer = StateWriter()
    metadata = writer.estimator(ranker)
    probe = _probe_rows(ranker)
    arrays = {**writer.arrays, "probe/rows": probe, "probe/scores": _probe_scores(ranker, probe)}
    write_model(path, metadata, arrays)


def load(path: str | PathLike[str]) -> Any:
    """Load a saved ranker: same class, same parameters, same scores.

    No code from the file is run. Before anything is built, everything in the file is checked
    against what the classes accept: names, types, matching shapes, indices in range. The file holds
    two rows with their scores; they are scored again, and a file that gives other scores, or that
    is damaged or not a model, is refused.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    ModelFileError
        For anything but a complete model; the message names the field.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import rankwise
    >>> ranker = rankwise.RankRLS(alpha=0.5).fit([[0.0], [1.0]], [0, 1])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ranker.rankwise"
    >>> ranker.save(path)
    >>> rankwise.load(path)
    RankRLS(alpha=0.5)
    """
    return restore(path, *read_model(path))


def restore(
    path: str | PathLike[str], metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Any:
    """Build the ranker that the document and the arrays of a file describe."""
    reader = StateReader(path, arrays)
    ranker = reader.estimator(metadata)
    _check_probe(reader, ranker)
    return ranker


def _ranker_class(path: str | PathLike[str], name: Any) -> Any:
    """Return a public estimator by its name; a file can name nothing else."""
    known = isinstance(name, str) and name in rankwise.__all__
    cls = getattr(rankwise, name) if known else None
    if isinstance(cls, type) and issubclass(cls, BaseEstimator):
        return cls
    raise ModelFileError(
        f"{path} must hold a ranker that this version of rankwise knows: it holds {name!r}. Load "
        "it with the version that saved it."
    )


def _check_params(reader: "StateReader", cls: Any, params: Any, field: str) -> None:
    """Refuse parameters that are not named, or of a type that the constructor does not take."""
    if not isinstance(params, dict) or not all(isinstance(name, str) for name in params):
        raise reader.bad(field, "parameters by name", params)
    reader.refuse_unknown(cls, params, field)
    types = get_type_hints(cls.__init__)
    for name, value in params.items():
        if not _may_be(value, types.get(name, Any)):
            raise reader.bad(f"{field}.{name}", f"what {cls.__name__} takes", value)


def _may_be(value: Any, annotation: Any) -> bool:
    """Return whether a stored value may be a parameter; only plain types are distinguished."""
    choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else [annotation]
    if not all(get_origin(c) is Literal or c in (bool, int, float, str, NoneType) for c in choices):
        return True
    for choice in choices:
        if get_origin(choice) is Literal and _is_one_of(value, get_args(choice)):
            return True
        if choice in (bool, int, float) and isinstance(value, bool | int | float):
            return True
        if choice in (str, NoneType) and isinstance(value, choice):
            return True
    return False


def _is_one_of(value: Any, choices: tuple[Any, ...]) -> bool:
    return isinstance(value, bool | int | float | str) and value in choices


def _probe_rows(ranker: Any) -> FloatArray:
    return np.random.default_rng(0).normal(size=(PROBE_ROWS, ranker.n_features_in_))


def _probe_scores(ranker: Any, rows: FloatArray) -> FloatArray:
    """Score rows that have no column names, whatever the ranker was fitted on."""
    return ranker._scores(rows)


def _check_probe(reader: "StateReader", ranker: Any) -> None:
    rows, expected = reader.array("probe/rows", "probe"), reader.array("probe/scores", "probe")
    try:
        with np.errstate(all="ignore"):
            scores = _probe_scores(ranker, rows)
    except Exception as error:
        raise ModelFileError(
            f"{reader.path} must hold a ranker that can score rows: {type(error).__name__}, "
            f"{error}. The file is damaged; save the model again."
        ) from error
    same = np.shape(scores) == expected.shape and expected.dtype.kind == "f"
    if not (same and np.allclose(scores, expected, rtol=PROBE_TOLERANCE, atol=PROBE_TOLERANCE)):
        difference = float(np.max(np.abs(scores - expected))) if same else float("nan")
        raise ModelFileError(
            f"{reader.path} must give the scores it was saved with: they differ by up to "
            f"{difference:.3g}. The file or the installation is damaged; save the model again."
        )


@final
class StateWriter:
    """Encode values as JSON; arrays are collected in ``arrays``."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def encode(self, value: Any) -> Any:
        """Return what JSON can hold; refuse what is neither built in nor storable."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value)
        if sparse.issparse(value):
            rows = sparse.csr_array(value)
            parts = [self._array(part) for part in (rows.data, rows.indices, rows.indptr)]
            return {"csr": parts, "shape": list(rows.shape)}
        if isinstance(value, list | tuple):
            return {"list": [self.encode(v) for v in value], "tuple": isinstance(value, tuple)}
        if isinstance(value, Mapping):
            return {"dict": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if isinstance(value, Measure):
            return {"measure": repr(value)}
        if isinstance(value, BaseEstimator):
            return {"estimator": self.estimator(value)}
        return self._value(value)

    def estimator(self, value: BaseEstimator) -> dict[str, Any]:
        """Return the class, the parameters and the fitted state of an estimator of this package."""
        name = type(value).__name__
        if name not in rankwise.__all__ or getattr(rankwise, name) is not type(value):
            raise InvalidInputError(
                f"Only estimators of rankwise can be saved: got {value!r}. Use a transformer of "
                "rankwise in its place, or apply it before."
            )
        known = value.__getstate__()
        state = {k: v for k, v in known.items() if k.endswith("_") and not k.startswith("_")}
        return {
            "class": name,
            "params": self.encode(value.get_params(deep=False)),
            "state": self.encode(state),
        }

    def _value(self, value: Any) -> dict[str, Any]:
        name = type(value).__name__
        if type(value) is not STORABLE.get(name):
            raise InvalidInputError(
                f"Only built-in values can be saved: got {value!r}. A kernel that is a "
                "Python function cannot be saved; use a precomputed kernel instead."
            )
        content = {entry.name: self.encode(getattr(value, entry.name)) for entry in fields(value)}
        return {"value": name, "fields": content}

    def _array(self, value: np.ndarray) -> dict[str, str]:
        if value.dtype == object:
            if not all(isinstance(v, str) for v in value.ravel()):
                raise InvalidInputError(
                    "Arrays of a saved ranker must hold numbers or text: got Python objects."
                )
            value = value.astype(str)
        name = f"array/{len(self.arrays)}"
        self.arrays[name] = value
        return {"array": name}


@final
class StateReader:
    """Decode what `StateWriter` encoded; ``path`` names the file in errors."""

    def __init__(self, path: str | PathLike[str], arrays: Mapping[str, Any]) -> None:
        self.path = path
        self.arrays = arrays

    def decode(self, value: Any, field: str = "value", depth: int = 0) -> Any:
        """Return the value that was encoded; ``field`` is where it stands in the document."""
        if depth > DEEPEST:
            raise self.bad(field, f"at most {DEEPEST} nested values", "more")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        keys = set(value) if isinstance(value, dict) else set()
        if keys == {"array"}:
            return self.array(value["array"], field)
        if keys == {"csr", "shape"}:
            return self._csr(value, field)
        if keys == {"list", "tuple"} and isinstance(value["list"], list):
            items = [
                self.decode(v, f"{field}[{i}]", depth + 1) for i, v in enumerate(value["list"])
            ]
            return tuple(items) if value["tuple"] else items
        if keys == {"dict"} and isinstance(value["dict"], list):
            return self._dict(value["dict"], field, depth)
        if keys == {"measure"} and isinstance(value["measure"], str):
            return self._built(lambda: parse_measure(value["measure"]), field)
        if keys == {"value", "fields"} and isinstance(value["fields"], dict):
            return self._value(value, field, depth)
        if keys == {"estimator"} and isinstance(value["estimator"], dict):
            return self.estimator(value["estimator"], f"{field}.", depth + 1)
        raise self.bad(field, "a value as rankwise saves it", value)

    def estimator(
        self,
        content: Mapping[str, Any],
        prefix: str = "",
        depth: int = 0,
    ) -> Any:
        """Return an estimator with its parameters and its fitted state, all of it checked.

        Parameters
        ----------
        content : mapping
            The class, the parameters and the state, as saved.
        prefix : str
            The prefix of the names of its fields in errors; empty for the ranker of the file, which
            must be fitted to rows as wide as the probe.
        depth : int
            How deeply it is nested in other values.
        """
        cls = _ranker_class(self.path, content.get("class"))
        params = self.decode(content.get("params"), f"{prefix}params", depth)
        state = self.decode(content.get("state"), f"{prefix}state", depth)
        _check_params(self, cls, params, f"{prefix}params")
        check_state(self, cls, state, f"{prefix}state", is_inside=bool(prefix))
        estimator = self.build(cls, params, f"{prefix}params")
        for key, value in state.items():
            setattr(estimator, key, value)
        return estimator

    def array(self, name: Any, field: str) -> NDArray[Any]:
        """Return an array by its name."""
        if not isinstance(name, str) or name not in self.arrays:
            raise self.bad(field, "the name of an array of the file", name)
        array: NDArray[Any] = self.arrays[name]
        return array

    def _csr(self, value: dict[str, Any], field: str) -> Any:
        """Return sparse rows, after a full check: their use does not check anything."""
        named = value["csr"] if isinstance(value["csr"], list) else []
        names = [part.get("array") if isinstance(part, dict) else None for part in named]
        if len(names) != N_CSR_PARTS:
            raise self.bad(field, "three arrays of sparse rows", value["csr"])
        data, indices, indptr = (self.array(name, field) for name in names)
        shape = value["shape"]
        if not _is_shape(shape) or not _is_csr(data, indices, indptr, *shape):
            raise self.bad(field, "sparse rows whose indices lie inside their shape", shape)
        parts = (data, indices, indptr)
        return self._built(lambda: sparse.csr_array(parts, shape=tuple(shape)), field)

    def _dict(self, pairs: list[Any], field: str, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.bad(field, "pairs of a key and a value", pair)
            key = self.decode(pair[0], f"{field}, a key", depth + 1)
            if not isinstance(key, KEYS):
                raise self.bad(field, "names or numbers as keys", key)
            inner = self.decode(pair[1], f"{field}.{key}", depth + 1)
            if key in found:
                raise self.bad(field, "every key once", key)
            found[key] = inner
        return found

    def _value(self, value: dict[str, Any], field: str, depth: int) -> Any:
        name = value["value"]
        if not isinstance(name, str) or name not in STORABLE:
            raise ModelFileError(
                f"{self.path} must hold values that this version of rankwise knows: it holds a "
                f"{name!r} (field {field}). Load it with the version that saved it."
            )
        given = value["fields"]
        content = {k: self.decode(v, f"{field}.{k}", depth + 1) for k, v in given.items()}
        self.refuse_unknown(STORABLE[name], content, field)
        self._check_fields(STORABLE[name], content, field)
        return self.build(STORABLE[name], content, field)

    def _check_fields(self, cls: type[Any], content: dict[str, Any], field: str) -> None:
        """Refuse fields of a type other than their annotation, and indices that are negative."""
        types = get_type_hints(cls)
        for entry in fields(cls):
            if entry.name not in content:
                raise self.bad(field, f"a {cls.__name__} with {entry.name!r}", "none")
            inner = content[entry.name]
            if not _fits(inner, types[entry.name]):
                where = f"{field}.{entry.name}"
                raise self.bad(where, f"what a {cls.__name__} holds there", inner)
        lengths: dict[str, int] = {}
        for name, axes in SHAPES.get(cls.__name__, {}).items():
            shape = _shape(content.get(name))
            unequal = any(lengths.setdefault(a, n) != n for a, n in zip(axes, shape, strict=False))
            if content.get(name) is not None and (len(shape) != len(axes) or unequal):
                raise self.bad(f"{field}.{name}", "a shape that fits the others", shape)
        for name, rows in INDICES.get(cls.__name__, {}).items():
            index, of = content.get(name), content.get(rows)
            if index is not None and of is not None and index.max(initial=-1) >= len(of):
                raise self.bad(f"{field}.{name}", f"positions in {rows}", "some beyond it")

    def refuse_unknown(self, cls: Any, arguments: Mapping[str, Any], field: str) -> None:
        """Refuse arguments that this version of a class does not take."""
        unknown = sorted(set(arguments) - set(signature(cls).parameters))
        if unknown:
            raise ModelFileError(
                f"{self.path} must hold parameters that this version of rankwise knows: its "
                f"{cls.__name__} has {', '.join(map(repr, unknown))} (field {field}). Load it with "
                "the version that saved it."
            )

    def build(self, cls: Any, arguments: Mapping[str, Any], field: str) -> Any:
        """Make an instance of a class from arguments that were checked."""
        return self._built(lambda: cls(**arguments), field)

    def _built(self, make: Callable[[], Any], field: str) -> Any:
        try:
            return make()
        except Exception as error:
            raise ModelFileError(
                f"{self.path} must hold values that can be built: field {field} cannot, {error}"
            ) from error

    def bad(self, field: str, expected: str, got: object) -> ModelFileError:
        """Return the error of a field that does not hold what it must."""
        plain = isinstance(got, bool | int | float | str | tuple)
        shown = repr(got) if plain else type(got).__name__
        return ModelFileError(
            f"{self.path}: expected {expected} in field {field}, got {shown[:LONGEST_SHOWN]}. The "
            "file is damaged, or of another version of rankwise: save the model again, or load it "
            "with the version that saved it."
        )


def _is_shape(shape: Any) -> bool:
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    return whole and len(shape) == 2


def _is_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    n_rows: int,
    n_columns: int,
) -> bool:
    """Return whether arrays are sparse rows of this shape: what SciPy takes on trust."""
    if any(part.ndim != 1 for part in (data, indices, indptr)) or data.dtype.kind not in "biuf":
        return False
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or len(indptr) != n_rows + 1:
        return False
    ends_fit = indptr[0] == 0 and indptr[-1] == len(data) == len(indices)
    rising = bool(np.all(indptr[1:] >= indptr[:-1]))
    inside = len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < n_columns)
    return bool(ends_fit) and rising and inside


def _fits(value: Any, annotation: Any) -> bool:
    """Return whether a stored value has an annotated type; types unknown here are accepted."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Any or isinstance(annotation, TypeVar | str):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in inner)
    if origin is Literal:
        return _is_one_of(value, inner)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin is np.ndarray:
        kinds = ARRAY_KINDS.get(get_args(inner[1])[0] if get_args(inner[1]) else Any, "biufU")
        array = isinstance(value, np.ndarray) and value.dtype.kind in kinds
        return array and not (kinds == "iu" and value.size and value.min() < 0)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is tuple and inner[1:] == (Ellipsis,):
        return isinstance(value, tuple) and all(_fits(item, inner[0]) for item in value)
    kind = annotation if origin is None else origin
    return isinstance(value, kind) if isinstance(kind, type) else True


def check_state(
    reader: StateReader, cls: Any, state: Any, field: str = "state", *, is_inside: bool = False
) -> None:
    """Refuse fitted attributes of wrong names, types or shapes that do not fit together.

    An estimator inside another need not be fitted, and then holds none.
    """
    if not isinstance(state, dict):
        raise reader.bad(field, "fitted attributes by name", state)
    for name, value in state.items():
        if not isinstance(name, str) or not FITTED_NAME.fullmatch(name) or name in dir(cls):
            raise reader.bad(field, "names of fitted attributes", name)
        if name in FITTED and not FITTED[name](value):
            raise reader.bad(f"{field}.{name}", "what a fitted ranker holds there", value)
    if is_inside and not state:
        return
    n_features = state.get("n_features_in_")
    if n_features is None:
        raise reader.bad(f"{field}.n_features_in_", "the number of features of its rows", None)
    if not is_inside:
        _check_probe_rows(reader, n_features)
    for name in _misfits(state, n_features):
        got = _shape(state.get(name))
        raise reader.bad(f"{field}.{name}", "a shape that fits the others", got)


def _check_probe_rows(reader: StateReader, n_features: int) -> None:
    probe = reader.array("probe/rows", "probe")
    if probe.shape != (PROBE_ROWS, n_features) or not _is_finite(probe):
        raise reader.bad("state.n_features_in_", "the number of columns of the probe", n_features)


def _misfits(state: dict[str, Any], n_features: int) -> Iterator[str]:
    """Yield the fitted attributes whose shapes do not fit the number of features, or each other."""
    for name in ("X_train_", "basis_rows_"):
        if name in state and _shape(state[name])[1:] != (n_features,):
            yield name
    if "feature_names_in_" in state and len(state["feature_names_in_"]) != n_features:
        yield "feature_names_in_"
    if "predictor_" in state:
        yield from _misfits_of_weights(state, state["predictor_"].expansion_rows, n_features)
    if "condition_predictor_" in state:
        yield from _misfits_of_pairs(state, n_features)
    if "item_factors_" in state:
        shape = _shape(state.get("user_factors_"))
        if len(shape) != 2 or state["item_factors_"].shape != (n_features, shape[1]):
            yield "item_factors_"
        if _shape(state.get("item_bias_")) != (n_features,):
            yield "item_bias_"
        if _shape(state.get("ratings_")) != (*shape[:1], n_features):
            yield "ratings_"
    if "model_" in state and not are_trees(state["model_"].tobytes(), n_features):
        yield "model_"
    yield from _misfits_of_transformers(state, n_features)


def _misfits_of_pairs(state: dict[str, Any], n_features: int) -> Iterator[str]:
    """Yield what does not fit of a ranker of pairs: the objects of a side, or their weights."""
    names = ("condition_predictor_", "item_predictor_")
    rows: dict[str, Any] = {
        name: getattr(state.get(name), "expansion_rows", None) for name in names
    }
    for name, given in rows.items():
        dense = isinstance(given, np.ndarray) and given.dtype.kind == "f"
        if not (dense or sparse.issparse(given)) or len(given.shape) != 2:
            yield name
            return
    if rows["condition_predictor_"].shape[1] != n_features:
        yield "condition_predictor_"
    if _shape(state.get("dual_coef_")) != tuple(given.shape[0] for given in rows.values()):
        yield "dual_coef_"


def _misfits_of_transformers(state: dict[str, Any], n_features: int) -> Iterator[str]:
    """Yield what transformers learned that does not fit: rows of a probe need not use all of it."""
    if "fallback_" in state and state["fallback_"].shape != (n_features,):
        yield "fallback_"
    indicated = state.get("indicated_", np.empty(0))
    if indicated.size and not 0 <= indicated.min() <= indicated.max() < n_features:
        yield "indicated_"
    if "columns_" in state:
        if max(state["columns_"], default=-1) >= n_features:
            yield "columns_"
        widths = [len(categories) for categories in state.get("categories_", [])]
        if widths != [len(codes) for codes in state.get("codes_", [])]:
            yield "codes_"
        if len(widths) != len(state["columns_"]):
            yield "categories_"


def _misfits_of_weights(
    state: dict[str, Any], rows: Matrix | None, n_features: int
) -> Iterator[str]:
    if rows is None:
        if _shape(state.get("coef_"))[-1:] != (n_features,) or state["coef_"].ndim > 2:
            yield "coef_"
        return
    dense = isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and rows.ndim == 2
    if not (dense or sparse.issparse(rows)) or rows.shape[1] != n_features:
        yield "predictor_"
    elif _shape(state.get("dual_coef_"))[:1] != rows.shape[:1] or state["dual_coef_"].ndim > 2:
        yield "dual_coef_"


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of an array or of sparse rows; that of nothing is ()."""
    return tuple(getattr(value, "shape", ()))


def _is_finite(value: Any) -> bool:
    plain = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return plain and bool(np.isfinite(value).all())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_text(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "U" and value.ndim == 1


def _is_positions(value: Any) -> bool:
    plain = isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim == 1
    return plain and int(value.min(initial=0)) >= 0


def _are(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: isinstance(values, list) and all(check(value) for value in values)


def _is_names(value: Any) -> bool:
    """Return whether a value holds lists of names by names."""
    names = _are(_is_a(str))
    return isinstance(value, dict) and all(names([k]) and names(v) for k, v in value.items())


def _is_bytes(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1


def _is_column(value: Any) -> bool:
    return _is_finite(value) and value.ndim == 1


def _are_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 1


def _is_a(*kinds: type[Any]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


FITTED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(["coef_", "dual_coef_", "item_bias_", "objective_values_"], _is_finite),
    **dict.fromkeys(["user_factors_", "item_factors_", "variances_"], _is_finite),
    **dict.fromkeys(["n_queries_", "n_ignored_queries_", "n_ignored_users_"], _is_count),
    **dict.fromkeys(["n_components_", "n_features_in_"], _is_count),
    **dict.fromkeys(["n_iter_", "best_iter_"], lambda n: _is_count(n) or _is_positions(n)),
    **dict.fromkeys(["C_", "improvement_"], _is_number),
    "alpha_": lambda value: _is_number(value) or _is_column(value),
    "held_out_value_": lambda value: _is_number(value) or _are_floats(value),
    **dict.fromkeys(["fitted_with_qid_", "zero_based_"], _is_a(bool)),
    **dict.fromkeys(["cost_", "ties_"], _is_a(str)),
    "feature_names_in_": _is_text,
    **dict.fromkeys(["predictor_", "condition_predictor_", "item_predictor_"], _is_a(FeatureMap)),
    "kernel_": _is_a(Kernel),
    "path_": _is_a(SelectionPath, NoneType),
    "search_": _is_a(list),
    "paths_": _are(_is_a(SelectionPath)),
    "solution_": _is_a(CertifiedSolution),
    "ratings_": sparse.issparse,
    "training_queries_": _is_a(QueryFingerprints, NoneType),
    "needs_qid_": _is_a(bool),
    "steps_": _are(_is_a(BaseEstimator)),
    "table_columns_": _is_names,
    "columns_": _are(_is_count),
    "categories_": _are(_is_text),
    "codes_": _are(_is_column),
    "fallback_": _is_column,
    "indicated_": _is_positions,
    "model_": _is_bytes,
    "feature_importances_": _is_column,
    "n_trees_": _is_count,
    "ending_": _is_a(Ending),
    "ending_reason_": _is_a(str),
    "preparation_": _are(_is_a(BaseEstimator)),
    "members_": _are(_is_a(BaseEstimator)),
    "member_weights_": _is_column,
}
"""What fitted attributes hold; those not listed here are checked as values only."""

FITTED_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")

INDICES = {"Prior": {"first": "R", "second": "R", "basis": "items"}}
"""Fields whose entries are positions in another field."""

SHAPES = {
    "Prior": {"R": "nr", "root": "rr", "first": "p", "second": "p", "extra_noise": "p"},
    "Posterior": {"C": "rr", "w": "r", "tau": "p", "nu": "p"},
    "Comparisons": dict.fromkeys(("winner", "loser", "count", "tied", "margin"), "p"),
    "SelectionPath": {
        **dict.fromkeys(("grid", "values", "standard_errors", "errors"), "v"),
        "per_query": "vq",
    },
}
"""Lengths of the axes of fields, by letters: axes of one letter in one value are equally long."""

ARRAY_KINDS: dict[Any, str] = {
    np.float64: "f",
    np.intp: "iu",
    np.int64: "iu",
    np.uint64: "u",
    np.bool_: "b",
}
"""Kinds of arrays by the type in an annotation; whole numbers are positions, not negative."""
