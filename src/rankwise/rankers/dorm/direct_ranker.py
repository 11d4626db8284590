"""What DORM and DORMCV share: the fitted state, diverse rankings, progress and warnings."""

import warnings
from abc import ABC
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import check_length
from rankwise.core.errors import ConvergenceWarning
from rankwise.core.queries import Queries
from rankwise.features.kernels import Precomputed
from rankwise.rankers.base import PointRanker
from rankwise.rankers.dorm.oracles.diversity import assign_constrained, diverse_positions
from rankwise.rankers.dorm.problem import EarlierFunction, RankingProblem
from rankwise.solve.iteration import CertifiedSolution, Step
from rankwise.solve.progress import StepCallback, steps_shown


class DirectRanker(PointRanker, ABC):
    """A ranker that optimises a measure directly."""

    kernel: Any
    basis: int | ArrayLike | None
    solution_: CertifiedSolution

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
            PackedRows to rank.
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
        queries = Queries.of(qid, len(scores))
        named = np.asarray(sources)
        check_length("sources", named, len(scores))
        order = queries.order
        find = diverse_positions if named.ndim == 1 else _constrained_positions
        positions = find(scores[order], named[order], queries.starts, n)
        ranking = np.empty(len(order), dtype=np.intp)
        ranking[positions + np.repeat(queries.starts[:-1], queries.sizes)] = order
        return ranking

    def _keep_solution(
        self,
        problem: RankingProblem,
        solution: CertifiedSolution,
        earlier: EarlierFunction | None = None,
    ) -> Self:
        """Store the solution and what is known about it."""
        predictor, weights = problem.weights(solution, earlier)
        self.solution_, self.C_, self.n_iter_ = solution, solution.C, solution.n_iter
        self.improvement_ = problem.improvement(solution, earlier)
        return self._keep(predictor, weights, problem.data, problem.n_ignored_queries)


def passes_shown(
    progress: bool | StepCallback, label: str
) -> AbstractContextManager[StepCallback | None]:
    """Return what yields the function to call after each pass of the solver."""

    def describe(step: Step) -> str:
        about = "" if np.isfinite(step.objective) else "about "
        gap = f"gap {about}{step.error:.1e}"
        return f"{label}  {step.label}  iteration {step.iteration}  {gap}"

    return steps_shown(progress, label, describe=describe)


def warn_if_nothing_learned(improvement: float, objective: object, stacklevel: int = 3) -> None:
    """Warn that the weights found are no better than none, which their ranking does not show."""
    if improvement > 0.0:
        return
    warnings.warn(
        f"Nothing was learned: the bound on the loss in {objective} is no lower than without any "
        "weights, so the ranking means little. Train for a measure without a cut-off, such as NDCG "
        "(it may still be judged by one with a cut-off), or for other features.",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


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
