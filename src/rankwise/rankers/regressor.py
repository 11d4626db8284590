"""A ranker as scikit-learn's regressor, for tools that take nothing else."""

from __future__ import annotations

from typing import Any, Self, final

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_length
from rankwise.rankers.scoring_function import predicted


@final
class RankerRegressor(RegressorMixin, BaseEstimator):
    """Show a fitted ranker to scikit-learn as a regressor whose prediction is the scores.

    Build it with `as_regressor`.

    Parameters
    ----------
    ranker : ranker
        Fitted.
    qid : (n_items,), optional
        The query of each row that will be scored.

    Examples
    --------
    >>> from rankwise import RankerRegressor, RankRLS
    >>> RankerRegressor(RankRLS().fit([[0.0], [1.0]], [0, 1])).predict([[2.0]]).shape
    (1,)
    """

    def __init__(self, ranker: Any, qid: ArrayLike | None = None) -> None:
        self.ranker = ranker
        self.qid = qid

    def __sklearn_is_fitted__(self) -> bool:
        check_is_fitted(self.ranker)
        return True

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self.ranker.n_features_in_)

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit the ranker anew.

        Parameters
        ----------
        X : (n_items, n_features)
            The items.
        y : (n_items,)
            Their scores.
        """
        self.ranker.fit(X, y, qid=self.qid)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the scores of rows, which are those of ``qid`` where it is given.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        """
        if self.qid is not None:
            check_length("X", X, len(self.qid))  # type: ignore[arg-type]
        return predicted(self.ranker, X, self.qid)


def as_regressor(ranker: Any, qid: ArrayLike | None = None) -> RankerRegressor:
    """Return a fitted ranker as a regressor, for ``sklearn.inspection`` and tools like it.

    Parameters
    ----------
    ranker : ranker
        Fitted.
    qid : (n_items,), optional
        The query of each row that will be scored, for rankers that compare the items of a query.

    Returns
    -------
    regressor : RankerRegressor

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.inspection import partial_dependence
    >>> from rankwise import RankRLS, as_regressor
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> ranker = RankRLS().fit(X, X[:, 0])
    >>> found = partial_dependence(as_regressor(ranker), X, [0], grid_resolution=5)
    >>> bool((np.diff(found["average"][0]) > 0).all())
    True
    """
    return RankerRegressor(ranker, qid)
