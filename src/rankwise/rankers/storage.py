"""Turn fitted rankers into plain metadata and arrays, and back, without pickle."""

from dataclasses import fields
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, ModelFileError
from rankwise.features.covariances import Scaled, SquaredExponential
from rankwise.features.kernels import Gaussian, Laplacian, Linear, Polynomial, Precomputed
from rankwise.features.maps import Expansion, Identity
from rankwise.io.model_file import read_model, write_model
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.cutting_planes import Solution
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.likelihoods import Flip, GaussianMargin, Probit, Ties
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.inference.prior import Prior
from rankwise.rankers.svm.newton import HingeSolution
from rankwise.selection.c_path import CCandidate, CPath
from rankwise.selection.component_path import ComponentPath
from rankwise.selection.path import Candidate, Path

VALUES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        CCandidate,
        CPath,
        Candidate,
        Comparisons,
        ComponentPath,
        Expansion,
        Flip,
        Gaussian,
        GaussianMargin,
        HingeSolution,
        Identity,
        Laplacian,
        Linear,
        Path,
        Polynomial,
        Posterior,
        Precomputed,
        Prior,
        Probit,
        Scaled,
        Solution,
        SquaredExponential,
        Ties,
    )
}
"""The frozen values a model file may hold; their fields are stored one by one."""

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


def load(path: str | PathLike[str], classes: dict[str, type]) -> Any:
    """Read a ranker of one of the given classes and check that it still gives its scores."""
    metadata, arrays = read_model(path)
    name = metadata.get("class")
    if name not in classes:
        raise ModelFileError(
            f"{path} must hold one of {', '.join(sorted(classes))}: it holds {name!r}. "
            "A later version of rankwise may have written it."
        )
    reader = _Reader(arrays)
    ranker = classes[name](**reader.decode(metadata["params"]))
    for key, value in reader.decode(metadata["state"]).items():
        setattr(ranker, key, value)
    _check_probe(path, ranker, arrays)
    return ranker


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
        if isinstance(value, dict):
            return {"dict": [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        if isinstance(value, Measure):
            return {"measure": repr(value)}
        if type(value).__name__ in VALUES:
            content = {f.name: self.encode(getattr(value, f.name)) for f in fields(value)}
            return {"value": type(value).__name__, "fields": content}
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

    def __init__(self, arrays: dict[str, Any]) -> None:
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
        return VALUES[value["value"]](**{k: self.decode(v) for k, v in value["fields"].items()})
