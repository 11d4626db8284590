"""Why one item is above another, feature by feature, and which features matter at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from rankwise.core.arrays import FloatArray, raw_rows
from rankwise.core.checks import check_length, check_scores, entries_of, is_missing
from rankwise.core.display import (
    Result,
    brief,
    short_label,
    text_table,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import AtMost, Count, check_call
from rankwise.core.queries import Queries
from rankwise.io.feature_columns import columns_kept, word_in_form
from rankwise.measures.pairwise import Concordance
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.scoring_function import (
    ScoringFunction,
    compares_items,
    predicted,
    scoring_function,
    takes_queries,
)
from rankwise.solve.iteration import followed

MOST_ENUMERATED = 10
"""Differing features up to which every subset of them is tried."""
MOST_SHOWN = 10
"""Features that are printed or drawn."""
MOST_REPEATS = 100_000
"""How often a feature is permuted at most."""
MOST_ROWS, LEAST_ORDERS = 200_000, 10
"""Rows that are scored for a ranker that compares items; orders that are drawn at least."""

Contributions: TypeAlias = tuple[FloatArray, FloatArray]
"""Contributions of the features and their standard errors."""
Value: TypeAlias = Callable[[NDArray[np.bool_]], FloatArray]
"""The value of each set of features, given as a row of a mask; that of none is the start."""
ContributionMethod: TypeAlias = Callable[[FloatArray, FloatArray], Contributions]


@final
@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """Hold the contribution of each feature to the lead of item a over item b.

    The contributions sum to the lead. For a linear ranker a contribution is the weight times the
    difference of the feature. For others it is the Shapley value: the gain in score when the
    feature of b is replaced by that of a, averaged over all orders of replacing features.

    Parameters
    ----------
    a : int
        The row of the item.
    b : int or None
        The row of the item it is compared with; None for the mean over the other items.
    names : tuple of str
        The names of the features.
    contributions : (n_features,)
        What each feature adds to the lead of a.
    standard_errors : (n_features,)
        Standard errors of the contributions; 0 if they are exact.
    features_a, features_b : (n_features,)
        The features of both items; if b is None, the mean of the others.
    score_a, score_b : float
        The scores of both items; if b is None, the mean score of the others.
    method : str
        How the contributions were found.
    item_a, item_b : str
        The names of both items, if they have any.
    forms : mapping of str to str
        How the numbers of features were written in the table, such as dates or prices; they are
        shown like that.

    Examples
    --------
    >>> from rankwise import RankRLS, explain
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 0.5]]
    >>> explanation = explain(RankRLS().fit(X, [0, 1, 2]), X, a=2, b=0)
    >>> round(float(explanation.contributions.sum() - explanation.lead), 12)
    0.0
    """

    a: int
    b: int | None
    names: tuple[str, ...]
    contributions: FloatArray
    standard_errors: FloatArray
    features_a: FloatArray
    features_b: FloatArray
    score_a: float
    score_b: float
    method: str
    item_a: str = ""
    item_b: str = ""
    forms: Mapping[str, str] = field(default_factory=dict)

    @property
    def lead(self) -> float:
        """The score of a minus that of b."""
        return self.score_a - self.score_b

    @property
    def is_exact(self) -> bool:
        """Whether the contributions are exact up to rounding."""
        return not self.standard_errors.any()

    def __str__(self) -> str:
        first, second = self.item_a or f"item {self.a}", self.item_b or f"item {self.b}"
        other = "the mean of the others" if self.b is None else second
        place = "above" if self.lead > 0 else "below" if self.lead < 0 else "level with"
        head = f"{first} is {place} {other}: {brief(self.score_a)} against "
        head += f"{brief(self.score_b)}, {self.lead:+.4g}"
        return f"{head}\n{text_table(self._cells())}\n{self.method}"

    def _cells(self) -> list[list[str]]:
        """Return the table that is shown: the largest contributions, then the rest as one."""
        errors = [] if self.is_exact else ["std. error"]
        rows = [["feature", "contribution", *errors, "a", "b"]]
        order = np.argsort(-np.abs(self.contributions), kind="stable")
        for at in order[:MOST_SHOWN]:
            error = [] if self.is_exact else [f"{self.standard_errors[at]:.2g}"]
            form = self.forms.get(self.names[at], "")
            other = _shown(self.features_b[at], form, is_mean=self.b is None)
            values = [_shown(self.features_a[at], form), other]
            rows.append([self.names[at], f"{self.contributions[at]:+.4g}", *error, *values])
        rest = order[MOST_SHOWN:]
        if len(rest):
            total = f"{self.contributions[rest].sum():+.4g}"
            rows.append([f"{len(rest)} others", total, *["" for _ in errors], "", ""])
        return rows

    def _caption(self) -> str:
        return str(self).partition("\n")[0]

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON can hold."""
        return {
            "a": self.a,
            "b": self.b,
            "score_a": self.score_a,
            "score_b": self.score_b,
            "method": self.method,
            "features": self._features(),
        }

    def _columns(self) -> dict[str, list[Any]]:
        """Return a row for each feature, the largest contribution first."""
        order = np.argsort(-np.abs(self.contributions), kind="stable")
        return {key: [values[i] for i in order] for key, values in self._features().items()}

    def _features(self) -> dict[str, list[Any]]:
        return {
            "feature": list(self.names),
            "contribution": self.contributions.tolist(),
            "standard_error": self.standard_errors.tolist(),
            "a": self.features_a.tolist(),
            "b": self.features_b.tolist(),
        }

    def _draw(self, ax: Any) -> None:
        """Draw the largest contributions as bars."""
        order = np.argsort(-np.abs(self.contributions), kind="stable")[:MOST_SHOWN][::-1]
        values, errors = self.contributions[order], self.standard_errors[order]
        colours = np.where(values >= 0, "tab:blue", "tab:orange")
        spread = errors if errors.any() else None
        ax.barh(range(len(order)), values, xerr=spread, color=colours, ecolor="grey")
        ax.set_yticks(range(len(order)), [short_label(self.names[at]) for at in order])
        ax.axvline(0.0, color="grey", linewidth=0.8)
        ax.set_xlabel("contribution to the lead")


def explain(
    ranker: Any,
    X: Any,
    qid: ArrayLike | None = None,
    a: int = 0,
    b: int | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    item_names: Sequence[Any] | None = None,
    n_permutations: Count = 200,
    random_state: Any = None,
) -> Explanation:
    r"""Say why item a is above item b, or above the other items of its query.

    For linear rankers the contributions are exactly :math:`w_k (a_k - b_k)`. For Gaussian,
    Laplacian and squared exponential kernels they are exact Shapley values, in
    O(n_rows n_features^2), since the kernel is a product over features. For any other ranker or
    pipeline they are exact if at most ten features differ, by trying all subsets; otherwise they
    are averages over random orders of the features, with standard errors.

    In a ranker that compares the items of a query, such as `AutoRanker`, the score of an item
    depends on the other items too; without ``qid`` on all rows of X. There, a and b exchange
    features, so that the query keeps the same values, and a contribution is half of what the
    exchange takes from the lead. The scores are those of `predict` on X. Features may be text or
    blank.

    Parameters
    ----------
    ranker : ranker or Pipeline
        A fitted ranker with one output.
    X : (n_items, n_features)
        The items.
    qid : (n_items,), optional
        The query of each item; a and b must be in the same one.
    a : int
        The row of the item to explain.
    b : int, optional
        The row to compare with; by default the mean over the other items of the query.
    feature_names : sequence of str, optional
        The names of the features; by default those of the ranker or of the columns of X.
    item_names : (n_items,), optional
        The names of the items, to speak of them; by default their row numbers.
    n_permutations : int
        Number of random orders, if contributions are sampled.
    random_state : int, RandomState or None
        Source of these draws.

    Returns
    -------
    explanation : Explanation

    Notes
    -----
    The Shapley value of feature k is :math:`\int_0^1 \partial_k F(q, \dots, q) \, dq` with F the
    multilinear extension of the score over replaced features. For a product kernel F is a sum over
    rows of products of :math:`q\,a_j + (1 - q)\,b_j`, so that the integrand is a polynomial of
    degree n_features - 1, which Gauss-Legendre quadrature integrates exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS, explain
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.5], [4.0, 0.0]])
    >>> print(explain(RankRLS().fit(X, [0, 1, 2, 3]), X, a=3, b=1, feature_names=["age", "size"]))
    item 3 is above item 1: ... against ..., +...
    feature  contribution  a  b
    age      +...          4  1
    size     +0            0  0
    exact: the weight of a feature times its difference
    """
    rows = _dense(X)
    names = _names(ranker, X, rows.shape[1], feature_names)
    if item_names is not None:
        check_length("item_names", np.empty(len(item_names)), len(rows))
    queries = Queries.of(qid, len(rows))
    others = _others(queries, a, b)
    if compares_items(ranker):
        # what `predict` compares a with: its query, or the whole table
        is_member = queries.index == queries.index[a]
        members = np.flatnonzero(is_member | (not takes_queries(ranker)))
        query = _ComparedItems(ranker, rows[members], int(np.searchsorted(members, a)))
        places = np.searchsorted(members, others)
        (contributions, errors), how = _in_query(query, places, n_permutations, random_state)
        scores = query.scores[[query.a, *places]]
    else:
        check_call(explain, n_permutations=n_permutations)
        method, how = _method(ranker, n_permutations=n_permutations, seed=random_state)
        scores = _predict(ranker, rows[[a, *others]])
        parts = [method(rows[a], rows[other]) for other in others]
        contributions = np.mean([part[0] for part in parts], axis=0)
        errors = np.sqrt(np.sum([part[1] ** 2 for part in parts], axis=0)) / len(parts)
    return Explanation(
        a=int(a),
        b=None if b is None else int(b),
        names=names,
        contributions=contributions,
        standard_errors=errors,
        features_a=rows[a],
        features_b=_typical(rows[others]),
        score_a=float(scores[0]),
        score_b=float(scores[1:].mean()),
        method=how if errors.any() or not how.startswith("sampled") else ENUMERATED,
        item_a="" if item_names is None else str(item_names[a]),
        item_b="" if item_names is None or b is None else str(item_names[b]),
        forms=dict(columns_kept(getattr(ranker, "table_columns_", {}), ()).forms),
    )


LINEAR = "exact: the weight of a feature times its difference"
PRODUCTS = "exact: Shapley values of a product kernel"
ENUMERATED = "exact: Shapley values over all subsets of the features that differ"
IN_QUERY = "exchanged between the two items of the query"


def _method(ranker: Any, *, n_permutations: int, seed: Any) -> tuple[ContributionMethod, str]:
    """Return how to find contributions, exactly if possible."""
    sampled = f"sampled: Shapley values over {n_permutations} random orders of the features"

    def replaced(x: FloatArray, base: FloatArray, different: NDArray[np.intp]) -> Value:
        def value(members: NDArray[np.bool_]) -> FloatArray:
            rows = np.repeat(base[None], len(members), axis=0)
            rows[:, different] = np.where(members, x[different], base[different])
            return _predict(ranker, rows)

        return value

    def by_predictions(x: FloatArray, base: FloatArray) -> Contributions:
        different = _different(x, base)
        contributions, errors = np.zeros(len(x)), np.zeros(len(x))
        if 0 < len(different) <= MOST_ENUMERATED:
            contributions[different] = _enumerated(replaced(x, base, different), len(different))
        elif len(different):
            orders = max(2, (n_permutations + 1) // 2)
            values = [replaced(x, base, different)]
            found = _sampled(values, len(different), orders, generator(seed))
            contributions[different], errors[different] = found
        return contributions, errors

    try:
        # a function of the features that can be written down has a closed form
        function = scoring_function(ranker)
    except InvalidInputError:
        return by_predictions, sampled
    if function.weights.ndim > 1:
        raise InvalidInputError(
            "`explain` needs a ranker with one output: this one has "
            f"{function.weights.shape[1]}. Fit one ranker for each."
        )
    # linear scores: each feature adds its own part
    if function.kernel is None:
        weights = function.weights / function.scale
        return lambda x, base: (weights * (x - base), np.zeros(len(x))), LINEAR
    # kernels that are products over features: Shapley values in polynomial time
    probe = np.zeros(function.n_features)
    if function.rows is None or function.kernel.products(probe, probe[None]) is None:
        return by_predictions, sampled
    return lambda x, base: (product_shapley(function, x, base), np.zeros(len(x))), PRODUCTS


def product_shapley(function: ScoringFunction, x: FloatArray, base: FloatArray) -> FloatArray:
    """Return the Shapley values of f(x) - f(base) for a kernel that is a product over features."""
    assert function.kernel is not None
    assert function.rows is not None
    to, start = function.scaled(x), function.scaled(base)
    pairs = zip(
        function.kernel.products(to, function.rows) or [],
        function.kernel.products(start, function.rows) or [],
        strict=True,
    )
    nodes, steps = np.polynomial.legendre.leggauss((len(x) + 1) // 2)
    values = np.zeros(len(x))
    for (factor, A), (_, B) in pairs:
        weighted = (factor * function.weights)[:, None] * (A - B)
        for node, step in zip(0.5 * (nodes + 1.0), 0.5 * steps, strict=True):
            values += step * np.sum(weighted * _others_product(node * A + (1.0 - node) * B), axis=0)
    return values


def _others_product(M: FloatArray) -> FloatArray:
    """Return for every entry the product of the others in its line, without dividing."""
    before, after = np.ones_like(M), np.ones_like(M)
    np.cumprod(M[:, :-1], axis=1, out=before[:, 1:])
    after[:, :-1] = np.cumprod(M[:, :0:-1], axis=1)[:, ::-1]
    return before * after


def _enumerated(value: Value, n: int) -> FloatArray:
    """Return the Shapley values of n features from the values of all their subsets."""
    members = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    found, sizes = value(members), members.sum(axis=1)
    shapley = np.empty(n)
    for k in range(n):
        without = np.flatnonzero(~members[:, k])
        share = 1.0 / (n * comb(n - 1, sizes[without]))
        shapley[k] = share @ (found[without + 2**k] - found[without])
    return shapley


def _sampled(
    values: Sequence[Value], n: int, n_orders: int, rng: np.random.Generator
) -> Contributions:
    """Return the Shapley values of n features averaged over random orders, in both directions.

    If there are several items to compare with, each order takes a random one.
    """
    gains = np.empty((n_orders, n))
    for at in range(n_orders):
        order, value = rng.permutation(n), values[int(rng.integers(len(values)))]
        both = []
        for direction in (order, order[::-1]):
            place = np.argsort(direction)
            gain = np.empty(n)
            gain[direction] = np.diff(value(place < np.arange(n + 1)[:, None]))
            both.append(gain)
        gains[at] = np.mean(both, axis=0)
    return gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(len(gains))


@final
@dataclass(frozen=True, eq=False)
class _ComparedItems:
    """Hold the items of a query for a ranker that compares them.

    Parameters
    ----------
    ranker
        Fitted.
    rows : (n_items, n_features)
        The items of the query.
    a : int
        The row of the item to explain.
    """

    ranker: Any
    rows: NDArray[Any]
    a: int

    @property
    def scores(self) -> FloatArray:
        """The scores of the items in their query."""
        return _predict(self.ranker, self.rows, np.zeros(len(self.rows)))

    def exchanged(self, b: int, different: NDArray[np.intp]) -> Value:
        """Return half the lead of a over b if a keeps only a set of its features, b the rest.

        The query then holds the same values of every feature, whatever the set.
        """
        x, other = self.rows[self.a][different], self.rows[b][different]

        def value(members: NDArray[np.bool_]) -> FloatArray:
            step = max(1, MOST_ROWS // len(self.rows))
            parts = [members[start : start + step] for start in range(0, len(members), step)]
            return np.concatenate([half_lead(part) for part in parts])

        def half_lead(members: NDArray[np.bool_]) -> FloatArray:
            queries = np.repeat(self.rows[None], len(members), axis=0)
            queries[:, self.a, different] = np.where(members, x, other)
            queries[:, b, different] = np.where(members, other, x)
            if takes_queries(self.ranker):
                ids = np.repeat(np.arange(len(members)), len(self.rows))
                flat = queries.reshape(-1, self.rows.shape[1])
                scores = _predict(self.ranker, flat, ids).reshape(len(members), -1)
            else:
                scores = np.stack([_predict(self.ranker, rows) for rows in queries])
            return 0.5 * (scores[:, self.a] - scores[:, b])

        return value


def _in_query(
    query: _ComparedItems, others: NDArray[np.intp], n_permutations: int, seed: Any
) -> tuple[Contributions, str]:
    """Find contributions in a query: item a exchanges features with each of the others."""
    n_items, n_features = query.rows.shape
    differing = [_different(query.rows[query.a], query.rows[b]) for b in others]
    different = np.unique(np.concatenate(differing))
    contributions, errors = np.zeros(n_features), np.zeros(n_features)
    n = len(different)
    values = [query.exchanged(int(b), different) for b in others]
    if n <= MOST_ENUMERATED and 2**n * n_items * len(others) <= MOST_ROWS:
        if n:
            contributions[different] = np.mean([_enumerated(v, n) for v in values], axis=0)
        return (contributions, errors), f"{ENUMERATED}, {IN_QUERY}"
    affordable = MOST_ROWS // (2 * (n + 1) * n_items)
    n_orders = max(LEAST_ORDERS, min((n_permutations + 1) // 2, affordable))
    found = _sampled(values, n, n_orders, generator(seed))
    contributions[different], errors[different] = found
    how = f"sampled: Shapley values over {2 * n_orders} random orders of the features, {IN_QUERY}"
    return (contributions, errors), how


def _different(x: FloatArray, base: FloatArray) -> np.ndarray:
    """Return the features in which two items differ; two blanks do not."""
    pairs = zip(x.tolist(), base.tolist(), strict=True)
    return np.flatnonzero([u != v and not (is_missing(u) and is_missing(v)) for u, v in pairs])


def _typical(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the means of the known numbers, and the most frequent text."""
    if len(rows) == 1:
        return rows[0]
    if rows.dtype != object:
        return _known_means(rows)
    typical = np.empty(rows.shape[1], dtype=object)
    for j, column in enumerate(rows.T):
        words = [value for value in column if isinstance(value, str)]
        known = [value for value in column if not is_missing(value)]
        typical[j] = Counter(words).most_common(1)[0][0] if words else None
        if known and not words:
            typical[j] = float(np.mean(known))
    return typical


def _known_means(rows: FloatArray) -> FloatArray:
    known = ~np.isnan(rows)
    total = np.where(known, rows, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def _shown(value: Any, form: str, *, is_mean: bool = False) -> str:
    if isinstance(value, str):
        return short_label(value)
    return "blank" if is_missing(value) else word_in_form(float(value), form, is_mean=is_mean)


def _predict(ranker: Any, rows: FloatArray, qid: Any = None) -> FloatArray:
    """Return scores; refuse several outputs."""
    scores: FloatArray = np.asarray(predicted(ranker, rows, qid), dtype=float)
    if scores.ndim > 1:
        raise InvalidInputError(
            f"`explain` needs a ranker with one output: this one has {scores.shape[1]}. Fit one "
            "ranker for each."
        )
    return scores


def _dense(X: Any) -> NDArray[Any]:
    rows = raw_rows(X)
    if rows.ndim != 2 or len(rows) == 0:
        raise InvalidInputError(
            f"`X` must hold the items as rows of features: got shape {rows.shape}."
        )
    return rows


def _names(ranker: Any, X: Any, n_features: int, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        given = getattr(ranker, "feature_names_in_", getattr(X, "columns", None))
    if given is None:
        return tuple(f"x{at}" for at in range(1, n_features + 1))
    names = entries_of(given)
    if len(names) != n_features:
        raise InvalidInputError(
            f"`feature_names` must hold a name for each of the {n_features} features: got "
            f"{len(names)}."
        )
    return tuple(map(str, names))


def _others(queries: Queries, a: int, b: int | None) -> list[int]:
    """Return the rows to compare a with: b, or all others of its query."""
    n_items = len(queries.index)
    for name, row in (("a", a), ("b", b)):
        if row is None and name == "b":
            continue
        is_number = isinstance(row, int | np.integer) and not isinstance(row, bool)
        if not is_number or not 0 <= row < n_items:  # type: ignore[operator]
            raise InvalidInputError(
                f"`{name}` must be a row of `X`, 0 to {n_items - 1}: got {row!r}."
            )
    if b is not None:
        if queries.index[a] != queries.index[b]:
            raise InvalidInputError(
                "`a` and `b` must be items of the same query, since scores are comparable only "
                f"within a query: row {a} is of query {queries.ids[queries.index[a]]!s}, row {b} "
                f"of {queries.ids[queries.index[b]]!s}."
            )
        return [int(b)]
    rows = np.flatnonzero(queries.index == queries.index[a])
    if len(rows) < 2:
        raise InvalidInputError(
            f"The query of item {a} must hold other items to compare it with: it holds none. Give "
            "another `a`."
        )
    return [int(row) for row in rows if row != a]


@final
@dataclass(frozen=True, eq=False)
class FeatureImportance(Result):
    """Hold how much a measure loses when a feature is shuffled inside queries.

    Parameters
    ----------
    names : tuple of str
        The names of the features.
    measure : Measure
        The measure.
    value : float
        The measure without shuffling.
    losses : (n_repeats, n_features)
        By how much each shuffle makes it worse.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS, feature_importance
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> ranker = RankRLS().fit(X, X[:, 0])
    >>> importance = feature_importance(ranker, X, X[:, 0], random_state=0)
    >>> importance.mean.argmax(), bool(importance.mean[1] < 0.01)
    (np.int64(0), True)
    """

    names: tuple[str, ...]
    measure: Measure
    value: float
    losses: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The mean loss of each feature."""
        return self.losses.mean(axis=0)

    @property
    def standard_deviation(self) -> FloatArray:
        """The standard deviation of the loss over repeats."""
        return self.losses.std(axis=0)

    def __str__(self) -> str:
        return f"{self.measure!r} {self.value:.4f} without shuffling\n{text_table(self._cells())}"

    def _cells(self) -> list[list[str]]:
        rows = [["feature", "loss", "std. dev."]]
        for at in np.argsort(-self.mean, kind="stable")[:MOST_SHOWN]:
            deviation = f"{self.standard_deviation[at]:.4f}"
            rows.append([self.names[at], f"{self.mean[at]:+.4f}", deviation])
        n_left = len(self.names) - MOST_SHOWN
        return rows if n_left <= 0 else [*rows, [f"{n_left} others", "", ""]]

    def _caption(self) -> str:
        return str(self).partition("\n")[0]

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON can hold."""
        columns = {name: np.asarray(values).tolist() for name, values in self._columns().items()}
        return {"measure": repr(self.measure), "value": self.value, **columns}

    def _columns(self) -> dict[str, Any]:
        deviation = self.standard_deviation
        return {"feature": list(self.names), "loss": self.mean, "standard_deviation": deviation}

    def _draw(self, ax: Any) -> None:
        """Draw the largest losses as bars."""
        order = np.argsort(-self.mean, kind="stable")[:MOST_SHOWN][::-1]
        spread = self.standard_deviation[order]
        ax.barh(range(len(order)), self.mean[order], xerr=spread, ecolor="grey")
        ax.set_yticks(range(len(order)), [short_label(self.names[at]) for at in order])
        ax.set_xlabel(f"loss of {self.measure!r} when shuffled inside queries")


def feature_importance(
    ranker: Any,
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    measure: Measure | str = Concordance,
    n_repeats: Annotated[Count, AtMost(MOST_REPEATS)] = 5,
    feature_names: Sequence[str] | None = None,
    progress: bool = False,
    random_state: Any = None,
) -> FeatureImportance:
    """Measure how much worse the ranking gets when one feature is shuffled inside queries.

    Shuffling inside queries preserves what a feature says about a query as a whole, on which no
    ranking depends. Redundant features share their importance.

    Parameters
    ----------
    ranker : ranker or Pipeline
        A fitted ranker with one output.
    X, y, qid
        Items that the ranker has not seen, their scores and their queries.
    measure : Measure or str
        By default the share of pairs in the right order.
    n_repeats : int
        Number of shuffles of each feature.
    feature_names : sequence of str, optional
        The names of the features; by default those of the ranker or of the columns of X.
    progress : bool
        Show a progress bar.
    random_state : int, RandomState or None
        Source of the shuffles.

    Returns
    -------
    importance : FeatureImportance

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS, feature_importance
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 2)), np.repeat(np.arange(6), 10)
    >>> ranker = RankRLS().fit(X, X[:, 0], qid=qid)
    >>> print(feature_importance(ranker, X, X[:, 0], qid, random_state=0))
    Concordance 0.99... without shuffling
    feature     loss  std. dev.
    x1       +0.4...
    x2       +0...
    """
    rows, chosen = _dense(X), parse_measure(measure)
    names = _names(ranker, X, rows.shape[1], feature_names)
    queries, truth = Queries.of(qid, len(rows)), check_scores(y)
    check_call(feature_importance, n_repeats=n_repeats)
    rng = generator(random_state)
    value = chosen.overall(truth, _predict(ranker, rows, queries.index), queries)
    sign = 1.0 if chosen.greater_is_better else -1.0
    losses = np.empty((n_repeats, rows.shape[1]))
    n_features = rows.shape[1]
    for k in followed(range(n_features), n_features, "features shuffled", shown=progress):
        shuffles = np.stack(list(_shuffles(queries, n_repeats, rng)))
        shuffled = (_with_column(rows, k, order) for order in shuffles)
        scores = [_predict(ranker, one, queries.index) for one in shuffled]
        values = chosen.overall_many(truth, np.stack(scores), queries)
        losses[:, k] = sign * (value - values)
    return FeatureImportance(names, chosen, float(value), losses)


def _shuffles(queries: Queries, n_repeats: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield permutations of the rows that stay inside queries."""
    sorted_rows = queries.order
    for _ in range(n_repeats):
        order = np.empty(len(sorted_rows), dtype=np.intp)
        keys = rng.random(len(sorted_rows))
        order[sorted_rows] = np.lexsort((keys, queries.index))
        yield order


def _with_column(rows: FloatArray, k: int, order: np.ndarray) -> FloatArray:
    shuffled = rows.copy()
    shuffled[:, k] = rows[order, k]
    return shuffled
