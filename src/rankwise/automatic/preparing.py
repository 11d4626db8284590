"""Raw tables as numbers: categories encoded, blanks filled, inside queries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.transformers.blanks import WithinQueryImputer
from rankwise.transformers.categories import WithinQueryEncoder

LARGEST_DENSE = 1 << 31
"""Bytes up to which sparse rows are made dense."""


def check_table(ranker: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """Return rows of numbers or text, dense; blanks are allowed."""
    if sparse.issparse(X) and 8 * np.prod(X.shape) > LARGEST_DENSE:
        raise InvalidInputError(
            f"{type(ranker).__name__} makes features dense, since they are ranked inside queries: "
            f"{X.shape[0]} rows of {X.shape[1]} features take more than "
            f"{LARGEST_DENSE >> 30} GiB. Use LinearRankRLS for sparse data of this size."
        )
    X = validate_data(
        ranker,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=None,
        ensure_all_finite="allow-nan",
        ensure_min_samples=2 if reset else 1,
    )
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return X if X.dtype.kind in "OUS" else X.astype(float, copy=False)


def fit_preparation(
    X: NDArray[Any], y: FloatArray, queries: Queries
) -> tuple[list[Any], FloatArray]:
    """Return the fitted transformers that rows need, and the rows that they make of these.

    Categories are encoded if there are any; blanks are filled in always, so that rows to come may
    have some.
    """
    steps: list[Any] = []
    if X.dtype.kind in "OUS":
        encoder = WithinQueryEncoder()
        X = encoder.fit_transform(X, y, queries)
        steps.append(encoder)
    imputer = WithinQueryImputer(add_indicator=True)
    steps.append(imputer)
    return steps, imputer.fit_transform(X, y, queries)


def prepared(steps: list[Any], X: NDArray[Any], queries: Queries) -> FloatArray:
    """Put rows through fitted transformers."""
    for step in steps:
        X = step.transform(X, queries)
    return X
