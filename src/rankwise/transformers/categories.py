"""Categories as numbers: how far their items score above the mean of their query."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.core.checks import (
    check_length,
    entries_of,
    is_missing,
    refuse_overflow,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, CheckedWith, Positive, Shape
from rankwise.core.queries import Queries, one_output
from rankwise.core.storable import AsLongAs, Counted, Finite, PositionsIn
from rankwise.transformers.base import QueryTransformer, refuse_sparse_rows

N_FOLDS = 5
"""Number of folds of queries, each encoded by the other folds."""

ROUNDING = 1e-12
"""Share of the largest score below which a category's mean is rounding error."""

BLANK = "\x00blank"
"""The category of blanks."""


@final
@dataclass(frozen=True, eq=False)
class _Excess:
    """How far each training item scores above its query's mean.

    Parameters
    ----------
    excess : (n_items,)
        The score less the mean of the query.
    rounding : float
        Means below this are rounding errors.
    categories : list of (n_items,)
        The category of each item, for each encoded feature.
    varies : list of bool
        Whether an encoded feature differs inside some query.
    """

    excess: FloatArray
    rounding: float
    categories: list[IntArray]
    varies: list[bool]

    def codes(self, total: FloatArray, count: IntArray, smoothing: float) -> FloatArray:
        """Return shrunken means of sums; exactly 0 where a sum is only rounding."""
        known = np.abs(total) > self.rounding * count
        return np.where(known, total, 0.0) / (count + smoothing)


@final
class WithinQueryEncoder(QueryTransformer):
    r"""Encode a category by how far its items scored above the mean of their query.

    The code of category c is the mean of :math:`y_i - \bar y_{q(i)}` over its training items,
    shrunk towards 0 as if `smoothing` average items were among them. A category that was never seen
    has the code 0. Numbers are left unchanged.

    A feature that is constant inside every training query (a user's country) says nothing by itself
    about the order of items, and all these means are 0. Its categories are numbered by frequency
    instead, from 1 for the rarest, so that trees can combine it with other features.

    ``fit_transform`` encodes each fifth of the training queries by the others, so that no item is
    encoded by its own score. Later rows are encoded by all training queries.

    Parameters
    ----------
    columns : list of int or of str, optional
        The features to encode, by position or by name; by default all that are not numbers.
    smoothing : float
        Number of average items that each category starts with.

    Attributes
    ----------
    columns_ : list of int
        The features that are encoded.
    categories_, codes_ : list of arrays
        For each of them, the categories as text, and their codes.
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import WithinQueryEncoder
    >>> X = np.array([["pdf", 3.0], ["html", 1.0], ["html", 2.0], ["pdf", 2.0]], dtype=object)
    >>> encoder = WithinQueryEncoder(smoothing=2.0).fit(X, [2, 0, 1, 3], qid=[1, 1, 2, 2])
    >>> encoder.transform(X, qid=[1, 1, 2, 2])
    array([[ 0.5,  3. ],
           [-0.5,  1. ],
           [-0.5,  2. ],
           [ 0.5,  2. ]])
    """

    columns_: Annotated[list[Counted], Shape("n_encoded"), PositionsIn("n_features")]
    categories_: Annotated[list[NDArray[np.str_]], Shape("n_encoded")]
    codes_: Annotated[list[Annotated[FloatArray, Finite()]], AsLongAs("categories_")]

    def __init__(
        self,
        columns: Annotated[list[int] | list[str] | None, CheckedWith("X")] = None,
        *,
        smoothing: Annotated[float, Positive(), Advice("It is a number of items.")] = 10.0,
    ) -> None:
        self.columns = columns
        self.smoothing = smoothing

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def _check_rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        refuse_sparse_rows(X, "WithinQueryEncoder", "Use X.toarray().")
        with refuse_overflow():
            rows = validate_data(
                self, X, reset=reset, dtype=None, order="C", ensure_all_finite="allow-nan"
            )
        return rows

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> _Excess:
        self.columns_ = self._chosen(X)
        scores = _scores(X, y)
        known = [categories_of(X[:, j]) for j in self.columns_]
        self.categories_ = [categories for categories, _ in known]
        numbers = [number for _, number in known]
        found = _Excess(
            scores - queries.spread(queries.mean(scores)),
            ROUNDING * float(np.abs(scores).max(initial=0.0)),
            numbers,
            [_varies_inside(number, queries) for number in numbers],
        )
        self.codes_ = [self._codes(k, found) for k in range(len(numbers))]
        return found

    def _chosen(self, X: NDArray[Any]) -> list[int]:
        """Return the positions of the features to encode."""
        if self.columns is None:
            return [j for j in range(X.shape[1]) if not is_numeric(X[:, j])]
        names = [str(name) for name in vars(self).get("feature_names_in_", ())]
        chosen = entries_of(self.columns)
        positions = [names.index(c) if isinstance(c, str) and c in names else c for c in chosen]
        for c in positions:
            if not isinstance(c, int | np.integer) or not 0 <= c < X.shape[1]:
                raise InvalidInputError(
                    f"`columns` must hold features of X, by position from 0 to {X.shape[1] - 1} or "
                    f"by name: got {c!r}."
                )
        return [int(c) for c in positions]

    def _codes(self, k: int, found: _Excess) -> FloatArray:
        number, n_categories = found.categories[k], len(self.categories_[k])
        count = np.bincount(number, minlength=n_categories)
        if not found.varies[k]:
            codes = np.empty(n_categories)
            codes[np.argsort(count, kind="stable")] = np.arange(1, n_categories + 1)
            return codes
        total = sum_by(number, found.excess, n_categories)
        return found.codes(total, count, self.smoothing)

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:
        encoded = np.empty(X.shape)
        for j in set(range(X.shape[1])) - set(self.columns_):
            encoded[:, j] = numbers_of(X[:, j], j)
        for k, j in enumerate(self.columns_):
            encoded[:, j] = (
                self._encoded(k, X[:, j])
                if found is None
                else self._encoded_by_others(k, found, queries)
            )
        return encoded

    def _encoded(self, k: int, column: NDArray[Any]) -> FloatArray:
        """Encode rows by the training rows; unseen categories are 0."""
        categories, codes = self.categories_[k], self.codes_[k]
        texts, number = categories_of(column)
        at = np.minimum(np.searchsorted(categories, texts), len(categories) - 1)
        return np.asarray(np.where(categories[at] == texts, codes[at], 0.0)[number])

    def _encoded_by_others(self, k: int, found: _Excess, queries: Queries) -> FloatArray:
        """Encode each fifth of the training queries, or items, by the others."""
        number, n_categories = found.categories[k], len(self.categories_[k])
        if not found.varies[k]:
            return self.codes_[k][number]  # which no score has decided
        groups = queries.index if self.fitted_with_qid_ else np.arange(len(number))
        # sums of each fold and category, then over all other folds
        cell = (groups % N_FOLDS) * n_categories + number
        shape = (N_FOLDS, n_categories)
        total = sum_by(cell, found.excess, N_FOLDS * n_categories).reshape(shape)
        count = np.bincount(cell, minlength=N_FOLDS * n_categories).reshape(shape)
        total, count = total.sum(axis=0) - total, count.sum(axis=0) - count
        return found.codes(total, count, self.smoothing).ravel()[cell]

    def _names(self, names: list[str]) -> list[str]:
        return names


def _varies_inside(number: IntArray, queries: Queries) -> bool:
    """Return whether a query holds items of several categories."""
    of_query = np.empty(queries.n_queries, dtype=np.intp)
    of_query[queries.index] = number
    return bool((of_query[queries.index] != number).any())


def _scores(X: Matrix, y: ArrayLike | None) -> FloatArray:
    if y is None:
        raise InvalidInputError(
            "WithinQueryEncoder requires y to be passed, but the target y is None: it encodes a "
            "category by the scores of its items."
        )
    scores = one_output(y, "y", "Encode for one output at a time.")
    check_length("y", scores, X.shape[0])
    return scores


def is_numeric(column: NDArray[Any]) -> bool:
    """Return whether a feature holds numbers, which may be blank."""
    if column.dtype.kind in "biuf":
        return True
    if column.dtype != object or isinstance(column[0], str):
        return False
    return all(
        issubclass(kind, int | float | np.number | NoneType)
        for kind in set(map(type, column.tolist()))
    )


def numbers_of(column: NDArray[Any], j: int) -> FloatArray:
    """Return feature j as numbers, NaN for blanks."""
    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"Feature {j} must hold numbers, as it did in `fit`: {error}. Name it in `columns` "
            "to encode it."
        ) from error


def categories_of(column: NDArray[Any]) -> tuple[NDArray[np.str_], IntArray]:
    """Return the categories of a column as sorted text, and the category of each row."""
    values = column.tolist()
    # values of several types, or that cannot be hashed, are compared as text
    keys, others = values, set(map(type, values)) - {str, NoneType}
    if len(others) > 1 or any(kind.__hash__ is None for kind in others):
        keys = [_text_of(value) for value in values]  # 1, 1.0 and True are equal, their texts not
    # number the distinct values, then sort their texts
    number: defaultdict[Any, int] = defaultdict(itertools.count().__next__)  # new keys count on
    rows = np.fromiter(map(number.__getitem__, keys), dtype=np.intp, count=len(keys))
    texts = np.array([_text_of(key) for key in number], dtype=str)
    categories, position = np.unique(texts, return_inverse=True)
    return categories, position[rows]


def _text_of(value: Any) -> str:
    """Return a category as text; blanks form a category."""
    return BLANK if is_missing(value) else str(value)
