"""Rows that are known again although they were rounded."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from rankwise.core.arrays import BoolArray, FloatArray, first_equal

ROUNDING = 1e-5
"""How far a feature may be off, as a share of its size: six digits are off by half as much."""

SMALL = 0.2
"""Sizes below this share of the usual size of a feature count as this share of it."""

LARGEST_RATIO = 1e300
"""Ratios of a feature to its usual size are cut off here, so that they stay finite."""


@final
@dataclass(frozen=True, eq=False)
class KnownRows:
    r"""Hold the rows of items, to know them again in single precision or from a file of six digits.

    A row x is taken for an item z if :math:`|x_k - z_k| \le 10^{-5} \sqrt{z_k^2 + (0.2\,s_k)^2}` in
    every feature, with :math:`s_k` the median of the sizes of this feature that are not 0. Of
    several such items it is the nearest, if the next is at least twice as far; otherwise it is
    ambiguous, and the row is none of them. A row that equals an item is that item.

    Parameters
    ----------
    rows : (n_rows, n_features)
        The rows, all different.
    small : (n_features,)
        The sizes that count as small, :math:`0.2\,s_k`.
    is_shared : (n_rows,)
        Whether several items have this row, so that it is ambiguous.
    """

    rows: FloatArray
    small: FloatArray
    is_shared: BoolArray

    @classmethod
    def of(cls, X: FloatArray, *, are_apart: bool = False) -> Self:
        """Build from the rows of items; equal ones are one item, or are said to be apart."""
        sizes = np.where(X == 0.0, np.nan, np.abs(X))
        is_known = np.isfinite(sizes).any(axis=0)
        usual = np.ones(X.shape[1])
        usual[is_known] = np.nanmedian(sizes[:, is_known], axis=0)
        first, n_items = np.unique(first_equal(X), return_counts=True)
        return cls(X[first], SMALL * usual, are_apart & (n_items > 1))

    @property
    def widths(self) -> FloatArray:
        """The sizes that differences of features are shares of, (n_rows, n_features)."""
        return np.hypot(self.rows, self.small)

    def stand_ins(self, dtype: Any = np.float64) -> NDArray[Any]:
        """Return what takes the place of rows: these, but for shared ones, which equal no item.

        Their last digit differs, in the precision given.
        """
        rows = self.rows.astype(dtype)
        rows[self.is_shared, 0] = np.nextafter(rows[self.is_shared, 0], dtype(np.inf))
        return rows

    def in_place_of(self, X: FloatArray) -> FloatArray:
        """Return rows with the known rows that they are taken for. O(n_features log n_rows) each.

        Parameters
        ----------
        X : (n_new, n_features)
        """
        # differences of these coordinates are differences as shares of the size
        tree = KDTree(self._coordinates(self.rows))
        distance, place = tree.query(
            self._coordinates(X), k=2, p=np.inf, distance_upper_bound=2.0 * ROUNDING
        )
        is_known = (distance[:, 0] <= ROUNDING) & (2.0 * distance[:, 0] <= distance[:, 1])
        found = X.copy()
        found[is_known] = self.stand_ins()[place[is_known, 0]]
        return found

    def _coordinates(self, X: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.arcsinh(np.clip(X / self.small, -LARGEST_RATIO, LARGEST_RATIO))
