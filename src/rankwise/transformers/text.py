"""Features from text: how well the text of an item matches that of its query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import entries_of, is_missing
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import CheckedWith, Shape
from rankwise.core.queries import Queries
from rankwise.core.storable import Counted, Finite, PositionsIn
from rankwise.core.words import words_of
from rankwise.transformers.base import QueryTransformer

Embed: TypeAlias = Callable[[list[str]], Any]
"""A function from texts to their vectors, one row each."""

K1, B = 1.2, 0.75
"""Saturation of word counts and normalisation by length, as search engines set them."""


@final
class TextFeatures(QueryTransformer):
    r"""Replace the text of queries and items by numbers that say how well they match.

    For each column of text: the share of the query's words that occur in it; BM25, the sum over
    these words of
    :math:`\mathrm{idf}_w \, t_w (k_1 + 1) / (t_w + k_1 (1 - b + b \, l / \bar l))`, for t
    occurrences in a text of l words; and the cosine of the two texts with the weights
    :math:`(1 + \log t_w) \, \mathrm{idf}_w`. In how many texts a word occurs, and their mean
    length, are those of the rows in `fit`.

    Parameters
    ----------
    query : int or str
        The column of the queries' text, by position or by name.
    texts : list of int or of str
        The columns of the items' text.
    embed : function, optional
        Takes a list of texts and returns a vector for each; adds the cosine of these vectors for
        each column. It is not saved with a model.

    Attributes
    ----------
    query_column_, text_columns_ : int, list of int
        Their positions.
    words_, word_counts_ : list of arrays
        For each column the known words, and the number of different texts that hold them.
    text_counts_, mean_lengths_ : (n_texts,)
        The number of different texts of each column, and their mean number of words.
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Notes
    -----
    The other columns come first in the output, unchanged; the columns of text are gone. The
    inverse document frequency is that of Lucene, :math:`\log(1 + (N - n + 0.5) / (n + 0.5))`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import TextFeatures
    >>> titles = ["Red running shoes", "Blue shoes", "Red socks"]
    >>> X = np.array([["red shoes", title] for title in titles], dtype=object)
    >>> TextFeatures(query=0, texts=[1]).fit_transform(X).round(2)
    array([[1.  , 0.84, 0.56],
           [0.5 , 0.5 , 0.31],
           [0.5 , 0.5 , 0.31]])
    """

    takes_text = True

    query_column_: Counted
    text_columns_: Annotated[list[Counted], Shape("n_texts"), PositionsIn("n_features")]
    words_: Annotated[list[NDArray[np.str_]], Shape("n_texts")]
    word_counts_: Annotated[list[Annotated[FloatArray, Finite()]], Shape("n_texts")]
    text_counts_: Annotated[FloatArray, Finite(), Shape("n_texts")]
    mean_lengths_: Annotated[FloatArray, Finite(), Shape("n_texts")]

    def __init__(
        self,
        query: Annotated[int | str, CheckedWith("X")],
        texts: Annotated[list[int] | list[str], CheckedWith("X")],
        *,
        embed: Annotated[Embed | None, CheckedWith("X")] = None,
    ) -> None:
        self.query = query
        self.texts = texts
        self.embed = embed

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:  # noqa: ARG002
        self.query_column_, *self.text_columns_ = self._chosen()
        found = [_count_words(X[:, j]) for j in self.text_columns_]
        self.words_ = [words for words, *_ in found]
        self.word_counts_ = [counts for _, counts, *_ in found]
        self.text_counts_ = np.array([n_texts for *_, n_texts, _ in found], dtype=float)
        self.mean_lengths_ = np.array([length for *_, length in found])

    def _chosen(self) -> list[int]:
        """Return the column of the queries' text, then those of the items'."""
        asked = [self.query, *entries_of(self.texts)]
        found = self._positions(asked, "`query` and `texts` must be columns of X")
        if len(found) < 2 or len(set(found)) < len(found):
            raise InvalidInputError(
                f"`texts` must name at least one column, each once and none of them `query`: got "
                f"{self.texts!r}."
            )
        return found

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:  # noqa: ARG002
        others = [
            j for j in range(X.shape[1]) if j not in (self.query_column_, *self.text_columns_)
        ]
        asked = X[:, self.query_column_]
        matches = [
            feature
            for k, j in enumerate(self.text_columns_)
            for feature in self._matches(k, asked, X[:, j])
        ]
        rows = np.empty((len(X), len(others) + len(matches)), dtype=object)
        rows[:, : len(others)] = X[:, others]
        rows[:, len(others) :] = np.transpose(matches)
        try:
            return rows.astype(float)
        except (TypeError, ValueError):  # categories among the other columns
            return rows

    def _matches(self, k: int, asked: NDArray[Any], texts: NDArray[Any]) -> list[FloatArray]:
        """Return the features of one column of text."""
        split = {text: Counter(words_of(text)) for text in {*_keys(asked), *_keys(texts)}}
        weight = self._weights(k, {word for words in split.values() for word in words})
        norm = {text: _norm(words, weight) for text, words in split.items()}
        mean_length = max(float(self.mean_lengths_[k]), 1.0)
        found = np.zeros((3, len(texts)))
        for row, (query, text) in enumerate(zip(_keys(asked), _keys(texts), strict=True)):
            sought, words = split[query], split[text]
            shared = [word for word in sought if word in words]
            if not shared:
                continue
            long = K1 * (1.0 - B + B * words.total() / mean_length)
            found[0, row] = len(shared) / len(sought)
            found[1, row] = sum(
                weight[w] * words[w] * (K1 + 1.0) / (words[w] + long) for w in shared
            )
            product = sum(_damped(sought[w]) * _damped(words[w]) * weight[w] ** 2 for w in shared)
            found[2, row] = product / (norm[query] * norm[text])
        if self.embed is None:
            return list(found)
        return [*found, _cosines(self.embed, _keys(asked), _keys(texts))]

    def _weights(self, k: int, words: set[str]) -> Mapping[str, float]:
        """Return the inverse document frequencies of words in a column, also of new ones."""
        known, n_texts = self.words_[k], self.text_counts_[k]
        asked = np.array(sorted(words), dtype=np.str_)
        counts = np.zeros(len(asked))
        if len(known) and len(asked):
            at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
            counts = np.where(known[at] == asked, self.word_counts_[k][at], 0.0)
        weights = np.log1p((n_texts - counts + 0.5) / (counts + 0.5))
        return dict(zip(asked.tolist(), weights.tolist(), strict=True))

    def _names(self, names: list[str]) -> list[str]:
        gone = (self.query_column_, *self.text_columns_)
        kinds = ["share of query words", "BM25", "TF-IDF cosine"]
        kinds += [] if self.embed is None else ["cosine of embeddings"]
        others = [name for j, name in enumerate(names) if j not in gone]
        return others + [f"{names[j]}, {kind}" for j in self.text_columns_ for kind in kinds]


def _keys(column: NDArray[Any]) -> list[str]:
    """Return the cells of a column as text, blanks as empty text."""
    return ["" if is_missing(cell) else str(cell) for cell in column.tolist()]


def _count_words(column: NDArray[Any]) -> tuple[NDArray[np.str_], FloatArray, int, float]:
    """Return the words, how many texts hold each, the number of texts, their mean length."""
    texts = [words_of(text) for text in sorted(set(_keys(column)) - {""})]
    counts = Counter(word for words in texts for word in set(words))
    known = sorted(counts)
    length = sum(map(len, texts)) / max(len(texts), 1)
    numbers = np.array([counts[word] for word in known], dtype=float)
    return np.array(known, dtype=np.str_), numbers, len(texts), length


def _damped(count: int) -> float:
    return 1.0 + float(np.log(count))


def _norm(words: Counter[str], weight: Mapping[str, float]) -> float:
    return float(np.sqrt(sum((_damped(n) * weight[word]) ** 2 for word, n in words.items())))


def _cosines(embed: Embed, queries: Sequence[str], texts: Sequence[str]) -> FloatArray:
    """Return the cosines of embedded queries and texts; each text is embedded once."""
    known = sorted({*queries, *texts})
    place = {text: row for row, text in enumerate(known)}
    vectors = np.asarray(embed(known), dtype=float)
    if vectors.ndim != 2 or len(vectors) != len(known) or not np.isfinite(vectors).all():
        raise InvalidInputError(
            f"`embed` must return a vector of finite numbers for each of {len(known)} texts: got "
            f"shape {vectors.shape}."
        )
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(length > 0.0, length, 1.0)
    a, b = ([place[text] for text in column] for column in (queries, texts))
    return np.einsum("ij,ij->i", vectors[a], vectors[b])
