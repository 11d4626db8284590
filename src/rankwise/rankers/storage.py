"""Turn fitted rankers into plain metadata and arrays, and back, without pickle."""

from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from typing import Any

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
    writer = _Writer()
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
    """Read a ranker or factorisation that `save` wrote: same class, parameters and scores.

    No code from the file is run. Two rows saved with their scores are scored again; a file that
    does not give the same scores, or is damaged or foreign, is refused.

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
    reader = _Reader(path, arrays)
    ranker = _ranker_class(path, metadata.get("class"))(**reader.decode(metadata["params"]))
    for key, value in reader.decode(metadata["state"]).items():
        setattr(ranker, key, value)
    _check_probe(path, ranker, arrays)
    return ranker


def _ranker_class(path: str | PathLike[str], name: Any) -> Any:
    """Return a public estimator by its name; nothing else is ever built from a file."""
    cls = getattr(rankwise, name) if name in rankwise.__all__ else None
    if isinstance(cls, type) and issubclass(cls, BaseEstimator):
        return cls
    raise ModelFileError(
        f"{path} must hold a ranker of rankwise: it holds {name!r}. A later version of rankwise "
        "may have written it."
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


class _Writer:
    """Encode values as JSON, collecting arrays on the side."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def encode(self, value: Any) -> Any:
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
        name = type(value).__name__
        if isinstance(value, STORABLE.get(name, ())):
            content = {f.name: self.encode(getattr(value, f.name)) for f in fields(value)}
            return {"value": name, "fields": content}
        raise InvalidInputError(
            f"Only built-in values can be saved: got {value!r}. A ranker with a kernel that is a "
            "Python function cannot be written to a file; use a precomputed kernel instead."
        )

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


class _Reader:
    """Decode what `_Writer` encoded."""

    def __init__(self, path: str | PathLike[str], arrays: dict[str, Any]) -> None:
        self.path = path
        self.arrays = arrays

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return self.arrays[value["array"]]
        if "csr" in value:
            return sparse.csr_array(
                tuple(self.decode(part) for part in value["csr"]), shape=tuple(value["shape"])
            )
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
                f"{name!r}. A later version may have written it."
            )
        return STORABLE[name](**{k: self.decode(v) for k, v in value["fields"].items()})
