"""The recipe for ranking search results, as one ranker."""

from __future__ import annotations

from typing import Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.automatic.sum_of_rankers import (
    SumOfRankers,
    arrays_between_steps,
    fit_preparation,
)
from rankwise.core.arrays import FloatArray
from rankwise.core.params import Count, RandomSeed, checked
from rankwise.features.kernels import Gaussian
from rankwise.graph.preference_graph import Ties
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.reading import RawColumns, read_training, refuse_other_arguments
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV
from rankwise.transformers.numeric import WithinQueryRanks, WithinQueryScaler

ALPHAS = tuple(2.0**k for k in range(-8, 9, 2))
N_FOLDS = 5


@final
class SearchRanker(SumOfRankers):
    """Rank search results from raw features: the sum of two kernel rankers inside queries.

    Categories are encoded and blanks filled inside queries, and every feature is scaled to the
    range from 0 to 1 inside its query. The score is the sum of two `RankRLSCV` with a Gaussian
    kernel on random basis rows: one on the scaled features with ties dropped, one on the scaled
    features and their ranks inside the query with ties kept. Each chooses its alpha by the measure
    on held-out queries.

    Parameters
    ----------
    measure : Measure or str
        The measure that decides.
    basis : int
        Largest number of basis rows of each kernel.
    random_state : int, RandomState or None
        Draws basis rows and folds. The default of 0 makes a fit repeatable.

    Attributes
    ----------
    preparation_ : list of transformers
        The transformers that are applied to raw rows first.
    members_, member_weights_ : list of RankerPipeline, (n_members,)
        The rankers whose scores are added, and their weights.
    held_out_scores_ : (n_items,)
        The sum of the held-out scores of the members.
    held_out_value_ : float
        The measure of these scores. It is slightly too high, since alpha was chosen on the same
        queries.
    n_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Examples
    --------
    >>> from rankwise import SearchRanker, evaluate
    >>> from rankwise.datasets import load_digits_queries
    >>> data = load_digits_queries()
    >>> ranker = SearchRanker(basis=100).fit(data.train.X, data.train.y, qid=data.train.qid)
    >>> scores = ranker.predict(data.test.X, qid=data.test.qid)
    >>> bool(evaluate(data.test.y, scores, data.test.qid, "NDCG @ 10").mean[0] > 0.7)
    True
    """

    held_out_scores_: FloatArray
    held_out_value_: float

    def __init__(
        self,
        measure: MeasureLike = "NDCG @ 10",
        *,
        basis: Count = 400,
        random_state: RandomSeed = 0,
    ) -> None:
        self.measure = measure
        self.basis = basis
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Learn from scored items with raw features.

        Parameters
        ----------
        X : (n_items, n_features)
            Numbers of any scale, text as categories, blanks as NaN or None.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item; by default all items form one query.
        sample_weight : (n_items,), optional
            Weights of the items.
        """
        refuse_other_arguments(others)
        given = checked(self)
        rows, data = read_training(self, X, y, qid, sample_weight, raw=RawColumns())
        scores = data.single_output("Fit one SearchRanker per output.")
        # encode categories, fill blanks, scale inside queries
        steps, filled_rows = fit_preparation(rows, data)
        scaler = WithinQueryScaler()
        with arrays_between_steps():
            prepared_rows = scaler.fit_transform(filled_rows, qid=data.queries)
        self.preparation_ = [*steps, scaler]
        width, n_basis = prepared_rows.shape[1], min(given.basis, data.n_items)
        # two members: scaled features with ties dropped, and with ranks, ties kept
        ranks = WithinQueryRanks("values_and_ranks")
        self.members_ = [
            self._member([], width, "drop", n_basis),
            self._member([ranks], 2 * width, "keep", n_basis),
        ]
        self.member_weights_ = np.ones(2)
        ids = data.queries.index if data.queries.n_queries > 1 else None
        with arrays_between_steps():
            for member in self.members_:
                member.fit(prepared_rows, scores, qid=ids, sample_weight=data.sample_weight)
        # held-out scores of the sum, and their value
        self.held_out_scores_ = np.sum(
            [m.steps_[-1].held_out_scores_ for m in self.members_], axis=0
        )
        self.held_out_value_ = given.measure.overall(scores, self.held_out_scores_, data.queries)
        self._remember(data)
        return self

    def _member(self, steps: list[Any], width: int, ties: Ties, n_basis: int) -> RankerPipeline:
        ranker = RankRLSCV(
            ALPHAS,
            cv=N_FOLDS,
            measure=self.measure,
            kernel=Gaussian(1.0 / width),
            ties=ties,
            basis=n_basis,
            random_state=self.random_state,
        )
        return RankerPipeline([*steps, ranker])
