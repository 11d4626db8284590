"""Save fitted rankers as plain metadata and arrays, and load them again, without pickle."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from inspect import signature
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, MissingExtraError, ModelFileError
from rankwise.core.params import REFUSED, rules_of
from rankwise.core.registry import offered
from rankwise.core.storable import (
    STORABLE,
    fields_of,
    first_misfit,
    fits,
    is_fitted_name,
    state_of,
)
from rankwise.io.model_file import read_model, write_model
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure

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
    cls = offered(name)
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
    rules = rules_of(cls)
    for name, value in params.items():
        taken = reader.built(partial(rules[name].take, value), f"{field}.{name}")
        if taken is REFUSED:
            raise reader.bad(f"{field}.{name}", f"what {cls.__name__} takes", value)


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
    except MissingExtraError:  # the file is whole: this environment lacks what scores its rows
        raise
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
        if offered(name) is not type(value):
            raise InvalidInputError(
                f"Only estimators of rankwise can be saved: got {value!r}. Use a transformer of "
                "rankwise in its place, or apply it before."
            )
        known = value.__getstate__()
        state = {k: v for k, v in known.items() if is_fitted_name(k)}
        cls: Any = type(value)
        for attribute in state:
            if attribute not in state_of(cls):
                raise InvalidInputError(
                    f"`{attribute}` must be declared to be saved: {name} has no annotation of it. "
                    "Delete the attribute, or add an annotation to the class."
                )
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
            return self.built(lambda: parse_measure(value["measure"]), field)
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
        return self.built(lambda: sparse.csr_array(parts, shape=tuple(shape)), field)

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

    def _check_fields(self, cls: Any, content: dict[str, Any], field: str) -> None:
        """Refuse fields of a type or shape other than their annotations."""
        annotations = fields_of(cls)
        for entry in fields(cls):
            if entry.name not in content:
                raise self.bad(field, f"a {cls.__name__} with {entry.name!r}", "none")
            inner = content[entry.name]
            if not fits(inner, annotations[entry.name]):
                where = f"{field}.{entry.name}"
                raise self.bad(where, f"what a {cls.__name__} holds there", inner)
        self.refuse_misfits(annotations, content, field)

    def refuse_misfits(
        self, annotations: Mapping[str, Any], values: Mapping[str, Any], field: str
    ) -> None:
        """Refuse values of declared types whose shapes or positions do not fit together."""
        name = first_misfit(annotations, values)
        if name is not None:
            got = tuple(getattr(values[name], "shape", ()))
            raise self.bad(f"{field}.{name}", "a shape that fits the others", got)

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
        return self.built(lambda: cls(**arguments), field)

    def built(self, make: Callable[[], Any], field: str) -> Any:
        """Call a function; its errors are errors of a field."""
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


def check_state(
    reader: StateReader, cls: Any, state: Any, field: str = "state", *, is_inside: bool = False
) -> None:
    """Refuse fitted attributes of wrong names, types or shapes that do not fit together.

    An estimator inside another need not be fitted, and then holds none.
    """
    if not isinstance(state, dict):
        raise reader.bad(field, "fitted attributes by name", state)
    declared = state_of(cls)
    for name, value in state.items():
        if name not in declared:
            raise reader.bad(field, "names of fitted attributes", name)
        if not fits(value, declared[name]):
            raise reader.bad(f"{field}.{name}", "what a fitted ranker holds there", value)
    if is_inside and not state:
        return
    n_features = state.get("n_features_in_")
    if n_features is None:
        raise reader.bad(f"{field}.n_features_in_", "the number of features of its rows", None)
    if not is_inside:
        _check_probe_rows(reader, n_features)
    reader.refuse_misfits(declared, state, field)


def _check_probe_rows(reader: StateReader, n_features: int) -> None:
    probe = reader.array("probe/rows", "probe")
    is_finite = probe.dtype.kind == "f" and bool(np.isfinite(probe).all())
    if probe.shape != (PROBE_ROWS, n_features) or not is_finite:
        raise reader.bad("state.n_features_in_", "the number of columns of the probe", n_features)
