"""A Gaussian process over items in context, before and after answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeVar, final

import numpy as np

from rankwise.comparisons.gp.answers import ShownItems
from rankwise.comparisons.gp.evidence import Approximation, Inference, SiteParameters
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.ep import LiveScores, sequential_sites
from rankwise.comparisons.gp.inference.likelihood import Likelihood
from rankwise.comparisons.gp.inference.posterior import Posterior, gaussian_draws
from rankwise.comparisons.gp.inference.tastes import MarkedRows, group_persons, scores_of_person
from rankwise.comparisons.gp.judges import Cavities
from rankwise.comparisons.gp.terms import (
    NEW_PERSON,
    Circles,
    Covariance,
    Drift,
    Effects,
    Scores,
    Tastes,
    Term,
    Traits,
    WithCircles,
    with_theta,
)
from rankwise.core.arrays import FloatArray, IntArray, copy_numbers, first_equal
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import place
from rankwise.core.storable import storable
from rankwise.core.threads import few_threads
from rankwise.features.covariances import ParametricKernel, Scaled
from rankwise.features.function_space import Expansion
from rankwise.features.known_rows import KnownRows

PAIRS_AT_ONCE = 256
"""Pairs of one person that are predicted together."""

MAX_SEQUENTIAL = 500
"""New comparisons up to which their sites are found one after the other."""

MAX_LIVE = 4000
"""Items up to which the joint distribution of all scores is kept between answers."""

T = TypeVar("T", bound=Term)


@storable
@final
@dataclass(frozen=True, eq=False)
class Model:
    """Hold what is assumed before any answer: items, terms that explain answers, a likelihood.

    Rows of the process are items in context, as `Covariance` takes them.

    Parameters
    ----------
    X : (n_items, n_features)
        The items.
    copies : (n_items,) or None
        Numbers that distinguish items with equal features; None if there are none.
    shown : ShownItems
        The items in every context they were shown in; comparisons are between these.
    terms : tuple of Term
        The scores first, circles last.
    likelihood : Likelihood
    basis : (n_basis, n_features) or None
        Rows through which the kernel is approximated.
    method : {"ep", "laplace"}
    device : str or None
        Where sweeps of expectation propagation are computed.
    """

    X: FloatArray
    copies: IntArray | None
    shown: ShownItems
    terms: tuple[Term, ...]
    likelihood: Likelihood
    basis: FloatArray | None
    method: Approximation
    device: str | None

    # Terms and the covariance that they add up to

    def term(self, kind: type[T]) -> T | None:
        """Return the term of a kind; None if there is none."""
        return next((term for term in self.terms if isinstance(term, kind)), None)

    @property
    def kernel(self) -> ParametricKernel:
        """The kernel of the scores."""
        kernel = self.terms[0].kernel
        assert kernel is not None
        return kernel

    def reports(self) -> list[tuple[Term, dict[str, float]]]:
        """Return what was learned about every term."""
        return [(term, term.report(self.terms, self.X)) for term in self.terms]

    def with_term(self, term: Term) -> Self:
        """Return the model with another term of a kind it has."""
        kind = type(term)
        return replace(self, terms=tuple(term if type(t) is kind else t for t in self.terms))

    def with_theta(self, theta: FloatArray) -> Self:
        """Return the model with other parameters of its terms."""
        return replace(self, terms=with_theta(self.terms, theta))

    def with_kernel(self, theta: FloatArray) -> Self:
        """Return the model with other parameters of the kernel of the scores."""
        first = replace(self.terms[0], kernel=self.kernel.with_theta(theta))
        return replace(self, terms=(first, *self.terms[1:]))

    @property
    def n_item_columns(self) -> int:
        """The number of columns of a row that identify the item."""
        return self.X.shape[1] + (self.copies is not None)

    def columns(self, kind: type[Term]) -> slice:
        """Return where the columns of a term stand in rows; none if there is no such term."""
        start = self.n_item_columns
        for term in self.terms:
            stop = start + len(term.plain)
            if isinstance(term, kind):
                return slice(start, stop)
            start = stop
        return slice(start, start)

    @cached_property
    def covariance(self) -> ParametricKernel:
        """The covariance of rows; with circles, that of pairs of rows."""
        scores = self._sum_of(*(term for term in self.terms if not isinstance(term, Circles)))
        circles = self.term(Circles)
        if circles is None:
            return scores
        return WithCircles(scores, self._sum_of(Scores(circles.kernel)), self.n_item_columns)

    def _sum_of(self, *terms: Term) -> ParametricKernel:
        """Return the covariance of terms: the kernel itself where there is nothing to add."""
        if len(terms) == 1 and isinstance(terms[0], Scores) and self.copies is None:
            return terms[0].kernel
        return Covariance(terms, self.X.shape[1], self.copies is not None)

    @cached_property
    def is_by_name(self) -> bool:
        """Whether nothing is known of items but their names: rows of the identity."""
        n_items, n_features = self.X.shape
        is_plain = isinstance(self.kernel, Scaled) and not self.likelihood.is_gaussian
        return is_plain and n_items == n_features and np.array_equal(self.X, np.eye(n_items))

    @property
    def has_item_effects(self) -> bool:
        """Whether some of a score belongs to the item and not to its features."""
        return any(term.kernel is not None and term.kernel.own_variance > 0 for term in self.terms)

    # Rows

    @cached_property
    def _plain(self) -> FloatArray:
        """The columns of all terms for an item by itself."""
        return np.array([value for term in self.terms for value in term.plain])

    def numbered(self, X: FloatArray) -> FloatArray:
        """Return rows of new items by themselves.

        If X holds all items that equal a row, the equal rows are these items in turn. Otherwise it
        is unknown which one is meant, and the row is a new item with the same features.
        """
        plain = np.tile(self._plain, (len(X), 1))
        if self.copies is None:
            return np.hstack([X, plain]) if plain.shape[1] else X
        n_items = len(self.X)
        first = first_equal(np.concatenate([self.X, X]))
        known = np.bincount(first[:n_items], minlength=len(first))
        given = np.bincount(first[n_items:], minlength=len(first))
        group = first[n_items:]
        numbers = copy_numbers(group)
        unclear = (known[group] > 1) & (known[group] != given[group])
        numbers = np.where(known[group] == 1, 0, numbers)
        return np.column_stack([X, np.where(unclear, -1.0 - numbers, numbers), plain])

    def rows_at(self, positions: IntArray) -> FloatArray:
        """Return items as they were shown, as rows of the process."""
        items, n_rows = self.shown.item[positions], len(positions)
        columns = [self.X[items]]
        if self.copies is not None:
            columns.append(self.copies[items, None].astype(np.float64))
        n_shown = self.shown.values.shape[1]
        columns += [self.shown.values[positions], np.tile(self._plain[n_shown:], (n_rows, 1))]
        is_bare = self._plain.size == 0 and self.copies is None
        return columns[0] if is_bare else np.hstack(columns)

    def recognised(self, X: FloatArray) -> FloatArray:
        """Return rows with items in place of those that are items but for rounding."""
        return KnownRows.of(self.X).in_place_of(X) if self.has_item_effects else X

    def alone(self, rows: FloatArray) -> FloatArray:
        """Return rows as the covariance takes them, which with circles is in pairs."""
        if self.term(Circles) is None:
            return rows
        n_rows = len(rows)
        return np.column_stack([rows, np.zeros_like(rows), np.ones(n_rows), np.zeros(n_rows)])

    def _against(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return pairs of rows for `WithCircles`."""
        return np.column_stack([first, second, np.ones((len(first), 2))])

    # Answers

    def inference(self, comparisons: Comparisons) -> tuple[Inference, IntArray | None]:
        """Return what turns the covariance into a posterior, and the pairs of items it is about."""
        where = place(self.device)
        if self.term(Circles) is not None:
            # pairs of items, each one row, are compared with 0: the same answers in the same order
            duels, answers = comparisons.as_duels()
            rows = self._against(*(self.rows_at(ends) for ends in duels.T))
            rows = np.vstack([np.zeros((1, rows.shape[1])), rows])
            return Inference(rows, answers, None, self.method, where), duels
        rows = self.rows_at(comparisons.items)
        if self.term(Tastes) is not None:
            # rows are expressed by items alone, and with each covariate or feature of persons
            traits, numbers = self.term(Traits), np.arange(int(comparisons.judges.max()) + 1)
            of_persons = np.zeros((len(numbers), 0)) if traits is None else traits.of(numbers)
            marked, units = MarkedRows.of(rows, self.n_item_columns, of_persons)
            persons = group_persons(comparisons, marked)
            return Inference(rows, comparisons, units, self.method, persons=persons), None
        basis = None if self.basis is None else self.numbered(self.basis)
        if self.term(Effects) is not None:
            basis = self._basis_with_effects(rows if basis is None else basis)
        return Inference(rows, comparisons, basis, self.method, where), None

    def _basis_with_effects(self, rows: FloatArray) -> FloatArray:
        """Return rows that determine the items in every way they were shown.

        With all items this is exact, and the cost is linear in the number of ways.
        """
        columns, basis = self.columns(Effects), rows.copy()
        basis[:, columns] = 0.0
        basis = basis[np.unique(first_equal(basis))]
        n_effects = columns.stop - columns.start
        shown = np.tile(basis[:1], (n_effects, 1))
        shown[:, columns] = np.eye(n_effects)
        return np.vstack([basis, shown])

    def given(self, comparisons: Comparisons, sites: SiteParameters | None = None) -> Process:
        """Condition on answers, starting from nearby sites if these are known."""
        inference, duels = self.inference(comparisons)
        with few_threads(inference.size):
            posterior = inference.posterior(self.covariance, self.likelihood, start=sites)
        posterior.ending.warn()
        if inference.basis is not None:
            rows = inference.basis[posterior.items]
        elif duels is not None:
            rows = inference.rows[posterior.items]
        else:
            rows = self.rows_at(posterior.items)
        return Process(self, posterior, np.ascontiguousarray(rows), duels)


@storable
@final
@dataclass(frozen=True, eq=False)
class Process:
    """Hold a model conditioned on answers, and predict with it.

    Parameters
    ----------
    model : Model
    posterior : Posterior
    rows : (n_basis, n_columns)
        The rows that prediction needs.
    duels : (n_duels, 2) or None
        The pairs of items that were compared, if answers can go in circles.
    """

    model: Model
    posterior: Posterior
    rows: FloatArray
    duels: IntArray | None

    @cached_property
    def comparisons(self) -> Comparisons:
        """All answers."""
        known = self.posterior.prior.comparisons
        return known if self.duels is None else known.from_duels(self.duels)

    @property
    def sites(self) -> SiteParameters:
        """The sites of all comparisons."""
        return self.posterior.tau, self.posterior.nu

    def under(self, model: Model) -> Process:
        """Condition another model on the same answers, from the sites found here."""
        return model.given(self.comparisons, self.sites)

    def mean(self, rows: FloatArray) -> FloatArray:
        """Return the mean score of rows."""
        expansion = Expansion(self.model.covariance, self.rows)
        return expansion.product(self.model.alone(rows), self.posterior.dual_coef)

    def blocks(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance between the basis and rows, and that of the rows."""
        rows, covariance = self.model.alone(rows), self.model.covariance
        return covariance(self.rows, rows), covariance(rows, rows)

    def joint(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the scores of rows."""
        return self.mean(rows), self.posterior.covariance_at(*self.blocks(rows))

    def deviations(self, rows: FloatArray) -> FloatArray:
        """Return the standard deviation of the score of every row."""
        rows, covariance = self.model.alone(rows), self.model.covariance
        K_cross = covariance(self.rows, rows)
        return np.sqrt(self.posterior.variance_at(K_cross, covariance.diagonal(rows)))

    def draws(self, rows: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw the scores of rows jointly."""
        return self.posterior.draws_at(*self.blocks(rows), n, rng)

    def difference(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the difference of rows, pair by pair."""
        if self.model.term(Circles) is not None:
            first = self.model._against(first, second)
            second = np.zeros_like(first)
        covariance = self.model.covariance
        K_first, K_second = covariance(self.rows, first), covariance(self.rows, second)
        prior_variance = covariance.difference_variance(first, second)
        return self.posterior.difference_at(K_first, K_second, prior_variance)

    # Persons with tastes

    def joint_of_person(self, rows: FloatArray, person: int) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the scores that a person gives to rows."""
        own, answers = self.comparisons.of_judge(person)
        n_rows, traits = len(rows), self.model.term(Traits)
        if own is not None:
            rows = np.vstack([rows, self.model.rows_at(own.items)])
        rows = rows.copy()
        if traits is not None:
            rows[:, self.model.columns(Traits)] = traits.of(np.array([person]))
        common, theirs = self.joint(rows), rows.copy()
        theirs[:, self.model.columns(Tastes)] = NEW_PERSON
        covariance = self.model.covariance
        K_tastes = covariance(theirs, theirs) - covariance(rows, rows)
        if own is None:
            return common[0][:n_rows], common[1] + K_tastes
        sites = self.posterior.tau[answers], self.posterior.nu[answers]
        return scores_of_person(own, sites, common, K_tastes)

    def difference_by_person(
        self, first: FloatArray, second: FloatArray, persons: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the difference of rows for the person of each pair."""
        mean, variance = np.empty((2, len(first)))
        for person in np.unique(persons).tolist():
            every = np.flatnonzero(persons == person)
            for start in range(0, len(every), PAIRS_AT_ONCE):
                some = every[start : start + PAIRS_AT_ONCE]
                mean[some], variance[some] = self._difference_of(first[some], second[some], person)
        return mean, variance

    def _difference_of(
        self, first: FloatArray, second: FloatArray, person: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same for one person."""
        rows = np.vstack([first, second])
        if person <= 0:  # nobody, or somebody new
            rows[:, self.model.columns(Tastes)] = person
            return self.difference(*np.split(rows, 2))
        different, place = np.unique(first_equal(rows), return_inverse=True)
        mean, S = self.joint_of_person(rows[different], person)
        i, j = place.reshape(2, -1)
        spread = S.diagonal()
        return mean[i] - mean[j], np.maximum(spread[i] + spread[j] - 2.0 * S[i, j], 0.0)

    def draws_of_person(
        self, rows: FloatArray, person: int, n: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw the scores that a person gives to rows jointly."""
        return gaussian_draws(*self.joint_of_person(rows, person), n, rng)

    # Single answers, and more of them

    def cavities(self) -> Cavities:
        """Return the distribution of every comparison without one of its answers."""
        if self.model.term(Tastes) is None:
            return Cavities.of(self.posterior)
        inference, _ = self.model.inference(self.comparisons)
        _, mean, variance = inference.moments(self.model.covariance)(*self.sites)
        return Cavities.under(self.posterior, mean, variance)

    def live_scores(self) -> LiveScores | None:
        """Return the joint distribution of all scores; None where it is not kept."""
        model, posterior = self.model, self.posterior
        suits = model.basis is None and len(model.X) <= MAX_LIVE and len(model.terms) == 1
        suits = suits and not model.term(Drift)
        if not suits or not (model.method == "ep" or model.likelihood.is_gaussian):
            return None
        moments = self.joint(model.rows_at(np.arange(len(model.X))))
        return LiveScores(*moments, self.comparisons, posterior.likelihood, *self.sites)

    def extended_sites(self, comparisons: Comparisons) -> SiteParameters | None:
        """Return sites for all comparisons: the old ones first, then those found for new pairs."""
        posterior, model = self.posterior, self.model
        n_old = posterior.prior.comparisons.n_pairs
        n_new = comparisons.n_pairs - n_old
        if model.term(Tastes) is not None:
            more = np.zeros(n_new)
            return np.append(posterior.tau, more), np.append(posterior.nu, more)
        if n_new > MAX_SEQUENTIAL or self.duels is not None or posterior.likelihood.is_gaussian:
            return None
        if n_new == 0:
            return self.sites
        # the new comparisons under the posterior: their joint mean and covariance
        new = np.arange(n_old, comparisons.n_pairs)
        ends = np.stack([comparisons.winner[new], comparisons.loser[new]])
        items, positions = np.unique(ends, return_inverse=True)
        first, second = positions.reshape(2, n_new)
        mean, covariance = self.joint(model.rows_at(items))
        D = covariance[first] - covariance[second]
        # assumed-density filtering: one site after another
        tau, nu = sequential_sites(
            mean[first] - mean[second],
            D[:, first] - D[:, second],
            comparisons.count[new],
            comparisons.outcomes.take(new),
            posterior.likelihood,
        )
        return np.append(posterior.tau, tau), np.append(posterior.nu, nu)

    # Scores as a function of features

    @property
    def weights(self) -> FloatArray:
        """The weight of the kernel of every basis row in a score at the last date."""
        if self.duels is not None:
            raise InvalidInputError(
                "Intransitive answers have no score function of a single item: fit with "
                "intransitive=False to explain or export scores."
            )
        drift, dates = self.model.term(Drift), self.rows[:, self.model.columns(Drift)]
        if drift is None:
            return self.posterior.dual_coef
        return self.posterior.dual_coef * drift.shared(dates, np.array(drift.plain))

    @property
    def known_rows(self) -> KnownRows | None:
        """The rows of items for scores of single rows; None if features explain all of a score."""
        if not self.model.has_item_effects:
            return None
        return KnownRows.of(self.model.X, are_apart=self.model.copies is not None)
