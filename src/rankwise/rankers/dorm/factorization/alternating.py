"""Ranking factorisation: factors of users and items whose products rank the items of each user."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray, IntArray, Matrix, freeze, sum_by
from rankwise.core.threads import in_threads, n_threads
from rankwise.rankers.dorm.cutting_planes import Rule as SolverRule
from rankwise.rankers.dorm.cutting_planes import solve
from rankwise.rankers.dorm.factorization import _kernels as kernels
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.plans import Plan, Scratch
from rankwise.rankers.dorm.planes import Aims
from rankwise.rankers.dorm.spaces import Space
from rankwise.solve.iteration import deferred_interrupts


@final
class ItemFactorSpace(Space):
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

    max_cached = 5

    def __init__(self, items: IntArray, starts: IntArray, shape: tuple[int, int]) -> None:
        super().__init__(starts, np.diff(starts))
        self._items = items
        self._U = np.zeros((len(starts) - 1, shape[1]))
        self._V = np.zeros(shape)
        self._target = np.zeros(len(items))

    def aim(self, U: FloatArray, target: FloatArray) -> None:
        """Take other factors of the users, and another ranking of each user to aim at."""
        squares = np.einsum("uk,uk->u", U, U)
        kernels.move_planes(self._starts, self.planes, target - self._target, squares)
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
        kernels.rated_scores(self._starts, self._items, self._U, self._V, scores)
        return scores

    def query_scores(self, q: int) -> FloatArray:
        """Return the scores of the items of one user."""
        rated = self._items[self._starts[q] : self._starts[q + 1]]
        scores: FloatArray = self._V[rated] @ self._U[q]
        return scores

    def overlap(self) -> tuple[float, float]:
        """Return the squared norm of the factors; there is no base."""
        return float(np.sum(self._V**2)), 0.0

    def visit(self, aims: Aims, scratch: Scratch, queries: IntArray) -> float:
        """Visit users in turn with the oracle; return the sum of their gaps."""
        state = self._items, self._U, self.planes, scratch
        gap: float = kernels.visit(aims, *state, queries, self._V)
        return gap

    def visit_given(self, aims: Aims, q: int, beta: FloatArray, loss: float) -> float:
        """Visit one user with a plane found elsewhere."""
        state = self._items, self._U, self.planes
        gap: float = kernels.visit_given(aims, *state, q, beta, loss, self._V)
        return gap

    def revisit(self, aims: Aims, queries: IntArray) -> float:
        """Visit users in turn with the planes they have; return the gaps these show."""
        state = self._items, self._U, self.planes
        gap: float = kernels.revisit(aims, *state, queries, self._V)
        return gap

    def refresh(self, aims: Aims) -> None:
        """Compute the factors anew from the planes."""
        self._V[:] = 0.0
        kernels.sum_planes(aims, self._items, self._U, self.planes, self._V)


Half: TypeAlias = Literal["users", "items"]
Ending: TypeAlias = Literal["converged", "max_sweeps", "callback", "interrupted"]

_MAX_VISITS = 500  # of a user in one half-step
_RATINGS_PER_PART = 5_000  # of the work that threads share


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
        """Return the factors of least penalty among those with the same scores.

        With the singular value decomposition ``U V' = A S B'`` they are ``A S^1/2`` and
        ``B S^1/2``, in descending order of S; their penalty is the trace norm of ``U V'``.
        """
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
    plan : Plan
        Gains, discounts and decay; a query for each user.
    items : (n_ratings,)
        The item of each rating, user by user.
    """

    plan: Plan
    items: IntArray

    def scores(self, factors: Factors) -> FloatArray:
        """Return the scores of all rated items, user by user."""
        scores = np.empty(len(self.items))
        users, items = factors.with_constant, factors.with_bias
        kernels.rated_scores(self.plan.starts, self.items, users, items, scores)
        return scores

    def aimed(self, factors: Factors) -> RankingLoss:
        """Return the loss that aims at the ranking without loss next to that of the factors."""
        return RankingLoss.from_gains(self.plan, self.scores(factors))

    def objective(self, factors: Factors, loss: RankingLoss, C: float) -> float:
        """Return C times the sum of all slacks, plus the penalty of the factors."""
        return C * float(loss.slacks(self.scores(factors)).sum()) + factors.penalty

    def greatest_losses(self) -> float:
        """Return the sum of the users' greatest losses: all slacks of factors that are 0."""
        nothing = np.zeros(len(self.items))
        return float(RankingLoss.from_gains(self.plan).slacks(nothing).sum())


@final
@dataclass(frozen=True)
class Rule:
    """When to stop.

    Parameters
    ----------
    tol : float
        A sweep that lowers the objective by a smaller share than this is the last.
    max_sweeps : int
        Number of sweeps over users and items at most.
    gap : float
        The duality gap at which a half-step counts as solved, as a share of its objective.
    """

    tol: float = 1e-3
    max_sweeps: int = 50
    gap: float = 1e-2


@final
@dataclass(frozen=True)
class Step:
    """Where a run stands after a half-step."""

    sweep: int
    half: Half
    objective: float


@final
@dataclass(frozen=True, eq=False)
class Factorization:
    """Factors, and how they were reached.

    Parameters
    ----------
    factors : Factors
    objectives : (1 + n_half_steps,)
        At the start and after each half-step; they never increase.
    n_sweeps : int
        Sweeps begun.
    ending : str
        Why the run ended.
    """

    factors: Factors
    objectives: FloatArray
    n_sweeps: int
    ending: Ending


def factorize(
    ratings: Ratings,
    C: float,
    start: Factors,
    rule: Rule | None = None,
    on_step: Callable[[Step], object] | None = None,
    rng: np.random.Generator | None = None,
) -> Factorization:
    """Minimise ``C * sum_u slack_u + 1/2 |U|^2 + 1/2 |V|^2 + 1/2 |bias|^2``.

    A sweep takes two half-steps: one over the factors of the users, each for itself, and one over
    those of the items. Both are convex and solved up to a duality gap. After each the factors are
    balanced, and the target of every user is moved next to the current ranking where the loss
    leaves it open. What would raise the objective is not kept. Ctrl-C ends the run with what it has
    found.

    Parameters
    ----------
    ratings
        What to learn from.
    C
        What multiplies the slacks.
    start
        Where to begin. Factors that are 0 stay 0.
    rule
        When to stop.
    on_step
        Gets the ``Step`` after each half-step; stops the run by returning True.
    rng
        Draws the order in which the users are visited for the items.

    Notes
    -----
    [LS08] Sect. 5.2, which has no bias: here every user has one more factor that is always 1.
    """
    run = _Run(ratings, C, rule or Rule(), start)
    objectives, sweep = [run.objective], 0
    with deferred_interrupts() as interrupts:
        for step in run.sweeps(rng or np.random.default_rng(0)):
            objectives.append(step.objective)
            sweep = step.sweep
            if interrupts.pending or run.ending == "interrupted":
                run.ending = "interrupted"
                break
            if on_step is not None and on_step(step):
                run.ending = "callback"
                break
    return Factorization(run.factors, freeze(np.array(objectives)), sweep, run.ending)


def fold_in(ratings: Ratings, C: float, start: Factors, rule: Rule | None = None) -> FloatArray:
    """Return the factors of users for factors of the items that stay as they are.

    Parameters
    ----------
    ratings, C, rule
        As for ``factorize``.
    start
        The factors of the items, and those of the users whose ranking is aimed at first.
    """
    run = _Run(ratings, C, rule or Rule(), start)
    for _ in range(run.rule.max_sweeps):
        before = run.objective
        run.move_users()
        if run.has_settled(before):
            break
    return run.factors.U


@final
@dataclass(eq=False)
class _Run:
    """The best factors so far, the rankings they aim at, and the ways to improve on them."""

    ratings: Ratings
    C: float
    rule: Rule
    factors: Factors
    ending: Ending = "max_sweeps"

    def __post_init__(self) -> None:
        self.loss = self.ratings.aimed(self.factors)
        self.objective = self.ratings.objective(self.factors, self.loss, self.C)

    def sweeps(self, rng: np.random.Generator) -> Iterator[Step]:
        """Move users and items in turn until that has settled; yield after each half-step."""
        shape = self.factors.with_bias.shape
        space = ItemFactorSpace(self.ratings.items, self.ratings.plan.starts, shape)
        for sweep in range(1, self.rule.max_sweeps + 1):
            before = self.objective
            self.move_users()
            self.balance()
            yield Step(sweep, "users", self.objective)
            self.move_items(space, rng)
            self.balance()
            if self.ending != "interrupted" and self.has_settled(before):
                self.ending = "converged"
            yield Step(sweep, "items", self.objective)
            if self.ending == "converged":
                return

    def has_settled(self, before: float) -> bool:
        """Tell whether the objective is almost what it was before."""
        return before - self.objective <= self.rule.tol * before

    def move_users(self) -> None:
        """Improve the factors of all users, several users at a time."""
        aims, items, starts = self.loss.aims(self.C), self.ratings.items, self.loss.plan.starts
        given, U = (items, self.factors.bias, self.factors.V), self.factors.U.copy()
        n_parts = max(1, min(8 * n_threads(), len(items) // _RATINGS_PER_PART))
        edges = np.searchsorted(starts, np.linspace(0, len(items), n_parts + 1)).tolist()

        def task(part: int) -> None:
            users = edges[part], edges[part + 1]
            kernels.fit_users(aims, *given, self.rule.gap, _MAX_VISITS, *users, U)

        in_threads(task, n_parts)
        self.offer(Factors(U, self.factors.V, self.factors.bias))

    def move_items(self, space: ItemFactorSpace, rng: np.random.Generator) -> None:
        """Improve the factors of the items and their bias, all together."""
        space.aim(self.factors.with_constant, self.loss.target)
        solution = solve(space, self.loss, self.C, SolverRule(self.rule.gap), rng=rng)
        if solution.ending == "interrupted":
            self.ending = "interrupted"
        V, bias = solution.point[:, :-1].copy(), solution.point[:, -1].copy()
        self.offer(Factors(self.factors.U, V, bias))

    def balance(self) -> None:
        """Lower the penalty without a change of the scores."""
        self.offer(self.factors.balanced())

    def offer(self, factors: Factors) -> None:
        """Take factors, and aim next to the rankings they give, unless the objective rises."""
        loss = self.ratings.aimed(factors)
        objective = self.ratings.objective(factors, loss, self.C)
        if objective <= self.objective:
            self.factors, self.loss, self.objective = factors, loss, objective


_POWER_ITERATIONS = 4
_OVERSAMPLING = 10
_SCALES = np.geomspace(0.0025, 9.0, 13)


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
    users, items = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr)), R.indices
    centred = R.data - _means(users, R.data, R.shape[0])[users]
    centred /= np.linalg.norm(centred) / np.sqrt(max(1, len(centred))) or 1.0
    bias = _means(items, centred, R.shape[1])
    rest = csr_array((centred - bias[items], items, R.indptr), shape=R.shape)
    left, s, right = _leading_singular_vectors(rest, n_components, rng)
    U, V = (np.ascontiguousarray(vectors * np.sqrt(s)) for vectors in (left, right))
    return Factors(U, V, bias)


def best_scaled(ratings: Ratings, factors: Factors, C: float) -> Factors:
    """Return the multiple of the factors that has the least objective on a grid."""
    options, loss = [factors.scaled(scale) for scale in _SCALES], ratings.aimed(factors)
    objectives = [ratings.objective(option, loss, C) for option in options]
    return options[int(np.argmin(objectives))]


def onset_of_factors(ratings: Ratings, factors: Factors, rng: np.random.Generator) -> float:
    """Return the C up to which factors of users do not pay, at the bias of the factors.

    With planes ``loss_u - <B_u, scores_u>`` that are highest at the bias, the slope of the
    objective in scores F around 0 is the trace norm of F less ``C <B, F>``, which can be negative
    from ``C = 1 / |B|`` on, with the spectral norm of B.
    """
    agreed = Factors(np.zeros_like(factors.U), np.zeros_like(factors.V), factors.bias)
    beta, _ = ratings.aimed(agreed).cuts(ratings.scores(agreed))
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
    for _ in range(_POWER_ITERATIONS):
        Q = np.linalg.qr(A.T @ np.linalg.qr(A @ Q)[0])[0]
    left, s, rotation = np.linalg.svd(A @ Q, full_matrices=False)
    return left[:, :n_components], s[:n_components], (Q @ rotation.T)[:, :n_components]
