"""A decay that is learned: the mixture of eight decays that lowers the bound of DORM most.

[LS08] Sect. 4.1 leaves this to kernel optimisation. The result is a decay to give to `DORM`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import NDArray

from experiments.letor_data import Part
from rankwise import Linear, Queries
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import function_space
from rankwise.rankers.dorm.cutting_planes import solve
from rankwise.rankers.dorm.losses import RankingLoss, decay_of
from rankwise.rankers.dorm.oracles.assignment import plan_assignments, planes_at
from rankwise.rankers.dorm.problem import LossOptions, RankingProblem
from rankwise.solve.iteration import StoppingRule

DECAYS: tuple[float | str, ...] = (0.25, 1 / 3, 0.5, 1.0, 2.0, 3.0, "log", "loglog")
"""The decays of [LS08] Sect. 6.3."""

FIRST = 2
"""The number of the decay that learning begins with."""

ROUNDS, MIXTURES = 3, 30
"""How often function and decay are improved in turn; mixtures of decays tried in a round."""

LEARNING_C = 10.0
"""The C of these fits, in units of the C from which on slacks matter more than the norm."""

LossOf = Callable[[NDArray], RankingLoss]


def learned_decay(part: Part) -> tuple[float, ...]:
    """Improve ranking function for NDCG and decay in turn: neither step raises the objective.

    The decays are scaled to fall from 1 to 0 over the longest query, so that none can win by its
    scale.
    """
    data = TrainingData.of(len(part.y), part.y, part.qid)
    space = function_space(part.X, Linear(), None, np.random.default_rng(0))
    options = LossOptions.of(len(part.y), "NDCG", DECAYS[FIRST])
    problem = RankingProblem.of(data, space, options)
    loss, queries = problem.loss, problem.queries

    def loss_of(c: NDArray) -> RankingLoss:
        plan = plan_assignments(loss.plan.gains, loss.plan.discounts, c, queries.starts)
        return RankingLoss.from_gains(plan, problem.preliminary, loss.weights)

    family = np.stack([falling_by_one(decay, queries) for decay in DECAYS])
    targets = np.stack([loss_of(c).target for c in family])
    mixture = np.eye(len(DECAYS))[FIRST]
    C = LEARNING_C * replace(problem, loss=loss_of(mixture @ family)).unit_of_c
    rule = StoppingRule(tol=1e-2, max_iter=200)
    for _ in range(ROUNDS):
        solution = solve(problem.plane_space(), loss_of(mixture @ family), C, rule)
        scores = space.features(problem.rows) @ solution.point
        mixture = best_mixture(mixture, family, targets, scores, loss_of)
    longest = int(np.argmax(queries.sizes))
    rows = slice(queries.starts[longest], queries.starts[longest + 1])
    return tuple((mixture @ family)[rows].tolist())


def falling_by_one(decay: float | str, queries: Queries) -> NDArray:
    """Return c of each position, moved and scaled to fall from 1 to 0 over the longest query."""
    c = decay_of(decay, queries)
    return (c - c.min()) / np.ptp(c)


def best_mixture(
    mixture: NDArray, family: NDArray, targets: NDArray, scores: NDArray, loss_of: LossOf
) -> NDArray:
    """Return the mixture of decays of the least slacks at fixed scores.

    The slacks are convex and piecewise linear in the mixture. Every mixture tried gives a plane
    below them, and the next one to try is the lowest point of all planes.
    """
    planes: list[NDArray] = []
    n_decays = len(family)
    best, least = mixture, np.inf
    for _ in range(MIXTURES):
        # the plane of this mixture: the rankings of the greatest score plus loss
        loss = loss_of(mixture @ family)
        positions, _, losses = planes_at(loss.plan, loss.targets(1.0), scores)
        sizes = np.diff(loss.plan.starts)
        at = positions + np.repeat(loss.plan.starts[:-1], sizes)
        slope = (family[:, at] - targets) @ (np.repeat(loss.weights, sizes) * scores)
        value = float(loss.weights @ losses + slope @ mixture)
        if value < least:
            best, least = mixture, value
        planes.append(np.append(slope, float(loss.weights @ losses)))
        # the lowest point of all planes
        found = scipy.optimize.linprog(
            np.append(np.zeros(n_decays), 1.0),
            A_ub=np.array([np.append(plane[:-1], -1.0) for plane in planes]),
            b_ub=[-plane[-1] for plane in planes],
            A_eq=[[*np.ones(n_decays), 0.0]],
            b_eq=[1.0],
            bounds=[(0.0, None)] * n_decays + [(None, None)],
        )
        if least - found.fun <= 1e-3 * abs(least):
            break
        mixture = np.maximum(found.x[:-1], 0.0) / np.maximum(found.x[:-1], 0.0).sum()
    return best
