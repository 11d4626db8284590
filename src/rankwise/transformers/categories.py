"""Categories as numbers: how much better than its query an item of a category is."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.core.checks import check_length, check_positive
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.core.training_data import one_output
from rankwise.transformers.base import QueryTransformer, check_rows, refuse_sparse_rows

N_FOLDS = 5
"""Parts of the queries whose categories are encoded by the others."""

BLANK = "\x00blank"
"""The category of blanks."""


@final
class WithinQueryEncoder(QueryTransformer):
    r"""Replace categories by how much better than their query items of them have been.

    The code of category c is the mean of :math:`y_i - \bar y_{q(i)}` over its training items, drawn
    towards 0 as if `smoothing` items of an average category were among them. A category that was
    never seen has the code 0. Numbers pass through as they are.

    ``fit_transform`` encodes the training rows by parts: each fifth of the queries by the others,
    so that no item is encoded by its own score. Rows that come later are encoded by all.

    Parameters
    ----------
    columns : list of int or of str, optional
        The features to encode, by place or by name; when left out, those that are not numbers.
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

    def __init__(
        self, columns: list[int] | list[str] | None = None, *, smoothing: float = 10.0
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
        return check_rows(
            self, X, reset=reset, dtype=None, order="C", ensure_all_finite="allow-nan"
        )

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:
        check_positive("smoothing", self.smoothing, "It is a number of items.")
        self.columns_ = self._chosen(X)
        excess = _excess(X, y, queries)
        known = [np.unique(_as_text(X[:, j]), return_inverse=True) for j in self.columns_]
        self.categories_ = [categories for categories, _ in known]
        self.codes_ = [self._codes(place, excess, len(categories)) for categories, place in known]

    def _chosen(self, X: NDArray[Any]) -> list[int]:
        """Return the places of the features to encode."""
        if self.columns is None:
            return [j for j in range(X.shape[1]) if not _is_numeric(X[:, j])]
        names = [str(name) for name in vars(self).get("feature_names_in_", ())]
        places = [names.index(c) if c in names else c for c in self.columns]
        for c in places:
            if not isinstance(c, int | np.integer) or not 0 <= c < X.shape[1]:
                raise InvalidInputError(
                    f"`columns` must name features of X, by place from 0 to {X.shape[1] - 1} or by "
                    f"name: got {c!r}."
                )
        return [int(c) for c in places]

    def _codes(self, place: IntArray, excess: FloatArray, n_categories: int) -> FloatArray:
        total = sum_by(place, excess, n_categories)
        return total / (np.bincount(place, minlength=n_categories) + self.smoothing)

    def _transformed(self, X: Matrix, queries: Queries) -> Matrix:  # noqa: ARG002
        encoded = np.empty(X.shape)
        for j in set(range(X.shape[1])) - set(self.columns_):
            encoded[:, j] = _numbers(X[:, j], j)
        for j, categories, codes in zip(self.columns_, self.categories_, self.codes_, strict=True):
            text = _as_text(X[:, j])
            place = np.minimum(np.searchsorted(categories, text), len(categories) - 1)
            encoded[:, j] = np.where(categories[place] == text, codes[place], 0.0)
        return encoded

    def fit_transform(
        self, X: Any, y: ArrayLike | None = None, qid: ArrayLike | Queries | None = None
    ) -> FloatArray:
        """Fit to all rows, and encode each fifth of their queries by the others.

        Parameters
        ----------
        X, y, qid
            As in `fit`. Without `qid`, fifths of the items are encoded by the others.
        """
        self.fit(X, y, qid)
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        queries = Queries.of(qid, X.shape[0])
        encoded = self._transformed(X, queries)
        groups = queries.index if qid is not None else np.arange(X.shape[0])
        excess, fold = _excess(X, y, queries), groups % N_FOLDS
        for j, categories in zip(self.columns_, self.categories_, strict=True):
            place = np.searchsorted(categories, _as_text(X[:, j]))
            for part in range(N_FOLDS):
                others, rows = fold != part, fold == part
                codes = self._codes(place[others], excess[others], len(categories))
                encoded[rows, j] = codes[place[rows]]
        return encoded

    def _names(self, names: list[str]) -> list[str]:
        return names


def _excess(X: Matrix, y: ArrayLike | None, queries: Queries) -> FloatArray:
    """Return each item's score less the mean of its query."""
    if y is None:
        raise InvalidInputError(
            "WithinQueryEncoder requires y to be passed, but the target y is None: it encodes a "
            "category by the scores of its items."
        )
    scores = one_output(y, "y", "Encode for one output at a time.")
    check_length("y", scores, X.shape[0])
    return scores - queries.spread(queries.mean(scores))


def _is_numeric(column: NDArray[Any]) -> bool:
    if column.dtype.kind in "biuf":
        return True
    return column.dtype == object and all(
        v is None or isinstance(v, int | float | np.number) for v in column
    )


def _numbers(column: NDArray[Any], place: int) -> FloatArray:
    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"Feature {place} must hold numbers, as it did in `fit`: {error}. Name it in `columns` "
            "to encode it."
        ) from error


def _as_text(column: NDArray[Any]) -> NDArray[np.str_]:
    """Return categories as text; blanks are a category of their own."""
    if column.dtype.kind in "US":
        return column.astype(str)
    return np.array([BLANK if v is None or v != v else str(v) for v in column], dtype=str)
