"""Save fitted rankers as plain metadata and arrays, and load them again, without pickle."""

from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from os import PathLike
from typing import Any, final

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

import rankwise
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, ModelFileError
from rankwise.core.storable import STORABLE
from rankwise.io.model_file import read_model, write_model
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure

PROBE_ROWS = 2
PROBE_TOLERANCE = 1e-9


def save(ranker: BaseEstimator, path: str | PathLike[str]) -> None:
    """Write a fitted ranker with its parameters, its state and the scores of two probe rows."""
    writer = StateWriter()
    fitted = {k: v for k, v in vars(ranker).items() if k.endswith("_") and not k.startswith("_")}
    metadata = {
        "class": type(ranker).__name__,
        "params": writer.encode(ranker.get_params(deep=False)),
        "state": writer.encode(fitted),
    }
    probe = _probe_rows(ranker)
    arrays = {**writer.arrays, "probe/rows": probe, "probe/scores": _probe_scores(ranker, probe)}
    write_model(path, metadata, arrays)


def load(path: str | PathLike[str]) -> Any:
    """Load a saved ranker: same class, same parameters, same scores.

    No code from the file is run. The file holds two rows with their scores; they are scored again,
    and a file that does not give the same scores, or is damaged or foreign, is refused.

    Parameters
    ----------
    path : path
        The file.

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
    metadata, arrays = read_model(path)
    reader = StateReader(path, arrays)
    cls = _ranker_class(path, metadata.get("class"))
    ranker = reader.build(cls, reader.decode(metadata["params"]))
    for key, value in reader.decode(metadata["state"]).items():
        setattr(ranker, key, value)
    _check_probe(path, ranker, arrays)
    return ranker


def _ranker_class(path: str | PathLike[str], name: Any) -> Any:
    """Return a public estimator by its name; nothing else can be named by a file."""
    cls = getattr(rankwise, name) if name in rankwise.__all__ else None
    if isinstance(cls, type) and issubclass(cls, BaseEstimator):
        return cls
    raise ModelFileError(
        f"{path} must hold a ranker that this version of rankwise knows: it holds {name!r}. Load "
        "it with the version that saved it."
    )


def _probe_rows(ranker: Any) -> FloatArray:
    return np.random.default_rng(0).normal(size=(PROBE_ROWS, ranker.n_features_in_))


def _probe_scores(ranker: Any, rows: FloatArray) -> FloatArray:
    """Score rows that have no column names, whatever the ranker was fitted on."""
    return ranker._scores(rows)


def _check_probe(path: str | PathLike[str], ranker: Any, arrays: dict[str, Any]) -> None:
    expected = arrays["probe/scores"]
    scores = _probe_scores(ranker, arrays["probe/rows"])
    if not np.allclose(scores, expected, rtol=PROBE_TOLERANCE, atol=PROBE_TOLERANCE):
        error = float(np.max(np.abs(scores - expected)))
        raise ModelFileError(
            f"{path} must give the scores it was saved with: they differ by up to {error:.3g}. "
            "The file or the installation is damaged; save the model again."
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
        return self._value(value)

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

    def decode(self, value: Any) -> Any:
        """Return the value that was encoded."""
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return self.arrays[value["array"]]
        if "csr" in value:
            parts = tuple(self.decode(part) for part in value["csr"])
            return sparse.csr_array(parts, shape=tuple(value["shape"]))
        if "list" in value:
            items = [self.decode(v) for v in value["list"]]
            return tuple(items) if value["tuple"] else items
        if "dict" in value:
            return {self.decode(k): self.decode(v) for k, v in value["dict"]}
        if "measure" in value:
            return parse_measure(value["measure"])
        return self._value(value)

    def _value(self, value: dict[str, Any]) -> Any:
        name = value.get("value")
        if name not in STORABLE:
            raise ModelFileError(
                f"{self.path} must hold values that this version of rankwise knows: it holds a "
                f"{name!r}. Load it with the version that saved it."
            )
        return self.build(STORABLE[name], self.decode({"dict": list(value["fields"].items())}))

    def build(self, cls: Any, arguments: Mapping[str, Any]) -> Any:
        """Make an instance; refuse arguments that this version of the class does not take."""
        known = set(signature(cls).parameters)
        unknown = sorted(set(arguments) - known)
        if unknown:
            raise ModelFileError(
                f"{self.path} must hold parameters that this version of rankwise knows: its "
                f"{cls.__name__} has {', '.join(map(repr, unknown))}. Load it with the version "
                "that saved it."
            )
        return cls(**arguments)
