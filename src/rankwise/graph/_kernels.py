"""Compiled loops over groups and pairs of items: one pass each, float64 results for any floats.

What every fit needs gets its arrays from the caller: to make them in a kernel takes as long to
compile as the rest of it.
"""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit


@njit(cache=True, nogil=True)
def find_band_start(keys: FloatArray, starts: IntArray, margin: float) -> IntArray:
    """Return the first position of each one's query with a key above its own less the margin."""
    band_start = np.empty(len(keys), dtype=np.intp)
    for q in range(len(starts) - 1):
        r, end = starts[q], starts[q + 1]
        for p in range(starts[q], end):
            while r < end and keys[r] <= keys[p] - margin:
                r += 1
            band_start[p] = r
    return band_start


@njit(cache=True, nogil=True)
def find_joined(
    keys: FloatArray, grade: IntArray, n_grades: IntArray, starts: IntArray, margin: float
) -> IntArray:
    """Return the positions that are in an active pair, in any order of the keys; O(n).

    A pair of positions (p, r), the grade of p above that of r, is active here if the key of r is
    above that of p less the margin. So r is in one if that holds for the lowest key of a higher
    grade, and p if it holds for the highest key of a lower one.
    """
    most = 0
    for q in range(len(n_grades)):
        most = max(most, n_grades[q])
    lowest, highest = np.empty(most + 1), np.empty(most + 1)
    found, n_found = np.empty(len(keys), dtype=np.intp), 0
    for q in range(len(n_grades)):
        k = n_grades[q]
        for g in range(k + 1):
            lowest[g], highest[g] = np.inf, -np.inf
        for p in range(starts[q], starts[q + 1]):
            g = grade[p]
            lowest[g] = min(lowest[g], keys[p])
            highest[g + 1] = max(highest[g + 1], keys[p])
        for g in range(k - 1, -1, -1):
            lowest[g] = min(lowest[g], lowest[g + 1])
        for g in range(1, k + 1):
            highest[g] = max(highest[g], highest[g - 1])
        for p in range(starts[q], starts[q + 1]):
            g = grade[p]
            if keys[p] > lowest[g + 1] - margin or highest[g] > keys[p] - margin:
                found[n_found] = p
                n_found += 1
    return found[:n_found]


@njit(**CALLED_BY_KERNELS)
def _clear(tree: FloatArray, n_rows: int) -> None:
    for i in range(n_rows):
        for j in range(tree.shape[1]):
            tree[i, j] = 0.0


@njit(cache=True, nogil=True)
def sum_partners(
    values: FloatArray,
    grade: IntArray,
    n_grades: IntArray,
    starts: IntArray,
    band_start: IntArray,
    band_stop: IntArray,
    first: int,
    last: int,
    below: FloatArray,
    above: FloatArray,
) -> None:
    """Add up rows of ``values`` over the active partners of every position of some queries.

    ``below`` gets the sums over partners of lower grade, ``above`` those over partners of higher
    grade; both may be one array. These three have a row for each position of the queries first to
    last, the others an entry for each position. Two sweeps with a Fenwick tree over the grades.
    """
    most = 0
    for q in range(first, last):
        most = max(most, n_grades[q])
    tree = np.empty((most + 1, values.shape[1]))
    base = starts[first]
    for q in range(first, last):
        begin, end, k = starts[q], starts[q + 1], n_grades[q]
        if k < 2:
            continue
        _clear(tree, k)
        low, high = end, end
        for p in range(end - 1, begin - 1, -1):
            while low > band_start[p]:
                low -= 1
                _add_to_tree(tree, grade[low] + 1, k, 1.0, values, low - base)
            while high > band_stop[p]:
                high -= 1
                _add_to_tree(tree, grade[high] + 1, k, -1.0, values, high - base)
            _add_prefix_sum(tree, grade[p], below, p - base)
        _clear(tree, k)
        low, high = begin, begin
        for p in range(begin, end):
            while low < end and band_start[low] <= p:
                _add_to_tree(tree, k - grade[low], k, 1.0, values, low - base)
                low += 1
            while high < end and band_stop[high] <= p:
                _add_to_tree(tree, k - grade[high], k, -1.0, values, high - base)
                high += 1
            _add_prefix_sum(tree, k - 1 - grade[p], above, p - base)


@njit(**CALLED_BY_KERNELS)
def _add_to_tree(
    tree: FloatArray, node: int, k: int, sign: float, values: FloatArray, row: int
) -> None:
    """Add a row at a node from 1; sums never reach the last one, k."""
    i = np.uint64(row)
    while node < k:
        for j in range(values.shape[1]):
            tree[node, j] += sign * values[i, j]
        node += node & -node


@njit(**CALLED_BY_KERNELS)
def _add_prefix_sum(tree: FloatArray, node: int, out: FloatArray, row: int) -> None:
    """Add the sums over the nodes 1 to ``node`` to a row of ``out``."""
    i = np.uint64(row)
    while node > 0:
        for j in range(out.shape[1]):
            out[i, j] += tree[node, j]
        node &= node - 1


@njit(cache=True, nogil=True)
def apply_band(
    v: FloatArray,
    item: IntArray,
    grade: IntArray,
    weight: FloatArray,
    share: FloatArray,
    degree: FloatArray,
    n_grades: IntArray,
    starts: IntArray,
    band_start: IntArray,
    band_stop: IntArray,
    out: FloatArray,
) -> None:
    """Fill the product of the Laplacian of the active pairs with a vector of the items.

    What `sum_partners` does for rows of values, for one value and in one go.
    """
    most, largest = 0, 0
    for q in range(len(n_grades)):
        most, largest = max(most, n_grades[q]), max(largest, starts[q + 1] - starts[q])
    tree, values = np.zeros(most + 1), np.empty(largest)
    for q in range(len(n_grades)):
        begin, end, k = starts[q], starts[q + 1], n_grades[q]
        for p in range(begin, end):
            own = v[item[p]]
            values[p - begin] = weight[p] * own
            out[item[p]] = degree[p] * own
        for i in range(k):
            tree[i] = 0.0
        low, high = end, end
        for p in range(end - 1, begin - 1, -1):
            while low > band_start[p]:
                low -= 1
                _add_at(tree, grade[low] + 1, k, values[low - begin])
            while high > band_stop[p]:
                high -= 1
                _add_at(tree, grade[high] + 1, k, -values[high - begin])
            out[item[p]] -= share[p] * _prefix_sum(tree, grade[p])
        for i in range(k):
            tree[i] = 0.0
        low, high = begin, begin
        for p in range(begin, end):
            while low < end and band_start[low] <= p:
                _add_at(tree, k - grade[low], k, values[low - begin])
                low += 1
            while high < end and band_stop[high] <= p:
                _add_at(tree, k - grade[high], k, -values[high - begin])
                high += 1
            out[item[p]] -= share[p] * _prefix_sum(tree, k - 1 - grade[p])


@njit(**MAKES_NO_ARRAYS)
def add_band(
    item: IntArray,
    grade: IntArray,
    weight: FloatArray,
    share: FloatArray,
    degree: FloatArray,
    band_start: IntArray,
    band_stop: IntArray,
    out: FloatArray,
) -> None:
    """Add the Laplacian of the active pairs to the lower triangle of ``out``."""
    for p in range(len(item)):
        i, g, s = item[p], grade[p], share[p]
        out[i, i] += degree[p]
        for r in range(band_start[p], band_stop[p]):
            if grade[r] < g:
                j = item[r]
                out[max(i, j), min(i, j)] -= s * weight[r]


@njit(cache=True, nogil=True, inline="always")
def _add_at(tree: FloatArray, node: int, k: int, value: float) -> None:
    while node < k:
        tree[node] += value
        node += node & -node


@njit(cache=True, nogil=True, inline="always")
def _prefix_sum(tree: FloatArray, node: int) -> float:
    total = 0.0
    while node > 0:
        total += tree[node]
        node &= node - 1
    return total


@njit(**MAKES_NO_ARRAYS)
def group_means(
    V: FloatArray,
    group: IntArray,
    weight: FloatArray,
    mass: FloatArray,
    first: IntArray,
    out: FloatArray,
) -> None:
    """Add the weighted mean of each group of rows to ``out``; rows of group -1 take no part.

    The first row of a group is subtracted before summing, so that an offset costs no digits.
    ``first`` must be -1 everywhere, and becomes the number of that row.
    """
    n_items, n_columns = V.shape
    for i in range(n_items):
        g = group[i]
        if g < 0:
            continue
        f = first[g]
        if f < 0:
            first[g] = i
            continue
        w = weight[i]
        for j in range(n_columns):
            out[g, j] += w * (np.float64(V[i, j]) - V[f, j])
    for g in range(len(mass)):
        f = first[g]
        if f >= 0:
            for j in range(n_columns):
                out[g, j] = V[f, j] + out[g, j] / mass[g]


@njit(**MAKES_NO_ARRAYS)
def centred_rows(
    V: FloatArray, means: FloatArray, group: IntArray, scale: FloatArray, out: FloatArray
) -> None:
    """Fill in ``scale * (row - mean of its group)``, and zeros for rows of group -1."""
    n_items, n_columns = V.shape
    for i in range(n_items):
        g = group[i]
        if g >= 0:
            c = scale[i]
            for j in range(n_columns):
                out[i, j] = c * (V[i, j] - means[g, j])
        else:
            for j in range(n_columns):
                out[i, j] = 0.0


@njit(**MAKES_NO_ARRAYS)
def reflect_rows(
    V: FloatArray,
    rows: IntArray,
    starts: IntArray,
    axis: FloatArray,
    scale: FloatArray,
    groups: IntArray,
    begins: IntArray,
    projection: FloatArray,
    out: FloatArray,
) -> None:
    """Reflect groups of rows so that the mean of each falls on its first one, which is left out.

    The rows of group g are ``rows[starts[g]:starts[g + 1]]``; what becomes of those of group
    ``groups[k]`` goes to ``out`` from row ``begins[k]``. The first of them is subtracted from
    the others before anything is summed, which is exact for columns that are nearly constant.
    ``projection`` is room for one row.
    """
    n_columns = np.uint64(V.shape[1])
    for k in range(len(groups)):
        g = groups[k]
        begin, end = starts[g], starts[g + 1]
        first = np.uint64(rows[begin])
        for j in range(n_columns):
            projection[j] = 0.0
        for p in range(begin + 1, end):
            share = axis[p] * axis[p] / (1.0 + axis[begin])
            i = np.uint64(rows[p])
            for j in range(n_columns):
                projection[j] += share * (V[i, j] - V[first, j])
        for p in range(begin + 1, end):
            i, coordinate = np.uint64(rows[p]), np.uint64(begins[k] + p - begin - 1)
            c = scale[p]
            for j in range(n_columns):
                out[coordinate, j] = c * (V[i, j] - V[first, j] - projection[j])


@njit(**MAKES_NO_ARRAYS)
def anchored_product(Z: FloatArray, R: FloatArray, anchor: IntArray, out: FloatArray) -> None:
    """Add ``R.T @ (Z - Z[anchor])`` to ``out`` in one pass.

    This is ``R.T @ Z`` when R sums to zero over the items of each anchor, without the rounding
    errors of offsets, and exactly zero for columns that are constant over them.
    """
    n_items, n_columns = Z.shape
    n_outputs = R.shape[1]
    for i in range(n_items):
        for k in range(n_outputs):
            r = R[i, k]
            if r != 0.0:
                a = anchor[i]
                for j in range(n_columns):
                    out[k, j] += r * (np.float64(Z[i, j]) - Z[a, j])


@njit(cache=True)
def row_differences(V: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Return ``V[first] - V[second]`` without copies of either."""
    n_columns = V.shape[1]
    out = np.empty((len(first), n_columns))
    for pair in range(len(first)):
        i, j = np.uint64(first[pair]), np.uint64(second[pair])
        for k in range(n_columns):
            out[pair, k] = np.float64(V[i, k]) - V[j, k]
    return out


@njit(cache=True)
def signed_row_sums(
    values: FloatArray, first: IntArray, second: IntArray, n_items: int
) -> FloatArray:
    """Sum for each item the rows of the pairs it is first in, less those it is second in."""
    n_columns = values.shape[1]
    out = np.zeros((n_items, n_columns))
    for pair in range(len(first)):
        i, j = np.uint64(first[pair]), np.uint64(second[pair])
        for k in range(n_columns):
            out[i, k] += values[pair, k]
            out[j, k] -= values[pair, k]
    return out


@njit(cache=True)
def laplacian_product(
    V: FloatArray, first: IntArray, second: IntArray, weight: FloatArray, tail: int
) -> FloatArray:
    """Return L V for the Laplacian L of weighted pairs, without L.

    Row i of V is zero from column ``i + tail`` on, which halves the work for a square V.
    """
    product = np.zeros(V.shape)
    n_columns = V.shape[1]
    for pair in range(len(first)):
        i, j = np.uint64(first[pair]), np.uint64(second[pair])
        end = min(n_columns, max(first[pair], second[pair]) + tail)
        for k in range(np.uint64(end)):
            flow = weight[pair] * (np.float64(V[i, k]) - V[j, k])
            product[i, k] += flow
            product[j, k] -= flow
    return product
