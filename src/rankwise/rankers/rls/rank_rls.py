"""RankRLS: least-squares ranking in closed form."""

from collections.abc import Callable, Sequence
from typing import Any, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_positive
from rankwise.features.kernels import Kernel
from rankwise.features.maps import Expansion
from rankwise.graph.preference_graph import Cost, Ties
from rankwise.graph.query_weights import QueryWeight
from rankwise.rankers.closed_form import ALPHA_REMEDY, ClosedFormRanker
from rankwise.rankers.preferences import Given
from rankwise.selection.path import check_alphas


@final
class RankRLS(ClosedFormRanker):
    r"""Learn to rank by regularised least squares on the differences of scores.

    Minimises, over linear functions or functions of a kernel,

    .. math:: \sum_q \omega_q \sum_{(i,j) \in q} w_{ij} \bigl(z_{ij} - (f_i - f_j)\bigr)^2
              + \alpha |f|^2

    each pair of items of a query counted once. The solution is exact. Cost with n items, d
    features, Q queries: O(n d^2) when d is at most n - Q, O(n^3) with a kernel or when d is
    larger, O(n r^2) with r basis rows; never more with more pairs.

    Parameters
    ----------
    alpha : float
        What multiplies :math:`|f|^2`. The same number means the same in every least-squares
        ranker of this package; with the default `query_weight`, ties kept and a single query it
        is the alpha of scikit-learn's ``Ridge`` with an intercept.
    kernel : {"linear", "gaussian", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions.
    cost : {"magnitude", "unit", "relative"}
        The target z and weight w of a pair: (y_i - y_j, 1), (sign(y_i - y_j), 1) or
        (y_i - y_j, 1 / (y_i - y_j)^2).
    ties : {"drop", "keep"}
        Whether items of equal score form a pair of target 0; kept only with cost "magnitude".
    query_weight : {"items", "pairs", "equal"}, mapping or (n_queries,)
        :math:`\omega_q`: 1 / n_q, 1, 1 / number of pairs of q, or given.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Restrict the function to the span of the kernel functions of some rows: a number of random
        rows, chosen rows of X, or rows themselves.
    random_state : int, RandomState or None
        Draws the basis rows when `basis` is a number.

    Attributes
    ----------
    coef_ : (n_features,) or (n_outputs, n_features)
        Weights of the features, with the linear kernel and no basis.
    dual_coef_ : (n_rows,) or (n_rows, n_outputs)
        Weights of the training rows, or of the basis rows, otherwise.
    kernel_ : Kernel
        The kernel with all its parameters.
    n_queries_ : int
        Number of queries in the training data.
    ignored_queries_ : int
        How many of them held no preference.
    fitted_with_qid_ : bool
        Whether `fit` was given `qid`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,)
        Their names, where X had names.

    Notes
    -----
    The primal form is [PTA09] (28), the dual one solves (17) in the smallest symmetric form, the
    basis is Sect. 3.5. The default query weight follows [APS10] (3).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [3.0, 1.0]])
    >>> y, qid = [2, 1, 2, 0, 1], ["a", "a", "a", "b", "b"]
    >>> ranker = RankRLS(alpha=0.1).fit(X, y, qid=qid)
    >>> ranker.rank(X, qid=qid, k=1)
    array([0, 4])
    >>> round(ranker.score(X, y, qid=qid), 2)
    1.0

    Comparisons in place of scores, winner first:

    >>> RankRLS().fit(X, pairs=[[0, 1], [2, 1], [4, 3]]).coef_.round(2)
    array([ 0.35, -0.2 ])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        basis: int | ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.basis = basis
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from scores, optionally inside queries, or from comparisons.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items. Centring or a common offset makes no difference.
        y : (n_items,) or (n_items, n_outputs)
            Scores of the items, higher is better. Outputs are learned independently.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; one query when left out.
        sample_weight : (n_items,), optional
            Weights of the items; a pair counts the product of its ends' weights.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first, repeated and contradicting
            ones welcome.
        pair_margin : (n_pairs,), optional
            By how much each winner leads; 1 when left out.
        pair_weight : (n_pairs,), optional
            How much each comparison counts; 1 when left out.
        """
        alpha = check_positive("alpha", self.alpha, ALPHA_REMEDY)
        X = self._check_rows(X)
        given = Given(y, qid, sample_weight, pairs, pair_margin, pair_weight)
        preferences = self._preferences(X, given, self.cost, self.ties)
        space = self._space(X, self.kernel, preferences)
        weights = preferences.gather(lambda graph: space.system(graph).solve(alpha))
        return self._keep(space, weights, preferences, with_qid=qid is not None)

    def fit_path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        alphas: ArrayLike,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> "RankRLSPath":
        """Learn for many alphas from one reduction, in about the time of a few of them.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `fit`.
        alphas : (n_alphas,)
            The values of alpha, each above 0.

        Returns
        -------
        path : RankRLSPath
            A fitted ranker for each alpha, and the scores of all of them at once.

        Notes
        -----
        [PTA09] Sect. 3.2, by a tridiagonal reduction, which costs about half of the
        eigendecomposition in (31).

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import RankRLS
        >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> path = RankRLS().fit_path(X, [2, 1, 3], alphas=[0.1, 10.0])
        >>> path.predict(X).round(2)
        array([[1.61, 0.7 , 2.31],
               [0.09, 0.  , 0.1 ]])
        >>> path[1].alpha
        10.0
        """
        grid = check_alphas(alphas)
        X = self._check_rows(X)
        given = Given(y, qid, sample_weight, pairs, pair_margin, pair_weight)
        preferences = self._preferences(X, given, self.cost, self.ties)
        space = self._space(X, self.kernel, preferences)
        solutions = preferences.gather(lambda graph: space.system(graph).path(grid))
        rankers = [
            self._at(alpha)._keep(space, weights, preferences, with_qid=qid is not None)
            for alpha, weights in zip(grid.tolist(), solutions, strict=True)
        ]
        return RankRLSPath(rankers, grid)

    def _at(self, alpha: float) -> Self:
        """Return an unfitted copy for another alpha that knows the features and the kernel."""
        other = clone(self).set_params(alpha=alpha)
        for name in ("kernel_", "n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(other, name, vars(self)[name])
        return other


@final
class RankRLSPath(Sequence[RankRLS]):
    """Hold the fitted rankers of a regularisation path, in the order of their alphas.

    Parameters
    ----------
    rankers : list of RankRLS
        One fitted ranker per alpha.
    alphas : (n_alphas,)
        Their alphas.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> path = RankRLS().fit_path([[0.0], [1.0]], [0, 1], alphas=[1.0, 2.0, 4.0])
    >>> len(path), [ranker.alpha for ranker in path[1:]]
    (3, [2.0, 4.0])
    """

    def __init__(self, rankers: list[RankRLS], alphas: FloatArray) -> None:
        self._rankers = rankers
        self.alphas = alphas

    @overload
    def __getitem__(self, index: int) -> RankRLS: ...

    @overload
    def __getitem__(self, index: slice) -> "RankRLSPath": ...

    def __getitem__(self, index: int | slice) -> "RankRLS | RankRLSPath":
        if isinstance(index, slice):
            return RankRLSPath(self._rankers[index], self.alphas[index])
        return self._rankers[index]

    def __len__(self) -> int:
        return len(self._rankers)

    def predict(self, X: Any) -> FloatArray:
        """Return the scores of every row under every alpha; kernels are evaluated once.

        Returns
        -------
        scores : (n_alphas, n_items) or (n_alphas, n_items, n_outputs)
        """
        first = self._rankers[0]
        X = validate_data(
            first, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        columns = [_weights(ranker) for ranker in self._rankers]
        scores = first.predictor_.product(X, np.concatenate(columns, axis=1))
        stacked = scores.reshape(X.shape[0], len(self), -1).transpose(1, 0, 2)
        return stacked[:, :, 0] if first._scores(X[:1]).ndim == 1 else stacked


def _weights(ranker: RankRLS) -> FloatArray:
    """Return the weights of a fitted ranker as columns, one per output."""
    if isinstance(ranker.predictor_, Expansion):
        return ranker.dual_coef_.reshape(len(ranker.dual_coef_), -1)
    return np.atleast_2d(ranker.coef_).T
