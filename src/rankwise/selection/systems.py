"""The normal equations of a preference graph over a function space."""

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.devices import Device
from rankwise.core.namespaces import Array
from rankwise.features.function_space import ExplicitSpace, FunctionSpace
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
        return System.primal(graph, space.features(rows))
    return System.dual(graph, space.kernel_matrix(rows), trusted=space.kernel_is_trusted)


def normal_equations_on(
    device: Device | None, space: FunctionSpace, graph: PreferenceGraph, X: Matrix
) -> System:
    """Return the normal equations of all rows X, on a device if one is given."""
    if device is None:
        return normal_equations(space, graph)
    if isinstance(space, ExplicitSpace):
        F, C = space.map.raw(device.array(dense_rows(X)))
        return System.primal(graph, F, C)
    K = space.kernel_matrix(device=device)
    return System.dual(graph, K, trusted=space.kernel_is_trusted)


def there(values: FloatArray, device: Device | None) -> Array:
    """Return an array where a problem is solved."""
    return values if device is None else device.array(values)
