"""What every ranker shares: the tables it takes, scores, orders, the default measure, saving."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data

from rankwise.core.arrays import (
    FloatArray,
    IntArray,
    Matrix,
    as_columns,
    column_ranges,
    sum_by,
)
from rankwise.core.checks import (
    are_plain_rows,
    check_length,
    check_scores,
    refuse_blanks,
    refuse_huge_entries,
    refuse_huge_rows,
    refuse_overflow,
    refuse_unusable_rows,
)
from rankwise.core.errors import (
    FeatureScaleWarning,
    InvalidInputError,
    NumericalError,
    SeenQueriesWarning,
    warn_caller,
)
from rankwise.core.namespaces import as_given, like, on_device, on_host, to_host
from rankwise.core.params import AtLeast, Count, Shape, Size, check_call
from rankwise.core.queries import Queries, QueryFingerprints, TrainingData
from rankwise.core.registry import offered
from rankwise.core.storable import Counted, Finite
from rankwise.features.function_space import FeatureMap
from rankwise.io.frames import frame_like, read_columns
from rankwise.io.rankings import RankedItems
from rankwise.measures.value import Measure
from rankwise.rankers.reading import (
    known_rows,
    names_of_items,
    read_comparisons_of,
    read_rows,
    require_qid,
)
from rankwise.rankers.storage import save
from rankwise.selection.path import as_measure

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrameT
    from pandas import DataFrame

    from rankwise.rankers.explain import Explanation


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from scikit-learn's ``random_state``."""
    try:
        state = check_random_state(random_state)
    except ValueError as error:
        raise InvalidInputError(
            "`random_state` must be None, a generator of NumPy, or a whole number from 0 to "
            f"2**32 - 1: got {random_state!r}."
        ) from error
    return np.random.default_rng(state.randint(2**31))


def basis_generator(given: Any) -> np.random.Generator | None:
    """Return the generator that draws basis rows; None, and no draw of NumPy's, if none are."""
    is_number = isinstance(given.basis, int | np.integer)
    return generator(given.random_state) if is_number else None


WIDEST_RATIO = 1e3
"""A warning is given if the ranges of features differ by more than this factor."""


class Ranker(BaseEstimator, ABC):
    """A learner of ranking functions with scikit-learn's interface.

    With metadata routing, ``qid`` is requested in ``fit``, ``predict`` and ``score`` by default.
    Most rankers score rows one by one and ignore ``qid`` in ``predict``; those that compare the
    rows of a query require it.

    Rows may be a data frame, and ``y``, ``qid`` and ``sample_weight`` the names of its columns; the
    features are then found by name wherever the ranker is used.
    """

    __metadata_request__fit: ClassVar = {"qid": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True}

    # fitted state
    n_features_in_: Annotated[int, AtLeast(0), Size("n_features")]
    feature_names_in_: Annotated[NDArray[np.str_], Shape("n_features")]
    n_queries_: Counted
    n_ignored_queries_: Counted
    fitted_with_qid_: bool
    training_queries_: QueryFingerprints | None

    zero_based_: bool
    """Whether the svmlight file learned from numbered features from 0, where that is known.

    `LinearRankRLS.fit_file` keeps it; after `fit` set it to the ``zero_based`` of the data read.
    It is saved with the ranker, for the reading of other files; a new fit forgets it.
    """

    table_columns_: dict[str, list[str]]
    """The columns of scores, queries, items and categories, those left out, and how numbers are
    written, where a file or a raw frame was learned from."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    @property
    def compares_items_(self) -> bool:
        """Whether the score of a row depends on the other rows of its query."""
        return False

    @abstractmethod
    def _scores(self, X: Matrix) -> FloatArray:
        """Return the scores of checked rows."""

    @abstractmethod
    def predict(self, X: Any, qid: ArrayLike | None = None) -> FloatArray:
        """Return a score for every row of X; higher is better, comparable only within a query."""

    def __call__(self, X: Any) -> FloatArray:
        """Return the scores of rows, for tools that explain functions."""
        return self.predict(X)

    @overload
    def rank(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        as_frame: Literal[False] = False,
        items: ArrayLike | None = None,
    ) -> IntArray: ...

    @overload
    def rank(
        self,
        X: IntoDataFrameT,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        as_frame: Literal[True],
        items: ArrayLike | None = None,
    ) -> IntoDataFrameT: ...

    @overload
    def rank(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        as_frame: Literal[True],
        items: ArrayLike | None = None,
    ) -> DataFrame: ...

    @overload
    def rank(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        k: int | None = None,
        *,
        as_frame: bool,
        items: ArrayLike | None = None,
    ) -> Any: ...

    def rank(
        self,
        X: Any,
        qid: ArrayLike | None = None,
        k: Count | None = None,
        *,
        as_frame: bool = False,
        items: ArrayLike | None = None,
    ) -> Any:
        """Return the rows in ranked order: query by query, best first.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to rank.
        qid : (n_items,), optional
            The query of each row; must be given if `fit` had one, by default all rows form one
            ranking.
        k : int, optional
            Keep only the best k of each query.
        as_frame : bool
            Return a frame with query, item, rank and score, in that order of rows: of the library
            that X is a frame of, pandas by default.
        items : (n_items,), optional
            The names of the items in the frame; by default row numbers.

        Returns
        -------
        order : (n_ranked,)
            Row numbers. Queries are in order of first appearance, items of equal score in the order
            of the rows.
        """
        if qid is None:
            require_qid(self, "rank", "For items of a single query, give one id for all.")
        if as_frame is True and items is None:
            items = names_of_items(self, X, qid)
        qid, items = map(on_host, read_columns(X, qid=qid, items=items))
        scores = on_host(self.predict(X, qid=qid))
        return as_given(self._in_order(X, scores, qid, k, as_frame=as_frame, items=items), X)

    def _in_order(
        self,
        X: Any,
        scores: FloatArray,
        qid: ArrayLike | None,
        k: int | None,
        *,
        as_frame: bool,
        items: ArrayLike | None,
    ) -> Any:
        """Return the result of `rank`, from scores."""
        if scores.ndim != 1:
            raise InvalidInputError(
                f"`rank` needs a single output: this ranker has {scores.shape[1]}. "
                "Rank each column of `predict` instead."
            )
        check_call(Ranker.rank, k=k, as_frame=as_frame)
        if items is not None and not as_frame:
            raise InvalidInputError(
                "`items` must come with as_frame=True: an order of row numbers has no names."
            )
        if as_frame:
            return frame_like(X, RankedItems.of(scores, qid, items).in_order(k).by_item())
        queries = None if qid is None else Queries.of(qid, len(scores))
        if queries is None or queries.n_queries == 1:
            return (-scores).argsort(kind="stable")[:k]
        return queries.best_first(scores, k)

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> float:
        """Return the share of pairs put in the right order, averaged over queries.

        Ties in the prediction count one half; pairs of equal `y` do not count. For two grades this
        is the AUC, in general the concordance. 1 is perfect, 0.5 is chance. A ranker with a
        parameter ``measure`` is scored by that measure, negated if lower is better, as
        `GridSearchCV` does; for others see `make_ranking_scorer` and `evaluate`.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        y : (n_items,) or (n_items, n_outputs)
            Their true scores; several outputs are averaged.
        qid : (n_items,), optional
            The query of each row; must be given if `fit` had one.
        sample_weight : (n_items,), optional
            Weights of the items; the weight of a pair is the product of its two.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: rows of X, winner first.
        pair_weight : (n_pairs,), optional
            How often each of them was recorded.

        Notes
        -----
        With comparisons `qid` may be omitted; the share over all comparisons is then returned.
        """
        check_is_fitted(self)
        X, pairs, pair_weight = read_comparisons_of(X, pairs, pair_weight, (y, qid, sample_weight))
        y, qid, sample_weight = map(
            on_host, read_columns(X, y=y, qid=qid, sample_weight=sample_weight)
        )
        if y is None:
            return self._score_pairs(X, qid, pairs, pair_weight)
        if qid is None:
            require_qid(
                self,
                "score",
                "Pass qid=..., and in cross-validation enable metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True).",
            )
        scores = on_host(self.predict(X, qid=qid))
        truth = check_scores(y)
        check_length("y", truth, len(scores))
        if truth.shape != scores.shape:
            raise InvalidInputError(
                f"`y` must have the shape of the prediction {scores.shape}: got {truth.shape}."
            )
        queries = Queries.of(qid, len(scores))
        n_torn = self._count_torn(queries, truth) if qid is not None else 0
        if n_torn:
            warn_caller(SeenQueriesWarning.of(n_torn))
        measure = self._score_measure()
        weight = sample_weight if measure.takes_weights else None
        columns = zip(np.atleast_2d(truth.T), np.atleast_2d(scores.T), strict=True)
        value = float(np.mean([measure.overall(t, s, queries, weight) for t, s in columns]))
        return value if measure.greater_is_better else -value

    def _score_measure(self) -> Measure:
        """Return the measure of `score`: the one that decided, where one did."""
        return as_measure(getattr(self, "measure", None))

    def _score_pairs(self, X: Any, qid: Any, pairs: Any, weight: ArrayLike | None) -> float:
        if pairs is None:
            raise InvalidInputError(
                "`score` must be given scores `y`, or comparisons `pairs`: got neither."
            )
        scores = on_host(self.predict(X, qid=qid))
        data = TrainingData.of(len(scores), qid=qid, pairs=pairs, pair_weight=weight)
        (winner, loser), weights = data.comparisons[0].T, data.comparisons[2]
        right = 0.5 + 0.5 * np.sign(scores[winner] - scores[loser])
        of_pair = data.pair_queries
        total = sum_by(of_pair, weights, data.queries.n_queries)
        in_order = sum_by(of_pair, weights * right, len(total))
        return float(np.mean(in_order[total > 0] / total[total > 0]))

    def _remember(self, data: TrainingData) -> None:
        """Store what later calls need to know about the training queries."""
        self.n_queries_ = data.queries.n_queries
        self.fitted_with_qid_ = data.has_qid
        self.training_queries_ = None
        if data.has_qid and data.is_scored:
            first = as_columns(data.scores)[:, 0]
            self.training_queries_ = QueryFingerprints.of(data.queries, first)

    def _count_torn(self, queries: Queries, scores: FloatArray) -> int:
        """Count the queries of which some items, but not all, were in the training data."""
        remembered = vars(self).get("training_queries_")
        if remembered is None:
            return 0
        return int(remembered.torn(QueryFingerprints.of(queries, as_columns(scores)[:, 0])))

    def explain(
        self, X: Any, qid: ArrayLike | None = None, a: int = 0, b: int | None = None, **options: Any
    ) -> Explanation:
        """Say why item a is above item b, or above the other items of its query; see `explain`.

        Parameters
        ----------
        X : (n_items, n_features)
            The items.
        qid : (n_items,), optional
            The query of each item.
        a, b : int
            Rows; without b, item a is compared with the others of its query.
        **options
            As in `rankwise.explain`.
        """
        check_is_fitted(self)
        (qid,) = read_columns(X, qid=qid)
        X = known_rows(self, X)
        return offered("explain")(self, on_host(X), on_host(qid), a, b, **options)

    def report(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None, **options: Any) -> Any:
        """Make a page about this ranker, judged on the given items; see `make_report`.

        Parameters
        ----------
        X : (n_items, n_features)
            Items, preferably unseen.
        y : (n_items,)
            Their scores.
        qid : (n_items,), optional
            Their queries.
        **options
            As in `make_report`.
        """
        y, qid = read_columns(X, y=y, qid=qid)
        X = known_rows(self, X)
        return offered("make_report")(self, on_host(X), on_host(y), on_host(qid), **options)

    def export(self, path: str | PathLike[str], format: str | None = None, **options: Any) -> Any:
        """Write this ranker for another engine, checked against `predict`; see `export_ranker`.

        Parameters
        ----------
        path : path
            The file.
        format : str, optional
            The engine; by default from the suffix .onnx or .pmml.
        **options
            As in `export_ranker`.
        """
        return offered("export_ranker")(self, path, format, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write this fitted ranker to one file without pickle; `rankwise.load` reads it.

        Parameters
        ----------
        path : path
            The file; it is replaced only once the new one is complete.
        """
        check_is_fitted(self)
        save(self, path)


class PointRanker(Ranker, ABC):
    """A ranker that scores each row by a feature map and weights."""

    predictor_: Annotated[FeatureMap, Shape("n_rows", "n_features", of="expansion_rows")]
    coef_: Annotated[FloatArray, Finite(), Shape("n_features"), Shape("n_outputs", "n_features")]
    dual_coef_: Annotated[FloatArray, Finite(), Shape("n_rows"), Shape("n_rows", "n_outputs")]

    def predict(self, X: Any, qid: ArrayLike | None = None) -> FloatArray:  # noqa: ARG002
        """Return a score for every row of X; higher is better, comparable only within a query.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score.
        qid : (n_items,), optional
            Ignored: every row is scored by itself.

        Returns
        -------
        scores : (n_items,) or (n_items, n_outputs)
        """
        if "predictor_" not in vars(self):
            check_is_fitted(self)
        scores = self._scores_of_few(X)
        if scores is None:
            rows = on_device(read_rows(self, X), None, X)
            with np.errstate(over="ignore", invalid="ignore"):
                scores = self._scores(rows)
        if not (math.isfinite(np.vdot(scores, scores)) or np.isfinite(scores).all()):
            raise NumericalError(
                "The scores of these rows exceed the range of double precision. Scale the rows "
                "like the training rows."
            )
        return as_given(scores, X)

    def _scores_of_few(self, X: Any) -> FloatArray | None:
        """Return the scores of a few plain rows, for which all else would take longest."""
        if not are_plain_rows(X, self):
            return None
        return self.predictor_.product_of_few(X, self._weights)

    def _check_rows(self, X: Any, *, reset: bool = True) -> Matrix:
        """Return rows as floats, dense in C order or CSR; ``reset`` is for training rows."""
        if not reset and are_plain_rows(X, self):
            return X
        refuse_unusable_rows(X)
        with refuse_overflow(), refuse_blanks(type(self).__name__):
            rows = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C" if reset else None,
                ensure_all_finite=not (reset and isinstance(X, np.ndarray)),
                ensure_min_samples=2 if reset else 1,
            )
        if reset:
            self.__dict__.pop("zero_based_", None)
            self._look_at_scales(rows)
        return rows

    def _look_at_scales(self, rows: Matrix) -> None:
        """Refuse numbers that are no numbers or too large; warn if features differ in scale."""
        if sparse.issparse(rows):
            refuse_huge_rows(rows)
            return
        low, high = column_ranges(rows)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            with refuse_blanks(type(self).__name__):
                assert_all_finite(rows, estimator_name=type(self).__name__, input_name="X")
        refuse_huge_entries(low, high)
        is_kernel = self.__sklearn_tags__().input_tags.pairwise
        if not is_kernel:
            _warn_of_scales(high - low)

    def _keep(
        self, predictor: FeatureMap, weights: FloatArray, data: TrainingData, n_ignored_queries: int
    ) -> Self:
        """Store the solution: `coef_` or `dual_coef_`, whichever the predictor has.

        Parameters
        ----------
        predictor : FeatureMap
            The feature map of the weights.
        weights : (n_weights,) or (n_weights, n_outputs)
            The folded weights.
        data : TrainingData
            The training data.
        n_ignored_queries : int
            Number of queries without a preference.
        """
        self._keep_weights(predictor, weights)
        self._remember(data)
        return self._keep_queries(data.queries.n_queries, n_ignored_queries, has_qid=data.has_qid)

    def _keep_weights(self, predictor: FeatureMap, weights: FloatArray) -> None:
        if not np.isfinite(weights).all():
            raise NumericalError(
                "The weights must be finite: this problem cannot be solved in double precision. "
                "Regularise more, or scale the features."
            )
        self.predictor_ = predictor
        if predictor.is_dual:
            self.dual_coef_ = weights
        else:
            self.coef_ = weights.T

    def _keep_queries(self, n_queries: int, n_ignored_queries: int, *, has_qid: bool) -> Self:
        self.n_queries_ = n_queries
        self.n_ignored_queries_ = n_ignored_queries
        self.fitted_with_qid_ = has_qid
        return self

    @property
    def _weights(self) -> FloatArray:
        """The weights of the predictor."""
        return self.dual_coef_ if self.predictor_.is_dual else self.coef_.T

    def _scores(self, X: Matrix) -> FloatArray:
        return to_host(self.predictor_.product(X, like(self._weights, X)))

    def _at(self, parameter: str, value: float) -> Self:
        """Return an unfitted copy with another value of a parameter that knows the features."""
        other = clone(self).set_params(**{parameter: value})
        for name in ("kernel_", "n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(other, name, vars(self)[name])
        return other


def _warn_of_scales(spans: FloatArray) -> None:
    """Warn when the range of one feature is more than a thousand times that of another."""
    spans = spans[spans > 0.0]
    if len(spans) > 1 and spans.max() > WIDEST_RATIO * spans.min():
        warn_caller(
            f"Features differ in scale: the widest range is {spans.max():.3g}, the narrowest "
            f"{spans.min():.3g}, so narrow features have little effect. Scale them inside queries "
            "with WithinQueryScaler in a RankerPipeline, or use SearchRanker, which does so.",
            FeatureScaleWarning,
        )


@final
class RankerPath(Sequence[PointRanker]):
    """Hold fitted rankers that differ in one parameter, in the order of its values.

    Parameters
    ----------
    rankers : sequence of rankers
        One fitted ranker per value.
    parameter : str
        The name of the parameter: ``"alpha"`` or ``"C"``.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> path = RankRLS().fit_path([[0.0], [1.0]], [0, 1], alphas=[1.0, 2.0, 4.0])
    >>> len(path), path.grid.tolist(), path[1].alpha
    (3, [1.0, 2.0, 4.0], 2.0)
    >>> path.predict([[0.0], [1.0]]).shape
    (3, 2)
    """

    def __init__(self, rankers: Sequence[PointRanker], parameter: str) -> None:
        self.rankers = tuple(rankers)
        self.parameter = parameter

    @property
    def grid(self) -> FloatArray:
        """The values of the parameter."""
        return np.array([getattr(ranker, self.parameter) for ranker in self.rankers])

    @overload
    def __getitem__(self, index: int) -> PointRanker: ...

    @overload
    def __getitem__(self, index: slice) -> RankerPath: ...

    def __getitem__(self, index: int | slice) -> PointRanker | RankerPath:
        if isinstance(index, slice):
            return RankerPath(self.rankers[index], self.parameter)
        return self.rankers[index]

    def __len__(self) -> int:
        return len(self.rankers)

    def predict(self, X: Any) -> FloatArray:
        """Return the scores of every row under every ranker; kernels are evaluated once.

        Returns
        -------
        scores : (n_values, n_items) or (n_values, n_items, n_outputs)
        """
        first = self.rankers[0]
        rows = on_device(read_rows(first, X), None, X)
        weights = np.concatenate([as_columns(ranker._weights) for ranker in self.rankers], axis=1)
        scores = to_host(first.predictor_.product(rows, like(weights, rows)))
        stacked = scores.reshape(rows.shape[0], len(self), -1).transpose(1, 0, 2)
        return as_given(stacked[:, :, 0] if first._weights.ndim == 1 else stacked, X)

    def __repr__(self) -> str:
        return f"RankerPath({len(self)} rankers, {self.parameter}={self.grid.tolist()})"
