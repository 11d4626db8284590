"""Where to compute: devices of PyTorch by name, and tensors that a caller gives and gets back."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.errors import InvalidInputError, MissingExtraError
from rankwise.core.namespaces import HOST, Array, is_on_host, like, namespace_of

HOST_DEVICES: tuple[str, ...] = ("cpu",)
"""Devices of PyTorch whose tensors are computed with by NumPy, unless a device is named."""


def place(name: str | None, X: Any = None) -> Array:
    """Return an empty array that is where to compute, for `like`.

    Parameters
    ----------
    name : str or None
        A device that PyTorch knows, such as "cuda". None is the device of the tensor X, or else
        the host.
    X : optional
        What was given by the caller.
    """
    if name is None:
        return X.new_empty(0) if is_on_device(X) else HOST
    if not isinstance(name, str):
        raise InvalidInputError(f"`device` must be a name such as 'cuda', or None: got {name!r}.")
    try:
        import torch  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Computing on a device", "torch", "gpu") from error
    try:
        return torch.zeros(1, device=torch.device(name))[:0]
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(
            f"`device` must name a device that PyTorch finds here: got {name!r} ({reason})."
        ) from None


def on_device(rows: Any, name: str | None, X: Any = None) -> Array:
    """Return rows where to compute with them, on a device dense and of double precision.

    Parameters
    ----------
    rows : (n_items, n_features)
        The rows on the host.
    name, X
        As in `place`; the rows were read from X, which need not be moved where it is a tensor.
    """
    where = place(name, X)
    if is_on_host(where) or not _is_tensor(X):
        return like(rows, where)
    torch = namespace_of(where)
    return torch.asarray(X.detach(), dtype=torch.float64, device=where.device).contiguous()


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    return torch is not None and isinstance(value, torch.Tensor)


def is_on_device(X: Any) -> bool:
    """Return whether X is a tensor that is not computed with by NumPy."""
    return _is_tensor(X) and X.device.type not in HOST_DEVICES


def on_host(value: Any) -> Any:
    """Return a dense tensor as an array; anything else as it is."""
    if not _is_tensor(value):
        return value
    if str(value.layout) != "torch.strided":
        raise InvalidInputError(
            f"Tensors must be dense: got one of layout {value.layout}. Use to_dense(), or a SciPy "
            "matrix."
        )
    here = value.detach().cpu()
    if str(here.dtype) in ("torch.float16", "torch.bfloat16"):
        here = here.double()
    return here.numpy()


def where_given(rows: NDArray[Any], X: Any) -> Array:
    """Bring rows that were read from a tensor X back to its device, if NumPy does not compute."""
    return like(rows, X) if is_on_device(X) else rows


def as_given(result: Any, X: Any) -> Any:
    """Return arrays as tensors where X is one, on its device; otherwise as they are."""
    if not _is_tensor(X):
        return result
    if isinstance(result, tuple):
        return tuple(as_given(part, X) for part in result)
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
        return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(X.device)
    return result
