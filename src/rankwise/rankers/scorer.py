"""Scorers for scikit-learn's model selection that measure rankings query by query."""

from collections.abc import Hashable, Sequence
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.options import hint, listed
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure


@final
class RankingScorer:
    """Score a fitted estimator by a ranking measure; higher is better.

    It requests ``qid`` from scikit-learn's metadata routing.

    Parameters
    ----------
    measure : Measure
        The measure; one where lower is better is negated.
    """

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
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
                f"`qid` must be given to score by {self.measure!r}, as the ranker was fitted with "
                "it: got none. In cross-validation, call "
                "sklearn.set_config(enable_metadata_routing=True) and pass params={'qid': qid}."
            )
        scores = np.asarray(estimator.predict(X))
        queries = Queries.of(qid, len(scores))
        value = self.measure.overall(y, scores, queries, sample_weight)
        if np.isnan(value):
            raise InvalidInputError(
                f"At least one query must define {self.measure!r}: none of {queries.n_queries} "
                "does, as their grades do not differ or none is relevant. Use larger folds, or set "
                "`empty` of the measure."
            )
        return value if self.measure.greater_is_better else -value

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
                    f"A scorer by {self.measure!r} takes {listed(self._requests)}: got {name!r}."
                    f"{hint(name, self._requests)}"
                )
        self._requests |= requests
        return self

    def _accept_sample_weight(self) -> bool:
        """Tell scikit-learn, without metadata routing, whether to pass weights."""
        return self.measure.takes_weights

    def __repr__(self) -> str:
        return f"make_ranking_scorer({str(self.measure)!r})"


def make_ranking_scorer(measure: str | Measure) -> RankingScorer:
    """Make a scorer for scikit-learn's ``cross_val_score``, ``GridSearchCV`` and the like.

    With metadata routing enabled the scorer requests ``qid`` without further settings. It works
    with rankers, with pipelines that end in one, and with any regressor. Without ``qid`` all rows
    form one query, unless the ranker was fitted with ``qid``: then it is an error.

    Parameters
    ----------
    measure : measure or name
        For example ``NDCG @ 10`` or ``"NDCG @ 10"``; a measure where lower is better is negated.

    Examples
    --------
    >>> import numpy as np, sklearn
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> from rankwise import make_ranking_scorer
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    >>> y = X @ [1.0, -2.0, 0.5] + rng.normal(size=60) > 1
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     splitter = GroupKFold(3).set_split_request(groups="qid")
    ...     scorer = make_ranking_scorer("NDCG @ 3")
    ...     values = cross_val_score(
    ...         Ridge(), X, y, cv=splitter, scoring=scorer, params={"qid": qid}
    ...     )
    >>> values.round(2)
    array([1.  , 0.85, 1.  ])
    """
    return RankingScorer(parse_measure(measure))


def _fitted_with_qid(estimator: Any) -> bool:
    """Say whether the ranker inside pipelines and searches was fitted with ``qid``."""
    if isinstance(estimator, Pipeline):
        return _fitted_with_qid(estimator.steps[-1][1])
    inner = getattr(estimator, "best_estimator_", None)
    if inner is not None:
        return _fitted_with_qid(inner)
    return bool(getattr(estimator, "fitted_with_qid_", False))
