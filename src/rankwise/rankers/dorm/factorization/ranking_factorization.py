"""RankingFactorization: recommendations from ratings, by factors that rank each user's items."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_positive
from rankwise.core.errors import ConvergenceWarning, InvalidInputError, NothingToLearnError
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.factorization.alternating import (
    Factorization,
    Factors,
    Ratings,
    Rule,
    Step,
    best_scaled,
    factorize,
    fold_in,
    onset_of_factors,
    spectral_start,
)
from rankwise.rankers.dorm.factorization.ratings import (
    check_ratings,
    learn_from,
    rated_by,
    trainable,
)
from rankwise.rankers.dorm.objective import Decay
from rankwise.rankers.linear.settings import check_count
from rankwise.rankers.randomness import generator
from rankwise.rankers.storage import save
from rankwise.solve.progress import steps_shown

StepCallback: TypeAlias = Callable[[Step], object]

_NOTHING = 0.01  # a share of the scores that makes no difference
_LITTLE = 0.001  # a share of the objective that is not worth factors


def half_steps_shown(
    progress: bool | StepCallback, max_sweeps: int
) -> AbstractContextManager[StepCallback | None]:
    """Return what yields the function to call after each half-step."""

    def update(step: Step) -> dict[str, Any]:
        text = f"sweep {step.sweep}  {step.half}  objective {step.objective:.6g}"
        return {"advance": 1, "description": text}

    return steps_shown(progress, update, "sweep 1", 2 * max_sweeps)


def warn_unless_converged(found: Factorization, rule: Rule) -> None:
    """Say why a run ended before it came to rest by itself."""
    if found.ending == "interrupted":
        reason = f"Stopped by Ctrl-C in sweep {found.n_sweeps}; the best factors so far are kept."
    elif found.ending == "max_sweeps":
        reason = (
            f"Not converged after max_iter={rule.max_sweeps} sweeps: the last one lowered the "
            f"objective by a share above tol={rule.tol:.1e}. Raise max_iter or tol, or lower C."
        )
    else:
        return
    warnings.warn(reason, ConvergenceWarning, stacklevel=4)


def warn_if_vanished(lesson: Ratings, found: Factorization, C: float) -> None:
    """Say so if C is too small to learn anything, or too small for users to differ."""
    agreed = found.factors.bias[lesson.items]
    personal = lesson.scores(found.factors) - agreed
    if found.objectives[-1] >= (1.0 - _LITTLE) * C * lesson.greatest_losses():
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
    warnings.warn(reason, ConvergenceWarning, stacklevel=4)


SCALE = 1.5
"""What ``C="scale"`` is, in units of the C at which factors of users begin to pay."""


@final
class RankingFactorization(BaseEstimator):
    r"""Recommend items to users by factors that rank what each user has rated.

    Scores item i for user u with :math:`s_{ui} = b_i + \langle U_u, V_i \rangle` and minimises

    .. math:: C \sum_u \max_\pi \bigl[ \Delta_u(\pi) + \sum_{i \in I_u} (c_{\pi_i} - c_{\pi^*_i})
              s_{ui} \bigr] + \tfrac{1}{2} |U|^2 + \tfrac{1}{2} |V|^2 + \tfrac{1}{2} |b|^2

    where :math:`I_u` are the items that u has rated and :math:`\Delta_u(\pi)` is what the measure
    loses when they are ranked by :math:`\pi` in place of the best ranking :math:`\pi^*`. Only the
    order of a user's ratings matters, and where the measure looks: what a user likes counts more
    than by how much a bad item is disliked. U and V are improved in turn, which never raises the
    objective. A sweep costs a few calls of the oracle for each user, and a few products of the
    ratings with the factors.

    Parameters
    ----------
    n_components : int
        Number of factors of each user and item, beside the bias of the items.
    measure : Measure or str
        What to optimise: NDCG, ``NDCG @ 10``, DCG, ``Precision @ 5``, RR, WTA, ERU.
    C : float or "scale"
        What multiplies the sum over users. "scale" is 1.5 times the value at which factors of users
        begin to pay; below it all users get the same ranking.
    decay : float, "log", "loglog" or array
        c: :math:`(i + 1)^{-d}` at position i for a number d, 1 / log(i + 2), 1 / log log(i + 2), or
        its values, the last of which goes on.
    tol : float
        Stop after a sweep that lowers the objective by a smaller share than this. Each half of a
        sweep is solved up to a duality gap of ten times this share.
    max_iter : int
        Number of sweeps over users and items at most.
    progress : bool or callable
        Show a bar with the objective; or call a function with each half-step, which stops the fit
        by returning True.
    random_state : int, RandomState or None
        Draws where the decomposition begins that the factors start from, and the order of users.

    Attributes
    ----------
    user_factors_ : (n_users, n_components)
        U; 0 for users whose ratings show no preference, who get the ranking by the bias.
    item_factors_ : (n_items, n_components)
        V; 0 for items that were never rated.
    item_bias_ : (n_items,)
        b, what all users agree on.
    objective_ : (1 + n_half_steps,)
        The objective at the start and after each half-step, over the users who have a preference.
    n_iter_ : int
        Number of sweeps made.
    C_ : float
        The value of C.
    ratings_ : (n_users, n_items), sparse
        What the users have rated.
    ignored_users_ : int
        How many of them show no preference.
    n_features_in_ : int
        Number of items.

    Notes
    -----
    [LS08] Sect. 5.2, which leaves out the bias and the algorithm. The factors start from a
    truncated singular value decomposition of the ratings without the means of users and items. As
    ratings are neither a matrix of features nor complete, this is not one of the rankers of
    (X, y, qid), and scikit-learn's own checks, which fit dense arrays, do not apply; parameters,
    cloning and fitted state follow its conventions. Ctrl-C ends a fit with the best factors so far
    and warns.

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
    >>> bool(np.all(np.diff(model.objective_) <= 0))
    True
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        measure: Measure | str = "NDCG @ 10",
        C: float | Literal["scale"] = "scale",
        decay: Decay = 0.25,
        tol: float = 1e-3,
        max_iter: int = 50,
        progress: bool | StepCallback = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.measure = measure
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
            Any format of SciPy. The stored entries are the ratings, higher is better, and may be 0
            or, where the measure allows, negative; whatever is not stored was not rated.
        """
        rng = generator(self.random_state)
        R = check_ratings(ratings)
        start = spectral_start(R, self._check_size(R), rng)
        learned = learn_from(R, trainable(self.measure), self.decay, start.bias)
        if learned is None:
            raise NothingToLearnError(
                "`ratings` must hold a user who prefers an item to another, as far as "
                f"{self.measure!r} goes: all rankings of what {R.shape[0]} users have rated are "
                "worth the same. Give several ratings of each user, or take another measure."
            )
        lesson, users = learned
        start = Factors(start.U[users], start.V, start.bias)
        self.C_ = self._settle_c(lesson, start, rng)
        found = self._learn(lesson, best_scaled(lesson, start, self.C_), rng)
        return self._keep(R, users, found)

    def fold_in(self, ratings: Any) -> "RankingFactorization":
        """Return a model of other users: their factors for the items as they are.

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
        model: RankingFactorization = clone(self)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(model, name, value)
        learned = learn_from(R, trainable(self.measure), self.decay, self.item_bias_)
        model.user_factors_ = np.zeros((R.shape[0], self.item_factors_.shape[1]))
        if learned is not None:
            lesson, users = learned
            start = Factors(model.user_factors_[users], self.item_factors_, self.item_bias_)
            model.user_factors_[users] = fold_in(lesson, self.C_, start, self._rule())
        model.ratings_ = R
        model.ignored_users_ = R.shape[0] - (0 if learned is None else len(learned[1]))
        return model

    def predict(self, users: ArrayLike, items: ArrayLike | None = None) -> FloatArray:
        """Return scores: higher is better, comparable for one user only.

        Parameters
        ----------
        users : int or array of int
            Rows of the ratings.
        items : int or array of int, optional
            Columns of the ratings, paired with the users as NumPy broadcasts them. All items for
            every user when left out.

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

    def recommend(self, user: int, n: int = 10, *, exclude_rated: bool = True) -> IntArray:
        """Return the items with the highest scores for a user, the best first.

        Parameters
        ----------
        user : int
            Row of the ratings.
        n : int
            Number of items; fewer are returned when there are no more.
        exclude_rated : bool
            Leave out what the user has rated.
        """
        scores = self.predict(user)
        if scores.ndim != 1:
            raise InvalidInputError(f"`user` must be one row of the ratings: got {user!r}.")
        n_wanted = check_count("n", n)
        order = np.argsort(-scores, kind="stable")
        if exclude_rated:
            rated = np.zeros(len(scores), dtype=bool)
            rated[self.ratings_.indices[slice(*self.ratings_.indptr[user : user + 2])]] = True
            order = order[~rated[order]]
        return order[:n_wanted]

    def score(self, ratings: Any) -> float:
        """Return the value of the measure for ratings by the same users, averaged over users.

        Parameters
        ----------
        ratings : (n_users, n_items), sparse
            Ratings that were held out of the fit. Each user's are ranked among themselves.
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
        return trainable(self.measure).overall(R.data, scores, queries)

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

    def _check_size(self, R: Matrix) -> int:
        n_components = check_count("n_components", self.n_components)
        if n_components > min(R.shape):
            raise InvalidInputError(
                "`n_components` must not exceed the number of users or that of items: got "
                f"{n_components}, and ratings of {R.shape[1]} items by {R.shape[0]} users."
            )
        return n_components

    def _rule(self) -> Rule:
        tol = check_positive("tol", self.tol, "It is the share that a sweep must gain.")
        return Rule(tol, check_count("max_iter", self.max_iter), gap=min(0.1, 10.0 * tol))

    def _settle_c(self, lesson: Ratings, start: Factors, rng: np.random.Generator) -> float:
        if isinstance(self.C, str) and self.C == "scale":
            return SCALE * onset_of_factors(lesson, start, rng)
        return check_positive("C", self.C, "Choose a positive value or 'scale'.")

    def _learn(self, lesson: Ratings, start: Factors, rng: np.random.Generator) -> Factorization:
        rule = self._rule()
        with half_steps_shown(self.progress, rule.max_sweeps) as on_step:
            found = factorize(lesson, self.C_, start, rule, on_step, rng)
        warn_unless_converged(found, rule)
        warn_if_vanished(lesson, found, self.C_)
        return found

    def _keep(self, R: Matrix, users: IntArray, found: Factorization) -> Self:
        self.user_factors_ = np.zeros((R.shape[0], found.factors.U.shape[1]))
        self.user_factors_[users] = found.factors.U
        self.item_factors_, self.item_bias_ = found.factors.V, found.factors.bias
        self.objective_, self.n_iter_ = np.array(found.objectives), found.n_sweeps
        self.ratings_, self.n_features_in_ = R, R.shape[1]
        self.ignored_users_ = R.shape[0] - len(users)
        return self


def _check_index(name: str, index: ArrayLike, length: int) -> IntArray:
    values = np.asarray(index)
    if values.dtype.kind not in "iu" or ((values < 0) | (values >= length)).any():
        raise InvalidInputError(
            f"`{name}` must be whole numbers from 0 to {length - 1}: got {index!r}."
        )
    return values.astype(np.intp)
