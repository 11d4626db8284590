"""What rankers on kernel principal components share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.checks import check_weight
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.threads import in_threads, n_threads, serial_blas
from rankwise.features.components import Components, Solver, find_components
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.rankers.kpcrank.nested_cholesky import Moments, NestedSolutions
from rankwise.rankers.preferences import Preferences
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.spaces import FeatureSpace


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


@final
@dataclass(frozen=True, eq=False)
class ComponentFit:
    """The problem on components: weights and held-out scores for every number of them."""

    Z: FloatArray
    preferences: Preferences
    alpha: float

    def weights(self, n_components: int) -> FloatArray:
        """Return the weights of the first components, 0 for the others."""
        identity = np.eye(self.Z.shape[1])
        return self.preferences.gather(
            lambda graph: self._solve(graph, self.Z, identity).at(n_components)
        )

    def scores(self, rows: FloatArray) -> HeldOut:
        """Return the scores of other rows of components."""
        return _gather(self.preferences, partial(self._judged, Z=self.Z, rows=rows))

    def leave_out(self, folds: Folds) -> HeldOut:
        """Leave out folds of whole queries."""
        return _gather(
            self.preferences, lambda graph: leave_out_components(self.Z, graph, folds, self.alpha)
        )

    def leave_out_items(
        self, folds: Folds, Y: FloatArray, weight: FloatArray, **options: Any
    ) -> HeldOut:
        """Leave out folds of items of one global ranking, whose graph is built without them.

        Parameters
        ----------
        folds : Folds
            What is held out together.
        Y : (n_items, n_outputs)
            Scores of the items.
        weight : (n_items,)
            Weights of the items.
        options
            As in `PreferenceGraph.from_scores`.
        """
        scores, error = np.full((self.Z.shape[1], *Y.shape), np.nan), np.zeros(self.Z.shape[1])
        for fold in range(folds.n_folds):
            kept, out = np.flatnonzero(folds.fold != fold), np.flatnonzero(folds.fold == fold)
            scores[:, out] = 0.0
            try:
                rest = Preferences.from_scores(
                    Y[kept], None, len(kept), sample_weight=weight[kept], **options
                )
            except NothingToLearnError:  # the fold holds every item that differs from the others
                continue
            found = _gather(rest, partial(self._judged, Z=self.Z[kept], rows=self.Z[out]))
            scores[:, out], error = found.scores, np.maximum(error, found.error)
        return HeldOut(scores, error)

    def _solve(self, graph: PreferenceGraph, Z: FloatArray, rows: FloatArray) -> NestedSolutions:
        return NestedSolutions.of(Moments.of(graph, Z), rows, self.alpha)

    def _judged(self, graph: PreferenceGraph, Z: FloatArray, rows: FloatArray) -> HeldOut:
        solutions = self._solve(graph, Z, rows)
        return HeldOut(solutions.scores(), solutions.errors)


def _gather(preferences: Preferences, solve: Callable[[PreferenceGraph], HeldOut]) -> HeldOut:
    """Hold out for every graph and put the outputs in their order."""
    parts = [solve(graph) for graph in preferences]
    numbered = iter(parts)
    scores = preferences.gather(lambda _: next(numbered).scores)
    return HeldOut(scores, np.max([part.error for part in parts], axis=0))


def component_space(
    kernel: str | Kernel | Callable[[Any, Any], Any],
    X: Matrix,
    n_components: int,
    solver: Solver,
    sample_weight: ArrayLike | None,
) -> tuple[Kernel, Components, FeatureSpace]:
    """Return the fitted kernel, the components of rows X, and the space they span."""
    fitted = as_kernel(kernel).fitted_to(X)
    weight = check_weight("sample_weight", sample_weight, X.shape[0], "row of `X`")
    components, Z = find_components(fitted, X, n_components, solver, weight)
    return fitted, components, FeatureSpace(Z, components, components.base)


def check_count(name: str, value: object) -> int:
    """Return an integer of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(f"`{name}` must be an integer of at least 1: got {value!r}.")
    return int(value)


def check_alpha(value: object) -> float:
    """Return a finite number of at least 0."""
    number = value if isinstance(value, int | float | np.number) else float("nan")
    if isinstance(value, bool) or not np.isfinite(number) or number < 0:
        raise InvalidInputError(
            f"`alpha` must be a finite number of at least 0: got {value!r}. "
            "0 leaves all regularisation to the number of components."
        )
    return float(number)
