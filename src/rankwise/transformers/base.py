"""What transformers inside queries share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import Matrix
from rankwise.core.checks import refuse_overflow
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import AtLeast, Shape, Size, checked
from rankwise.core.queries import Queries


class QueryTransformer(TransformerMixin, BaseEstimator, ABC):
    """A transformer of features that takes ``qid`` wherever it takes X.

    With metadata routing, ``qid`` is requested in ``fit`` and ``transform`` by default.
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__transform: ClassVar = {"qid": True}

    takes_text: ClassVar[bool] = False
    """Whether cells may be text; rows are then dense, of any type."""

    n_features_in_: Annotated[int, AtLeast(0), Size("n_features")]
    feature_names_in_: Annotated[NDArray[np.str_], Shape("n_features")]
    fitted_with_qid_: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = self.takes_text
        return tags

    @abstractmethod
    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> Any:
        """Store what is needed to transform other rows; return results for the given rows."""

    @abstractmethod
    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:
        """Return the transformed features of checked rows; `found` are results of `_learn`."""

    @abstractmethod
    def _names(self, names: list[str]) -> list[str]:
        """Return the names of the output features, given the names of the input features."""

    def fit(
        self, X: Any, y: ArrayLike | None = None, qid: ArrayLike | Queries | None = None
    ) -> Self:
        """Learn what the transformation needs.

        Parameters
        ----------
        X : (n_items, n_features)
            The rows; NaN is a blank.
        y : (n_items,), optional
            Scores of the items, for transformers that learn from them.
        qid : (n_items,), optional
            The query of each row, in any order; by default all rows form one query.
        """
        X, queries = self._begin(X, qid)
        self._learn(X, y, queries)
        return self

    def _begin(self, X: Any, qid: ArrayLike | Queries | None) -> tuple[Any, Queries]:
        """Check the arguments of a fit."""
        checked(self)
        X = self._check_rows(X, reset=True)
        self.fitted_with_qid_ = qid is not None
        return X, Queries.of(qid, X.shape[0])

    def transform(self, X: Any, qid: ArrayLike | Queries | None = None) -> Any:
        """Return the transformed features; all rows of a query must be given together.

        Parameters
        ----------
        X : (n_items, n_features)
            The rows.
        qid : (n_items,), optional
            The query of each row; must be given if `fit` had one.
        """
        check_is_fitted(self)
        if qid is None and self.fitted_with_qid_:
            raise InvalidInputError(
                f"{type(self).__name__} must be given `qid`, since it was fitted with it: it "
                "compares the rows of one query. Pass qid=... (for rows of a single query, the "
                "same id for all); in a scikit-learn Pipeline, enable metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        X = self._check_rows(X, reset=False)
        return self._transformed(X, Queries.of(qid, X.shape[0]))

    def fit_transform(
        self, X: Any, y: ArrayLike | None = None, qid: ArrayLike | Queries | None = None
    ) -> Any:
        """Fit to the rows and return their transformed features.

        Parameters
        ----------
        X, y, qid
            As in `fit`.
        """
        X, queries = self._begin(X, qid)
        return self._transformed(X, queries, self._learn(X, y, queries))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the output features.

        Parameters
        ----------
        input_features : (n_features,), optional
            The names of the input features; by default the names given to `fit`, or x0, x1, ...
        """
        check_is_fitted(self)
        given = (
            input_features if input_features is not None else vars(self).get("feature_names_in_")
        )
        if given is None:
            given = [f"x{j}" for j in range(self.n_features_in_)]
        return np.asarray(self._names([str(name) for name in given]), dtype=object)

    def _check_rows(self, X: Any, *, reset: bool) -> Matrix:
        """Return rows in C order, as floats unless they may hold text; blanks are allowed."""
        dtype = None if self.takes_text else np.float64
        if self.takes_text:
            refuse_sparse_rows(X, type(self).__name__, "Use X.toarray().")
        with refuse_overflow():
            rows = validate_data(
                self, X, reset=reset, dtype=dtype, order="C", ensure_all_finite="allow-nan"
            )
        return rows

    def _positions(self, columns: list[Any], rule: str) -> list[int]:
        """Return the positions of columns given by name or position; refuse others by this rule."""
        names = [str(name) for name in vars(self).get("feature_names_in_", ())]
        found = [names.index(c) if isinstance(c, str) and c in names else c for c in columns]
        last = self.n_features_in_ - 1
        for c in found:
            if not isinstance(c, int | np.integer) or not 0 <= c <= last:
                raise InvalidInputError(
                    f"{rule}, by position from 0 to {last} or by name: got {c!r}."
                )
        return [int(c) for c in found]


def refuse_sparse_rows(X: Any, owner: str, remedy: str) -> None:
    """Refuse sparse rows if zeros do not stay zeros."""
    if sparse.issparse(X):
        raise InvalidInputError(
            f"{owner} must have dense rows, since zeros do not stay zeros: got a sparse X. {remedy}"
        )
