"""Ranking factorisation: factors of users and items whose products rank the items of each user."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.threads import in_threads, n_threads
from rankwise.inference import _factorization_kernels as kernels
from rankwise.inference._assignment_kernels import Plan
from rankwise.inference._interrupts import deferred_interrupts
from rankwise.inference.factorization_space import ItemFactorSpace
from rankwise.inference.structured import Rule as SolverRule
from rankwise.inference.structured import solve
from rankwise.inference.structured_losses import RankingLoss

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
