"""Scores of held-out queries for every alpha: [PTA09] (33), for kernels and explicit features."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from rankwise.core.arrays import FloatArray, IntArray, dense_rows
from rankwise.core.namespaces import (
    Array,
    add_to_diagonal,
    cholesky_in_place,
    copy_of,
    gram,
    invert_triangle,
    is_on_host,
    like,
    memory_of,
    namespace_of,
    row_blocks,
    solve_definite,
    take_rows,
    to_host,
)
from rankwise.core.threads import in_threads, serial_blas
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.laplacian import Root
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.native.holdouts import solve_each
from rankwise.selection.holdouts import Folds, HeldOut, error_of_pivots
from rankwise.selection.refits import Elsewhere, FoldedFeatures, fold_of_components, refit_folds
from rankwise.solve.normal_equations import Spectrum, System

Form: TypeAlias = Literal["auto", "refit", "update"]

SMALL_BLOCK = 32
"""Up to this order systems are solved by a compiled loop over the grid."""

SAFE_PIVOT = 1e-6
"""Below this pivot the update of features has lost digits and the fold is refitted."""

DEVICE_ENTRIES = 1 << 27
"""Numbers of a device's array that holds rows of eigenvectors: 1 GB."""

DECOMPOSED_MATRICES = 5
"""Kernel matrices that an eigendecomposition takes on a GPU, the workspace of cuSOLVER included."""

DECOMPOSED_SHARE = 0.25
"""Share of a device's memory up to which the kernel is decomposed; beyond, a factor per alpha."""

FEW_ALPHAS = 4
"""Up to this number a factor for each alpha is sooner made than a decomposition for all."""

LARGE_ALPHA = 1e4
"""Above this multiple of the largest eigenvalue, factors of the kernel plus alpha lose digits."""

POWER_STEPS = 20
"""Products with the kernel that estimate its largest eigenvalue."""


def leave_query_out(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    alphas: FloatArray,
    *,
    form: Form = "auto",
    elsewhere: Elsewhere | None = None,
) -> HeldOut:
    """Return the scores of each fold's items by models without that fold.

    This is exact for every alpha, at the cost of one decomposition, or of small solves per fold. A
    fold must be a union of whole components of the graph.

    Parameters
    ----------
    space : FunctionSpace
        Where the problem is solved. Matrices are formed and decomposed where its rows are; on a
        device all queries of one size are left out together.
    graph : PreferenceGraph
        The preferences.
    folds : Folds
        The folds.
    alphas : (n_alphas,)
        The values of alpha.
    form : {"auto", "refit", "update"}
        For explicit features: refit without each fold, remove each fold from the full solution, or
        the cheaper of the two. On a device folds are removed.
    elsewhere : Elsewhere, optional
        The contribution of other data, of which nothing is left out; for explicit features.

    Notes
    -----
    [PTA09] Sect. 3.3: the scores (32) by (33), in the symmetric form of the reduced problem.
    """
    if not space.is_explicit:
        return _leave_out_of_kernel(space, graph, folds, alphas)
    Z = space.features()
    problem = FoldedFeatures.of(graph, dense_rows(to_host(Z)), folds, elsewhere)
    if form == "auto" and is_on_host(Z):
        form = _cheaper_form(problem.Z.shape[1], np.diff(problem.starts), len(alphas))
    if form == "refit":
        return refit_folds(problem, alphas)
    return _update_folds(problem, alphas, problem.Z if is_on_host(Z) else Z)


def _cheaper_form(n_features: int, sizes: IntArray, n_alphas: int) -> Form:
    """Compare the operations of a refit per fold with those of the update formula.

    Neither form serves alone (benchmarks/holdouts.py, ``form_rows``): for 31 alphas updates take
    30 times as long for 500 queries of 100 items, 46 features, and refits 8 times as long for 100
    queries of 20 items, 500 features. The calls of an update take as long as a million operations.
    Of the 12 sizes of ``choice_row`` the faster form is chosen for 11; in the last it takes 1.1
    times as long.
    """
    refit = len(sizes) * (4.0 / 3.0 * n_features**3 + 4.0 * n_alphas * n_features**2)
    update = float(np.sum((n_alphas + 15.0) * n_features * sizes**2.0 + 1e6))
    return "refit" if refit < update else "update"


@final
@dataclass(frozen=True, eq=False)
class Solution:
    r"""The models of some alphas fitted to all coordinates, from which folds can be taken out.

    Coordinates have the targets c0, and the model of an alpha is ``V diag(w) g`` with ``g = G'c0``:
    G holds the coordinates, and ``x'V`` a row x, in a basis in which the normal equations are
    diagonal. This makes one form of

    * a kernel in coordinates, S: ``B = (S + alpha)^-1 = G diag(w) G'`` and V = G, by the
      eigenvectors of S, or with ``L^-T`` of a Cholesky factor L of ``S + alpha`` and w = 1;
    * features in coordinates, H: ``G = H V`` with the eigenvectors V of H'H.

    With c = B c0, the prediction p for the coordinates U of a fold solves
    ``B_UU (c0_U - p) = c_U``. For alpha above the largest eigenvalue, and for features, where B
    is no ``G diag(w) G'``, the same equation is solved as
    ``(I - H_UU) p = (H c0)_U - H_UU c0_U`` with the hat matrix H = S B.

    Parameters
    ----------
    G : (rank, order)
    V : (n_columns, order)
    projected : (order, n_outputs)
        ``G'c0``.
    weights : (order, n_alphas)
        w of each alpha.
    hat : (order, n_alphas)
        The same of the hat matrix, from the alpha ``n_plain`` on; w of B before.
    n_plain : int
        Number of alphas for which the first equation is solved.
    """

    G: Array
    V: Array
    projected: Array
    weights: Array
    hat: Array
    n_plain: int

    @classmethod
    def decomposed(
        cls, spectrum: Spectrum, C0: FloatArray, alphas: FloatArray
    ) -> tuple[IntArray, Self]:
        """Build from the spectrum of S.

        Also returns the numbers of the alphas in the order of this solution: large ones come last.
        """
        values, vectors = spectrum.values, spectrum.vectors
        is_large = alphas > values[-1]
        which = np.argsort(is_large, kind="stable")
        weights, n_plain = 1.0 / (values[:, None] + alphas[which]), int(np.sum(~is_large))
        hat = weights.copy()
        hat[:, n_plain:] *= values[:, None]
        weights, hat = like(weights, vectors), like(hat, vectors)
        return which, cls(vectors, vectors, vectors.T @ like(C0, vectors), weights, hat, n_plain)

    @classmethod
    def factored(cls, inverse: Array, C0: FloatArray) -> Self:
        """Build from the inverse of a Cholesky factor of ``S + alpha``."""
        one = like(np.ones((inverse.shape[0], 1)), inverse)
        return cls(inverse.T, inverse.T, inverse @ like(C0, inverse), one, one, 1)

    @classmethod
    def of_features(cls, spectrum: Spectrum, H: Array, moment: Array, alphas: FloatArray) -> Self:
        """Build from the spectrum of the normal equations; H is overwritten, ``moment`` is H'c0."""
        V = spectrum.vectors
        for some in row_blocks(H):
            H[some, :] = H[some, :] @ V
        weights = like(1.0 / (spectrum.values[:, None] + alphas), V)
        return cls(H, V, V.T @ moment, weights, weights, 0)

    def at(self, weights: FloatArray) -> FloatArray:
        """Return the model of an alpha by its w."""
        return to_host(self.V @ (like(weights[:, None], self.V) * self.projected))

    def leave_out(
        self,
        C0: FloatArray,
        coordinates: tuple[IntArray, IntArray],
        rows: Array,
        members: tuple[IntArray, IntArray],
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Leave out each fold.

        Parameters
        ----------
        C0 : (rank, n_outputs)
            The targets in coordinates.
        coordinates
            The coordinates fold by fold, and where each fold begins.
        rows : (n_rows, n_columns)
            Rows that are scored by the model without their fold.
        members
            These rows fold by fold, and where each fold begins.

        Returns
        -------
        held_out : (n_alphas, rank, n_outputs)
            p of all coordinates.
        scores : (n_alphas, n_rows, n_outputs)
            The scores of the rows.
        pivots : (n_folds, n_alphas)
            The smallest pivots of the systems solved, as a share of the largest diagonal entry.
        """
        xp, (order, n_alphas), n_outputs = namespace_of(self.G), self.hat.shape, C0.shape[1]
        n_folds = len(coordinates[1]) - 1
        held_out = np.zeros((n_alphas, *C0.shape))
        scores, pivots = (
            np.zeros((n_alphas, rows.shape[0], n_outputs)),
            np.ones((n_folds, n_alphas)),
        )
        targets = self.hat[:, :, None] * self.projected[:, None, :]  # times G: B c0 or H c0
        targets = xp.reshape(targets, (order, n_alphas * n_outputs))
        # threads share the folds; elsewhere than on the host those of a size are left out together
        entries = 1 if is_on_host(self.G) else DEVICE_ENTRIES // (order + 1)
        batches = list(_batches(coordinates, members, n_alphas * n_outputs, entries))

        def leave_out(number: int) -> None:
            some, U, of = batches[number]
            coordinate_rows = take_rows(self.G, U.ravel())
            p, pivots[some] = self._predict(coordinate_rows, C0[U], targets)
            held_out[:, U] = p.swapaxes(0, 1)
            if of.shape[1]:
                own = take_rows(rows, of.ravel())
                scores[:, of] = self._score(own, coordinate_rows, C0[U][:, None] - p)

        if is_on_host(self.G):
            with serial_blas():
                in_threads(leave_out, len(batches))
        else:
            for number in range(len(batches)):
                leave_out(number)
        return held_out, scores, pivots

    def _predict(
        self, rows: Array, own: FloatArray, targets: Array
    ) -> tuple[FloatArray, FloatArray]:
        """Return p, (n_folds, n_alphas, size, n_outputs), and pivots, (n_folds, n_alphas).

        Parameters
        ----------
        rows : (n_folds * size, order)
            The coordinates of each fold.
        own : (n_folds, size, n_outputs)
            Their targets.
        targets : (order, n_alphas * n_outputs)
            The targets of all coordinates, projected and weighted.
        """
        xp, (n_folds, size, k), n_alphas = namespace_of(rows), own.shape, self.hat.shape[1]
        V, c0 = xp.reshape(rows, (n_folds, size, rows.shape[1])), like(own[:, None], rows)
        blocks = blocks_of_weights(V, self.hat)
        rhs = xp.reshape(rows @ targets, (n_folds, size, n_alphas, k))
        rhs = copy_of(xp.moveaxis(rhs, 2, 1))
        if self.n_plain < n_alphas:
            hat = slice(self.n_plain, n_alphas)
            rhs[:, hat, :, :] -= blocks[:, hat, :, :] @ c0
            blocks[:, hat, :, :] = like(np.eye(size), rows) - blocks[:, hat, :, :]
        solved, pivot = solve_in_blocks(
            blocks, rhs
        )  # [PTA09] eq. (32), (33), hold-dual, hold-update
        solved[:, : self.n_plain, :, :] = c0 - solved[:, : self.n_plain, :, :]
        return to_host(solved), to_host(pivot)

    def _score(self, own: Array, rows: Array, residuals: FloatArray) -> FloatArray:
        """Return the scores of rows by models without their folds, (n_alphas, n_folds, size, k).

        Parameters
        ----------
        own : (n_folds * size, n_columns)
            The rows.
        rows : (n_folds * n_coordinates, order)
            The coordinates of their folds.
        residuals : (n_folds, n_alphas, n_coordinates, n_outputs)
            c0 - p of these.
        """
        xp, (n_folds, n_alphas, size, k) = namespace_of(rows), residuals.shape
        order, n_own = rows.shape[1], own.shape[0] // n_folds
        columns = residuals.transpose(0, 2, 1, 3).reshape(n_folds, size, n_alphas * k)
        # what the coordinates of the fold had added to the projected targets
        gone = xp.reshape(rows, (n_folds, size, order)).mT @ like(columns, rows)
        kept = self.projected[:, None, :] - xp.reshape(gone, (n_folds, order, n_alphas, k))
        models = xp.reshape(self.weights[:, :, None] * kept, (n_folds, order, n_alphas * k))
        scores = to_host(xp.reshape(own @ self.V, (n_folds, n_own, order)) @ models)
        return scores.reshape(n_folds, n_own, n_alphas, k).transpose(2, 0, 1, 3)


def _batches(
    coordinates: tuple[IntArray, IntArray],
    members: tuple[IntArray, IntArray],
    n_columns: int,
    n_rows: int,
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield folds of equal size, their coordinates and their members, as many as fit together.

    Folds without either are left out. ``n_rows`` of coordinates, members and columns fit.
    """
    sizes = np.stack([np.diff(coordinates[1]), np.diff(members[1])])
    kinds, kind = np.unique(sizes, axis=1, return_inverse=True)
    for number, size in enumerate(kinds.T.tolist()):
        folds = np.flatnonzero(kind.reshape(-1) == number)
        step = max(1, n_rows // (sum(size) + n_columns))
        for first in range(0, len(folds) if sum(size) else 0, step):
            some = folds[first : first + step]
            (U, starts), (of, of_starts) = coordinates, members
            yield (
                some,
                U[starts[some][:, None] + np.arange(size[0])],
                of[of_starts[some][:, None] + np.arange(size[1])],
            )


Use: TypeAlias = Callable[[Callable[[IntArray, Solution], None]], None]
"""Calls a function with numbers of alphas and their solution, until all alphas are done."""


def _leave_out_all(
    graph: PreferenceGraph,
    folds: Folds,
    root: Root,
    C0: FloatArray,
    alone: IntArray,
    rows: Array,
    n_alphas: int,
    use: Use,
) -> tuple[FloatArray, FloatArray]:
    """Leave each fold out of the solutions of all alphas.

    Parameters
    ----------
    graph, folds, root, C0
        The preferences, the folds, and the root and the targets of the former.
    alone, rows
        The items that `_scored_alone` returns, and their rows.
    n_alphas, use
        Number of alphas, and their solutions.

    Returns
    -------
    scores : (n_alphas, n_items, n_outputs)
        NaN for items that no fold holds out.
    pivots : (n_folds, n_alphas)
    """
    component, n_outputs = graph.laplacian.component, C0.shape[1]
    coordinates = folds.order(folds.of_components(component)[root.component])
    members = folds.order(folds.fold[alone])
    held_out, out = np.empty((n_alphas, *C0.shape)), np.empty((n_alphas, graph.n_items, n_outputs))
    pivots = np.empty((folds.n_folds, n_alphas))

    def leave_out(which: IntArray, solution: Solution) -> None:
        found = solution.leave_out(C0, coordinates, rows, members)
        held_out[which], out[np.ix_(which, alone)], pivots[:, which] = found

    use(leave_out)
    # coordinates give scores up to a constant of each component, which anchors set
    columns = held_out.transpose(1, 0, 2).reshape(len(C0), n_alphas * n_outputs)
    scores = root.to_scores(columns).reshape(graph.n_items, n_alphas, n_outputs)
    anchors = alone[component[alone] >= 0]
    if len(anchors):
        shift = np.zeros((int(component.max()) + 1, n_alphas, n_outputs))
        shift[component[anchors]] = out[:, anchors].transpose(1, 0, 2) - scores[anchors]
        scores += shift[component]
    active = (component >= 0) & (folds.fold >= 0)
    out[:, active] = scores[active].transpose(1, 0, 2)
    out[:, folds.fold < 0] = np.nan
    return out, pivots


def _scored_alone(graph: PreferenceGraph, folds: Folds, *, up_to_constants: bool) -> IntArray:
    """Return the held-out items whose scores the coordinates do not determine: those in no pair.

    Coordinates determine scores up to a constant for each component, so one item of each is scored
    too: of all, or only where comparisons leave a query in several components, so that the scores
    of a query are comparable.
    """
    component, held_out = graph.laplacian.component, folds.fold >= 0
    alone = np.flatnonzero((component < 0) & held_out)
    active = np.flatnonzero((component >= 0) & held_out)
    anchors = active[np.unique(component[active], return_index=True)[1]]
    if up_to_constants:
        index, n_queries = graph.queries.index, graph.queries.n_queries
        parts = np.bincount(index[np.concatenate([anchors, alone])], minlength=n_queries)
        anchors = anchors[parts[index[anchors]] > 1]
    return np.concatenate([alone, anchors])


# Explicit features


def _update_folds(problem: FoldedFeatures, alphas: FloatArray, Z: Array) -> HeldOut:
    """Remove each fold from the full solution by an update of the order of the fold.

    Z are the features where they are computed with; docs/theory/holdouts.rst, eq. hold-update.
    """
    # features in coordinates, and their normal equations
    C0, folds, graph, root = problem.targets, problem.folds, problem.graph, problem.root
    H = root.like(Z).to_coordinates(Z)
    G = gram(H)
    varied = problem.varied(to_host(namespace_of(G).linalg.diagonal(G)))
    if not varied.any():
        return refit_folds(problem, alphas)
    G = G + like(problem.elsewhere.gram, H)
    moment = H.T @ like(C0, H) + like(problem.elsewhere.moment, H)
    if not varied.all():
        chosen = np.flatnonzero(varied)
        H, G = (copy_of(take_rows(A.T, chosen).T) for A in (H, take_rows(G, chosen)))
        moment = take_rows(moment, chosen)
    spectrum = Spectrum.of(G)
    # every fold taken out of the solution to all
    solution = Solution.of_features(spectrum, H, moment, alphas)
    alone = _scored_alone(graph, folds, up_to_constants=False)
    rows, every = like(problem.Z[np.ix_(alone, varied)], H), np.arange(len(alphas))
    scores, pivots = _leave_out_all(
        graph, folds, root, C0, alone, rows, len(alphas), lambda use: use(every, solution)
    )
    # folds that alone carry a direction of the features are refitted
    lost = pivots < SAFE_PIVOT
    pivot = np.where(lost, 1.0, pivots).min(axis=0)
    error = error_of_pivots(np.minimum(spectrum.rcond(alphas), pivot))
    if lost.any():
        which, out = np.flatnonzero(lost.any(axis=0)), folds.only(np.any(lost, axis=1))
        again = refit_folds(problem.leaving_out(out), alphas[which])
        refitted = np.flatnonzero(out.fold >= 0)
        scores[np.ix_(which, refitted)] = again.scores[:, refitted]
        error[which] = np.maximum(error[which], again.error)

    def solve(alpha: float) -> FloatArray:
        weights = np.zeros((len(varied), C0.shape[1]))
        weights[varied] = solution.at(1.0 / (spectrum.values + alpha))
        return weights

    return HeldOut(scores, error, solve)


# Kernels


def _leave_out_of_kernel(
    space: FunctionSpace,
    graph: PreferenceGraph,
    folds: Folds,
    alphas: FloatArray,
) -> HeldOut:
    """Take each fold out of the dual solution, in coordinates of the graph."""
    fold_of_components(graph, folds)
    alone = _scored_alone(graph, folds, up_to_constants=True)
    root = graph.laplacian.root()

    def reduced() -> tuple[System, Array]:
        K = space.kernel_matrix()
        of_alone = copy_of(take_rows(K, alone).T)
        rows = root.like(of_alone).to_coordinates(of_alone).T
        return System.dual(graph, K, trusted=space.kernel_is_trusted), rows

    system, rows = reduced()
    solutions = _Solutions.of(system, lambda: reduced()[0], memory_of(system.matrix), len(alphas))
    use = partial(solutions.use, alphas)
    scores, pivots = _leave_out_all(graph, folds, root, system.rhs, alone, rows, len(alphas), use)
    error = error_of_pivots(np.minimum(solutions.rcond(alphas), pivots.min(axis=0, initial=1.0)))
    return HeldOut(scores, error, lambda alpha: root.to_items(solutions.solve(alpha)))


@final
@dataclass(frozen=True, eq=False)
class _Solutions:
    """The solutions of a dual system for any alphas.

    One decomposition serves every alpha. For a few alphas, and where its work space would not fit
    on a device, alphas are factorised one after another, 2.25 matrices, and only those that cannot
    be use the decomposition.
    """

    C0: FloatArray
    decompose: Callable[[], Spectrum]
    """Returns the spectrum of S."""
    factor: Callable[[float], Array | None]
    """Returns the inverse of a factor of ``S + alpha``; None to use the decomposition."""
    rcond: Callable[[FloatArray], FloatArray]
    """Returns the reciprocal condition number for every alpha, or a bound of it."""
    known: dict[float, FloatArray] = field(default_factory=dict)
    """The weights of the coordinates for alphas that were factorised."""

    @classmethod
    def of(cls, system: System, again: Callable[[], System], n_bytes: int, n_alphas: int) -> Self:
        """Decompose a system, or prepare factors; ``again`` forms the same system anew."""
        S, needed = system.matrix, DECOMPOSED_MATRICES * 8 * len(system.rhs) ** 2
        fits = n_alphas > FEW_ALPHAS if is_on_host(S) else needed <= DECOMPOSED_SHARE * n_bytes
        if fits:
            known = system.spectrum()
            return cls(system.rhs, lambda: known, lambda _: None, known.rcond)
        largest = _largest_eigenvalue(lambda v: S @ v, S)
        of_inverse: dict[float, float] = {}

        def factor(alpha: float) -> Array | None:
            if alpha > LARGE_ALPHA * largest:
                return None
            A = copy_of(S)
            add_to_diagonal(A, alpha)
            C = cholesky_in_place(A)
            if C is None:
                return None
            inverse = invert_triangle(C)
            if is_on_host(S):  # how large the inverse is, which is 1 / alpha at most
                of_inverse[alpha] = _largest_eigenvalue(lambda v: inverse.T @ (inverse @ v), S)
            return inverse

        def rcond(alphas: FloatArray) -> FloatArray:
            sizes = np.array([of_inverse.get(a, 1.0 / a) for a in alphas.tolist()])
            return 1.0 / ((largest + alphas) * sizes)

        return cls(system.rhs, lambda: again().spectrum(), factor, rcond)

    def use(self, alphas: FloatArray, use: Callable[[IntArray, Solution], None]) -> None:
        """Form the solutions of alphas, one factor at a time, and use each with their numbers."""
        lost = []
        for a, alpha in enumerate(alphas.tolist()):
            factor = self.factor(alpha)
            if factor is None:
                lost.append(a)
                continue
            solution = Solution.factored(factor, self.C0)
            use(np.array([a]), solution)
            self.known[alpha] = solution.at(to_host(solution.weights)[:, 0])
            del factor, solution  # before the next one is formed
        if lost:
            which, solution = Solution.decomposed(self.decompose(), self.C0, alphas[lost])
            use(np.array(lost)[which], solution)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights of the coordinates for an alpha."""
        if alpha in self.known:
            return self.known[alpha]
        found: list[FloatArray] = []
        self.use(np.array([alpha]), lambda _, s: found.append(s.at(to_host(s.weights)[:, 0])))
        return found[0]


def _largest_eigenvalue(product: Callable[[Array], Array], S: Array) -> float:
    """Estimate the largest eigenvalue of a matrix from below, by products with vectors like S."""
    v = like(np.random.default_rng(0).normal(size=(S.shape[0], 1)), S)
    size = 0.0
    for _ in range(POWER_STEPS):
        v = product(v)
        size = float(namespace_of(v).sum(v * v)) ** 0.5
        if size == 0.0:
            return 0.0
        v = v / size
    return size


# Small systems


def blocks_of_weights(V: Array, weights: Array) -> Array:
    """Return ``V diag(w) V'`` for a stack of V and every column w of ``weights``.

    The shapes are (n_stack, n, rank), (rank, n_weights) and (n_stack, n_weights, n, n).
    """
    xp, (n_stack, n_rows, _) = namespace_of(V), V.shape
    if weights.shape[1] == 1:
        return ((V * weights[:, 0]) @ V.mT)[:, None, :, :]
    shape = (n_stack, weights.shape[1], n_rows, n_rows)
    blocks = xp.empty(shape, dtype=V.dtype, device=V.device)
    for i in range(n_rows):  # products with the rows before, times all weights at once
        products = ((V[:, i : i + 1, :] * V[:, : i + 1, :]) @ weights).mT
        blocks[:, :, i, : i + 1] = products
        blocks[:, :, : i + 1, i] = products
    return blocks


def solve_in_blocks(A: Array, B: Array) -> tuple[Array, Array]:
    """Solve stacks of symmetric definite systems, (..., n, n) and (..., n, k).

    A and B are contiguous, and may be overwritten.

    Returns
    -------
    X : (..., n, k)
    pivot : (...)
        Smallest pivot as a share of the largest diagonal entry; 0 if a matrix is not definite.
    """
    if A.shape[-1] == 0:
        return B, like(np.ones(A.shape[:-2]), A)
    if not is_on_host(A):
        return solve_definite(A, B)
    n_systems = math.prod(A.shape[:-2])
    X, pivot = _solve_stack(
        A.reshape(n_systems, *A.shape[-2:]), B.reshape(n_systems, *B.shape[-2:])
    )
    return X.reshape(B.shape), pivot.reshape(A.shape[:-2])


def _solve_stack(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
    pivot = np.ones(len(A))
    if A.shape[1] <= SMALL_BLOCK:
        solve_each(A, B, pivot)
        return B, pivot
    for a in range(len(A)):
        largest = np.diagonal(A[a]).max()
        factor, info = dpotrf(A[a].T, lower=True, clean=False, overwrite_a=True)
        if info != 0:
            pivot[a] = 0.0
            continue
        pivot[a] = np.diagonal(factor).min() ** 2 / largest
        B[a] = dpotrs(factor, B[a], lower=True)[0]
    return B, pivot
