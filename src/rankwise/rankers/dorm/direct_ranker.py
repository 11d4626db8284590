"""What DORM and DORMCV share: the checks of rows, the fitted state, diverse rankings."""

from abc import ABC
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_length
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.features.kernels import Precomputed
from rankwise.features.maps import Expansion, FeatureMap
from rankwise.measures.value import Measure
from rankwise.rankers.base import PointRanker
from rankwise.rankers.dorm.cutting_planes import Solution
from rankwise.rankers.dorm.ground import Base
from rankwise.rankers.dorm.oracles.diversity import assign_constrained, diverse_positions
from rankwise.rankers.dorm.problem import Task


class DirectRanker(PointRanker, ABC):
    """A ranker that optimises a measure directly."""

    kernel: Any
    basis: int | ArrayLike | None
    predictor_: FeatureMap
    solution_: Solution

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.input_tags.pairwise = self.kernel in ("precomputed", Precomputed())
        return tags

    def predict_diverse(
        self, X: Any, sources: ArrayLike, n: int, qid: ArrayLike | None = None
    ) -> IntArray:
        """Return the rows in ranked order, with different sources among the first n of a query.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to rank.
        sources : (n_items,) or (n_items, n_conditions)
            Where each item comes from: at most one item of a source is among the first n, or among
            the first as many as there are sources. Or shares of 0 or more: for each column, the
            shares of the first n items sum to 1 at most, which may take long to find.
        n : int
            Number of positions that are to be diverse.
        qid : (n_items,), optional
            The query of each row; one ranking of all rows when left out.

        Returns
        -------
        order : (n_items,)
            Row numbers, query after query as in `rank`, the best item of each first. Among all
            rankings that keep the condition this is the best by the scores; under conditions on
            shares, the best with position i counting 1 / i.

        Notes
        -----
        [LS08] Sect. 5.1.

        Examples
        --------
        >>> from rankwise import DORM
        >>> ranker = DORM(C=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3])
        >>> ranker.predict_diverse([[5.0], [4.0], [3.0], [2.0]], ["a", "a", "b", "a"], n=2)
        array([0, 2, 1, 3])
        """
        scores = self.predict(X)
        queries = Queries.single(len(scores)) if qid is None else Queries.from_qid(qid)
        named = np.asarray(sources)
        check_length("qid", queries.index, len(scores))
        check_length("sources", named, len(scores))
        order = queries.order
        if named.ndim == 1:
            places = diverse_positions(scores[order], named[order], queries.starts, n)
        else:
            places = _constrained_positions(scores[order], named[order], queries.starts, n)
        ranking = np.empty(len(order), dtype=np.intp)
        ranking[places + np.repeat(queries.starts[:-1], queries.sizes)] = order
        return ranking

    def _check_rows(self, X: Any, *, reset: bool = True) -> Matrix:
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=2 if reset else 1,
        )

    def _keep(
        self,
        task: Task,
        solution: Solution,
        base: Base | None = None,
        *,
        with_qid: bool,
    ) -> Self:
        """Store the solution: `coef_` or `dual_coef_`, whichever this problem has."""
        weights, lesson = task.fold(solution), task.lesson
        self.predictor_ = task.ground.predictor
        if base is not None:
            self.predictor_, weights = task.ground.join(weights, base)
        if isinstance(self.predictor_, Expansion):
            self.dual_coef_ = weights
        else:
            self.coef_ = weights
        self.solution_, self.C_, self.n_iter_ = solution, solution.C, solution.n_passes
        self.improvement_ = task.improvement(solution, base)
        self.n_queries_ = lesson.given.queries.n_queries
        self.ignored_queries_ = self.n_queries_ - lesson.queries.n_queries
        self.fitted_with_qid_ = with_qid
        return self

    @property
    def _weights(self) -> FloatArray:
        return self.dual_coef_ if isinstance(self.predictor_, Expansion) else self.coef_

    def _scores(self, X: Matrix) -> FloatArray:
        return self.predictor_.product(X, self._weights)


def head_depth(n_diverse: int | None, aim: Any) -> int:
    """Return the number of positions that sources must differ in."""
    depth = n_diverse
    if depth is None and isinstance(aim, Measure):
        depth = aim.parameters.get("cutoff")
    if depth is None:
        raise InvalidInputError(
            "`n_diverse` must say how many positions hold different sources, as the measure has no "
            f"cut-off: got `sources` and the measure {aim!r}. Give n_diverse."
        )
    return depth


def _constrained_positions(
    scores: FloatArray, shares: FloatArray, starts: IntArray, n: int
) -> IntArray:
    """Return the best positions of each query under weighted conditions on the first n.

    A mixed-integer programme finds which items come first, where position i counts 1 / i; inside
    and behind these the scores decide.
    """
    parts = []
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        g = scores[first:last]
        span = float(np.ptp(g))
        V = np.outer(
            (g - g.min()) / (span if span > 0 else 1.0), 1.0 / np.arange(1.0, len(g) + 1.0)
        )
        depth = min(n, len(g))
        is_behind = assign_constrained(V, shares[first:last], depth) >= depth
        positions = np.empty(len(g), dtype=np.intp)
        positions[np.lexsort((-g, is_behind))] = np.arange(len(g))
        parts.append(positions)
    return np.concatenate(parts)
