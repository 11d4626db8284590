"""What rankers on kernel principal components share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.graph import PreferenceGraph
from rankwise.core.validation import check_weight
from rankwise.estimators._preferences import Preferences
from rankwise.features.components import Components, Solver, find_components
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.inference.nested_cholesky import Moments, NestedSolutions
from rankwise.selection.component_folds import leave_out_components
from rankwise.selection.folds import Folds, HeldOut
from rankwise.selection.spaces import FeatureSpace


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
