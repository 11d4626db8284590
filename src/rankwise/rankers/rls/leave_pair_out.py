"""Leave out pairs, for every alpha: two items of one global ranking, or one comparison."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg import solve
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, as_columns, dense_rows
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.threads import in_threads, n_threads
from rankwise.core.training_data import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import Cost, PreferenceGraph, Ties, pair_targets
from rankwise.graph.query_weights import QueryWeight, standard_query_weight
from rankwise.rankers.closed_form import normal_equations
from rankwise.rankers.rls._kernels import complete_pairs, graded_pairs
from rankwise.selection.holdouts import EdgesHeldOut, PairsHeldOut
from rankwise.solve.normal_equations import Dual
from rankwise.solve.spectra import Spectrum

EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

MOST_OPERATIONS = 1e13
"""Above this many operations per alpha, many minutes of work, leaving out pairs is refused."""

ROWS = 256
"""Rows of a large matrix that are worked on together."""

TIE = 1e-12
"""Differences below this share of the largest score are rounding errors: a tie."""

BLOCK_PAIRS = 4096
"""Comparisons that are projected together."""


TOO_FEW_ITEMS = (
    "Leaving out pairs needs at least four items of different scores, so that something is left to "
    "learn from. Give more items."
)

TOO_FEW_OF_A_GRADE = (
    "Leaving out pairs needs at least two items of each of two grades, so that something is left "
    "to learn from. Give more items."
)


def leave_pair_out(
    space: FunctionSpace,
    data: TrainingData,
    alphas: FloatArray,
    *,
    cost: Cost,
    ties: Ties,
    query_weight: str,
    unweighted: Literal["skip", "judge"] = "skip",
    device: Device | None = None,
) -> PairsHeldOut:
    """Leave out all pairs of items of different score, for every alpha and output.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    data : TrainingData
        Scored items of one query.
    alphas : (n_alphas,)
        The values of alpha.
    cost, ties, query_weight
        As in `RankRLS`.
    unweighted : {"skip", "judge"}
        Whether pairs with an item of weight 0, which no model learns from, are counted too; that
        takes a fit per item of weight above 0.
    device : Device, optional
        Where to compute, for cost "magnitude" with ties kept or absent.

    Notes
    -----
    The closed forms need cost "magnitude" with ties kept or absent, or few grades; unequal weights
    are understood by the former with query_weight "items" only. Anything else is refitted without
    each pair, which is exact as well but takes O(n^2) fits.
    """
    rows = np.flatnonzero(data.weight > 0)
    if len(rows) < 4:
        raise InvalidInputError(TOO_FEW_ITEMS)
    options: dict[str, Any] = {"cost": cost, "ties": ties, "query_weight": query_weight}
    if len(rows) == data.n_items:
        return _weighted(space, data, rows, alphas, device, **options)
    counted = _weighted(space, data.take(rows), rows, alphas, device, **options)
    counted = counted.spread(rows, data.n_items)
    if unweighted == "skip":
        return counted
    Y = as_columns(data.scores)
    parts = [_unweighted(space, replace(data, y=y), rows, alphas, options) for y in Y.T]
    return counted.plus(parts[0].join_outputs(parts[1:]))


def _weighted(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    device: Device | None,
    *,
    cost: Cost,
    ties: Ties,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out pairs of items of weights above 0, which are some rows of the space."""
    Y, weight = as_columns(data.scores), data.weight
    equal = bool(np.all(weight == weight[0]))
    untied = all(len(np.unique(column)) == len(Y) for column in Y.T)
    if cost == "magnitude" and (ties == "keep" or untied) and (equal or query_weight == "items"):
        mus = alphas / _complete_degree(query_weight, weight)
        if device is not None:
            return _complete_on(device, _kernel_on(device, space, rows), Y, weight, mus)
        return _complete(space, rows, Y, weight, mus)
    if cost != "relative" and ties == "drop" and equal and not untied:
        w = float(weight[0])
        parts = [_graded(space, rows, y, w, alphas, cost, query_weight) for y in Y.T]
    else:
        options = {"cost": cost, "ties": ties, "query_weight": query_weight}
        parts = [_refitted(space, replace(data, y=y), rows, alphas, **options) for y in Y.T]
    return parts[0].join_outputs(parts[1:])


def _refuse_endless(operations: float) -> None:
    """Refuse what would keep the machine busy for hours."""
    if operations > MOST_OPERATIONS:
        raise InvalidInputError(
            "Leaving out pairs would take too long: this cost, these ties or these weights need "
            f"about {operations:.1g} operations per alpha. Use cost='magnitude' with ties='keep', "
            "which needs one inverse, or leave out queries."
        )


def _complete_degree(query_weight: str, weight: FloatArray) -> float:
    """Return omega times the mass of what remains without two items.

    It multiplies the weighted scatter around the mean; 1 for the query weight "items", whatever
    the two items. For the others the weights must be equal.
    """
    rest = weight[2:]
    mass = rest.sum()
    return float(standard_query_weight(query_weight, mass, np.sum(rest**2)) * mass)


def _complete(
    space: FunctionSpace, rows: IntArray, Y: FloatArray, weight: FloatArray, mus: FloatArray
) -> PairsHeldOut:
    """Leave out all pairs where every two items are joined, ties kept or absent.

    What remains is ridge regression with a free intercept whatever the pair, so that one inverse
    per alpha serves all pairs and outputs: O(n^3) per alpha, O(n^2 d) with d explicit features,
    then O(n^2) per output; no more than two matrices of n x n at a time.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    rows : (n_items,)
        The rows of the space that the items are.
    Y : (n_items, n_outputs)
        Scores.
    weight : (n_items,)
        Sample weights, above 0.
    mus : (n_alphas,)
        What multiplies the squared norm when the cost is the weighted scatter itself.

    Notes
    -----
    [PTA09] Sect. 3.4: the problem (34) with the graph (35), solved by (36). One 2 x 2 solve per
    pair takes the place of the rank-3 update (37), (38) and of its precomputed matrices (39).
    """
    tie, decisive = TIE * np.abs(Y).max(axis=0), _decisive_items(Y)
    inverse = _inverse_of(space, rows, weight)
    parts = []
    for mu in mus:
        B, error = inverse(float(mu))
        A = dsymm(1.0, B.T, Y, lower=False)
        if mu > inverse.largest:
            parts.append((*_count_directly(inverse, B, A, Y, decisive), error))
            continue
        right, total, worst = _count(B, A, Y, tie, decisive)  # [PTA09] (38)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    return _stack(parts)


def _stack(parts: list[tuple[FloatArray, FloatArray, float]]) -> PairsHeldOut:
    """Join the counts of all alphas; refuse scores of which no pair could be judged."""
    held_out = PairsHeldOut.stack(parts)
    if not held_out.total.any(axis=(0, 1)).all():
        raise NothingToLearnError(TOO_FEW_OF_A_GRADE)
    return held_out


def _kernel_on(device: Device, space: FunctionSpace, rows: IntArray) -> DeviceArray:
    """Return the kernel between some rows on a device."""
    K = space.kernel_matrix_on(device)
    return K if len(rows) == len(K) else device.take(device.take(K, rows).T, rows)


def _complete_on(
    device: Device, K: DeviceArray, Y: FloatArray, weight: FloatArray, mus: FloatArray
) -> PairsHeldOut:
    """Do the same as `_complete` on a device: an inverse per alpha, then pairs by blocks of rows.

    K is overwritten.
    """
    means = K.mean(0)
    K -= means
    K -= (means - means.mean())[:, None]
    scale, decisive = float(K.diagonal().mean()), _decisive_items(Y)
    scores = device.array(Y)
    parts = []
    for mu in mus.tolist():
        M = K + max(scale, mu) / len(K)
        M.diagonal().add_(device.array(mu / weight))
        norm = _largest_row_sum_on(device, M)
        factor = device.factor(M)
        del M
        if factor is None:
            parts.append((np.zeros(Y.shape), np.ones(Y.shape), np.inf))
            continue
        B = device.invert_factored(factor)
        del factor
        error = EPS * norm * _largest_row_sum_on(device, B)
        ones = B.sum(1)
        B -= ones[:, None] * (ones / ones.sum())
        if mu > scale * len(K) * weight.max():
            difference = _direct_differences_on(device, K, B, scores)
            worst = 1.0
        else:
            difference = _differences_on(device, B, scores)
            worst = _worst_pair_on(B)
        right, total = _count_on(device, difference, scores, decisive)
        parts.append((right, total, error / worst if worst > 0 else np.inf))
    return _stack(parts)


def _largest_row_sum_on(device: Device, M: DeviceArray) -> float:
    return max(float(device.absolute(M[rows]).sum(1).max()) for rows in _row_blocks(len(M)))


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


def _differences_on(device: Device, B: DeviceArray, Y: DeviceArray) -> DifferencesOn:
    """Return the differences as `complete_pairs` forms them."""
    A, b, tie = B @ Y, B.diagonal(), TIE * device.absolute(Y).amax(0)

    def differences(rows: slice, k: int) -> tuple[DeviceArray, DeviceArray]:
        b_ii, b_ij = b[rows][:, None], B[rows]
        det = b_ii * b - b_ij * b_ij
        gap = Y[rows, k][:, None] - Y[:, k]
        turn = (b + b_ij) * A[rows, k][:, None] - (b_ii + b_ij) * A[:, k]
        return gap * det - turn, tie[k] * det

    return differences


def _direct_differences_on(
    device: Device, K: DeviceArray, B: DeviceArray, Y: DeviceArray
) -> DifferencesOn:
    """Return the differences as `_held_out_differences` forms them; B is overwritten."""
    B /= float(device.absolute(B.diagonal()).max())
    X = B @ Y
    KB, KX, b = K @ B, K @ X, B.diagonal()
    own = KB.diagonal()

    def differences(rows: slice, k: int) -> tuple[DeviceArray, DeviceArray]:
        b_ii, b_ij, x, Kx = b[rows][:, None], B[rows], X[:, k], KX[:, k]
        x_i, Kx_i = x[rows][:, None], Kx[rows][:, None]
        det = b_ii * b - b_ij * b_ij
        first = (own[rows][:, None] - KB[:, rows].T) * (b * x_i - b_ij * x) / det
        second = (KB[rows] - own) * (b_ii * x - b_ij * x_i) / det
        size = sum(device.absolute(term) for term in (Kx_i, Kx, first, second))
        return Kx_i - Kx - first - second, TIE * size

    return differences


def _count_on(
    device: Device, differences: DifferencesOn, Y: DeviceArray, decisive: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Count all pairs, a block of rows against all others at a time."""
    right, total = np.zeros((2, *Y.shape))
    for rows in _row_blocks(len(Y)):
        for k in range(Y.shape[1]):
            difference, slack = differences(rows, k)
            gap = Y[rows, k][:, None] - Y[:, k]
            tied = device.absolute(difference) <= slack
            won = (difference > 0) == (gap > 0)
            nothing = device.array(_leaves_nothing(len(Y), decisive[k], rows))
            judged = (gap != 0) & ~nothing
            credit = (0.5 * tied + 1.0 * (won & ~tied)) * judged
            right[rows, k], total[rows, k] = device.host(credit.sum(1)), device.host(judged.sum(1))
    return right, total


def _decisive_items(Y: FloatArray) -> IntArray:
    """Return for each output the one or two items without which all scores are equal, else -1.

    A pair that holds all of them leaves nothing to learn from.
    """
    decisive = np.full((Y.shape[1], 2), -1)
    for k, y in enumerate(Y.T):
        values, counts = np.unique(y, return_counts=True)
        others = np.flatnonzero(y != values[np.argmax(counts)])
        if 1 <= len(others) <= 2:
            decisive[k, : len(others)] = others
    return decisive


def _leaves_nothing(n_items: int, decisive: IntArray, rows: slice = slice(None)) -> BoolArray:
    """Return which pairs of some rows with all hold all decisive items of an output."""
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
    """Count all pairs, every thread taking rows that lie evenly apart."""
    n_tasks = n_threads()
    right, total = np.zeros((2, n_tasks, *Y.shape))
    worst = np.ones(n_tasks)

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
) -> tuple[FloatArray, FloatArray]:
    """Count all pairs where mu is above the kernel and scores are far below the residuals."""
    B = np.tril(B) + np.tril(B, -1).T
    KB, KA = inverse.kernel_times(B), inverse.kernel_times(A)
    right, total = np.zeros((2, *Y.shape))
    for k, y in enumerate(Y.T):
        credit = _credit(*_held_out_differences(B, A[:, k], KB, KA[:, k]), y)
        judged = (y[:, None] != y) & ~_leaves_nothing(len(y), decisive[k])
        right[:, k], total[:, k] = np.where(judged, credit, 0.0).sum(axis=1), judged.sum(axis=1)
    return right, total


def _held_out_differences(
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


def _credit(difference: FloatArray, size: FloatArray, y: FloatArray) -> FloatArray:
    """Return 1 for pairs in the right order, one half for ties."""
    right = (difference > 0) == (y[:, None] > y)
    return np.where(np.abs(difference) <= TIE * size, 0.5, right)


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
        norm = _largest_row_sum(M)
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


def _largest_row_sum(M: FloatArray) -> float:
    return max(float(np.abs(M[rows]).sum(axis=1).max()) for rows in _row_blocks(len(M)))


def _graded(
    space: FunctionSpace,
    rows: IntArray,
    y: FloatArray,
    weight: float,
    alphas: FloatArray,
    cost: Cost,
    query_weight: str,
) -> PairsHeldOut:
    """Leave out all pairs of different grade where pairs of one grade are not joined.

    What remains depends on the two grades only, so that one inverse per pair of grades and alpha
    serves all their pairs: O(k^2 n^3) per alpha with k grades; two grades need a single one.

    Notes
    -----
    [PTA09] Sect. 4.1 uses such estimates of the AUC.
    """
    values, grade = np.unique(y, return_inverse=True)
    gaps = values[:, None] - values
    targets = np.sign(gaps) if cost == "unit" else gaps  # [PTA09] (20), (21)
    counts = np.bincount(grade).astype(float)
    _refuse_endless(len(counts) ** 2 / 2 * float(len(y)) ** 3)
    K, tie = space.kernel_matrix(rows), TIE * float(np.abs(targets).max())
    largest = float(np.trace(K)) * len(y)
    right, total = np.zeros((2, len(alphas), len(y), 1))
    error = np.zeros(len(alphas))
    for g, h in combinations(range(len(counts)), 2):
        rest = counts.copy()
        rest[[g, h]] -= 1
        if np.count_nonzero(rest) < 2:
            continue
        low, high = np.flatnonzero(grade == g), np.flatnonzero(grade == h)
        for a, strength in enumerate(alphas / _pair_weight(query_weight, weight * rest, weight)):
            system = _GradeSystem.of(K, grade, rest, targets, float(strength))
            if strength > largest:
                found = system.right_pairs_directly(K, low, high, y)
            else:
                found = system.right_pairs(low, high, g, h, tie)
            error[a] = max(error[a], system.error)
            right[a, low, 0] += found.sum(axis=1)
            right[a, high, 0] += found.sum(axis=0)
            total[a, low, 0] += len(high)
            total[a, high, 0] += len(low)
    if not total.any():
        raise NothingToLearnError(TOO_FEW_OF_A_GRADE)
    return PairsHeldOut(right, total, error)


def _pair_weight(query_weight: str, masses: FloatArray, weight: float) -> float:
    """Return the weight of a pair of items of equal weights, given the masses of the grades."""
    omega = standard_query_weight(query_weight, masses.sum(), np.sum(masses**2))
    return float(omega) * weight**2


@final
@dataclass(frozen=True, eq=False)
class _GradeSystem:
    """The bordered system of the items that remain, solved for all items.

    ``[K + a / d, -E / d; -E' / d, Gamma / a]`` with d the degree of each item, E the membership in
    grades and a the regularisation; leaving out a pair deletes its rows and columns
    (docs/theory/holdouts.rst, eqs. hold-bordered and hold-graded-pair).
    """

    B: FloatArray
    across: FloatArray
    x: FloatArray
    beta: FloatArray
    offset: FloatArray
    degree: FloatArray
    error: float

    @classmethod
    def of(
        cls,
        K: FloatArray,
        grade: IntArray,
        rest: FloatArray,
        targets: FloatArray,
        strength: float,
    ) -> Self:
        """Invert the system; ``rest`` counts the items that remain of each grade."""
        degree = rest.sum() - rest
        offset = (targets @ rest) / degree
        n_grades = len(rest)
        M = K.copy()
        M.flat[:: len(M) + 1] += strength / degree[grade]
        norm = _largest_row_sum(M)
        factor, info = dpotrf(M.T, lower=False, overwrite_a=True, clean=False)
        rcond = dpocon(factor, norm, uplo="U")[0] if info == 0 else 0.0
        dpotri(factor, lower=False, overwrite_c=True)
        E = np.zeros((len(K), n_grades))
        E[np.arange(len(K)), grade] = 1.0 / degree[grade]
        inner = dsymm(1.0, M.T, E, lower=False)
        gamma = np.diag(rest / degree) + np.eye(n_grades) - 1.0 / (n_grades - 1)
        schur = gamma / strength - E.T @ inner
        across = solve(schur, inner.T, assume_a="sym").T
        B = M + across @ inner.T
        rhs = offset[grade]
        beta_rhs = -(rest / strength) * offset
        x = dsymm(1.0, M.T, rhs[:, None], lower=False)[:, 0] + across @ (inner.T @ rhs)
        x += across @ beta_rhs
        beta = across.T @ rhs + solve(schur, beta_rhs, assume_a="sym")
        error = EPS / max(rcond, TINY)
        return cls(B, across, x, beta, offset, degree, error)

    def right_pairs(self, low: IntArray, high: IntArray, g: int, h: int, tie: float) -> FloatArray:
        """Return which pairs of the grades g < h come out right, (n_low, n_high)."""
        pair = [g, h]
        inverse_degree = 1.0 / self.degree[pair]
        return graded_pairs(
            self.B,
            self.x,
            np.ascontiguousarray(self.across[:, pair] * inverse_degree),
            self.beta[pair] * inverse_degree,
            self.offset[pair],
            low,
            high,
            tie,
        )

    def right_pairs_directly(
        self, K: FloatArray, low: IntArray, high: IntArray, y: FloatArray
    ) -> FloatArray:
        """Return the same where alpha is above the kernel: scores are far below the targets."""
        pairs = np.r_[low, high]
        B = np.tril(self.B) + np.tril(self.B, -1).T
        within = np.ix_(pairs, pairs)
        KB, Kx = K[pairs] @ B[:, pairs], K[pairs] @ self.x
        credit = _credit(*_held_out_differences(B[within], self.x[pairs], KB, Kx), y[pairs])
        return credit[: len(low), len(low) :]


def _refitted(
    space: FunctionSpace, data: TrainingData, rows: IntArray, alphas: FloatArray, **options: Any
) -> PairsHeldOut:
    """Leave out all pairs of different score by fitting what remains: exact, O(n^2) fits.

    Parameters
    ----------
    space, data, rows, alphas
        As in `_weighted`, with a single output.
    **options
        Cost, ties and query weight of the graph.
    """
    y, n_items = data.scores, data.n_items
    _refuse_endless(n_items**2 / 2 * _operations_of_a_fit(space, n_items))
    right, total = np.zeros((2, len(alphas), n_items, 1))
    for i, j in combinations(range(n_items), 2):
        if y[i] == y[j]:
            continue
        pair = np.array([i, j])
        rest = np.delete(np.arange(n_items), pair)
        scores = _scores_without(space, data, rest, rows[rest], rows[pair], alphas, options)
        if scores is None:
            continue
        difference, size = scores[:, 0] - scores[:, 1], np.abs(scores).max(axis=1)
        credit = np.where(np.abs(difference) <= TIE * size, 0.5, (difference > 0) == (y[i] > y[j]))
        right[:, [i, j], 0] += credit[:, None]
        total[:, [i, j], 0] += 1.0
    if not total.any():
        raise NothingToLearnError(TOO_FEW_ITEMS)
    return PairsHeldOut(right, total, _rounding(space, data, rows, alphas, options))


def _operations_of_a_fit(space: FunctionSpace, n_items: int) -> float:
    order = min(n_items, space.features().shape[1]) if space.is_explicit else n_items
    return n_items * float(order) ** 2


def _rounding(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray:
    """Estimate the relative error of refits by the condition of the fit to all items."""
    whole = normal_equations(space, PreferenceGraph.of(data, **options), rows).spectrum()
    return EPS / np.maximum(whole.rcond(alphas), TINY)


def _scores_without(
    space: FunctionSpace,
    data: TrainingData,
    rest: IntArray,
    rest_rows: IntArray,
    of: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> FloatArray | None:
    """Return the scores of some rows for every alpha by a fit to the items ``rest`` only.

    None if nothing is left to learn.
    """
    try:
        graph = PreferenceGraph.of(data.take(rest), **options)
    except NothingToLearnError:
        return None
    solutions = normal_equations(space, graph, rest_rows).path(alphas, checked=False)[:, :, 0]
    return space.scores(solutions, rest_rows, of)


def _unweighted(
    space: FunctionSpace,
    data: TrainingData,
    rows: IntArray,
    alphas: FloatArray,
    options: dict[str, Any],
) -> PairsHeldOut:
    """Count the pairs with an item of weight 0, on which the model without the pair depends not.

    A fit without each item of weight above 0 scores its pairs; one fit to all scores the pairs of
    two items of weight 0.
    """
    y, zero = data.scores, np.setdiff1d(np.arange(data.n_items), rows)
    _refuse_endless(len(rows) * _operations_of_a_fit(space, len(rows)))
    right, total = np.zeros((2, len(alphas), data.n_items, 1))

    def count(left_out: IntArray) -> None:
        rest = np.setdiff1d(rows, left_out)
        of = np.r_[left_out, zero]
        scores = _scores_without(space, data, rest, rest, of, alphas, options)
        if scores is None:
            return
        among = np.ones((len(of), len(of)), dtype=bool)
        if len(left_out):  # pairs of this item only
            among[1:, 1:] = False
        among &= y[of][:, None] != y[of]
        for a, f in enumerate(scores):
            credit = _credit(f[:, None] - f, np.maximum(np.abs(f)[:, None], np.abs(f)), y[of])
            right[a, of, 0] += np.where(among, credit, 0.0).sum(axis=1)
            total[a, of, 0] += among.sum(axis=1)

    count(zero[:0])
    for row in rows:
        count(np.array([row]))
    return PairsHeldOut(right, total, _rounding(space, data.take(rows), rows, alphas, options))


def leave_edge_out(
    space: FunctionSpace,
    data: TrainingData,
    alphas: FloatArray,
    *,
    cost: Cost = "magnitude",
    query_weight: QueryWeight = "items",
) -> EdgesHeldOut:
    r"""Predict each comparison from all the others.

    One comparison is one term of a least-squares sum, so its residual without it is its residual
    over :math:`1 - h_e`, with h its leverage; repeated comparisons are left out one copy at a time.
    Cost: one decomposition and one product of the projected comparisons.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved.
    data : TrainingData
        The comparisons.
    alphas : (n_alphas,)
        The values of alpha.
    cost : {"magnitude", "unit", "relative"}
        As in `PreferenceGraph.from_pairs`.
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        As there; the weight of a query stays that of all its comparisons.
    """
    pairs, margin, weight = pair_targets(data, cost, query_weight)
    graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
    if not space.is_explicit:
        system = Dual.of(graph, space.kernel_matrix(), trusted=space.kernel_is_trusted)
        return _in_coordinates(system, pairs, margin, weight, alphas)
    Z, primal = space.features(), normal_equations(space, graph)
    spectrum = primal.spectrum()
    D = dense_rows(Z[pairs[:, 0]] - Z[pairs[:, 1]]) @ spectrum.vectors
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    predicted = D @ (inverse * (spectrum.vectors.T @ primal.rhs))
    leverage = weight[:, None] * (D**2 @ inverse)
    return _without_edges(spectrum, alphas, margin, predicted, leverage, 1.0 - leverage)


def _in_coordinates(
    system: Dual, pairs: IntArray, margin: FloatArray, weight: FloatArray, alphas: FloatArray
) -> EdgesHeldOut:
    """Work in the coordinates t of each comparison, ``R t = e_winner - e_loser``.

    With S = V diag(s) V' the leverage is ``w sum (V't)^2 s / (s + alpha)``; what is left of 1 is
    summed from positive parts, ``(1 - w t't) + w alpha sum (V't)^2 / (s + alpha)``.
    """
    spectrum = system.spectrum()
    n_pairs, n_items = len(pairs), system.root.to_items(np.zeros((system.root.rank, 1))).shape[0]
    inverse = 1.0 / (spectrum.values[:, None] + alphas)
    coef = spectrum.values[:, None] * inverse * (spectrum.vectors.T @ system.rhs)
    predicted, leverage, spare = np.empty((3, n_pairs, len(alphas)))
    for start in range(0, n_pairs, BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        T = spectrum.vectors.T @ system.root.solve(_incidence(pairs[block], n_items))
        w = weight[block, None]
        free = np.maximum(1.0 - w[:, 0] * np.einsum("ij,ij->j", T, T), 0.0)
        spare[block] = free[:, None] + w * ((T**2).T @ (alphas * inverse))
        leverage[block] = w * ((T**2).T @ (spectrum.values[:, None] * inverse))
        predicted[block] = T.T @ coef
    return _without_edges(spectrum, alphas, margin, predicted, leverage, spare)


def _incidence(pairs: IntArray, n_items: int) -> FloatArray:
    M = np.zeros((n_items, len(pairs)))
    M[pairs[:, 0], np.arange(len(pairs))] = 1.0
    M[pairs[:, 1], np.arange(len(pairs))] = -1.0
    return M


def _without_edges(
    spectrum: Spectrum,
    alphas: FloatArray,
    margin: FloatArray,
    predicted: FloatArray,
    leverage: FloatArray,
    spare: FloatArray,
) -> EdgesHeldOut:
    """Turn predictions with each comparison into those without it; ``spare`` is 1 - leverage.

    For alpha above the largest eigenvalue predictions are far below the margins, and the share of
    the comparison itself is taken out of them rather than out of the margin.
    """
    spare = np.maximum(spare, TINY)
    residual = (margin[:, None] - predicted) / spare
    without = (predicted - leverage * margin[:, None]) / spare
    is_large = alphas > spectrum.values[-1]
    differences = np.where(is_large, without, margin[:, None] - residual)
    error = EPS / np.maximum(np.minimum(spectrum.rcond(alphas), spare.min(axis=0)), TINY)
    return EdgesHeldOut(differences.T, error)
