"""Ranking factorisation: factors of users and items whose products rank the items of each user."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray, IntArray, Matrix, freeze, parts_of, starts_of, sum_by
from rankwise.core.threads import in_threads, n_threads
from rankwise.native.factorization import fit_users, rated_scores, visit_users
from rankwise.native.oracles import OracleRoom, OracleTargets
from rankwise.rankers.dorm.cutting_planes import PlaneSpace, Visit, make_planes, solve
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import OraclePlan, make_room, plan_assignments
from rankwise.solve.iteration import (
    CertifiedSolution,
    Ending,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    wants_to_stop,
)

HALF_STEP_TOL = 1e-2
"""The duality gap at which a half-step counts as solved, as a share of its objective."""

DEFAULT_RULE = StoppingRule(tol=1e-3, max_iter=50)
REMEDY = "Raise max_iter or tol, or lower C."

_MAX_VISITS = 500  # of a user in one half-step
_MAX_PLANES = 40  # of a user in one half-step
RATINGS_PER_PART = (5_000, 50_000)
"""Fewest and most ratings that a thread takes at a time; few, so that Ctrl-C is noticed soon."""


@final
class ItemFactorPlanes(PlaneSpace):
    """Factors V of items, which a user with factors u scores ``<u, V_i>``; a query is a user.

    Keeps the planes of each user when the factors of the users or the target change, since a plane
    is a ranking of the user's items.

    Parameters
    ----------
    items : (n_ratings,)
        The item of each rating, user by user.
    starts : (n_users + 1,)
        Where the ratings of each user begin.
    shape : (n_items, n_factors)
        Of V.
    """

    max_cached_passes = 5

    def __init__(self, items: IntArray, starts: IntArray, shape: tuple[int, int]) -> None:
        super().__init__(starts, np.diff(starts))
        self._items = items
        self._U = np.zeros((len(starts) - 1, shape[1]))
        self._V = np.zeros(shape)
        self._target = np.zeros(len(items))

    def retarget(self, U: FloatArray, target: FloatArray) -> None:
        """Take other factors of the users, and another target of each user."""
        # a plane is a ranking: beta shifts with the target, products scale with |U|^2, fac-gram
        planes, shift = self.planes, target - self._target
        squares = np.einsum("uk,uk->u", U, U)
        for u in np.flatnonzero(planes.counts > 1).tolist():
            first, size, count = planes.starts[u], planes.sizes[u], planes.counts[u]
            own = planes.vectors[first + size : first + count * size].reshape(count - 1, size)
            own += shift[self._starts[u] : self._starts[u + 1]]
            planes.grams[u, 1:count, 1:count] = squares[u] * (own @ own.T)
        self._U, self._target = U, target

    @property
    def point(self) -> FloatArray:
        """The factors of the items."""
        return self._V

    def work_of_visits(self) -> float:
        """Return about how many multiplications a pass over all users needs."""
        return 2.0 * len(self._items) * self._V.shape[1]

    def scores(self) -> FloatArray:
        """Return the scores of all rated items."""
        scores = np.empty(len(self._items))
        rated_scores(self._starts, self._items, self._U, self._V, scores)
        return scores

    def query_scores(self, q: int) -> FloatArray:
        """Return the scores of the items of one user."""
        rated = self._items[self._starts[q] : self._starts[q + 1]]
        scores: FloatArray = self._V[rated] @ self._U[q]
        return scores

    def overlap(self) -> tuple[float, float]:
        """Return the squared norm of the factors; there is no earlier function."""
        return float(np.sum(self._V**2)), 0.0

    def visit(self, targets: OracleTargets, room: OracleRoom, visit: Visit) -> float:
        """Visit users in turn, and return the sum of their gaps."""
        state = targets, room, self.planes, self._items, self._U
        return visit_users(*state, *visit, self._V)

    def refresh(self, targets: OracleTargets) -> None:
        """Compute the factors anew from the planes."""
        shape = len(self._U), len(self._V)
        coefficients = csr_array(
            (self._sums(targets.slack_weights), self._items, self._starts), shape=shape
        )
        self._V[:] = coefficients.T @ self._U


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """Score item i for user u with ``bias_i + <U_u, V_i>``.

    Parameters
    ----------
    U : (n_users, n_components)
    V : (n_items, n_components)
    bias : (n_items,)
        What all users agree on: a factor of the items with a constant 1 for every user.
    """

    U: FloatArray
    V: FloatArray
    bias: FloatArray

    @property
    def with_constant(self) -> FloatArray:
        """The factors of the users and the constant, (n_users, n_components + 1)."""
        return np.column_stack([self.U, np.ones(len(self.U))])

    @property
    def with_bias(self) -> FloatArray:
        """The factors of the items and their bias, (n_items, n_components + 1)."""
        return np.column_stack([self.V, self.bias])

    @property
    def penalty(self) -> float:
        """``1/2 |U|^2 + 1/2 |V|^2 + 1/2 |bias|^2``."""
        return 0.5 * float(np.sum(self.U**2) + np.sum(self.V**2) + np.sum(self.bias**2))

    def scaled(self, scale: float) -> "Factors":
        """Multiply all scores by a positive number."""
        root = np.sqrt(scale)
        return Factors(root * self.U, root * self.V, scale * self.bias)

    def balanced(self) -> "Factors":
        """Return the factors of least penalty among all factors with the same scores.

        With the singular value decomposition ``U V' = A S B'`` they are ``A S^1/2`` and
        ``B S^1/2``, in descending order of S; their penalty is the trace norm of ``U V'``.
        """
        # singular value decomposition of U V' from that of the product of triangular factors
        left, R = np.linalg.qr(self.U)
        right, T = np.linalg.qr(self.V)
        A, s, Bt = np.linalg.svd(R @ T.T, full_matrices=False)
        U, V = np.zeros_like(self.U), np.zeros_like(self.V)
        U[:, : len(s)] = left @ (A * np.sqrt(s))
        V[:, : len(s)] = right @ (Bt.T * np.sqrt(s))
        return Factors(U, V, self.bias)


@final
@dataclass(frozen=True, eq=False)
class Ratings:
    """Which items each user has rated, and what a ranking of them is worth.

    Parameters
    ----------
    plan : OraclePlan
        Gains, discounts and decay; a query for each user.
    items : (n_ratings,)
        The item of each rating, user by user.
    """

    plan: OraclePlan
    items: IntArray

    def scores(self, factors: Factors) -> FloatArray:
        """Return the scores of all rated items, user by user."""
        scores = np.empty(len(self.items))
        users, items = factors.with_constant, factors.with_bias
        rated_scores(self.plan.starts, self.items, users, items, scores)
        return scores

    def loss_towards(self, factors: Factors) -> RankingLoss:
        """Return the loss whose target is closest to the ranking of the factors."""
        return RankingLoss.from_gains(self.plan, self.scores(factors))

    def objective(self, factors: Factors, loss: RankingLoss, C: float) -> float:
        """Return C times the sum of all slacks, plus the penalty of the factors."""
        slacks = loss.slacks(self.scores(factors))
        return C * float(slacks.sum()) + factors.penalty  # [LS08] eq. (34), fac-objective

    def user_objectives(self, factors: Factors, loss: RankingLoss, C: float) -> FloatArray:
        """Return what each user adds to the objective."""
        slacks = loss.slacks(self.scores(factors))
        return C * slacks + 0.5 * np.einsum("uk,uk->u", factors.U, factors.U)

    def greatest_losses(self, loss: RankingLoss) -> float:
        """Return the sum of the users' greatest losses: all slacks of factors that are 0."""
        return float(loss.slacks(np.zeros(len(self.items))).sum())

    def every(self, step: int) -> "Ratings":
        """Return the ratings of every ``step``-th user."""
        sizes = np.diff(self.plan.starts)
        rows = np.flatnonzero(parts_of(self.plan.starts) % step == 0)
        starts = starts_of(sizes[::step])
        gains, discounts, decay = self.plan.gains, self.plan.discounts, self.plan.decay
        plan = plan_assignments(gains[rows], discounts[rows], decay[rows], starts)
        return Ratings(plan, self.items[rows])


@final
@dataclass(frozen=True, eq=False)
class Factorization:
    """Factors, and how they were reached.

    Parameters
    ----------
    factors : Factors
    loss : RankingLoss
        Whose target is closest to the ranking of the factors.
    objectives : (1 + n_half_steps,)
        At the start and after each half-step; they never increase.
    n_iter : int
        Number of sweeps begun.
    ending : Ending
        Why the run ended.
    """

    factors: Factors
    loss: RankingLoss
    objectives: FloatArray
    n_iter: int
    ending: Ending


def factorize(
    ratings: Ratings,
    C: float,
    start: Factors,
    rule: StoppingRule | None = None,
    on_step: StepCallback | None = None,
    rng: np.random.Generator | None = None,
    half_step_tol: float = HALF_STEP_TOL,
    ratings_per_part: tuple[int, int] = RATINGS_PER_PART,
) -> Factorization:
    """Minimise ``C * sum_u slack_u + 1/2 |U|^2 + 1/2 |V|^2 + 1/2 |bias|^2``.

    A sweep takes two half-steps: one over the factors of the users, each user separately, and one
    over the factors of the items. Both are convex and solved up to a duality gap. The factors found
    are balanced, which changes no score, and the target of every user is moved next to the current
    ranking where the loss leaves it open. A step that would raise the objective is rejected.
    Ctrl-C ends the run with what it has found.

    Parameters
    ----------
    ratings
        What to learn from.
    C
        The factor of the slacks.
    start
        Where to begin. Factors that are 0 stay 0.
    rule
        When to stop: an iteration is a sweep, its error the share by which it lowers the objective.
    on_step
        Gets a ``Step`` after each half-step, labelled "users" or "items"; stops the run by
        returning True.
    rng
        Draws the order in which the users are visited for the items.
    half_step_tol
        The duality gap at which a half-step counts as solved, as a share of its objective.
    ratings_per_part
        Fewest and most ratings that a thread takes at a time.

    Notes
    -----
    [LS08] Sect. 5.2, which has no bias: here every user has one more factor that is always 1.
    """
    rule, rng = rule or DEFAULT_RULE, rng or np.random.default_rng(0)
    reason: Reason = "max_iter"
    run = _Alternation(ratings, C, half_step_tol, start, ratings_per_part)
    objectives, step = [run.objective], Step(0, np.inf, run.objective)
    try:
        # half-steps until a sweep lowers the objective by less than tol
        for step in run.sweeps(rule.max_iter, rng):
            objectives.append(step.objective)
            stop = on_step is not None and wants_to_stop(on_step(step))
            if step.label == "items" and step.error <= rule.tol:
                reason = "converged"
            elif stop:
                reason = "callback"
            if reason != "max_iter":
                break
    except KeyboardInterrupt:
        reason = "interrupted"
        if run.objective < objectives[-1]:  # some users had moved
            objectives.append(run.objective)
    ending = rule.end(reason, step.iteration, step.error, REMEDY)
    values = freeze(np.array(objectives))
    return Factorization(run.factors, run.loss, values, step.iteration, ending)


def fold_in(
    ratings: Ratings,
    C: float,
    start: Factors,
    rule: StoppingRule | None = None,
    half_step_tol: float = HALF_STEP_TOL,
    ratings_per_part: tuple[int, int] = RATINGS_PER_PART,
) -> FloatArray:
    """Return the factors of users for factors of the items that stay as they are.

    Each user ends by itself, so that its factors do not depend on the others.

    Parameters
    ----------
    ratings, C, rule, half_step_tol, ratings_per_part
        As for ``factorize``.
    start
        The factors of the items, and factors of users whose ranking is the first target.
    """
    rule = rule or DEFAULT_RULE
    run = _Alternation(ratings, C, half_step_tol, start, ratings_per_part)
    # each user moves on for as long as its own objective falls
    before = ratings.user_objectives(run.factors, run.loss, C)
    falls = np.ones(len(before), dtype=bool)
    for _ in range(rule.max_iter):
        # half-step over the users, targets next to the new rankings
        found = run.factors.U.copy()
        run.improve_users(found)
        U = np.where(falls[:, None], found, run.factors.U)
        moved = Factors(U, start.V, start.bias)
        after = ratings.user_objectives(moved, ratings.loss_towards(moved), C)
        # a user whose objective rises keeps its factors
        U = np.where((after <= before)[:, None], U, run.factors.U)
        falls &= before - after > rule.tol * before
        run.take(Factors(U, start.V, start.bias))
        before = np.minimum(before, after)
        if not falls.any():
            break
    return run.factors.U


@final
@dataclass(eq=False)
class _Alternation:
    """The best factors so far, the targets next to their rankings, and ways to improve on them."""

    ratings: Ratings
    C: float
    half_step_tol: float
    factors: Factors
    ratings_per_part: tuple[int, int]

    def __post_init__(self) -> None:
        self.loss = self.ratings.loss_towards(self.factors)
        self.objective = self.ratings.objective(self.factors, self.loss, self.C)

    def sweeps(self, max_iter: int, rng: np.random.Generator) -> Iterator[Step]:
        """Move users and items in turn; yield after each half-step."""
        shape = self.factors.with_bias.shape
        space = ItemFactorPlanes(self.ratings.items, self.ratings.plan.starts, shape)
        for sweep in range(1, max_iter + 1):
            before = self.objective
            # half-step over the users, with the factors of the items fixed
            users = self.factors.U.copy()
            try:
                self.improve_users(users)
            finally:  # users that had moved before Ctrl-C keep what they gained
                self.offer(Factors(users, self.factors.V, self.factors.bias).balanced())
            yield Step(sweep, self.fall_from(before), self.objective, "users")
            # half-step over the items and their bias, with the factors of the users fixed
            solution = self.solve_for_items(space, rng)
            self.offer(self.moved_items(solution.point).balanced())
            yield Step(sweep, self.fall_from(before), self.objective, "items")
            if solution.ending.reason == "interrupted":
                raise KeyboardInterrupt

    def fall_from(self, before: float) -> float:
        """Return by which share the objective has fallen."""
        return (before - self.objective) / before if before > 0.0 else 0.0

    def improve_users(self, U: FloatArray) -> None:
        """Replace the factors of users by better ones, several users at a time."""
        targets, items = self.loss.targets(self.C), self.ratings.items
        # parts of consecutive users with about equally many ratings
        fewest, most = self.ratings_per_part
        n_parts = max(8 * n_threads(), len(items) // most)
        n_parts = max(1, min(n_parts, len(items) // fewest))
        edges = np.searchsorted(
            self.ratings.plan.starts, np.linspace(0, len(items), n_parts + 1)
        ).tolist()

        # every user of a part by cutting planes in its own factors
        def task(part: int) -> None:
            fit_users(
                targets,
                make_room(self.ratings.plan),
                make_planes(np.array([U.shape[1]]), _MAX_PLANES),
                items,
                self.factors.bias,
                self.factors.V,
                self.half_step_tol,
                _MAX_VISITS,
                edges[part],
                edges[part + 1],
                U,
            )

        in_threads(task, n_parts)

    def solve_for_items(
        self, space: ItemFactorPlanes, rng: np.random.Generator
    ) -> CertifiedSolution:
        """Find better factors of the items and their bias, all together."""
        space.retarget(self.factors.with_constant, self.loss.target)
        return solve(space, self.loss, self.C, StoppingRule(self.half_step_tol), rng=rng)

    def moved_items(self, point: FloatArray) -> Factors:
        """Return the factors with other factors of the items, and their bias in the last column."""
        return Factors(self.factors.U, point[:, :-1].copy(), point[:, -1].copy())

    def take(self, factors: Factors) -> None:
        """Take factors, and targets next to the rankings they give."""
        self.factors, self.loss = factors, self.ratings.loss_towards(factors)

    def offer(self, factors: Factors) -> None:
        """Take factors, and targets next to the rankings they give, unless the objective rises."""
        loss = self.ratings.loss_towards(factors)
        objective = self.ratings.objective(factors, loss, self.C)
        if objective <= self.objective:
            self.factors, self.loss, self.objective = factors, loss, objective


_POWER_ITERATIONS = 4
_OVERSAMPLING = 10
_SCALES = np.geomspace(0.0025, 9.0, 13)
_ENOUGH_RATINGS = 20_000  # to choose a scale by


def spectral_start(R: Matrix, n_components: int, rng: np.random.Generator) -> Factors:
    """Return factors from a truncated singular value decomposition of the ratings.

    The mean of each user and then that of each item are taken out, and what is left is divided by
    its standard deviation; items that were not rated count 0. The means of the items are the bias.

    Parameters
    ----------
    R : (n_users, n_items), CSR
        Stored entries are ratings, also zeros.
    n_components
        At most the number of users and that of items.
    rng
        Draws the subspace in which the decomposition begins.
    """
    users, items = parts_of(R.indptr), R.indices
    # take out the means of users, then of items
    centred = R.data - _means(users, R.data, R.shape[0])[users]
    centred /= np.linalg.norm(centred) / np.sqrt(max(1, len(centred))) or 1.0
    bias = _means(items, centred, R.shape[1])
    rest = csr_array((centred - bias[items], items, R.indptr), shape=R.shape)
    # the rest, 0 where there is no rating, gives the factors
    left, s, right = _leading_singular_vectors(rest, n_components, rng)
    U, V = (np.ascontiguousarray(vectors * np.sqrt(s)) for vectors in (left, right))
    return Factors(U, V, bias)


def start_of_choices(R: Matrix, n_components: int, rng: np.random.Generator) -> Factors:
    """Return factors from a truncated singular value decomposition of choices.

    What was not chosen counts 0, and nothing is taken out; the bias is the sum of each item as a
    share of the largest.
    """
    left, s, right = _leading_singular_vectors(R, n_components, rng)
    U, V = (np.ascontiguousarray(vectors * np.sqrt(s)) for vectors in (left, right))
    sums = sum_by(R.indices, R.data, R.shape[1])
    return Factors(U, V, 0.5 * sums / (sums.max(initial=0.0) or 1.0))


def best_scaled(ratings: Ratings, factors: Factors, C: float) -> Factors:
    """Return the multiple of the factors that has the least objective on a grid.

    The objective is convex in the scale of the bias and of the products, up to the penalty of the
    bias, which is convex too: of two neighbours the better one lies on the side of the least. Of
    many ratings those of some users decide, evenly spaced.
    """
    step = 1 + len(ratings.items) // _ENOUGH_RATINGS
    some = ratings if step == 1 else ratings.every(step)
    weight = C * len(factors.U) / len(factors.U[::step])
    # all multiples give the same ranking, and so the same target
    options = [factors.scaled(scale) for scale in _SCALES]
    loss = some.loss_towards(Factors(factors.U[::step], factors.V, factors.bias))

    @cache
    def objective(k: int) -> float:
        one = options[k]
        slacks = loss.slacks(some.scores(Factors(one.U[::step], one.V, one.bias)))
        return weight * float(slacks.sum()) + one.penalty

    # bisection: of two neighbours the better one lies on the side of the minimum
    low, high = 0, len(options) - 1
    while low < high:
        middle = (low + high) // 2
        if objective(middle) <= objective(middle + 1):
            high = middle
        else:
            low = middle + 1
    return options[low]


def onset_of_factors(ratings: Ratings, factors: Factors, rng: np.random.Generator) -> float:
    """Return the C up to which factors of users do not lower the objective at the given bias.

    With planes ``loss_u - <B_u, scores_u>`` that are highest at the bias, the slope of the
    objective in scores F around 0 is the trace norm of F less ``C <B, F>``, which can be negative
    from ``C = 1 / |B|`` on, with the spectral norm of B.
    """
    # the planes that attain the slacks at the bias alone, fac-onset
    agreed = Factors(np.zeros_like(factors.U), np.zeros_like(factors.V), factors.bias)
    beta, _ = ratings.loss_towards(agreed).cuts(ratings.scores(agreed))
    shape = len(factors.U), len(factors.V)
    B = csr_array((beta, ratings.items, ratings.plan.starts), shape=shape)
    largest = float(_leading_singular_vectors(B, 1, rng)[1][0])
    return 1.0 / largest if largest > 0.0 else 1.0


def _means(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    counts = np.bincount(index, minlength=length)
    return sum_by(index, values, length) / np.maximum(counts, 1)


def _leading_singular_vectors(
    A: Matrix, n_components: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return left vectors, values and right vectors, by iterating on a random subspace."""
    width = min(n_components + _OVERSAMPLING, *A.shape)
    Q = rng.normal(size=(A.shape[1], width))
    # subspace iteration with re-orthogonalisation
    for _ in range(_POWER_ITERATIONS):
        Q = np.linalg.qr(A.T @ np.linalg.qr(A @ Q)[0])[0]
    left, s, rotation = np.linalg.svd(A @ Q, full_matrices=False)
    return left[:, :n_components], s[:n_components], (Q @ rotation.T)[:, :n_components]
