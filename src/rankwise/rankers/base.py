"""What every ranker shares: scores, orders, the default measure, saving."""

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_length, check_scores
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.pairwise import Concordance
from rankwise.rankers.storage import save


class Ranker(BaseEstimator, ABC):
    """A learner of ranking functions with scikit-learn's interface.

    Metadata routing asks for ``qid`` in ``fit`` and ``score`` without further settings.
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}

    fitted_with_qid_: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _scores(self, X: Matrix) -> FloatArray:
        """Return the scores of checked rows."""

    @abstractmethod
    def predict(self, X: Any) -> FloatArray:
        """Return a score for every row of X: higher is better, comparable inside a query only."""

    def rank(self, X: Any, qid: ArrayLike | None = None, k: int | None = None) -> IntArray:
        """Return the rows in ranked order: query after query, the best item of each first.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to rank.
        qid : (n_items,), optional
            The query of each row; one ranking of all rows when left out.
        k : int, optional
            Keep the best k of each query only.

        Returns
        -------
        order : (n_ranked,)
            Row numbers; queries come in the order in which they first appear, items of equal score
            in the order of the rows.
        """
        scores = self.predict(X)
        if scores.ndim != 1:
            raise InvalidInputError(
                f"`rank` needs a single output: this ranker has {scores.shape[1]}. "
                "Rank each column of `predict` instead."
            )
        queries = Queries.single(len(scores)) if qid is None else Queries.from_qid(qid)
        check_length("qid", queries.index, len(scores))
        order = np.lexsort((-scores, queries.index))
        if k is None:
            return order
        if k < 1:
            raise InvalidInputError(f"`k` must be at least 1: got {k}.")
        place = np.arange(len(order)) - queries.starts[queries.index[order]]
        return order[place < k]

    def score(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the share of pairs put in the right order, averaged over queries.

        Ties in the prediction count one half, pairs of equal `y` do not count: the AUC for two
        grades, the C-index in general. 1 is perfect, 0.5 is chance. For other measures see
        `make_ranking_scorer` and `evaluate`.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        y : (n_items,) or (n_items, n_outputs)
            Their true scores; several outputs are averaged.
        qid : (n_items,), optional
            The query of each row; must be given if `fit` had one.
        sample_weight : (n_items,), optional
            Weights; a pair counts the product of its ends' weights.
        """
        check_is_fitted(self)
        if qid is None and self.fitted_with_qid_:
            raise InvalidInputError(
                "`score` must be given `qid`, since this ranker was fitted with it: scores compare "
                "inside a query only. Pass qid=..., and in cross-validation enable metadata "
                "routing: sklearn.set_config(enable_metadata_routing=True)."
            )
        scores = self.predict(X)
        truth = check_scores(y)
        check_length("y", truth, len(scores))
        if truth.shape != scores.shape:
            raise InvalidInputError(
                f"`y` must have the shape of the prediction {scores.shape}: got {truth.shape}."
            )
        queries = Queries.single(len(scores)) if qid is None else Queries.from_qid(qid)
        check_length("qid", queries.index, len(scores))
        columns = zip(np.atleast_2d(truth.T), np.atleast_2d(scores.T), strict=True)
        values = [Concordance.overall(t, s, queries, sample_weight) for t, s in columns]
        return float(np.mean(values))

    def save(self, path: str | PathLike[str]) -> None:
        """Write this fitted ranker to one file without pickle; `rankwise.load` reads it.

        Parameters
        ----------
        path : path
            The file, replaced only once the new one is complete.
        """
        check_is_fitted(self)
        save(self, path)


class PointRanker(Ranker, ABC):
    """A ranker whose prediction is the scores and nothing else."""

    def predict(self, X: Any) -> FloatArray:
        """Return a score for every row of X: higher is better, comparable inside a query only.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.

        Returns
        -------
        scores : (n_items,) or (n_items, n_outputs)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return self._scores(X)
