"""What scikit-learn's tools need: folds of whole queries, scorers, and rankers as regressors."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import check_length, check_scores, hint
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, RandomSeed, check_call, checked
from rankwise.core.queries import Queries, QueryFingerprints
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure, in_quotes
from rankwise.rankers.base import generator
from rankwise.rankers.scoring_function import predicted


@final
class RankerRegressor(RegressorMixin, BaseEstimator):
    """Wrap a fitted ranker as a scikit-learn regressor that predicts its scores.

    Build it with `as_regressor`.

    Parameters
    ----------
    ranker : ranker
        A fitted ranker.
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
        """Refit the ranker.

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
        """Return the scores of rows; if ``qid`` is given, these must be its rows.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        """
        if self.qid is not None:
            check_length("X", X, len(self.qid))  # type: ignore[arg-type]
        return predicted(self.ranker, X, self.qid)


def as_regressor(ranker: Any, qid: ArrayLike | None = None) -> RankerRegressor:
    """Return a fitted ranker as a regressor, for ``sklearn.inspection`` and similar tools.

    Parameters
    ----------
    ranker : ranker
        A fitted ranker.
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


@final
class QueryKFold(BaseCrossValidator):
    """Split rows into folds of whole queries.

    With metadata routing enabled, ``cross_val_score`` and ``GridSearchCV`` pass it ``qid`` without
    further settings. Queries are assigned in random order, each to the fold with the fewest rows.

    Parameters
    ----------
    n_splits : int
        Number of folds, at least 2.
    random_state : int, RandomState or None
        Draws the order of the queries; None takes a fixed order, so that folds are repeatable.

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

    def __init__(self, n_splits: Count = 5, *, random_state: RandomSeed = None) -> None:
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
            The query of each row; give one of the two.
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
        n_folds = checked(self).n_splits
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


SeenQueries: TypeAlias = Literal["refuse", "allow"]


@final
class RankingScorer:
    """Score a fitted estimator by a ranking measure; higher is better.

    It requests ``qid`` from scikit-learn's metadata routing.

    Parameters
    ----------
    measure : Measure
        The measure; one where lower is better is negated.
    seen_queries : {"refuse", "allow"}
        What to do about queries of which other items were in the training data.
    """

    def __init__(self, measure: Measure, seen_queries: SeenQueries = "refuse") -> None:
        check_call(RankingScorer, seen_queries=seen_queries)
        self.measure = measure
        self.seen_queries = seen_queries
        self._requests: dict[str, bool | str | None] = {"qid": True}
        if measure.takes_weights:
            self._requests["sample_weight"] = None

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | Sequence[Hashable] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the overall value of the estimator's scores for X, negated if lower is better.

        Parameters
        ----------
        estimator : estimator
            Any fitted estimator with ``predict``.
        X : (n_items, n_features)
            The rows.
        y : (n_items,)
            Their grades.
        qid : (n_items,), optional
            Their queries; by default they form one query.
        sample_weight : (n_items,), optional
            Weights of the items, for measures of pairs.
        """
        if qid is None and _fitted_with_qid(estimator):
            raise InvalidInputError(
                f"`qid` must be given to score by {self.measure!r}, since the ranker was fitted "
                "with it: got none. In cross-validation, call "
                "sklearn.set_config(enable_metadata_routing=True) and pass params={'qid': qid}."
            )
        scores = np.asarray(_predict(estimator, X, qid))
        queries = Queries.of(qid, len(scores))
        if qid is not None and self.seen_queries == "refuse":
            self._refuse_torn(estimator, queries, y)
        value = self.measure.overall(y, scores, queries, sample_weight)
        if np.isnan(value):
            raise InvalidInputError(
                f"At least one query must define {self.measure!r}: none of {queries.n_queries} "
                "does, since their grades do not differ or none is relevant. Use larger folds, or "
                "set `empty` of the measure."
            )
        return value if self.measure.greater_is_better else -value

    def _refuse_torn(self, estimator: Any, queries: Queries, y: ArrayLike) -> None:
        """Refuse queries that are partly in the training data."""
        remembered = getattr(_ranker_inside(estimator), "training_queries_", None)
        if remembered is None:
            return
        n_torn = remembered.torn(QueryFingerprints.of(queries, check_scores(y)))
        if n_torn:
            raise InvalidInputError(
                f"Test queries must not be in the training data: {n_torn} of {queries.n_queries} "
                "are, with other items, and a value from torn queries is too high. Split with "
                "`QueryKFold`, which keeps queries whole; if both data sets use the same ids for "
                "different queries, change the ids or use seen_queries='allow'."
            )

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the requests to scikit-learn's metadata routing."""
        request = MetadataRequest(owner=self)
        for name, alias in self._requests.items():
            request.score.add_request(param=name, alias=alias)
        return request

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Change the requests, as for scikit-learn's scorers.

        Parameters
        ----------
        **requests
            For ``qid`` and ``sample_weight``: True to request it, False to ignore it, None to
            refuse it, or the name under which it is passed.
        """
        for name in requests:
            if name not in self._requests:
                raise InvalidInputError(
                    f"A scorer by {self.measure!r} takes {in_quotes(self._requests)}: got {name!r}."
                    f"{hint(name, self._requests)}"
                )
        self._requests |= requests
        return self

    def _accept_sample_weight(self) -> bool:
        """Tell scikit-learn, without metadata routing, whether to pass weights."""
        return self.measure.takes_weights

    def __repr__(self) -> str:
        return f"make_ranking_scorer({str(self.measure)!r})"


def make_ranking_scorer(
    measure: str | Measure, *, seen_queries: SeenQueries = "refuse"
) -> RankingScorer:
    """Make a scorer for scikit-learn's ``cross_val_score``, ``GridSearchCV`` and similar tools.

    With metadata routing enabled the scorer requests ``qid`` without further settings. It works
    with rankers, with pipelines that end in one, and with any regressor. Without ``qid`` all rows
    form one query, unless the ranker was fitted with ``qid``: then it is an error.

    Rankers remember their training queries. A test query of which other items were in the training
    data is refused, since values from torn queries are much too high.

    Parameters
    ----------
    measure : measure or name
        For example ``NDCG @ 10`` or ``"NDCG @ 10"``; a measure where lower is better is negated.
    seen_queries : {"refuse", "allow"}
        Whether to refuse torn queries.

    Examples
    --------
    >>> import numpy as np, sklearn
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import cross_val_score
    >>> from rankwise import QueryKFold, make_ranking_scorer
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    >>> y = X @ [1.0, -2.0, 0.5] + rng.normal(size=60) > 1
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scorer = make_ranking_scorer("NDCG @ 3")
    ...     values = cross_val_score(
    ...         Ridge(), X, y, cv=QueryKFold(3), scoring=scorer, params={"qid": qid}
    ...     )
    >>> values.round(2)
    array([0.91, 0.97, 0.94])
    """
    return RankingScorer(parse_measure(measure), seen_queries)


def _ranker_inside(estimator: Any) -> Any:
    """Return the last step of pipelines and searches."""
    if isinstance(estimator, Pipeline):
        return _ranker_inside(estimator.steps[-1][1])
    inner = getattr(estimator, "best_estimator_", None)
    return estimator if inner is None else _ranker_inside(inner)


def _fitted_with_qid(estimator: Any) -> bool:
    """Say whether the ranker inside pipelines and searches was fitted with ``qid``."""
    return bool(getattr(_ranker_inside(estimator), "fitted_with_qid_", False))


def _predict(estimator: Any, X: Any, qid: Any) -> Any:
    """Return the scores of an estimator, which gets the queries if it requests them."""
    inner = getattr(estimator, "best_estimator_", estimator)
    asks = get_routing_for_object(inner).consumes("predict", ["qid"])
    if qid is None or not asks:
        return estimator.predict(X)
    if isinstance(inner, Pipeline) and not get_config()["enable_metadata_routing"]:
        return inner.predict(X)
    return inner.predict(X, qid=qid)
