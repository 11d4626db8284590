"""What rankers solved in closed form share: their parameters, and their normal equations."""

from abc import ABC
from typing import Any

from numpy.typing import ArrayLike

from rankwise.features.function_space import FunctionSpace
from rankwise.features.kernels import Precomputed
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.graph.query_weights import QueryWeight
from rankwise.rankers.base import PointRanker
from rankwise.solve.normal_equations import Dual, Primal, System

ALPHA_REMEDY = "Choose a positive value; small values regularise little."


class ClosedFormRanker(PointRanker, ABC):
    """A least-squares ranker with a kernel, a basis and query weights among its parameters."""

    kernel: Any
    query_weight: QueryWeight
    basis: int | ArrayLike | None
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.pairwise = self.kernel in ("precomputed", Precomputed())
        return tags


def normal_equations(space: FunctionSpace, graph: PreferenceGraph) -> System:
    """Return the normal equations of a graph: primal where features are explicit, else dual."""
    if space.is_explicit:
        return Primal.of(graph, space.features())
    return Dual.of(graph, space.kernel_matrix(), trusted=space.kernel_is_trusted)
