"""Products with a matrix of exponentials that is never formed: the one kernel of a GPU."""

import warnings
from collections.abc import Callable
from functools import cache, partial
from math import log
from typing import Any

from rankwise.core.errors import MissingExtraError, extra
from rankwise.core.namespaces import BLOCK_ENTRIES, Array, exp_in_place, namespace_of, zeros

FUSED_FEATURES = 128
"""Features up to which exponentials of products are summed by one kernel of the GPU."""

SINGLE_TILES = ((128, 128), (128, 64), (64, 32))
DOUBLE_TILES = ((32, 128), (32, 64), (16, 32))
"""Rows and columns of the matrix that such a kernel forms at a time, the best on an H200 first.

The next are for rows so wide, or a GPU so small, that its shared memory holds no more.
"""

LOG2_E = 1.0 / log(2.0)
"""What exponents are multiplied with, since a GPU has the powers of 2."""

TF32_BITS = -(1 << 13)
"""The bits of a number of single precision that tf32 keeps."""

TILE_WARPS = 4
"""Warps that form them; with eight the kernel takes a third longer on an H200."""


def exp_product(A: Array, B: Array, V: Array) -> Array:
    """Return ``exp(A B') V`` in single precision, V in double; no entry is kept.

    ``A B'`` must be symmetric, its entries 0 or less up to rounding errors, which count as 0.
    """
    xp, n_rows = namespace_of(A), A.shape[0]
    A, B, single = (xp.asarray(M, dtype=xp.float32) for M in (A, B, V))
    fused = _by_one_kernel(A, B, single)
    if fused is not None:
        return fused
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


def exact_exp_product(A: Array, B: Array, V: Array) -> Array | None:
    """Return the same in double precision by one kernel of a GPU, five times as fast as by blocks.

    None where there is no such kernel.
    """
    return _by_one_kernel(A, B, V)


def _by_one_kernel(A: Array, B: Array, V: Array) -> Array | None:
    xp = namespace_of(A)
    if A.shape[1] > FUSED_FEATURES or not str(A.device).startswith("cuda"):
        return None
    fused = _fused_on(xp, A.device, A.dtype, _padded(A.shape[1]))
    return None if fused is None else xp.stack([fused(A, B, v) for v in V.T], axis=1)


def _padded(n_features: int) -> int:
    """Return the next power of 2: the kernel takes no other widths."""
    return max(16, 1 << (n_features - 1).bit_length())


@cache
def _fused_on(torch: Any, device: Any, dtype: Any, width: int) -> Callable[..., Array] | None:
    """Return the kernel of a GPU, where Triton is there and can compile it for this one."""
    try:
        fused = fused_exp_product()
    except MissingExtraError:
        return None
    one = torch.ones((1, width), device=device, dtype=dtype)
    for tile in DOUBLE_TILES if dtype == torch.float64 else SINGLE_TILES:
        product = partial(fused, tile=tile)
        try:
            product(-one, one, one[0, :1]).sum().item()
        except Exception as error:
            failure = error
            if type(error).__name__ != "OutOfResources":
                break
        else:
            return product
    reason = str(failure).splitlines()[:1]
    warnings.warn(f"Products are computed in blocks: Triton failed with {reason}.", stacklevel=2)
    return None


@cache
def fused_exp_product() -> Callable[..., Array]:
    """Return a product with ``exp(A B')`` that keeps its entries in registers; needs Triton."""
    kernel = _compiled_kernel()

    def product(A: Array, B: Array, v: Array, tile: tuple[int, int]) -> Array:
        torch, width, (n_rows, n_columns) = namespace_of(A), _padded(A.shape[1]), tile
        is_double = A.dtype == torch.float64
        A, B = (torch.nn.functional.pad(M, (0, width - M.shape[1])).contiguous() for M in (A, B))
        A_rest, B_rest = A, B
        if not is_double:
            (A, A_rest), (B, B_rest) = _for_tf32(LOG2_E * A), _for_tf32(B)
        out = torch.zeros(len(A), dtype=torch.float64, device=A.device)
        kernel[(-(-len(A) // n_rows),)](
            A, B, A_rest, B_rest, v.contiguous(), out, len(A), is_double, width, n_rows, n_columns,
            num_warps=TILE_WARPS,
        )  # fmt: skip
        return out

    return product


def _compiled_kernel() -> Any:
    """Return the kernel, which Triton compiles where it is first called."""
    with extra("Summing exponentials in one kernel", "triton", "gpu"):
        import triton  # noqa: PLC0415
        import triton.language as tl  # noqa: PLC0415

    @triton.jit
    def add_product(  # type: ignore[no-untyped-def]
        A, B, A_rest, B_rest, v, out, n_items, is_double: tl.constexpr, width: tl.constexpr,
        n_rows: tl.constexpr, n_columns: tl.constexpr,
    ):  # fmt: skip
        """Add what some rows, from the diagonal on, and their transposes contribute.

        Sums are of double precision. In single precision a term is one of three tf32 products, of
        what tf32 keeps of A and B and of the rest, which are split once instead of in every tile.
        """
        first_row = tl.program_id(0) * n_rows
        row = first_row + tl.arange(0, n_rows)
        k = tl.arange(0, width)
        known_row = row < n_items
        at = row[:, None] * width + k[None, :]
        a = tl.load(A + at, mask=known_row[:, None], other=0.0)
        if not is_double:
            a_rest = tl.load(A_rest + at, mask=known_row[:, None], other=0.0)
        own = tl.load(v + row, mask=known_row, other=0.0)
        total = tl.zeros((n_rows,), tl.float64)
        for first in range(first_row, n_items, n_columns):
            # a tile of the matrix
            column = first + tl.arange(0, n_columns)
            known = column < n_items
            there = column[:, None] * width + k[None, :]
            b = tl.load(B + there, mask=known[:, None], other=0.0)
            weight = tl.load(v + column, mask=known, other=0.0)
            if is_double:
                exponent = tl.dot(a, tl.trans(b), out_dtype=tl.float64)
                entry = tl.exp(tl.minimum(exponent, 0.0))
            else:
                b_rest = tl.load(B_rest + there, mask=known[:, None], other=0.0)
                exponent = tl.dot(a_rest, tl.trans(b), input_precision="tf32")
                exponent = tl.dot(a, tl.trans(b_rest), exponent, input_precision="tf32")
                exponent = tl.dot(a, tl.trans(b), exponent, input_precision="tf32")
                entry = tl.exp2(tl.minimum(exponent, 0.0))
            # its rows, and its transpose below the diagonal
            total += tl.sum(entry * weight[None, :], axis=1).to(tl.float64)
            across = tl.sum(entry * own[:, None], axis=0).to(tl.float64)
            is_below = known & (column >= first_row + n_rows)
            tl.atomic_add(out + column, across, mask=is_below, sem="relaxed")
        tl.atomic_add(out + row, total, mask=known_row, sem="relaxed")

    return add_product


def _for_tf32(A: Array) -> tuple[Array, Array]:
    """Return what tf32 keeps of numbers of single precision, and the rest."""
    torch = namespace_of(A)
    kept = (A.view(torch.int32) & TF32_BITS).view(torch.float32)
    return kept, A - kept
