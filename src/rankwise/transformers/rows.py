"""Features of rows by themselves: some of them, and their scale."""

from typing import Annotated, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import entries_of
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import CheckedWith, Shape
from rankwise.core.queries import Queries
from rankwise.core.storable import Finite
from rankwise.transformers.base import QueryTransformer


@final
class KeptFeatures(QueryTransformer):
    """Keep some features, and leave out all others.

    Parameters
    ----------
    columns : list of int
        The features to keep, by position, in the order in which they are kept.

    Attributes
    ----------
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> from rankwise import KeptFeatures
    >>> KeptFeatures([2, 0]).fit_transform([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    array([[3., 1.],
           [6., 4.]])
    """

    def __init__(self, columns: Annotated[list[int], CheckedWith("X")]) -> None:
        self.columns = columns

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:  # noqa: ARG002
        for column in entries_of(self.columns):
            if not isinstance(column, int) or not 0 <= column < X.shape[1]:
                raise InvalidInputError(
                    f"`columns` must hold features of X, by position from 0 to {X.shape[1] - 1}: "
                    f"got {column!r}."
                )

    def _transformed(self, X: Matrix, queries: Queries, found: None = None) -> Matrix:  # noqa: ARG002
        return X.take(self.columns, axis=1)

    def _names(self, names: list[str]) -> list[str]:
        return [names[column] for column in self.columns]


@final
class FeatureScaler(QueryTransformer):
    """Scale each feature to mean 0 and variance 1 over the training rows.

    Rows are scaled by what was learned, whatever comes with them, so that the scores of single
    items can be compared. A feature that is constant becomes 0. Blanks (NaN) are ignored and stay
    blank.

    Attributes
    ----------
    mean_, scale_ : (n_features,)
        What is subtracted, and what is divided by.
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> from rankwise import FeatureScaler
    >>> scaler = FeatureScaler().fit([[1.0, 5.0], [3.0, 5.0]])
    >>> scaler.transform([[2.0, 5.0], [5.0, 5.0]])
    array([[0., 0.],
           [3., 0.]])
    """

    mean_: Annotated[FloatArray, Finite(), Shape("n_features")]
    scale_: Annotated[FloatArray, Finite(), Shape("n_features")]

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:  # noqa: ARG002
        count = np.maximum(np.count_nonzero(~np.isnan(X), axis=0), 1)
        self.mean_ = np.nansum(X, axis=0) / count
        scale = np.sqrt(np.nansum(np.square(X - self.mean_), axis=0) / count)
        is_rounding = scale <= 1e-12 * np.abs(self.mean_)
        self.scale_ = np.where(is_rounding, 1.0, scale)

    def _transformed(self, X: Matrix, queries: Queries, found: None = None) -> Matrix:  # noqa: ARG002
        return (X - self.mean_) / self.scale_

    def _names(self, names: list[str]) -> list[str]:
        return names
