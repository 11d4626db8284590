"""Read and write models: arrays and JSON in one safetensors file, and no code."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open

from rankwise import __version__
from rankwise.core.errors import InvalidInputError, ModelFileError
from rankwise.io.files import is_stream, replacing

FORMAT = "rankwise-model"  # the only key of the safetensors metadata: several have no fixed order
FORMAT_VERSION = 1

_KINDS = "biufU"  # booleans, integers, floats, strings
_DTYPE = re.compile(r"[<|][biufU]\d{1,9}")
_TENSOR_TYPES = {
    "b1": "BOOL",
    **{f"{kind}{n}": f"{kind.upper()}{8 * n}" for kind in "iu" for n in (1, 2, 4, 8)},
    **{f"f{n}": f"F{8 * n}" for n in (2, 4, 8)},
}
_ALIGNMENT = 8  # of the first array
_LAST_CODE_POINT = 0x10FFFF
_HEADER_START = 8  # safetensors: the length of the header, then its opening brace


def write_model(
    path: str | os.PathLike[str], metadata: Mapping[str, Any], arrays: Mapping[str, ArrayLike]
) -> None:
    """Write a model to one file, atomically.

    The file contains a checksum and is read back before it replaces an older one. The same content
    always gives the same bytes.

    Parameters
    ----------
    path
        The file.
    metadata
        Values that JSON can represent, with string keys; tuples come back as lists.
    arrays
        Arrays of booleans, integers, floats up to 64 bits or fixed-width strings, of any shape.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from rankwise.io import read_model, write_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ranker.model")
    ...     write_model(path, {"alpha": 0.5}, {"coef": np.array([1.0, -2.0])})
    ...     read_model(path)
    ({'alpha': 0.5}, {'coef': array([ 1., -2.])})
    """
    # arrays as safetensors holds them, and a document that describes them
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    tensors = {name: _encode(array) for name, array in plain.items()}
    document = {
        "format_version": FORMAT_VERSION,
        "rankwise_version": __version__,
        "metadata": dict(metadata),
        "dtypes": {name: array.dtype.str for name, array in plain.items()},
    }
    try:
        document["sha256"] = _checksum(document, tensors)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"`metadata` must be representable as JSON: {error}.") from error
    # written, read back, and only then in place of an older file
    with replacing(path) as new:
        save_file(tensors, new, metadata={FORMAT: json.dumps(document)})
        try:
            read_model(new)
        except ModelFileError as error:
            raise ModelFileError(
                f"{os.fspath(path)}: expected to read back what was written, got something else. "
                "An older file of this name is untouched. Check the disk and save again."
            ) from error


def save_file(
    tensors: Mapping[str, NDArray[Any]], path: str | os.PathLike[str], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file in place, array by array.

    The package's own writer replaces ``path``, whatever it was, and hides the system's errors.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # keeps alignment
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.nbytes
        kind = _TENSOR_TYPES[tensor.dtype.str[1:]]
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with open(path, "wb") as stream:
        stream.write(len(text).to_bytes(_HEADER_START, "little") + text)
        for name in order:
            stream.write(tensors[name].reshape(-1).view(np.uint8).data)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `write_model` wrote, after checking that it is complete; no code is run.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    metadata, arrays
        As given to `write_model`, in the same order, type and shape.

    Raises
    ------
    ModelFileError
        For a file that is damaged, cut short, of a later format, or not a rankwise model.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ranker.model")
    ...     _ = path.write_text("not a model")
    ...     read_model(path)
    Traceback (most recent call last):
    rankwise.core.errors.ModelFileError: ...ranker.model: expected a model saved by rankwise, got...
    """
    if not isinstance(path, str | os.PathLike):  # a number would be taken for an open file
        raise InvalidInputError(
            f"`path` must be the path of a model file: got {type(path).__name__}."
        )
    text, tensors = _load(os.fspath(path))
    try:
        document = json.loads(text)
        _refuse_later_format(path, document)
        checksum = document.pop("sha256")
        if checksum != _checksum(document, tensors):
            raise _damaged(path, "its checksum differs")
        dtypes, metadata = document["dtypes"], document["metadata"]
        if set(dtypes) != set(tensors) or not isinstance(metadata, dict):
            raise _damaged(path, "`dtypes` or `metadata` is not what it must be")
        arrays = {name: _decode(tensors[name], _dtype(dtypes[name])) for name in dtypes}
        return metadata, arrays
    except ModelFileError:
        raise
    except RecursionError as error:
        raise _damaged(path, "too many values inside each other") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, repr(error)) from error


def looks_like_model(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like those of `write_model`; pipes are not read."""
    if is_stream(path):
        return False
    with open(path, "rb") as stream:
        return FORMAT.encode() in stream.read(_HEADER_START + 64)


def _dtype(name: str) -> np.dtype[Any]:
    """Return the type of an array; raise ValueError for one that is never written."""
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise ValueError(f"the type {name!r}")
    return np.dtype(name)


def _load(path: str | os.PathLike[str]) -> tuple[str, dict[str, NDArray[Any]]]:
    """Return the document and the tensors of a safetensors file."""
    if is_stream(path):
        raise _foreign(path, "a pipe or a device; save it to a file first")
    with open(path, "rb") as stream:
        beginning = stream.read(_HEADER_START + 1)
    try:
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            if FORMAT not in metadata:
                raise _foreign(path, "a safetensors file of another program")
            names = file.keys()
            return metadata[FORMAT], {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        if beginning[_HEADER_START:] in (b"", b"{"):
            raise _damaged(path, str(error)) from error
        raise _foreign(path, "a file of another format") from error


def _refuse_later_format(path: str | os.PathLike[str], document: dict[str, Any]) -> None:
    version = document["format_version"]
    if type(version) is not int:
        raise TypeError(f"the format {version!r}")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{os.fspath(path)}: expected a model of format {FORMAT_VERSION} or earlier, got "
            f"format {version} of rankwise {document['rankwise_version']}. Update rankwise."
        )


def _plain(name: str, array: ArrayLike) -> NDArray[Any]:
    """Return the array contiguous and little-endian, as safetensors requires without checking."""
    values = np.asarray(array)
    if values.dtype.kind not in _KINDS or (values.dtype.kind == "f" and values.dtype.itemsize > 8):
        raise InvalidInputError(
            f"`arrays` must hold booleans, integers, floats or fixed-width strings: {name!r} has "
            f"dtype {values.dtype}."
        )
    return np.asarray(values, dtype=values.dtype.newbyteorder("<"), order="C")


def _encode(array: NDArray[Any]) -> NDArray[Any]:
    """Return what is stored: for strings the code points, along one more axis."""
    if array.dtype.kind != "U":
        return array
    return array.reshape(-1).view(np.uint32).reshape(*array.shape, array.dtype.itemsize // 4)


def _decode(tensor: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Undo `_encode`; raise ValueError for what it cannot have written."""
    if dtype == tensor.dtype:
        return tensor
    if dtype.kind == "U" and tensor.dtype == np.uint32 and np.all(tensor <= _LAST_CODE_POINT):
        return tensor.reshape(-1).view(dtype).reshape(tensor.shape[:-1])
    raise ValueError(f"{tensor.dtype} in place of {dtype}")


def _checksum(document: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _damaged(path: str | os.PathLike[str], reason: str) -> ModelFileError:
    return ModelFileError(
        f"{os.fspath(path)}: expected a whole rankwise model, got one that is damaged or cut short "
        f"({reason}). Copy or save it again."
    )


def _foreign(path: str | os.PathLike[str], found: str) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)}: expected a model saved by rankwise, got {found}.")
