"""The normal equations of a preference graph over a function space."""

from rankwise.core.arrays import IntArray
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.normal_equations import System


def normal_equations(
    space: FunctionSpace, graph: PreferenceGraph, rows: IntArray | None = None
) -> System:
    """Return the normal equations of a graph: primal for explicit features, else dual.

    Parameters
    ----------
    space : FunctionSpace
        The space of the ranking function.
    graph : PreferenceGraph
        The preferences.
    rows : (n_rows,), optional
        The rows of the graph's items in the space; by default all of them.
    """
    if space.is_explicit:
        F, C = space.raw_features() if rows is None else (space.features(rows), None)
        return System.primal(graph, F, C)
    return System.dual(graph, space.kernel_matrix(rows), trusted=space.kernel_is_trusted)
