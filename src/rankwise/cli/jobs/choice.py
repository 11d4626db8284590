"""Choosing alpha, or C, by a measure on data that was not trained on."""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.measures.value import Measure


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """Hold the value of a measure for each alpha, and which is best.

    Parameters
    ----------
    alphas : (n_alphas,)
        The alphas.
    values : (n_alphas,)
        The value of the measure for each, NaN where it cannot be told.
    measure : Measure
        What was measured.
    taken : int, optional
        Position of the alpha that training took, where it chose along the way.
    name : str
        What the alphas are called.
    """

    alphas: FloatArray
    values: FloatArray
    measure: Measure
    taken: int | None = None
    name: str = "alpha"

    @property
    def best(self) -> int:
        """Position of the one taken, or of the best value; of the largest alpha among equals."""
        if self.taken is not None:
            return self.taken
        signed = self.values if self.measure.greater_is_better else -self.values
        candidates = np.flatnonzero(signed == np.nanmax(signed))
        return int(candidates[np.argmax(self.alphas[candidates])])

    @property
    def is_at_end(self) -> bool:
        """Whether the best of several alphas is the smallest or the largest of them."""
        chosen = self.alphas[self.best]
        return len(self.alphas) > 1 and chosen in (self.alphas.min(), self.alphas.max())


def choose(
    alphas: FloatArray,
    scores: FloatArray,
    y: ArrayLike,
    qid: ArrayLike | None,
    measure: Measure,
) -> Choice:
    """Measure the scores of each alpha, shape (n_alphas, n_items), on validation data."""
    queries = Queries.single(scores.shape[1]) if qid is None else Queries.from_qid(qid)
    values = measure.overall_many(y, scores, queries)
    if np.isnan(values).any():
        raise InvalidInputError(
            f"At least one query of the validation data must define {measure!r}: none of "
            f"{queries.n_queries} does. Give data with different scores inside a query."
        )
    return Choice(alphas, values, measure)


def parse_alphas(text: str, option: str = "--alphas") -> FloatArray:
    """Return the values of a grid such as ``0.1,1,10`` or ``1e-3:1e3:7``."""
    try:
        if ":" not in text:
            return np.array([float(part) for part in text.split(",")])
        first, last, number = text.split(":")
        return _logspace(float(first), float(last), int(number))
    except ValueError:
        raise InvalidInputError(
            f"{option} must read like 0.1,1,10 or like 1e-3:1e3:7 (first:last:number, all above "
            f"0): got {text!r}."
        ) from None


def _logspace(first: float, last: float, number: int) -> FloatArray:
    if not (0 < first < np.inf and 0 < last < np.inf and number > 0):
        raise ValueError("no logarithm, or no value")
    return np.geomspace(first, last, number)
