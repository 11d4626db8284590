"""Categories and blanks as numbers without a look at scores, so that hold-outs stay exact."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import BoolArray, FloatArray, Matrix
from rankwise.core.params import Shape
from rankwise.core.queries import Queries
from rankwise.core.storable import Counted, Finite, PositionsIn
from rankwise.transformers.base import QueryTransformer
from rankwise.transformers.categories import BLANK, categories_of, is_numeric, numbers_of


@final
class IndicatorEncoder(QueryTransformer):
    """Replace categories by indicators and blanks by means, and bring numbers to one scale.

    A category becomes a feature for each of its values, 1 where an item has it and 0 elsewhere. A
    number is divided by its standard deviation; a blank becomes the mean, and a feature that says
    which numbers were blank is added. Scores are not looked at, so that hold-outs of a ranker on
    these features, such as leaving out each pair, stay exact.

    Attributes
    ----------
    columns_ : list of int
        The features that are categories.
    categories_ : list of arrays
        Their values as text.
    blanks_ : list of int
        The numbers that had blanks.
    means_, scales_ : (n_features,)
        Of numbers; 0 and 1 for categories.
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Notes
    -----
    A value that `fit` has not seen has no indicator. Scales and means are those of all rows in
    `fit`: leaving out a pair of items does not change them, nor which values there are.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import IndicatorEncoder
    >>> X = np.array([["f", 2.0], ["m", np.nan], ["m", 4.0]], dtype=object)
    >>> IndicatorEncoder().fit_transform(X)
    array([[1., 0., 2., 0.],
           [0., 1., 3., 1.],
           [0., 1., 4., 0.]])
    """

    takes_text = True

    __metadata_request__fit: ClassVar = {"qid": False}
    __metadata_request__transform: ClassVar = {"qid": False}

    columns_: Annotated[list[Counted], Shape("n_encoded"), PositionsIn("n_features")]
    categories_: Annotated[list[NDArray[np.str_]], Shape("n_encoded")]
    blanks_: Annotated[list[Counted], Shape("n_blank"), PositionsIn("n_features")]
    means_: Annotated[FloatArray, Finite(), Shape("n_features")]
    scales_: Annotated[FloatArray, Finite(), Shape("n_features")]

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:  # noqa: ARG002
        n_features = X.shape[1]
        self.columns_ = [j for j in range(n_features) if not is_numeric(X[:, j])]
        self.categories_ = [categories_of(X[:, j])[0] for j in self.columns_]
        self.blanks_, self.means_, self.scales_ = [], np.zeros(n_features), np.ones(n_features)
        for j in set(range(n_features)) - set(self.columns_):
            values = numbers_of(X[:, j], j)
            known = values[~np.isnan(values)]
            if len(known) < len(values):
                self.blanks_.append(j)
            if len(known):
                self.means_[j] = known.mean()
                spread = float(known.std())
                is_rounding = spread <= 1e-12 * float(np.abs(known).max())
                self.scales_[j] = 1.0 if is_rounding else spread
        self.blanks_.sort()

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:  # noqa: ARG002
        encoded: list[FloatArray] = []
        for j in range(X.shape[1]):
            if j in self.columns_:
                encoded += self._indicators(X[:, j], self.categories_[self.columns_.index(j)])
                continue
            values = numbers_of(X[:, j], j)
            is_blank = np.isnan(values)
            encoded.append(np.where(is_blank, self.means_[j], values) / self.scales_[j])
            if j in self.blanks_:
                encoded.append(is_blank.astype(float))
        return np.column_stack(encoded)

    @staticmethod
    def _indicators(column: NDArray[Any], known: NDArray[np.str_]) -> list[FloatArray]:
        texts, number = categories_of(column)
        is_text: BoolArray = known[:, None] == texts[None, :]
        return [one[number].astype(float) for one in is_text]

    def _names(self, names: list[str]) -> list[str]:
        found = []
        for j, name in enumerate(names):
            if j in self.columns_:
                values = self.categories_[self.columns_.index(j)].tolist()
                found += [f"{name} = {'blank' if v == BLANK else v}" for v in values]
                continue
            found += [name, f"{name} is blank"] if j in self.blanks_ else [name]
        return found
