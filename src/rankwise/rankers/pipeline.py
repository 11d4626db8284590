"""Transformers and a ranker as one ranker, which is saved to one file."""

from __future__ import annotations

from typing import Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import refuse_overflow
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import as_given, on_host
from rankwise.core.queries import TrainingData
from rankwise.io.frames import read_columns
from rankwise.rankers.base import Ranker
from rankwise.rankers.reading import read_rows, read_training, refuse_other_arguments


@final
class RankerPipeline(Ranker):
    """Apply transformers to rows, then rank them: one object to fit, use and save.

    Every step that requests ``qid`` gets it, in training and in prediction, without metadata
    routing. Steps may also be transformers of scikit-learn; a pipeline of rankwise's own steps is
    saved to one file without pickle.

    Parameters
    ----------
    steps : list of estimators
        Transformers, and a ranker at the end.

    Attributes
    ----------
    steps_ : list of estimators
        The fitted steps.
    needs_qid_ : bool
        Whether a step compares the rows of a query, so that ``predict`` must be given ``qid``.
    n_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Examples
    --------
    >>> from rankwise import RankerPipeline, RankRLS, WithinQueryRanks, WithinQueryScaler
    >>> X, y = [[1.0, 900.0], [2.0, 300.0], [7.0, 5.0], [5.0, 8.0]], [0, 1, 1, 0]
    >>> ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, y, qid=[1, 1, 2, 2])
    >>> ranker.rank(X, qid=[1, 1, 2, 2])
    array([1, 0, 2, 3])
    """

    steps_: list[BaseEstimator]
    needs_qid_: bool

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [step.__sklearn_tags__().input_tags for step in self.steps]
        tags.input_tags.sparse = all(step.sparse for step in inner)
        tags.input_tags.allow_nan = all(step.allow_nan for step in inner)
        tags.input_tags.string = inner[0].string
        return tags

    @property
    def compares_items_(self) -> bool:
        """Whether the score of a row depends on the other rows of its query."""
        check_is_fitted(self)
        *transformers, ranker = self.steps_
        return any(_asks(step, "transform") for step in transformers) or ranker.compares_items_

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Fit every step to the output of the steps before it.

        Parameters
        ----------
        X : (n_items, n_features)
            The items, as the first step takes them.
        y : (n_items,) or (n_items, n_outputs)
            Their scores.
        qid : (n_items,), optional
            The query of each item.
        sample_weight : (n_items,), optional
            Weights of the items, for the ranker.
        """
        refuse_other_arguments(others)
        is_sequence = isinstance(self.steps, list | tuple)
        if not is_sequence or not self.steps or not _asks(self.steps[-1], "score"):
            raise InvalidInputError(
                f"`steps` must end in a ranker: got {self.steps!r}. Put transformers before it."
            )
        X, data = read_training(self, X, y, qid, sample_weight)
        qid = data.queries.spread(data.queries.ids) if data.has_qid else None
        self.steps_ = [clone(step) for step in self.steps]
        self.needs_qid_ = False
        for step in self.steps_[:-1]:
            options = {"qid": qid} if _asks(step, "fit") else {}
            self.needs_qid_ |= _asks(step, "transform") and data.has_qid
            X = step.fit_transform(X, data.y, **options)
        weights = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
        self.steps_[-1].fit(X, data.y, qid=qid, **weights)
        self._remember(data)
        return self

    def predict(self, X: Any, qid: ArrayLike | None = None) -> FloatArray:
        """Return a score for every row of X; higher is better, comparable only within a query.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score; if a step compares the rows of a query, all rows of the query together.
        qid : (n_items,), optional
            The query of each row; required if a step needs it.

        Returns
        -------
        scores : (n_items,) or (n_items, n_outputs)
        """
        check_is_fitted(self)
        if qid is None and self.needs_qid_:
            raise InvalidInputError(
                "`predict` must be given `qid`, since this ranker compares the rows of a query: "
                "got none. For rows of a single query, give the same id for all. scikit-learn's "
                "cross_val_predict passes none on: predict fold by fold, with QueryKFold."
            )
        (qid,) = read_columns(X, qid=qid)
        return as_given(self._through(read_rows(self, X), on_host(qid)), X)

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Check only the shape and the names; the first step checks the values."""
        with refuse_overflow():
            rows = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=None,
                ensure_all_finite="allow-nan",
                ensure_min_samples=2 if reset else 1,
            )
        return rows

    def _through(self, X: Any, qid: ArrayLike | None) -> FloatArray:
        for step in self.steps_[:-1]:
            X = step.transform(X, **({"qid": qid} if _asks(step, "transform") else {}))
        return self.steps_[-1].predict(X, qid=qid)

    def _scores(self, X: Matrix) -> FloatArray:
        """Return the scores of rows of a single query."""
        return self._through(X, np.zeros(X.shape[0], dtype=np.intp))


def join_fitted(steps: list[Any], X: Any, data: TrainingData) -> RankerPipeline:
    """Return a pipeline of steps that were fitted one by one, starting from X."""
    pipeline = RankerPipeline([clone(step) for step in steps])
    pipeline._check_rows(X, reset=True)
    pipeline.steps_ = steps
    pipeline.needs_qid_ = data.has_qid and any(_asks(step, "transform") for step in steps[:-1])
    pipeline._remember(data)
    return pipeline


def _asks(step: Any, method: str) -> bool:
    """Return whether a method of an estimator requests ``qid``."""
    return bool(get_routing_for_object(step).consumes(method, ["qid"]))
