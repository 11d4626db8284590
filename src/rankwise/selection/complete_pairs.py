"""Pairs left out of a complete graph, [PTA09] (38): one inverse per alpha serves all pairs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, dense_rows
from rankwise.core.errors import NothingToLearnError
from rankwise.core.namespaces import (
    Array,
    add_to_diagonal,
    blocks_of,
    cholesky_in_place,
    contiguous,
    gram,
    invert_factored,
    is_on_host,
    like,
    namespace_of,
    to_host,
    zeros,
)
from rankwise.core.threads import in_threads, n_threads
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import standard_query_weight
from rankwise.native.holdouts import complete_pairs
from rankwise.selection.holdouts import PairsHeldOut
from rankwise.selection.ties import credit_of, tie_share, zero_ties
from rankwise.solve.normal_equations import Spectrum

EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

ROWS = 256
"""Rows of a large matrix that are worked on together."""

TOO_FEW_OF_A_GRADE = (
    "Leaving out pairs needs at least two items of each of two grades, so that there is something "
    "left to learn from. Give more items."
)


def complete_degree(query_weight: str, weight: FloatArray) -> float:
    """Return omega times the mass of what remains without two items.

    It multiplies the weighted scatter around the mean; 1 for the query weight "items", whatever
    the two items. For the others the weights must be equal.
    """
    rest = weight[2:]
    mass = rest.sum()
    return float(standard_query_weight(query_weight, mass, np.sum(rest**2)) * mass)


def leave_out_of_complete(
    space: FunctionSpace,
    rows: IntArray,
    Y: FloatArray,
    weight: FloatArray,
    mus: FloatArray,
) -> PairsHeldOut:
    """Leave out all pairs of a graph in which every two items are joined, ties kept or absent.

    What remains is ridge regression with a free intercept, whatever the pair, so one inverse per
    alpha serves all pairs and outputs: O(n^3) per alpha, or O(n^2 d) with d explicit features,
    then O(n^2) per output. At most two n x n matrices are stored at a time.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved, and whose rows say where to compute.
    rows : (n_items,)
        The rows of the items in the space.
    Y : (n_items, n_outputs)
        Scores.
    weight : (n_items,)
        Sample weights, above 0.
    mus : (n_alphas,)
        The factors of the squared norm if the cost is the weighted scatter itself.

    Returns
    -------
    held_out : PairsHeldOut
        With a kernel also the weights of a fit to all items with these mus.

    Notes
    -----
    [PTA09] Sect. 3.4: the problem (34) with the graph (35), solved by (36). One 2 x 2 solve per
    pair takes the place of the rank-3 update (37), (38) and of its precomputed matrices (39).
    """
    inverse, decisive = _inverse_of(space, rows, weight), decisive_items(Y)
    parts, solutions = [], []
    for mu in mus.tolist():
        found = inverse(mu)  # [PTA09] (36), for the problem (34) with the graph (35)
        if found is None:
            parts.append((np.zeros(Y.shape), np.ones(Y.shape), np.inf))
            solutions.append(np.full(Y.shape, np.nan))
            continue
        B, error = found
        centred = like(Y - Y.mean(axis=0), B)  # B 1 = 0: the mean has no influence
        A, worst = B @ centred, 1.0
        solutions.append(to_host(A))
        if mu > inverse.largest:
            differences = direct_differences(B, A, inverse.kernel_times(B), inverse.kernel_times(A))
            right, total = _count(differences, like(Y, B), decisive, error)
        elif is_on_host(B):
            # compiled loops count 30 times as fast as NumPy: 11 and 360 ms for 3,000 items
            right, total, worst = _count_compiled(B, A, Y, error, decisive)
        else:
            worst = _worst_pair(B)
            right, total = _count(_differences(B, A, centred), like(Y, B), decisive, error)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    held_out = PairsHeldOut.stack(parts)
    if not held_out.total.any(axis=(0, 1)).all():
        raise NothingToLearnError(TOO_FEW_OF_A_GRADE)
    return held_out if space.is_explicit else replace(held_out, weights=np.stack(solutions))


def leads_of_complete(
    space: FunctionSpace, rows: IntArray, y: FloatArray, weight: FloatArray, mu: float
) -> FloatArray:
    """Return the leads if every two items are joined; NaN if rounding errors spoil all."""
    inverse, centred = _inverse_of(space, rows, weight), (y - y.mean())[:, None]
    found = inverse(mu)
    if found is None:
        return np.full((len(y), len(y)), np.nan)
    B, error = found
    a, every = B @ centred, slice(None)
    if mu > inverse.largest:
        KB, Ka = inverse.kernel_times(B), inverse.kernel_times(a)
        scaled = zero_ties(*direct_differences(B, a, KB, Ka)(every, 0), error)
        return np.abs(np.diagonal(B)).max() * inverse.unit(mu) * scaled
    size = np.abs(centred).max()
    difference, scale = _differences(B, a, centred)(every, 0)
    with np.errstate(divide="ignore", invalid="ignore"):  # the diagonal, which is no pair
        return zero_ties(size * (difference / scale), size, error)


def decisive_items(Y: FloatArray) -> IntArray:
    """Return for each output the one or two items without which all scores are equal, else -1.

    A pair that contains all of them leaves nothing to learn from.
    """
    decisive = np.full((Y.shape[1], 2), -1)
    for k, y in enumerate(Y.T):
        values, counts = np.unique(y, return_counts=True)
        others = np.flatnonzero(y != values[np.argmax(counts)])
        if 1 <= len(others) <= 2:
            decisive[k, : len(others)] = others
    return decisive


def leaves_nothing(n_items: int, decisive: IntArray, rows: slice = slice(None)) -> BoolArray:
    """Return which pairs of some rows with all rows contain all decisive items of an output."""
    items = np.arange(n_items)
    if decisive[0] < 0:
        return np.zeros((len(items[rows]), n_items), dtype=bool)
    first, second = items == decisive[0], items == decisive[1]
    if decisive[1] < 0:
        return first[rows, None] | first
    return (first[rows, None] & second) | (second[rows, None] & first)


Differences: TypeAlias = Callable[[slice, int], tuple[Array, Array]]
"""Gives f_i - f_j without i and j, for rows i, all j and an output, and the size of its terms.

Both are scaled by the same factor above 0.
"""


def _differences(B: Array, A: Array, centred: Array) -> Differences:
    """Return the differences times the determinant of B_UU, with U = {i, j} and A = B Y."""
    xp, b = namespace_of(B), namespace_of(B).linalg.diagonal(B)

    def differences(rows: slice, k: int) -> tuple[Array, Array]:
        b_ii, b_ij, a, y = b[rows][:, None], B[rows, :], A[:, k], centred[:, k]
        det = b_ii * b - b_ij * b_ij
        # [PTA09] eq. (38), hold-pair, as one 2 x 2 solve
        step = (b + b_ij) * a[rows][:, None] - (b_ii + b_ij) * a
        return (y[rows][:, None] - y) * det - step, xp.max(xp.abs(y)) * det

    return differences


def direct_differences(B: Array, X: Array, KB: Array, KX: Array) -> Differences:
    """Return the differences where alpha is above the kernel, and scores are far below residuals.

    Without U = {i, j} the weights are ``x - B_:U r`` with ``r = B_UU^-1 x_U``, and f is the kernel
    times these. Nothing is subtracted from the scores, so that a large alpha costs no digits.
    """
    xp = namespace_of(B)
    unit = xp.max(xp.abs(xp.linalg.diagonal(B)))  # 1 / alpha: its square may be below all doubles
    b, own = xp.linalg.diagonal(B) / unit, xp.linalg.diagonal(KB) / unit

    def differences(rows: slice, k: int) -> tuple[Array, Array]:
        b_ii, b_ij, x, Kx = b[rows][:, None], B[rows, :] / unit, X[:, k] / unit, KX[:, k] / unit
        x_i, Kx_i = x[rows][:, None], Kx[rows][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # the diagonal, which is no pair
            det = b_ii * b - b_ij * b_ij
            first = (own[rows][:, None] - KB[:, rows].T / unit) * (b * x_i - b_ij * x) / det
            second = (KB[rows, :] / unit - own) * (b_ii * x - b_ij * x_i) / det
        size = xp.abs(Kx_i) + xp.abs(Kx) + xp.abs(first) + xp.abs(second)
        return Kx_i - Kx - first - second, size

    return differences


def _worst_pair(B: Array) -> float:
    """Return the smallest determinant of a pair, as a share of the product of its diagonal."""
    xp, b, worst = namespace_of(B), namespace_of(B).linalg.diagonal(B), 1.0
    item = like(np.arange(B.shape[0], dtype=float), B)
    for rows in blocks_of(B.shape[0], ROWS):
        share = 1.0 - B[rows, :] ** 2 / (b[rows][:, None] * b)
        is_same = item[rows][:, None] == item  # no pair
        worst = min(worst, float(xp.min(xp.where(is_same, xp.ones_like(share), share))))
    return worst


def _count(
    differences: Differences, Y: Array, decisive: IntArray, error: float
) -> tuple[FloatArray, FloatArray]:
    """Count all pairs of each item and those in the right order, a block of rows at a time."""
    xp, n_items = namespace_of(Y), Y.shape[0]
    right, total = zeros(Y.shape, Y), zeros(Y.shape, Y)
    for rows in blocks_of(n_items, ROWS):
        for k in range(Y.shape[1]):
            gap = Y[rows, k][:, None] - Y[:, k]
            if decisive[k, 0] >= 0:
                gap = gap * like(1.0 - leaves_nothing(n_items, decisive[k], rows), gap)
            right[rows, k] = xp.sum(credit_of(*differences(rows, k), gap, error), axis=1)
            total[rows, k] = xp.sum(xp.abs(xp.sign(gap)), axis=1)
    return to_host(right), to_host(total)


def _count_compiled(
    B: FloatArray, A: FloatArray, Y: FloatArray, error: float, decisive: IntArray
) -> tuple[FloatArray, FloatArray, float]:
    """Do the same on the host for `_differences`; every thread takes evenly spaced rows."""
    n_tasks = n_threads()
    right, total = np.zeros((2, n_tasks, *Y.shape))
    worst, tie = np.ones(n_tasks), tie_share(error) * np.abs(Y - Y.mean(axis=0)).max(axis=0)
    A, Y = np.ascontiguousarray(A), np.ascontiguousarray(Y)

    def count(k: int) -> None:
        rows = np.arange(k, len(Y), n_tasks)
        worst[k] = complete_pairs(B, A, Y, tie, decisive, rows, right[k], total[k])

    in_threads(count, n_tasks)
    return right.sum(axis=0), total.sum(axis=0), float(worst.min())


def _inverse_of(
    space: FunctionSpace, rows: IntArray, weight: FloatArray
) -> "_KernelInverse | _FeatureInverse":
    if not space.is_explicit:
        return _KernelInverse.of(space.kernel_matrix(rows), weight)
    Z = space.features(rows)
    return _FeatureInverse.of(dense_rows(Z) if is_on_host(Z) else Z, weight)


@final
@dataclass(frozen=True, eq=False)
class _KernelInverse:
    """Inverses for every mu from a kernel: the item part B of ``[K + mu / s, 1; 1', 0]^-1``.

    By a Cholesky inverse of the centred kernel (docs/theory/holdouts.rst, eq. hold-inverse).
    """

    K: Array
    weight: FloatArray
    scale: float
    """Mean of the diagonal of K."""

    @classmethod
    def of(cls, K: Array, weight: FloatArray) -> Self:
        """Centre a kernel matrix, which is overwritten."""
        xp, K = namespace_of(K), contiguous(K)
        means = xp.mean(K, axis=0)
        K -= means
        K -= (means - xp.mean(means))[:, None]
        return cls(K, weight, float(xp.mean(xp.linalg.diagonal(K))))

    @property
    def largest(self) -> float:
        """A bound of the eigenvalues of the weighted kernel."""
        return self.scale * len(self.weight) * float(self.weight.max())

    def unit(self, mu: float) -> float:  # noqa: ARG002
        """Return what B is given in multiples of."""
        return 1.0

    def kernel_times(self, V: Array) -> Array:
        """Return ``K @ V``."""
        return self.K @ V

    def __call__(self, mu: float) -> tuple[Array, float] | None:
        """Return B and its relative rounding error; None if mu is lost in rounding errors."""
        xp, n_items = namespace_of(self.K), len(self.weight)
        M = self.K + max(self.scale, mu) / n_items
        add_to_diagonal(M, like(mu / self.weight, M))
        norm = largest_row_sum(M)
        factor = cholesky_in_place(M)
        if factor is None:
            return None
        B = invert_factored(factor)
        error = EPS * norm * largest_row_sum(B)
        ones = xp.sum(B, axis=1)
        scaled = ones / xp.sum(ones) ** 0.5
        for rows in blocks_of(n_items, ROWS):
            B[rows, :] -= scaled[rows][:, None] * scaled
        return B, error


@final
@dataclass(frozen=True, eq=False)
class _FeatureInverse:
    """The same B times mu from explicit features: what the hat matrix H leaves, ``s - S H S``.

    docs/theory/holdouts.rst, eq. hold-lowrank.
    """

    Z: Array
    """The features, centred at their weighted mean, in the eigenvectors of their scatter."""
    weight: FloatArray
    spectrum: Spectrum

    @classmethod
    def of(cls, Z: Array, weight: FloatArray) -> Self:
        """Centre and decompose explicit features."""
        s = like(weight, Z)
        centred = Z - s @ Z / float(weight.sum())
        spectrum = Spectrum.of(gram(centred * s[:, None] ** 0.5))
        return cls(centred @ spectrum.vectors, weight, spectrum)

    @property
    def largest(self) -> float:
        """The largest eigenvalue of the weighted kernel."""
        return float(self.spectrum.values[-1])

    def unit(self, mu: float) -> float:
        """Return what B is given in multiples of."""
        return 1.0 / mu

    def kernel_times(self, V: Array) -> Array:
        """Return the kernel of the centred features times V."""
        return self.Z @ (self.Z.T @ V)

    def __call__(self, mu: float) -> tuple[Array, float]:
        """Return mu B and its relative rounding error."""
        xp, s = namespace_of(self.Z), like(self.weight, self.Z)
        root = like(1.0 / np.sqrt(self.spectrum.values + mu), self.Z)
        mean = s[:, None] / float(self.weight.sum()) ** 0.5
        half = xp.concat([s[:, None] * self.Z * root, mean], axis=1)
        B = half @ half.T
        B *= -1.0
        add_to_diagonal(B, s)
        spare = max(float(xp.min(xp.linalg.diagonal(B) / s)), TINY)
        return B, float(EPS / min(spare, self.spectrum.rcond(np.array([mu]))[0]))


def largest_row_sum(M: Array) -> float:
    """Return the largest sum of absolute values of a row, some rows at a time."""
    xp, blocks = namespace_of(M), blocks_of(M.shape[0], ROWS)
    return max(float(xp.max(xp.sum(xp.abs(M[rows, :]), axis=1))) for rows in blocks)
