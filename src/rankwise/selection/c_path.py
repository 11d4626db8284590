"""The value of a measure along a grid of C, and the choice it leads to."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.features.kernels import Kernel
from rankwise.measures.value import Measure
from rankwise.selection.folds import HeldOut
from rankwise.selection.judging import judge_scores
from rankwise.selection.path import ChoiceRule, good_enough, label_axes, new_axes


@final
@dataclass(frozen=True, eq=False)
class CPath:
    """Hold the held-out values of a measure for every C.

    Parameters
    ----------
    Cs : (n_Cs,)
        The grid, rising.
    measure : Measure
        What was measured.
    values : (n_Cs,)
        Its value.
    standard_errors : (n_Cs,)
        Its standard error over queries.
    per_query : (n_Cs, n_queries)
        Its value for each query.
    gaps : (n_Cs,)
        The largest relative duality gap of the solutions behind a value.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import NDCG, CPath
    >>> path = CPath(np.array([0.1, 1.0, 10.0]), NDCG, np.array([0.8, 0.85, 0.85]),
    ...              np.full(3, 0.1), np.zeros((3, 0)), np.full(3, 1e-3))
    >>> path.best("best"), path.best("one_standard_error")
    (1, 0)
    """

    Cs: FloatArray
    measure: Measure
    values: FloatArray
    standard_errors: FloatArray
    per_query: FloatArray
    gaps: FloatArray

    @classmethod
    def judge(
        cls,
        scores: FloatArray,
        y: FloatArray,
        queries: Queries,
        rows: IntArray,
        measure: Measure,
        Cs: FloatArray,
        gaps: FloatArray,
    ) -> Self:
        """Measure held-out scores of shape (n_Cs, n_items), looking at some rows only."""
        held_out = HeldOut(scores[:, :, None], np.zeros(len(Cs)))
        path = judge_scores(held_out, y[:, None], queries, rows, measure, Cs)
        if np.isnan(path.values).any() or path.per_query is None:
            raise InvalidInputError(
                f"At least one held-out query must define {measure!r}: none of "
                f"{queries.take(rows).n_queries} does. Give queries with different grades."
            )
        return cls(Cs, measure, path.values, path.standard_errors, path.per_query, gaps)

    def best(self, rule: ChoiceRule = "best") -> int:
        """Return the position of the chosen C; of equal values the smallest C wins.

        ``"one_standard_error"`` takes the smallest C whose value is within one standard error of
        the best.
        """
        return int(good_enough(self.values, self.standard_errors, self.measure, rule)[0])

    def plot(self, ax: Any = None, chosen: int | None = None) -> Any:
        """Draw the values with their standard errors against C; return the axes."""
        ax = ax if ax is not None else new_axes()
        ax.errorbar(self.Cs, self.values, yerr=self.standard_errors, marker="o", capsize=2)
        ax.set_xscale("log")
        label_axes(ax, "C", self.measure, None if chosen is None else self.Cs[chosen])
        return ax


@final
@dataclass(frozen=True, eq=False)
class CCandidate:
    """Hold one setting of a search and how it fared.

    Parameters
    ----------
    measure : Measure or str
        What was trained for.
    kernel : Kernel
        The kernel, with all its parameters.
    decay : float, str or array
        The decay.
    path : CPath
        The held-out values for every C.
    """

    measure: Any
    kernel: Kernel
    decay: Any
    path: CPath
