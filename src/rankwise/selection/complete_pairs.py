"""Pairs left out of a complete graph: one inverse per alpha serves all pairs of items."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeAlias, final

import numpy as np
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, dense_rows
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import NothingToLearnError
from rankwise.core.threads import in_threads, n_threads
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import standard_query_weight
from rankwise.native.holdouts import complete_pairs
from rankwise.selection.holdouts import PairsHeldOut
from rankwise.selection.ties import is_tie, tie_share, zero_ties
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
    space: FunctionSpace, rows: IntArray, Y: FloatArray, weight: FloatArray, mus: FloatArray
) -> PairsHeldOut:
    """Leave out all pairs of a graph in which every two items are joined, ties kept or absent.

    What remains is ridge regression with a free intercept, whatever the pair, so one inverse per
    alpha serves all pairs and outputs: O(n^3) per alpha, or O(n^2 d) with d explicit features,
    then O(n^2) per output. At most two n x n matrices are stored at a time.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
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
    centred, decisive = Y - Y.mean(axis=0), decisive_items(Y)  # B 1 = 0: the mean has no influence
    size = np.abs(centred).max(axis=0)
    inverse = _inverse_of(space, rows, weight)
    parts, solutions = [], []
    for mu in mus:
        B, error = inverse(float(mu))  # [PTA09] (36), for the problem (34) with the graph (35)
        A = dsymm(1.0, B.T, centred, lower=False)
        solutions.append(A)
        if mu > inverse.largest:
            parts.append((*_count_directly(inverse, B, A, Y, decisive, error), error))
            continue
        tie = tie_share(error) * size
        right, total, worst = _count(B, A, Y, tie, decisive)  # [PTA09] (38)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    held_out = _stack(parts)
    return held_out if space.is_explicit else replace(held_out, weights=np.stack(solutions))


def _stack(parts: list[tuple[FloatArray, FloatArray, float]]) -> PairsHeldOut:
    """Join the counts of all alphas; refuse scores of which no pair could be judged."""
    held_out = PairsHeldOut.stack(parts)
    if not held_out.total.any(axis=(0, 1)).all():
        raise NothingToLearnError(TOO_FEW_OF_A_GRADE)
    return held_out


def leads_of_complete(
    space: FunctionSpace, rows: IntArray, y: FloatArray, weight: FloatArray, mu: float
) -> FloatArray:
    """Return the leads if every two items are joined: `complete_pairs` with the division."""
    inverse = _inverse_of(space, rows, weight)
    lower, error = inverse(mu)
    B, centred = np.tril(lower) + np.tril(lower, -1).T, y - y.mean()
    a, b = B @ centred, np.diagonal(B)
    if mu > inverse.largest:
        KB, Ka = inverse.kernel_times(B), inverse.kernel_times(a)
        scaled = zero_ties(*held_out_differences(B, a, KB, Ka), error)
        return np.abs(b).max() * inverse.unit(mu) * scaled
    with np.errstate(divide="ignore", invalid="ignore"):  # the diagonal, which is no pair
        turn = (b + B) * a[:, None] - (b[:, None] + B) * a
        # [PTA09] (38), as one 2 x 2 solve
        leads = y[:, None] - y - turn / (b[:, None] * b - B**2)
    return zero_ties(leads, np.abs(centred).max(), error)


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


def _inverse_of(
    space: FunctionSpace, rows: IntArray, weight: FloatArray
) -> "_KernelInverse | _FeatureInverse":
    if space.is_explicit:
        return _FeatureInverse.of(dense_rows(space.features(rows)), weight)
    return _KernelInverse.of(space.kernel_matrix(rows), weight)


def _count(
    B: FloatArray, A: FloatArray, Y: FloatArray, tie: FloatArray, decisive: IntArray
) -> tuple[FloatArray, FloatArray, float]:
    """Count all pairs; every thread takes evenly spaced rows."""
    n_tasks = n_threads()
    right, total = np.zeros((2, n_tasks, *Y.shape))
    worst = np.ones(n_tasks)
    A, Y = np.ascontiguousarray(A), np.ascontiguousarray(Y)

    def count(k: int) -> None:
        rows = np.arange(k, len(Y), n_tasks)
        worst[k] = complete_pairs(B, A, Y, tie, decisive, rows, right[k], total[k])

    in_threads(count, n_tasks)
    return right.sum(axis=0), total.sum(axis=0), float(worst.min())


def _count_directly(
    inverse: "_KernelInverse | _FeatureInverse",
    B: FloatArray,
    A: FloatArray,
    Y: FloatArray,
    decisive: IntArray,
    error: float,
) -> tuple[FloatArray, FloatArray]:
    """Count all pairs if mu is above the kernel and scores are far below the residuals."""
    B = np.tril(B) + np.tril(B, -1).T
    KB, KA = inverse.kernel_times(B), inverse.kernel_times(A)
    right, total = np.zeros((2, *Y.shape))
    for k, y in enumerate(Y.T):
        credit = credit_of(*held_out_differences(B, A[:, k], KB, KA[:, k]), y, error)
        judged = (y[:, None] != y) & ~leaves_nothing(len(y), decisive[k])
        right[:, k], total[:, k] = np.where(judged, credit, 0.0).sum(axis=1), judged.sum(axis=1)
    return right, total


def held_out_differences(
    B: FloatArray, x: FloatArray, KB: FloatArray, Kx: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return f_i - f_j of every pair {i, j} = U left out, scaled, and the size of its terms.

    Without U the weights are ``x - B_:U r`` with ``r = B_UU^-1 x_U``, and f is the kernel times
    these. Nothing is subtracted from the scores, so that a large alpha costs no digits.
    """
    unit = np.abs(np.diagonal(B)).max()  # 1 / alpha, whose square may be below all doubles
    B, x, KB, Kx = B / unit, x / unit, KB / unit, Kx / unit
    b = np.diagonal(B)
    with np.errstate(divide="ignore", invalid="ignore"):  # the diagonal, which is no pair
        r = (b * x[:, None] - B * x) / (b[:, None] * b - B**2)
    own, across = np.diagonal(KB)[:, None] - KB.T, KB - np.diagonal(KB)
    terms = (Kx[:, None] - Kx, -own * r, -across * r.T)
    size = np.abs(Kx)[:, None] + np.abs(Kx) + np.abs(terms[1]) + np.abs(terms[2])
    return terms[0] + terms[1] + terms[2], size


def credit_of(
    difference: FloatArray, size: FloatArray, y: FloatArray, error: float = 0.0
) -> FloatArray:
    """Return 1 for pairs in the right order, one half for ties."""
    right = (difference > 0) == (y[:, None] > y)
    return np.where(is_tie(difference, size, error), 0.5, right)


@final
@dataclass(frozen=True, eq=False)
class _KernelInverse:
    """Inverses for every mu from a kernel: the item part B of ``[K + mu / s, 1; 1', 0]^-1``.

    By a Cholesky inverse of the centred kernel.
    """

    K: FloatArray
    weight: FloatArray
    scale: float
    """Mean of the diagonal of K."""

    @property
    def largest(self) -> float:
        """A bound of the eigenvalues of the weighted kernel."""
        return self.scale * len(self.K) * float(self.weight.max())

    def unit(self, mu: float) -> float:  # noqa: ARG002
        """Return what B is given in multiples of."""
        return 1.0

    def kernel_times(self, V: FloatArray) -> FloatArray:
        """Return ``K @ V``."""
        return self.K @ V

    @classmethod
    def of(cls, K: FloatArray, weight: FloatArray) -> Self:
        """Centre a kernel matrix, which is overwritten."""
        means = K.mean(axis=0)
        K -= means
        K -= (means - means.mean())[:, None]
        return cls(K, weight, float(np.trace(K)) / len(K))

    def __call__(self, mu: float) -> tuple[FloatArray, float]:
        """Return B, of which the lower triangle is set, and its relative rounding error."""
        n_items = len(self.K)
        M = self.K + max(self.scale, mu) / n_items
        M.flat[:: n_items + 1] += mu / self.weight
        norm = largest_row_sum(M)
        factor, info = dpotrf(M.T, lower=False, overwrite_a=True, clean=False)
        if info != 0:
            return np.full_like(M, np.nan), np.inf
        rcond, _ = dpocon(factor, norm, uplo="U")
        dpotri(factor, lower=False, overwrite_c=True)  # in place: the lower triangle of M
        ones = dsymm(1.0, M.T, np.ones((n_items, 1)), lower=False)[:, 0]
        scaled = ones / np.sqrt(ones.sum())
        for rows in _row_blocks(n_items):
            M[rows] -= scaled[rows, None] * scaled
        return M, EPS / max(rcond, TINY)


@final
@dataclass(frozen=True, eq=False)
class _FeatureInverse:
    """The same B times mu from explicit features: what the hat matrix H leaves, ``s - S H S``."""

    Z: FloatArray
    weight: FloatArray
    spectrum: Spectrum

    @classmethod
    def of(cls, Z: FloatArray, weight: FloatArray) -> Self:
        """Centre and decompose explicit features."""
        centred = (Z - weight @ Z / weight.sum()) * np.sqrt(weight)[:, None]
        spectrum = Spectrum.of(centred.T @ centred)
        return cls(centred @ spectrum.vectors, weight, spectrum)

    @property
    def largest(self) -> float:
        """The largest eigenvalue of the weighted kernel."""
        return float(self.spectrum.values[-1])

    def unit(self, mu: float) -> float:
        """Return what B is given in multiples of."""
        return 1.0 / mu

    def kernel_times(self, V: FloatArray) -> FloatArray:
        """Return the kernel of the centred features times V."""
        Z = self.Z / np.sqrt(self.weight)[:, None]
        return Z @ (Z.T @ V)

    def __call__(self, mu: float) -> tuple[FloatArray, float]:
        """Return mu B and its relative rounding error."""
        root = np.sqrt(self.weight)
        half = self.Z / np.sqrt(self.spectrum.values + mu)
        B = half @ half.T
        B += np.outer(root, root) / self.weight.sum()
        np.negative(B, out=B)
        B.flat[:: len(B) + 1] += 1.0
        spare = max(float(np.diagonal(B).min()), TINY)
        B *= root[:, None]
        B *= root
        return B, float(EPS / min(spare, self.spectrum.rcond(np.array([mu]))[0]))


def _row_blocks(n_items: int) -> Iterator[slice]:
    """Cut rows into blocks, so that whole matrices need no second copy."""
    return (slice(start, start + ROWS) for start in range(0, n_items, ROWS))


def largest_row_sum(M: DeviceArray) -> float:
    """Return the largest sum of sizes of a row, some rows at a time."""
    return max(float(abs(M[rows]).sum(1).max()) for rows in _row_blocks(len(M)))


def leave_out_of_complete_on(
    device: Device, K: DeviceArray, Y: FloatArray, weight: FloatArray, mus: FloatArray
) -> PairsHeldOut:
    """Do the same as `leave_out_of_complete` on a device, pairs by blocks of rows.

    K is overwritten.
    """
    means = K.mean(0)
    K -= means
    K -= (means - means.mean())[:, None]
    scale, decisive = float(K.diagonal().mean()), decisive_items(Y)
    scores = device.array(Y)
    parts = []
    for mu in mus.tolist():
        M = K + max(scale, mu) / len(K)
        M.diagonal().add_(device.array(mu / weight))
        norm = largest_row_sum(M)
        factor = device.factor_in_place(M)
        if factor is None:
            parts.append((np.zeros(Y.shape), np.ones(Y.shape), np.inf))
            continue
        B = device.invert_factored(factor)
        error = EPS * norm * largest_row_sum(B)
        ones = B.sum(1)
        for block in _row_blocks(len(B)):
            B[block] -= ones[block][:, None] * (ones / ones.sum())
        if mu > scale * len(K) * weight.max():
            difference = _direct_differences_on(K, B, scores, error)
            worst = 1.0
        else:
            difference = _differences_on(B, scores, error)
            worst = _worst_pair_on(B)
        right, total = _count_on(device, difference, scores, decisive)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    return _stack(parts)


def _worst_pair_on(B: DeviceArray) -> float:
    """Return the smallest determinant of a pair, as a share of the product of its diagonal."""
    b, worst = B.diagonal(), 1.0
    for rows in _row_blocks(len(B)):
        share = 1.0 - B[rows] ** 2 / (b[rows][:, None] * b)
        share[:, rows].fill_diagonal_(1.0)
        worst = min(worst, float(share.min()))
    return worst


DifferencesOn: TypeAlias = Callable[[slice, int], tuple[DeviceArray, DeviceArray]]
"""Gives f_i - f_j, scaled, and what counts as a tie, for rows i, all j and an output."""


def _differences_on(B: DeviceArray, Y: DeviceArray, error: float) -> DifferencesOn:
    """Return the differences as `complete_pairs` forms them."""
    centred, b = Y - Y.mean(0), B.diagonal()
    A, tie = B @ centred, float(tie_share(error)) * abs(centred).amax(0)

    def differences(rows: slice, k: int) -> tuple[DeviceArray, DeviceArray]:
        b_ii, b_ij = b[rows][:, None], B[rows]
        det = b_ii * b - b_ij * b_ij
        gap = Y[rows, k][:, None] - Y[:, k]
        turn = (b + b_ij) * A[rows, k][:, None] - (b_ii + b_ij) * A[:, k]
        return gap * det - turn, tie[k] * det

    return differences


def _direct_differences_on(
    K: DeviceArray, B: DeviceArray, Y: DeviceArray, error: float
) -> DifferencesOn:
    """Return the differences as `held_out_differences` forms them; B is overwritten."""
    B /= float(abs(B.diagonal()).max())
    X = B @ (Y - Y.mean(0))
    KB, KX, b = K @ B, K @ X, B.diagonal()
    own, share = KB.diagonal(), float(tie_share(error))

    def differences(rows: slice, k: int) -> tuple[DeviceArray, DeviceArray]:
        b_ii, b_ij, x, Kx = b[rows][:, None], B[rows], X[:, k], KX[:, k]
        x_i, Kx_i = x[rows][:, None], Kx[rows][:, None]
        det = b_ii * b - b_ij * b_ij
        first = (own[rows][:, None] - KB[:, rows].T) * (b * x_i - b_ij * x) / det
        second = (KB[rows] - own) * (b_ii * x - b_ij * x_i) / det
        size = sum(abs(term) for term in (Kx_i, Kx, first, second))
        return Kx_i - Kx - first - second, share * size

    return differences


def _count_on(
    device: Device, differences: DifferencesOn, Y: DeviceArray, decisive: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Count all pairs, a block of rows against all others at a time."""
    right, total = Y * 0.0, Y * 0.0
    for rows in _row_blocks(len(Y)):
        for k in range(Y.shape[1]):
            difference, slack = differences(rows, k)
            gap = Y[rows, k][:, None] - Y[:, k]
            tied = abs(difference) <= slack
            won = (difference > 0) == (gap > 0)
            judged = gap != 0
            if decisive[k, 0] >= 0:
                judged &= ~device.array(leaves_nothing(len(Y), decisive[k], rows))
            right[rows, k] = ((0.5 * tied + 1.0 * (won & ~tied)) * judged).sum(1)
            total[rows, k] = (1.0 * judged).sum(1)
    return device.host(right), device.host(total)
