"""Categories as numbers: how far their items score above the mean of their query."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.core.checks import (
    check_length,
    entries_of,
    is_missing,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, CheckedWith, Positive, Shape
from rankwise.core.queries import Queries, one_output
from rankwise.core.storable import AsLongAs, Counted, Finite, PositionsIn
from rankwise.transformers.base import QueryTransformer

N_FOLDS = 5
"""Number of folds of queries, each encoded by the other folds."""

ROUNDING = 1e-12
"""Share of the largest score below which a category's mean is rounding error."""

BLANK = "\x00blank"
"""The category of blanks."""

MOST_CROSSES = 30
"""Crosses that are chosen by themselves, at most: those of the fewest categories."""

LARGEST_SHARE = 0.5
"""Largest number of categories of a cross, as a share of the items."""


@final
@dataclass(frozen=True, eq=False)
class _Excess:
    """How far each training item scores above its query's mean.

    Parameters
    ----------
    excess : (n_items,)
        The score less the mean of the query.
    rounding : float
        Means below this are rounding errors.
    categories : list of (n_items,)
        The category of each item, for each encoded feature.
    varies : list of bool
        Whether an encoded feature differs inside some query.
    crossed : list of (n_items,)
        The category of each item, for each cross.
    """

    excess: FloatArray
    rounding: float
    categories: list[IntArray]
    varies: list[bool]
    crossed: list[IntArray]

    def codes(self, total: FloatArray, count: IntArray, smoothing: float) -> FloatArray:
        """Return shrunken means of sums; exactly 0 where a sum is only rounding."""
        known = np.abs(total) > self.rounding * count
        return np.where(known, total, 0.0) / (count + smoothing)


@final
class WithinQueryEncoder(QueryTransformer):
    r"""Encode a category by how far its items scored above the mean of their query.

    The code of category c is the mean of :math:`y_i - \bar y_{q(i)}` over its training items,
    shrunk towards 0 as if `smoothing` average items were among them. A category that was never seen
    has the code 0. Numbers are left unchanged.

    A feature that is constant inside every training query (a user's country) says nothing by itself
    about the order of items, and all these means are 0. Its categories are numbered by frequency
    instead, from 1 for the rarest, so that trees can combine it with other features.

    Crosses are categories that two features make together (a jockey on a kind of ground), encoded
    in the same way, as further features. With them come features of how often each category occurs:
    its share of the training items.

    ``fit_transform`` encodes each fifth of the training queries by the others, so that no item is
    encoded by its own score. Later rows are encoded by all training queries.

    Parameters
    ----------
    columns : list of int or of str, optional
        The features to encode, by position or by name; by default all that are not numbers.
    smoothing : float
        Number of average items that each category starts with.
    crosses : list of pairs of int, or "auto", optional
        The features to cross, by position. "auto" crosses up to 30 pairs of encoded features that
        make at most half as many categories as there are items, and more than either has, unless
        both are constant inside queries.

    Attributes
    ----------
    columns_ : list of int
        The features that are encoded.
    categories_, codes_ : list of arrays
        For each of them, the categories as text, and their codes.
    frequencies_ : list of arrays
        The shares of the training items that have them.
    crosses_ : (n_crosses, 2)
        The entries of ``columns_`` that are crossed.
    cross_keys_, cross_codes_ : list of arrays
        For each cross, the numbers of its known categories, and their codes: the number of the
        first feature's category, times the number of categories of the second, plus its number.
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import WithinQueryEncoder
    >>> X = np.array([["pdf", 3.0], ["html", 1.0], ["html", 2.0], ["pdf", 2.0]], dtype=object)
    >>> encoder = WithinQueryEncoder(smoothing=2.0).fit(X, [2, 0, 1, 3], qid=[1, 1, 2, 2])
    >>> encoder.transform(X, qid=[1, 1, 2, 2])
    array([[ 0.5,  3. ],
           [-0.5,  1. ],
           [-0.5,  2. ],
           [ 0.5,  2. ]])
    """

    takes_text = True

    columns_: Annotated[list[Counted], Shape("n_encoded"), PositionsIn("n_features")]
    categories_: Annotated[list[NDArray[np.str_]], Shape("n_encoded")]
    codes_: Annotated[list[Annotated[FloatArray, Finite()]], AsLongAs("categories_")]
    frequencies_: Annotated[list[Annotated[FloatArray, Finite()]], AsLongAs("codes_")]
    crosses_: Annotated[IntArray, Shape("n_crosses", "two"), PositionsIn("n_encoded")]
    cross_keys_: Annotated[list[IntArray], Shape("n_crosses")]
    cross_codes_: Annotated[list[Annotated[FloatArray, Finite()]], AsLongAs("cross_keys_")]

    def __init__(
        self,
        columns: Annotated[list[int] | list[str] | None, CheckedWith("X")] = None,
        *,
        smoothing: Annotated[float, Positive(), Advice("It is a number of items.")] = 10.0,
        crosses: Annotated[
            Literal["auto"] | list[tuple[int, int]] | list[list[int]] | None, CheckedWith("X")
        ] = None,
    ) -> None:
        self.columns = columns
        self.smoothing = smoothing
        self.crosses = crosses

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> _Excess:
        self.columns_ = self._chosen(X)
        scores = _scores(X, y)
        known = [categories_of(X[:, j]) for j in self.columns_]
        self.categories_ = [categories for categories, _ in known]
        numbers = [number for _, number in known]
        varies = [_varies_inside(number, queries) for number in numbers]
        # crosses: the pairs of categories that occur
        self.crosses_ = self._chosen_crosses(numbers, varies)
        pairs = [self._crossed(numbers, a, b) for a, b in self.crosses_.tolist()]
        crossed = [np.unique(keys, return_inverse=True) for keys in pairs]
        self.cross_keys_ = [keys for keys, _ in crossed]
        found = _Excess(
            scores - queries.spread(queries.mean(scores)),
            ROUNDING * float(np.abs(scores).max(initial=0.0)),
            numbers,
            varies,
            [number for _, number in crossed],
        )
        self.codes_ = [self._codes(k, found) for k in range(len(numbers))]
        self.cross_codes_ = [
            self._means(number, len(keys), found)
            for number, keys in zip(found.crossed, self.cross_keys_, strict=True)
        ]
        counts = [
            np.bincount(number, minlength=len(categories))
            for number, categories in zip(numbers, self.categories_, strict=True)
        ]
        self.frequencies_ = [count / len(scores) for count in counts]
        return found

    def _chosen(self, X: NDArray[Any]) -> list[int]:
        """Return the positions of the features to encode."""
        if self.columns is None:
            return [j for j in range(X.shape[1]) if not is_numeric(X[:, j])]
        return self._positions(entries_of(self.columns), "`columns` must hold features of X")

    def _chosen_crosses(self, numbers: list[IntArray], varies: list[bool]) -> IntArray:
        """Return the pairs of encoded features that are crossed, as entries of `columns_`."""
        if self.crosses is None:
            return np.zeros((0, 2), dtype=np.intp)
        if not (isinstance(self.crosses, str) and self.crosses == "auto"):
            pairs = [entries_of(pair) for pair in entries_of(self.crosses)]
            for pair in pairs:
                known = [c for c in pair if isinstance(c, int | np.integer) and c in self.columns_]
                if len(pair) != 2 or len(known) != 2:
                    raise InvalidInputError(
                        '`crosses` must be "auto" or hold pairs of encoded features, by position '
                        f"among {self.columns_}: got {pair!r}."
                    )
            places = [[self.columns_.index(column) for column in pair] for pair in pairs]
            return np.array(places, dtype=np.intp).reshape(-1, 2)
        sizes = [len(categories) for categories in self.categories_]
        found = []
        for a, b in itertools.combinations(range(len(numbers)), 2):
            if varies[a] or varies[b]:
                size = len(np.unique(self._crossed(numbers, a, b)))
                if max(sizes[a], sizes[b]) < size <= LARGEST_SHARE * len(numbers[a]):
                    found.append((size, a, b))
        kept = [(a, b) for _, a, b in sorted(found)[:MOST_CROSSES]]
        return np.array(sorted(kept), dtype=np.intp).reshape(-1, 2)

    def _crossed(self, numbers: list[IntArray], a: int, b: int) -> IntArray:
        """Return the number of the pair of two categories."""
        return np.asarray(numbers[a] * len(self.categories_[b]) + numbers[b])

    def _codes(self, k: int, found: _Excess) -> FloatArray:
        number, n_categories = found.categories[k], len(self.categories_[k])
        if not found.varies[k]:
            count = np.bincount(number, minlength=n_categories)
            codes = np.empty(n_categories)
            codes[np.argsort(count, kind="stable")] = np.arange(1, n_categories + 1)
            return codes
        return self._means(number, n_categories, found)

    def _means(self, number: IntArray, n_categories: int, found: _Excess) -> FloatArray:
        count = np.bincount(number, minlength=n_categories)
        total = sum_by(number, found.excess, n_categories)
        return found.codes(total, count, self.smoothing)

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:
        added = self._added_names([""] * X.shape[1])
        encoded = np.empty((X.shape[0], X.shape[1] + len(added)))
        for j in set(range(X.shape[1])) - set(self.columns_):
            encoded[:, j] = numbers_of(X[:, j], j)
        make = self._of_later_rows(X) if found is None else self._of_training_rows(found, queries)
        places = [*self.columns_, *range(X.shape[1], encoded.shape[1])]
        for j, values in zip(places, make, strict=True):
            encoded[:, j] = values
        return encoded

    def _of_later_rows(self, X: Matrix) -> Iterator[FloatArray]:
        """Encode rows by the training rows; unseen categories are 0. Then crosses, then shares."""
        places = [self._places(k, X[:, j]) for k, j in enumerate(self.columns_)]
        for codes, place in zip(self.codes_, places, strict=True):
            yield np.append(codes, 0.0)[place]
        crossed = zip(self.crosses_.tolist(), self.cross_keys_, self.cross_codes_, strict=True)
        for (a, b), keys, codes in crossed:
            wanted = self._crossed(places, a, b)
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            is_known = (places[a] >= 0) & (places[b] >= 0) & (keys[at] == wanted)
            yield np.where(is_known, codes[at], 0.0)
        if self.crosses is not None:
            for share, place in zip(self.frequencies_, places, strict=True):
                yield np.append(share, 0.0)[place]

    def _places(self, k: int, column: NDArray[Any]) -> IntArray:
        """Return the number of the category of each row; -1 for unseen ones."""
        categories = self.categories_[k]
        texts, number = categories_of(column)
        at = np.minimum(np.searchsorted(categories, texts), len(categories) - 1)
        return np.asarray(np.where(categories[at] == texts, at, -1)[number])

    def _of_training_rows(self, found: _Excess, queries: Queries) -> Iterator[FloatArray]:
        """Encode each fifth of the training queries, or items, by the others."""
        n_items = len(found.excess)
        groups = (queries.index if self.fitted_with_qid_ else np.arange(n_items)) % N_FOLDS
        for k, number in enumerate(found.categories):
            if found.varies[k]:
                yield self._by_others(number, len(self.categories_[k]), found, groups)[0]
            else:
                yield self.codes_[k][number]  # which no score has decided
        for number, keys in zip(found.crossed, self.cross_keys_, strict=True):
            yield self._by_others(number, len(keys), found, groups)[0]
        if self.crosses is not None:
            others = np.maximum(n_items - np.bincount(groups, minlength=N_FOLDS), 1)[groups]
            for k, number in enumerate(found.categories):
                yield self._by_others(number, len(self.categories_[k]), found, groups)[1] / others

    def _by_others(
        self, number: IntArray, n_categories: int, found: _Excess, groups: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the codes of items by the other folds, and how often their categories are there.

        The folds are numbered.
        """
        # sums of each fold and category, then over all other folds
        cell = groups * n_categories + number
        shape = (N_FOLDS, n_categories)
        total = sum_by(cell, found.excess, N_FOLDS * n_categories).reshape(shape)
        count = np.bincount(cell, minlength=N_FOLDS * n_categories).reshape(shape)
        total, count = total.sum(axis=0) - total, count.sum(axis=0) - count
        return found.codes(total, count, self.smoothing).ravel()[cell], count.ravel()[cell]

    def _names(self, names: list[str]) -> list[str]:
        return names + self._added_names(names)

    def _added_names(self, names: list[str]) -> list[str]:
        """Return the names of the features that come with crosses."""
        if self.crosses is None:
            return []
        encoded = [names[j] for j in self.columns_]
        crossed = [f"{encoded[a]} and {encoded[b]}" for a, b in self.crosses_.tolist()]
        return crossed + [f"frequency of {name}" for name in encoded]


def _varies_inside(number: IntArray, queries: Queries) -> bool:
    """Return whether a query holds items of several categories."""
    of_query = np.empty(queries.n_queries, dtype=np.intp)
    of_query[queries.index] = number
    return bool((of_query[queries.index] != number).any())


def _scores(X: Matrix, y: ArrayLike | None) -> FloatArray:
    if y is None:
        raise InvalidInputError(
            "WithinQueryEncoder requires y to be passed, but the target y is None: it encodes a "
            "category by the scores of its items."
        )
    scores = one_output(y, "y", "Encode for one output at a time.")
    check_length("y", scores, X.shape[0])
    return scores


def is_numeric(column: NDArray[Any]) -> bool:
    """Return whether a feature holds numbers, which may be blank."""
    if column.dtype.kind in "biuf":
        return True
    if column.dtype != object or isinstance(column[0], str):
        return False
    return all(
        issubclass(kind, int | float | np.number | NoneType)
        for kind in set(map(type, column.tolist()))
    )


def numbers_of(column: NDArray[Any], j: int) -> FloatArray:
    """Return feature j as numbers, NaN for blanks."""
    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"Feature {j} must hold numbers, as it did in `fit`: {error}. Name it in `columns` "
            "to encode it."
        ) from error


def categories_of(column: NDArray[Any]) -> tuple[NDArray[np.str_], IntArray]:
    """Return the categories of a column as sorted text, and the category of each row."""
    values = column.tolist()
    # values of several types, or that cannot be hashed, are compared as text
    keys, others = values, set(map(type, values)) - {str, NoneType}
    if len(others) > 1 or any(kind.__hash__ is None for kind in others):
        keys = [_text_of(value) for value in values]  # 1, 1.0 and True are equal, their texts not
    # number the distinct values, then sort their texts
    number: defaultdict[Any, int] = defaultdict(itertools.count().__next__)  # new keys count on
    rows = np.fromiter(map(number.__getitem__, keys), dtype=np.intp, count=len(keys))
    texts = np.array([_text_of(key) for key in number], dtype=str)
    categories, position = np.unique(texts, return_inverse=True)
    return categories, position[rows]


def _text_of(value: Any) -> str:
    """Return a category as text; blanks form a category."""
    return BLANK if is_missing(value) else str(value)
