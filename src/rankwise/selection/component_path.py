"""The value of a measure for every number of components, and the choice it leads to."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import NumericalError
from rankwise.core.queries import Queries
from rankwise.measures.value import Measure
from rankwise.selection.folds import HeldOut
from rankwise.selection.judging import judge_scores
from rankwise.selection.path import ChoiceRule, good_enough, label_axes, new_axes


@final
@dataclass(frozen=True, eq=False)
class ComponentPath:
    """Hold the held-out values of a measure for every number of components.

    Parameters
    ----------
    n_components : (n_numbers,)
        The numbers of components, rising.
    measure : Measure
        What was measured.
    values : (n_numbers,)
        Its value, NaN where double precision cannot deliver one.
    standard_errors : (n_numbers,)
        Its standard error over queries.
    per_query : (n_numbers, n_queries)
        Its value for each query.
    rounding_errors : (n_numbers,)
        Estimates of the relative error that rounding has made in the scores behind a value.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ComponentPath, Concordance
    >>> path = ComponentPath(np.array([1, 2, 3]), Concordance, np.array([0.8, 0.85, 0.85]),
    ...                      np.full(3, 0.1), np.zeros((3, 0)), np.zeros(3))
    >>> path.best("best"), path.best("one_standard_error")
    (1, 0)
    """

    n_components: IntArray
    measure: Measure
    values: FloatArray
    standard_errors: FloatArray
    per_query: FloatArray
    rounding_errors: FloatArray

    @classmethod
    def judge(
        cls, held_out: HeldOut, Y: FloatArray, queries: Queries, rows: IntArray, measure: Measure
    ) -> Self:
        """Measure held-out scores, whose first axis is the number of components from 1.

        Parameters
        ----------
        held_out : HeldOut
            The scores.
        Y : (n_items, n_outputs)
            True scores; the values of several outputs are averaged.
        queries : Queries
            What is ranked together.
        rows : (n_rows,)
            The items that are judged.
        measure : Measure
            What to measure.
        """
        numbers = np.arange(1, len(held_out.error) + 1)
        path = judge_scores(held_out, Y, queries, rows, measure, numbers.astype(float))
        assert path.per_query is not None
        return cls(
            numbers,
            measure,
            path.values,
            path.standard_errors,
            path.per_query,
            path.rounding_errors,
        )

    def best(self, rule: ChoiceRule = "best") -> int:
        """Return the position of the chosen number; of equal values the smallest number wins.

        ``"one_standard_error"`` takes the smallest number whose value is within one standard error
        of the best.
        """
        if np.isnan(self.values).all():
            raise NumericalError(
                "No number of components can be judged: the measure is undefined for everything "
                "held out, or rounding errors are too large. Give queries with different scores, "
                "or a larger alpha."
            )
        return int(good_enough(self.values, self.standard_errors, self.measure, rule)[0])

    def plot(self, ax: Any = None, chosen: int | None = None) -> Any:
        """Draw the values with a band of one standard error; return the axes."""
        ax = ax if ax is not None else new_axes()
        ax.plot(self.n_components, self.values)
        low, high = self.values - self.standard_errors, self.values + self.standard_errors
        ax.fill_between(self.n_components, low, high, alpha=0.2)
        label_axes(
            ax, "components", self.measure, None if chosen is None else self.n_components[chosen]
        )
        return ax
