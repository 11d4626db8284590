"""What RankSVM learns from, and what happens beside its solver: progress and warnings."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, final, get_args

import numpy as np

from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.graph import PreferenceGraph, QueryWeight, weighted_levels
from rankwise.core.validation import (
    check_choice,
    check_pairs,
    check_positive,
    check_scores,
    check_weight,
)
from rankwise.estimators._linear_settings import check_count
from rankwise.estimators._preferences import Given
from rankwise.inference.hinge import HingeSolution, Rule, Step
from rankwise.inference.hinge_pairs import HingeCost, LevelPairs, ListedPairs, PairSet

StepCallback: TypeAlias = Callable[[Step], object]


@final
@dataclass(frozen=True, eq=False)
class Oriented:
    """The preferences given to ``fit``: their graph, and the pairs with winner and margin."""

    graph: PreferenceGraph
    pairs: PairSet

    @classmethod
    def of(cls, given: Given, n_items: int, cost: HingeCost, query_weight: QueryWeight) -> Self:
        """Check what was given and build both."""
        check_choice("cost", cost, get_args(HingeCost))
        if given.y is None:
            graph = PreferenceGraph.from_pairs(
                given.pairs, given.pair_margin, given.pair_weight, n_items
            )
            return cls(graph, _listed(given, n_items))
        y = check_scores(given.y)
        if y.ndim != 1:
            raise InvalidInputError(
                f"`y` must have shape (n_items,): got {y.shape}. Fit one RankSVM per output."
            )
        options: dict[str, Any] = {"cost": cost, "ties": "drop", "query_weight": query_weight}
        graph = given.preferences(n_items, **options).first
        levels, omega = weighted_levels(
            y, given.qid, query_weight, given.sample_weight, keep_ties=False
        )
        return cls(graph, LevelPairs.of(levels, omega, y, cost))


def _listed(given: Given, n_items: int) -> ListedPairs:
    pairs = check_pairs(given.pairs, n_items)
    weight = check_weight("pair_weight", given.pair_weight, len(pairs), "pair")
    one = np.ones(len(pairs))
    margin = one if given.pair_margin is None else np.asarray(given.pair_margin, dtype=float)
    return ListedPairs.of(pairs, margin, weight, n_items)


def check_rule(tol: object, max_iter: object) -> Rule:
    """Return when to stop."""
    share = check_positive("tol", tol, "It is the duality gap, as a share of the objective.")
    return Rule(share, check_count("max_iter", max_iter))


def describe(step: Step) -> str:
    """Return the number of the step, the objective and the gap in words."""
    return f"step {step.iteration}  objective {step.objective:.6g}  gap {step.gap:.1e}"


def warn_unless_converged(solution: HingeSolution, rule: Rule) -> None:
    """Say why a run ended before its gap was small enough."""
    if solution.ending in ("converged", "callback"):
        return
    reached = f"the relative gap is {solution.gap:.1e}, tol is {rule.tol:.1e}"
    reasons = {
        "interrupted": f"Stopped by Ctrl-C after {solution.n_iter} steps; the best so far is kept: "
        f"{reached}.",
        "max_iter": f"Not converged after max_iter={rule.max_iter} steps: {reached}. Raise "
        "max_iter or tol, lower C, or scale the features.",
        "precision": f"Not converged: rounding errors end the descent after {solution.n_iter} "
        f"steps; {reached}. Raise tol, lower C, or scale the features.",
    }
    warnings.warn(reasons[solution.ending], ConvergenceWarning, stacklevel=4)
