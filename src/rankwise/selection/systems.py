"""The normal equations of a preference graph over a function space."""

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.devices import Device
from rankwise.core.namespaces import Array, copy_of, take_rows
from rankwise.features.function_space import ExplicitSpace, FunctionSpace
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.normal_equations import DeviceSystem, Dual, Primal, System


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
        return Primal.of(graph, space.features(rows))
    return Dual.of(graph, space.kernel_matrix(rows), trusted=space.kernel_is_trusted)


def normal_equations_on(
    device: Device | None, space: FunctionSpace, graph: PreferenceGraph, X: Matrix
) -> System:
    """Return the normal equations of all rows X, on a device if one is given."""
    if device is None:
        return normal_equations(space, graph)
    if isinstance(space, ExplicitSpace):
        F, C = space.map.raw(device.array(dense_rows(X)))
        return DeviceSystem.primal(graph, F, C, device)
    K = space.kernel_matrix(device=device)
    return DeviceSystem.dual(graph, K, device, trusted=space.kernel_is_trusted)


def dual_system(
    space: FunctionSpace, graph: PreferenceGraph, alone: IntArray, device: Device | None
) -> tuple[Dual | DeviceSystem, Array]:
    """Return the dual equations, and the kernel of some items with its coordinates, row by row."""
    K = space.kernel_matrix(device=device)
    of_alone, root = copy_of(take_rows(K, alone).T), graph.laplacian.root()
    rows = coordinates_of(root, of_alone, device).T
    if device is None:
        return Dual.of(graph, K, trusted=space.kernel_is_trusted), rows
    return DeviceSystem.dual(graph, K, device, trusted=space.kernel_is_trusted), rows


def there(values: FloatArray, device: Device | None) -> Array:
    """Return an array where a problem is solved."""
    return values if device is None else device.array(values)


def coordinates_of(root: Root, V: Array, device: Device | None) -> Array:
    """Return ``R'V`` where V is."""
    return root.to_coordinates(V) if device is None else root.on(device).coordinates(V)
