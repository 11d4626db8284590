"""Products with a matrix of exponentials that is never formed: the one kernel of a GPU."""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from rankwise.core.errors import MissingExtraError
from rankwise.core.namespaces import BLOCK_ENTRIES, Array, exp_in_place, namespace_of, zeros

FUSED_FEATURES = 128
"""Features up to which exponentials of products are summed by one kernel of the GPU."""

TILE_ROWS, TILE_COLUMNS = 128, 128
"""Entries of the product that such a kernel forms at a time."""

TILE_WARPS = 4
"""Warps that form them; with eight the kernel takes a third longer on an H200."""


def exp_product(A: Array, B: Array, V: Array) -> Array:
    """Return ``exp(A B') V`` in single precision, V in double; no entry is kept.

    ``A B'`` must be symmetric, its entries 0 or less up to rounding errors, which count as 0.
    """
    xp, n_rows = namespace_of(A), A.shape[0]
    A, B, single = (xp.asarray(M, dtype=xp.float32) for M in (A, B, V))
    fused = _fused_on(xp, A.device) if A.shape[1] <= FUSED_FEATURES else None
    if fused is not None:
        A, B = A.contiguous(), B.contiguous()
        return xp.stack([fused(A, B, v) for v in single.T], axis=1)
    # by blocks of rows, of which the columns before are transposes of those above
    out, start = zeros(V.shape, V), 0
    while start < n_rows:
        stop = min(n_rows, start + max(1, BLOCK_ENTRIES // (n_rows - start)))
        K = exp_in_place(A[start:stop, :] @ B[start:, :].T)
        out[start:stop, :] += xp.asarray(K @ single[start:, :], dtype=xp.float64)
        rest = K[:, stop - start :].T @ single[start:stop, :]
        out[stop:, :] += xp.asarray(rest, dtype=xp.float64)
        start = stop
    return out


@cache
def _fused_on(torch: Any, device: Any) -> Callable[..., Array] | None:
    """Return the kernel of a GPU, where Triton is there and can compile it for this one."""
    if not str(device).startswith("cuda"):
        return None
    try:
        fused = fused_exp_product()
    except MissingExtraError:
        return None
    one = torch.ones((1, 1), device=device)
    try:
        fused(-one, one, one[0]).sum().item()
    except Exception as error:
        reason = str(error).splitlines()[:1]
        warnings.warn(
            f"Products are computed in blocks: Triton failed with {reason}.", stacklevel=2
        )
        return None
    return fused


@cache
def fused_exp_product() -> Callable[..., Array]:
    """Return a product with ``exp(A B')`` that keeps its entries in registers; needs Triton."""
    try:
        import triton  # noqa: PLC0415
        import triton.language as tl  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Summing exponentials in one kernel", "triton", "gpu") from error

    @triton.jit
    def rows_of_product(  # type: ignore[no-untyped-def]
        A, B, v, out, n_items, width: tl.constexpr, n_rows: tl.constexpr, n_columns: tl.constexpr
    ):
        """Add up some rows; each sum is of double precision, its terms of three tf32 products."""
        row = tl.program_id(0) * n_rows + tl.arange(0, n_rows)
        k = tl.arange(0, width)
        a = tl.load(A + row[:, None] * width + k[None, :], mask=row[:, None] < n_items, other=0.0)
        total = tl.zeros((n_rows,), tl.float64)
        for first in range(0, n_items, n_columns):
            column = first + tl.arange(0, n_columns)
            known = column < n_items
            b = tl.load(B + column[:, None] * width + k[None, :], mask=known[:, None], other=0.0)
            weight = tl.load(v + column, mask=known, other=0.0)
            exponent = tl.minimum(tl.dot(a, tl.trans(b), input_precision="tf32x3"), 0.0)
            total += tl.sum(tl.exp(exponent) * weight[None, :], axis=1).to(tl.float64)
        tl.store(out + row, total, mask=row < n_items)

    def product(A: Array, B: Array, v: Array) -> Array:
        torch = namespace_of(A)
        width = max(16, 1 << (A.shape[1] - 1).bit_length())
        A, B = (torch.nn.functional.pad(M, (0, width - M.shape[1])) for M in (A, B))
        out = torch.empty(len(A), dtype=torch.float64, device=A.device)
        grid = (triton.cdiv(len(A), TILE_ROWS),)
        rows_of_product[grid](
            A, B, v.contiguous(), out, len(A), width, TILE_ROWS, TILE_COLUMNS, num_warps=TILE_WARPS
        )
        return out

    return product
