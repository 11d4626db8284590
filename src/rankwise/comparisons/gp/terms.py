"""Terms: the parts of what explains an answer, whose covariances add up.

A row is an item in context: its features, a number that tells items with equal features apart where
there are such, and the columns of every term in turn. The covariance of two rows is the sum of s k
over the terms, with a kernel k of the items and the share s of the term that both rows have.
"""

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np

from rankwise.comparisons.gp.answers import GivenAnswers
from rankwise.comparisons.gp.persons import PersonTraits
from rankwise.core.arrays import BoolArray, FloatArray, IntArray, Matrix
from rankwise.core.storable import storable
from rankwise.features.covariances import (
    Hyperprior,
    ParametricKernel,
    equal_rows,
    row_by_row,
)

NOBODY, NEW_PERSON = 0, -1
"""Numbers in place of a person's: for the common scores, and for somebody who has not answered."""

DRIFT_RANGE = (0.01, 100.0)
"""Bounds of both parameters of a drift, as multiples of their medians."""


@dataclass(frozen=True, eq=False)
class Term(ABC):
    """One part of what explains an answer: a kernel of items, and what two rows share of it.

    A term declares the columns that it adds to rows, its covariance, and its parameters with their
    names, bounds and hyperprior. By default all rows share all of it, and its parameters are those
    of its kernel.
    """

    word: ClassVar[str] = ""
    """What the names of its parameters begin with."""

    share: ClassVar[float] = 1.0
    """Its usual deviation, as a share of that of the scores."""

    own_names: ClassVar[tuple[str, ...]] = ()
    """The parameters that are not those of the kernel."""

    kernel: ParametricKernel | None

    def fitted_to(self, X: Matrix) -> Self:
        """Return this term with its kernel fitted to items."""
        return self if self.kernel is None else replace(self, kernel=self.kernel.fitted_to(X))

    @property
    def plain(self) -> tuple[float, ...]:
        """The columns of an item by itself."""
        return ()

    def shared(self, a: FloatArray, b: FloatArray) -> FloatArray | float:  # noqa: ARG002
        """Return s for the columns of two rows, on the last axis; the others are broadcast."""
        return 1.0

    def shared_gradient(self, a: FloatArray, b: FloatArray, P: FloatArray) -> list[float]:  # noqa: ARG002
        """Return the derivative of ``sum(P * s)`` in the parameters that are not the kernel's."""
        return []

    def report(self, terms: "tuple[Term, ...]", X: FloatArray) -> dict[str, float]:  # noqa: ARG002
        """Return what was learned about this term, beside all terms of items X, by name."""
        return {}

    def summary(self, report: Mapping[str, float]) -> str:  # noqa: ARG002
        """Say what a report holds, in one line; nothing if it is empty."""
        return ""

    @property
    def theta(self) -> FloatArray:
        """The logarithms of the parameters."""
        return np.zeros(0) if self.kernel is None else self.kernel.theta

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        inner = () if self.kernel is None else self.kernel.names
        return (*(self.word + name for name in inner), *self.own_names)

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return the bounds of the parameters, for items X: (n_parameters, 2)."""
        return np.zeros((0, 2)) if self.kernel is None else self.kernel.bounds_on(X)

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return what is usual, if scores of items X have about this standard deviation."""
        if self.kernel is None:
            return Hyperprior.flat(0)
        return self.kernel.hyperprior_on(X, self.share * deviation)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this term with other parameters."""
        return self if self.kernel is None else replace(self, kernel=self.kernel.with_theta(theta))


@storable
@final
@dataclass(frozen=True)
class Scores(Term):
    """The scores of items, as their features and their item effects say."""

    kernel: ParametricKernel


@storable
@final
@dataclass(frozen=True)
class Drift(Term):
    r"""Scores that change with time: a part of them lasts, the other is forgotten.

    .. math:: k(a, b) \, \frac{1 + q\, e^{-|t_a - t_b| / \ell}}{1 + q}

    The second part, of q times the variance of the first, is an Ornstein-Uhlenbeck process. The
    column is a date, in days.

    Parameters
    ----------
    kernel : ParametricKernel
        Of the scores at one date.
    drift, drift_time : float
        q and :math:`\ell`.
    usual_time : float
        The median of the hyperprior of ``drift_time``: the time between the first and the last
        answer.
    last_date : float
        The date of an item by itself.
    """

    own_names: ClassVar[tuple[str, ...]] = ("drift", "drift_time")

    kernel: ParametricKernel
    drift: float
    drift_time: float
    usual_time: float
    last_date: float = 0.0

    @classmethod
    def over(cls, kernel: ParametricKernel, last_date: float, span: float) -> Self:
        """Return a drift with its starting values; ``span`` is the time between answers."""
        return cls(kernel, 1.0, span, span, last_date)

    @property
    def plain(self) -> tuple[float, ...]:
        """The last date."""
        return (self.last_date,)

    def shared(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the correlation of scores at two dates."""
        decay = np.exp(-np.abs(a[..., 0] - b[..., 0]) / self.drift_time)
        return np.asarray((1.0 + self.drift * decay) / (1.0 + self.drift))

    def shared_gradient(self, a: FloatArray, b: FloatArray, P: FloatArray) -> list[float]:
        """Return the derivatives in the logarithms of drift and its time."""
        age = np.abs(a[..., 0] - b[..., 0]) / self.drift_time
        decay, part = np.exp(-age), self.drift / (1.0 + self.drift)
        by_drift = part / (1.0 + self.drift) * np.sum(P * (decay - 1.0))
        return [float(by_drift), float(part * np.sum(P * decay * age))]

    def report(self, terms: tuple[Term, ...], X: FloatArray) -> dict[str, float]:  # noqa: ARG002
        """Return the share of the variance that is forgotten, and the days within which it is."""
        return {"drift_share": self.drift / (1.0 + self.drift), "drift_days": self.drift_time}

    def summary(self, report: Mapping[str, float]) -> str:
        """Say how much is forgotten, and how fast."""
        share, days = report["drift_share"], report["drift_days"]
        return f"{share:.0%} of the variance is forgotten within about {days:.3g} days"

    @property
    def theta(self) -> FloatArray:
        """Those of the kernel, and the logarithms of drift and its time."""
        return np.append(self.kernel.theta, np.log([self.drift, self.drift_time]))

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of the kernel, and wide ones of the drift."""
        own = np.log([[1.0], [self.usual_time]]) + np.log(DRIFT_RANGE)
        return np.vstack([self.kernel.bounds_on(X), own])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return that of the kernel, and independent ones of the drift."""
        own = Hyperprior.from_medians([1.0, self.usual_time], np.eye(2))
        return self.kernel.hyperprior_on(X, deviation).joined_with(own)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this term with other parameters."""
        drift, time = np.exp(theta[-2:]).tolist()
        kernel = self.kernel.with_theta(theta[:-2])
        return replace(self, kernel=kernel, drift=drift, drift_time=time)


@storable
@final
@dataclass(frozen=True)
class Effects(Term):
    """What covariates of an answer are worth, the order in which items are shown among them.

    A row is an item as it was shown: its score is that of the item plus the covariates, which are
    the columns, times their effects, independent Gaussians.

    Parameters
    ----------
    effects : tuple of str
        The names of the covariates.
    deviations : tuple of float
        The standard deviation of each effect.
    usual : tuple of float
        The value of each covariate in all comparisons, if it was one; else 0.
    """

    kernel: None
    effects: tuple[str, ...]
    deviations: tuple[float, ...]
    usual: tuple[float, ...] = ()

    @classmethod
    def of(cls, answers: GivenAnswers, usual: float) -> Self:
        """Give a usual value of every covariate an effect of this standard deviation."""
        deviations = tuple((usual / answers.deviations).tolist())
        return cls(None, answers.effects, deviations, answers.usual)

    @property
    def plain(self) -> tuple[float, ...]:
        """Covariates of 0."""
        return (0.0,) * len(self.effects)

    def shared(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the product of the covariates in units of their effects."""
        return _products(a * np.array(self.deviations), b * np.array(self.deviations))


@storable
@final
@dataclass(frozen=True, eq=False)
class Traits(Term):
    """What persons with similar features share: s is the product of two persons' features.

    These are the columns; zeros are an average person. The covariance of persons and items is the
    product of a linear one of persons and one of items.

    Parameters
    ----------
    kernel : ParametricKernel
    persons : PersonTraits
        The features of persons, by name.
    rows : (n_persons, n_traits)
        The same by the numbers of persons, from 1 on.
    """

    word: ClassVar[str] = "trait_"
    share: ClassVar[float] = 0.5

    kernel: ParametricKernel
    persons: PersonTraits
    rows: FloatArray

    @property
    def plain(self) -> tuple[float, ...]:
        """The features of an average person."""
        return (0.0,) * self.rows.shape[1]

    def shared(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the product of the features."""
        return _products(a, b)

    def of(self, numbers: IntArray) -> FloatArray:
        """Return the features of persons; zeros for the common scores and new persons."""
        known = (numbers > 0) & (numbers <= len(self.rows))
        return np.where(known[:, None], self.rows[np.where(known, numbers - 1, 0)], 0.0)

    def joined_with(self, persons: Any, names: Sequence[Any]) -> Self:
        """Add the features of other persons; ``names`` are those of all persons by number."""
        everyone = self.persons.joined_with(persons)
        return replace(self, persons=everyone, rows=everyone.of_names(names))


@storable
@final
@dataclass(frozen=True)
class Tastes(Term):
    """What every person adds to the common scores: s is 1 for rows of one person, else 0.

    The column is the number of a person, or 0 for the common score.
    """

    word: ClassVar[str] = "taste_"
    share: ClassVar[float] = 0.5

    kernel: ParametricKernel

    @property
    def plain(self) -> tuple[float, ...]:
        """Nobody's."""
        return (float(NOBODY),)

    def shared(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return whether rows are those of one person."""
        return np.asarray((a[..., 0] == b[..., 0]) & (a[..., 0] != NOBODY), dtype=np.float64)

    def report(self, terms: tuple[Term, ...], X: FloatArray) -> dict[str, float]:
        """Return the share of the variance of a person's scores that is their own taste."""
        common = terms[0].kernel
        assert common is not None
        kernels = [term.kernel for term in terms if isinstance(term, Traits | Tastes)]
        own = sum(float(np.mean(kernel.diagonal(X))) for kernel in kernels)
        return {"taste_share": own / (float(np.mean(common.diagonal(X))) + own)}

    def summary(self, report: Mapping[str, float]) -> str:
        """Say how much persons differ."""
        share = report["taste_share"]
        return f"{share:.0%} of the variance of a person's scores is their own taste"


@storable
@final
@dataclass(frozen=True)
class Circles(Term):
    """What a makes of b beside their scores, g(a, b) = -g(b, a): answers that go in circles.

    It belongs to comparisons and not to rows; see `WithCircles`.
    """

    kernel: ParametricKernel


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the inner products over the last axis, of few columns."""
    total = np.zeros(np.broadcast_shapes(a.shape[:-1], b.shape[:-1]))
    for column in range(a.shape[-1]):
        total += a[..., column] * b[..., column]
    return total


@final
@dataclass(frozen=True, eq=False)
class Covariance(ParametricKernel):
    """Add up the covariances of terms. Its rows are items in context.

    Items with equal features share what these explain, and each has its own item effect.

    Parameters
    ----------
    terms : tuple of Term
        Those of rows: without circles.
    n_features : int
        Number of columns that are the features of an item.
    has_copies : bool
        Whether the next column tells items with equal features apart.
    """

    terms: tuple[Term, ...]
    n_features: int
    has_copies: bool = False

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        K = np.zeros((len(A), len(B)))
        for term, a, b in self._columns(A, B):
            s = term.shared(a[:, None], b)
            if np.any(s):
                K += s * self._of_items(term, A, B)
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        total = np.zeros(len(A))
        for term, a, _ in self._columns(A, A):
            total += term.shared(a, a) * self._variance(term, A)
        return total

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return this covariance with all kernels fitted."""
        items = X[:, : self.n_features]
        return replace(self, terms=tuple(term.fitted_to(items) for term in self.terms))

    @property
    def theta(self) -> FloatArray:
        """Those of all terms."""
        return np.concatenate([term.theta for term in self.terms])

    @property
    def names(self) -> tuple[str, ...]:
        """Those of all terms."""
        return tuple(name for term in self.terms for name in term.names)

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of all terms."""
        return np.vstack([term.bounds_on(X[:, : self.n_features]) for term in self.terms])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return those of all terms, independent of each other."""
        rows = X[:, : self.n_features]
        parts = [term.hyperprior_on(rows, deviation) for term in self.terms]
        return Hyperprior.flat(0).joined_with(*parts)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this covariance with other parameters."""
        return replace(self, terms=with_theta(self.terms, theta))

    def weighted_gradient(
        self,
        A: FloatArray,
        B: FloatArray,
        M: FloatArray,
        K: FloatArray | None = None,  # noqa: ARG002
    ) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        parts: list[Any] = []
        for term, a, b in self._columns(A, B):
            if term.kernel is None:
                continue
            weight = M * term.shared(a[:, None], b)
            own = term.kernel.weighted_gradient(*self._items(A, B), weight)
            if self._tells_copies(term.kernel):
                own = own - weight[self._copies(A, B)].sum() * term.kernel.own_variance_gradient()
            parts.append(own)
            if term.own_names:
                P = M * self._of_items(term, A, B)
                parts.append(term.shared_gradient(a[:, None], b, P))
        return np.concatenate(parts)

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of the difference of two rows, exact for close items too."""
        total = np.zeros(len(A))
        for term, a, b in self._columns(A, B):
            # s(a, a) k(a, a) + s(b, b) k(b, b) - 2 s(a, b) k(a, b)
            both = term.shared(a, b)
            total += both * self._item_difference(term, A, B)
            total += (term.shared(a, a) - both) * self._variance(term, A)
            total += (term.shared(b, b) - both) * self._variance(term, B)
        return total

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        (items_a, items_b), parts = self._items(A, B), []
        for term, a, b in self._columns(A, B):
            if term.kernel is None:
                continue
            both = np.broadcast_to(term.shared(a, b), g.shape)
            own = term.kernel.weighted_variance_gradient(items_a, items_b, g * both)
            if self._tells_copies(term.kernel):
                copies = float((g * both) @ self._are_copies(A, B))
                own = own + 2.0 * copies * term.kernel.own_variance_gradient()
            for items, columns in ((items_a, a), (items_b, b)):
                alone = g * (term.shared(columns, columns) - both)
                if alone.any():
                    own = own + term.kernel.weighted_row_gradient(items, items, alone)
            parts.append(own)
            if term.own_names:  # of s(a, b), which has the weight -2 k(a, b)
                ends = self._variance(term, A) + self._variance(term, B)
                P = g * (self._item_difference(term, A, B) - ends)
                parts.append(np.array(term.shared_gradient(a, b, P)))
        return np.concatenate(parts)

    def _columns(
        self, A: FloatArray, B: FloatArray
    ) -> Iterator[tuple[Term, FloatArray, FloatArray]]:
        """Yield every term with its columns of A and of B."""
        start = self.n_features + self.has_copies
        for term in self.terms:
            stop = start + len(term.plain)
            yield term, A[:, start:stop], B[:, start:stop]
            start = stop

    def _items(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the features of A and of B, the same array where these are one."""
        a = A[:, : self.n_features]
        return a, a if A is B else B[:, : self.n_features]

    def _of_items(self, term: Term, A: FloatArray, B: FloatArray) -> FloatArray | float:
        """Return the kernel of a term between items."""
        if term.kernel is None:
            return 1.0
        K = term.kernel(*self._items(A, B))
        if self._tells_copies(term.kernel):
            K[self._copies(A, B)] -= term.kernel.own_variance
        return K

    def _variance(self, term: Term, A: FloatArray) -> FloatArray | float:
        """Return the kernel of a term for every item with itself."""
        return 1.0 if term.kernel is None else term.kernel.diagonal(A[:, : self.n_features])

    def _item_difference(self, term: Term, A: FloatArray, B: FloatArray) -> FloatArray | float:
        """Return the variance of the difference of two items, row by row."""
        if term.kernel is None:
            return 0.0
        between = term.kernel.difference_variance(*self._items(A, B))
        if self._tells_copies(term.kernel):
            between = between + 2.0 * term.kernel.own_variance * self._are_copies(A, B)
        return between

    def _tells_copies(self, kernel: ParametricKernel) -> bool:
        """Tell whether items with equal features differ under a kernel."""
        return self.has_copies and kernel.own_variance > 0.0

    def _copies(self, A: FloatArray, B: FloatArray) -> BoolArray:
        """Return which rows have equal features and are different items, (n, m)."""
        n = self.n_features
        return equal_rows(*self._items(A, B)) & (A[:, n][:, None] != B[:, n])

    def _are_copies(self, A: FloatArray, B: FloatArray) -> BoolArray:
        """Return the same, row by row."""
        n = self.n_features
        return np.all(A[:, :n] == B[:, :n], axis=1) & (A[:, n] != B[:, n])


def with_theta(terms: tuple[Term, ...], theta: FloatArray) -> tuple[Term, ...]:
    """Return terms with other parameters, given one term after the other."""
    ends = np.cumsum([len(term.theta) for term in terms])
    parts = np.split(theta, ends[:-1])
    return tuple(term.with_theta(part) for term, part in zip(terms, parts, strict=True))


CYCLE_SHARE = 0.5
"""Usual deviation of what goes in circles, as a share of that of the scores."""


@final
@dataclass(frozen=True, eq=False)
class WithCircles(ParametricKernel):
    r"""The kernel of comparisons that no two scores explain: what a makes of b, g(a, b) = -g(b, a).

    .. math:: \operatorname{cov}\bigl(f(a) - f(b),\, f(c) - f(d)\bigr)
        + k_2(a, c)\, k_2(b, d) - k_2(a, d)\, k_2(b, c)

    A row holds two items side by side, and in its last two columns which of them are there: both
    for a comparison, the first alone for its score, none for 0. The second part can go in circles
    and is no part of a score.

    Parameters
    ----------
    kernel : ParametricKernel
        Of the scores f.
    cyclic : ParametricKernel
        :math:`k_2`, on the first columns of every item.
    n_columns : int
        How many these are.
    """

    kernel: ParametricKernel
    cyclic: ParametricKernel
    n_columns: int

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        K = np.zeros((len(A), len(B)))
        for a, b, mask in self._sides(A, B):
            K += mask * self.kernel(a, b)
        ac, bd, ad, bc = self._products(A, B)
        return K + self._both(A, B) * (ac * bd - ad * bc)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return row_by_row(self, A, A)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with the inner ones fitted to the first items."""
        first = self._items(X)[0]
        kernel = self.kernel.fitted_to(first, sample_weight)
        cyclic = self.cyclic.fitted_to(first[:, : self.n_columns], sample_weight)
        return replace(self, kernel=kernel, cyclic=cyclic)

    @property
    def theta(self) -> FloatArray:
        """Those of both kernels."""
        return np.append(self.kernel.theta, self.cyclic.theta)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of both kernels."""
        return (*self.kernel.names, *(f"cyclic_{name}" for name in self.cyclic.names))

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of both kernels."""
        first = self._items(X)[0]
        own = self.cyclic.bounds_on(first[:, : self.n_columns])
        return np.vstack([self.kernel.bounds_on(first), own])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return those of both; the amplitude of the second counts squared."""
        first, usual = self._items(X)[0], np.sqrt(CYCLE_SHARE * deviation)
        own = self.cyclic.hyperprior_on(first[:, : self.n_columns], usual)
        return self.kernel.hyperprior_on(first, deviation).joined_with(own)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        n_kernel = len(self.kernel.theta)
        kernel = self.kernel.with_theta(theta[:n_kernel])
        return replace(self, kernel=kernel, cyclic=self.cyclic.with_theta(theta[n_kernel:]))

    def weighted_gradient(
        self,
        A: FloatArray,
        B: FloatArray,
        M: FloatArray,
        K: FloatArray | None = None,  # noqa: ARG002
    ) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        by_scores = np.zeros(len(self.kernel.theta))
        for a, b, mask in self._sides(A, B):
            by_scores = by_scores + self.kernel.weighted_gradient(a, b, M * mask)
        (a, b), (c, d) = self._cyclic_items(A), self._cyclic_items(B)
        P, (ac, bd, ad, bc) = M * self._both(A, B), self._products(A, B)
        parts = ((a, c, P * bd), (b, d, P * ac), (a, d, -P * bc), (b, c, -P * ad))
        by_cycles = sum(self.cyclic.weighted_gradient(*part) for part in parts)
        return np.append(by_scores, by_cycles)

    def _items(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the first and of the second items."""
        width = (A.shape[1] - 2) // 2
        return A[:, :width], A[:, width : 2 * width]

    def _cyclic_items(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = self._items(A)
        return first[:, : self.n_columns], second[:, : self.n_columns]

    def _sides(
        self, A: FloatArray, B: FloatArray
    ) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Return every item of A with every one of B, and the sign of their covariance."""
        return [
            (a, b, sign * np.outer(A[:, -2 + i], B[:, -2 + j]))
            for i, a in enumerate(self._items(A))
            for j, b in enumerate(self._items(B))
            for sign in [1.0 if i == j else -1.0]
        ]

    def _both(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return which rows are both comparisons."""
        return np.outer(A[:, -2] * A[:, -1], B[:, -2] * B[:, -1])

    def _products(self, A: FloatArray, B: FloatArray) -> list[FloatArray]:
        """Return the second kernel between first and first, second and second, and across."""
        (a, b), (c, d) = self._cyclic_items(A), self._cyclic_items(B)
        return [self.cyclic(*ends) for ends in ((a, c), (b, d), (a, d), (b, c))]
