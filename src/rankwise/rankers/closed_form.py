"""What rankers solved in closed form share: the checks, the graph, the space, the weights."""

from abc import ABC
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.features.kernels import Kernel, Precomputed, as_kernel
from rankwise.features.maps import Expansion
from rankwise.graph.preference_graph import QueryWeight
from rankwise.rankers.base import PointRanker
from rankwise.rankers.preferences import Given, Preferences
from rankwise.rankers.randomness import generator
from rankwise.selection.spaces import Space, smallest_space

ALPHA_REMEDY = "Choose a positive value; small values regularise little."


class ClosedFormRanker(PointRanker, ABC):
    """A least-squares ranker with a kernel, a basis and query weights among its parameters."""

    kernel: Any
    query_weight: QueryWeight
    basis: int | ArrayLike | None
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.pairwise = self.kernel in ("precomputed", Precomputed())
        return tags

    def _check_rows(self, X: Any) -> Matrix:
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=2,
        )

    def _preferences(self, X: Matrix, given: Given, cost: str, ties: str) -> Preferences:
        return given.preferences(X.shape[0], cost=cost, ties=ties, query_weight=self.query_weight)

    def _space(
        self,
        X: Matrix,
        kernel: str | Kernel | Callable[[Any, Any], Any],
        preferences: Preferences,
    ) -> Space:
        self.kernel_ = as_kernel(kernel).fitted_to(X)
        rng = generator(self.random_state)
        return smallest_space(X, self.kernel_, self.basis, preferences.rank, rng)

    def _keep(
        self, space: Space, weights: FloatArray, preferences: Preferences, *, with_qid: bool
    ) -> Self:
        """Store the solution: `coef_` or `dual_coef_`, whichever this problem has."""
        folded = space.fold(weights)
        if not preferences.is_multi_output:
            folded = folded[:, 0]
        self.predictor_ = space.predictor
        if isinstance(space.predictor, Expansion):
            self.dual_coef_ = folded
        else:
            self.coef_ = folded.T
        self.n_queries_ = preferences.first.queries.n_queries
        self.ignored_queries_ = preferences.first.n_ignored_queries
        self.fitted_with_qid_ = with_qid
        return self

    def _scores(self, X: Matrix) -> FloatArray:
        weights = self.dual_coef_ if isinstance(self.predictor_, Expansion) else self.coef_.T
        return self.predictor_.product(X, weights)
