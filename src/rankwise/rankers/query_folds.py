"""Folds of whole queries for scikit-learn's model selection, without settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from rankwise.core.arrays import IntArray
from rankwise.core.checks import check_count
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.rankers.base import generator


@final
class QueryKFold(BaseCrossValidator):
    """Split rows into folds of whole queries.

    With metadata routing enabled, ``cross_val_score`` and ``GridSearchCV`` hand it ``qid`` without
    further settings. Queries are dealt in random order, each to the fold that has the fewest rows.

    Parameters
    ----------
    n_splits : int
        Number of folds, at least 2.
    random_state : int, RandomState or None
        Draws the order of the queries; None takes a fixed one, so that folds can be repeated.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.model_selection import cross_val_score
    >>> from rankwise import QueryKFold, RankRLS
    >>> X = [[0.0], [1.0], [2.0], [1.0], [0.0], [3.0], [2.0], [1.0]]
    >>> y, qid = [0, 1, 2, 1, 0, 1, 1, 0], ["a", "a", "a", "b", "b", "c", "d", "d"]
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     cross_val_score(RankRLS(), X, y, cv=QueryKFold(2), params={"qid": qid})
    array([1., 1.])
    """

    __metadata_request__split: ClassVar = {"qid": True}

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def split(
        self, X: Any, y: Any = None, groups: ArrayLike | None = None, qid: ArrayLike | None = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the training rows and the test rows of each fold.

        Parameters
        ----------
        X : (n_items, n_features)
            The rows; only their number matters.
        y : ignored
        groups, qid : (n_items,)
            The query of each row; one of the two.
        """
        yield from super().split(X, y, qid if qid is not None else groups)

    def _iter_test_masks(self, X: Any = None, y: Any = None, groups: Any = None) -> Any:  # noqa: ARG002
        if groups is None:
            raise InvalidInputError(
                "QueryKFold must be given `qid`: got none. In cross-validation, call "
                "sklearn.set_config(enable_metadata_routing=True) and pass params={'qid': qid}."
            )
        fold = self._fold_of_rows(Queries.from_qid(groups))
        return (fold == k for k in range(self.n_splits))

    def _fold_of_rows(self, queries: Queries) -> IntArray:
        n_folds = check_count("n_splits", self.n_splits)
        if not 2 <= n_folds <= queries.n_queries:
            raise InvalidInputError(
                f"`n_splits` must be between 2 and the number of queries, {queries.n_queries}: got "
                f"{n_folds}."
            )
        rng = generator(0 if self.random_state is None else self.random_state)
        rows, fold = np.zeros(n_folds), np.empty(queries.n_queries, dtype=np.intp)
        for query in rng.permutation(queries.n_queries):
            fold[query] = np.argmin(rows)
            rows[fold[query]] += queries.sizes[query]
        return fold[queries.index]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **_: Any) -> int:  # noqa: ARG002
        """Return the number of folds."""
        return self.n_splits
