"""What a first pass over a svmlight file finds: its size, and how it numbers its features."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.svmlight_chunks import Chunk, line_of
from rankwise.io.tokens import bad_line

ZeroBased = bool | Literal["auto"]


@dataclass(frozen=True)
class SvmlightScan:
    """Tell what a first pass over a file found, so that later ones read all chunks alike.

    Parameters
    ----------
    n_rows, n_features, n_nonzeros
        Numbers of items, of features and of entries that stand in the file, zeros included.
    has_qid
        Whether the items have a query.
    integer_qid
        Whether every qid is a whole number; otherwise they are read as strings.
    zero_based
        Whether the first feature is numbered 0 and not 1.

    Examples
    --------
    >>> from rankwise.io import SvmlightScan
    >>> SvmlightScan(10, 5, 20, has_qid=True, integer_qid=True, zero_based=False).density
    0.4
    """

    n_rows: int
    n_features: int
    n_nonzeros: int
    has_qid: bool
    integer_qid: bool
    zero_based: bool

    @property
    def first_feature(self) -> int:
        """The number of the first feature in the file."""
        return 0 if self.zero_based else 1

    @property
    def density(self) -> float:
        """The share of the entries of X that stand in the file."""
        return self.n_nonzeros / max(self.n_rows * self.n_features, 1)


class _Feature(NamedTuple):
    number: int
    line: int


def scan_chunks(
    path: str | os.PathLike[str],
    chunks: Iterable[Chunk],
    n_features: int | None,
    zero_based: ZeroBased,
) -> SvmlightScan:
    """Sum up chunks; every feature number must fit ``n_features`` and ``zero_based``."""
    _check_options(n_features, zero_based)
    n_rows = n_nonzeros = 0
    id_types = set()
    extremes: list[_Feature] = []
    for chunk in chunks:
        n_rows += len(chunk.y)
        n_nonzeros += len(chunk.values)
        extremes += _extreme_features(chunk)
        if chunk.qid is not None:
            id_types.add(chunk.qid.dtype)
    if n_rows == 0:
        raise DataFileError(
            f"{os.fspath(path)}: expected lines such as '2 qid:1 1:0.5', got a file without any."
        )
    from_zero = _starts_at_zero(extremes) if zero_based == "auto" else zero_based
    n_found = max((feature.number + from_zero for feature in extremes), default=0)
    scan = SvmlightScan(
        n_rows=n_rows,
        n_features=n_found if n_features is None else n_features,
        n_nonzeros=n_nonzeros,
        has_qid=bool(id_types),
        integer_qid=id_types == {np.dtype(np.int64)},
        zero_based=from_zero,
    )
    _check_range(path, extremes, scan)
    return scan


def check_features(path: str | os.PathLike[str], chunk: Chunk, scan: SvmlightScan) -> Chunk:
    """Return the chunk after checking that its features are among those of the scan."""
    _check_range(path, _extreme_features(chunk), scan)
    return chunk


def _check_options(n_features: int | None, zero_based: ZeroBased) -> None:
    if n_features is not None and n_features < 0:
        raise InvalidInputError(f"`n_features` must not be negative: got {n_features}.")
    if zero_based not in (True, False, "auto"):
        raise InvalidInputError(f"`zero_based` must be True, False or 'auto': got {zero_based!r}.")


def _extreme_features(chunk: Chunk) -> list[_Feature]:
    """Return the lowest and the highest feature, with the lines that first have them."""
    if not len(chunk.indices):
        return []
    entries = [int(np.argmin(chunk.indices)), int(np.argmax(chunk.indices))]
    return [_Feature(int(chunk.indices[entry]), line_of(chunk, entry)) for entry in entries]


def _starts_at_zero(features: list[_Feature]) -> bool:
    return any(feature.number == 0 for feature in features)


def _check_range(
    path: str | os.PathLike[str], features: list[_Feature], scan: SvmlightScan
) -> None:
    first, last = scan.first_feature, scan.first_feature + scan.n_features - 1
    for number, line in features:
        if number < first:
            raise bad_line(path, line, "features from 1 (pass zero_based=True for 0)", str(number))
        if number > last:
            what = f"features up to {last} (n_features={scan.n_features})"
            raise bad_line(path, line, what, str(number))
