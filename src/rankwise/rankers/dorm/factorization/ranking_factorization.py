"""RankingFactorization: recommendations from ratings, by factors that rank each user's items."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import PathLike
from typing import Annotated, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
    LeftOutWarning,
    NothingToLearnError,
    warn_caller,
)
from rankwise.core.params import (
    AtLeast,
    Below,
    Count,
    RandomSeed,
    Reads,
    Shape,
    Size,
    Tolerance,
    check_call,
    checked,
)
from rankwise.core.storable import Counted, Finite
from rankwise.core.threads import serial_blas
from rankwise.io.frames import is_frame
from rankwise.io.ratings import Names, RatingTable, positions_among, required_positions
from rankwise.measures.evaluation import Evaluation
from rankwise.measures.graded import DiscountedGain
from rankwise.measures.honest_value import HonestValue
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
    start_of_choices,
)
from rankwise.rankers.dorm.factorization.held_out import (
    chosen_value,
    honest_value,
    rated_by,
    rated_value,
    split_ratings,
    with_unseen,
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

SCALE_OF_CHOICES = 15.0
"""The same where choices were counted: with many items that nobody chose, more is gained."""

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
        begin to lower the objective, 15 times where choices were counted; below that value all
        users get the same ranking.
    decay : float, "log", "loglog" or array
        The decay c: :math:`(i + 1)^{-d}` at position i for a number d, 1 / log(i + 2),
        1 / log log(i + 2), or its values, the last of which is repeated.
    tol : float
        Stop after a sweep that lowers the objective by a smaller share than this. Each half-step is
        solved to a duality gap of ten times this share, at most a tenth. Smaller values lower the
        objective, but usually not the loss on held-out ratings: a single sweep from the start
        ranks those of MovieLens, Jester and simulated users as well as many, or better.
    max_iter : int
        Largest number of sweeps over users and items.
    progress : bool or callable
        Show a bar with the objective; or call a function with the `Step` of each half-step, which
        stops the fit by returning True.
    held_out : float
        Share of every user's ratings that is set aside first, to measure on them a model of the
        rest: `honest_value_`. The model itself learns from all ratings. 0 measures nothing and
        saves the time of a fit.
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
    users_, items_ : (n_users,) and (n_items,)
        The names of rows and columns in ascending order; None if a matrix was given.
    is_implicit_ : bool
        Whether choices were counted, and not rated.
    rating_columns_ : dict
        The columns of users, items, ratings, counts and times in the frame.
    honest_value_ : HonestValue
        The value of the objective's measure on ratings set aside, with its interval over users;
        None if ``held_out`` is 0.
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

    A frame has a row for each rating, and the model keeps the names:

    >>> import pandas as pd
    >>> names = {"user": [f"u{u}" for u in users], "movie": [f"m{i}" for i in items]}
    >>> frame = pd.DataFrame({**names, "rating": stars})
    >>> model = RankingFactorization(1, C=5.0, random_state=0).fit(frame)
    >>> model.recommend("u1"), model.fold_in({"m0": 1, "m2": 5}).recommend(0)
    (array(['m1'], dtype='<U2'), array(['m3', 'm1'], dtype='<U2'))
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
    users_: Annotated[NDArray[Any] | None, Shape("n_users")]
    items_: Annotated[NDArray[Any] | None, Shape("n_features")]
    is_implicit_: bool
    rating_columns_: dict[str, str]
    honest_value_: HonestValue | None

    def __init__(
        self,
        n_components: Count = 10,
        *,
        objective: Annotated[Measure | str, Reads(trainable_measure, "a measure")] = "NDCG @ 10",
        C: CChoice = "scale",
        decay: Decay = 0.25,
        tol: Tolerance = 0.3,
        max_iter: Count = 50,
        progress: bool | StepCallback = False,
        held_out: Annotated[float, AtLeast(0), Below(1)] = 0.0,
        random_state: RandomSeed = None,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.C = C
        self.decay = decay
        self.tol = tol
        self.max_iter = max_iter
        self.progress = progress
        self.held_out = held_out
        self.random_state = random_state

    def fit(
        self,
        ratings: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        count: str | None = None,
    ) -> Self:
        """Learn the factors of users and items from ratings.

        Parameters
        ----------
        ratings : frame, or (n_users, n_items), sparse
            A frame of pandas, polars, Arrow or others with a row for each rating; or a SciPy
            matrix of any sparse format, whose stored entries are the ratings. Higher is better.
            They may be 0 or, if the measure allows it, negative. What is not there was not rated.
        user, item, rating : str, optional
            Columns of the frame; by default those with usual names, such as userId, movie_id and
            stars. Of two ratings of an item by a user the one with the later timestamp counts.
        count : str, optional
            The column that says how often an item was chosen, if choices were counted and not
            rated; by default the one named count, plays, clicks, views, purchases or quantity.
            Without ratings and counts every row is one choice. A choice is worth
            ``log2(1 + count)``, and items drawn among those never chosen are worth 0.
        """
        given = checked(self)
        columns = {"user": user, "item": item, "rating": rating, "count": count}
        table = _table_of(ratings, columns)
        if table is None:
            R, self.users_, self.items_ = check_ratings(ratings), None, None
            self.is_implicit_, self.rating_columns_ = False, {}
        else:
            R, self.users_, self.items_ = table.matrix()
            self.is_implicit_ = table.is_implicit
            self.rating_columns_ = table.columns.found
        with serial_blas():  # its matrices have a few columns
            self.honest_value_ = self._judged(R, given) if given.held_out else None
            return self._fit(R, given)

    def _judged(self, R: Matrix, given: Any) -> HonestValue:
        """Return what a model of some ratings of each user is worth on the others."""
        rng = generator(given.random_state)
        learned, aside = split_ratings(R, given.held_out, rng)
        inner: RankingFactorization = clone(self).set_params(progress=False, held_out=0.0)
        inner.is_implicit_, inner.users_, inner.items_ = self.is_implicit_, None, None
        found: Evaluation | None = None
        with warnings.catch_warnings():  # the fit to all ratings warns of what matters
            warnings.simplefilter("ignore", ConvergenceWarning)
            with suppress(NothingToLearnError):
                found = inner._fit(learned, given)._evaluation(aside)
        return honest_value(given.objective, found)

    def _fit(self, R: Matrix, given: Any) -> Self:
        """Learn from checked ratings with parameters in their one form."""
        rng = generator(given.random_state)
        if given.n_components > min(R.shape):
            raise InvalidInputError(
                "`n_components` must not exceed the number of users or that of items: got "
                f"{given.n_components}, and ratings of {R.shape[1]} items by {R.shape[0]} users."
            )
        # start from a truncated singular value decomposition of the ratings
        shown = with_unseen(R, rng) if self.is_implicit_ else R
        begin = start_of_choices if self.is_implicit_ else spectral_start
        start = begin(R, given.n_components, rng)
        learned = learnable_ratings(shown, given.objective, given.decay, start.bias)
        if learned is None:
            raise NothingToLearnError(
                "`ratings` must hold a user who prefers an item to another, as measured by "
                f"{self.objective!r}: all rankings of what {R.shape[0]} users have rated are "
                "worth the same. Give several ratings of each user, or use another objective; if "
                "rows say what was chosen, give them without ratings."
            )
        # learn from users who prefer an item to another, from the best multiple of the start
        rated, users = learned
        start = Factors(start.U[users], start.V, start.bias)
        if given.C == "scale":
            times = SCALE_OF_CHOICES if self.is_implicit_ else SCALE
            self.C_ = times * onset_of_factors(rated, start, rng)
        else:
            self.C_ = given.C
        found = self._learn(rated, best_scaled(rated, start, self.C_), rng)
        return self._keep(R, users, found)

    def fold_in(self, ratings: Any) -> RankingFactorization:
        """Return a model of other users: their factors, with the factors of the items fixed.

        The model has all methods of the fitted one; its users are those of these ratings.

        Parameters
        ----------
        ratings : frame, mapping, or (n_users, n_items), sparse
            Ratings by new users, or newer ones by known users; a mapping of items to ratings is
            those of one user, whose row is 0. Rows about items that the model does not know are
            left out.

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
        R, users = self._others(ratings)
        # a model with the same items, its users without factors
        model: RankingFactorization = clone(self)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(model, name, value)
        measure = trainable_measure(self.objective)
        shown = with_unseen(R, generator(self.random_state)) if self.is_implicit_ else R
        learned = learnable_ratings(shown, measure, self.decay, self.item_bias_)
        model.user_factors_ = np.zeros((R.shape[0], self.item_factors_.shape[1]))
        # users who prefer an item to another get factors
        if learned is not None:
            rated, rows = learned
            start = Factors(model.user_factors_[rows], self.item_factors_, self.item_bias_)
            rule = self._rule()
            tol = _half_step_tol(rule)
            model.user_factors_[rows] = fold_in(rated, self.C_, start, rule, tol)
        model.ratings_, model.users_ = R, users
        model.n_ignored_users_ = R.shape[0] - (0 if learned is None else len(learned[1]))
        return model

    def _others(self, ratings: Any) -> tuple[Matrix, Names | None]:
        """Return the ratings of other users, and their names."""
        if isinstance(ratings, Mapping):
            items = self._columns(list(ratings), "ratings")
            order = np.argsort(items)
            values = _values(np.array(list(ratings.values())))[order]
            starts, shape = [0, len(items)], (1, len(self.item_bias_))
            return csr_array((values, items[order], starts), shape=shape), None
        table = _table_of(ratings, self.rating_columns_, self.is_implicit_)
        if table is None:
            return check_ratings(ratings, self.n_features_in_), None
        _warn_of_unknown(table, self._named_items())
        R, users, _ = table.matrix(items=self._named_items())
        return R, users

    def predict(self, users: Any, items: ArrayLike | None = None) -> FloatArray:
        """Return scores; higher is better, comparable only for one user.

        Parameters
        ----------
        users : name, row, or several of them; or a frame
            Names of users, or rows of the ratings if these were a matrix. A frame has a row for
            each score, with the columns of users and items as in `fit`: users that the model does
            not know are scored as all users agree, items that it does not know get 0.
        items : name, column, or several of them, optional
            Broadcast with the users as in NumPy; by default all items for every user.

        Returns
        -------
        scores : (n_pairs,) or (n_users, n_items)
        """
        check_is_fitted(self)
        if isinstance(users, RatingTable):
            return self._scores_of(users.users, users.items)
        if is_frame(users):
            asked = _asked(self.rating_columns_, ["user", "item"])
            return self.predict(RatingTable.of_frame(users, **asked))
        rows = self._rows(users)
        if items is None:
            return self.user_factors_[rows] @ self.item_factors_.T + self.item_bias_
        columns = self._columns(items, "items")
        products = self.user_factors_[rows] * self.item_factors_[columns]
        scores: FloatArray = products.sum(axis=-1) + self.item_bias_[columns]
        return scores

    def _scores_of(self, users: Any, items: Any) -> FloatArray:
        """Return the scores of named users and items, known to the model or not."""
        rows = positions_among(users, self._named_users())
        columns = positions_among(items, self._named_items())
        # whoever is unknown has no factors
        U = np.vstack([self.user_factors_, np.zeros((1, self.user_factors_.shape[1]))])
        V = np.vstack([self.item_factors_, np.zeros((1, U.shape[1]))])
        bias = np.append(self.item_bias_, 0.0)
        scores: FloatArray = np.einsum("rk,rk->r", U[rows], V[columns]) + bias[columns]
        return scores

    def recommend(self, user: Any, n: Count = 10, *, exclude_rated: bool = True) -> NDArray[Any]:
        """Return the items with the highest scores for a user, best first.

        Parameters
        ----------
        user : name or int
            The name of the user, or the row if a matrix was given.
        n : int
            Number of items; fewer are returned if there are no more.
        exclude_rated : bool
            Whether to leave out items that the user has rated.

        Returns
        -------
        items : (n,)
            Names, or columns if a matrix was given.
        """
        check_is_fitted(self)
        row = self._rows(user)
        if row.ndim != 0:
            raise InvalidInputError(f"`user` must be one row of the ratings: got {user!r}.")
        check_call(RankingFactorization.recommend, n=n, exclude_rated=exclude_rated)
        scores = self.user_factors_[row] @ self.item_factors_.T + self.item_bias_
        order = np.argsort(-scores, kind="stable")
        if exclude_rated:
            rated = np.zeros(len(scores), dtype=bool)
            rated[self.ratings_.indices[slice(*self.ratings_.indptr[row : row + 2])]] = True
            order = order[~rated[order]]
        return self._item_names(order[:n])

    def similar_items(self, item: Any, n: Count = 10) -> NDArray[Any]:
        """Return the items whose factors point in the same direction, most similar first.

        Parameters
        ----------
        item : name or int
            The name of the item, or the column if a matrix was given.
        n : int
            Number of items; fewer are returned if there are no more.

        Returns
        -------
        items : (n,)
            Names, or columns if a matrix was given, in descending order of the cosine.
        """
        check_is_fitted(self)
        column = self._columns(item, "item")
        if column.ndim != 0:
            raise InvalidInputError(f"`item` must be one item: got {item!r}.")
        check_call(RankingFactorization.similar_items, n=n)
        V = self.item_factors_
        lengths = np.linalg.norm(V, axis=1)
        cosines = (V @ V[column]) / np.where(lengths > 0.0, lengths, np.inf)
        order = np.argsort(-cosines, kind="stable")
        return self._item_names(order[order != column][:n])

    def score(self, ratings: Any) -> float:
        """Return the value of the measure for ratings by the same users, averaged over users.

        Parameters
        ----------
        ratings : frame, or (n_users, n_items), sparse
            Ratings that were held out of the fit. Each user's ratings are ranked separately; where
            choices were counted, all items that the user had not chosen in the fit. Rows about
            users and items that the model does not know are left out.
        """
        check_is_fitted(self)
        table = _table_of(ratings, self.rating_columns_, self.is_implicit_)
        if table is not None:
            _warn_of_unknown(table, self._named_items(), self._named_users())
            R, _, _ = table.matrix(self._named_users(), self._named_items())
        else:
            R = check_ratings(ratings, self.n_features_in_)
        if R.shape[0] != len(self.user_factors_):
            raise InvalidInputError(
                f"`ratings` must have a row for each user of the model: there are "
                f"{len(self.user_factors_)}, got {R.shape[0]}. Give new users to `fold_in`."
            )
        if self.is_implicit_:
            found = self._evaluation(R)
            return np.nan if found is None else float(found.mean[0])
        queries = rated_by(R)
        users, items = queries.spread(queries.ids), R.indices
        products = self.user_factors_[users] * self.item_factors_[items]
        scores = products.sum(axis=-1) + self.item_bias_[items]
        return trainable_measure(self.objective).overall(R.data, scores, queries)

    def _evaluation(self, aside: Matrix) -> Evaluation | None:
        """Return the value of every user on ratings or choices set aside."""
        measure = trainable_measure(self.objective)
        factors = self.user_factors_, self.item_factors_, self.item_bias_
        if self.is_implicit_:
            rng = generator(self.random_state)
            return chosen_value(measure, aside, self.ratings_, factors, rng)
        return rated_value(measure, aside, *factors)

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

    def _rows(self, users: Any) -> IntArray:
        """Return the rows of users that must be known."""
        if self.users_ is None:
            return _check_index("users", users, len(self.user_factors_))
        advice = " For a new user, fold in `ratings`."
        return required_positions(users, self.users_, "user", advice)

    def _columns(self, items: Any, what: str) -> IntArray:
        """Return the columns of items that must be known."""
        if self.items_ is None:
            return _check_index(what, items, len(self.item_bias_))
        return required_positions(items, self.items_, what)

    def _named_users(self) -> Names:
        return np.arange(len(self.user_factors_)) if self.users_ is None else self.users_

    def _named_items(self) -> Names:
        return np.arange(len(self.item_bias_)) if self.items_ is None else self.items_

    def _item_names(self, columns: IntArray) -> NDArray[Any]:
        return columns if self.items_ is None else self.items_[columns]

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


def _asked(columns: Mapping[str, str | None], roles: Iterable[str]) -> dict[str, str | None]:
    return {role: columns[role] for role in roles if role in columns}


def _table_of(
    ratings: Any, columns: Mapping[str, str | None], is_implicit: bool = False
) -> RatingTable | None:
    """Return a frame of ratings as its rows; None for a matrix."""
    if isinstance(ratings, RatingTable):
        return ratings
    if not is_frame(ratings):
        named = [role for role, name in columns.items() if name is not None]
        if named and not issparse(ratings):
            raise InvalidInputError(
                f"`ratings` must be a data frame if `{named[0]}` names a column: got "
                f"{type(ratings).__name__}."
            )
        return None
    asked = _asked(columns, ["user", "item", "rating", "count"])
    table = RatingTable.of_frame(ratings, **asked)
    return table.as_choices() if is_implicit else table


def _warn_of_unknown(table: RatingTable, items: Names, users: Names | None = None) -> None:
    """Say how many rows are about users or items that the model does not know."""
    strange = positions_among(table.items, items) < 0
    if users is not None:
        strange |= positions_among(table.users, users) < 0
    if strange.any():
        warn_caller(
            f"{np.count_nonzero(strange)} of {len(strange)} ratings are about users or items that "
            "the model does not know: they were left out.",
            LeftOutWarning,
        )


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
    if found.objectives[-1] >= (1.0 - _LITTLE) * C * ratings.greatest_losses(found.loss):
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
