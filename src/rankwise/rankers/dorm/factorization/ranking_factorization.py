"""RankingFactorization: recommendations from ratings, by factors that rank each user's items."""

from __future__ import annotations

from os import PathLike
from typing import Annotated, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import coo_array, csr_array, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import (
    as_array,
)
from rankwise.core.errors import (
    ConvergenceWarning,
    InvalidInputError,
    NothingToLearnError,
    warn_caller,
)
from rankwise.core.params import (
    AtLeast,
    Count,
    RandomSeed,
    Reads,
    Shape,
    Size,
    Tolerance,
    check_call,
    checked,
)
from rankwise.core.queries import Queries
from rankwise.core.storable import Counted, Finite
from rankwise.core.threads import serial_blas
from rankwise.measures.graded import DiscountedGain
from rankwise.measures.value import Judgements, Measure
from rankwise.rankers.base import generator
from rankwise.rankers.dorm.factorization.alternating import (
    Factorization,
    Factors,
    Ratings,
    best_scaled,
    factorize,
    fold_in,
    onset_of_factors,
    spectral_start,
)
from rankwise.rankers.dorm.losses import (
    CChoice,
    Decay,
    PositionObjective,
    decay_of,
    trainable_measure,
)
from rankwise.rankers.dorm.oracles.assignment import plan_assignments
from rankwise.rankers.storage import save
from rankwise.solve.iteration import StepCallback, StoppingRule, steps_shown

SCALE = 1.5
"""What ``C="scale"`` is, in units of the C at which factors of users begin to matter."""

_NOTHING = 0.01  # a share of the scores that makes no difference
_LITTLE = 0.001  # a share of the objective that is not worth factors


@final
class RankingFactorization(BaseEstimator):
    r"""Recommend items to users by factors that rank the items each user has rated.

    Scores item i for user u with :math:`s_{ui} = b_i + \langle U_u, V_i \rangle` and minimises

    .. math:: C \sum_u \max_\pi \bigl[ \Delta_u(\pi) + \sum_{i \in I_u} (c_{\pi_i} - c_{\pi^*_i})
              s_{ui} \bigr] + \tfrac{1}{2} |U|^2 + \tfrac{1}{2} |V|^2 + \tfrac{1}{2} |b|^2

    where :math:`I_u` are the items that u has rated and :math:`\Delta_u(\pi)` is the loss in the
    measure when they are ranked by :math:`\pi` instead of the best ranking :math:`\pi^*`. Only the
    order of a user's ratings matters, and mostly at the top: what a user likes counts more than how
    much a bad item is disliked. U and V are improved in turn, which never raises the objective. A
    sweep costs a few calls of the oracle for each user, and a few products of the ratings with the
    factors.

    Parameters
    ----------
    n_components : int
        Number of factors of each user and item, in addition to the bias of the items.
    objective : Measure or str
        What to optimise: NDCG, ``NDCG @ 10``, DCG, ``Precision @ 5``, RR, WTA, ERU.
    C : float or "scale"
        The factor of the sum over users. "scale" is 1.5 times the value at which factors of users
        begin to lower the objective; below that value all users get the same ranking.
    decay : float, "log", "loglog" or array
        The decay c: :math:`(i + 1)^{-d}` at position i for a number d, 1 / log(i + 2),
        1 / log log(i + 2), or its values, the last of which is repeated.
    tol : float
        Stop after a sweep that lowers the objective by a smaller share than this. Each half-step is
        solved to a duality gap of ten times this share. Smaller values lower the objective, but
        usually not the loss on held-out ratings.
    max_iter : int
        Largest number of sweeps over users and items.
    progress : bool or callable
        Show a bar with the objective; or call a function with the `Step` of each half-step, which
        stops the fit by returning True.
    random_state : int, RandomState or None
        Draws the start of the decomposition that gives the first factors, and the order of users.

    Attributes
    ----------
    user_factors_ : (n_users, n_components)
        U; 0 for users whose ratings show no preference, who get the ranking by the bias.
    item_factors_ : (n_items, n_components)
        V; 0 for items that were never rated.
    item_bias_ : (n_items,)
        b, the part of the scores that all users share.
    objective_values_ : (1 + n_half_steps,)
        The minimised objective at the start and after each half-step, over users with a preference.
    n_iter_ : int
        Number of sweeps made.
    C_ : float
        The value of C.
    ratings_ : (n_users, n_items), sparse
        The ratings.
    n_ignored_users_ : int
        Number of users without a preference.
    n_features_in_ : int
        Number of items.

    Notes
    -----
    [LS08] Sect. 5.2, which leaves out the bias and the algorithm. The factors start from a
    truncated singular value decomposition of the ratings without the means of users and items.
    Since ratings are neither features nor complete, this is not a ranker of (X, y, qid), and
    scikit-learn's checks, which fit dense arrays, do not apply; parameters, cloning and fitted
    state follow its conventions. Ctrl-C ends a fit with the best factors so far and warns.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import coo_array
    >>> from rankwise import RankingFactorization
    >>> users = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    >>> items = [0, 1, 2, 0, 2, 3, 1, 2, 3, 0, 1, 3]
    >>> stars = [5, 4, 1, 5, 0, 1, 1, 5, 4, 0, 1, 5]
    >>> ratings = coo_array((stars, (users, items)), shape=(4, 4))
    >>> model = RankingFactorization(1, C=5.0, random_state=0).fit(ratings)
    >>> model.recommend(1), model.recommend(2), model.recommend(0, n=2, exclude_rated=False)
    (array([1]), array([0]), array([0, 1]))
    >>> scores = model.predict(range(4))
    >>> bool(scores[0, 1] > scores[0, 3]), bool(scores[3, 1] > scores[3, 2])
    (True, False)
    >>> bool(np.all(np.diff(model.objective_values_) <= 0))
    True
    """

    n_features_in_: Annotated[int, AtLeast(0), Size("n_features")]
    user_factors_: Annotated[FloatArray, Finite(), Shape("n_users", "n_components")]
    item_factors_: Annotated[FloatArray, Finite(), Shape("n_features", "n_components")]
    item_bias_: Annotated[FloatArray, Finite(), Shape("n_features")]
    ratings_: Annotated[sparse.csr_array, Shape("n_users", "n_features")]
    objective_values_: Annotated[FloatArray, Finite()]
    n_iter_: Counted
    C_: float
    n_ignored_users_: Counted

    def __init__(
        self,
        n_components: Count = 10,
        *,
        objective: Annotated[Measure | str, Reads(trainable_measure, "a measure")] = "NDCG @ 10",
        C: CChoice = "scale",
        decay: Decay = 0.25,
        tol: Tolerance = 1e-2,
        max_iter: Count = 50,
        progress: bool | StepCallback = False,
        random_state: RandomSeed = None,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.C = C
        self.decay = decay
        self.tol = tol
        self.max_iter = max_iter
        self.progress = progress
        self.random_state = random_state

    def fit(self, ratings: Any) -> Self:
        """Learn the factors of users and items from ratings.

        Parameters
        ----------
        ratings : (n_users, n_items), sparse
            A SciPy matrix of any sparse format. The stored entries are the ratings; higher is
            better. They may be 0 or, if the measure allows it, negative. Entries that are not
            stored were not rated.
        """
        given = checked(self)
        R = check_ratings(ratings)
        with serial_blas():  # its matrices have a few columns
            return self._fit(R, given)

    def _fit(self, R: Matrix, given: Any) -> Self:
        """Learn from checked ratings with parameters in their one form."""
        rng = generator(given.random_state)
        if given.n_components > min(R.shape):
            raise InvalidInputError(
                "`n_components` must not exceed the number of users or that of items: got "
                f"{given.n_components}, and ratings of {R.shape[1]} items by {R.shape[0]} users."
            )
        # start from a truncated singular value decomposition of the ratings
        start = spectral_start(R, given.n_components, rng)
        learned = learnable_ratings(R, given.objective, given.decay, start.bias)
        if learned is None:
            raise NothingToLearnError(
                "`ratings` must hold a user who prefers an item to another, as measured by "
                f"{self.objective!r}: all rankings of what {R.shape[0]} users have rated are "
                "worth the same. Give several ratings of each user, or use another objective."
            )
        # learn from users who prefer an item to another, from the best multiple of the start
        rated, users = learned
        start = Factors(start.U[users], start.V, start.bias)
        is_scaled = given.C == "scale"
        self.C_ = SCALE * onset_of_factors(rated, start, rng) if is_scaled else given.C
        found = self._learn(rated, best_scaled(rated, start, self.C_), rng)
        return self._keep(R, users, found)

    def fold_in(self, ratings: Any) -> RankingFactorization:
        """Return a model of other users: their factors, with the factors of the items fixed.

        The model has all methods of the fitted one; its users are the rows of these ratings.

        Parameters
        ----------
        ratings : (n_users, n_items), sparse
            Ratings by new users, or newer ones by known users.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.sparse import csr_array
        >>> from rankwise import RankingFactorization
        >>> ratings = csr_array(np.array([[5, 3, 1, 0], [0, 1, 3, 5], [4, 0, 1, 2], [1, 0, 5, 4]]))
        >>> model = RankingFactorization(1, C=10.0, random_state=0).fit(ratings)
        >>> model.fold_in(csr_array(np.array([[0, 5, 1, 0]]))).recommend(0)
        array([0, 3])
        """
        check_is_fitted(self)
        R = check_ratings(ratings, self.n_features_in_)
        # a model with the same items, its users without factors
        model: RankingFactorization = clone(self)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(model, name, value)
        measure = trainable_measure(self.objective)
        learned = learnable_ratings(R, measure, self.decay, self.item_bias_)
        model.user_factors_ = np.zeros((R.shape[0], self.item_factors_.shape[1]))
        # users who prefer an item to another get factors
        if learned is not None:
            rated, users = learned
            start = Factors(model.user_factors_[users], self.item_factors_, self.item_bias_)
            rule = self._rule()
            tol = _half_step_tol(rule)
            model.user_factors_[users] = fold_in(rated, self.C_, start, rule, tol)
        model.ratings_ = R
        model.n_ignored_users_ = R.shape[0] - (0 if learned is None else len(learned[1]))
        return model

    def predict(self, users: ArrayLike, items: ArrayLike | None = None) -> FloatArray:
        """Return scores; higher is better, comparable only for one user.

        Parameters
        ----------
        users : int or array of int
            Rows of the ratings.
        items : int or array of int, optional
            Columns of the ratings, broadcast with the users as in NumPy; by default all items for
            every user.

        Returns
        -------
        scores : (n_pairs,) or (n_users, n_items)
        """
        check_is_fitted(self)
        rows = _check_index("users", users, len(self.user_factors_))
        if items is None:
            return self.user_factors_[rows] @ self.item_factors_.T + self.item_bias_
        columns = _check_index("items", items, len(self.item_bias_))
        products = self.user_factors_[rows] * self.item_factors_[columns]
        scores: FloatArray = products.sum(axis=-1) + self.item_bias_[columns]
        return scores

    def recommend(self, user: int, n: Count = 10, *, exclude_rated: bool = True) -> IntArray:
        """Return the items with the highest scores for a user, best first.

        Parameters
        ----------
        user : int
            Row of the ratings.
        n : int
            Number of items; fewer are returned if there are no more.
        exclude_rated : bool
            Whether to leave out items that the user has rated.
        """
        scores = self.predict(user)
        if scores.ndim != 1:
            raise InvalidInputError(f"`user` must be one row of the ratings: got {user!r}.")
        check_call(RankingFactorization.recommend, n=n, exclude_rated=exclude_rated)
        order = np.argsort(-scores, kind="stable")
        if exclude_rated:
            rated = np.zeros(len(scores), dtype=bool)
            rated[self.ratings_.indices[slice(*self.ratings_.indptr[user : user + 2])]] = True
            order = order[~rated[order]]
        return order[:n]

    def score(self, ratings: Any) -> float:
        """Return the value of the measure for ratings by the same users, averaged over users.

        Parameters
        ----------
        ratings : (n_users, n_items), sparse
            Ratings that were held out of the fit. Each user's ratings are ranked separately.
        """
        check_is_fitted(self)
        R = check_ratings(ratings, self.n_features_in_)
        if R.shape[0] != len(self.user_factors_):
            raise InvalidInputError(
                f"`ratings` must have a row for each user of the model: there are "
                f"{len(self.user_factors_)}, got {R.shape[0]}. Give new users to `fold_in`."
            )
        queries = rated_by(R)
        scores = self.predict(queries.spread(queries.ids), R.indices)
        return trainable_measure(self.objective).overall(R.data, scores, queries)

    def save(self, path: str | PathLike[str]) -> None:
        """Write this fitted model to one file without pickle; `rankwise.load` reads it.

        Parameters
        ----------
        path : path
            The file, replaced only once the new one is complete.
        """
        check_is_fitted(self)
        save(self, path)

    def _scores(self, X: FloatArray) -> FloatArray:
        """Return rows of numbers for items, times the factors: what a model file is checked by."""
        return X @ np.column_stack([self.item_factors_, self.item_bias_])

    def _rule(self) -> StoppingRule:
        return StoppingRule(self.tol, self.max_iter)

    def _learn(self, ratings: Ratings, start: Factors, rng: np.random.Generator) -> Factorization:
        rule = self._rule()
        with steps_shown(self.progress, "RankingFactorization", rule.max_iter) as on_step:
            found = factorize(ratings, self.C_, start, rule, on_step, rng, _half_step_tol(rule))
        found.ending.warn()
        _warn_if_vanished(ratings, found, self.C_)
        return found

    def _keep(self, R: Matrix, users: IntArray, found: Factorization) -> Self:
        self.user_factors_ = np.zeros((R.shape[0], found.factors.U.shape[1]))
        self.user_factors_[users] = found.factors.U
        self.item_factors_, self.item_bias_ = found.factors.V, found.factors.bias
        self.objective_values_, self.n_iter_ = np.array(found.objectives), found.n_iter
        self.ratings_, self.n_features_in_ = R, R.shape[1]
        self.n_ignored_users_ = R.shape[0] - len(users)
        return self


def _half_step_tol(rule: StoppingRule) -> float:
    return min(0.1, 10.0 * rule.tol)


def _check_index(name: str, index: ArrayLike, length: int) -> IntArray:
    values = as_array(name, index)
    if values.dtype.kind not in "iu" or ((values < 0) | (values >= length)).any():
        raise InvalidInputError(
            f"`{name}` must be whole numbers from 0 to {length - 1}: got {index!r}."
        )
    return values.astype(np.intp)


def _warn_if_vanished(ratings: Ratings, found: Factorization, C: float) -> None:
    """Say so if C is too small to learn anything, or too small for users to differ."""
    agreed = found.factors.bias[ratings.items]
    personal = ratings.scores(found.factors) - agreed
    if found.objectives[-1] >= (1.0 - _LITTLE) * C * ratings.greatest_losses():
        reason = (
            f"Nothing was learned: with C={C:.3g} the objective is no lower than without factors. "
            "Raise C, for example 5-fold, or train for a measure that looks at more positions, "
            "such as NDCG."
        )
    elif np.linalg.norm(personal) <= _NOTHING * np.linalg.norm(agreed):
        reason = (
            f"The factors have vanished, and all users get the same ranking: C={C:.3g} is too "
            "small. Raise it, for example 2-fold or 5-fold."
        )
    else:
        return
    warn_caller(reason, ConvergenceWarning)


def check_ratings(ratings: Any, n_items: int | None = None) -> Matrix:
    """Return ratings as a CSR array of floats that keeps stored zeros; items in ascending order."""
    if not issparse(ratings) or ratings.ndim != 2:
        raise InvalidInputError(
            "`ratings` must be a sparse matrix of SciPy, users in rows and items in columns, whose "
            f"stored entries are the ratings: got {type(ratings).__name__}. In a dense array a "
            "rating of 0 looks like none; write scipy.sparse.coo_array((values, (users, items)))."
        )
    if n_items is not None and ratings.shape[1] != n_items:
        raise InvalidInputError(
            f"`ratings` must have a column for each item of the fit: there were {n_items}, got "
            f"{ratings.shape[1]}."
        )
    # CSR by hand: stored zeros stay, and an item rated twice is refused, not summed
    entries = coo_array(ratings)
    users, items = (np.asarray(index, dtype=np.intp) for index in entries.coords)
    order = np.lexsort((items, users))
    users, items = users[order], items[order]
    values = _values(entries.data)[order]
    _refuse_repeated(users, items)
    starts = np.searchsorted(users, np.arange(ratings.shape[0] + 1))
    return csr_array((values, items, starts), shape=ratings.shape)


def _values(data: np.ndarray) -> FloatArray:
    if data.dtype.kind not in "biuf" or not np.isfinite(data).all():
        raise InvalidInputError(
            "`ratings` must hold finite real numbers: got others, such as NaN. Leave out the "
            "entries of items that were not rated."
        )
    return data.astype(np.float64)


def _refuse_repeated(users: IntArray, items: IntArray) -> None:
    same = (users[1:] == users[:-1]) & (items[1:] == items[:-1])
    if same.any():
        at = int(np.argmax(same))
        raise InvalidInputError(
            "`ratings` must hold at most one rating of an item by a user: user "
            f"{users[at]} has several of item {items[at]}. Keep the last one, or their mean."
        )


def rated_by(R: Matrix) -> Queries:
    """Return the ratings as queries, one for each user who has any."""
    sizes = np.diff(R.indptr)
    users = np.flatnonzero(sizes)
    return Queries(users, np.repeat(np.arange(len(users)), sizes[users]))


def learnable_ratings(
    R: Matrix, measure: Measure, decay: Decay, bias: FloatArray
) -> tuple[Ratings, IntArray] | None:
    """Return what can be learned, and the rows of the users it can be learned from.

    Users whose rankings are all worth the same are left out: no rating, a single one, or ratings of
    equal gain. None if no user remains.

    Parameters
    ----------
    R : (n_users, n_items)
        Checked ratings.
    measure, decay
        What a ranking is worth, and how much each position counts in its score.
    bias : (n_items,)
        Preliminary scores of the items, where the measure leaves a choice.
    """
    _refuse_negative(R, measure)
    queries = rated_by(R)
    if queries.n_queries == 0:
        return None
    objective = PositionObjective.of(measure, Judgements.of(R.data, queries))
    if not objective.has_preference.any():
        return None
    # the ratings of users with a preference, and the oracle of their rankings
    kept = np.flatnonzero(objective.has_preference[queries.index])
    objective, decays = objective.take(kept), decay_of(decay, queries)[kept]
    items, chosen = R.indices[kept].astype(np.intp), queries.take(kept)
    gains = objective.chosen_gains(bias[items], chosen.starts)
    plan = plan_assignments(gains, objective.discounts, decays, chosen.starts)
    return Ratings(plan, items), chosen.ids


def _refuse_negative(R: Matrix, measure: Measure) -> None:
    if isinstance(measure, DiscountedGain) and R.nnz and R.data.min() < 0:
        raise InvalidInputError(
            f"`ratings` must not be negative for {measure!r}, where an item gains by its rating: "
            f"the smallest is {R.data.min():g}. Add a constant or round them to grades 0, 1, 2, "
            "..., or take a measure with a neutral vote, such as ERU(neutral=0)."
        )
