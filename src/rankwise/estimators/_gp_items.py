"""The items a preference Gaussian process knows: rows, and which of them are the same."""

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.rows import first_equal
from rankwise.core.validation import check_weight


@final
@dataclass(frozen=True, eq=False)
class Items:
    """Hold rows; equal ones have equal scores, so answers about them are answers about one item.

    Parameters
    ----------
    X : (n_items, n_features)
    first : (n_items,)
        The number of the first row equal to each row.
    weight : (n_items,)
        How often each row counts.
    """

    X: FloatArray
    first: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, X: FloatArray, sample_weight: ArrayLike | None = None) -> Self:
        """Compare the rows with each other."""
        weight = check_weight("sample_weight", sample_weight, len(X), "row of `X`")
        return cls(X, first_equal(X), weight)

    @property
    def distinct(self) -> FloatArray:
        """The different rows that count."""
        return self.X[np.unique(self.first[self.weight > 0.0])]

    def merged(self, pairs: IntArray) -> IntArray:
        """Let pairs name the first of equal rows, except pairs of two equal ones."""
        first = self.first[pairs]
        return np.where((first[:, 0] != first[:, 1])[:, None], first, pairs)
