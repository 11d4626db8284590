"""Some of the features, for steps after which others would be too many."""

from typing import Annotated, final

from numpy.typing import ArrayLike

from rankwise.core.arrays import Matrix
from rankwise.core.checks import entries_of
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import CheckedWith
from rankwise.core.queries import Queries
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
