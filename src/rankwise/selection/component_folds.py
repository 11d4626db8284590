"""Scores of held-out queries for every number of components, without refitting each."""

from dataclasses import dataclass
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.graph import PreferenceGraph
from rankwise.core.threads import in_threads, n_threads, serial_blas
from rankwise.inference.nested_cholesky import Moments, NestedSolutions
from rankwise.inference.rls import as_columns
from rankwise.selection.folds import Folds, HeldOut


def leave_out_components(
    Z: FloatArray, graph: PreferenceGraph, folds: Folds, alpha: float
) -> HeldOut:
    """Return the scores that models without each fold give to its items, for every number p.

    Exact for the ranking function on the first p components; the components themselves are those
    of all items, held out or not. A fold must be a union of whole components of the graph. One
    factorisation per fold serves every p: O(n P^2 log n_folds + n_folds P^3 / 3) for P components.

    Parameters
    ----------
    Z : (n_items, n_components)
        The components of the items, the leading one first.
    graph : PreferenceGraph
        The preferences.
    folds : Folds
        What is held out together.
    alpha : float
        Regularisation, may be 0.

    Returns
    -------
    held_out : HeldOut
        Its first axis is the number of components, from 1.
    """
    data = _ByFold.of(Z, graph, folds)
    out = np.full((Z.shape[1], len(Z), data.C.shape[1]), np.nan)
    errors = np.zeros((folds.n_folds, Z.shape[1]))

    def descend(first: int, last: int, outside: Moments) -> None:
        """Judge folds first to last by what is outside them: nothing is ever subtracted."""
        if last - first > 1:
            middle = (first + last) // 2
            descend(first, middle, outside + data.moments(middle, last))
            descend(middle, last, outside + data.moments(first, middle))
            return
        rows = data.rows(first)
        if len(rows):
            solutions = NestedSolutions.of(outside, Z[rows], alpha)
            out[:, rows] = solutions.scores()
            errors[first] = solutions.errors

    cuts = np.linspace(0, folds.n_folds, min(folds.n_folds, 4 * n_threads()) + 1).astype(int)
    ranges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    never_out = data.moments(folds.n_folds, folds.n_folds + 1)
    parts = [data.moments(*bounds) for bounds in ranges]

    def task(number: int) -> None:
        others = [part for k, part in enumerate(parts) if k != number]
        descend(*ranges[number], sum(others, start=never_out))

    with serial_blas():
        in_threads(task, len(ranges))
    return HeldOut(out, errors.max(axis=0))


@final
@dataclass(frozen=True, eq=False)
class _ByFold:
    """Coordinates of the graph and items, sorted by fold, those of no fold last."""

    H: FloatArray
    C: FloatArray
    starts: IntArray
    squares: FloatArray
    items: IntArray
    item_starts: IntArray

    @classmethod
    def of(cls, Z: FloatArray, graph: PreferenceGraph, folds: Folds) -> Self:
        of_component = folds.of_components(graph.laplacian.component)
        if len(np.unique(of_component[of_component >= 0])) < 2:
            raise InvalidInputError(
                "Leaving out queries needs preferences in at least two folds, so that something is "
                "left to learn from. Give more queries, or validation data."
            )
        root = graph.laplacian.root()
        order, starts = folds.order(of_component[root.component])
        items, item_starts = folds.order(folds.fold)
        return cls(
            root.to_coordinates(Z)[order],
            root.solve(as_columns(graph.rhs))[order],
            np.append(starts, len(order)),
            graph.laplacian.diagonal()[items, None] * Z[items] ** 2,
            items,
            np.append(item_starts, len(items)),
        )

    def moments(self, first: int, last: int) -> Moments:
        """Return the moments of folds first to last - 1; fold n_folds is what is never left out."""
        where = slice(self.starts[first], self.starts[last])
        items = slice(self.item_starts[first], self.item_starts[last])
        H = self.H[where]
        return Moments(H.T @ H, H.T @ self.C[where], self.squares[items].sum(axis=0))

    def rows(self, fold: int) -> IntArray:
        """Return the items of a fold."""
        return self.items[self.item_starts[fold] : self.item_starts[fold + 1]]
