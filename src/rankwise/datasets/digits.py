"""Ranking queries built from the handwritten digits of scikit-learn."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.datasets import load_digits

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.base import generator

N_DIGITS = 10
BRIGHTEST = 16.0  # pixels are whole numbers from 0 to this


@final
@dataclass(frozen=True, eq=False)
class DigitsPart:
    """Hold one set of queries, one row per image.

    Parameters
    ----------
    X : (n_items, 64)
        The pixels between 0 and 1, row by row of the image.
    y : (n_items,)
        The grade of the image within its query.
    qid : (n_items,)
        The number of the query.
    digits : (n_items,)
        The digit that the image shows, not meant for training.

    Examples
    --------
    >>> from rankwise.datasets import load_digits_queries
    >>> load_digits_queries(n_queries=5, n_items=4).test
    DigitsPart(5 queries, 20 items)
    """

    X: FloatArray
    y: FloatArray
    qid: IntArray
    digits: IntArray

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.y)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(np.unique(self.qid))

    def __repr__(self) -> str:
        return f"DigitsPart({self.n_queries} queries, {self.n_items} items)"


@final
@dataclass(frozen=True, eq=False)
class DigitsQueries:
    """Hold queries for training, validation and testing, over disjoint sets of images.

    Parameters
    ----------
    train, validation, test : DigitsPart
        The queries; no two parts share a query number.

    Examples
    --------
    >>> from rankwise.datasets import load_digits_queries
    >>> data = load_digits_queries(n_queries=3)
    >>> [sorted(set(part.qid.tolist())) for part in (data.train, data.validation, data.test)]
    [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    """

    train: DigitsPart
    validation: DigitsPart
    test: DigitsPart


def load_digits_queries(
    *,
    n_queries: int = 100,
    n_items: int = 20,
    n_grades: int = 4,
    share_images: bool = True,
    random_state: Any = 0,
) -> DigitsQueries:
    """Build queries that ask to rank images of handwritten digits.

    A query draws ``n_grades`` neighbouring digits, such as 3, 4, 5, 6, and ``n_items`` images of
    them, and grades them relative to each other: 0 for a 3 up to 3 for a 6. In another query a 6
    may have grade 0. Grades are therefore comparable only within a query, and a ranker that uses
    the queries can do better than regression on the grades.

    Parameters
    ----------
    n_queries : int
        Number of queries in each of the three sets.
    n_items : int
        Number of images in each query, all different.
    n_grades : int
        Number of neighbouring digits in each query, 2 to 10. With 10 all queries are graded alike.
    share_images : bool
        Whether other queries of the same set may show the same images. If they do, a query that is
        held out has images that were learned from, which makes it easier than one of new images;
        if not, a set has few queries.
    random_state : int, RandomState or None
        Source of randomness for images and queries.

    Returns
    -------
    DigitsQueries
        ``train``, ``validation`` and ``test``, each from a third of the 1797 images.

    Notes
    -----
    As in [LS08] Sect. 6, queries are random samples of items and a grade is the class of an item;
    unlike in the paper, each query grades the classes separately, and training and test share no
    image.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.datasets import load_digits_queries
    >>> data = load_digits_queries()
    >>> data.train
    DigitsPart(100 queries, 2000 items)
    >>> ranker = RankRLS(alpha=0.1, kernel="gaussian")
    >>> ranker = ranker.fit(data.train.X, data.train.y, qid=data.train.qid)
    >>> ranker.score(data.test.X, data.test.y, qid=data.test.qid) > 0.8
    True
    """
    _check_options(n_queries, n_items, n_grades)
    pixels, digits = load_digits(return_X_y=True)
    rng = generator(random_state)
    parts = []
    # disjoint thirds of the images for training, validation and testing
    for number, images in enumerate(np.array_split(rng.permutation(len(digits)), 3)):
        drawn, left = [], images
        for _ in range(n_queries):
            drawn.append(_draw_query(digits, left, n_items, n_grades, rng))
            left = images if share_images else np.setdiff1d(left, drawn[-1][0])
        rows = np.concatenate([rows for rows, _ in drawn])
        grades = np.concatenate([grades for _, grades in drawn])
        qid = np.repeat(np.arange(n_queries) + number * n_queries, n_items)
        parts.append(DigitsPart(pixels[rows] / BRIGHTEST, grades, qid, digits[rows]))
    return DigitsQueries(*parts)


def _check_options(n_queries: int, n_items: int, n_grades: int) -> None:
    if n_queries < 1:
        raise InvalidInputError(f"`n_queries` must be at least 1: got {n_queries}.")
    if n_items < 2:
        raise InvalidInputError(f"`n_items` must be at least 2: got {n_items}.")
    if not 2 <= n_grades <= N_DIGITS:
        raise InvalidInputError(f"`n_grades` must be from 2 to {N_DIGITS}: got {n_grades}.")


def _draw_query(
    digits: IntArray, images: IntArray, n_items: int, n_grades: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return the rows of one query and their grades."""
    # neighbouring digits, graded from the lowest
    lowest = rng.integers(N_DIGITS - n_grades + 1)
    grades = digits[images] - lowest
    shown = (grades >= 0) & (grades < n_grades)
    if n_items > shown.sum():
        raise InvalidInputError(
            f"`n_items` must not exceed the number of images of {n_grades} digits: got {n_items}, "
            f"there are {shown.sum()} left. Use fewer items, more grades or, if queries share no "
            "images, fewer queries."
        )
    chosen = rng.choice(np.flatnonzero(shown), n_items, replace=False)
    return images[chosen], grades[chosen].astype(float)
