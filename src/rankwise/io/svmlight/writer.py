"""Write svmlight and LETOR files."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.io.files import open_write


def write_svmlight(
    path: str | os.PathLike[str],
    X: ArrayLike | sparse.sparray | sparse.spmatrix,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    comments: Sequence[str] | None = None,
    *,
    zero_based: bool = False,
) -> None:
    """Write a svmlight or LETOR file, plain or compressed (.gz, .xz, .bz2), all or nothing.

    Numbers are written with enough digits to read the same ones back. A dense X is written with its
    zeros, a sparse X with its stored entries. An existing file is replaced only when the new one is
    complete.

    Parameters
    ----------
    path
        The file; its suffix says whether it is compressed.
    X : (n_items, n_features)
        The features, dense or sparse.
    y : (n_items,)
        The scores.
    qid : (n_items,)
        The query of each item: numbers, or strings without blanks or ``#``.
    comments : n_items strings
        What to write after ``#``, one line each; nothing where empty.
    zero_based
        Whether to number features from 0 instead of 1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import write_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     write_svmlight(path, [[0.5, 1], [0.1, 0]], [2, 0], qid=[7, 7], comments=["best", ""])
    ...     print(path.read_text())
    2 qid:7 1:0.5 2:1 # best
    0 qid:7 1:0.1 2:0
    """
    table = _as_table(X)
    n_items = table.shape[0]
    rows = _feature_texts(table, 0 if zero_based else 1)
    heads = _heads(_checked_target(y, n_items), _checked_ids(qid, n_items))
    tails = _tails(comments, n_items)
    with open_write(path) as stream:
        for head, row, tail in zip(heads, rows, tails, strict=True):
            stream.write(f"{head}{row}{tail}\n".encode())


def _as_table(X: Any) -> FloatArray | sparse.csr_array:
    """Return X with finite doubles, dense or as CSR without repeated entries."""
    if sparse.issparse(X):
        table = sparse.csr_array(X, dtype=np.float64, copy=True)
        table.sum_duplicates()
        values = table.data
    else:
        table = np.asarray(X, dtype=np.float64)
        values = table
    if table.ndim != 2:
        raise InvalidInputError(f"`X` must have two dimensions: got shape {table.shape}.")
    if not np.isfinite(values).all():
        raise InvalidInputError("`X` must be finite: it holds NaN or infinity.")
    return table


def _checked_target(y: ArrayLike, n_items: int) -> FloatArray:
    target = np.asarray(y, dtype=np.float64)
    if target.shape != (n_items,):
        raise InvalidInputError(
            f"`y` must have one entry per row of `X`: X has {n_items} rows, y has shape "
            f"{target.shape}."
        )
    if not np.isfinite(target).all():
        raise InvalidInputError("`y` must be finite: it holds NaN or infinity.")
    return target


def _checked_ids(qid: ArrayLike | None, n_items: int) -> list[str] | None:
    if qid is None:
        return None
    ids = [str(query) for query in np.asarray(qid).tolist()]
    if len(ids) != n_items:
        raise InvalidInputError(
            f"`qid` must have one entry per row of `X`: X has {n_items} rows, qid has {len(ids)}."
        )
    for query in set(ids):
        if not query or "#" in query or query.split() != [query]:
            raise InvalidInputError(
                f"`qid` must not be empty or hold blanks or '#' in this format: got {query!r}."
            )
    return ids


def _heads(target: FloatArray, ids: list[str] | None) -> Iterator[str]:
    targets = (_number(value) for value in target.tolist())
    if ids is None:
        return targets
    return (f"{value} qid:{query}" for value, query in zip(targets, ids, strict=True))


def _feature_texts(table: FloatArray | sparse.csr_array, first: int) -> Iterator[str]:
    """Return the text of each row, `` 1:0.5 2:1``."""
    labels = [f" {number}:" for number in range(first, first + table.shape[1])]
    if isinstance(table, np.ndarray):
        return (_pairs_text(labels, row.tolist()) for row in table)
    bounds = zip(table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)
    return (
        _pairs_text([labels[j] for j in table.indices[start:stop].tolist()], values.tolist())
        for start, stop in bounds
        for values in [table.data[start:stop]]
    )


def _pairs_text(labels: list[str], values: list[float]) -> str:
    return "".join([label + _number(value) for label, value in zip(labels, values, strict=True)])


def _number(value: float) -> str:
    """Write the shortest text that reads back as the same number; whole ones without a point."""
    return repr(value).removesuffix(".0")


def _tails(comments: Sequence[str] | None, n_items: int) -> Iterable[str]:
    if comments is None:
        return [""] * n_items
    if len(comments) != n_items:
        raise InvalidInputError(
            f"`comments` must have one entry per row of `X`: X has {n_items} rows, comments has "
            f"{len(comments)}."
        )
    for comment in comments:
        if "\n" in comment or "\r" in comment:
            raise InvalidInputError(f"`comments` must not hold line breaks: got {comment!r}.")
    return [f" # {comment}" if comment.strip() else "" for comment in comments]
