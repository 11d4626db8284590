"""How a process is learned: its terms, their most probable parameters, and what decides on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import softmax
from sklearn.gaussian_process.kernels import Kernel as SklearnBase

from rankwise.comparisons.gp.answers import (
    AnswerTable,
    DistinctItems,
    GivenAnswers,
    ShownItems,
    choose_likelihood,
    names_after,
    scored_answers,
)
from rankwise.comparisons.gp.evidence import (
    SiteParameters,
    most_probable,
)
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.likelihood import Likelihood
from rankwise.comparisons.gp.judges import ByJudge, learnt_judges
from rankwise.comparisons.gp.persons import PersonTraits
from rankwise.comparisons.gp.process import Model, Process
from rankwise.comparisons.gp.terms import (
    Circles,
    Drift,
    Effects,
    Scores,
    Tastes,
    Term,
    Traits,
)
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.features.covariances import (
    ITEM_EFFECT_MEDIAN,
    Hyperprior,
    ParametricKernel,
    Scaled,
    SklearnKernel,
    SquaredExponential,
)
from rankwise.features.function_space import choose_basis
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.rankers.base import generator

if TYPE_CHECKING:
    from rankwise.comparisons.gp.preference_gp import PreferenceGP

MAX_SEARCHED = 400
"""Items up to which parameters are searched for with all of them."""

N_SEARCH_ROWS = 150
"""Rows through which the kernel is approximated in the search where there are more."""

EFFECT_SHARE = 1.0 / 3.0
"""Prior deviation of what a usual value of a covariate is worth, as a share of the scores'."""

JUDGE_ROUNDS, JUDGE_STEPS, JUDGE_TOL = 6, 20, 0.02
"""How often judges and other parameters are learned in turn at most, steps of the search for the
latter, and the change of judges' logarithms below which they have converged."""

CYCLE_EVIDENCE = 2.0
"""By how much the logarithm of the evidence must rise for cycles to be believed in."""

MAX_DATED, MIN_DATES = 600, 3
"""Items, each counted at every date, up to which dates are kept apart; and the fewest dates that
this may leave: otherwise the busiest items determine the parameters, and more rows are allowed."""

MAX_DRIFTING = 2500
"""Items whose scores can change with time."""

MAX_OWN = 5000
"""Items up to which a posterior through a basis keeps the item effect of every item."""

AMPLITUDE_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the amplitude over which certainty is averaged."""

CAUTIOUS_SHARE = 0.2
"""Usual deviation of scores that are close to the noise, as a share of that of other scores. It is
that of items known by name alone, as in a leaderboard: few answers cannot tell their scores from
noise. And it counts where certainty is stated: questions that end once an order seems certain must
be right where scores are close, too, and chosen questions hardly tell whether they are."""

GivenKernel: TypeAlias = str | Kernel | SklearnBase | Callable[[Any, Any], Any] | None


def choose_kernel(kernel: GivenKernel, amplitude: float) -> ParametricKernel:
    """Return the given kernel, or the default one of this amplitude."""
    if kernel is None:
        return SquaredExponential(amplitude, "per_feature", ITEM_EFFECT_MEDIAN)
    if isinstance(kernel, SklearnBase):
        return SklearnKernel(kernel)
    known = as_kernel(kernel)
    if not known.is_function:
        raise InvalidInputError(
            "`kernel` must be a function of rows, since prediction needs the variance of new "
            "items: a precomputed kernel has none."
        )
    return known if isinstance(known, ParametricKernel) else Scaled(known)


def best_process(
    given: PreferenceGP,
    X: FloatArray,
    data: TrainingData,
    answers: GivenAnswers,
    persons: PersonTraits | None,
    *,
    has_features: bool,
) -> Process:
    """Learn from checked rows and answers, and return what the evidence supports."""
    rng = generator(given.random_state)
    is_merged = merges_equal_rows(given, is_scored=data.is_scored)
    items = DistinctItems.of(X) if is_merged else DistinctItems.apart(X)
    if data.is_scored:
        how: dict[str, Any] = {"ties": given.ties, "likelihood": given.likelihood}
        table = scored_answers(data, max_pairs=given.max_pairs, rng=rng, **how)
    else:
        table = answers.table(data, given.likelihood)
    judges = answers.judges if persons is None else names_after(answers.judges, persons.names)
    # the items in every context, and the terms with their starting values
    when = _time_of(table) if given.drift else None
    plain = (0.0,) * len(answers.effects)
    busiest = None
    if when is not None:
        plain = (when[0], *plain)
        table, busiest = _dated(table)
    alone = ShownItems.plain(len(X), plain)
    in_context, comparisons = table.shown_as(alone, items)
    part = None if busiest is None else busiest.shown_as(alone, items)
    likelihood = starting_likelihood(given, comparisons)
    rows = items.rows(data.weight)
    kernel = given.kernel if has_features or given.kernel is not None else "linear"
    amplitude = comparisons.margin_scale if given.likelihood == "gaussian" else 1.0
    own = choose_kernel(kernel, amplitude).fitted_to(rows)
    terms: list[Term] = [Scores(own) if when is None else Drift.over(own, *when)]
    if answers.effects:
        usual = EFFECT_SHARE * likelihood.score_deviation(comparisons.margin_scale)
        terms.append(Effects.of(answers, usual))
    if persons is not None and judges is not None:
        terms.append(Traits(own, persons, persons.of_names(judges.tolist())))
    if given.tastes:
        terms.append(Tastes(own))
    basis = None if given.basis is None else choose_basis(given.basis, X, rng)
    model = Model(
        X, items.copies(), in_context, tuple(terms), likelihood, basis, given.method, given.device
    )
    # the candidates: without circles, with them, or both
    circular = replace(model, terms=(*model.terms, Circles(own)))
    tried = {"auto": [model, circular], True: [circular], False: [model]}[given.intransitive]
    n_judges = 0 if judges is None or given.tastes else len(judges)
    data_of = comparisons, part, rows, n_judges
    best, *others = [_learned(given, one, *data_of, rng) for one in tried]
    for other in others:
        if other.posterior.log_evidence >= best.posterior.log_evidence + CYCLE_EVIDENCE:
            best = other
    return best


def merges_equal_rows(given: PreferenceGP, *, is_scored: bool) -> bool:
    """Return whether rows with equal features are one item."""
    return (given.equal_rows or ("merged" if is_scored else "apart")) == "merged"


def _time_of(table: AnswerTable) -> tuple[float, float]:
    """Return the last date, and the days between the first and the last."""
    if table.date is None:
        raise InvalidInputError(
            "`drift` must come with comparisons that have dates: got none. Give `date`, name "
            "the column of the dates, or leave `drift` out."
        )
    return float(table.date.max()), float(np.ptp(table.date)) or 1.0


def _dated(table: AnswerTable) -> tuple[AnswerTable, AnswerTable | None]:
    """Round dates; where that leaves too few, return what parameters are found with too."""
    rounded = table.rounded(MAX_DATED)
    n_dates = [len(np.unique(one.date)) for one in (rounded, table) if one.date is not None]
    if n_dates[0] >= min(MIN_DATES, n_dates[1]):
        return rounded, None
    n_items = len(np.unique(table.pairs))
    if n_items > MAX_DRIFTING:
        raise InvalidInputError(
            f"`drift` must come with at most {MAX_DRIFTING:,} items that were compared: got "
            f"{n_items:,}. Leave out those with few answers, or use `leaderboard` with "
            "`half_life`."
        )
    most = max(MAX_DATED, min(MIN_DATES * n_items, 2000), 2 * n_items)
    return table.rounded(most), table.busiest(MAX_DATED)


def starting_likelihood(given: PreferenceGP, comparisons: Comparisons) -> Likelihood:
    """Return the likelihood with its starting values."""
    values = given.noise, given.flip_rate, given.tie_width
    return choose_likelihood(given.likelihood, comparisons, *values)


def _learned(
    given: PreferenceGP,
    model: Model,
    comparisons: Comparisons,
    part: tuple[ShownItems, Comparisons] | None,
    rows: FloatArray,
    n_judges: int,
    rng: np.random.Generator,
) -> Process:
    """Find the parameters, with a part of the answers if one is given, and the posterior.

    The scale of the features is that of ``rows``.
    """
    basis, sites = model.basis, None
    if basis is None:
        model = replace(model, basis=_search_basis(given, model, comparisons))
    numbered = model.alone(model.numbered(rows))
    if given.optimize:
        in_context, some = part or (model.shown, comparisons)
        found, sites = _with_most_probable(
            given, replace(model, shown=in_context), some, numbered, rng, n_starts=given.n_starts
        )
        model, sites = replace(found, shown=model.shown), None if part else sites
    if n_judges and part is not None:
        judges = ByJudge.alike(model.likelihood, n_judges)
        inference = model.inference(comparisons)[0]
        judges, sites = learnt_judges(inference, model.covariance, judges, sites)
        model = replace(model, likelihood=judges)
    elif n_judges:
        judges = ByJudge.alike(model.likelihood, n_judges)
        model, sites = _learn_judges(given, model, judges, comparisons, numbered, rng, sites)
    has_own = model.kernel.own_variance > 0.0 and len(comparisons.items) <= MAX_OWN
    model = replace(model, basis=None if has_own else basis)
    return model.given(comparisons, sites)


def _with_most_probable(
    given: PreferenceGP,
    model: Model,
    comparisons: Comparisons,
    rows: FloatArray,
    rng: np.random.Generator,
    **how: Any,
) -> tuple[Model, SiteParameters | None]:
    """Return the model with its most probable parameters, and sites close to its own."""
    kernel, likelihood, sites = most_probable(
        model.inference(comparisons)[0],
        model.covariance,
        model.likelihood,
        rows,
        rng,
        bounds=given.bounds,
        hyperprior=given.hyperprior,
        spread=CAUTIOUS_SHARE if model.is_by_name else 1.0,
        **how,
    )
    return replace(model.with_theta(kernel.theta), likelihood=likelihood), sites


def _learn_judges(
    given: PreferenceGP,
    model: Model,
    judges: ByJudge,
    comparisons: Comparisons,
    rows: FloatArray,
    rng: np.random.Generator,
    sites: SiteParameters | None,
) -> tuple[Model, SiteParameters | None]:
    """Learn about judges and find the other parameters in turn."""
    inference, _ = model.inference(comparisons)
    for _ in range(JUDGE_ROUNDS if given.optimize else 0):
        better, sites = learnt_judges(inference, model.covariance, judges, sites)
        model = replace(model, likelihood=better)
        how = {"max_steps": JUDGE_STEPS, "sites": sites}
        model, sites = _with_most_probable(given, model, comparisons, rows, rng, **how)
        error = judges.distance(better)
        judges = better.replace(**model.likelihood.parameters)
        if error < JUDGE_TOL:
            break
    return replace(model, likelihood=judges), sites


def _search_basis(given: PreferenceGP, model: Model, comparisons: Comparisons) -> FloatArray | None:
    """Return basis rows for the search for parameters, if there are many items."""
    if len(comparisons.items) <= MAX_SEARCHED or not given.optimize:
        return None
    depends_on_distance = any(name.endswith("length_scale") for name in model.kernel.names)
    is_whole = any(isinstance(term, Drift | Tastes | Circles) for term in model.terms)
    if is_whole or not depends_on_distance:
        return None
    items = np.unique(model.shown.item[comparisons.items])
    n_rows = min(N_SEARCH_ROWS, len(items))
    return model.X[items[np.linspace(0, len(items) - 1, n_rows).astype(np.intp)]]


def with_amplitudes(given: PreferenceGP, process: Process) -> tuple[list[Process], FloatArray]:
    """Return the process with several amplitudes, and their probabilities.

    Amplitudes for which the sites do not converge are left out.
    """
    members = []
    model, kernel = process.model, process.model.kernel
    is_amplitude = np.array([name.endswith("amplitude") for name in kernel.names])
    if not is_amplitude.any():
        return [process], np.ones(1)
    items = np.unique(model.shown.item[process.comparisons.items])
    deviation = model.likelihood.score_deviation(process.comparisons.margin_scale)
    prior = Hyperprior.flat(len(kernel.theta))
    if given.hyperprior is not None:
        prior = kernel.hyperprior_on(model.X[items], CAUTIOUS_SHARE * deviation)
    evidence = []
    for factor in AMPLITUDE_FACTORS:
        theta = kernel.theta + np.log(factor) * is_amplitude
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            member = process if factor == 1.0 else process.under(model.with_kernel(theta))
        if factor == 1.0 or member.posterior.ending.converged:
            members.append(member)
            evidence.append(member.posterior.log_evidence + prior.log_density(theta))
    return members, softmax(np.array(evidence))
