"""Features that interact in who wins: boosted trees of both items, as a covariate of answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from rankwise.comparisons.gp.answers import GivenAnswers
from rankwise.comparisons.gp.inference.likelihood import Outcomes
from rankwise.comparisons.gp.learning import best_process
from rankwise.comparisons.gp.process import Process
from rankwise.comparisons.gp.terms import Effects
from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable
from rankwise.rankers.base import generator
from rankwise.rankers.trees.library import has_lightgbm
from rankwise.rankers.trees.pair_trees import PairTrees

if TYPE_CHECKING:
    from rankwise.comparisons.gp.preference_gp import PreferenceGP

NAME = "interactions"
"""What the covariate is called."""

FEWEST_ANSWERS = 200
"""Answers below which "auto" does not try trees, since a fifth of them would decide nothing."""

HELD_OUT = 0.2
"""Share of the answers that decide whether trees take part."""


@storable
@final
@dataclass(frozen=True, eq=False)
class Interactions:
    """Hold what was found out about features that interact.

    Parameters
    ----------
    trees : PairTrees or None
        The trees that take part; None if held-out answers are not clearly likelier by them.
    alone, together : float
        The log-loss of held-out answers by the process alone, and with trees; NaN if not tried.
    mean_lead : (n_items,) or None
        The mean lead of the items of the fit.
    """

    trees: PairTrees | None
    alone: float = float("nan")
    together: float = float("nan")
    mean_lead: FloatArray | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return whether trees take part, and the log-losses that decided, if any."""
        found: dict[str, Any] = {"take_part": self.trees is not None}
        if not np.isnan(self.alone):
            found |= {"log_loss_without": self.alone, "log_loss_with": self.together}
        return found

    def __str__(self) -> str:
        if np.isnan(self.alone):
            return "boosted trees of differences of features take part"
        losses = f"log-loss of held-out answers {self.alone:.3f} without, {self.together:.3f} with"
        part = "take no part" if self.trees is None else "take part"
        return f"boosted trees of differences of features {part}: {losses}"


def found_interactions(
    given: PreferenceGP, X: FloatArray, answers: GivenAnswers, *, has_features: bool
) -> tuple[Interactions | None, GivenAnswers]:
    """Return what trees of pairs find, and the answers with their leads as a covariate.

    The lead of each answer comes from trees that have not seen it, so that the process learns how
    far to believe them. With "auto" a fifth of the answers decide whether they take part.
    """
    reason = _reason_against(given, answers, has_features=has_features)
    if given.interactions is True and reason is not None:
        raise InvalidInputError(f"`interactions` must come with {reason}.")
    pairs, tied, weight = _columns_of(given, answers, len(X))
    if given.interactions == "auto" and (
        reason is not None or len(pairs) < FEWEST_ANSWERS or not has_lightgbm()
    ):
        return None, answers
    rng, losses = generator(given.random_state), (float("nan"), float("nan"))
    if given.interactions == "auto":
        losses = _held_out_losses(given, X, answers, rng)
        if not losses[1] < losses[0]:
            return Interactions(None, *losses), answers
    trees, lead = PairTrees.grown(X, pairs, tied, weight, rng)
    return Interactions(trees, *losses, trees.mean_lead(X)), with_lead(answers, lead)


def with_lead(answers: GivenAnswers, lead: FloatArray) -> GivenAnswers:
    """Add the leads that trees see to the covariates, as the last one."""
    covariates = answers.covariates if answers.effects else np.zeros((len(lead), 0))
    return replace(
        answers,
        effects=(*answers.effects, NAME),
        covariates=np.column_stack([covariates, lead]),
        usual=(*answers.usual, 0.0),
    )


def _reason_against(
    given: PreferenceGP, answers: GivenAnswers, *, has_features: bool
) -> str | None:
    """Return what trees of pairs need and is not given."""
    if answers.pairs is None:
        return "comparisons (`pairs`): got scores. Use `BoostedRanker` for scores"
    if not has_features:
        return "items that have features: got names alone. Leave it out"
    if given.likelihood == "gaussian":
        return "answers that say who won: got likelihood='gaussian'. Choose another likelihood"
    others = {"tastes": given.tastes, "drift": given.drift, "intransitive": given.intransitive}
    asked = [name for name, is_given in others.items() if is_given]
    if asked:
        return f"one order that does not change: got {', '.join(asked)}. Leave one of them out"
    return None


def _columns_of(
    given: PreferenceGP, answers: GivenAnswers, n_items: int
) -> tuple[IntArray, BoolArray, FloatArray]:
    """Return the pairs, which of them are ties, and their weights."""
    if answers.pairs is None:
        return np.zeros((0, 2), dtype=np.intp), np.zeros(0, dtype=bool), np.zeros(0)
    table = answers.table(answers.data(n_items), given.likelihood)
    return table.pairs, table.tied, table.weight


def _held_out_losses(
    given: PreferenceGP, X: FloatArray, answers: GivenAnswers, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the log-loss of held-out answers by the process alone, and with trees."""
    pairs, tied, weight = _columns_of(given, answers, len(X))
    out = rng.permutation(len(pairs)) < HELD_OUT * len(pairs)
    if tied[~out].all():
        return float("nan"), float("nan")
    seen, new = (_part(answers, pairs, tied, weight, rows) for rows in (~out, out))
    trees, lead = PairTrees.grown(X, pairs[~out], tied[~out], weight[~out], rng)
    new_lead = trees.lead(*(X[ends] for ends in pairs[out].T))
    losses = []
    for learnt, asked in ((seen, new), (with_lead(seen, lead), with_lead(new, new_lead))):
        process = best_process(given, X, learnt.data(len(X)), learnt, None, has_features=True)
        losses.append(_losses(process, asked, pairs[out], tied[out]))
    share = weight[out] / weight[out].sum()
    return float(share @ losses[0]), float(share @ losses[1])


def _part(
    answers: GivenAnswers, pairs: IntArray, tied: BoolArray, weight: FloatArray, rows: BoolArray
) -> GivenAnswers:
    """Keep some of the answers, in their order: those with a winner, then ties."""
    won, undecided = rows & ~tied, rows & tied
    has_ties = bool(undecided.any())
    order = np.append(np.flatnonzero(won), np.flatnonzero(undecided))

    def kept(column: Any) -> Any:
        return None if column is None else column[order]

    covariates = answers.covariates[order] if answers.effects else answers.covariates
    return replace(
        answers,
        pairs=pairs[won],
        tied=pairs[undecided] if has_ties else None,
        pair_weight=weight[won],
        tied_weight=weight[undecided] if has_ties else None,
        pair_margin=None,
        judge=kept(answers.judge),
        date=kept(answers.date),
        covariates=covariates,
    )


def _losses(process: Process, asked: GivenAnswers, pairs: IntArray, tied: BoolArray) -> FloatArray:
    """Return the log-loss of each answer, which the process has not seen."""
    model = process.model
    first, second = (model.rows_at(ends) for ends in pairs.T)
    if asked.effects:
        first[:, model.columns(Effects)] = asked.covariates
    who = np.zeros(len(pairs), dtype=np.intp) if asked.judge is None else asked.judge
    mean, variance = process.difference(first, second)
    found = model.likelihood.answer_probabilities(mean, variance, Outcomes(judge=who))
    if found.ndim == 2:
        found = np.where(tied, found[:, 1], found[:, 0])
    else:  # no ties were seen: those held out say nothing
        found = np.where(tied, 1.0, found)
    return np.asarray(-np.log(np.maximum(found, 1e-12)))
